//! Launchers of the library where models call them: norms, gates, losses, products by experts.

use std::cell::RefCell;
use std::rc::Rc;

use rocfire_hal::{DType, Device, Layout, Stream, Tensor, View};
use rocfire_kernels::gate::{Activation, GateParams, gate};
use rocfire_kernels::gemm::{GemmGroups, GemmParams, gemm_grouped};
use rocfire_kernels::hadamard::hadamard;
use rocfire_kernels::loss::{CrossEntropy, cross_entropy};
use rocfire_kernels::norm::{NormGradients, NormKind, NormParams, norm, norm_backward};
use rocfire_kernels::quant::{
    CodeLayout, CodedMatrix, Coding, Format, Granularity, Rounding, RowCodes, ScaleKind, Scales, dequantise,
    gate_quantise, norm_quantise, q_matmul_grouped, quantise,
};
use rocfire_kernels::rope::{RopeAngles, RopeParams, RopeTensor, rope};
use rocfire_kernels::softmax::softmax;

use crate::op::{CHECKED_ROWS, Error, Make, Op, ROTATION_BYTES, compare, elements, filled, shape_text, tolerance};

const ROWS: usize = 8192;
/// Tokens of a large prompt: what a launch takes to fill and to empty the card is a quarter of the share that it is of `ROWS`.
const MANY_ROWS: usize = 4 * ROWS;
const COLS: usize = 4096;
const EPSILON: f64 = 1e-5;

pub type MakeSet = Box<dyn Fn(&Device, u64) -> Result<Vec<Tensor>, Error>>;
pub type Launch = Box<dyn Fn(&Stream, &mut [Tensor]) -> Result<(), Error>>;
pub type Check = Box<dyn Fn(&[Tensor]) -> Result<(), Error>>;

/// What is timed: how a set of tensors is made, inputs first, what is launched on one, and what is true of it then.
pub struct Timed {
    pub shape: String,
    pub flops: f64,
    /// Shapes and types of all tensors, for their bytes.
    pub tensors: Vec<(Vec<usize>, DType)>,
    pub make: MakeSet,
    pub launch: Launch,
    pub check: Check,
}

impl Timed {
    /// Tensors of normal numbers, and zeros of other types.
    pub fn floats(
        shape: &[usize],
        flops_each: f64,
        tensors: Vec<(Vec<usize>, DType)>,
        launch: impl Fn(&Stream, &mut [Tensor]) -> Result<(), Error> + 'static,
        check: impl Fn(&[Tensor]) -> Result<(), Error> + 'static,
    ) -> Timed {
        let of_make = tensors.clone();
        let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
            let each = of_make.iter().enumerate();
            each.map(|(slot, (shape, dtype))| match dtype.is_float() {
                true => filled(device, shape, *dtype, set * 8 + slot as u64),
                false => zeros(device, shape, *dtype),
            })
            .collect()
        };
        let flops = flops_each * shape.iter().product::<usize>() as f64;
        let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
        Timed { shape: shape_text(shape), flops, tensors, make, launch, check }
    }

    pub fn op(self, device: &Device, name: &str) -> Result<Op, Error> {
        let size = |(shape, dtype): &(Vec<usize>, DType)| shape.iter().product::<usize>() * dtype.size_bytes();
        let bytes: usize = self.tensors.iter().map(size).sum();
        let sets = ROTATION_BYTES.div_ceil(bytes).max(2);
        let made = (0..sets).map(|set| (self.make)(device, set as u64)).collect::<Result<Vec<_>, _>>()?;
        let made = Rc::new(RefCell::new(made));
        let (of_check, device, run, check) = (made.clone(), device.clone(), self.launch, self.check);
        Ok(Op {
            name: name.to_owned(),
            shape: self.shape,
            bytes: bytes as f64,
            flops: self.flops,
            launch: Box::new(move |n| run(device.stream(), &mut made.borrow_mut()[n % sets])),
            check: Box::new(move || check(&of_check.borrow()[0])),
        })
    }
}

