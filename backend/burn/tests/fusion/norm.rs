//! Reductions over the batch and the space of images: batch normalisation as it is trained, forwards and backwards.

use burn_autodiff::Autodiff;
use burn_backend::ops::{FloatTensorOps, ModuleOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, Scalar, TensorData};
use burn_flex::{Flex, FlexDevice};
use burn_std::BoolDType;
use rocfire_burn::{Fused, Rocm};

use crate::check::{EXACT, Tolerance, compare, f32s, float};
use crate::harness::{device, launches};

/// Sums of many, divided by a deviation, in another order.
const NEAR: Tolerance = Tolerance { absolute: 1e-4, relative: 1e-4 };

/// A layer as `burn::nn` trains it, with its running statistics, and a residual and ReLU behind it.
fn trained<B: Backend>(x: FloatTensor<B>, shape: &[usize], device: &B::Device) -> Vec<FloatTensor<B>> {
    let channels = |seed| f32s::<B>(&[shape[1]], seed, device);
    let result = B::batch_norm_train(x.clone(), channels(2), channels(3), 1e-5);
    let moved = |old, new| {
        let kept = B::float_mul_scalar(old, Scalar::Float(0.9));
        B::float_add(kept, B::float_mul_scalar(new, Scalar::Float(0.1)))
    };
    let (mean, variance) = (moved(channels(4), result.mean), moved(channels(5), result.variance));
    let sum = B::float_add(result.output, x);
    let below = B::float_lower_equal_elem(sum.clone(), Scalar::Float(0.0), BoolDType::Native);
    vec![B::float_mask_fill(sum, below, Scalar::Float(0.0)), mean, variance]
}

/// Everything that the gradient of the output gives.
fn backwards<B: Backend>(shape: &[usize], device: &B::Device) -> Vec<FloatTensor<B>> {
    let channels = |seed| f32s::<B>(&[shape[1]], seed, device);
    let (x, grad) = (f32s::<B>(shape, 1, device), f32s::<B>(shape, 7, device));
    let variance = B::float_abs(channels(5));
    let back = B::batch_norm_train_backward(x, channels(2), channels(4), variance, 1e-5, grad);
    vec![back.x_grad, back.gamma_grad, back.beta_grad]
}

const SHAPES: [&[usize]; 5] = [&[4, 3, 5, 6], &[7, 5], &[3, 4, 9], &[2, 3, 2, 3, 4], &[9, 2, 16, 16]];

fn data<B: Backend>(tensors: Vec<FloatTensor<B>>) -> Vec<TensorData> {
    tensors.into_iter().map(float::<B>).collect()
}

#[test]
fn a_trained_normalisation_is_one_launch_each_way() {
    let (device, _guard) = device();
    for shape in SHAPES {
        let x = f32s::<Fused>(shape, 1, &device);
        let (_y, count) = launches(|| trained::<Fused>(x, shape, &device));
        assert_eq!(count, 1, "forwards, {shape:?}");
        let (_y, count) = launches(|| backwards::<Fused>(shape, &device));
        assert_eq!(count, 1, "backwards, {shape:?}");
    }
}

#[test]
fn a_trained_normalisation_is_that_of_its_operations() {
    let (device, _guard) = device();
    for shape in SHAPES {
        let fused = data::<Fused>(trained::<Fused>(f32s::<Fused>(shape, 1, &device), shape, &device));
        let eager = data::<Rocm>(trained::<Rocm>(
            f32s::<Rocm>(shape, 1, &crate::check::device()),
            shape,
            &crate::check::device(),
        ));
        compare(&format!("forwards {shape:?}"), &fused, &eager, EXACT);
        let flex = data::<Flex>(trained::<Flex>(f32s::<Flex>(shape, 1, &FlexDevice), shape, &FlexDevice));
        compare(&format!("forwards {shape:?} on Flex"), &fused, &flex, NEAR);
        let fused = data::<Fused>(backwards::<Fused>(shape, &device));
        compare(
            &format!("backwards {shape:?}"),
            &fused,
            &data::<Rocm>(backwards::<Rocm>(shape, &crate::check::device())),
            EXACT,
        );
        let flex = data::<Flex>(backwards::<Flex>(shape, &FlexDevice));
        compare(&format!("backwards {shape:?} on Flex"), &fused, &flex, NEAR);
    }
}

