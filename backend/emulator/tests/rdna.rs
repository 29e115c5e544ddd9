//! Kernels on the RDNA line, with waves of 32 and of 64 lanes: what its families do in their own way, and the kernels of
//! the other tests, whose launches look different there (places in registers of their own, scratch through buffers).

mod common;

use common::{Args, Bench};
use half::f16;

/// A GPU of each family, and others that have their family's instructions.
const TARGETS: [&str; 6] = ["gfx1030", "gfx1100", "gfx1102", "gfx1150", "gfx1200", "gfx1201"];

/// Runs `check` on every target, with waves of 32 lanes and of 64.
fn everywhere(name: &str, check: impl Fn(&Bench, u32)) {
    for target in TARGETS {
        for wave in [32, 64] {
            let Some(bench) = Bench::on(name, target, wave) else { return };
            println!("{target}, waves of {wave}");
            check(&bench, wave);
        }
    }
}

fn noise(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| i.wrapping_mul(0x9e37_79b9) ^ i.wrapping_mul(0x85eb_ca6b).rotate_left(13)).collect()
}

const ITEMS: usize = 128;

#[test]
fn single_halves_stay_apart() {
    let values = |seed: u32| -> Vec<f16> {
        noise(2 * ITEMS)[seed as usize..][..ITEMS]
            .iter()
            .map(|x| f16::from_f32((x % 4001) as f32 / 16.0 - 125.0))
            .collect()
    };
    let (a, b) = (values(0), values(77));
    everywhere("rdna", |bench, _| {
        let (pa, pb, out) = (bench.upload(&bits(&a)), bench.upload(&bits(&b)), bench.upload(&vec![0u16; 8 * ITEMS]));
        bench.run("halves", 2, 64, &Args::new().with(pa).with(pb).with(out));
        let got = bench.download::<u16>(out, 8 * ITEMS);
        for i in 0..ITEMS {
            let (x, y, z) = (a[i].to_f32(), b[i].to_f32(), a[i ^ 1].to_f32());
            // Products of two halves are exact in f32, and so is their sum with a third in f64.
            let fused = f16::from_f64(f64::from(x) * f64::from(y) + f64::from(z)).to_f32();
            let integer = (x as i16 as f32) + (y as i16 as f32);
            let expected = [
                x + y,
                x * y,
                fused,
                x.min(y),
                integer,
                -x,
                (f16::from_f32(x - z).to_f32()).abs(),
                if x < z { y } else { z },
            ];
            let expected = expected.map(|value| f16::from_f32(value).to_bits());
            assert_eq!(got[8 * i..8 * i + 8], expected, "item {i}: {x} {y} {z}");
        }
    });
}

