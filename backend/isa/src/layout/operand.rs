//! Operand fields: register files, constants, and which of them an operand accepts.

use super::Fetch;
use crate::table::row::{Class, Encoding, MASK, Slot};
use crate::{DecodeError, InlineFloat, Operand, OperandKind};

/// Vector and accumulation registers of a wave's addressable range.
const VGPRS: u32 = 256;
/// Source code from which vector registers start.
const VECTOR_BASE: u32 = 256;
/// Trap temporaries start at this code, and there are sixteen.
const TTMP_BASE: u32 = 108;
const TTMPS: u32 = 16;
/// The source code that means "a literal follows".
pub(super) const LITERAL: u32 = 255;
/// The source code that reads LDS through M0, where the family has it.
const LDS_DIRECT: u32 = 254;

/// An immediate.
pub(super) fn immediate(value: i32) -> Operand {
    Operand { kind: OperandKind::Imm(value), dwords: 1 }
}

/// Whether a scalar tuple of `dwords` may start at register `first`: pairs are even, longer ones multiples of four.
fn scalar_tuple_fits(first: u32, dwords: u32, registers: u32) -> bool {
    let aligned = match dwords {
        0 | 1 => true,
        2 => first.is_multiple_of(2),
        _ => first.is_multiple_of(4),
    };
    aligned && first + dwords <= registers
}

/// The scalar register of a 7-bit code.
fn scalar_register(encoding: Encoding, code: u32, dwords: u8) -> Option<OperandKind> {
    let wide = u32::from(dwords);
    let half = |first: u32, of: fn(u8) -> OperandKind| {
        let at = (code - first) as u8;
        (wide == 1 || wide == 2 && at == 0).then(|| of(at))
    };
    let rdna = encoding >= Encoding::Gfx10;
    // Behind the registers proper GFX9 has two pairs of its own.
    let sgprs = if rdna { 106 } else { 102 };
    match code {
        _ if code < sgprs => scalar_tuple_fits(code, wide, sgprs).then_some(OperandKind::Sgpr(code as u16)),
        102 | 103 => half(102, OperandKind::FlatScratch),
        104 | 105 => half(104, OperandKind::XnackMask),
        106 | 107 => half(106, OperandKind::Vcc),
        TTMP_BASE..124 => {
            let at = code - TTMP_BASE;
            scalar_tuple_fits(at, wide, TTMPS).then_some(OperandKind::Ttmp(at as u8))
        }
        // GFX11 exchanged M0 and null.
        124 if encoding >= Encoding::Gfx11 => Some(OperandKind::Null),
        124 => (wide == 1).then_some(OperandKind::M0),
        125 if encoding >= Encoding::Gfx11 => (wide == 1).then_some(OperandKind::M0),
        125 if rdna => Some(OperandKind::Null),
        126 | 127 => half(126, OperandKind::Exec),
        _ => None,
    }
}

/// The inline constant or special value of an 8-bit code.
fn constant(encoding: Encoding, code: u32) -> Option<OperandKind> {
    Some(match code {
        128..=192 => OperandKind::Int((code - 128) as i8),
        193..=208 => OperandKind::Int(-((code - 192) as i8)),
        235..=238 => OperandKind::Aperture((code - 235) as u8),
        240 => OperandKind::Float(InlineFloat::Half),
        241 => OperandKind::Float(InlineFloat::MinusHalf),
        242 => OperandKind::Float(InlineFloat::One),
        243 => OperandKind::Float(InlineFloat::MinusOne),
        244 => OperandKind::Float(InlineFloat::Two),
        245 => OperandKind::Float(InlineFloat::MinusTwo),
        246 => OperandKind::Float(InlineFloat::Four),
        247 => OperandKind::Float(InlineFloat::MinusFour),
        248 => OperandKind::Float(InlineFloat::InvTwoPi),
        251 if encoding < Encoding::Gfx11 => OperandKind::Vccz,
        252 if encoding < Encoding::Gfx11 => OperandKind::Execz,
        253 => OperandKind::Scc,
        _ => return None,
    })
}

