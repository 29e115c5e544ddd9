//! Which tiles a convolution may be cut into, and how they get to LDS.

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::DType;

use super::geometry::AXES;
use crate::gemm::Staging;

/// Tiles of one workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tiling {
    /// Side of one product of the matrix unit; 0 for plain multiply-add.
    pub matrix_size: u16,
    /// Waves along channels and places; lanes for plain multiply-add.
    pub waves: [u16; 2],
    /// Products per wave, values per lane for plain multiply-add.
    pub tiles: [u16; 2],
}

const fn tiling(matrix_size: u16, waves: [u16; 2], tiles: [u16; 2]) -> Tiling {
    Tiling { matrix_size, waves, tiles }
}

/// What there is to choose from: square tiles, a flat one for 64 channels, for few channels rows of one product, and for NVIDIA's
/// cards one of eight waves, which reads least for each product.
pub(crate) const TILINGS: &[Tiling] = &[
    tiling(32, [2, 2], [2, 2]),
    tiling(32, [2, 2], [1, 1]),
    tiling(32, [1, 2], [1, 1]),
    tiling(16, [2, 2], [4, 4]),
    tiling(16, [2, 4], [4, 4]),
    tiling(16, [1, 4], [4, 2]),
    tiling(16, [2, 2], [2, 2]),
    tiling(16, [2, 2], [1, 1]),
    tiling(16, [1, 4], [1, 2]),
    tiling(0, [16, 16], [4, 4]),
    tiling(0, [4, 64], [4, 2]),
];

impl Tiling {
    /// Rows and columns per workgroup.
    pub fn block(&self) -> [usize; 2] {
        let side = usize::from(self.matrix_size.max(1));
        [0, 1].map(|axis| usize::from(self.waves[axis]) * usize::from(self.tiles[axis]) * side)
    }

    /// Threads per workgroup.
    pub fn threads(&self, wave_size: usize) -> usize {
        let waves = usize::from(self.waves[0]) * usize::from(self.waves[1]);
        if self.matrix_size == 0 { waves } else { waves * wave_size }
    }

    /// With rows for columns.
    pub fn turned(self) -> Tiling {
        let [a, b] = self.waves;
        let [c, d] = self.tiles;
        Tiling { waves: [b, a], tiles: [d, c], ..self }
    }

    /// Whether a wave has 64 x 64 values.
    fn is_wide(&self) -> bool {
        self.matrix_size == 16 && self.tiles == [4, 4]
    }

    /// Whether it is one of eight waves.
    fn is_large(&self) -> bool {
        self.is_wide() && self.waves != [2, 2]
    }

    /// Whether it is used where taps are whole rounds of loading, if it `may`. Copies go past the registers then, and operands are
    /// read ahead of their products. With 64 x 64 values a wave that leaves too few registers for the addresses that each of four
    /// waves has, and without it eight waves are slower than four: 0.143 ms with eight and 0.178 with four, without it 0.190 and 0.168,
    /// for 56 x 56 places of 32 images and 128 to 256 channels on an H200.
    pub fn takes_whole(&self, may: bool) -> bool {
        if self.is_wide() { self.is_large() } else { may }
    }

    /// Workgroups that a compute unit of a card holds.
    pub fn resident(&self) -> usize {
        if self.is_large() { 1 } else { GROUPS_PER_UNIT }
    }

    /// Whether an architecture has what this tiling needs for a type.
    pub fn serves(&self, info: &ArchInfo, dtype: DType, matrix: bool) -> bool {
        let side = if matrix { matrix_side(info, dtype) } else { 0 };
        // 64 x 64 values of a wave of 32 lanes are 128 registers of each, which only NVIDIA's fragments leave room for; where
        // there are larger products they serve better.
        (self.matrix_size == 0) == (side == 0)
            && self.matrix_size <= side
            && (!self.is_wide() || info.matrix == Matrix::MmaSync)
    }
}

/// Side of the largest product of this type that the architecture's matrix unit has; 0 where it has none.
fn matrix_side(info: &ArchInfo, dtype: DType) -> u16 {
    crate::gemm::matrix_side(info, dtype)
}

/// Occupancy: workgroups of four waves that a compute unit holds at once.
const GROUPS_PER_UNIT: usize = 2;
/// Bytes of a line in a round of the main loop.
const ROUND_BYTES: usize = 64;
/// Most stages where copies go past the registers.
const COPY_STAGES: usize = 4;
/// The kernel has a bit for every tap of each axis where taps are whole rounds.
const TAP_BITS: usize = 32;

/// How the tiles of operands that both lie in vectors get to LDS; `None` without a matrix unit.
pub(crate) fn staging(info: &ArchInfo, tiling: &Tiling) -> Option<Staging> {
    if tiling.matrix_size == 0 {
        return None;
    }
    if info.matrix != Matrix::MmaSync {
        return Some(Staging { stages: 2, copies: false, lds_bytes: 0 });
    }
    let round = tiling.block().iter().sum::<usize>() * ROUND_BYTES;
    let stages = (info.lds_bytes as usize / round).clamp(2, COPY_STAGES);
    Some(Staging { stages: stages as u16, copies: true, lds_bytes: (stages * round) as u32 })
}

/// Whether so many channels of a tap are whole rounds of loading, and the taps so few that the kernel tells them apart by bits.
pub(super) fn are_rounds(dtype: DType, channels: usize, taps: [usize; AXES]) -> bool {
    (channels * dtype.size_bytes()).is_multiple_of(ROUND_BYTES) && taps.iter().sum::<usize>() <= TAP_BITS
}
