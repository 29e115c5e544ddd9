//! Which tiles a workgroup of attention works on.
//!
//! The choice is by architecture, types and shape, never by the number of compute units: it decides the order of sums.

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::DType;

/// Tiles of one workgroup: the macros of `tile.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Side of a product of the matrix unit; 0 for plain multiply-add.
    pub size: u16,
    /// Waves; lanes along own rows for plain multiply-add.
    pub waves: u16,
    /// Own tiles per wave; values per lane along own rows for plain multiply-add.
    pub tiles: u16,
    /// Rows of the others per round.
    pub other: u16,
    /// Lanes along the others, for plain multiply-add.
    pub lanes: u16,
    /// Registers that an own operand may keep.
    pub own_words: u16,
    /// Whether own rows that registers do not keep wait in LDS, where copies do not go past the registers.
    pub own_lds: bool,
    /// Rounds of the others in LDS, where copies go there past the registers; else 0.
    pub stages: u16,
    /// Workgroups that a multiprocessor is to have registers for, where copies go past them; else 0.
    pub groups: u16,
}

/// Static LDS that a kernel may have: CUDA's limit, below every AMD card's.
const LDS_MAX_BYTES: usize = 48 << 10;
/// Padded depths together up to which half of the waves of 32 have registers for what is on the way to LDS.
const HALVED_DEPTHS_MAX: usize = 320;
/// What a wave of 64 alone has registers for on the way to LDS.
const LONE_WAVE_BYTES: usize = 40 << 10;
/// Registers of a wave of 64 for all own operands of a gradient: beside its sums these leave room for two waves on a SIMD.
const OWN_WORDS_MAX: usize = 64;
/// LDS that leaves room for two workgroups on a compute unit.
const LDS_SHARED_BYTES: usize = 32 << 10;
/// Lanes of a wave of the architectures whose copies go past the registers, and a lane's part of an operand there.
const WAVE_COPYING: usize = 32;
const OPERAND_BYTES: usize = 16;
/// Padding of a row in LDS, bytes.
const PADDING_BYTES: usize = 16;

/// For multiply-add, the largest first: lanes along own rows, values along them, others, lanes along the others.
const PLAIN: [[u16; 4]; 4] = [[16, 2, 32, 16], [16, 2, 16, 16], [16, 1, 16, 16], [16, 1, 8, 8]];

/// Bytes in LDS of `other` rows of each depth.
fn rows_bytes(other: usize, depths: &[usize], dtype: DType) -> usize {
    depths.iter().map(|depth| other * (depth * dtype.size_bytes() + PADDING_BYTES)).sum()
}

impl Tile {
    /// The tiles of the forward for `rows` own rows; `depths`: the padded head sizes of queries and keys, and of values.
    pub fn choose(info: &ArchInfo, matrix: bool, dtype: DType, depths: [usize; 2], rows: usize) -> Tile {
        Tile::of_rows(info, matrix, dtype, depths, rows, 1).with_own_in_lds(info, dtype, depths, &depths[..1])
    }

