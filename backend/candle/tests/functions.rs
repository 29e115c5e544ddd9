//! Functions over the launchers against compositions of Candle's operators, in f64 on the CPU: values, gradients,
//! views, messages.

mod common;

use candle_core::DType::{BF16, F16, F32, F64, I32, I64, U8, U32};
use candle_core::{D, DType, Device, Module, Result, Tensor, Var};
use candle_nn::ops::{log_softmax as candle_log_softmax, sigmoid, softmax as candle_softmax};
use candle_nn::rotary_emb::{rope_i_slow, rope_slow};
use common::{Inputs, agree_within, gpu, numbers, same, with_settings};
use rocfire_candle::{
    Activation, Coded, Coding, EndActivation, Format, GateLayout, GateParams, Granularity, GroupedEpilogue, MxRounding,
    Order, Penalties, QuantLinear, RopeFrequencies, RopeScaling, RopeStyle, RouteForm, Sampling, Score, accept,
    accept_greedy, add_layer_norm, add_rms_norm, cross_entropy, gate, gated_mlp, group_norm, grouped_matmul, hadamard,
    launches, layer_norm, log_probabilities, log_softmax, penalise, probabilities, rms_norm, rope, rope_at,
    rope_tables, route, sample, softmax, sort_by_expert, top_k,
};

const EPSILON: f64 = 1e-5;

/// A leaf and a view of it: axes swapped, the first column left out. Leaves of one axis are their own view.
fn leaf(inputs: &Inputs, shape: &[usize], dtype: DType) -> Result<(Var, Tensor)> {
    let last = shape.len() - 1;
    let mut lies = shape.to_vec();
    if last > 0 {
        lies[last] += 1;
        lies.swap(0, last);
    }
    let leaf = Var::from_tensor(&inputs.make(&lies, dtype)?)?;
    let view = if last > 0 { leaf.transpose(0, last)?.narrow(last, 1, shape[last])? } else { leaf.as_tensor().clone() };
    Ok((leaf, view))
}

