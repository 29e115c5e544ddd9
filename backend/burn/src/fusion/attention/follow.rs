//! One reading of a stream as attention: what comes before, the pattern, what comes behind.

use std::sync::Arc;

use burn_ir::{
    BaseOperationIr, FloatOperationIr, MatmulOpIr, NumericOperationIr, OperationIr, ScalarIr, ScalarOpIr, TensorId,
    TensorIr, TensorStatus,
};
use rocfire_kernels::pattern::attention::{Attention, Factor, Step};

use super::apart::Apart;
use super::plan::AttentionPlan;
use crate::fusion::axes::ONE;
use crate::fusion::plan::{Plan, Source, plan};
use crate::fusion::refusal::Refusal;
use crate::fusion::trace::Trace;

type Result<T> = std::result::Result<T, Refusal>;

/// A value that the pattern computes.
#[derive(Clone, Copy)]
struct Inner {
    id: TensorId,
    is_dead: bool,
}

/// See the module's description. It is cloned with the fuser.
#[derive(Clone)]
pub(super) struct Reading {
    /// Operations that run first and by themselves, by their place: tensors from the host.
    first: Vec<usize>,
    before: Arc<Trace>,
    pattern: Attention<TensorId>,
    inner: Vec<Inner>,
    /// What the pattern reads, and whether it is the last to.
    sources: Vec<Source>,
    after: Arc<Trace>,
    /// Operations of all three, those without effect on them too.
    operations: usize,
}

impl Reading {
    /// A stream of which `before` has taken all but those in `first` and the last operation, a product that may give scores.
    pub(super) fn start(
        first: Vec<usize>,
        before: Arc<Trace>,
        product: &MatmulOpIr,
        operations: usize,
    ) -> Option<Reading> {
        let (q, kt) = (&product.lhs.shape, &product.rhs.shape);
        let rank = q.rank();
        // Relative extents: equal numbers are equal extents. A weight has no batch, and is what an input of one batch meets.
        let is_batched = kt.rank() == rank && (rank == 4 || rank == 3 && q[0] != ONE) && q[0] == kt[0];
        let is_kernel = before.operations == 0 || can_run(&before);
        if !is_batched || !is_kernel || product.lhs.id == product.rhs.id {
            return None;
        }
        let pattern = Attention::start(product.lhs.id, product.rhs.id, product.out.id);
        let after = Trace { multiplies: true, ..Trace::default() };
        let after = Arc::new(after);
        let mut reading = Reading { first, before, pattern, inner: vec![], sources: vec![], after, operations };
        reading.read(&product.lhs);
        reading.read(&product.rhs);
        reading.inner.push(Inner { id: product.out.id, is_dead: false });
        Some(reading)
    }

    /// Goes on with an operation, or says why it is none of attention.
    pub(super) fn take(&mut self, operation: &OperationIr) -> Result<()> {
        self.operations += 1;
        if let OperationIr::Drop(tensor) = operation {
            return self.drop_tensor(tensor);
        }
        if let OperationIr::Init(_) = operation {
            self.first.push(self.operations - 1);
            return Ok(());
        }
        let touches = operation.inputs().any(|input| self.inner.iter().any(|inner| inner.id == input.id));
        if self.pattern.output().is_some() {
            return if touches { Err(Refusal::Scores) } else { Arc::make_mut(&mut self.after).take(operation) };
        }
        if touches { self.go_on(operation) } else { self.put_before(operation) }
    }

    fn go_on(&mut self, operation: &OperationIr) -> Result<()> {
        let (step, out) = step(operation).ok_or(Refusal::Operation)?;
        if !self.pattern.take(step, out.id) {
            return Err(Refusal::Operation);
        }
        for input in operation.inputs() {
            match self.inner.iter_mut().find(|inner| inner.id == input.id) {
                Some(inner) => inner.is_dead |= input.status == TensorStatus::ReadWrite,
                None => self.read(input),
            }
        }
        if self.pattern.output().is_none() {
            self.inner.push(Inner { id: out.id, is_dead: false });
            return Ok(());
        }
        // Weights are handed out by modules that mean no training; a gradient keeps the exponentials too.
        if self.inner.iter().filter(|inner| !inner.is_dead).count() > 1 { Err(Refusal::Scores) } else { Ok(()) }
    }

    /// An operation that does not wait for the pattern runs before it.
    fn put_before(&mut self, operation: &OperationIr) -> Result<()> {
        let is_last = |input: &TensorIr| {
            input.status == TensorStatus::ReadWrite && self.sources.iter().any(|source| source.id == input.id)
        };
        if operation.inputs().any(is_last) {
            return Err(Refusal::Unrelated);
        }
        Arc::make_mut(&mut self.before).take(operation)
    }

    fn drop_tensor(&mut self, tensor: &TensorIr) -> Result<()> {
        if let Some(inner) = self.inner.iter_mut().find(|inner| inner.id == tensor.id) {
            inner.is_dead = true;
        } else if let Some(source) = self.sources.iter_mut().find(|source| source.id == tensor.id) {
            source.consumed = true;
        } else if self.before.find(tensor.id).is_some() {
            return Arc::make_mut(&mut self.before).take(&OperationIr::Drop(tensor.clone()));
        } else if self.after.find(tensor.id).is_some() {
            return Arc::make_mut(&mut self.after).take(&OperationIr::Drop(tensor.clone()));
        }
        // Another's tensor: Burn frees it with the operations of the plan.
        Ok(())
    }

