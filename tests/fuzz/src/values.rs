//! What inputs hold: plain numbers, wide ranges, and those that go wrong.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rocfire_hal::DType;

use crate::data::{Data, limits};

/// How an input is filled. An input is a function of this, its shape, its type and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Quarters between -2 and 2, or small integers: sums and products of few of them are exact.
    Plain,
    /// Any number between -2 and 2, or between the type's limits divided by 4.
    Spread,
    /// Any exponent.
    Wide,
    /// NaN, infinities, zeros of both signs, denormal numbers, the type's limits, among plain ones.
    Special,
    /// Indices below a bound.
    Below(usize),
    /// Between 1/4 and 2: what roots, logarithms and divisors are defined for.
    Positive,
}

/// An input of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Its type.
    pub dtype: DType,
    /// Its extents.
    pub shape: Vec<usize>,
    /// What it holds.
    pub filling: Filling,
    /// Of its numbers.
    pub seed: u64,
}

impl Input {
    /// The numbers.
    pub fn data(&self) -> Data {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let count = self.shape.iter().product::<usize>();
        let bits = (0..count).map(|_| one(self.dtype, self.filling, &mut random)).collect();
        Data { dtype: self.dtype, shape: self.shape.clone(), bits }
    }
}

fn one(dtype: DType, filling: Filling, random: &mut ChaCha8Rng) -> u64 {
    let number = |number: f64| Data::of_numbers(dtype, &[1], [number]).bits[0];
    let quarters = |random: &mut ChaCha8Rng| f64::from(random.random_range(-8_i8..=8)) / 4.0;
    let mask = u64::MAX >> (64 - 8 * dtype.size_bytes());
    match filling {
        _ if dtype == DType::Bool => u64::from(random.random::<bool>()),
        Filling::Below(bound) => random.random_range(0..bound.max(1) as u64),
        Filling::Plain if dtype.is_float() => number(quarters(random)),
        Filling::Spread if dtype.is_float() => number(random.random_range(-2.0..2.0)),
        Filling::Positive if dtype.is_float() => number(random.random_range(0.25..2.0)),
        Filling::Wide if dtype.is_float() => {
            let (most, least) = limits(dtype);
            let exponent = random.random_range(least.max(f64::MIN_POSITIVE).log2()..most.log2() - 1.0);
            let sign = if random.random() { -1.0 } else { 1.0 };
            number(sign * exponent.exp2())
        }
        Filling::Special if dtype.is_float() => special(dtype, random).map_or_else(|| number(quarters(random)), number),
        Filling::Positive => random.random_range(1..=9),
        Filling::Plain => {
            let value = random.random_range(if dtype.is_signed_int() { -9 } else { 0 }..=9_i64);
            value as u64 & mask
        }
        Filling::Spread => random.random::<u64>() & mask >> 2,
        Filling::Wide => random.random::<u64>() & mask,
        Filling::Special => {
            // 0, 1, -1 or the largest unsigned one, the limits of signed numbers.
            let half = mask >> 1;
            [0, 1, mask, half, half + 1, 7][random.random_range(0..6)]
        }
    }
}

fn special(dtype: DType, random: &mut ChaCha8Rng) -> Option<f64> {
    let (most, least) = limits(dtype);
    let rare = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, most, -most, least, -least, 3.0 * least];
    let at: usize = random.random_range(0..2 * rare.len());
    rare.get(at).copied()
}
