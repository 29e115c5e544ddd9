//! Random numbers: each element against a host's Philox4x32-10, so that a seed means the same everywhere.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::random::{Seed, bernoulli, normal, uniform};

use super::{Call, Case, Failure};
use crate::data::Array;

const SIZES: [usize; 6] = [0, 1, 63, 67, 1024, 1031];
const SEED: Seed = Seed { seed: 0x0123_4567_89ab_cdef, offset: 42 };

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, count) in SIZES.into_iter().enumerate() {
        for dtype in [DType::F32, DType::F64, [DType::F16, DType::BF16][turn % 2]] {
            cases.push(case("random_uniform", dtype, count, |stream, out| {
                Ok(uniform(stream, SEED, -3.0, 5.0, out.view_mut())?)
            }));
            cases.push(case("random_normal", dtype, count, |stream, out| {
                Ok(normal(stream, SEED, 0.5, 2.0, out.view_mut())?)
            }));
        }
        // A coin is the same in every type.
        let coins = [DType::F32, DType::U8, DType::F16, DType::I64, DType::Bool, DType::BF16];
        cases.push(case("random_bernoulli", coins[turn], count, |stream, out| {
            Ok(bernoulli(stream, SEED, 0.3, out.view_mut())?)
        }));
    }
    cases
}

fn case(
    operator: &'static str,
    dtype: DType,
    count: usize,
    fill: impl Fn(&Stream, &mut Tensor) -> Result<(), Failure> + Send + Sync + 'static,
) -> Case {
    let launch = move |stream: &Stream, _: &[Tensor], outputs: &mut [Tensor]| fill(stream, &mut outputs[0]);
    let oracle = move |_: &[_]| vec![(0..count).map(|element| draw(operator, dtype, element as u64)).collect()];
    let call = Call { inputs: Vec::new(), outputs: vec![(vec![count], dtype)], launch, oracle };
    Case::new(operator, dtype, count.to_string(), 0.0, call)
}

/// What an element should be, in f64.
fn draw(operator: &str, dtype: DType, element: u64) -> f64 {
    let wide = dtype == DType::F64;
    // Bernoulli compares words, four to a block, whatever the type.
    let per = if wide && operator != "random_bernoulli" { 2 } else { 4 };
    let words = philox(element / per, SEED.offset, SEED.seed);
    let at = (element % per) as usize;
    let unit = |at: usize| {
        if wide {
            ((u64::from(words[2 * at + 1]) << 32 | u64::from(words[2 * at])) >> 11) as f64 * 2.0_f64.powi(-53)
        } else {
            f64::from(words[at] >> 8) * 2.0_f64.powi(-24)
        }
    };
    match operator {
        "random_uniform" => {
            // What rounds up to the excluded end becomes the other.
            let value = unit(at) * 8.0 - 3.0;
            if Array::new(&[1], dtype, vec![value]).values[0] < 5.0 { value } else { -3.0 }
        }
        "random_bernoulli" => f64::from(u8::from(f64::from(words[at]) < (0.3 * 2.0_f64.powi(32)).round())),
        _ => {
            let (first, second) = (unit(at / 2 * 2), unit(at / 2 * 2 + 1));
            // The radius takes its uniform from (0, 1]: one step up in f32, mirrored in f64.
            let radius = (-2.0 * if wide { (1.0 - first).ln() } else { (first + 2.0_f64.powi(-24)).ln() }).sqrt();
            let angle = second * std::f64::consts::TAU;
            0.5 + 2.0 * radius * if at.is_multiple_of(2) { angle.cos() } else { angle.sin() }
        }
    }
}

/// Philox4x32-10 as its paper gives it.
pub(super) fn philox(counter_low: u64, counter_high: u64, key: u64) -> [u32; 4] {
    let halves = |word: u64| (word as u32, (word >> 32) as u32);
    let ((mut c0, mut c1), (mut c2, mut c3)) = (halves(counter_low), halves(counter_high));
    let (mut k0, mut k1) = halves(key);
    for _ in 0..10 {
        let (low0, high0) = halves(0xd251_1f53 * u64::from(c0));
        let (low1, high1) = halves(0xcd9e_8d57 * u64::from(c2));
        (c0, c1, c2, c3) = (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0);
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::philox;

    /// The known answers that Random123 publishes for philox4x32-10.
    #[test]
    fn philox_gives_the_published_answers() {
        assert_eq!(philox(0, 0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox(u64::MAX, u64::MAX, u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }
}
