//! Grouped products by codes: bits, numbers that spoil, wrong bounds, epilogues, and what does not fit.

use rocfire_fusion::Epilogue;
use rocfire_hal::Layout;

use super::*;
use crate::graphs::Maker;
use crate::quant::q_matmul::written::Coded;

/// `count` matrices of `k` by `n`, `of` what their codes are made of.
fn words(device: &Device, [count, k, n]: [usize; 3], of: impl Fn(usize) -> u8) -> Tensor {
    upload(device, &[count, k, n], DType::U8, &(0..count * k * n).map(of).collect::<Vec<_>>())
}

/// How matrices lie that have whole columns one after the other, or whole rows.
fn lies([count, k, n]: [usize; 3], along_k: bool) -> Layout {
    let strides = if along_k { [k * n, 1, k] } else { [k * n, n, 1] }.map(|stride| stride as i64);
    Layout::strided(&[count, k, n], &strides, 0).unwrap()
}

/// A code of E4M3 that is a number.
fn code(at: usize) -> u8 {
    [0x38, 0xb4, 0x21, 0x47, 0x05, 0xc1, 0x80][at * 5 % 7]
}

#[test]
fn a_row_of_a_group_has_the_bits_that_it_would_have_alone() {
    let device = device();
    let (n, k) = (64, 192);
    for (dtype, lies_along_k) in [(DType::BF16, false), (DType::F16, true), (DType::BF16, true), (DType::F32, false)] {
        let words = words(&device, [3, k, n], code);
        let view = words.view().with_layout(lies([3, k, n], lies_along_k));
        let scales = tensor(&device, &[3, 2, 1], DType::F32, &[0.3, 0.7, 1.1, 0.9, 0.2, 1.7], Lie::Plain);
        let layout = CodeLayout::bytes(Format::E4M3);
        let scales = Scales { view: scales.view(), kind: ScaleKind::F32, block: &[1, 128, 128], global: None };
        let w = CodedMatrix { words: view.unwrap(), layout: &layout, scales: Some(&scales) };
        let all = values(190, k);
        let product = |rows: std::ops::Range<usize>, ends: [i32; 2]| {
            let a = tensor(&device, &[rows.len(), k], dtype, &all[rows.start * k..rows.end * k], Lie::Plain);
            let mut c = Tensor::empty(&device, &[rows.len(), n], dtype).unwrap();
            let offsets = counted(&device, &[0, ends[0], ends[1], rows.len() as i32]);
            let groups = GemmGroups::Offsets(offsets.view());
            q_matmul_grouped(device.stream(), a.view(), &w, &groups, c.view_mut()).unwrap();
            c.to_bytes().unwrap()
        };
        // Tiles of every height: of 60 rows a group in the mean, of 24, and of one.
        let many = product(0..180, [70, 130]);
        let row_bytes = many.len() / 180;
        let some = product(70..142, [0, 60]);
        assert_eq!(some[..], many[70 * row_bytes..142 * row_bytes], "{dtype} {lies_along_k}");
        for row in [70, 99, 129] {
            let alone = product(row..row + 1, [0, 1]);
            assert_eq!(alone[..], many[row * row_bytes..][..row_bytes], "{dtype} {lies_along_k}, row {row}");
        }
    }
}

/// Three groups, the second of no rows, by an oracle in f64, of scales that are each group's.
fn check(device: &Device, dtype: DType, [n, k]: [usize; 2], [first, rows]: [usize; 2]) {
    let words = words(device, [3, k, n], code);
    let scales: Vec<f64> = (0..3 * k.div_ceil(32)).map(|at| (1 + at * 5 % 7) as f64 / 8.0).collect();
    let held = tensor(device, &[3, k.div_ceil(32), 1], DType::F32, &scales, Lie::Plain);
    let own = Scales { view: held.view(), kind: ScaleKind::F32, block: &[1, 32, n], global: None };
    let layout = CodeLayout::bytes(Format::E4M3);
    let w = CodedMatrix { words: words.view(), layout: &layout, scales: Some(&own) };
    let (all, offsets) = (values(rows, k), counted(device, &[0, first, first, rows].map(|row| row as i32)));
    let a = tensor(device, &[rows, k], dtype, &all, Lie::Plain);
    let mut c = Tensor::empty(device, &[rows, n], dtype).unwrap();
    q_matmul_grouped(device.stream(), a.view(), &w, &GemmGroups::Offsets(offsets.view()), c.view_mut()).unwrap();
    let weight = |group: usize, row: usize, column: usize| {
        let code = code((group * k + row) * n + column);
        decode(Format::E4M3, code.into()) * scales[group * k.div_ceil(32) + row / 32]
    };
    // What the type holds of A.
    let held = read(&a);
    let want: Vec<f64> = coordinates(&[rows, n])
        .map(|at| (0..k).map(|i| held[at[0] * k + i] * weight(if at[0] < first { 0 } else { 2 }, i, at[1])).sum())
        .collect();
    crate::testing::assert_close(&read(&c), &want, dtype, &(dtype, n, k));
}

