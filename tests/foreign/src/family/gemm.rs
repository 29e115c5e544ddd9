//! Products of matrices: D = A · Bᵀ, with A of M rows and B of N.

use rocfire_kernels::aiter as mx;

use super::tile;
use crate::bench::{Arguments, Bench, Unrun};
use crate::case::{Case, Object};
use crate::number::{Half, Random, distance, fp4, shuffled};

/// The kernels `bf16gemm_outf32_tn_{M}x{N}_pf3`, `I8gemm_bf16_perTokenI8_BpreShuffle_{M}x{N}` and
/// `f4gemm_bf16_per1x32Fp4_{B,noB}preShuffle_{M}x{N}`.
pub fn cases(object: &Object) -> Vec<Case> {
    let Some((folder, _)) = object.name.split_once('/') else { return Vec::new() };
    let Some(&[m, n]) = tile(object.stem()).as_deref() else { return Vec::new() };
    let sizes: &[([usize; 3], usize)] = match folder {
        "bf16gemm" => &[([m, n, 128], 1), ([m + 5, 2 * n, 256], 1), ([m, n, 512], 2)],
        "i8gemm" => &[([m, n, 256], 1), ([m, n, 384], 1), ([m + 7, 2 * n, 512], 1)],
        _ => &[([m, n, 512], 1), ([m - 7, n, 768], 1)],
    };
    sizes.iter().filter_map(|&(sizes, splits)| of(object, sizes, splits)).collect()
}

/// A case of M, N and K, with the sum over K in so many parts.
pub fn of(object: &Object, [m, n, k]: [usize; 3], splits: usize) -> Option<Case> {
    type Launch = fn(&Bench, Product) -> Result<f64, Unrun>;
    let (folder, _) = object.name.split_once('/')?;
    let &[tile_m, tile_n] = tile(object.stem()).as_deref()? else { return None };
    let (family, tolerance, launch): (_, _, Launch) = match folder {
        "bf16gemm" => ("gemm bf16", 1e-5, bf16_to_f32),
        "i8gemm" => ("gemm int8", 4e-3, int8),
        "f4gemm" => ("gemm fp4", 6e-3, microscaled_fp4),
        _ => return None,
    };
    let is_shuffled = !object.name.contains("noBpreShuffle");
    Some(Case {
        object: object.clone(),
        family,
        shape: format!("{m} x {n} x {k}{}", if splits > 1 { format!(", {splits} slices") } else { String::new() }),
        tolerance,
        is_checked: true,
        run: Box::new(move |bench| launch(bench, Product { m, n, k, splits, tile_m, tile_n, is_shuffled })),
    })
}

/// A product's sizes, and the tile of the kernel.
#[derive(Clone, Copy)]
struct Product {
    m: usize,
    n: usize,
    k: usize,
    splits: usize,
    tile_m: usize,
    tile_n: usize,
    is_shuffled: bool,
}

impl Product {
    fn grid(&self) -> [usize; 3] {
        [self.n.div_ceil(self.tile_n), self.m.div_ceil(self.tile_m), self.splits]
    }

    /// A · Bᵀ in f64.
    fn reference(&self, a: &[f64], b: &[f64]) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let rows = a.chunks_exact(self.k);
        rows.flat_map(|row| b.chunks_exact(self.k).map(move |column| dot(row, column))).collect()
    }
}

fn bf16_to_f32(bench: &Bench, product: Product) -> Result<f64, Unrun> {
    let Product { m, n, k, splits, .. } = product;
    let mut random = Random::new(3);
    let (a, a_values) = Half::Bf16.rounded(&random.normals(m * k, 1.0));
    let (b, b_values) = Half::Bf16.rounded(&random.normals(n * k, 1.0));
    let d = if splits > 1 { bench.zeros(4 * m * n)? } else { bench.output(4 * m * n)? };
    let arguments = Arguments::new(288)
        .pointers(&[(0, d), (32, bench.upload(&a)?), (48, bench.upload(&b)?)])
        .float(64, 1.0)
        .words(&[(128, 4 * n), (160, 2 * k), (192, 2 * k), (224, m), (240, n), (256, k), (272, splits)]);
    bench.launch(product.grid(), 256, &arguments)?;
    let found: Vec<f64> = bench.download::<f32>(d, m * n)?.into_iter().map(f64::from).collect();
    Ok(distance(&found, &product.reference(&a_values, &b_values)))
}

