//! Modules and functions over the launchers, against Burn's own on its CPU backend.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::backend::FlexDevice;
use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{GroupNormConfig, LayerNormConfig, LinearConfig, RmsNormConfig, RotaryEncodingConfig, SwiGluConfig};
use burn::store::ModuleRecord;
use burn::tensor::activation::{log_softmax as burn_log_softmax, softmax as burn_softmax};
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use common::{Fill, numbers};
use rocfire_burn::RocmDevice;
use rocfire_burn_nn::{
    Activation, AttentionInputs, AttentionParams, Coded, CodedMatrices, CrossEntropyLoss, EndActivation, Experts,
    Format, GateLayout, GateParams, GatedMlp, Granularity, GroupNorm, GroupedEpilogue, LayerNorm, MatrixCoding,
    MxRounding, Order, Penalties, QuantExperts, QuantLinear, RmsNorm, RopeFrequencies, RopeScaling, RopeStyle,
    RotaryEncoding, RouteForm, Sampling, ScaleKind, Score, accept, accept_greedy, attention, gate, grouped_matmul,
    hadamard, log_probabilities, log_softmax, penalise, probabilities, route, sample, softmax, top_k,
};

fn flex() -> Device {
    Device::from(FlexDevice).autodiff()
}

fn rocm() -> Device {
    Device::from(RocmDevice::emulated("gfx942").unwrap().burn()).autodiff()
}

/// A record of a module of Burn's, saved where there is no rocfire, and read.
fn record<M: Module>(module: M, dtype: DType) -> impl Fn() -> ModuleRecord {
    let bytes = module.map(&mut Fill(100, dtype, 0.5)).into_record().into_bytes().unwrap();
    move || ModuleRecord::from_bytes(bytes.clone()).unwrap()
}

fn compare(what: &str, ours: &[TensorData], theirs: &[TensorData], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len(), "{what}: number of results");
    for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.shape(), theirs.shape(), "{what}: shape of result {number}");
        let values = |data: &TensorData| data.clone().convert::<f64>().try_into_vec::<f64>().unwrap();
        let (ours, theirs) = (values(ours), values(theirs));
        let bound = tolerance * theirs.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
        for (index, (a, b)) in ours.iter().zip(&theirs).enumerate() {
            assert!((a - b).abs() <= bound, "{what}: result {number}, element {index}: {a} and {b}, bound {bound}");
        }
    }
}

/// f32 sums in another order.
const F32: f64 = 2e-5;
/// Half precision keeps 11 bits, and Burn's own rounds between operators.
const F16: f64 = 1e-2;

/// A view that an operator has just made and nobody has read: rows of every other column, axes swapped.
fn view(leaf: &Tensor<3>) -> Tensor<3> {
    leaf.clone().mul_scalar(2.0).swap_dims(0, 2).narrow(0, 1, 5).swap_dims(0, 2).narrow(2, 1, 4)
}

/// What a function gives of an input, and its gradients, of parameters too.
fn results<const D: usize>(
    device: &Device,
    shape: [usize; D],
    dtype: DType,
    run: impl FnOnce(Tensor<D>) -> (Tensor<D>, Vec<Param<Tensor<1>>>),
) -> Vec<TensorData> {
    let leaf = numbers(shape, 1, dtype, device).require_grad();
    // Made by an operator, a view, read by nobody.
    let x = leaf.clone().mul_scalar(2.0).swap_dims(0, D - 1);
    let (y, parameters) = run(x);
    let weights = numbers(y.dims(), 5, dtype, device);
    let gradients = (y.clone() * weights).sum().backward();
    let mut found = vec![y.into_data(), leaf.grad(&gradients).unwrap().into_data()];
    found.extend(parameters.iter().map(|param| param.val().grad(&gradients).unwrap().into_data()));
    found
}

macro_rules! norms {
    ($name:ident, $config:expr, $ours:ident, $shape:expr, [$($param:ident)*], $all:expr) => {
        #[test]
        fn $name() {
            let config = $config;
            for (dtype, tolerance) in [(DType::F32, F32), (DType::F16, F16)] {
                let record = record(config.init(&Device::from(FlexDevice)), dtype);
                let all = $all;
                let burn = results(&flex(), $shape, dtype, |x| {
                    let module = config.init(&flex()).load_record(record());
                    (module.forward(x), all(vec![$(module.$param.clone().into()),*]))
                });
                for device in [rocm(), rocm().gradient_checkpointing(), flex()] {
                    let run = || results(&device, $shape, dtype, |x| {
                        let module = $ours::new(&config, &device).load_record(record());
                        (module.forward(x), all(vec![$(module.$param.clone().into()),*]))
                    });
                    let first = run();
                    compare(stringify!($ours), &first, &burn, tolerance);
                    assert_eq!(run(), first, "the same bits");
                }
            }
            let saved = $ours::new(&config, &rocm()).map(&mut Fill(7, DType::F32, 0.5)).into_record().into_bytes().unwrap();
            let back = config.init(&flex()).load_record(ModuleRecord::from_bytes(saved).unwrap());
            let ours = $ours::new(&config, &rocm()).map(&mut Fill(7, DType::F32, 0.5));
            $(let pair = [back.$param.clone(), ours.$param.clone()].map(Option::<Param<Tensor<1>>>::from);
            let pair = pair.map(|param| param.unwrap().val().into_data());
            pair[0].assert_eq(&pair[1], true);)*
        }
    };
}

fn given(parameters: Vec<Option<Param<Tensor<1>>>>) -> Vec<Param<Tensor<1>>> {
    parameters.into_iter().flatten().collect()
}

