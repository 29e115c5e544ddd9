//! Elementwise kernels as graphs, as Candle defines them, with those that fill memory, move elements or turn pairs of them.

use cudarc::rocfire::{Extent, ExtentOf, Launch};
use rocfire_fusion::{Binary, Compare, Graph, Scalar, Unary, Value};
use rocfire_hal::DType;

use super::{Words, bits_of};
use crate::table::{Entry, Family};

/// What the kernel of an entry computes; `None` for one of another kind. 16-bit floats are computed with in f32 and rounded once.
pub(super) fn graph(entry: &'static Entry) -> Option<Graph> {
    let words = Words(&entry.words);
    let of = words.dtype_of_last()?;
    let wide = |graph: &mut Graph, value: Value| match of {
        DType::F16 | DType::BF16 => graph.cast(value, DType::F32),
        _ => value,
    };
    let mut graph = Graph::new("candle");
    let g = &mut graph;
    let result = match entry.family {
        Family::ConstSet => {
            let value = g.scalar(bits_of(of));
            g.output(value);
            return Some(graph);
        }
        Family::Rope => {
            let pair = [(); 4].map(|()| g.input(of)).map(|value| wide(g, value));
            for turned in turn(g, pair) {
                let stored = rounded(g, turned, of);
                g.output(stored);
            }
            return Some(graph);
        }
        Family::Copy | Family::Copy2d => g.input(of),
        Family::Cast => {
            let x = g.input(words.dtype(0));
            g.cast(x, of)
        }
        Family::Where => {
            let (id, a, b) = (g.input(words.dtype(0)), g.input(of), g.input(of));
            let zero = g.constant(words.dtype(0), 0);
            let is_chosen = g.compare(Compare::Ne, id, zero);
            g.select(is_chosen, a, b)
        }
        Family::Binary | Family::Compare => {
            let [a, b] = [g.input(of), g.input(of)];
            let [a, b] = [a, b].map(|value| wide(g, value));
            match Compare::named(words.word(0)) {
                Some(op) => {
                    let holds = g.compare(op, a, b);
                    g.cast(holds, DType::U8)
                }
                None => binary(g, words.word(0), a, b),
            }
        }
        Family::Affine | Family::Unary | Family::UnaryParameter => {
            let x = g.input(of);
            let x = wide(g, x);
            let number = |g: &mut Graph| {
                let number = g.scalar(of);
                wide(g, number)
            };
            match words.word(0) {
                "elu" => {
                    let alpha = number(g);
                    elu(g, x, alpha)
                }
                "powf" => {
                    let power = number(g);
                    g.binary(Binary::Pow, x, power)
                }
                word if words.has(1) => unary(g, word, x),
                _ => {
                    let (factor, summand) = (number(g), number(g));
                    let scaled = g.binary(Binary::Mul, x, factor);
                    g.binary(Binary::Add, scaled, summand)
                }
            }
        }
        _ => return None,
    };
    let result = if entry.family == Family::Compare { result } else { rounded(g, result, of) };
    g.output(result);
    Some(graph)
}

fn rounded(g: &mut Graph, value: Value, of: DType) -> Value {
    if g.dtype(value) == of { value } else { g.cast(value, of) }
}

/// A pair turned by an angle, whose cosine and sine these are.
fn turn(g: &mut Graph, [a, b, cos, sin]: [Value; 4]) -> [Value; 2] {
    let mut product = |a: Value, b: Value| g.binary(Binary::Mul, a, b);
    let [a_cos, b_sin, a_sin, b_cos] = [product(a, cos), product(b, sin), product(a, sin), product(b, cos)];
    [g.binary(Binary::Sub, a_cos, b_sin), g.binary(Binary::Add, a_sin, b_cos)]
}

