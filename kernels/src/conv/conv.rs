//! `conv`: the launchers of `conv.hip`, and the choice between it and what else makes a convolution.

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::Runs;
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Buffer, DType, Stream, Tensor, View, ViewMut};

use super::channels_last::{channels_last, taps_first};
use super::choice::{self, Decision, Machine, WeightDecision, WeightSum};
use super::direct;
use super::fused::{BATCH, CHANNEL, over_product, over_space};
use super::geometry::{AXES, ConvParams, Geometry, Side, Window};
use super::last::{self, Lines};
use super::operands::{Bias, Source3, VECTOR_BYTES, check_inputs, check_output, in_vectors, is_read_in_vectors};
use super::sources::{ConvKey, source, source_behind};
use super::tiling::Tiling;
use crate::Result;
use crate::epilogue::BoundEpilogue;
use crate::family::{self, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, shape, sum_dtype};
use crate::gemm::{GemmParams, multiply};

/// Lines and steps are numbers that [`FastDiv`] divides.
const NUMBER_MAX: usize = 1 << 31;
/// Threads of `conv_sum`.
const SUM_BLOCK: usize = 256;

/// `y[n, o, p] = bias[o] + Σ x[n, c, p · stride + r · dilation - padding] · weight[o, c, r]`, within groups of channels.
///
/// # Shapes
/// `x`: `[batch, channels, spatial…]` with one to three spatial axes; `weight`: `[channels_out, channels / groups, kernel…]`;
/// `bias`: `[channels_out]`; `y` as [`super::conv_output_shape`] says. Any strides; `x` with channels innermost is read in
/// vectors.
/// # Types
/// One float type for all.
/// # Numerics
/// Products and sums in f32 (f64 for f64), one rounding after the bias. The order of the sum follows from shapes, layouts
/// and type (see the module), not from the device's size.
/// # Errors
/// `Shape` for shapes that do not fit, `y` overlapping an input, an image beyond 2³¹ elements; `Unsupported` for types that
/// are no floats; errors of compilation and launch.
pub fn conv(
    stream: &Stream,
    x: View<'_>,
    weight: View<'_>,
    bias: Option<View<'_>>,
    y: ViewMut<'_>,
    params: &ConvParams<'_>,
) -> Result<()> {
    const OP: &str = "conv";
    let geometry = Geometry::new(OP, x.shape(), weight.shape(), y.shape(), params, true)?;
    let inputs = [("x", Some(&x)), ("weight", Some(&weight)), ("bias", bias.as_ref())];
    check_inputs(OP, stream, &inputs, y.dtype())?;
    check_output(OP, stream, &inputs, ("y", &y))?;
    Forward { geometry, x, weight, bias, y: y.view(), epilogue: None }.run(OP, stream)
}

/// The convolution of checked tensors.
pub(super) struct Forward<'a> {
    pub geometry: Geometry,
    pub x: View<'a>,
    pub weight: View<'a>,
    pub bias: Option<View<'a>>,
    /// What is written, or with an epilogue its first output.
    pub y: View<'a>,
    pub epilogue: Option<BoundEpilogue<'a>>,
}

impl Forward<'_> {
    pub(super) fn run(self, op: &'static str, stream: &Stream) -> Result<()> {
        let Forward { geometry, x, weight, bias, y, epilogue } = self;
        let bias = Bias::new(op, stream, bias, geometry.groups * geometry.channels[1])?;
        if y.is_empty() {
            return Ok(());
        }
        let (dtype, out) = (x.dtype(), Side::new(op, "y", &y)?);
        let is_product = bias.address() == 0 && !last::serves(&stream.device(), dtype, &geometry, &out);
        if is_product && pointwise(stream, &geometry, x, weight, y, epilogue.as_ref())? {
            return Ok(());
        }
        let x = Source3::new(op, "x", stream, x, &geometry, geometry.channels, true)?;
        let widened = (x.channels != geometry.channels[0]).then(|| channels_last(op, stream, weight, x.channels));
        let widened = widened.transpose()?;
        let weight = widened.as_ref().map_or(weight, Tensor::view);
        let w = Side::new(op, "weight", &weight)?;
        Windows {
            op,
            stream,
            dtype,
            window: geometry.forward(),
            batch: geometry.batch,
            groups: geometry.groups,
            rows: geometry.channels[1],
            channels: x.channels,
            in_vectors: x.vectors,
            a: Weight {
                address: w.address,
                row: w.outer[0],
                group: w.outer[0] * geometry.channels[1] as i64,
                channel: w.outer[1],
                tap: w.axis,
                view: weight,
                kept: None,
            },
            x: x.side,
            x_extent: geometry.input,
            out,
            bias: bias.address(),
            written: y.buffer(),
            epilogue: epilogue.map(|epilogue| over_space(&epilogue, y.layout().rank())),
        }
        .run()
    }
}

