//! Host arrays: f64 values that a dtype holds exactly, and how they are laid out on the device.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rocfire_fusion::Scalar;
use rocfire_hal::{DType, Device, DriverKind, Layout, Tensor};

use crate::values::Values;

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Row after row.
    Contiguous,
    /// The last two axes swapped in memory.
    Transposed,
    /// Every second element of a larger block, from the second on: no row is aligned.
    Strided,
    /// Backwards along the last axis.
    Flipped,
}

impl Placement {
    /// Every one, for rotating through cases.
    pub const ALL: [Placement; 4] =
        [Placement::Contiguous, Placement::Transposed, Placement::Strided, Placement::Flipped];
}

/// What [`Array::nudged`] changes: little enough for functions to be straight, and much more than what f64 rounds.
pub const NUDGE: f64 = 1.0 / (1 << 20) as f64;

/// An array on the host.
#[derive(Clone, Debug)]
pub struct Array {
    /// Extents.
    pub shape: Vec<usize>,
    /// Its type; `values` are exact in it.
    pub dtype: DType,
    /// Row after row.
    pub values: Values,
}

impl Array {
    /// Normal-like data for floats, small integers for integers, coin flips for bool; the same for the same arguments.
    pub fn random(shape: &[usize], dtype: DType, seed: u64) -> Array {
        let len = shape.iter().product();
        let value = move |random: &mut ChaCha8Rng| match dtype {
            DType::Bool => f64::from(u8::from(random.random::<bool>())),
            dtype if dtype.is_float() => (0..4).map(|_| random.random::<f64>() - 0.5).sum::<f64>() * 1.7,
            DType::U64 | DType::U32 | DType::U16 | DType::U8 => f64::from(random.random_range(0_u8..12)),
            _ => f64::from(random.random_range(-12_i8..12)),
        };
        let values = Values::when_read(move || {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            (0..len).map(|_| rounded(dtype, value(&mut random))).collect()
        });
        Array { shape: shape.to_vec(), dtype, values }
    }

    /// Values rounded to the dtype.
    pub fn new(shape: &[usize], dtype: DType, values: Vec<f64>) -> Array {
        let values = values.into_iter().map(|value| rounded(dtype, value)).collect();
        Array { shape: shape.to_vec(), dtype, values }
    }

    /// Floats a share of `NUDGE` larger or smaller each, as the pattern says; no numbers of the type any more.
    pub fn nudged(&self, pattern: u64) -> Array {
        let mut random = ChaCha8Rng::seed_from_u64(pattern ^ self.values.len() as u64);
        let near = |&x: &f64| x * if random.random::<bool>() { 1.0 + NUDGE } else { 1.0 - NUDGE };
        if !self.dtype.is_float() {
            return self.clone();
        }
        Array { values: self.values.iter().map(near).collect(), ..self.clone() }
    }

    /// The bytes of the values in the array's own order.
    pub fn bytes(&self) -> Vec<u8> {
        let size = self.dtype.size_bytes();
        self.values
            .iter()
            .flat_map(|&value| Scalar::Float(value).bits(self.dtype).to_le_bytes().into_iter().take(size))
            .collect()
    }

    /// A tensor with these values, placed as told. Placements that need an axis more than there is fall back to
    /// contiguous.
    ///
    /// # Errors
    /// What the device says.
    pub fn place(&self, device: &Device, placement: Placement) -> rocfire_hal::Result<Tensor> {
        let rank = self.shape.len();
        match placement {
            Placement::Transposed if rank >= 2 => {
                let mut stored = self.shape.clone();
                stored.swap(rank - 1, rank - 2);
                let array = self.permuted(&stored, move |at, out| {
                    out.copy_from_slice(at);
                    out.swap(rank - 1, rank - 2);
                });
                let tensor = array.put(device)?;
                tensor.with_layout(tensor.layout().swap(rank - 1, rank - 2)?)
            }
            Placement::Strided if rank >= 1 => {
                let mut stored = self.shape.clone();
                stored[rank - 1] = 2 * stored[rank - 1] + 1;
                let array = self.permuted(&stored, move |at, out| {
                    out.copy_from_slice(at);
                    // Odd places hold the values, even ones a value that would be noticed.
                    out[rank - 1] = if at[rank - 1] % 2 == 1 { at[rank - 1] / 2 } else { usize::MAX };
                });
                let tensor = array.put(device)?;
                let mut strides = tensor.layout().strides().to_vec();
                strides[rank - 1] = 2;
                tensor.with_layout(Layout::strided(&self.shape, &strides, 1)?)
            }
            Placement::Flipped if rank >= 1 => {
                let extent = self.shape[rank - 1];
                let array = self.permuted(&self.shape, move |at, out| {
                    out.copy_from_slice(at);
                    out[rank - 1] = extent - 1 - at[rank - 1];
                });
                let tensor = array.put(device)?;
                tensor.with_layout(tensor.layout().flip(&[rank - 1])?)
            }
            _ => self.put(device),
        }
    }

    /// Row after row on the device. Where nothing is computed, nobody reads the numbers, and none are made.
    fn put(&self, device: &Device) -> rocfire_hal::Result<Tensor> {
        match device.id().driver() {
            DriverKind::Noop => Tensor::empty(device, &self.shape, self.dtype),
            _ => Tensor::from_bytes(device, &self.shape, self.dtype, &self.bytes()),
        }
    }

    /// An array of another shape whose element at `at` is this one's at what `source` makes of it; out of range is 99.
    fn permuted(&self, shape: &[usize], source: impl Fn(&[usize], &mut [usize]) + Send + 'static) -> Array {
        let (own, stored) = (self.clone(), shape.to_vec());
        let values = Values::when_read(move || {
            let mut at = vec![0; stored.len()];
            let mut from = vec![0; stored.len()];
            let value = |index| {
                unravel(index, &stored, &mut at);
                source(&at, &mut from);
                let inside = from.iter().zip(&own.shape).all(|(at, extent)| at < extent);
                if inside { own.values[ravel(&from, &own.shape)] } else { 99.0 }
            };
            (0..stored.iter().product()).map(value).collect()
        });
        Array { shape: shape.to_vec(), dtype: self.dtype, values }
    }

    /// The values of a contiguous tensor.
    ///
    /// # Errors
    /// What the device says.
    pub fn read(tensor: &Tensor) -> rocfire_hal::Result<Array> {
        let (dtype, size) = (tensor.dtype(), tensor.dtype().size_bytes());
        let value = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            as_f64(Scalar::from_bits(dtype, u64::from_le_bytes(word)))
        };
        let values = tensor.to_bytes()?.chunks_exact(size).map(value).collect();
        Ok(Array { shape: tensor.shape().to_vec(), dtype, values })
    }
}

fn rounded(dtype: DType, value: f64) -> f64 {
    as_f64(Scalar::from_bits(dtype, Scalar::Float(value).bits(dtype)))
}

fn as_f64(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Float(value) => value,
        Scalar::Int(value) => value as f64,
        Scalar::Uint(value) => value as f64,
        Scalar::Bool(value) => f64::from(u8::from(value)),
    }
}

/// The coordinates of the `index`-th element, row after row.
pub fn unravel(mut index: usize, shape: &[usize], at: &mut [usize]) {
    for axis in (0..shape.len()).rev() {
        at[axis] = index % shape[axis];
        index /= shape[axis];
    }
}

/// The place of coordinates, row after row.
pub fn ravel(at: &[usize], shape: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |index, (at, extent)| index * extent + at)
}
