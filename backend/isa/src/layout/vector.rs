//! VOP1, VOP2 and VOPC; their sub-dword and lane-swizzle forms are in [`super::swizzle`].

use super::operand::LITERAL;
use super::{Fetch, bare, bits, field, operand_bits, swizzle};
use crate::table::row::{AK, CIN, CMPX, COUT, Class, Encoding, MK, Row, SWAP, Slot};
use crate::{DecodeError, Format, Inst, Operand, OperandKind};

/// VOP2 opcodes that are the formats VOPC and VOP1 instead.
const VOPC_FORMAT: u32 = 62;
const VOP1_FORMAT: u32 = 63;
/// Added to an 8-bit vector register number to make a 9-bit source code.
pub(super) const VECTOR: u32 = 256;
/// In an 8-bit field of a 16-bit operand, the bit that selects the register's high half.
const HIGH_HALF: u32 = 1 << 7;

/// The fields of the first word.
pub(super) struct Fields {
    pub row: &'static Row,
    pub format: Format,
    pub destination: u32,
    pub second: u32,
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
    let known = match format {
        Format::Vopc => bits(0, 32),
        Format::Vop1 => bits(25, 7) | operand_bits(row.dst, 17, 8) | bits(9, 8) | operand_bits(row.src[0], 0, 9),
        _ => bits(0, 32),
    };
    fetch.only(0, known)?;
    match first {
        swizzle::SDWA_CODE if !fetch.since(Encoding::Gfx11) => swizzle::sdwa(fetch, &fields),
        swizzle::DPP_CODE => swizzle::rows(fetch, &fields),
        swizzle::DPP8_CODE | swizzle::DPP8_INACTIVE_CODE if fetch.since(Encoding::Gfx10) => {
            swizzle::eights(fetch, &fields, first)
        }
        _ => plain(fetch, &fields, first),
    }
}

/// Takes the half that a 16-bit operand selects out of its register field; `place` is its bit in `op_sel`.
pub(super) fn whole_register(inst: &mut Inst, place: u32, number: u32, slot: Slot) -> u32 {
    if !slot.half {
        return number;
    }
    if number & HIGH_HALF != 0 {
        inst.mods.op_sel |= 1 << place;
    }
    number & !HIGH_HALF
}

/// An instruction with the results in place, and the implied carry-in behind the explicit sources.
pub(super) fn with_results(fetch: &Fetch, fields: &Fields, words: u8) -> Result<Inst, DecodeError> {
    let row = fields.row;
    let mut inst = bare(row, fields.format, words);
    inst.dst[0] = match fields.format {
        Format::Vopc if row.has(CMPX) => fetch.exec(),
        Format::Vopc => fetch.vcc(),
        _ => {
            let number = whole_register(&mut inst, 3, fields.destination, row.dst);
            fetch.destination(number, row.dst)?
        }
    };
    if row.has(COUT) {
        inst.dst[1] = fetch.vcc();
    }
    if row.has(CIN) {
        inst.src[2] = fetch.vcc();
    }
    Ok(inst)
}

/// The second source, always a vector register.
pub(super) fn second(fetch: &Fetch, inst: &mut Inst, fields: &Fields, slot: Slot) -> Result<Operand, DecodeError> {
    let number = whole_register(inst, 1, fields.second, slot);
    fetch.source(VECTOR + number, slot, None)
}

fn plain(fetch: &Fetch, fields: &Fields, first: u32) -> Result<Inst, DecodeError> {
    let row = fields.row;
    let fused_literal = row.has(MK) || row.has(AK);
    let literal = match fused_literal || first == LITERAL && row.src[0].class == Class::Any {
        true => Some(fetch.word(1)?),
        false => None,
    };
    let mut inst = with_results(fetch, fields, 1 + u8::from(literal.is_some()))?;
    let first = match first {
        VECTOR.. => VECTOR + whole_register(&mut inst, 0, first - VECTOR, row.src[0]),
        _ => first,
    };
    inst.src[0] = fetch.source(first, row.src[0], literal)?;
    // The row lists a fused literal in its place in the text.
    let second_slot = if row.has(MK) { row.src[2] } else { row.src[1] };
    let second = second(fetch, &mut inst, fields, second_slot)?;
    match literal {
        Some(word) if fused_literal => {
            let constant = Operand { kind: OperandKind::Literal(word), dwords: 1 };
            let (middle, last) = if row.has(MK) { (constant, second) } else { (second, constant) };
            inst.src[1] = middle;
            inst.src[2] = last;
            if row.has(MK) {
                // The register moved from the second place to the third, and so does its half.
                let moved = inst.mods.op_sel & 0b10;
                inst.mods.op_sel = inst.mods.op_sel & !0b10 | moved << 1;
            }
        }
        _ => inst.src[1] = second,
    }
    if row.has(SWAP) {
        inst.dst[1] = inst.src[0];
    }
    Ok(inst)
}
