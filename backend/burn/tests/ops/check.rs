//! One computation on two backends: `Rocm` on the emulated GPU and Burn's own `Flex` on the CPU.

use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn_backend::{Backend, DType, TensorData, read_sync};
use rocfire_burn::RocmDevice;

/// The device of all tests, as a backend names it.
pub fn device<D: From<RocmDevice>>() -> D {
    RocmDevice::emulated("gfx942").unwrap().into()
}

/// Runs a block with `B` naming one backend and then the other, and compares the data that it gives.
///
/// `agree!("what", tolerance, device => { vec![data…] })`
macro_rules! agree {
    ($what:expr, $tolerance:expr, $device:ident => $body:expr) => {{
        let ours: Vec<burn_backend::TensorData> = {
            #[allow(dead_code)]
            type B = rocfire_burn::Rocm;
            let $device = &$crate::check::device::<rocfire_burn::RocmDevice>();
            $body
        };
        let theirs: Vec<burn_backend::TensorData> = {
            #[allow(dead_code)]
            type B = burn_flex::Flex;
            let $device = &burn_flex::FlexDevice;
            $body
        };
        $crate::check::compare(&$what.to_string(), &ours, &theirs, $tolerance);
    }};
}
pub(crate) use agree;

/// How far results may be apart: both bounds are added.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub absolute: f64,
    pub relative: f64,
}

/// The same numbers.
pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };
/// Elementwise functions in f32: a few units in the last place, on either side.
pub const CLOSE: Tolerance = Tolerance { absolute: 2e-6, relative: 4e-6 };
/// Sums in f32 in another order.
pub const SUMS: Tolerance = Tolerance { absolute: 2e-5, relative: 2e-5 };

/// What a rounding to a type allows.
pub fn rounding(dtype: DType) -> Tolerance {
    match dtype {
        DType::F64 => Tolerance { absolute: 1e-13, relative: 1e-12 },
        DType::F16 => Tolerance { absolute: 2e-3, relative: 2e-3 },
        DType::BF16 => Tolerance { absolute: 2e-2, relative: 2e-2 },
        _ => CLOSE,
    }
}

/// Compares results one by one. Integers may come in another width: Burn's backends differ there by design.
pub fn compare(what: &str, ours: &[TensorData], theirs: &[TensorData], tolerance: Tolerance) {
    assert_eq!(ours.len(), theirs.len(), "{what}: number of results");
    assert!(!ours.is_empty(), "{what}: nothing was compared");
    for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.shape(), theirs.shape(), "{what}: shape of result {number}");
        // Flex names the bools that it gathers bytes.
        assert_eq!(
            ours.dtype().is_float(),
            theirs.dtype().is_float(),
            "{what}: {:?} and {:?}",
            ours.dtype(),
            theirs.dtype()
        );
        assert!(ours.dtype().is_bool() || !theirs.dtype().is_bool(), "{what}: {:?} is no bool", ours.dtype());
        if ours.dtype().is_float() {
            assert_eq!(ours.dtype(), theirs.dtype(), "{what}: type of result {number}");
        }
        let (a, b): (Vec<f64>, Vec<f64>) = (numbers(ours), numbers(theirs));
        for (index, (&a, &b)) in a.iter().zip(&b).enumerate() {
            let near = (a - b).abs() <= tolerance.absolute + tolerance.relative * b.abs();
            assert!(
                a == b || (a.is_nan() && b.is_nan()) || near,
                "{what}: result {number} of shape {:?}, element {index}: {a} on Rocm, {b} on Flex ({tolerance:?})",
                ours.shape()
            );
        }
    }
}

/// Elements as f64.
pub fn numbers(data: &TensorData) -> Vec<f64> {
    data.clone().convert::<f64>().as_slice::<f64>().unwrap().to_vec()
}

/// Numbers between -2 and 2 without a pattern, the same for the same seed.
pub fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 * 4.0 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

/// A float tensor of [`values`], scaled.
pub fn floats<B: Backend>(shape: &[usize], dtype: DType, seed: u64, device: &B::Device) -> FloatTensor<B> {
    given::<B>(&values(shape.iter().product(), seed), shape, dtype, device)
}

/// A float tensor of these numbers.
pub fn given<B: Backend>(numbers: &[f32], shape: &[usize], dtype: DType, device: &B::Device) -> FloatTensor<B> {
    B::float_from_data(TensorData::new(numbers.to_vec(), shape.to_vec()).convert_dtype(dtype), device)
}

/// An f32 tensor of [`values`].
pub fn f32s<B: Backend>(shape: &[usize], seed: u64, device: &B::Device) -> FloatTensor<B> {
    floats::<B>(shape, DType::F32, seed, device)
}

/// An integer tensor of these numbers.
pub fn ints<B: Backend>(numbers: &[i64], shape: &[usize], dtype: DType, device: &B::Device) -> IntTensor<B> {
    B::int_from_data(TensorData::new(numbers.to_vec(), shape.to_vec()).convert_dtype(dtype), device)
}

/// Indices below `bound`.
pub fn indices<B: Backend>(shape: &[usize], bound: usize, seed: u64, device: &B::Device) -> IntTensor<B> {
    let count = shape.iter().product();
    let numbers: Vec<i64> = values(count, seed).iter().map(|x| ((x + 2.0) / 4.0 * bound as f32) as i64).collect();
    ints::<B>(&numbers.iter().map(|&n| n.min(bound as i64 - 1)).collect::<Vec<_>>(), shape, DType::I64, device)
}

/// A bool tensor, true for about half of its elements.
pub fn bools<B: Backend>(shape: &[usize], seed: u64, device: &B::Device) -> BoolTensor<B> {
    let truths: Vec<bool> = values(shape.iter().product(), seed).iter().map(|&x| x > 0.0).collect();
    B::bool_from_data(TensorData::new(truths, shape.to_vec()), device)
}

/// A float tensor on the host.
pub fn float<B: Backend>(tensor: FloatTensor<B>) -> TensorData {
    read_sync(B::float_into_data(tensor)).unwrap()
}

/// An integer tensor on the host.
pub fn int<B: Backend>(tensor: IntTensor<B>) -> TensorData {
    read_sync(B::int_into_data(tensor)).unwrap()
}

/// A bool tensor on the host.
pub fn bool<B: Backend>(tensor: BoolTensor<B>) -> TensorData {
    read_sync(B::bool_into_data(tensor)).unwrap()
}
