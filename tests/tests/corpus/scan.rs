//! References of `scan.hip`.

use crate::bench::{Bench, args, below, cases, noise, same, whole};

cases!(kogge_stone, hillis_steele, blelloch, look_back, segmented_max, compact_odd, run_lengths, recurrence);

/// Sums of all elements up to and with each.
fn inclusive(x: &[u32]) -> Vec<u32> {
    x.iter()
        .scan(0u32, |sum, x| {
            *sum = sum.wrapping_add(*x);
            Some(*sum)
        })
        .collect()
}

fn kogge_stone(b: &Bench) {
    let n = 6 * b.wave();
    let x = noise(1, n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(n));
    b.run("kogge_stone", 2, 3 * b.wave() as u32, args![px, out]);
    same(&b.download::<u32>(out, n), &x.chunks(b.wave()).flat_map(inclusive).collect::<Vec<_>>());
}

fn hillis_steele(b: &Bench) {
    let x = whole(2, 512);
    let (px, out) = (b.upload(&x), b.zeros::<f32>(512));
    b.run("hillis_steele", 2, 256, args![px, out]);
    let scan = |own: &[f32]| {
        own.iter()
            .scan(0f32, |sum, x| {
                *sum += x;
                Some(*sum)
            })
            .collect::<Vec<_>>()
    };
    same(&b.download::<f32>(out, 512), &x.chunks(256).flat_map(scan).collect::<Vec<_>>());
}

fn blelloch(b: &Bench) {
    let x = noise(3, 768);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(768));
    b.run("blelloch", 3, 128, args![px, out]);
    let exclusive =
        |own: &[u32]| inclusive(own).iter().zip(own).map(|(sum, x)| sum.wrapping_sub(*x)).collect::<Vec<_>>();
    same(&b.download::<u32>(out, 768), &x.chunks(256).flat_map(exclusive).collect::<Vec<_>>());
}

fn look_back(b: &Bench) {
    let x = noise(4, 1024);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(1024));
    b.run("look_back", 1, 1024, args![px, out]);
    same(&b.download::<u32>(out, 1024), &inclusive(&x));
}

fn segmented_max(b: &Bench) {
    let n = 4 * b.wave();
    let x: Vec<i32> = noise(5, n).into_iter().map(|x| x as i32).collect();
    let heads: Vec<u32> = below(6, n, 6).into_iter().map(|x| u32::from(x == 0)).collect();
    let (px, ph, out) = (b.upload(&x), b.upload(&heads), b.zeros::<i32>(n));
    b.run("segmented_max", 1, n as u32, args![px, ph, out]);
    let mut want = x.clone();
    for i in 1..n {
        if i % b.wave() != 0 && heads[i] == 0 {
            want[i] = want[i].max(want[i - 1]);
        }
    }
    same(&b.download::<i32>(out, n), &want);
}

fn compact_odd(b: &Bench) {
    let x = noise(7, 1000);
    let (px, out, count) = (b.upload(&x), b.zeros::<u32>(1000), b.zeros::<u32>(1));
    b.run("compact_odd", 4, 256, args![px, out, count, 1000i32]);
    let want: Vec<u32> = x.iter().copied().filter(|x| x & 1 == 1).collect();
    same(&b.download::<u32>(count, 1), &[want.len() as u32]);
    // An emulated device runs workgroups with returning atomics in order.
    same(&b.download::<u32>(out, want.len()), &want);
}

fn run_lengths(b: &Bench) {
    let n = 4 * b.wave();
    let x = below(8, n, 3);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(n));
    b.run("run_lengths", 2, 2 * b.wave() as u32, args![px, out]);
    let lengths = |own: &[u32]| {
        let mut lengths = vec![0u32; own.len()];
        let mut head = 0;
        for i in 0..own.len() {
            if own[i] != own[head] {
                head = i;
            }
            lengths[head] += 1;
        }
        lengths
    };
    same(&b.download::<u32>(out, n), &x.chunks(b.wave()).flat_map(lengths).collect::<Vec<_>>());
}

fn recurrence(b: &Bench) {
    let (a, c) = (noise(9, 256), noise(10, 256));
    let (pa, pc, y) = (b.upload(&a), b.upload(&c), b.zeros::<u32>(256));
    b.run("recurrence", 2, 128, args![pa, pc, y]);
    let mut want = c.clone();
    for i in (0..256).filter(|i| i % 128 != 0) {
        want[i] = want[i - 1].wrapping_mul(a[i]).wrapping_add(c[i]);
    }
    same(&b.download::<u32>(y, 256), &want);
}
