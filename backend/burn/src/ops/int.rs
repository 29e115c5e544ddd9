//! Burn's integer operators.
//!
//! Arithmetic wraps; division truncates, and by zero gives 0 instead of a trap; remainders take the divisor's sign; shift
//! counts are taken modulo the width.

use std::ops::Range;

use burn_backend::ops::IntTensorOps;
use burn_backend::{Distribution, ExecutionError, Scalar, Shape, Slice, TensorData};
use burn_std::{BoolDType, BoolStore, FloatDType, IndexingUpdateOp, IntDType};
use rocfire_fusion::{Binary, Compare, Reduce, Unary, eager};

use super::elementwise::scalar;
use super::rows::{along_axis, compare, of_any_kind, of_numbers, over_all, tests, unary};
use super::sort::Sort;
use super::{
    bools, elementwise, float_dtype, index, int_dtype, matmul, memory, out, pair, random, reduce, scan, sort, view,
};
use crate::error::OrPanic;
use crate::{Rocm, RocmDevice, RocmTensor};

macro_rules! binary {
    ($($name:ident, $with_scalar:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
            out(eager::binary_reusing(Binary::$op, lhs.into_inner(), rhs.into_inner()))
        }

        fn $with_scalar(lhs: RocmTensor, rhs: Scalar) -> RocmTensor {
            out(eager::binary_scalar_reusing(Binary::$op, lhs.into_inner(), scalar(rhs)))
        }
    )+ };
}

impl IntTensorOps<Rocm> for Rocm {
    fn int_from_data(data: TensorData, device: &RocmDevice) -> RocmTensor {
        let dtype = data.dtype();
        memory::require_kind("int_from_data", "an integer", dtype, dtype.is_int() || dtype.is_uint()).or_panic();
        out(memory::from_data(&data, device))
    }

    fn int_random(shape: Shape, distribution: Distribution, device: &RocmDevice, dtype: IntDType) -> RocmTensor {
        out(random::random(&shape, distribution, device, int_dtype(dtype)))
    }

    fn int_zeros(shape: Shape, device: &RocmDevice, dtype: IntDType) -> RocmTensor {
        Self::int_full(shape, Scalar::Int(0), device, dtype)
    }

    fn int_ones(shape: Shape, device: &RocmDevice, dtype: IntDType) -> RocmTensor {
        Self::int_full(shape, Scalar::Int(1), device, dtype)
    }

    fn int_full(shape: Shape, fill_value: Scalar, device: &RocmDevice, dtype: IntDType) -> RocmTensor {
        let device = device.open().or_panic();
        out(memory::full(&device, &shape, int_dtype(dtype), scalar(fill_value)))
    }

    fn int_empty(shape: Shape, device: &RocmDevice, dtype: IntDType) -> RocmTensor {
        out(memory::empty(&device.open().or_panic(), &shape, int_dtype(dtype)))
    }

    fn int_arange_step(range: Range<i64>, step: usize, device: &RocmDevice, dtype: IntDType) -> RocmTensor {
        let extent = range.end.saturating_sub(range.start).max(0) as u64;
        let count = extent.div_ceil(step as u64) as usize;
        let device = device.open().or_panic();
        out(elementwise::arange(&device, range.start, step as i64, count, int_dtype(dtype)))
    }

    async fn int_into_data(tensor: RocmTensor) -> Result<TensorData, ExecutionError> {
        memory::into_data(tensor.as_inner())
    }

    fn int_to_device(tensor: RocmTensor, device: &RocmDevice) -> RocmTensor {
        out(memory::to_device(tensor.as_inner(), device))
    }

    fn int_into_float(tensor: RocmTensor, out_dtype: FloatDType) -> RocmTensor {
        out(memory::cast(tensor.as_inner(), float_dtype(out_dtype)))
    }

    fn int_cast(tensor: RocmTensor, dtype: IntDType) -> RocmTensor {
        out(memory::cast(tensor.as_inner(), int_dtype(dtype)))
    }

    unary! { int_neg: Neg => Neg; int_abs: Abs => Abs; int_sign: Sign => Sign; bitwise_not: BitwiseNot => Not; }

    binary! {
        int_add, int_add_scalar => Add,
        int_sub, int_sub_scalar => Sub,
        int_mul, int_mul_scalar => Mul,
        int_div, int_div_scalar => Div,
        int_remainder, int_remainder_scalar => Rem,
        int_powi, int_powi_scalar_impl => Pow,
        bitwise_and, bitwise_and_scalar => And,
        bitwise_or, bitwise_or_scalar => Or,
        bitwise_xor, bitwise_xor_scalar => Xor,
        bitwise_left_shift, bitwise_left_shift_scalar => Shl,
        bitwise_right_shift, bitwise_right_shift_scalar => Shr,
    }

