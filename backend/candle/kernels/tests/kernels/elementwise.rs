//! Maps, binary operators, comparisons, casts, selects, fills.

#[path = "../../../../../fusion/tests/support/oracle.rs"]
mod oracle;

use candle_kernels::{AFFINE, BINARY, CAST, FILL, Id, Module, TERNARY, UNARY};
use rocfire_fusion::Unary;

use crate::harness::{Arg, Card, Data, assert_close, elements, on_each_card, rounded, sweeps, values};

sweeps! {
    affine_scales_and_shifts,
    copies_gather_strided_elements,
    unary_operators_are_candles,
    unary_operators_with_a_number_are_candles,
    tails_are_no_rounding,
    casts_are_those_of_rust,
    binary_operators_are_candles,
    comparisons_answer_in_bytes,
    selects_take_any_condition_that_is_not_zero,
    fills_write_nothing_between_strides,
    rows_are_copied_between_strides,
}

const FLOATS: [&str; 4] = ["bf16", "f16", "f32", "f64"];
const DTYPES: [&str; 9] = ["bf16", "f16", "f32", "f64", "u8", "u32", "i64", "i16", "i32"];

/// More than two workgroups of any kernel, and no multiple of what a lane does.
const COUNT: usize = 4099;

/// Extents of a tensor that is seen with its first two axes swapped, the last one as given: 7, whose elements are taken one by
/// one, and 16, which are whole runs.
const SWAPPED: [usize; 2] = [5, 3];
const WIDTHS: [usize; 2] = [7, 16];

fn swapped_info(width: usize) -> Vec<usize> {
    let [a, b] = SWAPPED;
    vec![b, a, width, width, b * width, 1]
}

fn swapped(x: &[f64], width: usize) -> Vec<f64> {
    let [a, b] = SWAPPED;
    let at = (0..b).flat_map(|j| (0..a).flat_map(move |i| (0..width).map(move |k| (i * b + j) * width + k)));
    at.map(|at| x[at]).collect()
}

/// The type of what goes in and of what comes out, and numbers before and behind the pointers.
struct Signature {
    types: (&'static str, &'static str),
    before: Vec<Arg>,
    behind: Vec<Arg>,
}

impl Signature {
    fn of(from: &'static str, to: &'static str) -> Signature {
        Signature { types: (from, to), before: Vec::new(), behind: Vec::new() }
    }
}

/// Runs a map over dense elements and over swapped axes.
fn check_map(
    card: &Card,
    module: &Module,
    name: &str,
    signature: &Signature,
    x: &[f64],
    f: (&dyn Fn(f64) -> f64, f64),
) {
    let what = format!("{name} on {}", card.name);
    let cases = WIDTHS.map(|width| (swapped_info(width), 3, swapped(x, width)));
    for (info, axes, seen) in cases.into_iter().chain([(Vec::new(), 1, x.to_vec())]) {
        let mut args = vec![Arg::Size(seen.len() as u64), Arg::Size(axes), Arg::Info(info)];
        args.extend(signature.before.clone());
        args.push(Arg::In(Data::new(signature.types.0, x)));
        args.push(Arg::Out(Data::unwritten(signature.types.1, seen.len())));
        args.extend(signature.behind.clone());
        let got = card.run(module, name, elements(seen.len()), &args);
        let expected: Vec<f64> = seen.iter().map(|&x| f.0(rounded(signature.types.0, x))).collect();
        assert_close(&what, &got[0], &expected, f.1);
    }
}

fn affine_scales_and_shifts() {
    on_each_card(|card| {
        for dtype in DTYPES {
            let name = format!("affine_{dtype}");
            let x = values(dtype, COUNT, 1);
            let numbers = vec![Arg::Of(dtype, 3.0), Arg::Of(dtype, 2.0)];
            let wraps = |y: f64| if dtype == "u8" { y.rem_euclid(256.0) } else { y };
            let signature = Signature { behind: numbers, ..Signature::of(dtype, dtype) };
            check_map(card, &AFFINE, &name, &signature, &x, (&|x| wraps(x * 3.0 + 2.0), 20.0));
        }
    });
}

fn copies_gather_strided_elements() {
    on_each_card(|card| {
        for dtype in DTYPES {
            let (name, x) = (format!("ucopy_{dtype}"), values(dtype, COUNT, 2));
            check_map(card, &UNARY, &name, &Signature::of(dtype, dtype), &x, (&|x| x, 0.0));
        }
    });
}

