//! Calls, scratch, generic pointers and global variables.

mod common;

use common::{Args, Bench};

fn mix(a: u32, b: u32) -> u32 {
    a.wrapping_mul(2_654_435_761) ^ (b >> 3)
}

fn noise(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| mix(i, i << 7).wrapping_mul(0x9e37_79b9)).collect()
}

#[test]
fn calls_pass_private_arrays_by_address() {
    let Some(bench) = Bench::new("stack") else { return };
    let n = 300;
    let x = noise(n);
    let (px, out) = (bench.upload(&x), bench.upload(&vec![0u32; n]));
    let counters = bench.run("calls", 3, 100, &Args::new().with(px).with(out).with(n as i32));
    let expected: Vec<u32> = (0..n).map(|i| (0..8).fold(1, |sum, k| mix(sum, x[(i + k) % n]))).collect();
    assert_eq!(bench.download::<u32>(out, n), expected);
    assert!(counters.scratch > 0 || counters.scratch_bytes == 0);
}

#[test]
fn recursion_finds_room_on_the_stack() {
    let Some(bench) = Bench::new("stack") else { return };
    let out = bench.upload(&[0u32; 64]);
    bench.run("recursion", 1, 64, &Args::new().with(out));
    let expected: Vec<u32> = (0..64).map(|i| 2 * (i % 8) + 3).collect();
    assert_eq!(bench.download::<u32>(out, 64), expected);
}

/// What `histogram` makes of `n` values for each of so many items.
fn histogram(x: &[u32], n: usize) -> Vec<u32> {
    x.chunks(n)
        .map(|own| {
            let mut count = [0u32; 96];
            for (k, x) in own.iter().enumerate() {
                count[*x as usize % 96] += k as u32 + 1;
            }
            count.iter().fold(0u32, |sum, count| sum.wrapping_mul(31).wrapping_add(*count))
        })
        .collect()
}

#[test]
fn private_arrays_are_indexed_by_data() {
    let Some(bench) = Bench::new("stack") else { return };
    let (items, n) = (128usize, 40usize);
    let x = noise(items * n);
    let (px, out) = (bench.upload(&x), bench.upload(&vec![0u32; items]));
    let counters = bench.run("histogram", 2, 64, &Args::new().with(px).with(out).with(n as i32));
    assert_eq!(bench.download::<u32>(out, items), histogram(&x, n));
    assert!(counters.scratch > 0, "{counters:?}");
}

#[test]
fn private_arrays_of_all_waves_outlive_a_barrier() {
    let Some(bench) = Bench::new("stack") else { return };
    let (items, n) = (512usize, 40usize);
    let x = noise(items * n);
    let (px, out) = (bench.upload(&x), bench.upload(&vec![0u32; items]));
    let counters = bench.run("histogram_kept", 2, 256, &Args::new().with(px).with(out).with(n as i32));
    assert_eq!(bench.download::<u32>(out, items), histogram(&x, n));
    assert!(counters.scratch > 0, "{counters:?}");
}

#[test]
fn generic_pointers_reach_all_memories_from_one_wave() {
    let Some(bench) = Bench::new("stack") else { return };
    let (px, out) = (bench.upload(&[10u32, 20, 30, 40]), bench.upload(&[0u32; 256]));
    bench.run("generic", 1, 256, &Args::new().with(px).with(out));
    let expected: Vec<u32> = (0..256u32)
        .map(|t| match t % 3 {
            0 => (t % 4 + 1) * 10,
            1 => 1000 + t % 4,
            _ => 2000 + t * 4 + t % 4,
        })
        .collect();
    assert_eq!(bench.download::<u32>(out, 256), expected);
}

#[test]
fn global_variables_are_initialised_and_keep_what_is_written() {
    let Some(bench) = Bench::new("stack") else { return };
    let out = bench.upload(&[0u32; 64]);
    let primes = [2u32, 3, 5, 7, 11, 13, 17, 19];
    let mut table = [3u32, 1, 4, 1];
    for _ in 0..2 {
        bench.run("globals", 1, 64, &Args::new().with(out));
        let expected: Vec<u32> = (0..64).map(|t| primes[t & 7] + table[t & 3]).collect();
        assert_eq!(bench.download::<u32>(out, 64), expected);
        table[2] = 5;
    }
    let (address, bytes) = bench.module.global("table").unwrap();
    assert_eq!(bytes, 16);
    assert_eq!(bench.download::<u32>(address, 4), table);
}
