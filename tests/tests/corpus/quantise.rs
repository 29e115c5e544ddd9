//! References of `quantise.hip`.

use bytemuck::{Pod, Zeroable};
use half::f16;
use rocfire_arch::Fp8;

use crate::bench::{Bench, Case, args, below, close, floats, noise, same};

pub const CASES: &[Case] = &[
    Case::new("int8_rows", int8_rows),
    Case::new("u8_affine", u8_affine),
    Case::new("int4_blocks", int4_blocks),
    Case::new("int4_dot", int4_dot),
    Case::needing("fp8", |arch| arch.fp8 != Fp8::None, fp8),
    Case::new("e4m3_by_bits", e4m3_by_bits),
    Case::new("mxfp4", mxfp4),
    Case::new("ternary", ternary),
    Case::new("stochastic", stochastic),
];

fn int8_rows(b: &Bench) {
    let (rows, cols) = (3, 100);
    let mut x = floats(1, rows * cols);
    x[cols..2 * cols].fill(0.0);
    let (px, out, scales) = (b.upload(&x), b.zeros::<i8>(rows * cols), b.zeros::<f32>(rows));
    b.run("int8_rows", rows as u32, b.wave() as u32, args![px, out, scales, cols as i32]);
    let most = |row: &[f32]| row.iter().fold(0f32, |most, x| most.max(x.abs()));
    let levels = |row: &[f32]| {
        let inverse = if most(row) > 0.0 { 127.0 / most(row) } else { 0.0 };
        row.iter().map(|x| (x * inverse).round_ties_even().clamp(-127.0, 127.0) as i8).collect::<Vec<_>>()
    };
    same(&b.download::<i8>(out, rows * cols), &x.chunks(cols).flat_map(levels).collect::<Vec<_>>());
    same(&b.download::<f32>(scales, rows), &x.chunks(cols).map(|row| most(row) / 127.0).collect::<Vec<_>>());
}

