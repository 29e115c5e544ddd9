//! References of `calls.hip`.

use crate::bench::{Bench, args, below, cases, floats, noise, same, words};

cases!(
    call_by_address,
    recursion,
    mutual_recursion,
    function_pointers,
    virtual_calls,
    struct_by_value,
    many_arguments,
    private_histogram,
    small_arrays,
    spills,
    dynamic_stack,
    generic_pointers,
    private_sort,
);

fn call_by_address(b: &Bench) {
    let n = 256;
    let x = noise(1, n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(n));
    b.run("call_by_address", 2, 128, args![px, out, n as i32]);
    let mix = |a: u32, b: u32| a.wrapping_mul(2_654_435_761) ^ (b >> 3);
    let want: Vec<u32> = (0..n).map(|i| (0..8).fold(1, |sum, k| mix(sum, x[(i + k) % n]))).collect();
    same(&b.download::<u32>(out, n), &want);
}

fn recursion(b: &Bench) {
    let out = b.zeros::<u32>(64);
    b.run("recursion", 1, 64, args![out]);
    let numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144];
    same(&b.download::<u32>(out, 64), &(0..64).map(|i| numbers[i % 13]).collect::<Vec<u32>>());
}

fn mutual_recursion(b: &Bench) {
    let x = below(2, 128, 40);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(128));
    b.run("mutual_recursion", 2, 64, args![px, out]);
    same(&b.download::<u32>(out, 128), &x.iter().map(|x| 1 - x % 2).collect::<Vec<_>>());
}

fn function_pointers(b: &Bench) {
    let (x, which) = (noise(3, 128), noise(4, 128));
    let (px, pw, out) = (b.upload(&x), b.upload(&which), b.zeros::<u32>(128));
    b.run("function_pointers", 2, 64, args![px, pw, out, 6i32]);
    let apply = |(&own, &which): (&u32, &u32)| {
        (0..6).fold(own, |own, k| match which >> (2 * k) & 3 {
            0 => own.wrapping_add(x[k]),
            1 => own.wrapping_sub(x[k]),
            2 => own.wrapping_mul(x[k]),
            _ => own ^ x[k],
        })
    };
    same(&b.download::<u32>(out, 128), &x.iter().zip(&which).map(apply).collect::<Vec<_>>());
}

fn virtual_calls(b: &Bench) {
    let sizes = floats(5, 128);
    let (ps, areas) = (b.upload(&sizes), b.zeros::<f32>(128));
    b.run("virtual_calls", 2, 64, args![ps, areas]);
    let area = |(i, &size): (usize, &f32)| if i % 3 == 0 { 3.0 * size * size } else { size * size };
    same(&b.download::<f32>(areas, 128), &sizes.iter().enumerate().map(area).collect::<Vec<_>>());
}

fn struct_by_value(b: &Bench) {
    let x = floats(6, 128);
    let (px, out, masses) = (b.upload(&x), b.zeros::<f32>(128), b.zeros::<f64>(128));
    b.run("struct_by_value", 2, 64, args![px, out, masses]);
    let of = |(i, &x): (usize, &f32)| {
        let mut position = [x, 1.0, -x];
        for by in [0.5, x] {
            if i % 3 != 0 {
                for (k, place) in position.iter_mut().enumerate() {
                    *place += by * (k + 1) as f32;
                }
            }
        }
        position[0] + position[1] * position[2] + (i + 6) as f32
    };
    same(&b.download::<f32>(out, 128), &x.iter().enumerate().map(of).collect::<Vec<_>>());
    same(&b.download::<f64>(masses, 128), &x.iter().map(|&x| f64::from(x) * 4.0).collect::<Vec<_>>());
}

fn many_arguments(b: &Bench) {
    let x = words(7, 64 + 24);
    let (px, out) = (b.upload(&x), b.zeros::<u64>(64));
    b.run("many_arguments", 1, 64, args![px, out]);
    use std::num::Wrapping as W;
    let want = |p: &[u64]| {
        let narrow = |k: usize| W(u64::from(p[k] as u32));
        let wide = |k: usize| W(p[k]);
        let first = (((narrow(0) + wide(1)) * W(3) + narrow(2) - wide(3)) * W(5) + narrow(4) + wide(5))
            ^ (narrow(6) * wide(7) + narrow(8) - wide(9));
        let second = (narrow(10) + wide(11)) * W(7) + (narrow(12) ^ wide(13));
        let third = narrow(16) * wide(17) + narrow(18) + wide(19);
        (first + second * (narrow(14) + wide(15)) - third + (narrow(20) ^ wide(21)) * narrow(22) + wide(23)).0
    };
    same(&b.download::<u64>(out, 64), &x.windows(24).take(64).map(want).collect::<Vec<_>>());
}

