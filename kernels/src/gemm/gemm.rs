//! `gemm`: the launcher of `gemm.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_fusion::{Epilogue, EpilogueTensor};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{Buffer, DType, Level, Precision, Source, Stream, Tensor, View, ViewMut};

use super::choice::{Machine, SIMDS, choose, is_sliced};
use super::sources::{GemmKey, source_behind, sum_dtype};
use super::tiling::{Mode, TILINGS, Tiling, Unit, has_tf32};
use crate::Result;
use crate::attached::Attached;
use crate::epilogue::{self, BoundEpilogue, Shared};
use crate::family::{self, GRID_YZ_MAX, KernelLaunch, Sources, shape};
use crate::tuning::{Candidate, Lies, Shape};

const OP: &str = "gemm";
/// Batch axes that the kernel decodes: all that a tensor has besides the two of the matrix.
const BATCH_AXES: usize = rocfire_hal::MAX_RANK - 2;
/// Least K per partial sum, and most partial sums ([`chunk_of`]).
const CHUNK: usize = 1024;
const CHUNKS_MAX: usize = 16;
/// Most workgroups of a launch that waits for others: more fill any card for so long that a launch saved is no gain.
const SHARED_GROUPS_MOST: usize = 4096;
/// Threads of `gemm_sum`.
const SUM_BLOCK: usize = 256;
/// Columns of a lane of `gemm_sum`, where there are so many elements of C that lanes enough are left.
const SUM_EACH: usize = 4;
const SUM_LARGE: usize = 1 << 17;

/// Choices that change the time of a product, and, but for `tf32`, no bit of it among our own kernels.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct GemmParams {
    /// Split-K: whether slices of K go to different workgroups; `None`: where the device would else be idle.
    pub slice_k: Option<bool>,
    /// Which tiling, by its number in the table; `None`: by shape.
    pub tiling: Option<usize>,
    /// The vendor's library, by the number of its plan, whose bits are its own; `None`: by shape, and never where `tiling` or
    /// `slice_k` is said.
    pub vendor: Option<usize>,
    /// Whether factors of f32 may be rounded to TF32's 10 bits of fraction, which is faster where the vendor's library or, by our
    /// own kernels, the matrix unit (CDNA 3's) has it; elsewhere it means nothing.
    pub tf32: bool,
}

/// `c = a · b`, batched.
///
/// # Shapes
/// `a`: `[.., M, K]`, `b`: `[.., K, N]`, `c`: `[.., M, N]`; any strides. Batch axes of `a` and `b` broadcast against those
/// of `c`, aligned at the last ([`output_shape`]). Extents of 0 are allowed; `K = 0` gives zeros.
/// # Types
/// One element type for all three, any but `Bool`; with 16-bit floats `c` may also be f32, with i8 also i32. Integers wrap around.
/// # Numerics
/// Products and sums in f32 for f32 and 16-bit floats (f64 for f64), one rounding at the store; partial sums along K
/// are added in ascending order ([`chunk_of`]), so that neither tiling, slicing nor strides change a bit. Large products on a GPU
/// whose vendor's library is installed go there, unless `ROCFIRE_VENDOR=0` or the run is deterministic: the library sums in f32
/// (f64, i32), too, in an order of its own, which may change with its version. With [`Precision`] other than `F32` in the device's settings, f32 operands are rounded to 16 bits first.
/// With [`GemmParams::tf32`] the factors of f32 may be rounded to 11 significant bits: a product then differs by at most 2⁻¹⁰ of itself, twice that where the unit cuts bits off, and sums are as before.
/// # Errors
/// `Shape` for shapes that do not fit, for a `c` that overlaps an input or repeats an element, for a K beyond 2³¹, for a plan in `params` that the vendor's library does not have; `Unsupported` for `Bool`; errors of compilation and launch.
pub fn gemm(stream: &Stream, a: View<'_>, b: View<'_>, c: ViewMut<'_>, params: &GemmParams) -> Result<()> {
    check(stream, &a, &b, c.dtype())?;
    check_output(stream, &a, &b, "c", &c)?;
    multiply(stream, a, b, c.view(), None, params)
}

