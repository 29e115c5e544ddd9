//! Reductions: their order bit for bit, in every schedule; their values in every dtype.

mod support;

use rocfire_fusion::{Binary, Draft, Graph, Reduce, Scalar, Unary, eager, run};
use rocfire_hal::{DType, Layout, Tensor};
use support::{Random, device, download, float, integer, on, rounded, same, upload, upload_permuted};

/// A reduction in the documented order, the slow way, over any type that can be combined.
fn in_order<T: Copy>(values: &[T], neutral: T, combine: impl Fn(T, T) -> T) -> T {
    let chains = if values.len() <= 1024 { 64 } else { 256 };
    let quads: Vec<T> = values
        .chunks(4)
        .map(|quad| {
            let at = |i: usize| quad.get(i).copied().unwrap_or(neutral);
            combine(combine(at(0), at(1)), combine(at(2), at(3)))
        })
        .collect();
    let tree = |mut values: Vec<T>| {
        values.resize(values.len().next_power_of_two(), neutral);
        while values.len() > 1 {
            values = values.chunks(2).map(|pair| combine(pair[0], pair[1])).collect();
        }
        values[0]
    };
    let chunk = |chunk: &[T]| {
        let mut sums = vec![neutral; chains];
        for (number, &quad) in chunk.iter().enumerate() {
            sums[number % chains] = combine(sums[number % chains], quad);
        }
        tree(sums)
    };
    tree(if quads.is_empty() { vec![neutral] } else { quads.chunks(2048).map(chunk).collect() })
}

fn float_of(op: Reduce, dtype: DType, row: &[Scalar]) -> Scalar {
    let max = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    let min = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
    let wide: Vec<f64> = row.iter().map(|&v| float(v)).collect();
    let narrow: Vec<f32> = wide.iter().map(|&v| v as f32).collect();
    let double = dtype == DType::F64;
    let value = match op {
        Reduce::Sum if double => in_order(&wide, 0.0, |a, b| a + b),
        Reduce::Sum => in_order(&narrow, 0.0, |a, b| a + b).into(),
        Reduce::Mean if double => in_order(&wide, 0.0, |a, b| a + b) / row.len() as f64,
        Reduce::Mean => (in_order(&narrow, 0.0, |a, b| a + b) / row.len() as f32).into(),
        Reduce::Prod if double => in_order(&wide, 1.0, |a, b| a * b),
        Reduce::Prod => in_order(&narrow, 1.0, |a, b| a * b).into(),
        Reduce::Max => in_order(&wide, f64::NEG_INFINITY, max) + 0.0,
        Reduce::Min => in_order(&wide, f64::INFINITY, min) + 0.0,
        _ => unreachable!("any and all are of bool"),
    };
    rounded(dtype, Scalar::Float(value))
}

fn integer_of(op: Reduce, dtype: DType, row: &[Scalar]) -> Scalar {
    let values: Vec<i128> = row.iter().map(|&v| integer(v)).collect();
    let (low, high) = limits(dtype);
    let value = match op {
        Reduce::Sum => values.iter().sum(),
        Reduce::Mean if values.is_empty() => 0,
        Reduce::Mean => wrap(wide(dtype), values.iter().sum()) / values.len() as i128,
        Reduce::Prod => values.iter().fold(1i128, |a, b| wrap(dtype, a.wrapping_mul(*b))),
        Reduce::Max => values.iter().copied().max().unwrap_or(low),
        Reduce::Min => values.iter().copied().min().unwrap_or(high),
        Reduce::Any => i128::from(values.iter().any(|&v| v != 0)),
        Reduce::All => i128::from(values.iter().all(|&v| v != 0)),
        _ => unreachable!("every reduction is named"),
    };
    scalar(dtype, wrap(dtype, value))
}

fn wide(dtype: DType) -> DType {
    if dtype.is_signed_int() { DType::I64 } else { DType::U64 }
}

fn limits(dtype: DType) -> (i128, i128) {
    let bits = dtype.size_bytes() * 8;
    if dtype.is_signed_int() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn wrap(dtype: DType, value: i128) -> i128 {
    if dtype == DType::Bool {
        return value;
    }
    let (low, high) = limits(dtype);
    // 2^bits divides 2^128, so an overflow here changes nothing.
    value.wrapping_sub(low).rem_euclid(high - low + 1) + low
}

fn scalar(dtype: DType, value: i128) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(value != 0),
        _ if dtype.is_signed_int() => Scalar::Int(value as i64),
        _ => Scalar::Uint(value as u64),
    }
}

fn ops(dtype: DType) -> &'static [Reduce] {
    if dtype == DType::Bool {
        &[Reduce::Any, Reduce::All]
    } else {
        &[Reduce::Sum, Reduce::Mean, Reduce::Max, Reduce::Min, Reduce::Prod]
    }
}

