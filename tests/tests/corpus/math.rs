//! References of `math.hip`, in f64 where a function is not exact.

use half::f16;

use crate::bench::{Bench, args, cases, close, close_f64, doubles, floats, same, words};

cases!(
    exponentials_f32,
    logarithms_f32,
    circular_f32,
    inverses_f32,
    functions_f64,
    exact_f32,
    native_f32,
    parts_f32,
    conversions,
    halves,
    iterations,
    black_scholes,
);

const N: usize = 128;
/// Two units in the last place of f32, which the prelude promises, and what the reference may be off.
const TWO_ULP: f64 = 2.5e-7;

/// Runs a kernel of one argument and compares each of its functions.
fn table(b: &Bench, kernel: &str, x: &[f32], near: f64, functions: &[fn(f64) -> f64]) {
    let n = x.len();
    let (px, out) = (b.upload(x), b.zeros::<f32>(functions.len() * n));
    b.run(kernel, 2, n as u32 / 2, args![px, out, n as i32]);
    let want: Vec<f64> = functions.iter().flat_map(|f| x.iter().map(|&x| f(f64::from(x)))).collect();
    close(&b.download::<f32>(out, functions.len() * n), &want, near, 1e-30);
}

fn exponentials_f32(b: &Bench) {
    let x: Vec<f32> = floats(1, N).into_iter().enumerate().map(|(i, x)| x * 2f32.powi(i as i32 % 12 - 6)).collect();
    table(
        b,
        "exponentials_f32",
        &x,
        TWO_ULP,
        &[f64::exp, f64::exp2, f64::exp_m1, f64::sinh, f64::cosh, f64::tanh, libm::erf],
    );
}

fn logarithms_f32(b: &Bench) {
    let x: Vec<f32> =
        floats(2, N).into_iter().enumerate().map(|(i, x)| (x + 1.01) * 2f32.powi(i as i32 - 64)).collect();
    table(
        b,
        "logarithms_f32",
        &x,
        TWO_ULP,
        &[f64::ln, f64::log2, f64::log10, f64::ln_1p, |x| 1.0 / x.sqrt(), f64::sqrt, f64::asinh],
    );
}

fn circular_f32(b: &Bench) {
    let x: Vec<f32> = floats(3, N).into_iter().enumerate().map(|(i, x)| x * 3f32.powi(i as i32 % 16 - 4)).collect();
    table(b, "circular_f32", &x, TWO_ULP, &[f64::sin, f64::cos, f64::atan, |x| x.atan2(1.5), |x| x.hypot(2.0)]);
}

fn inverses_f32(b: &Bench) {
    let x = floats(4, N);
    table(
        b,
        "inverses_f32",
        &x,
        TWO_ULP,
        &[f64::asin, f64::acos, f64::atanh, f64::tan, |x| f64::from((1.0 + x) as f32).powf(f64::from(3.7f32))],
    );
}

fn functions_f64(b: &Bench) {
    let x: Vec<f64> = doubles(5, N).into_iter().map(|x| 6.0 * x).collect();
    let (px, out) = (b.upload(&x), b.zeros::<f64>(7 * N));
    b.run("functions_f64", 2, N as u32 / 2, args![px, out, N as i32]);
    let functions: [fn(f64) -> f64; 7] =
        [f64::exp, |x| (x * x + 0.01).ln(), f64::sin, f64::cos, f64::tanh, |x| 2.5f64.powf(x), libm::erf];
    let want: Vec<f64> = functions.iter().flat_map(|f| x.iter().map(|&x| f(x))).collect();
    close_f64(&b.download::<f64>(out, 7 * N), &want, 2e-15, 1e-3);
}

fn exact_f32(b: &Bench) {
    let scaled = |seed: u64, step: i32| {
        let scale = |i: usize| 2f32.powi((i as i32 - 64) * step / 2);
        floats(seed, N).into_iter().enumerate().map(|(i, x)| x * scale(i)).collect::<Vec<_>>()
    };
    // From numbers far below one to far above, quotients down to the subnormals.
    let (x, y) = (scaled(6, 3), scaled(7, -1));
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<f32>(11 * N));
    b.run("exact_f32", 2, N as u32 / 2, args![px, py, out, N as i32]);
    let functions: [fn(f32, f32) -> f32; 11] = [
        |a, b| a / b,
        |a, _| a.abs().sqrt(),
        |a, b| a % b,
        |a, _| a.floor(),
        |a, _| a.ceil(),
        |a, _| a.trunc(),
        |a, _| a.round_ties_even(),
        f32::copysign,
        |a, b| a.mul_add(b, a),
        |a, _| a / 8.0,
        |_, b| 1.0 / b,
    ];
    let want: Vec<f32> = functions.iter().flat_map(|f| x.iter().zip(&y).map(|(&a, &b)| f(a, b))).collect();
    same(&b.download::<f32>(out, 11 * N), &want);
}

fn native_f32(b: &Bench) {
    // Sine and cosine count in turns.
    let x: Vec<f32> = floats(8, N).into_iter().map(|x| 1.0001 + x).collect();
    let turns = std::f64::consts::TAU;
    let functions: [fn(f64) -> f64; 8] = [
        f64::recip,
        |x| 1.0 / x.sqrt(),
        f64::sqrt,
        f64::exp2,
        f64::log2,
        |x| (x * std::f64::consts::TAU).sin(),
        |x| (x * std::f64::consts::TAU).cos(),
        f64::fract,
    ];
    let (px, out) = (b.upload(&x), b.zeros::<f32>(8 * N));
    b.run("native_f32", 2, N as u32 / 2, args![px, out, N as i32]);
    let want: Vec<f64> = functions.iter().flat_map(|f| x.iter().map(|&x| f(f64::from(x)))).collect();
    // One unit in the last place; near a zero of sine, cosine and logarithm, of one.
    close(&b.download::<f32>(out, 8 * N), &want, 1.2e-7 * turns, 1.0);
}

