//! References of `attention.hip`, in f64.

use bytemuck::{Pod, Zeroable};
use half::f16;

use crate::bench::{Bench, args, below, cases, close, floats};

cases!(naive, online, tiled, softmax, layer_norm, rms_norm, rotary, cross_entropy);

/// Rounding of f32 sums of about a hundred terms, and the prelude's exponential.
const NEAR: f64 = 1e-5;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Heads {
    q: u64,
    k: u64,
    v: u64,
    out: u64,
    length: i32,
    dim: i32,
    causal: i32,
    scale: f32,
}

fn check(b: &Bench, kernel: &str, length: usize, dim: usize, grid: usize, block: usize) {
    let [q, k, v] = [1, 2, 3].map(|seed| floats(seed, length * dim).into_iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    let scale = 1.0 / (dim as f32).sqrt();
    for causal in [0, 1] {
        let out = b.zeros::<f32>(length * dim);
        let (length_i, dim_i) = (length as i32, dim as i32);
        let heads = Heads {
            q: b.upload(&q),
            k: b.upload(&k),
            v: b.upload(&v),
            out,
            length: length_i,
            dim: dim_i,
            causal,
            scale,
        };
        b.run(kernel, grid as u32, block as u32, args![heads]);
        let row = |row: usize| {
            let end = if causal == 1 { row + 1 } else { length };
            let dot = |j: usize| (0..dim).map(|d| f64::from(q[row * dim + d]) * f64::from(k[j * dim + d])).sum::<f64>();
            let weights: Vec<f64> = (0..end).map(|j| (dot(j) * f64::from(scale)).exp()).collect();
            let total: f64 = weights.iter().sum();
            let weighted = |d: usize| (0..end).map(|j| weights[j] * f64::from(v[j * dim + d])).sum::<f64>() / total;
            (0..dim).map(weighted).collect::<Vec<_>>()
        };
        close(&b.download::<f32>(out, length * dim), &(0..length).flat_map(row).collect::<Vec<_>>(), NEAR, 1.0);
    }
}

fn naive(b: &Bench) {
    check(b, "naive", 50, 24, 50, 64);
}

fn online(b: &Bench) {
    check(b, "online", 40, 32, 40, b.wave());
}

fn tiled(b: &Bench) {
    check(b, "tiled", 48, 32, 3, 16);
}

fn softmax(b: &Bench) {
    for cols in [1usize, 100, 777] {
        let x: Vec<f32> = floats(4, 3 * cols).into_iter().map(|x| 20.0 * x).collect();
        let (px, log_sums) = (b.upload(&x), b.zeros::<f32>(3));
        b.run("softmax", 3, 128, args![px, log_sums, cols as i32]);
        let sum = |row: &[f32]| row.iter().map(|&x| f64::from(x).exp()).sum::<f64>();
        let want: Vec<f64> =
            x.chunks(cols).flat_map(|row| row.iter().map(move |&x| f64::from(x).exp() / sum(row))).collect();
        close(&b.download::<f32>(px, 3 * cols), &want, NEAR, 1e-3);
        close(&b.download::<f32>(log_sums, 3), &x.chunks(cols).map(|row| sum(row).ln()).collect::<Vec<_>>(), NEAR, 1.0);
    }
}

fn layer_norm(b: &Bench) {
    let (rows, cols) = (4, 150);
    let (x, weight, bias) = (floats(5, rows * cols), floats(6, cols), floats(7, cols));
    let (px, pw, pb, out) = (b.upload(&x), b.upload(&weight), b.upload(&bias), b.zeros::<f32>(rows * cols));
    b.run("layer_norm", rows as u32, b.wave() as u32, args![px, pw, pb, out, cols as i32, 1e-5f32]);
    let norm = |row: &[f32]| {
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / cols as f64;
        let square = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / cols as f64;
        let of =
            |c: usize| (f64::from(row[c]) - mean) / (square + 1e-5).sqrt() * f64::from(weight[c]) + f64::from(bias[c]);
        (0..cols).map(of).collect::<Vec<_>>()
    };
    close(&b.download::<f32>(out, rows * cols), &x.chunks(cols).flat_map(norm).collect::<Vec<_>>(), NEAR, 1.0);
}

fn rms_norm(b: &Bench) {
    let (rows, cols) = (4, 96);
    let halves = |seed, len| floats(seed, len).into_iter().map(f16::from_f32).collect::<Vec<_>>();
    let (x, weight) = (halves(8, rows * cols), halves(9, cols));
    let (px, pw, out) = (b.upload(&x), b.upload(&weight), b.zeros::<f16>(rows * cols));
    b.run("rms_norm", rows as u32, b.wave() as u32, args![px, pw, out, cols as i32, 1e-6f32]);
    let norm = |row: &[f16]| {
        let square = row.iter().map(|x| x.to_f64() * x.to_f64()).sum::<f64>() / cols as f64;
        (0..cols).map(|c| row[c].to_f64() / (square + 1e-6).sqrt() * weight[c].to_f64()).collect::<Vec<_>>()
    };
    let got: Vec<f32> = b.download::<f16>(out, rows * cols).into_iter().map(f32::from).collect();
    // Half a unit in the last place of f16, and the rounding before it.
    close(&got, &x.chunks(cols).flat_map(norm).collect::<Vec<_>>(), 4.9e-4, 1e-4);
}

fn rotary(b: &Bench) {
    let (positions, dim) = (20usize, 32usize);
    let x = floats(10, positions * dim);
    let px = b.upload(&x);
    b.run("rotary", positions as u32, dim as u32 / 2, args![px, dim as i32, 10_000f32]);
    let mut want: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    for (position, row) in want.chunks_mut(dim).enumerate() {
        for pair in 0..dim / 2 {
            let (s, c) = (position as f64 * 1e4f64.powf(-2.0 * pair as f64 / dim as f64)).sin_cos();
            let (a, b) = (row[pair], row[pair + dim / 2]);
            row[pair] = a * c - b * s;
            row[pair + dim / 2] = a * s + b * c;
        }
    }
    close(&b.download::<f32>(px, positions * dim), &want, NEAR, 1.0);
}

fn cross_entropy(b: &Bench) {
    let (rows, cols) = (64, 10);
    let logits: Vec<f32> = floats(11, rows * cols).into_iter().map(|x| 5.0 * x).collect();
    let labels = below(12, rows, cols as u32);
    let (pl, pt, losses, gradient) =
        (b.upload(&logits), b.upload(&labels), b.zeros::<f32>(rows), b.zeros::<f32>(rows * cols));
    b.run("cross_entropy", 1, rows as u32, args![pl, pt, losses, gradient, cols as i32]);
    let share = |row: usize, c: usize| {
        let sum: f64 = (0..cols).map(|c| f64::from(logits[row * cols + c]).exp()).sum();
        f64::from(logits[row * cols + c]).exp() / sum
    };
    let loss = |row: usize| -share(row, labels[row] as usize).ln();
    close(&b.download::<f32>(losses, rows), &(0..rows).map(loss).collect::<Vec<_>>(), NEAR, 1.0);
    let slope = |i: usize| share(i / cols, i % cols) - f64::from(u8::from(labels[i / cols] as usize == i % cols));
    close(&b.download::<f32>(gradient, rows * cols), &(0..rows * cols).map(slope).collect::<Vec<_>>(), NEAR, 1.0);
}
