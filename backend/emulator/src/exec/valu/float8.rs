//! Conversions between f32 and 8-bit floats. The instructions are the same on every family that has them; which 8-bit
//! formats they mean is the family's.

use rocfire_arch::{Arch, Fp8};
use rocfire_isa::{Inst, Op};

use super::driver::{self, Choice};
use super::modifiers::flag::{KEEP_BYTES, KEEP_HALF};
use crate::numeric::*;

/// FP8 and BF8 of a family.
trait Formats: 'static {
    const FP8: Float8;
    const BF8: Float8;
}

/// Those of CDNA 3.
struct Fnuz;
impl Formats for Fnuz {
    const FP8: Float8 = Float8::E4M3;
    const BF8: Float8 = Float8::E5M2;
}

/// Those of CDNA 4 and RDNA 4.
struct Ocp;
impl Formats for Ocp {
    const FP8: Float8 = Float8::OcpE4M3;
    const BF8: Float8 = Float8::OcpE5M2;
}

macro_rules! conversions {
    ($($(#[$doc:meta])* $name:ident ($($a:ident: $t:ty),*) -> $r:ty = $body:expr;)*) => {
        $($(#[$doc])*
        struct $name<F>(std::marker::PhantomData<F>);
        impl<F: Formats> driver::Op for $name<F> {
            type S = ($($t,)*);
            type R = $r;
            const PROPERTIES: u32 = 0;
            #[inline(always)]
            fn lane<C: Cpu>(($($a,)*): Self::S) -> $r {
                $body
            }
        })*
    };
}

conversions! {
    /// FP8 to f32.
    CvtF32Fp8 (a: u32) -> f32 = float8_to_f32(F::FP8, a as u8);
    /// BF8 to f32.
    CvtF32Bf8 (a: u32) -> f32 = float8_to_f32(F::BF8, a as u8);
    /// Two FP8 to two f32.
    CvtPkF32Fp8 (a: u32) -> u64 = two_f32(F::FP8, a);
    /// Two BF8 to two f32.
    CvtPkF32Bf8 (a: u32) -> u64 = two_f32(F::BF8, a);
    /// `D.b16 = {fp8(S1), fp8(S0)}`
    CvtPkFp8F32 (a: f32, b: f32) -> u32 = two_f8(F::FP8, a, b);
    /// `D.b16 = {bf8(S1), bf8(S0)}`
    CvtPkBf8F32 (a: f32, b: f32) -> u32 = two_f8(F::BF8, a, b);
    /// `D.b8 = fp8(S0)`, rounded by the random bits S1
    CvtSrFp8F32 (a: f32, b: u32) -> u32 = f32_to_float8_stochastic(F::FP8, a, b, false).into();
    /// `D.b8 = bf8(S0)`, rounded by the random bits S1
    CvtSrBf8F32 (a: f32, b: u32) -> u32 = f32_to_float8_stochastic(F::BF8, a, b, false).into();
}

#[inline(always)]
fn two_f32(format: Float8, x: u32) -> u64 {
    let value = |byte: u32| u64::from(float8_to_f32(format, byte as u8).to_bits());
    value(x) | value(x >> 8) << 32
}

#[inline(always)]
fn two_f8(format: Float8, a: f32, b: f32) -> u32 {
    u32::from(f32_to_float8(format, a, false)) | u32::from(f32_to_float8(format, b, false)) << 8
}

/// Byte `BYTE` of a register, FP8 or BF8, to f32: the forms of RDNA 4, which name a byte in `op_sel`.
struct CvtByte<const BF8: bool, const BYTE: u32>;
impl<const BF8: bool, const BYTE: u32> driver::Op for CvtByte<BF8, BYTE> {
    type S = (u32,);
    type R = f32;
    const PROPERTIES: u32 = 0;
    #[inline(always)]
    fn lane<C: Cpu>((a,): Self::S) -> f32 {
        float8_to_f32(if BF8 { Ocp::BF8 } else { Ocp::FP8 }, (a >> (8 * BYTE)) as u8)
    }
}

/// The high half of a register, two FP8 or BF8, to two f32.
struct CvtHigh<const BF8: bool>;
impl<const BF8: bool> driver::Op for CvtHigh<BF8> {
    type S = (u32,);
    type R = u64;
    const PROPERTIES: u32 = 0;
    #[inline(always)]
    fn lane<C: Cpu>((a,): Self::S) -> u64 {
        two_f32(if BF8 { Ocp::BF8 } else { Ocp::FP8 }, a >> 16)
    }
}

/// `D = S2 + sum of S0[i] * S1[i]` over four bytes: the products exact, the sums in f32, lowest byte first (RDNA 4).
struct Dot4<const A_BF8: bool, const B_BF8: bool>;
impl<const A_BF8: bool, const B_BF8: bool> driver::Op for Dot4<A_BF8, B_BF8> {
    type S = (u32, u32, f32);
    type R = f32;
    const PROPERTIES: u32 = driver::property::NAN;
    #[inline(always)]
    fn lane<C: Cpu>((a, b, c): Self::S) -> f32 {
        let value =
            |x: u32, bf8: bool, i: u32| float8_to_f32(if bf8 { Ocp::BF8 } else { Ocp::FP8 }, (x >> (8 * i)) as u8);
        (0..4).fold(c, |sum, i| C::fma_f32(value(a, A_BF8, i), value(b, B_BF8, i), sum))
    }
}

/// The operations that only RDNA 4 has, and its choice of a source's byte or half.
fn choose_rdna(inst: &Inst) -> Option<Choice> {
    // The upper bit of the byte's number is the first of the two.
    let byte = (inst.mods.op_sel & 1) << 1 | inst.mods.op_sel >> 1 & 1;
    Some(match (inst.op, byte) {
        (Op::VCvtF32Fp8, 1) => Choice::op::<CvtByte<false, 1>>(),
        (Op::VCvtF32Fp8, 2) => Choice::op::<CvtByte<false, 2>>(),
        (Op::VCvtF32Fp8, 3) => Choice::op::<CvtByte<false, 3>>(),
        (Op::VCvtF32Bf8, 1) => Choice::op::<CvtByte<true, 1>>(),
        (Op::VCvtF32Bf8, 2) => Choice::op::<CvtByte<true, 2>>(),
        (Op::VCvtF32Bf8, 3) => Choice::op::<CvtByte<true, 3>>(),
        (Op::VCvtPkF32Fp8, 2..) => Choice::op::<CvtHigh<false>>(),
        (Op::VCvtPkF32Bf8, 2..) => Choice::op::<CvtHigh<true>>(),
        (Op::VDot4F32Fp8Fp8, _) => Choice::op::<Dot4<false, false>>(),
        (Op::VDot4F32Fp8Bf8, _) => Choice::op::<Dot4<false, true>>(),
        (Op::VDot4F32Bf8Fp8, _) => Choice::op::<Dot4<true, false>>(),
        (Op::VDot4F32Bf8Bf8, _) => Choice::op::<Dot4<true, true>>(),
        _ => return None,
    })
}

/// The operation of a conversion from or to 8-bit floats on `arch`.
pub(crate) fn choose(arch: Arch, inst: &Inst) -> Option<Choice> {
    if let (true, Some(choice)) = (arch.info().family.is_rdna(), choose_rdna(inst)) {
        return Some(choice);
    }
    match arch.info().fp8 {
        Fp8::None => None,
        Fp8::Fnuz => choose_formats::<Fnuz>(inst.op),
        Fp8::Ocp => choose_formats::<Ocp>(inst.op),
    }
}

fn choose_formats<F: Formats>(op: Op) -> Option<Choice> {
    Some(match op {
        Op::VCvtF32Fp8 => Choice::op::<CvtF32Fp8<F>>(),
        Op::VCvtF32Bf8 => Choice::op::<CvtF32Bf8<F>>(),
        Op::VCvtPkF32Fp8 => Choice::op::<CvtPkF32Fp8<F>>(),
        Op::VCvtPkF32Bf8 => Choice::op::<CvtPkF32Bf8<F>>(),
        Op::VCvtPkFp8F32 => Choice::op::<CvtPkFp8F32<F>>().with(KEEP_HALF),
        Op::VCvtPkBf8F32 => Choice::op::<CvtPkBf8F32<F>>().with(KEEP_HALF),
        Op::VCvtSrFp8F32 => Choice::op::<CvtSrFp8F32<F>>().with(KEEP_BYTES),
        Op::VCvtSrBf8F32 => Choice::op::<CvtSrBf8F32<F>>().with(KEEP_BYTES),
        _ => return None,
    })
}