/// What `epilogue` computes of `a · b`: nothing but its outputs is written.
///
/// # Shapes
/// As [`gemm`]; the epilogue was made for the shape of the product, and each of its outputs has it.
/// # Types
/// The epilogue's first input takes `c`'s place: it has the operands' element type, or is f32 behind 16-bit floats, i32 behind i8.
/// # Numerics
/// The bits of [`gemm`] by our own kernels, and then the epilogue's graph: the vendor's library has no epilogues of ours.
/// # Errors
/// As [`gemm`], each output in `c`'s place.
pub fn gemm_fused(
    stream: &Stream,
    a: View<'_>,
    b: View<'_>,
    epilogue: &Epilogue<'_>,
    params: &GemmParams,
) -> Result<()> {
    check(stream, &a, &b, epilogue.result())?;
    for output in epilogue.outputs() {
        check_output(stream, &a, &b, "output", output)?;
    }
    match epilogue.outputs() {
        [] => Ok(()),
        [first, ..] => multiply(stream, a, b, first.view(), Some(BoundEpilogue::new(epilogue)), params),
    }
}

/// The type that the device's settings want factors rounded to first.
fn lowered(stream: &Stream, input: DType) -> Option<DType> {
    match (input, stream.device().config().precision) {
        (DType::F32, Precision::Bf16) => Some(DType::BF16),
        (DType::F32, Precision::F16) => Some(DType::F16),
        _ => None,
    }
}

/// The product of checked operands, stored in `c`, or by the epilogue, whose first output `c` then is. Its axes are columns,
/// rows, batch axes from the innermost.
pub(crate) fn multiply(
    stream: &Stream,
    a: View<'_>,
    b: View<'_>,
    c: View<'_>,
    epilogue: Option<BoundEpilogue<'_>>,
    params: &GemmParams,
) -> Result<()> {
    if c.is_empty() {
        return Ok(());
    }
    if let Some(dtype) = lowered(stream, a.dtype()) {
        let (a, b) = (family::cast(stream, a, dtype)?, family::cast(stream, b, dtype)?);
        return Product::new(stream, a.view(), b.view(), c, epilogue).run(params);
    }
    Product { tf32: params.tf32 && a.dtype() == DType::F32, ..Product::new(stream, a, b, c, epilogue) }.run(params)
}

/// K per partial sum: 1024, doubled until there are at most 16 of them. A product is the sum of its partial sums in ascending
/// order, which bounds the rounding error of long sums and lets slices of K go to different workgroups without changing a bit;
/// the order of the sum is a function of K, the element type and the architecture's matrix unit.
pub fn chunk_of(k: usize) -> usize {
    let mut chunk = CHUNK;
    while k.div_ceil(chunk) > CHUNKS_MAX {
        chunk *= 2;
    }
    chunk
}

/// The shape of `a · b`: batch axes broadcast, then `[M, N]`.
///
/// # Errors
/// `Shape` unless both have two axes or more, K agrees, and the batch axes broadcast.
pub fn output_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    output_extents(a, b, |extent| out.push(extent))?;
    Ok(out)
}

/// Tells `each` the extents of `a · b`, the first axis first; on the heap only for an error.
fn output_extents(a: &[usize], b: &[usize], mut each: impl FnMut(usize)) -> Result<()> {
    let matrices = |arg, s: &[usize]| match s {
        [.., rows, cols] => Ok([*rows, *cols]),
        _ => Err(shape(OP, arg, "[.., rows, cols]", format!("{s:?}"))),
    };
    let ([m, k], [b_k, n]) = (matrices("a", a)?, matrices("b", b)?);
    if k != b_k {
        return Err(shape(OP, "b", format!("[.., {k}, N]"), format!("{b:?}")));
    }
    let rank = a.len().max(b.len());
    let extent = |s: &[usize], axis: usize| if axis + s.len() < rank { 1 } else { s[axis + s.len() - rank] };
    for axis in 0..rank - 2 {
        match (extent(a, axis), extent(b, axis)) {
            (x, y) if x == y || y == 1 => each(x),
            (1, y) => each(y),
            _ => return Err(shape(OP, "b", format!("batch axes that broadcast with {a:?}"), format!("{b:?}"))),
        }
    }
    each(m);
    each(n);
    Ok(())
}

