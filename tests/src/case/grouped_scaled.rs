//! Groups of rows of codes by a matrix of codes each: fp8 and int8 by row and by block, microscaled, mixed, by offsets, counts and
//! choices of rows, as many experts as layers of a mixture have, most of them without a row.

use rocfire_hal::{DType, Layout, Stream, Tensor};
use rocfire_kernels::quant::{
    CodedRows, CodedStack, Format, Granularity, MxRounding, PreshuffledMatrices, PreshuffledStack, RowCodes,
    q_matmul_preshuffled_grouped, q_matmul_scaled_grouped, quantise_activations,
};

use super::drawn::{Draw, forever};
use super::grouped_codes::{By, GroupRows};
use super::row_codes::{block, coded};
use super::{Call, Case, Failure, temporary};
use crate::data::{Array, Placement};
use crate::oracle::dot;

/// Rows of each group and how groups are told, N and K, the formats of both sides, how both are scaled.
type Spec = (&'static [usize], By, [usize; 2], [Format; 2], [Granularity; 2]);

const UP: Granularity = Granularity::Mx(MxRounding::Up);
const BLOCKS: [Granularity; 2] = [Granularity::Group(128), Granularity::Block(128)];
const TOKENS: [Granularity; 2] = [Granularity::Token; 2];
const TENSORS: [Granularity; 2] = [Granularity::Tensor; 2];

/// Two of 8 experts of a token, four of 32 of three, and two of 8 of 130, who are not alike.
const ONE: &[usize] = &[0, 1, 0, 0, 1, 0, 0, 0];
const THREE: &[usize] =
    &[0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1];
const MANY: &[usize] = &[70, 0, 1, 33, 128, 20, 0, 8];

const CASES: [Spec; 26] = {
    use Format::{E2M1, E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, I4, I8};
    [
        (ONE, By::Choices(2), [96, 256], [I8, I8], TOKENS),
        (ONE, By::Choices(2), [96, 256], [E4M3Fnuz, E4M3Fnuz], TOKENS),
        (ONE, By::Choices(2), [130, 384], [E4M3, E4M3], BLOCKS),
        (ONE, By::Choices(2), [130, 384], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        (THREE, By::Choices(4), [70, 640], [I8, I8], TOKENS),
        (THREE, By::Choices(4), [64, 640], [E4M3, E4M3], TOKENS),
        (THREE, By::Choices(4), [64, 640], [E4M3Fnuz, E4M3Fnuz], TOKENS),
        (THREE, By::Choices(4), [130, 256], [E4M3, E4M3], BLOCKS),
        (THREE, By::Choices(4), [130, 256], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        (MANY, By::Choices(2), [72, 256], [I8, I8], TOKENS),
        (MANY, By::Choices(2), [72, 256], [E4M3, E4M3], TOKENS),
        (MANY, By::Choices(2), [72, 256], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        // By the other two ways, of rows before the first group and behind the last, of groups that have room for more.
        (&[5, 0, 17, 1], By::Offsets, [65, 384], [E4M3, E4M3], BLOCKS),
        (&[33, 2, 0], By::Offsets, [40, 128], [E4M3Fnuz, E4M3Fnuz], TOKENS),
        (&[3, 0, 31], By::Counts, [64, 256], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        (&[7, 40], By::Counts, [33, 160], [I8, I8], TOKENS),
        // Bytes one by one, whose next group begins anywhere; a last block of K that is not whole; blocks of 32.
        (&[2, 3], By::Choices(2), [5, 31], [I8, I8], TOKENS),
        (&[2, 0, 9], By::Choices(3), [35, 300], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        (&[4, 1], By::Offsets, [33, 96], [I8, I8], [Granularity::Group(32), Granularity::Token]),
        // Microscaled, mixed and packed formats, one scale for a whole matrix.
        (&[1, 0, 6], By::Choices(4), [47, 256], [E4M3, E4M3], [UP, UP]),
        (&[20, 3], By::Choices(2), [66, 224], [E2M1, E2M1], [UP, UP]),
        (&[2, 5], By::Counts, [40, 128], [E4M3, E2M1], [UP, UP]),
        (&[3, 4], By::Choices(2), [35, 160], [E5M2, E4M3], TENSORS),
        (&[7, 0, 2], By::Offsets, [19, 130], [I8, I4], [Granularity::Token, Granularity::Group(64)]),
        // The highest tiles, of which the second lacks a row; no row at all.
        (&[191], By::Choices(1), [2752, 64], [E5M2Fnuz, E4M3Fnuz], TOKENS),
        (&[0, 0], By::Offsets, [32, 128], [E4M3, E4M3], BLOCKS),
    ]
};

/// By matrices that are laid out: rows of N that fill no tile, K that fills no round, codes of 4 bits, no row, all heights of tiles.
const LAID_OUT: [Spec; 14] = {
    use Format::{E2M1, E4M3, E4M3Fnuz, I4, I8};
    [
        (ONE, By::Choices(2), [96, 256], [I8, I8], TOKENS),
        (ONE, By::Choices(2), [130, 384], [E4M3, E4M3], BLOCKS),
        (ONE, By::Choices(2), [130, 384], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        (THREE, By::Choices(4), [70, 640], [I8, I8], TOKENS),
        (THREE, By::Choices(4), [64, 640], [E4M3Fnuz, E4M3Fnuz], TOKENS),
        (MANY, By::Choices(2), [72, 256], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        (&[5, 0, 17, 1], By::Offsets, [65, 384], [E4M3, E4M3], BLOCKS),
        (&[3, 0, 31], By::Counts, [64, 256], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        (&[2, 0, 9], By::Choices(3), [35, 300], [E4M3Fnuz, E4M3Fnuz], BLOCKS),
        (&[2, 3], By::Choices(2), [5, 31], [I8, I8], TOKENS),
        (&[20, 3], By::Choices(2), [66, 224], [E2M1, E2M1], [UP, UP]),
        (&[7, 0, 2], By::Offsets, [19, 130], [I8, I4], [Granularity::Token, Granularity::Group(64)]),
        (&[300, 130], By::Choices(1), [140, 128], [E4M3Fnuz, E4M3Fnuz], TOKENS),
        (&[0, 0], By::Offsets, [32, 128], [E4M3, E4M3], BLOCKS),
    ]
};

pub fn cases() -> Vec<Case> {
    let in_rows = CASES.into_iter().enumerate().map(|(turn, spec)| grouped(turn, spec, false));
    in_rows.chain(LAID_OUT.into_iter().enumerate().map(|(turn, spec)| grouped(turn, spec, true))).collect()
}

/// Formats and scales of both sides.
const SIDES: [([Format; 2], [Granularity; 2]); 8] = [
    ([Format::I8; 2], TOKENS),
    ([Format::I8; 2], BLOCKS),
    ([Format::E4M3; 2], TOKENS),
    ([Format::E4M3; 2], BLOCKS),
    ([Format::E4M3Fnuz; 2], BLOCKS),
    ([Format::E4M3; 2], [UP, UP]),
    ([Format::E2M1; 2], [UP, UP]),
    ([Format::I8, Format::I4], [Granularity::Token, Granularity::Group(64)]),
];

/// Up to five groups, some of them empty.
pub fn drawn(draw: &mut Draw<'_>) -> Case {
    let rows: Vec<usize> = (0..=draw.below(5)).map(|_| if draw.below(4) == 3 { 0 } else { draw.extent(65) }).collect();
    let (formats, granularities) = draw.pick(&SIDES);
    let n = draw.extent(129);
    let k = if granularities == [UP, UP] { 32 * draw.extent(9) } else { 2 * draw.extent(193) };
    let by = draw.pick(&[By::Offsets, By::Counts, By::Choices(3)]);
    grouped(draw.below(3), (forever(&rows), by, [n, k], formats, granularities), draw.below(2) == 1)
}

/// What is one matrix of several in a tensor of them.
fn one_of(all: &Tensor, group: usize) -> Result<Tensor, Failure> {
    let &[_, rows, columns] = all.shape() else { return Err("three axes".into()) };
    let one = all.layout().slice(0, group, group + 1, 1)?;
    let lies = Layout::strided(&[rows, columns], &one.strides()[1..], one.offset())?;
    Ok(all.clone().with_layout(lies)?)
}

/// What is no group's is not written: there the case has zeros from before.
fn grouped(turn: usize, (rows, by, [n, k], formats, granularities): Spec, laid_out: bool) -> Case {
    let dtype = if turn % 3 == 2 { DType::BF16 } else { DType::F32 };
    let (count, grouped) = (rows.len(), GroupRows { of: rows, by });
    let lines = grouped.shape_of_a(k).iter().product::<usize>() / k;
    let shapes = [[lines, k], [n, k]];
    let quantised = move |stream: &Stream, side: usize, x: &Tensor, [codes, scales]: [&mut Tensor; 2]| {
        let (format, granularity) = (formats[side], granularities[side]);
        let to = RowCodes { format, granularity, codes: codes.view_mut(), scales: scales.view_mut() };
        quantise_activations(stream, x.view(), None, to)
    };
    let launch = move |stream: &Stream, inputs: &[Tensor], outputs: &mut [Tensor]| -> Result<(), Failure> {
        let [x, w, bounds, order] = inputs else { return Err("four inputs".into()) };
        rocfire_fusion::eager::fill(outputs[0].view_mut(), rocfire_fusion::Scalar::Int(0))?;
        let made = |side: usize, count: usize| -> Result<[Tensor; 2], Failure> {
            let bytes = (k * formats[side].bits()).div_ceil(8);
            let [down, along] = granularities[side].scales_shape(shapes[side]);
            let codes = temporary(x.device(), &[count, shapes[side][0], bytes], DType::U8)?;
            Ok([codes, temporary(x.device(), &[count, down, along], granularities[side].kind().dtype())?])
        };
        let [codes, scales] = made(0, 1)?;
        let (mut codes, mut scales) = (one_of(&codes, 0)?, one_of(&scales, 0)?);
        quantised(stream, 0, x, [&mut codes, &mut scales])?;
        let [w_codes, w_scales] = made(1, count)?;
        for group in 0..count {
            let to = [&mut one_of(&w_codes, group)?, &mut one_of(&w_scales, group)?];
            quantised(stream, 1, &one_of(w, group)?, to)?;
        }
        let [of_a, of_b] = [0, 1].map(|side| (granularities[side].kind(), block(shapes[side], granularities[side])));
        let a =
            CodedRows { format: formats[0], codes: codes.view(), scales: scales.view(), kind: of_a.0, block: of_a.1 };
        let (codes, scales, (kind, block)) = (w_codes.view(), w_scales.view(), of_b);
        let groups = grouped.groups(bounds, order);
        if laid_out {
            let weight = PreshuffledStack::new(stream, formats[1], &w_codes)?;
            let b = PreshuffledMatrices { weight: &weight, scales, kind, block };
            return Ok(q_matmul_preshuffled_grouped(stream, &a, &b, &groups, outputs[0].view_mut())?);
        }
        let b = CodedStack { format: formats[1], codes, scales, kind, block };
        Ok(q_matmul_scaled_grouped(stream, &a, &b, &groups, outputs[0].view_mut())?)
    };
    let oracle = move |inputs: &[Array]| {
        let order = &inputs[3].values;
        let a = coded(&inputs[0].values, shapes[0], formats[0], granularities[0]);
        let mut c = vec![0.0; grouped.places() * n];
        for group in 0..count {
            let w = &inputs[1].values[group * n * k..(group + 1) * n * k];
            let w = coded(w, shapes[1], formats[1], granularities[1]);
            for place in grouped.places_of(group) {
                let row = grouped.row_of(order, place);
                for column in 0..n {
                    c[place * n + column] = dot((0..k).map(|at| (a[row * k + at], w[column * k + at])));
                }
            }
        }
        vec![c]
    };
    let [bounds, order] = grouped.told();
    let inputs = vec![
        (Array::random(&[lines, k], DType::F32, 1), Placement::Contiguous),
        (Array::random(&[count, n, k], DType::F32, 2), Placement::Contiguous),
        bounds,
        order,
    ];
    let name = grouped.name();
    let sides = [0, 1].map(|side| format!("{:?} {:?}", formats[side], granularities[side])).join(" · ");
    let output = [&grouped.lines()[..], &[n]].concat();
    let call = Call { inputs, outputs: vec![(output, dtype)], launch, oracle };
    let flops = 2.0 * (grouped.total() * n * k) as f64;
    let operator = if laid_out { "q_matmul_preshuffled_grouped" } else { "q_matmul_scaled_grouped" };
    Case::new(operator, dtype, format!("{name} x {n} x {k} {by:?} {sides}"), flops, call).summing(k)
}