    compare! {
        int_equal, int_equal_elem => Eq,
        int_not_equal, int_not_equal_elem => Ne,
        int_greater, int_greater_elem => Gt,
        int_greater_equal, int_greater_equal_elem => Ge,
        int_lower, int_lower_elem => Lt,
        int_lower_equal, int_lower_equal_elem => Le,
    }

    along_axis! {
        int_sum_dim => reduce::axis, Reduce::Sum;
        int_mean_dim => reduce::axis, Reduce::Mean;
        int_prod_dim => reduce::axis, Reduce::Prod;
        int_max_dim => reduce::axis, Reduce::Max;
        int_min_dim => reduce::axis, Reduce::Min;
        int_cumsum => scan::cumulative, scan::Op::Sum;
        int_cumprod => scan::cumulative, scan::Op::Prod;
        int_cummin => scan::cumulative, scan::Op::Min;
        int_cummax => scan::cumulative, scan::Op::Max;
    }

    over_all! { int_sum => Sum, int_mean => Mean, int_prod => Prod, int_max => Max, int_min => Min }

    fn int_clamp_min(tensor: RocmTensor, min: Scalar) -> RocmTensor {
        out(eager::binary_scalar_reusing(Binary::Max, tensor.into_inner(), scalar(min)))
    }

    fn int_clamp_max(tensor: RocmTensor, max: Scalar) -> RocmTensor {
        out(eager::binary_scalar_reusing(Binary::Min, tensor.into_inner(), scalar(max)))
    }

    of_any_kind! {
        int_swap_dims => view::swap;
        int_permute => view::permute;
        int_flip => view::flip;
        int_reshape => view::reshape;
        int_expand => view::expand;
        int_unfold => view::windows;
        int_slice => view::slice;
        int_slice_assign => memory::slice_assign;
        int_cat => memory::cat;
        int_repeat_dim => memory::repeat;
        int_gather => index::gather;
        int_select => index::select;
        int_mask_select => index::mask_select;
        int_mask_where => eager::select;
        int_mask_fill => eager::mask_fill;
    }

    of_numbers! {
        int_clamp => elementwise::clamp;
        int_matmul => matmul::matmul;
        int_scatter => index::scatter;
        int_select_assign => index::select_assign;
        int_gather_nd => index::gather_nd;
        int_scatter_nd => index::scatter_nd;
        int_max_abs => reduce::max_abs;
        int_max_abs_dim => reduce::max_abs_along;
    }

    tests! {
        int_any, int_any_dim => reduce::any;
        int_all, int_all_dim => reduce::every;
    }

    fn int_argmax(tensor: RocmTensor, dim: usize) -> RocmTensor {
        let dtype = tensor.as_inner().dtype();
        out(scan::arg(scan::Extreme::Max, tensor.as_inner(), dim, dtype))
    }

    fn int_argmin(tensor: RocmTensor, dim: usize) -> RocmTensor {
        let dtype = tensor.as_inner().dtype();
        out(scan::arg(scan::Extreme::Min, tensor.as_inner(), dim, dtype))
    }

    fn int_max_dim_with_indices(tensor: RocmTensor, dim: usize) -> (RocmTensor, RocmTensor) {
        let dtype = tensor.as_inner().dtype();
        pair(scan::with_indices(scan::Extreme::Max, tensor.as_inner(), dim, dtype))
    }

    fn int_min_dim_with_indices(tensor: RocmTensor, dim: usize) -> (RocmTensor, RocmTensor) {
        let dtype = tensor.as_inner().dtype();
        pair(scan::with_indices(scan::Extreme::Min, tensor.as_inner(), dim, dtype))
    }

    fn int_sort(tensor: RocmTensor, dim: usize, descending: bool) -> RocmTensor {
        out(sort::values(tensor.as_inner(), Sort::all(dim, descending)))
    }

    fn int_sort_with_indices(tensor: RocmTensor, dim: usize, descending: bool) -> (RocmTensor, RocmTensor) {
        let dtype = tensor.as_inner().dtype();
        pair(sort::both(tensor.as_inner(), Sort::all(dim, descending), dtype))
    }

    fn int_argsort(tensor: RocmTensor, dim: usize, descending: bool) -> RocmTensor {
        let dtype = tensor.as_inner().dtype();
        out(sort::places(tensor.as_inner(), Sort::all(dim, descending), dtype))
    }

    fn int_topk(tensor: RocmTensor, dim: usize, k: usize) -> RocmTensor {
        out(sort::values(tensor.as_inner(), Sort::top(dim, k)))
    }

    fn int_topk_with_indices(tensor: RocmTensor, dim: usize, k: usize) -> (RocmTensor, RocmTensor) {
        let dtype = tensor.as_inner().dtype();
        pair(sort::both(tensor.as_inner(), Sort::top(dim, k), dtype))
    }

    fn int_argtopk(tensor: RocmTensor, dim: usize, k: usize) -> RocmTensor {
        let dtype = tensor.as_inner().dtype();
        out(sort::places(tensor.as_inner(), Sort::top(dim, k), dtype))
    }
}
