//! Between memory, where a lane's dwords stand together, and registers, where a dword of all lanes does.

use crate::numeric::{Baseline, Cpu};
use crate::wave::{LANES, Lanes};

/// The moves, for the host's CPU.
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

    /// Reads `N` dwords at each lane's offset into the lanes of `exec`; only the first `lanes` are looked at.
    ///
    /// # Safety
    /// - `from` is valid for reads of `N` dwords at each of the first `lanes` offsets; it need not be aligned.
    /// - `lanes` is 32 or 64, and no offset is 2^31 or more.
    unsafe fn gather<const N: usize>(
        from: *const u8,
        offsets: &Lanes,
        (lanes, exec): (usize, u64),
        to: &mut [Lanes; N],
    ) {
        let mut left = exec & (u64::MAX >> (LANES - lanes));
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            // SAFETY: this function's contract.
            let values = unsafe { from.add(offsets.0[lane] as usize).cast::<[u32; N]>().read_unaligned() };
            for (register, value) in to.iter_mut().zip(values) {
                register.0[lane] = value;
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

    /// Stores a part of a register in the lanes of `exec`.
    #[inline(always)]
    unsafe fn put(register: &mut Lanes, part: usize, value: __m256i, exec: u64) {
        // SAFETY: the caller has AVX2; a register is `LANES / WIDTH` aligned vectors, and `part` is below that.
        unsafe {
            let place = register.0.as_mut_ptr().cast::<__m256i>().add(part);
            let own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let bits = _mm256_set1_epi32((exec >> (WIDTH * part) & 0xff) as i32);
            let mask = _mm256_cmpeq_epi32(_mm256_and_si256(bits, own), own);
            _mm256_store_si256(place, _mm256_blendv_epi8(_mm256_load_si256(place), value, mask));
        }
    }

    /// Two dwords of each of four lanes, at these places.
    #[inline(always)]
    unsafe fn pairs(from: *const u8, offsets: &[u32]) -> __m256i {
        // SAFETY: the caller has AVX2, and eight readable bytes at each offset.
        unsafe {
            let a = _mm_loadl_epi64(from.add(offsets[0] as usize).cast());
            let b = _mm_loadl_epi64(from.add(offsets[1] as usize).cast());
            let c = _mm_loadl_epi64(from.add(offsets[2] as usize).cast());
            let d = _mm_loadl_epi64(from.add(offsets[3] as usize).cast());
            let (low, high) = (_mm_unpacklo_epi64(a, b), _mm_unpacklo_epi64(c, d));
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
        }
    }

    /// Of `a` the positions 0, 3, 6, of `b` 1, 4, 7, of `c` 2, 5.
    #[inline(always)]
    unsafe fn weave(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_blend_epi32::<0b0010_0100>(_mm256_blend_epi32::<0b1001_0010>(a, b), c) }
    }

    impl Interleave for Avx2 {
        #[inline(always)]
        unsafe fn gather<const N: usize>(
            from: *const u8,
            offsets: &Lanes,
            (lanes, exec): (usize, u64),
            to: &mut [Lanes; N],
        ) {
            for part in 0..lanes / WIDTH {
                let offsets = &offsets.0[WIDTH * part..][..WIDTH];
                // SAFETY: code for this variant runs only where AVX2 was found; the rest is this function's contract.
                unsafe {
                    match N {
                        1 => {
                            let offsets = _mm256_loadu_si256(offsets.as_ptr().cast());
                            put(&mut to[0], part, _mm256_i32gather_epi32::<1>(from.cast(), offsets), exec);
                        }
                        2 => {
                            let low = _mm256_castsi256_ps(pairs(from, &offsets[..4]));
                            let high = _mm256_castsi256_ps(pairs(from, &offsets[4..]));
                            let even = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(low, high));
                            let odd = _mm256_castps_si256(_mm256_shuffle_ps::<0xdd>(low, high));
                            put(&mut to[0], part, _mm256_permute4x64_epi64::<0xd8>(even), exec);
                            put(&mut to[1], part, _mm256_permute4x64_epi64::<0xd8>(odd), exec);
                        }
                        3 => {
                            for (d, register) in to.iter_mut().enumerate() {
                                let offsets = _mm256_loadu_si256(offsets.as_ptr().cast());
                                let values = _mm256_i32gather_epi32::<1>(from.add(4 * d).cast(), offsets);
                                put(register, part, values, exec);
                            }
                        }
                        _ => {
                            // Lanes k and k + 4 side by side.
                            let mut v = [_mm256_setzero_si256(); 4];
                            for (k, v) in v.iter_mut().enumerate() {
                                let low = _mm_loadu_si128(from.add(offsets[k] as usize).cast());
                                let high = _mm_loadu_si128(from.add(offsets[k + 4] as usize).cast());
                                *v = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                            }
                            let low = [_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpacklo_epi32(v[2], v[3])];
                            let high = [_mm256_unpackhi_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[2], v[3])];
                            put(&mut to[0], part, _mm256_unpacklo_epi64(low[0], low[1]), exec);
                            put(&mut to[1], part, _mm256_unpackhi_epi64(low[0], low[1]), exec);
                            put(&mut to[2], part, _mm256_unpacklo_epi64(high[0], high[1]), exec);
                            put(&mut to[3], part, _mm256_unpackhi_epi64(high[0], high[1]), exec);
                        }
                    }
                }
            }
        }

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
            // Places that overlap, of which no two lanes have the same distance.
            let places: [u32; LANES] = std::array::from_fn(|lane| (lane * lane * 2 % (4 * (lanes - 1) * N)) as u32);
            let exec = 0x0fed_cba9_8765_4321;
            let mut gathered = [Lanes([7; LANES]); N];
            // SAFETY: the highest place has `N` dwords behind it.
            unsafe { C::gather::<N>(memory.as_ptr().cast(), &Lanes(places), (lanes, exec), &mut gathered) };
            let bytes: Vec<u8> = memory.iter().flat_map(|dword| dword.to_le_bytes()).collect();
            for (lane, &place) in places.iter().enumerate().take(lanes) {
                for (d, register) in gathered.iter().enumerate() {
                    let at = place as usize + 4 * d;
                    let dword = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                    assert_eq!(register.0[lane], if exec >> lane & 1 != 0 { dword } else { 7 });
                }
            }
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
