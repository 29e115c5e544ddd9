//! VOP1, VOP2 and VOPC with their sub-dword (SDWA) and lane-swizzle (DPP) forms.

use super::operand::{LITERAL, VCC};
use super::{Fetch, bare, bit, field};
use crate::table::row::{
    AK, CIN, COUT, Class, DN0, DN1, DPP, MK, OMOD, Row, SDWA, SN0, SN1, SWAP, SX0, SX1, Slot, WHOLE,
};
use crate::{DecodeError, Dpp, Format, Inst, Operand, OperandKind, Sdwa, SdwaSel, SdwaUnused};

/// `src0` codes that mean "another word holds the first source and the swizzle".
const SDWA_CODE: u32 = 249;
const DPP_CODE: u32 = 250;
/// VOP2 opcodes that are the formats VOPC and VOP1 instead.
const VOPC_FORMAT: u32 = 62;
const VOP1_FORMAT: u32 = 63;
/// Added to an 8-bit vector register number to make a 9-bit source code.
const VECTOR: u32 = 256;

/// The fields of the first word.
struct Fields {
    row: &'static Row,
    format: Format,
    destination: u32,
    second: u32,
}

/// Decodes a word whose top bit is 0.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let first = field(word, 0, 9);
    let (format, table, code) = match field(word, 25, 6) {
        VOPC_FORMAT => (Format::Vopc, fetch.tables.vopc, field(word, 17, 8)),
        VOP1_FORMAT => (Format::Vop1, fetch.tables.vop1, field(word, 9, 8)),
        code => (Format::Vop2, fetch.tables.vop2, code),
    };
    let row = fetch.row(table, code)?;
    let fields = Fields { row, format, destination: field(word, 17, 8), second: field(word, 9, 8) };
    match first {
        SDWA_CODE => sdwa(fetch, &fields),
        DPP_CODE => dpp(fetch, &fields),
        _ => plain(fetch, &fields, first),
    }
}

/// An instruction with the results in place, and the implied carry-in behind the explicit sources.
fn with_results(fetch: &Fetch, fields: &Fields, words: u8) -> Result<Inst, DecodeError> {
    let row = fields.row;
    let mut inst = bare(row, fields.format, words);
    inst.dst[0] = match fields.format {
        Format::Vopc => VCC,
        _ => fetch.destination(fields.destination, row.dst)?,
    };
    if row.has(COUT) {
        inst.dst[1] = VCC;
    }
    if row.has(CIN) {
        inst.src[2] = VCC;
    }
    Ok(inst)
}

fn plain(fetch: &Fetch, fields: &Fields, first: u32) -> Result<Inst, DecodeError> {
    let row = fields.row;
    let fused_literal = row.has(MK) || row.has(AK);
    let literal = match fused_literal || first == LITERAL && row.src[0].class == Class::Any {
        true => Some(fetch.word(1)?),
        false => None,
    };
    let mut inst = with_results(fetch, fields, 1 + u8::from(literal.is_some()))?;
    inst.src[0] = fetch.source(first, row.src[0], literal)?;
    // The row lists a fused literal in its place in the text.
    let second_slot = if row.has(MK) { row.src[2] } else { row.src[1] };
    let second = fetch.source(VECTOR + fields.second, second_slot, None)?;
    match literal {
        Some(word) if fused_literal => {
            let constant = Operand { kind: OperandKind::Literal(word), dwords: 1 };
            let (middle, last) = if row.has(MK) { (constant, second) } else { (second, constant) };
            inst.src[1] = middle;
            inst.src[2] = last;
        }
        _ => inst.src[1] = second,
    }
    if row.has(SWAP) {
        inst.dst[1] = inst.src[0];
    }
    Ok(inst)
}

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

fn sdwa(fetch: &Fetch, fields: &Fields) -> Result<Inst, DecodeError> {
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
            inst.dst[0] = fetch.scalar(field(word, 8, 7), 2)?;
        }
    } else {
        if !row.has(WHOLE) {
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
    let src_sext = [row.has(SX0) && bit(word, 19), row.has(SX1) && bit(word, 27)];
    inst.mods.sdwa = Some(Sdwa { dst_sel, dst_unused, src_sel, src_sext });
    Ok(inst)
}

fn dpp(fetch: &Fetch, fields: &Fields) -> Result<Inst, DecodeError> {
    let row = fields.row;
    if !row.has(DPP) {
        return Err(fetch.invalid("operation has no lane-swizzle form"));
    }
    let word = fetch.word(1)?;
    let mut inst = with_results(fetch, fields, 2)?;
    inst.src[0] = fetch.source(VECTOR + field(word, 0, 8), row.src[0], None)?;
    inst.src[1] = fetch.source(VECTOR + fields.second, row.src[1], None)?;
    let mask = row.source_mask([DN0, DN1, 0]);
    inst.mods.neg = (u8::from(bit(word, 20)) | u8::from(bit(word, 22)) << 1) & mask;
    inst.mods.abs = (u8::from(bit(word, 21)) | u8::from(bit(word, 23)) << 1) & mask;
    let ctrl = field(word, 8, 9) as u16;
    if !control_exists(ctrl, inst.src[0].dwords.max(inst.dst[0].dwords)) {
        return Err(fetch.invalid("reserved lane swizzle"));
    }
    inst.mods.dpp = Some(Dpp {
        ctrl,
        row_mask: field(word, 28, 4) as u8,
        bank_mask: field(word, 24, 4) as u8,
        bound_ctrl: bit(word, 19),
        fetch_inactive: false,
    });
    Ok(inst)
}

/// Whether `dpp_ctrl` has a meaning; 64-bit operations know only the row broadcast.
fn control_exists(ctrl: u16, dwords: u8) -> bool {
    match ctrl {
        0x150..=0x15f => true,
        _ if dwords > 1 => false,
        0x000..=0x0ff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f => true,
        0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143 => true,
        _ => false,
    }
}
