//! Frequencies of the rotary position embedding, and the ways to stretch them to longer contexts.

use std::f64::consts::PI;

use crate::Result;
use crate::family::shape;

const OP: &str = "RopeFrequencies";

/// How frequencies are changed for contexts longer than those trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RopeScaling<'a> {
    /// As trained.
    #[default]
    None,
    /// Every position divided by `factor` (Chen et al., arXiv:2306.15595).
    Linear {
        /// By how much the context is longer.
        factor: f64,
    },
    /// A base that grows with the length, so that the slowest pair turns `factor` times slower at `factor` times the length.
    DynamicNtk {
        /// By how much the context may be longer.
        factor: f64,
        /// Positions trained on.
        trained: f64,
        /// Positions there are now; up to `trained`, nothing changes.
        length: f64,
    },
    /// Fast pairs kept, slow ones divided, a ramp between, and a magnitude of `0.1 ln factor + 1` (Peng et al., arXiv:2309.00071).
    Yarn {
        /// By how much the context is longer.
        factor: f64,
        /// Positions trained on.
        trained: f64,
        /// Turns within `trained` from which on a pair is kept: 32 in the paper.
        fast: f64,
        /// Turns within `trained` up to which a pair is divided: 1 in the paper.
        slow: f64,
    },
    /// Frequencies of [`RopeScaling::Yarn`], whose magnitude stands in the softmax's scale, of either part: with
    /// `m(x) = 0.1 x ln factor + 1`, cosines and sines are multiplied by `m(mscale) / m(mscale_all_dim)` and the scale of scores by
    /// `m(mscale_all_dim)²`, so that channels that do not turn have it too (`modeling_deepseek.py` of the published DeepSeek-V3, whose
    /// `config.json` says 40, 4096, 32, 1, 1 and 1, with a base of 10000 and 64 rotated elements).
    DeepSeekYarn {
        /// By how much the context is longer.
        factor: f64,
        /// Positions trained on: `original_max_position_embeddings`.
        trained: f64,
        /// Turns within `trained` from which on a pair is kept: `beta_fast`.
        fast: f64,
        /// Turns within `trained` up to which a pair is divided: `beta_slow`.
        slow: f64,
        /// Of channels that turn.
        mscale: f64,
        /// Of all channels; 0: the softmax's scale is the model's.
        mscale_all_dim: f64,
    },
    /// Phi-3's LongRoPE: each pair divided by a factor of its own, of which there are two lists, and a magnitude of
    /// `sqrt(1 + ln(longest / trained) / ln trained)` for either (Ding et al., arXiv:2402.13753; `modeling_phi3.py` of the published
    /// Phi-3-mini-128k). A model that says another magnitude has it put into [`RopeFrequencies::magnitude`].
    LongRope {
        /// What pairs are divided by up to `trained` positions, `[rot / 2]`.
        short: &'a [f64],
        /// And beyond, `[rot / 2]`.
        long: &'a [f64],
        /// Positions trained on at first: `original_max_position_embeddings`.
        trained: f64,
        /// Positions that the model has: `max_position_embeddings`.
        longest: f64,
        /// Positions there are now.
        length: f64,
    },
    /// As of Llama 3.1: long wavelengths divided, short ones kept, a blend between.
    Llama3 {
        /// By how much the context is longer.
        factor: f64,
        /// Wavelengths above `trained / low` are divided.
        low: f64,
        /// Wavelengths below `trained / high` are kept.
        high: f64,
        /// Positions trained on.
        trained: f64,
    },
}

/// Angles per position, and what cosines and sines are multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeFrequencies {
    /// Radians per position of each pair.
    pub inverse: Vec<f64>,
    /// The factor of cosines and sines: 1 but for YaRN and LongRoPE.
    pub magnitude: f64,
    /// The factor of the softmax's scale: 1 but for [`RopeScaling::DeepSeekYarn`].
    pub scores: f64,
}