/// Candle's own operators; the others are fusion's.
fn unary(op: &str, x: f64) -> f64 {
    match op {
        "gelu" => 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
        "gelu_erf" => 0.5 * x * (1.0 + oracle::erf(x / 2.0_f64.sqrt())),
        "relu" => x.max(0.0),
        "round" => x.round(),
        "sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "silu" => x / (1.0 + (-x).exp()),
        "sqr" => x * x,
        op => oracle::unary(Unary::named(op).unwrap_or_else(|| panic!("no operator {op}")), x),
    }
}

/// Operators of one number alone.
fn unary_operators() -> Vec<&'static str> {
    let names = candle_kernels::names().chain(candle_kernels::names_beyond());
    let ops =
        names.filter(|name| name.0 == Id::Unary).filter_map(|name| name.1.strip_prefix('u')?.strip_suffix("_f32"));
    ops.filter(|op| !["copy", "elu", "powf"].contains(op)).collect()
}

fn unary_operators_are_candles() {
    on_each_card(|card| {
        for dtype in FLOATS {
            let mut x = values(dtype, 1100, 3);
            x[..8].copy_from_slice(&[0.0, -0.0, 0.5, -0.5, 2.5, -2.5, f64::NAN, f64::INFINITY]);
            for op in unary_operators() {
                // -inf and inf are limits that some of these references miss by their own formulas.
                let last = if matches!(op, "gelu" | "gelu_erf" | "silu" | "sin" | "cos") { 1.0 } else { f64::INFINITY };
                x[7] = last;
                let name = format!("u{op}_{dtype}");
                check_map(card, &UNARY, &name, &Signature::of(dtype, dtype), &x, (&|x| unary(op, x), 8.0));
            }
        }
    });
}

fn unary_operators_with_a_number_are_candles() {
    on_each_card(|card| {
        for dtype in FLOATS {
            let x = values(dtype, COUNT, 4);
            let with = |number: f64| Signature { before: vec![Arg::Of(dtype, number)], ..Signature::of(dtype, dtype) };
            let elu = |x: f64| if x > 0.0 { x } else { 0.5 * (x.exp() - 1.0) };
            check_map(card, &UNARY, &format!("uelu_{dtype}"), &with(0.5), &x, (&elu, 8.0));
            check_map(card, &UNARY, &format!("upowf_{dtype}"), &with(3.0), &x, (&|x| x.powf(3.0), 8.0));
        }
    });
}

/// Where the function is nearly nothing and the numbers it is made of are not: in f32, `1 + tanh` is a whole number of units of 1
/// there, and `exp(-x)` is infinite.
fn tails_are_no_rounding() {
    let logistic = |x: f64| x.exp() / (1.0 + x.exp());
    let gelu = |x: f64| x * logistic(2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x));
    type Case<'a> = (&'a str, &'a [f64], &'a dyn Fn(f64) -> f64);
    let cases: [Case<'_>; 2] =
        [("gelu", &[-3.0, -4.975417, -6.0, -8.5], &gelu), ("sigmoid", &[-20.0, -87.0, -90.0, -92.5], &logistic)];
    on_each_card(|card| {
        for dtype in ["bf16", "f32", "f64"] {
            for (op, x, wanted) in cases {
                let info = [Arg::Size(x.len() as u64), Arg::Size(1), Arg::Info(Vec::new())];
                let memory = [Arg::In(Data::new(dtype, x)), Arg::Out(Data::unwritten(dtype, x.len()))];
                let got = card.run(
                    &UNARY,
                    &format!("u{op}_{dtype}"),
                    elements(x.len()),
                    &[info.as_slice(), &memory].concat(),
                );
                for (got, &x) in got[0].values().into_iter().zip(x) {
                    let wanted = wanted(rounded(dtype, x));
                    // Some units of f32, or one of bf16, and the least numbers that both have.
                    let near = if dtype == "bf16" { 0.01 } else { 1e-5 } * wanted.abs() + 2.0_f64.powi(-133);
                    assert!(
                        (got - wanted).abs() <= near,
                        "{op} of {x} as {dtype} on {}: {got:e}, not {wanted:e}",
                        card.name
                    );
                }
            }
        }
    });
}