fn parts_f32(b: &Bench) {
    let mut x = floats(9, 64);
    x[..9].copy_from_slice(&[0.0, -0.0, 1e-40, -1e-42, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, -3.0]);
    let (px, mantissas, exponents, classes) =
        (b.upload(&x), b.zeros::<f32>(64), b.zeros::<i32>(64), b.zeros::<u32>(64));
    b.run("parts_f32", 1, 64, args![px, mantissas, exponents, classes]);
    let split: Vec<(f32, i32)> = x.iter().map(|&x| if x.is_finite() { libm::frexpf(x) } else { (x, 0) }).collect();
    let (got, want): (Vec<f32>, Vec<f32>) = (b.download(mantissas, 64), split.iter().map(|two| two.0).collect());
    let bits =
        |values: &[f32]| values.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect::<Vec<_>>();
    same(&bits(&got), &bits(&want));
    same(&b.download::<i32>(exponents, 64), &split.iter().map(|two| two.1).collect::<Vec<_>>());
    let class = |&x: &f32| {
        let all = [x.is_nan(), x.is_infinite(), x.is_normal(), x.is_subnormal(), x == 0.0];
        let bit = |(k, &holds): (usize, &bool)| u32::from(holds) << k;
        all.iter().enumerate().map(bit).sum::<u32>()
    };
    same(&b.download::<u32>(classes, 64), &x.iter().map(class).collect::<Vec<_>>());
}

fn conversions(b: &Bench) {
    let x: Vec<f32> = floats(10, N).into_iter().map(|x| x * 30_000.0).collect();
    let y: Vec<u64> = words(11, N).into_iter().enumerate().map(|(i, word)| word >> (i % 64)).collect();
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<i64>(8 * N));
    b.run("conversions", 2, N as u32 / 2, args![px, py, out]);
    let eight = |(&a, &b): (&f32, &u64)| {
        let bits = |x: f32| i64::from(x.to_bits());
        [
            i64::from(a as i32),
            i64::from(a.abs() as u32),
            (a * 1e6) as i64,
            i64::from(a as i16),
            bits(b as f32),
            bits(b as i64 as f32),
            bits(b as u32 as f32),
            bits(b as i32 as f32),
        ]
    };
    same(&b.download::<i64>(out, 8 * N), &x.iter().zip(&y).flat_map(eight).collect::<Vec<_>>());
}

fn halves(b: &Bench) {
    let x: Vec<f16> = floats(12, N).into_iter().map(|x| f16::from_f32(5.0 + 4.5 * x)).collect();
    let (px, out) = (b.upload(&x), b.zeros::<f16>(6 * N));
    b.run("halves", 2, N as u32 / 2, args![px, out, N as i32]);
    let round = |x: f32| f16::from_f32(x);
    let functions: [&dyn Fn(f32) -> f16; 6] = [
        &|x| round(x.sqrt()),
        &|x| round(1.0 / x),
        &|x| round(x.trunc()),
        &|x| round(x.ceil()),
        &|x| round(round(x * x).to_f32() + x),
        &|x| round(x / 3.0),
    ];
    let want: Vec<f16> = functions.iter().flat_map(|f| x.iter().map(|x| f(x.to_f32()))).collect();
    same(&b.download::<f16>(out, 6 * N), &want);
}

fn iterations(b: &Bench) {
    let x: Vec<f32> = floats(13, N).into_iter().map(|x| (x + 1.1) * 0.4).collect();
    let (px, logistic, cube_root) = (b.upload(&x), b.zeros::<f32>(N), b.zeros::<f32>(N));
    b.run("iterations", 2, N as u32 / 2, args![px, logistic, cube_root]);
    let map = |&x: &f32| (0..200).fold(x, |a, _| 3.7 * a * (1.0 - a));
    same(&b.download::<f32>(logistic, N), &x.iter().map(map).collect::<Vec<_>>());
    let root = |&x: &f32| (0..12).fold(1f32, |y, _| y - (y * y * y - x) / (3.0 * y * y));
    same(&b.download::<f32>(cube_root, N), &x.iter().map(root).collect::<Vec<_>>());
}

fn black_scholes(b: &Bench) {
    let prices: Vec<f32> = floats(14, N).into_iter().map(|x| 50.0 + 40.0 * x).collect();
    let strikes: Vec<f32> = floats(15, N).into_iter().map(|x| 50.0 + 40.0 * x).collect();
    let (ps, pk, calls) = (b.upload(&prices), b.upload(&strikes), b.zeros::<f32>(N));
    b.run("black_scholes", 2, N as u32 / 2, args![ps, pk, calls, 0.02f32, 0.3f32, 2f32]);
    let call = |(&s, &k): (&f32, &f32)| {
        let (s, k, rate, spread, years) = (f64::from(s), f64::from(k), 0.02, 0.3, 2f64);
        let normal = |x: f64| 0.5 * (1.0 + libm::erf(x / 2f64.sqrt()));
        let d1 = ((s / k).ln() + (rate + 0.5 * spread * spread) * years) / (spread * years.sqrt());
        s * normal(d1) - k * (-rate * years).exp() * normal(d1 - spread * years.sqrt())
    };
    close(&b.download::<f32>(calls, N), &prices.iter().zip(&strikes).map(call).collect::<Vec<_>>(), 1e-5, 1.0);
}
