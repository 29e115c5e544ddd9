//! What a launcher can return.

/// An error of the layer below: arguments, memory, compilation and launch, or of a copy made by fusion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A wrong argument ([`rocfire_hal::Error::Shape`], `Unsupported`, `DeviceMismatch`), memory, compilation or launch.
    #[error(transparent)]
    Hal(#[from] rocfire_hal::Error),
    /// A copy or cast that the operator needed.
    #[error(transparent)]
    Fusion(rocfire_fusion::Error),
    /// A tuning table or a record of shapes that cannot be used, or a measurement that went wrong.
    #[error("tuning: {path}, line {line}: {what}")]
    Tuning {
        /// The file.
        path: String,
        /// The line, 0 for all of it.
        line: u64,
        /// What is wrong.
        what: String,
    },
}

impl From<rocfire_fusion::Error> for Error {
    fn from(error: rocfire_fusion::Error) -> Error {
        match error {
            rocfire_fusion::Error::Hal(error) => Error::Hal(error),
            other => Error::Fusion(other),
        }
    }
}

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;
