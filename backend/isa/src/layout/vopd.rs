//! VOPD: two 32-bit vector operations in one instruction.
//!
//! Each half becomes the VOP1 or VOP2 instruction that it stands for, so that nobody behind the decoder needs a third
//! meaning of the same operation.

use super::operand::LITERAL;
use super::{Fetch, bare, field};
use crate::table::row::{AK, CIN, MK, Row};
use crate::{DecodeError, Decoded, Format, Inst, Operand, OperandKind, WaveSize};

/// The fields of one half.
struct Half {
    row: &'static Row,
    destination: u32,
    first: u32,
    second: u32,
}

impl Half {
    fn has_literal(&self) -> bool {
        self.first == LITERAL || self.row.has(MK) || self.row.has(AK)
    }
}

/// Decodes a pair; a literal is shared by both halves.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Decoded, DecodeError> {
    if fetch.wave == WaveSize::Wave64 {
        return Err(fetch.invalid("pairs of operations are for waves of 32 lanes"));
    }
    let high = fetch.word(1)?;
    let (x_code, y_code) = (field(word, 22, 4), field(word, 17, 5));
    let x_destination = field(high, 24, 8);
    let x = Half {
        row: fetch.row(fetch.tables.vopd, x_code)?,
        destination: x_destination,
        first: field(word, 0, 9),
        second: field(word, 9, 8),
    };
    let y = Half {
        row: fetch.row(fetch.tables.vopd, y_code)?,
        // The halves write different banks, so one bit of the second destination goes without saying.
        destination: field(high, 17, 7) << 1 | (x_destination & 1 ^ 1),
        first: field(high, 0, 9),
        second: field(high, 9, 8),
    };
    let literal = match x.has_literal() || y.has_literal() {
        true => Some(fetch.word(2)?),
        false => None,
    };
    let words = 2 + u8::from(literal.is_some());
    let first = half(fetch, &x, literal, words)?;
    let second = half(fetch, &y, literal, words)?;
    Ok(Decoded { first, second: Some(second) })
}

fn half(fetch: &Fetch, half: &Half, literal: Option<u32>, words: u8) -> Result<Inst, DecodeError> {
    let row = half.row;
    let format = if row.src[1].is_some() { Format::Vop2 } else { Format::Vop1 };
    let mut inst = bare(row, format, words);
    inst.dst[0] = fetch.destination(half.destination, row.dst)?;
    inst.src[0] = fetch.source(half.first, row.src[0], literal)?;
    let second = match format {
        Format::Vop1 if half.second != 0 => return Err(fetch.invalid("move of a pair has a second source")),
        Format::Vop1 => Operand::NONE,
        _ => fetch.vector(half.second, 1, false)?,
    };
    match literal {
        Some(word) if row.has(MK) || row.has(AK) => {
            let constant = Operand { kind: OperandKind::Literal(word), dwords: 1 };
            let (middle, last) = if row.has(MK) { (constant, second) } else { (second, constant) };
            inst.src[1] = middle;
            inst.src[2] = last;
        }
        _ => inst.src[1] = second,
    }
    if row.has(CIN) {
        inst.src[2] = fetch.vcc();
    }
    Ok(inst)
}