fn unary(g: &mut Graph, word: &str, x: Value) -> Value {
    let of = g.dtype(x);
    let number = |g: &mut Graph, number: f64| g.constant(of, number);
    let (zero, one) = (number(g, 0.0), number(g, 1.0));
    match word {
        // By tanh, x / 2 · (1 + tanh(u)), as x · logistic(2 u), where nothing cancels.
        "gelu" => {
            let (cubic, twice) =
                (number(g, 0.044715), number(g, std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::SQRT_2));
            let cube = [x, x, x].into_iter().fold(cubic, |product, x| g.binary(Binary::Mul, product, x));
            let sum = g.binary(Binary::Add, x, cube);
            let power = g.binary(Binary::Mul, twice, sum);
            let logistic = logistic(g, power);
            g.binary(Binary::Mul, x, logistic)
        }
        // x · Φ(x)
        "gelu_erf" => {
            let (half, root) = (number(g, 0.5), number(g, std::f64::consts::FRAC_1_SQRT_2));
            let (halved, scaled) = (g.binary(Binary::Mul, half, x), g.binary(Binary::Mul, x, root));
            let erf = g.unary(Unary::Erf, scaled);
            let sum = g.binary(Binary::Add, one, erf);
            g.binary(Binary::Mul, halved, sum)
        }
        // NaN gives 0, as on Candle's CPU device.
        "relu" => {
            let is_positive = g.compare(Compare::Gt, x, zero);
            g.select(is_positive, x, zero)
        }
        // Ties away from zero.
        "round" => {
            let half = number(g, 0.5);
            let size = g.unary(Unary::Abs, x);
            let whole = g.unary(Unary::Trunc, size);
            let rest = g.binary(Binary::Sub, size, whole);
            let is_up = g.compare(Compare::Ge, rest, half);
            let step = g.select(is_up, one, zero);
            let rounded = g.binary(Binary::Add, whole, step);
            g.binary(Binary::CopySign, rounded, x)
        }
        "sigmoid" => logistic(g, x),
        "silu" => {
            let negative = g.unary(Unary::Neg, x);
            let power = g.unary(Unary::Exp, negative);
            let sum = g.binary(Binary::Add, one, power);
            g.binary(Binary::Div, x, sum)
        }
        "sqr" => g.binary(Binary::Mul, x, x),
        word => g.unary(Unary::named(word).expect("names.txt has operators of fusion's or of ours"), x),
    }
}

/// 1 / (1 + exp(-x)) by the power that is at most 1, so that it is no zero where the other one is infinite.
fn logistic(g: &mut Graph, x: Value) -> Value {
    let of = g.dtype(x);
    let (zero, one) = (g.constant(of, 0.0), g.constant(of, 1.0));
    let size = g.unary(Unary::Abs, x);
    let negative = g.unary(Unary::Neg, size);
    let power = g.unary(Unary::Exp, negative);
    let is_negative = g.compare(Compare::Lt, x, zero);
    let (above, below) = (g.select(is_negative, power, one), g.binary(Binary::Add, one, power));
    g.binary(Binary::Div, above, below)
}

/// Candle's CPU device asks for the sign: 0 stays where alpha is infinite, and -0 does not.
fn elu(g: &mut Graph, x: Value, alpha: Value) -> Value {
    let of = g.dtype(x);
    let (zero, one) = (g.constant(of, 0.0), g.constant(of, 1.0));
    let sign = g.binary(Binary::CopySign, one, x);
    let is_positive = g.compare(Compare::Gt, sign, zero);
    let power = g.unary(Unary::Exp, x);
    let less = g.binary(Binary::Sub, power, one);
    let scaled = g.binary(Binary::Mul, alpha, less);
    g.select(is_positive, x, scaled)
}

fn binary(g: &mut Graph, word: &str, a: Value, b: Value) -> Value {
    let of = g.dtype(a);
    match word {
        // A divisor of 0, which on a CPU panics, gives all ones, as integer division on GPUs does.
        "div" if !of.is_float() => {
            let (zero, ones) = (g.constant(of, 0), g.constant(of, Scalar::Int(-1)));
            let is_none = g.compare(Compare::Eq, b, zero);
            let quotient = g.binary(Binary::Div, a, b);
            g.select(is_none, ones, quotient)
        }
        // The first stays unless the second is beyond it, as on Candle's CPU device: a NaN that comes first is kept, one that
        // comes second is not, and of equal zeros the first one's sign stays.
        "maximum" | "minimum" => {
            let beyond = if word == "maximum" { Compare::Lt } else { Compare::Gt };
            let is_beyond = g.compare(beyond, a, b);
            g.select(is_beyond, b, a)
        }
        word => g.binary(Binary::named(word).expect("names.txt has operators of fusion's or of ours"), a, b),
    }
}

/// The bytes that an elementwise kernel writes, by those of an element: as many elements as its first argument says.
pub(super) fn dense_result(bytes: usize) -> ExtentOf {
    fn extent<const BYTES: u64>(launch: &Launch<'_>, _: usize, is_written: bool) -> Option<Extent> {
        let row_bytes = launch.integer(0).saturating_mul(BYTES);
        is_written.then_some(Extent { rows: 1, row_bytes, stride_bytes: row_bytes })
    }
    [extent::<1>, extent::<2>, extent::<4>, extent::<8>][bytes.ilog2() as usize]
}

/// The rows that `copy2d` reads or writes: rows, columns, and the strides of both.
pub(super) fn rows(bytes: usize) -> ExtentOf {
    fn extent<const BYTES: u64>(launch: &Launch<'_>, slot: usize, _: bool) -> Option<Extent> {
        let (rows, columns, stride) = (launch.integer(2), launch.integer(3), launch.integer(4 + slot));
        Some(Extent { rows, row_bytes: columns * BYTES, stride_bytes: stride * BYTES })
    }
    [extent::<1>, extent::<2>, extent::<4>, extent::<8>][bytes.ilog2() as usize]
}
