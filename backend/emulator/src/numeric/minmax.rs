//! Minimum, maximum and median with AMD's rules: −0 is below +0, a signalling NaN gives its quiet form (IEEE mode), and
//! otherwise a number wins over a NaN.

use super::nan::*;

macro_rules! float_min_max {
    ($min:ident $max:ident $min3:ident $max3:ident $med3:ident $bits:ty, $float:expr, $is_nan:ident, $quiet_bit:literal) => {
        /// The smaller value.
        #[inline(always)]
        pub(crate) fn $min(a: $bits, b: $bits) -> $bits {
            let (x, y) = ($float(a), $float(b));
            // Equal values differ in at most the sign of zero, which or-ing makes negative.
            let number = if x < y {
                a
            } else if x == y {
                a | b
            } else {
                b
            };
            pick(a, b, number, $is_nan, $quiet_bit)
        }

        /// The larger value.
        #[inline(always)]
        pub(crate) fn $max(a: $bits, b: $bits) -> $bits {
            let (x, y) = ($float(a), $float(b));
            let number = if x > y {
                a
            } else if x == y {
                a & b
            } else {
                b
            };
            pick(a, b, number, $is_nan, $quiet_bit)
        }

        /// The smallest of three.
        #[inline(always)]
        pub(crate) fn $min3(a: $bits, b: $bits, c: $bits) -> $bits {
            $min($min(a, b), c)
        }

        /// The largest of three.
        #[inline(always)]
        pub(crate) fn $max3(a: $bits, b: $bits, c: $bits) -> $bits {
            $max($max(a, b), c)
        }

        /// The middle of three; with a NaN among them their minimum.
        #[inline(always)]
        pub(crate) fn $med3(a: $bits, b: $bits, c: $bits) -> $bits {
            let middle = $max($min(a, b), $min($max(a, b), c));
            if $is_nan(a) || $is_nan(b) || $is_nan(c) { $min3(a, b, c) } else { middle }
        }
    };
}

/// `number` unless a source is NaN: a signalling one made quiet, else the other source.
#[inline(always)]
fn pick<T>(a: T, b: T, number: T, is_nan: impl Fn(T) -> bool, quiet_bit: u32) -> T
where
    T: Copy
        + PartialEq
        + From<u8>
        + std::ops::BitOr<Output = T>
        + std::ops::BitAnd<Output = T>
        + std::ops::Shl<u32, Output = T>,
{
    let quiet = T::from(1) << quiet_bit;
    let zero = T::from(0);
    let signals = |x: T| is_nan(x) & (x & quiet == zero);
    let out = if is_nan(b) { a } else { number };
    let out = if is_nan(a) { b } else { out };
    // Of two quiet NaNs the first is returned, as in every other operation.
    let out = if is_nan(a) & is_nan(b) { a } else { out };
    let out = if signals(b) { b | quiet } else { out };
    if signals(a) { a | quiet } else { out }
}

float_min_max!(min_f32 max_f32 min3_f32 max3_f32 med3_f32 u32, f32::from_bits, is_nan_f32, 22);
float_min_max!(min_f16 max_f16 min3_f16 max3_f16 med3_f16 u16, super::f16_to_f32, is_nan_f16, 9);

/// The minima and maxima of IEEE 754-2019 (RDNA 4): `…_num` prefers a number to any NaN, `minimum` and `maximum` return a
/// NaN if there is one, a signalling one first.
macro_rules! ieee_min_max {
    ($min:ident $max:ident $min_num:ident $max_num:ident $minimum:ident $maximum:ident $bits:ty, $is_nan:ident, $quiet_bit:literal) => {
        /// The smaller number.
        #[inline(always)]
        pub(crate) fn $min_num(a: $bits, b: $bits) -> $bits {
            number(a, b, $min, $is_nan, 1 << $quiet_bit)
        }

        /// The larger number.
        #[inline(always)]
        pub(crate) fn $max_num(a: $bits, b: $bits) -> $bits {
            number(a, b, $max, $is_nan, 1 << $quiet_bit)
        }

        /// The smaller value, or a NaN.
        #[inline(always)]
        pub(crate) fn $minimum(a: $bits, b: $bits) -> $bits {
            value(a, b, $min, $is_nan, 1 << $quiet_bit)
        }

        /// The larger value, or a NaN.
        #[inline(always)]
        pub(crate) fn $maximum(a: $bits, b: $bits) -> $bits {
            value(a, b, $max, $is_nan, 1 << $quiet_bit)
        }
    };
}

#[inline(always)]
fn number<T: Copy + std::ops::BitOr<Output = T>>(
    a: T,
    b: T,
    f: impl Fn(T, T) -> T,
    is_nan: impl Fn(T) -> bool,
    quiet: T,
) -> T {
    match (is_nan(a), is_nan(b)) {
        (false, false) => f(a, b),
        (true, true) => a | quiet,
        (true, false) => b,
        (false, true) => a,
    }
}

