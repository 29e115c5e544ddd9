//! One training step, as a program of Burn's writes it: forward, backward, the gradients of several parts added up, clipped, AdamW or
//! gradient descent with momentum.

use burn::module::Module;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::Tensor;
use serde::Serialize;

use super::mixed::{self, Precision, Step};

/// How weights follow from gradients.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Rule {
    /// AdamW, its decay on every weight.
    AdamW {
        /// Of the mean of gradients.
        beta_1: f32,
        /// Of the mean of their squares.
        beta_2: f32,
        /// Added to the root of the latter.
        epsilon: f32,
        /// Decay of weights.
        decay: f32,
    },
    /// Gradient descent with momentum, its decay added to the gradient.
    Sgd {
        /// The share of the last step in the next.
        momentum: f64,
        /// Decay of weights.
        decay: f32,
    },
}

/// How a model is trained.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recipe {
    /// What a step computes in; the weights that are learned are always f32.
    pub precision: Precision,
    /// Parts of a batch, whose gradients are added up before a step.
    pub accumulate: usize,
    /// The most that the norm of all gradients may be.
    pub clip: Option<f64>,
    /// What the loss is multiplied by before, and the gradients divided by after backward.
    pub loss_scale: f64,
    /// The rule.
    pub rule: Rule,
    /// How far a step goes.
    pub rate: f64,
    /// Steps over which the rate rises to that.
    pub warm_up: usize,
}

impl Recipe {
    /// The rate of a step, counted from 0.
    pub fn rate_of(&self, step: usize) -> f64 {
        self.rate * ((step + 1) as f64 / self.warm_up.max(1) as f64).min(1.0)
    }

    fn optimizer(&self) -> ModuleOptimizer {
        match self.rule {
            Rule::AdamW { beta_1, beta_2, epsilon, decay } => AdamWConfig::new()
                .with_beta_1(beta_1)
                .with_beta_2(beta_2)
                .with_epsilon(epsilon)
                .with_weight_decay(decay)
                .init(),
            Rule::Sgd { momentum, decay } => {
                let momentum = MomentumConfig::new().with_momentum(momentum).with_dampening(0.0);
                let decay = (decay != 0.0).then(|| WeightDecayConfig::new(decay));
                SgdConfig::new().with_momentum(Some(momentum)).with_weight_decay(decay).init()
            }
        }
    }
}

/// What is known of a step, still on the device.
#[derive(Clone, Debug)]
pub struct Stepped {
    /// The loss before it, the mean over the parts, `[1]`, f32.
    pub loss: Tensor<1>,
    /// The norm of the gradients before they were clipped, `[1]`, f32; only where they are clipped.
    pub norm: Option<Tensor<1>>,
}

/// A model in f32, its optimizer, and the model that computes.
pub struct Trainer<M> {
    model: M,
    copy: M,
    optimizer: ModuleOptimizer,
    recipe: Recipe,
    steps: usize,
}

impl<M: Module> Trainer<M> {
    /// Of a model on a device with `autodiff`, whose parameters are f32.
    pub fn new(model: M, recipe: Recipe) -> Trainer<M> {
        let copy = recipe.precision.copy_of(&model);
        Trainer { model, copy, optimizer: recipe.optimizer(), recipe, steps: 0 }
    }

    /// The model in f32.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model that computes, whose parameters have the same ids.
    pub fn copy(&self) -> &M {
        &self.copy
    }

    /// The gradients of a batch, of the copy's parameters, multiplied by the recipe's scale of the loss, and the mean loss. `loss`
    /// gives that of a part of the batch, by its number.
    pub fn gradients(&self, loss: impl Fn(&M, usize) -> Tensor<1>) -> (GradientsParams, Tensor<1>) {
        let parts = self.recipe.accumulate.max(1);
        let share = self.recipe.loss_scale / parts as f64;
        let part = |number| {
            let value = loss(&self.copy, number);
            let scaled = if share == 1.0 { value.clone() } else { value.clone().mul_scalar(share) };
            (GradientsParams::from_grads(scaled.backward(), &self.copy), value.inner())
        };
        if parts == 1 {
            return part(0);
        }
        let mut sums = GradientsParams::new();
        let mut losses = Vec::with_capacity(parts);
        for number in 0..parts {
            let (gradients, value) = part(number);
            sums = mixed::add(&self.copy, sums, gradients);
            losses.push(value);
        }
        (sums, Tensor::cat(losses, 0).mean())
    }

    /// One step: `loss` gives that of a part of the batch, by its number, with the model that computes.
    pub fn step(mut self, loss: impl Fn(&M, usize) -> Tensor<1>) -> (Trainer<M>, Stepped) {
        let (gradients, loss) = self.gradients(loss);
        let unscale = 1.0 / self.recipe.loss_scale;
        let norm = self.recipe.clip.map(|_| {
            let norm = mixed::norm(&self.copy, &gradients);
            if unscale == 1.0 { norm } else { norm.mul_scalar(unscale) }
        });
        let factor = self.recipe.clip.zip(norm.as_ref()).map(|(most, norm)| mixed::clipping(norm, most));
        // In f32 it is the model itself, which is updated where it lies only if nobody else holds it.
        drop(self.copy);
        let step = Step { factor, constant: unscale, rate: self.recipe.rate_of(self.steps) };
        (self.model, self.copy) = mixed::step(self.model, &mut self.optimizer, gradients, step, self.recipe.precision);
        self.steps += 1;
        (self, Stepped { loss, norm })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_stays() {
        let rule = Rule::Sgd { momentum: 0.9, decay: 0.0 };
        let recipe = Recipe {
            precision: Precision::F32,
            accumulate: 1,
            clip: None,
            loss_scale: 1.0,
            rule,
            rate: 0.5,
            warm_up: 4,
        };
        let rates: Vec<f64> = [0, 1, 3, 9].into_iter().map(|step| recipe.rate_of(step)).collect();
        assert_eq!(rates, [0.125, 0.25, 0.5, 0.5]);
    }
}
