//! Vector instructions as text: source modifiers, sub-dword and swizzle forms, packed and matrix modifiers.

use super::{InstText, operand};
use crate::table::row::{
    BCFI, BITOP3, BYTESEL, CIN, CLAMP, CMPX, Class, Encoding, INDEXKEY, LANES, MIX, NEGB, NEGHI, NEGLO, NO, OPSEL,
    SRCBYTE, SWAP, Slot, TIED, UNSAID, WHOLE,
};
use crate::{Dpp, Format, Operand, OperandKind, Sdwa, SdwaSel, SdwaUnused};

/// Wraps a source in its modifiers. Constants are negated with `neg()`, because `-1` is another constant than `neg(1)`.
fn modified(line: &InstText, operand: Operand, slot: Slot, neg: bool, abs: bool) -> String {
    let text = operand::text(operand, slot, line.tables);
    let constant = matches!(operand.kind, OperandKind::Int(_) | OperandKind::Float(_) | OperandKind::Literal(_));
    match (neg, abs) {
        (false, false) => text,
        // A literal that is marked as one cannot be mistaken.
        (true, false) if constant && !text.starts_with("lit(") => format!("neg({text})"),
        (true, false) => format!("-{text}"),
        (false, true) => format!("|{text}|"),
        (true, true) => format!("-|{text}|"),
    }
}

/// `[1,0,1]` of the lowest `count` bits.
fn bits(value: u8, count: usize) -> String {
    let digits: Vec<_> = (0..count).map(|i| if value >> i & 1 != 0 { "1" } else { "0" }).collect();
    format!("[{}]", digits.join(","))
}

fn output_modifiers(line: &mut InstText) {
    if line.inst.mods.clamp {
        line.modify("clamp");
    }
    match line.inst.mods.omod {
        1 => line.modify("mul:2"),
        2 => line.modify("mul:4"),
        3 => line.modify("div:2"),
        _ => {}
    }
}

/// The row's word on source `i` of the instruction, where implied and literal operands may have moved in between.
fn slot_of(line: &InstText, i: usize) -> Slot {
    line.row.src.get(i).copied().unwrap_or(NO)
}

/// A register of a row that names registers by halves, with the half that `op_sel` selects.
fn with_half(text: String, operand: Operand, slot: Slot, high: bool) -> String {
    match operand.kind {
        OperandKind::Vgpr(_) if slot.half => text + if high { ".h" } else { ".l" },
        _ => text,
    }
}

/// VOP1, VOP2, VOPC and VOP3.
pub(super) fn vector(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    if inst.dst[0].is_some() && !row.has(CMPX) {
        let text = operand::text(inst.dst[0], row.dst, line.tables);
        line.operands.push(with_half(text, inst.dst[0], row.dst, inst.mods.op_sel >> 3 & 1 != 0));
    }
    if !row.has(SWAP) {
        line.push(inst.dst[1], NO);
    }
    // VOP3's implied carry-in is not written; the 32-bit formats' is.
    let written = if inst.format == Format::Vop3 && row.has(CIN) { 3 } else { 4 };
    for (i, src) in inst.src.into_iter().take(written).enumerate().filter(|(_, src)| src.is_some()) {
        let (neg, abs) = match row.has(BITOP3) {
            true => (false, false),
            false => (inst.mods.neg >> i & 1 != 0, inst.mods.abs >> i & 1 != 0),
        };
        let slot = slot_of(line, i);
        let half = |text| with_half(text, src, slot, inst.mods.op_sel >> i & 1 != 0);
        let text = match slot.half && !neg && !abs {
            true => half(operand::text(src, slot, line.tables)),
            // The half stands inside the bars.
            false if slot.half && abs => {
                let inner = half(operand::text(src, slot, line.tables));
                if neg { format!("-|{inner}|") } else { format!("|{inner}|") }
            }
            false => half(modified(line, src, slot, neg, abs)),
        };
        let extended = inst.mods.sdwa.is_some_and(|sdwa| i < 2 && sdwa.src_sext[i]);
        line.operands.push(if extended { format!("sext({text})") } else { text });
    }
    if row.has(BITOP3) {
        truth_table(line);
    }
    if row.has(OPSEL) && !row.has(UNSAID) && inst.format == Format::Vop3 {
        operand_select(line);
    }
    if !row.has(BITOP3) {
        output_modifiers(line);
    }
    if let Some(sdwa) = inst.mods.sdwa {
        sub_dword(line, &sdwa);
    }
    swizzles(line);
}

