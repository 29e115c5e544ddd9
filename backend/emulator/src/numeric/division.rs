//! The three helpers of a correctly rounded division: `v_div_scale`, `v_div_fmas` and `v_div_fixup`.
//!
//! Compiled code computes n / d as: scale both out of the dangerous ranges, refine a reciprocal by Newton's method with
//! fused multiply-adds, undo the scaling inside the last of them (`fmas`), patch the special cases (`fixup`).

use super::fma::{fma_f32_scaled, fma_f64_scaled};
use super::{ldexp_f32, ldexp_f64, quiet_f32, quiet_f64};

macro_rules! division {
    ($scale:ident $fmas:ident $fixup:ident, $float:ty, $bits:ty, $fraction:literal, $ones:literal, $ldexp:ident,
     $fma_scaled:ident, $quiet:ident, far: $far:literal, shift: $shift:literal, tiny: $tiny:literal, under: $under:literal) => {
        /// `v_div_scale`: `x`, which is either `denominator` or `numerator`, scaled for the division; and whether
        /// `v_div_fmas` must scale its result.
        #[inline(always)]
        pub(crate) fn $scale(x: $float, denominator: $float, numerator: $float) -> ($float, bool) {
            let exponent = |v: $float| ((v.to_bits() >> $fraction) & $ones) as i32;
            let is_denominator = x.to_bits() == denominator.to_bits();
            let is_numerator = x.to_bits() == numerator.to_bits();
            let small = <$float>::MIN_POSITIVE;
            // Zero or denormal quotient, decided by IEEE division.
            let quotient_denormal = (numerator / denominator).abs() < small;
            let reciprocal_denormal = (1.0 / denominator).abs() < small;
            if numerator == 0.0 || denominator == 0.0 {
                (<$float>::from_bits($ones << $fraction | 1 << ($fraction - 1)), false)
            } else if exponent(numerator) - exponent(denominator) >= $far {
                // The quotient may overflow on the way: scale the denominator up only.
                (if is_denominator { $ldexp(x, $shift) } else { x }, true)
            } else if exponent(denominator) == 0 {
                ($ldexp(x, $shift), false)
            } else if reciprocal_denormal && quotient_denormal {
                (if is_denominator { $ldexp(x, -$shift) } else { x }, true)
            } else if reciprocal_denormal {
                ($ldexp(x, -$shift), false)
            } else if quotient_denormal {
                (if is_numerator { $ldexp(x, $shift) } else { x }, true)
            } else if exponent(numerator) <= $tiny {
                ($ldexp(x, $shift), false)
            } else {
                (x, false)
            }
        }

        /// `v_div_fmas` where VCC is set: `a * b + c` with the scaling of `v_div_scale` undone before the one rounding.
        /// The estimate `c` tells which way the scaling went.
        #[inline(always)]
        pub(crate) fn $fmas(a: $float, b: $float, c: $float) -> $float {
            let exponent = ((c.to_bits() >> $fraction) & $ones) as i32;
            let scale = if exponent > $ones / 2 { $shift } else { -$shift };
            $fma_scaled(a, b, c, scale)
        }

        /// `v_div_fixup`: `quotient` with the special cases of `numerator / denominator` put right.
        #[inline(always)]
        pub(crate) fn $fixup(quotient: $float, denominator: $float, numerator: $float) -> $float {
            let exponent = |v: $float| ((v.to_bits() >> $fraction) & $ones) as i32;
            let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
            let signed = |v: $float| if negative { -v } else { v };
            let (d, n) = (denominator.abs(), numerator.abs());
            let infinity = <$float>::INFINITY;
            if numerator.is_nan() {
                <$float>::from_bits($quiet(numerator.to_bits()))
            } else if denominator.is_nan() {
                <$float>::from_bits($quiet(denominator.to_bits()))
            } else if d == 0.0 && n == 0.0 || d == infinity && n == infinity {
                // The ISA gives this NaN a sign.
                <$float>::from_bits((1 << <$bits>::BITS - 1) | $ones << $fraction | 1 << ($fraction - 1))
            } else if d == 0.0 || n == infinity {
                signed(infinity)
            } else if d == infinity || n == 0.0 {
                signed(0.0)
            } else if exponent(numerator) - exponent(denominator) < $under {
                // Underflow to nearest.
                signed(0.0)
            } else if quotient.is_nan() {
                // With ordinary operands a NaN comes only from an estimate that overflowed, where overflow is the answer.
                signed(infinity)
            } else {
                signed(quotient.abs())
            }
        }
    };
}

division!(div_scale_f32 div_fmas_f32 div_fixup_f32, f32, u32, 23, 0xff, ldexp_f32, fma_f32_scaled, quiet_f32,
    far: 96, shift: 64, tiny: 23, under: -150);
