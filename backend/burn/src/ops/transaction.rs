//! Reading several tensors at once.
//!
//! Everything that has to be rearranged is queued before the first read waits, so the device works through it while the
//! host copies.

use burn_backend::ops::{QTensorOps, TransactionOps, TransactionPrimitive, TransactionPrimitiveData};
use burn_backend::{ExecutionError, TensorData};

use super::memory;
use crate::error::execution;
use crate::{Rocm, RocmTensor};

impl TransactionOps<Rocm> for Rocm {
    async fn tr_execute(transaction: TransactionPrimitive<Rocm>) -> Result<TransactionPrimitiveData, ExecutionError> {
        let TransactionPrimitive { read_floats, read_qfloats, read_ints, read_bools, .. } = transaction;
        let [read_floats, read_ints, read_bools] = [read_floats, read_ints, read_bools].map(rearranged);
        let mut quantised = Vec::with_capacity(read_qfloats.len());
        for tensor in read_qfloats {
            quantised.push(<Rocm as QTensorOps<Rocm>>::q_into_data(tensor).await?);
        }
        Ok(TransactionPrimitiveData {
            read_floats: read(&read_floats?)?,
            read_qfloats: quantised,
            read_ints: read(&read_ints?)?,
            read_bools: read(&read_bools?)?,
        })
    }
}

fn rearranged(tensors: Vec<RocmTensor>) -> Result<Vec<RocmTensor>, ExecutionError> {
    let contiguous =
        |tensor: &RocmTensor| memory::contiguous(tensor.as_inner()).map(RocmTensor::new).map_err(execution);
    tensors.iter().map(contiguous).collect()
}

fn read(tensors: &[RocmTensor]) -> Result<Vec<TensorData>, ExecutionError> {
    tensors.iter().map(|tensor| memory::into_data(tensor.as_inner())).collect()
}
