//! Kernels that are graphs of `rocfire_fusion`, and launches of them: what each launch runs over, and where its tensors lie.

use std::sync::Arc;

use arrayvec::ArrayVec;
use cudarc::driver::DriverError;
use cudarc::rocfire::{Argument, Node, Turn};
use rocfire_fusion::{Graph, Kind, Scalar, Value, eager, run};
use rocfire_hal::{DType, Layout, MAX_RANK, Stream, Tensor, View, ViewMut};

use crate::axes::{Axes, OPERANDS_MOST, Steps};
use crate::family::{INT, SIZE, Words, scalar};
use crate::table::{self, Entry, Family};

/// A tensor that a graph reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub dtype: DType,
    /// Whether it has one element for each row.
    pub is_row: bool,
}

/// A graph that one of Candle's kernels is.
#[derive(Debug)]
pub(crate) struct Program {
    pub graph: Graph,
    /// The graph's inputs, then its outputs.
    pub operands: Vec<Operand>,
    /// How many of the operands are inputs.
    pub inputs: usize,
    /// Whether the graph looks at whole rows, as reductions and norms do. The last axis is then that of the rows' elements.
    pub has_rows: bool,
    /// A number of its own, by which programs are compared.
    pub number: usize,
}

impl Program {
    pub(crate) fn new(graph: Graph, has_rows: bool, number: usize) -> Program {
        let input = |(dtype, kind)| Operand { dtype, is_row: kind == Kind::Row };
        let output = |&value: &Value| Operand { dtype: graph.dtype(value), is_row: graph.kind(value) == Kind::Row };
        let operands: Vec<Operand> = graph.inputs().map(input).chain(graph.outputs().iter().map(output)).collect();
        let inputs = graph.inputs().count();
        Program { graph, operands, inputs, has_rows, number }
    }

    /// Whether both have the same graph, so that one kernel computes them.
    pub(crate) fn is_like(&self, other: &Program) -> bool {
        self.number == other.number || self.graph == other.graph
    }

    /// What the arguments of a kernel are, in the order in which Candle pushes them.
    pub(crate) fn arguments(&self, entry: &Entry) -> Vec<Argument> {
        use Argument::{Info, Read, Write};
        let numbers = || self.graph.scalars().map(scalar);
        let reads = vec![Read; self.inputs];
        match entry.family {
            Family::ConstSet => [SIZE, SIZE, Info].into_iter().chain(numbers()).chain([Write]).collect(),
            Family::Copy2d => vec![Read, Write, INT, INT, INT, INT],
            Family::Reduce | Family::Argument | Family::SumSmall => vec![SIZE, SIZE, SIZE, Info, Read, Write],
            Family::Softmax => vec![Read, Write, INT],
            Family::RmsNorm => vec![Read, Write, Read, INT, INT, INT],
            Family::LayerNorm => vec![Read, Write, Read, Read, INT, INT, INT],
            Family::Rope => {
                let numbers = [("rope", 4), ("rope_i", 3), ("rope_thd", 5)];
                let found = numbers.into_iter().find(|kind| kind.0 == entry.words[0]).map_or(0, |kind| kind.1);
                [Read, Read, Read, Write].into_iter().chain(vec![INT; found]).collect()
            }
            // Candle puts a kernel's only number before the addresses, but two numbers behind them.
            _ if numbers().count() == 1 => {
                [SIZE, SIZE, Info].into_iter().chain(numbers()).chain(reads).chain([Write]).collect()
            }
            _ => [SIZE, SIZE, Info].into_iter().chain(reads).chain([Write]).chain(numbers()).collect(),
        }
    }
}

/// A launch of a program: what it runs over, and where its operands lie.
#[derive(Clone, Copy)]
pub(crate) struct GraphLaunch {
    pub program: &'static Program,
    pub axes: Axes,
    /// The address of each operand's first element.
    pub addresses: [u64; OPERANDS_MOST],
    /// Values of the graph's scalars; the graph says how many of them are used.
    pub scalars: [Scalar; 2],
}

