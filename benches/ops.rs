//! Operators where a card is full, on a real GPU: time, bytes and operations per second, and what share that is of the ceiling
//! measured in the same run (a copy within device memory). Every result is checked before it is timed.
//!
//! Buffers are taken in rotation, more of them than any cache holds, and filled with normal values. A time is the median of
//! batches between two events, so that it has the kernel and the queue in it and not the host's clock. It refuses to time an
//! emulated device, whose times say nothing of a card.

use half::bf16;
use rocfire_fusion::{Binary, Graph, Reduce, Scalar, Unary, run};
use rocfire_hal::{DType, Device, DeviceId, DriverKind, Tensor};
use rocfire_kernels::gemm::{GemmParams, gemm};
use rocfire_kernels::random::{Seed, normal};

#[path = "ops/conv.rs"]
mod conv;
#[path = "ops/quant.rs"]
mod quant;

type Error = Box<dyn std::error::Error>;

/// What the buffers of one operator add up to at least: several times the largest cache of any card.
const ROTATION_BYTES: usize = 1 << 30;
const BATCHES: usize = 15;
/// A batch is as long as this, so that what lies between two events is mostly the kernel.
const BATCH_MS: f64 = 2.0;
/// Rows whose results are compared with the reference.
const CHECKED_ROWS: usize = 8;

/// An operator on one shape.
struct Op {
    name: &'static str,
    shape: String,
    /// Bytes that must be moved, each input read once and each output written once.
    bytes: f64,
    flops: f64,
    /// Launches set number `n` of its buffers.
    launch: Box<dyn Fn(usize) -> Result<(), Error>>,
    /// Compares the results of set 0.
    check: Box<dyn Fn() -> Result<(), Error>>,
}

/// What an operator did to a row, the slow way.
type RowReference = fn(&[Vec<f64>]) -> Vec<f64>;

/// A fused graph with what it is launched with.
struct Fused {
    graph: Graph,
    scalars: Vec<Scalar>,
    /// How many of the inputs, the last ones, are one row for all.
    shared: usize,
}

impl From<Graph> for Fused {
    fn from(graph: Graph) -> Fused {
        Fused { graph, scalars: Vec::new(), shared: 0 }
    }
}

fn main() -> Result<(), Error> {
    let id = DeviceId::from_env()?;
    if !matches!(id.driver(), DriverKind::Hip | DriverKind::Cuda) {
        println!("skipped: {id} is no GPU; set ROCFIRE_DEVICE to one");
        return Ok(());
    }
    let device = Device::get(id)?;
    println!("{} ({id}), {}", device.info().name, device.info().driver_version);
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let ceiling = ceiling(&device)?;
    println!("copy within device memory: {:.0} GB/s, read and written; shares are of this", ceiling / 1e9);
    println!(
        "{:<22} {:<26} {:>9} {:>7} {:>9} {:>6} {:>10}",
        "operator", "shape", "ms", "spread", "GB/s", "share", "GFLOP/s"
    );
    for make in OPS.iter().chain(quant::OPS).chain(conv::OPS) {
        let op = make(&device)?;
        if !op.name.contains(&filter) {
            continue;
        }
        (op.launch)(0)?;
        device.sync()?;
        (op.check)().map_err(|error| format!("{} {}: {error}", op.name, op.shape))?;
        let (median, spread) = time(&device, &*op.launch)?;
        let (bytes, flops) = (op.bytes / median * 1e3, op.flops / median * 1e3);
        println!(
            "{:<22} {:<26} {median:9.4} {:6.1}% {:9.0} {:5.0}% {:10.0}",
            op.name,
            op.shape,
            spread * 100.0,
            bytes / 1e9,
            bytes / ceiling * 100.0,
            flops / 1e9
        );
    }
    Ok(())
}

