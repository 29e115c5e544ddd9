//! Burn's bool operators, on bytes that are 0 or 1.
//!
//! Burn has three stores for a bool. On the device they are one; a result carries the name of its first argument's.
//!
//! `argwhere` and selections by a mask read back how many results there are, since only the device knows; nothing else.

use burn_backend::ops::BoolTensorOps;
use burn_backend::{DType as BurnDType, ExecutionError, Scalar, Shape, Slice, TensorData};
use burn_std::{BoolDType, BoolStore, FloatDType, IndexingUpdateOp, IntDType};
use rocfire_fusion::{Binary, Compare, Reduce, Scalar as Number, Unary, eager};
use rocfire_hal::DType;

use super::elementwise::scalar;
use super::rows::of_any_kind;
use super::{bools, float_dtype, index, int_dtype, memory, out, reduce, view};
use crate::error::{Error, OrPanic};
use crate::version::bool_methods;
use crate::{Rocm, RocmDevice, RocmTensor};

fn filled(shape: &Shape, device: &RocmDevice, dtype: BoolDType, value: bool) -> RocmTensor {
    bools(dtype, memory::full(&device.open().or_panic(), shape, DType::Bool, Number::Bool(value)))
}

macro_rules! binary {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
            bools(lhs.store(), eager::binary_reusing(Binary::$op, lhs.into_inner(), rhs.into_inner()))
        }
    )+ };
}

impl BoolTensorOps<Rocm> for Rocm {
    fn bool_from_data(data: TensorData, device: &RocmDevice) -> RocmTensor {
        let BurnDType::Bool(store) = data.dtype() else {
            panic!("{}", Error::Kind { op: "bool_from_data", expected: "a bool", got: data.dtype() });
        };
        bools(store, memory::bools_from_data(&data, store, device))
    }

    fn bool_empty(shape: Shape, device: &RocmDevice, dtype: BoolDType) -> RocmTensor {
        bools(dtype, memory::empty(&device.open().or_panic(), &shape, DType::Bool))
    }

    fn bool_zeros(shape: Shape, device: &RocmDevice, dtype: BoolDType) -> RocmTensor {
        filled(&shape, device, dtype, false)
    }

    fn bool_ones(shape: Shape, device: &RocmDevice, dtype: BoolDType) -> RocmTensor {
        filled(&shape, device, dtype, true)
    }

    async fn bool_into_data(tensor: RocmTensor) -> Result<TensorData, ExecutionError> {
        memory::bools_into_data(tensor.as_inner(), tensor.store())
    }

    fn bool_to_device(tensor: RocmTensor, device: &RocmDevice) -> RocmTensor {
        bools(tensor.store(), memory::to_device(tensor.as_inner(), device))
    }

    fn bool_into_int(tensor: RocmTensor, out_dtype: IntDType) -> RocmTensor {
        out(memory::cast(tensor.as_inner(), int_dtype(out_dtype)))
    }

    fn bool_into_float(tensor: RocmTensor, out_dtype: FloatDType) -> RocmTensor {
        out(memory::cast(tensor.as_inner(), float_dtype(out_dtype)))
    }

    of_any_kind! {
        bool_swap_dims => view::swap;
        bool_permute => view::permute;
        bool_flip => view::flip;
        bool_reshape => view::reshape;
        bool_expand => view::expand;
        bool_unfold => view::windows;
        bool_slice => view::slice;
        bool_slice_assign => memory::slice_assign;
        bool_cat => memory::cat;
        bool_repeat_dim => memory::repeat;
        bool_gather => index::gather;
        bool_select => index::select;
        bool_mask_select => index::mask_select;
        bool_mask_where => eager::select;
        bool_mask_fill => eager::mask_fill;
    }

    async fn bool_argwhere(tensor: RocmTensor, out_dtype: IntDType) -> RocmTensor {
        out(index::argwhere(tensor.as_inner(), int_dtype(out_dtype)))
    }

    bool_methods!();

    fn bool_equal(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
        bools(lhs.store(), eager::compare(Compare::Eq, lhs.as_inner(), rhs.as_inner()))
    }

    fn bool_equal_elem(lhs: RocmTensor, rhs: Scalar) -> RocmTensor {
        bools(lhs.store(), eager::compare_scalar(Compare::Eq, lhs.as_inner(), scalar(rhs)))
    }

    fn bool_not_equal(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
        bools(lhs.store(), eager::compare(Compare::Ne, lhs.as_inner(), rhs.as_inner()))
    }

    fn bool_not_equal_elem(lhs: RocmTensor, rhs: Scalar) -> RocmTensor {
        bools(lhs.store(), eager::compare_scalar(Compare::Ne, lhs.as_inner(), scalar(rhs)))
    }

    fn bool_not(tensor: RocmTensor) -> RocmTensor {
        bools(tensor.store(), eager::unary(Unary::Not, tensor.as_inner()))
    }

    binary! { bool_and => And, bool_or => Or, bool_xor => Xor }

    fn bool_any(tensor: RocmTensor) -> RocmTensor {
        bools(tensor.store(), reduce::all(Reduce::Any, tensor.as_inner()))
    }

    fn bool_any_dim(tensor: RocmTensor, dim: usize) -> RocmTensor {
        bools(tensor.store(), reduce::axis(Reduce::Any, tensor.as_inner(), dim))
    }

    fn bool_all(tensor: RocmTensor) -> RocmTensor {
        bools(tensor.store(), reduce::all(Reduce::All, tensor.as_inner()))
    }

    fn bool_all_dim(tensor: RocmTensor, dim: usize) -> RocmTensor {
        bools(tensor.store(), reduce::axis(Reduce::All, tensor.as_inner(), dim))
    }
}
