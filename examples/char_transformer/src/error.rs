//! What can go wrong with what a user hands to the demo.

use std::path::PathBuf;

/// Why the demo stopped. Nothing has been written or overwritten when one of these is returned before training ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// `read`, `write` or `create`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A text is not UTF-8.
    #[error("{path}: not UTF-8 text: byte {offset} starts no character", path = path.display())]
    NotUtf8 {
        /// Which file.
        path: PathBuf,
        /// The first byte that is wrong.
        offset: usize,
    },
    /// The text is too short to train and to validate on.
    #[error("the text has {characters} characters, at least {needed} are needed")]
    TooShort {
        /// What there is.
        characters: usize,
        /// What is needed.
        needed: usize,
    },
    /// The text has more distinct characters than the model is meant for.
    #[error("the text has {found} distinct characters, at most {most} are supported: is it a binary file?")]
    TooManyCharacters {
        /// What there is.
        found: usize,
        /// What is supported.
        most: usize,
    },
    /// The embedded text is not the one that the figures were made with.
    #[error("the embedded text was changed: its hash is {found}, expected {expected}")]
    EmbeddedText {
        /// Hash of what is there.
        found: String,
        /// Hash of what should be there.
        expected: &'static str,
    },
    /// A weights file is not a safetensors file, or not one that the demo wrote.
    #[error("{path}: {reason}", path = path.display())]
    Weights {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The prompt holds a character that the model has never seen.
    #[error("the prompt holds {character:?}, which is not among the {known} characters that the model was trained on")]
    Prompt {
        /// The character.
        character: char,
        /// The size of the vocabulary.
        known: usize,
    },
    /// An option is out of its range.
    #[error("{option} must be {expected}, got {got}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it was.
        got: String,
    },
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(String),
    /// The picture could not be drawn.
    #[error("cannot draw {path}: {reason}", path = path.display())]
    Plot {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The demo's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
