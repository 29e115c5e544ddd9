//! Where paged attention goes by tiles of keys in LDS (`paged_tiles.h`), and how large they are.

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::DType;

/// Keys of a tile.
const KEYS: usize = 32;
/// LDS of a workgroup beside the dynamic one, at most.
const STATIC_LDS: usize = 256;

/// The macros of `paged_tiles.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tiles {
    pub depths: [usize; 2],
    /// Rows of a workgroup. One number for an architecture, so that a row's bits do not depend on how many there are.
    pub rows: usize,
    /// Rows of a product.
    side: usize,
    /// Lanes of a wave.
    wave: usize,
    /// Tiles in LDS: several where copies go past the registers.
    stages: usize,
    /// Whether Q is in LDS.
    has_q: bool,
    /// How often a weight is in LDS: twice where both halves of a wave want it.
    weights: usize,
}

impl Tiles {
    pub const THREADS: usize = 256;
    /// Heads that share a row of the cache, at least: fewer are read by lanes as often as they share.
    pub const HEADS_LEAST: usize = 8;

    /// For `group` heads that share a row of the cache, `None` where there are too few, or channels are not those of whole products.
    pub fn of(info: &ArchInfo, q: DType, is_coded: bool, group: usize, depths: [usize; 2]) -> Option<Tiles> {
        // Sums are in registers, on AMD's cards Q too: there LDS has room for a tile beside the scores of `rows`.
        let (side, rows) = match info.matrix {
            Matrix::MmaSync => (16, 64),
            Matrix::Wmma11 | Matrix::Wmma12 => (16, 32),
            Matrix::None | Matrix::Mfma(_) | Matrix::Wmma125 => return None,
        };
        let is_nvidia = info.matrix == Matrix::MmaSync;
        let weights = if info.matrix == Matrix::Wmma11 { 2 } else { 1 };
        let with =
            |stages| Tiles { depths, rows, side, wave: info.wave_size as usize, stages, has_q: is_nvidia, weights };
        // Codes go through registers, where they are decoded.
        let most = if is_nvidia && !is_coded { 3 } else { 1 };
        let room = info.lds_bytes as usize - STATIC_LDS;
        let tiles = (1..=most).rev().map(with).find(|tiles| tiles.lds_bytes() <= room)?;
        let [depth, value_depth] = depths;
        // Threads of a key take 64 channels at once.
        let is_whole = depth.is_multiple_of(64) && value_depth.is_multiple_of(tiles.waves() * side);
        let fits = depth <= 576 && value_depth <= 512;
        let is_16_bit = matches!(q, DType::F16 | DType::BF16);
        (is_16_bit && group >= Tiles::HEADS_LEAST && is_whole && fits).then_some(tiles)
    }

    fn waves(&self) -> usize {
        Tiles::THREADS / self.wave
    }

    /// Dynamic LDS: tiles, Q, parts of scores, weights, states, and what is known of each key.
    pub fn lds_bytes(&self) -> usize {
        let parts = self.waves() / (self.rows / self.side);
        let keys_and_rows = self.stages * KEYS + if self.has_q { self.rows } else { 0 };
        let tiles = keys_and_rows * (self.depths[0] + 8) * size_of::<u16>();
        let scores = self.rows * KEYS * (parts * size_of::<f32>() + self.weights * size_of::<u16>());
        let states = self.rows * 3 * size_of::<f32>();
        let keys = self.stages * KEYS * 2 * size_of::<f32>();
        (tiles + scores + states + keys).next_multiple_of(128)
    }

    pub fn defines(&self) -> [(&'static str, usize); 5] {
        [
            ("PAGED_DEPTH", self.depths[0]),
            ("PAGED_V_DEPTH", self.depths[1]),
            ("PAGED_SIDE", self.side),
            ("PAGED_STAGES", self.stages),
            ("PAGED_LDS_BYTES", self.lds_bytes()),
        ]
    }
}
