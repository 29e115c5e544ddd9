//! `gguf_matrix.hip`: which products of few rows by blocks of GGUF get it, with which tile. `q_matmul/gguf.rs` launches it.
//!
//! Every type is served where the matrix unit takes the type of A. A lane reads its part of a block's codes for itself and makes operands
//! of it in registers. Waves of a workgroup cut K, others lie side by side along N and read the same rows of A.

use rocfire_arch::{ArchInfo, Matrix};

use super::few::{self, Unit, units};
use super::gguf::Gguf;

/// Most rows a group, in the mean. On an H200 in us, 4096 x 14336 in Q4_K by 16, 32 and 64 rows: 65, 80, 136, by decoded tiles 70, 100, 103;
/// Q6_K and Q8_0 alike.
pub(super) const ROWS_MAX: usize = 32;
/// Columns of a lane: with four, blocks of the K types of 3 and 6 bits leave no registers on NVIDIA's cards; on RDNA 3, where a lane has
/// all k of them, two of 6 bits do not.
const CODES: usize = 2;
const CODES_WMMA11: usize = 1;
/// Registers of a lane for the sums of K, beside words and what becomes of them.
const SUMS: usize = 32;
/// Most tiles of rows: with eight of NVIDIA's, blocks of Q6_K leave no registers.
const TILES_MAX: usize = 4;
/// Waves that cut K: as many as leave each so much of it, so that its beginning and end take little beside. They decide the order of a
/// sum, so nothing but K may decide them.
const PARTS: usize = 8;
const PART_K: usize = 1024;
/// Waves of a workgroup where N has columns enough: on NVIDIA's cards of one tile of rows, whose registers smaller workgroups use better;
/// of more rows, waves side by side read each row once.
const WAVES_NVIDIA: usize = 4;
const WAVES: usize = 8;
/// What a row of sums takes of LDS for each wave side by side, and one more: `LINE` of `few_sums.h`.
const LINE_BYTES: usize = 128;
/// Blocks that are under way at a time, of the older types; parts of blocks, of the K types.
const STAGES_OLDER: usize = 4;
const STAGES_K: usize = 2;
/// The same on NVIDIA's cards of one tile of rows, whose waves are more if a lane has fewer registers. On an H200 in us, a row by
/// 4096 x 14336, as above and so: Q4_K 20.8, 19.5; Q5_K 24.7, 21.6; Q6_K 39.3, 26.3; Q8_0 46.3, 41.1.
const STAGES_OLDER_NVIDIA: usize = 2;
const STAGES_K_NVIDIA: usize = 1;

/// The macros of `gguf_matrix.hip` that shapes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Columns of a lane.
    pub codes: usize,
    /// Tiles of rows of A.
    pub tiles: usize,
    /// Rows of C that there may be: 1, or all of the tiles.
    pub kept: usize,
    /// Waves side by side along N.
    pub side: usize,
    /// Waves that cut K.
    pub parts: usize,
    /// Slabs under way.
    pub stages: usize,
    /// Whether rows of A are under way as well.
    pub ahead: bool,
    /// Rows and columns of a workgroup.
    pub block: [usize; 2],
}

/// Waves that cut `k`: the largest power of two that is not more than there are parts.
pub(super) fn parts(k: usize) -> usize {
    1 << (k / PART_K).clamp(1, PARTS).ilog2()
}

