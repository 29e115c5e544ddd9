//! Trains the demo's transformer by Burn 0.23: `cargo run --manifest-path backend/burn/next/Cargo.toml -- STEPS`.
//!
//! With the steps and the seed of `cargo demo` it prints the losses of `cargo demo`. What it has trained is then compared with the
//! same weights on Burn's CPU backend.

use std::path::Path;
use std::process::ExitCode;

use burn::tensor::{Device, Int, Tensor, TensorData};
use char_transformer::{CONTEXT, Corpus, Error, Options, Result, load, run};
use rocfire_burn::RocmDevice;

/// The seed that `cargo demo` has unless it is told another.
const SEED: u64 = 1;
/// Windows of held-out text that both devices read.
const WINDOWS: usize = 2;
/// How far logits, which are about 10 at most, may be apart: sums of f32 in another order.
const APART: f32 = 1e-4;

fn main() -> ExitCode {
    let steps = std::env::args().nth(1).map_or(Ok(Options::STEPS), |steps| steps.parse());
    let Ok(steps) = steps else {
        eprintln!("steps must be a number");
        return ExitCode::FAILURE;
    };
    match train(steps) {
        Ok(apart) if apart <= APART => {
            println!("logits are at most {apart:.1e} from those of Burn's CPU backend");
            ExitCode::SUCCESS
        }
        Ok(apart) => {
            eprintln!("logits are {apart} from those of Burn's CPU backend, at most {APART} are rounding");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Trains, and says how far the logits of what came of it are from those on the CPU.
fn train(steps: usize) -> Result<f32> {
    // What users of Burn write, and what names a device of rocfire's, are one device.
    let (by_number, by_name): (Device, Device) = (Device::rocm(0), RocmDevice::new(0).burn().into());
    let sum = Tensor::<1>::from_floats([1.0, 2.0, 4.0], &by_number) + Tensor::<1>::ones([3], &by_name);
    let sum = sum.into_data();
    assert_eq!(sum.as_slice::<f32>().ok(), Some([2.0_f32, 3.0, 5.0].as_slice()), "a sum on the device");

    let folder = std::env::temp_dir().join("rocfire-burn-next");
    let weights = folder.join("char_transformer.safetensors");
    run(RocmDevice::default(), &Options { text: Vec::new(), steps, seed: SEED, plot: false, folder })?;
    let [ours, theirs] = [by_name, Device::flex()].map(|device| logits(&weights, &device));
    let apart = ours?.iter().zip(theirs?).map(|(ours, theirs)| (ours - theirs).abs()).max_by(f32::total_cmp);
    Ok(apart.expect("there is held-out text"))
}

/// What the weights say of held-out text.
fn logits(weights: &Path, device: &Device) -> Result<Vec<f32>> {
    let (model, ..) = load(weights, device)?;
    let (inputs, _) = Corpus::embedded(CONTEXT)?.validation_windows(WINDOWS, CONTEXT);
    let inputs = Tensor::<2, Int>::from_data(TensorData::new(inputs, [WINDOWS, CONTEXT]), device);
    let data = model.forward(inputs).try_into_data().map_err(|error| Error::Device(error.to_string()))?;
    data.try_to_vec::<f32>().map_err(|error| Error::Device(format!("{error:?}")))
}
