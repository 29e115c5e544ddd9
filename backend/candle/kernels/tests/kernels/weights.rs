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

/// What is added to all of 32 weights' scaled codes and multiplied with the activations' sum; 0 for types without.
fn offset(name: &str, block: &[u8], n: usize) -> f64 {
    match name {
        "q4_0" => -8.0 * half(block, 0),
        "q5_0" => -16.0 * half(block, 0),
        "q4_1" | "q5_1" => half(block, 2),
        "q4_K" | "q5_K" => -half(block, 2) * scale_and_least(&block[4..16], n / 32).1,
        _ => 0.0,
    }
}

/// What a product gains where the sum of 32 activations is `more` than that of their codes, by rows and groups of 32, row by
/// row of as many as `padded` has.
pub fn gained(name: &str, data: &[u8], columns: usize, more: &[f64], padded: usize) -> Vec<f64> {
    let (size, bytes) = block(name);
    let groups = |line: &[u8]| -> Vec<f64> {
        line.chunks_exact(bytes).flat_map(|block| (0..size).step_by(32).map(move |n| offset(name, block, n))).collect()
    };
    let lines: Vec<f64> = data.chunks_exact(columns / size * bytes).flat_map(groups).collect();
    product(&lines, more, columns / 32, padded / 32)
}

/// How much the sums are more than those of the codes.
pub fn more(codes: &[i8], scales: &[f64], sums: &[i16]) -> Vec<f64> {
    let own = |codes: &[i8]| codes.iter().map(|&code| f64::from(code)).sum::<f64>();
    let each = codes.chunks_exact(32).zip(scales).zip(sums);
    each.map(|((codes, scale), &sum)| scale * (f64::from(sum) / 8.0 - own(codes))).collect()
}

/// All weights of blocks.
pub fn decoded(name: &str, data: &[u8]) -> Vec<f64> {
    let (size, bytes) = block(name);
    data.chunks_exact(bytes).flat_map(|block| (0..size).map(move |n| weight(name, block, n))).collect()
}

/// A sum of 32 as lanes take it.
fn tree(mut x: Vec<f32>) -> f32 {
    while x.len() > 1 {
        x = x.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
    }
    x[0]
}

/// A group of 32 numbers as codes and a scale, and the sum of the numbers in eighths of it.
fn quantised_group(group: &[f64]) -> ([i8; 32], f32, i16) {
    let most = group.iter().fold(0.0f32, |most, x| most.max((*x as f32).abs())) * (1.0 / 127.0);
    let mut scale = f16::from_f32(most);
    if scale.to_f32() < most {
        scale = f16::from_bits(scale.to_bits() + 1);
    }
    let scale = scale.to_f32();
    let exact: Vec<f32> = group.iter().map(|&x| if scale > 0.0 { x as f32 / scale } else { 0.0 }).collect();
    let mut codes: Vec<f32> = exact.iter().map(|x| x.round()).collect();
    let left: Vec<f32> = exact.iter().zip(&codes).map(|(exact, code)| exact - code).collect();
    let (all_left, sum) = (tree(left.clone()), codes.iter().sum::<f32>());
    let step = all_left.signum();
    let mut order: Vec<usize> = (0..32).collect();
    order.sort_by(|&a, &b| (step * left[b]).total_cmp(&(step * left[a])).then(a.cmp(&b)));
    for &at in &order[..all_left.round().abs() as usize] {
        codes[at] += step;
    }
    let codes = std::array::from_fn(|at| codes[at] as i8);
    (codes, scale, (8.0 * sum + (8.0 * all_left).round()) as i16)
}

/// What rounding activations to int8 with a scale per 32 makes of them: codes and scales, row by row of `padded`, and the
/// groups' sums.
pub fn quantised_with_sums(x: &[f64], columns: usize, padded: usize) -> (Vec<i8>, Vec<f64>, Vec<i16>) {
    let (mut codes, mut scales, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for row in x.chunks_exact(columns) {
        let row: Vec<f64> = row.iter().copied().chain(std::iter::repeat(0.0)).take(padded).collect();
        for group in row.chunks_exact(32) {
            let (group, scale, sum) = quantised_group(group);
            codes.extend(group);
            scales.push(f64::from(scale));
            sums.push(sum);
        }
    }
    (codes, scales, sums)
}

/// Codes and scales alone, whose sums are those of the codes.
pub fn quantised(x: &[f64], columns: usize, padded: usize) -> (Vec<i8>, Vec<f64>) {
    let (codes, scales, _) = quantised_with_sums(x, columns, padded);
    (codes, scales)
}

/// Rows of activations as the kernels lay them out, for numbers that are what their codes stand for.
pub fn packed(codes: &[i8], scales: &[f64], padded: usize) -> Vec<u8> {
    let sum = |codes: &[i8]| 8 * codes.iter().map(|&code| i16::from(code)).sum::<i16>();
    let sums: Vec<i16> = codes.chunks_exact(32).map(sum).collect();
    packed_with_sums(codes, scales, &sums, padded)
}

/// Rows of activations as the kernels lay them out.
pub fn packed_with_sums(codes: &[i8], scales: &[f64], sums: &[i16], padded: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let groups = scales.chunks_exact(padded / 32).zip(sums.chunks_exact(padded / 32));
    for (codes, (scales, sums)) in codes.chunks_exact(padded).zip(groups) {
        bytes.extend(codes.iter().map(|&code| code as u8));
        for (&scale, sum) in scales.iter().zip(sums) {
            bytes.extend(f16::from_f64(scale).to_le_bytes());
            bytes.extend(sum.to_le_bytes());
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
