//! Matrix instructions: clocks from shape and type.
//!
//! Clocks are those of AMD's matrix instruction calculator, which follow from one number for each family and type: the
//! operations that a SIMD's matrix unit does in a clock. `MODEL.md` has the table with its sources; the tests hold the
//! calculator's rows against it.

use rocfire_arch::{Family, Matrix, Unit};
use rocfire_isa::{Inst, MatrixShape, MatrixType};

/// A matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixCost {
    /// What is multiplied.
    pub(crate) kind: MatrixType,
    /// Multiplications and additions of a wave: 2·M·N·K·blocks.
    pub(crate) operations: u64,
    /// Clocks for which it occupies the matrix unit of its SIMD.
    pub(crate) clocks: u32,
    /// Clocks of these in which the SIMD can execute other vector instructions.
    pub(crate) shadow: u32,
}

/// Operations that one SIMD's matrix unit does in a clock, for the family's own shapes of one block; `None` for a type
/// that it does not have.
fn rate(matrix: Matrix, kind: MatrixType) -> Option<u64> {
    use MatrixType::{Bf16, F6F4, F8, F16, F32, F64, I4, I8, Xf32};
    Some(match (matrix, kind) {
        (Matrix::Mfma(_), F32) => 64,
        (Matrix::Mfma(1), F16 | I8) => 256,
        (Matrix::Mfma(1 | 2), Bf16) => 128,
        (Matrix::Mfma(2), F16 | I8) => 256,
        (Matrix::Mfma(2 | 3), F64) => 64,
        (Matrix::Mfma(3), F16 | Bf16) => 512,
        (Matrix::Mfma(3), Xf32) => 256,
        (Matrix::Mfma(3), F8 | I8) => 1024,
        (Matrix::Mfma(4), F64) => 32,
        (Matrix::Mfma(4), F16 | Bf16) => 1024,
        (Matrix::Mfma(4), F8 | I8) => 2048,
        (Matrix::Mfma(4), F6F4) => 4096,
        (Matrix::Wmma11, F16 | Bf16 | I8) => 256,
        (Matrix::Wmma11, I4) => 512,
        (Matrix::Wmma12, F16 | Bf16) => 512,
        (Matrix::Wmma12, F8 | I8) => 1024,
        (Matrix::Wmma12, I4) => 2048,
        _ => return None,
    })
}

/// The most operations that a unit's matrix units do in a clock on a type.
pub(crate) fn peak(matrix: Matrix, unit: &Unit, kind: MatrixType) -> Option<u64> {
    Some(rate(matrix, kind)? * u64::from(unit.simds))
}

/// Clocks of a number of operations on a shape.
fn clocks(matrix: Matrix, shape: &MatrixShape, kind: MatrixType, operations: u64) -> Option<u64> {
    let depth = u32::from(shape.m) * u32::from(shape.k);
    let full = rate(matrix, kind)?;
    let rate = match (matrix, kind) {
        // Several blocks, or a K that an older generation had: at the rate of that generation.
        (Matrix::Mfma(3 | 4), MatrixType::F16 | MatrixType::Bf16 | MatrixType::I8) if shape.blocks > 1 => 256,
        (Matrix::Mfma(4), MatrixType::F16 | MatrixType::Bf16) if depth <= 256 => 512,
        (Matrix::Mfma(4), MatrixType::F8 | MatrixType::I8) if depth <= 512 => 1024,
        // CDNA 2's bf16 with a K of four elements a lane ("_1k") runs as f16 does.
        (Matrix::Mfma(2), MatrixType::Bf16) if depth * u32::from(shape.blocks) == 256 => 256,
        // f64 in four blocks: half.
        (Matrix::Mfma(_), MatrixType::F64) if shape.blocks > 1 => (full / 2).max(32),
        // The short K of 4-bit integers takes as long as the long one of RDNA 4.
        (Matrix::Wmma12, MatrixType::I4) if shape.k == 16 => full / 2,
        _ => full,
    };
    Some(operations / rate)
}

/// Clocks in which other vector instructions can go: all but the first four, but for what runs on the vector lanes.
fn shadow(family: Family, kind: MatrixType, clocks: u32) -> u32 {
    match (family, kind) {
        (Family::Cdna1, _) if clocks <= 8 => 0,
        (Family::Cdna1, _) => clocks - 8,
        (Family::Cdna2, MatrixType::F64) => 0,
        (Family::Cdna2, _) => clocks - 4,
        (Family::Cdna3 | Family::Cdna4, MatrixType::F32 | MatrixType::F64) => 0,
        (Family::Cdna3 | Family::Cdna4, _) => clocks - 4,
        _ => 0,
    }
}

