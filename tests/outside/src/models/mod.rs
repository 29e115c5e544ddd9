//! The list of models. A row is a model with a type of weights, with or without flash attention.

mod decoders;
mod drawers;
mod encoders;
mod images;
mod quantised;
mod sounds;

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Result, Tensor};

use crate::setup::Setup;

/// What a model's weights are.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Floats, in which everything is computed.
    Floats(DType),
    /// Matrices of a type of GGUF, the rest in f32.
    Gguf(GgmlDType),
}

/// A model.
pub struct Model {
    /// As candle-transformers has it.
    pub name: &'static str,
    /// Which ways of its there are.
    ways: Ways,
    /// Its outputs: of a prompt and of steps, or of what else goes in.
    pub run: fn(&Setup) -> Result<Vec<Tensor>>,
}

/// The ways in which a model runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    /// With floats.
    Plain,
    /// With f32.
    Single,
    /// With floats, and flash attention where that is asked for.
    Flash,
    /// With types of GGUF that have blocks of 32.
    Gguf,
    /// With those of GGUF that have blocks of 256.
    GgufLarge,
}

/// A row.
pub struct Case {
    pub model: &'static Model,
    pub kind: Kind,
    pub flash: bool,
}

impl Case {
    /// What it is called: the model, its weights' type, and `flash`.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Floats(dtype) => dtype.as_str().to_owned(),
            Kind::Gguf(dtype) => format!("{dtype:?}").to_lowercase(),
        };
        format!("{} {kind}{}", self.model.name, if self.flash { " flash" } else { "" })
    }
}

/// All rows.
pub fn cases() -> impl Iterator<Item = Case> {
    const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
    const GGUF: [GgmlDType; 5] = [GgmlDType::Q4_0, GgmlDType::Q4_1, GgmlDType::Q5_0, GgmlDType::Q5_1, GgmlDType::Q8_0];
    const GGUF_LARGE: [GgmlDType; 5] = [GgmlDType::Q2K, GgmlDType::Q3K, GgmlDType::Q4K, GgmlDType::Q5K, GgmlDType::Q6K];
    let lists =
        [decoders::MODELS, encoders::MODELS, images::MODELS, sounds::MODELS, drawers::MODELS, quantised::MODELS];
    lists.into_iter().flatten().flat_map(|model| {
        let case = move |kind, flash| Case { model, kind, flash };
        let floats = FLOATS.into_iter().map(move |dtype| case(Kind::Floats(dtype), false));
        // The kernel of flash attention takes 16-bit floats.
        let flash = FLOATS.into_iter().skip(1).map(move |dtype| case(Kind::Floats(dtype), true));
        let gguf = |list: [GgmlDType; 5]| list.into_iter().map(move |dtype| case(Kind::Gguf(dtype), false));
        let rows: Vec<Case> = match model.ways {
            Ways::Single => floats.take(1).collect(),
            Ways::Plain => floats.collect(),
            Ways::Flash => floats.chain(flash).collect(),
            Ways::Gguf => gguf(GGUF).collect(),
            Ways::GgufLarge => gguf(GGUF_LARGE).collect(),
        };
        rows
    })
}
