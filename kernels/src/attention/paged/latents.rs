//! Where paged attention goes by CDNA's products of keys that all waves share as values (`paged_latents.h`), and how large its LDS is.

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::DType;

use super::tiles::Tiles;

/// Keys of a tile, and those that are found at once; rows of a product.
const KEYS: usize = 32;
const PLACES: usize = 1024;
const SIDE: usize = 16;
/// LDS of a workgroup beside the dynamic one, at most.
const STATIC_LDS: usize = 256;

/// The macros of `paged_latents.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Latents {
    depths: [usize; 2],
    /// Rows of a workgroup: a row has the same bits among 16, 32 and 64.
    pub rows: usize,
    is_coded: bool,
}

impl Latents {
    pub const THREADS: usize = 256;
    /// Rows of a workgroup, each with its share of a wave's registers.
    pub const ROWS: [usize; 3] = [16, 32, 64];

    /// For `rows` rows of a sequence, of `group` heads that share a row of the cache; `None` where there are too few heads, channels are
    /// not those of whole products, and on other architectures.
    pub fn of(
        info: &ArchInfo,
        q: DType,
        group: usize,
        rows: usize,
        depths: [usize; 2],
        is_coded: bool,
    ) -> Option<Latents> {
        let [depth, value_depth] = depths;
        let has_products = matches!(info.matrix, Matrix::Mfma(2..)) && matches!(q, DType::F16 | DType::BF16);
        // Eight lanes read 64 channels of a key at once; each of four waves has two channels of a value for 16 lanes, or more.
        let is_whole = depth.is_multiple_of(64) && value_depth.is_multiple_of(128);
        let fits = depth <= 576 && value_depth <= 512 && group >= Tiles::HEADS_LEAST;
        let most = Latents::ROWS[Latents::ROWS.len() - 1];
        let rows = Latents::ROWS.into_iter().find(|&each| rows <= each).unwrap_or(most);
        let latents = Latents { depths, rows, is_coded };
        let has_room = latents.lds_bytes() <= info.lds_bytes as usize - STATIC_LDS;
        (has_products && is_whole && fits && has_room).then_some(latents)
    }

    /// Dynamic LDS: values, scores of each wave, states, and what is known of each key.
    pub fn lds_bytes(&self) -> usize {
        let rows = KEYS * (self.depths[1] + 8) * size_of::<u16>();
        let results = SIDE * (self.depths[1] + 4) * size_of::<f32>();
        let scores = self.rows / SIDE * Latents::THREADS * 4 * size_of::<f32>();
        let states = self.rows * 2 * size_of::<f32>();
        let scale = if self.is_coded { size_of::<f32>() } else { 0 };
        let of_keys = (PLACES + KEYS) * size_of::<i64>() + PLACES * scale + PLACES / KEYS * size_of::<u32>();
        (rows.max(results).next_multiple_of(128) + scores + states + of_keys).next_multiple_of(128)
    }

    pub fn defines(&self) -> [(&'static str, usize); 4] {
        [
            ("PAGED_DEPTH", self.depths[0]),
            ("PAGED_V_DEPTH", self.depths[1]),
            ("PAGED_PLACES", PLACES),
            ("PAGED_LDS_BYTES", self.lds_bytes()),
        ]
    }
}
