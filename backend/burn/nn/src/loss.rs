//! Cross-entropy that writes nothing of the size of the logits but their gradient.

use burn::module::Module;
use burn::nn::loss::{CrossEntropyLoss as BurnLoss, CrossEntropyLossConfig};
use burn::tensor::{DType, Device, Int, Tensor};
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

    /// `[1]`, from logits `[rows, classes]` and targets `[rows]`, of the logits' type.
    ///
    /// # Panics
    /// If shapes do not fit. A target that is no class makes the loss NaN, and the next read fails.
    pub fn forward(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let dtype = logits.dtype();
        match self.fused(&logits, &targets, dtype) {
            Some(loss) => loss,
            None => self.burn.forward(logits, targets),
        }
    }

    /// The same in f32 (f64 for f64), rounded to nothing less: the loss of 16-bit logits without a copy of them that is wider.
    ///
    /// # Panics
    /// As [`CrossEntropyLoss::forward`].
    pub fn forward_wide(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let wide = if logits.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        match self.fused(&logits, &targets, wide) {
            Some(loss) => loss,
            None => self.burn.forward(logits.cast(wide), targets),
        }
    }

    /// By the operator, with the losses of rows in `dtype`; `None` where there is none.
    fn fused(&self, logits: &Tensor<2>, targets: &Tensor<1, Int>, dtype: DType) -> Option<Tensor<1>> {
        let ignored = match self.burn.pad_tokens.as_deref() {
            None | Some([]) => None,
            Some([one]) => Some(*one as i64),
            Some(_) => return None,
        };
        if !self.burn.logits {
            return None;
        }
        let smoothing = self.burn.smoothing.map_or(0.0, f64::from);
        let weights = self.burn.weights.clone();
        let kernel = operators::cross_entropy(ignored, smoothing, weights.is_some());
        let inputs = [logits.clone().into_dispatch(), targets.clone().into_dispatch()];
        let inputs = inputs.into_iter().chain(weights.clone().map(Tensor::into_dispatch)).collect();
        let loss = crate::one::<1>(run(kernel, inputs))?.cast(dtype);
        if ignored.is_none() && weights.is_none() {
            return Some(loss.mean());
        }
        let shares = match weights {
            Some(weights) => weights.cast(dtype).gather(0, targets.clone()),
            None => loss.ones_like(),
        };
        let shares = match ignored {
            Some(ignored) => shares.mask_fill(targets.clone().equal_scalar(ignored), 0),
            None => shares,
        };
        Some(loss.sum() / shares.sum())
    }
}
