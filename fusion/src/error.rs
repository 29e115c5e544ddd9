//! What can go wrong between a graph and its launch.

use rocfire_hal::DType;

/// Errors of this crate. All but [`Error::Hal`] are mistakes of the caller.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph breaks a rule of the IR.
    #[error("graph is not valid: %{value}: {reason}")]
    Invalid {
        /// The node that breaks it, or the number of nodes if it is the graph as a whole.
        value: usize,
        /// The rule, and what was found.
        reason: String,
    },
    /// The text form could not be read.
    #[error("line {line}: {reason}")]
    Parse {
        /// One-based.
        line: usize,
        /// What was expected there.
        reason: String,
    },
    /// The launch was given another number of tensors or scalars than the graph declares.
    #[error("{graph}: expects {expected} {what}, got {got}")]
    Arity {
        /// Name of the graph.
        graph: &'static str,
        /// "inputs", "scalars" or "outputs".
        what: &'static str,
        /// As declared.
        expected: usize,
        /// As given.
        got: usize,
    },
    /// A tensor's shape does not fit the iteration space.
    #[error("{graph}: {what} {slot} of shape {got:?} does not fit the iteration space {space:?}")]
    Shape {
        /// Name of the graph.
        graph: &'static str,
        /// "input" or "output".
        what: &'static str,
        /// Position among its like.
        slot: usize,
        /// The tensor's shape.
        got: Vec<usize>,
        /// The iteration space.
        space: Vec<usize>,
    },
    /// A tensor's dtype is not the declared one.
    #[error("{graph}: {what} {slot} must be {expected:?}, got {got:?}")]
    DType {
        /// Name of the graph.
        graph: &'static str,
        /// "input" or "output".
        what: &'static str,
        /// Position among its like.
        slot: usize,
        /// As declared.
        expected: DType,
        /// As given.
        got: DType,
    },
    /// Two elements of an output would lie at one address, so that its content would depend on the schedule.
    #[error("{graph}: output {slot} has overlapping elements (stride 0 on an axis longer than 1)")]
    Overlap {
        /// Name of the graph.
        graph: &'static str,
        /// Position among the outputs.
        slot: usize,
    },
    /// An output lies in the memory of an input that has another layout.
    #[error("{graph}: output {output} overlaps input {input}, which has another layout")]
    Alias {
        /// Name of the graph.
        graph: &'static str,
        /// Position among the inputs.
        input: usize,
        /// Position among the outputs.
        output: usize,
    },
    /// An operator has no meaning for a dtype; told by the eager functions before a graph is built.
    #[error("{op} has no meaning for {dtype:?}")]
    Operand {
        /// The operator's spelling.
        op: &'static str,
        /// The dtype it was given.
        dtype: DType,
    },
    /// More tensors and scalars than a kernel's argument block holds.
    #[error("{graph}: its arguments take {bytes} bytes, a kernel takes at most {most}")]
    Arguments {
        /// Name of the graph.
        graph: &'static str,
        /// What they would take.
        bytes: usize,
        /// What there is.
        most: usize,
    },
    /// Memory, compilation or launch failed.
    #[error(transparent)]
    Hal(#[from] rocfire_hal::Error),
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
