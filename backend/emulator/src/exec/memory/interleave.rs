//! Between memory, where a lane's dwords stand together, and registers, where a dword of all lanes does.

use crate::numeric::{Baseline, Cpu};
use crate::wave::Lanes;

/// The two moves, for the host's CPU.
pub(super) trait Interleave: Cpu {
    /// Reads `N` dwords for each of the first `lanes` lanes, a whole wave's, into `N` registers.
    ///
    /// # Safety
    /// - `from` is valid for reads of `lanes * N` dwords; it need not be aligned.
    /// - `lanes` is 32 or 64.
    unsafe fn split<const N: usize>(from: *const u8, lanes: usize, to: &mut [Lanes; N]) {
        for lane in 0..lanes {
            for (d, register) in to.iter_mut().enumerate() {
                // SAFETY: `lane * N + d` is below `lanes * N`.
                register.0[lane] = unsafe { from.cast::<u32>().add(lane * N + d).read_unaligned() };
            }
        }
    }

    /// Writes `N` dwords of each of the first `lanes` lanes, a whole wave's, from `N` registers.
    ///
    /// # Safety
    /// - `to` is valid for writes of `lanes * N` dwords; it need not be aligned.
    /// - `lanes` is 32 or 64.
    unsafe fn join<const N: usize>(from: &[Lanes; N], lanes: usize, to: *mut u8) {
        for lane in 0..lanes {
            for (d, register) in from.iter().enumerate() {
                // SAFETY: `lane * N + d` is below `lanes * N`.
                unsafe { to.cast::<u32>().add(lane * N + d).write_unaligned(register.0[lane]) };
            }
        }
    }
}

