//! Memory instructions as text: addresses, offsets and cache bits.

use super::{Line, operand};
use crate::table::row::{ATOMIC, GDS, LDS, NO, PAIR, STORE};
use crate::{Format, Inst, Op, Operand};

/// An address register, or `off` where there is none.
fn or_off(operand: Operand) -> String {
    if operand.is_some() { operand::text(operand, NO) } else { "off".to_owned() }
}

/// The data register, which for an atomic is read and perhaps written.
fn data(inst: &Inst) -> Operand {
    if inst.dst[0].is_some() { inst.dst[0] } else { inst.src[1] }
}

fn cache_bits(line: &mut Line) {
    let mods = &line.inst.mods;
    for (name, set) in [("sc0", mods.sc0), ("nt", mods.nt), ("sc1", mods.sc1)] {
        if set {
            line.modify(name);
        }
    }
}

/// A number in hexadecimal with its sign in front.
fn signed_hex(value: i32) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{:#x}", value.unsigned_abs())
}

/// SMEM.
pub(super) fn smem(line: &mut Line) {
    let (inst, row) = (line.inst, line.row);
    let data = if row.has(STORE) || row.has(ATOMIC) { inst.src[2] } else { inst.dst[0] };
    line.push(data, row.dst);
    line.push(inst.src[0], NO);
    if inst.src[0].is_some() {
        let offset = inst.mods.offset;
        if inst.src[1].is_some() {
            line.push(inst.src[1], NO);
            if offset != 0 {
                line.modify(&format!("offset:{}", signed_hex(offset)));
            }
        } else {
            line.operands.push(signed_hex(offset));
        }
    }
    if inst.mods.sc0 {
        line.modify("glc");
    }
}

/// DS.
pub(super) fn ds(line: &mut Line) {
    let (inst, row) = (line.inst, line.row);
    line.push(inst.dst[0], row.dst);
    for (src, slot) in inst.src.into_iter().zip(row.src) {
        line.push(src, slot);
    }
    let offset = inst.mods.offset as u32 & 0xffff;
    if row.has(PAIR) {
        for (name, value) in [("offset0", offset & 0xff), ("offset1", offset >> 8)] {
            if value != 0 {
                line.modify(&format!("{name}:{value}"));
            }
        }
    } else if offset != 0 {
        let pattern = if inst.op == Op::DsSwizzleB32 { swizzle_pattern(offset) } else { offset.to_string() };
        line.modify(&format!("offset:{pattern}"));
    }
    if row.has(GDS) {
        line.modify("gds");
    }
}

/// What `ds_swizzle_b32` makes of its offset: a permutation of four lanes, a rotation of a group, or and/or/xor masks on
/// the lane number, of which swaps, reversals and broadcasts are named.
fn swizzle_pattern(offset: u32) -> String {
    const GROUP: u32 = 32;
    match offset {
        0xe000.. => return format!("swizzle(FFT,{})", offset & 0x1f),
        0xc000.. => return format!("swizzle(ROTATE,{},{})", offset >> 10 & 1, offset >> 5 & 0x1f),
        0x8000..=0x80ff => {
            let lane = |i: u32| offset >> (2 * i) & 3;
            return format!("swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3));
        }
        0x8100.. => return offset.to_string(),
        _ => {}
    }
    let (and, or, xor) = (offset & 0x1f, offset >> 5 & 0x1f, offset >> 10 & 0x1f);
    let group = GROUP - and;
    if and == 0x1f && or == 0 && xor.is_power_of_two() {
        return format!("swizzle(SWAP,{xor})");
    }
    if and == 0x1f && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        return format!("swizzle(REVERSE,{})", xor + 1);
    }
    if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        return format!("swizzle(BROADCAST,{group},{or})");
    }
    let of_zero = or ^ xor;
    let of_ones = (and | or) ^ xor;
    let letter = |bit: u32| match (of_zero >> bit & 1, of_ones >> bit & 1) {
        (0, 0) => '0',
        (0, _) => 'p',
        (_, 0) => 'i',
        _ => '1',
    };
    format!("swizzle(BITMASK_PERM,\"{}\")", (0..5).rev().map(letter).collect::<String>())
}

/// FLAT, GLOBAL and SCRATCH.
pub(super) fn flat(line: &mut Line) {
    let (inst, row) = (line.inst, line.row);
    line.push(inst.dst[0], row.dst);
    line.operands.push(or_off(inst.src[0]));
    line.push(inst.src[1], row.src[1]);
    if inst.format != Format::Flat {
        line.operands.push(or_off(inst.src[2]));
    }
    if inst.mods.offset != 0 {
        line.modify(&format!("offset:{}", inst.mods.offset));
    }
    cache_bits(line);
}

/// MUBUF.
pub(super) fn mubuf(line: &mut Line) {
    let (inst, row) = (line.inst, line.row);
    if !row.src[0].is_some() {
        cache_bits(line);
        return;
    }
    line.push(data(inst), NO);
    line.operands.push(or_off(inst.src[0]));
    line.push(inst.src[2], NO);
    line.push(inst.src[3], row.src[0]);
    let mods = &inst.mods;
    for (name, set) in [("idxen", mods.idxen), ("offen", mods.offen)] {
        if set {
            line.modify(name);
        }
    }
    if mods.offset != 0 {
        line.modify(&format!("offset:{}", mods.offset));
    }
    cache_bits(line);
    if mods.lds && !row.has(LDS) {
        line.modify("lds");
    }
}
