//! Launches of graphs as one graph.
//!
//! A graph joins those whose results it reads, over axes that are cut wherever those of either are; each result is rounded to its
//! type, and the order of a sum is its extent's alone: so the bits are those of the launches one by one. What has been composed is
//! compiled when it comes for the third time.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cudarc::driver::DriverError;
use cudarc::rocfire::{Operator, Window};
use rocfire_fusion::{Compare, Graph, Reduce, Scalar, Value};
use rocfire_hal::{DType, Dims, MAX_RANK, Tensor, View};

use crate::axes::common;
use crate::program::{GraphLaunch, Program, run_over};
use crate::table::{Entry, Family};

/// Graphs that become one, and tensors from outside, most: what fits a kernel's arguments and registers.
const OPS_MOST: usize = 12;
const OUTSIDE_MOST: usize = 16;
/// Columns of rows that are reduced beside other graphs, most: as many as a workgroup keeps in registers. Of longer rows several
/// workgroups reduce a part each, if nothing else is done with them.
const COLUMNS_MOST: usize = 8192;
/// How often graphs have come together before they are composed.
const SEEN_LEAST: usize = 2;

/// A launch of a graph.
#[derive(Clone)]
pub(crate) struct Op {
    number: usize,
    entry: &'static Entry,
    pub launch: Arc<GraphLaunch>,
}

impl Op {
    /// `None` for one that other launches must not move beside.
    pub(super) fn of(window: &Window<'_>, number: usize, entry: &'static Entry) -> Option<Op> {
        if window.overwrites(number, number) {
            return None;
        }
        Some(Op { number, entry, launch: GraphLaunch::of(window.node(number), entry)? })
    }

    /// Its place among the launches.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// What Candle asked for.
    pub(super) fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// What it computes.
    pub(super) fn program(&self) -> &'static Program {
        self.launch.program
    }

    /// The graph's scalars.
    pub(super) fn scalars(&self) -> &[Scalar] {
        &self.launch.scalars[..self.program().graph.scalars().count()]
    }

    /// Elements.
    pub(super) fn count(&self) -> usize {
        self.launch.axes.elements()
    }

    /// Where an input begins.
    pub(super) fn operand(&self, at: usize) -> u64 {
        self.launch.addresses[at]
    }

    /// Where the first result begins.
    pub(super) fn result(&self) -> u64 {
        self.launch.addresses[self.program().inputs]
    }

    /// The first result's type.
    pub(super) fn to(&self) -> DType {
        self.program().operands[self.program().inputs].dtype
    }

    /// Whether it moves strided elements and does nothing else.
    pub(super) fn moves(&self) -> bool {
        self.entry.family == Family::Copy && !self.launch.axes.is_dense(0)
    }

    /// The type of the only input, where all elements of it and of the only result lie dense.
    pub(super) fn dense_map(&self) -> Option<DType> {
        let is_map = !self.program().has_rows && self.program().inputs == 1 && self.launch.operands() == 2;
        let is_dense = is_map && self.launch.axes.is_dense(0) && self.launch.axes.is_dense(1);
        is_dense.then(|| self.program().operands[0].dtype)
    }

    /// The same over axes that are cut where `extents` are.
    fn over(&self, extents: &[usize]) -> Option<Op> {
        let mut op = self.clone();
        if op.launch.axes.extents() != extents {
            op.launch = Arc::new(GraphLaunch { axes: self.launch.axes.over(extents)?, ..*self.launch });
        }
        Some(op)
    }

    /// Bytes that an output lies between.
    fn span(&self, output: usize) -> (u64, u64) {
        let axes = &self.launch.axes;
        let reach = |(axis, &extent): (usize, &usize)| (extent as u64 - 1) * axes.step(output, axis) as u64;
        let last: u64 = axes.extents().iter().enumerate().map(reach).sum();
        let first = self.launch.addresses[output];
        (first, first + (last + 1) * self.program().operands[output].dtype.size_bytes() as u64)
    }

    /// An operand's address, type, whether there is one for each row, and steps.
    fn layout(&self, operand: usize) -> OperandLayout {
        let extents = self.launch.axes.extents();
        let mut steps = [0; MAX_RANK];
        let steps_of = extents.iter().enumerate().filter(|(_, extent)| **extent > 1);
        steps_of.for_each(|(axis, _)| steps[axis] = self.launch.axes.step(operand, axis));
        let of = self.program().operands[operand];
        OperandLayout { address: self.launch.addresses[operand], dtype: of.dtype, is_row: of.is_row, steps }
    }

    /// Whether an input is the first element of each row of the one before it.
    fn is_first(&self, operand: usize) -> bool {
        operand < self.program().inputs && self.program().operands[operand].is_row
    }
}

