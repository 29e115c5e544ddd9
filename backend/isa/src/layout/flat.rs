//! FLAT with its GLOBAL and SCRATCH segments: loads and stores through 64-bit addresses.

use super::local::data;
use super::{Fetch, bare, bit, bit_if, bits, field, sign_extend};
use crate::table::row::{ADDTID, ATOMIC, Encoding, LDS, Row, Slot, WMMA};
use crate::{DecodeError, Format, Inst, Modifiers, WaveSize};

/// The scalar address that is none, from GFX11.
const NONE_GFX11: u32 = 0x7c;

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
            Fields { scalar: (scalar != NONE_GFX11).then_some(scalar), has_vector: bit(high, 23), ..old }
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
                scalar: (scalar != NONE_GFX11).then_some(scalar),
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
        check_bits(fetch, row, &inst)?;
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
    check_bits(fetch, row, &inst)?;
    Ok(inst)
}

/// Refuses bits that a decoded instruction has no use for.
fn check_bits(fetch: &Fetch, row: &Row, inst: &Inst) -> Result<(), DecodeError> {
    let cached = row.src[0].is_some() || row.dst.is_some();
    let scalar = inst.src[2].is_some();
    let [address, data, result] = [inst.src[0], inst.src[1], inst.dst[0]].map(|operand| operand.is_some());
    let byte = |present: bool, at: u32| if present { bits(at, 8) } else { 0 };
    let high = fetch.word(1)?;
    if fetch.since(Encoding::Gfx12) {
        let none = field(fetch.word(0)?, 0, 7) == NONE_GFX11;
        fetch.only(0, bits(26, 6) | bits(24, 2) | bits(14, 8) | if scalar || none { bits(0, 7) } else { 0 })?;
        let has_vector = bit_if(inst.format == Format::Scratch && address, 17);
        fetch.only(1, bits(18, 5) | byte(data, 23) | byte(result, 0) | has_vector)?;
        return fetch.only(2, byte(address, 0) | if cached { bits(8, 24) } else { 0 });
    }
    // What stands for no scalar address differs by segment and assembler.
    let code = field(high, 16, 7);
    let none = match fetch.tables.encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => code == 0x7f,
        Encoding::Gfx10 => code == 0x7f || code == 0x7d,
        _ => code == NONE_GFX11,
    };
    let scalar = if scalar || none { bits(16, 7) } else { 0 };
    let vector = inst.format == Format::Scratch && address;
    let unified = fetch.tables.unified;
    let accumulator = bit_if(unified && (data || result), 23);
    let (first, second) = match fetch.tables.encoding {
        Encoding::Gfx9 => (bits(26, 6) | bits(14, 11) | bits(0, 13) | bit_if(unified, 25), accumulator),
        Encoding::Gfx940 => (bits(14, 18) | bits(0, 13) | bit_if(vector, 13), accumulator),
        Encoding::Gfx10 => (bits(26, 6) | bits(14, 11) | bits(0, 13), 0),
        _ => (bits(26, 6) | bits(13, 12) | bits(0, 13), bit_if(vector, 23)),
    };
    // A flat address has no sign, and on RDNA one bit less of offset.
    let unsigned = match fetch.tables.encoding {
        _ if inst.format != Format::Flat => 0,
        Encoding::Gfx10 => bits(11, 1),
        Encoding::Gfx11 => bits(12, 1),
        _ => 0,
    };
    fetch.only(0, first & !unsigned)?;
    fetch.only(1, second | scalar | byte(address, 0) | byte(data, 8) | byte(result, 24))
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
