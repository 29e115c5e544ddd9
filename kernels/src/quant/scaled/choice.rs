//! Which kernel multiplies codes, with which tiles, and how K is cut.

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::Device;

use super::library::Job;
use super::{BLOCK_LEAST, Format, NATIVE_DEPTH, Side, Unit};
use crate::family::{self, GRID_YZ_MAX};

/// Codes that are summed from zero where a block is longer and a multiple of it, or all of K.
const CHUNK: usize = 512;
/// Rows for which tiles are low.
const FEW_ROWS: usize = 32;
/// Elements of C from which on workgroups take 128 x 64 of it: there are enough of them then.
const LARGE: usize = 1 << 20;
/// Rows of C that a wave computes where B goes to its registers and there are enough of them: each operand of B meets twice as many.
const TALL: usize = 128;
/// Waves of a workgroup.
pub(super) const WAVES: usize = 4;
/// Workgroups of a compute unit, fewer of which are too few to fill it.
const GROUPS_PER_UNIT: usize = 2;

/// Which kernel runs, with which tiles, and how K is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub unit: Unit,
    /// Codes that are summed before a scale.
    pub sub: usize,
    pub path: WeightPath,
    /// Of a wave, down and across.
    pub tiles: [usize; 2],
    /// Waves next to each other, on the matrix unit.
    pub across: usize,
    /// Rows and columns of C that a workgroup computes.
    pub block: [usize; 2],
    pub grid: [usize; 3],
    /// Rounds that are summed before a scale.
    pub rounds: usize,
    /// Whether K, or a slice of it, has no more of them.
    pub one_sum: bool,
    /// K of a slice, and how many slices there are.
    pub slice_k: usize,
    pub slices: usize,
}

impl Choice {
    /// Whether K is whole rounds of loading.
    pub fn is_whole(&self, a: &Side<'_>, b: &Side<'_>, k: usize) -> bool {
        k.is_multiple_of(self.unit.depth(a.format, b.format))
    }
}

/// `at_once`: workgroups that keep the device busy. Of what is chosen, the order of the sum depends on formats, scales and K alone.
pub(super) fn choice(info: &ArchInfo, matrix: bool, at_once: usize, job: &Job<'_, '_>) -> Choice {
    let &Job { a, b, size: [m, n, k], .. } = job;
    let unit = if matrix { Unit::choose(info, a, b) } else { Unit::Decoded };
    let scaled = a.block[1].min(b.block[1]);
    let (depth, sub) = (unit.depth(a.format, b.format), unit.sub(a.format, b.format, scaled, k));
    let path = WeightPath::choose(info, unit, sub, b);
    let whole = scaled >= k || unit == Unit::Mx;
    let rounds = rounds(scaled, depth, whole);
    let tall = tall_fit(info, unit, a.format) && tall_fill(at_once, [m, n]);
    let tiles = match matrix {
        true => tiles(info, tall, unit, sub, path, [m, n]),
        false => [if m <= FEW_ROWS { 2 } else { 4 }, 4],
    };
    let across = across(path, m);
    let sides = if matrix { [WAVES / across * 16, across * 16] } else { [16, 16] };
    let block = [tiles[0] * sides[0], tiles[1] * sides[1]];
    let grid = [n.div_ceil(block[1]), m.div_ceil(block[0])];
    let slice_k = rounds * depth;
    // A row of the second launch's grid is one of C.
    let sliceable = k.div_ceil(slice_k).max(m) <= GRID_YZ_MAX && grid[0] * grid[1] < at_once;
    let slices = if whole && sliceable { k.div_ceil(slice_k) } else { 1 };
    let one_sum = whole && k.div_ceil(slices) <= slice_k;
    Choice { unit, sub, path, tiles, across, block, grid: [grid[0], grid[1], slices], rounds, one_sum, slice_k, slices }
}

/// Rounds of `depth` that are summed before a scale: those of a block, or of [`CHUNK`]; `whole`: no block ends within K.
fn rounds(block: usize, depth: usize, whole: bool) -> usize {
    let chunk = CHUNK / depth;
    match block / depth {
        rounds if whole || rounds.is_multiple_of(chunk) => chunk,
        rounds => rounds.max(1),
    }
}

/// Tiles of a wave on the matrix unit, down and across: of few rows no more than there are, of a large C as many as registers allow.
/// `tall`: whether those of [`TALL`] rows fit, and fill the device.
fn tiles(info: &ArchInfo, tall: bool, unit: Unit, sub: usize, path: WeightPath, [m, n]: [usize; 2]) -> [usize; 2] {
    let large = m > 64 && m * n >= LARGE;
    match (path, m <= FEW_ROWS) {
        (WeightPath::Direct, false) if large && tall => [TALL / 16, direct_across(info)],
        (WeightPath::Direct, true) => [m.div_ceil(16), 1],
        (WeightPath::Direct, false) => [4, if large { direct_across(info) } else { 1 }],
        (_, true) => [1, if m <= 16 { 1 } else { 2 }],
        (_, false) => [if large && has_registers(info, unit, sub) { 4 } else { 2 }, 2],
    }
}

