//! References of `stencil.hip`.

use crate::bench::{Bench, args, below, cases, doubles, floats, noise, same};

cases!(halo, heat, seven_point, life, convolution, blur, max_pool, sobel, bilinear, median);

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    below(seed, len, 256).into_iter().map(|x| x as u8).collect()
}

/// The element at a place that may lie outside.
fn clamped<T: Copy>(x: &[T], at: isize) -> T {
    x[at.clamp(0, x.len() as isize - 1) as usize]
}

fn halo(b: &Bench) {
    let (x, weights) = (floats(1, 300), floats(2, 7));
    let (px, pw, out) = (b.upload(&x), b.upload(&weights), b.zeros::<f32>(300));
    b.run("halo", 3, 128, args![px, pw, out, 300i32]);
    let of = |i: isize| (0..7).fold(0f32, |sum, k| sum + weights[k] * clamped(&x, i + k as isize - 3));
    same(&b.download::<f32>(out, 300), &(0..300).map(of).collect::<Vec<_>>());
}

fn heat(b: &Bench) {
    let (w, h) = (40usize, 21usize);
    let x = floats(3, w * h);
    let (px, out) = (b.upload(&x), b.zeros::<f32>(w * h));
    b.run("heat", [3, 3], [16, 8], args![px, out, w as i32, h as i32, 0.2f32]);
    let of = |i: usize| {
        let (row, col) = (i / w, i % w);
        if row == 0 || col == 0 || row == h - 1 || col == w - 1 {
            return x[i];
        }
        x[i] + 0.2 * (x[i - 1] + x[i + 1] + x[i - w] + x[i + w] - 4.0 * x[i])
    };
    same(&b.download::<f32>(out, w * h), &(0..w * h).map(of).collect::<Vec<_>>());
}

fn seven_point(b: &Bench) {
    let (nx, ny, nz) = (16isize, 8isize, 5isize);
    let n = (nx * ny * nz) as usize;
    let x = doubles(4, n);
    let (px, out) = (b.upload(&x), b.zeros::<f64>(n));
    b.run("seven_point", 1, [16, 8], args![px, out, nx as i32, ny as i32, nz as i32]);
    let at = |c: isize, r: isize, z: isize| {
        let inside = (0..nx).contains(&c) && (0..ny).contains(&r) && (0..nz).contains(&z);
        if inside { x[((z * ny + r) * nx + c) as usize] } else { 0.0 }
    };
    let of = |i: isize| {
        let (c, r, z) = (i % nx, i / nx % ny, i / nx / ny);
        let mut sum = at(c, r, z - 1) + at(c, r, z + 1);
        sum += at(c - 1, r, z) + at(c + 1, r, z);
        sum += at(c, r - 1, z) + at(c, r + 1, z);
        sum - 6.0 * at(c, r, z)
    };
    same(&b.download::<f64>(out, n), &(0..n as isize).map(of).collect::<Vec<_>>());
}

fn life(b: &Bench) {
    let mut cells: Vec<u8> = below(5, 256, 2).into_iter().map(|x| x as u8).collect();
    let pc = b.upload(&cells);
    b.run("life", 1, [16, 16], args![pc, 5i32]);
    for _ in 0..5 {
        let count = |i: usize| {
            let around = (0..9).filter(|&k| k != 4).map(|k| (i / 16 + 15 + k / 3) % 16 * 16 + (i + 15 + k % 3) % 16);
            around.map(|at| cells[at]).sum::<u8>()
        };
        cells = (0..256).map(|i| u8::from(count(i) == 3 || count(i) == 2 && cells[i] == 1)).collect();
    }
    same(&b.download::<u8>(pc, 256), &cells);
}

fn convolution(b: &Bench) {
    let (channels, height, width, filters, stride, padding) = (3i32, 9i32, 14i32, 4i32, 2i32, 1i32);
    let (oh, ow) = ((height + 2 * padding - 3) / stride + 1, (width + 2 * padding - 3) / stride + 1);
    let x = floats(6, (channels * height * width) as usize);
    let (weights, bias) = (floats(7, (filters * channels * 9) as usize), floats(8, filters as usize));
    let n = (filters * oh * ow) as usize;
    let (px, pw, pb, out) = (b.upload(&x), b.upload(&weights), b.upload(&bias), b.zeros::<f32>(n));
    let window = [channels, height, width, oh, ow, stride, padding];
    b.run("convolution", [oh as u32, filters as u32], 32, args![px, pw, pb, out, window]);
    let of = |i: i32| {
        let (filter, row, col) = (i / (oh * ow), i / ow % oh, i % ow);
        let mut sum = bias[filter as usize];
        for k in 0..channels * 9 {
            let (c, y, xx) = (k / 9, row * stride + k / 3 % 3 - padding, col * stride + k % 3 - padding);
            if (0..height).contains(&y) && (0..width).contains(&xx) {
                sum += x[((c * height + y) * width + xx) as usize] * weights[(filter * channels * 9 + k) as usize];
            }
        }
        if sum > 0.0 { sum } else { 0.0 }
    };
    same(&b.download::<f32>(out, n), &(0..n as i32).map(of).collect::<Vec<_>>());
}

