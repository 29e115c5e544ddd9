//! Every kernel source, so that tests can compile all of them for all architectures.
//!
//! A row is an operator, an element type and a source. Tilings of the matrix product are listed with reading modes in
//! rotation: every mode and every tiling occurs for every type, not every pair.

use rocfire_arch::Arch;
use rocfire_fusion::Runs;
use rocfire_hal::{DType, Source};

use crate::attention::{AttentionKey, GradientKey, Part, Tile};
use crate::conv::{ConvKey, DirectKey};
use crate::gemm::{GemmKey, Mode, TILINGS, Unit};
use crate::index::{CompactKey, GatherKey, ScatterKey, SelectKey, SortedKey, Update, UpdateKey};
use crate::interpolate::InterpolateKey;
use crate::loss::CtcKey;
use crate::pool::{AverageKey, MaximumKey, Rows};
use crate::random::{Draw, RandomKey};
use crate::reduce::ArgKey;
use crate::rope::{RopeKey, RopeStyle};
use crate::scan::{Cumulative, CumulativeKey};
use crate::sort::SortKey;
use crate::{attention, conv, gemm, index, interpolate, loss, norm, pool, quant, random, reduce, rope, scan, sort};

/// One kernel source.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The operator: its file's stem.
    pub operator: &'static str,
    /// The element type.
    pub dtype: DType,
    /// What is compiled.
    pub source: Source,
}

/// Every operator with every element type it has, for one architecture.
pub fn registry(arch: Arch) -> Vec<Entry> {
    let mut entries = Vec::new();
    for dtype in DType::ALL {
        let mut add = |operator, source| entries.push(Entry { operator, dtype, source });
        if dtype != DType::Bool {
            gemm_sources(arch, dtype).for_each(|source| add("gemm", source));
            grouped_sources(arch, dtype).for_each(|source| add("gemm_grouped", source));
            for op in Cumulative::ALL {
                add("cumulative", scan::cumulative_source(CumulativeKey { dtype, op }));
            }
            for index in [DType::I32, DType::I64] {
                add("sort", sort::sort_source(SortKey { dtype, index }));
            }
        }
        if dtype == DType::U8 {
            for back in [false, true] {
                add("preshuffle", quant::preshuffle_source(back));
            }
        }
        if dtype.is_float() {
            conv_sources(arch, dtype).for_each(|source| add("conv", source));
            add("ctc", loss::ctc_source(CtcKey { dtype }));
            add("direct", conv::direct_source(DirectKey { dtype }));
            add("channels_last", conv::channels_last_source(dtype.size_bytes()));
            for (indices, gradient) in [(false, false), (true, false), (true, true)] {
                let index = if gradient { DType::I32 } else { DType::I64 };
                let rows = (!gradient && dtype != DType::F64).then_some(Rows { height: 3, width: 3, step: 2, left: 1 });
                for rows in [None, rows].into_iter().take(1 + usize::from(rows.is_some())) {
                    let pieces = if rows.is_none() && !indices && !gradient { 2 } else { 1 };
                    for piece in [0, 16 / dtype.size_bytes()].into_iter().take(pieces) {
                        let key = MaximumKey { dtype, index, indices, gradient, rows, piece };
                        add("maximum", pool::maximum_source(key));
                    }
                }
            }
            for (adaptive, gradient) in [(false, false), (false, true), (true, false), (true, true)] {
                add("average", pool::average_source(AverageKey { dtype, adaptive, gradient }));
            }
            for (taps, columns) in [(1, 4), (2, 1), (2, 4), (4, 4), (6, 1), (6, 4)] {
                let columns = columns.min(16 / dtype.size_bytes());
                add("interpolate", interpolate::source(InterpolateKey { dtype, taps, columns }));
            }
        }
        for index in [DType::I32, DType::I64] {
            for max in [false, true] {
                add("arg_reduce", reduce::arg_reduce_source(ArgKey { dtype, index, max }));
            }
        }
        if dtype.is_float() {
            attention_sources(arch, dtype).for_each(|source| add("attention", source));
            if dtype == DType::F32 {
                attention::PLAIN_DEPTHS
                    .map(attention::plain_source)
                    .into_iter()
                    .for_each(|source| add("attention", source));
            }
            for (operator, source) in quant::sources(arch, dtype) {
                add(operator, source);
            }
            if dtype != DType::F64 {
                norm::norm_backward_sources(dtype).into_iter().for_each(|source| add("norm_backward", source));
                quant::row_sources(dtype).into_iter().for_each(|(operator, source)| add(operator, source));
                quant::scaled_sources(arch, dtype).for_each(|source| add("q_matmul_scaled", source));
            }
            gradient_sources(arch, dtype).for_each(|source| add("attention_backward", source));
            for (position, vector, style) in [(DType::I32, 16, RopeStyle::NeoX), (DType::I64, 1, RopeStyle::GptJ)] {
                let vector = (vector / dtype.size_bytes()).max(1);
                for tables in [true, false] {
                    add("rope", rope::source(RopeKey { dtype, position, vector, style, tables }));
                }
            }
        }
        let index = if dtype.size_bytes() == 4 { DType::I32 } else { DType::I64 };
        add("compact", index::compact_source(CompactKey { word: dtype.size_bytes(), index }));
        let index = DType::I64;
        add("gather", index::gather_source(GatherKey { bytes: dtype.size_bytes(), index }));
        for word in [dtype.size_bytes(), 16] {
            add("select", index::select_source(SelectKey { word, index }));
        }
        for update in Update::ALL {
            let arithmetic = matches!(update, Update::Add | Update::Mul);
            if !(arithmetic && dtype == DType::Bool) {
                add("scatter", index::scatter_source(ScatterKey { dtype, index, update }));
                add("select_update", index::select_update_source(UpdateKey { dtype, index, update }));
                let wide = matches!(dtype, DType::F16 | DType::BF16);
                add("sorted_update", index::sorted_update_source(SortedKey { dtype, index, update, wide }));
            }
        }
        for draw in [Draw::Uniform, Draw::Normal, Draw::Bernoulli] {
            if draw == Draw::Bernoulli || dtype != DType::Bool {
                add("random", random::source(RandomKey { dtype, draw }));
            }
        }
    }
    entries
}

