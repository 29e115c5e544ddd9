#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! [`Arch`] is an architecture, [`Arch::parse`] and [`Arch::all`] find them; [`Target`] keeps the features of a name.
//! Everything known of an architecture is a field of [`ArchInfo`], and kernels see it as `ARCH_*` macros
//! ([`ArchInfo::defines`]); [`Unit`] is how what runs a workgroup is built, for models of cost, [`Card`] a data sheet.
//!
//! An architecture is added by a row in `table.rs` and nowhere else. Rows are only ever appended, because ids of devices carry a
//! row's index. It knows nothing of drivers.

#![forbid(unsafe_code)]

mod error;
mod info;
mod table;
mod target;
mod unit;

pub use error::Error;
pub use info::{ArchInfo, Card, Evidence, Family, Fp8, Matrix, Vendor};
pub use target::{Arch, Feature, Target};
pub use unit::{Accumulation, Unit};

/// The architecture that is emulated when there is no GPU and nobody asked for another.
pub const DEFAULT_EMULATED: &str = "gfx942";
