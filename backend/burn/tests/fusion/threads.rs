//! Several threads on one device: tensors that one records and another reads, drops or outlives.

use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Scalar, TensorData, read_sync};
use burn_std::FloatDType;
use rocfire_burn::{Fused, Rocm};

use crate::check::{EXACT, compare, device, f32s, float};
use crate::harness;

type Tensor = FloatTensor<Fused>;

/// `tanh(2 x) + x`, in operators that none waits for.
fn program<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let doubled = B::float_mul_scalar(x.clone(), Scalar::Float(2.0));
    B::float_add(B::float_tanh(doubled), x)
}

/// The program so many times, one by one.
fn eager(seed: u64, shape: &[usize], times: usize) -> TensorData {
    let x = f32s::<Rocm>(shape, seed, &device());
    float::<Rocm>((0..times).fold(x, |x, _| program::<Rocm>(x)))
}

fn same(what: &str, got: TensorData, expected: TensorData) {
    compare(what, &[got], &[expected], EXACT);
}

/// Runs something on a thread of its own, which has ended when this returns.
fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().expect("the thread ends well"))
}

#[test]
fn what_a_thread_recorded_and_left_is_computed_when_another_reads_it() {
    let (device, _guard) = harness::device();
    let y = elsewhere(|| program::<Fused>(f32s::<Fused>(&[5, 7], 1, &device)));
    same("read", float::<Fused>(y), eager(1, &[5, 7], 1));
    let y = elsewhere(|| program::<Fused>(f32s::<Fused>(&[5, 7], 2, &device)));
    same("read by an operator", float::<Fused>(program::<Fused>(y)), eager(2, &[5, 7], 2));
}

#[test]
fn a_tensor_lives_for_who_has_recorded_a_use_of_it() {
    let (device, _guard) = harness::device();
    for is_made_before in [true, false] {
        let x = f32s::<Fused>(&[64], 3, &device);
        let x = if is_made_before { x } else { program::<Fused>(x) };
        let times = if is_made_before { 1 } else { 2 };
        let (to_here, from_there) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let used: Tensor = thread::scope(|scope| {
            let theirs = x.clone();
            let there = scope.spawn(move || {
                let recorded = program::<Fused>(theirs);
                to_here.send(()).unwrap();
                wait.recv().unwrap();
                recorded
            });
            from_there.recv().unwrap();
            // The last use of it here, which might overwrite it where it lies, and runs first.
            same("here", float::<Fused>(program::<Fused>(x)), eager(3, &[64], times));
            go.send(()).unwrap();
            there.join().unwrap()
        });
        same("there", float::<Fused>(used), eager(3, &[64], times));
    }
}

#[test]
fn threads_that_use_up_each_others_tensors_do_not_wait_in_a_circle() {
    let (device, _guard) = harness::device();
    for round in 0..8 {
        let (x, y) = (f32s::<Fused>(&[33], 4, &device), f32s::<Fused>(&[33], 5, &device));
        let both = Arc::new(Barrier::new(2));
        let run = |first: Tensor, second: Tensor, both: Arc<Barrier>| {
            move || {
                let first = program::<Fused>(first);
                both.wait();
                // Of both the other thread has recorded a use, too.
                let second = program::<Fused>(second);
                [float::<Fused>(first), float::<Fused>(second)]
            }
        };
        let (ours, theirs) = thread::scope(|scope| {
            let ours = scope.spawn(run(x.clone(), y.clone(), Arc::clone(&both)));
            let theirs = scope.spawn(run(y, x, both));
            (ours.join().unwrap(), theirs.join().unwrap())
        });
        let [x, y] = [4, 5].map(|seed| eager(seed, &[33], 1));
        compare(&format!("one, round {round}"), &ours, &[x.clone(), y.clone()], EXACT);
        compare(&format!("other, round {round}"), &theirs, &[y, x], EXACT);
    }
}

#[test]
fn a_tensor_dropped_elsewhere_before_it_was_made_leaves_nothing_behind() {
    let (device, _guard) = harness::device();
    let live = || crate::check::device::<rocfire_burn::RocmDevice>().open().unwrap().memory().live_bytes;
    Fused::sync(&device).unwrap();
    let before = live();
    for _ in 0..3 {
        let y = program::<Fused>(f32s::<Fused>(&[1 << 16], 6, &device));
        let z = program::<Fused>(y.clone());
        elsewhere(|| drop(y));
        same("the rest", float::<Fused>(z), eager(6, &[1 << 16], 2));
    }
    Fused::sync(&device).unwrap();
    assert_eq!(live(), before);
}

#[test]
fn a_failure_reaches_who_reads_on_another_thread() {
    let (device, _guard) = harness::device();
    let (failed, well) = elsewhere(|| {
        let huge = Fused::float_ones([1 << 20, 1 << 20, 16].into(), &device, FloatDType::F64);
        (Fused::float_exp(huge), program::<Fused>(f32s::<Fused>(&[9], 7, &device)))
    });
    let told = read_sync(Fused::float_into_data(Fused::float_neg(failed))).expect_err("there is not so much memory");
    assert!(told.to_string().contains("out of memory"), "{told}");
    same("beside it", float::<Fused>(well), eager(7, &[9], 1));
}

#[test]
fn many_threads_on_shared_weights_get_the_bits_of_one() {
    let (device, _guard) = harness::device();
    let weight = f32s::<Fused>(&[16, 16], 8, &device);
    let step = |x: Tensor, weight: &Tensor| Fused::float_matmul(program::<Fused>(x), weight.clone());
    let results: Vec<Vec<TensorData>> = thread::scope(|scope| {
        let run = |seed: u64| {
            let (weight, device) = (weight.clone(), &device);
            scope.spawn(move || {
                let mut x = f32s::<Fused>(&[3, 16], seed, device);
                let mut read = Vec::new();
                for round in 0..12 {
                    x = step(x, &weight);
                    if round % 5 == 4 {
                        read.push(float::<Fused>(x.clone()));
                    }
                }
                read.push(float::<Fused>(x));
                read
            })
        };
        let threads: Vec<_> = (10..18).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (seed, got) in (10..18).zip(results) {
        let weight = f32s::<Rocm>(&[16, 16], 8, &crate::check::device());
        let mut x = f32s::<Rocm>(&[3, 16], seed, &crate::check::device());
        let mut expected = Vec::new();
        for round in 0..12 {
            x = Rocm::float_matmul(program::<Rocm>(x), weight.clone());
            if round % 5 == 4 {
                expected.push(float::<Rocm>(x.clone()));
            }
        }
        expected.push(float::<Rocm>(x));
        compare(&format!("thread {seed}"), &got, &expected, EXACT);
    }
}
