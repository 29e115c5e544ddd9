//! Feed-forward blocks: dense, and mixtures of experts.

use candle_core::{Result, Tensor};
use rocfire_candle::{Activation, GroupScore, Groups, RouteForm, Score, experts, gated_mlp, route};

use super::Source;
use super::decoder::{Config, Feeds, Mixture};

/// A gated block, or experts of which each row goes through a few.
#[derive(Debug)]
pub(crate) enum FeedForward {
    Dense([Tensor; 2]),
    Experts(Experts),
}

#[derive(Debug)]
pub(crate) struct Experts {
    router: Tensor,
    bias: Option<Tensor>,
    matrices: [Tensor; 3],
    form: RouteForm,
    /// What every row goes through besides.
    shared: Option<[Tensor; 2]>,
}

/// The weights of a gated block as [`gated_mlp`] takes them.
fn dense(source: &Source, name: &str, width: usize, hidden: usize) -> Result<[Tensor; 2]> {
    let of = |part: &str| source.matrix(&format!("{name}.{part}"), &[width, hidden]);
    let gate_up = Tensor::cat(&[of("gate")?, of("up")?], 1)?.t()?.contiguous()?;
    let down = source.matrix(&format!("{name}.down"), &[hidden, width])?.t()?.contiguous()?;
    Ok([gate_up, down])
}

impl FeedForward {
    pub fn new(source: &Source, name: &str, config: &Config) -> Result<FeedForward> {
        let Config { width, hidden, .. } = *config;
        let (mixture, grouped) = match config.feeds {
            Feeds::Dense => return Ok(FeedForward::Dense(dense(source, name, width, hidden)?)),
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
                shared = Some(dense(source, &format!("{name}.shared"), width, hidden)?);
            }
        }
        let of = |part: &str, shape: &[usize]| source.matrix(&format!("{name}.{part}"), shape);
        let inward = [experts, width, hidden];
        let matrices = [of("gate", &inward)?, of("up", &inward)?, of("down", &[experts, hidden, width])?];
        Ok(FeedForward::Experts(Experts { router: of("router", &[width, experts])?, bias, matrices, form, shared }))
    }

    /// `[rows, width]` to the same.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let Experts { router, bias, matrices: [gate, up, down], form, shared } = match self {
            FeedForward::Dense([gate_up, down]) => return gated_mlp(x, gate_up, down, Activation::Silu),
            FeedForward::Experts(experts) => experts,
        };
        let [shares, ids] = route(&x.matmul(router)?, *form, bias.as_ref())?;
        let y = experts(x, [gate, up, down], &ids, &shares, Activation::Silu)?;
        match shared {
            Some([gate_up, down]) => y + gated_mlp(x, gate_up, down, Activation::Silu)?,
            None => Ok(y),
        }
    }
}
