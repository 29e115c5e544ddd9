//! What each name is made of: template, macros, arguments, geometry.

mod conv;
mod elementwise;
mod indexing;
pub(crate) mod quantized;
mod reduce;
mod sort;

use cudarc::rocfire::{Argument, KernelSpec};

use crate::table::{Entry, Family};

/// The kernel of an entry; `None` for those that Candle cannot reach.
pub(crate) fn spec(entry: &'static Entry) -> Option<KernelSpec> {
    let words = Words(&entry.words);
    let name = entry.name.as_str();
    let spec = match entry.family {
        Family::Affine => elementwise::affine(words),
        Family::Copy => elementwise::copy(words),
        Family::Unary => elementwise::unary(words),
        Family::UnaryParameter => elementwise::unary_parameter(words),
        Family::Binary => elementwise::binary(words),
        Family::Compare => elementwise::compare(words),
        Family::Cast => elementwise::cast(words),
        Family::Where => elementwise::select(words),
        Family::ConstSet => elementwise::const_set(words),
        Family::Copy2d => elementwise::copy2d(words),
        Family::IndexSelect => indexing::index_select(words),
        Family::Gather => indexing::gather(words),
        Family::IndexAdd => indexing::index_add(words),
        Family::Scatter => indexing::scatter(words, false),
        Family::ScatterAdd => indexing::scatter(words, true),
        Family::Reduce => reduce::reduce(words),
        Family::Argument => reduce::argument(words),
        Family::SumSmall => reduce::sum_small(words),
        Family::Softmax => reduce::softmax(words),
        Family::RmsNorm => reduce::rms_norm(words),
        Family::LayerNorm => reduce::layer_norm(words),
        Family::Rope => reduce::rope(words),
        Family::Im2col => conv::im2col(words),
        Family::Im2col1d => conv::im2col1d(words),
        Family::Col2im1d => conv::col2im1d(words),
        Family::ConvTranspose => conv::conv_transpose(words),
        Family::Pool2d => conv::pool2d(words),
        Family::Nearest => conv::nearest(words),
        Family::Bilinear => conv::bilinear(words),
        Family::Sort => sort::sort(words),
        Family::Quantise => quantized::quantise(),
        Family::Dequantise => quantized::dequantise(words),
        Family::GetRows => quantized::get_rows(words),
        Family::MatVecF32 => quantized::mat_vec_f32(words),
        Family::MatVec => quantized::mat_vec(words),
        Family::MatMul => quantized::mat_mul(words),
        Family::Moe => quantized::moe(words),
        Family::Unreachable => return None,
    };
    Some(KernelSpec { entry: name, ..spec.define("CANDLE_NAME", name) })
}

/// The words that were chosen in a name.
#[derive(Clone, Copy)]
pub(crate) struct Words(pub(crate) &'static [&'static str]);

impl Words {
    /// Whether there is such a word.
    pub(crate) fn has(self, at: usize) -> bool {
        at < self.0.len()
    }

    pub(crate) fn word(self, at: usize) -> &'static str {
        self.0[at]
    }

    pub(crate) fn dtype(self, at: usize) -> Dtype {
        let word = self.word(at);
        DTYPES
            .into_iter()
            .find(|dtype| dtype.name == word)
            .expect("names.txt has element types where families want them")
    }
}

/// An element type: Candle's name, what it is in device code.
#[derive(Clone, Copy)]
pub(crate) struct Dtype {
    pub(crate) name: &'static str,
    pub(crate) device: &'static str,
    pub(crate) bytes: usize,
}

const DTYPES: [Dtype; 10] = [
    Dtype { name: "bf16", device: "bf16", bytes: 2 },
    Dtype { name: "f16", device: "f16", bytes: 2 },
    Dtype { name: "f32", device: "float", bytes: 4 },
    Dtype { name: "f64", device: "double", bytes: 8 },
    Dtype { name: "u8", device: "u8", bytes: 1 },
    Dtype { name: "u32", device: "u32", bytes: 4 },
    Dtype { name: "i16", device: "i16", bytes: 2 },
    Dtype { name: "i32", device: "i32", bytes: 4 },
    Dtype { name: "i64", device: "i64", bytes: 8 },
    Dtype { name: "f8_e4m3", device: "u8", bytes: 1 },
];

/// The unsigned type of so many bytes.
pub(crate) fn moved(bytes: usize) -> &'static str {
    match bytes {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        _ => "u64",
    }
}

impl Dtype {
    /// The unsigned type of its size, for kernels that only move elements: four serve all types.
    fn moved(self) -> &'static str {
        moved(self.bytes)
    }

    /// Whether it is a 16-bit float.
    fn is_half(self) -> bool {
        matches!(self.name, "bf16" | "f16")
    }

    /// What it is computed with.
    fn wide(self) -> &'static str {
        if self.is_half() { "float" } else { self.device }
    }

    /// An argument of this type.
    fn scalar(self) -> Argument {
        number(self.bytes)
    }
}

fn number(bytes: usize) -> Argument {
    Argument::Scalar(u8::try_from(bytes).expect("numbers have 1 to 8 bytes"))
}

/// A `size_t` of Candle's.
const SIZE: Argument = Argument::Scalar(8);
/// An `int` or `uint32_t`.
const INT: Argument = Argument::Scalar(4);

/// A template without macros: `file` with what it includes, concatenated in order.
macro_rules! template {
    ($($header:literal)* => $file:literal) => {
        ($file, concat!($(include_str!(concat!("../device/", $header)),)* include_str!(concat!("../device/", $file))))
    };
}
pub(crate) use template;

/// A kernel of a template; the entry's name follows.
fn kernel((file, text): (&'static str, &'static str), arguments: &[Argument]) -> KernelSpec {
    KernelSpec::new(file, text, "", arguments.to_vec())
}
