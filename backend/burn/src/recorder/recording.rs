//! What a thread has recorded and not yet run: operations in relative form, and what their numbers stand for.
//!
//! In relative form, tensors, extents, scalars and ranges of slices are numbers, counted in the order in which the recording met
//! them; equal extents have the same number, and that of 1 is 0. The same program recorded again then gives the same operations,
//! whatever its tensors and extents are.

use std::time::Duration;

use burn_backend::Slice;
use burn_backend::StreamId;
use burn_ir::{IrVisitorMut, OperationIr, ScalarIr, TensorId, TensorIr, TensorStatus};
use rustc_hash::FxHashMap;

use super::forms::{Forms, NodeId};
use crate::fusion::Fuser;
use crate::fusion::bindings::Bindings;
use crate::fusion::handle::Handle;
use crate::fusion::handles::Handles;

/// The operations of a thread since it last ran some.
pub(super) struct Recording {
    pub(super) stream: StreamId,
    /// The node of the tree of known programs that the operations lead to.
    pub(super) at: NodeId,
    /// How many operations there are.
    pub(super) count: usize,
    /// The fuser that is asked about operations, from the first one on that the tree does not have.
    pub(super) fuser: Option<Fuser>,
    pub(super) tables: Tables,
    /// Tensors whose life another thread has ended while these operations still read them.
    pub(super) held: Vec<(TensorId, Handle)>,
    /// Tensors of these operations that another thread has dropped. They end when the operations have run.
    pub(super) dropped: Vec<TensorIr>,
}

impl Recording {
    pub(super) fn new(stream: StreamId) -> Recording {
        Recording {
            stream,
            at: Forms::START,
            count: 0,
            fuser: None,
            tables: Tables::default(),
            held: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Forgets the operations, which have run.
    pub(super) fn clear(&mut self) {
        (self.at, self.count, self.fuser) = (Forms::START, 0, None);
        self.tables.clear();
    }

    /// Whether its operations end a tensor's life.
    pub(super) fn ends(&self, id: TensorId) -> bool {
        let number = self.tables.numbers.get(&id).filter(|_| self.count > 0);
        number.is_some_and(|number| self.tables.tensors[*number].status == TensorStatus::ReadWrite)
    }

    /// Whether its operations read, make or drop a tensor.
    pub(super) fn knows(&self, id: TensorId) -> bool {
        self.count > 0 && self.tables.numbers.contains_key(&id)
    }
}

/// What the numbers of the relative form stand for.
pub(super) struct Tables {
    /// The tensors by number, each with the status of its last use.
    pub(super) tensors: Vec<TensorIr>,
    numbers: FxHashMap<TensorId, usize>,
    extents: Vec<usize>,
    scalars: Vec<ScalarIr>,
    ranges: Vec<Slice>,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables {
            tensors: Vec::new(),
            numbers: FxHashMap::default(),
            // The extent 1 always has number 0.
            extents: vec![1],
            scalars: Vec::new(),
            ranges: Vec::new(),
        }
    }
}

impl Tables {
    /// Puts an operation into relative form.
    pub(super) fn relative(&mut self, operation: &mut OperationIr) {
        operation.visit_mut(&mut Relative(self));
    }

    /// Puts it back into the form in which it came.
    pub(super) fn absolute(&self, operation: &mut OperationIr) {
        operation.visit_mut(&mut Absolute(self));
    }

    /// Lends the tables and the handles to a plan for a run.
    pub(super) fn lend(&mut self, handles: Handles) -> Bindings {
        Bindings {
            tensors: std::mem::take(&mut self.tensors),
            scalars: std::mem::take(&mut self.scalars),
            ranges: std::mem::take(&mut self.ranges),
            handles,
            launching: Duration::ZERO,
        }
    }

    /// Takes back the lists that were lent, to reuse their memory.
    pub(super) fn take_back(&mut self, bindings: Bindings) {
        (self.tensors, self.scalars, self.ranges) = (bindings.tensors, bindings.scalars, bindings.ranges);
    }

    fn clear(&mut self) {
        self.tensors.clear();
        self.numbers.clear();
        self.extents.truncate(1);
        self.scalars.clear();
        self.ranges.clear();
    }
}

/// Replaces tensors, extents, scalars and ranges of an operation by their numbers.
struct Relative<'a>(&'a mut Tables);

impl IrVisitorMut for Relative<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        let Tables { tensors, numbers, extents, .. } = &mut *self.0;
        let number = *numbers.entry(tensor.id).or_insert(tensors.len());
        match tensors.get_mut(number) {
            Some(known) => {
                known.status = tensor.status;
                known.shape.clone_from(&tensor.shape);
            }
            None => tensors.push(tensor.clone()),
        }
        tensor.id = TensorId::new(number as u64);
        for extent in tensor.shape.iter_mut() {
            let known = extents.iter().position(|other| other == extent);
            *extent = known.unwrap_or_else(|| {
                extents.push(*extent);
                extents.len() - 1
            });
        }
    }

    fn visit_scalar_mut(&mut self, scalar: &mut ScalarIr) {
        let number = self.0.scalars.len() as u64;
        self.0.scalars.push(std::mem::replace(scalar, ScalarIr::UInt(number)));
    }

    fn visit_range_mut(&mut self, range: &mut Slice) {
        let number = self.0.ranges.len() as isize;
        self.0.ranges.push(std::mem::replace(range, Slice { start: number, end: None, step: 1 }));
    }
}

/// Replaces the numbers of an operation by what they stand for.
struct Absolute<'a>(&'a Tables);

impl IrVisitorMut for Absolute<'_> {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        tensor.id = self.0.tensors[tensor.id.value() as usize].id;
        tensor.shape.iter_mut().for_each(|extent| *extent = self.0.extents[*extent]);
    }

    fn visit_scalar_mut(&mut self, scalar: &mut ScalarIr) {
        let ScalarIr::UInt(number) = *scalar else { unreachable!("relative scalars are numbers") };
        *scalar = self.0.scalars[number as usize];
    }

    fn visit_range_mut(&mut self, range: &mut Slice) {
        *range = self.0.ranges[range.start as usize];
    }
}