/// The gradient of [`conv`] by `x`, for the gradient of `y`: `x_grad[n, c, i] = Σ grad[n, o, p] · weight[o, c, r]` over
/// `p · stride + r · dilation - padding = i`. With a bias per channel of `x_grad` this is the transposed convolution of `grad`.
///
/// # Shapes
/// As for [`conv`]; `bias`: `[channels]`. `grad` may have fewer places than `x_grad` has windows.
/// # Types, Numerics, Errors
/// As for [`conv`].
pub fn conv_input_gradient(
    stream: &Stream,
    grad: View<'_>,
    weight: View<'_>,
    bias: Option<View<'_>>,
    x_grad: ViewMut<'_>,
    params: &ConvParams<'_>,
) -> Result<()> {
    const OP: &str = "conv_input_gradient";
    let geometry = Geometry::new(OP, x_grad.shape(), weight.shape(), grad.shape(), params, false)?;
    let inputs = [("grad", Some(&grad)), ("weight", Some(&weight)), ("bias", bias.as_ref())];
    check_inputs(OP, stream, &inputs, x_grad.dtype())?;
    check_output(OP, stream, &inputs, ("x_grad", &x_grad))?;
    let bias = Bias::new(OP, stream, bias, geometry.groups * geometry.channels[0])?;
    if x_grad.is_empty() {
        return Ok(());
    }
    let [channels, rows] = geometry.channels;
    let source = Source3::new(OP, "grad", stream, grad, &geometry, [rows, channels], false)?;
    let (w, whole) = (Side::new(OP, "weight", &weight)?, Side::new(OP, "x_grad", &x_grad)?);
    let bytes = x_grad.dtype().size_bytes() as i64;
    for residue in geometry.residues() {
        let at = |strides: [i64; AXES], first: [usize; AXES]| -> i64 {
            strides.iter().zip(first).map(|(stride, n)| stride * n as i64).sum()
        };
        let scaled = |strides: [i64; AXES], by: [usize; AXES]| [0, 1, 2].map(|i| strides[i] * by[i] as i64);
        let out = Side {
            address: whole.address.wrapping_add_signed(at(whole.axis, residue.first) * bytes),
            axis: scaled(whole.axis, geometry.stride),
            ..whole
        };
        Windows {
            op: OP,
            stream,
            dtype: x_grad.dtype(),
            window: residue.window,
            batch: geometry.batch,
            groups: geometry.groups,
            rows: geometry.channels[0],
            channels: geometry.channels[1],
            in_vectors: source.vectors,
            a: Weight {
                address: w.address.wrapping_add_signed(at(w.axis, residue.first_tap) * bytes),
                row: w.outer[1],
                group: w.outer[0] * geometry.channels[1] as i64,
                channel: w.outer[0],
                tap: scaled(w.axis, residue.tap_step),
                view: weight,
                kept: None,
            },
            x: source.side,
            x_extent: geometry.output,
            out,
            bias: bias.address(),
            written: x_grad.view().buffer(),
            epilogue: None,
        }
        .run()?;
    }
    Ok(())
}

