//! Operators as values: what a launcher reads and writes, how it is called, and what its gradient is.
//!
//! These are the operators that frameworks have no name of their own for. An adapter makes an [`Operator`] one of its
//! framework's: it allocates what [`Operator::outputs`] describes and calls [`Operator::launch`]; for gradients it does
//! the same with [`Operator::gradient`]. Burn and Candle call the same values, so that neither has a list of its own.
//!
//! Inputs are views of any strides unless a function says otherwise. What does not fit is an error that names the
//! argument.

mod cache;
mod coded_experts;
mod delta;
mod experts;
mod gguf;
mod laid_out;
mod mla;
mod scaled_experts;
mod sequences;
mod tokens;

use std::fmt;
use std::sync::Arc;

use rocfire_fusion::eager;
use rocfire_hal::{DType, Layout, Stream, Tensor, View, ViewMut};

use crate::attention::{AttentionInputs, AttentionParams, AttentionSaved};
use crate::attention::{attention as launch_attention, attention_backward, attention_backward_sinks};
use crate::family::{self, shape};
use crate::gate::{GateParams, gate as launch_gate, gate_backward};
use crate::graphs::wide;
use crate::hadamard::hadamard as launch_hadamard;
use crate::loss::{CrossEntropy, cross_entropy as launch_cross_entropy, cross_entropy_backward};
use crate::norm::{self, GroupNormGradients, GroupNormParams, NormGradients, NormKind, NormParams, norm_backward};
use crate::quant::{
    self, CodedRows, CodedWeight, EndActivation, EndCodes, Format, Granularity, Preshuffled, PreshuffledRows, RowCodes,
    ScaledEnd,
};
use crate::rope::{self, RopeAngles, RopeParams, RopePositions, RopeStyle, RopeTensor};
use crate::{Error, Result, softmax};

pub use crate::sample::Form;
pub use cache::{CacheForm, PagedForm, cache_copy, cache_gather, cache_write, paged_attention};
pub use coded_experts::{MatrixCoding, code_matrices, expert_matmul_coded, grouped_matmul_coded};
pub use delta::{DeltaForm, delta_rule};
pub use experts::{GroupedEpilogue, combine, expert_matmul, grouped_matmul};
pub use gguf::{dequantise_gguf, expert_matmul_gguf, grouped_matmul_gguf, listed_matmul_gguf, matmul_gguf};
use laid_out::Kept;
pub use laid_out::MatrixLayout;
pub use mla::{absorb, expand, expand_coded};
pub use scaled_experts::{expert_matmul_scaled, grouped_matmul_scaled};
pub use sequences::{CausalConvForm, ScanForm, WindowForm, causal_conv, selective_scan};
pub use tokens::{
    PenaltyForm, RouteForm, SampleForm, accept, accept_greedy, log_probabilities, penalise, probabilities, route,
    sample, sort_by_expert, top_k,
};

/// Shape and element type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The extents.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
}

impl Spec {
    /// From its parts.
    pub fn new(shape: impl Into<Vec<usize>>, dtype: DType) -> Spec {
        Spec { shape: shape.into(), dtype }
    }

    fn extent(&self, axis: usize) -> usize {
        self.shape.get(axis).copied().unwrap_or(0)
    }
}

type Outputs = Arc<dyn Fn(&[Spec]) -> Vec<Spec> + Send + Sync>;
type Launch = Arc<dyn Fn(&Stream, &[Tensor], &mut [Tensor]) -> Result<()> + Send + Sync>;

/// A launcher with its parameters. A clone is a handle to the same.
#[derive(Clone)]
pub struct Operator {
    name: &'static str,
    inputs: Vec<&'static str>,
    outputs: Outputs,
    launch: Launch,
    gradient: Option<Arc<Operator>>,
    learned: usize,
    kept: usize,
}

