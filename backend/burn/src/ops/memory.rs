//! Operators that make, fill, copy, join and move tensors. Shared by float, int and bool.

use burn_backend::{DType as BurnDType, ExecutionError, Slice, TensorData};
use burn_std::BoolStore;
use rocfire_fusion::{Scalar, eager};
use rocfire_hal::{DType, Device, Error as HalError, Layout, MAX_RANK, Tensor};

use super::view;
use crate::RocmDevice;
use crate::convert::{to_burn, to_hal, to_shape};
use crate::error::{Error, Result, execution};

/// Unwritten elements.
pub(crate) fn empty(device: &Device, shape: &[usize], dtype: DType) -> Result<Tensor> {
    Ok(Tensor::empty(device, shape, dtype)?)
}

/// Unwritten elements of a shape `[batch, channels, spatial…]` and the type of `like`, with the channels innermost where its are.
pub(crate) fn empty_like(like: &Tensor, shape: &[usize]) -> Result<Tensor> {
    empty_of_like(like, shape, like.dtype())
}

/// The same of another type.
pub(crate) fn empty_of_like(like: &Tensor, shape: &[usize], dtype: DType) -> Result<Tensor> {
    let (rank, own) = (shape.len(), like.layout());
    let mut inner: Vec<usize> = (0..rank).collect();
    inner[1..].rotate_left(1);
    if own.is_contiguous() || !own.permute(&inner)?.is_contiguous() {
        return empty(like.device(), shape, dtype);
    }
    let in_memory: Vec<usize> = inner.iter().map(|&axis| shape[axis]).collect();
    let tensor = empty(like.device(), &in_memory, dtype)?;
    let mut outer: Vec<usize> = (0..rank).collect();
    outer[1..].rotate_right(1);
    let layout = tensor.layout().permute(&outer)?;
    Ok(tensor.with_layout(layout)?)
}

/// One value everywhere.
pub(crate) fn full(device: &Device, shape: &[usize], dtype: DType, value: Scalar) -> Result<Tensor> {
    let mut tensor = empty(device, shape, dtype)?;
    eager::fill(tensor.view_mut(), value)?;
    Ok(tensor)
}

/// A contiguous copy.
pub(crate) fn copy(x: &Tensor) -> Result<Tensor> {
    Ok(eager::copy(x)?)
}

/// The tensor itself if it is contiguous, else a copy that is.
pub(crate) fn contiguous(x: &Tensor) -> Result<Tensor> {
    if x.layout().is_contiguous() { Ok(x.clone()) } else { copy(x) }
}

/// A tensor that this is the only handle to and that no two elements of share a place, so that it can be written to: the
/// argument if it is so, else a copy.
pub(crate) fn writable(x: Tensor) -> Result<Tensor> {
    if x.is_unique() && x.layout().is_contiguous() { Ok(x) } else { copy(&x) }
}

/// Writes `value`, broadcast, into a part of `target`.
pub(crate) fn write(target: &mut Tensor, slices: &[Slice], value: &Tensor) -> Result<()> {
    let layout = view::sliced(target.layout(), slices)?;
    let value = view::expand(value, layout.shape())?;
    eager::copy_into(value.view(), target.view_mut().with_layout(layout)?)?;
    Ok(())
}

/// `x` with a part overwritten by `value`.
pub(crate) fn slice_assign(x: Tensor, slices: &[Slice], value: &Tensor) -> Result<Tensor> {
    let mut x = writable(x)?;
    write(&mut x, slices, value)?;
    Ok(x)
}

/// Tensors joined along an axis.
pub(crate) fn cat(tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(HalError::shape("cat", "tensors", "at least one", 0).into());
    };
    if axis >= first.shape().len() {
        return Err(HalError::shape("cat", "axis", format!("below {}", first.shape().len()), axis).into());
    }
    let mut shape = first.shape().to_vec();
    shape[axis] = tensors.iter().map(|x| x.shape().get(axis).copied().unwrap_or(0)).sum();
    let mut joined = empty(first.device(), &shape, first.dtype())?;
    let mut start = 0;
    for x in tensors {
        let same = x.shape().len() == shape.len() && (0..shape.len()).all(|i| i == axis || x.shape()[i] == shape[i]);
        if !same || x.dtype() != first.dtype() {
            let got = format!("{} {:?} beside {} {:?}", x.dtype(), x.shape(), first.dtype(), first.shape());
            return Err(HalError::shape("cat", "tensors", "alike but for the axis", got).into());
        }
        let layout = joined.layout().slice(axis, start, start + x.shape()[axis], 1)?;
        eager::copy_into(x.view(), joined.view_mut().with_layout(layout)?)?;
        start += x.shape()[axis];
    }
    Ok(joined)
}

