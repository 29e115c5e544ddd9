//! Every dense shape against the layout formulas of AMD's calculator, applied element by element.

use crate::exec::valu::tests::{levels, program, run};
use crate::numeric::tests_support::Random;
use crate::numeric::{Float8, f32_to_f16, f32_to_float8};
use crate::wave::{LANES, Wave};

/// A source type, for making small integers of it.
#[derive(Clone, Copy, PartialEq)]
enum Type {
    F32,
    F16,
    Bf16,
    Fp8,
    Bf8,
    I8,
    F64,
}

impl Type {
    fn bits(self) -> usize {
        match self {
            Type::F64 => 64,
            Type::F32 => 32,
            Type::F16 | Type::Bf16 => 16,
            Type::Fp8 | Type::Bf8 | Type::I8 => 8,
        }
    }

    fn encode(self, x: i32) -> u64 {
        let value = x as f32;
        match self {
            Type::F64 => f64::from(x).to_bits(),
            Type::F32 => value.to_bits().into(),
            Type::F16 => f32_to_f16(value).into(),
            Type::Bf16 => u64::from(value.to_bits() >> 16),
            Type::Fp8 => f32_to_float8(Float8::E4M3, value, false).into(),
            Type::Bf8 => f32_to_float8(Float8::E5M2, value, false).into(),
            Type::I8 => u64::from(x as i8 as u8),
        }
    }
}

/// `v_mfma_f32_4x4x1_16b_f32 v[0:3], v64, v66, v[0:3] cbsz:2 abid:3`
const CBSZ: [u32; 2] = [0xd3c21a00, 0x04028540];
/// `v_mfma_f32_4x4x1_16b_f32 v[0:3], v64, v66, v[0:3]`
const BLGP: [u32; 2] = [0xd3c20000, 0x04028540];
/// `v_mfma_f64_4x4x4_4b_f64 v[0:1], v[64:65], v[66:67], v[8:9] neg:[1,0,1]`
const NEGATED: [u32; 2] = [0xd3ef0000, 0xa4228540];

type Place = fn(usize, usize, usize) -> (usize, usize, usize);

/// One shape: words with A in v[64:], B in v[66:], C and D in v[0:], and the calculator's formulas. `source(row, k, block)`
/// is `(register, lowest bit, lane)` of A, and of B with the column for the row; `result(row, column, block)` is
/// `(register, 0, lane)` of D.
struct Shape {
    words: [u32; 2],
    a: Type,
    b: Type,
    m: usize,
    k: usize,
    blocks: usize,
    source: Place,
    result: Place,
}

fn d_32x32(i: usize, j: usize, block: usize) -> (usize, usize, usize) {
    (16 * block + 4 * (i / 8) + i % 4, 0, (32 * (i / 4)) % 64 + j)
}

fn d_16x16(i: usize, j: usize, block: usize) -> (usize, usize, usize) {
    (4 * block + i % 4, 0, 16 * (i / 4) + j)
}

fn d_4x4(i: usize, j: usize, block: usize) -> (usize, usize, usize) {
    (i, 0, 4 * block + j)
}

