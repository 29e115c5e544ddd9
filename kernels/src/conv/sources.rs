//! The family's rows of the registry.

use rocfire_arch::Arch;
use rocfire_fusion::Runs;
use rocfire_hal::{DType, Source};

use super::channels_last;
use super::conv::{ConvKey, source};
use super::direct::{self, DirectKey};
use super::tiling::{TILINGS, staging};

/// Operators and sources for one type of element.
pub(crate) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let parts = dtype.is_float().then(|| {
        let direct = direct::source(DirectKey { dtype });
        [("direct", direct), ("channels_last", channels_last::source(dtype.size_bytes()))]
    });
    let tiled = products(arch, dtype).filter(move |_| dtype.is_float());
    tiled.map(|source| ("conv", source)).chain(parts.into_iter().flatten())
}

/// Every tiling that serves, with the variants in rotation; all variants for the first.
fn products(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    let tilings = TILINGS.iter().filter(move |tiling| tiling.serves(arch.info(), dtype, true));
    tilings.enumerate().flat_map(move |(number, &tiling)| {
        // The second gives results with their channels innermost, whose stores differ from tiling to tiling.
        let variants = (0..12).filter(move |&variant| number == 0 || variant % 4 == number % 4 || variant == 1);
        variants.filter_map(move |variant| {
            let (weight, axes) = (variant % 3 == 2, if variant % 2 == 0 { 2 } else { 3 });
            let (a_vector, x_vector) = (variant / 3 % 2 == 0, variant % 3 == 1);
            let output = if weight && a_vector && dtype.size_bytes() == 2 { DType::F32 } else { dtype };
            let tiled = if !weight && a_vector && x_vector { staging(arch.info(), &tiling) } else { None };
            let last = (tiled.is_some() && axes == 3 && dtype.size_bytes() == 2).then(Runs::default);
            let whole = tiling.takes_whole(tiled.is_some() && (variant + number) % 2 == 0);
            let tiling = if last.is_some() { tiling.turned() } else { tiling };
            let key = ConvKey { input: dtype, output, weight, axes, tiling, a_vector, x_vector, tiled, whole, last };
            (tiled.is_some() || !whole).then(|| source(key))
        })
    })
}
