//! What the tests of all families share: files of rows, and random words.
#![allow(dead_code)] // Each test binary takes a part.

use rocfire_arch::Arch;
use rocfire_isa::WaveSize;

/// Files of rows; the first line of each names its architecture and wave size.
const FILES: &[&str] = &[
    include_str!("../rows/gfx906.txt"),
    include_str!("../rows/gfx908.txt"),
    include_str!("../rows/gfx90a.txt"),
    include_str!("../rows/gfx950.txt"),
    include_str!("../rows/gfx1010.txt"),
    include_str!("../rows/gfx1012.txt"),
    include_str!("../rows/gfx1030.txt"),
    include_str!("../rows/gfx1100.txt"),
    include_str!("../rows/gfx1100_wave64.txt"),
    include_str!("../rows/gfx1150.txt"),
    include_str!("../rows/gfx1201.txt"),
    include_str!("../rows/gfx1201_wave64.txt"),
    include_str!("../rows/gfx942.txt"),
];

/// One file: an architecture, a wave size, and instructions with LLVM's text of them.
pub struct Rows {
    pub arch: Arch,
    pub wave: WaveSize,
    pub rows: Vec<(Vec<u32>, &'static str)>,
}

/// Words as they lie in memory.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn rows(arch: &str, wave: WaveSize, file: &'static str) -> Rows {
    let split = |line: &'static str| {
        let (words, text) = line.split_once("  ").unwrap();
        (words.split(' ').map(|word| u32::from_str_radix(word, 16).unwrap()).collect(), text)
    };
    let rows = file.lines().filter(|line| !line.starts_with('#')).map(split).collect();
    Rows { arch: Arch::parse(arch).unwrap(), wave, rows }
}

/// The rows of every family.
pub fn files() -> Vec<Rows> {
    let read = |file: &&'static str| {
        let (arch, wave) = file.lines().next().unwrap().trim_start_matches("# ").split_once(' ').unwrap();
        rows(arch, if wave == "wave32" { WaveSize::Wave32 } else { WaveSize::Wave64 }, file)
    };
    FILES.iter().map(read).collect()
}

/// Top bits of long encodings, which random words seldom have, on GCN and on RDNA: VOP3, VOP3P, DS, FLAT, MUBUF, SMEM,
/// VOPD, and SOP forms with a literal.
const PREFIXES: [(u32, u32); 12] = [
    (0xd000_0000, 0x03ff_ffff),
    (0xd400_0000, 0x03ff_ffff),
    (0xcc00_0000, 0x03ff_ffff),
    (0xd380_0000, 0x007f_ffff),
    (0xd800_0000, 0x03ff_ffff),
    (0xdc00_0000, 0x03ff_ffff),
    (0xe000_0000, 0x0fff_ffff),
    (0xf400_0000, 0x03ff_ffff),
    (0xc000_0000, 0x0bff_ffff),
    (0xc800_0000, 0x03ff_ffff),
    (0xec00_0000, 0x03ff_ffff),
    (0x8000_0000, 0x3fff_ffff),
];

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Four words: the first plain, behind a prefix, or with a source field that asks for a literal, DPP or SDWA.
    pub fn words(&mut self) -> [u32; 4] {
        let (a, b, c) = (self.next(), self.next(), self.next());
        let first = a as u32;
        let first = match c % 4 {
            0 => first,
            1 | 2 => {
                let (prefix, mask) = PREFIXES[(c >> 8) as usize % PREFIXES.len()];
                prefix | first & mask
            }
            _ => first & !0x1ff | [0xff, 0xf9, 0xfa, 0xe9, 0xea, 0xfe][(c >> 8) as usize % 6],
        };
        [first, (a >> 32) as u32, b as u32, (b >> 32) as u32]
    }
}
