//! Every kernel source, so that tests can compile all of them for all architectures.
//!
//! A row is an operator, an element type and a source. Which sources an operator is compiled from is said beside its key, in
//! its family's `sources`.

use rocfire_arch::Arch;
use rocfire_hal::{DType, Source};

use crate::attention::Tile;
use crate::{delta, gemm};

/// One kernel source.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The operator: its file's stem.
    pub operator: &'static str,
    /// The element type.
    pub dtype: DType,
    /// What is compiled.
    pub source: Source,
}

/// Every operator with every element type it has, for one architecture.
pub fn registry(arch: Arch) -> Vec<Entry> {
    let of = |dtype| crate::sources(arch, dtype).map(move |(operator, source)| Entry { operator, dtype, source });
    DType::ALL.into_iter().flat_map(of).collect()
}

/// How an operator of the registry computes with an element type on an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Its products are the matrix unit's, in this type.
    Matrix,
    /// On the vector units.
    Vector,
    /// Codes are decoded to this type in registers, and multiplied on the matrix unit where it has it.
    Decoded,
}

/// The way of an operator that [`registry`] has with this type; what it has not, launchers refuse with
/// [`rocfire_hal::Error::Unsupported`] or [`rocfire_hal::Error::Shape`] before any launch.
pub fn way(arch: Arch, operator: &str, dtype: DType) -> Way {
    let info = arch.info();
    let on_unit = match operator {
        "gemm" | "gemm_grouped" | "conv" => gemm::matrix_side(info, dtype) != 0,
        "attention" | "attention_backward" => Tile::choose(info, true, dtype, [64, 64], 512).size != 0,
        // By chunks of longer sequences.
        "delta_rule" => delta::has_products(info, dtype),
        "q_matmul" | "q_matmul_grouped" | "gguf_matmul_grouped" | "gguf_matmul_listed" => return Way::Decoded,
        _ => false,
    };
    if on_unit { Way::Matrix } else { Way::Vector }
}
