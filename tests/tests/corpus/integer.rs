//! References of `integer.hip`.

use crate::bench::{Bench, args, below, cases, noise, same, words};

cases!(
    high_products,
    divisions,
    bit_counts,
    bit_fields,
    wide_shifts,
    byte_sad,
    dot_products,
    carries,
    narrow,
    saturating,
    three_way,
    compares,
    modular_power,
);

const N: usize = 128;

/// Pairs of words of every length, with the extremes.
fn pairs(seed: u64) -> (Vec<u64>, Vec<u64>) {
    let extremes = [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, u64::from(u32::MAX), 1 << 31, 1 << 32];
    let of = |seed| {
        let lengths = below(seed + 100, N, 64);
        let mut x: Vec<u64> = words(seed, N).iter().zip(lengths).map(|(word, length)| word >> length).collect();
        x[..extremes.len()].copy_from_slice(&extremes);
        x
    };
    let (a, mut b) = (of(seed), of(seed + 1));
    b.rotate_right(3);
    (a, b)
}

/// Runs a kernel on two lists of words, `each` results an item.
fn binary<T: bytemuck::Pod, R: bytemuck::Pod + std::fmt::Debug>(
    b: &Bench,
    kernel: &str,
    (x, y): (&[T], &[T]),
    each: impl Fn(T, T) -> Vec<R>,
) {
    let want: Vec<R> = x.iter().zip(y).flat_map(|(&x, &y)| each(x, y)).collect();
    let (px, py, out) = (b.upload(x), b.upload(y), b.zeros::<R>(want.len()));
    b.run(kernel, 2, x.len() as u32 / 2, args![px, py, out]);
    same(&b.download::<R>(out, want.len()), &want);
}

fn high_products(b: &Bench) {
    let (x, y) = pairs(1);
    binary(b, "high_products", (&x, &y), |x, y| {
        let (low_x, low_y) = (u64::from(x as u32), u64::from(y as u32));
        vec![
            (low_x * low_y) >> 32,
            u64::from(((i64::from(x as i32) * i64::from(y as i32)) >> 32) as u32),
            ((u128::from(x) * u128::from(y)) >> 64) as u64,
            ((i128::from(x as i64) * i128::from(y as i64)) >> 64) as u64,
            x.wrapping_mul(y),
            (low_x * low_y).wrapping_add(x >> 7),
        ]
    });
}

fn divisions(b: &Bench) {
    let (x, y) = pairs(3);
    binary(b, "divisions", (&x, &y), |x, y| {
        let y = y | 1;
        let (sx, sy, x32, y32) = (x as i64, y as i64, x as u32, y as u32);
        let (sx32, sy32) = (x as i32, y as i32);
        // The smallest number by -1 has no result in C; the emulated card wraps, as all of AMD's do.
        vec![
            x / y,
            x % y,
            sx.wrapping_div(sy) as u64,
            sx.wrapping_rem(sy) as u64,
            u64::from(x32 / y32),
            u64::from(x32 % y32),
            i64::from(sx32.wrapping_div(sy32)) as u64,
            i64::from(sx32.wrapping_rem(sy32)) as u64,
            x / 1_000_003,
            (sx % 10) as u64,
        ]
    });
}

fn bit_counts(b: &Bench) {
    let (x, _) = pairs(5);
    let first = |x: u64, zeros: u32| if x == 0 { 0 } else { zeros + 1 };
    let each = |&x: &u64| {
        let low = x as u32;
        [
            low.count_ones(),
            x.count_ones(),
            low.leading_zeros(),
            x.leading_zeros(),
            first(u64::from(low), low.trailing_zeros()),
            first(x, x.trailing_zeros()),
            low.reverse_bits(),
            (x.reverse_bits() >> 13) as u32,
        ]
    };
    let (px, out) = (b.upload(&x), b.zeros::<u32>(8 * N));
    b.run("bit_counts", 2, N as u32 / 2, args![px, out]);
    same(&b.download::<u32>(out, 8 * N), &x.iter().flat_map(each).collect::<Vec<_>>());
}

