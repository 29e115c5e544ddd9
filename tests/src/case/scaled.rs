//! Products of codes with scales on both sides: by row, by block, microscaled, formats mixed, native where there is a unit; by weights
//! in rows and by weights laid out.

use rocfire_hal::{DType, Stream, Tensor};
use rocfire_kernels::quant::{
    CodedRows, Format, Granularity, MxRounding, Preshuffled, PreshuffledRows, RowCodes, halve_to_fnuz,
    q_matmul_preshuffled, q_matmul_scaled, quantise_activations,
};

use super::drawn::Draw;
use super::row_codes::{block, coded};
use super::{Call, Case, Failure, temporary};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// M, N, K; the formats of both sides; how both are scaled.
type Spec = ([usize; 3], [Format; 2], [Granularity; 2]);

const UP: Granularity = Granularity::Mx(MxRounding::Up);
const BLOCKS: [Granularity; 2] = [Granularity::Group(128), Granularity::Block(128)];
const TOKENS: [Granularity; 2] = [Granularity::Token, Granularity::Token];
const TENSORS: [Granularity; 2] = [Granularity::Tensor, Granularity::Tensor];
/// The turn whose result is of 16 bits.
const SIXTEEN_BITS: usize = 2;

pub fn cases() -> Vec<Case> {
    use Format::{E2M1, E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, I4, I8};
    let specs: [Spec; 28] = [
        ([1, 1, 2], [I8, I8], TOKENS),
        ([3, 5, 31], [I8, I8], TOKENS),
        ([40, 70, 640], [I8, I8], TOKENS),
        ([33, 130, 384], [I8, I8], BLOCKS),
        ([17, 33, 96], [I8, I8], [Granularity::Group(32), Granularity::Token]),
        ([40, 70, 640], [E4M3, E4M3], TOKENS),
        ([33, 130, 384], [E4M3, E4M3], BLOCKS),
        ([40, 70, 640], [E4M3Fnuz, E4M3Fnuz], TOKENS),
        ([65, 40, 300], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        ([20, 35, 160], [E5M2Fnuz, E4M3Fnuz], TOKENS),
        ([20, 35, 160], [E4M3, E5M2], TOKENS),
        ([33, 47, 96], [E4M3, E4M3], [UP, UP]),
        ([33, 66, 224], [E2M1, E2M1], [UP, UP]),
        ([5, 40, 64], [E4M3, E2M1], [UP, UP]),
        ([7, 19, 130], [I8, I4], [Granularity::Token, Granularity::Group(64)]),
        ([33, 66, 512], [E2M1, E2M1], [UP, UP]),
        ([5, 40, 256], [E2M1, E4M3], [UP, UP]),
        ([20, 35, 128], [E5M2, E2M1], [UP, UP]),
        ([20, 50, 300], [E2M1, E2M1], TOKENS),
        ([33, 130, 384], [E2M1, E4M3], BLOCKS),
        // Large enough for the largest tiles.
        ([80, 13200, 160], [I8, I8], TOKENS),
        ([130, 8200, 64], [E4M3Fnuz, E4M3Fnuz], [UP, UP]),
        ([3, 20, 31], [I8, I8], TOKENS),
        ([3, 64, 65], [I8, I8], TOKENS),
        ([40, 33, 128], [I8, I8], TOKENS),
        ([20, 40, 64], [E4M3, E4M3], TOKENS),
        // A tile that lacks a row, and one that lacks a column.
        ([63, 64, 64], [I8, I8], TOKENS),
        ([64, 63, 64], [I8, I8], TOKENS),
    ];
    // One row and one tile, edges of tiles in rows and along K, each height of tiles, both ways of exponents, decoded formats.
    let laid_out: [Spec; 21] = [
        ([1, 1, 2], [I8, I8], TOKENS),
        ([3, 17, 31], [I8, I8], TOKENS),
        ([40, 70, 640], [I8, I8], TOKENS),
        ([33, 130, 384], [I8, I8], BLOCKS),
        ([20, 33, 96], [I8, I8], [Granularity::Group(32), Granularity::Token]),
        ([16, 64, 700], [E4M3, E4M3], TOKENS),
        ([33, 130, 384], [E4M3, E4M3], BLOCKS),
        ([17, 70, 640], [E4M3Fnuz, E4M3Fnuz], TOKENS),
        ([65, 40, 300], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        ([20, 35, 160], [E5M2Fnuz, E4M3Fnuz], TOKENS),
        ([33, 47, 96], [E4M3, E4M3], [UP, UP]),
        ([33, 66, 224], [E2M1, E2M1], [UP, UP]),
        ([5, 40, 256], [E4M3, E2M1], [UP, UP]),
        ([70, 40, 512], [E2M1, E2M1], [UP, UP]),
        ([7, 19, 130], [I8, I4], [Granularity::Token, Granularity::Group(64)]),
        ([66, 16000, 64], [I8, I8], TOKENS),
        // A tile that lacks a row, and one that lacks a column.
        ([63, 64, 64], [I8, I8], TOKENS),
        ([64, 63, 64], [I8, I8], TOKENS),
        // Enough for tall tiles, of which the last lacks rows and columns.
        ([257, 4100, 160], [I8, I8], TOKENS),
        ([258, 4100, 256], [E2M1, E2M1], [UP, UP]),
        ([257, 4100, 160], [E4M3Fnuz, E4M3Fnuz], TOKENS),
    ];
    // Into 16 bits, and large enough for the vendor's library where there is one.
    let large: [Spec; 8] = [
        ([64, 512, 512], [E4M3, E4M3], TENSORS),
        ([64, 512, 512], [E4M3, E5M2], TOKENS),
        ([68, 512, 528], [E4M3, E4M3], BLOCKS),
        ([64, 512, 512], [E4M3, E4M3], [Granularity::Group(128), Granularity::Group(128)]),
        ([65, 272, 2064], [E4M3, E4M3], [Granularity::Token, Granularity::Tensor]),
        ([64, 512, 512], [E4M3Fnuz, E4M3Fnuz], TOKENS),
        ([65, 260, 2052], [I8, I8], TOKENS),
        ([64, 512, 2048], [I8, I8], TENSORS),
    ];
    let in_rows = specs.into_iter().enumerate().map(|(turn, spec)| scaled(turn, spec, false));
    let mut cases: Vec<Case> = in_rows.collect();
    cases.extend(large.into_iter().map(|spec| scaled(SIXTEEN_BITS, spec, false)));
    cases.extend(laid_out.into_iter().enumerate().map(|(turn, spec)| scaled(turn, spec, true)));
    cases.push(halved(&[7, 100]));
    cases.push(halved(&[16, 64]));
    cases
}

/// Formats and scales of both sides.
const SIDES: [([Format; 2], [Granularity; 2]); 12] = [
    ([Format::I8, Format::I8], TOKENS),
    ([Format::I8, Format::I8], BLOCKS),
    ([Format::I8, Format::I8], [Granularity::Group(32), Granularity::Token]),
    ([Format::E4M3, Format::E4M3], TOKENS),
    ([Format::E4M3, Format::E4M3], BLOCKS),
    ([Format::E4M3Fnuz, Format::E4M3Fnuz], TOKENS),
    ([Format::E4M3Fnuz, Format::E4M3Fnuz], BLOCKS),
    ([Format::E5M2Fnuz, Format::E4M3Fnuz], TOKENS),
    ([Format::E4M3, Format::E4M3], [UP, UP]),
    ([Format::E2M1, Format::E2M1], [UP, UP]),
    ([Format::E4M3, Format::E2M1], [UP, UP]),
    ([Format::I8, Format::I4], [Granularity::Token, Granularity::Group(64)]),
];

/// Any rows, columns and lengths, of which those that have a scale for 32 are whole.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let (formats, granularities) = draw.pick(&SIDES);
    let (m, n) = (draw.extent(65), draw.extent(129));
    let k = if granularities == [UP, UP] { 32 * draw.extent(17) } else { 2 * draw.extent(257) };
    scaled(draw.below(3), ([m, n, k], formats, granularities), draw.flag())
}

/// The second side is a weight that is laid out, or is in rows.
fn scaled(turn: usize, ([m, n, k], formats, granularities): Spec, laid_out: bool) -> Case {
    let dtype = if turn % 3 == SIXTEEN_BITS { DType::BF16 } else { DType::F32 };
    let shapes = [[m, k], [n, k]];
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let coded = |side: usize| -> Result<(Tensor, Tensor), Failure> {
            let (shape, format, granularity) = (shapes[side], formats[side], granularities[side]);
            let device = inputs[side].device();
            let mut codes = temporary(device, &[shape[0], (k * format.bits()).div_ceil(8)], DType::U8)?;
            let mut scales = temporary(device, &granularity.scales_shape(shape), granularity.kind().dtype())?;
            let x = inputs[side].view();
            quantise_activations(
                stream,
                x,
                None,
                RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() },
            )?;
            Ok((codes, scales))
        };
        let sides = [coded(0)?, coded(1)?];
        let rows = |side: usize| CodedRows {
            format: formats[side],
            codes: sides[side].0.view(),
            scales: sides[side].1.view(),
            kind: granularities[side].kind(),
            block: block(shapes[side], granularities[side]),
        };
        if laid_out {
            let weight = Preshuffled::new(stream, formats[1], &sides[1].0)?;
            let CodedRows { scales, kind, block, .. } = rows(1);
            let weight = PreshuffledRows { weight: &weight, scales, kind, block };
            return Ok(q_matmul_preshuffled(stream, &rows(0), &weight, outputs[0].view_mut())?);
        }
        Ok(q_matmul_scaled(stream, &rows(0), &rows(1), outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let [a, b] = [0, 1].map(|side| coded(&inputs[side].values, shapes[side], formats[side], granularities[side]));
        let cell = |at: usize| dot((0..k).map(|i| (a[at / n * k + i], b[at % n * k + i])));
        vec![(0..m * n).map(cell).collect()]
    };
    let inputs = vec![
        (Array::random(&[m, k], DType::F32, 1), Placement::Contiguous),
        (Array::random(&[n, k], DType::F32, 2), Placement::Contiguous),
    ];
    let call = Call { inputs, outputs: vec![(vec![m, n], dtype)], launch, oracle };
    let name = format!("{m}x{n}x{k} {:?} {:?} · {:?} {:?}", formats[0], granularities[0], formats[1], granularities[1]);
    let operator = if laid_out { "q_matmul_preshuffled" } else { "q_matmul_scaled" };
    Case::new(operator, dtype, name, 2.0 * (m * n * k) as f64, call).summing(k)
}

/// OCP's codes as those of half the size, in place: every code there is.
fn halved(shape: &'static [usize]) -> Case {
    let launch = |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        rocfire_fusion::eager::copy_into(inputs[0].view(), outputs[0].view_mut())?;
        Ok(halve_to_fnuz(stream, outputs[0].view_mut())?)
    };
    let oracle = |inputs: &[Array]| {
        let to = |&code: &f64| match code as u8 {
            0x7f | 0xff => 128.0,
            0x80 => 0.0,
            other => f64::from(other),
        };
        vec![inputs[0].values.iter().map(to).collect()]
    };
    let len = shape.iter().product::<usize>();
    let codes = Array::new(shape, DType::U8, (0..len).map(|n| (n % 256) as f64).collect());
    let inputs = vec![(codes, Placement::Contiguous)];
    let call = Call { inputs, outputs: vec![(shape.to_vec(), DType::U8)], launch, oracle };
    Case::new("halve_to_fnuz", DType::U8, format!("{shape:?}"), 0.0, call)
}