/// Candle casts them to i32 on the CPU alone.
fn indices(values: &[u32], dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::new(values, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

/// Compares what two functions of views give, and all gradients; `theirs` computes in f64.
fn check(
    what: &str,
    dtypes: &[DType],
    shapes: &[&[usize]],
    ours: impl Fn(&[Tensor]) -> Result<Tensor>,
    theirs: impl Fn(&[Tensor]) -> Result<Tensor>,
) {
    for &dtype in dtypes {
        for of in 0..=shapes.len() {
            agree_within(&format!("{what} {dtype:?}, {of}"), 8.0, |inputs| {
                let leaves = shapes.iter().map(|shape| leaf(inputs, shape, dtype)).collect::<Result<Vec<_>>>()?;
                let views: Vec<_> = leaves.iter().map(|(_, view)| view.clone()).collect();
                let y = if inputs.device().is_cpu() {
                    let wide = views.iter().map(|view| view.to_dtype(F64)).collect::<Result<Vec<_>>>()?;
                    theirs(&wide)?.to_dtype(dtype)?
                } else {
                    ours(&views)?.to_dtype(dtype)?
                };
                let Some(of) = of.checked_sub(1) else { return Ok(y.detach()) };
                let weights = inputs.make(y.dims(), dtype)?;
                // The gradient that comes back is a view too.
                let twice = Tensor::cat(&[&y, &y], 0)?.narrow(0, 0, y.dim(0)?)?;
                let gradients = (twice * weights)?.sum_all()?.backward()?;
                gradients.get(&leaves[of].0).cloned().ok_or_else(|| candle_core::Error::msg("no gradient"))
            });
        }
    }
}

const FLOATS: [DType; 4] = [F32, F16, BF16, F64];

fn normalised(x: &Tensor, is_centred: bool) -> Result<Tensor> {
    let x = if is_centred { x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)? } else { x.clone() };
    x.broadcast_div(&(x.sqr()?.mean_keepdim(D::Minus1)? + EPSILON)?.sqrt()?)
}

#[test]
fn norms_and_their_gradients_are_candles() {
    let (wide, prime): (&[usize], &[usize]) = (&[3, 5, 64], &[7, 131]);
    for shape in [wide, prime] {
        let columns = [shape[shape.len() - 1]];
        let ours = |x: &[Tensor]| rms_norm(&x[0], &x[1], EPSILON);
        check("rms_norm", &FLOATS, &[shape, &columns], ours, |x| normalised(&x[0], false)?.broadcast_mul(&x[1]));
        let ours = |x: &[Tensor]| layer_norm(&x[0], &x[1], x.get(2), EPSILON);
        let layer = |x: &[Tensor]| normalised(&x[0], true)?.broadcast_mul(&x[1]);
        check("layer_norm without bias", &[F32], &[shape, &columns], ours, layer);
        check("layer_norm", &FLOATS, &[shape, &columns, &columns], ours, |x| layer(x)?.broadcast_add(&x[2]));
    }
}

#[test]
fn norms_of_sums_give_both() {
    let shapes: [&[usize]; 4] = [&[6, 67], &[6, 67], &[67], &[67]];
    // Both results, each in the loss.
    let both = |[y, sum]: [Tensor; 2]| y + (sum * 0.5)?;
    check(
        "add_rms_norm",
        &[F32, F64],
        &shapes[..3],
        |x| both(add_rms_norm(&x[0], &x[1], &x[2], EPSILON)?),
        |x| {
            let sum = (&x[0] + &x[1])?;
            both([normalised(&sum, false)?.broadcast_mul(&x[2])?, sum])
        },
    );
    check(
        "add_layer_norm",
        &[F32, F64],
        &shapes,
        |x| both(add_layer_norm(&x[0], &x[1], &x[2], Some(&x[3]), EPSILON)?),
        |x| {
            let sum = (&x[0] + &x[1])?;
            both([normalised(&sum, true)?.broadcast_mul(&x[2])?.broadcast_add(&x[3])?, sum])
        },
    );
}

#[test]
fn group_norms_are_candles() {
    let theirs = |x: &[Tensor]| {
        let (batch, channels, rest) = x[0].dims3()?;
        let y = normalised(&x[0].reshape((batch, 2, channels / 2 * rest))?, true)?.reshape((batch, channels, rest))?;
        y.broadcast_mul(&x[1].reshape((1, (), 1))?)?.broadcast_add(&x[2].reshape((1, (), 1))?)
    };
    let ours = |x: &[Tensor]| group_norm(&x[0], &x[1], &x[2], 2, EPSILON);
    check("group_norm", &FLOATS, &[&[3, 6, 11], &[6], &[6]], ours, theirs);
}

#[test]
fn softmaxes_are_candles_along_every_axis() {
    for dim in 0..3 {
        let shapes: [&[usize]; 1] = [&[4, 7, 13]];
        check("softmax", &FLOATS, &shapes, |x| softmax(&x[0], dim), |x| candle_softmax(&x[0], dim));
        check("log_softmax", &FLOATS, &shapes, |x| log_softmax(&x[0], dim), |x| candle_log_softmax(&x[0], dim));
    }
}

#[test]
fn hadamard_transforms_are_those_written_out() {
    for (dim, extent) in [(0, 4_usize), (1, 8), (2, 64)] {
        let scale = 1.0 / (extent as f64).sqrt();
        // A matrix of signs: -1 to the power of how many bits two places have in common.
        let signs = (0..extent * extent)
            .map(|n| if ((n / extent) & (n % extent)).count_ones().is_multiple_of(2) { scale } else { -scale });
        let signs = Tensor::from_iter(signs, &Device::Cpu).and_then(|signs| signs.reshape((extent, extent))).unwrap();
        let theirs = |x: &[Tensor]| {
            let last = x[0].transpose(dim, 2)?.contiguous()?;
            last.broadcast_matmul(&signs)?.transpose(dim, 2)?.contiguous()
        };
        check("hadamard", &FLOATS, &[&[4, 8, 64]], |x| hadamard(&x[0], dim, scale), theirs);
    }
}

fn activated(activation: Activation, x: &Tensor) -> Result<Tensor> {
    match activation {
        Activation::Silu => x * sigmoid(x)?,
        Activation::Gelu => x.gelu_erf(),
        Activation::GeluTanh => x.gelu(),
        Activation::QuickGelu => x * sigmoid(&(x * 1.702)?)?,
        Activation::Sigmoid => sigmoid(x),
    }
}

#[test]
fn gates_and_gated_blocks_are_those_written_out() {
    let mut all: Vec<_> = Activation::ALL.map(GateParams::new).into();
    let mut odd = GateParams::new(Activation::Silu);
    (odd.layout, odd.limit, odd.offset, odd.scale) = (GateLayout::Interleaved, Some(0.7), 0.5, Some(3.0));
    all.push(odd);
    let written_out = |x: &Tensor, params: GateParams<'static>| {
        let half = x.dim(D::Minus1)? / 2;
        let (gates, ups) = match params.layout {
            GateLayout::Halves => (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?),
            GateLayout::Interleaved => {
                let pairs = x.reshape([&x.dims()[..x.rank() - 1], &[half, 2]].concat())?;
                (pairs.narrow(D::Minus1, 0, 1)?.squeeze(D::Minus1)?, pairs.narrow(D::Minus1, 1, 1)?.squeeze(D::Minus1)?)
            }
        };
        let (gates, ups) = match params.limit {
            Some(limit) => (gates.minimum(limit)?, ups.clamp(-limit, limit)?),
            None => (gates, ups),
        };
        activated(params.activation, &gates)? * ((ups + params.offset)? * params.scale.unwrap_or(1.0))?
    };
    for params in all {
        let dtypes = if params.activation == Activation::Silu { &FLOATS[..] } else { &[F32] };
        let ours = |x: &[Tensor]| gate(&x[0], params);
        check(&format!("{params:?}"), dtypes, &[&[3, 4, 26]], ours, |x| written_out(&x[0], params));
    }
    check(
        "gated_mlp",
        &[F32],
        &[&[2, 3, 8], &[22, 8], &[8, 11]],
        |x| gated_mlp(&x[0], &x[1], &x[2], Activation::Silu),
        |x| {
            let hidden = x[0].contiguous()?.broadcast_matmul(&x[1].t()?)?;
            written_out(&hidden, GateParams::new(Activation::Silu))?.broadcast_matmul(&x[2].t()?)
        },
    );
}