impl GraphLaunch {
    /// What the arguments of a launch say, read once for each. `None` if its kernel is no graph, or its elements lie along too many axes.
    pub(crate) fn of(node: &Node, entry: &'static Entry) -> Option<Arc<GraphLaunch>> {
        node.read_once(|| GraphLaunch::laid(node, entry))
    }

    /// The same, read from the arguments each time.
    fn laid(node: &Node, entry: &'static Entry) -> Option<GraphLaunch> {
        let program = entry.program(node)?;
        let mut launch = GraphLaunch {
            program,
            axes: Axes::default(),
            addresses: [0; OPERANDS_MOST],
            scalars: [Scalar::Uint(0); 2],
        };
        match entry.family {
            Family::ConstSet => launch.fill(node)?,
            Family::Copy2d => launch.copy_rows(node)?,
            Family::Reduce | Family::Argument | Family::SumSmall => launch.reduce(node, entry.family)?,
            Family::Softmax | Family::RmsNorm | Family::LayerNorm => launch.rows(node, entry.family)?,
            Family::Rope => launch.rope(node, Words(&entry.words))?,
            _ => launch.map(node)?,
        }
        Some(launch)
    }

    fn put_addresses<const COUNT: usize>(&mut self, addresses: [u64; COUNT]) {
        self.addresses[..COUNT].copy_from_slice(&addresses);
    }

    /// Reads the graph's scalars from the arguments in slots `first` and up.
    fn put_scalars(&mut self, node: &Node, first: usize) {
        for ((scalar, dtype), slot) in self.scalars.iter_mut().zip(self.program.graph.scalars()).zip(first..) {
            let mut word = [0; 8];
            word.iter_mut().zip(node.argument(slot)).take(dtype.size_bytes()).for_each(|(to, byte)| *to = *byte);
            *scalar = Scalar::from_bits(dtype, u64::from_le_bytes(word));
        }
    }

    /// Elementwise kernels. Arguments: number of elements, number of axes, extents and strides, then addresses and numbers. The result
    /// is dense.
    fn map(&mut self, node: &Node) -> Option<()> {
        let (inputs, numbers) = (self.program.inputs, self.program.graph.scalars().count());
        let first = if numbers == 1 { 4 } else { 3 };
        (0..=inputs).for_each(|at| self.addresses[at] = node.word(first + at));
        self.put_scalars(node, if numbers == 1 { 3 } else { first + inputs + 1 });
        let Some(info) = Info::of(node, 1, 2) else {
            let mut steps = Steps::default();
            steps[..=inputs].fill(1);
            return self.axes.push(node.word(0) as usize, steps);
        };
        let mut inner = (0..info.axes).map(|axis| info.extent(axis)).product::<usize>();
        for axis in 0..info.axes {
            inner = inner.checked_div(info.extent(axis))?;
            let mut steps: Steps = std::array::from_fn(|at| if at < inputs { info.step(at, axis) } else { 0 });
            steps[inputs] = inner as i64;
            self.axes.push(info.extent(axis), steps)?;
        }
        Some(())
    }

    /// `const_set`. Arguments: number of elements, number of axes, extents and strides of what is written, the value, its address.
    fn fill(&mut self, node: &Node) -> Option<()> {
        self.put_scalars(node, 3);
        self.put_addresses([node.word(4)]);
        let Some(info) = Info::of(node, 1, 2) else {
            return self.axes.push(node.word(0) as usize, [1, 0, 0, 0, 0, 0]);
        };
        (0..info.axes).try_for_each(|axis| self.axes.push(info.extent(axis), [info.step(0, axis), 0, 0, 0, 0, 0]))
    }

    /// `copy2d`. Arguments: addresses of source and destination, rows, columns, row strides of both.
    fn copy_rows(&mut self, node: &Node) -> Option<()> {
        self.put_addresses([node.word(0), node.word(1)]);
        let [rows, columns, x_stride, y_stride] = [2, 3, 4, 5].map(|slot| node.int(slot));
        self.axes.push(rows as usize, [x_stride.into(), y_stride.into(), 0, 0, 0, 0])?;
        self.axes.push(columns as usize, [1, 1, 0, 0, 0, 0])
    }

