//! Edge values and a small random generator shared by the tests of this module.

/// Values at which f32 arithmetic goes wrong first.
pub(crate) const EDGES_F32: [f32; 22] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    1.5,
    3.0,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    1.1e-38,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    16777216.0,
    0.99999994,
    1.0000001,
    -8388607.5,
];

/// Values at which f64 arithmetic goes wrong first.
pub(crate) const EDGES_F64: [f64; 20] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    f64::MIN_POSITIVE,
    -f64::MIN_POSITIVE,
    5e-324,
    -5e-324,
    1.1e-308,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    9007199254740993.0,
    0.9999999999999999,
    1.0000000000000002,
];

/// A 64-bit xorshift-multiply generator; the same numbers on every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// Any bit pattern.
    pub(crate) fn any_f32(&mut self) -> f32 {
        f32::from_bits(self.next_u32())
    }

    /// Any bit pattern.
    pub(crate) fn any_f64(&mut self) -> f64 {
        f64::from_bits(self.next())
    }

    /// Within a factor 8 of one, either sign.
    pub(crate) fn near_f32(&mut self) -> f32 {
        let bits = self.next_u32();
        f32::from_bits(bits & 0x807f_ffff | (124 + (bits >> 23) % 6) << 23)
    }

    /// Within a factor 8 of one, either sign.
    pub(crate) fn near_f64(&mut self) -> f64 {
        let bits = self.next();
        f64::from_bits(bits & 0x800f_ffff_ffff_ffff | (1020 + (bits >> 52) % 6) << 52)
    }
}
