//! What is compiled of paged attention for an architecture, and tested to compile.

use super::*;

/// The operator's rows: every team and number of rows, in turn with layouts and formats.
pub(in crate::attention) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let info = arch.info();
    let cache_of =
        move |format: Option<_>| CacheKey { dtype: if format.is_some() { DType::U8 } else { dtype }, format };
    let few = || std::iter::once(None).chain(cache::FORMATS.into_iter().take(3).map(Some));
    let ways = [(true, 1), (true, 16), (false, 1), (false, 16)].into_iter();
    let on_unit = ways.flat_map(move |(whole_pages, rows)| MATRIX_DEPTHS.map(|depth| (whole_pages, rows, depth)));
    let on_unit = on_unit.filter_map(move |(whole_pages, rows, depth)| {
        let way = matrix_way(info, dtype, depth, whole_pages)?;
        // One of each where there is but one.
        let is_other = way == Way::Matrix && (whole_pages || rows > 1);
        (!is_other).then_some((way, matrix_rows(way, rows), depth))
    });
    let on_unit = on_unit.flat_map(move |(way, rows, depth)| {
        few().flat_map(move |format| {
            let key = PagedKey::by_lanes(cache_of(format), dtype, [depth; 2], SPLIT, false);
            let of_heads = format.is_some().then_some(CodeScales::OfHeads);
            let all = std::iter::once(key.scales).chain(of_heads);
            all.map(move |scales| source(PagedKey { rows, way, scales, ..key }))
        })
    });
    let in_tiles = few().flat_map(|format| [(format, false), (format, true)]).filter_map(move |(format, slots)| {
        let depths = [576, 512];
        let tiles = Tiles::of(info, dtype, format.is_some(), Tiles::HEADS_LEAST, depths)?;
        let key = PagedKey::by_lanes(cache_of(format), dtype, depths, LATENT_SPLIT, false);
        Some(source(PagedKey { rows: tiles.rows, way: Way::Tiles(tiles), slots, ..key }))
    });
    let of_latents =
        few().flat_map(|format| Latents::ROWS.map(|rows| (format, rows))).flat_map(move |(format, rows)| {
            let depths = [576, 512];
            let latents = Latents::of(info, dtype, Tiles::HEADS_LEAST, rows, depths, format.is_some());
            let key = PagedKey::by_lanes(cache_of(format), dtype, depths, LATENT_SPLIT, false);
            latents.into_iter().flat_map(move |latents| {
                [false, true].map(|slots| source(PagedKey { rows, way: Way::Latents(latents), slots, ..key }))
            })
        });
    let on_hopper = [false, true].into_iter().filter_map(move |slots| {
        let depths = [576, 512];
        let hopper = Hopper::of(info, dtype, false, Tiles::HEADS_LEAST, depths)?;
        let key = PagedKey::by_lanes(cache_of(None), dtype, depths, LATENT_SPLIT, false);
        Some(source(PagedKey { rows: Hopper::ROWS, way: Way::Hopper(hopper), slots, ..key }))
    });
    let all = TEAMS.into_iter().flat_map(|team| [1, 2, 4].map(|rows| (team, [1, 1], rows)));
    let long = [[2, 2], [3, 2]].into_iter().flat_map(|turns| [1, 2].map(|rows| (TEAMS[3], turns, rows)));
    let all = all.chain(long).enumerate().map(move |(turn, (team, turns, rows))| {
        let format = (turn % 4 == 1).then(|| cache::FORMATS[turn / 4 % cache::FORMATS.len()]);
        let depths = turns.map(|turns| turns * team * CHANNELS);
        let key = PagedKey::by_lanes(cache_of(format), dtype, depths, SPLIT, turn % 5 == 2);
        let scales = if format.is_some() && turn % 8 == 1 { CodeScales::OfHeads } else { key.scales };
        source(PagedKey { rows, slots: turn % 7 == 3, scales, ..key })
    });
    all.chain(on_unit)
        .chain(in_tiles)
        .chain(on_hopper)
        .chain(of_latents)
        .chain(aiter::sources(info, dtype))
        .map(|source| (OP, source))
        .filter(move |_| matches!(dtype, DType::F32 | DType::F16 | DType::BF16))
}