/// Where the elements of an operand lie.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OperandLayout {
    address: u64,
    dtype: DType,
    is_row: bool,
    steps: [i64; MAX_RANK],
}

impl OperandLayout {
    /// Whether what was written there is what is read here: a row's element where each of the row's is read, too.
    fn gives(&self, read: &OperandLayout) -> bool {
        OperandLayout { is_row: read.is_row, ..*self } == *read
    }
}

/// Makes a map of what several launches wrote, side by side, one of this launch, which wrote one of the parts; `None` if it is no part.
pub(super) fn map_part(part: &Op, map: &Op) -> Option<Vec<Op>> {
    let (from, output) = (map.dense_map()?, part.program().inputs);
    let offset = part.result().checked_sub(map.operand(0))?;
    let (bytes, to_bytes) = (from.size_bytes() as u64, map.to().size_bytes() as u64);
    let is_one = part.launch.operands() == output + 1 && part.to() == from && !part.program().operands[output].is_row;
    if !is_one || !offset.is_multiple_of(bytes) {
        return None;
    }
    let mut launch = GraphLaunch { axes: part.launch.axes.of_steps(&[output, output]), ..*map.launch };
    launch.addresses[0] = part.result();
    launch.addresses[1] = map.result() + offset / bytes * to_bytes;
    Some(vec![part.clone(), Op { launch: Arc::new(launch), ..*map }])
}

/// Makes the next launch one of a chain, over axes for both; `None` leaves the chain as it was. `sources` are those of the chain of
/// whose results it reads something: all of them must be read as they were written.
pub(super) fn extend(chain: &mut Vec<Op>, next: &Op, sources: u64) -> Option<()> {
    let outside = |op: &Op| op.program().inputs;
    let is_full = chain.len() == OPS_MOST || chain.iter().chain([next]).map(outside).sum::<usize>() > OUTSIDE_MOST;
    let rows = |op: &Op| op.program().has_rows.then(|| op.launch.axes.extents().last().copied()).flatten();
    let (ours, theirs) = (chain.iter().find_map(rows), rows(next));
    let row = ours.or(theirs);
    let is_reduction = |op: &Op| op.program().has_rows && op.layout(op.program().inputs).is_row;
    let most = if chain.iter().chain([next]).any(is_reduction) { COLUMNS_MOST } else { usize::MAX };
    let is_long = row.is_some_and(|row| row > most || row == 0);
    if is_full || is_long || (ours.is_some() && theirs.is_some() && ours != theirs) {
        return None;
    }
    let ours = chain.first()?.launch.axes.extents();
    let extents = common(ours, next.launch.axes.extents(), row)?;
    let next = next.over(&extents)?;
    let over = match *ours == *extents {
        true => None,
        false => Some(chain.iter().map(|op| op.over(&extents)).collect::<Option<Vec<Op>>>()?),
    };
    let mut read = 0_u64;
    for operand in 0..next.program().inputs {
        let wanted = if next.is_first(operand) { next.layout(operand - 1) } else { next.layout(operand) };
        for op in over.as_ref().unwrap_or(chain) {
            for output in op.launch.outputs() {
                let (first, end) = op.span(output);
                if !(first..end).contains(&wanted.address) {
                    continue;
                }
                if !op.layout(output).gives(&wanted) {
                    return None;
                }
                read |= 1 << op.number;
            }
        }
    }
    if read != sources {
        return None;
    }
    over.into_iter().for_each(|over| *chain = over);
    chain.push(next);
    Some(())
}

