//! Every operator in every dtype it takes, against f64 or i128, over sizes, strides and special values.

#[path = "support/oracle.rs"]
mod oracle;
mod support;

use rocfire_fusion::{Binary, Compare, Draft, Graph, Scalar, Term, Unary, Value, eager, run};
use rocfire_hal::{DType, Tensor};
use support::{Random, device, download, float, integer, rounded, same, ulps, upload, upload_permuted};

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

/// One output per operator over the same inputs, so that a dtype compiles once.
fn outputs_of(graph: &Graph, shape: &[usize], inputs: &[&Tensor]) -> Vec<Vec<Scalar>> {
    let empty = |value: &Value| Tensor::empty(device(), shape, graph.dtype(*value)).unwrap();
    let mut outputs: Vec<Tensor> = graph.outputs().iter().map(empty).collect();
    let views: Vec<_> = inputs.iter().map(|x| x.view()).collect();
    let mut written: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
    run(device().stream(), graph, shape, &views, &[], &mut written).unwrap();
    drop(written);
    outputs.iter().map(download).collect()
}

fn takes(write: impl Fn(&Draft) -> Term<'_>) -> bool {
    Draft::graph("probe", write).verify().is_ok()
}

/// The unary operators that take a type.
fn unaries(dtype: DType) -> Vec<Unary> {
    Unary::ALL.iter().copied().filter(|&op| takes(|g| g.input(dtype).unary(op))).collect()
}

/// The binary operators that take a type.
fn binaries(dtype: DType) -> Vec<Binary> {
    Binary::ALL.iter().copied().filter(|&op| takes(|g| g.input(dtype).binary(op, g.input(dtype)))).collect()
}

/// Whether the result is the correctly rounded one.
fn exact(op: Unary) -> bool {
    use Unary::*;
    matches!(op, Neg | Abs | Sign | Sqrt | Recip | Floor | Ceil | Round | Trunc)
}

/// What the prelude's functions promise, in units of the last place, with one for the oracle's own rounding in f64.
fn tolerance(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => 16,
        DType::F32 => 4,
        _ => 1,
    }
}

fn check_floats(
    op: &str,
    dtype: DType,
    most: u64,
    got: &[Scalar],
    args: impl Fn(usize) -> String,
    of: impl Fn(usize) -> f64,
) {
    for (at, &got) in got.iter().enumerate() {
        let expected = rounded(dtype, Scalar::Float(of(at)));
        let apart = ulps(dtype, got, expected);
        // Where a value near zero is the difference of two near one, the oracle in f64 is no better than the kernel.
        let tiny = dtype == DType::F64 && (float(got) - float(expected)).abs() < 1e-15;
        assert!(apart <= most || tiny, "{op} {dtype} of {}: {got:?}, expected {expected:?}", args(at));
    }
}

#[test]
fn unary_operators_of_floats_match_f64() {
    for dtype in FLOATS {
        // Of numbers above zero `ExpBelow` says nothing.
        let judged = |op: &Unary| op.result(dtype) == dtype && (*op != Unary::ExpBelow || dtype != DType::F32);
        let ops: Vec<Unary> = unaries(dtype).into_iter().filter(judged).collect();
        let mut g = Graph::new("unary");
        let x = g.input(dtype);
        for &op in &ops {
            let y = g.unary(op, x);
            g.output(y);
        }
        for count in [1, 61, 65, 400] {
            let values = Random(count as u64).values(dtype, count);
            let results = outputs_of(&g, &[count], &[&upload(dtype, &[count], &values)]);
            for (&op, got) in ops.iter().zip(&results) {
                let most = match op {
                    Unary::ExpNear if dtype == DType::F32 => 256,
                    Unary::RecipNear if dtype == DType::F32 => 8,
                    _ if exact(op) => 0,
                    _ => tolerance(dtype),
                };
                let of = |at: usize| oracle::unary(op, float(values[at]));
                check_floats(op.name(), dtype, most, got, |at| format!("{:?}", values[at]), of);
            }
        }
    }
}

