//! Burn's float operators.
//!
//! Every method is a line: what it does is in the modules it calls. Where Burn composes several operators that we run in
//! one launch (`sign`, `clamp`, tests over an axis), and where it goes through the host (sorting, selecting by a mask), its
//! default is overridden.

use burn_backend::ops::FloatTensorOps;
use burn_backend::{Distribution, ExecutionError, Scalar, Shape, Slice, TensorData};
use burn_std::{BoolDType, FloatDType, IndexingUpdateOp, IntDType};
use rocfire_fusion::{Binary, Compare, Reduce, Unary};

use super::elementwise::scalar;
use super::sort::Sort;
use super::{
    bools, elementwise, float_dtype, index, int_dtype, matmul, memory, out, pair, random, reduce, scan, sort, view,
};
use crate::error::OrPanic;
use crate::{Rocm, RocmDevice, RocmTensor};

macro_rules! unary {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(tensor: RocmTensor) -> RocmTensor {
            out(elementwise::unary_last(Unary::$op, tensor.into_inner()))
        }
    )+ };
}

macro_rules! binary {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
            out(elementwise::binary_last(Binary::$op, lhs.into_inner(), rhs.into_inner()))
        }
    )+ };
}

macro_rules! binary_scalar {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: Scalar) -> RocmTensor {
            out(elementwise::binary_scalar_last(Binary::$op, lhs.into_inner(), scalar(rhs)))
        }
    )+ };
}

macro_rules! compare {
    ($($name:ident, $elem:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
            bools(out_dtype, elementwise::compare(Compare::$op, lhs.as_inner(), rhs.as_inner()))
        }

        fn $elem(lhs: RocmTensor, rhs: Scalar, out_dtype: BoolDType) -> RocmTensor {
            bools(out_dtype, elementwise::compare_scalar(Compare::$op, lhs.as_inner(), scalar(rhs)))
        }
    )+ };
}

macro_rules! along_axis {
    ($($name:ident => $function:path, $op:expr);+ $(;)?) => { $(
        fn $name(tensor: RocmTensor, dim: usize) -> RocmTensor {
            out($function($op, tensor.as_inner(), dim))
        }
    )+ };
}

