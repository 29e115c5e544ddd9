//! Attention: one launch, without its scores in memory, for the head sizes that the kernel has; for others three, scores,
//! their softmax with everything that is done to them before, and the product.
//!
//! Burn's `Autodiff` takes attention apart before it gets here.

use burn_backend::ops::AttentionModuleOptions;
use rocfire_fusion::{Binary, Compare, Draft, Reduce, Scalar, Term, Unary};
use rocfire_hal::{DType, Error as HalError, Tensor};
use rocfire_kernels::attention::{self as kernel, AttentionInputs, AttentionParams};

use crate::error::Result;
use crate::ops::{fused, matmul, view};
use crate::version::causal_offset;

/// `softmax(Q · Kᵀ · scale) · V` over the last axis of the scores.
///
/// `query`: `[batch, heads, rows, depth]`; `key`, `value`: `[batch, heads, columns, depth]`. `mask` (true: not seen) and
/// `bias` broadcast to the scores. A row that sees nothing gives zeros.
pub(crate) fn attention(
    inputs: [&Tensor; 3],
    mask: Option<&Tensor>,
    bias: Option<&Tensor>,
    options: &AttentionModuleOptions,
) -> Result<Tensor> {
    let shapes = inputs.map(|x| x.shape().len());
    if shapes != [4; 3] {
        return Err(HalError::shape("attention", "query, key, value", "of rank 4", format!("rank {shapes:?}")).into());
    }
    if let Some(softcap) = options.softcap.filter(|softcap| softcap.is_nan() || *softcap <= 0.0) {
        return Err(HalError::shape("attention", "softcap", "positive", softcap).into());
    }
    if let Some(bias) = bias.filter(|bias| !bias.dtype().is_float()) {
        return Err(HalError::shape("attention", "attn_bias", "a float", bias.dtype()).into());
    }
    if let Some(out) = whole(inputs, mask, bias, options)? {
        return Ok(out);
    }
    let [query, key, value] = inputs;
    let scores = matmul::matmul(query, &view::swap(key, 2, 3)?)?;
    let scale = options.scale.unwrap_or_else(|| 1.0 / (query.shape()[3] as f64).sqrt());
    let dtype = scores.dtype();
    let rows = Rows {
        dtype,
        softcap: options.softcap.is_some(),
        mask: mask.is_some(),
        causal: options.is_causal,
        bias: bias.map(Tensor::dtype),
    };

    let mut inputs = vec![scores.clone()];
    for tensor in mask.into_iter().chain(bias) {
        inputs.push(view::expand(tensor, scores.shape())?);
    }
    let ahead = causal_offset(options, scores.shape()[2], scores.shape()[3]);
    let scalars = [Scalar::Float(scale), Scalar::Float(options.softcap.unwrap_or(1.0)), Scalar::Int(ahead)];
    let does = [rows.softcap, rows.mask, rows.causal, rows.bias.is_some()];
    let variant = does.into_iter().fold(0, |variant, does| 2 * variant + u8::from(does));
    let dtypes = [dtype, rows.bias.unwrap_or(dtype)];
    let graph = fused::variant(("attention_softmax", variant), &dtypes, |g| rows.write(g));
    let weights = fused::elementwise(&graph, &inputs.iter().collect::<Vec<_>>(), &scalars, dtype)?;
    matmul::matmul(&weights, value)
}

/// In one launch, where head sizes and types are the kernel's and nothing is empty.
fn whole(
    [query, key, value]: [&Tensor; 3],
    mask: Option<&Tensor>,
    bias: Option<&Tensor>,
    options: &AttentionModuleOptions,
) -> Result<Option<Tensor>> {
    let [q, k, v] = [query, key, value].map(Tensor::shape);
    let depths_fit = [q[3], v[3]].iter().all(|&depth| kernel::takes_depth(depth));
    let types_fit = query.dtype().is_float() && [key, value].iter().all(|x| x.dtype() == query.dtype());
    let shapes_fit = k[..2] == q[..2] && v[..3] == k[..3] && k[3] == q[3];
    // The kernel's last row sees the last column.
    let causal_fits = !options.is_causal || causal_offset(options, q[2], k[2]) == k[2] as i64 - q[2] as i64;
    if !(causal_fits && depths_fit && types_fit && shapes_fit) {
        return Ok(None);
    }
    let mut params = AttentionParams::default();
    (params.scale, params.softcap, params.causal) = (options.scale, options.softcap, options.is_causal);
    let inputs = AttentionInputs {
        q: query.view(),
        k: key.view(),
        v: value.view(),
        mask: mask.map(Tensor::view),
        bias: bias.map(Tensor::view),
        starts: None,
        slopes: None,
        sinks: None,
    };
    let mut out = Tensor::empty(query.device(), &[q[0], q[1], q[2], v[3]], query.dtype())?;
    kernel::attention(query.device().stream(), &inputs, &params, out.view_mut(), None)?;
    Ok(Some(out))
}

/// What is done to a row of scores.
struct Rows {
    dtype: DType,
    softcap: bool,
    mask: bool,
    causal: bool,
    bias: Option<DType>,
}

impl Rows {
    fn write<'g>(&self, g: &'g Draft) -> Term<'g> {
        let wide = fused::wide(self.dtype);
        let input = g.input(self.dtype);
        let mask = self.mask.then(|| g.input(DType::Bool));
        let bias = self.bias.map(|dtype| g.input(dtype));
        let [scale, softcap, ahead] = [wide, wide, DType::I64].map(|dtype| g.scalar(dtype));
        let hidden = g.constant(wide, f64::NEG_INFINITY);
        let mut scores = input.cast(wide) * scale;
        if self.softcap {
            scores = (scores / softcap).unary(Unary::Tanh) * softcap;
        }
        if let Some(mask) = mask {
            scores = mask.choose(hidden, scores);
        }
        if self.causal {
            let (row, column) = (g.index(1), g.index(0));
            scores = column.is(Compare::Gt, row + ahead).choose(hidden, scores);
        }
        if let Some(bias) = bias {
            scores = scores + bias.cast(wide);
        }
        softmax_or_zeros(scores).cast(self.dtype)
    }
}

/// The softmax of a row; zeros where every score is minus infinity, which shifted by itself would be NaN.
fn softmax_or_zeros(scores: Term<'_>) -> Term<'_> {
    let (least, most_tiny) = match scores.dtype() {
        DType::F64 => (f64::MIN, f64::MIN_POSITIVE),
        _ => (f64::from(f32::MIN), f64::from(f32::MIN_POSITIVE)),
    };
    let largest = scores.reduce(Reduce::Max).binary(Binary::Max, scores.number(least));
    let exp = (scores - largest).unary(Unary::Exp);
    exp / exp.reduce(Reduce::Sum).binary(Binary::Max, scores.number(most_tiny))
}