fn bits(values: &[f16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn short_integers_wrap_and_shift() {
    let a: Vec<i16> = noise(ITEMS).iter().map(|&x| (x >> 7) as i16).collect();
    let b: Vec<u16> = noise(2 * ITEMS)[ITEMS..].iter().map(|&x| (x >> 3) as u16).collect();
    everywhere("rdna", |bench, _| {
        let (pa, pb, out) = (bench.upload(&a), bench.upload(&b), bench.upload(&vec![0i16; 8 * ITEMS]));
        bench.run("shorts", 2, 64, &Args::new().with(pa).with(pb).with(out));
        let got = bench.download::<i16>(out, 8 * ITEMS);
        for i in 0..ITEMS {
            let (x, y) = (i32::from(a[i]), i32::from(b[i]));
            let last = if (a[i] as u16) < b[i] { x - y } else { x << (y & 7) };
            let expected = [
                x + y,
                x.wrapping_mul(y),
                x >> (y & 15),
                y >> (x & 15),
                i32::from(a[i].min(b[i] as i16)),
                x ^ !y,
                (x.wrapping_mul(y) as u32 >> 16) as i32,
                last,
            ];
            assert_eq!(got[8 * i..8 * i + 8], expected.map(|value| value as i16), "item {i}: {x} {y}");
        }
    });
}

#[test]
fn packed_halves_take_either_half() {
    let values = |seed: usize| -> Vec<f16> {
        noise(5 * ITEMS)[seed..][..2 * ITEMS].iter().map(|x| f16::from_f32((x % 251) as f32 / 8.0 - 15.0)).collect()
    };
    let (a, b) = (values(0), values(300));
    everywhere("rdna", |bench, _| {
        let (pa, pb, out) = (bench.upload(&bits(&a)), bench.upload(&bits(&b)), bench.upload(&vec![0u16; 8 * ITEMS]));
        bench.run("pairs", 2, 64, &Args::new().with(pa).with(pb).with(out));
        let got = bench.download::<u16>(out, 8 * ITEMS);
        for i in 0..ITEMS {
            for half in 0..2 {
                let (x, y) = (a[2 * i + half].to_f64(), b[2 * i + half].to_f64());
                let crossed = b[2 * i + 1 - half].to_f64();
                let expected = [x + y, x * crossed, x * y - x, x.max(y)].map(|value| f16::from_f64(value).to_bits());
                let got: [u16; 4] = std::array::from_fn(|k| got[8 * i + 2 * k + half]);
                assert_eq!(got, expected, "item {i} half {half}: {x} {y}");
            }
        }
    });
}

#[test]
fn lanes_reach_one_another() {
    let x = noise(64);
    everywhere("rdna", |bench, wave| {
        let (px, out) = (bench.upload(&x), bench.upload(&vec![0u32; 8 * 64]));
        bench.run("lanes", 1, 64, &Args::new().with(px).with(out));
        let got = bench.download::<u32>(out, 8 * 64);
        for t in 0..64usize {
            let (lane, first) = (t % wave as usize, t / wave as usize * wave as usize);
            let of = |lane: usize| x[first + lane];
            let odd: Vec<bool> = (0..wave as usize).map(|lane| of(lane) & 1 == 1).collect();
            let expected = [
                of((lane + 1) & 31 | lane & 32),
                if lane % 16 == 0 { 7 } else { of(lane - 1) },
                of(lane ^ 16),
                of(lane ^ 1),
                of(5),
                odd.iter().filter(|&&odd| odd).count() as u32,
                odd[..lane].iter().filter(|&&odd| odd).count() as u32,
                // Three bits for each lane of eight, the first one lowest.
                of(lane & !7 | 0x05_3977 >> (3 * (lane & 7)) & 7),
            ];
            assert_eq!(got[8 * t..8 * t + 8], expected, "work-item {t}, waves of {wave}");
        }
    });
}

#[test]
fn double_precision_divides_and_roots_exactly() {
    let values = |seed: usize| -> Vec<f64> {
        noise(3 * ITEMS)[seed..][..ITEMS].iter().map(|&x| f64::from(x) / 977.0 + 0.001).collect()
    };
    let (a, b) = (values(0), values(200));
    everywhere("rdna", |bench, _| {
        let (pa, pb, out) = (bench.upload(&a), bench.upload(&b), bench.upload(&vec![0f64; 4 * ITEMS]));
        bench.run("doubles", 2, 64, &Args::new().with(pa).with(pb).with(out));
        let got = bench.download::<f64>(out, 4 * ITEMS);
        for i in 0..ITEMS {
            let (x, y) = (a[i], b[i]);
            assert_eq!(got[4 * i..4 * i + 4], [x / y, x.mul_add(y, 0.5), x.sqrt(), x.min(y)], "item {i}: {x} {y}");
        }
    });
}

#[test]
fn wide_integers_multiply_and_divide() {
    let values = |seed: usize, shift: u32| -> Vec<u64> {
        let parts = noise(4 * ITEMS);
        (0..ITEMS)
            .map(|i| {
                (u64::from(parts[seed + i]) << 32 | u64::from(parts[seed + 2 * i])) >> (shift * (i as u32 % 3)) | 1
            })
            .collect()
    };
    let (a, b) = (values(0, 5), values(100, 20));
    everywhere("rdna", |bench, _| {
        let (pa, pb, out) = (bench.upload(&a), bench.upload(&b), bench.upload(&vec![0u64; 4 * ITEMS]));
        bench.run("wide", 2, 64, &Args::new().with(pa).with(pb).with(out));
        let got = bench.download::<u64>(out, 4 * ITEMS);
        for i in 0..ITEMS {
            let (x, y) = (a[i], b[i]);
            let shifted = if x < y { x << (y & 63) } else { x >> (y & 63) };
            assert_eq!(got[4 * i..4 * i + 4], [x.wrapping_mul(y), x / y, x % y, shifted], "item {i}: {x} {y}");
        }
    });
}

#[test]
fn barriers_hold_waves_of_uneven_length() {
    everywhere("rdna", |bench, _| {
        let out = bench.upload(&[0u32; 200]);
        let counters = bench.run("uneven", 1, 200, &Args::new().with(out));
        let sum: u32 = 3 * (0..200).map(|t| t % 7).sum::<u32>();
        assert_eq!(bench.download::<u32>(out, 200), [sum; 200]);
        assert!(counters.barrier > 0);
    });
}

#[test]
fn a_workgroup_is_cut_into_waves_of_either_size() {
    everywhere("basics", |bench, wave| {
        let n = 300usize;
        let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32, 0.5 * i as f32)).unzip();
        let (pa, pb, pc) = (bench.upload(&a), bench.upload(&b), bench.upload(&vec![0f32; n]));
        let counters = bench.run("vector_add", 3, 100, &Args::new().with(pa).with(pb).with(pc).with(n as i32));
        let expected: Vec<f32> = (0..n).map(|i| 1.5 * i as f32).collect();
        assert_eq!(bench.download::<f32>(pc, n), expected);
        assert_eq!(counters.waves, 3 * 100u64.div_ceil(wave.into()));
        assert_eq!((counters.global_read_bytes, counters.global_written_bytes), (8 * n as u64, 4 * n as u64));
    });
}

