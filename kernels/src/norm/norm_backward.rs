//! `norm_backward`: the gradients of [`norm`](super::norm()).
//!
//! Rows of 1032 to 8192 columns (4096 of f32) that lie so that a lane reads 16 bytes, when the gradients of weight or bias are
//! wanted: `norm_backward.hip`, which reads each element once. A workgroup takes some rows one after another and adds up what
//! each column has; a second launch adds up the workgroups'.
//!
//! Others, two steps that are graphs of `fusion`. Rows: the gradient of `x`, in one launch that computes the statistics again, and
//! with them. Columns: the gradients of weight and bias, which sum over rows, in parts that different workgroups add up.

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::{Graph, Reduce, Scalar};
use rocfire_hal::{DType, MAX_RANK, Source, Stream, Tensor, View, ViewMut};

use super::norm::{self, NormKind, NormParams, Normal, factor};
use crate::Result;
use crate::family::{self, KernelLaunch, Sources, c_type, shape};
use crate::gate::Activation;
use crate::graphs::{self, Graphs, Inputs, Maker, reshaped, same_shape, wide};

const OP: &str = "norm_backward";
/// Rows of a part at least, and parts at most, of the sums over rows.
const PART_ROWS_LEAST: usize = 128;
const PARTS_MOST: usize = 64;

/// Columns of a lane's run: `RUN_ELEMENTS` of `run.h`.
const RUN: usize = 8;
/// Columns up to which rows go to waves of the graphs' kernels, several to a workgroup.
const NARROW_MOST: usize = 1024;
/// Workgroups of the kernel that reads each element once, at most: two of the largest for each unit of the card that it was
/// measured on (H200, `bench-ops`, 8192x4096: 512 take 0.010 ms more, which is what they write).
const GROUPS_MOST: usize = 256;
/// Rows of such a workgroup, at least, so that it reads more than it writes.
const GROUP_ROWS_LEAST: usize = 4;
/// Waves of a workgroup that adds up parts: `NORM_PART_WAVES`.
const PART_WAVES: usize = 16;

/// How a workgroup of that kernel has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    threads: usize,
    runs: usize,
    /// Whether a row is read while the one before is summed up, where there are registers for it.
    ahead: bool,
    /// Workgroups of a compute unit that the registers of a lane are to leave room for.
    groups: usize,
}

impl Tile {
    const fn new(threads: usize, runs: usize, ahead: bool, groups: usize) -> Tile {
        Tile { threads, runs, ahead, groups }
    }

    /// The smallest that holds a row.
    fn of(dtype: DType, cols: usize) -> Option<Tile> {
        let tiles: &[Tile] = match dtype.size_bytes() {
            2 => &HALF_TILES,
            _ => &FLOAT_TILES,
        };
        tiles.iter().copied().find(|tile| cols <= tile.threads * tile.runs * RUN)
    }
}

/// For elements of 16 bits.
const HALF_TILES: [Tile; 3] = [Tile::new(256, 1, true, 2), Tile::new(256, 2, true, 2), Tile::new(512, 2, false, 1)];
/// For f32.
const FLOAT_TILES: [Tile; 2] = [Tile::new(256, 1, true, 2), Tile::new(256, 2, false, 2)];

/// Where gradients go.
#[derive(Debug)]
pub struct NormGradients<'a> {
    /// Of `x`, and of the residual, which is the same: `[.., cols]`.
    pub x: ViewMut<'a>,
    /// Of the weight, `[cols]`, its type.
    pub weight: Option<ViewMut<'a>>,
    /// Of the bias, `[cols]`, its type.
    pub bias: Option<ViewMut<'a>>,
    /// Of the gate: of `x`'s shape and type.
    pub gate: Option<ViewMut<'a>>,
}

