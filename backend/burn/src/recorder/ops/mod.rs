//! Turns Burn's operators into operations: by a row each, or by a few lines where Burn's router has none.
//!
//! Only operators that are one operation for Burn's own fusion have a row. Burn composes the others of these, so that they fuse.

/// Defines operators of which `burn-router` makes operations, a row each.
macro_rules! routed {
    ($($name:ident($($argument:ident: $of:ty),* $(,)?) -> $out:ty;)*) => {
        $(fn $name($($argument: $of),*) -> $out { Router::$name($($argument),*) })*
    };
}

mod activation;
mod bool;
mod float;
mod int;
mod module;

use burn_backend::distributed::{CollectiveTensor, DistributedOps, ReduceOperation};
use burn_backend::ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData};
use burn_backend::{DeviceId, ExecutionError, TensorMetadata};
use burn_ir::{BackendIr, TensorHandle, TensorIr};

use super::backend::Fused;
use super::channel::{Client, Lazy};
use super::record::record;
use crate::fusion::handle::Handle;
use crate::fusion::handles::Handles;
use crate::{Rocm, RocmDevice};

impl TransactionOps<Fused> for Fused {
    async fn tr_execute(transaction: TransactionPrimitive<Fused>) -> Result<TransactionPrimitiveData, ExecutionError> {
        let taken = |tensors: Vec<Lazy>| -> Result<Vec<TensorHandle<Handle>>, ExecutionError> {
            let take = |tensor: Lazy| {
                let client = tensor.client;
                client.take(&tensor.into_ir())
            };
            tensors.into_iter().map(take).collect()
        };
        Rocm::tr_execute(TransactionPrimitive::new(
            taken(transaction.read_floats)?.into_iter().map(Rocm::float_tensor).collect(),
            taken(transaction.read_qfloats)?.into_iter().map(Rocm::quantized_tensor).collect(),
            taken(transaction.read_ints)?.into_iter().map(Rocm::int_tensor).collect(),
            taken(transaction.read_bools)?.into_iter().map(Rocm::bool_tensor).collect(),
        ))
        .await
    }
}

impl DistributedOps<Fused> for Fused {
    fn all_reduce(tensor: Lazy, op: ReduceOperation, devices: Vec<DeviceId>) -> CollectiveTensor<Fused> {
        let outputs = vec![(tensor.shape(), tensor.dtype())];
        let run = |handles: &mut Handles, irs: &[TensorIr]| {
            let reduced = Rocm::all_reduce(handles.float(&irs[0]), op, devices);
            // SAFETY: the eager backend reduces before it returns.
            Ok(vec![Rocm::float_tensor_handle(unsafe { reduced.assume_resolved() })])
        };
        CollectiveTensor::new(record(vec![tensor], outputs, run).remove(0))
    }

    fn sync_collective(device: &RocmDevice) {
        Client::of(device).state().run_all();
        Rocm::sync_collective(device);
    }
}