impl Interleave for Baseline {}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{Interleave, Lanes};
    use crate::numeric::Avx2;

    /// Lanes of a host vector.
    const WIDTH: usize = 8;

    /// Where each element of a result comes from, for [`_mm256_permutevar8x32_epi32`].
    type Order = [i32; WIDTH];

    /// Three dwords a lane stand in three vectors such that each position holds an element of another register in each
    /// vector: after a blend by position, register `d` is in this order.
    const THREE: [Order; 3] = [[0, 3, 6, 1, 4, 7, 2, 5], [1, 4, 7, 2, 5, 0, 3, 6], [2, 5, 0, 3, 6, 1, 4, 7]];
    /// The way back.
    const THREE_BACK: [Order; 3] = [[0, 3, 6, 1, 4, 7, 2, 5], [5, 0, 3, 6, 1, 4, 7, 2], [2, 5, 0, 3, 6, 1, 4, 7]];
    /// Even and odd lanes by turns, and back.
    const TURNS: Order = [0, 4, 1, 5, 2, 6, 3, 7];
    const TURNS_BACK: Order = [0, 2, 4, 6, 1, 3, 5, 7];

    #[inline(always)]
    unsafe fn permute(v: __m256i, order: &Order) -> __m256i {
        // SAFETY: the caller has AVX2, and `order` is as large as a vector.
        unsafe { _mm256_permutevar8x32_epi32(v, _mm256_loadu_si256(order.as_ptr().cast())) }
    }

    /// Of `a` the positions 0, 3, 6, of `b` 1, 4, 7, of `c` 2, 5.
    #[inline(always)]
    unsafe fn weave(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_blend_epi32::<0b0010_0100>(_mm256_blend_epi32::<0b1001_0010>(a, b), c) }
    }

    impl Interleave for Avx2 {
        #[inline(always)]
        unsafe fn split<const N: usize>(from: *const u8, lanes: usize, to: &mut [Lanes; N]) {
            for part in 0..lanes / WIDTH {
                // SAFETY: code for this variant runs only where AVX2 was found; `from` has `N` vectors for each part, and a
                // register one.
                unsafe {
                    let mut v = [_mm256_setzero_si256(); N];
                    for i in 0..N {
                        v[i] = _mm256_loadu_si256(from.cast::<__m256i>().add(part * N + i));
                    }
                    let mut put =
                        |d: usize, v: __m256i| _mm256_store_si256(to[d].0.as_mut_ptr().cast::<__m256i>().add(part), v);
                    match N {
                        1 => put(0, v[0]),
                        2 => {
                            let (a, b) = (_mm256_castsi256_ps(v[0]), _mm256_castsi256_ps(v[1]));
                            let even = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(a, b));
                            let odd = _mm256_castps_si256(_mm256_shuffle_ps::<0xdd>(a, b));
                            put(0, _mm256_permute4x64_epi64::<0xd8>(even));
                            put(1, _mm256_permute4x64_epi64::<0xd8>(odd));
                        }
                        3 => {
                            put(0, permute(weave(v[0], v[1], v[2]), &THREE[0]));
                            put(1, permute(weave(v[2], v[0], v[1]), &THREE[1]));
                            put(2, permute(weave(v[1], v[2], v[0]), &THREE[2]));
                        }
                        _ => {
                            let low = [_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpacklo_epi32(v[2], v[3])];
                            let high = [_mm256_unpackhi_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[2], v[3])];
                            put(0, permute(_mm256_unpacklo_epi64(low[0], low[1]), &TURNS));
                            put(1, permute(_mm256_unpackhi_epi64(low[0], low[1]), &TURNS));
                            put(2, permute(_mm256_unpacklo_epi64(high[0], high[1]), &TURNS));
                            put(3, permute(_mm256_unpackhi_epi64(high[0], high[1]), &TURNS));
                        }
                    }
                }
            }
        }

        #[inline(always)]
        unsafe fn join<const N: usize>(from: &[Lanes; N], lanes: usize, to: *mut u8) {
            for part in 0..lanes / WIDTH {
                // SAFETY: as in `split`, the other way round.
                unsafe {
                    let mut v = [_mm256_setzero_si256(); N];
                    for d in 0..N {
                        v[d] = _mm256_load_si256(from[d].0.as_ptr().cast::<__m256i>().add(part));
                    }
                    let put = |i: usize, v: __m256i| _mm256_storeu_si256(to.cast::<__m256i>().add(part * N + i), v);
                    match N {
                        1 => put(0, v[0]),
                        2 => {
                            let (low, high) = (_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
                            put(0, _mm256_permute2x128_si256::<0x20>(low, high));
                            put(1, _mm256_permute2x128_si256::<0x31>(low, high));
                        }
                        3 => {
                            let a = permute(v[0], &THREE_BACK[0]);
                            let b = permute(v[1], &THREE_BACK[1]);
                            let c = permute(v[2], &THREE_BACK[2]);
                            put(0, weave(a, b, c));
                            put(1, weave(c, a, b));
                            put(2, weave(b, c, a));
                        }
                        _ => {
                            let (a, b) = (permute(v[0], &TURNS_BACK), permute(v[1], &TURNS_BACK));
                            let (c, d) = (permute(v[2], &TURNS_BACK), permute(v[3], &TURNS_BACK));
                            let ab = [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)];
                            let cd = [_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d)];
                            put(0, _mm256_unpacklo_epi64(ab[0], cd[0]));
                            put(1, _mm256_unpackhi_epi64(ab[0], cd[0]));
                            put(2, _mm256_unpacklo_epi64(ab[1], cd[1]));
                            put(3, _mm256_unpackhi_epi64(ab[1], cd[1]));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wave::LANES;

    /// Splits and joins dwords that are their own numbers.
    fn check<C: Interleave, const N: usize>() {
        for lanes in [LANES, LANES / 2] {
            let memory: Vec<u32> = (0..(lanes * N) as u32).collect();
            let mut registers = [Lanes::ZERO; N];
            // SAFETY: `memory` has as many dwords.
            unsafe { C::split::<N>(memory.as_ptr().cast(), lanes, &mut registers) };
            for (d, register) in registers.iter().enumerate() {
                for lane in 0..lanes {
                    assert_eq!(register.0[lane] as usize, lane * N + d);
                }
            }
            let mut back = vec![0u32; lanes * N];
            // SAFETY: as above.
            unsafe { C::join::<N>(&registers, lanes, back.as_mut_ptr().cast()) };
            assert_eq!(back, memory);
        }
    }

    #[test]
    fn every_dword_finds_its_lane_and_register() {
        check::<Baseline, 1>();
        check::<Baseline, 3>();
        #[cfg(target_arch = "x86_64")]
        if crate::step::Level::detect() >= crate::step::Level::Avx2 {
            use crate::numeric::Avx2;
            check::<Avx2, 1>();
            check::<Avx2, 2>();
            check::<Avx2, 3>();
            check::<Avx2, 4>();
        }
    }
}
