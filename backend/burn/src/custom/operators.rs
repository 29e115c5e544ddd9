//! Operators of `rocfire-kernels` that Burn has no name for, as [`CustomKernel`]s: eager, as an operation of Burn's stream, and
//! with the gradient that the kernels have under `Autodiff`.
//!
//! Each function says what the inputs of [`CustomOps::custom`] are, in their order; there are no scalars. Inputs are views of any
//! strides unless it says otherwise. `rocfire-burn-nn` has modules over them. What does not fit is an error that names the
//! launcher's argument, told as [`super`] says.

use std::sync::OnceLock;

use burn_backend::tensor::FloatTensor;
use burn_backend::{DType, Shape};
use rocfire_hal::{Stream, Tensor};
pub use rocfire_kernels::gate::{Activation, GateLayout, GateParams};
use rocfire_kernels::gate::{gate as launch_gate, gate_backward};
use rocfire_kernels::loss::{CrossEntropy, cross_entropy as launch_cross_entropy, cross_entropy_backward};
pub use rocfire_kernels::norm::NormKind;
use rocfire_kernels::norm::{self, GroupNormGradients, GroupNormParams, NormGradients, NormParams, norm_backward};
use rocfire_kernels::quant::{self, CodedRows, Preshuffled, PreshuffledRows, RowCodes};
pub use rocfire_kernels::quant::{Format, Granularity, MxRounding};
use rocfire_kernels::rope::{self, RopeAngles, RopeParams, RopePositions, RopeTensor};
pub use rocfire_kernels::rope::{RopeFrequencies, RopeScaling, RopeStyle};
use rocfire_kernels::softmax;

use super::{Call, CustomGradient, CustomKernel, CustomOps, CustomTensor, Saved, TensorSpec};

/// An operator with a gradient.
pub type Operator = CustomKernel<Backward>;

/// The gradient of an operator by another: of its first float inputs, from its inputs, its outputs and the first output's gradient.
#[derive(Clone, Debug)]
pub struct Backward(CustomKernel);

impl CustomGradient for Backward {
    fn backward<B: CustomOps>(&self, saved: Saved<B>, grad: FloatTensor<B>) -> Vec<Option<FloatTensor<B>>> {
        let floats = saved.needed.len();
        let inputs = saved.inputs.into_iter().chain(saved.outputs).chain([CustomTensor::Float(grad)]).collect();
        let gradients = B::custom(&self.0, inputs, &[]).into_iter().map(|gradient| Some(gradient.into_float()));
        gradients.chain(std::iter::repeat_with(|| None)).take(floats).collect()
    }
}

/// Elements in order and without gaps.
fn packed(x: &Tensor) -> rocfire_kernels::Result<Tensor> {
    if x.layout().is_contiguous() { Ok(x.clone()) } else { Ok(rocfire_fusion::eager::copy(x)?) }
}

fn like_first(call: &Call<'_>) -> Vec<TensorSpec> {
    vec![call.inputs[0].clone()]
}

/// The first input's shape with its last axis as `last` makes it.
fn last_axis(call: &Call<'_>, last: impl Fn(usize) -> usize, dtype: DType) -> TensorSpec {
    let mut shape = call.inputs[0].shape.to_vec();
    if let Some(axis) = shape.last_mut() {
        *axis = last(*axis);
    }
    TensorSpec::new(Shape::from(shape), dtype)
}

/// RMSNorm or LayerNorm of rows, as `rocfire_kernels::norm::norm`.
///
/// # Inputs
/// `x` `[.., cols]`, any float; weight `[cols]`; with `has_bias` the bias `[cols]`. The output is like `x`; all have gradients.
pub fn norm(kind: NormKind, epsilon: f64, has_bias: bool) -> Operator {
    let count = 2 + usize::from(has_bias);
    let gradients = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let [x, rest @ ..] = outputs else { unreachable!("the outputs are as many as described") };
        let [weight, bias] = optional(rest);
        let to = NormGradients { x: x.view_mut(), weight, bias, gate: None };
        let params = norm_params(kind, epsilon, &inputs[..count]);
        norm_backward(stream, inputs[0].view(), &params, inputs[count + 1].view(), None, to)
    };
    let backward = CustomKernel::launcher("norm_backward", move |call| call.inputs[..count].to_vec(), gradients);
    let forward = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        norm::norm(stream, inputs[0].view(), &norm_params(kind, epsilon, inputs), outputs[0].view_mut(), None)
    };
    CustomKernel::launcher("norm", like_first, forward).with_gradient(Backward(backward))
}

