//! Norms, a launch each, and their gradients as few as the kernels have; off rocfire's devices as Burn writes them.

use burn::module::{Module, Param};
use burn::nn::{GroupNorm as BurnGroupNorm, GroupNormConfig, LayerNormConfig, RmsNorm as BurnRmsNorm, RmsNormConfig};
use burn::tensor::{Device, Tensor};
use rocfire_burn::custom::operators::{self, CodedSource, Coding, NormKind};

use crate::quantised::{Coded, code};
use crate::{one, run};

/// Root-mean-square norm of the last axis, `x / √(mean(x²) + ε) · gamma`, with the parameters of [`BurnRmsNorm`].
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// Factors of the columns, `[d_model]`.
    pub gamma: Param<Tensor<1>>,
    /// Added to the mean square under the root.
    pub epsilon: f64,
}

impl RmsNorm {
    /// A module with fresh parameters.
    pub fn new(config: &RmsNormConfig, device: &Device) -> RmsNorm {
        config.init(device).into()
    }

    /// Normalises the last axis of `[.., d_model]`: in f32 (f64 for f64), with one rounding at the end.
    ///
    /// # Panics
    /// If there are not `d_model` columns.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let inputs = vec![x.clone().into_dispatch(), self.gamma.val().into_dispatch()];
        one(run(operators::norm(NormKind::Rms, self.epsilon, false), inputs))
            .unwrap_or_else(|| BurnRmsNorm { gamma: self.gamma.clone(), epsilon: self.epsilon }.forward(x))
    }

    /// Codes of the result, which is written nowhere else; `None` off rocfire's devices.
    ///
    /// # Panics
    /// As [`RmsNorm::forward`] and [`Coded::of`].
    pub fn forward_coded(&self, x: Tensor<2>, coding: Coding) -> Option<Coded> {
        let source = CodedSource::Norm(NormKind::Rms, self.epsilon);
        code(source, vec![x.into_dispatch(), self.gamma.val().into_dispatch()], coding)
    }
}

impl From<BurnRmsNorm> for RmsNorm {
    /// The same parameters.
    fn from(module: BurnRmsNorm) -> RmsNorm {
        RmsNorm { gamma: module.gamma, epsilon: module.epsilon }
    }
}

/// Norm of the last axis, `(x - mean) / √(variance + ε) · gamma + beta`, with the parameters of [`burn::nn::LayerNorm`].
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Factors of the columns, `[d_model]`.
    pub gamma: Param<Tensor<1>>,
    /// Added to the columns, `[d_model]`.
    pub beta: Option<Param<Tensor<1>>>,
    /// Added to the variance under the root.
    pub epsilon: f64,
}

impl LayerNorm {
    /// A module with fresh parameters.
    pub fn new(config: &LayerNormConfig, device: &Device) -> LayerNorm {
        let module = config.init(device);
        LayerNorm { gamma: module.gamma, beta: module.beta, epsilon: config.epsilon }
    }

    /// Normalises the last axis of `[.., d_model]`: in f32 (f64 for f64), with one rounding at the end.
    ///
    /// # Panics
    /// If there are not `d_model` columns.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let beta = self.beta.as_ref().map(Param::val);
        let parameters = std::iter::once(self.gamma.val()).chain(beta.clone()).map(Tensor::into_dispatch);
        let inputs = std::iter::once(x.clone().into_dispatch()).chain(parameters).collect();
        one(run(operators::norm(NormKind::Layer, self.epsilon, beta.is_some()), inputs)).unwrap_or_else(|| {
            let (variance, mean) = x.clone().var_mean_bias(D - 1);
            let y = x.sub(mean).div(variance.add_scalar(self.epsilon).sqrt()).mul(self.gamma.val().unsqueeze());
            beta.map_or(y.clone(), |beta| y.add(beta.unsqueeze()))
        })
    }
}

/// Norm of groups of channels, with the parameters of [`BurnGroupNorm`].
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// Factors of the channels, `[channels]`.
    pub gamma: Option<Param<Tensor<1>>>,
    /// Added to the channels, `[channels]`.
    pub beta: Option<Param<Tensor<1>>>,
    /// Groups of equally many neighbouring channels.
    pub num_groups: usize,
    /// Channels.
    pub num_channels: usize,
    /// Added to the variance under the root.
    pub epsilon: f64,
}

impl GroupNorm {
    /// A module with fresh parameters.
    pub fn new(config: &GroupNormConfig, device: &Device) -> GroupNorm {
        let BurnGroupNorm { gamma, beta, num_groups, num_channels, epsilon, .. } = config.init(device);
        GroupNorm { gamma, beta, num_groups, num_channels, epsilon }
    }

    /// Normalises each group of channels of `[batch, channels, ..]` with all that is behind them.
    ///
    /// # Panics
    /// If there are not as many channels.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let parameters = [&self.gamma, &self.beta].into_iter().flatten().map(|param| param.val().into_dispatch());
        let inputs = std::iter::once(x.clone().into_dispatch()).chain(parameters).collect();
        let operator = operators::group_norm(self.num_groups, self.epsilon, self.gamma.is_some());
        one(run(operator, inputs)).unwrap_or_else(|| {
            let module = BurnGroupNorm {
                gamma: self.gamma.clone(),
                beta: self.beta.clone(),
                num_groups: self.num_groups,
                num_channels: self.num_channels,
                epsilon: self.epsilon,
                affine: self.gamma.is_some(),
            };
            module.forward(x)
        })
    }
}
