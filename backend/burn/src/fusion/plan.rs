//! Plans: kernels as they are kept and run again, with their relative tensors, how these are read and written, and the graphs.

use std::borrow::Cow;

use burn_ir::TensorId;
use rocfire_fusion::{Binary, Compare, Graph, Kind as Varying, Node, Scalar, Value};
use rocfire_hal::DType;

use super::arrange::{Arrangement, Turn};
use super::axes::{Axis, Frame};
use super::convolution::{Convolution, Window};
use super::laid::Kept;
use super::trace::{EntryId, Number, Origin, Trace};
use super::view::ViewOp;

/// The kind of a kernel. The names are Burn's, whose tools and tests compare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is no reduction.
    ElementWise,
    /// One reduction, and only its rows are written.
    Reduce,
    /// Several reductions, or one and elements that are written.
    ReduceBroadcasted,
    /// A matrix product and what is computed of its elements.
    Matmul,
    /// A convolution and what is computed of its elements.
    Convolution,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::ElementWise => "ElementWise",
            Kind::Reduce => "Reduce",
            Kind::ReduceBroadcasted => "ReduceBroadcasted",
            Kind::Matmul => "Matmul",
            Kind::Convolution => "Convolution",
        }
    }
}

/// For each axis of a tensor, the numbers of its primitive axes in [`Kernel::axes`]; several where the tensor has them merged.
pub(super) type AxisMap = Vec<Vec<usize>>;

/// A tensor that is in memory before the plan runs.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) id: TensorId,
    /// Whether the plan is the last to use it.
    pub(super) consumed: bool,
}

/// A view that the plan makes. The tensors that a plan starts from are its bases: the sources, and then these views, in order.
#[derive(Clone, Debug)]
pub(super) struct DerivedView {
    /// The number of the base that it is a view of.
    pub(super) from: usize,
    pub(super) by: ViewOp,
    pub(super) id: TensorId,
    /// Whether the view outlives the plan, so that it needs a handle.
    pub(super) live: bool,
}

/// An input of the graph.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// The number of the base that is read.
    pub(super) base: usize,
    pub(super) map: AxisMap,
    /// Whether it has one element per row.
    pub(super) per_row: bool,
    /// The axis of the tensor that the graph looks up along; `None` if it is read element by element.
    pub(super) free: Option<usize>,
    /// How it runs along the row, if it does not have the row's axes side by side.
    pub(super) turn: Option<Turn>,
}

/// An output of the graph.
#[derive(Clone, Debug)]
pub(super) struct Output {
    /// Its axes as they lie in memory, slowest first.
    pub(super) memory: Vec<usize>,
    /// Whether it has one element per row.
    pub(super) per_row: bool,
    /// The tensors that share its memory.
    pub(super) tensors: Vec<(TensorId, AxisMap)>,
    /// Whether it is written in a narrower type than the one that Burn knows these tensors by (`narrow`).
    pub(super) is_narrow: bool,
    /// For an output per row, Burn's name of a reduction in it that has no answer for a row without elements.
    pub(super) without_answer: Option<Cow<'static, str>>,
}

/// The product or convolution whose elements are the graph's first input. They are computed by the kernel, and not read from memory.
#[derive(Clone, Debug)]
pub(super) struct Multiply {
    /// The number of the base that is the left factor, or a convolution's input.
    pub(super) lhs: usize,
    /// The number of the base that is the right factor, or a convolution's weight.
    pub(super) rhs: usize,
    /// The axes of the result: batches, rows and columns, or batch, channels and space of a convolution.
    pub(super) dims: AxisMap,
    /// `None` for a matrix product.
    pub(super) convolution: Option<Convolve>,
}

/// What a convolution has besides its input and weight.
#[derive(Clone, Debug)]
pub(super) struct Convolve {
    pub(super) window: Window,
    /// The number of the base that is the bias, if there is one.
    pub(super) bias: Option<usize>,
}