fn bit_fields(b: &Bench) {
    let (x, y) = (noise(7, N), noise(8, N));
    binary(b, "bit_fields", (&x, &y), |a, c| {
        let at = c & 31;
        let wide = u64::from(a) << 32 | u64::from(c);
        let field = |width: u32| (u64::from(a) >> at) & ((1 << width) - 1);
        let bytes: Vec<u32> = (0..8).map(|k| (wide >> (8 * k)) as u32 & 0xff).collect();
        // A signed field that would reach past the top is cut there, and so extends the word's own sign.
        let signed = if at + 9 < 32 { ((field(9) as i64) << 55 >> 55) as u32 } else { (a as i32 >> at) as u32 };
        vec![
            field(7) as u32,
            signed,
            (a & c) | (!a & 0x1234_5678),
            (wide >> at) as u32,
            (wide >> (8 * (at & 3))) as u32,
            a.rotate_left(at),
            // Selector 0x0c gives a zero byte.
            bytes[5] | bytes[7] << 8 | bytes[2] << 16,
            (a & 0xff00_ff00) >> 8 | (a & 0x00ff_00ff) << 8,
        ]
    });
}

fn wide_shifts(b: &Bench) {
    let x = words(9, N);
    let (px, out) = (b.upload(&x), b.zeros::<u64>(4 * N));
    b.run("wide_shifts", 2, N as u32 / 2, args![px, out]);
    let each = |&x: &u64| {
        let by = (x >> 58) as u32;
        [x << by, x >> by, ((x as i64) >> by) as u64, x.rotate_left(by)]
    };
    same(&b.download::<u64>(out, 4 * N), &x.iter().flat_map(each).collect::<Vec<_>>());
}

fn byte_sad(b: &Bench) {
    let (x, y) = (noise(10, N), noise(11, N));
    binary(b, "byte_sad", (&x, &y), |a, c| {
        let bytes = |c: u32| a.to_le_bytes().into_iter().zip(c.to_le_bytes());
        let sad: u32 = bytes(c).map(|(a, c)| u32::from(a.abs_diff(c))).sum();
        let masked = bytes(c & 0xff00_ffff).filter(|&(_, c)| c != 0).map(|(a, c)| u32::from(a.abs_diff(c)));
        let halves = (a as u16).abs_diff(c as u16) as u32 + ((a >> 16) as u16).abs_diff((c >> 16) as u16) as u32;
        vec![sad + 1000, (sad << 16) + 77, halves + 5, masked.sum::<u32>() + 9]
    });
}

fn dot_products(b: &Bench) {
    let (x, y) = (noise(12, N), noise(13, N));
    binary(b, "dot_products", (&x, &y), |a, c| {
        let bytes = || a.to_le_bytes().into_iter().zip(c.to_le_bytes());
        let signed = -5 + bytes().map(|(a, c)| i32::from(a as i8) * i32::from(c as i8)).sum::<i32>();
        let unsigned = 11 + bytes().map(|(a, c)| i32::from(a) * i32::from(c)).sum::<i32>();
        let nibbles = 13 + (0..8).map(|k| ((a >> (4 * k) & 15) * (c >> (4 * k) & 15)) as i32).sum::<i32>();
        vec![signed, signed, unsigned, nibbles]
    });
}

fn carries(b: &Bench) {
    let of = |seed| {
        let mut x: Vec<[u64; 2]> = words(seed, 2 * N).chunks(2).map(|two| [two[0], two[1]]).collect();
        x[0] = [u64::MAX, 0];
        x[1] = [u64::MAX; 2];
        x[2] = [0, 1];
        x
    };
    let (x, mut y) = (of(14), of(15));
    y.swap(0, 2);
    binary(b, "carries", (&x, &y), |x, y| {
        let wide = |x: [u64; 2]| u128::from(x[1]) << 64 | u128::from(x[0]);
        let (x, y) = (wide(x), wide(y));
        let results = [x.wrapping_add(y), x.wrapping_sub(y), x.wrapping_mul(y)];
        results.map(|x| [x as u64, (x >> 64) as u64]).to_vec()
    });
}