macro_rules! over_all {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(tensor: RocmTensor) -> RocmTensor {
            out(reduce::all(Reduce::$op, tensor.as_inner()))
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

    unary! {
        float_neg => Neg, float_recip => Recip, float_exp => Exp, float_log => Log, float_log1p => Log1p,
        float_sqrt => Sqrt, float_abs => Abs, float_cos => Cos, float_sin => Sin, float_tan => Tan, float_cosh => Cosh,
        float_sinh => Sinh, float_tanh => Tanh, float_acos => Acos, float_acosh => Acosh, float_asin => Asin,
        float_asinh => Asinh, float_atan => Atan, float_atanh => Atanh, float_round => Round, float_floor => Floor,
        float_ceil => Ceil, float_trunc => Trunc, float_erf => Erf,
    }

    binary! {
        float_add => Add, float_sub => Sub, float_mul => Mul, float_div => Div, float_remainder => Rem,
        float_powf => Pow, float_atan2 => Atan2, float_hypot => Hypot,
    }

    binary_scalar! {
        float_add_scalar => Add, float_sub_scalar => Sub, float_mul_scalar => Mul, float_div_scalar => Div,
        float_remainder_scalar => Rem, float_powf_scalar_impl => Pow, float_clamp_min => Max, float_clamp_max => Min,
    }

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

    fn float_clamp(tensor: RocmTensor, min: Scalar, max: Scalar) -> RocmTensor {
        out(elementwise::clamp(tensor.as_inner(), scalar(min), scalar(max)))
    }

    fn float_sign(tensor: RocmTensor) -> RocmTensor {
        out(elementwise::sign(tensor.as_inner()))
    }

    fn float_is_nan(tensor: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
        bools(out_dtype, elementwise::unary(Unary::IsNan, tensor.as_inner()))
    }

    fn float_is_inf(tensor: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
        bools(out_dtype, elementwise::unary(Unary::IsInf, tensor.as_inner()))
    }

    fn float_matmul(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
        out(matmul::matmul(lhs.as_inner(), rhs.as_inner()))
    }

    fn float_cross(lhs: RocmTensor, rhs: RocmTensor, dim: usize) -> RocmTensor {
        out(elementwise::cross(lhs.as_inner(), rhs.as_inner(), dim))
    }

    fn float_swap_dims(tensor: RocmTensor, dim1: usize, dim2: usize) -> RocmTensor {
        out(view::swap(tensor.as_inner(), dim1, dim2))
    }

    fn float_permute(tensor: RocmTensor, axes: &[usize]) -> RocmTensor {
        out(view::permute(tensor.as_inner(), axes))
    }

    fn float_flip(tensor: RocmTensor, axes: &[usize]) -> RocmTensor {
        out(view::flip(tensor.as_inner(), axes))
    }

    fn float_reshape(tensor: RocmTensor, shape: Shape) -> RocmTensor {
        out(view::reshape(tensor.as_inner(), &shape))
    }

    fn float_expand(tensor: RocmTensor, shape: Shape) -> RocmTensor {
        out(view::expand(tensor.as_inner(), &shape))
    }

    fn float_unfold(tensor: RocmTensor, dim: usize, size: usize, step: usize) -> RocmTensor {
        out(view::windows(tensor.as_inner(), dim, size, step, 1))
    }

    fn float_slice(tensor: RocmTensor, slices: &[Slice]) -> RocmTensor {
        out(view::slice(tensor.as_inner(), slices))
    }

    fn float_slice_assign(tensor: RocmTensor, slices: &[Slice], value: RocmTensor) -> RocmTensor {
        out(memory::slice_assign(tensor.into_inner(), slices, value.as_inner()))
    }

    fn float_cat(tensors: Vec<RocmTensor>, dim: usize) -> RocmTensor {
        out(memory::cat(&tensors.iter().map(RocmTensor::as_inner).collect::<Vec<_>>(), dim))
    }

    fn float_repeat_dim(tensor: RocmTensor, dim: usize, times: usize) -> RocmTensor {
        out(memory::repeat(tensor.as_inner(), dim, times))
    }

    fn float_gather(dim: usize, tensor: RocmTensor, indices: RocmTensor) -> RocmTensor {
        out(index::gather(tensor.as_inner(), dim, indices.as_inner()))
    }

    fn float_scatter(
        dim: usize,
        tensor: RocmTensor,
        indices: RocmTensor,
        value: RocmTensor,
        update: IndexingUpdateOp,
    ) -> RocmTensor {
        out(index::scatter(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), update))
    }

    fn float_gather_nd(data: RocmTensor, indices: RocmTensor) -> RocmTensor {
        out(index::gather_nd(data.as_inner(), indices.as_inner()))
    }

    fn float_scatter_nd(
        data: RocmTensor,
        indices: RocmTensor,
        values: RocmTensor,
        reduction: IndexingUpdateOp,
    ) -> RocmTensor {
        out(index::scatter_nd(data.as_inner(), indices.as_inner(), values.as_inner(), reduction))
    }

    fn float_select(tensor: RocmTensor, dim: usize, indices: RocmTensor) -> RocmTensor {
        out(index::select(tensor.as_inner(), dim, indices.as_inner()))
    }

    fn float_select_assign(
        tensor: RocmTensor,
        dim: usize,
        indices: RocmTensor,
        value: RocmTensor,
        update: IndexingUpdateOp,
    ) -> RocmTensor {
        out(index::select_assign(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), update))
    }

    async fn float_mask_select(tensor: RocmTensor, mask: RocmTensor) -> RocmTensor {
        out(index::mask_select(tensor.as_inner(), mask.as_inner()))
    }

    fn float_mask_where(tensor: RocmTensor, mask: RocmTensor, value: RocmTensor) -> RocmTensor {
        out(elementwise::select(mask.as_inner(), value.into_inner(), tensor.into_inner()))
    }

    fn float_mask_fill(tensor: RocmTensor, mask: RocmTensor, value: Scalar) -> RocmTensor {
        out(elementwise::mask_fill(tensor.into_inner(), mask.as_inner(), scalar(value)))
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

    fn float_max_abs(tensor: RocmTensor) -> RocmTensor {
        out(reduce::max_abs(tensor.as_inner(), None))
    }

    fn float_max_abs_dim(tensor: RocmTensor, dim: usize) -> RocmTensor {
        out(reduce::max_abs(tensor.as_inner(), Some(dim)))
    }

    fn float_any(tensor: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
        bools(out_dtype, reduce::any(tensor.as_inner(), None))
    }

    fn float_any_dim(tensor: RocmTensor, dim: usize, out_dtype: BoolDType) -> RocmTensor {
        bools(out_dtype, reduce::any(tensor.as_inner(), Some(dim)))
    }

    fn float_all(tensor: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
        bools(out_dtype, reduce::every(tensor.as_inner(), None))
    }

    fn float_all_dim(tensor: RocmTensor, dim: usize, out_dtype: BoolDType) -> RocmTensor {
        bools(out_dtype, reduce::every(tensor.as_inner(), Some(dim)))
    }
}
