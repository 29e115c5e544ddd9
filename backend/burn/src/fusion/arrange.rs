//! Decides whether a trace is a kernel, and how the kernel's axes and outputs lie.
//!
//! Each connected part of a trace is a kernel of its own if every tensor that it must write covers the whole iteration space, or all
//! of it but the axes of the rows. The search asks this after every operation, so nothing is built here; `plan` builds the kernel
//! from an [`Arrangement`].

use std::collections::BTreeSet;

use rocfire_fusion::{Kind, Node, Value};
use rocfire_hal::MAX_RANK;

use super::axes::{Axis, Frame, Group};
use super::trace::{EntryId, Origin, Read, Trace};

/// The most nodes in one kernel, so that it compiles quickly and its values stay in registers.
const MAX_NODES: usize = 160;

/// The most tensors that one kernel reads element by element, and the most that it writes.
const MAX_READS: usize = 16;
const MAX_STORES: usize = 12;

/// How a tensor runs along a row whose axes do not lie side by side in it. The row is then cut in two sides, and the tensor has one
/// stride along each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has the axes of both sides, those of the outer side first.
    Both,
    /// It has the outer side only, and is broadcast over the inner one.
    Outer,
    /// It has the inner side only, and is broadcast over the outer one.
    Inner,
}

/// One value that the kernel writes to memory, and the tensors that share this memory.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) node: Value,
    /// The primitive axes as they lie in memory, slowest first.
    pub(super) memory: Vec<Axis>,
    /// [`Kind::Full`] for an element at each place of the space, [`Kind::Row`] for one per row.
    pub(super) kind: Kind,
    pub(super) tensors: Vec<(EntryId, Frame)>,
}

/// How one kernel is laid out.
#[derive(Clone, Debug)]
pub(super) struct Arrangement {
    /// The part's first entry.
    pub(super) root: EntryId,
    /// Axes of the iteration space without those of the row, slowest first.
    pub(super) outer: Vec<Axis>,
    /// Axes of the row, which are merged into the space's last axis; none if no value is per row.
    pub(super) row: Vec<Axis>,
    /// How many of the row's axes come before the cut; 0 where no tensor needs one.
    pub(super) cut: usize,
    pub(super) stores: Vec<Store>,
    /// For each node of the trace's graph, whether an output needs it.
    pub(super) needed: Vec<bool>,
    /// For each node, whether its value is the same everywhere, varies by row, or by element.
    pub(super) kinds: Vec<Kind>,
}

impl Arrangement {
    /// How a tensor that lies in `frame` runs along the row; `None` if it has the row's axes side by side.
    pub(super) fn turn(&self, frame: &Frame) -> Option<Turn> {
        if frame.keeps_together(&self.row) { None } else { turn(frame, &self.row, self.cut) }
    }
}

/// How a frame runs along a row whose axes it does not have side by side, if the row is cut before axis `cut`. `None` if a kernel
/// cannot read it so.
fn turn(frame: &Frame, row: &[Axis], cut: usize) -> Option<Turn> {
    let (outer, inner) = row.split_at(cut);
    if cut == 0 || !frame.keeps_together(outer) || !frame.keeps_together(inner) {
        return None;
    }
    let place = |axis: Axis| frame.flat().position(|own| own == axis);
    match (place(outer[0]), place(inner[0])) {
        (Some(outer), Some(inner)) => (outer < inner).then_some(Turn::Both),
        (Some(_), None) => Some(Turn::Outer),
        (None, Some(_)) => Some(Turn::Inner),
        (None, None) => None,
    }
}

/// Where to cut a row so that a kernel can read each of the frames. 0 where all have its axes side by side, `None` if no cut does.
fn cut<'a>(row: &[Axis], frames: impl Iterator<Item = &'a Frame> + Clone) -> Option<usize> {
    let apart = || frames.clone().filter(|frame| !frame.keeps_together(row));
    if row.len() < 2 || apart().next().is_none() {
        return Some(0);
    }
    (1..row.len()).find(|at| apart().all(|frame| turn(frame, row, *at).is_some()))
}

impl Trace {
    /// The kernels of the trace, one per part; `None` if some part cannot be a kernel.
    pub(super) fn arrange(&self) -> Option<Vec<Arrangement>> {
        let roots: BTreeSet<EntryId> = self.computed().map(|(at, ..)| self.root(at)).collect();
        roots.into_iter().map(|root| self.arrange_part(root)).collect()
    }

