//! Several handles of one device: what one makes, every other one uses, in the order of the calls.

mod common;

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor};
use common::{Inputs, same};
use rocfire_candle::{FlashAttention, GgufMatrices, flash_attn, matmul_gguf};

/// Two handles of the first device.
fn two() -> [Device; 2] {
    [(); 2].map(|()| Device::new_cuda(0).expect("there is always an emulated device"))
}

/// The same number everywhere, from an operator that waits.
fn waiting(device: &Device, shape: &[usize], value: f64) -> Result<Tensor> {
    Tensor::ones(shape, DType::F32, device)? * value
}

/// `tensor` as the other handle sees it: the same memory, under a device that Candle opened a second time.
fn through(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    // An operator's result belongs to the handle of its first operand.
    Tensor::zeros(tensor.shape(), tensor.dtype(), device)?.add(tensor)
}

#[test]
fn operators_take_tensors_of_both_handles() -> Result<()> {
    let [a, b] = two();
    let x = waiting(&a, &[4, 6], 2.0)?;
    let sum = through(&x, &b)?;
    assert_eq!(sum.to_vec2::<f32>()?, vec![vec![2.0; 6]; 4]);
    // What still waits on one handle is read on the other, and the other way round.
    let (x, y) = (waiting(&a, &[4, 6], 3.0)?, waiting(&b, &[6, 5], 0.5)?);
    assert_eq!(x.matmul(&y)?.to_vec2::<f32>()?, vec![vec![9.0; 5]; 4]);
    let (x, y) = (waiting(&a, &[2, 3], 1.5)?, waiting(&b, &[2, 3], 2.5)?);
    let both = Tensor::cat(&[&x, &y, &x], 0)?;
    assert_eq!(both.sum(D::Minus1)?.to_vec1::<f32>()?, [4.5, 4.5, 7.5, 7.5, 4.5, 4.5]);
    let table = waiting(&a, &[7, 3], 4.0)?;
    let ids = (Tensor::new(&[1_u32, 5, 0], &b)? + Tensor::new(&[1_u32, 1, 1], &b)?)?;
    assert_eq!(table.embedding(&ids)?.to_vec2::<f32>()?, vec![vec![4.0; 3]; 3]);
    Ok(())
}

#[test]
fn attention_takes_tensors_of_both_handles() -> Result<()> {
    let [a, b] = two();
    let make =
        |device: &Device, seed| -> Result<Tensor> { Inputs::new(device, seed).make(&[1, 5, 2, 16], DType::F32)? * 0.5 };
    let attention =
        |q: &Device, k: &Device| -> Result<Tensor> { flash_attn(&make(q, 1)?, &make(k, 2)?, &make(k, 3)?, 0.25, true) };
    same("attention of two handles", &attention(&a, &b)?, &attention(&Device::Cpu, &Device::Cpu)?, 1e-5);
    let form = FlashAttention { softmax_scale: 0.25, window_left: None, window_right: Some(0), softcap: None };
    let with_sinks = |q: &Device, k: &Device| -> Result<Tensor> {
        let sinks = (Inputs::new(q, 4).make(&[2], DType::F32)? + 1.0)?;
        form.apply_with_sinks(&make(q, 1)?, &make(k, 2)?, &make(k, 3)?, &sinks)
    };
    let once = with_sinks(&a, &b)?;
    same("with sinks", &once, &with_sinks(&Device::Cpu, &Device::Cpu)?, 1e-5);
    let bits = |x: &Tensor| -> Result<Vec<u32>> {
        Ok(x.flatten_all()?.to_vec1::<f32>()?.iter().map(|number| number.to_bits()).collect())
    };
    assert_eq!(bits(&once)?, bits(&with_sinks(&b, &a)?)?, "the other way round");
    Ok(())
}

