//! References of `atomics.hip`. Where lanes contend only what no order changes is compared.

use bytemuck::Pod;
use half::f16;
use rocfire_arch::{ArchInfo, Family};

use crate::bench::{Bench, Case, args, noise, same, whole, words};

pub const CASES: &[Case] = &[
    Case::new("returning_u32", |b| returning::<u32>(b, "u32")),
    Case::new("returning_i32", |b| returning::<i32>(b, "i32")),
    Case::new("returning_u64", |b| returning::<u64>(b, "u64")),
    Case::new("returning_i64", |b| returning::<i64>(b, "i64")),
    Case::new("contended_u32", |b| contended::<u32>(b, "u32")),
    Case::new("contended_i32", |b| contended::<i32>(b, "i32")),
    Case::new("contended_u64", |b| contended::<u64>(b, "u64")),
    Case::new("contended_i64", |b| contended::<i64>(b, "i64")),
    Case::new("wrapping", wrapping),
    Case::new("contended_float", |b| contended_floats(b, "float", |x| x)),
    Case::new("contended_double", |b| contended_floats(b, "double", f64::from)),
    Case::new("returning_float", |b| returning_floats(b, "float", |x| x)),
    Case::new("returning_double", |b| returning_floats(b, "double", f64::from)),
    Case::needing("packed_halves", adds_packed_halves, packed_halves),
    Case::new("swap_loops", swap_loops),
    Case::new("lock", lock),
    Case::new("last_group", last_group),
    Case::new("push", push),
];

/// Integers of both widths, signed and not.
trait Integer: Pod + Ord + std::fmt::Debug {
    fn of(word: u64) -> Self;
    fn apply(self, op: usize, x: Self) -> Self;
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl Integer for $kind {
            fn of(word: u64) -> Self {
                word as Self
            }
            fn apply(self, op: usize, x: Self) -> Self {
                match op {
                    0 => self.wrapping_add(x),
                    1 => self.wrapping_sub(x),
                    2 => self.min(x),
                    3 => self.max(x),
                    4 => self & x,
                    5 => self | x,
                    6 => self ^ x,
                    7 => x,
                    _ => if self == 1 { x } else { self },
                }
            }
        }
    )*};
}
integers!(u32, i32, u64, i64);

fn returning<T: Integer>(b: &Bench, name: &str) {
    let n = 64;
    let x: Vec<T> = words(1, n).into_iter().map(T::of).collect();
    // The cells of the comparison hold 0, 1 and 2.
    let cells: Vec<T> = words(2, 9 * n)
        .into_iter()
        .enumerate()
        .map(|(i, word)| T::of(if i >= 8 * n { word % 3 } else { word }))
        .collect();
    let want: Vec<T> = cells.iter().enumerate().map(|(i, cell)| cell.apply(i / n, x[i % n])).collect();
    for kernel in ["returning", "shared_returning"] {
        let (pc, px, old) = (b.upload(&cells), b.upload(&x), b.zeros::<T>(9 * n));
        b.run(&format!("{kernel}_{name}"), 1, n as u32, args![pc, px, old]);
        same(&b.download::<T>(old, 9 * n), &cells);
        same(&b.download::<T>(pc, 9 * n), &want);
    }
}

fn contended<T: Integer>(b: &Bench, name: &str) {
    let (n, count) = (256, 10);
    let x: Vec<T> = words(3, n).into_iter().map(T::of).collect();
    let cells: Vec<T> = words(4, 7 * count).into_iter().map(T::of).collect();
    let mut want = cells.clone();
    for (at, cell) in want.iter_mut().enumerate() {
        *cell = x.iter().skip(at % count).step_by(count).fold(*cell, |cell, x| cell.apply(at / count, *x));
    }
    let (pc, px) = (b.upload(&cells), b.upload(&x));
    b.run(&format!("contended_{name}"), 2, 128, args![pc, px, count as i32]);
    same(&b.download::<T>(pc, 7 * count), &want);
    let pc = b.upload(&cells);
    b.run(&format!("shared_contended_{name}"), 1, 256, args![pc, px]);
    same(&b.download::<T>(pc, 7 * count), &want);
}

fn wrapping(b: &Bench) {
    let limit = 6u32;
    let (narrow, wide, old) = (b.upload(&[3u32, 3, 9, 9, 9, 9]), b.upload(&[5u64, 1 << 40]), b.zeros::<u32>(128));
    b.run("wrapping", 2, 64, args![narrow, wide, old, limit]);
    let up = |cell: u64, limit: u64| if cell >= limit { 0 } else { cell + 1 };
    let down = |cell: u64, limit: u64| if cell == 0 || cell > limit { limit } else { cell - 1 };
    let after = |start: u64, limit: u64, times: usize, step: fn(u64, u64) -> u64| {
        (0..times).fold(start, |cell, _| step(cell, limit))
    };
    let own = [after(0, 6, 64, up) as u32, after(0, 6, 64, down) as u32];
    let want = [after(3, 6, 128, up) as u32, after(3, 6, 128, down) as u32, own[0], own[1], own[0], own[1]];
    same(&b.download::<u32>(narrow, 6), &want);
    same(&b.download::<u64>(wide, 2), &[after(5, 6 << 33, 128, up), after(1 << 40, 6 << 33, 128, down)]);
    let mut seen = b.download::<u32>(old, 128);
    seen.sort_unstable();
    let mut want: Vec<u32> = (0..128).map(|i| (3 + i) % 7).collect();
    want.sort_unstable();
    same(&seen, &want);
}

