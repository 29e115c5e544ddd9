//! Cuts a stretch of operations into kernels: which operations share a launch, and in which order the launches come.
//!
//! The whole stretch is known, so kernels are made one after another. Each begins with the first operation that no kernel has taken,
//! and takes every later one that it can compute and that depends only on earlier kernels and itself. So kernels cannot depend on each
//! other in a circle. An operation that no kernel takes begins one.
//!
//! Views and constant tensors cost nothing where they are used, so they join the first kernel that needs them. Other operands that no
//! kernel has computed yet join together with the operation that needs them, as an optimizer's moments join its step.
//!
//! A tensor is written to memory unless all operations that read it are in the kernel and its life ends in the stretch. The
//! partition depends on the operations alone.

use std::collections::{BTreeSet, HashMap, HashSet};

use burn_ir::{BaseOperationIr, NumericOperationIr, OperationIr, TensorId, TensorStatus};
use burn_ir::{FloatOperationIr, IntOperationIr, ModuleOperationIr};

use super::arrange::Arrangement;
use super::attention::{AttentionPlan, Found, Lives, find};
use super::optimization::Work;
use super::plan::{Plan, Source, plan};
use super::recompute::{Recipe, apply};
use super::refusal::Refusal;
use super::trace::Trace;
use super::translate::Result;

/// The most operations that join together because one of them needs the others.
const JOIN_MOST: usize = 24;

/// The most operations that are added while they make no kernel that can run. After that the last kernel that could is taken.
const PENDING_MOST: usize = 12;

/// The most operations that are tried for a kernel.
const ATTEMPTS_MOST: usize = 600;

/// The most operations of a kernel.
const OPERATIONS_MOST: usize = 160;

/// Operations that run together: kernels of one trace, views that need no kernel, or a pattern.
pub(super) struct Piece {
    pub(super) work: Work,
    /// Numbers of the operations in the stretch.
    pub(super) operations: Vec<usize>,
    /// The first operation that was tried and did not join, and why.
    pub(super) stopped: Option<(usize, Refusal)>,
}

/// Whether an operation can be a kernel or a view by itself, if its operands are in memory; else why not.
pub(super) fn is_piece(operation: &OperationIr) -> Result<()> {
    let mut group = Group::new(is_product(operation));
    group.take(0, operation, 0)?;
    group.arrange().map(|_| ()).ok_or(Refusal::Operation)
}

/// How many random tensors the operations draw.
pub(super) fn draws(operations: &[OperationIr]) -> usize {
    operations.iter().filter(|operation| is_draw(operation)).count()
}

/// For each operation that draws random numbers, how many such operations come before it.
fn draw_order(operations: &[OperationIr]) -> HashMap<usize, u16> {
    let drawn = operations.iter().enumerate().filter(|(_, operation)| is_draw(operation));
    drawn.zip(0..).map(|((at, _), place)| (at, place)).collect()
}

pub(super) fn is_draw(operation: &OperationIr) -> bool {
    matches!(operation, OperationIr::Float(_, FloatOperationIr::Random(_)))
}

/// The pieces of a stretch, in the order in which they run. Each operation of it must be one for which [`is_piece`] holds. What is
/// computed again later is not kept.
pub(super) fn pieces(operations: &[OperationIr], recomputed: &[Recipe]) -> Vec<Piece> {
    let mut stretch = Stretch::new(operations);
    recomputed.iter().for_each(|recipe| apply(recipe, &mut stretch));
    stretch.find_attention();
    stretch.pieces()
}