/// Gradients of [`norm`](super::norm()).
///
/// # Shapes
/// `x`: what was normalised, which with a residual is the sum (so `params.residual` is `None` here); `dy`: the gradient of `y`;
/// `d_sum`: the gradient that comes back along the residual, added to that of `x`. All `[.., cols]` of one type, any strides.
/// # Numerics
/// In f32 (f64 for f64), one rounding at the store. Sums over rows are in parts whose number follows from the number of rows, in an
/// order that follows from shape, types and layout.
/// # Errors
/// `Shape` for shapes, types or memory that do not fit, also for a gradient of what is not there; `Unsupported` for what is no
/// float; errors of compilation and launch.
pub fn norm_backward(
    stream: &Stream,
    x: View<'_>,
    params: &NormParams<'_>,
    dy: View<'_>,
    d_sum: Option<View<'_>>,
    gradients: NormGradients<'_>,
) -> Result<()> {
    check(stream, &x, params, &dy, d_sum.as_ref(), &gradients)?;
    if let Some(once) = Once::new(&x, params, &dy, d_sum.as_ref(), &gradients) {
        return once.launch(stream, gradients);
    }
    let NormGradients { x: dx, weight: d_weight, bias: d_bias, gate: d_gate } = gradients;
    let sums = d_weight.is_some() || d_bias.is_some();
    let key = RowsKey {
        kind: params.kind,
        x: x.dtype(),
        weight: params.weight.map(|view| view.dtype()),
        one_plus: params.one_plus,
        bias: params.bias.filter(|_| d_gate.is_some()).map(|view| view.dtype()),
        gate: params.gate.map(|(activation, _)| activation),
        d_gate: d_gate.is_some(),
        d_sum: d_sum.is_some(),
        statistics: sums,
    };
    let gate = params.gate.map(|(_, gate)| gate);
    let mut inputs = Inputs::<6>::new(x);
    inputs.push(Some(dy));
    inputs.push(params.weight);
    inputs.push(params.bias.filter(|_| d_gate.is_some()));
    inputs.push(gate);
    inputs.push(d_sum);
    static ROWS: Graphs<RowsKey> = Graphs::new();
    let graph = ROWS.get(key, rows_graph);
    let scalars = [Scalar::Float(params.epsilon)];
    let statistics = if sums { Some(Statistics::new(&x, params.kind)?) } else { None };
    let Some(mut statistics) = statistics else {
        return match d_gate {
            Some(d_gate) => graphs::run(stream, &graph, x.shape(), inputs.views(), &scalars, &mut [dx, d_gate]),
            None => graphs::run(stream, &graph, x.shape(), inputs.views(), &scalars, &mut [dx]),
        };
    };
    let inverse = statistics.inverse.view_mut();
    let mean = statistics.mean.as_mut().map(Tensor::view_mut);
    let (space, views) = (x.shape(), inputs.views());
    match (d_gate, mean) {
        (Some(gate), Some(mean)) => {
            graphs::run(stream, &graph, space, views, &scalars, &mut [dx, gate, inverse, mean])?
        }
        (Some(gate), None) => graphs::run(stream, &graph, space, views, &scalars, &mut [dx, gate, inverse])?,
        (None, Some(mean)) => graphs::run(stream, &graph, space, views, &scalars, &mut [dx, inverse, mean])?,
        (None, None) => graphs::run(stream, &graph, space, views, &scalars, &mut [dx, inverse])?,
    }
    sum_rows(stream, x, dy, params, &statistics, d_weight, d_bias)
}

