//! Which of the tilings a product takes, and whether it goes to the vendor's library instead: the heuristic for what has no row
//! in a tuning table.
//!
//! The choice is by shape, element type and device alone. Among our tilings it changes no bit of the result.

use rocfire_arch::{Arch, Family, Matrix, Vendor};
use rocfire_hal::DType;

use super::gemm::chunk_of;
use super::tiling::{OBLONG, TILINGS, Tiling, Unit};

/// SIMD units of a compute unit.
pub(crate) const SIMDS: usize = 4;

/// What the choice needs to know of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Workgroups of one wave that run at the same time.
    pub slots: usize,
    /// Whether the waves of a workgroup share one slot (an emulated device runs a workgroup on one host thread).
    pub waves_share: bool,
}

/// On an emulated device, cost of loading one row or column of a tile, in products of one element pair: an element that is
/// loaded is moved to LDS and read back, which is a few instructions against 1/32 of a matrix instruction. Chosen so that a
/// 128 x 96 tile wins over three 128 x 32 ones and loses to them where two thirds of it would be padding.
const EMULATED_EDGE_COST: usize = 6;

/// What the dispatch decides.
pub(crate) struct Decision {
    pub unit: Unit,
    pub tiling: Tiling,
    /// Split-K: whether each chunk of K is a workgroup's of its own.
    pub sliced: bool,
}

/// The tiling with the least modelled time, and split-K where its tiles leave half the device idle.
pub(crate) fn decide(unit: Unit, dtype: DType, machine: Machine, [m, n, k]: [usize; 3], batches: usize) -> Decision {
    let tiling = choose(unit, dtype, [m, n], batches, machine);
    Decision { unit, tiling, sliced: is_sliced(&tiling, machine, [m, n, k], batches) }
}

/// Whether split-K pays: there are several chunks, and whole products leave half of the device idle.
pub(crate) fn is_sliced(tiling: &Tiling, machine: Machine, [m, n, k]: [usize; 3], batches: usize) -> bool {
    let [rows, cols] = tiling.block();
    let idle = m.div_ceil(rows) * n.div_ceil(cols) * batches * 2 <= machine.slots && !machine.waves_share;
    idle && k > chunk_of(k)
}

/// The tiling with the least modelled time.
pub(crate) fn choose(unit: Unit, dtype: DType, size: [usize; 2], batches: usize, machine: Machine) -> Tiling {
    let eligible = offered(unit);
    let time = |tiling: &&Tiling| modelled(tiling, unit, dtype, size, batches, machine).time;
    *eligible.min_by_key(time).expect("every type has a matrix tiling of size 16 and the plain one")
}

/// The tilings that the heuristic takes one of.
pub(crate) fn offered(unit: Unit) -> impl Iterator<Item = &'static Tiling> {
    TILINGS.iter().filter(move |tiling| tiling.serves(unit) && (unit.oblong || **tiling != OBLONG))
}

/// What a tiling comes to, per element of K.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modelled {
    /// Workgroups that one compute unit gets after another, those that run beside each other counted once.
    pub rounds: usize,
    /// Products that the matrix unit computes for a workgroup.
    pub products: usize,
    /// What LDS moves for it, in products that the unit computes in that time.
    pub lds: usize,
    /// All rounds, for comparison.
    pub time: usize,
}

/// The model: workgroups go round by round over the SIMD units. In a round the matrix unit computes the tile's products while LDS
/// takes in the tile's rows and columns and gives every wave those of its part; the slower of the two hides half of the other.
/// A tile of 64 x 64 on an MI300X so needs 6144 against 4096, and loses to one of 128 x 128 with 12288 against 16384, though its
/// last round is fuller.
pub(crate) fn modelled(
    tiling: &Tiling,
    unit: Unit,
    dtype: DType,
    size: [usize; 2],
    batches: usize,
    machine: Machine,
) -> Modelled {
    let block = tiling.block();
    let blocks = size[0].div_ceil(block[0]) * size[1].div_ceil(block[1]) * batches;
    let products = block[0] * block[1];
    let edges = block[0] + block[1];
    if machine.waves_share {
        let rounds = blocks.div_ceil(machine.slots);
        let lds = EMULATED_EDGE_COST * edges;
        return Modelled { rounds, products, lds, time: rounds * (products + lds) };
    }
    if tiling.matrix_size == 0 {
        return modelled_plain(tiling, unit, dtype, blocks, machine);
    }
    let waves = tiling.waves.map(usize::from);
    // A row of waves reads the same columns, each wave for itself.
    let read = block[0] * waves[1] + block[1] * waves[0];
    let rate = unit.rate;
    let lds = (read + edges) * dtype.size_bytes() * rate.pairs as usize / rate.lds_bytes as usize;
    let rounds = (blocks * waves[0] * waves[1]).div_ceil(machine.slots);
    let work = products.max(lds) + products.min(lds) / 2;
    Modelled { rounds, products, lds, time: rounds * work * SIMDS / (waves[0] * waves[1]) }
}

