//! What Burn 0.23 has and 0.22 has not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn_autodiff::Autodiff;
use burn_backend::distributed::ReduceOperation;
use burn_backend::ops::{
    AttentionModuleOptions, BoolTensorOps, CausalAlignment, FloatTensorOps, InterpolateMode, InterpolateOptions,
    ModuleOps,
};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, Backend, DType, Scalar, TensorData, TensorMetadata};
use burn_flex::{Flex, FlexDevice};
use burn_std::{IndexingUpdateOp, IntDType};
use rocfire_burn::{BurnDevice, Fused, Rocm, RocmDevice};

use crate::check::{
    EXACT, SUMS, agree, bool, bools, compare, device, f32s, float, floats, given, int, ints, numbers, rounding,
};

#[test]
fn fmod_has_the_sign_of_what_is_divided() {
    let a = [7.0, -7.0, 5.5, -5.5, 0.0, -0.0, 3.0, -3.0, f32::INFINITY, 1.0, f32::NAN, 1e30, -6.0];
    let b = [3.0, 3.0, -2.0, -2.0, 5.0, 5.0, 0.0, f32::INFINITY, 2.0, f32::NAN, 2.0, 7.0, 3.0];
    for dtype in [DType::F32, DType::F64] {
        agree!(format!("{dtype:?}"), EXACT, device => {
            let [a, b] = [a, b].map(|numbers| given::<B>(&numbers, &[13], dtype, device));
            let left = B::float_fmod(a.clone(), b);
            // Tells zeros apart by their sign.
            vec![float::<B>(B::float_recip(left.clone())), float::<B>(left), float::<B>(B::float_fmod_scalar(a, Scalar::Float(-2.5)))]
        });
    }
    for dtype in [DType::F16, DType::BF16] {
        agree!(format!("{dtype:?}"), rounding(dtype), device => {
            let [a, b] = [1, 2].map(|seed| floats::<B>(&[3, 5], dtype, seed, device));
            vec![float::<B>(B::float_fmod(a.clone(), b)), float::<B>(B::float_fmod_scalar(a, Scalar::Float(0.75)))]
        });
    }
    agree!("broadcast", EXACT, device => {
        vec![float::<B>(B::float_fmod(f32s::<B>(&[3, 1], 1, device), f32s::<B>(&[1, 4], 2, device)))]
    });
}

#[test]
fn bools_are_updated_by_every_operation() {
    use IndexingUpdateOp::{Add, Assign, Max, Min, Mul};
    for op in [Assign, Add, Mul, Min, Max] {
        agree!(format!("{op:?}"), EXACT, device => {
            let x = || bools::<B>(&[4, 5], 1, device);
            // Each place once: what is written last to one is nobody's promise.
            let rows = ints::<B>(&[2, 0, 1, 3, 1, 3, 2, 0, 0, 2], &[2, 5], DType::I64, device);
            let places = ints::<B>(&[3, 1, 0, 4, 2, 2], &[3, 2], DType::I64, device);
            vec![
                bool::<B>(B::bool_scatter(0, x(), rows, bools::<B>(&[2, 5], 2, device), op)),
                bool::<B>(B::bool_scatter_nd(x(), places.clone(), bools::<B>(&[3], 3, device), op)),
                bool::<B>(B::bool_select_assign(x(), 1, ints::<B>(&[4, 0], &[2], DType::I64, device), bools::<B>(&[4, 2], 4, device), op)),
                bool::<B>(B::bool_gather_nd(x(), places)),
            ]
        });
    }
}

