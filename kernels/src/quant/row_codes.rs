//! `norm_quantise`, `gate_quantise`: the launchers of `row_codes.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Buffer, DType, Source, Stream, Tensor, View, ViewMut};

use super::activations::{Granularity, RowCodes, quantise_activations};
use super::format::Format;
use crate::Result;
use crate::family::{self, GRID_YZ_MAX, KernelLaunch, Sources, c_type, shape};
use crate::gate::{self, Activation, GateLayout, GateParams};
use crate::norm::{self, NormKind, NormParams};

/// Columns of a lane's run: `RUN_ELEMENTS` of `run.h`.
const RUN: usize = 8;
/// Runs per lane and lanes of a workgroup that has a whole row.
const TILES: [(usize, usize); 5] = [(1, 128), (2, 128), (4, 128), (4, 256), (8, 256)];
/// The same where it has a part of one.
const PART: (usize, usize) = (2, 128);
/// Columns of a microscaled group.
const MX_GROUP: usize = 32;

/// Codes of [`norm`](norm::norm()), which is written nowhere else; one launch for rows of up to 16384 columns, contiguous, and one
/// scale, one for each row, or one for each run of 8 to 256 columns.
///
/// # Shapes
/// `x`, the residual, `sum`: `[rows, cols]`; codes and scales as [`RowCodes`] says.
/// # Numerics
/// Of what [`norm`](norm::norm()) would have stored, the codes that [`quantise_activations`] makes; the order of a row's sum may be
/// another. A gate is applied by the two one after the other.
/// # Errors
/// As [`norm`](norm::norm()) and [`quantise_activations`].
pub fn norm_quantise(
    stream: &Stream,
    x: View<'_>,
    params: &NormParams<'_>,
    to: RowCodes<'_>,
    sum: Option<ViewMut<'_>>,
) -> Result<()> {
    const OP: &str = "norm_quantise";
    norm::check(OP, stream, &x, params)?;
    let extents = matrix(OP, &x)?;
    check(OP, stream, extents, &to, &[Some(x), params.residual, params.weight, params.bias])?;
    if let Some(sum) = &sum {
        norm::check_output(OP, "sum", stream, sum, &x, params)?;
        family::disjoint(OP, "sum", &to.codes, sum)?;
        family::disjoint(OP, "sum", &to.scales, sum)?;
    }
    let [rows, cols] = extents;
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let plain = |view: Option<View<'_>>| view.is_none_or(|view| contiguous_columns(&view));
    let sum_plain = sum.as_ref().is_none_or(|sum| contiguous_columns(sum));
    let direct = plain(Some(x)) && plain(params.residual) && plain(params.weight) && plain(params.bias) && sum_plain;
    let tile = TILES.into_iter().find(|(runs, threads)| cols <= runs * threads * RUN);
    let weights = weight_dtype(params.weight, params.bias);
    let (Some(lanes), Some((runs, threads)), Some(weight), true, None) =
        (lanes(&to, &x), tile, weights, direct, params.gate)
    else {
        let mut y = Tensor::empty(x.device(), x.shape(), x.dtype())?;
        norm::norm(stream, x, params, y.view_mut(), sum)?;
        return quantise_activations(stream, y.view(), None, to);
    };
    let weighted = match (params.weight, params.one_plus) {
        (None, _) => 0,
        (Some(_), false) => 1,
        (Some(_), true) => 2,
    };
    let key = RowKey {
        x: x.dtype(),
        weight,
        format: to.format,
        runs,
        threads,
        source: match params.kind {
            NormKind::Rms => RowSource::Rms,
            NormKind::Layer => RowSource::Layer,
        },
        residual: params.residual.is_some(),
        sum: sum.is_some(),
        weighted,
        bias: params.bias.is_some(),
        limit: false,
        lanes,
        given: to.granularity == Granularity::Static,
        mx: matches!(to.granularity, Granularity::Mx(_)),
    };
    let operand = |view: Option<View<'_>>| view.map_or((0, 0), |v| (v.device_address(), v.layout().strides()[0]));
    let ((residual, residual_row), (sum_at, sum_row)) =
        (operand(params.residual), operand(sum.as_ref().map(|s| s.view())));
    let address = |view: Option<View<'_>>| view.map_or(0, |view| view.device_address());
    let size = x.dtype().size_bytes();
    let args = RowArgs {
        residual,
        sum: sum_at,
        weight: address(params.weight),
        bias: address(params.bias),
        x_row: x.layout().strides()[0],
        residual_row,
        sum_row,
        whole: u32::from(
            whole(&to, cols)
                && aligned(&x)
                && [params.residual, params.weight, params.bias].iter().flatten().all(aligned),
        ),
        epsilon: params.epsilon as f32,
        share: (1.0 / cols as f64) as f32,
        ..RowArgs::of(&x, &to, cols)
    };
    let written = [to.codes.buffer(), to.scales.buffer(), sum.as_ref().map_or(to.codes.buffer(), |sum| sum.buffer())];
    launch(stream, OP, key, args, [1, rows], size, &written)
}

