//! Candle's operators on our device against Candle's own CPU device.

mod common;
#[path = "ops/outside.rs"]
mod outside;

use candle_core::DType::{BF16, F16, F32, F64, I64, U8, U32};
use candle_core::{D, DType, Result, Tensor};
use common::{Inputs, agree, agree_within, gpu};

const FLOATS: [DType; 4] = [F32, F64, F16, BF16];
const ALL: [DType; 7] = [F32, F64, F16, BF16, U8, U32, I64];

/// A shape that ends in the middle of a workgroup, seen with its axes exchanged and from an offset.
fn strided(inputs: &Inputs, dtype: DType) -> Result<Tensor> {
    inputs.make(&[7, 6, 11], dtype)?.narrow(1, 2, 3)?.transpose(0, 2)
}

#[test]
fn unary_operators_agree() {
    type Unary = (&'static str, fn(&Tensor) -> Result<Tensor>);
    let operators: [Unary; 20] = [
        ("exp", Tensor::exp),
        ("sin", Tensor::sin),
        ("cos", Tensor::cos),
        ("tanh", Tensor::tanh),
        ("erf", Tensor::erf),
        ("neg", Tensor::neg),
        ("abs", Tensor::abs),
        ("ceil", Tensor::ceil),
        ("floor", Tensor::floor),
        ("round", Tensor::round),
        ("sqr", Tensor::sqr),
        ("sign", Tensor::sign),
        ("relu", Tensor::relu),
        ("silu", Tensor::silu),
        ("gelu", Tensor::gelu),
        ("gelu_erf", Tensor::gelu_erf),
        ("recip", |x| (x.abs()? + 0.5)?.recip()),
        ("log", |x| (x.abs()? + 0.5)?.log()),
        ("sqrt", |x| x.abs()?.sqrt()),
        ("sigmoid", candle_nn::ops::sigmoid),
    ];
    for (name, operator) in operators {
        for dtype in [F32, F16] {
            agree(&format!("{name} {dtype:?}"), |inputs| operator(&inputs.make(&[131], dtype)?));
        }
        agree(&format!("{name} strided"), |inputs| operator(&strided(inputs, F32)?));
    }
    for dtype in FLOATS {
        agree("elu", |inputs| inputs.make(&[65], dtype)?.elu(0.7));
        agree("powf", |inputs| inputs.range(&[65], dtype, 0.1, 3.0)?.powf(1.3));
        agree("affine", |inputs| strided(inputs, dtype)?.affine(2.5, -1.0));
    }
}

#[test]
fn binary_operators_and_comparisons_agree() {
    type Binary = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>);
    let operators: [Binary; 12] = [
        ("add", |a, b| a.broadcast_add(b)),
        ("sub", |a, b| a.broadcast_sub(b)),
        ("mul", |a, b| a.broadcast_mul(b)),
        ("div", |a, b| a.broadcast_div(b)),
        ("minimum", |a, b| a.broadcast_minimum(b)),
        ("maximum", |a, b| a.broadcast_maximum(b)),
        ("eq", |a, b| a.broadcast_eq(b)),
        ("ne", |a, b| a.broadcast_ne(b)),
        ("lt", |a, b| a.broadcast_lt(b)),
        ("le", |a, b| a.broadcast_le(b)),
        ("gt", |a, b| a.broadcast_gt(b)),
        ("ge", |a, b| a.broadcast_ge(b)),
    ];
    for (number, (name, operator)) in operators.into_iter().enumerate() {
        // Each kernel by itself is tested where it is made: here two types for each operator, all of them in turn.
        for dtype in [F32, ALL[1 + number % 6]] {
            // Nothing is divided by zero, and nothing unsigned goes below it.
            let pair = |inputs: &Inputs, shapes: [&[usize]; 2]| {
                let (low, high) = if matches!(dtype, U8 | U32) { (5.0, 9.99) } else { (-3.0, 3.0) };
                let (left, right) =
                    (inputs.range(shapes[0], dtype, low, high)?, inputs.range(shapes[1], dtype, 1.0, 4.0)?);
                Ok::<_, candle_core::Error>((left, right))
            };
            agree(&format!("{name} {dtype:?}"), |inputs| {
                let (left, right) = pair(inputs, [&[67], &[67]])?;
                operator(&left, &right)
            });
            agree(&format!("{name} {dtype:?} broadcast"), |inputs| {
                let (left, right) = pair(inputs, [&[4, 1, 5], &[3, 1]])?;
                operator(&left, &right)
            });
        }
    }
}

