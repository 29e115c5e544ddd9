//! Patterns that Burn hands over as primitives, against f64, with the launches they take.

mod support;

use rocfire_fusion::{Compare, Draft, Graph, Reduce, Scalar, Unary, run};
use rocfire_hal::{DType, Device, Tensor};
use support::{Random, device, download, float, upload};

fn floats(dtype: DType, count: usize, seed: u64) -> Vec<Scalar> {
    let mut random = Random(seed);
    (0..count).map(|_| support::rounded(dtype, Scalar::Float(random.unit() * 4.0))).collect()
}

fn softmax(dtype: DType) -> Graph {
    Draft::graph("softmax", |g| {
        let x = g.input(dtype);
        let exp = (x - x.reduce(Reduce::Max)).unary(Unary::Exp);
        exp / exp.reduce(Reduce::Sum)
    })
}

/// `(x - mean) / sqrt(var + eps) * weight + bias`, with the row statistics as outputs for the gradient.
fn layer_norm(dtype: DType) -> Graph {
    Draft::several("layer_norm", |g| {
        let (x, weight, bias) = (g.input(dtype), g.input(dtype), g.input(dtype));
        let mean = x.reduce(Reduce::Mean);
        let centred = x - mean;
        let variance = (centred * centred).reduce(Reduce::Mean);
        let deviation = (variance + g.scalar(dtype)).unary(Unary::Sqrt);
        [centred / deviation * weight + bias, mean, deviation]
    })
}

fn gelu(dtype: DType) -> Graph {
    Draft::graph("gelu", |g| {
        let x = g.input(dtype);
        x * ((x / 2f64.sqrt()).unary(Unary::Erf) + 1.0) / 2.0
    })
}

fn close(got: &[Scalar], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (at, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let got = float(got);
        assert!((got - expected).abs() <= tolerance * (1.0 + expected.abs()), "element {at}: {got} for {expected}");
    }
}

fn launches(device: &Device, f: impl FnOnce()) -> u64 {
    let before = device.launches();
    f();
    device.launches() - before
}

/// Sum of `f` over 0..n of `exp(-t²)`: Simpson's rule, slow and plain.
fn erf(x: f64) -> f64 {
    let steps = 2000;
    let h = x / f64::from(steps);
    let f = |t: f64| (-t * t).exp();
    let inner: f64 = (1..steps).map(|i| f(f64::from(i) * h) * if i % 2 == 0 { 2.0 } else { 4.0 }).sum();
    (f(0.0) + inner + f(x)) * h / 3.0 * 2.0 / std::f64::consts::PI.sqrt()
}

const EXTENTS: [usize; 9] = [1, 3, 63, 64, 65, 96, 257, 1024, 1500];

#[test]
fn softmax_is_one_launch_at_every_extent() {
    for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F16, 2e-3), (DType::F64, 1e-14)] {
        let graph = softmax(dtype);
        for cols in EXTENTS {
            let rows = 5;
            let values = floats(dtype, rows * cols, cols as u64);
            let x = upload(dtype, &[rows, cols], &values);
            let mut y = Tensor::empty(device(), &[rows, cols], dtype).unwrap();
            let count = launches(device(), || {
                run(device().stream(), &graph, &[rows, cols], &[x.view()], &[], &mut [y.view_mut()]).unwrap();
            });
            assert_eq!(count, 1);
            let expected: Vec<f64> = values
                .chunks(cols)
                .flat_map(|row| {
                    let row: Vec<f64> = row.iter().map(|&v| float(v)).collect();
                    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = row.iter().map(|v| (v - most).exp()).sum();
                    row.iter().map(|v| (v - most).exp() / sum).collect::<Vec<f64>>()
                })
                .collect();
            close(&download(&y), &expected, tolerance);
        }
    }
}

