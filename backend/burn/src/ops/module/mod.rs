//! Burn's module operators: the trait, in terms of the files beside it.
//!
//! What is not here keeps Burn's default, which composes the operators that are: one-dimensional pools, linear layers,
//! embeddings, folding.

mod attention;
pub(crate) mod conv;
mod ctc;
mod deform;
mod interpolate;
mod norm;
mod pool;

use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward, DeformConvOptions,
    InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps,
};
use burn_std::IntDType;
use rocfire_hal::Tensor;

use self::ctc::Samples;
use self::deform::Deform;
use self::pool::Windows;
use super::{fused, int_dtype, memory, out, pair, view};
use crate::error::{OrPanic, Result};
use crate::version::module_methods;
use crate::{Rocm, RocmTensor};

fn inner(tensor: &Option<RocmTensor>) -> Option<&Tensor> {
    tensor.as_ref().map(RocmTensor::as_inner)
}

/// A convolution, its transpose and their gradients, for one number of spatial axes.
macro_rules! convolutions {
    (
        $axes:literal: $conv:ident $x_backward:ident $weight_backward:ident $bias_backward:ident,
        $transposed:ident $transposed_x_backward:ident $transposed_weight_backward:ident
    ) => {
        fn $conv(
            x: RocmTensor,
            weight: RocmTensor,
            bias: Option<RocmTensor>,
            options: ConvOptions<$axes>,
        ) -> RocmTensor {
            out(conv::conv(x.as_inner(), weight.as_inner(), inner(&bias), &options))
        }

        fn $x_backward(
            x: RocmTensor,
            weight: RocmTensor,
            output_grad: RocmTensor,
            options: ConvOptions<$axes>,
        ) -> RocmTensor {
            out(conv::input_gradient(x.as_inner(), weight.as_inner(), output_grad.as_inner(), &options))
        }

        fn $weight_backward(
            x: RocmTensor,
            weight: RocmTensor,
            output_grad: RocmTensor,
            options: ConvOptions<$axes>,
        ) -> RocmTensor {
            out(conv::weight_gradient(x.as_inner(), weight.as_inner(), output_grad.as_inner(), &options))
        }

        fn $bias_backward(_x: RocmTensor, _bias: RocmTensor, output_grad: RocmTensor) -> RocmTensor {
            out(conv::bias_gradient(output_grad.as_inner()))
        }

        fn $transposed(
            x: RocmTensor,
            weight: RocmTensor,
            bias: Option<RocmTensor>,
            options: ConvTransposeOptions<$axes>,
        ) -> RocmTensor {
            out(conv::transposed(x.as_inner(), weight.as_inner(), inner(&bias), &options))
        }

        fn $transposed_x_backward(
            weight: RocmTensor,
            output_grad: RocmTensor,
            options: ConvTransposeOptions<$axes>,
        ) -> RocmTensor {
            out(conv::transposed_input_gradient(weight.as_inner(), output_grad.as_inner(), &options))
        }

        fn $transposed_weight_backward(
            x: RocmTensor,
            weight: RocmTensor,
            output_grad: RocmTensor,
            options: ConvTransposeOptions<$axes>,
        ) -> RocmTensor {
            let [x, weight, grad] = [&x, &weight, &output_grad].map(RocmTensor::as_inner);
            out(conv::transposed_weight_gradient(x, weight, grad, &options))
        }
    };
}

impl ModuleOps<Rocm> for Rocm {
    convolutions! {
        1: conv1d conv1d_x_backward conv1d_weight_backward conv1d_bias_backward,
        conv_transpose1d conv_transpose1d_x_backward conv_transpose1d_weight_backward
    }
    convolutions! {
        2: conv2d conv2d_x_backward conv2d_weight_backward conv2d_bias_backward,
        conv_transpose2d conv_transpose2d_x_backward conv_transpose2d_weight_backward
    }
    convolutions! {
        3: conv3d conv3d_x_backward conv3d_weight_backward conv3d_bias_backward,
        conv_transpose3d conv_transpose3d_x_backward conv_transpose3d_weight_backward
    }

    fn deform_conv2d(
        x: RocmTensor,
        offset: RocmTensor,
        weight: RocmTensor,
        mask: Option<RocmTensor>,
        bias: Option<RocmTensor>,
        options: DeformConvOptions<2>,
    ) -> RocmTensor {
        let wide = Widened::new(&x, &offset, &weight, &mask).or_panic();
        let y = wide.arguments(&options).forward().or_panic();
        let y = RocmTensor::new(memory::cast(&y, x.as_inner().dtype()).or_panic());
        match bias {
            Some(bias) => {
                let channels = bias.as_inner().shape()[0];
                let bias = view::reshape(bias.as_inner(), &[1, channels, 1, 1]).or_panic();
                out(rocfire_fusion::eager::binary(rocfire_fusion::Binary::Add, y.as_inner(), &bias))
            }
            None => y,
        }
    }

