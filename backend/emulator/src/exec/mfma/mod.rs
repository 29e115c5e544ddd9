//! The matrix unit of the CDNA line: every dense `v_mfma_*` of gfx908, gfx90a, gfx942 and gfx950. The sparse `v_smfmac_*`
//! are not here and stay unknown instructions, which a fault names.
//!
//! One routine ([`multiply`]) does all shapes: it widens A and B once to the type of the accumulator, lane by lane as they
//! lie in the registers, then accumulates rows of D in place, which are contiguous runs of lanes. [`layout`] says which.
//! [`scaled`] does gfx950's `f8f6f4` with formats chosen by the instruction and a scale for each 32 elements.
//!
//! # What is computed, exactly
//! `D[i][j] = fma(A[i][K-1], B[K-1][j], … fma(A[i][1], B[1][j], fma(A[i][0], B[0][j], C[i][j])))`: from the lowest `k` up,
//! each step the exact product added with one rounding, to nearest even, in f32 (f64 for f64); i8 wraps in i32. A result
//! that is NaN is the default NaN. EXEC and MODE are ignored, as in hardware.
//!
//! | sources | denormals | how hardware differs (published measurements) |
//! | --- | --- | --- |
//! | f32, f64 | kept | not at all: the same chain of fused multiply-adds |
//! | f16, bf16 on gfx908 | kept | adds products in pairs of pairs, then to C |
//! | f16, bf16 on gfx90a | sources and C to +0, D to a zero of its sign | the same, and flushes in between |
//! | f16, bf16, fp8, bf8, xf32 on gfx942 | kept | aligns 4 to 16 products with C to 24 bits below the largest and truncates |
//! | gfx950's | kept | not published |
//! | i8 | | not at all |
//!
//! The last bits of a sum may thus differ from a card's; ours are the same on every host. XF32 sources are truncated to 10
//! mantissa bits, as measured on gfx942. FP8 and BF8 are FNUZ on gfx942 and OCP on gfx950.
//!
//! `cbsz` and `abid` broadcast a block of A, `blgp` moves lanes of B; for f64, from gfx942 on, it negates A, B and C. Where
//! AMD's calculator says that an instruction has no such field, one that is not zero makes it unknown.

pub(crate) mod element;
mod layout;
mod multiply;
mod scaled;
#[cfg(test)]
mod tests;

use element::{Bf8, Bf8Ocp, Bf16, F16, F32, F64, Flushed, Fp8, Fp8Ocp, I8, Xf32};
use multiply::{Shape, any, hot};
use rocfire_arch::{Arch, Fp8 as Fp8Kind, Matrix};
use rocfire_isa::{Inst, Op};

use crate::step::{Constant, Handlers, Role, Selected};

/// Which of the fields that move or negate elements an instruction has.
#[derive(Clone, Copy, PartialEq)]
enum Fields {
    None,
    /// `blgp`, which moves lanes of B.
    Lanes,
    /// `blgp`, and `cbsz` and `abid`, which broadcast a block of A.
    Blocks,
    /// `blgp`, which negates.
    Negations,
}

/// The handler of a matrix instruction.
pub(crate) fn select(arch: Arch, inst: &Inst) -> Option<Selected> {
    let Matrix::Mfma(generation) = arch.info().matrix else { return None };
    if let Some(selected) = scaled::select(inst) {
        return Some(selected);
    }
    let (handlers, [m, k, blocks]) = float(inst.op.canonical(), generation)
        .or_else(|| float8(inst.op.canonical(), arch.info().fp8))
        .or_else(|| integer_or_double(inst.op.canonical()))?;
    let fields = match inst.op.canonical() {
        Op::VMfmaF6416x16x4F64 | Op::VMfmaF644x4x44bF64 if generation >= 3 => Fields::Negations,
        Op::VMfmaF6416x16x4F64 | Op::VMfmaF644x4x44bF64 => Fields::None,
        Op::VMfmaF3216x16x4F32 | Op::VMfmaF3232x32x2F32 => Fields::Lanes,
        _ if blocks > 1 => Fields::Blocks,
        _ if generation < 3 => Fields::Lanes,
        _ => Fields::None,
    };
    let mods = &inst.mods;
    let (moves_b, moves_a) = (mods.blgp | mods.neg != 0, mods.cbsz | mods.abid != 0);
    if moves_b && fields == Fields::None || moves_a && fields != Fields::Blocks {
        return None;
    }
    // A constant C is resolved as an f64 or an integer and narrowed by the accumulator's type.
    let shape = Shape { m, k, blocks };
    Some(Selected::lanes(handlers).with_roles([Role::Block(Constant::F64); 4]).with_imm(shape.to_imm()))
}