/// Every tiling that serves, with the variants in rotation; all variants for the first.
fn conv_sources(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    let tilings = conv::TILINGS.iter().filter(move |tiling| tiling.serves(arch.info(), dtype, true));
    tilings.enumerate().flat_map(move |(number, &tiling)| {
        // The second gives results with their channels innermost, whose stores differ from tiling to tiling.
        let variants = (0..12).filter(move |&variant| number == 0 || variant % 4 == number % 4 || variant == 1);
        variants.filter_map(move |variant| {
            let (weight, axes) = (variant % 3 == 2, if variant % 2 == 0 { 2 } else { 3 });
            let (a_vector, x_vector) = (variant / 3 % 2 == 0, variant % 3 == 1);
            let output = if weight && a_vector && dtype.size_bytes() == 2 { DType::F32 } else { dtype };
            let tiled = if !weight && a_vector && x_vector { conv::staging(arch.info(), &tiling) } else { None };
            let last = (tiled.is_some() && axes == 3 && dtype.size_bytes() == 2).then(Runs::default);
            let whole = tiling.takes_whole(tiled.is_some() && (variant + number) % 2 == 0);
            let tiling = if last.is_some() { tiling.turned() } else { tiling };
            let key = ConvKey { input: dtype, output, weight, axes, tiling, a_vector, x_vector, tiled, whole, last };
            (tiled.is_some() || !whole).then(|| conv::source(key))
        })
    })
}

fn gemm_sources(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
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
            let tf32 = mode % 2 == 1 && dtype == DType::F32 && tiling.matrix_size > 0 && gemm::has_tf32(arch.info());
            gemm::source(GemmKey { input: dtype, output: dtype, tf32, tiling, a, b, chunked, staging })
        })
    })
}