/// Moves the last piece up behind the latest earlier one with the same kernel, if it depends on nothing between the two: the stream
/// joins small launches of one kernel only if no other launch comes between them.
fn gather_equals(operations: &[OperationIr], pieces: &mut Vec<Piece>) {
    let Some((last, before)) = pieces.split_last() else { return };
    let Work::Kernels(plan) = &last.work else { return };
    let [kernel] = plan.kernels.as_slice() else { return };
    let is_equal = |piece: &Piece| {
        kernel.product.is_none() && matches!(piece.work.kernels(), [other] if other.graph == kernel.graph)
    };
    let Some(twin) = before.iter().rposition(is_equal) else { return };
    let reads: HashSet<TensorId> =
        last.operations.iter().flat_map(|at| operations[*at].inputs()).map(|tensor| tensor.id).collect();
    let ends: HashSet<TensorId> =
        plan.sources.iter().filter(|source| source.consumed).map(|source| source.id).collect();
    let can_wait = |piece: &Piece| {
        piece.operations.iter().all(|at| {
            let is_made = operations[*at].outputs().any(|tensor| reads.contains(&tensor.id));
            let is_ended = operations[*at].inputs().any(|tensor| ends.contains(&tensor.id));
            !is_made && !is_ended
        })
    };
    if before[twin + 1..].iter().all(can_wait) {
        let piece = pieces.pop().expect("there is a last one");
        pieces.insert(twin + 1, piece);
    }
}

fn is_product(operation: &OperationIr) -> bool {
    matches!(
        operation,
        OperationIr::Float(_, FloatOperationIr::Matmul(_))
            | OperationIr::Int(IntOperationIr::Matmul(_))
            | OperationIr::Module(
                ModuleOperationIr::Conv1d(_) | ModuleOperationIr::Conv2d(_) | ModuleOperationIr::Conv3d(_)
            )
    )
}

/// Whether an operation costs nothing inside a kernel: a view, or a tensor of one constant.
pub(super) fn is_free(operation: &OperationIr) -> bool {
    use BaseOperationIr as Op;
    match operation {
        OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => matches!(
            op,
            Op::Reshape(_)
                | Op::SwapDims(_)
                | Op::Permute(_)
                | Op::Flip(_)
                | Op::Expand(_)
                | Op::Slice(_)
                | Op::Ones(_)
                | Op::Zeros(_)
        ),
        OperationIr::NumericFloat(_, op) | OperationIr::NumericInt(_, op) => matches!(op, NumericOperationIr::Full(_)),
        _ => false,
    }
}

/// Operations that become one piece.
#[derive(Clone)]
struct Group {
    trace: Trace,
    /// Numbers of the operations, in the order in which they were taken.
    members: Vec<usize>,
}

impl Group {
    fn new(multiplies: bool) -> Group {
        Group { trace: Trace { reduces: !multiplies, multiplies, ..Trace::default() }, members: Vec::new() }
    }

    fn take(&mut self, at: usize, operation: &OperationIr, draw: u16) -> Result<()> {
        if self.members.len() >= OPERATIONS_MOST {
            return Err(Refusal::Full);
        }
        self.trace.draws = draw;
        self.trace.take(operation)?;
        self.members.push(at);
        if self.trace.lacks_product() { Err(Refusal::NoProduct) } else { Ok(()) }
    }

    fn arrange(&self) -> Option<Vec<Arrangement>> {
        self.trace.arrange().filter(|arrangements| self.trace.ends_product(arrangements))
    }
}

/// What must join a group for it to take an operation.
struct Needs {
    /// The operations that must join, in order; the operation itself is the last.
    joining: Vec<usize>,
    /// Whether one of them reads what the group computes.
    follows: bool,
}

/// A stretch while pieces are made of it.
pub(super) struct Stretch<'a> {
    pub(super) operations: &'a [OperationIr],
    /// The operation that makes a tensor.
    pub(super) makers: HashMap<TensorId, usize>,
    /// The operations that read a tensor, in order.
    pub(super) readers: HashMap<TensorId, Vec<usize>>,
    /// Tensors whose life ends in the stretch.
    pub(super) dying: HashSet<TensorId>,
    /// For each operation that draws random numbers, how many such operations come before it.
    draws: HashMap<usize, u16>,
    /// For each operation, whether a piece has it or none needs it.
    done: Vec<bool>,
    attentions: Vec<Found>,
    /// For each operation, the number of the attention that it is part of.
    attention_of: Vec<Option<usize>>,
}

