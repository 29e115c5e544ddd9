//! References of `double.hip`.

use half::f16;

use crate::bench::{Bench, args, cases, close_f64, doubles, same};

cases!(basic, rounding, conversions, polynomial, classes, double_double, parts, kepler, oscillator);

const N: usize = 128;

fn basic(b: &Bench) {
    let (mut x, mut y) = (doubles(1, N), doubles(2, N));
    // Quotients over the whole range, subnormal ones too.
    x.iter_mut().zip(&mut y).enumerate().skip(64).for_each(|(i, (x, y))| {
        *x *= 2f64.powi(16 * (i as i32 - 96));
        *y *= 2f64.powi(-15 * (i as i32 - 96));
    });
    x[5] = 0.0;
    x[6] = -1.0;
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<f64>(8 * N));
    b.run("basic", 2, 64, args![px, py, out]);
    let eight = |(&a, &b): (&f64, &f64)| {
        [a + b, a * b, a / b, a.abs().sqrt(), a.mul_add(b, 1.0), a.min(b), a.max(b), a - b * 3.0]
    };
    same(&b.download::<f64>(out, 8 * N), &x.iter().zip(&y).flat_map(eight).collect::<Vec<_>>());
}

fn rounding(b: &Bench) {
    let mut x = doubles(3, N);
    x[..6].copy_from_slice(&[0.0005, 0.0015, -0.0025, 0.0, -0.0001, 1e30]);
    let (px, out) = (b.upload(&x), b.zeros::<f64>(4 * N));
    b.run("rounding", 2, 64, args![px, out]);
    let four = |&x: &f64| {
        let a = x * 1000.0;
        [a.floor(), a.ceil(), a.trunc(), a.round_ties_even()]
    };
    same(&b.download::<f64>(out, 4 * N), &x.iter().flat_map(four).collect::<Vec<_>>());
}

fn conversions(b: &Bench) {
    let x = doubles(4, N);
    let (px, out) = (b.upload(&x), b.zeros::<i64>(8 * N));
    b.run("conversions", 2, 64, args![px, out]);
    let eight = |&x: &f64| {
        let a = x * 1e9;
        let (signed, unsigned) = ((a * 1e9) as i64, (a * 1e10).abs() as u64);
        [
            i64::from(a as i32),
            i64::from(a.abs() as u32),
            signed,
            unsigned as i64,
            f64::from(a as f32).to_bits() as i64,
            f16::from_f32(x as f32).to_f64().to_bits() as i64,
            (signed as f64).to_bits() as i64,
            (unsigned as f64).to_bits() as i64,
        ]
    };
    same(&b.download::<i64>(out, 8 * N), &x.iter().flat_map(eight).collect::<Vec<_>>());
}

fn polynomial(b: &Bench) {
    let (coefficients, x) = (doubles(5, 18), doubles(6, N));
    let (pc, px, out) = (b.upload(&coefficients), b.upload(&x), b.zeros::<f64>(N));
    b.run("polynomial", 2, 64, args![pc, px, out, 17i32]);
    let of = |&x: &f64| coefficients[..17].iter().rev().fold(coefficients[17], |sum, c| sum.mul_add(x, *c));
    same(&b.download::<f64>(out, N), &x.iter().map(of).collect::<Vec<_>>());
}

fn classes(b: &Bench) {
    let values = [0.0, -0.0, 1.0, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, -1e-310, f64::MAX];
    let x: Vec<f64> = (0..100).map(|i| values[i / 10]).collect();
    let y: Vec<f64> = (0..100).map(|i| values[i % 10]).collect();
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<u32>(100));
    b.run("classes", 1, 100, args![px, py, out]);
    let of = |(&a, &b): (&f64, &f64)| {
        let unordered = a.is_nan() || b.is_nan();
        let all = [
            a < b,
            a <= b,
            a == b,
            a != b,
            a > b,
            a >= b,
            unordered,
            a.is_nan(),
            a.is_infinite(),
            b.is_finite(),
            a.is_sign_negative(),
            a.is_normal(),
            unordered || a >= b,
        ];
        all.iter().enumerate().fold(0u32, |bits, (k, &holds)| bits | u32::from(holds) << k)
    };
    same(&b.download::<u32>(out, 100), &x.iter().zip(&y).map(of).collect::<Vec<_>>());
}