/// The first tiling that serves and a later one, by offsets and by counts.
fn grouped_sources(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    let unit = Unit::of(arch.info(), dtype).reading(false);
    let tilings = TILINGS.iter().filter(move |tiling| tiling.serves(unit));
    tilings.enumerate().filter(|(number, _)| number % 3 == 0).map(move |(number, &tiling)| {
        let modes = [if number % 2 == 0 { Mode::VectorK } else { Mode::SingleLine }, Mode::VectorLine];
        let staging = tiling.staging(unit, modes, false);
        let key = GemmKey {
            input: dtype,
            output: dtype,
            tf32: false,
            tiling,
            a: modes[0],
            b: modes[1],
            chunked: false,
            staging,
        };
        gemm::grouped_source(key, number % 2 == 1)
    })
}

/// Every third head size of each type, in its rotation: with and without extras, whole and in slices, for many rows and few.
fn attention_sources(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    const DEPTHS: [[usize; 2]; 9] =
        [[32, 32], [64, 64], [96, 96], [128, 128], [160, 160], [192, 192], [224, 224], [256, 256], [192, 128]];
    let shift = DType::ALL.iter().position(|&other| other == dtype).unwrap_or(0);
    let depths = DEPTHS.into_iter().enumerate().filter(move |(number, _)| number % 3 == shift % 3 || *number == 1);
    depths.flat_map(move |(number, depths)| {
        [0, 1].map(|turn| {
            let rows = if (number + turn) % 2 == 0 { 512 } else { 16 };
            let tile = Tile::choose(arch.info(), true, dtype, depths, rows);
            let extra = (number / 3 + turn) % 2 == 0 || attention::general_only(arch.info(), tile);
            let tile = if extra { tile.general() } else { tile };
            attention::source(AttentionKey { dtype, depths, tile, extra, split: turn == 1 })
        })
    })
}

/// A narrow and a wide head, each part of the gradients as it is launched for it.
fn gradient_sources(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    let wide = if dtype == DType::F16 { [192, 128] } else { [256, 256] };
    let parts = [
        ([64, 64], Part::Delta),
        ([64, 64], Part::Queries),
        ([64, 64], Part::Both),
        ([128, 128], Part::Both),
        ([128, 128], Part::Queries),
        ([128, 128], Part::Values),
        ([128, 128], Part::Keys),
        (wide, Part::Queries),
        (wide, Part::Values),
        (wide, Part::Keys),
    ];
    parts.into_iter().enumerate().filter_map(move |(number, (depths, part))| {
        let tile = Tile::choose_backward(arch.info(), true, dtype, depths, 512);
        let extra = number % 2 == 0 || attention::general_only(arch.info(), tile);
        let tile = if extra { tile.general() } else { tile };
        let tile = if part == Part::Queries { tile } else { tile.for_keys() };
        let key = GradientKey { dtype, depths, tile, extra, part };
        (part != Part::Both || key.both(arch.info())).then(|| attention::backward_source(key))
    })
}

/// How an operator of the registry computes with an element type on an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Its products are the matrix unit's, in this type.
    Matrix,
    /// On the vector units.
    Vector,
    /// Codes are decoded to this type in registers, and multiplied on the matrix unit where it has it.
    Decoded,
}

/// The way of an operator that [`registry`] has with this type; what it has not, launchers refuse with
/// [`rocfire_hal::Error::Unsupported`] or [`rocfire_hal::Error::Shape`] before any launch.
pub fn way(arch: Arch, operator: &str, dtype: DType) -> Way {
    let info = arch.info();
    let on_unit = match operator {
        "gemm" | "gemm_grouped" | "conv" => gemm::matrix_side(info, dtype) != 0,
        "attention" | "attention_backward" => Tile::choose(info, true, dtype, [64, 64], 512).size != 0,
        "q_matmul" => return Way::Decoded,
        _ => false,
    };
    if on_unit { Way::Matrix } else { Way::Vector }
}