/// The rows of AMD's table.
fn shapes() -> Vec<Shape> {
    use Type::*;
    let mut shapes = Vec::new();
    let mut add = |words, a, b, [m, k, blocks]: [usize; 3], source: Place| {
        let result: Place = match (a, m) {
            (F64, 16) => |i, j, _| (2 * (i / 4), 0, 16 * (i % 4) + j),
            (F64, _) => |i, j, block| (0, 0, 16 * (i % 4) + 4 * block + j),
            (_, 32) => d_32x32,
            (_, 16) => d_16x16,
            _ => d_4x4,
        };
        shapes.push(Shape { words, a, b, m, k, blocks, source, result });
    };
    // v_mfma_f32_16x16x8_xf32
    add([0xd3be0000, 0x04028540], F32, F32, [16, 8, 1], |i, k, _| (k % 2, 0, 16 * (k / 2) + i));
    // v_mfma_f32_32x32x4_xf32
    add([0xd3bf0000, 0x04028540], F32, F32, [32, 4, 1], |i, k, _| (k % 2, 0, 32 * (k / 2) + i));
    // v_mfma_f32_32x32x1_2b_f32
    add([0xd3c00000, 0x04028540], F32, F32, [32, 1, 2], |i, _, block| (0, 0, 32 * block + i));
    // v_mfma_f32_16x16x1_4b_f32
    add([0xd3c10000, 0x04028540], F32, F32, [16, 1, 4], |i, _, block| (0, 0, 16 * block + i));
    // v_mfma_f32_4x4x1_16b_f32
    add([0xd3c20000, 0x04028540], F32, F32, [4, 1, 16], |i, _, block| (0, 0, 4 * block + i));
    // v_mfma_f32_32x32x2_f32
    add([0xd3c40000, 0x04028540], F32, F32, [32, 2, 1], |i, k, _| (0, 0, 32 * k + i));
    // v_mfma_f32_16x16x4_f32
    add([0xd3c50000, 0x04028540], F32, F32, [16, 4, 1], |i, k, _| (0, 0, 16 * k + i));
    // v_mfma_f32_32x32x4_2b_f16
    add([0xd3c80000, 0x04028540], F16, F16, [32, 4, 2], |i, k, block| (k / 2, 16 * (k % 2), 32 * block + i));
    // v_mfma_f32_16x16x4_4b_f16
    add([0xd3c90000, 0x04028540], F16, F16, [16, 4, 4], |i, k, block| (k / 2, 16 * (k % 2), 16 * block + i));
    // v_mfma_f32_4x4x4_16b_f16
    add([0xd3ca0000, 0x04028540], F16, F16, [4, 4, 16], |i, k, block| (k / 2, 16 * (k % 2), 4 * block + i));
    // v_mfma_f32_32x32x8_f16
    add([0xd3cc0000, 0x04028540], F16, F16, [32, 8, 1], |i, k, _| (k / 2 % 2, 16 * (k % 2), 32 * (k / 4) + i));
    // v_mfma_f32_16x16x16_f16
    add([0xd3cd0000, 0x04028540], F16, F16, [16, 16, 1], |i, k, _| (k / 2 % 2, 16 * (k % 2), 16 * (k / 4) + i));
    // v_mfma_i32_32x32x4_2b_i8
    add([0xd3d00000, 0x04028540], I8, I8, [32, 4, 2], |i, k, block| (0, 8 * k, 32 * block + i));
    // v_mfma_i32_16x16x4_4b_i8
    add([0xd3d10000, 0x04028540], I8, I8, [16, 4, 4], |i, k, block| (0, 8 * k, 16 * block + i));
    // v_mfma_i32_4x4x4_16b_i8
    add([0xd3d20000, 0x04028540], I8, I8, [4, 4, 16], |i, k, block| (0, 8 * k, 4 * block + i));
    // v_mfma_i32_32x32x16_i8
    add([0xd3d60000, 0x04028540], I8, I8, [32, 16, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 32 * (k / 8) + i));
    // v_mfma_i32_16x16x32_i8
    add([0xd3d70000, 0x04028540], I8, I8, [16, 32, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 16 * (k / 8) + i));
    // v_mfma_f32_32x32x4_2b_bf16
    add([0xd3dd0000, 0x04028540], Bf16, Bf16, [32, 4, 2], |i, k, block| (k / 2, 16 * (k % 2), 32 * block + i));
    // v_mfma_f32_16x16x4_4b_bf16
    add([0xd3de0000, 0x04028540], Bf16, Bf16, [16, 4, 4], |i, k, block| (k / 2, 16 * (k % 2), 16 * block + i));
    // v_mfma_f32_4x4x4_16b_bf16
    add([0xd3df0000, 0x04028540], Bf16, Bf16, [4, 4, 16], |i, k, block| (k / 2, 16 * (k % 2), 4 * block + i));
    // v_mfma_f32_32x32x8_bf16
    add([0xd3e00000, 0x04028540], Bf16, Bf16, [32, 8, 1], |i, k, _| (k / 2 % 2, 16 * (k % 2), 32 * (k / 4) + i));
    // v_mfma_f32_16x16x16_bf16
    add([0xd3e10000, 0x04028540], Bf16, Bf16, [16, 16, 1], |i, k, _| (k / 2 % 2, 16 * (k % 2), 16 * (k / 4) + i));
    // v_mfma_f64_16x16x4_f64
    add([0xd3ee0000, 0x04028540], F64, F64, [16, 4, 1], |i, k, _| (0, 0, 16 * k + i));
    // v_mfma_f64_4x4x4_4b_f64
    add([0xd3ef0000, 0x04028540], F64, F64, [4, 4, 4], |i, k, block| (0, 0, 4 * block + 16 * k + i));
    // v_mfma_f32_16x16x32_bf8_bf8
    add([0xd3f00000, 0x04028540], Bf8, Bf8, [16, 32, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 16 * (k / 8) + i));
    // v_mfma_f32_16x16x32_bf8_fp8
    add([0xd3f10000, 0x04028540], Bf8, Fp8, [16, 32, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 16 * (k / 8) + i));
    // v_mfma_f32_16x16x32_fp8_bf8
    add([0xd3f20000, 0x04028540], Fp8, Bf8, [16, 32, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 16 * (k / 8) + i));
    // v_mfma_f32_16x16x32_fp8_fp8
    add([0xd3f30000, 0x04028540], Fp8, Fp8, [16, 32, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 16 * (k / 8) + i));
    // v_mfma_f32_32x32x16_bf8_bf8
    add([0xd3f40000, 0x04028540], Bf8, Bf8, [32, 16, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 32 * (k / 8) + i));
    // v_mfma_f32_32x32x16_bf8_fp8
    add([0xd3f50000, 0x04028540], Bf8, Fp8, [32, 16, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 32 * (k / 8) + i));
    // v_mfma_f32_32x32x16_fp8_bf8
    add([0xd3f60000, 0x04028540], Fp8, Bf8, [32, 16, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 32 * (k / 8) + i));
    // v_mfma_f32_32x32x16_fp8_fp8
    add([0xd3f70000, 0x04028540], Fp8, Fp8, [32, 16, 1], |i, k, _| (k / 4 % 2, 8 * (k % 4), 32 * (k / 8) + i));
    shapes
}

