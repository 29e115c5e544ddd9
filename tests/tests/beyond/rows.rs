//! Row operators, reductions, scans, pools, rotary embedding.

use rocfire_fusion::{Graph, Reduce};
use rocfire_hal::{DType, Layout, Tensor};
use rocfire_kernels::gate::{Activation, GateParams, gate};
use rocfire_kernels::interpolate::{Interpolation, interpolate};
use rocfire_kernels::loss::{CrossEntropy, cross_entropy, cross_entropy_backward};
use rocfire_kernels::norm::{NormGradients, NormKind, NormParams, norm, norm_backward};
use rocfire_kernels::pool::{Nan, PoolParams, max_pool};
use rocfire_kernels::reduce::arg_max;
use rocfire_kernels::rope::{RopeAngles, RopeParams, RopeTensor, rope};
use rocfire_kernels::scan::{Cumulative, cumulative};
use rocfire_kernels::softmax::softmax;

use crate::{Operator, Outcome, Space, row, same};

pub const OPERATORS: &[Operator] = &[
    ("softmax", softmaxes),
    ("RMSNorm with residual", norms),
    ("gradients of RMSNorm", norm_gradients),
    ("gate", gates),
    ("cross-entropy and its gradient", losses),
    ("sums of rows, of columns, of everything", sums),
    ("arg_max", maxima),
    ("cumulative sum along either axis", scans),
    ("rotary embedding in place", turned),
    ("max_pool, nearest resizing", pools),
];

const COLS: usize = 4096;

fn softmaxes(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = space.random(&shape, DType::F16, 1)?;
    let mut y = space.empty(&shape, DType::F16)?;
    softmax(space.device.stream(), x.view(), 1, y.view_mut())?;
    for at in space.marks(COLS) {
        let powers: Vec<f64> = row(&x, at)?.iter().map(|x| x.exp()).collect();
        let sum: f64 = powers.iter().sum();
        let expected: Vec<f64> = powers.iter().map(|power| power / sum).collect();
        same(&format!("row {at}"), &row(&y, at)?, &expected, 1e-3)?;
    }
    Ok(())
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
}

fn norms(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let (x, residual) = (space.random(&shape, DType::BF16, 1)?, space.random(&shape, DType::BF16, 2)?);
    let weight = space.random(&[COLS], DType::BF16, 3)?;
    let (mut y, mut sum) = (space.empty(&shape, DType::BF16)?, space.empty(&shape, DType::BF16)?);
    let mut params = NormParams::new(NormKind::Rms, 0.0);
    (params.weight, params.residual) = (Some(weight.view()), Some(residual.view()));
    norm(space.device.stream(), x.view(), &params, y.view_mut(), Some(sum.view_mut()))?;
    let weight = rocfire_tests::Array::read(&weight)?.values;
    for at in space.marks(COLS) {
        let added: Vec<f64> = row(&x, at)?.iter().zip(row(&residual, at)?).map(|(x, r)| x + r).collect();
        let stored = row(&sum, at)?;
        same(&format!("sum, row {at}"), &stored, &added, 4e-3)?;
        let root = root_mean_square(&stored);
        let expected: Vec<f64> = stored.iter().zip(&weight).map(|(s, w)| s / root * w).collect();
        same(&format!("row {at}"), &row(&y, at)?, &expected, 4e-3)?;
    }
    Ok(())
}

fn norm_gradients(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let (x, dy) = (space.random(&shape, DType::F16, 1)?, space.random(&shape, DType::F16, 2)?);
    let mut dx = space.empty(&shape, DType::F16)?;
    let params = NormParams::new(NormKind::Rms, 0.0);
    let gradients = NormGradients { x: dx.view_mut(), weight: None, bias: None, gate: None };
    norm_backward(space.device.stream(), x.view(), &params, dy.view(), None, gradients)?;
    for at in space.marks(COLS) {
        let (x, dy) = (row(&x, at)?, row(&dy, at)?);
        let root = root_mean_square(&x);
        let mean = x.iter().zip(&dy).map(|(x, dy)| x / root * dy).sum::<f64>() / COLS as f64;
        let expected: Vec<f64> = x.iter().zip(&dy).map(|(x, dy)| (dy - x / root * mean) / root).collect();
        same(&format!("row {at}"), &row(&dx, at)?, &expected, 2e-3)?;
    }
    Ok(())
}

