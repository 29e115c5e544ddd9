//! The forms of vector instructions that take part of a register (SDWA) or another lane's (DPP).

use super::vector::{Fields, VECTOR, second, whole_register, with_results};
use super::{Fetch, bit, bit_if, bits, field, operand_bits};
use crate::table::row::{CMPX, DN0, DN1, DPP, Encoding, MASK, OMOD, SDWA, SN0, SN1, SX0, SX1, Slot, WHOLE};
use crate::{DecodeError, Dpp, Dpp8, Format, Inst, Operand, Sdwa, SdwaSel, SdwaUnused};

/// `src0` codes that mean "another word holds the first source and the selection".
pub(super) const SDWA_CODE: u32 = 249;
pub(super) const DPP_CODE: u32 = 250;
pub(super) const DPP8_CODE: u32 = 233;
/// The same, and lanes that are switched off may be read.
pub(super) const DPP8_INACTIVE_CODE: u32 = 234;

fn select(fetch: &Fetch, code: u32) -> Result<SdwaSel, DecodeError> {
    Ok(match code {
        0 => SdwaSel::Byte0,
        1 => SdwaSel::Byte1,
        2 => SdwaSel::Byte2,
        3 => SdwaSel::Byte3,
        4 => SdwaSel::Word0,
        5 => SdwaSel::Word1,
        6 => SdwaSel::Dword,
        _ => return Err(fetch.invalid("reserved sub-dword select")),
    })
}

fn unused(fetch: &Fetch, code: u32) -> Result<SdwaUnused, DecodeError> {
    Ok(match code {
        0 => SdwaUnused::Pad,
        1 => SdwaUnused::Sext,
        2 => SdwaUnused::Preserve,
        _ => return Err(fetch.invalid("reserved treatment of unused bits")),
    })
}

/// A sub-dword source: a vector register, or with `scalar` a scalar register or inline constant.
fn sdwa_source(fetch: &Fetch, code: u32, scalar: bool, slot: Slot) -> Result<Operand, DecodeError> {
    fetch.source(if scalar { code } else { VECTOR + code }, slot, None)
}

/// The select of a whole register.
const WHOLE_REGISTER: u32 = 6;

/// The bits of the second word that mean something; `explicit` says that a compare names its destination.
fn sub_dword_bits(fields: &Fields, explicit: bool) -> u32 {
    let row = fields.row;
    let result = match fields.format {
        Format::Vopc if explicit => bits(8, 8),
        Format::Vopc => 0,
        _ => {
            let select = if row.has(WHOLE) { WHOLE_REGISTER << 8 } else { bits(8, 5) };
            let multiplier = if row.has(OMOD) { bits(14, 2) } else { 0 };
            select | bits(13, 1) | multiplier
        }
    };
    let source = |present: bool, extends: u64, negates: u64| match present {
        true => bits(0, 3) | bit_if(row.has(extends), 3) | if row.has(negates) { bits(4, 2) } else { 0 } | bits(7, 1),
        false => 0,
    };
    let (first, second) = (source(row.src[0].is_some(), SX0, SN0), source(row.src[1].is_some(), SX1, SN1));
    operand_bits(row.src[0], 0, 8) | result | first << 16 | second << 24
}

pub(super) fn sdwa(fetch: &Fetch, fields: &Fields) -> Result<Inst, DecodeError> {
    let row = fields.row;
    if !row.has(SDWA) {
        return Err(fetch.invalid("operation has no sub-dword form"));
    }
    let word = fetch.word(1)?;
    let mut inst = with_results(fetch, fields, 2)?;
    let compare = fields.format == Format::Vopc;
    let (mut dst_sel, mut dst_unused) = (SdwaSel::Dword, SdwaUnused::Pad);
    if compare {
        if bit(word, 15) {
            if row.has(CMPX) {
                return Err(fetch.invalid("compare that writes EXEC names another destination"));
            }
            inst.dst[0] = fetch.scalar(field(word, 8, 7), MASK)?;
        }
    } else {
        if row.has(WHOLE) {
            if field(word, 8, 3) != WHOLE_REGISTER {
                return Err(fetch.invalid("operation writes a whole register"));
            }
        } else {
            dst_sel = select(fetch, field(word, 8, 3))?;
            dst_unused = unused(fetch, field(word, 11, 2))?;
        }
        inst.mods.clamp = bit(word, 13);
        if row.has(OMOD) {
            inst.mods.omod = field(word, 14, 2) as u8;
        }
    }
    inst.src[0] = sdwa_source(fetch, field(word, 0, 8), bit(word, 23), row.src[0])?;
    let mut src_sel = [select(fetch, field(word, 16, 3))?, SdwaSel::Dword];
    if row.src[1].is_some() {
        inst.src[1] = sdwa_source(fetch, fields.second, bit(word, 31), row.src[1])?;
        src_sel[1] = select(fetch, field(word, 24, 3))?;
    }
    let mask = row.source_mask([SN0, SN1, 0]);
    inst.mods.neg = (u8::from(bit(word, 20)) | u8::from(bit(word, 28)) << 1) & mask;
    inst.mods.abs = (u8::from(bit(word, 21)) | u8::from(bit(word, 29)) << 1) & mask;
    fetch.only(1, sub_dword_bits(fields, bit(word, 15)))?;
    let src_sext = [row.has(SX0) && bit(word, 19), row.has(SX1) && bit(word, 27)];
    inst.mods.sdwa = Some(Sdwa { dst_sel, dst_unused, src_sel, src_sext });
    Ok(inst)
}

