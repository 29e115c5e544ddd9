//! Every dense shape of every architecture against the layout formulas of AMD's calculator, element by element, and its
//! arithmetic against exact sums.

use rocfire_arch::Arch;
use rocfire_isa::WaveSize;

use crate::exec::matrix_table::{Exact, Row, Type, decode, env, put, rows};
use crate::exec::valu::tests::{levels, program, run};
use crate::numeric::tests_support::Random;
use crate::numeric::{Float8, float8_to_f32};
use crate::step::{Flow, Level, MicroOp};
use crate::wave::{LANES, Wave};

/// The table's rows with MFMA.
fn instructions() -> Vec<Row> {
    rows().into_iter().filter(|row| row.name.starts_with("v_mfma")).collect()
}

/// The last and the first level: what lies between runs the same code.
fn ends() -> Vec<Level> {
    let all = levels();
    if all.len() > 1 { vec![all[0], all[all.len() - 1]] } else { all }
}

/// What `D[i][j]` must be, and is.
fn expect(row: &Row, w: &Wave, (i, j, block): (usize, usize, usize), want: f64, what: &str) {
    let (got, want) = (row.d_bits(w, i, j, block), row.types[2].encode(want));
    assert_eq!(got, want, "{} on {}: {what}, row {i} column {j} block {block}", row.name, row.arch);
}

#[test]
fn every_element_lies_where_the_calculator_says() {
    let mut random = Random::new(21);
    let mut env = env();
    let instructions = instructions();
    assert_eq!(instructions.len(), 115);
    for row in &instructions {
        let (m, k, blocks) = (row.m, row.k, row.blocks);
        // Elements are numbered; one product shows one octal digit of the numbers in one column of A or one row of B.
        let digits = (usize::BITS - (m * k * blocks - 1).leading_zeros()).div_ceil(3).max(1);
        for depth in 0..k {
            for digit in 0..digits {
                let number = |ty: Type, line: usize, depth: usize, block: usize| {
                    ty.digit(((block * m + line) * k + depth) >> (3 * digit) & 7)
                };
                let one = |d: usize| f64::from(u8::from(d == depth));
                let [a_type, b_type, _] = row.types;
                let mut w = row.fill(&mut random, |i, d, b| number(a_type, i, d, b), |d, _, _| one(d), |_, _, _| 0.0);
                row.run(Level::detect(), &mut env, &mut w);
                let mut v = row.fill(&mut random, |_, d, _| one(d), |d, j, b| number(b_type, j, d, b), |_, _, _| 0.0);
                row.run(Level::detect(), &mut env, &mut v);
                for (block, i, j) in places(row) {
                    expect(row, &w, (i, j, block), number(a_type, i, depth, block), "A");
                    expect(row, &v, (i, j, block), number(b_type, j, depth, block), "B");
                }
            }
        }
        // C and D, with a number for each element.
        let number = |i: usize, j: usize, block: usize| ((block * m + i) * m + j) as f64;
        for level in levels() {
            let mut w = row.fill(&mut random, |_, _, _| 0.0, |_, _, _| 0.0, number);
            row.run(level, &mut env, &mut w);
            for (block, i, j) in places(row) {
                expect(row, &w, (i, j, block), number(i, j, block), "C");
            }
        }
    }
}

fn places(row: &Row) -> impl Iterator<Item = (usize, usize, usize)> {
    let m = row.m;
    (0..row.blocks * m * m).map(move |n| (n / (m * m), n / m % m, n % m))
}

#[test]
fn every_instruction_multiplies_matrices() {
    let mut random = Random::new(12);
    let mut env = env();
    for row in &instructions() {
        let (m, k, blocks) = (row.m, row.k, row.blocks);
        // Small integers: their products and sums are exact in every type.
        let mut small = |n: usize| -> Vec<f64> { (0..n).map(|_| (random.next() % 9) as f64 - 4.0).collect() };
        let (a, b, c) = (small(m * k * blocks), small(m * k * blocks), small(m * m * blocks));
        let a = |i: usize, d: usize, block: usize| a[(block * m + i) * k + d];
        let b = |d: usize, j: usize, block: usize| b[(block * m + j) * k + d];
        let c = |i: usize, j: usize, block: usize| c[(block * m + i) * m + j];
        for level in levels() {
            let mut w = row.fill(&mut Random::new(3), a, b, c);
            row.run(level, &mut env, &mut w);
            for (block, i, j) in places(row) {
                let dot: f64 = (0..k).map(|d| a(i, d, block) * b(d, j, block)).sum();
                expect(row, &w, (i, j, block), c(i, j, block) + dot, "product");
            }
        }
    }
}

