//! MUBUF (VBUFFER on GFX12): loads and stores through a resource descriptor.

use super::local::data;
use super::{Fetch, bare, bit, field, sign_extend};
use crate::table::row::{ATOMIC, Encoding, LDS, LDSBIT, Row, STORE, Slot};
use crate::{DecodeError, Format, Inst, Modifiers};

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
    Ok(inst)
}
