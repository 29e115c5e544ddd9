use super::*;
use crate::testing::{Lie, device, read, tensor};
use rocfire_hal::{Device, Tensor};

/// Rows, places, weights, offsets, a bias and the result: four places, two tokens of two choices, three columns.
fn tensors(device: &Device) -> [Tensor; 6] {
    let numbers: Vec<f64> = (0..12).map(f64::from).collect();
    [
        tensor(device, &[4, 3], DType::F32, &numbers, Lie::Plain),
        tensor(device, &[2, 2], DType::I32, &[3.0, 0.0, 1.0, 2.0], Lie::Plain),
        tensor(device, &[2, 2], DType::F32, &[1.0, 2.0, 3.0, 4.0], Lie::Plain),
        tensor(device, &[3], DType::I32, &[0.0, 1.0, 3.0], Lie::Plain),
        tensor(device, &[2, 3], DType::F32, &numbers[..6], Lie::Plain),
        Tensor::empty(device, &[2, 3], DType::F32).unwrap(),
    ]
}

#[test]
fn what_is_no_choice_counts_nothing() {
    let device = device();
    let [rows, places, weights, offsets, bias, mut y] = tensors(&device);
    let params =
        CombineParams { weights: Some(weights.view()), offsets: Some(offsets.view()), bias: Some(bias.view()) };
    combine(device.stream(), rows.view(), places.view(), &params, y.view_mut()).unwrap();
    // The last place is behind the last group. Place 0 has the first bias, places 1 and 2 the second.
    assert_eq!(read(&y), [0.0, 4.0, 8.0, 54.0, 68.0, 82.0]);
}

#[test]
fn arguments_that_do_not_fit_are_told_by_name() {
    let device = device();
    let [rows, places, weights, offsets, bias, y] = tensors(&device);
    let told = |arg: &str, change: &dyn Fn(&mut [Tensor; 6])| {
        let mut all = [&rows, &places, &weights, &offsets, &bias, &y].map(Tensor::clone);
        change(&mut all);
        let [rows, places, weights, offsets, bias, mut y] = all;
        let params =
            CombineParams { weights: Some(weights.view()), offsets: Some(offsets.view()), bias: Some(bias.view()) };
        let error = combine(device.stream(), rows.view(), places.view(), &params, y.view_mut()).unwrap_err();
        assert!(error.to_string().contains(arg), "{arg}: {error}");
    };
    let of = |shape: &[usize], dtype: DType| Tensor::empty(&device, shape, dtype).unwrap();
    told("combine has no i32 kernel", &|all| all[0] = of(&[4, 3], DType::I32));
    told("y", &|all| all[5] = of(&[2, 4], DType::F32));
    told("y", &|all| all[5] = of(&[2, 3], DType::F64));
    told("places", &|all| all[1] = of(&[3, 2], DType::I32));
    told("places", &|all| all[1] = of(&[2, 2], DType::I64));
    told("weights", &|all| all[2] = of(&[2, 3], DType::F32));
    told("weights", &|all| all[2] = of(&[2, 2], DType::F16));
    told("offsets", &|all| all[3] = of(&[0], DType::I32));
    told("bias", &|all| all[4] = of(&[3, 3], DType::F32));
}

#[test]
fn a_bias_needs_to_know_whose_it_is() {
    let device = device();
    let [rows, places, _, _, bias, mut y] = tensors(&device);
    let params = CombineParams { bias: Some(bias.view()), ..CombineParams::default() };
    let error = combine(device.stream(), rows.view(), places.view(), &params, y.view_mut()).unwrap_err();
    assert!(error.to_string().contains("bias"), "{error}");
}

#[test]
fn gradients_lie_apart() {
    let device = device();
    let [rows, places, weights, offsets, ..] = tensors(&device);
    let params = CombineParams { weights: Some(weights.view()), offsets: Some(offsets.view()), bias: None };
    let grad = tensor(&device, &[2, 3], DType::F32, &[1.0; 6], Lie::Plain);
    let mut same = grad.clone();
    let to = CombineGradients { rows: None, weights: Some(same.view_mut()) };
    let error = combine_backward(device.stream(), grad.view(), rows.view(), places.view(), &params, to).unwrap_err();
    assert!(error.to_string().contains("weights_grad"), "{error}");
    let none = CombineGradients::default();
    combine_backward(device.stream(), grad.view(), rows.view(), places.view(), &params, none).unwrap();
}
