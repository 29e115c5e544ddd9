//! Candle's storages as rocfire's views, and back.

use candle_core::cuda_backend::CudaStorageSlice;
use candle_core::{CudaStorage, Error, Layout, Result};
use cudarc::driver::{CudaSlice, DriverError};
use cudarc::rocfire::Settled;
use half::{bf16, f16};
use rocfire_hal::{DType, Tensor};

/// What is below, as Candle's error.
pub(crate) fn error(error: impl Into<DriverError>) -> Error {
    Error::Cuda(Box::new(error.into()))
}

/// The elements of a float storage that a layout names; no copy.
pub(crate) fn floats(op: &'static str, on: &Settled<'_>, storage: &CudaStorage, layout: &Layout) -> Result<Tensor> {
    match &storage.slice {
        CudaStorageSlice::F32(slice) => tensor(on, slice, layout, DType::F32),
        CudaStorageSlice::F64(slice) => tensor(on, slice, layout, DType::F64),
        CudaStorageSlice::F16(slice) => tensor(on, slice, layout, DType::F16),
        CudaStorageSlice::BF16(slice) => tensor(on, slice, layout, DType::BF16),
        CudaStorageSlice::U8(_)
        | CudaStorageSlice::U32(_)
        | CudaStorageSlice::I16(_)
        | CudaStorageSlice::I32(_)
        | CudaStorageSlice::I64(_)
        | CudaStorageSlice::F8E4M3(_)
        | CudaStorageSlice::F6E2M3(_)
        | CudaStorageSlice::F6E3M2(_)
        | CudaStorageSlice::F4(_)
        | CudaStorageSlice::F8E8M0(_) => {
            let dtype = candle_core::backend::BackendStorage::dtype(storage);
            Err(Error::UnsupportedDTypeForOp(dtype, op).bt())
        }
    }
}

/// The elements of a slice that a layout names; no copy.
fn tensor<T>(on: &Settled<'_>, slice: &CudaSlice<T>, layout: &Layout, dtype: DType) -> Result<Tensor> {
    let (buffer, first_byte) = on.memory(slice).map_err(error)?;
    let first = first_byte as usize / dtype.size_bytes() + layout.start_offset();
    let strides: Vec<i64> = layout.stride().iter().map(|&stride| stride as i64).collect();
    let layout = rocfire_hal::Layout::strided(layout.dims(), &strides, first as i64).map_err(error)?;
    Tensor::from_buffer(buffer.clone(), layout, dtype).map_err(error)
}

/// Unwritten memory for a result like a storage: `count` elements of its type, on its device.
pub(crate) fn like(op: &'static str, storage: &CudaStorage, count: usize) -> Result<CudaStorage> {
    let device = &storage.device;
    // SAFETY: the caller's operator writes all of it.
    let slice = unsafe {
        match &storage.slice {
            CudaStorageSlice::F32(_) => CudaStorageSlice::F32(device.alloc::<f32>(count)?),
            CudaStorageSlice::F64(_) => CudaStorageSlice::F64(device.alloc::<f64>(count)?),
            CudaStorageSlice::F16(_) => CudaStorageSlice::F16(device.alloc::<f16>(count)?),
            CudaStorageSlice::BF16(_) => CudaStorageSlice::BF16(device.alloc::<bf16>(count)?),
            _ => {
                let dtype = candle_core::backend::BackendStorage::dtype(storage);
                return Err(Error::UnsupportedDTypeForOp(dtype, op).bt());
            }
        }
    };
    Ok(CudaStorage { slice, device: device.clone() })
}
