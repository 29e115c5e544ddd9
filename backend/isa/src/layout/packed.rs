//! VOP3P outside the CDNA line's matrix unit: packed and mixed arithmetic, dot products, WMMA.

use super::{Fetch, bare, bit, field, vop3};
use crate::table::row::{CLAMP, Class, Encoding, INDEXKEY, OPSEL, Row, Slot, WMMA};
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
    inst.mods.neg = field(high, 29, 3) as u8 & mask;
    inst.mods.abs = field(word, 8, 3) as u8 & mask;
    if row.has(OPSEL) || row.has(INDEXKEY) {
        inst.mods.op_sel = field(word, 11, 3) as u8 & mask;
    }
    inst.mods.op_sel_hi = (field(high, 27, 2) | field(word, 14, 1) << 2) as u8 & mask;
    inst.mods.clamp = row.has(CLAMP) && bit(word, 15);
    Ok(inst)
}
