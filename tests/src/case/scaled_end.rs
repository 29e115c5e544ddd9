//! Products of codes with something behind them: a bias, an activation, codes of the result.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::quant::{
    CodeLayout, CodedRows, CodedWeight, EndActivation, EndCodes, Format, Granularity, MxRounding, Preshuffled,
    PreshuffledRows, RowCodes, ScaleKind, ScaledEnd, Scales, dequantise, q_matmul_scaled_to, quantise_activations,
};

use super::drawn::Draw;
use super::quant::nearest;
use super::row_codes::{block, coded};
use super::{Call, Case, Failure, temporary};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// What a result's codes are multiplied by: those of 8-bit floats reach beyond every result, whole numbers do not.
const SCALE: f64 = 0.03;

/// What is behind a product: the bias' type, the activation, and the type of the result or its codes.
#[derive(Clone, Copy)]
struct Behind(Option<DType>, EndActivation, Result<DType, Format>);

/// M, N, K; the formats of both sides; how both are scaled; what is behind; whether the second side is laid out.
type Spec = ([usize; 3], [Format; 2], [Granularity; 2], Behind, bool);

const UP: Granularity = Granularity::Mx(MxRounding::Up);
const BLOCKS: [Granularity; 2] = [Granularity::Group(128), Granularity::Block(128)];
const TOKENS: [Granularity; 2] = [Granularity::Token; 2];
const TENSORS: [Granularity; 2] = [Granularity::Tensor; 2];

pub fn cases() -> Vec<Case> {
    use DType::{BF16, F16, F32};
    use EndActivation::{GeluTanh, None as Same, Relu, Silu};
    use Format::{E2M1, E4M3, E4M3Fnuz, E5M2, I8};
    let specs: [Spec; 24] = [
        ([1, 1, 2], [I8, I8], TOKENS, Behind(Some(F32), Same, Ok(F32)), false),
        ([1, 70, 96], [I8, I8], TOKENS, Behind(Some(BF16), GeluTanh, Ok(F32)), false),
        ([33, 130, 384], [I8, I8], BLOCKS, Behind(None, Silu, Ok(F32)), false),
        ([64, 64, 128], [I8, I8], TOKENS, Behind(Some(F16), Relu, Ok(BF16)), false),
        ([33, 47, 96], [E4M3, E4M3], TOKENS, Behind(Some(F32), GeluTanh, Ok(BF16)), false),
        ([17, 70, 300], [E4M3Fnuz, E4M3Fnuz], BLOCKS, Behind(Some(BF16), Silu, Ok(F16)), false),
        ([5, 40, 64], [E2M1, E2M1], [UP, UP], Behind(Some(F32), Relu, Ok(F32)), false),
        // Codes: of a whole tile, of edges, of one row.
        ([64, 64, 128], [I8, I8], TOKENS, Behind(Some(F32), Same, Err(E4M3)), false),
        ([33, 47, 96], [I8, I8], TOKENS, Behind(Some(BF16), GeluTanh, Err(I8)), false),
        ([1, 130, 64], [E4M3, E5M2], TOKENS, Behind(None, Silu, Err(E5M2)), false),
        ([20, 35, 160], [E4M3Fnuz, E4M3Fnuz], TENSORS, Behind(Some(F32), Relu, Err(E4M3Fnuz)), false),
        ([65, 128, 128], [E4M3, E4M3], TOKENS, Behind(None, Same, Err(I8)), false),
        // K in slices.
        ([1, 130, 1100], [I8, I8], TOKENS, Behind(Some(F32), GeluTanh, Ok(F32)), false),
        ([33, 47, 640], [E4M3, E4M3], TOKENS, Behind(Some(BF16), Silu, Ok(BF16)), false),
        ([64, 70, 1024], [E4M3Fnuz, E4M3Fnuz], TOKENS, Behind(None, Relu, Err(E4M3)), false),
        ([5, 64, 1536], [E4M3, E4M3], TENSORS, Behind(Some(F32), Same, Err(I8)), false),
        // Enough for runs of a row where slices are added up.
        ([65, 4100, 576], [I8, I8], TOKENS, Behind(Some(BF16), Relu, Ok(BF16)), false),
        ([65, 4096, 576], [I8, I8], TOKENS, Behind(Some(F32), Silu, Err(I8)), false),
        // A weight that is laid out.
        ([33, 130, 384], [E4M3Fnuz, E4M3Fnuz], BLOCKS, Behind(Some(BF16), GeluTanh, Ok(BF16)), true),
        ([64, 64, 128], [E4M3, E4M3], TOKENS, Behind(Some(F32), Silu, Err(E4M3)), true),
        ([17, 70, 640], [I8, I8], TOKENS, Behind(Some(F32), Relu, Ok(F32)), true),
        // Large enough for the vendor's library where there is one.
        ([64, 512, 512], [E4M3, E4M3], TENSORS, Behind(Some(BF16), GeluTanh, Ok(BF16)), false),
        ([64, 512, 512], [E4M3, E4M3], TOKENS, Behind(Some(BF16), Silu, Ok(BF16)), false),
        ([64, 512, 2048], [I8, I8], TOKENS, Behind(Some(BF16), GeluTanh, Ok(BF16)), false),
    ];
    let mut cases: Vec<Case> = specs.into_iter().map(ended).collect();
    // Every form of the library's, into codes too: its sums have as few bits as its card's, and next to a bound between two codes it takes
    // the other one. All of them are as near as one rounding to bf16, which is far less than one to a code.
    for (turn, activation) in [Same, Relu, GeluTanh, Silu].into_iter().enumerate() {
        let bias = (turn % 2 == 0).then_some(BF16);
        cases.push(ended(([80, 512, 528], [E4M3, E4M3], TENSORS, Behind(bias, activation, Ok(F16)), false)));
        let coded = ended(([80, 512, 528], [E4M3, E4M3], TENSORS, Behind(bias, activation, Err(E4M3)), false));
        cases.push(Case { dtype: BF16, ..coded });
    }
    // Beyond the largest code.
    cases.push(ended_by(([7, 40, 64], [I8, I8], TOKENS, Behind(None, Same, Err(E5M2)), false), 2.0_f64.powi(-20)));
    cases.push(ended_by(
        ([20, 35, 160], [I8, I8], TENSORS, Behind(Some(F32), Same, Err(E4M3Fnuz)), false),
        2.0_f64.powi(-10),
    ));
    cases
}

