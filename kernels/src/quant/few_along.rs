//! `few_along.hip`: which products of few rows by codes along K get it, with which tile, and its source. `q_matmul.rs` and `grouped.rs`
//! launch it.
//!
//! A lane reads 16 bytes of codes of one column, which are its operands' k of several products: lanes of a product that have other k of that
//! column lie side by side in memory. All waves of a workgroup have its columns and rows of A, and cut K.

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::{DType, Source};

use super::few::{self, Cut, Unit, slabs_of_slice};
use super::format::{Format, ScaleKind};
use super::q_matmul::in_front_of;
use crate::epilogue;
use crate::family::c_type;
use crate::gemm::Grouping;

/// Words of a lane's run: 16 bytes.
pub(super) const RUN_WORDS: usize = 4;
/// Columns of a lane, most first: those that leave its sums registers.
const CODES: [usize; 2] = [4, 2];
/// Registers of a lane for rows of A in a slab, of which two are under way.
const ROW_WORDS: usize = 32;
/// Registers of a lane for the sums of a block of scales: half of what `few.hip` has, as rows and words of more k are under way.
const SUMS: usize = few::SUMS / 2;
/// Slabs under way, together two halves of a line of memory where four lanes have a column.
const STAGES: usize = 2;

/// The macros of `few_along.hip` that shapes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Columns of a lane.
    pub codes: usize,
    /// Tiles of rows of A.
    pub tiles: usize,
    /// Rows of C that there may be: 1, or all of the tiles.
    pub kept: usize,
    /// Waves of a workgroup.
    pub waves: usize,
    /// K of a slab.
    pub slab: usize,
    /// Scales of a lane's codes in a slab that multiply the codes; 0 where scales multiply sums.
    pub scaled: usize,
    /// Whether K ends inside of a slab.
    pub tail: bool,
    /// Rows and columns of a workgroup.
    pub block: [usize; 2],
}

impl Tile {
    /// For `m` rows and words of `per` codes, of K in blocks of scales of so many, 0 for one of all. `None` where the unit or the blocks do
    /// not serve. By how many rows it was chosen changes no bit of one.
    pub(super) fn of(matrix: Matrix, m: usize, per: usize, [k, block_k]: [usize; 2]) -> Option<Tile> {
        let unit = Unit::of(matrix, m.max(few::SPREAD_ROWS + 1))?;
        let run = RUN_WORDS * per;
        let slab = run * unit.groups;
        let scaled = match () {
            () if block_k.is_multiple_of(slab) => 0,
            () if block_k.is_multiple_of(run) => 1,
            () if 2 * block_k == run => 2,
            () => return None,
        };
        if !k.is_multiple_of(run) {
            return None;
        }
        let most = (ROW_WORDS / (run / 2)).min(SUMS / (CODES[1] * unit.sums)).max(1);
        let tiles = m.div_ceil(unit.rows).next_power_of_two().min(most);
        let codes = CODES.into_iter().find(|codes| codes * tiles * unit.sums <= SUMS)?;
        let rows = tiles * unit.rows;
        let waves = match matrix {
            Matrix::Mfma(_) => 8,
            // On an H200 in us, 4096 x 14336 of one row, 8, 4 and 2 waves: bytes 20.4, 17.3, 21.3; of 4 bits 16.0, 13.8, 15.8. More
            // slabs under way are slower, and so are four columns of a lane.
            Matrix::MmaSync | Matrix::Wmma11 | Matrix::Wmma12 | Matrix::None | Matrix::Wmma125 => 4,
        };
        let kept = if m == 1 { 1 } else { rows };
        let block = [rows, unit.lanes * codes];
        Some(Tile { codes, tiles, kept, waves, slab, scaled, tail: !k.is_multiple_of(slab), block })
    }

    /// The same of the fewest columns, where there would be too few workgroups for a card. It changes no bit.
    pub(super) fn narrowest(self) -> Tile {
        let [rows, columns] = self.block;
        Tile { codes: CODES[1], block: [rows, columns / self.codes * CODES[1]], ..self }
    }

    /// Workgroups along N and M.
    pub(super) fn grid(&self, [m, n]: [usize; 2]) -> [usize; 2] {
        [n.div_ceil(self.block[1]), m.div_ceil(self.block[0])]
    }

    /// K of a slice for so many workgroups along M and N.
    pub(super) fn slice_k(&self, info: &ArchInfo, groups: usize, per: usize, k: usize) -> usize {
        let cut = Cut { waves: self.waves, kept: self.kept, words: self.slab / per };
        slabs_of_slice(info, groups, k.div_ceil(self.slab), cut) * self.slab
    }
}

