//! Feed-forward blocks: dense, and mixtures of experts.

use candle_core::{Result, Tensor};
use rocfire_candle::{GroupScore, Groups, RouteForm, Score, route};

use super::Source;
use super::batch::Batch;
use super::decoder::{Config, Feeds, Mixture};
use super::matrices::{Gated, Mixed};

/// A gated block, or experts of which each row goes through a few.
#[derive(Debug)]
pub(crate) enum FeedForward {
    Dense(Gated),
    Experts(Box<Experts>),
}

#[derive(Debug)]
pub(crate) struct Experts {
    router: Tensor,
    bias: Option<Tensor>,
    matrices: Mixed,
    form: RouteForm,
    /// What every row goes through besides.
    shared: Option<Gated>,
}

impl FeedForward {
    pub fn new(source: &Source, name: &str, config: &Config) -> Result<FeedForward> {
        let Config { width, hidden, .. } = *config;
        let (mixture, grouped) = match config.feeds {
            Feeds::Dense => return Ok(FeedForward::Dense(Gated::new(source, name, [width, hidden])?)),
            Feeds::Experts { mixture, renormalises } => (mixture, Err(renormalises)),
            Feeds::Grouped { mixture, groups, kept, factor } => (mixture, Ok((groups, kept, factor))),
        };
        let Mixture { experts, chosen } = mixture;
        let mut form = RouteForm::new(experts, chosen, Score::Softmax);
        let (mut bias, mut shared) = (None, None);
        match grouped {
            Err(renormalises) => form.renormalises = renormalises,
            Ok((count, kept, factor)) => {
                form.score = Score::Sigmoid;
                form.groups = Some(Groups { count, kept, score: GroupScore::TwoLargest });
                (form.renormalises, form.factor, form.has_bias) = (true, factor, true);
                let values = source.weights.between(&format!("{name}.bias"), experts, -0.2, 0.2);
                bias = Some(Tensor::from_vec(values, experts, &source.device)?);
                shared = Some(Gated::new(source, &format!("{name}.shared"), [width, hidden])?);
            }
        }
        let router = source.matrix(&format!("{name}.router"), &[width, experts])?;
        let matrices = Mixed::new(source, name, [experts, width, hidden])?;
        Ok(FeedForward::Experts(Box::new(Experts { router, bias, matrices, form, shared })))
    }

    /// `[rows, width]` to the same.
    pub fn forward(&self, x: &Tensor, batch: &Batch) -> Result<Tensor> {
        let Experts { router, bias, matrices, form, shared } = match self {
            FeedForward::Dense(gated) => return gated.forward(x, batch),
            FeedForward::Experts(experts) => experts.as_ref(),
        };
        let [shares, ids] = route(&x.matmul(router)?, *form, bias.as_ref())?;
        let y = matrices.forward(x, &ids, &shares)?;
        match shared {
            Some(shared) => y + shared.forward(x, batch)?,
            None => Ok(y),
        }
    }
}
