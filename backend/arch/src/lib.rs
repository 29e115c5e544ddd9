//! The one table of GPUs.
//!
//! Everything rocfire knows about an architecture is a field of [`ArchInfo`]: code asks it, kernels see it as `ARCH_*`
//! macros ([`ArchInfo::defines`]). An architecture is added by a row in `table.rs` and nowhere else. Rows are only
//! ever appended, because Burn's device ids carry a row's index. Used by every other crate; knows nothing of drivers.

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