    /// Reductions. Arguments: number of elements (of lines for [`Family::SumSmall`]), elements of a line, number of axes, extents and
    /// strides with the axes to reduce last, addresses of source and result.
    fn reduce(&mut self, node: &Node, family: Family) -> Option<()> {
        let (x, y, extent) = (node.word(4), node.word(5), node.word(1) as usize);
        let (has_first, output) = (self.program.inputs == 2, self.program.inputs);
        self.addresses = if has_first { [x, x, y, 0, 0, 0] } else { [x, y, 0, 0, 0, 0] };
        // Extremes of floats also take the first element of each line, as an operand with one element per row.
        let steps = |outer: i64, inner: i64, out: i64| {
            let mut steps = [outer + inner, 0, 0, 0, 0, 0];
            steps[1] = if has_first { outer } else { 0 };
            steps[output] = out;
            steps
        };
        let lines = lines(node, family);
        // Lines without elements have results too. They lie nowhere, so any steps will do.
        let Some(info) = Info::of(node, 2, 3).filter(|_| lines * extent != 0) else {
            self.axes.push(lines, steps(extent as i64, 0, 1))?;
            self.axes.begin_row();
            self.axes.push(extent, steps(0, 1, 0))?;
            return self.axes.end_row();
        };
        let (mut split, mut inner) = (info.axes, 1);
        while inner != extent && split > 0 {
            split -= 1;
            inner *= info.extent(split);
        }
        let mut out = lines;
        for axis in 0..info.axes {
            let is_outer = axis < split;
            if axis == split {
                self.axes.begin_row();
            }
            let step = info.step(0, axis);
            if is_outer {
                out = out.checked_div(info.extent(axis))?;
                self.axes.push(info.extent(axis), steps(step, 0, out as i64))?;
            } else {
                self.axes.push(info.extent(axis), steps(0, step, 0))?;
            }
        }
        if split == info.axes {
            self.axes.begin_row();
        }
        // Candle counts a place along all reduced axes together, the graph along the last one only.
        let reduced = (split..info.axes).filter(|&axis| info.extent(axis) > 1).count();
        if family == Family::Argument && reduced > 1 {
            return None;
        }
        self.axes.end_row()
    }

    /// Softmax and norms. Arguments: addresses of source and result, of a norm's weight and bias, columns, and for norms the size of
    /// Candle's workgroup and what is added under the root.
    fn rows(&mut self, node: &Node, family: Family) -> Option<()> {
        let columns = match family {
            Family::Softmax => 2,
            Family::RmsNorm => 3,
            _ => 4,
        };
        if family == Family::LayerNorm && (node.word(2) == 0) != (node.word(3) == 0) {
            return None;
        }
        self.scalars[0] = Scalar::Float(f32::from_bits(node.int(columns + 2)).into());
        let (inputs, mut steps) = (self.program.inputs, [0; OPERANDS_MOST]);
        self.addresses[0] = node.word(0);
        (1..inputs).for_each(|at| self.addresses[at] = node.word(at + 1));
        self.addresses[inputs] = node.word(1);
        let columns = node.int(columns) as usize;
        steps[0] = columns as i64;
        steps[inputs] = columns as i64;
        self.axes.push(node.asked().grid_dim.0 as usize, steps)?;
        self.axes.begin_row();
        steps[..=inputs].fill(1);
        self.axes.push(columns, steps)?;
        self.axes.end_row()
    }

