//! Burn's operators on floats. Each becomes the operation that `burn-router` makes of it.

use burn_backend::ops::{FloatTensorOps, GridSampleOptions, PadMode};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{Distribution, ExecutionError, Scalar, Shape, Slice, TensorData};
use burn_ir::{FloatOperationIr, OperationIr, OperationOutput, UnaryOpIr};
use burn_router::RouterClient;
use burn_std::{BoolDType, FloatDType, IntDType};

use super::super::backend::Fused;
use super::super::channel::{Lazy, Router};
use crate::BurnDevice;
use crate::version::recorded_float_methods;

impl FloatTensorOps<Fused> for Fused {
    routed! {
        float_from_data(data: TensorData, device: &BurnDevice) -> Lazy;
        float_random(shape: Shape, distribution: Distribution, device: &BurnDevice, dtype: FloatDType) -> Lazy;
        float_zeros(shape: Shape, device: &BurnDevice, dtype: FloatDType) -> Lazy;
        float_ones(shape: Shape, device: &BurnDevice, dtype: FloatDType) -> Lazy;
        float_full(shape: Shape, fill_value: Scalar, device: &BurnDevice, dtype: FloatDType) -> Lazy;
        float_to_device(tensor: Lazy, device: &BurnDevice) -> Lazy;
        float_into_int(tensor: Lazy, out_dtype: IntDType) -> Lazy;
        float_empty(shape: Shape, device: &BurnDevice, dtype: FloatDType) -> Lazy;
        float_repeat_dim(tensor: Lazy, dim: usize, times: usize) -> Lazy;
        float_add(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_add_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        float_clamp(tensor: Lazy, min: Scalar, max: Scalar) -> Lazy;
        float_sub(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_sub_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        float_mul(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_mul_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        float_div(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_div_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        float_remainder(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_remainder_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        float_matmul(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_cross(lhs: Lazy, rhs: Lazy, dim: usize) -> Lazy;
        float_recip(tensor: Lazy) -> Lazy;
        float_swap_dims(tensor: Lazy, dim1: usize, dim2: usize) -> Lazy;
        float_permute(tensor: Lazy, axes: &[usize]) -> Lazy;
        float_flip(tensor: Lazy, axes: &[usize]) -> Lazy;
        float_reshape(tensor: Lazy, shape: Shape) -> Lazy;
        float_gather(dim: usize, tensor: Lazy, indices: Lazy) -> Lazy;
        float_scatter(dim: usize, tensor: Lazy, indices: Lazy, value: Lazy, update: IndexingUpdateOp) -> Lazy;
        float_scatter_nd(data: Lazy, indices: Lazy, values: Lazy, reduction: IndexingUpdateOp) -> Lazy;
        float_gather_nd(data: Lazy, indices: Lazy) -> Lazy;
        float_select(tensor: Lazy, dim: usize, indices: Lazy) -> Lazy;
        float_select_assign(tensor: Lazy, dim: usize, indices: Lazy, value: Lazy, update: IndexingUpdateOp) -> Lazy;
        float_slice(tensor: Lazy, slices: &[Slice]) -> Lazy;
        float_slice_assign(tensor: Lazy, slices: &[Slice], value: Lazy) -> Lazy;
        float_mask_where(tensor: Lazy, mask: Lazy, value: Lazy) -> Lazy;
        float_mask_fill(tensor: Lazy, mask: Lazy, value: Scalar) -> Lazy;
        float_equal(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        float_equal_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        float_greater(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        float_greater_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        float_greater_equal(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        float_greater_equal_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        float_lower(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        float_lower_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        float_lower_equal(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        float_lower_equal_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        float_sum(tensor: Lazy) -> Lazy;
        float_sum_dim(tensor: Lazy, dim: usize) -> Lazy;
        float_sum_dims(tensor: Lazy, dims: &[usize]) -> Lazy;
        float_prod(tensor: Lazy) -> Lazy;
        float_prod_dim(tensor: Lazy, dim: usize) -> Lazy;
        float_mean(tensor: Lazy) -> Lazy;
        float_mean_dim(tensor: Lazy, dim: usize) -> Lazy;
        float_cumsum(tensor: Lazy, dim: usize) -> Lazy;
        float_cumprod(tensor: Lazy, dim: usize) -> Lazy;
        float_cummin(tensor: Lazy, dim: usize) -> Lazy;
        float_cummax(tensor: Lazy, dim: usize) -> Lazy;
        float_cast(tensor: Lazy, dtype: FloatDType) -> Lazy;
        float_exp(tensor: Lazy) -> Lazy;
        float_log(tensor: Lazy) -> Lazy;
        float_log1p(tensor: Lazy) -> Lazy;
        float_powf(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_powf_scalar_impl(tensor: Lazy, value: Scalar) -> Lazy;
        float_sqrt(tensor: Lazy) -> Lazy;
        float_hypot(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_abs(tensor: Lazy) -> Lazy;
        float_cos(tensor: Lazy) -> Lazy;
        float_sin(tensor: Lazy) -> Lazy;
        float_tan(tensor: Lazy) -> Lazy;
        float_cosh(tensor: Lazy) -> Lazy;
        float_sinh(tensor: Lazy) -> Lazy;
        float_tanh(tensor: Lazy) -> Lazy;
        float_acos(tensor: Lazy) -> Lazy;
        float_acosh(tensor: Lazy) -> Lazy;
        float_asin(tensor: Lazy) -> Lazy;
        float_asinh(tensor: Lazy) -> Lazy;
        float_atan(tensor: Lazy) -> Lazy;
        float_atanh(tensor: Lazy) -> Lazy;
        float_atan2(lhs: Lazy, rhs: Lazy) -> Lazy;
        float_round(tensor: Lazy) -> Lazy;
        float_floor(tensor: Lazy) -> Lazy;
        float_ceil(tensor: Lazy) -> Lazy;
        float_trunc(tensor: Lazy) -> Lazy;
        float_erf(tensor: Lazy) -> Lazy;
        float_cat(tensors: Vec<Lazy>, dim: usize) -> Lazy;
        float_argmax(tensor: Lazy, dim: usize, out_dtype: IntDType) -> Lazy;
        float_argtopk(tensor: Lazy, dim: usize, k: usize, out_dtype: IntDType) -> Lazy;
        float_topk(tensor: Lazy, dim: usize, k: usize) -> Lazy;
        float_topk_with_indices(tensor: Lazy, dim: usize, k: usize, out_dtype: IntDType) -> (Lazy, Lazy);
        float_argmin(tensor: Lazy, dim: usize, out_dtype: IntDType) -> Lazy;
        float_max(tensor: Lazy) -> Lazy;
        float_max_dim(tensor: Lazy, dim: usize) -> Lazy;
        float_max_dim_with_indices(tensor: Lazy, dim: usize, indices_dtype: IntDType) -> (Lazy, Lazy);
        float_min(tensor: Lazy) -> Lazy;
        float_min_dim(tensor: Lazy, dim: usize) -> Lazy;
        float_min_dim_with_indices(tensor: Lazy, dim: usize, indices_dtype: IntDType) -> (Lazy, Lazy);
        float_max_abs(tensor: Lazy) -> Lazy;
        float_max_abs_dim(tensor: Lazy, dim: usize) -> Lazy;
        float_any(tensor: Lazy, out_dtype: BoolDType) -> Lazy;
        float_any_dim(tensor: Lazy, dim: usize, out_dtype: BoolDType) -> Lazy;
        float_all(tensor: Lazy, out_dtype: BoolDType) -> Lazy;
        float_all_dim(tensor: Lazy, dim: usize, out_dtype: BoolDType) -> Lazy;
        float_expand(tensor: Lazy, shape: Shape) -> Lazy;
        float_grid_sample_2d(tensor: Lazy, grid: Lazy, options: GridSampleOptions) -> Lazy;
        float_unfold(tensor: Lazy, dim: usize, size: usize, step: usize) -> Lazy;
        float_pad(tensor: Lazy, padding: &[(usize, usize)], mode: PadMode) -> Lazy;
    }

    recorded_float_methods!();

    async fn float_into_data(tensor: Lazy) -> Result<TensorData, ExecutionError> {
        Router::float_into_data(tensor).await
    }

    fn float_is_nan(tensor: Lazy, out_dtype: BoolDType) -> Lazy {
        asked(tensor, out_dtype, FloatOperationIr::IsNan)
    }

    fn float_is_inf(tensor: Lazy, out_dtype: BoolDType) -> Lazy {
        asked(tensor, out_dtype, FloatOperationIr::IsInf)
    }
}

/// Records an operation that asks a question about every element; the result is a tensor of bools.
fn asked(tensor: Lazy, out_dtype: BoolDType, of: impl FnOnce(UnaryOpIr) -> FloatOperationIr) -> Lazy {
    let client = tensor.client;
    let made = UnaryOpIr::create_comparison(tensor.into_ir(), out_dtype.into(), || client.create_empty_handle());
    client.register(OperationIr::Float(made.input.dtype, of(made))).output()
}