/// As Rust's `as`: integers keep their low bits, floats saturate.
fn cast(from: &str, to: &str, x: f64) -> f64 {
    let is_float = |dtype: &str| FLOATS.contains(&dtype);
    match to {
        "u8" if !is_float(from) => (x as i64 as u8).into(),
        "u32" if !is_float(from) => (x as i64 as u32).into(),
        "i16" if !is_float(from) => (x as i64 as i16).into(),
        "i32" if !is_float(from) => (x as i64 as i32).into(),
        _ => rounded(to, x),
    }
}

fn casts_are_those_of_rust() {
    let is_cast = |name: &&str| name.starts_with("cast_");
    let mut names: Vec<&str> = candle_kernels::names().map(|name| name.1).filter(is_cast).collect();
    assert_eq!(names.len(), 45);
    names.extend(candle_kernels::names_beyond().map(|name| name.1).filter(is_cast));
    on_each_card(|card| {
        for name in &names {
            let words: Vec<&str> = name.split('_').collect();
            let find = |word: &str| DTYPES.into_iter().find(|&dtype| dtype == word).unwrap();
            let (from, to) = (find(words[1]), find(words[2]));
            let mut x = values(from, 300, 5);
            x[..4].copy_from_slice(&[0.0, 300.0, 2.5, if from.starts_with('u') { 7.0 } else { -1.0 }]);
            let x: Vec<f64> = x.into_iter().map(|x| rounded(from, x)).collect();
            check_map(card, &CAST, name, &Signature::of(from, to), &x, (&|x| cast(from, to, x), 0.0));
        }
    });
}

fn binary(op: &str, x: f64, y: f64) -> f64 {
    match op {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "div" => x / y,
        "maximum" => {
            if x < y {
                y
            } else {
                x
            }
        }
        "minimum" => {
            if x > y {
                y
            } else {
                x
            }
        }
        "eq" => (x == y).into(),
        "ne" => (x != y).into(),
        "lt" => (x < y).into(),
        "le" => (x <= y).into(),
        "gt" => (x > y).into(),
        "ge" => (x >= y).into(),
        _ => panic!("no operator {op}"),
    }
}

/// What an integer type keeps of a result.
fn integer(dtype: &str, value: f64) -> f64 {
    match dtype {
        "u8" => (value.trunc() as i64 as u8).into(),
        "u32" => (value.trunc() as i64 as u32).into(),
        "i64" | "i32" | "i16" => value.trunc(),
        _ => value,
    }
}

/// Over dense operands, and over one broadcast along the first axis with one whose axes are swapped.
fn check_binary(card: &Card, name: &str, op: &str, dtype: &'static str, out: &'static str) {
    let what = format!("{name} on {}", card.name);
    let (mut x, mut y) = (values(dtype, COUNT, 6), values(dtype, COUNT, 7));
    if !FLOATS.contains(&dtype) {
        y.iter_mut().filter(|y| **y == 0.0).for_each(|y| *y = 3.0);
    } else {
        x[0] = f64::NAN;
        y[1] = f64::NAN;
    }
    x[2] = y[2];
    let mut cases = vec![(Vec::new(), 1, x.clone(), y.clone())];
    for width in WIDTHS {
        let count = 15 * width;
        let swapped_y = swapped(&y, width);
        let strides = [width, 3 * width, 1];
        // A row for all rows, and an element for each row.
        let row = (0..count).map(|at| x[at % width]).collect();
        cases.push(([&[3, 5, width][..], &[0, 0, 1], &strides].concat(), 3, row, swapped_y.clone()));
        let column = (0..count).map(|at| x[at / width]).collect();
        cases.push(([&[3, 5, width][..], &[5, 1, 0], &strides].concat(), 3, column, swapped_y));
    }
    for (info, axes, seen_x, seen_y) in cases {
        let args = [
            Arg::Size(seen_x.len() as u64),
            Arg::Size(axes),
            Arg::Info(info),
            Arg::In(Data::new(dtype, &x)),
            Arg::In(Data::new(dtype, &y)),
            Arg::Out(Data::unwritten(out, seen_x.len())),
        ];
        let got = card.run(&BINARY, name, elements(seen_x.len()), &args);
        let pairs = seen_x.iter().zip(&seen_y);
        let expected: Vec<f64> = pairs.map(|(&x, &y)| integer(dtype, binary(op, x, y))).collect();
        assert_close(&what, &got[0], &expected, 1.0);
    }
}

fn binary_operators_are_candles() {
    on_each_card(|card| {
        for dtype in DTYPES {
            for op in ["add", "sub", "mul", "div", "maximum", "minimum"] {
                check_binary(card, &format!("b{op}_{dtype}"), op, dtype, dtype);
            }
        }
    });
}

