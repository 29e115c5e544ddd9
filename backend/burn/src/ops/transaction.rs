//! Reading several tensors at once.
//!
//! Everything that has to be rearranged is queued before the first read waits, and then all of it is read with one wait,
//! however many tensors there are and however large they are.

use burn_backend::ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData};
use burn_backend::{DType as BurnDType, ExecutionError, TensorData, TensorMetadata};
use rocfire_hal::Tensor;

use super::{memory, quantized};
use crate::convert::to_shape;
use crate::error::{Result, execution};
use crate::{Rocm, RocmTensor};

impl TransactionOps<Rocm> for Rocm {
    async fn tr_execute(transaction: TransactionPrimitive<Rocm>) -> Result<TransactionPrimitiveData, ExecutionError> {
        read(transaction).map_err(execution)
    }
}

fn read(transaction: TransactionPrimitive<Rocm>) -> Result<TransactionPrimitiveData> {
    let TransactionPrimitive { read_floats, read_qfloats, read_ints, read_bools, .. } = transaction;
    let (floats, ints) = (read_floats.len(), read_ints.len());
    let tensors: Vec<RocmTensor> = read_floats.into_iter().chain(read_ints).chain(read_bools).collect();
    let rows: Vec<Tensor> = tensors.iter().map(rearranged).collect::<Result<_>>()?;
    let stored: Vec<Vec<Tensor>> = read_qfloats.iter().map(quantized::stored).collect::<Result<_>>()?;
    let all: Vec<&Tensor> = rows.iter().chain(stored.iter().flatten()).collect();
    let mut bytes = Tensor::read_all(&all)?.into_iter();
    let data = |tensor: &RocmTensor| {
        let bytes = bytes.next().expect("each tensor was read");
        TensorData::from_bytes_vec(bytes, to_shape(tensor.as_inner().shape()), tensor.dtype())
    };
    let mut plain = tensors.iter().map(data).collect::<Vec<_>>().into_iter();
    let read_floats = plain.by_ref().take(floats).collect();
    let read_ints = plain.by_ref().take(ints).collect();
    let read_bools = plain.collect();
    let quantised = |(q, parts): (_, Vec<Tensor>)| quantized::assembled(q, bytes.by_ref().take(parts.len()));
    let read_qfloats = read_qfloats.iter().zip(stored).map(quantised).collect();
    Ok(TransactionPrimitiveData { read_floats, read_qfloats, read_ints, read_bools })
}

/// The tensor as its data lies on the host.
fn rearranged(tensor: &RocmTensor) -> Result<Tensor> {
    match tensor.dtype() {
        BurnDType::Bool(store) => memory::bools_contiguous(tensor.as_inner(), store),
        _ => memory::contiguous(tensor.as_inner()),
    }
}
