//! What a printed test needs besides Burn: kept as text beside the code, so that both are the same.

pub(crate) use burn_backend::TensorPrimitive;
pub(crate) use burn_backend::ops::{
    AttentionModuleOptions, DeformConvOptions, GridSampleOptions, InterpolateMode, InterpolateOptions,
};
use burn_backend::ops::{ConvOptions, ConvTransposeOptions, UnfoldOptions};
use burn_backend::quantization::{Calibration, QuantScheme, QuantStore, QuantValue, ScaleDtype};
use burn_backend::quantization::{compute_q_params, compute_range};
use burn_backend::tensor::{FloatTensor, IntTensor, QuantizedTensor};
use burn_backend::{Backend, DType as TheirDType, Shape, Slice};
pub(crate) use burn_std::ops::{IndexingUpdateOp, PadMode};
use burn_std::{BoolDType, BoolStore, FloatDType, IntDType};
use rocfire_hal::DType;

use crate::program::{Number, Window};

/// The only type of bools.
pub(crate) const NATIVE: BoolDType = BoolDType::Native;

/// Results of an operator that Burn puts into a struct.
macro_rules! tuple {
    ($made:expr, $($field:ident),+) => {{
        let made = $made;
        ($(made.$field),+)
    }};
}
pub(crate) use tuple;

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

/// Elements and where they stood, as integers of one type.
pub(crate) fn places<B: Backend>(made: (IntTensor<B>, IntTensor<B>), dtype: DType) -> (IntTensor<B>, IntTensor<B>) {
    (made.0, B::int_cast(made.1, int(dtype)))
}

/// Zero for what is infinite: Burn's own formula of a logarithm of a sigmoid, which is recorded in its place, is NaN there.
pub(crate) fn finite<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let infinite = B::float_is_inf(x.clone(), NATIVE);
    B::float_mask_fill(x, infinite, 0.0.into())
}

/// A scheme of quantised tensors, those with one scale first.
pub(crate) fn scheme(number: usize) -> QuantScheme {
    use QuantStore::{Native, PackedNative, PackedU32};
    use QuantValue::{Q2F, Q2S, Q4F, Q4S, Q8F, Q8S};
    let of = |value, store| QuantScheme::default().with_value(value).with_store(store);
    match number {
        0 => of(Q8S, Native).per_tensor(ScaleDtype::F32),
        1 => of(Q8F, PackedU32(0)).per_tensor(ScaleDtype::F32),
        2 => of(Q8S, Native).per_tensor(ScaleDtype::F16),
        3 => of(Q4F, PackedU32(0)).per_tensor(ScaleDtype::BF16),
        4 => of(Q2F, PackedU32(0)).per_tensor(ScaleDtype::UE8M0),
        5 => of(Q4S, PackedNative(0)).per_tensor(ScaleDtype::F32),
        6 => of(Q8S, PackedU32(1)).per_block([4], ScaleDtype::F32),
        7 => of(Q4S, Native).per_block([2, 4], ScaleDtype::F32),
        8 => of(Q8S, PackedNative(0)).per_block([8], ScaleDtype::BF16),
        9 => of(Q4F, PackedU32(0)).per_block([8], ScaleDtype::UE8M0),
        _ => of(Q2S, PackedU32(0)).per_block([2, 8], ScaleDtype::F16),
    }
}

/// Floats in f32 whose sums of products by codes stay in its range.
pub(crate) fn moderate<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_clamp(B::float_cast(x, FloatDType::F32), (-1e15).into(), 1e15.into())
}

/// Floats as codes, with the scales that the backend makes of them.
pub(crate) fn codes<B: Backend>(x: FloatTensor<B>, scheme: &QuantScheme) -> QuantizedTensor<B> {
    B::quantize_dynamic(B::float_cast(x, FloatDType::F32), scheme)
}

/// The same, with scales that Burn makes of them.
pub(crate) fn codes_by_range<B: Backend>(x: FloatTensor<B>, scheme: &QuantScheme) -> QuantizedTensor<B> {
    let x = B::float_cast(x, FloatDType::F32);
    let (least, most) = compute_range::<B>(scheme, x.clone(), &Calibration::MinMax);
    B::quantize(x, scheme, compute_q_params::<B>(scheme, least, most))
}

/// Codes as floats.
pub(crate) fn decoded<B: Backend>(codes: QuantizedTensor<B>) -> FloatTensor<B> {
    B::dequantize(codes, FloatDType::F32)
}

/// What an operator on quantised tensors made, as floats.
pub(crate) fn either<B: Backend>(made: TensorPrimitive<B>) -> FloatTensor<B> {
    match made {
        TensorPrimitive::Float(made) => made,
        TensorPrimitive::QFloat(made) => decoded::<B>(made),
    }
}
