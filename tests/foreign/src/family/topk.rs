//! Choosing the experts of tokens, and the norm of rows: kernels without matrix units.

use half::bf16;

use super::tile;
use crate::bench::{Arguments, Bench, Unrun};
use crate::case::{Case, Object, Run};
use crate::number::{Half, Random, distance};

/// `topksoftmax_{rows}x{experts}x{k}`: the k largest of the softmax of each row of logits, best first; and `layer_norm`.
pub fn cases(object: &Object) -> Vec<Case> {
    if object.name == "layer_norm.co" {
        let norms = |rows: usize, subtracts_mean: bool| {
            let without = if subtracts_mean { "" } else { ", compared without the mean subtracted" };
            let run = move |bench: &Bench| norm(bench, rows, subtracts_mean);
            case(object, "layer norm", format!("{rows} x {WIDTH}{without}"), 8e-3, Box::new(run))
        };
        return vec![norms(4, true), norms(4, false)];
    }
    [(24, false), (37, true)].into_iter().filter_map(|(tokens, renormalise)| of(object, tokens, renormalise)).collect()
}

/// A case of so many tokens, their shares divided by the sum or not.
pub fn of(object: &Object, tokens: usize, renormalise: bool) -> Option<Case> {
    let &[rows, experts, k] = tile(object.stem()).as_deref()? else { return None };
    if !object.name.starts_with("topksoftmax/") {
        return None;
    }
    let shape = format!("tokens {tokens}, experts {experts}, k {k}{}", if renormalise { ", renormalised" } else { "" });
    let run = move |bench: &Bench| softmax(bench, [tokens, rows, experts, k], renormalise);
    Some(case(object, "topk softmax", shape, 2e-6, Box::new(run)))
}

fn case(object: &Object, family: &'static str, shape: String, tolerance: f64, run: Box<Run>) -> Case {
    Case { object: object.clone(), family, shape, tolerance, is_checked: true, run }
}

fn softmax(bench: &Bench, [tokens, rows, experts, k]: [usize; 4], renormalise: bool) -> Result<f64, Unrun> {
    let mut random = Random::new(1);
    // Values that are all different, so that the order is known.
    let logits: Vec<f32> =
        (0..tokens).flat_map(|_| random.order(experts)).map(|place| place as f32 * 0.07 - 3.0).collect();
    let (indices, weights) = (bench.output(4 * tokens * k)?, bench.output(4 * tokens * k)?);
    let arguments = Arguments::new(128)
        .pointers(&[(0, indices), (16, weights), (32, bench.upload(&logits)?)])
        .words(&[(48, tokens), (64, experts), (80, k), (96, usize::from(renormalise)), (112, 4 * k)]);
    bench.launch([tokens.div_ceil(rows), 1, 1], 256, &arguments)?;
    let found = bench.download::<f32>(weights, tokens * k)?;
    let chosen = bench.download::<u32>(indices, tokens * k)?;
    let mut reference = Vec::new();
    let mut wrong = 0;
    for (token, row) in logits.chunks_exact(experts).enumerate() {
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        let exp = |expert: &usize| f64::from(row[*expert]).exp();
        let over = if renormalise { &order[..k] } else { &order[..] };
        let sum: f64 = over.iter().map(exp).sum();
        reference.extend(order[..k].iter().map(|expert| exp(expert) / sum));
        wrong += (0..k).filter(|&place| chosen[token * k + place] as usize != order[place]).count();
    }
    let found: Vec<f64> = found.into_iter().map(f64::from).collect();
    Ok(if wrong == 0 { distance(&found, &reference) } else { f64::INFINITY })
}

/// The only width that the kernel takes.
const WIDTH: usize = 8192;

/// Layer norm of the sum of the input and a residual, which is stored too.
fn norm(bench: &Bench, rows: usize, subtracts_mean: bool) -> Result<f64, Unrun> {
    let mut random = Random::new(2);
    let epsilon = 1e-5;
    let mut input = |count: usize, mean: f64| {
        let values: Vec<f64> = random.normals(count, 1.0).into_iter().map(|value| value + mean).collect();
        Half::Bf16.rounded(&values)
    };
    let ((x, x_values), (residual, residual_values)) = (input(rows * WIDTH, 0.5), input(rows * WIDTH, 0.0));
    let ((weight, weights), (bias, biases)) = (input(WIDTH, 1.0), input(WIDTH, 0.0));
    let (out, residual_out) = (bench.output(2 * rows * WIDTH)?, bench.output(2 * rows * WIDTH)?);
    let arguments = Arguments::new(176)
        .pointers(&[(0, out), (16, bench.upload(&x)?), (32, bench.upload(&weight)?), (48, bench.upload(&bias)?)])
        .pointers(&[(112, residual_out), (128, bench.upload(&residual)?)])
        .words(&[(80, rows), (96, WIDTH)])
        .float(64, epsilon);
    bench.launch([rows / 2, 1, 1], 256, &arguments)?;
    let sums: Vec<f64> = x_values.iter().zip(&residual_values).map(|(x, residual)| x + residual).collect();
    let mut reference = Vec::new();
    for row in sums.chunks_exact(WIDTH) {
        let mean = if subtracts_mean { row.iter().sum::<f64>() / WIDTH as f64 } else { 0.0 };
        let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / WIDTH as f64;
        let scale = 1.0 / (variance + f64::from(epsilon)).sqrt();
        reference.extend((0..WIDTH).map(|i| (row[i] - mean) * scale * weights[i] + biases[i]));
    }
    let values = |bits: Vec<u16>| -> Vec<f64> { bits.into_iter().map(|bits| bf16::from_bits(bits).to_f64()).collect() };
    let kept = distance(&values(bench.download(residual_out, rows * WIDTH)?), &sums);
    Ok(kept.max(distance(&values(bench.download(out, rows * WIDTH)?), &reference)))
}
