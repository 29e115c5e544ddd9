//! Burn's operators on bools. Each becomes the operation that `burn-router` makes of it.

use burn_backend::ops::BoolTensorOps;
use burn_backend::{ExecutionError, Scalar, Shape, Slice, TensorData};
use burn_std::{BoolDType, FloatDType, IntDType};

use super::super::backend::Fused;
use super::super::channel::{Lazy, Router};
use crate::BurnDevice;
use crate::version::recorded_bool_methods;

impl BoolTensorOps<Fused> for Fused {
    routed! {
        bool_empty(shape: Shape, device: &BurnDevice, dtype: BoolDType) -> Lazy;
        bool_zeros(shape: Shape, device: &BurnDevice, dtype: BoolDType) -> Lazy;
        bool_ones(shape: Shape, device: &BurnDevice, dtype: BoolDType) -> Lazy;
        bool_from_data(data: TensorData, device: &BurnDevice) -> Lazy;
        bool_into_int(tensor: Lazy, out_dtype: IntDType) -> Lazy;
        bool_into_float(tensor: Lazy, out_dtype: FloatDType) -> Lazy;
        bool_to_device(tensor: Lazy, device: &BurnDevice) -> Lazy;
        bool_reshape(tensor: Lazy, shape: Shape) -> Lazy;
        bool_slice(tensor: Lazy, slices: &[Slice]) -> Lazy;
        bool_slice_assign(tensor: Lazy, slices: &[Slice], value: Lazy) -> Lazy;
        bool_mask_where(tensor: Lazy, mask: Lazy, value: Lazy) -> Lazy;
        bool_mask_fill(tensor: Lazy, mask: Lazy, value: Scalar) -> Lazy;
        bool_gather(dim: usize, tensor: Lazy, indices: Lazy) -> Lazy;
        bool_select(tensor: Lazy, dim: usize, indices: Lazy) -> Lazy;
        bool_repeat_dim(tensor: Lazy, dim: usize, times: usize) -> Lazy;
        bool_cat(tensors: Vec<Lazy>, dim: usize) -> Lazy;
        bool_equal(lhs: Lazy, rhs: Lazy) -> Lazy;
        bool_equal_elem(lhs: Lazy, rhs: Scalar) -> Lazy;
        bool_not(tensor: Lazy) -> Lazy;
        bool_and(lhs: Lazy, rhs: Lazy) -> Lazy;
        bool_or(lhs: Lazy, rhs: Lazy) -> Lazy;
        bool_swap_dims(tensor: Lazy, dim1: usize, dim2: usize) -> Lazy;
        bool_permute(tensor: Lazy, axes: &[usize]) -> Lazy;
        bool_flip(tensor: Lazy, axes: &[usize]) -> Lazy;
        bool_any(tensor: Lazy) -> Lazy;
        bool_any_dim(tensor: Lazy, dim: usize) -> Lazy;
        bool_all(tensor: Lazy) -> Lazy;
        bool_all_dim(tensor: Lazy, dim: usize) -> Lazy;
        bool_expand(tensor: Lazy, shape: Shape) -> Lazy;
        bool_unfold(tensor: Lazy, dim: usize, size: usize, step: usize) -> Lazy;
    }

    recorded_bool_methods!();

    async fn bool_into_data(tensor: Lazy) -> Result<TensorData, ExecutionError> {
        Router::bool_into_data(tensor).await
    }
}
