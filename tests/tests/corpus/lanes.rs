//! References of `lanes.hip`.

use rocfire_arch::{ArchInfo, Family};

use crate::bench::{Bench, Case, args, below, doubles, noise, same};

pub const CASES: &[Case] = &[
    Case::new("votes", votes),
    Case::new("match_any", match_any),
    Case::new("shuffles", shuffles),
    Case::new("dpp_rows", dpp_rows),
    Case::needing("dpp_wave", is_gcn, dpp_wave),
    Case::needing("dpp_sum", is_gcn, dpp_sum),
    Case::needing("rdna_moves", |arch| !is_gcn(arch), rdna_moves),
    Case::needing("swap_rows", |arch| arch.family == Family::Cdna4, swap_rows),
    Case::new("permutes", permutes),
    Case::new("swizzles", swizzles),
    Case::new("lane_by_lane", lane_by_lane),
    Case::new("places", places),
    Case::new("waterfall", waterfall),
    Case::new("half_wave", half_wave),
    Case::new("while_any", while_any),
];

/// GCN and its children, whose waves have 64 lanes.
fn is_gcn(arch: &ArchInfo) -> bool {
    matches!(arch.family, Family::Gcn5 | Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4)
}

/// One bit for each lane of a wave.
fn bits(wave: &[u32], holds: impl Fn(u32) -> bool) -> u64 {
    wave.iter().enumerate().fold(0, |bits, (lane, &x)| bits | u64::from(holds(x)) << lane)
}

/// Two waves of input, and the results of each wave by `each(wave, lane)`.
fn by_wave<R>(x: &[u32], wave: usize, each: impl Fn(&[u32], usize) -> R) -> Vec<R> {
    x.chunks(wave).flat_map(|own| (0..wave).map(|lane| each(own, lane)).collect::<Vec<_>>()).collect()
}

fn votes(b: &Bench) {
    let n = 4 * b.wave();
    let mut x = noise(1, n);
    // A wave in which all odd ones have bit 3 and all even ones the top bit.
    x[..b.wave()].iter_mut().for_each(|x| *x |= 0x8000_0008);
    let (px, ballots, flags) = (b.upload(&x), b.zeros::<u64>(n), b.zeros::<u32>(n));
    b.run("votes", 2, n as u32 / 2, args![px, ballots, flags]);
    let seen = |own: &[u32], lane: usize| {
        if own[lane] & 1 == 1 { bits(own, |x| x & 3 == 3) } else { !bits(own, |x| x & 17 == 16) }
    };
    same(&b.download::<u64>(ballots, n), &by_wave(&x, b.wave(), seen));
    let flag = |own: &[u32], lane: usize| {
        let peers = || own.iter().filter(|&x| x & 1 == own[lane] & 1);
        if own[lane] & 1 == 1 {
            u32::from(peers().any(|x| x & 4 != 0)) | u32::from(peers().all(|x| x & 8 != 0)) << 1
        } else {
            4 | u32::from(peers().all(|x| x >> 31 == 1))
        }
    };
    same(&b.download::<u32>(flags, n), &by_wave(&x, b.wave(), flag));
}

fn match_any(b: &Bench) {
    let n = 4 * b.wave();
    let x = below(2, n, 9);
    let (px, peers) = (b.upload(&x), b.zeros::<u64>(n));
    b.run("match_any", 2, n as u32 / 2, args![px, peers]);
    same(&b.download::<u64>(peers, n), &by_wave(&x, b.wave(), |own, lane| bits(own, |x| x == own[lane])));
}

