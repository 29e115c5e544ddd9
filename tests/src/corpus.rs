//! The corpus: HIP kernels of every kind that programs have, in `tests/corpus/`, each file a theme.
//!
//! Their references are in `tests/tests/corpus/`, under the same names; that test runs them on emulated devices, and
//! `tests/tests/round_trip.rs` reads their code objects. This file only says what is compiled and how.

use rocfire_arch::{Arch, Family};
use rocfire_hal::Source;

/// What every theme is compiled behind.
const HIP: &str = include_str!("../corpus/hip.h");

macro_rules! themes {
    ($($name:literal),* $(,)?) => {
        /// The themes: name and text.
        pub const THEMES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../corpus/", $name, ".hip")))),*];
    };
}
themes!(
    "atomics",
    "attention",
    "calls",
    "control",
    "double",
    "gemm",
    "grid",
    "hash",
    "histogram",
    "integer",
    "lanes",
    "lds",
    "math",
    "matrix",
    "numeric",
    "packed",
    "quantise",
    "random",
    "reduce",
    "scan",
    "sort",
    "stencil",
    "text",
    "transpose"
);

/// Clang's optimisation levels that the corpus is compiled at.
pub const LEVELS: [&str; 3] = ["-O1", "-O2", "-O3"];

/// How a theme is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variant {
    /// For what.
    pub arch: Arch,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// One of [`LEVELS`].
    pub level: &'static str,
    /// Whether 16-bit values live in halves of registers where the compiler does not do so unasked (RDNA 4).
    pub halves: bool,
}

/// The level at which [`Variant::halves`] is compiled too.
const HALVES_LEVEL: &str = "-O2";
/// What asks for it.
const HALVES: [&str; 4] = ["-Xclang", "-target-feature", "-Xclang", "+real-true16"];

impl Variant {
    /// Every level, and every wave size that the family has; and 16-bit values by halves.
    pub fn all(arch: Arch) -> Vec<Variant> {
        let sizes: &[u32] = match arch.info().family {
            Family::Rdna1 | Family::Rdna2 | Family::Rdna3 | Family::Rdna35 | Family::Rdna4 => &[32, 64],
            Family::Gcn5
            | Family::Cdna1
            | Family::Cdna2
            | Family::Cdna3
            | Family::Cdna4
            | Family::Gfx125
            | Family::Ampere
            | Family::Ada
            | Family::Hopper => &[arch.info().wave_size],
        };
        let variant = |&wave_size| LEVELS.map(|level| Variant { arch, wave_size, level, halves: false });
        let mut all: Vec<Variant> = sizes.iter().flat_map(variant).collect();
        if arch.info().family == Family::Rdna4 {
            // Behind the last of the usual wave size, so that sizes stay together.
            let level = HALVES_LEVEL;
            let wave_size = arch.info().wave_size;
            all.insert(LEVELS.len(), Variant { arch, wave_size, level, halves: true });
        }
        all
    }

    /// For the names of tests and tables: `gfx1100-w64-O2`, the wave size only where it is not the usual one.
    pub fn name(&self) -> String {
        let usual = self.wave_size == self.arch.info().wave_size;
        let wave = if usual { String::new() } else { format!("-w{}", self.wave_size) };
        let halves = if self.halves { "-halves" } else { "" };
        format!("{}{wave}{halves}{}", self.arch, self.level)
    }

    /// A theme as this variant compiles it.
    ///
    /// # Panics
    /// If there is no such theme.
    pub fn source(&self, theme: &str) -> Source {
        let found = THEMES.iter().find(|(name, _)| *name == theme);
        let (name, text) = found.unwrap_or_else(|| panic!("tests/corpus has no {theme}"));
        let wave_size = self.wave_size.to_string();
        let text = format!("{HIP}#line 1 \"{name}.hip\"\n{text}");
        let source = Source::new(*name, text, &[("WAVE", &wave_size)]);
        let wide = self.wave_size != self.arch.info().wave_size;
        let flags = [self.level, if self.wave_size == 64 { "-mwavefrontsize64" } else { "-mno-wavefrontsize64" }];
        let flags = if wide { &flags[..] } else { &flags[..1] };
        match self.halves {
            true => source.with_flags(&[flags, &HALVES].concat()),
            false => source.with_flags(flags),
        }
    }
}
