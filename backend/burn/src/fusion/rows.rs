//! Makes nodes of operations along an axis: reductions, and indexed operations that touch one element of each row.

use burn_ir::{GatherOpIr, ReduceOpIr, ScatterOpIr, TensorIr};
use burn_std::IndexingUpdateOp;
use rocfire_fusion::{Binary, Compare, IndexOp, Reduce, Scalar, Unary, Value};
use rocfire_hal::DType;

use super::axes::{Frame, Group, ONE};
use super::refusal::Refusal;
use super::trace::{EntryId, Trace};
use super::translate::Result;
use crate::convert::to_hal;

/// The operand of a reduction.
struct Rows {
    entry: EntryId,
    value: Value,
    /// The axes that are reduced over.
    row: Group,
    /// The frame of the result.
    result: Frame,
}

impl Trace {
    /// Reduces over the axes `dims`, which stay in the result with an extent of 1.
    pub(super) fn reduce(&mut self, op: Reduce, input: &TensorIr, out: &TensorIr, dims: &[usize]) -> Result<()> {
        if dims.iter().all(|dim| input.shape[*dim] == ONE) {
            // Each reduction is of one element. Burn makes these in gradients of broadcasts.
            return self.same(input, out);
        }
        self.reduce_of(op, input, out, dims, |_, value| Ok(value))
    }

    /// The largest magnitude along an axis.
    pub(super) fn reduce_abs(&mut self, input: &TensorIr, out: &TensorIr, dims: &[usize]) -> Result<()> {
        self.reduce_of(Reduce::Max, input, out, dims, |trace, value| trace.one(Unary::Abs, value))
    }

    /// Reduces a whole tensor to one number.
    pub(super) fn reduce_whole_of(&mut self, op: Reduce, tensors: &ReduceOpIr) -> Result<()> {
        self.reduce_of(op, &tensors.input, &tensors.out, &whole(&tensors.input), |_, value| Ok(value))?;
        self.reduce_whole(&tensors.out);
        Ok(())
    }

    /// Whether any or all elements of a tensor differ from zero.
    pub(super) fn test_whole(&mut self, op: Reduce, tensors: &ReduceOpIr) -> Result<()> {
        self.test_of(op, &tensors.input, &tensors.out, &whole(&tensors.input))?;
        self.reduce_whole(&tensors.out);
        Ok(())
    }

    /// Whether any or all elements along an axis differ from zero.
    pub(super) fn test(&mut self, op: Reduce, input: &TensorIr, out: &TensorIr, dim: usize) -> Result<()> {
        self.test_of(op, input, out, &[dim])
    }

    fn test_of(&mut self, op: Reduce, input: &TensorIr, out: &TensorIr, dims: &[usize]) -> Result<()> {
        self.reduce_of(op, input, out, dims, |trace, value| {
            let dtype = trace.dtype(value);
            if dtype == DType::Bool {
                return Ok(value);
            }
            let zero = trace.constant(Scalar::Int(0), dtype)?;
            trace.test_two(Compare::Ne, value, zero)
        })
    }

    fn reduce_of(
        &mut self,
        op: Reduce,
        input: &TensorIr,
        out: &TensorIr,
        dims: &[usize],
        before: impl FnOnce(&mut Trace, Value) -> Result<Value>,
    ) -> Result<()> {
        let rows = self.rows(input, out, dims)?;
        let value = before(self, rows.value)?;
        let node = self.add(|graph| graph.reduce(op, value))?;
        self.require_dtype(node, out)?;
        let at = self.define(out, node, rows.result, &[rows.entry])?;
        self.count(at);
        Ok(())
    }

    /// The extreme along an axis, and the index of its first occurrence. A NaN is the extreme of any row that has one.
    pub(super) fn extreme(
        &mut self,
        op: Reduce,
        input: &TensorIr,
        dim: usize,
        out: Option<&TensorIr>,
        indices: &TensorIr,
    ) -> Result<()> {
        let rows = self.rows(input, indices, &[dim])?;
        let dtype = self.dtype(rows.value);
        if dtype == DType::Bool {
            return Err(Refusal::DType);
        }
        let extreme = self.add(|graph| graph.reduce(op, rows.value))?;
        let mut hit = self.test_two(Compare::Eq, rows.value, extreme)?;
        if dtype.is_float() {
            let is_nan = self.one(Unary::IsNan, rows.value)?;
            hit = self.two(Binary::Or, hit, is_nan)?;
        }
        let index = self.coordinate(rows.row)?;
        let nowhere = self.whole_number(i64::MAX)?;
        let candidate = self.choose(hit, index, nowhere)?;
        let first = self.add(|graph| graph.reduce(Reduce::Min, candidate))?;
        let first = self.converted(first, to_hal(indices.dtype).map_err(|_| Refusal::DType)?)?;
        if let Some(out) = out {
            self.require_dtype(extreme, out)?;
            self.define(out, extreme, rows.result, &[rows.entry])?;
        }
        let at = self.define(indices, first, rows.result, &[rows.entry])?;
        self.count(at);
        Ok(())
    }