impl RopeFrequencies {
    /// For `rot` rotated elements: pair `i` turns by `base^(-2 i / rot)`, then scaled.
    ///
    /// # Errors
    /// `Shape` for a `rot` that is odd or 0, a base, a factor or a number of positions that is not positive, and for lists that do not
    /// have a factor for each pair.
    pub fn new(rot: usize, base: f64, scaling: RopeScaling<'_>) -> Result<RopeFrequencies> {
        if rot == 0 || !rot.is_multiple_of(2) {
            return Err(shape(OP, "rot", "even and above 0", rot));
        }
        positive("base", base)?;
        scaling.check(rot / 2)?;
        let (pairs, rot) = (rot / 2, rot as f64);
        let inverse = |base: f64| (0..pairs).map(move |i| base.powf(-2.0 * i as f64 / rot));
        let (mut magnitude, mut scores) = (1.0, 1.0);
        let inverse = match scaling {
            RopeScaling::None => inverse(base).collect(),
            RopeScaling::Linear { factor } => inverse(base).map(|inverse| inverse / factor).collect(),
            RopeScaling::DynamicNtk { factor, trained, length } => {
                let longer = (factor * length / trained - (factor - 1.0)).max(1.0);
                // A single pair does not turn any slower: its exponent is 0.
                let exponent = if pairs > 1 { rot / (rot - 2.0) } else { 0.0 };
                inverse(base * longer.powf(exponent)).collect()
            }
            RopeScaling::Yarn { factor, trained, fast, slow } => {
                magnitude = yarn_magnitude(factor, 1.0);
                ramped(inverse(base), [rot, base], factor, trained, [fast, slow])
            }
            RopeScaling::DeepSeekYarn { factor, trained, fast, slow, mscale, mscale_all_dim } => {
                magnitude = yarn_magnitude(factor, mscale) / yarn_magnitude(factor, mscale_all_dim);
                scores = yarn_magnitude(factor, mscale_all_dim).powi(2);
                ramped(inverse(base), [rot, base], factor, trained, [fast, slow])
            }
            RopeScaling::LongRope { short, long, trained, longest, length } => {
                if longest > trained {
                    magnitude = (1.0 + (longest / trained).ln() / trained.ln()).sqrt();
                }
                let factors = if length > trained { long } else { short };
                inverse(base).zip(factors).map(|(inverse, factor)| inverse / factor).collect()
            }
            RopeScaling::Llama3 { factor, low, high, trained } => {
                let blended = |inverse: f64| {
                    let turns = trained * inverse / (2.0 * PI);
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    inverse / factor * (1.0 - kept) + inverse * kept
                };
                inverse(base).map(blended).collect()
            }
        };
        Ok(RopeFrequencies { inverse, magnitude, scores })
    }
}

impl RopeScaling<'_> {
    fn check(&self, pairs: usize) -> Result<()> {
        let all = |numbers: &[(&'static str, f64)]| numbers.iter().try_for_each(|&(arg, value)| positive(arg, value));
        match *self {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => positive("factor", factor),
            RopeScaling::DynamicNtk { factor, trained, length } => {
                all(&[("factor", factor), ("trained", trained), ("length", length)])
            }
            RopeScaling::Yarn { factor, trained, fast, slow }
            | RopeScaling::DeepSeekYarn { factor, trained, fast, slow, .. } => {
                all(&[("factor", factor), ("trained", trained), ("fast", fast), ("slow", slow)])
            }
            RopeScaling::Llama3 { factor, trained, .. } => all(&[("factor", factor), ("trained", trained)]),
            RopeScaling::LongRope { short, long, trained, longest, length } => {
                all(&[("longest", longest), ("length", length)])?;
                if trained.is_nan() || trained <= 1.0 {
                    return Err(shape(OP, "trained", "more than one position", trained));
                }
                for (arg, factors) in [("short", short), ("long", long)] {
                    if factors.len() != pairs {
                        return Err(shape(OP, arg, format!("{pairs} factors, one of each pair"), factors.len()));
                    }
                    factors.iter().try_for_each(|&factor| positive(arg, factor))?;
                }
                Ok(())
            }
        }
    }
}

fn positive(arg: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(shape(OP, arg, "a positive number", value)) }
}

