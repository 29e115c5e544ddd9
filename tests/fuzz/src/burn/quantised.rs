//! `QTensorOps`: floats are quantised, and what an operator makes of the codes is read as floats. Moves are of tensors with one
//! scale, since those that cut blocks quantise anew, each backend at its own places;
//! so is argmax, which Flex takes of codes whatever their scales. Products of codes are scaled at their end: factors leave them room.

use super::operators;

operators! { p, device;
    q_dequantize(a: Float) -> (Float) Rule::Some, Exact => decoded::<B>(codes::<B>(a, &scheme(p.scheme)));
    q_quantize(a: Float) -> (Float) Rule::Some, Exact => decoded::<B>(codes_by_range::<B>(a, &scheme(p.scheme)));
    q_reshape(a: Float) -> (Float) Rule::Reshape, Exact => decoded::<B>(B::q_reshape(codes::<B>(a, &scheme(p.scheme % 6)), shape(&p.shape)));
    q_swap_dims(a: Float) -> (Float) Rule::Swap, Exact => decoded::<B>(B::q_swap_dims(codes::<B>(a, &scheme(p.scheme % 6)), p.axis, p.axis2));
    q_permute(a: Float) -> (Float) Rule::Permute, Exact => decoded::<B>(B::q_permute(codes::<B>(a, &scheme(p.scheme % 6)), &p.axes));
    q_flip(a: Float) -> (Float) Rule::Flip, Exact => decoded::<B>(B::q_flip(codes::<B>(a, &scheme(p.scheme % 6)), &p.axes));
    q_expand(a: Float) -> (Float) Rule::Expand, Exact => decoded::<B>(B::q_expand(codes::<B>(a, &scheme(p.scheme % 6)), shape(&p.shape)));
    q_slice(a: Float) -> (Float) Rule::Slice, Exact => decoded::<B>(B::q_slice(codes::<B>(a, &scheme(p.scheme % 6)), &slices(&p.slices)));
    q_select(a: Float, b: Int) -> (Float) Rule::Select, Exact => decoded::<B>(B::q_select(codes::<B>(a, &scheme(p.scheme % 6)), p.axis, b));
    q_gather(a: Float, b: Int) -> (Float) Rule::Gather, Exact => decoded::<B>(B::q_gather(p.axis, codes::<B>(a, &scheme(p.scheme % 6)), b));
    q_add(a: Float, b: Float) -> (Float) Rule::Same, Exact =>
        either::<B>(B::q_add(codes::<B>(a, &scheme(p.scheme)), codes::<B>(b, &scheme(p.scheme))));
    q_mul_scalar(a: Float) -> (Float) Rule::Scalar, Exact => either::<B>(B::q_mul_scalar(codes::<B>(a, &scheme(p.scheme)), scalar(p.scalar)));
    q_sum_dim(a: Float) -> (Float) Rule::AxisOfSome, Sum => either::<B>(B::q_sum_dim(codes::<B>(a, &scheme(p.scheme)), p.axis));
    q_argmax(a: Float) -> (Int) Rule::AxisOfSome, Exact => B::q_argmax(codes::<B>(a, &scheme(p.scheme % 6)), p.axis, int(p.index));
    q_matmul(a: Float, b: Float) -> (Float) Rule::Matmul, Sum => either::<B>(B::q_matmul(
        TensorPrimitive::Float(moderate::<B>(a)),
        TensorPrimitive::QFloat(codes::<B>(moderate::<B>(b), &scheme(p.scheme)))));
}
