//! Burn 0.23: what its traits have and those of 0.22 have not, or differently. See [`super`].

pub use burn_backend::cubecl::Device as BurnDevice;
use burn_backend::distributed::DistributedOps;
use burn_backend::ops::{
    AttentionModuleOptions, CollectiveOps, CoordinateTransformMode, CubicOptions, InterpolateMode, InterpolateOptions,
};
use cubecl_hip::AmdDevice;
use rocfire_arch::Arch;
use rocfire_fusion::{Binary, Compare, Scalar, Term, Unary};
use rocfire_hal::{DType, DeviceId, DriverKind, Error as HalError, Tensor};
use rocfire_kernels::quant::Rounding;

use crate::attention::{AttentionOps, AttentionParams, AttentionTensors, takes_depth};
use crate::error::{OrPanic, Result};
use crate::ops::fused;
use crate::{Fused, Rocm, RocmDevice, RocmTensor};

/// A number below it is that of a device among those of the best device's driver. Above it are two bits of driver and six of the
/// architecture's row, counted from 1: 16 bits are all that Burn keeps of a device.
const NAMED: usize = 1 << ORDINAL_BITS;
const ORDINAL_BITS: u32 = 8;
const ROW_BITS: u32 = 6;

/// The device that Burn means.
///
/// # Panics
/// For a device of another runtime, and for a number that no device has.
pub(crate) fn named(device: &BurnDevice) -> RocmDevice {
    let BurnDevice::Hip(AmdDevice { index }) = *device else {
        panic!("{device:?} is not rocfire's: Burn's feature `rocm` alone is filled by it")
    };
    if index < NAMED {
        return RocmDevice::new(index);
    }
    let row = (index >> ORDINAL_BITS) & ((1 << ROW_BITS) - 1);
    let driver = DriverKind::ALL.into_iter().find(|&kind| kind as usize == index >> (ORDINAL_BITS + ROW_BITS));
    match (driver, row.checked_sub(1).and_then(Arch::from_row)) {
        (Some(driver), Some(arch)) => RocmDevice::with_id(DeviceId::new(driver, arch, (index % NAMED) as u16)),
        _ => panic!("no device of rocfire's has the number {index}"),
    }
}

/// What Burn calls a device: by its number where the best device's driver has it, so that one device has one name.
///
/// # Panics
/// Where `ROCFIRE_DEVICE` asks for what is not there, and for an ordinal above 255.
pub(crate) fn burn_device(device: RocmDevice) -> BurnDevice {
    let id = device.device_id().or_panic();
    let ordinal = usize::from(id.ordinal());
    assert!(ordinal < NAMED, "{id}: Burn 0.23 has 8 bits for a device's ordinal");
    if RocmDevice::new(ordinal) == device {
        return BurnDevice::Hip(AmdDevice::new(ordinal));
    }
    let row = id.arch().row() + 1;
    assert!(row < 1 << ROW_BITS, "{id}: Burn 0.23 has 6 bits for an architecture's row");
    BurnDevice::Hip(AmdDevice::new(((id.driver() as usize) << ROW_BITS | row) << ORDINAL_BITS | ordinal))
}

impl From<RocmDevice> for BurnDevice {
    fn from(device: RocmDevice) -> BurnDevice {
        burn_device(device)
    }
}

/// What a number between two codes becomes.
pub(crate) const CODES_ROUND: Rounding = Rounding::EvenQuotient;

/// How many windows there are along an axis where the first one is larger than the padded input, by so many elements: Burn refuses
/// none at all.
pub(crate) fn windows_beyond(lacking: usize, stride: usize, ceil: bool) -> Option<usize> {
    (ceil && lacking < stride).then_some(1)
}

