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
    /// Waves; lanes along resident rows for plain multiply-add.
    pub waves: u16,
    /// Matrix products of a wave along the resident rows; values per lane along them for plain multiply-add.
    pub tiles: u16,
    /// Rows that are streamed per stage.
    pub streamed: u16,
    /// How many times as many rows a streamed tile has in LDS, where the forward's copies do not go past the registers.
    pub blocks: u16,
    /// Lanes along the streamed rows, for plain multiply-add.
    pub lanes: u16,
    /// Registers that a resident operand may keep.
    pub resident_words: u16,
    /// Whether resident rows that registers do not keep wait in LDS, where copies do not go past the registers.
    pub resident_lds: bool,
    /// Stages in LDS, where copies go there past the registers; else 0.
    pub stages: u16,
    /// Workgroups that a multiprocessor is to have registers for, where copies go past them; else 0.
    pub groups: u16,
    /// Groups of a resident operand that lanes have in LDS though they keep the others.
    pub laid: u16,
}

/// Static LDS that a kernel may have: CUDA's limit, below every AMD card's.
const LDS_MAX_BYTES: usize = 48 << 10;
/// Padded depths together up to which half of the waves of 32 have registers for what is on the way to LDS.
const HALVED_DEPTHS_MAX: usize = 320;
/// Padded depths together up to which a head is narrow.
const NARROW_DEPTHS_MAX: usize = 128;
/// What a wave of 64 alone has registers for on the way to LDS.
const LONE_WAVE_BYTES: usize = 40 << 10;
/// Registers of a wave of 64 for all resident operands of a gradient: beside its sums these leave an occupancy of two waves.
const RESIDENT_WORDS_MAX: usize = 64;
/// Padded depths together up to which both gradients fit beside all resident operands, and beside all but two groups.
const BOTH_DEPTHS_MAX: usize = 192;
const BOTH_LAID_DEPTHS_MAX: usize = 256;
/// Padded depths of the tile of eight waves, whose threads load a KV tile in whole accesses.
const WIDE_DEPTHS: [usize; 2] = [128; 2];
/// LDS that leaves an occupancy of two workgroups.
const LDS_SHARED_BYTES: usize = 32 << 10;
/// Lanes of a wave of the architectures whose copies go past the registers, and a lane's part of an operand there.
const WAVE_COPYING: usize = 32;
const OPERAND_BYTES: usize = 16;
/// Padding of a row in LDS, bytes.
const PADDING_BYTES: usize = 16;

/// For multiply-add, the largest first: lanes along resident rows, values along them, streamed rows, lanes along those.
const PLAIN: [[u16; 4]; 4] = [[16, 2, 32, 16], [16, 2, 16, 16], [16, 1, 16, 16], [16, 1, 8, 8]];

/// Bytes in LDS of so many rows of each depth.
fn rows_bytes(rows: usize, depths: &[usize], dtype: DType) -> usize {
    depths.iter().map(|depth| rows * (depth * dtype.size_bytes() + PADDING_BYTES)).sum()
}

impl Tile {
    /// The tiles of the forward for `rows` resident rows; `depths`: the padded head sizes of queries and keys, and of values.
    pub fn choose(info: &ArchInfo, matrix: bool, dtype: DType, depths: [usize; 2], rows: usize) -> Tile {
        Tile::of_rows(info, matrix, dtype, depths, rows, 1).with_resident_in_lds(info, dtype, depths, &depths[..1])
    }

    /// The tiles for `rows` resident rows; `depths`: the padded depths of what is streamed through LDS;
    /// `exchanged`: how many tiles of values go through LDS where there is no matrix unit.
    fn of_rows(info: &ArchInfo, matrix: bool, dtype: DType, depths: [usize; 2], rows: usize, exchanged: usize) -> Tile {
        let size = if matrix { side(info, dtype) } else { 0 };
        let fits = |streamed: usize, most| rows_bytes(streamed, &depths, dtype) <= most;
        let wide = depths.iter().sum::<usize>() > NARROW_DEPTHS_MAX;
        let few = rows <= usize::from(size);
        match (size, info.matrix) {
            (32, _) => {
                // A wave of 64 has registers for all that LDS has room for.
                let streamed = [64, 32].into_iter().find(|&streamed| fits(streamed, LDS_SHARED_BYTES)).unwrap_or(32);
                if fits(streamed, LDS_MAX_BYTES) {
                    let waves = if few && fits(streamed, LONE_WAVE_BYTES) { 1 } else { 4 };
                    return Tile {
                        size,
                        waves,
                        tiles: 1,
                        streamed: streamed as u16,
                        lanes: 0,
                        resident_words: 64,
                        ..Tile::SMALLEST
                    };
                }
            }
            (16, Matrix::MmaSync) => {
                let waves = if few { 1 } else { 4 };
                let tiles = if wide || few { 1 } else { 2 };
                let streamed = if depths.iter().sum::<usize>() > 256 { 32 } else { 64 };
                let tile =
                    Tile { size, waves, tiles, streamed, resident_words: 48, stages: 2, groups: 2, ..Tile::SMALLEST };
                let fits = |tile: &Tile| tile.lds_bytes(dtype, depths, &depths) <= info.lds_bytes as usize;
                return [tile, Tile { streamed: 16, ..tile }].into_iter().find(fits).unwrap_or(tile);
            }
            (16, _) => {
                // A wave of 32 holds twice as much per lane: beyond two depths of 64 it reads its resident rows again.
                return if wide {
                    Tile { size, waves: 8, tiles: 1, streamed: 16, lanes: 0, resident_words: 32, ..Tile::SMALLEST }
                } else {
                    // One wave alone moves a tile with a quarter of the lanes: it takes a quarter of the rows. The first WMMA, whose
                    // operands are doubled, has registers for half of the rows that others have.
                    let many = if info.matrix == Matrix::Wmma11 { 32 } else { 64 };
                    let (waves, streamed) = if few { (1, 16) } else { (4, many) };
                    Tile { size, waves, tiles: 1, streamed, lanes: 0, resident_words: 64, ..Tile::SMALLEST }
                };
            }
            (_, _) => {}
        }
        let sum_bytes = dtype.size_bytes().max(4);
        let room = |&&[waves, tiles, streamed, _]: &&[u16; 4]| {
            let exchange = usize::from(waves * tiles) * (usize::from(streamed) + 1) * sum_bytes * exchanged;
            rows_bytes(streamed.into(), &depths, dtype) + exchange <= LDS_MAX_BYTES
        };
        let [waves, tiles, streamed, lanes] = *PLAIN.iter().find(room).expect("eight rows of 256 f64 fit");
        Tile { size: 0, waves, tiles, streamed, lanes, ..Tile::SMALLEST }
    }