/// A handler and `[M, K, blocks]`.
type Form = (Handlers, [u8; 3]);

/// Those with f32, f16 and bf16 sources.
fn float(op: Op, generation: u8) -> Option<Form> {
    // What gfx90a flushes the others keep.
    let flushes = generation == 2;
    macro_rules! half {
        ($type:ident, any $per_lane:literal) => {
            if flushes { any::<Flushed<$type>, Flushed<$type>, $per_lane>() } else { any::<$type, $type, $per_lane>() }
        };
        ($type:ident, hot $m:literal, $k:literal, $per_lane:literal) => {
            if flushes { hot::<Flushed<$type>, $m, $k, $per_lane>() } else { hot::<$type, $m, $k, $per_lane>() }
        };
    }
    Some(match op {
        Op::VMfmaF3216x16x8Xf32 => (any::<Xf32, Xf32, 2>(), [16, 8, 1]),
        Op::VMfmaF3232x32x4Xf32 => (any::<Xf32, Xf32, 2>(), [32, 4, 1]),
        Op::VMfmaF3232x32x12bF32 => (any::<F32, F32, 1>(), [32, 1, 2]),
        Op::VMfmaF3216x16x14bF32 => (any::<F32, F32, 1>(), [16, 1, 4]),
        Op::VMfmaF324x4x116bF32 => (any::<F32, F32, 1>(), [4, 1, 16]),
        Op::VMfmaF3232x32x2F32 => (hot::<F32, 32, 2, 1>(), [32, 2, 1]),
        Op::VMfmaF3216x16x4F32 => (hot::<F32, 16, 4, 1>(), [16, 4, 1]),
        Op::VMfmaF3232x32x42bF16 => (half!(F16, any 4), [32, 4, 2]),
        Op::VMfmaF3216x16x44bF16 => (half!(F16, any 4), [16, 4, 4]),
        Op::VMfmaF324x4x416bF16 => (half!(F16, any 4), [4, 4, 16]),
        Op::VMfmaF3232x32x8F16 => (half!(F16, hot 32, 8, 4), [32, 8, 1]),
        Op::VMfmaF3216x16x16F16 => (half!(F16, hot 16, 16, 4), [16, 16, 1]),
        Op::VMfmaF3232x32x16F16 => (hot::<F16, 32, 16, 8>(), [32, 16, 1]),
        Op::VMfmaF3216x16x32F16 => (hot::<F16, 16, 32, 8>(), [16, 32, 1]),
        // CDNA 1's bf16, two elements in a lane.
        Op::VMfmaF3232x32x2bf16 => (half!(Bf16, any 2), [32, 2, 2]),
        Op::VMfmaF3216x16x2bf16 => (half!(Bf16, any 2), [16, 2, 4]),
        Op::VMfmaF324x4x2bf16 => (half!(Bf16, any 2), [4, 2, 16]),
        Op::VMfmaF3232x32x4bf16 => (half!(Bf16, any 2), [32, 4, 1]),
        Op::VMfmaF3216x16x8bf16 => (half!(Bf16, any 2), [16, 8, 1]),
        Op::VMfmaF3232x32x42bBf16 => (half!(Bf16, any 4), [32, 4, 2]),
        Op::VMfmaF3216x16x44bBf16 => (half!(Bf16, any 4), [16, 4, 4]),
        Op::VMfmaF324x4x416bBf16 => (half!(Bf16, any 4), [4, 4, 16]),
        Op::VMfmaF3232x32x8Bf16 => (half!(Bf16, hot 32, 8, 4), [32, 8, 1]),
        Op::VMfmaF3216x16x16Bf16 => (half!(Bf16, hot 16, 16, 4), [16, 16, 1]),
        Op::VMfmaF3232x32x16Bf16 => (hot::<Bf16, 32, 16, 8>(), [32, 16, 1]),
        Op::VMfmaF3216x16x32Bf16 => (hot::<Bf16, 16, 32, 8>(), [16, 32, 1]),
        _ => return None,
    })
}

