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
}

impl Variant {
    /// Every level, and every wave size that the family has.
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
        let variant = |&wave_size| LEVELS.map(|level| Variant { arch, wave_size, level });
        sizes.iter().flat_map(variant).collect()
    }

    /// For the names of tests and tables: `gfx1100-w64-O2`, the wave size only where it is not the usual one.
    pub fn name(&self) -> String {
        let usual = self.wave_size == self.arch.info().wave_size;
        let wave = if usual { String::new() } else { format!("-w{}", self.wave_size) };
        format!("{}{wave}{}", self.arch, self.level)
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
        source.with_flags(if wide { &flags } else { &flags[..1] })
    }
}
