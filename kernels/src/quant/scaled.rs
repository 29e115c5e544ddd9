//! `q_matmul_scaled`: the launcher of `scaled.hip`, of one product; `grouped.rs` is that of groups of rows.

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{Arch, ArchInfo, Fp8, Matrix};
use rocfire_fusion::{Compare, Draft};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Error, Source, Stream, Tensor, View, ViewMut};

use super::format::{Format, ScaleKind};
use super::preshuffle::PreshuffledRows;
use crate::Result;
use crate::family::{self, BOX_LIMIT, FastDiv, GRID_YZ_MAX, KernelLaunch, Sources, shape};
use crate::gemm::{Grouping, matrix_side};
use crate::graphs::{self, Graphs};
use crate::tuning::Candidate;

const OP: &str = "q_matmul_scaled";
/// Codes of a round that lie in LDS as they are.
const NATIVE_DEPTH: usize = 128;
/// Codes that CDNA 4's products of 8- and 4-bit floats take at once.
const DEEP: usize = 128;
/// Rounds in LDS where copies go past the registers: three of 128 x 64 leave room for three workgroups.
const STAGES: usize = 3;
/// Bytes of a row in LDS.
const ROW_BYTES: usize = 128;
/// Columns of a block are a multiple of it.
const BLOCK_LEAST: usize = 32;

/// A matrix of codes whose rows run along K, with a scale for each block of rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct CodedRows<'a> {
    /// How a code is a number: 8 or 4 bits.
    pub format: Format,
    /// u8, K contiguous: `[rows, K]`, or `[rows, K / 2]` for 4 bits, the even column in the low half.
    pub codes: View<'a>,
    /// `[ceil(rows / block[0]), ceil(K / block[1])]`, any strides.
    pub scales: View<'a>,
    /// The type of the scales.
    pub kind: ScaleKind,
    /// Rows and columns that share a scale: `[1, K]` by row, `[1, 128]` and `[128, 128]` by block, `[1, 32]` microscaled. Columns:
    /// a multiple of 32, or K at least.
    pub block: [usize; 2],
}

/// How an architecture multiplies codes of two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeProduct {
    /// As operands of its matrix unit.
    Native,
    /// Decoded in registers, exactly, to bf16.
    Decoded,
}

/// How [`q_matmul_scaled`] multiplies; `None` where it refuses a format. Codes of 4 bits are native only with scales in [`ScaleKind::E8M0`]
/// or blocks of K that are multiples of 128.
pub fn code_product(arch: Arch, a: Format, b: Format) -> Option<CodeProduct> {
    if a == Format::I2 || b == Format::I2 {
        return None;
    }
    let info = arch.info();
    let bytes = a == Format::I8 && b == Format::I8 && matrix_side(info, DType::I8) != 0;
    let native = bytes || is_deep(info, a, b) || (is_float8(info, a) && is_float8(info, b));
    Some(if native { CodeProduct::Native } else { CodeProduct::Decoded })
}

/// Whether the matrix unit has products of this format of 8-bit floats.
fn is_float8(info: &ArchInfo, format: Format) -> bool {
    let has_products = matches!(info.matrix, Matrix::Mfma(3 | 4) | Matrix::Wmma12 | Matrix::MmaSync);
    has_products
        && matches!(
            (info.fp8, format),
            (Fp8::Fnuz, Format::E4M3Fnuz | Format::E5M2Fnuz) | (Fp8::Ocp, Format::E4M3 | Format::E5M2)
        )
}

