//! A character-level transformer, trained and sampled on the ROCm device.
//!
//! The model ([`CharTransformer`]) is ordinary Burn: its modules, `Autodiff`, AdamW. Only [`run`] and [`go_on`] name
//! [`RocmDevice`], in one line each. `cargo demo` calls them; the tests of the workspace train the same model for a few
//! steps.

#![deny(missing_docs)]

mod error;
mod generate;
mod model;
mod plot;
mod progress;
mod text;
mod train;
mod weights;

/// The README's Rust blocks, compiled with the documentation's tests; here, because they need Burn.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use rocfire_burn::RocmDevice;

pub use error::{Error, Result};
pub use generate::generate;
pub use model::{CharTransformer, Sizes};
pub use text::Corpus;
pub use train::{Trained, train};
pub use weights::{load, save};

/// Characters that a prediction can see.
pub const CONTEXT: usize = 64;
/// Characters of the sample that ends a training.
const SAMPLE_CHARACTERS: usize = 300;

/// What a user may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// The documents to train on; none for the embedded text.
    pub text: Vec<PathBuf>,
    /// Training steps, at least 1.
    pub steps: usize,
    /// Decides initial weights, batches and the sample.
    pub seed: u64,
    /// Whether the loss curve is drawn.
    pub plot: bool,
    /// Where the picture and the weights go.
    pub folder: PathBuf,
}

impl Options {
    /// Steps of a training unless the user says otherwise: what an emulated card does in well under four minutes on
    /// two cores, and enough to leave the bigram model behind.
    pub const STEPS: usize = 360;
}

/// The sizes of the demo's model for a vocabulary.
pub fn sizes(vocabulary: usize) -> Sizes {
    Sizes { vocabulary, context: CONTEXT, width: 96, heads: 4, layers: 2 }
}

/// Trains, writes the loss curve and the weights into the folder, and prints a sample and the two losses.
///
/// # Errors
/// As [`Error`]; bad text or options are found before anything is written.
pub fn run(rocm: RocmDevice, options: &Options) -> Result<()> {
    if options.steps == 0 {
        return Err(Error::Option { option: "--steps", expected: "at least 1", got: "0".to_owned() });
    }
    let corpus = match options.text.as_slice() {
        [] => Corpus::embedded(CONTEXT)?,
        paths => Corpus::read(paths, CONTEXT)?,
    };
    std::fs::create_dir_all(&options.folder).map_err(|source| Error::Io {
        action: "create",
        path: options.folder.clone(),
        source,
    })?;
    let sizes = sizes(corpus.vocabulary.len());
    eprintln!(
        "text: {} characters to train on, {} held out, {} distinct",
        corpus.train.len(),
        corpus.validation.len(),
        corpus.vocabulary.len()
    );
    let opened = rocm.open().map_err(|error| Error::Device(error.to_string()))?;
    let device: Device = rocm.burn().into();
    let trained = train(&corpus, &sizes, options.steps, options.seed, &device, &|| opened.launches())?;
    let weights = options.folder.join("char_transformer.safetensors");
    save(&trained.model, &sizes, &corpus.vocabulary, &weights)?;
    eprintln!("weights: {}", weights.display());
    if options.plot {
        let picture = options.folder.join("loss.png");
        plot::plot(&trained.losses, trained.validation_loss, trained.bigram_loss, &rocm.to_string(), &picture)?;
        eprintln!("loss curve: {}", picture.display());
    }
    let sample = generate(&trained.model, &sizes, &corpus.vocabulary, "", SAMPLE_CHARACTERS, options.seed, &device)?;
    println!("{sample}\n");
    println!("validation loss {:.4}", trained.validation_loss);
    println!("bigram loss {:.4}", trained.bigram_loss);
    Ok(())
}

/// Loads weights and goes on writing after `prompt`; prints the prompt and what follows.
///
/// # Errors
/// As [`load`] and [`generate`].
pub fn go_on(rocm: RocmDevice, weights: &Path, prompt: &str, seed: u64) -> Result<()> {
    let device: Device = rocm.burn().into();
    let (model, sizes, vocabulary) = load(weights, &device)?;
    let written = generate(&model, &sizes, &vocabulary, prompt, SAMPLE_CHARACTERS, seed, &device)?;
    println!("{prompt}{written}");
    Ok(())
}
