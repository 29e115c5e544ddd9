//! References of `grid.hip`.

use bytemuck::{Pod, Zeroable};
use half::f16;

use crate::bench::{Bench, args, cases, floats, noise, same, words};

cases!(
    grid_stride,
    places,
    hidden_arguments,
    argument_widths,
    struct_argument,
    changed_argument,
    linked_list,
    variables,
    constant_tables,
    unaligned_records,
    triples,
    reversed_copy,
);

fn grid_stride(b: &Bench) {
    let (x, y) = (floats(1, 1000), floats(2, 1000));
    let (px, py) = (b.upload(&x), b.upload(&y));
    b.run("grid_stride", 3, 96, args![px, py, 1.5f32, 1000i32]);
    let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 1.5 * x + y).collect();
    same(&b.download::<f32>(py, 1000), &want);
}

fn places(b: &Bench) {
    let (grid, block) = ([3u32, 2, 4], [8u32, 3, 5]);
    let items = (grid.iter().product::<u32>() * block.iter().product::<u32>()) as usize;
    let out = b.zeros::<u32>(6 * items);
    b.run("places", grid, block, args![out]);
    let of =
        |number: u32, sizes: [u32; 3]| [number % sizes[0], number / sizes[0] % sizes[1], number / sizes[0] / sizes[1]];
    let size = block.iter().product::<u32>();
    let want: Vec<u32> = (0..items as u32).flat_map(|i| [of(i % size, block), of(i / size, grid)].concat()).collect();
    same(&b.download::<u32>(out, 6 * items), &want);
}

fn hidden_arguments(b: &Bench) {
    let out = b.zeros::<u32>(9);
    b.run("hidden_arguments", [2, 3, 5], [16, 4, 2], args![out]);
    same(&b.download::<u32>(out, 9), &[2, 3, 5, 16, 4, 2, 32, 12, 10]);
}

fn argument_widths(b: &Bench) {
    let out = b.zeros::<i64>(10);
    let args = args![
        -7i8,
        1u64 << 63 | 5,
        -300i16,
        1u8,
        -1e12f64,
        250u8,
        77.9f32,
        65_000u16,
        -123_456i32,
        f16::from_f32(-9.5),
        out
    ];
    b.run("argument_widths", 1, 10, args);
    let want = [-7, i64::MIN + 5, -300, 1, -1_000_000_000_000, 250, 77, 65_000, -123_456, -9];
    same(&b.download::<i64>(out, 10), &want);
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Table {
    scale: u32,
    entries: [u16; 10],
    range: [f32; 2],
    mask: u64,
}

const TABLE: Table = Table {
    scale: 1001,
    entries: [3, 1, 4, 1, 5, 9, 2, 6, 5, 35],
    range: [2000.0, 9500.0],
    mask: 0xfeed_beef_0bad_cafe,
};

fn struct_argument(b: &Bench) {
    let out = b.zeros::<u32>(64);
    b.run("struct_argument", 1, 64, args![TABLE, 12u32, out]);
    let of = |t: usize| {
        let value = u32::from(TABLE.entries[t % 10]) * TABLE.scale + 12;
        let inside = (TABLE.range[0]..=TABLE.range[1]).contains(&(value as f32));
        (if inside { value } else { 0 }) ^ (TABLE.mask >> (t & 31)) as u32
    };
    same(&b.download::<u32>(out, 64), &(0..64).map(of).collect::<Vec<_>>());
}

fn changed_argument(b: &Bench) {
    let out = b.zeros::<u32>(128);
    b.run("changed_argument", 1, 128, args![TABLE, out]);
    let of = |t: usize| {
        let mut entries = TABLE.entries;
        entries[t % 10] += t as u16;
        u32::from(entries[(t + 1) % 10]) + u32::from(entries[t % 10]) + (TABLE.scale ^ t as u32)
    };
    same(&b.download::<u32>(out, 128), &(0..128).map(of).collect::<Vec<_>>());
}

fn linked_list(b: &Bench) {
    // Node i leads to i / 2: lists of different length, all ending at node 0.
    let nodes = b.zeros::<[u64; 2]>(64);
    let table: Vec<[u64; 2]> = (0..64).map(|i| [if i == 0 { 0 } else { nodes + 16 * (i / 2) }, i * i + 1]).collect();
    b.write(nodes, &table);
    let heads: Vec<u64> = (0..64).rev().map(|i| nodes + 16 * i).collect();
    let (ph, sums) = (b.upload(&heads), b.zeros::<u32>(64));
    b.run("linked_list", 1, 64, args![ph, sums]);
    let of = |start: u32| {
        let (mut at, mut sum) = (start, 0u32);
        loop {
            sum = sum.wrapping_mul(3).wrapping_add(at * at + 1);
            if at == 0 {
                return sum;
            }
            at /= 2;
        }
    };
    same(&b.download::<u32>(sums, 64), &(0..64).rev().map(of).collect::<Vec<_>>());
}

fn variables(b: &Bench) {
    let (out, scaled) = (b.zeros::<u32>(64), b.zeros::<f32>(64));
    let primes = [2u32, 3, 5, 7, 11, 13, 17, 19];
    let mut weights = [0.5f32, 0.25, 0.125, 2.0];
    for round in 1..3 {
        b.run("variables", 1, 64, args![out, scaled]);
        same(&b.download::<u32>(out, 64), &(0..64).map(|t| primes[t & 7]).collect::<Vec<_>>());
        let want: Vec<f32> = (0..64).map(|t| weights[t & 3] * t as f32).collect();
        same(&b.download::<f32>(scaled, 64), &want);
        weights[3] = 3.0;
        same(&b.download::<u32>(b.global("tickets"), 1), &[5 + 37 * round]);
        same(&b.download::<f32>(b.global("weights"), 4), &weights);
        same(&b.download::<u64>(b.global("last_seen"), 1), &[out]);
    }
}

fn constant_tables(b: &Bench) {
    let x = noise(3, 128);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(128));
    b.run("constant_tables", 1, 128, args![px, out]);
    let text = b"the quick brown fox";
    let steps: [[i32; 3]; 4] = [[1, -2, 3], [-4, 5, -6], [7, -8, 9], [-10, 11, -12]];
    let of = |&x: &u32| {
        let step = steps[x as usize >> 4 & 3][x as usize % 3];
        (u32::from(text[x as usize % 19]) * 1000).wrapping_add(step as u32)
    };
    same(&b.download::<u32>(out, 128), &x.iter().map(of).collect::<Vec<_>>());
}