impl Operator {
    fn new(
        name: &'static str,
        inputs: &[&'static str],
        outputs: impl Fn(&[Spec]) -> Vec<Spec> + Send + Sync + 'static,
        launch: impl Fn(&Stream, &[Tensor], &mut [Tensor]) -> Result<()> + Send + Sync + 'static,
    ) -> Operator {
        let (outputs, launch) = (Arc::new(outputs), Arc::new(launch));
        Operator { name, inputs: inputs.to_vec(), outputs, launch, gradient: None, learned: 0, kept: 0 }
    }

    /// With the gradients of the first `count` inputs: of the same shapes and types, from the inputs, `outputs` of the
    /// outputs and the gradient of the first one.
    fn with_gradient(
        self,
        name: &'static str,
        count: usize,
        outputs: &[&'static str],
        launch: impl Fn(&Stream, &[Tensor], &mut [Tensor]) -> Result<()> + Send + Sync + 'static,
    ) -> Operator {
        let inputs = [&self.inputs[..], outputs, &["gradient"]].concat();
        let gradient = Operator::new(name, &inputs, move |specs| specs[..count].to_vec(), launch);
        Operator { gradient: Some(Arc::new(gradient)), learned: count, ..self }
    }

    /// The same where the inputs from `count` on are constants.
    pub fn learning(mut self, count: usize) -> Operator {
        if let Some(gradient) = self.gradient.as_deref() {
            let of_all = Arc::clone(&gradient.outputs);
            let outputs: Outputs = Arc::new(move |specs| of_all(specs).into_iter().take(count).collect());
            self.gradient = Some(Arc::new(Operator { outputs, ..gradient.clone() }));
        }
        self.learned = self.learned.min(count);
        self
    }

    /// The same whose first outputs are the first `count` inputs, changed.
    fn keeping(self, count: usize) -> Operator {
        Operator { kept: count, ..self }
    }

    /// How many of the first outputs are the first inputs, changed in places: to [`Operator::launch`] such an output is given as
    /// what the input
    /// holds, in its memory where nobody else needs it as it was, else in a copy.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// The name, for messages and profiles.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The inputs' names, in their order.
    pub fn inputs(&self) -> &[&'static str] {
        &self.inputs
    }

    /// The outputs that it has for such inputs.
    ///
    /// # Errors
    /// `Shape` for more or fewer inputs than it has.
    pub fn outputs(&self, inputs: &[Spec]) -> Result<Vec<Spec>> {
        self.check(inputs.len())?;
        Ok((self.outputs)(inputs))
    }

    /// Runs it on a stream of the inputs' device. `outputs` are as [`Operator::outputs`] says, contiguous, unwritten but for the
    /// first [`Operator::kept`].
    ///
    /// # Errors
    /// As its launcher: shapes, types and devices that do not fit, compilation, launch.
    pub fn launch(&self, stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]) -> Result<()> {
        self.check(inputs.len())?;
        for (&arg, input) in self.inputs.iter().zip(inputs) {
            family::on_device(self.name, arg, stream, &input.view())?;
        }
        (self.launch)(stream, inputs, outputs).map_err(|error| self.named(error, inputs))
    }

    /// A type that has no kernel, with the name of the input that has it.
    fn named(&self, error: Error, inputs: &[Tensor]) -> Error {
        let Error::Hal(rocfire_hal::Error::Unsupported { dtype, arch, .. }) = error else { return error };
        match self.inputs.iter().zip(inputs).find(|(_, input)| input.dtype() == dtype) {
            Some((&arg, _)) => shape(self.name, arg, format!("of a type that has a kernel for {arch}"), dtype),
            None => error,
        }
    }

    /// What gives the gradients of its first inputs, [`Operator::learned`] of them: from the inputs, the outputs and
    /// the gradient of the first output, in this order. `None` where the kernels have none. The other inputs and
    /// outputs are constants.
    pub fn gradient(&self) -> Option<&Operator> {
        self.gradient.as_deref()
    }

    /// How many of the inputs have a gradient.
    pub fn learned(&self) -> usize {
        self.learned
    }

    fn check(&self, inputs: usize) -> Result<()> {
        if inputs == self.inputs.len() {
            return Ok(());
        }
        Err(shape(self.name, "inputs", format!("{:?}", self.inputs), inputs))
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.name, self.inputs)
    }
}

/// The first input's shape and type.
fn like_first(inputs: &[Spec]) -> Vec<Spec> {
    inputs[..1].to_vec()
}