fn norm_params(kind: NormKind, epsilon: f64, inputs: &[Tensor]) -> NormParams<'_> {
    let mut params = NormParams::new(kind, epsilon);
    (params.weight, params.bias) = (inputs.get(1).map(Tensor::view), inputs.get(2).map(Tensor::view));
    params
}

/// The first two of some outputs, where there are as many.
fn optional(outputs: &mut [Tensor]) -> [Option<rocfire_hal::ViewMut<'_>>; 2] {
    let mut outputs = outputs.iter_mut().map(Tensor::view_mut);
    [outputs.next(), outputs.next()]
}

/// GroupNorm, as `rocfire_kernels::norm::group_norm`.
///
/// # Inputs
/// `x` `[batch, channels, ..]`, any float; if `is_affine` weight and bias `[channels]`. The output is like `x`; all have gradients.
pub fn group_norm(groups: usize, epsilon: f64, is_affine: bool) -> Operator {
    let count = if is_affine { 3 } else { 1 };
    let gradients = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let [x, rest @ ..] = outputs else { unreachable!("the outputs are as many as described") };
        let [weight, bias] = optional(rest);
        let to = GroupNormGradients { x: x.view_mut(), weight, bias };
        let grad = inputs[count + 1].view();
        norm::group_norm_backward(stream, inputs[0].view(), &group_params(groups, epsilon, &inputs[..count]), grad, to)
    };
    let backward = CustomKernel::launcher("group_norm_backward", move |call| call.inputs[..count].to_vec(), gradients);
    let forward = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        norm::group_norm(stream, inputs[0].view(), &group_params(groups, epsilon, inputs), outputs[0].view_mut())
    };
    CustomKernel::launcher("group_norm", like_first, forward).with_gradient(Backward(backward))
}

fn group_params(groups: usize, epsilon: f64, inputs: &[Tensor]) -> GroupNormParams<'_> {
    let mut params = GroupNormParams::new(groups, epsilon);
    (params.weight, params.bias) = (inputs.get(1).map(Tensor::view), inputs.get(2).map(Tensor::view));
    params
}

/// An activation and a product of the halves of rows, as `rocfire_kernels::gate::gate`; `params` without a bias.
///
/// # Inputs
/// `x` `[.., 2 n]`, any float. The output is `[.., n]`; it has a gradient.
pub fn gate(params: GateParams<'static>) -> Operator {
    let backward = CustomKernel::launcher("gate_backward", like_first, move |stream, inputs, outputs| {
        gate_backward(stream, inputs[0].view(), &params, inputs[2].view(), outputs[0].view_mut())
    });
    let half = |call: &Call<'_>| vec![last_axis(call, |cols| cols / 2, call.inputs[0].dtype)];
    let forward = CustomKernel::launcher("gate", half, move |stream, inputs, outputs| {
        launch_gate(stream, inputs[0].view(), &params, outputs[0].view_mut())
    });
    forward.with_gradient(Backward(backward))
}

/// A softmax along an axis, or its logarithm, as `rocfire_kernels::softmax`.
///
/// # Inputs
/// `x`, any float. The output is like it; it has a gradient.
pub fn softmax(dim: usize, is_log: bool) -> Operator {
    let (forward, backward) = (["softmax", "log_softmax"], ["softmax_backward", "log_softmax_backward"]);
    let backward = CustomKernel::launcher(backward[usize::from(is_log)], like_first, move |stream, inputs, outputs| {
        let run = if is_log { softmax::log_softmax_backward } else { softmax::softmax_backward };
        run(stream, inputs[1].view(), inputs[2].view(), dim, outputs[0].view_mut())
    });
    let forward = CustomKernel::launcher(forward[usize::from(is_log)], like_first, move |stream, inputs, outputs| {
        let run = if is_log { softmax::log_softmax } else { softmax::softmax };
        run(stream, inputs[0].view(), dim, outputs[0].view_mut())
    });
    forward.with_gradient(Backward(backward))
}

/// The loss of each row of logits, as `rocfire_kernels::loss::cross_entropy`; rows of the target `ignored` have none.
///
/// # Inputs
/// Logits `[.., classes]`, any float; targets `[..]`, i32 or i64; with `has_weights` the classes' weights `[classes]`. The outputs
/// are the losses and the logarithms of sums, `[..]`, f32 (f64 for f64). The losses have a gradient, of the logits.
pub fn cross_entropy(ignored: Option<i64>, smoothing: f64, has_weights: bool) -> Operator {
    let count = 2 + usize::from(has_weights);
    let backward = CustomKernel::launcher("cross_entropy_backward", like_first, move |stream, inputs, outputs| {
        let (lse, d_loss) = (inputs[count + 1].view(), inputs[count + 2].view());
        cross_entropy_backward(
            stream,
            &loss_of(inputs, ignored, smoothing, has_weights),
            lse,
            d_loss,
            outputs[0].view_mut(),
        )
    });
    let rows = |call: &Call<'_>| {
        let dtype = if call.inputs[0].dtype == DType::F64 { DType::F64 } else { DType::F32 };
        vec![TensorSpec::new(call.inputs[1].shape.clone(), dtype); 2]
    };
    let forward = CustomKernel::launcher("cross_entropy", rows, move |stream, inputs, outputs| {
        let [loss, lse] = outputs else { unreachable!("two outputs were described") };
        launch_cross_entropy(stream, &loss_of(inputs, ignored, smoothing, has_weights), loss.view_mut(), lse.view_mut())
    });
    forward.with_gradient(Backward(backward))
}

