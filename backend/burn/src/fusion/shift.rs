//! Slices and flips of computed values: the same computation, from slices and flips of the tensors that it reads.
//!
//! Those are views of tensors in memory, so nothing is looked up, and only elements that are asked for are computed.

use burn_backend::Slice;
use burn_ir::{TensorId, TensorIr};
use rocfire_fusion::{Binary, Compare, Value};
use rocfire_hal::DType;

use super::axes::{Frame, Group, ONE};
use super::copies::{Change, meet};
use super::refusal::Refusal;
use super::trace::{EntryId, Number, Read, Trace};
use super::translate::Result;
use super::view::{Shift, ViewOp};

/// What becomes of one axis of a computed tensor.
#[derive(Clone, Copy)]
struct Move {
    /// The group of the tensor's axis.
    group: Group,
    shift: Shift,
    /// The group of the result's axis. For a part it is another than the tensor's, as the extent is another.
    own: Group,
    /// The tensor, and which of its axes it is.
    tensor: TensorId,
    dim: u8,
}

/// The change of a computed tensor that is sliced or flipped: what becomes of its axes.
struct Moves {
    list: Vec<Move>,
    /// The axes that reductions of the tensor's part run over.
    row: Option<Group>,
}

impl Trace {
    pub(super) fn flip(&mut self, input: &TensorIr, out: &TensorIr, axes: &[usize]) -> Result<()> {
        let entry = self.operand(input)?;
        let Some((node, frame)) = self.value_of(entry) else {
            return self.view(entry, ViewOp::Flip(axes.to_vec()), out);
        };
        let back = |dim: &usize| (frame.groups()[*dim], Shift::Back, *dim);
        let moves = axes.iter().map(back).filter(|(group, ..)| !group.is_none()).map(|(group, shift, dim)| Move {
            group,
            shift,
            own: group,
            tensor: input.id,
            dim: dim as u8,
        });
        let moves = Moves { list: moves.collect(), row: self.part(entry).row };
        let node = self.changed(node, &moves)?;
        self.define(out, node, frame, &[entry])?;
        Ok(())
    }

    pub(super) fn slice(&mut self, input: &TensorIr, out: &TensorIr, ranges: &[Slice]) -> Result<()> {
        let numbers = range_numbers(ranges)?;
        let entry = self.operand(input)?;
        let Some((node, mut frame)) = self.value_of(entry) else {
            return self.view(entry, ViewOp::Slice(numbers.into_iter().map(usize::from).collect()), out);
        };
        let mut moves = Moves { list: Vec::new(), row: self.part(entry).row };
        for (dim, number) in numbers.into_iter().enumerate() {
            let group = frame.groups()[dim];
            let is_whole = out.shape[dim] == input.shape[dim];
            let (shift, own) = match group.axes() {
                [] if is_whole => continue,
                [_, ..] if is_whole => (Shift::Whole(number), group),
                [_] if out.shape[dim] == ONE => (Shift::Part(number), Group::NONE),
                [_] => (Shift::Part(number), Group::one(self.new_axis(out.shape[dim], out.id, dim)?)),
                // A part of merged axes is no part of each axis. A part of an axis of extent 1 that is not all of it is empty.
                _ => return Err(Refusal::Moved),
            };
            moves.list.push(Move { group, shift, own, tensor: input.id, dim: dim as u8 });
            frame.groups_mut()[dim] = own;
        }
        let node = self.changed(node, &moves)?;
        self.define(out, node, frame, &[entry])?;
        Ok(())
    }

    /// A tensor some of whose axes may run backwards: `wholes` has these axes, each with the number of the range that says so.
    pub(super) fn turned(&mut self, at: EntryId, wholes: &[(usize, u16)]) -> Result<Turned> {
        let Some((node, frame)) = self.value_of(at) else {
            if wholes.is_empty() {
                return Ok(Turned::InMemory(at));
            }
            let shape = self.entries[usize::from(at)].shape.to_vec();
            let mut shifts = vec![Shift::Stay; shape.len()];
            wholes.iter().for_each(|(dim, number)| shifts[*dim] = Shift::Whole(*number));
            return Ok(Turned::InMemory(self.inner_view(at, ViewOp::Shift(shifts), shape)?));
        };
        let tensor = self.entries[usize::from(at)].id;
        let of = |(dim, number): &(usize, u16)| {
            let group = frame.groups()[*dim];
            Move { group, shift: Shift::Whole(*number), own: group, tensor, dim: *dim as u8 }
        };
        let list = wholes.iter().map(of).filter(|moved| !moved.group.is_none()).collect();
        let moves = Moves { list, row: self.part(at).row };
        Ok(Turned::Computed(at, self.changed(node, &moves)?, frame))
    }
}

