//! How fast the interpreter is on one core. Run: `cargo bench -p rocfire-emulator`.
//!
//! | bench | item | what it must reach with AVX2 |
//! | --- | --- | --- |
//! | `valu` | a vector ALU instruction of a wave | 60 M a second |
//! | `gemm_f16` | a floating-point operation (32x32x8 f16 MFMA fed through LDS) | 20 G a second |
//! | `gemm_f32` | a floating-point operation (32x32x2 f32 MFMA fed through LDS) | 8 G a second |
//! | `mfma_f16`, `mfma_f32` | the same without LDS | |
//! | `stream` | a byte loaded or stored | |
//! | `lds`, `global` | a load or store of 16 bytes a lane, lane after lane | |
//! | `launch` | an empty launch | 20 us each |
//!
//! Each is run with AVX2 and with what this host has, on one thread. Results are checked before they are timed. These are
//! speeds of the emulator and say nothing about a GPU. Without a compiler for the kernels nothing is run.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Args, Bench};
use divan::counter::{BytesCount, ItemsCount};
use rocfire_emulator::{Counters, CpuLevel, Options};

fn main() {
    if common::compile("speed").is_some() {
        divan::main();
    }
}

const LEVELS: [CpuLevel; 3] = [CpuLevel::Baseline, CpuLevel::Avx2, CpuLevel::Avx512];

fn bench(level: CpuLevel) -> Bench {
    let mut options = Options::default();
    options.threads = Some(1);
    options.cpu = level;
    Bench::with_options("speed", options).expect("`main` has compiled it")
}

#[divan::bench(args = LEVELS, sample_count = 20)]
fn valu(bencher: divan::Bencher, level: CpuLevel) {
    let bench = bench(level);
    let out = bench.upload(&[0u32; 256]);
    let args = Args::new().with(out).with(500i32);
    let counters: Counters = bench.run("valu", 1, 256, &args);
    bencher.counter(ItemsCount::new(counters.valu)).bench(|| bench.run("valu", 1, 256, &args));
}

