//! Operations that read elsewhere than they write, and reductions of whole tensors, inside of chains.

use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::{FloatTensor, IntTensor};
use burn_backend::{Backend, Scalar};
use rocfire_burn::Fused;

use crate::check::{EXACT, f32s, float, indices};
use crate::harness::{device, launches, same};

fn embedded<B: Backend>(table: FloatTensor<B>, words: IntTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
    let rows = B::float_select(table, 0, words);
    B::float_tanh(B::float_add(B::float_mul_scalar(rows, Scalar::Float(2.0)), bias))
}

#[test]
fn a_selection_joins_what_follows_it() {
    let (device, guard) = device();
    let inputs =
        (f32s::<Fused>(&[9, 5], 1, &device), indices::<Fused>(&[7], 9, 2, &device), f32s::<Fused>(&[1, 5], 3, &device));
    let (_y, count) = launches(|| embedded::<Fused>(inputs.0, inputs.1, inputs.2));
    assert_eq!(count, 1);
    drop(guard);
    same!("embedding", EXACT, device => {
        let words = indices::<B>(&[7], 9, 2, device);
        vec![float::<B>(embedded::<B>(f32s::<B>(&[9, 5], 1, device), words, f32s::<B>(&[1, 5], 3, device)))]
    });
}

fn joined<B: Backend>(a: FloatTensor<B>, b: FloatTensor<B>, axis: usize) -> FloatTensor<B> {
    let long = B::float_cat(vec![a.clone(), b, a], axis);
    B::float_mul_scalar(B::float_exp(B::float_repeat_dim(long, 1 - axis, 2)), Scalar::Float(0.5))
}

fn chained<B: Backend>(a: FloatTensor<B>, b: FloatTensor<B>) -> FloatTensor<B> {
    B::float_tanh(B::float_neg(B::float_cat(vec![a.clone(), b, a], 0)))
}

#[test]
fn concatenations_and_repetitions_join_a_chain() {
    let (device, guard) = device();
    let (a, b) = (f32s::<Fused>(&[4, 5], 1, &device), f32s::<Fused>(&[3, 5], 2, &device));
    let (_y, count) = launches(|| chained::<Fused>(a, b));
    assert_eq!(count, 1);
    drop(guard);
    for (axis, other) in [(0, [3, 5]), (1, [4, 2])] {
        same!(format!("axis {axis}"), EXACT, device => {
            vec![float::<B>(joined::<B>(f32s::<B>(&[4, 5], 1, device), f32s::<B>(&other, 2, device), axis))]
        });
    }
}

#[test]
fn a_gather_of_rows_and_their_sum_are_one_launch() {
    fn program<B: Backend>(x: FloatTensor<B>, places: IntTensor<B>) -> FloatTensor<B> {
        B::float_sum_dim(B::float_exp(B::float_gather(0, x, places)), 1)
    }
    let (device, guard) = device();
    let (x, places) = (f32s::<Fused>(&[6, 8], 1, &device), indices::<Fused>(&[4, 8], 6, 2, &device));
    let (_y, count) = launches(|| program::<Fused>(x, places));
    assert_eq!(count, 1);
    drop(guard);
    same!("gather", EXACT, device => {
        vec![float::<B>(program::<B>(f32s::<B>(&[6, 8], 1, device), indices::<B>(&[4, 8], 6, 2, device)))]
    });
}

fn loss<B: Backend>(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
    let apart = B::float_sub(x, y);
    B::float_sqrt(B::float_mean(B::float_mul(apart.clone(), apart)))
}

#[test]
fn a_mean_of_everything_is_at_most_two_launches() {
    for (shape, most) in [([3, 50], 1), ([150, 200], 2)] {
        let (device, guard) = device();
        let (x, y) = (f32s::<Fused>(&shape, 1, &device), f32s::<Fused>(&shape, 2, &device));
        let (_loss, count) = launches(|| loss::<Fused>(x, y));
        assert_eq!(count, most, "{shape:?}");
        drop(guard);
        same!("loss", EXACT, device => {
            vec![float::<B>(loss::<B>(f32s::<B>(&shape, 1, device), f32s::<B>(&shape, 2, device)))]
        });
    }
}

#[test]
fn a_sum_of_what_is_written_too_does_not_share_its_launch() {
    // One workgroup would have to read all of it.
    same!("sum of a result", EXACT, device => {
        let y = B::float_exp(f32s::<B>(&[20, 30], 1, device));
        let sum = B::float_sum(y.clone());
        vec![float::<B>(y), float::<B>(B::float_mul_scalar(sum, Scalar::Float(2.0)))]
    });
}
