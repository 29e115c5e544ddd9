//! Rows of which the operators of a kind are made: Burn's function, and what it calls. Burn has a function of its own for floats,
//! integers and bools where one of ours serves all.
//!
//! A row names a function by its module, which the file of the rows imports.

/// Operators of any kind. A result of bools carries the name of its first argument's store.
macro_rules! of_any_kind {
    ($($name:ident => $module:ident::$function:ident;)+) => { $(of_any_kind!(@$module $function $name);)+ };
    (@view swap $name:ident) => {
        fn $name(tensor: RocmTensor, dim1: usize, dim2: usize) -> RocmTensor {
            out(view::swap(tensor.as_inner(), dim1, dim2)).with_store(tensor.store())
        }
    };
    (@view permute $name:ident) => {
        fn $name(tensor: RocmTensor, axes: &[usize]) -> RocmTensor {
            out(view::permute(tensor.as_inner(), axes)).with_store(tensor.store())
        }
    };
    (@view flip $name:ident) => {
        fn $name(tensor: RocmTensor, axes: &[usize]) -> RocmTensor {
            out(view::flip(tensor.as_inner(), axes)).with_store(tensor.store())
        }
    };
    (@view reshape $name:ident) => {
        fn $name(tensor: RocmTensor, shape: Shape) -> RocmTensor {
            out(view::reshape(tensor.as_inner(), &shape)).with_store(tensor.store())
        }
    };
    (@view expand $name:ident) => {
        fn $name(tensor: RocmTensor, shape: Shape) -> RocmTensor {
            out(view::expand(tensor.as_inner(), &shape)).with_store(tensor.store())
        }
    };
    (@view windows $name:ident) => {
        fn $name(tensor: RocmTensor, dim: usize, size: usize, step: usize) -> RocmTensor {
            out(view::windows(tensor.as_inner(), dim, size, step, 1)).with_store(tensor.store())
        }
    };
    (@view slice $name:ident) => {
        fn $name(tensor: RocmTensor, slices: &[Slice]) -> RocmTensor {
            out(view::slice(tensor.as_inner(), slices)).with_store(tensor.store())
        }
    };
    (@memory slice_assign $name:ident) => {
        fn $name(tensor: RocmTensor, slices: &[Slice], value: RocmTensor) -> RocmTensor {
            let store = tensor.store();
            out(memory::slice_assign(tensor.into_inner(), slices, value.as_inner())).with_store(store)
        }
    };
    (@memory cat $name:ident) => {
        fn $name(tensors: Vec<RocmTensor>, dim: usize) -> RocmTensor {
            let store = tensors.first().map_or(BoolStore::Native, RocmTensor::store);
            out(memory::cat(&tensors.iter().map(RocmTensor::as_inner).collect::<Vec<_>>(), dim)).with_store(store)
        }
    };
    (@memory repeat $name:ident) => {
        fn $name(tensor: RocmTensor, dim: usize, times: usize) -> RocmTensor {
            out(memory::repeat(tensor.as_inner(), dim, times)).with_store(tensor.store())
        }
    };
    (@index gather $name:ident) => {
        fn $name(dim: usize, tensor: RocmTensor, indices: RocmTensor) -> RocmTensor {
            out(index::gather(tensor.as_inner(), dim, indices.as_inner())).with_store(tensor.store())
        }
    };
    (@index select $name:ident) => {
        fn $name(tensor: RocmTensor, dim: usize, indices: RocmTensor) -> RocmTensor {
            out(index::select(tensor.as_inner(), dim, indices.as_inner())).with_store(tensor.store())
        }
    };
    (@index mask_select $name:ident) => {
        async fn $name(tensor: RocmTensor, mask: RocmTensor) -> RocmTensor {
            out(index::mask_select(tensor.as_inner(), mask.as_inner())).with_store(tensor.store())
        }
    };
    (@eager select $name:ident) => {
        fn $name(tensor: RocmTensor, mask: RocmTensor, value: RocmTensor) -> RocmTensor {
            let store = tensor.store();
            out(eager::select_reusing(mask.as_inner(), value.into_inner(), tensor.into_inner())).with_store(store)
        }
    };
    (@eager mask_fill $name:ident) => {
        fn $name(tensor: RocmTensor, mask: RocmTensor, value: Scalar) -> RocmTensor {
            let store = tensor.store();
            out(eager::select_scalar_reusing(mask.as_inner(), scalar(value), tensor.into_inner())).with_store(store)
        }
    };
}

