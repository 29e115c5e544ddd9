//! `few.hip`, `few_ring.hip` and `few_staged.hip`: which of them a product of few rows gets, with which tile, and its source. `q_matmul.rs` launches it.
//!
//! Codes of 32-bit words along N become operands of the matrix unit in the registers that they were loaded into. A workgroup has a strip
//! of columns and whole rows of A, its waves cut K. In `few.hip` each wave loads words and rows of A for itself, and no tile of them lies
//! in LDS; in `few_ring.hip` it does so by way of a ring in LDS of its own; in `few_staged.hip` a workgroup has all rows, whose words and rows of A go through LDS once for all its waves.

use std::ops::RangeInclusive;

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::{DType, Source};

use super::format::{Format, ScaleKind};
use super::q_matmul::in_front_of;
use crate::epilogue;
use crate::family::c_type;
use crate::gemm::Grouping;

/// Most rows of A.
pub(super) const ROWS_MAX: usize = 64;
/// K of a slab, and what blocks of scales and slices are whole multiples of.
pub(super) const SLAB: usize = 32;
/// Words of a weight, its rows with what lies between them: a lane's place is a number of bytes in 32 bits.
pub(super) const WORDS: i64 = 1 << 30;
/// Codes of a row that a lane holds, most first: those that its words allow, and that leave its sums registers.
const CODES: [usize; 3] = [16, 8, 4];
/// The most on NVIDIA's cards for more than a tile of rows: with more waves instead, less of what a load takes is seen.
const CODES_NVIDIA: usize = 8;
/// Registers of a lane for the sums of a block of scales; it has as many again for those of K.
pub(super) const SUMS: usize = 64;
/// LDS of `few.hip` for the sum over the waves.
pub(super) const SUM_BYTES: usize = 32 << 10;
/// Most rows of A that NVIDIA's unit takes as two each.
pub(super) const SPREAD_ROWS: usize = 4;
/// Waves of a workgroup of a group of rows on NVIDIA's cards, which all cut K.
const GROUP_WAVES_NVIDIA: usize = 8;
/// Up to how many rows `few.hip` is the faster on NVIDIA's cards: beyond, its waves read A's rows too often, and words once for each 32 rows.
/// On an H100 in us, 4096 x 14336 (2026-11-28), without stages and with: w4a16 of 16 rows 19.3, 21.0, of 32 29.8, 24.7, of 64 57.3, 39.5; w8a16
/// of 16 rows 26.9, 30.1, of 32 34.8, 34.5, of 64 63.7, 47.3.
const UNSTAGED_ROWS_NVIDIA: usize = 16;
/// Columns of a workgroup that stages on NVIDIA's cards: with fewer the rows of A are read more often, with more there are too few workgroups.
const STAGED_COLUMNS_NVIDIA: usize = 128;
/// Bytes of a row of A in a piece of [`SLAB`] k, and in how many words a row of words is copied at once.
const PIECE_ROW_BYTES: usize = 64;
const COPIED_WORDS: usize = 4;
/// Stages where copies go past the registers, as many as LDS has room for; pieces of a stage then, if they leave so many stages.
const STAGES_NVIDIA: RangeInclusive<usize> = 3..=8;
const PIECES_NVIDIA: [usize; 2] = [4, 2];
/// Up to so many rows a workgroup on NVIDIA's cards has 16 waves, whose sums leave few registers; beyond, 8: 64 rows of w4a16 by 16 of 32 rows
/// each take 44.6 us.
const WAVES_MORE_ROWS: usize = 32;
/// Waves of a workgroup that has rings, all along K, of which a multiprocessor is to have room for so many; LDS that each takes beside its own.
/// Of slabs in a ring as many as then fit. On an H200 in us, w4a16 of one row, 4096 x 14336 (2026-11-29): 8 waves of 2 words 9.6, 16 of one
/// word 12.3, one workgroup of 16 waves 10.8, of 8 waves with rings of 8 slabs 13.2; `few.hip` 11.9.
const RING_WAVES: usize = 8;
const RESIDENT: usize = 2;
const RESERVED_LDS: usize = 1 << 10;
const RING_SLABS: RangeInclusive<usize> = 3..=6;
/// Codes of a word from which on more rows than NVIDIA's unit takes as two have rings too. 8 rows on the same card: of 4 bits 11.2 us, by Hopper's own products
/// 14.1, of 8 bits 18.9 and 17.3.
const RING_CODES: usize = 8;
/// Slabs of a wave at least: two are under way at a time.
const SLABS_LEAST: usize = 2;
/// What a workgroup's beginning and end take, in slabs of a wave.
const ENDS: usize = 1;
/// Compute units of a card that the table of architectures has none of: NVIDIA's, which say so of all that are large; AMD's.
const UNITS_NVIDIA: usize = 128;
const UNITS_AMD: usize = 64;

