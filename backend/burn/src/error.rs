//! What can go wrong between Burn and the device, and the two ways it leaves this crate.
//!
//! Burn's operators return tensors, not results. So what is wrong at the call (a shape, a dtype, no memory) is a panic
//! that carries the message, which `Fused` catches and hands on as the error of the outputs; what goes wrong later, on the
//! device, comes back from the read or the sync that waits for it, as an [`ExecutionError`].

use std::borrow::Cow;

use burn_backend::{DType, ExecutionError};
use rocfire_hal as hal;

/// What went wrong. Below this crate everything is a [`hal::Error`]; the rest is about Burn's own terms.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device, its memory, a compiler, a kernel or an operator's argument.
    #[error(transparent)]
    Device(#[from] hal::Error),
    /// A chain of elementwise operators or a row reduction.
    #[error(transparent)]
    Chain(rocfire_fusion::Error),
    /// A kernel's argument.
    #[error(transparent)]
    Kernel(rocfire_kernels::Error),
    /// An element type that no buffer is stored as.
    #[error("no tensor is stored as {dtype:?}")]
    DType {
        /// Burn's name for it.
        dtype: DType,
    },
    /// An operator got an element type of another kind: a float where there must be an integer.
    #[error("{op}: expected {expected}, got {got:?}")]
    Kind {
        /// The operator.
        op: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What it got.
        got: DType,
    },
    /// A reduction of no elements, which has no answer.
    #[error("{op}: expected at least 1 element to reduce, got 0")]
    Nothing {
        /// The operator.
        op: Cow<'static, str>,
    },
    /// A collective among several devices, of which there are none yet.
    #[error("{op} among {devices} devices is not implemented: only among one")]
    Collective {
        /// The operator.
        op: &'static str,
        /// How many devices were named.
        devices: usize,
    },
    /// The arguments of a custom kernel are not its parameters.
    #[error(
        "{op}: the kernel's parameters are {expected_bytes} bytes, and {inputs} inputs, {outputs} outputs and {scalars} \
         scalars are {got_bytes}"
    )]
    CustomArguments {
        /// The operator.
        op: &'static str,
        /// How many inputs it was called with.
        inputs: usize,
        /// How many outputs it says it has.
        outputs: usize,
        /// How many scalars it was called with.
        scalars: usize,
        /// As the code object says.
        expected_bytes: usize,
        /// As they lie behind each other.
        got_bytes: usize,
    },
    /// A quantisation scheme that is not implemented here.
    #[error("{op}: {scheme} is not supported: {reason}")]
    Scheme {
        /// The operator.
        op: &'static str,
        /// The scheme, as Burn prints it.
        scheme: String,
        /// Which part of it is missing.
        reason: &'static str,
    },
}

impl From<rocfire_fusion::Error> for Error {
    fn from(error: rocfire_fusion::Error) -> Error {
        match error {
            rocfire_fusion::Error::Hal(error) => Error::Device(error),
            other => Error::Chain(other),
        }
    }
}

impl From<rocfire_kernels::Error> for Error {
    fn from(error: rocfire_kernels::Error) -> Error {
        match error {
            rocfire_kernels::Error::Hal(error) => Error::Device(error),
            other => Error::Kernel(other),
        }
    }
}

/// The result of everything here.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The only place where an error becomes a panic.
pub(crate) trait OrPanic<T> {
    /// The value, or a panic with the error's message: the form in which Burn's operators fail.
    fn or_panic(self) -> T;
}

impl<T, E: Into<Error>> OrPanic<T> for std::result::Result<T, E> {
    #[track_caller]
    fn or_panic(self) -> T {
        self.unwrap_or_else(|error| panic!("{}", error.into()))
    }
}

/// A panic as the error that reads report: the form in which the eager operators fail.
pub(crate) fn told(panic: Box<dyn std::any::Any + Send>) -> ExecutionError {
    let message = panic.downcast::<String>().map(|text| *text);
    let message = message.or_else(|panic| panic.downcast::<&'static str>().map(|text| (*text).to_owned()));
    ExecutionError::with_context(message.unwrap_or_else(|_| "an operator panicked".to_owned()))
}

/// The form in which reads and syncs fail. A lost device stays lost; after a fault or without memory it goes on.
pub(crate) fn execution(error: impl Into<Error>) -> ExecutionError {
    let error = error.into();
    match &error {
        Error::Device(hal::Error::DeviceLost { .. }) => ExecutionError::DevicePoisoned { reason: error.to_string() },
        _ => ExecutionError::with_context(error.to_string()),
    }
}
