//! SMEM.

use super::operand::immediate;
use super::{Fetch, bare, bit, field, sign_extend};
use crate::table::row::{ATOMIC, Class, Encoding, STORE};
use crate::{DecodeError, Format, Inst, Operand, OperandKind};

/// What the layouts of all generations say, wherever they keep it.
struct Fields {
    offset: i32,
    /// The scalar offset's register, if there is one.
    register: Option<u32>,
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
            }
        }
        Encoding::Gfx10 | Encoding::Gfx11 => {
            Fields { offset: sign_extend(field(high, 0, 21), 21), register: Some(field(high, 25, 7)) }
        }
        Encoding::Gfx12 => Fields { offset: sign_extend(field(high, 0, 24), 24), register: Some(field(high, 25, 7)) },
    }
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
        if let Some(register) = fields.register {
            let operand = fetch.scalar(register, 1)?;
            if operand.kind != OperandKind::Null {
                inst.src[1] = operand;
            }
        }
    }
    Ok(inst)
}
