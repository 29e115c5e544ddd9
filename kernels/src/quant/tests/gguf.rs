//! Grouped products by blocks of GGUF: bits, numbers that spoil, wrong bounds, epilogues, and what does not fit. Values of every type are
//! cases.

use rocfire_fusion::Epilogue;
use rocfire_hal::Layout;

use super::*;
use crate::graphs::Maker;

/// Blocks of Q8_0 of `[groups, n, k]`, whose scales are `1/64` but where `scale` says otherwise, by the number of the block.
fn blocks(device: &Device, [count, n, k]: [usize; 3], scale: impl Fn(usize) -> Option<f32>) -> Tensor {
    let block = |at: usize| {
        let scale = f16::from_f32(scale(at).unwrap_or(1.0 / 64.0)).to_le_bytes();
        scale.into_iter().chain((0..32).map(move |i| (at * 37 + i * 11) as u8))
    };
    let bytes: Vec<u8> = (0..count * n * k / 32).flat_map(block).collect();
    upload(device, &[count, n, k / 32 * 34], DType::U8, &bytes)
}

#[test]
fn a_row_has_the_bits_that_it_would_have_among_others() {
    let device = device();
    let (n, k) = (40, 192);
    // Rows of 16 bits that are no vectors go where those of f32 go.
    for (dtype, lie) in [(DType::BF16, Lie::Sparse), (DType::F16, Lie::Swapped), (DType::F32, Lie::Plain)] {
        let blocks = blocks(&device, [3, n, k], |_| None);
        let w = GgufMatrices { blocks: blocks.view(), kind: Gguf::Q8_0 };
        let all = values(180, k);
        let product = |rows: std::ops::Range<usize>, ends: [i32; 2]| {
            let a = tensor(&device, &[rows.len(), k], dtype, &all[rows.start * k..rows.end * k], lie);
            let mut c = Tensor::empty(&device, &[rows.len(), n], dtype).unwrap();
            let offsets = counted(&device, &[0, ends[0], ends[1], rows.len() as i32]);
            let groups = GemmGroups::Offsets(offsets.view());
            gguf_matmul_grouped(device.stream(), a.view(), &w, &groups, c.view_mut()).unwrap();
            c.to_bytes().unwrap()
        };
        // Tiles of both heights; by lanes one row, and some whose neighbours are four or fewer.
        let (many, alone) = (product(0..180, [70, 130]), product(100..101, [0, 1]));
        let row_bytes = alone.len();
        let some = product(70..90, [0, 20]);
        assert_eq!(some[..], many[70 * row_bytes..90 * row_bytes], "{dtype}");
        let few = product(97..103, [0, 6]);
        assert_eq!(few[3 * row_bytes..4 * row_bytes], alone[..], "{dtype}");
    }
}

/// Blocks of any bytes for a line of each of `n` columns, with scales of 1/64 where the type has them.
fn any_blocks(device: &Device, kind: Gguf, [n, in_line]: [usize; 2]) -> Tensor {
    let scales: &[usize] = match kind {
        Gguf::Q4_0 | Gguf::Q5_0 | Gguf::Q8_0 => &[0],
        Gguf::Q4_1 | Gguf::Q5_1 | Gguf::Q4K | Gguf::Q5K => &[0, 2],
        Gguf::Q2K => &[80, 82],
        Gguf::Q3K => &[108],
        Gguf::Q6K => &[208],
    };
    let block = |number: usize| {
        let mut block: Vec<u8> = (0..kind.bytes()).map(|i| (number * 37 + i * (i + 11)) as u8).collect();
        for &at in scales {
            block[at..at + 2].copy_from_slice(&f16::from_f32(1.0 / 64.0).to_le_bytes());
        }
        block
    };
    let bytes: Vec<u8> = (0..n * in_line).flat_map(block).collect();
    upload(device, &[1, n, in_line * kind.bytes()], DType::U8, &bytes)
}

#[test]
fn a_row_of_few_has_the_bits_that_it_would_have_alone() {
    let device = device();
    for (dtype, kind, n, in_line) in [
        (DType::BF16, Gguf::Q4K, 40, 5),
        (DType::F16, Gguf::Q6K, 33, 3),
        (DType::BF16, Gguf::Q8_0, 40, 9),
        (DType::F16, Gguf::Q4_1, 17, 7),
    ] {
        let k = in_line * kind.weights();
        let blocks = any_blocks(&device, kind, [n, in_line]);
        let w = GgufMatrices { blocks: blocks.view(), kind };
        let all = values(32, k);
        let product = |rows: std::ops::Range<usize>| {
            let a = tensor(&device, &[rows.len(), k], dtype, &all[rows.start * k..rows.end * k], Lie::Plain);
            let mut c = Tensor::empty(&device, &[rows.len(), n], dtype).unwrap();
            let offsets = counted(&device, &[0, rows.len() as i32]);
            let groups = GemmGroups::Offsets(offsets.view());
            gguf_matmul_grouped(device.stream(), a.view(), &w, &groups, c.view_mut()).unwrap();
            c.to_bytes().unwrap()
        };
        let many = product(0..32);
        for rows in [21..22, 20..23, 13..22, 5..29] {
            let row_bytes = n * dtype.size_bytes();
            assert_eq!(
                product(rows.clone())[..],
                many[rows.start * row_bytes..rows.end * row_bytes],
                "{kind:?} {rows:?}"
            );
        }
    }
}