/// A view with the last axis contiguous: the tensor itself or a copy.
fn with_rows(x: &Tensor) -> Result<Tensor> {
    if x.layout().strides().last() == Some(&1) { Ok(x.clone()) } else { packed(x) }
}

/// Elements in order and without gaps.
fn packed(x: &Tensor) -> Result<Tensor> {
    if x.layout().is_contiguous() { Ok(x.clone()) } else { Ok(eager::copy(x)?) }
}

/// The first two of some outputs, where there are as many.
fn optional(outputs: &mut [Tensor]) -> [Option<ViewMut<'_>>; 2] {
    let mut outputs = outputs.iter_mut().map(Tensor::view_mut);
    [outputs.next(), outputs.next()]
}

/// RMSNorm or LayerNorm of rows, as [`norm::norm`].
///
/// # Inputs
/// `x` `[.., cols]`, any float; weight `[cols]`; with `has_bias` the bias `[cols]`. The output is like `x`; all have
/// gradients.
pub fn norm(kind: NormKind, epsilon: f64, has_bias: bool) -> Operator {
    let names = &["x", "weight", "bias"][..2 + usize::from(has_bias)];
    let count = names.len();
    let forward = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        norm::norm(stream, inputs[0].view(), &norm_params(kind, epsilon, &inputs[1..]), outputs[0].view_mut(), None)
    };
    let backward = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let [x, rest @ ..] = outputs else { unreachable!("the outputs are as many as described") };
        let [weight, bias] = optional(rest);
        let to = NormGradients { x: x.view_mut(), weight, bias, gate: None };
        let params = norm_params(kind, epsilon, &inputs[1..count]);
        norm_backward(stream, inputs[0].view(), &params, inputs[count + 1].view(), None, to)
    };
    Operator::new("norm", names, like_first, forward).with_gradient("norm_backward", count, &["y"], backward)
}

/// [`norm()`] of `x + residual`, and that sum, in one launch.
///
/// # Inputs
/// `x`, the residual, then as there. The outputs are the norm and the sum, like `x`. The gradient is [`norm()`]'s at
/// the sum, which an adapter records as two operators.
pub fn add_norm(kind: NormKind, epsilon: f64, has_bias: bool) -> Operator {
    let names = &["x", "residual", "weight", "bias"][..3 + usize::from(has_bias)];
    let outputs = |inputs: &[Spec]| vec![inputs[0].clone(); 2];
    Operator::new("add_norm", names, outputs, move |stream, inputs, outputs| {
        let [y, sum] = outputs else { unreachable!("two outputs were described") };
        let mut params = norm_params(kind, epsilon, &inputs[2..]);
        params.residual = Some(inputs[1].view());
        norm::norm(stream, inputs[0].view(), &params, y.view_mut(), Some(sum.view_mut()))
    })
}

fn norm_params(kind: NormKind, epsilon: f64, factors: &[Tensor]) -> NormParams<'_> {
    let mut params = NormParams::new(kind, epsilon);
    (params.weight, params.bias) = (factors.first().map(Tensor::view), factors.get(1).map(Tensor::view));
    params
}

/// GroupNorm, as [`norm::group_norm`].
///
/// # Inputs
/// `x` `[batch, channels, ..]`, any float; if `is_affine` weight and bias `[channels]`. The output is like `x`; all
/// have gradients.
pub fn group_norm(groups: usize, epsilon: f64, is_affine: bool) -> Operator {
    let names = &["x", "weight", "bias"][..if is_affine { 3 } else { 1 }];
    let count = names.len();
    let forward = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        norm::group_norm(stream, inputs[0].view(), &group_params(groups, epsilon, &inputs[1..]), outputs[0].view_mut())
    };
    let backward = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| {
        let [x, rest @ ..] = outputs else { unreachable!("the outputs are as many as described") };
        let [weight, bias] = optional(rest);
        let to = GroupNormGradients { x: x.view_mut(), weight, bias };
        let (params, grad) = (group_params(groups, epsilon, &inputs[1..count]), inputs[count + 1].view());
        norm::group_norm_backward(stream, inputs[0].view(), &params, grad, to)
    };
    let forward = Operator::new("group_norm", names, like_first, forward);
    forward.with_gradient("group_norm_backward", count, &["y"], backward)
}

