//! Elementwise chains, row reductions, sums and transposes.

use rocfire_fusion::{Binary, Draft, Graph, Reduce, Scalar, Unary, run};
use rocfire_hal::{DType, Device, Tensor};

use crate::op::{CHECKED_ROWS, Error, Make, Op, ROTATION_BYTES, compare, elements, filled, shape_text, tolerance};

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

/// What an operator did to a row, the slow way.
type RowReference = fn(&[Vec<f64>]) -> Vec<f64>;

pub const OPS: &[Make] = &[
    ("add f32", |device, name| {
        rows(device, name, DType::F32, &[64 << 20], 1, add, |row| {
            row[0].iter().zip(&row[1]).map(|(a, b)| a + b).collect()
        })
    }),
    ("chain of 7 f32", |device, name| {
        rows(device, name, DType::F32, &[64 << 20], 7, chain, |row| {
            row[0].iter().zip(&row[1]).map(|(x, y)| (((x * y + 1.0).max(0.0) - y) * 0.5).exp().ln_1p() + x).collect()
        })
    }),
    ("gelu chain f32", |device, name| {
        rows(device, name, DType::F32, &[64 << 20], 9, gelu_chain, |row| {
            let gelu = |x: f64| x * 0.5 * (1.0 + libm::erf(x / 2f64.sqrt()));
            (0..row[0].len())
                .map(|i| (gelu(row[0][i] * row[1][i] + row[2][i]) * row[3][i]).tanh() + row[0][i])
                .collect()
        })
    }),
    ("silu mul bf16", |device, name| {
        rows(device, name, DType::BF16, &[8192, 4096], 5, silu_mul, |row| {
            row[0].iter().zip(&row[1]).map(|(x, y)| x / (1.0 + (-x).exp()) * y).collect()
        })
    }),
    ("silu mul as Burn bf16", |device, name| {
        rows(device, name, DType::BF16, &[8192, 4096], 9, burn_silu_mul, |row| {
            row[0].iter().zip(&row[1]).map(|(x, y)| x / (1.0 + (-x).exp()) * y).collect()
        })
    }),
    ("softmax bf16", |device, name| {
        rows(device, name, DType::BF16, &[8192, 4096], 5, softmax, |row| {
            let most = row[0].iter().copied().fold(f64::MIN, f64::max);
            let exp: Vec<f64> = row[0].iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = exp.iter().sum();
            exp.iter().map(|x| x / sum).collect()
        })
    }),
    ("softmax f32", |device, name| {
        rows(device, name, DType::F32, &[8192, 4096], 5, softmax, |row| {
            let most = row[0].iter().copied().fold(f64::MIN, f64::max);
            let exp: Vec<f64> = row[0].iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = exp.iter().sum();
            exp.iter().map(|x| x / sum).collect()
        })
    }),
    ("rms norm bf16", |device, name| {
        rows(device, name, DType::BF16, &[8192, 4096], 5, rms_norm, |row| {
            let mean = row[0].iter().map(|x| x * x).sum::<f64>() / row[0].len() as f64;
            row[0].iter().zip(&row[1]).map(|(x, gamma)| x / (mean + 1e-5).sqrt() * gamma).collect()
        })
    }),
    ("layer norm bf16", |device, name| {
        rows(device, name, DType::BF16, &[8192, 4096], 10, layer_norm, layer_norm_reference)
    }),
    ("layer norm f32", |device, name| {
        rows(device, name, DType::F32, &[8192, 4096], 10, layer_norm, layer_norm_reference)
    }),
    ("chains f32", |device, name| chains(device, name, 1)),
    ("chains f32", |device, name| chains(device, name, 12)),
    ("sum f32", |device, name| sum(device, name, &[64 << 20])),
    ("sum f32", |device, name| sum(device, name, &[8192, 8192])),
    ("transpose f32", |device, name| transpose(device, name, DType::F32, 8192)),
    ("transpose bf16", |device, name| transpose(device, name, DType::BF16, 8192)),
    ("transpose f64", |device, name| transpose(device, name, DType::F64, 4096)),
];

