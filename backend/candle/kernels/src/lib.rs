//! `candle-kernels` for `[patch.crates-io]`: the kernels that Candle launches by name, as HIP.
//!
//! Candle asks a module for a kernel by name (`DT7` and the like in `names.txt` stand for element types) and launches it with
//! arguments and a geometry of its own. [`Module::ptx`], which in the package that this one replaces is PTX, is a library
//! here: it finds the name in `names.txt` and answers with a graph of `rocfire_fusion`, which compiles and runs it, with a
//! launcher of `rocfire_kernels`, or, for quantised weights, with a template's text, the macros that make this kernel of it, what
//! its arguments are, and mostly a geometry of ours. A template is compiled when it is first asked for, all else when it is first
//! run.
//!
//! | file | what |
//! | --- | --- |
//! | `names.txt`, `table.rs` | every name, and what is made of it |
//! | `family/` | what is made of each name: a graph, or a template; defines, arguments, geometry |
//! | `program.rs`, `axes.rs` | launches of graphs: over which elements, of which memory |
//! | `device/*.hip` | the templates: GGUF's quantised weights, mixtures of experts; `thin.hip` of products that join |
//! | `merge/` | which launches that wait become one |
//! | [`ffi`] | the launchers that Candle calls as C functions |
//!
//! Semantics are Candle's, numerics rocfire's: 16-bit floats are computed with in f32 and rounded once (`scatter_add` rounds each
//! sum, as Candle does), sums have one order,
//! ids outside their axis give zeros or are passed over, never followed. It does not decide what is launched, keeps no
//! state, and knows nothing of tensors: that is Candle's and `cudarc`'s.

mod axes;
mod batch;
mod experts;
mod family;
pub mod ffi;
mod geometry;
mod merge;
mod product;
mod program;
mod run;
mod table;

use cudarc::rocfire::{KernelLibrary, KernelSpec, Merger};

/// Candle's modules.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it, and are Candle's")]
pub enum Id {
    Affine,
    Binary,
    Cast,
    Conv,
    Fill,
    Indexing,
    Quantized,
    Reduce,
    Sort,
    Ternary,
    Unary,
}

/// All of them.
pub const ALL_IDS: [Id; 11] = [
    Id::Affine,
    Id::Binary,
    Id::Cast,
    Id::Conv,
    Id::Fill,
    Id::Indexing,
    Id::Quantized,
    Id::Reduce,
    Id::Sort,
    Id::Ternary,
    Id::Unary,
];

/// A module: kernels by name.
#[derive(Debug)]
pub struct Module {
    library: Library,
}

impl Module {
    /// Its place in [`ALL_IDS`].
    pub fn index(&self) -> usize {
        self.library.0 as usize
    }

    /// What it is loaded from.
    pub fn ptx(&self) -> &'static dyn KernelLibrary {
        &LIBRARIES[self.index()]
    }

    /// The same kernels, compiled with the others of their family: quicker for whoever wants all of them.
    pub fn batched(&self) -> &'static dyn KernelLibrary {
        &batch::BATCHED[self.index()]
    }
}

/// The kernels of a module.
#[derive(Debug)]
struct Library(Id);

impl KernelLibrary for Library {
    fn kernel(&self, name: &str) -> Option<KernelSpec> {
        let entry = table::find(name).filter(|entry| entry.module == self.0)?;
        family::spec(entry)
    }

    fn name(&self) -> &'static str {
        table::module_name(self.0)
    }

    fn merger(&self) -> Option<&'static dyn Merger> {
        Some(&merge::Candle)
    }
}

static LIBRARIES: [Library; ALL_IDS.len()] = [
    Library(Id::Affine),
    Library(Id::Binary),
    Library(Id::Cast),
    Library(Id::Conv),
    Library(Id::Fill),
    Library(Id::Indexing),
    Library(Id::Quantized),
    Library(Id::Reduce),
    Library(Id::Sort),
    Library(Id::Ternary),
    Library(Id::Unary),
];

macro_rules! modules {
    ($($name:ident $id:ident,)*) => {
        $(
            #[doc = concat!("Candle's module `", stringify!($name), "`.")]
            pub const $name: Module = Module { library: Library(Id::$id) };
        )*
    };
}

modules! {
    AFFINE Affine,
    BINARY Binary,
    CAST Cast,
    CONV Conv,
    FILL Fill,
    INDEXING Indexing,
    QUANTIZED Quantized,
    REDUCE Reduce,
    SORT Sort,
    TERNARY Ternary,
    UNARY Unary,
}

/// The kernels of a module.
pub fn library(id: Id) -> &'static dyn KernelLibrary {
    &LIBRARIES[id as usize]
}

/// Every kernel that Candle launches by name, with its module, in the order of `names.txt`.
pub fn names() -> impl Iterator<Item = (Id, &'static str)> {
    kernels(false)
}

/// Every kernel that Candle asks for and its own package does not have.
pub fn names_beyond() -> impl Iterator<Item = (Id, &'static str)> {
    kernels(true)
}

fn kernels(beyond: bool) -> impl Iterator<Item = (Id, &'static str)> {
    let entries =
        table::all().filter(move |entry| entry.beyond == beyond && entry.family != table::Family::Unreachable);
    entries.map(|entry| (entry.module, entry.name.as_str()))
}
