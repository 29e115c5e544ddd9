//! Kernels of users' own in ordinary HIP: every expression of a table, an operator as Candle's example `custom-ops` has it, and
//! printing.

use std::process::Command;
use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::WrapErr;
use candle_core::{CpuStorage, CudaStorage, CustomOp1, Device, Layout, Result, Shape, Tensor};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};

#[path = "../../../kernels/prelude/tests/expressions/mod.rs"]
mod expressions;

/// Contexts of devices with waves of 64 and of 32 lanes, and the card that `ROCFIRE_DEVICE` names, if it names one.
fn contexts() -> Vec<Arc<CudaContext>> {
    let id = rocfire_hal::DeviceId::from_env().unwrap();
    match std::env::var_os("ROCFIRE_DEVICE") {
        Some(_) if id.driver() != rocfire_hal::DriverKind::Emulated => vec![CudaContext::new(0).unwrap()],
        _ => ["gfx942", "gfx1100"].map(emulated).into(),
    }
}

fn emulated(arch: &str) -> Arc<CudaContext> {
    let id = rocfire_hal::DeviceId::emulated(arch).unwrap();
    let device = rocfire_hal::Device::open(id, rocfire_hal::Config::from_env().unwrap()).unwrap();
    CudaContext::with_device(0, device).unwrap()
}

fn workgroups(count: u32, threads: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (count, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}

#[test]
fn ordinary_hip_compiles_and_gives_what_it_says() -> Result<()> {
    use expressions::{ROWS, THREADS};
    for context in contexts() {
        let wave = context.device().info().wave_size as usize;
        let stream = context.default_stream();
        let module = context.load_module(expressions::source().into()).w()?;
        let rows = module.load_function("rows").w()?;
        let x: Vec<f32> = (0..THREADS).map(|i| expressions::x(i) as f32).collect();
        let x = stream.clone_htod(&x).w()?;
        let zeros = stream.alloc_zeros::<u32>(ROWS.len()).w()?;
        let output = stream.alloc_zeros::<f32>(ROWS.len() * THREADS).w()?;
        let mut arguments = stream.launch_builder(&rows);
        arguments.arg(&x).arg(&zeros).arg(&output);
        // SAFETY: it reads an element for each thread, counts in one for each row, and writes one for each of both.
        unsafe { arguments.launch(workgroups(1, THREADS as u32)) }.w()?;
        expressions::check(&stream.clone_dtoh(&output).w()?, wave);
    }
    Ok(())
}

/// Root-mean-square norm, a workgroup for each row, summed over groups of 32 lanes and then over those groups: the way of
/// CUDA kernels that know one size of wave, which is right on both.
const RMS: &str = r#"
#include <stdint.h>
#include <hip/hip_runtime.h>

template <typename T>
__inline__ __device__ T sum_of_32(T value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(uint32_t(-1), value, mask);
    return value;
}

template <typename T>
__inline__ __device__ T sum_of_block(T value) {
    static __shared__ T shared[32];
    int lane = threadIdx.x & 0x1f, group = threadIdx.x >> 5;
    value = sum_of_32(value);
    if (lane == 0) shared[group] = value;
    __syncthreads();
    value = threadIdx.x < (blockDim.x + 31) / 32 ? shared[lane] : T(0);
    return sum_of_32(value);
}

extern "C" __global__ void rms_f32(float* __restrict__ out, const float* __restrict__ input, const float epsilon,
                                   const uint32_t rows, const uint32_t width) {
    __shared__ float scale;
    float squares = 0.0f;
    for (uint32_t i = threadIdx.x; i < width; i += blockDim.x) {
        const float x = input[blockIdx.x * width + i];
        squares += x * x;
    }
    squares = sum_of_block<float>(squares);
    if (threadIdx.x == 0) scale = rsqrtf(squares / width + epsilon);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < width; i += blockDim.x) {
        out[blockIdx.x * width + i] = input[blockIdx.x * width + i] * scale;
    }
}
"#;

struct RmsNorm {
    epsilon: f32,
}

