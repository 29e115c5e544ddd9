//! Results that are not kept, and computed again where they are read: by whom, with which bits, and in how much memory.
//!
//! Small ones are kept, so the tests run once more as a process that keeps none of any size.

use burn_autodiff::Autodiff;
use burn_backend::ops::{ActivationOps, ConvOptions, FloatTensorOps, ModuleOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, Distribution, Scalar, Shape, TensorData, TensorMetadata};
use burn_std::FloatDType;
use rocfire_burn::{Fused, RocmDevice, recorded};

use crate::check::{self, EXACT, f32s, float};
use crate::harness::{device, same};

const AGAIN: &str = "ROCFIRE_TEST_AGAIN";

/// Runs this file's tests that need it as a process that keeps nothing that can be computed again.
#[test]
fn results_of_any_size() {
    if std::env::var_os(AGAIN).is_some() {
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["recompute::again_", "--test-threads=1"])
        .env(AGAIN, "1")
        .env("ROCFIRE_RECOMPUTE_KB", "0")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("9 passed"), "{printed}");
}

/// How many tensors were computed again while `program` ran.
fn recomputed<R>(program: impl FnOnce() -> R) -> (R, u64) {
    let device = check::device::<RocmDevice>();
    let before = recorded(&device).recomputed;
    let result = program();
    (result, recorded(&device).recomputed - before)
}

/// Input, numbers of each channel, and what comes from behind: `[3, 5, 7, 11]`, `[1, 5, 1, 1]` twice, `[3, 5, 7, 11]`.
fn inputs<B: Backend>(device: &B::Device) -> [FloatTensor<B>; 4] {
    let shapes: [&[usize]; 4] = [&[3, 5, 7, 11], &[1, 5, 1, 1], &[1, 5, 1, 1], &[3, 5, 7, 11]];
    let mut seed = 0;
    shapes.map(|shape| {
        seed += 1;
        f32s::<B>(shape, seed, device)
    })
}

/// What a rectifier behind a normalisation reads.
fn normalised<B: Backend>(x: FloatTensor<B>, by: [&FloatTensor<B>; 2]) -> FloatTensor<B> {
    B::float_cast(B::float_mul(B::float_sub(x, by[0].clone()), by[1].clone()), FloatDType::F16)
}

/// The rectifier's result, and what it has read, which is not kept.
fn rectified<B: Backend>(device: &B::Device) -> ([FloatTensor<B>; 4], FloatTensor<B>, FloatTensor<B>) {
    let x = inputs::<B>(device);
    let read = normalised::<B>(x[0].clone(), [&x[1], &x[2]]);
    let y = B::relu(read.clone());
    B::sync(device).unwrap();
    (x, read, y)
}

/// A kernel reads it, beside a source of it; then another.
fn kernels<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    let (x, read, y) = rectified::<B>(device);
    let behind = B::float_cast(x[3].clone(), FloatDType::F16);
    let first = B::float_add(B::relu_backward(read.clone(), behind), B::float_cast(x[0].clone(), FloatDType::F16));
    B::sync(device).unwrap();
    vec![float::<B>(y), float::<B>(first), float::<B>(B::float_exp(read))]
}

/// The host reads it, and a tensor made of it.
fn host<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    let (_, read, y) = rectified::<B>(device);
    vec![float::<B>(read.clone()), float::<B>(y), float::<B>(B::float_neg(read))]
}

/// A product, a view and a convolution read it, which take it from memory.
fn memory<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    let (_, read, _) = rectified::<B>(device);
    let product = B::float_matmul(read.clone(), B::float_transpose(read.clone()));
    let weight = B::float_cast(f32s::<B>(&[4, 5, 3, 3], 9, device), FloatDType::F16);
    let convolved = B::conv2d(read.clone(), weight, None, ConvOptions::new([1, 1], [1, 1], [1, 1], 1));
    let turned = B::float_permute(read, &[3, 1, 0, 2]);
    [product, convolved, turned].map(float::<B>).into()
}

/// Its sources have ended, in an earlier stretch or in the one that reads it.
fn orphaned<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    let ([x, low, high, behind], read, _) = rectified::<B>(device);
    let first = B::float_add(x, behind);
    let second = B::float_mul(read, B::float_cast(B::float_mul(low, high), FloatDType::F16));
    let before = [first, second].map(float::<B>).to_vec();
    let (x, read, _) = rectified::<B>(device);
    drop(x);
    B::sync(device).unwrap();
    before.into_iter().chain([float::<B>(read)]).collect()
}

/// One that follows from two normalisations, another that follows from the first, and the first one's rectifier once more.
fn chained<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    let x = inputs::<B>(device);
    let sum =
        B::float_add(normalised::<B>(x[0].clone(), [&x[1], &x[2]]), normalised::<B>(x[3].clone(), [&x[2], &x[1]]));
    let y = B::relu(sum.clone());
    let square = B::float_mul(sum.clone(), sum.clone());
    let z = B::float_exp(square.clone());
    B::sync(device).unwrap();
    [square, z, B::relu(sum), y].map(float::<B>).into()
}

/// Random numbers, sums of rows and a slice are no less what they were.
fn kept<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    let x = inputs::<B>(device);
    let drawn =
        B::float_add(x[0].clone(), B::float_random(x[0].shape(), Distribution::Default, device, FloatDType::F32));
    let (y, twice) = (B::relu(drawn.clone()), B::float_mul_scalar(drawn.clone(), Scalar::Float(2.0)));
    let sums = B::float_sum_dim(x[0].clone(), 3);
    let z = B::float_exp(B::float_neg(sums.clone()));
    B::sync(device).unwrap();
    let difference = B::float_sub(B::float_add(drawn.clone(), drawn), twice);
    drop(y);
    [difference, z, sums].map(float::<B>).into()
}