/// The matrix unit as this kernel uses it.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Rows of A in a product.
    pub rows: usize,
    /// Lanes side by side along N.
    pub lanes: usize,
    /// Groups of lanes, each of which has other k.
    pub groups: usize,
    /// Registers of a lane for the sums of a code's column and a product's rows.
    pub sums: usize,
}

impl Unit {
    /// For so many rows of A. Of few rows NVIDIA's takes each as two, of which either has zeros for every other k.
    pub(super) fn of(matrix: Matrix, m: usize) -> Option<Unit> {
        match matrix {
            Matrix::MmaSync if m <= SPREAD_ROWS => Some(Unit { rows: SPREAD_ROWS, lanes: 8, groups: 4, sums: 1 }),
            Matrix::MmaSync => Some(Unit { rows: 8, lanes: 8, groups: 4, sums: 2 }),
            Matrix::Mfma(_) => Some(Unit { rows: 16, lanes: 16, groups: 4, sums: 4 }),
            Matrix::Wmma11 => Some(Unit { rows: 16, lanes: 16, groups: 1, sums: 8 }),
            Matrix::Wmma12 => Some(Unit { rows: 16, lanes: 16, groups: 2, sums: 8 }),
            Matrix::None | Matrix::Wmma125 => None,
        }
    }

    /// Floats of a row of sums in LDS: `LINE` of `few_sums.h`.
    fn line(&self, codes: usize, side: usize) -> usize {
        let banks = (32 / codes).max(1);
        let step = (self.lanes.div_ceil(banks) | 1) * banks;
        side * (codes * step).next_multiple_of(32) + 32
    }

    /// Bytes of so many rows of A and sides of words in [`SLAB`] k: `PIECE_BYTES` of `few_staged.hip`.
    fn piece_bytes(&self, rows: usize, side: usize) -> usize {
        let skew = if side > 1 { 128 / side } else { 0 };
        let words = side * (SLAB * self.lanes * size_of::<u32>() + skew);
        (rows * PIECE_ROW_BYTES + words).next_multiple_of(128)
    }
}

/// The macros of `few.hip` that shapes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Words of a lane in a row.
    pub wide: usize,
    /// Tiles of rows of A.
    pub tiles: usize,
    /// Rows of C that there may be: 1, or all of the tiles.
    pub kept: usize,
    /// Waves of a workgroup.
    pub waves: usize,
    /// Waves side by side along N.
    pub side: usize,
    /// Slabs that a wave has under way.
    pub stages: usize,
    /// Slabs that blocks of scales, slices and what a wave has of them are whole multiples of: less is looked at, and the main loop is
    /// shorter by a copy of what ends a block (w4a16 of a row, 4096 x 14336, on an H100 13.7 us, else 14.2; 2026-11-25).
    pub fold: usize,
    /// Neighbouring k of a lane in a slab.
    pub run: usize,
    /// Whether a row of A is two of the unit's.
    pub spread: bool,
    /// Waves one below another along M.
    pub high: usize,
    /// Waves that have a part of each word's codes.
    pub share: usize,
    /// What `few_staged.hip` has; `None` for the others.
    pub staging: Option<Staging>,
    /// What `few_ring.hip` has; `None` for the others.
    pub ring: Option<Ring>,
}

/// The rings of `few_ring.hip` in LDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ring {
    /// Slabs in a wave's ring.
    pub slabs: usize,
    /// Of the rings, or of the sums in their place.
    pub lds_bytes: usize,
}

/// The stages of `few_staged.hip` in LDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Staging {
    /// Pieces of a stage, of [`SLAB`] k.
    pub pieces: usize,
    /// Of the stages, or of the sums in their place.
    pub lds_bytes: usize,
}