fn private_histogram(b: &Bench) {
    let n = 40;
    let x = noise(8, 128 * n);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(128));
    b.run("private_histogram", 2, 64, args![px, out, n as i32]);
    let of = |own: &[u32]| {
        let mut count = [0u32; 96];
        for (k, x) in own.iter().enumerate() {
            count[*x as usize % 96] += k as u32 + 1;
        }
        count.iter().fold(0u32, |sum, count| sum.wrapping_mul(31).wrapping_add(*count))
    };
    same(&b.download::<u32>(out, 128), &x.chunks(n).map(of).collect::<Vec<_>>());
}

fn small_arrays(b: &Bench) {
    let x = noise(9, 128);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(128));
    b.run("small_arrays", 2, 64, args![px, out]);
    let of = |&x: &u32| {
        let mut seed = x;
        let mut own: [u32; 6] = std::array::from_fn(|k| seed.wrapping_mul(k as u32 + 3));
        let mut bytes: [u8; 12] = std::array::from_fn(|k| (seed >> k) as u8);
        for k in 0..10 {
            let add = own[(seed >> 1) as usize % 6].wrapping_add(k);
            own[seed as usize % 6] ^= add;
            let byte = bytes[(seed as usize + 5) % 12];
            bytes[seed as usize % 12] = bytes[seed as usize % 12].wrapping_add(byte);
            seed >>= 3;
        }
        let sum = own.iter().fold(0u32, |sum, own| sum.wrapping_mul(5).wrapping_add(*own));
        bytes.iter().fold(sum, |sum, byte| sum.wrapping_mul(3).wrapping_add(u32::from(*byte)))
    };
    same(&b.download::<u32>(out, 128), &x.iter().map(of).collect::<Vec<_>>());
}

fn spills(b: &Bench) {
    let x = floats(10, 128 * 64);
    let (px, out) = (b.upload(&x), b.zeros::<f32>(128));
    b.run("spills", 2, 64, args![px, out]);
    let of = |own: &[f32]| {
        let mut own = own.to_vec();
        for _ in 0..3 {
            for k in 0..64 {
                own[k] = own[k] * 0.5 + own[(k * 37 + 11) % 64];
            }
        }
        own.iter().fold(0f32, |sum, own| sum * 0.75 + own)
    };
    same(&b.download::<f32>(out, 128), &x.chunks(64).map(of).collect::<Vec<_>>());
}

fn dynamic_stack(b: &Bench) {
    let x = noise(11, 64 + 9);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(64));
    b.run("dynamic_stack", 1, 64, args![px, out, 9i32]);
    let of = |own: &[u32]| own.iter().rev().fold(0u32, |sum, x| sum.wrapping_mul(17).wrapping_add(*x));
    same(&b.download::<u32>(out, 64), &x.windows(9).take(64).map(of).collect::<Vec<_>>());
}

fn generic_pointers(b: &Bench) {
    let x: Vec<u32> = (0..68).map(|i| 10 * i).collect();
    let (px, out) = (b.upload(&x), b.zeros::<u32>(64));
    b.run("generic_pointers", 1, 64, args![px, out]);
    let (mut want, mut after) = (Vec::new(), x.clone());
    for t in 0..64u32 {
        let seen = [x[t as usize % 4], 1000 + t % 4, 2000 + t * 4 + t % 4][t as usize % 3];
        let (mut own, mut shared) = (2000 + t * 4 + t % 4, 1000 + t);
        std::mem::swap(if t % 2 == 1 { &mut shared } else { &mut own }, &mut after[4 + t as usize]);
        want.push(seen * 10_000 + own + shared);
    }
    same(&b.download::<u32>(out, 64), &want);
    same(&b.download::<u32>(px, 68), &after);
}

fn private_sort(b: &Bench) {
    let mut x = below(12, 64 * 40, 500);
    let px = b.upload(&x);
    b.run("private_sort", 1, 64, args![px]);
    x.chunks_mut(40).for_each(<[u32]>::sort_unstable);
    same(&b.download::<u32>(px, x.len()), &x);
}
