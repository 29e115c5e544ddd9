//! Compares the kernel and its gradient with Burn's composition on the CPU.

use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexDevice};
use custom_kernel::{GateOps, apart, gradients};
use rocfire_burn::{Fused, RocmDevice};

fn main() {
    let rocm = RocmDevice::default();
    println!("on {rocm}, against Burn's own operators on the CPU:");
    let ours = gradients::<Fused>(&rocm, [33, 65], Autodiff::<Fused>::gate);
    let theirs = gradients::<Flex>(&FlexDevice, [33, 65], Autodiff::<Flex>::gate);
    for ((name, ours), theirs) in ["gate(2 x, y)", "gradient by x", "gradient by y"].iter().zip(&ours).zip(&theirs) {
        println!("{name}: {} numbers, at most {:.1e} apart", ours.num_elements(), apart(ours, theirs));
    }
}