    /// The smallest, for kernels that only need some.
    pub const SMALLEST: Tile = Tile {
        size: 0,
        waves: 16,
        tiles: 1,
        streamed: 16,
        blocks: 1,
        lanes: 16,
        resident_words: 0,
        resident_lds: false,
        stages: 0,
        groups: 0,
        laid: 0,
    };

    /// The tiles of a gradient: it keeps two resident operands, and two tiles of values.
    pub fn choose_backward(info: &ArchInfo, matrix: bool, dtype: DType, depths: [usize; 2], rows: usize) -> Tile {
        let tile = Tile::of_rows(info, matrix, dtype, depths, rows, 2);
        let narrow = depths.iter().sum::<usize>() <= NARROW_DEPTHS_MAX;
        match tile.size {
            0 => Tile { tiles: 1, ..tile },
            16 if tile.stages > 0 => {
                let resident_words = if narrow { tile.resident_words } else { 0 };
                let tile = Tile { streamed: tile.streamed.min(32), resident_words, ..tile };
                let fits = tile.lds_bytes(dtype, depths, &depths) <= info.lds_bytes as usize;
                if fits { tile } else { Tile { streamed: 16, ..tile } }
            }
            16 => {
                let tile = Tile { tiles: 1, streamed: tile.streamed.min(32), resident_words: 0, ..tile };
                tile.with_resident_in_lds(info, dtype, depths, &depths)
            }
            _ => {
                let words: usize = depths.iter().map(|&depth| tile.operand_words(info, dtype, depth)).sum();
                let resident_words = if words <= RESIDENT_WORDS_MAX { RESIDENT_WORDS_MAX as u16 } else { 0 };
                // Sums read 16-bit types beside their rows, brought into the order of their operands.
                let summed = |streamed: u16| usize::from(streamed) * depths.iter().sum::<usize>() * dtype.size_bytes();
                let bytes = |streamed: u16| rows_bytes(streamed.into(), &depths, dtype) + summed(streamed);
                let halved = dtype.size_bytes() == 2 && tile.streamed == 64 && bytes(64) > LDS_SHARED_BYTES;
                Tile { resident_words, streamed: if halved { 32 } else { tile.streamed }, ..tile }
            }
        }
    }

    /// The same for both gradients of keys and values beside resident operands, if waves of 64 lanes have registers for them at
    /// an occupancy of two. Of the widest heads these are eight, which share what is streamed, and lay a group of each operand
    /// aside.
    pub fn for_both(self, info: &ArchInfo, dtype: DType, depths: [usize; 2]) -> Option<Tile> {
        let unified = matches!(info.matrix, Matrix::Mfma(generation) if generation >= 2);
        let plain = unified && dtype.size_bytes() == 2 && self.size == 32 && self.waves == 4 && self.resident_words > 0;
        match depths.iter().sum::<usize>() {
            ..=BOTH_DEPTHS_MAX if plain => Some(self),
            ..=BOTH_LAID_DEPTHS_MAX if plain => Some(Tile { waves: 8, laid: 1, ..self }),
            _ => None,
        }
    }

    /// The same by eight waves, which share a KV tile of two blocks: each of them loads half as much for a block, and waits once for its
    /// operands. Waves of 64 lanes have registers for these at an occupancy of two. Blocks are the tiles of fewer waves, so that a row
    /// has the same bits.
    pub fn wide(self, info: &ArchInfo, dtype: DType, depths: [usize; 2]) -> Option<Tile> {
        let unified = matches!(info.matrix, Matrix::Mfma(generation) if generation >= 2);
        let serves =
            unified && dtype.size_bytes() == 2 && depths == WIDE_DEPTHS && [self.waves, self.streamed] == [4, 32];
        serves.then_some(Tile { waves: 8, blocks: 2, ..self })
    }