#[inline(always)]
fn value<T>(a: T, b: T, f: impl Fn(T, T) -> T, is_nan: impl Fn(T) -> bool, quiet: T) -> T
where
    T: Copy + PartialEq + std::ops::BitOr<Output = T> + std::ops::BitAnd<Output = T>,
{
    let signals = |x: T| is_nan(x) && x & quiet != quiet;
    match (is_nan(a), is_nan(b)) {
        (false, false) => f(a, b),
        (_, true) if signals(b) && !signals(a) => b | quiet,
        (true, _) => a | quiet,
        (false, true) => b,
    }
}

ieee_min_max!(min_f32 max_f32 min_num_f32 max_num_f32 minimum_f32 maximum_f32 u32, is_nan_f32, 22);
ieee_min_max!(min_f16 max_f16 min_num_f16 max_num_f16 minimum_f16 maximum_f16 u16, is_nan_f16, 9);
ieee_min_max!(min_f64 max_f64 min_num_f64 max_num_f64 minimum_f64 maximum_f64 u64, is_nan_f64, 51);

/// The smaller value.
#[inline(always)]
pub(crate) fn min_f64(a: u64, b: u64) -> u64 {
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
    let number = if x < y {
        a
    } else if x == y {
        a | b
    } else {
        b
    };
    pick(a, b, number, is_nan_f64, 51)
}

/// The larger value.
#[inline(always)]
pub(crate) fn max_f64(a: u64, b: u64) -> u64 {
    let (x, y) = (f64::from_bits(a), f64::from_bits(b));
    let number = if x > y {
        a
    } else if x == y {
        a & b
    } else {
        b
    };
    pick(a, b, number, is_nan_f64, 51)
}

/// The middle of three integers.
#[inline(always)]
pub(crate) fn med3<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u32 = 0x3f80_0000;
    const QUIET: u32 = 0x7fc0_0005;
    const SIGNALLING: u32 = 0xff80_0007;

    #[test]
    fn zeros_are_ordered_by_sign() {
        let (plus, minus) = (0, 0x8000_0000);
        assert_eq!((min_f32(plus, minus), min_f32(minus, plus)), (minus, minus));
        assert_eq!((max_f32(plus, minus), max_f32(minus, plus)), (plus, plus));
        assert_eq!(max_f32(minus, minus), minus);
        assert_eq!(min_f64(0, 1 << 63), 1 << 63);
        assert_eq!(max_f16(0x8000, 0), 0);
        assert_eq!(min_f16(0x8000, 0), 0x8000);
    }

    #[test]
    fn a_number_wins_over_a_quiet_nan_and_a_signalling_nan_over_all() {
        for f in [min_f32, max_f32] {
            assert_eq!(f(ONE, QUIET), ONE);
            assert_eq!(f(QUIET, ONE), ONE);
            assert_eq!(f(QUIET, 0xffc0_0000), QUIET);
            assert_eq!(f(SIGNALLING, ONE), 0xffc0_0007);
            assert_eq!(f(ONE, SIGNALLING), 0xffc0_0007);
        }
        assert_eq!(max_f64(f64::NAN.to_bits(), 1f64.to_bits()), 1f64.to_bits());
    }

    #[test]
    fn of_2019_number_and_value_differ_in_their_nans() {
        for f in [min_num_f32, max_num_f32] {
            assert_eq!((f(ONE, QUIET), f(SIGNALLING, ONE), f(ONE, SIGNALLING)), (ONE, ONE, ONE));
            assert_eq!(f(SIGNALLING, QUIET), SIGNALLING | 1 << 22);
        }
        for f in [minimum_f32, maximum_f32] {
            assert_eq!((f(ONE, QUIET), f(QUIET, ONE)), (QUIET, QUIET));
            assert_eq!(f(QUIET, SIGNALLING), SIGNALLING | 1 << 22);
        }
        assert_eq!((min_num_f16(0, 0x8000), maximum_f16(0x8000, 0)), (0x8000, 0));
        assert_eq!(minimum_f64(1f64.to_bits(), 2f64.to_bits()), 1f64.to_bits());
    }

    #[test]
    fn the_median_sorts_and_falls_back_to_the_minimum() {
        let values = [-3.5f32, -0.0, 0.0, 1.0, 7.0, f32::INFINITY];
        for a in values {
            for b in values {
                for c in values {
                    let mut sorted = [a, b, c];
                    sorted.sort_by(f32::total_cmp);
                    let got = med3_f32(a.to_bits(), b.to_bits(), c.to_bits());
                    assert_eq!(got, sorted[1].to_bits());
                    assert_eq!(min3_f32(a.to_bits(), b.to_bits(), c.to_bits()), sorted[0].to_bits());
                    assert_eq!(max3_f32(a.to_bits(), b.to_bits(), c.to_bits()), sorted[2].to_bits());
                }
            }
        }
        let two = 0x4000_0000;
        assert_eq!(med3_f32(QUIET, two, ONE), ONE);
        assert_eq!(med3_f32(two, QUIET, ONE), ONE);
        assert_eq!(med3_f32(two, ONE, QUIET), ONE);
        assert_eq!(med3_f16(0x4000, 0x3c00, 0x7e00), 0x3c00);
        assert_eq!(med3(3, 1, 2), 2);
        assert_eq!(med3(-5i32, 9, 7), 7);
    }
}
