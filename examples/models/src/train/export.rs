//! Weights, batches and recipe of a training in files, for a training elsewhere of the same: `train_torch.py` reads them.

use std::path::Path;

use burn::store::{BurnToPyTorchAdapter, ModuleSnapshot, SafetensorsStore};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde::Serialize;

use super::Recipe;
use crate::Error;

/// What a training is, besides its weights and batches.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// `gpt` or `resnet50`.
    pub model: String,
    /// The sizes of the model, by name.
    pub sizes: Vec<(String, usize)>,
    /// Inputs of a batch.
    pub batch: usize,
    /// Steps.
    pub steps: usize,
    /// Words or images of a step.
    pub items: usize,
    /// Operations of a step, by the formula of the model.
    pub operations: f64,
    /// How it is trained.
    pub recipe: Recipe,
}

/// A batch's tensor: name, element type, shape, bytes.
pub struct Exported<'a> {
    /// Its name.
    pub name: &'static str,
    /// What its elements are.
    pub dtype: Dtype,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its elements, little-endian.
    pub bytes: &'a [u8],
}

/// Writes `weights.safetensors` with PyTorch's names and layouts, `batches.safetensors` and `run.json`; the folder is made.
///
/// # Errors
/// [`Error::File`].
pub fn export<M: ModuleSnapshot>(
    folder: &Path,
    model: &M,
    batches: &[Exported<'_>],
    description: &Description,
) -> Result<(), Error> {
    let failed = |name: &str, reason: &dyn std::fmt::Display| Error::File {
        action: "write",
        path: folder.join(name),
        reason: reason.to_string(),
    };
    std::fs::create_dir_all(folder).map_err(|error| failed("", &error))?;
    let mut store = SafetensorsStore::from_file(folder.join("weights.safetensors"))
        .overwrite(true)
        .with_to_adapter(BurnToPyTorchAdapter);
    model.save_into(&mut store).map_err(|error| failed("weights.safetensors", &error))?;
    let mut views = Vec::with_capacity(batches.len());
    for tensor in batches {
        let view = TensorView::new(tensor.dtype, tensor.shape.clone(), tensor.bytes);
        views.push((tensor.name, view.map_err(|error| failed("batches.safetensors", &error))?));
    }
    let name = "batches.safetensors";
    safetensors::serialize_to_file(views, None, &folder.join(name)).map_err(|error| failed(name, &error))?;
    let text = serde_json::to_string_pretty(description).map_err(|error| failed("run.json", &error))?;
    std::fs::write(folder.join("run.json"), text).map_err(|error| failed("run.json", &error))
}