/// Codes of [`gate`](gate::gate()), which is written nowhere else; one launch for contiguous rows where [`norm_quantise`] is one,
/// of any number of columns but for one scale per row.
///
/// # Shapes
/// `x`: `[rows, 2 cols]`; codes and scales as [`RowCodes`] says.
/// # Numerics
/// Of what [`gate`](gate::gate()) would have stored, the codes that [`quantise_activations`] makes.
/// # Errors
/// As [`gate`](gate::gate()) and [`quantise_activations`].
pub fn gate_quantise(stream: &Stream, x: View<'_>, params: &GateParams<'_>, to: RowCodes<'_>) -> Result<()> {
    const OP: &str = "gate_quantise";
    let cols = gate::check(OP, stream, &x, params)?;
    let [rows, _] = matrix(OP, &x)?;
    check(OP, stream, [rows, cols], &to, &[Some(x), params.bias])?;
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let direct = contiguous_columns(&x) && params.bias.is_none_or(|bias| contiguous_columns(&bias));
    let tile = match to.granularity {
        Granularity::Token => TILES.into_iter().find(|(runs, threads)| cols <= runs * threads * RUN),
        _ => Some(PART),
    };
    let weights = weight_dtype(params.bias, None);
    let (Some(lanes), Some((runs, threads)), Some(weight), true) = (lanes(&to, &x), tile, weights, direct) else {
        let mut y = Tensor::empty(x.device(), &[rows, cols], x.dtype())?;
        gate::gate(stream, x, params, y.view_mut())?;
        return quantise_activations(stream, y.view(), None, to);
    };
    let key = RowKey {
        x: x.dtype(),
        weight,
        format: to.format,
        runs,
        threads,
        source: RowSource::Gate(params.activation),
        residual: false,
        sum: false,
        weighted: 0,
        bias: params.bias.is_some(),
        limit: params.limit.is_some(),
        lanes,
        given: to.granularity == Granularity::Static,
        mx: matches!(to.granularity, Granularity::Mx(_)),
    };
    let (x_col, up) = match params.layout {
        GateLayout::Halves => (1, cols as i64),
        GateLayout::Interleaved => (2, 1),
    };
    let size = x.dtype().size_bytes();
    let ups_aligned = (up * size as i64) % 16 == 0;
    let args = RowArgs {
        bias: params.bias.map_or(0, |bias| bias.device_address()),
        x_row: x.layout().strides()[0],
        x_col,
        up,
        whole: u32::from(whole(&to, cols) && x_col == 1 && ups_aligned && aligned(&x)),
        limit: params.limit.unwrap_or(0.0) as f32,
        offset: params.offset as f32,
        factor: params.scale.unwrap_or(1.0) as f32,
        ..RowArgs::of(&x, &to, cols)
    };
    let parts = match to.granularity {
        Granularity::Token => 1,
        _ => cols.div_ceil(runs * threads * RUN),
    };
    launch(stream, OP, key, args, [parts, rows], size, &[to.codes.buffer(), to.scales.buffer()])
}

