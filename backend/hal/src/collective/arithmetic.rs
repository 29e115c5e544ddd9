//! Reductions on the host, for ranks that meet in the process.
//!
//! Ranks are taken in their order. Floats are reduced in f64 and rounded once; integers wrap. The largest and the
//! smallest of floats leave NaNs out, as the libraries' do.

use half::{bf16, f16};

use super::Reduction;
use crate::DType;
use crate::round::to_odd;

/// Element by element over `parts`, which are equally long and at least one.
pub fn reduce(dtype: DType, reduction: Reduction, parts: &[&[u8]]) -> Vec<u8> {
    match dtype {
        DType::F64 => floats::<8>(parts, reduction, f64::from_le_bytes, f64::to_le_bytes),
        DType::F32 => floats::<4>(parts, reduction, |b| f32::from_le_bytes(b).into(), |a| (a as f32).to_le_bytes()),
        DType::F16 => {
            floats::<2>(parts, reduction, |b| f16::from_le_bytes(b).into(), |a| f16::from_f32(to_odd(a)).to_le_bytes())
        }
        DType::BF16 => floats::<2>(
            parts,
            reduction,
            |b| bf16::from_le_bytes(b).into(),
            |a| bf16::from_f32(to_odd(a)).to_le_bytes(),
        ),
        DType::I64 => integers::<8>(parts, reduction, |b| i64::from_le_bytes(b).into(), |a| (a as i64).to_le_bytes()),
        DType::I32 => integers::<4>(parts, reduction, |b| i32::from_le_bytes(b).into(), |a| (a as i32).to_le_bytes()),
        DType::I16 => integers::<2>(parts, reduction, |b| i16::from_le_bytes(b).into(), |a| (a as i16).to_le_bytes()),
        DType::I8 => integers::<1>(parts, reduction, |b| i8::from_le_bytes(b).into(), |a| (a as i8).to_le_bytes()),
        DType::U64 => integers::<8>(parts, reduction, |b| u64::from_le_bytes(b).into(), |a| (a as u64).to_le_bytes()),
        DType::U32 => integers::<4>(parts, reduction, |b| u32::from_le_bytes(b).into(), |a| (a as u32).to_le_bytes()),
        DType::U16 => integers::<2>(parts, reduction, |b| u16::from_le_bytes(b).into(), |a| (a as u16).to_le_bytes()),
        DType::U8 | DType::Bool => integers::<1>(parts, reduction, |b| b[0].into(), |a| [a as u8]),
    }
}

fn floats<const N: usize>(
    parts: &[&[u8]],
    reduction: Reduction,
    load: impl Fn([u8; N]) -> f64,
    store: impl Fn(f64) -> [u8; N],
) -> Vec<u8> {
    let step = |a: f64, b: f64| match reduction {
        Reduction::Sum | Reduction::Avg => a + b,
        Reduction::Prod => a * b,
        Reduction::Max => a.max(b),
        Reduction::Min => a.min(b),
    };
    let end = |a: f64| if reduction == Reduction::Avg { a / parts.len() as f64 } else { a };
    fold::<N, f64>(parts, load, step, |a| store(end(a)))
}

/// In 128 bits, of which the lower ones are what arithmetic of fewer bits gives.
fn integers<const N: usize>(
    parts: &[&[u8]],
    reduction: Reduction,
    load: impl Fn([u8; N]) -> i128,
    store: impl Fn(i128) -> [u8; N],
) -> Vec<u8> {
    let step = |a: i128, b: i128| match reduction {
        Reduction::Sum | Reduction::Avg => a.wrapping_add(b),
        Reduction::Prod => a.wrapping_mul(b),
        Reduction::Max => a.max(b),
        Reduction::Min => a.min(b),
    };
    let end = |a: i128| if reduction == Reduction::Avg { a / parts.len() as i128 } else { a };
    fold::<N, i128>(parts, load, step, |a| store(end(a)))
}

fn fold<const N: usize, T: Copy>(
    parts: &[&[u8]],
    load: impl Fn([u8; N]) -> T,
    step: impl Fn(T, T) -> T,
    store: impl Fn(T) -> [u8; N],
) -> Vec<u8> {
    let at = |part: &[u8], index: usize| load(*part[index * N..].first_chunk::<N>().expect("parts are whole elements"));
    let element = |index| store(parts[1..].iter().fold(at(parts[0], index), |sum, part| step(sum, at(part, index))));
    (0..parts[0].len() / N).flat_map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_round_a_sum_once() {
        // 1 + 2^-8 and 1 + 2^-11 are halfway between two values, the even one below; a third part tips the sum.
        let half = [(DType::BF16, -8, [0x80, 0x3f]), (DType::F16, -11, [0x00, 0x3c])];
        for (dtype, exponent, even) in half {
            let part = |value: f64| match dtype {
                DType::F16 => f16::from_f64(value).to_le_bytes(),
                _ => bf16::from_f64(value).to_le_bytes(),
            };
            let sum = |more: f64| {
                let parts = [part(1.0), part(2f64.powi(exponent)), part(more)];
                reduce(dtype, Reduction::Sum, &parts.each_ref().map(|part| part.as_slice()))
            };
            let odd = [even[0] + 1, even[1]];
            for (more, expected) in [(0.0, even), (2f64.powi(-24), odd), (-(2f64.powi(-24)), even)] {
                assert_eq!(sum(more), expected, "{dtype} {more}");
            }
        }
    }
}