/// Operators of floats and of integers.
macro_rules! of_numbers {
    ($($name:ident => $module:ident::$function:ident;)+) => { $(of_numbers!(@$module $function $name);)+ };
    (@elementwise clamp $name:ident) => {
        fn $name(tensor: RocmTensor, min: Scalar, max: Scalar) -> RocmTensor {
            out(elementwise::clamp(tensor.as_inner(), scalar(min), scalar(max)))
        }
    };
    (@matmul matmul $name:ident) => {
        fn $name(lhs: RocmTensor, rhs: RocmTensor) -> RocmTensor {
            out(matmul::matmul(lhs.as_inner(), rhs.as_inner()))
        }
    };
    (@index scatter $name:ident) => {
        fn $name(
            dim: usize,
            tensor: RocmTensor,
            indices: RocmTensor,
            value: RocmTensor,
            update: IndexingUpdateOp,
        ) -> RocmTensor {
            out(index::scatter(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), update))
        }
    };
    (@index select_assign $name:ident) => {
        fn $name(
            tensor: RocmTensor,
            dim: usize,
            indices: RocmTensor,
            value: RocmTensor,
            update: IndexingUpdateOp,
        ) -> RocmTensor {
            out(index::select_assign(tensor.into_inner(), dim, indices.as_inner(), value.as_inner(), update))
        }
    };
    (@index gather_nd $name:ident) => {
        fn $name(data: RocmTensor, indices: RocmTensor) -> RocmTensor {
            out(index::gather_nd(data.as_inner(), indices.as_inner()))
        }
    };
    (@index scatter_nd $name:ident) => {
        fn $name(
            data: RocmTensor,
            indices: RocmTensor,
            values: RocmTensor,
            reduction: IndexingUpdateOp,
        ) -> RocmTensor {
            out(index::scatter_nd(data.as_inner(), indices.as_inner(), values.as_inner(), reduction))
        }
    };
    (@reduce max_abs $name:ident) => {
        fn $name(tensor: RocmTensor) -> RocmTensor {
            out(reduce::max_abs(tensor.as_inner(), None))
        }
    };
    (@reduce max_abs_along $name:ident) => {
        fn $name(tensor: RocmTensor, dim: usize) -> RocmTensor {
            out(reduce::max_abs(tensor.as_inner(), Some(dim)))
        }
    };
}

/// Questions about a whole tensor and about the lines of an axis.
macro_rules! tests {
    ($($whole:ident, $line:ident => $module:ident::$function:ident;)+) => { $(
        fn $whole(tensor: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
            bools(out_dtype, $module::$function(tensor.as_inner(), None))
        }

        fn $line(tensor: RocmTensor, dim: usize, out_dtype: BoolDType) -> RocmTensor {
            bools(out_dtype, $module::$function(tensor.as_inner(), Some(dim)))
        }
    )+ };
}

/// Operators of one tensor: Burn's function, Burn's operation, fusion's operator.
macro_rules! unary {
    ($($name:ident: $operation:ident => $op:ident;)+) => { $(
        fn $name(tensor: RocmTensor) -> RocmTensor {
            out(eager::unary_reusing(Unary::$op, tensor.into_inner()))
        }
    )+ };
}

/// Comparisons with a tensor and with a number.
macro_rules! compare {
    ($($name:ident, $elem:ident => $op:ident),+ $(,)?) => { $(
        fn $name(lhs: RocmTensor, rhs: RocmTensor, out_dtype: BoolDType) -> RocmTensor {
            bools(out_dtype, eager::compare(Compare::$op, lhs.as_inner(), rhs.as_inner()))
        }

        fn $elem(lhs: RocmTensor, rhs: Scalar, out_dtype: BoolDType) -> RocmTensor {
            bools(out_dtype, eager::compare_scalar(Compare::$op, lhs.as_inner(), scalar(rhs)))
        }
    )+ };
}

/// Reductions and running results along an axis.
macro_rules! along_axis {
    ($($name:ident => $function:path, $op:expr);+ $(;)?) => { $(
        fn $name(tensor: RocmTensor, dim: usize) -> RocmTensor {
            out($function($op, tensor.as_inner(), dim))
        }
    )+ };
}

/// Reductions of a whole tensor.
macro_rules! over_all {
    ($($name:ident => $op:ident),+ $(,)?) => { $(
        fn $name(tensor: RocmTensor) -> RocmTensor {
            out(reduce::all(Reduce::$op, tensor.as_inner()))
        }
    )+ };
}

/// Calls a macro with the float operators of one tensor, as [`unary`] takes them. Kernels' nodes are made of the same rows.
macro_rules! float_unary {
    ($rows:ident) => {
        $rows! {
            float_recip: Recip => Recip;
            float_exp: Exp => Exp;
            float_log: Log => Log;
            float_log1p: Log1p => Log1p;
            float_sqrt: Sqrt => Sqrt;
            float_cos: Cos => Cos;
            float_sin: Sin => Sin;
            float_tan: Tan => Tan;
            float_cosh: Cosh => Cosh;
            float_sinh: Sinh => Sinh;
            float_tanh: Tanh => Tanh;
            float_acos: ArcCos => Acos;
            float_acosh: ArcCosh => Acosh;
            float_asin: ArcSin => Asin;
            float_asinh: ArcSinh => Asinh;
            float_atan: ArcTan => Atan;
            float_atanh: ArcTanh => Atanh;
            float_round: Round => Round;
            float_floor: Floor => Floor;
            float_ceil: Ceil => Ceil;
            float_trunc: Trunc => Trunc;
            float_erf: Erf => Erf;
        }
    };
}

pub(crate) use float_unary;
pub(super) use {along_axis, compare, of_any_kind, of_numbers, over_all, tests, unary};