/// A chain as one graph, and what it is run over.
pub(crate) struct Composed {
    graph: Arc<Graph>,
    extents: Dims,
    inputs: Vec<Tensor>,
    scalars: Vec<Scalar>,
    outputs: Vec<Tensor>,
}

impl Composed {
    /// Runs it.
    pub(super) fn run(&self, stream: &rocfire_hal::Stream) -> Result<(), DriverError> {
        let (inputs, mut outputs): (Vec<View<'_>>, _) =
            (self.inputs.iter().map(Tensor::view).collect(), self.outputs.clone());
        run_over(stream, &self.graph, &self.extents, &inputs, &self.scalars, &mut outputs)
    }
}

/// Where an input of an op comes from: a result of an earlier one, or outside; or it is the first of each row of the input before.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    Result(usize, usize),
    Outside(usize),
    First,
}

/// A chain laid out: what it reads from outside, and which results are stored.
pub(super) struct Laid<'a> {
    ops: &'a [Op],
    /// The ops and operands that are the graph's inputs.
    outside: Vec<(usize, usize)>,
    from: Vec<Vec<Origin>>,
    stored: Vec<bool>,
}

impl<'a> Laid<'a> {
    /// `stored` says of which ops the results are.
    pub(super) fn new(ops: &'a [Op], stored: Vec<bool>) -> Laid<'a> {
        let mut laid = Laid { ops, outside: Vec::new(), from: Vec::with_capacity(ops.len()), stored };
        let mut written: Vec<(usize, usize, OperandLayout)> = Vec::with_capacity(ops.len());
        let mut known: Vec<OperandLayout> = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let mut from: Vec<Origin> = Vec::with_capacity(op.program().inputs);
            for operand in 0..op.program().inputs {
                let place = op.layout(operand);
                if op.is_first(operand) && matches!(from.last(), Some(Origin::Result(..))) {
                    from.push(Origin::First);
                } else if let Some(of) = written.iter().find(|of| of.2.gives(&place)) {
                    from.push(Origin::Result(of.0, of.1));
                } else {
                    let input = known.iter().position(|other| *other == place).unwrap_or_else(|| {
                        known.push(place);
                        laid.outside.push((at, operand));
                        known.len() - 1
                    });
                    from.push(Origin::Outside(input));
                }
            }
            laid.from.push(from);
            let outputs = op.launch.outputs().enumerate();
            written.extend(outputs.map(|(output, operand)| (at, output, op.layout(operand))));
        }
        laid
    }

    /// The operands that are its graph's inputs: where each begins, and its op.
    pub(super) fn outside(&self) -> impl Iterator<Item = (&'a Op, usize)> {
        self.outside.iter().map(|&(at, operand)| (&self.ops[at], operand))
    }

    /// The operands that are its graph's outputs.
    pub(super) fn stored(&self) -> impl Iterator<Item = (&'a Op, usize)> {
        let stored = self.ops.iter().zip(&self.stored).filter(|(_, stored)| **stored);
        stored.flat_map(|(op, _)| op.launch.outputs().map(move |output| (op, output)))
    }

    /// What decides the graph.
    fn key(&self) -> Vec<u32> {
        let mut key = Vec::with_capacity(4 * self.ops.len());
        for (at, op) in self.ops.iter().enumerate() {
            key.push(2 * op.program().number as u32 + u32::from(self.stored[at]));
            key.extend(self.from[at].iter().map(|from| match *from {
                Origin::Result(op, output) => (4 * op + output) as u32,
                Origin::Outside(input) => 0x100 + input as u32,
                Origin::First => 0x200,
            }));
        }
        key
    }

    /// The ops as one graph, whose first inputs are `first`.
    pub(super) fn graph(&self, graph: &mut Graph, outside: &[Value]) {
        let mut results: Vec<Vec<Value>> = Vec::with_capacity(self.ops.len());
        for (op, from) in self.ops.iter().zip(&self.from) {
            let mut inputs: Vec<Value> = Vec::with_capacity(from.len());
            for from in from {
                inputs.push(match *from {
                    Origin::Result(op, output) => results[op][output],
                    Origin::Outside(input) => outside[input],
                    Origin::First => first_of_row(graph, *inputs.last().expect("something comes before it")),
                });
            }
            results.push(graph.append(&op.program().graph, &inputs));
        }
        for (results, _) in results.iter().zip(&self.stored).filter(|(_, stored)| **stored) {
            results.iter().for_each(|&result| graph.output(result));
        }
    }