/// Every reduction of a dtype as outputs of one graph, so that a dtype and schedule compile once.
fn all_of(dtype: DType) -> Graph {
    let mut g = Graph::new("reductions");
    let x = g.input(dtype);
    for &op in ops(dtype) {
        let value = g.reduce(op, x);
        g.output(value);
    }
    g
}

fn check(dtype: DType, rows: usize, cols: usize, x: &Tensor, values: &[Scalar]) {
    let graph = all_of(dtype);
    let mut outputs: Vec<Tensor> =
        ops(dtype).iter().map(|_| Tensor::empty(device(), &[rows, 1], dtype).unwrap()).collect();
    let mut views: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
    run(device().stream(), &graph, &[rows, cols], &[x.view()], &[], &mut views).unwrap();
    drop(views);
    for (&op, output) in ops(dtype).iter().zip(&outputs) {
        let got = download(output);
        for row in 0..rows {
            let part = &values[row * cols..(row + 1) * cols];
            let expected = if dtype.is_float() { float_of(op, dtype, part) } else { integer_of(op, dtype, part) };
            assert!(
                same(dtype, got[row], expected),
                "{op} of row {row} of [{rows}, {cols}] {dtype}: {:?}, expected {expected:?}",
                got[row]
            );
        }
    }
}

const EXTENTS: [usize; 19] =
    [0, 1, 3, 8, 13, 63, 64, 65, 257, 516, 768, 1000, 1024, 1025, 2500, 4100, 8192, 9001, 17_000];

#[test]
fn rows_reduce_in_the_documented_order_whatever_their_layout() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        rows_in_order(dtype);
    }
}

/// Where two chains fall to a lane.
#[test]
fn rows_reduce_in_the_same_order_on_waves_of_32() {
    on("gfx1100", || [DType::F32, DType::BF16].into_iter().for_each(rows_in_order));
}

fn rows_in_order(dtype: DType) {
    for cols in EXTENTS {
        if cols > 1024 && dtype != DType::F32 {
            continue;
        }
        let rows = 17;
        let mut random = Random(cols as u64);
        // Near one, so that the product neither vanishes nor overflows.
        let values: Vec<Scalar> =
            (0..rows * cols).map(|_| rounded(dtype, Scalar::Float(1.0 + random.unit() * 0.05))).collect();
        check(dtype, rows, cols, &upload(dtype, &[rows, cols], &values), &values);
        if cols == 257 || (dtype == DType::F32 && cols > 0) {
            check(dtype, rows, cols, &upload_permuted(dtype, &[rows, cols], &[1, 0], &values), &values);
        }
    }
}

/// Columns so many that a lane takes two: those that it can, and one too many; of a short row, of as many quads as chains and more.
#[test]
fn many_columns_reduce_in_the_same_order() {
    for (dtype, rows, extents) in [
        (DType::F32, 32_772, [3, 34]),
        (DType::BF16, 32_768, [21, 262]),
        (DType::F16, 32_769, [4, 5]),
        (DType::F16, 32_768, [6, 7]),
    ] {
        for cols in extents {
            let mut random = Random((rows + cols) as u64);
            let values: Vec<Scalar> =
                (0..rows * cols).map(|_| rounded(dtype, Scalar::Float(1.0 + random.unit() * 0.05))).collect();
            let across: Vec<Scalar> = (0..rows * cols).map(|at| values[at % rows * cols + at / rows]).collect();
            let x = upload(dtype, &[cols, rows], &across);
            let x = x.with_layout(x.layout().swap(0, 1).unwrap()).unwrap();
            check(dtype, rows, cols, &x, &values);
        }
    }
}

/// Columns so many that a lane takes two, times what is one number for all of them, of which it reads no second one.
#[test]
fn many_columns_share_what_is_one_for_a_row_of_them() {
    let (rows, cols) = (32_768, 37);
    for dtype in [DType::BF16, DType::F16] {
        let g = Draft::graph("weighted", |g| {
            let [x, weight] = [(); 2].map(|()| g.input(dtype).cast(DType::F32));
            (x * weight).reduce(Reduce::Sum)
        });
        let mut random = Random(9);
        let mut values = |count: usize| -> Vec<Scalar> {
            (0..count).map(|_| rounded(dtype, Scalar::Float(1.0 + random.unit() * 0.05))).collect()
        };
        let x = upload(dtype, &[cols, rows], &values(rows * cols));
        let x = x.with_layout(x.layout().swap(0, 1).unwrap()).unwrap();
        let weight = upload(dtype, &[1, cols], &values(cols));
        let mut sums = Tensor::empty(device(), &[rows, 1], DType::F32).unwrap();
        let inputs = [x.view(), weight.view()];
        run(device().stream(), &g, &[rows, cols], &inputs, &[], &mut [sums.view_mut()]).unwrap();
        let wide = |tensor: &Tensor| eager::cast(tensor, DType::F32).unwrap();
        let product = eager::binary(Binary::Mul, &wide(&x), &wide(&weight)).unwrap();
        assert_eq!(download(&sums), download(&eager::reduce_last(Reduce::Sum, &product).unwrap()));
    }
}