/// Whether the matrix unit has products of both, 128 deep and with exponents of 32 k each.
fn is_deep(info: &ArchInfo, a: Format, b: Format) -> bool {
    let has = |format| matches!(format, Format::E4M3 | Format::E5M2 | Format::E2M1);
    matches!(info.matrix, Matrix::Mfma(4)) && has(a) && has(b)
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unit {
    /// Codes become bf16 on their way to LDS.
    Decoded,
    /// Codes are operands.
    Native,
    /// Codes are operands of products 128 deep.
    Deep,
    /// And so are their scales.
    Mx,
}

impl Unit {
    /// Codes of K in a round: 128 bytes, of the wider format.
    fn depth(self, a: Format, b: Format) -> usize {
        match self {
            Unit::Decoded => 64,
            Unit::Native => NATIVE_DEPTH,
            Unit::Deep | Unit::Mx => 1024 / a.bits().max(b.bits()),
        }
    }

    /// Codes that are summed before a scale.
    fn sub(self, a: Format, b: Format, block: usize, k: usize) -> usize {
        let depth = self.depth(a, b);
        if block >= k || self == Unit::Mx { depth } else { common_divisor(block, depth) }
    }

    /// What serves, the deepest first. It depends on neither M, N nor where codes lie, as the order of the sum does not.
    fn choose(info: &ArchInfo, a: &Side<'_>, b: &Side<'_>) -> Unit {
        let block = a.block[1].min(b.block[1]);
        let sub = |unit: Unit| unit.sub(a.format, b.format, block, a.k);
        if is_deep(info, a.format, b.format) {
            if a.kind == ScaleKind::E8M0 && b.kind == ScaleKind::E8M0 {
                return Unit::Mx;
            }
            if sub(Unit::Deep).is_multiple_of(DEEP) {
                return Unit::Deep;
            }
        }
        let bytes = a.format == Format::I8 && b.format == Format::I8 && matrix_side(info, DType::I8) != 0;
        // Products of bytes are dealt out in 64 of K.
        let native = match bytes {
            true => sub(Unit::Native) >= 64,
            false => is_float8(info, a.format) && is_float8(info, b.format) && sub(Unit::Native) >= BLOCK_LEAST,
        };
        if native { Unit::Native } else { Unit::Decoded }
    }
}

/// A side of the product, checked.
struct Side<'a> {
    format: Format,
    codes: View<'a>,
    rows: usize,
    k: usize,
    /// From one row to the next, or of a weight that is laid out from one tile of 16 rows to the next.
    row_bytes: i64,
    laid_out: bool,
    scales: View<'a>,
    kind: ScaleKind,
    block: [usize; 2],
}

impl Side<'_> {
    /// Whether 16 codes bytes are read at once.
    fn vector(&self) -> bool {
        self.laid_out
            || (self.k.is_multiple_of(128 / self.format.bits())
                && self.codes.device_address().is_multiple_of(16)
                && (self.row_bytes % 16 == 0 || self.rows <= 1))
    }

    /// Whether the exponents of each 128 codes of a row are a word.
    fn words(&self) -> bool {
        let strides = self.scales.layout().strides();
        self.block[1] == 32
            && self.k.is_multiple_of(128)
            && strides[1] == 1
            && (strides[0] % 4 == 0 || self.scales.shape()[0] <= 1)
            && self.scales.device_address().is_multiple_of(4)
    }
}

/// `c = a · bᵀ` of codes and their scales.
///
/// # Shapes
/// `a`: rows M, `b`: rows N, of one K; `c`: `[M, N]`, any strides. Of the two blocks' columns one divides the other.
/// # Types
/// Every format of 8 and 4 bits on either side, I2 none; every type of scales; `c` f32, f16 or bf16.
/// # Numerics
/// Products of codes are exact, native or decoded ([`code_product`]). The sum over a block of K, or 512 of a longer one, is in f32
/// (in i32 for I8 on the matrix unit) and multiplied by both scales; those are added in ascending order; one rounding at the store.
/// Where the matrix unit takes E8M0 scales, 512 codes with their scales are summed so, whatever the blocks. Where few tiles would leave
/// the device idle, these sums are different workgroups' and added by another launch, in the same order. Large products on a GPU whose
/// vendor's library is installed and has their formats and scales go there, unless `ROCFIRE_VENDOR=0` or the run is deterministic: of
/// bytes the sum over all of K is then one of i32, and exact; of 8-bit floats it is the library's, of which NVIDIA's cards keep fewer
/// bits than f32 (14 on Hopper, for runs that are added up in f32), so that a `c` of f32 stays with our kernel there. The library's
/// order may change with its version.
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit; `Unsupported` for another type of `c`; errors of compilation and launch.
pub fn q_matmul_scaled(stream: &Stream, a: &CodedRows<'_>, b: &CodedRows<'_>, c: ViewMut<'_>) -> Result<()> {
    q_matmul_scaled_to(stream, a, &CodedWeight::Rows(*b), &ScaledEnd::default(), c)
}

