//! Blocks of GGUF's quantised types, and what they stand for, decoded weight by weight as the format says.

use half::f16;

use crate::harness::noise;

pub const TYPES: [&str; 10] = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"];

/// Weights and bytes of a block.
pub fn block(name: &str) -> (usize, usize) {
    match name {
        "q4_0" => (32, 18),
        "q4_1" => (32, 20),
        "q5_0" => (32, 22),
        "q5_1" => (32, 24),
        "q8_0" => (32, 34),
        "q2_K" => (256, 84),
        "q3_K" => (256, 110),
        "q4_K" => (256, 144),
        "q5_K" => (256, 176),
        "q6_K" => (256, 210),
        "q8_K" => (256, 292),
        _ => panic!("no type {name}"),
    }
}

/// Where the scales of a block are: f16 each, made small so that products stay of the size of 1.
fn scales(name: &str) -> &'static [usize] {
    match name {
        "q4_0" | "q5_0" | "q8_0" => &[0],
        "q4_1" | "q5_1" | "q4_K" | "q5_K" => &[0, 2],
        "q2_K" => &[80, 82],
        "q3_K" => &[108],
        "q6_K" => &[208],
        _ => &[],
    }
}

/// Blocks of random bits with scales of numbers.
pub fn blocks(name: &str, count: usize, seed: u64) -> Vec<u8> {
    let (_, bytes) = block(name);
    let mut data: Vec<u8> = noise(count * bytes, seed).into_iter().map(|x| ((x + 1.0) * 128.0) as u8).collect();
    for (number, block) in data.chunks_exact_mut(bytes).enumerate() {
        for &at in scales(name) {
            let scale = f16::from_f32(0.01 + 0.003 * (number % 7) as f32).to_le_bytes();
            block[at..at + 2].copy_from_slice(&scale);
        }
        if name == "q8_K" {
            block[..4].copy_from_slice(&(0.01 + 0.001 * number as f32).to_le_bytes());
        }
    }
    data
}

fn half(block: &[u8], at: usize) -> f64 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f64()
}

fn bit(byte: u8, at: usize) -> f64 {
    f64::from(byte >> at & 1)
}

/// The six-bit scale and least value of group `group` of eight.
fn scale_and_least(packed: &[u8], group: usize) -> (f64, f64) {
    let (scale, least) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let rest = packed[group + 4];
        (rest & 15 | packed[group - 4] >> 6 << 4, rest >> 4 | packed[group] >> 6 << 4)
    };
    (f64::from(scale), f64::from(least))
}

/// Weight number `n` of a block.
fn weight(name: &str, block: &[u8], n: usize) -> f64 {
    let nibble = |byte: u8, high: bool| f64::from(if high { byte >> 4 } else { byte & 15 });
    let two = |byte: u8, at: usize| f64::from(byte >> at & 3);
    // The chunk of 128, the group of 32 in it, and the place in the group.
    let (chunk, group, place) = (n / 128, n % 128 / 32, n % 32);
    match name {
        "q4_0" => half(block, 0) * (nibble(block[2 + n % 16], n >= 16) - 8.0),
        "q4_1" => half(block, 0) * nibble(block[4 + n % 16], n >= 16) + half(block, 2),
        "q5_0" => half(block, 0) * (nibble(block[6 + n % 16], n >= 16) + 16.0 * bit(block[2 + n / 8], n % 8) - 16.0),
        "q5_1" => {
            half(block, 0) * (nibble(block[8 + n % 16], n >= 16) + 16.0 * bit(block[4 + n / 8], n % 8)) + half(block, 2)
        }
        "q8_0" => half(block, 0) * f64::from(block[2 + n] as i8),
        "q2_K" => {
            let scale = block[n / 16];
            half(block, 80) * f64::from(scale & 15) * two(block[16 + 32 * chunk + place], 2 * group)
                - half(block, 82) * f64::from(scale >> 4)
        }
        "q3_K" => {
            let packed = &block[96..108];
            let at = n / 16;
            let low = if at < 8 { packed[at] & 15 } else { packed[at - 8] >> 4 };
            let scale = f64::from(low | (packed[8 + at % 4] >> (2 * (at / 4)) & 3) << 4) - 32.0;
            let code =
                two(block[32 + 32 * chunk + place], 2 * group) + 4.0 * bit(block[place], 4 * chunk + group) - 4.0;
            half(block, 108) * scale * code
        }
        "q4_K" => {
            let (scale, least) = scale_and_least(&block[4..16], n / 32);
            half(block, 0) * scale * nibble(block[16 + 32 * (n / 64) + place], n % 64 >= 32) - half(block, 2) * least
        }
        "q5_K" => {
            let (scale, least) = scale_and_least(&block[4..16], n / 32);
            let code = nibble(block[48 + 32 * (n / 64) + place], n % 64 >= 32) + 16.0 * bit(block[16 + place], n / 32);
            half(block, 0) * scale * code - half(block, 2) * least
        }
        "q6_K" => {
            let low = nibble(block[64 * chunk + n % 64], group >= 2);
            let code = low + 16.0 * two(block[128 + 32 * chunk + place], 2 * group) - 32.0;
            half(block, 208) * f64::from(block[192 + n / 16] as i8) * code
        }
        "q8_K" => {
            let scale = f32::from_le_bytes(block[..4].try_into().unwrap());
            f64::from(scale) * f64::from(block[4 + n] as i8)
        }
        _ => panic!("no type {name}"),
    }
}

