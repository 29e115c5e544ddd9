//! What the operators' tests share: the device, host values, odd layouts, and the one table of tolerances.

use half::{bf16, f16};
use rocfire_hal::{Config, DType, Device, DeviceId, Layout, Tensor};

/// The device that operators are tested on.
pub(crate) fn device() -> Device {
    Device::get(id()).unwrap()
}

/// What `ROCFIRE_DEVICE` names, else the emulated default, whatever card the machine has.
fn id() -> DeviceId {
    let asked = std::env::var_os("ROCFIRE_DEVICE").is_some();
    if asked { DeviceId::from_env().unwrap() } else { DeviceId::emulated(rocfire_arch::DEFAULT_EMULATED).unwrap() }
}

/// The same, where indices outside their axis are not told of.
pub(crate) fn device_without_index_checks() -> Device {
    let config = Config::from_env().unwrap().with_check_index(false);
    Device::open(id(), config).unwrap()
}

/// The same without its matrix unit.
pub(crate) fn device_without_matrix_unit() -> Device {
    let config = Config::from_env().unwrap().with_matrix(false);
    Device::open(id(), config).unwrap()
}

/// Normalised mean squared error that an operator with f32 sums may have: the squared relative error of one rounding to
/// the type, times 16 for the sums before it.
pub(crate) fn tolerance(dtype: DType) -> f64 {
    let mantissa_bits = match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => return 0.0,
    };
    16.0 * 0.25f64.powi(mantissa_bits)
}

/// Philox4x32-10 written from the paper.
pub(crate) fn philox(counter: [u32; 4], key: u64) -> [u32; 4] {
    let (mut c, mut k) = (counter, [key as u32, (key >> 32) as u32]);
    for _ in 0..10 {
        let (p, q) = (u64::from(c[0]) * 0xd251_1f53, u64::from(c[2]) * 0xcd9e_8d57);
        c = [(q >> 32) as u32 ^ c[1] ^ k[0], q as u32, (p >> 32) as u32 ^ c[3] ^ k[1], p as u32];
        k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
    }
    c
}

/// A small generator for test data (xorshift64*): the tests need no better.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Values that the type holds exactly: eighths in -4..4 for floats, small whole numbers else.
    pub(crate) fn values(&mut self, count: usize, dtype: DType) -> Vec<f64> {
        let value = |bits: u64| match dtype {
            DType::Bool => (bits % 2) as f64,
            _ if dtype.is_float() => (bits % 64) as f64 / 8.0 - 4.0,
            _ if dtype.is_unsigned_int() => (bits % 10) as f64,
            _ => (bits % 19) as f64 - 9.0,
        };
        (0..count).map(|_| value(self.next() >> 20)).collect()
    }
}

/// A value as the type's bytes.
pub(crate) fn encode(values: &[f64], dtype: DType) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &v in values {
        match dtype {
            DType::F64 => bytes.extend(v.to_le_bytes()),
            DType::F32 => bytes.extend((v as f32).to_le_bytes()),
            DType::F16 => bytes.extend(f16::from_f64(v).to_le_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f64(v).to_le_bytes()),
            DType::I64 => bytes.extend((v as i64).to_le_bytes()),
            DType::I32 => bytes.extend((v as i32).to_le_bytes()),
            DType::I16 => bytes.extend((v as i16).to_le_bytes()),
            DType::I8 => bytes.extend((v as i8).to_le_bytes()),
            DType::U64 => bytes.extend((v as u64).to_le_bytes()),
            DType::U32 => bytes.extend((v as u32).to_le_bytes()),
            DType::U16 => bytes.extend((v as u16).to_le_bytes()),
            DType::U8 => bytes.extend((v as u8).to_le_bytes()),
            DType::Bool => bytes.push(u8::from(v != 0.0)),
        }
    }
    bytes
}

/// The type's bytes as values.
pub(crate) fn decode(bytes: &[u8], dtype: DType) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.chunks_exact(N).map(|chunk| value(chunk.try_into().unwrap())).collect()
    }
    match dtype {
        DType::F64 => each(bytes, f64::from_le_bytes),
        DType::F32 => each(bytes, |b| f32::from_le_bytes(b).into()),
        DType::F16 => each(bytes, |b| f16::from_le_bytes(b).into()),
        DType::BF16 => each(bytes, |b| bf16::from_le_bytes(b).into()),
        DType::I64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
        DType::I32 => each(bytes, |b| i32::from_le_bytes(b).into()),
        DType::I16 => each(bytes, |b| i16::from_le_bytes(b).into()),
        DType::I8 => each(bytes, |b| i8::from_le_bytes(b).into()),
        DType::U64 => each(bytes, |b| u64::from_le_bytes(b) as f64),
        DType::U32 => each(bytes, |b| u32::from_le_bytes(b).into()),
        DType::U16 => each(bytes, |b| u16::from_le_bytes(b).into()),
        DType::U8 | DType::Bool => each(bytes, |[b]: [u8; 1]| b.into()),
    }
}

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Row-major.
    Plain,
    /// The last two axes swapped in memory.
    Swapped,
    /// Every other element of each row, backwards, behind an odd offset.
    Sparse,
}

