//! A model on both devices, and how far apart its outputs are.

use std::fmt;

use candle_core::{DType, Device, Result, Tensor};

use crate::models::{Case, Kind};
use crate::setup::Setup;

/// What came of a row.
pub enum Outcome {
    /// The greatest distance of an output, of the CPU device's size.
    Same {
        error: f64,
        allowed: f64,
    },
    Differs {
        error: f64,
        allowed: f64,
    },
    /// The device fails where the CPU device does not.
    Fails(String),
    /// The CPU device does not run it, or gives no finite numbers: there is nothing to compare with.
    NotOnCpu(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Same { error, allowed } => write!(f, "{error:>10.1e} {allowed:>10.1e}"),
            Outcome::Differs { error, allowed } => write!(f, "{error:>10.1e} {allowed:>10.1e} DIFFERS"),
            Outcome::Fails(reason) => write!(f, "FAILS: {}", first_line(reason)),
            Outcome::NotOnCpu(reason) => write!(f, "not on the CPU device: {}", first_line(reason)),
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// How far the length of the difference of two outputs may be from 0, of the CPU device's output's: a few dozen roundings of
/// the type after each other. Both devices quantise activations for GGUF types to 8 bits, in blocks of other sizes.
fn allowed(kind: Kind) -> f64 {
    match kind {
        Kind::Floats(DType::F32) => 1e-4,
        Kind::Floats(DType::F16) => 1e-2,
        Kind::Floats(_) => 6e-2,
        Kind::Gguf(_) => 3e-2,
    }
}

/// Runs a row.
pub fn run(case: &Case, device: &Device) -> Outcome {
    // Flash attention has no CPU kernel: it is compared with attention without.
    let on_cpu = Setup { device: Device::Cpu, kind: case.kind, flash: false };
    let expected = match guarded(|| (case.model.run)(&on_cpu)).and_then(|outputs| numbers(&outputs)) {
        Ok(expected) if expected.iter().flatten().all(|x| x.is_finite()) => expected,
        Ok(_) => return Outcome::NotOnCpu("its numbers are not finite".to_owned()),
        Err(reason) => return Outcome::NotOnCpu(reason),
    };
    let ours = Setup { device: device.clone(), kind: case.kind, flash: case.flash };
    let got = match guarded(|| (case.model.run)(&ours)).and_then(|outputs| numbers(&outputs)) {
        Ok(got) => got,
        Err(reason) => return Outcome::Fails(reason),
    };
    if got.len() != expected.len() || got.iter().zip(&expected).any(|(got, expected)| got.len() != expected.len()) {
        return Outcome::Fails("its outputs have other shapes".to_owned());
    }
    let error = got.iter().zip(&expected).map(|(got, expected)| distance(got, expected)).fold(0.0, worse);
    let allowed = allowed(case.kind);
    if error <= allowed {
        Outcome::Same { error, allowed }
    } else {
        Outcome::Differs { error, allowed }
    }
}

/// The greater number; NaN is the greatest.
fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b {
        a
    } else {
        b
    }
}

fn distance(got: &[f64], expected: &[f64]) -> f64 {
    let length = |squares: f64| squares.sqrt();
    let difference = length(got.iter().zip(expected).map(|(got, expected)| (got - expected).powi(2)).sum());
    let size = length(expected.iter().map(|x| x.powi(2)).sum());
    if difference == 0.0 {
        0.0
    } else {
        difference / size
    }
}

/// Runs with panics as errors: a model that asserts what its configuration does not give must not end the others.
fn guarded(run: impl FnOnce() -> Result<Vec<Tensor>>) -> std::result::Result<Vec<Tensor>, String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("it panicked".to_owned()),
    }
}

fn numbers(outputs: &[Tensor]) -> std::result::Result<Vec<Vec<f64>>, String> {
    let each = |output: &Tensor| -> Result<Vec<f64>> {
        output.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
    };
    outputs.iter().map(each).collect::<Result<_>>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_of_the_expected_size_and_nan_is_seen() {
        assert_eq!(distance(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(distance(&[3.0, 4.5], &[3.0, 4.0]), 0.1);
        assert!(distance(&[f64::NAN, 4.0], &[3.0, 4.0]).is_nan());
        assert!([0.5, f64::NAN, 0.1].into_iter().fold(0.0, worse).is_nan());
        assert!(distance(&[1.0], &[0.0]).is_infinite());
    }
}
