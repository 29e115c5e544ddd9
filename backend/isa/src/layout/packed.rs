//! VOP3P outside the CDNA line's matrix unit: packed and mixed arithmetic, dot products, WMMA.

use super::{Fetch, bare, bit, bit_if, bits, field, operand_bits, vop3};
use crate::table::row::{CLAMP, Class, Encoding, INDEXKEY, M0, M1, M2, MIX, NEGHI, NEGLO, OPSEL, Row, Slot, WMMA};
use crate::{DecodeError, Format, Inst, WaveSize};

/// A row of WMMA under wave64, where each lane holds less of a matrix: on GFX11 the accumulators are half as long, on
/// GFX12 every matrix is.
fn for_wave64(fetch: &Fetch, row: &Row) -> Row {
    let halve = |slot: Slot| match slot.class {
        Class::Absent => slot,
        _ => Slot { dwords: slot.dwords.div_ceil(2), ..slot },
    };
    let mut row = *row;
    row.dst = halve(row.dst);
    row.src[2] = halve(row.src[2]);
    if fetch.since(Encoding::Gfx12) {
        row.src[0] = halve(row.src[0]);
        row.src[1] = halve(row.src[1]);
    }
    row
}

/// Refuses bits that the row does not know; `sources` has one bit a source.
fn check_bits(fetch: &Fetch, row: &Row, sources: u32) -> Result<(), DecodeError> {
    const FORMAT_AND_OPCODE: u32 = bits(16, 16);
    const INDEX_KEY: u32 = 0b11;
    const ALL: u32 = 0b111;
    let if_has = |flag: u64, known: u32| if row.has(flag) { known } else { 0 };
    // GFX9 has negation of both halves in every packed instruction.
    let always = if fetch.since(Encoding::Gfx10) { 0 } else { sources };
    // A row that names a source has signs for that one alone.
    let signed = match row.source_mask([M0, M1, M2]) {
        0 => sources,
        named => named.into(),
    };
    let low = always | if_has(MIX, sources) | if_has(NEGLO, signed);
    let high = always | if_has(MIX, sources) | if_has(NEGHI, signed);
    let select = if_has(OPSEL, sources) | if_has(INDEXKEY, INDEX_KEY);
    // Assemblers set the bits of `op_sel_hi` that nothing reads, and did not before LLVM 12: all of them or none.
    let unread = ALL & !if_has(OPSEL, sources);
    let (word, second) = (fetch.word(0)?, fetch.word(1)?);
    let select_high = field(second, 27, 2) | field(word, 14, 1) << 2;
    if ![0, unread].contains(&(select_high & unread)) {
        return Err(fetch.invalid("op_sel_hi of a source that is not there"));
    }
    let destination = operand_bits(row.dst, 0, 8);
    fetch.only(
        0,
        FORMAT_AND_OPCODE | destination | high << 8 | select << 11 | bits(14, 1) | bit_if(row.has(CLAMP), 15),
    )?;
    fetch.only(1, vop3::source_bits(row) | bits(27, 2) | low << 29)
}

/// Decodes VOP3P.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let listed = fetch.row(fetch.tables.vop3p, field(word, 16, 7))?;
    let row = match fetch.wave {
        WaveSize::Wave64 if listed.has(WMMA) => &for_wave64(fetch, listed),
        _ => listed,
    };
    let high = fetch.word(1)?;
    let mut inst = bare(row, Format::Vop3p, 2);
    inst.dst[0] = fetch.destination(field(word, 0, 8), row.dst)?;
    vop3::sources(fetch, row, high, &mut inst)?;
    let sources = row.src.iter().filter(|slot| slot.is_some()).count();
    let mask = (1u8 << sources) - 1;
    check_bits(fetch, row, mask.into())?;
    inst.mods.neg = field(high, 29, 3) as u8 & mask;
    inst.mods.abs = field(word, 8, 3) as u8 & mask;
    if row.has(OPSEL) || row.has(INDEXKEY) {
        inst.mods.op_sel = field(word, 11, 3) as u8 & mask;
    }
    inst.mods.op_sel_hi = (field(high, 27, 2) | field(word, 14, 1) << 2) as u8 & mask;
    inst.mods.clamp = row.has(CLAMP) && bit(word, 15);
    Ok(inst)
}
