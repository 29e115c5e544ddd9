//! A step's arrays on the device, and the tokens that come of its logits.

use candle_core::{DType, Device, Result, Tensor};
use rocfire_candle::{Sampling, Sequences, sample};

use crate::engine::{Limits, Output, Step};

/// What layers read of a step.
#[derive(Debug)]
pub(crate) struct Batch {
    pub tokens: Tensor,
    /// `[1, rows]`.
    pub positions: Tensor,
    pub slots: Tensor,
    pub pages: Tensor,
    pub lens: Tensor,
    pub starts: Tensor,
    last: Tensor,
    /// The first row and the end: all rows as one group.
    pub whole: Tensor,
    pub limits: Limits,
}

impl Batch {
    pub fn new(step: &Step, limits: Limits, device: &Device) -> Result<Batch> {
        let whole = |values: &[i64]| Tensor::from_slice(values, values.len(), device);
        Ok(Batch {
            tokens: Tensor::from_slice(&step.tokens, limits.rows, device)?,
            positions: whole(&step.positions)?.unsqueeze(0)?,
            slots: whole(&step.slots)?,
            pages: Tensor::from_iter(step.pages.iter().map(|&page| page as u32), device)?
                .reshape((limits.seats, limits.pages_each))?,
            lens: Tensor::from_iter(step.lens.iter().map(|&len| len as u32), device)?,
            starts: Tensor::from_iter(step.starts.iter().map(|&start| start as u32), device)?,
            last: whole(&step.last)?,
            whole: Tensor::new(&[0, limits.rows as u32], device)?,
            limits,
        })
    }

    /// For a cache: bounds are those of the engine, whoever is there.
    pub fn sequences(&self) -> Sequences<'_> {
        let (pages, lens, queries) = (&self.pages, &self.lens, Some((&self.starts, self.limits.rows)));
        Sequences { pages, lens, keys_most: self.limits.length(), queries }
    }

    /// Rows of which a token is chosen, `[seats, columns]`.
    pub fn last_of(&self, x: &Tensor) -> Result<Tensor> {
        x.index_select(&self.last, 0)
    }
}

/// Tokens of each seat's logits, `[seats, vocabulary]`.
pub(crate) fn choose(logits: &Tensor, step: &Step) -> Result<Output> {
    let (device, choices) = (logits.device(), &step.choices);
    let floats = |of: fn(f32, f32) -> f32| {
        Tensor::from_iter(choices.iter().map(|(choice, _)| of(choice.temperature, choice.top_p)), device)
    };
    let sampling = Sampling {
        temperature: Some(floats(|temperature, _| temperature)?),
        top_k: Some(Tensor::from_iter(choices.iter().map(|(choice, _)| i64::from(choice.top_k)), device)?),
        top_p: Some(floats(|_, top_p| if top_p > 0.0 { top_p } else { 1.0 })?),
        ..Sampling::default()
    };
    let seeds = Tensor::from_iter(choices.iter().map(|(choice, _)| choice.seed), device)?;
    let offsets = Tensor::from_iter(choices.iter().map(|&(_, written)| written), device)?;
    let tokens = sample(logits, &sampling, Some([&seeds, &offsets]), DType::U32)?;
    Ok(Output { tokens: tokens.to_vec1()?, logits: logits.flatten_all()?.to_vec1()? })
}
