//! References of `packed.hip`. An f32 operation on two f16 and a rounding is the f16 operation, correctly rounded.

use half::{bf16, f16};

use crate::bench::{Bench, args, cases, floats as numbers, noise, same, whole};

cases!(halves, half_scalar, shorts, floats, mixed, pair_dots, narrowing, bytes, blend);

const N: usize = 128;

fn random_halves(seed: u64, len: usize) -> Vec<f16> {
    numbers(seed, len).into_iter().map(f16::from_f32).collect()
}

fn half(x: f32) -> f16 {
    f16::from_f32(x)
}

fn halves(b: &Bench) {
    let (x, y) = (random_halves(1, 2 * N), random_halves(2, 2 * N));
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<f16>(14 * N));
    b.run("halves", 2, 64, args![px, py, out]);
    let seven = |i: usize| {
        let [a, c] = [&x, &y].map(|z| [z[2 * i].to_f32(), z[2 * i + 1].to_f32()]);
        let each = |op: &dyn Fn(usize) -> f16| [op(0), op(1)];
        // Both factors have 11 bits, so f64 holds product and sum exactly.
        let fused = |k: usize| f16::from_f64(f64::from(a[k]) * f64::from(c[k]) - f64::from(a[k]));
        [
            each(&|k| half(a[k] + c[k])),
            each(&|k| half(a[k] * c[k])),
            each(&|k| half(a[k] - c[1 - k])),
            each(&fused),
            each(&|k| half(a[k].min(c[k]))),
            each(&|k| half(a[k].max(c[0]))),
            each(&|k| half(half(a[k].abs() * 2.0).to_f32() + c[k])),
        ]
        .concat()
    };
    same(&b.download::<f16>(out, 14 * N), &(0..N).flat_map(seven).collect::<Vec<_>>());
}

fn half_scalar(b: &Bench) {
    let (x, y) = (random_halves(3, N), random_halves(4, N));
    let (px, py, out, whole) = (b.upload(&x), b.upload(&y), b.zeros::<f16>(4 * N), b.zeros::<i16>(N));
    b.run("half_scalar", 2, 64, args![px, py, out, whole]);
    let four = |i: usize| {
        let (a, c) = (x[i].to_f32(), y[i].to_f32());
        let first = if a < c { half(a + 1.0) } else { y[i] };
        [first, half((a * 64.0).floor()), half((c * 64.0).round_ties_even()), half((i as i32 * 77 - 3000) as f32)]
    };
    same(&b.download::<f16>(out, 4 * N), &(0..N).flat_map(four).collect::<Vec<_>>());
    let want: Vec<i16> = x.iter().map(|x| half(x.to_f32() * 1000.0).to_f32() as i16).collect();
    same(&b.download::<i16>(whole, N), &want);
}

fn shorts(b: &Bench) {
    let of = |seed| noise(seed, 2 * N).into_iter().map(|x| x as i16).collect::<Vec<_>>();
    let (x, y) = (of(5), of(6));
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<i16>(16 * N));
    b.run("shorts", 2, 64, args![px, py, out]);
    let ops: [fn(i16, i16) -> i16; 8] = [
        i16::wrapping_add,
        i16::wrapping_sub,
        |a, b| a.wrapping_mul(b).wrapping_add(a),
        std::cmp::min,
        std::cmp::max,
        |a, b| a << (b & 15),
        |a, b| (a as u16 >> (b & 15)) as i16,
        |a, b| a >> (b & 15),
    ];
    let each = |i: usize| ops.iter().flat_map(|op| [2 * i, 2 * i + 1].map(|k| op(x[k], y[k]))).collect::<Vec<_>>();
    same(&b.download::<i16>(out, 16 * N), &(0..N).flat_map(each).collect::<Vec<_>>());
}

fn floats(b: &Bench) {
    let (x, y) = (numbers(7, 2 * N), numbers(8, 2 * N));
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<f32>(4 * N));
    b.run("floats", 2, 64, args![px, py, out]);
    let four = |i: usize| {
        let (mut a, mut c, mut sum) = ([x[2 * i], x[2 * i + 1]], [y[2 * i], y[2 * i + 1]], [0f32; 2]);
        for _ in 0..5 {
            sum = [0, 1].map(|j| a[j].mul_add(c[j], sum[j]));
            a = [0, 1].map(|j| a[j] * c[1 - j] + c[j]);
            c = [0, 1].map(|j| c[j] - a[0] * 0.25);
        }
        [sum[0], sum[1], a[0], a[1]]
    };
    same(&b.download::<f32>(out, 4 * N), &(0..N).flat_map(four).collect::<Vec<_>>());
}

