//! A training loop: points of two rings, a perceptron, AdamW.

use candle_core::{D, DType, Device, Tensor};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap, linear, loss};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::Result;

/// What training gave.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The loss before each step.
    pub losses: Vec<f32>,
    /// The share of points told right at the end.
    pub accuracy: f32,
}

const POINTS: usize = 96;
const HIDDEN: usize = 24;

/// Trains for some steps. The same seed gives the same points and first weights on every device.
///
/// # Errors
/// Candle's.
pub fn run(device: &Device, steps: usize, seed: u64) -> Result<Trained> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut points, mut rings) = (Vec::new(), Vec::new());
    for point in 0..POINTS {
        let ring = point % 2;
        let (angle, radius) = (random.random_range(0.0..std::f32::consts::TAU), random.random_range(0.8..1.2_f32));
        points.extend([angle.cos(), angle.sin()].map(|x| x * radius * (1 + ring) as f32));
        rings.push(ring as u32);
    }
    let points = Tensor::from_vec(points, (POINTS, 2), device)?;
    let rings = Tensor::from_vec(rings, POINTS, device)?;

    let variables = VarMap::new();
    let builder = VarBuilder::from_varmap(&variables, DType::F32, device);
    let (first, second): (Linear, Linear) =
        (linear(2, HIDDEN, builder.pp("first"))?, linear(HIDDEN, 2, builder.pp("second"))?);
    crate::tiny::draw(&variables, &mut random, 1.0)?;
    let forward = |points: &Tensor| second.forward(&first.forward(points)?.relu()?);
    let mut optimizer = AdamW::new(variables.all_vars(), ParamsAdamW { lr: 0.05, ..ParamsAdamW::default() })?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        let loss = loss::cross_entropy(&forward(&points)?, &rings)?;
        losses.push(loss.to_scalar()?);
        optimizer.backward_step(&loss)?;
    }
    let right = forward(&points)?.argmax(D::Minus1)?.eq(&rings)?.to_dtype(DType::F32)?;
    Ok(Trained { losses, accuracy: right.mean_all()?.to_scalar()? })
}
