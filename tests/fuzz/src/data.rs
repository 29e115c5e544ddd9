//! Tensors on the host: bits of one type, and how they read as numbers.

use rocfire_fusion::Scalar;
use rocfire_hal::DType;

/// A tensor's elements, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// Their type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
    /// Each element's bits, in the low end.
    pub bits: Vec<u64>,
}

impl Data {
    /// Numbers, rounded to the type.
    pub fn of_numbers(dtype: DType, shape: &[usize], numbers: impl IntoIterator<Item = f64>) -> Data {
        let bits = numbers.into_iter().map(|number| Scalar::Float(number).bits(dtype)).collect();
        Data { dtype, shape: shape.to_vec(), bits }
    }

    /// From memory.
    ///
    /// # Panics
    /// If there are fewer bytes than elements take.
    pub fn of_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Data {
        let size = dtype.size_bytes();
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let count = shape.iter().product::<usize>();
        assert!(bytes.len() >= count * size, "{} bytes for {shape:?} of {dtype}", bytes.len());
        let bits = bytes[..count * size].chunks_exact(size).map(word).collect();
        Data { dtype, shape: shape.to_vec(), bits }
    }

    /// As it lies in memory.
    pub fn bytes(&self) -> Vec<u8> {
        let size = self.dtype.size_bytes();
        self.bits.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(size)).collect()
    }

    /// One element as f64; integers of more than 53 bits lose their low ones.
    pub fn number(&self, index: usize) -> f64 {
        match Scalar::from_bits(self.dtype, self.bits[index]) {
            Scalar::Float(value) => value,
            Scalar::Int(value) => value as f64,
            Scalar::Uint(value) => value as f64,
            Scalar::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// One element of an integer or bool type.
    pub fn integer(&self, index: usize) -> i128 {
        match Scalar::from_bits(self.dtype, self.bits[index]) {
            Scalar::Float(value) => value as i128,
            Scalar::Int(value) => value.into(),
            Scalar::Uint(value) => value.into(),
            Scalar::Bool(value) => value.into(),
        }
    }

    /// Every element as f64.
    pub fn numbers(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.bits.len()).map(|index| self.number(index))
    }

    /// Whether an element is no number.
    pub fn has_nan(&self) -> bool {
        self.numbers().any(f64::is_nan)
    }

    /// Whether two elements along the last axis are equal, as zeros of both signs are.
    pub fn has_equals(&self) -> bool {
        let numbers: Vec<f64> = self.numbers().collect();
        let row = self.shape.last().copied().unwrap_or(1).max(1);
        let has = |row: &[f64]| (0..row.len()).any(|at| row[..at].contains(&row[at]));
        numbers.chunks(row).any(has)
    }

    /// The same numbers in another type, rounded to it.
    pub fn converted(&self, dtype: DType) -> Data {
        Data::of_numbers(dtype, &self.shape, self.numbers())
    }
}

/// The relative distance from 1 to the next number of a float type, halved: the most that rounding changes.
pub fn unit_roundoff(dtype: DType) -> f64 {
    let bits = match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => return 0.0,
    };
    2.0_f64.powi(-bits)
}

/// The largest and the least positive number of a float type, denormal ones among them.
pub fn limits(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F16 => (65504.0, 2.0_f64.powi(-24)),
        DType::BF16 => (f64::from(half::bf16::MAX), 2.0_f64.powi(-133)),
        DType::F32 => (f64::from(f32::MAX), 2.0_f64.powi(-149)),
        _ => (f64::MAX, f64::from_bits(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for dtype in DType::ALL {
            let data = Data::of_numbers(dtype, &[3], [0.0, 1.0, 1.0]);
            assert_eq!(Data::of_bytes(dtype, &[3], &data.bytes()), data);
        }
    }
}