fn group_params(groups: usize, epsilon: f64, factors: &[Tensor]) -> GroupNormParams<'_> {
    let mut params = GroupNormParams::new(groups, epsilon);
    (params.weight, params.bias) = (factors.first().map(Tensor::view), factors.get(1).map(Tensor::view));
    params
}

/// An activation and a product of the halves of rows, as [`crate::gate::gate`]; `params` without a bias.
///
/// # Inputs
/// `x` `[.., 2 n]`, any float. The output is `[.., n]`; it has a gradient.
pub fn gate(params: GateParams<'static>) -> Operator {
    let half = |inputs: &[Spec]| {
        let mut half = inputs[0].clone();
        half.shape.last_mut().into_iter().for_each(|cols| *cols /= 2);
        vec![half]
    };
    let forward = Operator::new("gate", &["x"], half, move |stream, inputs, outputs| {
        launch_gate(stream, inputs[0].view(), &params, outputs[0].view_mut())
    });
    forward.with_gradient("gate_backward", 1, &["y"], move |stream, inputs, outputs| {
        gate_backward(stream, inputs[0].view(), &params, inputs[2].view(), outputs[0].view_mut())
    })
}

/// A softmax along an axis, or its logarithm, as [`crate::softmax`].
///
/// # Inputs
/// `x`, any float. The output is like it; it has a gradient.
pub fn softmax(dim: usize, is_log: bool) -> Operator {
    let names = if is_log { ["log_softmax", "log_softmax_backward"] } else { ["softmax", "softmax_backward"] };
    let forward = Operator::new(names[0], &["x"], like_first, move |stream, inputs, outputs| {
        let run = if is_log { softmax::log_softmax } else { softmax::softmax };
        run(stream, inputs[0].view(), dim, outputs[0].view_mut())
    });
    forward.with_gradient(names[1], 1, &["y"], move |stream, inputs, outputs| {
        let run = if is_log { softmax::log_softmax_backward } else { softmax::softmax_backward };
        run(stream, inputs[1].view(), inputs[2].view(), dim, outputs[0].view_mut())
    })
}

/// The Hadamard transform along an axis, times `scale`, as [`crate::hadamard::hadamard`].
///
/// # Inputs
/// `x`, any float. The output is like it; it has a gradient, which is the same transform.
pub fn hadamard(dim: usize, scale: f64) -> Operator {
    let transform =
        move |stream: &Stream, x: &Tensor, y: &mut Tensor| launch_hadamard(stream, x.view(), dim, scale, y.view_mut());
    let forward = Operator::new("hadamard", &["x"], like_first, move |stream, inputs, outputs| {
        transform(stream, &inputs[0], &mut outputs[0])
    });
    forward.with_gradient("hadamard_backward", 1, &["y"], move |stream, inputs, outputs| {
        transform(stream, &inputs[2], &mut outputs[0])
    })
}

/// The loss of each row of logits, as [`crate::loss::cross_entropy`]; rows of the target `ignored` have none.
///
/// # Inputs
/// Logits `[.., classes]`, any float; targets `[..]`, i32 or i64; with `has_weights` the classes' weights `[classes]`.
/// The outputs are the losses and the logarithms of sums, `[..]`, f32 (f64 for f64). The losses have a gradient, of the
/// logits.
pub fn cross_entropy(ignored: Option<i64>, smoothing: f64, has_weights: bool) -> Operator {
    let names = &["logits", "targets", "weights"][..2 + usize::from(has_weights)];
    let count = names.len();
    let rows = |inputs: &[Spec]| vec![Spec::new(inputs[1].shape.clone(), wide(inputs[0].dtype)); 2];
    let forward = Operator::new("cross_entropy", names, rows, move |stream, inputs, outputs| {
        let [loss, lse] = outputs else { unreachable!("two outputs were described") };
        launch_cross_entropy(stream, &loss_of(inputs, ignored, smoothing), loss.view_mut(), lse.view_mut())
    });
    forward.with_gradient("cross_entropy_backward", 1, &["loss", "lse"], move |stream, inputs, outputs| {
        let (lse, d_loss) = (inputs[count + 1].view(), inputs[count + 2].view());
        let call = loss_of(&inputs[..count], ignored, smoothing);
        cross_entropy_backward(stream, &call, lse, d_loss, outputs[0].view_mut())
    })
}

