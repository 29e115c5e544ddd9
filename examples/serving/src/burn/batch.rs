//! A step's arrays on the device, and the tokens that come of its logits.

use burn::tensor::{Device, Int, Tensor, TensorData};
use rocfire_burn_nn::{Sampling, Sequences, StateSequences, sample};

use super::OFF;
use crate::Result;
use crate::engine::{Choice, Limits, Output, Step};

/// What layers read of a step.
#[derive(Debug)]
pub(crate) struct Batch {
    pub tokens: Tensor<1, Int>,
    /// `[1, rows]`.
    pub positions: Tensor<2, Int>,
    pub slots: Tensor<1, Int>,
    pages: Tensor<2, Int>,
    lens: Tensor<1, Int>,
    starts: Tensor<1, Int>,
    states: Tensor<1, Int>,
    fresh: Tensor<1, Int>,
    last: Tensor<1, Int>,
    limits: Limits,
}

impl Batch {
    pub fn new(step: &Step, limits: Limits, device: &Device) -> Batch {
        let whole =
            |values: &[i64]| Tensor::<1, Int>::from_data(TensorData::new(values.to_vec(), [values.len()]), device);
        let tokens: Vec<i64> = step.tokens.iter().map(|&token| i64::from(token)).collect();
        Batch {
            tokens: whole(&tokens),
            positions: whole(&step.positions).unsqueeze(),
            slots: whole(&step.slots),
            pages: whole(&step.pages).reshape([limits.seats, limits.pages_each]),
            lens: whole(&step.lens),
            starts: whole(&step.starts),
            states: whole(&step.states),
            fresh: whole(&step.fresh),
            last: whole(&step.last),
            limits,
        }
    }

    /// For a cache: bounds are those of the engine, whoever is there.
    pub fn sequences(&self) -> Sequences {
        Sequences {
            pages: self.pages.clone(),
            lens: self.lens.clone(),
            keys_most: self.limits.length(),
            queries: Some((self.starts.clone(), self.limits.rows)),
        }
    }

    /// For states in a pool.
    pub fn states(&self) -> StateSequences {
        let of = StateSequences::new(self.starts.clone(), self.states.clone());
        StateSequences { fresh: Some(self.fresh.clone()), ..of }
    }

    /// Rows of which a token is chosen, `[seats, columns]`.
    pub fn last_of(&self, x: Tensor<2>) -> Tensor<2> {
        x.select(0, self.last.clone())
    }
}

/// Tokens of each seat's logits, `[seats, vocabulary]`.
pub(crate) fn choose(logits: Tensor<2>, step: &Step) -> Result<Output> {
    let (device, choices) = (logits.device(), &step.choices);
    let shape = [choices.len()];
    let floats = |of: fn(&Choice) -> f32| {
        let values: Vec<f32> = choices.iter().map(|(choice, _)| of(choice)).collect();
        Some(Tensor::<1>::from_data(TensorData::new(values, shape), &device))
    };
    let whole = |of: fn(&(Choice, i64)) -> i64| {
        let values: Vec<i64> = choices.iter().map(of).collect();
        Tensor::<1, Int>::from_data(TensorData::new(values, shape), &device)
    };
    let sampling = Sampling {
        temperature: floats(|choice| choice.temperature),
        top_k: Some(whole(|(choice, _)| i64::from(choice.top_k))),
        top_p: floats(|choice| if choice.top_p > 0.0 { choice.top_p } else { 1.0 }),
        ..Sampling::default()
    };
    let draw = [whole(|(choice, _)| choice.seed), whole(|&(_, written)| written)];
    let tokens = sample(logits.clone(), &sampling, Some(draw)).ok_or(OFF)?;
    let told = |error| format!("{error:?}");
    let tokens = tokens.try_into_data().map_err(|error| error.to_string())?;
    let logits = logits.try_into_data().map_err(|error| error.to_string())?;
    Ok(Output {
        tokens: tokens.convert::<u32>().try_to_vec().map_err(told)?,
        logits: logits.try_to_vec().map_err(told)?,
    })
}
