//! The tensors of a device by Burn's names for them, and what failed in the place of some.
//!
//! Burn has such a table, but each reading of it takes the handle out and puts a copy back. This one is read several times a launch.

use burn_ir::{BackendIr, TensorError, TensorHandle, TensorId, TensorIr, TensorStatus};
use rustc_hash::FxHashMap;

use super::handle::Handle;
use crate::{Rocm, RocmTensor};

type Quantized = <Rocm as burn_backend::BackendTypes>::QuantizedTensorPrimitive;

/// See the module's description.
#[derive(Default)]
pub(crate) struct Handles {
    /// What was made, or what failed that was to make it.
    entries: FxHashMap<TensorId, Result<Handle, TensorError>>,
    /// How many have failed: almost always none, which spares looking.
    failed: usize,
}

impl Handles {
    /// Gives a tensor its handle; it has not failed then.
    pub(crate) fn put(&mut self, id: TensorId, handle: Handle) {
        let before = self.entries.insert(id, Ok(handle));
        self.forget(before.as_ref());
    }

    /// Makes a tensor one that was never written.
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

    fn forget(&mut self, before: Option<&Result<Handle, TensorError>>) {
        if let Some(Err(_)) = before {
            self.failed -= 1;
        }
    }

    /// The handle of a tensor that was written.
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

    /// What failed in the place of a tensor.
    pub(crate) fn error(&self, id: TensorId) -> Option<&TensorError> {
        if self.failed == 0 {
            return None;
        }
        match self.entries.get(&id) {
            Some(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// Ends a tensor's name.
    pub(crate) fn remove(&mut self, id: TensorId) -> Option<Handle> {
        let before = self.entries.remove(&id);
        self.forget(before.as_ref());
        match before {
            Some(Ok(handle)) => Some(handle),
            _ => None,
        }
    }

    /// The handle of a tensor, whose name ends with the last use.
    ///
    /// # Panics
    /// Where it has none: nobody is told of a tensor before what makes it has run, and errors are asked for first.
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
