//! Random programs on `Fusion<Rocm>` and on `Rocm`: the same bits, whatever was fused.

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Scalar, Shape, Slice, TensorData, TensorMetadata};
use burn_std::{BoolDType, FloatDType};
use proptest::prelude::*;
use rocfire_burn::{Fused, Rocm};

use crate::check::{EXACT, compare, f32s, float};

const BOOL: BoolDType = BoolDType::Native;

/// The batch, its two factors, and the width: what linear layers and attention heads reshape between.
const BATCH: [usize; 2] = [2, 3];
const WIDTH: usize = 4;

/// One operation; operands are numbers of earlier tensors, taken modulo how many there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Unary(u8, usize),
    Scalar(u8, usize, i8),
    Binary(u8, usize, usize),
    Where(usize, usize, usize),
    Half(usize),
    Transpose(usize),
    Merge(usize),
    Split(usize),
    Halve(usize),
    Reduce(u8, usize, usize),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..64usize;
    prop_oneof![
        3 => (any::<u8>(), at()).prop_map(|(op, a)| Step::Unary(op, a)),
        3 => (any::<u8>(), at(), any::<i8>()).prop_map(|(op, a, value)| Step::Scalar(op, a, value)),
        8 => (any::<u8>(), at(), at()).prop_map(|(op, a, b)| Step::Binary(op, a, b)),
        2 => (at(), at(), at()).prop_map(|(a, b, c)| Step::Where(a, b, c)),
        1 => at().prop_map(Step::Half),
        2 => at().prop_map(Step::Transpose),
        2 => at().prop_map(Step::Merge),
        2 => at().prop_map(Step::Split),
        1 => at().prop_map(Step::Halve),
        3 => (any::<u8>(), at(), at()).prop_map(|(op, a, axis)| Step::Reduce(op, a, axis)),
        2 => at().prop_map(Step::Drop),
    ]
}

/// Tensors by age; a dropped one is gone.
struct Pool<B: Backend>(Vec<FloatTensor<B>>);

impl<B: Backend> Pool<B> {
    fn get(&self, at: usize) -> FloatTensor<B> {
        self.0[at % self.0.len()].clone()
    }

    /// A tensor that broadcasts with `a`: the first from `at` on; `a` itself at worst.
    fn beside(&self, a: &FloatTensor<B>, at: usize) -> FloatTensor<B> {
        let count = self.0.len();
        let fits = |b: &&FloatTensor<B>| {
            let (a, b) = (a.shape(), b.shape());
            a.rank() == b.rank() && a.iter().zip(b.iter()).all(|(a, b)| a == b || *a == 1 || *b == 1)
        };
        (at..at + count).map(|at| &self.0[at % count]).find(fits).unwrap_or(a).clone()
    }

    fn run(&mut self, step: Step) {
        let made = match step {
            Step::Unary(op, a) => unary::<B>(op, self.get(a)),
            Step::Scalar(op, a, value) => scalar::<B>(op, self.get(a), Scalar::Float(f64::from(value) / 64.0)),
            Step::Binary(op, a, b) => {
                let a = self.get(a);
                let b = self.beside(&a, b);
                binary::<B>(op, a, b)
            }
            Step::Where(a, b, c) => {
                let a = self.get(a);
                let b = self.beside(&a, b);
                let is_below = B::float_lower(a.clone(), b, BOOL);
                let c = B::float_mul_scalar(a.clone(), Scalar::Float(c as f64));
                B::float_mask_where(
                    B::float_expand(a, is_below.shape()),
                    is_below.clone(),
                    B::float_expand(c, is_below.shape()),
                )
            }
            Step::Half(a) => B::float_cast(B::float_cast(self.get(a), FloatDType::F16), FloatDType::F32),
            Step::Transpose(a) => {
                let a = self.get(a);
                let rank = a.shape().rank();
                B::float_swap_dims(a, 0, rank - 1)
            }
            Step::Merge(a) => {
                let a = self.get(a);
                let shape = a.shape();
                let merged = [vec![shape[0] * shape[1]], shape[2..].to_vec()].concat();
                B::float_reshape(a, Shape::from(merged))
            }
            Step::Split(a) => {
                let a = self.get(a);
                let shape = a.shape();
                let factors = if shape[0] == BATCH[0] * BATCH[1] { BATCH.to_vec() } else { vec![shape[0], 1] };
                B::float_reshape(a, Shape::from([factors, shape[1..].to_vec()].concat()))
            }
            Step::Halve(a) => {
                let a = self.get(a);
                let half = (a.shape()[0] / 2).max(1) as isize;
                B::float_slice(a, &[Slice::new(0, Some(half), 1)])
            }
            Step::Reduce(op, a, axis) => {
                let a = self.get(a);
                let axis = axis % a.shape().rank();
                reduce::<B>(op, a, axis)
            }
            Step::Drop(a) => {
                if self.0.len() > 2 {
                    let at = a % self.0.len();
                    self.0.remove(at);
                }
                return;
            }
        };
        if (2..=5).contains(&made.shape().rank()) {
            self.0.push(made);
        }
    }
}

fn unary<B: Backend>(op: u8, x: FloatTensor<B>) -> FloatTensor<B> {
    match op % 6 {
        0 => B::float_neg(x),
        1 => B::float_abs(x),
        2 => B::float_tanh(x),
        3 => B::float_floor(x),
        4 => B::float_sign(x),
        _ => B::float_sqrt(B::float_abs(x)),
    }
}

fn scalar<B: Backend>(op: u8, x: FloatTensor<B>, value: Scalar) -> FloatTensor<B> {
    match op % 4 {
        0 => B::float_add_scalar(x, value),
        1 => B::float_mul_scalar(x, value),
        2 => B::float_clamp_max(x, value),
        _ => B::float_sub_scalar(x, value),
    }
}

fn binary<B: Backend>(op: u8, a: FloatTensor<B>, b: FloatTensor<B>) -> FloatTensor<B> {
    match op % 4 {
        0 => B::float_add(a, b),
        1 => B::float_sub(a, b),
        2 => B::float_mul(a, b),
        _ => B::float_hypot(a, b),
    }
}

fn reduce<B: Backend>(op: u8, x: FloatTensor<B>, axis: usize) -> FloatTensor<B> {
    match op % 4 {
        0 => B::float_sum_dim(x, axis),
        1 => B::float_mean_dim(x, axis),
        2 => B::float_max_dim(x, axis),
        _ => B::float_min_dim(x, axis),
    }
}

/// Everything that is left at the end.
fn run<B: Backend>(steps: &[Step], device: &B::Device) -> Vec<TensorData> {
    let rows = BATCH[0] * BATCH[1];
    let shapes: [&[usize]; 5] =
        [&[rows, WIDTH], &[1, WIDTH], &[BATCH[0], BATCH[1], WIDTH], &[rows, 1], &[BATCH[0], 1, WIDTH]];
    let inputs = shapes.iter().zip(1..).map(|(shape, seed)| f32s::<B>(shape, seed, device));
    let mut pool = Pool::<B>(inputs.collect());
    for step in steps {
        pool.run(*step);
    }
    pool.0.into_iter().map(float::<B>).collect()
}

proptest! {
    // Each case is a few new kernels to compile; PROPTEST_CASES asks for more.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_are_those_of_their_operations(steps in prop::collection::vec(step(), 1..24)) {
        let (device, _guard) = crate::harness::device();
        compare(&format!("{steps:?}"), &run::<Fused>(&steps, &device), &run::<Rocm>(&steps, &device), EXACT);
    }
}
