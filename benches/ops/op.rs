//! What is timed: an operator on one shape, its buffers, and how its result is compared with a reference.

use half::bf16;
use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::random::{Seed, normal};

pub type Error = Box<dyn std::error::Error>;

/// What the buffers of one operator add up to at least: several times the largest cache of any card.
pub const ROTATION_BYTES: usize = 1 << 30;
/// Rows whose results are compared with the reference.
pub const CHECKED_ROWS: usize = 8;
/// Operations a byte from which on the arithmetic units of a card with matrix units bind, not its memory: 200 to 300 for 16-bit floats
/// on MI300X and H200 by their makers' figures, less for wider types.
const RIDGE: f64 = 100.0;

/// An operator on one shape.
pub struct Op {
    pub name: String,
    pub shape: String,
    /// Bytes that must be moved, each input read once and each output written once.
    pub bytes: f64,
    pub flops: f64,
    /// Launches set number `n` of its buffers.
    pub launch: Box<dyn Fn(usize) -> Result<(), Error>>,
    /// Compares the results of set 0.
    pub check: Box<dyn Fn() -> Result<(), Error>>,
}

impl Op {
    /// Whether the memory's bandwidth is its floor.
    pub fn is_bound_by_memory(&self) -> bool {
        self.flops < RIDGE * self.bytes
    }
}

/// An operator's name, and how it is made, with its buffers, when its turn comes.
pub type Make = (&'static str, fn(&Device, &'static str) -> Result<Op, Error>);

pub fn filled(device: &Device, shape: &[usize], dtype: DType, seed: u64) -> Result<Tensor, Error> {
    let mut tensor = Tensor::empty(device, shape, dtype)?;
    normal(device.stream(), Seed { seed, offset: 0 }, 0.0, 1.0, tensor.view_mut())?;
    Ok(tensor)
}

pub fn shape_text(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

/// `count` elements of a contiguous tensor from element `first` on.
pub fn elements(bytes: &[u8], dtype: DType, first: usize, count: usize) -> Vec<f64> {
    let size = dtype.size_bytes();
    let part = bytes[first * size..(first + count) * size].chunks_exact(size);
    part.map(|element| match dtype {
        DType::F32 => f64::from(f32::from_le_bytes(element.try_into().expect("four bytes"))),
        DType::F16 => half::f16::from_le_bytes(element.try_into().expect("two bytes")).to_f64(),
        DType::BF16 => bf16::from_le_bytes(element.try_into().expect("two bytes")).to_f64(),
        other => unreachable!("no operator here has {other}"),
    })
    .collect()
}

/// Fails unless ‖got − expected‖ ≤ tolerance · ‖expected‖; a NaN never passes.
pub fn compare(got: &[f64], expected: &[f64], tolerance: f64) -> Result<(), Error> {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(expected).map(|(a, b)| a - b)) / norm(&mut expected.iter().copied());
    if error <= tolerance { Ok(()) } else { Err(format!("relative error {error:e}, allowed {tolerance:e}").into()) }
}

/// Chains of operators in a 16-bit type round after each.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-6,
        DType::F16 => 2e-3,
        _ => 1.5e-2,
    }
}
