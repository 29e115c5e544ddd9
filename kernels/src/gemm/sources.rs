//! The sources of the kernels: what varies in them, the text of a variant, and the family's rows of the registry.

use rocfire_arch::Arch;
use rocfire_hal::{DType, Source};

use super::tiling::{Mode, Staging, TILINGS, Tiling, Unit, has_tf32};
use crate::epilogue;
use crate::family::c_type;

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GemmKey {
    pub input: DType,
    pub output: DType,
    /// Whether the matrix unit rounds factors of f32.
    pub tf32: bool,
    pub tiling: Tiling,
    pub a: Mode,
    pub b: Mode,
    /// Whether a workgroup adds up more than one chunk of K.
    pub chunked: bool,
    pub staging: Staging,
}

/// Every part of the kernels, for the hash of what was tuned.
pub(super) const TEXTS: &str = concat!(
    include_str!("gemm.hip"),
    include_str!("rows.hip"),
    include_str!("groups.hip"),
    include_str!("stage.hip"),
    include_str!("matrix.hip"),
    include_str!("fma.hip"),
    include_str!("kernel.hip")
);

/// What rows of groups are, and how they are told: GEMM_GROUPED of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Grouping {
    /// Rows of A and C, by offsets.
    Offsets = 1,
    /// Rows of A and C, by counts.
    Counts = 2,
    /// Rows of C by offsets, those of A by a list.
    Choices = 3,
    /// K, by offsets.
    Depth = 4,
    /// A row of A and C each, by a list.
    Listed = 5,
    /// All rows of A and C, one group.
    Whole = 6,
}

/// The source of one variant behind the text of an epilogue, or of none; `several`: for that many launches in one, 0 for one;
/// `grouping`: of groups of
/// rows.
pub(super) fn source_behind(key: GemmKey, epilogue: &str, several: usize, grouping: Option<Grouping>) -> Source {
    let t = key.tiling;
    let sum = if t.matrix_size == 0 { wrapping_sum(key.input) } else { c_type(sum_dtype(key.input)) };
    let numbers = [
        ("GEMM_MATRIX_SIZE", usize::from(t.matrix_size)),
        ("GEMM_WAVES_M", usize::from(t.waves[0])),
        ("GEMM_WAVES_N", usize::from(t.waves[1])),
        ("GEMM_TILES_M", usize::from(t.tiles[0])),
        ("GEMM_TILES_N", usize::from(t.tiles[1])),
        ("GEMM_SLABS", usize::from(t.slabs)),
        ("GEMM_STAGES", usize::from(key.staging.stages)),
        ("GEMM_ASYNC", usize::from(key.staging.copies)),
        ("GEMM_LDS_BYTES", key.staging.lds_bytes as usize),
        ("GEMM_CHUNKED", usize::from(key.chunked)),
        ("GEMM_A_MODE", key.a as usize),
        ("GEMM_B_MODE", key.b as usize),
        ("GEMM_EPILOGUE", usize::from(!epilogue.is_empty())),
        ("GEMM_SEVERAL", several),
        ("GEMM_GROUPED", grouping.map_or(0, |grouping| grouping as usize)),
        ("GEMM_UNROLL", t.unrolled(key.input.is_float())),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let input = if key.tf32 { "xf32" } else { c_type(key.input) };
    let types = [("GEMM_IN", input), ("GEMM_OUT", c_type(key.output)), ("GEMM_SUM", sum)];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    const MATRIX: &str = concat!(
        include_str!("gemm.hip"),
        include_str!("rows.hip"),
        include_str!("groups.hip"),
        include_str!("stage.hip"),
        include_str!("matrix.hip"),
        include_str!("kernel.hip")
    );
    const ROUNDED: &str = concat!(
        include_str!("xf32.hip"),
        include_str!("gemm.hip"),
        include_str!("rows.hip"),
        include_str!("groups.hip"),
        include_str!("stage.hip"),
        include_str!("matrix.hip"),
        include_str!("kernel.hip")
    );
    const PLAIN: &str = concat!(
        include_str!("gemm.hip"),
        include_str!("rows.hip"),
        include_str!("groups.hip"),
        include_str!("fma.hip"),
        include_str!("kernel.hip")
    );
    let text = match t.matrix_size {
        0 => PLAIN,
        _ if key.tf32 => ROUNDED,
        _ => MATRIX,
    };
    Source::new("gemm", epilogue::in_front(epilogue, text), &defines)
}

/// The type that partial sums are kept in between kernels.
pub(super) fn sum_dtype(input: DType) -> DType {
    match input {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        DType::F64 => DType::F64,
        DType::I64 | DType::U64 => DType::U64,
        DType::I32 | DType::I16 | DType::I8 | DType::U32 | DType::U16 | DType::U8 | DType::Bool => DType::U32,
    }
}

/// The same as a C type; sums of integers are unsigned, where overflow is defined and gives the same bits.
fn wrapping_sum(input: DType) -> &'static str {
    c_type(sum_dtype(input))
}

