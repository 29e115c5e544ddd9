//! VOP3 (both layouts), VOP3P and its matrix half.

use super::operand::VCC;
use super::{Fetch, bare, bit, field};
use crate::table::row::{BLGP, CBSZ, CIN, CLAMP, Class, M0, M1, M2, NEGB, OMOD, OPSEL, Row, SDST, Slot};
use crate::{DecodeError, Format, Inst, Operand, OperandKind};

/// The top seven bits of the opcode field that turn VOP3 into VOP3P.
const PACKED: u32 = 0b111;

/// The three 9-bit source fields of the second word.
fn source_codes(high: u32) -> [u32; 3] {
    [field(high, 0, 9), field(high, 9, 9), field(high, 18, 9)]
}

/// Decodes a word whose top bits are `110100`.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    if field(word, 23, 3) != PACKED {
        return vop3(fetch, word);
    }
    let code = field(word, 16, 7);
    match fetch.tables.vop3p_mai.get(code) {
        Some(row) => matrix(fetch, row, word),
        None => packed(fetch, fetch.row(fetch.tables.vop3p, code)?, word),
    }
}

fn vop3(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row = fetch.row(fetch.tables.vop3, field(word, 16, 10))?;
    let high = fetch.word(1)?;
    let mut inst = bare(row, Format::Vop3, 2);
    inst.dst[0] = fetch.destination(field(word, 0, 8), row.dst)?;
    let codes = source_codes(high);
    for ((src, slot), code) in inst.src.iter_mut().zip(row.src).zip(codes) {
        *src = fetch.source(code, slot, None)?;
    }
    if row.has(CIN) {
        inst.src[3] = VCC;
    }
    let mask = row.source_mask([M0, M1, M2]);
    inst.mods.neg = field(high, 29, 3) as u8 & mask;
    if row.has(SDST) {
        inst.dst[1] = fetch.scalar(field(word, 8, 7), 2)?;
    } else {
        inst.mods.abs = field(word, 8, 3) as u8 & mask;
    }
    if row.has(OPSEL) {
        inst.mods.op_sel = field(word, 11, 4) as u8;
    }
    inst.mods.clamp = row.has(CLAMP) && bit(word, 15);
    if row.has(OMOD) {
        inst.mods.omod = field(high, 27, 2) as u8;
    }
    Ok(inst)
}

fn packed(fetch: &Fetch, row: &'static Row, word: u32) -> Result<Inst, DecodeError> {
    let high = fetch.word(1)?;
    let mut inst = bare(row, Format::Vop3p, 2);
    inst.dst[0] = fetch.destination(field(word, 0, 8), row.dst)?;
    let codes = source_codes(high);
    for ((src, slot), code) in inst.src.iter_mut().zip(row.src).zip(codes) {
        *src = fetch.source(code, slot, None)?;
    }
    let sources = row.src.iter().filter(|slot| slot.is_some()).count();
    let mask = (1u8 << sources) - 1;
    inst.mods.neg = field(high, 29, 3) as u8 & mask;
    inst.mods.abs = field(word, 8, 3) as u8 & mask;
    if row.has(OPSEL) {
        inst.mods.op_sel = field(word, 11, 3) as u8 & mask;
    }
    inst.mods.op_sel_hi = (field(high, 27, 2) | field(word, 14, 1) << 2) as u8 & mask;
    inst.mods.clamp = row.has(CLAMP) && bit(word, 15);
    Ok(inst)
}

/// A matrix operand: a vector or, if `accumulator`, accumulation register; the addend may be a constant.
fn matrix_source(fetch: &Fetch, code: u32, slot: Slot, accumulator: bool) -> Result<Operand, DecodeError> {
    let class = match slot.class {
        Class::Vector | Class::Any if accumulator && code >= 256 => Class::Accumulator,
        class => class,
    };
    let operand = fetch.source(code, Slot { class, ..slot }, None)?;
    match operand.kind {
        OperandKind::None
        | OperandKind::Vgpr(_)
        | OperandKind::Agpr(_)
        | OperandKind::Int(_)
        | OperandKind::Float(_) => Ok(operand),
        _ => Err(fetch.invalid("matrix operands are vectors or inline constants")),
    }
}

fn matrix(fetch: &Fetch, row: &'static Row, word: u32) -> Result<Inst, DecodeError> {
    let high = fetch.word(1)?;
    let mut inst = bare(row, Format::Vop3pMai, 2);
    let accumulate_in_agprs = bit(word, 15);
    let dst = match row.dst.class {
        Class::Any if accumulate_in_agprs && row.src[1].is_some() => Slot { class: Class::Accumulator, ..row.dst },
        _ => row.dst,
    };
    inst.dst[0] = fetch.destination(field(word, 0, 8), dst)?;
    let codes = source_codes(high);
    if !row.src[1].is_some() {
        // The two moves between the register files say in their names which file is which.
        inst.src[0] = fetch.source(codes[0], row.src[0], None)?;
        return Ok(inst);
    }
    inst.src[0] = matrix_source(fetch, codes[0], row.src[0], bit(high, 27))?;
    inst.src[1] = matrix_source(fetch, codes[1], row.src[1], bit(high, 28))?;
    // A sparse instruction's third operand is its index, always a vector register.
    let addend_in_agprs = accumulate_in_agprs && row.src[2].class == Class::Any;
    inst.src[2] = matrix_source(fetch, codes[2], row.src[2], addend_in_agprs)?;
    if row.has(CBSZ) {
        inst.mods.cbsz = field(word, 8, 3) as u8;
        inst.mods.abid = field(word, 11, 4) as u8;
    }
    if row.has(BLGP) {
        inst.mods.blgp = field(high, 29, 3) as u8;
    }
    if row.has(NEGB) {
        inst.mods.neg = field(high, 29, 3) as u8;
    }
    Ok(inst)
}