/// YaRN's magnitude of so much of a weight.
fn yarn_magnitude(factor: f64, weight: f64) -> f64 {
    if factor > 1.0 { 0.1 * weight * factor.ln() + 1.0 } else { 1.0 }
}

/// YaRN's frequencies: pairs that turn `fast` times within `trained` as they are, those that turn `slow` times divided, a ramp between.
fn ramped(
    inverse: impl Iterator<Item = f64>,
    [rot, base]: [f64; 2],
    factor: f64,
    trained: f64,
    [fast, slow]: [f64; 2],
) -> Vec<f64> {
    // The pair that makes so many turns within `trained`.
    let pair = |turns: f64| rot * (trained / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
    let low = pair(fast).floor().max(0.0);
    let high = pair(slow).ceil().min(rot - 1.0);
    let width = if high > low { high - low } else { 1e-3 };
    let blended = |(i, inverse): (usize, f64)| {
        let divided = ((i as f64 - low) / width).clamp(0.0, 1.0);
        inverse / factor * divided + inverse * (1.0 - divided)
    };
    inverse.enumerate().map(blended).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_pair_of_dynamic_ntk_turns_slower_by_the_length() {
        let plain = RopeFrequencies::new(64, 1e4, RopeScaling::None).unwrap().inverse;
        let scaling = RopeScaling::DynamicNtk { factor: 1.0, trained: 1000.0, length: 4000.0 };
        let longer = RopeFrequencies::new(64, 1e4, scaling).unwrap().inverse;
        assert_eq!(longer[0], 1.0);
        assert!((plain[31] / longer[31] - 4.0).abs() < 1e-9, "{}", plain[31] / longer[31]);
    }

    #[test]
    fn fast_pairs_are_kept_and_slow_ones_divided() {
        let plain = RopeFrequencies::new(128, 5e5, RopeScaling::None).unwrap().inverse;
        for scaling in [
            RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, trained: 8192.0 },
            RopeScaling::Yarn { factor: 8.0, trained: 8192.0, fast: 32.0, slow: 1.0 },
        ] {
            let scaled = RopeFrequencies::new(128, 5e5, scaling).unwrap();
            let ratio = |i: usize| plain[i] / scaled.inverse[i];
            assert!((ratio(0) - 1.0).abs() < 1e-12, "{scaling:?}");
            assert!((ratio(63) - 8.0).abs() < 1e-12, "{scaling:?}");
            assert!((1..64).all(|i| ratio(i) >= ratio(i - 1) - 1e-12), "{scaling:?}");
        }
    }

    /// DeepSeek-V3's, as its `config.json` has it.
    const DEEP_SEEK: RopeScaling<'_> = RopeScaling::DeepSeekYarn {
        factor: 40.0,
        trained: 4096.0,
        fast: 32.0,
        slow: 1.0,
        mscale: 1.0,
        mscale_all_dim: 1.0,
    };

    #[test]
    fn yarn_of_deep_seek_v3_ramps_from_pair_10_to_pair_23() {
        let RopeFrequencies { inverse, magnitude, scores } = RopeFrequencies::new(64, 1e4, DEEP_SEEK).unwrap();
        // 32 ln(4096 / (32 · 2π)) / ln 10000 = 10.47, of 1 turn 22.51: both by hand from the formula.
        for (i, inverse) in inverse.into_iter().enumerate() {
            let trained = 1e4_f64.powf(-(i as f64) / 32.0);
            let kept = match i {
                0..=10 => 1.0,
                11..=22 => (23 - i) as f64 / 13.0,
                _ => 0.0,
            };
            let want = trained / 40.0 * (1.0 - kept) + trained * kept;
            assert!((inverse / want - 1.0).abs() < 1e-12, "pair {i}: {inverse}, not {want}");
        }
        assert_eq!(magnitude, 1.0, "both weights are 1: their quotient is");
        // (0.1 ln 40 + 1)²
        assert!((scores - 1.873_854).abs() < 1e-6, "{scores}");
    }

    #[test]
    fn weights_of_deep_seeks_yarn_share_the_magnitude() {
        let of = |weights: [f64; 2], by: f64| {
            let [mscale, mscale_all_dim] = weights;
            let scaling = RopeScaling::DeepSeekYarn {
                factor: by,
                trained: 4096.0,
                fast: 32.0,
                slow: 1.0,
                mscale,
                mscale_all_dim,
            };
            let RopeFrequencies { magnitude, scores, .. } = RopeFrequencies::new(64, 1e4, scaling).unwrap();
            (magnitude, scores)
        };
        // Without a weight of all channels it is plain YaRN's.
        let yarn = RopeScaling::Yarn { factor: 40.0, trained: 4096.0, fast: 32.0, slow: 1.0 };
        assert_eq!(of([1.0, 0.0], 40.0), (RopeFrequencies::new(64, 1e4, yarn).unwrap().magnitude, 1.0));
        // DeepSeek-V2-Lite's 0.707, of both.
        let (magnitude, scores) = of([0.707, 0.707], 40.0);
        assert_eq!(magnitude, 1.0);
        assert!((scores - (0.0707 * 40.0_f64.ln() + 1.0).powi(2)).abs() < 1e-12, "{scores}");
        let (magnitude, _) = of([1.0, 0.5], 40.0);
        assert!((magnitude - (0.1 * 40.0_f64.ln() + 1.0) / (0.05 * 40.0_f64.ln() + 1.0)).abs() < 1e-12, "{magnitude}");
        assert_eq!(of([1.0, 0.5], 1.0), (1.0, 1.0), "a context that is not longer changes nothing");
    }

    #[test]
    fn long_rope_divides_each_pair_by_its_own_factor() {
        let (short, long) = ([1.0, 1.05, 1.1, 1.5], [1.0, 2.0, 16.0, 64.0]);
        let of = |length: f64, longest: f64| {
            let scaling = RopeScaling::LongRope { short: &short, long: &long, trained: 4096.0, longest, length };
            RopeFrequencies::new(8, 1e4, scaling).unwrap()
        };
        for (length, factors) in [(4096.0, short), (4097.0, long)] {
            let RopeFrequencies { inverse, magnitude, scores } = of(length, 131_072.0);
            for ((i, inverse), factor) in inverse.into_iter().enumerate().zip(factors) {
                assert!((inverse * factor / 10.0_f64.powi(-(i as i32)) - 1.0).abs() < 1e-12, "{length}, pair {i}");
            }
            // sqrt(1 + ln 32 / ln 4096) = sqrt(1 + 5 / 12), at either length.
            assert!((magnitude - (17.0_f64 / 12.0).sqrt()).abs() < 1e-12, "{magnitude}");
            assert_eq!(scores, 1.0);
        }
        assert_eq!(of(4096.0, 4096.0).magnitude, 1.0);
    }

    #[test]
    fn what_cannot_be_scaled_by_is_named() {
        fn refused(rot: usize, base: f64, scaling: RopeScaling<'_>) -> String {
            RopeFrequencies::new(rot, base, scaling).unwrap_err().to_string()
        }
        assert!(refused(7, 1e4, RopeScaling::None).contains("rot"));
        assert!(refused(8, 0.0, RopeScaling::None).contains("base"));
        assert!(refused(8, 1e4, RopeScaling::Linear { factor: 0.0 }).contains("factor"));
        let long = |short: &[f64], trained: f64| {
            let scaling = RopeScaling::LongRope { short, long: &[1.0; 4], trained, longest: 100.0, length: 10.0 };
            refused(8, 1e4, scaling)
        };
        assert!(long(&[1.0; 3], 10.0).contains("short"));
        assert!(long(&[0.0; 4], 10.0).contains("short"));
        assert!(long(&[1.0; 4], 1.0).contains("trained"));
    }
}
