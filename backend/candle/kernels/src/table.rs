//! The table `names.txt`: for each name of Candle's, the module and the family that makes the kernel.

use std::collections::HashMap;
use std::sync::OnceLock;

use cudarc::rocfire::Node;

use crate::program::Program;
use crate::{ALL_IDS, Id, family};

/// What makes a kernel. The kernels of a family differ in little: element types, one operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Affine,
    Copy,
    Unary,
    UnaryParameter,
    Binary,
    Compare,
    Cast,
    Where,
    ConstSet,
    Copy2d,
    IndexSelect,
    Gather,
    IndexAdd,
    Scatter,
    ScatterAdd,
    Reduce,
    Argument,
    SumSmall,
    Softmax,
    RmsNorm,
    LayerNorm,
    Rope,
    Sort,
    Im2col,
    Im2col1d,
    Col2im1d,
    ConvTranspose,
    Pool2d,
    Nearest,
    Bilinear,
    Quantise,
    Dequantise,
    GetRows,
    MatVecF32,
    MatVec,
    MatMul,
    Moe,
    Unreachable,
}

const FAMILIES: [(&str, Family); 38] = [
    ("affine", Family::Affine),
    ("copy", Family::Copy),
    ("unary", Family::Unary),
    ("unary_parameter", Family::UnaryParameter),
    ("binary", Family::Binary),
    ("compare", Family::Compare),
    ("cast", Family::Cast),
    ("where", Family::Where),
    ("const_set", Family::ConstSet),
    ("copy2d", Family::Copy2d),
    ("index_select", Family::IndexSelect),
    ("gather", Family::Gather),
    ("index_add", Family::IndexAdd),
    ("scatter", Family::Scatter),
    ("scatter_add", Family::ScatterAdd),
    ("reduce", Family::Reduce),
    ("argument", Family::Argument),
    ("sum_small", Family::SumSmall),
    ("softmax", Family::Softmax),
    ("rms_norm", Family::RmsNorm),
    ("layer_norm", Family::LayerNorm),
    ("rope", Family::Rope),
    ("sort", Family::Sort),
    ("im2col", Family::Im2col),
    ("im2col1d", Family::Im2col1d),
    ("col2im1d", Family::Col2im1d),
    ("conv_transpose", Family::ConvTranspose),
    ("pool2d", Family::Pool2d),
    ("nearest", Family::Nearest),
    ("bilinear", Family::Bilinear),
    ("quantise", Family::Quantise),
    ("dequantise", Family::Dequantise),
    ("get_rows", Family::GetRows),
    ("mat_vec_f32", Family::MatVecF32),
    ("mat_vec", Family::MatVec),
    ("mat_mul", Family::MatMul),
    ("moe", Family::Moe),
    ("unreachable", Family::Unreachable),
];

/// Words of the table that stand for several others.
const CLASSES: [(&str, &[&str]); 8] = [
    ("FLOATS", &["bf16", "f16", "f32", "f64"]),
    ("DT6", &["bf16", "f16", "f32", "f64", "u8", "u32"]),
    ("DT7", &["bf16", "f16", "f32", "f64", "u8", "u32", "i64"]),
    ("INTS", &["i16", "i32"]),
    ("IDS", &["u8", "u32", "i64"]),
    ("LEGACY", &["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"]),
    ("KQUANTS", &["q2_K", "q3_K", "q4_K", "q5_K", "q6_K"]),
    ("kquants", &["q2_k", "q3_k", "q4_k", "q5_k", "q6_k"]),
];

/// A kernel's name and what it is made from.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) module: Id,
    pub(crate) family: Family,
    pub(crate) name: String,
    /// The words that were chosen in the name's braces, in order.
    pub(crate) words: Vec<&'static str>,
    /// Whether Candle's own package lacks it.
    pub(crate) beyond: bool,
    /// Its number in the order of the file.
    pub(crate) number: usize,
    /// The graph that the kernel is, and the same without weights, which only norms use. Each is made when first wanted.
    programs: [OnceLock<Option<Program>>; 2],
}