/// The gradient of [`conv`] by `weight`, for the gradient of `y`: `weight_grad[o, c, r] = Σ grad[n, o, p] · x[n, c, p · stride +
/// r · dilation - padding]` over images and places.
///
/// # Shapes, Types, Errors
/// As for [`conv`]; also `Shape` for 2³¹ places or more in all images.
/// # Numerics
/// Sums in f32 (f64 for f64) over slices whose length follows from the shape, the slices added in ascending order, one
/// rounding.
pub fn conv_weight_gradient(
    stream: &Stream,
    x: View<'_>,
    grad: View<'_>,
    mut weight_grad: ViewMut<'_>,
    params: &ConvParams<'_>,
) -> Result<()> {
    const OP: &str = "conv_weight_gradient";
    let geometry = Geometry::new(OP, x.shape(), weight_grad.shape(), grad.shape(), params, false)?;
    let inputs = [("x", Some(&x)), ("grad", Some(&grad))];
    check_inputs(OP, stream, &inputs, weight_grad.dtype())?;
    check_output(OP, stream, &inputs, ("weight_grad", &weight_grad))?;
    if weight_grad.is_empty() {
        return Ok(());
    }
    if !weight_grad.view().layout().is_contiguous() {
        let mut whole = Tensor::empty(&stream.device(), weight_grad.shape(), weight_grad.dtype())?;
        conv_weight_gradient(stream, x, grad, whole.view_mut(), params)?;
        return family::copy_into(stream, whole.view(), weight_grad.reborrow());
    }
    if let Some(padded) = padded_channels(stream, x.dtype(), &geometry) {
        return padded_weight_gradient(stream, x, grad, weight_grad, params, padded);
    }
    let [channels, rows] = geometry.channels;
    // Both sides with their channels innermost, or neither.
    let vector = VECTOR_BYTES / x.dtype().size_bytes();
    let both = channels.is_multiple_of(vector) && rows.is_multiple_of(vector);
    let lines = if both { channels.min(rows) } else { 0 };
    let x_source = Source3::new(OP, "x", stream, x, &geometry, [channels, lines], false)?;
    let grad_source = Source3::new(OP, "grad", stream, grad, &geometry, [rows, lines], false)?;
    let (x_side, grad_side) = (x_source.side, grad_source.side);
    // Windows of nothing but padding: there is nothing to sum, and nothing that could be read.
    let batch = if x.is_empty() { 0 } else { geometry.batch };
    let steps = batch.saturating_mul(geometry.output.iter().product());
    let lines = channels * geometry.kernel.iter().product::<usize>();
    if steps >= NUMBER_MAX || lines >= NUMBER_MAX {
        return Err(shape(OP, "grad", format!("fewer than {NUMBER_MAX} places in all images"), steps.max(lines)));
    }
    let problem = WeightGradient { stream, dtype: x.dtype(), geometry, x: x_side, grad: grad_side, steps, rows, lines };
    if direct::serves(&geometry) {
        return problem.direct(&weight_grad);
    }
    problem.run(&weight_grad)
}

/// In how many channels, zeros behind them, `x` is read a vector at a time for the gradient of a weight that has fewer; `None` where it is
/// read as it is. A matter of shapes, as it decides slices.
fn padded_channels(stream: &Stream, dtype: DType, g: &Geometry) -> Option<usize> {
    let [channels, rows] = g.channels;
    let vector = VECTOR_BYTES / dtype.size_bytes();
    let whole = is_read_in_vectors(&stream.device(), dtype, g, channels, rows)?;
    (whole != channels && rows.is_multiple_of(vector)).then_some(whole)
}

