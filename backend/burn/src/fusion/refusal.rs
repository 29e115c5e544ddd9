//! The reasons why an operation does not join a kernel, with the words that reports print.

use std::fmt;

/// Why an operation does not join the kernel that is being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No fused kernel computes the operation.
    Operation,
    /// An element type that no kernel computes with, or operands of two types.
    DType,
    /// More axes than a tensor can have.
    Rank,
    /// A drop or a read with nothing collected before it.
    Empty,
    /// The shapes of an operand and of the result do not go together axis by axis.
    Unrelated,
    /// The operands run over the iteration space in different orders.
    Transposed,
    /// A computed operand is wanted at other coordinates, and computing it again there does not pay or is not possible.
    Moved,
    /// The operation writes a part of a tensor that nobody else needs. In place that costs less than a kernel that writes all of it.
    InPlace,
    /// The kernel reduces over other axes.
    OtherRow,
    /// The kernel has reduced already, and the operation is wider than its rows.
    Wider,
    /// The epilogue of a product cannot reduce.
    Reduction,
    /// The kernel has a matrix product already.
    SecondProduct,
    /// The kernel must begin with a matrix product, and the operation comes before one.
    NoProduct,
    /// The kernel or the stretch is as long as they may get.
    Full,
    /// Too many operations were added since the kernel could last run.
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
