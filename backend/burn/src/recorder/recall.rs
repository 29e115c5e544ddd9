//! Tensors that are not in memory: the operations that compute them are recorded again when they are read.

use std::collections::HashMap;

use burn_ir::{IrVisitorMut, OperationIr, TensorId, TensorIr, TensorStatus};

use super::channel::new_name;
use super::recording::Tables;
use crate::fusion::Recipe;
use crate::fusion::handle::Handle;
use crate::fusion::handles::Handles;

/// How to compute a tensor again, with what that reads.
pub(super) struct Recall {
    operations: Vec<OperationIr>,
    /// What they read and do not make. The handles keep it in memory even if its own life ends.
    sources: Vec<(TensorId, Handle)>,
}

impl Recall {
    /// Of a recipe of a stretch that has run; `None` if a source was not made.
    pub(super) fn new(recipe: &Recipe, tables: &Tables, handles: &Handles) -> Option<Recall> {
        let sources = recipe.sources.iter().map(|source| {
            let id = tables.tensors[source.value() as usize].id;
            Some((id, handles.get(id)?.clone()))
        });
        let sources = sources.collect::<Option<_>>()?;
        let mut operations = recipe.operations.clone();
        operations.iter_mut().for_each(|operation| tables.absolute(operation));
        Some(Recall { operations, sources })
    }

    /// The operations to record in front of one that reads `tensor`. What they make besides it has new names. `lives` says of a source
    /// whether it can be read by its own name; any other gets a new name too, and ends with them.
    pub(super) fn operations(
        self,
        tensor: TensorId,
        handles: &mut Handles,
        lives: impl Fn(TensorId) -> bool,
    ) -> Vec<OperationIr> {
        let mut names = Names { known: HashMap::from([(tensor, tensor)]), readings: HashMap::new() };
        for (id, handle) in self.sources {
            if handles.get(id).is_some() && lives(id) {
                names.known.insert(id, id);
            } else {
                let name = names.add(id);
                handles.put(name, handle);
            }
        }
        let mut operations = self.operations;
        for made in operations.iter().flat_map(OperationIr::outputs).filter(|made| made.id != tensor) {
            names.add(made.id);
        }
        for read in operations.iter().flat_map(OperationIr::inputs) {
            if let Some(readings) = names.readings.get_mut(&names.known[&read.id]) {
                *readings += 1;
            }
        }
        operations.iter_mut().for_each(|operation| operation.visit_mut(&mut names));
        operations
    }
}

/// Gives tensors of operations other names.
struct Names {
    known: HashMap<TensorId, TensorId>,
    /// For each tensor whose life ends with the operations, by its new name, how often it is still read.
    readings: HashMap<TensorId, usize>,
}

impl Names {
    fn add(&mut self, id: TensorId) -> TensorId {
        let name = new_name();
        self.known.insert(id, name);
        self.readings.insert(name, 0);
        name
    }
}

impl IrVisitorMut for Names {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        tensor.id = self.known[&tensor.id];
        if tensor.status == TensorStatus::NotInit {
            return;
        }
        tensor.status = match self.readings.get_mut(&tensor.id) {
            None => TensorStatus::ReadOnly,
            Some(readings) => {
                *readings -= 1;
                if *readings == 0 { TensorStatus::ReadWrite } else { TensorStatus::ReadOnly }
            }
        };
    }
}