norms!(rms_norm_is_burns, RmsNormConfig::new(6), RmsNorm, [6, 3, 5], [gamma], given);
norms!(layer_norm_is_burns, LayerNormConfig::new(6), LayerNorm, [6, 3, 5], [gamma beta], given);
norms!(group_norm_is_burns, GroupNormConfig::new(2, 6), GroupNorm, [4, 6, 5], [gamma beta], given);

#[test]
fn hadamard_transforms_are_those_written_out_and_undo_themselves() {
    for (dim, extent) in [(0, 4_usize), (1, 16), (2, 32)] {
        let scale = 1.0 / (extent as f64).sqrt();
        for (dtype, tolerance) in [(DType::F32, F32), (DType::F16, F16)] {
            let twice = |x: Tensor<3>| (hadamard(hadamard(x, dim, scale).mul_scalar(2.0), dim, scale), vec![]);
            let once = |device: &Device| results(device, [32, 16, 4], dtype, |x| (hadamard(x, dim, scale), vec![]));
            compare("once", &once(&rocm()), &once(&flex()), tolerance);
            assert_eq!(once(&rocm()), once(&rocm()), "the same bits");
            let whole = |device: &Device| results(device, [32, 16, 4], dtype, twice);
            let same = results(&flex(), [32, 16, 4], dtype, |x| (x.mul_scalar(2.0), vec![]));
            compare("twice", &whole(&rocm()), &same, tolerance);
            compare("twice, written out", &whole(&flex()), &same, tolerance);
        }
    }
}

#[test]
fn softmaxes_are_burns_along_every_axis() {
    for dim in 0..3 {
        let of = |device: &Device, run: fn(Tensor<3>, usize) -> Tensor<3>| {
            results(device, [7, 3, 5], DType::F32, |x| (run(x, dim), vec![]))
        };
        compare("softmax", &of(&rocm(), softmax), &of(&flex(), burn_softmax), F32);
        compare("log_softmax", &of(&rocm(), log_softmax), &of(&flex(), burn_log_softmax), F32);
    }
}

#[test]
fn gates_are_those_written_out() {
    let mut all = vec![GateParams::swiglu()];
    all.extend(Activation::ALL.map(GateParams::new));
    let mut odd = GateParams::new(Activation::Gelu);
    (odd.layout, odd.limit, odd.offset, odd.scale) = (GateLayout::Interleaved, Some(0.7), 0.5, Some(3.0));
    all.push(odd);
    for params in all {
        let of = |device: &Device| {
            let leaf = numbers([3, 4, 10], 1, DType::F32, device).require_grad();
            let y = gate(view(&leaf), params);
            let gradients = (y.clone() * numbers(y.dims(), 2, DType::F32, device)).sum().backward();
            vec![y.into_data(), leaf.grad(&gradients).unwrap().into_data()]
        };
        compare(&format!("{params:?}"), &of(&rocm()), &of(&flex()), F32);
    }
}

#[test]
fn a_gated_block_is_burns_swiglu_and_a_product() {
    let config = SwiGluConfig::new(6, 8).with_bias(true);
    let (gates, down) = (record(config.init(&Device::from(FlexDevice)), DType::F32), LinearConfig::new(8, 6));
    let back = record(down.init(&Device::from(FlexDevice)), DType::F32);
    let run = |device: &Device| {
        let (swiglu, linear) = (config.init(device).load_record(gates()), down.init(device).load_record(back()));
        let x = numbers([2, 3, 6], 1, DType::F32, device);
        let theirs = linear.forward(swiglu.forward(x.clone()));
        let block = GatedMlp::from_swiglu(swiglu, linear);
        let again = block.to_swiglu(device).into_record().into_bytes().unwrap();
        let again = config.init(device).load_record(ModuleRecord::from_bytes(again).unwrap());
        let first = config.init(device).load_record(gates());
        again.linear_outer.weight.val().into_data().assert_eq(&first.linear_outer.weight.val().into_data(), true);
        [block.forward(x).into_data(), theirs.into_data()]
    };
    let [_, theirs] = run(&flex());
    compare("GatedMlp", &run(&rocm()), &[theirs.clone(), theirs], F32);
}

#[test]
fn rotary_encodings_are_burns() {
    let of = |device: &Device, run: &dyn Fn(Tensor<4>) -> Tensor<4>| {
        let leaf = numbers([2, 5, 3, 8], 1, DType::F32, device).require_grad();
        let y = run(leaf.clone().mul_scalar(2.0).swap_dims(1, 2));
        let gradients = (y.clone() * numbers(y.dims(), 2, DType::F32, device)).sum().backward();
        vec![y.into_data(), leaf.grad(&gradients).unwrap().into_data()]
    };
    let burn = |device: &Device| RotaryEncodingConfig::new(16, 8).init(device);
    let theirs = of(&flex(), &|x| burn(&flex()).apply(x, 4));
    for device in [rocm(), flex()] {
        let ours = RotaryEncoding::from(burn(&device));
        compare("of Burn's", &of(&device, &|x| ours.forward(x, 4)), &theirs, F32);
        let frequencies = RopeFrequencies::new(8, 10_000.0, RopeScaling::None).unwrap();
        let ours = RotaryEncoding::new(&frequencies, 16, RopeStyle::GptJ, &device);
        compare("of frequencies", &of(&device, &|x| ours.forward(x, 4)), &theirs, F32);
    }
    let partly = |device: &Device| {
        let frequencies = RopeFrequencies::new(6, 10_000.0, RopeScaling::None).unwrap();
        let encoding = RotaryEncoding::new(&frequencies, 16, RopeStyle::NeoX, device);
        of(device, &|x| encoding.forward(x, 4))
    };
    compare("six of eight", &partly(&rocm()), &partly(&flex()), F32);
    let device = rocm().inner();
    let encoding = RotaryEncoding::from(burn(&device));
    let at = Tensor::<2, Int>::from_data([[4, 5, 6, 7, 8], [4, 5, 6, 7, 8]], &device);
    let x = numbers([2, 3, 5, 8], 1, DType::F32, &device);
    let own = encoding.forward_at(x.clone(), at).expect("the device is rocfire's").into_data();
    own.assert_eq(&encoding.forward(x, 4).into_data(), true);
}

