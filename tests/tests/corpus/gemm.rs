//! References of `gemm.hip`. Sums go in the kernels' order, so results are the same to the bit.

use bytemuck::{Pod, Zeroable};
use half::f16;

use crate::bench::{Bench, args, below, cases, doubles, floats, noise, same, whole};

cases!(
    naive,
    tiled,
    blocked,
    half_in,
    int8_scaled,
    batched,
    matrix_vector,
    transposed_vector,
    rank_one,
    sparse_rows,
    complex_product,
);

/// `C = A B` by `step(sum, a, b)`.
fn product<A: Copy, C: Copy>(a: &[A], b: &[A], n: usize, k: usize, zero: C, step: impl Fn(C, A, A) -> C) -> Vec<C> {
    let element = |row: &[A], col: usize| (0..k).fold(zero, |sum, i| step(sum, row[i], b[i * n + col]));
    a.chunks(k).flat_map(|row| (0..n).map(|col| element(row, col)).collect::<Vec<_>>()).collect()
}

fn naive(b: &Bench) {
    let (m, n, k) = (7, 70, 33);
    let (x, y) = (floats(1, m * k), floats(2, k * n));
    let (px, py, c) = (b.upload(&x), b.upload(&y), b.zeros::<f32>(m * n));
    b.run("naive", [2, m as u32], 64, args![px, py, c, m as i32, n as i32, k as i32]);
    same(&b.download::<f32>(c, m * n), &product(&x, &y, n, k, 0f32, |sum, a, b| sum + a * b));
}

fn tiled(b: &Bench) {
    let (m, n, k) = (20, 37, 41);
    let (x, y) = (floats(3, m * k), floats(4, k * n));
    let (px, py, c) = (b.upload(&x), b.upload(&y), b.zeros::<f32>(m * n));
    b.run("tiled_f32", [3, 2], [16, 16], args![px, py, c, m as i32, n as i32, k as i32]);
    same(&b.download::<f32>(c, m * n), &product(&x, &y, n, k, 0f32, |sum, a, b| sum + a * b));
    let (x, y) = (doubles(5, m * k), doubles(6, k * n));
    let (px, py, c) = (b.upload(&x), b.upload(&y), b.zeros::<f64>(m * n));
    b.run("tiled_f64", [3, 2], [16, 16], args![px, py, c, m as i32, n as i32, k as i32]);
    same(&b.download::<f64>(c, m * n), &product(&x, &y, n, k, 0f64, |sum, a, b| sum + a * b));
    let (x, y) = (noise(7, m * k), noise(8, k * n));
    let (px, py, c) = (b.upload(&x), b.upload(&y), b.zeros::<u32>(m * n));
    b.run("tiled_i32", [3, 2], [16, 16], args![px, py, c, m as i32, n as i32, k as i32]);
    let step = |sum: u32, a: u32, b: u32| sum.wrapping_add(a.wrapping_mul(b));
    same(&b.download::<u32>(c, m * n), &product(&x, &y, n, k, 0u32, step));
}

fn blocked(b: &Bench) {
    let (m, n, k) = (64, 32, 24);
    let (x, y) = (floats(9, m * k), floats(10, k * n));
    let (px, py, c) = (b.upload(&x), b.upload(&y), b.zeros::<f32>(m * n));
    b.run("blocked", [1, 2], 64, args![px, py, c, n as i32, k as i32]);
    same(&b.download::<f32>(c, m * n), &product(&x, &y, n, k, 0f32, |sum, a, b| a.mul_add(b, sum)));
}

fn half_in(b: &Bench) {
    let (m, n, k) = (5, 64, 40);
    let halves = |seed, len| floats(seed, len).into_iter().map(f16::from_f32).collect::<Vec<_>>();
    let (x, y) = (halves(11, m * k), halves(12, k * n));
    let (px, py, c) = (b.upload(&x), b.upload(&y), b.zeros::<f16>(m * n));
    b.run("half_in", [1, m as u32], 64, args![px, py, c, n as i32, k as i32]);
    let sums = product(&x, &y, n, k, 0f32, |sum, a, b| a.to_f32().mul_add(b.to_f32(), sum));
    same(&b.download::<f16>(c, m * n), &sums.into_iter().map(f16::from_f32).collect::<Vec<_>>());
}

