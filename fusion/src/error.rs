//! The errors of building, checking and launching graphs.

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
        /// What the graph declares.
        expected: usize,
        /// What was given.
        got: usize,
    },
    /// A tensor's shape does not fit the iteration space.
    #[error("{graph}: {what} {slot} of shape {got:?} does not fit the iteration space {space:?}")]
    Shape {
        /// Name of the graph.
        graph: &'static str,
        /// "input" or "output".
        what: &'static str,
        /// Its number among the inputs or outputs.
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
        /// Its number among the inputs or outputs.
        slot: usize,
        /// What the graph declares.
        expected: DType,
        /// What was given.
        got: DType,
    },
    /// Two elements of an output would lie at one address, so that its content would depend on the schedule.
    #[error("{graph}: output {slot} has overlapping elements (stride 0 on an axis longer than 1)")]
    Overlap {
        /// Name of the graph.
        graph: &'static str,
        /// The output's number.
        slot: usize,
    },
    /// An output lies in the memory of an input that has another layout.
    #[error("{graph}: output {output} overlaps input {input}, which has another layout")]
    Alias {
        /// Name of the graph.
        graph: &'static str,
        /// The input's number.
        input: usize,
        /// The output's number.
        output: usize,
    },
    /// An operator has no meaning for a dtype. The eager functions check this before a graph is built.
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
        /// The bytes that they would take.
        bytes: usize,
        /// The most bytes that a kernel takes.
        most: usize,
    },
    /// Memory, compilation or launch failed.
    #[error(transparent)]
    Hal(#[from] rocfire_hal::Error),
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