/// Lanes that keep one SIMD unit busy, of a plain tiling: fewer where each has many sums that do not wait for each other.
const SIMD_LANES: usize = 64;
const SIMD_LANES_DEEP: usize = 32;
const DEEP_VALUES: u16 = 48;

/// The same for plain multiply-add. Every lane reads its own rows and columns, so LDS is what binds, and all workgroups of a
/// compute unit share it; the SIMD units are filled by the lanes of all of them together. A small tile reads more for each product,
/// and wins where it gives work to units that have none: f32 on an H200 in us (`rocfire tune`, 2026-11-22), sides 64, 32, 16:
/// 256 x 256 x 784: 40.7, 21.9, 16.2; 512 x 512 x 512: 27.4, 19.5, 26.0; 1024 x 1024 x 1024: 89, 115, 162. Tiles of 64 x 96 with 24
/// values a lane and with 48, and of 128 x 192 with 96: 1024 x 768 x 768: 37, 39, 114, three of them in one launch: 99, 92, 116;
/// 1024 x 3072 x 768: 129, 152, 116.
fn modelled_plain(tiling: &Tiling, unit: Unit, dtype: DType, blocks: usize, machine: Machine) -> Modelled {
    let block = tiling.block();
    let lanes = tiling.threads(0);
    let products = block[0] * block[1];
    let read = lanes * usize::from(tiling.tiles[0] + tiling.tiles[1]);
    let rate = unit.rate;
    let lds = (read + block[0] + block[1]) * dtype.size_bytes() * rate.pairs as usize / rate.lds_bytes as usize;
    let groups = blocks.div_ceil((machine.slots / SIMDS).max(1));
    let is_deep = tiling.tiles[0] * tiling.tiles[1] >= DEEP_VALUES;
    let waves = lanes.div_ceil(if is_deep { SIMD_LANES_DEEP } else { SIMD_LANES });
    let rounds = (groups * waves).div_ceil(SIMDS);
    let (computed, moved) = (rounds * products * SIMDS / waves, groups * lds);
    Modelled { rounds, products, lds, time: computed.max(moved) + computed.min(moved) / 2 }
}

/// Least rows and columns of a product that goes to the vendor's library, and least products of one element pair, all batches
/// together: below, a launch takes longer than the work. On an H200 cuBLASLt 13.1 reads the weights of 1 to 64 x 14336 x 4096 in
/// bf16 in 0.031 to 0.033 ms, our narrow tiles in 0.036 to 0.058; in f32 it takes 13.4 us for 256 x 256 x 256, ours 8.6, and 16.5
/// for 512 x 512 x 512, ours 19.5 (`rocfire tune`, 2026-11-22). AMD's libraries are not measured: thin products stay with us there.
const fn vendor_least(vendor: Vendor, dtype: DType) -> (usize, usize) {
    match (vendor, dtype) {
        (Vendor::Nvidia, DType::F32) => (1, 1 << 25),
        (Vendor::Nvidia, _) => (1, 1 << 24),
        (Vendor::Amd, _) => (64, 1 << 26),
    }
}

/// Whether a product of this size goes to the vendor's library where there is one and nothing is tuned.
pub(crate) fn vendor_pays(arch: Arch, dtype: DType, [m, n, k]: [usize; 3], batches: usize) -> bool {
    let info = arch.info();
    let has_kernels = match dtype {
        DType::F16 | DType::BF16 => info.matrix != Matrix::None,
        DType::F32 => true,
        // rocBLAS computes in f64 everywhere, but only some units do so in tiles.
        DType::F64 => matches!(info.matrix, Matrix::Mfma(2..) | Matrix::MmaSync) && info.family != Family::Ada,
        // Only i32 sums are the library's, and i8 results are ours.
        DType::I8 => false,
        DType::I64 | DType::I32 | DType::I16 | DType::U64 | DType::U32 | DType::U16 | DType::U8 | DType::Bool => false,
    };
    let pairs = m.saturating_mul(n).saturating_mul(k).saturating_mul(batches);
    let (lines, least) = vendor_least(info.vendor, dtype);
    has_kernels && m.min(n) >= lines && pairs >= least
}

