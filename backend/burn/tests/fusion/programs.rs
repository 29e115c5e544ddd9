//! Random programs on `Fused` and on `Rocm`: the same bits, whatever was fused, products and dropout among them. And on Flex, where they are smooth:
//! nearly the same numbers.

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Distribution, Scalar, Shape, Slice, TensorData, TensorMetadata};
use burn_std::{BoolDType, FloatDType, IntDType};
use proptest::prelude::*;
use rocfire_burn::{Fused, Rocm};

use crate::check::{EXACT, Tolerance, compare, f32s, float, indices};

const BOOL: BoolDType = BoolDType::Native;

/// The batch, its two factors, and the width: what linear layers and attention heads reshape between.
const BATCH: [usize; 2] = [2, 3];
const WIDTH: usize = 4;

/// Larger tensors are not kept.
const ELEMENTS_MOST: usize = 1000;

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
    Whole(u8, usize),
    Brain(usize, usize),
    Count(usize),
    Flags(usize, usize),
    Every(usize, usize, i8),
    Turn(usize),
    Part(usize, usize, u8, i8),
    Flip(usize, u8),
    Many(usize, usize, usize),
    Assign(usize, usize, u8, i8),
    Pad(usize, usize, u8),
    Cat(usize, usize, usize),
    Select(usize, usize),
    Gather(usize, usize),
    Repeat(usize, usize),
    Product(usize),
    Dropout(usize, u8),
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
        1 => (any::<u8>(), at()).prop_map(|(op, a)| Step::Whole(op, a)),
        1 => (at(), at()).prop_map(|(a, b)| Step::Brain(a, b)),
        1 => at().prop_map(Step::Count),
        1 => (at(), at()).prop_map(|(a, b)| Step::Flags(a, b)),
        1 => (at(), at(), any::<i8>()).prop_map(|(a, axis, step)| Step::Every(a, axis, step)),
        1 => at().prop_map(Step::Turn),
        2 => (at(), at(), any::<u8>(), any::<i8>()).prop_map(|(a, axis, from, step)| Step::Part(a, axis, from, step)),
        1 => (at(), any::<u8>()).prop_map(|(a, axes)| Step::Flip(a, axes)),
        1 => (at(), at(), at()).prop_map(|(a, b, axis)| Step::Many(a, b, axis)),
        2 => (at(), at(), any::<u8>(), any::<i8>()).prop_map(|(a, b, from, step)| Step::Assign(a, b, from, step)),
        1 => (at(), at(), any::<u8>()).prop_map(|(a, axis, before)| Step::Pad(a, axis, before)),
        2 => (at(), at(), at()).prop_map(|(a, b, axis)| Step::Cat(a, b, axis)),
        2 => (at(), at()).prop_map(|(a, axis)| Step::Select(a, axis)),
        1 => (at(), at()).prop_map(|(a, axis)| Step::Gather(a, axis)),
        1 => (at(), at()).prop_map(|(a, axis)| Step::Repeat(a, axis)),
        2 => at().prop_map(Step::Product),
        1 => (at(), any::<u8>()).prop_map(|(a, keep)| Step::Dropout(a, keep)),
        2 => at().prop_map(Step::Drop),
    ]
}

