//! Composes the graphs of several launches into one graph, so that one launch computes them all.
//!
//! A graph joins those whose results it reads. The axes of the whole are cut wherever those of either are. Each result is rounded
//! to its type, and the order of a sum depends on its extent alone, so the bits are those of the launches one by one. A composed
//! graph is compiled when it comes for the third time.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cudarc::driver::DriverError;
use cudarc::rocfire::{Operator, Window};
use rocfire_fusion::{Compare, Graph, Reduce, Scalar, Value};
use rocfire_hal::{DType, Dims, MAX_RANK, Tensor, View, ViewMut};
use rustc_hash::FxHashMap;

use crate::axes::common;
use crate::program::{GraphLaunch, Program, run_over};
use crate::table::{Entry, Family};

/// The most graphs that become one, and the most tensors that these read from outside: what fits a kernel's arguments and registers.
const OPS_MOST: usize = 12;
const OUTSIDE_MOST: usize = 16;
/// The most columns of a row that is reduced in a composed graph: as many as a workgroup keeps in registers. A longer row is reduced
/// alone, because then several workgroups can take a part of it each.
const COLUMNS_MOST: usize = 8192;
/// How often the same graphs must have come together before they are composed.
const SEEN_LEAST: usize = 2;

/// A launch of a graph, with its number in the window.
#[derive(Clone)]
pub(crate) struct Op {
    number: usize,
    entry: &'static Entry,
    pub launch: Arc<GraphLaunch>,
}

impl Op {
    /// `None` if the launch is no graph, or if it writes what it reads: such a launch stays where it is.
    pub(super) fn of(window: &Window<'_>, number: usize, entry: &'static Entry) -> Option<Op> {
        if window.overwrites(number, number) {
            return None;
        }
        Some(Op { number, entry, launch: GraphLaunch::of(window.node(number), entry)? })
    }

    /// Its number in the window.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The kernel that Candle asked for by name.
    pub(super) fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The graph that it runs, with the types of its operands.
    pub(super) fn program(&self) -> &'static Program {
        self.launch.program
    }

    /// The values of the graph's scalars.
    pub(super) fn scalars(&self) -> &[Scalar] {
        &self.launch.scalars[..self.program().graph.scalars().count()]
    }

    /// How many elements it runs over.
    pub(super) fn count(&self) -> usize {
        self.launch.axes.elements()
    }

    /// The address of an input's first element.
    pub(super) fn operand(&self, at: usize) -> u64 {
        self.launch.addresses[at]
    }

    /// The address of the first result's first element.
    pub(super) fn result(&self) -> u64 {
        self.launch.addresses[self.program().inputs]
    }

    /// The first result's type.
    pub(super) fn to(&self) -> DType {
        self.program().operands[self.program().inputs].dtype
    }

    /// Whether it only copies elements, and reads them in strides.
    pub(super) fn moves(&self) -> bool {
        self.entry.family == Family::Copy && !self.launch.axes.is_dense(0)
    }

    /// The type of the only input, if there is also one result and the elements of both lie dense; `None` for any other graph.
    pub(super) fn dense_map(&self) -> Option<DType> {
        let is_map = !self.program().has_rows && self.program().inputs == 1 && self.launch.operands() == 2;
        let is_dense = is_map && self.launch.axes.is_dense(0) && self.launch.axes.is_dense(1);
        is_dense.then(|| self.program().operands[0].dtype)
    }

    /// The same launch over the axes `extents`; `None` if an operand's axes cannot be cut there.
    fn over(&self, extents: &[usize]) -> Option<Op> {
        let mut op = self.clone();
        if op.launch.axes.extents() != extents {
            op.launch =
                Arc::new(GraphLaunch { axes: self.launch.axes.over(extents, self.launch.operands())?, ..*self.launch });
        }
        Some(op)
    }

    /// The addresses of an output's first byte and of the byte behind its last. `output` counts from the first input.
    fn span(&self, output: usize) -> (u64, u64) {
        let axes = &self.launch.axes;
        let reach = |(axis, &extent): (usize, &usize)| (extent as u64 - 1) * axes.step(output, axis) as u64;
        let last: u64 = axes.extents().iter().enumerate().map(reach).sum();
        let first = self.launch.addresses[output];
        (first, first + (last + 1) * self.program().operands[output].dtype.size_bytes() as u64)
    }

    /// Where and how the elements of an operand lie.
    fn layout(&self, operand: usize) -> OperandLayout {
        let extents = self.launch.axes.extents();
        let mut steps = [0; MAX_RANK];
        let steps_of = extents.iter().enumerate().filter(|(_, extent)| **extent > 1);
        steps_of.for_each(|(axis, _)| steps[axis] = self.launch.axes.step(operand, axis));
        let of = self.program().operands[operand];
        OperandLayout { address: self.launch.addresses[operand], dtype: of.dtype, is_row: of.is_row, steps }
    }

    /// Whether an input is the first element of each row of the input before it, as graphs of extremes take it.
    fn is_first(&self, operand: usize) -> bool {
        operand < self.program().inputs && self.program().operands[operand].is_row
    }
}

