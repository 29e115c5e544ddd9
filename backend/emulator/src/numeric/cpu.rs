//! The CPU variants that vector code is compiled for.
//!
//! Each handler exists once per variant and is chosen at run time ([`Level`](crate::step::Level)). A variant differs from another in speed only: the
//! fused multiply-add is the host's where the variant has one and the exact software one elsewhere.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

use super::fma::{fma_f32_soft, fma_f64_soft};
use super::half_float::f16_to_f32;

/// What [`Cpu::outlined`] runs. Not a closure, because `run` must be marked `#[inline(always)]`: only what is inlined is
/// compiled for the variant.
pub(crate) trait Body {
    /// Runs it.
    fn run(self);
}

/// A CPU variant at compile time: what generic lane code may assume about the host.
pub(crate) trait Cpu: Copy + 'static {
    /// `a * b + c` with one rounding (to nearest even).
    fn fma_f32(a: f32, b: f32, c: f32) -> f32;
    /// `a * b + c` with one rounding (to nearest even).
    fn fma_f64(a: f64, b: f64, c: f64) -> f64;
    /// Replaces the lanes of `register` whose bit of `mask` is set by those of `values`. Not inlined, so that there is one
    /// for each variant instead of one for each operation.
    fn blend(register: &mut [u32; 64], values: &[u32; 64], mask: u64);
    /// Runs `body` as a function of its own, compiled for this variant. The matrix unit's tiles are such: inlined side by
    /// side they shared so many values that the host's registers spilled.
    fn outlined(body: impl Body);
    /// The low and the high f16 of each dword, widened.
    #[inline(always)]
    fn widen_f16(dwords: &[u32; 64], low: &mut [f32; 64], high: &mut [f32; 64]) {
        for (i, &dword) in dwords.iter().enumerate() {
            low[i] = f16_to_f32(dword as u16);
            high[i] = f16_to_f32((dword >> 16) as u16);
        }
    }
    /// Sixteen f32 in host registers. The matrix unit's inner loop names its vectors itself: left to the compiler it came
    /// out scalar.
    type F32x16: Copy;
    /// From memory.
    fn load(values: &[f32; 16]) -> Self::F32x16;
    /// To memory.
    fn store(values: Self::F32x16) -> [f32; 16];
    /// `a * b + c` for each of the sixteen, with one rounding; `exact` promises that all products are representable.
    fn fma_f32x16(a: f32, b: Self::F32x16, c: Self::F32x16, exact: bool) -> Self::F32x16;
}

/// x86-64 with AVX-512 F, VL, DQ and BW.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512;
/// x86-64 with AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2;
/// Whatever the build's target guarantees.
#[derive(Clone, Copy)]
pub(crate) struct Baseline;

#[inline(always)]
fn blend_lanes(register: &mut [u32; 64], values: &[u32; 64], mask: u64) {
    // Halves, because vector code shifts 32-bit lanes.
    for (half, mask) in [(0, mask as u32), (32, (mask >> 32) as u32)] {
        for i in 0..32 {
            // Bitwise, because a choice between two places in memory becomes scalar choices.
            let written = 0u32.wrapping_sub(mask >> i & 1);
            register[half + i] = values[half + i] & written | register[half + i] & !written;
        }
    }
}

/// [`Cpu::widen_f16`] by the host's own conversion; it is exact, and quiets NaNs as ours does.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
#[inline]
fn widen_f16(dwords: &[u32; 64], low: &mut [f32; 64], high: &mut [f32; 64]) {
    for ((dwords, low), high) in dwords.chunks_exact(8).zip(low.chunks_exact_mut(8)).zip(high.chunks_exact_mut(8)) {
        // SAFETY: each chunk is 32 bytes long.
        unsafe {
            let dwords = x86::_mm256_loadu_si256(dwords.as_ptr().cast());
            let (lows, highs) =
                (x86::_mm256_and_si256(dwords, x86::_mm256_set1_epi32(0xffff)), x86::_mm256_srli_epi32::<16>(dwords));
            // Lows of four lanes, highs of four, and again: a conversion gives eight f32 of which half are lows.
            let packed = x86::_mm256_packus_epi32(lows, highs);
            let first = x86::_mm256_cvtph_ps(x86::_mm256_castsi256_si128(packed));
            let second = x86::_mm256_cvtph_ps(x86::_mm256_extracti128_si256::<1>(packed));
            x86::_mm256_storeu_ps(low.as_mut_ptr(), x86::_mm256_permute2f128_ps::<0x20>(first, second));
            x86::_mm256_storeu_ps(high.as_mut_ptr(), x86::_mm256_permute2f128_ps::<0x31>(first, second));
        }
    }
}

