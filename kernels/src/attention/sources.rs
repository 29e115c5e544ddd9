//! The family's rows of the registry.

use rocfire_arch::Arch;
use rocfire_hal::{DType, Source};

use super::attention::{AttentionKey, source};
use super::attention_backward::{GradientKey, Part, backward_source};
use super::choice::of_both;
use super::tile::{Tile, general_only};
use super::{paged, plain};

/// Operators and sources for one type of element.
pub(crate) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let plain = plain::DEPTHS.map(plain::source).into_iter().filter(move |_| dtype == DType::F32);
    let all = forward(arch, dtype).chain(plain).map(|source| ("attention", source));
    let all = all.chain(backward(arch, dtype).map(|source| ("attention_backward", source)));
    all.filter(move |_| dtype.is_float()).chain(paged::sources(arch, dtype))
}

/// Every third head size of each type, in its rotation: with and without extras, whole and in slices, for many rows and few.
fn forward(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    const DEPTHS: [[usize; 2]; 9] =
        [[32, 32], [64, 64], [96, 96], [128, 128], [160, 160], [192, 192], [224, 224], [256, 256], [192, 128]];
    let shift = DType::ALL.iter().position(|&other| other == dtype).unwrap_or(0);
    let depths = DEPTHS.into_iter().enumerate().filter(move |(number, _)| number % 3 == shift % 3 || *number == 1);
    let wide = Tile::choose(arch.info(), true, dtype, DEPTHS[3], 512).wide(arch.info(), dtype, DEPTHS[3]);
    let wide = wide.map(|tile| source(AttentionKey { dtype, depths: DEPTHS[3], tile, extra: false, split: false }));
    let narrow = depths.flat_map(move |(number, depths)| {
        [0, 1].map(|turn| {
            let rows = if (number + turn) % 2 == 0 { 512 } else { 16 };
            let tile = Tile::choose(arch.info(), true, dtype, depths, rows);
            let extra = (number / 3 + turn) % 2 == 0 || general_only(arch.info(), tile, depths);
            let tile = if extra { tile.general() } else { tile };
            source(AttentionKey { dtype, depths, tile, extra, split: turn == 1 })
        })
    });
    narrow.chain(wide)
}

/// A narrow and a wide head, each part of the gradients as it is launched for it.
fn backward(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    let wide = if dtype == DType::F16 { [192, 128] } else { [256, 256] };
    let parts = [
        ([64, 64], Part::Delta),
        ([64, 64], Part::Queries),
        ([64, 64], Part::Both),
        ([128, 128], Part::Both),
        ([128, 128], Part::Queries),
        ([128, 128], Part::Values),
        ([128, 128], Part::Keys),
        (wide, Part::Queries),
        (wide, Part::Values),
        (wide, Part::Keys),
        ([64, 64], Part::Values),
        ([64, 64], Part::Both),
        ([64, 64], Part::Keys),
    ];
    parts.into_iter().enumerate().filter_map(move |(number, (depths, part))| {
        let tile = Tile::choose_backward(arch.info(), true, dtype, depths, 512);
        let extra = number % 2 == 0;
        let tile = if extra { tile.general() } else { tile };
        let tile = if part == Part::Queries { tile } else { tile.for_keys() };
        let key = GradientKey { dtype, depths, tile, extra, part };
        let key = if part == Part::Both { of_both(arch.info(), key) } else { Some(key) };
        key.map(backward_source)
    })
}
