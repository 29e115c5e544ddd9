//! Every door that lends memory to what is not Candle's own launch: it sees what launches that wait would write, and what
//! waits afterwards sees what it wrote.

mod common;

use std::sync::Arc;

use candle_core::cuda_backend::{CudaStorageSlice, WrapErr};
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{
    CpuStorage, CudaStorage, DType, Device, InplaceOp1, Layout, Module, Result, Storage, Tensor, Var, bail,
};
use common::{Inputs, gpu, numbers, same};
use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::curand::CudaRng;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use cudarc::nccl::{Comm, ReduceOp, group_end, group_start};
use rocfire_candle::{FlashAttention, flash_attn};

/// The same number everywhere, from an operator that waits.
fn waiting(device: &Device, shape: &[usize], dtype: DType, value: f64) -> Result<Tensor> {
    Tensor::ones(shape, dtype, device)? * value
}

#[test]
fn attention_reads_what_waits() -> Result<()> {
    let device = gpu();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let q = waiting(&device, &[1, 4, 2, 16], dtype, 2.0)?;
        let out = flash_attn(&q, &q, &q, 0.25, false)?;
        // The mean of equal values is that value.
        assert_eq!(numbers(&(out * 3.0)?), vec![6.0; 4 * 2 * 16], "{dtype:?}");
    }
    Ok(())
}

#[test]
fn attention_of_what_waits_agrees_in_every_form() -> Result<()> {
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F16, 4e-3), (DType::BF16, 3e-2)] {
        for (window_left, window_right, softcap) in
            [(None, None, None), (None, Some(0), None), (Some(2), Some(1), Some(4.0))]
        {
            let attention = FlashAttention { softmax_scale: 0.25, window_left, window_right, softcap };
            let run = |device: &Device| -> Result<Tensor> {
                let inputs = Inputs::new(device, 3);
                let make = |rows, heads| inputs.make(&[2, rows, heads, 16], dtype)? * 0.5;
                let (q, k, v) = (make(5, 4)?, make(9, 2)?, make(9, 2)?);
                // All three come from launches that wait; so does what reads the result.
                attention.apply(&q.relu()?, &(k + 0.25)?, &v.neg()?)? * 2.0
            };
            same(&format!("{attention:?} in {dtype:?}"), &run(&gpu())?, &run(&Device::Cpu)?, tolerance);
        }
    }
    Ok(())
}

#[test]
fn attention_has_gradients_of_what_waits() -> Result<()> {
    let device = gpu();
    let x = Var::from_tensor(&Tensor::ones((1, 4, 2, 16), DType::F32, &device)?)?;
    let q = (x.as_tensor() * 2.0)?;
    let weight = waiting(&device, &[1, 4, 2, 16], DType::F32, 3.0)?;
    let out = (flash_attn(&q, &q, &q, 0.25, false)? * weight)?;
    let gradients = out.sum_all()?.backward()?;
    // Of equal rows the scores' gradients are zero: the values' weights sum to one for each key, times 3 and 2.
    let gradient = gradients.get(&x).expect("x is a variable");
    let expected = Tensor::full(6_f32, x.shape(), &Device::Cpu)?;
    same("gradient", gradient, &expected, 1e-5);
    Ok(())
}

/// Something done with a tensor's own memory, as an operator of a user.
struct Door<F>(F);

impl<F: Fn(&mut CudaSlice<f32>) -> Result<()>> InplaceOp1 for Door<F> {
    fn name(&self) -> &'static str {
        "door"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        bail!("on devices only")
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, _: &Layout) -> Result<()> {
        match &mut storage.slice {
            CudaStorageSlice::F32(slice) => (self.0)(slice),
            _ => bail!("f32 only"),
        }
    }
}

const COUNT: usize = 60;

