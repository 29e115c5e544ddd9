//! Computed values at other places: slices, flips, repetitions, concatenations, selections and assignments inside of a chain.

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Scalar, Shape, Slice, TensorData, TensorMetadata};
use burn_flex::{Flex, FlexDevice};
use burn_std::FloatDType;
use rocfire_burn::{Fused, Rocm};

use crate::check::{EXACT, SUMS, compare, f32s, float, indices, int};
use crate::harness::{device, launches};
use crate::rows::softmax;

const ALL: Slice = Slice::new(0, None, 1);

/// One of the programs.
#[derive(Clone, Copy, Debug)]
enum Program {
    Windows,
    Steps,
    Everything,
    Column,
    Split,
    TwiceSliced,
    Flips,
    FlippedRows,
    Transposed,
    Batches,
    Repeated,
    RepeatedRow,
    Rotated,
    ManyPieces,
    ComputedPieces,
    Selected,
    Gathered,
    SelectedTwice,
    Placed,
    PlacedInSteps,
    PlacedBlocks,
    PlacedIntoKept,
    SlicedGradient,
}

use Program as P;

/// The programs, the shape of their tensor, and their launches.
const PROGRAMS: [(Program, &[usize], u64); 23] = [
    (P::Windows, &[6, 9], 1),
    (P::Steps, &[6, 9], 1),
    (P::Everything, &[6, 9], 1),
    (P::Column, &[6, 9], 1),
    (P::Split, &[6, 10], 1),
    (P::TwiceSliced, &[6, 9], 1),
    (P::Flips, &[3, 4, 5], 1),
    (P::FlippedRows, &[4, 9], 1),
    (P::Transposed, &[6, 9], 1),
    (P::Batches, &[6, 9], 1),
    (P::Repeated, &[3, 4], 1),
    (P::RepeatedRow, &[3, 4], 1),
    (P::Rotated, &[2, 3, 8], 1),
    (P::ManyPieces, &[2, 3], 1),
    (P::ComputedPieces, &[4, 3], 1),
    (P::Selected, &[7, 4], 1),
    (P::Gathered, &[7, 4], 1),
    (P::SelectedTwice, &[7, 4], 1),
    (P::Placed, &[3, 4], 1),
    (P::PlacedInSteps, &[3, 4], 1),
    (P::PlacedBlocks, &[2, 3, 4], 1),
    (P::PlacedIntoKept, &[6, 9], 1),
    (P::SlicedGradient, &[6, 9], 1),
];

fn warm<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_add_scalar(B::float_tanh(x), Scalar::Float(0.5))
}

fn part<B: Backend>(x: FloatTensor<B>, axis: usize, slice: Slice) -> FloatTensor<B> {
    let mut slices = vec![ALL; x.shape().rank()];
    slices[axis] = slice;
    B::float_slice(x, &slices)
}

fn zeros<B: Backend>(shape: &[usize], device: &B::Device) -> FloatTensor<B> {
    B::float_zeros(Shape::from(shape.to_vec()), device, FloatDType::F32)
}

