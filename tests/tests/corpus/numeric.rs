//! References of `numeric.hip`: the same steps where that is the method, the property that defines the result elsewhere.

use crate::bench::{Bench, args, below, cases, close, close_f64, doubles, floats, same};

cases!(fft, number_transform, lu, cholesky, tridiagonal, conjugate_gradients, bodies, jacobi, quadrature,);

fn fft(b: &Bench) {
    let n = 128;
    let x = floats(1, 2 * 2 * n);
    let angle = |k: usize| -std::f64::consts::TAU * k as f64 / n as f64;
    let factors: Vec<f32> = (0..n / 2).flat_map(|k| [angle(k).cos() as f32, angle(k).sin() as f32]).collect();
    let (px, pf, out) = (b.upload(&x), b.upload(&factors), b.zeros::<f32>(4 * n));
    b.run("fft", 2, 64, args![px, pf, out]);
    let transform = |own: &[f32]| {
        let of = |k: usize| {
            let term = |j: usize| {
                let (re, im) = (f64::from(own[2 * j]), f64::from(own[2 * j + 1]));
                let (s, c) = angle(j * k % n).sin_cos();
                [re * c - im * s, re * s + im * c]
            };
            (0..n).map(term).fold([0.0; 2], |sum, term| [sum[0] + term[0], sum[1] + term[1]])
        };
        (0..n).flat_map(of).collect::<Vec<_>>()
    };
    let want: Vec<f64> = x.chunks(2 * n).flat_map(transform).collect();
    close(&b.download::<f32>(out, 4 * n), &want, 1e-6, 16.0);
}

fn number_transform(b: &Bench) {
    // 3 generates all 65536 numbers, so this power of it has order 64.
    let n = 64;
    let root = (0..1024).fold(1u64, |power, _| power * 3 % 65_537) as u32;
    let x = below(2, n, 65_537);
    let (px, out) = (b.upload(&x), b.zeros::<u32>(n));
    b.run("number_transform", 1, n as u32, args![px, out, root, n as i32]);
    let power = |e: usize| (0..e % n).fold(1u64, |power, _| power * u64::from(root) % 65_537);
    let of = |k: usize| (x.iter().enumerate().map(|(j, &x)| u64::from(x) * power(j * k)).sum::<u64>() % 65_537) as u32;
    same(&b.download::<u32>(out, n), &(0..n).map(of).collect::<Vec<_>>());
}

fn lu(b: &Bench) {
    let n = 16;
    let a = doubles(3, 2 * n * n);
    let (pa, order) = (b.upload(&a), b.zeros::<i32>(2 * n));
    b.run("lu", 2, n as u32, args![pa, order]);
    let (got, order) = (b.download::<f64>(pa, 2 * n * n), b.download::<i32>(order, 2 * n));
    for (group, m) in got.chunks(n * n).enumerate() {
        // L times U gives the rows of A in the order of the pivots.
        let lower = |r: usize, k: usize| if r == k { 1.0 } else { m[r * n + k] };
        let product = |r: usize, c: usize| (0..=r.min(c)).map(|k| lower(r, k) * m[k * n + c]).sum::<f64>();
        for r in 0..n {
            let row: Vec<f64> = (0..n).map(|c| product(r, c)).collect();
            let from = order[group * n + r] as usize;
            close_f64(&row, &a[group * n * n + from * n..][..n], 1e-13, 1.0);
        }
        let factors = (0..n * n).filter(|at| at % n < at / n).map(|at| m[at].abs());
        assert!(factors.fold(0.0, f64::max) <= 1.0, "pivots are the largest of their columns");
    }
}

fn cholesky(b: &Bench) {
    let x = floats(4, 64 * 64);
    // B B^T + 4 is symmetric and far from singular.
    let square = |m: &[f32]| {
        let of = |at: usize| {
            let dot: f32 = (0..8).map(|k| m[at / 8 * 8 + k] * m[at % 8 * 8 + k]).sum();
            dot + if at / 8 == at % 8 { 4.0 } else { 0.0 }
        };
        (0..64).map(of).collect::<Vec<_>>()
    };
    let a: Vec<f32> = x.chunks(64).flat_map(square).collect();
    let (pa, out) = (b.upload(&a), b.zeros::<f32>(64 * 64));
    b.run("cholesky", 1, 64, args![pa, out]);
    let factor = |a: &[f32]| {
        let mut m = [0f32; 64];
        for r in 0..8 {
            for c in 0..=r {
                let sum = (0..c).fold(a[r * 8 + c], |sum, k| sum - m[r * 8 + k] * m[c * 8 + k]);
                m[r * 8 + c] = if r == c { sum.sqrt() } else { sum / m[c * 8 + c] };
            }
        }
        m
    };
    same(&b.download::<f32>(out, 64 * 64), &a.chunks(64).flat_map(factor).collect::<Vec<_>>());
}