fn shuffles(b: &Bench) {
    let (wave, n) = (b.wave(), 2 * b.wave());
    let (x, y) = (noise(3, n), doubles(4, n));
    let (px, py, out, wide) = (b.upload(&x), b.upload(&y), b.zeros::<u32>(6 * n), b.zeros::<f64>(2 * n));
    b.run("shuffles", 1, n as u32, args![px, py, out, wide]);
    let six = |own: &[u32], lane: usize| {
        let up = if lane % 16 < 5 { lane } else { lane - 5 };
        let down = if lane % 4 + 2 >= 4 { lane } else { lane + 2 };
        let signed = (own[lane * 7 % wave] as i32 >> 8) as u32;
        [
            own[own[lane] as usize % wave],
            own[lane / 8 * 8 + 3],
            own[up],
            own[down],
            own[lane / 16 * 16 + (lane ^ 9) % 16],
            signed,
        ]
    };
    same(&b.download::<u32>(out, 6 * n), &by_wave(&x, wave, six).concat());
    let pair = |i: usize| {
        let (base, lane) = (i / wave * wave, i % wave);
        [y[base + (lane ^ 1)], y[base + if lane < wave / 2 { lane + wave / 2 } else { lane }]]
    };
    same(&b.download::<f64>(wide, 2 * n), &(0..n).flat_map(pair).collect::<Vec<_>>());
}

/// The lane within a row of 16 that `control` reads from `lane`, if it is in the row.
fn row_source(control: u32, lane: usize) -> Option<usize> {
    let (row, at, by) = (lane & !15, lane & 15, control as usize & 15);
    match control {
        0..=0xff => Some((lane & !3) | (control as usize >> (2 * (lane & 3)) & 3)),
        0x101..=0x10f => (at + by < 16).then_some(lane + by),
        0x111..=0x11f => at.checked_sub(by).map(|at| row | at),
        0x121..=0x12f => Some(row | ((at + 16 - by) & 15)),
        0x140 => Some(lane ^ 15),
        0x141 => Some(lane ^ 7),
        0x150..=0x15f => Some(row | by),
        0x160..=0x16f => Some(row | (at ^ by)),
        _ => unreachable!("control {control:#x}"),
    }
}

fn dpp_rows(b: &Bench) {
    let (wave, n) = (b.wave(), 2 * b.wave());
    let x = noise(5, n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(10 * n));
    b.run("dpp_rows", 1, n as u32, args![px, out, n as i32]);
    let moves = [
        (0x1b, 15, 15, false),
        (0x101, 15, 15, false),
        (0x10f, 15, 15, true),
        (0x114, 15, 15, true),
        (0x113, 5, 15, false),
        (0x125, 15, 15, false),
        (0x140, 15, 9, false),
        (0x141, 15, 15, true),
    ];
    let mut want = Vec::new();
    for (control, rows, banks, zero) in moves {
        want.extend((0..n).map(|i| {
            let (base, lane) = (i / wave * wave, i % wave);
            let enabled = rows >> (lane / 16) & 1 == 1 && banks >> (lane / 4 % 4) & 1 == 1;
            match row_source(control, lane) {
                Some(from) if enabled => x[base + from],
                None if enabled && zero => 0,
                _ => 1_000_000 + i as u32,
            }
        }));
    }
    want.extend((0..n).map(|i| x[i].wrapping_add(if i % 16 < 2 { 0 } else { x[i - 2] })));
    // A lane that is off gives nothing: its reader keeps the old value.
    want.extend((0..n).map(|i| match (x[i] & 1, x[i ^ 1] & 1) {
        (0, _) => 5,
        (_, 1) => x[i ^ 1],
        _ => 1_000_000 + i as u32,
    }));
    same(&b.download::<u32>(out, 10 * n), &want);
}

fn dpp_wave(b: &Bench) {
    let n = 128;
    let x = noise(6, n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(6 * n));
    b.run("dpp_wave", 1, n as u32, args![px, out, n as i32]);
    let old = |i: usize| 1_000_000 + i as u32;
    let rotated = |i: usize, by: usize| x[i / 64 * 64 + (i + by) % 64];
    let mut want = Vec::new();
    want.extend((0..n).map(|i| if i % 64 == 63 { old(i) } else { x[i + 1] }));
    want.extend((0..n).map(|i| rotated(i, 1)));
    want.extend((0..n).map(|i| if i % 64 == 0 { 0 } else { x[i - 1] }));
    want.extend((0..n).map(|i| rotated(i, 63)));
    want.extend((0..n).map(|i| if i / 16 % 2 == 1 { x[i / 16 * 16 - 1] } else { old(i) }));
    want.extend((0..n).map(|i| if i % 64 >= 32 { x[i / 64 * 64 + 31] } else { old(i) }));
    same(&b.download::<u32>(out, 6 * n), &want);
}

