//! Operations that read a tensor in memory at computed places: gathers, selections, concatenations, repetitions.
//!
//! Each is a lookup along one axis of the tensor, whose other axes lie in the iteration space as those of the result do. Of a
//! computed value nothing can be looked up: it is in registers.

use burn_ir::{CatOpIr, GatherOpIr, RepeatDimOpIr, SelectOpIr, TensorIr};
use rocfire_fusion::{Binary, Compare};
use rocfire_hal::DType;

use super::axes::{Frame, ONE};
use super::refusal::Refusal;
use super::rows::others_equal;
use super::trace::{EntryId, Node, NodeId, Trace};
use super::translate::Result;

/// Most tensors of a concatenation that joins a kernel: each element asks where it belongs.
const MAX_PARTS: usize = 6;

impl Trace {
    /// `x[…, indices[…], …]` with indices of the result's shape.
    pub(super) fn gather_from_memory(&mut self, op: &GatherOpIr, entry: EntryId) -> Result<()> {
        if !others_equal(&op.tensor, &op.indices, op.dim) {
            return Err(Refusal::Operation);
        }
        let at = self.operand(&op.indices)?;
        let mut frame = Frame::ones(op.out.shape.rank()).ok_or(Refusal::Rank)?;
        self.place_operand(at, &op.out.shape, &mut frame)?;
        let frame = self.complete(&op.out, frame, &[at, entry])?;
        let index = self.value(at, &frame)?;
        self.indexed(&op.out, frame, (entry, op.dim), (at, index))
    }

    /// `x[…, indices[i], …]` with one list of indices.
    pub(super) fn select(&mut self, op: &SelectOpIr) -> Result<()> {
        let entry = self.in_memory(&op.tensor)?;
        let at = self.operand(&op.indices)?;
        let mut frame = Frame::ones(op.out.shape.rank()).ok_or(Refusal::Rank)?;
        if let Some((_, own)) = self.value_of(at) {
            frame.groups_mut()[op.dim] = own.groups()[0];
        }
        let frame = self.complete(&op.out, frame, &[at, entry])?;
        let mut list = Frame::ones(1).ok_or(Refusal::Rank)?;
        list.groups_mut()[0] = frame.groups()[op.dim];
        let index = self.value(at, &list)?;
        self.indexed(&op.out, frame, (entry, op.dim), (at, index))
    }

    /// Tensors one behind the other: each element is looked up in the one that its coordinate is in.
    pub(super) fn cat(&mut self, op: &CatOpIr) -> Result<()> {
        if op.tensors.len() > MAX_PARTS || op.out.shape[op.dim] == ONE {
            return Err(Refusal::Operation);
        }
        let entries = op.tensors.iter().map(|tensor| self.in_memory(tensor)).collect::<Result<Vec<_>>>()?;
        let frame = Frame::ones(op.out.shape.rank()).ok_or(Refusal::Rank)?;
        let frame = self.complete(&op.out, frame, &entries)?;
        let at = self.push(Node::Index(frame.groups()[op.dim]), DType::I64)?;
        let mut parts: Vec<(NodeId, Option<NodeId>)> = Vec::new();
        for (entry, tensor) in entries.iter().zip(&op.tensors) {
            let start = parts.last().and_then(|(_, end)| *end);
            let index = start.map_or(Ok(at), |start| self.two(Binary::Sub, at, start))?;
            let extent = self.push(Node::Extent(tensor.id, op.dim as u8), DType::I64)?;
            let end = start.map_or(Ok(extent), |start| self.two(Binary::Add, start, extent))?;
            parts.push((self.look_up(*entry, &frame, op.dim, index)?, Some(end)));
        }
        let (mut node, _) = parts.pop().ok_or(Refusal::Empty)?;
        while let Some((part, end)) = parts.pop() {
            let is_here = self.test_two(Compare::Lt, at, end.expect("every part has an end"))?;
            node = self.choose(is_here, part, node)?;
        }
        self.require_dtype(node, &op.out)?;
        let at = self.define(&op.out, node, frame, &entries)?;
        self.count(at);
        Ok(())
    }

    /// A tensor several times one behind the other.
    pub(super) fn repeat(&mut self, op: &RepeatDimOpIr) -> Result<()> {
        let entry = self.in_memory(&op.tensor)?;
        let frame = Frame::ones(op.out.shape.rank()).ok_or(Refusal::Rank)?;
        let frame = self.complete(&op.out, frame, &[entry])?;
        if op.tensor.shape[op.dim] == ONE {
            let node = self.value(entry, &frame)?;
            let at = self.define(&op.out, node, frame, &[entry])?;
            self.count(at);
            return Ok(());
        }
        let at = self.push(Node::Index(frame.groups()[op.dim]), DType::I64)?;
        let extent = self.push(Node::Extent(op.tensor.id, op.dim as u8), DType::I64)?;
        let index = self.two(Binary::Rem, at, extent)?;
        let node = self.look_up(entry, &frame, op.dim, index)?;
        self.require_dtype(node, &op.out)?;
        let at = self.define(&op.out, node, frame, &[entry])?;
        self.count(at);
        Ok(())
    }

    /// A tensor that a lookup can read.
    fn in_memory(&mut self, tensor: &TensorIr) -> Result<EntryId> {
        let entry = self.operand(tensor)?;
        if self.value_of(entry).is_some() { Err(Refusal::Operation) } else { Ok(entry) }
    }

    fn indexed(
        &mut self,
        out: &TensorIr,
        frame: Frame,
        (entry, dim): (EntryId, usize),
        (indices, index): (EntryId, NodeId),
    ) -> Result<()> {
        let index = self.converted(index, DType::I64)?;
        let node = self.look_up(entry, &frame, dim, index)?;
        self.require_dtype(node, out)?;
        let at = self.define(out, node, frame, &[entry, indices])?;
        self.count(at);
        Ok(())
    }
}
