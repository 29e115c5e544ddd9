//! Candle's switches of reduced precision. They hold for a whole process, so this is one, with one test.

mod common;

use candle_core::{DType, Device, Result, Tensor, cuda};
use common::{Inputs, gpu, numbers};

/// `x · wᵀ` of several tiles.
fn product(device: &Device, dtype: DType) -> Result<Tensor> {
    let inputs = Inputs::new(device, 3);
    inputs.make(&[40, 300], dtype)?.matmul(&inputs.make(&[50, 300], dtype)?.t()?)
}

/// Results without the switch, with it, and without it again.
fn switched(device: &Device, dtype: DType, switch: fn(bool)) -> [Vec<f64>; 3] {
    [false, true, false].map(|on| {
        switch(on);
        numbers(&product(device, dtype).unwrap())
    })
}

#[test]
fn the_switch_of_f32_allows_tf32_and_those_of_16_bits_change_nothing() {
    let device = gpu();
    let arch = device.as_cuda_device().unwrap().cuda_stream().context().device().arch();
    let [full, fast, again] = switched(&device, DType::F32, cuda::set_gemm_reduced_precision_f32);
    assert_eq!(full, again, "the switch off is as if there were none");
    let exact = numbers(&product(&Device::Cpu, DType::F64).unwrap());
    let error = |of: &[f64]| of.iter().zip(&exact).map(|(got, exact)| (got - exact).abs()).fold(0.0, f64::max);
    if arch.to_string() == "gfx942" {
        // Each of the 300 terms is below 9, and loses less than 2^-9 of itself.
        assert!(error(&fast) > 16.0 * error(&full) && error(&fast) < 300.0 * 9.0 / 512.0, "{}", error(&fast));
    } else {
        assert_eq!(full, fast, "{arch} has no TF32");
    }
    for (dtype, switch) in [
        (DType::F16, cuda::set_gemm_reduced_precision_f16 as fn(bool)),
        (DType::BF16, cuda::set_gemm_reduced_precision_bf16),
    ] {
        let [full, reduced, _] = switched(&device, dtype, switch);
        assert_eq!(full, reduced, "{dtype:?}: sums stay those of f32");
    }
}