/// Rows and columns of what is not f64.
fn matrix(op: &'static str, x: &View<'_>) -> Result<[usize; 2]> {
    if x.dtype() == DType::F64 {
        return Err(rocfire_hal::Error::Unsupported { op, dtype: DType::F64, arch: x.arch() }.into());
    }
    match *x.shape() {
        [rows, cols] => Ok([rows, cols]),
        _ => Err(shape(op, "x", "two axes", format!("{:?}", x.shape()))),
    }
}

/// Checks codes and scales of `[rows, cols]` against what is read.
fn check(
    op: &'static str,
    stream: &Stream,
    [rows, cols]: [usize; 2],
    to: &RowCodes<'_>,
    read: &[Option<View<'_>>],
) -> Result<()> {
    let RowCodes { format, granularity, codes, scales } = to;
    family::on_device(op, "codes", stream, codes)?;
    family::on_device(op, "scales", stream, scales)?;
    for view in read.iter().flatten() {
        family::disjoint(op, "codes", codes, view)?;
        family::disjoint(op, "scales", scales, view)?;
    }
    if *format == Format::I2 {
        return Err(shape(op, "format", "4 or 8 bits", format!("{format:?}")));
    }
    if matches!(granularity, Granularity::Mx(_)) && format.is_int() {
        return Err(shape(op, "format", "a small float for microscaling", format!("{format:?}")));
    }
    let side = match *granularity {
        Granularity::Group(side) | Granularity::Block(side) => side,
        Granularity::Static | Granularity::Tensor | Granularity::Token | Granularity::Mx(_) => RUN,
    };
    if side == 0 || !side.is_multiple_of(RUN) {
        return Err(shape(op, "granularity", "groups of a multiple of 8", format!("{granularity:?}")));
    }
    let bytes = [rows, (cols * format.bits()).div_ceil(8)];
    if codes.shape() != bytes || codes.dtype() != DType::U8 || !codes.layout().is_contiguous() {
        let got = format!("{} {:?}", codes.dtype(), codes.shape());
        return Err(shape(op, "codes", format!("contiguous u8 {bytes:?}"), got));
    }
    let (grid, kind) = (granularity.scales_shape([rows, cols]), granularity.kind());
    if scales.shape() != grid || scales.dtype() != kind.dtype() {
        let got = format!("{} {:?}", scales.dtype(), scales.shape());
        return Err(shape(op, "scales", format!("{} {grid:?}", kind.dtype()), got));
    }
    if cols > i32::MAX as usize || rows > i32::MAX as usize {
        return Err(shape(op, "x", format!("at most {} rows and columns", i32::MAX), format!("{rows} x {cols}")));
    }
    family::writable(op, "scales", scales)?;
    family::disjoint(op, "scales", codes, scales)
}

/// Lanes that share a scale, 0 for all of a row; `None` where the kernel has no such groups.
fn lanes(to: &RowCodes<'_>, x: &View<'_>) -> Option<usize> {
    let lanes = match to.granularity {
        Granularity::Static | Granularity::Token => return Some(0),
        Granularity::Group(group) => group / RUN,
        Granularity::Mx(_) => MX_GROUP / RUN,
        Granularity::Tensor | Granularity::Block(_) => return None,
    };
    // The narrowest wave bounds them everywhere, so that every architecture takes the same way.
    let narrowest = 32;
    debug_assert!(x.arch().info().wave_size >= narrowest);
    (lanes.is_power_of_two() && lanes <= narrowest as usize).then_some(lanes)
}

/// The one type of weight and bias, f32 without any; `None` where they differ.
fn weight_dtype(weight: Option<View<'_>>, bias: Option<View<'_>>) -> Option<DType> {
    match (weight, bias) {
        (Some(weight), Some(bias)) if weight.dtype() != bias.dtype() => None,
        (Some(one), _) | (None, Some(one)) => Some(one.dtype()),
        (None, None) => Some(DType::F32),
    }
}

/// Whether neighbouring columns are neighbours in memory.
fn contiguous_columns(view: &View<'_>) -> bool {
    let last = view.layout().rank() - 1;
    view.layout().strides()[last] == 1 || view.shape()[last] <= 1
}

/// Whether every run of 8 columns is whole and its codes are aligned.
fn whole(to: &RowCodes<'_>, cols: usize) -> bool {
    cols.is_multiple_of(RUN) && to.codes.device_address().is_multiple_of(8)
}

/// Whether every row begins at a multiple of 16 bytes.
fn aligned(view: &View<'_>) -> bool {
    let one = view.layout().rank() < 2 || view.shape()[0] <= 1;
    let row_bytes = view.layout().strides()[0] * view.dtype().size_bytes() as i64;
    view.device_address().is_multiple_of(16) && (one || row_bytes % 16 == 0)
}

/// Launches, in parts where a grid does not hold all rows.
fn launch(
    stream: &Stream,
    op: &'static str,
    key: RowKey,
    args: RowArgs,
    [parts, rows]: [usize; 2],
    size: usize,
    written: &[&Buffer],
) -> Result<()> {
    static SOURCES: Sources<RowKey> = Sources::new();
    let kept = SOURCES.get(key, source);
    for first in (0..rows).step_by(GRID_YZ_MAX) {
        let skip = |address: u64, stride: i64, bytes: usize| {
            if address == 0 { 0 } else { address.wrapping_add_signed(first as i64 * stride * bytes as i64) }
        };
        let scale_bytes = if key.given {
            0
        } else if key.mx {
            1
        } else {
            size_of::<f32>()
        };
        let args = RowArgs {
            x: skip(args.x, args.x_row, size),
            residual: skip(args.residual, args.residual_row, size),
            sum: skip(args.sum, args.sum_row, size),
            codes: skip(args.codes, args.code_row, 1),
            scales: skip(args.scales, args.scale_row, scale_bytes),
            ..args
        };
        let grid = [parts, (rows - first).min(GRID_YZ_MAX), 1];
        // SAFETY:
        // - `RowArgs` is the twin of the kernel's struct, sizes asserted on both sides; rows and columns are those of the checked
        //   views, and single elements are touched where rows are not whole runs.
        // - The kernel writes codes, scales unless given, and the sum: what the callers list.
        unsafe { KernelLaunch::new(stream, &kept, (op, "row_codes"), grid, [key.threads, 1, 1]).run(&args, written)? };
    }
    Ok(())
}

/// What a row is before it is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RowSource {
    Rms,
    Layer,
    Gate(Activation),
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    x: DType,
    weight: DType,
    format: Format,
    runs: usize,
    threads: usize,
    source: RowSource,
    residual: bool,
    sum: bool,
    /// 0 no weight, 1 a weight, 2 one more than it.
    weighted: usize,
    bias: bool,
    limit: bool,
    lanes: usize,
    given: bool,
    mx: bool,
}