/// [`q_matmul_scaled`] by a weight that was laid out once: the same bits. Where the matrix unit takes its codes as they are, they go from memory
/// to its operands, past LDS. With `ROCFIRE_AITER_CODES=1`, where AITER's kernels are taken (`scaled/aiter.rs`), K is one sum in f32,
/// and bits are not the same.
///
/// # Errors
/// As there.
pub fn q_matmul_preshuffled(stream: &Stream, a: &CodedRows<'_>, b: &PreshuffledRows<'_>, c: ViewMut<'_>) -> Result<()> {
    q_matmul_scaled_to(stream, a, &CodedWeight::LaidOut(*b), &ScaledEnd::default(), c)
}

/// The second side of a product of codes.
#[derive(Clone, Copy, Debug)]
pub enum CodedWeight<'a> {
    /// In rows, as [`q_matmul_scaled`] has it.
    Rows(CodedRows<'a>),
    /// Laid out once, as [`q_matmul_preshuffled`] has it.
    LaidOut(PreshuffledRows<'a>),
}

/// `c = end(a · bᵀ)`: the product as [`q_matmul_scaled`] or [`q_matmul_preshuffled`] has it, with a bias, an activation and codes of the
/// result behind it, of which nothing else is written.
///
/// # Shapes
/// As there; the bias is `[N]`.
/// # Types
/// As there; with [`ScaledEnd::codes`] `c` is u8.
/// # Numerics
/// In f32, behind the sum as it is there: the bias is added, the activation computed, then it is rounded once to `c`'s type, or encoded as
/// [`quantise_activations`](super::quantise_activations) does: times the f32 reciprocal of the scale, to nearest, ties to even, saturating;
/// whole numbers from -127 to 127. A NaN stays one; in I8 it is 0. What goes to the vendor's library is ended by it where it has that form
/// and gave what it should in a trial (it may compute gelu by a hyperbolic tangent of 11 bits), else by a launch of ours behind sums in f32.
/// # Errors
/// As there; `Shape` and `Unsupported` for a bias, a scale or a format that does not fit, by the name of the field.
pub fn q_matmul_scaled_to(
    stream: &Stream,
    a: &CodedRows<'_>,
    b: &CodedWeight<'_>,
    end: &ScaledEnd<'_>,
    c: ViewMut<'_>,
) -> Result<()> {
    multiply(stream, a, b, end, c, None)
}

/// A weight, checked.
fn weight_side<'a>(stream: &Stream, b: &CodedWeight<'a>, c: &View<'_>) -> Result<Side<'a>> {
    let b = match b {
        CodedWeight::Rows(rows) => return plain_side(OP, stream, ["b.codes", "b.scales", "b.block"], rows, c),
        CodedWeight::LaidOut(rows) => *rows,
    };
    let names = ["b.weight", "b.scales", "b.block"];
    let Some(codes) = b.weight.laid_out() else { return plain_side(OP, stream, names, &b.plain(), c) };
    family::on_device(OP, names[0], stream, &codes)?;
    family::disjoint(OP, names[0], c, &codes)?;
    let [rows, k] = b.weight.shape();
    let row_bytes = codes.layout().strides()[0];
    let (format, laid_out) = (b.weight.format(), true);
    let side = Side { format, codes, rows, k, row_bytes, laid_out, scales: b.scales, kind: b.kind, block: b.block };
    check_scales(OP, stream, [names[1], names[2]], &side, c)?;
    Ok(side)
}

/// By a candidate, or by what the dispatch takes.
fn multiply(
    stream: &Stream,
    a: &CodedRows<'_>,
    b: &CodedWeight<'_>,
    end: &ScaledEnd<'_>,
    c: ViewMut<'_>,
    by: Option<Candidate>,
) -> Result<()> {
    match end.codes {
        None => check_result(OP, stream, &c)?,
        Some(_) => family::on_device(OP, "c", stream, &c)?,
    }
    let a = plain_side(OP, stream, NAMES_OF_A, a, &c)?;
    let b = weight_side(stream, b, &c)?;
    end.check(stream, b.rows, &c)?;
    let [m, n, k] = check(&a, &b, &c)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let job = Job { stream, a: &a, b: &b, size: [m, n, k], end: *end };
    if by.is_none() && aiter::launched(&job, &c)? {
        return Ok(());
    }
    match job.taken(&c, by)? {
        Some(taken) => job.run(&taken, c),
        None => multiply_ours(&job, c),
    }
}

/// By our own kernel.
fn multiply_ours(job: &Job<'_, '_>, c: ViewMut<'_>) -> Result<()> {
    let &Job { stream, a, b, size: [m, n, k], ref end } = job;
    let device = stream.device();
    let info = device.arch().info();
    let matrix = device.config().matrix && matrix_side(info, DType::BF16) != 0;
    let choice = choice(info, matrix, at_once(&device), job);
    let Choice { unit, sub, path, tiles, across, block, grid, .. } = choice;
    if grid[1] > GRID_YZ_MAX {
        return Err(shape(OP, "a", format!("at most {} rows", GRID_YZ_MAX * block[0]), m));
    }
    let vector = [a.vector(), b.vector()];
    // Of slices the launch that adds them up writes C.
    let is_sliced = choice.slices > 1;
    let key = ScaledKey {
        a: a.format,
        b: b.format,
        output: if is_sliced { DType::F32 } else { c.dtype() },
        matrix,
        unit,
        sub,
        tiles,
        across,
        vector,
        path,
        words: unit == Unit::Mx && a.words() && b.words(),
        whole: choice.is_whole(a, b, k),
        one_sum: choice.one_sum,
        sliced: is_sliced,
        copies: copies(info, unit, vector),
        grouping: None,
        end: if is_sliced { EndKey::default() } else { end.key() },
    };
    static SOURCES: Sources<ScaledKey> = Sources::new();
    let source = SOURCES.get(key, source);
    let parts = match choice.slices {
        1 => None,
        slices => Some(Tensor::empty(&device, &[slices, m, n], DType::F32)?),
    };
    let mut args = args(job, &c);
    args.rounds = choice.rounds as u32;
    if let Some(parts) = &parts {
        (args.parts, args.slice_k) = (parts.view().device_address(), choice.slice_k as u32);
    }
    let args = EndedArgs::new(&args, end, key.end);
    let written = parts.as_ref().map_or(c.buffer(), Tensor::buffer);
    let work = Work { category: Category::Gemm, shape: &[m, n, k], flops: 2 * (m * n * k) as u64, ..Work::default() };
    let threads = if matrix { 4 * info.wave_size as usize } else { 256 };
    let launch = KernelLaunch::new(stream, &source, (OP, "q_scaled"), grid, [threads, 1, 1]);
    // SAFETY:
    // - `ScaledArgs` is the twin of the kernel's struct, sizes asserted on both sides; it reads rows below M and N, codes below K
    //   and their scales, whose views were checked to have as many; of a weight laid out whole tiles and rounds, which it has.
    //   The end's bias has N elements, its scale one.
    // - It writes C only, or the parts, which are as many as there are slices.
    unsafe { launch.with(key.lds_bytes(), work).run_bytes(args.bytes(), &[written])? };
    match parts {
        Some(parts) => end::finish(stream, &parts, None, end, &c),
        None => Ok(()),
    }
}

/// What the kernel is told of a product whose K is one slice.
fn args(job: &Job<'_, '_>, c: &View<'_>) -> ScaledArgs {
    let &Job { a, b, size: [m, n, k], .. } = job;
    // A stride of an axis with one scale is of no account.
    let stride = |side: &Side<'_>, axis: usize| side.scales.layout().strides()[axis];
    ScaledArgs {
        a: a.codes.device_address(),
        b: b.codes.device_address(),
        a_scales: a.scales.device_address(),
        b_scales: b.scales.device_address(),
        c: c.device_address(),
        a_row: a.row_bytes,
        b_row: b.row_bytes,
        a_scale_row: stride(a, 0),
        a_scale_k: stride(a, 1),
        b_scale_row: stride(b, 0),
        b_scale_k: stride(b, 1),
        c_row: c.layout().strides()[0],
        c_col: c.layout().strides()[1],
        a_block: FastDiv::new(a.block[1]),
        b_block: FastDiv::new(b.block[1]),
        a_rows: FastDiv::new(a.block[0]),
        b_rows: FastDiv::new(b.block[0]),
        m: m as u32,
        n: n as u32,
        k: k as u32,
        parts: 0,
        rounds: 0,
        a_kind: a.kind.number(),
        b_kind: b.kind.number(),
        slice_k: k as u32,
        unused: 0,
    }
}

/// Whether the kernel reads a weight faster that is laid out: straight to the operands. Lanes of CDNA and RDNA 4 hold chunks of 16 bytes;
/// those of RDNA 3 hold each twice, which would take twice the registers. NVIDIA's hold other bytes and take them from LDS: an H200
/// reads a weight in tiles more slowly than one in rows, whole lines or not (E4M3 4096^3 0.585 against 0.530 ms, 16 x 14336 x 4096 0.0396
/// against 0.0347).
pub(super) fn lays_out(info: &ArchInfo) -> bool {
    matches!(info.matrix, Matrix::Mfma(_) | Matrix::Wmma12)
}

/// Whether codes go to LDS past the registers: as they are, in whole vectors.
fn copies(info: &ArchInfo, unit: Unit, vector: [bool; 2]) -> bool {
    unit == Unit::Native && vector == [true; 2] && info.matrix == Matrix::MmaSync
}

const fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// What the arguments of the first side are called.
const NAMES_OF_A: [&str; 3] = ["a.codes", "a.scales", "a.block"];

/// The type of a result, and where it is.
fn check_result(op: &'static str, stream: &Stream, c: &View<'_>) -> Result<()> {
    if !matches!(c.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op, dtype: c.dtype(), arch: c.arch() }.into());
    }
    family::on_device(op, "c", stream, c)
}

