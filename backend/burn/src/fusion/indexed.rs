//! Operations that read elements at computed coordinates: gathers, selections, concatenations, repetitions.
//!
//! The coordinate along one axis of the operands is computed; their other axes lie in the iteration space as those of the result
//! do. `elsewhere` gives such an element, of a tensor in memory or of a computed value.

use burn_ir::{CatOpIr, GatherOpIr, RepeatDimOpIr, SelectOpIr, TensorIr};
use rocfire_fusion::{Binary, Compare, IndexOp, Scalar, Value};
use rocfire_hal::DType;

use super::axes::{Extent, Frame, ONE};
use super::refusal::Refusal;
use super::rows::others_equal;
use super::trace::{EntryId, Number, Trace};
use super::translate::Result;

/// The most tensors of a concatenation that joins a kernel. Each tensor is an argument, and each element compares its coordinate with
/// the ends of all.
const PIECES_MOST: usize = 32;

impl Trace {
    /// `x[…, indices[…], …]` with indices of the result's shape.
    pub(super) fn gather_anywhere(&mut self, op: &GatherOpIr, entry: EntryId) -> Result<()> {
        if !others_equal(&op.tensor, &op.indices, op.dim) {
            return Err(Refusal::Operation);
        }
        let at = self.operand(&op.indices)?;
        let mut frame = Frame::ones(op.out.shape.rank()).ok_or(Refusal::Rank)?;
        self.place_operand(at, &op.out.shape, &mut frame)?;
        self.place_beside(entry, &op.out.shape, &[op.dim], &mut frame)?;
        let frame = self.complete(&op.out, frame, &[at, entry])?;
        let index = self.value(at, &frame)?;
        self.indexed(IndexOp::Gather, (&op.tensor, &op.out), frame, (entry, op.dim), (at, index))
    }

    /// `x[…, indices[i], …]` with one list of indices.
    pub(super) fn select(&mut self, op: &SelectOpIr) -> Result<()> {
        let (entry, at) = (self.operand(&op.tensor)?, self.operand(&op.indices)?);
        let mut frame = Frame::ones(op.out.shape.rank()).ok_or(Refusal::Rank)?;
        self.place_beside(entry, &op.out.shape, &[op.dim], &mut frame)?;
        if let Some((_, own)) = self.value_of(at) {
            frame.groups_mut()[op.dim] = own.groups()[0];
        }
        let frame = self.complete(&op.out, frame, &[at, entry])?;
        let mut list = Frame::ones(1).ok_or(Refusal::Rank)?;
        list.groups_mut()[0] = frame.groups()[op.dim];
        let index = self.value(at, &list)?;
        self.indexed(IndexOp::Select, (&op.tensor, &op.out), frame, (entry, op.dim), (at, index))
    }

    /// Tensors one behind the other along an axis: each element is read from the tensor in which its coordinate lies.
    pub(super) fn cat(&mut self, op: &CatOpIr) -> Result<()> {
        if op.tensors.len() > PIECES_MOST || op.out.shape[op.dim] == ONE {
            return Err(Refusal::Operation);
        }
        let entries = op.tensors.iter().map(|tensor| self.operand(tensor)).collect::<Result<Vec<_>>>()?;
        let frame = self.placed_beside(&entries, &op.out, op.dim)?;
        let at = self.coordinate(frame.groups()[op.dim])?;
        let mut parts: Vec<(Value, Value)> = Vec::new();
        for (entry, tensor) in entries.iter().zip(&op.tensors) {
            let start = parts.last().map(|(_, end)| *end);
            let index = start.map_or(Ok(at), |start| self.two(Binary::Sub, at, start))?;
            let extent = self.extent_along(tensor, op.dim)?;
            let end = start.map_or(Ok(extent), |start| self.two(Binary::Add, start, extent))?;
            let tensor = self.turned(*entry, &[])?;
            parts.push((self.element(tensor, &frame, &[(op.dim, index)])?, end));
        }
        let (mut node, _) = parts.pop().ok_or(Refusal::Empty)?;
        while let Some((part, end)) = parts.pop() {
            let is_here = self.test_two(Compare::Lt, at, end)?;
            node = self.choose(is_here, part, node)?;
        }
        self.finish(&op.out, node, frame, &entries)
    }

    /// A tensor repeated along an axis.
    pub(super) fn repeat(&mut self, op: &RepeatDimOpIr) -> Result<()> {
        let entry = self.operand(&op.tensor)?;
        let frame = self.placed_beside(&[entry], &op.out, op.dim)?;
        if op.tensor.shape[op.dim] == ONE {
            let node = self.value(entry, &frame)?;
            return self.finish(&op.out, node, frame, &[entry]);
        }
        let at = self.coordinate(frame.groups()[op.dim])?;
        let extent = self.extent_along(&op.tensor, op.dim)?;
        let index = self.two(Binary::Rem, at, extent)?;
        let tensor = self.turned(entry, &[])?;
        let node = self.element(tensor, &frame, &[(op.dim, index)])?;
        self.finish(&op.out, node, frame, &[entry])
    }

    /// The frame of a tensor of `out`'s shape whose operands have the same shape except along axis `dim`.
    fn placed_beside(&mut self, entries: &[EntryId], out: &TensorIr, dim: usize) -> Result<Frame> {
        let mut frame = Frame::ones(out.shape.rank()).ok_or(Refusal::Rank)?;
        for entry in entries {
            self.place_beside(*entry, &out.shape, &[dim], &mut frame)?;
        }
        self.complete(out, frame, entries)
    }

    /// The extent of a tensor's axis, as i64.
    pub(super) fn extent_along(&mut self, tensor: &TensorIr, dim: usize) -> Result<Value> {
        let extent: Extent = tensor.shape[dim];
        if extent == ONE { self.whole_number(1) } else { self.number(Number::Extent(tensor.id, dim as u8), DType::I64) }
    }

    /// An index along an axis of `tensor`, checked: one outside the axis is reported as an index of `op`.
    pub(super) fn checked(&mut self, op: IndexOp, index: Value, tensor: &TensorIr, dim: usize) -> Result<Value> {
        let (index, extent) = (self.converted(index, DType::I64)?, self.extent_along(tensor, dim)?);
        self.add(|graph| graph.check(op, index, extent))
    }

    /// Makes `out` the elements at an index along an axis of `tensor`; 0 where the index is outside the axis.
    fn indexed(
        &mut self,
        op: IndexOp,
        (tensor, out): (&TensorIr, &TensorIr),
        frame: Frame,
        (entry, dim): (EntryId, usize),
        (indices, index): (EntryId, Value),
    ) -> Result<()> {
        let index = self.checked(op, index, tensor, dim)?;
        let is_computed = self.value_of(entry).is_some();
        let turned = self.turned(entry, &[])?;
        let mut node = self.element(turned, &frame, &[(dim, index)])?;
        if is_computed {
            let extent = self.extent_along(tensor, dim)?;
            let is_within = self.is_within(index, extent)?;
            let zero = self.constant(Scalar::Int(0), self.dtype(node))?;
            node = self.choose(is_within, node, zero)?;
        }
        self.finish(out, node, frame, &[entry, indices])
    }

    /// Makes `out` the value of `node`, and counts one launch that the operation would take by itself.
    pub(super) fn finish(&mut self, out: &TensorIr, node: Value, frame: Frame, operands: &[EntryId]) -> Result<()> {
        self.require_dtype(node, out)?;
        let at = self.define(out, node, frame, operands)?;
        self.count(at);
        Ok(())
    }
}
