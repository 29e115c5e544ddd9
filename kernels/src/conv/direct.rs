//! `direct`: the launchers of `direct.hip`, behind those of `conv.rs`, which have checked every argument.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Buffer, DType, Source, Stream, View};

use super::fused::BATCH;
use super::geometry::{AXES, Geometry, Side, Window};
use crate::Result;
use crate::epilogue::{self, BoundEpilogue};
use crate::family::{BLOCK, BOX_LIMIT, Box3, FastDiv, KernelLaunch, Sources, c_type, outer_runs, shape, sum_dtype};

/// Groups of no more channels than this, in and out, are done without the matrix unit: a tile of 16 would be empty for more
/// than three quarters.
pub(super) const CHANNELS_MAX: usize = 4;

/// Whether a convolution is one of small groups.
pub(super) fn serves(geometry: &Geometry) -> bool {
    geometry.groups > 1 && geometry.channels.iter().all(|&channels| channels <= CHANNELS_MAX)
}

/// Windows of `x` times a weight, as in `conv.rs`.
pub(super) struct Direct<'a> {
    pub op: &'static str,
    pub stream: &'a Stream,
    pub dtype: DType,
    pub window: Window,
    pub batch: usize,
    pub groups: usize,
    pub rows: usize,
    pub channels: usize,
    /// Places of an image.
    pub places: usize,
    /// The weight, its strides along groups, rows and channels, and along taps.
    pub a: u64,
    pub a_strides: [i64; 3],
    pub a_tap: [i64; AXES],
    pub x: Side,
    pub x_extent: [usize; AXES],
    pub out: Side,
    /// 0 for none.
    pub bias: u64,
    pub epilogue: Option<BoundEpilogue<'a>>,
}

impl Direct<'_> {
    pub(super) fn run(&self, written: &Buffer) -> Result<()> {
        let space = Box3 { outer: self.batch, middle: self.groups * self.rows, inner: self.places };
        let bytes = self.dtype.size_bytes() as i64;
        for (first, batch) in outer_runs(self.op, space)? {
            let count = Box3 { outer: batch, ..space }.len();
            let skip = |side: &Side| side.address.wrapping_add_signed(first as i64 * side.outer[0] * bytes);
            let args = DirectArgs {
                a: self.a,
                x: skip(&self.x),
                bias: self.bias,
                out: skip(&self.out),
                a_group: self.a_strides[0],
                a_row: self.a_strides[1],
                a_channel: self.a_strides[2],
                a_batch: 0,
                x_batch: self.x.outer[0],
                x_channel: self.x.outer[1],
                out_batch: self.out.outer[0],
                out_channel: self.out.outer[1],
                a_axis: self.a_tap,
                x_axis: self.x.axis,
                out_axis: self.out.axis,
                extent: self.x_extent.map(|extent| extent as i32),
                mul: self.window.mul,
                dil: self.window.dil,
                off: self.window.off,
                place: self.window.places.map(FastDiv::new),
                tap: self.window.taps.map(FastDiv::bound),
                rows: FastDiv::new(self.rows),
                channels: FastDiv::bound(self.channels),
                groups: FastDiv::new(self.groups),
                count: count as u32,
                steps: 0,
                padding: 0,
            };
            let epilogue = self.epilogue.map(|epilogue| epilogue.from(BATCH, first));
            let kernel = (self.op, "direct");
            launch(self.stream, kernel, self.dtype, count.div_ceil(BLOCK), &args, epilogue.as_ref(), written)?;
        }
        Ok(())
    }
}

/// The sum over images and places, as in `conv.rs`.
pub(super) struct DirectWeight<'a> {
    pub stream: &'a Stream,
    pub dtype: DType,
    pub window: Window,
    pub groups: usize,
    pub rows: usize,
    pub channels: usize,
    /// Places of all images.
    pub steps: usize,
    pub x: Side,
    pub x_extent: [usize; AXES],
    pub grad: Side,
}