fn put(w: &mut Wave, first: usize, (register, bit, lane): (usize, usize, usize), bits: usize, value: u64) {
    let mut write = |register: usize, bits: usize, value: u32| {
        let mask = if bits == 32 { u32::MAX } else { ((1 << bits) - 1) << bit };
        let dword = &mut w.v[register].0[lane];
        *dword = *dword & !mask | value << bit & mask;
    };
    write(first + register, bits.min(32), value as u32);
    if bits == 64 {
        write(first + register + 1, 32, (value >> 32) as u32);
    }
}

/// Fills A, B and C with small integers, whose products and sums are exact in every type.
fn check(shape: &Shape, random: &mut Random) {
    let Shape { m, k, blocks, .. } = *shape;
    let mut small = || (random.next() % 9) as i32 - 4;
    let a: Vec<i32> = (0..m * k * blocks).map(|_| small()).collect();
    let b: Vec<i32> = (0..m * k * blocks).map(|_| small()).collect();
    let c: Vec<i32> = (0..m * m * blocks).map(|_| small()).collect();
    let accumulator = if shape.a == Type::F64 { Type::F64 } else { Type::F32 };
    let encode = |x: i32| if shape.a == Type::I8 { u64::from(x as u32) } else { accumulator.encode(x) };
    let mut start = Wave::new();
    for block in 0..blocks {
        for row in 0..m {
            for depth in 0..k {
                let at = (block * m + row) * k + depth;
                put(&mut start, 64, (shape.source)(row, depth, block), shape.a.bits(), shape.a.encode(a[at]));
                put(&mut start, 66, (shape.source)(row, depth, block), shape.b.bits(), shape.b.encode(b[at]));
            }
            for column in 0..m {
                let value = encode(c[(block * m + row) * m + column]);
                put(&mut start, 0, (shape.result)(row, column, block), accumulator.bits(), value);
            }
        }
    }
    for level in levels() {
        let mut w = Wave::new();
        w.v.copy_from_slice(&start.v[..]);
        run(&program(level, &shape.words), &mut w).unwrap();
        for block in 0..blocks {
            for row in 0..m {
                for column in 0..m {
                    let dot: i32 = (0..k).map(|d| a[(block * m + row) * k + d] * b[(block * m + column) * k + d]).sum();
                    let want = encode(c[(block * m + row) * m + column] + dot);
                    let (register, _, lane) = (shape.result)(row, column, block);
                    let got = if accumulator == Type::F64 {
                        u64::from(w.v[register + 1].0[lane]) << 32 | u64::from(w.v[register].0[lane])
                    } else {
                        w.v[register].0[lane].into()
                    };
                    // The encodings of -0 and 0 cannot differ: sums of integers are never -0.
                    assert_eq!(got, want, "{:08x?} block {block} row {row} column {column} at {level:?}", shape.words);
                }
            }
        }
    }
}