#[test]
fn cross_entropy_is_burns() {
    let plain = CrossEntropyLossConfig::new();
    let weights = Some(vec![0.5, 1.0, 2.0, 0.25, 3.0]);
    let configs = [
        plain.clone(),
        plain.clone().with_pad_tokens(Some(vec![2])),
        plain.clone().with_pad_tokens(Some(vec![2, 3])),
        plain.clone().with_smoothing(Some(0.1)),
        plain.clone().with_weights(weights.clone()).with_smoothing(Some(0.2)).with_pad_tokens(Some(vec![1])),
        plain.with_logits(false),
    ];
    for config in configs {
        let of = |device: &Device, ours: bool| {
            let leaf = numbers([5, 6], 1, DType::F32, device).require_grad();
            let logits = leaf.clone().mul_scalar(2.0).transpose();
            let logits = if config.logits { logits } else { logits.abs().add_scalar(0.1) };
            let targets = Tensor::<1, Int>::from_data([0, 2, 4, 1, 3, 2], device);
            let loss = match ours {
                true => CrossEntropyLoss::new(&config, device).forward(logits, targets),
                false => config.init(device).forward(logits, targets),
            };
            let gradients = loss.backward();
            vec![loss.into_data(), leaf.grad(&gradients).unwrap().into_data()]
        };
        compare(&format!("{config:?}"), &of(&rocm(), true), &of(&flex(), false), F32);
        compare(&format!("{config:?}, flex"), &of(&flex(), true), &of(&flex(), false), F32);
    }
}

/// A loss of 16-bit logits that is not rounded to 16 bits is that of the same numbers in f32.
#[test]
fn a_wide_cross_entropy_of_bf16_logits_is_that_of_f32() {
    let plain = CrossEntropyLossConfig::new();
    let weights = Some(vec![0.5, 1.0, 2.0, 0.25, 3.0]);
    let configs = [
        plain.clone(),
        plain.clone().with_pad_tokens(Some(vec![2])),
        plain.clone().with_pad_tokens(Some(vec![2, 3])),
        plain.with_weights(weights).with_smoothing(Some(0.2)),
    ];
    for config in configs {
        let of = |device: &Device, dtype: DType| {
            let narrow = numbers([6, 5], 1, DType::BF16, device);
            let leaf = narrow.cast(dtype).require_grad();
            let targets = Tensor::<1, Int>::from_data([0, 2, 4, 1, 3, 2], device);
            let loss = CrossEntropyLoss::new(&config, device).forward_wide(leaf.clone().mul_scalar(8.0), targets);
            assert_eq!(loss.dtype(), DType::F32);
            let gradients = loss.backward();
            (vec![loss.into_data()], vec![leaf.grad(&gradients).unwrap().into_data()])
        };
        let (loss, gradient) = of(&flex(), DType::F32);
        let (ours, own) = of(&rocm(), DType::BF16);
        compare(&format!("{config:?}"), &ours, &loss, F32);
        compare(&format!("{config:?}, gradient"), &own, &gradient, F16);
        compare(&format!("{config:?}, flex"), &of(&flex(), DType::BF16).0, &loss, F32);
    }
}

/// What coding loses: half a step of a scale for each of two factors, summed over K.
#[test]
fn quantised_products_are_near_the_floats() {
    let device = rocm().inner();
    let linear = || LinearConfig::new(128, 48).init(&device).map(&mut Fill(1, DType::F32, 0.5));
    let x = || numbers([128, 9], 3, DType::F32, &device).mul_scalar(2.0).transpose();
    let theirs = linear().forward(x()).into_data();
    let codings = [
        ((Format::E4M3Fnuz, Granularity::Token), 0.05),
        ((Format::I8, Granularity::Token), 0.01),
        ((Format::E4M3, Granularity::Group(32)), 0.05),
        ((Format::I8, Granularity::Tensor), 0.02),
        ((Format::E4M3, Granularity::Mx(MxRounding::Up)), 0.06),
        ((Format::E2M1, Granularity::Mx(MxRounding::Up)), 0.3),
    ];
    for (coding, tolerance) in codings {
        let run = |laid_out| {
            let layer = QuantLinear::new(linear(), coding, coding, laid_out).expect("the device is rocfire's");
            let first = layer.forward(x()).into_data();
            first.assert_eq(&layer.forward(x()).into_data(), true);
            first
        };
        let plain = run(false);
        compare(&format!("{coding:?}"), std::slice::from_ref(&plain), std::slice::from_ref(&theirs), tolerance);
        plain.assert_eq(&run(true), true);
    }
    assert!(Coded::of(numbers([2, 8], 1, DType::F32, &flex()), codings[0].0).is_none());
}