#[test]
fn rotary_embeddings_are_candles() {
    let frequencies = RopeFrequencies::new(8, 10_000.0, RopeScaling::None).unwrap();
    let shapes: [&[usize]; 1] = [&[2, 3, 5, 8]];
    for style in [RopeStyle::NeoX, RopeStyle::GptJ] {
        let tables = |device: &Device, dtype| -> Result<[Tensor; 2]> {
            let angles = (4..9).flat_map(|at| frequencies.inverse.iter().map(move |turn| f64::from(at) * turn));
            let angles = Tensor::from_iter(angles, device)?.reshape((5, 4))?;
            Ok([angles.cos()?.to_dtype(dtype)?, angles.sin()?.to_dtype(dtype)?])
        };
        let theirs = |x: &[Tensor]| {
            let [cosines, sines] = tables(&Device::Cpu, F64)?;
            let turn = if style == RopeStyle::NeoX { rope_slow } else { rope_i_slow };
            turn(&x[0], &cosines, &sines)
        };
        let made = rope_tables(&frequencies, 9, &gpu()).unwrap();
        let own = tables(&gpu(), F32).unwrap();
        let positions = |dtype| indices(&[4, 5, 6, 7, 8, 4, 5, 6, 7, 8], dtype, &gpu())?.reshape((2, 5));
        let from_four = |x: &[Tensor]| rope(&x[0], [&made[0], &made[1]], style, 4);
        check("rope", &[F32, F16, BF16], &shapes, from_four, theirs);
        check("rope by tables", &[F32], &shapes, |x| rope(&x[0], [&own[0], &own[1]], style, 0), theirs);
        for dtype in [U32, I32, I64] {
            let at = |x: &[Tensor]| rope_at(&x[0], [&made[0], &made[1]], style, &positions(dtype)?);
            check("rope_at", &[F32], &shapes, at, theirs);
        }
    }
}

#[test]
fn cross_entropies_are_candles() {
    let classes = [0.5, 1.0, 2.0, 0.25, 3.0, 1.5, 0.75];
    for (ignored, smoothing, is_weighed) in
        [(None, 0.0, false), (Some(2), 0.0, false), (None, 0.1, false), (Some(2), 0.2, true)]
    {
        for dtype in [U32, I32, I64] {
            let targets = |device: &Device| indices(&[0, 2, 4, 6, 3], dtype, device);
            let weights = |device: &Device| Tensor::new(&classes, device);
            let ours = |x: &[Tensor]| {
                let weights = is_weighed.then(|| weights(&gpu())).transpose()?;
                cross_entropy(&x[0], &targets(&gpu())?, weights.as_ref(), ignored, smoothing)
            };
            let theirs = |x: &[Tensor]| {
                let targets = targets(&Device::Cpu)?;
                let logarithms = candle_log_softmax(&x[0], D::Minus1)?;
                let logarithms =
                    if is_weighed { logarithms.broadcast_mul(&weights(&Device::Cpu)?)? } else { logarithms };
                let index = targets.to_dtype(U32)?.unsqueeze(1)?;
                let hit = (logarithms.gather(&index, 1)?.squeeze(1)? * (smoothing - 1.0))?;
                let loss = (hit - (logarithms.mean(D::Minus1)? * smoothing)?)?;
                match ignored {
                    Some(ignored) => loss * targets.ne(ignored)?.to_dtype(F64)?,
                    None => Ok(loss),
                }
            };
            check("cross_entropy", if dtype == U32 { &FLOATS } else { &[F32] }, &[&[5, 7]], ours, theirs);
        }
    }
}

#[test]
fn products_of_groups_are_those_of_each() {
    // Groups of no row, and rows of no group.
    let bounds = [1_u32, 4, 4, 17, 18];
    for dtype in [F32, BF16] {
        for index in [U32, I32] {
            for epilogue in [GroupedEpilogue::None, GroupedEpilogue::Gate(Activation::Silu), GroupedEpilogue::Scale] {
                agree_within(&format!("{epilogue:?} {dtype:?}"), 8.0, |inputs| {
                    let a = inputs.make(&[13, 19], dtype)?.t()?;
                    let b = inputs.make(&[4, 11, 13], dtype)?.transpose(1, 2)?;
                    let factor = match epilogue {
                        GroupedEpilogue::Scale => inputs.make(&[19, 1], dtype)?,
                        _ => inputs.make(&[11, 19], dtype)?.t()?,
                    };
                    if !inputs.device().is_cpu() {
                        let offsets = indices(&bounds, index, inputs.device())?;
                        let factor = (epilogue != GroupedEpilogue::None).then_some(&factor);
                        return grouped_matmul(&a, &b, &offsets, epilogue, factor);
                    }
                    let [a, b, factor] = [&a, &b, &factor].map(|x| x.to_dtype(F64));
                    let (a, b, factor) = (a?, b?, factor?);
                    let mut parts = vec![Tensor::zeros((1, 11), F64, &Device::Cpu)?];
                    for (group, bounds) in bounds.windows(2).enumerate().filter(|(_, bounds)| bounds[0] < bounds[1]) {
                        let [first, rows] = [bounds[0], bounds[1] - bounds[0]].map(|at| at as usize);
                        let product = a.narrow(0, first, rows)?.contiguous()?.matmul(&b.get(group)?.contiguous()?)?;
                        let factor = factor.narrow(0, first, rows)?;
                        parts.push(match epilogue {
                            GroupedEpilogue::None => product,
                            GroupedEpilogue::Gate(activation) => activated(activation, &product)?.mul(&factor)?,
                            GroupedEpilogue::Scale => product.broadcast_mul(&factor)?,
                        });
                    }
                    parts.push(Tensor::zeros((1, 11), F64, &Device::Cpu)?);
                    Tensor::cat(&parts, 0)?.to_dtype(dtype)
                });
            }
        }
    }
}