    /// The tiles for `rows` own rows; `streamed`: the padded depths of what goes through LDS, per row of the others;
    /// `exchanged`: how many tiles of values go through LDS where there is no matrix unit.
    fn of_rows(
        info: &ArchInfo,
        matrix: bool,
        dtype: DType,
        streamed: [usize; 2],
        rows: usize,
        exchanged: usize,
    ) -> Tile {
        let size = if matrix { side(info, dtype) } else { 0 };
        let fits = |other: usize, most| rows_bytes(other, &streamed, dtype) <= most;
        let wide = streamed.iter().sum::<usize>() > 128;
        let few = rows <= usize::from(size);
        match (size, info.matrix) {
            (32, _) => {
                // A wave of 64 has registers for all that LDS has room for.
                let other = [64, 32].into_iter().find(|&other| fits(other, LDS_SHARED_BYTES)).unwrap_or(32);
                if fits(other, LDS_MAX_BYTES) {
                    let waves = if few && fits(other, LONE_WAVE_BYTES) { 1 } else { 4 };
                    return Tile {
                        size,
                        waves,
                        tiles: 1,
                        other: other as u16,
                        lanes: 0,
                        own_words: 64,
                        ..Tile::SMALLEST
                    };
                }
            }
            (16, Matrix::MmaSync) => {
                let waves = if few { 1 } else { 4 };
                let tiles = if wide || few { 1 } else { 2 };
                let other = if streamed.iter().sum::<usize>() > 256 { 32 } else { 64 };
                let tile = Tile { size, waves, tiles, other, own_words: 48, stages: 2, groups: 2, ..Tile::SMALLEST };
                let fits = |tile: &Tile| tile.lds_bytes(dtype, streamed, &streamed) <= info.lds_bytes as usize;
                return [tile, Tile { other: 16, ..tile }].into_iter().find(fits).unwrap_or(tile);
            }
            (16, _) => {
                // A wave of 32 holds twice as much per lane: beyond two depths of 64 it reads its own rows again.
                return if wide {
                    Tile { size, waves: 8, tiles: 1, other: 16, lanes: 0, own_words: 32, ..Tile::SMALLEST }
                } else {
                    // One wave alone moves a tile with a quarter of the lanes: it takes a quarter of the rows.
                    let (waves, other) = if few { (1, 16) } else { (4, 64) };
                    Tile { size, waves, tiles: 1, other, lanes: 0, own_words: 64, ..Tile::SMALLEST }
                };
            }
            (_, _) => {}
        }
        let sum_bytes = dtype.size_bytes().max(4);
        let room = |&&[waves, tiles, other, _]: &&[u16; 4]| {
            let exchange = usize::from(waves * tiles) * (usize::from(other) + 1) * sum_bytes * exchanged;
            rows_bytes(other.into(), &streamed, dtype) + exchange <= LDS_MAX_BYTES
        };
        let [waves, tiles, other, lanes] = *PLAIN.iter().find(room).expect("eight rows of 256 f64 fit");
        Tile { size: 0, waves, tiles, other, lanes, ..Tile::SMALLEST }
    }

    /// The smallest, for kernels that only need some.
    pub const SMALLEST: Tile =
        Tile { size: 0, waves: 16, tiles: 1, other: 16, lanes: 16, own_words: 0, own_lds: false, stages: 0, groups: 0 };

    /// The tiles of a gradient: it keeps two own operands, and two tiles of values.
    pub fn choose_backward(info: &ArchInfo, matrix: bool, dtype: DType, streamed: [usize; 2], rows: usize) -> Tile {
        let tile = Tile::of_rows(info, matrix, dtype, streamed, rows, 2);
        let narrow = streamed.iter().sum::<usize>() <= 128;
        match tile.size {
            0 => Tile { tiles: 1, ..tile },
            16 if tile.stages > 0 => {
                let own_words = if narrow { tile.own_words } else { 0 };
                let tile = Tile { other: tile.other.min(32), own_words, ..tile };
                let fits = tile.lds_bytes(dtype, streamed, &streamed) <= info.lds_bytes as usize;
                if fits { tile } else { Tile { other: 16, ..tile } }
            }
            16 => {
                let tile = Tile { tiles: 1, other: tile.other.min(32), own_words: 0, ..tile };
                tile.with_own_in_lds(info, dtype, streamed, &streamed)
            }
            _ => {
                let words: usize = streamed.iter().map(|&depth| tile.operand_words(info, dtype, depth)).sum();
                Tile { own_words: if words <= OWN_WORDS_MAX { OWN_WORDS_MAX as u16 } else { 0 }, ..tile }
            }
        }
    }

    /// Registers of a lane for an own operand of so many elements a row. WMMA of gfx11 has it in both halves of a wave.
    fn operand_words(self, info: &ArchInfo, dtype: DType, depth: usize) -> usize {
        let held = if info.matrix == Matrix::Wmma11 { 2 } else { 1 };
        depth * dtype.size_bytes() / 4 * usize::from(self.size) / info.wave_size as usize * held
    }

