//! SMEM.

use super::operand::immediate;
use super::{Fetch, bare, bit, bit_if, bits, field, operand_bits, sign_extend};
use crate::table::row::{ATOMIC, Class, Encoding, Row, STORE};
use crate::{DecodeError, Format, Inst, Operand, OperandKind};

/// What the layouts of all generations say, wherever they keep it.
struct Fields {
    offset: i32,
    /// The scalar offset's register, if there is one.
    register: Option<u32>,
    /// Whether an offset that is 0 was asked for beside a register, which is written out.
    both: bool,
}

fn fields(fetch: &Fetch, word: u32, high: u32) -> Fields {
    match fetch.tables.encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => {
            let (has_immediate, has_register) = (bit(word, 17), bit(word, 14));
            Fields {
                offset: if has_immediate { sign_extend(field(high, 0, 21), 21) } else { 0 },
                register: match (has_immediate, has_register) {
                    (_, true) => Some(field(high, 25, 7)),
                    (false, false) => Some(field(high, 0, 7)),
                    (true, false) => None,
                },
                both: has_immediate && has_register,
            }
        }
        Encoding::Gfx10 | Encoding::Gfx11 => {
            Fields { offset: sign_extend(field(high, 0, 21), 21), register: Some(field(high, 25, 7)), both: false }
        }
        Encoding::Gfx12 => {
            Fields { offset: sign_extend(field(high, 0, 24), 24), register: Some(field(high, 25, 7)), both: true }
        }
    }
}

/// Refuses bits that a row does not know; `cached` says that the instruction has cache bits.
fn check_bits(fetch: &Fetch, row: &Row, cached: bool) -> Result<(), DecodeError> {
    let (word, high) = (fetch.word(0)?, fetch.word(1)?);
    let offset = row.src[1].is_some();
    // Numbers in the place of a data register have five bits.
    let data = if matches!(row.dst.class, Class::Immediate(_)) { 5 } else { 7 };
    let registers = operand_bits(row.src[0], 0, 6) | operand_bits(row.dst, 6, data);
    let register = if offset { bits(25, 7) } else { 0 };
    let rest = |count: u32| if offset { register | bits(0, count) } else { 0 };
    let (cache_and_opcode, known) = match fetch.tables.encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => {
            let first = bits(18, 14) | bit_if(cached, 16) | bit_if(offset, 17) | bit_if(offset, 14);
            let known = match (bit(word, 17), bit(word, 14)) {
                _ if !offset => 0,
                (true, true) => bits(0, 21) | register,
                (true, false) => bits(0, 21),
                (false, true) => register,
                (false, false) => bits(0, 7),
            };
            (first, known)
        }
        Encoding::Gfx10 => (bits(18, 14) | bit_if(cached, 16) | bit_if(cached, 14), rest(21)),
        Encoding::Gfx11 => (bits(18, 14) | bit_if(cached, 14) | bit_if(cached, 13), rest(21)),
        Encoding::Gfx12 => (bits(26, 6) | bits(13, 6) | if cached { bits(21, 4) } else { 0 }, rest(24)),
    };
    // No register is the number of `null`, there also where there is no offset at all.
    let none = match fetch.tables.encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => 0,
        Encoding::Gfx10 => 0x7d,
        Encoding::Gfx11 | Encoding::Gfx12 => 0x7c,
    };
    let known = if !offset && field(high, 25, 7) == none { bits(25, 7) } else { known };
    fetch.only(0, registers | cache_and_opcode)?;
    fetch.only(1, known)
}

/// Scalar memory: `src` is base, scalar offset, and for a store or atomic the data.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let code = match fetch.tables.encoding {
        Encoding::Gfx12 => field(word, 13, 6),
        _ => field(word, 18, 8),
    };
    let row = fetch.row(fetch.tables.smem, code)?;
    let high = fetch.word(1)?;
    let fields = fields(fetch, word, high);
    let mut inst = bare(row, Format::Smem, 2);
    let data_code = field(word, 6, 7);
    let data = match row.dst.class {
        Class::Absent => Operand::NONE,
        Class::Immediate(_) => immediate(data_code as i32),
        _ => fetch.scalar(data_code, row.dst.dwords)?,
    };
    // Cache control does not write, and what only probes or reads the clock has no use for the bits.
    let reaches_memory = row.src[0].is_some() && row.dst.is_some() && !matches!(row.dst.class, Class::Immediate(_));
    check_bits(fetch, row, reaches_memory)?;
    if reaches_memory {
        match fetch.tables.encoding {
            Encoding::Gfx9 | Encoding::Gfx940 => inst.mods.sc0 = bit(word, 16),
            Encoding::Gfx10 => (inst.mods.sc0, inst.mods.dlc) = (bit(word, 16), bit(word, 14)),
            Encoding::Gfx11 => (inst.mods.sc0, inst.mods.dlc) = (bit(word, 14), bit(word, 13)),
            Encoding::Gfx12 => (inst.mods.scope, inst.mods.th) = (field(word, 21, 2) as u8, field(word, 23, 2) as u8),
        }
    }
    if row.has(STORE) || row.has(ATOMIC) {
        inst.src[2] = data;
    }
    if !row.has(STORE) && (!row.has(ATOMIC) || inst.mods.sc0) {
        inst.dst[0] = data;
    }
    if row.src[0].is_some() {
        inst.src[0] = fetch.scalar(field(word, 0, 6) << 1, row.src[0].dwords)?;
    }
    if row.src[1].is_some() {
        inst.mods.offset = fields.offset;
        inst.mods.offen = fields.both;
        if let Some(register) = fields.register {
            let operand = fetch.scalar(register, 1)?;
            if operand.kind != OperandKind::Null {
                inst.src[1] = operand;
            }
        }
    }
    Ok(inst)
}
