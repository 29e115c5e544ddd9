//! Our own kernels in Triton, as its compiler for AMD's architectures makes them.

use crate::bench::{Arguments, Bench, Unrun};
use crate::case::Case;
use crate::number::{Half, Random, distance};
use crate::package::Compiled;

/// Width of a row, which no kernel's block is.
const WIDTH: usize = 389;
/// Rows.
const ROWS: usize = 5;

type Launch = fn(&Bench, &Compiled) -> Result<f64, Unrun>;

/// The cases of a code object.
pub fn cases(compiled: &Compiled) -> Vec<Case> {
    let (shape, tolerance, launch): (&str, f64, Launch) = match compiled.object.stem() {
        "add" => ("1000", 1e-6, add),
        "gelu" => ("1000", 1e-6, gelu),
        "softmax" => ("5 x 389", 1e-6, softmax),
        "layer_norm" => ("5 x 389", 2e-6, layer_norm),
        "running_sum" => ("5 x 389", 2e-6, running_sum),
        "largest" => ("5 x 389", 0.0, largest),
        "sorted_rows" => ("5 x 256", 0.0, sorted_rows),
        "transpose" => ("70 x 45", 0.0, transpose),
        "count" => ("1000 of 17", 0.0, count),
        "matmul_f16" => ("100 x 90 x 70", 1e-5, |bench, compiled| matmul(bench, compiled, Some(Half::F16), [64, 64])),
        "matmul_bf16" => ("100 x 90 x 70", 1e-5, |bench, compiled| matmul(bench, compiled, Some(Half::Bf16), [64, 64])),
        // gfx942 multiplies f32 by its own format of 10 bits of mantissa, which is what Triton asks for.
        "matmul_f32" if compiled.object.arch == "gfx942" => {
            ("100 x 90 x 70", 2e-3, |bench, compiled| matmul(bench, compiled, None, [64, 64]))
        }
        "matmul_f32" => ("100 x 90 x 70", 1e-5, |bench, compiled| matmul(bench, compiled, None, [64, 64])),
        "matmul_f16_stages" => {
            ("100 x 90 x 70", 1e-5, |bench, compiled| matmul(bench, compiled, Some(Half::F16), [128, 64]))
        }
        "matmul_i8" => ("100 x 90 x 70", 0.0, matmul_i8),
        "attention_f16" => {
            ("150 rows, 2 heads of 64", 2e-3, |bench, compiled| attention(bench, compiled, Half::F16, [64, 64]))
        }
        "attention_bf16" => {
            ("150 rows, 2 heads of 128", 1e-2, |bench, compiled| attention(bench, compiled, Half::Bf16, [128, 128]))
        }
        _ => return Vec::new(),
    };
    let own = compiled.clone();
    let run = Box::new(move |bench: &Bench| launch(bench, &own));
    vec![Case {
        object: compiled.object.clone(),
        family: "Triton",
        shape: shape.to_owned(),
        tolerance,
        is_checked: true,
        run,
    }]
}

/// Launches with pointers in front and numbers of 32 bits behind them.
fn go(bench: &Bench, compiled: &Compiled, grid: [usize; 2], pointers: &[u64], numbers: &[u32]) -> Result<(), Unrun> {
    let pointers: Vec<(usize, u64)> = pointers.iter().enumerate().map(|(i, &address)| (8 * i, address)).collect();
    let words: Vec<(usize, usize)> =
        numbers.iter().enumerate().map(|(i, &number)| (8 * pointers.len() + 4 * i, number as usize)).collect();
    let arguments = Arguments::new(bench.argument_bytes()).pointers(&pointers).words(&words);
    bench.launch_with_lds([grid[0], grid[1], 1], (compiled.threads, compiled.lds_bytes), &arguments)
}

fn normals(seed: u64, count: usize) -> (Vec<f32>, Vec<f64>) {
    let values: Vec<f32> = Random::new(seed).normals(count, 1.0).into_iter().map(|value| value as f32).collect();
    let wide = values.iter().map(|&value| f64::from(value)).collect();
    (values, wide)
}

fn floats(bench: &Bench, address: u64, count: usize) -> Result<Vec<f64>, Unrun> {
    Ok(bench.download::<f32>(address, count)?.into_iter().map(f64::from).collect())
}

/// How many elements a pointwise kernel gets.
const POINTS: usize = 1000;