#[test]
fn norms_and_gates_are_coded_as_what_they_give() {
    let device = rocm().inner();
    let coding = (Format::I8, Granularity::Token);
    let layer = |rows| {
        let linear = LinearConfig::new(rows, 16).init(&device).map(&mut Fill(1, DType::F32, 0.5));
        QuantLinear::new(linear, coding, coding, true).expect("the device is rocfire's")
    };
    let x = || numbers([64, 5], 3, DType::F32, &device).mul_scalar(2.0).transpose();
    let norm = RmsNorm::new(&RmsNormConfig::new(64), &device).map(&mut Fill(3, DType::F32, 0.5));
    let fused = layer(64).forward_coded(norm.forward_coded(x(), coding).expect("the device is rocfire's"));
    // A code may be its neighbour: the norm's sums have another order.
    compare("norm", &[fused.into_data()], &[layer(64).forward(norm.forward(x())).into_data()], 0.01);
    let params = GateParams::new(Activation::Silu);
    let fused = layer(32).forward_coded(Coded::of_gate(x(), params, coding).expect("the device is rocfire's"));
    compare("gate", &[fused.into_data()], &[layer(32).forward(gate(x(), params)).into_data()], 0.01);
}

#[test]
fn sinks_take_their_share_and_get_their_gradient() {
    let of = |device: &Device, is_ours: bool| {
        let leaf = |shape, seed| numbers::<4>(shape, seed, DType::F32, device).require_grad();
        let leaves = [leaf([2, 7, 4, 16], 1), leaf([2, 11, 2, 16], 2), leaf([2, 11, 2, 16], 3)];
        let sinks = numbers::<1>([4], 4, DType::F32, device).require_grad();
        let [query, key, value] = leaves.clone().map(|leaf| leaf.mul_scalar(2.0).swap_dims(1, 2));
        let bias = numbers([1, 4, 7, 11], 5, DType::F32, device);
        let y = if is_ours {
            let mask = Tensor::<4, Bool>::from_data(TensorData::new(hidden(), [1, 1, 7, 11]), device);
            let sinks = Some(sinks.clone());
            let inputs = AttentionInputs { query, key, value, mask: Some(mask), bias: Some(bias), sinks };
            attention(inputs, AttentionParams::default()).expect("the device is rocfire's")
        } else {
            let wide = |x: Tensor<4>| x.reshape([2, 2, 1, 11 * 16]).repeat_dim(2, 2).reshape([2, 4, 11, 16]);
            let scores = query.matmul(wide(key).swap_dims(2, 3)).mul_scalar(0.25) + bias;
            let mask = Tensor::<4, Bool>::from_data(TensorData::new(hidden(), [1, 1, 7, 11]), device);
            let scores = scores.mask_fill(mask.expand([2, 4, 7, 11]), f32::NEG_INFINITY);
            let column = sinks.clone().reshape([1, 4, 1, 1]).expand([2, 4, 7, 1]);
            let weights = burn_softmax(Tensor::cat(vec![scores, column], 3), 3).narrow(3, 0, 11);
            weights.matmul(wide(value))
        };
        let gradients = (y.clone() * numbers(y.dims(), 6, DType::F32, device)).sum().backward();
        let mut found = vec![y.into_data(), sinks.grad(&gradients).unwrap().into_data()];
        found.extend(leaves.iter().map(|leaf| leaf.grad(&gradients).unwrap().into_data()));
        found
    };
    let theirs = of(&flex(), false);
    for device in [rocm(), rocm().gradient_checkpointing()] {
        compare("sinks", &of(&device, true), &theirs, F32);
    }
}

/// Two keys of each row, another pair for each.
fn hidden() -> Vec<bool> {
    (0..7 * 11).map(|at| (at % 11 + 11 - at / 11) % 11 < 2).collect()
}

#[test]
fn experts_are_those_that_every_row_goes_through() {
    for (activation, [rows, each]) in [(Activation::Silu, [13, 2]), (Activation::Gelu, [1, 3])] {
        let of = |device: &Device, is_learned: bool| {
            let weight = |shape, seed| Param::from_tensor(numbers::<3>(shape, seed, DType::F32, device));
            let (gate, up, down) = (weight([4, 6, 10], 1), weight([4, 6, 10], 2), weight([4, 10, 6], 3));
            let experts = Experts { gate, up, down, activation };
            let chosen: Vec<i64> = (0..rows as i64 * each as i64).map(|at| [3, 1, 0][at as usize % 3]).collect();
            let chosen = Tensor::<2, Int>::from_data(TensorData::new(chosen, [rows, each]), device);
            let leaf = |shape: [usize; 2], seed| {
                let leaf = numbers(shape, seed, DType::F32, device);
                if is_learned { leaf.require_grad() } else { leaf }
            };
            let (x, shares) = (leaf([6, rows], 4), leaf([rows, each], 5));
            let y = experts.forward(x.clone().transpose(), chosen, shares.clone());
            let mut found = vec![y.clone().into_data()];
            if is_learned {
                let gradients = (y.clone() * numbers(y.dims(), 6, DType::F32, device)).sum().backward();
                let weights = [&experts.gate, &experts.up, &experts.down];
                found.extend(weights.map(|weight| weight.val().grad(&gradients).unwrap().into_data()));
                found.extend([x, shares].map(|leaf| leaf.grad(&gradients).unwrap().into_data()));
            }
            found
        };
        let theirs = of(&flex(), true);
        compare("experts", &of(&rocm().inner(), false), &theirs[..1], F32);
        for device in [rocm(), rocm().gradient_checkpointing()] {
            let ours = of(&device, true);
            compare("experts with gradients", &ours, &theirs, F32);
            for (first, second) in ours.iter().zip(&of(&device, true)) {
                first.assert_eq(second, true);
            }
        }
    }
    let (a, b) = (numbers([3, 6], 1, DType::F32, &flex().inner()), numbers([2, 6, 4], 2, DType::F32, &flex().inner()));
    let offsets = Tensor::<1, Int>::from_data([0, 1, 3], &flex().inner());
    assert!(grouped_matmul(a, b, offsets, GroupedEpilogue::None, None).is_none());
}