/// What the next piece is.
enum Next {
    /// A kernel that begins with this operation.
    Operation(usize),
    /// One of the attentions.
    Attention(usize),
}

impl<'a> Stretch<'a> {
    pub(super) fn new(operations: &'a [OperationIr]) -> Stretch<'a> {
        let mut stretch = Stretch {
            operations,
            makers: HashMap::new(),
            readers: HashMap::new(),
            dying: HashSet::new(),
            draws: draw_order(operations),
            done: vec![false; operations.len()],
            attentions: Vec::new(),
            attention_of: vec![None; operations.len()],
        };
        for (at, operation) in operations.iter().enumerate() {
            if let OperationIr::Drop(tensor) = operation {
                stretch.dying.insert(tensor.id);
                stretch.done[at] = true;
                continue;
            }
            for input in operation.inputs() {
                let readers = stretch.readers.entry(input.id).or_default();
                if readers.last() != Some(&at) {
                    readers.push(at);
                }
                if input.status == TensorStatus::ReadWrite {
                    stretch.dying.insert(input.id);
                }
            }
            for output in operation.outputs() {
                stretch.makers.entry(output.id).or_insert(at);
            }
        }
        stretch.bury();
        stretch
    }

    /// Leaves out operations whose results nobody will see.
    fn bury(&mut self) {
        for at in (0..self.operations.len()).rev().filter(|at| !matches!(self.operations[*at], OperationIr::Drop(_))) {
            self.done[at] = self.operations[at].outputs().all(|tensor| self.ends(tensor.id, |_| false));
        }
    }

    /// Finds the attentions that the stretch writes out.
    pub(super) fn find_attention(&mut self) {
        let ends = |id: TensorId, members: &[usize]| self.ends(id, |reader| members.contains(reader));
        let found = find(&Lives { operations: self.operations, is_left_out: &self.done, ends: &ends });
        self.attentions = found;
        for (number, found) in self.attentions.iter().enumerate() {
            found.members.iter().for_each(|at| self.attention_of[*at] = Some(number));
        }
    }

    fn pieces(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some(next) = self.next() {
            let piece = match next {
                Next::Operation(seed) => {
                    let (group, mut arrangements, stopped) = self.grow(seed);
                    for arrangement in &mut arrangements {
                        arrangement.narrow(&group.trace, |id| self.is_read_by_kernels(id, &group.members));
                    }
                    let work = Work::Kernels(plan(&group.trace, &arrangements));
                    Piece { work, operations: group.members, stopped }
                }
                Next::Attention(number) => self.attention(number),
            };
            piece.operations.iter().for_each(|at| self.done[*at] = true);
            pieces.push(piece);
            gather_equals(self.operations, &mut pieces);
        }
        pieces
    }

    /// What the next piece is: the first open operation that costs something, or an attention, or what either must wait for.
    fn next(&self) -> Option<Next> {
        let mut at = self.seed()?;
        loop {
            let needs = self.open_needs(at);
            let waits = match self.attention_of[at] {
                // An attention takes nothing in: all that it needs must be computed before.
                Some(_) => needs.iter().find(|need| !is_free(&self.operations[**need])).or(needs.first()),
                // What an operation needs may join its kernel, unless it is part of an attention.
                None => needs.iter().find(|need| self.attention_of[**need].is_some()),
            };
            match (waits, self.attention_of[at]) {
                (Some(need), _) => at = *need,
                (None, Some(number)) => return Some(Next::Attention(number)),
                (None, None) => return Some(Next::Operation(at)),
            }
        }
    }

    /// All open operations that must be computed before an operation, or before the attention that it is part of.
    fn open_needs(&self, at: usize) -> BTreeSet<usize> {
        let own = self.attention_of[at].map_or(&[][..], |number| &self.attentions[number].members);
        let (mut needs, mut stack) = (BTreeSet::new(), if own.is_empty() { vec![at] } else { own.to_vec() });
        while let Some(next) = stack.pop() {
            for input in self.operations[next].inputs() {
                let Some(maker) = self.makers.get(&input.id).copied() else { continue };
                if maker != at && !self.done[maker] && !own.contains(&maker) && needs.insert(maker) {
                    stack.push(maker);
                }
            }
        }
        needs
    }

    fn attention(&self, number: usize) -> Piece {
        let found = &self.attentions[number];
        let source =
            |id: &TensorId| Source { id: *id, consumed: self.ends(*id, |reader| found.members.contains(reader)) };
        let sources: Vec<Source> = found.sources.iter().map(source).collect();
        // The same operations as a stretch of their own, in which the same tensors end.
        let mut apart: Vec<OperationIr> = found.members.iter().map(|at| self.operations[*at].clone()).collect();
        let tensors: Vec<_> =
            apart.iter().flat_map(|operation| operation.inputs().cloned().collect::<Vec<_>>()).collect();
        apart.iter_mut().for_each(|operation| drop(operation.mark_read_only(&found.sources)));
        for id in found.inner.iter().chain(sources.iter().filter(|source| source.consumed).map(|source| &source.id)) {
            apart.extend(tensors.iter().find(|tensor| tensor.id == *id).cloned().map(OperationIr::Drop));
        }
        let plans = Stretch::new(&apart).pieces().into_iter().filter_map(|piece| match piece.work {
            Work::Kernels(plan) => Some(plan),
            Work::Attention(_) => None,
        });
        let plan = AttentionPlan { pattern: found.pattern.clone(), sources, apart: plans.collect::<Vec<Plan>>() };
        Piece { work: Work::Attention(Box::new(plan)), operations: found.members.clone(), stopped: None }
    }

    /// The first open operation that costs something; if there is none, the first open one.
    fn seed(&self) -> Option<usize> {
        let open = || (0..self.operations.len()).filter(|at| !self.done[*at]);
        open().find(|at| !is_free(&self.operations[*at])).or_else(|| open().next())
    }

    /// The largest group that begins with an operation. If operands that it needs cannot join it, the group begins with the first of
    /// those instead.
    fn grow(&self, seed: usize) -> (Group, Vec<Arrangement>, Option<(usize, Refusal)>) {
        let needs = self.needs(seed, &[]).map_or_else(|| vec![seed], |needs| needs.joining);
        let (mut best, mut arrangements) = self.begin(&needs).unwrap_or_else(|| {
            let first = needs.iter().find(|at| **at != seed).map_or(seed, |at| self.first_need(*at));
            self.begin(&[first]).expect("every operation was found to be a piece by itself")
        });
        let mut current = best.clone();
        let mut open: BTreeSet<usize> = BTreeSet::new();
        current.members.iter().for_each(|at| self.look_behind(*at, &mut open));
        let (mut tried, mut pending, mut stopped) = (HashSet::new(), 0, None);
        for _ in 0..ATTEMPTS_MOST {
            let Some(at) = open.pop_first() else { break };
            if self.done[at] || current.members.contains(&at) {
                continue;
            }
            let Some(needs) = self.needs(at, &current.members) else { continue };
            // An operation that only reads the same tensors as the group is tried once. One that reads a result of the group is tried again
            // each time that the group has more of its operands.
            if !needs.follows && !tried.insert(at) {
                continue;
            }
            let mut next = current.clone();
            let taken = needs.joining.iter().try_for_each(|at| self.take(&mut next, *at));
            if let Err(reason) = taken {
                stopped.get_or_insert((at, reason));
                continue;
            }
            self.end_lives(&mut next);
            let found = next.arrange();
            if found.is_none() && (!needs.follows || pending + needs.joining.len() > PENDING_MOST) {
                stopped.get_or_insert((at, Refusal::Stuck));
                if pending > 0 {
                    (current, pending) = (best.clone(), 0);
                }
                continue;
            }
            needs.joining.iter().for_each(|at| self.look_behind(*at, &mut open));
            pending += needs.joining.len();
            if let Some(found) = found {
                (best, arrangements, pending) = (next.clone(), found, 0);
            }
            current = next;
        }
        (best, arrangements, stopped)
    }

    /// An open operation that `at` needs, directly or not, and that needs no open one itself.
    fn first_need(&self, at: usize) -> usize {
        let open = self.operations[at].inputs().find_map(|input| {
            let maker = *self.makers.get(&input.id)?;
            (!self.done[maker] && maker != at).then_some(maker)
        });
        open.map_or(at, |maker| self.first_need(maker))
    }

    fn begin(&self, members: &[usize]) -> Option<(Group, Vec<Arrangement>)> {
        let mut group = Group::new(members.iter().any(|at| is_product(&self.operations[*at])));
        members.iter().try_for_each(|at| self.take(&mut group, *at)).ok()?;
        self.end_lives(&mut group);
        let arrangements = group.arrange()?;
        Some((group, arrangements))
    }

    fn take(&self, group: &mut Group, at: usize) -> Result<()> {
        group.take(at, &self.operations[at], self.draws.get(&at).copied().unwrap_or(0))
    }

    /// What must join a group of these members for it to take an operation; `None` if that is too much, or a product or an attention is
    /// among it.
    fn needs(&self, at: usize, members: &[usize]) -> Option<Needs> {
        let (mut joining, mut follows) = (BTreeSet::from([at]), false);
        let mut stack = vec![at];
        while let Some(next) = stack.pop() {
            if !members.is_empty() && is_product(&self.operations[next]) || self.attention_of[next].is_some() {
                return None;
            }
            for input in self.operations[next].inputs() {
                let Some(maker) = self.makers.get(&input.id).copied() else { continue };
                if members.contains(&maker) {
                    follows = true;
                } else if !self.done[maker] && joining.insert(maker) {
                    stack.push(maker);
                }
            }
            if joining.len() > JOIN_MOST {
                return None;
            }
        }
        Some(Needs { joining: joining.into_iter().collect(), follows })
    }

    /// Adds to `open` the operations that read the operands or results of `at`, directly or through operations that are free.
    fn look_behind(&self, at: usize, open: &mut BTreeSet<usize>) {
        let mut stack: Vec<TensorId> = self.operations[at].outputs().map(|tensor| tensor.id).collect();
        if !is_product(&self.operations[at]) {
            stack.extend(self.operations[at].inputs().map(|tensor| tensor.id));
        }
        while let Some(id) = stack.pop() {
            for reader in self.readers.get(&id).into_iter().flatten().filter(|reader| !self.done[**reader]) {
                if !is_free(&self.operations[*reader]) {
                    open.insert(*reader);
                } else if *reader != at {
                    stack.extend(self.operations[*reader].outputs().map(|tensor| tensor.id));
                }
            }
        }
    }

    /// Whether a tensor's life ends in the stretch, and every operation that reads it is done or `is_own`.
    fn ends(&self, id: TensorId, is_own: impl Fn(&usize) -> bool) -> bool {
        let is_past = |reader: &usize| self.done[*reader] || is_own(reader);
        self.dying.contains(&id) && self.readers.get(&id).is_none_or(|readers| readers.iter().all(is_past))
    }

    /// Whether operations other than `members` read a tensor or views of it, and all of them are computed element by element or row by
    /// row. A product or attention would take the tensor as it lies in memory.
    pub(super) fn is_read_by_kernels(&self, id: TensorId, members: &[usize]) -> bool {
        let (mut is_read, mut stack) = (false, vec![id]);
        while let Some(id) = stack.pop() {
            for reader in self.readers.get(&id).into_iter().flatten().filter(|reader| !members.contains(reader)) {
                let operation = &self.operations[*reader];
                if is_product(operation) || self.attention_of[*reader].is_some() {
                    return false;
                }
                is_read |= !is_free(operation);
                if is_free(operation) {
                    stack.extend(operation.outputs().map(|tensor| tensor.id));
                }
            }
        }
        is_read
    }

    /// Marks the tensors of a group that nobody reads behind it.
    fn end_lives(&self, group: &mut Group) {
        let members: HashSet<usize> = group.members.iter().copied().collect();
        group.trace.end_lives(|id| self.ends(id, |reader| members.contains(reader)));
    }
}