/// K of both sides, whose scales go together.
fn check_depth(op: &'static str, a: &Side<'_>, b: &Side<'_>) -> Result<usize> {
    let k = a.k;
    if k != b.k {
        let arg = if b.laid_out { "b.weight" } else { "b.codes" };
        return Err(shape(op, arg, format!("{k} codes to a row"), b.k));
    }
    if k == 0 {
        return Err(shape(op, "a.codes", "at least one element along K", 0));
    }
    let (narrow, wide) = (a.block[1].min(b.block[1]), a.block[1].max(b.block[1]));
    if wide < k && !wide.is_multiple_of(narrow) {
        return Err(shape(
            op,
            "b.block",
            format!("columns of which {} are a multiple or divisor", a.block[1]),
            b.block[1],
        ));
    }
    Ok(k)
}

/// M, N, K.
fn check(a: &Side<'_>, b: &Side<'_>, c: &ViewMut<'_>) -> Result<[usize; 3]> {
    let (m, n, k) = (a.rows, b.rows, check_depth(OP, a, b)?);
    if c.shape() != [m, n] {
        return Err(shape(OP, "c", format!("[{m}, {n}]"), format!("{:?}", c.shape())));
    }
    family::writable(OP, "c", c)?;
    Ok([m, n, k])
}

