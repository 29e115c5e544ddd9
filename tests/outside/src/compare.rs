//! A model on both devices, and how far apart its outputs are.
//!
//! Where they are further apart than roundings of the type explain by themselves, or where the CPU device does not run the
//! type, the CPU device computes the same numbers once more in a wider type, and both are compared with that: a model may make
//! much of a small rounding, but then it does so on both devices.

use std::fmt;

use candle_core::{DType, Device, Result, Tensor};

use crate::models::{Case, Kind};
use crate::setup::Setup;

/// What came of a row.
pub struct Outcome {
    /// The distance of the device's outputs from the CPU device's, of the latter's length.
    apart: Option<f64>,
    /// Those of the device's and of the CPU device's outputs from the exact ones.
    ours: Option<f64>,
    theirs: Option<f64>,
    /// What that comes to.
    pub verdict: Verdict,
}

/// What a row's distances come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The outputs are as near to each other, or to the exact ones, as roundings let them be.
    Same,
    /// They are further apart, and the device's are about as near to the exact outputs as the CPU device's are.
    AsNear,
    /// The CPU device does not run the type, for this reason, and the device's are near the exact ones.
    OnlyOurs(String),
    /// The device's outputs are too far from the CPU device's, and from the exact ones if somebody knows these.
    Differs,
    /// The device fails where the CPU device does not.
    Fails(String),
    /// The CPU device does not run it, or gives no finite numbers: there is nothing to compare with.
    NotOnCpu(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for number in [self.apart, self.ours, self.theirs] {
            match number {
                Some(number) => write!(f, "{number:>9.1e}")?,
                None => write!(f, "{:>9}", "-")?,
            }
        }
        match &self.verdict {
            Verdict::Same => Ok(()),
            Verdict::AsNear => write!(f, "  as near"),
            Verdict::OnlyOurs(reason) => write!(f, "  near; the CPU device: {}", first_line(reason)),
            Verdict::Differs => write!(f, "  DIFFERS"),
            Verdict::Fails(reason) => write!(f, "  FAILS: {}", first_line(reason)),
            Verdict::NotOnCpu(reason) => write!(f, "  not compared; the CPU device: {}", first_line(reason)),
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// What a rounding of the row's type may change, of a number. Activations beside GGUF types are rounded to 8 bits.
fn rounding(kind: Kind) -> f64 {
    let bits = match kind {
        Kind::Floats(DType::F32) => 24,
        Kind::Floats(DType::F16) => 11,
        Kind::Floats(_) | Kind::Gguf(_) => 8,
    };
    2_f64.powi(-bits)
}

/// How many roundings in a row leave two outputs apart: the values of a model of two layers go through about as many.
const ROUNDINGS: f64 = 16.0;
/// The same where nobody knows the exact outputs, so that nobody can say how much the model makes of a rounding: the models
/// where that is known make up to four times of it.
const ROUNDINGS_UNJUDGED: f64 = 64.0;
/// How much further than the CPU device's the device's outputs may be from the exact ones: both are sums of as many roundings,
/// which fall differently.
const AS_NEAR: f64 = 2.0;

type Outputs = std::result::Result<Vec<Vec<f64>>, String>;

/// Runs a row.
pub fn run(case: &Case, device: &Device) -> Outcome {
    let Three { ours, theirs, exact } = Three::of(case, device, 0);
    let distance = |got: &Outputs, from: Option<&Vec<Vec<f64>>>| Some(apart(got.as_ref().ok()?, from?));
    let apart = distance(&ours, theirs.as_ref().ok());
    let (our_error, their_error) = (distance(&ours, exact.as_ref()), distance(&theirs, exact.as_ref()));
    let same = ROUNDINGS * rounding(case.kind);
    let verdict = match (ours, theirs, our_error) {
        (Err(_), Err(reason), _) => Verdict::NotOnCpu(reason),
        (Err(reason), Ok(_), _) => Verdict::Fails(reason),
        // Of what the CPU device has no finite numbers for, the device has none either.
        (Ok(ours), Err(reason), _) if !finite(&ours) => Verdict::NotOnCpu(reason),
        (Ok(_), Err(reason), None) => Verdict::NotOnCpu(reason),
        (Ok(_), Err(reason), Some(error)) if error <= same => Verdict::OnlyOurs(reason),
        (Ok(_), Err(_), Some(_)) => Verdict::Differs,
        (Ok(_), Ok(_), _) => together(case.kind, apart, our_error, their_error),
    };
    let first = Outcome { apart, ours: our_error, theirs: their_error, verdict };
    if first.verdict == Verdict::Differs && apart.is_some() && exact.is_some() {
        of_many_draws(case, device, first)
    } else {
        first
    }
}

/// The outcome of more sets of weights, for a row that is not near by the first: few numbers come out of a model, and their few
/// roundings may fall well for one device and badly for the other. Distances are root mean squares over the draws.
fn of_many_draws(case: &Case, device: &Device, first: Outcome) -> Outcome {
    const DRAWS: u64 = 8;
    let mut squares = [first.apart, first.ours, first.theirs].map(|number| number.map(|number| number.powi(2)));
    for draw in 1..DRAWS {
        let Three { ours: Ok(ours), theirs: Ok(theirs), exact: Some(exact) } = Three::of(case, device, draw) else {
            return first;
        };
        let distances = [apart(&ours, &theirs), apart(&ours, &exact), apart(&theirs, &exact)];
        for (sum, distance) in squares.iter_mut().zip(distances) {
            *sum = sum.map(|sum| sum + distance.powi(2));
        }
    }
    let [apart, ours, theirs] = squares.map(|sum| sum.map(|sum| (sum / DRAWS as f64).sqrt()));
    Outcome { apart, ours, theirs, verdict: together(case.kind, apart, ours, theirs) }
}

/// What both devices make of a row, and the exact outputs if the CPU device can compute them.
struct Three {
    ours: Outputs,
    theirs: Outputs,
    exact: Option<Vec<Vec<f64>>>,
}

impl Three {
    fn of(case: &Case, device: &Device, draw: u64) -> Three {
        Three {
            ours: outputs(case, device, case.flash, None, draw),
            // Flash attention has no CPU kernel: it is compared with attention without.
            theirs: outputs(case, &Device::Cpu, false, None, draw),
            exact: exact(case, draw),
        }
    }
}

/// What the distances come to where both devices run.
fn together(kind: Kind, apart: Option<f64>, ours: Option<f64>, theirs: Option<f64>) -> Verdict {
    let near = |limit: f64| apart.is_some_and(|apart| apart <= limit * rounding(kind));
    match (ours, theirs) {
        _ if near(ROUNDINGS) => Verdict::Same,
        (Some(ours), Some(theirs)) if ours <= AS_NEAR * theirs => Verdict::AsNear,
        (None, _) if near(ROUNDINGS_UNJUDGED) => Verdict::Same,
        _ => Verdict::Differs,
    }
}

fn finite(outputs: &[Vec<f64>]) -> bool {
    outputs.iter().flatten().all(|x| x.is_finite())
}

/// The outputs of the same weights and inputs where computing rounds much less: on the CPU device in f64, or in f32 for
/// shorter types if the model's code does not do f64.
fn exact(case: &Case, draw: u64) -> Option<Vec<Vec<f64>>> {
    let wider: &[DType] = match case.kind {
        Kind::Floats(DType::F32) => &[DType::F64],
        Kind::Floats(_) => &[DType::F64, DType::F32],
        Kind::Gguf(_) => &[DType::F32],
    };
    wider.iter().find_map(|&dtype| outputs(case, &Device::Cpu, false, Some(dtype), draw).ok())
}

/// Runs a model in a thread of its own: one that asserts what its configuration does not give must not end the others, nor
/// leave Candle's threads behind as they are then.
fn outputs(case: &Case, device: &Device, flash: bool, exact: Option<DType>, draw: u64) -> Outputs {
    let setup = Setup { device: device.clone(), kind: case.kind, flash, exact, draw };
    let run = case.model.run;
    let finished = std::thread::spawn(move || run(&setup).and_then(|outputs| numbers(&outputs))).join();
    let outputs = match finished {
        Ok(outputs) => outputs.map_err(|error| error.to_string())?,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            return Err(format!("it panicked: {}", text.unwrap_or("without a word")));
        }
    };
    // Numbers of the device are judged, whatever they are.
    if device.is_cpu() && !finite(&outputs) {
        return Err("its numbers are not finite".to_owned());
    }
    Ok(outputs)
}

fn numbers(outputs: &[Tensor]) -> Result<Vec<Vec<f64>>> {
    let each = |output: &Tensor| output.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1();
    outputs.iter().map(each).collect()
}

/// The distance of outputs: the root mean square of each one's.
fn apart(got: &[Vec<f64>], expected: &[Vec<f64>]) -> f64 {
    if got.len() != expected.len() {
        return f64::INFINITY;
    }
    let squares = got.iter().zip(expected).map(|(got, expected)| distance(got, expected).powi(2));
    (squares.sum::<f64>() / got.len().max(1) as f64).sqrt()
}

/// The length of the difference, of the expected length.
pub fn distance(got: &[f64], expected: &[f64]) -> f64 {
    if got.len() != expected.len() {
        return f64::INFINITY;
    }
    let length = |squares: f64| squares.sqrt();
    let difference = length(got.iter().zip(expected).map(|(got, expected)| (got - expected).powi(2)).sum());
    let size = length(expected.iter().map(|x| x.powi(2)).sum());
    if difference == 0.0 {
        0.0
    } else {
        difference / size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_exact_outputs_is_enough_and_necessary_beyond_roundings() {
        let f32 = |apart, ours, theirs| together(Kind::Floats(DType::F32), Some(apart), ours, theirs);
        assert_eq!(f32(9e-7, None, None), Verdict::Same);
        assert_eq!(f32(3e-6, None, None), Verdict::Same);
        assert_eq!(f32(4e-6, None, None), Verdict::Differs);
        assert_eq!(f32(3e-6, Some(1e-6), Some(2e-6)), Verdict::AsNear);
        assert_eq!(f32(3e-6, Some(3e-6), Some(1e-6)), Verdict::Differs);
        assert_eq!(f32(f64::NAN, Some(f64::NAN), Some(1e-6)), Verdict::Differs);
    }

    #[test]
    fn a_distance_is_of_the_expected_size_and_nan_is_seen() {
        assert_eq!(distance(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(distance(&[3.0, 4.5], &[3.0, 4.0]), 0.1);
        assert!(distance(&[f64::NAN, 4.0], &[3.0, 4.0]).is_nan());
        assert!(apart(&[vec![1.0], vec![f64::NAN]], &[vec![1.0], vec![1.0]]).is_nan());
        assert_eq!(apart(&[vec![1.0], vec![2.0]], &[vec![1.0], vec![1.0]]), 0.5_f64.sqrt());
        assert!(distance(&[1.0], &[0.0]).is_infinite());
        assert!(distance(&[1.0], &[1.0, 1.0]).is_infinite());
        assert!(apart(&[], &[vec![1.0]]).is_infinite());
    }
}