/// One launch. Extents are read from the real tensors when it runs, so that it serves every shape.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) kind: Kind,
    /// How many launches its operations would be one by one.
    pub(super) launches: usize,
    /// The product or convolution that the graph follows, if there is one.
    pub(super) product: Option<Multiply>,
    /// The graph's inputs without a product's elements.
    pub(super) inputs: Vec<Input>,
    /// What the graph's scalars are, in their order.
    pub(super) scalars: Vec<Number>,
    pub(super) outputs: Vec<Output>,
    /// For each primitive axis a tensor, and the axis of it that has its extent.
    pub(super) axes: Vec<(TensorId, usize)>,
    /// Numbers of the axes of the iteration space without those of the row, slowest first.
    pub(super) outer: Vec<usize>,
    /// Numbers of the row's axes, which are merged into the space's last axis.
    pub(super) row: Vec<usize>,
    /// How many of these come before the cut, 0 if the row is not cut ([`Turn`]).
    pub(super) cut: usize,
    pub(super) graph: Graph,
    /// For a row that is cut: the graph and its scalars for a run in which every tensor runs along the row in one stride all the same.
    pub(super) whole: Option<Box<(Graph, Vec<Number>)>>,
    /// What was worked out when it last ran.
    pub(super) laid: Kept,
}

/// The kernels of one trace.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The kind of the kernel that replaces most launches.
    pub(super) kind: Kind,
    pub(super) sources: Vec<Source>,
    pub(super) steps: Vec<DerivedView>,
    /// The launches. They share no tensor, so their order does not matter.
    pub(super) kernels: Vec<Kernel>,
}

impl Kernel {
    /// The graph and its scalars; `is_whole` says that every tensor runs along the row in one stride.
    pub(super) fn graph(&self, is_whole: bool) -> (&Graph, &[Number]) {
        match &self.whole {
            Some(whole) if is_whole => (&whole.0, &whole.1),
            _ => (&self.graph, &self.scalars),
        }
    }
}

impl Plan {
    /// The number of the source that a base is, or of which it is a view.
    pub(super) fn source_of(&self, mut base: usize) -> usize {
        while let Some(step) = base.checked_sub(self.sources.len()) {
            base = self.steps[step].from;
        }
        base
    }
}

/// The numbers of the bases that a kernel's product or convolution reads.
pub(super) fn operands(kernel: &Kernel) -> impl Iterator<Item = usize> + '_ {
    kernel.product.iter().flat_map(|product| {
        let bias = product.convolution.as_ref().and_then(|convolution| convolution.bias);
        [Some(product.lhs), Some(product.rhs), bias].into_iter().flatten()
    })
}

/// The plan of a trace.
pub(super) fn plan(trace: &Trace, arrangements: &[Arrangement]) -> Plan {
    let bases = Bases::new(trace, arrangements);
    let written = arrangements.iter().filter(|arrangement| !arrangement.stores.is_empty());
    let kernels: Vec<Kernel> = written.map(|arrangement| kernel(trace, arrangement, &bases)).collect();
    let largest = kernels.iter().max_by_key(|kernel| kernel.launches);
    Plan {
        kind: largest.map_or(Kind::ElementWise, |kernel| kernel.kind),
        sources: bases.sources,
        steps: bases.steps,
        kernels,
    }
}