/// Rows and K of a tensor of codes in rows.
pub(super) fn check_codes(op: &'static str, arg: &'static str, format: Format, codes: &View<'_>) -> Result<[usize; 2]> {
    family::same_dtype(op, arg, codes, DType::U8)?;
    if format == Format::I2 {
        return Err(shape(op, arg, "codes of 8 or 4 bits", format!("{format:?}")));
    }
    let &[count, bytes] = codes.shape() else {
        return Err(shape(op, arg, "two axes", format!("{:?}", codes.shape())));
    };
    if codes.layout().strides()[1] != 1 && bytes > 1 {
        return Err(shape(op, arg, "contiguous rows", format!("strides {:?}", codes.layout().strides())));
    }
    let k = bytes * 8 / format.bits();
    if count >= BOX_LIMIT || k >= BOX_LIMIT {
        return Err(shape(op, arg, format!("extents below {BOX_LIMIT}"), format!("[{count}, {k}]")));
    }
    Ok([count, k])
}

fn plain_side<'a>(
    op: &'static str,
    stream: &Stream,
    [codes_arg, scales_arg, block_arg]: [&'static str; 3],
    rows: &CodedRows<'a>,
    c: &View<'_>,
) -> Result<Side<'a>> {
    let CodedRows { format, codes, scales, kind, block } = *rows;
    family::on_device(op, codes_arg, stream, &codes)?;
    let [count, k] = check_codes(op, codes_arg, format, &codes)?;
    family::disjoint(op, codes_arg, c, &codes)?;
    let row_bytes = codes.layout().strides()[0];
    let side = Side { format, codes, rows: count, k, row_bytes, laid_out: false, scales, kind, block };
    check_scales(op, stream, [scales_arg, block_arg], &side, c)?;
    Ok(side)
}

