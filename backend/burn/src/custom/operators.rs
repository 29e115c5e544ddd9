//! Operators of `rocfire-kernels` that Burn has no name for, as [`CustomKernel`]s: eager, as an operation of Burn's
//! stream, and with the gradient that the kernels have under `Autodiff`.
//!
//! Each function says what the inputs of [`CustomOps::custom`] are, in their order; there are no scalars.
//! `rocfire-burn-nn` has modules over them. What does not fit is an error that names the argument, told as [`super`]
//! says.

use std::sync::Arc;

use burn_backend::DType;
use burn_backend::tensor::FloatTensor;
pub use rocfire_kernels::attention::PagedParams;
pub use rocfire_kernels::cache::{CacheLayout, ScaleRule};
pub use rocfire_kernels::delta::DeltaParams;
pub use rocfire_kernels::experts::{GroupScore, Groups, Score, Shared, SharedScore};
pub use rocfire_kernels::gate::{Activation, GateLayout, GateParams};
pub use rocfire_kernels::norm::NormKind;
use rocfire_kernels::operators::{self, Spec};
pub use rocfire_kernels::operators::{
    AttentionForm, CacheForm, CausalConvForm, CodedProduct, CodedSource, Coding, DeltaForm, Form, GroupedEpilogue,
    MatrixCoding, MatrixLayout, Operator, PagedForm, PenaltyForm, ProductForm, RouteForm, SampleForm, ScanForm,
    WindowForm, absorb, accept, accept_greedy, attention, cache_copy, cache_write, causal_conv, code_matrices, coded,
    combine, cross_entropy, delta_rule, expand, expert_matmul, expert_matmul_coded, expert_matmul_gguf, gate,
    group_norm, grouped_matmul, grouped_matmul_coded, grouped_matmul_gguf, hadamard, halve_to_fnuz, listed_matmul_gguf,
    log_probabilities, matmul_gguf, norm, paged_attention, penalise, probabilities, rope, rope_table, route,
    selective_scan, softmax, sort_by_expert, top_k,
};
pub use rocfire_kernels::quant::{EndActivation, Format, Gguf, Granularity, MxRounding, ScaleKind};
pub use rocfire_kernels::rope::{RopeFrequencies, RopeScaling, RopeStyle};
pub use rocfire_kernels::sort::Order;

use super::{CustomGradient, CustomKernel, CustomOps, CustomTensor, Saved, TensorSpec};
use crate::convert::{to_burn, to_hal, to_shape};
use crate::error::OrPanic;

/// A type of Burn's, as forms have it.
///
/// # Panics
/// For a quantised type.
pub fn row_type(dtype: DType) -> rocfire_hal::DType {
    to_hal(dtype).or_panic()
}

/// [`operators::dequantise_gguf`] as a type of Burn's.
///
/// # Panics
/// For a quantised type.
pub fn dequantise_gguf(kind: Gguf, dtype: DType) -> Operator {
    operators::dequantise_gguf(kind, to_hal(dtype).or_panic())
}

/// [`operators::expand_coded`] into a type of Burn's.
///
/// # Panics
/// For a quantised type.
pub fn expand_coded(
    form: CacheForm,
    extents: [usize; 2],
    heads: [usize; 2],
    coding: MatrixCoding,
    to: DType,
) -> Operator {
    operators::expand_coded(form, extents, heads, coding, to_hal(to).or_panic())
}

/// [`operators::product`] into a type of Burn's.
///
/// # Panics
/// For a quantised type.
pub fn product(a: Coding, b: Coding, to: DType, form: ProductForm) -> Operator {
    operators::product(a, b, to_hal(to).or_panic(), form)
}

/// [`operators::grouped_matmul_scaled`] into a type of Burn's.
///
/// # Panics
/// For a quantised type.
pub fn grouped_matmul_scaled(a: Coding, b: MatrixCoding, to: DType, layout: Option<&MatrixLayout>) -> Operator {
    operators::grouped_matmul_scaled(a, b, to_hal(to).or_panic(), layout)
}

