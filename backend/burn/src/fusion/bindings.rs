//! What the relative numbers of a plan stand for when it runs: real tensors, extents and scalars.

use std::time::Duration;

use burn_backend::Slice;
use burn_ir::{ScalarIr, TensorId, TensorIr};

use super::handles::Handles;

/// What a stretch was recorded with, each list by relative number, and the handles of every tensor of the device.
pub(crate) struct Bindings {
    /// The tensors with their own names and extents.
    pub(crate) tensors: Vec<TensorIr>,
    pub(crate) scalars: Vec<ScalarIr>,
    pub(crate) ranges: Vec<Slice>,
    /// The tensors' handles, by their own names.
    pub(crate) handles: Handles,
    /// How long it has taken to give launches to the driver.
    pub(crate) launching: Duration,
}

impl Bindings {
    /// The tensor that a relative tensor stands for.
    pub(super) fn tensor(&self, number: TensorId) -> &TensorIr {
        &self.tensors[number.value() as usize]
    }

    /// The scalar that a relative scalar stands for.
    pub(super) fn scalar(&self, number: u64) -> ScalarIr {
        self.scalars[number as usize]
    }
}