#[test]
fn groups_are_scaled_by_their_own_scales() {
    for dtype in [DType::BF16, DType::F16, DType::F32] {
        check(&device(), dtype, [64, 96], [2, 5]);
    }
}

#[test]
fn groups_without_a_matrix_unit_are_the_oracles() {
    // Strips over several chunks of K, the last one cut off, and tiles.
    let device = crate::testing::device_without_matrix_unit();
    for size in [[64, 1056], [33, 70]] {
        check(&device, DType::F32, size, [2, 5]);
    }
}

#[test]
fn weights_of_many_rows_are_written_out() {
    // 257 rows a group in the mean, and one less.
    for rows in [771, 765] {
        check(&device(), DType::BF16, [40, 64], [500, rows]);
    }
}

#[test]
fn parts_of_the_groups_are_the_whole() {
    let device = device();
    let (count, n, k, each) = (3, 24, 64, 2);
    let words = words(&device, [count, k, n], code);
    let scales = tensor(&device, &[count, 1, 1], DType::F32, &[0.5, 1.5, 0.25], Lie::Plain);
    let layout = CodeLayout::bytes(Format::E4M3);
    let scales = Scales { view: scales.view(), kind: ScaleKind::F32, block: &[1, k, n], global: None };
    let w = CodedMatrix { words: words.view(), layout: &layout, scales: Some(&scales) };
    let a = tensor(&device, &[12, k], DType::BF16, &values(12, k), Lie::Plain);
    let in_groups = a.view().with_layout(Layout::contiguous(&[count, 4, k]).unwrap()).unwrap();
    let order = counted(&device, &(0..12).map(|place| (place * 7 + 3) % 24).collect::<Vec<_>>());
    let (bounds, counts) = (counted(&device, &[1, 6, 6, 11]), counted(&device, &[3, 0, 4]));
    for (a, groups) in [
        (a.view(), GemmGroups::Offsets(bounds.view())),
        (a.view(), GemmGroups::Choices { offsets: bounds.view(), order: order.view(), each }),
        (in_groups, GemmGroups::Counts(counts.view())),
    ] {
        let product = |at_once: usize| {
            let mut c = tensor(&device, &[12, n], DType::BF16, &vec![-7.0; 12 * n], Lie::Plain);
            let mut whole = c.view_mut();
            if let GemmGroups::Counts(_) = groups {
                whole = whole.with_layout(Layout::contiguous(&[count, 4, n]).unwrap()).unwrap();
            }
            let (c_of, sizes) = ((whole.view(), None), ([count, k, n], 256));
            Coded::Words(&w).multiply_groups(device.stream(), a, &groups, c_of, sizes, at_once).unwrap();
            c.to_bytes().unwrap()
        };
        let whole = product(count);
        for at_once in [1, 2] {
            assert_eq!(product(at_once), whole, "{groups:?}, {at_once} at once");
        }
    }
}

#[test]
fn what_is_no_number_spoils_its_row_or_its_column_of_one_group() {
    let device = device();
    let (n, k) = (32, 64);
    for (dtype, along_k) in [(DType::BF16, false), (DType::F32, false), (DType::BF16, true), (DType::F16, true)] {
        // A NaN of the second group's column 5; the third row is infinite at 7, the first NaN at 2.
        let none = if along_k { (n + 5) * k + 9 } else { (k + 9) * n + 5 };
        let words = words(&device, [2, k, n], |at| if at == none { 0x7f } else { 0x38 });
        let words = words.view().with_layout(lies([2, k, n], along_k)).unwrap();
        let layout = CodeLayout::bytes(Format::E4M3);
        let mut of_a = vec![1.0; 5 * k];
        (of_a[2], of_a[2 * k + 7]) = (f64::NAN, f64::INFINITY);
        let a = tensor(&device, &[5, k], dtype, &of_a, Lie::Plain);
        let mut c = Tensor::empty(&device, &[5, n], dtype).unwrap();
        let offsets = counted(&device, &[0, 3, 5]);
        let w = CodedMatrix { words, layout: &layout, scales: None };
        q_matmul_grouped(device.stream(), a.view(), &w, &GemmGroups::Offsets(offsets.view()), c.view_mut()).unwrap();
        for (at, got) in read(&c).into_iter().enumerate() {
            match (at / n, at % n) {
                (0, _) | (3 | 4, 5) => assert!(got.is_nan(), "{dtype} {at}: {got}"),
                (2, _) => assert_eq!(got, f64::INFINITY, "{dtype} {at}"),
                _ => assert_eq!(got, k as f64, "{dtype} {at}"),
            }
        }
    }
}

