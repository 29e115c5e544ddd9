//! Prints what quantising the weights of a Linear-ReLU-Linear model costs in accuracy, and what the quantised model launches.

use quantised::{BATCH, WIDTH, measure};
use rocfire_burn::RocmDevice;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rocm = RocmDevice::default();
    println!("Linear-ReLU-Linear of width {WIDTH}, batch {BATCH}, weights quantised by Burn's Quantizer, on {rocm}\n");
    for outcome in measure(rocm)? {
        println!("{}: relative error against f32 {:.4}", outcome.name, outcome.relative_error);
        for launch in &outcome.launches {
            println!("    {} ({}) {:?}", launch.operator, launch.kernel, launch.shape);
        }
        let most = outcome.most_dequantised();
        println!("    largest tensor turned back into floats: {most} elements; a weight has {}\n", WIDTH * WIDTH);
    }
    Ok(())
}
