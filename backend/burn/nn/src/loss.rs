//! Cross-entropy that writes nothing of the size of the logits but their gradient.

use burn::module::Module;
use burn::nn::loss::{CrossEntropyLoss as BurnLoss, CrossEntropyLossConfig};
use burn::tensor::{Device, Int, Tensor};
use rocfire_burn::custom::operators;

use crate::run;

/// The mean loss of rows of logits, as [`BurnLoss`] has it.
///
/// On rocfire's devices it is a launch for the rows and one for their mean, and one for the gradient. With several ignored classes,
/// and of probabilities in place of logits, it is written out as Burn writes it. With smoothing and an ignored class it differs from
/// Burn's in nothing but rounding.
#[derive(Module, Debug)]
pub struct CrossEntropyLoss {
    /// Burn's module.
    pub burn: BurnLoss,
}

impl CrossEntropyLoss {
    /// A loss as Burn's configuration says.
    pub fn new(config: &CrossEntropyLossConfig, device: &Device) -> CrossEntropyLoss {
        CrossEntropyLoss { burn: config.init(device) }
    }

    /// `[1]`, from logits `[rows, classes]` and targets `[rows]`.
    ///
    /// # Panics
    /// If shapes do not fit. A target that is no class makes the loss NaN, and the next read fails.
    pub fn forward(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let written_out = |logits, targets| self.burn.forward(logits, targets);
        let ignored = match self.burn.pad_tokens.as_deref() {
            None | Some([]) => None,
            Some([one]) => Some(*one as i64),
            Some(_) => return written_out(logits, targets),
        };
        if !self.burn.logits {
            return written_out(logits, targets);
        }
        let smoothing = self.burn.smoothing.map_or(0.0, f64::from);
        let weights = self.burn.weights.clone();
        let kernel = operators::cross_entropy(ignored, smoothing, weights.is_some());
        let inputs = [logits.clone().into_dispatch(), targets.clone().into_dispatch()];
        let inputs = inputs.into_iter().chain(weights.clone().map(Tensor::into_dispatch)).collect();
        let Some(loss) = crate::one::<1>(run(kernel, inputs)) else { return written_out(logits, targets) };
        let loss = loss.cast(logits.dtype());
        if ignored.is_none() && weights.is_none() {
            return loss.mean();
        }
        let shares = match weights {
            Some(weights) => weights.gather(0, targets.clone()),
            None => loss.ones_like(),
        };
        let shares = match ignored {
            Some(ignored) => shares.mask_fill(targets.equal_scalar(ignored), 0),
            None => shares,
        };
        loss.sum() / shares.sum()
    }
}