impl Tile {
    /// For `m` rows and words of `per` codes; `fits` says whether rows of words are whole, aligned vectors of so many. `None` where the
    /// unit's sums leave a lane no registers.
    pub(super) fn of(matrix: Matrix, m: usize, per: usize, fits: impl Fn(usize) -> bool) -> Option<Tile> {
        let unit = Unit::of(matrix, m)?;
        let spread = matrix == Matrix::MmaSync && m <= SPREAD_ROWS;
        let wanted = m.div_ceil(unit.rows).next_power_of_two();
        let room = |codes: usize| SUMS / (codes * unit.sums);
        let most = if matrix == Matrix::MmaSync && wanted > 1 { CODES_NVIDIA } else { CODES[0] };
        let serves = |&codes: &usize| {
            codes <= most && codes.is_multiple_of(per) && codes / per <= 4 && room(codes) > 0 && fits(codes / per)
        };
        let mut codes = CODES.into_iter().filter(serves);
        let narrowest = codes.clone().next_back()?;
        let codes = codes.find(|&codes| wanted <= room(codes)).unwrap_or(narrowest);
        let tiles = wanted.min(room(codes));
        let kept = if m == 1 { 1 } else { tiles * unit.rows };
        let (waves, side) = match matrix {
            // As many as the registers of a multiprocessor allow. On an H100 in us, 4096 x 14336 (2026-11-25), waves and those side by
            // side: w4a16 of 1 row 16, 1: 14.6, 12, 1: 14.9; of 16 rows 16, 2: 19.7, 8, 1 of 16 codes: 20.2; w8a16 of 64 rows 8, 1 of
            // 4 codes: 64.1, 8, 2 of 8: 66.5.
            Matrix::MmaSync => match (codes, tiles) {
                (16, 1) if spread && per >= 8 => (16, 1),
                (16, 1) => (12, 1),
                (8, 2) if per >= 8 => (16, 2),
                (8, 2) => (12, 2),
                (4, _) => (8, 1),
                _ => (8, 2),
            },
            // Two of a SIMD, where registers allow no more; the sums of more waves need no memory.
            Matrix::Mfma(_) => (8, 1),
            Matrix::Wmma11 | Matrix::Wmma12 | Matrix::None | Matrix::Wmma125 => (4, 1),
        };
        let (stages, fold, run) = (2, 1, 8);
        Some(Tile {
            wide: codes / per,
            tiles,
            kept,
            waves,
            side,
            stages,
            fold,
            run,
            spread,
            high: 1,
            share: 1,
            staging: None,
            ring: None,
        })
    }

    /// Of `few_staged.hip`, for more rows than NVIDIA's unit takes as two each.
    fn staged(info: &ArchInfo, m: usize, per: usize, fits: impl Fn(usize) -> bool) -> Option<Tile> {
        let unit = Unit::of(info.matrix, m)?;
        let wanted = m.div_ceil(unit.rows).next_power_of_two();
        // As many waves as keep all rows in each, so that no word is decoded twice.
        let (waves, most_sums) = match info.matrix {
            Matrix::MmaSync if m <= WAVES_MORE_ROWS => (16, SUMS / 2),
            _ => (8, SUMS),
        };
        // Of words that would leave room for few rows, two waves have the halves.
        let share = if per >= 8 && per * unit.sums * wanted > most_sums { 2 } else { 1 };
        let codes = per / share;
        let tiles = wanted.min(most_sums / (codes * unit.sums));
        if tiles == 0 || !fits(COPIED_WORDS) {
            return None;
        }
        let high = wanted / tiles;
        let (side, pieces, stages): (usize, &[usize], _) = match info.matrix {
            Matrix::MmaSync => ((STAGED_COLUMNS_NVIDIA / (unit.lanes * per)).max(1), &PIECES_NVIDIA, STAGES_NVIDIA),
            // Copies go through registers.
            _ => (1, &[1], 2..=2),
        };
        let tile = Tile {
            wide: 1,
            tiles,
            kept: wanted * unit.rows,
            waves,
            side,
            stages: 0,
            fold: 1,
            run: 8,
            spread: false,
            high,
            share,
            staging: None,
            ring: None,
        };
        let sum_bytes = tile.kept * unit.line(per, side) * size_of::<f32>();
        let piece_bytes = tile.parts() * unit.piece_bytes(tile.kept, side);
        let room = |pieces: usize| (info.lds_bytes as usize / (pieces * piece_bytes)).min(*stages.end());
        let &pieces = pieces.iter().find(|&&pieces| room(pieces) >= *stages.start())?;
        let lds_bytes = sum_bytes.max(room(pieces) * pieces * piece_bytes);
        let staging = Some(Staging { pieces, lds_bytes });
        (lds_bytes <= info.lds_bytes as usize).then_some(Tile { stages: room(pieces), staging, ..tile })
    }