/// Whether a small difference of its operands stays small.
fn is_smooth(step: &Step) -> bool {
    match step {
        Step::Unary(op, _) => op % 6 < 3,
        Step::Scalar(..) | Step::Binary(..) | Step::Reduce(..) | Step::Whole(..) | Step::Drop(..) => true,
        Step::Transpose(..)
        | Step::Merge(..)
        | Step::Split(..)
        | Step::Halve(..)
        | Step::Every(..)
        | Step::Turn(..) => true,
        Step::Part(..) | Step::Flip(..) | Step::Many(..) | Step::Assign(..) | Step::Pad(..) => true,
        Step::Cat(..) | Step::Select(..) | Step::Gather(..) | Step::Repeat(..) => true,
        Step::Where(..) | Step::Half(..) | Step::Brain(..) | Step::Count(..) | Step::Flags(..) => false,
        // Products of products soon pass what a sum of f32 keeps; random numbers are each backend's own.
        Step::Product(..) | Step::Dropout(..) => false,
    }
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
            Step::Whole(op, a) => {
                let a = self.get(a);
                let number = match op % 4 {
                    0 => B::float_sum(a),
                    1 => B::float_mean(a),
                    2 => B::float_max(a),
                    _ => B::float_min(a),
                };
                B::float_reshape(number, Shape::from([1, 1]))
            }
            Step::Brain(a, b) => {
                let a = self.get(a);
                let b = self.beside(&a, b);
                let short = |x| B::float_cast(x, FloatDType::BF16);
                B::float_cast(B::float_exp(B::float_sub(short(a), short(b))), FloatDType::F32)
            }
            Step::Count(a) => {
                let whole = B::float_into_int(B::float_mul_scalar(self.get(a), Scalar::Float(3.0)), IntDType::I32);
                B::int_into_float(B::int_add_scalar(whole, Scalar::Int(1)), FloatDType::F32)
            }
            Step::Flags(a, b) => {
                let a = self.get(a);
                let b = self.beside(&a, b);
                let differ = B::float_not_equal(a.clone(), b.clone(), BOOL);
                let below = B::float_lower_equal(a, b, BOOL);
                B::bool_into_float(B::bool_and(differ, B::bool_not(below)), FloatDType::F32)
            }
            Step::Every(a, axis, step) => {
                let a = self.get(a);
                let axis = axis % a.shape().rank();
                let mut slices = vec![Slice::new(0, None, 1); axis];
                slices.push(Slice::new(0, None, if step < 0 { -1 } else { 1 + isize::from(step) % 3 }));
                B::float_slice(a, &slices)
            }
            Step::Turn(a) => {
                let a = self.get(a);
                let axes: Vec<usize> = (0..a.shape().rank()).rev().collect();
                B::float_flip(B::float_permute(a, &axes), &[0])
            }
            Step::Part(a, axis, from, step) => {
                // Of two axes, one of them in steps.
                let a = self.get(a);
                let rank = a.shape().rank();
                let mut slices = vec![Slice::new(0, None, 1); rank];
                slices[axis % rank] = part(a.shape()[axis % rank], from, step);
                let other = (axis + 1) % rank;
                slices[other] = Slice::new(isize::from(a.shape()[other] > 1), None, 1);
                B::float_slice(a, &slices)
            }
            Step::Flip(a, axes) => {
                let a = self.get(a);
                let axes: Vec<usize> = (0..a.shape().rank()).filter(|axis| axes >> axis & 1 == 1).collect();
                B::float_flip(a, &axes)
            }
            Step::Many(a, b, axis) => {
                let a = self.get(a);
                let axis = axis % a.shape().rank();
                let b = self.beside(&a, b);
                let b = if b.shape() == a.shape() { b } else { a.clone() };
                let pieces = (0..9).map(|piece| match piece % 3 {
                    0 => a.clone(),
                    1 => B::float_neg(b.clone()),
                    _ => B::float_tanh(a.clone()),
                });
                B::float_cat(pieces.collect(), axis)
            }
            Step::Assign(a, b, from, step) => {
                // A part of one tensor, computed anew, in the place of the same part of another of that shape.
                let a = self.get(a);
                let b = self.beside(&a, b);
                let b = if b.shape() == a.shape() { b } else { B::float_abs(a.clone()) };
                let slices: Vec<Slice> = a.shape().iter().map(|extent| part(*extent, from, step)).collect();
                let value = B::float_tanh(B::float_slice(b, &slices));
                B::float_slice_assign(a, &slices, value)
            }
            Step::Pad(a, axis, before) => {
                // The gradient of a slice.
                let a = self.get(a);
                let (axis, before) = (axis % a.shape().rank(), isize::from(before % 3));
                let mut shape = a.shape();
                let end = before + shape[axis] as isize;
                shape[axis] += 3;
                let mut slices = vec![Slice::new(0, None, 1); shape.rank()];
                slices[axis] = Slice::new(before, Some(end), 1);
                B::float_slice_assign(B::float_zeros(shape, &a.device(), FloatDType::F32), &slices, a)
            }
            Step::Cat(a, b, axis) => {
                let a = self.get(a);
                let axis = axis % a.shape().rank();
                let b = self.beside(&a, b);
                let b = if b.shape() == a.shape() { b } else { a.clone() };
                B::float_cat(vec![a.clone(), b, a], axis)
            }
            Step::Select(a, axis) => {
                let a = self.get(a);
                let axis = axis % a.shape().rank();
                let list = indices::<B>(&[3], a.shape()[axis], 5, &a.device());
                B::float_select(a, axis, list)
            }
            Step::Gather(a, axis) => {
                let a = self.get(a);
                let axis = axis % a.shape().rank();
                let places = indices::<B>(&a.shape(), a.shape()[axis], 6, &a.device());
                B::float_gather(axis, a, places)
            }
            Step::Repeat(a, axis) => {
                let a = self.get(a);
                let axis = axis % a.shape().rank();
                B::float_repeat_dim(a, axis, 2)
            }
            Step::Product(a) => {
                let a = self.get(a);
                let rank = a.shape().rank();
                B::float_matmul(B::float_tanh(a.clone()), B::float_swap_dims(a, rank - 2, rank - 1))
            }
            Step::Dropout(a, keep) => {
                let a = self.get(a);
                let kept = Distribution::Bernoulli(f64::from(keep) / 256.0);
                let mask = B::float_random(a.shape(), kept, &a.device(), FloatDType::F32);
                B::float_mul(mask, a)
            }
            Step::Drop(a) => {
                if self.0.len() > 2 {
                    let at = a % self.0.len();
                    self.0.remove(at);
                }
                return;
            }
        };
        if (2..=5).contains(&made.shape().rank()) && made.shape().num_elements() <= ELEMENTS_MOST {
            self.0.push(made);
        }
    }
}

/// A part of an axis that is not empty.
fn part(extent: usize, from: u8, step: i8) -> Slice {
    let from = isize::from(from) % extent as isize;
    Slice::new(from, None, if step < 0 { -1 - isize::from(step % 2 == 0) } else { 1 + isize::from(step) % 3 })
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
        2 => B::float_tanh(B::float_mul(a, b)),
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
    B::seed(device, 11);
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
        compare(&format!("{steps:?}"), &run::<Fused>(&steps, &device), &run::<Rocm>(&steps, &crate::check::device()), EXACT);
    }

    #[test]
    fn smooth_random_programs_are_near_those_of_flex(steps in prop::collection::vec(step(), 1..24)) {
        let steps: Vec<Step> = steps.into_iter().filter(is_smooth).take(12).collect();
        let (device, _guard) = crate::harness::device();
        let theirs = run::<burn_flex::Flex>(&steps, &burn_flex::FlexDevice);
        // A few products of sums may be large, and each difference of two such keeps their error.
        let near = Tolerance { absolute: 1e-2, relative: 1e-3 };
        compare(&format!("{steps:?}"), &run::<Fused>(&steps, &device), &theirs, near);
    }
}
