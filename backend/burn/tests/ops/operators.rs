//! Operators of the kernels as custom kernels: eager and in a stream they give the same bits, and name what does not
//! fit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn_autodiff::Autodiff;
use burn_backend::ops::FloatTensorOps;
use burn_backend::{AutodiffBackend, DType, Scalar, TensorData};
use rocfire_burn::custom::operators::{
    self, Activation, AttentionForm, CodedSource, EndActivation, Format, GateParams, Granularity, GroupedEpilogue,
    NormKind, Operator, ProductForm, RopeStyle,
};
use rocfire_burn::custom::{CustomKernel, CustomOps, CustomTensor};
use rocfire_burn::{Fused, Rocm, RocmDevice};

use crate::check::{bools, device, floats, indices, int, ints};

/// What an operator is given.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// Floats of this shape.
    Float(&'static [usize]),
    /// Integers of this shape below a bound.
    Int(&'static [usize], usize),
    /// Codes.
    Codes(&'static [usize]),
    Bool(&'static [usize]),
    /// The first row of each group.
    Offsets(&'static [i64]),
}
use Input::{Bool, Codes, Float, Int, Offsets};

fn table() -> Vec<(Operator, Vec<Input>)> {
    let token = (Format::I8, Granularity::Token);
    let codes = Some(Format::E4M3);
    let ended = ProductForm { has_bias: true, activation: EndActivation::Silu, codes, ..ProductForm::default() };
    let sinks =
        AttentionForm { is_learned: true, has_sinks: true, has_mask: true, has_bias: true, ..Default::default() };
    let heads: [&[usize]; 2] = [&[2, 4, 5, 16], &[2, 2, 7, 16]];
    vec![
        (operators::norm(NormKind::Rms, 1e-5, false), vec![Float(&[5, 13]), Float(&[13])]),
        (operators::norm(NormKind::Layer, 1e-5, true), vec![Float(&[5, 13]), Float(&[13]), Float(&[13])]),
        (operators::group_norm(2, 1e-5, true), vec![Float(&[3, 6, 7]), Float(&[6]), Float(&[6])]),
        (operators::gate(GateParams::swiglu()), vec![Float(&[5, 14])]),
        (operators::softmax(0, false), vec![Float(&[5, 13])]),
        (operators::softmax(1, true), vec![Float(&[5, 13])]),
        (operators::cross_entropy(None, 0.1, true), vec![Float(&[5, 13]), Int(&[5], 13), Float(&[13])]),
        (operators::rope(RopeStyle::NeoX, 3, false), vec![Float(&[2, 3, 5, 8]), Float(&[9, 4]), Float(&[9, 4])]),
        (
            operators::rope(RopeStyle::GptJ, 0, true),
            vec![Float(&[2, 3, 5, 8]), Float(&[9, 3]), Float(&[9, 3]), Int(&[2, 5], 9)],
        ),
        (
            operators::attention(sinks),
            vec![
                Float(heads[0]),
                Float(heads[1]),
                Float(heads[1]),
                Float(&[4]),
                Bool(&[1, 1, 5, 7]),
                Float(&[1, 1, 5, 7]),
            ],
        ),
        (operators::coded(CodedSource::Plain, token.0, token.1), vec![Float(&[5, 14])]),
        (operators::halve_to_fnuz(), vec![Codes(&[5, 14])]),
        (
            operators::product(token, token, DType::F32, ProductForm::default()),
            vec![Codes(&[5, 32]), Float(&[5, 1]), Codes(&[11, 32]), Float(&[11, 1])],
        ),
        (
            operators::product(token, token, DType::F32, ended),
            vec![Codes(&[5, 32]), Float(&[5, 1]), Codes(&[11, 32]), Float(&[11, 1]), Float(&[11]), Float(&[1, 1])],
        ),
        (
            operators::grouped_matmul(GroupedEpilogue::Gate(Activation::Silu)),
            vec![Float(&[9, 6]), Float(&[3, 6, 11]), Offsets(&[1, 4, 4, 9]), Float(&[9, 11])],
        ),
    ]
}

fn given<B: CustomOps<Device: From<RocmDevice>>>(inputs: &[Input]) -> Vec<CustomTensor<B>> {
    let device = device();
    let make = |(seed, &input): (usize, &Input)| match input {
        Float(shape) => CustomTensor::Float(floats::<B>(shape, DType::F32, seed as u64, &device)),
        Int(shape, bound) => CustomTensor::Int(indices::<B>(shape, bound, seed as u64, &device)),
        Codes(shape) => {
            let codes: Vec<i64> = (0..shape.iter().product::<usize>() as i64).map(|at| at * 37 % 120).collect();
            CustomTensor::Int(ints::<B>(&codes, shape, DType::U8, &device))
        }
        Bool(shape) => CustomTensor::Bool(bools::<B>(shape, seed as u64, &device)),
        Offsets(offsets) => CustomTensor::Int(ints::<B>(offsets, &[offsets.len()], DType::I32, &device)),
    };
    inputs.iter().enumerate().map(make).collect()
}

fn data<B: CustomOps>(tensor: CustomTensor<B>) -> TensorData {
    let read = match tensor {
        CustomTensor::Float(tensor) => burn_backend::read_sync(B::float_into_data(tensor)),
        CustomTensor::Int(tensor) => burn_backend::read_sync(B::int_into_data(tensor)),
        CustomTensor::Bool(tensor) => burn_backend::read_sync(B::bool_into_data(tensor)),
    };
    read.unwrap_or_else(|error| panic!("{error}"))
}

/// Outputs, and gradients of a sum of squares of the first, of inputs that nobody has read.
fn results<B: CustomOps<Device: From<RocmDevice>>>(operator: &Operator, inputs: &[Input]) -> Vec<TensorData> {
    let kernel = CustomKernel::from(operator.clone());
    let outputs = B::custom(&kernel, given::<B>(inputs), &[]);
    let mut found: Vec<TensorData> = outputs.into_iter().map(data::<B>).collect();
    if operator.gradient().is_none() {
        return found;
    }
    let leaves = given::<Autodiff<B>>(inputs).into_iter().enumerate().map(|(number, input)| match input {
        CustomTensor::Float(leaf) if number < operator.learned() => {
            CustomTensor::Float(Autodiff::<B>::float_set_require_grad(leaf, true))
        }
        other => other,
    });
    let leaves: Vec<_> = leaves.collect();
    let twice = leaves.iter().cloned().map(|input| match input {
        CustomTensor::Float(leaf) => CustomTensor::Float(Autodiff::<B>::float_mul_scalar(leaf, Scalar::Float(2.0))),
        other => other,
    });
    let y = Autodiff::<B>::custom(&kernel, twice.collect(), &[]).remove(0).into_float();
    let loss = Autodiff::<B>::float_sum(Autodiff::<B>::float_mul(y.clone(), y));
    let gradients = Autodiff::<B>::backward(loss);
    for leaf in leaves.into_iter().take(operator.learned()) {
        let gradient = Autodiff::<B>::grad(&leaf.into_float(), &gradients).expect("it has a gradient");
        found.push(data::<B>(CustomTensor::Float(gradient)));
    }
    found
}

#[test]
fn eager_and_in_a_stream_operators_give_the_same_bits() {
    for (operator, inputs) in table() {
        let eager = results::<Rocm>(&operator, &inputs);
        assert_eq!(eager, results::<Fused>(&operator, &inputs), "{operator:?}");
        let count = operator.learned() + operator.gradient().map_or(1, |_| 1);
        assert!(eager.len() >= count, "{operator:?}");
    }
}

fn told<B: CustomOps<Device: From<RocmDevice>>>(operator: &Operator, inputs: &[Input]) -> String {
    let run = || {
        let outputs = B::custom(&CustomKernel::from(operator.clone()), given::<B>(inputs), &[]);
        outputs.into_iter().map(data::<B>).collect::<Vec<_>>()
    };
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it does not fit");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[test]
fn an_input_of_another_type_is_named() {
    // Grouped products name the arguments of their launcher, which has groups for offsets.
    for (operator, inputs) in table().into_iter().filter(|(operator, _)| operator.name() != "grouped_matmul") {
        for (number, &arg) in operator.inputs().iter().enumerate() {
            let mut inputs = inputs.clone();
            inputs[number] = match inputs[number] {
                // Bools are no type of any of these.
                Float(shape) | Int(shape, _) | Codes(shape) => Bool(shape),
                Bool(shape) => Float(shape),
                Offsets(_) => Bool(&[4]),
            };
            for text in [told::<Rocm>(&operator, &inputs), told::<Fused>(&operator, &inputs)] {
                assert!(text.contains(arg), "{operator:?}: {text:?} should name {arg}");
            }
        }
    }
}

#[test]
fn a_missing_input_is_named() {
    for (operator, mut inputs) in table() {
        inputs.pop();
        if !inputs.is_empty() {
            let text = told::<Rocm>(&operator, &inputs);
            assert!(text.contains("inputs") && text.contains(operator.inputs()[0]), "{operator:?}: {text}");
        }
    }
}

#[test]
fn an_input_without_a_gradient_is_named() {
    let operator = operators::cross_entropy(None, 0.0, true);
    let inputs = given::<Autodiff<Fused>>(&[Float(&[5, 13]), Int(&[5], 13), Float(&[13])]);
    let inputs = inputs.into_iter().map(|input| match input {
        CustomTensor::Float(leaf) => CustomTensor::Float(Autodiff::<Fused>::float_set_require_grad(leaf, true)),
        other => other,
    });
    let loss = Autodiff::<Fused>::custom(&CustomKernel::from(operator), inputs.collect(), &[]).remove(0).into_float();
    let back = || drop(Autodiff::<Fused>::backward(loss));
    let panic = catch_unwind(AssertUnwindSafe(back)).expect_err("weights have none");
    assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains("weights has no gradient")));
}

#[test]
fn codes_come_back_as_bytes() {
    let inputs = given::<Fused>(&[Float(&[3, 8])]);
    let operator = operators::coded(CodedSource::Plain, Format::I8, Granularity::Token);
    let codes = Fused::custom(&operator.into(), inputs, &[]).remove(0).into_int();
    let codes = int::<Fused>(codes);
    assert_eq!((codes.dtype(), codes.shape().to_vec()), (DType::U8, vec![3, 8]));
}