fn add(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    let ((x, x_values), (y, y_values)) = (normals(20, POINTS), normals(21, POINTS));
    let out = bench.output(4 * POINTS)?;
    go(bench, compiled, [POINTS.div_ceil(256), 1], &[bench.upload(&x)?, bench.upload(&y)?, out], &[POINTS as u32])?;
    let reference: Vec<f64> = x_values.iter().zip(&y_values).map(|(x, y)| x + y).collect();
    Ok(distance(&floats(bench, out, POINTS)?, &reference))
}

fn gelu(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    let (x, values) = normals(22, POINTS);
    let out = bench.output(4 * POINTS)?;
    go(bench, compiled, [POINTS.div_ceil(256), 1], &[bench.upload(&x)?, out], &[POINTS as u32])?;
    let reference: Vec<f64> = values.iter().map(|x| 0.5 * x * (1.0 + libm::erf(x / 2f64.sqrt()))).collect();
    Ok(distance(&floats(bench, out, POINTS)?, &reference))
}

/// A kernel that makes a row of each row.
fn by_rows(bench: &Bench, compiled: &Compiled, row: impl Fn(&[f64]) -> Vec<f64>) -> Result<f64, Unrun> {
    let (x, values) = normals(23, ROWS * WIDTH);
    let out = bench.output(4 * ROWS * WIDTH)?;
    go(bench, compiled, [ROWS, 1], &[bench.upload(&x)?, out], &[WIDTH as u32])?;
    let reference: Vec<f64> = values.chunks_exact(WIDTH).flat_map(row).collect();
    Ok(distance(&floats(bench, out, ROWS * WIDTH)?, &reference))
}

fn softmax(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    by_rows(bench, compiled, |row| {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        row.iter().map(|x| x.exp() / sum).collect()
    })
}

fn running_sum(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    by_rows(bench, compiled, |row| {
        let mut sum = 0.0;
        row.iter().map(|x| (sum += x, sum).1).collect()
    })
}

fn layer_norm(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    let ((x, values), (weight, weights), (bias, biases)) =
        (normals(24, ROWS * WIDTH), normals(25, WIDTH), normals(26, WIDTH));
    let (out, epsilon) = (bench.output(4 * ROWS * WIDTH)?, 1e-5f32);
    let pointers = [bench.upload(&x)?, bench.upload(&weight)?, bench.upload(&bias)?, out];
    go(bench, compiled, [ROWS, 1], &pointers, &[WIDTH as u32, epsilon.to_bits()])?;
    let mut reference = Vec::new();
    for row in values.chunks_exact(WIDTH) {
        let mean = row.iter().sum::<f64>() / WIDTH as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64;
        let scale = 1.0 / (variance + f64::from(epsilon)).sqrt();
        reference.extend((0..WIDTH).map(|i| (row[i] - mean) * scale * weights[i] + biases[i]));
    }
    Ok(distance(&floats(bench, out, ROWS * WIDTH)?, &reference))
}

fn largest(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    let (x, values) = normals(27, ROWS * WIDTH);
    let out = bench.output(4 * ROWS)?;
    go(bench, compiled, [ROWS, 1], &[bench.upload(&x)?, out], &[WIDTH as u32])?;
    let place = |row: &[f64]| (0..WIDTH).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0) as f64;
    let reference: Vec<f64> = values.chunks_exact(WIDTH).map(place).collect();
    let found: Vec<f64> = bench.download::<i32>(out, ROWS)?.into_iter().map(f64::from).collect();
    Ok(distance(&found, &reference))
}

fn sorted_rows(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    let (x, mut values) = normals(28, ROWS * 256);
    let out = bench.output(4 * ROWS * 256)?;
    go(bench, compiled, [ROWS, 1], &[bench.upload(&x)?, out], &[])?;
    values.chunks_exact_mut(256).for_each(|row| row.sort_by(f64::total_cmp));
    Ok(distance(&floats(bench, out, ROWS * 256)?, &values))
}

fn transpose(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    let (rows, columns) = (70, 45);
    let (x, values) = normals(29, rows * columns);
    let out = bench.output(4 * rows * columns)?;
    let grid = [rows.div_ceil(32), columns.div_ceil(32)];
    go(bench, compiled, grid, &[bench.upload(&x)?, out], &[rows as u32, columns as u32])?;
    let reference: Vec<f64> = (0..rows * columns).map(|at| values[at % rows * columns + at / rows]).collect();
    Ok(distance(&floats(bench, out, rows * columns)?, &reference))
}

