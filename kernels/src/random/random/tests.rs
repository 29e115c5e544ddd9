use super::*;
use crate::testing::{Lie, device, philox, read, tensor};
use rocfire_hal::{Layout, Tensor};

const SEED: Seed = Seed { seed: 0x0123_4567_89ab_cdef, offset: 42 };

/// Word `n` of the stream under [`SEED`].
fn word(n: usize) -> u32 {
    let block = (n / 4) as u32;
    philox([block, 0, SEED.offset as u32, 0], SEED.seed)[n % 4]
}

fn unit(dtype: DType, n: usize) -> f64 {
    if dtype == DType::F64 {
        let bits = u64::from(word(2 * n + 1)) << 32 | u64::from(word(2 * n));
        return (bits >> 11) as f64 * 0.5f64.powi(53);
    }
    f64::from(word(n) >> 8) * 0.5f64.powi(24)
}

fn out(count: usize, dtype: DType) -> Tensor {
    Tensor::empty(&device(), &[count], dtype).unwrap()
}

#[test]
fn the_reference_generator_gives_the_published_values() {
    // Random123's kat_vectors, philox4x32 with 10 rounds.
    assert_eq!(philox([0; 4], 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox([!0; 4], !0), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
}

#[test]
fn uniform_floats_are_a_function_of_the_index() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for count in [1, 4, 63, 1030] {
            let mut x = out(count, dtype);
            uniform(device().stream(), SEED, -2.0, 3.0, x.view_mut()).unwrap();
            for (n, got) in read(&x).into_iter().enumerate() {
                let want = unit(dtype, n) * 5.0 - 2.0;
                let rounding = match dtype {
                    DType::F64 => 1e-15,
                    DType::F32 => 3e-7,
                    DType::F16 => 2e-3,
                    _ => 2e-2,
                };
                let wrapped = got == -2.0 && want > 2.98;
                assert!((got - want).abs() <= rounding || wrapped, "{dtype} {n}: {got}, not {want}");
                assert!((-2.0..3.0).contains(&got));
            }
        }
    }
}

#[test]
fn uniform_integers_fill_their_range() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_int()) {
        let low = if dtype.is_unsigned_int() { 3.0 } else { -3.0 };
        let mut x = out(500, dtype);
        uniform(device().stream(), SEED, low, low + 5.0, x.view_mut()).unwrap();
        let got = read(&x);
        for n in 0..5 {
            assert!(got.contains(&(low + f64::from(n))), "{dtype}");
        }
        assert!(got.iter().all(|v| (low..low + 5.0).contains(v)), "{dtype}");
    }
    let mut one = out(9, DType::I32);
    uniform(device().stream(), SEED, 4.0, 4.0, one.view_mut()).unwrap();
    assert_eq!(read(&one), [4.0; 9]);
}

#[test]
fn normal_values_follow_box_and_muller() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let mut x = out(2001, dtype);
        normal(device().stream(), SEED, 1.5, 2.0, x.view_mut()).unwrap();
        let got = read(&x);
        for (n, got) in got.iter().enumerate() {
            let (a, b) = (unit(dtype, n / 2 * 2), unit(dtype, n / 2 * 2 + 1));
            let first = if dtype == DType::F64 { 1.0 - a } else { a + 0.5f64.powi(24) };
            let (s, c) = (std::f64::consts::TAU * b).sin_cos();
            let want = (-2.0 * first.ln()).sqrt() * if n % 2 == 0 { c } else { s } * 2.0 + 1.5;
            let tolerance = match dtype {
                DType::F64 => 1e-13,
                DType::F32 => 4e-6,
                _ => 4e-2,
            };
            assert!((got - want).abs() <= tolerance, "{dtype} {n}: {got}, not {want}");
        }
        let mean = got.iter().sum::<f64>() / got.len() as f64;
        let variance = got.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / got.len() as f64;
        // Five standard errors.
        assert!((mean - 1.5).abs() < 0.23 && (variance.sqrt() - 2.0).abs() < 0.16, "{mean} {variance}");
    }
}

#[test]
fn bernoulli_compares_the_word() {
    for dtype in DType::ALL {
        let mut x = out(301, dtype);
        bernoulli(device().stream(), SEED, 0.3, x.view_mut()).unwrap();
        let want: Vec<f64> =
            (0..301).map(|n| f64::from(u8::from(f64::from(word(n)) < 0.3 * 4_294_967_296.0))).collect();
        assert_eq!(read(&x), want, "{dtype}");
    }
    for (p, value) in [(0.0, 0.0), (1.0, 1.0)] {
        let mut x = out(100, DType::F32);
        bernoulli(device().stream(), SEED, p, x.view_mut()).unwrap();
        assert_eq!(read(&x), [value; 100]);
    }
}

#[test]
fn seeds_and_offsets_give_other_numbers() {
    let draw = |seed, offset| {
        let mut x = out(64, DType::F32);
        uniform(device().stream(), Seed { seed, offset }, 0.0, 1.0, x.view_mut()).unwrap();
        read(&x)
    };
    assert_eq!(draw(1, 0), draw(1, 0));
    assert_ne!(draw(1, 0), draw(2, 0));
    assert_ne!(draw(1, 0), draw(1, 1));
    assert_ne!(draw(1, 0), draw(1 << 32, 0), "the upper half of the seed counts");
}

#[test]
fn wrong_arguments_are_refused() {
    let device = device();
    let stream = device.stream();
    let refused = |result: Result<()>, part: &str| {
        let error = result.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(uniform(stream, SEED, 1.0, 0.0, out(4, DType::F32).view_mut()), "ascending order");
    refused(uniform(stream, SEED, f64::NAN, 0.0, out(4, DType::F32).view_mut()), "ascending order");
    refused(bernoulli(stream, SEED, 1.5, out(4, DType::F32).view_mut()), "0 to 1");
    refused(normal(stream, SEED, 0.0, 1.0, out(4, DType::Bool).view_mut()), "no bool kernel");
    let mut sparse = tensor(&device, &[8], DType::F32, &[0.0; 8], Lie::Plain);
    sparse = sparse.with_layout(Layout::strided(&[4], &[2], 0).unwrap()).unwrap();
    refused(uniform(stream, SEED, 0.0, 1.0, sparse.view_mut()), "contiguous");
    uniform(stream, SEED, 0.0, 1.0, out(0, DType::F32).view_mut()).unwrap();
}
