//! Quantised tensors: to and from codes, moves, arithmetic by way of floats.

use burn_backend::ops::{FloatTensorOps, QTensorOps};
use burn_backend::quantization::{
    Calibration, QuantMode, QuantScheme, QuantStore, QuantValue, ScaleDtype, compute_q_params, compute_range,
};
use burn_backend::tensor::QuantizedTensor;
use burn_backend::{Backend, BackendTypes, DType, Slice, TensorData, TensorMetadata, TensorPrimitive, read_sync};
use burn_std::FloatDType;
use burn_std::quantization::quantized_data_len;

use crate::check::{EXACT, SUMS, Tolerance, agree, compare, f32s, float, given, indices};
use crate::version::flexs_store;

fn scheme(value: QuantValue, store: QuantStore) -> QuantScheme {
    QuantScheme::default().with_value(value).with_store(store)
}

/// Whole numbers in every store, type of scale and shape of block, one level and two.
fn schemes() -> Vec<QuantScheme> {
    use QuantStore::{Native, PackedNative, PackedU32};
    use QuantValue::{Q2F, Q2S, Q4F, Q4S, Q8F, Q8S};
    vec![
        scheme(Q8S, Native).per_tensor(ScaleDtype::F32),
        scheme(Q8F, PackedU32(0)),
        scheme(Q8S, PackedU32(1)).per_block([4], ScaleDtype::F32),
        scheme(Q4S, Native).per_block([2, 4], ScaleDtype::F32),
        scheme(Q8S, Native).per_tensor(ScaleDtype::F16),
        scheme(Q8S, PackedNative(0)).per_block([8], ScaleDtype::BF16),
        scheme(Q4F, PackedU32(0)).per_block([8], ScaleDtype::UE8M0),
        scheme(Q4S, PackedU32(0)).per_block([4], ScaleDtype::UE4M3).per_tensor(ScaleDtype::F32),
        scheme(Q4F, PackedU32(0)).per_tensor(ScaleDtype::BF16),
        scheme(Q2S, PackedU32(0)).per_block([2, 8], ScaleDtype::F16),
        scheme(Q2F, PackedU32(0)).per_tensor(ScaleDtype::UE8M0),
    ]
}

/// Small floats, which Flex does not have, with the largest relative error of a value that is not below the least one.
fn float_schemes() -> [(QuantScheme, f32); 6] {
    use QuantStore::{Native, PackedNative, PackedU32};
    use QuantValue::{E2M1, E4M3, E5M2};
    [
        (scheme(E4M3, Native).per_tensor(ScaleDtype::F32), 1.0 / 16.0),
        (scheme(E4M3, PackedU32(0)).per_block([4], ScaleDtype::UE8M0), 1.0 / 16.0),
        (scheme(E5M2, PackedU32(0)).per_block([2, 4], ScaleDtype::F16), 1.0 / 8.0),
        (scheme(E2M1, PackedNative(0)).per_block([8], ScaleDtype::UE8M0), 1.0 / 4.0),
        (scheme(E2M1, PackedU32(0)).per_block([4], ScaleDtype::UE4M3).per_tensor(ScaleDtype::F32), 1.0 / 4.0),
        (scheme(E2M1, PackedNative(1)).per_tensor(ScaleDtype::BF16), 1.0 / 4.0),
    ]
}

type B = rocfire_burn::Rocm;

/// One step of the coarsest scheme above: where blocks are cut, both backends quantise anew.
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
        agree!(format!("{scheme:?}"), EXACT, device => vec![dequantised::<B>(quantised::<B>(&scheme, device))]);
    }
}

#[test]
fn given_scales_make_flexs_codes() {
    for scheme in schemes() {
        agree!(format!("given {scheme:?}"), EXACT, device => {
            let x = f32s::<B>(&[4, 8], 1, device);
            let (min, max) = compute_range::<B>(&scheme, x.clone(), &Calibration::MinMax);
            let parameters = compute_q_params::<B>(&scheme, min, max);
            vec![dequantised::<B>(B::quantize(x, &scheme, parameters))]
        });
    }
}