fn loss_of(inputs: &[Tensor], ignored: Option<i64>, smoothing: f64, has_weights: bool) -> CrossEntropy<'_> {
    let mut call = CrossEntropy::new(inputs[0].view(), inputs[1].view());
    let weights = inputs.get(2).filter(|_| has_weights).map(Tensor::view);
    (call.ignored, call.smoothing, call.weights) = (ignored, smoothing, weights);
    call
}

/// Pairs of elements turned by their row's position, as `rocfire_kernels::rope::rope`, and the first position to begin with.
///
/// # Inputs
/// `x` `[batches, heads, rows, depth]`, any float; cosines and sines `[positions, rot / 2]`, f32 (f64 for f64): the first
/// `rot` elements of a head are turned. With `has_positions` those of the rows, `[batches, rows]`, i32 or i64, to which `first` is
/// added. The output is like `x`; it has a gradient.
pub fn rope(style: RopeStyle, first: i64, has_positions: bool) -> Operator {
    let run = move |stream: &Stream, [x, inputs @ ..]: &[&Tensor; 4], to: &mut Tensor, inverse: bool| {
        let [cosines, sines, positions] = inputs;
        let mut params = RopeParams::default();
        (params.style, params.offset, params.inverse) = (style, first, inverse);
        params.rot = cosines.shape().last().map(|half| 2 * half);
        if has_positions {
            params.positions = RopePositions::Given(positions.view());
        }
        let (cosines, sines) = (packed(cosines)?, packed(sines)?);
        let angles = RopeAngles::Tables { cosines: cosines.view(), sines: sines.view() };
        // Heads are read along their last axis.
        let x = if x.layout().strides().last() == Some(&1) { (*x).clone() } else { packed(x)? };
        let from = Some(x.view());
        rope::rope(stream, &mut [RopeTensor { from, to: to.view_mut() }], &angles, &params)
    };
    let backward = CustomKernel::launcher("rope_backward", like_first, move |stream, inputs, outputs| {
        let grad = &inputs[inputs.len() - 1];
        run(stream, &[grad, &inputs[1], &inputs[2], &inputs[3]], &mut outputs[0], true)
    });
    let forward = CustomKernel::launcher("rope", like_first, move |stream, inputs, outputs| {
        let positions = &inputs[inputs.len() - 1];
        run(stream, &[&inputs[0], &inputs[1], &inputs[2], positions], &mut outputs[0], false)
    });
    forward.with_gradient(Backward(backward))
}

/// Cosines and sines of positions from `first` on, as `rocfire_kernels::rope::rope_table`.
///
/// # Inputs
/// Radians per position `[rot / 2]`, f64, contiguous. The outputs are two tables `[positions, rot / 2]`, f32.
pub fn rope_table(magnitude: f64, first: i64, positions: usize) -> CustomKernel {
    let tables = move |call: &Call<'_>| {
        let half = call.inputs[0].shape.num_elements();
        vec![TensorSpec::new(Shape::from(vec![positions, half]), DType::F32); 2]
    };
    CustomKernel::launcher("rope_table", tables, move |stream, inputs, outputs| {
        let [cosines, sines] = outputs else { unreachable!("two outputs were described") };
        rope::rope_table(stream, inputs[0].view(), magnitude, first, cosines.view_mut(), sines.view_mut())
    })
}

/// What makes rows that are coded at once.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CodedSource {
    /// `x` itself.
    Plain,
    /// [`norm()`] of it: kind and epsilon.
    Norm(NormKind, f64),
    /// [`gate`] of it.
    Gate(GateParams<'static>),
}

