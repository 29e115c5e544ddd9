//! Norms and gates whose result is coded where it is computed.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::gate::{Activation, GateLayout, GateParams};
use rocfire_kernels::norm::{NormKind, NormParams};
use rocfire_kernels::quant::{
    CodeLayout, Format, Granularity, MxRounding, RowCodes, Scales, dequantise, gate_quantise, norm_quantise,
};

use super::gate::activation;
use super::quant::nearest;
use super::{Call, Case, Failure, temporary};
use crate::data::{Array, Placement};
use crate::oracle::{dot, sum};

const EPSILON: f64 = 1e-5;
/// The scale of codes that are given one.
const SCALE: f64 = 1.0 / 32.0;

/// Rows, columns, how they are coded, what they are of.
type Spec<T> = ([usize; 2], DType, Format, Granularity, T);

pub fn cases() -> Vec<Case> {
    use DType::{BF16, F16, F32};
    let norms: [Spec<(NormKind, bool)>; 13] = [
        ([1, 1], F32, Format::I8, Granularity::Token, (NormKind::Rms, false)),
        ([3, 65], F32, Format::I8, Granularity::Token, (NormKind::Layer, false)),
        ([2, 1024], BF16, Format::E4M3, Granularity::Token, (NormKind::Rms, true)),
        ([3, 1100], F16, Format::I8, Granularity::Group(128), (NormKind::Rms, true)),
        ([5, 200], BF16, Format::E4M3Fnuz, Granularity::Group(64), (NormKind::Layer, true)),
        ([2, 96], BF16, Format::E4M3, Granularity::Mx(MxRounding::Up), (NormKind::Rms, false)),
        ([4, 33], BF16, Format::E5M2, Granularity::Static, (NormKind::Rms, false)),
        ([7, 40], BF16, Format::I8, Granularity::Tensor, (NormKind::Layer, true)),
        // Several runs to a lane: as many as lanes share a scale, and fewer.
        ([2, 4096], BF16, Format::E4M3, Granularity::Group(128), (NormKind::Rms, false)),
        ([1, 4096], F32, Format::I8, Granularity::Group(256), (NormKind::Layer, false)),
        ([2, 4000], F16, Format::E2M1, Granularity::Mx(MxRounding::Up), (NormKind::Rms, true)),
        ([1, 10000], F16, Format::I8, Granularity::Group(64), (NormKind::Rms, false)),
        // The last group has columns for one lane of it only.
        ([1, 1032], BF16, Format::E4M3, Granularity::Group(128), (NormKind::Rms, false)),
    ];
    let gates: [Spec<(Activation, GateLayout)>; 7] = [
        ([1, 1], F32, Format::I8, Granularity::Token, (Activation::Silu, GateLayout::Halves)),
        ([3, 72], F32, Format::I8, Granularity::Token, (Activation::Gelu, GateLayout::Halves)),
        ([2, 2100], BF16, Format::E4M3, Granularity::Group(128), (Activation::Silu, GateLayout::Halves)),
        (
            [5, 64],
            BF16,
            Format::E2M1,
            Granularity::Mx(MxRounding::Down),
            (Activation::QuickGelu, GateLayout::Interleaved),
        ),
        ([3, 1027], F16, Format::I8, Granularity::Token, (Activation::GeluTanh, GateLayout::Halves)),
        ([4, 31], BF16, Format::I8, Granularity::Static, (Activation::Sigmoid, GateLayout::Halves)),
        ([0, 16], F16, Format::I8, Granularity::Token, (Activation::Silu, GateLayout::Halves)),
    ];
    norms.into_iter().map(norm).chain(gates.into_iter().map(gate)).collect()
}

/// Launches `make` and gives what its codes stand for.
fn decoded(
    shape: [usize; 2],
    format: Format,
    granularity: Granularity,
    [scale, to]: [&mut Tensor; 2],
    stream: &Stream,
    make: impl FnOnce(RowCodes<'_>) -> rocfire_kernels::Result<()>,
) -> Result<(), Failure> {
    let device = to.device().clone();
    let [rows, cols] = shape;
    let mut codes = temporary(&device, &[rows, (cols * format.bits()).div_ceil(8)], DType::U8)?;
    let mut fresh = temporary(&device, &granularity.scales_shape(shape), granularity.kind().dtype())?;
    let scales = if granularity == Granularity::Static { scale } else { &mut fresh };
    make(RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() })?;
    let layout = CodeLayout::of_rows(format, cols);
    let scales =
        Scales { view: scales.view(), kind: granularity.kind(), block: &block(shape, granularity), global: None };
    Ok(dequantise(stream, codes.view(), &layout, Some(&scales), to.view_mut())?)
}

/// Rows and columns that share a scale.
pub(super) fn block(shape: [usize; 2], granularity: Granularity) -> [usize; 2] {
    match granularity {
        Granularity::Static | Granularity::Tensor => shape,
        Granularity::Token => [1, shape[1]],
        Granularity::Group(group) => [1, group],
        Granularity::Block(side) => [side, side],
        Granularity::Mx(_) => [1, 32],
    }
}

