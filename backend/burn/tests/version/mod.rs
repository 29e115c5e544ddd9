//! What the versions of Burn that the tests are built for call differently: a file a version, of the same names, as in the
//! adapter's `src/version`.

#[cfg(not(feature = "next"))]
mod v22;
#[cfg(not(feature = "next"))]
pub use v22::*;

#[cfg(feature = "next")]
mod v23;
#[cfg(feature = "next")]
pub use v23::*;

/// The windows of an average pool: kernel, stride, padding, for each axis; whether padding counts; rounding up.
pub type Windows<const N: usize> = ([usize; N], [usize; N], [usize; N], bool, bool);
