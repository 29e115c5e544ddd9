//! Training at the size at which people train, on any device: a step that computes in 16 bits beside weights in f32, adds up the
//! gradients of parts of a batch and clips them; its time, launches and memory; files from which PyTorch does the same.
//!
//! - `mixed`: the copy that computes, and gradients in f32.
//! - `trainer`: a step.
//! - `task`: a model with its loss and batches.
//! - `session`: steps, timed and checked; the figures.
//! - `export`: weights, batches and recipe in files.
//! - `curves`: losses as a picture.

mod curves;
mod export;
mod mixed;
mod session;
mod task;
mod trainer;

pub use curves::draw;
pub use export::{Description, Exported, export};
pub use mixed::Precision;
pub use session::{Counters, Report, Schedule, Stretch, Trained, product_rate, train};
pub use task::{Batches, ImageTask, Task, WordTask, images, words};
pub use trainer::{Recipe, Rule, Stepped, Trainer};
