//! Inference on the emulated device: what Flex computes, with normalisations and activations in the convolutions' launches.

use burn::tensor::Device;
use models::{Depth, ResNetRun, ResNetSizes, resnet_logits};
use rocfire_burn::{RocmDevice, plans};

/// Of ResNet-18.
const BLOCKS: usize = 8;

#[test]
fn resnet_18_infers_as_on_the_cpu() {
    let sizes = ResNetSizes { depth: Depth::L18, width: 16, classes: 10 };
    let run = ResNetRun { sizes, batch: 1, side: 48, steps: 0, rate: 0.0, seed: 3 };
    let rocm = RocmDevice::emulated("gfx942").unwrap();
    let opened = rocm.open().unwrap();
    let (flex, _) = resnet_logits(&run, &Device::flex(), &|| 0).unwrap();
    let (ours, launches) = resnet_logits(&run, &rocm.burn().into(), &|| opened.launches()).unwrap();
    assert_eq!(flex.len(), sizes.classes);
    for (flex, ours) in flex.iter().zip(&ours) {
        assert!((flex - ours).abs() <= 1e-4 * flex.abs().max(1.0), "{ours}, on Flex {flex}");
    }
    // Each block ends in one launch: convolution, normalisation, residual, activation.
    let ends_block = |plan: &rocfire_burn::PlanReport| {
        plan.name == "Convolution" && plan.kernels.len() == 1 && plan.kernels[0].launches_apart >= 10
    };
    let plans = plans();
    let text = plans.iter().map(ToString::to_string).collect::<String>();
    assert_eq!(plans.iter().filter(|plan| ends_block(plan)).count(), BLOCKS, "{text}");
    // Twenty convolutions, the pool, the mean of each channel, the last layer.
    assert!(launches <= 23, "{launches} launches\n{text}");
}