/// A fused graph with one output of the inputs' shape.
fn rows(
    device: &Device,
    name: &str,
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
        name: name.to_owned(),
        shape: shape_text(shape),
        bytes: bytes as f64,
        flops: (operators * count) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

/// Chains of 11 operators that read one tensor besides their own, in one kernel.
fn chains(device: &Device, name: &str, count: usize) -> Result<Op, Error> {
    let shape = [4096, 4096];
    let elements_each: usize = shape.iter().product();
    let draft = Draft::new("chains");
    let shared = draft.input(DType::F32);
    for _ in 0..count {
        let x = draft.input(DType::F32);
        let product = x * shared;
        let gelu = product * ((product / 2f64.sqrt()).unary(Unary::Erf) + 1.0) * 0.5;
        let last = (gelu * shared).unary(Unary::Tanh) + x;
        draft.output(last * last - x);
    }
    let graph = draft.finish();
    let make = |seed: usize| filled(device, &shape, DType::F32, seed as u64);
    let inputs: Vec<Tensor> = (0..=count).map(make).collect::<Result<_, _>>()?;
    let outputs: Vec<Tensor> =
        (0..count).map(|_| Ok(Tensor::empty(device, &shape, DType::F32)?)).collect::<Result<_, Error>>()?;
    let state = std::rc::Rc::new(std::cell::RefCell::new((inputs, outputs)));
    let (of_check, stream_device) = (state.clone(), device.clone());
    let launch = move |_: usize| -> Result<(), Error> {
        let (inputs, outputs) = &mut *state.borrow_mut();
        let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
        let mut outputs: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
        Ok(run(stream_device.stream(), &graph, &shape, &views, &[], &mut outputs)?)
    };
    let check = move || -> Result<(), Error> {
        let (inputs, outputs) = &*of_check.borrow();
        let head = |tensor: &Tensor| -> Result<Vec<f64>, Error> {
            Ok(elements(&tensor.to_bytes()?, DType::F32, 0, CHECKED_ROWS * shape[1]))
        };
        let shared = head(&inputs[0])?;
        for (x, y) in inputs[1..].iter().zip(outputs) {
            let expected = head(x)?.into_iter().zip(&shared).map(|(x, s)| {
                let product = x * s;
                let gelu = product * 0.5 * (1.0 + libm::erf(product / 2f64.sqrt()));
                ((gelu * s).tanh() + x).powi(2) - x
            });
            compare(&head(y)?, &expected.collect::<Vec<_>>(), tolerance(DType::F32))?;
        }
        Ok(())
    };
    Ok(Op {
        name: name.to_owned(),
        shape: format!("{count} of {}", shape_text(&shape)),
        bytes: ((2 * count + 1) * elements_each * 4) as f64,
        flops: (11 * count * elements_each) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn sum(device: &Device, name: &str, shape: &[usize]) -> Result<Op, Error> {
    let graph = Draft::graph("sum", |g| g.input(DType::F32).reduce(Reduce::Sum));
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
        name: name.to_owned(),
        shape: shape_text(shape),
        bytes: (count * 4) as f64,
        flops: count as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}

fn transpose(device: &Device, name: &str, dtype: DType, n: usize) -> Result<Op, Error> {
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
        name: name.to_owned(),
        shape: shape_text(&[n, n]),
        bytes: bytes as f64,
        flops: 0.0,
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
    let graph = Draft::graph("chain", |g| {
        let (x, y) = (g.input(dtype), g.input(dtype));
        let positive = (x * y + 1.0).binary(Binary::Max, x.number(0.0));
        ((positive - y) * 0.5).unary(Unary::Exp).unary(Unary::Log1p) + x
    });
    graph.into()
}

fn silu_mul(dtype: DType) -> Fused {
    let graph = Draft::graph("silu_mul", |g| {
        let (x, y) = (g.input(dtype), g.input(dtype));
        x * ((-x).unary(Unary::Exp) + 1.0).unary(Unary::Recip) * y
    });
    graph.into()
}

/// As Burn's backends take the sigmoid apart, in f32.
fn burn_silu_mul(dtype: DType) -> Fused {
    let graph = Draft::graph("burn_silu_mul", |g| {
        let (x, y) = (g.input(dtype), g.input(dtype));
        let log = ((-x.cast(DType::F32)).unary(Unary::Exp) + 1.0).unary(Unary::Log);
        x * (-log).unary(Unary::Exp).cast(dtype) * y
    });
    graph.into()
}

fn softmax(dtype: DType) -> Fused {
    let graph = Draft::graph("softmax", |g| {
        let x = g.input(dtype);
        let exp = (x - x.reduce(Reduce::Max)).unary(Unary::Exp);
        exp / exp.reduce(Reduce::Sum)
    });
    graph.into()
}

/// As Burn's `RmsNorm` writes it: the mean in f32, the rest in the tensor's dtype.
fn rms_norm(dtype: DType) -> Fused {
    let graph = Draft::graph("rms_norm", |g| {
        let (x, gamma) = (g.input(dtype), g.input(dtype));
        let wide = x.cast(DType::F32);
        let root = ((wide * wide).reduce(Reduce::Mean) + g.scalar(DType::F32)).unary(Unary::Sqrt);
        x / root.cast(dtype) * gamma
    });
    Fused { graph, scalars: vec![Scalar::Float(1e-5)], shared: 1 }
}

/// As Burn's backends write `layer_norm`.
fn layer_norm(dtype: DType) -> Fused {
    let graph = Draft::graph("layer_norm", |g| {
        let (x, gamma, beta) = (g.input(dtype), g.input(dtype), g.input(dtype));
        let centred = x - x.reduce(Reduce::Mean);
        let root = ((centred * centred).reduce(Reduce::Mean) + g.scalar(dtype)).unary(Unary::Sqrt);
        centred / root * gamma + beta
    });
    Fused { graph, scalars: vec![Scalar::Float(1e-5)], shared: 2 }
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
    let graph = Draft::graph("gelu_chain", |g| {
        let [a, b, c, d] = [(); 4].map(|()| g.input(dtype));
        let [root, one, two] = [(); 3].map(|()| g.scalar(dtype));
        let x = a * b + c;
        let gelu = x * ((x / root).unary(Unary::Erf) + one) / two;
        (gelu * d).unary(Unary::Tanh) + a
    });
    Fused { graph, scalars: [2f64.sqrt(), 1.0, 2.0].map(Scalar::Float).to_vec(), shared: 0 }
}
