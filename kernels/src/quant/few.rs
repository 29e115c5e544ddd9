//! `few.hip`: which tile of it a product of few rows gets, and its source. `q_matmul.rs` launches it.
//!
//! Codes of 32-bit words along N become operands of the matrix unit in the registers that they were loaded into; no tile of them
//! lies in LDS. A workgroup has a strip of columns and whole rows of A, its waves cut K.

use rocfire_arch::Matrix;
use rocfire_hal::{DType, Source};

use super::format::{Format, ScaleKind};
use crate::family::c_type;

/// Most rows of A.
pub(super) const ROWS_MAX: usize = 64;
/// K of a slab, and what blocks of scales and slices are whole multiples of.
pub(super) const SLAB: usize = 32;
/// Words of a row of weights: a lane's place among those of a slab is a number of bytes in 32 bits.
pub(super) const ROW_WORDS: i64 = 1 << 24;
/// Codes of a row that a lane holds, most first: those that its words allow, and that leave its sums registers.
const CODES: [usize; 2] = [16, 8];
/// Registers of a lane for the sums of a block of scales; it has as many again for those of K.
const SUMS: usize = 64;
/// Slabs of a wave at least: two are under way at a time.
const SLABS_LEAST: usize = 2;

/// The matrix unit as this kernel uses it.
#[derive(Clone, Copy)]
struct Unit {
    /// Rows of A in a product.
    rows: usize,
    /// Lanes side by side along N.
    lanes: usize,
    /// Registers of a lane for the sums of a code's column and a product's rows.
    sums: usize,
    /// Workgroups below which K is cut, as long as its slices are long enough: what fills the cards that have this unit.
    groups: usize,
}

impl Unit {
    fn of(matrix: Matrix) -> Option<Unit> {
        match matrix {
            Matrix::MmaSync => Some(Unit { rows: 8, lanes: 8, sums: 2, groups: 128 }),
            Matrix::Mfma(_) => Some(Unit { rows: 16, lanes: 16, sums: 4, groups: 512 }),
            Matrix::Wmma11 | Matrix::Wmma12 => Some(Unit { rows: 16, lanes: 16, sums: 8, groups: 512 }),
            Matrix::None | Matrix::Wmma125 => None,
        }
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
}

impl Tile {
    /// For `m` rows and words of `per` codes; `fits` says whether rows of words are whole, aligned vectors of so many. `None` where the
    /// unit's sums leave a lane no registers.
    pub(super) fn of(matrix: Matrix, m: usize, per: usize, fits: impl Fn(usize) -> bool) -> Option<Tile> {
        let unit = Unit::of(matrix)?;
        let wanted = m.div_ceil(unit.rows).next_power_of_two();
        let room = |codes: usize| SUMS / (codes * unit.sums);
        let mut codes = CODES
            .into_iter()
            .filter(|&codes| codes.is_multiple_of(per) && codes / per <= 4 && room(codes) > 0 && fits(codes / per));
        let narrowest = codes.clone().next_back()?;
        let codes = codes.find(|&codes| wanted <= room(codes)).unwrap_or(narrowest);
        let tiles = wanted.min(room(codes));
        let kept = if m == 1 { 1 } else { tiles * unit.rows };
        let (waves, side) = match matrix {
            // As many as the registers of a multiprocessor allow.
            Matrix::MmaSync => match (tiles, codes) {
                (1, 16) if m == 1 && per >= 8 => (16, 1),
                (1, 16) => (12, 1),
                (_, 16) => (8, 1),
                _ => (8, 2),
            },
            Matrix::Mfma(_) | Matrix::Wmma11 | Matrix::Wmma12 | Matrix::None | Matrix::Wmma125 => (4, 1),
        };
        Some(Tile { wide: codes / per, tiles, kept, waves, side })
    }

