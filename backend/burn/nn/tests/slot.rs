//! What Burn does not do on the slot's device, as the README says: when a later Burn does, it is to be said no more.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, Tensor};
use rocfire_burn::RocmDevice;

#[test]
fn gradients_are_not_replaced() {
    let device: Device = RocmDevice::emulated("gfx942").unwrap().burn().into();
    let x = Tensor::<1>::from_data([1.0, 2.0], &device.clone().autodiff()).require_grad();
    let mut gradients = (x.clone() * x.clone()).sum().backward();
    let other = Tensor::<1>::from_data([3.0, 4.0], &device);
    let replaced = catch_unwind(AssertUnwindSafe(|| x.grad_replace(&mut gradients, other)));
    let panic = replaced.expect_err("burn-dispatch has no arm for this place");
    let text = panic.downcast_ref::<String>().map_or("", String::as_str);
    assert!(text.contains("not on the same backend"), "{text}");
    let left = x.grad(&gradients).expect("the gradient is still there").into_data();
    assert_eq!(left.convert::<f64>().as_slice::<f64>().unwrap(), [2.0, 4.0]);
}
