//! Convolutions with what follows them: one launch, and the bits of the convolution and then the operations.

use burn_backend::ops::ConvOptions;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Scalar, Shape, TensorData, TensorMetadata};
use burn_std::FloatDType;
use rocfire_burn::Fused;

use crate::check::{EXACT, f32s, float};
use crate::harness::{device, launches, same};

type Program<B> = fn(&[FloatTensor<B>]) -> Vec<FloatTensor<B>>;

fn reshape<B: Backend>(x: FloatTensor<B>, shape: &[usize]) -> FloatTensor<B> {
    B::float_reshape(x, Shape::from(shape.to_vec()))
}

/// A batch normalisation by known statistics in Burn's primitives and order: mean, root of the variance, factor, shift.
fn normalised<B: Backend>(x: FloatTensor<B>, known: &[FloatTensor<B>]) -> FloatTensor<B> {
    let channels = known[0].shape()[0];
    let [mean, root, gamma, beta] = [0, 1, 2, 3].map(|at| reshape::<B>(known[at].clone(), &[1, channels, 1, 1]));
    let variance = B::float_mul(root.clone(), root);
    let deviation = B::float_sqrt(B::float_add_scalar(variance, Scalar::Float(1e-3)));
    let normal = B::float_div(B::float_sub(x, mean), deviation);
    B::float_add(B::float_mul(normal, gamma), beta)
}

fn strided(groups: usize) -> ConvOptions<2> {
    ConvOptions::new([2, 2], [1, 1], [1, 1], groups)
}

fn same_size() -> ConvOptions<2> {
    ConvOptions::new([1, 1], [1, 1], [1, 1], 1)
}

/// Convolution, normalisation, activation.
fn block<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = B::conv2d(x[0].clone(), x[1].clone(), Some(x[2].clone()), strided(1));
    vec![B::relu(normalised::<B>(y, &x[12..16]))]
}

/// A block's way around is the convolution's own operand, used here for the last time; the sum before the activation is kept.
fn residual<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let x0 = B::float_add_scalar(x[0].clone(), Scalar::Float(0.5));
    let y = normalised::<B>(B::conv2d(x0.clone(), x[4].clone(), None, same_size()), &x[16..20]);
    let sum = B::float_add(y, x0);
    vec![B::relu(sum.clone()), sum]
}

/// A convolution of each channel by itself, and one of single elements: a mobile network's block, in half precision.
fn depthwise<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let [x0, w, p] = [0, 5, 6].map(|at| B::float_cast(x[at].clone(), FloatDType::F16));
    let y = B::conv2d(x0, w, None, strided(6));
    let y = B::float_clamp(y, Scalar::Float(0.0), Scalar::Float(6.0));
    let y = B::conv2d(y, p, None, ConvOptions::new([1, 1], [0, 0], [1, 1], 1));
    vec![B::float_cast(B::float_mul_scalar(y, Scalar::Float(0.3)), FloatDType::F32)]
}

fn line<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = B::conv1d(x[7].clone(), x[8].clone(), None, ConvOptions::new([2], [1], [2], 1));
    vec![B::gelu(B::float_add(y, reshape::<B>(x[2].clone(), &[1, 8, 1])))]
}

fn solid<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = B::conv3d(x[9].clone(), x[10].clone(), None, ConvOptions::new([1, 2, 1], [1, 0, 1], [1, 1, 2], 1));
    vec![B::float_tanh(y)]
}

/// Behind the convolution the places become one axis.
fn flattened<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = B::conv2d(x[0].clone(), x[1].clone(), None, strided(1));
    let y = B::float_add(y, reshape::<B>(x[2].clone(), &[1, 8, 1, 1]));
    vec![B::relu(reshape::<B>(y, &[2, 8, 5 * 4]))]
}

/// A factor for each of two halves of the channels, which no epilogue reads.
fn by_half<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = B::conv2d(x[0].clone(), x[1].clone(), None, strided(1));
    vec![B::float_mul(reshape::<B>(y, &[2, 2, 4, 5, 4]), x[11].clone())]
}