/// The bits of such a word that every instruction knows: the first source and [`row_control`]'s.
pub(super) fn row_bits(fetch: &Fetch) -> u32 {
    bits(0, 17) | bit_if(fetch.since(Encoding::Gfx10), 18) | bits(19, 1) | bits(24, 8)
}

/// The row-wise swizzle of a word behind the instruction, for operands of up to `dwords` registers.
pub(super) fn row_control(fetch: &Fetch, word: u32, dwords: u8) -> Result<Dpp, DecodeError> {
    let ctrl = field(word, 8, 9) as u16;
    let exists = match fetch.since(Encoding::Gfx10) {
        true => rdna_control_exists(ctrl),
        false => gcn_control_exists(ctrl, dwords, fetch.tables.unified),
    };
    if !exists {
        return Err(fetch.invalid("reserved lane swizzle"));
    }
    Ok(Dpp {
        ctrl,
        row_mask: field(word, 28, 4) as u8,
        bank_mask: field(word, 24, 4) as u8,
        bound_ctrl: bit(word, 19),
        fetch_inactive: fetch.since(Encoding::Gfx10) && bit(word, 18),
    })
}

/// The swizzle within groups of eight lanes of a word behind the instruction.
pub(super) fn eights_control(word: u32, code: u32) -> Dpp8 {
    let lanes = std::array::from_fn(|lane| field(word, 8 + 3 * lane as u32, 3) as u8);
    Dpp8 { lanes, fetch_inactive: code == DPP8_INACTIVE_CODE }
}

/// VOP1, VOP2 and VOPC with their sources in place, the first from `word`.
fn with_sources(fetch: &Fetch, fields: &Fields, word: u32) -> Result<Inst, DecodeError> {
    let row = fields.row;
    if !row.has(DPP) {
        return Err(fetch.invalid("operation has no lane-swizzle form"));
    }
    let mut inst = with_results(fetch, fields, 2)?;
    let first = whole_register(&mut inst, 0, field(word, 0, 8), row.src[0]);
    inst.src[0] = fetch.source(VECTOR + first, row.src[0], None)?;
    inst.src[1] = second(fetch, &mut inst, fields, row.src[1])?;
    Ok(inst)
}

/// The swizzle of rows of 16 lanes, with its own negation and absolute value.
pub(super) fn rows(fetch: &Fetch, fields: &Fields) -> Result<Inst, DecodeError> {
    let word = fetch.word(1)?;
    let mut inst = with_sources(fetch, fields, word)?;
    let mask = fields.row.source_mask([DN0, DN1, 0]);
    inst.mods.neg = (u8::from(bit(word, 20)) | u8::from(bit(word, 22)) << 1) & mask;
    inst.mods.abs = (u8::from(bit(word, 21)) | u8::from(bit(word, 23)) << 1) & mask;
    let modifiers = [(DN0, 20), (DN1, 22)].into_iter().filter(|&(flag, _)| fields.row.has(flag));
    fetch.only(1, modifiers.fold(row_bits(fetch), |known, (_, at)| known | bits(at, 2)))?;
    inst.mods.dpp = Some(row_control(fetch, word, inst.src[0].dwords.max(inst.dst[0].dwords))?);
    Ok(inst)
}

/// The swizzle within groups of eight lanes.
pub(super) fn eights(fetch: &Fetch, fields: &Fields, code: u32) -> Result<Inst, DecodeError> {
    let word = fetch.word(1)?;
    let mut inst = with_sources(fetch, fields, word)?;
    inst.mods.dpp8 = Some(eights_control(word, code));
    Ok(inst)
}

/// Whether `dpp_ctrl` has a meaning on GFX9. 64-bit operations know only the row broadcast, which came with the unified
/// register file.
fn gcn_control_exists(ctrl: u16, dwords: u8, unified: bool) -> bool {
    match ctrl {
        0x150..=0x15f => unified,
        _ if dwords > 1 => false,
        0x000..=0x0ff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f => true,
        0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143 => true,
        _ => false,
    }
}

/// Whether `dpp_ctrl` has a meaning on GFX10 and later.
fn rdna_control_exists(ctrl: u16) -> bool {
    matches!(
        ctrl,
        0x000..=0x0ff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x140 | 0x141 | 0x150..=0x15f | 0x160..=0x16f
    )
}