    /// The same with own rows of these depths in LDS where registers do not keep them, by fewer waves if they fit so only.
    fn with_own_in_lds(self, info: &ArchInfo, dtype: DType, streamed: [usize; 2], own: &[usize]) -> Tile {
        if self.size != 16 || self.stages > 0 {
            return self;
        }
        let waits = |depth: &&usize| self.operand_words(info, dtype, **depth) > self.own_words.into();
        let row_bytes: usize = own.iter().filter(waits).map(|depth| depth * dtype.size_bytes()).sum();
        let streamed_bytes = rows_bytes(self.other.into(), &streamed, dtype);
        let fits = |tile: &Tile| tile.waves > 0 && tile.own() * row_bytes + streamed_bytes <= LDS_MAX_BYTES;
        // Fewer waves hold more of the others on their way.
        let halves = if streamed.iter().sum::<usize>() <= HALVED_DEPTHS_MAX { 2 } else { 1 };
        let fewer = Tile { waves: self.waves / halves, ..self };
        let fitting = [self, fewer].into_iter().find(fits).filter(|_| row_bytes > 0);
        fitting.map_or(self, |tile| Tile { own_lds: true, ..tile })
    }

    /// The same for the gradients of keys and values, whose sums leave no registers for operands.
    pub fn for_keys(self) -> Tile {
        if self.stages > 0 { Tile { own_words: 0, ..self } } else { self }
    }

    /// The same where scores are not plain products: what is done to them wants registers.
    pub fn general(self) -> Tile {
        if self.stages > 0 { Tile { tiles: 1, own_words: 0, ..self } } else { self }
    }

    /// Dynamic LDS of a workgroup that streams rows of these depths past own rows of `own` depths.
    pub fn lds_bytes(self, dtype: DType, streamed: [usize; 2], own: &[usize]) -> usize {
        if self.stages == 0 {
            return 0;
        }
        let lanes = usize::from(self.waves) * WAVE_COPYING;
        let operands = |depth: usize| usize::from(self.tiles) * depth / usize::from(self.size);
        let held = |&depth: &usize| {
            let (count, kept) = (operands(depth), operands(depth) * OPERAND_BYTES / 4 <= self.own_words.into());
            if kept { 0 } else { count * lanes * OPERAND_BYTES }
        };
        usize::from(self.stages) * rows_bytes(self.other.into(), &streamed, dtype) + own.iter().map(held).sum::<usize>()
    }

    /// Own rows of a workgroup.
    pub fn own(self) -> usize {
        usize::from(self.waves) * usize::from(self.tiles) * usize::from(self.size.max(1))
    }

    /// Threads of a workgroup.
    pub fn threads(self, wave_size: usize) -> usize {
        usize::from(self.waves) * if self.size == 0 { usize::from(self.lanes) } else { wave_size }
    }

    /// The macros.
    pub fn defines(self) -> [(&'static str, u16); 9] {
        [
            ("ATTENTION_SIZE", self.size),
            ("ATTENTION_WAVES", self.waves),
            ("ATTENTION_TILES", self.tiles),
            ("ATTENTION_OTHER", self.other),
            ("ATTENTION_LANES", self.lanes),
            ("ATTENTION_OWN_WORDS", self.own_words),
            ("ATTENTION_OWN_LDS", self.own_lds.into()),
            ("ATTENTION_STAGES", self.stages),
            ("ATTENTION_GROUPS", self.groups),
        ]
    }
}

/// Whether the general variant (`ATTENTION_EXTRA`) is the only one. The loop of the plain one is a single block of
/// instructions, in which the compiler reads so far ahead that a wave of the first WMMA, whose operands are doubled, has no
/// registers left; the general one's branches stop it.
pub(crate) fn general_only(info: &ArchInfo, tile: Tile) -> bool {
    tile.size > 0 && info.matrix == Matrix::Wmma11
}

/// Whether tiles of a type have rounds in LDS, where copies go past the registers: `ATTENTION_STAGES`.
pub(super) fn copies(info: &ArchInfo, matrix: bool, dtype: DType) -> bool {
    matrix && info.matrix == Matrix::MmaSync && side(info, dtype) > 0
}

/// Side of the products that `chain.h` has for a type.
pub(super) fn side(info: &ArchInfo, dtype: DType) -> u16 {
    match (info.matrix, dtype) {
        (Matrix::Mfma(_), DType::F32 | DType::F16 | DType::BF16) => 32,
        (Matrix::Wmma11 | Matrix::Wmma12 | Matrix::MmaSync, DType::F16 | DType::BF16) => 16,
        _ => 0,
    }
}
