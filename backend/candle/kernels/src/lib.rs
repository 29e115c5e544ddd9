//! `candle-kernels` for `[patch.crates-io]`: the kernels that Candle launches by name, as HIP.
//!
//! Candle asks a module for a kernel by name (`DT7` and the like in `names.txt` stand for element types) and launches it with
//! arguments and a geometry of its own. In the package that this one replaces, [`Module::ptx`] is PTX. Here it is a library that
//! finds the name in `names.txt` and answers with one of three things: a graph of `rocfire_fusion`; a launcher of `rocfire_kernels`;
//! or, for quantised weights, a template's text with its macros, what its arguments are, and mostly a geometry of ours. A template
//! is compiled when it is first asked for, everything else when it is first run.
//!
//! | file | what |
//! | --- | --- |
//! | `names.txt`, `table.rs` | every name of Candle's, and the family that makes its kernel |
//! | `family/` | how each family makes kernels: as a graph or from a template; defines, arguments, geometry |
//! | `program.rs`, `axes.rs` | launches of graphs: what they run over, and where their tensors lie |
//! | `device/*.hip` | the templates: GGUF's quantised weights, mixtures of experts; `thin.hip` for products of a few rows |
//! | `merge/` | which launches that wait become one |
//! | [`ffi`] | the launchers that Candle calls as C functions |
//!
//! Semantics are Candle's, numerics rocfire's: 16-bit floats are computed with in f32 and rounded once (`scatter_add` rounds each
//! sum, as Candle does), sums have one order, and ids outside their axis give zeros or are passed over, never followed. The package
//! does not decide what is launched, keeps no state, and knows nothing of tensors: these are Candle's and `cudarc`'s.

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

/// All modules, in the order of [`Module::index`].
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
    /// Its index in [`ALL_IDS`].
    pub fn index(&self) -> usize {
        self.library.0 as usize
    }

    /// The library that gives the module's kernels by name. The name `ptx` is that of the package that this one replaces.
    pub fn ptx(&self) -> &'static dyn KernelLibrary {
        &LIBRARIES[self.index()]
    }

    /// The same kernels, each compiled together with the others of its family, which is quicker for whoever wants all of them.
    pub fn batched(&self) -> &'static dyn KernelLibrary {
        &batch::BATCHED[self.index()]
    }
}

/// The kernels of one module, each compiled when it is asked for.
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

/// The library of a module's kernels, as [`Module::ptx`] gives it.
pub fn library(id: Id) -> &'static dyn KernelLibrary {
    &LIBRARIES[id as usize]
}

/// Every kernel that Candle launches by name, with its module, in the order of `names.txt`.
pub fn names() -> impl Iterator<Item = (Id, &'static str)> {
    kernels(false)
}

/// Every kernel that Candle asks for but its own package does not have, with its module.
pub fn names_beyond() -> impl Iterator<Item = (Id, &'static str)> {
    kernels(true)
}

fn kernels(beyond: bool) -> impl Iterator<Item = (Id, &'static str)> {
    let entries =
        table::all().filter(move |entry| entry.beyond == beyond && entry.family != table::Family::Unreachable);
    entries.map(|entry| (entry.module, entry.name.as_str()))
}