fn int8(bench: &Bench, product: Product) -> Result<f64, Unrun> {
    let Product { m, n, k, .. } = product;
    let mut random = Random::new(4);
    let (a, b) = (random.bytes(m * k), random.bytes(n * k));
    let mut scales = |count: usize| -> Vec<f32> { (0..count).map(|_| 0.01 + 0.01 * random.uniform() as f32).collect() };
    let (a_scale, b_scale) = (scales(m), scales(n));
    let bias: Vec<f32> = random.normals(n, 10.0).into_iter().map(|value| value as f32).collect();
    let d = bench.output(2 * m * n)?;
    let arguments = Arguments::new(208)
        .pointers(&[(0, d), (16, bench.upload(&a)?), (32, bench.upload(&shuffled(&b, k, 32, 16))?)])
        .pointers(&[(48, bench.upload(&a_scale)?), (64, bench.upload(&b_scale)?), (80, bench.upload(&bias)?)])
        .words(&[(96, m), (112, n), (128, k), (144, k), (160, k), (176, 2 * n), (192, 1)]);
    bench.launch([product.grid()[0], product.grid()[1], 1], 256, &arguments)?;
    let values = |bytes: &[u8]| -> Vec<f64> { bytes.iter().map(|&byte| f64::from(byte as i8)).collect() };
    let mut reference = product.reference(&values(&a), &values(&b));
    for (at, value) in reference.iter_mut().enumerate() {
        *value = *value * f64::from(a_scale[at / n]) * f64::from(b_scale[at % n]) + f64::from(bias[at % n]);
    }
    Ok(distance(&Half::Bf16.values(&bench.download(d, m * n)?), &reference))
}

/// Elements of fp4 that share a scale.
const BLOCK: usize = 32;

fn microscaled_fp4(bench: &Bench, product: Product) -> Result<f64, Unrun> {
    let Product { m, n, k, .. } = product;
    let mut random = Random::new(5);
    let a = Fp4::random(&mut random, m, k);
    let b = Fp4::random(&mut random, n, k);
    let codes = if product.is_shuffled { shuffled(&b.codes, k / 2, 16, 16) } else { b.codes.clone() };
    // The kernel of a weight in rows writes whole tiles of rows.
    let rows = if product.is_shuffled { m } else { m.next_multiple_of(32) };
    let d = bench.output(2 * rows * n)?;
    let (a_scales, b_scales) = (a.laid_out(), b.laid_out());
    let args = mx::Product {
        d,
        a: bench.upload(&a.codes)?,
        b: bench.upload(&codes)?,
        exponents: [bench.upload(&a_scales.bytes)?, bench.upload(&b_scales.bytes)?],
        d_row: n as u32,
        a_row: k as u32,
        b_row: k as u32,
        exponent_row: [a_scales.row as u32, b_scales.row as u32],
        size: [m as u32, n as u32, k as u32],
    };
    // Kernels of a weight in rows take fewer arguments.
    let arguments = Arguments::of(&args.args()).cut(bench.argument_bytes());
    bench.launch(product.grid(), 256, &arguments)?;
    let reference = product.reference(&a.values, &b.values);
    Ok(distance(&Half::Bf16.values(&bench.download(d, m * n)?), &reference))
}

/// A matrix of fp4 with scales of e8m0.
struct Fp4 {
    codes: Vec<u8>,
    scales: Vec<u8>,
    values: Vec<f64>,
    rows: usize,
    width: usize,
}

/// Scales as a kernel wants them.
struct Scales {
    bytes: Vec<u8>,
    row: usize,
}

impl Fp4 {
    fn random(random: &mut Random, rows: usize, width: usize) -> Fp4 {
        let codes = random.bytes(rows * width / 2);
        let scales: Vec<u8> = (0..rows * width / BLOCK).map(|_| 124 + random.below(6) as u8).collect();
        let value = |at: usize| {
            let code = codes[at / 2] >> (4 * (at % 2));
            fp4(code) * f64::from(i32::from(scales[at / BLOCK]) - 127).exp2()
        };
        Fp4 { values: (0..rows * width).map(value).collect(), codes, scales, rows, width }
    }

    /// Padded to 256 rows and 8 columns, and in tiles of 32 x 8 with pairs of rows and columns together.
    fn laid_out(&self) -> Scales {
        let columns = self.width / BLOCK;
        let (height, row) = (self.rows.next_multiple_of(256), columns.next_multiple_of(8));
        let mut bytes = Vec::with_capacity(height * row);
        // view(height / 32, 2, 16, row / 8, 2, 4), then axes 0, 3, 5, 2, 4, 1.
        for top in (0..height).step_by(32) {
            for left in (0..row).step_by(8) {
                for (four, sixteen) in (0..4).flat_map(|four| (0..16).map(move |sixteen| (four, sixteen))) {
                    for (column_half, row_half) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        let (y, x) = (top + 16 * row_half + sixteen, left + 4 * column_half + four);
                        bytes.push(if y < self.rows && x < columns { self.scales[y * columns + x] } else { 127 });
                    }
                }
            }
        }
        Scales { bytes, row }
    }
}
