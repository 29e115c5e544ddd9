//! Operands as text.

use super::immediate;
use crate::table::row::{Class, Immediate, Slot, Tables, Text};
use crate::{InlineFloat, Operand, OperandKind};

/// A register tuple: `v3`, `s[4:7]`.
fn register(file: &str, first: u32, dwords: u8) -> String {
    match dwords {
        0 | 1 => format!("{file}{first}"),
        _ => format!("{file}[{first}:{}]", first + u32::from(dwords) - 1),
    }
}

/// A special register pair or half: `vcc`, `vcc_lo`.
fn halves(name: &str, half: u8, dwords: u8) -> String {
    match (dwords, half) {
        (2, _) => name.to_owned(),
        (_, 0) => format!("{name}_lo"),
        _ => format!("{name}_hi"),
    }
}

/// Every inline floating-point constant.
const INLINE_FLOATS: [InlineFloat; 9] = [
    InlineFloat::Half,
    InlineFloat::MinusHalf,
    InlineFloat::One,
    InlineFloat::MinusOne,
    InlineFloat::Two,
    InlineFloat::MinusTwo,
    InlineFloat::Four,
    InlineFloat::MinusFour,
    InlineFloat::InvTwoPi,
];

/// The bits of an inline constant in single precision.
fn single_bits(value: InlineFloat) -> u32 {
    match value {
        InlineFloat::Half => 0.5f32.to_bits(),
        InlineFloat::MinusHalf => (-0.5f32).to_bits(),
        InlineFloat::One => 1f32.to_bits(),
        InlineFloat::MinusOne => (-1f32).to_bits(),
        InlineFloat::Two => 2f32.to_bits(),
        InlineFloat::MinusTwo => (-2f32).to_bits(),
        InlineFloat::Four => 4f32.to_bits(),
        InlineFloat::MinusFour => (-4f32).to_bits(),
        InlineFloat::InvTwoPi => 0x3e22_f983,
    }
}

/// The high word of an inline constant in double precision, where the low word is zero, as a literal's would be.
fn double_high(value: InlineFloat) -> Option<u32> {
    let number = match value {
        InlineFloat::Half => 0.5f64,
        InlineFloat::MinusHalf => -0.5,
        InlineFloat::One => 1.0,
        InlineFloat::MinusOne => -1.0,
        InlineFloat::Two => 2.0,
        InlineFloat::MinusTwo => -2.0,
        InlineFloat::Four => 4.0,
        InlineFloat::MinusFour => -4.0,
        InlineFloat::InvTwoPi => return None,
    };
    Some((number.to_bits() >> 32) as u32)
}

/// The bits of an inline constant in half precision.
fn half_bits(value: InlineFloat) -> u16 {
    match value {
        InlineFloat::Half => 0x3800,
        InlineFloat::MinusHalf => 0xb800,
        InlineFloat::One => 0x3c00,
        InlineFloat::MinusOne => 0xbc00,
        InlineFloat::Two => 0x4000,
        InlineFloat::MinusTwo => 0xc000,
        InlineFloat::Four => 0x4400,
        InlineFloat::MinusFour => 0xc400,
        InlineFloat::InvTwoPi => 0x3118,
    }
}

fn inline_float(value: InlineFloat, slot: Slot, dwords: u8) -> String {
    if slot.text == Text::HalfInteger {
        return format!("{:#x}", half_bits(value));
    }
    let text = match value {
        InlineFloat::Half => "0.5",
        InlineFloat::MinusHalf => "-0.5",
        InlineFloat::One => "1.0",
        InlineFloat::MinusOne => "-1.0",
        InlineFloat::Two => "2.0",
        InlineFloat::MinusTwo => "-2.0",
        InlineFloat::Four => "4.0",
        InlineFloat::MinusFour => "-4.0",
        InlineFloat::InvTwoPi if slot.text == Text::Double || dwords == 2 && slot.text != Text::Packed => {
            "0.15915494309189532"
        }
        InlineFloat::InvTwoPi => "0.15915494",
    };
    text.to_owned()
}

/// A literal. One that could have been an inline constant is marked, because the assembler would make it one; a 16-bit
/// operand shows its half of the word.
fn literal(word: u32, slot: Slot) -> String {
    let small = |value: i32| (-16..=64).contains(&value);
    let inlinable = match (slot.class, slot.text) {
        (Class::Immediate(Immediate::Number), _) => {
            if small(word as i32) {
                return (word as i32).to_string();
            }
            if let Some(&value) = INLINE_FLOATS.iter().find(|&&value| single_bits(value) == word) {
                return inline_float(value, slot, 1);
            }
            false
        }
        (Class::Immediate(_), _) => false,
        (_, Text::HalfFloat) => {
            let half = word as u16;
            small((half as i16).into()) || INLINE_FLOATS.iter().any(|&value| half_bits(value) == half)
        }
        (_, Text::PackedHalf) => {
            small(word as i32) || INLINE_FLOATS.iter().any(|&value| u32::from(half_bits(value)) == word)
        }
        (_, Text::Double) => match INLINE_FLOATS.iter().find(|&&value| double_high(value) == Some(word)) {
            Some(&value) => return inline_float(value, slot, 2),
            None if word == 0 => return "0".to_owned(),
            None => false,
        },
        (_, Text::Full | Text::Packed) if slot.dwords > 1 => word <= 64,
        (_, Text::Full | Text::Packed | Text::HalfInteger) => {
            small(word as i32) || INLINE_FLOATS.iter().any(|&value| single_bits(value) == word)
        }
    };
    match slot.text {
        _ if inlinable => format!("lit({word:#x})"),
        Text::HalfFloat | Text::HalfInteger => format!("{:#x}", word & 0xffff),
        Text::Full | Text::Double | Text::Packed | Text::PackedHalf => format!("{word:#x}"),
    }
}

/// An operand as text; `slot` is the row's word on it.
pub(super) fn text(operand: Operand, slot: Slot, tables: &Tables) -> String {
    let dwords = operand.dwords;
    match operand.kind {
        OperandKind::None => String::new(),
        OperandKind::Vgpr(n) => register("v", n.into(), dwords),
        OperandKind::Agpr(n) => register("a", n.into(), dwords),
        OperandKind::Sgpr(n) => register("s", n.into(), dwords),
        OperandKind::Ttmp(n) => register("ttmp", n.into(), dwords),
        OperandKind::Vcc(half) => halves("vcc", half, dwords),
        OperandKind::Exec(half) => halves("exec", half, dwords),
        OperandKind::FlatScratch(half) => halves("flat_scratch", half, dwords),
        OperandKind::XnackMask(half) => halves("xnack_mask", half, dwords),
        OperandKind::M0 => "m0".to_owned(),
        OperandKind::Null => "null".to_owned(),
        OperandKind::Aperture(0) => "src_shared_base".to_owned(),
        OperandKind::Aperture(1) => "src_shared_limit".to_owned(),
        OperandKind::Aperture(2) => "src_private_base".to_owned(),
        OperandKind::Aperture(_) => "src_private_limit".to_owned(),
        OperandKind::Vccz => "src_vccz".to_owned(),
        OperandKind::Execz => "src_execz".to_owned(),
        OperandKind::Scc => "src_scc".to_owned(),
        OperandKind::LdsDirect => "src_lds_direct".to_owned(),
        OperandKind::Int(value) => value.to_string(),
        OperandKind::Float(value) => inline_float(value, slot, dwords),
        OperandKind::Literal(word) => literal(word, slot),
        OperandKind::Imm(value) => match slot.class {
            Class::Immediate(what) => immediate::text(value, what, tables),
            _ => value.to_string(),
        },
    }
}