impl DirectWeight<'_> {
    pub(super) fn run(&self, weight_grad: &View<'_>) -> Result<()> {
        const OP: &str = "conv_weight_gradient";
        let args = DirectArgs {
            a: self.grad.address,
            x: self.x.address,
            bias: 0,
            out: weight_grad.device_address(),
            a_group: self.grad.outer[1] * self.rows as i64,
            a_row: self.grad.outer[1],
            a_channel: 0,
            a_batch: self.grad.outer[0],
            x_batch: self.x.outer[0],
            x_channel: self.x.outer[1],
            out_batch: 0,
            out_channel: 0,
            a_axis: self.grad.axis,
            x_axis: self.x.axis,
            out_axis: [0; AXES],
            extent: self.x_extent.map(|extent| extent as i32),
            mul: self.window.mul,
            dil: self.window.dil,
            off: self.window.off,
            place: self.window.places.map(FastDiv::new),
            tap: self.window.taps.map(FastDiv::new),
            rows: FastDiv::new(self.rows),
            channels: FastDiv::new(self.channels),
            groups: FastDiv::new(self.groups),
            count: 0,
            steps: self.steps as u32,
            padding: 0,
        };
        let count = weight_grad.len();
        if count >= BOX_LIMIT {
            return Err(shape(OP, "weight_grad", format!("fewer than {BOX_LIMIT} elements"), count));
        }
        launch(self.stream, (OP, "direct_weight"), self.dtype, count, &args, None, weight_grad.buffer())
    }
}

fn launch(
    stream: &Stream,
    kernel: (&'static str, &str),
    dtype: DType,
    groups: usize,
    args: &DirectArgs,
    epilogue: Option<&BoundEpilogue<'_>>,
    written: &Buffer,
) -> Result<()> {
    static SOURCES: Sources<(DirectKey, u128)> = Sources::new();
    let (hash, text) = epilogue::hash_and_text(epilogue);
    let key = DirectKey { dtype };
    let source = SOURCES.get((key, hash), |_| source_behind(key, text));
    let (grid, block) = ([groups, 1, 1], [BLOCK, 1, 1]);
    // SAFETY:
    // - `DirectArgs` is the twin of the kernel's struct, sizes asserted on both sides. Places, taps, channels and groups are
    //   those of checked views, coordinates outside of `extent` are not read. The epilogue's tensors were laid over the same
    //   result, and it reads and writes them there.
    // - It writes `written` only, or the epilogue's outputs.
    unsafe { KernelLaunch::new(stream, &source, kernel, grid, block).run_with_epilogue(args, epilogue, written, None) }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DirectKey {
    pub dtype: DType,
}

/// The source of one variant.
pub(crate) fn source(key: DirectKey) -> Source {
    source_behind(key, "")
}

/// The source of one variant behind the text of an epilogue, or of none.
fn source_behind(key: DirectKey, epilogue: &str) -> Source {
    let defines = [
        ("DIRECT_IN", c_type(key.dtype)),
        ("DIRECT_SUM", c_type(sum_dtype(key.dtype))),
        ("DIRECT_EPILOGUE", if epilogue.is_empty() { "0" } else { "1" }),
    ];
    Source::new("direct", epilogue::in_front(epilogue, include_str!("direct.hip")), &defines)
}

/// `DirectArgs` of `direct.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct DirectArgs {
    a: u64,
    x: u64,
    bias: u64,
    out: u64,
    a_group: i64,
    a_row: i64,
    a_channel: i64,
    a_batch: i64,
    x_batch: i64,
    x_channel: i64,
    out_batch: i64,
    out_channel: i64,
    a_axis: [i64; AXES],
    x_axis: [i64; AXES],
    out_axis: [i64; AXES],
    extent: [i32; AXES],
    mul: [i32; AXES],
    dil: [i32; AXES],
    off: [i32; AXES],
    place: [FastDiv; AXES],
    tap: [FastDiv; AXES],
    rows: FastDiv,
    channels: FastDiv,
    groups: FastDiv,
    count: u32,
    steps: u32,
    padding: u32,
}
const _: () = assert!(size_of::<DirectArgs>() == 336);