/// `op_sel`, or the byte of source or destination that its bits select.
fn operand_select(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    let op_sel = inst.mods.op_sel;
    if line.tables.encoding >= Encoding::Gfx12 && (row.has(BYTESEL) || row.has(SRCBYTE)) {
        // The lower bit of the number is the higher bit of the field for a source.
        let byte = if row.has(SRCBYTE) { (op_sel & 1) << 1 | op_sel >> 1 & 1 } else { op_sel >> 2 };
        if byte != 0 {
            line.modify(&format!("byte_sel:{byte}"));
        }
        return;
    }
    if op_sel == 0 {
        return;
    }
    if row.has(BCFI) {
        for (i, name) in ["fi:1", "bound_ctrl:1"].into_iter().enumerate() {
            if op_sel >> i & 1 != 0 {
                line.modify(name);
            }
        }
        return;
    }
    // One bit a source, and bit 3, written last, for the destination; or two bits for a byte of it.
    let sources = match row.has(BYTESEL) || row.has(TIED) {
        true => 3,
        false if row.has(LANES) => 2,
        false => row.src.iter().filter(|slot| slot.is_some()).count(),
    };
    let low = op_sel & ((1 << sources) - 1);
    // A compare has no bit for its lane mask, although the text of one that is not swizzled has a place for it.
    let swizzled = inst.mods.dpp.is_some() || inst.mods.dpp8.is_some();
    if row.has(LANES) || row.has(CMPX) || swizzled && row.dst.class == Class::Scalar {
        line.modify(&format!("op_sel:{}", bits(low, sources)));
    } else {
        line.modify(&format!("op_sel:{}", bits(low | (op_sel >> 3) << sources, sources + 1)));
    }
}

/// The truth table of `v_bitop3`, in the fields that are modifiers elsewhere.
fn truth_table(line: &mut InstText) {
    let mods = &line.inst.mods;
    let table = mods.omod << 6 | mods.abs << 3 | mods.neg;
    if table != 0 {
        // Small tables are written in decimal, as llvm-objdump does.
        match table {
            0..=10 => line.modify(&format!("bitop3:{table}")),
            _ => line.modify(&format!("bitop3:{table:#x}")),
        }
    }
}

/// DPP in both its forms.
fn swizzles(line: &mut InstText) {
    if let Some(dpp) = line.inst.mods.dpp {
        swizzle(line, &dpp);
    }
    if let Some(dpp8) = line.inst.mods.dpp8 {
        let lanes: Vec<_> = dpp8.lanes.iter().map(u8::to_string).collect();
        line.modify(&format!("dpp8:[{}]", lanes.join(",")));
        if dpp8.fetch_inactive {
            line.modify("fi:1");
        }
    }
}

fn select(sel: SdwaSel) -> &'static str {
    match sel {
        SdwaSel::Byte0 => "BYTE_0",
        SdwaSel::Byte1 => "BYTE_1",
        SdwaSel::Byte2 => "BYTE_2",
        SdwaSel::Byte3 => "BYTE_3",
        SdwaSel::Word0 => "WORD_0",
        SdwaSel::Word1 => "WORD_1",
        SdwaSel::Dword => "DWORD",
    }
}

fn sub_dword(line: &mut InstText, sdwa: &Sdwa) {
    if line.inst.format != Format::Vopc && !line.row.has(WHOLE) {
        let unused = match sdwa.dst_unused {
            SdwaUnused::Pad => "UNUSED_PAD",
            SdwaUnused::Sext => "UNUSED_SEXT",
            SdwaUnused::Preserve => "UNUSED_PRESERVE",
        };
        line.modify(&format!("dst_sel:{} dst_unused:{unused}", select(sdwa.dst_sel)));
    }
    line.modify(&format!("src0_sel:{}", select(sdwa.src_sel[0])));
    if line.row.src[1].is_some() {
        line.modify(&format!("src1_sel:{}", select(sdwa.src_sel[1])));
    }
}

