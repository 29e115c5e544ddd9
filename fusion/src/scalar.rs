//! Scalars: the constants inside a graph and the run-time arguments of a launch.

use half::{bf16, f16};
use rocfire_hal::DType;
use rocfire_hal::round::to_odd;

/// A number for a graph or a launch. It is converted to a dtype when it becomes a constant or an argument there.
///
/// Conversions follow the cast operator: to a float, round to nearest even; from a float to an integer, truncate and
/// saturate with NaN to 0; between integers, wrap; to bool, "is not zero".
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A float.
    Float(f64),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The value in `dtype`, as the bits of its memory image, zero-extended to 64.
    pub fn bits(self, dtype: DType) -> u64 {
        match dtype {
            DType::F64 => self.as_f64().to_bits(),
            DType::F32 => u64::from(self.as_f32().to_bits()),
            DType::F16 => u64::from(self.as_f16().to_bits()),
            DType::BF16 => u64::from(self.as_bf16().to_bits()),
            DType::Bool => u64::from(self.as_bool()),
            DType::I64 => self.as_signed(i64::MIN, i64::MAX) as u64,
            DType::I32 => u64::from(self.as_signed(i32::MIN.into(), i32::MAX.into()) as u32),
            DType::I16 => u64::from(self.as_signed(i16::MIN.into(), i16::MAX.into()) as u16),
            DType::I8 => u64::from(self.as_signed(i8::MIN.into(), i8::MAX.into()) as u8),
            DType::U64 => self.as_unsigned(u64::MAX),
            DType::U32 => u64::from(self.as_unsigned(u32::MAX.into()) as u32),
            DType::U16 => u64::from(self.as_unsigned(u16::MAX.into()) as u16),
            DType::U8 => u64::from(self.as_unsigned(u8::MAX.into()) as u8),
        }
    }

    /// The value of `bits`, the memory image of a `dtype`.
    pub fn from_bits(dtype: DType, bits: u64) -> Scalar {
        match dtype {
            DType::F64 => Scalar::Float(f64::from_bits(bits)),
            DType::F32 => Scalar::Float(f32::from_bits(bits as u32).into()),
            DType::F16 => Scalar::Float(f16::from_bits(bits as u16).into()),
            DType::BF16 => Scalar::Float(bf16::from_bits(bits as u16).into()),
            DType::Bool => Scalar::Bool(bits & 0xff != 0),
            DType::I64 => Scalar::Int(bits as i64),
            DType::I32 => Scalar::Int((bits as i32).into()),
            DType::I16 => Scalar::Int((bits as i16).into()),
            DType::I8 => Scalar::Int((bits as i8).into()),
            DType::U64 => Scalar::Uint(bits),
            DType::U32 => Scalar::Uint((bits as u32).into()),
            DType::U16 => Scalar::Uint((bits as u16).into()),
            DType::U8 => Scalar::Uint((bits as u8).into()),
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(value) => value,
            Scalar::Int(value) => value as f64,
            Scalar::Uint(value) => value as f64,
            Scalar::Bool(value) => f64::from(u8::from(value)),
        }
    }

    // An integer of more than 53 bits must not be rounded twice on its way to a narrower float.
    fn as_f32(self) -> f32 {
        match self {
            Scalar::Int(value) => value as f32,
            Scalar::Uint(value) => value as f32,
            Scalar::Float(_) | Scalar::Bool(_) => self.as_f64() as f32,
        }
    }

    // Integers reach the 16-bit floats through f32, as the device's cast does.
    fn as_f16(self) -> f16 {
        match self {
            Scalar::Int(_) | Scalar::Uint(_) => f16::from_f32(self.as_f32()),
            Scalar::Float(_) | Scalar::Bool(_) => f16::from_f32(to_odd(self.as_f64())),
        }
    }

    fn as_bf16(self) -> bf16 {
        match self {
            Scalar::Int(_) | Scalar::Uint(_) => bf16::from_f32(self.as_f32()),
            Scalar::Float(_) | Scalar::Bool(_) => bf16::from_f32(to_odd(self.as_f64())),
        }
    }

    fn as_signed(self, least: i64, most: i64) -> i64 {
        match self {
            Scalar::Float(value) => (value as i64).clamp(least, most),
            Scalar::Int(value) => value,
            Scalar::Uint(value) => value as i64,
            Scalar::Bool(value) => value.into(),
        }
    }

    fn as_unsigned(self, most: u64) -> u64 {
        match self {
            Scalar::Float(value) => (value as u64).min(most),
            Scalar::Int(value) => value as u64,
            Scalar::Uint(value) => value,
            Scalar::Bool(value) => value.into(),
        }
    }

    fn as_bool(self) -> bool {
        match self {
            Scalar::Float(value) => value != 0.0,
            Scalar::Int(value) => value != 0,
            Scalar::Uint(value) => value != 0,
            Scalar::Bool(value) => value,
        }
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Scalar::Float(value)
    }
}

impl From<f32> for Scalar {
    fn from(value: f32) -> Self {
        Scalar::Float(value.into())
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Scalar::Int(value)
    }
}

impl From<i32> for Scalar {
    fn from(value: i32) -> Self {
        Scalar::Int(value.into())
    }
}

impl From<u64> for Scalar {
    fn from(value: u64) -> Self {
        Scalar::Uint(value)
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Scalar::Bool(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_next_to_a_tie_is_none() {
        let bits = |dtype, value: f64| Scalar::Float(value).bits(dtype);
        // 1 + 2^-8 and 1 + 2^-11 are halfway between two values, the even one below.
        for (dtype, half, below) in [(DType::BF16, 2f64.powi(-8), 0x3f80), (DType::F16, 2f64.powi(-11), 0x3c00)] {
            for sign in [1.0, -1.0] {
                let expected = if sign < 0.0 { below | 0x8000 } else { below };
                assert_eq!(bits(dtype, sign * (1.0 + half)), expected, "{dtype}");
                assert_eq!(bits(dtype, sign * (1.0 + half + 2f64.powi(-40))), expected + 1, "{dtype}");
                assert_eq!(bits(dtype, sign * (1.0 + half - 2f64.powi(-40))), expected, "{dtype}");
            }
            assert_eq!(bits(dtype, 1e300), bits(dtype, f64::INFINITY), "{dtype}");
            assert_eq!(bits(dtype, -1e-300), 0x8000, "{dtype}");
        }
    }
}
