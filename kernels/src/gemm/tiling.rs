//! The tiles that a product can be cut into, and in which ways its operands are read. `choice.rs` chooses among them, which
//! changes no bit of the result.

use rocfire_arch::{ArchInfo, Matrix, Vendor};
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
    /// K per round of loading, in units of 64 bytes; of 16 elements for plain multiply-add.
    pub slabs: u16,
}

const fn plain(lanes: u16, values: u16, slabs: u16) -> Tiling {
    Tiling { matrix_size: 0, waves: [lanes; 2], tiles: [values; 2], slabs }
}

/// A plain tile by so many lanes along M and N, with so many values each.
const fn deep(waves: [u16; 2], tiles: [u16; 2]) -> Tiling {
    Tiling { matrix_size: 0, waves, tiles, slabs: 2 }
}

const fn matrix(matrix_size: u16, waves: [u16; 2], tiles: [u16; 2], slabs: u16) -> Tiling {
    Tiling { matrix_size, waves, tiles, slabs }
}

/// The plain tile of most products for what it reads of LDS, and that cuts the widths of transformers without a rest.
pub(crate) const OBLONG: Tiling = Tiling { matrix_size: 0, waves: [16; 2], tiles: [4, 6], slabs: 2 };

/// What there is to choose from. The 96 columns are for the widths of transformers (96, 288, 384, 768), which are whole
/// multiples of it; the narrow ones for products with few rows or columns. Two rounds of the large ones fit twice into the
/// LDS of a compute unit. Without a matrix unit, the small ones are for products that the large one cuts into too few workgroups to
/// fill a card; they wait for memory most of the time, so a round of theirs is long. The deep ones read less of LDS for each product,
/// and have registers for it where copies to LDS go past them.
pub(crate) const TILINGS: &[Tiling] = &[
    matrix(32, [2, 2], [2, 2], 1),
    matrix(32, [4, 1], [1, 3], 1),
    matrix(32, [2, 2], [1, 1], 2),
    matrix(32, [1, 1], [1, 1], 1),
    matrix(16, [2, 2], [4, 4], 1),
    matrix(16, [2, 2], [4, 2], 1),
    matrix(16, [2, 2], [2, 2], 1),
    matrix(16, [1, 1], [1, 4], 1),
    matrix(16, [1, 1], [4, 1], 1),
    matrix(16, [1, 1], [1, 4], 2),
    matrix(16, [1, 1], [4, 1], 2),
    plain(16, 4, 1),
    plain(8, 4, 2),
    plain(8, 2, 4),
    OBLONG,
    deep([8, 16], [8, 6]),
    deep([16, 16], [8, 12]),
];

/// What an architecture has to multiply a type with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Side of the largest product of the matrix unit; 0 where it has none of the type.
    pub side: u16,
    /// Lanes of a wave.
    wave: u16,
    /// Registers that a lane has for sums.
    sums: u16,
    /// Whether copies to LDS go past the registers, which also keeps the sums of earlier chunks in LDS.
    copies: bool,
    /// Whether fragment loads turn an operand that lies across K.
    turns: bool,
    /// The same for plain multiply-add, of operands that both lie along K.
    plain_copies: bool,
    /// Registers of an element; a bf16 is widened into one of its own.
    words: usize,
    /// LDS of a workgroup, bytes.
    lds_bytes: u32,
    /// Whether the dispatch takes the oblong tile by itself: on NVIDIA's cards, where it was measured. For AMD's the compiler gives
    /// it all 256 registers of a lane, which leaves few waves to wait for memory; there it is for `rocfire tune`.
    pub oblong: bool,
    /// Products of one pair of elements that a compute unit adds up per clock, and what LDS reads or writes in that time.
    pub rate: Rate,
}

/// Whether our kernels can let the matrix unit round factors of f32 to TF32 (AMD's XF32): CDNA 3's alone.
pub(crate) fn has_tf32(info: &ArchInfo) -> bool {
    info.matrix == Matrix::Mfma(3)
}

/// What a compute unit does in a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Products of one pair of elements.
    pub pairs: u32,
    /// Bytes that LDS reads or writes.
    pub lds_bytes: u32,
}

