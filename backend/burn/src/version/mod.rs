//! What differs between the versions of Burn that this source is built for: nothing outside this folder asks which one it is.
//!
//! Each file has the same names: the device, a few functions over Burn's options, and the methods that only one version's traits have,
//! as macros that the implementations of these traits call. Burn 0.23 is the feature `next`, which only the package in
//! `backend/burn/next` has.

#[cfg(not(feature = "next"))]
mod v22;
#[cfg(not(feature = "next"))]
pub use v22::BurnDevice;
#[cfg(not(feature = "next"))]
pub(crate) use v22::*;

#[cfg(feature = "next")]
mod v23;
#[cfg(feature = "next")]
pub use v23::BurnDevice;
#[cfg(feature = "next")]
pub(crate) use v23::*;
