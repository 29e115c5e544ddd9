//! Burn's float operators.
//!
//! Every method is a line: what it does is in the modules it calls. Where Burn composes several operators that we run in
//! one launch (`sign`, `clamp`, tests over an axis), and where it goes through the host (sorting, selecting by a mask), its
//! default is overridden.

use burn_backend::ops::FloatTensorOps;
use burn_backend::{Distribution, ExecutionError, Scalar, Shape, Slice, TensorData};
use burn_std::{BoolDType, BoolStore, FloatDType, IndexingUpdateOp, IntDType};
use rocfire_fusion::{Binary, Compare, Reduce, Unary, eager};

use super::elementwise::scalar;
use super::rows::{along_axis, compare, float_unary, of_any_kind, of_numbers, over_all, tests, unary};
use super::sort::Sort;
use super::{
    bools, elementwise, float_dtype, index, int_dtype, matmul, memory, out, pair, random, reduce, scan, sort, view,
};
use crate::error::OrPanic;
use crate::version::float_methods;
use crate::{Rocm, RocmDevice, RocmTensor};

macro_rules! binary {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
            out(eager::binary_reusing(Binary::$op, lhs.into_inner(), rhs.into_inner()))
        }
    )+ };
}

macro_rules! binary_scalar {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: Scalar) -> RocmTensor {
            out(eager::binary_scalar_reusing(Binary::$op, lhs.into_inner(), scalar(rhs)))
        }
    )+ };
}

impl FloatTensorOps<Rocm> for Rocm {
    fn float_from_data(data: TensorData, device: &RocmDevice) -> RocmTensor {
        let dtype = data.dtype();
        memory::require_kind("float_from_data", "a float", dtype, dtype.is_float()).or_panic();
        out(memory::from_data(&data, device))
    }

    fn float_random(shape: Shape, distribution: Distribution, device: &RocmDevice, dtype: FloatDType) -> RocmTensor {
        out(random::random(&shape, distribution, device, float_dtype(dtype)))
    }

    fn float_zeros(shape: Shape, device: &RocmDevice, dtype: FloatDType) -> RocmTensor {
        Self::float_full(shape, Scalar::Int(0), device, dtype)
    }

    fn float_ones(shape: Shape, device: &RocmDevice, dtype: FloatDType) -> RocmTensor {
        Self::float_full(shape, Scalar::Int(1), device, dtype)
    }

    fn float_full(shape: Shape, fill_value: Scalar, device: &RocmDevice, dtype: FloatDType) -> RocmTensor {
        let device = device.open().or_panic();
        out(memory::full(&device, &shape, float_dtype(dtype), scalar(fill_value)))
    }

    fn float_empty(shape: Shape, device: &RocmDevice, dtype: FloatDType) -> RocmTensor {
        out(memory::empty(&device.open().or_panic(), &shape, float_dtype(dtype)))
    }

    async fn float_into_data(tensor: RocmTensor) -> Result<TensorData, ExecutionError> {
        memory::into_data(tensor.as_inner())
    }

    fn float_to_device(tensor: RocmTensor, device: &RocmDevice) -> RocmTensor {
        out(memory::to_device(tensor.as_inner(), device))
    }

    fn float_into_int(tensor: RocmTensor, out_dtype: IntDType) -> RocmTensor {
        out(memory::cast(tensor.as_inner(), int_dtype(out_dtype)))
    }

    fn float_cast(tensor: RocmTensor, dtype: FloatDType) -> RocmTensor {
        out(memory::cast(tensor.as_inner(), float_dtype(dtype)))
    }

    unary! { float_neg: Neg => Neg; float_abs: Abs => Abs; }
    float_unary!(unary);

    binary! {
        float_add => Add, float_sub => Sub, float_mul => Mul, float_div => Div, float_remainder => Rem,
        float_powf => Pow, float_atan2 => Atan2, float_hypot => Hypot,
    }

    binary_scalar! {
        float_add_scalar => Add, float_sub_scalar => Sub, float_mul_scalar => Mul, float_div_scalar => Div,
        float_remainder_scalar => Rem, float_powf_scalar_impl => Pow, float_clamp_min => Max, float_clamp_max => Min,
    }

    float_methods!();

    compare! {
        float_equal, float_equal_elem => Eq,
        float_not_equal, float_not_equal_elem => Ne,
        float_greater, float_greater_elem => Gt,
        float_greater_equal, float_greater_equal_elem => Ge,
        float_lower, float_lower_elem => Lt,
        float_lower_equal, float_lower_equal_elem => Le,
    }

    along_axis! {
        float_sum_dim => reduce::axis, Reduce::Sum;
        float_mean_dim => reduce::axis, Reduce::Mean;
        float_prod_dim => reduce::axis, Reduce::Prod;
        float_max_dim => reduce::axis, Reduce::Max;
        float_min_dim => reduce::axis, Reduce::Min;
        float_cumsum => scan::cumulative, scan::Op::Sum;
        float_cumprod => scan::cumulative, scan::Op::Prod;
        float_cummin => scan::cumulative, scan::Op::Min;
        float_cummax => scan::cumulative, scan::Op::Max;
    }

