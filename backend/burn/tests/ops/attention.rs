//! The fused attention and its gradients against Burn's written-out form on the CPU.

use burn_autodiff::Autodiff;
use burn_backend::ops::{AttentionModuleOptions, FloatTensorOps, ModuleOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, DType, TensorData};
use burn_flex::{Flex, FlexDevice};
use rocfire_burn::attention::{AttentionOps, AttentionParams, AttentionTensors, Dropout, next_draw};
use rocfire_burn::{Fused, Rocm, RocmDevice};

use crate::check::{Tolerance, bools, compare, f32s, float, floats, numbers};

const NEAR: Tolerance = Tolerance { absolute: 5e-5, relative: 5e-5 };

/// Shapes of queries, keys, values; whether there is a mask, a bias; options.
struct Case {
    shapes: [[usize; 4]; 3],
    masked: bool,
    biased: bool,
    options: AttentionModuleOptions,
}

fn cases() -> Vec<Case> {
    let shapes = [[2, 3, 9, 16], [2, 3, 21, 16], [2, 3, 21, 24]];
    let plain = AttentionModuleOptions::default();
    vec![
        Case { shapes, masked: false, biased: false, options: AttentionModuleOptions { is_causal: true, ..plain } },
        Case { shapes, masked: true, biased: true, options: AttentionModuleOptions { softcap: Some(1.5), ..plain } },
    ]
}

/// Queries, keys and values with gradients.
fn tracked<B: Backend>(shapes: &[[usize; 4]; 3], device: &B::Device) -> [FloatTensor<Autodiff<B>>; 3] {
    let mut seed = 0;
    shapes.map(|shape| {
        seed += 1;
        Autodiff::<B>::float_set_require_grad(f32s::<Autodiff<B>>(&shape, seed, device), true)
    })
}

/// The output, and the gradients of a weighted sum of it.
fn results<B: Backend>(
    case: &Case,
    device: &B::Device,
    attend: impl FnOnce(AttentionTensors<Autodiff<B>>) -> FloatTensor<Autodiff<B>>,
) -> Vec<TensorData> {
    let inputs = tracked::<B>(&case.shapes, device);
    let [q, k, v] = case.shapes;
    let scores = [q[0], 1, q[2], k[2]];
    let [query, key, value] = inputs.clone();
    let y = attend(AttentionTensors {
        query,
        key,
        value,
        mask: case.masked.then(|| bools::<Autodiff<B>>(&scores, 4, device)),
        bias: case.biased.then(|| f32s::<Autodiff<B>>(&scores, 5, device)),
    });
    let weights = f32s::<Autodiff<B>>(&[q[0], q[1], q[2], v[3]], 6, device);
    let loss = Autodiff::<B>::float_sum(Autodiff::<B>::float_mul(y.clone(), weights));
    let gradients = Autodiff::<B>::backward(loss);
    let gradient = |x: &FloatTensor<Autodiff<B>>| float::<B>(Autodiff::<B>::grad(x, &gradients).unwrap());
    let [q, k, v] = inputs.each_ref().map(gradient);
    vec![float::<Autodiff<B>>(y), q, k, v]
}

fn ours<B: AttentionOps<Device: From<RocmDevice>>>(case: &Case, params: AttentionParams) -> Vec<TensorData> {
    results::<B>(case, &crate::check::device(), |inputs| Autodiff::<B>::fused_attention(inputs, params))
}

fn params(options: &AttentionModuleOptions) -> AttentionParams {
    let mut params = AttentionParams::default();
    (params.scale, params.softcap, params.causal) = (options.scale, options.softcap, options.is_causal);
    params
}

#[test]
fn gradients_of_fused_attention_are_those_of_the_written_out_form() {
    for case in cases() {
        let theirs = results::<Flex>(&case, &FlexDevice, |x| {
            Autodiff::<Flex>::attention(x.query, x.key, x.value, x.mask, x.bias, case.options)
        });
        let what = format!("{:?}", case.options);
        compare(&format!("eager, {what}"), &ours::<Rocm>(&case, params(&case.options)), &theirs, NEAR);
        compare(&format!("fused, {what}"), &ours::<Fused>(&case, params(&case.options)), &theirs, NEAR);
    }
}

#[test]
fn a_learned_bias_gets_its_gradient() {
    fn gradient<B: Backend>(
        device: &B::Device,
        attend: impl FnOnce(AttentionTensors<Autodiff<B>>) -> FloatTensor<Autodiff<B>>,
    ) -> Vec<TensorData> {
        let [query, key, value] = tracked::<B>(&[[1, 2, 3, 8], [1, 2, 5, 8], [1, 2, 5, 8]], device);
        let bias = Autodiff::<B>::float_set_require_grad(f32s::<Autodiff<B>>(&[1, 2, 3, 5], 4, device), true);
        // Not a leaf: what a table of relative positions gives.
        let twice = Autodiff::<B>::float_add(bias.clone(), bias.clone());
        let y = attend(AttentionTensors { query, key, value, mask: None, bias: Some(twice) });
        let loss = Autodiff::<B>::float_sum(Autodiff::<B>::float_mul(y.clone(), y));
        vec![float::<B>(Autodiff::<B>::grad(&bias, &Autodiff::<B>::backward(loss)).unwrap())]
    }
    let theirs = gradient::<Flex>(&FlexDevice, |x| {
        Autodiff::<Flex>::attention(x.query, x.key, x.value, x.mask, x.bias, AttentionModuleOptions::default())
    });
    let ours = gradient::<Fused>(&crate::check::device(), |x| {
        Autodiff::<Fused>::fused_attention(x, AttentionParams::default())
    });
    compare("a learned bias", &ours, &theirs, NEAR);
}

