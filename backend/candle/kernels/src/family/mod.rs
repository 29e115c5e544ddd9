//! What each name of Candle's is made of: a graph, a launcher of `rocfire_kernels`, or a template with macros, arguments and geometry.

pub(crate) mod elementwise;
mod image;
mod indexing;
pub(crate) mod quantized;
mod reduce;
mod sort;
mod window;

use std::sync::OnceLock;

use cudarc::rocfire::{Argument, KernelSpec, Node};
use rocfire_fusion::Graph;
use rocfire_hal::DType;

use crate::program::{Program, operate};
use crate::table::{self, Entry, Family};

/// The graph that an entry's kernel is, without weights for a norm that `is_bare`; `None` for a kernel that is no graph.
pub(crate) fn program(entry: &'static Entry, is_bare: bool) -> Option<Program> {
    let number = 2 * entry.number + usize::from(is_bare);
    match elementwise::graph(entry) {
        Some(graph) => Some(Program::new(graph, false, number)),
        None => Some(Program::new(reduce::graph(entry, is_bare)?, true, number)),
    }
}

/// The kernel of an entry; `None` for kernels that no call of Candle's launches.
pub(crate) fn spec(entry: &'static Entry) -> Option<KernelSpec> {
    let words = Words(&entry.words);
    let name = entry.name.as_str();
    if let Some(program) = entry.usual() {
        let spec = KernelSpec { number: entry.number, ..KernelSpec::by_operators(program.arguments(entry), operate) };
        let bytes = program.operands[program.inputs].dtype.size_bytes();
        return Some(match entry.family {
            Family::Copy2d => spec.with_extent(elementwise::rows(bytes)),
            Family::ConstSet | Family::Rope => spec,
            _ if program.has_rows => spec,
            _ => spec.with_extent(elementwise::dense_result(bytes)),
        });
    }
    let spec = match entry.family {
        Family::IndexSelect => indexing::index_select(),
        Family::Gather => indexing::gather(),
        Family::IndexAdd => indexing::index_add(),
        Family::Scatter | Family::ScatterAdd => indexing::scatter(),
        Family::Im2col => image::im2col::<2>(),
        Family::Im2col1d => image::im2col::<1>(),
        Family::Col2im1d => window::col2im1d(),
        Family::ConvTranspose if words.word(0) == "1" => window::conv_transpose::<1>(),
        Family::ConvTranspose => window::conv_transpose::<2>(),
        Family::Pool2d => window::pool2d(),
        Family::Nearest => image::nearest(),
        Family::Bilinear => image::bilinear(),
        Family::Sort => sort::sort(),
        Family::Quantise => quantized::quantise(),
        Family::Dequantise => quantized::dequantise(words),
        Family::GetRows => quantized::get_rows(words),
        Family::MatVecF32 => quantized::mat_vec_f32(words),
        Family::MatVec => quantized::mat_vec(words),
        Family::MatMul => quantized::mat_mul(),
        Family::Moe => quantized::moe(words),
        // The others are graphs.
        _ => return None,
    };
    Some(KernelSpec { entry: name, number: entry.number, ..spec.define("CANDLE_NAME", name) })
}

/// The words that were chosen from the braces of a name in `names.txt`, in order.
#[derive(Clone, Copy)]
pub(crate) struct Words(pub(crate) &'static [&'static str]);

impl Words {
    /// The words in the name of a launch's kernel.
    fn of(node: &Node) -> Words {
        Words(&table::of(node).expect("kernels of this package are of the table").words)
    }

    /// Whether the name has a word at this index.
    pub(crate) fn has(self, at: usize) -> bool {
        at < self.0.len()
    }

    pub(crate) fn word(self, at: usize) -> &'static str {
        self.0[at]
    }

    pub(crate) fn dtype(self, at: usize) -> DType {
        dtype(self.word(at)).expect("names.txt has element types where families want them")
    }

    /// The type that the last word names, which is that of the result and of most operands.
    fn dtype_of_last(self) -> Option<DType> {
        self.0.last().and_then(|word| dtype(word))
    }
}

/// Candle's element types by their names.
const DTYPES: [(&str, DType); 10] = [
    ("bf16", DType::BF16),
    ("f16", DType::F16),
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("u8", DType::U8),
    ("u32", DType::U32),
    ("i16", DType::I16),
    ("i32", DType::I32),
    ("i64", DType::I64),
    ("f8_e4m3", DType::U8),
];

/// The element type of this name of Candle's.
pub(crate) fn dtype(word: &str) -> Option<DType> {
    DTYPES.iter().find(|row| row.0 == word).map(|row| row.1)
}

/// The unsigned type of the same size. Kernels that only move elements use it, so that four serve all types.
fn bits_of(dtype: DType) -> DType {
    match dtype.size_bytes() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// Graphs by number, each made when it is first launched.
struct Graphs<const COUNT: usize>([OnceLock<Graph>; COUNT]);

impl<const COUNT: usize> Graphs<COUNT> {
    const fn new() -> Self {
        Graphs([const { OnceLock::new() }; COUNT])
    }

    fn get(&self, number: usize, make: impl FnOnce() -> Graph) -> &Graph {
        self.0[number].get_or_init(make)
    }
}

/// An argument that is a number of this type.
pub(crate) fn scalar(dtype: DType) -> Argument {
    Argument::Scalar(u8::try_from(dtype.size_bytes()).expect("numbers have 1 to 8 bytes"))
}

/// An argument that is a `size_t`.
pub(crate) const SIZE: Argument = Argument::Scalar(8);
/// An argument that is an `int` or `uint32_t`.
pub(crate) const INT: Argument = Argument::Scalar(4);

/// A template as file name and text, before its macros: the headers in order, then the file. `gguf`: behind the library's blocks of GGUF.
macro_rules! template {
    (gguf $($header:literal)* => $file:literal) => {
        (
            $file,
            concat!(
                include_str!("../../../../../kernels/src/quant/gguf.h"),
                $(include_str!(concat!("../device/", $header)),)*
                include_str!(concat!("../device/", $file))
            ),
        )
    };
    ($($header:literal)* => $file:literal) => {
        ($file, concat!($(include_str!(concat!("../device/", $header)),)* include_str!(concat!("../device/", $file))))
    };
}
pub(crate) use template;

/// A kernel of a template. [`spec`] adds the entry's name.
fn kernel((file, text): (&'static str, &'static str), arguments: &[Argument]) -> KernelSpec {
    KernelSpec::new(file, text, "", arguments.to_vec())
}
