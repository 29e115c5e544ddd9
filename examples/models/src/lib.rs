//! Well-known models of Burn's own modules, and their training on any device. Nothing here knows of rocfire but the program and
//! the tests, and [`Fused`], which puts modules of `rocfire-burn-nn` in the place of Burn's.
//!
//! [`ResNet`] is the image classifier of arXiv:1512.03385, [`Bert`] a post-norm encoder with a head for masked words in the
//! shape of arXiv:1810.04805, [`Gpt`] a decoder of GPT-2's shape. Weights and data are random: the models are for comparing devices
//! and for measuring. [`resnet_losses`] and [`bert_losses`] train from weights that follow from the seed alone, so that two devices
//! can be held against each other; [`time`] times inference of the published sizes. [`mod@train`] trains in mixed precision at the
//! size at which people train, beside PyTorch.

mod bert;
mod error;
mod gpt;
mod resnet;
mod timing;
pub mod train;
mod training;

pub use bert::{Bert, BertSizes};
pub use error::Error;
pub use gpt::{Fused, Gpt, GptSizes};
pub use resnet::{Depth, ResNet, ResNetSizes};
pub use timing::{Known, Timed, time};
pub use training::{
    BertRun, ResNetRun, bert_losses, largest_relative_difference, resnet_logits, resnet_losses, started,
};
