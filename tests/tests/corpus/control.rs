//! References of `control.hip`.

use crate::bench::{Bench, args, below, cases, noise, same};

cases!(
    collatz,
    gcd,
    mandelbrot,
    nested,
    machine,
    sparse_switch,
    search,
    short_circuit,
    uniform_loop,
    early_return,
    lower_bound,
    queens,
);

fn collatz(b: &Bench) {
    let x: Vec<u32> = below(1, 200, 100_000).into_iter().map(|x| x + 1).collect();
    let (px, steps) = (b.upload(&x), b.zeros::<u32>(200));
    b.run("collatz", 2, 128, args![px, steps, 200i32]);
    let count = |&x: &u32| {
        let (mut value, mut count) = (u64::from(x), 0);
        while value != 1 {
            value = if value % 2 == 1 { 3 * value + 1 } else { value / 2 };
            count += 1;
        }
        count
    };
    same(&b.download::<u32>(steps, 200), &x.iter().map(count).collect::<Vec<u32>>());
}

fn gcd(b: &Bench) {
    let (mut x, y) = (below(2, 128, 1 << 20), below(3, 128, 1 << 14));
    x.iter_mut().zip(&y).step_by(3).for_each(|(x, y)| *x = (*x % 50) * y);
    let (px, py, out) = (b.upload(&x), b.upload(&y), b.zeros::<u32>(128));
    b.run("gcd", 2, 64, args![px, py, out]);
    fn of(a: u32, b: u32) -> u32 {
        if b == 0 { a } else { of(b, a % b) }
    }
    same(&b.download::<u32>(out, 128), &x.iter().zip(&y).map(|(&x, &y)| of(x, y)).collect::<Vec<_>>());
}

fn mandelbrot(b: &Bench) {
    let (width, left, top, step, limit) = (32usize, -2.0f32, -1.25f32, 0.08f32, 60);
    let out = b.zeros::<u32>(width * 32);
    b.run("mandelbrot", 16, 64, args![out, width as i32, left, top, step, limit]);
    let count = |i: usize| {
        let (cx, cy) = (left + (i % width) as f32 * step, top + (i / width) as f32 * step);
        let (mut x, mut y) = (0f32, 0f32);
        for count in 0..limit {
            let (xx, yy) = (x * x, y * y);
            if xx + yy > 4.0 {
                return count as u32;
            }
            y = 2.0 * x * y + cy;
            x = xx - yy + cx;
        }
        limit as u32
    };
    same(&b.download::<u32>(out, width * 32), &(0..width * 32).map(count).collect::<Vec<_>>());
}

fn nested(b: &Bench) {
    let x = noise(4, 256);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(256));
    b.run("nested", 2, 128, args![px, out]);
    let want = |&seed: &u32| {
        let mut sum = 0u32;
        for i in 0..(seed & 15) + 1 {
            if seed >> i & 3 == 1 {
                continue;
            }
            for j in i..20 {
                sum = sum.wrapping_mul(3).wrapping_add(i ^ j);
                if sum & 7 == 5 {
                    break;
                }
                if sum & 1 == 1 {
                    continue;
                }
                sum = sum.wrapping_add(seed >> 16);
            }
            if sum > 0xf000_0000 {
                break;
            }
        }
        sum
    };
    same(&b.download::<u32>(out, 256), &x.iter().map(want).collect::<Vec<_>>());
}

fn machine(b: &Bench) {
    let length = 24;
    let programs: Vec<u8> =
        below(5, 128 * length, 40).into_iter().map(|op| if op < 39 { op as u8 % 8 } else { 9 }).collect();
    let (pp, out) = (b.upload(&programs), b.zeros::<u32>(128));
    b.run("machine", 2, 64, args![pp, out, length as i32]);
    let run = |(lane, program): (usize, &[u8])| {
        let (mut a, mut b, mut at) = (lane as u32 + 1, 7u32, 0usize);
        for _ in 0..200 {
            if at >= length {
                break;
            }
            match program[at] {
                0 => a = a.wrapping_add(b),
                1 => b = a.wrapping_mul(3),
                2 => a ^= b << 5,
                3 => at += if a & 1 == 1 { 2 } else { 0 },
                4 => {
                    b = b.wrapping_sub(a);
                    a = a.rotate_right(3);
                }
                5 => a = a.rotate_right(3),
                6 => {
                    if b & 8 != 0 && at > 3 {
                        at -= 3;
                        b >>= 4;
                        continue;
                    }
                }
                7 => a = !a,
                _ => at = length,
            }
            at += 1;
        }
        a ^ b
    };
    same(&b.download::<u32>(out, 128), &programs.chunks(length).enumerate().map(run).collect::<Vec<_>>());
}