#[test]
fn casts_agree() {
    for from in ALL {
        // Candle has no kernels between these.
        let is_half = |dtype| matches!(dtype, F16 | BF16);
        for to in ALL.into_iter().filter(|&to| !(is_half(from) && to == I64 || from == I64 && is_half(to))) {
            agree(&format!("{from:?} to {to:?}"), |inputs| inputs.range(&[35], from, 0.0, 9.0)?.to_dtype(to));
        }
        agree(&format!("{from:?} to f32, strided"), |inputs| strided(inputs, from)?.to_dtype(F32));
    }
}

/// Candle's CPU device sums 16-bit floats in 16 bits, ours in 32: it is given 32.
fn in_f32_on_the_cpu(x: &Tensor, reduce: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    if x.device().is_cpu() && matches!(x.dtype(), F16 | BF16) {
        return reduce(&x.to_dtype(F32)?)?.to_dtype(x.dtype());
    }
    reduce(x)
}

#[test]
fn reductions_agree() {
    for dtype in FLOATS {
        let axes: [&[usize]; 4] = [&[2], &[0], &[1, 2], &[0, 1, 2]];
        for axis in axes {
            let name = format!("{dtype:?} over {axis:?}");
            agree_within(&format!("sum {name}"), 4.0, |inputs| {
                in_f32_on_the_cpu(&inputs.range(&[5, 3, 70], dtype, 0.0, 1.0)?, |x| x.sum(axis))
            });
            agree_within(&format!("mean {name}"), 4.0, |inputs| {
                in_f32_on_the_cpu(&strided(inputs, dtype)?, |x| x.mean(axis))
            });
        }
        for axis in 0..3 {
            agree(&format!("max {dtype:?} {axis}"), |inputs| strided(inputs, dtype)?.max(axis));
            agree(&format!("min {dtype:?} {axis}"), |inputs| inputs.make(&[5, 3, 70], dtype)?.min(axis));
        }
    }
    for dtype in [F32, U32, I64] {
        for axis in 0..2 {
            agree(&format!("argmax {dtype:?} {axis}"), |inputs| inputs.make(&[9, 70], dtype)?.argmax(axis));
            agree(&format!("argmin {dtype:?} {axis}"), |inputs| inputs.make(&[9, 70], dtype)?.argmin_keepdim(axis));
        }
        agree(&format!("sum {dtype:?}"), |inputs| inputs.range(&[3, 700], dtype, 0.0, 1.0)?.sum(0));
    }
    agree_within("sum of many", 20.0, |inputs| inputs.range(&[3, 5000], F32, 0.0, 1.0)?.sum(1));
}

#[test]
fn rows_are_normalised_alike() {
    // Candle's CPU device has no norms in f64.
    for dtype in [F32, F16, BF16] {
        for columns in [1, 33, 100] {
            let name = format!("{dtype:?} {columns}");
            agree(&format!("softmax {name}"), |inputs| {
                candle_nn::ops::softmax_last_dim(&inputs.make(&[5, columns], dtype)?)
            });
            let weights = |inputs: &Inputs| inputs.make(&[columns], dtype);
            agree_within(&format!("rms_norm {name}"), 2.0, |inputs| {
                candle_nn::ops::rms_norm(&inputs.make(&[5, columns], dtype)?, &weights(inputs)?, 1e-5)
            });
            if columns > 1 {
                agree_within(&format!("layer_norm {name}"), 4.0, |inputs| {
                    let x = inputs.make(&[5, columns], dtype)?;
                    candle_nn::ops::layer_norm(&x, &weights(inputs)?, &weights(inputs)?, 1e-5)
                });
            }
        }
    }
    agree("softmax by parts", |inputs| candle_nn::ops::softmax(&strided(inputs, F32)?, 1));
    agree("rms_norm of wide rows", |inputs| {
        candle_nn::ops::rms_norm(&inputs.make(&[2, 1500], F32)?, &inputs.make(&[1500], F32)?, 1e-5)
    });
}