/// Where and how the elements of an operand lie: the first one's address, their type, whether there is one for each row, and the
/// step along each axis in elements, 0 along axes of extent 1.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OperandLayout {
    address: u64,
    dtype: DType,
    is_row: bool,
    steps: [i64; MAX_RANK],
}

impl OperandLayout {
    /// Whether what was written with this layout is what `read` reads. A result with one element for each row may also be read as a
    /// whole row, with steps of 0 along it.
    fn gives(&self, read: &OperandLayout) -> bool {
        OperandLayout { is_row: read.is_row, ..*self } == *read
    }
}

/// The launch `part`, which wrote a part of a tensor, and behind it a map of the whole tensor, over that part only. `None` if what
/// `part` wrote is no part of what the map reads.
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

/// Adds the launch `next` to a chain, over axes that suit both; `None` leaves the chain as it was. `sources` has a bit for each
/// member whose results `next` reads: it must read all of these with the layout with which they were written.
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

/// A chain as one graph, with the extents and tensors that it runs over.
pub(crate) struct Composed {
    graph: Arc<Graph>,
    extents: Dims,
    inputs: Vec<Tensor>,
    scalars: Vec<Scalar>,
    outputs: Vec<Tensor>,
}

impl Composed {
    /// Runs the graph.
    pub(super) fn run(&self, stream: &rocfire_hal::Stream) -> Result<(), DriverError> {
        let inputs: Vec<View<'_>> = self.inputs.iter().map(Tensor::view).collect();
        let mut outputs: Vec<ViewMut<'_>> = self.outputs.iter().map(|output| output.view().writable()).collect();
        run_over(stream, &self.graph, &self.extents, &inputs, &self.scalars, &mut outputs)
    }
}

/// Where an input of a launch in a chain comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    /// A result of an earlier launch: the launch's number in the chain, and the result's among its results.
    Result(usize, usize),
    /// Memory: the number of the composed graph's input.
    Outside(usize),
    /// The first element of each row of the input before it.
    First,
}

/// A chain before it is made a graph: what each launch reads, and which launches' results are stored.
pub(super) struct Laid<'a> {
    ops: &'a [Op],
    /// The composed graph's inputs: a launch's number in the chain and the number of its operand.
    outside: Vec<(usize, usize)>,
    /// For each launch, where its inputs come from.
    from: Vec<Vec<Origin>>,
    /// For each launch, whether its results must be in memory afterwards.
    stored: Vec<bool>,
}

impl<'a> Laid<'a> {
    /// Finds where each input comes from. `stored` says for each launch whether its results are stored.
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