fn int8_scaled(b: &Bench) {
    let (m, n, k4) = (6, 64, 9);
    let (x, y) = (noise(13, m * k4), noise(14, n * k4));
    let (rows, cols) = (floats(15, m), floats(16, n));
    let (px, py, pr, pc, c) = (b.upload(&x), b.upload(&y), b.upload(&rows), b.upload(&cols), b.zeros::<f32>(m * n));
    b.run("int8_scaled", [1, m as u32], 64, args![px, py, pr, pc, c, n as i32, k4 as i32]);
    let bytes = |words: &[u32]| {
        words.iter().flat_map(|word| word.to_le_bytes()).map(|x| i32::from(x as i8)).collect::<Vec<_>>()
    };
    let element = |i: usize| {
        let (row, col) = (i / n, i % n);
        let (a, b) = (bytes(&x[row * k4..(row + 1) * k4]), bytes(&y[col * k4..(col + 1) * k4]));
        let sum: i32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
        sum as f32 * rows[row] * cols[col]
    };
    same(&b.download::<f32>(c, m * n), &(0..m * n).map(element).collect::<Vec<_>>());
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Batch {
    a: u64,
    b: u64,
    c: u64,
    strides: [u32; 3],
    sizes: [i32; 3],
    alpha: f32,
    beta: f32,
}

fn batched(b: &Bench) {
    let (count, m, n, k) = (3usize, 12usize, 10usize, 9usize);
    let strides = [m * k + 5, k * n, m * n + 1];
    let [x, y, z] = [17, 18, 19].map(|seed| floats(seed, count * strides[seed as usize - 17]));
    let batch = Batch {
        a: b.upload(&x),
        b: b.upload(&y),
        c: b.upload(&z),
        strides: strides.map(|stride| stride as u32),
        sizes: [m, n, k].map(|size| size as i32),
        alpha: 1.25,
        beta: -0.5,
    };
    b.run("batched", [1, 1, count as u32], [n as u32, m as u32], args![batch]);
    let mut want = z.clone();
    for i in 0..count {
        let (x, y) = (&x[i * strides[0]..], &y[i * strides[1]..]);
        for (row, col) in (0..m * n).map(|at| (at / n, at % n)) {
            let sum = (0..k).fold(0f32, |sum, i| sum + x[i * m + row] * y[i * n + col]);
            let to = &mut want[i * strides[2] + row * n + col];
            *to = 1.25 * sum + -0.5 * *to;
        }
    }
    same(&b.download::<f32>(batch.c, want.len()), &want);
}

fn matrix_vector(b: &Bench) {
    let (m, k) = (8, 150);
    let (a, x) = (whole(20, m * k), whole(21, k));
    let (pa, px, y) = (b.upload(&a), b.upload(&x), b.zeros::<f32>(m));
    b.run("matrix_vector", 2, 4 * b.wave() as u32, args![pa, px, y, k as i32]);
    let want: Vec<f32> = a.chunks(k).map(|row| row.iter().zip(&x).map(|(a, x)| a * x).sum()).collect();
    same(&b.download::<f32>(y, m), &want);
}

fn transposed_vector(b: &Bench) {
    let (m, n) = (24usize, 100usize);
    let of = |seed, len| noise(seed, len).into_iter().map(|x| x as i32).collect::<Vec<_>>();
    let (a, x) = (of(22, m * n), of(23, m));
    let (pa, px, y) = (b.upload(&a), b.upload(&x), b.zeros::<i32>(n));
    b.run("transposed_vector", 4, 64, args![pa, px, y, n as i32, 6i32]);
    let column = |col: usize| (0..m).fold(0i32, |sum, row| sum.wrapping_add(a[row * n + col].wrapping_mul(x[row])));
    same(&b.download::<i32>(y, n), &(0..n).map(column).collect::<Vec<_>>());
}

fn rank_one(b: &Bench) {
    let (m, n) = (9, 50);
    let (a, x, y) = (floats(24, m * n), floats(25, m), floats(26, n));
    let (pa, px, py) = (b.upload(&a), b.upload(&x), b.upload(&y));
    b.run("rank_one", m as u32, 64, args![pa, px, py, 0.75f32, n as i32]);
    let want: Vec<f32> = (0..m * n).map(|i| a[i] + 0.75 * x[i / n] * y[i % n]).collect();
    same(&b.download::<f32>(pa, m * n), &want);
}

fn sparse_rows(b: &Bench) {
    let rows = 50;
    let lengths = below(27, rows, 30);
    let starts: Vec<u32> = std::iter::once(0)
        .chain(lengths.iter().scan(0, |at, len| {
            *at += len;
            Some(*at)
        }))
        .collect();
    let entries = *starts.last().unwrap() as usize;
    let (cols, values, x) = (below(28, entries, 77), whole(29, entries), whole(30, 77));
    let (ps, pc, pv, px, y) =
        (b.upload(&starts), b.upload(&cols), b.upload(&values), b.upload(&x), b.zeros::<f32>(rows));
    b.run("sparse_rows", 7, 64, args![ps, pc, pv, px, y, rows as i32]);
    let row = |ends: &[u32]| (ends[0] as usize..ends[1] as usize).map(|i| values[i] * x[cols[i] as usize]).sum::<f32>();
    same(&b.download::<f32>(y, rows), &starts.windows(2).map(row).map(|sum| sum + 0.0).collect::<Vec<_>>());
}

fn complex_product(b: &Bench) {
    let n = 11;
    let (x, y) = (floats(31, 2 * n * n), floats(32, 2 * n * n));
    let (px, py, c) = (b.upload(&x), b.upload(&y), b.zeros::<f32>(2 * n * n));
    b.run("complex_product", 1, [n as u32, n as u32], args![px, py, c, n as i32]);
    let element = |at: usize| {
        (0..n).fold([0f32; 2], |sum, i| {
            let (x, y) = (&x[2 * (at / n * n + i)..], &y[2 * (i * n + at % n)..]);
            [sum[0] + (x[0] * y[0] - x[1] * y[1]), sum[1] + (x[0] * y[1] + x[1] * y[0])]
        })
    };
    same(&b.download::<f32>(c, 2 * n * n), &(0..n * n).flat_map(element).collect::<Vec<_>>());
}
