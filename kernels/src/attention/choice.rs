//! Which kernels the gradients of attention take, and in what tiles.
//!
//! The choice is by shape, element type and device alone. It changes no bit of a result: every gradient is summed in one order.

use rocfire_arch::{ArchInfo, Matrix};
use rocfire_hal::DType;

use super::attention_backward::{GradientKey, Part};
use super::tile::Tile;

/// Head sizes of keys and values together up to which a workgroup has registers for both gradients: of a wave of 32 lanes, of
/// one of 64. Beside resident operands of the matrix unit the first holds for all, but for [`Tile::for_both`].
const BOTH_MAX: [usize; 2] = [128, 256];

/// What the choice needs to know of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gradients {
    pub dtype: DType,
    /// Padded head sizes of queries and keys, and of values.
    pub depths: [usize; 2],
    /// Whether scores have more to them than a positive scale.
    pub extra: bool,
    /// Rows of queries, and of keys.
    pub rows: [usize; 2],
}

/// The kernels that are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub queries: GradientKey,
    /// One for the gradients of keys and of values, or one for values and then one for keys.
    pub keys: [Option<GradientKey>; 2],
}

/// The kernels of all gradients; `matrix`: whether matrix units are used.
pub(super) fn decide(info: &ArchInfo, matrix: bool, gradients: &Gradients) -> Decision {
    let Gradients { dtype, depths, extra, rows } = *gradients;
    let of_rows = |rows: usize, part: Part| {
        let tile = Tile::choose_backward(info, matrix, dtype, depths, rows);
        let tile = if extra { tile.general() } else { tile };
        GradientKey { dtype, depths, tile, extra, part }
    };
    let queries = of_rows(rows[0], Part::Queries);
    let both = of_rows(rows[1], Part::Both);
    let both = GradientKey { tile: both.tile.for_keys(), ..both };
    let keys = match of_both(info, both) {
        Some(both) => [Some(both), None],
        None => [Part::Values, Part::Keys].map(|part| Some(GradientKey { part, ..both })),
    };
    Decision { queries, keys }
}

/// The kernel in which one workgroup gives the gradients of keys and of values, if it has registers for that.
pub(super) fn of_both(info: &ArchInfo, key: GradientKey) -> Option<GradientKey> {
    let (tile, depths) = (&key.tile, key.depths.iter().sum::<usize>());
    // Where copies go past the registers, and operands wait in LDS, sums of two head sizes of 128 leave enough.
    let keeps = tile.size > 0 && tile.stages == 0 && tile.resident_words > 0;
    let roomy = (info.wave_size == 64 && !keeps) || tile.stages > 0;
    // What extras want besides leaves the first WMMA, whose operands are doubled, half of that.
    let most = BOTH_MAX[usize::from(roomy)] / if key.extra && info.matrix == Matrix::Wmma11 { 2 } else { 1 };
    if tile.size > 0 && depths <= most {
        return Some(key);
    }
    let plain = (!key.extra).then(|| tile.for_both(info, key.dtype, key.depths)).flatten();
    plain.map(|tile| GradientKey { tile, ..key })
}

#[cfg(test)]
mod tests {
    use rocfire_arch::Arch;

    use super::*;

    fn of(arch: &str, dtype: DType, depth: usize, extra: bool, rows: [usize; 2]) -> Decision {
        let gradients = Gradients { dtype, depths: [depth; 2], extra, rows };
        decide(Arch::parse(arch).unwrap().info(), true, &gradients)
    }

    fn parts(decision: &Decision) -> Vec<Part> {
        decision.keys.iter().flatten().map(|key| key.part).collect()
    }

    #[test]
    fn narrow_heads_give_both_gradients_of_a_tile_of_keys() {
        for arch in ["gfx90a", "gfx942", "gfx950", "gfx1100", "sm_90"] {
            assert_eq!(parts(&of(arch, DType::F16, 64, false, [512; 2])), [Part::Both], "{arch}");
        }
        assert_eq!(parts(&of("sm_90", DType::BF16, 128, false, [512; 2])), [Part::Both], "operands wait in LDS");
    }

    #[test]
    fn wide_heads_take_a_kernel_for_each_gradient() {
        for (arch, depth, extra) in
            [("gfx942", 128, true), ("gfx908", 128, false), ("gfx1100", 128, false), ("sm_90", 256, false)]
        {
            assert_eq!(parts(&of(arch, DType::F16, depth, extra, [512; 2])), [Part::Values, Part::Keys], "{arch}");
        }
        for arch in ["gfx90a", "gfx942", "gfx950"] {
            let decision = of(arch, DType::BF16, 128, false, [512; 2]);
            assert_eq!(parts(&decision), [Part::Both], "{arch}");
            assert_eq!(decision.keys[0].map(|key| (key.tile.waves, key.tile.laid)), Some((8, 1)), "{arch}");
        }
        assert_eq!(parts(&of("gfx942", DType::F32, 128, false, [512; 2])), [Part::Both], "it keeps no operands");
    }

    #[test]
    fn a_device_without_matrix_units_takes_a_kernel_for_each_gradient() {
        let decision = of("gfx1030", DType::F16, 32, false, [512; 2]);
        assert_eq!(parts(&decision), [Part::Values, Part::Keys]);
        assert_eq!(decision.queries.tile.size, 0);
    }

    #[test]
    fn extras_are_computed_by_the_kernels_that_know_them() {
        for arch in ["gfx942", "gfx1100", "sm_90"] {
            let decision = of(arch, DType::F16, 64, true, [512; 2]);
            assert!(decision.queries.extra && decision.keys.iter().flatten().all(|key| key.extra), "{arch}");
            assert_eq!(decision.queries.tile, decision.queries.tile.general(), "{arch}");
        }
    }

    #[test]
    fn queries_and_keys_are_cut_by_their_own_rows() {
        let (few, many) =
            (of("gfx942", DType::F16, 64, false, [16, 512]), of("gfx942", DType::F16, 64, false, [512, 16]));
        assert_eq!(few.keys, of("gfx942", DType::F16, 64, false, [512; 2]).keys);
        assert_eq!(many.queries, of("gfx942", DType::F16, 64, false, [512; 2]).queries);
    }
}
