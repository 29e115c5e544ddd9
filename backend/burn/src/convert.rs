//! Burn's names for things and ours: element types, shapes, scalars.
//!
//! Burn has three kinds of bool and a float that may be computed with less; memory knows one bool, a byte, and f32. What a
//! name loses on the way is said here and nowhere else.

use burn_backend::{DType as BurnDType, Shape};
use burn_std::BoolStore;
use rocfire_hal::DType;

use crate::Error;

/// The element type that Burn's `dtype` is stored as. `Flex32` is stored and computed as f32, a bool of any kind as a byte.
///
/// # Errors
/// [`Error::DType`] for quantised types, which are not the type of one buffer.
pub(crate) fn to_hal(dtype: BurnDType) -> Result<DType, Error> {
    Ok(match dtype {
        BurnDType::F64 => DType::F64,
        BurnDType::F32 | BurnDType::Flex32 => DType::F32,
        BurnDType::F16 => DType::F16,
        BurnDType::BF16 => DType::BF16,
        BurnDType::I64 => DType::I64,
        BurnDType::I32 => DType::I32,
        BurnDType::I16 => DType::I16,
        BurnDType::I8 => DType::I8,
        BurnDType::U64 => DType::U64,
        BurnDType::U32 => DType::U32,
        BurnDType::U16 => DType::U16,
        BurnDType::U8 => DType::U8,
        BurnDType::Bool(BoolStore::Native | BoolStore::U8 | BoolStore::U32) => DType::Bool,
        BurnDType::QFloat(_) => return Err(Error::DType { dtype }),
    })
}

/// Burn's name for an element type. That of a bool's store is the tensor's to know.
pub(crate) fn to_burn(dtype: DType) -> BurnDType {
    match dtype {
        DType::F64 => BurnDType::F64,
        DType::F32 => BurnDType::F32,
        DType::F16 => BurnDType::F16,
        DType::BF16 => BurnDType::BF16,
        DType::I64 => BurnDType::I64,
        DType::I32 => BurnDType::I32,
        DType::I16 => BurnDType::I16,
        DType::I8 => BurnDType::I8,
        DType::U64 => BurnDType::U64,
        DType::U32 => BurnDType::U32,
        DType::U16 => BurnDType::U16,
        DType::U8 => BurnDType::U8,
        DType::Bool => BurnDType::Bool(BoolStore::Native),
    }
}

/// Burn's form of a shape.
pub(crate) fn to_shape(extents: &[usize]) -> Shape {
    Shape::from(extents.to_vec())
}
