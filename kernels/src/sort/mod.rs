//! Order along an axis.
//!
//! [`sort`] is the one operator: whole lines or the first few of each, values, their places, or both. Callers are the
//! adapters, for sorting and for the largest few, and [`crate::index`], which brings updates of one element together. It
//! reads nothing back and holds no state; ties keep their order, so results are the same on every run.

#[allow(clippy::module_inception)]
mod sort;

pub(crate) use sort::sources;
pub use sort::{Order, sort};