/// Whether the corners of the images fall together, for the shapes of an image and of the resized one.
///
/// # Errors
/// For another transform of coordinates, rounding or spline than those of the modes' defaults, and for a factor that is not the ratio
/// of the sizes, where the corners do not fall together: coordinates follow the sizes here.
pub(crate) fn aligns_corners(options: &InterpolateOptions, x: &[usize], y: &[usize]) -> Result<bool> {
    let usual = InterpolateOptions::new(options.mode);
    let is_nearest = matches!(options.mode, InterpolateMode::Nearest | InterpolateMode::NearestExact);
    let transform = match options.coordinate_transform {
        CoordinateTransformMode::AlignCorners if !is_nearest => Some(true),
        CoordinateTransformMode::HalfPixel if !is_nearest => Some(false),
        transform if is_nearest && transform == usual.coordinate_transform => Some(false),
        _ => None,
    };
    let rounds = !is_nearest || options.nearest_mode == usual.nearest_mode;
    let splines = options.mode != InterpolateMode::Bicubic || options.cubic_options == CubicOptions::default();
    let is_ratio = |(factor, (&x, &y)): (f32, (&usize, &usize))| x as f64 * f64::from(factor) == y as f64;
    let sizes = || x.iter().zip(y).skip(2);
    let follows = options.scale_factor.is_none_or(|factors| factors.into_iter().zip(sizes()).all(is_ratio));
    match transform {
        Some(aligned) if rounds && splines && (aligned || follows) => Ok(aligned),
        _ => {
            let expected = "a transform, rounding and spline of the defaults, and no factor but the ratio of the sizes";
            Err(HalError::shape("interpolate", "options", expected, format!("{options:?}")).into())
        }
    }
}

/// Burn's options of attention.
pub(crate) fn attention_options(scale: Option<f64>, softcap: Option<f64>, is_causal: bool) -> AttentionModuleOptions {
    AttentionModuleOptions { scale, softcap, is_causal, causal_alignment: Default::default() }
}

/// How many columns beyond its own number a row of causal attention sees.
pub(crate) fn causal_offset(options: &AttentionModuleOptions, rows: usize, columns: usize) -> i64 {
    options.causal_alignment.offset(rows, columns)
}

/// The remainder of a division that truncates, as C's `fmod`: it has the sign of `a`. Of magnitudes the remainder is both this one
/// and the one that follows the divisor; computed in f32 (f64 for f64), and exact.
fn fmod<'g>(a: Term<'g>, b: Term<'g>) -> Term<'g> {
    let left = a.unary(Unary::Abs).binary(Binary::Rem, b.unary(Unary::Abs));
    let signed = a.is(Compare::Lt, a.number(0.0)).choose(left.unary(Unary::Neg), left);
    // A zero keeps its sign, unless the divisor makes it NaN.
    let zero = a.is(Compare::Eq, a.number(0.0)) & left.is(Compare::Eq, a.number(0.0));
    zero.choose(a, signed)
}

/// [`fmod`] of two tensors that broadcast to one shape.
pub(crate) fn fmod_of(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (dtype, wide) = (a.dtype(), fused::wide(a.dtype()));
    let graph = fused::graph("fmod", &[dtype], |g| {
        let [a, b] = [(); 2].map(|()| g.input(dtype).cast(wide));
        fmod(a, b).cast(dtype)
    });
    fused::elementwise(&graph, &[a, b], &[], dtype)
}

/// [`fmod`] by a number.
pub(crate) fn fmod_by(a: &Tensor, b: Scalar) -> Result<Tensor> {
    let (dtype, wide) = (a.dtype(), fused::wide(a.dtype()));
    let graph = fused::graph("fmod_scalar", &[dtype], |g| {
        let (a, b) = (g.input(dtype).cast(wide), g.scalar(wide));
        fmod(a, b).cast(dtype)
    });
    fused::elementwise(&graph, &[a], &[b], dtype)
}

/// Whether the kernel with gradients computes this attention; else Burn composes it.
pub(crate) fn takes_attention([q, k, v]: [&Tensor; 3], options: &AttentionModuleOptions) -> bool {
    let (dtype, [q_shape, k_shape, v_shape]) = (q.dtype(), [q, k, v].map(Tensor::shape));
    let ([_, _, rows, depth], [_, _, columns, _], [_, _, _, value_depth]) = (q_shape, k_shape, v_shape) else {
        return false;
    };
    // Burn's logarithms are f32 whatever the type; those of f64 are f64 here.
    let typed = dtype.is_float() && dtype != DType::F64 && [k, v].iter().all(|x| x.dtype() == dtype);
    let aligned = !options.is_causal || causal_offset(options, *rows, *columns) == *columns as i64 - *rows as i64;
    let filled = [q, k, v].iter().all(|x| !x.layout().is_empty());
    typed && aligned && filled && [*depth, *value_depth].into_iter().all(takes_depth)
}

