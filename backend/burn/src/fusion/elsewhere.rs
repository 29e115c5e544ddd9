//! Elements at computed coordinates. For a tensor in memory that is a lookup; for a computed value it is the same computation with
//! lookups in it.
//!
//! A kernel looks up along one axis of a tensor. Where coordinates along several axes are computed, these axes and all between them
//! are merged into one, which costs nothing as long as the tensor lies in order.

use rocfire_fusion::{Binary, Compare, Value};
use rocfire_hal::DType;

use super::axes::{Frame, Group, ONE};
use super::copies::{Change, meet};
use super::refusal::Refusal;
use super::shift::Turned;
use super::trace::{EntryId, Number, Origin, Read, Trace};
use super::translate::Result;
use super::view::{Shift, ViewOp};

/// Stands for an extent that Burn has no number for.
const UNKNOWN: usize = usize::MAX;

/// The change of a value that is wanted at other coordinates.
struct Places {
    /// Groups with the new coordinate along each.
    list: Vec<(Group, Value)>,
    /// The axes that reductions of the value's part run over.
    row: Option<Group>,
}

impl Trace {
    /// The element of a tensor at the coordinates `places` along some of its axes; along the others the tensor lies in `frame`.
    pub(super) fn element(&mut self, tensor: Turned, frame: &Frame, places: &[(usize, Value)]) -> Result<Value> {
        match tensor {
            Turned::InMemory(at) => {
                let mut own = self.entries[usize::from(at)].own_part_of(frame);
                places.iter().for_each(|(dim, _)| own.groups_mut()[*dim] = Group::NONE);
                self.element_of(Read { entry: at, frame: own, free: None }, None, places)
            }
            Turned::Computed(at, node, own) => {
                let list = places.iter().map(|(dim, index)| (own.groups()[*dim], *index));
                let list = list.filter(|(group, _)| !group.is_none()).collect();
                self.changed(node, &Places { list, row: self.part(at).row })
            }
        }
    }

    /// Whether `index` lies inside an axis of this extent.
    pub(super) fn is_within(&mut self, index: Value, extent: Value) -> Result<Value> {
        let zero = self.whole_number(0)?;
        let (is_behind, is_before) =
            (self.test_two(Compare::Ge, index, zero)?, self.test_two(Compare::Lt, index, extent)?);
        self.two(Binary::And, is_behind, is_before)
    }

    /// A reading at the coordinates `places` along some of its axes. `index` is the index along the axis that a lookup leaves free.
    fn element_of(&mut self, read: Read, index: Option<Value>, places: &[(usize, Value)]) -> Result<Value> {
        match (places, index) {
            ([], None) => self.read(read),
            ([], Some(index)) => self.look_up_in(read, index),
            ([(dim, place)], None) => {
                let mut frame = read.frame;
                frame.groups_mut()[*dim] = Group::NONE;
                self.look_up_in(Read { frame, free: Some(*dim as u8), ..read }, *place)
            }
            _ => self.element_of_merged(read, index, places),
        }
    }

    /// The same where coordinates along several axes are computed: a lookup along these axes, merged.
    fn element_of_merged(&mut self, read: Read, index: Option<Value>, places: &[(usize, Value)]) -> Result<Value> {
        let free = read.free.map(usize::from);
        let dims = || places.iter().map(|(dim, _)| *dim).chain(free);
        let (first, last) = (dims().min().unwrap_or(0), dims().max().unwrap_or(0));
        let mut whole: Option<Value> = None;
        let mut is_there: Option<Value> = None;
        for dim in first..=last {
            let group = read.frame.groups()[dim];
            let placed = places.iter().find(|(placed, _)| *placed == dim).map(|(_, index)| *index);
            let (here, extent) = match (placed, index) {
                (None, Some(index)) if free == Some(dim) => {
                    // A lookup outside its axis must give 0, but along the merged axes it would give another element.
                    let extent = self.own_extent(read.entry, dim, &group)?;
                    is_there = Some(self.is_within(index, extent)?);
                    (index, extent)
                }
                (Some(place), _) => (place, self.own_extent(read.entry, dim, &group)?),
                (None, _) if group.is_none() => continue,
                (None, _) => (self.coordinate(group)?, self.extent_of(&group)?),
            };
            whole = Some(self.merged(whole, here, |_| Ok(extent))?);
        }
        let mut index = whole.ok_or(Refusal::Moved)?;
        if let Some(is_there) = is_there {
            let nowhere = self.whole_number(-1)?;
            index = self.choose(is_there, index, nowhere)?;
        }
        let mut shape = self.entries[usize::from(read.entry)].shape.to_vec();
        shape.splice(first..=last, [UNKNOWN]);
        let mut frame = Frame::ones(shape.len()).ok_or(Refusal::Rank)?;
        let groups = read.frame.groups();
        frame.groups_mut()[..first].copy_from_slice(&groups[..first]);
        frame.groups_mut()[first + 1..].copy_from_slice(&groups[last + 1..]);
        let entry = self.inner_view(read.entry, ViewOp::Merge(first, last), shape)?;
        self.look_up_in(Read { entry, frame, free: Some(first as u8) }, index)
    }

