//! Atomics, and that the number of threads does not show.

mod common;

use common::{Args, Bench};
use rocfire_emulator::Options;

fn noise(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| (i ^ i << 9).wrapping_mul(0x9e37_79b9)).collect()
}

fn with_threads(threads: usize) -> Option<Bench> {
    let mut options = Options::default();
    options.threads = Some(threads);
    Bench::with_options("atomics", options)
}

#[test]
fn counts_in_lds_and_device_memory_add_up() {
    let Some(bench) = Bench::new("atomics") else { return };
    let x = noise(10_000);
    let (px, counts) = (bench.upload(&x), bench.upload(&[0u32; 16]));
    bench.run("histogram", 4, 256, &Args::new().with(px).with(counts).with(10_000i32));
    let mut expected = vec![0u32; 16];
    for x in &x {
        expected[*x as usize & 15] += 1;
    }
    assert_eq!(bench.download::<u32>(counts, 16), expected);
}

#[test]
fn extremes_and_wide_sums() {
    let Some(bench) = Bench::new("atomics") else { return };
    let x = noise(4096);
    let (px, low) = (bench.upload(&x), bench.upload(&[i32::MAX]));
    let (high, wide) = (bench.upload(&[0u32]), bench.upload(&[0u64]));
    bench.run("extremes", 16, 256, &Args::new().with(px).with(low).with(high).with(wide));
    assert_eq!(bench.download::<i32>(low, 1)[0], x.iter().map(|&x| x as i32).min().unwrap());
    assert_eq!(bench.download::<u32>(high, 1)[0], *x.iter().max().unwrap());
    assert_eq!(bench.download::<u64>(wide, 1)[0], x.iter().map(|&x| u64::from(x)).sum::<u64>());
}

#[test]
fn compare_and_swap_loops_end() {
    let Some(bench) = Bench::new("atomics") else { return };
    let sum = bench.upload(&[0u32]);
    bench.run("swap_loop", 8, 64, &Args::new().with(sum));
    assert_eq!(bench.download::<u32>(sum, 1)[0], 8 * 2016);
}

#[test]
fn order_does_not_depend_on_the_number_of_threads() {
    let groups = 200;
    let n = groups * 64;
    let x: Vec<f32> = noise(n).iter().map(|&x| x as f32 * 1e-3).collect();
    let mut results = Vec::new();
    for threads in [1, 2, 5] {
        let Some(bench) = with_threads(threads) else { return };
        let (next, taken) = (bench.upload(&[0u32]), bench.upload(&vec![0u32; n]));
        bench.run("tickets", groups as u32, 64, &Args::new().with(next).with(taken));
        let (px, sum) = (bench.upload(&x), bench.upload(&[0f32]));
        bench.run("float_sum", groups as u32, 64, &Args::new().with(px).with(sum));
        results.push((bench.download::<u32>(taken, n), bench.download::<u32>(sum, 1)));
    }
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
    // Tickets are given out in the order of the workgroups.
    let (taken, _) = &results[0];
    assert!(taken.chunks(64).zip(0u32..).all(|(own, group)| own.iter().all(|ticket| ticket / 64 == group)));
}