fn tridiagonal(b: &Bench) {
    let (lanes, n) = (64, 20);
    let diagonal: Vec<f32> = floats(5, lanes * n).into_iter().map(|x| 4.0 + x).collect();
    let right = floats(6, lanes * n);
    let (pd, pr, x) = (b.upload(&diagonal), b.upload(&right), b.zeros::<f32>(lanes * n));
    b.run("tridiagonal", 1, lanes as u32, args![pd, pr, x, n as i32]);
    let x = b.download::<f32>(x, lanes * n);
    let at = |i: isize, lane: usize| {
        if (0..n as isize).contains(&i) { f64::from(x[i as usize * lanes + lane]) } else { 0.0 }
    };
    let image = |k: usize| {
        let (i, lane) = ((k / lanes) as isize, k % lanes);
        (f64::from(diagonal[k]) * at(i, lane) + at(i - 1, lane) + at(i + 1, lane)) as f32
    };
    let want: Vec<f64> = right.iter().map(|&x| f64::from(x)).collect();
    close(&(0..lanes * n).map(image).collect::<Vec<_>>(), &want, 1e-6, 1.0);
}

fn conjugate_gradients(b: &Bench) {
    let right = doubles(7, 64);
    let (pr, x) = (b.upload(&right), b.zeros::<f64>(64));
    b.run("conjugate_gradients", 1, 64, args![pr, x, 40i32]);
    let x = b.download::<f64>(x, 64);
    let at = |i: usize| if (1..65).contains(&i) { x[i - 1] } else { 0.0 };
    let image: Vec<f64> = (1..65).map(|i| 2.5 * at(i) - at(i - 1) - at(i + 1)).collect();
    close_f64(&image, &right, 1e-9, 1.0);
}

fn bodies(b: &Bench) {
    let n = 128;
    let places: Vec<[f32; 4]> = floats(8, 4 * n).chunks(4).map(|p| [p[0], p[1], p[2], p[3].abs()]).collect();
    let speeds: Vec<[f32; 4]> = floats(9, 4 * n).chunks(4).map(|p| [p[0], p[1], p[2], 0.0]).collect();
    let (pp, ps) = (b.upload(&places), b.upload(&speeds));
    b.run("bodies", 2, 64, args![pp, ps, n as i32, 0.01f32]);
    let of = |i: usize| {
        let mut force = [0f32; 3];
        for other in &places {
            let d: [f32; 3] = std::array::from_fn(|k| other[k] - places[i][k]);
            let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01;
            let inverse = 1.0 / square.sqrt();
            let pull = other[3] * inverse * inverse * inverse;
            force = std::array::from_fn(|k| force[k] + d[k] * pull);
        }
        [0, 1, 2].map(|k| speeds[i][k] + 0.01 * force[k])
    };
    let got: Vec<[f32; 3]> = b.download::<[f32; 4]>(ps, n).iter().map(|s| [s[0], s[1], s[2]]).collect();
    same(&got, &(0..n).map(of).collect::<Vec<_>>());
}

fn jacobi(b: &Bench) {
    let a = doubles(10, 64 * 6);
    let (pa, values) = (b.upload(&a), b.zeros::<f64>(64 * 3));
    b.run("jacobi", 1, 64, args![pa, values]);
    for (m, v) in a.chunks(6).zip(b.download::<f64>(values, 64 * 3).chunks(3)) {
        // The coefficients of the characteristic polynomial: trace, sum of minors, determinant.
        let (xx, yy, zz, xy, xz, yz) = (m[0], m[1], m[2], m[3], m[4], m[5]);
        let minors = xx * yy - xy * xy + xx * zz - xz * xz + yy * zz - yz * yz;
        let determinant = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz);
        let got = [v[0] + v[1] + v[2], v[0] * v[1] + v[0] * v[2] + v[1] * v[2], v[0] * v[1] * v[2]];
        close_f64(&got, &[xx + yy + zz, minors, determinant], 1e-13, 1.0);
    }
}

fn quadrature(b: &Bench) {
    let (intervals, width) = (3000, 0.001);
    let total = b.zeros::<u64>(1);
    b.run("quadrature", 4, 64, args![total, width, intervals]);
    let got = b.download::<u64>(total, 1)[0] as f64 / (1u64 << 40) as f64;
    close_f64(&[got], &[1.0 / 3.0 + 3f64.ln()], 1e-9, 1.0);
}
