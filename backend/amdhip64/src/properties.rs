//! `hipDeviceProp_t`, in both of its layouts, and what fills it.
//!
//! A property is written at its offset into a struct that is otherwise zero: most of a hundred fields are about textures,
//! surfaces and interoperation, which are not emulated. Offsets were read off AMD's public headers of HIP 5.2 and 6.3.

use rocfire_arch::Arch;

use crate::launch::MAX_WORKGROUP_THREADS;
use crate::runtime::{Runtime, is_cdna};

/// The struct of HIP 6 and 7.
pub const R0600_BYTES: usize = 1472;
/// The struct of HIP 5 and before.
pub const R0000_BYTES: usize = 792;
/// Of the name and the target's name.
const TEXT_BYTES: usize = 256;

/// Compute units, where the table knows no card.
const COMPUTE_UNITS: u32 = 64;
/// A nominal clock, kHz: programs compute with it. The emulator has none.
pub const CLOCK_KHZ: u32 = 2_100_000;
/// Of the timer that `wall_clock64` reads, kHz.
pub const WALL_CLOCK_KHZ: u32 = 100_000;
/// Nominal as well: cache, bytes; memory clock, kHz; width, bits.
pub const L2_BYTES: u32 = 4 << 20;
/// See there.
pub const MEMORY_CLOCK_KHZ: u32 = 1_300_000;
/// See there.
pub const MEMORY_BUS_BITS: u32 = 8192;
/// Constant memory has the size that HIP says on every card.
pub const CONSTANT_BYTES: u32 = 0x7fff_ffff;
/// Workgroups in a dimension.
pub const GRID: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];

/// The facts of which several properties, and attributes, are made.
pub struct Facts {
    /// The marketing name.
    pub name: String,
    /// With its features.
    pub target: String,
    /// Bytes.
    pub memory_bytes: u64,
    /// LDS of a workgroup, bytes.
    pub lds_bytes: u32,
    /// Lanes.
    pub wave_size: u32,
    /// Of the device.
    pub compute_units: u32,
    /// Threads that a compute unit holds.
    pub compute_unit_threads: u32,
    /// 32-bit vector registers of a compute unit.
    pub registers: u32,
    /// Of the architecture's name.
    pub version: [u32; 2],
}

impl Facts {
    /// Those of the process's device.
    pub fn new(runtime: &Runtime) -> Facts {
        let arch = runtime.arch;
        let info = arch.info();
        let card = info.card.map_or("AMD GPU", |card| card.name);
        // CDNA: four SIMDs of 512 registers by 64 lanes, eight waves each. RDNA: two of 1024 by 32, sixteen waves each.
        let (simds, waves, registers) = if is_cdna(arch) { (4, 8, 512) } else { (2, 16, 1024) };
        Facts {
            name: format!("{card} (emulated {arch})"),
            target: runtime.target(),
            memory_bytes: runtime.memory_bytes().1,
            lds_bytes: info.lds_bytes,
            wave_size: info.wave_size,
            compute_units: info.card.map_or(COMPUTE_UNITS, |card| card.compute_units),
            compute_unit_threads: simds * waves * info.wave_size,
            registers: simds * registers * info.wave_size,
            version: version(arch),
        }
    }
}

/// Major and minor of an architecture's name: its last two digits are minor and stepping, in hexadecimal.
fn version(arch: Arch) -> [u32; 2] {
    let digits = arch.name().trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let (major, rest) = digits.split_at(digits.len().saturating_sub(2));
    let minor = rest.chars().next().and_then(|digit| digit.to_digit(16));
    [major.parse().unwrap_or(0), minor.unwrap_or(0)]
}

/// A struct that is filled by offset.
struct Struct<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Struct<BYTES> {
    fn text(&mut self, at: usize, text: &str) {
        let bytes = text.len().min(TEXT_BYTES - 1);
        self.0[at..at + bytes].copy_from_slice(&text.as_bytes()[..bytes]);
    }

    fn int(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn ints(&mut self, at: usize, values: &[u32]) {
        values.iter().enumerate().for_each(|(index, &value)| self.int(at + 4 * index, value));
    }

    fn size(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
}

const BLOCK: [u32; 3] = [MAX_WORKGROUP_THREADS; 3];
/// `hipDeviceArch_t`: the emulator has 32- and 64-bit atomics, doubles, votes, ballots, shuffles, three dimensions; it has
/// no surfaces, no launches from the device and no funnel shift.
const ARCH_FLAGS: u32 = 0b0_1_0_1_1_0_1_1_1_1_1_1_1_1_1_1_1;

/// HIP 6's and 7's struct.
pub fn r0600(facts: &Facts) -> [u8; R0600_BYTES] {
    let mut s = Struct([0; R0600_BYTES]);
    s.text(0, &facts.name);
    s.size(288, facts.memory_bytes);
    s.size(296, u64::from(facts.lds_bytes));
    s.int(304, facts.registers);
    s.int(308, facts.wave_size);
    s.size(312, 0x7fff_ffff);
    s.int(320, MAX_WORKGROUP_THREADS);
    s.ints(324, &BLOCK);
    s.ints(336, &GRID);
    s.int(348, CLOCK_KHZ);
    s.size(352, u64::from(CONSTANT_BYTES));
    s.ints(360, &facts.version);
    s.size(368, 256);
    s.size(376, 256);
    s.int(384, 1);
    s.int(388, facts.compute_units);
    s.int(400, 1);
    s.int(576, 1);
    s.ints(584, &[1, 0, 0]);
    s.ints(600, &[1, 1, MEMORY_CLOCK_KHZ, MEMORY_BUS_BITS, L2_BYTES, 0, facts.compute_unit_threads, 1, 1, 1]);
    s.size(640, u64::from(facts.lds_bytes));
    s.ints(648, &[facts.registers, 1]);
    s.ints(676, &[1, 0, 1, 1]);
    s.size(696, u64::from(facts.lds_bytes));
    s.int(712, facts.compute_unit_threads / facts.wave_size);
    s.int(728, 1);
    s.text(1160, &facts.target);
    s.size(1416, u64::from(facts.lds_bytes));
    s.ints(1424, &[WALL_CLOCK_KHZ, ARCH_FLAGS]);
    s.0
}

/// HIP 5's struct.
pub fn r0000(facts: &Facts) -> [u8; R0000_BYTES] {
    let mut s = Struct([0; R0000_BYTES]);
    s.text(0, &facts.name);
    s.size(256, facts.memory_bytes);
    s.size(264, u64::from(facts.lds_bytes));
    s.ints(272, &[facts.registers, facts.wave_size, MAX_WORKGROUP_THREADS]);
    s.ints(284, &BLOCK);
    s.ints(296, &GRID);
    s.ints(308, &[CLOCK_KHZ, MEMORY_CLOCK_KHZ, MEMORY_BUS_BITS]);
    s.size(320, u64::from(CONSTANT_BYTES));
    s.ints(328, &facts.version);
    s.ints(
        336,
        &[facts.compute_units, L2_BYTES, facts.compute_unit_threads, 0, WALL_CLOCK_KHZ, ARCH_FLAGS, 1, 0, 1, 0],
    );
    s.size(376, u64::from(facts.lds_bytes));
    s.ints(384, &[0, 1, 0]);
    s.text(396, &facts.target);
    s.int(656, 1);
    s.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_off_names() {
        for (name, expected) in [("gfx942", [9, 4]), ("gfx90a", [9, 0]), ("gfx1100", [11, 0]), ("gfx1201", [12, 0])] {
            assert_eq!(version(Arch::parse(name).unwrap()), expected, "{name}");
        }
    }
}
