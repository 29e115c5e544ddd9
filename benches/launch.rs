//! What a launch costs the host once its kernel is there: from the launcher down to the driver, on `noop`, which runs
//! nothing. Needs the compiler once, as every device does.

use divan::Bencher;
use rocfire_fusion::{Draft, run};
use rocfire_hal::{DType, Device, DeviceId, Tensor};
use rocfire_kernels::gemm::{GemmParams, gemm};

fn main() {
    println!("host time of one launch; nothing runs on a device");
    divan::main();
}

fn device() -> Device {
    let id = DeviceId::noop(rocfire_arch::DEFAULT_EMULATED).expect("the default architecture is in the table");
    Device::get(id).expect("noop needs nothing")
}

fn tensor(device: &Device, shape: &[usize]) -> Tensor {
    Tensor::empty(device, shape, DType::F32).expect("noop has memory")
}

/// Times launches whose kernel is there: the first, which compiles it, would be taken for how long each of them lasts.
fn bench_warm(bencher: Bencher, mut launch: impl FnMut()) {
    launch();
    bencher.bench_local(launch);
}

/// One elementwise operator over two contiguous inputs.
#[divan::bench]
fn fused_add(bencher: Bencher) {
    let device = device();
    let graph = Draft::graph("add", |g| g.input(DType::F32) + g.input(DType::F32));
    let (a, b, mut c) = (tensor(&device, &[4096]), tensor(&device, &[4096]), tensor(&device, &[4096]));
    bench_warm(bencher, || {
        run(device.stream(), &graph, &[4096], &[a.view(), b.view()], &[], &mut [c.view_mut()]).expect("noop launches");
    });
}

/// One matrix product, its tiling chosen by shape.
#[divan::bench]
fn gemm_f32(bencher: Bencher) {
    let device = device();
    let (a, b, mut c) = (tensor(&device, &[512, 512]), tensor(&device, &[512, 512]), tensor(&device, &[512, 512]));
    let parameters = GemmParams::default();
    bench_warm(bencher, || {
        gemm(device.stream(), a.view(), b.view(), c.view_mut(), &parameters).expect("noop launches");
    });
}
