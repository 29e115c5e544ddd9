//! Quantised tensors: to and from codes, moves, arithmetic by way of floats.

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantScheme, QuantStore, QuantValue, ScaleDtype};
use burn_backend::tensor::QuantizedTensor;
use burn_backend::{Backend, DType, Slice, TensorData, TensorPrimitive, read_sync};
use burn_std::FloatDType;

use crate::check::{CLOSE, EXACT, SUMS, Tolerance, agree, f32s, float, given, indices};

fn schemes() -> Vec<QuantScheme> {
    let native = QuantScheme::default().with_store(QuantStore::Native);
    vec![
        native.with_value(QuantValue::Q8S).per_tensor(ScaleDtype::F32),
        native.with_value(QuantValue::Q8F).per_tensor(ScaleDtype::F32),
        native.with_value(QuantValue::Q8S).per_block([4], ScaleDtype::F32),
        native.with_value(QuantValue::Q4S).per_block([2, 4], ScaleDtype::F32),
        native.with_value(QuantValue::Q8S).per_tensor(ScaleDtype::F16),
        native.with_value(QuantValue::Q8S).per_block([8], ScaleDtype::BF16),
    ]
}

/// One step of the coarsest scheme above: where the two backends round a code to either side of a tie.
const STEP: Tolerance = Tolerance { absolute: 0.6, relative: 0.0 };

fn quantised<B: Backend>(scheme: &QuantScheme, device: &B::Device) -> QuantizedTensor<B> {
    B::quantize_dynamic(f32s::<B>(&[4, 8], 1, device), scheme)
}

fn dequantised<B: Backend>(tensor: QuantizedTensor<B>) -> TensorData {
    float::<B>(B::dequantize(tensor, FloatDType::F32))
}

#[test]
fn codes_are_flexs_codes() {
    for scheme in schemes() {
        agree!(format!("{scheme:?}"), CLOSE, device => vec![dequantised::<B>(quantised::<B>(&scheme, device))]);
    }
}

#[test]
fn ties_are_rounded_away_from_zero() {
    let scheme =
        QuantScheme::default().with_store(QuantStore::Native).with_value(QuantValue::Q8S).per_tensor(ScaleDtype::F32);
    // A largest magnitude of 127 makes the scale 1.
    agree!("ties", EXACT, device => {
        let x = given::<B>(&[127.0, 0.5, -0.5, 1.5, -2.5, 3.4999], &[6], DType::F32, device);
        vec![dequantised::<B>(B::quantize_dynamic(x, &scheme))]
    });
}

#[test]
fn data_goes_to_the_device_and_back() {
    for scheme in schemes() {
        let device = &crate::check::device();
        type B = rocfire_burn::Rocm;
        let first = read_sync(B::q_into_data(quantised::<B>(&scheme, device))).unwrap();
        assert_eq!(first.dtype(), DType::QFloat(scheme.with_store(QuantStore::Native)));
        let again = read_sync(B::q_into_data(B::q_from_data(first.clone(), device))).unwrap();
        assert_eq!(first, again, "{scheme:?}");
        let theirs =
            read_sync(burn_flex::Flex::q_into_data(quantised::<burn_flex::Flex>(&scheme, &burn_flex::FlexDevice)))
                .unwrap();
        assert_eq!(first.as_bytes().len(), theirs.as_bytes().len(), "{scheme:?}");
    }
}

#[test]
fn packed_data_is_read() {
    let scheme = QuantScheme::default()
        .with_value(QuantValue::Q4S)
        .with_store(QuantStore::PackedU32(0))
        .per_tensor(ScaleDtype::F32);
    let mut bytes = 0x8765_4321_u32.to_le_bytes().to_vec();
    bytes.extend(0.5_f32.to_le_bytes());
    agree!("packed", EXACT, device => {
        let data = TensorData::from_bytes_vec(bytes.clone(), [8], DType::QFloat(scheme));
        vec![dequantised::<B>(B::q_from_data(data, device))]
    });
}

#[test]
fn moves_keep_the_values() {
    for scheme in schemes() {
        agree!(format!("moves {scheme:?}"), STEP, device => {
            let q = || quantised::<B>(&scheme, device);
            let mut results = vec![
                dequantised::<B>(B::q_swap_dims(q(), 0, 1)),
                dequantised::<B>(B::q_permute(q(), &[1, 0])),
                dequantised::<B>(B::q_flip(q(), &[1])),
                dequantised::<B>(B::q_to_device(q(), device)),
                dequantised::<B>(B::q_reshape(q(), [2, 16].into())),
                dequantised::<B>(B::q_slice(q(), &[Slice::new(0, Some(2), 1)])),
            ];
            if scheme.block_size().is_none() {
                results.extend([
                    dequantised::<B>(B::q_expand(B::q_reshape(q(), [1, 32].into()), [2, 32].into())),
                    dequantised::<B>(B::q_select(q(), 0, indices::<B>(&[3], 4, 1, device))),
                    dequantised::<B>(B::q_gather(1, q(), indices::<B>(&[4, 3], 8, 1, device))),
                ]);
            }
            results
        });
    }
}

#[test]
fn arithmetic_goes_by_way_of_floats() {
    let scheme = schemes()[0];
    agree!("arithmetic", SUMS, device => {
        let q = || quantised::<B>(&scheme, device);
        let other = || B::q_swap_dims(quantised::<B>(&scheme, device), 0, 1);
        let tensor = |primitive: TensorPrimitive<B>| float::<B>(primitive.tensor());
        vec![
            tensor(B::q_add(q(), q())),
            tensor(B::q_mul_scalar(q(), 2.0.into())),
            tensor(B::q_exp(q())),
            tensor(B::q_sum_dim(q(), 1)),
            tensor(B::q_matmul(TensorPrimitive::QFloat(q()), TensorPrimitive::QFloat(other()))),
        ]
    });
}

#[test]
fn schemes_that_are_not_there_are_refused_by_name() {
    let scheme = QuantScheme::default().with_store(QuantStore::Native).with_value(QuantValue::E4M3);
    let device = crate::check::device();
    let refused = std::panic::catch_unwind(|| {
        let x = f32s::<rocfire_burn::Rocm>(&[4], 1, &device);
        rocfire_burn::Rocm::quantize_dynamic(x, &scheme)
    });
    let message = *refused.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("E4M3") && message.contains("not supported"), "{message}");
    assert!(!rocfire_burn::Rocm::supports_dtype(&device, DType::QFloat(scheme)));
}