fn blur(b: &Bench) {
    let n = 50usize;
    let x = bytes(9, 32 * n);
    let (px, out) = (b.upload(&x), b.zeros::<u8>(32 * n));
    b.run("blur", 2, [32, 8], args![px, out, n as i32]);
    let weights = [1u32, 4, 6, 4, 1];
    let of = |i: usize| {
        let line = |row: usize| {
            (0..5)
                .map(|k| weights[k] * u32::from(clamped(&x[32 * row..32 * row + 32], (i % 32 + k) as isize - 2)))
                .sum::<u32>()
        };
        let rows = |k: usize| ((i / 32 + k) as isize - 2).clamp(0, n as isize - 1) as usize;
        (((0..5).map(|k| weights[k] * line(rows(k))).sum::<u32>() + 128) >> 8) as u8
    };
    same(&b.download::<u8>(out, 32 * n), &(0..32 * n).map(of).collect::<Vec<_>>());
}

fn max_pool(b: &Bench) {
    let (w, h) = (64, 10);
    let x = floats(10, w * h);
    let n = w * h / 4;
    let (px, out, from) = (b.upload(&x), b.zeros::<f32>(n), b.zeros::<u8>(n));
    b.run("max_pool", h as u32 / 2, w as u32 / 2, args![px, out, from, w as i32]);
    let best = |i: usize| {
        let corner = i / (w / 2) * 2 * w + i % (w / 2) * 2;
        let four = [0, 1, w, w + 1].map(|at| x[corner + at]);
        (0..4).fold((four[0], 0u8), |best, k| if four[k] > best.0 { (four[k], k as u8) } else { best })
    };
    same(&b.download::<f32>(out, n), &(0..n).map(|i| best(i).0).collect::<Vec<_>>());
    same(&b.download::<u8>(from, n), &(0..n).map(|i| best(i).1).collect::<Vec<_>>());
}

fn sobel(b: &Bench) {
    let (w, h) = (50usize, 8usize);
    let x = bytes(11, w * h);
    let (px, out) = (b.upload(&x), b.zeros::<u8>(w * h));
    b.run("sobel", h as u32 - 2, 64, args![px, out, w as i32, h as i32]);
    let mut want = vec![0u8; w * h];
    for i in (w..w * (h - 1)).filter(|i| i % w != 0 && i % w != w - 1) {
        let at = |dx: isize, dy: isize| i32::from(x[(i as isize + dy * w as isize + dx) as usize]);
        let gx = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
        let gy = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
        want[i] = ((gx * gx + gy * gy) as f32).sqrt().min(255.0) as u8;
    }
    same(&b.download::<u8>(out, w * h), &want);
}

fn bilinear(b: &Bench) {
    let (w, h) = (9usize, 7usize);
    let grid = floats(12, w * h);
    let places: Vec<f32> = floats(13, 256).into_iter().map(|x| 4.0 + 5.0 * x).collect();
    let (pg, pp, out) = (b.upload(&grid), b.upload(&places), b.zeros::<f32>(128));
    b.run("bilinear", 2, 64, args![pg, pp, out, w as i32, h as i32]);
    let of = |at: &[f32]| {
        let (x, y) = (at[0].clamp(0.0, w as f32 - 1.0), at[1].clamp(0.0, h as f32 - 1.0));
        let (x0, y0) = (x as usize, y as usize);
        let (x1, y1) = ((x0 + 1).min(w - 1), (y0 + 1).min(h - 1));
        let (fx, fy) = (x - x0 as f32, y - y0 as f32);
        let line = |row: usize| grid[row * w + x0] + fx * (grid[row * w + x1] - grid[row * w + x0]);
        line(y0) + fy * (line(y1) - line(y0))
    };
    same(&b.download::<f32>(out, 128), &places.chunks(2).map(of).collect::<Vec<_>>());
}

fn median(b: &Bench) {
    let (w, h) = (66usize, 6usize);
    let x = noise(14, w * h);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(w * h));
    b.run("median", h as u32 - 2, w as u32 - 2, args![px, out, w as i32]);
    let mut want = vec![0u32; w * h];
    for i in (w..w * (h - 1)).filter(|i| i % w != 0 && i % w != w - 1) {
        let mut nine: Vec<u32> = (0..9).map(|k| x[i - w - 1 + k / 3 * w + k % 3]).collect();
        nine.sort_unstable();
        want[i] = nine[4];
    }
    same(&b.download::<u32>(out, w * h), &want);
}