/// A weight `[48, 128]` and rows `[9, 128]`, a view.
fn factors(dtype: DType) -> [Tensor; 2] {
    let inputs = Inputs::new(&gpu(), 3);
    let weight = inputs.range(&[48, 128], dtype, -0.5, 0.5).unwrap();
    [weight, inputs.range(&[128, 9], dtype, -2.0, 2.0).unwrap().t().unwrap()]
}

fn layer(weight: &Tensor, coding: Coding, is_laid_out: bool) -> QuantLinear {
    let bias = Tensor::ones(weight.dim(0).unwrap(), F32, &gpu()).unwrap();
    QuantLinear::new(Coded::of(weight, coding).unwrap(), Some(bias), coding, weight.dtype(), is_laid_out).unwrap()
}

/// What coding loses: half a step of a scale for each of two factors, summed over K.
#[test]
fn quantised_layers_are_near_the_floats() {
    for dtype in [F32, BF16] {
        let [weight, x] = factors(dtype);
        let exact = (x.contiguous().unwrap().matmul(&weight.t().unwrap()).unwrap() + 1.0).unwrap();
        let exact = exact.reshape((3, 3, 48)).unwrap();
        let x = x.contiguous().unwrap().reshape((3, 3, 128)).unwrap();
        let most = numbers(&exact).iter().fold(1.0_f64, |most, y| most.max(y.abs()));
        for (coding, tolerance) in [
            ((Format::E4M3Fnuz, Granularity::Token), 0.05),
            ((Format::I8, Granularity::Token), 0.02),
            ((Format::E4M3, Granularity::Group(32)), 0.05),
            ((Format::I8, Granularity::Tensor), 0.02),
            ((Format::E4M3, Granularity::Mx(MxRounding::Up)), 0.06),
            ((Format::E2M1, Granularity::Mx(MxRounding::Up)), 0.3),
        ] {
            let y = layer(&weight, coding, false).forward(&x).unwrap();
            same(&format!("{coding:?}"), &y, &exact, tolerance * most);
            let laid_out = layer(&weight, coding, true);
            for _ in 0..2 {
                assert_eq!(numbers(&laid_out.forward(&x).unwrap()), numbers(&y), "{coding:?}");
            }
        }
    }
}

#[test]
fn norms_and_gates_are_coded_as_what_they_give() {
    let (coding, [_, x]) = ((Format::I8, Granularity::Token), factors(F32));
    let [gamma, weight] = [&[128_usize][..], &[16, 64]].map(|shape| Inputs::new(&gpu(), 5).make(shape, F32).unwrap());
    let near = |what: &str, coded: Coded, plain: Tensor| {
        let codes = |coded: &Coded| numbers(&coded.codes).into_iter().map(|code| f64::from(code as u8 as i8));
        let plain = Coded::of(&plain, coding).unwrap();
        // A code may be its neighbour: the norm's sums have another order.
        assert!(codes(&coded).zip(codes(&plain)).all(|(a, b)| (a - b).abs() <= 1.0), "{what}");
        same(what, &coded.scales, &plain.scales, 1e-6);
        coded
    };
    let normed = rms_norm(&x, &gamma, EPSILON).unwrap();
    near("norm", Coded::of_rms_norm(&x, &gamma, EPSILON, coding).unwrap(), normed);
    let params = GateParams::swiglu();
    let coded = near("gate", Coded::of_gate(&x, params, coding).unwrap(), gate(&x, params).unwrap());
    assert_eq!(layer(&weight, coding, false).forward_coded(&coded).unwrap().dims(), [9, 16]);
}