/// By Burn's defaults: gradients are summed at its server, by the collectives.
impl DistributedOps<Rocm> for Rocm {}
impl DistributedOps<Fused> for Fused {}

/// By Burn's defaults: copies between devices and sums.
impl CollectiveOps<Rocm> for Rocm {}
impl CollectiveOps<Fused> for Fused {}

/// The pattern of what is of [`Fused`] in an enum of Burn's over backends, for crates that name `burn`, which this one lies below:
/// `in_slot!(DispatchTensorKind, tensor)`.
#[doc(hidden)]
#[macro_export]
macro_rules! in_slot {
    ($kind:ident, $inside:pat) => {
        $kind::Cube($inside)
    };
}

macro_rules! backend_methods {
    ($device:ident => $rocm:expr) => {
        fn memory_capacity($device: &Self::Device) -> Option<u64> {
            Some($rocm.open().ok()?.info().memory_bytes)
        }
    };
}

macro_rules! bool_methods {
    () => {
        fn bool_scatter(
            dim: usize,
            tensor: RocmTensor,
            indices: RocmTensor,
            value: RocmTensor,
            update: IndexingUpdateOp,
        ) -> RocmTensor {
            let (store, op) = (tensor.store(), $crate::version::logical(update));
            bools(store, index::scatter(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), op))
        }

        fn bool_scatter_nd(
            data: RocmTensor,
            indices: RocmTensor,
            values: RocmTensor,
            reduction: IndexingUpdateOp,
        ) -> RocmTensor {
            let op = $crate::version::logical(reduction);
            bools(data.store(), index::scatter_nd(data.as_inner(), indices.as_inner(), values.as_inner(), op))
        }

        fn bool_gather_nd(data: RocmTensor, indices: RocmTensor) -> RocmTensor {
            bools(data.store(), index::gather_nd(data.as_inner(), indices.as_inner()))
        }

        fn bool_select_assign(
            tensor: RocmTensor,
            dim: usize,
            indices: RocmTensor,
            value: RocmTensor,
            update: IndexingUpdateOp,
        ) -> RocmTensor {
            let (store, op) = (tensor.store(), $crate::version::logical(update));
            bools(store, index::select_assign(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), op))
        }
    };
}

macro_rules! float_methods {
    () => {
        fn float_fmod(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
            out($crate::version::fmod_of(lhs.as_inner(), rhs.as_inner()))
        }

        fn float_fmod_scalar(lhs: RocmTensor, rhs: Scalar) -> RocmTensor {
            out($crate::version::fmod_by(lhs.as_inner(), scalar(rhs)))
        }
    };
}

/// An average pool and its gradient, for one number of spatial axes.
macro_rules! average_pools {
    ($axes:literal: $forward:ident $backward:ident) => {
        fn $forward(
            x: RocmTensor,
            kernel: [usize; $axes],
            stride: [usize; $axes],
            padding: [usize; $axes],
            dilation: [usize; $axes],
            count_include_pad: bool,
            ceil: bool,
        ) -> RocmTensor {
            let windows = Windows { kernel, stride, padding, dilation, ceil };
            out(pool::average(x.as_inner(), &windows, count_include_pad))
        }

        fn $backward(
            x: RocmTensor,
            grad: RocmTensor,
            kernel: [usize; $axes],
            stride: [usize; $axes],
            padding: [usize; $axes],
            dilation: [usize; $axes],
            count_include_pad: bool,
            ceil: bool,
        ) -> RocmTensor {
            let windows = Windows { kernel, stride, padding, dilation, ceil };
            out(pool::average_backward(x.as_inner(), grad.as_inner(), &windows, count_include_pad))
        }
    };
}