/// Checks the operands, and the element type of what they give.
fn check(stream: &Stream, a: &View<'_>, b: &View<'_>, result: DType) -> Result<()> {
    for (arg, view) in [("a", a), ("b", b)] {
        family::on_device(OP, arg, stream, view)?;
    }
    if a.dtype() == DType::Bool {
        return Err(rocfire_hal::Error::Unsupported { op: OP, dtype: DType::Bool, arch: a.arch() }.into());
    }
    family::same_dtype(OP, "b", b, a.dtype())?;
    let is_widened = matches!((a.dtype(), result), (DType::F16 | DType::BF16, DType::F32) | (DType::I8, DType::I32));
    if is_widened || result == a.dtype() { Ok(()) } else { Err(shape(OP, "c", a.dtype(), result)) }
}

fn check_output(stream: &Stream, a: &View<'_>, b: &View<'_>, arg: &'static str, c: &ViewMut<'_>) -> Result<()> {
    family::on_device(OP, arg, stream, c)?;
    let (mut axes, mut equal) = (0, true);
    output_extents(a.shape(), b.shape(), |extent| {
        equal &= c.shape().get(axes) == Some(&extent);
        axes += 1;
    })?;
    if !equal || c.layout().rank() != axes {
        let expected = output_shape(a.shape(), b.shape())?;
        return Err(shape(OP, arg, format!("{expected:?}"), format!("{:?}", c.shape())));
    }
    family::writable(OP, arg, c)?;
    family::disjoint(OP, "a", c, a)?;
    family::disjoint(OP, "b", c, b)
}

/// One of `a`, `b`, `c`: address and strides, in elements.
#[derive(Clone, Copy)]
struct Operand {
    address: u64,
    /// Strides of the rows of A and C, of the columns of B.
    line: i64,
    /// Strides along K; of the columns of C.
    depth: i64,
    /// Strides of the batch axes, the innermost first.
    batch: [i64; BATCH_AXES],
}

/// A product reduced to what the kernel needs: merged batch axes and bare strides.
#[derive(Clone, Copy)]
struct Product<'a> {
    stream: &'a Stream,
    reads: [View<'a>; 2],
    c_buffer: &'a Buffer,
    input: DType,
    output: DType,
    tf32: bool,
    a: Operand,
    b: Operand,
    c: Operand,
    m: usize,
    n: usize,
    k: usize,
    extents: [usize; BATCH_AXES],
    axes: usize,
    epilogue: Option<BoundEpilogue<'a>>,
}