/// A door that writes: launches that wait read what was there, later ones what it wrote, which is 5 everywhere.
fn writes(what: &str, write: impl Fn(&mut CudaSlice<f32>) -> Result<()>) -> Result<()> {
    let device = gpu();
    // Some more wait than what has to do with it.
    let other = waiting(&device, &[COUNT], DType::F32, 9.0)?;
    let x = waiting(&device, &[COUNT], DType::F32, 2.0)?;
    let before = ((&x * 10.0)? + 1.0)?;
    x.inplace_op1(&Door(write)).map_err(|error| error.context(what.to_owned()))?;
    let after = ((&x * 10.0)? + 1.0)?;
    // What waits overwrites it then.
    let kept = (&x + 0.0)?;
    x.slice_set(&(&other + 1.0)?, 0, 0)?;
    for (tensor, value) in [(&before, 21.0), (&after, 51.0), (&kept, 5.0), (&x, 10.0), (&other, 9.0)] {
        assert_eq!(numbers(tensor), vec![value; COUNT], "{what}");
    }
    Ok(())
}

/// A door that reads: it gives what launches that wait would write, not what later ones do.
fn reads(what: &str, read: impl Fn(&CudaSlice<f32>) -> Result<Vec<f32>>) -> Result<()> {
    let device = gpu();
    let x = waiting(&device, &[COUNT], DType::F32, 2.0)?;
    let got = {
        let (storage, _) = x.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else { bail!("on devices only") };
        read(storage.as_cuda_slice::<f32>()?)?
    };
    x.slice_set(&waiting(&device, &[COUNT], DType::F32, 8.0)?, 0, 0)?;
    assert_eq!(got, vec![2.0; COUNT], "{what}");
    assert_eq!(numbers(&x), vec![8.0; COUNT], "{what}");
    Ok(())
}

fn stream() -> Result<Arc<CudaStream>> {
    Ok(gpu().as_cuda_device()?.cuda_stream())
}

/// Fives, from a launch that waits.
fn fives() -> Result<Tensor> {
    waiting(&gpu(), &[COUNT], DType::F32, 5.0)
}

/// Does something with a tensor's slice.
fn with_slice<R>(tensor: &Tensor, act: impl FnOnce(&CudaSlice<f32>) -> Result<R>) -> Result<R> {
    let (storage, _) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cuda(storage) => act(storage.as_cuda_slice::<f32>()?),
        _ => bail!("on devices only"),
    }
}

#[test]
fn copies_are_in_order() -> Result<()> {
    writes("from the host", |slice| stream()?.memcpy_htod(&vec![5_f32; COUNT], slice).w())?;
    writes("from the host in parts", |slice| {
        stream()?.memcpy_htod(&vec![5_f32; COUNT - 7], &mut slice.slice_mut(..COUNT - 7)).w()?;
        stream()?.memcpy_htod(&[5_f32; 7], &mut slice.slice_mut(COUNT - 7..)).w()
    })?;
    writes("on the device", |slice| with_slice(&fives()?, |fives| stream()?.memcpy_dtod(fives, slice).w()))?;
    reads("to the host", |slice| stream()?.clone_dtoh(slice).w())?;
    reads("to memory of the host", |slice| {
        let mut target = vec![0_f32; COUNT];
        stream()?.memcpy_dtoh(&slice.as_view(), &mut target).w()?;
        Ok(target)
    })?;
    reads("a clone", |slice| stream()?.clone_dtoh(&slice.try_clone().w()?).w())?;
    reads("a copy of a view", |slice| {
        let copy = stream()?.clone_dtod(&slice.slice(1..)).w()?;
        Ok([stream()?.clone_dtoh(&copy).w()?, vec![2.0]].concat())
    })?;
    reads("another device's copy", |slice| {
        let Ok(other) = Device::new_cuda(1) else { return stream()?.clone_dtoh(slice).w() };
        let other = other.as_cuda_device()?.cuda_stream();
        let mut copy = other.alloc_zeros::<f32>(COUNT).w()?;
        other.memcpy_dtod(slice, &mut copy).w()?;
        other.clone_dtoh(&copy).w()
    })
}

#[test]
fn zeros_are_in_order() -> Result<()> {
    writes("zeros, and five more by a launch that waits", |slice| {
        stream()?.memset_zeros(slice).w()?;
        with_slice(&fives()?, |fives| stream()?.memcpy_dtod(fives, slice).w())
    })
}

