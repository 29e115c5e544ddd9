//! References of `sort.hip`.

use crate::bench::{Bench, args, below, cases, floats, noise, same};

cases!(bitonic, wave_bitonic, odd_even, merge_path, radix, counting, rank, top_eight, heap_sort);

/// Each run of `len` elements sorted.
fn sorted_runs<T: Ord + Copy>(x: &[T], len: usize) -> Vec<T> {
    let mut x = x.to_vec();
    x.chunks_mut(len).for_each(<[T]>::sort_unstable);
    x
}

fn bitonic(b: &Bench) {
    let x = noise(1, 1024);
    let px = b.upload(&x);
    b.run("bitonic", 2, 256, args![px]);
    same(&b.download::<u32>(px, 1024), &sorted_runs(&x, 512));
}

fn wave_bitonic(b: &Bench) {
    let n = 4 * b.wave();
    let keys = floats(2, n);
    let (pk, pp) = (b.upload(&keys), b.upload(&(0..n as u32).collect::<Vec<_>>()));
    b.run("wave_bitonic", 2, n as u32 / 2, args![pk, pp]);
    let mut want: Vec<(f32, u32)> = keys.iter().copied().zip(0..).collect();
    want.chunks_mut(b.wave()).for_each(|own| own.sort_by(|a, b| a.0.total_cmp(&b.0)));
    same(&b.download::<f32>(pk, n), &want.iter().map(|pair| pair.0).collect::<Vec<_>>());
    same(&b.download::<u32>(pp, n), &want.iter().map(|pair| pair.1).collect::<Vec<_>>());
}

fn odd_even(b: &Bench) {
    for n in [2usize, 77, 128] {
        let x: Vec<i16> = noise(3, n).into_iter().map(|x| x as i16).collect();
        let px = b.upload(&x);
        b.run("odd_even", 1, 128, args![px, n as i32]);
        same(&b.download::<i16>(px, n), &sorted_runs(&x, n));
    }
}

fn merge_path(b: &Bench) {
    let (x, y) = (sorted_runs(&below(4, 500, 900), 500), sorted_runs(&below(5, 333, 900), 333));
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<u32>(833));
    b.run("merge_path", 2, 64, args![px, 500i32, py, 333i32, out, 7i32]);
    same(&b.download::<u32>(out, 833), &sorted_runs(&[x, y].concat(), 833));
}

fn radix(b: &Bench) {
    let x = noise(6, 512);
    let px = b.upload(&x);
    b.run("radix", 2, 256, args![px]);
    same(&b.download::<u32>(px, 512), &sorted_runs(&x, 256));
}

fn counting(b: &Bench) {
    let x: Vec<u8> = below(7, 1500, 256).into_iter().map(|x| x as u8).collect();
    let px = b.upload(&x);
    b.run("counting", 1, 256, args![px, 1500i32]);
    same(&b.download::<u8>(px, 1500), &sorted_runs(&x, 1500));
}

fn rank(b: &Bench) {
    let x: Vec<i32> = below(8, 300, 100).into_iter().map(|x| x as i32 - 50).collect();
    let (px, out, ranks) = (b.upload(&x), b.zeros::<i32>(300), b.zeros::<u32>(300));
    b.run("rank", 3, 128, args![px, out, ranks, 300i32]);
    let mut order: Vec<usize> = (0..300).collect();
    order.sort_by_key(|&i| x[i]);
    let mut want = vec![0u32; 300];
    order.iter().enumerate().for_each(|(rank, &i)| want[i] = rank as u32);
    same(&b.download::<i32>(out, 300), &sorted_runs(&x, 300));
    same(&b.download::<u32>(ranks, 300), &want);
}

fn top_eight(b: &Bench) {
    let (lanes, n) = (128, 30);
    let x = floats(9, lanes * n);
    let (px, top) = (b.upload(&x), b.zeros::<f32>(8 * lanes));
    b.run("top_eight", 2, 64, args![px, top, n as i32]);
    let best = |lane: usize| {
        let mut own: Vec<f32> = x.iter().skip(lane).step_by(lanes).copied().collect();
        own.sort_by(|a, b| b.total_cmp(a));
        own.truncate(8);
        own
    };
    same(&b.download::<f32>(top, 8 * lanes), &(0..lanes).flat_map(best).collect::<Vec<_>>());
}

fn heap_sort(b: &Bench) {
    let x = noise(10, 64 * 32);
    let px = b.upload(&x);
    b.run("heap_sort", 1, 64, args![px]);
    same(&b.download::<u32>(px, x.len()), &sorted_runs(&x, 32));
}
