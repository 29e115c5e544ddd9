//! `q_matmul_scaled`: the launcher of `scaled.hip`.

use bytemuck::{Pod, Zeroable};
use rocfire_arch::{Arch, ArchInfo, Fp8, Matrix};
use rocfire_fusion::{Compare, Graph};
use rocfire_hal::profile::{Category, Work};
use rocfire_hal::{DType, Error, Source, Stream, View, ViewMut};

use super::format::{Format, ScaleKind};
use crate::Result;
use crate::family::{self, BOX_LIMIT, FastDiv, GRID_YZ_MAX, Sources, c_type, shape};
use crate::gemm::matrix_side;
use crate::graphs::{self, Graphs};

const OP: &str = "q_matmul_scaled";
/// Codes of a row in LDS: 128 bytes, as they are or in bf16.
const NATIVE_DEPTH: usize = 128;
const DECODED_DEPTH: usize = 64;
/// Codes that are summed from zero where a block is longer and a multiple of it, or all of K.
const CHUNK: usize = 512;
/// Rounds in LDS where copies go past the registers: three of 128 x 64 leave room for three workgroups.
const STAGES: usize = 3;
/// Elements of C from which on workgroups take 128 x 64 of it: there are enough of them then.
const LARGE: usize = 1 << 20;
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

/// How [`q_matmul_scaled`] multiplies; `None` where it refuses a format.
pub fn code_product(arch: Arch, a: Format, b: Format) -> Option<CodeProduct> {
    if a == Format::I2 || b == Format::I2 {
        return None;
    }
    let info = arch.info();
    let is_native = |format| match (info.fp8, format) {
        (Fp8::Fnuz, Format::E4M3Fnuz | Format::E5M2Fnuz) | (Fp8::Ocp, Format::E4M3 | Format::E5M2) => {
            has_products(info)
        }
        _ => false,
    };
    let bytes = a == Format::I8 && b == Format::I8 && matrix_side(info, DType::I8) != 0;
    let native = bytes || (is_native(a) && is_native(b));
    Some(if native { CodeProduct::Native } else { CodeProduct::Decoded })
}

/// Whether the kernel has the matrix unit's products of 8-bit floats.
fn has_products(info: &ArchInfo) -> bool {
    matches!(info.matrix, Matrix::Mfma(3 | 4) | Matrix::Wmma12 | Matrix::MmaSync)
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
/// # Errors
/// `Shape` for shapes, types or layouts that do not fit; `Unsupported` for another type of `c`; errors of compilation and launch.
pub fn q_matmul_scaled(stream: &Stream, a: &CodedRows<'_>, b: &CodedRows<'_>, c: ViewMut<'_>) -> Result<()> {
    let [m, n, k] = check(stream, a, b, &c)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let device = stream.device();
    let info = device.arch().info();
    let product = code_product(device.arch(), a.format, b.format);
    let block = a.block[1].min(b.block[1]);
    let matrix = device.config().matrix && matrix_side(info, DType::BF16) != 0;
    let depth_of = |native: bool| if native { NATIVE_DEPTH } else { DECODED_DEPTH };
    let sub_of = |depth: usize| if block >= k { depth } else { common_divisor(block, depth) };
    // Products of bytes are dealt out in 64 of K.
    let deep = if a.format == Format::I8 { 64 } else { BLOCK_LEAST };
    let native = matrix && product == Some(CodeProduct::Native) && sub_of(NATIVE_DEPTH) >= deep;
    let depth = depth_of(native);
    let sub = sub_of(depth);
    let whole = CHUNK / depth;
    let rounds = match block / depth {
        _ if block >= k => whole,
        rounds if rounds.is_multiple_of(whole) => whole,
        rounds => rounds.max(1),
    };
    let vector = |rows: &CodedRows<'_>| {
        let row_bytes = rows.codes.layout().strides()[0];
        k.is_multiple_of(128 / rows.format.bits())
            && rows.codes.device_address().is_multiple_of(16)
            && (row_bytes % 16 == 0 || rows.codes.shape()[0] <= 1)
    };
    let tiles = match (matrix, m <= 32) {
        (true, true) => [1, 2],
        (true, false) if m > 64 && m * n >= LARGE => [4, 2],
        (true, false) => [2, 2],
        (false, few) => [if few { 2 } else { 4 }, 4],
    };
    let vector = vector(a) && vector(b);
    let key = ScaledKey {
        a: a.format,
        b: b.format,
        output: c.dtype(),
        matrix,
        native,
        sub,
        tiles,
        vector,
        copies: copies(info, native, vector),
    };
    let side = if matrix { 32 } else { 16 };
    let grid = [n.div_ceil(tiles[1] * side), m.div_ceil(tiles[0] * side), 1];
    if grid[1] > GRID_YZ_MAX {
        return Err(shape(OP, "a", format!("at most {} rows", GRID_YZ_MAX * tiles[0] * side), m));
    }
    let threads = if matrix { 4 * info.wave_size as usize } else { 256 };
    // A stride of an axis with one scale is of no account.
    let stride = |rows: &CodedRows<'_>, axis: usize| rows.scales.layout().strides()[axis];
    let args = ScaledArgs {
        a: a.codes.device_address(),
        b: b.codes.device_address(),
        a_scales: a.scales.device_address(),
        b_scales: b.scales.device_address(),
        c: c.device_address(),
        a_row: a.codes.layout().strides()[0],
        b_row: b.codes.layout().strides()[0],
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
        rounds: rounds as u32,
        a_kind: a.kind.number(),
        b_kind: b.kind.number(),
    };
    static SOURCES: Sources<ScaledKey> = Sources::new();
    let source = SOURCES.get(key, source);
    // SAFETY:
    // - `ScaledArgs` is the twin of the kernel's struct, sizes asserted on both sides; it reads rows below M and N, codes below K
    //   and their scales, whose views were checked to have as many.
    // - It writes C only.
    unsafe {
        let args = bytemuck::bytes_of(&args);
        let work =
            Work { category: Category::Gemm, shape: &[m, n, k], flops: 2 * (m * n * k) as u64, ..Work::default() };
        let kernel = (OP, "q_scaled");
        let lds_bytes = key.lds_bytes();
        family::launch_bytes(stream, &source, kernel, grid, [threads, 1, 1], lds_bytes, args, &[c.buffer()], work)
    }
}