#[test]
fn rotary_embeddings_agree() {
    type Rope = (&'static str, fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>, [usize; 4]);
    use candle_nn::rotary_emb::{rope, rope_i, rope_thd};
    let kinds: [Rope; 3] =
        [("rope", rope, [2, 3, 5, 8]), ("rope_i", rope_i, [2, 3, 5, 8]), ("rope_thd", rope_thd, [2, 5, 3, 8])];
    for (name, operator, shape) in kinds {
        for dtype in [F32, BF16] {
            agree(&format!("{name} {dtype:?}"), |inputs| {
                let (cos, sin) = (inputs.make(&[5, 4], dtype)?, inputs.make(&[5, 4], dtype)?);
                operator(&inputs.make(&shape, dtype)?, &cos, &sin)
            });
        }
    }
}

#[test]
fn selections_and_indices_agree() {
    for id in [U8, U32, I64] {
        for dtype in [F32, BF16, U32] {
            let name = format!("{id:?} {dtype:?}");
            agree(&format!("index_select {name}"), |inputs| {
                inputs.make(&[4, 9, 3], dtype)?.index_select(&inputs.ids(&[6], id, 9)?, 1)
            });
            agree(&format!("gather {name}"), |inputs| {
                inputs.make(&[4, 9, 3], dtype)?.gather(&inputs.ids(&[4, 5, 3], id, 9)?, 1)
            });
            agree(&format!("where {name}"), |inputs| {
                let mask = inputs.ids(&[5, 7], id, 2)?;
                mask.where_cond(&inputs.make(&[5, 7], dtype)?, &inputs.make(&[7, 5], dtype)?.t()?)
            });
            agree(&format!("index_add {name}"), |inputs| {
                let target = inputs.make(&[4, 9], dtype)?;
                target.index_add(&inputs.ids(&[6], id, 9)?, &inputs.range(&[4, 6], dtype, 0.0, 2.0)?, 1)
            });
            agree(&format!("scatter_add {name}"), |inputs| {
                let target = inputs.make(&[9, 4], dtype)?;
                target.scatter_add(&inputs.ids(&[6, 4], id, 9)?, &inputs.range(&[6, 4], dtype, 0.0, 2.0)?, 0)
            });
        }
    }
    agree("embedding", |inputs| inputs.make(&[11, 16], F16)?.embedding(&inputs.ids(&[7], U32, 11)?));
    agree("scatter", |inputs| {
        // Ids that differ: with equal ones the order would decide.
        let ids = inputs.values(&[3.0, 0.0, 7.0, 1.0], U32)?.reshape((4, 1))?.broadcast_as((4, 5))?.contiguous()?;
        inputs.make(&[9, 5], F32)?.scatter(&ids, &inputs.make(&[4, 5], F32)?, 0)
    });
}

#[test]
fn copies_fills_and_concatenations_agree() {
    for dtype in ALL {
        let name = format!("{dtype:?}");
        agree(&format!("contiguous {name}"), |inputs| strided(inputs, dtype)?.contiguous());
        agree(&format!("cat {name}"), |inputs| {
            let parts = [
                inputs.make(&[3, 2, 5], dtype)?,
                inputs.make(&[3, 4, 5], dtype)?,
                strided(inputs, dtype)?.narrow(0, 0, 3)?.narrow(2, 0, 5)?,
            ];
            Tensor::cat(&parts, 1)
        });
        agree(&format!("repeat {name}"), |inputs| inputs.make(&[2, 3], dtype)?.repeat((2, 2)));
        agree(&format!("ones {name}"), |inputs| Tensor::ones((3, 5), dtype, inputs.device()));
        agree(&format!("full {name}"), |inputs| Tensor::full(7_u8, (3, 5), inputs.device())?.to_dtype(dtype));
        agree(&format!("const_set {name}"), |inputs| {
            let target = inputs.make(&[4, 6], dtype)?;
            target.t()?.narrow(0, 1, 3)?.const_set(candle_core::scalar::Scalar::one(dtype))?;
            Ok(target)
        });
        agree(&format!("slice_set {name}"), |inputs| {
            let target = inputs.make(&[4, 6], dtype)?;
            target.slice_set(&inputs.make(&[4, 2], dtype)?, 1, 3)?;
            Ok(target)
        });
    }
    agree("flip", |inputs| inputs.make(&[3, 4], F32)?.flip(&[1]));
    agree("pad", |inputs| inputs.make(&[3, 4], F32)?.pad_with_zeros(1, 2, 1));
    agree("roll", |inputs| inputs.make(&[3, 4], F32)?.roll(1, 0));
    agree("cumsum", |inputs| inputs.range(&[3, 9], F32, 0.0, 1.0)?.cumsum(1));
    agree("arange", |inputs| Tensor::arange(0_f32, 17.0, inputs.device()));
    agree("tril", |inputs| Tensor::tril2(5, F32, inputs.device()));
}

#[test]
fn sorts_agree() {
    for dtype in [F32, U32, F16] {
        for columns in [1, 5, 100, 1500] {
            for ascending in [true, false] {
                // Different numbers: the order of equal ones is nobody's promise.
                agree(&format!("sort {dtype:?} {columns} {ascending}"), |inputs| {
                    let mixed = (0..columns).map(|i| ((i * 7 + 3) % columns) as f64);
                    let row: Vec<f64> =
                        if columns % 7 == 0 { (0..columns).map(|i| i as f64).collect() } else { mixed.collect() };
                    let x =
                        inputs.values(&row, dtype)?.reshape((1, columns))?.broadcast_as((2, columns))?.contiguous()?;
                    Ok(x.sort_last_dim(ascending)?.0)
                });
            }
        }
    }
    agree("indices", |inputs| inputs.make(&[3, 40], F32)?.arg_sort_last_dim(true));
}

#[test]
fn views_without_elements_may_begin_behind_the_end() -> Result<()> {
    let rows = Tensor::ones((5, 4, 3), F32, &gpu())?;
    // The second has a block of 60 elements and begins at 66.
    for empty in [Tensor::ones((0, 4, 3), F32, &gpu())?, rows.narrow(0, 5, 0)?] {
        let view = empty.narrow(1, 2, 2)?;
        assert_eq!(view.eq(&view)?.flatten_all()?.to_vec1::<u8>()?, [0; 0]);
        assert_eq!((view.exp()? * 2.0)?.contiguous()?.dims(), [0, 2, 3]);
        assert_eq!(view.t()?.contiguous()?.to_dtype(F16)?.dims(), [0, 3, 2]);
        assert_eq!(view.sum(0)?.to_vec2::<f32>()?, [[0.0; 3]; 2]);
        assert_eq!(Tensor::cat(&[&view, &rows.narrow(1, 2, 2)?], 0)?.sum_all()?.to_scalar::<f32>()?, 30.0);
    }
    Ok(())
}

#[test]
fn convolutions_and_pools_agree() {
    for dtype in [F32, F16] {
        agree_within(&format!("conv1d {dtype:?}"), 4.0, |inputs| {
            inputs.make(&[2, 4, 9], dtype)?.conv1d(&inputs.make(&[6, 2, 3], dtype)?, 1, 2, 1, 2)
        });
        agree_within(&format!("conv2d {dtype:?}"), 8.0, |inputs| {
            inputs.make(&[2, 3, 8, 7], dtype)?.conv2d(&inputs.make(&[4, 3, 3, 3], dtype)?, 1, 2, 1, 1)
        });
        agree_within(&format!("conv_transpose1d {dtype:?}"), 8.0, |inputs| {
            inputs.make(&[1, 4, 5], dtype)?.conv_transpose1d(&inputs.make(&[4, 3, 3], dtype)?, 1, 1, 2, 1, 1)
        });
        agree_within(&format!("conv_transpose2d {dtype:?}"), 8.0, |inputs| {
            inputs.make(&[2, 3, 4, 5], dtype)?.conv_transpose2d(&inputs.make(&[3, 2, 3, 3], dtype)?, 1, 1, 2, 1)
        });
    }
    agree("max_pool2d", |inputs| inputs.make(&[2, 3, 9, 8], F32)?.max_pool2d_with_stride((3, 2), (2, 2)));
    agree("avg_pool2d", |inputs| inputs.make(&[2, 3, 9, 8], F32)?.avg_pool2d(2));
    agree("a pool of no images", |inputs| inputs.make(&[0, 3, 5, 5], F32)?.max_pool2d(2));
    agree("an upsampling of no images", |inputs| inputs.make(&[0, 3, 5, 5], F32)?.upsample_nearest2d(7, 8));
    agree("a transposed convolution of no images", |inputs| {
        inputs.make(&[0, 3, 4, 5], F32)?.conv_transpose2d(&inputs.make(&[3, 2, 3, 3], F32)?, 1, 1, 2, 1)
    });
    agree("a transposed convolution of no channels", |inputs| {
        inputs.make(&[2, 0, 4, 5], F32)?.conv_transpose2d(&inputs.make(&[0, 2, 3, 3], F32)?, 1, 1, 2, 1)
    });
    agree("upsample_nearest2d", |inputs| inputs.make(&[1, 2, 3, 4], F32)?.upsample_nearest2d(7, 8));
    agree("interpolate2d", |inputs| inputs.make(&[1, 2, 3, 4], F32)?.interpolate2d(6, 6));
}

#[test]
fn windows_of_every_type_and_layout_agree() {
    for dtype in [F32, F64, F16, BF16, U8, U32] {
        // Candle's CPU device ends where a sum of integers overflows.
        let some = |inputs: &Inputs, shape: &[usize]| match dtype {
            U8 => inputs.range(shape, dtype, 0.0, 1.99),
            _ => inputs.make(shape, dtype),
        };
        // Prime extents, rows and columns swapped, and what an operator has just made and nobody has read.
        let image = |inputs: &Inputs| {
            let x = some(inputs, &[2, 3, 11, 7])?;
            (&x + &x)?.transpose(2, 3)
        };
        agree(&format!("max_pool2d {dtype:?}"), |inputs| image(inputs)?.max_pool2d_with_stride((2, 3), (1, 2)));
        agree(&format!("max_pool2d of everything {dtype:?}"), |inputs| image(inputs)?.max_pool2d((7, 11)));
        if !matches!(dtype, U8 | U32) {
            // Candle's CPU device takes no mean of integers: it multiplies by a reciprocal of their type.
            agree_within(&format!("avg_pool2d {dtype:?}"), 4.0, |inputs| {
                image(inputs)?.avg_pool2d_with_stride((3, 2), (1, 2))
            });
        }
        for (padding, output_padding, stride, dilation) in [(0, 0, 1, 1), (1, 1, 2, 1), (2, 0, 3, 2), (0, 2, 3, 1)] {
            let what = format!("{dtype:?} {padding} {output_padding} {stride} {dilation}");
            agree_within(&format!("conv_transpose2d {what}"), 16.0, |inputs| {
                let weights = some(inputs, &[3, 5, 2, 3])?.transpose(2, 3)?;
                image(inputs)?.conv_transpose2d(&weights, padding, output_padding, stride, dilation)
            });
            if matches!(dtype, U8 | U32) && (padding, output_padding, dilation) == (0, 0, 1) {
                // Then Candle's own product of integers comes first, which CUDA does not have.
                continue;
            }
            for groups in [1, 3] {
                agree_within(&format!("conv_transpose1d {what} {groups}"), 16.0, |inputs| {
                    let (x, weights) = (some(inputs, &[2, 13, 3])?, some(inputs, &[3, 5, 4])?);
                    let x = (&x + &x)?.transpose(1, 2)?;
                    // Its product takes no single channel out of others.
                    let x = if groups > 1 { x.contiguous()? } else { x };
                    x.conv_transpose1d(&weights, padding, output_padding, stride, dilation, groups)
                });
            }
        }
    }
}

#[test]
fn windows_and_updates_have_the_same_bits_each_time() {
    let inputs = Inputs::new(&common::gpu(), 5);
    let x = inputs.make(&[2, 3, 17, 13], F16).unwrap();
    let weights = inputs.make(&[3, 5, 3, 3], F16).unwrap();
    let line = inputs.make(&[2, 3, 19], F16).unwrap();
    let lines = inputs.make(&[3, 5, 7], F16).unwrap();
    let (ids, values) = (inputs.ids(&[300], U32, 17).unwrap(), inputs.make(&[300, 13], F16).unwrap());
    let all = values.narrow(1, 0, 1).unwrap().contiguous().unwrap();
    let target = x.get(0).unwrap().get(0).unwrap().contiguous().unwrap();
    let one = target.narrow(1, 0, 1).unwrap().contiguous().unwrap();
    let compute = || -> Result<Vec<Tensor>> {
        Ok(vec![
            x.max_pool2d(3)?,
            x.avg_pool2d(3)?,
            x.conv_transpose2d(&weights, 1, 0, 2, 1)?,
            line.conv_transpose1d(&lines, 0, 0, 3, 1, 1)?,
            line.conv_transpose1d(&lines, 1, 0, 3, 2, 1)?,
            target.index_add(&ids, &values, 0)?,
            one.scatter_add(&ids.unsqueeze(1)?, &all, 0)?,
        ])
    };
    let bits = |tensors: Vec<Tensor>| -> Vec<Vec<f64>> { tensors.iter().map(common::numbers).collect() };
    let first = bits(compute().unwrap());
    assert!(first.iter().all(|numbers| numbers.iter().any(|number| *number != 0.0)));
    assert_eq!(bits(compute().unwrap()), first);
}

#[test]
fn gradients_agree() {
    agree_within("a small network's gradient", 8.0, |inputs| {
        let w = candle_core::Var::from_tensor(&inputs.make(&[5, 7], F32)?)?;
        let x = inputs.make(&[4, 5], F32)?;
        let hidden = x.matmul(&w)?.gelu_erf()?;
        let loss = candle_nn::ops::log_softmax(&hidden, D::Minus1)?.narrow(1, 2, 1)?.mean_all()?;
        Ok(loss.backward()?.get(&w).expect("w is used").clone())
    });
    agree_within("a convolution's gradient", 8.0, |inputs| {
        let w = candle_core::Var::from_tensor(&inputs.make(&[4, 3, 3, 3], F32)?)?;
        let y = inputs.make(&[2, 3, 8, 8], F32)?.conv2d(&w, 1, 1, 1, 1)?.max_pool2d(2)?.relu()?;
        Ok(y.sum_all()?.backward()?.get(&w).expect("w is used").clone())
    });
}

#[test]
fn special_numbers_agree() {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, -1.0, 65504.0, 1e-7];
    for dtype in FLOATS {
        for (name, operator) in
            [("sqrt", Tensor::sqrt as fn(&Tensor) -> Result<Tensor>), ("tanh", Tensor::tanh), ("exp", Tensor::exp)]
        {
            agree(&format!("{name} {dtype:?}"), |inputs| operator(&inputs.values(&special, dtype)?));
        }
        agree(&format!("maximum {dtype:?}"), |inputs| {
            let x = inputs.values(&special[1..], dtype)?;
            x.maximum(&x.flip(&[0])?)
        });
        agree(&format!("lt {dtype:?}"), |inputs| inputs.values(&special, dtype)?.lt(0.0));
        agree(&format!("to u32 {dtype:?}"), |inputs| inputs.values(&special[3..6], dtype)?.to_dtype(U32));
    }
}