#[test]
fn powers_of_numbers_below_zero_are_exact_to_four_units() {
    let mut random = Random(3);
    let mut values: Vec<f64> = (0..2000).map(|at| -random.unit().abs() * [1e-6, 1.0, 12.0, 87.0][at % 4]).collect();
    values.extend([0.0, -0.0, -100.0, -104.9, -1e30, f64::NEG_INFINITY, f64::NAN]);
    let values: Vec<Scalar> = values.into_iter().map(|value| rounded(DType::F32, Scalar::Float(value))).collect();
    let g = Draft::graph("below", |g| g.input(DType::F32).unary(Unary::ExpBelow));
    let count = values.len();
    let got = outputs_of(&g, &[count], &[&upload(DType::F32, &[count], &values)]).remove(0);
    for (value, got) in values.iter().zip(got) {
        let (x, got) = (float(*value), float(got));
        let most = if x > -12.0 { 2.0 } else { 4.0 };
        let near = (got - x.exp()).abs() <= (most * x.exp() * 2f64.powi(-23)).max(2f64.powi(-126));
        assert!(near || (x.is_nan() && got.is_nan()), "e^{x}: {got}");
    }
}

#[test]
fn tests_of_floats_find_nan_and_infinity() {
    for dtype in FLOATS {
        let values = Random(8).values(dtype, 300);
        let x = upload(dtype, &[300], &values);
        let nan: Vec<Scalar> = values.iter().map(|&v| Scalar::Bool(float(v).is_nan())).collect();
        let inf: Vec<Scalar> = values.iter().map(|&v| Scalar::Bool(float(v).is_infinite())).collect();
        assert_eq!(download(&eager::unary(Unary::IsNan, &x).unwrap()), nan);
        assert_eq!(download(&eager::unary(Unary::IsInf, &x).unwrap()), inf);
    }
}

fn float_binary(op: Binary, a: f64, b: f64) -> f64 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Rem => {
            let r = a % b;
            if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
        }
        Binary::Pow => a.powf(b),
        Binary::Min if a.is_nan() || b.is_nan() => f64::NAN,
        Binary::Max if a.is_nan() || b.is_nan() => f64::NAN,
        Binary::Min => {
            if a < b {
                a
            } else {
                b
            }
        }
        Binary::Max => {
            if a > b {
                a
            } else {
                b
            }
        }
        Binary::Atan2 => a.atan2(b),
        Binary::Hypot => a.hypot(b),
        Binary::CopySign => a.copysign(b),
        _ => unreachable!("{op} is of integers"),
    }
}

#[test]
fn binary_operators_of_floats_match_f64() {
    for dtype in FLOATS {
        let ops = binaries(dtype);
        let mut g = Graph::new("binary");
        let (a, b) = (g.input(dtype), g.input(dtype));
        for &op in &ops {
            let y = g.binary(op, a, b);
            g.output(y);
        }
        let count = 777;
        let left = Random(1).values(dtype, count);
        let right = Random(2).values(dtype, count);
        let results = outputs_of(&g, &[count], &[&upload(dtype, &[count], &left), &upload(dtype, &[count], &right)]);
        for (&op, got) in ops.iter().zip(&results) {
            let most = match op {
                Binary::Pow | Binary::Atan2 | Binary::Hypot => tolerance(dtype),
                _ => 0,
            };
            // The remainder is exact, but only f64's oracle sees it before it is rounded with the divisor added.
            let most = if op == Binary::Rem { most + 1 } else { most };
            // f64's power is judged by another libm, whose error the exponent magnifies as ours.
            let most = if op == Binary::Pow && dtype == DType::F64 { 64 } else { most };
            let args = |at: usize| format!("{:?}, {:?}", left[at], right[at]);
            check_floats(op.name(), dtype, most, got, args, |at| float_binary(op, float(left[at]), float(right[at])));
        }
    }
}