#[test]
fn what_is_no_number_spoils_its_row_or_its_column_of_one_group() {
    let device = device();
    let (n, k, in_line) = (20, 64, 2);
    // By codes as operands or, where there is no unit or of f32, by lanes and by tiles, whose last round K does not fill.
    for (dtype, rows) in [(DType::BF16, 5), (DType::F32, 5), (DType::F16, 15), (DType::F32, 15)] {
        // The second group's column 5.
        let spoilt = (n + 5) * in_line + 1;
        let blocks = blocks(&device, [2, n, k], |at| (at == spoilt).then_some(f32::NAN));
        let mut of_a = values(rows, k);
        (of_a[2], of_a[2 * k + 7]) = (f64::NAN, f64::INFINITY);
        let a = tensor(&device, &[rows, k], dtype, &of_a, Lie::Plain);
        let mut c = Tensor::empty(&device, &[rows, n], dtype).unwrap();
        let offsets = counted(&device, &[0, 3, rows as i32]);
        let w = GgufMatrices { blocks: blocks.view(), kind: Gguf::Q8_0 };
        gguf_matmul_grouped(device.stream(), a.view(), &w, &GemmGroups::Offsets(offsets.view()), c.view_mut()).unwrap();
        for (at, got) in read(&c).into_iter().enumerate() {
            match (at / n, at % n) {
                (0, _) => assert!(got.is_nan(), "{dtype} {at}: {got}"),
                (row, 5) if row >= 3 => assert!(got.is_nan(), "{dtype} {at}: {got}"),
                // An infinity by a weight of zero is none.
                (2, _) => assert!(!got.is_finite(), "{dtype} {at}: {got}"),
                _ => assert!(got.is_finite(), "{dtype} {at}: {got}"),
            }
        }
    }
}

#[test]
fn bounds_and_choices_outside_of_what_there_is_are_held_inside_it() {
    let device = device();
    let (n, k) = (24, 32);
    // The second group's numbers are twice the first's.
    let of = |at: usize| Some(if at < n { 1.0 / 64.0 } else { 1.0 / 32.0 });
    let block = |at: usize| f16::from_f32(of(at).unwrap()).to_le_bytes().into_iter().chain([64; 32]);
    let bytes: Vec<u8> = (0..2 * n).flat_map(block).collect();
    let blocks = upload(&device, &[2, n, 34], DType::U8, &bytes);
    let w = GgufMatrices { blocks: blocks.view(), kind: Gguf::Q8_0 };
    let a = tensor(&device, &[3, k], DType::F16, &vec![1.0; 3 * k], Lie::Plain);
    let multiply =
        |groups: &GemmGroups<'_>, c: ViewMut<'_>| gguf_matmul_grouped(device.stream(), a.view(), &w, groups, c);
    assert_held_inside(&device, n, 32.0, multiply);
}

#[test]
fn an_epilogue_is_what_becomes_of_a_product() {
    let device = device();
    let stream = device.stream();
    let (n, k) = (48, 96);
    // By codes as operands or, of f32, by lanes and by tiles.
    for (dtype, places) in [(DType::BF16, 7), (DType::F32, 7), (DType::BF16, 20), (DType::F32, 20)] {
        let blocks = blocks(&device, [3, n, k], |_| None);
        let w = GgufMatrices { blocks: blocks.view(), kind: Gguf::Q8_0 };
        let a = tensor(&device, &[10, k], dtype, &values(10, k), Lie::Plain);
        let factor = tensor(&device, &[places, n], dtype, &values(places, n), Lie::Plain);
        let order: Vec<i32> = (0..places as i32).map(|place| place * 7 % 20).collect();
        let (offsets, order) = (counted(&device, &[1, 3, 3, places as i32]), counted(&device, &order));
        let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: 2 };
        let empty = || tensor(&device, &[places, n], dtype, &vec![0.0; places * n], Lie::Plain);
        let (mut product, mut got) = (empty(), empty());
        gguf_matmul_grouped(stream, a.view(), &w, &groups, product.view_mut()).unwrap();
        let make = Maker::of("test", dtype);
        make.output(make.input(dtype) * make.input(dtype), dtype);
        let graph = make.finish();
        let (extents, inputs, outputs) = ([places, n], [factor.view()], [got.view_mut()]);
        let epilogue = Epilogue::new(&graph, &extents, &inputs, &[], &outputs).unwrap();
        gguf_matmul_grouped_fused(stream, a.view(), &w, &groups, &epilogue).unwrap();
        let want: Vec<f64> = read(&product).iter().zip(read(&factor)).map(|(x, y)| x * y).collect();
        crate::testing::assert_close(&read(&got), &want, dtype, &dtype);
        assert!(want.iter().any(|&x| x.abs() > 0.1));
    }
}