    /// Registers of a lane for a resident operand of so many elements a row. WMMA of gfx11 has it in both halves of a wave.
    fn operand_words(self, info: &ArchInfo, dtype: DType, depth: usize) -> usize {
        let held = if info.matrix == Matrix::Wmma11 { 2 } else { 1 };
        depth * dtype.size_bytes() / 4 * usize::from(self.size) / info.wave_size as usize * held
    }

    /// The same with resident rows of these depths in LDS where registers do not keep them, by fewer waves if they fit so only.
    fn with_resident_in_lds(self, info: &ArchInfo, dtype: DType, depths: [usize; 2], resident: &[usize]) -> Tile {
        if self.size != 16 || self.stages > 0 {
            return self;
        }
        let waits = |depth: &&usize| self.operand_words(info, dtype, **depth) > self.resident_words.into();
        let row_bytes: usize = resident.iter().filter(waits).map(|depth| depth * dtype.size_bytes()).sum();
        let streamed_bytes = rows_bytes(self.streamed.into(), &depths, dtype);
        let fits = |tile: &Tile| tile.waves > 0 && tile.resident_rows() * row_bytes + streamed_bytes <= LDS_MAX_BYTES;
        // Fewer waves hold more of the streamed rows on their way.
        let halves = if depths.iter().sum::<usize>() <= HALVED_DEPTHS_MAX { 2 } else { 1 };
        let fewer = Tile { waves: self.waves / halves, ..self };
        let fitting = [self, fewer].into_iter().find(fits).filter(|_| row_bytes > 0);
        fitting.map_or(self, |tile| Tile { resident_lds: true, ..tile })
    }

    /// The same for the gradients of keys and values, whose sums leave no registers for operands, nor waves of 32 lanes for more rows on
    /// their way than a product has.
    pub fn for_keys(self) -> Tile {
        match self.size {
            _ if self.stages > 0 => Tile { resident_words: 0, ..self },
            16 => Tile { streamed: 16, ..self },
            _ => self,
        }
    }

    /// The same where scores are not plain products: what is done to them wants registers.
    pub fn general(self) -> Tile {
        if self.stages > 0 { Tile { tiles: 1, resident_words: 0, ..self } } else { self }
    }

    /// Dynamic LDS of a workgroup that streams rows of `depths` past resident rows of `resident` depths.
    pub fn lds_bytes(self, dtype: DType, depths: [usize; 2], resident: &[usize]) -> usize {
        if self.stages == 0 {
            return 0;
        }
        let lanes = usize::from(self.waves) * WAVE_COPYING;
        let operands = |depth: usize| usize::from(self.tiles) * depth / usize::from(self.size);
        let held = |&depth: &usize| {
            let (count, kept) = (operands(depth), operands(depth) * OPERAND_BYTES / 4 <= self.resident_words.into());
            if kept { 0 } else { count * lanes * OPERAND_BYTES }
        };
        usize::from(self.stages) * rows_bytes(self.streamed.into(), &depths, dtype)
            + resident.iter().map(held).sum::<usize>()
    }

    /// Resident rows of a workgroup.
    pub fn resident_rows(self) -> usize {
        usize::from(self.waves) * usize::from(self.tiles) * usize::from(self.size.max(1))
    }

    /// Threads of a workgroup.
    pub fn threads(self, wave_size: usize) -> usize {
        usize::from(self.waves) * if self.size == 0 { usize::from(self.lanes) } else { wave_size }
    }

    /// The macros.
    pub fn defines(self) -> [(&'static str, u16); 11] {
        [
            ("ATTENTION_SIZE", self.size),
            ("ATTENTION_WAVES", self.waves),
            ("ATTENTION_TILES", self.tiles),
            ("ATTENTION_STREAMED", self.streamed),
            ("ATTENTION_BLOCKS", self.blocks),
            ("ATTENTION_LANES", self.lanes),
            ("ATTENTION_RESIDENT_WORDS", self.resident_words),
            ("ATTENTION_RESIDENT_LDS", self.resident_lds.into()),
            ("ATTENTION_STAGES", self.stages),
            ("ATTENTION_GROUPS", self.groups),
            ("ATTENTION_LAID", self.laid),
        ]
    }
}

/// Whether the forward has the general variant (`ATTENTION_EXTRA`) alone for these padded head sizes. The loop of the plain one is a
/// single block of instructions, in which the compiler reads so far ahead that for large heads a wave of the first WMMA, whose operands
/// are doubled, has no registers left; the general one's branches stop it.
pub(crate) fn general_only(info: &ArchInfo, tile: Tile, depths: [usize; 2]) -> bool {
    tile.size > 0 && info.matrix == Matrix::Wmma11 && depths.iter().sum::<usize>() > NARROW_DEPTHS_MAX
}

/// Whether tiles of a type have stages in LDS, where copies go past the registers: `ATTENTION_STAGES`.
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
