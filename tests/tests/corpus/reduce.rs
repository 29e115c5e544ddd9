//! References of `reduce.hip`.

use bytemuck::{Pod, Zeroable};

use crate::bench::{Bench, args, below, cases, close_f64, doubles, floats, noise, same};

cases!(wave_sum, tree_sum, grid_sum, argmax, row_range, moments, kahan_dot, sum_by_key, matrix_chain);

/// Folds halves onto each other until one value is left.
fn tree<T: Copy>(mut values: Vec<T>, mut op: impl FnMut(T, T) -> T) -> T {
    while values.len() > 1 {
        let half = values.len() / 2;
        values = (0..half).map(|i| op(values[i], values[i + half])).collect();
    }
    values[0]
}

fn wave_sum(b: &Bench) {
    let n = 8 * b.wave();
    let x = floats(1, n);
    let (px, sums) = (b.upload(&x), b.zeros::<f32>(8));
    b.run("wave_sum", 2, n as u32 / 2, args![px, sums]);
    let want: Vec<f32> = x.chunks(b.wave()).map(|own| tree(own.to_vec(), |a, b| a + b)).collect();
    same(&b.download::<f32>(sums, 8), &want);
}

fn tree_sum(b: &Bench) {
    let n = 1000;
    let x = floats(2, n);
    let (px, sums) = (b.upload(&x), b.zeros::<f32>(4));
    b.run("tree_sum", 4, 256, args![px, sums, n as i32]);
    let mut padded = x;
    padded.resize(1024, 0.0);
    let want: Vec<f32> = padded.chunks(256).map(|own| tree(own.to_vec(), |a, b| a + b)).collect();
    same(&b.download::<f32>(sums, 4), &want);
}

fn grid_sum(b: &Bench) {
    let x = noise(3, 3001);
    let (px, sum) = (b.upload(&x), b.zeros::<u32>(1));
    b.run("grid_sum", 3, 192, args![px, sum, x.len() as i32]);
    same(&b.download::<u32>(sum, 1), &[x.iter().fold(0, |sum: u32, x| sum.wrapping_add(*x))]);
}

fn argmax(b: &Bench) {
    let x = below(4, 700, 50);
    let (px, best) = (b.upload(&x), b.zeros::<u64>(1));
    b.run("argmax", 3, 256, args![px, best, x.len() as i32]);
    let most = *x.iter().max().unwrap();
    let place = x.iter().position(|&x| x == most).unwrap();
    same(&b.download::<u64>(best, 1), &[u64::from(most) << 32 | u64::from(!(place as u32))]);
}

fn row_range(b: &Bench) {
    for cols in [1usize, 31, 200] {
        let x = floats(5, 3 * cols);
        let (px, low, high) = (b.upload(&x), b.zeros::<f32>(3), b.zeros::<f32>(3));
        b.run("row_range", 3, b.wave() as u32, args![px, low, high, cols as i32]);
        let fold = |op: fn(f32, f32) -> f32| {
            x.chunks(cols).map(|row| row.iter().copied().reduce(op).unwrap()).collect::<Vec<_>>()
        };
        same(&b.download::<f32>(low, 3), &fold(f32::min));
        same(&b.download::<f32>(high, 3), &fold(f32::max));
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Moments {
    count: f64,
    mean: f64,
    m2: f64,
}

fn moments(b: &Bench) {
    let x: Vec<f64> = doubles(6, 512).into_iter().map(|x| 1e3 + x).collect();
    let (px, out) = (b.upload(&x), b.zeros::<Moments>(2));
    b.run("moments", 2, 256, args![px, out]);
    for (own, got) in x.chunks(256).zip(b.download::<Moments>(out, 2)) {
        let mean = own.iter().sum::<f64>() / 256.0;
        let m2 = own.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        close_f64(&[got.count, got.mean, got.m2], &[256.0, mean, m2], 1e-12, 0.0);
    }
}

fn kahan_dot(b: &Bench) {
    let (x, y) = (floats(7, 5000), floats(8, 5000));
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<f32>(1));
    b.run("kahan_dot", 1, 128, args![px, py, out, 5000i32]);
    let lane = |t: usize| {
        let (mut sum, mut lost) = (0f32, 0f32);
        for i in (t..5000).step_by(128) {
            let term = x[i] * y[i] - lost;
            let next = sum + term;
            lost = (next - sum) - term;
            sum = next;
        }
        sum
    };
    same(&b.download::<f32>(out, 1), &[(0..128).map(lane).fold(0f32, |total, own| total + own)]);
}

fn sum_by_key(b: &Bench) {
    // Runs of random length: a key goes up by one at about every fifth element.
    let steps = below(9, 900, 5);
    let keys: Vec<u32> = steps
        .iter()
        .scan(0, |key, &step| {
            *key += u32::from(step == 0);
            Some(*key)
        })
        .collect();
    let values = noise(10, 900);
    let len = *keys.last().unwrap() as usize + 1;
    let (pk, pv, sums) = (b.upload(&keys), b.upload(&values), b.zeros::<u32>(len));
    b.run("sum_by_key", 4, 256, args![pk, pv, sums, 900i32]);
    let mut want = vec![0u32; len];
    for (&key, &value) in keys.iter().zip(&values) {
        want[key as usize] = want[key as usize].wrapping_add(value);
    }
    same(&b.download::<u32>(sums, len), &want);
}

fn matrix_chain(b: &Bench) {
    let x = noise(11, 2 * 128 * 4);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(8));
    b.run("matrix_chain", 2, 128, args![px, out]);
    let product = |a: [u32; 4], b: &[u32]| {
        let dot = |i: usize, j: usize| a[2 * i].wrapping_mul(b[j]).wrapping_add(a[2 * i + 1].wrapping_mul(b[2 + j]));
        [dot(0, 0), dot(0, 1), dot(1, 0), dot(1, 1)]
    };
    let want: Vec<u32> = x.chunks(512).flat_map(|own| own.chunks(4).fold([1, 0, 0, 1], product)).collect();
    same(&b.download::<u32>(out, 8), &want);
}
