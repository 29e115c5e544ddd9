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

use burn_backend::ExecutionError;
use burn_backend::ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData};
use burn_ir::{BackendIr, TensorHandle};

use super::backend::Fused;
use super::channel::Lazy;
use crate::Rocm;
use crate::fusion::handle::Handle;

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