#[test]
fn layer_norm_and_its_statistics_are_one_launch() {
    let dtype = DType::F32;
    let graph = layer_norm(dtype);
    for cols in EXTENTS {
        let rows = 7;
        let values = floats(dtype, rows * cols, 90 + cols as u64);
        let (weight, bias) = (floats(dtype, cols, 1), floats(dtype, cols, 2));
        let x = upload(dtype, &[rows, cols], &values);
        let (w, b) = (upload(dtype, &[cols], &weight), upload(dtype, &[cols], &bias));
        let mut y = Tensor::empty(device(), &[rows, cols], dtype).unwrap();
        let mut mean = Tensor::empty(device(), &[rows, 1], dtype).unwrap();
        let mut deviation = Tensor::empty(device(), &[rows], dtype).unwrap();
        let count = launches(device(), || {
            let outputs = &mut [y.view_mut(), mean.view_mut(), deviation.view_mut()];
            let inputs = [x.view(), w.view(), b.view()];
            run(device().stream(), &graph, &[rows, cols], &inputs, &[Scalar::Float(1e-5)], outputs).unwrap();
        });
        assert_eq!(count, 1);
        let mut expected = Vec::new();
        let mut means = Vec::new();
        let mut deviations = Vec::new();
        for row in values.chunks(cols) {
            let row: Vec<f64> = row.iter().map(|&v| float(v)).collect();
            let mean = row.iter().sum::<f64>() / cols as f64;
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / cols as f64;
            let deviation = (variance + 1e-5).sqrt();
            expected.extend(
                row.iter()
                    .zip(weight.iter().zip(&bias))
                    .map(|(v, (&w, &b))| (v - mean) / deviation * float(w) + float(b)),
            );
            means.push(mean);
            deviations.push(deviation);
        }
        // One column has no variance: its deviation is the root of eps, which magnifies nothing but zero.
        close(&download(&y), &expected, 2e-5);
        close(&download(&mean), &means, 1e-6);
        close(&download(&deviation), &deviations, 1e-6);
    }
}

#[test]
fn layer_norm_gradient_rows_are_one_launch() {
    let dtype = DType::F32;
    let g = Draft::graph("layer_norm_backward", |g| {
        // dx = (g·w - mean(g·w) - n · mean(g·w · n)) / deviation, n = (x - mean) / deviation
        let (x, grad, weight) = (g.input(dtype), g.input(dtype), g.input(dtype));
        let (mean, deviation) = (g.row_input(dtype), g.row_input(dtype));
        let (n, gw) = ((x - mean) / deviation, grad * weight);
        let (first, second) = (gw.reduce(Reduce::Mean), (gw * n).reduce(Reduce::Mean));
        (gw - first - n * second) / deviation
    });
    let (rows, cols) = (6, 96);
    let values = floats(dtype, rows * cols, 5);
    let grads = floats(dtype, rows * cols, 6);
    let weights = floats(dtype, cols, 7);
    let (means, deviations) = (floats(dtype, rows, 8), vec![Scalar::Float(1.5); rows]);
    let tensors = [
        upload(dtype, &[rows, cols], &values),
        upload(dtype, &[rows, cols], &grads),
        upload(dtype, &[cols], &weights),
        upload(dtype, &[rows, 1], &means),
        upload(dtype, &[rows, 1], &deviations),
    ];
    let views: Vec<_> = tensors.iter().map(Tensor::view).collect();
    let mut y = Tensor::empty(device(), &[rows, cols], dtype).unwrap();
    let count = launches(device(), || {
        run(device().stream(), &g, &[rows, cols], &views, &[], &mut [y.view_mut()]).unwrap();
    });
    assert_eq!(count, 1);
    let mut expected = Vec::new();
    for row in 0..rows {
        let at = |list: &[Scalar], col: usize| float(list[row * cols + col]);
        let n: Vec<f64> = (0..cols).map(|c| (at(&values, c) - float(means[row])) / 1.5).collect();
        let gw: Vec<f64> = (0..cols).map(|c| at(&grads, c) * float(weights[c])).collect();
        let first = gw.iter().sum::<f64>() / cols as f64;
        let second = gw.iter().zip(&n).map(|(a, b)| a * b).sum::<f64>() / cols as f64;
        expected.extend((0..cols).map(|c| (gw[c] - first - n[c] * second) / 1.5));
    }
    close(&download(&y), &expected, 1e-5);
}