fn check(
    stream: &Stream,
    x: &View<'_>,
    params: &NormParams<'_>,
    dy: &View<'_>,
    d_sum: Option<&View<'_>>,
    gradients: &NormGradients<'_>,
) -> Result<()> {
    norm::check(OP, stream, x, params)?;
    if params.residual.is_some() {
        return Err(shape(OP, "residual", "none: `x` is the sum", "a residual"));
    }
    for (arg, view) in [("dy", Some(dy)), ("d_sum", d_sum)] {
        if let Some(view) = view {
            family::on_device(OP, arg, stream, view)?;
            family::same_dtype(OP, arg, view, x.dtype())?;
            same_shape(OP, arg, view, x.shape())?;
        }
    }
    let gate = params.gate.map(|(_, gate)| gate);
    let outputs = [
        ("gradients.x", Some(&gradients.x), Some(*x)),
        ("gradients.gate", gradients.gate.as_ref(), gate),
        ("gradients.weight", gradients.weight.as_ref(), params.weight),
        ("gradients.bias", gradients.bias.as_ref(), params.bias),
    ];
    let read = [Some(*x), Some(*dy), d_sum.copied(), gate, params.weight, params.bias];
    check_gradients(OP, stream, &outputs, &read)
}

/// A gradient that may be wanted: its argument, where it goes, and the tensor that it is of.
pub(super) type Wanted<'a> = (&'static str, Option<&'a ViewMut<'a>>, Option<View<'a>>);

