//! What stands for the numbers of a plan when it runs: real tensors, extents and scalars.

use std::time::Duration;

use burn_backend::Slice;
use burn_ir::{ScalarIr, TensorId, TensorIr};

use super::handles::Handles;

/// By number, what a stretch was recorded with; and the handles of every tensor of the device.
pub(crate) struct Bindings {
    /// The tensors as they are known outside.
    pub(crate) tensors: Vec<TensorIr>,
    pub(crate) scalars: Vec<ScalarIr>,
    pub(crate) ranges: Vec<Slice>,
    /// By the tensors' own names.
    pub(crate) handles: Handles,
    /// How long giving launches to the driver took.
    pub(crate) launching: Duration,
}

impl Bindings {
    /// The tensor of a number.
    pub(super) fn tensor(&self, number: TensorId) -> &TensorIr {
        &self.tensors[number.value() as usize]
    }

    /// The scalar of a number.
    pub(super) fn scalar(&self, number: u64) -> ScalarIr {
        self.scalars[number as usize]
    }
}