/// A variant of x86-64: the features that its blend takes, all that it has, its sixteen f32, and their fused multiply-add.
#[cfg(target_arch = "x86_64")]
macro_rules! x86_variant {
    ($cpu:ident, $blend:literal, $all:literal, $vector:ty, ($a:ident, $b:ident, $c:ident) $fma:block) => {
        impl Cpu for $cpu {
            #[inline(always)]
            fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn blend(register: &mut [u32; 64], values: &[u32; 64], mask: u64) {
                #[target_feature(enable = $blend)]
                #[inline(never)]
                fn blend(register: &mut [u32; 64], values: &[u32; 64], mask: u64) {
                    blend_lanes(register, values, mask);
                }
                // SAFETY: code for this variant runs only where its features were found.
                unsafe { blend(register, values, mask) }
            }
            #[inline(always)]
            fn outlined(body: impl Body) {
                #[target_feature(enable = $all)]
                #[inline(never)]
                fn outlined(body: impl Body) {
                    body.run();
                }
                // SAFETY: code for this variant runs only where its features were found.
                unsafe { outlined(body) }
            }
            #[inline(always)]
            fn widen_f16(dwords: &[u32; 64], low: &mut [f32; 64], high: &mut [f32; 64]) {
                // SAFETY: code for this variant runs only where its features were found, AVX2 and F16C among them.
                unsafe { widen_f16(dwords, low, high) }
            }
            type F32x16 = $vector;
            #[inline(always)]
            fn load(values: &[f32; 16]) -> Self::F32x16 {
                // SAFETY: both are sixteen f32, of which any bits are values.
                unsafe { std::mem::transmute(*values) }
            }
            #[inline(always)]
            fn store(values: Self::F32x16) -> [f32; 16] {
                // SAFETY: both are sixteen f32, of which any bits are values.
                unsafe { std::mem::transmute(values) }
            }
            #[inline(always)]
            fn fma_f32x16($a: f32, $b: Self::F32x16, $c: Self::F32x16, _: bool) -> Self::F32x16 {
                // SAFETY: code for this variant runs only where its features were found.
                unsafe { $fma }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86_variant!(
    Avx512,
    "avx512f,avx512bw,avx512dq,avx512vl",
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt",
    x86::__m512,
    (a, b, c) { x86::_mm512_fmadd_ps(x86::_mm512_set1_ps(a), b, c) }
);

#[cfg(target_arch = "x86_64")]
x86_variant!(Avx2, "avx2", "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt", [x86::__m256; 2], (a, b, c) {
    let a = x86::_mm256_set1_ps(a);
    [x86::_mm256_fmadd_ps(a, b[0], c[0]), x86::_mm256_fmadd_ps(a, b[1], c[1])]
});

impl Cpu for Baseline {
    #[inline(always)]
    fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
        // AArch64 always has a fused multiply-add; elsewhere `mul_add` would be a slow library call.
        if cfg!(target_arch = "aarch64") { a.mul_add(b, c) } else { fma_f32_soft(a, b, c) }
    }
    #[inline(always)]
    fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
        if cfg!(target_arch = "aarch64") { a.mul_add(b, c) } else { fma_f64_soft(a, b, c) }
    }
    #[inline(never)]
    fn blend(register: &mut [u32; 64], values: &[u32; 64], mask: u64) {
        blend_lanes(register, values, mask);
    }
    #[inline(never)]
    fn outlined(body: impl Body) {
        body.run();
    }
    type F32x16 = [f32; 16];
    #[inline(always)]
    fn load(values: &[f32; 16]) -> Self::F32x16 {
        *values
    }
    #[inline(always)]
    fn store(values: Self::F32x16) -> [f32; 16] {
        values
    }
    #[inline(always)]
    fn fma_f32x16(a: f32, b: Self::F32x16, mut c: Self::F32x16, exact: bool) -> Self::F32x16 {
        for i in 0..16 {
            c[i] = if exact { a * b[i] + c[i] } else { Self::fma_f32(a, b[i], c[i]) };
        }
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_widens_f16_as_we_do() {
        fn all<C: Cpu>() {
            for first in (0..=0xffffu32).step_by(64) {
                let dwords = std::array::from_fn(|i| first + i as u32 | (0xffff - first - i as u32) << 16);
                let (mut low, mut high) = ([0.0; 64], [0.0; 64]);
                C::widen_f16(&dwords, &mut low, &mut high);
                for i in 0..64 {
                    assert_eq!(low[i].to_bits(), f16_to_f32(dwords[i] as u16).to_bits());
                    assert_eq!(high[i].to_bits(), f16_to_f32((dwords[i] >> 16) as u16).to_bits());
                }
            }
        }
        all::<Baseline>();
        #[cfg(target_arch = "x86_64")]
        if crate::CpuLevel::detect() >= crate::CpuLevel::Avx2 {
            all::<Avx2>();
        }
    }
}