fn kernel(trace: &Trace, arrangement: &Arrangement, bases: &Bases) -> Kernel {
    let axes: Vec<Axis> = arrangement.outer.iter().chain(&arrangement.row).copied().collect();
    let number = |axis: &Axis| axes.iter().position(|known| known == axis).expect("every axis is in the space");
    let map = |frame: &Frame| -> AxisMap {
        frame.groups().iter().map(|group| group.axes().iter().map(number).collect()).collect()
    };
    let inputs = trace.needed_reads(&arrangement.needed).map(|(value, read)| Input {
        base: bases.number(read.entry),
        map: map(&read.frame),
        per_row: arrangement.kinds[value.at()] == Varying::Row,
        free: read.free.map(usize::from),
        turn: arrangement.turn(&read.frame),
    });
    let outputs = arrangement.stores.iter().map(|store| Output {
        memory: store.memory.iter().map(number).collect(),
        per_row: store.kind == Varying::Row,
        tensors: store.tensors.iter().map(|(at, frame)| (trace.entries[usize::from(*at)].id, map(frame))).collect(),
        is_narrow: trace.entries[usize::from(store.tensors[0].0)].dtype != trace.dtype(store.node),
        // An output with an element for each element of the row has none if the row is empty, so nothing is missing there.
        without_answer: (store.kind == Varying::Row)
            .then(|| trace.without_answer(store.node))
            .flatten()
            .map(Cow::Borrowed),
    });
    let place = |axis: &Axis| {
        let place = trace.axes[usize::from(*axis)];
        (place.tensor, usize::from(place.dim))
    };
    let product = trace.product_of(arrangement).map(|product| Multiply {
        lhs: bases.number(product.lhs),
        rhs: bases.number(product.rhs),
        dims: map(&trace.product_frame(product)),
        convolution: product
            .convolution
            .map(|Convolution { window, bias }| Convolve { window, bias: bias.map(|bias| bases.number(bias)) }),
    });
    let whole = (arrangement.cut > 0).then(|| {
        let arrangement = Arrangement { cut: 0, ..arrangement.clone() };
        Box::new(graph(trace, &arrangement))
    });
    let (graph, scalars) = graph(trace, arrangement);
    Kernel {
        kind: kind(trace, arrangement),
        launches: trace.part(arrangement.root).launches,
        product,
        inputs: inputs.collect(),
        scalars,
        outputs: outputs.collect(),
        axes: axes.iter().map(place).collect(),
        outer: (0..arrangement.outer.len()).collect(),
        row: (arrangement.outer.len()..axes.len()).collect(),
        cut: arrangement.cut,
        graph,
        whole,
        laid: Kept::default(),
    }
}

fn kind(trace: &Trace, arrangement: &Arrangement) -> Kind {
    if let Some(product) = trace.product_of(arrangement) {
        return if product.convolution.is_some() { Kind::Convolution } else { Kind::Matmul };
    }
    let nodes = trace.needed_nodes(&arrangement.needed);
    let reductions = nodes.filter(|(_, node)| matches!(node, Node::Reduce(..))).count();
    let only_rows = arrangement.stores.iter().all(|store| store.kind == Varying::Row);
    match reductions {
        0 => Kind::ElementWise,
        1 if only_rows => Kind::Reduce,
        _ => Kind::ReduceBroadcasted,
    }
}

/// The sources and views that a plan fetches, with their numbers as bases.
struct Bases {
    sources: Vec<Source>,
    steps: Vec<DerivedView>,
    /// For each entry of the trace its number as a base, if it is one.
    numbers: Vec<Option<usize>>,
}

impl Bases {
    fn new(trace: &Trace, arrangements: &[Arrangement]) -> Bases {
        let mut wanted = vec![false; trace.entries.len()];
        let read = arrangements.iter().flat_map(|arrangement| trace.needed_reads(&arrangement.needed));
        let products = arrangements.iter().filter_map(|arrangement| trace.product_of(arrangement));
        let operands = products.flat_map(|product| {
            [Some(product.lhs), Some(product.rhs), product.convolution.and_then(|convolution| convolution.bias)]
        });
        for root in read.map(|(_, read)| read.entry).chain(operands.flatten()).chain(trace.live_views()) {
            wanted[usize::from(root)] = true;
        }
        for at in (0..trace.entries.len()).rev() {
            if let (true, Origin::View { of, .. }) = (wanted[at], &trace.entries[at].origin) {
                wanted[usize::from(*of)] = true;
            }
        }
        let mut bases = Bases { sources: vec![], steps: vec![], numbers: vec![None; trace.entries.len()] };
        for (at, entry) in trace.entries.iter().enumerate().filter(|(at, _)| wanted[*at]) {
            if entry.origin == Origin::Source {
                bases.numbers[at] = Some(bases.sources.len());
                bases.sources.push(Source { id: entry.id, consumed: entry.consumed });
            }
        }
        for (at, entry) in trace.entries.iter().enumerate().filter(|(at, _)| wanted[*at]) {
            if let Origin::View { of, by } = &entry.origin {
                let from = bases.number(*of);
                bases.numbers[at] = Some(bases.sources.len() + bases.steps.len());
                bases.steps.push(DerivedView { from, by: by.clone(), id: entry.id, live: !entry.consumed });
            }
        }
        bases
    }

    fn number(&self, entry: EntryId) -> usize {
        self.numbers[usize::from(entry)].expect("what is read or viewed was numbered before")
    }
}

