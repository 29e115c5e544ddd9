//! Candle's storages as rocfire's views, and back.

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::cuda_backend::CudaStorageSlice;
use candle_core::{CudaDevice, CudaStorage, DType, Error, Layout, Result, Shape};
use cudarc::driver::{CudaSlice, DriverError};
use cudarc::rocfire::Settled;
use rocfire_hal::Tensor;

/// What is below, as Candle's error.
pub(crate) fn error(error: impl Into<DriverError>) -> Error {
    Error::Cuda(Box::new(error.into()))
}

/// The elements of a storage that a layout names; no copy. Indices of 32 bits are i32 to the launchers: what is above
/// is no index.
pub(crate) fn view(op: &'static str, on: &Settled<'_>, storage: &CudaStorage, layout: &Layout) -> Result<Tensor> {
    use rocfire_hal::DType;
    match &storage.slice {
        CudaStorageSlice::F32(slice) => tensor(on, slice, layout, DType::F32),
        CudaStorageSlice::F64(slice) => tensor(on, slice, layout, DType::F64),
        CudaStorageSlice::F16(slice) => tensor(on, slice, layout, DType::F16),
        CudaStorageSlice::BF16(slice) => tensor(on, slice, layout, DType::BF16),
        CudaStorageSlice::U8(slice) => tensor(on, slice, layout, DType::U8),
        CudaStorageSlice::U32(slice) => tensor(on, slice, layout, DType::I32),
        CudaStorageSlice::I16(slice) => tensor(on, slice, layout, DType::I16),
        CudaStorageSlice::I32(slice) => tensor(on, slice, layout, DType::I32),
        CudaStorageSlice::I64(slice) => tensor(on, slice, layout, DType::I64),
        CudaStorageSlice::F8E4M3(_)
        | CudaStorageSlice::F6E2M3(_)
        | CudaStorageSlice::F6E3M2(_)
        | CudaStorageSlice::F4(_)
        | CudaStorageSlice::F8E8M0(_) => Err(Error::UnsupportedDTypeForOp(storage.dtype(), op).bt()),
    }
}

/// The elements of a slice that a layout names; no copy.
fn tensor<T>(on: &Settled<'_>, slice: &CudaSlice<T>, layout: &Layout, dtype: rocfire_hal::DType) -> Result<Tensor> {
    let (buffer, first_byte) = on.memory(slice).map_err(error)?;
    let first = first_byte as usize / dtype.size_bytes() + layout.start_offset();
    let strides: Vec<i64> = layout.stride().iter().map(|&stride| stride as i64).collect();
    let layout = rocfire_hal::Layout::strided(layout.dims(), &strides, first as i64).map_err(error)?;
    Tensor::from_buffer(buffer.clone(), layout, dtype).map_err(error)
}

/// Memory for a result, which the caller's operator writes whole.
pub(crate) fn unwritten(device: &CudaDevice, shape: &Shape, dtype: DType) -> Result<CudaStorage> {
    // SAFETY: the caller's operator writes all of it before anything reads it.
    unsafe { device.alloc_uninit(shape, dtype) }
}