/// Integers of -2 … 2: their products and sums are exact.
fn small(seed: u32, i: usize) -> i32 {
    ((i as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as i32 % 5 - 2
}

fn check(a: impl Fn(usize) -> i32, b: impl Fn(usize) -> i32, k: usize, c: &[f32]) {
    for (row, column) in [(0, 0), (3, 17), (31, 31), (12, 5)] {
        let expected: i32 = (0..k).map(|i| a(row * k + i) * b(column * k + i)).sum();
        assert_eq!(c[row * 32 + column], expected as f32, "element ({row}, {column})");
    }
}

#[divan::bench(args = LEVELS, sample_count = 20)]
fn gemm_f16(bencher: divan::Bencher, level: CpuLevel) {
    let bench = bench(level);
    let k = 2048;
    let (a, b) = (|i| small(1, i), |i| small(2, i));
    // f16 bits of the integers.
    let bits = |value: i32| [0xc000u16, 0xbc00, 0, 0x3c00, 0x4000][(value + 2) as usize];
    let pa = bench.upload(&(0..32 * k).map(|i| bits(a(i))).collect::<Vec<_>>());
    let pb = bench.upload(&(0..32 * k).map(|i| bits(b(i))).collect::<Vec<_>>());
    let pc = bench.upload(&[0f32; 1024]);
    let args = Args::new().with(pa).with(pb).with(pc).with(k as i32);
    bench.run("gemm_f16", 1, 64, &args);
    check(a, b, k, &bench.download::<f32>(pc, 1024));
    bencher.counter(ItemsCount::new(2 * 32 * 32 * k)).bench(|| bench.run("gemm_f16", 1, 64, &args));
}

#[divan::bench(args = LEVELS, sample_count = 20)]
fn gemm_f32(bencher: divan::Bencher, level: CpuLevel) {
    let bench = bench(level);
    let k = 1024;
    let (a, b) = (|i| small(1, i), |i| small(2, i));
    let pa = bench.upload(&(0..32 * k).map(|i| a(i) as f32).collect::<Vec<_>>());
    let pb = bench.upload(&(0..32 * k).map(|i| b(i) as f32).collect::<Vec<_>>());
    let pc = bench.upload(&[0f32; 1024]);
    let args = Args::new().with(pa).with(pb).with(pc).with(k as i32);
    bench.run("gemm_f32", 1, 64, &args);
    check(a, b, k, &bench.download::<f32>(pc, 1024));
    bencher.counter(ItemsCount::new(2 * 32 * 32 * k)).bench(|| bench.run("gemm_f32", 1, 64, &args));
}

/// Matrix instructions alone, without LDS: two products of `flops` in each round.
fn matrix_unit(bencher: divan::Bencher, level: CpuLevel, kernel: &str, flops: usize) {
    let bench = bench(level);
    let rounds = 500;
    let x = bench.upload(&[0x3c00_3c00u32; 256]);
    let out = bench.upload(&[0f32; 1024]);
    let args = Args::new().with(x).with(out).with(rounds as i32);
    bench.run(kernel, 1, 64, &args);
    assert!(bench.download::<f32>(out, 1024).iter().all(|&sum| sum > 0.0));
    bencher.counter(ItemsCount::new(2 * flops * rounds)).bench(|| bench.run(kernel, 1, 64, &args));
}

#[divan::bench(args = LEVELS, sample_count = 20)]
fn mfma_f16(bencher: divan::Bencher, level: CpuLevel) {
    matrix_unit(bencher, level, "mfma_f16", 2 * 32 * 32 * 8);
}

#[divan::bench(args = LEVELS, sample_count = 20)]
fn mfma_f32(bencher: divan::Bencher, level: CpuLevel) {
    matrix_unit(bencher, level, "mfma_f32", 2 * 32 * 32 * 2);
}

#[divan::bench(args = LEVELS, sample_count = 20)]
fn stream(bencher: divan::Bencher, level: CpuLevel) {
    let bench = bench(level);
    let n = 1 << 20;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (px, py) = (bench.upload(&x), bench.upload(&vec![0f32; n]));
    let args = Args::new().with(px).with(py).with(n as i32);
    bench.run("stream", n as u32 / 256, 256, &args);
    assert!(bench.download::<f32>(py, n).iter().zip(&x).all(|(y, x)| *y == 2.0 * x));
    bencher.counter(BytesCount::new(8 * n)).bench(|| bench.run("stream", n as u32 / 256, 256, &args));
}

#[divan::bench(args = LEVELS, sample_count = 20)]
fn lds(bencher: divan::Bencher, level: CpuLevel) {
    let bench = bench(level);
    let out = bench.upload(&[0f32; 256]);
    let args = Args::new().with(out).with(200i32);
    let counters = bench.run("lds", 1, 64, &args);
    assert!(bench.download::<f32>(out, 256).chunks(4).all(|own| own == [1.0, 2.0, 3.0, 4.0]));
    bencher.counter(ItemsCount::new(counters.lds)).bench(|| bench.run("lds", 1, 64, &args));
}

#[divan::bench(args = LEVELS, sample_count = 20)]
fn global(bencher: divan::Bencher, level: CpuLevel) {
    let bench = bench(level);
    let out = bench.upload(&(0..256).map(|i| i as f32).collect::<Vec<_>>());
    let args = Args::new().with(out).with(200i32);
    let counters = bench.run("global", 1, 64, &args);
    assert!(bench.download::<f32>(out, 256).iter().enumerate().all(|(i, x)| *x == i as f32));
    let items = ItemsCount::new(counters.vmem_read + counters.vmem_write);
    bencher.counter(items).bench(|| bench.run("global", 1, 64, &args));
}

#[divan::bench(args = [1, 16], sample_count = 200)]
fn launch(bencher: divan::Bencher, workgroups: u32) {
    let bench = Bench::new("speed").expect("`main` has compiled it");
    bencher.counter(ItemsCount::new(1u32)).bench(|| bench.run("nothing", workgroups, 256, &Args::new()));
}