impl Entry {
    fn new(module: Id, family: Family, name: String, words: Vec<&'static str>, beyond: bool) -> Entry {
        Entry { module, family, name, words, beyond, number: 0, programs: Default::default() }
    }

    /// The graph that the kernel is, with weights; `None` for a kernel that is no graph.
    pub(crate) fn usual(&'static self) -> Option<&'static Program> {
        self.made(false)
    }

    /// The graph that the kernel is for a launch's arguments: that of a norm without weights where it is given none.
    pub(crate) fn program(&'static self, node: &Node) -> Option<&'static Program> {
        self.made(matches!(self.family, Family::RmsNorm | Family::LayerNorm) && node.word(2) == 0)
    }

    fn made(&'static self, is_bare: bool) -> Option<&'static Program> {
        self.programs[usize::from(is_bare)].get_or_init(|| family::program(self, is_bare)).as_ref()
    }
}

/// The entry of a kernel's name; `None` if Candle has no such kernel.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static Entry>> = OnceLock::new();
    BY_NAME.get_or_init(|| all().map(|entry| (entry.name.as_str(), entry)).collect()).get(name).copied()
}

/// The entry of the kernel of a launch; `None` for a launch that is none of Candle's by name.
pub(crate) fn of(node: &Node) -> Option<&'static Entry> {
    entries().get(node.number()?)
}

/// Every entry, in the order of the file.
pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    entries().iter()
}

fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let lines = include_str!("names.txt").lines();
        let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).flat_map(read);
        entries.enumerate().map(|(number, entry)| Entry { number, ..entry }).collect()
    })
}

/// A module's name in the file.
pub(crate) fn module_name(id: Id) -> &'static str {
    match id {
        Id::Affine => "affine",
        Id::Binary => "binary",
        Id::Cast => "cast",
        Id::Conv => "conv",
        Id::Fill => "fill",
        Id::Indexing => "indexing",
        Id::Quantized => "quantized",
        Id::Reduce => "reduce",
        Id::Sort => "sort",
        Id::Ternary => "ternary",
        Id::Unary => "unary",
    }
}

/// The entries of a line. Its columns are the module, behind a plus sign if Candle's own package lacks the kernels, the family, and
/// a name with words to choose from in braces.
fn read(line: &'static str) -> Vec<Entry> {
    let mut columns = line.split_whitespace();
    let mut next = || columns.next().expect("a line of names.txt has three columns");
    let (module, family, pattern) = (next(), next(), next());
    let (module, beyond) = module.strip_prefix('+').map_or((module, false), |module| (module, true));
    let module = ALL_IDS.into_iter().find(|&id| module_name(id) == module).expect("names.txt names Candle's modules");
    let family = FAMILIES.iter().find(|row| row.0 == family).expect("names.txt names families").1;
    let mut entries = vec![Entry::new(module, family, String::new(), Vec::new(), beyond)];
    for (number, part) in pattern.split(['{', '}']).enumerate() {
        if number % 2 == 0 {
            entries.iter_mut().for_each(|entry| entry.name.push_str(part));
            continue;
        }
        let words: Vec<&'static str> = part.split(',').flat_map(class).collect();
        let chosen = |entry: &Entry, word: &'static str| {
            let name = format!("{}{word}", entry.name);
            let words = entry.words.iter().copied().chain([word]).collect();
            Entry::new(module, family, name, words, beyond)
        };
        entries = entries.iter().flat_map(|entry| words.iter().map(move |&word| chosen(entry, word))).collect();
    }
    entries
}

/// The words that a word stands for; itself if it is not in `CLASSES`.
fn class(word: &'static str) -> Vec<&'static str> {
    match CLASSES.iter().find(|row| row.0 == word) {
        Some((_, words)) => words.to_vec(),
        None => vec![word],
    }
}