fn loss_of(inputs: &[Tensor], ignored: Option<i64>, smoothing: f64) -> CrossEntropy<'_> {
    let mut call = CrossEntropy::new(inputs[0].view(), inputs[1].view());
    (call.ignored, call.smoothing, call.weights) = (ignored, smoothing, inputs.get(2).map(Tensor::view));
    call
}

/// What an attention is made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionForm {
    /// Scale, window, soft cap, dropout.
    pub params: AttentionParams,
    /// Whether rows come before heads, in inputs and output.
    pub rows_first: bool,
    /// Whether the logarithms of sums are written, which the gradients need.
    pub is_learned: bool,
    /// Whether there are sinks.
    pub has_sinks: bool,
    /// Whether there is a mask.
    pub has_mask: bool,
    /// Whether there is a bias.
    pub has_bias: bool,
}

impl AttentionForm {
    /// A tensor as the launchers have it: heads before rows.
    fn layout(&self, x: &Tensor) -> Result<Layout> {
        Ok(if self.rows_first { x.layout().swap(1, 2)? } else { *x.layout() })
    }

    fn view<'a>(&self, x: &'a Tensor) -> Result<View<'a>> {
        Ok(x.view().with_layout(self.layout(x)?)?)
    }

    fn view_mut<'a>(&self, x: &'a mut Tensor) -> Result<ViewMut<'a>> {
        let layout = self.layout(x)?;
        Ok(x.view_mut().with_layout(layout)?)
    }

    /// How many inputs there are.
    fn count(&self) -> usize {
        3 + [self.has_sinks, self.has_mask, self.has_bias].map(usize::from).iter().sum::<usize>()
    }

    /// The inputs; `sinks` are theirs, in one piece.
    fn inputs<'a>(&self, inputs: &'a [Tensor], sinks: Option<&'a Tensor>) -> Result<AttentionInputs<'a>> {
        let [q, k, v] = [self.view(&inputs[0])?, self.view(&inputs[1])?, self.view(&inputs[2])?];
        let mut rest = inputs[3 + usize::from(self.has_sinks)..self.count()].iter().map(Tensor::view);
        let [mask, bias] = [self.has_mask, self.has_bias].map(|is_there| if is_there { rest.next() } else { None });
        Ok(AttentionInputs { q, k, v, mask, bias, starts: None, slopes: None, sinks: sinks.map(Tensor::view) })
    }

    fn sinks(&self, inputs: &[Tensor]) -> Result<Option<Tensor>> {
        self.has_sinks.then(|| packed(&inputs[3])).transpose()
    }
}