fn u8_affine(b: &Bench) {
    let (n, scale, zero) = (256, 0.007f32, 100f32);
    let x = floats(2, n);
    let (px, out, back) = (b.upload(&x), b.zeros::<u8>(n), b.zeros::<f32>(n));
    b.run("u8_affine", 1, n as u32 / 4, args![px, out, back, scale, zero]);
    let want: Vec<u8> = x.iter().map(|x| ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8).collect();
    same(&b.download::<u8>(out, n), &want);
    same(&b.download::<f32>(back, n), &want.iter().map(|&level| (f32::from(level) - zero) * scale).collect::<Vec<_>>());
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Block4 {
    scale: u16,
    nibbles: [u8; 16],
}

impl Block4 {
    fn of(own: &[f32]) -> Block4 {
        let most = own.iter().fold(0f32, |most, x| if x.abs() > most.abs() { *x } else { most });
        let scale = most / -8.0;
        let inverse = if scale != 0.0 { 1.0 / scale } else { 0.0 };
        let nibble = |x: f32| ((x * inverse + 8.5) as u8).min(15);
        let nibbles = std::array::from_fn(|k| nibble(own[k]) | nibble(own[k + 16]) << 4);
        Block4 { scale: f16::from_f32(scale).to_bits(), nibbles }
    }

    fn level(&self, k: usize) -> i32 {
        i32::from(self.nibbles[k % 16] >> (k / 16 * 4) & 15) - 8
    }
}

fn int4_blocks(b: &Bench) {
    let x = floats(3, 64 * 32);
    let (px, out) = (b.upload(&x), b.zeros::<Block4>(64));
    b.run("int4_blocks", 1, 64, args![px, out]);
    same(&b.download::<Block4>(out, 64), &x.chunks(32).map(Block4::of).collect::<Vec<_>>());
}

fn int4_dot(b: &Bench) {
    let (rows, blocks) = (3, 70);
    let x = floats(4, rows * blocks * 32);
    let a: Vec<Block4> = x.chunks(32).map(Block4::of).collect();
    let y: Vec<i8> = noise(5, blocks * 32).into_iter().map(|x| x as i8).collect();
    let scales = floats(6, blocks);
    let out = b.zeros::<f32>(rows);
    let args = args![b.upload(&a), b.upload(&y), b.upload(&scales), out, blocks as i32];
    b.run("int4_dot", rows as u32, b.wave() as u32, args);
    let term = |row: usize, n: usize| {
        let block = &a[row * blocks + n];
        let dot: i32 = (0..32).map(|k| block.level(k) * i32::from(y[n * 32 + k])).sum();
        f64::from(dot) * f16::from_bits(block.scale).to_f64() * f64::from(scales[n])
    };
    let want: Vec<f64> = (0..rows).map(|row| (0..blocks).map(|n| term(row, n)).sum()).collect();
    let size: f64 = (0..blocks).map(|n| term(0, n).abs()).sum();
    close(&b.download::<f32>(out, rows), &want, 1e-6, size);
}

/// An 8-bit float: bits of exponent, and whether it is AMD's own kind, whose bias is one larger.
#[derive(Clone, Copy)]
pub struct Kind {
    pub exponent_bits: u32,
    pub own: bool,
}

impl Kind {
    /// The value of a byte; `None` for infinities and NaN.
    fn decode(self, byte: u8) -> Option<f64> {
        let mantissa_bits = 7 - self.exponent_bits;
        let (exponent, mantissa) =
            (i32::from(byte & 0x7f) >> mantissa_bits, i32::from(byte) & ((1 << mantissa_bits) - 1));
        let top = (1 << self.exponent_bits) - 1;
        let special = match (self.own, self.exponent_bits) {
            (true, _) => byte == 0x80,
            (false, 4) => byte & 0x7f == 0x7f,
            (false, _) => exponent == top,
        };
        let bias = (1 << (self.exponent_bits - 1)) - i32::from(!self.own);
        let one = 1 << mantissa_bits;
        let (whole, exponent) = if exponent == 0 { (mantissa, 1) } else { (one + mantissa, exponent) };
        let size = f64::from(whole) * 2f64.powi(exponent - bias - mantissa_bits as i32);
        (!special).then_some(if byte & 0x80 != 0 { -size } else { size })
    }

    /// The byte nearest to `x`, ties to the even one, and no further than the largest.
    pub fn encode(self, x: f32) -> u8 {
        let size = f64::from(x.abs());
        let distance = |byte: u8| self.decode(byte).map(|value| ((value - size).abs(), byte & 1, byte));
        let best = (0..128).filter_map(distance).min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap().2;
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        // AMD's own kind has no negative zero.
        if self.own && best == 0 { 0 } else { best | sign }
    }
}

fn fp8(b: &Bench) {
    let n = 256;
    // From what is rounded to zero up to two thirds of the largest number; beyond it modes differ.
    let x: Vec<f32> = floats(7, n).into_iter().enumerate().map(|(i, x)| x * 2f32.powi(i as i32 % 19 - 11)).collect();
    let own = b.arch().fp8 == Fp8::Fnuz;
    let (px, fp, bf) = (b.upload(&x), b.zeros::<u8>(n), b.zeros::<u8>(n));
    let (fp_back, bf_back) = (b.zeros::<f32>(n), b.zeros::<f32>(n));
    b.run("fp8", 1, n as u32 / 4, args![px, fp, bf, fp_back, bf_back]);
    for (exponent_bits, bytes, back) in [(4, fp, fp_back), (5, bf, bf_back)] {
        let kind = Kind { exponent_bits, own };
        let want: Vec<u8> = x.iter().map(|&x| kind.encode(x)).collect();
        same(&b.download::<u8>(bytes, n), &want);
        same(
            &b.download::<f32>(back, n),
            &want.iter().map(|&byte| kind.decode(byte).unwrap() as f32).collect::<Vec<_>>(),
        );
    }
}

fn e4m3_by_bits(b: &Bench) {
    let n = 256;
    let mut x: Vec<f32> =
        floats(8, n).into_iter().enumerate().map(|(i, x)| x * 2f32.powi(i as i32 % 24 - 13)).collect();
    x[..4].copy_from_slice(&[1e9, -450.0, f32::INFINITY, 0.0]);
    let (px, out) = (b.upload(&x), b.zeros::<u8>(n));
    b.run("e4m3_by_bits", 2, n as u32 / 2, args![px, out]);
    let kind = Kind { exponent_bits: 4, own: false };
    same(&b.download::<u8>(out, n), &x.iter().map(|&x| kind.encode(x.clamp(-448.0, 448.0))).collect::<Vec<_>>());
}

fn mxfp4(b: &Bench) {
    let blocks = 64;
    let x: Vec<f32> =
        floats(9, blocks * 32).into_iter().enumerate().map(|(i, x)| x * 2f32.powi((i / 32) as i32 - 30)).collect();
    let (px, exponents, words) = (b.upload(&x), b.zeros::<u8>(blocks), b.zeros::<u32>(4 * blocks));
    b.run("mxfp4", 1, blocks as u32, args![px, exponents, words]);
    let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let exponent = |own: &[f32]| {
        let most = own.iter().fold(0f32, |most, x| most.max(x.abs()));
        ((most.to_bits() >> 23) as i32 - 2).max(0)
    };
    let code = |x: f64| {
        let near = |k: usize| ((magnitudes[k] - x.abs()).abs(), k & 1, k);
        let best = (0..8).map(near).min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap().2 as u32;
        best | u32::from(x.is_sign_negative()) << 3
    };
    let word =
        |(own, scale): (&[f32], f64)| own.iter().rev().fold(0, |word, &x| word << 4 | code(f64::from(x) / scale));
    let scale = |own: &[f32]| 2f64.powi(exponent(own) - 127);
    let want: Vec<u32> =
        x.chunks(32).flat_map(|own| own.chunks(8).map(move |eight| (eight, scale(own)))).map(word).collect();
    same(&b.download::<u8>(exponents, blocks), &x.chunks(32).map(|own| exponent(own) as u8).collect::<Vec<_>>());
    same(&b.download::<u32>(words, 4 * blocks), &want);
}

fn ternary(b: &Bench) {
    let x = floats(10, 5 * 128);
    let (px, out) = (b.upload(&x), b.zeros::<u8>(128));
    b.run("ternary", 1, 128, args![px, out, 0.3f32]);
    let digit = |x: &f32| if *x > 0.3 { 2 } else { u8::from(*x >= -0.3) };
    let byte = |five: &[f32]| five.iter().rev().fold(0u8, |byte, x| byte * 3 + digit(x));
    same(&b.download::<u8>(out, 128), &x.chunks(5).map(byte).collect::<Vec<_>>());
}

fn stochastic(b: &Bench) {
    let (x, chance) = (floats(11, 128), below(12, 128, u32::MAX));
    let (px, pc, out) = (b.upload(&x), b.upload(&chance), b.zeros::<u16>(128));
    b.run("stochastic", 2, 64, args![px, pc, out]);
    let of = |(x, chance): (&f32, &u32)| {
        let bits = x.to_bits();
        let up = (bits & 0xffff) + (chance & 0xffff) > 0xffff;
        (bits >> 16) as u16 + u16::from(up)
    };
    same(&b.download::<u16>(out, 128), &x.iter().zip(&chance).map(of).collect::<Vec<_>>());
}