fn zeros(device: &Device, shape: &[usize], dtype: DType) -> Result<Tensor, Error> {
    let tensor = Tensor::empty(device, shape, dtype)?;
    device.stream().fill(tensor.buffer(), 0, 0, tensor.buffer().bytes())?;
    Ok(tensor)
}

/// Compares some rows of an output with what `reference` makes of the same rows of the inputs.
fn check_rows(
    inputs: &[(&Tensor, usize)],
    output: (&Tensor, usize),
    allowed: f64,
    reference: impl Fn(&[Vec<f64>]) -> Vec<f64>,
) -> Result<(), Error> {
    let read = |tensor: &Tensor| -> Result<Vec<u8>, Error> { Ok(tensor.to_bytes()?) };
    let bytes = inputs.iter().map(|(tensor, _)| read(tensor)).collect::<Result<Vec<_>, _>>()?;
    let got = read(output.0)?;
    let rows = output.0.shape().iter().product::<usize>() / output.1;
    for number in 0..CHECKED_ROWS.min(rows) {
        let row = rows / CHECKED_ROWS.min(rows) * number;
        let of_row: Vec<Vec<f64>> = inputs
            .iter()
            .zip(&bytes)
            .map(|((tensor, columns), bytes)| {
                // What has one row is every row's.
                let first = if tensor.shape().iter().product::<usize>() == *columns { 0 } else { row * columns };
                elements(bytes, tensor.dtype(), first, *columns)
            })
            .collect();
        let dtype = output.0.dtype();
        compare(&elements(&got, dtype, row * output.1, output.1), &reference(&of_row), allowed)?;
    }
    Ok(())
}

/// A row less its mean, over its size, and one over that size.
fn normal(kind: NormKind, x: &[f64]) -> (Vec<f64>, f64) {
    let count = x.len() as f64;
    let mean = if kind == NormKind::Layer { x.iter().sum::<f64>() / count } else { 0.0 };
    let inverse = 1.0 / (x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count + EPSILON).sqrt();
    (x.iter().map(|x| (x - mean) * inverse).collect(), inverse)
}

fn matrix(dtype: DType) -> (Vec<usize>, DType) {
    (vec![ROWS, COLS], dtype)
}

fn row(dtype: DType) -> (Vec<usize>, DType) {
    (vec![COLS], dtype)
}

/// A norm with its weight; with a residual its sum is written too.
fn norms(device: &Device, name: &str, kind: NormKind, residual: bool) -> Result<Op, Error> {
    let bf16 = DType::BF16;
    let mut tensors = vec![matrix(bf16), row(bf16), matrix(bf16)];
    tensors.extend(residual.then(|| [matrix(bf16), matrix(bf16)]).into_iter().flatten());
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, weight, y, rest @ ..] = all else { return Err("three tensors".into()) };
        let mut params = NormParams::new(kind, EPSILON);
        params.weight = Some(weight.view());
        match rest {
            [more, sum] => {
                params.residual = Some(more.view());
                Ok(norm(stream, x.view(), &params, y.view_mut(), Some(sum.view_mut()))?)
            }
            _ => Ok(norm(stream, x.view(), &params, y.view_mut(), None)?),
        }
    };
    let check = move |all: &[Tensor]| {
        // With a residual, of the sum that was written.
        let x = all.get(4).unwrap_or(&all[0]);
        check_rows(&[(x, COLS), (&all[1], COLS)], (&all[2], COLS), tolerance(DType::BF16), |rows| {
            normal(kind, &rows[0]).0.iter().zip(&rows[1]).map(|(n, weight)| n * weight).collect()
        })
    };
    Timed::floats(&[ROWS, COLS], 5.0, tensors, launch, check).op(device, name)
}

