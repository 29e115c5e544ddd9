//! Burn's bool operators, on bytes that are 0 or 1.
//!
//! `argwhere`, and with it every selection by a mask, keeps Burn's default: the number of results is only known on the
//! device, so it is read back.

use burn_backend::ops::BoolTensorOps;
use burn_backend::{ExecutionError, Scalar, Shape, Slice, TensorData};
use burn_std::{BoolDType, FloatDType, IndexingUpdateOp, IntDType};
use rocfire_fusion::{Binary, Compare, Reduce, Scalar as Number, Unary};
use rocfire_hal::DType;

use super::elementwise::scalar;
use super::{elementwise, float_dtype, index, int_dtype, memory, out, reduce, require_bool, view};
use crate::error::OrPanic;
use crate::{Rocm, RocmDevice, RocmTensor};

fn filled(shape: &Shape, device: &RocmDevice, value: bool) -> RocmTensor {
    out(memory::full(&device.open().or_panic(), shape, DType::Bool, Number::Bool(value)))
}

macro_rules! binary {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
            out(elementwise::binary(Binary::$op, lhs.as_inner(), rhs.as_inner()))
        }
    )+ };
}

impl BoolTensorOps<Rocm> for Rocm {
    fn bool_from_data(data: TensorData, device: &RocmDevice) -> RocmTensor {
        let dtype = data.dtype();
        memory::require_kind("bool_from_data", "a bool", dtype, dtype.is_bool()).or_panic();
        out(memory::from_data(&data, device))
    }

    fn bool_empty(shape: Shape, device: &RocmDevice, dtype: BoolDType) -> RocmTensor {
        require_bool("bool_empty", dtype);
        out(memory::empty(&device.open().or_panic(), &shape, DType::Bool))
    }

    fn bool_zeros(shape: Shape, device: &RocmDevice, dtype: BoolDType) -> RocmTensor {
        require_bool("bool_zeros", dtype);
        filled(&shape, device, false)
    }

    fn bool_ones(shape: Shape, device: &RocmDevice, dtype: BoolDType) -> RocmTensor {
        require_bool("bool_ones", dtype);
        filled(&shape, device, true)
    }

    async fn bool_into_data(tensor: RocmTensor) -> Result<TensorData, ExecutionError> {
        memory::into_data(tensor.as_inner())
    }

    fn bool_to_device(tensor: RocmTensor, device: &RocmDevice) -> RocmTensor {
        out(memory::to_device(tensor.as_inner(), device))
    }

    fn bool_into_int(tensor: RocmTensor, out_dtype: IntDType) -> RocmTensor {
        out(memory::cast(tensor.as_inner(), int_dtype(out_dtype)))
    }

    fn bool_into_float(tensor: RocmTensor, out_dtype: FloatDType) -> RocmTensor {
        out(memory::cast(tensor.as_inner(), float_dtype(out_dtype)))
    }

    fn bool_reshape(tensor: RocmTensor, shape: Shape) -> RocmTensor {
        out(view::reshape(tensor.as_inner(), &shape))
    }

    fn bool_swap_dims(tensor: RocmTensor, dim1: usize, dim2: usize) -> RocmTensor {
        out(view::swap(tensor.as_inner(), dim1, dim2))
    }

    fn bool_permute(tensor: RocmTensor, axes: &[usize]) -> RocmTensor {
        out(view::permute(tensor.as_inner(), axes))
    }

    fn bool_flip(tensor: RocmTensor, axes: &[usize]) -> RocmTensor {
        out(view::flip(tensor.as_inner(), axes))
    }

    fn bool_expand(tensor: RocmTensor, shape: Shape) -> RocmTensor {
        out(view::expand(tensor.as_inner(), &shape))
    }

    fn bool_unfold(tensor: RocmTensor, dim: usize, size: usize, step: usize) -> RocmTensor {
        out(view::windows(tensor.as_inner(), dim, size, step, 1))
    }

    fn bool_slice(tensor: RocmTensor, slices: &[Slice]) -> RocmTensor {
        out(view::slice(tensor.as_inner(), slices))
    }

    fn bool_slice_assign(tensor: RocmTensor, slices: &[Slice], value: RocmTensor) -> RocmTensor {
        out(memory::slice_assign(tensor.into_inner(), slices, value.as_inner()))
    }

    fn bool_cat(tensors: Vec<RocmTensor>, dim: usize) -> RocmTensor {
        out(memory::cat(&tensors.iter().map(RocmTensor::as_inner).collect::<Vec<_>>(), dim))
    }

    fn bool_repeat_dim(tensor: RocmTensor, dim: usize, times: usize) -> RocmTensor {
        out(memory::repeat(tensor.as_inner(), dim, times))
    }

    fn bool_mask_where(tensor: RocmTensor, mask: RocmTensor, value: RocmTensor) -> RocmTensor {
        out(elementwise::select(mask.as_inner(), value.as_inner(), tensor.as_inner()))
    }

    fn bool_mask_fill(tensor: RocmTensor, mask: RocmTensor, value: Scalar) -> RocmTensor {
        out(elementwise::mask_fill(tensor.as_inner(), mask.as_inner(), scalar(value)))
    }

    fn bool_gather(dim: usize, tensor: RocmTensor, indices: RocmTensor) -> RocmTensor {
        out(index::gather(tensor.as_inner(), dim, indices.as_inner()))
    }

    fn bool_scatter_or(dim: usize, tensor: RocmTensor, indices: RocmTensor, value: RocmTensor) -> RocmTensor {
        out(index::scatter(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), IndexingUpdateOp::Max))
    }

    fn bool_select(tensor: RocmTensor, dim: usize, indices: RocmTensor) -> RocmTensor {
        out(index::select(tensor.as_inner(), dim, indices.as_inner()))
    }

    fn bool_select_or(tensor: RocmTensor, dim: usize, indices: RocmTensor, value: RocmTensor) -> RocmTensor {
        out(index::select_assign(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), IndexingUpdateOp::Max))
    }

    fn bool_equal(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
        out(elementwise::compare(Compare::Eq, lhs.as_inner(), rhs.as_inner()))
    }

    fn bool_equal_elem(lhs: RocmTensor, rhs: Scalar) -> RocmTensor {
        out(elementwise::compare_scalar(Compare::Eq, lhs.as_inner(), scalar(rhs)))
    }

    fn bool_not_equal(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
        out(elementwise::compare(Compare::Ne, lhs.as_inner(), rhs.as_inner()))
    }

    fn bool_not_equal_elem(lhs: RocmTensor, rhs: Scalar) -> RocmTensor {
        out(elementwise::compare_scalar(Compare::Ne, lhs.as_inner(), scalar(rhs)))
    }

    fn bool_not(tensor: RocmTensor) -> RocmTensor {
        out(elementwise::unary(Unary::Not, tensor.as_inner()))
    }

    binary! { bool_and => And, bool_or => Or, bool_xor => Xor }

    fn bool_any(tensor: RocmTensor) -> RocmTensor {
        out(reduce::all(Reduce::Any, tensor.as_inner()))
    }

    fn bool_any_dim(tensor: RocmTensor, dim: usize) -> RocmTensor {
        out(reduce::axis(Reduce::Any, tensor.as_inner(), dim))
    }

    fn bool_all(tensor: RocmTensor) -> RocmTensor {
        out(reduce::all(Reduce::All, tensor.as_inner()))
    }

    fn bool_all_dim(tensor: RocmTensor, dim: usize) -> RocmTensor {
        out(reduce::axis(Reduce::All, tensor.as_inner(), dim))
    }
}