/// The gradient of a weight for `x` with `padded` channels, of which the weight's own are kept.
fn padded_weight_gradient(
    stream: &Stream,
    x: View<'_>,
    grad: View<'_>,
    weight_grad: ViewMut<'_>,
    params: &ConvParams<'_>,
    padded: usize,
) -> Result<()> {
    const OP: &str = "conv_weight_gradient";
    let channels = weight_grad.shape()[1];
    let x = channels_last(OP, stream, x, padded)?;
    let mut extents = [padded; rocfire_hal::MAX_RANK];
    for (axis, &extent) in weight_grad.shape().iter().enumerate().filter(|(axis, _)| *axis != 1) {
        extents[axis] = extent;
    }
    let mut whole = Tensor::empty(&stream.device(), &extents[..weight_grad.layout().rank()], weight_grad.dtype())?;
    conv_weight_gradient(stream, x.view(), grad, whole.view_mut(), params)?;
    let own = whole.layout().slice(1, 0, channels, 1)?;
    family::copy_into(stream, whole.view().with_layout(own)?, weight_grad)
}

/// A convolution of single elements is a product of matrices, group by group; false where strides do not let it be one.
fn pointwise(
    stream: &Stream,
    g: &Geometry,
    x: View<'_>,
    weight: View<'_>,
    y: View<'_>,
    epilogue: Option<&BoundEpilogue<'_>>,
) -> Result<bool> {
    let plain = g.kernel == [1; AXES] && g.stride == [1; AXES] && g.padding == [0; AXES] && g.input == g.output;
    if !plain || direct::serves(g) {
        return Ok(false);
    }
    let places = g.input.iter().product();
    let [channels, rows] = g.channels;
    let layouts = (
        x.layout().reshape(&[g.batch, g.groups, channels, places]),
        weight.layout().reshape(&[g.groups, rows, channels]),
        y.layout().reshape(&[g.batch, g.groups, rows, places]),
    );
    let (Some(x_layout), Some(w_layout), Some(y_layout)) = layouts else { return Ok(false) };
    let over = epilogue.map(|epilogue| over_product(epilogue, g, y.layout().rank()));
    if matches!(over, Some(None)) {
        return Ok(false);
    }
    let (weight, x, y) = (weight.with_layout(w_layout)?, x.with_layout(x_layout)?, y.with_layout(y_layout)?);
    multiply(stream, weight, x, y, over.flatten(), &GemmParams::default())?;
    Ok(true)
}

/// The left operand of a window product.
struct Weight<'a> {
    address: u64,
    row: i64,
    group: i64,
    channel: i64,
    tap: [i64; AXES],
    view: View<'a>,
    kept: Option<Tensor>,
}

/// Windows of `x` times a weight: the convolution, or one residue of its input gradient.
struct Windows<'a> {
    op: &'static str,
    stream: &'a Stream,
    dtype: DType,
    window: Window,
    batch: usize,
    groups: usize,
    /// Rows of the result within a group, and channels that are summed.
    rows: usize,
    channels: usize,
    /// Whether steps are taken channels within taps, a vector of `x` at a time.
    in_vectors: bool,
    a: Weight<'a>,
    x: Side,
    x_extent: [usize; AXES],
    out: Side,
    bias: u64,
    written: &'a Buffer,
    epilogue: Option<BoundEpilogue<'a>>,
}