/// Gradients of a norm: of `x`, weight, bias.
fn norm_gradients(device: &Device, name: &str, kind: NormKind) -> Result<Op, Error> {
    let bf16 = DType::BF16;
    let tensors = vec![matrix(bf16), row(bf16), matrix(bf16), matrix(bf16), row(bf16), row(bf16)];
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, weight, dy, dx, d_weight, d_bias] = all else { return Err("six tensors".into()) };
        let mut params = NormParams::new(kind, EPSILON);
        params.weight = Some(weight.view());
        params.bias = Some(weight.view());
        let gradients = NormGradients {
            x: dx.view_mut(),
            weight: Some(d_weight.view_mut()),
            bias: Some(d_bias.view_mut()),
            gate: None,
        };
        Ok(norm_backward(stream, x.view(), &params, dy.view(), None, gradients)?)
    };
    let check = move |all: &[Tensor]| {
        check_rows(
            &[(&all[0], COLS), (&all[1], COLS), (&all[2], COLS)],
            (&all[3], COLS),
            tolerance(DType::BF16),
            |rows| {
                let (n, inverse) = normal(kind, &rows[0]);
                let g: Vec<f64> = rows[1].iter().zip(&rows[2]).map(|(weight, dy)| weight * dy).collect();
                let along = g.iter().zip(&n).map(|(g, n)| g * n).sum::<f64>() / COLS as f64;
                let level = if kind == NormKind::Layer { g.iter().sum::<f64>() / COLS as f64 } else { 0.0 };
                g.iter().zip(&n).map(|(g, n)| inverse * (g - level - n * along)).collect()
            },
        )
    };
    Timed::floats(&[ROWS, COLS], 16.0, tensors, launch, check).op(device, name)
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// silu of one half of 2 x 4096 columns, times the other.
fn gates(device: &Device, name: &str) -> Result<Op, Error> {
    let tensors = vec![(vec![ROWS, 2 * COLS], DType::BF16), matrix(DType::BF16)];
    let launch = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, y] = all else { return Err("two tensors".into()) };
        Ok(gate(stream, x.view(), &GateParams::new(Activation::Silu), y.view_mut())?)
    };
    let check = |all: &[Tensor]| {
        check_rows(&[(&all[0], 2 * COLS)], (&all[1], COLS), tolerance(DType::BF16), |rows| {
            (0..COLS).map(|at| silu(rows[0][at]) * rows[0][COLS + at]).collect()
        })
    };
    Timed::floats(&[ROWS, COLS], 6.0, tensors, launch, check).op(device, name)
}

/// E4M3 codes by token of RMSNorm, or of silu and multiply.
fn coded(device: &Device, name: &str, rows: usize, of_norm: bool, granularity: Granularity) -> Result<Op, Error> {
    let grid = granularity.scales_shape([rows, COLS]);
    let columns = if of_norm { COLS } else { 2 * COLS };
    let tensors = vec![
        (vec![rows, columns], DType::BF16),
        row(DType::BF16),
        (vec![rows, COLS], DType::U8),
        (grid.to_vec(), DType::F32),
    ];
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, weight, codes, scales] = all else { return Err("four tensors".into()) };
        let to = RowCodes { format: Format::E4M3, granularity, codes: codes.view_mut(), scales: scales.view_mut() };
        if of_norm {
            let mut params = NormParams::new(NormKind::Rms, EPSILON);
            params.weight = Some(weight.view());
            return Ok(norm_quantise(stream, x.view(), &params, to, None)?);
        }
        Ok(gate_quantise(stream, x.view(), &GateParams::new(Activation::Silu), to)?)
    };
    let check = move |all: &[Tensor]| {
        // The largest of a group is the format's largest times its scale.
        let group = COLS / grid[1];
        check_rows(&[(&all[0], columns), (&all[1], COLS)], (&all[3], grid[1]), tolerance(DType::BF16), |rows| {
            let y: Vec<f64> = match of_norm {
                true => normal(NormKind::Rms, &rows[0]).0.iter().zip(&rows[1]).map(|(n, weight)| n * weight).collect(),
                false => (0..COLS).map(|at| silu(rows[0][at]) * rows[0][COLS + at]).collect(),
            };
            let peak = |group: &[f64]| group.iter().fold(0f64, |peak, y| peak.max(y.abs()));
            y.chunks(group).map(|group| peak(group) / 448.0).collect()
        })
    };
    Timed::floats(&[rows, COLS], 8.0, tensors, launch, check).op(device, name)
}

