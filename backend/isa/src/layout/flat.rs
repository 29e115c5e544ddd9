//! FLAT with its GLOBAL and SCRATCH segments: loads and stores through 64-bit addresses.

use super::local::data;
use super::{Fetch, bare, bit, field, sign_extend};
use crate::table::row::{ADDTID, ATOMIC, Encoding, LDS, Slot, WMMA};
use crate::{DecodeError, Format, Inst, Modifiers, WaveSize};

/// What the layouts of all generations say, wherever they keep it.
struct Fields {
    address: u32,
    data: u32,
    destination: u32,
    accumulator: bool,
    /// The scalar address, unless its field says that there is none.
    scalar: Option<u32>,
    /// Scratch: whether there is a vector address.
    has_vector: bool,
}

/// The fields that name registers, and the rest in `mods`.
fn fields(fetch: &Fetch, word: u32, format: Format, mods: &mut Modifiers) -> Result<Fields, DecodeError> {
    let high = fetch.word(1)?;
    let signed = |bits: u32| match format {
        Format::Flat => field(word, 0, bits) as i32,
        _ => sign_extend(field(word, 0, bits), bits),
    };
    let scalar = field(high, 16, 7);
    let old = Fields {
        address: field(high, 0, 8),
        data: field(high, 8, 8),
        destination: field(high, 24, 8),
        accumulator: false,
        scalar: None,
        has_vector: true,
    };
    Ok(match fetch.tables.encoding {
        encoding @ (Encoding::Gfx9 | Encoding::Gfx940) => {
            (mods.sc0, mods.nt, mods.sc1) = (bit(word, 16), bit(word, 17), fetch.tables.unified && bit(word, 25));
            mods.offset = signed(13);
            let scalar = (scalar != 0x7f).then_some(scalar);
            let has_vector = match encoding {
                // Bit 13 says that there is a vector address; before GFX940 there is one where there is no scalar one.
                Encoding::Gfx940 => bit(word, 13),
                _ => scalar.is_none(),
            };
            Fields { accumulator: fetch.tables.unified && bit(high, 23), scalar, has_vector, ..old }
        }
        Encoding::Gfx10 => {
            (mods.sc0, mods.nt, mods.dlc) = (bit(word, 16), bit(word, 17), bit(word, 12));
            mods.offset = match format {
                Format::Flat => field(word, 0, 11) as i32,
                _ => sign_extend(field(word, 0, 12), 12),
            };
            // Scratch without a vector address and without a scalar one has a code of its own.
            let scalar_or_none = (scalar != 0x7d && scalar != 0x7f).then_some(scalar);
            Fields { scalar: scalar_or_none, has_vector: scalar == 0x7d, ..old }
        }
        Encoding::Gfx11 => {
            (mods.sc0, mods.nt, mods.dlc) = (bit(word, 14), bit(word, 15), bit(word, 13));
            mods.offset = match format {
                Format::Flat => field(word, 0, 12) as i32,
                _ => sign_extend(field(word, 0, 13), 13),
            };
            Fields { scalar: (scalar != 0x7c).then_some(scalar), has_vector: bit(high, 23), ..old }
        }
        Encoding::Gfx12 => {
            let third = fetch.word(2)?;
            (mods.scope, mods.th) = (field(high, 18, 2) as u8, field(high, 20, 3) as u8);
            mods.offset = sign_extend(field(third, 8, 24), 24);
            let scalar = field(word, 0, 7);
            Fields {
                address: field(third, 0, 8),
                data: field(high, 23, 8),
                destination: field(high, 0, 8),
                accumulator: false,
                scalar: (scalar != 0x7c).then_some(scalar),
                has_vector: bit(high, 17),
            }
        }
    })
}

/// `src` is vector address, data and scalar address.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let segment = match fetch.tables.encoding {
        Encoding::Gfx9 | Encoding::Gfx940 | Encoding::Gfx10 => field(word, 14, 2),
        Encoding::Gfx11 => field(word, 16, 2),
        Encoding::Gfx12 => field(word, 24, 2),
    };
    let (format, table) = match segment {
        0 => (Format::Flat, fetch.tables.flat),
        1 => (Format::Scratch, fetch.tables.scratch),
        2 => (Format::Global, fetch.tables.global),
        _ => return Err(fetch.invalid("reserved segment")),
    };
    let mut mods = Modifiers::NONE;
    let code = match fetch.tables.encoding {
        Encoding::Gfx12 => field(word, 14, 8),
        _ => field(word, 18, 7),
    };
    let row = fetch.row(table, code)?;
    let fields = fields(fetch, word, format, &mut mods)?;
    let mut inst = bare(row, format, if fetch.since(Encoding::Gfx12) { 3 } else { 2 });
    inst.mods = mods;
    if fetch.since(Encoding::Gfx12) {
        // The lowest bit of an atomic's temporal hint asks for the old value.
        inst.mods.sc0 = row.has(ATOMIC) && inst.mods.th & 1 != 0;
    }
    inst.mods.lds = row.has(LDS);
    if !row.src[0].is_some() {
        // Cache control has no operands.
        inst.mods.offset = 0;
        return Ok(inst);
    }
    address(fetch, &mut inst, &fields, row.has(ADDTID))?;
    inst.src[1] = data(fetch, fields.data, row.src[1], fields.accumulator)?;
    if !row.has(ATOMIC) || inst.mods.sc0 {
        // Under wave64 a lane holds half of what it holds of a transposed matrix under wave32.
        let halved = row.has(WMMA) && fetch.wave == WaveSize::Wave64;
        let slot = if halved { Slot { dwords: row.dst.dwords / 2, ..row.dst } } else { row.dst };
        inst.dst[0] = data(fetch, fields.destination, slot, fields.accumulator)?;
    }
    Ok(inst)
}

/// The vector and scalar address, by segment.
fn address(fetch: &Fetch, inst: &mut Inst, fields: &Fields, lane_implied: bool) -> Result<(), DecodeError> {
    match (inst.format, fields.scalar) {
        (Format::Scratch, scalar) => {
            // Scratch offsets are 32 bits wide.
            if fields.has_vector {
                inst.src[0] = fetch.vector(fields.address, 1, false)?;
            }
            if let Some(scalar) = scalar {
                inst.src[2] = fetch.scalar(scalar, 1)?;
            }
        }
        (_, scalar) if lane_implied => {
            if let Some(scalar) = scalar {
                inst.src[2] = fetch.scalar(scalar, 2)?;
            }
        }
        (Format::Global, Some(scalar)) => {
            inst.src[0] = fetch.vector(fields.address, 1, false)?;
            inst.src[2] = fetch.scalar(scalar, 2)?;
        }
        _ => inst.src[0] = fetch.vector(fields.address, 2, false)?,
    }
    Ok(())
}