/// What the codes of `values` stand for, in steps that are f32's own.
pub(super) fn coded(values: &[f64], shape: [usize; 2], format: Format, granularity: Granularity) -> Vec<f64> {
    let (block, grid) = (block(shape, granularity), granularity.scales_shape(shape));
    let cell = |n: usize| n / shape[1] / block[0] * grid[1] + n % shape[1] / block[1];
    let mut peaks = vec![0f64; grid[0] * grid[1]];
    values.iter().enumerate().for_each(|(n, x)| peaks[cell(n)] = peaks[cell(n)].max(x.abs()));
    let exponent = f64::from(format.largest()).log2().floor();
    let scale = |peak: f64| match granularity {
        Granularity::Static => SCALE,
        Granularity::Mx(MxRounding::Down) => (peak.log2().floor() - exponent).exp2(),
        Granularity::Mx(_) => f64::from(peak as f32 / format.largest()).log2().ceil().exp2(),
        _ => f64::from(peak as f32 / format.largest()),
    };
    let value = |(n, &x): (usize, &f64)| {
        let scale = scale(peaks[cell(n)]);
        let code = nearest(format, f64::from(x as f32 * (1.0 / scale as f32)), false);
        f64::from(scale as f32 * code as f32)
    };
    values.iter().enumerate().map(value).collect()
}

/// RMSNorm with a weight and one more, LayerNorm with weight and bias; `residual`: of a sum, which is written too.
fn norm((shape, dtype, format, granularity, (kind, residual)): Spec<(NormKind, bool)>) -> Case {
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [x, more, weight, bias, scale] = inputs else { return Err("five inputs".into()) };
        let [to, sum] = outputs else { return Err("two outputs".into()) };
        let mut params = NormParams::new(kind, EPSILON);
        params.weight = Some(weight.view());
        params.one_plus = kind == NormKind::Rms;
        params.bias = (kind == NormKind::Layer).then(|| bias.view());
        params.residual = residual.then(|| more.view());
        decoded(shape, format, granularity, [&mut scale.clone(), to], stream, |codes| {
            norm_quantise(stream, x.view(), &params, codes, Some(sum.view_mut()))
        })
    };
    let oracle = move |inputs: &[Array]| {
        let [x, more, weight, bias, _] = inputs else { return Vec::new() };
        let added = x.values.iter().zip(&more.values).map(|(x, r)| if residual { x + r } else { *x });
        let total = Array::new(&shape, dtype, added.collect());
        let mut y = Vec::new();
        for row in total.values.chunks(shape[1]) {
            let count = shape[1] as f64;
            let mean = if kind == NormKind::Layer { sum(row) / count } else { 0.0 };
            let size = (dot(row.iter().map(|x| (x - mean, x - mean))) / count + EPSILON).sqrt();
            y.extend(row.iter().enumerate().map(|(column, x)| match kind {
                NormKind::Rms => x / size * (1.0 + weight.values[column]),
                NormKind::Layer => (x - mean) / size * weight.values[column] + bias.values[column],
            }));
        }
        vec![coded(&Array::new(&shape, dtype, y).values, shape, format, granularity), total.values.to_vec()]
    };
    let full = |seed| (Array::random(&shape, dtype, seed), Placement::Contiguous);
    let row = |seed| (Array::random(&[shape[1]], dtype, seed), Placement::Contiguous);
    let scale = (Array::new(&[1, 1], DType::F32, vec![SCALE]), Placement::Contiguous);
    let inputs = vec![full(1), full(2), row(3), row(4), scale];
    let outputs = vec![(shape.to_vec(), DType::F32), (shape.to_vec(), dtype)];
    let call = Call { inputs, outputs, launch, oracle };
    let more = if residual { " residual" } else { "" };
    let name = format!("{}x{} {kind:?}{more} {format:?} {granularity:?}", shape[0], shape[1]);
    Case::new("norm_quantise", dtype, name, 8.0 * (shape[0] * shape[1]) as f64, call)
}

/// With a bias where halves follow each other, with a limit where gates and ups lie in turn.
fn gate((shape, dtype, format, granularity, (kind, layout)): Spec<(Activation, GateLayout)>) -> Case {
    let [rows, n] = shape;
    let in_turn = layout == GateLayout::Interleaved;
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let mut params = GateParams::new(kind);
        params.layout = layout;
        params.bias = (!in_turn).then(|| inputs[1].view());
        params.limit = in_turn.then_some(0.5);
        decoded(shape, format, granularity, [&mut inputs[2].clone(), &mut outputs[0]], stream, |codes| {
            gate_quantise(stream, inputs[0].view(), &params, codes)
        })
    };
    let oracle = move |inputs: &[Array]| {
        let mut y = Vec::new();
        for row in inputs[0].values.chunks(2 * n) {
            for at in 0..n {
                let [gate, up] = if in_turn { [2 * at, 2 * at + 1] } else { [at, n + at] };
                let read = |place: usize| row[place] + if in_turn { 0.0 } else { inputs[1].values[place] };
                let limit = if in_turn { 0.5 } else { f64::INFINITY };
                y.push(activation(kind, read(gate).min(limit)).0 * read(up).clamp(-limit, limit));
            }
        }
        vec![coded(&Array::new(&shape, dtype, y).values, shape, format, granularity)]
    };
    let scale = (Array::new(&[1, 1], DType::F32, vec![SCALE]), Placement::Contiguous);
    let inputs = vec![
        (Array::random(&[rows, 2 * n], dtype, 1), Placement::Contiguous),
        (Array::random(&[2 * n], dtype, 2), Placement::Contiguous),
        scale,
    ];
    let call = Call { inputs, outputs: vec![(shape.to_vec(), DType::F32)], launch, oracle };
    let name = format!("{rows}x{n} {kind:?} {layout:?} {format:?} {granularity:?}");
    Case::new("gate_quantise", dtype, name, 10.0 * (rows * n) as f64, call)
}