/// Dropout's gradient is linear in the output's, and its draw is the forward's: along a line in the values the output is
/// linear, so that its difference is the gradient.
#[test]
fn the_gradient_drops_what_the_forward_dropped() {
    let device = crate::check::device();
    let mut params = AttentionParams::default();
    params.dropout = Some(Dropout { probability: 0.3, seed: next_draw(&device) });
    let shapes = [[1, 2, 7, 8], [1, 2, 19, 8], [1, 2, 19, 8]];
    let case = Case { shapes, masked: false, biased: false, options: AttentionModuleOptions::default() };
    let [y, _, _, of_values] = ours::<Rocm>(&case, params).try_into().unwrap();
    // The sum of weights · output equals values · gradient of the values.
    let weights = numbers(&float::<Rocm>(f32s::<Rocm>(&[1, 2, 7, 8], 6, &device)));
    let values = numbers(&float::<Rocm>(f32s::<Rocm>(&shapes[2], 3, &device)));
    let forward: f64 = numbers(&y).iter().zip(&weights).map(|(y, w)| y * w).sum();
    let backward: f64 = numbers(&of_values).iter().zip(&values).map(|(g, v)| g * v).sum();
    assert!((forward - backward).abs() < 1e-4 * forward.abs().max(1.0), "{forward} and {backward}");

    // Another draw drops other weights; the same one the same.
    let again = ours::<Rocm>(&case, params);
    assert_eq!(numbers(&again[0]), numbers(&y));
    params.dropout = Some(Dropout { probability: 0.3, seed: next_draw(&device) });
    assert_ne!(numbers(&ours::<Rocm>(&case, params)[0]), numbers(&y));
}

#[test]
fn heads_that_share_keys_are_as_if_the_keys_were_repeated() {
    let device = &crate::check::device();
    for dtype in [DType::F32, DType::F16] {
        let tensor = |shape: &[usize; 4], seed| floats::<Rocm>(shape, dtype, seed, device);
        let shared = AttentionTensors::<Rocm> {
            query: tensor(&[1, 6, 5, 8], 1),
            key: tensor(&[1, 2, 9, 8], 2),
            value: tensor(&[1, 2, 9, 8], 3),
            mask: None,
            bias: None,
        };
        let repeat = |x: &FloatTensor<Rocm>| {
            let x = Rocm::float_reshape(x.clone(), [1, 2, 1, 72].into());
            Rocm::float_reshape(Rocm::float_repeat_dim(x, 2, 3), [1, 6, 9, 8].into())
        };
        let repeated = AttentionTensors { key: repeat(&shared.key), value: repeat(&shared.value), ..shared.clone() };
        let mut params = AttentionParams::default();
        params.causal = true;
        let [a, b] = [shared, repeated].map(|x| numbers(&float::<Rocm>(Rocm::fused_attention(x, params))));
        let most = if dtype == DType::F16 { 4e-3 } else { 1e-5 };
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= most), "{a:?}\n{b:?}");
    }
}

/// More queries than the smaller Q tile has, of as many heads as the larger one is taken for, that an operator has just made.
#[test]
fn many_queries_are_attended_as_by_the_cpu() {
    fn attended<B: Backend>(dtype: DType, device: &B::Device) -> TensorData {
        let made = |seed| {
            let x = B::float_cast(f32s::<B>(&[1, 64, 130, 128], seed, device), DType::BF16.into());
            B::float_cast(B::float_mul_scalar(x, 0.5.into()), dtype.into())
        };
        let options = AttentionModuleOptions { is_causal: true, ..AttentionModuleOptions::default() };
        let y = B::attention(made(1), made(2), made(3), None, None, options);
        float::<B>(B::float_cast(y, DType::F32.into()))
    }
    let theirs = [attended::<Flex>(DType::F32, &FlexDevice)];
    let device = crate::check::device();
    let eager = [attended::<Rocm>(DType::BF16, &device)];
    compare("eager", &eager, &theirs, crate::check::rounding(DType::BF16));
    compare(
        "eager again",
        &[attended::<Rocm>(DType::BF16, &device)],
        &eager,
        Tolerance { absolute: 0.0, relative: 0.0 },
    );
    let fused = attended::<Fused>(DType::BF16, &crate::check::device());
    compare("fused", &[fused], &theirs, crate::check::rounding(DType::BF16));
}

#[test]
fn a_head_size_that_the_kernel_does_not_have_is_named() {
    let device = &crate::check::device();
    let x = || f32s::<Rocm>(&[1, 1, 2, 12], 1, device);
    let inputs = AttentionTensors::<Rocm> { query: x(), key: x(), value: x(), mask: None, bias: None };
    let attend = std::panic::AssertUnwindSafe(|| Rocm::fused_attention(inputs, AttentionParams::default()));
    let panic = std::panic::catch_unwind(attend).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("head size") && message.contains("12"), "{message}");
}