fn gates(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = space.random(&shape, DType::BF16, 1)?;
    let mut y = space.empty(&[shape[0], COLS / 2], DType::BF16)?;
    gate(space.device.stream(), x.view(), &GateParams::new(Activation::Silu), y.view_mut())?;
    for at in space.marks(COLS) {
        let x = row(&x, at)?;
        let expected: Vec<f64> =
            x[..COLS / 2].iter().zip(&x[COLS / 2..]).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
        same(&format!("row {at}"), &row(&y, at)?, &expected, 8e-3)?;
    }
    Ok(())
}

fn losses(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let rows = shape[0];
    let x = space.random(&shape, DType::F16, 1)?;
    let classes: Vec<i32> = (0..rows).map(|at| (at * 7 % COLS) as i32).collect();
    let targets = Tensor::from_bytes(&space.device, &[rows], DType::I32, bytemuck::cast_slice(&classes))?;
    let [mut loss, mut lse] = [space.empty(&[rows], DType::F32)?, space.empty(&[rows], DType::F32)?];
    let (stream, call) = (space.device.stream(), CrossEntropy::new(x.view(), targets.view()));
    cross_entropy(stream, &call, loss.view_mut(), lse.view_mut())?;
    let mut d_loss = space.empty(&[rows], DType::F32)?;
    rocfire_fusion::eager::fill(d_loss.view_mut(), rocfire_fusion::Scalar::Float(1.0))?;
    let mut dx = space.empty(&shape, DType::F16)?;
    cross_entropy_backward(stream, &call, lse.view(), d_loss.view(), dx.view_mut())?;
    for at in space.marks(COLS) {
        let (x, class) = (row(&x, at)?, classes[at] as usize);
        let sum = x.iter().map(|x| x.exp()).sum::<f64>();
        same(&format!("loss {at}"), &row(&loss, at)?, &[sum.ln() - x[class]], 1e-5)?;
        let expected: Vec<f64> =
            x.iter().enumerate().map(|(col, x)| x.exp() / sum - f64::from(u8::from(col == class))).collect();
        same(&format!("gradient, row {at}"), &row(&dx, at)?, &expected, 1e-3)?;
    }
    Ok(())
}

/// Sums along the last axis of a view, of bytes in 64 bits.
fn sum_last(space: &Space, x: &Tensor, layout: Layout) -> Result<Tensor, Box<dyn std::error::Error + Send + Sync>> {
    let mut graph = Graph::new("sum");
    let value = graph.input(DType::U8);
    let wide = graph.cast(value, DType::I64);
    let sum = graph.reduce(Reduce::Sum, wide);
    graph.output(sum);
    let x = x.view().with_layout(layout)?;
    let (shape, rank) = (x.shape().to_vec(), x.shape().len());
    let mut out = space.empty(&[&shape[..rank - 1], &[1]].concat(), DType::I64)?;
    rocfire_fusion::run(space.device.stream(), &graph, &shape, &[x], &[], &mut [out.view_mut()])?;
    Ok(out)
}

fn sums(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let mut x = space.empty(&shape, DType::U8)?;
    rocfire_fusion::eager::fill(x.view_mut(), rocfire_fusion::Scalar::Int(1))?;
    // The last element is another one.
    let last = Layout::strided(&[1, 1], &[1, 1], (shape[0] * COLS - 1) as i64)?;
    rocfire_fusion::eager::fill(x.view_mut().with_layout(last)?, rocfire_fusion::Scalar::Int(101))?;
    let of_rows = sum_last(space, &x, *x.layout())?;
    for at in space.marks(COLS) {
        let expected = COLS + if at + 1 == shape[0] { 100 } else { 0 };
        same(&format!("row {at}"), &row(&of_rows, at)?, &[expected as f64], 0.0)?;
    }
    let of_columns = sum_last(space, &x, x.layout().swap(0, 1)?)?;
    for col in [0, COLS / 2, COLS - 1] {
        let expected = shape[0] + if col + 1 == COLS { 100 } else { 0 };
        same(&format!("column {col}"), &row(&of_columns, col)?, &[expected as f64], 0.0)?;
    }
    let of_all = sum_last(space, &x, Layout::contiguous(&[1, shape[0] * COLS])?)?;
    same("everything", &row(&of_all, 0)?, &[(shape[0] * COLS + 100) as f64], 0.0)
}

fn maxima(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let x = space.random(&shape, DType::F16, 1)?;
    let mut places = space.empty(&[shape[0], 1], DType::I32)?;
    arg_max(space.device.stream(), 1, x.view(), places.view_mut(), None)?;
    for at in space.marks(COLS) {
        let x = row(&x, at)?;
        let mut best = 0;
        for (col, value) in x.iter().enumerate() {
            if *value > x[best] {
                best = col;
            }
        }
        same(&format!("row {at}"), &row(&places, at)?, &[best as f64], 0.0)?;
    }
    Ok(())
}

