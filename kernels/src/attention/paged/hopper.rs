//! Where paged attention goes by tiles of keys and Hopper's own products (`paged_hopper.h`).

use rocfire_arch::{ArchInfo, Family};
use rocfire_hal::DType;

use super::tiles::Tiles;

/// Keys of a tile, and tiles in LDS.
const KEYS: usize = 64;
const STAGES: usize = 2;
/// `Shared` of `paged.h`.
const SHARED_BYTES: usize = 48;
/// Channels of a value: each of two groups of four waves has half of them, which are the columns of one product.
const VALUE_DEPTH: usize = 512;
/// Channels of a key: no others are more than a value's and leave LDS room beside Q.
const DEPTH: usize = 576;

/// The macros of `paged_hopper.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hopper {
    depth: usize,
}

impl Hopper {
    pub const ROWS: usize = 64;
    pub const THREADS: usize = 256;

    /// For `group` heads that share a row of the cache; `None` where there are too few, codes or other channels, and on other
    /// architectures.
    pub fn of(
        info: &ArchInfo,
        q: DType,
        is_coded: bool,
        group: usize,
        [depth, value_depth]: [usize; 2],
    ) -> Option<Hopper> {
        let is_16_bit = matches!(q, DType::F16 | DType::BF16);
        let fits = depth == DEPTH && value_depth == VALUE_DEPTH && group >= Tiles::HEADS_LEAST;
        (info.family == Family::Hopper && is_16_bit && !is_coded && fits).then_some(Hopper { depth })
    }

    /// Dynamic LDS: Q and tiles, weights, states, what is known of each key, and what is shared in every way.
    pub fn lds_bytes(&self) -> usize {
        let tiles = (Hopper::ROWS + STAGES * KEYS) * self.depth * size_of::<u16>();
        let weights = Hopper::ROWS * KEYS * size_of::<u16>();
        let states = Hopper::ROWS * 3 * size_of::<f32>();
        tiles + weights + states + STAGES * KEYS * size_of::<i32>() + SHARED_BYTES
    }

    pub fn defines(&self) -> [(&'static str, usize); 3] {
        [("PAGED_DEPTH", self.depth), ("PAGED_V_DEPTH", VALUE_DEPTH), ("PAGED_LDS_BYTES", self.lds_bytes())]
    }
}
