//! What is wrong at a call is a panic that names it; the device goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn_backend::ops::{BoolTensorOps, FloatTensorOps};
use burn_backend::{Backend, DType, TensorMetadata};
use burn_std::{BoolStore, FloatDType};
use rocfire_burn::Rocm;

use crate::check::{device, f32s, float, ints, numbers};

fn message<T>(operation: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(operation)).err().expect("the operation must fail");
    *panic.downcast::<String>().expect("a panic of the adapter carries its message")
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let device = &device();
    let text = message(|| Rocm::float_add(f32s::<Rocm>(&[2, 3], 1, device), f32s::<Rocm>(&[2, 4], 2, device)));
    assert!(text.contains("add") && text.contains('4'), "{text}");
    let text = message(|| Rocm::float_matmul(f32s::<Rocm>(&[2, 3], 1, device), f32s::<Rocm>(&[2, 3], 2, device)));
    assert!(text.contains("gemm"), "{text}");
    let text = message(|| Rocm::float_reshape(f32s::<Rocm>(&[2, 3], 1, device), [7].into()));
    assert!(text.contains("reshape") && text.contains('7'), "{text}");
}

#[test]
fn kinds_of_elements_are_told_apart() {
    let device = &device();
    let integers = burn_backend::TensorData::from([1_i32, 2]);
    let text = message(|| Rocm::float_from_data(integers, device));
    assert!(text.contains("float_from_data") && text.contains("I32"), "{text}");
    let text = message(|| Rocm::bool_from_data(burn_backend::TensorData::from([1_i32, 2]), device));
    assert!(text.contains("bool_from_data") && text.contains("I32"), "{text}");
}

#[test]
fn running_out_of_memory_is_an_error_and_the_device_goes_on() {
    let device = &device();
    let text = message(|| Rocm::float_empty([1 << 20, 1 << 20, 16].into(), device, FloatDType::F64));
    assert!(text.contains("out of memory") && text.contains("bytes"), "{text}");
    let sum = Rocm::float_sum(f32s::<Rocm>(&[2, 2], 1, device));
    assert!(numbers(&float::<Rocm>(sum))[0].is_finite());
    Rocm::sync(device).unwrap();
    Rocm::flush(device).unwrap();
    Rocm::memory_cleanup(device);
    assert!(Rocm::memory_pool_usage(device).is_some());
}

#[test]
fn dtypes_are_reported_as_they_are() {
    let device = &device();
    for dtype in
        [DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::U8, DType::Bool(BoolStore::Native)]
    {
        assert!(Rocm::supports_dtype(device, dtype), "{dtype:?}");
    }
    assert!(!Rocm::supports_dtype(device, DType::Flex32));
    assert!(Rocm::name(device).contains("gfx942"));
    assert!(Rocm::device_count(0) >= 1);
}

#[test]
fn a_tensor_says_what_it_is() {
    let device = &device();
    let x = f32s::<Rocm>(&[2, 3], 1, device);
    assert_eq!((x.dtype(), &x.shape()[..], x.rank(), x.device()), (DType::F32, &[2, 3][..], 2, *device));
    assert!(x.can_mut());
    let other = x.clone();
    assert!(!x.can_mut() && !other.can_mut());
    assert_eq!(ints::<Rocm>(&[1], &[1], DType::U16, device).dtype(), DType::U16);
}