    /// The extent of an axis of a tensor in memory. `group` is the axis's group in the iteration space; it is empty for an axis that is
    /// looked up along.
    fn own_extent(&mut self, mut at: EntryId, dim: usize, group: &Group) -> Result<Value> {
        if !group.is_none() {
            return self.extent_of(group);
        }
        loop {
            let entry = &self.entries[usize::from(at)];
            match &entry.origin {
                _ if entry.shape[dim] == ONE => return self.whole_number(1),
                _ if !entry.is_inner => return self.number(Number::Extent(entry.id, dim as u8), DType::I64),
                Origin::View { of, by: ViewOp::Shift(shifts) } if !matches!(shifts[dim], Shift::Part(_)) => at = *of,
                _ => return Err(Refusal::Moved),
            }
        }
    }
}

impl Change for Places {
    fn index(&self, trace: &mut Trace, group: Group) -> Result<Option<Value>> {
        self.of(trace, &group)
    }

    fn read(&self, trace: &mut Trace, read: Read, index: Option<Value>) -> Result<Option<Value>> {
        let mut places = Vec::new();
        for (dim, group) in read.frame.groups().iter().enumerate() {
            if let Some(place) = self.of(trace, group)? {
                places.push((dim, place));
            }
        }
        if places.is_empty() { Ok(None) } else { trace.element_of(read, index, &places).map(Some) }
    }

    fn is_there(&self, trace: &mut Trace) -> Result<Option<Value>> {
        let mut all = None;
        for (group, index) in &self.list {
            let extent = trace.extent_of(group)?;
            let is_within = trace.is_within(*index, extent)?;
            all = Some(match all {
                None => is_within,
                Some(others) => trace.two(Binary::And, others, is_within)?,
            });
        }
        Ok(all)
    }

    fn reduced(&self, trace: &mut Trace, operand: Value) -> Result<Value> {
        // A reduction is the same at every coordinate of its row. That of another row would have to be computed for each element that asks.
        let is_of_row = |group: &Group| self.row.is_some_and(|row| meet(&row, group));
        let others = self.list.iter().filter(|(group, _)| !is_of_row(group)).copied().collect();
        let moved = trace.changed(operand, &Places { list: others, row: self.row })?;
        if moved == operand { Ok(operand) } else { Err(Refusal::Moved) }
    }
}

impl Places {
    /// The new coordinate along a group; `None` if that of the iteration space stays.
    fn of(&self, trace: &mut Trace, group: &Group) -> Result<Option<Value>> {
        let mut met = self.list.iter().filter(|(placed, _)| meet(placed, group));
        let Some(first) = met.next() else { return Ok(None) };
        if first.0 == *group {
            return Ok(Some(first.1));
        }
        // The tensor has these axes merged: its coordinate is computed from those along each of them.
        let mut whole: Option<Value> = None;
        for axis in group.axes().iter().map(|axis| Group::one(*axis)) {
            let placed = self.list.iter().find(|(placed, _)| meet(placed, &axis));
            let here = match placed {
                Some((placed, index)) if *placed == axis => *index,
                Some(_) => return Err(Refusal::Moved),
                None => trace.coordinate(axis)?,
            };
            whole = Some(trace.merged(whole, here, |trace| trace.extent_of(&axis))?);
        }
        Ok(whole)
    }
}