impl Windows<'_> {
    fn run(mut self) -> Result<()> {
        let taps: usize = self.window.taps.iter().product();
        let places: usize = self.window.places.iter().product();
        // Windows of nothing but padding: there is nothing to sum, and nothing that could be read.
        let k = if self.x_extent.contains(&0) { 0 } else { self.channels * taps };
        if places >= NUMBER_MAX || k >= NUMBER_MAX {
            return Err(shape(self.op, "x", format!("fewer than {NUMBER_MAX} places and taps"), places.max(k)));
        }
        let x_vector = k > 0 && self.in_vectors;
        let windows = choice::Windows {
            dtype: self.dtype,
            rows: self.rows,
            channels: self.channels,
            groups: self.groups,
            batch: self.batch,
            places,
            taps: self.window.taps,
            axes: self.window.axes(self.x_extent),
            k,
            x_vector,
            a_vector: self.a_in_steps(x_vector),
        };
        let product = match choice::decide(&Machine::of(&self.stream.device()), &windows) {
            Decision::Direct => return self.direct(places),
            Decision::Product(product) => product,
        };
        if product.packs {
            self.pack(x_vector)?;
            debug_assert!(self.a_in_steps(x_vector), "a copy lies in vectors of steps");
        }
        let lines = product.key.tiled.and_then(|_| {
            let epilogue = self.epilogue.as_ref();
            Lines::new(self.dtype, &self.out, self.window.places, self.batch, self.rows, epilogue)
        });
        let runs = |lines: &Lines<'_>| match &lines.epilogue {
            Some(epilogue) => epilogue.runs(epilogue.tensors()),
            None => Runs::default(),
        };
        let key = lines.as_ref().map_or(product, |lines| product.ending_in(runs(lines))).key;
        let run = ((NUMBER_MAX - 1) / places.max(1)).max(1);
        for first in (0..self.batch).step_by(run) {
            for group in (0..self.groups).step_by(GRID_YZ_MAX) {
                let groups = (self.groups - group).min(GRID_YZ_MAX);
                let mut args = self.args(first, run.min(self.batch - first) * places, group, groups, k, &key.tiling);
                let epilogue = match &lines {
                    Some(lines) => {
                        args.out_line = lines.stride;
                        args.tiles_m = self.rows.div_ceil(key.tiling.block()[1]) as u32;
                        lines.epilogue.map(|epilogue| epilogue.from(0, group * self.rows).from(1, first * places))
                    }
                    None => self.epilogue.map(|epilogue| epilogue.from(BATCH, first).from(CHANNEL, group * self.rows)),
                };
                launch(self.stream, self.op, key, &args, groups, epilogue.as_ref(), self.written)?;
            }
        }
        Ok(())
    }

    fn direct(&self, places: usize) -> Result<()> {
        let problem = direct::Direct {
            op: self.op,
            stream: self.stream,
            dtype: self.dtype,
            window: self.window,
            batch: self.batch,
            groups: self.groups,
            rows: self.rows,
            channels: self.channels,
            places,
            a: self.a.address,
            a_strides: [self.a.group, self.a.row, self.a.channel],
            a_tap: self.a.tap,
            x: self.x,
            x_extent: self.x_extent,
            out: self.out,
            bias: self.bias,
            epilogue: self.epilogue,
        };
        problem.run(self.written)
    }

    /// Extents and strides of the weight's axes in the order of the steps, the outermost first.
    fn steps(&self, channels_inner: bool) -> [(usize, i64); AXES + 1] {
        let tap = |axis: usize| (self.window.taps[axis], self.a.tap[axis]);
        let channel = (self.channels, self.a.channel);
        if channels_inner { [tap(0), tap(1), tap(2), channel] } else { [channel, tap(0), tap(1), tap(2)] }
    }

    /// Whether steps that follow each other lie side by side, in whole vectors.
    fn a_in_steps(&self, channels_inner: bool) -> bool {
        let vector = VECTOR_BYTES / self.dtype.size_bytes();
        let (mut next, mut all) = (1, true);
        for &(extent, stride) in self.steps(channels_inner).iter().rev().filter(|(extent, _)| *extent != 1) {
            all &= stride == next;
            next *= extent as i64;
        }
        let whole = |stride: i64| stride % vector as i64 == 0;
        all && whole(next)
            && (whole(self.a.row) || self.rows == 1)
            && (whole(self.a.group) || self.groups == 1)
            && self.a.address.is_multiple_of(VECTOR_BYTES as u64)
    }

    /// Copies the weight into `[groups, rows, steps]`.
    fn pack(&mut self, channels_inner: bool) -> Result<()> {
        let steps = self.steps(channels_inner);
        let shape = [self.groups, self.rows, steps[0].0, steps[1].0, steps[2].0, steps[3].0];
        let strides = [self.a.group, self.a.row, steps[0].1, steps[1].1, steps[2].1, steps[3].1];
        let skipped = self.a.address.wrapping_sub(self.a.view.device_address()) as i64 / self.dtype.size_bytes() as i64;
        let layout = rocfire_hal::Layout::strided(&shape, &strides, self.a.view.layout().offset() + skipped)?;
        let view = self.a.view.with_layout(layout)?;
        let turned = if channels_inner { taps_first(self.op, self.stream, view)? } else { None };
        let packed = turned.map_or_else(|| family::contiguous(self.stream, view), Ok)?;
        let contiguous = packed.layout().strides();
        let (tap, channel) = if channels_inner {
            ([contiguous[2], contiguous[3], contiguous[4]], contiguous[5])
        } else {
            ([contiguous[3], contiguous[4], contiguous[5]], contiguous[2])
        };
        (self.a.group, self.a.row, self.a.channel, self.a.tap) = (contiguous[0], contiguous[1], channel, tap);
        self.a.address = packed.view().device_address();
        self.a.kept = Some(packed);
        Ok(())
    }

    fn args(&self, first: usize, lines: usize, group: usize, groups: usize, k: usize, tiling: &Tiling) -> ConvArgs {
        let bytes = self.dtype.size_bytes() as i64;
        let move_by = |address: u64, elements: i64| address.wrapping_add_signed(elements * bytes);
        let x_group = self.x.outer[1] * self.channels as i64;
        let out_group = self.out.outer[1] * self.rows as i64;
        let at = |batch: i64, by_group: i64| first as i64 * batch + group as i64 * by_group;
        let bias = if self.bias == 0 { 0 } else { move_by(self.bias, (group * self.rows) as i64) };
        let narrow = |strides: [i64; AXES]| strides.map(|stride| stride as i32);
        ConvArgs {
            a: move_by(self.a.address, group as i64 * self.a.group),
            x: move_by(self.x.address, at(self.x.outer[0], x_group)),
            bias,
            out: move_by(self.out.address, at(self.out.outer[0], out_group)),
            a_line: self.a.row,
            a_group: self.a.group,
            a_batch: 0,
            x_batch: self.x.outer[0],
            x_group,
            out_line: self.out.outer[1],
            out_group,
            out_batch: self.out.outer[0],
            out_slice: 0,
            out_axis: self.out.axis,
            a_channel: self.a.channel as i32,
            x_channel: self.x.outer[1] as i32,
            a_axis: narrow(self.a.tap),
            x_axis: narrow(self.x.axis),
            extent: self.x_extent.map(|extent| extent as i32),
            mul: self.window.mul,
            dil: self.window.dil,
            off: self.window.off,
            place: self.window.places.map(FastDiv::new),
            tap: self.window.taps.map(FastDiv::new),
            channels: FastDiv::new(self.channels),
            m: self.rows as u32,
            lines: lines as u32,
            k: k as u32,
            slice_k: k as u32,
            tiles_m: self.rows.div_ceil(tiling.block()[0]) as u32,
            groups: groups as u32,
            flat: u32::from(self.out.flat(self.window.places)),
        }
    }
}