/// `softmax(q · kᵀ · scale) · v`, as [`launch_attention`].
///
/// # Inputs
/// `q` `[batches, heads, rows, depth]`, `k` and `v`, any float (rows before heads if the form says so); sinks
/// `[heads]`, f32 (f64 for f64); a mask, bool, and a bias, which broadcast to `[batches, heads, rows, columns]`. The
/// outputs are like `q` with the depth of `v`, and where it is learned the logarithms of sums. Queries, keys, values
/// and sinks have gradients.
pub fn attention(form: AttentionForm) -> Operator {
    let extras = [("sinks", form.has_sinks), ("mask", form.has_mask), ("bias", form.has_bias)];
    let extras = extras.into_iter().filter_map(|(name, is_there)| is_there.then_some(name));
    let names: Vec<_> = ["q", "k", "v"].into_iter().chain(extras).collect();
    let outputs = move |inputs: &[Spec]| {
        let [q, v] = [&inputs[0], &inputs[2]];
        let mut out = q.clone();
        out.shape.last_mut().into_iter().for_each(|depth| *depth = v.shape.last().copied().unwrap_or(0));
        let (heads, rows) = if form.rows_first { (2, 1) } else { (1, 2) };
        let lse = Spec::new([q.extent(0), q.extent(heads), q.extent(rows)], wide(q.dtype));
        std::iter::once(out).chain(form.is_learned.then_some(lse)).collect()
    };
    let forward = Operator::new("attention", &names, outputs, move |stream, inputs, outputs| {
        let (sinks, [out, lse @ ..]) = (form.sinks(inputs)?, outputs) else { unreachable!("an output was described") };
        let (inputs, lse) = (form.inputs(inputs, sinks.as_ref())?, lse.first_mut().map(Tensor::view_mut));
        launch_attention(stream, &inputs, &form.params, form.view_mut(out)?, lse)
    });
    if !form.is_learned {
        return forward;
    }
    let (count, learned) = (form.count(), 3 + usize::from(form.has_sinks));
    forward.with_gradient("attention_backward", learned, &["out", "lse"], move |stream, inputs, outputs| {
        let (sinks, [dq, dk, dv, dsinks @ ..]) = (form.sinks(inputs)?, outputs) else {
            unreachable!("three gradients were described")
        };
        let [out, lse, dout] = [&inputs[count], &inputs[count + 1], &inputs[count + 2]];
        let saved = AttentionSaved { out: form.view(out)?, lse: lse.view(), dout: form.view(dout)? };
        let inputs = form.inputs(inputs, sinks.as_ref())?;
        let gradients = [form.view_mut(dq)?, form.view_mut(dk)?, form.view_mut(dv)?];
        attention_backward(stream, &inputs, &saved, &form.params, gradients)?;
        match dsinks {
            [dsinks] => attention_backward_sinks(stream, &inputs, &saved, &form.params, dsinks.view_mut()),
            _ => Ok(()),
        }
    })
}

/// Pairs of elements turned by their row's position, as [`rope::rope`], and the first position to begin with.
///
/// # Inputs
/// `x` `[batches, heads, rows, depth]`, any float; cosines and sines `[positions, rot / 2]`, f32 (f64 for f64): the
/// first `rot` elements of a head are turned. With `has_positions` those of the rows, `[batches, rows]`, i32 or i64, to
/// which `first` is added. The output is like `x`; it has a gradient.
pub fn rope(style: RopeStyle, first: i64, has_positions: bool) -> Operator {
    let names = &["x", "cosines", "sines", "positions"][..3 + usize::from(has_positions)];
    let run = move |stream: &Stream, x: &Tensor, inputs: &[Tensor], to: &mut Tensor, inverse: bool| {
        let mut params = RopeParams::default();
        (params.style, params.offset, params.inverse) = (style, first, inverse);
        params.rot = inputs[1].shape().last().map(|half| 2 * half);
        if has_positions {
            params.positions = RopePositions::Given(inputs[3].view());
        }
        let (x, cosines, sines) = (with_rows(x)?, packed(&inputs[1])?, packed(&inputs[2])?);
        let angles = RopeAngles::Tables { cosines: cosines.view(), sines: sines.view() };
        let from = Some(x.view());
        rope::rope(stream, &mut [RopeTensor { from, to: to.view_mut() }], &angles, &params)
    };
    let forward = Operator::new("rope", names, like_first, move |stream, inputs, outputs| {
        run(stream, &inputs[0], inputs, &mut outputs[0], false)
    });
    forward.with_gradient("rope_backward", 1, &["y"], move |stream, inputs, outputs| {
        run(stream, &inputs[inputs.len() - 1], inputs, &mut outputs[0], true)
    })
}

