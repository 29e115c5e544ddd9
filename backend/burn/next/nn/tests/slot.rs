//! What Burn 0.22 does not do on its slot's device, and 0.23 does.

use burn::tensor::{Device, Tensor};
use rocfire_burn::RocmDevice;

#[test]
fn gradients_are_replaced() {
    let device: Device = RocmDevice::emulated("gfx942").unwrap().burn().into();
    let x = Tensor::<1>::from_data([1.0, 2.0], &device.clone().autodiff()).require_grad();
    let mut gradients = (x.clone() * x.clone()).sum().backward();
    x.grad_replace(&mut gradients, Tensor::<1>::from_data([3.0, 4.0], &device));
    let replaced = x.grad(&gradients).expect("there is a gradient").into_data();
    assert_eq!(replaced.convert::<f64>().as_slice::<f64>().unwrap(), [3.0, 4.0]);
}
