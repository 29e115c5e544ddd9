//! What is timed, in Burn's primitives; compiled against each Burn, whose names the parent module gives.

use std::time::Instant;

use super::Tensor;
use super::framework::tensor::ops::{AttentionModuleOptions, ConvOptions};
use super::framework::tensor::{DType, TensorData, activation, module};
use super::training::{Perceptron, Step, Transformer};
use crate::Measured;

/// What the inputs of the calls that are timed together add up to at most, and their results.
const INPUT_BYTES: usize = 16 << 30;
const HELD_BYTES: usize = 4 << 30;
const BATCHES: usize = 9;
/// Elements of a result that are compared.
const SAMPLE: usize = 64;

/// A workload: how many inputs of which shape, and what is done with them.
struct Work {
    shape: Vec<usize>,
    inputs: usize,
    dtype: DType,
    /// Bytes of a result.
    result_bytes: usize,
    run: fn(&[Tensor<2>], &[usize]) -> Tensor<2>,
}

/// Times one of [`crate::NAMES`]; extents are divided by `divide`.
pub fn measure(name: &'static str, divide: usize) -> Measured {
    if name.contains(" step") {
        return training(name, divide);
    }
    let work = work(name, divide);
    let device = super::device();
    let count: usize = work.shape.iter().product();
    let rows = work.shape[..work.shape.len() - 1].iter().product::<usize>();
    let base = Tensor::<1>::from_data(TensorData::new(crate::values(count), [count]), &device);
    let bytes = work.inputs * count * if work.dtype == DType::F32 { 4 } else { 2 };
    let calls = (HELD_BYTES / work.result_bytes.max(1)).min(INPUT_BYTES / bytes).clamp(10, 64);
    let input = |number: usize| {
        let values = base.clone() * (1.0 - 0.01 * number as f32) + 0.005 * number as f32;
        values.cast(work.dtype).reshape([rows, count / rows])
    };
    // Each call has its own: two that read the same would be computed in one pass over it.
    let sets: Vec<Vec<Tensor<2>>> =
        (0..calls).map(|set| (0..work.inputs).map(|slot| input(set * work.inputs + slot)).collect()).collect();
    for input in sets.iter().flatten() {
        read(input.clone(), 1);
    }
    let run = |number: usize| (work.run)(&sets[number], &work.shape);
    let sample = read(run(0), SAMPLE);
    let ms = time(calls, &mut |number| run(number));
    let shape = work.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
    Measured { name, shape, ms, sample }
}

fn work(name: &str, divide: usize) -> Work {
    let shrink = |shape: &[usize]| -> Vec<usize> { shape.iter().map(|extent| (extent / divide).max(8)).collect() };
    let of = |shape: &[usize], inputs: usize, dtype: DType, run: fn(&[Tensor<2>], &[usize]) -> Tensor<2>| {
        let shape = shrink(shape);
        let result_bytes = shape.iter().product::<usize>() * if dtype == DType::F32 { 4 } else { 2 };
        Work { shape, inputs, dtype, result_bytes, run }
    };
    match name {
        "gelu chain f32" => of(&[8192, 8192], 4, DType::F32, |x, _| {
            let gelu = activation::gelu(x[0].clone() * x[1].clone() + x[2].clone());
            (gelu * x[3].clone()).tanh() + x[0].clone()
        }),
        "silu mul bf16" => of(&[8192, 4096], 2, DType::BF16, |x, _| activation::silu(x[0].clone()) * x[1].clone()),
        "softmax bf16" => of(&[8192, 4096], 1, DType::BF16, |x, _| activation::softmax(x[0].clone(), 1)),
        "rms norm bf16" => of(&[8192, 4096], 1, DType::BF16, |x, _| {
            let wide = x[0].clone().cast(DType::F32);
            let root = (wide.clone() * wide).mean_dim(1).add_scalar(1e-5).sqrt().cast(DType::BF16);
            x[0].clone() / root
        }),
        "layer norm bf16" => of(&[8192, 4096], 1, DType::BF16, |x, _| {
            let centred = x[0].clone() - x[0].clone().mean_dim(1);
            let variance = (centred.clone() * centred.clone()).mean_dim(1);
            centred / variance.add_scalar(1e-5).sqrt()
        }),
        "sum f32" => Work {
            result_bytes: 1 << 26,
            ..of(&[8192, 8192], 1, DType::F32, |x, _| x[0].clone().sum().reshape([1, 1]))
        },
        // A transpose alone is a view: something must write it.
        "transpose f32" => of(&[8192, 8192], 1, DType::F32, |x, _| x[0].clone().transpose().mul_scalar(2.0)),
        "product f16 1024" => of(&[1024, 1024], 2, DType::F16, |x, _| x[0].clone().matmul(x[1].clone())),
        "product f16 4096" => of(&[4096, 4096], 2, DType::F16, |x, _| x[0].clone().matmul(x[1].clone())),
        "attention f16 512" => of(&[32, 8, 512, 64], 3, DType::F16, attention),
        "attention f16 1024" => of(&[32, 8, 1024, 64], 3, DType::F16, attention),
        "conv f16 56" => {
            // The second input lends its first values as weights.
            of(&[32, 128, 56, 56], 2, DType::F16, |x, shape| {
                let [n, c, h, w] = [shape[0], shape[1], shape[2], shape[3]];
                let image = x[0].clone().reshape([n, c, h, w]);
                let count = 2 * c * c * 9;
                let rows = count.div_ceil(w);
                let weight = x[1].clone().slice([0..rows, 0..w]).reshape([rows * w]).slice([0..count]);
                let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
                module::conv2d(image, weight.reshape([2 * c, c, 3, 3]), None, options).reshape([n * 2 * c * h, w])
            })
        }
        other => unreachable!("{other} is not in the list"),
    }
}