    /// The same of `few_ring.hip`, for a tile of rows on NVIDIA's cards.
    fn ringed(self, info: &ArchInfo, per: usize, fits: impl Fn(usize) -> bool) -> Option<Tile> {
        let unit = Unit::of(info.matrix, self.kept)?;
        let row_bytes = unit.lanes * self.wide * size_of::<u32>();
        let slab_bytes = RING_WAVES * SLAB * (row_bytes + self.kept * size_of::<u16>());
        let room = info.lds_bytes as usize / RESIDENT - RESERVED_LDS;
        let slabs = (room / slab_bytes).min(*RING_SLABS.end());
        let lds_bytes = (slabs * slab_bytes).max(self.kept * unit.line(self.wide * per, 1) * size_of::<f32>());
        let is_one = info.matrix == Matrix::MmaSync && self.tiles == 1 && (self.spread || per >= RING_CODES);
        let serves = is_one && fits(COPIED_WORDS) && slabs >= *RING_SLABS.start() && lds_bytes <= room;
        let ring = Some(Ring { slabs, lds_bytes });
        serves.then_some(Tile { waves: RING_WAVES, side: 1, stages: 0, ring, ..self })
    }

    /// The tile of whichever kernel is faster; `by_ring`: `few_ring.hip` has registers for the format.
    pub(super) fn choose(
        info: &ArchInfo,
        m: usize,
        per: usize,
        by_ring: bool,
        fits: impl Fn(usize) -> bool,
    ) -> Option<Tile> {
        let plain = Tile::of(info.matrix, m, per, &fits)?;
        if let Some(ringed) = plain.ringed(info, per, &fits).filter(|_| by_ring) {
            return Some(ringed);
        }
        let (groups, plain_rows) = (m.div_ceil(plain.kept), m.next_multiple_of(plain.kept));
        let worth = |staged: &Tile| match info.matrix {
            Matrix::MmaSync => m > UNSTAGED_ROWS_NVIDIA,
            // Decoding is what takes these longest, and each word is decoded for every wave along M. Modelled clocks of w4a16, 4096 x 14336,
            // without stages and with: 64 rows on gfx942 34.6k, 25.0k, on gfx950 30.9k, 22.3k; 17 rows on gfx1201 140k, 125k, on gfx1100
            // 201k, 171k.
            Matrix::Mfma(3..) | Matrix::Wmma11 | Matrix::Wmma12 => staged.high < groups && staged.kept <= plain_rows,
            // Products take as long: 101k, 131k on gfx90a.
            Matrix::Mfma(_) | Matrix::None | Matrix::Wmma125 => false,
        };
        Some(Tile::staged(info, m, per, &fits).filter(worth).unwrap_or(plain))
    }

