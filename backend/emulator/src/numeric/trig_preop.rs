//! `v_trig_preop_f64`: a segment of 2/π for the exact reduction of large arguments.

use super::ldexp_f64;

/// The first 1216 bits of the fraction of 2/π, most significant word first (computed with Machin's formula; the ISA's table
/// has 1201).
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// 53 bits of 2/π for argument `x`: the `segment & 31`-th group, further down for a large `x`, as an f64 of the value that
/// they have in 2/π (times 2^128 for very large `x`, so that the product does not underflow).
pub(crate) fn trig_preop_f64(x: f64, segment: u32) -> f64 {
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32;
    let shift = (segment & 31) as i32 * 53 + (exponent - 1077).max(0);
    let word = |i: usize| u128::from(TWO_OVER_PI.get(i).copied().unwrap_or(0));
    let first = shift as usize / 64;
    let window = word(first) << 64 | word(first + 1);
    let bits = (window << (shift % 64) >> (128 - 53)) as u64;
    let scale = -53 - shift + if exponent >= 1968 { 128 } else { 0 };
    ldexp_f64(bits as f64, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_add_up_to_two_over_pi() {
        let sum = trig_preop_f64(1.0, 2) + trig_preop_f64(1.0, 1) + trig_preop_f64(1.0, 0);
        assert_eq!(sum, std::f64::consts::FRAC_2_PI);
        // 2^200: exponent field 1223, so the window starts 146 bits further down; 200 - 146 bits are whole turns.
        let high = trig_preop_f64(2f64.powi(200), 0);
        assert!(high < 2f64.powi(-146) && high >= 0.0);
        assert_eq!(trig_preop_f64(f64::MAX, 31), 0.0, "beyond the table there are zeros");
    }
}