macro_rules! module_methods {
    () => {
        $crate::version::average_pools! { 2: avg_pool2d avg_pool2d_backward }
        $crate::version::average_pools! { 3: avg_pool3d avg_pool3d_backward }

        fn max_pool3d(
            x: RocmTensor,
            kernel: [usize; 3],
            stride: [usize; 3],
            padding: [usize; 3],
            dilation: [usize; 3],
            ceil: bool,
        ) -> RocmTensor {
            out(pool::max(x.as_inner(), &Windows { kernel, stride, padding, dilation, ceil }))
        }

        fn max_pool3d_with_indices(
            x: RocmTensor,
            kernel: [usize; 3],
            stride: [usize; 3],
            padding: [usize; 3],
            dilation: [usize; 3],
            ceil: bool,
            indices_dtype: IntDType,
        ) -> burn_backend::ops::MaxPool3dWithIndices<Rocm> {
            let windows = Windows { kernel, stride, padding, dilation, ceil };
            let (output, indices) = pair(pool::max_with_indices(x.as_inner(), &windows, int_dtype(indices_dtype)));
            burn_backend::ops::MaxPool3dWithIndices::new(output, indices)
        }

        fn max_pool3d_with_indices_backward(
            x: RocmTensor,
            kernel: [usize; 3],
            stride: [usize; 3],
            padding: [usize; 3],
            dilation: [usize; 3],
            ceil: bool,
            output_grad: RocmTensor,
            indices: RocmTensor,
        ) -> burn_backend::ops::MaxPool3dBackward<Rocm> {
            let windows = Windows { kernel, stride, padding, dilation, ceil };
            let [x, grad, indices] = [&x, &output_grad, &indices].map(RocmTensor::as_inner);
            burn_backend::ops::MaxPool3dBackward::new(out(pool::max_backward(x, grad, indices, &windows)))
        }

        fn has_attention_backward() -> bool {
            true
        }

        fn attention_with_logsumexp(
            query: RocmTensor,
            key: RocmTensor,
            value: RocmTensor,
            options: AttentionModuleOptions,
        ) -> (RocmTensor, RocmTensor) {
            if !$crate::version::takes_attention([query.as_inner(), key.as_inner(), value.as_inner()], &options) {
                return burn_backend::ops::attention::attention_with_logsumexp_default::<Rocm>(
                    query, key, value, options,
                );
            }
            $crate::version::attend(query, key, value, &options)
        }

        fn attention_backward(
            query: RocmTensor,
            key: RocmTensor,
            value: RocmTensor,
            out: RocmTensor,
            logsumexp: RocmTensor,
            out_grad: RocmTensor,
            options: AttentionModuleOptions,
        ) -> burn_backend::ops::AttentionBackward<Rocm> {
            if !$crate::version::takes_attention([query.as_inner(), key.as_inner(), value.as_inner()], &options) {
                return burn_backend::ops::attention::attention_backward_default::<Rocm>(
                    query, key, value, out, logsumexp, out_grad, options,
                );
            }
            let saved = (out, logsumexp);
            let [query, key, value] =
                $crate::version::attention_gradients([query, key, value], saved, out_grad, &options);
            burn_backend::ops::AttentionBackward::new(query, key, value)
        }
    };
}

macro_rules! recorded_bool_methods {
    () => {
        routed! {
            bool_scatter(dim: usize, tensor: Lazy, indices: Lazy, value: Lazy, update: burn_std::IndexingUpdateOp) -> Lazy;
            bool_scatter_nd(data: Lazy, indices: Lazy, values: Lazy, reduction: burn_std::IndexingUpdateOp) -> Lazy;
            bool_gather_nd(data: Lazy, indices: Lazy) -> Lazy;
            bool_select_assign(tensor: Lazy, dim: usize, indices: Lazy, value: Lazy, update: burn_std::IndexingUpdateOp) -> Lazy;
        }
    };
}

macro_rules! recorded_float_methods {
    () => {
        routed! {
            float_fmod(lhs: Lazy, rhs: Lazy) -> Lazy;
            float_fmod_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        }
    };
}

/// The rows of average pools, for one type of sizes.
macro_rules! recorded_average_pools {
    ($($forward:ident $backward:ident $sizes:ty;)+) => {
        routed! { $(
            $forward(
                x: Lazy, kernel_size: $sizes, stride: $sizes, padding: $sizes, dilation: $sizes,
                count_include_pad: bool, ceil_mode: bool
            ) -> Lazy;
            $backward(
                x: Lazy, grad: Lazy, kernel_size: $sizes, stride: $sizes, padding: $sizes, dilation: $sizes,
                count_include_pad: bool, ceil_mode: bool
            ) -> Lazy;
        )+ }
    };
}