#[test]
fn images_that_lie_otherwise_are_normalised_too() {
    // Channels last, and channels first of all: as convolutions may leave them.
    fn program<B: Backend>(axes: [usize; 4], lies: &[usize], device: &B::Device) -> Vec<TensorData> {
        let shape: Vec<usize> = axes.iter().map(|axis| lies[*axis]).collect();
        let x = B::float_permute(f32s::<B>(lies, 1, device), &axes);
        let channels = |seed| f32s::<B>(&[shape[1]], seed, device);
        let result = B::batch_norm_train(x, channels(2), channels(3), 1e-3);
        data::<B>(vec![result.output, result.mean, result.variance])
    }
    let (device, _guard) = device();
    for (axes, lies) in [([0, 3, 1, 2], [4, 5, 6, 3]), ([1, 0, 2, 3], [3, 4, 5, 6]), ([2, 0, 3, 1], [3, 5, 4, 6])] {
        let fused = program::<Fused>(axes, &lies, &device);
        compare(&format!("{axes:?}"), &fused, &program::<Rocm>(axes, &lies, &crate::check::device()), EXACT);
    }
}

/// Channels few and images large: what is summed is shared out over workgroups, whichever way the images lie.
#[test]
fn large_images_are_normalised_in_several_launches() {
    fn both_ways<B: Backend>(lies: &[usize], axes: [usize; 4], device: &B::Device) -> Vec<FloatTensor<B>> {
        let shape: Vec<usize> = axes.iter().map(|axis| lies[*axis]).collect();
        let image = |seed| B::float_permute(f32s::<B>(lies, seed, device), &axes);
        let channels = |seed| f32s::<B>(&[shape[1]], seed, device);
        let (x, grad) = (image(1), image(7));
        let mut all = trained::<B>(x.clone(), &shape, device);
        let back = B::batch_norm_train_backward(x, channels(2), channels(4), B::float_abs(channels(5)), 1e-5, grad);
        all.extend([back.x_grad, back.gamma_grad, back.beta_grad]);
        all
    }
    let (device, _guard) = device();
    // One pass after the other in two launches each, and the elements; both ways at once where views come between nothing.
    for (lies, axes, most) in
        [([6, 16, 57, 56], [0, 1, 2, 3], 5), ([6, 57, 56, 16], [0, 3, 1, 2], 8), ([6, 57, 49, 17], [0, 3, 1, 2], 8)]
    {
        let (fused, count) = launches(|| both_ways::<Fused>(&lies, axes, &device));
        assert_eq!(count, most, "{lies:?}");
        let eager = data::<Rocm>(both_ways::<Rocm>(&lies, axes, &crate::check::device()));
        compare(&format!("{lies:?} {axes:?}"), &data::<Fused>(fused), &eager, EXACT);
    }
}

#[test]
fn what_broadcasts_over_a_side_of_the_row_joins() {
    // Weights of the images, and a mask over the space.
    fn program<B: Backend>(device: &B::Device) -> Vec<FloatTensor<B>> {
        let (x, image) = (f32s::<B>(&[4, 3, 5, 6], 1, device), f32s::<B>(&[4, 1, 1, 1], 2, device));
        let place = f32s::<B>(&[1, 1, 5, 6], 3, device);
        let scaled = B::float_mul(B::float_mul(x, image), place);
        let sum = B::float_sum_dims(scaled.clone(), &[0, 2, 3]);
        vec![B::float_mul(scaled, B::float_recip(sum.clone())), sum]
    }
    let (device, _guard) = device();
    let (_y, count) = launches(|| program::<Fused>(&device));
    assert_eq!(count, 1);
    let fused = data::<Fused>(program::<Fused>(&device));
    compare("sides", &fused, &data::<Rocm>(program::<Rocm>(&crate::check::device())), NEAR);
    compare("sides on Flex", &fused, &data::<Flex>(program::<Flex>(&FlexDevice)), NEAR);
}

#[test]
fn a_gradient_through_a_normalisation_is_few_launches() {
    type Tracked<B> = FloatTensor<Autodiff<B>>;
    fn gradient<B: Backend>(device: &B::Device) -> FloatTensor<B> {
        let shape = [4, 3, 5, 6];
        let parameter = |shape: &[usize], seed| -> Tracked<B> {
            Autodiff::<B>::float_set_require_grad(f32s::<Autodiff<B>>(shape, seed, device), true)
        };
        let x = parameter(&shape, 1);
        let result = Autodiff::<B>::batch_norm_train(x.clone(), parameter(&[3], 2), parameter(&[3], 3), 1e-5);
        let y = Autodiff::<B>::float_tanh(result.output);
        let loss = Autodiff::<B>::float_sum(Autodiff::<B>::float_mul(y.clone(), y));
        Autodiff::<B>::grad(&x, &Autodiff::<B>::backward(loss)).unwrap()
    }
    let (device, _guard) = device();
    let (fused, count) = launches(|| gradient::<Fused>(&device));
    assert!(count <= 4, "{count} launches");
    compare("gradient", &[float::<Fused>(fused)], &[float::<Flex>(gradient::<Flex>(&FlexDevice))], NEAR);
}