fn swizzle(line: &mut InstText, dpp: &Dpp) {
    let ctrl = dpp.ctrl;
    let low = ctrl & 0xf;
    let name = match ctrl {
        0x000..=0x0ff => {
            let lane = |i: u16| ctrl >> (2 * i) & 3;
            format!("quad_perm:[{},{},{},{}]", lane(0), lane(1), lane(2), lane(3))
        }
        0x101..=0x10f => format!("row_shl:{low}"),
        0x111..=0x11f => format!("row_shr:{low}"),
        0x121..=0x12f => format!("row_ror:{low}"),
        0x130 => "wave_shl:1".to_owned(),
        0x134 => "wave_rol:1".to_owned(),
        0x138 => "wave_shr:1".to_owned(),
        0x13c => "wave_ror:1".to_owned(),
        0x140 => "row_mirror".to_owned(),
        0x141 => "row_half_mirror".to_owned(),
        0x142 => "row_bcast:15".to_owned(),
        0x143 => "row_bcast:31".to_owned(),
        0x160..=0x16f => format!("row_xmask:{low}"),
        _ if line.tables.encoding >= Encoding::Gfx10 => format!("row_share:{low}"),
        _ => format!("row_newbcast:{low}"),
    };
    line.modify(&format!("{name} row_mask:{:#x} bank_mask:{:#x}", dpp.row_mask, dpp.bank_mask));
    if dpp.bound_ctrl {
        line.modify("bound_ctrl:1");
    }
    if dpp.fetch_inactive {
        line.modify("fi:1");
    }
}

/// VOP3P outside the matrix unit.
pub(super) fn packed(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    let mods = &inst.mods;
    let mixed = row.has(MIX);
    let sources = row.src.iter().filter(|slot| slot.is_some()).count();
    let all = (1u8 << sources) - 1;
    line.push(inst.dst[0], row.dst);
    for (i, (src, slot)) in inst.src.into_iter().zip(row.src).enumerate().filter(|(_, (src, _))| src.is_some()) {
        let (neg, abs) = (mods.neg >> i & 1 != 0, mods.abs >> i & 1 != 0);
        line.operands.push(modified(line, src, slot, mixed && neg, mixed && abs));
    }
    if row.has(INDEXKEY) && mods.op_sel & 3 != 0 {
        line.modify(&format!("index_key:{}", mods.op_sel & 3));
    }
    if row.has(OPSEL) {
        if mods.op_sel != 0 {
            line.modify(&format!("op_sel:{}", bits(mods.op_sel, sources)));
        }
        // Packed operations read the high half for the high result unless told otherwise; mixed ones read f32.
        let usual = if mixed { 0 } else { all };
        if mods.op_sel_hi != usual {
            line.modify(&format!("op_sel_hi:{}", bits(mods.op_sel_hi, sources)));
        }
    }
    // GFX9 has both in every packed instruction that is not mixed.
    let always = !mixed && line.tables.encoding < Encoding::Gfx10;
    if (always || row.has(NEGLO)) && mods.neg != 0 {
        line.modify(&format!("neg_lo:{}", bits(mods.neg, sources)));
    }
    if (always || row.has(NEGHI)) && mods.abs != 0 {
        line.modify(&format!("neg_hi:{}", bits(mods.abs, sources)));
    }
    if row.has(CLAMP) {
        output_modifiers(line);
    }
    swizzles(line);
}

/// The matrix unit and the moves to and from its registers.
pub(super) fn matrix(line: &mut InstText) {
    let (inst, row) = (line.inst, line.row);
    line.push(inst.dst[0], row.dst);
    for (src, slot) in inst.src.into_iter().zip(row.src) {
        line.push(src, slot);
    }
    let mods = &inst.mods;
    if let Some(scale) = mods.scale {
        line.push(scale.a, NO);
        line.push(scale.b, NO);
        if mods.op_sel & 3 != 0 {
            line.modify(&format!("op_sel:{}", bits(mods.op_sel, 3)));
        }
        line.modify(&format!("op_sel_hi:{}", bits(mods.op_sel_hi, 3)));
    }
    for (name, value) in [("cbsz", mods.cbsz), ("abid", mods.abid), ("blgp", mods.blgp)] {
        if value != 0 {
            line.modify(&format!("{name}:{value}"));
        }
    }
    if row.has(NEGB) && mods.neg != 0 {
        line.modify(&format!("neg:{}", bits(mods.neg, 3)));
    }
}
