//! The operations that have been collected for a kernel: a graph, which tensor is which of its values, and where each lies in the
//! iteration space.
//!
//! A [`Trace`] is a plain value: the search for a kernel goes on with a copy, and falls back to an earlier one. It knows relative
//! tensors only; extents, scalars and memory come when the plan made from it runs. `translate` decides which operation becomes which
//! nodes, `arrange` whether the whole can run and how.

use std::sync::Arc;

use burn_ir::{TensorId, TensorIr, TensorStatus};
use rocfire_fusion::{Binary, Graph, Node, Scalar, Value};
use rocfire_hal::DType;

use super::axes::{Axis, Extent, Frame, Group, ONE};
use super::product::Product;
use super::refusal::Refusal;
use super::view::ViewOp;
use crate::convert::to_hal;

type Result<T> = std::result::Result<T, Refusal>;

/// The most nodes in a trace, whose kernels are made together and kept together.
const MAX_NODES: usize = 1024;

/// Index of an [`Entry`].
pub(super) type EntryId = u16;

/// A number that the graph takes as a scalar when it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// The scalar with Burn's number.
    Scalar(u64),
    /// The extent of a tensor's axis. It is no constant of the graph, so that the plan serves every shape.
    Extent(TensorId, u8),
    /// Where the first element of a slice lies on an axis: the number of Burn's range, then the tensor and the axis that it cuts.
    Start(u16, TensorId, u8),
    /// The step of Burn's range of this number.
    Step(u16),
    /// The seed of the plan's n-th draw of random numbers.
    Seed(u16),
    /// The offset of that draw under its seed.
    Offset(u16),
    /// The address where a launch that a graph replays finds the number to add to offsets.
    Replay,
}

/// One way in which a kernel reads a tensor in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Read {
    /// The tensor: a source or a view of one.
    pub(super) entry: EntryId,
    /// Where the tensor's axes lie in the iteration space.
    pub(super) frame: Frame,
    /// For a lookup, the axis of the tensor along which its index counts; that axis has no group in the frame.
    pub(super) free: Option<u8>,
}

impl Read {
    /// Whether the tensor has none of the axes of `row`, or has them side by side in their order, without the axis of a lookup between
    /// them.
    pub(super) fn keeps_together(&self, row: &[Axis]) -> bool {
        let in_front = self.frame.groups()[..self.free.map_or(0, usize::from)].iter();
        let before = in_front.flat_map(|group| group.axes()).filter(|axis| row.contains(axis)).count();
        self.frame.keeps_together(row) && (before == 0 || before == row.len())
    }
}

/// What a tensor is to the kernel.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    /// It is in memory before the kernel runs.
    Source,
    /// A view of a source or of another view.
    View { of: EntryId, by: ViewOp },
    /// The kernel computes it: a value of the graph, and where the tensor's axes lie in the iteration space.
    Computed { node: Value, frame: Frame },
}

/// A tensor that the collected operations name.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: TensorId,
    /// Its extents, in Burn's relative form.
    pub(super) shape: Arc<[Extent]>,
    pub(super) dtype: DType,
    pub(super) origin: Origin,
    /// Whether it was read for the last time or dropped, so that nobody outside the kernel sees it.
    pub(super) consumed: bool,
    /// Whether it is a view that only the kernel knows. `id` is then that of the tensor of which it is a view.
    pub(super) is_inner: bool,
    /// An earlier entry of the same part; its own number in the part's first entry.
    joined: EntryId,
    /// What is known of the whole part; valid in the part's first entry only.
    part: Part,
}

impl Entry {
    /// The frame of this tensor where it is broadcast to a tensor that lies in `frame`.
    pub(super) fn own_part_of(&self, frame: &Frame) -> Frame {
        let mut own = *frame;
        for (group, extent) in own.groups_mut().iter_mut().zip(self.shape.iter()) {
            if *extent == ONE {
                *group = Group::NONE;
            }
        }
        own
    }
}

/// A connected part of the trace, which becomes one kernel. Parts share no tensor, so their kernels may run in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    /// The axes that the part's reductions run over; `None` if there is no reduction.
    pub(super) row: Option<Group>,
    /// Whether a reduction takes a whole tensor, of any rank, to one number.
    pub(super) is_whole: bool,
    /// How many launches its operations would be one by one.
    pub(super) launches: usize,
}