impl Rate {
    /// Source: the vendors' data sheets and ISA documents, peak rates per clock and compute unit.
    fn of(matrix: Matrix, dtype: DType) -> Rate {
        let halves = match matrix {
            Matrix::None => return Rate::VECTOR,
            Matrix::Mfma(1 | 2) => 512,
            Matrix::Mfma(3) => 1024,
            Matrix::Mfma(_) => 2048,
            Matrix::Wmma11 => 256,
            Matrix::Wmma12 | Matrix::Wmma125 => 512,
            Matrix::MmaSync => 1024,
        };
        let pairs = match (dtype, matrix) {
            (DType::I8, Matrix::Mfma(3..) | Matrix::Wmma12 | Matrix::MmaSync) => halves * 2,
            (DType::F32 | DType::F64, _) => 128,
            _ => halves,
        };
        // LDS of CDNA 4 reads twice as much as all others.
        Rate { pairs, lds_bytes: if matches!(matrix, Matrix::Mfma(4..)) { 256 } else { 128 } }
    }

    /// Fused multiply-add on the vector units.
    const VECTOR: Rate = Rate { pairs: 64, lds_bytes: 128 };
}

impl Unit {
    pub fn of(info: &ArchInfo, dtype: DType) -> Unit {
        let (side, sums) = match (info.matrix, dtype) {
            (Matrix::Mfma(_), DType::F32 | DType::F16 | DType::BF16 | DType::I8) => (32, 64),
            // f64 came with the second generation.
            (Matrix::Mfma(2..), DType::F64) => (16, 64),
            (Matrix::Wmma11 | Matrix::Wmma12, DType::F16 | DType::BF16 | DType::I8) => (16, 64),
            (Matrix::MmaSync, DType::F16 | DType::BF16 | DType::I8) => (16, 128),
            _ => (0, 0),
        };
        let copies = side > 0 && info.matrix == Matrix::MmaSync;
        let turns = dtype.size_bytes() == 2;
        let rate = if side > 0 { Rate::of(info.matrix, dtype) } else { Rate::VECTOR };
        let words = if dtype == DType::BF16 { 2 } else { dtype.size_bytes().div_ceil(4) };
        let oblong = info.vendor == Vendor::Nvidia;
        let plain_copies = oblong && dtype == DType::F32;
        let (wave, lds_bytes) = (info.wave_size as u16, info.lds_bytes);
        Unit { side, wave, sums, copies, turns, plain_copies, words, lds_bytes, oblong, rate }
    }

    /// The same for operands of which both, or not, are read as vectors along K.
    pub fn reading(self, along_k: bool) -> Unit {
        Unit { plain_copies: self.plain_copies && along_k, ..self }
    }

    /// The same device with its matrix unit switched off.
    pub fn without_matrix(self) -> Unit {
        Unit { side: 0, copies: false, rate: Rate::VECTOR, ..self }
    }
}

/// How a workgroup's tiles get to LDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Staging {
    /// Stages in LDS: the prologue fills all but one, a round of the main loop one more.
    pub stages: u16,
    /// Whether copies go past the registers.
    pub copies: bool,
    /// Dynamic LDS, bytes; 0 where the kernel declares what it needs.
    pub lds_bytes: u32,
}