division!(div_scale_f64 div_fmas_f64 div_fixup_f64, f64, u64, 52, 0x7ff, ldexp_f64, fma_f64_scaled, quiet_f64,
    far: 768, shift: 128, tiny: 53, under: -1075);

/// `v_div_fixup_f16`.
#[inline(always)]
pub(crate) fn div_fixup_f16(quotient: u16, denominator: u16, numerator: u16) -> u16 {
    let sign = (denominator ^ numerator) & 0x8000;
    let (d, n) = (denominator & 0x7fff, numerator & 0x7fff);
    if n > 0x7c00 {
        numerator | 0x200
    } else if d > 0x7c00 {
        denominator | 0x200
    } else if d == 0 && n == 0 || d == 0x7c00 && n == 0x7c00 {
        0xfe00
    } else if d == 0 || n == 0x7c00 {
        sign | 0x7c00
    } else if d == 0x7c00 || n == 0 {
        sign
    } else {
        sign | quotient & 0x7fff
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests_support::{EDGES_F32, EDGES_F64, Random};
    use super::super::{f16_to_f32, f32_to_f16, fma_f32_soft, fma_f64_soft, rcp_f32, rcp_f64};
    use super::*;

    /// The sequence that LLVM emits for a correctly rounded f32 division with denormals enabled.
    fn divide_f32(n: f32, d: f32) -> f32 {
        let (ds, _) = div_scale_f32(d, d, n);
        let (ns, scaled) = div_scale_f32(n, d, n);
        let r = rcp_f32(ds);
        let r = fma_f32_soft(fma_f32_soft(-ds, r, 1.0), r, r);
        let q = ns * r;
        let q = fma_f32_soft(fma_f32_soft(-ds, q, ns), r, q);
        let e = fma_f32_soft(-ds, q, ns);
        let q = if scaled { div_fmas_f32(e, r, q) } else { fma_f32_soft(e, r, q) };
        div_fixup_f32(q, d, n)
    }

    /// The sequence that LLVM emits for f64 division.
    fn divide_f64(n: f64, d: f64) -> f64 {
        let (ds, _) = div_scale_f64(d, d, n);
        let (ns, scaled) = div_scale_f64(n, d, n);
        let mut r = rcp_f64(ds);
        for _ in 0..2 {
            r = fma_f64_soft(fma_f64_soft(-ds, r, 1.0), r, r);
        }
        let q = ns * r;
        let e = fma_f64_soft(-ds, q, ns);
        let q = if scaled { div_fmas_f64(e, r, q) } else { fma_f64_soft(e, r, q) };
        div_fixup_f64(q, d, n)
    }

    #[test]
    fn f32_division_is_correctly_rounded() {
        let mut random = Random::new(8);
        let check = |n: f32, d: f32| {
            let (got, want) = (divide_f32(n, d), n / d);
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{n:e} / {d:e}: {got:e} {want:e}"
            );
        };
        for n in EDGES_F32 {
            for d in EDGES_F32 {
                check(n, d);
            }
        }
        for _ in 0..500_000 {
            check(random.any_f32(), random.any_f32());
            check(random.near_f32(), random.near_f32());
            let d = random.any_f32();
            check(d * random.near_f32(), d);
            check(random.near_f32(), f32::from_bits(random.next_u32() & 0x807f_ffff | 253 << 23));
            check(f32::from_bits(random.next_u32() & 0x80ff_ffff), random.any_f32());
        }
    }

    #[test]
    fn f64_division_is_correctly_rounded() {
        let mut random = Random::new(9);
        let check = |n: f64, d: f64| {
            let (got, want) = (divide_f64(n, d), n / d);
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{n:e} / {d:e}: {got:e} {want:e}"
            );
        };
        for n in EDGES_F64 {
            for d in EDGES_F64 {
                check(n, d);
            }
        }
        for _ in 0..200_000 {
            check(random.any_f64(), random.any_f64());
            check(random.near_f64(), random.near_f64());
            let d = random.any_f64();
            check(d * random.near_f64(), d);
        }
    }

    #[test]
    fn f16_fixup_patches_every_special_case() {
        for n in [0u16, 0x8000, 0x3c00, 0xc000, 0x7c00, 0xfc00, 0x7e00, 1] {
            for d in [0u16, 0x8000, 0x3c00, 0xc000, 0x7c00, 0xfc00, 0x7e00, 1] {
                let want = f32_to_f16(f16_to_f32(n) / f16_to_f32(d));
                let estimate = want & 0x7fff;
                let got = div_fixup_f16(estimate, d, n);
                assert!(got == want || got & 0x7fff > 0x7c00 && want & 0x7fff > 0x7c00, "{n:#x} / {d:#x}");
            }
        }
    }
}