fn source(key: RowKey) -> Source {
    let (norm, activation) = match key.source {
        RowSource::Rms => (1, 0),
        RowSource::Layer => (2, 0),
        RowSource::Gate(activation) => (0, activation.number()),
    };
    let numbers = [
        ("ROW_RUNS", key.runs),
        ("ROW_THREADS", key.threads),
        ("ROW_NORM", norm),
        ("ROW_ACTIVATION", activation),
        ("ROW_RESIDUAL", usize::from(key.residual)),
        ("ROW_SUM", usize::from(key.sum)),
        ("ROW_WEIGHTED", key.weighted),
        ("ROW_BIAS", usize::from(key.bias)),
        ("ROW_LIMIT", usize::from(key.limit)),
        ("ROW_LANES", key.lanes),
        ("ROW_GIVEN", usize::from(key.given)),
        ("ROW_MX", usize::from(key.mx)),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [("ROW_X", c_type(key.x)), ("ROW_WEIGHT", c_type(key.weight)), ("ROW_FORMAT", key.format.number())];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new(
        "row_codes",
        concat!(include_str!("convert.h"), include_str!("../run.h"), include_str!("row_codes.hip")),
        &defines,
    )
}

/// Operators and sources for the registry: norms and gates, every granularity, formats in turn.
pub(super) fn sources(x: DType) -> Vec<(&'static str, Source)> {
    let plain = RowKey {
        x,
        weight: x,
        format: Format::I8,
        runs: 1,
        threads: 128,
        source: RowSource::Rms,
        residual: false,
        sum: false,
        weighted: 1,
        bias: false,
        limit: false,
        lanes: 0,
        given: false,
        mx: false,
    };
    let (gate, part) = (RowSource::Gate, RowKey { weighted: 0, runs: PART.0, ..plain });
    let norms = [
        RowKey { residual: true, sum: true, ..plain },
        RowKey { source: RowSource::Layer, bias: true, runs: 8, threads: 256, format: Format::E4M3, ..plain },
        RowKey { lanes: 16, weighted: 2, weight: DType::F32, format: Format::E4M3Fnuz, runs: 4, ..plain },
        RowKey { lanes: 4, mx: true, format: Format::E2M1, residual: true, ..plain },
        RowKey { given: true, format: Format::E5M2, runs: 2, ..plain },
    ];
    let gates = [
        RowKey { source: gate(Activation::Silu), ..part },
        RowKey { source: gate(Activation::Gelu), lanes: 16, format: Format::E4M3, ..part },
        RowKey { source: gate(Activation::GeluTanh), bias: true, given: true, format: Format::E4M3Fnuz, ..part },
        RowKey { source: gate(Activation::QuickGelu), limit: true, lanes: 4, mx: true, format: Format::E4M3, ..part },
        RowKey { source: gate(Activation::Sigmoid), lanes: 4, format: Format::I4, ..part },
    ];
    let norms = norms.into_iter().map(|key| ("norm_quantise", source(key)));
    norms.chain(gates.into_iter().map(|key| ("gate_quantise", source(key)))).collect()
}

/// `RowArgs` of `row_codes.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RowArgs {
    x: u64,
    residual: u64,
    sum: u64,
    weight: u64,
    bias: u64,
    codes: u64,
    scales: u64,
    x_row: i64,
    x_col: i64,
    up: i64,
    residual_row: i64,
    sum_row: i64,
    code_row: i64,
    scale_row: i64,
    scale_col: i64,
    cols: u32,
    mode: u32,
    whole: u32,
    unused: u32,
    least: f32,
    most: f32,
    largest: f32,
    epsilon: f32,
    limit: f32,
    offset: f32,
    factor: f32,
    share: f32,
}
const _: () = assert!(size_of::<RowArgs>() == 168);

impl RowArgs {
    /// Addresses and ranges; the rest is that of a row without anything.
    fn of(x: &View<'_>, to: &RowCodes<'_>, cols: usize) -> RowArgs {
        let [least, most] = to.format.range(true);
        let strides = to.scales.layout().strides();
        RowArgs {
            x: x.device_address(),
            residual: 0,
            sum: 0,
            weight: 0,
            bias: 0,
            codes: to.codes.device_address(),
            scales: to.scales.device_address(),
            x_row: 0,
            x_col: 1,
            up: 0,
            residual_row: 0,
            sum_row: 0,
            code_row: to.codes.shape()[1] as i64,
            scale_row: strides[0],
            scale_col: strides[1],
            cols: cols as u32,
            mode: if let Granularity::Mx(rounding) = to.granularity { rounding.number() } else { 0 },
            whole: 0,
            unused: 0,
            least,
            most,
            largest: to.format.largest(),
            epsilon: 0.0,
            limit: 0.0,
            offset: 0.0,
            factor: 1.0,
            share: 0.0,
        }
    }
}