/// The cost of an instruction; `None` if it is no matrix instruction of the family, or a sparse one.
pub(crate) fn cost(family: Family, matrix: Matrix, inst: &Inst) -> Option<MatrixCost> {
    let shape = inst.op.facts().matrix?;
    // cbsz and blgp say the formats of A and B: 0 and 1 are the 8-bit ones.
    let narrow = shape.kind == MatrixType::F8 && inst.mods.cbsz >= 2 && inst.mods.blgp >= 2;
    let kind = if narrow { MatrixType::F6F4 } else { shape.kind };
    let operations = [shape.m, shape.n, shape.k, shape.blocks].into_iter().fold(2, |all, size| all * u64::from(size));
    let clocks = clocks(matrix, &shape, kind, operations)? as u32;
    Some(MatrixCost { kind, operations, clocks, shadow: shadow(family, kind, clocks) })
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;
    use rocfire_arch::Arch;

    /// Mnemonic, clocks, shadow, operations of a unit in a clock (0 where the calculator has none).
    type Row = (&'static str, u32, u32, u64);

    fn check(arch: &str, rows: &[Row]) {
        let info = Arch::parse(arch).unwrap().info();
        for &(mnemonic, clocks, shadow, per_clock) in rows {
            let cost = cost(info.family, info.matrix, &named(mnemonic));
            let cost = cost.unwrap_or_else(|| panic!("{arch} has {mnemonic}"));
            assert_eq!((cost.clocks, cost.shadow), (clocks, shadow), "{arch} {mnemonic}");
            if per_clock > 0 {
                assert_eq!(4 * cost.operations / u64::from(cost.clocks), per_clock, "{arch} {mnemonic}");
            }
        }
    }

    /// Rows of AMD's calculator.
    #[test]
    fn mfma_as_in_amds_calculator() {
        check(
            "gfx908",
            &[
                ("v_mfma_f32_32x32x1f32", 64, 56, 256),
                ("v_mfma_f32_16x16x1f32", 32, 24, 256),
                ("v_mfma_f32_4x4x1f32", 8, 0, 256),
                ("v_mfma_f32_32x32x2f32", 64, 56, 256),
                ("v_mfma_f32_32x32x4f16", 64, 56, 1024),
                ("v_mfma_f32_4x4x4f16", 8, 0, 1024),
                ("v_mfma_f32_32x32x8f16", 64, 56, 1024),
                ("v_mfma_f32_16x16x16f16", 32, 24, 1024),
                ("v_mfma_i32_32x32x8i8", 64, 56, 0),
                ("v_mfma_i32_16x16x16i8", 32, 24, 0),
                ("v_mfma_f32_32x32x2bf16", 64, 56, 512),
                ("v_mfma_f32_32x32x4bf16", 64, 56, 512),
                ("v_mfma_f32_16x16x8bf16", 32, 24, 512),
            ],
        );
        check(
            "gfx90a",
            &[
                ("v_mfma_f32_32x32x8f16", 64, 60, 1024),
                ("v_mfma_f32_32x32x8bf16_1k", 64, 60, 1024),
                ("v_mfma_f32_16x16x16bf16_1k", 32, 28, 1024),
                ("v_mfma_f32_32x32x4bf16_1k", 64, 60, 1024),
                ("v_mfma_f32_16x16x8bf16", 32, 28, 512),
                ("v_mfma_f32_4x4x1f32", 8, 4, 256),
                ("v_mfma_f64_16x16x4f64", 32, 0, 256),
                ("v_mfma_f64_4x4x4f64", 16, 0, 128),
            ],
        );
        check(
            "gfx942",
            &[
                ("v_mfma_f32_16x16x8_xf32", 16, 12, 1024),
                ("v_mfma_f32_32x32x4_xf32", 32, 28, 1024),
                ("v_mfma_f32_32x32x1_2b_f32", 64, 0, 256),
                ("v_mfma_f32_16x16x4_f32", 32, 0, 256),
                ("v_mfma_f32_32x32x4_2b_f16", 64, 60, 1024),
                ("v_mfma_f32_4x4x4_16b_f16", 8, 4, 1024),
                ("v_mfma_f32_32x32x8_f16", 32, 28, 2048),
                ("v_mfma_f32_16x16x16_bf16", 16, 12, 2048),
                ("v_mfma_i32_32x32x4_2b_i8", 64, 60, 0),
                ("v_mfma_i32_32x32x16_i8", 32, 28, 0),
                ("v_mfma_i32_16x16x32_i8", 16, 12, 0),
                ("v_mfma_f32_16x16x32_fp8_bf8", 16, 12, 4096),
                ("v_mfma_f32_32x32x16_bf8_fp8", 32, 28, 4096),
                ("v_mfma_f64_16x16x4_f64", 32, 0, 256),
                ("v_mfma_f64_4x4x4_4b_f64", 16, 0, 128),
            ],
        );
    }

    /// The calculator has no gfx950: passes of four clocks as in LLVM's model of it, and the data sheet's peaks. With an
    /// 8-bit float on either side f8f6f4 takes twice as long.
    #[test]
    fn cdna4_as_in_llvms_model() {
        check(
            "gfx950",
            &[
                ("v_mfma_f32_32x32x8_f16", 32, 28, 2048),
                ("v_mfma_f32_32x32x16_f16", 32, 28, 4096),
                ("v_mfma_f32_16x16x32_bf16", 16, 12, 4096),
                ("v_mfma_i32_32x32x32_i8", 32, 28, 8192),
                ("v_mfma_i32_16x16x32_i8", 16, 12, 4096),
                ("v_mfma_f32_16x16x32_fp8_fp8", 16, 12, 4096),
                ("v_mfma_f32_32x32x4_2b_f16", 64, 60, 1024),
                ("v_mfma_f64_16x16x4_f64", 64, 0, 128),
                ("v_mfma_f64_4x4x4_4b_f64", 16, 0, 128),
                ("v_mfma_scale_f32_32x32x64_f8f6f4", 64, 60, 8192),
                ("v_mfma_f32_16x16x128_f8f6f4", 32, 28, 8192),
            ],
        );
        let info = Arch::parse("gfx950").unwrap().info();
        let mut narrow = named("v_mfma_f32_16x16x128_f8f6f4");
        (narrow.mods.cbsz, narrow.mods.blgp) = (2, 4);
        let narrow = cost(info.family, info.matrix, &narrow).unwrap();
        assert_eq!((narrow.kind, narrow.clocks), (MatrixType::F6F4, 16));
    }

    #[test]
    fn wmma_as_in_amds_calculator() {
        check(
            "gfx1100",
            &[
                ("v_wmma_f32_16x16x16_f16", 32, 0, 1024),
                ("v_wmma_bf16_16x16x16_bf16", 32, 0, 1024),
                ("v_wmma_i32_16x16x16_iu8", 32, 0, 0),
                ("v_wmma_i32_16x16x16_iu4", 16, 0, 0),
            ],
        );
        check(
            "gfx1201",
            &[
                ("v_wmma_f32_16x16x16_f16", 16, 0, 2048),
                ("v_wmma_f32_16x16x16_fp8_bf8", 8, 0, 4096),
                ("v_wmma_i32_16x16x16_iu8", 8, 0, 0),
                ("v_wmma_i32_16x16x16_iu4", 8, 0, 0),
                ("v_wmma_i32_16x16x32_iu4", 8, 0, 0),
            ],
        );
    }

    /// CUs × operations × clock is the f16 peak of the card's data sheet.
    #[test]
    fn rates_give_the_data_sheets_peaks() {
        for arch in ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"] {
            let info = Arch::parse(arch).unwrap().info();
            let (unit, card) = (info.unit.unwrap(), info.card.unwrap());
            let peak = peak(info.matrix, &unit, MatrixType::F16).unwrap() as f64;
            let units = f64::from(card.compute_units / unit.compute_units);
            let tflops = units * peak * card.clock_mhz * 1e-6;
            assert!((tflops / card.f16_tflops - 1.0).abs() < 0.005, "{arch}: {tflops}");
        }
    }

    #[test]
    fn what_a_family_lacks_has_no_cost() {
        let info = Arch::parse("gfx950").unwrap().info();
        assert_eq!(cost(info.family, info.matrix, &named("v_mfma_f32_16x16x8_xf32")), None);
        assert_eq!(cost(info.family, info.matrix, &named("v_smfmac_f32_16x16x32_f16")), None);
        assert_eq!(cost(info.family, info.matrix, &named("v_add_f32")), None);
    }
}
