//! `cumulative`: the launcher of `cumulative.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_hal::{Buffer, DType, Error, Source, Stream, Tensor, View, ViewMut};

use crate::Result;
use crate::family::{
    self, BLOCK, BOX_LIMIT, Box3, FastDiv, Input3, KernelLaunch, Output3, Sources, Strides3, c_type, shape,
};

const OP: &str = "cumulative";
/// Elements that one lane goes through in a row.
const FAN: usize = 16;
/// Elements that a workgroup holds in LDS: 34 KiB of the widest.
const CHUNK: usize = FAN * FAN * FAN;
const _: () = assert!(BLOCK == FAN * FAN, "a lane per run");
/// Fewest lines that are a lane's each: a wave on each SIMD of a quarter of the largest device.
const LINES_MIN: usize = 16384;

/// What is run along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cumulative {
    /// Sum, from 0.
    Sum,
    /// Product, from 1.
    Prod,
    /// Minimum; NaN from where it comes in.
    Min,
    /// Maximum; NaN from where it comes in.
    Max,
}

impl Cumulative {
    /// Every one.
    pub const ALL: [Cumulative; 4] = [Cumulative::Sum, Cumulative::Prod, Cumulative::Min, Cumulative::Max];
}

/// `out[.., m, ..] = op over x[.., 0..=m, ..]` along axis `dim`.
///
/// # Shapes
/// `x` and `out` alike; any strides. `out` may be `x` (same memory, same layout).
/// # Types
/// One type for both, any but `Bool`.
/// # Numerics
/// In a fixed order that only an element's place in its line decides: runs of 16, runs of 16 of those, and so on, each in
/// ascending order. f32 for 16-bit floats, each output rounded once; integers wrap around.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit, and for 2³¹ lines or more; `Unsupported` for `Bool`.
pub fn cumulative(stream: &Stream, op: Cumulative, dim: usize, x: View<'_>, out: ViewMut<'_>) -> Result<()> {
    for (arg, view) in [("x", &x), ("out", &out.view())] {
        family::on_device(OP, arg, stream, view)?;
    }
    family::axis(OP, dim, x.layout().rank())?;
    if out.shape() != x.shape() {
        return Err(shape(OP, "out", format!("{:?}", x.shape()), format!("{:?}", out.shape())));
    }
    family::same_dtype(OP, "out", &out, x.dtype())?;
    if x.dtype() == DType::Bool {
        return Err(Error::Unsupported { op: OP, dtype: DType::Bool, arch: x.arch() }.into());
    }
    family::writable(OP, "out", &out)?;
    let in_place = out.buffer().same(x.buffer()) && out.layout() == x.layout();
    if !in_place {
        family::disjoint(OP, "x", &out, &x)?;
    }
    if out.is_empty() {
        return Ok(());
    }
    let element = (x.dtype(), op);
    let space = Box3::of(x.shape(), dim);
    let x = Input3::new(stream, x, dim)?;
    let out = Output3::new(stream, out, dim, false)?;
    let lines = space.outer * space.inner;
    if lines >= BOX_LIMIT {
        return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} lines"), lines));
    }
    // Neighbouring lines in neighbouring lanes read whole cache lines where the elements of one line lie apart; there must be
    // enough of them to fill a device, since each is one lane's.
    let wave = stream.device().arch().info().wave_size as usize;
    let across = x.strides().middle.abs() != 1 && space.inner >= wave;
    let target = out.view();
    let pass = Pass {
        element,
        x: x.address(),
        x_strides: x.strides(),
        out: out.address(),
        out_strides: out.strides(),
        written: target.buffer(),
        extent: space.middle,
        inner: space.inner,
        lines,
        exclusive: false,
    };
    if across && lines >= LINES_MIN {
        pass.launch(stream, "cumulative_lines", lines.div_ceil(BLOCK), pass.args(), pass.written)?;
    } else {
        pass.run(stream)?;
    }
    out.finish(stream)
}

/// One cumulative operator over lines; the running one of a whole line, or that of the chunks of longer ones.
struct Pass<'a> {
    element: (DType, Cumulative),
    x: u64,
    x_strides: Strides3,
    out: u64,
    out_strides: Strides3,
    written: &'a Buffer,
    extent: usize,
    inner: usize,
    lines: usize,
    /// Whether an output is what comes before its element.
    exclusive: bool,
}

