//! `gguf_staged.hip`: with which tile NVIDIA's cards take products of few rows by blocks of GGUF. `q_matmul/gguf.rs` launches it.
//!
//! What `gguf_matrix.hip` computes, bit for bit: waves cut K alike. Blocks and rows of A come to LDS by asynchronous copies of neighbouring
//! bytes, and of each column of a K type one lane makes the factors, not all four that multiply by them.

use rocfire_arch::{ArchInfo, Matrix};

use super::few::{Unit, units};
use super::gguf::Gguf;
use super::gguf_matrix;

/// K of a stage.
const STAGE_K: usize = 256;
/// What is copied at once.
pub(super) const COPIED: usize = 16;
/// Tiles of rows of A, most first.
const TILES: [usize; 3] = [4, 2, 1];
/// Columns of a lane. Four read A's rows from LDS half as often, but leave fewer waves; they win with more than a tile of rows, of K types whose
/// scales are of 32 weights. On an H200 in us, 4096 x 14336 in Q4_K with four and with two (2026-11-29): 1 row 15.9, 14.7, 4 rows 18.2, 17.2,
/// 16 rows 26.2, 27.5, 32 rows 40.8, 48.2; Q6_K 22.4, 19.5, and 24.5, 23.2, and 41.6, 37.3.
const CODES: [usize; 2] = [4, 2];
/// Stages: of one row a third is on its way. Of more, waves gain more than it does.
const STAGES: usize = 2;
const STAGES_ROW: usize = 3;
/// Waves of a multiprocessor that the compiler is to leave registers for, by one tile of rows, by two and by four. More than 16 would spill: 96
/// registers of a lane took 18.5 us in place of 14.8.
const RESIDENT: [usize; 3] = [16, 8, 8];
/// Waves of a workgroup at least, where LDS has room: those side by side share rows of A.
const WAVES: [usize; 3] = [4, 4, 8];
/// LDS that every workgroup has beside.
const OTHER_LDS: usize = 1024;

/// The macros of `gguf_staged.hip` that shapes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Columns of a lane.
    pub codes: usize,
    /// Tiles of rows of A.
    pub tiles: usize,
    /// Whether there may be a single row only.
    pub single: bool,
    /// Waves side by side along N, and those that cut K.
    pub side: usize,
    pub parts: usize,
    /// Stages in LDS.
    pub stages: usize,
    /// Whether stages begin and end at multiples of 16 bytes.
    pub aligned: bool,
    /// Whether each part of K is whole stages, and N whole strips.
    pub whole: bool,
    /// Workgroups of a multiprocessor.
    pub resident: usize,
    /// Dynamic LDS.
    pub lds_bytes: usize,
    /// Rows and columns of a workgroup.
    pub block: [usize; 2],
}

impl Tile {
    /// For `m` rows of most groups, of which there may be a single one in all if `m` is 1, `n` columns and `k` rows of so many matrices, whose
    /// lines are `line` bytes apart. `None` where the card has no asynchronous copies or LDS no room.
    pub(super) fn of(info: &ArchInfo, kind: Gguf, m: usize, [n, k, groups]: [usize; 3], line: usize) -> Option<Tile> {
        if info.matrix != Matrix::MmaSync {
            return None;
        }
        let parts = gguf_matrix::parts(k);
        let unit = Unit::of(info.matrix, super::few::SPREAD_ROWS + 1)?;
        let wanted = m.div_ceil(unit.rows).next_power_of_two();
        let codes =
            |tiles: usize| CODES.into_iter().filter(move |&codes| codes == 2 || tiles > 1 && has_long_runs(kind));
        let tiles = TILES.into_iter().filter(|&tiles| tiles <= wanted.min(TILES[0]));
        let mut all = tiles.flat_map(|tiles| codes(tiles).map(move |codes| [tiles, codes]));
        all.find_map(|[tiles, codes]| {
            let waves = WAVES[tiles.ilog2() as usize];
            let mut side = (waves / parts).max(1);
            let is_busy = |side: usize| n.div_ceil(side * unit.lanes * codes) * groups >= units(info);
            let with = |side: usize| {
                let strip = side * unit.lanes * codes;
                let whole = k.is_multiple_of(STAGE_K * parts) && n.is_multiple_of(strip);
                let aligned = line.is_multiple_of(COPIED)
                    && (kind.bytes().is_multiple_of(COPIED) || kind.weights() < STAGE_K && whole);
                let tile = Tile {
                    codes,
                    tiles,
                    single: m == 1,
                    side,
                    parts,
                    stages: if m == 1 { STAGES_ROW } else { STAGES },
                    aligned,
                    whole,
                    resident: (RESIDENT[tiles.ilog2() as usize] / (side * parts)).max(1),
                    lds_bytes: 0,
                    block: [tiles * unit.rows, strip],
                };
                Tile { lds_bytes: tile.lds(kind), ..tile }
            };
            while side > 1 && !is_busy(side) {
                side /= 2;
            }
            [side, 1].map(with).into_iter().find(|tile| tile.lds_bytes + OTHER_LDS <= info.lds_bytes as usize)
        })
    }