/// The tensor and the axis of it from which the extent of a primitive axis is read when a plan runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExtentSource {
    pub(super) extent: Extent,
    pub(super) tensor: TensorId,
    pub(super) dim: u8,
}

/// The operations that have been collected: see the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// How many operations were taken, drops and views included.
    pub(super) operations: usize,
    pub(super) entries: Vec<Entry>,
    /// What is computed. The graph's inputs are the elements of the product, if there is one, and then `reads`; its scalars are
    /// `numbers`. The axis of a coordinate is the number of its group in `coordinates`, because the order of the axes is still open.
    pub(super) graph: Graph,
    pub(super) reads: Vec<Read>,
    pub(super) numbers: Vec<Number>,
    pub(super) coordinates: Vec<Group>,
    /// Reductions that have no answer for a row without elements, as a maximum, each with Burn's name.
    pub(super) without_answer: Vec<(Value, &'static str)>,
    /// For each primitive axis where its extent comes from. An axis that was split stays here, unused.
    pub(super) axes: Vec<ExtentSource>,
    /// Whether the trace takes reductions.
    pub(super) reduces: bool,
    /// Whether the trace takes a matrix product or a convolution, which must then be its first value.
    pub(super) multiplies: bool,
    /// The product or convolution, once it was taken.
    pub(super) product: Option<Product>,
    /// How many draws of random numbers of the stretch come before the next one.
    pub(super) draws: u16,
}

impl Trace {
    /// The entry of an operation's operand. A tensor that is new to the trace becomes a source.
    pub(super) fn operand(&mut self, tensor: &TensorIr) -> Result<EntryId> {
        let consumed = tensor.status == TensorStatus::ReadWrite;
        if let Some(at) = self.find(tensor.id) {
            self.entries[usize::from(at)].consumed |= consumed;
            return Ok(at);
        }
        let at = self.enter(tensor, Origin::Source)?;
        self.entries[usize::from(at)].consumed = consumed;
        Ok(at)
    }

    /// The entry of a tensor, if an operation named it.
    pub(super) fn find(&self, id: TensorId) -> Option<EntryId> {
        self.entries.iter().rposition(|entry| entry.id == id && !entry.is_inner).map(|at| at as EntryId)
    }