fn sparse_switch(b: &Bench) {
    let values = [-1_000_000, -5, 0, 17, 18, 19, 20, 65_537, 2_000_000_000, -6, 5, i32::MIN, i32::MAX];
    let x: Vec<i32> = below(6, 128, values.len() as u32).into_iter().map(|i| values[i as usize]).collect();
    let (px, out) = (b.upload(&x), b.zeros::<i32>(128));
    b.run("sparse_switch", 1, 128, args![px, out]);
    let want = |&own: &i32| match own {
        -1_000_000 => 1,
        -5 => 25,
        0 => 3,
        17..=19 => own + 100,
        65_537 => 5,
        2_000_000_000 => 6,
        _ if own < 0 => -7,
        _ => 7,
    };
    same(&b.download::<i32>(out, 128), &x.iter().map(want).collect::<Vec<_>>());
}

fn search(b: &Bench) {
    let grid = below(7, 64 * 64, 90);
    let (pg, found) = (b.upload(&grid), b.zeros::<i32>(64));
    b.run("search", 1, 64, args![pg, 42u32, found]);
    let place = |own: &[u32]| {
        own.iter().position(|&x| x == 42).map_or(-1, |at| (at / 16 * 100 + at / 4 % 4 * 10 + at % 4) as i32)
    };
    same(&b.download::<i32>(found, 64), &grid.chunks(64).map(place).collect::<Vec<_>>());
}

fn short_circuit(b: &Bench) {
    let n = 100u32;
    let (x, places) = (below(8, n as usize, 30), below(9, 256, 2 * n));
    let (px, pp, out) = (b.upload(&x), b.upload(&places), b.zeros::<u32>(256));
    b.run("short_circuit", 2, 128, args![px, pp, out, n]);
    let want = |&place: &u32| {
        let Some(&own) = x.get(place as usize) else { return !0 };
        let taken = own > 10 && (own & 1 == 1 || x.get(place as usize + 1).is_some_and(|&next| next > own));
        let result = if taken { own } else { 0 };
        if own == 3 { !result } else { result }
    };
    same(&b.download::<u32>(out, 256), &places.iter().map(want).collect::<Vec<_>>());
}

fn uniform_loop(b: &Bench) {
    let rounds = 9;
    let x = noise(10, 256);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(256));
    b.run("uniform_loop", 2, 128, args![px, out, rounds]);
    let mut want = x;
    for group in want.chunks_mut(128) {
        for round in 0..rounds as usize {
            let before = group.to_vec();
            for (t, own) in group.iter_mut().enumerate() {
                let start = before[(t + round + 1) % 128];
                *own = (0..*own & 3).fold(start, |next, k| next.wrapping_mul(5).wrapping_add(k));
            }
        }
    }
    same(&b.download::<u32>(out, 256), &want);
}

fn early_return(b: &Bench) {
    let x = noise(11, 512);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(10));
    b.run("early_return", 2, 256, args![px, out]);
    let of = |own: &[u32], t: usize| {
        let sum = own.iter().skip(t).step_by(5).fold(0u32, |sum, x| sum.wrapping_add(*x));
        if sum & 1 == 1 { sum } else { !sum }
    };
    let want: Vec<u32> = x.chunks(256).flat_map(|own| (0..5).map(move |t| of(own, t))).collect();
    same(&b.download::<u32>(out, 10), &want);
}

fn lower_bound(b: &Bench) {
    let mut sorted = below(12, 333, 1000);
    sorted.sort_unstable();
    let keys = below(13, 128, 1100);
    let (ps, pk, places) = (b.upload(&sorted), b.upload(&keys), b.zeros::<u32>(128));
    b.run("lower_bound", 2, 64, args![ps, pk, places, sorted.len() as u32]);
    let want: Vec<u32> = keys.iter().map(|&key| sorted.partition_point(|&x| x < key) as u32).collect();
    same(&b.download::<u32>(places, 128), &want);
}

fn queens(b: &Bench) {
    let n = 7usize;
    let counts = b.zeros::<u32>(64);
    b.run("queens", 1, 64, args![counts, n as i32]);
    fn place(rows: &mut Vec<usize>, n: usize) -> u32 {
        if rows.len() == n {
            return 1;
        }
        let row = rows.len();
        let free =
            |c: usize, rows: &[usize]| rows.iter().enumerate().all(|(r, &own)| own != c && own.abs_diff(c) != row - r);
        let mut count = 0;
        for c in 0..n {
            if free(c, rows) {
                rows.push(c);
                count += place(rows, n);
                rows.pop();
            }
        }
        count
    }
    let want: Vec<u32> = (0..64).map(|lane| place(&mut vec![lane % n], n)).collect();
    same(&b.download::<u32>(counts, 64), &want);
}
