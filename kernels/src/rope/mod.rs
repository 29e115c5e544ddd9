//! Rotary position embedding.
//!
//! [`rope`] turns queries and keys, in place or not, from tables or computed; [`rope_table`] makes the tables;
//! [`RopeFrequencies`] are the angles per position, stretched for long contexts. Callers are models in plain Rust; Burn has no
//! name for it.

mod frequencies;
#[allow(clippy::module_inception)] // The family and its operator have one name.
mod rope;

pub use frequencies::{RopeFrequencies, RopeScaling};
pub(crate) use rope::sources;
pub use rope::{RopeAngles, RopeParams, RopePositions, RopeStyle, RopeTensor, rope, rope_table};