#[test]
fn bounds_and_choices_outside_of_what_there_is_are_held_inside_it() {
    let device = device();
    let (n, k) = (32, 64);
    let words = words(&device, [2, k, n], |at| if at < k * n { 0x38 } else { 0x40 });
    let layout = CodeLayout::bytes(Format::E4M3);
    let w = CodedMatrix { words: words.view(), layout: &layout, scales: None };
    let a = tensor(&device, &[3, k], DType::F16, &vec![1.0; 3 * k], Lie::Plain);
    let multiply = |groups: &GemmGroups<'_>, c: ViewMut<'_>| q_matmul_grouped(device.stream(), a.view(), &w, groups, c);
    assert_held_inside(&device, n, 64.0, multiply);
}

#[test]
fn an_epilogue_is_what_becomes_of_a_product() {
    let device = device();
    let stream = device.stream();
    let (n, k) = (48, 96);
    for (dtype, along_k) in [(DType::BF16, false), (DType::F32, false), (DType::BF16, true)] {
        let words = words(&device, [3, k, n], code);
        let layout = CodeLayout::bytes(Format::E4M3);
        let words = words.view().with_layout(lies([3, k, n], along_k)).unwrap();
        let w = CodedMatrix { words, layout: &layout, scales: None };
        let a = tensor(&device, &[4, k], dtype, &values(4, k), Lie::Plain);
        let factor = tensor(&device, &[7, n], dtype, &values(7, n), Lie::Plain);
        let (offsets, order) = (counted(&device, &[1, 3, 3, 7]), counted(&device, &[0, 7, 3, 2, 5, 1, 4]));
        let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: 2 };
        let empty = || tensor(&device, &[7, n], dtype, &vec![0.0; 7 * n], Lie::Plain);
        let (mut product, mut got) = (empty(), empty());
        q_matmul_grouped(stream, a.view(), &w, &groups, product.view_mut()).unwrap();
        let make = Maker::of("test", dtype);
        make.output(make.input(dtype) * make.input(dtype), dtype);
        let graph = make.finish();
        let (extents, inputs, outputs) = ([7, n], [factor.view()], [got.view_mut()]);
        let epilogue = Epilogue::new(&graph, &extents, &inputs, &[], &outputs).unwrap();
        q_matmul_grouped_fused(stream, a.view(), &w, &groups, &epilogue).unwrap();
        let want: Vec<f64> = read(&product).iter().zip(read(&factor)).map(|(x, y)| x * y).collect();
        crate::testing::assert_close(&read(&got), &want, dtype, &dtype);
        assert!(want.iter().any(|&x| x.abs() > 0.1));
    }
}

#[test]
fn grouped_products_that_do_not_fit_are_named() {
    let device = device();
    let empty = |shape: &[usize], dtype| Tensor::empty(&device, shape, dtype).unwrap();
    let product = |(a, dtype): (&[usize; 2], DType),
                   words: &[usize],
                   block: &[usize],
                   c: &[usize],
                   bounds: usize,
                   order: Option<usize>| {
        let (own_a, own_words, mut own_c) = (empty(a, dtype), empty(words, DType::U8), empty(c, dtype));
        let grid: Vec<usize> = match block {
            [] => vec![1],
            _ => words.iter().zip(block).map(|(extent, block)| extent.div_ceil(*block)).collect(),
        };
        let (scales, bounds) = (empty(&grid, DType::F32), empty(&[bounds], DType::I32));
        let order = order.map(|choices| empty(&[choices], DType::I32));
        let groups = match &order {
            Some(order) => GemmGroups::Choices { offsets: bounds.view(), order: order.view(), each: 2 },
            None => GemmGroups::Offsets(bounds.view()),
        };
        let layout = CodeLayout::bytes(Format::I8);
        let scales = Scales { view: scales.view(), kind: ScaleKind::F32, block, global: None };
        let w = CodedMatrix { words: own_words.view(), layout: &layout, scales: Some(&scales) };
        let result = q_matmul_grouped(device.stream(), own_a.view(), &w, &groups, own_c.view_mut());
        result.unwrap_err().to_string()
    };
    let half = DType::F16;
    for (error, expected) in [
        (product((&[3, 5], half), &[2, 4, 8], &[], &[3, 8], 3, None), "a must be [rows, 4]"),
        (product((&[3, 4], half), &[2, 4, 8], &[], &[3, 7], 3, None), "c must be [3] by 8"),
        (product((&[3, 4], half), &[4, 8], &[], &[3, 8], 3, None), "words must be three axes"),
        (product((&[3, 4], half), &[2, 4, 8], &[], &[3, 8], 2, None), "groups must be contiguous [3]"),
        (product((&[3, 4], half), &[4, 4, 8], &[2, 4, 8], &[3, 8], 5, None), "block must be scales of one group each"),
        (product((&[3, 4], half), &[2, 4, 8], &[], &[5, 8], 3, Some(6)), "c must be [6] by 8"),
        (product((&[3, 0], half), &[2, 0, 8], &[], &[3, 8], 3, None), "words must be at least one code along K"),
        (product((&[3, 4], DType::F64), &[2, 4, 8], &[], &[3, 8], 3, None), "f64"),
    ] {
        assert!(error.contains(expected), "{error:?} says not {expected:?}");
    }
}
