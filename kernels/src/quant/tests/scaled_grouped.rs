//! Grouped products of codes by codes: bits, wrong bounds, and what does not fit.

use super::*;

/// Bytes that are finite numbers of every format of 8 bits.
fn bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| [0x38, 0xb4, 0x21, 0x47, 0x05, 0xc1, 0x70][(at * 5 + at / 7 * seed + seed) % 7]).collect()
}

fn scales(device: &Device, shape: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|at| (1 + at * 5 % 7) as f32 / 8.0).collect();
    upload(device, shape, DType::F32, &values)
}

#[test]
fn a_row_of_a_group_has_the_bits_of_a_product_alone() {
    let device = device();
    // As many groups, of no row, of one and of more than a tile of every height; by row and by block, and bytes that are not aligned.
    let by_row: [[usize; 2]; 2] = [[1, 640], [1, 640]];
    let by_block = [[1, 128], [128, 128]];
    for (turn, (format, [n, k], [of_a, of_b], rows)) in [
        (Format::I8, [40, 640], by_row, [1, 0, 3]),
        (Format::E4M3Fnuz, [130, 640], by_block, [1, 0, 3]),
        (Format::E4M3Fnuz, [40, 640], by_row, [40, 3, 70]),
        (Format::E4M3, [70, 384], by_block, [40, 3, 70]),
        (Format::I8, [33, 31], [[1, 31], [1, 31]], [5, 1, 2]),
    ]
    .into_iter()
    .enumerate()
    {
        let (count, all) = (rows.len(), rows.iter().sum::<usize>());
        let a = upload(&device, &[all, k], DType::U8, &bytes(all * k, turn + 1));
        let w = upload(&device, &[count, n, k], DType::U8, &bytes(count * n * k, turn + 2));
        let a_scales = scales(&device, &[all.div_ceil(of_a[0]), k.div_ceil(of_a[1])]);
        let grid = [n.div_ceil(of_b[0]), k.div_ceil(of_b[1])];
        let w_scales = scales(&device, &[count, grid[0], grid[1]]);
        let kind = ScaleKind::F32;
        let stack = CodedStack { format, codes: w.view(), scales: w_scales.view(), kind, block: of_b };
        let weight = PreshuffledStack::new(device.stream(), format, &w).unwrap();
        assert_eq!((weight.is_laid_out(), weight.shape()), (true, [count, n, k]));
        let of_all = CodedRows { format, codes: a.view(), scales: a_scales.view(), kind, block: of_a };
        let ends: Vec<i32> = (0..=count).map(|group| rows[..group].iter().sum::<usize>() as i32).collect();
        let offsets = counted(&device, &ends);
        // By choices in a turn that meets all, each twice.
        let order: Vec<i32> = (0..2 * all).map(|place| (place * 7 % all * 2 + place % 2) as i32).collect();
        let twice: Vec<i32> = ends.iter().map(|end| 2 * end).collect();
        let (of_order, twice) = (counted(&device, &order), counted(&device, &twice));
        let plain = GemmGroups::Offsets(offsets.view());
        let chosen = GemmGroups::Choices { offsets: twice.view(), order: of_order.view(), each: 2 };
        let product = |groups: &GemmGroups<'_>, lines: usize| {
            let mut c = Tensor::empty(&device, &[lines, n], DType::F32).unwrap();
            q_matmul_scaled_grouped(device.stream(), &of_all, &stack, groups, c.view_mut()).unwrap();
            let got = c.to_bytes().unwrap();
            let b = PreshuffledMatrices { weight: &weight, scales: w_scales.view(), kind, block: of_b };
            let mut c = Tensor::empty(&device, &[lines, n], DType::F32).unwrap();
            q_matmul_preshuffled_grouped(device.stream(), &of_all, &b, groups, c.view_mut()).unwrap();
            assert_eq!(c.to_bytes().unwrap(), got, "{format:?}, laid out");
            got
        };
        let (got, got_chosen) = (product(&plain, all), product(&chosen, 2 * all));
        for group in 0..count {
            let one = |of: &Tensor, extents: [usize; 2]| {
                let layout = of.layout().slice(0, group, group + 1, 1).unwrap().reshape(&extents).unwrap();
                of.clone().with_layout(layout).unwrap()
            };
            let (codes, own_scales) = (one(&w, [n, k]), one(&w_scales, grid));
            let b = CodedRows { format, codes: codes.view(), scales: own_scales.view(), kind, block: of_b };
            let mut alone = Tensor::empty(&device, &[all, n], DType::F32).unwrap();
            q_matmul_scaled(device.stream(), &of_all, &b, alone.view_mut()).unwrap();
            let alone = alone.to_bytes().unwrap();
            let line = |of: &[u8], row: usize| of[row * n * 4..(row + 1) * n * 4].to_vec();
            for row in ends[group] as usize..ends[group + 1] as usize {
                assert_eq!(line(&got, row), line(&alone, row), "{format:?}, row {row} of group {group}");
                for place in [2 * row, 2 * row + 1] {
                    let row = order[place] as usize / 2;
                    assert_eq!(line(&got_chosen, place), line(&alone, row), "{format:?}, place {place}");
                }
            }
        }
    }
}