/// Gradients must be as what they are of, and apart from all that is `read` and from each other.
pub(super) fn check_gradients(
    op: &'static str,
    stream: &Stream,
    wanted: &[Wanted<'_>],
    read: &[Option<View<'_>>],
) -> Result<()> {
    for (number, (arg, output, of)) in wanted.iter().enumerate() {
        let Some(output) = output else { continue };
        let Some(of) = of else { return Err(shape(op, arg, "none, as there is nothing that it is of", "a gradient")) };
        family::on_device(op, arg, stream, output)?;
        family::same_dtype(op, arg, output, of.dtype())?;
        same_shape(op, arg, output, of.shape())?;
        family::writable(op, arg, output)?;
        for view in read.iter().flatten() {
            family::disjoint(op, arg, output, view)?;
        }
        for (_, other, _) in &wanted[..number] {
            if let Some(other) = other {
                family::disjoint(op, arg, output, other)?;
            }
        }
    }
    Ok(())
}

/// A call that the kernel takes which reads each element once.
struct Once {
    key: OnceKey,
    args: NormArgs,
    parts: usize,
}

impl Once {
    /// `None` where tensors lie otherwise, and where no sums over rows are wanted: the graph of rows reads each element once too.
    fn new(
        x: &View<'_>,
        params: &NormParams<'_>,
        dy: &View<'_>,
        d_sum: Option<&View<'_>>,
        gradients: &NormGradients<'_>,
    ) -> Option<Once> {
        let cols = *x.shape().last()?;
        let rows: usize = x.shape()[..x.shape().len() - 1].iter().product();
        let (d_weight, d_bias) = (gradients.weight.as_ref(), gradients.bias.as_ref());
        let narrow = |dtype: DType| dtype.is_float() && dtype != DType::F64;
        let served = narrow(x.dtype())
            && params.gate.is_none()
            && (d_weight.is_some() || d_bias.is_some())
            && cols > NARROW_MOST
            && cols.is_multiple_of(RUN)
            && rows > 0
            && u32::try_from(rows).is_ok()
            && d_bias.is_none_or(|view| narrow(view.dtype()))
            && params.weight.is_none_or(|weight| narrow(weight.dtype()) && of_runs(&weight, &[1, cols]).is_some());
        if !served {
            return None;
        }
        let tile = Tile::of(x.dtype(), cols)?;
        let row = |view: &View<'_>| of_runs(view, &[rows, cols]);
        let weight_dtype = params.weight.map_or(DType::F32, |weight| weight.dtype());
        let per = rows.div_ceil(GROUPS_MOST).max(GROUP_ROWS_LEAST);
        let key = OnceKey {
            x: x.dtype(),
            weight: weight_dtype,
            bias: d_bias.map_or(DType::F32, |view| view.dtype()),
            tile,
            layer: params.kind == NormKind::Layer,
            weighted: usize::from(params.weight.is_some()) + usize::from(params.one_plus),
            d_sum: d_sum.is_some(),
            sums: usize::from(d_weight.is_some()) + 2 * usize::from(d_bias.is_some()),
        };
        let args = NormArgs {
            x: x.device_address(),
            dy: dy.device_address(),
            d_sum: d_sum.map_or(0, |view| view.device_address()),
            weight: params.weight.map_or(0, |view| view.device_address()),
            dx: gradients.x.device_address(),
            weight_parts: 0,
            bias_parts: 0,
            x_row: row(x)?,
            dy_row: row(dy)?,
            d_sum_row: d_sum.map_or(Some(0), row)?,
            dx_row: row(&gradients.x)?,
            rows: rows as u32,
            per: per as u32,
            cols: cols as u32,
            epsilon: params.epsilon as f32,
            share: (1.0 / cols as f64) as f32,
            unused: 0,
        };
        Some(Once { key, args, parts: rows.div_ceil(per) })
    }

    fn launch(self, stream: &Stream, gradients: NormGradients<'_>) -> Result<()> {
        let Once { key, mut args, parts } = self;
        let NormGradients { x: dx, weight: d_weight, bias: d_bias, gate: _ } = gradients;
        let cols = args.cols as usize;
        let sums = |wanted: bool| wanted.then(|| Tensor::empty(dx.device(), &[parts, cols], DType::F32)).transpose();
        let (weights, biases) = (sums(d_weight.is_some())?, sums(d_bias.is_some())?);
        let address = |tensor: &Option<Tensor>| tensor.as_ref().map_or(0, |tensor| tensor.view().device_address());
        (args.weight_parts, args.bias_parts) = (address(&weights), address(&biases));
        static SOURCES: Sources<OnceKey> = Sources::new();
        let source = SOURCES.get(key, source);
        let [of_weights, of_biases] = [&weights, &biases].map(|sum| sum.as_ref().map_or(dx.buffer(), Tensor::buffer));
        let written = [dx.buffer(), of_weights, of_biases];
        let block = [key.tile.threads, 1, 1];
        // SAFETY:
        // - `NormArgs` is the twin of the kernel's struct, sizes asserted on both sides; rows and columns are those of the checked
        //   views, whose rows are whole runs at multiples of 16 bytes (`of_runs`), and of the parts made here.
        // - The kernel writes `dx` and the parts.
        unsafe {
            KernelLaunch::new(stream, &source, (OP, "norm_backward"), [parts, 1, 1], block).run(&args, &written)?
        };
        let step = |view: &Option<ViewMut<'_>>| view.as_ref().map_or(0, |view| view.layout().strides()[0]);
        let to = |view: &Option<ViewMut<'_>>| view.as_ref().map_or(0, |view| view.device_address());
        let args = PartsArgs {
            weight_parts: args.weight_parts,
            bias_parts: args.bias_parts,
            d_weight: to(&d_weight),
            d_bias: to(&d_bias),
            weight_step: step(&d_weight),
            bias_step: step(&d_bias),
            parts: parts as u32,
            cols: args.cols,
        };
        let outputs = [d_weight.as_ref(), d_bias.as_ref()];
        let mut written = outputs.into_iter().flatten().map(|view| view.buffer());
        let Some(first) = written.next() else { return Ok(()) };
        let written = [first, written.next().unwrap_or(first)];
        let wave = stream.device().arch().info().wave_size as usize;
        let grid = [cols.div_ceil(wave), 1, 1];
        // SAFETY:
        // - `PartsArgs` is the twin of the kernel's struct, sizes asserted on both sides; the parts are those just written, the
        //   gradients have been checked to have `cols` elements.
        // - The kernel writes the gradients of weight and bias.
        unsafe {
            KernelLaunch::new(stream, &source, (OP, "norm_parts"), grid, [wave, PART_WAVES, 1]).run(&args, &written)
        }
    }
}

/// The elements from row to row of a tensor that is `[rows, cols]` with its rows' elements side by side and aligned to 16 bytes.
fn of_runs(view: &View<'_>, shape: &[usize; 2]) -> Option<i64> {
    let layout = view.layout().reshape(shape)?;
    let (bytes, [row, col]) = (view.dtype().size_bytes() as i64, [layout.strides()[0], layout.strides()[1]]);
    let aligned = view.device_address().is_multiple_of(16) && (shape[0] == 1 || row * bytes % 16 == 0);
    (col == 1 && aligned).then_some(row)
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OnceKey {
    x: DType,
    weight: DType,
    /// Of the bias's gradient.
    bias: DType,
    tile: Tile,
    layer: bool,
    /// 0 no weight, 1 a weight, 2 one more than it.
    weighted: usize,
    d_sum: bool,
    /// 1 of the weight, 2 of the bias, 3 of both.
    sums: usize,
}

fn source(key: OnceKey) -> Source {
    let numbers = [
        ("NORM_THREADS", key.tile.threads),
        ("NORM_RUNS", key.tile.runs),
        ("NORM_AHEAD", usize::from(key.tile.ahead)),
        ("NORM_GROUPS", key.tile.groups),
        ("NORM_LAYER", usize::from(key.layer)),
        ("NORM_WEIGHTED", key.weighted),
        ("NORM_D_SUM", usize::from(key.d_sum)),
        ("NORM_SUMS", key.sums),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [
        ("NORM_X", c_type(key.x)),
        ("NORM_WEIGHT", c_type(key.weight)),
        ("NORM_TO_WEIGHT", c_type(key.weight)),
        ("NORM_TO_BIAS", c_type(key.bias)),
    ];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new("norm_backward", concat!(include_str!("../run.h"), include_str!("norm_backward.hip")), &defines)
}

/// Its rows of the registry: every tile, both kinds, what else varies in turn.
pub(crate) fn sources(x: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let tiles: &[Tile] = match x {
        DType::F32 => &FLOAT_TILES,
        DType::F16 | DType::BF16 => &HALF_TILES,
        _ => &[],
    };
    tiles.iter().enumerate().flat_map(move |(number, &tile)| {
        [false, true].into_iter().enumerate().map(move |(kind, layer)| {
            let turn = number + kind;
            let weight = if turn % 2 == 0 { x } else { DType::F32 };
            let d_sum = turn % 3 != 0;
            let key = OnceKey { x, weight, bias: x, tile, layer, weighted: 1 + turn % 2, d_sum, sums: 3 };
            ("norm_backward", source(key))
        })
    })
}

/// `NormArgs` of `norm_backward.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct NormArgs {
    x: u64,
    dy: u64,
    d_sum: u64,
    weight: u64,
    dx: u64,
    weight_parts: u64,
    bias_parts: u64,
    x_row: i64,
    dy_row: i64,
    d_sum_row: i64,
    dx_row: i64,
    rows: u32,
    per: u32,
    cols: u32,
    epsilon: f32,
    share: f32,
    unused: u32,
}

/// `PartsArgs` of `norm_backward.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PartsArgs {
    weight_parts: u64,
    bias_parts: u64,
    d_weight: u64,
    d_bias: u64,
    weight_step: i64,
    bias_step: i64,
    parts: u32,
    cols: u32,
}

const _: () = assert!(size_of::<NormArgs>() == 112 && size_of::<PartsArgs>() == 56);

/// What a row was divided by, kept from one step to the next.
struct Statistics {
    inverse: Tensor,
    mean: Option<Tensor>,
}

impl Statistics {
    fn new(x: &View<'_>, kind: NormKind) -> Result<Statistics> {
        let mut rows = [1; MAX_RANK];
        let rank = x.shape().len();
        rows[..rank - 1].copy_from_slice(&x.shape()[..rank - 1]);
        let tensor = || Tensor::empty(x.device(), &rows[..rank], wide(x.dtype()));
        let mean = if kind == NormKind::Layer { Some(tensor()?) } else { None };
        Ok(Statistics { inverse: tensor()?, mean })
    }
}

/// What varies in the graph of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RowsKey {
    kind: NormKind,
    x: DType,
    weight: Option<DType>,
    one_plus: bool,
    bias: Option<DType>,
    gate: Option<Activation>,
    d_gate: bool,
    d_sum: bool,
    statistics: bool,
}

/// With `g = dy · activation(gate) · weight` and the normal `n`: `dx = inverse · (g - n · mean(g n) - mean(g))`, the last for
/// LayerNorm only.
fn rows_graph(key: RowsKey) -> Graph {
    let make = Maker::new(OP, wide(key.x));
    let x = make.input(key.x);
    let mut g = make.input(key.x);
    let weight = key.weight.map(|dtype| factor(&make, dtype, key.one_plus));
    let bias = key.bias.map(|dtype| make.input(dtype));
    let gate = key.gate.map(|activation| (activation, make.input(key.x)));
    let d_sum = key.d_sum.then(|| make.input(key.x));
    let normal = Normal::new(key.kind, x, make.scalar());
    let mut d_gate = None;
    if let Some((activation, gate)) = gate {
        let (value, slope) = activation.both(make.precision, gate);
        if key.d_gate {
            let y = weight.map_or(normal.value, |weight| normal.value * weight);
            let y = bias.map_or(y, |bias| y + bias);
            d_gate = Some(g * y * slope);
        }
        g = g * value;
    }
    g = weight.map_or(g, |weight| g * weight);
    let along = (g * normal.value).reduce(Reduce::Mean);
    let mut dx = g - normal.value * along;
    if key.kind == NormKind::Layer {
        dx = dx - g.reduce(Reduce::Mean);
    }
    dx = dx * normal.inverse;
    make.output(d_sum.map_or(dx, |d_sum| dx + d_sum), key.x);
    if let Some(d_gate) = d_gate {
        make.output(d_gate, key.x);
    }
    if key.statistics {
        [Some(normal.inverse), normal.mean].into_iter().flatten().for_each(|term| make.draft.output(term));
    }
    make.finish()
}

/// What varies in the graph of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ColumnsKey {
    kind: NormKind,
    x: DType,
    gate: Option<Activation>,
    /// The types in which the sums are stored.
    weight: Option<DType>,
    bias: Option<DType>,
}

