//! What checks and wave sizes cost, by kernels of the usual kinds. Run for its table with
//! `cargo test --test cost -- --nocapture --ignored`; the results themselves are compared in every run.

mod common;

use std::time::{Duration, Instant};

use common::{Args, Bench};
use rocfire_emulator::{Checks, Options};

/// Kernel, workgroups, and its arguments on a device.
type Case = (&'static str, u32, fn(&Bench) -> (Args, u64, usize));

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 20) as f32 / 1024.0 - 2.0).collect()
}

const CASES: [Case; 6] = [
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

fn device(arch: &str, wave: u32, checks: Checks) -> Option<Bench> {
    let mut options = Options::default();
    (options.checks, options.threads) = (checks, Some(1));
    Some(Bench::load(&common::compile_for("cost", arch, wave)?, arch, options))
}

fn only(set: impl Fn(&mut Checks)) -> Checks {
    let mut checks = Checks::default();
    set(&mut checks);
    checks
}

/// Runs a case; its result.
fn result(bench: &Bench, (kernel, groups, make): &Case) -> Vec<u32> {
    let (args, out, len) = make(bench);
    bench.run(kernel, *groups, 256, &args);
    bench.download(out, len)
}

#[test]
fn checks_and_wave_sizes_change_no_bit() {
    let Some(plain) = device("gfx942", 64, Checks::default()) else { return };
    let others = [("gfx942", 64, Checks::ALL), ("gfx1100", 32, Checks::default()), ("gfx1100", 32, Checks::ALL)];
    for case in &CASES {
        let expected = result(&plain, case);
        assert!(expected.iter().any(|&bits| bits != 0), "{}", case.0);
        for (arch, wave, checks) in others {
            let Some(other) = device(arch, wave, checks) else { return };
            assert!(result(&other, case) == expected, "{} on {arch} with {checks:?}", case.0);
        }
    }
}

/// The least time of several runs on each device, taken in turns.
fn times(benches: &[Bench], case: &Case) -> Vec<Duration> {
    let (kernel, groups, make) = case;
    let args: Vec<Args> = benches.iter().map(|bench| make(bench).0).collect();
    let mut least = vec![Duration::MAX; benches.len()];
    for _ in 0..7 {
        for (i, bench) in benches.iter().enumerate() {
            let started = Instant::now();
            bench.run(kernel, *groups, 256, &args[i]);
            least[i] = least[i].min(started.elapsed());
        }
    }
    least
}

#[test]
#[ignore = "prints times"]
fn times_of_checks_and_wave_sizes() {
    let checks = [
        ("none", Checks::default()),
        ("unwritten", only(|checks| checks.unwritten = true)),
        ("lds-race", only(|checks| checks.lds_races = true)),
        ("global-race", only(|checks| checks.global_races = true)),
        ("waitcnt", only(|checks| checks.waits = true)),
        ("all", Checks::ALL),
    ];
    let Some(wide) = checks.iter().map(|(_, checks)| device("gfx942", 64, *checks)).collect::<Option<Vec<_>>>() else {
        return;
    };
    let Some(narrow) = device("gfx1100", 32, Checks::default()) else { return };
    let benches: Vec<Bench> = wide.into_iter().chain([narrow]).collect();
    let names: Vec<&str> = checks.iter().map(|(name, _)| *name).skip(1).chain(["gfx1100"]).collect();
    println!("{:12} {:>10} {}", "kernel", "us", names.iter().map(|name| format!("{name:>12}")).collect::<String>());
    for case in &CASES {
        let times = times(&benches, case);
        let ratio = |time: &Duration| format!("{:>12.2}", time.as_secs_f64() / times[0].as_secs_f64());
        println!(
            "{:12} {:>10.0} {}",
            case.0,
            times[0].as_secs_f64() * 1e6,
            times[1..].iter().map(ratio).collect::<String>()
        );
    }
}