/// More queries than the smaller Q tile has, of as many heads as the larger one is taken for.
#[test]
fn attention_of_many_queries_takes_what_waits_of_both_handles() -> Result<()> {
    let [a, b] = two();
    let attention = |q: &Device, k: &Device, dtype: DType| -> Result<Tensor> {
        let make = |device: &Device, seed| -> Result<Tensor> {
            (Inputs::new(device, seed).make(&[1, 130, 64, 128], DType::F32)? * 0.5)?
                .to_dtype(DType::BF16)?
                .to_dtype(dtype)
        };
        flash_attn(&make(q, 1)?, &make(k, 2)?, &make(k, 3)?, 0.125, true)?.to_dtype(DType::F32)
    };
    let once = attention(&a, &b, DType::BF16)?;
    same("many queries", &once, &attention(&Device::Cpu, &Device::Cpu, DType::F32)?, 1e-2);
    let bits = |x: &Tensor| -> Result<Vec<u32>> {
        Ok(x.flatten_all()?.to_vec1::<f32>()?.iter().map(|number| number.to_bits()).collect())
    };
    assert_eq!(bits(&once)?, bits(&attention(&b, &a, DType::BF16)?)?, "the other way round");
    Ok(())
}

/// Columns and outputs of each of so many experts, and experts of a token.
const MIXTURE: [usize; 4] = [256, 33, 3, 2];

/// The products of a mixture on the host, a row for each choice: `place` says which expert has it.
fn mixture(x: &Tensor, weights: &QTensor, expert_of: impl Fn(usize) -> usize) -> Result<Tensor> {
    let [columns, outputs, experts, chosen] = MIXTURE;
    let weights = weights.dequantize(&x.device().clone())?.to_device(&Device::Cpu)?;
    let weights = weights.reshape((experts, outputs, columns))?.to_dtype(DType::F64)?;
    let x = x.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    let row = |choice: usize| x.narrow(0, choice / chosen, 1)?.matmul(&weights.get(expert_of(choice))?.t()?);
    let rows = (0..x.dim(0)? * chosen).map(row).collect::<Result<Vec<_>>>()?;
    Tensor::cat(&rows, 0)?.to_dtype(DType::F32)
}

#[test]
fn mixtures_in_blocks_of_gguf_take_what_waits_of_both_handles() -> Result<()> {
    let [a, b] = two();
    let [columns, outputs, experts, chosen] = MIXTURE;
    let bits = |x: &Tensor| -> Result<Vec<u32>> {
        Ok(x.flatten_all()?.to_vec1::<f32>()?.iter().map(|number| number.to_bits()).collect())
    };
    for kind in [GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q8_0] {
        // Few choices of an expert, and many.
        for (tokens, is_prefill) in [(2, false), (2, true), (18, false), (18, true)] {
            let (choices, what) = (tokens * chosen, format!("{kind:?} {tokens} {is_prefill}"));
            let expert_of = |choice: usize| choice * 5 % choices * experts / choices;
            let run = |first: &Device, second: &Device| -> Result<[Tensor; 2]> {
                let made = (Inputs::new(first, 7).make(&[experts, outputs, columns], DType::F32)? * 0.25)?;
                let weights = QTensor::quantize(&made, kind)?;
                let x = (Inputs::new(second, 8).make(&[tokens, columns], DType::F32)? * 0.5)?;
                // In the order of experts: 5 by its inverse is 1 modulo the choices.
                let inverse = (1..choices).find(|n| n * 5 % choices == 1).expect("5 divides no number of choices");
                let list = |of: &dyn Fn(usize) -> usize, device: &Device| -> Result<Tensor> {
                    let list = Tensor::from_iter((0..choices).map(|n| of(n) as u32), device)?;
                    list.broadcast_add(&list.zeros_like()?)
                };
                let order = list(&|n| n * inverse % choices, first)?;
                let ids = list(&|n| n * experts / choices, second)?;
                let own =
                    candle_nn::moe::moe_gemm_gguf(&x, &weights, &None, &order, &ids, chosen, is_prefill, DType::F16)?;
                let by_token = list(&expert_of, second)?.reshape((tokens, chosen))?;
                let indexed = weights.indexed_moe_forward(&x.unsqueeze(1)?, &by_token)?;
                let want = mixture(&x, &weights, expert_of)?;
                // Activations of 16 bits, and those of 8: of steps of up to 1.8 / 127, whose error is 0.004 in the mean square, 256 by
                // weights of 0.25 come to 0.016; six times that.
                same(&what, &own, &want, if is_prefill { 1e-2 } else { 1e-4 });
                same(&what, &indexed.reshape((choices, outputs))?, &want, 0.1);
                Ok([own, indexed])
            };
            let (once, again) = (run(&a, &b)?, run(&b, &a)?);
            for (once, again) in once.iter().zip(&again) {
                assert_eq!(bits(once)?, bits(again)?, "{what}, the other way round");
            }
        }
    }
    Ok(())
}