#[test]
fn a_layers_bias_and_activation_follow_its_product_into_numbers_and_codes() {
    let [weight, x] = factors(F32);
    let coding = (Format::I8, Granularity::Token);
    let coded = Coded::of(&x, coding).unwrap();
    let scale = Tensor::new(&[[0.0625_f32]], &gpu()).unwrap();
    let one = Coded::of(&Tensor::eye(48, F32, &gpu()).unwrap(), coding).unwrap();
    for laid_out in [false, true] {
        let plain = layer(&weight, coding, laid_out).forward_coded(&coded).unwrap();
        for (activation, y) in [
            (EndActivation::None, plain.clone()),
            (EndActivation::Relu, plain.relu().unwrap()),
            (EndActivation::GeluTanh, plain.gelu().unwrap()),
            (EndActivation::Silu, plain.silu().unwrap()),
        ] {
            let layer = layer(&weight, coding, laid_out).with_codes(Format::E4M3).with_activation(activation);
            let what = format!("{activation:?}, {laid_out}");
            same(&what, &layer.forward_coded(&coded).unwrap(), &y, 1e-4);
            let codes = layer.forward_recoded(&coded, &scale).unwrap();
            // What the codes stand for, by a product with one: off by half a step of theirs, 1/16 of the largest at most.
            let through = QuantLinear::new(one.clone(), None, codes.coding, F32, false).unwrap();
            let most = numbers(&y).iter().fold(0.0_f64, |most, y| most.max(y.abs()));
            assert!(most < 0.0625 * 448.0, "no code is clipped: {most}");
            same(&what, &through.forward_coded(&codes).unwrap(), &y, most / 16.0);
        }
    }
    let told = layer(&weight, coding, false).forward_recoded(&coded, &scale).unwrap_err().to_string();
    assert!(told.contains("with_codes"), "{told}");
    let layer = layer(&weight, coding, false).with_codes(Format::E2M1);
    let told = layer.forward_recoded(&coded, &scale).unwrap_err().to_string();
    assert!(told.contains("end.codes.format"), "{told}");
}

#[test]
fn codes_of_a_checkpoint_multiply_as_before_once_they_are_fnuz() {
    let coding = (Format::E4M3, Granularity::Token);
    let [weight, x] = factors(F32);
    let codes = Coded::of(&weight, coding).unwrap();
    let product = |weight: Coded| {
        let layer = QuantLinear::new(weight, None, (Format::E4M3Fnuz, Granularity::Token), F32, false).unwrap();
        layer.forward(&x).unwrap()
    };
    same("to_fnuz", &product(codes.to_fnuz().unwrap()), &product(codes), 1e-5);
    let error = Coded::of(&x, (Format::I8, Granularity::Token)).unwrap().to_fnuz().unwrap_err().to_string();
    assert!(error.contains("coding"), "{error}");
}

#[test]
fn a_function_is_a_launch() {
    with_settings("a_function_is_a_launch", &[], || {
        let device = gpu();
        let [x, weight] = [&[5_usize, 26][..], &[26]].map(|shape| Inputs::new(&device, 1).make(shape, F32).unwrap());
        let targets = Tensor::zeros(5, I64, &device).unwrap();
        let heads = x.narrow(1, 0, 8).unwrap().reshape((1, 1, 5, 8)).unwrap();
        let [cosines, sines] =
            rope_tables(&RopeFrequencies::new(8, 1e4, RopeScaling::None).unwrap(), 5, &device).unwrap();
        let one = |what: &str, run: &dyn Fn() -> Result<Tensor>| {
            let before = launches(&device).unwrap();
            let y = run().unwrap();
            assert_eq!(launches(&device).unwrap() - before, 1, "{what}");
            y
        };
        one("rms_norm", &|| rms_norm(&x, &weight, EPSILON));
        one("add_layer_norm", &|| add_layer_norm(&x, &x, &weight, Some(&weight), EPSILON).map(|[y, _]| y));
        one("softmax", &|| softmax(&x, 1));
        one("gate", &|| gate(&x, GateParams::default()));
        one("rope", &|| rope(&heads, [&cosines, &sines], RopeStyle::NeoX, 0));
        one("cross_entropy", &|| cross_entropy(&x, &targets, None, None, 0.0));
        one("coded", &|| Coded::of_gate(&x, GateParams::default(), (Format::I8, Granularity::Token)).map(|c| c.codes));
        let leaf = Var::from_tensor(&x).unwrap();
        let y = one("forward of what is learned", &|| softmax(&leaf, 1));
        let before = launches(&device).unwrap();
        y.backward().unwrap();
        // A gradient of ones and the sum that it is added to are Candle's.
        assert!(launches(&device).unwrap() - before <= 4);
    });
}

#[test]
fn empty_tensors_stay_empty() {
    let empty = Tensor::zeros((0, 6), F32, &gpu()).unwrap();
    let weight = Tensor::ones(6, F32, &gpu()).unwrap();
    assert_eq!(rms_norm(&empty, &weight, EPSILON).unwrap().dims(), [0, 6]);
    assert_eq!(add_rms_norm(&empty, &empty, &weight, EPSILON).unwrap()[1].dims(), [0, 6]);
    assert_eq!(softmax(&empty, 1).unwrap().dims(), [0, 6]);
    assert_eq!(gate(&empty, GateParams::default()).unwrap().dims(), [0, 3]);
    let targets = Tensor::zeros(0, I64, &gpu()).unwrap();
    assert_eq!(cross_entropy(&empty, &targets, None, None, 0.0).unwrap().dims(), [0]);
    let coded = Coded::of(&empty, (Format::I8, Granularity::Token)).unwrap();
    assert_eq!((coded.codes.dims(), coded.scales.dims()), (&[0, 6][..], &[0, 1][..]));
}

