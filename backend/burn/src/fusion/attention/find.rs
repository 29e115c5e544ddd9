//! Finds attention among the operations of a stretch.

use burn_ir::{BaseOperationIr, FloatOperationIr, MatmulOpIr, NumericOperationIr, OperationIr, ScalarIr, ScalarOpIr};
use burn_ir::{TensorId, TensorIr};
use rocfire_kernels::pattern::attention::{Attention, Factor, ProgramOp};

use crate::fusion::axes::ONE;

/// Operations that write out an attention whose scores nothing else reads.
pub(in crate::fusion) struct Found {
    /// Numbers of its operations, in order.
    pub(in crate::fusion) members: Vec<usize>,
    pub(in crate::fusion) pattern: Attention<TensorId>,
    /// The tensors that it reads, each once.
    pub(in crate::fusion) sources: Vec<TensorId>,
    /// The tensors that it computes before its result.
    pub(in crate::fusion) inner: Vec<TensorId>,
}

/// What the search needs to know of a stretch.
pub(in crate::fusion) struct Lives<'a> {
    pub(in crate::fusion) operations: &'a [OperationIr],
    /// For each operation, whether nobody will see its results.
    pub(in crate::fusion) is_left_out: &'a [bool],
    /// Whether a tensor's life ends in the stretch and only these operations read it.
    pub(in crate::fusion) ends: &'a dyn Fn(TensorId, &[usize]) -> bool,
}

/// Every attention, in the order of their first operations; none shares an operation with another.
pub(in crate::fusion) fn find(lives: &Lives<'_>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for (at, operation) in lives.operations.iter().enumerate() {
        let is_taken = lives.is_left_out[at] || found.iter().any(|other| other.members.contains(&at));
        if let (OperationIr::Float(_, FloatOperationIr::Matmul(product)), false) = (operation, is_taken) {
            found.extend(lives.follow(at, product));
        }
    }
    found
}

impl Lives<'_> {
    /// The attention whose scores the product with number `start` computes; `None` if it is no part of one.
    fn follow(&self, start: usize, product: &MatmulOpIr) -> Option<Found> {
        let (q, kt) = (&product.lhs.shape, &product.rhs.shape);
        let rank = q.rank();
        // Extents are relative: equal numbers are equal extents. With a batch of one this could also be an input times a weight,
        // which has no batch.
        let is_batched = kt.rank() == rank && (rank == 4 || rank == 3 && q[0] != ONE) && q[0] == kt[0];
        if !is_batched || product.lhs.id == product.rhs.id {
            return None;
        }
        let mut found = Found {
            members: vec![start],
            pattern: Attention::start(product.lhs.id, product.rhs.id, product.out.id),
            sources: vec![product.lhs.id, product.rhs.id],
            inner: vec![product.out.id],
        };
        let behind = self.operations.iter().enumerate().skip(start + 1);
        for (at, operation) in behind.filter(|(at, _)| !self.is_left_out[*at]) {
            if found.pattern.output().is_some() {
                break;
            }
            if !operation.inputs().any(|input| found.inner.contains(&input.id)) {
                continue;
            }
            let (step, out) = step(operation)?;
            let step = self.by_rows(step, &mut found);
            if !found.pattern.take(step, out.id) {
                return None;
            }
            found.members.push(at);
            for input in operation.inputs().filter(|input| !found.inner.contains(&input.id)) {
                if !found.sources.contains(&input.id) {
                    found.sources.push(input.id);
                }
            }
            if found.pattern.output().is_none() {
                found.inner.push(out.id);
            }
        }
        found.pattern.output()?;
        found.members.sort_unstable();
        let is_inside = |id: &TensorId| (self.ends)(*id, &found.members);
        found.inner.iter().all(is_inside).then_some(found)
    }
}

impl Lives<'_> {
    /// A fill whose mask says of which rows the last mask hides all: the operation that finds those out is a member, too.
    fn by_rows(&self, step: ProgramOp<TensorId>, found: &mut Found) -> ProgramOp<TensorId> {
        let (ProgramOp::Fill(rows, scores, number), Some(mask)) = (step, found.pattern.hides_by()) else { return step };
        let start = found.members[0];
        let finds = |operation: &OperationIr| match operation {
            OperationIr::BaseBool(BaseOperationIr::AllDim(op)) => {
                op.out.id == rows && op.input.id == mask && is_last(&op.input, op.axis)
            }
            _ => false,
        };
        let behind = self.operations.iter().enumerate().skip(start + 1);
        let Some((at, _)) = behind.filter(|(at, _)| !self.is_left_out[*at]).find(|(_, operation)| finds(operation))
        else {
            return step;
        };
        found.members.push(at);
        found.inner.push(rows);
        ProgramOp::FillRows(mask, scores, number)
    }
}

/// An operation as a step of the pattern, and its result; `None` if the pattern has no such step.
fn step(operation: &OperationIr) -> Option<(ProgramOp<TensorId>, &TensorIr)> {
    use {BaseOperationIr as Base, FloatOperationIr as Float, NumericOperationIr as Numeric};
    let scaled =
        |op: &ScalarOpIr, factor: fn(u64) -> Factor| Some(ProgramOp::Scale(op.lhs.id, factor(number(op.rhs)?)));
    Some(match operation {
        OperationIr::Float(_, Float::Matmul(op)) => (ProgramOp::Product(op.lhs.id, op.rhs.id), &op.out),
        OperationIr::Float(_, Float::Exp(op)) => (ProgramOp::Exp(op.input.id), &op.out),
        OperationIr::Float(_, Float::Tanh(op)) => (ProgramOp::Tanh(op.input.id), &op.out),
        OperationIr::BaseFloat(Base::Cast(op)) => (ProgramOp::Cast(op.input.id), &op.out),
        OperationIr::BaseFloat(Base::MaskFill(op)) => {
            (ProgramOp::Fill(op.mask.id, op.tensor.id, number(op.value)?), &op.out)
        }
        OperationIr::NumericFloat(_, op) => match op {
            Numeric::MulScalar(op) => (scaled(op, Factor::Times)?, &op.out),
            Numeric::DivScalar(op) => (scaled(op, Factor::Over)?, &op.out),
            Numeric::Add(op) => (ProgramOp::Add(op.lhs.id, op.rhs.id), same_shape(&op.out, &[&op.lhs, &op.rhs])?),
            Numeric::Sub(op) => (ProgramOp::Sub(op.lhs.id, op.rhs.id), &op.out),
            Numeric::Div(op) => (ProgramOp::Div(op.lhs.id, op.rhs.id), &op.out),
            Numeric::MaxDim(op) if is_last(&op.input, op.axis) => (ProgramOp::RowMax(op.input.id), &op.out),
            Numeric::SumDim(op) if is_last(&op.input, op.axis) => (ProgramOp::RowSum(op.input.id), &op.out),
            _ => return None,
        },
        _ => return None,
    })
}

/// The output of a sum, if one of its operands has its shape, as the scores must.
fn same_shape<'a>(out: &'a TensorIr, operands: &[&TensorIr]) -> Option<&'a TensorIr> {
    operands.iter().any(|operand| operand.shape == out.shape).then_some(out)
}

fn is_last(input: &TensorIr, axis: usize) -> bool {
    axis + 1 == input.shape.rank()
}

/// Burn's number of a relative scalar.
fn number(scalar: ScalarIr) -> Option<u64> {
    match scalar {
        ScalarIr::UInt(number) => Some(number),
        ScalarIr::Float(_) | ScalarIr::Int(_) | ScalarIr::Bool(_) => None,
    }
}