/// Cosines and sines of positions from `first` on, as [`rope::rope_table`].
///
/// # Inputs
/// Radians per position `[rot / 2]`, f64, contiguous. The outputs are two tables `[positions, rot / 2]`, f32.
pub fn rope_table(magnitude: f64, first: i64, positions: usize) -> Operator {
    let tables = move |inputs: &[Spec]| vec![Spec::new([positions, inputs[0].extent(0)], DType::F32); 2];
    Operator::new("rope_table", &["inverse"], tables, move |stream, inputs, outputs| {
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

/// Codes of rows and their scales, in one launch mostly: [`quant`]'s `quantise_activations`, `norm_quantise` and
/// `gate_quantise`.
///
/// # Inputs
/// `x` of two axes, f32, f16 or bf16; for [`CodedSource::Norm`] the weight too. The outputs are codes, u8, `[rows,
/// bytes of cols codes]`, and scales as [`Granularity::scales_shape`] says, f32, or u8 for [`Granularity::Mx`]. There
/// is no gradient; [`Granularity::Static`] is an error.
pub fn coded(source: CodedSource, format: Format, granularity: Granularity) -> Operator {
    let names = &["x", "weight"][..1 + usize::from(matches!(source, CodedSource::Norm(..)))];
    let outputs = move |inputs: &[Spec]| {
        let (rows, cols) = (inputs[0].extent(0), inputs[0].shape.last().copied().unwrap_or(0));
        let cols = if matches!(source, CodedSource::Gate(_)) { cols / 2 } else { cols };
        let bytes = (cols * format.bits()).div_ceil(8);
        let scales = Spec::new(granularity.scales_shape([rows, cols]), granularity.kind().dtype());
        vec![Spec::new([rows, bytes], DType::U8), scales]
    };
    Operator::new("coded", names, outputs, move |stream, inputs, outputs| {
        if granularity == Granularity::Static {
            return Err(shape("coded", "granularity", "scales from the data", "Static"));
        }
        let x = packed(&inputs[0])?;
        let [codes, scales] = outputs else { unreachable!("two outputs were described") };
        let to = RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() };
        match source {
            CodedSource::Plain => quant::quantise_activations(stream, x.view(), None, to),
            CodedSource::Norm(kind, epsilon) => {
                quant::norm_quantise(stream, x.view(), &norm_params(kind, epsilon, &inputs[1..]), to, None)
            }
            CodedSource::Gate(params) => quant::gate_quantise(stream, x.view(), &params, to),
        }
    })
}

/// OCP's E4M3 codes as those of [`Format::E4M3Fnuz`] that stand for half as much, as [`quant::halve_to_fnuz`]: with the
/// scales of a checkpoint doubled they say the same, and an architecture with that kind multiplies them natively.
///
/// # Inputs
/// Codes, u8. The output is like them.
pub fn halve_to_fnuz() -> Operator {
    Operator::new("halve_to_fnuz", &["codes"], like_first, |stream, inputs, outputs| {
        family::copy_into(stream, inputs[0].view(), outputs[0].view_mut())?;
        quant::halve_to_fnuz(stream, outputs[0].view_mut())
    })
}

/// How a side of a product is coded.
pub type Coding = (Format, Granularity);

/// How codes are multiplied, and what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProductForm {
    /// Whether `b` is laid out when its codes are not those of the call before, and kept, as
    /// [`quant::q_matmul_preshuffled`] takes it.
    pub is_laid_out: bool,
    /// Whether there is a bias.
    pub has_bias: bool,
    /// What becomes of each sum with its bias.
    pub activation: EndActivation,
    /// Whether the result is codes, and how a code is a number.
    pub codes: Option<Format>,
}

impl ProductForm {
    fn follows(self) -> bool {
        self.has_bias || self.activation != EndActivation::None || self.codes.is_some()
    }
}

/// `a · bᵀ` of rows of codes and what follows, as [`quant::q_matmul_scaled_to`], into f32, f16 or bf16, or codes.
///
/// # Inputs
/// Codes and scales of `a`, codes and scales of `b`, as [`coded`] gives them, `[M, K]` and `[N, K]`; where the form has
/// them, a bias `[N]` and the scale of the result's codes, f32 `[1, 1]`. The output is `[M, N]`.
pub fn product(a: Coding, b: Coding, to: DType, form: ProductForm) -> Operator {
    product_by(Arc::default(), a, b, to, form)
}

/// With the layout that others share.
fn product_by(layout: Arc<Kept<Preshuffled>>, a: Coding, b: Coding, to: DType, form: ProductForm) -> Operator {
    let mut names = vec!["a.codes", "a.scales", "b.codes", "b.scales"];
    names.extend(form.has_bias.then_some("bias"));
    names.extend(form.codes.map(|_| "scale"));
    let to = if form.codes.is_some() { DType::U8 } else { to };
    let output = move |inputs: &[Spec]| vec![Spec::new([inputs[0].extent(0), inputs[2].extent(0)], to)];
    Operator::new("product_of_codes", &names, output, move |stream, inputs, outputs| {
        let (a, b) = (rows(a, &inputs[0], &inputs[1]), rows(b, &inputs[2], &inputs[3]));
        let scale = inputs.last().expect("inputs were counted").view();
        let end = ScaledEnd {
            bias: form.has_bias.then(|| inputs[4].view()),
            activation: form.activation,
            codes: form.codes.map(|format| EndCodes { format, scale }),
        };
        let end = form.follows().then_some(&end);
        let c = outputs[0].view_mut();
        if !form.is_laid_out {
            return multiply(stream, &a, &CodedWeight::Rows(b), end, c);
        }
        let CodedRows { format, scales, kind, block, .. } = b;
        let codes = &inputs[2];
        let lay_out = || Preshuffled::new(stream, format, codes);
        layout.with(codes, lay_out, |weight| {
            let b = CodedWeight::LaidOut(PreshuffledRows { weight, scales, kind, block });
            multiply(stream, &a, &b, end, c)
        })
    })
}

/// [`product`] as a layer has it, which is told what follows step by step and may give codes as well.
#[derive(Clone, Debug)]
pub struct CodedProduct {
    sides: [Coding; 2],
    to: DType,
    form: ProductForm,
    layout: Arc<Kept<Preshuffled>>,
    plain: Operator,
    recoded: Option<(Format, Operator)>,
}

impl CodedProduct {
    /// Of activations and a weight, into f32, f16 or bf16.
    pub fn new(activations: Coding, weight: Coding, to: DType, form: ProductForm) -> CodedProduct {
        let layout = Arc::default();
        let plain = product_by(Arc::clone(&layout), activations, weight, to, form);
        CodedProduct { sides: [activations, weight], to, form, layout, plain, recoded: None }
    }

    /// The same with an activation behind the bias.
    pub fn with_activation(mut self, activation: EndActivation) -> CodedProduct {
        self.form.activation = activation;
        self.plain = self.operator(self.form.codes);
        self.recoded = self.recoded.take().map(|(format, _)| (format, self.operator(Some(format))));
        self
    }

    /// The same that can give codes of 8 bits too.
    pub fn with_codes(mut self, format: Format) -> CodedProduct {
        self.recoded = Some((format, self.operator(Some(format))));
        self
    }

    fn operator(&self, codes: Option<Format>) -> Operator {
        let [activations, weight] = self.sides;
        product_by(Arc::clone(&self.layout), activations, weight, self.to, ProductForm { codes, ..self.form })
    }

    /// What gives floats.
    pub fn plain(&self) -> &Operator {
        &self.plain
    }

    /// What gives codes, and of which format; `None` without [`CodedProduct::with_codes`].
    pub fn recoded(&self) -> Option<(Format, &Operator)> {
        self.recoded.as_ref().map(|(format, operator)| (*format, operator))
    }
}

/// A product of codes, by the launcher of that name where nothing follows it.
fn multiply(
    stream: &Stream,
    a: &CodedRows<'_>,
    b: &CodedWeight<'_>,
    end: Option<&ScaledEnd<'_>>,
    c: ViewMut<'_>,
) -> Result<()> {
    match (end, b) {
        (Some(end), b) => quant::q_matmul_scaled_to(stream, a, b, end, c),
        (None, CodedWeight::Rows(b)) => quant::q_matmul_scaled(stream, a, b, c),
        (None, CodedWeight::LaidOut(b)) => quant::q_matmul_preshuffled(stream, a, b, c),
    }
}

/// Codes and scales as a product reads them.
fn rows<'a>((format, granularity): Coding, codes: &'a Tensor, scales: &'a Tensor) -> CodedRows<'a> {
    let [rows, bytes] = [codes.shape().first(), codes.shape().last()].map(|extent| extent.copied().unwrap_or(0));
    let k = (bytes * 8 / format.bits()).max(1);
    let block = granularity.block([rows.max(1), k]);
    CodedRows { format, codes: codes.view(), scales: scales.view(), kind: granularity.kind(), block }
}