/// A stem with its pool, single elements, windows with a residual, in half precision: results lie with their channels innermost
/// from one to the next, and places are flattened at the end.
fn stem<B: Backend>(x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let y = B::relu(normalised::<B>(B::conv2d(x[0].clone(), x[1].clone(), None, same_size()), &x[4..8]));
    let y = B::max_pool2d(y, [3, 3], [1, 1], [1, 1], [1, 1], false);
    let z = B::conv2d(y.clone(), x[2].clone(), None, ConvOptions::new([1, 1], [0, 0], [1, 1], 1));
    let z = B::conv2d(B::relu(z), x[3].clone(), None, same_size());
    let sum = B::relu(B::float_add(normalised::<B>(z, &x[4..8]), y));
    let flat = B::float_mul_scalar(reshape::<B>(sum.clone(), &[2, 32, SIDE * SIDE]), Scalar::Float(0.7));
    [sum, flat].map(|x| B::float_cast(x, FloatDType::F32)).to_vec()
}

/// Height and width of the stem's images: two have more than the 1024 places from which on layouts are changed.
const SIDE: usize = 27;

fn stem_inputs<B: Backend>(device: &B::Device) -> Vec<FloatTensor<B>> {
    let shapes: [&[usize]; 8] =
        [&[2, 3, SIDE, SIDE], &[32, 3, 3, 3], &[40, 32, 1, 1], &[32, 40, 3, 3], &[32], &[32], &[32], &[32]];
    let made = shapes.iter().zip(1..).map(|(shape, seed)| f32s::<B>(shape, seed, device));
    made.map(|x| B::float_cast(x, FloatDType::F16)).collect()
}

fn inputs<B: Backend>(device: &B::Device) -> Vec<FloatTensor<B>> {
    let shapes: [&[usize]; 20] = [
        &[2, 6, 9, 7],
        &[8, 6, 3, 3],
        &[8],
        &[1],
        &[6, 6, 3, 3],
        &[6, 1, 3, 3],
        &[16, 6, 1, 1],
        &[3, 5, 21],
        &[8, 5, 3],
        &[2, 2, 4, 5, 6],
        &[4, 2, 2, 3, 2],
        &[1, 2, 1, 1, 1],
        &[8],
        &[8],
        &[8],
        &[8],
        &[6],
        &[6],
        &[6],
        &[6],
    ];
    let made = shapes.iter().zip(1..).map(|(shape, seed)| f32s::<B>(shape, seed, device));
    made.collect()
}

fn run<B: Backend>(program: Program<B>, device: &B::Device) -> Vec<TensorData> {
    program(&inputs::<B>(device)).into_iter().map(float::<B>).collect()
}

macro_rules! check {
    ($name:ident, $launches:expr) => {{
        {
            let (device, _guard) = device();
            let made = inputs::<Fused>(&device);
            let (_results, count) = launches(|| $name::<Fused>(&made));
            let plans: String = rocfire_burn::plans().iter().map(ToString::to_string).collect();
            assert_eq!(count, $launches, "launches of {}; plans so far:\n{plans}", stringify!($name));
        }
        same!(stringify!($name), EXACT, device => run::<B>($name::<B>, device));
    }};
}

#[test]
fn a_convolution_takes_its_normalisation_and_activation() {
    check!(block, 1);
}

#[test]
fn an_operand_may_be_the_residual() {
    check!(residual, 2);
}

#[test]
fn small_groups_and_single_elements_take_epilogues_too() {
    // The casts of what there is share one.
    check!(depthwise, 3);
}

#[test]
fn convolutions_of_one_and_three_axes_take_epilogues() {
    check!(line, 1);
    check!(solid, 1);
}

#[test]
fn a_convolution_may_be_flattened() {
    check!(flattened, 1);
}

#[test]
fn an_epilogue_over_part_of_the_channels_runs_apart() {
    check!(by_half, 2);
}

#[test]
fn results_with_channels_innermost_have_the_same_bits() {
    {
        let (device, _guard) = device();
        let made = stem_inputs::<Fused>(&device);
        Fused::sync(&device).unwrap();
        // Two copies fill the channels of the image and its weight up, the last weight is packed; nothing else is laid out anew.
        let (_results, count) = launches(|| stem::<Fused>(&made));
        assert!(count <= 8, "{count} launches");
    }
    same!("stem", EXACT, device => stem::<B>(&stem_inputs::<B>(device)).into_iter().map(float::<B>).collect());
}
