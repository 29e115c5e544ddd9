//! The field layouts of the CDNA line (GFX9 encodings): which bits are what, without any opcode.
//!
//! The top bits of the first word choose the format; each format's file reads its fields and asks the tables for the
//! rest. Called by [`crate::decode`]. Bits that the hardware ignores are ignored here too.

mod memory;
mod operand;
mod scalar;
mod vector;
mod vop3;

use crate::table::row::{Row, Table, Tables};
use crate::{DecodeError, Format, Inst, Modifiers, Operand};

/// The bytes of one instruction, read word by word.
struct Fetch<'a> {
    tables: &'static Tables,
    arch: &'static str,
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

    fn row(&self, table: &Table, code: u32) -> Result<&'static Row, DecodeError> {
        table.get(code).ok_or_else(|| self.invalid("unknown opcode"))
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
        mods: Modifiers::default(),
    }
}

/// Decodes the instruction at the start of `bytes`.
pub(crate) fn decode(tables: &'static Tables, arch: &'static str, bytes: &[u8]) -> Result<Inst, DecodeError> {
    let mut fetch = Fetch { tables, arch, bytes, first: 0 };
    let word = fetch.word(0)?;
    fetch.first = word;
    if !bit(word, 31) {
        return vector::decode(&fetch, word);
    }
    if field(word, 30, 2) == 0b10 {
        return scalar::decode(&fetch, word);
    }
    match field(word, 26, 6) {
        0b110000 => scalar::smem(&fetch, word),
        0b110100 => vop3::decode(&fetch, word),
        0b110110 => memory::ds(&fetch, word),
        0b110111 => memory::flat(&fetch, word),
        0b111000 => memory::mubuf(&fetch, word),
        _ => Err(fetch.invalid("unknown format")),
    }
}