/// A random value of the type with few enough digits that [`Exact`] holds all sums of products.
fn value(random: &mut Random, ty: Type) -> f64 {
    let digits = match ty {
        Type::F64 => 32,
        Type::F32 => 24,
        Type::Xf32 | Type::F16 => 11,
        Type::Bf16 => 8,
        Type::Float8(Float8::E4M3) => 4,
        Type::Float8(Float8::OcpE4M3 | Float8::E2M3) => 4,
        _ => 3,
    };
    let significand = 1 << (digits - 1) | random.next() & ((1 << (digits - 1)) - 1);
    let value = significand as f64 * 2f64.powi(-digits - (random.next() % 6) as i32);
    if random.next() & 1 == 0 { value } else { -value }
}

#[test]
fn sums_are_rounded_after_each_product_from_the_lowest_k_up() {
    let mut random = Random::new(99);
    let mut env = env();
    for row in instructions().iter().filter(|row| row.types[2] != Type::I32) {
        let (m, k, blocks) = (row.m, row.k, row.blocks);
        let accumulator = row.types[2];
        let mut values = |n: usize, ty: Type| -> Vec<f64> { (0..n).map(|_| value(&mut random, ty)).collect() };
        let a = values(m * k * blocks, row.types[0]);
        let b = values(m * k * blocks, row.types[1]);
        let c = values(m * m * blocks, accumulator);
        let digits = if accumulator == Type::F64 { 53 } else { 24 };
        for level in ends() {
            let mut w = row.fill(
                &mut Random::new(3),
                |i, d, block| a[(block * m + i) * k + d],
                |d, j, block| b[(block * m + j) * k + d],
                |i, j, block| c[(block * m + i) * m + j],
            );
            row.run(level, &mut env, &mut w);
            for (block, i, j) in places(row) {
                let mut sum = c[(block * m + i) * m + j];
                for d in 0..k {
                    let (x, y) = (a[(block * m + i) * k + d], b[(block * m + j) * k + d]);
                    // Products of two values of up to 32 digits need more than f64 has.
                    let split = (x * 2f64.powi(20)).trunc() * 2f64.powi(-20);
                    let product = Exact::new(split * y).add(Exact::new((x - split) * y));
                    sum = Exact::new(sum).add(product).round(digits);
                }
                expect(row, &w, (i, j, block), sum, "sum");
            }
        }
    }
}

/// `v_mfma_f32_4x4x1_16b_f32 v[0:3], v64, v66, v[0:3] cbsz:2 abid:3`
const CBSZ: [u32; 2] = [0xd3c21a00, 0x04028540];
/// `v_mfma_f32_4x4x1_16b_f32 v[0:3], v64, v66, v[0:3]`
const BLGP: [u32; 2] = [0xd3c20000, 0x04028540];
/// `v_mfma_f64_4x4x4_4b_f64 v[0:1], v[64:65], v[66:67], v[8:9] neg:[1,0,1]`
const NEGATED: [u32; 2] = [0xd3ef0000, 0xa4228540];

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

#[test]
fn gfx90a_flushes_denormals_of_16_bits_and_the_others_keep_them() {
    let mut random = Random::new(5);
    let mut env = env();
    for row in instructions() {
        if !matches!(row.types[0], Type::F16 | Type::Bf16) {
            continue;
        }
        let flushes = row.arch.name() == "gfx90a";
        let tiny = if row.types[0] == Type::F16 { 2f64.powi(-24) } else { 2f64.powi(-130) };
        let big = if row.types[0] == Type::F16 { 1024.0 } else { 2f64.powi(20) };
        // A denormal source; a denormal addend; a denormal result, 3·2^-127 - 2^-126 negated, of normal addends.
        let first = |d: usize, value: f64| if d == 0 { value } else { 0.0 };
        let near = 2f64.powi(-126);
        for (a, b, c, kept, flushed) in [(tiny, big, 0.0, tiny * big, 0.0), (0.0, 0.0, near / 2.0, near / 2.0, 0.0)] {
            for level in ends() {
                let mut w = row.fill(&mut random, |_, d, _| first(d, a), |d, _, _| first(d, b), |_, _, _| c);
                row.run(level, &mut env, &mut w);
                expect(&row, &w, (1, 2, 0), if flushes { flushed } else { kept }, "denormal");
            }
        }
        if row.types[0] == Type::Bf16 {
            // -1.5·2^-126 + 2^-126·1 = -2^-127.
            let mut w = row.fill(&mut random, |_, d, _| first(d, near), |d, _, _| first(d, 1.0), |_, _, _| -1.5 * near);
            row.run(Level::detect(), &mut env, &mut w);
            expect(&row, &w, (3, 0, 0), if flushes { -0.0 } else { -0.5 * near }, "denormal result");
        }
    }
}