    fn deform_conv2d_backward(
        x: RocmTensor,
        offset: RocmTensor,
        weight: RocmTensor,
        mask: Option<RocmTensor>,
        bias: Option<RocmTensor>,
        output_grad: RocmTensor,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Rocm> {
        let dtype = x.as_inner().dtype();
        let wide = Widened::new(&x, &offset, &weight, &mask).or_panic();
        let grad = memory::cast(output_grad.as_inner(), fused::wide(dtype)).or_panic();
        let gradients = wide.arguments(&options).backward(&grad).or_panic();
        let narrow = |tensor: &Tensor| out(memory::cast(tensor, dtype));
        DeformConv2dBackward {
            x_grad: narrow(&gradients.x),
            offset_grad: narrow(&gradients.offset),
            weight_grad: narrow(&gradients.weight),
            mask_grad: gradients.mask.as_ref().map(narrow),
            bias_grad: bias.map(|_| out(conv::bias_gradient(output_grad.as_inner()))),
        }
    }

    module_methods!();

    fn adaptive_avg_pool2d(x: RocmTensor, output_size: [usize; 2]) -> RocmTensor {
        out(pool::adaptive(x.as_inner(), &output_size))
    }

    fn adaptive_avg_pool2d_backward(x: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(pool::adaptive_backward(x.as_inner(), grad.as_inner()))
    }

    fn adaptive_avg_pool3d(x: RocmTensor, output_size: [usize; 3]) -> RocmTensor {
        out(pool::adaptive(x.as_inner(), &output_size))
    }

    fn adaptive_avg_pool3d_backward(x: RocmTensor, grad: RocmTensor) -> RocmTensor {
        out(pool::adaptive_backward(x.as_inner(), grad.as_inner()))
    }

    fn max_pool2d(
        x: RocmTensor,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil: bool,
    ) -> RocmTensor {
        out(pool::max(x.as_inner(), &Windows { kernel, stride, padding, dilation, ceil }))
    }

    fn max_pool2d_with_indices(
        x: RocmTensor,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil: bool,
        indices_dtype: IntDType,
    ) -> MaxPool2dWithIndices<Rocm> {
        let windows = Windows { kernel, stride, padding, dilation, ceil };
        let (output, indices) = pair(pool::max_with_indices(x.as_inner(), &windows, int_dtype(indices_dtype)));
        MaxPool2dWithIndices::new(output, indices)
    }

    fn max_pool2d_with_indices_backward(
        x: RocmTensor,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil: bool,
        output_grad: RocmTensor,
        indices: RocmTensor,
    ) -> MaxPool2dBackward<Rocm> {
        let windows = Windows { kernel, stride, padding, dilation, ceil };
        let [x, grad, indices] = [&x, &output_grad, &indices].map(RocmTensor::as_inner);
        MaxPool2dBackward::new(out(pool::max_backward(x, grad, indices, &windows)))
    }

    fn interpolate(x: RocmTensor, output_size: [usize; 2], options: InterpolateOptions) -> RocmTensor {
        out(interpolate::forward(x.as_inner(), output_size, &options))
    }

    fn interpolate_backward(
        x: RocmTensor,
        grad: RocmTensor,
        _output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> RocmTensor {
        out(interpolate::backward(x.as_inner(), grad.as_inner(), &options))
    }

    fn attention(
        query: RocmTensor,
        key: RocmTensor,
        value: RocmTensor,
        mask: Option<RocmTensor>,
        attn_bias: Option<RocmTensor>,
        options: AttentionModuleOptions,
    ) -> RocmTensor {
        let inputs = [query.as_inner(), key.as_inner(), value.as_inner()];
        out(attention::attention(inputs, inner(&mask), inner(&attn_bias), &options))
    }

    fn layer_norm(tensor: RocmTensor, gamma: RocmTensor, beta: Option<RocmTensor>, epsilon: f64) -> RocmTensor {
        out(norm::layer_norm(tensor.as_inner(), gamma.as_inner(), inner(&beta), epsilon))
    }

    fn batch_norm(
        x: RocmTensor,
        gamma: RocmTensor,
        beta: RocmTensor,
        mean: RocmTensor,
        variance: RocmTensor,
        epsilon: f64,
    ) -> RocmTensor {
        let parameters = [gamma.as_inner(), beta.as_inner(), mean.as_inner(), variance.as_inner()];
        out(norm::batch_norm(x.as_inner(), parameters, epsilon))
    }

    fn ctc_loss(
        log_probs: RocmTensor,
        targets: RocmTensor,
        input_lengths: RocmTensor,
        target_lengths: RocmTensor,
        blank: usize,
    ) -> RocmTensor {
        let integers = [targets.as_inner(), input_lengths.as_inner(), target_lengths.as_inner()];
        out(Samples::new(log_probs.as_inner(), integers, blank).and_then(|samples| samples.loss()))
    }

    fn has_ctc_loss_backward() -> bool {
        true
    }

    fn ctc_loss_backward(
        log_probs: RocmTensor,
        targets: RocmTensor,
        input_lengths: RocmTensor,
        target_lengths: RocmTensor,
        grad_loss: RocmTensor,
        blank: usize,
    ) -> RocmTensor {
        let integers = [targets.as_inner(), input_lengths.as_inner(), target_lengths.as_inner()];
        let samples = Samples::new(log_probs.as_inner(), integers, blank);
        out(samples.and_then(|samples| samples.gradient(grad_loss.as_inner())))
    }
}

/// The tensors of a deformable convolution in f32 (f64 for f64): 16-bit floats hold a place between pixels too coarsely.
struct Widened {
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    mask: Option<Tensor>,
}

impl Widened {
    fn new(x: &RocmTensor, offset: &RocmTensor, weight: &RocmTensor, mask: &Option<RocmTensor>) -> Result<Widened> {
        let dtype = fused::wide(x.as_inner().dtype());
        let wide = |tensor: &RocmTensor| memory::cast(tensor.as_inner(), dtype);
        let mask = mask.as_ref().map(wide).transpose()?;
        Ok(Widened { x: wide(x)?, offset: wide(offset)?, weight: wide(weight)?, mask })
    }

    fn arguments<'a>(&'a self, options: &'a DeformConvOptions<2>) -> Deform<'a> {
        Deform { x: &self.x, offset: &self.offset, weight: &self.weight, mask: self.mask.as_ref(), options }
    }
}
