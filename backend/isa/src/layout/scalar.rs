//! SOP1, SOP2, SOPK, SOPC and SOPP.

use super::operand::{LITERAL, immediate};
use super::{Fetch, bare, bits, field, operand_bits, sign_extend};
use crate::table::row::{AK, Class, Immediate, MK, Row, Slot};
use crate::{DecodeError, Format, Inst, Operand, OperandKind};

/// Where SOP1, SOP2 and SOPK have their scalar register.
const SDST_AT: u32 = 16;
const SDST_BITS: u32 = 7;

/// Two dependencies and how far apart they are.
const DELAY_BITS: u32 = bits(0, 11);

/// Decodes a word whose top bits are `10`.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    match (field(word, 28, 2), field(word, 23, 7)) {
        (0b11, 0b111_1101) => sop1(fetch, word),
        (0b11, 0b111_1110) => sopc(fetch, word),
        (0b11, 0b111_1111) => sopp(fetch, word),
        (0b11, _) => sopk(fetch, word),
        _ => sop2(fetch, word),
    }
}

/// The literal word if one of the source codes asks for it.
fn literal(fetch: &Fetch, codes: &[u32], row: &Row) -> Result<Option<u32>, DecodeError> {
    let asked = codes.iter().zip(&row.src).any(|(&code, slot)| code == LITERAL && slot.class == Class::Any);
    if asked { fetch.word(1).map(Some) } else { Ok(None) }
}

fn scalar_destination(fetch: &Fetch, word: u32, slot: Slot) -> Result<Operand, DecodeError> {
    if slot.is_some() { fetch.scalar(field(word, SDST_AT, SDST_BITS), slot.dwords) } else { Ok(Operand::NONE) }
}

fn sop2(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row = fetch.row(fetch.tables.sop2, field(word, 23, 7))?;
    fetch.only(0, bits(23, 9) | operand_bits(row.dst, SDST_AT, SDST_BITS) | bits(0, 16))?;
    let codes = [field(word, 0, 8), field(word, 8, 8)];
    if row.has(MK) || row.has(AK) {
        return fused(fetch, word, row, codes);
    }
    let literal = literal(fetch, &codes, row)?;
    let mut inst = bare(row, Format::Sop2, 1 + u8::from(literal.is_some()));
    inst.dst[0] = scalar_destination(fetch, word, row.dst)?;
    inst.src[0] = fetch.scalar_source(codes[0], row.src[0], literal)?;
    inst.src[1] = fetch.scalar_source(codes[1], row.src[1], literal)?;
    Ok(inst)
}

/// A fused multiply-add with a literal, which the row lists in its place in the text; sources may repeat it.
fn fused(fetch: &Fetch, word: u32, row: &'static Row, codes: [u32; 2]) -> Result<Inst, DecodeError> {
    let literal = fetch.word(1)?;
    let mut inst = bare(row, Format::Sop2, 2);
    let constant = Operand { kind: OperandKind::Literal(literal), dwords: 1 };
    let second_slot = if row.has(MK) { row.src[2] } else { row.src[1] };
    inst.dst[0] = scalar_destination(fetch, word, row.dst)?;
    inst.src[0] = fetch.scalar_source(codes[0], row.src[0], Some(literal))?;
    let second = fetch.scalar_source(codes[1], second_slot, Some(literal))?;
    let (middle, last) = if row.has(MK) { (constant, second) } else { (second, constant) };
    inst.src[1] = middle;
    inst.src[2] = last;
    Ok(inst)
}

fn sop1(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row = fetch.row(fetch.tables.sop1, field(word, 8, 8))?;
    fetch.only(
        0,
        bits(23, 9) | operand_bits(row.dst, SDST_AT, SDST_BITS) | bits(8, 8) | operand_bits(row.src[0], 0, 8),
    )?;
    let codes = [field(word, 0, 8)];
    let literal = literal(fetch, &codes, row)?;
    let mut inst = bare(row, Format::Sop1, 1 + u8::from(literal.is_some()));
    inst.dst[0] = scalar_destination(fetch, word, row.dst)?;
    inst.src[0] = match row.src[0].class {
        Class::Immediate(_) => immediate(codes[0] as i32),
        _ => fetch.scalar_source(codes[0], row.src[0], literal)?,
    };
    Ok(inst)
}

fn sopc(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row = fetch.row(fetch.tables.sopc, field(word, 16, 7))?;
    let codes = [field(word, 0, 8), field(word, 8, 8)];
    let literal = literal(fetch, &codes, row)?;
    let mut inst = bare(row, Format::Sopc, 1 + u8::from(literal.is_some()));
    inst.src[0] = fetch.scalar_source(codes[0], row.src[0], literal)?;
    inst.src[1] = match row.src[1].class {
        Class::Immediate(_) => immediate(codes[1] as i32),
        _ => fetch.scalar_source(codes[1], row.src[1], literal)?,
    };
    Ok(inst)
}

/// The value of a 16-bit immediate.
fn simm16(fetch: &Fetch, word: u32, what: Immediate) -> Result<Operand, DecodeError> {
    let bits = field(word, 0, 16);
    Ok(match what {
        Immediate::Signed | Immediate::Branch => immediate(sign_extend(bits, 16)),
        Immediate::Literal | Immediate::Number => Operand { kind: OperandKind::Literal(fetch.word(1)?), dwords: 1 },
        Immediate::Unsigned
        | Immediate::Count
        | Immediate::CountUnlessZero
        | Immediate::WaitCounts
        | Immediate::Message
        | Immediate::HardwareRegister
        | Immediate::GprIndexing
        | Immediate::Delay
        | Immediate::DependencyCounters
        | Immediate::PrefetchLength
        | Immediate::ProbeMode => immediate(bits as i32),
    })
}

fn sopk(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row = fetch.row(fetch.tables.sopk, field(word, 23, 5))?;
    let operands = [row.dst, row.src[0], row.src[1]];
    let register = operands.iter().any(|slot| slot.is_some() && !matches!(slot.class, Class::Immediate(_)));
    fetch.only(0, bits(23, 9) | bits(0, 16) | if register { bits(SDST_AT, SDST_BITS) } else { 0 })?;
    let has_literal = row.src[0].class == Class::Immediate(Immediate::Number);
    let mut inst = bare(row, Format::Sopk, 1 + u8::from(has_literal));
    // The one register field stands in the place of whichever operand is not an immediate.
    let place = |slot: Slot| match slot.class {
        Class::Absent => Ok(Operand::NONE),
        Class::Immediate(what) => simm16(fetch, word, what),
        _ => fetch.scalar(field(word, SDST_AT, SDST_BITS), slot.dwords),
    };
    inst.dst[0] = place(row.dst)?;
    inst.src[0] = place(row.src[0])?;
    inst.src[1] = place(row.src[1])?;
    Ok(inst)
}

fn sopp(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row = fetch.row(fetch.tables.sopp, field(word, 16, 7))?;
    fetch.only(0, bits(16, 16) | operand_bits(row.src[0], 0, 16))?;
    let mut inst = bare(row, Format::Sopp, 1);
    if let Class::Immediate(what) = row.src[0].class {
        if what == Immediate::Delay {
            fetch.only(0, bits(16, 16) | DELAY_BITS)?;
        }
        inst.src[0] = simm16(fetch, word, what)?;
    }
    Ok(inst)
}
