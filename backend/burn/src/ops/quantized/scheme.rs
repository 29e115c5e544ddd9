//! Burn's schemes in the terms of `rocfire_kernels::quant`.

use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue, ScaleDtype};
use burn_std::quantization::{QuantMode, quantizable};
use rocfire_hal::DType;
use rocfire_kernels::quant::{CodeLayout, Format, ScaleKind, Scales};

use crate::error::{Error, Result};
use crate::{RocmQTensor, RocmTensor};

/// Why a scheme is not implemented; `None` if it is.
pub(crate) fn refusal(scheme: &QuantScheme) -> Option<&'static str> {
    if scheme.mode != QuantMode::Symmetric {
        return Some("its values are a lookup table's, which Burn does not send along with a tensor");
    }
    (!quantizable(scheme)).then_some("its scales would leave the range of f32")
}

/// The scheme by which a tensor of this rank is stored, if it is implemented. Packed along an axis that the tensor does not have,
/// each code would be alone in its word: it gets a byte of its own, as all codes do in Burn's Flex.
pub(super) fn fitted(op: &'static str, scheme: &QuantScheme, rank: usize) -> Result<QuantScheme> {
    if let Some(reason) = refusal(scheme) {
        return Err(Error::Scheme { op, scheme: format!("{scheme:?}"), reason });
    }
    Ok(match scheme.store {
        QuantStore::PackedU32(axis) | QuantStore::PackedNative(axis) if axis >= rank => {
            scheme.with_store(QuantStore::Native)
        }
        QuantStore::Native | QuantStore::PackedU32(_) | QuantStore::PackedNative(_) => *scheme,
    })
}

/// What a code means.
fn format(value: QuantValue) -> Format {
    match value {
        QuantValue::Q8F | QuantValue::Q8S => Format::I8,
        QuantValue::Q4F | QuantValue::Q4S => Format::I4,
        QuantValue::Q2F | QuantValue::Q2S => Format::I2,
        QuantValue::E4M3 => Format::E4M3,
        QuantValue::E5M2 => Format::E5M2,
        QuantValue::E2M1 => Format::E2M1,
    }
}

/// The type of scales.
pub(super) fn kind(dtype: ScaleDtype) -> ScaleKind {
    match dtype {
        ScaleDtype::F32 => ScaleKind::F32,
        ScaleDtype::F16 => ScaleKind::F16,
        ScaleDtype::BF16 => ScaleKind::BF16,
        ScaleDtype::UE8M0 => ScaleKind::E8M0,
        ScaleDtype::UE4M3 => ScaleKind::E4M3,
    }
}

/// The type of the words that hold codes.
pub(super) fn word(scheme: &QuantScheme) -> DType {
    match scheme.store {
        QuantStore::PackedU32(_) => DType::U32,
        QuantStore::Native | QuantStore::PackedNative(_) => DType::U8,
    }
}

/// The axis along which words hold several codes.
pub(super) fn packed_axis(scheme: &QuantScheme, rank: usize) -> Option<usize> {
    match scheme.store {
        QuantStore::PackedU32(inner) => Some(rank - 1 - inner),
        QuantStore::PackedNative(inner) if scheme.native_packing() > 1 => Some(rank - 1 - inner),
        QuantStore::PackedNative(_) | QuantStore::Native => None,
    }
}

/// How the codes of a tensor of this shape lie.
pub(super) fn code_layout(scheme: &QuantScheme, shape: &[usize]) -> CodeLayout {
    let format = format(scheme.value);
    match packed_axis(scheme, shape.len()) {
        Some(axis) => CodeLayout::packed(format, axis, shape[axis]),
        None => CodeLayout::bytes(format),
    }
}

/// Elements of a block along each axis; empty where there is one scale.
pub(super) fn block(scheme: &QuantScheme, rank: usize) -> Vec<usize> {
    scheme.block_size().map_or_else(Vec::new, |block| block.to_dim_vec(rank).into_iter().map(usize::from).collect())
}

/// Extents of the grid of scales.
pub(super) fn grid(shape: &[usize], block: &[usize]) -> Vec<usize> {
    if block.is_empty() {
        return vec![1];
    }
    shape.iter().zip(block).map(|(&extent, &block)| extent.div_ceil(block)).collect()
}

impl RocmQTensor {
    pub(super) fn code_layout(&self) -> CodeLayout {
        code_layout(&self.scheme, &self.shape)
    }

    /// Elements of a block along each axis; empty where there is one scale.
    pub(super) fn block(&self) -> Vec<usize> {
        block(&self.scheme, self.shape.num_dims())
    }

    /// The scales for the kernels, `block` being [`RocmQTensor::block`].
    pub(super) fn scales<'a>(&'a self, block: &'a [usize]) -> Scales<'a> {
        Scales {
            view: self.scales.as_inner().view(),
            kind: kind(self.scheme.scale_dtype()),
            block,
            global: self.global.as_ref().map(RocmTensor::as_inner).map(rocfire_hal::Tensor::view),
        }
    }

    /// Whether every code has a word of its own.
    pub(super) fn is_unpacked(&self) -> bool {
        packed_axis(&self.scheme, self.shape.num_dims()).is_none()
    }
}
