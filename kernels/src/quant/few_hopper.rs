//! `few_hopper.hip`: which products of few rows get it, with which tile, and its source. `q_matmul.rs` launches it.
//!
//! Hopper's unit takes what it multiplies A's rows by from registers, where codes become operands, and A's rows from LDS, by themselves: a wave
//! waits for neither. Workgroups on neighbouring multiprocessors cut K of a strip of columns and add their sums through each other's LDS.

use std::ops::RangeInclusive;

use rocfire_arch::{ArchInfo, Family};
use rocfire_hal::{DType, Source};

use super::format::{Format, ScaleKind};
use super::q_matmul::in_front_of;
use crate::family::c_type;

/// Rows of A. Of fewer, and of up to eight by words of 4 bits and less, `few_ring.hip` is faster. Of more, decoding each word for every
/// 64 rows takes longer than writing the weight out. On an H200 in us, 4096 x 14336 (2026-11-29), words of 4 and of 8 bits: 512 rows 148,
/// 156, written out 127, 133, of which writing takes 41, 46 for any number of rows. By a launcher of its own (2026-11-28) 1 row took 11.8,
/// 17.2 by `few.hip`, 4 rows by this 14.2, 17.5.
pub(super) const ROWS: RangeInclusive<usize> = 5..=320;
/// Rows of a workgroup, least and most.
const TILE_ROWS: [usize; 2] = [8, 64];
/// K of a piece of a stage, and what blocks of scales are whole multiples of: `PIECE`.
pub(super) const PIECE: usize = 64;
/// Words of a row that are copied at once.
pub(super) const COPIED_WORDS: usize = 4;
/// Columns of four waves.
const GROUP_COLUMNS: usize = 64;
const GROUP_WAVES: usize = 4;
/// Four waves, by how many: as many as registers allow for 64 rows, else half of them where columns are few.
const GROUPS: [usize; 2] = [4, 2];
/// Most workgroups that cut K: those that may lie beside each other on any card.
const PARTS_MOST: usize = 8;
/// Pieces of a workgroup at least: its stages are filled once.
const PIECES_LEAST: usize = 4;
/// What a workgroup's beginning and end take, in pieces.
const ENDS: usize = 3;
/// Pieces of a stage, if they leave so many stages: two are read while the others are on their way.
const PIECES: [usize; 2] = [2, 1];
const STAGES_LEAST: usize = 4;
/// More gain nothing: 4 rows of 4 bits take 14.2 us with 5, one row 17.3 with 12, and 64 rows 23.4 with 6 of two pieces and 25.3 with 12 of one (H200, as
/// above). Of few rows registers leave room for a workgroup of the next launch, and of words of 4 bits LDS does with 4: 16 rows take 14.9 us and 15.2 with
/// 5, of 8 bits, which have no such room, 17.8 and 18.1 (2026-11-29).
const STAGES_MOST: usize = 5;
const SHARED_ROWS: usize = 16;
const SHARED_STAGES: usize = 4;
/// LDS that every workgroup has beside.
const OTHER_LDS: usize = 1024;
/// Multiprocessors of an H100.
const UNITS: usize = 132;

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HopperKey {
    /// Of A and C.
    pub dtype: DType,
    pub format: Format,
    /// Whether scales do not vary along K.
    pub late: bool,
    pub scale: ScaleKind,
    /// Whether scales of neighbouring columns are aligned vectors.
    pub beside: bool,
    pub tile: Tile,
}

/// The macros that shapes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Rows of A.
    pub rows: usize,
    /// Four waves, by how many.
    pub groups: usize,
    /// Workgroups that cut K.
    pub parts: usize,
    /// Stages in LDS, and pieces in each.
    pub stages: usize,
    pub pieces: usize,
}

impl Tile {
    /// For `m` rows, `n` columns, `per` codes to a word of 32 bits; `None` where the architecture has no such unit or K and columns are
    /// not whole.
    pub(super) fn of(info: &ArchInfo, [m, n, k]: [usize; 3], per: usize) -> Option<Tile> {
        if info.family != Family::Hopper || !k.is_multiple_of(PIECE) || !n.is_multiple_of(COPIED_WORDS * per) {
            return None;
        }
        let [least, most] = TILE_ROWS;
        let rows = m.next_power_of_two().clamp(least, most);
        let tiles = m.div_ceil(rows);
        let whole = |&groups: &usize| groups.is_multiple_of(per.div_ceil(4));
        let groups = |groups: usize| n.div_ceil(groups * GROUP_COLUMNS) * tiles;
        let enough = |&of: &usize| groups(of) * PARTS_MOST >= UNITS / 2;
        let mut kinds = GROUPS.into_iter().filter(whole);
        let of = kinds.clone().find(enough).or(kinds.next_back())?;
        let pieces = k / PIECE;
        let fits = |&parts: &usize| parts == 1 || pieces / parts >= PIECES_LEAST;
        // What the multiprocessor takes that has most workgroups.
        let time = |&parts: &usize| (groups(of) * parts).div_ceil(UNITS) * (pieces.div_ceil(parts) + ENDS);
        let parts = [1, 2, 4, PARTS_MOST].into_iter().filter(fits).min_by_key(time).expect("one at least");
        let with = |pieces| {
            let tile = Tile { rows, groups: of, parts, stages: 0, pieces };
            let room = (info.lds_bytes as usize - OTHER_LDS).checked_sub(tile.sum_bytes())?;
            let most = if tile.is_shared() { SHARED_STAGES } else { STAGES_MOST };
            Some(Tile { stages: (room / tile.stage_bytes(per)).min(most), ..tile })
        };
        PIECES.into_iter().filter_map(with).find(|tile| tile.stages >= STAGES_LEAST)
    }

