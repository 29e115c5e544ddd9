//! Why bytes are not an instruction.

/// Why bytes are not an instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside an instruction.
    #[error("{have} bytes where an instruction needs {need}")]
    Truncated {
        /// Bytes there were.
        have: usize,
        /// Bytes the encoding takes, as far as it is known.
        need: usize,
    },
    /// No instruction of this architecture is encoded like this.
    #[error("no instruction of {arch} has the encoding {word:#010x}: {reason}")]
    Invalid {
        /// The architecture's name.
        arch: &'static str,
        /// The first word of the encoding.
        word: u32,
        /// The field that has no meaning.
        reason: &'static str,
    },
    /// The bytes are a pair of operations, which only [`decode_dual`](crate::decode_dual) can return.
    #[error("{first} is paired with {second}: a pair is decoded as such")]
    Pair {
        /// The first operation.
        first: &'static str,
        /// The second operation.
        second: &'static str,
    },
    /// There is no decoder for this architecture.
    #[error("there is no instruction decoder for {arch}")]
    Unsupported {
        /// The architecture's name.
        arch: &'static str,
    },
}