    /// Notes for each tensor whether its life is over, so that nobody reads it behind the kernel.
    pub(super) fn end_lives(&mut self, is_over: impl Fn(TensorId) -> bool) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_inner) {
            entry.consumed = is_over(entry.id);
        }
    }

    /// Adds a tensor that is a view of a source or of another view.
    pub(super) fn view(&mut self, of: EntryId, by: ViewOp, out: &TensorIr) -> Result<()> {
        let at = self.enter(out, Origin::View { of, by })?;
        self.join(at, of);
        Ok(())
    }

    /// The entry of a view that no operation names, added if it is new. `shape` is what is known of its extents.
    pub(super) fn inner_view(&mut self, of: EntryId, by: ViewOp, shape: Vec<Extent>) -> Result<EntryId> {
        let origin = Origin::View { of, by };
        if let Some(known) = self.entries.iter().position(|entry| entry.is_inner && entry.origin == origin) {
            return Ok(known as EntryId);
        }
        let Entry { id, dtype, .. } = self.entries[usize::from(of)];
        let at = self.put(id, shape.into(), dtype, origin)?;
        let entry = &mut self.entries[usize::from(at)];
        (entry.consumed, entry.is_inner) = (true, true);
        self.join(at, of);
        Ok(at)
    }

    /// Adds a tensor that is the value `node`, computed from `operands`.
    pub(super) fn define(
        &mut self,
        out: &TensorIr,
        node: Value,
        frame: Frame,
        operands: &[EntryId],
    ) -> Result<EntryId> {
        let at = self.enter(out, Origin::Computed { node, frame })?;
        let is_meeting = operands.windows(2).any(|pair| self.root(pair[0]) != self.root(pair[1]));
        for operand in operands {
            self.join(at, *operand);
        }
        if is_meeting {
            self.settle(at);
        }
        Ok(at)
    }

    /// Called where two parts have become one at a tensor. It makes tensors of equal shape in the two lie along the same axes, as far as
    /// possible: later operations will want that, and the part must be one iteration space.
    fn settle(&mut self, at: EntryId) {
        let root = self.root(at);
        let computed = self.computed().map(|(at, ..)| (at, None));
        let read = self.reads.iter().enumerate().map(|(number, read)| (read.entry, Some(number)));
        let places: Vec<_> = computed.chain(read).filter(|(at, _)| self.root(*at) == root).collect();
        for (position, (entry, number)) in places.iter().enumerate() {
            let shape = &self.entries[usize::from(*entry)].shape;
            let twin = places[..position].iter().find(|(at, _)| self.entries[usize::from(*at)].shape == *shape);
            let Some((twin, twin_number)) = twin.copied() else { continue };
            for dim in 0..self.entries[usize::from(*entry)].shape.len() {
                let mut known = self.frame_at(twin, twin_number);
                let (to, from) = (known.groups()[dim], self.frame_at(*entry, *number).groups()[dim]);
                if to != from && !to.is_none() && !from.is_none() {
                    // If that is refused, both keep their own axes, as before.
                    let _ = self.align(&to, &from, &mut known);
                }
            }
        }
    }

    /// The frame of a computed entry, or of a reading of one in memory.
    fn frame_at(&self, at: EntryId, read: Option<usize>) -> Frame {
        match (&self.entries[usize::from(at)].origin, read) {
            (Origin::Computed { frame, .. }, None) => *frame,
            (_, Some(number)) => self.reads[number].frame,
            (Origin::Source | Origin::View { .. }, None) => {
                unreachable!("what is not computed has a frame where it is read")
            }
        }
    }

    fn enter(&mut self, tensor: &TensorIr, origin: Origin) -> Result<EntryId> {
        let dtype = to_hal(tensor.dtype).map_err(|_| Refusal::DType)?;
        Frame::ones(tensor.shape.rank()).ok_or(Refusal::Rank)?;
        self.put(tensor.id, tensor.shape.iter().copied().collect(), dtype, origin)
    }

    fn put(&mut self, id: TensorId, shape: Arc<[Extent]>, dtype: DType, origin: Origin) -> Result<EntryId> {
        if self.entries.len() >= MAX_NODES {
            return Err(Refusal::Full);
        }
        let at = self.entries.len() as EntryId;
        let (consumed, is_inner, part) = (false, false, Part::default());
        self.entries.push(Entry { id, shape, dtype, origin, consumed, is_inner, joined: at, part });
        Ok(at)
    }

    /// Makes the parts of two entries one. [`Trace::resolve`] has checked that they reduce over the same axes.
    fn join(&mut self, a: EntryId, b: EntryId) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let (low, high) = (usize::from(a.min(b)), usize::from(a.max(b)));
        self.entries[high].joined = low as EntryId;
        let other = self.entries[high].part;
        let part = &mut self.entries[low].part;
        part.row = part.row.or(other.row);
        part.is_whole |= other.is_whole;
        part.launches += other.launches;
    }

    /// The first entry of the part that an entry belongs to.
    pub(super) fn root(&self, mut at: EntryId) -> EntryId {
        while self.entries[usize::from(at)].joined != at {
            at = self.entries[usize::from(at)].joined;
        }
        at
    }

    /// The part that an entry belongs to.
    pub(super) fn part(&self, at: EntryId) -> &Part {
        &self.entries[usize::from(self.root(at))].part
    }

    /// Adds one to the launches that a part's operations would be.
    pub(super) fn count(&mut self, at: EntryId) {
        let root = usize::from(self.root(at));
        self.entries[root].part.launches += 1;
    }

    /// Every computed tensor, oldest first.
    pub(super) fn computed(&self) -> impl DoubleEndedIterator<Item = (EntryId, &Entry, Value, &Frame)> {
        self.entries.iter().enumerate().filter_map(|(at, entry)| match &entry.origin {
            Origin::Computed { node, frame } => Some((at as EntryId, entry, *node, frame)),
            Origin::Source | Origin::View { .. } => None,
        })
    }

    /// The value and frame of an entry if it is computed.
    pub(super) fn value_of(&self, at: EntryId) -> Option<(Value, Frame)> {
        match self.entries[usize::from(at)].origin {
            Origin::Computed { node, frame } => Some((node, frame)),
            Origin::Source | Origin::View { .. } => None,
        }
    }

    /// The value of an operand within a frame from [`Trace::resolve`]; a tensor in memory is read for it.
    pub(super) fn value(&mut self, at: EntryId, frame: &Frame) -> Result<Value> {
        if let Some((node, _)) = self.value_of(at) {
            return Ok(node);
        }
        let read = Read { entry: at, frame: self.entries[usize::from(at)].own_part_of(frame), free: None };
        self.read(read)
    }

    /// The value of a reading without a lookup, which may have been read before.
    pub(super) fn read(&mut self, read: Read) -> Result<Value> {
        let dtype = self.entries[usize::from(read.entry)].dtype;
        if let Some(known) = self.reads.iter().position(|other| *other == read) {
            let input = Node::Input(known as u32 + u32::from(self.product.is_some()));
            let value = self.graph.nodes().find(|(_, node, _)| *node == input).map(|(value, ..)| value);
            return Ok(value.expect("every read has its input"));
        }
        self.reads.push(read);
        self.add(|graph| graph.input(dtype))
    }

    /// The value of a lookup at `index` along the axis that the reading leaves free.
    pub(super) fn look_up_in(&mut self, read: Read, index: Value) -> Result<Value> {
        let dtype = self.entries[usize::from(read.entry)].dtype;
        self.reads.push(read);
        self.add(|graph| graph.lookup(dtype, index))
    }

    /// The reading that a node is; `None` if it reads no tensor in memory.
    pub(super) fn read_by(&self, node: Node) -> Option<&Read> {
        let (Node::Input(slot) | Node::Lookup(slot, _)) = node else { return None };
        (slot as usize).checked_sub(usize::from(self.product.is_some())).map(|at| &self.reads[at])
    }

    /// Adds a node to the graph, unless that is full.
    pub(super) fn add(&mut self, build: impl FnOnce(&mut Graph) -> Value) -> Result<Value> {
        if self.graph.nodes().len() >= MAX_NODES {
            return Err(Refusal::Full);
        }
        Ok(build(&mut self.graph))
    }

    /// Burn's name of the first reduction that a value depends on and that has no answer for a row without elements.
    pub(super) fn without_answer(&self, value: Value) -> Option<&'static str> {
        self.without_answer.first()?;
        let needed = self.graph.needed([value]);
        self.without_answer.iter().find(|(known, _)| needed[known.at()]).map(|(_, name)| *name)
    }

    /// The frame of a tensor of `out`'s shape that is computed from `operands` element by element.
    ///
    /// Computed operands decide along which axes it lies. Where there is none, a tensor of the same part and shape decides, else the
    /// space gets a new axis.
    pub(super) fn resolve(&mut self, out: &TensorIr, operands: &[EntryId]) -> Result<Frame> {
        self.resolve_shape(out.id, &out.shape, operands)
    }

    /// The same for a tensor `id` of shape `shape`, from whose axes new axes of the space take their extents.
    pub(super) fn resolve_shape(&mut self, id: TensorId, shape: &[Extent], operands: &[EntryId]) -> Result<Frame> {
        let mut frame = Frame::ones(shape.len()).ok_or(Refusal::Rank)?;
        for at in operands {
            self.place_operand(*at, shape, &mut frame)?;
        }
        self.complete_shape(id, shape, frame, operands)
    }

    /// The same where `frame` already has the groups of some axes of `out`, and `operands` may have other shapes.
    pub(super) fn complete(&mut self, out: &TensorIr, frame: Frame, operands: &[EntryId]) -> Result<Frame> {
        self.complete_shape(out.id, &out.shape, frame, operands)
    }

    fn complete_shape(
        &mut self,
        id: TensorId,
        shape: &[Extent],
        mut frame: Frame,
        operands: &[EntryId],
    ) -> Result<Frame> {
        let row = self.common_row(operands)?;
        self.adopt(shape, &mut frame, operands);
        for (dim, extent) in shape.iter().enumerate() {
            if *extent != ONE && frame.groups()[dim].is_none() {
                // With one more axis each row would be computed again for each element along it.
                if row.is_some() {
                    return Err(Refusal::Wider);
                }
                frame.groups_mut()[dim] = Group::one(self.new_axis(*extent, id, dim)?);
            }
        }
        let mut seen = [false; 256];
        if frame.flat().any(|axis| std::mem::replace(&mut seen[usize::from(axis)], true)) {
            return Err(Refusal::Transposed);
        }
        Ok(frame)
    }

    /// The row of the parts that some entries belong to. They will become one part, so a refusal if they reduce over different axes.
    pub(super) fn common_row(&self, entries: &[EntryId]) -> Result<Option<Group>> {
        let mut rows = entries.iter().filter_map(|at| self.part(*at).row);
        let first = rows.next();
        if rows.all(|row| Some(row) == first) { Ok(first) } else { Err(Refusal::OtherRow) }
    }

    /// Takes the groups of an operand, if it is computed, into `frame`. Where both have a group, their axes become the same.
    pub(super) fn place_operand(&mut self, at: EntryId, shape: &[Extent], frame: &mut Frame) -> Result<()> {
        self.place_beside(at, shape, &[], frame)
    }

    /// The same for all axes except those in `apart`.
    pub(super) fn place_beside(
        &mut self,
        at: EntryId,
        shape: &[Extent],
        apart: &[usize],
        frame: &mut Frame,
    ) -> Result<()> {
        let own = &self.entries[usize::from(at)].shape;
        let fits = |dim: usize| apart.contains(&dim) || own[dim] == ONE || own[dim] == shape[dim];
        if own.len() != shape.len() || !(0..shape.len()).all(fits) {
            return Err(Refusal::Unrelated);
        }
        for dim in (0..shape.len()).filter(|dim| !apart.contains(dim)) {
            let Some((_, own)) = self.value_of(at) else { return Ok(()) };
            let (known, own) = (frame.groups()[dim], own.groups()[dim]);
            if known.is_none() {
                frame.groups_mut()[dim] = own;
            } else if !own.is_none() && own != known {
                self.align(&known, &own, frame)?;
            }
        }
        Ok(())
    }

    /// Makes two groups of equal extent the same, in `frame` too.
    fn align(&mut self, known: &Group, own: &Group, frame: &mut Frame) -> Result<()> {
        let extent = |axis: &Axis| self.axes[usize::from(*axis)].extent;
        if own.axes().iter().map(extent).eq(known.axes().iter().map(extent)) {
            for (from, to) in own.axes().iter().zip(known.axes()) {
                self.identify(*from, &[*to], frame)?;
            }
            return Ok(());
        }
        match (known.axes(), own.axes()) {
            (parts, [axis]) | ([axis], parts) => self.identify(*axis, parts, frame),
            _ => Err(Refusal::Transposed),
        }
    }

    /// Makes an axis the same as other axes of its extent, everywhere. Two axes are loops, and these may become one loop if no tensor runs
    /// over both: what was computed in one is then computed in the other.
    fn identify(&mut self, axis: Axis, parts: &[Axis], frame: &mut Frame) -> Result<()> {
        if parts == [axis] {
            return Ok(());
        }
        let runs_over_both = |frame: &Frame| frame.has(axis) && parts.iter().any(|part| frame.has(*part));
        let is_crossed = self.computed().any(|(.., frame)| runs_over_both(frame));
        if is_crossed || self.reads.iter().any(|read| runs_over_both(&read.frame)) || runs_over_both(frame) {
            return Err(Refusal::Transposed);
        }
        frame.refine(axis, parts).ok_or(Refusal::Rank)?;
        self.substitute(axis, parts)
    }

    /// Fills the groups that `frame` lacks from tensors in the same parts as `operands`: from one of the same shape, else axis by axis
    /// from those of the same rank. Computed tensors come before those in memory, newer ones before older ones.
    pub(super) fn adopt(&self, shape: &[Extent], frame: &mut Frame, operands: &[EntryId]) {
        let roots: Vec<EntryId> = operands.iter().map(|at| self.root(*at)).collect();
        let is_near = |at: EntryId| roots.contains(&self.root(at));
        let agrees = |own: &Frame, so_far: &Frame| {
            own.groups().iter().zip(so_far.groups()).all(|(a, b)| a.is_none() || b.is_none() || a == b)
        };
        let computed = self.computed().rev().map(|(at, _, _, own)| (at, own));
        let read = self.reads.iter().rev().map(|read| (read.entry, &read.frame));
        let near = computed.chain(read).filter(|(at, own)| own.groups().len() == shape.len() && is_near(*at));
        let near = near.map(|(at, own)| (&self.entries[usize::from(at)].shape[..], own));
        let placed: Vec<(&[Extent], &Frame)> = near.collect();
        let twin = placed.iter().find(|(own, at)| *own == shape && agrees(at, frame));
        let models = twin.map_or(placed.as_slice(), std::slice::from_ref);
        for (extents, own) in models {
            for (dim, (extent, theirs)) in shape.iter().zip(*extents).enumerate() {
                let group = own.groups()[dim];
                let is_open = *extent != ONE && frame.groups()[dim].is_none();
                let is_free = group.axes().iter().all(|axis| !frame.has(*axis));
                if is_open && theirs == extent && !group.is_none() && is_free {
                    frame.groups_mut()[dim] = group;
                }
            }
        }
    }

    /// Adds a primitive axis, whose extent is that of axis `dim` of a tensor.
    pub(super) fn new_axis(&mut self, extent: Extent, tensor: TensorId, dim: usize) -> Result<Axis> {
        let axis = Axis::try_from(self.axes.len()).map_err(|_| Refusal::Full)?;
        self.axes.push(ExtentSource { extent, tensor, dim: dim as u8 });
        Ok(axis)
    }

    /// The value of a number that is known only when the kernel runs.
    pub(super) fn number(&mut self, number: Number, dtype: DType) -> Result<Value> {
        self.numbers.push(number);
        self.add(|graph| graph.scalar(dtype))
    }

    /// The product of the extents of a group's axes, as i64.
    pub(super) fn extent_of(&mut self, group: &Group) -> Result<Value> {
        let mut whole = None;
        for axis in group.axes() {
            let ExtentSource { tensor, dim, .. } = self.axes[usize::from(*axis)];
            let extent = self.number(Number::Extent(tensor, dim), DType::I64)?;
            whole = Some(match whole {
                None => extent,
                Some(outer) => self.two(Binary::Mul, outer, extent)?,
            });
        }
        whole.map_or_else(|| self.whole_number(1), Ok)
    }

    /// A constant.
    pub(super) fn constant(&mut self, value: Scalar, dtype: DType) -> Result<Value> {
        self.add(|graph| graph.constant(dtype, value))
    }

    /// A constant i64.
    pub(super) fn whole_number(&mut self, value: i64) -> Result<Value> {
        self.constant(Scalar::Int(value), DType::I64)
    }

    /// The coordinate along a group, as i64.
    pub(super) fn coordinate(&mut self, group: Group) -> Result<Value> {
        if group.is_none() {
            return self.whole_number(0);
        }
        self.coordinates.push(group);
        let number = self.coordinates.len() - 1;
        self.add(|graph| graph.index(number))
    }

    /// The coordinate along merged axes, one step outside in: `outer · extent + here`, or `here` alone for the outermost axis.
    pub(super) fn merged(
        &mut self,
        outer: Option<Value>,
        here: Value,
        extent: impl FnOnce(&mut Trace) -> Result<Value>,
    ) -> Result<Value> {
        let Some(outer) = outer else { return Ok(here) };
        let extent = extent(self)?;
        let scaled = self.two(Binary::Mul, outer, extent)?;
        self.two(Binary::Add, scaled, here)
    }

    /// Splits a primitive axis, everywhere, into new axes with the extents of the axes `dims` of `out`.
    pub(super) fn split(&mut self, axis: Axis, out: &TensorIr, dims: &[usize]) -> Result<()> {
        let parts = dims.iter().map(|dim| self.new_axis(out.shape[*dim], out.id, *dim)).collect::<Result<Vec<_>>>()?;
        self.substitute(axis, &parts)
    }

    /// Replaces a primitive axis by `parts`, everywhere.
    fn substitute(&mut self, axis: Axis, parts: &[Axis]) -> Result<()> {
        for group in &mut self.coordinates {
            *group = group.refined(axis, parts).ok_or(Refusal::Rank)?;
        }
        for entry in &mut self.entries {
            if let Origin::Computed { frame, .. } = &mut entry.origin {
                frame.refine(axis, parts).ok_or(Refusal::Rank)?;
            }
            if let Some(row) = &mut entry.part.row {
                *row = row.refined(axis, parts).ok_or(Refusal::Rank)?;
            }
        }
        for read in &mut self.reads {
            read.frame.refine(axis, parts).ok_or(Refusal::Rank)?;
        }
        Ok(())
    }

    /// Notes that `out` is the reduction of a whole tensor.
    pub(super) fn reduce_whole(&mut self, out: &TensorIr) {
        if let Some(at) = self.find(out.id) {
            let root = usize::from(self.root(at));
            self.entries[root].part.is_whole = true;
        }
    }

    /// Makes `row` the axes that reductions of an entry's part run over; a refusal if these are others already.
    pub(super) fn reduce_over(&mut self, at: EntryId, row: Group) -> Result<()> {
        let root = usize::from(self.root(at));
        let known = &mut self.entries[root].part.row;
        match known {
            Some(known) if *known != row => Err(Refusal::OtherRow),
            _ => {
                *known = Some(row);
                Ok(())
            }
        }
    }
}