impl Lie {
    pub(crate) const ALL: [Lie; 3] = [Lie::Plain, Lie::Swapped, Lie::Sparse];
}

/// A tensor of these row-major values that lies in memory as asked. What lies between the elements is NaN (or the largest
/// value), so that reading it shows.
pub(crate) fn tensor(device: &Device, shape: &[usize], dtype: DType, values: &[f64], lie: Lie) -> Tensor {
    let count: usize = shape.iter().product();
    assert_eq!(values.len(), count);
    if count == 0 || shape.is_empty() || lie == Lie::Plain {
        return Tensor::from_bytes(device, shape, dtype, &encode(values, dtype)).unwrap();
    }
    let plain = Layout::contiguous(shape).unwrap();
    let rank = shape.len();
    let (layout, elements) = match lie {
        Lie::Swapped if rank >= 2 => {
            let swapped: Vec<usize> = plain.swap(rank - 1, rank - 2).unwrap().shape().to_vec();
            (Layout::contiguous(&swapped).unwrap().swap(rank - 1, rank - 2).unwrap(), count)
        }
        _ => {
            let mut wide = shape.to_vec();
            wide[rank - 1] *= 2;
            let strides = Layout::contiguous(&wide).unwrap().strides().to_vec();
            let layout = Layout::strided(shape, &strides, 3).unwrap();
            let mut strides = layout.strides().to_vec();
            strides[rank - 1] = -2;
            let offset = 3 + 2 * (shape[rank - 1] as i64 - 1);
            (Layout::strided(shape, &strides, offset).unwrap(), 2 * count + 5)
        }
    };
    let mut memory = vec![if dtype.is_float() { f64::NAN } else { 100.0 }; elements];
    for (at, &value) in coordinates(shape).zip(values) {
        let element: i64 = at.iter().zip(layout.strides()).map(|(&c, &s)| c as i64 * s).sum();
        memory[(layout.offset() + element) as usize] = value;
    }
    let flat = Tensor::from_bytes(device, &[elements], dtype, &encode(&memory, dtype)).unwrap();
    flat.with_layout(layout).unwrap()
}

/// All coordinates of a shape, row-major.
pub(crate) fn coordinates(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    let count: usize = shape.iter().product();
    (0..count).map(move |mut n| {
        let mut at = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            at[axis] = n % shape[axis];
            n /= shape[axis];
        }
        at
    })
}

/// Reads a tensor of any layout, row-major.
pub(crate) fn read(tensor: &Tensor) -> Vec<f64> {
    let end = usize::try_from(tensor.layout().extent().end).unwrap();
    let flat = tensor.with_layout(Layout::contiguous(&[end]).unwrap()).unwrap();
    let memory = decode(&flat.to_bytes().unwrap(), tensor.dtype());
    let layout = tensor.layout();
    let element = |at: Vec<usize>| -> i64 { at.iter().zip(layout.strides()).map(|(&c, &s)| c as i64 * s).sum() };
    coordinates(tensor.shape()).map(|at| memory[(layout.offset() + element(at)) as usize]).collect()
}

/// Asserts that `got` is `want` within the type's tolerance, NaN where NaN is wanted.
pub(crate) fn assert_close(got: &[f64], want: &[f64], dtype: DType, what: &dyn std::fmt::Debug) {
    assert_eq!(got.len(), want.len(), "{what:?}");
    let (mut error, mut power) = (0.0, 0.0);
    for (n, (&got, &want)) in got.iter().zip(want).enumerate() {
        if !want.is_finite() || !got.is_finite() {
            assert!(got == want || (got.is_nan() && want.is_nan()), "{what:?}: element {n}: {got}, not {want}");
            continue;
        }
        error += (got - want) * (got - want);
        power += want * want;
    }
    let nmse = if error == 0.0 { 0.0 } else { error / power };
    assert!(nmse <= tolerance(dtype), "{what:?}: normalised mean squared error {nmse:e}\n got {got:?}\nwant {want:?}");
}