/// The sums over rows of `dy · activation(gate) · n` and of `dy · activation(gate)`.
fn columns_graph(key: ColumnsKey) -> Graph {
    let make = Maker::new("norm_columns", wide(key.x));
    let x = make.input(key.x);
    let mut g = make.input(key.x);
    let inverse = make.input(wide(key.x));
    let mean = (key.kind == NormKind::Layer).then(|| make.input(wide(key.x)));
    if let Some(activation) = key.gate {
        g = g * activation.value(make.precision, make.input(key.x));
    }
    if let Some(dtype) = key.weight {
        let normal = mean.map_or(x, |mean| x - mean) * inverse;
        make.output((g * normal).reduce(Reduce::Sum), dtype);
    }
    if let Some(dtype) = key.bias {
        make.output(g.reduce(Reduce::Sum), dtype);
    }
    make.finish()
}

/// How many parts sums over so many rows are cut into: a power of two that divides them.
fn parts_of(rows: usize) -> usize {
    let mut parts = 1;
    while parts < PARTS_MOST && rows.is_multiple_of(2 * parts) && rows / (2 * parts) >= PART_ROWS_LEAST {
        parts *= 2;
    }
    parts
}

fn sum_rows(
    stream: &Stream,
    x: View<'_>,
    dy: View<'_>,
    params: &NormParams<'_>,
    statistics: &Statistics,
    d_weight: Option<ViewMut<'_>>,
    d_bias: Option<ViewMut<'_>>,
) -> Result<()> {
    let cols = x.shape()[x.shape().len() - 1];
    let rows: usize = x.shape()[..x.shape().len() - 1].iter().product();
    let parts = parts_of(rows);
    let part = rows / parts;
    // Columns first: rows are what is summed over.
    let (mut x_copy, mut dy_copy, mut gate_copy) = (None, None, None);
    let cut = [parts, part, cols];
    let x_view = reshaped(stream, x, &cut, &mut x_copy)?;
    let dy_view = reshaped(stream, dy, &cut, &mut dy_copy)?;
    let gate = match params.gate {
        Some((_, gate)) => Some(reshaped(stream, gate, &cut, &mut gate_copy)?),
        None => None,
    };
    let per_row = |tensor: &Tensor| tensor.layout().reshape(&[parts, 1, part]).expect("a fresh tensor is contiguous");
    let mut inputs = Inputs::<5>::new(x_view.with_layout(x_view.layout().swap(1, 2)?)?);
    inputs.push(Some(dy_view.with_layout(dy_view.layout().swap(1, 2)?)?));
    inputs.push(Some(statistics.inverse.view().with_layout(per_row(&statistics.inverse))?));
    if let Some(mean) = &statistics.mean {
        inputs.push(Some(mean.view().with_layout(per_row(mean))?));
    }
    if let Some(gate) = gate {
        inputs.push(Some(gate.with_layout(gate.layout().swap(1, 2)?)?));
    }
    let sum_dtype = wide(x.dtype());
    let stored =
        |view: &Option<ViewMut<'_>>| view.as_ref().map(|view| if parts == 1 { view.dtype() } else { sum_dtype });
    let gate = params.gate.map(|(activation, _)| activation);
    let key = ColumnsKey { kind: params.kind, x: x.dtype(), gate, weight: stored(&d_weight), bias: stored(&d_bias) };
    static COLUMNS: Graphs<ColumnsKey> = Graphs::new();
    let graph = COLUMNS.get(key, columns_graph);
    let space = [parts, cols, part];
    let run = |outputs: &mut [ViewMut<'_>]| graphs::run(stream, &graph, &space, inputs.views(), &[], outputs);
    if parts == 1 {
        return match (d_weight, d_bias) {
            (Some(weight), Some(bias)) => run(&mut [weight, bias]),
            (Some(one), None) | (None, Some(one)) => run(&mut [one]),
            (None, None) => Ok(()),
        };
    }
    let partial = || Tensor::empty(x.device(), &[parts, cols], sum_dtype);
    match (d_weight, d_bias) {
        (Some(weight), Some(bias)) => {
            let (mut weights, mut biases) = (partial()?, partial()?);
            run(&mut [weights.view_mut(), biases.view_mut()])?;
            sum_parts(stream, &weights, weight)?;
            sum_parts(stream, &biases, bias)
        }
        (Some(one), None) | (None, Some(one)) => {
            let mut sums = partial()?;
            run(&mut [sums.view_mut()])?;
            sum_parts(stream, &sums, one)
        }
        (None, None) => Ok(()),
    }
}

/// Adds up `[parts, cols]` over its parts.
pub(super) fn sum_parts(stream: &Stream, parts: &Tensor, to: ViewMut<'_>) -> Result<()> {
    static GRAPHS: Graphs<[DType; 2]> = Graphs::new();
    let graph = GRAPHS.get([parts.dtype(), to.dtype()], |[from, to]| {
        let make = Maker::new("norm_parts", from);
        make.output(make.input(from).reduce(Reduce::Sum), to);
        make.finish()
    });
    let across = parts.layout().swap(0, 1)?;
    let view = parts.view().with_layout(across)?;
    graphs::run(stream, &graph, view.shape(), &[view], &[], &mut [to])
}
