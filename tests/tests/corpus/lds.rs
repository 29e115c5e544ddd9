//! References of `lds.hip`.

use crate::bench::{Bench, args, cases, floats, noise, same};

cases!(dynamic, beside, widths, narrow_stores, all_of_it, pointers_inside, pipeline, shared_state);

fn dynamic(b: &Bench) {
    for n in [32usize, 100, 256] {
        let x = noise(1, n);
        let (px, out) = (b.upload(&x), b.zeros::<u32>(n));
        b.run_with_lds("dynamic", 1, n as u32, 6 * n as u32, args![px, out, n as i32]);
        let of = |t: usize| x[n - 1 - t].wrapping_add(x[(t + 1) % n] >> 16);
        same(&b.download::<u32>(out, n), &(0..n).map(of).collect::<Vec<_>>());
    }
}

fn beside(b: &Bench) {
    let x = noise(2, 64);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(64));
    b.run_with_lds("beside", 1, 64, 256, args![px, out]);
    same(&b.download::<u32>(out, 64), &(0..64).map(|t| x[63 - t] ^ !x[(t + 7) & 63]).collect::<Vec<_>>());
}

fn widths(b: &Bench) {
    let x = noise(3, 256);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(64));
    b.run("widths", 1, 64, args![px, out]);
    let room: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let read =
        |at: usize, bytes: usize| room[at..at + bytes].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    use std::num::Wrapping as W;
    let of = |t: usize| {
        let byte = |at: usize| W(read(at, 1) as u32);
        let half = |at: usize| read(2 * at, 2) as u16;
        let word = |at: usize| W(x[at]);
        let mut sum = byte(5 * t) + W(read(7 * t + 1, 1) as i8 as u32) * W(3);
        sum = sum * W(5) + W(u32::from(half(3 * t))) + W(half(4 * t + 3) as i16 as u32);
        sum = sum * W(7) + word(t) + word(t + 64) * W(9) + word(255 - t);
        sum = sum * W(11) + W((read(8 * t, 8) >> 17) as u32) + W(read(8 * t + 512, 8) as u32);
        let three = 4 * (63 - t);
        (sum * W(13) + word(three) + word(three + 1) * W(2) + word(three + 2) * W(3)).0
    };
    same(&b.download::<u32>(out, 64), &(0..64).map(of).collect::<Vec<_>>());
}

fn narrow_stores(b: &Bench) {
    let x = noise(4, 64);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(64));
    b.run("narrow_stores", 1, 64, args![px, out]);
    let mut room = [0u8; 256];
    for (t, x) in x.iter().enumerate() {
        room[t] = *x as u8;
        room[64 + 2 * t..][..2].copy_from_slice(&((x >> 3) as u16).to_le_bytes());
    }
    // Lanes of one remainder write the same value.
    for k in 0..8 {
        room[192 + 8 * k..][..8].copy_from_slice(&(u64::from(x[56 + k]) << 11).to_le_bytes());
    }
    let want: Vec<u32> = room.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect();
    same(&b.download::<u32>(out, 64), &want);
}

fn all_of_it(b: &Bench) {
    let n = b.arch().lds_bytes as usize / 4;
    let x = noise(5, 256);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(512));
    b.run_with_lds("all_of_it", 2, 256, 4 * n as u32, args![px, out, n as i32]);
    let room: Vec<u32> = (0..n).map(|i| x[i & 255].wrapping_mul(i as u32 + 1)).collect();
    let of = |t: usize| (t..n).step_by(256).fold(0u32, |sum, i| sum.wrapping_add(room[n - 1 - i] ^ i as u32));
    // Both workgroups do the same.
    let want: Vec<u32> = (0..256).map(of).collect();
    same(&b.download::<u32>(out, 512), &want.repeat(2));
}

fn pointers_inside(b: &Bench) {
    let x = noise(6, 128);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(128));
    b.run("pointers_inside", 1, 128, args![px, out, 9i32]);
    let of = |t: usize| {
        let places = std::iter::successors(Some(t), |at| Some((at * 37 + 11) & 127));
        places.take(9 + t % 3).fold(0u32, |sum, at| sum.wrapping_mul(3).wrapping_add(x[at]))
    };
    same(&b.download::<u32>(out, 128), &(0..128).map(of).collect::<Vec<_>>());
}

fn pipeline(b: &Bench) {
    let tiles = 7;
    let x = floats(7, 64 * tiles);
    let (px, out) = (b.upload(&x), b.zeros::<f32>(64));
    b.run("pipeline", 1, 64, args![px, out, tiles as i32]);
    let of = |t: usize| {
        let terms = (0..8 * tiles).map(|i| x[i / 8 * 64 + ((t + i % 8 * 5) & 63)] * (i % 8 + 1) as f32);
        terms.fold(0f32, |sum, term| sum + term)
    };
    same(&b.download::<f32>(out, 64), &(0..64).map(of).collect::<Vec<_>>());
}

fn shared_state(b: &Bench) {
    let x = noise(8, 128);
    let (px, out, limit) = (b.upload(&x), b.zeros::<u32>(128), 50_000_000u32);
    b.run("shared_state", 1, 128, args![px, out, limit]);
    let once: u64 = x.iter().map(|x| u64::from(x >> 8)).sum();
    let rounds = (u64::from(limit) << 8) / once + 1;
    let of = |t: u32| ((once * rounds) as u32).wrapping_add(rounds as u32 * t);
    same(&b.download::<u32>(out, 128), &(0..128).map(of).collect::<Vec<_>>());
}