/// Any rows, columns and lengths, and any end, of which those into floats are compared.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    use EndActivation::{GeluTanh, None as Same, Relu, Silu};
    let formats = draw.pick(&[[Format::I8; 2], [Format::E4M3; 2], [Format::E4M3Fnuz; 2]]);
    let granularities = draw.pick(&[TOKENS, TENSORS, BLOCKS]);
    let bias = draw.pick(&[None, Some(DType::F32), Some(DType::BF16), Some(DType::F16)]);
    let behind = Behind(bias, draw.pick(&[Same, Relu, GeluTanh, Silu]), Ok(draw.pick(&[DType::F32, DType::BF16])));
    let size = [draw.extent(65), draw.extent(129), 2 * draw.extent(513)];
    ended((size, formats, granularities, behind, draw.flag()))
}

/// What becomes of a sum and its bias.
fn activated(activation: EndActivation, x: f64) -> f64 {
    match activation {
        EndActivation::None => x,
        EndActivation::Relu if x.is_nan() => x,
        EndActivation::Relu => x.max(0.0),
        EndActivation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            x / 2.0 * (1.0 + inner.tanh())
        }
        EndActivation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// What the code of a number stands for.
fn recoded(format: Format, x: f64, scale: f64) -> f64 {
    if x.is_nan() {
        return if format.is_int() { 0.0 } else { x };
    }
    let scale = scale as f32;
    nearest(format, f64::from(x as f32 * (1.0 / scale)), false) * f64::from(scale)
}

/// Codes of the result are compared as what they stand for. The last bias of many is NaN.
fn ended(spec: Spec) -> Case {
    ended_by(spec, SCALE)
}

fn ended_by(([m, n, k], formats, granularities, behind, laid_out): Spec, code_scale: f64) -> Case {
    let Behind(bias, activation, to) = behind;
    let shapes = [[m, k], [n, k]];
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [_, _, bias_of, scale] = inputs else { return Err("four inputs".into()) };
        let device = scale.device();
        let made = |side: usize| -> Result<(Tensor, Tensor), Failure> {
            let (shape, format, granularity) = (shapes[side], formats[side], granularities[side]);
            let mut codes = temporary(device, &[shape[0], (k * format.bits()).div_ceil(8)], DType::U8)?;
            let mut scales = temporary(device, &granularity.scales_shape(shape), granularity.kind().dtype())?;
            let to = RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() };
            quantise_activations(stream, inputs[side].view(), None, to)?;
            Ok((codes, scales))
        };
        let sides = [made(0)?, made(1)?];
        let rows = |side: usize| CodedRows {
            format: formats[side],
            codes: sides[side].0.view(),
            scales: sides[side].1.view(),
            kind: granularities[side].kind(),
            block: block(shapes[side], granularities[side]),
        };
        let codes = to.err().map(|format| EndCodes { format, scale: scale.view() });
        let end = ScaledEnd { bias: bias.map(|_| bias_of.view()), activation, codes };
        let weight;
        let b = match laid_out {
            true => {
                weight = Preshuffled::new(stream, formats[1], &sides[1].0)?;
                let CodedRows { scales, kind, block, .. } = rows(1);
                CodedWeight::LaidOut(PreshuffledRows { weight: &weight, scales, kind, block })
            }
            false => CodedWeight::Rows(rows(1)),
        };
        let Err(format) = to else {
            return Ok(q_matmul_scaled_to(stream, &rows(0), &b, &end, outputs[0].view_mut())?);
        };
        let mut made = temporary(device, &[m, n], DType::U8)?;
        q_matmul_scaled_to(stream, &rows(0), &b, &end, made.view_mut())?;
        let (layout, all) = (
            CodeLayout::of_rows(format, n),
            Scales { view: scale.view(), kind: ScaleKind::F32, block: &[m.max(1), n.max(1)], global: None },
        );
        Ok(dequantise(stream, made.view(), &layout, Some(&all), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let [a, b] = [0, 1].map(|side| coded(&inputs[side].values, shapes[side], formats[side], granularities[side]));
        let cell = |at: usize| {
            let sum = dot((0..k).map(|i| (a[at / n * k + i], b[at % n * k + i])));
            let bias = if bias.is_some() { inputs[2].values[at % n] } else { 0.0 };
            let x = activated(activation, sum + bias);
            to.map_or_else(|format| recoded(format, x, code_scale), |_| x)
        };
        vec![(0..m * n).map(cell).collect()]
    };
    let mut a = Array::random(&[m, k], DType::F32, 1);
    // Activations are curved near 0.
    let near = a.values.iter().map(|x| x * 0.125).collect();
    a = Array::new(&[m, k], DType::F32, near);
    let bias_type = bias.unwrap_or(DType::F32);
    let mut of_columns = Array::random(&[n], bias_type, 3).values.to_vec();
    if n >= 32 {
        of_columns[n - 1] = f64::NAN;
    }
    let inputs = vec![
        (a, Placement::Contiguous),
        (Array::random(&[n, k], DType::F32, 2), Placement::Contiguous),
        (Array::new(&[n], bias_type, of_columns), Placement::Contiguous),
        (Array::new(&[1, 1], DType::F32, vec![code_scale]), Placement::Contiguous),
    ];
    let dtype = to.unwrap_or(DType::F32);
    let call = Call { inputs, outputs: vec![(vec![m, n], dtype)], launch, oracle };
    let bias = bias.map_or(String::new(), |bias| format!(" + {}", bias.name()));
    let end = to.map_or_else(|format| format!("{activation:?} {format:?}"), |_| format!("{activation:?}"));
    let way = if laid_out { " laid out" } else { "" };
    let sides = [0, 1].map(|side: usize| format!("{:?} {:?}", formats[side], granularities[side])).join(" · ");
    let name = format!("{m}x{n}x{k} {sides}{way}{bias} {end}");
    Case::new("q_matmul_scaled_to", dtype, name, 2.0 * (m * n * k) as f64, call).summing(k)
}
