//! Whole kernels against CPU references: indexing, LDS, barriers, branches, loops.

mod common;

use common::{Args, Bench};

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.37).sin() * 3.0).collect()
}

#[test]
fn vector_add_handles_a_partial_last_workgroup() {
    let Some(bench) = Bench::new("basics") else { return };
    for n in [1usize, 63, 64, 65, 1000, 4096] {
        let (a, b) = (ramp(n), ramp(n + 1)[1..].to_vec());
        let (pa, pb, pc) = (bench.upload(&a), bench.upload(&b), bench.upload(&vec![0f32; n]));
        let args = Args::new().with(pa).with(pb).with(pc).with(n as i32);
        let counters = bench.run("vector_add", n.div_ceil(256) as u32, 256, &args);
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(bench.download::<f32>(pc, n), expected);
        assert_eq!(counters.waves, 4 * n.div_ceil(256) as u64);
        assert_eq!(counters.global_read_bytes, 8 * n as u64);
        assert_eq!(counters.global_written_bytes, 4 * n as u64);
    }
}

#[test]
fn kernels_of_objects_that_were_compiled_apart_run() {
    let Some(object) = common::linked(
        &["first", "second"]
            .map(|kernel| (kernel, format!("kernel void {kernel}(global int *to) {{ *to = {}; }}", kernel.len()))),
    ) else {
        return;
    };
    let bench = Bench::load(&object, "gfx942", rocfire_emulator::Options::default());
    for kernel in ["first", "second"] {
        let to = bench.upload(&[0i32]);
        bench.run(kernel, 1, 1, &Args::new().with(to));
        assert_eq!(bench.download::<i32>(to, 1), [kernel.len() as i32]);
    }
}

#[test]
fn block_sum_reduces_through_lds() {
    let Some(bench) = Bench::new("basics") else { return };
    let n = 2000;
    let x = ramp(n);
    let groups = n.div_ceil(256);
    let (px, ps) = (bench.upload(&x), bench.upload(&vec![0f32; groups]));
    let counters = bench.run("block_sum", groups as u32, 256, &Args::new().with(px).with(ps).with(n as i32));
    let expected: Vec<f32> = x
        .chunks(256)
        .map(|chunk| {
            let mut part = [0f32; 256];
            part[..chunk.len()].copy_from_slice(chunk);
            let mut step = 128;
            while step > 0 {
                for t in 0..step {
                    part[t] += part[t + step];
                }
                step /= 2;
            }
            part[0]
        })
        .collect();
    assert_eq!(bench.download::<f32>(ps, groups), expected);
    assert!(counters.barrier >= 4 * groups as u64 && counters.lds > 0);
}

#[test]
fn dynamic_lds_and_repeated_barriers() {
    let Some(bench) = Bench::new("basics") else { return };
    for block in [64u32, 100, 256, 1000] {
        let n = 3 * block as usize;
        let x: Vec<u32> = (0..n as u32).collect();
        let px = bench.upload(&x);
        let args = Args::new().with(px).with(5i32);
        bench.try_run("reverse", [3, 1, 1], [block, 1, 1], 4 * block, &args).unwrap_or_else(|error| panic!("{error}"));
        let expected: Vec<u32> = x.chunks(block as usize).flat_map(|c| c.iter().rev().map(|x| x + 5)).collect();
        assert_eq!(bench.download::<u32>(px, n), expected, "block of {block}");
    }
}

#[test]
fn divergent_loops_end_lane_by_lane() {
    let Some(bench) = Bench::new("basics") else { return };
    let x: Vec<u32> = (1..=1000).collect();
    let (px, py) = (bench.upload(&x), bench.upload(&vec![0u32; 1000]));
    bench.run("collatz", 16, 64, &Args::new().with(px).with(py).with(1000i32));
    let steps = |x: &u32| {
        let (mut value, mut count) = (u64::from(*x), 0u32);
        while value != 1 {
            value = if value % 2 == 1 { 3 * value + 1 } else { value / 2 };
            count += 1;
        }
        count
    };
    assert_eq!(bench.download::<u32>(py, 1000), x.iter().map(steps).collect::<Vec<_>>());
}

#[test]
fn three_dimensional_grids_and_blocks() {
    let Some(bench) = Bench::new("basics") else { return };
    let (grid, block) = ([3u32, 2, 4], [5u32, 7, 3]);
    let items: u32 = grid.iter().chain(&block).product();
    let out = bench.upload(&vec![u32::MAX; 6 * items as usize]);
    bench.try_run("places", grid, block, 0, &Args::new().with(out)).unwrap_or_else(|error| panic!("{error}"));
    let mut expected = Vec::new();
    for group in 0..grid.iter().product::<u32>() {
        for item in 0..block.iter().product::<u32>() {
            expected.extend([item % 5, item / 5 % 7, item / 35]);
            expected.extend([group % 3, group / 3 % 2, group / 6]);
        }
    }
    assert_eq!(bench.download::<u32>(out, expected.len()), expected);
}