#[test]
fn pools_in_three_dimensions_with_gradients() {
    for (kernel, stride, padding, dilation, ceil) in [
        ([2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], false),
        ([3, 2, 1], [1, 2, 2], [1, 1, 0], [1, 1, 1], true),
        ([2, 2, 3], [2, 1, 1], [0, 1, 1], [2, 1, 1], false),
    ] {
        agree!(format!("{kernel:?} {stride:?} {padding:?} {dilation:?} {ceil}"), SUMS, device => {
            let x = || f32s::<B>(&[2, 3, 5, 4, 6], 1, device);
            let pooled = B::max_pool3d_with_indices(x(), kernel, stride, padding, dilation, ceil, IntDType::I64);
            let grad = f32s::<B>(&pooled.output.shape(), 2, device);
            let places = int::<B>(pooled.indices.clone());
            let back = B::max_pool3d_with_indices_backward(x(), kernel, stride, padding, dilation, ceil, grad, pooled.indices);
            let mut results = vec![
                float::<B>(B::max_pool3d(x(), kernel, stride, padding, dilation, ceil)),
                float::<B>(pooled.output), places, float::<B>(back.x_grad),
            ];
            for counts in [true, false] {
                let y = B::avg_pool3d(x(), kernel, stride, padding, [1; 3], counts, ceil);
                let grad = f32s::<B>(&y.shape(), 3, device);
                let back = B::avg_pool3d_backward(x(), grad, kernel, stride, padding, [1; 3], counts, ceil);
                results.extend([float::<B>(y), float::<B>(back)]);
            }
            results
        });
    }
}

fn options() -> [AttentionModuleOptions; 5] {
    let plain = AttentionModuleOptions::default();
    let causal = AttentionModuleOptions { is_causal: true, ..plain };
    [
        plain,
        causal,
        AttentionModuleOptions { scale: Some(0.3), ..causal },
        AttentionModuleOptions { softcap: Some(1.5), ..plain },
        // The kernel's diagonal ends in the last column: Burn composes this one.
        AttentionModuleOptions { causal_alignment: CausalAlignment::TopLeft, ..causal },
    ]
}

/// Head sizes that the kernel takes, and that Burn composes.
const DEPTHS: [[usize; 2]; 2] = [[16, 24], [5, 3]];

/// Queries, keys and values.
fn heads<B: Backend>([depth, value_depth]: [usize; 2], device: &B::Device) -> [FloatTensor<B>; 3] {
    [
        f32s::<B>(&[2, 3, 5, depth], 1, device),
        f32s::<B>(&[2, 3, 7, depth], 2, device),
        f32s::<B>(&[2, 3, 7, value_depth], 3, device),
    ]
}

#[test]
fn attention_gives_its_logarithms_of_sums_and_takes_them_back() {
    for (options, depths) in options().iter().flat_map(|&options| DEPTHS.map(|depths| (options, depths))) {
        agree!(format!("{options:?} {depths:?}"), SUMS, device => {
            let [q, k, v] = heads::<B>(depths, device);
            let (out, sums) = B::attention_with_logsumexp(q.clone(), k.clone(), v.clone(), options);
            let grad = f32s::<B>(&[2, 3, 5, depths[1]], 4, device);
            let back = B::attention_backward(q, k, v, out.clone(), sums.clone(), grad, options);
            let gradients = [back.query_grad, back.key_grad, back.value_grad];
            [out, sums].into_iter().chain(gradients).map(float::<B>).collect()
        });
    }
}

#[test]
fn attention_is_trained_through_burn_s_own_operator() {
    fn gradients<B: Backend>(
        depths: [usize; 2],
        options: AttentionModuleOptions,
        device: &B::Device,
    ) -> Vec<TensorData> {
        let leaves = heads::<Autodiff<B>>(depths, device).map(|x| Autodiff::<B>::float_set_require_grad(x, true));
        let [q, k, v] = leaves.clone();
        let y = Autodiff::<B>::attention(q, k, v, None, None, options);
        let loss = Autodiff::<B>::float_sum(Autodiff::<B>::float_mul(y.clone(), y));
        let gradients = Autodiff::<B>::backward(loss);
        leaves.map(|leaf| float::<B>(Autodiff::<B>::grad(&leaf, &gradients).unwrap())).to_vec()
    }
    for (options, depths) in options().iter().flat_map(|&options| DEPTHS.map(|depths| (options, depths))) {
        let theirs = gradients::<Flex>(depths, options, &FlexDevice);
        let what = format!("{options:?} {depths:?}");
        compare(&format!("eager, {what}"), &gradients::<Rocm>(depths, options, &device()), &theirs, SUMS);
        compare(&format!("fused, {what}"), &gradients::<Fused>(depths, options, &device()), &theirs, SUMS);
    }
}

