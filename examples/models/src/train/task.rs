//! What is trained on what: a model, its loss, and batches that follow from a seed.
//!
//! The batches are drawn, not read: what counts is that both sides of a comparison see the same. They are on the device before the
//! first step. Words have structure that a model can learn: common ones are common, and half of them follow from the one before.
//! Images are a pattern of their class under noise.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Fused, Gpt, GptSizes, ResNet};

/// A model with batches.
pub trait Task {
    /// The model.
    type Model: Module;

    /// The mean loss of a part of a batch, `[1]`, f32. Batches are counted from 0 and begin again behind the last.
    fn loss(&self, model: &Self::Model, batch: usize, part: usize) -> Tensor<1>;
    /// What is counted: words or images of a step.
    fn items(&self) -> usize;
}

/// Numbers that batches are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// Distinct batches.
    pub count: usize,
    /// Inputs of each.
    pub batch: usize,
    /// Parts that each is split into.
    pub parts: usize,
    /// Decides what they are.
    pub seed: u64,
}

impl Batches {
    /// Inputs of a part.
    fn part(&self) -> usize {
        self.batch / self.parts.max(1)
    }
}

/// Words of all batches, `[count, batch, context + 1]`: the last of a row is only predicted.
pub fn words(batches: &Batches, context: usize, vocabulary: usize) -> Vec<i32> {
    let mut random = ChaCha8Rng::seed_from_u64(batches.seed);
    let mut words = Vec::with_capacity(batches.count * batches.batch * (context + 1));
    for _ in 0..batches.count * batches.batch {
        let mut last = 0;
        for _ in 0..=context {
            // A word's rank is distributed as in a text: each doubling of it has the same share.
            let drawn = ((vocabulary as f32).powf(random.random::<f32>()) as usize).saturating_sub(1);
            let follows: bool = random.random();
            last = if follows { (last * 7919 + 17) % vocabulary } else { drawn.min(vocabulary - 1) };
            words.push(last as i32);
        }
    }
    words
}

/// Training of [`Gpt`].
pub struct WordTask {
    fused: Fused,
    items: usize,
    /// Of each batch the parts: words, and the word after each.
    batches: Vec<Vec<(Tensor<2, Int>, Tensor<1, Int>)>>,
}

impl WordTask {
    /// With the batches of [`words`] on a device.
    pub fn new(sizes: &GptSizes, batches: &Batches, words: &[i32], fused: Fused, device: &Device) -> WordTask {
        let (rows, context, row) = (batches.part(), sizes.context, sizes.context + 1);
        let part = |words: &[i32]| {
            let of = |from: usize| words.chunks_exact(row).flat_map(move |row| row[from..from + context].to_vec());
            let inputs = TensorData::new(of(0).collect::<Vec<i32>>(), [rows, context]);
            let targets = TensorData::new(of(1).collect::<Vec<i32>>(), [rows * context]);
            (Tensor::from_data(inputs, device), Tensor::from_data(targets, device))
        };
        let split = |words: &[i32]| words.chunks_exact(rows * row).map(part).collect();
        WordTask {
            fused,
            items: batches.batch * sizes.context,
            batches: words.chunks_exact(batches.batch * row).map(split).collect(),
        }
    }
}

impl Task for WordTask {
    type Model = Gpt;

    fn loss(&self, model: &Gpt, batch: usize, part: usize) -> Tensor<1> {
        let (words, targets) = &self.batches[batch % self.batches.len()][part];
        model.loss(words.clone(), targets.clone(), self.fused)
    }

    fn items(&self) -> usize {
        self.items
    }
}

/// Side of a class's pattern, which is stretched over the image.
const PATTERN: usize = 8;
/// Colours of an image.
const COLOURS: usize = 3;
/// The most classes that images are drawn of.
const DRAWN_CLASSES: usize = 64;

/// Images of all batches, `[count, batch, 3, side, side]`, and their classes, `[count, batch]`.
pub fn images(batches: &Batches, side: usize, classes: usize) -> (Vec<u8>, Vec<i32>) {
    let mut random = ChaCha8Rng::seed_from_u64(batches.seed);
    let drawn = classes.min(DRAWN_CLASSES);
    let patterns: Vec<u8> = (0..drawn * COLOURS * PATTERN * PATTERN).map(|_| random.random()).collect();
    let total = batches.count * batches.batch;
    let (mut pixels, mut labels) = (Vec::with_capacity(total * COLOURS * side * side), Vec::with_capacity(total));
    for _ in 0..total {
        let class = random.random_range(0..drawn);
        labels.push(class as i32);
        for colour in 0..COLOURS {
            let pattern = &patterns[(class * COLOURS + colour) * PATTERN * PATTERN..][..PATTERN * PATTERN];
            for at in 0..side * side {
                let (y, x) = (at / side * PATTERN / side, at % side * PATTERN / side);
                pixels.push(pattern[y * PATTERN + x] / 2 + random.random::<u8>() / 2);
            }
        }
    }
    (pixels, labels)
}

/// Training of [`ResNet`].
pub struct ImageTask {
    items: usize,
    /// Of each batch the parts: images from -1 to 1, and their classes.
    batches: Vec<Vec<(Tensor<4>, Tensor<1, Int>)>>,
}

impl ImageTask {
    /// With the batches of [`images`] on a device, in the type of activations.
    pub fn new(
        batches: &Batches,
        side: usize,
        (pixels, labels): (&[u8], &[i32]),
        dtype: DType,
        device: &Device,
    ) -> Self {
        let rows = batches.part();
        let image = COLOURS * side * side;
        let part = |(pixels, labels): (&[u8], &[i32])| {
            let values: Vec<f32> = pixels.iter().map(|&pixel| f32::from(pixel) / 127.5 - 1.0).collect();
            let images = Tensor::<4>::from_data(TensorData::new(values, [rows, COLOURS, side, side]), device);
            let classes = Tensor::from_data(TensorData::new(labels.to_vec(), [rows]), device);
            (images.cast(dtype), classes)
        };
        let parts: Vec<_> = pixels.chunks_exact(rows * image).zip(labels.chunks_exact(rows)).map(part).collect();
        ImageTask { items: batches.batch, batches: parts.chunks(batches.parts.max(1)).map(<[_]>::to_vec).collect() }
    }
}

impl Task for ImageTask {
    type Model = ResNet;

    fn loss(&self, model: &ResNet, batch: usize, part: usize) -> Tensor<1> {
        let (images, classes) = &self.batches[batch % self.batches.len()][part];
        let logits = model.forward(images.clone());
        let loss = CrossEntropyLossConfig::new().init(&logits.device());
        loss.forward(logits.cast(DType::F32), classes.clone())
    }

    fn items(&self) -> usize {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_follow_from_the_seed_and_stay_in_their_range() {
        let batches = Batches { count: 2, batch: 3, parts: 1, seed: 5 };
        let drawn = words(&batches, 31, 50);
        assert_eq!(drawn.len(), 2 * 3 * 32);
        assert!(drawn.iter().all(|word| (0..50).contains(word)));
        assert_eq!(drawn, words(&batches, 31, 50));
        assert_ne!(drawn, words(&Batches { seed: 6, ..batches }, 31, 50));
        let (pixels, labels) = images(&batches, 16, 10);
        assert_eq!((pixels.len(), labels.len()), (2 * 3 * 3 * 16 * 16, 6));
        assert!(labels.iter().all(|label| (0..10).contains(label)));
    }
}
