//! VOP3, both layouts, with its lane-swizzle forms.

use super::operand::LITERAL;
use super::vector::VECTOR;
use super::{Fetch, bare, bit, field, swizzle};
use crate::table::row::{CIN, CLAMP, CMPX, DPP, Encoding, M0, M1, M2, MASK, OMOD, OPSEL, Row, SDST, TAILSEL};
use crate::{DecodeError, Format, Inst};

/// The three 9-bit source fields of the second word.
pub(super) fn source_codes(high: u32) -> [u32; 3] {
    [field(high, 0, 9), field(high, 9, 9), field(high, 18, 9)]
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
            swizzle::DPP_CODE => inst.mods.dpp = Some(swizzle::row_control(fetch, word, row.src[0].dwords)?),
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
        let selectable = if row.has(TAILSEL) { 0b1100 } else { 0b1111 };
        inst.mods.op_sel = field(word, 11, 4) as u8 & selectable;
    }
    inst.mods.clamp = row.has(CLAMP) && bit(word, 15);
    if row.has(OMOD) {
        inst.mods.omod = field(high, 27, 2) as u8;
    }
    Ok(inst)
}
