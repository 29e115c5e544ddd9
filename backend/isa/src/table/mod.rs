//! Opcode facts: the only place where opcode numbers are written.
//!
//! A family's tables are a folder named after its first GPU, with a line in [`of`]; [`row`] has the words they are
//! written in, [`op`] the operations of all families together.

mod gfx942;
mod op;
pub(crate) mod row;

pub use op::Op;

use rocfire_arch::Arch;
use row::Tables;

/// The tables of an architecture, if there are any.
pub(crate) fn of(arch: Arch) -> Option<&'static Tables> {
    match arch.info().name {
        "gfx942" => Some(&gfx942::TABLES),
        _ => None,
    }
}
