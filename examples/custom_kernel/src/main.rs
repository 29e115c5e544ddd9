//! Checks the kernel's gradient against Burn's composition on the CPU.

use burn::tensor::{Device, TensorData};
use custom_kernel::gradients;
use rocfire_burn::RocmDevice;

fn apart(ours: &TensorData, theirs: &TensorData) -> f32 {
    ours.iter::<f32>().zip(theirs.iter::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn main() {
    let rocm = RocmDevice::default();
    println!("on {rocm}, against Burn's own operators on the CPU:");
    let ours = gradients(&Device::from(rocm.burn()), 33, 65);
    let theirs = gradients(&Device::flex(), 33, 65);
    for ((name, ours), theirs) in ["gate(2 x, y)", "gradient by x", "gradient by y"].iter().zip(&ours).zip(&theirs) {
        println!("{name}: {} numbers, at most {:.1e} apart", ours.num_elements(), apart(ours, theirs));
    }
}