/// What a code stands for.
fn number(format: Format, code: u8) -> f64 {
    let (mantissa, bias, bits) = match format {
        Format::I8 => return f64::from(code as i8),
        Format::E4M3 => (3, 7, 8),
        _ => (1, 1, 4),
    };
    let size = i32::from(code) & ((1 << (bits - 1)) - 1);
    let (exponent, fraction) = (size >> mantissa, f64::from(size & ((1 << mantissa) - 1)));
    let steps = if exponent == 0 { fraction } else { fraction + f64::from(1 << mantissa) };
    let size = steps * 2f64.powi(exponent.max(1) - bias - mantissa);
    if code >> (bits - 1) & 1 == 0 { size } else { -size }
}

/// The matrices `[experts, K, N]` that codes stand for.
fn decoded(of: &CodedMatrices, [count, k, n]: [usize; 3]) -> Vec<f32> {
    let coding = of.coding;
    let [codes, grid] = coding.shapes([count, k, n]);
    let bytes = of.codes.val().into_data();
    assert_eq!(bytes.shape().to_vec(), codes);
    let bytes = bytes.convert::<u8>().try_into_vec::<u8>().unwrap();
    let scales = match (&of.scales, &of.bytes) {
        (Some(scales), _) => scales.val().into_data(),
        (None, bytes) => bytes.as_ref().unwrap().val().into_data(),
    };
    let scales = scales.convert::<f64>().try_into_vec::<f64>().unwrap();
    let scale =
        |at: usize| if coding.kind == ScaleKind::E8M0 { 2f64.powi(scales[at] as i32 - 127) } else { scales[at] };
    let element = |at: usize| {
        let turned = |[k, n]: [usize; 2]| if coding.is_transposed { [n, k] } else { [k, n] };
        let ([row, col], block) = (turned([at / n % k, at % n]), turned(coding.block));
        let per = 8 / coding.format.bits();
        let byte = bytes[(at / (k * n) * codes[1] + row) * codes[2] + col / per];
        let code = byte >> (col % per * coding.format.bits());
        let scale = scale((at / (k * n) * grid[1] + row / block[0]) * grid[2] + col / block[1]);
        (scale * number(coding.format, if per == 2 { code & 15 } else { code })) as f32
    };
    (0..count * k * n).map(element).collect()
}

#[test]
fn experts_of_codes_are_those_of_what_the_codes_stand_for() {
    let device = rocm().inner();
    let mx = MatrixCoding { kind: ScaleKind::E8M0, ..MatrixCoding::new(Format::E2M1, [32, 1]) };
    let blocks = MatrixCoding::new(Format::E4M3, [16, 8]);
    let mx8 = MatrixCoding { format: Format::E4M3, ..mx };
    let codings = [mx, mx8, blocks].into_iter();
    let codings = codings.flat_map(|coding| [coding, MatrixCoding { is_transposed: true, ..coding }]);
    for coding in codings.chain([MatrixCoding::new(Format::I8, [usize::MAX, 1])]) {
        let (experts, model, hidden) = (4, 32, 64);
        let weight = |shape, seed| Param::from_tensor(numbers::<3>(shape, seed, DType::F32, &device));
        let [gate, up] = [1, 2].map(|seed| weight([experts, model, hidden], seed));
        let down = weight([experts, hidden, model], 3);
        let made = || Experts { gate: gate.clone(), up: up.clone(), down: down.clone(), activation: Activation::Silu };
        let coded = QuantExperts::new(made(), coding).expect("the device is rocfire's");
        let of = |matrices: &CodedMatrices, shape: [usize; 3]| {
            let values = TensorData::new(decoded(matrices, shape), shape);
            Param::from_tensor(Tensor::<3>::from_data(values, &device))
        };
        let plain = Experts {
            gate: of(&coded.gate, [experts, model, hidden]),
            up: of(&coded.up, [experts, model, hidden]),
            down: of(&coded.down, [experts, hidden, model]),
            activation: Activation::Silu,
        };
        // One row, some, and a choice of no expert.
        for rows in [1, 7] {
            let chosen: Vec<i64> = (0..2 * rows as i64).map(|at| [3, 1, 0, -1][at as usize % 4]).collect();
            let chosen = || Tensor::<2, Int>::from_data(TensorData::new(chosen.clone(), [rows, 2]), &device);
            let (x, shares) =
                (numbers([rows, model], 4, DType::F32, &device), numbers([rows, 2], 5, DType::F32, &device));
            let theirs = plain.forward(x.clone(), chosen(), shares.clone()).into_data();
            let ours = coded.forward(x.clone(), chosen(), shares.clone()).into_data();
            compare(&format!("{coding:?}"), &[ours], std::slice::from_ref(&theirs), F32);
            let exact = made().forward(x, chosen(), shares).into_data();
            let values = |data: &TensorData| data.clone().convert::<f64>().try_into_vec::<f64>().unwrap();
            let off = values(&theirs).iter().zip(values(&exact)).any(|(a, b)| (a - b).abs() > 1e-4);
            assert!(off, "{coding:?}: codes are not the numbers themselves");
        }
        let bytes = coded.clone().into_record().into_bytes().unwrap();
        let other = QuantExperts::new(made(), coding).unwrap().load_record(ModuleRecord::from_bytes(bytes).unwrap());
        other.gate.codes.val().into_data().assert_eq(&coded.gate.codes.val().into_data(), true);
    }
    let theirs = numbers::<3>([2, 32, 8], 1, DType::F32, &flex().inner());
    assert!(CodedMatrices::of(theirs, mx).is_none());
}