fn attention(x: &[Tensor<2>], shape: &[usize]) -> Tensor<2> {
    let [q, k, v] = [0, 1, 2].map(|at| x[at].clone().reshape([shape[0], shape[1], shape[2], shape[3]]));
    let out = module::attention(q, k, v, None, None, AttentionModuleOptions::default());
    out.reshape([shape[0] * shape[1] * shape[2], shape[3]])
}

/// A model by its workload's name; extents are divided by `divide`.
pub fn step_of(name: &str, divide: usize) -> Box<dyn Step> {
    if name.starts_with("mlp") {
        Box::new(Perceptron::new(
            &[784, 256, 256, 10].map(|width: usize| if width > 10 { width / divide } else { width }),
            256 / divide,
        ))
    } else {
        Box::new(Transformer::new(divide))
    }
}

fn training(name: &'static str, divide: usize) -> Measured {
    let mut step = step_of(name, divide);
    let mut sample = Vec::new();
    for _ in 0..10 {
        sample.extend(read(step.run().reshape([1, 1]), 1));
    }
    let is_read = name.ends_with("loss read");
    let ms = time(if name.starts_with("mlp") { 100 } else { 20 }, &mut |_| {
        let loss = step.run().reshape([1, 1]);
        if is_read {
            read(loss.clone(), 1);
        }
        loss
    });
    // The transformer's weights are each Burn's own random ones.
    if name.starts_with("transformer") {
        sample.clear();
    }
    Measured { name, shape: step.shape(), ms, sample }
}

/// The first elements of a tensor: waits for it, and for all before it.
fn read(tensor: Tensor<2>, count: usize) -> Vec<f32> {
    let columns = tensor.dims()[1].min(count);
    tensor.slice([0..1, 0..columns]).cast(DType::F32).into_data().iter::<f32>().collect()
}

/// Median wall time of a call in milliseconds.
fn time(calls: usize, run: &mut dyn FnMut(usize) -> Tensor<2>) -> f64 {
    let mut batch = |calls: usize| {
        let start = Instant::now();
        let mut held: Vec<Tensor<2>> = (0..calls).map(&mut *run).collect();
        read(held.pop().expect("one call at least"), 1);
        start.elapsed().as_secs_f64() * 1e3 / calls as f64
    };
    for _ in 0..3 {
        batch(calls);
    }
    let mut times: Vec<f64> = (0..BATCHES).map(|_| batch(calls)).collect();
    times.sort_by(f64::total_cmp);
    times[BATCHES / 2]
}
