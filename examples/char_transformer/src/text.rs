//! The text: where it comes from, its characters, what is held out, and the bigram model to beat.

use std::path::PathBuf;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};

/// Jane Austen, *Northanger Abbey* (1803, published 1817), chapters 1 to 11; public domain.
const PROSE: &str = include_str!("../text/northanger_abbey.txt");
/// rocfire's own source, as it once stood: the model learns to write a little Rust and HIP as well.
const CODE: &str = include_str!("../text/rocfire.txt");
/// BLAKE3 of both, so that figures quoted for the demo say what they were made with.
const EMBEDDED_HASH: &str = "949c451661e393c00059cd15911edc438f653209e8afc3b13fb62748c8fd29d3";

/// More distinct characters than any alphabet of Europe, far fewer than a binary file read as text.
const MOST_CHARACTERS: usize = 512;
/// One in this many parts of the text is held out for validation.
const HELD_OUT: usize = 10;

/// A text as tokens, with a part of each document held out.
#[derive(Debug)]
pub struct Corpus {
    /// The characters, sorted; a token is an index into it.
    pub vocabulary: Vec<char>,
    /// What the model is trained on.
    pub train: Vec<u16>,
    /// What it is judged by.
    pub validation: Vec<u16>,
}

impl Corpus {
    /// The embedded text.
    ///
    /// # Errors
    /// [`Error::EmbeddedText`] if somebody changed it.
    pub fn embedded(context: usize) -> Result<Corpus> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(PROSE.as_bytes()).update(CODE.as_bytes());
        let found = hasher.finalize().to_hex();
        if found.as_str() != EMBEDDED_HASH {
            return Err(Error::EmbeddedText { found: found.to_string(), expected: EMBEDDED_HASH });
        }
        Corpus::new(&[PROSE, CODE], context)
    }

    /// The text of the files, one document each.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NotUtf8`] with the offset of the first wrong byte, and as [`Corpus::new`].
    pub fn read(paths: &[PathBuf], context: usize) -> Result<Corpus> {
        let documents = paths
            .iter()
            .map(|path| {
                let bytes =
                    std::fs::read(path).map_err(|source| Error::Io { action: "read", path: path.clone(), source })?;
                String::from_utf8(bytes)
                    .map_err(|error| Error::NotUtf8 { path: path.clone(), offset: error.utf8_error().valid_up_to() })
            })
            .collect::<Result<Vec<_>>>()?;
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        Corpus::new(&documents, context)
    }

    /// Splits each document: its last tenth is held out.
    ///
    /// # Errors
    /// [`Error::TooShort`] unless both parts hold two windows of `context` characters and the one after,
    /// [`Error::TooManyCharacters`].
    pub fn new(documents: &[&str], context: usize) -> Result<Corpus> {
        let mut vocabulary: Vec<char> = documents.iter().flat_map(|document| document.chars()).collect();
        let characters = vocabulary.len();
        vocabulary.sort_unstable();
        vocabulary.dedup();
        if vocabulary.len() > MOST_CHARACTERS {
            return Err(Error::TooManyCharacters { found: vocabulary.len(), most: MOST_CHARACTERS });
        }
        let mut corpus = Corpus { vocabulary, train: Vec::new(), validation: Vec::new() };
        for document in documents {
            let tokens = corpus.encode(document)?;
            let (train, validation) = tokens.split_at(tokens.len() - tokens.len() / HELD_OUT);
            corpus.train.extend_from_slice(train);
            corpus.validation.extend_from_slice(validation);
        }
        if corpus.validation.len() < 2 * (context + 1) || corpus.vocabulary.len() < 2 {
            return Err(Error::TooShort { characters, needed: 2 * (context + 1) * HELD_OUT });
        }
        Ok(corpus)
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// [`Error::Prompt`] for a character that is not in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<u16>> {
        encode(&self.vocabulary, text)
    }

    /// A batch of random windows: `batch · context` inputs and, one further on, as many targets.
    pub fn sample(&self, random: &mut ChaCha8Rng, batch: usize, context: usize) -> (Vec<i32>, Vec<i32>) {
        let last = (self.train.len() - context) as u32;
        let starts: Vec<usize> = (0..batch).map(|_| random.random_range(0..last) as usize).collect();
        windows(&self.train, &starts, context)
    }

    /// `count` windows evenly spread over the held-out text, the same at every call.
    pub fn validation_windows(&self, count: usize, context: usize) -> (Vec<i32>, Vec<i32>) {
        let last = self.validation.len() - context - 1;
        let starts: Vec<usize> =
            (0..count).map(|i| i * last / count.max(2).saturating_sub(1)).map(|s| s.min(last)).collect();
        windows(&self.validation, &starts, context)
    }

    /// Mean negative log-likelihood, nats per character, of a bigram model with add-one smoothing that is fitted on
    /// the training text and asked for the same characters as the transformer.
    pub fn bigram_loss(&self, inputs: &[i32], targets: &[i32]) -> f64 {
        let size = self.vocabulary.len();
        let mut pairs = vec![1_u32; size * size];
        for pair in self.train.windows(2) {
            pairs[usize::from(pair[0]) * size + usize::from(pair[1])] += 1;
        }
        let totals: Vec<f64> = pairs.chunks(size).map(|row| f64::from(row.iter().sum::<u32>())).collect();
        let sum: f64 = inputs
            .iter()
            .zip(targets)
            .map(|(&from, &to)| totals[from as usize].ln() - f64::from(pairs[from as usize * size + to as usize]).ln())
            .sum();
        sum / inputs.len() as f64
    }
}