/// The needed nodes as a graph, and its scalars.
fn graph(trace: &Trace, arrangement: &Arrangement) -> (Graph, Vec<Number>) {
    let mut graph = Graph::new(kind(trace, arrangement).name());
    let mut scalars: Vec<Number> = Vec::new();
    // The extent of the row's inner side, once it was needed.
    let mut inner: Option<Value> = None;
    let is_needed = |value: Value| arrangement.needed[value.at()];
    let values = graph.copy(&trace.graph, is_needed, |graph, value, node, dtype| match node {
        Node::Scalar(number) => {
            scalars.push(trace.numbers[number as usize]);
            None
        }
        Node::Index(number) => {
            let axes = trace.coordinates[number as usize].axes();
            Some(coordinate(trace, arrangement, axes, graph, &mut scalars))
        }
        Node::Input(_) if arrangement.kinds[value.at()] == Varying::Row => Some(graph.row_input(dtype)),
        Node::Input(_) => {
            let turn = arrangement.turn(&trace.read_by(node)?.frame)?;
            let inner = *inner.get_or_insert_with(|| inner_extent(trace, arrangement, graph, &mut scalars));
            let here = graph.index(0);
            let side = if turn == Turn::Inner { Binary::Rem } else { Binary::Div };
            let index = graph.binary(side, here, inner);
            Some(graph.lookup(dtype, index))
        }
        _ => None,
    });
    for store in &arrangement.stores {
        let value = values[store.node.at()];
        let widened = match (arrangement.kinds[store.node.at()], store.kind) {
            (Varying::Row, Varying::Full) => widen(&mut graph, value),
            _ => value,
        };
        graph.output(widened);
    }
    (graph, scalars)
}

/// The extent of the inner side of a row that is cut, as a value of the graph.
fn inner_extent(trace: &Trace, arrangement: &Arrangement, graph: &mut Graph, scalars: &mut Vec<Number>) -> Value {
    let mut whole: Option<Value> = None;
    for axis in &arrangement.row[arrangement.cut..] {
        let place = trace.axes[usize::from(*axis)];
        scalars.push(Number::Extent(place.tensor, place.dim));
        let extent = graph.scalar(DType::I64);
        whole = Some(whole.map_or(extent, |outer| graph.binary(Binary::Mul, outer, extent)));
    }
    whole.expect("a row is cut between two of its axes")
}

/// Makes a value per row one per element. A graph stores a value per row once, but here the tensor has it in every element.
fn widen(graph: &mut Graph, value: Value) -> Value {
    let index = graph.index(0);
    let zero = graph.constant(DType::I64, Scalar::Int(0));
    let always = graph.compare(Compare::Ge, index, zero);
    let otherwise = graph.constant(graph.dtype(value), Scalar::Int(0));
    graph.select(always, value, otherwise)
}

/// The coordinate along a group of axes: all axes of the row, or axes outside it.
fn coordinate(
    trace: &Trace,
    arrangement: &Arrangement,
    axes: &[Axis],
    graph: &mut Graph,
    scalars: &mut Vec<Number>,
) -> Value {
    if axes == arrangement.row {
        return graph.index(0);
    }
    let mut whole: Option<Value> = None;
    for axis in axes {
        let here = graph.index(axis_from_last(arrangement, std::slice::from_ref(axis)));
        whole = Some(match whole {
            None => here,
            Some(outer) => {
                let place = trace.axes[usize::from(*axis)];
                scalars.push(Number::Extent(place.tensor, place.dim));
                let extent = graph.scalar(DType::I64);
                let scaled = graph.binary(Binary::Mul, outer, extent);
                graph.binary(Binary::Add, scaled, here)
            }
        });
    }
    whole.unwrap_or_else(|| graph.constant(DType::I64, Scalar::Int(0)))
}

fn axis_from_last(arrangement: &Arrangement, axes: &[Axis]) -> usize {
    if axes == arrangement.row {
        return 0;
    }
    let from_last = arrangement.outer.iter().rev().position(|axis| axes == [*axis]);
    from_last.expect("the arrangement has checked that the axis is one") + usize::from(!arrangement.row.is_empty())
}