    /// Whether registers are to leave room for a second workgroup of a multiprocessor.
    fn is_shared(&self) -> bool {
        self.rows <= SHARED_ROWS
    }

    /// `STAGE_BYTES`.
    fn stage_bytes(&self, per: usize) -> usize {
        self.pieces * PIECE * (self.rows * size_of::<u16>() + self.columns() / per * size_of::<u32>())
    }

    /// `SUMS_BYTES`: of eight rows four floats of each lane of the others'.
    fn sum_bytes(&self) -> usize {
        (self.parts - 1) * (self.rows / 8).div_ceil(self.parts) * self.columns() * 8 * size_of::<f32>()
    }

    fn columns(&self) -> usize {
        self.groups * GROUP_COLUMNS
    }

    /// Waves of a workgroup.
    pub(super) fn waves(&self) -> usize {
        self.groups * GROUP_WAVES
    }

    /// Dynamic LDS.
    pub(super) fn lds_bytes(&self, per: usize) -> u32 {
        (self.stages * self.stage_bytes(per) + self.sum_bytes()) as u32
    }

    /// Workgroups.
    pub(super) fn grid(&self, [m, n]: [usize; 2]) -> [usize; 3] {
        [n.div_ceil(self.columns()), m.div_ceil(self.rows), self.parts]
    }
}

/// The source of one variant.
pub(crate) fn source(key: HopperKey) -> Source {
    let HopperKey { dtype, format, late, scale, beside, tile } = key;
    let numbers = [
        ("Q_PER", 32 / format.bits()),
        ("Q_LATE", usize::from(late)),
        ("Q_GROUPED", 0),
        ("Q_EPILOGUE", 0),
        ("H_ROWS", tile.rows),
        ("H_GROUPS", tile.groups),
        ("H_PARTS", tile.parts),
        ("H_STAGES", tile.stages),
        ("H_PIECES", tile.pieces),
        ("H_RESIDENT", if tile.is_shared() { 2 } else { 1 }),
        ("H_BESIDE", usize::from(beside)),
        ("H_SCALE", scale.number() as usize),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [("Q_IN", c_type(dtype)), ("Q_OUT", c_type(dtype)), ("Q_WORD", "u32"), ("Q_FORMAT", format.number())];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new("few_hopper", in_front_of!("few_codes.h", "few_hopper.hip"), &defines)
}

#[cfg(test)]
mod tests {
    use rocfire_arch::Arch;

    use super::*;

    #[test]
    fn workgroups_fill_a_card() {
        let of = |arch, size, per| Tile::of(Arch::parse(arch).unwrap().info(), size, per);
        let tile = |rows, groups, parts, stages, pieces| Some(Tile { rows, groups, parts, stages, pieces });
        assert_eq!(of("sm_90", [64, 14336, 4096], 8), tile(64, 4, 2, 5, 2));
        assert_eq!(of("sm_90", [64, 14336, 4096], 4), tile(64, 4, 2, 4, 2));
        assert_eq!(of("sm_90", [33, 4096, 4096], 4), tile(64, 4, 8, 5, 1));
        assert_eq!(of("sm_90", [5, 1024, 4096], 8), tile(8, 2, 8, 4, 2));
        assert_eq!(
            of("sm_90", [5, 1024, 4096], 16).map(|tile| tile.groups),
            Some(4),
            "of 2 bits four waves each have a quarter of the codes"
        );
        assert_eq!(of("sm_90", [64, 128, 128], 8).map(|tile| tile.parts), Some(1), "no workgroup without a few pieces");
        assert_eq!(of("sm_90", [64, 14336, 4096 + 32], 8), None);
        assert_eq!(of("sm_90", [64, 80, 4096], 8), None);
        assert_eq!(of("sm_80", [64, 14336, 4096], 8), None);
    }
}
