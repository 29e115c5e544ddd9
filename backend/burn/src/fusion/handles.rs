//! The handles of a device's tensors by Burn's names, and the errors of those that could not be made.
//!
//! Burn has such a table too, but each look-up there takes the handle out and puts a copy back. This one is read several times for
//! each launch.

use burn_ir::{BackendIr, TensorError, TensorHandle, TensorId, TensorIr, TensorStatus};
use rustc_hash::FxHashMap;

use super::handle::Handle;
use crate::{Rocm, RocmTensor};

type Quantized = <Rocm as burn_backend::BackendTypes>::QuantizedTensorPrimitive;

/// The table: see the module's description.
#[derive(Default)]
pub(crate) struct Handles {
    /// For each tensor its handle, or the error of what should have made it.
    entries: FxHashMap<TensorId, Result<Handle, TensorError>>,
    /// How many entries are errors. It is almost always 0, and then none need be looked for.
    failed: usize,
}

impl Handles {
    /// Gives a tensor its handle, in place of an error if it had one.
    pub(crate) fn put(&mut self, id: TensorId, handle: Handle) {
        let before = self.entries.insert(id, Ok(handle));
        self.forget(before.as_ref());
    }

    /// Gives a tensor an error, in place of its handle.
    pub(crate) fn fail(&mut self, id: TensorId, error: TensorError) {
        let before = self.entries.insert(id, Err(error));
        self.forget(before.as_ref());
        self.failed += 1;
    }

    /// As [`Handles::fail`], unless it has a handle or an error.
    pub(crate) fn fail_if_unwritten(&mut self, id: TensorId, error: TensorError) {
        if !self.entries.contains_key(&id) {
            self.fail(id, error);
        }
    }

    /// Counts down if a replaced entry was an error.
    fn forget(&mut self, before: Option<&Result<Handle, TensorError>>) {
        if let Some(Err(_)) = before {
            self.failed -= 1;
        }
    }

    /// The handle of a tensor; `None` if it was not made or has failed.
    pub(crate) fn get(&self, id: TensorId) -> Option<&Handle> {
        match self.entries.get(&id) {
            Some(Ok(handle)) => Some(handle),
            _ => None,
        }
    }

    /// Whether a tensor has a handle or an error.
    pub(crate) fn knows(&self, id: TensorId) -> bool {
        self.entries.contains_key(&id)
    }

    /// The error of a tensor; `None` if it has not failed.
    pub(crate) fn error(&self, id: TensorId) -> Option<&TensorError> {
        if self.failed == 0 {
            return None;
        }
        match self.entries.get(&id) {
            Some(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// Removes a tensor from the table; returns its handle, if it had one.
    pub(crate) fn remove(&mut self, id: TensorId) -> Option<Handle> {
        let before = self.entries.remove(&id);
        self.forget(before.as_ref());
        match before {
            Some(Ok(handle)) => Some(handle),
            _ => None,
        }
    }

    /// The handle of a tensor for a use of this status; the last use removes it from the table.
    ///
    /// # Panics
    /// If it has none. That cannot happen: operations run in their order, and errors are asked for first.
    pub(crate) fn take(&mut self, id: TensorId, status: &TensorStatus) -> Handle {
        let found = match status {
            TensorStatus::ReadWrite => self.remove(id),
            TensorStatus::ReadOnly | TensorStatus::NotInit => self.get(id).cloned(),
        };
        found.unwrap_or_else(|| panic!("{id:?} has no handle"))
    }

    fn tensor(&mut self, tensor: &TensorIr) -> TensorHandle<Handle> {
        TensorHandle { handle: self.take(tensor.id, &tensor.status), shape: tensor.shape.clone() }
    }

    /// As [`Handles::take`], a tensor of floats.
    pub(crate) fn float(&mut self, tensor: &TensorIr) -> RocmTensor {
        Rocm::float_tensor(self.tensor(tensor))
    }

    /// As [`Handles::take`], a tensor of integers.
    pub(crate) fn int(&mut self, tensor: &TensorIr) -> RocmTensor {
        Rocm::int_tensor(self.tensor(tensor))
    }

    /// As [`Handles::take`], a tensor of truth values.
    pub(crate) fn bool(&mut self, tensor: &TensorIr) -> RocmTensor {
        Rocm::bool_tensor(self.tensor(tensor))
    }

    /// As [`Handles::take`], a quantised tensor.
    pub(crate) fn quantized(&mut self, tensor: &TensorIr) -> Quantized {
        Rocm::quantized_tensor(self.tensor(tensor))
    }
}
