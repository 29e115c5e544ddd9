//! Inference of the published models, timed.

use std::time::{Duration, Instant};

use burn::tensor::{Bool, DType, Device, Distribution, Int, Tensor, TensorData};

use crate::{Bert, BertSizes, Depth, Error, ResNet, ResNetSizes};

/// Forwards between two reads: what the host does for one then hides behind the device's work for the one before.
const FORWARDS: usize = 10;
/// Such rounds that the median is taken of.
const ROUNDS: usize = 9;
/// Rounds before those, which compile and plan.
const WARM_UP: usize = 2;
const CLASSES: usize = 1000;
/// Words of a text.
const CONTEXT: usize = 128;

/// A model of published sizes, with random weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Known {
    /// 25.6 million weights.
    Resnet50,
    /// 60 million weights.
    Resnet152,
    /// 12 layers of width 768, texts of 128 words.
    BertBase,
    /// 24 layers of width 1024, texts of 128 words.
    BertLarge,
}

/// What a forward took.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// The median over rounds of some forwards and one read, for one forward.
    pub wall: Duration,
    /// Launches of one.
    pub launches: u64,
    /// Whether every number of the last result that was read is finite.
    pub is_finite: bool,
}

/// Times forwards of `batch` images of `side` x `side`, or of so many texts, in the device's own float type. `launches` counts the
/// device's.
///
/// # Errors
/// [`Error::Read`].
pub fn time(
    model: Known,
    batch: usize,
    side: usize,
    device: &Device,
    launches: &dyn Fn() -> u64,
) -> Result<Timed, Error> {
    match model {
        Known::Resnet50 | Known::Resnet152 => {
            let depth = if model == Known::Resnet50 { Depth::L50 } else { Depth::L152 };
            let network = ResNet::new(&ResNetSizes { depth, width: 64, classes: CLASSES }, device);
            let images = Tensor::<4>::random([batch, 3, side, side], Distribution::Uniform(-1.0, 1.0), device);
            rounds(&|| network.forward(images.clone()).slice([0..1, 0..16]).flatten(0, 1), launches)
        }
        Known::BertBase | Known::BertLarge => {
            let sizes = if model == Known::BertBase { BertSizes::BASE } else { BertSizes::LARGE };
            let encoder = Bert::new(&sizes, device);
            let shape = [batch, CONTEXT];
            let words: Vec<i32> = (0..batch * CONTEXT).map(|i| (i * 7919 % sizes.vocabulary) as i32).collect();
            let words = Tensor::<2, Int>::from_data(TensorData::new(words, shape), device);
            let segments = words.zeros_like();
            let padding = Tensor::<2, Bool>::from_data(TensorData::new(vec![false; batch * CONTEXT], shape), device);
            let forward = || {
                let encoded = encoder.encode(words.clone(), segments.clone(), padding.clone());
                encoded.slice([0..1, 0..1, 0..16]).flatten(0, 2)
            };
            rounds(&forward, launches)
        }
    }
}

fn rounds(forward: &dyn Fn() -> Tensor<1>, launches: &dyn Fn() -> u64) -> Result<Timed, Error> {
    let mut timed = Timed { wall: Duration::ZERO, launches: 0, is_finite: true };
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..WARM_UP + ROUNDS {
        let (before, start) = (launches(), Instant::now());
        let results: Vec<Tensor<1>> = (0..FORWARDS).map(|_| forward()).collect();
        let all = Tensor::cat(results, 0).cast(DType::F32).try_into_data();
        let wall = start.elapsed() / FORWARDS as u32;
        let values = all.map_err(|error| Error::Read { step: round, reason: error.to_string() })?;
        timed.is_finite = values.iter::<f32>().all(f32::is_finite);
        timed.launches = (launches() - before) / FORWARDS as u64;
        if round >= WARM_UP {
            times.push(wall);
        }
    }
    times.sort();
    timed.wall = times[times.len() / 2];
    Ok(timed)
}
