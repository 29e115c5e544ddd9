//! VOP3, both layouts, with its lane-swizzle forms.

use super::operand::LITERAL;
use super::vector::VECTOR;
use super::{Fetch, bare, bit, bit_if, bits, field, operand_bits, swizzle};
use crate::table::row::{
    BCFI, BYTESEL, CIN, CLAMP, CMPX, Class, DPP, Encoding, LANES, M0, M1, M2, MASK, OMOD, OPSEL, Row, SDST, SRCBYTE,
    TAILSEL, TIED, UNSAID,
};
use crate::{DecodeError, Format, Inst, OperandKind};

/// The three 9-bit source fields of the second word.
pub(super) fn source_codes(high: u32) -> [u32; 3] {
    [field(high, 0, 9), field(high, 9, 9), field(high, 18, 9)]
}

/// The bits of those fields that hold operands.
pub(super) fn source_bits(row: &Row) -> u32 {
    (0..3).zip(row.src).fold(0, |known, (i, slot)| known | operand_bits(slot, 9 * i, 9))
}

/// Sources, and the third word that some of them live in.
pub(super) fn sources(fetch: &Fetch, row: &Row, high: u32, inst: &mut Inst) -> Result<(), DecodeError> {
    let mut codes = source_codes(high);
    let swizzled = matches!(codes[0], swizzle::DPP_CODE | swizzle::DPP8_CODE | swizzle::DPP8_INACTIVE_CODE);
    let mut literal = None;
    if fetch.since(Encoding::Gfx11) && swizzled && row.src[0].is_some() {
        if !row.has(DPP) {
            return Err(fetch.invalid("operation has no lane-swizzle form"));
        }
        let word = fetch.word(2)?;
        inst.bytes = 12;
        match codes[0] {
            swizzle::DPP_CODE => {
                fetch.only(2, swizzle::row_bits(fetch))?;
                inst.mods.dpp = Some(swizzle::row_control(fetch, word, row.src[0].dwords)?);
            }
            code => inst.mods.dpp8 = Some(swizzle::eights_control(word, code)),
        }
        codes[0] = VECTOR + field(word, 0, 8);
    }
    let wants_literal = codes.iter().zip(&row.src).any(|(&code, slot)| code == LITERAL && slot.takes_literal());
    if fetch.since(Encoding::Gfx10) && wants_literal {
        if inst.bytes != 8 {
            return Err(fetch.invalid("a swizzle and a literal exclude each other"));
        }
        literal = Some(fetch.word(2)?);
        inst.bytes = 12;
    }
    for ((src, slot), code) in inst.src.iter_mut().zip(row.src).zip(codes) {
        *src = fetch.source(code, slot, literal)?;
    }
    Ok(())
}

/// The bits of `op_sel` that mean something to a row.
fn selectable(fetch: &Fetch, row: &Row) -> u8 {
    const DESTINATION: u8 = 0b1000;
    let sources = row.src.iter().filter(|slot| slot.is_some() && slot.class != Class::Scalar).count();
    match () {
        () if !row.has(OPSEL) => 0,
        () if row.has(LANES) || row.has(BCFI) || row.has(SRCBYTE) => 0b0011,
        () if row.has(TAILSEL) => 0b1100,
        () if row.has(BYTESEL) && fetch.since(Encoding::Gfx12) => 0b1100,
        () if row.has(BYTESEL) || row.has(TIED) => 0b1111,
        // A compare has no bit for its lane mask.
        () if row.dst.class == Class::Scalar => (1 << sources) - 1,
        () => ((1 << sources) - 1) | DESTINATION,
    }
}

/// Refuses bits of the first two words that the row does not know.
fn check_bits(fetch: &Fetch, row: &Row) -> Result<(), DecodeError> {
    const OPCODE: u32 = bits(16, 16);
    let mask = u32::from(row.source_mask([M0, M1, M2]));
    let middle = match row.has(SDST) {
        true => bits(8, 7),
        false => mask << 8 | u32::from(selectable(fetch, row)) << 11,
    };
    // A compare that writes EXEC has no use for the field. Compilers since LLVM 16 put EXEC's number there, older ones zero, and
    // LLVM reads any.
    let destination = if row.has(CMPX) { bits(0, 8) } else { operand_bits(row.dst, 0, 8) };
    fetch.only(0, OPCODE | destination | middle | bit_if(row.has(CLAMP), 15))?;
    let multiplier = if row.has(OMOD) { bits(27, 2) } else { 0 };
    fetch.only(1, source_bits(row) | multiplier | mask << 29)
}

/// Decodes VOP3.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row = fetch.row(fetch.tables.vop3, field(word, 16, 10))?;
    let high = fetch.word(1)?;
    let mut inst = bare(row, Format::Vop3, 2);
    inst.dst[0] = match row.has(CMPX) {
        true => fetch.exec(),
        false => fetch.destination(field(word, 0, 8), row.dst)?,
    };
    sources(fetch, row, high, &mut inst)?;
    if row.has(CIN) {
        inst.src[3] = fetch.vcc();
    }
    let mask = row.source_mask([M0, M1, M2]);
    inst.mods.neg = field(high, 29, 3) as u8 & mask;
    if row.has(SDST) {
        inst.dst[1] = fetch.scalar(field(word, 8, 7), MASK)?;
    } else {
        inst.mods.abs = field(word, 8, 3) as u8 & mask;
    }
    if row.has(OPSEL) {
        inst.mods.op_sel = field(word, 11, 4) as u8;
    }
    check_bits(fetch, row)?;
    let of_registers = inst.src.iter().enumerate().filter(|(_, src)| matches!(src.kind, OperandKind::Vgpr(_)));
    let of_registers = of_registers.fold(0b1000, |known, (i, _)| known | 1 << i);
    if row.has(UNSAID) && inst.mods.op_sel & !of_registers != 0 {
        return Err(fetch.invalid("half of an operand that is not a vector register"));
    }
    inst.mods.clamp = row.has(CLAMP) && bit(word, 15);
    if row.has(OMOD) {
        inst.mods.omod = field(high, 27, 2) as u8;
    }
    Ok(inst)
}
