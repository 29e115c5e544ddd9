//! Quantised tensors in Burn's streams: made, moved, multiplied and turned back into floats among fused operators.

use burn_backend::ops::{ActivationOps, FloatTensorOps, QTensorOps};
use burn_backend::quantization::{
    Calibration, QuantScheme, QuantStore, QuantValue, ScaleDtype, compute_q_params, compute_range,
};
use burn_backend::tensor::QuantizedTensor;
use burn_backend::{Backend, Slice, TensorData, TensorPrimitive, read_sync};
use burn_std::FloatDType;

use crate::check::{EXACT, SUMS, f32s, float};
use crate::harness::same;

fn schemes() -> [QuantScheme; 4] {
    let packed = |value| QuantScheme::default().with_value(value).with_store(QuantStore::PackedU32(0));
    [
        packed(QuantValue::Q8S).per_tensor(ScaleDtype::F32),
        packed(QuantValue::Q4S).per_block([8], ScaleDtype::F16),
        packed(QuantValue::E4M3).per_block([4, 8], ScaleDtype::UE8M0),
        packed(QuantValue::E2M1).per_block([8], ScaleDtype::UE4M3).per_tensor(ScaleDtype::F32),
    ]
}

fn quantised<B: Backend>(shape: &[usize], seed: u64, scheme: &QuantScheme, device: &B::Device) -> QuantizedTensor<B> {
    let x = f32s::<B>(shape, seed, device);
    let (min, max) = compute_range::<B>(scheme, x.clone(), &Calibration::MinMax);
    B::quantize(x, scheme, compute_q_params(scheme, min, max))
}

fn product<B: Backend>(x: B::FloatTensorPrimitive, w: QuantizedTensor<B>) -> B::FloatTensorPrimitive {
    B::q_matmul(TensorPrimitive::Float(x), TensorPrimitive::QFloat(w)).tensor()
}

#[test]
fn quantised_tensors_pass_through_the_stream() {
    for scheme in schemes() {
        same!(format!("pass {scheme:?}"), EXACT, device => {
            let q = || quantised::<B>(&[8, 16], 1, &scheme, device);
            let back = |q| B::dequantize(q, FloatDType::F32);
            let rows = [Slice::new(0, Some(4), 1)];
            vec![
                // Floats before and after in the same chain.
                float::<B>(B::float_add(B::float_exp(back(q())), f32s::<B>(&[8, 16], 2, device))),
                float::<B>(back(B::q_swap_dims(q(), 0, 1))),
                float::<B>(back(B::q_slice(q(), &rows))),
                float::<B>(back(B::q_reshape(q(), [1, 8, 16].into()))),
                read_sync(B::q_into_data(q())).map(|data| TensorData::new(data.as_bytes().to_vec(), [data.as_bytes().len()])).unwrap(),
            ]
        });
    }
}

#[test]
fn a_quantised_perceptron_runs_among_fused_operators() {
    for scheme in schemes() {
        same!(format!("perceptron {scheme:?}"), SUMS, device => {
            let hidden = product::<B>(f32s::<B>(&[3, 16], 3, device), quantised::<B>(&[16, 24], 1, &scheme, device));
            let hidden = B::relu(B::float_add(hidden, f32s::<B>(&[1, 24], 4, device)));
            let out = product::<B>(hidden, quantised::<B>(&[24, 8], 2, &scheme, device));
            vec![float::<B>(B::float_mul_scalar(out, 0.5.into()))]
        });
    }
}
