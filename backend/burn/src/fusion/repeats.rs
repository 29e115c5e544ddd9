//! Finds calls that come again and again on unrelated tensors.
//!
//! A program that makes the same call on many inputs would be recorded to its end before the device gets anything to do, as nothing
//! else ends the stretch. Such calls gain nothing from being in one stretch: the stream joins small launches of different stretches
//! too. So a stretch that is one call [`CALLS`] times ends there, and Burn executes the next one like it at once.
//!
//! A call is known by its operations and by which tensors they share. It reads something that it does not make, and touches no tensor
//! of another call. The update of a parameter after a backward pass is no such call, because the stretch makes its gradient; nor are
//! projections of one input, or steps that share weights.

use std::collections::{HashMap, HashSet};

use burn_ir::{OperationIr, TensorId};

use super::partition::is_free;
use super::report;

/// How often a call must have come to end the stretch.
const CALLS: usize = 4;

/// The fewest operations of a stretch that ends so. Giving a stretch to the device costs the host about as much as recording so many.
const OPERATIONS_LEAST: usize = 8;

/// What of an operation decides whether calls are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Recorded {
    /// Its name, and the shapes, types and statuses of its tensors.
    form: String,
    /// The tensors that it reads, and then those that it makes; or the one that it drops.
    ids: Vec<TensorId>,
    inputs: usize,
    is_free: bool,
}

impl Recorded {
    fn new(operation: &OperationIr) -> Recorded {
        let mut tensors = operation.nodes();
        let inputs = operation.inputs().count();
        if let OperationIr::Drop(tensor) = operation {
            tensors = vec![tensor];
        }
        let form = |tensor: &burn_ir::TensorIr| format!(" {:?} {:?} {:?}", tensor.shape, tensor.dtype, tensor.status);
        Recorded {
            form: tensors.iter().fold(report::name(operation), |text, tensor| text + &form(tensor)),
            ids: tensors.iter().map(|tensor| tensor.id).collect(),
            inputs,
            is_free: is_free(operation) || matches!(operation, OperationIr::Drop(_)),
        }
    }
}

/// The operations of a stretch, in order.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    steps: Vec<Recorded>,
}

impl Repeats {
    /// Adds an operation.
    pub(super) fn take(&mut self, operation: &OperationIr) {
        self.steps.push(Recorded::new(operation));
    }

    /// Whether the operations so far are the same call [`CALLS`] times, each time on other tensors.
    pub(super) fn is_loop(&self) -> bool {
        let count = self.steps.len();
        if count < OPERATIONS_LEAST || !count.is_multiple_of(CALLS) {
            return false;
        }
        let (first, others) = self.steps.split_at(count / CALLS);
        // The condition that fails most often comes first, as this runs for every fourth operation.
        let looks_same = |(at, step): (usize, &Recorded)| step.form == first[at % first.len()].form;
        if !others.iter().enumerate().all(looks_same) || !is_call(first) {
            return false;
        }
        let (structure, mut touched) = numbered(first);
        others.chunks(first.len()).all(|call| {
            let (other, ids) = numbered(call);
            let is_apart = ids.keys().all(|id| !touched.contains_key(id));
            touched.extend(ids);
            is_apart && other == structure
        })
    }
}

/// Whether operations compute something from tensors that they do not make.
fn is_call(steps: &[Recorded]) -> bool {
    let mut made: HashSet<TensorId> = HashSet::new();
    let mut reads_others = false;
    for step in steps {
        let (inputs, outputs) = step.ids.split_at(step.inputs);
        reads_others |= inputs.iter().any(|id| !made.contains(id));
        made.extend(outputs);
    }
    reads_others && steps.iter().any(|step| !step.is_free)
}

/// The tensors of operations as numbers in the order in which they first come, and the number of each.
fn numbered(steps: &[Recorded]) -> (Vec<usize>, HashMap<TensorId, usize>) {
    let mut numbers = HashMap::new();
    let ids = steps.iter().flat_map(|step| &step.ids);
    let structure = ids.map(|id| {
        let next = numbers.len();
        *numbers.entry(*id).or_insert(next)
    });
    (structure.collect(), numbers)
}

#[cfg(test)]
mod tests {
    use burn_backend::{DType, Shape};
    use burn_ir::{BinaryOpIr, FloatOperationIr, NumericOperationIr, TensorIr, TensorStatus, UnaryOpIr};

    use super::*;

    fn tensor(id: u64, status: TensorStatus) -> TensorIr {
        TensorIr { id: TensorId::new(id), shape: Shape::from(vec![1, 2]), status, dtype: DType::F32 }
    }

    /// `exp(x) + other`, of which only the sum lives on.
    fn call(x: u64, other: u64, first_made: u64) -> [OperationIr; 2] {
        let input = tensor(x, TensorStatus::ReadOnly);
        let (made, sum) = (first_made, first_made + 1);
        let exp = UnaryOpIr { input, out: tensor(made, TensorStatus::NotInit) };
        let add = BinaryOpIr {
            lhs: tensor(made, TensorStatus::ReadWrite),
            rhs: tensor(other, TensorStatus::ReadOnly),
            out: tensor(sum, TensorStatus::NotInit),
        };
        [
            OperationIr::Float(DType::F32, FloatOperationIr::Exp(exp)),
            OperationIr::NumericFloat(DType::F32, NumericOperationIr::Add(add)),
        ]
    }

    /// The numbers of the operations after which those so far are found to be a loop.
    fn loops(operations: impl IntoIterator<Item = OperationIr>) -> Vec<usize> {
        let mut repeats = Repeats::default();
        let ends = operations.into_iter().enumerate().filter(|(_, operation)| {
            repeats.take(operation);
            repeats.is_loop()
        });
        ends.map(|(at, _)| at).collect()
    }

    #[test]
    fn four_calls_on_tensors_of_their_own_are_a_loop() {
        assert_eq!(loops((0..4).flat_map(|n| call(10 * n, 10 * n + 1, 10 * n + 2))), [7]);
    }

    #[test]
    fn calls_that_share_an_input_are_none() {
        assert!(loops((0..8).flat_map(|n| call(10 * n, 1, 10 * n + 2))).is_empty());
    }

    #[test]
    fn calls_that_read_each_other_are_none() {
        assert!(loops((0..8).flat_map(|n| call(10 * n + 3, 10 * n + 1, 10 * n + 12))).is_empty());
    }

    #[test]
    fn other_operations_are_another_call() {
        let mut operations: Vec<_> = (0..4).flat_map(|n| call(10 * n, 10 * n + 1, 10 * n + 2)).collect();
        operations[4..6].reverse();
        assert!(loops(operations).is_empty());
    }
}
