//! Candle's device is ours: opening, memory, copies, and what comes back where something is wrong.

use candle_core::{DType, Device, Tensor};

fn gpu() -> Device {
    rocfire_candle::device().expect("there is always an emulated device").device
}

#[test]
fn new_cuda_is_the_device_that_was_found() {
    let found = rocfire_candle::device().unwrap();
    assert!(found.device.is_cuda());
    assert!(found.to_string().contains(&found.id.to_string()), "{found}");
}

#[test]
fn tensors_go_to_the_device_and_come_back() {
    let device = gpu();
    let values: Vec<f32> = (0..1000).map(|i| i as f32 * 0.5).collect();
    let tensor = Tensor::from_vec(values.clone(), (10, 100), &device).unwrap();
    assert_eq!(tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap(), values);
    let zeros = Tensor::zeros((3, 5), DType::I64, &device).unwrap();
    assert_eq!(zeros.to_vec2::<i64>().unwrap(), vec![vec![0; 5]; 3]);
    let none = Tensor::zeros((0, 5), DType::F32, &device).unwrap();
    assert_eq!(none.to_vec2::<f32>().unwrap(), Vec::<Vec<f32>>::new());
    let back = tensor.to_device(&Device::Cpu).unwrap();
    assert_eq!(back.flatten_all().unwrap().to_vec1::<f32>().unwrap(), values);
}
