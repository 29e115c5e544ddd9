//! Several handles of one device: what one makes, every other one uses, in the order of the calls.

mod common;

use candle_core::{D, DType, Device, Result, Tensor};
use common::{Inputs, same};
use rocfire_candle::{FlashAttention, flash_attn};

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