    over_all! {
        float_sum => Sum, float_mean => Mean, float_prod => Prod, float_max => Max, float_min => Min,
    }

    fn float_sum_dims(tensor: RocmTensor, dims: &[usize]) -> RocmTensor {
        out(reduce::sum_axes(tensor.as_inner(), dims))
    }

    fn float_sign(tensor: RocmTensor) -> RocmTensor {
        out(elementwise::sign(tensor.as_inner()))
    }

    fn float_is_nan(tensor: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
        bools(out_dtype, eager::unary(Unary::IsNan, tensor.as_inner()))
    }

    fn float_is_inf(tensor: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
        bools(out_dtype, eager::unary(Unary::IsInf, tensor.as_inner()))
    }

    fn float_cross(lhs: RocmTensor, rhs: RocmTensor, dim: usize) -> RocmTensor {
        out(elementwise::cross(lhs.as_inner(), rhs.as_inner(), dim))
    }

    of_any_kind! {
        float_swap_dims => view::swap;
        float_permute => view::permute;
        float_flip => view::flip;
        float_reshape => view::reshape;
        float_expand => view::expand;
        float_unfold => view::windows;
        float_slice => view::slice;
        float_slice_assign => memory::slice_assign;
        float_cat => memory::cat;
        float_repeat_dim => memory::repeat;
        float_gather => index::gather;
        float_select => index::select;
        float_mask_select => index::mask_select;
        float_mask_where => eager::select;
        float_mask_fill => eager::mask_fill;
    }

    of_numbers! {
        float_clamp => elementwise::clamp;
        float_matmul => matmul::matmul;
        float_scatter => index::scatter;
        float_select_assign => index::select_assign;
        float_gather_nd => index::gather_nd;
        float_scatter_nd => index::scatter_nd;
        float_max_abs => reduce::max_abs;
        float_max_abs_dim => reduce::max_abs_along;
    }

    tests! {
        float_any, float_any_dim => reduce::any;
        float_all, float_all_dim => reduce::every;
    }

    fn float_argmax(tensor: RocmTensor, dim: usize, out_dtype: IntDType) -> RocmTensor {
        out(scan::arg(scan::Extreme::Max, tensor.as_inner(), dim, int_dtype(out_dtype)))
    }

    fn float_argmin(tensor: RocmTensor, dim: usize, out_dtype: IntDType) -> RocmTensor {
        out(scan::arg(scan::Extreme::Min, tensor.as_inner(), dim, int_dtype(out_dtype)))
    }

    fn float_max_dim_with_indices(tensor: RocmTensor, dim: usize, dtype: IntDType) -> (RocmTensor, RocmTensor) {
        pair(scan::with_indices(scan::Extreme::Max, tensor.as_inner(), dim, int_dtype(dtype)))
    }

    fn float_min_dim_with_indices(tensor: RocmTensor, dim: usize, dtype: IntDType) -> (RocmTensor, RocmTensor) {
        pair(scan::with_indices(scan::Extreme::Min, tensor.as_inner(), dim, int_dtype(dtype)))
    }

    fn float_sort(tensor: RocmTensor, dim: usize, descending: bool) -> RocmTensor {
        out(sort::values(tensor.as_inner(), Sort::all(dim, descending)))
    }

    fn float_sort_with_indices(
        tensor: RocmTensor,
        dim: usize,
        descending: bool,
        dtype: IntDType,
    ) -> (RocmTensor, RocmTensor) {
        pair(sort::both(tensor.as_inner(), Sort::all(dim, descending), int_dtype(dtype)))
    }

    fn float_argsort(tensor: RocmTensor, dim: usize, descending: bool, out_dtype: IntDType) -> RocmTensor {
        out(sort::places(tensor.as_inner(), Sort::all(dim, descending), int_dtype(out_dtype)))
    }

    fn float_topk(tensor: RocmTensor, dim: usize, k: usize) -> RocmTensor {
        out(sort::values(tensor.as_inner(), Sort::top(dim, k)))
    }

    fn float_topk_with_indices(
        tensor: RocmTensor,
        dim: usize,
        k: usize,
        out_dtype: IntDType,
    ) -> (RocmTensor, RocmTensor) {
        pair(sort::both(tensor.as_inner(), Sort::top(dim, k), int_dtype(out_dtype)))
    }

    fn float_argtopk(tensor: RocmTensor, dim: usize, k: usize, out_dtype: IntDType) -> RocmTensor {
        out(sort::places(tensor.as_inner(), Sort::top(dim, k), int_dtype(out_dtype)))
    }
}