/// Waves of a workgroup next to each other: all where their operands of B go to registers, or there are rows for one alone.
pub(super) fn across(path: WeightPath, m: usize) -> usize {
    if path == WeightPath::Direct || m <= 16 { WAVES } else { 2 }
}

/// Whether two workgroups of tall tiles fit side by side: in LDS two rounds of A and its scales, in half of a SIMD's registers the operands.
pub(super) fn tall_fit(info: &ArchInfo, unit: Unit, a: Format) -> bool {
    const LDS_BYTES: usize = 2 * (TALL * 128 + 2 * TALL * 8);
    info.wave_size == 64 && 2 * LDS_BYTES <= info.lds_bytes as usize && (unit == Unit::Native || a.bits() == 4)
}

/// Whether workgroups of [`TALL`] rows and as many columns keep the device busy, with few rows left over.
fn tall_fill(at_once: usize, [m, n]: [usize; 2]) -> bool {
    m >= 2 * TALL && m.div_ceil(TALL) * n.div_ceil(TALL) >= at_once
}

/// Workgroups that keep the device busy.
pub(super) fn at_once(device: &Device) -> usize {
    family::slots(device, GROUPS_PER_UNIT)
}

/// Where the codes of B are, and which way they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WeightPath {
    /// In rows, through LDS.
    Rows,
    /// Laid out, through LDS.
    Tiles,
    /// Laid out, to the operands.
    Direct,
}

/// Whether waves have registers for four tiles above each other where scales come between products: those of 32 lanes on RDNA have not.
fn has_registers(info: &ArchInfo, unit: Unit, sub: usize) -> bool {
    !matches!(info.matrix, Matrix::Wmma11 | Matrix::Wmma12) || unit == Unit::Decoded || sub == NATIVE_DEPTH
}

/// Tiles of a wave next to each other, where operands of B and those to come are in registers: two, of which waves of 32 lanes have
/// too few.
pub(super) fn direct_across(info: &ArchInfo) -> usize {
    if info.wave_size == 64 { 2 } else { 1 }
}

impl WeightPath {
    fn choose(info: &ArchInfo, unit: Unit, sub: usize, b: &Side<'_>) -> WeightPath {
        if !b.laid_out {
            return WeightPath::Rows;
        }
        WeightPath::of_tiles(info, unit, sub)
    }

    pub fn of_tiles(info: &ArchInfo, unit: Unit, sub: usize) -> WeightPath {
        let whole = match (unit, info.matrix) {
            (Unit::Native, Matrix::Mfma(_)) => sub > BLOCK_LEAST,
            (Unit::Native, Matrix::Wmma12) | (Unit::Deep | Unit::Mx, _) => true,
            _ => false,
        };
        if whole { WeightPath::Direct } else { WeightPath::Tiles }
    }
}

#[cfg(test)]
mod tests {
    use rocfire_arch::Arch;

    use super::*;

    #[test]
    fn large_products_take_large_tiles_and_few_rows_low_ones() {
        let info = |name| Arch::parse(name).unwrap().info();
        let of = |name, path, sub, size| {
            let tall = tall_fit(info(name), Unit::Native, Format::I8) && tall_fill(608, size);
            tiles(info(name), tall, Unit::Native, sub, path, size)
        };
        assert_eq!(of("gfx942", WeightPath::Rows, 128, [4096, 4096]), [4, 2]);
        assert_eq!(of("gfx1201", WeightPath::Rows, 32, [4096, 4096]), [2, 2], "no registers for more");
        assert_eq!(of("gfx942", WeightPath::Direct, 128, [4096, 4096]), [4, 2]);
        assert_eq!(of("gfx950", WeightPath::Direct, 128, [4096, 4096]), [8, 2]);
        assert_eq!(of("gfx950", WeightPath::Direct, 128, [2048, 2048]), [4, 2], "too few workgroups of the tall ones");
        let fit = |name, unit, a| tall_fit(info(name), unit, a);
        assert!(fit("gfx950", Unit::Mx, Format::E2M1) && fit("gfx950", Unit::Native, Format::I8));
        assert!(!fit("gfx950", Unit::Mx, Format::E4M3), "no registers");
        assert!(!fit("gfx942", Unit::Native, Format::I8), "no LDS");
        assert_eq!(of("gfx1201", WeightPath::Direct, 128, [4096, 4096]), [4, 1]);
        assert_eq!(of("gfx942", WeightPath::Rows, 128, [16, 4096]), [1, 1]);
        assert_eq!(of("gfx942", WeightPath::Rows, 128, [17, 4096]), [1, 2]);
        assert_eq!([16, 17].map(|m| across(WeightPath::Rows, m)), [4, 2]);
        assert_eq!(of("gfx942", WeightPath::Direct, 128, [17, 4096]), [2, 1]);
    }

    #[test]
    fn sums_end_with_their_block() {
        assert_eq!([128, 256, 512, 640, 1024].map(|block| rounds(block, 128, false)), [1, 2, 4, 5, 4]);
        assert_eq!(rounds(640, 128, true), 4, "a chunk");
    }
}
