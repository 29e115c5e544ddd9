//! Reductions on the host, for ranks that meet in the process.
//!
//! Ranks are taken in their order. Floats are reduced in f64 and rounded once; integers wrap. The largest and the
//! smallest of floats leave NaNs out, as the libraries' do.

use half::{bf16, f16};

use super::Reduction;
use crate::DType;

/// Element by element over `parts`, which are equally long and at least one.
pub fn reduce(dtype: DType, reduction: Reduction, parts: &[&[u8]]) -> Vec<u8> {
    match dtype {
        DType::F64 => floats::<8>(parts, reduction, f64::from_le_bytes, f64::to_le_bytes),
        DType::F32 => floats::<4>(parts, reduction, |b| f32::from_le_bytes(b).into(), |a| (a as f32).to_le_bytes()),
        DType::F16 => {
            floats::<2>(parts, reduction, |b| f16::from_le_bytes(b).into(), |a| f16::from_f64(a).to_le_bytes())
        }
        DType::BF16 => {
            floats::<2>(parts, reduction, |b| bf16::from_le_bytes(b).into(), |a| bf16::from_f64(a).to_le_bytes())
        }
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