#[test]
fn work_items_and_workgroups_know_their_places() {
    let (grid, block) = ([3u32, 2, 4], [5u32, 7, 3]);
    let mut expected = Vec::new();
    for group in 0..grid.iter().product::<u32>() {
        for item in 0..block.iter().product::<u32>() {
            expected.extend([item % 5, item / 5 % 7, item / 35, group % 3, group / 3 % 2, group / 6]);
        }
    }
    everywhere("basics", |bench, _| {
        let out = bench.upload(&vec![u32::MAX; expected.len()]);
        bench.try_run("places", grid, block, 0, &Args::new().with(out)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(bench.download::<u32>(out, expected.len()), expected);
    });
}

fn mix(a: u32, b: u32) -> u32 {
    a.wrapping_mul(2_654_435_761) ^ (b >> 3)
}

#[test]
fn calls_recursion_and_private_arrays_find_their_stack() {
    let (n, items, values) = (300usize, 128usize, 40usize);
    let x = noise(items * values);
    everywhere("stack", |bench, _| {
        let (px, out) = (bench.upload(&x), bench.upload(&vec![0u32; n]));
        bench.run("calls", 3, 100, &Args::new().with(px).with(out).with(n as i32));
        let expected: Vec<u32> = (0..n).map(|i| (0..8).fold(1, |sum, k| mix(sum, x[(i + k) % n]))).collect();
        assert_eq!(bench.download::<u32>(out, n), expected);
        bench.run("recursion", 1, 64, &Args::new().with(out));
        let expected: Vec<u32> = (0..64).map(|i| 2 * (i % 8) + 3).collect();
        assert_eq!(bench.download::<u32>(out, 64), expected);
        let counters = bench.run("histogram", 2, 64, &Args::new().with(px).with(out).with(values as i32));
        let histogram = |own: &[u32]| {
            let mut count = [0u32; 96];
            for (k, x) in own.iter().enumerate() {
                count[*x as usize % 96] += k as u32 + 1;
            }
            count.iter().fold(0u32, |sum, count| sum.wrapping_mul(31).wrapping_add(*count))
        };
        assert_eq!(bench.download::<u32>(out, items), x.chunks(values).map(histogram).collect::<Vec<_>>());
        assert!(counters.scratch_bytes > 0, "{counters:?}");
    });
}

#[test]
fn generic_pointers_and_global_variables() {
    everywhere("stack", |bench, _| {
        let (px, out) = (bench.upload(&[10u32, 20, 30, 40]), bench.upload(&[0u32; 64]));
        bench.run("generic", 1, 64, &Args::new().with(px).with(out));
        let generic = |t: u32| match t % 3 {
            0 => (t % 4 + 1) * 10,
            1 => 1000 + t % 4,
            _ => 2000 + t * 4 + t % 4,
        };
        assert_eq!(bench.download::<u32>(out, 64), (0..64).map(generic).collect::<Vec<_>>());
        // One wave of either size: the kernel writes what others may be reading.
        bench.run("globals", 1, 32, &Args::new().with(out));
        let (primes, table) = ([2u32, 3, 5, 7, 11, 13, 17, 19], [3u32, 1, 4, 1]);
        let expected: Vec<u32> = (0..32).map(|t| primes[t & 7] + table[t & 3]).collect();
        assert_eq!(bench.download::<u32>(out, 32), expected);
    });
}

#[test]
fn atomics_count_add_and_swap() {
    let n = 2000usize;
    let x = noise(n);
    everywhere("atomics", |bench, _| {
        let (px, counts) = (bench.upload(&x), bench.upload(&[0u32; 16]));
        bench.run("histogram", 4, 128, &Args::new().with(px).with(counts).with(n as i32));
        let mut expected = [0u32; 16];
        x.iter().for_each(|x| expected[*x as usize & 15] += 1);
        assert_eq!(bench.download::<u32>(counts, 16), expected);
        let (low, high, sum) = (bench.upload(&[i32::MAX]), bench.upload(&[0u32]), bench.upload(&[0u64]));
        bench.run("extremes", 4, 128, &Args::new().with(px).with(low).with(high).with(sum));
        let used = &x[..512];
        assert_eq!(bench.download::<i32>(low, 1), [used.iter().map(|&x| x as i32).min().unwrap()]);
        assert_eq!(bench.download::<u32>(high, 1), [*used.iter().max().unwrap()]);
        assert_eq!(bench.download::<u64>(sum, 1), [used.iter().map(|&x| u64::from(x)).sum::<u64>()]);
        let sum = bench.upload(&[0u32]);
        bench.run("swap_loop", 2, 64, &Args::new().with(sum));
        assert_eq!(bench.download::<u32>(sum, 1), [2 * (0..64).sum::<u32>()]);
        let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
        let (px, sum) = (bench.upload(&values), bench.upload(&[0f32]));
        bench.run("float_sum", 1, 64, &Args::new().with(px).with(sum));
        assert_eq!(bench.download::<f32>(sum, 1), [2016.0]);
    });
}
