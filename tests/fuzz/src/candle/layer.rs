//! Products, convolutions, pools, norms and rotary embeddings.

use candle_core::D;
use candle_nn::{ops, rotary_emb};

use super::operators;

operators! { p, device;
    matmul(a: Float, b: Float) -> (Float) Rule::Matmul, Sum => a.broadcast_matmul(b);
    matmul_of_contiguous(a: Float, b: Float) -> (Float) Rule::Matmul, Sum => a.contiguous()?.matmul(&b.contiguous()?);
    conv1d(a: Float, b: Float) -> (Float) Rule::Conv(1), Sum =>
        // Of weights that are no block Candle makes a copy, and multiplies by what it copied (known.rs).
        a.conv1d(&b.contiguous()?, p.window.padding[0], p.window.stride[0], p.window.dilation[0], p.window.groups);
    conv2d(a: Float, b: Float) -> (Float) Rule::Conv(2), Sum =>
        a.conv2d(b, p.window.padding[0], p.window.stride[0], p.window.dilation[0], p.window.groups);
    conv_transpose1d(a: Float, b: Float) -> (Float) Rule::ConvTranspose(1), SumOfRounded => a.conv_transpose1d(
        b, p.window.padding[0], p.window.extra[0], p.window.stride[0], p.window.dilation[0], p.window.groups);
    conv_transpose2d(a: Float, b: Float) -> (Float) Rule::ConvTranspose(2), Sum =>
        a.conv_transpose2d(b, p.window.padding[0], p.window.extra[0], p.window.stride[0], p.window.dilation[0]);
    avg_pool2d(a: Float) -> (Float) Rule::Pool(2), Sum => a.avg_pool2d_with_stride(
        (p.window.kernel[0], p.window.kernel[1]), (p.window.stride[0], p.window.stride[1]));
    max_pool2d(a: Float) -> (Float) Rule::Pool(2), Exact => a.max_pool2d_with_stride(
        (p.window.kernel[0], p.window.kernel[1]), (p.window.stride[0], p.window.stride[1]));
    upsample_nearest2d(a: Float) -> (Float) Rule::Resize(2), Exact => a.upsample_nearest2d(p.shape[0], p.shape[1]);
    upsample_bilinear2d(a: Float) -> (Float) Rule::Resize(2), Conditioned => a.upsample_bilinear2d(p.shape[0], p.shape[1], p.flag);
    embedding(a: Float, b: Int) -> (Float) Rule::Embedding, Exact => a.embedding(&b.flatten_all()?);
    softmax(a: Float) -> (Float) Rule::AxisOfSome, Conditioned => ops::softmax(a, p.axis);
    softmax_last_dim(a: Float) -> (Float) Rule::AxisOfSome, Conditioned => ops::softmax_last_dim(&a.contiguous()?);
    log_softmax(a: Float) -> (Float) Rule::AxisOfSome, Conditioned => ops::log_softmax(a, D::Minus1);
    sigmoid(a: Float) -> (Float) Rule::Elementwise, Units(8.0) => ops::sigmoid(a);
    hard_sigmoid(a: Float) -> (Float) Rule::Elementwise, Conditioned => ops::hard_sigmoid(a);
    leaky_relu(a: Float) -> (Float) Rule::Scalar, Conditioned => ops::leaky_relu(a, plain(p.scalar));
    rms_norm(a: Float, b: Float) -> (Float) Rule::Norm, Conditioned => ops::rms_norm(&a.contiguous()?, &b.contiguous()?, 1e-3);
    layer_norm(a: Float, b: Float, c: Float) -> (Float) Rule::Norm, Conditioned =>
        ops::layer_norm(&a.contiguous()?, &b.contiguous()?, &c.contiguous()?, 1e-3);
    rope(a: Float, b: Float, c: Float) -> (Float) Rule::Rotary, Conditioned =>
        rotary_emb::rope(&a.contiguous()?, &b.contiguous()?, &c.contiguous()?);
    rope_i(a: Float, b: Float, c: Float) -> (Float) Rule::Rotary, Conditioned =>
        rotary_emb::rope_i(&a.contiguous()?, &b.contiguous()?, &c.contiguous()?);
}
