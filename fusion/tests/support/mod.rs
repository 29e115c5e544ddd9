//! What the execution tests share: a device, and tensors from and to host values.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::cell::Cell;

use rocfire_fusion::Scalar;
use rocfire_hal::{Config, DType, Device, DeviceId, Layout, Tensor};

thread_local! {
    static ARCH: Cell<&'static str> = const { Cell::new(rocfire_arch::DEFAULT_EMULATED) };
    /// Tests run in threads of their own: with a device each, none counts another's launches.
    static DEVICE: &'static Device = {
        Box::leak(Box::new(Device::open(device_id(), Config::from_env().unwrap()).unwrap()))
    };
}

/// What `ROCFIRE_DEVICE` names, but for parts of tests that are of another emulated architecture; else an emulated device.
pub fn device_id() -> DeviceId {
    let is_any = ARCH.get() == rocfire_arch::DEFAULT_EMULATED;
    let named = std::env::var_os("ROCFIRE_DEVICE").filter(|_| is_any).map(|_| DeviceId::from_env());
    named.unwrap_or_else(|| DeviceId::emulated(ARCH.get())).unwrap()
}

/// The device of this test, emulated if nothing else is asked for.
pub fn device() -> &'static Device {
    DEVICE.with(|device| *device)
}

/// Runs a part of a test on an emulated device of another architecture.
pub fn on(arch: &'static str, part: impl FnOnce() + Send + 'static) {
    let run = move || {
        ARCH.set(arch);
        part();
    };
    if let Err(panic) = std::thread::spawn(run).join() {
        std::panic::resume_unwind(panic);
    }
}

/// A contiguous tensor of `values`, each converted to `dtype`.
pub fn upload(dtype: DType, shape: &[usize], values: &[Scalar]) -> Tensor {
    let size = dtype.size_bytes();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.bits(dtype).to_le_bytes()[..size].to_vec()).collect();
    Tensor::from_bytes(device(), shape, dtype, &bytes).unwrap()
}

/// As `upload`, with the elements lying in memory in the order of `axes` and with a gap before the first.
pub fn upload_permuted(dtype: DType, shape: &[usize], axes: &[usize], values: &[Scalar]) -> Tensor {
    let stored: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
    let mut strides = vec![0i64; shape.len()];
    let mut stride = 1;
    for (&axis, &extent) in axes.iter().zip(&stored).rev() {
        strides[axis] = stride;
        stride *= extent as i64;
    }
    let gap = 1;
    let count = values.len() + gap;
    let mut placed = vec![Scalar::Int(7); count];
    for (number, &value) in values.iter().enumerate() {
        let mut rest = number;
        let mut at = gap as i64;
        for axis in (0..shape.len()).rev() {
            at += (rest % shape[axis]) as i64 * strides[axis];
            rest /= shape[axis];
        }
        placed[at as usize] = value;
    }
    let flat = upload(dtype, &[count], &placed);
    flat.with_layout(Layout::strided(shape, &strides, gap as i64).unwrap()).unwrap()
}

/// The elements of a contiguous tensor.
pub fn download(tensor: &Tensor) -> Vec<Scalar> {
    let (dtype, size) = (tensor.dtype(), tensor.dtype().size_bytes());
    let element = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..size].copy_from_slice(bytes);
        Scalar::from_bits(dtype, u64::from_le_bytes(word))
    };
    tensor.to_bytes().unwrap().chunks_exact(size).map(element).collect()
}

/// The value as the dtype has it.
pub fn rounded(dtype: DType, value: Scalar) -> Scalar {
    Scalar::from_bits(dtype, value.bits(dtype))
}

/// A float's value.
pub fn float(value: Scalar) -> f64 {
    match value {
        Scalar::Float(value) => value,
        other => panic!("{other:?} is no float"),
    }
}

/// An integer's or bool's value.
pub fn integer(value: Scalar) -> i128 {
    match value {
        Scalar::Int(value) => value.into(),
        Scalar::Uint(value) => value.into(),
        Scalar::Bool(value) => value.into(),
        Scalar::Float(value) => panic!("{value} is no integer"),
    }
}

/// The same bits, or both NaN.
pub fn same(dtype: DType, a: Scalar, b: Scalar) -> bool {
    let nan = |v: Scalar| matches!(v, Scalar::Float(v) if v.is_nan());
    (nan(a) && nan(b)) || a.bits(dtype) == b.bits(dtype)
}

/// How many values of the float dtype lie between two of them; 0 if both are NaN, huge if one is.
pub fn ulps(dtype: DType, a: Scalar, b: Scalar) -> u64 {
    if same(dtype, a, b) {
        return 0;
    }
    if float(a).is_nan() || float(b).is_nan() {
        return u64::MAX;
    }
    let sign = 1u64 << (dtype.size_bytes() * 8 - 1);
    let ordered = |v: Scalar| {
        let bits = v.bits(dtype);
        if bits & sign != 0 { -((bits & !sign) as i64) } else { bits as i64 }
    };
    ordered(a).abs_diff(ordered(b))
}

/// A stream of numbers without structure (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In -1..1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// A value of the dtype: small and large ones, and each special one now and then.
    pub fn value(&mut self, dtype: DType) -> Scalar {
        let word = self.word();
        if dtype == DType::Bool {
            return Scalar::Bool(word & 1 != 0);
        }
        if dtype.is_float() {
            let special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
            let value = match word % 8 {
                0 => special[(word >> 8) as usize % special.len()],
                1 | 2 => self.unit() * 60.0,
                _ => self.unit() * 3.0,
            };
            return rounded(dtype, Scalar::Float(value));
        }
        let bits = match word % 8 {
            0 => [0, 1, u64::MAX, 1 << (dtype.size_bytes() * 8 - 1)][(word >> 8) as usize % 4],
            1 | 2 => self.word(),
            _ => (self.word() % 41).wrapping_sub(20),
        };
        let mask = u64::MAX >> (64 - dtype.size_bytes() * 8);
        Scalar::from_bits(dtype, bits & mask)
    }

    pub fn values(&mut self, dtype: DType, count: usize) -> Vec<Scalar> {
        (0..count).map(|_| self.value(dtype)).collect()
    }
}
