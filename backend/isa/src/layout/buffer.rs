//! MUBUF (VBUFFER on GFX12): loads and stores through a resource descriptor.

use super::local::data;
use super::{Fetch, bare, bit, bit_if, bits, field, sign_extend};
use crate::table::row::{ATOMIC, Encoding, LDS, LDSBIT, Row, STORE, Slot};
use crate::{DecodeError, Format, Inst, Modifiers, Op};

/// What the layouts of all generations say, wherever they keep it.
struct Fields {
    address: u32,
    data: u32,
    accumulator: bool,
    /// First scalar register of the descriptor.
    resource: u32,
    scalar_offset: u32,
    lds: bool,
    /// The load also returns whether its texels were resident.
    residency: bool,
}

fn code(fetch: &Fetch, word: u32) -> u32 {
    match fetch.tables.encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => field(word, 18, 7),
        Encoding::Gfx10 => field(word, 18, 7) | field(word, 25, 1) << 7,
        Encoding::Gfx11 => field(word, 18, 8),
        Encoding::Gfx12 => field(word, 14, 8),
    }
}

/// The fields that name registers, and the rest in `mods`.
fn fields(fetch: &Fetch, word: u32, mods: &mut Modifiers) -> Result<Fields, DecodeError> {
    let high = fetch.word(1)?;
    mods.offset = field(word, 0, 12) as i32;
    let old = Fields {
        address: field(high, 0, 8),
        data: field(high, 8, 8),
        accumulator: false,
        resource: field(high, 16, 5) << 2,
        scalar_offset: field(high, 24, 8),
        lds: bit(word, 16),
        residency: false,
    };
    Ok(match fetch.tables.encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => {
            (mods.sc0, mods.nt, mods.sc1) = (bit(word, 14), bit(word, 17), fetch.tables.unified && bit(word, 15));
            (mods.offen, mods.idxen) = (bit(word, 12), bit(word, 13));
            let bit23 = bit(high, 23);
            Fields { accumulator: fetch.tables.unified && bit23, residency: !fetch.tables.unified && bit23, ..old }
        }
        Encoding::Gfx10 => {
            (mods.sc0, mods.nt, mods.dlc) = (bit(word, 14), bit(high, 22), bit(word, 15));
            (mods.offen, mods.idxen) = (bit(word, 12), bit(word, 13));
            Fields { residency: bit(high, 23), ..old }
        }
        Encoding::Gfx11 => {
            (mods.sc0, mods.nt, mods.dlc) = (bit(word, 14), bit(word, 12), bit(word, 13));
            (mods.offen, mods.idxen) = (bit(high, 22), bit(high, 23));
            Fields { residency: bit(high, 21), lds: false, ..old }
        }
        Encoding::Gfx12 => {
            let third = fetch.word(2)?;
            (mods.scope, mods.th) = (field(high, 18, 2) as u8, field(high, 20, 3) as u8);
            (mods.offen, mods.idxen) = (bit(high, 30), bit(high, 31));
            mods.offset = sign_extend(field(third, 8, 24), 24);
            Fields {
                address: field(third, 0, 8),
                data: field(high, 0, 8),
                accumulator: false,
                resource: field(high, 9, 7),
                scalar_offset: field(word, 0, 7),
                lds: false,
                residency: bit(word, 22),
            }
        }
    })
}

/// Refuses bits that a decoded instruction has no use for.
fn check_bits(fetch: &Fetch, row: &Row, inst: &Inst) -> Result<(), DecodeError> {
    let reaches_memory = row.src[0].is_some();
    let if_reaches = |known: u32| if reaches_memory { known } else { 0 };
    let byte = |present: bool, at: u32| if present { bits(at, 8) } else { 0 };
    let address = inst.src[0].is_some();
    let data = inst.src[1].is_some() || inst.dst[0].is_some();
    let unified = fetch.tables.unified;
    if fetch.since(Encoding::Gfx12) {
        fetch.only(0, bits(26, 6) | bits(14, 8) | if_reaches(bits(0, 7)))?;
        // A format of 0 or 1 stands where the operation has none.
        let format = if field(fetch.word(1)?, 23, 7) == 1 { bits(23, 1) } else { 0 };
        fetch.only(1, format | byte(data, 0) | if_reaches(bits(9, 7) | bits(18, 5) | bits(30, 2)))?;
        return fetch.only(2, byte(address, 0) | if_reaches(bits(8, 24)));
    }
    let lds = bit_if(row.has(LDSBIT), 16);
    let (first, second) = match fetch.tables.encoding {
        Encoding::Gfx9 | Encoding::Gfx940 => {
            let device = bit_if(unified, 15);
            // Compilers set the bits in a write back of gfx90a too, whose text does not say them.
            let writes_back = fetch.tables.encoding == Encoding::Gfx940 || row.op == Op::BufferWbl2;
            let kept = if unified && writes_back { bits(14, 1) | device } else { 0 };
            let cache = if reaches_memory { bits(12, 3) | bits(17, 1) | device } else { kept };
            (bits(18, 7) | cache | lds, bit_if(unified && data, 23))
        }
        Encoding::Gfx10 => (bits(18, 8) | if_reaches(bits(12, 3) | bit_if(!row.has(ATOMIC), 15)) | lds, bits(22, 1)),
        _ => (bits(18, 8) | if_reaches(bits(12, 3)), bits(22, 2)),
    };
    fetch.only(0, bits(26, 6) | first | if_reaches(bits(0, 12)))?;
    fetch.only(1, byte(address, 0) | byte(data, 8) | if_reaches(bits(16, 5) | bits(24, 8) | second))
}

/// `src` is vector address, data, resource descriptor and scalar offset.
pub(super) fn decode(fetch: &Fetch, word: u32) -> Result<Inst, DecodeError> {
    let row: &Row = fetch.row(fetch.tables.mubuf, code(fetch, word))?;
    let mut mods = Modifiers::NONE;
    let fields = fields(fetch, word, &mut mods)?;
    let mut inst = bare(row, Format::Mubuf, if fetch.since(Encoding::Gfx12) { 3 } else { 2 });
    if !row.src[0].is_some() {
        if fetch.tables.encoding == Encoding::Gfx940 {
            (inst.mods.sc0, inst.mods.sc1) = (mods.sc0, mods.sc1);
        }
        check_bits(fetch, row, &inst)?;
        return Ok(inst);
    }
    if fields.residency {
        return Err(fetch.invalid("texture fail enable belongs to graphics"));
    }
    inst.mods = mods;
    if fetch.since(Encoding::Gfx12) {
        inst.mods.sc0 = row.has(ATOMIC) && inst.mods.th & 1 != 0;
    }
    inst.mods.lds = row.has(LDS) || row.has(LDSBIT) && fields.lds;
    if row.has(STORE) || row.has(ATOMIC) {
        inst.src[1] = data(fetch, fields.data, row.src[1], fields.accumulator)?;
    }
    if !inst.mods.lds && (!row.has(ATOMIC) || inst.mods.sc0) {
        inst.dst[0] = data(fetch, fields.data, row.dst, fields.accumulator)?;
    }
    let address_dwords = u8::from(inst.mods.offen) + u8::from(inst.mods.idxen);
    if address_dwords > 0 {
        inst.src[0] = fetch.vector(fields.address, address_dwords, false)?;
    }
    inst.src[2] = fetch.scalar(fields.resource, 4)?;
    let offset = Slot { dwords: 1, ..row.src[0] };
    inst.src[3] = fetch.scalar_source(fields.scalar_offset, offset, None)?;
    check_bits(fetch, row, &inst)?;
    Ok(inst)
}
