//! Both models trained a few steps on the emulated device and on Burn's CPU backend, from the same weights on the same data:
//! the losses are the same to a thousandth.

use burn::tensor::Device;
use models::{
    BertRun, BertSizes, Depth, Error, ResNetRun, ResNetSizes, bert_losses, largest_relative_difference, resnet_losses,
};
use rocfire_burn::RocmDevice;

/// How far losses may be apart, as a share of the loss.
const TOLERANCE: f32 = 1e-3;
const STEPS: usize = 3;

fn assert_same(train: impl Fn(&Device) -> Result<Vec<f32>, Error>) {
    let flex = train(&Device::flex()).unwrap();
    let ours = train(&RocmDevice::emulated("gfx942").unwrap().burn().into()).unwrap();
    let apart = largest_relative_difference(&flex, &ours);
    assert!(apart <= TOLERANCE, "{apart:e} apart: Flex {flex:?}, ours {ours:?}");
    assert_eq!(flex.len(), STEPS);
    assert!(flex[0] - flex[STEPS - 1] > 20.0 * TOLERANCE * flex[0], "training moves the loss: {flex:?}");
}

#[test]
fn resnet_18_trains_as_on_the_cpu() {
    let sizes = ResNetSizes { depth: Depth::L18, width: 16, classes: 10 };
    let run = ResNetRun { sizes, batch: 4, side: 64, steps: STEPS, rate: 0.01, seed: 7 };
    assert_same(|device| resnet_losses(&run, device));
}

#[test]
fn bert_trains_as_on_the_cpu() {
    let sizes = BertSizes { vocabulary: 101, context: 16, width: 64, heads: 4, layers: 2 };
    let run = BertRun { sizes, batch: 2, steps: STEPS, rate: 1e-2, seed: 7 };
    assert_same(|device| bert_losses(&run, device));
}