/// Most stages where copies go past the registers. Three and the sum of a tile of 128 x 128 leave LDS for an occupancy of two
/// workgroups.
const COPY_STAGES: u16 = 3;
const COPY_STAGES_MANY: u16 = 4;
/// Elements of K per slab without a matrix unit, and registers that such a tile may take: with 96, compilers for gfx10 to gfx12
/// put some into memory.
const PLAIN_SLAB: usize = 16;
const PLAIN_REGISTERS: usize = 80;
/// The same where copies go past the registers, what is on its way counted in: NVIDIA's lanes have 255.
const COPIED_REGISTERS: usize = 136;
/// Padding of a row of a plain tile in LDS, bytes.
const PLAIN_PADDING: usize = 16;
/// Bytes of a row per slab.
const SLAB_BYTES: usize = 64;
/// A tile of this many rows or more fills the banks where k is its row.
const ROWS_ACROSS: usize = 64;

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

    /// Bytes of K per round of loading, for the matrix unit.
    pub fn depth_bytes(&self) -> usize {
        SLAB_BYTES * usize::from(self.slabs)
    }

    /// Elements per access in the vector modes.
    pub fn vector(&self, dtype: DType) -> usize {
        let full = 16 / dtype.size_bytes();
        if self.matrix_size == 0 { full.min(4) } else { full }
    }

    /// Whether a unit has this product, and registers for its sums.
    pub fn serves(&self, unit: Unit) -> bool {
        if self.matrix_size == 0 || unit.side == 0 {
            let most = if unit.plain_copies { COPIED_REGISTERS } else { PLAIN_REGISTERS };
            return self.matrix_size == unit.side && self.plain_registers(unit) <= most;
        }
        let products = self.tiles[0] * self.tiles[1];
        let values = products * self.matrix_size * self.matrix_size / unit.wave;
        // A double takes two registers; it is what has products of 16 only in waves of 64.
        let words = if unit.side == 16 && unit.wave == 64 { 2 } else { 1 };
        // Where there are larger products, many small ones are not worth a kernel of their own.
        let doubled = unit.side > self.matrix_size && products > 4;
        // Twice as long rounds of a wave alone would cost the others too much LDS.
        let alone = self.waves != [1, 1] || self.slabs == 1 || unit.copies;
        self.matrix_size <= unit.side && values * words <= unit.sums && !doubled && alone && self.fits(unit)
    }

    /// Registers of a lane for what a round brings and for its sums, without a matrix unit.
    fn plain_registers(&self, unit: Unit) -> usize {
        let brought = self.block().iter().sum::<usize>() * PLAIN_SLAB * usize::from(self.slabs) / self.threads(0);
        (brought + usize::from(self.tiles[0] * self.tiles[1])) * unit.words
    }

    /// How many steps of a round are written out, without a matrix unit: all of the narrower deep tile, which is 3 to 15% faster so on
    /// an H200, the wider one 2% slower.
    pub fn unrolled(&self, is_float: bool) -> usize {
        match (is_float, self.tiles) {
            (false, _) => 1,
            (true, [8, 6]) => 8,
            (true, _) => 4,
        }
    }

    /// Whether it is a plain one that only copies past the registers leave room for.
    fn is_deep(&self, unit: Unit) -> bool {
        self.matrix_size == 0 && self.plain_registers(unit) > PLAIN_REGISTERS
    }

    /// The same for a wave alone whose longer operand lies along K: where copies go past the registers, rounds twice as long read
    /// whole lines of memory (0.043 in place of 0.055 ms for 16 x 14336 x 4096 on an H200).
    pub fn along_k(self, unit: Unit) -> Tiling {
        if unit.copies && self.waves == [1, 1] && self.matrix_size > 0 { Tiling { slabs: 2, ..self } } else { self }
    }

    /// Whether LDS holds two rounds of it, with the sums where they are kept there.
    fn fits(&self, unit: Unit) -> bool {
        !unit.copies || self.lds_bytes(2, true) <= unit.lds_bytes as usize
    }

    /// Dynamic LDS of so many rounds, with the sums of earlier chunks if there are; of f32 without a matrix unit.
    fn lds_bytes(&self, stages: usize, chunked: bool) -> usize {
        let [rows, cols] = self.block();
        let sums = if chunked { rows * cols * size_of::<f32>() } else { 0 };
        let plain_bytes = PLAIN_SLAB * usize::from(self.slabs) * size_of::<f32>() + PLAIN_PADDING;
        let depth_bytes = if self.matrix_size == 0 { plain_bytes } else { self.depth_bytes() };
        stages * (rows + cols) * depth_bytes + sums
    }

    /// How operands read in these modes get to LDS; `chunked`: a workgroup adds up several chunks.
    pub fn staging(&self, unit: Unit, modes: [Mode; 2], chunked: bool) -> Staging {
        let [rows, cols] = self.block();
        if self.is_deep(unit) && modes == [Mode::VectorK; 2] {
            return Staging { stages: 2, copies: true, lds_bytes: self.lds_bytes(2, chunked) as u32 };
        }
        if !unit.copies || self.matrix_size == 0 {
            return Staging { stages: 2, copies: false, lds_bytes: 0 };
        }
        let passes = |mode: Mode, lines: usize| match mode {
            Mode::VectorK => true,
            Mode::VectorLine => unit.turns && lines.is_multiple_of(ROWS_ACROSS),
            Mode::SingleK | Mode::SingleLine => false,
        };
        let copies = passes(modes[0], rows) && passes(modes[1], cols);
        let most = match copies {
            true if rows * cols == 128 * 128 => COPY_STAGES,
            true => COPY_STAGES_MANY,
            false => 2,
        };
        let fits = |stages: u16| self.lds_bytes(usize::from(stages), chunked) <= unit.lds_bytes as usize;
        let stages = (2..=most).rev().find(|&stages| fits(stages)).unwrap_or(2);
        let lds_bytes = self.lds_bytes(usize::from(stages), chunked) as u32;
        Staging { stages, copies, lds_bytes }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(arch: &str) -> Unit {
        Unit::of(rocfire_arch::Arch::parse(arch).unwrap().info(), DType::F16)
    }

    #[test]
    fn every_plain_tile_fits_into_declared_shared_memory() {
        // CUDA gives a kernel no more than this without being asked; rows are padded by 16 bytes.
        const DECLARED_MOST: usize = 48 << 10;
        let info = rocfire_arch::Arch::parse("sm_90").unwrap().info();
        for dtype in [DType::F64, DType::I64, DType::F32, DType::I32, DType::BF16, DType::F16, DType::I8] {
            let unit = Unit::of(info, dtype).without_matrix().reading(false);
            for tiling in TILINGS.iter().filter(|tiling| tiling.matrix_size == 0 && tiling.serves(unit)) {
                let [rows, cols] = tiling.block();
                let row_bytes = usize::from(16 * tiling.slabs) * dtype.size_bytes() + 16;
                assert!(2 * (rows + cols) * row_bytes <= DECLARED_MOST, "{dtype} {tiling:?}");
            }
        }
    }

    #[test]
    fn deep_plain_tiles_are_for_f32_along_k_where_copies_go_past_the_registers() {
        let served = |arch: &str, dtype: DType, along_k: bool| {
            let unit =
                Unit::of(rocfire_arch::Arch::parse(arch).unwrap().info(), dtype).without_matrix().reading(along_k);
            let deep = TILINGS.iter().filter(|tiling| tiling.is_deep(unit) && tiling.serves(unit));
            for tiling in deep.clone() {
                let staging = tiling.staging(unit, [Mode::VectorK; 2], true);
                assert!(staging.copies && staging.lds_bytes <= unit.lds_bytes, "{tiling:?}");
            }
            deep.count()
        };
        assert_eq!(served("sm_90", DType::F32, true), 2);
        for (arch, dtype, along_k) in [
            ("sm_90", DType::F32, false),
            ("sm_90", DType::F64, true),
            ("sm_90", DType::F16, true),
            ("gfx1100", DType::F32, true),
        ] {
            assert_eq!(served(arch, dtype, along_k), 0, "{arch} {dtype} {along_k}");
        }
    }

    #[test]
    fn every_staging_fits_into_shared_memory() {
        use Mode::{SingleK, SingleLine, VectorK, VectorLine};
        for unit in ["sm_80", "sm_89", "sm_90"].map(unit) {
            let served: Vec<_> = TILINGS.iter().filter(|tiling| tiling.serves(unit)).collect();
            assert!(served.iter().any(|tiling| tiling.block() == [128, 128]), "{unit:?}");
            for tiling in served {
                for modes in [[VectorK, VectorK], [VectorLine, VectorLine], [SingleK, SingleLine]] {
                    assert!(tiling.staging(unit, modes, true).lds_bytes <= unit.lds_bytes, "{tiling:?}");
                }
            }
        }
    }
}
