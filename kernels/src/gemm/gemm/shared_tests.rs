//! Products that follow each other in one launch: the bits that they have one by one.

use rocfire_fusion::{Binary, Graph};
use rocfire_hal::{Config, Device, DeviceId};

use super::*;
use crate::testing::{Lie, Numbers, tensor};

/// A device that nobody else launches on.
fn device() -> Device {
    let config = Config::from_env().unwrap();
    Device::open(DeviceId::emulated(rocfire_arch::DEFAULT_EMULATED).unwrap(), config).unwrap()
}

fn filled(device: &Device, shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let values = Numbers::new(seed).values(shape.iter().product(), dtype);
    tensor(device, shape, dtype, &values, Lie::Plain)
}

/// What `a · b` is where nothing waits.
fn alone(device: &Device, a: &Tensor, b: &Tensor) -> Vec<u8> {
    let mut c = Tensor::empty(device, &output_shape(a.shape(), b.shape()).unwrap(), a.dtype()).unwrap();
    gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default()).unwrap();
    device.sync().unwrap();
    c.to_bytes().unwrap()
}

#[test]
fn products_of_one_input_are_one_launch() {
    let device = device();
    for dtype in [DType::F32, DType::F16] {
        let a = filled(&device, &[2, 19, 40], dtype, 1);
        let weights = [2, 3, 4].map(|seed| filled(&device, &[40, 24], dtype, seed));
        let expected = weights.each_ref().map(|b| alone(&device, &a, b));
        let outputs = weights.each_ref().map(|b| Tensor::empty(&device, &[2, 19, b.shape()[1]], dtype).unwrap());
        device.sync().unwrap();
        let before = device.launches();
        let mut outputs = outputs;
        for (b, c) in weights.iter().zip(&mut outputs) {
            gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default()).unwrap();
        }
        device.sync().unwrap();
        assert_eq!(device.launches() - before, 1, "{dtype:?}");
        for (c, expected) in outputs.iter().zip(&expected) {
            assert!(c.to_bytes().unwrap() == *expected, "{dtype:?}");
        }
    }
}

#[test]
fn products_with_epilogues_share_a_launch_too() {
    let device = device();
    let a = filled(&device, &[19, 40], DType::F32, 1);
    let mut graph = Graph::new("Matmul");
    let (product, bias) = (graph.input(DType::F32), graph.input(DType::F32));
    let sum = graph.binary(Binary::Add, product, bias);
    graph.output(sum);
    let weights = [2, 3, 4].map(|seed| filled(&device, &[40, 24], DType::F32, seed));
    let biases = [5, 6, 7].map(|seed| filled(&device, &[24], DType::F32, seed));
    let run = |waits: bool| {
        let before = device.launches();
        let outputs = weights.iter().zip(&biases).map(|(b, bias)| {
            let mut c = Tensor::empty(&device, &[19, 24], DType::F32).unwrap();
            let (views, inputs) = ([c.view_mut()], [bias.view()]);
            let epilogue = Epilogue::new(&graph, &[19, 24], &inputs, &[], &views).unwrap();
            gemm_fused(device.stream(), a.view(), b.view(), &epilogue, &GemmParams::default()).unwrap();
            if !waits {
                device.sync().unwrap();
            }
            c
        });
        let outputs: Vec<Tensor> = outputs.collect();
        device.sync().unwrap();
        (outputs.iter().map(|c| c.to_bytes().unwrap()).collect::<Vec<_>>(), device.launches() - before)
    };
    let (apart, shared) = (run(false), run(true));
    assert_eq!((apart.1, shared.1), (3, 1));
    assert!(apart.0 == shared.0);
}

#[test]
fn a_product_of_a_product_waits_for_it() {
    let device = device();
    let (a, b) = (filled(&device, &[16, 16], DType::F32, 1), filled(&device, &[16, 16], DType::F32, 2));
    let first = alone(&device, &a, &b);
    let known = Tensor::from_bytes(&device, &[16, 16], DType::F32, &first).unwrap();
    let expected = alone(&device, &known, &b);
    let mut middle = Tensor::empty(&device, &[16, 16], DType::F32).unwrap();
    let mut last = Tensor::empty(&device, &[16, 16], DType::F32).unwrap();
    device.sync().unwrap();
    let before = device.launches();
    gemm(device.stream(), a.view(), b.view(), middle.view_mut(), &GemmParams::default()).unwrap();
    gemm(device.stream(), middle.view(), b.view(), last.view_mut(), &GemmParams::default()).unwrap();
    assert!(last.to_bytes().unwrap() == expected);
    assert_eq!(device.launches() - before, 2);
}
