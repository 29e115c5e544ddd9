//! Rounding f64 to floats of 16 bits.

/// The f32 on either side of `value` whose last bit is 1, unless `value` is one itself: rounded again to fewer bits, it rounds as
/// `value` does. `half`'s own conversions drop the lower 32 bits of the mantissa, which makes ties of what is none.
pub fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    if near.is_nan() || f64::from(near) == value {
        return near;
    }
    let below = if f64::from(near).abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(below | 1)
}
