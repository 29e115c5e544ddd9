//! Random tensors.
//!
//! Each device has a seed and counts the draws since it was set: a draw is a function of the two and of an element's index,
//! so a program with one thread gets the same numbers on every run. Before the first [`seed`] the seed is 0.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use burn_backend::Distribution;
use rocfire_hal::{DType, DeviceId, Tensor};
use rocfire_kernels::random::{Seed, bernoulli, normal, uniform};

use super::memory;
use crate::RocmDevice;
use crate::error::Result;

static SEEDS: LazyLock<Mutex<HashMap<DeviceId, Seed>>> = LazyLock::new(Mutex::default);

/// Integers without a distribution are below this, as those of Burn's other GPU backends are.
const INTEGER_BOUND: f64 = 255.0;

/// Starts a device's sequence anew.
pub(crate) fn seed(device: DeviceId, seed: u64) {
    SEEDS.lock().unwrap_or_else(PoisonError::into_inner).insert(device, Seed { seed, offset: 0 });
}

/// The next draw of a device's sequence.
pub(crate) fn next(device: DeviceId) -> Seed {
    let mut seeds = SEEDS.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = seeds.entry(device).or_insert(Seed { seed: 0, offset: 0 });
    let draw = *seed;
    seed.offset += 1;
    draw
}

/// The next draw of a device's sequence, for an operator that draws itself.
pub(crate) fn next_draw(device: &RocmDevice) -> Result<Seed> {
    Ok(next(device.open()?.id()))
}

/// A tensor of draws.
pub(crate) fn random(shape: &[usize], distribution: Distribution, device: &RocmDevice, dtype: DType) -> Result<Tensor> {
    let device = device.open()?;
    let mut x = memory::empty(&device, shape, dtype)?;
    let (stream, draw) = (device.stream(), next(device.id()));
    match distribution {
        Distribution::Default => {
            let high = if dtype.is_float() {
                1.0
            } else if dtype == DType::I8 {
                f64::from(i8::MAX)
            } else {
                INTEGER_BOUND
            };
            uniform(stream, draw, 0.0, high, x.view_mut())?;
        }
        Distribution::Uniform(low, high) => uniform(stream, draw, low, high, x.view_mut())?,
        Distribution::Normal(mean, deviation) => normal(stream, draw, mean, deviation, x.view_mut())?,
        Distribution::Bernoulli(probability) => bernoulli(stream, draw, probability, x.view_mut())?,
    }
    Ok(x)
}