macro_rules! recorded_module_methods {
    () => {
        $crate::version::recorded_average_pools! {
            avg_pool1d avg_pool1d_backward usize;
            avg_pool2d avg_pool2d_backward [usize; 2];
            avg_pool3d avg_pool3d_backward [usize; 3];
        }
        routed! {
            max_pool3d(
                x: Lazy, kernel_size: [usize; 3], stride: [usize; 3], padding: [usize; 3], dilation: [usize; 3],
                ceil_mode: bool
            ) -> Lazy;
            attention_with_logsumexp(
                query: Lazy, key: Lazy, value: Lazy, options: AttentionModuleOptions
            ) -> (Lazy, Lazy);
        }

        fn max_pool3d_with_indices(
            x: Lazy,
            kernel_size: [usize; 3],
            stride: [usize; 3],
            padding: [usize; 3],
            dilation: [usize; 3],
            ceil: bool,
            indices: IntDType,
        ) -> burn_backend::ops::MaxPool3dWithIndices<Fused> {
            let made = Router::max_pool3d_with_indices(x, kernel_size, stride, padding, dilation, ceil, indices);
            burn_backend::ops::MaxPool3dWithIndices::new(made.output, made.indices)
        }

        fn max_pool3d_with_indices_backward(
            x: Lazy,
            kernel: [usize; 3],
            stride: [usize; 3],
            padding: [usize; 3],
            dilation: [usize; 3],
            ceil: bool,
            grad: Lazy,
            indices: Lazy,
        ) -> burn_backend::ops::MaxPool3dBackward<Fused> {
            let made =
                Router::max_pool3d_with_indices_backward(x, kernel, stride, padding, dilation, ceil, grad, indices);
            burn_backend::ops::MaxPool3dBackward::new(made.x_grad)
        }

        fn has_attention_backward() -> bool {
            Rocm::has_attention_backward()
        }

        fn attention_backward(
            query: Lazy,
            key: Lazy,
            value: Lazy,
            out: Lazy,
            logsumexp: Lazy,
            out_grad: Lazy,
            options: AttentionModuleOptions,
        ) -> burn_backend::ops::AttentionBackward<Fused> {
            let made = Router::attention_backward(query, key, value, out, logsumexp, out_grad, options);
            burn_backend::ops::AttentionBackward::new(made.query_grad, made.key_grad, made.value_grad)
        }
    };
}

pub(crate) use {
    average_pools, backend_methods, bool_methods, float_methods, module_methods, recorded_average_pools,
    recorded_bool_methods, recorded_float_methods, recorded_module_methods,
};

/// What an update of bools is on bytes: `Add` is or, `Mul` is and.
pub(crate) fn logical(op: burn_std::IndexingUpdateOp) -> burn_std::IndexingUpdateOp {
    use burn_std::IndexingUpdateOp as Op;
    match op {
        Op::Add | Op::Max => Op::Max,
        Op::Mul | Op::Min => Op::Min,
        Op::Assign => Op::Assign,
    }
}

/// The kernel's parameters of Burn's options.
fn params(options: &AttentionModuleOptions) -> AttentionParams {
    let mut params = AttentionParams::default();
    (params.scale, params.softcap, params.causal) = (options.scale, options.softcap, options.is_causal);
    params
}

/// Attention and the logarithms of its sums, where [`takes_attention`] says so.
pub(crate) fn attend(
    query: RocmTensor,
    key: RocmTensor,
    value: RocmTensor,
    options: &AttentionModuleOptions,
) -> (RocmTensor, RocmTensor) {
    let inputs = AttentionTensors { query, key, value, mask: None, bias: None };
    Rocm::fused_attention_with_lse(inputs, params(options))
}

/// The gradients of queries, keys and values, as [`attend`].
pub(crate) fn attention_gradients(
    [query, key, value]: [RocmTensor; 3],
    saved: (RocmTensor, RocmTensor),
    grad: RocmTensor,
    options: &AttentionModuleOptions,
) -> [RocmTensor; 3] {
    let inputs = AttentionTensors { query, key, value, mask: None, bias: None };
    Rocm::fused_attention_backward(inputs, saved, grad, params(options))
}