#[test]
fn products_by_blocks_of_gguf_take_what_waits_of_both_handles() -> Result<()> {
    let [a, b] = two();
    let [columns, outputs, ..] = MIXTURE;
    let bits = |x: &Tensor| -> Result<Vec<u32>> {
        Ok(x.flatten_all()?.to_vec1::<f32>()?.iter().map(|number| number.to_bits()).collect())
    };
    for kind in [GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q8_0] {
        // One row, as many as read blocks as they lie, and such as have weights written out.
        for rows in [1, 18, 260] {
            let what = format!("{kind:?} {rows}");
            let run = |first: &Device, second: &Device| -> Result<[Tensor; 2]> {
                let made = (Inputs::new(first, 7).make(&[outputs, columns], DType::F32)? * 0.25)?;
                let weights = QTensor::quantize(&made, kind)?;
                let x = (Inputs::new(second, 8).make(&[rows, columns], DType::F32)? * 0.5)?;
                let own = matmul_gguf(&x, &GgufMatrices::of(&weights, first)?)?;
                let want = x.matmul(&weights.dequantize(second)?.t()?)?;
                let candles = QMatMul::from_qtensor(weights)?.forward(&x)?;
                same(&what, &own, &want, 1e-4);
                // Candle's own have activations of 8 bits: of steps of up to 1.5 / 127, whose error is 0.0034 in the mean square, 256 by
                // weights within 0.75, which are 0.43 there, come to 0.024; six times that, as there are thousands.
                same(&what, &candles, &want, 0.14);
                Ok([own, candles])
            };
            let (once, again) = (run(&a, &b)?, run(&b, &a)?);
            for (once, again) in once.iter().zip(&again) {
                assert_eq!(bits(once)?, bits(again)?, "{what}, the other way round");
            }
        }
    }
    Ok(())
}

#[test]
fn a_handle_that_goes_leaves_its_tensors() -> Result<()> {
    let [a, b] = two();
    let x = waiting(&a, &[3, 3], 7.0)?;
    drop(a);
    let y = (&x + waiting(&b, &[3, 3], 1.0)?)?;
    drop(b);
    assert_eq!(y.to_vec2::<f32>()?, vec![vec![8.0; 3]; 3]);
    assert_eq!(x.to_vec2::<f32>()?, vec![vec![7.0; 3]; 3]);
    Ok(())
}

#[test]
fn threads_have_handles_of_their_own() {
    let run = |number: usize| -> Result<Vec<f32>> {
        let device = Device::new_cuda(0)?;
        let mut x = waiting(&device, &[33], number as f64)?;
        for _ in 0..40 {
            x = ((x * 2.0)? - number as f64)?;
        }
        x.to_vec1()
    };
    let threads: Vec<_> = (0..3).map(|number| std::thread::spawn(move || run(number))).collect();
    for (number, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap().unwrap(), vec![number as f32; 33]);
    }
    // A tensor goes from one thread's handle to another's while its launch waits.
    let x = std::thread::spawn(|| waiting(&Device::new_cuda(0).unwrap(), &[9], 5.0).unwrap()).join().unwrap();
    let y = (waiting(&Device::new_cuda(0).unwrap(), &[9], 1.0).unwrap() + x).unwrap();
    assert_eq!(y.to_vec1::<f32>().unwrap(), [6.0; 9]);
}