/// What [`Trace::turned`] gives.
pub(super) enum Turned {
    /// The entry of a tensor in memory, or of a view of it that runs the right way.
    InMemory(EntryId),
    /// The entry of a computed tensor, its value the right way, and its frame.
    Computed(EntryId, Value, Frame),
}

/// The numbers of ranges, which relative ranges have in place of their starts.
pub(super) fn range_numbers(ranges: &[Slice]) -> Result<Vec<u16>> {
    ranges.iter().map(|range| u16::try_from(range.start).map_err(|_| Refusal::Full)).collect()
}

impl Moves {
    /// What becomes of an axis of another tensor that lies along `group`.
    fn of(&self, group: &Group) -> Result<Option<Move>> {
        let mut met = self.list.iter().filter(|moved| meet(&moved.group, group));
        let Some(first) = met.next() else { return Ok(None) };
        if let Shift::Part(_) = first.shift {
            return if first.group == *group { Ok(Some(*first)) } else { Err(Refusal::Moved) };
        }
        // Merged axes run backwards if each of them does.
        let is_alike = met.all(|other| other.shift == first.shift);
        let covers = |axis: &u8| self.list.iter().any(|moved| moved.group.axes().contains(axis));
        if is_alike && group.axes().iter().all(covers) {
            Ok(Some(Move { group: *group, own: *group, ..*first }))
        } else {
            Err(Refusal::Moved)
        }
    }
}

impl Change for Moves {
    fn index(&self, trace: &mut Trace, group: Group) -> Result<Option<Value>> {
        let Some(Move { shift, own, tensor, dim, .. }) = self.of(&group)? else { return Ok(None) };
        let here = trace.coordinate(own)?;
        let start = match shift {
            Shift::Stay => return Ok(None),
            Shift::Part(number) => trace.number(Number::Start(number, tensor, dim), DType::I64)?,
            Shift::Whole(_) | Shift::Back => {
                let (extent, one) = (trace.extent_of(&group)?, trace.whole_number(1)?);
                trace.two(Binary::Sub, extent, one)?
            }
        };
        let index = match shift {
            Shift::Part(number) => {
                let step = trace.number(Number::Step(number), DType::I64)?;
                let moved = trace.two(Binary::Mul, here, step)?;
                trace.two(Binary::Add, start, moved)?
            }
            Shift::Whole(number) => {
                let (step, zero) = (trace.number(Number::Step(number), DType::I64)?, trace.whole_number(0)?);
                let is_back = trace.test_two(Compare::Lt, step, zero)?;
                let back = trace.two(Binary::Sub, start, here)?;
                trace.choose(is_back, back, here)?
            }
            Shift::Stay | Shift::Back => trace.two(Binary::Sub, start, here)?,
        };
        Ok(Some(index))
    }

    fn read(&self, trace: &mut Trace, read: Read, index: Option<Value>) -> Result<Option<Value>> {
        let (mut frame, mut shape) = (read.frame, trace.entries[usize::from(read.entry)].shape.to_vec());
        let mut shifts = vec![Shift::Stay; shape.len()];
        for (dim, group) in read.frame.groups().iter().enumerate() {
            let Some(moved) = self.of(group)? else { continue };
            shifts[dim] = moved.shift;
            frame.groups_mut()[dim] = moved.own;
            if let Shift::Part(_) = moved.shift {
                shape[dim] = moved.own.axes().first().map_or(ONE, |axis| trace.axes[usize::from(*axis)].extent);
            }
        }
        if shifts.iter().all(|shift| *shift == Shift::Stay) {
            return Ok(None);
        }
        let entry = trace.inner_view(read.entry, ViewOp::Shift(shifts), shape)?;
        let moved = Read { entry, frame, free: read.free };
        Ok(Some(match index {
            None => trace.read(moved)?,
            Some(index) => trace.look_up_in(moved, index)?,
        }))
    }

    fn is_there(&self, _trace: &mut Trace) -> Result<Option<Value>> {
        Ok(None)
    }

    fn reduced(&self, trace: &mut Trace, operand: Value) -> Result<Value> {
        // A row has the same reduction whichever way its elements run, but a part of a row has another.
        let is_of_row = |moved: &Move| self.row.is_some_and(|row| meet(&row, &moved.group));
        if self.list.iter().any(|moved| is_of_row(moved) && matches!(moved.shift, Shift::Part(_))) {
            return Err(Refusal::Moved);
        }
        let others = self.list.iter().filter(|moved| !is_of_row(moved)).copied().collect();
        trace.changed(operand, &Moves { list: others, row: self.row })
    }
}