type Make = fn(&Device) -> Result<Op, Error>;
const OPS: &[Make] = &[
    |device| {
        rows(device, "add f32", DType::F32, &[64 << 20], 1, add, |row| {
            row[0].iter().zip(&row[1]).map(|(a, b)| a + b).collect()
        })
    },
    |device| {
        rows(device, "chain of 7 f32", DType::F32, &[64 << 20], 7, chain, |row| {
            row[0].iter().zip(&row[1]).map(|(x, y)| (((x * y + 1.0).max(0.0) - y) * 0.5).exp().ln_1p() + x).collect()
        })
    },
    |device| {
        rows(device, "gelu chain f32", DType::F32, &[64 << 20], 9, gelu_chain, |row| {
            let gelu = |x: f64| x * 0.5 * (1.0 + libm::erf(x / 2f64.sqrt()));
            (0..row[0].len())
                .map(|i| (gelu(row[0][i] * row[1][i] + row[2][i]) * row[3][i]).tanh() + row[0][i])
                .collect()
        })
    },
    |device| {
        rows(device, "silu mul bf16", DType::BF16, &[8192, 4096], 5, silu_mul, |row| {
            row[0].iter().zip(&row[1]).map(|(x, y)| x / (1.0 + (-x).exp()) * y).collect()
        })
    },
    |device| {
        rows(device, "softmax bf16", DType::BF16, &[8192, 4096], 5, softmax, |row| {
            let most = row[0].iter().copied().fold(f64::MIN, f64::max);
            let exp: Vec<f64> = row[0].iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = exp.iter().sum();
            exp.iter().map(|x| x / sum).collect()
        })
    },
    |device| {
        rows(device, "softmax f32", DType::F32, &[8192, 4096], 5, softmax, |row| {
            let most = row[0].iter().copied().fold(f64::MIN, f64::max);
            let exp: Vec<f64> = row[0].iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = exp.iter().sum();
            exp.iter().map(|x| x / sum).collect()
        })
    },
    |device| {
        rows(device, "rms norm bf16", DType::BF16, &[8192, 4096], 5, rms_norm, |row| {
            let mean = row[0].iter().map(|x| x * x).sum::<f64>() / row[0].len() as f64;
            row[0].iter().zip(&row[1]).map(|(x, gamma)| x / (mean + 1e-5).sqrt() * gamma).collect()
        })
    },
    |device| rows(device, "layer norm bf16", DType::BF16, &[8192, 4096], 10, layer_norm, layer_norm_reference),
    |device| rows(device, "layer norm f32", DType::F32, &[8192, 4096], 10, layer_norm, layer_norm_reference),
    |device| sum(device, &[64 << 20]),
    |device| sum(device, &[8192, 8192]),
    |device| transpose(device, "transpose f32", DType::F32, 8192),
    |device| transpose(device, "transpose bf16", DType::BF16, 8192),
    |device| transpose(device, "transpose f64", DType::F64, 4096),
    |device| product(device, DType::F32, [2048; 3], false),
    |device| product(device, DType::F16, [1024; 3], false),
    |device| product(device, DType::F16, [2048; 3], false),
    |device| product(device, DType::F16, [4096; 3], false),
    |device| product(device, DType::F16, [4096; 3], true),
    |device| product(device, DType::F16, [8192; 3], false),
    |device| product(device, DType::BF16, [1024; 3], false),
    |device| product(device, DType::BF16, [2048; 3], false),
    |device| product(device, DType::BF16, [4096; 3], false),
    |device| product(device, DType::BF16, [8192; 3], false),
    |device| product(device, DType::BF16, [1, 14336, 4096], false),
    |device| product(device, DType::BF16, [1, 14336, 4096], true),
    |device| product(device, DType::BF16, [16, 14336, 4096], false),
    |device| product(device, DType::BF16, [16, 14336, 4096], true),
    |device| product(device, DType::F16, [1, 14336, 4096], true),
    |device| product(device, DType::F16, [16, 14336, 4096], true),
    |device| product(device, DType::BF16, [64, 14336, 4096], true),
];

/// Bytes per second of a copy, read and written.
fn ceiling(device: &Device) -> Result<f64, Error> {
    let tensors: Vec<Tensor> =
        (0..2).map(|seed| filled(device, &[ROTATION_BYTES / 4], DType::F32, seed)).collect::<Result<_, _>>()?;
    let bytes = ROTATION_BYTES as u64;
    let stream = device.stream();
    let launch = |n: usize| Ok(stream.copy(tensors[n % 2].buffer(), 0, tensors[1 - n % 2].buffer(), 0, bytes)?);
    let (median, _) = time(device, &launch)?;
    Ok(2.0 * bytes as f64 / median * 1e3)
}

