//! Results that are widened last and stored as they were before: who reads them, and with which bits.

use burn_backend::ops::ConvOptions;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, DType, Scalar, Shape, TensorData, TensorMetadata};
use burn_std::FloatDType;
use rocfire_burn::Fused;

use crate::check::{EXACT, f32s, float};
use crate::harness::{device, launches, same};

type Program<B> = fn(&[FloatTensor<B>]) -> Vec<FloatTensor<B>>;

fn wide<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_cast(x, FloatDType::F32)
}

fn matmul<B: Backend>(a: FloatTensor<B>, b: FloatTensor<B>) -> FloatTensor<B> {
    B::float_matmul(a, b)
}

fn inputs<B: Backend>(device: &B::Device) -> Vec<FloatTensor<B>> {
    let shapes: [&[usize]; 6] = [&[37, 24], &[24, 29], &[29, 5], &[2, 3, 9, 7], &[8, 3, 3, 3], &[37, 29]];
    let made = shapes.iter().zip(1..).map(|(shape, seed)| f32s::<B>(shape, seed, device));
    let narrow = made.enumerate().map(|(at, x)| match at {
        2 | 5 => x,
        4 => B::float_cast(x, FloatDType::F16),
        3 => B::float_cast(x, FloatDType::F16),
        _ => B::float_cast(x, FloatDType::BF16),
    });
    narrow.collect()
}

/// A product in half precision, widened for rows and kept for a reader behind the stretch.
fn rows<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = wide::<B>(B::float_matmul(x[0].clone(), x[1].clone()));
    let least = B::float_sub(y.clone(), B::float_max_dim(y.clone(), 1));
    vec![B::float_exp(least), y]
}

/// The same for a convolution whose result is normalised over its places.
fn places<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = wide::<B>(B::conv2d(x[3].clone(), x[4].clone(), None, ConvOptions::new([1, 1], [1, 1], [1, 1], 1)));
    let flat = B::float_reshape(y.clone(), Shape::from(vec![2, 8, 63]));
    vec![B::float_sub(flat.clone(), B::float_mean_dim(flat, 2)), y]
}

/// Two who read it in one kernel, of which one reads it turned.
fn turned<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = wide::<B>(B::relu(B::float_matmul(x[0].clone(), x[1].clone())));
    let sums = B::float_sum_dim(B::float_mul(y.clone(), x[5].clone()), 0);
    vec![sums, B::float_sum_dim(B::float_transpose(y.clone()), 1), y]
}

/// Elements by their index, and a view that outlives the stretch.
fn indexed<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = wide::<B>(B::float_matmul(x[0].clone(), x[1].clone()));
    let greatest = B::float_argmax(y.clone(), 1, burn_std::IntDType::I64);
    let picked = B::float_gather(1, y.clone(), greatest);
    vec![picked, B::float_transpose(y)]
}

/// A product reads what is widened: it is stored as that product takes it.
fn multiplied<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = wide::<B>(B::float_matmul(x[0].clone(), x[1].clone()));
    vec![B::float_matmul(y.clone(), x[2].clone()), B::float_sum_dim(y, 1)]
}

fn run<B: Backend>(program: Program<B>, device: &B::Device) -> Vec<TensorData> {
    program(&inputs::<B>(device)).into_iter().map(float::<B>).collect()
}

macro_rules! check {
    ($($name:ident),*) => {
        $(same!(stringify!($name), EXACT, device => run::<B>($name::<B>, device));)*
    };
}

#[test]
fn bits_are_those_of_what_is_stored_wide() {
    check!(rows, places, turned, indexed, multiplied, moments);
}

/// The bytes that tensors hold on the device.
fn held() -> u64 {
    Fused::sync(&crate::check::device()).unwrap();
    crate::check::device::<rocfire_burn::RocmDevice>().open().unwrap().memory().live_bytes
}

#[test]
fn what_kernels_read_takes_half_the_memory_until_another_reads_it() {
    let (device, _guard) = device();
    let made = inputs::<Fused>(&device);
    let before = held();
    let mut results = rows::<Fused>(&made);
    let elements = 37 * 29;
    let (y, exponentials) = (results.pop().unwrap(), results.pop().unwrap());
    let beside = held() - before;
    assert!(
        (6 * elements..15 * elements / 2).contains(&beside),
        "{beside} bytes for {elements} elements of 2 and of 4 bytes"
    );
    // Burn sees the type that it asked for, and a product that comes later reads that.
    assert_eq!(y.dtype(), DType::F32);
    drop(exponentials);
    let (product, count) = launches(|| matmul::<Fused>(y.clone(), made[2].clone()));
    assert_eq!(count, 2, "one that widens it, and the product");
    let (again, count) = launches(|| matmul::<Fused>(y.clone(), made[2].clone()));
    assert_eq!(count, 1, "it was widened once and for all");
    assert_eq!(float::<Fused>(product), float::<Fused>(again));
}

#[test]
fn what_is_read_by_a_product_or_by_nobody_is_stored_wide() {
    let (device, _guard) = device();
    let made = inputs::<Fused>(&device);
    // The product, the second product, the sum: nothing widens it by itself.
    let (_results, count) = launches(|| multiplied::<Fused>(&made));
    assert_eq!(count, 3);
    let before = held();
    let y = wide::<Fused>(matmul::<Fused>(made[0].clone(), made[1].clone()));
    assert!(held() - before >= 4 * 37 * 29);
    let (_data, count) = launches(|| float::<Fused>(y));
    assert_eq!(count, 0, "it is read as it lies");
}

/// A gradient that is narrow and a moment that is overwritten, in steps of which each is a stretch of its own.
fn moments<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let mut moment = x[5].clone();
    for _ in 0..3 {
        let y = wide::<B>(B::float_matmul(x[0].clone(), x[1].clone()));
        let norm = B::float_sum(B::float_mul(y.clone(), y.clone()));
        let scaled = B::float_div(y, B::float_reshape(norm, Shape::from(vec![1, 1])));
        moment = B::float_add(B::float_mul_scalar(moment, Scalar::Float(0.9)), scaled);
        B::sync(&moment.device()).unwrap();
    }
    vec![moment]
}