/// Operators and sources for one type of element: tilings with reading modes in rotation. Every mode and every tiling occurs for
/// every type, not every pair.
pub(crate) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let all = whole(arch, dtype).map(|source| ("gemm", source));
    let all = all.chain(grouped(arch, dtype).map(|source| ("gemm_grouped", source)));
    all.filter(move |_| dtype != DType::Bool)
}

fn whole(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    const MODES: [(Mode, Mode); 4] = [
        (Mode::VectorK, Mode::VectorLine),
        (Mode::VectorLine, Mode::VectorK),
        (Mode::SingleK, Mode::SingleLine),
        (Mode::SingleLine, Mode::SingleK),
    ];
    let unit = Unit::of(arch.info(), dtype);
    let tilings = TILINGS.iter().filter(move |tiling| tiling.serves(unit) || tiling.serves(unit.without_matrix()));
    tilings.enumerate().flat_map(move |(number, &tiling)| {
        let all = tiling.matrix_size == 0 || number == 0;
        // What serves operands along K alone is read in no other way.
        let deep = tiling.matrix_size == 0 && !tiling.serves(unit.without_matrix().reading(false));
        let modes = if deep { [(Mode::VectorK, Mode::VectorK); 4] } else { MODES };
        let count = if deep { 2 } else { MODES.len() };
        let modes = modes.into_iter().take(count).enumerate();
        let modes = modes.filter(move |&(mode, _)| all || mode == number % MODES.len());
        modes.map(move |(mode, (a, b))| {
            let chunked = mode % 2 == 0 && !dtype.is_int();
            let staging = tiling.staging(unit, [a, b], chunked);
            // Rounded factors with every other way of reading, where the unit has them.
            let tf32 = mode % 2 == 1 && dtype == DType::F32 && tiling.matrix_size > 0 && has_tf32(arch.info());
            let key = GemmKey { input: dtype, output: dtype, tf32, tiling, a, b, chunked, staging };
            source_behind(key, "", 0, None)
        })
    })
}

/// The first tiling that serves and later ones, each with two ways to tell groups.
fn grouped(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    let unit = Unit::of(arch.info(), dtype).reading(false);
    let tilings = TILINGS.iter().filter(move |tiling| tiling.serves(unit));
    tilings.enumerate().filter(|(number, _)| number % 3 == 0).flat_map(move |(number, &tiling)| {
        let forms = match number % 2 {
            0 => [(Grouping::Offsets, Mode::VectorK), (Grouping::Depth, Mode::VectorLine)],
            _ => [(Grouping::Counts, Mode::SingleLine), (Grouping::Choices, Mode::VectorK)],
        };
        forms.map(|(grouping, a)| {
            let b = Mode::VectorLine;
            let chunked = grouping == Grouping::Depth && !dtype.is_int();
            let staging = tiling.staging(unit, [a, b], chunked);
            let key = GemmKey { input: dtype, output: dtype, tf32: false, tiling, a, b, chunked, staging };
            source_behind(key, "", 0, Some(grouping))
        })
    })
}