    /// Elements by their index along an axis. If one element of each row of a computed value is wanted, and the kernel reduces the same
    /// rows, it is picked by another reduction: the rows are read anyway. An index outside the row gives 0 and is reported.
    pub(super) fn gather(&mut self, op: &GatherOpIr) -> Result<()> {
        let entry = self.operand(&op.tensor)?;
        let Some((value, mut frame)) = self.value_of(entry) else { return self.gather_anywhere(op, entry) };
        let is_pick = op.indices.shape[op.dim] == ONE && others_equal(&op.tensor, &op.indices, op.dim);
        let row = frame.groups()[op.dim];
        if !is_pick || row.is_none() || self.part(entry).row != Some(row) || self.dtype(value) == DType::Bool {
            return self.gather_anywhere(op, entry);
        }
        frame.groups_mut()[op.dim] = Group::NONE;
        let (indices, index) = self.beside(&op.indices, &frame, entry)?;
        let index = self.checked(IndexOp::Gather, index, &op.tensor, op.dim)?;
        let hit = self.at_index(row, index)?;
        let zero = self.constant(Scalar::Int(0), self.dtype(value))?;
        let picked = self.choose(hit, value, zero)?;
        let node = self.add(|graph| graph.reduce(Reduce::Sum, picked))?;
        self.require_dtype(node, &op.out)?;
        let at = self.define(&op.out, node, frame, &[entry, indices])?;
        self.count(at);
        Ok(())
    }

    /// Adds one value to one element of each row. For bools adding is "or".
    pub(super) fn scatter(&mut self, op: &ScatterOpIr) -> Result<()> {
        let is_pick = op.indices.shape[op.dim] == ONE
            && op.value.shape == op.indices.shape
            && others_equal(&op.tensor, &op.indices, op.dim);
        if !is_pick || op.update != IndexingUpdateOp::Add || op.tensor.shape[op.dim] == ONE {
            return Err(Refusal::Operation);
        }
        let entry = self.operand(&op.tensor)?;
        let frame = self.resolve(&op.out, &[entry])?;
        let base = self.value(entry, &frame)?;
        let along = frame.groups()[op.dim];
        let mut rows = frame;
        rows.groups_mut()[op.dim] = Group::NONE;
        let (indices, index) = self.beside(&op.indices, &rows, entry)?;
        let (values, value) = self.beside(&op.value, &rows, entry)?;
        let index = self.checked(IndexOp::Scatter, index, &op.tensor, op.dim)?;
        let hit = self.at_index(along, index)?;
        let add = if self.dtype(base) == DType::Bool { Binary::Or } else { Binary::Add };
        let sum = self.two(add, base, value)?;
        let node = self.choose(hit, sum, base)?;
        self.require_dtype(node, &op.out)?;
        let at = self.define(&op.out, node, frame, &[entry, indices, values])?;
        self.count(at);
        Ok(())
    }

    /// Whether the coordinate along `along` is `index`.
    fn at_index(&mut self, along: Group, index: Value) -> Result<Value> {
        let at = self.coordinate(along)?;
        let index = self.converted(index, DType::I64)?;
        self.test_two(Compare::Eq, at, index)
    }

    /// An operand that must lie exactly in `frame`, in the same part as `anchor`, and its value.
    fn beside(&mut self, tensor: &TensorIr, frame: &Frame, anchor: EntryId) -> Result<(EntryId, Value)> {
        let at = self.operand(tensor)?;
        let mut joined = *frame;
        self.place_operand(at, &tensor.shape, &mut joined)?;
        self.common_row(&[anchor, at])?;
        let is_in_place = self.value_of(at).is_none_or(|(_, own)| own == *frame);
        if joined != *frame || !is_in_place {
            return Err(Refusal::Transposed);
        }
        Ok((at, self.value(at, frame)?))
    }

    fn rows(&mut self, input: &TensorIr, out: &TensorIr, dims: &[usize]) -> Result<Rows> {
        if !self.reduces {
            return Err(Refusal::Reduction);
        }
        let entry = self.operand(input)?;
        let (value, frame) = match (self.value_of(entry), self.seen_through(entry)) {
            (Some(computed), _) => computed,
            (None, Some((base, dims))) => self.value_through(base, &dims)?,
            (None, None) => {
                let frame = self.resolve(input, &[entry])?;
                (self.value(entry, &frame)?, frame)
            }
        };
        let mut sorted = dims.to_vec();
        sorted.sort_unstable();
        let axes = sorted.iter().flat_map(|dim| frame.groups()[*dim].axes().to_vec());
        let row = Group::collect(axes).ok_or(Refusal::Rank)?;
        let is_whole = dims.len() == input.shape.rank();
        if row.is_none() || !(is_whole || out.shape.rank() == input.shape.rank()) {
            return Err(Refusal::Operation);
        }
        self.reduce_over(entry, row)?;
        let mut result = frame;
        if is_whole {
            // It is one number, whatever rank Burn gives it.
            result = Frame::ones(out.shape.rank()).ok_or(Refusal::Rank)?;
        } else {
            for dim in dims {
                result.groups_mut()[*dim] = Group::NONE;
            }
        }
        Ok(Rows { entry, value, row, result })
    }
}

/// All axes of a tensor.
pub(super) fn whole(tensor: &TensorIr) -> Vec<usize> {
    (0..tensor.shape.rank()).collect()
}

pub(super) fn others_equal(a: &TensorIr, b: &TensorIr, dim: usize) -> bool {
    a.shape.rank() == b.shape.rank() && (0..a.shape.rank()).all(|at| at == dim || a.shape[at] == b.shape[at])
}