#[test]
fn a_factor_resizes_where_it_is_the_ratio_of_the_sizes() {
    let x = |device: &RocmDevice| f32s::<Rocm>(&[1, 2, 6, 4], 1, device);
    for (mode, factor, size) in [
        (InterpolateMode::Nearest, [1.5, 0.5], [9, 2]),
        (InterpolateMode::Bilinear, [1.5, 0.5], [9, 2]),
        // Where the corners fall together, coordinates follow the sizes whatever the factor.
        (InterpolateMode::Bilinear, [1.25, 1.0], [7, 4]),
    ] {
        let by = |aligned| InterpolateOptions {
            scale_factor: Some(factor),
            ..InterpolateOptions::new(mode).with_align_corners(aligned)
        };
        let aligned = size == [7, 4];
        agree!(format!("{:?}", by(aligned)), SUMS, device => {
            vec![float::<B>(B::interpolate(f32s::<B>(&[1, 2, 6, 4], 1, device), size, by(aligned)))]
        });
        if aligned {
            let told = catch_unwind(AssertUnwindSafe(|| Rocm::interpolate(x(&device()), size, by(false)))).unwrap_err();
            assert!(told.downcast_ref::<String>().unwrap().contains("no factor but the ratio of the sizes"));
        }
    }
}

#[test]
fn an_average_of_spread_elements_is_refused_by_name() {
    let pool =
        || Rocm::avg_pool2d(f32s::<Rocm>(&[1, 1, 6, 6], 1, &device()), [2; 2], [1; 2], [0; 2], [2; 2], true, false);
    let told = catch_unwind(AssertUnwindSafe(pool)).unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    assert!(told.contains("dilation"), "{told}");
}

#[test]
fn collectives_among_devices_of_one_process() {
    fn check<B: Backend<Device: From<RocmDevice>>>() {
        let devices: [B::Device; 2] = ["gfx942", "gfx942:1"].map(|name| RocmDevice::emulated(name).unwrap().into());
        let tensors =
            || devices.iter().zip(1..).map(|(device, seed)| f32s::<B>(&[4, 3], seed, device)).collect::<Vec<_>>();
        let [x, y] = [0, 1].map(|at| numbers(&float::<B>(tensors()[at].clone())));
        let sum: Vec<f64> = x.iter().zip(&y).map(|(x, y)| f64::from(*x as f32 + *y as f32)).collect();
        let mean = sum.iter().map(|sum| sum / 2.0).collect();
        for (op, combined) in [(ReduceOperation::Sum, sum), (ReduceOperation::Mean, mean)] {
            let reduced = B::float_all_reduce(tensors(), op);
            for (reduced, device) in reduced.into_iter().zip(&devices) {
                assert_eq!(&reduced.device(), device);
                assert_eq!(numbers(&float::<B>(reduced)), combined, "{op:?}");
            }
        }
        for gathered in B::float_all_gather(tensors(), 0) {
            assert_eq!(numbers(&float::<B>(gathered)), [x.clone(), y.clone()].concat());
        }
    }
    check::<Rocm>();
    check::<Fused>();
}

#[test]
fn a_device_says_how_much_memory_it_has() {
    let bytes = Rocm::memory_capacity(&device());
    assert_eq!(bytes, Some(device::<RocmDevice>().open().unwrap().info().memory_bytes));
    assert_eq!(Fused::memory_capacity(&device()), bytes);
}

/// Burn keeps 16 bits of a device; by them every device is found again.
#[test]
fn a_device_keeps_its_name_in_burn_s_number() {
    for name in ["gfx942", "gfx942:255", "gfx1100:1", "gfx90a"] {
        let device = RocmDevice::emulated(name).unwrap();
        let burn: BurnDevice = device.burn();
        assert_eq!(BurnDevice::from_id(burn.to_id()), burn);
        assert_eq!(f32s::<Fused>(&[1], 1, &burn).device(), burn);
        assert_eq!(Fused::name(&burn), format!("fused {}", Rocm::name(&device)));
    }
}
