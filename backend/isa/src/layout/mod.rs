//! The field layouts of all encodings: which bits are what, without any opcode.
//!
//! The top bits of the first word choose the format; each format's file reads its fields and asks the tables for the
//! rest. Where generations place a format's fields differently, the file gathers them in one structure first and has the
//! rest in common. Called by [`crate::decode_dual`].
//!
//! Every bit that is set has to mean something: each file says which bits of its words it reads for a row, and any other
//! one makes the instruction undecodable ([`Fetch::only`]), because a modifier that is dropped in silence gives wrong
//! results. What assemblers set in fields that nothing reads is said where it is let through.

mod buffer;
mod flat;
mod local;
mod matrix;
mod operand;
mod packed;
mod scalar;
mod smem;
mod swizzle;
mod vector;
mod vop3;
mod vopd;

use crate::table::row::{Encoding, Row, Slot, Table, Tables};
use crate::{DecodeError, Decoded, Format, Inst, Modifiers, Operand, WaveSize};

/// The bytes of one instruction, read word by word.
struct Fetch<'a> {
    tables: &'static Tables,
    arch: &'static str,
    wave: WaveSize,
    bytes: &'a [u8],
    first: u32,
}

/// `count` bits of `word` from bit `at`.
fn field(word: u32, at: u32, count: u32) -> u32 {
    (word >> at) & (u32::MAX >> (32 - count))
}

/// Bit `at` of `word`.
fn bit(word: u32, at: u32) -> bool {
    word >> at & 1 != 0
}

/// `count` bits from bit `at`.
const fn bits(at: u32, count: u32) -> u32 {
    u32::MAX >> (32 - count) << at
}

/// `count` bits from bit `at` if there is an operand in them.
fn operand_bits(slot: Slot, at: u32, count: u32) -> u32 {
    if slot.is_some() { bits(at, count) } else { 0 }
}

/// Bit `at` if `known`.
fn bit_if(known: bool, at: u32) -> u32 {
    u32::from(known) << at
}

/// The low `count` bits of `value` as a two's complement number.
fn sign_extend(value: u32, count: u32) -> i32 {
    (value << (32 - count)) as i32 >> (32 - count)
}

impl Fetch<'_> {
    fn word(&self, index: usize) -> Result<u32, DecodeError> {
        let need = 4 * (index + 1);
        match self.bytes.get(need - 4..need) {
            Some(&[a, b, c, d]) => Ok(u32::from_le_bytes([a, b, c, d])),
            _ => Err(DecodeError::Truncated { have: self.bytes.len(), need }),
        }
    }

    fn invalid(&self, reason: &'static str) -> DecodeError {
        DecodeError::Invalid { arch: self.arch, word: self.first, reason }
    }

    /// Refuses a word in which other bits are set than those that the instruction has a meaning for.
    fn only(&self, index: usize, known: u32) -> Result<(), DecodeError> {
        match self.word(index)? & !known {
            0 => Ok(()),
            _ => Err(self.invalid("a bit is set that means nothing to this operation")),
        }
    }

    fn row(&self, table: &Table, code: u32) -> Result<&'static Row, DecodeError> {
        table.get(code).ok_or_else(|| self.invalid("unknown opcode"))
    }

    /// Whether the encodings are at least as new as `encoding`.
    fn since(&self, encoding: Encoding) -> bool {
        self.tables.encoding >= encoding
    }
}

/// An instruction without operands, of `words` words.
fn bare(row: &Row, format: Format, words: u8) -> Inst {
    Inst {
        op: row.op,
        format,
        bytes: 4 * words,
        dst: [Operand::NONE; 2],
        src: [Operand::NONE; 4],
        mods: Modifiers::NONE,
    }
}

/// Decodes the instruction at the start of `bytes`.
pub(crate) fn decode(
    tables: &'static Tables,
    arch: &'static str,
    wave: WaveSize,
    bytes: &[u8],
) -> Result<Decoded, DecodeError> {
    let mut fetch = Fetch { tables, arch, wave, bytes, first: 0 };
    let word = fetch.word(0)?;
    fetch.first = word;
    let first = if !bit(word, 31) {
        vector::decode(&fetch, word)
    } else if field(word, 30, 2) == 0b10 {
        scalar::decode(&fetch, word)
    } else if fetch.since(Encoding::Gfx11) && field(word, 26, 6) == 0b110010 {
        return vopd::decode(&fetch, word);
    } else if fetch.since(Encoding::Gfx10) {
        rdna(&fetch, word)
    } else {
        gcn(&fetch, word)
    };
    first.map(|first| Decoded { first, second: None })
}

/// The formats of GFX9 behind the scalar and the 32-bit vector ones.
fn gcn(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    match field(word, 26, 6) {
        0b110000 => smem::decode(fetch, word),
        0b110100 if field(word, 23, 3) == 0b111 => match fetch.tables.vop3p_mai.get(field(word, 16, 7)) {
            Some(row) => matrix::decode(fetch, row, word),
            None => packed::decode(fetch, word),
        },
        0b110100 => vop3::decode(fetch, word),
        0b110101 => Err(fetch.invalid("interpolation belongs to graphics")),
        0b110110 => local::decode(fetch, word),
        0b110111 => flat::decode(fetch, word),
        0b111000 => buffer::decode(fetch, word),
        0b111010 => Err(fetch.invalid("typed buffer instructions belong to graphics")),
        0b111100 => Err(fetch.invalid("image instructions belong to graphics")),
        0b110001 => Err(fetch.invalid("exports belong to graphics")),
        _ => Err(fetch.invalid("unknown format")),
    }
}

/// The formats of GFX10 and later behind the scalar and the 32-bit vector ones.
fn rdna(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let newest = fetch.since(Encoding::Gfx12);
    match field(word, 26, 6) {
        0b111101 => smem::decode(fetch, word),
        0b110101 => vop3::decode(fetch, word),
        0b110011 => match field(word, 23, 3) {
            0b000 => packed::decode(fetch, word),
            0b010 | 0b011 if fetch.since(Encoding::Gfx11) => Err(fetch.invalid("interpolation belongs to graphics")),
            0b100 | 0b101 if fetch.since(Encoding::Gfx11) => {
                Err(fetch.invalid("direct loads of parameters belong to graphics"))
            }
            _ => Err(fetch.invalid("unknown format")),
        },
        0b110110 => local::decode(fetch, word),
        0b110111 if !newest => flat::decode(fetch, word),
        0b111011 if newest => flat::decode(fetch, word),
        0b111000 if !newest => buffer::decode(fetch, word),
        0b110001 if newest => buffer::decode(fetch, word),
        0b111010 if !newest => Err(fetch.invalid("typed buffer instructions belong to graphics")),
        0b111100 if !newest => Err(fetch.invalid("image instructions belong to graphics")),
        0b110100 | 0b111001 if newest => Err(fetch.invalid("image instructions belong to graphics")),
        0b111110 => Err(fetch.invalid("exports belong to graphics")),
        _ => Err(fetch.invalid("unknown format")),
    }
}
