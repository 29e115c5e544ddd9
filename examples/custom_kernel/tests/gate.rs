//! The kernel on an emulated GPU, against Burn's composition on Flex.

use burn::module::Module;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use custom_kernel::{GatedLayer, gradients};
use rocfire_burn::RocmDevice;

fn rocm() -> Device {
    RocmDevice::emulated("gfx942").unwrap().burn().into()
}

fn assert_near(ours: &TensorData, theirs: &TensorData, tolerance: f32) {
    assert_eq!(ours.shape(), theirs.shape());
    for (a, b) in ours.iter::<f32>().zip(theirs.iter::<f32>()) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{a} and {b}");
    }
}

#[test]
fn the_kernel_s_gradient_is_that_of_the_composition() {
    for (ours, theirs) in gradients(&rocm(), 7, 33).iter().zip(&gradients(&Device::flex(), 7, 33)) {
        assert_near(ours, theirs, 4e-6);
    }
}

#[test]
fn a_layer_with_the_kernel_trains_as_one_without() {
    let weights = GatedLayer::new(6, 10, &Device::flex()).into_record();
    let data = Tensor::<2>::random([9, 6], Distribution::Uniform(-1.0, 1.0), &Device::flex()).into_data();
    let losses = |device: Device| {
        let device = device.autodiff();
        let mut layer = GatedLayer::new(6, 10, &device).load_record(weights.clone());
        let x = Tensor::<2>::from_data(data.clone(), &device);
        let mut optimiser = SgdConfig::new().init();
        (0..4)
            .map(|_| {
                let error = layer.forward(x.clone()) - x.clone().sin();
                let loss = (error.clone() * error).mean();
                let gradients = GradientsParams::from_grads(loss.backward(), &layer);
                layer = optimiser.step(0.5, layer.clone(), gradients);
                loss.into_scalar::<f32>()
            })
            .collect::<Vec<f32>>()
    };
    let (ours, theirs) = (losses(rocm()), losses(Device::flex()));
    assert!(theirs[3] < theirs[0], "{theirs:?}");
    assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-5), "{ours:?} {theirs:?}");
}
