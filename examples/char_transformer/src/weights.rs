//! The weights as a safetensors file, with what is needed to use them again in its metadata.

use std::collections::HashMap;
use std::path::Path;

use burn::store::{ModuleSnapshot, SafetensorsStore};
use burn::tensor::Device;
use safetensors::SafeTensors;

use crate::error::{Error, Result};
use crate::model::{CharTransformer, Sizes};

/// Metadata keys.
const VOCABULARY: &str = "char_transformer.vocabulary";
const SIZES: &str = "char_transformer.sizes";

/// Writes the weights; the file appears whole or not at all.
///
/// # Errors
/// [`Error::Weights`] with what the store said.
pub fn save(model: &CharTransformer, sizes: &Sizes, vocabulary: &[char], path: &Path) -> Result<()> {
    let sizes = [sizes.vocabulary, sizes.context, sizes.width, sizes.heads, sizes.layers];
    let mut store = SafetensorsStore::from_file(path)
        .overwrite(true)
        .metadata(VOCABULARY, vocabulary.iter().collect::<String>())
        .metadata(SIZES, serde_json::to_string(&sizes).expect("numbers are always JSON"));
    model
        .save_into(&mut store)
        .map_err(|error| Error::Weights { path: path.to_owned(), reason: format!("cannot write: {error}") })
}

/// Reads a model and its vocabulary back.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::Weights`] if it is no safetensors file, was not written by this
/// demo, or holds other tensors than its own metadata promises.
pub fn load(path: &Path, device: &Device) -> Result<(CharTransformer, Sizes, Vec<char>)> {
    let wrong = |reason: String| Error::Weights { path: path.to_owned(), reason };
    let bytes = std::fs::read(path).map_err(|source| Error::Io { action: "read", path: path.to_owned(), source })?;
    let (_, header) =
        SafeTensors::read_metadata(&bytes).map_err(|error| wrong(format!("not a safetensors file: {error}")))?;
    let metadata = header.metadata().clone().unwrap_or_default();
    let vocabulary: Vec<char> = entry(&metadata, VOCABULARY).map_err(wrong)?.chars().collect();
    let sizes: [usize; 5] = serde_json::from_str(entry(&metadata, SIZES).map_err(wrong)?)
        .map_err(|error| wrong(format!("its {SIZES} is damaged: {error}")))?;
    let sizes = Sizes { vocabulary: sizes[0], context: sizes[1], width: sizes[2], heads: sizes[3], layers: sizes[4] };
    plausible(&sizes, &vocabulary).map_err(wrong)?;
    let mut model = CharTransformer::new(&sizes, device);
    let mut store = SafetensorsStore::from_bytes(Some(bytes));
    let applied = model.load_from(&mut store).map_err(|error| wrong(format!("its tensors do not fit: {error}")))?;
    match applied.unused.first() {
        Some(name) => Err(wrong(format!("it holds a tensor {name} that the model does not have"))),
        None => Ok((model, sizes, vocabulary)),
    }
}

fn entry<'a>(metadata: &'a HashMap<String, String>, key: &str) -> Result<&'a String, String> {
    metadata.get(key).ok_or_else(|| format!("it was not written by this demo: its metadata lacks {key}"))
}

/// Whether a model of these sizes can be built at all, before memory is taken for it.
fn plausible(sizes: &Sizes, vocabulary: &[char]) -> Result<(), String> {
    const MOST: usize = 1 << 16;
    let all = [sizes.vocabulary, sizes.context, sizes.width, sizes.heads, sizes.layers];
    let fits = all.iter().all(|size| (1..=MOST).contains(size)) && sizes.width.is_multiple_of(sizes.heads);
    if !fits || vocabulary.len() != sizes.vocabulary || !vocabulary.is_sorted() {
        return Err(format!("its sizes {all:?} do not fit its vocabulary of {} characters", vocabulary.len()));
    }
    Ok(())
}