/// An axis repeated `times` times, as a whole.
pub(crate) fn repeat(x: &Tensor, axis: usize, times: usize) -> Result<Tensor> {
    let rank = x.shape().len();
    let mut shape = x.shape().to_vec();
    match shape.get_mut(axis) {
        Some(extent) => *extent *= times,
        None => return Err(HalError::shape("repeat_dim", "dim", format!("below {rank}"), axis).into()),
    }
    let mut target = empty(x.device(), &shape, x.dtype())?;
    let mut repeated = x.shape().to_vec();
    repeated.insert(axis, times);
    if rank < MAX_RANK {
        // One launch: the repetition is an axis of its own, along which the source stands still.
        let source = view::expand(&view::unsqueeze(x, axis)?, &repeated)?;
        let layout = Layout::contiguous(&repeated)?;
        eager::copy_into(source.view(), target.view_mut().with_layout(layout)?)?;
        return Ok(target);
    }
    let extent = x.shape()[axis];
    for i in 0..times {
        let layout = target.layout().slice(axis, i * extent, (i + 1) * extent, 1)?;
        eager::copy_into(x.view(), target.view_mut().with_layout(layout)?)?;
    }
    Ok(target)
}

/// The tensor in another element type; itself where it already has it.
pub(crate) fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype { Ok(x.clone()) } else { Ok(eager::cast(x, dtype)?) }
}

/// Burn's data on the device.
pub(crate) fn from_data(data: &TensorData, device: &RocmDevice) -> Result<Tensor> {
    let dtype = to_hal(data.dtype())?;
    Ok(Tensor::from_bytes(&device.open()?, data.shape(), dtype, data.as_bytes())?)
}

/// Burn's bools on the device, one byte each. Four bytes are made one there.
pub(crate) fn bools_from_data(data: &TensorData, store: BoolStore, device: &RocmDevice) -> Result<Tensor> {
    let dtype = match store {
        BoolStore::Native => DType::Bool,
        BoolStore::U8 => DType::U8,
        BoolStore::U32 => DType::U32,
    };
    cast(&Tensor::from_bytes(&device.open()?, data.shape(), dtype, data.as_bytes())?, DType::Bool)
}

/// Host numbers on the device, converted by their own type: small tables of indices and weights.
pub(crate) fn table<T: bytemuck::Pod>(device: &Device, shape: &[usize], dtype: DType, values: &[T]) -> Result<Tensor> {
    Ok(Tensor::from_bytes(device, shape, dtype, bytemuck::cast_slice(values))?)
}

/// The elements on the host. Waits for the device; what failed on it comes out here.
pub(crate) fn into_data(x: &Tensor) -> Result<TensorData, ExecutionError> {
    let bytes = contiguous(x).and_then(|x| Ok(x.to_bytes()?)).map_err(execution)?;
    Ok(TensorData::from_bytes_vec(bytes, to_shape(x.shape()), to_burn(x.dtype())))
}

/// Bools row-major, as many bytes each as the store has.
pub(crate) fn bools_contiguous(x: &Tensor, store: BoolStore) -> Result<Tensor> {
    match store {
        BoolStore::Native | BoolStore::U8 => contiguous(x),
        BoolStore::U32 => cast(x, DType::U32),
    }
}

/// Bools on the host, in the store that Burn asked for. Otherwise as [`into_data`].
pub(crate) fn bools_into_data(x: &Tensor, store: BoolStore) -> Result<TensorData, ExecutionError> {
    let bytes = bools_contiguous(x, store).and_then(|x| Ok(x.to_bytes()?)).map_err(execution)?;
    Ok(TensorData::from_bytes_vec(bytes, to_shape(x.shape()), BurnDType::Bool(store)))
}

/// The tensor on another device.
pub(crate) fn to_device(x: &Tensor, device: &RocmDevice) -> Result<Tensor> {
    let target = device.open()?;
    if *x.device() == target { Ok(x.clone()) } else { Ok(contiguous(x)?.to_device(&target)?) }
}

/// An element type of the right kind, or an error that names the operator.
pub(crate) fn require_kind(op: &'static str, expected: &'static str, got: burn_backend::DType, is: bool) -> Result<()> {
    if is { Ok(()) } else { Err(Error::Kind { op, expected, got }) }
}
