//! The family's rows of the registry: tilings with reading modes in rotation. Every mode and every tiling occurs for every type, not
//! every pair.

use rocfire_arch::Arch;
use rocfire_hal::{DType, Source};

use super::gemm::{GemmKey, grouped_source, source};
use super::tiling::{Mode, TILINGS, Unit, has_tf32};

/// Operators and sources for one type of element.
pub(crate) fn sources(arch: Arch, dtype: DType) -> impl Iterator<Item = (&'static str, Source)> {
    let all = whole(arch, dtype).map(|source| ("gemm", source));
    let all = all.chain(grouped(arch, dtype).map(|source| ("gemm_grouped", source)));
    all.filter(move |_| dtype != DType::Bool)
}

fn whole(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    const MODES: [(Mode, Mode); 4] = [
        (Mode::VectorK, Mode::VectorLine),
        (Mode::VectorLine, Mode::VectorK),
        (Mode::SingleK, Mode::SingleLine),
        (Mode::SingleLine, Mode::SingleK),
    ];
    let unit = Unit::of(arch.info(), dtype);
    let tilings = TILINGS.iter().filter(move |tiling| tiling.serves(unit) || tiling.serves(unit.without_matrix()));
    tilings.enumerate().flat_map(move |(number, &tiling)| {
        let all = tiling.matrix_size == 0 || number == 0;
        // What serves operands along K alone is read in no other way.
        let deep = tiling.matrix_size == 0 && !tiling.serves(unit.without_matrix().reading(false));
        let modes = if deep { [(Mode::VectorK, Mode::VectorK); 4] } else { MODES };
        let count = if deep { 2 } else { MODES.len() };
        let modes = modes.into_iter().take(count).enumerate();
        let modes = modes.filter(move |&(mode, _)| all || mode == number % MODES.len());
        modes.map(move |(mode, (a, b))| {
            let chunked = mode % 2 == 0 && !dtype.is_int();
            let staging = tiling.staging(unit, [a, b], chunked);
            // Rounded factors with every other way of reading, where the unit has them.
            let tf32 = mode % 2 == 1 && dtype == DType::F32 && tiling.matrix_size > 0 && has_tf32(arch.info());
            source(GemmKey { input: dtype, output: dtype, tf32, tiling, a, b, chunked, staging })
        })
    })
}

/// The first tiling that serves and a later one, by offsets and by counts.
fn grouped(arch: Arch, dtype: DType) -> impl Iterator<Item = Source> {
    let unit = Unit::of(arch.info(), dtype).reading(false);
    let tilings = TILINGS.iter().filter(move |tiling| tiling.serves(unit));
    tilings.enumerate().filter(|(number, _)| number % 3 == 0).map(move |(number, &tiling)| {
        let modes = [if number % 2 == 0 { Mode::VectorK } else { Mode::SingleLine }, Mode::VectorLine];
        let staging = tiling.staging(unit, modes, false);
        let key = GemmKey {
            input: dtype,
            output: dtype,
            tf32: false,
            tiling,
            a: modes[0],
            b: modes[1],
            chunked: false,
            staging,
        };
        grouped_source(key, number % 2 == 1)
    })
}
