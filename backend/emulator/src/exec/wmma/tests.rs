//! Every dense WMMA of gfx11 and gfx12, for both wave sizes, against the layout formulas of AMD's calculator, and its
//! arithmetic against exact sums.

use rocfire_isa::WaveSize;

use crate::exec::matrix_table::{A, B, Exact, Row, Type, env, rows};
use crate::exec::valu::tests::levels;
use crate::numeric::Float8;
use crate::numeric::tests_support::Random;
use crate::step::Level;
use crate::wave::Wave;

fn instructions() -> Vec<Row> {
    rows().into_iter().filter(|row| row.name.starts_with("v_wmma")).collect()
}

/// Whether the elements of A (bit 0) and B (bit 1) are signed, as the second word says it.
const SIGNED: u32 = 3 << 29;

/// The row with other bits in its words.
fn with(row: &Row, low: u32, high: u32) -> Row {
    let mut row = row.clone();
    row.words[0] |= low;
    row.words[1] |= high;
    row
}

fn is_whole(row: &Row) -> bool {
    row.types[2] == Type::I32
}

fn expect(row: &Row, w: &Wave, i: usize, j: usize, want: f64, what: &str) {
    let (got, want) = (row.d_bits(w, i, j, 0), row.types[2].encode(want));
    assert_eq!(got, want, "{} on {} {:?}: {what}, row {i} column {j}", row.name, row.arch, row.wave);
}

fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..256).map(|n| (n / 16, n % 16))
}

#[test]
fn every_element_lies_where_the_calculator_says() {
    let mut random = Random::new(22);
    let mut env = env();
    let instructions = instructions();
    assert_eq!(instructions.len(), 2 * 6 + 2 * 11);
    for row in &instructions {
        for depth in 0..row.k {
            for digit in 0..3 {
                // Elements are numbered, and one product shows an octal digit of one column of A or one row of B.
                let number = |ty: Type, line: usize, d: usize| ty.digit((line * row.k + d) >> (3 * digit) & 7);
                let one = |d: usize| f64::from(u8::from(d == depth));
                let [a, b, _] = row.types;
                let mut w = row.fill(&mut random, |i, d, _| number(a, i, d), |d, _, _| one(d), |_, _, _| 0.0);
                row.run(Level::detect(), &mut env, &mut w);
                let mut v = row.fill(&mut random, |_, d, _| one(d), |d, j, _| number(b, j, d), |_, _, _| 0.0);
                row.run(Level::detect(), &mut env, &mut v);
                for (i, j) in places() {
                    expect(row, &w, i, j, number(a, i, depth), "A");
                    expect(row, &v, i, j, number(b, j, depth), "B");
                }
            }
        }
        for level in levels() {
            let mut w = row.fill(&mut random, |_, _, _| 0.0, |_, _, _| 0.0, |i, j, _| (16 * i + j) as f64);
            row.run(level, &mut env, &mut w);
            for (i, j) in places() {
                expect(row, &w, i, j, (16 * i + j) as f64, "C");
            }
        }
    }
}

#[test]
fn every_instruction_multiplies_matrices() {
    let mut random = Random::new(13);
    let mut env = env();
    for row in &instructions() {
        let signed = with(row, 0, if is_whole(row) { SIGNED } else { 0 });
        let mut small = |n: usize| -> Vec<f64> { (0..n).map(|_| (random.next() % 9) as f64 - 4.0).collect() };
        let (a, b, c) = (small(16 * row.k), small(16 * row.k), small(256));
        for level in levels() {
            let mut w = signed.fill(
                &mut Random::new(3),
                |i, d, _| a[i * row.k + d],
                |d, j, _| b[j * row.k + d],
                |i, j, _| c[16 * i + j],
            );
            let before: Vec<_> = w.v.iter().map(|lanes| lanes.0).collect();
            signed.run(level, &mut env, &mut w);
            for (i, j) in places() {
                let dot: f64 = (0..row.k).map(|d| a[i * row.k + d] * b[j * row.k + d]).sum();
                expect(row, &w, i, j, c[16 * i + j] + dot, "product");
            }
            // Nothing else is written: neither other registers, nor lanes past the wave's, nor the other half on gfx11.
            let lanes = if row.wave == WaveSize::Wave32 { 32 } else { 64 };
            let registers = places().map(|(i, j)| row.d.at([i, j, 0, 0]).0).max().unwrap() + 1;
            for (register, before) in before.iter().enumerate() {
                let after = &w.v[register].0;
                let same = if register < registers { lanes..64 } else { 0..64 };
                assert_eq!(after[same.clone()], before[same], "{} wrote v{register}", row.name);
                if register < registers && row.arch.name() == "gfx1100" && row.types[2].bits() == 16 {
                    for lane in 0..lanes {
                        assert_eq!(after[lane] >> 16, before[lane] >> 16);
                    }
                }
            }
        }
    }
}