#[test]
fn small_floats_are_near() {
    let device = &crate::check::device();
    let x = crate::check::values(32, 1);
    for (scheme, relative) in float_schemes() {
        let q = B::quantize_dynamic(given::<B>(&x, &[4, 8], DType::F32, device), &scheme);
        assert_eq!(q.dtype(), DType::QFloat(scheme));
        let back = dequantised::<B>(q.clone());
        let (least, largest) = (scheme.value.range().0.abs().recip(), x.iter().fold(0.0f32, |m, x| m.max(x.abs())));
        for (x, back) in x.iter().zip(back.as_slice::<f32>().unwrap()) {
            // A narrow type of scale rounds up by at most 2.
            let bound = relative * x.abs() + 2.0 * largest * least;
            assert!((x - back).abs() <= bound, "{scheme:?}: {x} came back as {back}");
        }
        let data = read_sync(B::q_into_data(q)).unwrap();
        assert_eq!(back, dequantised::<B>(B::q_from_data(data, device)), "{scheme:?}");
    }
}

#[test]
fn scales_of_what_is_not_finite_are_flexs() {
    for scheme in [schemes()[0], schemes()[3], schemes()[7]] {
        agree!(format!("not finite {scheme:?}"), EXACT, device => {
            let mut x = crate::check::values(32, 2);
            x[3] = f32::NAN;
            x[9] = f32::INFINITY;
            x[16..20].fill(0.0);
            let q = B::quantize_dynamic(given::<B>(&x, &[4, 8], DType::F32, device), &scheme);
            vec![dequantised::<B>(q)]
        });
    }
}

#[test]
fn ties_are_rounded_as_flex_rounds_them() {
    let scheme =
        QuantScheme::default().with_store(QuantStore::Native).with_value(QuantValue::Q8S).per_tensor(ScaleDtype::F32);
    // A largest magnitude of 127 makes the scale 1.
    agree!("ties", EXACT, device => {
        let x = given::<B>(&[127.0, 0.5, -0.5, 1.5, -2.5, 3.4999], &[6], DType::F32, device);
        vec![dequantised::<B>(B::quantize_dynamic(x, &scheme))]
    });
}

/// Of so many numbers some lie so near a tie that a quotient and a product with the reciprocal have different codes.
#[test]
fn every_number_has_flexs_code() {
    let scheme = scheme(QuantValue::Q8S, QuantStore::Native).per_tensor(ScaleDtype::F32);
    agree!("codes", EXACT, device => {
        vec![dequantised::<B>(B::quantize_dynamic(f32s::<B>(&[1 << 8, 1 << 8], 3, device), &scheme))]
    });
}

#[test]
fn data_goes_to_the_device_and_back() {
    let device = &crate::check::device();
    for scheme in schemes().into_iter().chain(float_schemes().map(|(scheme, _)| scheme)) {
        let first = read_sync(B::q_into_data(quantised::<B>(&scheme, device))).unwrap();
        assert_eq!(first.dtype(), DType::QFloat(scheme));
        let packed = scheme.store != QuantStore::Native;
        assert!(!packed || first.as_bytes().len() == quantized_data_len(&scheme, first.shape()), "{scheme:?}");
        let again = read_sync(B::q_into_data(B::q_from_data(first.clone(), device))).unwrap();
        assert_eq!(first, again, "{scheme:?}");
    }
}

#[test]
fn flex_reads_what_the_device_writes() {
    let device = &crate::check::device();
    for scheme in schemes() {
        // Burn's reader counts wrongly where a line ends within a word.
        let whole_words = 8_usize.is_multiple_of(scheme.num_quants());
        let readable = matches!(scheme.store, QuantStore::Native | QuantStore::PackedU32(0)) && whole_words;
        if readable {
            let data = read_sync(B::q_into_data(quantised::<B>(&scheme, device))).unwrap();
            let theirs = burn_flex::Flex::q_from_data(data, &burn_flex::FlexDevice);
            let ours = dequantised::<B>(quantised::<B>(&scheme, device));
            assert_eq!(ours, dequantised::<burn_flex::Flex>(theirs), "{scheme:?}");
        }
    }
}

