//! Burn's operators for layers: convolutions, pools, embeddings. Each becomes the operation that `burn-router` makes of it.

use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward, DeformConvOptions,
    InterpolateOptions, MaxPool1dBackward, MaxPool1dWithIndices, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps,
};
use burn_ir::{CtcLossBackwardOpIr, CtcLossOpIr, ModuleOperationIr, OperationIr, OperationOutput};
use burn_router::RouterClient;
use burn_std::IntDType;

use super::super::backend::Fused;
use super::super::channel::{Lazy, Router};
use crate::Rocm;
use crate::version::recorded_module_methods;

impl ModuleOps<Fused> for Fused {
    routed! {
        conv1d(x: Lazy, weight: Lazy, bias: Option<Lazy>, options: ConvOptions<1>) -> Lazy;
        conv1d_x_backward(x: Lazy, weight: Lazy, output_grad: Lazy, options: ConvOptions<1>) -> Lazy;
        conv1d_weight_backward(x: Lazy, weight: Lazy, output_grad: Lazy, options: ConvOptions<1>) -> Lazy;
        conv1d_bias_backward(x: Lazy, bias: Lazy, output_grad: Lazy) -> Lazy;
        conv2d(x: Lazy, weight: Lazy, bias: Option<Lazy>, options: ConvOptions<2>) -> Lazy;
        conv2d_x_backward(x: Lazy, weight: Lazy, output_grad: Lazy, options: ConvOptions<2>) -> Lazy;
        conv2d_weight_backward(x: Lazy, weight: Lazy, output_grad: Lazy, options: ConvOptions<2>) -> Lazy;
        conv2d_bias_backward(x: Lazy, bias: Lazy, output_grad: Lazy) -> Lazy;
        deform_conv2d(
            x: Lazy, offset: Lazy, weight: Lazy, mask: Option<Lazy>, bias: Option<Lazy>,
            options: DeformConvOptions<2>
        ) -> Lazy;
        conv3d(x: Lazy, weight: Lazy, bias: Option<Lazy>, options: ConvOptions<3>) -> Lazy;
        conv3d_x_backward(x: Lazy, weight: Lazy, output_grad: Lazy, options: ConvOptions<3>) -> Lazy;
        conv3d_weight_backward(x: Lazy, weight: Lazy, output_grad: Lazy, options: ConvOptions<3>) -> Lazy;
        conv3d_bias_backward(x: Lazy, bias: Lazy, output_grad: Lazy) -> Lazy;
        conv_transpose1d(x: Lazy, weight: Lazy, bias: Option<Lazy>, options: ConvTransposeOptions<1>) -> Lazy;
        conv_transpose2d(x: Lazy, weight: Lazy, bias: Option<Lazy>, options: ConvTransposeOptions<2>) -> Lazy;
        conv_transpose3d(x: Lazy, weight: Lazy, bias: Option<Lazy>, options: ConvTransposeOptions<3>) -> Lazy;
        adaptive_avg_pool2d(x: Lazy, output_size: [usize; 2]) -> Lazy;
        adaptive_avg_pool2d_backward(x: Lazy, grad: Lazy) -> Lazy;
        adaptive_avg_pool3d(x: Lazy, output_size: [usize; 3]) -> Lazy;
        adaptive_avg_pool3d_backward(x: Lazy, grad: Lazy) -> Lazy;
        adaptive_avg_pool1d(x: Lazy, output_size: usize) -> Lazy;
        adaptive_avg_pool1d_backward(x: Lazy, grad: Lazy) -> Lazy;
        max_pool1d(
            x: Lazy, kernel_size: usize, stride: usize, padding: usize, dilation: usize, ceil_mode: bool
        ) -> Lazy;
        max_pool2d(
            x: Lazy, kernel_size: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2],
            ceil_mode: bool
        ) -> Lazy;
        interpolate(x: Lazy, output_size: [usize; 2], options: InterpolateOptions) -> Lazy;
        interpolate_backward(x: Lazy, grad: Lazy, output_size: [usize; 2], options: InterpolateOptions) -> Lazy;
        attention(
            query: Lazy, key: Lazy, value: Lazy, mask: Option<Lazy>, attn_bias: Option<Lazy>,
            options: AttentionModuleOptions
        ) -> Lazy;
    }

    recorded_module_methods!();

    fn deform_conv2d_backward(
        x: Lazy,
        offset: Lazy,
        weight: Lazy,
        mask: Option<Lazy>,
        bias: Option<Lazy>,
        output_grad: Lazy,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Fused> {
        let made = Router::deform_conv2d_backward(x, offset, weight, mask, bias, output_grad, options);
        DeformConv2dBackward::new(made.x_grad, made.offset_grad, made.weight_grad, made.mask_grad, made.bias_grad)
    }

    fn max_pool1d_with_indices(
        x: Lazy,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool1dWithIndices<Fused> {
        let made = Router::max_pool1d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode, indices_dtype);
        MaxPool1dWithIndices::new(made.output, made.indices)
    }

    fn max_pool1d_with_indices_backward(
        x: Lazy,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
        output_grad: Lazy,
        indices: Lazy,
    ) -> MaxPool1dBackward<Fused> {
        let made = Router::max_pool1d_with_indices_backward(
            x,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
            output_grad,
            indices,
        );
        MaxPool1dBackward::new(made.x_grad)
    }

    fn max_pool2d_with_indices(
        x: Lazy,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        indices_dtype: IntDType,
    ) -> MaxPool2dWithIndices<Fused> {
        let made = Router::max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode, indices_dtype);
        MaxPool2dWithIndices::new(made.output, made.indices)
    }

    fn max_pool2d_with_indices_backward(
        x: Lazy,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        output_grad: Lazy,
        indices: Lazy,
    ) -> MaxPool2dBackward<Fused> {
        let made = Router::max_pool2d_with_indices_backward(
            x,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
            output_grad,
            indices,
        );
        MaxPool2dBackward::new(made.x_grad)
    }

    fn has_ctc_loss_backward() -> bool {
        Rocm::has_ctc_loss_backward()
    }

    fn ctc_loss(log_probs: Lazy, targets: Lazy, input_lengths: Lazy, target_lengths: Lazy, blank: usize) -> Lazy {
        let client = log_probs.client;
        let [log_probs, targets, input_lengths, target_lengths] =
            [log_probs, targets, input_lengths, target_lengths].map(Lazy::into_ir);
        let new = || client.create_empty_handle();
        let made = CtcLossOpIr::create(log_probs, targets, input_lengths, target_lengths, blank, new);
        client.register(OperationIr::Module(ModuleOperationIr::CtcLoss(made))).output()
    }

    fn ctc_loss_backward(
        log_probs: Lazy,
        targets: Lazy,
        input_lengths: Lazy,
        target_lengths: Lazy,
        grad_loss: Lazy,
        blank: usize,
    ) -> Lazy {
        let client = log_probs.client;
        let [log_probs, targets, input_lengths, target_lengths, grad_loss] =
            [log_probs, targets, input_lengths, target_lengths, grad_loss].map(Lazy::into_ir);
        let new = || client.create_empty_handle();
        let made =
            CtcLossBackwardOpIr::create(log_probs, targets, input_lengths, target_lengths, grad_loss, blank, new);
        client.register(OperationIr::Module(ModuleOperationIr::CtcLossBackward(made))).output()
    }
}
