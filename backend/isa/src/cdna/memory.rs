//! DS, FLAT with its GLOBAL and SCRATCH segments, and MUBUF.

use super::{Fetch, bare, bit, field, sign_extend};
use crate::table::row::{ATOMIC, GDS, LDS, LDSBIT, Row, STORE, Slot};
use crate::{DecodeError, Format, Inst, Operand};

/// The scalar address field that means "no scalar address".
const NO_SCALAR: u32 = 0x7f;

/// A data register: a vector or accumulation register by the instruction's `acc` bit.
fn data(fetch: &Fetch, number: u32, slot: Slot, accumulator: bool) -> Result<Operand, DecodeError> {
    if slot.is_some() { fetch.vector(number, slot.dwords, accumulator) } else { Ok(Operand::NONE) }
}

/// LDS and global data share: `src` is address and up to two data registers.
pub(super) fn ds(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row = fetch.row(fetch.tables.ds, field(word, 17, 8))?;
    let high = fetch.word(1)?;
    let accumulator = bit(word, 25);
    let mut inst = bare(row, Format::Ds, 2);
    inst.mods.offset = field(word, 0, 16) as i32;
    inst.mods.gds = bit(word, 16);
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

/// Loads and stores through 64-bit addresses: `src` is vector address, data and scalar address.
pub(super) fn flat(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let (format, table) = match field(word, 14, 2) {
        0 => (Format::Flat, fetch.tables.flat),
        1 => (Format::Scratch, fetch.tables.scratch),
        2 => (Format::Global, fetch.tables.global),
        _ => return Err(fetch.invalid("reserved segment")),
    };
    let row = fetch.row(table, field(word, 18, 7))?;
    let high = fetch.word(1)?;
    let mut inst = bare(row, format, 2);
    inst.mods.sc0 = bit(word, 16);
    inst.mods.nt = bit(word, 17);
    inst.mods.sc1 = bit(word, 25);
    inst.mods.lds = row.has(LDS);
    inst.mods.offset = match format {
        Format::Flat => field(word, 0, 13) as i32,
        _ => sign_extend(field(word, 0, 13), 13),
    };
    address(fetch, &mut inst, word, high)?;
    let accumulator = bit(high, 23);
    inst.src[1] = data(fetch, field(high, 8, 8), row.src[1], accumulator)?;
    if !row.has(ATOMIC) || inst.mods.sc0 {
        inst.dst[0] = data(fetch, field(high, 24, 8), row.dst, accumulator)?;
    }
    Ok(inst)
}

/// The vector and scalar address of a FLAT instruction, by segment.
fn address(fetch: &Fetch, inst: &mut Inst, word: u32, high: u32) -> Result<(), DecodeError> {
    let (vector, scalar) = (field(high, 0, 8), field(high, 16, 7));
    let has_scalar = scalar != NO_SCALAR;
    match inst.format {
        Format::Scratch => {
            // Bit 13 says that there is a vector address; scratch offsets are 32 bits wide.
            if bit(word, 13) {
                inst.src[0] = fetch.vector(vector, 1, false)?;
            }
            if has_scalar {
                inst.src[2] = fetch.scalar(scalar, 1)?;
            }
        }
        Format::Global if has_scalar => {
            inst.src[0] = fetch.vector(vector, 1, false)?;
            inst.src[2] = fetch.scalar(scalar, 2)?;
        }
        _ => inst.src[0] = fetch.vector(vector, 2, false)?,
    }
    Ok(())
}

/// Buffer loads and stores: `src` is vector address, data, resource descriptor and scalar offset.
pub(super) fn mubuf(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row: &Row = fetch.row(fetch.tables.mubuf, field(word, 18, 7))?;
    let high = fetch.word(1)?;
    let mut inst = bare(row, Format::Mubuf, 2);
    inst.mods.sc0 = bit(word, 14);
    inst.mods.sc1 = bit(word, 15);
    if !row.src[0].is_some() {
        return Ok(inst);
    }
    inst.mods.nt = bit(word, 17);
    inst.mods.offset = field(word, 0, 12) as i32;
    inst.mods.offen = bit(word, 12);
    inst.mods.idxen = bit(word, 13);
    inst.mods.lds = row.has(LDSBIT) && bit(word, 16);
    let accumulator = bit(high, 23);
    let number = field(high, 8, 8);
    if row.has(STORE) || row.has(ATOMIC) {
        inst.src[1] = data(fetch, number, row.src[1], accumulator)?;
    }
    if !inst.mods.lds && (!row.has(ATOMIC) || inst.mods.sc0) {
        inst.dst[0] = data(fetch, number, row.dst, accumulator)?;
    }
    let address_dwords = u8::from(inst.mods.offen) + u8::from(inst.mods.idxen);
    if address_dwords > 0 {
        inst.src[0] = fetch.vector(field(high, 0, 8), address_dwords, false)?;
    }
    inst.src[2] = fetch.scalar(field(high, 16, 5) << 2, 4)?;
    inst.src[3] = fetch.scalar_source(field(high, 24, 8), row.src[0], None)?;
    Ok(inst)
}