fn double_double(b: &Bench) {
    let (x, y) = (doubles(7, N + 20), doubles(8, N + 20));
    let (px, py, sums, products) = (b.upload(&x), b.upload(&y), b.zeros::<[f64; 2]>(N), b.zeros::<[f64; 2]>(N));
    b.run("double_double", 2, 64, args![px, py, sums, products]);
    let two_sum = |a: f64, b: f64| {
        let sum = a + b;
        let part = sum - a;
        [sum, (a - (sum - part)) + (b - part)]
    };
    let sum = |own: &[f64]| {
        let [high, low] = own.iter().fold([0.0, 0.0], |[high, low], &a| {
            let next = two_sum(high, a);
            [next[0], low + next[1]]
        });
        two_sum(high, low)
    };
    same(&b.download::<[f64; 2]>(sums, N), &x.windows(20).take(N).map(sum).collect::<Vec<_>>());
    let product = |own: &[f64]| {
        let [high, low] = own.iter().map(|b| 1.0 + b).fold([1.0f64, 0.0], |[high, low], b| {
            let product = high * b;
            [product, low.mul_add(b, high.mul_add(b, -product))]
        });
        two_sum(high, low)
    };
    same(&b.download::<[f64; 2]>(products, N), &y.windows(20).take(N).map(product).collect::<Vec<_>>());
}

fn parts(b: &Bench) {
    let n = 64;
    let mut x: Vec<f64> =
        doubles(9, n).into_iter().enumerate().map(|(i, x)| x * 2f64.powi(30 * (i as i32 - 32))).collect();
    x[7] = 5e-324;
    let (px, mantissas, exponents, scaled) = (b.upload(&x), b.zeros::<f64>(n), b.zeros::<i32>(n), b.zeros::<f64>(n));
    b.run("parts", 1, n as u32, args![px, mantissas, exponents, scaled]);
    let split: Vec<(f64, i32)> = x.iter().map(|&x| libm::frexp(x)).collect();
    same(&b.download::<f64>(mantissas, n), &split.iter().map(|two| two.0).collect::<Vec<_>>());
    same(&b.download::<i32>(exponents, n), &split.iter().map(|two| two.1).collect::<Vec<_>>());
    // The hardware's fraction stays below one even where subtraction would round up to it.
    let fract = |x: f64| (x - x.floor()).min(1.0 - f64::EPSILON / 2.0);
    let of = |(i, &x): (usize, &f64)| libm::ldexp(x, i as i32 - 32) + fract(x * 8.0);
    same(&b.download::<f64>(scaled, n), &x.iter().enumerate().map(of).collect::<Vec<_>>());
}

fn kepler(b: &Bench) {
    let mean: Vec<f64> = doubles(10, N).into_iter().map(|x| 3.0 * x).collect();
    let (pm, anomaly) = (b.upload(&mean), b.zeros::<f64>(N));
    b.run("kepler", 2, 64, args![pm, anomaly, 0.3f64]);
    let got = b.download::<f64>(anomaly, N);
    let back: Vec<f64> = got.iter().map(|&e| e - 0.3 * e.sin()).collect();
    close_f64(&back, &mean, 1e-13, 1.0);
}

fn oscillator(b: &Bench) {
    let (start, h, steps) = (doubles(11, 2 * N), 0.01, 50);
    let (ps, out) = (b.upload(&start), b.zeros::<f64>(2 * N));
    b.run("oscillator", 2, 64, args![ps, out, steps, h]);
    let of = |start: &[f64]| {
        let (mut x, mut v) = (start[0], start[1]);
        let force = |x: f64| -x * x * x;
        for _ in 0..steps {
            let (k1x, k1v) = (v, force(x));
            let (k2x, k2v) = (v + h / 2.0 * k1v, force(x + h / 2.0 * k1x));
            let (k3x, k3v) = (v + h / 2.0 * k2v, force(x + h / 2.0 * k2x));
            let (k4x, k4v) = (v + h * k3v, force(x + h * k3x));
            x += h / 6.0 * (k1x + 2.0 * k2x + 2.0 * k3x + k4x);
            v += h / 6.0 * (k1v + 2.0 * k2v + 2.0 * k3v + k4v);
        }
        [x, v]
    };
    same(&b.download::<f64>(out, 2 * N), &start.chunks(2).flat_map(of).collect::<Vec<_>>());
}
