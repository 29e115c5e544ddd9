//! The family's rows of the registry.

use rocfire_arch::Arch;
use rocfire_hal::{DType, Source};

use super::activations::{ActivationKey, Given};
use super::few::{self, FewKey, Tile};
use super::few_along::{self, AlongKey};
use super::few_hopper::{self, HopperKey};
use super::format::{Format, Rounding, ScaleKind};
use super::gguf::Gguf;
use super::q_matmul::QMatmulKey;
use super::q_matmul::gguf::{self, GgufKey, Way};
use super::walk::Span;
use super::{activations, dequantise, preshuffle, q_matmul, quantise, row_codes, scaled, scales};
use super::{gguf_dequantise, gguf_matrix, gguf_staged};
use crate::gemm::{Grouping, matrix_side};

type Row = (&'static str, Source);

/// Operators and sources for one type of element.
pub(crate) fn sources(arch: Arch, x: DType) -> impl Iterator<Item = Row> {
    let mut all = Vec::new();
    if x == DType::U8 {
        all.extend([false, true].map(|back| ("preshuffle", preshuffle::source(back))));
    }
    if x.is_float() {
        all.extend(codes(arch, x));
    }
    if x.is_float() && x != DType::F64 {
        all.extend(activation_sources(x));
        all.extend(product_sources(arch, x));
        all.extend(row_codes::sources(x));
        all.extend(scaled::sources(arch, x));
    }
    all.into_iter()
}

/// Every format in whole words and the integers of 8 bits one by one, all roundings in turn.
fn codes(arch: Arch, x: DType) -> Vec<Row> {
    let mut all = Vec::new();
    let words = Format::ALL.map(|format| (format, DType::U32, 32 / format.bits()));
    for (turn, (format, word, per)) in words.into_iter().chain([(Format::I8, DType::U8, 1)]).enumerate() {
        let rounding = [Rounding::Away, Rounding::Even, Rounding::EvenQuotient][turn % 3];
        all.push(("quantise", quantise::source(quantise::QuantiseKey { x, word, per, format, rounding })));
        let span = [Span::Each, Span::One, Span::Beside][turn % 3];
        let scale = ScaleKind::ALL[turn % ScaleKind::ALL.len()];
        let words = if 2 * per <= 16 / x.size_bytes() { 2 } else { 1 };
        let (per, axes, vector) = (per * words, turn / 3 % 3, turn != 4);
        let key = dequantise::DequantiseKey { x, word, words, per, format, axes, vector, scale, span };
        all.push(("dequantise", dequantise::source(key)));
    }
    for lanes in [1, 8, arch.info().wave_size as usize] {
        all.push(("block_scales", scales::source(scales::PeaksKey { x, lanes })));
    }
    all
}

/// Groups and tiles, own scales and given ones, microscaling, smoothing, formats in turn.
fn activation_sources(x: DType) -> impl Iterator<Item = Row> {
    let key = move |format, lanes, runs, given, smooth, mx| ActivationKey {
        x,
        format,
        lanes,
        rows: 1,
        runs,
        threads: if lanes == 0 && runs < 4 { 128 } else { 256 },
        given,
        smooth,
        mx,
    };
    let keys = [
        key(Format::I8, 0, 2, Given::No, true, false),
        key(Format::E4M3, 4, 1, Given::No, false, true),
        key(Format::E2M1, 4, 1, Given::No, false, true),
        key(Format::E4M3Fnuz, 0, 8, Given::No, false, false),
        key(Format::E5M2, 4, 4, Given::Read, false, false),
        key(Format::I8, 4, 4, Given::Parts, false, false),
        key(Format::I4, 8, 2, Given::No, false, false),
    ];
    keys.into_iter().map(|key| ("quantise_activations", activations::source(key)))
}

/// Tiles and the skinny kernel, scales along K and not, both axes packed, formats in turn.
fn product_sources(arch: Arch, x: DType) -> Vec<Row> {
    let matrix = matrix_side(arch.info(), x) != 0;
    let large = if matrix { [2, 2] } else { [4, 4] };
    let key = |format: Format, tiles, along_k, late, rows| QMatmulKey {
        input: x,
        output: x,
        matrix: matrix && rows == 0,
        tiles,
        format,
        word: DType::U32,
        per: 32 / format.bits(),
        along_k,
        late,
        deep: 32,
        rows,
        wide: 0,
        grouping: None,
    };
    let mut keys = vec![
        key(Format::I8, large, false, true, 0),
        key(Format::I4, large, true, false, 0),
        key(Format::E4M3, large, true, true, 0),
        key(Format::I4, [0, 0], false, false, 1),
        key(Format::I8, [0, 0], false, true, 16),
        key(Format::E2M1, [0, 0], false, false, 4),
        QMatmulKey { wide: 4, ..key(Format::I4, [0, 0], false, false, 1) },
        QMatmulKey { wide: 4, ..key(Format::I8, [0, 0], false, true, 4) },
        QMatmulKey { wide: 2, ..key(Format::E2M1, [0, 0], false, false, 4) },
    ];
    if matrix {
        keys.push(QMatmulKey { deep: 128, ..key(Format::I4, [1, 2], false, false, 0) });
    }
    let few = few_keys(arch, x);
    let mut all: Vec<Row> = grouped_sources(&keys, &few, matrix).collect();
    all.extend(keys.into_iter().map(|key| ("q_matmul", q_matmul::source(key, ""))));
    all.extend(few.into_iter().map(|key| ("q_matmul", few::source(key, ""))));
    let of_gguf = gguf_keys(matrix, x).chain(gguf_matrix_keys(arch, x)).chain(gguf_staged_keys(arch, x));
    all.extend(of_gguf.map(|key| ("gguf_matmul_grouped", gguf::source(key, ""))));
    all.extend(Gguf::ALL.map(|kind| {
        let key = GgufKey { input: x, output: x, kind, way: Way::Few, grouping: Grouping::Listed };
        ("gguf_matmul_listed", gguf::source(key, ""))
    }));
    all.extend(Gguf::ALL.map(|kind| {
        let is_dense = !matches!(kind, Gguf::Q5_0 | Gguf::Q3K);
        ("gguf_dequantise", gguf_dequantise::source(x, kind, gguf_dequantise::Way::of(arch.info(), is_dense)))
    }));
    all.extend(hopper_keys(arch, x).map(|key| ("q_matmul", few_hopper::source(key))));
    all.extend(along_keys(arch, x).map(|(op, key)| (op, few_along::source(key, ""))));
    all
}

/// Every type of GGUF by lanes, by low tiles and by high ones in turn, which f32 has none of.
fn gguf_keys(matrix: bool, x: DType) -> impl Iterator<Item = GgufKey> {
    let way = move |turn: usize| match turn % 3 {
        0 => Way::Few,
        low => Way::tiles_of(matrix, low == 1 || x == DType::F32),
    };
    let grouping = |turn: usize| [Grouping::Choices, Grouping::Offsets, Grouping::Counts][turn / 2 % 3];
    let keys = Gguf::ALL.into_iter().enumerate();
    keys.map(move |(turn, kind)| GgufKey { input: x, output: x, kind, way: way(turn), grouping: grouping(turn) })
}

/// Every type of GGUF by codes as operands of the matrix unit, of one row, of a tile and of as many as there are in turn.
fn gguf_matrix_keys(arch: Arch, x: DType) -> impl Iterator<Item = GgufKey> {
    let halves = matches!(x, DType::F16 | DType::BF16);
    let turns = Gguf::ALL.into_iter().chain([Gguf::Q4K, Gguf::Q6K, Gguf::Q8_0]).enumerate().filter(move |_| halves);
    turns.filter_map(move |(turn, kind)| {
        let tile = gguf_matrix::Tile::of(arch.info(), kind, [64, 2, 1, 24][turn % 4], [14336, 4096, 1])?;
        let grouping = [Grouping::Choices, Grouping::Offsets, Grouping::Counts][turn % 3];
        Some(GgufKey { input: x, output: x, kind, way: Way::Matrix(tile), grouping })
    })
}

/// The same by way of LDS, of whole stages and strips and not, of aligned lines and not.
fn gguf_staged_keys(arch: Arch, x: DType) -> impl Iterator<Item = GgufKey> {
    let halves = matches!(x, DType::F16 | DType::BF16);
    let turns = Gguf::ALL.into_iter().cycle().take(2 * Gguf::ALL.len()).enumerate().filter(move |_| halves);
    turns.filter_map(move |(turn, kind)| {
        let [n, k] = if turn < Gguf::ALL.len() { [14336, 4096] } else { [1000, 1280] };
        let line = k / kind.weights() * kind.bytes();
        let tile = gguf_staged::Tile::of(arch.info(), kind, [1, 4, 16, 32][turn % 4], [n, k, 1], line)?;
        let grouping = [Grouping::Offsets, Grouping::Choices, Grouping::Counts][turn % 3];
        Some(GgufKey { input: x, output: x, kind, way: Way::Staged(tile), grouping })
    })
}

/// By Hopper's own products: every number of rows, formats and scales in turn.
fn hopper_keys(arch: Arch, x: DType) -> impl Iterator<Item = HopperKey> {
    let turns = [
        (Format::I4, 8, false, ScaleKind::F16, true),
        (Format::E4M3, 16, true, ScaleKind::F32, false),
        (Format::E2M1, 32, false, ScaleKind::E8M0, true),
        (Format::I8, 64, false, ScaleKind::F32, true),
        (Format::I2, 64, false, ScaleKind::BF16, false),
    ];
    let halves = matches!(x, DType::F16 | DType::BF16);
    turns.into_iter().filter(move |_| halves).filter_map(move |(format, m, late, scale, beside)| {
        let tile = few_hopper::Tile::of(arch.info(), [m, 14336, 4096], 32 / format.bits())?;
        Some(HopperKey { dtype: x, format, late, scale, beside, tile })
    })
}

/// By codes along K: rows, formats, scales of sums and of codes, and groups, of which the plain product has none, in turn.
fn along_keys(arch: Arch, x: DType) -> impl Iterator<Item = (&'static str, AlongKey)> {
    let turns = [
        (Format::E4M3, 2, [7168, 128], ScaleKind::F32, None),
        (Format::E4M3, 2, [7168, 128], ScaleKind::F32, Some(Grouping::Choices)),
        (Format::E2M1, 16, [2880, 32], ScaleKind::E8M0, Some(Grouping::Offsets)),
        (Format::E2M1, 1, [4096, 16], ScaleKind::E4M3, None),
        (Format::I4, 64, [4096, 128], ScaleKind::F16, Some(Grouping::Counts)),
        (Format::I8, 1, [4096, 0], ScaleKind::F32, None),
        (Format::E5M2, 64, [4096, 32], ScaleKind::BF16, Some(Grouping::Choices)),
        (Format::I2, 9, [4096, 0], ScaleKind::F32, Some(Grouping::Offsets)),
    ];
    let halves = matches!(x, DType::F16 | DType::BF16);
    turns.into_iter().filter(move |_| halves).filter_map(move |(format, m, k, scale, grouping)| {
        let tile = few_along::Tile::of(arch.info().matrix, m, 32 / format.bits(), k)?;
        let exact = x == DType::BF16 && scale == ScaleKind::E8M0 && tile.scaled > 0;
        let op = if grouping.is_some() { "q_matmul_grouped" } else { "q_matmul" };
        Some((op, AlongKey { dtype: x, format, late: k[1] == 0, scale, exact, tile, grouping }))
    })
}

/// The same for groups of rows, told in turn; the skinny kernel takes none, and strips none where a matrix unit has the type.
fn grouped_sources<'a>(keys: &'a [QMatmulKey], few: &'a [FewKey], matrix: bool) -> impl Iterator<Item = Row> + 'a {
    let grouping = |turn: usize| Some([Grouping::Choices, Grouping::Offsets, Grouping::Counts][turn % 3]);
    let keys = keys.iter().filter(move |key| key.rows == 0 || key.wide > 0 && !matrix).enumerate();
    let keys = keys.map(move |(turn, &key)| q_matmul::source(QMatmulKey { grouping: grouping(turn), ..key }, ""));
    let groups = |key: &&FewKey| key.tile.kept > 1 && !key.tile.spread && key.tile.staging.is_none();
    let few = few.iter().filter(groups).enumerate();
    let few = few.map(move |(turn, &key)| few::source(FewKey { grouping: grouping(turn), ..key }, ""));
    keys.chain(few).map(|source| ("q_matmul_grouped", source))
}

/// Of few rows: one row and more, every tile that the matrix unit has, of either kernel, formats and scales in turn.
fn few_keys(arch: Arch, x: DType) -> Vec<FewKey> {
    let turns = [
        (Format::I4, 1, false, ScaleKind::F16, true),
        (Format::I8, 1, false, ScaleKind::F16, true),
        (Format::I4, 8, false, ScaleKind::BF16, true),
        (Format::I8, 16, false, ScaleKind::F32, true),
        (Format::I4, 64, false, ScaleKind::F16, true),
        (Format::I2, 1, false, ScaleKind::E4M3, true),
        (Format::E4M3, 3, true, ScaleKind::F32, false),
        (Format::E2M1, 32, false, ScaleKind::E8M0, true),
        (Format::I8, 64, false, ScaleKind::F32, false),
    ];
    let of = |(format, m, late, scale, beside): (Format, usize, bool, ScaleKind, bool)| {
        let (info, per) = (arch.info(), 32 / format.bits());
        let tile = Tile::of(info.matrix, m, per, |_| true);
        let chosen =
            Tile::choose(info, m, per, q_matmul::has_ring(format, x), |_| true).filter(|&chosen| Some(chosen) != tile);
        let key = move |tile| FewKey { dtype: x, format, late, scale, beside, tile, grouping: None };
        tile.into_iter().chain(chosen).map(key)
    };
    let halves = matches!(x, DType::F16 | DType::BF16);
    turns.into_iter().filter(|_| halves).flat_map(of).collect()
}