#[test]
fn special_values_reduce_as_arithmetic_says() {
    for dtype in [DType::F32, DType::BF16] {
        for cols in [1, 6, 70] {
            let values = Random(cols as u64 + 40).values(dtype, 20 * cols);
            check(dtype, 20, cols, &upload(dtype, &[20, cols], &values), &values);
            check(dtype, 20, cols, &upload_permuted(dtype, &[20, cols], &[1, 0], &values), &values);
        }
    }
}

#[test]
fn integers_and_bools_reduce_exactly() {
    let dtypes = DType::ALL.into_iter().filter(|dtype| !dtype.is_float());
    for dtype in dtypes {
        for cols in [0, 1, 5, 64, 130] {
            let values = Random(cols as u64).values(dtype, 6 * cols);
            check(dtype, 6, cols, &upload(dtype, &[6, cols], &values), &values);
        }
    }
}

#[test]
fn a_long_vector_is_two_launches_and_the_same_sum() {
    // More chunks than a thread takes at once, and not a power of two of them; so many that a workgroup takes two, and the last one.
    for count in [90_001, 2050 * 8192 + 5] {
        let mut random = Random(1);
        let values: Vec<Scalar> = (0..count).map(|_| rounded(DType::F32, Scalar::Float(random.unit()))).collect();
        let x = upload(DType::F32, &[count], &values);
        let before = device().launches();
        let sum = eager::reduce_last(Reduce::Sum, &x).unwrap();
        assert_eq!(device().launches() - before, 2);
        assert_eq!(download(&sum), [float_of(Reduce::Sum, DType::F32, &values)]);
    }
}

#[test]
fn a_row_has_the_same_sum_in_every_schedule() {
    // Few rows are split, many are one workgroup each, transposed ones lie across lanes.
    let (rows, cols) = (130, 8200);
    let mut random = Random(2);
    let row: Vec<Scalar> = (0..cols).map(|_| rounded(DType::F32, Scalar::Float(random.unit()))).collect();
    let expected = float_of(Reduce::Sum, DType::F32, &row);
    let one = upload(DType::F32, &[1, cols], &row);
    let many = one.with_layout(one.layout().expand(&[rows, cols]).unwrap()).unwrap();
    let values: Vec<Scalar> = (0..16).flat_map(|_| row.iter().copied()).collect();
    let across = upload_permuted(DType::F32, &[16, cols], &[1, 0], &values);
    for x in [&one, &many, &across] {
        for sum in download(&eager::reduce_last(Reduce::Sum, x).unwrap()) {
            assert_eq!(sum, expected, "{:?}", x.shape());
        }
    }
}

/// A LayerNorm of short rows reads four inputs and writes two: up to eight steps a lane, all there and not, of a quad and of two.
#[test]
fn a_short_layer_norm_has_the_same_bits_however_it_lies() {
    short_layer_norms();
    on("gfx1100", short_layer_norms);
}

fn short_layer_norms() {
    for (dtype, columns) in [
        (DType::F32, &[1, 31, 32, 127, 128, 129, 260, 500, 512, 516, 768, 1021, 1024][..]),
        (DType::BF16, &[4, 7, 8, 196, 200, 264, 520, 760, 768, 1004, 1024]),
        (DType::F16, &[16, 255, 256, 257, 1000, 1024]),
        (DType::F64, &[36, 640, 1024]),
    ] {
        columns.iter().for_each(|&cols| short_layer_norm(dtype, cols));
    }
}

