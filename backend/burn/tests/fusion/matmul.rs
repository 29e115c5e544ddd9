//! Matrix products with what follows them: one launch, and the bits of the product and then the operations.

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Scalar, Shape, TensorData};
use burn_std::{BoolDType, FloatDType};
use rocfire_burn::Fused;

use crate::check::{EXACT, f32s, float};
use crate::harness::{device, launches, same};

type Program<B> = fn(&<B as burn_backend::BackendTypes>::Device, &[FloatTensor<B>]) -> Vec<FloatTensor<B>>;

fn reshape<B: Backend>(x: FloatTensor<B>, shape: &[usize]) -> FloatTensor<B> {
    B::float_reshape(x, Shape::from(shape.to_vec()))
}

/// A product, a bias, an activation; the sum before the activation is kept, as a gradient would want it.
fn linear<B: Backend>(_: &B::Device, x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let sum = B::linear(x[0].clone(), x[1].clone(), Some(x[2].clone()));
    vec![B::gelu(sum.clone()), sum]
}

/// An activation alone, as inference has it, in half precision and back.
fn half<B: Backend>(_: &B::Device, x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let [a, b, bias] = [0, 1, 2].map(|at| B::float_cast(x[at].clone(), FloatDType::BF16));
    let product = B::float_matmul(a, b);
    let sum = B::float_add(product, reshape::<B>(bias, &[1, 21]));
    vec![B::float_cast(B::relu(sum), FloatDType::F32)]
}

/// The residual is the product's own operand, used here for the last time.
fn residual<B: Backend>(_: &B::Device, x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let x0 = B::float_add_scalar(x[3].clone(), Scalar::Float(0.5));
    let product = B::float_matmul(x0.clone(), x[4].clone());
    vec![B::float_add(B::float_mul_scalar(product, Scalar::Float(0.25)), x0)]
}

/// Heads: the product is reshaped and transposed, a table of positions is added to part of its rows.
fn heads<B: Backend>(_: &B::Device, x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let product = B::float_matmul(reshape::<B>(x[5].clone(), &[6, 16]), B::float_swap_dims(x[6].clone(), 0, 1));
    let product = B::float_add(reshape::<B>(product, &[2, 3, 20]), x[7].clone());
    vec![B::float_swap_dims(reshape::<B>(product, &[2, 3, 4, 5]), 1, 2)]
}

/// A factor for each head: it broadcasts over part of the columns, which no epilogue reads.
fn by_head<B: Backend>(_: &B::Device, x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let product = B::float_matmul(reshape::<B>(x[5].clone(), &[6, 16]), B::float_swap_dims(x[6].clone(), 0, 1));
    vec![B::float_mul(reshape::<B>(product, &[6, 4, 5]), x[8].clone())]
}

/// A batch, masked and scaled: what attention does to its scores.
fn scores<B: Backend>(_: &B::Device, x: &[FloatTensor<B>]) -> Vec<FloatTensor<B>> {
    let keys = B::float_swap_dims(x[5].clone(), 1, 2);
    let scores = B::float_mul_scalar(B::float_matmul(x[5].clone(), keys), Scalar::Float(0.25));
    let mask = B::float_greater(scores.clone(), x[9].clone(), BoolDType::Native);
    vec![B::float_mask_fill(scores, mask, Scalar::Float(-1e30))]
}

fn inputs<B: Backend>(device: &B::Device) -> Vec<FloatTensor<B>> {
    let shapes: [&[usize]; 10] = [
        &[19, 33],
        &[33, 21],
        &[21],
        &[24, 24],
        &[24, 24],
        &[2, 3, 16],
        &[20, 16],
        &[1, 3, 20],
        &[1, 4, 1],
        &[1, 3, 3],
    ];
    let made = shapes.iter().zip(1..).map(|(shape, seed)| f32s::<B>(shape, seed, device));
    made.collect()
}

fn run<B: Backend>(program: Program<B>, device: &B::Device) -> Vec<TensorData> {
    program(device, &inputs::<B>(device)).into_iter().map(float::<B>).collect()
}

macro_rules! check {
    ($name:ident, $launches:expr) => {{
        {
            let (device, _guard) = device();
            let made = inputs::<Fused>(&device);
            let (_results, count) = launches(|| $name::<Fused>(&device, &made));
            assert_eq!(count, $launches, "launches of {}", stringify!($name));
        }
        same!(stringify!($name), EXACT, device => run::<B>($name::<B>, device));
    }};
}

#[test]
fn a_linear_layer_and_its_activation_are_one_launch() {
    check!(linear, 1);
}

#[test]
fn an_epilogue_rounds_as_its_operations_do() {
    same!("half", EXACT, device => run::<B>(half::<B>, device));
}

#[test]
fn an_operand_may_be_the_residual() {
    check!(residual, 2);
}

#[test]
fn reshaped_products_end_in_epilogues_over_part_of_their_rows() {
    check!(heads, 1);
}

#[test]
fn an_epilogue_over_part_of_the_columns_runs_apart() {
    check!(by_head, 2);
}

#[test]
fn scaled_and_masked_scores_are_one_launch() {
    check!(scores, 1);
}