/// What varies in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AlongKey {
    /// Of A and C.
    pub dtype: DType,
    pub format: Format,
    /// Whether scales do not vary along K.
    pub late: bool,
    pub scale: ScaleKind,
    /// Whether a code times its scale is exact: of a scale that is a power of two, in a bf16.
    pub exact: bool,
    pub tile: Tile,
    /// Of groups of rows.
    pub grouping: Option<Grouping>,
}

/// The source of one variant behind the text of an epilogue, or of none.
pub(crate) fn source(key: AlongKey, epilogue: &str) -> Source {
    let AlongKey { dtype, format, late, scale, exact, tile, grouping } = key;
    let numbers = [
        ("Q_PER", 32 / format.bits()),
        ("Q_LATE", usize::from(late)),
        ("F_CODES", tile.codes),
        ("F_TILES", tile.tiles),
        ("F_KEPT", tile.kept),
        ("F_WAVES", tile.waves),
        ("F_SIDE", 1),
        ("F_HIGH", 1),
        ("F_SHARE", 1),
        ("F_STAGES", STAGES),
        ("F_SUM_BYTES", few::SUM_BYTES),
        ("F_SPREAD", 0),
        ("F_SCALED", tile.scaled),
        ("F_EXACT", usize::from(exact)),
        ("F_TAIL", usize::from(tile.tail)),
        ("F_SCALE", scale.number() as usize),
        ("F_ALONG_K", 1),
        ("Q_GROUPED", grouping.map_or(0, |grouping| grouping as usize)),
        ("Q_EPILOGUE", usize::from(!epilogue.is_empty())),
    ]
    .map(|(name, value)| (name, value.to_string()));
    let types = [("Q_IN", c_type(dtype)), ("Q_OUT", c_type(dtype)), ("Q_WORD", "u32"), ("Q_FORMAT", format.number())];
    let defines: Vec<(&str, &str)> = types.into_iter().chain(numbers.iter().map(|(n, v)| (*n, v.as_str()))).collect();
    let text = in_front_of!("few_codes.h", "few_unit.h", "few_along.h", "few_sums.h", "few_along.hip");
    Source::new("few_along", epilogue::in_front(epilogue, text), &defines)
}

#[cfg(test)]
mod tests {
    use rocfire_arch::Arch;

    use super::*;

    #[test]
    fn scales_multiply_sums_where_their_blocks_are_whole_slabs() {
        let of = |arch, per, block_k| {
            let tile = Tile::of(Arch::parse(arch).unwrap().info().matrix, 2, per, [7168, block_k]);
            tile.map(|tile| (tile.slab, tile.scaled))
        };
        assert_eq!(of("sm_90", 4, 128), Some((64, 0)));
        assert_eq!(of("gfx942", 4, 128), Some((64, 0)));
        assert_eq!(of("gfx942", 4, 0), Some((64, 0)));
        assert_eq!(of("gfx942", 8, 64), Some((128, 1)));
        assert_eq!(of("gfx942", 8, 32), Some((128, 1)), "MXFP4");
        assert_eq!(of("gfx942", 8, 16), Some((128, 2)), "NVFP4");
        assert_eq!(of("gfx942", 4, 8), Some((64, 2)));
        assert_eq!(of("gfx942", 8, 8), None);
        assert_eq!(of("gfx1100", 8, 32), Some((32, 0)));
        assert_eq!(of("gfx1201", 8, 32), Some((64, 1)));
        assert_eq!(of("gfx1030", 4, 128), None);
    }

    #[test]
    fn rows_of_a_tile_leave_registers() {
        let of = |arch, m, per| {
            let tile = Tile::of(Arch::parse(arch).unwrap().info().matrix, m, per, [4096, 0]).unwrap();
            (tile.codes, tile.block, tile.kept)
        };
        assert_eq!(of("sm_90", 1, 4), (4, [8, 32], 1));
        assert_eq!(of("sm_90", 64, 4), (4, [32, 32], 32));
        assert_eq!(of("gfx942", 2, 4), (4, [16, 64], 16));
        let tile = Tile::of(Matrix::Mfma(3), 2, 4, [4096, 0]).unwrap().narrowest();
        assert_eq!((tile.codes, tile.block), (2, [16, 32]));
        assert_eq!(of("gfx942", 64, 4), (2, [64, 32], 64));
        assert_eq!(of("gfx942", 64, 8), (4, [32, 64], 32));
        assert_eq!(of("gfx1100", 64, 4), (2, [32, 32], 32));
    }
}
