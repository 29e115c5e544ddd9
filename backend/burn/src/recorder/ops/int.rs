//! Burn's operators on integers. Each becomes the operation that `burn-router` makes of it.

use std::ops::Range;

use burn_backend::ops::{IntTensorOps, PadMode};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{Distribution, ExecutionError, Scalar, Shape, Slice, TensorData};
use burn_std::{BoolDType, FloatDType, IntDType};

use super::super::backend::Fused;
use super::super::channel::{Lazy, Router};
use crate::BurnDevice;

impl IntTensorOps<Fused> for Fused {
    routed! {
        int_empty(shape: Shape, device: &BurnDevice, dtype: IntDType) -> Lazy;
        int_from_data(data: TensorData, device: &BurnDevice) -> Lazy;
        int_to_device(tensor: Lazy, device: &BurnDevice) -> Lazy;
        int_reshape(tensor: Lazy, shape: Shape) -> Lazy;
        int_slice(tensor: Lazy, slices: &[Slice]) -> Lazy;
        int_slice_assign(tensor: Lazy, slices: &[Slice], value: Lazy) -> Lazy;
        int_into_float(tensor: Lazy, out_dtype: FloatDType) -> Lazy;
        int_mask_where(tensor: Lazy, mask: Lazy, value: Lazy) -> Lazy;
        int_mask_fill(tensor: Lazy, mask: Lazy, value: Scalar) -> Lazy;
        int_gather(dim: usize, tensor: Lazy, indices: Lazy) -> Lazy;
        int_scatter(dim: usize, tensor: Lazy, indices: Lazy, value: Lazy, update: IndexingUpdateOp) -> Lazy;
        int_scatter_nd(data: Lazy, indices: Lazy, values: Lazy, reduction: IndexingUpdateOp) -> Lazy;
        int_gather_nd(data: Lazy, indices: Lazy) -> Lazy;
        int_select(tensor: Lazy, dim: usize, indices: Lazy) -> Lazy;
        int_select_assign(tensor: Lazy, dim: usize, indices: Lazy, value: Lazy, update: IndexingUpdateOp) -> Lazy;
        int_repeat_dim(tensor: Lazy, dim: usize, times: usize) -> Lazy;
        int_cat(tensors: Vec<Lazy>, dim: usize) -> Lazy;
        int_equal(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        int_equal_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        int_greater(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        int_greater_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        int_greater_equal(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        int_greater_equal_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        int_lower(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        int_lower_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        int_lower_equal(lhs: Lazy, rhs: Lazy, out_dtype: BoolDType) -> Lazy;
        int_lower_equal_elem(lhs: Lazy, rhs: Scalar, out_dtype: BoolDType) -> Lazy;
        int_add(lhs: Lazy, rhs: Lazy) -> Lazy;
        int_add_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        int_powi(lhs: Lazy, rhs: Lazy) -> Lazy;
        int_powi_scalar_impl(lhs: Lazy, rhs: Scalar) -> Lazy;
        int_clamp(tensor: Lazy, min: Scalar, max: Scalar) -> Lazy;
        int_sub(lhs: Lazy, rhs: Lazy) -> Lazy;
        int_sub_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        int_mul(lhs: Lazy, rhs: Lazy) -> Lazy;
        int_mul_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        int_div(lhs: Lazy, rhs: Lazy) -> Lazy;
        int_div_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        int_remainder(lhs: Lazy, rhs: Lazy) -> Lazy;
        int_remainder_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        int_matmul(lhs: Lazy, rhs: Lazy) -> Lazy;
        int_zeros(shape: Shape, device: &BurnDevice, dtype: IntDType) -> Lazy;
        int_ones(shape: Shape, device: &BurnDevice, dtype: IntDType) -> Lazy;
        int_full(shape: Shape, fill_value: Scalar, device: &BurnDevice, dtype: IntDType) -> Lazy;
        int_sum(tensor: Lazy) -> Lazy;
        int_sum_dim(tensor: Lazy, dim: usize) -> Lazy;
        int_prod(tensor: Lazy) -> Lazy;
        int_prod_dim(tensor: Lazy, dim: usize) -> Lazy;
        int_mean(tensor: Lazy) -> Lazy;
        int_mean_dim(tensor: Lazy, dim: usize) -> Lazy;
        int_cumsum(tensor: Lazy, dim: usize) -> Lazy;
        int_cumprod(tensor: Lazy, dim: usize) -> Lazy;
        int_cummin(tensor: Lazy, dim: usize) -> Lazy;
        int_cummax(tensor: Lazy, dim: usize) -> Lazy;
        int_argmax(tensor: Lazy, dim: usize) -> Lazy;
        int_argtopk(tensor: Lazy, dim: usize, k: usize) -> Lazy;
        int_topk(tensor: Lazy, dim: usize, k: usize) -> Lazy;
        int_topk_with_indices(tensor: Lazy, dim: usize, k: usize) -> (Lazy, Lazy);
        int_argmin(tensor: Lazy, dim: usize) -> Lazy;
        int_max(tensor: Lazy) -> Lazy;
        int_max_dim(tensor: Lazy, dim: usize) -> Lazy;
        int_max_dim_with_indices(tensor: Lazy, dim: usize) -> (Lazy, Lazy);
        int_max_abs(tensor: Lazy) -> Lazy;
        int_max_abs_dim(tensor: Lazy, dim: usize) -> Lazy;
        int_min(tensor: Lazy) -> Lazy;
        int_min_dim(tensor: Lazy, dim: usize) -> Lazy;
        int_min_dim_with_indices(tensor: Lazy, dim: usize) -> (Lazy, Lazy);
        int_abs(tensor: Lazy) -> Lazy;
        int_swap_dims(tensor: Lazy, dim1: usize, dim2: usize) -> Lazy;
        int_permute(tensor: Lazy, axes: &[usize]) -> Lazy;
        int_flip(tensor: Lazy, axes: &[usize]) -> Lazy;
        int_random(shape: Shape, distribution: Distribution, device: &BurnDevice, dtype: IntDType) -> Lazy;
        int_any(tensor: Lazy, out_dtype: BoolDType) -> Lazy;
        int_any_dim(tensor: Lazy, dim: usize, out_dtype: BoolDType) -> Lazy;
        int_all(tensor: Lazy, out_dtype: BoolDType) -> Lazy;
        int_all_dim(tensor: Lazy, dim: usize, out_dtype: BoolDType) -> Lazy;
        int_expand(tensor: Lazy, shape: Shape) -> Lazy;
        bitwise_and(lhs: Lazy, rhs: Lazy) -> Lazy;
        bitwise_and_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        bitwise_or(lhs: Lazy, rhs: Lazy) -> Lazy;
        bitwise_or_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        bitwise_xor(lhs: Lazy, rhs: Lazy) -> Lazy;
        bitwise_xor_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        bitwise_not(tensor: Lazy) -> Lazy;
        bitwise_left_shift(lhs: Lazy, rhs: Lazy) -> Lazy;
        bitwise_left_shift_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        bitwise_right_shift(lhs: Lazy, rhs: Lazy) -> Lazy;
        bitwise_right_shift_scalar(lhs: Lazy, rhs: Scalar) -> Lazy;
        int_cast(tensor: Lazy, dtype: IntDType) -> Lazy;
        int_unfold(tensor: Lazy, dim: usize, size: usize, step: usize) -> Lazy;
        int_pad(tensor: Lazy, padding: &[(usize, usize)], mode: PadMode) -> Lazy;
    }

    async fn int_into_data(tensor: Lazy) -> Result<TensorData, ExecutionError> {
        Router::int_into_data(tensor).await
    }

    /// It is composed of operators, so that nothing is copied from the host: ones are summed up, scaled and shifted.
    fn int_arange_step(range: Range<i64>, step: usize, device: &BurnDevice, dtype: IntDType) -> Lazy {
        assert!(step != 0, "arange: step must not be 0");
        let count = usize::try_from(range.end - range.start).unwrap_or(0).div_ceil(step);
        let step = step as i64;
        let ones = Fused::int_full(Shape::new([count]), 1i64.into(), device, dtype);
        if count == 0 {
            return ones;
        }
        let counted = Fused::int_mul_scalar(Fused::int_cumsum(ones, 0), step.into());
        Fused::int_add_scalar(counted, (range.start - step).into())
    }
}