#[test]
fn what_does_not_fit_is_named() {
    let make = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &gpu()).unwrap();
    let x = |shape: &[usize]| make(shape, F32);
    let cpu = Tensor::zeros((3, 6), F32, &Device::Cpu).unwrap();
    let targets = |count: usize, dtype| make(&[count], dtype);
    let tables = rope_tables(&RopeFrequencies::new(8, 1e4, RopeScaling::None).unwrap(), 4, &gpu()).unwrap();
    let tables = [&tables[0], &tables[1]];
    let token = Granularity::Token;
    let variable = Var::from_tensor(&x(&[3, 8])).unwrap();
    let results = [
        ("coded", "x has no gradient", Coded::of(&variable, (Format::I8, token)).map(|coded| coded.codes)),
        ("norm", "weight", rms_norm(&x(&[3, 7]), &x(&[6]), EPSILON)),
        ("norm", "x must be of a type", rms_norm(&make(&[3, 6], U8), &x(&[6]), EPSILON)),
        ("norm", "x must be on", rms_norm(&cpu, &x(&[6]), EPSILON)),
        ("norm", "weight must be on", rms_norm(&x(&[3, 6]), &cpu, EPSILON)),
        ("norm", "bias", layer_norm(&x(&[3, 6]), &x(&[6]), Some(&x(&[5])), EPSILON)),
        ("norm", "residual", add_rms_norm(&x(&[3, 6]), &x(&[3, 5]), &x(&[6]), EPSILON).map(|[y, _]| y)),
        ("norm", "residual", add_rms_norm(&x(&[3, 6]), &make(&[3, 6], F16), &x(&[6]), EPSILON).map(|[y, _]| y)),
        ("group_norm", "groups", group_norm(&x(&[2, 6, 3]), &x(&[6]), &x(&[6]), 4, EPSILON)),
        ("gate", "x", gate(&x(&[3, 7]), GateParams::default())),
        ("softmax", "dim", softmax(&x(&[3, 7]), 2)),
        ("hadamard", "power of two", hadamard(&x(&[3, 7]), 1, 1.0)),
        ("hadamard", "8192", hadamard(&x(&[1, 16384]), 1, 1.0)),
        ("log_softmax", "x must be on", log_softmax(&cpu, 0)),
        ("cross_entropy", "targets", cross_entropy(&x(&[3, 7]), &targets(2, U32), None, None, 0.0)),
        ("cross_entropy", "targets", cross_entropy(&x(&[3, 7]), &targets(3, F32), None, None, 0.0)),
        ("cross_entropy", "weights", cross_entropy(&x(&[3, 7]), &targets(3, I64), Some(&x(&[6])), None, 0.0)),
        ("rope", "rot", rope(&x(&[1, 1, 2, 6]), tables, RopeStyle::NeoX, 0)),
        ("rope", "positions", rope_at(&x(&[1, 1, 2, 8]), tables, RopeStyle::NeoX, &x(&[1, 2]))),
        ("quantise_activations", "format", Coded::of(&x(&[3, 8]), (Format::I2, token)).map(|coded| coded.codes)),
        ("coded", "granularity", Coded::of(&x(&[3, 8]), (Format::I8, Granularity::Static)).map(|coded| coded.codes)),
        ("coded", "x must be of a type", Coded::of(&make(&[3, 8], I64), (Format::I8, token)).map(|coded| coded.codes)),
        ("q_matmul_scaled", "b.codes", layer(&x(&[4, 8]), (Format::I8, token), false).forward(&x(&[2, 6]))),
        (
            "grouped",
            "groups",
            grouped_matmul(&x(&[3, 6]), &x(&[2, 6, 4]), &targets(4, U32), GroupedEpilogue::None, None),
        ),
        (
            "grouped",
            "inputs",
            grouped_matmul(&x(&[3, 6]), &x(&[2, 6, 4]), &targets(3, U32), GroupedEpilogue::Scale, None),
        ),
    ];
    for (op, arg, result) in results {
        let error = result.expect_err(arg).to_string();
        assert!(error.contains(op) && error.contains(arg), "{error:?} should name {op} and {arg}");
    }
}

/// Logits on both devices: no two of a row alike.
fn logits(rows: usize, count: usize, dtype: DType) -> Result<[Tensor; 2]> {
    let values = (0..rows * count).map(|n| ((n * 7919) % (rows * count)) as f32 / 64.0);
    let cpu = Tensor::from_iter(values, &Device::Cpu)?.reshape((rows, count))?;
    Ok([cpu.to_device(&gpu())?.to_dtype(dtype)?, cpu])
}

/// Whole numbers of any tensor.
fn whole(x: &Tensor) -> Result<Vec<i64>> {
    x.to_device(&Device::Cpu)?.flatten_all()?.to_dtype(I64)?.to_vec1()
}

