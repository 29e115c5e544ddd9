//! Kernels of the usual kinds: what checks and wave sizes must not change, and what they cost.

use rocfire_emulator::{Checks, Options};

use super::common::{self, Args, Bench};

/// Kernel, workgroups, and its arguments on a device.
pub type Case = (&'static str, u32, fn(&Bench) -> (Args, u64, usize));

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 20) as f32 / 1024.0 - 2.0).collect()
}

pub const CASES: [Case; 6] = [
    ("elementwise", 64, |bench| {
        let n = 64 * 256 * 4;
        let (x, y, out) = (bench.upload(&values(n)), bench.upload(&values(n)), bench.upload(&vec![0f32; n]));
        (Args::new().with(x).with(y).with(out), out, n)
    }),
    ("reduce", 64, |bench| {
        let (x, out) = (bench.upload(&values(64 * 4096)), bench.upload(&[0f32; 64]));
        (Args::new().with(x).with(out).with(4096i32), out, 64)
    }),
    ("softmax", 32, |bench| {
        let n = 32 * 2048;
        let (x, out) = (bench.upload(&values(n)), bench.upload(&vec![0f32; n]));
        (Args::new().with(x).with(out).with(2048i32), out, n)
    }),
    ("gemm", 16, |bench| {
        let n = 256 * 256;
        let (a, b, c) = (bench.upload(&values(n)), bench.upload(&values(n)), bench.upload(&vec![0f32; n]));
        (Args::new().with(a).with(b).with(c).with(256i32).with(256i32), c, n)
    }),
    ("sort", 32, |bench| {
        let n = 32 * 512;
        let (x, out) = (bench.upload(&values(n)), bench.upload(&vec![0f32; n]));
        (Args::new().with(x).with(out), out, n)
    }),
    ("attention", 8, |bench| {
        let (queries, keys) = (8 * 256 * 32, 128 * 32);
        let (q, k, v) = (bench.upload(&values(queries)), bench.upload(&values(keys)), bench.upload(&values(keys)));
        let out = bench.upload(&vec![0f32; queries]);
        (Args::new().with(q).with(k).with(v).with(out).with(128i32), out, queries)
    }),
];

/// A device of one thread; `None` without a compiler.
pub fn device(arch: &str, wave: u32, checks: Checks) -> Option<Bench> {
    let mut options = Options::default();
    (options.checks, options.threads) = (checks, Some(1));
    Some(Bench::load(&common::compile_for("cost", arch, wave)?, arch, options))
}
