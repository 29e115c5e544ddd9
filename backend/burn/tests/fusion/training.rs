//! Gradients through `Autodiff<Fused>`, and the optimiser's update: how many launches training costs.

use burn_autodiff::Autodiff;
use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, Scalar, TensorData};
use burn_flex::{Flex, FlexDevice};
use rocfire_burn::Fused;

use crate::check::{SUMS, compare, f32s, float};
use crate::harness::{device, launches, same};
use crate::rows::{layer_norm, log_softmax, softmax};

type Tracked<B> = FloatTensor<Autodiff<B>>;

/// A parameter of these numbers.
fn parameter<B: Backend>(shape: &[usize], seed: u64, device: &B::Device) -> Tracked<B> {
    Autodiff::<B>::float_set_require_grad(f32s::<Autodiff<B>>(shape, seed, device), true)
}

/// The gradient of the sum of squares of `y` for `x`.
fn gradient<B: Backend>(x: &Tracked<B>, y: Tracked<B>) -> FloatTensor<B> {
    let loss = Autodiff::<B>::float_sum(Autodiff::<B>::float_mul(y.clone(), y));
    Autodiff::<B>::grad(x, &Autodiff::<B>::backward(loss)).unwrap()
}

fn softmax_gradient<B: Backend>(device: &B::Device) -> FloatTensor<B> {
    let x = parameter::<B>(&[3, 5, 8], 1, device);
    gradient::<B>(&x, softmax::<Autodiff<B>>(x.clone(), 2))
}

fn log_softmax_gradient<B: Backend>(device: &B::Device) -> FloatTensor<B> {
    let x = parameter::<B>(&[3, 5, 8], 1, device);
    gradient::<B>(&x, log_softmax::<Autodiff<B>>(x.clone(), 2))
}

fn layer_norm_gradient<B: Backend>(device: &B::Device) -> FloatTensor<B> {
    let x = parameter::<B>(&[3, 5, 8], 1, device);
    let [gamma, beta] = [2, 3].map(|seed| parameter::<B>(&[8], seed, device));
    gradient::<B>(&x, layer_norm::<Autodiff<B>>(x.clone(), gamma, beta))
}

/// A gradient on the fused device and on Flex, and the fused device's launches, the inputs' copies not counted among them.
fn both(
    what: &str,
    ours: impl FnOnce(&rocfire_burn::BurnDevice) -> FloatTensor<Fused>,
    theirs: FloatTensor<Flex>,
) -> u64 {
    let (device, _guard) = device();
    let (gradient, count) = launches(|| ours(&device));
    compare(what, &[float::<Fused>(gradient)], &[float::<Flex>(theirs)], SUMS);
    count
}

#[test]
fn softmax_and_its_gradient_are_few_launches() {
    // Forward with the loss's square, the loss's sum, and everything backward: 3; the limit leaves room for one more.
    let count = both("softmax", softmax_gradient::<Fused>, softmax_gradient::<Flex>(&FlexDevice));
    assert!(count <= 4, "softmax: {count} launches");
    let count = both("log_softmax", log_softmax_gradient::<Fused>, log_softmax_gradient::<Flex>(&FlexDevice));
    assert!(count <= 4, "log_softmax: {count} launches");
}

#[test]
fn layer_norm_and_its_gradient_are_few_launches() {
    // 54 operations. Backward sums over the rows for x and over the batch for gamma and beta: kernels of different rows,
    // between which the partition leaves two small ones and one reduction by itself. Seven, with the loss's own sum.
    let count = both("layer_norm", layer_norm_gradient::<Fused>, layer_norm_gradient::<Flex>(&FlexDevice));
    assert!(count <= 7, "{count} launches");
}

/// The update that Burn's AdamW makes of one parameter: the new parameter and both moments.
fn adamw<B: Backend>(
    parameter: FloatTensor<B>,
    gradient: FloatTensor<B>,
    first: FloatTensor<B>,
    second: FloatTensor<B>,
) -> [FloatTensor<B>; 3] {
    let scaled = |x, by: f64| B::float_mul_scalar(x, Scalar::Float(by));
    let first = B::float_add(scaled(first, 0.9), scaled(gradient.clone(), 0.1));
    let second = B::float_add(scaled(second, 0.999), scaled(B::float_mul(gradient.clone(), gradient), 0.001));
    let corrected = B::float_div_scalar(first.clone(), Scalar::Float(0.19));
    let spread = B::float_sqrt(B::float_div_scalar(second.clone(), Scalar::Float(0.002)));
    let step = B::float_div(corrected, B::float_add_scalar(spread, Scalar::Float(1e-5)));
    let parameter = B::float_sub(scaled(parameter, 0.9999), scaled(step, 1e-3));
    [parameter, first, second]
}

/// Parameters of these shapes, with gradient and moments.
fn parameters<B: Backend>(device: &B::Device) -> Vec<[FloatTensor<B>; 4]> {
    let shapes: [&[usize]; 4] = [&[8, 16], &[16], &[16, 8], &[3, 700]];
    let made =
        shapes.iter().zip(0..).map(|(shape, at)| [1, 2, 3, 4].map(|seed| positive::<B>(shape, seed + 10 * at, device)));
    made.collect()
}

fn update<B: Backend>(parameters: Vec<[FloatTensor<B>; 4]>) -> Vec<FloatTensor<B>> {
    parameters.into_iter().flat_map(|[p, g, m, v]| adamw::<B>(p, g, m, v)).collect()
}

#[test]
fn adamw_is_one_launch_for_all_parameters() {
    let (device, _guard) = device();
    let inputs = parameters::<Fused>(&device);
    let (updated, count) = launches(|| update::<Fused>(inputs));
    assert_eq!(count, 1);
    let expected = update::<Flex>(parameters::<Flex>(&FlexDevice));
    let data = |tensors: Vec<FloatTensor<Fused>>| tensors.into_iter().map(float::<Fused>).collect::<Vec<_>>();
    let expected: Vec<_> = expected.into_iter().map(float::<Flex>).collect();
    compare("adamw of several parameters", &data(updated), &expected, SUMS);
}

fn positive<B: Backend>(shape: &[usize], seed: u64, device: &B::Device) -> FloatTensor<B> {
    let data = float::<B>(B::float_abs(f32s::<B>(shape, seed, device)));
    B::float_from_data(data, device)
}

#[test]
fn adamw_is_that_of_its_operations_over_steps() {
    same!("adamw", crate::check::EXACT, device => {
        let [mut p, mut m, mut v] = [1, 3, 4].map(|seed| positive::<B>(&[6, 5], seed, device));
        for seed in 0..3 {
            [p, m, v] = adamw::<B>(p, f32s::<B>(&[6, 5], 10 + seed, device), m, v);
        }
        [p, m, v].map(float::<B>).to_vec() as Vec<TensorData>
    });
}
