//! References of `histogram.hip`.

use crate::bench::{Bench, args, below, cases, floats, noise, same};

cases!(global_counts, shared_counts, packed_counts, ballot_counts, plane_counts, seen);

/// How often each of `bins` values occurs.
fn counts(values: impl IntoIterator<Item = usize>, bins: usize) -> Vec<u32> {
    let mut counts = vec![0; bins];
    values.into_iter().for_each(|value| counts[value] += 1);
    counts
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    below(seed, len, 256).into_iter().map(|x| x as u8).collect()
}

fn global_counts(b: &Bench) {
    let (x, weights) = (noise(1, 500), noise(2, 500));
    let (px, pw, out) = (b.upload(&x), b.upload(&weights), b.zeros::<u32>(37));
    b.run("global_counts", 2, 256, args![px, pw, out, 500i32, 37u32]);
    let mut want = vec![0u32; 37];
    x.iter().zip(&weights).for_each(|(x, w)| want[*x as usize % 37] = want[*x as usize % 37].wrapping_add(*w));
    same(&b.download::<u32>(out, 37), &want);
}

fn shared_counts(b: &Bench) {
    let x = bytes(3, 3000);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(256));
    b.run("shared_counts", 3, 256, args![px, out, 3000i32]);
    same(&b.download::<u32>(out, 256), &counts(x.into_iter().map(usize::from), 256));
}

fn packed_counts(b: &Bench) {
    let x = bytes(4, 2000);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(16));
    b.run("packed_counts", 1, 64, args![px, out, 2000i32]);
    same(&b.download::<u32>(out, 16), &counts(x.into_iter().map(|x| usize::from(x >> 4)), 16));
}

fn ballot_counts(b: &Bench) {
    let x = noise(5, 512);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(16));
    b.run("ballot_counts", 2, 256, args![px, out]);
    same(&b.download::<u32>(out, 16), &counts(x.into_iter().map(|x| x as usize & 15), 16));
}

fn plane_counts(b: &Bench) {
    let points = floats(6, 2 * 400);
    let (low, scale) = (-0.9f32, 7.0f32);
    let (pp, out, outside) = (b.upload(&points), b.zeros::<u32>(144), b.zeros::<u32>(1));
    b.run("plane_counts", 2, 256, args![pp, out, outside, 400i32, low, scale]);
    let place = |point: &[f32]| {
        let [x, y] = [0, 1].map(|k| ((point[k] - low) * scale).floor() as i32);
        ((0..12).contains(&x) && (0..12).contains(&y)).then_some((y * 12 + x) as usize)
    };
    let places: Vec<_> = points.chunks(2).map(place).collect();
    same(&b.download::<u32>(out, 144), &counts(places.iter().copied().flatten(), 144));
    same(&b.download::<u32>(outside, 1), &[places.iter().filter(|place| place.is_none()).count() as u32]);
}

fn seen(b: &Bench) {
    let x = bytes(7, 300);
    let (px, first, last) = (b.upload(&x), b.upload(&[u32::MAX; 256]), b.upload(&[-1i32; 256]));
    b.run("seen", 2, 192, args![px, first, last, 300i32]);
    let find = |value: usize| x.iter().position(|&x| usize::from(x) == value);
    let rfind = |value: usize| x.iter().rposition(|&x| usize::from(x) == value);
    same(&b.download::<u32>(first, 256), &(0..256).map(|v| find(v).map_or(u32::MAX, |i| i as u32)).collect::<Vec<_>>());
    same(&b.download::<i32>(last, 256), &(0..256).map(|v| rfind(v).map_or(-1, |i| i as i32)).collect::<Vec<_>>());
}