#[test]
fn tokens_are_drawn_from_what_is_left() -> Result<()> {
    let told = |value: f32| Tensor::full(value, 3, &gpu());
    let words = |first: i64| Tensor::arange(first, first + 3, &gpu());
    let (seeds, offsets) = (words(5)?, words(0)?);
    let [x, cpu] = logits(3, 100, F32)?;
    let order = cpu.arg_sort_last_dim(false)?;
    let best: Vec<i64> = whole(&order.narrow(1, 0, 1)?)?;
    assert_eq!(whole(&sample(&x, &Sampling::default(), None, U32)?)?, best);
    let mut sampling = Sampling { top_k: Some(told(1.0)?.to_dtype(U32)?), ..Sampling::default() };
    for to in [U32, I32, I64] {
        let tokens = sample(&x, &sampling, Some([&seeds, &offsets]), to)?;
        assert_eq!((whole(&tokens)?, tokens.dtype()), (best.clone(), to));
    }
    // Without the best, the next.
    let bits = best.iter().flat_map(|&token| (0..4).map(move |word| !(u32::from(token / 32 == word) << (token % 32))));
    sampling.mask = Some(Tensor::from_iter(bits, &gpu())?.reshape((3, 4))?);
    let second = whole(&order.narrow(1, 1, 1)?)?;
    assert_eq!(whole(&sample(&x, &sampling, Some([&seeds, &offsets]), U32)?)?, second);

    let sampling = Sampling {
        temperature: Some(told(2.0)?),
        top_k: Some(told(5.0)?.to_dtype(I64)?),
        top_p: Some(told(0.99)?),
        min_p: Some(told(1e-6)?),
        ..Sampling::default()
    };
    let left = probabilities(&x, &sampling)?;
    let hot = candle_softmax(&(cpu / 2.0)?, D::Minus1)?;
    for (row, left) in left.to_device(&Device::Cpu)?.to_vec2::<f32>()?.into_iter().enumerate() {
        let (hot, order) = (hot.get(row)?.to_vec1::<f32>()?, order.get(row)?.to_vec1::<u32>()?);
        // The five best have 0.99 before the last of them.
        let sum: f32 = order[..5].iter().map(|&n| hot[n as usize]).sum();
        let kept = order[..5].iter().scan(0.0, |mass, &n| {
            let stays = *mass < 0.99;
            *mass += hot[n as usize];
            Some((n as usize, stays))
        });
        let kept: Vec<usize> = kept.filter_map(|(n, stays)| stays.then_some(n)).collect();
        let own: f32 = kept.iter().map(|&n| hot[n]).sum();
        assert!(sum > 0.0 && left.iter().enumerate().all(|(n, &p)| (p > 0.0) == kept.contains(&n)), "{left:?}");
        assert!(kept.iter().all(|&n| (left[n] - hot[n] / own).abs() < 1e-5), "{left:?}");
    }
    let again = Sampling { of_probabilities: true, ..Sampling::default() };
    let draws =
        [sample(&left, &again, Some([&seeds, &offsets]), U32)?, sample(&x, &sampling, Some([&seeds, &offsets]), U32)?];
    assert_eq!(whole(&draws[0])?, whole(&draws[1])?, "the same draw of the same distribution");
    Ok(())
}

#[test]
fn logits_are_penalised_ranked_and_told() -> Result<()> {
    let [x, cpu] = logits(2, 40, F32)?;
    let tokens = Tensor::new(&[[3_u32, 39], [0, 77]], &gpu())?;
    let told = |values: [f32; 2]| Tensor::new(&values, &gpu());
    let penalties = Penalties {
        tokens,
        counts: Some(Tensor::new(&[[2_i64, 0], [1, 1]], &gpu())?),
        biases: Some(Tensor::new(&[[0.5_f32, 0.25], [0.0, 9.0]], &gpu())?),
        repetition: Some(told([2.0, 4.0])?),
        frequency: Some(told([0.25, 0.5])?),
        presence: Some(told([0.125, 0.0])?),
    };
    let mut want = cpu.to_vec2::<f32>()?;
    want[0][3] = want[0][3] / 2.0 - 0.5 - 0.125 + 0.5;
    want[0][39] = want[0][39] / 2.0 + 0.25;
    want[1][0] = if want[1][0] > 0.0 { want[1][0] / 4.0 } else { want[1][0] * 4.0 } - 0.5;
    assert_eq!(penalise(&x, &penalties)?.to_device(&Device::Cpu)?.to_vec2::<f32>()?, want);

    let chosen = Tensor::new(&[7_u32, 11], &gpu())?;
    let found = log_probabilities(&x, &chosen, 3)?;
    let logs = candle_log_softmax(&cpu, D::Minus1)?.to_vec2::<f32>()?;
    let order = cpu.arg_sort_last_dim(false)?.to_vec2::<u32>()?;
    let (ranks, own) = (whole(&found.ranks)?, found.chosen.to_device(&Device::Cpu)?.to_vec1::<f32>()?);
    let [best, best_logs] = found.best.expect("three were asked for");
    let (best, best_logs) = (whole(&best)?, best_logs.to_device(&Device::Cpu)?.to_vec2::<f32>()?);
    for (row, token) in [7, 11].into_iter().enumerate() {
        assert!((own[row] - logs[row][token]).abs() < 1e-5);
        assert_eq!(ranks[row], 1 + order[row].iter().position(|&n| n as usize == token).unwrap() as i64);
        for slot in 0..3 {
            let want = order[row][slot];
            assert_eq!(best[3 * row + slot], i64::from(want));
            assert!((best_logs[row][slot] - logs[row][want as usize]).abs() < 1e-5);
        }
    }
    let [places, values] = top_k(&x, 4, Order::Ascending, true, None)?;
    let smallest: Vec<i64> = order.iter().flat_map(|row| row.iter().rev().take(4).map(|&n| i64::from(n))).collect();
    assert_eq!(whole(&places)?, smallest);
    let first = cpu.to_vec2::<f32>()?[0][smallest[0] as usize];
    assert_eq!(values.to_device(&Device::Cpu)?.to_vec2::<f32>()?[0][0], first);
    let bounds = [Tensor::new(&[5_i64, 0], &gpu())?, Tensor::new(&[7_i64, 40], &gpu())?];
    let [places, _] = top_k(&x, 4, Order::Descending, false, Some([&bounds[0], &bounds[1]]))?;
    assert_eq!(whole(&places)?[..4], [5, 6, -1, -1]);
    Ok(())
}

