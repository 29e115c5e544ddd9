//! The matrix unit of the CDNA line: MFMA, its sparse and its scaled forms, and the moves to accumulation registers.

use super::vop3::{source_bits, source_codes};
use super::{Fetch, bare, bit, bit_if, bits, field, operand_bits};
use crate::table::row::{BLGP, CBSZ, Class, F8F6F4, NEGB, Row, SC1, SCALED, Slot, W1};
use crate::{DecodeError, Format, Inst, MatrixScale, Operand, OperandKind};

/// A matrix operand: a vector or, if `accumulator`, accumulation register; the addend may be a constant.
fn source(fetch: &Fetch, code: u32, slot: Slot, accumulator: bool) -> Result<Operand, DecodeError> {
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

/// Registers of 32 elements in the format that `cbsz` or `blgp` names: FP8, BF8, FP6, BF6, FP4.
fn dwords_of_format(fetch: &Fetch, format: u32) -> Result<u8, DecodeError> {
    match format {
        0 | 1 => Ok(8),
        2 | 3 => Ok(6),
        4 => Ok(4),
        _ => Err(fetch.invalid("reserved matrix format")),
    }
}

/// Decodes an instruction of the matrix unit.
pub(super) fn decode(fetch: &Fetch, row: &'static Row, word: u32) -> Result<Inst, DecodeError> {
    match row.has(SCALED) {
        true => scaled(fetch, word),
        false => instruction(fetch, row, 0, 2),
    }
}

/// A scaled multiplication: two words with the scales, then the multiplication itself.
fn scaled(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let high = fetch.word(1)?;
    let second = fetch.word(2)?;
    if field(second, 23, 9) != field(word, 23, 9) {
        return Err(fetch.invalid("scales without a multiplication"));
    }
    let plain = fetch.row(fetch.tables.vop3p_mai, field(second, 16, 7))?;
    if !plain.has(F8F6F4) {
        return Err(fetch.invalid("scales without a multiplication"));
    }
    let scaled = fetch.row(fetch.tables.vop3p_scaled, field(second, 16, 7))?;
    let mut inst = instruction(fetch, plain, 2, 4)?;
    if inst.mods.abid != 1 {
        return Err(fetch.invalid("scales without a multiplication that takes them"));
    }
    inst.mods.abid = 0;
    inst.op = scaled.op;
    // The third bits of `op_sel` and `op_sel_hi` belong to a scale that is not there. AMD's own assembler sets both.
    fetch.only(0, bits(16, 16) | bits(11, 4))?;
    fetch.only(1, bits(0, 18) | bits(27, 2))?;
    let codes = source_codes(high);
    let slot = Slot { class: SC1.class, ..W1 };
    let scale = |code: u32| match code {
        256.. => fetch.source(code, W1, None),
        _ => fetch.source(code, slot, None),
    };
    inst.mods.scale = Some(MatrixScale { a: scale(codes[0])?, b: scale(codes[1])? });
    inst.mods.op_sel = field(word, 11, 2) as u8;
    inst.mods.op_sel_hi = field(high, 27, 2) as u8;
    Ok(inst)
}

/// The instruction whose words stand from word `at`.
fn instruction(fetch: &Fetch, row: &'static Row, at: usize, length: u8) -> Result<Inst, DecodeError> {
    let [word, high] = [fetch.word(at)?, fetch.word(at + 1)?];
    let mut inst = bare(row, Format::Vop3pMai, length);
    // Before the register files were one, the matrix unit could not accumulate elsewhere.
    let accumulate_in_agprs = bit(word, 15) || row.dst.class == Class::Accumulator;
    let dst = match row.dst.class {
        Class::Any if accumulate_in_agprs && row.src[1].is_some() => Slot { class: Class::Accumulator, ..row.dst },
        _ => row.dst,
    };
    inst.dst[0] = fetch.destination(field(word, 0, 8), dst)?;
    let codes = source_codes(high);
    if !row.src[1].is_some() {
        // The two moves between the register files say in their names which file is which.
        // Assemblers set the bits that are `op_sel_hi` elsewhere.
        fetch.only(at, bits(16, 16) | bits(14, 1) | bits(0, 8))?;
        fetch.only(at + 1, bits(0, 9) | bits(27, 2))?;
        inst.src[0] = fetch.source(codes[0], row.src[0], None)?;
        return Ok(inst);
    }
    let middle = if row.has(CBSZ) {
        bits(8, 7)
    } else if row.has(F8F6F4) {
        bits(8, 3)
    } else {
        0
    };
    let top = if row.has(BLGP) || row.has(NEGB) || row.has(F8F6F4) { bits(29, 3) } else { 0 };
    fetch.only(at, bits(16, 16) | bit_if(fetch.tables.unified, 15) | middle | operand_bits(row.dst, 0, 8))?;
    fetch.only(at + 1, source_bits(row) | bits(27, 2) | top)?;
    let mut slots = row.src;
    if row.has(F8F6F4) {
        slots[0].dwords = dwords_of_format(fetch, field(word, 8, 3))?;
        slots[1].dwords = dwords_of_format(fetch, field(high, 29, 3))?;
    }
    inst.src[0] = source(fetch, codes[0], slots[0], bit(high, 27))?;
    inst.src[1] = source(fetch, codes[1], slots[1], bit(high, 28))?;
    // A sparse instruction's third operand is its index, always a vector register.
    let addend_in_agprs = accumulate_in_agprs && row.src[2].class == Class::Any;
    inst.src[2] = source(fetch, codes[2], slots[2], addend_in_agprs)?;
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