#[test]
fn empty_tensors_pass() {
    agree("add", |inputs| {
        let x = inputs.make(&[0, 4], F32)?;
        &x + &x
    });
    agree("exp", |inputs| inputs.make(&[3, 0], F32)?.exp());
    agree("contiguous", |inputs| inputs.make(&[3, 0, 2], F32)?.transpose(0, 2)?.contiguous());
    agree("cat", |inputs| Tensor::cat(&[inputs.make(&[0, 4], F32)?, inputs.make(&[2, 4], F32)?], 0));
    agree("index_select", |inputs| {
        inputs.make(&[3, 4], F32)?.index_select(&Tensor::zeros(0, U32, inputs.device())?, 0)
    });
}

#[test]
fn parameters_that_candle_keeps_are_sent_again() -> Result<()> {
    let device = common::gpu();
    // Candle then keeps the extents and strides that it uploaded, and launches with them again.
    let _kept = device.as_cuda_device()?.enable_cuda_graph_htod_cache();
    for _ in 0..2 {
        agree("contiguous", |inputs| strided(inputs, F32)?.contiguous());
        agree("cat", |inputs| Tensor::cat(&[inputs.make(&[3, 2], F32)?, inputs.make(&[3, 4], F32)?], 1));
    }
    Ok(())
}

#[test]
fn tensors_of_many_axes_pass_or_are_refused() -> Result<()> {
    let select = |inputs: &Inputs, shape: &[usize]| {
        let mask = inputs.ids(shape, U8, 2)?;
        mask.where_cond(&inputs.make(shape, F32)?, &inputs.make(shape, F32)?)
    };
    agree("eight axes", |inputs| select(inputs, &[2, 1, 2, 1, 3, 1, 2, 2]));
    let nine = select(&Inputs::new(&common::gpu(), 1), &[2, 1, 2, 1, 3, 1, 2, 2, 1]);
    let message = nine.expect_err("there is no room for so many").to_string();
    assert!(message.contains("where_u8_f32") && message.contains("8 axes"), "{message}");
    Ok(())
}

#[test]
fn operators_that_candle_has_no_kernel_for_are_errors() -> Result<()> {
    let whole = Tensor::zeros(3, DType::I16, &common::gpu())?;
    let message = whole.exp().expect_err("no such kernel").to_string();
    assert!(message.contains("uexp_i16") && message.contains("unary"), "{message}");
    Ok(())
}