impl<'a> Product<'a> {
    fn new(
        stream: &'a Stream,
        a: View<'a>,
        b: View<'a>,
        c: View<'a>,
        epilogue: Option<BoundEpilogue<'a>>,
    ) -> Product<'a> {
        let rank = c.layout().rank();
        let (m, n) = (c.shape()[rank - 2], c.shape()[rank - 1]);
        let k = a.shape()[a.layout().rank() - 1];
        let operand = |view: &View<'_>, swap: bool| {
            let (own, strides) = (view.layout().rank(), view.layout().strides());
            let mut batch = [0; BATCH_AXES];
            for (axis, stride) in batch.iter_mut().enumerate().take(own - 2) {
                let from = own - 3 - axis;
                *stride = if view.shape()[from] == 1 { 0 } else { strides[from] };
            }
            let (row, col) = (strides[own - 2], strides[own - 1]);
            let (line, depth) = if swap { (col, row) } else { (row, col) };
            Operand { address: view.device_address(), line, depth, batch }
        };
        let mut extents = [1; BATCH_AXES];
        for (axis, extent) in extents.iter_mut().enumerate().take(rank - 2) {
            *extent = c.shape()[rank - 3 - axis];
        }
        let mut product = Product {
            stream,
            reads: [a, b],
            c_buffer: c.buffer(),
            input: a.dtype(),
            output: epilogue.map_or(c.dtype(), |epilogue| epilogue.result()),
            tf32: false,
            a: operand(&a, false),
            b: operand(&b, true),
            c: operand(&c, false),
            m,
            n,
            k,
            extents,
            axes: rank - 2,
            epilogue,
        };
        product.merge_axes();
        product.merge_rows();
        product
    }

    fn operands(&mut self) -> [&mut Operand; 3] {
        [&mut self.a, &mut self.b, &mut self.c]
    }

    fn tensors(&mut self) -> &mut [EpilogueTensor] {
        self.epilogue.as_mut().map_or(&mut [], BoundEpilogue::tensors_mut)
    }

    /// Takes axis `axis` out of the batch.
    fn drop_axis(&mut self, axis: usize) {
        self.extents.copy_within(axis + 1.., axis);
        self.extents[BATCH_AXES - 1] = 1;
        for operand in self.operands() {
            operand.batch.copy_within(axis + 1.., axis);
            operand.batch[BATCH_AXES - 1] = 0;
        }
        for tensor in self.tensors() {
            let batch = &mut tensor.strides[2..];
            batch.copy_within(axis + 1.., axis);
            batch[BATCH_AXES - 1] = 0;
        }
        self.axes -= 1;
    }

    /// Drops axes of one index, and makes one of neighbouring axes that are one in all tensors.
    fn merge_axes(&mut self) {
        let mut axis = 0;
        while axis < self.axes {
            if self.extents[axis] == 1 {
                self.drop_axis(axis);
                continue;
            }
            let extent = self.extents[axis] as i64;
            let next = axis + 1;
            let one = next < self.axes
                && self.operands().iter().all(|operand| operand.batch[next] == operand.batch[axis] * extent)
                && self.tensors().iter().all(|tensor| tensor.strides[2 + next] == tensor.strides[2 + axis] * extent);
            if one {
                // The outer axis takes the inner one's strides.
                for operand in self.operands() {
                    operand.batch[next] = operand.batch[axis];
                }
                for tensor in self.tensors() {
                    tensor.strides[2 + next] = tensor.strides[2 + axis];
                }
                self.extents[next] *= self.extents[axis];
                self.drop_axis(axis);
                continue;
            }
            axis += 1;
        }
    }

    /// A batch that shares one B is more rows of A, where rows and batch form one axis.
    fn merge_rows(&mut self) {
        while self.axes > 0 {
            let m = self.m as i64;
            // One row has no stride of its own: it takes the batch's.
            let follows = |tensor: &EpilogueTensor| m == 1 || tensor.strides[2] == tensor.strides[1] * m;
            let one = self.b.batch[0] == 0
                && self.a.batch[0] == self.a.line * m
                && self.c.batch[0] == self.c.line * m
                && self.tensors().iter().all(follows);
            if !one {
                return;
            }
            if m == 1 {
                self.tensors().iter_mut().for_each(|tensor| tensor.strides[1] = tensor.strides[2]);
            }
            self.m *= self.extents[0];
            self.drop_axis(0);
        }
    }

    /// In which way an operand of `lines` rows or columns can be read `vector` elements at once.
    fn mode(&self, operand: &Operand, lines: usize, vector: usize) -> Mode {
        let bytes = self.input.size_bytes();
        let whole = |stride: i64| stride % vector as i64 == 0;
        let aligned =
            operand.address.is_multiple_of((vector * bytes) as u64) && operand.batch.iter().all(|&s| whole(s));
        if aligned && operand.depth == 1 && whole(operand.line) && self.k.is_multiple_of(vector) {
            Mode::VectorK
        } else if aligned && operand.line == 1 && whole(operand.depth) && lines.is_multiple_of(vector) {
            Mode::VectorLine
        } else if operand.depth.abs() <= operand.line.abs() {
            Mode::SingleK
        } else {
            Mode::SingleLine
        }
    }

    /// What the device multiplies these operands with, as far as its settings let it.
    fn unit(&self) -> Unit {
        let device = self.stream.device();
        let unit = Unit::of(device.arch().info(), self.input);
        // In vectors of four f32, as every plain tile reads them.
        let along_k = |operand, lines| self.mode(operand, lines, 16 / self.input.size_bytes()) == Mode::VectorK;
        let unit = unit.reading(along_k(&self.a, self.m) && along_k(&self.b, self.n));
        if device.config().matrix { unit } else { unit.without_matrix() }
    }

    fn tiling(&self, params: &GemmParams, unit: Unit, machine: Machine) -> Result<Tiling> {
        let Some(number) = params.tiling else {
            let batches = self.extents.iter().product();
            let tiling = choose(unit, self.input, [self.m, self.n], batches, machine);
            let (longer, lines) = if self.m > self.n { (&self.a, self.m) } else { (&self.b, self.n) };
            let along_k = self.mode(longer, lines, tiling.vector(self.input)) == Mode::VectorK;
            return Ok(if along_k { tiling.along_k(unit) } else { tiling });
        };
        let tiling = TILINGS.get(number).filter(|tiling| tiling.serves(unit));
        tiling.copied().ok_or_else(|| shape(OP, "params.tiling", format!("a tiling for {}", self.input), number))
    }

    fn run(self, params: &GemmParams) -> Result<()> {
        let plan = match params.vendor {
            Some(choice) => {
                let none = || shape(OP, "params.vendor", "a plan of the vendor's library", choice);
                Some(self.plan(choice).ok_or_else(none)?)
            }
            None if params.tiling.is_none() && params.slice_k.is_none() => return self.run_tuned(params),
            None => None,
        };
        match plan {
            Some(plan) => self.multiply_by(&plan),
            None => self.run_ours(params),
        }
    }

    /// What tuning tables know it by.
    fn shape(&self) -> Shape {
        Shape {
            input: self.input,
            codes: None,
            output: self.output,
            lies: Lies::of(self.a.depth == 1, self.b.depth == 1),
            size: [self.m, self.n, self.k],
            batches: self.extents.iter().product(),
        }
    }

    /// By what a tuning table says, else by the heuristic.
    fn run_tuned(self, params: &GemmParams) -> Result<()> {
        let device = self.stream.device();
        let attached = Attached::of(&device);
        let tables = attached.tables(&device);
        let shape = self.shape();
        let found = self.tuned();
        match found {
            Some(candidate) => device.report(Level::Trace, format_args!("{OP} of {shape:?}: tuned, {candidate}")),
            None => device.report(Level::Trace, format_args!("{OP} of {shape:?}: not tuned")),
        }
        if let Some(Candidate::Tiling { number, sliced }) = found {
            return self.run_ours(&GemmParams { tiling: Some(number), slice_k: Some(sliced), ..*params });
        }
        if found.is_none() && self.epilogue.is_none() && !self.tf32 {
            tables.note(&device, shape);
        }
        let plan = match found {
            Some(Candidate::Vendor { choice }) => self.plan(choice),
            _ => self.preferred_plan(),
        };
        match plan {
            Some(plan) => self.multiply_by(&plan),
            None => self.run_ours(params),
        }
    }

    /// By our own kernels.
    fn run_ours(self, params: &GemmParams) -> Result<()> {
        let device = self.stream.device();
        let (info, unit) = (device.arch().info(), self.unit());
        let machine = machine(&device);
        let tiling = self.tiling(params, unit, machine)?;
        let [bm, bn] = tiling.block();
        let tiles = [self.n.div_ceil(bn), self.m.div_ceil(bm)];
        if self.k > i32::MAX as usize {
            return Err(shape(OP, "a", format!("at most {} columns", i32::MAX), self.k));
        }
        if let Some(axis) = tiles.iter().position(|&tiles| tiles > GRID_YZ_MAX) {
            return self.in_parts(axis, GRID_YZ_MAX * [bn, bm][axis], params);
        }
        let batches: usize = self.extents.iter().product();
        let chunks = self.k.div_ceil(chunk_of(self.k)).max(1);
        let sliced = is_sliced(&tiling, machine, [self.m, self.n, self.k], batches);
        let slice = params.slice_k.unwrap_or(sliced) && chunks > 1;
        let vector = tiling.vector(self.input);
        let (a, b) = (self.mode(&self.a, self.m, vector), self.mode(&self.b, self.n, vector));
        // The order of sums that wrap around is of no account.
        let chunked = !slice && chunks > 1 && !self.input.is_int();
        let staging = tiling.staging(unit, [a, b], chunked);
        let output = if slice { sum_dtype(self.input) } else { self.output };
        let tf32 = self.tf32 && tiling.matrix_size > 0 && has_tf32(info);
        let key = GemmKey { input: self.input, output, tf32, tiling, a, b, chunked, staging };
        let block = [tiling.threads(info.wave_size as usize), 1, 1];
        if !slice {
            let epilogue = self.epilogue.as_ref();
            let target = Target { epilogue, c: &self.c, slices: 1, c_slice: 0, slice_k: self.k };
            return self.launch(key, tiles, block, &target, self.c_buffer);
        }
        let partial = Tensor::empty(&device, &[chunks, batches, self.m, self.n], key.output)?;
        let mut batch = [0; BATCH_AXES];
        let mut stride = (self.m * self.n) as i64;
        for (to, &extent) in batch.iter_mut().zip(&self.extents).take(self.axes) {
            *to = stride;
            stride *= extent as i64;
        }
        let c = Operand { address: partial.view().device_address(), line: self.n as i64, depth: 1, batch };
        let target = Target { epilogue: None, c: &c, slices: chunks, c_slice: stride, slice_k: chunk_of(self.k) };
        self.launch(key, tiles, block, &target, partial.buffer())?;
        self.sum(GemmKey { output: self.output, ..key }, &partial, chunks)
    }

    /// A product of more columns (axis 0) or rows (1) than a grid's tiles cover, so many of them at a time.
    fn in_parts(self, axis: usize, part: usize, params: &GemmParams) -> Result<()> {
        let extent = [self.n, self.m][axis];
        for first in (0..extent).step_by(part) {
            let mut own = self;
            let at = |address: u64, stride: i64, dtype: DType| {
                address.wrapping_add_signed(stride * first as i64 * dtype.size_bytes() as i64)
            };
            let (operand, along) = match axis {
                0 => (&mut own.b, own.c.depth),
                _ => (&mut own.a, own.c.line),
            };
            operand.address = at(operand.address, operand.line, self.input);
            own.c.address = at(own.c.address, along, self.output);
            own.epilogue = self.epilogue.map(|epilogue| epilogue.from(axis, first));
            *[&mut own.n, &mut own.m][axis] = part.min(extent - first);
            own.run_ours(params)?;
        }
        Ok(())
    }

    fn launch(
        &self,
        key: GemmKey,
        tiles: [usize; 2],
        block: [usize; 3],
        target: &Target<'_, '_>,
        written: &Buffer,
    ) -> Result<()> {
        let Target { epilogue, c, slices, c_slice, slice_k } = *target;
        let source = kept_source(key, epilogue, 0);
        let batches: usize = self.extents.iter().product();
        let shape = [batches, self.m, self.n, self.k];
        let run = (GRID_YZ_MAX / slices).max(1);
        for first in (0..batches).step_by(run) {
            let batches = run.min(batches - first);
            let args = GemmArgs {
                a: self.a.address,
                b: self.b.address,
                c: c.address,
                a_row: self.a.line,
                a_k: self.a.depth,
                b_k: self.b.depth,
                b_col: self.b.line,
                c_row: c.line,
                c_col: c.depth,
                c_slice,
                a_batch: self.a.batch,
                b_batch: self.b.batch,
                c_batch: c.batch,
                batch_extent: self.extents.map(|extent| extent as u32),
                batch_axes: self.axes as u32,
                batches: batches as u32,
                m: self.m as u32,
                n: self.n as u32,
                k: self.k as u32,
                slice_k: slice_k as u32,
                first_batch: first as u32,
                chunk: chunk_of(self.k) as u32,
            };
            let grid = [tiles[0], tiles[1], batches * slices];
            let launch = KernelLaunch::new(self.stream, &source, (OP, "gemm"), grid, block);
            let launch = launch.with(key.staging.lds_bytes, self.work(&shape));
            // Slices are read next, which is when they would be launched anyway.
            let is_small = slices == 1 && grid.iter().product::<usize>() <= SHARED_GROUPS_MOST;
            let several = |capacity| kept_source(key, epilogue, capacity);
            let shared = is_small.then_some(Shared { reads: self.reads, several: &several });
            // SAFETY:
            // - `GemmArgs` is the twin of the kernel's struct, sizes asserted on both sides; `check` saw to it that the
            //   strides belong to views of shapes [.., M, K], [.., K, N], [.., M, N], and views lie inside their buffers;
            //   the kernel reads rows below M, columns below N, k below K, batches below the product of the extents. The
            //   epilogue's tensors were laid over the same product, and it reads and writes them there.
            // - It writes C only, which is in `written`, or the epilogue's outputs.
            // - `reads` are the views that A and B were made of; the kernel for several goes on as the one for one with a
            //   member's arguments.
            unsafe { launch.run_with_epilogue(&args, epilogue, written, shared.as_ref())? };
        }
        Ok(())
    }

    /// What a product of `[batch, M, N, K]` is about: operands are read once, and C written once.
    fn work<'s>(&self, shape: &'s [usize; 4]) -> Work<'s> {
        let [batch, m, n, k] = shape.map(|extent| extent as u64);
        let (input, output) = (self.input.size_bytes() as u64, self.output.size_bytes() as u64);
        let bytes = batch * ((m * k + k * n) * input + m * n * output);
        Work { category: Category::Gemm, shape, bytes, flops: 2 * batch * m * n * k }
    }

    /// Adds up the slices.
    fn sum(&self, key: GemmKey, partial: &Tensor, slices: usize) -> Result<()> {
        let source = kept_source(key, self.epilogue.as_ref(), 0);
        let batches: usize = self.extents.iter().product();
        let is_large = batches * self.m * self.n >= SUM_LARGE && self.n.is_multiple_of(SUM_EACH);
        let each = if is_large { SUM_EACH } else { 1 };
        for (first_batch, first_row) in
            (0..batches).step_by(GRID_YZ_MAX).flat_map(|b| (0..self.m).step_by(GRID_YZ_MAX).map(move |row| (b, row)))
        {
            let rows = (self.m - first_row).min(GRID_YZ_MAX);
            let args = GemmSumArgs {
                slices: partial.view().device_address(),
                c: self.c.address,
                c_row: self.c.line,
                c_col: self.c.depth,
                c_batch: self.c.batch,
                batch_extent: self.extents.map(|extent| extent as u32),
                batch_axes: self.axes as u32,
                batches: batches as u32,
                first_batch: first_batch as u32,
                slice_count: slices as u32,
                m: self.m as u32,
                n: self.n as u32,
                first_row: first_row as u32,
                each: each as u32,
            };
            let grid = [self.n.div_ceil(SUM_BLOCK * each), rows, (batches - first_batch).min(GRID_YZ_MAX)];
            let block = [SUM_BLOCK, 1, 1];
            let work = Work { category: Category::Gemm, shape: &[slices, batches, self.m, self.n], ..Work::default() };
            let launch = KernelLaunch::new(self.stream, &source, (OP, "gemm_sum"), grid, block).with(0, work);
            // SAFETY:
            // - `GemmSumArgs` is the twin of the kernel's struct; `partial` has slices x batches x M x N elements and C is
            //   the checked view; of the epilogue as above.
            // - It writes C only, or the epilogue's outputs.
            unsafe { launch.run_with_epilogue(&args, self.epilogue.as_ref(), self.c_buffer, None)? };
        }
        Ok(())
    }
}