    /// Rotary embedding. Arguments: addresses of elements, cosines, sines and result, then extents, then the number of elements of a
    /// batch entry if each entry has its own tables, else 0.
    fn rope(&mut self, node: &Node, words: Words) -> Option<()> {
        let number = |at: usize| i64::from(node.int(4 + at));
        let kind = words.word(0);
        let neighbours = kind == "rope_i";
        let (batches, heads, positions, width, apart) = if kind == "rope_thd" {
            (number(0), number(2), number(1), number(3), number(4))
        } else {
            let (rows, of_row) = (number(0), number(1));
            let (width, apart) = if neighbours { (of_row, number(2)) } else { (number(2), number(3)) };
            let heads = if apart > 0 { apart.checked_div(of_row)? } else { rows };
            (rows.checked_div(heads)?, heads, of_row.checked_div(width)?, width, apart)
        };
        let batch = heads * positions * width;
        if apart != 0 && apart != batch {
            return None;
        }
        let has_heads_inside = kind == "rope_thd";
        let (head_step, position_step) =
            if has_heads_inside { (width, heads * width) } else { (positions * width, width) };
        let (half, bytes) = (width / 2, self.program.operands[0].dtype.size_bytes() as u64);
        let second = bytes * if neighbours { 1 } else { half as u64 };
        let [x, cos, sin, y] = [0, 1, 2, 3].map(|slot| node.word(slot));
        self.put_addresses([x, x + second, cos, sin, y, y + second]);
        let place = if neighbours { 2 } else { 1 };
        // For each axis its extent, the step of elements along it, and the step of the tables of angles.
        let walk = [
            (batches, batch, if apart > 0 { positions * half } else { 0 }),
            (heads, head_step, 0),
            (positions, position_step, half),
            (half, place, 1),
        ];
        // Axes in the order in which they lie in memory, outermost first.
        let order = if has_heads_inside { [0, 2, 1, 3] } else { [0, 1, 2, 3] };
        order.into_iter().try_for_each(|at| {
            let (extent, step, angle) = walk[at];
            self.axes.push(extent as usize, [step, step, angle, angle, step, step])
        })
    }

    /// An operand as a view of the memory that the launch touches.
    pub(crate) fn view<'n>(&self, operand: usize, node: &'n Node, turn: &Turn) -> Result<View<'n>, DriverError> {
        let Operand { dtype, is_row } = self.program.operands[operand];
        let rank = self.axes.extents().len();
        let (mut shape, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        let kept = if is_row { rank - 1 } else { rank };
        shape[..kept].copy_from_slice(&self.axes.extents()[..kept]);
        (0..kept).for_each(|axis| strides[axis] = self.axes.step(operand, axis));
        view(node, turn, self.addresses[operand], dtype, (&shape[..rank], &strides[..rank]))
    }

    /// An operand as a tensor that shares that memory.
    pub(crate) fn tensor(&self, operand: usize, node: &Node, turn: &Turn) -> Result<Tensor, DriverError> {
        self.view(operand, node, turn).map(|view| view.to_tensor())
    }

    /// How many operands the program has.
    pub(crate) fn operands(&self) -> usize {
        self.program.operands.len()
    }

    /// The numbers of the operands that it writes.
    pub(crate) fn outputs(&self) -> std::ops::Range<usize> {
        self.program.inputs..self.operands()
    }
}

/// A view of memory that a launch touches, from an address on. An error if the launch touches no memory there, or if the address
/// stands between two elements.
pub(crate) fn view<'n>(
    node: &'n Node,
    turn: &Turn,
    address: u64,
    dtype: DType,
    (shape, strides): (&[usize], &[i64]),
) -> Result<View<'n>, DriverError> {
    let wrong = || DriverError::new(format!("{address:#x} is no address of an {dtype} of the launch's memory"));
    // A view without elements may begin anywhere, even behind the end of the memory.
    let found = match shape.contains(&0) {
        true => node.output(turn).map(|buffer| (buffer, 0)),
        false => node.memory(address, turn),
    };
    let (buffer, first) = found.ok_or_else(wrong)?;
    let size = dtype.size_bytes() as u64;
    if !first.is_multiple_of(size) {
        return Err(wrong());
    }
    Ok(View::strided(buffer, shape, strides, (first / size) as i64, dtype)?)
}

/// The same as a tensor that shares the memory.
pub(crate) fn tensor(
    node: &Node,
    turn: &Turn,
    address: u64,
    dtype: DType,
    of: (&[usize], &[i64]),
) -> Result<Tensor, DriverError> {
    view(node, turn, address, dtype, of).map(|view| view.to_tensor())
}