fn short_layer_norm(dtype: DType, cols: usize) {
    let g = Draft::several("layer_norm", |g| {
        let [x, weight, bias] = [(); 3].map(|()| g.input(dtype));
        let share = g.row_input(dtype);
        let mean = x.reduce(Reduce::Mean);
        let centred = x - mean;
        let root = ((centred * centred).reduce(Reduce::Mean) + share).unary(Unary::Sqrt);
        [centred / root * weight + bias, mean]
    });
    let rows = 11;
    let mut random = Random(cols as u64);
    let mut values = |count: usize| -> Vec<Scalar> {
        (0..count).map(|_| rounded(dtype, Scalar::Float(random.unit() * 3.0))).collect()
    };
    let of_x = values(rows * cols);
    let [weight, bias] = [(); 2].map(|()| upload(dtype, &[cols], &values(cols)));
    let one = upload(dtype, &[1], &values(1));
    let share = upload(dtype, &[rows, 1], &vec![rounded(dtype, Scalar::Float(0.5)); rows]);
    let packed = upload(dtype, &[rows, cols], &of_x);
    let spread = |before: usize, step: usize, after: usize| {
        let line = before + step * cols + after;
        let mut all = vec![Scalar::Float(9.0); rows * line];
        for (at, &value) in of_x.iter().enumerate() {
            all[at / cols * line + before + step * (at % cols)] = value;
        }
        let strides = [line as i64, step as i64];
        let layout = Layout::strided(&[rows, cols], &strides, before as i64).unwrap();
        upload(dtype, &[rows * line], &all).with_layout(layout).unwrap()
    };
    // Also apart, at an odd place, and where half of a vector is aligned.
    let lies = [packed.clone(), spread(0, 2, 0), spread(1, 1, 0), spread(4, 1, 8)];
    let vector = |tensor: &Tensor| tensor.with_layout(tensor.layout().expand(&[rows, cols]).unwrap()).unwrap();
    for bias in [&bias, &one] {
        let mean = eager::reduce_last(Reduce::Mean, &packed).unwrap();
        let centred = eager::binary(Binary::Sub, &packed, &mean).unwrap();
        let square = eager::binary(Binary::Mul, &centred, &centred).unwrap();
        let variance = eager::reduce_last(Reduce::Mean, &square).unwrap();
        let root = eager::unary(Unary::Sqrt, &eager::binary(Binary::Add, &variance, &share).unwrap()).unwrap();
        let normal = eager::binary(Binary::Div, &centred, &root).unwrap();
        let scaled = eager::binary(Binary::Mul, &normal, &vector(&weight)).unwrap();
        let expected = download(&eager::binary(Binary::Add, &scaled, &vector(bias)).unwrap());
        for (number, x) in lies.iter().enumerate() {
            let mut y = Tensor::empty(device(), &[rows, cols], dtype).unwrap();
            let mut own = Tensor::empty(device(), &[rows, 1], dtype).unwrap();
            let inputs = [x.view(), weight.view(), bias.view(), share.view()];
            let mut outputs = [y.view_mut(), own.view_mut()];
            run(device().stream(), &g, &[rows, cols], &inputs, &[], &mut outputs).unwrap();
            assert_eq!(download(&own), download(&mean), "{cols} columns of {dtype}, layout {number}");
            assert_eq!(download(&y), expected, "{cols} columns of {dtype}, layout {number}");
        }
    }
}

/// Six inputs: with all of them in both passes, more than registers keep of a row of 1024 on a wave of 32; with one in the first and
/// five in the second, more than a pass reads ahead of its arithmetic.
#[test]
fn a_short_row_of_many_inputs_has_the_same_bits() {
    let rows = || [true, false].into_iter().for_each(many_inputs);
    rows();
    on("gfx1100", rows);
}

fn many_inputs(all: bool) {
    let (rows, cols, dtype) = (5, 1024, DType::F32);
    let g = Draft::graph("many", |g| {
        let inputs = [(); 6].map(|()| g.input(dtype));
        let product = inputs[1..].iter().fold(inputs[0], |so_far, &x| so_far * x);
        let sum = if all { product } else { inputs[0] }.reduce(Reduce::Sum);
        inputs[1..].iter().fold(inputs[0], |so_far, &x| so_far + x) * sum
    });
    let mut random = Random(3);
    let tensors = [(); 6].map(|()| {
        let values: Vec<Scalar> = (0..rows * cols).map(|_| rounded(dtype, Scalar::Float(random.unit()))).collect();
        upload(dtype, &[rows, cols], &values)
    });
    // Packed, and cut by one.
    for cols in [cols, cols - 1] {
        let layout = Layout::strided(&[rows, cols], &[1024, 1], 0).unwrap();
        let tensors = tensors.each_ref().map(|x| x.with_layout(layout).unwrap());
        let mut y = Tensor::empty(device(), &[rows, cols], dtype).unwrap();
        let views = tensors.each_ref().map(Tensor::view);
        run(device().stream(), &g, &[rows, cols], &views, &[], &mut [y.view_mut()]).unwrap();
        let fold =
            |op| tensors[1..].iter().fold(tensors[0].clone(), |so_far, x| eager::binary(op, &so_far, x).unwrap());
        let sum = eager::reduce_last(Reduce::Sum, &if all { fold(Binary::Mul) } else { tensors[0].clone() }).unwrap();
        let expected = eager::binary(Binary::Mul, &fold(Binary::Add), &sum).unwrap();
        assert_eq!(download(&y), download(&expected), "{cols} columns, all in both passes: {all}");
    }
}

/// The quotients of a row go through its divisor's reciprocal where both are of moderate size, and have the bits of divisions one by one.
#[test]
fn quotients_of_a_row_are_rounded_as_each_by_itself() {
    quotients_of_a_row();
    on("gfx1100", quotients_of_a_row);
}

