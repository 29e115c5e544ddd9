//! Graphs through Burn's `graph_*`: recorded behind `Fused`, replayed on the same memory.

use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, Distribution, TensorData, read_sync};
use burn_std::FloatDType;
use rocfire_burn::{BurnDevice, Fused, RocmDevice};

use crate::check::{f32s, float};

/// A device that no other test launches on: what they launched would be recorded, too.
fn device() -> BurnDevice {
    RocmDevice::emulated("gfx90a").unwrap().burn()
}

/// A product, what dropout leaves of it, and both.
fn forward(x: &FloatTensor<Fused>, w: &FloatTensor<Fused>, device: &BurnDevice) -> [FloatTensor<Fused>; 2] {
    let product = Fused::float_matmul(x.clone(), w.clone());
    let kept = Distribution::Bernoulli(0.5);
    let mask = Fused::float_random([8, 16].into(), kept, device, FloatDType::F32);
    let dropped = Fused::float_mul(product.clone(), Fused::float_mul_scalar(mask, 2.0.into()));
    [product, dropped]
}

#[test]
fn a_replayed_forward_gives_the_same_product_and_another_mask() {
    let device = &device();
    let (x, w) = (f32s::<Fused>(&[8, 32], 1, device), f32s::<Fused>(&[32, 16], 2, device));
    let expected = float::<Fused>(forward(&x, &w, device)[0].clone());
    // As `burn::tensor::capture` does: prepare, warm up, record.
    Fused::graph_prepare(device).unwrap();
    for _ in 0..3 {
        let warm = forward(&x, &w, device);
        Fused::sync(device).unwrap();
        drop(warm);
    }
    Fused::graph_start_capture(device).unwrap();
    let [product, dropped] = forward(&x, &w, device);
    let graph = Fused::graph_stop_capture(device).unwrap();
    let mut masks: Vec<TensorData> = Vec::new();
    for _ in 0..3 {
        // SAFETY: x, w and both results are alive, and no other test uses this device.
        unsafe { Fused::graph_replay(device, &graph).unwrap() };
        assert_eq!(float::<Fused>(product.clone()), expected);
        let dropped = float::<Fused>(dropped.clone());
        for (whole, part) in expected.iter::<f32>().zip(dropped.iter::<f32>()) {
            assert!(part == 0.0 || part == 2.0 * whole, "{part} of {whole}");
        }
        assert!(!masks.contains(&dropped), "a mask came twice");
        masks.push(dropped);
    }
}

#[test]
fn a_read_while_a_graph_is_recorded_is_an_error_that_says_so() {
    let device = &RocmDevice::emulated("gfx950").unwrap().burn();
    let x = f32s::<Fused>(&[8, 32], 1, device);
    let y = Fused::float_exp(x.clone());
    Fused::sync(device).unwrap();
    Fused::graph_start_capture(device).unwrap();
    let error = read_sync(Fused::float_into_data(y)).unwrap_err().to_string();
    assert!(error.contains("cannot be part of a graph"), "{error}");
    assert!(Fused::graph_stop_capture(device).is_err());
    // The device goes on as before.
    let _ = float::<Fused>(Fused::float_exp(x));
}