const KERNELS: &str = r#"
extern "C" __global__ void put(unsigned long long target, float value, size_t count) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) ((float*)target)[i] = value;
}
extern "C" __global__ void plus(const float* x, float* y, float value, size_t count) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i] + value;
}
struct Two { const float* x; float* y; };
extern "C" __global__ void through(Two two, size_t count) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) two.y[i] = two.x[i];
}
"#;

#[test]
fn kernels_of_users_are_in_order() -> Result<()> {
    let device = gpu().as_cuda_device()?.clone();
    let load = |name| device.get_or_load_custom_func(name, "waiting", KERNELS);
    let (put, plus, through, count) = (load("put")?, load("plus")?, load("through")?, COUNT);
    let config = LaunchConfig::for_num_elems(COUNT as u32);
    let stream = stream()?;
    writes("by an address that is a number", |slice| {
        let address = slice.device_ptr(&stream).0;
        let mut launch = put.builder();
        launch.arg(&address).arg(&5_f32).arg(&count);
        // SAFETY: there are `count` elements.
        unsafe { launch.launch(config) }.w()
    })?;
    writes("by a slice", |slice| {
        let threes = waiting(&gpu(), &[COUNT], DType::F32, 3.0)?;
        with_slice(&threes, |threes| {
            let mut launch = plus.builder();
            launch.arg(threes).arg(slice).arg(&2_f32).arg(&count);
            // SAFETY: both have `count` elements.
            unsafe { launch.launch(config) }.w()
        })
    })?;
    reads("by a slice", |slice| {
        let copy = stream.alloc_zeros::<f32>(COUNT).w()?;
        let mut launch = plus.builder();
        launch.arg(slice).arg(&copy).arg(&0_f32).arg(&count);
        // SAFETY: both have `count` elements.
        unsafe { launch.launch(config) }.w()?;
        stream.clone_dtoh(&copy).w()
    })?;
    // Addresses in a struct are none that anybody knows.
    let addresses = |from: &CudaSlice<f32>, to: &CudaSlice<f32>| {
        let addresses = [from, to].map(|slice| slice.device_ptr(&stream).0);
        let mut launch = through.builder();
        launch.arg(&addresses).arg(&count);
        // SAFETY: both have `count` elements.
        unsafe { launch.launch(config) }.w()
    };
    writes("by addresses in a struct", |slice| with_slice(&fives()?, |fives| addresses(fives, slice)))?;
    reads("by addresses in a struct", |slice| {
        let copy = stream.alloc_zeros::<f32>(COUNT).w()?;
        addresses(slice, &copy)?;
        stream.clone_dtoh(&copy).w()
    })
}

