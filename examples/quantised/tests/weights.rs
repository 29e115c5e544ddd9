//! Weights quantised by Burn stay packed through the fused forward pass, and the error against f32 is what the codes allow.

use quantised::{WIDTH, measure};
use rocfire_burn::RocmDevice;

/// Largest relative error of each scheme. A weight is uniform within ±a, of root mean square a/√3; rounding it to steps of `s`
/// errs by s/√12 of root mean square, so by s/2a of the weight's: 1/254 for 8 bits, 1/14 for 4, about as much in the second layer,
/// which doubles the square. E4M3 rounds to 4 significant bits, an error of at most 1/16 and of about a third of that. Twice each.
const BOUNDS: [(&str, f64); 5] = [
    ("Q8S, one scale", 0.012),
    ("Q8S, blocks of 32", 0.012),
    ("Q4S, one scale", 0.21),
    ("Q4S, blocks of 32", 0.21),
    ("E4M3, blocks of 32", 0.06),
];

#[test]
fn weights_stay_packed_and_the_error_is_small() {
    let outcomes = measure(RocmDevice::emulated("gfx942").unwrap()).unwrap();
    assert_eq!(outcomes.len(), BOUNDS.len());
    for (outcome, (name, bound)) in outcomes.iter().zip(BOUNDS) {
        assert_eq!(outcome.name, name);
        let error = outcome.relative_error;
        assert!(error > 0.0 && error <= bound, "{name}: {error}, at most {bound}");
        let products = outcome.launches.iter().filter(|launch| launch.operator == "q_matmul").count();
        assert!(products >= 2, "{name}: a product of packed weights for each layer: {:?}", outcome.launches);
        assert!(!outcome.launches.iter().any(|launch| launch.operator == "gemm"), "{name}: {:?}", outcome.launches);
        let most = outcome.most_dequantised();
        assert!(most <= WIDTH, "{name}: {most} elements were written out: {:?}", outcome.launches);
    }
}