#[test]
fn bytes_of_codes_are_packed_as_the_scheme_says() {
    // Burn's constructor writes a byte for each code whatever the store.
    let scheme = scheme(QuantValue::Q8S, QuantStore::PackedU32(0)).per_tensor(ScaleDtype::F32);
    agree!("bytes", EXACT, device => {
        let codes: Vec<i8> = (0..6).map(|n| n * 9 - 20).collect();
        vec![dequantised::<B>(B::q_from_data(TensorData::quantized(codes, [2, 3], scheme, &[0.5], None), device))]
    });
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

/// What a move of the quantised tensor gives, and the same move of its floats.
type Moves = Vec<(TensorData, TensorData)>;

fn moves(q: impl Fn() -> QuantizedTensor<B>, device: &<B as BackendTypes>::Device) -> Moves {
    let floats = || B::dequantize(q(), FloatDType::F32);
    let rows = || indices::<B>(&[5], 8, 3, device);
    let halves = [Slice::new(2, Some(6), 1), Slice::new(8, Some(16), 1)];
    let backwards = [Slice::new(0, None, -1)];
    let rows_backwards = [Slice::new(0, None, 1), Slice::new(0, None, -1)];
    [
        (B::q_swap_dims(q(), 0, 1), B::float_swap_dims(floats(), 0, 1)),
        (B::q_slice(q(), &halves), B::float_slice(floats(), &halves)),
        (B::q_slice(q(), &backwards), B::float_slice(floats(), &backwards)),
        (B::q_flip(q(), &[0]), B::float_flip(floats(), &[0])),
        (B::q_select(q(), 0, rows()), B::float_select(floats(), 0, rows())),
        (B::q_reshape(q(), [2, 4, 16].into()), B::float_reshape(floats(), [2, 4, 16].into())),
        (B::q_reshape(q(), [1, 8, 16].into()), B::float_reshape(floats(), [1, 8, 16].into())),
        (B::q_expand(q(), [3, 8, 16].into()), B::float_expand(floats(), [3, 8, 16].into())),
        (
            B::q_slice(B::q_swap_dims(q(), 0, 1), &rows_backwards),
            B::float_slice(B::float_swap_dims(floats(), 0, 1), &rows_backwards),
        ),
    ]
    .map(|(q, x)| (dequantised::<B>(q), float::<B>(x)))
    .into()
}

#[test]
fn whole_words_and_blocks_move_without_rounding() {
    let device = &crate::check::device();
    let rows = [
        scheme(QuantValue::Q4S, QuantStore::PackedU32(0)).per_block([8], ScaleDtype::UE8M0),
        scheme(QuantValue::Q8F, QuantStore::PackedU32(0)).per_block([4], ScaleDtype::UE4M3).per_tensor(ScaleDtype::F32),
        scheme(QuantValue::E4M3, QuantStore::Native).per_block([8], ScaleDtype::F32),
        scheme(QuantValue::Q4F, QuantStore::PackedU32(0)).per_tensor(ScaleDtype::F32),
        scheme(QuantValue::E2M1, QuantStore::PackedNative(0)).per_tensor(ScaleDtype::F32),
    ];
    for scheme in rows {
        let q = || B::quantize_dynamic(f32s::<B>(&[8, 16], 5, device), &scheme);
        for (n, (got, want)) in moves(q, device).into_iter().enumerate() {
            assert_eq!(got, want, "move {n} of {scheme:?}");
        }
    }
}

#[test]
fn codes_that_share_a_word_move_one_by_one() {
    let device = &crate::check::device();
    for value in [QuantValue::Q8S, QuantValue::Q4F, QuantValue::Q2S, QuantValue::E4M3] {
        let scheme = scheme(value, QuantStore::PackedU32(0)).per_tensor(ScaleDtype::F32);
        // Three columns share one word with nothing.
        let q = || B::quantize_dynamic(f32s::<B>(&[4, 3], 5, device), &scheme);
        let floats = || B::dequantize(q(), FloatDType::F32);
        let by = || indices::<B>(&[4, 2], 3, 1, device);
        let columns = [Slice::new(0, None, 1), Slice::new(1, Some(3), 1)];
        let pairs = [
            (B::q_flip(q(), &[1]), B::float_flip(floats(), &[1])),
            (B::q_slice(q(), &columns), B::float_slice(floats(), &columns)),
            (B::q_gather(1, q(), by()), B::float_gather(1, floats(), by())),
            (B::q_reshape(q(), [12].into()), B::float_reshape(floats(), [12].into())),
            (B::q_reshape(q(), [3, 4].into()), B::float_reshape(floats(), [3, 4].into())),
        ];
        for (n, (q, x)) in pairs.into_iter().enumerate() {
            assert_eq!(dequantised::<B>(q), float::<B>(x), "move {n} of {scheme:?}");
        }
    }
}

/// A vector of codes, what comes of it by way of the host, and a part of it.
fn vector<B: Backend>(scheme: &QuantScheme, device: &B::Device) -> Vec<TensorData> {
    let q = || B::quantize_dynamic(f32s::<B>(&[16], 1, device), scheme);
    let again = B::q_from_data(read_sync(B::q_into_data(q())).unwrap(), device);
    [q(), again, B::q_slice(q(), &[Slice::new(4, Some(12), 1)])].map(dequantised::<B>).into()
}

/// Found by random operators: Flex takes any store, and a vector of a matrix that is packed along its rows is one.
#[test]
fn vectors_packed_along_an_axis_that_they_lack_have_flexs_codes() {
    use QuantStore::{PackedNative, PackedU32};
    let of = |value, store| scheme(value, store).per_tensor(ScaleDtype::F32);
    let (bytes, nibbles) = (of(QuantValue::Q8S, PackedU32(1)), of(QuantValue::Q4S, PackedNative(1)));
    let blocks = scheme(QuantValue::Q8S, PackedU32(1)).per_block([4], ScaleDtype::F32);
    for scheme in [blocks, bytes, nibbles, of(QuantValue::Q2F, PackedU32(2))] {
        let theirs = scheme.with_store(flexs_store(scheme.store));
        let [ours, theirs] =
            [vector::<B>(&scheme, &crate::check::device()), vector::<burn_flex::Flex>(&theirs, &burn_flex::FlexDevice)];
        compare(&format!("vector {scheme:?}"), &ours, &theirs, EXACT);
    }
    agree!("the sum of such a vector", SUMS, device => {
        let q = B::quantize_dynamic(f32s::<B>(&[16], 1, device), &bytes);
        vec![float::<B>(B::q_sum_dim(q, 0).tensor())]
    });
    // A matrix that is packed along its rows, as a vector.
    agree!("a matrix as a vector", EXACT, device => {
        let q = quantised::<B>(&bytes, device);
        vec![dequantised::<B>(B::q_reshape(q, [32].into()))]
    });
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
    let device = crate::check::device();
    let refused = |scheme: QuantScheme| {
        let quantise = || B::quantize_dynamic(f32s::<B>(&[4], 1, &device), &scheme);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(quantise));
        *caught.unwrap_err().downcast::<String>().unwrap()
    };
    let lookup = scheme(QuantValue::Q4F, QuantStore::Native).with_mode(QuantMode::Lookup);
    let message = refused(lookup);
    assert!(message.contains("Lookup") && message.contains("not supported"), "{message}");
    assert!(!B::supports_dtype(&device, DType::QFloat(lookup)));
    let message = refused(scheme(QuantValue::Q4F, QuantStore::Native).per_block([3], ScaleDtype::F32));
    assert!(message.contains("whole number of blocks"), "{message}");
}
