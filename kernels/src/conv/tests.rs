//! Errors, repeats and compiles; what the results are is the cases' to judge.

use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};

use super::{ConvParams, conv, conv_input_gradient, conv_output_shape, conv_weight_gradient};
use crate::testing::{Lie, Numbers, device, encode, tensor};

const PARAMS: ConvParams<'_> = ConvParams { stride: &[2, 2], padding: &[(1, 1), (1, 1)], dilation: &[1, 1], groups: 1 };

fn filled(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let values = Numbers::new(seed).values(shape.iter().product(), dtype);
    tensor(&device(), shape, dtype, &values, Lie::Plain)
}

/// The message of the convolution of these shapes into `y`.
fn message(x: &[usize], w: &[usize], y: &[usize], params: &ConvParams<'_>) -> String {
    let (x, w) = (filled(x, DType::F32, 1), filled(w, DType::F32, 2));
    let mut y = filled(y, DType::F32, 3);
    let device = device();
    let stream = device.stream();
    conv(stream, x.view(), w.view(), None, y.view_mut(), params).unwrap_err().to_string()
}

#[test]
fn an_argument_that_does_not_fit_is_named() {
    let right = [1, 4, 4, 4];
    let tells = |text: String, parts: [&str; 2]| assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    tells(message(&[1, 3, 8, 8], &[4, 2, 3, 3], &right, &PARAMS), ["x must be [batch, 2", "[1, 3, 8, 8]"]);
    tells(message(&[1, 3, 8, 8], &[4, 3, 3, 3], &[1, 4, 8, 8], &PARAMS), ["y must be [1, 4, 4, 4]", "[1, 4, 8, 8]"]);
    tells(message(&[1, 3, 8, 8], &[4, 3, 0, 3], &right, &PARAMS), ["weight must be", "[4, 3, 0, 3]"]);
    tells(message(&[1, 3, 8], &[4, 3, 3], &[1, 4, 4], &PARAMS), ["params must be 1 strides", "[2, 2, 2]"]);
    let no_stride = ConvParams { stride: &[0, 1], ..PARAMS };
    tells(message(&[1, 3, 8, 8], &[4, 3, 3, 3], &right, &no_stride), ["params must be", "[0, 1]"]);
    let groups = ConvParams { groups: 3, ..PARAMS };
    tells(message(&[1, 3, 8, 8], &[4, 1, 3, 3], &right, &groups), ["weight must be", "a multiple of 3"]);
}

#[test]
fn types_and_aliases_are_checked() {
    let device = device();
    let stream = device.stream();
    let (x, w) = (filled(&[1, 3, 8, 8], DType::I32, 1), filled(&[4, 3, 3, 3], DType::I32, 2));
    let mut y = filled(&[1, 4, 4, 4], DType::I32, 3);
    let text = conv(stream, x.view(), w.view(), None, y.view_mut(), &PARAMS).unwrap_err().to_string();
    assert!(text.contains("conv") && text.contains("i32"), "{text}");
    let same = ConvParams { stride: &[1, 1], ..PARAMS };
    let mut x = filled(&[1, 3, 8, 8], DType::F32, 1);
    let (w, alias) = (filled(&[3, 3, 3, 3], DType::F32, 2), x.clone());
    let text = conv(stream, alias.view(), w.view(), None, x.view_mut(), &same).unwrap_err().to_string();
    assert!(text.contains("x must be memory apart"), "{text}");
}

#[test]
fn a_second_image_size_compiles_nothing() {
    // A cache and a device of its own, so that what is compiled is seen.
    let folder = tempfile::tempdir().unwrap();
    let config = Config::from_env().unwrap().with_cache_dir(folder.path().to_owned());
    let device = Device::open(DeviceId::emulated(rocfire_arch::DEFAULT_EMULATED).unwrap(), config).unwrap();
    let run = |x: &[usize]| {
        let make = |shape: &[usize]| {
            Tensor::from_bytes(&device, shape, DType::F32, &vec![0; shape.iter().product::<usize>() * 4]).unwrap()
        };
        let (x, w) = (make(x), make(&[16, 3, 3, 3]));
        let mut y = make(&conv_output_shape("conv", x.shape(), w.shape(), &PARAMS).unwrap());
        conv(device.stream(), x.view(), w.view(), None, y.view_mut(), &PARAMS).unwrap();
        device.sync().unwrap();
        device.compiled()
    };
    let first = run(&[4, 3, 224, 224]);
    assert!(first > 0);
    assert_eq!(run(&[8, 3, 112, 112]), first, "the second size needs another kernel");
}

#[test]
fn repeats_give_the_same_bits() {
    let device = device();
    let stream = device.stream();
    let (x, w) = (filled(&[3, 6, 33, 31], DType::F16, 1), filled(&[10, 6, 3, 3], DType::F16, 2));
    let shape = conv_output_shape("conv", x.shape(), w.shape(), &PARAMS).unwrap();
    let grad = filled(&shape, DType::F16, 3);
    let all = || {
        let mut results =
            [shape.as_slice(), x.shape(), w.shape()].map(|s| Tensor::empty(&device, s, DType::F16).unwrap());
        let [y, x_grad, w_grad] = &mut results;
        conv(stream, x.view(), w.view(), None, y.view_mut(), &PARAMS).unwrap();
        conv_input_gradient(stream, grad.view(), w.view(), None, x_grad.view_mut(), &PARAMS).unwrap();
        conv_weight_gradient(stream, x.view(), grad.view(), w_grad.view_mut(), &PARAMS).unwrap();
        results.map(|tensor| tensor.to_bytes().unwrap())
    };
    let first = all();
    assert_ne!(first[0], encode(&vec![0.0; first[0].len() / 2], DType::F16));
    (0..3).for_each(|_| assert_eq!(all(), first));
}
