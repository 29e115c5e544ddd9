//! The kernels that Candle launches by name, as HIP.
//!
//! This package takes the name `candle-kernels` by a patch, as `backend/candle/cudarc` takes `cudarc`. Candle asks for modules
//! ([`Module`]) and, in them, for kernels by name; ours find a kernel's text and compile it when it is first asked for.

pub mod ffi;

use cudarc::rocfire::{KernelLibrary, KernelSpec};

/// A module's name.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Id {
    /// `x · mul + add`.
    Affine,
    /// Two operands, arithmetic and comparisons.
    Binary,
    /// Conversions of element types.
    Cast,
    /// Convolutions, pools, resizing.
    Conv,
    /// Fills and copies of rows.
    Fill,
    /// Gathers and scatters.
    Indexing,
    /// Weights of few bits.
    Quantized,
    /// Reductions, norms, softmax, rotary embedding.
    Reduce,
    /// Sorting.
    Sort,
    /// Selections by a mask.
    Ternary,
    /// One operand.
    Unary,
}

/// The modules in the order of their indices.
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
    id: Id,
}

impl Module {
    /// Its index in [`ALL_IDS`].
    pub const fn index(&self) -> usize {
        self.id as usize
    }

    /// What cudarc loads.
    pub fn ptx(&self) -> &'static dyn KernelLibrary {
        &LIBRARIES[self.index()]
    }
}

/// `x · mul + add`.
pub const AFFINE: Module = Module { id: Id::Affine };
/// Two operands, arithmetic and comparisons.
pub const BINARY: Module = Module { id: Id::Binary };
/// Conversions of element types.
pub const CAST: Module = Module { id: Id::Cast };
/// Convolutions, pools, resizing.
pub const CONV: Module = Module { id: Id::Conv };
/// Fills and copies of rows.
pub const FILL: Module = Module { id: Id::Fill };
/// Gathers and scatters.
pub const INDEXING: Module = Module { id: Id::Indexing };
/// Weights of few bits.
pub const QUANTIZED: Module = Module { id: Id::Quantized };
/// Reductions, norms, softmax, rotary embedding.
pub const REDUCE: Module = Module { id: Id::Reduce };
/// Sorting.
pub const SORT: Module = Module { id: Id::Sort };
/// Selections by a mask.
pub const TERNARY: Module = Module { id: Id::Ternary };
/// One operand.
pub const UNARY: Module = Module { id: Id::Unary };

static LIBRARIES: [Library; ALL_IDS.len()] = {
    let mut libraries = [const { Library(Id::Affine) }; ALL_IDS.len()];
    let mut index = 0;
    while index < ALL_IDS.len() {
        libraries[index] = Library(ALL_IDS[index]);
        index += 1;
    }
    libraries
};

/// The kernels of a module.
#[derive(Clone, Copy)]
struct Library(Id);

impl KernelLibrary for Library {
    fn kernel(&self, _name: &str) -> Option<KernelSpec> {
        None
    }

    fn name(&self) -> &'static str {
        match self.0 {
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
}
