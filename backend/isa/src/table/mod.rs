//! Opcode facts: the only place where opcode numbers are written.
//!
//! A family's tables are a folder named after its first GPU, or a file of that name with what differs from another
//! family; [`of`] says who has which. [`row`] has the words they are written in, [`op`] the operations of all families
//! together, [`names`] the names that immediates stand for.

mod gfx1010;
mod gfx1012;
mod gfx1030;
mod gfx1100;
mod gfx1150;
mod gfx1201;
mod gfx906;
mod gfx908;
mod gfx90a;
mod gfx942;
mod gfx950;
mod names;
mod op;
pub(crate) mod row;

pub use op::Op;

use rocfire_arch::Arch;
use row::Tables;

/// The tables of an architecture, if there are any.
pub(crate) fn of(arch: Arch) -> Option<&'static Tables> {
    Some(match arch.info().name {
        "gfx906" => &gfx906::TABLES,
        "gfx908" => &gfx908::TABLES,
        "gfx90a" => &gfx90a::TABLES,
        "gfx942" => &gfx942::TABLES,
        "gfx950" => &gfx950::TABLES,
        "gfx1010" => &gfx1010::TABLES,
        "gfx1011" | "gfx1012" => &gfx1012::TABLES,
        "gfx1030" | "gfx1031" | "gfx1032" | "gfx1033" | "gfx1034" | "gfx1035" | "gfx1036" => &gfx1030::TABLES,
        "gfx1100" | "gfx1101" | "gfx1102" | "gfx1103" => &gfx1100::TABLES,
        "gfx1150" | "gfx1151" | "gfx1152" | "gfx1153" => &gfx1150::TABLES,
        "gfx1200" | "gfx1201" => &gfx1201::TABLES,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::row::{Row, Table};
    use super::*;

    /// An operation has one opcode in a format, by whose row the disassembler prints it; a second row would be a copy that
    /// nobody changed.
    #[test]
    fn no_operation_has_two_opcodes_in_a_format() {
        for arch in Arch::all() {
            let Some(tables) = of(arch) else { continue };
            for (format, table) in tables.formats() {
                let mut rows: Vec<&Row> = (0..1024).filter_map(|code| Table::get(table, code)).collect();
                rows.sort_by_key(|row| row.op as u16);
                for pair in rows.windows(2) {
                    let (code, other) = (pair[0].code, pair[1].code);
                    assert!(
                        pair[0].op != pair[1].op,
                        "{} {format}: {:?} is {code:#x} and {other:#x}",
                        arch.name(),
                        pair[0].op
                    );
                }
            }
        }
    }
}
