//! `ModuleOps`. A gradient takes the operator's own result as the gradient of its output, but for that of batch normalisation.

use burn_backend::TensorMetadata;

use super::operators;

operators! { p, device;
    conv1d(a: Float, b: Float, c: Float) -> (Float) Rule::Conv(1), Sum => B::conv1d(a, b, Some(c), conv(p.window));
    conv2d(a: Float, b: Float, c: Float) -> (Float) Rule::Conv(2), Sum => B::conv2d(a, b, Some(c), conv(p.window));
    conv3d(a: Float, b: Float, c: Float) -> (Float) Rule::Conv(3), Sum => B::conv3d(a, b, Some(c), conv(p.window));
    conv_transpose1d(a: Float, b: Float, c: Float) -> (Float) Rule::ConvTranspose(1), Sum => B::conv_transpose1d(a, b, Some(c), conv_transpose(p.window));
    conv_transpose2d(a: Float, b: Float, c: Float) -> (Float) Rule::ConvTranspose(2), Sum => B::conv_transpose2d(a, b, Some(c), conv_transpose(p.window));
    conv_transpose3d(a: Float, b: Float, c: Float) -> (Float) Rule::ConvTranspose(3), Sum => B::conv_transpose3d(a, b, Some(c), conv_transpose(p.window));
    conv1d_x_backward(a: Float, b: Float) -> (Float) Rule::Conv(1), Conditioned =>
        B::conv1d_x_backward(a.clone(), b.clone(), B::conv1d(a, b, None, conv(p.window)), conv(p.window));
    conv1d_weight_backward(a: Float, b: Float) -> (Float) Rule::Conv(1), Conditioned =>
        B::conv1d_weight_backward(a.clone(), b.clone(), B::conv1d(a, b, None, conv(p.window)), conv(p.window));
    conv1d_bias_backward(a: Float, b: Float, c: Float) -> (Float) Rule::Conv(1), Conditioned =>
        B::conv1d_bias_backward(a.clone(), c, B::conv1d(a, b, None, conv(p.window)));
    conv2d_x_backward(a: Float, b: Float) -> (Float) Rule::Conv(2), Conditioned =>
        B::conv2d_x_backward(a.clone(), b.clone(), B::conv2d(a, b, None, conv(p.window)), conv(p.window));
    conv2d_weight_backward(a: Float, b: Float) -> (Float) Rule::Conv(2), Conditioned =>
        B::conv2d_weight_backward(a.clone(), b.clone(), B::conv2d(a, b, None, conv(p.window)), conv(p.window));
    conv2d_bias_backward(a: Float, b: Float, c: Float) -> (Float) Rule::Conv(2), Conditioned =>
        B::conv2d_bias_backward(a.clone(), c, B::conv2d(a, b, None, conv(p.window)));
    conv3d_x_backward(a: Float, b: Float) -> (Float) Rule::Conv(3), Conditioned =>
        B::conv3d_x_backward(a.clone(), b.clone(), B::conv3d(a, b, None, conv(p.window)), conv(p.window));
    conv3d_weight_backward(a: Float, b: Float) -> (Float) Rule::Conv(3), Conditioned =>
        B::conv3d_weight_backward(a.clone(), b.clone(), B::conv3d(a, b, None, conv(p.window)), conv(p.window));
    conv_transpose1d_x_backward(a: Float, b: Float) -> (Float) Rule::ConvTranspose(1), Conditioned =>
        B::conv_transpose1d_x_backward(b.clone(), B::conv_transpose1d(a, b, None, conv_transpose(p.window)), conv_transpose(p.window));
    conv_transpose1d_weight_backward(a: Float, b: Float) -> (Float) Rule::ConvTranspose(1), Conditioned =>
        B::conv_transpose1d_weight_backward(a.clone(), b.clone(), B::conv_transpose1d(a, b, None, conv_transpose(p.window)), conv_transpose(p.window));
    conv_transpose2d_x_backward(a: Float, b: Float) -> (Float) Rule::ConvTranspose(2), Conditioned =>
        B::conv_transpose2d_x_backward(b.clone(), B::conv_transpose2d(a, b, None, conv_transpose(p.window)), conv_transpose(p.window));
    conv_transpose2d_weight_backward(a: Float, b: Float) -> (Float) Rule::ConvTranspose(2), Conditioned =>
        B::conv_transpose2d_weight_backward(a.clone(), b.clone(), B::conv_transpose2d(a, b, None, conv_transpose(p.window)), conv_transpose(p.window));
    conv_transpose3d_x_backward(a: Float, b: Float) -> (Float) Rule::ConvTranspose(3), Conditioned =>
        B::conv_transpose3d_x_backward(b.clone(), B::conv_transpose3d(a, b, None, conv_transpose(p.window)), conv_transpose(p.window));
    conv_transpose3d_weight_backward(a: Float, b: Float) -> (Float) Rule::ConvTranspose(3), Conditioned =>
        B::conv_transpose3d_weight_backward(a.clone(), b.clone(), B::conv_transpose3d(a, b, None, conv_transpose(p.window)), conv_transpose(p.window));
    conv3d_bias_backward(a: Float, b: Float, c: Float) -> (Float) Rule::Conv(3), Conditioned =>
        B::conv3d_bias_backward(a.clone(), c, B::conv3d(a, b, None, conv(p.window)));
    conv_transpose1d_bias_backward(a: Float, b: Float, c: Float) -> (Float) Rule::ConvTranspose(1), Conditioned =>
        B::conv_transpose1d_bias_backward(a.clone(), c, B::conv_transpose1d(a, b, None, conv_transpose(p.window)));
    conv_transpose2d_bias_backward(a: Float, b: Float, c: Float) -> (Float) Rule::ConvTranspose(2), Conditioned =>
        B::conv_transpose2d_bias_backward(a.clone(), c, B::conv_transpose2d(a, b, None, conv_transpose(p.window)));
    conv_transpose3d_bias_backward(a: Float, b: Float, c: Float) -> (Float) Rule::ConvTranspose(3), Conditioned =>
        B::conv_transpose3d_bias_backward(a.clone(), c, B::conv_transpose3d(a, b, None, conv_transpose(p.window)));
    deform_conv2d(a: Float, b: Float, c: Float) -> (Float) Rule::Conv(2), Sampled => {
        // Offsets are the first channel of the plain convolution, for every element of the kernel.
        let plain = B::conv2d(a.clone(), b.clone(), None, conv(p.window));
        let one = B::float_slice(plain, &slices(&[(0, None, 1), (0, Some(1), 1)]));
        let offset = B::float_repeat_dim(one, 1, 2 * p.window.kernel[0] * p.window.kernel[1]);
        let options = DeformConvOptions::new(pair(p.window.stride), pair(p.window.padding), pair(p.window.dilation), p.window.groups, 1);
        B::deform_conv2d(a, offset, b, None, Some(c), options)
    };
    fold4d(a: Float) -> (Float) Rule::Patches, Conditioned => {
        let extents = a.shape();
        let patches = B::unfold4d(a, pair(p.window.kernel), unfold(p.window));
        B::fold4d(patches, [extents[2], extents[3]], pair(p.window.kernel), unfold(p.window))
    };
    unfold4d(a: Float) -> (Float) Rule::Patches, Exact => B::unfold4d(a, pair(p.window.kernel), unfold(p.window));
    avg_pool1d(a: Float) -> (Float) Rule::Pool(1), Sum =>
        B::avg_pool1d(a, p.window.kernel[0], p.window.stride[0], p.window.padding[0], p.flag, p.flag2);
    avg_pool2d(a: Float) -> (Float) Rule::Pool(2), Sum =>
        B::avg_pool2d(a, pair(p.window.kernel), pair(p.window.stride), pair(p.window.padding), p.flag, p.flag2);
    avg_pool2d_backward(a: Float) -> (Float) Rule::Pool(2), Conditioned => {
        let y = B::avg_pool2d(a.clone(), pair(p.window.kernel), pair(p.window.stride), pair(p.window.padding), p.flag, p.flag2);
        B::avg_pool2d_backward(a, y, pair(p.window.kernel), pair(p.window.stride), pair(p.window.padding), p.flag, p.flag2)
    };
    avg_pool1d_backward(a: Float) -> (Float) Rule::Pool(1), Conditioned => {
        let y = B::avg_pool1d(a.clone(), p.window.kernel[0], p.window.stride[0], p.window.padding[0], p.flag, p.flag2);
        B::avg_pool1d_backward(a, y, p.window.kernel[0], p.window.stride[0], p.window.padding[0], p.flag, p.flag2)
    };
    max_pool1d_with_indices_backward(a: Float) -> (Float) Rule::Pool(1), Conditioned => {
        let (kernel, stride, padding, dilation) = (p.window.kernel[0], p.window.stride[0], p.window.padding[0], p.window.dilation[0]);
        let made = B::max_pool1d_with_indices(a.clone(), kernel, stride, padding, dilation, p.flag2, int(p.index));
        B::max_pool1d_with_indices_backward(a, kernel, stride, padding, dilation, p.flag2, made.output, made.indices).x_grad
    };
    max_pool1d(a: Float) -> (Float) Rule::Pool(1), Exact =>
        B::max_pool1d(a, p.window.kernel[0], p.window.stride[0], p.window.padding[0], p.window.dilation[0], p.flag2);
    max_pool1d_with_indices(a: Float) -> (Float, Int) Rule::Pool(1), Exact => tuple!(
        B::max_pool1d_with_indices(a, p.window.kernel[0], p.window.stride[0], p.window.padding[0], p.window.dilation[0], p.flag2, int(p.index)),
        output, indices);
    max_pool2d(a: Float) -> (Float) Rule::Pool(2), Exact =>
        B::max_pool2d(a, pair(p.window.kernel), pair(p.window.stride), pair(p.window.padding), pair(p.window.dilation), p.flag2);
    max_pool2d_with_indices(a: Float) -> (Float, Int) Rule::Pool(2), Exact => tuple!(
        B::max_pool2d_with_indices(a, pair(p.window.kernel), pair(p.window.stride), pair(p.window.padding), pair(p.window.dilation), p.flag2, int(p.index)),
        output, indices);
    max_pool2d_with_indices_backward(a: Float) -> (Float) Rule::Pool(2), Conditioned => {
        let (kernel, stride, padding, dilation) = (pair(p.window.kernel), pair(p.window.stride), pair(p.window.padding), pair(p.window.dilation));
        let made = B::max_pool2d_with_indices(a.clone(), kernel, stride, padding, dilation, p.flag2, int(p.index));
        B::max_pool2d_with_indices_backward(a, kernel, stride, padding, dilation, p.flag2, made.output, made.indices).x_grad
    };
    adaptive_avg_pool1d(a: Float) -> (Float) Rule::Resize(1), Sum => B::adaptive_avg_pool1d(a, p.shape[0]);
    adaptive_avg_pool2d(a: Float) -> (Float) Rule::Resize(2), Sum => B::adaptive_avg_pool2d(a, sizes(&p.shape));
    adaptive_avg_pool3d(a: Float) -> (Float) Rule::Resize(3), Sum => B::adaptive_avg_pool3d(a, sizes(&p.shape));
    adaptive_avg_pool2d_backward(a: Float) -> (Float) Rule::Resize(2), Conditioned =>
        B::adaptive_avg_pool2d_backward(a.clone(), B::adaptive_avg_pool2d(a, sizes(&p.shape)));
    adaptive_avg_pool3d_backward(a: Float) -> (Float) Rule::Resize(3), Conditioned =>
        B::adaptive_avg_pool3d_backward(a.clone(), B::adaptive_avg_pool3d(a, sizes(&p.shape)));
    interpolate_nearest(a: Float) -> (Float) Rule::Resize(2), Exact =>
        B::interpolate(a, sizes(&p.shape), InterpolateOptions::new(InterpolateMode::Nearest).with_align_corners(p.flag));
    interpolate_nearest_exact(a: Float) -> (Float) Rule::Resize(2), Exact =>
        B::interpolate(a, sizes(&p.shape), InterpolateOptions::new(InterpolateMode::NearestExact).with_align_corners(p.flag));
    interpolate_bilinear(a: Float) -> (Float) Rule::Resize(2), Conditioned =>
        B::interpolate(a, sizes(&p.shape), InterpolateOptions::new(InterpolateMode::Bilinear).with_align_corners(p.flag));
    interpolate_bicubic(a: Float) -> (Float) Rule::Resize(2), Conditioned =>
        B::interpolate(a, sizes(&p.shape), InterpolateOptions::new(InterpolateMode::Bicubic).with_align_corners(p.flag));
    adaptive_avg_pool1d_backward(a: Float) -> (Float) Rule::Resize(1), Conditioned =>
        B::adaptive_avg_pool1d_backward(a.clone(), B::adaptive_avg_pool1d(a, p.shape[0]));
    interpolate_backward(a: Float) -> (Float) Rule::Resize(2), Conditioned => {
        let options = InterpolateOptions::new(InterpolateMode::Bilinear).with_align_corners(p.flag);
        let y = B::interpolate(a.clone(), sizes(&p.shape), options.clone());
        B::interpolate_backward(a, y, sizes(&p.shape), options)
    };
    float_grid_sample_2d(a: Float, b: Float) -> (Float) Rule::Sample, Sampled =>
        B::float_grid_sample_2d(a, b, GridSampleOptions::default());
    batch_norm_train_backward(a: Float, b: Float, c: Float) -> (Float, Float, Float) Rule::BatchNorm, Squares => {
        // Of the output itself next to nothing would be left, and of the operand's own statistics their last places show.
        let (variance, arriving) = (B::float_mul(b.clone(), b.clone()), B::float_mul(a.clone(), a.clone()));
        tuple!(B::batch_norm_train_backward(a, b, c, variance, 1e-3, arriving), x_grad, gamma_grad, beta_grad)
    };
    batch_norm(a: Float, b: Float, c: Float, d: Float, e: Float) -> (Float) Rule::BatchNorm, Conditioned => B::batch_norm(a, b, c, d, e, 1e-3);
    batch_norm_train(a: Float, b: Float, c: Float) -> (Float, Float, Float) Rule::BatchNorm, Squares =>
        tuple!(B::batch_norm_train(a, b, c, 1e-3), output, mean, variance);
    layer_norm(a: Float, b: Float, c: Float) -> (Float) Rule::Norm, Squares => B::layer_norm(a, b, Some(c), 1e-3);
    embedding(a: Float, b: Int) -> (Float) Rule::Embedding, Exact => B::embedding(a, b);
    embedding_backward(a: Float, b: Int, c: Float) -> (Float) Rule::Embedding, Conditioned => B::embedding_backward(a, c, b);
    linear(a: Float, b: Float, c: Float) -> (Float) Rule::Linear, Sum => B::linear(a, b, Some(c));
    linear_x_backward(a: Float, b: Float) -> (Float) Rule::Linear, Conditioned => B::linear_x_backward(b.clone(), B::linear(a, b, None));
    linear_weight_backward(a: Float, b: Float) -> (Float) Rule::Linear, Conditioned => B::linear_weight_backward(a.clone(), B::linear(a, b, None));
    linear_bias_backward(a: Float) -> (Float) Rule::Linear, Sum => B::linear_bias_backward(a);
    attention(a: Float, b: Float, c: Float) -> (Float) Rule::Attention, Conditioned => B::attention(a, b, c, None, None,
        AttentionModuleOptions { scale: p.flag2.then_some(plain(p.scalar)), softcap: None, is_causal: p.flag });
    attention_masked(a: Float, b: Float, c: Float) -> (Float) Rule::Attention, Conditioned => {
        // Every third key is hidden from all queries.
        let (queries, keys) = (a.shape(), b.shape());
        let places = B::int_remainder_scalar(B::int_arange(0..keys[2] as i64, device, int(p.index)), 3.into());
        let hidden = B::int_equal_elem(places, 1.into(), NATIVE);
        let mask = B::bool_expand(B::bool_reshape(hidden, shape(&[1, 1, 1, keys[2]])), shape(&[queries[0], queries[1], queries[2], keys[2]]));
        B::attention(a, b, c, Some(mask), None, AttentionModuleOptions { scale: None, softcap: p.flag.then_some(1.5), is_causal: p.flag2 })
    };
}
