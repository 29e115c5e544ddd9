//! The CPU variants that vector code is compiled for.
//!
//! Each handler exists once per variant and is chosen at run time ([`Level`](crate::step::Level)). A variant differs from another in speed only: the
//! fused multiply-add is the host's where the variant has one and the exact software one elsewhere.

use super::fma::{fma_f32_soft, fma_f64_soft};

/// A CPU variant at compile time: what generic lane code may assume about the host.
pub(crate) trait Cpu: Copy + 'static {
    /// `a * b + c` with one rounding (to nearest even).
    fn fma_f32(a: f32, b: f32, c: f32) -> f32;
    /// `a * b + c` with one rounding (to nearest even).
    fn fma_f64(a: f64, b: f64, c: f64) -> f64;
}

/// x86-64 with AVX-512 F, VL, DQ and BW.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;
/// x86-64 with AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;
/// Whatever the build's target guarantees.
#[derive(Clone, Copy)]
pub(crate) struct Baseline;

impl Cpu for Avx512 {
    #[inline(always)]
    fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}

impl Cpu for Avx2 {
    #[inline(always)]
    fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}

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
}