impl Tile {
    /// For `m` rows of most groups, of which there may be a single one in all if `m` is 1, and `n` columns and `k` rows of so many
    /// matrices. `None` where there is no such unit. What is chosen for one K changes no bit of a row.
    pub(super) fn of(info: &ArchInfo, kind: Gguf, m: usize, [n, k, groups]: [usize; 3]) -> Option<Tile> {
        let unit = Unit::of(info.matrix, m.max(few::SPREAD_ROWS + 1))?;
        let codes = if info.matrix == Matrix::Wmma11 { CODES_WMMA11 } else { CODES };
        let most = (SUMS / (CODES * unit.sums)).min(TILES_MAX);
        let tiles = m.div_ceil(unit.rows).next_power_of_two().min(most);
        let columns = unit.lanes * codes;
        let parts = parts(k);
        let is_busy = |side: usize| n.div_ceil(side * columns) * groups >= units(info);
        let most_waves = if info.matrix == Matrix::MmaSync && tiles == 1 { WAVES_NVIDIA } else { WAVES };
        let rows = tiles * unit.rows;
        let has_room = |side: usize| rows * (side + 1) * LINE_BYTES <= few::SUM_BYTES;
        let mut side = (most_waves / parts).max(1);
        while side > 1 && !(is_busy(side) && has_room(side)) {
            side /= 2;
        }
        let [stages_older, stages_k] = match info.matrix {
            Matrix::MmaSync if tiles == 1 => [STAGES_OLDER_NVIDIA, STAGES_K_NVIDIA],
            _ => [STAGES_OLDER, STAGES_K],
        };
        let stages = if kind.weights() == 32 { stages_older } else { stages_k };
        // Where a group of lanes has more of a row there are no registers for it, nor beside two stages of words of two or three kinds.
        let ahead = tiles == 1
            && match info.matrix {
                Matrix::MmaSync => true,
                Matrix::Mfma(_) => !matches!(kind, Gguf::Q3K | Gguf::Q6K),
                _ => false,
            };
        let kept = if m == 1 { 1 } else { rows };
        Some(Tile { codes, tiles, kept, side, parts, stages, ahead, block: [rows, side * columns] })
    }

    /// Waves of a workgroup.
    pub(super) fn waves(&self) -> usize {
        self.parts * self.side
    }

    /// What the source has of them.
    pub(super) fn defines(&self) -> [(&'static str, usize); 13] {
        [
            ("F_CODES", self.codes),
            ("F_TILES", self.tiles),
            ("F_KEPT", self.kept),
            ("F_WAVES", self.waves()),
            ("F_SIDE", self.side),
            ("F_HIGH", 1),
            ("F_SHARE", 1),
            ("F_STAGES", self.stages),
            ("F_AHEAD", usize::from(self.ahead)),
            ("F_SUM_BYTES", few::SUM_BYTES),
            ("F_SPREAD", 0),
            ("F_SCALED", 0),
            ("F_ALONG_K", 1),
        ]
    }
}

#[cfg(test)]
mod tests {
    use rocfire_arch::Arch;

    use super::*;

    #[test]
    fn rows_and_columns_follow_the_unit() {
        let of = |arch, kind, m, sides| {
            let tile = Tile::of(Arch::parse(arch).unwrap().info(), kind, m, sides)?;
            Some((tile.block, tile.kept, tile.parts, tile.ahead))
        };
        let (large, small) = ([14336, 4096, 1], [1024, 2048, 1]);
        assert_eq!(of("sm_90", Gguf::Q4K, 1, large), Some(([8, 16], 1, 4, true)));
        assert_eq!(of("sm_90", Gguf::Q4K, 8, [768, 2048, 128]), Some(([8, 32], 8, 2, true)));
        assert_eq!(of("sm_90", Gguf::Q8_0, 9, large), Some(([16, 32], 16, 4, false)));
        assert_eq!(of("sm_90", Gguf::Q6K, 8, large), Some(([8, 16], 8, 4, true)));
        assert_eq!(of("sm_90", Gguf::Q6K, 64, small), Some(([32, 16], 32, 2, false)), "few columns");
        assert_eq!(of("gfx942", Gguf::Q4K, 64, large), Some(([64, 32], 64, 4, false)));
        assert_eq!(of("gfx90a", Gguf::Q4K, 2, small), Some(([16, 32], 16, 2, true)));
        assert_eq!(of("gfx90a", Gguf::Q6K, 2, small), Some(([16, 32], 16, 2, false)));
        assert_eq!(of("gfx1100", Gguf::Q4K, 64, large), Some(([32, 32], 32, 4, false)));
        assert_eq!(of("gfx1201", Gguf::Q4K, 64, [14336, 256, 1]), Some(([32, 128], 32, 1, false)));
        assert_eq!(of("gfx1030", Gguf::Q4K, 1, large), None);
    }
}