/// The sum over images and places that makes a weight's gradient.
struct WeightGradient<'a> {
    stream: &'a Stream,
    dtype: DType,
    geometry: Geometry,
    x: Side,
    grad: Side,
    steps: usize,
    rows: usize,
    lines: usize,
}

impl WeightGradient<'_> {
    const OP: &'static str = "conv_weight_gradient";

    fn run(&self, weight_grad: &View<'_>) -> Result<()> {
        let device = self.stream.device();
        let sum = sum_dtype(self.dtype);
        let vector = VECTOR_BYTES / self.dtype.size_bytes();
        let channels = self.geometry.channels[0];
        let sums = WeightSum {
            dtype: self.dtype,
            size: [self.rows, self.lines],
            groups: self.geometry.groups,
            steps: self.steps,
            axes: self.geometry.forward().axes(self.geometry.input),
            in_channels: in_vectors(&self.x, channels, vector) && in_vectors(&self.grad, self.rows, vector),
            in_line: self.grad_line().is_some(),
            in_places: self.grad_in_vectors(vector),
        };
        let WeightDecision { slices, length, key } = choice::decide_weight(&Machine::of(&device), &sums);
        let count = self.geometry.groups * self.rows * self.lines;
        if slices == 1 {
            return self.launch(key, weight_grad.device_address(), weight_grad.buffer(), 1, length);
        }
        if count >= NUMBER_MAX {
            return Err(shape(Self::OP, "weight_grad", format!("fewer than {NUMBER_MAX} elements"), count));
        }
        let partial = Tensor::empty(&device, &[slices, count], sum)?;
        self.launch(key, partial.view().device_address(), partial.buffer(), slices, length)?;
        let args = ConvSumArgs {
            slices: partial.view().device_address(),
            out: weight_grad.device_address(),
            count: count as u32,
            slice_count: slices as u32,
        };
        static SOURCES: Sources<ConvKey> = Sources::new();
        let source = SOURCES.get(key, source);
        let (grid, block) = ([count.div_ceil(SUM_BLOCK), 1, 1], [SUM_BLOCK, 1, 1]);
        // SAFETY:
        // - `ConvSumArgs` is the twin of the kernel's struct; `partial` has slices x count elements and the gradient, which is
        //   contiguous, count.
        // - It writes the gradient only.
        unsafe {
            KernelLaunch::new(self.stream, &source, (Self::OP, "conv_sum"), grid, block)
                .run(&args, &[weight_grad.buffer()])
        }
    }

    /// Elements from one place of the gradient to the next, all images one after the other.
    fn grad_line(&self) -> Option<i64> {
        last::line_stride(&self.grad, self.geometry.output, self.geometry.batch)
    }

    /// Whether the places of an image follow each other, in whole vectors.
    fn grad_in_vectors(&self, vector: usize) -> bool {
        let whole = |stride: i64| stride % vector as i64 == 0;
        let outer = self.grad.outer.iter().all(|&stride| whole(stride));
        self.grad.flat(self.geometry.output)
            && self.geometry.output.iter().product::<usize>().is_multiple_of(vector)
            && outer
            && self.grad.address.is_multiple_of(VECTOR_BYTES as u64)
    }

    fn launch(&self, key: ConvKey, out: u64, written: &Buffer, slices: usize, length: usize) -> Result<()> {
        let g = &self.geometry;
        let window = g.forward();
        let [channels, rows] = [g.channels[0], self.rows];
        let bytes = self.dtype.size_bytes() as i64;
        let out_bytes = key.output.size_bytes() as i64;
        let (x_group, grad_group) = (self.x.outer[1] * channels as i64, self.grad.outer[1] * rows as i64);
        let out_group = (rows * self.lines) as i64;
        let narrow = |strides: [i64; AXES]| strides.map(|stride| stride as i32);
        let run = (GRID_YZ_MAX / slices).max(1);
        for group in (0..g.groups).step_by(run) {
            let groups = run.min(g.groups - group);
            let args = ConvArgs {
                a: self.grad.address.wrapping_add_signed(group as i64 * grad_group * bytes),
                x: self.x.address.wrapping_add_signed(group as i64 * x_group * bytes),
                bias: 0,
                out: out.wrapping_add_signed(group as i64 * out_group * out_bytes),
                a_line: key.tiled.and_then(|_| self.grad_line()).unwrap_or(self.grad.outer[1]),
                a_group: grad_group,
                a_batch: self.grad.outer[0],
                x_batch: self.x.outer[0],
                x_group,
                out_line: self.lines as i64,
                out_group,
                out_batch: 0,
                out_slice: g.groups as i64 * out_group,
                out_axis: [0; AXES],
                a_channel: 0,
                x_channel: self.x.outer[1] as i32,
                a_axis: narrow(self.grad.axis),
                x_axis: narrow(self.x.axis),
                extent: g.input.map(|extent| extent as i32),
                mul: window.mul,
                dil: window.dil,
                off: window.off,
                place: window.places.map(FastDiv::new),
                tap: window.taps.map(FastDiv::new),
                channels: FastDiv::new(channels),
                m: rows as u32,
                lines: self.lines as u32,
                k: self.steps as u32,
                slice_k: length as u32,
                tiles_m: rows.div_ceil(key.tiling.block()[0]) as u32,
                groups: groups as u32,
                flat: 1,
            };
            launch(self.stream, Self::OP, key, &args, groups * slices, None, written)?;
        }
        Ok(())
    }

    fn direct(&self, weight_grad: &View<'_>) -> Result<()> {
        let problem = direct::DirectWeight {
            stream: self.stream,
            dtype: self.dtype,
            window: self.geometry.forward(),
            groups: self.geometry.groups,
            rows: self.rows,
            channels: self.geometry.channels[0],
            steps: self.steps,
            x: self.x,
            x_extent: self.geometry.input,
            grad: self.grad,
        };
        problem.run(weight_grad)
    }
}

