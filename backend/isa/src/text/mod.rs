//! Instructions as AMD assembly text, in the spelling and spacing of `llvm-objdump -d`.
//!
//! Mnemonic with encoding suffix, operands in the order of the format, then modifiers. Used by error messages, traces and
//! tests. Labels are not known here: a branch prints its distance in words.

mod immediate;
mod memory;
mod operand;
mod vector;

use crate::table;
use crate::table::row::{CIN, E, Row, Slot, Tables};
use crate::{Decoded, Format, Inst, Operand};
use rocfire_arch::Arch;

/// An instruction with its row, while its text is put together.
struct InstText<'a> {
    tables: &'static Tables,
    inst: &'a Inst,
    row: &'a Row,
    operands: Vec<String>,
    modifiers: String,
}

impl InstText<'_> {
    /// Adds an operand if there is one.
    fn push(&mut self, operand: Operand, slot: Slot) {
        if operand.is_some() {
            self.operands.push(operand::text(operand, slot, self.tables));
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
        Format::Vop3pMai if inst.mods.scale.is_some() => tables.vop3p_scaled,
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
        Format::Vop3 | Format::Vop3p if inst.mods.dpp.is_some() || inst.mods.dpp8.is_some() => "_e64_dpp",
        Format::Vopc if inst.mods.dpp.is_some() || inst.mods.dpp8.is_some() => "",
        _ if inst.mods.dpp.is_some() || inst.mods.dpp8.is_some() => "_dpp",
        Format::Vop1 | Format::Vop2 | Format::Vopc if row.has(E) => "_e32",
        Format::Vop3 if row.has(E) => "_e64",
        _ => "",
    }
}

/// What stands at an address, in AMD assembly syntax, as `llvm-objdump` for `arch` prints it.
///
/// An instruction that `arch` does not have (decoded for another one, or made by hand) is printed as its mnemonic alone.
pub fn disassemble_dual(arch: Arch, decoded: &Decoded) -> String {
    match (&decoded.second, table::of(arch)) {
        (None, _) => disassemble(arch, &decoded.first),
        (Some(second), Some(tables)) => format!("{} :: {}", half(tables, &decoded.first), half(tables, second)),
        (Some(second), None) => format!("{} :: {}", decoded.first.op.mnemonic(), second.op.mnemonic()),
    }
}

/// One operation of a pair. What it implies is not written.
fn half(tables: &'static Tables, inst: &Inst) -> String {
    let name = inst.op.mnemonic();
    let Some(row) = tables.vopd.find(inst.op) else { return name.to_owned() };
    let mut line = InstText { tables, inst, row, operands: Vec::new(), modifiers: String::new() };
    line.push(inst.dst[0], row.dst);
    let written = if row.has(CIN) { 2 } else { 3 };
    for (src, slot) in inst.src.into_iter().zip(row.src).take(written) {
        line.push(src, slot);
    }
    format!("v_dual_{} {}", name.trim_start_matches("v_"), line.operands.join(", "))
}

/// The instruction in AMD assembly syntax, as `llvm-objdump` for `arch` prints it.
///
/// An instruction that `arch` does not have (decoded for another one, or made by hand) is printed as its mnemonic alone.
pub fn disassemble(arch: Arch, inst: &Inst) -> String {
    let name = || inst.op.mnemonic().to_owned();
    let Some(tables) = table::of(arch) else { return name() };
    let Some(row) = row_of(tables, inst) else { return name() };
    let mut line = InstText { tables, inst, row, operands: Vec::new(), modifiers: String::new() };
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

fn scalar(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    line.push(inst.dst[0], row.dst);
    for (src, slot) in inst.src.into_iter().zip(row.src) {
        line.push(src, slot);
    }
    // `s_endpgm` without a code has no operand.
    line.operands.retain(|operand| !operand.is_empty());
}