fn dpp_sum(b: &Bench) {
    let x: Vec<i32> = noise(7, 128).into_iter().map(|x| x as i32).collect();
    let (px, sums) = (b.upload(&x), b.zeros::<i32>(128));
    b.run("dpp_sum", 1, 128, args![px, sums]);
    let scan = |own: &[i32]| {
        own.iter()
            .scan(0i32, |sum, x| {
                *sum = sum.wrapping_add(*x);
                Some(*sum)
            })
            .collect::<Vec<_>>()
    };
    same(&b.download::<i32>(sums, 128), &x.chunks(64).flat_map(scan).collect::<Vec<_>>());
}

fn rdna_moves(b: &Bench) {
    let n = 2 * b.wave();
    let x = noise(8, n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(5 * n));
    b.run("rdna_moves", 1, n as u32, args![px, out, n as i32]);
    let mut want = Vec::new();
    for control in [0x15b, 0x166] {
        want.extend((0..n).map(|i| x[row_source(control, i).unwrap()]));
    }
    want.extend((0..n).map(|i| x[i / 8 * 8 + (0x0005_3977usize >> (3 * (i % 8)) & 7)]));
    let chosen =
        |i: usize, low: u32, high: u32| ((u64::from(high) << 32 | u64::from(low)) >> (4 * (i % 16)) & 15) as usize;
    want.extend((0..n).map(|i| x[i / 16 * 16 + chosen(i, 0x7654_3210 ^ 0x5555_5555, 0x0123_cdef)]));
    want.extend((0..n).map(|i| x[((i / 16) ^ 1) * 16 + chosen(i, 0xfedc_ba98, 0x89ab_cdef)]));
    same(&b.download::<u32>(out, 5 * n), &want);
}

fn swap_rows(b: &Bench) {
    let n = 64;
    let (x, y) = (noise(9, n), noise(10, n));
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<u32>(4 * n));
    b.run("swap_rows", 1, n as u32, args![px, py, out, n as i32]);
    let mut want = Vec::new();
    for width in [32, 16] {
        want.extend((0..n).map(|i| if i / width % 2 == 1 { y[i - width] } else { x[i] }));
        want.extend((0..n).map(|i| if i / width % 2 == 0 { x[i + width] } else { y[i] }));
    }
    same(&b.download::<u32>(out, 4 * n), &want);
}

fn permutes(b: &Bench) {
    let (wave, n) = (b.wave(), 2 * b.wave());
    let x = noise(11, n);
    // Those of RDNA 1 to 3 stay within 32 lanes, whatever the wave.
    let whole = is_gcn(b.arch()) || b.arch().family == Family::Rdna4;
    let group = if whole { wave } else { 32 };
    let to: Vec<u32> = (0..n).map(|i| ((i * 13 + 5) % group) as u32).collect();
    let (px, pt, pushed, pulled) = (b.upload(&x), b.upload(&to), b.zeros::<u32>(n), b.zeros::<u32>(n));
    b.run("permutes", 1, n as u32, args![px, pt, pushed, pulled]);
    let place = |i: usize| i / group * group + to[i] as usize;
    let mut want = vec![0u32; n];
    (0..n).for_each(|i| want[place(i)] = x[i]);
    same(&b.download::<u32>(pushed, n), &want);
    same(&b.download::<u32>(pulled, n), &(0..n).map(|i| x[place(i)]).collect::<Vec<_>>());
}

fn swizzles(b: &Bench) {
    let n = 128;
    let x = noise(12, n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(5 * n));
    b.run("swizzles", 1, n as u32, args![px, out, n as i32]);
    let mut want = Vec::new();
    want.extend((0..n).map(|i| x[i ^ 1]));
    want.extend((0..n).map(|i| x[i ^ 31]));
    want.extend((0..n).map(|i| x[i | 7]));
    want.extend((0..n).map(|i| x[i & !31]));
    want.extend((0..n).map(|i| x[(i & !3) | ((i + 1) & 3)]));
    same(&b.download::<u32>(out, 5 * n), &want);
}

