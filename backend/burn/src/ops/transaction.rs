//! Reading several tensors at once.
//!
//! Everything that has to be rearranged is queued before the first read waits, and small tensors are brought together on the
//! device, so that the host waits once however many there are.

use burn_backend::ops::{QTensorOps, TransactionOps, TransactionPrimitive, TransactionPrimitiveData};
use burn_backend::{DType as BurnDType, ExecutionError, TensorData, TensorMetadata};
use rocfire_hal::Tensor;

use super::memory;
use crate::convert::to_shape;
use crate::error::{Result, execution};
use crate::{Rocm, RocmTensor};

impl TransactionOps<Rocm> for Rocm {
    async fn tr_execute(transaction: TransactionPrimitive<Rocm>) -> Result<TransactionPrimitiveData, ExecutionError> {
        let TransactionPrimitive { read_floats, read_qfloats, read_ints, read_bools, .. } = transaction;
        let (floats, ints) = (read_floats.len(), read_ints.len());
        let tensors: Vec<RocmTensor> = read_floats.into_iter().chain(read_ints).chain(read_bools).collect();
        let rows: Vec<Tensor> = tensors.iter().map(rearranged).collect::<Result<_>>().map_err(execution)?;
        let bytes = memory::read_all(&rows).map_err(execution)?;
        let data = |(tensor, bytes): (&RocmTensor, Vec<u8>)| {
            TensorData::from_bytes_vec(bytes, to_shape(tensor.as_inner().shape()), tensor.dtype())
        };
        let mut read = tensors.iter().zip(bytes).map(data);
        let read_floats = read.by_ref().take(floats).collect();
        let read_ints = read.by_ref().take(ints).collect();
        let read_bools = read.collect();
        let mut quantised = Vec::with_capacity(read_qfloats.len());
        for tensor in read_qfloats {
            quantised.push(<Rocm as QTensorOps<Rocm>>::q_into_data(tensor).await?);
        }
        Ok(TransactionPrimitiveData { read_floats, read_qfloats: quantised, read_ints, read_bools })
    }
}

/// The tensor as its data lies on the host.
fn rearranged(tensor: &RocmTensor) -> Result<Tensor> {
    match tensor.dtype() {
        BurnDType::Bool(store) => memory::bools_contiguous(tensor.as_inner(), store),
        _ => memory::contiguous(tensor.as_inner()),
    }
}
