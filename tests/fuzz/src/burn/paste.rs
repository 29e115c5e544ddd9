//! What a printed test needs besides Burn: kept as text beside the code, so that both are the same.

use burn_backend::ops::{ConvOptions, ConvTransposeOptions, UnfoldOptions};
use burn_backend::{DType as TheirDType, Shape, Slice};
use burn_std::{BoolStore, FloatDType, IntDType};
use rocfire_hal::DType;

use crate::program::{Number, Window};

/// Ours in Burn's words.
pub(crate) fn theirs(dtype: DType) -> TheirDType {
    match dtype {
        DType::F64 => TheirDType::F64,
        DType::F32 => TheirDType::F32,
        DType::F16 => TheirDType::F16,
        DType::BF16 => TheirDType::BF16,
        DType::I64 => TheirDType::I64,
        DType::I32 => TheirDType::I32,
        DType::I16 => TheirDType::I16,
        DType::I8 => TheirDType::I8,
        DType::U64 => TheirDType::U64,
        DType::U32 => TheirDType::U32,
        DType::U16 => TheirDType::U16,
        DType::U8 => TheirDType::U8,
        DType::Bool => TheirDType::Bool(BoolStore::Native),
    }
}

/// Burn's in our words.
pub(crate) fn ours(dtype: TheirDType) -> DType {
    match dtype {
        TheirDType::Bool(_) => DType::Bool,
        TheirDType::Flex32 => DType::F32,
        dtype => {
            let all = DType::ALL.into_iter().find(|ours| theirs(*ours) == dtype);
            all.unwrap_or_else(|| panic!("no operator of the tables makes {dtype:?}"))
        }
    }
}

/// The type of floats that a call asks for.
pub(crate) fn float(dtype: DType) -> FloatDType {
    theirs(dtype).into()
}

/// The type of integers that a call asks for.
pub(crate) fn int(dtype: DType) -> IntDType {
    theirs(dtype).into()
}

/// A number that a call takes.
pub(crate) fn scalar(number: Number) -> burn_backend::Scalar {
    match number {
        Number::Float(value) => burn_backend::Scalar::Float(value),
        Number::Int(value) => burn_backend::Scalar::Int(value),
        Number::Bool(value) => burn_backend::Scalar::Bool(value),
    }
}

/// A number as f64.
pub(crate) fn plain(number: Number) -> f64 {
    match number {
        Number::Float(value) => value,
        Number::Int(value) => value as f64,
        Number::Bool(value) => f64::from(u8::from(value)),
    }
}

pub(crate) fn shape(extents: &[usize]) -> Shape {
    Shape::from(extents.to_vec())
}

pub(crate) fn slices(parts: &[(isize, Option<isize>, isize)]) -> Vec<Slice> {
    parts.iter().map(|&(from, to, step)| Slice::new(from, to, step)).collect()
}

fn first<const N: usize>(axes: [usize; 3]) -> [usize; N] {
    std::array::from_fn(|axis| axes[axis])
}

pub(crate) fn conv<const N: usize>(window: Window) -> ConvOptions<N> {
    let Window { stride, padding, dilation, groups, .. } = window;
    ConvOptions::new(first(stride), first(padding), first(dilation), groups)
}

pub(crate) fn conv_transpose<const N: usize>(window: Window) -> ConvTransposeOptions<N> {
    let Window { stride, padding, dilation, extra, groups, .. } = window;
    ConvTransposeOptions::new(first(stride), first(padding), first(extra), first(dilation), groups)
}

pub(crate) fn unfold(window: Window) -> UnfoldOptions {
    UnfoldOptions::new(first(window.stride), first(window.padding), first(window.dilation))
}

pub(crate) fn pair(axes: [usize; 3]) -> [usize; 2] {
    first(axes)
}

pub(crate) fn sizes<const N: usize>(extents: &[usize]) -> [usize; N] {
    std::array::from_fn(|axis| extents[axis])
}
