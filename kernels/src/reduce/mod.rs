//! Reductions that fusion does not have: the place of an extremum.
//!
//! Sums, means, extrema and the rest over the last axis are rows of `rocfire-fusion`.

mod arg_reduce;

pub(crate) use arg_reduce::sources;
pub use arg_reduce::{arg_max, arg_min};