/// Those with 8-bit floats.
fn float8(op: Op, kind: Fp8Kind) -> Option<Form> {
    macro_rules! either {
        ($a:ident $a_ocp:ident, $b:ident $b_ocp:ident) => {
            match kind {
                Fp8Kind::Fnuz => any::<$a, $b, 8>(),
                Fp8Kind::Ocp => any::<$a_ocp, $b_ocp, 8>(),
                Fp8Kind::None => return None,
            }
        };
    }
    Some(match op {
        Op::VMfmaF3216x16x32Bf8Bf8 => (either!(Bf8 Bf8Ocp, Bf8 Bf8Ocp), [16, 32, 1]),
        Op::VMfmaF3216x16x32Bf8Fp8 => (either!(Bf8 Bf8Ocp, Fp8 Fp8Ocp), [16, 32, 1]),
        Op::VMfmaF3216x16x32Fp8Bf8 => (either!(Fp8 Fp8Ocp, Bf8 Bf8Ocp), [16, 32, 1]),
        Op::VMfmaF3216x16x32Fp8Fp8 => (either!(Fp8 Fp8Ocp, Fp8 Fp8Ocp), [16, 32, 1]),
        Op::VMfmaF3232x32x16Bf8Bf8 => (either!(Bf8 Bf8Ocp, Bf8 Bf8Ocp), [32, 16, 1]),
        Op::VMfmaF3232x32x16Bf8Fp8 => (either!(Bf8 Bf8Ocp, Fp8 Fp8Ocp), [32, 16, 1]),
        Op::VMfmaF3232x32x16Fp8Bf8 => (either!(Fp8 Fp8Ocp, Bf8 Bf8Ocp), [32, 16, 1]),
        Op::VMfmaF3232x32x16Fp8Fp8 => (either!(Fp8 Fp8Ocp, Fp8 Fp8Ocp), [32, 16, 1]),
        _ => return None,
    })
}

/// Those with i8 and f64.
fn integer_or_double(op: Op) -> Option<Form> {
    Some(match op {
        Op::VMfmaI3232x32x42bI8 => (any::<I8, I8, 4>(), [32, 4, 2]),
        Op::VMfmaI3216x16x44bI8 => (any::<I8, I8, 4>(), [16, 4, 4]),
        Op::VMfmaI324x4x416bI8 => (any::<I8, I8, 4>(), [4, 4, 16]),
        Op::VMfmaI3232x32x8i8 => (any::<I8, I8, 4>(), [32, 8, 1]),
        Op::VMfmaI3216x16x16i8 => (any::<I8, I8, 4>(), [16, 16, 1]),
        Op::VMfmaI3232x32x16I8 => (any::<I8, I8, 8>(), [32, 16, 1]),
        Op::VMfmaI3216x16x32I8 => (any::<I8, I8, 8>(), [16, 32, 1]),
        Op::VMfmaI3232x32x32I8 => (any::<I8, I8, 16>(), [32, 32, 1]),
        Op::VMfmaI3216x16x64I8 => (any::<I8, I8, 16>(), [16, 64, 1]),
        Op::VMfmaF6416x16x4F64 => (any::<F64, F64, 1>(), [16, 4, 1]),
        Op::VMfmaF644x4x44bF64 => (any::<F64, F64, 1>(), [4, 4, 4]),
        _ => return None,
    })
}