#[test]
fn drafts_are_kept_while_they_are_likely() -> Result<()> {
    let drafts = Tensor::new(&[[2_u32, 1], [0, 3]], &gpu())?;
    let targets = Tensor::new(&[[2_u32, 1, 3], [1, 2, 3]], &gpu())?;
    let [tokens, counts] = accept_greedy(&drafts, &targets)?;
    assert_eq!((whole(&tokens)?, whole(&counts)?), (vec![2, 1, 3, 1, -1, -1], vec![2, 0]));
    // Distributions that are certain keep what they are certain of.
    let certain =
        Tensor::new(&[1_f32, 0., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1.], &gpu())?.reshape((4, 4))?;
    let target = certain.index_select(&targets.flatten_all()?, 0)?.reshape((2, 3, 4))?;
    let draft = certain.index_select(&drafts.flatten_all()?, 0)?.reshape((2, 2, 4))?;
    let words = Tensor::new(&[1_i64, 2], &gpu())?;
    for draft in [None, Some(&draft)] {
        let [tokens, counts] = accept(&drafts, &target, draft, [&words, &words])?;
        assert_eq!((whole(&tokens)?, whole(&counts)?), (vec![2, 1, 3, 1, -1, -1], vec![2, 0]));
    }
    Ok(())
}

#[test]
fn tokens_are_routed_and_sorted_by_expert() -> Result<()> {
    let [x, cpu] = logits(5, 12, F16)?;
    let mut form = RouteForm::new(12, 3, Score::Softmax);
    form.renormalises = true;
    let [shares, ids] = route(&x, form, None)?;
    let half = cpu.to_dtype(F16)?.to_dtype(F32)?;
    let order = half.arg_sort_last_dim(false)?.narrow(1, 0, 3)?.contiguous()?;
    assert_eq!(whole(&ids)?, whole(&order)?);
    let scores = candle_softmax(&half, D::Minus1)?.gather(&order, 1)?;
    let want = scores.broadcast_div(&scores.sum_keepdim(1)?)?;
    let gap = (shares.to_device(&Device::Cpu)? - want)?.abs()?.max_all()?.to_scalar::<f32>()?;
    assert!(gap < 1e-5, "{gap}");
    let bias = Tensor::new(&[100_f32, 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.], &gpu())?;
    let [_, biased] = route(&x, RouteForm { has_bias: true, ..form }, Some(&bias))?;
    assert!(whole(&biased)?.chunks(3).all(|row| row[0] == 0));

    let ids = whole(&ids)?;
    let mut want: Vec<i64> = (0..15).collect();
    want.sort_by_key(|&n| ids[n as usize]);
    let numbers = Tensor::new(&ids[..], &gpu())?.reshape((5, 3))?;
    let sorted = sort_by_expert(&numbers, 12, None, None)?;
    assert_eq!(whole(&sorted.order)?, want);
    let inverse = whole(&sorted.inverse)?;
    assert!(want.iter().enumerate().all(|(at, &n)| inverse[n as usize] == at as i64));
    let offsets = whole(&sorted.offsets)?;
    assert!((0..=12).all(|expert| offsets[expert] == ids.iter().filter(|&&id| id < expert as i64).count() as i64));
    // Two groups, the second half of the experts nobody's; in blocks of 4.
    let map = Tensor::new(&[0_i64, 0, 0, 1, 1, 1, -1, -1, -1, -1, -1, -1], &gpu())?;
    let sorted = sort_by_expert(&numbers, 12, Some((&map, 2)), Some(4))?;
    let counts = [0..3, 3..6].map(|of| ids.iter().filter(|id| of.contains(*id)).count().next_multiple_of(4) as i64);
    assert_eq!(whole(&sorted.offsets)?, [0, counts[0], counts[0] + counts[1]]);
    let blocks = whole(&sorted.blocks.expect("blocks were asked for"))?;
    assert_eq!(blocks.iter().filter(|&&group| group == 0).count() as i64, counts[0] / 4);
    Ok(())
}
