//! Matrix products.

use rocfire_hal::{DType, Device, Tensor};
use rocfire_kernels::gemm::{GemmParams, gemm};

use crate::op::{CHECKED_ROWS, Error, Make, Op, ROTATION_BYTES, compare, elements, filled, shape_text, tolerance};

pub const OPS: &[Make] = &[
    ("product f32", |device, name| product(device, name, DType::F32, [2048; 3], false)),
    ("product f16", |device, name| product(device, name, DType::F16, [1024; 3], false)),
    ("product f16", |device, name| product(device, name, DType::F16, [2048; 3], false)),
    ("product f16", |device, name| product(device, name, DType::F16, [4096; 3], false)),
    ("product f16", |device, name| product(device, name, DType::F16, [4096; 3], true)),
    ("product f16", |device, name| product(device, name, DType::F16, [8192; 3], false)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [1024; 3], false)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [2048; 3], false)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [4096; 3], false)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [8192; 3], false)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [1, 14336, 4096], false)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [1, 14336, 4096], true)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [16, 14336, 4096], false)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [16, 14336, 4096], true)),
    ("product f16", |device, name| product(device, name, DType::F16, [1, 14336, 4096], true)),
    ("product f16", |device, name| product(device, name, DType::F16, [16, 14336, 4096], true)),
    ("product bf16", |device, name| product(device, name, DType::BF16, [64, 14336, 4096], true)),
];

/// `a` [m, k] by `b` [k, n], or by `b` stored as [n, k].
pub fn product(device: &Device, name: &str, dtype: DType, [m, n, k]: [usize; 3], across: bool) -> Result<Op, Error> {
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
    Ok(Op {
        name: name.to_owned(),
        shape: format!("{}{}", shape_text(&[m, n, k]), if across { " B as [N, K]" } else { "" }),
        bytes: bytes as f64,
        flops: 2.0 * (m * n * k) as f64,
        launch: Box::new(launch),
        check: Box::new(check),
    })
}