    fn read(&mut self, input: &TensorIr) {
        let consumed = input.status == TensorStatus::ReadWrite;
        match self.sources.iter_mut().find(|source| source.id == input.id) {
            Some(source) => source.consumed |= consumed,
            None => self.sources.push(Source { id: input.id, consumed }),
        }
    }

    /// Whether what has been taken is a plan.
    pub(super) fn is_ready(&self) -> bool {
        let is_dead = || self.inner.iter().all(|inner| inner.is_dead);
        let runs = |trace: &Trace| trace.operations == 0 || can_run(trace);
        self.pattern.output().is_some() && is_dead() && runs(&self.before) && runs(&self.after)
    }

    /// Whether operations behind the pattern belong to it: until the weights are dropped, and then as far as a kernel goes.
    pub(super) fn goes_on(&self) -> bool {
        !(self.is_ready() && self.after.operations == 0)
    }

    /// How much better the plan is than its operations one by one, as other fusers count.
    pub(super) fn score(&self) -> u64 {
        let of_trace = |trace: &Trace| trace.arrange().map_or(0, |arrangements| trace.score(&arrangements));
        let steps = self.pattern.steps() as u64;
        // Each step but the first reads what the one before wrote.
        (steps - 1) * 120 + of_trace(&self.before) + of_trace(&self.after)
    }

    pub(super) fn operations(&self) -> usize {
        self.operations
    }

    /// The plan; `apart` is the same operations without the kernel.
    pub(super) fn plan(&self, apart: Apart) -> AttentionPlan {
        AttentionPlan {
            first: self.first.clone(),
            before: part(&self.before),
            pattern: self.pattern.clone(),
            sources: self.sources.clone(),
            after: part(&self.after),
            apart,
        }
    }
}

fn part(trace: &Trace) -> Option<Plan> {
    let arrangements = trace.arrange().expect("a ready plan's parts are kernels");
    (trace.operations > 0).then(|| plan(trace, &arrangements))
}

/// Whether a trace is made of kernels, and those of a product end it.
fn can_run(trace: &Trace) -> bool {
    let is_sound = !trace.lacks_product();
    is_sound && trace.arrange().is_some_and(|arrangements| trace.ends_product(&arrangements))
}

/// An operation as a step of a pattern, and what it gives.
fn step(operation: &OperationIr) -> Option<(Step<TensorId>, &TensorIr)> {
    use {BaseOperationIr as Base, FloatOperationIr as Float, NumericOperationIr as Numeric};
    let scaled = |op: &ScalarOpIr, factor: fn(u64) -> Factor| Some(Step::Scale(op.lhs.id, factor(number(op.rhs)?)));
    Some(match operation {
        OperationIr::Float(_, Float::Matmul(op)) => (Step::Product(op.lhs.id, op.rhs.id), &op.out),
        OperationIr::Float(_, Float::Exp(op)) => (Step::Exp(op.input.id), &op.out),
        OperationIr::Float(_, Float::Tanh(op)) => (Step::Tanh(op.input.id), &op.out),
        OperationIr::BaseFloat(Base::Cast(op)) => (Step::Cast(op.input.id), &op.out),
        OperationIr::BaseFloat(Base::MaskFill(op)) => {
            (Step::Fill(op.mask.id, op.tensor.id, number(op.value)?), &op.out)
        }
        OperationIr::NumericFloat(_, op) => match op {
            Numeric::MulScalar(op) => (scaled(op, Factor::Times)?, &op.out),
            Numeric::DivScalar(op) => (scaled(op, Factor::Over)?, &op.out),
            Numeric::Add(op) => (Step::Add(op.lhs.id, op.rhs.id), same_shape(&op.out, &[&op.lhs, &op.rhs])?),
            Numeric::Sub(op) => (Step::Sub(op.lhs.id, op.rhs.id), &op.out),
            Numeric::Div(op) => (Step::Div(op.lhs.id, op.rhs.id), &op.out),
            Numeric::MaxDim(op) if is_last(&op.input, op.axis) => (Step::RowMax(op.input.id), &op.out),
            Numeric::SumDim(op) if is_last(&op.input, op.axis) => (Step::RowSum(op.input.id), &op.out),
            _ => return None,
        },
        _ => return None,
    })
}

/// A sum's output if it has the shape of one of its operands: the scores' own.
fn same_shape<'a>(out: &'a TensorIr, operands: &[&TensorIr]) -> Option<&'a TensorIr> {
    operands.iter().any(|operand| operand.shape == out.shape).then_some(out)
}

fn is_last(input: &TensorIr, axis: usize) -> bool {
    axis + 1 == input.shape.rank()
}

/// Burn's number of a scalar, which is what a relative one is.
fn number(scalar: ScalarIr) -> Option<u64> {
    match scalar {
        ScalarIr::UInt(number) => Some(number),
        ScalarIr::Float(_) | ScalarIr::Int(_) | ScalarIr::Bool(_) => None,
    }
}
