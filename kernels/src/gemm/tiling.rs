//! Which tiles a product is cut into, and in which way its operands are read.
//!
//! The choice is by shape alone and changes no bit of the result, so it may be tuned freely.

use rocfire_hal::DType;

/// Tiles of one workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tiling {
    /// Side of one product of the matrix unit; 0 for plain multiply-add.
    pub matrix_size: u16,
    /// Waves along M and N; lanes for plain multiply-add.
    pub waves: [u16; 2],
    /// Products per wave along M and N; values per lane for plain multiply-add.
    pub tiles: [u16; 2],
    /// K per round of loading, in elements of 4 bytes; narrower elements take more, wider ones fewer.
    pub depth: u16,
}

const fn matrix(matrix_size: u16, waves: [u16; 2], tiles: [u16; 2], depth: u16) -> Tiling {
    Tiling { matrix_size, waves, tiles, depth }
}

/// What there is to choose from. The 96 columns are for the widths of transformers (96, 288, 384, 768), which are whole
/// multiples of it; the narrow ones for products with few rows or columns.
pub(crate) const TILINGS: &[Tiling] = &[
    matrix(32, [2, 2], [2, 2], 16),
    matrix(32, [4, 1], [1, 3], 16),
    matrix(32, [2, 2], [1, 1], 32),
    matrix(32, [1, 1], [1, 1], 32),
    matrix(16, [1, 1], [1, 4], 32),
    matrix(16, [1, 1], [4, 1], 32),
    matrix(16, [2, 2], [2, 2], 16),
    Tiling { matrix_size: 0, waves: [16, 16], tiles: [4, 4], depth: 16 },
];

impl Tiling {
    /// Rows and columns of C per workgroup.
    pub fn block(&self) -> [usize; 2] {
        let side = usize::from(self.matrix_size.max(1));
        [0, 1].map(|axis| usize::from(self.waves[axis]) * usize::from(self.tiles[axis]) * side)
    }

    /// Threads per workgroup.
    pub fn threads(&self, wave_size: usize) -> usize {
        let waves = usize::from(self.waves[0]) * usize::from(self.waves[1]);
        if self.matrix_size == 0 { waves } else { waves * wave_size }
    }

    /// K per round of loading, in elements.
    pub fn depth(&self, dtype: DType) -> usize {
        let depth = usize::from(self.depth);
        match (self.matrix_size, dtype.size_bytes()) {
            (0, _) => depth,
            (_, 8) => depth.min(16),
            (_, 2) => depth * 2,
            _ => depth,
        }
    }

    /// Elements per access in the vector modes.
    pub fn vector(&self, dtype: DType) -> usize {
        let full = 16 / dtype.size_bytes();
        if self.matrix_size == 0 { full.min(4) } else { full }
    }

    /// Whether a matrix unit whose largest product of the type has this side, 0 for none, has this product. Where 16 is the
    /// largest, a wave may be 32 lanes, and one such wave alone has too few registers to load for a tile.
    pub fn serves(&self, matrix_side: u16) -> bool {
        let alone = matrix_side == 16 && self.waves == [1, 1];
        (self.matrix_size == 0) == (matrix_side == 0) && self.matrix_size <= matrix_side && !alone
    }
}

/// How an operand is read: `GEMM_A_MODE` and `GEMM_B_MODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Vectors along K.
    VectorK = 0,
    /// Vectors along the other axis.
    VectorLine = 1,
    /// Single elements, neighbouring lanes along K.
    SingleK = 2,
    /// Single elements, neighbouring lanes along the other axis.
    SingleLine = 3,
}

/// What the choice needs to know of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Workgroups of one wave that run at the same time.
    pub slots: usize,
    /// Whether the waves of a workgroup share one slot (an emulated device runs a workgroup on one host thread).
    pub waves_share: bool,
}

/// Cost of loading one row or column of a tile, in products of one element pair: an element that is loaded is moved to
/// LDS and read back, which is a few instructions against 1/32 of a matrix instruction. Chosen so that a 128 x 96 tile
/// wins over three 128 x 32 ones and loses to them where two thirds of it would be padding.
const EDGE_COST: usize = 6;

/// The tiling with the least modelled time.
pub(crate) fn choose(matrix_side: u16, size: [usize; 2], batches: usize, machine: Machine) -> Tiling {
    let cost = |tiling: &Tiling| {
        let block = tiling.block();
        let blocks = size[0].div_ceil(block[0]) * size[1].div_ceil(block[1]) * batches;
        let waves = if tiling.matrix_size == 0 { 4 } else { usize::from(tiling.waves[0] * tiling.waves[1]) };
        let work = block[0] * block[1] + EDGE_COST * (block[0] + block[1]);
        if machine.waves_share {
            blocks.div_ceil(machine.slots) * work
        } else {
            (blocks * waves).div_ceil(machine.slots) * (work / waves)
        }
    };
    let eligible = TILINGS.iter().filter(|tiling| tiling.serves(matrix_side));
    *eligible.min_by_key(|tiling| cost(tiling)).expect("every type has a matrix tiling of size 16 and the plain one")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMULATED: Machine = Machine { slots: 4, waves_share: true };
    const MI300X: Machine = Machine { slots: 304 * 4, waves_share: false };

    #[test]
    fn width_of_a_transformer_is_cut_without_padding() {
        let tiling = choose(32, [1024, 288], 1, EMULATED);
        assert_eq!(288 % tiling.block()[1], 0, "{tiling:?}");
    }

    #[test]
    fn large_products_take_large_tiles_on_a_large_device() {
        assert_eq!(choose(32, [8192, 8192], 1, MI300X).block(), [128, 128]);
    }

    #[test]
    fn a_single_row_takes_a_narrow_tile() {
        assert_eq!(choose(32, [1, 4096], 1, EMULATED).block()[0], 16);
    }

    #[test]
    fn a_tiling_has_no_larger_product_than_the_matrix_unit() {
        for (side, expected) in [(0, 0), (16, 16)] {
            assert_eq!(choose(side, [100, 100], 3, MI300X).matrix_size, expected);
        }
    }
}