    /// The kernel's name.
    pub(super) fn kernel(&self) -> &'static str {
        match (self.staging, self.ring) {
            (Some(_), _) => "few_staged",
            (None, Some(_)) => "few_ring",
            (None, None) => "few",
        }
    }

    /// Its dynamic LDS.
    pub(super) fn lds_bytes(&self) -> u32 {
        let staged = self.staging.map_or(0, |staging| staging.lds_bytes as u32);
        self.ring.map_or(staged, |ring| ring.lds_bytes as u32)
    }

    /// Waves that cut K.
    fn parts(&self) -> usize {
        self.waves / (self.side * self.share * self.high)
    }

    /// The same for K in blocks of scales of so many, 0 for one of all.
    pub(super) fn folding(self, matrix: Matrix, k: usize, block_k: usize) -> Tile {
        let (pair, waves) = (2 * SLAB, self.parts());
        let whole = block_k.is_multiple_of(pair) && k.is_multiple_of(pair * waves);
        // What more it takes of registers is not known of AMD's.
        Tile { fold: if matrix == Matrix::MmaSync && whole { 2 } else { 1 }, ..self }
    }

    /// For groups of rows, most of which have `m` at most; `busy` says whether strips of so many columns are enough for a card. What is
    /// chosen changes no bit of a row.
    pub(super) fn of_groups(
        matrix: Matrix,
        m: usize,
        per: usize,
        fits: impl Fn(usize) -> bool,
        busy: impl Fn(usize) -> bool,
    ) -> Option<Tile> {
        // Neither a single row nor those that NVIDIA's unit takes as two are summed as more are.
        let m = m.max(SPREAD_ROWS + 1);
        let lanes = Unit::of(matrix, m)?.lanes;
        let narrow = |most: usize| Tile::of(matrix, m, per, |wide| wide * per <= most && fits(wide));
        let enough = Tile::of(matrix, m, per, |wide| fits(wide) && busy(lanes * wide * per));
        let tile = enough.or_else(|| CODES.into_iter().rev().find_map(narrow))?;
        Some(match matrix {
            Matrix::MmaSync => Tile { waves: GROUP_WAVES_NVIDIA, side: 1, ..tile },
            _ => tile,
        })
    }

    /// Rows and columns of a workgroup.
    pub(super) fn block(&self, matrix: Matrix, per: usize) -> [usize; 2] {
        let m = if self.spread { 1 } else { SPREAD_ROWS + 1 };
        let unit = Unit::of(matrix, m).expect("a tile was made for it");
        [self.high * self.tiles * unit.rows, self.side * unit.lanes * self.wide * per]
    }

    /// Workgroups along N and M.
    pub(super) fn grid(&self, matrix: Matrix, [m, n]: [usize; 2], per: usize) -> [usize; 2] {
        let [rows, columns] = self.block(matrix, per);
        [n.div_ceil(columns), m.div_ceil(rows)]
    }

    /// K of a slice for so many workgroups along M and N.
    pub(super) fn slice_k(&self, info: &ArchInfo, groups: usize, per: usize, k: usize) -> usize {
        let (waves, kept) = (self.parts(), self.kept);
        let slabs = slabs_of_slice(info, groups, k.div_ceil(SLAB), Cut { waves, kept, words: SLAB / per });
        slabs.next_multiple_of(self.fold) * SLAB
    }
}

/// What a workgroup is, as far as slices of K go.
pub(super) struct Cut {
    /// Waves that cut K.
    pub waves: usize,
    /// Rows of C.
    pub kept: usize,
    /// Of a column in a slab.
    pub words: usize,
}

/// Slabs of a slice, of so many in all, for so many workgroups along M and N: with what the compute unit that has most workgroups is done
/// first, on the architecture's card. Sums of slices are written and read once more, which takes their share of a wave's time.
pub(super) fn slabs_of_slice(info: &ArchInfo, groups: usize, slabs: usize, cut: Cut) -> usize {
    let (units, Cut { waves, kept, words }) = (units(info), cut);
    let most = (slabs / (SLABS_LEAST * waves)).max(1);
    let parts = kept * 2 * size_of::<f32>() / (words * size_of::<u32>()) / waves;
    let time = |&slices: &usize| {
        let ends = ENDS + if slices > 1 { parts } else { 0 };
        (groups * slices).div_ceil(units) * (slabs.div_ceil(slices) + ends * waves)
    };
    slabs.div_ceil((1..=most).min_by_key(time).expect("one at least"))
}