/// Pairs half a head apart, by tables of every position.
fn turns(device: &Device, name: &str) -> Result<Op, Error> {
    const HEADS: usize = 8 * 32;
    const POSITIONS: usize = 1024;
    const DEPTH: usize = 128;
    const HALF: usize = DEPTH / 2;
    let x = (vec![8, 32, POSITIONS, DEPTH], DType::BF16);
    let table = (vec![POSITIONS, HALF], DType::F32);
    let launch = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, cosines, sines, y] = all else { return Err("four tensors".into()) };
        let angles = RopeAngles::Tables { cosines: cosines.view(), sines: sines.view() };
        let mut tensors = [RopeTensor { from: Some(x.view()), to: y.view_mut() }];
        Ok(rope(stream, &mut tensors, &angles, &RopeParams::default())?)
    };
    let check = |all: &[Tensor]| -> Result<(), Error> {
        let bytes = all.iter().map(Tensor::to_bytes).collect::<Result<Vec<_>, _>>()?;
        for number in 0..CHECKED_ROWS {
            let row = HEADS / CHECKED_ROWS * number * POSITIONS + 97 * number;
            let of = |slot: usize, columns: usize, row: usize| {
                elements(&bytes[slot], all[slot].dtype(), row * columns, columns)
            };
            let (x, cosines, sines) = (of(0, DEPTH, row), of(1, HALF, row % POSITIONS), of(2, HALF, row % POSITIONS));
            let turned = |at: usize| {
                let (i, sign) = (at % HALF, if at < HALF { -1.0 } else { 1.0 });
                x[at] * cosines[i] + sign * x[(at + HALF) % DEPTH] * sines[i]
            };
            compare(&of(3, DEPTH, row), &(0..DEPTH).map(turned).collect::<Vec<_>>(), tolerance(DType::BF16))?;
        }
        Ok(())
    };
    let tensors = vec![x.clone(), table.clone(), table, x];
    Timed::floats(&[8, 32, POSITIONS, DEPTH], 3.0, tensors, launch, check).op(device, name)
}

/// Rows of a head, as keys are turned before they are coded.
fn transforms(device: &Device, name: &str, columns: usize) -> Result<Op, Error> {
    let scale = 1.0 / (columns as f64).sqrt();
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, y] = all else { return Err("two tensors".into()) };
        Ok(hadamard(stream, x.view(), 1, scale, y.view_mut())?)
    };
    let check = move |all: &[Tensor]| {
        check_rows(&[(&all[0], columns)], (&all[1], columns), tolerance(DType::BF16), |rows| {
            let sign = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { scale } else { -scale };
            let element = |i| rows[0].iter().enumerate().map(|(j, x)| sign(i, j) * x).sum();
            (0..columns).map(element).collect()
        })
    };
    let shape = [ROWS * COLS / columns, columns];
    let tensors = vec![(shape.to_vec(), DType::BF16); 2];
    Timed::floats(&shape, f64::from(columns.ilog2()), tensors, launch, check).op(device, name)
}

/// Along the last axis.
fn softmaxes(device: &Device, name: &str) -> Result<Op, Error> {
    let launch = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, y] = all else { return Err("two tensors".into()) };
        Ok(softmax(stream, x.view(), 1, y.view_mut())?)
    };
    let check = |all: &[Tensor]| {
        check_rows(&[(&all[0], COLS)], (&all[1], COLS), tolerance(DType::BF16), |rows| {
            let sum: f64 = rows[0].iter().map(|x| x.exp()).sum();
            rows[0].iter().map(|x| x.exp() / sum).collect()
        })
    };
    Timed::floats(&[ROWS, COLS], 5.0, vec![matrix(DType::BF16); 2], launch, check).op(device, name)
}

