//! Offsets beyond 2^31 and 2^32: operators on tensors of more elements than 32 bits can number.
//!
//! They run on a card with the memory for it. Elsewhere the same calls run at a small size, as `small/…`, so that what the test
//! itself says is checked on every machine, and one line says that the large ones were skipped. Inputs are random; results are
//! compared where an offset held in 31 or 32 bits would go wrong: around element 2^31, around element 2^32, at the end.

mod codes;
mod moves;
mod products;
mod rows;
#[path = "../session/mod.rs"]
mod session;

use libtest_mimic::Arguments;
use rocfire_hal::{Config, DType, Device, DriverKind, Tensor};
use rocfire_kernels::random::{Seed, uniform};
use rocfire_tests::{Array, device_id};

/// A name and the call.
type Operator = (&'static str, fn(&Space) -> Outcome);
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What the largest of the calls takes: three tensors of 16-bit floats, one of 32-bit numbers, and temporaries.
const NEEDED_BYTES: u64 = 80 << 30;
/// Rows behind element 2^32.
const ROWS_BEYOND: usize = 37;

/// A device and how many elements its large tensors have.
#[derive(Clone)]
struct Space {
    device: Device,
    large: bool,
}

impl Space {
    /// Rows of so many columns, just more of them than 2^32 elements fill.
    fn rows(&self, cols: usize) -> usize {
        if self.large { (1 << 32) / cols + ROWS_BEYOND } else { 3 + ROWS_BEYOND }
    }

    /// Rows that hold element 0, the elements around 2^31 and 2^32, and the last.
    fn marks(&self, cols: usize) -> Vec<usize> {
        let last = self.rows(cols) - 1;
        if !self.large {
            return vec![0, last];
        }
        let (half, full) = ((1 << 31) / cols, (1 << 32) / cols);
        vec![0, half - 1, half, half + 1, full - 1, full, last]
    }

    fn empty(&self, shape: &[usize], dtype: DType) -> rocfire_hal::Result<Tensor> {
        Tensor::empty(&self.device, shape, dtype)
    }

    /// Numbers from -1 to 1.
    fn random(&self, shape: &[usize], dtype: DType, seed: u64) -> Result<Tensor, rocfire_kernels::Error> {
        self.between([-1.0, 1.0], shape, dtype, Seed { seed, offset: 0 })
    }

    /// Numbers of a range.
    fn between(
        &self,
        [low, high]: [f64; 2],
        shape: &[usize],
        dtype: DType,
        seed: Seed,
    ) -> Result<Tensor, rocfire_kernels::Error> {
        let mut tensor = self.empty(shape, dtype)?;
        uniform(self.device.stream(), seed, low, high, tensor.view_mut())?;
        Ok(tensor)
    }

    fn upload(&self, shape: &[usize], dtype: DType, values: Vec<f64>) -> rocfire_hal::Result<Tensor> {
        Tensor::from_bytes(&self.device, shape, dtype, &Array::new(shape, dtype, values).bytes())
    }
}

/// Elements of `tensor` at one place of its first axis.
fn row(tensor: &Tensor, at: usize) -> rocfire_hal::Result<Vec<f64>> {
    Ok(Array::read(&tensor.with_layout(tensor.layout().slice(0, at, at + 1, 1)?)?)?.values.to_vec())
}

/// Compares one row, to within `allowed` of the largest of what is expected.
fn same(what: &str, got: &[f64], expected: &[f64], allowed: f64) -> Outcome {
    if got.len() != expected.len() {
        return Err(format!("{what}: {} elements instead of {}", got.len(), expected.len()).into());
    }
    let largest = expected.iter().fold(0f64, |largest, x| largest.max(x.abs()));
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let off = (got - expected).abs();
        if off.is_nan() || off > allowed * largest {
            return Err(format!("{what}, element {at}: {got}, expected {expected}").into());
        }
    }
    Ok(())
}

fn main() {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let device = device().unwrap_or_else(|error| panic!("no device to test on: {error}"));
    let (memory, id) = (device.info().memory_bytes, device.id());
    let real = matches!(id.driver(), DriverKind::Hip | DriverKind::Cuda);
    let large = real && memory >= NEEDED_BYTES;
    let space = Space { device, large };
    let size = if large { "beyond 2^32" } else { "small" };
    let test = |(name, run): &Operator| -> session::Test {
        let (run, space) = (*run, space.clone());
        let test = move || {
            let outcome = run(&space);
            // What one leaves in the pool is too much for the next.
            let trimmed = space.device.trim_memory();
            outcome.and(trimmed.map_err(Into::into))
        };
        (format!("{size}/{name}"), Box::new(test))
    };
    let operators = [moves::OPERATORS, rows::OPERATORS, products::OPERATORS, codes::OPERATORS].concat();
    let mut tests: Vec<session::Test> = operators.iter().map(test).collect();
    if !large {
        let skip = move || {
            let why = if real { format!("{} GiB", memory >> 30) } else { "no card".to_owned() };
            println!("\nskipped: offsets beyond 2^32 need a card with {} GiB, {id} is {why}", NEEDED_BYTES >> 30);
            Ok(())
        };
        tests.push(("offsets_beyond_2^32".to_owned(), Box::new(skip)));
    }
    session::run(&arguments, tests).exit();
}

/// Without the vendor's library: what is tested is ours.
fn device() -> rocfire_hal::Result<Device> {
    Device::open(device_id()?, Config::from_env()?.with_vendor(false))
}
