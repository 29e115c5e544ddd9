//! Instructions as AMD assembly text, in the spelling and spacing of `llvm-objdump -d`.
//!
//! Mnemonic with encoding suffix, operands in the order of the format, then modifiers. Used by error messages, traces and
//! tests. Labels are not known here: a branch prints its distance in words.

mod immediate;
mod memory;
mod operand;
mod vector;

use crate::table;
use crate::table::row::{E, Row, Slot, Tables};
use crate::{Format, Inst, Operand};
use rocfire_arch::Arch;

/// An instruction with its row, while its text is put together.
struct Line<'a> {
    inst: &'a Inst,
    row: &'a Row,
    operands: Vec<String>,
    modifiers: String,
}

impl Line<'_> {
    /// Adds an operand if there is one.
    fn push(&mut self, operand: Operand, slot: Slot) {
        if operand.is_some() {
            self.operands.push(operand::text(operand, slot));
        }
    }

    /// Adds a modifier behind a space.
    fn modify(&mut self, modifier: &str) {
        self.modifiers.push(' ');
        self.modifiers.push_str(modifier);
    }

    fn finish(self) -> String {
        let mut text = String::from(self.row.op.mnemonic());
        text.push_str(suffix(self.inst, self.row));
        if !self.operands.is_empty() {
            text.push(' ');
            text.push_str(&self.operands.join(", "));
        }
        text.push_str(&self.modifiers);
        text
    }
}

/// The row an instruction came from.
fn row_of(tables: &Tables, inst: &Inst) -> Option<&'static Row> {
    let table = match inst.format {
        Format::Sop1 => tables.sop1,
        Format::Sop2 => tables.sop2,
        Format::Sopk => tables.sopk,
        Format::Sopc => tables.sopc,
        Format::Sopp => tables.sopp,
        Format::Smem => tables.smem,
        Format::Vop1 => tables.vop1,
        Format::Vop2 => tables.vop2,
        Format::Vopc => tables.vopc,
        Format::Vop3 => tables.vop3,
        Format::Vop3p => tables.vop3p,
        Format::Vop3pMai => tables.vop3p_mai,
        Format::Ds => tables.ds,
        Format::Flat => tables.flat,
        Format::Global => tables.global,
        Format::Scratch => tables.scratch,
        Format::Mubuf => tables.mubuf,
    };
    table.find(inst.op)
}

/// The part of the mnemonic that names the encoding.
fn suffix(inst: &Inst, row: &Row) -> &'static str {
    match inst.format {
        _ if inst.mods.sdwa.is_some() => "_sdwa",
        _ if inst.mods.dpp.is_some() => "_dpp",
        Format::Vop1 | Format::Vop2 | Format::Vopc if row.has(E) => "_e32",
        Format::Vop3 if row.has(E) => "_e64",
        _ => "",
    }
}

/// The instruction in AMD assembly syntax, as `llvm-objdump` for `arch` prints it.
///
/// An instruction that `arch` does not have (decoded for another one, or made by hand) is printed as its mnemonic alone.
pub fn disassemble(arch: Arch, inst: &Inst) -> String {
    let Some(row) = table::of(arch).and_then(|tables| row_of(tables, inst)) else {
        return inst.op.mnemonic().to_owned();
    };
    let mut line = Line { inst, row, operands: Vec::new(), modifiers: String::new() };
    match inst.format {
        Format::Sop1 | Format::Sop2 | Format::Sopk | Format::Sopc | Format::Sopp => scalar(&mut line),
        Format::Smem => memory::smem(&mut line),
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 => vector::vector(&mut line),
        Format::Vop3p => vector::packed(&mut line),
        Format::Vop3pMai => vector::matrix(&mut line),
        Format::Ds => memory::ds(&mut line),
        Format::Flat | Format::Global | Format::Scratch => memory::flat(&mut line),
        Format::Mubuf => memory::mubuf(&mut line),
    }
    line.finish()
}

fn scalar(line: &mut Line) {
    let (inst, row) = (line.inst, line.row);
    line.push(inst.dst[0], row.dst);
    for (src, slot) in inst.src.into_iter().zip(row.src) {
        line.push(src, slot);
    }
    // `s_endpgm` without a code has no operand.
    line.operands.retain(|operand| !operand.is_empty());
}