/// Class 0 in every row.
fn losses(device: &Device, name: &str, classes: usize) -> Result<Op, Error> {
    let one = |dtype| (vec![ROWS], dtype);
    let tensors = vec![(vec![ROWS, classes], DType::BF16), one(DType::I32), one(DType::F32), one(DType::F32)];
    let launch = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [x, targets, loss, lse] = all else { return Err("four tensors".into()) };
        let call = CrossEntropy::new(x.view(), targets.view());
        Ok(cross_entropy(stream, &call, loss.view_mut(), lse.view_mut())?)
    };
    let check = move |all: &[Tensor]| {
        check_rows(&[(&all[0], classes)], (&all[2], 1), tolerance(DType::F32), |rows| {
            vec![rows[0].iter().map(|x| x.exp()).sum::<f64>().ln() - rows[0][0]]
        })
    };
    Timed::floats(&[ROWS, classes], 4.0, tensors, launch, check).op(device, name)
}

/// Eight experts of 4096 x 4096, 512 rows each.
fn experts(device: &Device, name: &str) -> Result<Op, Error> {
    const EXPERTS: usize = 8;
    const EACH: usize = 512;
    const SIDE: usize = 4096;
    let bf16 = DType::BF16;
    let rows = (vec![EXPERTS * EACH, SIDE], bf16);
    let tensors = vec![rows.clone(), (vec![EXPERTS, SIDE, SIDE], bf16), (vec![EXPERTS + 1], DType::I32), rows];
    let of_make = tensors.clone();
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        let starts: Vec<u8> = (0..=EXPERTS).flat_map(|expert| ((expert * EACH) as i32).to_le_bytes()).collect();
        Ok(vec![
            filled(device, &of_make[0].0, bf16, set * 8)?,
            filled(device, &of_make[1].0, bf16, set * 8 + 1)?,
            Tensor::from_bytes(device, &of_make[2].0, DType::I32, &starts)?,
            Tensor::empty(device, &of_make[3].0, bf16)?,
        ])
    };
    let launch = |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [a, b, starts, c] = all else { return Err("four tensors".into()) };
        let groups = GemmGroups::Offsets(starts.view());
        // Weights as a checkpoint has them, [N, K].
        let b = b.view().with_layout(b.layout().swap(1, 2)?)?;
        Ok(gemm_grouped(stream, a.view(), b, &groups, c.view_mut(), &GemmParams::default())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let bytes = all.iter().map(Tensor::to_bytes).collect::<Result<Vec<_>, _>>()?;
        for expert in 0..EXPERTS {
            let row = expert * EACH + expert;
            let a = elements(&bytes[0], bf16, row * SIDE, SIDE);
            let column = |col: usize| elements(&bytes[1], bf16, (expert * SIDE + col) * SIDE, SIDE);
            let expected: Vec<f64> = (0..64).map(|col| a.iter().zip(column(col)).map(|(a, b)| a * b).sum()).collect();
            compare(&elements(&bytes[3], bf16, row * SIDE, 64), &expected, tolerance(bf16))?;
        }
        Ok(())
    };
    let flops = 2.0 * (EXPERTS * EACH * SIDE * SIDE) as f64;
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    let shape = format!("{EXPERTS} of {}", shape_text(&[EACH, SIDE, SIDE]));
    Timed { shape, flops, tensors, make, launch, check }.op(device, name)
}