/// Launches a graph over tensors.
pub(crate) fn run_over(
    stream: &Stream,
    graph: &Graph,
    extents: &[usize],
    inputs: &[View<'_>],
    scalars: &[Scalar],
    outputs: &mut [ViewMut<'_>],
) -> Result<(), DriverError> {
    run(stream, graph, extents, inputs, scalars, outputs).map_err(|error| DriverError::new(error.to_string()))
}

/// Runs the graph that a launch of Candle's asks for.
pub(crate) fn operate(node: &Node, stream: &Stream, turn: &Turn) -> Result<(), DriverError> {
    let entry = table::of(node).expect("kernels of this package are of the table");
    let read = node.was_read::<GraphLaunch>();
    let laid = if read.is_none() { GraphLaunch::laid(node, entry) } else { None };
    let Some(launch) = read.or(laid.as_ref()) else { return gathered(node, entry, stream, turn) };
    let program = launch.program;
    let (graph, extents) = (&program.graph, launch.axes.extents());
    let scalars = &launch.scalars[..program.graph.scalars().count()];
    let mut inputs = ArrayVec::<View<'_>, OPERANDS_MOST>::new();
    for operand in 0..program.inputs {
        inputs.push(launch.view(operand, node, turn)?);
    }
    let mut outputs = ArrayVec::<ViewMut<'_>, OPERANDS_MOST>::new();
    for operand in launch.outputs() {
        outputs.push(launch.view(operand, node, turn)?.writable());
    }
    run_over(stream, graph, extents, &inputs, scalars, &mut outputs)
}

/// How many lines a reduction reduces, each to one result.
fn lines(node: &Node, family: Family) -> usize {
    if family == Family::SumSmall { node.word(0) as usize } else { node.asked().grid_dim.0 as usize }
}

/// Runs a reduction whose lines lie along several axes that cannot be walked as one: a copy makes them dense first.
fn gathered(node: &Node, entry: &'static Entry, stream: &Stream, turn: &Turn) -> Result<(), DriverError> {
    let refused = || DriverError::new("elements lie along more axes than kernels walk over");
    let info = Info::of(node, 2, 3).filter(|_| matches!(entry.family, Family::Reduce | Family::SumSmall));
    let (info, program) = info.zip(entry.program(node)).ok_or_else(refused)?;
    let mut axes = Axes::default();
    let pushed = (0..info.axes).try_for_each(|axis| axes.push(info.extent(axis), [info.step(0, axis), 0, 0, 0, 0, 0]));
    pushed.ok_or_else(refused)?;
    let rank = axes.extents().len();
    let steps: Vec<i64> = (0..rank).map(|axis| axes.step(0, axis)).collect();
    let dtype = program.operands[0].dtype;
    let x = eager::copy(&tensor(node, turn, node.word(4), dtype, (axes.extents(), &steps))?);
    let x = x.map_err(|error| DriverError::new(error.to_string()))?;
    let (lines, extent) = (lines(node, entry.family), node.word(1) as usize);
    let rows = x.with_layout(Layout::contiguous(&[lines, extent])?)?;
    let first = x.with_layout(Layout::strided(&[lines, 1], &[extent as i64, 0], 0)?)?;
    let out = view(node, turn, node.word(5), dtype, (&[lines, 1], &[1, 0]))?;
    let inputs = &[rows.view(), first.view()][..program.inputs];
    run_over(stream, &program.graph, &[lines, extent], inputs, &[], &mut [out.writable()])
}

/// Extents and strides as Candle sends them: words of eight bytes, all extents first, then the strides of each operand.
struct Info<'a> {
    words: &'a [u8],
    axes: usize,
}

impl<'a> Info<'a> {
    /// Those in slot `slot`, of as many axes as slot `axes` says. `None` where Candle sends none, because everything is dense.
    fn of(node: &'a Node, axes: usize, slot: usize) -> Option<Info<'a>> {
        let info = Info { words: node.argument(slot), axes: node.word(axes) as usize };
        (info.axes > 0 && info.extent(0) > 0).then_some(info)
    }

    fn word(&self, at: usize) -> u64 {
        info_word(self.words, at)
    }

    fn extent(&self, axis: usize) -> usize {
        self.word(axis) as usize
    }

    /// The stride of an operand along an axis, in elements.
    fn step(&self, operand: usize, axis: usize) -> i64 {
        self.word((operand + 1) * self.axes + axis) as i64
    }
}

/// Word `at` of extents and strides; 0 behind their end.
pub(crate) fn info_word(info: &[u8], at: usize) -> u64 {
    info.get(8 * at..8 * at + 8).map_or(0, |word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
}
