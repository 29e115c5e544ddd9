//! A tensor with a part replaced, as a value that is computed: an element inside the part is the new one, any other is the old one.
//!
//! Such a kernel writes the whole tensor. So a tensor in memory that nobody else needs is left to the operator that writes only the
//! part. It pays for the gradient of a slice, which is zeros with a part replaced: there all elements are new anyway.

use burn_ir::{BaseOperationIr, OperationIr, SliceAssignOpIr, TensorId, TensorStatus};
use rocfire_fusion::{Binary, Compare, Value};
use rocfire_hal::DType;

use super::axes::ONE;
use super::refusal::Refusal;
use super::shift::range_numbers;
use super::trace::{Number, Trace};
use super::translate::Result;

/// Whether an operation can write its part into a tensor that is in memory already and that nobody else needs.
pub(super) fn is_in_place(operation: &OperationIr, is_made: impl Fn(TensorId) -> bool) -> bool {
    match operation {
        OperationIr::BaseFloat(BaseOperationIr::SliceAssign(op))
        | OperationIr::BaseInt(BaseOperationIr::SliceAssign(op))
        | OperationIr::BaseBool(BaseOperationIr::SliceAssign(op)) => {
            op.tensor.status == TensorStatus::ReadWrite && !is_made(op.tensor.id)
        }
        _ => false,
    }
}

impl Trace {
    /// A tensor with the part in `ranges` replaced by another.
    pub(super) fn slice_assign(&mut self, op: &SliceAssignOpIr) -> Result<()> {
        let numbers = range_numbers(&op.ranges)?;
        let (entry, part) = (self.operand(&op.tensor)?, self.operand(&op.value)?);
        let is_cut = |dim: usize| op.value.shape[dim] != op.tensor.shape[dim];
        let cut: Vec<usize> = (0..numbers.len()).filter(|dim| is_cut(*dim)).collect();
        let mut frame = super::axes::Frame::ones(op.out.shape.rank()).ok_or(Refusal::Rank)?;
        self.place_operand(entry, &op.out.shape, &mut frame)?;
        self.place_beside(part, &op.out.shape, &cut, &mut frame)?;
        let frame = self.complete(&op.out, frame, &[entry, part])?;
        let base = self.value(entry, &frame)?;
        let (mut places, mut wholes, mut is_part) = (Vec::new(), Vec::new(), None);
        for (dim, number) in numbers.into_iter().enumerate() {
            if !is_cut(dim) {
                if op.tensor.shape[dim] != ONE {
                    wholes.push((dim, number));
                }
                continue;
            }
            let here = self.coordinate(frame.groups()[dim])?;
            let start = self.number(Number::Start(number, op.tensor.id, dim as u8), DType::I64)?;
            let step = self.number(Number::Step(number), DType::I64)?;
            let away = self.two(Binary::Sub, here, start)?;
            let index = self.two(Binary::Div, away, step)?;
            let extent = self.extent_along(&op.value, dim)?;
            let is_within = self.is_met(away, index, step, extent)?;
            is_part = Some(match is_part {
                None => is_within,
                Some(others) => self.two(Binary::And, others, is_within)?,
            });
            places.push((dim, index));
        }
        let turned = self.turned(part, &wholes)?;
        let replaced = self.element(turned, &frame, &places)?;
        let node = match is_part {
            Some(is_part) => self.choose(is_part, replaced, base)?,
            None => replaced,
        };
        self.finish(&op.out, node, frame, &[entry, part])
    }

    /// Whether an element belongs to the part along an axis. `away` is its distance from the part's first element; it must be a whole
    /// number of steps, and that number, `index`, must lie within the part's extent.
    fn is_met(&mut self, away: Value, index: Value, step: Value, extent: Value) -> Result<Value> {
        let back = self.two(Binary::Mul, index, step)?;
        let (is_exact, is_within) = (self.test_two(Compare::Eq, back, away)?, self.is_within(index, extent)?);
        self.two(Binary::And, is_exact, is_within)
    }
}
