//! Memory instructions as text: addresses, offsets and cache bits.

use super::{InstText, operand};
use crate::table::row::{ADDTID, ATOMIC, Class, Encoding, Immediate, LDS, NO, PAIR, STORE};
use crate::{Format, Inst, Op, Operand, OperandKind};

/// An address register, or `off` where there is none.
fn or_off(line: &InstText, operand: Operand) -> String {
    if operand.is_some() { operand::text(operand, NO, line.tables) } else { "off".to_owned() }
}

/// The data register, which for an atomic is read and perhaps written.
fn data(inst: &Inst) -> Operand {
    if inst.dst[0].is_some() { inst.dst[0] } else { inst.src[1] }
}

/// What the instruction asks of the caches, as each generation says it.
fn cache_bits(line: &mut InstText) {
    let mods = &line.inst.mods;
    let names = match line.tables.encoding {
        Encoding::Gfx940 => ["sc0", "nt", "", "sc1"],
        Encoding::Gfx9 | Encoding::Gfx10 | Encoding::Gfx11 => ["glc", "slc", "dlc", "scc"],
        Encoding::Gfx12 => return temporal_hint(line),
    };
    for (name, set) in names.into_iter().zip([mods.sc0, mods.nt, mods.dlc, mods.sc1]) {
        if set {
            line.modify(name);
        }
    }
}

const SCOPES: [&str; 4] = ["", "SCOPE_SE", "SCOPE_DEV", "SCOPE_SYS"];
const DEVICE_SCOPE: u8 = 2;
const SYSTEM_SCOPE: u8 = 3;
/// Temporal hints by number; the third means something else at system scope.
const LOAD_HINTS: [&str; 8] = ["", "NT", "HT", "LU", "NT_RT", "RT_NT", "NT_HT", ""];
const STORE_HINTS: [&str; 8] = ["", "NT", "HT", "WB", "NT_RT", "RT_NT", "NT_HT", "NT_WB"];
const ATOMIC_HINTS: [&str; 8] =
    ["", "RETURN", "NT", "NT_RETURN", "CASCADE_RT", "CASCADE_RT", "CASCADE_NT", "CASCADE_NT"];
const LAST_USE: u8 = 3;

fn temporal_hint(line: &mut InstText) {
    let (th, scope) = (line.inst.mods.th, line.inst.mods.scope);
    let at = usize::from(th & 7);
    let hint = if th == 0 {
        None
    } else if line.row.has(ATOMIC) {
        Some(match at {
            4.. if scope < DEVICE_SCOPE => format!("TH_ATOMIC_{th:#x}"),
            _ => format!("TH_ATOMIC_{}", ATOMIC_HINTS[at]),
        })
    } else {
        let store = !line.inst.dst[0].is_some() && line.inst.src[1].is_some();
        let (kind, name) = if store { ("STORE", STORE_HINTS[at]) } else { ("LOAD", LOAD_HINTS[at]) };
        Some(match name {
            _ if th == LAST_USE && scope == SYSTEM_SCOPE => format!("TH_{kind}_BYPASS"),
            "" => format!("{th:#x}"),
            _ => format!("TH_{kind}_{name}"),
        })
    };
    if let Some(hint) = hint {
        line.modify(&format!("th:{hint}"));
    }
    if scope != 0 {
        line.modify(&format!("scope:{}", SCOPES[usize::from(scope & 3)]));
    }
}

/// A number in hexadecimal with its sign in front.
fn signed_hex(value: i32) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{:#x}", value.unsigned_abs())
}

/// SMEM.
pub(super) fn smem(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    if row.dst.class == Class::Immediate(Immediate::PrefetchLength) {
        return prefetch(line);
    }
    let data = if row.has(STORE) || row.has(ATOMIC) { inst.src[2] } else { inst.dst[0] };
    line.push(data, row.dst);
    line.push(inst.src[0], NO);
    if inst.src[0].is_some() {
        let offset = inst.mods.offset;
        if inst.src[1].is_some() {
            line.push(inst.src[1], NO);
            if offset != 0 || inst.mods.offen {
                line.modify(&format!("offset:{}", signed_hex(offset)));
            }
        } else if offset == 0 && matches!(line.tables.encoding, Encoding::Gfx10 | Encoding::Gfx11) {
            line.operands.push("null".to_owned());
        } else {
            line.operands.push(signed_hex(offset));
        }
    }
    match line.tables.encoding {
        Encoding::Gfx940 if inst.mods.sc0 => line.modify("glc"),
        Encoding::Gfx940 => {}
        _ => cache_bits(line),
    }
}

/// Prefetches: base, offset, scalar offset, length.
fn prefetch(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    line.push(inst.src[0], NO);
    line.operands.push(signed_hex(inst.mods.offset));
    line.push(if inst.src[1].is_some() { inst.src[1] } else { Operand { kind: OperandKind::Null, dwords: 1 } }, NO);
    line.push(inst.src[2], row.dst);
}

/// DS.
pub(super) fn ds(line: &mut InstText) {
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
    if inst.mods.gds {
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
pub(super) fn flat(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    line.push(inst.dst[0], row.dst);
    if !row.src[0].is_some() {
        return cache_bits(line);
    }
    if !row.has(ADDTID) {
        let address = or_off(line, inst.src[0]);
        line.operands.push(address);
    }
    line.push(inst.src[1], row.src[1]);
    if inst.format != Format::Flat {
        let base = or_off(line, inst.src[2]);
        line.operands.push(base);
    }
    if inst.mods.offset != 0 {
        line.modify(&format!("offset:{}", inst.mods.offset));
    }
    cache_bits(line);
}

/// MUBUF.
pub(super) fn mubuf(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    if !row.src[0].is_some() {
        cache_bits(line);
        return;
    }
    line.push(data(inst), NO);
    let address = or_off(line, inst.src[0]);
    line.operands.push(address);
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