fn lane_by_lane(b: &Bench) {
    let (wave, n) = (b.wave(), 2 * b.wave());
    let x = noise(13, n);
    let (px, sums, turned) = (b.upload(&x), b.zeros::<u32>(n), b.zeros::<u32>(n));
    b.run("lane_by_lane", 1, n as u32, args![px, sums, turned]);
    let sum = |own: &[u32], _: usize| own.iter().fold(0u32, |sum, x| sum.wrapping_mul(3).wrapping_add(*x));
    same(&b.download::<u32>(sums, n), &by_wave(&x, wave, sum));
    let from = |own: &[u32], lane: usize| own[wave - 1 - lane] ^ (wave - 1 - lane) as u32;
    same(&b.download::<u32>(turned, n), &by_wave(&x, wave, from));
}

fn places(b: &Bench) {
    let n = 2 * b.wave();
    let x = noise(14, n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(n));
    b.run("places", 1, n as u32, args![px, out]);
    let place = |own: &[u32], lane: usize| {
        if own[lane].is_multiple_of(3) {
            return u32::MAX;
        }
        100 + own[..lane].iter().filter(|x| !x.is_multiple_of(3)).count() as u32
    };
    same(&b.download::<u32>(out, n), &by_wave(&x, b.wave(), place));
}

fn waterfall(b: &Bench) {
    let n = 2 * b.wave();
    let (table, index) = (noise(15, 12), below(16, n, 12));
    let (pt, pi, out, rounds) = (b.upload(&table), b.upload(&index), b.zeros::<u32>(n), b.zeros::<u32>(n));
    b.run("waterfall", 1, n as u32, args![pt, pi, out, rounds]);
    same(&b.download::<u32>(out, n), &index.iter().map(|&i| table[i as usize]).collect::<Vec<_>>());
    // A lane waits for as many indices as were first seen before its own, and its own.
    let round = |own: &[u32], lane: usize| {
        let mut order: Vec<u32> = Vec::new();
        own.iter().for_each(|i| {
            if !order.contains(i) {
                order.push(*i)
            }
        });
        order.iter().position(|&i| i == own[lane]).unwrap() as u32 + 1
    };
    same(&b.download::<u32>(rounds, n), &by_wave(&index, b.wave(), round));
}

fn half_wave(b: &Bench) {
    let (half, n) = (b.wave() / 2, 2 * b.wave());
    let x = noise(17, n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(6 * n));
    b.run("half_wave", 1, n as u32, args![px, out]);
    let six = |own: &[u32], _: usize| {
        let fold = |op: fn(u32, u32) -> u32| own.iter().copied().reduce(op).unwrap();
        [
            fold(u32::wrapping_add),
            fold(u32::min),
            fold(u32::max),
            fold(|a, b| a & b),
            fold(|a, b| a | b),
            fold(|a, b| a ^ b),
        ]
    };
    same(&b.download::<u32>(out, 6 * n), &by_wave(&x, half, six).concat());
}

fn while_any(b: &Bench) {
    let n = 4 * b.wave();
    let x: Vec<u32> = noise(18, n).into_iter().enumerate().map(|(i, x)| x >> (8 * (i / 64 % 4))).collect();
    let (px, out) = (b.upload(&x), b.zeros::<u32>(n));
    b.run("while_any", 2, n as u32 / 2, args![px, out]);
    let of = |own: &[u32], lane: usize| {
        let (mut own, mut rounds) = (own.to_vec(), 0);
        while own.iter().any(|&x| x > 100) {
            own.iter_mut().for_each(|x| *x = if *x > 100 { *x / 3 } else { *x + 1 });
            rounds += 1;
        }
        own[lane] * 1000 + rounds
    };
    same(&b.download::<u32>(out, n), &by_wave(&x, b.wave(), of));
}