impl Fetch<'_> {
    /// The width that a row's width stands for: a lane mask is as wide as the wave.
    fn width(&self, dwords: u8) -> u8 {
        if dwords == MASK { self.wave.mask_dwords() } else { dwords }
    }

    /// VCC as a mask of the wave's lanes.
    pub(super) fn vcc(&self) -> Operand {
        Operand { kind: OperandKind::Vcc(0), dwords: self.wave.mask_dwords() }
    }

    /// EXEC as a mask of the wave's lanes.
    pub(super) fn exec(&self) -> Operand {
        Operand { kind: OperandKind::Exec(0), dwords: self.wave.mask_dwords() }
    }

    /// The scalar register of a 7-bit field.
    pub(super) fn scalar(&self, code: u32, dwords: u8) -> Result<Operand, DecodeError> {
        let dwords = self.width(dwords);
        let kind = scalar_register(self.tables.encoding, code, dwords)
            .ok_or_else(|| self.invalid("no such scalar register"))?;
        Ok(Operand { kind, dwords })
    }

    /// The vector register of an 8-bit field, or the accumulation register of that number. Tuples start at even
    /// registers on GPUs with a unified register file.
    pub(super) fn vector(&self, first: u32, dwords: u8, accumulator: bool) -> Result<Operand, DecodeError> {
        let wide = u32::from(dwords);
        if first + wide > VGPRS {
            return Err(self.invalid("vector register tuple runs past the last register"));
        }
        if self.tables.unified && wide > 1 && !first.is_multiple_of(2) {
            return Err(self.invalid("vector register tuple starts at an odd register"));
        }
        let first = first as u16;
        let kind = if accumulator { OperandKind::Agpr(first) } else { OperandKind::Vgpr(first) };
        Ok(Operand { kind, dwords })
    }

    /// The destination of an 8-bit field: a vector register unless the row says otherwise.
    pub(super) fn destination(&self, code: u32, slot: Slot) -> Result<Operand, DecodeError> {
        match slot.class {
            Class::Absent | Class::Immediate(_) => Ok(Operand::NONE),
            Class::Any | Class::Vector => self.vector(code, slot.dwords, false),
            Class::Accumulator => self.vector(code, slot.dwords, true),
            Class::Scalar | Class::ScalarOrConstant | Class::ScalarOrLiteral => self.scalar(code, slot.dwords),
        }
    }

    /// The source of an 8- or 9-bit field. `literal` is the word after the instruction, where the format has one.
    pub(super) fn source(&self, code: u32, slot: Slot, literal: Option<u32>) -> Result<Operand, DecodeError> {
        let dwords = self.width(slot.dwords);
        let misplaced = || self.invalid("operand does not accept this source");
        let vectors = matches!(slot.class, Class::Any | Class::Vector | Class::Accumulator);
        match (slot.class, code) {
            (Class::Absent | Class::Immediate(_), _) => Ok(Operand::NONE),
            (_, VECTOR_BASE..) if vectors => self.vector(code - VECTOR_BASE, dwords, slot.class == Class::Accumulator),
            (_, VECTOR_BASE..) | (Class::Vector | Class::Accumulator, _) => Err(misplaced()),
            (_, 0..128) => self.scalar(code, dwords),
            (Class::Any | Class::ScalarOrLiteral, LITERAL) => match literal {
                Some(word) => Ok(Operand { kind: OperandKind::Literal(word), dwords }),
                None => Err(self.invalid("format has no literal")),
            },
            (Class::Any, LDS_DIRECT) if dwords == 1 && !self.since(Encoding::Gfx11) => {
                Ok(Operand { kind: OperandKind::LdsDirect, dwords })
            }
            (Class::Any | Class::Scalar | Class::ScalarOrConstant | Class::ScalarOrLiteral, _) => {
                let kind = constant(self.tables.encoding, code).ok_or_else(|| self.invalid("reserved source"))?;
                let number = matches!(kind, OperandKind::Int(_) | OperandKind::Float(_));
                if number && slot.class == Class::Scalar {
                    return Err(misplaced());
                }
                Ok(Operand { kind, dwords })
            }
        }
    }

    /// The source of a scalar instruction's 8-bit field: as [`Fetch::source`], without what only vector units reach.
    pub(super) fn scalar_source(&self, code: u32, slot: Slot, literal: Option<u32>) -> Result<Operand, DecodeError> {
        if code == LDS_DIRECT && slot.is_some() {
            return Err(self.invalid("operand does not accept this source"));
        }
        self.source(code, slot, literal)
    }
}
