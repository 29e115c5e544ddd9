//! Quantised tensors to and from Burn's data: words, then scales, then the global scale, without gaps.
//!
//! The packed axis is the innermost one there, blocks with it: a tensor packed along another axis is stored with the two
//! exchanged, as Burn's own backends store it.

use burn_backend::quantization::QuantStore;
use burn_backend::{Bytes, DType as BurnDType, TensorData, TensorMetadata};
use burn_std::quantization::{QPARAM_ALIGN, global_scale_dtype};
use rocfire_hal::{DType, Error as HalError, Tensor};
use rocfire_kernels::quant::CodeLayout;

use super::scheme;
use crate::error::{Error, Result};
use crate::ops::{memory, view};
use crate::{RocmDevice, RocmQTensor, RocmTensor};

/// The axis to exchange with the innermost, if words are packed along another.
fn outer_axis(layout: &CodeLayout, rank: usize) -> Option<usize> {
    layout.packed.map(|packed| packed.axis).filter(|axis| axis + 1 != rank)
}

pub(super) fn into_data(q: &RocmQTensor) -> Result<TensorData> {
    let parts = stored(q)?;
    Ok(assembled(q, Tensor::read_all(&parts.iter().collect::<Vec<_>>())?))
}

/// What is read for a tensor's data: words, scales, and the global scale where there is one.
pub(crate) fn stored(q: &RocmQTensor) -> Result<Vec<Tensor>> {
    let last = q.rank().saturating_sub(1);
    let outer = outer_axis(&q.code_layout(), q.rank());
    let stored = |tensor: &RocmTensor, swap: bool| {
        let tensor = tensor.as_inner();
        let swapped = outer.filter(|_| swap).map(|axis| view::swap(tensor, axis, last)).transpose()?;
        memory::contiguous(swapped.as_ref().unwrap_or(tensor))
    };
    let blocked = q.scheme.block_size().is_some();
    let global = q.global.iter().map(|global| (global, false));
    [(&q.words, true), (&q.scales, blocked)].into_iter().chain(global).map(|(part, swap)| stored(part, swap)).collect()
}

/// The data of what [`stored`] gave.
pub(crate) fn assembled(q: &RocmQTensor, parts: impl IntoIterator<Item = Vec<u8>>) -> TensorData {
    let mut parts = parts.into_iter();
    let words = parts.next().unwrap_or_default();
    // Burn reads words of u32 in place, so they must start where a u32 may.
    let mut bytes = match scheme::word(&q.scheme) {
        DType::U32 => Bytes::from_elems(bytemuck::pod_collect_to_vec::<u8, u32>(&words)),
        _ => Bytes::from_bytes_vec(words),
    };
    parts.for_each(|part| bytes.extend_from_byte_slice_aligned(&part, QPARAM_ALIGN));
    TensorData::from_bytes(bytes, q.shape(), BurnDType::QFloat(q.scheme))
}

pub(super) fn from_data(data: TensorData, device: &RocmDevice) -> Result<RocmQTensor> {
    let BurnDType::QFloat(scheme) = data.dtype() else {
        return Err(Error::Kind { op: "q_from_data", expected: "a quantised float", got: data.dtype() });
    };
    let shape = data.shape().clone();
    let rank = shape.num_dims();
    let is_packed = scheme.store != QuantStore::Native;
    let scheme = scheme::fitted("q_from_data", &scheme, rank)?;
    let bytes = data.as_bytes();
    let device = device.open()?;
    let layout = scheme::code_layout(&scheme, &shape);
    let outer = outer_axis(&layout, rank);
    let mut word_shape = layout.words_shape(&shape, scheme::word(&scheme)).to_vec();
    let mut grid = scheme::grid(&shape, &scheme::block(&scheme, rank));
    let blocked = scheme.block_size().is_some();
    if let Some(axis) = outer {
        word_shape.swap(axis, rank - 1);
        if blocked {
            grid.swap(axis, rank - 1);
        }
    }
    let scale_dtype = scheme::kind(scheme.scale_dtype()).dtype();
    let global_bytes = if global_scale_dtype(&scheme).is_some() { DType::F32.size_bytes() } else { 0 };
    let scale_bytes = grid.iter().product::<usize>() * scale_dtype.size_bytes();
    let Some(value_bytes) = bytes.len().checked_sub(global_bytes + scale_bytes) else {
        let expected = format!("at least {} bytes of scales", global_bytes + scale_bytes);
        return Err(HalError::shape("q_from_data", "data", expected, bytes.len()).into());
    };
    let (values, params) = bytes.split_at(value_bytes);
    let (scales, global) = params.split_at(scale_bytes);
    let values = in_lines(values, (&layout, is_packed), &word_shape, &shape, scheme::word(&scheme))?;
    let placed = |shape: &[usize], dtype, bytes: &[u8], swap: bool| -> Result<RocmTensor> {
        let tensor = Tensor::from_bytes(&device, shape, dtype, bytes)?;
        Ok(RocmTensor::new(match outer.filter(|_| swap) {
            Some(axis) => view::swap(&tensor, axis, rank - 1)?,
            None => tensor,
        }))
    };
    Ok(RocmQTensor {
        words: placed(&word_shape, scheme::word(&scheme), &values, true)?,
        scales: placed(&grid, scale_dtype, scales, blocked)?,
        global: if global_bytes > 0 { Some(placed(&[1], DType::F32, global, false)?) } else { None },
        scheme,
        shape,
    })
}

/// Words of every line of the packed axis, whichever of three ways Burn wrote them: so already; a byte for each code (its
/// own constructor, whatever the store); or, where its scheme is packed, over the ends of lines.
fn in_lines(
    values: &[u8],
    (layout, is_packed): (&CodeLayout, bool),
    word_shape: &[usize],
    shape: &[usize],
    word: DType,
) -> Result<Vec<u8>> {
    let expected = word_shape.iter().product::<usize>() * word.size_bytes();
    if values.len() == expected {
        return Ok(values.to_vec());
    }
    let bits = layout.format.bits();
    let count: usize = shape.iter().product();
    let code: Box<dyn Fn(usize) -> u8> = if values.len() == count {
        Box::new(|n| values[n])
    } else if is_packed && values.len() == (count * bits).div_ceil(32) * 4 {
        Box::new(|n| values[n * bits / 8] >> (n * bits % 8))
    } else {
        let expected = format!("{expected} bytes of codes, or {count}");
        return Err(HalError::shape("q_from_data", "data", expected, values.len()).into());
    };
    let line = layout.packed.map_or(1, |packed| packed.extent);
    let line_bytes = (line * bits).div_ceil(8 * word.size_bytes()) * word.size_bytes();
    let mut lines = vec![0_u8; expected];
    for n in 0..count {
        let (at, inside) = (n / line, n % line);
        lines[at * line_bytes + inside * bits / 8] |= (code(n) & (u8::MAX >> (8 - bits))) << (inside * bits % 8);
    }
    Ok(lines)
}