#[test]
fn blocks_that_do_not_fit_are_named() {
    let device = device();
    let empty = |shape: &[usize], dtype| Tensor::empty(&device, shape, dtype).unwrap();
    let product = |(a, dtype): (&[usize; 2], DType), own: &Layout, kind: Gguf, c: (&[usize], DType), bounds: usize| {
        let (own_a, room, mut own_c) = (empty(a, dtype), empty(&[4096], DType::U8), empty(c.0, c.1));
        let bounds = empty(&[bounds], DType::I32);
        let w = GgufMatrices { blocks: room.view().with_layout(*own).unwrap(), kind };
        let groups = GemmGroups::Offsets(bounds.view());
        gguf_matmul_grouped(device.stream(), own_a.view(), &w, &groups, own_c.view_mut()).unwrap_err().to_string()
    };
    let (half, whole) = (DType::F16, |shape: &[usize]| Layout::contiguous(shape).unwrap());
    let strided = |strides: [i64; 3], first: i64| Layout::strided(&[2, 4, 68], &strides, first).unwrap();
    let lines = whole(&[2, 4, 68]);
    let of_k = Layout::strided(&[2, 4, 144], &[584, 146, 1], 0).unwrap();
    for (error, expected) in [
        (product((&[3, 60], half), &lines, Gguf::Q8_0, (&[3, 4], half), 3), "a must be K in whole blocks of Q8_0"),
        (product((&[3, 32], half), &lines, Gguf::Q8_0, (&[3, 4], half), 3), "a must be [rows, 64]"),
        (
            product((&[3, 64], half), &lines, Gguf::Q4_0, (&[3, 4], half), 3),
            "blocks must be lines of whole blocks of Q4_0",
        ),
        (product((&[3, 256], half), &lines, Gguf::Q4K, (&[3, 4], half), 3), "Q4_K, 144 bytes each, got 68 bytes"),
        (product((&[3, 0], half), &whole(&[2, 4, 0]), Gguf::Q4K, (&[3, 4], half), 3), "got 0 bytes"),
        (product((&[3, 64], half), &whole(&[4, 68]), Gguf::Q8_0, (&[3, 4], half), 3), "blocks must be three axes"),
        (product((&[3, 64], half), &strided([272, 68, 2], 0), Gguf::Q8_0, (&[3, 4], half), 3), "bytes side by side"),
        (
            product((&[3, 64], half), &strided([280, 69, 1], 0), Gguf::Q8_0, (&[3, 4], half), 3),
            "multiples of 2 bytes apart",
        ),
        (
            product((&[3, 64], half), &strided([272, 68, 1], 2), Gguf::Q8_0, (&[3, 4], half), 3),
            "at a multiple of 4 bytes",
        ),
        (product((&[3, 256], half), &of_k, Gguf::Q4K, (&[3, 4], half), 3), "multiples of 16 bytes apart"),
        (product((&[3, 64], half), &lines, Gguf::Q8_0, (&[3, 5], half), 3), "c must be [3] by 4"),
        (product((&[3, 64], half), &lines, Gguf::Q8_0, (&[3, 4], DType::BF16), 3), "c must be f16"),
        (product((&[3, 64], half), &lines, Gguf::Q8_0, (&[3, 4], half), 2), "groups must be contiguous [3]"),
        (product((&[3, 64], DType::F64), &lines, Gguf::Q8_0, (&[3, 4], DType::F64), 3), "f64"),
    ] {
        assert!(error.contains(expected), "{error:?} says not {expected:?}");
    }
    let words = empty(&[2, 4, 17], DType::U32);
    let (a, mut c, bounds) = (empty(&[3, 64], half), empty(&[3, 4], half), empty(&[3], DType::I32));
    let w = GgufMatrices { blocks: words.view(), kind: Gguf::Q8_0 };
    let groups = GemmGroups::Offsets(bounds.view());
    let error = gguf_matmul_grouped(device.stream(), a.view(), &w, &groups, c.view_mut()).unwrap_err().to_string();
    assert!(error.contains("blocks must be u8"), "{error}");
}