/// What the program makes of `x`, and of `lists` where it reads by index; the tensor that must outlive it, if one must.
fn run<B: Backend>(program: Program, x: FloatTensor<B>, device: &B::Device) -> Vec<FloatTensor<B>> {
    let doubled = |x| B::float_mul_scalar(x, Scalar::Float(2.0));
    let made = match program {
        P::Windows => {
            let y = warm::<B>(x);
            let early = part::<B>(y.clone(), 1, Slice::new(0, Some(-1), 1));
            B::float_sub(part::<B>(y, 1, Slice::new(1, None, 1)), early)
        }
        P::Steps => {
            let y = warm::<B>(x);
            let slices = [Slice::new(1, Some(6), 2), Slice::new(0, Some(8), -3)];
            B::float_exp(B::float_slice(y, &slices))
        }
        P::Everything => {
            let y = warm::<B>(x);
            let back = B::float_slice(y.clone(), &[ALL, Slice::new(0, None, -1)]);
            B::float_mul(back, y)
        }
        P::Column => B::float_neg(part::<B>(warm::<B>(x), 1, Slice::new(3, Some(4), 1))),
        P::Split => {
            let y = warm::<B>(x);
            let (gate, up) =
                (part::<B>(y.clone(), 1, Slice::new(0, Some(5), 1)), part::<B>(y, 1, Slice::new(5, None, 1)));
            B::float_mul(B::float_tanh(gate), up)
        }
        P::TwiceSliced => {
            let y = part::<B>(warm::<B>(x), 0, Slice::new(1, None, 2));
            B::float_neg(part::<B>(doubled(y), 1, Slice::new(0, Some(7), -2)))
        }
        P::Flips => B::float_neg(B::float_flip(warm::<B>(x), &[0, 2])),
        P::FlippedRows => B::float_neg(B::float_flip(softmax::<B>(x, 1), &[1, 0])),
        P::Transposed => {
            let y = B::float_swap_dims(warm::<B>(x), 0, 1);
            doubled(part::<B>(y, 0, Slice::new(2, Some(7), 1)))
        }
        P::Batches => {
            // The rows of some batches: none reduces over another.
            doubled(B::float_slice(softmax::<B>(x, 1), &[Slice::new(1, Some(4), 1), ALL]))
        }
        P::Repeated => doubled(B::float_repeat_dim(warm::<B>(x), 1, 3)),
        P::RepeatedRow => {
            let row = part::<B>(warm::<B>(x), 0, Slice::new(1, Some(2), 1));
            doubled(B::float_repeat_dim(row, 0, 5))
        }
        P::Rotated => {
            // Rotary embedding: the second half before the first.
            let y = warm::<B>(x);
            let (low, high) =
                (part::<B>(y.clone(), 2, Slice::new(0, Some(4), 1)), part::<B>(y.clone(), 2, Slice::new(4, None, 1)));
            let turned = B::float_cat(vec![B::float_neg(high), low], 2);
            B::float_add(B::float_cos(y), B::float_sin(turned))
        }
        P::ManyPieces => {
            let pieces = (0..31).map(|seed| f32s::<B>(&[2, 1 + seed as usize % 3], 30 + seed, device));
            doubled(B::float_cat(std::iter::once(x).chain(pieces).collect(), 1))
        }
        P::ComputedPieces => {
            let y = warm::<B>(x.clone());
            doubled(B::float_cat(vec![B::float_exp(y.clone()), x.clone(), B::float_neg(y.clone()), B::float_abs(y)], 0))
        }
        P::Selected => doubled(B::float_select(warm::<B>(x), 0, indices::<B>(&[5], 7, 3, device))),
        P::Gathered => doubled(B::float_gather(0, warm::<B>(x), indices::<B>(&[3, 4], 7, 3, device))),
        P::SelectedTwice => {
            let rows = B::float_select(warm::<B>(x), 0, indices::<B>(&[5], 7, 3, device));
            doubled(B::float_select(B::float_exp(rows), 1, indices::<B>(&[3], 4, 4, device)))
        }
        P::Placed => {
            let y = warm::<B>(x);
            doubled(B::float_slice_assign(zeros::<B>(&[3, 9], device), &[ALL, Slice::new(2, Some(6), 1)], y))
        }
        P::PlacedInSteps => {
            let y = warm::<B>(x);
            let slices = [Slice::new(0, None, -1), Slice::new(1, Some(9), -2)];
            doubled(B::float_slice_assign(zeros::<B>(&[3, 9], device), &slices, y))
        }
        P::PlacedBlocks => {
            let y = warm::<B>(x);
            let slices = [Slice::new(1, Some(3), 1), ALL, Slice::new(0, Some(8), 2)];
            let placed = B::float_slice_assign(zeros::<B>(&[4, 3, 9], device), &slices, y.clone());
            B::float_exp(B::float_slice_assign(placed, &[Slice::new(0, Some(2), 1), ALL, Slice::new(5, None, 1)], y))
        }
        P::PlacedIntoKept => {
            let ones = B::float_ones(Shape::from([2, 9]), device, FloatDType::F32);
            let placed = B::float_slice_assign(x.clone(), &[Slice::new(3, Some(5), 1)], ones);
            return vec![doubled(placed), x];
        }
        P::SlicedGradient => {
            // Of x[:, 1:] · x[:, :-1], as Autodiff writes it.
            let (late, early) = (Slice::new(1, None, 1), Slice::new(0, Some(8), 1));
            let grads = [(late, early), (early, late)].map(|(own, other)| {
                let grad = part::<B>(B::float_tanh(x.clone()), 1, other);
                B::float_slice_assign(zeros::<B>(&[6, 9], device), &[ALL, own], grad)
            });
            let [a, b] = grads;
            B::float_add(a, b)
        }
    };
    vec![made]
}

fn data<B: Backend>(program: Program, shape: &[usize], device: &B::Device) -> Vec<TensorData> {
    run::<B>(program, f32s::<B>(shape, 1, device), device).into_iter().map(float::<B>).collect()
}

#[test]
fn computed_values_are_read_elsewhere_in_one_launch() {
    let (device, _guard) = device();
    let mut wrong = Vec::new();
    for (program, shape, most) in PROGRAMS {
        let x = f32s::<Fused>(shape, 1, &device);
        let (_y, count) = launches(|| run::<Fused>(program, x, &device));
        if count != most {
            wrong.push(format!("{program:?}: {count} launches, not {most}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn computed_values_elsewhere_are_those_of_their_operations() {
    let (device, _guard) = device();
    for (program, shape, _) in PROGRAMS {
        let fused = data::<Fused>(program, shape, &device);
        compare(&format!("{program:?}"), &fused, &data::<Rocm>(program, shape, &crate::check::device()), EXACT);
        compare(&format!("{program:?} on Flex"), &fused, &data::<Flex>(program, shape, &FlexDevice), SUMS);
    }
}

#[test]
fn a_selection_along_an_axis_between_others_is_beside_what_is_made_of_its_indices() {
    fn program<B: Backend>(device: &B::Device) -> Vec<TensorData> {
        let (x, at) = (f32s::<B>(&[3, 2, 4], 1, device), indices::<B>(&[5], 2, 3, device));
        let (y, next) = (B::float_select(x, 1, at.clone()), B::int_add_scalar(at, Scalar::Int(1)));
        vec![float::<B>(y), int::<B>(next)]
    }
    let (device, _guard) = device();
    compare("fused", &program::<Fused>(&device), &program::<Rocm>(&crate::check::device()), EXACT);
    compare("on Flex", &program::<Fused>(&device), &program::<Flex>(&FlexDevice), EXACT);
}