/// [`operators::expert_matmul_scaled`] into a type of Burn's.
///
/// # Panics
/// For a quantised type.
pub fn expert_matmul_scaled(a: Coding, b: MatrixCoding, to: DType, layout: Option<&MatrixLayout>) -> Operator {
    operators::expert_matmul_scaled(a, b, to_hal(to).or_panic(), layout)
}

/// [`operators::sample`] into a type of Burn's.
///
/// # Panics
/// For a quantised type.
pub fn sample(form: SampleForm, to: DType) -> Operator {
    operators::sample(form, to_hal(to).or_panic())
}

/// [`operators::cache_gather`] into a type of Burn's.
///
/// # Panics
/// For a quantised type.
pub fn cache_gather(form: CacheForm, rows_and_keys: [usize; 2], heads: [usize; 3], to: DType) -> Operator {
    operators::cache_gather(form, rows_and_keys, heads, to_hal(to).or_panic())
}

/// The shapes of keys and values of a cache of `[pages, tokens, heads, channels]`, of elements of a type of Burn's.
///
/// # Panics
/// For a quantised type.
pub fn cache_shapes(layout: CacheLayout, extents: [usize; 4], dtype: DType) -> [Vec<usize>; 2] {
    layout.shapes(extents, to_hal(dtype).or_panic())
}

/// The gradient of an operator of the kernels', where it has one: of its first inputs. That of another is a panic with
/// its name.
#[derive(Clone, Debug)]
pub struct OperatorGradient(Operator);

impl CustomGradient for OperatorGradient {
    fn backward<B: CustomOps>(&self, saved: Saved<B>, grad: FloatTensor<B>) -> Vec<Option<FloatTensor<B>>> {
        let (operator, floats) = (&self.0, saved.needed.len());
        let names = operator.inputs().iter().zip(&saved.inputs);
        let names = names.filter(|(_, input)| matches!(input, CustomTensor::Float(_))).map(|(name, _)| name);
        for (arg, needed) in names.zip(&saved.needed).skip(operator.learned()) {
            assert!(!needed, "{}: {arg} has no gradient", operator.name());
        }
        let gradient = operator.gradient().unwrap_or_else(|| unreachable!("a call without one is not tracked")).clone();
        let inputs = saved.inputs.into_iter().chain(saved.outputs).chain([CustomTensor::Float(grad)]).collect();
        let gradients =
            B::custom(&gradient.into(), inputs, &[]).into_iter().map(|gradient| Some(gradient.into_float()));
        gradients.chain(std::iter::repeat_with(|| None)).take(floats).collect()
    }

    fn is_none(&self) -> bool {
        self.0.gradient().is_none()
    }
}

impl From<Operator> for CustomKernel<OperatorGradient> {
    /// An operator of the kernels', which checks what it is given.
    fn from(operator: Operator) -> CustomKernel<OperatorGradient> {
        let gradient = OperatorGradient(operator.clone());
        // SAFETY: the text is never compiled: what runs is the operator.
        let mut kernel = unsafe { CustomKernel::new(operator.name(), "", "") };
        let parts = Arc::make_mut(&mut kernel.parts);
        let described = operator.clone();
        parts.operator = Some(operator);
        let kernel = kernel.outputs(move |call| {
            let spec = |spec: &TensorSpec| Ok(Spec::new(spec.shape.to_vec(), to_hal(spec.dtype)?));
            let inputs = call.inputs.iter().map(spec).collect::<crate::error::Result<Vec<_>>>().or_panic();
            let outputs = described.outputs(&inputs).map_err(crate::Error::from).or_panic();
            outputs.iter().map(|spec| TensorSpec::new(to_shape(&spec.shape), to_burn(spec.dtype))).collect()
        });
        kernel.with_gradient(gradient)
    }
}