/// Launches over all tiles of `args`, `depth` workgroups deep.
fn launch(
    stream: &Stream,
    op: &'static str,
    key: ConvKey,
    args: &ConvArgs,
    depth: usize,
    epilogue: Option<&BoundEpilogue<'_>>,
    written: &Buffer,
) -> Result<()> {
    static SOURCES: Sources<(ConvKey, u128)> = Sources::new();
    let source = SOURCES.get((key, epilogue.map_or(0, |epilogue| epilogue.hash())), |_| match (epilogue, key.last) {
        (None, _) => source(key),
        (Some(epilogue), Some(runs)) => source_behind(key, &epilogue.runs_text(runs)),
        (Some(epilogue), None) => source_behind(key, epilogue.text()),
    });
    let tile = key.tiling.block()[usize::from(key.last.is_none())];
    let tiles = args.tiles_m as usize * (args.lines as usize).div_ceil(tile);
    let block = [key.tiling.threads(stream.device().arch().info().wave_size as usize), 1, 1];
    let shape = [args.groups, args.m, args.lines, args.k].map(|extent| extent as usize);
    let flops = 2 * shape.iter().map(|&extent| extent as u64).product::<u64>();
    let work = Work { category: Category::Gemm, shape: &shape, flops, ..Work::default() };
    let launch = KernelLaunch::new(stream, &source, (op, "conv"), [tiles, 1, depth], block);
    let launch = launch.with(key.tiled.map_or(0, |staging| staging.lds_bytes), work);
    // SAFETY:
    // - `ConvArgs` is the twin of the kernel's struct, sizes asserted on both sides. The launchers checked the shapes against
    //   each other; rows, lines and steps are bounded by the kernel, coordinates outside of `extent` are not read, and views
    //   lie inside their buffers. The epilogue's tensors were laid over the same result, and it reads and writes them there.
    // - It writes `written` only, or the epilogue's outputs.
    unsafe { launch.run_with_epilogue(args, epilogue, written, None) }
}

/// `ConvArgs` of `conv.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ConvArgs {
    a: u64,
    x: u64,
    bias: u64,
    out: u64,
    a_line: i64,
    a_group: i64,
    a_batch: i64,
    x_batch: i64,
    x_group: i64,
    out_line: i64,
    out_group: i64,
    out_batch: i64,
    out_slice: i64,
    out_axis: [i64; AXES],
    a_channel: i32,
    x_channel: i32,
    a_axis: [i32; AXES],
    x_axis: [i32; AXES],
    extent: [i32; AXES],
    mul: [i32; AXES],
    dil: [i32; AXES],
    off: [i32; AXES],
    place: [FastDiv; AXES],
    tap: [FastDiv; AXES],
    channels: FastDiv,
    m: u32,
    lines: u32,
    k: u32,
    slice_k: u32,
    tiles_m: u32,
    groups: u32,
    flat: u32,
}
const _: () = assert!(size_of::<ConvArgs>() == 320);

/// `ConvSumArgs` of `conv.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ConvSumArgs {
    slices: u64,
    out: u64,
    count: u32,
    slice_count: u32,
}
const _: () = assert!(size_of::<ConvSumArgs>() == 24);