fn limits(dtype: DType) -> (i128, i128) {
    let bits = dtype.size_bytes() * 8;
    if dtype.is_signed_int() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn wrap(dtype: DType, value: i128) -> Scalar {
    if dtype == DType::Bool {
        return Scalar::Bool(value != 0);
    }
    let (low, high) = limits(dtype);
    let value = value.wrapping_sub(low).rem_euclid(high - low + 1) + low;
    if dtype.is_signed_int() { Scalar::Int(value as i64) } else { Scalar::Uint(value as u64) }
}

fn integer_unary(op: Unary, dtype: DType, x: i128) -> i128 {
    match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => x.signum(),
        Unary::Not if dtype == DType::Bool => 1 - x,
        Unary::Not => !x,
        _ => unreachable!("{op} is of floats"),
    }
}

fn integer_binary(op: Binary, dtype: DType, a: i128, b: i128) -> i128 {
    let count = b.rem_euclid(dtype.size_bytes() as i128 * 8) as u32;
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div => a.checked_div(b).unwrap_or(0),
        Binary::Rem if b == 0 => 0,
        Binary::Rem => {
            let r = a % b;
            if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
        }
        Binary::Pow if b >= 0 => (0..b.min(4096)).fold(1i128, |p, _| p.wrapping_mul(a)),
        Binary::Pow if a == 1 => 1,
        Binary::Pow if a == -1 => 1 - 2 * (b & 1),
        Binary::Pow => 0,
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl => a.wrapping_shl(count),
        Binary::Shr => a >> count,
        _ => unreachable!("{op} is of floats"),
    }
}

#[test]
fn operators_of_integers_and_bools_match_i128() {
    for dtype in DType::ALL.into_iter().filter(|dtype| !dtype.is_float()) {
        let (unaries, binaries) = (unaries(dtype), binaries(dtype));
        let mut g = Graph::new("integers");
        let (a, b) = (g.input(dtype), g.input(dtype));
        for &op in &unaries {
            let y = g.unary(op, a);
            g.output(y);
        }
        for &op in &binaries {
            let y = g.binary(op, a, b);
            g.output(y);
        }
        let count = 300;
        let left = Random(3).values(dtype, count);
        // A power of 2^63 is not to be computed by the oracle's loop: exponents stay small in the wide types.
        let right: Vec<Scalar> =
            Random(4).values(dtype, count).into_iter().map(|v| wrap(dtype, integer(v) % 1000)).collect();
        let results = outputs_of(&g, &[count], &[&upload(dtype, &[count], &left), &upload(dtype, &[count], &right)]);
        let (of_unary, of_binary) = results.split_at(unaries.len());
        for (&op, got) in unaries.iter().zip(of_unary) {
            for at in 0..count {
                let expected = wrap(dtype, integer_unary(op, dtype, integer(left[at])));
                assert_eq!(got[at], expected, "{op} {dtype} of {:?}", left[at]);
            }
        }
        for (&op, got) in binaries.iter().zip(of_binary) {
            for at in 0..count {
                let expected = wrap(dtype, integer_binary(op, dtype, integer(left[at]), integer(right[at])));
                assert_eq!(got[at], expected, "{op} {dtype} of {:?}, {:?}", left[at], right[at]);
            }
        }
    }
}