/// Where a launch stores, and which part of K it sums.
struct Target<'t, 'a> {
    epilogue: Option<&'t BoundEpilogue<'a>>,
    c: &'t Operand,
    slices: usize,
    c_slice: i64,
    slice_k: usize,
}

/// The source for so many products in one launch, 0 for one.
fn kept_source(key: GemmKey, epilogue: Option<&BoundEpilogue<'_>>, several: usize) -> std::sync::Arc<Source> {
    static SOURCES: Sources<(GemmKey, u128, bool)> = Sources::new();
    let (hash, text) = epilogue::hash_and_text(epilogue);
    SOURCES.get((key, hash, several > 0), |_| source_behind(key, text, several, None))
}

pub(super) fn machine(device: &rocfire_hal::Device) -> Machine {
    Machine { slots: family::slots(device, SIMDS).max(1), waves_share: family::compute_units(device).is_none() }
}

/// `GemmArgs` of `gemm.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GemmArgs {
    a: u64,
    b: u64,
    c: u64,
    a_row: i64,
    a_k: i64,
    b_k: i64,
    b_col: i64,
    c_row: i64,
    c_col: i64,
    c_slice: i64,
    a_batch: [i64; BATCH_AXES],
    b_batch: [i64; BATCH_AXES],
    c_batch: [i64; BATCH_AXES],
    batch_extent: [u32; BATCH_AXES],
    batch_axes: u32,
    batches: u32,
    m: u32,
    n: u32,
    k: u32,
    slice_k: u32,
    first_batch: u32,
    chunk: u32,
}
const _: () = assert!(size_of::<GemmArgs>() == 280);

/// `GemmSumArgs` of `gemm.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GemmSumArgs {
    slices: u64,
    c: u64,
    c_row: i64,
    c_col: i64,
    c_batch: [i64; BATCH_AXES],
    batch_extent: [u32; BATCH_AXES],
    batch_axes: u32,
    batches: u32,
    first_batch: u32,
    slice_count: u32,
    m: u32,
    n: u32,
    first_row: u32,
    each: u32,
}
const _: () = assert!(size_of::<GemmSumArgs>() == 136);

mod grouped;
mod vendor;

pub use grouped::{GemmGroups, gemm_grouped, gemm_grouped_fused, gemm_grouped_transposed};
pub(crate) use grouped::{GroupArgs, ToldGroups, multiply as multiply_groups, outermost};
pub(crate) use vendor::is_real;
pub use vendor::{gemm_apart, is_ours};

#[cfg(test)]
mod fused_tests;
#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;