#[test]
fn operators_of_rocfire_are_in_order() -> Result<()> {
    writes("a fill by lent memory", |slice| {
        let stream = stream()?;
        let settled = stream.settled();
        let (buffer, first) = settled.memory(slice).w()?;
        settled
            .stream()
            .copy_to_device(&5_f32.to_le_bytes().repeat(COUNT), buffer, first)
            .map_err(candle_core::Error::wrap)
    })?;
    reads("a copy of lent memory", |slice| {
        let (stream, mut bytes) = (stream()?, vec![0; 4 * COUNT]);
        let settled = stream.settled();
        let (buffer, first) = settled.memory(slice).w()?;
        settled.stream().copy_to_host(buffer, first, &mut bytes).map_err(candle_core::Error::wrap)?;
        Ok(bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four"))).collect())
    })?;
    // Launches that are asked for while memory is lent do not wait, so that what is lent does not change its order.
    let stream = stream()?;
    let x = waiting(&gpu(), &[COUNT], DType::F32, 2.0)?;
    let settled = stream.settled();
    let y = (&x + 3.0)?;
    let bytes = with_slice(&y, |slice| {
        let (buffer, first) = settled.memory(slice).w()?;
        let mut bytes = vec![0; 4 * COUNT];
        settled.stream().copy_to_host(buffer, first, &mut bytes).map_err(candle_core::Error::wrap)?;
        Ok(bytes)
    })?;
    assert_eq!(bytes, 5_f32.to_le_bytes().repeat(COUNT));
    Ok(())
}

#[test]
fn draws_are_in_order() -> Result<()> {
    writes("a draw without deviation", |slice| {
        CudaRng::new(1, stream()?).w()?.fill_with_normal(slice, 5_f32, 0.0).w()
    })?;
    writes("a uniform draw, then fives that waited", |slice| {
        let fives = fives()?;
        CudaRng::new(1, stream()?).w()?.fill_with_uniform(slice).w()?;
        with_slice(&fives, |fives| stream()?.memcpy_dtod(fives, slice).w())
    })
}

#[test]
fn products_by_slices_are_in_order() -> Result<()> {
    // Column-major, 6 by 10: a column of ones times a row.
    let config = |k, alpha, beta| GemmConfig {
        transa: CUBLAS_OP_N,
        transb: CUBLAS_OP_N,
        m: 6,
        n: 10,
        k,
        alpha,
        beta,
        lda: 6,
        ldb: k.max(1),
        ldc: 6,
    };
    let multiply = |config: GemmConfig<f32>, slice: &mut CudaSlice<f32>| {
        let blas = CudaBlas::new(stream()?).w()?;
        let (column, row) = (waiting(&gpu(), &[6], DType::F32, 0.5)?, waiting(&gpu(), &[10], DType::F32, 6.0)?);
        with_slice(&column, |column| {
            // SAFETY: none is needed.
            with_slice(&row, |row| unsafe { blas.gemm(config, column, row, slice) }.w())
        })
    };
    // 0.5 · 6 + 2 for the old two; 0.5 · 6 · 5/3; nothing at all, with the old one kept 2.5 times.
    writes("a product added to what waited", |slice| multiply(config(1, 1.0, 1.0), slice))?;
    writes("a product with a factor", |slice| multiply(config(1, 5.0 / 3.0, 0.0), slice))?;
    writes("a product of nothing", |slice| multiply(config(0, 1.0, 2.5), slice))
}

#[test]
fn sorts_and_quantised_products_read_what_waits() -> Result<()> {
    let device = gpu();
    let places = (Tensor::arange(0_f32, 20.0, &device)? * -1.0)?.arg_sort_last_dim(true)?;
    let places = places.to_dtype(DType::F32)?.affine(2.0, 0.0)?;
    assert_eq!(places.to_vec1::<f32>()?, (0..20).rev().map(|place| 2.0 * place as f32).collect::<Vec<_>>());
    let weights = Inputs::new(&Device::Cpu, 4).range(&[24, 256], DType::F32, -1.0, 1.0)?;
    for dtype in [GgmlDType::Q4K, GgmlDType::Q8_0] {
        let quantised = QTensor::quantize_onto(&weights, dtype, &device)?;
        let product = QMatMul::from_qtensor(quantised)?;
        // Rows for a mat-vec, and for a product on the matrix units.
        for rows in [1, 3, 20] {
            let x = Inputs::new(&device, 5).make(&[rows, 256], DType::F32)?;
            let run = |is_settled: bool| -> Result<Vec<f32>> {
                let x = ((&x * 0.5)? + 0.125)?;
                if is_settled {
                    device.synchronize()?;
                }
                let out = (product.forward(&x)? * 2.0)?;
                // What it read is overwritten by a launch that waits.
                x.slice_set(&Tensor::ones(x.shape(), DType::F32, &device)?.affine(7.0, 0.0)?, 0, 0)?;
                out.flatten_all()?.to_vec1()
            };
            let expected = run(true)?;
            assert!(expected.iter().any(|value| value.abs() > 0.5), "{dtype:?}: {rows} rows");
            assert_eq!(run(false)?, expected, "{dtype:?}: {rows} rows");
        }
    }
    Ok(())
}

#[test]
fn mixtures_of_experts_read_what_waits() -> Result<()> {
    const TOKENS: usize = 18;
    let device = gpu();
    let inputs = Inputs::new(&device, 6);
    let (x, weights) = (inputs.make(&[TOKENS, 64], DType::F16)?, inputs.make(&[3, 16, 64], DType::F16)?);
    let tokens = Tensor::arange(0_u32, TOKENS as u32, &device)?;
    let experts = Tensor::from_iter((0..TOKENS as u32).map(|token| token * 3 / TOKENS as u32), &device)?;
    for is_prefill in [true, false] {
        let run = |is_settled: bool| -> Result<Vec<f32>> {
            let (x, weights) = ((&x * 0.5)?, (&weights * 0.25)?);
            // Numbers of which the lists are made wait too.
            let [tokens, experts] = [&tokens, &experts].map(|list| list.broadcast_add(&list.zeros_like()?));
            if is_settled {
                device.synchronize()?;
            }
            let out = candle_nn::moe::moe_gemm(&x, &weights, &None, &tokens?, &experts?, 1, is_prefill)?;
            let out = (out * 2.0)?;
            x.slice_set(&(x.ones_like()? * 7.0)?, 0, 0)?;
            out.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
        };
        let expected = run(true)?;
        assert!(expected.iter().any(|value| value.abs() > 0.5), "prefill {is_prefill}");
        assert_eq!(run(false)?, expected, "prefill {is_prefill}");
    }
    Ok(())
}

#[test]
fn ranks_exchange_what_waits() -> Result<()> {
    let devices: Vec<Device> = (0..2).map_while(|ordinal| Device::new_cuda(ordinal).ok()).collect();
    let streams =
        devices.iter().map(|device| Ok(device.as_cuda_device()?.cuda_stream())).collect::<Result<Vec<_>>>()?;
    let comms = Comm::from_devices(streams).map_err(candle_core::Error::wrap)?;
    let made = |value: f64| devices.iter().map(move |device| waiting(device, &[COUNT], DType::F32, value));
    let (sources, targets) = (made(2.0).collect::<Result<Vec<_>>>()?, made(3.0).collect::<Result<Vec<_>>>()?);
    let before = targets.iter().map(|target| target * 10.0).collect::<Result<Vec<_>>>()?;
    group_start().map_err(candle_core::Error::wrap)?;
    for ((comm, source), target) in comms.iter().zip(&sources).zip(&targets) {
        let all_reduce = |slice: &mut CudaSlice<f32>| {
            let reduced = with_slice(source, |source| {
                comm.all_reduce(source, slice, &ReduceOp::Sum).map_err(candle_core::Error::wrap)
            });
            reduced.map(|_| ())
        };
        target.inplace_op1(&Door(all_reduce))?;
    }
    group_end().map_err(candle_core::Error::wrap)?;
    let after = targets.iter().map(|target| target + 1.0).collect::<Result<Vec<_>>>()?;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(numbers(before), vec![30.0; COUNT]);
        assert_eq!(numbers(after), vec![2.0 * devices.len() as f64 + 1.0; COUNT]);
    }
    Ok(())
}

#[test]
fn parts_of_other_tensors_are_overwritten_in_order() -> Result<()> {
    let device = gpu();
    // Caches are written in place, by copies that join others.
    let cache = waiting(&device, &[4, COUNT], DType::F32, 1.0)?;
    let rows = |value| waiting(&device, &[1, COUNT], DType::F32, value);
    let mut seen = Vec::new();
    for row in 0..4 {
        let both = Tensor::cat(&[&rows(7.0)?, &rows(8.0)?], 0)?;
        seen.push((cache.sum_all()? + both.sum_all()?)?);
        cache.slice_set(&rows(10.0 * (row + 1) as f64)?, 0, row)?;
        seen.push((cache.narrow(0, row, 1)?.contiguous()? * 0.5)?.sum_all()?);
    }
    let count = COUNT as f64;
    let mut expected = Vec::new();
    let mut sum = 4.0 * count;
    for row in 0..4 {
        expected.push(sum + 15.0 * count);
        sum += 10.0 * (row + 1) as f64 * count - count;
        expected.push(5.0 * (row + 1) as f64 * count);
    }
    assert_eq!(seen.iter().flat_map(numbers).collect::<Vec<_>>(), expected);
    Ok(())
}