    /// Stages and factors.
    fn lds(&self, kind: Gguf) -> usize {
        let [rows, strip] = self.block;
        let column = STAGE_K / kind.weights() * kind.bytes();
        let pieces = if self.aligned { column / COPIED } else { (column + 2 * COPIED - 1 - alignment(kind)) / COPIED };
        let rows = if self.single { 1 } else { rows };
        let stage = strip * pieces * COPIED + rows * STAGE_K * size_of::<u16>();
        let runs = if kind.weights() < STAGE_K { 0 } else { STAGE_K / if has_long_runs(kind) { 32 } else { 16 } };
        let each = if matches!(kind, Gguf::Q2K | Gguf::Q4K | Gguf::Q5K) { 2 } else { 1 };
        self.parts * (self.stages * stage + runs * strip * each * size_of::<f32>())
    }

    /// Waves of a workgroup.
    pub(super) fn waves(&self) -> usize {
        self.parts * self.side
    }

    /// What the source has of them.
    pub(super) fn defines(&self) -> [(&'static str, usize); 16] {
        [
            ("F_CODES", self.codes),
            ("F_TILES", self.tiles),
            ("F_KEPT", if self.single { 1 } else { self.block[0] }),
            ("F_WAVES", self.waves()),
            ("F_SIDE", self.side),
            ("F_HIGH", 1),
            ("F_SHARE", 1),
            ("F_STAGES", self.stages),
            ("F_ALIGNED", usize::from(self.aligned)),
            ("F_WHOLE", usize::from(self.whole)),
            ("F_RESIDENT", self.resident),
            ("F_LDS", self.lds_bytes),
            ("F_SUM_BYTES", self.lds_bytes),
            ("F_SPREAD", 0),
            ("F_SCALED", 0),
            ("F_ALONG_K", 1),
        ]
    }
}

/// Whether a scale of a K type is of 32 weights.
fn has_long_runs(kind: Gguf) -> bool {
    matches!(kind, Gguf::Q4K | Gguf::Q5K)
}

/// `ALIGNED` of `gguf.h`.
fn alignment(kind: Gguf) -> usize {
    match kind.bytes().trailing_zeros() {
        4.. => 16,
        2..4 => 4,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use rocfire_arch::Arch;

    use super::*;

    #[test]
    fn tiles_follow_rows_and_room() {
        let of = |arch: &str, kind: Gguf, m, [n, k, groups]: [usize; 3]| {
            let line = k / kind.weights() * kind.bytes();
            let tile = Tile::of(Arch::parse(arch).unwrap().info(), kind, m, [n, k, groups], line)?;
            assert!(tile.lds_bytes + OTHER_LDS <= Arch::parse(arch).unwrap().info().lds_bytes as usize);
            Some((tile.block, tile.codes, tile.waves(), tile.aligned, tile.whole))
        };
        let (wide, deep) = ([14336, 4096, 1], [4096, 14336, 1]);
        assert_eq!(of("sm_90", Gguf::Q4K, 1, wide), Some(([8, 16], 2, 4, true, true)));
        assert_eq!(of("sm_90", Gguf::Q6K, 8, wide), Some(([8, 16], 2, 4, false, true)));
        assert_eq!(of("sm_90", Gguf::Q4K, 16, wide), Some(([16, 32], 4, 4, true, true)));
        assert_eq!(of("sm_90", Gguf::Q4K, 32, wide), Some(([32, 64], 4, 8, true, true)));
        assert_eq!(of("sm_90", Gguf::Q6K, 32, wide), Some(([32, 32], 2, 8, false, true)));
        assert_eq!(
            of("sm_90", Gguf::Q8_0, 1, [14336, 4128, 1]),
            Some(([8, 16], 2, 4, false, false)),
            "eights of blocks end within"
        );
        assert_eq!(
            of("sm_90", Gguf::Q4K, 1, [100, 4096, 1]),
            Some(([8, 16], 2, 4, true, false)),
            "the last strip is no whole one"
        );
        let (rows, ..) = of("sm_90", Gguf::Q4K, 32, deep).unwrap();
        assert_eq!(rows[0], 16, "eight parts of K leave no room for 32 rows");
        assert_eq!(of("sm_89", Gguf::Q8_0, 8, deep), None, "nor, of less LDS, for one tile");
        assert_eq!(of("gfx942", Gguf::Q4K, 1, wide), None);
    }
}