fn narrow(b: &Bench) {
    let x: Vec<i16> = noise(16, N).into_iter().map(|x| x as i16).collect();
    let y: Vec<i8> = noise(17, N).into_iter().map(|x| x as i8).collect();
    let (px, py) = (b.upload(&x), b.upload(&y));
    let (sums, bytes, saturated) = (b.zeros::<i16>(N), b.zeros::<u8>(N), b.zeros::<i16>(N));
    b.run("narrow", 1, N as u32, args![px, py, sums, bytes, saturated]);
    let all = || x.iter().zip(&y).map(|(&x, &y)| (i32::from(x), i32::from(y)));
    same(&b.download::<i16>(sums, N), &all().map(|(x, y)| (x * y + (x >> 3)) as i16).collect::<Vec<_>>());
    let byte = |(x, y): (i32, i32)| (i32::from(y as u8) * 3 + i32::from((x >> 8) as u8)) as u8;
    same(&b.download::<u8>(bytes, N), &all().map(byte).collect::<Vec<_>>());
    let saturate = |(x, y): (i32, i32)| (x + 200 * y).clamp(-32768, 32767) as i16;
    same(&b.download::<i16>(saturated, N), &all().map(saturate).collect::<Vec<_>>());
}

fn saturating(b: &Bench) {
    let (x, y) = (noise(18, N), noise(19, N));
    binary(b, "saturating", (&x, &y), |x, y| {
        let (p, q) = (x as i32, y as i32);
        vec![x.saturating_add(y), x.saturating_sub(y), p.saturating_add(q) as u32, p.saturating_sub(q) as u32]
    });
}

fn three_way(b: &Bench) {
    let (x, y) = (noise(20, N), noise(21, N));
    binary(b, "three_way", (&x, &y), |x, y| {
        let z = x ^ (y << 3);
        let middle = |mut three: [i64; 3]| {
            three.sort_unstable();
            three[1] as u32
        };
        let signed = |x: u32| (x << 8) as i32 >> 8;
        vec![
            middle([x, y, z].map(i64::from)),
            middle([x, y, z].map(|x| i64::from(x as i32))),
            x.abs_diff(y),
            (x & 0xff_ffff).wrapping_mul(y & 0xff_ffff),
            (signed(x).wrapping_mul(signed(y)) as u32).wrapping_add(z),
            (x << 4).wrapping_add(y).wrapping_add(z | 1),
        ]
    });
}

fn compares(b: &Bench) {
    let (mut x, mut y) = pairs(22);
    x[20..30].copy_from_slice(&y[20..30]);
    y[40] = x[40] ^ 1;
    binary(b, "compares", (&x, &y), |x, y| {
        let (a, c) = (x as i64, y as i64);
        let all = [a < c, a <= c, a == c, a != c, a > c, a >= c, x < y, x <= y, x > y, x >= y];
        let bits = all.iter().enumerate().fold(0, |bits, (k, &holds)| bits | u32::from(holds) << k);
        vec![bits << 16 | ((if a < c { x } else { y }) >> 48) as u32]
    });
}

fn modular_power(b: &Bench) {
    let (n, exponent) = (2_147_483_647u32, 123_456_789u32);
    let x = noise(23, N);
    // -1/n modulo 2^32 by Newton's iteration, 2^32 and 2^64 modulo n.
    let inverse = (0..5).fold(1u32, |y, _| y.wrapping_mul(2u32.wrapping_sub(n.wrapping_mul(y)))).wrapping_neg();
    let one = ((1u64 << 32) % u64::from(n)) as u32;
    let square = ((1u128 << 64) % u128::from(n)) as u32;
    let (px, out) = (b.upload(&x), b.zeros::<u32>(N));
    b.run("modular_power", 2, N as u32 / 2, args![px, out, n, inverse, one, square, exponent]);
    let power = |&x: &u32| {
        let n = u64::from(n);
        let (mut base, mut result, mut e) = (u64::from(x) % n, 1u64, exponent);
        while e > 0 {
            if e & 1 == 1 {
                result = result * base % n;
            }
            base = base * base % n;
            e >>= 1;
        }
        result as u32
    };
    same(&b.download::<u32>(out, N), &x.iter().map(power).collect::<Vec<_>>());
}
