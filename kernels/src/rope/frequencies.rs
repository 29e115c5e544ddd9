//! Frequencies of the rotary position embedding, and the ways to stretch them to longer contexts.

use std::f64::consts::PI;

/// How frequencies are changed for contexts longer than those trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RopeScaling {
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
    /// The factor of cosines and sines: 1 but for YaRN.
    pub magnitude: f64,
}

impl RopeFrequencies {
    /// For `rot` rotated elements: pair `i` turns by `base^(-2 i / rot)`, then scaled.
    pub fn new(rot: usize, base: f64, scaling: RopeScaling) -> RopeFrequencies {
        let (pairs, rot) = (rot / 2, rot as f64);
        let inverse = |base: f64| (0..pairs).map(move |i| base.powf(-2.0 * i as f64 / rot));
        let mut magnitude = 1.0;
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
                if factor > 1.0 {
                    magnitude = 0.1 * factor.ln() + 1.0;
                }
                // The pair that makes so many turns within `trained`.
                let pair = |turns: f64| rot * (trained / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
                let low = pair(fast).floor().max(0.0);
                let high = pair(slow).ceil().min(rot - 1.0);
                let width = if high > low { high - low } else { 1e-3 };
                let ramped = |(i, inverse): (usize, f64)| {
                    let divided = ((i as f64 - low) / width).clamp(0.0, 1.0);
                    inverse / factor * divided + inverse * (1.0 - divided)
                };
                inverse(base).enumerate().map(ramped).collect()
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
        RopeFrequencies { inverse, magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_pair_of_dynamic_ntk_turns_slower_by_the_length() {
        let plain = RopeFrequencies::new(64, 1e4, RopeScaling::None).inverse;
        let scaling = RopeScaling::DynamicNtk { factor: 1.0, trained: 1000.0, length: 4000.0 };
        let longer = RopeFrequencies::new(64, 1e4, scaling).inverse;
        assert_eq!(longer[0], 1.0);
        assert!((plain[31] / longer[31] - 4.0).abs() < 1e-9, "{}", plain[31] / longer[31]);
    }

    #[test]
    fn fast_pairs_are_kept_and_slow_ones_divided() {
        let plain = RopeFrequencies::new(128, 5e5, RopeScaling::None).inverse;
        for scaling in [
            RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, trained: 8192.0 },
            RopeScaling::Yarn { factor: 8.0, trained: 8192.0, fast: 32.0, slow: 1.0 },
        ] {
            let scaled = RopeFrequencies::new(128, 5e5, scaling);
            let ratio = |i: usize| plain[i] / scaled.inverse[i];
            assert!((ratio(0) - 1.0).abs() < 1e-12, "{scaling:?}");
            assert!((ratio(63) - 8.0).abs() < 1e-12, "{scaling:?}");
            assert!((1..64).all(|i| ratio(i) >= ratio(i - 1) - 1e-12), "{scaling:?}");
        }
    }
}