impl Pass<'_> {
    /// By workgroups: as they are, or with what comes before each chunk of a line that is longer than a workgroup holds.
    fn run(&self, stream: &Stream) -> Result<()> {
        if self.extent <= CHUNK {
            let segment = [FAN, FAN * FAN, CHUNK].into_iter().find(|&places| self.extent <= places);
            let segment = segment.expect("a chunk holds the line");
            let args = CumulativeArgs { segment_log2: segment.trailing_zeros(), ..self.args() };
            let groups = self.lines.div_ceil(CHUNK / segment);
            return self.launch(stream, "cumulative_groups", groups, args, self.written);
        }
        let chunks = self.extent.div_ceil(CHUNK);
        let dtype = running(self.element);
        let totals = Tensor::empty(&stream.device(), &[self.lines, chunks], dtype)?;
        let carries = Tensor::empty(&stream.device(), &[self.lines, chunks], dtype)?;
        let address = |tensor: &Tensor| tensor.view().device_address();
        let args = CumulativeArgs {
            totals: address(&totals),
            chunks: FastDiv::new(chunks),
            segment_log2: CHUNK.trailing_zeros(),
            ..self.args()
        };
        self.launch(stream, "cumulative_totals", self.lines * chunks, args, totals.buffer())?;
        let strides = Strides3 { outer: chunks as i64, middle: 1, inner: 0 };
        let above = Pass {
            element: (dtype, self.element.1),
            x: address(&totals),
            x_strides: strides,
            out: address(&carries),
            out_strides: strides,
            written: carries.buffer(),
            extent: chunks,
            inner: 1,
            lines: self.lines,
            exclusive: true,
        };
        above.run(stream)?;
        let args = CumulativeArgs { carries: address(&carries), totals: 0, ..args };
        self.launch(stream, "cumulative_groups", self.lines * chunks, args, self.written)
    }

    fn args(&self) -> CumulativeArgs {
        CumulativeArgs {
            x: self.x,
            out: self.out,
            carries: 0,
            totals: 0,
            x_strides: self.x_strides,
            out_strides: self.out_strides,
            extent: self.extent as i64,
            chunks: FastDiv::new(1),
            inner: FastDiv::new(self.inner),
            lines: self.lines as u32,
            segment_log2: 0,
            exclusive: u32::from(self.exclusive),
            padding: 0,
        }
    }

    fn launch(
        &self,
        stream: &Stream,
        kernel: &'static str,
        groups: usize,
        args: CumulativeArgs,
        written: &Buffer,
    ) -> Result<()> {
        if groups >= BOX_LIMIT {
            return Err(shape(OP, "x", format!("fewer than {BOX_LIMIT} chunks of {CHUNK} elements"), groups));
        }
        static SOURCES: Sources<CumulativeKey> = Sources::new();
        let source = SOURCES.get(CumulativeKey { dtype: self.element.0, op: self.element.1 }, source);
        let (grid, block) = ([groups, 1, 1], [BLOCK, 1, 1]);
        // SAFETY:
        // - `CumulativeArgs` is the twin of the kernel's struct, sizes asserted on both sides; the kernels visit `extent`
        //   elements of each of `lines` lines of `x` and `out`, inside the checked views or the tensors of `run`, and one
        //   element of `totals` and `carries` for each chunk of each line, which is what those hold.
        // - They write the totals or the output, whichever `written` names.
        unsafe { KernelLaunch::new(stream, &source, (OP, kernel), grid, block).run(&args, &[written]) }
    }
}

/// What the kernel keeps sums, products and extrema in.
fn running((dtype, op): (DType, Cumulative)) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::I8 | DType::I16 | DType::I32 | DType::U8 | DType::U16 | DType::U32
            if matches!(op, Cumulative::Sum | Cumulative::Prod) =>
        {
            DType::U32
        }
        DType::I64 if matches!(op, Cumulative::Sum | Cumulative::Prod) => DType::U64,
        dtype => dtype,
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CumulativeKey {
    pub dtype: DType,
    pub op: Cumulative,
}

/// The source of one variant.
pub(crate) fn source(key: CumulativeKey) -> Source {
    let op = match key.op {
        Cumulative::Sum => "0",
        Cumulative::Prod => "1",
        Cumulative::Min => "2",
        Cumulative::Max => "3",
    };
    let fan = FAN.to_string();
    let defines = [("CUMULATIVE_TYPE", c_type(key.dtype)), ("CUMULATIVE_OP", op), ("CUMULATIVE_FAN", fan.as_str())];
    Source::new("cumulative", include_str!("cumulative.hip"), &defines)
}

/// Its rows of the registry.
pub(crate) fn sources(dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let ops = Cumulative::ALL.into_iter().filter(move |_| dtype != DType::Bool);
    ops.map(move |op| (OP, source(CumulativeKey { dtype, op })))
}

/// `CumulativeArgs` of `cumulative.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CumulativeArgs {
    x: u64,
    out: u64,
    carries: u64,
    totals: u64,
    x_strides: Strides3,
    out_strides: Strides3,
    extent: i64,
    chunks: FastDiv,
    inner: FastDiv,
    lines: u32,
    segment_log2: u32,
    exclusive: u32,
    padding: u32,
}
const _: () = assert!(size_of::<CumulativeArgs>() == 128);

#[cfg(test)]
mod tests;