#[test]
fn every_dense_shape_follows_the_published_layout() {
    let mut random = Random::new(12);
    let shapes = shapes();
    assert_eq!(shapes.len(), 32);
    for shape in &shapes {
        check(shape, &mut random);
    }
}

/// Lane `lane` of an instruction of 16 blocks of 4 × 4 × 1 or a single value per lane.
fn one_value(words: [u32; 2], fill: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let mut w = Wave::new();
    for lane in 0..LANES {
        w.v[64].0[lane] = fill(0, lane).to_bits();
        w.v[66].0[lane] = fill(1, lane).to_bits();
    }
    run(&program(levels()[0], &words), &mut w).unwrap();
    (0..4).flat_map(|r| w.v[r].0.map(f32::from_bits)).collect()
}

#[test]
fn cbsz_and_abid_broadcast_a_block_of_a() {
    // 4x4x1_16b, cbsz:2 abid:3: blocks 0-3 use A of block 3, 4-7 of block 7, and so on.
    let d = one_value(CBSZ, |operand, lane| if operand == 0 { lane as f32 } else { 1.0 });
    for block in 0..16 {
        for i in 0..4 {
            let a = 4 * (block / 4 * 4 + 3) + i;
            assert_eq!(d[i * LANES + 4 * block], a as f32);
        }
    }
}

#[test]
fn blgp_moves_lanes_of_b() {
    let sources: [fn(usize) -> usize; 8] = [
        |lane| lane,
        |lane| lane % 32,
        |lane| 32 + lane % 32,
        |lane| (lane + 16) % 64,
        |lane| lane % 16,
        |lane| 16 + lane % 16,
        |lane| 32 + lane % 16,
        |lane| 48 + lane % 16,
    ];
    for (blgp, source) in sources.into_iter().enumerate() {
        let d = one_value(
            [BLGP[0], BLGP[1] | (blgp as u32) << 29],
            |operand, lane| if operand == 1 { lane as f32 } else { 1.0 },
        );
        for lane in 0..LANES {
            assert_eq!(d[lane], source(lane) as f32, "blgp {blgp} lane {lane}");
        }
    }
}

#[test]
fn f64_blgp_negates_and_denormals_and_nans_are_as_documented() {
    let mut w = Wave::new();
    for lane in 0..LANES {
        w.v[65].0[lane] = 0x4000_0000;
        w.v[67].0[lane] = 0x4008_0000;
        w.v[9].0[lane] = 0x3ff0_0000;
    }
    // 4 products of 2 and 3, A and C negated, plus 1: -24 - 1.
    run(&program(levels()[0], &NEGATED), &mut w).unwrap();
    assert_eq!(w.v[1].0[7], (-25f64).to_bits().wrapping_shr(32) as u32);

    let d = one_value(BLGP, |operand, lane| match (operand, lane) {
        (0, _) => f32::from_bits(0x0000_0001),
        (_, 5) => f32::from_bits(0xff80_0001),
        _ => 1.0,
    });
    assert_eq!(d[0].to_bits(), 1, "denormals are kept");
    assert_eq!(d[5].to_bits(), 0x7fc0_0000, "NaN is the default NaN");
}