#[test]
fn op_sel_takes_the_upper_halves_of_16_bit_accumulators() {
    let mut env = env();
    for row in instructions() {
        if row.arch.name() != "gfx1100" || row.types[2].bits() != 16 {
            continue;
        }
        // op_sel:[0,0,1]
        let upper = with(&row, 1 << 13, 0);
        let mut w = Wave::new();
        for register in 0..8 {
            w.v[register].0.fill(0x4000_1234);
        }
        upper.run(Level::detect(), &mut env, &mut w);
        assert_eq!(w.v[3].0[5], 0x4000_1234, "C + 0 goes back to where it was");
        w.v[A].0.fill(if row.types[0] == Type::F16 { 0x3c00 } else { 0x3f80 });
        w.v[B].0 = w.v[A].0;
        upper.run(Level::detect(), &mut env, &mut w);
        let three = if row.types[0] == Type::F16 { 0x4200 } else { 0x4040 };
        assert_eq!(w.v[3].0[5], three << 16 | 0x1234);
    }
}

#[test]
fn integers_are_signed_by_neg_and_saturate_with_clamp() {
    let mut env = env();
    for row in instructions().iter().filter(|row| is_whole(row)) {
        let most = f64::from((1u32 << row.types[0].bits()) - 1);
        for (signs, a, b) in [(0, most, most), (1 << 29, -1.0, most), (2 << 29, most, -1.0), (SIGNED, -1.0, -1.0)] {
            let row = with(row, 0, signs);
            let dot = a * b * row.k as f64;
            let run = |clamp: bool, c: i32, env: &mut _| {
                let row = with(&row, u32::from(clamp) << 15, 0);
                let all = |value: i64| move |_: usize, _: usize, _: usize| value as f64;
                let mut w = row.fill(&mut Random::new(1), |_, _, _| -1.0, |_, _, _| -1.0, all(i64::from(c)));
                row.run(Level::detect(), env, &mut w);
                row.d_bits(&w, 7, 9, 0) as u32 as i32
            };
            assert_eq!(f64::from(run(false, 5, &mut env)), dot + 5.0, "{}", row.name);
            assert_eq!(f64::from(run(true, 5, &mut env)), dot + 5.0, "{}", row.name);
            let (edge, inward) = if dot > 0.0 { (i32::MAX, i32::MIN) } else { (i32::MIN, i32::MAX) };
            assert_eq!(run(true, edge, &mut env), edge);
            assert_eq!(run(false, edge, &mut env), edge.wrapping_add(dot as i32));
            assert_eq!(f64::from(run(true, inward, &mut env)), f64::from(inward) + dot);
        }
    }
}