/// Least products of one element pair, all batches together, from which on a product is NVIDIA's library's though something
/// follows it, which then takes a launch of its own: where ours would take one launch for both, and where it would cut K, which
/// takes two. On an H200 in us, f16 with bias, ours in one and cuBLASLt and a launch (2026-11-22): 2048 x 1024 x 1024: 28, 19 but ours
/// puts three such products of one input into one launch; 1024 x 4096 x 1024: 43, 39; 2048 x 3072 x 768: 66, 36; 8192 x 4096 x 1024:
/// 275, 152; where K is cut: 256 x 768 x 3072: 24, 20; 512 x 1024 x 4096: 34, 24; 1024 x 768 x 3072: 43, 23; 2048 x 1024 x 4096:
/// 86, 40. More that follows widens the gap: with GELU 8192 x 4096 x 1024 takes 428 and 182. AMD's libraries are not measured.
const APART_PAIRS_LEAST: usize = 1 << 32;
const APART_CUT_PAIRS_LEAST: usize = 1 << 30;

/// Whether a product behind which something is computed goes to the vendor's library, where there is one and nothing is tuned;
/// `sliced`: whether ours would cut K.
pub(crate) fn apart_pays(arch: Arch, dtype: DType, pairs: usize, sliced: bool) -> bool {
    let least = if sliced { APART_CUT_PAIRS_LEAST } else { APART_PAIRS_LEAST };
    arch.info().vendor == Vendor::Nvidia && matches!(dtype, DType::F16 | DType::BF16) && pairs >= least
}

/// Whether a product of codes goes to the vendor's library where there is one: as large as one of 16-bit floats that does. On an H200
/// in ms, the library and ours (2026-11-24): E4M3 by row, 4096 x 4096 x 4096 0.105, 0.525; rows x 14336 x 4096: 1 row 0.026, 0.025;
/// 16 rows 0.025, 0.027; 64 rows 0.025, 0.048. AMD's are not measured.
pub(crate) fn scaled_pays(arch: Arch, [m, n, k]: [usize; 3]) -> bool {
    let (lines, least) = vendor_least(arch.info().vendor, DType::F16);
    m.min(n) >= lines && m.saturating_mul(n).saturating_mul(k) >= least
}

/// Least K of products of 8-bit floats and of bytes whose sums the library gives and a launch of ours scales: it reads and writes
/// ten bytes for an element of C, 2.5 ps at an H200's bandwidth, and the library saves a pair 6 fs of our kernel's 7.6, of bytes 2.4 of
/// 4.2 (4096 x 4096 x 4096 in ms, ours and the library's: E4M3 0.524, 0.103; I8 0.289, 0.124).
const SUMS_K_LEAST: usize = 512;
const SUMS_BYTES_K_LEAST: usize = 1536;

/// Least rows of such products of bytes. On an H200 in ms, ours and the library's with its launch, of 14336 x 4096: 1 row 0.0200,
/// 0.0211; 16 rows 0.0231, 0.0272; 64 rows 0.0402, 0.0279 (2026-11-24).
const SUMS_BYTES_ROWS_LEAST: usize = 32;

/// Whether sums by the library and a launch that scales them are faster than our kernel.
pub(crate) fn sums_pay(bytes: bool, rows: usize, k: usize) -> bool {
    match bytes {
        true => k >= SUMS_BYTES_K_LEAST && rows >= SUMS_BYTES_ROWS_LEAST,
        false => k >= SUMS_K_LEAST,
    }
}

/// Most rows of products of 8-bit floats with scales by row whose sums the library gives faster, by more than the launch that scales
/// them takes: NVIDIA's has kernels for few rows, but not with such scales. cuBLASLt 13.0 on an H100 in us, sums and scaled by row, of
/// 14336 x 4096 (2026-11-25): 1 row 22.0, 25.8; 8 rows 22.8, 26.2; 16 rows 23.2, 25.5; 32 rows 26.4, 26.2.
const SUMS_FIRST_ROWS: usize = 8;

/// Whether sums are asked for before what is scaled by row.
pub(crate) fn sums_first(vendor: Vendor, rows: usize) -> bool {
    vendor == Vendor::Nvidia && rows <= SUMS_FIRST_ROWS
}

/// Least part of a device's rounds that a product fills, in tenths, for our oblong plain tile to be taken before NVIDIA's library,
/// and most products of one element pair. On an H200 in us, ours and cuBLASLt's best (`rocfire tune`, 2026-11-22), f32, B by
/// columns: 1024 x 768 x 768: 38.8, 39.1; 1024 x 3072 x 768: 116, 124; three of the first in one launch: 92, 114. Ours takes what
/// follows into the same launch; a sum of several chunks of K costs it a fifth.
const OBLONG_FILLS_LEAST: usize = 9;
const OBLONG_PAIRS_MOST: usize = 1 << 32;