/// Whether codes go to LDS past the registers: as they are, in whole vectors.
fn copies(info: &ArchInfo, native: bool, vector: bool) -> bool {
    native && vector && info.matrix == Matrix::MmaSync
}

const fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// M, N, K.
fn check(stream: &Stream, a: &CodedRows<'_>, b: &CodedRows<'_>, c: &ViewMut<'_>) -> Result<[usize; 3]> {
    if !matches!(c.dtype(), DType::F32 | DType::F16 | DType::BF16) {
        return Err(Error::Unsupported { op: OP, dtype: c.dtype(), arch: c.arch() }.into());
    }
    family::on_device(OP, "c", stream, c)?;
    let [m, k] = check_rows(stream, ["a.codes", "a.scales", "a.block"], a, c)?;
    let [n, b_k] = check_rows(stream, ["b.codes", "b.scales", "b.block"], b, c)?;
    if k != b_k {
        return Err(shape(OP, "b.codes", format!("{k} codes to a row"), b_k));
    }
    if k == 0 {
        return Err(shape(OP, "a.codes", "at least one element along K", 0));
    }
    let (narrow, wide) = (a.block[1].min(b.block[1]), a.block[1].max(b.block[1]));
    if wide < k && !wide.is_multiple_of(narrow) {
        return Err(shape(
            OP,
            "b.block",
            format!("columns of which {} are a multiple or divisor", a.block[1]),
            b.block[1],
        ));
    }
    if c.shape() != [m, n] {
        return Err(shape(OP, "c", format!("[{m}, {n}]"), format!("{:?}", c.shape())));
    }
    family::writable(OP, "c", c)?;
    Ok([m, n, k])
}