/// Median and relative spread (first to last decile) of one launch in milliseconds.
fn time(device: &Device, launch: &dyn Fn(usize) -> Result<(), Error>) -> Result<(f64, f64), Error> {
    let batch = |first: usize, count: usize| -> Result<f64, Error> {
        let begin = device.stream().record_event()?;
        for n in first..first + count {
            launch(n)?;
        }
        let end = device.stream().record_event()?;
        end.synchronize()?;
        Ok(end.elapsed_ms(&begin)? / count as f64)
    };
    batch(0, 5)?;
    let rough = batch(0, 5)?;
    let count = ((BATCH_MS / rough).ceil() as usize).clamp(2, 2000);
    let mut times: Vec<f64> = (0..BATCHES).map(|number| batch(number * count, count)).collect::<Result<_, _>>()?;
    times.sort_by(f64::total_cmp);
    let median = times[BATCHES / 2];
    Ok((median, (times[BATCHES * 9 / 10] - times[BATCHES / 10]) / median))
}

fn filled(device: &Device, shape: &[usize], dtype: DType, seed: u64) -> Result<Tensor, Error> {
    let mut tensor = Tensor::empty(device, shape, dtype)?;
    normal(device.stream(), Seed { seed, offset: 0 }, 0.0, 1.0, tensor.view_mut())?;
    Ok(tensor)
}

fn shape_text(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

/// `count` elements of a contiguous tensor from element `first` on.
fn elements(bytes: &[u8], dtype: DType, first: usize, count: usize) -> Vec<f64> {
    let size = dtype.size_bytes();
    let part = bytes[first * size..(first + count) * size].chunks_exact(size);
    part.map(|element| match dtype {
        DType::F32 => f64::from(f32::from_le_bytes(element.try_into().expect("four bytes"))),
        DType::F16 => half::f16::from_le_bytes(element.try_into().expect("two bytes")).to_f64(),
        DType::BF16 => bf16::from_le_bytes(element.try_into().expect("two bytes")).to_f64(),
        other => unreachable!("no operator here has {other}"),
    })
    .collect()
}

/// Fails unless ‖got − expected‖ ≤ tolerance · ‖expected‖; a NaN never passes.
fn compare(got: &[f64], expected: &[f64], tolerance: f64) -> Result<(), Error> {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let error = norm(&mut got.iter().zip(expected).map(|(a, b)| a - b)) / norm(&mut expected.iter().copied());
    if error <= tolerance { Ok(()) } else { Err(format!("relative error {error:e}, allowed {tolerance:e}").into()) }
}

/// Chains of operators in a 16-bit type round after each.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-6,
        DType::F16 => 2e-3,
        _ => 1.5e-2,
    }
}