#[test]
fn gelu_is_one_launch() {
    for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::BF16, 2e-2), (DType::F64, 1e-12)] {
        let graph = gelu(dtype);
        let values = floats(dtype, 1000, 3);
        let x = upload(dtype, &[10, 100], &values);
        let mut y = Tensor::empty(device(), &[10, 100], dtype).unwrap();
        let count = launches(device(), || {
            run(device().stream(), &graph, &[10, 100], &[x.view()], &[], &mut [y.view_mut()]).unwrap();
        });
        assert_eq!(count, 1);
        let expected: Vec<f64> =
            values.iter().map(|&v| float(v)).map(|v| v * (erf(v / 2f64.sqrt()) + 1.0) / 2.0).collect();
        close(&download(&y), &expected, tolerance);
    }
}

/// The target's logit is picked by comparing the column with it, so no gather is needed.
#[test]
fn cross_entropy_is_at_most_three_launches() {
    let dtype = DType::F32;
    let rows_graph = Draft::graph("cross_entropy_rows", |g| {
        let (x, target) = (g.input(dtype), g.row_input(DType::I64));
        let shifted = x - x.reduce(Reduce::Max);
        let log = shifted.unary(Unary::Exp).reduce(Reduce::Sum).unary(Unary::Log);
        let chosen = g.index(0).is(Compare::Eq, target).choose(shifted, x.number(0.0));
        log - chosen.reduce(Reduce::Sum)
    });
    let mean_graph = Draft::graph("cross_entropy_mean", |g| g.input(dtype).reduce(Reduce::Mean));

    let (rows, cols) = (33, 90);
    let values = floats(dtype, rows * cols, 11);
    let targets: Vec<Scalar> = (0..rows).map(|row| Scalar::Int((row * 7 % cols) as i64)).collect();
    let logits = upload(dtype, &[rows, cols], &values);
    let labels = upload(DType::I64, &[rows, 1], &targets);
    let mut per_row = Tensor::empty(device(), &[rows, 1], dtype).unwrap();
    let mut total = Tensor::empty(device(), &[1], dtype).unwrap();
    let count = launches(device(), || {
        let inputs = [logits.view(), labels.view()];
        run(device().stream(), &rows_graph, &[rows, cols], &inputs, &[], &mut [per_row.view_mut()]).unwrap();
        let flat = per_row.with_layout(per_row.layout().reshape(&[rows]).unwrap()).unwrap();
        run(device().stream(), &mean_graph, &[rows], &[flat.view()], &[], &mut [total.view_mut()]).unwrap();
    });
    assert!(count <= 3, "{count} launches");
    let mut expected = 0.0;
    for (row, values) in values.chunks(cols).enumerate() {
        let row_values: Vec<f64> = values.iter().map(|&v| float(v)).collect();
        let sum: f64 = row_values.iter().map(|v| v.exp()).sum();
        expected += (sum.ln() - row_values[row * 7 % cols]) / rows as f64;
    }
    close(&download(&total), &[expected], 1e-6);
}

/// How many steps a lane has is in a short row's kernel as a power of two, and whether the row lies packed: shapes between two powers
/// share it, and all of them come to two kernels a power.
#[test]
fn another_shape_of_a_pattern_compiles_little_or_nothing() {
    let graph = softmax(DType::F32);
    // Other tests of this process compile at the same time, so a device of its own counts.
    let own = Device::open(device().id(), device().config().clone()).unwrap();
    let once = |(rows, cols): (usize, usize)| {
        let bytes = vec![0; rows * cols * 4];
        let x = Tensor::from_bytes(&own, &[rows, cols], DType::F32, &bytes).unwrap();
        let mut y = Tensor::empty(&own, &[rows, cols], DType::F32).unwrap();
        run(own.stream(), &graph, &[rows, cols], &[x.view()], &[], &mut [y.view_mut()]).unwrap();
        // Two that wait would share a launch, by a kernel for several, which is compiled once for all shapes, too.
        own.sync().unwrap();
    };
    // Packed and not: one step a lane, and the most on waves of 32 and of 64 lanes.
    [(4, 64), (4, 65), (2, 1024), (2, 1023)].into_iter().for_each(once);
    let compiled = own.compiled();
    [(3, 1), (70, 100), (9, 97), (5, 4), (2, 900), (3, 901)].into_iter().for_each(once);
    assert_eq!(own.compiled(), compiled);
    for cols in 1..=256 {
        once((1, 4 * cols));
        once((1, 4 * cols - 1));
    }
    assert!(own.compiled() - compiled <= 4, "two powers of two at most lie between, packed and not");
}

