//! `BoolTensorOps`.

use burn_backend::read_sync;

use super::operators;

operators! { p, device;
    bool_into_int(a: Bool) -> (Int) Rule::Cast(Kind::Int), Exact => B::bool_into_int(a, int(p.dtype));
    bool_into_float(a: Bool) -> (Float) Rule::Cast(Kind::Float), Exact => B::bool_into_float(a, float(p.dtype));
    bool_equal(a: Bool, b: Bool) -> (Bool) Rule::Elementwise, Exact => B::bool_equal(a, b);
    bool_equal_elem(a: Bool) -> (Bool) Rule::Scalar, Exact => B::bool_equal_elem(a, scalar(p.scalar));
    bool_not_equal(a: Bool, b: Bool) -> (Bool) Rule::Elementwise, Exact => B::bool_not_equal(a, b);
    bool_not_equal_elem(a: Bool) -> (Bool) Rule::Scalar, Exact => B::bool_not_equal_elem(a, scalar(p.scalar));
    bool_not(a: Bool) -> (Bool) Rule::Elementwise, Exact => B::bool_not(a);
    bool_and(a: Bool, b: Bool) -> (Bool) Rule::Elementwise, Exact => B::bool_and(a, b);
    bool_or(a: Bool, b: Bool) -> (Bool) Rule::Elementwise, Exact => B::bool_or(a, b);
    bool_xor(a: Bool, b: Bool) -> (Bool) Rule::Elementwise, Exact => B::bool_xor(a, b);
    bool_swap_dims(a: Bool) -> (Bool) Rule::Swap, Exact => B::bool_swap_dims(a, p.axis, p.axis2);
    bool_transpose(a: Bool) -> (Bool) Rule::Swap, Exact => B::bool_transpose(a);
    bool_permute(a: Bool) -> (Bool) Rule::Permute, Exact => B::bool_permute(a, &p.axes);
    bool_flip(a: Bool) -> (Bool) Rule::Flip, Exact => B::bool_flip(a, &p.axes);
    bool_reshape(a: Bool) -> (Bool) Rule::Reshape, Exact => B::bool_reshape(a, shape(&p.shape));
    bool_expand(a: Bool) -> (Bool) Rule::Expand, Exact => B::bool_expand(a, shape(&p.shape));
    bool_slice(a: Bool) -> (Bool) Rule::Slice, Exact => B::bool_slice(a, &slices(&p.slices));
    bool_slice_assign(a: Bool, b: Bool) -> (Bool) Rule::SliceAssign, Exact => B::bool_slice_assign(a, &slices(&p.slices), b);
    bool_unfold(a: Bool) -> (Bool) Rule::Unfold, Exact => B::bool_unfold(a, p.axis, p.size, p.step);
    bool_repeat_dim(a: Bool) -> (Bool) Rule::Repeat, Exact => B::bool_repeat_dim(a, p.axis, p.size);
    bool_cat(a: Bool, b: Bool) -> (Bool) Rule::Cat, Exact => B::bool_cat(vec![a, b], p.axis);
    bool_gather(a: Bool, b: Int) -> (Bool) Rule::Gather, Exact => B::bool_gather(p.axis, a, b);
    bool_scatter_or(a: Bool, b: Int, c: Bool) -> (Bool) Rule::Scatter, Exact => B::bool_scatter_or(p.axis, a, b, c);
    bool_select(a: Bool, b: Int) -> (Bool) Rule::Select, Exact => B::bool_select(a, p.axis, b);
    bool_select_or(a: Bool, b: Int, c: Bool) -> (Bool) Rule::SelectAssign, Exact => B::bool_select_or(a, p.axis, b, c);
    bool_mask_where(a: Bool, b: Bool, c: Bool) -> (Bool) Rule::MaskWhere, Exact => B::bool_mask_where(a, b, c);
    bool_mask_fill(a: Bool, b: Bool) -> (Bool) Rule::MaskFill, Exact => B::bool_mask_fill(a, b, scalar(p.scalar));
    bool_mask_select(a: Bool, b: Bool) -> (Bool) Rule::MaskFill, Exact => read_sync(B::bool_mask_select(a, b));
    bool_any(a: Bool) -> (Bool) Rule::Elementwise, Exact => B::bool_any(a);
    bool_any_dim(a: Bool) -> (Bool) Rule::Axis, Exact => B::bool_any_dim(a, p.axis);
    bool_all(a: Bool) -> (Bool) Rule::Elementwise, Exact => B::bool_all(a);
    bool_all_dim(a: Bool) -> (Bool) Rule::Axis, Exact => B::bool_all_dim(a, p.axis);
    bool_argwhere(a: Bool) -> (Int) Rule::Axis, Exact => read_sync(B::bool_argwhere(a, int(p.index)));
    bool_zeros() -> (Bool) Rule::Create, Exact => B::bool_zeros(shape(&p.shape), device, NATIVE);
    bool_ones() -> (Bool) Rule::Create, Exact => B::bool_ones(shape(&p.shape), device, NATIVE);
}