    /// The graph with inputs of its own.
    fn whole(&self) -> Graph {
        let mut graph = Graph::new("candle");
        let input = |(op, operand): (&Op, usize)| {
            let of = op.program().operands[operand];
            if of.is_row { graph.row_input(of.dtype) } else { graph.input(of.dtype) }
        };
        let outside: Vec<Value> = self.outside().map(input).collect();
        self.graph(&mut graph, &outside);
        graph
    }

    /// The graph's scalars.
    pub(super) fn scalars(&self) -> Vec<Scalar> {
        self.ops.iter().flat_map(|op| op.scalars().iter().copied()).collect()
    }

    /// The graph that `make` makes of it, made once for each `kind`; `None` until it has come so often.
    pub(super) fn kept(&self, kind: &[u32], seen_least: usize, make: impl FnOnce() -> Graph) -> Option<Arc<Graph>> {
        type Graphs = HashMap<Vec<u32>, (usize, Option<Arc<Graph>>)>;
        static GRAPHS: LazyLock<Mutex<Graphs>> = LazyLock::new(Mutex::default);
        let mut graphs = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, graph) = graphs.entry([kind, &self.key()].concat()).or_insert((0, None));
        if *seen < seen_least {
            *seen += 1;
            return None;
        }
        Some(Arc::clone(graph.get_or_insert_with(|| Arc::new(make()))))
    }

    /// As one graph over its memory; `None` until it has come often enough.
    pub(super) fn composed(&self, window: &Window<'_>, seen_least: usize) -> Option<Composed> {
        let graph = self.kept(&[], seen_least, || self.whole())?;
        let tensor =
            |(op, operand): (&Op, usize)| op.launch.tensor(operand, window.node(op.number), window.turn()).ok();
        let inputs = self.outside().map(tensor).collect::<Option<Vec<_>>>()?;
        let outputs = self.stored().map(tensor).collect::<Option<Vec<_>>>()?;
        let extents = Dims::new(self.ops.first()?.launch.axes.extents()).ok()?;
        Some(Composed { graph, extents, inputs, scalars: self.scalars(), outputs })
    }
}

/// The first element of each row of a value, as one for each row: the sum of it and zeros.
fn first_of_row(graph: &mut Graph, x: Value) -> Value {
    let (here, start) = (graph.index(0), graph.constant(DType::I64, 0));
    let is_first = graph.compare(Compare::Eq, here, start);
    let nothing = graph.constant(graph.dtype(x), 0.0);
    let kept = graph.select(is_first, x, nothing);
    graph.reduce(Reduce::Sum, kept)
}

/// Which results of a chain must be in memory: somebody outside reads them, or nobody does.
pub(super) fn stored(window: &Window<'_>, ops: &[Op], mask: u64) -> Vec<bool> {
    let is_stored = |op: &Op| window.is_owned(op.number) || window.readers(op.number) & !mask != 0;
    let mut stored: Vec<bool> = ops.iter().map(is_stored).collect();
    stored.last_mut().into_iter().for_each(|last| *last = true);
    stored
}

/// A chain as one launch; `None` for one launch, and until it has come often enough.
pub(super) fn merged(window: &Window<'_>, mask: u64, ops: &[Op]) -> Option<Operator> {
    if ops.len() < 2 {
        return None;
    }
    let composed = Laid::new(ops, stored(window, ops, mask)).composed(window, SEEN_LEAST)?;
    Some(Box::new(move |stream| composed.run(stream)))
}

/// The parts of something, each with the map of it, one after the other.
pub(super) fn mapped(window: &Window<'_>, parts: &[Vec<Op>]) -> Option<Operator> {
    let composed = |ops: &Vec<Op>| Laid::new(ops, vec![false, true]).composed(window, 0);
    let parts = parts.iter().map(composed).collect::<Option<Vec<Composed>>>()?;
    Some(Box::new(move |stream| parts.iter().try_for_each(|part| part.run(stream))))
}