#[test]
fn quantised_layers_are_modules() {
    let device = rocm().inner();
    let x = || numbers([2, 3, 64], 3, DType::F32, &device);
    let linear = record(LinearConfig::new(64, 48).init(&Device::from(FlexDevice)), DType::F32);
    for coding in [(Format::I8, Granularity::Token), (Format::E4M3, Granularity::Mx(MxRounding::Up))] {
        let layer = |of: Option<ModuleRecord>| {
            let linear = LinearConfig::new(64, 48).init(&device);
            let linear = match of {
                Some(record) => linear.load_record(record),
                None => linear,
            };
            QuantLinear::new(linear, coding, coding, true).expect("the device is rocfire's")
        };
        let first = layer(Some(linear()));
        let y = first.forward(x()).into_data();
        assert_eq!(y.shape().to_vec(), [2, 3, 48]);
        let bytes = first.clone().into_record().into_bytes().unwrap();
        let other = layer(None);
        // It has run, so that its weight is laid out.
        assert_ne!(other.forward(x()).into_data(), y, "{coding:?}");
        let loaded = other.load_record(ModuleRecord::from_bytes(bytes).unwrap());
        loaded.codes.val().into_data().assert_eq(&first.codes.val().into_data(), true);
        loaded.forward(x()).into_data().assert_eq(&y, true);
    }
}

#[test]
fn a_layers_bias_and_activation_follow_its_product_into_numbers_and_codes() {
    let device = rocm().inner();
    let (coding, x) = ((Format::I8, Granularity::Token), || numbers([9, 64], 3, DType::F32, &device));
    let layer = |laid_out| {
        let linear = LinearConfig::new(64, 48).init(&device).map(&mut Fill(1, DType::F32, 0.5));
        QuantLinear::new(linear, coding, coding, laid_out).expect("the device is rocfire's")
    };
    let scale = || Tensor::<2>::from_data([[0.0625_f32]], &device);
    for laid_out in [false, true] {
        let plain = || layer(laid_out).forward(x());
        for (activation, y) in [
            (EndActivation::None, plain()),
            (EndActivation::Relu, burn::tensor::activation::relu(plain())),
            (EndActivation::GeluTanh, gelu_by_tanh(plain())),
            (EndActivation::Silu, burn::tensor::activation::silu(plain())),
        ] {
            let layer = layer(laid_out).with_codes(Format::E4M3).with_activation(activation);
            compare(&format!("{activation:?}"), &[layer.forward(x()).into_data()], &[y.clone().into_data()], F32);
            let coded = Coded::of(x(), coding).expect("the device is rocfire's");
            let codes = layer.forward_recoded(coded, scale());
            assert_eq!(codes.coding, (Format::E4M3, Granularity::Static));
            // What the codes stand for, by a product with one: off by half a step of theirs, 1/16 of the largest at most.
            let one = Coded::of(Tensor::<2>::eye(48, &device), coding).expect("the device is rocfire's");
            let same = QuantLinear::from_coded(one, None, codes.coding, DType::F32, false);
            compare(
                &format!("{activation:?} coded"),
                &[same.forward_coded(codes).into_data()],
                &[y.into_data()],
                1.0 / 16.0,
            );
        }
    }
}

/// As [`EndActivation::GeluTanh`] says.
fn gelu_by_tanh(x: Tensor<2>) -> Tensor<2> {
    let inner = (x.clone() + x.clone().powi_scalar(3).mul_scalar(0.044715)).mul_scalar(0.797_884_560_802_865_4);
    x.mul_scalar(0.5) * (inner.tanh() + 1.0)
}

#[test]
fn codes_of_a_checkpoint_multiply_as_before_once_they_are_fnuz() {
    let device = rocm().inner();
    let (coding, activations) = ((Format::E4M3, Granularity::Token), (Format::E4M3Fnuz, Granularity::Token));
    let codes = || Coded::of(numbers([48, 64], 1, DType::F32, &device), coding).expect("the device is rocfire's");
    let product = |weight: Coded| {
        let layer = QuantLinear::from_coded(weight, None, activations, DType::F32, false);
        layer.forward(numbers([3, 64], 2, DType::F32, &device)).into_data()
    };
    let own = codes().to_fnuz().expect("the device is rocfire's");
    assert_eq!(own.coding.0, Format::E4M3Fnuz);
    compare("to_fnuz", &[product(own)], &[product(codes())], F32);
}

#[test]
fn empty_tensors_stay_empty() {
    let device = rocm().inner();
    let empty = || Tensor::<2>::zeros([0, 6], &device);
    let norm = RmsNorm::new(&RmsNormConfig::new(6), &device);
    let all = [norm.forward(empty()), softmax(empty(), 1), gate(empty(), GateParams::default())];
    assert_eq!(all.map(|y| y.into_data().shape().to_vec()), [vec![0, 6], vec![0, 6], vec![0, 3]]);
}

