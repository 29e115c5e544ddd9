//! Records operators that Burn's operations have no name for, as one operation each.

use burn_backend::{DType, ExecutionError, Shape};
use burn_ir::{TensorIr, TensorStatus};
use burn_router::{RouterClient, RouterTensor};

use super::channel::{Client, Lazy};
use crate::fusion::handle::Handle;
use crate::fusion::handles::Handles;

/// Runs an operation behind all that its thread has recorded. `run` gives the handles of its outputs, which have the shapes and
/// types in `outputs`. There must be at least one input.
///
/// A failure becomes the error of the outputs.
pub(crate) fn record(
    inputs: Vec<Lazy>,
    outputs: Vec<(Shape, DType)>,
    run: impl FnOnce(&mut Handles, &[TensorIr]) -> Result<Vec<Handle>, ExecutionError>,
) -> Vec<Lazy> {
    let client: Client = inputs[0].client;
    let inputs: Vec<TensorIr> = inputs.into_iter().map(RouterTensor::into_ir).collect();
    let empty = |(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let outputs: Vec<TensorIr> = outputs.into_iter().map(empty).collect();
    client.state().run_custom(&inputs, &outputs, Box::new(|handles| run(handles, &inputs)));
    let tensor = |made: TensorIr| RouterTensor::new(made.id, made.shape, made.dtype, client);
    debug_assert!(outputs.iter().all(|made| made.status == TensorStatus::NotInit));
    outputs.into_iter().map(tensor).collect()
}
