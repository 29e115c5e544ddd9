//! The matrix unit: every dense `v_mfma_*` of CDNA 3. The sparse `v_smfmac_*` are not here and stay unknown.
//!
//! One routine ([`multiply`]) does all shapes: it widens A and B once to the type of the accumulator, lane by lane as they
//! lie in the registers, then accumulates rows of D in place, which are contiguous runs of lanes. [`layout`] says which.
//!
//! # What is computed, exactly
//! `D[i][j] = fma(A[i][K-1], B[K-1][j], … fma(A[i][1], B[1][j], fma(A[i][0], B[0][j], C[i][j])))`: from the lowest `k` up,
//! each step one fused multiply-add in f32 (f64 for f64) rounded to nearest even; i8 wraps in i32. Denormals are kept on
//! both sides whatever MODE says. A result that is NaN is the default NaN. XF32 sources are rounded to 10 mantissa bits,
//! to nearest even. Hardware adds products in trees whose order AMD does not publish, so its last bits may differ; ours
//! are the same on every host. EXEC is ignored, as in hardware.
//!
//! `cbsz` and `abid` broadcast a block of A, `blgp` moves lanes of B; for f64, `blgp` negates A, B and C.

mod element;
mod layout;
mod multiply;
#[cfg(test)]
mod tests;

use element::{Bf8, Bf16, F16, F32, F64, Fp8, I8, Xf32};
use multiply::{Shape, any, hot};
use rocfire_isa::{Inst, Op};

use crate::step::{Constant, Role, Selected};

/// The handler of a matrix instruction.
pub(crate) fn select(inst: &Inst) -> Option<Selected> {
    let (handlers, [m, k, blocks, per_lane]) = match inst.op {
        Op::VMfmaF3216x16x8Xf32 => (any::<Xf32, Xf32>(), [16, 8, 1, 2]),
        Op::VMfmaF3232x32x4Xf32 => (any::<Xf32, Xf32>(), [32, 4, 1, 2]),
        Op::VMfmaF3232x32x12bF32 => (any::<F32, F32>(), [32, 1, 2, 1]),
        Op::VMfmaF3216x16x14bF32 => (any::<F32, F32>(), [16, 1, 4, 1]),
        Op::VMfmaF324x4x116bF32 => (any::<F32, F32>(), [4, 1, 16, 1]),
        Op::VMfmaF3232x32x2F32 => (hot::<F32, 32, 2, 1>(), [32, 2, 1, 1]),
        Op::VMfmaF3216x16x4F32 => (hot::<F32, 16, 4, 1>(), [16, 4, 1, 1]),
        Op::VMfmaF3232x32x42bF16 => (any::<F16, F16>(), [32, 4, 2, 4]),
        Op::VMfmaF3216x16x44bF16 => (any::<F16, F16>(), [16, 4, 4, 4]),
        Op::VMfmaF324x4x416bF16 => (any::<F16, F16>(), [4, 4, 16, 4]),
        Op::VMfmaF3232x32x8F16 => (hot::<F16, 32, 8, 4>(), [32, 8, 1, 4]),
        Op::VMfmaF3216x16x16F16 => (hot::<F16, 16, 16, 4>(), [16, 16, 1, 4]),
        Op::VMfmaI3232x32x42bI8 => (any::<I8, I8>(), [32, 4, 2, 4]),
        Op::VMfmaI3216x16x44bI8 => (any::<I8, I8>(), [16, 4, 4, 4]),
        Op::VMfmaI324x4x416bI8 => (any::<I8, I8>(), [4, 4, 16, 4]),
        Op::VMfmaI3232x32x16I8 => (any::<I8, I8>(), [32, 16, 1, 8]),
        Op::VMfmaI3216x16x32I8 => (any::<I8, I8>(), [16, 32, 1, 8]),
        Op::VMfmaF3232x32x42bBf16 => (any::<Bf16, Bf16>(), [32, 4, 2, 4]),
        Op::VMfmaF3216x16x44bBf16 => (any::<Bf16, Bf16>(), [16, 4, 4, 4]),
        Op::VMfmaF324x4x416bBf16 => (any::<Bf16, Bf16>(), [4, 4, 16, 4]),
        Op::VMfmaF3232x32x8Bf16 => (hot::<Bf16, 32, 8, 4>(), [32, 8, 1, 4]),
        Op::VMfmaF3216x16x16Bf16 => (hot::<Bf16, 16, 16, 4>(), [16, 16, 1, 4]),
        Op::VMfmaF6416x16x4F64 => (any::<F64, F64>(), [16, 4, 1, 1]),
        Op::VMfmaF644x4x44bF64 => (any::<F64, F64>(), [4, 4, 4, 1]),
        Op::VMfmaF3216x16x32Bf8Bf8 => (any::<Bf8, Bf8>(), [16, 32, 1, 8]),
        Op::VMfmaF3216x16x32Bf8Fp8 => (any::<Bf8, Fp8>(), [16, 32, 1, 8]),
        Op::VMfmaF3216x16x32Fp8Bf8 => (any::<Fp8, Bf8>(), [16, 32, 1, 8]),
        Op::VMfmaF3216x16x32Fp8Fp8 => (any::<Fp8, Fp8>(), [16, 32, 1, 8]),
        Op::VMfmaF3232x32x16Bf8Bf8 => (any::<Bf8, Bf8>(), [32, 16, 1, 8]),
        Op::VMfmaF3232x32x16Bf8Fp8 => (any::<Bf8, Fp8>(), [32, 16, 1, 8]),
        Op::VMfmaF3232x32x16Fp8Bf8 => (any::<Fp8, Bf8>(), [32, 16, 1, 8]),
        Op::VMfmaF3232x32x16Fp8Fp8 => (any::<Fp8, Fp8>(), [32, 16, 1, 8]),
        _ => return None,
    };
    // A constant C is resolved as an f64 or an integer and narrowed by the accumulator's type.
    let shape = Shape { m, k, blocks, per_lane };
    Some(Selected::lanes(handlers).with_roles([Role::Block(Constant::F64); 4]).with_imm(shape.to_imm()))
}