#[test]
fn a_second_device_finds_the_kernel_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let config = device().config().clone().with_cache_dir(folder.path().to_path_buf());
    let graph = gelu(DType::F32);
    let compiled = |config| {
        let own = Device::open(device().id(), config).unwrap();
        let x = Tensor::from_bytes(&own, &[8], DType::F32, &[0; 32]).unwrap();
        let mut y = Tensor::empty(&own, &[8], DType::F32).unwrap();
        run(own.stream(), &graph, &[8], &[x.view()], &[], &mut [y.view_mut()]).unwrap();
        own.compiled()
    };
    assert_eq!(compiled(config.clone()), 1);
    assert_eq!(compiled(config), 0);
}

/// `exp(a · log(b + exp(c · x)))` in f32, rounded to a type: with -1, 1 and -1 a sigmoid taken apart.
fn powers_and_logarithm(dtype: DType) -> Graph {
    Draft::graph("sigmoid", |g| {
        let x = g.input(DType::F32);
        let [c, b, a] = [(); 3].map(|()| g.scalar(DType::F32));
        let logarithm = ((x * c).unary(Unary::Exp) + b).unary(Unary::Log);
        (logarithm * a).unary(Unary::Exp).cast(dtype)
    })
}

#[test]
fn a_sigmoid_taken_apart_keeps_the_digits_of_the_sigmoid() {
    let graph = powers_and_logarithm(DType::F32);
    let mut x: Vec<Scalar> = (-855..856).map(|n| Scalar::Float(f64::from(n as f32 * 0.1003))).collect();
    x.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0].map(Scalar::Float));
    let input = upload(DType::F32, &[x.len()], &x);
    let evaluate = |scalars: [f64; 3]| {
        let mut y = Tensor::empty(device(), &[x.len()], DType::F32).unwrap();
        let scalars = scalars.map(Scalar::Float);
        run(device().stream(), &graph, &[x.len()], &[input.view()], &scalars, &mut [y.view_mut()]).unwrap();
        download(&y).into_iter().map(float).collect::<Vec<f64>>()
    };
    let sigmoid = evaluate([-1.0, 1.0, -1.0]);
    for (x, y) in x.iter().map(|&x| float(x)).zip(&sigmoid) {
        let expected = 1.0 / (1.0 + (-x).exp());
        let fits = if x.is_nan() { y.is_nan() } else { (y - expected).abs() <= 4e-7 * expected };
        assert!(fits, "sigmoid({x}) is {expected:e}, got {y:e}");
    }
    // Rounded to 16 bits it is within what rounding costs, and is computed with less.
    for (dtype, unit) in [(DType::F16, 2f64.powi(-11)), (DType::BF16, 2f64.powi(-8))] {
        let graph = powers_and_logarithm(dtype);
        let mut y = Tensor::empty(device(), &[x.len()], dtype).unwrap();
        let scalars = [-1.0, 1.0, -1.0].map(Scalar::Float);
        run(device().stream(), &graph, &[x.len()], &[input.view()], &scalars, &mut [y.view_mut()]).unwrap();
        for (x, y) in x.iter().map(|&x| float(x)).zip(download(&y).into_iter().map(float)) {
            let expected = 1.0 / (1.0 + (-x).exp());
            // Below the smallest normal number of f16 the steps are as wide as there.
            let size = if dtype == DType::F16 { expected.max(2f64.powi(-14)) } else { expected };
            let fits = if x.is_nan() { y.is_nan() } else { (y - expected).abs() <= (unit + 2f64.powi(-15)) * size };
            assert!(fits, "sigmoid({x}) in {dtype} is {expected:e}, got {y:e}");
        }
    }
    // The same kernel's chain with other scalars is what it says.
    let other = evaluate([-1.0, 1.0, 0.5]);
    for (x, y) in x.iter().map(|&x| float(x)).zip(&other).filter(|(x, _)| x.abs() < 10.0) {
        let expected = (0.5 * ((-x).exp() + 1.0).ln()).exp();
        assert!((y - expected).abs() <= 1e-5 * expected, "{x}: {expected:e}, got {y:e}");
    }
}