/// What runs workgroups side by side on a card of the architecture: compute units, or pairs of them.
pub(super) fn units(info: &ArchInfo) -> usize {
    let together = info.unit.map_or(1, |unit| unit.compute_units as usize);
    let all = match (info.card, info.matrix) {
        (Some(card), _) => card.compute_units as usize,
        (None, Matrix::MmaSync) => UNITS_NVIDIA,
        (None, _) => UNITS_AMD,
    };
    all / together
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FewKey {
    /// Of A and C.
    pub dtype: DType,
    pub format: Format,
    /// Whether scales do not vary along K.
    pub late: bool,
    pub scale: ScaleKind,
    /// Whether scales of neighbouring columns are aligned vectors.
    pub beside: bool,
    pub tile: Tile,
    /// Of groups of rows.
    pub grouping: Option<Grouping>,
}

/// The source of one variant behind the text of an epilogue, or of none.
pub(crate) fn source(key: FewKey, epilogue: &str) -> Source {
    let FewKey { dtype, format, late, scale, beside, tile, grouping } = key;
    let numbers = [
        ("Q_PER", 32 / format.bits()),
        ("Q_LATE", usize::from(late)),
        ("F_WIDE", tile.wide),
        ("F_TILES", tile.tiles),
        ("F_KEPT", tile.kept),
        ("F_WAVES", tile.waves),
        ("F_SIDE", tile.side),
        ("F_HIGH", tile.high),
        ("F_SHARE", tile.share),
        ("F_STAGES", tile.stages),
        ("F_PIECES", tile.staging.map_or(0, |staging| staging.pieces)),
        ("F_RING", tile.ring.map_or(0, |ring| ring.slabs)),
        ("F_RESIDENT", RESIDENT),
        ("F_LDS", tile.lds_bytes() as usize),
        ("F_SUM_BYTES", if tile.lds_bytes() > 0 { tile.lds_bytes() as usize } else { SUM_BYTES }),
        ("F_FOLD", tile.fold),
        ("F_RUN", tile.run),
        ("F_SPREAD", usize::from(tile.spread)),
        ("F_SCALED", 0),
        ("F_ALONG_K", 0),
        ("F_BESIDE", usize::from(beside)),
        ("F_SCALE", scale.number() as usize),
        ("Q_GROUPED", grouping.map_or(0, |grouping| grouping as usize)),
        ("Q_EPILOGUE", usize::from(!epilogue.is_empty())),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [("Q_IN", c_type(dtype)), ("Q_OUT", c_type(dtype)), ("Q_WORD", "u32"), ("Q_FORMAT", format.number())];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    let text = match tile.staging {
        Some(_) => in_front_of!("few_codes.h", "few_unit.h", "few.h", "few_sums.h", "few_staged.hip"),
        None if tile.ring.is_some() => in_front_of!("few_codes.h", "few_unit.h", "few.h", "few_sums.h", "few_ring.hip"),
        None => in_front_of!("few_codes.h", "few_unit.h", "few.h", "few_sums.h", "few.hip"),
    };
    Source::new(tile.kernel(), epilogue::in_front(epilogue, text), &defines)
}

#[cfg(test)]
mod tests {
    use rocfire_arch::Arch;

    use super::*;

    #[test]
    fn sums_of_more_rows_leave_a_lane_fewer_columns() {
        let of = |matrix, m, per| Tile::of(matrix, m, per, |_| true).map(|tile| (tile.wide, tile.tiles, tile.kept));
        assert_eq!(of(Matrix::MmaSync, 1, 8), Some((2, 1, 1)));
        assert_eq!(of(Matrix::MmaSync, 8, 4), Some((4, 1, 8)));
        assert_eq!(of(Matrix::MmaSync, 4, 8), Some((2, 1, 4)), "of four rows, each of which is two of the unit's");
        assert_eq!(of(Matrix::MmaSync, 16, 8), Some((1, 2, 16)));
        assert_eq!(of(Matrix::MmaSync, 17, 8), Some((1, 4, 32)));
        assert_eq!(of(Matrix::MmaSync, 64, 4), Some((1, 8, 64)));
        assert_eq!(of(Matrix::Mfma(3), 16, 8), Some((2, 1, 16)));
        assert_eq!(of(Matrix::Mfma(3), 32, 8), Some((1, 2, 32)));
        assert_eq!(of(Matrix::Mfma(3), 64, 4), Some((1, 4, 64)));
        assert_eq!(of(Matrix::Wmma11, 16, 4), Some((2, 1, 16)));
        assert_eq!(of(Matrix::Wmma11, 5, 16), None, "16 codes of 2 bits to a word are too many sums");
        assert_eq!(of(Matrix::None, 1, 8), None);
        assert_eq!(Tile::of(Matrix::MmaSync, 1, 8, |wide| wide == 1).map(|tile| tile.wide), Some(1));
    }

    #[test]
    fn stages_are_for_rows_whose_words_would_be_decoded_more_often() {
        let of = |arch, m, per| {
            let tile = Tile::choose(Arch::parse(arch).unwrap().info(), m, per, true, |_| true).unwrap();
            tile.staging.map(|_| (tile.tiles, tile.high, tile.share, tile.parts()))
        };
        assert_eq!(of("sm_90", 16, 8), None);
        assert_eq!(of("sm_90", 17, 8), Some((4, 1, 2, 4)));
        assert_eq!(of("sm_90", 64, 8), Some((8, 1, 2, 2)));
        assert_eq!(of("sm_90", 64, 4), Some((8, 1, 1, 2)));
        assert_eq!(of("gfx942", 32, 8), None);
        assert_eq!(of("gfx942", 33, 8), Some((4, 1, 2, 4)));
        assert_eq!(of("gfx942", 64, 4), None, "few.hip decodes them once too");
        assert_eq!(of("gfx1201", 17, 8), Some((2, 1, 2, 4)));
        assert_eq!(of("gfx1201", 33, 8), None, "of 64 rows as much is multiplied as of 33");
        assert_eq!(of("gfx1201", 64, 8), Some((2, 2, 2, 2)));
        assert_eq!(of("gfx90a", 64, 8), None);
        let narrow =
            Tile::choose(Arch::parse("sm_90").unwrap().info(), 64, 8, true, |wide| wide < COPIED_WORDS).unwrap();
        assert_eq!(narrow.staging, None, "words that are no vectors of four");
    }

    #[test]
    fn rings_leave_room_for_a_second_workgroup() {
        let of = |arch, m, per, by_ring, most_wide| {
            let info = Arch::parse(arch).unwrap().info();
            let tile = Tile::choose(info, m, per, by_ring, |wide| wide <= most_wide).unwrap();
            tile.ring.map(|ring| (ring.slabs, ring.lds_bytes, tile.waves, tile.wide))
        };
        assert_eq!(of("sm_90", 1, 8, true, 4), Some((6, 6 * 8 * (2048 + 64), 8, 2)));
        assert_eq!(of("sm_90", 4, 8, true, 4), Some((6, 6 * 8 * (2048 + 256), 8, 2)));
        assert_eq!(of("sm_90", 1, 4, true, 4), Some((3, 3 * 8 * (4096 + 64), 8, 4)));
        assert_eq!(of("sm_90", 8, 8, true, 4), Some((5, 5 * 8 * (2048 + 512), 8, 2)));
        assert_eq!(of("sm_90", 8, 4, true, 4), None, "of 8 bits Hopper's own products are faster");
        assert_eq!(of("sm_90", 9, 8, true, 4), None, "two tiles of rows");
        assert_eq!(of("sm_90", 1, 8, true, 2), None, "rows of words that are no vectors of four");
        assert_eq!(of("sm_90", 1, 4, false, 4), None, "no registers for the format");
        assert_eq!(of("sm_80", 1, 8, true, 4).map(|(slabs, ..)| slabs), Some(4));
        assert_eq!(of("sm_89", 8, 8, true, 4), None, "LDS has room for two slabs only");
        assert_eq!(of("gfx942", 1, 8, true, 4), None);
    }

    #[test]
    fn slices_fill_a_card_and_keep_waves_busy() {
        let of = |arch, [m, n, k]: [usize; 3]| {
            let info = Arch::parse(arch).unwrap().info();
            let tile = Tile::of(info.matrix, m, 8, |_| true).unwrap();
            let grid = tile.grid(info.matrix, [m, n], 8);
            (grid, k.div_ceil(tile.slice_k(info, grid[0] * grid[1], 8, k)))
        };
        assert_eq!(of("sm_90", [1, 14336, 4096]), ([112, 1], 1));
        assert_eq!(of("sm_90", [1, 4096, 4096]), ([32, 1], 4));
        assert_eq!(of("sm_90", [64, 14336, 4096]), ([112, 2], 1));
        assert_eq!(of("gfx942", [1, 14336, 4096]), ([56, 1], 5), "of 304 units 280");
        assert_eq!(of("gfx942", [64, 14336, 4096]), ([112, 2], 1), "sums of 64 rows are more than is gained");
        assert_eq!(of("gfx90a", [16, 14336, 4096]), ([56, 1], 3));
        assert_eq!(of("gfx942", [1, 64, 32]), ([1, 1], 1), "less than a slab for a wave");
    }
}