fn mixed(b: &Bench) {
    let (x, y) = (random_halves(9, 2 * N), numbers(10, N));
    let (px, py, wide, narrow) = (b.upload(&x), b.upload(&y), b.zeros::<f32>(N), b.zeros::<f16>(N));
    b.run("mixed", 2, 64, args![px, py, wide, narrow]);
    let pair = |i: usize| (x[2 * i].to_f32(), x[2 * i + 1].to_f32());
    let sum = |i: usize| pair(i).0.mul_add(pair(i).1, y[i]) + pair(i).0;
    same(&b.download::<f32>(wide, N), &(0..N).map(sum).collect::<Vec<_>>());
    let rounded = |i: usize| half(pair(i).1.mul_add(y[i], -pair(i).0));
    same(&b.download::<f16>(narrow, N), &(0..N).map(rounded).collect::<Vec<_>>());
}

fn pair_dots(b: &Bench) {
    let [x, y] = [11, 12].map(|seed| whole(seed, 2 * N).into_iter().map(f16::from_f32).collect::<Vec<_>>());
    let [p, q] =
        [13, 14].map(|seed| noise(seed, 2 * N).into_iter().map(|x| (x % 20_001) as i16 - 10_000).collect::<Vec<_>>());
    let (dots, sums) = (b.zeros::<f32>(N), b.zeros::<i32>(N));
    b.run("pair_dots", 2, 64, args![b.upload(&x), b.upload(&y), b.upload(&p), b.upload(&q), dots, sums]);
    let dot = |i: usize| (2 * i..2 * i + 2).map(|k| x[k].to_f32() * y[k].to_f32()).sum::<f32>() + 0.5;
    same(&b.download::<f32>(dots, N), &(0..N).map(dot).collect::<Vec<_>>());
    let sum = |i: usize| (2 * i..2 * i + 2).map(|k| i32::from(p[k]) * i32::from(q[k])).sum::<i32>() - 9;
    same(&b.download::<i32>(sums, N), &(0..N).map(sum).collect::<Vec<_>>());
}

/// The f16 next to a number on the side of zero.
fn towards_zero(x: f32) -> f16 {
    let near = half(x);
    if near.to_f32().abs() > x.abs() { f16::from_bits(near.to_bits() - 1) } else { near }
}

fn narrowing(b: &Bench) {
    // From the subnormals of f16 to its largest numbers.
    let mut x: Vec<f32> =
        numbers(15, N).into_iter().enumerate().map(|(i, x)| x * 2f32.powi(i as i32 % 40 - 24)).collect();
    x[0] = 0.0;
    x[1] = -0.0;
    let (px, out) = (b.upload(&x), b.zeros::<u32>(4 * N));
    b.run("narrowing", 2, 64, args![px, out]);
    let four = |&x: &f32| {
        let zero = towards_zero(x).to_bits();
        [
            u32::from(half(x).to_bits()),
            u32::from(zero) | u32::from(zero ^ 0x8000) << 16,
            u32::from(bf16::from_f32(x).to_bits()),
            x.to_bits() & 0xffff_0000,
        ]
    };
    same(&b.download::<u32>(out, 4 * N), &x.iter().flat_map(four).collect::<Vec<_>>());
}

fn bytes(b: &Bench) {
    let x = noise(16, N);
    let (px, out, packed) = (b.upload(&x), b.zeros::<f32>(4 * N), b.zeros::<u32>(N));
    b.run("bytes", 2, 64, args![px, out, packed]);
    let all: Vec<f32> = x.iter().flat_map(|x| x.to_le_bytes()).map(f32::from).collect();
    same(&b.download::<f32>(out, 4 * N), &all);
    // No further than 255.
    let byte = |x: &f32| (x + 3.0) as u8;
    let want: Vec<u32> =
        all.chunks(4).map(|four| u32::from_le_bytes(std::array::from_fn(|k| byte(&four[k])))).collect();
    same(&b.download::<u32>(packed, N), &want);
}

fn blend(b: &Bench) {
    let (over, under) = (noise(17, N), noise(18, N));
    let (po, pu, out) = (b.upload(&over), b.upload(&under), b.zeros::<u32>(N));
    b.run("blend", 2, 64, args![po, pu, out]);
    let of = |(&a, &c): (&u32, &u32)| {
        let alpha = a >> 24;
        let channel = |k: usize| {
            let mixed = (a >> (8 * k) & 255) * alpha + (c >> (8 * k) & 255) * (255 - alpha) + 128;
            ((mixed + (mixed >> 8)) >> 8) as u8
        };
        u32::from_le_bytes(std::array::from_fn(channel))
    };
    same(&b.download::<u32>(out, N), &over.iter().zip(&under).map(of).collect::<Vec<_>>());
}
