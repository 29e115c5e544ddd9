//! References of `transpose.hip`.

use bytemuck::{Pod, Zeroable};

use crate::bench::{Bench, args, cases, doubles, floats, noise, same};

cases!(padded_tile, swizzled_tile, in_place, bytes_in_registers, bits_in_lanes, any_order, interleave, reorder);

fn transposed<T: Copy>(x: &[T], rows: usize, cols: usize) -> Vec<T> {
    (0..rows * cols).map(|i| x[i % rows * cols + i / rows]).collect()
}

fn padded_tile(b: &Bench) {
    let (rows, cols) = (45, 70);
    let x = floats(1, rows * cols);
    let (px, out) = (b.upload(&x), b.zeros::<f32>(rows * cols));
    b.run("padded_tile", [3, 2], [32, 8], args![px, out, rows as i32, cols as i32]);
    same(&b.download::<f32>(out, rows * cols), &transposed(&x, rows, cols));
}

fn swizzled_tile(b: &Bench) {
    let n = 48;
    let x = doubles(2, n * n);
    let (px, out) = (b.upload(&x), b.zeros::<f64>(n * n));
    b.run("swizzled_tile", [3, 3], [16, 16], args![px, out, n as i32]);
    same(&b.download::<f64>(out, n * n), &transposed(&x, n, n));
}

fn in_place(b: &Bench) {
    let n = 48;
    let x: Vec<u16> = noise(3, n * n).into_iter().map(|x| x as u16).collect();
    let px = b.upload(&x);
    b.run("in_place", [3, 3], [16, 16], args![px, n as i32]);
    same(&b.download::<u16>(px, n * n), &transposed(&x, n, n));
}

fn bytes_in_registers(b: &Bench) {
    let x: Vec<u8> = noise(4, 64 * 16).into_iter().map(|x| x as u8).collect();
    let (px, out) = (b.upload(&x), b.zeros::<u8>(x.len()));
    b.run("bytes_in_registers", 1, 64, args![px, out]);
    same(&b.download::<u8>(out, x.len()), &x.chunks(16).flat_map(|own| transposed(own, 4, 4)).collect::<Vec<_>>());
}

fn bits_in_lanes(b: &Bench) {
    let x = noise(5, 128);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(128));
    b.run("bits_in_lanes", 1, 128, args![px, out]);
    let bits =
        |own: &[u32]| (0..32).map(|i| (0..32).fold(0, |bits, j| bits | (own[j] >> i & 1) << j)).collect::<Vec<u32>>();
    same(&b.download::<u32>(out, 128), &x.chunks(32).flat_map(bits).collect::<Vec<_>>());
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Axes {
    sizes: [u32; 4],
    strides: [u32; 4],
}

fn any_order(b: &Bench) {
    let shape = [3usize, 5, 4, 7];
    let x: Vec<u8> = noise(6, 420).into_iter().map(|x| x as u8).collect();
    let px = b.upload(&x);
    let strides = [140usize, 28, 7, 1];
    for order in [[3, 1, 0, 2], [0, 2, 1, 3], [2, 3, 1, 0]] {
        let out = b.zeros::<u8>(420);
        let axes = Axes { sizes: order.map(|k| shape[k] as u32), strides: order.map(|k| strides[k] as u32) };
        b.run("any_order", 4, 128, args![px, out, axes, 420u32]);
        let mut want = Vec::new();
        for a in 0..shape[order[0]] {
            for c in 0..shape[order[1]] {
                for d in 0..shape[order[2]] {
                    for e in 0..shape[order[3]] {
                        let at = [a, c, d, e].iter().zip(order).map(|(i, k)| i * strides[k]).sum::<usize>();
                        want.push(x[at]);
                    }
                }
            }
        }
        same(&b.download::<u8>(out, 420), &want);
    }
}

fn interleave(b: &Bench) {
    let n = 128;
    let x = floats(7, 3 * n);
    let (px, parts, back) = (b.upload(&x), b.zeros::<f32>(3 * n), b.zeros::<f32>(3 * n));
    b.run("interleave", 2, 64, args![px, parts, back, n as i32]);
    same(&b.download::<f32>(parts, 3 * n), &transposed(&x, n, 3));
    same(&b.download::<f32>(back, 3 * n), &x.iter().map(|x| x * 2.0).collect::<Vec<_>>());
}

fn reorder(b: &Bench) {
    let (log_n, by) = (9, 333usize);
    let n = 1usize << log_n;
    let x = noise(8, n);
    let (px, reversed, rotated) = (b.upload(&x), b.zeros::<u32>(n), b.zeros::<u32>(n));
    b.run("reorder", 4, 128, args![px, reversed, rotated, log_n, by as u32]);
    let from = |i: usize| x[i.reverse_bits() >> (usize::BITS as i32 - log_n)];
    same(&b.download::<u32>(reversed, n), &(0..n).map(from).collect::<Vec<_>>());
    same(&b.download::<u32>(rotated, n), &(0..n).map(|i| x[(i + n - by) % n]).collect::<Vec<_>>());
}