    fn arrange_part(&self, root: EntryId) -> Option<Arrangement> {
        let live: Vec<_> = self
            .computed()
            .filter(|(at, entry, ..)| !entry.consumed && self.root(*at) == root)
            .map(|(at, _, node, frame)| (at, node, *frame))
            .collect();
        let needed = self.graph.needed(live.iter().map(|(_, node, _)| *node));
        let reads = || self.needed_reads(&needed).map(|(_, read)| &read.frame);
        let reduced = self.reduced(root, &needed);
        let order = self.order(root, &reduced, live.iter().map(|(.., frame)| frame).chain(reads()))?;
        let row = if reduced.is_empty() { lacking(&live, &order) } else { reduced };
        let cut = cut(&row, reads())?;
        let looked_up = || self.needed_reads(&needed).map(|(_, read)| read).filter(|read| read.free.is_some());
        if row.len() > 1 && !looked_up().all(|read| read.keeps_together(&row)) {
            return None;
        }
        let outer: Vec<Axis> = order.iter().copied().filter(|axis| !row.contains(axis)).collect();
        if outer.len() + usize::from(!row.is_empty()) > MAX_RANK || !self.can_index(&needed, &row) {
            return None;
        }
        // A tensor that is looked up in has one axis more than the space.
        let is_full = outer.len() + usize::from(!row.is_empty()) == MAX_RANK;
        if is_full && (cut > 0 || looked_up().next().is_some()) {
            return None;
        }
        let kinds = self.kinds(&row);
        // A value that is the same everywhere is computed once, and does not count.
        let computed = needed.iter().zip(&kinds).filter(|(needed, kind)| **needed && **kind != Kind::Uniform);
        if computed.count() > MAX_NODES {
            return None;
        }
        let stores = stores(&live, &order, &row, &kinds)?;
        // Several workgroups can share the sum of a whole tensor only if the kernel does nothing else with its elements.
        let only_rows = stores.iter().all(|store| store.kind == Kind::Row);
        if self.part(root).is_whole && !(only_rows && self.is_one_pass(&needed)) {
            return None;
        }
        let arrangement = Arrangement { root, outer, row, cut, stores, needed, kinds };
        self.has_room(&arrangement).then_some(arrangement)
    }

    /// Whether a kernel can take as many tensors and scalars as it would need.
    fn has_room(&self, arrangement: &Arrangement) -> bool {
        let (mut reads, mut lookups) = (0, 0);
        let mut scalars = if arrangement.cut > 0 { arrangement.row.len() - arrangement.cut } else { 0 };
        for (_, node) in self.needed_nodes(&arrangement.needed) {
            match (node, self.read_by(node)) {
                (_, Some(read)) if read.free.is_some() || arrangement.turn(&read.frame).is_some() => lookups += 1,
                (_, Some(_)) => reads += 1,
                (Node::Scalar(_), _) => scalars += 1,
                (Node::Index(number), _) => {
                    let axes = self.coordinates[number as usize].axes();
                    scalars += if axes == arrangement.row { 0 } else { axes.len() - 1 };
                }
                _ => {}
            }
        }
        let stores = arrangement.stores.len();
        // Lookups count only for the room: a concatenation looks up in as many tensors as fit.
        let fits = rocfire_fusion::has_room(reads + stores + lookups, lookups, scalars);
        reads <= MAX_READS && stores <= MAX_STORES && fits
    }

    /// The nodes that `needed` marks, with their values.
    pub(super) fn needed_nodes<'a>(&'a self, needed: &'a [bool]) -> impl Iterator<Item = (Value, Node)> + Clone + 'a {
        self.graph.nodes().filter(|(value, ..)| needed[value.at()]).map(|(value, node, _)| (value, node))
    }