/// Whether a product of f32 stays with us on an NVIDIA card where its library would take it: our tiles leave no unit idle.
pub(crate) fn oblong_pays(arch: Arch, dtype: DType, [m, n, k]: [usize; 3], batches: usize, machine: Machine) -> bool {
    let oblong = &OBLONG;
    let [rows, cols] = oblong.block();
    let units = (machine.slots / SIMDS).max(1);
    let rounds = (m.div_ceil(rows) * n.div_ceil(cols) * batches).div_ceil(units);
    let (wanted, computed) = (m * n * batches, rounds * units * rows * cols);
    arch.info().vendor == Vendor::Nvidia
        && dtype == DType::F32
        && k <= chunk_of(k)
        && wanted.saturating_mul(k) <= OBLONG_PAIRS_MOST
        && wanted * 10 >= computed * OBLONG_FILLS_LEAST
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMULATED: Machine = Machine { slots: 4, waves_share: true };
    const MI300X: Machine = Machine { slots: 304 * SIMDS, waves_share: false };

    fn unit(arch: &str, dtype: DType) -> Unit {
        Unit::of(Arch::parse(arch).unwrap().info(), dtype)
    }

    fn block(arch: &str, dtype: DType, size: [usize; 2], machine: Machine) -> [usize; 2] {
        choose(unit(arch, dtype), dtype, size, 1, machine).block()
    }

    #[test]
    fn width_of_a_transformer_is_cut_without_padding() {
        let [_, cols] = block("gfx942", DType::F16, [1024, 288], EMULATED);
        assert_eq!(288 % cols, 0, "{cols}");
    }

    #[test]
    fn large_products_take_large_tiles_on_a_large_device() {
        for size in [4096, 8192, 16384] {
            assert_eq!(block("gfx942", DType::BF16, [size, size], MI300X), [128, 128], "{size}");
        }
    }

    #[test]
    fn small_tiles_are_known_to_be_bound_by_lds() {
        let unit = unit("gfx942", DType::BF16);
        let of = |block: [usize; 2]| {
            let tiling = TILINGS.iter().find(|tiling| tiling.block() == block && tiling.serves(unit)).unwrap();
            modelled(tiling, unit, DType::BF16, [4096, 4096], 1, MI300X)
        };
        let (small, large) = (of([64, 64]), of([128, 128]));
        assert_eq!((small.products, small.lds), (4096, 6144));
        assert_eq!((large.products, large.lds), (16384, 12288));
        assert!(small.rounds < 4 * large.rounds, "its last round is fuller: {small:?} {large:?}");
        assert!(small.time > large.time, "{small:?} {large:?}");
    }

    #[test]
    fn few_plain_tiles_are_small_and_many_are_large() {
        let h200 = Machine { slots: 132 * SIMDS, waves_share: false };
        for (size, expected, on_amd) in [
            ([256, 256], [16; 2], 16),
            ([256, 10], [16; 2], 16),
            ([784, 256], [16; 2], 16),
            ([512, 512], [32; 2], 32),
            ([1024, 1024], [64; 2], 64),
            ([1024, 768], [64, 96], 32),
            ([4096, 4096], [64, 96], 64),
            ([8192, 96], [64, 96], 32),
        ] {
            let on_nvidia = choose(unit("sm_90", DType::F32).reading(false), DType::F32, size, 1, h200).block();
            assert_eq!(on_nvidia, expected, "{size:?}");
            assert_eq!(block("gfx1100", DType::F32, size, h200), [on_amd; 2], "{size:?}");
        }
    }

    #[test]
    fn products_of_f32_along_k_take_deep_tiles_on_a_large_nvidia_card() {
        let h200 = Machine { slots: 132 * SIMDS, waves_share: false };
        for (size, expected, lanes) in [
            ([1024, 768], [64, 96], 128),
            ([1024, 3072], [128, 192], 256),
            ([512, 512], [32; 2], 64),
            ([256, 256], [16; 2], 64),
        ] {
            let tiling = choose(unit("sm_90", DType::F32), DType::F32, size, 1, h200);
            assert_eq!((tiling.block(), tiling.threads(0)), (expected, lanes), "{size:?}");
        }
    }

    #[test]
    fn a_single_row_takes_a_narrow_tile() {
        assert_eq!(block("gfx942", DType::F16, [1, 4096], EMULATED)[0], 16);
        let h200 = Machine { slots: 132 * SIMDS, waves_share: false };
        assert_eq!(block("sm_90", DType::BF16, [1, 14336], h200)[0], 16);
        assert_eq!(block("sm_90", DType::BF16, [16, 14336], h200)[0], 16);
    }

    #[test]
    fn a_tiling_has_no_larger_product_than_the_matrix_unit() {
        for (arch, expected) in [("gfx1030", 0), ("gfx1100", 16), ("gfx1201", 16)] {
            let unit = unit(arch, DType::F16);
            assert_eq!(choose(unit, DType::F16, [100, 100], 3, MI300X).matrix_size, expected);
        }
    }

    #[test]
    fn products_of_f32_that_fill_an_nvidia_card_with_our_tiles_stay_with_us() {
        let (sm_90, gfx1100) = (Arch::parse("sm_90").unwrap(), Arch::parse("gfx1100").unwrap());
        let h200 = Machine { slots: 132 * SIMDS, waves_share: false };
        let pays = |size, batches| oblong_pays(sm_90, DType::F32, size, batches, h200);
        assert!(pays([1024, 768, 768], 1) && pays([1024, 3072, 768], 1) && pays([1024, 768, 768], 3));
        assert!(!pays([1024, 768, 3072], 1), "its sums have several chunks");
        assert!(!pays([1024, 1024, 1024], 1) && !pays([256, 768, 768], 1), "units would be idle");
        assert!(!pays([8192, 8448, 1024], 1), "not measured");
        assert!(!oblong_pays(sm_90, DType::F16, [1024, 768, 768], 1, h200), "the matrix unit's");
        assert!(!oblong_pays(gfx1100, DType::F32, [1024, 768, 768], 1, h200), "AMD's libraries are not measured");
    }

    #[test]
    fn large_products_leave_what_follows_them_to_another_launch() {
        let (sm_90, gfx942) = (Arch::parse("sm_90").unwrap(), Arch::parse("gfx942").unwrap());
        assert!(apart_pays(sm_90, DType::F16, 2048 * 4096 * 1024, false));
        assert!(!apart_pays(sm_90, DType::F16, 2048 * 1024 * 1024, false), "ours may share its launch");
        assert!(apart_pays(sm_90, DType::BF16, 2048 * 1024 * 1024, true), "ours takes two launches");
        assert!(!apart_pays(sm_90, DType::BF16, 128 * 1024 * 4096, true), "small");
        assert!(!apart_pays(sm_90, DType::F32, 2048 * 4096 * 1024, false), "not measured");
        assert!(!apart_pays(gfx942, DType::F16, 2048 * 4096 * 1024, true), "AMD's libraries are not measured");
    }

    #[test]
    fn products_of_codes_go_to_the_library_where_those_of_16_bits_do() {
        let arch = |name| Arch::parse(name).unwrap();
        assert!(scaled_pays(arch("sm_90"), [4096; 3]) && scaled_pays(arch("sm_90"), [1, 14336, 4096]));
        assert!(!scaled_pays(arch("sm_90"), [128; 3]), "small");
        assert!(scaled_pays(arch("gfx942"), [4096; 3]) && !scaled_pays(arch("gfx942"), [16, 14336, 4096]));
        assert!(sums_pay(false, 1, 512) && !sums_pay(false, 64, 256));
        assert!(sums_pay(true, 64, 4096) && !sums_pay(true, 64, 1024) && !sums_pay(true, 16, 4096));
        assert!(sums_first(Vendor::Nvidia, 1) && !sums_first(Vendor::Nvidia, 16) && !sums_first(Vendor::Amd, 1));
    }

    #[test]
    fn thin_small_and_odd_products_stay_with_us() {
        let arch = |name| Arch::parse(name).unwrap();
        assert!(vendor_pays(arch("sm_90"), DType::F16, [1024; 3], 1));
        assert!(vendor_pays(arch("gfx942"), DType::BF16, [4096; 3], 1));
        assert!(vendor_pays(arch("sm_90"), DType::BF16, [1, 14336, 4096], 1));
        assert!(!vendor_pays(arch("gfx942"), DType::BF16, [16, 14336, 4096], 1), "not measured there");
        for (dtype, size) in
            [(DType::BF16, [128, 128, 128]), (DType::F32, [256; 3]), (DType::I8, [4096; 3]), (DType::I32, [4096; 3])]
        {
            assert!(!vendor_pays(arch("sm_90"), dtype, size, 1), "{dtype} {size:?}");
        }
        assert!(!vendor_pays(arch("gfx1030"), DType::F16, [4096; 3], 1), "no matrix unit of the type");
        assert!(vendor_pays(arch("sm_90"), DType::F32, [256, 256, 64], 16), "batches count");
    }
}
