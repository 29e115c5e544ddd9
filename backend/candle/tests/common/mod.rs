//! The same computation on Candle's CPU device and on ours, compared.

#![allow(dead_code)] // Each test program uses some of it.

use std::cell::Cell;

use candle_core::{DType, Device, Result, Tensor};

/// Candle's device, which is ours.
pub fn gpu() -> Device {
    rocfire_candle::device().expect("there is always an emulated device").device
}

/// Runs a check in a process of its own, whose devices are opened with these settings, and gives what it printed; `test` is the
/// test that asks for it. Nothing in that process itself.
///
/// # Panics
/// Where the check fails.
pub fn with_settings(test: &str, settings: &[(&str, &str)], check: impl FnOnce()) -> String {
    const CHILD: &str = "TEST_WITH_SETTINGS";
    if std::env::var_os(CHILD).is_some() {
        check();
        return String::new();
    }
    let mut child = std::process::Command::new(std::env::current_exe().expect("tests have a program"));
    child.args([test, "--exact", "--nocapture"]).env(CHILD, "1").envs(settings.iter().copied());
    let output = child.output().expect("the program runs once more");
    let [said, failed] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success() && said.contains("1 passed"), "with {settings:?}: {said}\n{failed}");
    said
}

/// What opens a device that need not be deterministic: one that joins what changes bits too.
pub const ANY_JOINS: [(&str, &str); 1] = [("ROCFIRE_DETERMINISTIC", "0")];

/// Makes inputs: the same numbers on every device, in the order of the calls.
pub struct Inputs {
    device: Device,
    made: Cell<u64>,
    seed: u64,
}

impl Inputs {
    pub fn new(device: &Device, seed: u64) -> Inputs {
        Inputs { device: device.clone(), made: Cell::new(0), seed }
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Numbers from -3 to 3 for floats and signed integers, from 0 to 9 for unsigned ones.
    pub fn make(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let (low, high) = match dtype {
            DType::U8 | DType::U32 => (0.0, 9.99),
            _ => (-3.0, 3.0),
        };
        self.range(shape, dtype, low, high)
    }

    /// Numbers of a range.
    pub fn range(&self, shape: &[usize], dtype: DType, low: f64, high: f64) -> Result<Tensor> {
        self.made.set(self.made.get() + 1);
        let mut state = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.made.get());
        let count = shape.iter().product();
        let values: Vec<f64> = (0..count).map(|_| low + (high - low) * unit(&mut state)).collect();
        Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(&self.device)
    }

    /// These numbers.
    pub fn values(&self, values: &[f64], dtype: DType) -> Result<Tensor> {
        Tensor::from_slice(values, values.len(), &Device::Cpu)?.to_dtype(dtype)?.to_device(&self.device)
    }

    /// Ids below a bound.
    pub fn ids(&self, shape: &[usize], dtype: DType, bound: usize) -> Result<Tensor> {
        self.range(shape, dtype, 0.0, bound as f64 - 0.01)
    }
}

/// The next number of SplitMix64, in `[0, 1)`.
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// How far two results of a type may be apart, of the larger one: a few units in the last place, since 16-bit floats are
/// rounded after each step on the CPU and once on ours.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 4e-6,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        _ => 0.0,
    }
}

/// Runs a computation on both devices and compares what comes out.
///
/// # Panics
/// Where they differ, or where one fails and the other does not.
pub fn agree(what: &str, compute: impl Fn(&Inputs) -> Result<Tensor>) {
    agree_within(what, 1.0, compute);
}

/// As [`agree`], with a multiple of the type's tolerance, for sums of many.
pub fn agree_within(what: &str, multiple: f64, compute: impl Fn(&Inputs) -> Result<Tensor>) {
    let expected = compute(&Inputs::new(&Device::Cpu, 1)).unwrap_or_else(|error| panic!("{what} on the CPU: {error}"));
    let got = compute(&Inputs::new(&gpu(), 1)).unwrap_or_else(|error| panic!("{what}: {error}"));
    same(what, &got, &expected, multiple * tolerance(expected.dtype()));
}

/// Compares a result with what was expected.
///
/// # Panics
/// Where they differ by more than `tolerance` of the expected number, or of 1.
pub fn same(what: &str, got: &Tensor, expected: &Tensor, tolerance: f64) {
    assert_eq!(got.dims(), expected.dims(), "{what}: shape");
    assert_eq!(got.dtype(), expected.dtype(), "{what}: type");
    let (got, expected) = (numbers(got), numbers(expected));
    for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let close = (got - expected).abs() <= tolerance * expected.abs().max(1.0);
        let equal = got == expected || (got.is_nan() && expected.is_nan());
        assert!(close || equal, "{what}: element {index} is {got}, expected {expected} within {tolerance:e}");
    }
}

/// All numbers of a tensor.
pub fn numbers(tensor: &Tensor) -> Vec<f64> {
    let host = tensor.to_device(&Device::Cpu).unwrap().to_dtype(DType::F64).unwrap();
    host.flatten_all().unwrap().to_vec1().unwrap()
}
