//! DS: LDS and global data share.

use super::{Fetch, bare, bit, bit_if, bits, field, operand_bits};
use crate::table::row::{Encoding, GDS, Slot};
use crate::{DecodeError, Format, Inst, Operand};

/// A data register: a vector or accumulation register by the instruction's `acc` bit.
pub(super) fn data(fetch: &Fetch, number: u32, slot: Slot, accumulator: bool) -> Result<Operand, DecodeError> {
    if slot.is_some() { fetch.vector(number, slot.dwords, accumulator) } else { Ok(Operand::NONE) }
}

/// `src` is address and up to two data registers.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let (code_at, gds_at) = if fetch.since(Encoding::Gfx10) { (18, 17) } else { (17, 16) };
    let row = fetch.row(fetch.tables.ds, field(word, code_at, 8))?;
    let high = fetch.word(1)?;
    let mut inst = bare(row, Format::Ds, 2);
    let gds = bit_if(row.has(GDS) || !fetch.tables.unified && !fetch.since(Encoding::Gfx12), gds_at);
    let holds_data = [row.dst, row.src[1], row.src[2]].iter().any(|slot| slot.is_some());
    let accumulator = fetch.tables.unified && (holds_data || row.has(GDS) && row.src[0].is_some());
    fetch.only(0, bits(26, 6) | bit_if(accumulator, 25) | bits(code_at, 8) | gds | bits(0, 16))?;
    let address_and_data = [0, 8, 16].into_iter().zip(row.src);
    let known = address_and_data.fold(0, |known, (at, slot)| known | operand_bits(slot, at, 8));
    fetch.only(1, known | operand_bits(row.dst, 24, 8))?;
    let accumulator = accumulator && bit(word, 25);
    inst.mods.offset = field(word, 0, 16) as i32;
    inst.mods.gds = bit(word, gds_at);
    if row.has(GDS) && !inst.mods.gds {
        return Err(fetch.invalid("operation reaches the global data share only"));
    }
    inst.dst[0] = data(fetch, field(high, 24, 8), row.dst, accumulator)?;
    // Operations on the global data share's counters take their one register from the address field, as data.
    inst.src[0] = data(fetch, field(high, 0, 8), row.src[0], accumulator && row.has(GDS))?;
    inst.src[1] = data(fetch, field(high, 8, 8), row.src[1], accumulator)?;
    inst.src[2] = data(fetch, field(high, 16, 8), row.src[2], accumulator)?;
    Ok(inst)
}
