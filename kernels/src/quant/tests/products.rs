//! `q_matmul` against sums in f64 over the numbers that codes stand for.

use super::*;

/// M, N, K; the packed axis; the word; the block of the scales.
type Shaped = ([usize; 3], Option<usize>, DType, &'static [usize]);

/// Every path: skinny and strips with 1, 4 and 16 rows, tiles of either height, several chunks of K, tails, scales along K or not.
const SHAPED: [Shaped; 15] = [
    ([1, 64, 32], Some(1), DType::U32, &[]),
    ([1, 300, 700], Some(1), DType::U32, &[32, 1]),
    ([3, 131, 65], Some(1), DType::U32, &[1, 1]),
    ([4, 72, 96], None, DType::U8, &[8, 8]),
    ([16, 40, 530], Some(1), DType::U32, &[64, 4]),
    ([17, 70, 45], Some(1), DType::U32, &[]),
    ([33, 96, 160], Some(0), DType::U32, &[32, 1]),
    ([2, 33, 1100], Some(0), DType::U32, &[]),
    ([70, 130, 64], None, DType::U8, &[64, 1]),
    ([5, 9, 7], None, DType::U8, &[7, 3]),
    ([40, 24, 1030], Some(1), DType::U8, &[2, 8]),
    ([1, 1, 1], None, DType::U8, &[]),
    ([1, 96, 700], Some(1), DType::U32, &[32, 1]),
    ([4, 64, 600], Some(1), DType::U32, &[64, 1]),
    ([9, 64, 520], Some(1), DType::U32, &[]),
];

/// Random codes that are numbers, in words.
fn codes(numbers: &mut Numbers, layout: &CodeLayout, [k, n]: [usize; 2], word: DType) -> (Vec<u32>, Vec<u8>) {
    let bits = layout.format.bits();
    let finite = |code: u32| decode(layout.format, code).is_finite();
    let mut next = || loop {
        let code = numbers.below(1 << bits) as u32;
        if finite(code) {
            break code;
        }
    };
    let codes: Vec<u32> = (0..k * n).map(|_| next()).collect();
    let words_shape = layout.words_shape(&[k, n], word);
    let (size, per) = (word.size_bytes(), layout.per_word(word));
    let mut bytes = vec![0u8; words_shape.iter().product::<usize>() * size];
    for (index, &code) in codes.iter().enumerate() {
        let mut at = [index / n, index % n];
        let inside = layout.packed.map_or(0, |packed| {
            let inside = at[packed.axis] % per;
            at[packed.axis] /= per;
            inside
        });
        let bit = inside * bits;
        bytes[(at[0] * words_shape[1] + at[1]) * size + bit / 8] |= (code << (bit % 8)) as u8;
    }
    (codes, bytes)
}

fn check(device: &Device, turn: usize, (mnk, axis, word, block): Shaped) {
    let [m, n, k] = mnk;
    let mut numbers = Numbers::new(turn as u64 + 11);
    let sub_byte = [Format::I4, Format::E2M1, Format::I2];
    let format = match (axis, word) {
        (Some(_), DType::U8) => Format::E2M1,
        (Some(_), _) if turn.is_multiple_of(2) => sub_byte[turn / 2 % 3],
        _ => [Format::I8, Format::E4M3, Format::E5M2][turn % 3],
    };
    let dtype = [DType::BF16, DType::F16, DType::F32][turn % 3];
    let layout = match axis {
        Some(axis) => CodeLayout::packed(format, axis, [k, n][axis]),
        None => CodeLayout::bytes(format),
    };
    let (codes, bytes) = codes(&mut numbers, &layout, [k, n], word);
    let words = Tensor::from_bytes(device, &layout.words_shape(&[k, n], word), word, &bytes).unwrap();
    let grid = if block.is_empty() { vec![1] } else { vec![k.div_ceil(block[0]), n.div_ceil(block[1])] };
    // Brings E5M2's products into the range of f16.
    let unit = if format == Format::E5M2 { 2f64.powi(-16) } else { 1.0 };
    let scales: Vec<f64> = (0..grid.iter().product()).map(|n: usize| (1.0 + (n % 7) as f64 / 8.0) * unit).collect();
    let scale_tensor = tensor(device, &grid, DType::F32, &scales, Lie::Plain);
    let global = upload(device, &[1], DType::F32, &[0.5f32]);
    let own = Scales { view: scale_tensor.view(), kind: ScaleKind::F32, block, global: Some(global.view()) };
    let values = numbers.values(m * k, dtype);
    let a = tensor(device, &[m, k], dtype, &values, Lie::ALL[turn % 3]);
    let mut c = tensor(device, &[m, n], dtype, &vec![0.0; m * n], Lie::ALL[(turn + 1) % 3]);
    q_matmul(
        device.stream(),
        a.view(),
        &CodedMatrix { words: words.view(), layout: &layout, scales: Some(&own) },
        c.view_mut(),
    )
    .unwrap();
    let weight = |k: usize, column: usize| {
        let cell = if block.is_empty() { 0 } else { k / block[0] * grid[1] + column / block[1] };
        0.5 * scales[cell] * decode(format, codes[k * n + column])
    };
    let want: Vec<f64> =
        coordinates(&[m, n]).map(|at| (0..k).map(|i| values[at[0] * k + i] * weight(i, at[1])).sum()).collect();
    crate::testing::assert_close(&read(&c), &want, dtype, &(mnk, axis, word, block, format));
}

#[test]
fn products_are_the_oracles() {
    let device = device();
    for (turn, shaped) in SHAPED.into_iter().enumerate() {
        check(&device, turn, shaped);
    }
}

/// By a matrix unit: M, N, K; format; type of A; the block of the scales and their type.
type Few = ([usize; 3], Format, DType, &'static [usize], ScaleKind);

/// One row and tiles of them, up to several workgroups', one more, and so many that the weight is written out; a strip of columns, parts of one, and more; K of one slab, of
/// slices, of waves without any; blocks of scales of a slab and more, of columns too, and none. Words staged and not.
const FEW: [Few; 25] = [
    ([1, 128, 32], Format::I4, DType::BF16, &[32, 1], ScaleKind::F32),
    ([1, 528, 1184], Format::I4, DType::F16, &[32, 1], ScaleKind::F16),
    ([1, 272, 512], Format::I8, DType::BF16, &[128, 1], ScaleKind::F16),
    ([5, 288, 384], Format::I4, DType::BF16, &[96, 1], ScaleKind::BF16),
    ([8, 136, 640], Format::I4, DType::F16, &[], ScaleKind::F32),
    ([9, 76, 320], Format::I8, DType::F16, &[64, 1], ScaleKind::F32),
    ([16, 264, 256], Format::I4, DType::BF16, &[128, 4], ScaleKind::F16),
    ([16, 48, 192], Format::E4M3, DType::BF16, &[32, 1], ScaleKind::E4M3),
    ([17, 144, 224], Format::I4, DType::BF16, &[32, 1], ScaleKind::E8M0),
    ([33, 80, 96], Format::I8, DType::BF16, &[32, 2], ScaleKind::BF16),
    ([64, 160, 160], Format::E2M1, DType::F16, &[160, 1], ScaleKind::F32),
    ([12, 96, 288], Format::I2, DType::BF16, &[32, 1], ScaleKind::F16),
    ([6, 60, 128], Format::E5M2, DType::BF16, &[64, 1], ScaleKind::E8M0),
    ([65, 64, 64], Format::I4, DType::F16, &[32, 1], ScaleKind::F16),
    ([256, 72, 64], Format::I4, DType::BF16, &[32, 1], ScaleKind::F16),
    ([16, 288, 1088], Format::I4, DType::F16, &[64, 1], ScaleKind::F16),
    ([30, 176, 608], Format::I8, DType::BF16, &[], ScaleKind::F32),
    ([50, 416, 736], Format::I4, DType::BF16, &[32, 1], ScaleKind::F16),
    ([64, 256, 1024], Format::I2, DType::BF16, &[128, 1], ScaleKind::BF16),
    ([3, 288, 512], Format::I4, DType::BF16, &[128, 1], ScaleKind::F16),
    ([300, 288, 256], Format::I4, DType::F16, &[128, 1], ScaleKind::F16),
    ([64, 544, 1024], Format::I4, DType::F16, &[128, 1], ScaleKind::F16),
    ([40, 272, 2048], Format::I8, DType::BF16, &[64, 1], ScaleKind::F32),
    ([32, 320, 640], Format::E4M3, DType::F16, &[64, 2], ScaleKind::BF16),
    ([64, 576, 768], Format::E2M1, DType::BF16, &[256, 1], ScaleKind::E4M3),
];

fn check_few(device: &Device, turn: usize, (mnk, format, dtype, block, kind): Few) {
    let [m, n, k] = mnk;
    let mut numbers = Numbers::new(turn as u64 + 71);
    let layout = CodeLayout::packed(format, 1, n);
    let (codes, bytes) = codes(&mut numbers, &layout, [k, n], DType::U32);
    let words = Tensor::from_bytes(device, &layout.words_shape(&[k, n], DType::U32), DType::U32, &bytes).unwrap();
    let grid = if block.is_empty() { vec![1] } else { vec![k.div_ceil(block[0]), n.div_ceil(block[1])] };
    // Powers of two and their halves more, which every type has.
    let power = |n: usize| n / 2 % 5;
    let scales: Vec<f64> = (0..grid.iter().product())
        .map(|n: usize| {
            (1 << power(n)) as f64 / 64.0 * if kind == ScaleKind::E8M0 || n.is_multiple_of(2) { 1.0 } else { 1.5 }
        })
        .collect();
    let bytes: Vec<u8> = match kind {
        ScaleKind::E8M0 => scales.iter().map(|scale| (127.0 + scale.log2()) as u8).collect(),
        ScaleKind::E4M3 => {
            scales.iter().map(|&scale| encode(Format::E4M3, scale as f32, Rounding::Even, true) as u8).collect()
        }
        ScaleKind::F16 => scales.iter().flat_map(|&scale| f16::from_f64(scale).to_le_bytes()).collect(),
        ScaleKind::BF16 => scales.iter().flat_map(|&scale| bf16::from_f64(scale).to_le_bytes()).collect(),
        ScaleKind::F32 => scales.iter().flat_map(|&scale| (scale as f32).to_le_bytes()).collect(),
    };
    let scale_tensor = Tensor::from_bytes(device, &grid, kind.dtype(), &bytes).unwrap();
    let own = Scales { view: scale_tensor.view(), kind, block, global: None };
    let values = numbers.values(m * k, dtype);
    let a = tensor(device, &[m, k], dtype, &values, Lie::Plain);
    let mut c = tensor(device, &[m, n], dtype, &vec![0.0; m * n], Lie::ALL[turn % 3]);
    let matrix = CodedMatrix { words: words.view(), layout: &layout, scales: Some(&own) };
    q_matmul(device.stream(), a.view(), &matrix, c.view_mut()).unwrap();
    let weight = |row: usize, column: usize| {
        let cell = if block.is_empty() { 0 } else { row / block[0] * grid[1] + column / block[1] };
        scales[cell] * decode(format, codes[row * n + column])
    };
    let weights: Vec<f64> = coordinates(&[k, n]).map(|at| weight(at[0], at[1])).collect();
    let want: Vec<f64> =
        coordinates(&[m, n]).map(|at| (0..k).map(|i| values[at[0] * k + i] * weights[i * n + at[1]]).sum()).collect();
    crate::testing::assert_close(&read(&c), &want, dtype, &(mnk, format, block, kind));
}

#[test]
fn products_of_few_rows_are_the_oracles() {
    let device = device();
    for (turn, few) in FEW.into_iter().enumerate() {
        check_few(&device, turn, few);
    }
}

#[test]
fn an_infinite_activation_makes_no_nan_of_other_codes() {
    // What codes are decoded with must be gone before they are multiplied.
    let device = device();
    let (m, n, k) = (6, 128, 64);
    let layout = CodeLayout::packed(Format::I4, 1, n);
    let words = Tensor::from_bytes(&device, &[k, n / 8], DType::U32, &[0x13u8, 0x7f].repeat(k * n / 4)).unwrap();
    let mut values = vec![1.0; m * k];
    values[3] = f64::INFINITY;
    for dtype in [DType::F16, DType::BF16] {
        let a = tensor(&device, &[m, k], dtype, &values, Lie::Plain);
        let mut c = Tensor::empty(&device, &[m, n], dtype).unwrap();
        let matrix = CodedMatrix { words: words.view(), layout: &layout, scales: None };
        q_matmul(device.stream(), a.view(), &matrix, c.view_mut()).unwrap();
        let column = |column: usize| [3.0, 1.0, -1.0, 7.0][column % 4];
        let want: Vec<f64> =
            coordinates(&[m, n]).map(|at| column(at[1]) * if at[0] == 0 { f64::INFINITY } else { k as f64 }).collect();
        crate::testing::assert_close(&read(&c), &want, dtype, &dtype);
    }
}

#[test]
fn products_without_a_matrix_unit_are_the_oracles() {
    let device = crate::testing::device_without_matrix_unit();
    for turn in [5, 6, 8] {
        check(&device, turn, SHAPED[turn]);
    }
}

#[test]
fn slices_of_k_change_no_bit() {
    // One row of tiles is cut into slices, many are not: the first rows must be the same.
    let device = device();
    let mut numbers = Numbers::new(5);
    let (n, k) = (64, 1100);
    let layout = CodeLayout::packed(Format::I8, 1, n);
    let (_, bytes) = codes(&mut numbers, &layout, [k, n], DType::U32);
    let words = Tensor::from_bytes(&device, &[k, n / 4], DType::U32, &bytes).unwrap();
    let product = |m: usize| {
        let values: Vec<f64> = (0..m * k).map(|i| ((i * 37 % 101) as f64 - 50.0) / 64.0).collect();
        let a = tensor(&device, &[m, k], DType::F32, &values, Lie::Plain);
        let mut c = Tensor::empty(&device, &[m, n], DType::F32).unwrap();
        q_matmul(
            device.stream(),
            a.view(),
            &CodedMatrix { words: words.view(), layout: &layout, scales: None },
            c.view_mut(),
        )
        .unwrap();
        c.to_bytes().unwrap()
    };
    let (few, many) = (product(40), product(300));
    assert_eq!(few, many[..few.len()]);
}

#[test]
fn a8w8_is_exact_up_to_the_store() {
    let device = device();
    for (turn, (format, [m, n, k])) in [
        (Format::I8, [3, 40, 200]),
        (Format::I8, [50, 33, 96]),
        (Format::E4M3, [20, 64, 64]),
        (Format::E4M3Fnuz, [2, 36, 40]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut numbers = Numbers::new(turn as u64);
        let bytes = CodeLayout::bytes(format);
        let (a_codes, a_bytes) = codes(&mut numbers, &bytes, [m, k], DType::U8);
        let (w_codes, w_bytes) = codes(&mut numbers, &bytes, [n, k], DType::U8);
        let (a, w) = (upload(&device, &[m, k], DType::U8, &a_bytes), upload(&device, &[n, k], DType::U8, &w_bytes));
        let rows: Vec<f64> = (0..m).map(|row| 1.0 + row as f64 / 4.0).collect();
        let columns: Vec<f64> = (0..n).map(|column| 0.5 + column as f64 / 8.0).collect();
        let row_scales = tensor(&device, &[m, 1], DType::F32, &rows, Lie::Plain);
        let column_scales = tensor(&device, &[n, 1], DType::F32, &columns, Lie::Plain);
        let [a, b] = [(&a, &row_scales), (&w, &column_scales)].map(|(codes, scales)| {
            let (codes, scales) = (codes.view(), scales.view());
            CodedRows { format, codes, scales, kind: ScaleKind::F32, block: [1, k] }
        });
        let mut c = Tensor::empty(&device, &[m, n], DType::F32).unwrap();
        q_matmul_scaled(device.stream(), &a, &b, c.view_mut()).unwrap();
        let want: Vec<f64> = coordinates(&[m, n])
            .map(|at| {
                let product =
                    |i: usize| decode(format, a_codes[at[0] * k + i]) * decode(format, w_codes[at[1] * k + i]);
                let sum: f64 = (0..k).map(product).sum();
                sum * rows[at[0]] * columns[at[1]]
            })
            .collect();
        crate::testing::assert_close(&read(&c), &want, DType::F32, &(format, m, n, k));
    }
}

#[test]
fn products_that_do_not_fit_are_named() {
    let device = device();
    let layout = CodeLayout::packed(Format::I8, 1, 8);
    let words = Tensor::empty(&device, &[4, 2], DType::U32).unwrap();
    let product = |a: &[usize], dtype: DType, c: &[usize]| {
        let a = Tensor::empty(&device, a, dtype).unwrap();
        let mut c = Tensor::empty(&device, c, dtype).unwrap();
        q_matmul(
            device.stream(),
            a.view(),
            &CodedMatrix { words: words.view(), layout: &layout, scales: None },
            c.view_mut(),
        )
        .unwrap_err()
        .to_string()
    };
    for (error, expected) in [
        (product(&[3, 5], DType::F32, &[3, 8]), "a must be [.., 4]"),
        (product(&[3, 4], DType::F32, &[3, 7]), "c must be [3, 8]"),
        (product(&[3, 4], DType::F64, &[3, 8]), "f64"),
    ] {
        assert!(error.contains(expected), "{error:?} says not {expected:?}");
    }
}