impl CustomOp1 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, width) = layout.shape().dims2()?;
        let (from, to) = layout.contiguous_offsets().expect("the test's inputs are");
        let rows = storage.as_slice::<f32>()?[from..to].chunks(width);
        let norm = |row: &[f32]| {
            let squares: f32 = row.iter().map(|x| x * x).sum();
            let scale = 1.0 / (squares / width as f32 + self.epsilon).sqrt();
            row.iter().map(|x| x * scale).collect::<Vec<f32>>()
        };
        Ok((CpuStorage::F32(rows.flat_map(norm).collect()), layout.shape().clone()))
    }

    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let (rows, width) = layout.shape().dims2()?;
        let device = storage.device().clone();
        let (from, to) = layout.contiguous_offsets().expect("the test's inputs are");
        let input = storage.as_cuda_slice::<f32>()?.slice(from..to);
        // SAFETY: the kernel writes all of it.
        let out = unsafe { device.alloc::<f32>(rows * width) }?;
        let kernel = device.get_or_load_custom_func("rms_f32", "norms", RMS)?;
        let (count, wide) = (rows as u32, width as u32);
        let mut arguments = kernel.builder();
        arguments.arg(&out).arg(&input).arg(&self.epsilon).arg(&count).arg(&wide);
        // SAFETY: both have `rows` of `width`.
        unsafe { arguments.launch(workgroups(count, 256)) }.w()?;
        Ok((CudaStorage::wrap_cuda_slice(out, device), layout.shape().clone()))
    }
}

#[test]
fn a_custom_operator_is_its_hip_text() -> Result<()> {
    let on = |device: &Device| -> Result<Vec<f32>> {
        let x = Tensor::arange(0f32, 3.0 * 517.0, &Device::Cpu)?.reshape((3, 517))?.to_device(device)?;
        // What comes out of an operator, and what goes into one.
        let x = (x * 0.01)?.sin()?;
        let y = x.apply_op1(RmsNorm { epsilon: 1e-5 })?;
        (y + 1.0)?.flatten_all()?.to_vec1()
    };
    let (ours, theirs) = (on(&rocfire_candle::device()?.device)?, on(&Device::Cpu)?);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!((ours - theirs).abs() <= 2e-6 * theirs.abs().max(1.0), "{ours}, not {theirs}");
    }
    Ok(())
}

const PRINTING: &str = r#"
extern "C" __global__ void tell(const float* x, int limit) {
    int i = threadIdx.x;
    if (i < 2) printf("thread %d of %s has %.2f%%\n", i, "tell", x[i]);
    assert(i < limit);
}
"#;

/// The part that prints, in a process whose output is looked at.
#[test]
fn what_a_kernel_prints_comes_out() -> Result<()> {
    const PART: &str = "ROCFIRE_TEST_PRINTS";
    if std::env::var_os(PART).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "what_a_kernel_prints_comes_out", "--nocapture"]).env(PART, "1");
        let output = again.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let mut lines: Vec<_> = text.lines().filter(|line| line.contains("thread")).collect();
        lines.sort_unstable();
        // Both launches tell the same.
        lines.dedup();
        assert_eq!(lines, ["thread 0 of tell has 1.50%", "thread 1 of tell has 2.50%"], "{text}");
        let failed = "module.hip:5: tell: Device-side assertion `i < limit' failed.";
        assert!(text.contains(failed), "{text}");
        return Ok(());
    }
    let context = emulated("gfx942");
    let stream = context.default_stream();
    let tell = context.load_module(PRINTING.into()).w()?.load_function("tell").w()?;
    let x = stream.clone_htod(&[1.5_f32, 2.5]).w()?;
    for (limit, works) in [(64, true), (63, false)] {
        let mut arguments = stream.launch_builder(&tell);
        arguments.arg(&x).arg(&limit);
        // SAFETY: two threads read, and there are two elements.
        unsafe { arguments.launch(workgroups(1, 64)) }.w()?;
        assert_eq!(stream.clone_dtoh(&x).is_ok(), works, "{limit}");
    }
    Ok(())
}