/// Tokens of 7168 to 8 each of 256 experts of 2048, whose weights are E4M3 with a scale for each block of 128 x 128, or E2M1 with one for
/// each 32 of K: each has 1, 2, 3 and 2 of every 64 tokens in turn. `along_k`: codes as checkpoints have them, `[N, K]`.
fn coded_experts(device: &Device, name: &str, tokens: usize, format: Format, along_k: bool) -> Result<Op, Error> {
    const EXPERTS: usize = 256;
    const CHOSEN: usize = 8;
    const K: usize = 7168;
    const N: usize = 2048;
    let bytes_k = K * format.bits() / 8;
    let (kind, block) =
        if format.bits() == 4 { (ScaleKind::E8M0, [1, 32, 1]) } else { (ScaleKind::F32, [1, 128, 128]) };
    let grid = [EXPERTS, K / block[1], N / block[2]];
    let layout_of = move |axis| match format.bits() {
        4 => CodeLayout::packed(format, axis, K),
        _ => CodeLayout::bytes(format),
    };
    let (bf16, choices, each) = (DType::BF16, tokens * CHOSEN, tokens / 64);
    let starts = move |expert: usize| (expert / 4 * 8 + [0, 1, 3, 6][expert % 4]) * each;
    let row = move |place: usize| place * 13 % tokens;
    // Of a microscaled block its exponent.
    let scale = move |expert: usize, block: usize| match kind {
        ScaleKind::E8M0 => ((expert % 3 + block % 3) as f32 - 14.0).exp2(),
        _ => (1.0 + (expert % 7) as f32 + (block % 3) as f32) / 4096.0,
    };
    let codes = if along_k { [EXPERTS, N, bytes_k] } else { [EXPERTS, bytes_k, N] };
    let strides = if along_k { [bytes_k * N, 1, bytes_k] } else { [bytes_k * N, N, 1] }.map(|stride| stride as i64);
    let tensors = vec![
        (vec![tokens, K], bf16),
        (codes.to_vec(), DType::U8),
        (grid.to_vec(), kind.dtype()),
        (vec![EXPERTS + 1], DType::I32),
        (vec![choices], DType::I32),
        (vec![choices, N], bf16),
    ];
    let make = move |device: &Device, set: u64| -> Result<Vec<Tensor>, Error> {
        let w = filled(device, if along_k { &[N, K] } else { &[K, N] }, bf16, 1)?;
        let unit = Tensor::from_bytes(device, &[1], DType::F32, &(1.0_f32 / 32.0).to_le_bytes())?;
        let (layout, mut words) = (layout_of(usize::from(along_k)), Tensor::empty(device, &codes, DType::U8)?);
        let unit = Scales { view: unit.view(), kind: ScaleKind::F32, block: &[], global: None };
        let coding = Coding { layout: &layout, scales: Some(&unit), rounding: Rounding::Even, symmetric: true };
        for expert in 0..EXPERTS {
            let one = words.layout().slice(0, expert, expert + 1, 1)?.reshape(&codes[1..]).expect("one of them");
            quantise(device.stream(), w.view(), &coding, words.view_mut().with_layout(one)?)?;
        }
        let scales = (0..grid.iter().product()).map(|at| scale(at / (grid[1] * grid[2]), at));
        let scales: Vec<u8> = match kind {
            ScaleKind::E8M0 => scales.map(|scale| (scale.to_bits() >> 23) as u8).collect(),
            _ => scales.flat_map(f32::to_le_bytes).collect(),
        };
        let i32s =
            |values: &mut dyn Iterator<Item = usize>| values.flat_map(|x| (x as i32).to_le_bytes()).collect::<Vec<_>>();
        let (bounds, order) =
            (i32s(&mut (0..=EXPERTS).map(starts)), i32s(&mut (0..choices).map(|place| row(place) * CHOSEN)));
        Ok(vec![
            filled(device, &[tokens, K], bf16, set + 2)?,
            words,
            Tensor::from_bytes(device, &grid, kind.dtype(), &scales)?,
            Tensor::from_bytes(device, &[EXPERTS + 1], DType::I32, &bounds)?,
            Tensor::from_bytes(device, &[choices], DType::I32, &order)?,
            Tensor::empty(device, &[choices, N], bf16)?,
        ])
    };
    fn matrices(words: &Tensor, bytes_k: usize, strides: [i64; 3]) -> Result<View<'_>, Error> {
        Ok(words.view().with_layout(Layout::strided(&[EXPERTS, bytes_k, N], &strides, 0)?)?)
    }
    let launch = move |stream: &Stream, all: &mut [Tensor]| -> Result<(), Error> {
        let [a, words, scales, offsets, order, c] = all else { return Err("six tensors".into()) };
        let groups = GemmGroups::Choices { offsets: offsets.view(), order: order.view(), each: CHOSEN };
        let layout = layout_of(1);
        let scales = Scales { view: scales.view(), kind, block: &block, global: None };
        let w = CodedMatrix { words: matrices(words, bytes_k, strides)?, layout: &layout, scales: Some(&scales) };
        Ok(q_matmul_grouped(stream, a.view(), &w, &groups, c.view_mut())?)
    };
    let check = move |all: &[Tensor]| -> Result<(), Error> {
        let (a, c) = (all[0].to_bytes()?, all[5].to_bytes()?);
        let (device, layout) = (all[1].device(), layout_of(0));
        for expert in [0, 101, EXPERTS - 1] {
            let mut w = Tensor::empty(device, &[K, N], DType::F32)?;
            let words = matrices(&all[1], bytes_k, strides)?;
            let one = words.layout().slice(0, expert, expert + 1, 1)?.reshape(&[bytes_k, N]).expect("one of them");
            dequantise(device.stream(), words.with_layout(one)?, &layout, None, w.view_mut())?;
            let w = elements(&w.to_bytes()?, DType::F32, 0, K * N);
            for place in [starts(expert), starts(expert + 1) - 1] {
                let mut expected = vec![0.0; N];
                for (k, x) in elements(&a, bf16, row(place) * K, K).into_iter().enumerate() {
                    for (n, sum) in expected.iter_mut().enumerate() {
                        let at = (expert * grid[1] + k / block[1]) * grid[2] + n / block[2];
                        *sum += x * w[k * N + n] * f64::from(scale(expert, at));
                    }
                }
                compare(&elements(&c, bf16, place * N, N), &expected, tolerance(bf16))?;
            }
        }
        Ok(())
    };
    let flops = 2.0 * (choices * K * N) as f64;
    let (make, launch, check) = (Box::new(make), Box::new(launch), Box::new(check));
    let shape = format!("{tokens} to 8 of {EXPERTS} of {}", shape_text(&[K, N]));
    Timed { shape, flops, tensors, make, launch, check }.op(device, name)
}