#[test]
fn comparisons_and_selections_match_in_every_dtype() {
    for dtype in DType::ALL {
        let is_taken = |op: &Compare| takes(|g| g.input(dtype).is(*op, g.input(dtype)));
        let ops: Vec<Compare> = Compare::ALL.iter().copied().filter(is_taken).collect();
        let mut g = Graph::new("comparisons");
        let (a, b) = (g.input(dtype), g.input(dtype));
        for &op in &ops {
            let y = g.compare(op, a, b);
            g.output(y);
        }
        let least = g.compare(ops[0], a, b);
        let chosen = g.select(least, b, a);
        g.output(chosen);
        let count = 130;
        let left = Random(5).values(dtype, count);
        let mut right = Random(6).values(dtype, count);
        right[..40].copy_from_slice(&left[..40]);
        let results = outputs_of(&g, &[count], &[&upload(dtype, &[count], &left), &upload(dtype, &[count], &right)]);
        let order = |at: usize| match (left[at], right[at]) {
            (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
            (a, b) => Some(integer(a).cmp(&integer(b))),
        };
        for (&op, got) in ops.iter().zip(&results) {
            for at in 0..count {
                let order = order(at);
                let expected = match op {
                    Compare::Eq => order.is_some_and(|o| o.is_eq()),
                    Compare::Ne => order.is_none_or(|o| o.is_ne()),
                    Compare::Lt => order.is_some_and(|o| o.is_lt()),
                    Compare::Le => order.is_some_and(|o| o.is_le()),
                    Compare::Gt => order.is_some_and(|o| o.is_gt()),
                    _ => order.is_some_and(|o| o.is_ge()),
                };
                assert_eq!(got[at], Scalar::Bool(expected), "{:?} {op} {:?} in {dtype}", left[at], right[at]);
            }
        }
        for at in 0..count {
            let expected = if order(at).is_some_and(|o| o.is_eq()) { right[at] } else { left[at] };
            assert!(same(dtype, results[ops.len()][at], expected));
        }
    }
}

#[test]
fn casts_between_all_dtypes_are_those_of_scalars() {
    for from in DType::ALL {
        let mut g = Graph::new("casts");
        let x = g.input(from);
        for to in DType::ALL {
            let y = g.cast(x, to);
            g.output(y);
        }
        let count = 200;
        let values = Random(7).values(from, count);
        let results = outputs_of(&g, &[count], &[&upload(from, &[count], &values)]);
        for (to, got) in DType::ALL.into_iter().zip(&results) {
            for at in 0..count {
                let expected = rounded(to, values[at]);
                assert!(
                    same(to, got[at], expected),
                    "{:?} {from} to {to}: {:?}, not {expected:?}",
                    values[at],
                    got[at]
                );
            }
        }
    }
}

#[test]
fn strides_broadcasts_and_odd_sizes_reach_the_right_elements() {
    let dtype = DType::F32;
    let shapes: [&[usize]; 7] =
        [&[], &[0], &[5, 0, 3], &[3, 1, 7], &[2, 13, 16], &[4, 5, 6, 7], &[2, 1, 3, 2, 1, 2, 2, 5]];
    for shape in shapes {
        let count = shape.iter().product();
        let (left, right) = (Random(9).values(dtype, count), Random(10).values(dtype, count));
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        axes.reverse();
        let a = upload_permuted(dtype, shape, &axes, &left);
        let b = upload(dtype, shape, &right);
        let got = download(&eager::binary(Binary::Sub, &a, &b).unwrap());
        for at in 0..count {
            let expected = rounded(dtype, Scalar::Float(float(left[at]) - float(right[at])));
            assert!(same(dtype, got[at], expected), "{shape:?} element {at}");
        }
    }
    // [4, 1, 6] with [5, 1]: every axis but one broadcasts on one side.
    let (left, right) = (Random(1).values(dtype, 24), Random(2).values(dtype, 5));
    let a = upload(dtype, &[4, 1, 6], &left);
    let b = upload(dtype, &[5, 1], &right);
    let got = download(&eager::binary(Binary::Add, &a, &b).unwrap());
    for (at, &got) in got.iter().enumerate() {
        let (i, j, k) = (at / 30, at / 6 % 5, at % 6);
        let expected = rounded(dtype, Scalar::Float(float(left[i * 6 + k]) + float(right[j])));
        assert!(same(dtype, got, expected));
    }
}

#[test]
fn flips_and_steps_are_read_and_written_in_place() {
    let values: Vec<Scalar> = (0..40).map(Scalar::Int).collect();
    let x = upload(DType::I32, &[4, 10], &values);
    let flipped = x.with_layout(x.layout().flip(&[1]).unwrap()).unwrap();
    let expected: Vec<Scalar> = (0..40).map(|at| Scalar::Int(at / 10 * 10 + 9 - at % 10)).collect();
    assert_eq!(download(&eager::copy(&flipped).unwrap()), expected);

    // Rows that do not touch: the rest of each is skipped.
    let begins = x.with_layout(x.layout().slice(1, 0, 7, 1).unwrap()).unwrap();
    let expected: Vec<Scalar> = (0..28).map(|at| Scalar::Int(-(at / 7 * 10 + at % 7))).collect();
    assert_eq!(download(&eager::unary(Unary::Neg, &begins).unwrap()), expected);

    let mut y = upload(DType::I32, &[4, 10], &vec![Scalar::Int(-1); 40]);
    let layout = y.layout().slice(1, 1, 10, 2).unwrap();
    let odd = x.with_layout(x.layout().slice(1, 1, 10, 2).unwrap()).unwrap();
    eager::copy_into(odd.view(), y.view_mut().with_layout(layout).unwrap()).unwrap();
    let expected: Vec<Scalar> = (0..40).map(|at| Scalar::Int(if at % 2 == 1 { at } else { -1 })).collect();
    assert_eq!(download(&y), expected);

    let view = y.view_mut().with_layout(layout).unwrap();
    eager::fill(view, Scalar::Int(5)).unwrap();
    let expected: Vec<Scalar> = (0..40).map(|at| Scalar::Int(if at % 2 == 1 { 5 } else { -1 })).collect();
    assert_eq!(download(&y), expected);
}

#[test]
fn an_output_may_be_its_input() {
    let mut g = Graph::new("in_place");
    let (a, b) = (g.input(DType::F32), g.input(DType::F32));
    let y = g.binary(Binary::Mul, a, b);
    g.output(y);
    let mut x = upload(DType::F32, &[1003], &(0..1003).map(Scalar::Int).collect::<Vec<_>>());
    let other = x.clone();
    run(device().stream(), &g, &[1003], &[other.view(), other.view()], &[], &mut [x.view_mut()]).unwrap();
    assert_eq!(download(&x), (0..1003).map(|v| Scalar::Float(f64::from(v * v))).collect::<Vec<_>>());
}

#[test]
fn indices_are_coordinates_counted_from_the_last_axis() {
    let mut g = Graph::new("indices");
    let (row, column) = (g.index(1), g.index(0));
    let mask = g.compare(Compare::Le, column, row);
    g.output(mask);
    g.output(row);
    let results = outputs_of(&g, &[2, 5, 7], &[]);
    for (at, (&mask, &index)) in results[0].iter().zip(&results[1]).enumerate() {
        let (row, column) = (at / 7 % 5, at % 7);
        assert_eq!(mask, Scalar::Bool(column <= row));
        assert_eq!(index, Scalar::Int(row as i64));
    }
}

#[test]
fn scalars_change_without_a_new_kernel() {
    let x = upload(DType::F16, &[9], &[Scalar::Float(1.5); 9]);
    let before = device().compiled();
    for value in [1.0, 2.0, -0.25] {
        let y = eager::binary_scalar(Binary::Mul, &x, Scalar::Float(value)).unwrap();
        assert_eq!(download(&y), vec![Scalar::Float(1.5 * value); 9]);
    }
    assert!(device().compiled() <= before + 1);
    let y = eager::scalar_binary(Binary::Sub, Scalar::Float(1.0), &x).unwrap();
    assert_eq!(download(&y), vec![Scalar::Float(-0.5); 9]);
}