fn comparisons_answer_in_bytes() {
    on_each_card(|card| {
        for dtype in DTYPES {
            for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
                check_binary(card, &format!("{op}_{dtype}"), op, dtype, "u8");
            }
        }
    });
}

fn selects_take_any_condition_that_is_not_zero() {
    on_each_card(|card| {
        for id in ["u8", "u32", "i64"] {
            for dtype in DTYPES {
                let name = format!("where_{id}_{dtype}");
                let condition: Vec<f64> = (0..COUNT).map(|at| (at % 3) as f64).collect();
                let (yes, no) = (values(dtype, COUNT, 8), values(dtype, COUNT, 9));
                let dense = [&[COUNT][..], &[1], &[1], &[1]].concat();
                let swap = |width: usize| {
                    [&[3, 5, width][..], &[width, 3 * width, 1], &[0, 0, 1], &[5 * width, width, 1]].concat()
                };
                let cases = WIDTHS.map(|width| (swap(width), width, 15 * width));
                for (info, width, count) in cases.into_iter().chain([(dense, COUNT, COUNT)]) {
                    let is_dense = width == COUNT;
                    let args = [
                        Arg::Size(count as u64),
                        Arg::Size(if is_dense { 1 } else { 3 }),
                        Arg::Info(info),
                        Arg::In(Data::new(id, &condition)),
                        Arg::In(Data::new(dtype, &yes)),
                        Arg::In(Data::new(dtype, &no)),
                        Arg::Out(Data::unwritten(dtype, count)),
                    ];
                    let got = card.run(&TERNARY, &name, elements(count), &args);
                    let chosen = if is_dense { condition.clone() } else { swapped(&condition, width) };
                    let of = |at: usize| if chosen[at] != 0.0 { yes[at % width] } else { no[at] };
                    let expected: Vec<f64> = (0..count).map(of).collect();
                    assert_close(&format!("{name} on {}", card.name), &got[0], &expected, 0.0);
                }
            }
        }
    });
}

fn fills_write_nothing_between_strides() {
    on_each_card(|card| {
        for dtype in DTYPES.into_iter().chain(["f8_e4m3"]) {
            let name = format!("const_set_{dtype}");
            let stored = if dtype == "f8_e4m3" { "u8" } else { dtype };
            let before = values(stored, COUNT, 10);
            // Every element; then columns 0..3 of rows of 7.
            let cases = [(Vec::new(), 1, COUNT), (vec![5, 3, 7, 1], 2, 15)];
            for (info, axes, count) in cases {
                let args = [
                    Arg::Size(count as u64),
                    Arg::Size(axes),
                    Arg::Info(info),
                    Arg::Of(stored, 9.0),
                    Arg::Out(Data::new(stored, &before)),
                ];
                let got = card.run(&FILL, &name, elements(count), &args);
                let is_set = |at: usize| axes == 1 || (at < 35 && at % 7 < 3);
                let expected: Vec<f64> = (0..COUNT).map(|at| if is_set(at) { 9.0 } else { before[at] }).collect();
                assert_close(&format!("{name} on {}", card.name), &got[0], &expected, 0.0);
            }
        }
    });
}

fn rows_are_copied_between_strides() {
    on_each_card(|card| {
        for dtype in DTYPES {
            let name = format!("copy2d_{dtype}");
            // Rows of whole lanes, and rows that are not.
            for (rows, columns, x_stride, out_stride) in [(5, 32, 64, 48), (7, 13, 17, 19), (1, 4099, 0, 0)] {
                let x = values(dtype, 7 * 4099, 11);
                let before = values(dtype, 5000, 12);
                let args = [
                    Arg::In(Data::new(dtype, &x)),
                    Arg::Out(Data::new(dtype, &before)),
                    Arg::Int(rows),
                    Arg::Int(columns),
                    Arg::Int(x_stride),
                    Arg::Int(out_stride),
                ];
                let got = card.run(&FILL, &name, elements((rows * columns) as usize), &args);
                let mut expected = before.clone();
                for row in 0..rows {
                    for column in 0..columns {
                        expected[(row * out_stride + column) as usize] = x[(row * x_stride + column) as usize];
                    }
                }
                assert_close(&format!("{name} on {}", card.name), &got[0], &expected, 0.0);
            }
        }
    });
}