#[test]
fn neg_negates_by_parity_of_k_and_takes_absolute_values_of_c() {
    let mut env = env();
    for row in instructions().iter().filter(|row| row.types[0].bits() == 16) {
        let run = |low: u32, high: u32, env: &mut _| {
            let row = with(row, low, high);
            // Even k give 1·1 each, odd ones 4·1; C is -2.
            let mut w = row.fill(
                &mut Random::new(1),
                |_, d, _| if d % 2 == 0 { 1.0 } else { 4.0 },
                |_, _, _| 1.0,
                |_, _, _| -2.0,
            );
            row.run(Level::detect(), env, &mut w);
            row.d_bits(&w, 3, 4, 0)
        };
        let bits = |value: f64| row.types[2].encode(value);
        assert_eq!(run(0, 0, &mut env), bits(38.0));
        assert_eq!(run(0, 1 << 29, &mut env), bits(-8.0 + 32.0 - 2.0), "neg_lo of A");
        assert_eq!(run(1 << 9, 0, &mut env), bits(8.0 - 32.0 - 2.0), "neg_hi of B");
        assert_eq!(run(0, 4 << 29, &mut env), bits(42.0), "neg_lo of C");
        assert_eq!(run(4 << 8, 0, &mut env), bits(42.0), "neg_hi of C");
        assert_eq!(run(4 << 8, 4 << 29, &mut env), bits(38.0), "both of C");
    }
    // Integers have no neg_hi, 8-bit floats no negation of A and B.
    for row in instructions() {
        let unknown = |low: u32, high: u32| {
            let row = with(&row, low, high);
            !row.decodes() || row.step(Level::Baseline).is_none()
        };
        assert_eq!(unknown(1 << 8, 0), is_whole(&row) || row.types[0].bits() == 8, "{}", row.name);
        assert_eq!(unknown(0, 4 << 29), is_whole(&row), "{}", row.name);
    }
}

#[test]
fn sums_are_rounded_as_documented() {
    let mut random = Random::new(98);
    let mut env = env();
    for row in instructions().iter().filter(|row| !is_whole(row)) {
        let value = |random: &mut Random, ty: Type| {
            let digits = match ty {
                Type::F32 => 24,
                Type::F16 => 11,
                Type::Bf16 => 8,
                Type::Float8(Float8::OcpE4M3) => 4,
                _ => 3,
            };
            let significand = 1 << (digits - 1) | random.next() & ((1 << (digits - 1)) - 1);
            let magnitude = significand as f64 * 2f64.powi(-digits - (random.next() % 6) as i32);
            if random.next() & 1 == 0 { magnitude } else { -magnitude }
        };
        let mut values = |n: usize, ty: Type| -> Vec<f64> { (0..n).map(|_| value(&mut random, ty)).collect() };
        let (a, b, c) = (values(256, row.types[0]), values(256, row.types[1]), values(256, row.types[2]));
        for level in levels() {
            let mut w = row.fill(
                &mut Random::new(3),
                |i, d, _| a[16 * i + d],
                |d, j, _| b[16 * j + d],
                |i, j, _| c[16 * i + j],
            );
            row.run(level, &mut env, &mut w);
            for (i, j) in places() {
                let mut sum = c[16 * i + j];
                for d in 0..16 {
                    sum = Exact::new(sum).add(Exact::new(a[16 * i + d] * b[16 * j + d])).round(24);
                }
                let last = match row.types[2] {
                    Type::F16 => 11,
                    Type::Bf16 => 8,
                    _ => 24,
                };
                expect(row, &w, i, j, Exact::new(sum).round(last), "sum");
            }
        }
    }
}

#[test]
fn c_may_be_a_constant() {
    let mut env = env();
    for row in instructions() {
        let mut with_constant = |value: u32| {
            let mut row = row.clone();
            // The third source's nine bits.
            row.words[1] = row.words[1] & !(0x1ff << 18) | value << 18;
            let mut w = Wave::new();
            row.run(Level::detect(), &mut env, &mut w);
            row.d_bits(&w, 15, 15, 0)
        };
        // 128 is the integer 0, 129 1, 242 the float 1.
        assert_eq!(with_constant(128), 0);
        if is_whole(&row) {
            assert_eq!(with_constant(129), 1);
        } else {
            assert_eq!(with_constant(242), row.types[2].encode(1.0), "{}", row.name);
        }
    }
}

#[test]
fn sparse_products_are_refused() {
    // v_swmmac_f32_16x16x32_f16 v[8:15], v[0:3], v[4:11], v16 on gfx1201
    let row = Row {
        arch: rocfire_arch::Arch::parse("gfx1201").unwrap(),
        words: vec![0xcc50_4008, 0x1c42_0900],
        ..instructions().remove(0)
    };
    assert!(row.step(Level::Baseline).is_none());
}