fn check_scales(
    op: &'static str,
    stream: &Stream,
    [scales_arg, block_arg]: [&'static str; 2],
    side: &Side<'_>,
    c: &View<'_>,
) -> Result<()> {
    let k = side.k;
    family::on_device(op, scales_arg, stream, &side.scales)?;
    family::same_dtype(op, scales_arg, &side.scales, side.kind.dtype())?;
    let [down, along] = side.block;
    if down == 0 || along == 0 || (along < k && !along.is_multiple_of(BLOCK_LEAST)) || down.max(along) >= BOX_LIMIT {
        let expected = format!("rows, and a multiple of {BLOCK_LEAST} columns or {k} at least");
        return Err(shape(op, block_arg, expected, format!("{:?}", side.block)));
    }
    let grid = [side.rows.div_ceil(down), k.div_ceil(along)];
    if side.scales.shape() != grid {
        return Err(shape(op, scales_arg, format!("{grid:?}"), format!("{:?}", side.scales.shape())));
    }
    family::disjoint(op, scales_arg, c, &side.scales)
}

/// Turns OCP's E4M3 codes into those of [`Format::E4M3Fnuz`] that stand for half as much, in place: a checkpoint's scales doubled
/// then say the same, and an architecture with that kind multiplies the codes natively. Zero loses its sign, NaN stays NaN.
///
/// # Shapes
/// `codes`: u8, any.
/// # Errors
/// `Shape` for another type; errors of compilation and launch.
pub fn halve_to_fnuz(stream: &Stream, codes: ViewMut<'_>) -> Result<()> {
    const OP: &str = "halve_to_fnuz";
    family::on_device(OP, "codes", stream, &codes)?;
    family::same_dtype(OP, "codes", &codes, DType::U8)?;
    family::writable(OP, "codes", &codes)?;
    static GRAPHS: Graphs<()> = Graphs::new();
    let graph = GRAPHS.get((), |()| {
        Draft::graph(OP, |g| {
            let code = g.input(DType::U8);
            let [nan, negative_nan, zero, negative_zero] =
                [0x7f, 0xff, 0x00, 0x80].map(|code: i64| g.constant(DType::U8, code));
            let is = [nan, negative_nan, negative_zero].map(|other| code.is(Compare::Eq, other));
            // The code of minus zero is NaN there.
            let to = is[2].choose(zero, code);
            is[1].choose(negative_zero, is[0].choose(negative_zero, to))
        })
    });
    let from = codes.view();
    graphs::run(stream, &graph, from.shape(), &[from], &[], &mut [codes])
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ScaledKey {
    a: Format,
    b: Format,
    output: DType,
    matrix: bool,
    unit: Unit,
    sub: usize,
    tiles: [usize; 2],
    across: usize,
    vector: [bool; 2],
    path: WeightPath,
    words: bool,
    /// K is whole rounds.
    whole: bool,
    /// K, or a slice of it, is summed before a scale.
    one_sum: bool,
    sliced: bool,
    copies: bool,
    /// Of groups of rows.
    grouping: Option<Grouping>,
    /// What follows at the store.
    end: EndKey,
}

impl ScaledKey {
    /// Dynamic LDS.
    fn lds_bytes(&self) -> u32 {
        let lines = 16 * (WAVES / self.across * self.tiles[0] + self.across * self.tiles[1]);
        if self.copies { (STAGES * lines * ROW_BYTES) as u32 } else { 0 }
    }
}

fn source(key: ScaledKey) -> Source {
    let numbers = [
        ("S_MATRIX", usize::from(key.matrix)),
        ("S_NATIVE", usize::from(key.unit != Unit::Decoded)),
        ("S_DEEP", usize::from(matches!(key.unit, Unit::Deep | Unit::Mx))),
        ("S_MX", usize::from(key.unit == Unit::Mx)),
        ("S_BK", key.unit.depth(key.a, key.b)),
        ("S_SUB", key.sub),
        ("S_TILES_M", key.tiles[0]),
        ("S_TILES_N", key.tiles[1]),
        ("S_ACROSS", key.across),
        ("S_A_VECTOR", usize::from(key.vector[0])),
        ("S_B_VECTOR", usize::from(key.vector[1])),
        ("S_SHUFFLED", usize::from(key.path != WeightPath::Rows)),
        ("S_DIRECT", usize::from(key.path == WeightPath::Direct)),
        ("S_WORDS", usize::from(key.words)),
        ("S_WHOLE", usize::from(key.whole)),
        ("S_ONE", usize::from(key.one_sum)),
        ("S_SLICED", usize::from(key.sliced)),
        ("S_ASYNC", usize::from(key.copies)),
        ("S_STAGES", if key.copies { STAGES } else { 1 }),
        ("S_GROUPED", key.grouping.map_or(0, |grouping| grouping as usize)),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let formats = [("S_A_FORMAT", key.a.number()), ("S_B_FORMAT", key.b.number())];
    let types = key.end.defines(key.output).into_iter().chain(formats);
    let defines: Vec<(&str, &str)> = types.chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new("scaled", SCALED_TEXTS, &defines)
}

/// The kernel, and what it is tuned by.
pub(crate) const SCALED_TEXTS: &str = concat!(
    include_str!("products.h"),
    include_str!("../gemm/rows.hip"),
    include_str!("../gemm/groups.hip"),
    include_str!("scaled_end.h"),
    include_str!("scaled_tile.h"),
    include_str!("scaled.hip")
);

/// Operators and sources for the registry, for one type of the result: by row and by block, each native where the architecture has it,
/// microscaled, mixed and packed formats; of most by a weight laid out too; each of groups of rows as well.
pub(super) fn sources(arch: Arch, output: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let info = arch.info();
    let matrix = matrix_side(info, DType::BF16) != 0;
    let own = if info.fp8 == Fp8::Fnuz { Format::E4M3Fnuz } else { Format::E4M3 };
    let wide = if info.fp8 == Fp8::Fnuz { Format::E5M2Fnuz } else { Format::E5M2 };
    // Formats, block, whole vectors, exponents as scales, a weight laid out.
    let variants = [
        (Format::I8, Format::I8, 128, true, false, false),
        (own, own, 128, true, false, false),
        (own, wide, 32, false, false, true),
        (wide, own, 128, true, false, true),
        (Format::E2M1, Format::E2M1, 32, true, true, false),
        (own, Format::E2M1, 32, false, true, true),
        (Format::I8, Format::I8, 128, true, false, true),
        (Format::E2M1, Format::E2M1, 32, true, true, true),
        (own, own, 128, true, false, true),
    ];
    let variants = variants.into_iter().enumerate().filter(move |(_, (.., laid_out))| !laid_out || lays_out(info));
    let products = variants.flat_map(move |(number, (a, b, block, vector, exponents, laid_out))| {
        let unit = match code_product(arch, a, b) {
            Some(CodeProduct::Native) if matrix => match (is_deep(info, a, b), exponents, block >= DEEP) {
                (true, true, _) => Unit::Mx,
                (true, false, true) => Unit::Deep,
                _ => Unit::Native,
            },
            _ => Unit::Decoded,
        };
        let sub = unit.sub(a, b, block, usize::MAX);
        let path = if laid_out { WeightPath::of_tiles(info, unit, sub) } else { WeightPath::Rows };
        let large = match (matrix, path) {
            (true, WeightPath::Direct) => [if tall_fit(info, unit, a) { 8 } else { 4 }, direct_across(info)],
            (true, _) => [if number == 0 { 4 } else { 2 }, 2],
            (false, _) => [4, 4],
        };
        let few = match (matrix, path) {
            (true, WeightPath::Direct) => [2, 1],
            (true, _) => [1, 1 + number % 4 / 2],
            (false, _) => [2, 4],
        };
        let tiles = if number % 2 == 0 { large } else { few };
        let across = across(path, if number % 2 == 1 && few == [1, 1] { 1 } else { usize::MAX });
        let vector = [vector, vector || laid_out];
        let copies = copies(info, unit, vector);
        let words = unit == Unit::Mx && vector[0];
        let whole = vector[0];
        let sliced = number % 2 == 1 && (block >= 128 || unit == Unit::Mx);
        let one_sum = sliced || number == 6;
        let grouping = None;
        // Every end in turn, at the store of what is not cut.
        let end = if sliced { EndKey::default() } else { end::variant(number / 2, output) };
        let key = ScaledKey {
            a,
            b,
            output,
            matrix,
            unit,
            sub,
            tiles,
            across,
            vector,
            path,
            words,
            whole,
            one_sum,
            sliced,
            copies,
            grouping,
            end,
        };
        let end = EndKey::default();
        let grouping = Some([Grouping::Choices, Grouping::Offsets, Grouping::Counts][number % 3]);
        let grouped = ScaledKey { grouping, sliced: false, end, ..key };
        [(OP, source(key)), (grouped::OP, source(grouped))]
    });
    products.chain(end::sources(output).chain(aiter::sources(info, output)).map(|source| (OP, source)))
}

/// `ScaledArgs` of `scaled.hip`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ScaledArgs {
    a: u64,
    b: u64,
    a_scales: u64,
    b_scales: u64,
    c: u64,
    a_row: i64,
    b_row: i64,
    a_scale_row: i64,
    a_scale_k: i64,
    b_scale_row: i64,
    b_scale_k: i64,
    c_row: i64,
    c_col: i64,
    a_block: FastDiv,
    b_block: FastDiv,
    a_rows: FastDiv,
    b_rows: FastDiv,
    parts: u64,
    m: u32,
    n: u32,
    k: u32,
    rounds: u32,
    a_kind: u32,
    b_kind: u32,
    slice_k: u32,
    unused: u32,
}
const _: () = assert!(size_of::<ScaledArgs>() == 192);

mod aiter;
mod choice;
mod end;
mod explain;
mod grouped;
mod library;
mod trial;
mod tune;

use choice::{Choice, WAVES, WeightPath, across, at_once, choice, direct_across, tall_fit};
pub use end::{EndActivation, EndCodes, ScaledEnd};
use end::{EndKey, EndedArgs};
pub use explain::{explain_preshuffled, explain_scaled};
pub use grouped::{CodedStack, q_matmul_preshuffled_grouped, q_matmul_scaled_grouped};
use library::Job;
pub(crate) use library::scaling;
pub(crate) use tune::CodedOperands;
