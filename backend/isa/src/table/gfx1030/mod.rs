//! The instruction set of RDNA 2, gfx1030 and its relatives (RX 6000).

mod memory;
mod scalar;
mod vector;
mod vop3;
mod vop3p;

use super::names;
use super::row::{EMPTY, Encoding, Tables};

/// Every format of gfx1030.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx10,
    unified: false,
    names: &names::GFX1030,
    sop1: &scalar::SOP1,
    sop2: &scalar::SOP2,
    sopk: &scalar::SOPK,
    sopc: &scalar::SOPC,
    sopp: &scalar::SOPP,
    smem: &scalar::SMEM,
    vop1: &vector::VOP1,
    vop2: &vector::VOP2,
    vopc: &vector::VOPC,
    vop3: &vop3::VOP3,
    vop3p: &vop3p::VOP3P,
    vop3p_mai: &EMPTY,
    vop3p_scaled: &EMPTY,
    vopd: &EMPTY,
    ds: &memory::DS,
    flat: &memory::FLAT,
    global: &memory::GLOBAL,
    scratch: &memory::SCRATCH,
    mubuf: &memory::MUBUF,
};