fn count(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    let (mut random, kinds) = (Random::new(30), 17);
    let x: Vec<i32> = (0..POINTS).map(|_| random.below(kinds) as i32).collect();
    let out = bench.zeros(4 * kinds)?;
    go(bench, compiled, [POINTS.div_ceil(256), 1], &[bench.upload(&x)?, out], &[POINTS as u32])?;
    let reference: Vec<f64> = (0..kinds).map(|kind| x.iter().filter(|&&x| x as usize == kind).count() as f64).collect();
    let found: Vec<f64> = bench.download::<i32>(out, kinds)?.into_iter().map(f64::from).collect();
    Ok(distance(&found, &reference))
}

/// Rows, columns and depth of products: no tile's.
const PRODUCT: [usize; 3] = [100, 90, 70];

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    let [m, n, k] = PRODUCT;
    let dot = |at: usize| (0..k).map(|i| a[at / n * k + i] * b[i * n + at % n]).sum();
    (0..m * n).map(dot).collect()
}

fn matmul(bench: &Bench, compiled: &Compiled, half: Option<Half>, tile: [usize; 2]) -> Result<f64, Unrun> {
    let [m, n, k] = PRODUCT;
    let ((a, mut a_values), (b, mut b_values)) = (normals(31, m * k), normals(32, k * n));
    let (a, b) = match half {
        Some(half) => {
            let ((a, a_rounded), (b, b_rounded)) = (half.rounded(&a_values), half.rounded(&b_values));
            (a_values, b_values) = (a_rounded, b_rounded);
            (bench.upload(&a)?, bench.upload(&b)?)
        }
        None => (bench.upload(&a)?, bench.upload(&b)?),
    };
    let out = bench.output(4 * m * n)?;
    let grid = [m.div_ceil(tile[0]), n.div_ceil(tile[1])];
    go(bench, compiled, grid, &[a, b, out], &PRODUCT.map(|extent| extent as u32))?;
    Ok(distance(&floats(bench, out, m * n)?, &product(&a_values, &b_values)))
}

fn matmul_i8(bench: &Bench, compiled: &Compiled) -> Result<f64, Unrun> {
    let ([m, n, k], mut random) = (PRODUCT, Random::new(33));
    let (a, b) = (random.bytes(m * k), random.bytes(k * n));
    let out = bench.output(4 * m * n)?;
    let grid = [m.div_ceil(64), n.div_ceil(64)];
    go(bench, compiled, grid, &[bench.upload(&a)?, bench.upload(&b)?, out], &PRODUCT.map(|extent| extent as u32))?;
    let wide = |bytes: &[u8]| -> Vec<f64> { bytes.iter().map(|&byte| f64::from(byte as i8)).collect() };
    let found: Vec<f64> = bench.download::<i32>(out, m * n)?.into_iter().map(f64::from).collect();
    Ok(distance(&found, &product(&wide(&a), &wide(&b))))
}

fn attention(bench: &Bench, compiled: &Compiled, half: Half, [tile, d]: [usize; 2]) -> Result<f64, Unrun> {
    let (rows, heads, mut random) = (150, 2, Random::new(34));
    let mut tensor = || half.rounded(&random.normals(rows * heads * d, 1.0));
    let ((q, q_values), (k, k_values), (v, v_values)) = (tensor(), tensor(), tensor());
    let (out, scale) = (bench.output(4 * rows * heads * d)?, 1.0 / (d as f32).sqrt());
    let pointers = [bench.upload(&q)?, bench.upload(&k)?, bench.upload(&v)?, out];
    go(bench, compiled, [rows.div_ceil(tile), heads], &pointers, &[rows as u32, scale.to_bits()])?;
    let mut reference = Vec::with_capacity(rows * heads * d);
    for (head, row) in (0..heads).flat_map(|head| (0..rows).map(move |row| (head, row))) {
        let of = |values: &'_ [f64], row: usize| values[(head * rows + row) * d..][..d].to_vec();
        let query = of(&q_values, row);
        let score =
            |key: usize| query.iter().zip(of(&k_values, key)).map(|(a, b)| a * b).sum::<f64>() * f64::from(scale);
        let weights: Vec<f64> = (0..=row).map(|key| score(key).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let at =
            |i: usize| (0..=row).map(|key| weights[key] / sum * v_values[(head * rows + key) * d + i]).sum::<f64>();
        reference.extend((0..d).map(at));
    }
    Ok(distance(&floats(bench, out, rows * heads * d)?, &reference))
}
