//! Operators that move elements: of words and grids where whole words and whole blocks move, else by way of codes (one
//! scale) or of floats (blocks that are cut: quantised anew, as Burn's Flex does).

use burn_backend::quantization::QuantStore;
use burn_backend::{Slice, TensorMetadata};
use rocfire_hal::Tensor;

use super::{codes, scheme};
use crate::convert::to_shape;
use crate::error::Result;
use crate::ops::{index, view};
use crate::{RocmQTensor, RocmTensor};

/// The same scales or another view of them.
type Moved = (Tensor, Option<Tensor>);

/// `direct` on words and grid if there is such a way, else `operator` on codes or floats.
fn moved(
    q: RocmQTensor,
    shape: impl FnOnce(&[usize]) -> Vec<usize>,
    direct: Option<impl FnOnce(&RocmQTensor) -> Result<Moved>>,
    operator: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<RocmQTensor> {
    if let Some(direct) = direct {
        let (words, scales) = direct(&q)?;
        let shape = to_shape(&shape(&q.shape));
        let scales = scales.map_or_else(|| q.scales.clone(), RocmTensor::new);
        return Ok(RocmQTensor { words: RocmTensor::new(words), scales, shape, ..q });
    }
    if q.scheme.block_size().is_none() {
        let moved = operator(&codes::unscaled(&q)?)?;
        return codes::recoded(q, &moved);
    }
    let scheme = q.scheme;
    codes::quantize_dynamic(&operator(&codes::dequantize(&q, rocfire_hal::DType::F32)?)?, &scheme)
}

/// Codes in a word.
fn per_word(q: &RocmQTensor) -> usize {
    q.code_layout().per_word(scheme::word(&q.scheme))
}

/// The grid where there is one.
fn grid_of(q: &RocmQTensor, operator: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Option<Tensor>> {
    q.scheme.block_size().map(|_| operator(q.scales.as_inner())).transpose()
}

/// Axes in another order: words, blocks and the packed axis go along.
pub(super) fn permute(q: RocmQTensor, axes: &[usize]) -> Result<RocmQTensor> {
    let rank = q.rank();
    let words = view::permute(q.words.as_inner(), axes)?;
    let scales = grid_of(&q, |grid| view::permute(grid, axes))?;
    let mut scheme = q.scheme;
    scheme.permute_block_dims(rank, axes);
    if let QuantStore::PackedU32(inner) | QuantStore::PackedNative(inner) = &mut scheme.store {
        let axis = rank - 1 - *inner;
        let now = axes.iter().position(|&from| from == axis).unwrap_or(axis);
        *inner = rank - 1 - now;
    }
    let shape: Vec<usize> = axes.iter().map(|&axis| q.shape[axis]).collect();
    let scales = scales.map_or_else(|| q.scales.clone(), RocmTensor::new);
    Ok(RocmQTensor { words: RocmTensor::new(words), scales, scheme, shape: to_shape(&shape), global: q.global })
}

/// Axes run backwards.
pub(super) fn flip(q: RocmQTensor, axes: &[usize]) -> Result<RocmQTensor> {
    let packed = scheme::packed_axis(&q.scheme, q.rank());
    let block = q.block();
    let direct = !axes.iter().any(|&axis| Some(axis) == packed || block.get(axis).is_some_and(|&block| block > 1));
    let on_words = |q: &RocmQTensor| -> Result<Moved> {
        Ok((view::flip(q.words.as_inner(), axes)?, grid_of(q, |grid| view::flip(grid, axes))?))
    };
    moved(q, <[usize]>::to_vec, direct.then_some(on_words), |x| view::flip(x, axes))
}

/// Axes of extent 1 repeated.
pub(super) fn expand(q: RocmQTensor, shape: &[usize]) -> Result<RocmQTensor> {
    let rank = q.rank();
    let added = shape.len().saturating_sub(rank);
    let packed = scheme::packed_axis(&q.scheme, rank);
    let direct = shape.len() >= rank && packed.is_none_or(|axis| shape[added + axis] == q.shape[axis]);
    let on_words = |q: &RocmQTensor| -> Result<Moved> {
        let target = |own: &[usize]| -> Vec<usize> {
            let grown = |axis: usize| axis < added || shape[axis] != q.shape[axis - added];
            (0..shape.len()).map(|axis| if grown(axis) { shape[axis] } else { own[axis - added] }).collect()
        };
        let expanded = |x: &Tensor| view::expand(x, &target(x.shape()));
        Ok((expanded(q.words.as_inner())?, grid_of(q, expanded)?))
    };
    moved(q, |_| shape.to_vec(), direct.then_some(on_words), |x| view::expand(x, shape))
}

/// The same elements in the same order.
pub(super) fn reshape(q: RocmQTensor, shape: &[usize]) -> Result<RocmQTensor> {
    let (own, block) = (q.shape.to_vec(), q.block());
    let rank = own.len();
    let packed = scheme::packed_axis(&q.scheme, rank);
    // The axes at the end that stay: words and blocks in them do.
    let kept = own.iter().rev().zip(shape.iter().rev()).take_while(|(a, b)| a == b).count();
    let leading = rank - kept;
    let outside = packed.is_none_or(|axis| axis >= leading) && block.iter().take(leading).all(|&block| block == 1);
    // Or every line of the innermost axis is whole words and whole blocks, before and after.
    let unit = per_word(&q) * block.last().copied().unwrap_or(1);
    let lines = [&own[..], shape].iter().all(|shape| shape.last().is_some_and(|last| last.is_multiple_of(unit)))
        && packed.is_none_or(|axis| axis + 1 == rank)
        && block.iter().rev().skip(1).all(|&block| block == 1);
    let same = own.iter().product::<usize>() == shape.iter().product::<usize>();
    let on_words = |q: &RocmQTensor| -> Result<Moved> {
        let target = |x: &Tensor, own: &[usize]| -> Vec<usize> {
            let mut target = shape.to_vec();
            if outside {
                target[shape.len() - kept..].copy_from_slice(&x.shape()[leading..]);
            } else if let (Some(to), Some(&from), Some(&last)) = (target.last_mut(), x.shape().last(), own.last()) {
                *to /= last / from;
            }
            target
        };
        let reshaped = |x: &Tensor| view::reshape(x, &target(x, &own));
        Ok((reshaped(q.words.as_inner())?, grid_of(q, reshaped)?))
    };
    let direct = same && !own.contains(&0) && (outside || lines);
    moved(q, |_| shape.to_vec(), direct.then_some(on_words), |x| view::reshape(x, shape))
}

/// A part.
pub(super) fn slice(q: RocmQTensor, slices: &[Slice]) -> Result<RocmQTensor> {
    let (packed, block, per) = (scheme::packed_axis(&q.scheme, q.rank()), q.block(), per_word(&q));
    // The same range in units of `unit` elements, if it is whole ones.
    let in_units = |axis: usize, slice: &Slice, unit: usize| -> Option<Slice> {
        let extent = *q.shape.get(axis)?;
        let range = slice.to_range(extent);
        let end = range.end.max(range.start);
        let whole =
            slice.step() == 1 && range.start.is_multiple_of(unit) && (end.is_multiple_of(unit) || end == extent);
        match unit {
            1 => Some(*slice),
            _ => whole.then(|| Slice::new((range.start / unit) as isize, Some(end.div_ceil(unit) as isize), 1)),
        }
    };
    let all = |unit: &dyn Fn(usize) -> usize| -> Option<Vec<Slice>> {
        slices.iter().enumerate().map(|(axis, slice)| in_units(axis, slice, unit(axis))).collect()
    };
    let words = all(&|axis| if Some(axis) == packed { per } else { 1 });
    let grid = all(&|axis| block.get(axis).copied().unwrap_or(1));
    let direct = words.zip(grid).map(|(words, grid)| {
        move |q: &RocmQTensor| -> Result<Moved> {
            Ok((view::slice(q.words.as_inner(), &words)?, grid_of(q, |x| view::slice(x, &grid))?))
        }
    });
    let shape = view::sliced(&rocfire_hal::Layout::contiguous(&q.shape)?, slices)?.shape().to_vec();
    moved(q, |_| shape, direct, |x| view::slice(x, slices))
}

/// Slices along an axis that indices name.
pub(super) fn select(q: RocmQTensor, axis: usize, indices: &Tensor) -> Result<RocmQTensor> {
    let cut = scheme::packed_axis(&q.scheme, q.rank()) == Some(axis) || q.block().get(axis).is_some_and(|&b| b > 1);
    let on_words = |q: &RocmQTensor| -> Result<Moved> {
        Ok((index::select(q.words.as_inner(), axis, indices)?, grid_of(q, |grid| index::select(grid, axis, indices))?))
    };
    let shape = |own: &[usize]| {
        let mut shape = own.to_vec();
        if let Some(extent) = shape.get_mut(axis) {
            *extent = indices.layout().len();
        }
        shape
    };
    moved(q, shape, (!cut).then_some(on_words), |x| index::select(x, axis, indices))
}

/// Elements that indices name.
pub(super) fn gather(q: RocmQTensor, axis: usize, indices: &Tensor) -> Result<RocmQTensor> {
    let direct = q.is_unpacked() && q.scheme.block_size().is_none();
    let on_words = |q: &RocmQTensor| -> Result<Moved> { Ok((index::gather(q.words.as_inner(), axis, indices)?, None)) };
    let shape = indices.shape().to_vec();
    moved(q, |_| shape, direct.then_some(on_words), |x| index::gather(x, axis, indices))
}