#[test]
fn xf32_truncates_its_sources() {
    let mut env = env();
    for row in instructions().into_iter().filter(|row| row.types[0] == Type::Xf32) {
        // 1 + 2^-10 - 2^-23 has 10 mantissa bits of zero after truncation.
        let x = 1.0 + 2f64.powi(-10) - 2f64.powi(-23);
        let mut w = row.fill(
            &mut Random::new(1),
            |_, d, _| f64::from(u8::from(d == 0)) * x,
            |d, _, _| f64::from(u8::from(d == 0)) * -x,
            |_, _, _| 0.0,
        );
        row.run(Level::detect(), &mut env, &mut w);
        expect(&row, &w, (0, 0, 0), -1.0, "truncated");
    }
}

#[test]
fn what_an_instruction_has_not_is_refused() {
    let unknown = |arch: &str, words: &[u32]| {
        let arch = Arch::parse(arch).unwrap();
        crate::exec::select(arch, &decode(arch, WaveSize::Wave64, words)).is_none()
    };
    // v_smfmac_f32_16x16x32_f16 v[10:13], v[2:3], v[4:7], v1
    assert!(unknown("gfx942", &[0xd3e2000a, 0x04060902]));
    // v_mfma_f32_32x32x8_f16 … blgp:1, v_mfma_f32_32x32x2_f32 … cbsz:1, v_mfma_f64_16x16x4f64 … blgp:1
    assert!(unknown("gfx942", &[0xd3cc0000, 0x2402c140]));
    assert!(unknown("gfx942", &[0xd3c40100, 0x0402c140]));
    assert!(unknown("gfx90a", &[0xd3ee0000, 0x2402c140]));
    assert!(!unknown("gfx90a", &[0xd3cc0000, 0x2402c140]), "CDNA 2 moves lanes of B for it");
}

/// A scaled or plain product of gfx950 with A in v64, B in v96, scales in v128 and v129, C and D in v0.
struct Scaled {
    m: usize,
    k: usize,
    formats: [usize; 2],
    scaled: bool,
}

const FORMATS: [Float8; 5] = [Float8::OcpE4M3, Float8::OcpE5M2, Float8::E2M3, Float8::E3M2, Float8::E2M1];

impl Scaled {
    /// `v_mfma_ld_scale_b32 v128, v129` with these bytes of A and B, then `v_mfma_f32_…_f8f6f4 v[0:], v[64:], v[96:], v[0:]`.
    fn words(&self, bytes: [u32; 2]) -> Vec<u32> {
        let opcode: u32 = if self.m == 16 { 0x2d } else { 0x2e };
        let [a, b] = self.formats.map(|format| format as u32);
        let product = [
            0xd380_0000 | opcode << 16 | u32::from(self.scaled) << 11 | a << 8,
            1 << 26 | (256 + 96) << 9 | (256 + 64) | b << 29,
        ];
        let [low, high] = [0, 1].map(|bit| (bytes[0] >> bit & 1) | (bytes[1] >> bit & 1) << 1);
        let scales = [0xd3ac_0000 | low << 11, high << 27 | (256 + 129) << 9 | (256 + 128)];
        if self.scaled { [scales, product].concat() } else { product.to_vec() }
    }

    /// Where element `k` of a row is: AMD's data layout of CDNA 4.
    fn place(&self, format: Float8, line: usize, k: usize) -> (usize, usize, usize) {
        let bits = format.bits() as usize;
        let (group, element) = match bits {
            8 => (k % (self.k / 2) / 16, k % 16 + k / (self.k / 2) * 16),
            _ => (k / 32, k % 32),
        };
        (element * bits / 32, element * bits % 32, self.m * group + line)
    }

    /// Runs it; `line` is a row of A or a column of B, and a scale is for 32 `k`.
    fn run(&self, level: Level, a: &Matrix, b: &Matrix, c: impl Fn(usize, usize) -> f32, bytes: [u32; 2]) -> Wave {
        let mut random = Random::new(8);
        let mut w = Wave::new();
        for register in 0..160 {
            w.v[register].0.fill_with(|| random.next_u32());
        }
        for (n, matrix) in [a, b].into_iter().enumerate() {
            let format = FORMATS[self.formats[n]];
            for line in 0..self.m {
                for k in 0..self.k {
                    let bits = u64::from(matrix.elements[line * self.k + k]);
                    put(&mut w, 64 + 32 * n, self.place(format, line, k), format.bits() as usize, bits);
                }
                for group in 0..self.k / 32 {
                    let scale = u64::from(matrix.scales[line * self.k / 32 + group]);
                    put(&mut w, 128 + n, (0, 8 * bytes[n] as usize, self.m * group + line), 8, scale);
                }
            }
        }
        for (i, j) in (0..self.m * self.m).map(|n| (n / self.m, n % self.m)) {
            let (register, lane) = self.d(i, j);
            w.v[register].0[lane] = c(i, j).to_bits();
        }
        let arch = Arch::parse("gfx950").unwrap();
        let inst = decode(arch, WaveSize::Wave64, &self.words(bytes));
        let step = MicroOp::new(inst, &crate::exec::select(arch, &inst).unwrap(), level, 0).unwrap();
        // SAFETY: callers give levels that the host has.
        assert_eq!(unsafe { (step.run)(&mut w, &mut env(), &step) }, Flow::Next);
        w
    }