    /// The composed graph's inputs in order, each as a launch and the number of its operand.
    pub(super) fn outside(&self) -> impl Iterator<Item = (&'a Op, usize)> {
        self.outside.iter().map(|&(at, operand)| (&self.ops[at], operand))
    }

    /// The composed graph's outputs in order, each as a launch and the number of its operand.
    pub(super) fn stored(&self) -> impl Iterator<Item = (&'a Op, usize)> {
        let stored = self.ops.iter().zip(&self.stored).filter(|(_, stored)| **stored);
        stored.flat_map(|(op, _)| op.launch.outputs().map(move |output| (op, output)))
    }

    /// What the composed graph depends on, as numbers: each launch's graph, whether its results are stored, where its inputs come from.
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

    /// Appends the chain to `graph`, with the values `outside` for what it reads from memory; stored results become outputs.
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

    /// The chain as a graph of its own, with an input for each tensor that it reads from memory.
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

    /// The values of the composed graph's scalars, in the order in which the launches have them.
    pub(super) fn scalars(&self) -> Vec<Scalar> {
        self.ops.iter().flat_map(|op| op.scalars().iter().copied()).collect()
    }

    /// The graph that `make` makes of this chain. It is made once for each chain and `kind`, and kept; `None` for the first `seen_least`
    /// times that the two come.
    pub(super) fn kept(&self, kind: &[u32], seen_least: usize, make: impl FnOnce() -> Graph) -> Option<Arc<Graph>> {
        type Graphs = FxHashMap<Vec<u32>, (usize, Option<Arc<Graph>>)>;
        static GRAPHS: LazyLock<Mutex<Graphs>> = LazyLock::new(Mutex::default);
        let mut graphs = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, graph) = graphs.entry([kind, &self.key()].concat()).or_insert((0, None));
        if *seen < seen_least {
            *seen += 1;
            return None;
        }
        Some(Arc::clone(graph.get_or_insert_with(|| Arc::new(make()))))
    }

    /// The chain as one graph with its tensors; `None` for the first `seen_least` times that the chain comes.
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

/// The first element of each row of a value: the sum of the row with zeros in place of its other elements.
fn first_of_row(graph: &mut Graph, x: Value) -> Value {
    let (here, start) = (graph.index(0), graph.constant(DType::I64, 0));
    let is_first = graph.compare(Compare::Eq, here, start);
    let nothing = graph.constant(graph.dtype(x), 0.0);
    let kept = graph.select(is_first, x, nothing);
    graph.reduce(Reduce::Sum, kept)
}

/// For each launch of a chain, whether its results must be stored: Rust still owns their memory, a launch outside the chain
/// reads them, or it is the last.
pub(super) fn stored(window: &Window<'_>, ops: &[Op], mask: u64) -> Vec<bool> {
    let is_stored = |op: &Op| window.is_owned(op.number) || window.readers(op.number) & !mask != 0;
    let mut stored: Vec<bool> = ops.iter().map(is_stored).collect();
    stored.last_mut().into_iter().for_each(|last| *last = true);
    stored
}

/// A chain as one launch; `None` if it is a single launch, or until it has come often enough.
pub(super) fn merged(window: &Window<'_>, mask: u64, ops: &[Op]) -> Option<Operator> {
    if ops.len() < 2 {
        return None;
    }
    let composed = Laid::new(ops, stored(window, ops, mask)).composed(window, SEEN_LEAST)?;
    Some(Box::new(move |stream| composed.run(stream)))
}

/// Launches that wrote parts of a tensor, each in one launch with the map of its part, one after the other.
pub(super) fn mapped(window: &Window<'_>, parts: &[Vec<Op>]) -> Option<Operator> {
    let composed = |ops: &Vec<Op>| Laid::new(ops, vec![false, true]).composed(window, 0);
    let parts = parts.iter().map(composed).collect::<Option<Vec<Composed>>>()?;
    Some(Box::new(move |stream| parts.iter().try_for_each(|part| part.run(stream))))
}