pub const OPS: &[Make] = &[
    ("rms norm launcher bf16", |device, name| norms(device, name, NormKind::Rms, false)),
    ("add rms norm launcher bf16", |device, name| norms(device, name, NormKind::Rms, true)),
    ("layer norm launcher bf16", |device, name| norms(device, name, NormKind::Layer, false)),
    ("rms norm gradients bf16", |device, name| norm_gradients(device, name, NormKind::Rms)),
    ("layer norm gradients bf16", |device, name| norm_gradients(device, name, NormKind::Layer)),
    ("rms norm to e4m3 token", |device, name| coded(device, name, ROWS, true, Granularity::Token)),
    ("rms norm to e4m3 1x128", |device, name| coded(device, name, ROWS, true, Granularity::Group(128))),
    ("silu gate launcher bf16", gates),
    ("rms norm to e4m3 token", |device, name| coded(device, name, MANY_ROWS, true, Granularity::Token)),
    ("rms norm to e4m3 1x128", |device, name| coded(device, name, MANY_ROWS, true, Granularity::Group(128))),
    ("silu gate to e4m3 token", |device, name| coded(device, name, ROWS, false, Granularity::Token)),
    ("silu gate to e4m3 1x128", |device, name| coded(device, name, ROWS, false, Granularity::Group(128))),
    ("rotary embedding bf16", turns),
    ("hadamard bf16, rows of 128", |device, name| transforms(device, name, 128)),
    ("hadamard bf16", |device, name| transforms(device, name, COLS)),
    ("softmax launcher bf16", softmaxes),
    ("cross-entropy bf16", |device, name| losses(device, name, 32000)),
    ("product by experts bf16", experts),
    ("product by experts fp8", |device, name| coded_experts(device, name, 64, Format::E4M3, false)),
    ("product by experts fp8, codes along K", |device, name| coded_experts(device, name, 64, Format::E4M3, true)),
    ("product by experts mxfp4, codes along K", |device, name| coded_experts(device, name, 64, Format::E2M1, true)),
    ("product by experts fp8", |device, name| coded_experts(device, name, 8192, Format::E4M3, false)),
];