#[test]
fn bounds_and_choices_outside_of_what_there_is_are_held_inside_it() {
    let device = device();
    let (n, k, kind) = (32, 64, ScaleKind::F32);
    let w =
        upload(&device, &[2, n, k], DType::U8, &(0..2 * n * k).map(|at| 1 + (at / (n * k)) as u8).collect::<Vec<_>>());
    let a = upload(&device, &[3, k], DType::U8, &vec![1u8; 3 * k]);
    let ones = upload(&device, &[3], DType::F32, &[1f32; 3]);
    let of = |shape: &[usize]| {
        let strides = vec![0; shape.len()];
        ones.view().with_layout(rocfire_hal::Layout::strided(shape, &strides, 0).unwrap()).unwrap()
    };
    let block = [1, k];
    let rows = CodedRows { format: Format::I8, codes: a.view(), scales: of(&[3, 1]), kind, block };
    let stack = CodedStack { format: Format::I8, codes: w.view(), scales: of(&[2, n, 1]), kind, block };
    let multiply =
        |groups: &GemmGroups<'_>, c: ViewMut<'_>| q_matmul_scaled_grouped(device.stream(), &rows, &stack, groups, c);
    assert_held_inside(&device, n, 64.0, multiply);
}

#[test]
fn grouped_products_of_codes_that_do_not_fit_are_named() {
    let device = device();
    let empty = |shape: &[usize], dtype| Tensor::empty(&device, shape, dtype).unwrap();
    struct Asked<'a> {
        a: &'a [usize],
        a_scales: &'a [usize],
        a_block: [usize; 2],
        w: &'a [usize],
        w_scales: &'a [usize],
        w_block: [usize; 2],
        c: &'a [usize],
        dtype: DType,
        bounds: usize,
    }
    let fits = || Asked {
        a: &[3, 300],
        a_scales: &[3, 3],
        a_block: [1, 128],
        w: &[2, 8, 300],
        w_scales: &[2, 1, 3],
        w_block: [128, 128],
        c: &[3, 8],
        dtype: DType::BF16,
        bounds: 3,
    };
    let product = |asked: Asked<'_>| {
        let (a, a_scales) = (empty(asked.a, DType::U8), empty(asked.a_scales, DType::F32));
        let (w, w_scales) = (empty(asked.w, DType::U8), empty(asked.w_scales, DType::F32));
        let (bounds, mut c) = (counted(&device, &vec![0; asked.bounds]), empty(asked.c, asked.dtype));
        let (format, kind) = (Format::E4M3, ScaleKind::F32);
        let a = CodedRows { format, codes: a.view(), scales: a_scales.view(), kind, block: asked.a_block };
        let b = CodedStack { format, codes: w.view(), scales: w_scales.view(), kind, block: asked.w_block };
        let groups = GemmGroups::Offsets(bounds.view());
        q_matmul_scaled_grouped(device.stream(), &a, &b, &groups, c.view_mut())
    };
    product(fits()).unwrap();
    for (asked, expected) in [
        (Asked { a: &[3, 299], ..fits() }, "b.codes must be 299 codes to a row, got 300"),
        (Asked { a_scales: &[3, 2], ..fits() }, "a.scales must be [3, 3], got [3, 2]"),
        // Scales of whole blocks alone.
        (Asked { w_scales: &[2, 1, 2], ..fits() }, "b.scales must be [1, 3], got [1, 2]"),
        (Asked { w_scales: &[1, 1, 3], ..fits() }, "b.scales must be those of 2 groups"),
        (Asked { a_scales: &[3, 7], a_block: [1, 48], ..fits() }, "a.block must be rows, and a multiple of 32 columns"),
        (Asked { w_scales: &[2, 1, 4], w_block: [128, 96], ..fits() }, "b.block must be columns of which 128"),
        (Asked { w: &[8, 300], ..fits() }, "b.codes must be three axes"),
        (Asked { c: &[3, 9], ..fits() }, "c must be [3] by 8"),
        (Asked { bounds: 2, ..fits() }, "groups must be contiguous [3]"),
        (Asked { dtype: DType::F64, ..fits() }, "f64"),
    ] {
        let error = product(asked).unwrap_err().to_string();
        assert!(error.contains("q_matmul_scaled_grouped"), "{error:?} does not say by what");
        assert!(error.contains(expected), "{error:?} says not {expected:?}");
    }
}