/// Codes of rows and their scales, in one launch mostly: `rocfire_kernels::quant`'s `quantise_activations`, `norm_quantise` and
/// `gate_quantise`.
///
/// # Inputs
/// As the source's, `x` of two axes, f32, f16 or bf16. The outputs are codes, u8, `[rows, bytes of cols codes]`, and scales as
/// [`Granularity::scales_shape`] says, f32, or u8 for [`Granularity::Mx`]. There is no gradient; [`Granularity::Static`] is an error.
pub fn coded(source: CodedSource, format: Format, granularity: Granularity) -> CustomKernel {
    let outputs = move |call: &Call<'_>| {
        let x = call.inputs[0].shape.to_vec();
        let [rows, cols] = [x.first(), x.last()].map(|extent| extent.copied().unwrap_or(0));
        let cols = if matches!(source, CodedSource::Gate(_)) { cols / 2 } else { cols };
        let scales = if matches!(granularity, Granularity::Mx(_)) { DType::U8 } else { DType::F32 };
        let spec = |shape: [usize; 2], dtype| TensorSpec::new(Shape::from(shape.to_vec()), dtype);
        let bytes = (cols * format.bits()).div_ceil(8);
        vec![spec([rows, bytes], DType::U8), spec(granularity.scales_shape([rows, cols]), scales)]
    };
    CustomKernel::launcher("coded", outputs, move |stream, inputs, outputs| {
        if granularity == Granularity::Static {
            return Err(rocfire_hal::Error::shape("coded", "granularity", "scales from the data", "Static").into());
        }
        let x = packed(&inputs[0])?;
        let [codes, scales] = outputs else { unreachable!("two outputs were described") };
        let (codes, scales) = (codes.view_mut(), scales.view_mut());
        match source {
            CodedSource::Plain => {
                quant::quantise_activations(stream, x.view(), None, RowCodes { format, granularity, codes, scales })
            }
            CodedSource::Norm(kind, epsilon) => {
                let to = RowCodes { format, granularity, codes, scales };
                quant::norm_quantise(stream, x.view(), &norm_params(kind, epsilon, inputs), to, None)
            }
            CodedSource::Gate(params) => {
                let to = RowCodes { format, granularity, codes, scales };
                quant::gate_quantise(stream, x.view(), &params, to)
            }
        }
    })
}

/// How a side of a product is coded.
pub type Coding = (Format, Granularity);

/// `a · bᵀ` of rows of codes, as `rocfire_kernels::quant`'s `q_matmul_scaled`, into f32, f16 or bf16; with `is_laid_out` by
/// `q_matmul_preshuffled`, which lays out the codes of `b` when it first runs and keeps them: they must be the same in every call.
///
/// # Inputs
/// Codes and scales of `a`, codes and scales of `b`, as [`coded`] gives them, `[M, K]` and `[N, K]`. The output is `[M, N]`.
pub fn product(a: Coding, b: Coding, to: DType, is_laid_out: bool) -> CustomKernel {
    let output = move |call: &Call<'_>| {
        let rows = |at: usize| call.inputs.get(at).and_then(|codes| codes.shape.to_vec().first().copied()).unwrap_or(0);
        vec![TensorSpec::new(Shape::from(vec![rows(0), rows(2)]), to)]
    };
    let laid_out: OnceLock<Preshuffled> = OnceLock::new();
    CustomKernel::launcher("product_of_codes", output, move |stream, inputs, outputs| {
        let [a_codes, a_scales, b_codes, b_scales] = inputs else {
            return Err(rocfire_hal::Error::shape("product", "inputs", "four", inputs.len()).into());
        };
        let (a, b) = (rows(a, a_codes, a_scales), rows(b, b_codes, b_scales));
        let c = outputs[0].view_mut();
        if !is_laid_out {
            return quant::q_matmul_scaled(stream, &a, &b, c);
        }
        let weight = match laid_out.get() {
            Some(weight) => weight,
            None => {
                let made = Preshuffled::new(stream, b.format, b_codes)?;
                laid_out.get_or_init(|| made)
            }
        };
        let CodedRows { scales, kind, block, .. } = b;
        quant::q_matmul_preshuffled(stream, &a, &PreshuffledRows { weight, scales, kind, block }, c)
    })
}

/// Codes and scales as a product reads them.
fn rows<'a>((format, granularity): Coding, codes: &'a Tensor, scales: &'a Tensor) -> CodedRows<'a> {
    let [rows, bytes] = [codes.shape().first(), codes.shape().last()].map(|extent| extent.copied().unwrap_or(0));
    let k = (bytes * 8 / format.bits()).max(1);
    let block = match granularity {
        Granularity::Static | Granularity::Tensor => [rows.max(1), k],
        Granularity::Token => [1, k],
        Granularity::Group(group) => [1, group],
        Granularity::Block(side) => [side, side],
        Granularity::Mx(_) => [1, 32],
    };
    CodedRows { format, codes: codes.view(), scales: scales.view(), kind: granularity.kind(), block }
}