    /// The readings of tensors in memory among these nodes.
    pub(super) fn needed_reads<'a>(&'a self, needed: &'a [bool]) -> impl Iterator<Item = (Value, &'a Read)> + Clone {
        self.needed_nodes(needed).filter_map(|(value, node)| Some((value, self.read_by(node)?)))
    }

    /// All axes of the iteration space, in the order of the first value that has them all: most tensors lie so, and the eager backend
    /// would allocate results so. Axes that are reduced over belong to the space even if nothing is read or written along them, as in a
    /// sum of ones.
    fn order<'a>(
        &'a self,
        root: EntryId,
        reduced: &[Axis],
        frames: impl Iterator<Item = &'a Frame> + Clone,
    ) -> Option<Vec<Axis>> {
        let along = frames.clone().flat_map(|frame| frame.flat().collect::<Vec<_>>());
        let space: BTreeSet<Axis> = along.chain(reduced.iter().copied()).collect();
        let covers = |frame: &&Frame| frame.flat().filter(|axis| space.contains(axis)).count() == space.len();
        let computed = self.computed().filter(|(at, ..)| self.root(*at) == root).map(|(.., frame)| frame);
        let model = computed.chain(frames).find(covers)?;
        Some(model.flat().filter(|axis| space.contains(axis)).collect())
    }

    /// The axes that needed nodes reduce over; none if there is no reduction.
    fn reduced(&self, root: EntryId, needed: &[bool]) -> Vec<Axis> {
        let reduces = self.needed_nodes(needed).any(|(_, node)| matches!(node, Node::Reduce(..)));
        let row = || self.part(root).row.expect("a reduction has set the row").axes().to_vec();
        if reduces { row() } else { Vec::new() }
    }

    /// Whether the kernel has the coordinates that needed nodes ask for.
    fn can_index(&self, needed: &[bool], row: &[Axis]) -> bool {
        self.needed_nodes(needed).all(|(_, node)| match node {
            Node::Index(number) => is_axis(&self.coordinates[number as usize], row),
            _ => true,
        })
    }

    /// For each node, whether its value varies by row or by element, if the row has these axes.
    fn kinds(&self, row: &[Axis]) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::with_capacity(self.graph.nodes().len());
        for (_, node, _) in self.graph.nodes() {
            let is_row = |read: &Read| read.free.is_none() && self.is_per_row(&read.frame, row);
            let is_row = self.read_by(node).is_some_and(is_row);
            kinds.push(if is_row { Kind::Row } else { node.kind(|operand| Some(kinds[operand.at()])) });
        }
        kinds
    }

    /// Whether no reduction needs another one's result, so that one pass over the elements is enough.
    fn is_one_pass(&self, needed: &[bool]) -> bool {
        let mut reduced = vec![false; needed.len()];
        for (value, node) in self.needed_nodes(needed) {
            let after = node.operands().any(|operand| reduced[operand.at()]);
            let is_reduction = matches!(node, Node::Reduce(..));
            if after && is_reduction {
                return false;
            }
            reduced[value.at()] = after || is_reduction;
        }
        true
    }

    fn is_per_row(&self, frame: &Frame, row: &[Axis]) -> bool {
        !row.is_empty() && !frame.flat().any(|axis| row.contains(&axis))
    }

    /// Views that outlive the kernel.
    pub(super) fn live_views(&self) -> impl Iterator<Item = EntryId> + '_ {
        let is_live = |origin: &Origin, consumed: bool| matches!(origin, Origin::View { .. }) && !consumed;
        self.entries
            .iter()
            .enumerate()
            .filter(move |(_, e)| is_live(&e.origin, e.consumed))
            .map(|(at, _)| at as EntryId)
    }
}

/// The axes that a tensor to be written lacks; none if every one has them all. Where nothing is reduced they are the row: that tensor
/// has one element per row.
fn lacking(live: &[(EntryId, Value, Frame)], order: &[Axis]) -> Vec<Axis> {
    let lacks = |frame: &Frame| -> Vec<Axis> { order.iter().copied().filter(|axis| !frame.has(*axis)).collect() };
    live.iter().map(|(.., frame)| lacks(frame)).find(|row| !row.is_empty()).unwrap_or_default()
}

/// Whether the kernel has a coordinate along `group`, or one along each of its axes.
fn is_axis(group: &Group, row: &[Axis]) -> bool {
    group.axes() == row || group.axes().iter().all(|axis| !row.contains(axis) || row == [*axis])
}

/// What the kernel writes. `None` if some tensor covers neither the whole space nor all of its rows.
fn stores(live: &[(EntryId, Value, Frame)], order: &[Axis], row: &[Axis], kinds: &[Kind]) -> Option<Vec<Store>> {
    let outer: Vec<Axis> = order.iter().copied().filter(|axis| !row.contains(axis)).collect();
    let mut stores: Vec<Store> = Vec::new();
    for (at, node, frame) in live {
        let flat: Vec<Axis> = frame.flat().collect();
        let covers = |axes: &[Axis]| flat.len() == axes.len() && axes.iter().all(|axis| flat.contains(axis));
        let (kind, natural) = match (covers(order), covers(&outer)) {
            (true, _) => (Kind::Full, order),
            (false, true) if kinds[node.at()] == Kind::Row => (Kind::Row, outer.as_slice()),
            _ => return None,
        };
        // The kernel steps through a merged row with one stride, in what it writes as in what it reads.
        let is_row_whole = row.len() < 2 || natural.windows(row.len()).any(|run| run == row) || kind == Kind::Row;
        let memory = if is_row_whole && is_run_by_run(frame, natural) {
            natural.to_vec()
        } else if row.len() < 2 || kind == Kind::Row || frame.keeps_together(row) {
            flat
        } else {
            let turned = [outer.as_slice(), row].concat();
            if !is_run_by_run(frame, &turned) {
                return None;
            }
            turned
        };
        let known = stores.iter_mut().find(|store| store.node == *node && store.kind == kind && store.memory == memory);
        match known {
            Some(store) => store.tensors.push((*at, *frame)),
            None => stores.push(Store { node: *node, memory, kind, tensors: vec![(*at, *frame)] }),
        }
    }
    Some(stores)
}

/// Whether each group's axes lie side by side in `memory`, so that one stride steps through them.
fn is_run_by_run(frame: &Frame, memory: &[Axis]) -> bool {
    frame
        .groups()
        .iter()
        .all(|group| group.is_none() || memory.windows(group.axes().len()).any(|run| run == group.axes()))
}