    /// Workgroups along N and M.
    pub(super) fn grid(&self, matrix: Matrix, [m, n]: [usize; 2], per: usize) -> [usize; 2] {
        let unit = Unit::of(matrix).expect("a tile was made for it");
        [n.div_ceil(self.side * unit.lanes * self.wide * per), m.div_ceil(self.tiles * unit.rows)]
    }

    /// K of a slice: so many that there are workgroups enough, and a wave has slabs enough.
    pub(super) fn slice_k(&self, matrix: Matrix, groups: usize, k: usize) -> usize {
        let unit = Unit::of(matrix).expect("a tile was made for it");
        let slabs = k.div_ceil(SLAB);
        let most = (slabs / (SLABS_LEAST * self.waves / self.side)).max(1);
        let wanted = (unit.groups / groups).max(1);
        let slices = 1 << wanted.min(most).ilog2();
        slabs.div_ceil(slices) * SLAB
    }
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
}

/// The source of one variant.
pub(crate) fn source(key: FewKey) -> Source {
    let FewKey { dtype, format, late, scale, beside, tile } = key;
    let numbers = [
        ("Q_PER", 32 / format.bits()),
        ("Q_LATE", usize::from(late)),
        ("F_WIDE", tile.wide),
        ("F_TILES", tile.tiles),
        ("F_KEPT", tile.kept),
        ("F_WAVES", tile.waves),
        ("F_SIDE", tile.side),
        ("F_BESIDE", usize::from(beside)),
        ("F_SCALE", scale.number() as usize),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [("Q_IN", c_type(dtype)), ("Q_OUT", c_type(dtype)), ("Q_WORD", "u32"), ("Q_FORMAT", format.number())];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    Source::new("few", concat!(include_str!("coded.h"), include_str!("few.hip")), &defines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_more_rows_leave_a_lane_fewer_columns() {
        let of = |matrix, m, per| Tile::of(matrix, m, per, |_| true).map(|tile| (tile.wide, tile.tiles, tile.kept));
        assert_eq!(of(Matrix::MmaSync, 1, 8), Some((2, 1, 1)));
        assert_eq!(of(Matrix::MmaSync, 8, 4), Some((4, 1, 8)));
        assert_eq!(of(Matrix::MmaSync, 16, 8), Some((2, 2, 16)));
        assert_eq!(of(Matrix::MmaSync, 17, 8), Some((1, 4, 32)));
        assert_eq!(of(Matrix::MmaSync, 64, 4), Some((2, 4, 32)));
        assert_eq!(of(Matrix::Mfma(3), 16, 8), Some((2, 1, 16)));
        assert_eq!(of(Matrix::Mfma(3), 32, 8), Some((1, 2, 32)));
        assert_eq!(of(Matrix::Wmma11, 16, 4), Some((2, 1, 16)));
        assert_eq!(of(Matrix::Wmma11, 5, 16), None, "16 codes of 2 bits to a word are too many sums");
        assert_eq!(of(Matrix::None, 1, 8), None);
        assert_eq!(Tile::of(Matrix::MmaSync, 1, 8, |wide| wide == 1).map(|tile| tile.wide), Some(1));
    }

    #[test]
    fn slices_fill_a_card_and_keep_waves_busy() {
        let of = |matrix, [m, n, k]: [usize; 3]| {
            let tile = Tile::of(matrix, m, 8, |_| true).unwrap();
            let grid = tile.grid(matrix, [m, n], 8);
            (grid, k.div_ceil(tile.slice_k(matrix, grid[0] * grid[1], k)))
        };
        assert_eq!(of(Matrix::MmaSync, [1, 14336, 4096]), ([112, 1], 1));
        assert_eq!(of(Matrix::MmaSync, [1, 4096, 4096]), ([32, 1], 4));
        assert_eq!(of(Matrix::MmaSync, [64, 14336, 4096]), ([112, 2], 1));
        assert_eq!(of(Matrix::Mfma(3), [1, 14336, 4096]), ([56, 1], 8));
        assert_eq!(of(Matrix::Mfma(3), [1, 64, 32]), ([1, 1], 1), "less than a slab for a wave");
    }
}
