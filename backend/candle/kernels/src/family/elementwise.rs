//! Elementwise kernels as graphs, as Candle defines them. Filling memory, copying, and rotary embedding, which turns pairs of
//! elements, are here too.

use cudarc::rocfire::{Extent, ExtentOf, Launch};
use rocfire_fusion::{Binary as Op, Compare as Is, Draft, Graph, Scalar, Term, Unary};
use rocfire_hal::DType;
use rocfire_kernels::gate::Activation;

use super::{Words, bits_of};
use crate::table::{Entry, Family};

/// The graph of an entry whose kernel is elementwise; `None` for any other kernel. 16-bit floats are computed with in f32 and
/// rounded once.
pub(super) fn graph(entry: &'static Entry) -> Option<Graph> {
    let words = Words(&entry.words);
    let of = words.dtype_of_last()?;
    const NAME: &str = "candle";
    Some(match entry.family {
        Family::Rope => Draft::several(NAME, |g| {
            let [a, b, cos, sin] = [(); 4].map(|()| wide(g.input(of)));
            [a * cos - b * sin, a * sin + b * cos].map(|turned| turned.cast(of))
        }),
        Family::ConstSet => Draft::graph(NAME, |g| g.scalar(bits_of(of))),
        Family::Copy | Family::Copy2d => Draft::graph(NAME, |g| g.input(of)),
        Family::Cast => Draft::graph(NAME, |g| g.input(words.dtype(0)).cast(of)),
        Family::Where => Draft::graph(NAME, |g| {
            let [id, a, b] = [words.dtype(0), of, of].map(|of| g.input(of));
            id.is(Is::Ne, id.number(0)).choose(a, b)
        }),
        Family::Binary | Family::Compare => Draft::graph(NAME, |g| {
            let [a, b] = [(); 2].map(|()| g.input(of)).map(wide);
            match Is::named(words.word(0)) {
                Some(op) => a.is(op, b).cast(DType::U8),
                None => binary(words.word(0), a, b).cast(of),
            }
        }),
        Family::Affine | Family::Unary | Family::UnaryParameter => Draft::graph(NAME, |g| {
            let x = wide(g.input(of));
            let number = || wide(g.scalar(of));
            let result = match words.word(0) {
                "elu" => elu(x, number()),
                "powf" => x.binary(Op::Pow, number()),
                word if words.has(1) => unary(word, x),
                _ => {
                    let [factor, summand] = [number(), number()];
                    x * factor + summand
                }
            };
            result.cast(of)
        }),
        _ => return None,
    })
}

/// A value in the type that is computed with: f32 for 16-bit floats, else its own.
fn wide(x: Term<'_>) -> Term<'_> {
    if matches!(x.dtype(), DType::F16 | DType::BF16) { x.cast(DType::F32) } else { x }
}

fn unary<'g>(word: &str, x: Term<'g>) -> Term<'g> {
    let [zero, one] = [0.0, 1.0].map(|number| x.number(number));
    match word {
        "gelu" => Activation::GeluTanh.of(x),
        "gelu_erf" => Activation::Gelu.of(x),
        // NaN gives 0, as on Candle's CPU device.
        "relu" => x.is(Is::Gt, zero).choose(x, zero),
        // Ties away from zero.
        "round" => {
            let size = x.unary(Unary::Abs);
            let whole = size.unary(Unary::Trunc);
            let step = (size - whole).is(Is::Ge, x.number(0.5)).choose(one, zero);
            (whole + step).binary(Op::CopySign, x)
        }
        "sigmoid" => logistic(x),
        "silu" => x / (one + (-x).unary(Unary::Exp)),
        "sqr" => x * x,
        word => x.unary(Unary::named(word).expect("names.txt has operators of fusion's or of ours")),
    }
}

/// 1 / (1 + exp(-x)). It uses the power exp(-|x|), which is at most 1: exp(-x) would be infinite for very negative x, and the result 0.
fn logistic(x: Term<'_>) -> Term<'_> {
    let [zero, one] = [0.0, 1.0].map(|number| x.number(number));
    let power = (-x.unary(Unary::Abs)).unary(Unary::Exp);
    x.is(Is::Lt, zero).choose(power, one) / (one + power)
}

/// ELU. Candle's CPU device decides by the sign bit: 0 counts as positive and stays 0 even if alpha is infinite; -0 does not.
fn elu<'g>(x: Term<'g>, alpha: Term<'g>) -> Term<'g> {
    let [zero, one] = [0.0, 1.0].map(|number| x.number(number));
    let is_positive = one.binary(Op::CopySign, x).is(Is::Gt, zero);
    is_positive.choose(x, alpha * (x.unary(Unary::Exp) - one))
}

fn binary<'g>(word: &str, a: Term<'g>, b: Term<'g>) -> Term<'g> {
    match word {
        // A divisor of 0, which panics on a CPU, gives a number whose bits are all ones, as integer division on GPUs does.
        "div" if !a.dtype().is_float() => b.is(Is::Eq, b.number(0)).choose(b.number(Scalar::Int(-1)), a / b),
        // The first operand stays unless the second is beyond it, as on Candle's CPU device. So a NaN that comes first is kept, one that
        // comes second is not, and of two zeros the sign of the first stays.
        "maximum" | "minimum" => a.is(if word == "maximum" { Is::Lt } else { Is::Gt }, b).choose(b, a),
        word => a.binary(Op::named(word).expect("names.txt has operators of fusion's or of ours"), b),
    }
}

/// The bytes that an elementwise kernel writes, for elements of `bytes` bytes: its first argument says how many elements.
pub(super) fn dense_result(bytes: usize) -> ExtentOf {
    fn extent<const BYTES: u64>(launch: &Launch<'_>, _: usize, is_written: bool) -> Option<Extent> {
        let row_bytes = launch.integer(0).saturating_mul(BYTES);
        is_written.then_some(Extent { rows: 1, row_bytes, stride_bytes: row_bytes })
    }
    [extent::<1>, extent::<2>, extent::<4>, extent::<8>][bytes.ilog2() as usize]
}

/// The rows that `copy2d` reads or writes, for elements of `bytes` bytes.
pub(super) fn rows(bytes: usize) -> ExtentOf {
    fn extent<const BYTES: u64>(launch: &Launch<'_>, slot: usize, _: bool) -> Option<Extent> {
        let (rows, columns, stride) = (launch.integer(2), launch.integer(3), launch.integer(4 + slot));
        Some(Extent { rows, row_bytes: columns * BYTES, stride_bytes: stride * BYTES })
    }
    [extent::<1>, extent::<2>, extent::<4>, extent::<8>][bytes.ilog2() as usize]
}