#[test]
fn what_does_not_fit_is_named() {
    let device = rocm().inner();
    let told = |what: &str, run: &dyn Fn() -> TensorData| {
        let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it does not fit");
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        assert!(text.contains(what), "{text} should name {what}");
    };
    let x = |shape| numbers::<2>(shape, 1, DType::F32, &device);
    let norm = RmsNorm::new(&RmsNormConfig::new(6), &device);
    told("weight", &|| norm.forward(x([3, 7])).into_data());
    told("x", &|| gate(x([3, 7]), GateParams::default()).into_data());
    told("dim", &|| softmax(x([3, 7]), 2).into_data());
    let targets = || Tensor::<1, Int>::from_data([0, 1], &device);
    let loss = CrossEntropyLoss::new(&CrossEntropyLossConfig::new(), &device);
    told("targets", &|| loss.forward(x([3, 7]), targets()).into_data());
    let coding = (Format::I2, Granularity::Token);
    told("format", &|| Coded::of(x([3, 8]), coding).expect("the device is rocfire's").codes.into_data());
    let encoding = RotaryEncoding::from(RotaryEncodingConfig::new(16, 8).init(&device));
    told("rot", &|| encoding.forward(numbers([1, 1, 2, 6], 1, DType::F32, &device), 0).into_data());
    // Of another type.
    let wide = |shape| numbers::<2>(shape, 1, DType::F64, &device);
    let token = (Format::I8, Granularity::Token);
    told("x must be of a type", &|| Coded::of(wide([3, 8]), token).expect("the device is rocfire's").codes.into_data());
    let tables = RotaryEncoding { cosines: encoding.cosines.clone().cast(DType::F16), ..encoding.clone() };
    told("cosines", &|| tables.forward(numbers([1, 1, 2, 8], 1, DType::F32, &device), 0).into_data());
    let half = numbers::<3>([2, 6, 4], 1, DType::F16, &device);
    let offsets = || Tensor::<1, Int>::from_data([0, 1, 3], &device);
    let grouped = |b: &Tensor<3>, factor| {
        grouped_matmul(x([3, 6]), b.clone(), offsets(), GroupedEpilogue::Scale, factor)
            .expect("the device is rocfire's")
    };
    told("b", &|| grouped(&half, Some(x([3, 1]))).into_data());
    told("inputs", &|| grouped(&half, None).into_data());
    let heads = || numbers::<4>([1, 2, 3, 8], 1, DType::F32, &device);
    let sinks = Some(numbers::<1>([2], 1, DType::F16, &device));
    let inputs = AttentionInputs { query: heads(), key: heads(), value: heads(), mask: None, bias: None, sinks };
    told("sinks", &|| attention(inputs.clone(), AttentionParams::default()).expect("it is rocfire's").into_data());
    let layer = QuantLinear::new(LinearConfig::new(8, 4).init(&device), token, token, false).expect("it is rocfire's");
    told("b.codes", &|| layer.forward(x([3, 6])).into_data());
    told("to_fnuz", &|| {
        let codes = Coded::of(x([3, 8]), token).expect("the device is rocfire's");
        codes.to_fnuz().expect("the device is rocfire's").codes.into_data()
    });
}

/// Whole numbers of any tensor.
fn whole<const D: usize>(x: Tensor<D, Int>) -> Vec<i64> {
    x.into_data().convert::<i64>().try_into_vec().unwrap()
}

/// Logits of which no two are alike, on a device without gradients.
fn logits(rows: usize, count: usize) -> (Tensor<2>, Vec<f32>) {
    let values: Vec<f32> = (0..rows * count).map(|n| ((n * 7919) % (rows * count)) as f32 / 64.0).collect();
    (Tensor::from_data(TensorData::new(values.clone(), [rows, count]), &rocm().inner()), values)
}

/// Places of a row, the largest first.
fn by_size(row: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
    order
}

#[test]
fn tokens_are_drawn_from_what_is_left_of_logits() {
    let device = rocm().inner();
    let ints = |values: &[i64]| Tensor::<1, Int>::from_data(TensorData::new(values.to_vec(), [values.len()]), &device);
    let floats = |values: &[f32]| Tensor::<1>::from_data(TensorData::new(values.to_vec(), [values.len()]), &device);
    let (x, values) = logits(2, 90);
    let orders: Vec<Vec<usize>> = values.chunks(90).map(by_size).collect();
    let best: Vec<i64> = orders.iter().map(|order| order[0] as i64).collect();
    let draw = || Some([ints(&[1, 2]), ints(&[3, 4])]);
    assert_eq!(whole(sample(x.clone(), &Sampling::default(), None).unwrap()), best);
    let mut sampling = Sampling { top_k: Some(ints(&[1, 1])), ..Sampling::default() };
    assert_eq!(whole(sample(x.clone(), &sampling, draw()).unwrap()), best);
    let bits = best.iter().flat_map(|&token| (0..3).map(move |word| !(i32::from(token / 32 == word) << (token % 32))));
    sampling.mask = Some(Tensor::from_data(TensorData::new(bits.collect(), [2, 3]), &device));
    let second: Vec<i64> = orders.iter().map(|order| order[1] as i64).collect();
    assert_eq!(whole(sample(x.clone(), &sampling, draw()).unwrap()), second);

    // Two of each row are left: the third has less than half of the second.
    let sampling = Sampling {
        temperature: Some(floats(&[0.5, 0.5])),
        top_k: Some(ints(&[2, 0])),
        min_p: Some(floats(&[0.0, 0.9])),
        top_p: Some(floats(&[1.0, 0.5])),
        ..Sampling::default()
    };
    let left = probabilities(x.clone(), &sampling).unwrap().into_data().try_into_vec::<f32>().unwrap();
    let weight = |row: usize, slot: usize| {
        ((values[row * 90 + orders[row][slot]] - values[row * 90 + orders[row][0]]) / 0.5).exp()
    };
    let kept: Vec<usize> = (0..90).filter(|&n| left[n] > 0.0).collect();
    assert!(kept.len() == 2 && kept.iter().all(|n| orders[0][..2].contains(n)));
    assert!((left[orders[0][0]] - 1.0 / (1.0 + weight(0, 1))).abs() < 1e-5);
    assert!((0..90).all(|slot| (left[90 + orders[1][slot]] > 0.0) == (slot == 0 || weight(1, slot) >= 0.9)));

    let flex = Tensor::<2>::zeros([1, 3], &flex().inner());
    assert!(sample(flex, &Sampling::default(), None).is_none());
}