    fn d(&self, i: usize, j: usize) -> (usize, usize) {
        if self.m == 16 { (i % 4, 16 * (i / 4) + j) } else { (4 * (i / 8) + i % 4, 32 * (i / 4 % 2) + j) }
    }
}

/// Bits of elements, line by line, and of scales.
struct Matrix {
    elements: Vec<u8>,
    scales: Vec<u8>,
}

/// Both shapes with every pair of formats.
fn scaled_forms() -> impl Iterator<Item = Scaled> {
    (0..100).map(|n| Scaled {
        m: if n % 2 == 0 { 16 } else { 32 },
        k: if n % 2 == 0 { 128 } else { 64 },
        formats: [n / 4 % 5, n / 20],
        scaled: n / 2 % 2 == 1,
    })
}

#[test]
fn microscaled_products_take_elements_and_scales_from_their_places() {
    let mut random = Random::new(77);
    for form in scaled_forms() {
        let mut matrix = |n: usize| {
            let format = FORMATS[form.formats[n]];
            let mut finite = || loop {
                let bits = random.next_u32() & ((1 << format.bits()) - 1);
                if float8_to_f32(format, bits as u8).is_finite() {
                    break bits as u8;
                }
            };
            let elements = (0..form.m * form.k).map(|_| finite()).collect();
            // Different for each line and group, and such that products stay near one.
            let scales = (0..form.m * form.k / 32).map(|_| 127 - 6 + (random.next() % 13) as u8).collect();
            Matrix { elements, scales }
        };
        let (a, b) = (matrix(0), matrix(1));
        let c: Vec<f32> = (0..form.m * form.m).map(|_| (random.next() % 100) as f32 * 0.25).collect();
        let scale = |scales: &[u8], line: usize, k: usize| {
            if form.scaled { 2f64.powi(i32::from(scales[(line * form.k + k) / 32]) - 127) } else { 1.0 }
        };
        for level in levels() {
            for bytes in [[0, 3], [2, 1]] {
                let w = form.run(level, &a, &b, |i, j| c[i * form.m + j], bytes);
                for (i, j) in (0..form.m * form.m).map(|n| (n / form.m, n % form.m)) {
                    let mut sum = f64::from(c[i * form.m + j]);
                    for k in 0..form.k {
                        let value = |matrix: &Matrix, format: usize, line: usize| {
                            let bits = u32::from(matrix.elements[line * form.k + k]);
                            f64::from(float8_to_f32(FORMATS[format], bits as u8)) * scale(&matrix.scales, line, k)
                        };
                        let product = value(&a, form.formats[0], i) * value(&b, form.formats[1], j);
                        sum = Exact::new(sum).add(Exact::new(product)).round(24);
                    }
                    let (register, lane) = form.d(i, j);
                    let got = f32::from_bits(w.v[register].0[lane]);
                    assert_eq!(f64::from(got), sum, "{:?} m {} at {i}, {j}", form.formats, form.m);
                }
            }
        }
    }
}

#[test]
fn scales_may_leave_the_range_of_f32_where_products_do_not() {
    let form = Scaled { m: 16, k: 128, formats: [0, 1], scaled: true };
    let one = |format: Float8| (0..256u32).find(|&bits| float8_to_f32(format, bits as u8) == 2.0).unwrap() as u8;
    let matrix = |format, scale: u8| Matrix { elements: vec![one(format); 16 * 128], scales: vec![scale; 16 * 4] };
    let run = |level, a: u8, b: u8| {
        let w = form.run(level, &matrix(Float8::OcpE4M3, a), &matrix(Float8::OcpE5M2, b), |_, _| 0.5, [1, 1]);
        f32::from_bits(w.v[2].0[33])
    };
    for level in levels() {
        // 2·2^127 is no f32, but 128 products with 2·2^-127 are 4 each.
        assert_eq!(run(level, 254, 0), 512.5);
        assert_eq!(run(level, 0, 254), 512.5);
        assert_eq!(run(level, 254, 254), f32::INFINITY);
        // A scale of 0xff is NaN.
        assert_eq!(run(level, 255, 100).to_bits(), 0x7fc0_0000);
        // 4·2^-254 each is too little to change the sum.
        assert_eq!(run(level, 0, 0), 0.5);
    }
}
