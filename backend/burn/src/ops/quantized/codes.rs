//! Floats to codes and back.

use burn_backend::quantization::{QuantScheme, QuantValue, ScaleDtype};
use burn_std::quantization::global_scale_dtype;
use rocfire_hal::{DType, Error as HalError, Tensor};
use rocfire_kernels::quant::{self, PeakRule, Scales};

use super::scheme;
use crate::convert::to_shape;
use crate::error::Result;
use crate::ops::memory;
use crate::version::CODES_ROUND;
use crate::{RocmQTensor, RocmTensor};

/// Burn's blocks are whole: a shape that is not a number of them is refused.
fn whole_blocks(shape: &[usize], block: &[usize], scheme: &QuantScheme) -> Result<()> {
    if shape.iter().zip(block).all(|(extent, &block)| extent.is_multiple_of(block)) {
        return Ok(());
    }
    Err(HalError::shape("quantize", "tensor", "a whole number of blocks", format!("{shape:?} for {scheme:?}")).into())
}

/// The words that hold the codes of `x`.
fn words(x: &Tensor, scheme: &QuantScheme, scales: Option<&Scales<'_>>) -> Result<Tensor> {
    let layout = scheme::code_layout(scheme, x.shape());
    let word = scheme::word(scheme);
    let mut words = memory::empty(x.device(), &layout.words_shape(x.shape(), word), word)?;
    let symmetric = matches!(scheme.value, QuantValue::Q8S | QuantValue::Q4S | QuantValue::Q2S);
    quant::quantise(
        x.device().stream(),
        x.view(),
        &quant::Coding { layout: &layout, scales, rounding: CODES_ROUND, symmetric },
        words.view_mut(),
    )?;
    Ok(words)
}

/// Raw scales, f32, rounded up to a type.
fn stored(raw: &Tensor, shape: &[usize], divisor: Option<&Tensor>, dtype: ScaleDtype) -> Result<Tensor> {
    let kind = scheme::kind(dtype);
    let mut scales = memory::empty(raw.device(), shape, kind.dtype())?;
    let divisor = divisor.map(Tensor::view);
    quant::store_scales(raw.device().stream(), raw.view(), 1.0, divisor, kind, scales.view_mut())?;
    Ok(scales)
}

fn assembled(x: &Tensor, scheme: &QuantScheme, scales: Tensor, global: Option<Tensor>) -> Result<RocmQTensor> {
    let mut q = RocmQTensor {
        words: RocmTensor::new(x.clone()),
        scales: RocmTensor::new(scales),
        global: global.map(RocmTensor::new),
        scheme: *scheme,
        shape: to_shape(x.shape()),
    };
    let block = q.block();
    let words = words(x, scheme, Some(&q.scales(&block)))?;
    q.words = RocmTensor::new(words);
    Ok(q)
}

/// Codes of `x` for given scales.
pub(super) fn quantize(
    x: &Tensor,
    scheme: &QuantScheme,
    scales: &Tensor,
    global: Option<&Tensor>,
) -> Result<RocmQTensor> {
    let scheme = &scheme::fitted("quantize", scheme, x.shape().len())?;
    let block = scheme::block(scheme, x.shape().len());
    whole_blocks(x.shape(), &block, scheme)?;
    let grid = scheme::grid(x.shape(), &block);
    let count = grid.iter().product::<usize>();
    if scales.layout().len() != count {
        let got = format!("{:?} for {:?} by {scheme:?}", scales.shape(), x.shape());
        return Err(HalError::shape("quantize", "scales", format!("{count} elements"), got).into());
    }
    let raw = |scales: &Tensor| memory::contiguous(&memory::cast(scales, DType::F32)?);
    let scales = stored(&raw(scales)?, &grid, None, scheme.scale_dtype())?;
    let global = match (global, global_scale_dtype(scheme)) {
        (Some(global), Some(dtype)) => Some(stored(&raw(global)?, &[1], None, dtype)?),
        (None, None) => None,
        (Some(_), None) => {
            return Err(HalError::shape("quantize", "global", "no scale for one level", format!("{scheme:?}")).into());
        }
        (None, Some(_)) => {
            return Err(HalError::shape("quantize", "global", "a scale for two levels", format!("{scheme:?}")).into());
        }
    };
    assembled(x, scheme, scales, global)
}

/// Codes of `x` for the scales that its largest magnitudes ask for.
pub(super) fn quantize_dynamic(x: &Tensor, scheme: &QuantScheme) -> Result<RocmQTensor> {
    let scheme = &scheme::fitted("quantize_dynamic", scheme, x.shape().len())?;
    let block = scheme::block(scheme, x.shape().len());
    whole_blocks(x.shape(), &block, scheme)?;
    let grid = scheme::grid(x.shape(), &block);
    let stream = x.device().stream();
    let (least, most) = scheme.value.range();
    let mut raw = memory::empty(x.device(), &grid, DType::F32)?;
    quant::block_peaks(stream, x.view(), &block, PeakRule::ratio(2.0, most - least), raw.view_mut())?;
    let global = match global_scale_dtype(scheme) {
        None => None,
        Some(dtype) => {
            // The largest scale of a block becomes the largest that its type holds.
            let mut peak = memory::empty(x.device(), &[1], DType::F32)?;
            let largest = scheme.scale_dtype().max_representable();
            quant::block_peaks(stream, raw.view(), &[], PeakRule::ratio(1.0, largest), peak.view_mut())?;
            Some(stored(&peak, &[1], None, dtype)?)
        }
    };
    let scales = stored(&raw, &grid, global.as_ref(), scheme.scale_dtype())?;
    assembled(x, scheme, scales, global)
}

/// The floats that codes stand for.
pub(super) fn dequantize(q: &RocmQTensor, dtype: DType) -> Result<Tensor> {
    let block = q.block();
    floats(q, Some(&q.scales(&block)), dtype)
}

/// The floats that codes stand for under a scale of 1.
pub(super) fn unscaled(q: &RocmQTensor) -> Result<Tensor> {
    floats(q, None, DType::F32)
}

fn floats(q: &RocmQTensor, scales: Option<&Scales<'_>>, dtype: DType) -> Result<Tensor> {
    let words = q.words.as_inner();
    let mut x = memory::empty(words.device(), &q.shape, dtype)?;
    quant::dequantise(words.device().stream(), words.view(), &q.code_layout(), scales, x.view_mut())?;
    Ok(x)
}

/// `q` with the codes of these floats, which are codes under a scale of 1, and its own scales. Nothing is rounded.
pub(super) fn recoded(q: RocmQTensor, unscaled: &Tensor) -> Result<RocmQTensor> {
    let scheme = scheme::fitted("recoded", &q.scheme, unscaled.shape().len())?;
    let words = RocmTensor::new(words(unscaled, &scheme, None)?);
    Ok(RocmQTensor { words, scheme, shape: to_shape(unscaled.shape()), ..q })
}