fn contended_floats<T: Pod + std::fmt::Debug>(b: &Bench, name: &str, of: fn(f32) -> T) {
    let n = 256;
    let numbers = whole(5, n);
    let x: Vec<T> = numbers.iter().map(|&x| of(x)).collect();
    let px = b.upload(&x);
    let fold = |op: fn(f32, f32) -> f32| of(numbers.iter().copied().fold(0.5, op));
    let want = [of(100.0 + numbers.iter().sum::<f32>()), fold(f32::min), fold(f32::max)];
    for (kernel, grid) in [("contended", 4), ("shared_contended", 1)] {
        let cells = b.upload(&[of(100.0), of(0.5), of(0.5)]);
        b.run(&format!("{kernel}_{name}"), grid, n as u32 / grid, args![cells, px]);
        same(&b.download::<T>(cells, 3), &want);
    }
}

fn returning_floats<T: Pod + std::fmt::Debug>(b: &Bench, name: &str, of: fn(f32) -> T) {
    let (cells, x) = (whole(6, 64), whole(7, 64));
    let all = |values: &[f32]| values.iter().map(|&x| of(x)).collect::<Vec<T>>();
    let (pc, px, old) = (b.upload(&all(&[&cells[..], &[0.0; 64]].concat())), b.upload(&all(&x)), b.zeros::<T>(192));
    b.run(&format!("returning_{name}"), 1, 64, args![pc, px, old]);
    let summed: Vec<f32> = cells.iter().zip(x.iter().rev()).map(|(cell, x)| cell + x).collect();
    let reversed: Vec<f32> = cells.iter().rev().copied().collect();
    let most: Vec<f32> = summed.iter().zip(&x).map(|(own, x)| own.max(x * 2.0)).collect();
    let sums: Vec<f32> = cells.iter().zip(&x).map(|(cell, x)| cell + x).collect();
    // A barrier parts the sums from the maxima.
    same(&b.download::<T>(old, 192), &all(&[cells, reversed, summed].concat()));
    same(&b.download::<T>(pc, 128), &all(&[sums, most].concat()));
}

fn adds_packed_halves(arch: &ArchInfo) -> bool {
    matches!(arch.family, Family::Cdna2 | Family::Cdna3 | Family::Cdna4 | Family::Rdna4)
}

fn packed_halves(b: &Bench) {
    let x = whole(8, 2 * 128);
    let halves: Vec<f16> = x.iter().map(|&x| f16::from_f32(x)).collect();
    let (cells, px) = (b.zeros::<f16>(8), b.upload(&halves));
    b.run("packed_halves", 2, 64, args![cells, px]);
    let sum = |at: usize| f16::from_f32(x.chunks(2).skip(at / 2).step_by(4).map(|two| two[at % 2]).sum());
    same(&b.download::<f16>(cells, 8), &(0..8).map(sum).collect::<Vec<_>>());
}

fn swap_loops(b: &Bench) {
    let x: Vec<u32> = noise(9, 128).into_iter().map(|x| x >> 5).collect();
    let (product, saturated) = (b.upload(&[3.0f32]), b.upload(&[1u32 << 31]));
    let (shorts, bytes, px) = (b.upload(&[7u16, 8, 9, 10]), b.upload(&[1u8, 2, 3, 4, 5, 6, 7, 8]), b.upload(&x));
    b.run("swap_loops", 2, 64, args![product, saturated, shorts, bytes, px]);
    same(&b.download::<f32>(product, 1), &[3.0]);
    same(&b.download::<u32>(saturated, 1), &[x.iter().fold(1u32 << 31, |sum, x| sum.saturating_add(*x))]);
    let (mut want16, mut want8) = ([7u16, 8, 9, 10], [1u8, 2, 3, 4, 5, 6, 7, 8]);
    for (i, &x) in x.iter().enumerate() {
        want16[i % 3] = want16[i % 3].wrapping_add(x as u16);
        want8[i % 5] ^= x as u8;
    }
    same(&b.download::<u16>(shorts, 4), &want16);
    same(&b.download::<u8>(bytes, 8), &want8);
}

fn lock(b: &Bench) {
    let (state, count, sum, px) = (b.zeros::<u32>(1), b.zeros::<u32>(1), b.zeros::<u32>(1), b.upload(&[5u32; 128]));
    b.run("lock", 2, 64, args![state, count, sum, px]);
    same(&b.download::<u32>(count, 1), &[128]);
    // Every lane adds the same, so the order does not show.
    same(&b.download::<u32>(sum, 1), &[(0..128).fold(0, |sum, _| sum * 3 % 1_000_003 + 5)]);
}

fn last_group(b: &Bench) {
    let x = noise(11, 7 * 64);
    let (px, parts, tickets, total) = (b.upload(&x), b.zeros::<u32>(7), b.zeros::<u32>(1), b.zeros::<u32>(1));
    for _ in 0..2 {
        b.run("last_group", 7, 64, args![px, parts, tickets, total]);
        same(&b.download::<u32>(total, 1), &[x.iter().fold(0u32, |sum, x| sum.wrapping_add(*x))]);
    }
}

fn push(b: &Bench) {
    let (head, next) = (b.upload(&[u32::MAX]), b.zeros::<u32>(192));
    b.run("push", 3, 64, args![head, next]);
    let next = b.download::<u32>(next, 192);
    let mut at = b.download::<u32>(head, 1)[0];
    let mut seen = [false; 192];
    while at != u32::MAX {
        assert!(!std::mem::replace(&mut seen[at as usize], true), "node {at} is twice in the list");
        at = next[at as usize];
    }
    assert!(seen.iter().all(|&seen| seen), "every node is in the list");
}