/// The tokens of `text` in a sorted vocabulary.
///
/// # Errors
/// [`Error::Prompt`] for a character that is not in it.
pub fn encode(vocabulary: &[char], text: &str) -> Result<Vec<u16>> {
    text.chars()
        .map(|character| {
            vocabulary
                .binary_search(&character)
                .map(|token| token as u16)
                .map_err(|_| Error::Prompt { character, known: vocabulary.len() })
        })
        .collect()
}

fn windows(tokens: &[u16], starts: &[usize], context: usize) -> (Vec<i32>, Vec<i32>) {
    let gather = |shift: usize| {
        let window =
            |&start: &usize| tokens[start + shift..start + shift + context].iter().map(|&token| i32::from(token));
        starts.iter().flat_map(window).collect()
    };
    (gather(0), gather(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const CONTEXT: usize = 8;

    fn corpus() -> Corpus {
        Corpus::new(&["the quick brown fox jumps over the lazy dog. ".repeat(20).as_str()], CONTEXT).unwrap()
    }

    #[test]
    fn the_embedded_text_is_the_one_that_was_hashed() {
        let corpus = Corpus::embedded(64).unwrap();
        assert!(corpus.train.len() + corpus.validation.len() > 280_000);
        assert!(corpus.vocabulary.len() < 110);
    }

    #[test]
    fn targets_are_inputs_one_character_on() {
        let corpus = corpus();
        let (inputs, targets) = corpus.sample(&mut ChaCha8Rng::seed_from_u64(1), 3, CONTEXT);
        assert_eq!(inputs.len(), 3 * CONTEXT);
        for (input, target) in inputs.chunks(CONTEXT).zip(targets.chunks(CONTEXT)) {
            assert_eq!(input[1..], target[..CONTEXT - 1]);
        }
    }

    #[test]
    fn validation_windows_reach_both_ends_of_the_held_out_text() {
        let corpus = corpus();
        let (inputs, targets) = corpus.validation_windows(5, CONTEXT);
        assert_eq!(inputs[0], i32::from(corpus.validation[0]));
        assert_eq!(*targets.last().unwrap(), i32::from(*corpus.validation.last().unwrap()));
    }

    #[test]
    fn a_bigram_model_beats_guessing_and_does_not_know_the_future() {
        let corpus = corpus();
        let (inputs, targets) = corpus.validation_windows(5, CONTEXT);
        let loss = corpus.bigram_loss(&inputs, &targets);
        assert!(loss > 0.1 && loss < (corpus.vocabulary.len() as f64).ln(), "{loss}");
    }

    #[test]
    fn texts_that_cannot_serve_are_refused() {
        assert!(matches!(Corpus::new(&[""], CONTEXT), Err(Error::TooShort { characters: 0, .. })));
        assert!(matches!(Corpus::new(&["short"], CONTEXT), Err(Error::TooShort { characters: 5, .. })));
        assert!(matches!(Corpus::new(&["a".repeat(1000).as_str()], CONTEXT), Err(Error::TooShort { .. })));
        let many: String = (0x4e00..0x4e00 + 600).filter_map(char::from_u32).collect();
        assert!(matches!(Corpus::new(&[&many], CONTEXT), Err(Error::TooManyCharacters { found: 600, .. })));
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latin1.txt");
        std::fs::write(&path, b"caf\xe9").unwrap();
        assert!(matches!(Corpus::read(std::slice::from_ref(&path), CONTEXT), Err(Error::NotUtf8 { offset: 3, .. })));
        let missing = folder.path().join("missing.txt");
        let error = Corpus::read(&[missing], CONTEXT).unwrap_err().to_string();
        assert!(error.contains("missing.txt"), "{error}");
    }
}