#[test]
fn logits_are_penalised_ranked_and_their_drafts_judged() {
    let device = rocm().inner();
    let ints = |values: &[i64], shape: [usize; 2]| {
        Tensor::<2, Int>::from_data(TensorData::new(values.to_vec(), shape), &device)
    };
    let one = |values: &[i64]| Tensor::<1, Int>::from_data(TensorData::new(values.to_vec(), [values.len()]), &device);
    let (x, mut values) = logits(1, 50);
    let penalties = Penalties {
        tokens: ints(&[4, 49, -1], [1, 3]),
        counts: Some(ints(&[2, 0, 5], [1, 3])),
        biases: None,
        repetition: Some(Tensor::from_data([2.0], &device)),
        frequency: Some(Tensor::from_data([0.25], &device)),
        presence: None,
    };
    (values[4], values[49]) = (values[4] / 2.0 - 0.5, values[49] / 2.0);
    let x = penalise(x, penalties).unwrap();
    assert_eq!(x.clone().into_data().try_into_vec::<f32>().unwrap(), values);
    let order = by_size(&values);
    let found = log_probabilities(x.clone(), one(&[order[6] as i64]), 2).unwrap();
    let top = values[order[0]];
    let lost = values.iter().map(|x| (x - top).exp()).sum::<f32>().ln();
    let [chosen] = found.chosen.into_data().try_into_vec::<f32>().unwrap()[..] else { panic!("one row") };
    assert!((chosen - (values[order[6]] - top - lost)).abs() < 1e-5);
    assert_eq!(whole(found.ranks), [7]);
    let (best, logs) = found.best.unwrap();
    assert_eq!(whole(best), [order[0] as i64, order[1] as i64]);
    assert!((logs.into_data().try_into_vec::<f32>().unwrap()[0] + lost).abs() < 1e-5);
    let (places, numbers) = top_k(x.clone(), 3, Order::Descending, true, None).unwrap();
    assert_eq!(whole(places), order[..3].iter().map(|&n| n as i64).collect::<Vec<_>>());
    assert_eq!(numbers.into_data().try_into_vec::<f32>().unwrap()[2], values[order[2]]);
    let (places, _) = top_k(x, 3, Order::Ascending, false, Some([one(&[8]), one(&[10])])).unwrap();
    assert_eq!(whole(places), [8, 9, -1]);

    let (drafts, targets) = (ints(&[2, 1], [1, 2]), ints(&[2, 0, 3], [1, 3]));
    let (tokens, counts) = accept_greedy(drafts.clone(), targets).unwrap();
    assert_eq!((whole(tokens), whole(counts)), (vec![2, 0, -1], vec![1]));
    let target = Tensor::<3>::from_data([[[0., 0., 1., 0.], [1., 0., 0., 0.], [0., 0., 0., 1.]]], &device);
    let draft = Tensor::<3>::from_data([[[0., 0., 1., 0.], [0., 1., 0., 0.]]], &device);
    for draft in [None, Some(draft)] {
        let (tokens, counts) = accept(drafts.clone(), target.clone(), draft, [one(&[1]), one(&[2])]).unwrap();
        assert_eq!((whole(tokens), whole(counts)), (vec![2, 0, -1], vec![1]));
    }
}

#[test]
fn tokens_are_routed_to_the_experts_that_they_go_through() {
    let device = rocm().inner();
    let (x, values) = logits(4, 8);
    let mut form = RouteForm::new(8, 2, Score::Sigmoid);
    (form.renormalises, form.factor) = (true, 2.0);
    let (shares, ids) = route(x.clone(), form, None).unwrap();
    let shares = shares.into_data().try_into_vec::<f32>().unwrap();
    for (row, chosen) in whole(ids).chunks(2).enumerate() {
        let row_values = &values[row * 8..(row + 1) * 8];
        let order = by_size(row_values);
        assert_eq!(chosen, [order[0] as i64, order[1] as i64]);
        let scores = [0, 1].map(|slot| 1.0 / (1.0 + (-row_values[order[slot]]).exp()));
        assert!((shares[2 * row] - 2.0 * scores[0] / (scores[0] + scores[1])).abs() < 1e-5);
    }
    let bias = Tensor::<1>::from_data([0., 0., 0., 9., 0., 0., 0., 0.], &device);
    let (_, ids) = route(x, RouteForm { has_bias: true, ..form }, Some(bias)).unwrap();
    assert!(whole(ids).chunks(2).all(|chosen| chosen[0] == 3));
    // A choice of an expert that there is not adds nothing.
    let weight = |shape, seed| Param::from_tensor(numbers::<3>(shape, seed, DType::F32, &device));
    let (gate, up, down) = (weight([3, 6, 10], 1), weight([3, 6, 10], 2), weight([3, 10, 6], 3));
    let experts = Experts { gate, up, down, activation: Activation::Silu };
    let rows = numbers([5, 6], 4, DType::F32, &device);
    let through = |second: i64| {
        let chosen = Tensor::<2, Int>::from_data(TensorData::new([[2, second]; 5].concat(), [5, 2]), &device);
        let shares = Tensor::from_data([[0.5, 0.25]; 5], &device);
        experts.forward(rows.clone(), chosen, shares).into_data().try_into_vec::<f32>().unwrap()
    };
    let alone = {
        let chosen = Tensor::<2, Int>::from_data([[2]; 5], &device);
        let y = experts.forward(rows.clone(), chosen, Tensor::from_data([[0.5]; 5], &device));
        y.into_data().try_into_vec::<f32>().unwrap()
    };
    assert!(through(-1).iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-6));
    assert!(through(1).iter().zip(&alone).any(|(a, b)| (a - b).abs() > 1e-3));
}
