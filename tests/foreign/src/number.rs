//! Numbers for kernels: pseudo-random ones, and the narrow formats that they are kept in.

use half::{bf16, f16};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Pseudo-random numbers, the same on every run.
pub struct Random(ChaCha8Rng);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    /// One that is nearly normal: the sum of twelve uniform ones.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.0.random::<f64>()).sum::<f64>() - 6.0
    }

    /// Nearly normal ones of this deviation.
    pub fn normals(&mut self, count: usize, deviation: f64) -> Vec<f64> {
        (0..count).map(|_| deviation * self.normal()).collect()
    }

    /// From zero to below one.
    pub fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// A whole number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    /// Any bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.0.random()).collect()
    }

    /// The numbers below `count` in any order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}

/// A format of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// bfloat16.
    Bf16,
    /// IEEE's binary16.
    F16,
}

impl Half {
    /// The bits of the nearest.
    pub fn bits(self, value: f64) -> u16 {
        match self {
            Half::Bf16 => bf16::from_f64(value).to_bits(),
            Half::F16 => f16::from_f64(value).to_bits(),
        }
    }

    /// What bits stand for.
    pub fn value(self, bits: u16) -> f64 {
        match self {
            Half::Bf16 => bf16::from_bits(bits).to_f64(),
            Half::F16 => f16::from_bits(bits).to_f64(),
        }
    }

    /// Bits of all, and what those stand for.
    pub fn rounded(self, values: &[f64]) -> (Vec<u16>, Vec<f64>) {
        let bits: Vec<u16> = values.iter().map(|&value| self.bits(value)).collect();
        let values = self.values(&bits);
        (bits, values)
    }

    /// What bits stand for.
    pub fn values(self, bits: &[u16]) -> Vec<f64> {
        bits.iter().map(|&bits| self.value(bits)).collect()
    }
}

/// A format of 8 bits with four of exponent and three of mantissa, or an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Byte {
    /// e4m3 of the Open Compute Project: bias 7, gfx950's.
    Ocp,
    /// e4m3 without infinities and minus zero: bias 8, gfx942's.
    Fnuz,
    /// Two's complement.
    Int,
}

impl Byte {
    /// The fp8 of an architecture.
    pub fn fp8(arch: &str) -> Byte {
        if arch == "gfx942" { Byte::Fnuz } else { Byte::Ocp }
    }

    /// What a byte stands for; no number for those that stand for none.
    pub fn value(self, byte: u8) -> f64 {
        let bias = match self {
            Byte::Int => return f64::from(byte as i8),
            Byte::Ocp if byte & 0x7f == 0x7f => return f64::NAN,
            Byte::Fnuz if byte == 0x80 => return f64::NAN,
            Byte::Ocp => 7,
            Byte::Fnuz => 8,
        };
        let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
        let size = match exponent {
            0 => mantissa * f64::from(1 - bias - 3).exp2(),
            _ => (8.0 + mantissa) * f64::from(exponent - bias - 3).exp2(),
        };
        if byte & 0x80 == 0 { size } else { -size }
    }

    /// The largest number.
    pub fn largest(self) -> f64 {
        match self {
            Byte::Ocp => 448.0,
            Byte::Fnuz => 240.0,
            Byte::Int => 127.0,
        }
    }

    /// Bytes nearest to values, which are up to [`largest`](Byte::largest).
    pub fn rounded(self, values: &[f64]) -> (Vec<u8>, Vec<f64>) {
        let mut known: Vec<(f64, u8)> = (0..=255).map(|byte| (self.value(byte), byte)).collect();
        known.retain(|(value, _)| value.is_finite());
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let nearest = |value: f64| {
            let above = known.partition_point(|&(other, _)| other < value).min(known.len() - 1);
            let below = above.saturating_sub(1);
            if value - known[below].0 < known[above].0 - value { known[below] } else { known[above] }
        };
        let pairs: Vec<(f64, u8)> = values.iter().map(|&value| nearest(value)).collect();
        (pairs.iter().map(|pair| pair.1).collect(), pairs.iter().map(|pair| pair.0).collect())
    }
}

/// e2m1: what the lower four bits of a byte stand for.
pub fn fp4(bits: u8) -> f64 {
    let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(bits & 7)];
    if bits & 8 == 0 { size } else { -size }
}

/// The largest difference between what came out and the reference, in units of the reference's largest value. What is no number
/// is infinitely far away.
pub fn distance(found: &[f64], reference: &[f64]) -> f64 {
    assert_eq!(found.len(), reference.len(), "as many values as the reference has");
    let largest = reference.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let far = |(found, reference): (&f64, &f64)| {
        let difference = (found - reference).abs();
        if difference.is_finite() { difference } else { f64::INFINITY }
    };
    found.iter().zip(reference).map(far).fold(0.0, f64::max) / largest
}

/// Bytes of elements, laid out as AITER's kernels want weights: tiles of `rows` rows and `2 * columns` columns, in each the
/// columns in pieces of 16 bytes, and in a piece row by row.
pub fn shuffled<T: Copy>(matrix: &[T], width: usize, rows: usize, columns: usize) -> Vec<T> {
    let (piece, wide) = (16 / size_of::<T>(), 2 * columns);
    let height = matrix.len() / width;
    let mut out = Vec::with_capacity(matrix.len());
    for top in (0..height).step_by(rows) {
        for left in (0..width).step_by(wide) {
            for part in (left..left + wide).step_by(piece) {
                for row in top..top + rows {
                    out.extend_from_slice(&matrix[row * width + part..][..piece]);
                }
            }
        }
    }
    out
}