/// Rows and K.
fn check_rows(
    stream: &Stream,
    [codes_arg, scales_arg, block_arg]: [&'static str; 3],
    rows: &CodedRows<'_>,
    c: &View<'_>,
) -> Result<[usize; 2]> {
    family::on_device(OP, codes_arg, stream, &rows.codes)?;
    family::on_device(OP, scales_arg, stream, &rows.scales)?;
    family::same_dtype(OP, codes_arg, &rows.codes, DType::U8)?;
    family::same_dtype(OP, scales_arg, &rows.scales, rows.kind.dtype())?;
    if rows.format == Format::I2 {
        return Err(shape(OP, codes_arg, "codes of 8 or 4 bits", format!("{:?}", rows.format)));
    }
    let &[count, bytes] = rows.codes.shape() else {
        return Err(shape(OP, codes_arg, "two axes", format!("{:?}", rows.codes.shape())));
    };
    if rows.codes.layout().strides()[1] != 1 && bytes > 1 {
        return Err(shape(OP, codes_arg, "contiguous rows", format!("strides {:?}", rows.codes.layout().strides())));
    }
    let k = bytes * 8 / rows.format.bits();
    if count >= BOX_LIMIT || k >= BOX_LIMIT {
        return Err(shape(OP, codes_arg, format!("extents below {BOX_LIMIT}"), format!("[{count}, {k}]")));
    }
    let [down, along] = rows.block;
    if down == 0 || along == 0 || (along < k && !along.is_multiple_of(BLOCK_LEAST)) || down.max(along) >= BOX_LIMIT {
        let expected = format!("rows, and a multiple of {BLOCK_LEAST} columns or {k} at least");
        return Err(shape(OP, block_arg, expected, format!("{:?}", rows.block)));
    }
    let grid = [count.div_ceil(down), k.div_ceil(along)];
    if rows.scales.shape() != grid {
        return Err(shape(OP, scales_arg, format!("{grid:?}"), format!("{:?}", rows.scales.shape())));
    }
    family::disjoint(OP, codes_arg, c, &rows.codes)?;
    family::disjoint(OP, scales_arg, c, &rows.scales)?;
    Ok([count, k])
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
        let mut graph = Graph::new(OP);
        let code = graph.input(DType::U8);
        let [nan, negative_nan, zero, negative_zero] =
            [0x7f, 0xff, 0x00, 0x80].map(|code: i64| graph.constant(DType::U8, code));
        let is = [nan, negative_nan, negative_zero].map(|other| graph.compare(Compare::Eq, code, other));
        // The code of minus zero is NaN there.
        let mut to = graph.select(is[2], zero, code);
        for is_nan in [is[0], is[1]] {
            to = graph.select(is_nan, negative_zero, to);
        }
        graph.output(to);
        graph
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
    native: bool,
    sub: usize,
    tiles: [usize; 2],
    vector: bool,
    copies: bool,
}

impl ScaledKey {
    /// Dynamic LDS.
    fn lds_bytes(&self) -> u32 {
        if self.copies { (STAGES * 32 * (self.tiles[0] + self.tiles[1]) * ROW_BYTES) as u32 } else { 0 }
    }
}

fn source(key: ScaledKey) -> Source {
    let numbers = [
        ("S_MATRIX", usize::from(key.matrix)),
        ("S_NATIVE", usize::from(key.native)),
        ("S_BK", if key.native { NATIVE_DEPTH } else { DECODED_DEPTH }),
        ("S_SUB", key.sub),
        ("S_TILES_M", key.tiles[0]),
        ("S_TILES_N", key.tiles[1]),
        ("S_VECTOR", usize::from(key.vector)),
        ("S_ASYNC", usize::from(key.copies)),
        ("S_STAGES", if key.copies { STAGES } else { 1 }),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [("S_OUT", c_type(key.output)), ("S_A_FORMAT", key.a.number()), ("S_B_FORMAT", key.b.number())];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new("scaled", include_str!("scaled.hip"), &defines)
}

/// Sources for the registry, for one type of the result: by row and by block, each native where the architecture has it,
/// microscaled, mixed and packed formats.
pub(crate) fn scaled_sources(arch: Arch, output: DType) -> impl Iterator<Item = Source> {
    let matrix = matrix_side(arch.info(), DType::BF16) != 0;
    let own = if arch.info().fp8 == Fp8::Fnuz { Format::E4M3Fnuz } else { Format::E4M3 };
    let wide = if arch.info().fp8 == Fp8::Fnuz { Format::E5M2Fnuz } else { Format::E5M2 };
    let formats = [
        (Format::I8, Format::I8, 128, true),
        (own, own, 128, true),
        (own, wide, 32, false),
        (wide, own, 128, true),
        (Format::E2M1, Format::E2M1, 32, true),
        (own, Format::E2M1, 32, false),
    ];
    formats.into_iter().enumerate().map(move |(number, (a, b, block, vector))| {
        let native = matrix && code_product(arch, a, b) == Some(CodeProduct::Native);
        let sub = common_divisor(block, if native { NATIVE_DEPTH } else { DECODED_DEPTH });
        let large = if matrix { [if number == 0 { 4 } else { 2 }, 2] } else { [4, 4] };
        let few = if matrix { [1, 2] } else { [2, 4] };
        let tiles = if number % 2 == 0 { large } else { few };
        let copies = copies(arch.info(), native, vector);
        source(ScaledKey { a, b, output, matrix, native, sub, tiles, vector, copies })
    })
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
    m: u32,
    n: u32,
    k: u32,
    rounds: u32,
    a_kind: u32,
    b_kind: u32,
}
const _: () = assert!(size_of::<ScaledArgs>() == 176);