fn quotients_of_a_row() {
    let g = Draft::several("shares", |g| {
        let quotient = g.input(DType::F32) / g.row_input(DType::F32);
        [quotient, quotient.reduce(Reduce::Max)]
    });
    let mut random = Random(5);
    // Any sign, exponent and fraction; of every fourth the exponent is near 0, where most numbers are.
    let mut number = |at: usize| {
        let bits = random.word() as u32;
        f32::from_bits(if at.is_multiple_of(4) { bits & 0x83ff_ffff | 0x3c00_0000 } else { bits })
    };
    let special = [0.0, -0.0, 1.0, f32::MIN_POSITIVE, 1e-42, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let (rows, cols) = (300, 260);
    let divisors: Vec<f32> = special.into_iter().chain((special.len()..).map(&mut number)).take(rows).collect();
    let mut dividends: Vec<f32> = (0..rows * cols).map(&mut number).collect();
    // Steps of moderate numbers, of those and zeros, and of anything.
    for (at, value) in dividends.iter_mut().enumerate() {
        match at / 8 % 4 {
            0 => *value = f32::from_bits(value.to_bits() & 0x87ff_ffff | 0x3800_0000),
            1 if at % 3 == 0 => *value = if at % 2 == 0 { 0.0 } else { -0.0 },
            1 => *value = f32::from_bits(value.to_bits() & 0x8fff_ffff | 0x3000_0000),
            2 if at % 5 == 0 => *value = special[at / 5 % special.len()],
            _ => {}
        }
    }
    let scalars = |values: &[f32]| -> Vec<Scalar> { values.iter().map(|&v| Scalar::Float(v.into())).collect() };
    let x = upload(DType::F32, &[rows, cols], &scalars(&dividends));
    let by = upload(DType::F32, &[rows, 1], &scalars(&divisors));
    let mut y = Tensor::empty(device(), &[rows, cols], DType::F32).unwrap();
    let mut most = Tensor::empty(device(), &[rows, 1], DType::F32).unwrap();
    let inputs = [x.view(), by.view()];
    run(device().stream(), &g, &[rows, cols], &inputs, &[], &mut [y.view_mut(), most.view_mut()]).unwrap();
    for (at, got) in download(&y).into_iter().enumerate() {
        let (a, b) = (dividends[at], divisors[at / cols]);
        let expected = Scalar::Float((a / b).into());
        assert!(same(DType::F32, got, expected), "{a:e} / {b:e}: {got:?}, expected {expected:?}");
    }
}

/// A softmax has three passes over its row: held in registers where it fits, read anew where it does not, in the tests' terms
/// up to 8192 elements. Each operator alone is another schedule for most of them.
#[test]
fn a_long_softmax_has_the_same_bits_held_read_anew_and_operator_by_operator() {
    long_softmax(DType::F32, &[1030, 2048, 4096, 4104, 8192, 12_288, 12_290, 20_000]);
}

/// Elements of two bytes, of which a thread takes eight at once where they lie so, and four of a kind elsewhere.
#[test]
fn a_long_softmax_of_halves_has_the_same_bits_too() {
    long_softmax(DType::BF16, &[1030, 2048, 4104, 8192, 12_290, 16_384, 20_008]);
}

fn long_softmax(dtype: DType, columns: &[usize]) {
    let g = Draft::graph("softmax", |g| {
        let x = g.input(dtype);
        let exp = (x - x.reduce(Reduce::Max)).unary(Unary::Exp);
        exp / exp.reduce(Reduce::Sum)
    });
    // Two, four and eight quads a thread, whole and cut; a whole chunk and part of one more; three chunks.
    for &cols in columns {
        let rows = 3;
        let mut random = Random(cols as u64);
        let values: Vec<Scalar> =
            (0..rows * cols).map(|_| rounded(dtype, Scalar::Float(random.unit() * 8.0))).collect();
        let x = upload(dtype, &[rows, cols], &values);
        let softmax = |x: &Tensor| {
            let mut y = Tensor::empty(device(), &[rows, cols], dtype).unwrap();
            run(device().stream(), &g, &[rows, cols], &[x.view()], &[], &mut [y.view_mut()]).unwrap();
            download(&y)
        };
        let most = eager::reduce_last(Reduce::Max, &x).unwrap();
        let exp = eager::unary(Unary::Exp, &eager::binary(Binary::Sub, &x, &most).unwrap()).unwrap();
        let sum = eager::reduce_last(Reduce::Sum, &exp).unwrap();
        let expected = download(&eager::binary(Binary::Div, &exp, &sum).unwrap());
        assert!(expected[0] != Scalar::Float(0.0));
        assert_eq!(softmax(&x), expected, "{cols} columns");
        // Every second element of a longer vector lies strided.
        let spread: Vec<Scalar> = values.iter().flat_map(|&value| [value, Scalar::Float(9.0)]).collect();
        let strided = upload(dtype, &[2 * rows * cols], &spread);
        let layout = Layout::strided(&[rows, cols], &[2 * cols as i64, 2], 0).unwrap();
        let strided = strided.with_layout(layout).unwrap();
        assert_eq!(softmax(&strided), expected, "{cols} columns, strided");
    }
}

/// Rows of which only sums are wanted: two, four and eight chunks of 16 bits are held, two and four of 32; one too many, and one that
/// ends inside a step, are read anew.
#[test]
fn sums_of_a_long_row_have_the_same_bits_held_and_read_anew() {
    long_sums(DType::BF16, &[8200, 20_000, 65_536, 65_544, 9001]);
    long_sums(DType::F16, &[32_768]);
    long_sums(DType::F32, &[16_384, 20_004, 32_772]);
}

fn long_sums(dtype: DType, columns: &[usize]) {
    let g = Draft::several("sums", |g| {
        let x = g.input(dtype);
        let wide = x.cast(DType::F32);
        let index = g.row_input(DType::I64);
        let own = g.term(|g| g.row_lookup(dtype, index.value));
        let (most, least) = (wide.reduce(Reduce::Max), x.reduce(Reduce::Min));
        [most, least, (wide - most).unary(Unary::ExpBelow).reduce(Reduce::Sum), own]
    });
    for &cols in columns {
        let rows = 3;
        let mut random = Random(cols as u64);
        let mut values: Vec<Scalar> =
            (0..rows * cols).map(|_| rounded(dtype, Scalar::Float(random.unit() * 8.0))).collect();
        values[cols + 5] = Scalar::Float(f64::NEG_INFINITY);
        values[3 * cols - 1] = Scalar::Float(f64::NAN);
        let x = upload(dtype, &[rows, cols], &values);
        // The last of a row, one inside, one outside.
        let indices = [cols as i64 - 1, 4, -1];
        let index = upload(DType::I64, &[rows, 1], &indices.map(Scalar::Int));
        let first = x.with_layout(x.layout().swap(0, 1).unwrap()).unwrap();
        let mut outputs =
            [DType::F32, dtype, DType::F32, dtype].map(|dtype| Tensor::empty(device(), &[rows, 1], dtype).unwrap());
        let mut views = outputs.each_mut().map(Tensor::view_mut);
        run(device().stream(), &g, &[rows, cols], &[x.view(), index.view(), first.view()], &[], &mut views).unwrap();
        let wide = eager::cast(&x, DType::F32).unwrap();
        let most = eager::reduce_last(Reduce::Max, &wide).unwrap();
        let exp = eager::unary(Unary::ExpBelow, &eager::binary(Binary::Sub, &wide, &most).unwrap()).unwrap();
        let (least, sum) =
            (eager::reduce_last(Reduce::Min, &x).unwrap(), eager::reduce_last(Reduce::Sum, &exp).unwrap());
        let expected = [download(&most), download(&least), download(&sum)];
        for (number, (got, expected)) in outputs.iter().zip(&expected).enumerate() {
            for (row, (got, expected)) in download(got).into_iter().zip(expected).enumerate() {
                assert!(same(DType::F32, got, *expected), "{number} of row {row} of {cols}: {got:?}, not {expected:?}");
            }
        }
        assert!(float(download(&outputs[2])[0]) > 1.0 && float(download(&outputs[2])[2]).is_nan());
        let own = download(&outputs[3]);
        assert_eq!(own, [values[cols - 1], values[cols + 4], rounded(dtype, Scalar::Float(0.0))]);
    }
}

/// The outputs of a graph that reads its input in several passes, the first of them written over `over`: with what only the
/// last pass knows per element, or per row.
fn passes_over(x: &Tensor, is_shared: bool, over: Option<&Tensor>) -> Vec<Vec<Scalar>> {
    let (dtype, shape) = (x.dtype(), x.shape().to_vec());
    let mut g = Graph::new("passes");
    let value = g.input(dtype);
    let wide = if dtype == DType::F16 { g.cast(value, DType::F32) } else { value };
    let one = g.constant(DType::F32, Scalar::Float(1.0));
    let next = g.binary(Binary::Add, wide, one);
    let most = g.reduce(Reduce::Max, wide);
    let shifted = g.binary(Binary::Sub, wide, most);
    let exp = g.unary(Unary::Exp, shifted);
    let sum = g.reduce(Reduce::Sum, exp);
    let share = g.binary(Binary::Div, exp, sum);
    let results = if is_shared { vec![next, shifted, share] } else { vec![next, sum] };
    let count = results.len();
    for output in results {
        let output = if dtype == DType::F16 { g.cast(output, dtype) } else { output };
        g.output(output);
    }
    let per_row = [shape[0], 1];
    let mut outputs: Vec<Tensor> = (0..count)
        .map(|at| match over {
            Some(own) if at == 0 => own.clone(),
            _ if is_shared || at == 0 => Tensor::empty(device(), &shape, dtype).unwrap(),
            _ => Tensor::empty(device(), &per_row, dtype).unwrap(),
        })
        .collect();
    let mut views: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
    run(device().stream(), &g, &shape, &[x.view()], &[], &mut views).unwrap();
    drop(views);
    outputs.iter().map(|output| download(&eager::copy(output).unwrap())).collect()
}

#[test]
fn an_output_over_its_input_waits_for_the_last_pass_that_reads_it() {
    // Rows in a wave, in the registers of a workgroup, too long for those, and with lanes across rows.
    let shapes = [([3, 13], false), ([3, 1025], false), ([2, 9001], false), ([1, 70_000], false), ([70, 33], true)];
    for (shape, turned) in shapes {
        for dtype in [DType::F32, DType::F16] {
            let mut random = Random(7);
            let value = |_| rounded(dtype, Scalar::Float(random.unit() * 3.0));
            let values: Vec<Scalar> = (0..shape[0] * shape[1]).map(value).collect();
            let placed = || match turned {
                true => upload_permuted(dtype, &shape, &[1, 0], &values),
                false => upload(dtype, &shape, &values),
            };
            for is_shared in [true, false] {
                let apart = passes_over(&placed(), is_shared, None);
                let own = placed();
                let over = passes_over(&own, is_shared, Some(&own.clone()));
                for (at, (apart, over)) in apart.iter().zip(&over).enumerate() {
                    let differs = apart.iter().zip(over).position(|(a, b)| !same(dtype, *a, *b));
                    assert_eq!(differs, None, "output {at} of {shape:?} {dtype}, turned: {turned}");
                }
            }
        }
    }
}

/// Batch normalisation in training, where channels are few, lie side by side and are long: what is reduced goes to many workgroups.
/// `gamma` lacks the last axis, the running mean is updated where it is, and `y` is written over `x`.
#[test]
fn few_long_channels_are_shared_out_and_have_the_same_bits() {
    for (dtype, channels, cols, launches) in [
        // Two channels a lane, more than a wave of lanes; one; of a 64-bit type.
        (DType::F16, 130, 3001, 5),
        (DType::BF16, 16, 17_000, 5),
        (DType::F32, 17, 16_384, 5),
        (DType::F64, 18, 15_001, 5),
        // Too few elements to share.
        (DType::F16, 16, 9_001, 1),
    ] {
        batch_norm(dtype, channels, cols, true, launches);
        batch_norm(dtype, channels, cols, false, launches);
    }
    on("gfx1100", || batch_norm(DType::BF16, 34, 8200, true, 5));
}

/// The same of rows that are packed: few and longer than registers hold.
#[test]
fn few_long_rows_are_shared_out_and_have_the_same_bits() {
    let (rows, cols) = (4, 70_001);
    let mut random = Random(11);
    let values: Vec<Scalar> = (0..rows * cols).map(|_| Scalar::Float(random.unit() * 2.0)).collect();
    let x = upload(DType::F32, &[rows, cols], &values);
    let scales = [(); 3].map(|()| upload(DType::F32, &[rows, 1], &[0.5, 1.0, -2.0, 3.0].map(Scalar::Float)));
    check_norm(&x, [&scales[0], &scales[1], &scales[2]], false, 5);
}

fn batch_norm(dtype: DType, channels: usize, cols: usize, lacks_last: bool, launches: u64) {
    let mut random = Random((channels + cols) as u64);
    let mut values = |count: usize| -> Vec<Scalar> {
        (0..count).map(|_| rounded(dtype, Scalar::Float(random.unit() * 3.0 - 1.0))).collect()
    };
    let x = upload(dtype, &[cols, channels], &values(cols * channels));
    let x = x.with_layout(x.layout().swap(0, 1).unwrap()).unwrap();
    let shape: &[usize] = if lacks_last { &[channels] } else { &[channels, 1] };
    let rows = [(); 3].map(|()| upload(dtype, shape, &values(channels)));
    check_norm(&x, [&rows[0], &rows[1], &rows[2]], true, launches);
}

fn check_norm(x: &Tensor, [gamma, beta, running]: [&Tensor; 3], in_place: bool, launches: u64) {
    let (dtype, shape) = (x.dtype(), x.shape().to_vec());
    let mut g = Graph::new("batch_norm");
    let input = g.input(dtype);
    let [of_gamma, of_beta, of_running] = [(); 3].map(|()| g.row_input(dtype));
    let momentum = g.scalar(dtype);
    let mean = g.reduce(Reduce::Mean, input);
    let centred = g.binary(Binary::Sub, input, mean);
    let square = g.binary(Binary::Mul, centred, centred);
    let variance = g.reduce(Reduce::Mean, square);
    let root = g.unary(Unary::Sqrt, variance);
    let normal = g.binary(Binary::Div, centred, root);
    let scaled = g.binary(Binary::Mul, normal, of_gamma);
    let y = g.binary(Binary::Add, scaled, of_beta);
    let change = g.binary(Binary::Mul, mean, momentum);
    let updated = g.binary(Binary::Add, of_running, change);
    [y, updated, variance].into_iter().for_each(|value| g.output(value));

    let column = |tensor: &Tensor| tensor.with_layout(tensor.layout().reshape(&[shape[0], 1]).unwrap()).unwrap();
    let binary = |op, a: &Tensor, b: &Tensor| eager::binary(op, a, b).unwrap();
    let mean = eager::reduce_last(Reduce::Mean, x).unwrap();
    let centred = binary(Binary::Sub, x, &mean);
    let variance = eager::reduce_last(Reduce::Mean, &binary(Binary::Mul, &centred, &centred)).unwrap();
    let root = eager::unary(Unary::Sqrt, &variance).unwrap();
    let scaled = binary(Binary::Mul, &binary(Binary::Div, &centred, &root), &column(gamma));
    let expected_y = binary(Binary::Add, &scaled, &column(beta));
    let momentum = upload(dtype, &[1, 1], &[Scalar::Float(0.125)]);
    let expected_running = binary(Binary::Add, &column(running), &binary(Binary::Mul, &mean, &momentum));

    let device = device();
    let mut of_variance = Tensor::empty(device, &[shape[0], 1], dtype).unwrap();
    let apart = Tensor::empty(device, &shape, dtype).unwrap();
    let mut y = if in_place { x.clone() } else { apart };
    let mut updated = running.clone();
    let before = device.launches();
    let inputs = [x.view(), gamma.view(), beta.view(), running.view()];
    let mut outputs = [y.view_mut(), updated.view_mut(), of_variance.view_mut()];
    run(device.stream(), &g, &shape, &inputs, &[Scalar::Float(0.125)], &mut outputs).unwrap();
    assert_eq!(device.launches() - before, launches, "{dtype} {shape:?}");
    for (what, got, expected) in
        [("y", &y, &expected_y), ("running mean", &updated, &expected_running), ("variance", &of_variance, &variance)]
    {
        let [got, expected] = [got, expected].map(|tensor| download(&eager::copy(tensor).unwrap()));
        assert!(got == expected, "{what} of {dtype} {shape:?}");
    }
}

/// A value per row written over an input that is read for every element: nothing of it may be stored before that.
#[test]
fn a_row_output_over_an_input_that_is_read_later_is_written_last() {
    let (rows, cols) = (16, 17_000);
    let mut random = Random(12);
    let values: Vec<Scalar> = (0..rows * cols).map(|_| Scalar::Float(random.unit())).collect();
    let x = upload(DType::F32, &[cols, rows], &values);
    let x = x.with_layout(x.layout().swap(0, 1).unwrap()).unwrap();
    let shift = upload(DType::F32, &[rows, 1], &values[..rows]);
    let mut g = Graph::new("shifted");
    let (input, of_shift) = (g.input(DType::F32), g.row_input(DType::F32));
    let sum = g.reduce(Reduce::Sum, input);
    let y = g.binary(Binary::Add, input, of_shift);
    [y, sum].into_iter().for_each(|value| g.output(value));
    let expected = [eager::binary(Binary::Add, &x, &shift).unwrap(), eager::reduce_last(Reduce::Sum, &x).unwrap()]
        .map(|tensor| download(&tensor));
    let (mut y, mut sums) = (Tensor::empty(device(), &[rows, cols], DType::F32).unwrap(), shift.clone());
    let inputs = [x.view(), shift.view()];
    run(device().stream(), &g, &[rows, cols], &inputs, &[], &mut [y.view_mut(), sums.view_mut()]).unwrap();
    assert!([&y, &sums].map(download) == expected);
}

/// Columns that are looked up along the rows, as those of two axes that do not follow each other in memory: shared out and not.
#[test]
fn columns_that_are_looked_up_reduce_in_the_same_order() {
    for (channels, outer, inner, launches) in [(24, 3, 6001, 2), (33, 2, 700, 1)] {
        let (count, apart) = (outer * inner, 8);
        let step = inner * channels + apart;
        let mut random = Random(count as u64);
        let values: Vec<Scalar> =
            (0..outer * step).map(|_| rounded(DType::BF16, Scalar::Float(random.unit()))).collect();
        let all = upload(DType::BF16, &[outer * step], &values);
        let lie = |shape: &[usize], strides: &[usize]| {
            let strides: Vec<i64> = strides.iter().map(|&stride| stride as i64).collect();
            all.with_layout(Layout::strided(shape, &strides, 0).unwrap()).unwrap()
        };
        let mut g = Graph::new("sums");
        let (here, extent) = (g.index(0), g.scalar(DType::I64));
        let index = g.binary(Binary::Div, here, extent);
        let x = g.lookup(DType::BF16, index);
        let wide = g.cast(x, DType::F32);
        let sum = g.reduce(Reduce::Sum, wide);
        g.output(sum);
        let x = lie(&[outer, channels, count], &[apart, 1, channels]);
        let mut sums = Tensor::empty(device(), &[channels, 1], DType::F32).unwrap();
        let before = device().launches();
        let scalars = [Scalar::Int(inner as i64)];
        run(device().stream(), &g, &[channels, count], &[x.view()], &scalars, &mut [sums.view_mut()]).unwrap();
        assert_eq!(device().launches() - before, launches);
        let in_order = eager::copy(&lie(&[channels, outer, inner], &[1, step, channels])).unwrap();
        let in_order = eager::cast(&in_order, DType::F32).unwrap();
        let in_order = in_order.with_layout(in_order.layout().reshape(&[channels, count]).unwrap()).unwrap();
        assert_eq!(download(&sums), download(&eager::reduce_last(Reduce::Sum, &in_order).unwrap()));
    }
}