/// All weights of blocks.
pub fn decoded(name: &str, data: &[u8]) -> Vec<f64> {
    let (size, bytes) = block(name);
    data.chunks_exact(bytes).flat_map(|block| (0..size).map(move |n| weight(name, block, n))).collect()
}

/// What rounding activations to int8 with a scale per 32 makes of them: codes and scales, row by row of `padded`.
pub fn quantised(x: &[f64], columns: usize, padded: usize) -> (Vec<i8>, Vec<f64>) {
    let (mut codes, mut scales) = (Vec::new(), Vec::new());
    for row in x.chunks_exact(columns) {
        let row: Vec<f64> = row.iter().copied().chain(std::iter::repeat(0.0)).take(padded).collect();
        for group in row.chunks_exact(32) {
            let most = group.iter().fold(0.0f32, |most, x| most.max((*x as f32).abs()));
            let scale = f16::from_f32(most * (1.0 / 127.0)).to_f32();
            scales.push(f64::from(scale));
            let code = |x: f64| if scale > 0.0 { (x as f32 / scale).round().clamp(-127.0, 127.0) } else { 0.0 };
            codes.extend(group.iter().map(|&x| code(x) as i8));
        }
    }
    (codes, scales)
}

/// Rows of activations as the kernels lay them out.
pub fn packed(codes: &[i8], scales: &[f64], padded: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (codes, scales) in codes.chunks_exact(padded).zip(scales.chunks_exact(padded / 32)) {
        bytes.extend(codes.iter().map(|&code| code as u8));
        for (codes, &scale) in codes.chunks_exact(32).zip(scales) {
            bytes.extend(f16::from_f64(scale).to_le_bytes());
            bytes.extend(codes.iter().map(|&code| i16::from(code)).sum::<i16>().to_le_bytes());
        }
    }
    bytes
}

/// The product of weights [outputs, columns] and rows of activations of `padded` elements each, row by row.
pub fn product(weights: &[f64], x: &[f64], columns: usize, padded: usize) -> Vec<f64> {
    let dot = |line: &[f64], row: &[f64]| line.iter().zip(row).map(|(w, x)| w * x).sum::<f64>();
    x.chunks_exact(padded).flat_map(|row| weights.chunks_exact(columns).map(move |line| dot(line, row))).collect()
}

/// Activations as their codes and scales stand for them.
pub fn restored(codes: &[i8], scales: &[f64]) -> Vec<f64> {
    codes.iter().enumerate().map(|(at, &code)| f64::from(code) * scales[at / 32]).collect()
}
