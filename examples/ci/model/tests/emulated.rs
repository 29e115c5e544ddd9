//! What a project tests of its model, on the device that `ROCFIRE_DEVICE` names: an emulated GPU, or a card where there is one.

use burn::tensor::{Device, TensorData};
use ci_model::{Perceptron, batch, train};
use rocfire_burn::RocmDevice;

fn numbers(data: TensorData) -> Vec<f32> {
    data.iter::<f32>().collect()
}

#[test]
fn the_model_learns() {
    let losses = train(&RocmDevice::default().into(), 60);
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    println!("{}: loss {first:.4} to {last:.4}", RocmDevice::default());
    assert!(losses.iter().all(|loss| loss.is_finite()) && last < 0.2 * first, "{losses:?}");
}

#[test]
fn the_gpu_computes_what_the_cpu_computes() {
    let (gpu, cpu) = (Device::from(RocmDevice::default()), Device::flex());
    let model = Perceptron::new(&gpu);
    let on_gpu = numbers(model.forward(batch(&gpu).0).into_data());
    let on_cpu = numbers(burn::module::Module::to_device(model, &cpu).forward(batch(&cpu).0).into_data());
    assert_eq!(on_gpu.len(), on_cpu.len());
    for (gpu, cpu) in on_gpu.iter().zip(&on_cpu) {
        assert!((gpu - cpu).abs() <= 1e-5 * cpu.abs().max(1.0), "{gpu} and {cpu}");
    }
}
