//! Why a kernel stops: the reasons, in words that the trace prints.

use std::fmt;

/// Why an operation does not join the kernel that is being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The operation is none that a fused kernel computes.
    Operation,
    /// An element type that no kernel computes with, or operands of two types.
    DType,
    /// More axes than a tensor can have.
    Rank,
    /// A drop or a read with nothing collected before it.
    Empty,
    /// The operation is of another shape than what was collected, and nothing joins them.
    Unrelated,
    /// The operands run over the iteration space in different orders.
    Transposed,
    /// The operand would have to be moved, and to compute it again elsewhere does not pay or cannot be.
    Moved,
    /// The operation writes a part of a tensor that nobody else needs, which costs less than to write all of it.
    InPlace,
    /// The kernel reduces over other axes.
    OtherRow,
    /// The kernel has reduced already, and the operation is wider than its rows.
    Wider,
    /// What ends a product's kernel reduces nothing.
    Reduction,
    /// A kernel ends one matrix product.
    SecondProduct,
    /// Nothing is computed before the matrix product that a kernel ends.
    NoProduct,
    /// The kernel is as long as kernels get.
    Full,
    /// Too many operations since the kernel was last one that could run.
    Stuck,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Operation => "not an operation that fuses",
            Refusal::DType => "an element type that does not fuse",
            Refusal::Rank => "too many axes",
            Refusal::Empty => "nothing to add it to",
            Refusal::Unrelated => "an unrelated shape",
            Refusal::Transposed => "operands in different orders",
            Refusal::Moved => "a computed value would have to be moved",
            Refusal::InPlace => "a part of a tensor is written where it lies",
            Refusal::OtherRow => "a reduction over other axes",
            Refusal::Wider => "wider than the rows that were reduced",
            Refusal::Reduction => "a reduction",
            Refusal::SecondProduct => "another matrix product",
            Refusal::NoProduct => "no matrix product comes first",
            Refusal::Full => "the kernel is long enough",
            Refusal::Stuck => "no kernel came of the last operations",
        })
    }
}
