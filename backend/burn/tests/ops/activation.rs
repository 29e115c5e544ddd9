//! Activations and their gradients.

use burn_backend::ops::ActivationOps;
use burn_backend::{DType, Scalar};

use crate::check::{CLOSE, agree, f32s, float, floats, given, rounding};

macro_rules! unary {
    ($($name:ident),+ $(,)?) => { $(
        #[test]
        fn $name() {
            agree!(stringify!($name), CLOSE, device => vec![
                float::<B>(B::$name(f32s::<B>(&[4, 9], 1, device))),
                float::<B>(B::$name(given::<B>(&[0.0, -0.0, 40.0, -40.0, f32::NAN], &[5], DType::F32, device))),
            ]);
            agree!(stringify!($name), rounding(DType::F16), device => vec![
                float::<B>(B::$name(floats::<B>(&[9], DType::F16, 2, device))),
            ]);
        }
    )+ };
}

unary! { relu, gelu, sigmoid, log_sigmoid }

macro_rules! gradient {
    ($($name:ident),+ $(,)?) => { $(
        #[test]
        fn $name() {
            agree!(stringify!($name), CLOSE, device => vec![
                float::<B>(B::$name(f32s::<B>(&[4, 9], 1, device), f32s::<B>(&[4, 9], 2, device))),
            ]);
        }
    )+ };
}

gradient! { relu_backward, gelu_backward, sigmoid_backward, log_sigmoid_backward }

#[test]
fn log_sigmoid_has_its_limits_at_infinities() {
    let far = [f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30];
    agree!("log_sigmoid", CLOSE, device => {
        let x = || given::<B>(&far, &[4], DType::F32, device);
        let grad = given::<B>(&[1.0; 4], &[4], DType::F32, device);
        vec![float::<B>(B::log_sigmoid(x())), float::<B>(B::log_sigmoid_backward(x(), grad))]
    });
}

#[test]
fn activations_with_parameters() {
    agree!("parameters", CLOSE, device => {
        let x = || f32s::<B>(&[2, 3, 4], 1, device);
        let alpha = f32s::<B>(&[1, 3, 1], 2, device);
        vec![
            float::<B>(B::leaky_relu(x(), Scalar::Float(0.01))),
            float::<B>(B::prelu(x(), alpha)),
            float::<B>(B::hard_sigmoid(x(), Scalar::Float(0.2), Scalar::Float(0.5))),
        ]
    });
}

#[test]
fn softmax_family_along_every_axis() {
    for axis in 0..3 {
        agree!(format!("softmax {axis}"), CLOSE, device => {
            let x = || f32s::<B>(&[3, 5, 7], 1, device);
            vec![
                float::<B>(B::softmax(x(), axis)),
                float::<B>(B::log_softmax(x(), axis)),
                float::<B>(B::softmin(x(), axis)),
            ]
        });
    }
    agree!("softmax of large numbers", CLOSE, device => {
        let x = given::<B>(&[1000.0, 999.0, -1000.0, 0.0, f32::NEG_INFINITY, 1.0], &[2, 3], DType::F32, device);
        vec![float::<B>(B::softmax(x.clone(), 1)), float::<B>(B::log_softmax(x, 1))]
    });
    agree!("softmax in f16", rounding(DType::F16), device => {
        vec![float::<B>(B::softmax(floats::<B>(&[3, 33], DType::F16, 1, device), 1))]
    });
}
