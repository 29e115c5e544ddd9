//! The kernel on an emulated GPU, at once and in a stream, against the composition on Flex.

use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexDevice};
use custom_kernel::{GateOps, apart, gradients};
use rocfire_burn::{Fused, Rocm, RocmDevice};

#[test]
fn the_kernel_and_its_gradient_are_those_of_the_composition() {
    let device = RocmDevice::emulated("gfx942").unwrap();
    let theirs = gradients::<Flex>(&FlexDevice, [7, 33], Autodiff::<Flex>::gate);
    let eager = gradients::<Rocm>(&device, [7, 33], Autodiff::<Rocm>::gate);
    let fused = gradients::<Fused>(&device, [7, 33], Autodiff::<Fused>::gate);
    for ours in [eager, fused] {
        // The largest number is about 30.
        assert!(ours.iter().zip(&theirs).all(|(ours, theirs)| apart(ours, theirs) < 2e-5));
    }
}