fn scans(space: &Space) -> Outcome {
    let shape = [space.rows(COLS), COLS];
    let mut x = space.empty(&shape, DType::U8)?;
    rocfire_fusion::eager::fill(x.view_mut(), rocfire_fusion::Scalar::Int(3))?;
    let mut y = space.empty(&shape, DType::U8)?;
    for dim in [1, 0] {
        cumulative(space.device.stream(), Cumulative::Sum, dim, x.view(), y.view_mut())?;
        for at in space.marks(COLS) {
            // Bytes wrap around.
            let expected: Vec<f64> =
                (0..COLS).map(|col| (3 * (if dim == 1 { col } else { at } + 1) % 256) as f64).collect();
            same(&format!("axis {dim}, row {at}"), &row(&y, at)?, &expected, 0.0)?;
        }
    }
    Ok(())
}

fn turned(space: &Space) -> Outcome {
    const DEPTH: usize = 128;
    const HEADS: usize = 32;
    // A row of COLS columns is what the heads of one position have.
    let rows = space.rows(COLS);
    let x = space.random(&[1, rows, HEADS, DEPTH], DType::BF16, 1)?;
    let marks = space.marks(COLS);
    let by_row = |tensor: &Tensor| tensor.with_layout(Layout::contiguous(&[rows, COLS])?);
    let before: Vec<Vec<f64>> = marks.iter().map(|&at| row(&by_row(&x)?, at)).collect::<Result<_, _>>()?;
    let frequencies: Vec<f64> = (0..DEPTH / 2).map(|pair| 10000f64.powf(-(pair as f64) * 2.0 / DEPTH as f64)).collect();
    let inverse = space.upload(&[DEPTH / 2], DType::F64, frequencies.clone())?;
    let angles = RopeAngles::Computed { inverse: inverse.view(), magnitude: 1.0 };
    let mut to = x.clone();
    let layout = to.layout().swap(1, 2)?;
    let mut tensors = [RopeTensor { from: None, to: to.view_mut().with_layout(layout)? }];
    rope(space.device.stream(), &mut tensors, &angles, &RopeParams::default())?;
    for (&at, before) in marks.iter().zip(&before) {
        let expected: Vec<f64> = (0..COLS)
            .map(|n| {
                let (head, place) = (n / DEPTH * DEPTH, n % DEPTH);
                let pair = place % (DEPTH / 2);
                let (sin, cos) = (at as f64 * frequencies[pair]).sin_cos();
                let (first, second) = (before[head + pair], before[head + pair + DEPTH / 2]);
                if place < DEPTH / 2 { first * cos - second * sin } else { second * cos + first * sin }
            })
            .collect();
        same(&format!("row {at}"), &row(&by_row(&x)?, at)?, &expected, 4e-3)?;
    }
    Ok(())
}

fn pools(space: &Space) -> Outcome {
    const SIDE: usize = 64;
    let images = space.rows(SIDE * SIDE);
    let x = space.random(&[images, 1, SIDE, SIDE], DType::F16, 1)?;
    let mut y = space.empty(&[images, 1, SIDE / 2, SIDE / 2], DType::F16)?;
    let (two, zero, one) = ([2, 2], [0, 0], [1, 1]);
    let params = PoolParams { kernel: &two, stride: &two, padding: &zero, dilation: &one };
    max_pool(space.device.stream(), x.view(), &params, Nan::Any, y.view_mut(), None)?;
    let mut back = space.empty(&[images, 1, SIDE, SIDE], DType::F16)?;
    interpolate(space.device.stream(), y.view(), Interpolation::Nearest, false, back.view_mut())?;
    for at in space.marks(SIDE * SIDE) {
        let (x, y) = (row(&x, at)?, row(&y, at)?);
        let half = SIDE / 2;
        let window = |n: usize| {
            let first = n / half * 2 * SIDE + n % half * 2;
            [0, 1, SIDE, SIDE + 1].map(|step| x[first + step]).into_iter().fold(f64::MIN, f64::max)
        };
        let expected: Vec<f64> = (0..half * half).map(window).collect();
        same(&format!("image {at}"), &y, &expected, 0.0)?;
        let expected: Vec<f64> = (0..SIDE * SIDE).map(|n| y[n / SIDE / 2 * half + n % SIDE / 2]).collect();
        same(&format!("image {at}, resized"), &row(&back, at)?, &expected, 0.0)?;
    }
    Ok(())
}