fn unaligned_records(b: &Bench) {
    let bytes: Vec<u8> = noise(4, 64 * 15).into_iter().map(|x| x as u8).collect();
    let (px, out) = (b.upload(&bytes), b.zeros::<u8>(bytes.len()));
    b.run("unaligned_records", 1, 64, args![px, out]);
    let of = |record: &[u8]| {
        let count = u32::from_le_bytes(record[1..5].try_into().unwrap()).wrapping_add(u32::from(record[0]));
        let total = u64::from_le_bytes(record[5..13].try_into().unwrap()).wrapping_mul(3);
        let tail = u16::from_le_bytes(record[13..15].try_into().unwrap()) ^ 0x5a5a;
        [&record[..1], &count.to_le_bytes(), &total.to_le_bytes(), &tail.to_le_bytes()].concat()
    };
    same(&b.download::<u8>(out, bytes.len()), &bytes.chunks(15).flat_map(of).collect::<Vec<_>>());
}

fn triples(b: &Bench) {
    let (x, packed) = (floats(5, 4 * 64), floats(6, 3 * 64));
    let (px, pp, crossed) = (b.upload(&x), b.upload(&packed), b.zeros::<f32>(4 * 64));
    b.run("triples", 1, 64, args![px, pp, crossed]);
    let got: Vec<f32> = b.download::<f32>(crossed, 4 * 64).chunks(4).flat_map(|four| four[..3].to_vec()).collect();
    let cross =
        |(a, b): (&[f32], &[f32])| [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    same(&got, &x.chunks(4).zip(packed.chunks(3)).flat_map(cross).collect::<Vec<_>>());
}

fn reversed_copy(b: &Bench) {
    for n in [1usize, 16, 777] {
        let x: Vec<u8> = words(7, n).into_iter().map(|x| x as u8).collect();
        let (px, out) = (b.upload(&x), b.zeros::<u8>(n));
        b.run("reversed_copy", 1, 64, args![px, out, n as i32]);
        same(&b.download::<u8>(out, n), &x.iter().rev().copied().collect::<Vec<_>>());
    }
}