/// A fused graph with one output of the inputs' shape.
fn rows(
    device: &Device,
    name: &'static str,
    dtype: DType,
    shape: &[usize],
    operators: usize,
    fused: fn(DType) -> Fused,
    reference: RowReference,
) -> Result<Op, Error> {
    let Fused { graph, scalars, shared } = fused(dtype);
    let inputs = graph.inputs().count();
    let count: usize = shape.iter().product();
    let bytes = (inputs - shared + 1) * count * dtype.size_bytes();
    let sets = ROTATION_BYTES.div_ceil(bytes).max(2);
    let mut tensors = Vec::new();
    for set in 0..sets {
        let made = (0..=inputs).map(|slot| {
            let is_shared = slot < inputs && slot >= inputs - shared;
            let own = if is_shared { &shape[shape.len() - 1..] } else { shape };
            filled(device, own, dtype, (set * 8 + slot) as u64)
        });
        tensors.push(made.collect::<Result<Vec<_>, _>>()?);
    }
    let tensors = std::rc::Rc::new(std::cell::RefCell::new(tensors));
    let (of_check, shape_of_check, shape_of_launch) = (tensors.clone(), shape.to_vec(), shape.to_vec());
    let stream_device = device.clone();
    let launch = move |n: usize| -> Result<(), Error> {
        let mut tensors = tensors.borrow_mut();
        let (output, inputs) = tensors[n % sets].split_last_mut().expect("an output");
        let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
        Ok(run(stream_device.stream(), &graph, &shape_of_launch, &views, &scalars, &mut [output.view_mut()])?)
    };
    let check = move || -> Result<(), Error> {
        let tensors = of_check.borrow();
        let bytes: Vec<Vec<u8>> = tensors[0].iter().map(Tensor::to_bytes).collect::<Result<_, _>>()?;
        let columns = *shape_of_check.last().expect("a shape");
        let all_rows = count / columns;
        // A vector is checked in part, rows are checked whole.
        let width = if all_rows == 1 { columns.min(1 << 16) } else { columns };
        for number in 0..CHECKED_ROWS {
            let first = if all_rows == 1 {
                (columns - width) / CHECKED_ROWS * number
            } else {
                all_rows / CHECKED_ROWS * number * columns
            };
            let is_shared = |slot: usize| slot < inputs && slot >= inputs - shared;
            let mut row: Vec<Vec<f64>> = (bytes.iter().enumerate())
                .map(|(slot, bytes)| elements(bytes, dtype, if is_shared(slot) { 0 } else { first }, width))
                .collect();
            let got = row.pop().expect("an output");
            compare(&got, &reference(&row), tolerance(dtype))?;
        }
        Ok(())
    };
    Ok(Op {
        name,
        shape: shape_text(shape),
        bytes: bytes as f64,
        flops: (operators * count) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn sum(device: &Device, shape: &[usize]) -> Result<Op, Error> {
    let mut graph = Graph::new("sum");
    let x = graph.input(DType::F32);
    let total = graph.reduce(Reduce::Sum, x);
    graph.output(total);
    let count: usize = shape.iter().product();
    let columns = *shape.last().expect("a shape");
    let rows = count / columns;
    let sets = ROTATION_BYTES.div_ceil(count * 4).max(2);
    let inputs: Vec<Tensor> =
        (0..sets).map(|set| filled(device, shape, DType::F32, set as u64)).collect::<Result<_, _>>()?;
    let output = Tensor::empty(device, &[rows, 1], DType::F32)?;
    let state = std::rc::Rc::new(std::cell::RefCell::new((inputs, output)));
    let (of_check, stream_device, space) = (state.clone(), device.clone(), vec![rows, columns]);
    let launch = move |n: usize| -> Result<(), Error> {
        let (inputs, output) = &mut *state.borrow_mut();
        let x = inputs[n % sets].view();
        let x = x.with_layout(x.layout().reshape(&space).expect("contiguous"))?;
        Ok(run(stream_device.stream(), &graph, &space, &[x], &[], &mut [output.view_mut()])?)
    };
    let check = move || -> Result<(), Error> {
        let (inputs, output) = &*of_check.borrow();
        let (x, y) = (inputs[0].to_bytes()?, output.to_bytes()?);
        let got = elements(&y, DType::F32, 0, rows);
        let expected: Vec<f64> =
            (0..rows).map(|row| elements(&x, DType::F32, row * columns, columns).iter().sum()).collect();
        // Sums of normal values cancel: what is left is the square root of their number times a value.
        compare(&got, &expected, 1e-4)
    };
    Ok(Op {
        name: "sum f32",
        shape: shape_text(shape),
        bytes: (count * 4) as f64,
        flops: count as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn transpose(device: &Device, name: &'static str, dtype: DType, n: usize) -> Result<Op, Error> {
    let bytes = 2 * n * n * dtype.size_bytes();
    let sets = ROTATION_BYTES.div_ceil(bytes).max(2);
    let inputs: Vec<Tensor> =
        (0..sets).map(|set| filled(device, &[n, n], dtype, set as u64)).collect::<Result<_, _>>()?;
    let outputs: Vec<Tensor> =
        (0..sets).map(|_| Ok(Tensor::empty(device, &[n, n], dtype)?)).collect::<Result<_, Error>>()?;
    let state = std::rc::Rc::new(std::cell::RefCell::new((inputs, outputs)));
    let of_check = state.clone();
    let launch = move |number: usize| -> Result<(), Error> {
        let (inputs, outputs) = &mut *state.borrow_mut();
        let x = &inputs[number % sets];
        let turned = x.with_layout(x.layout().permute(&[1, 0])?)?;
        Ok(rocfire_fusion::eager::copy_into(turned.view(), outputs[number % sets].view_mut())?)
    };
    let check = move || -> Result<(), Error> {
        let (inputs, outputs) = &*of_check.borrow();
        let (x, y) = (inputs[0].to_bytes()?, outputs[0].to_bytes()?);
        let size = dtype.size_bytes();
        let at = |bytes: &[u8], row: usize, column: usize| bytes[(row * n + column) * size..][..size].to_vec();
        let wrong = (0..n).flat_map(|row| (0..n).step_by(97).map(move |column| (row, column)));
        match wrong.into_iter().find(|&(row, column)| at(&x, row, column) != at(&y, column, row)) {
            Some(place) => Err(format!("element {place:?} is in the wrong place").into()),
            None => Ok(()),
        }
    };
    Ok(Op {
        name,
        shape: shape_text(&[n, n]),
        bytes: bytes as f64,
        flops: 0.0,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn product(device: &Device, dtype: DType, [m, n, k]: [usize; 3], across: bool) -> Result<Op, Error> {
    let bytes = (m * k + k * n + m * n) * dtype.size_bytes();
    let sets = (ROTATION_BYTES / 4).div_ceil(bytes).max(2);
    // `across`: B lies as [N, K], as the weight of a linear layer does in checkpoints.
    let shapes = [[m, k], if across { [n, k] } else { [k, n] }, [m, n]];
    let mut tensors = Vec::new();
    for set in 0..sets {
        let made = (0..3).map(|slot| filled(device, &shapes[slot], dtype, (set * 8 + slot) as u64));
        tensors.push(made.collect::<Result<Vec<_>, _>>()?);
    }
    let tensors = std::rc::Rc::new(std::cell::RefCell::new(tensors));
    let (of_check, stream_device) = (tensors.clone(), device.clone());
    let launch = move |number: usize| -> Result<(), Error> {
        let mut tensors = tensors.borrow_mut();
        let (c, ab) = tensors[number % sets].split_last_mut().expect("three tensors");
        let b = if across { ab[1].view().with_layout(ab[1].layout().permute(&[1, 0])?)? } else { ab[1].view() };
        Ok(gemm(stream_device.stream(), ab[0].view(), b, c.view_mut(), &GemmParams::default())?)
    };
    let check = move || -> Result<(), Error> {
        let tensors = of_check.borrow();
        let bytes: Vec<Vec<u8>> = tensors[0].iter().map(Tensor::to_bytes).collect::<Result<_, _>>()?;
        let b = elements(&bytes[1], dtype, 0, n * k);
        let checked = CHECKED_ROWS.min(m);
        for number in 0..checked {
            let row = if checked > 1 { (m - 1) / (checked - 1) * number } else { 0 };
            let a = elements(&bytes[0], dtype, row * k, k);
            let mut expected = vec![0.0; n];
            if across {
                for (sum, b) in expected.iter_mut().zip(b.chunks_exact(k)) {
                    *sum = a.iter().zip(b).map(|(a, b)| a * b).sum();
                }
            } else {
                for (&a, b) in a.iter().zip(b.chunks_exact(n)) {
                    for (sum, &b) in expected.iter_mut().zip(b) {
                        *sum += a * b;
                    }
                }
            }
            compare(&elements(&bytes[2], dtype, row * n, n), &expected, tolerance(dtype))?;
        }
        Ok(())
    };
    let name = match dtype {
        DType::F32 => "product f32",
        DType::F16 => "product f16",
        _ => "product bf16",
    };
    Ok(Op {
        name,
        shape: format!("{}{}", shape_text(&[m, n, k]), if across { " B as [N, K]" } else { "" }),
        bytes: bytes as f64,
        flops: 2.0 * (m * n * k) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn add(dtype: DType) -> Fused {
    let mut g = Graph::new("add");
    let (x, y) = (g.input(dtype), g.input(dtype));
    let sum = g.binary(Binary::Add, x, y);
    g.output(sum);
    g.into()
}

fn chain(dtype: DType) -> Fused {
    let mut g = Graph::new("chain");
    let (x, y) = (g.input(dtype), g.input(dtype));
    let (one, zero, half) = (g.constant(dtype, 1.0), g.constant(dtype, 0.0), g.constant(dtype, 0.5));
    let product = g.binary(Binary::Mul, x, y);
    let shifted = g.binary(Binary::Add, product, one);
    let positive = g.binary(Binary::Max, shifted, zero);
    let less = g.binary(Binary::Sub, positive, y);
    let scaled = g.binary(Binary::Mul, less, half);
    let exp = g.unary(Unary::Exp, scaled);
    let log = g.unary(Unary::Log1p, exp);
    let last = g.binary(Binary::Add, log, x);
    g.output(last);
    g.into()
}

fn silu_mul(dtype: DType) -> Fused {
    let mut g = Graph::new("silu_mul");
    let (x, y) = (g.input(dtype), g.input(dtype));
    let negated = g.unary(Unary::Neg, x);
    let exp = g.unary(Unary::Exp, negated);
    let one = g.constant(dtype, 1.0);
    let shifted = g.binary(Binary::Add, exp, one);
    let sigmoid = g.unary(Unary::Recip, shifted);
    let silu = g.binary(Binary::Mul, x, sigmoid);
    let gated = g.binary(Binary::Mul, silu, y);
    g.output(gated);
    g.into()
}

fn softmax(dtype: DType) -> Fused {
    let mut g = Graph::new("softmax");
    let x = g.input(dtype);
    let most = g.reduce(Reduce::Max, x);
    let shifted = g.binary(Binary::Sub, x, most);
    let exp = g.unary(Unary::Exp, shifted);
    let sum = g.reduce(Reduce::Sum, exp);
    let y = g.binary(Binary::Div, exp, sum);
    g.output(y);
    g.into()
}

/// As Burn's `RmsNorm` writes it: the mean in f32, the rest in the tensor's dtype.
fn rms_norm(dtype: DType) -> Fused {
    let mut g = Graph::new("rms_norm");
    let (x, gamma) = (g.input(dtype), g.input(dtype));
    let wide = g.cast(x, DType::F32);
    let square = g.binary(Binary::Mul, wide, wide);
    let mean = g.reduce(Reduce::Mean, square);
    let epsilon = g.scalar(DType::F32);
    let shifted = g.binary(Binary::Add, mean, epsilon);
    let root = g.unary(Unary::Sqrt, shifted);
    let root = g.cast(root, dtype);
    let normal = g.binary(Binary::Div, x, root);
    let y = g.binary(Binary::Mul, normal, gamma);
    g.output(y);
    Fused { graph: g, scalars: vec![Scalar::Float(1e-5)], shared: 1 }
}

/// As Burn's backends write `layer_norm`.
fn layer_norm(dtype: DType) -> Fused {
    let mut g = Graph::new("layer_norm");
    let (x, gamma, beta) = (g.input(dtype), g.input(dtype), g.input(dtype));
    let mean = g.reduce(Reduce::Mean, x);
    let centred = g.binary(Binary::Sub, x, mean);
    let square = g.binary(Binary::Mul, centred, centred);
    let variance = g.reduce(Reduce::Mean, square);
    let epsilon = g.scalar(dtype);
    let shifted = g.binary(Binary::Add, variance, epsilon);
    let root = g.unary(Unary::Sqrt, shifted);
    let normal = g.binary(Binary::Div, centred, root);
    let scaled = g.binary(Binary::Mul, normal, gamma);
    let y = g.binary(Binary::Add, scaled, beta);
    g.output(y);
    Fused { graph: g, scalars: vec![Scalar::Float(1e-5)], shared: 2 }
}

fn layer_norm_reference(row: &[Vec<f64>]) -> Vec<f64> {
    let count = row[0].len() as f64;
    let mean = row[0].iter().sum::<f64>() / count;
    let variance = row[0].iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let of = |(i, x): (usize, &f64)| (x - mean) / (variance + 1e-5).sqrt() * row[1][i] + row[2][i];
    row[0].iter().enumerate().map(of).collect()
}

/// `tanh(gelu(a·b + c)·d) + a`, with the GELU as Burn's backends write it.
fn gelu_chain(dtype: DType) -> Fused {
    let mut g = Graph::new("gelu_chain");
    let (a, b, c, d) = (g.input(dtype), g.input(dtype), g.input(dtype), g.input(dtype));
    let product = g.binary(Binary::Mul, a, b);
    let x = g.binary(Binary::Add, product, c);
    let root = g.scalar(dtype);
    let scaled = g.binary(Binary::Div, x, root);
    let erf = g.unary(Unary::Erf, scaled);
    let one = g.scalar(dtype);
    let shifted = g.binary(Binary::Add, erf, one);
    let doubled = g.binary(Binary::Mul, x, shifted);
    let two = g.scalar(dtype);
    let gelu = g.binary(Binary::Div, doubled, two);
    let gated = g.binary(Binary::Mul, gelu, d);
    let tanh = g.unary(Unary::Tanh, gated);
    let y = g.binary(Binary::Add, tanh, a);
    g.output(y);
    Fused { graph: g, scalars: [2f64.sqrt(), 1.0, 2.0].map(Scalar::Float).to_vec(), shared: 0 }
}