macro_rules! programs {
    ($($test:ident: $program:ident, $count:expr;)*) => {
        $(#[test]
        fn $test() {
            if std::env::var_os(AGAIN).is_none() {
                return;
            }
            let ((), count) = recomputed(|| same!(stringify!($program), EXACT, device => $program::<B>(device)));
            assert_eq!(count, $count);
        })*
    };
}

programs! {
    again_kernels_read_it: kernels, 2;
    again_the_host_reads_it: host, 1;
    again_products_and_views_read_it: memory, 1;
    again_its_sources_have_ended: orphaned, 2;
    again_one_follows_from_another: chained, 2;
    again_what_cannot_be_repeated_is_kept: kept, 0;
}

/// Gradients of a convolution, a normalisation and a rectifier, in half precision around the normalisation, on `Fused` as on `Rocm`.
fn gradients<B: Backend>(device: &B::Device) -> Vec<TensorData> {
    type A<B> = Autodiff<B>;
    let half = |x| A::<B>::float_cast(x, FloatDType::F16);
    let tracked = |shape: &[usize], seed| A::<B>::float_set_require_grad(f32s::<A<B>>(shape, seed, device), true);
    let (weight, gamma, beta) = (tracked(&[6, 5, 3, 3], 1), tracked(&[6], 2), tracked(&[6], 3));
    let x = half(f32s::<A<B>>(&[4, 5, 9, 9], 4, device));
    let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
    let convolved = A::<B>::conv2d(x, half(weight.clone()), None, options);
    let wide = A::<B>::float_cast(convolved, FloatDType::F32);
    let normal = A::<B>::batch_norm_train(wide, gamma.clone(), beta.clone(), 1e-5);
    let y = A::<B>::relu(half(normal.output));
    B::sync(device).unwrap();
    let gradients = A::<B>::backward(A::<B>::float_sum(A::<B>::float_mul(y.clone(), y)));
    [weight, gamma, beta].map(|of| float::<B>(A::<B>::grad(&of, &gradients).unwrap())).into()
}

#[test]
fn again_gradients_have_the_same_bits() {
    if std::env::var_os(AGAIN).is_none() {
        return;
    }
    let (device, _guard) = device::<RocmDevice>();
    let (fused, count) = recomputed(|| gradients::<Fused>(&device.burn()));
    assert_eq!(count, 1);
    let again = gradients::<Fused>(&device.burn());
    check::compare("gradients once more", &fused, &again, EXACT);
    check::compare("gradients", &fused, &gradients::<rocfire_burn::Rocm>(&device), check::SUMS);
}

#[test]
fn again_nothing_is_held_for_what_is_dropped() {
    if std::env::var_os(AGAIN).is_none() {
        return;
    }
    let (device, _guard) = device::<RocmDevice>();
    let (burn, open) = (device.burn(), device.open().unwrap());
    let live = || {
        Fused::sync(&burn).unwrap();
        open.memory().live_bytes
    };
    let before = live();
    let (x, read, y) = rectified::<Fused>(&burn);
    let elements = read.shape().num_elements() as u64;
    // Two inputs in f32, two numbers for each of 5 channels, and the rectifier's result in f16: not what it has read.
    let kept = 4 * (2 * elements + 10) + 2 * elements;
    assert_eq!(live() - before, kept);
    drop((x, y));
    // It can still be read, so what it is computed from stays.
    assert_eq!(live() - before, 4 * (elements + 10));
    drop(read);
    assert_eq!(live(), before);
}

#[test]
fn again_another_thread_reads_it() {
    if std::env::var_os(AGAIN).is_none() {
        return;
    }
    let (device, _guard) = device::<RocmDevice>();
    let burn = device.burn();
    let (x, read, _) = rectified::<Fused>(&burn);
    let there = {
        let read = read.clone();
        std::thread::spawn(move || {
            let doubled = Fused::float_mul_scalar(read, Scalar::Float(2.0));
            drop(x);
            float::<Fused>(doubled)
        })
    };
    let here = float::<Fused>(Fused::float_mul_scalar(read, Scalar::Float(2.0)));
    let there = there.join().unwrap();
    check::compare("two threads", std::slice::from_ref(&here), &[there], EXACT);
    let (_, eager, _) = rectified::<rocfire_burn::Rocm>(&device);
    let eager = float::<rocfire_burn::Rocm>(rocfire_burn::Rocm::float_mul_scalar(eager, Scalar::Float(2.0)));
    check::compare("another thread", &[here], &[eager], EXACT);
}

/// What is not kept by itself is 8 MiB and more.
#[test]
fn large_results_are_computed_again_and_small_ones_kept() {
    let (device, _guard) = device::<RocmDevice>();
    let burn = device.burn();
    for (rows, expected) in [(1 << 11, 1), ((1 << 11) - 1, 0)] {
        let ((), count) = recomputed(|| {
            let x = Fused::float_ones(Shape::from(vec![rows, 1 << 10]), &burn, FloatDType::F32);
            Fused::sync(&burn).unwrap();
            let read = Fused::float_neg(x.clone());
            let y = Fused::float_exp(read.clone());
            Fused::sync(&burn).unwrap();
            let sum = float::<Fused>(Fused::float_sum(read));
            drop((x, y));
            check::compare("sum", &[sum], &[TensorData::from([-(rows as f32 * 1024.0)])], EXACT);
        });
        assert_eq!(count, expected, "{rows} rows");
    }
}
