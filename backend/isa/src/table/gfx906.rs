//! The instruction set of GCN 5.1, gfx906 (MI50), as it differs from gfx908's.
//!
//! `Table::differing(base, opcodes that are gone, rows that are new or other)`; the words are explained in `super::row`.
//! Facts, taken by enumerating the opcodes and operand fields through LLVM 22's disassembler.

use super::row::*;
use super::{gfx908, names};

/// Every format of gfx906.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx9,
    unified: false,
    names: &names::GFX9,
    vop2: &VOP2,
    vop3: &VOP3,
    vop3p_mai: &VOP3P_MAI,
    global: &GLOBAL,
    mubuf: &MUBUF,
    ..gfx908::TABLES
};

/// VOP2.
static VOP2: Table = Table::differing(gfx908::TABLES.vop2, &[0x37, 0x38, 0x39, 0x3a, 0x3c], &[]);

/// VOP3.
static VOP3: Table = Table::differing(gfx908::TABLES.vop3, &[0x137, 0x138, 0x139, 0x13a, 0x13c], &[]);

/// VOP3P_MAI.
static VOP3P_MAI: Table = Table::differing(
    gfx908::TABLES.vop3p_mai,
    &[
        0x40, 0x41, 0x42, 0x44, 0x45, 0x48, 0x49, 0x4a, 0x4c, 0x4d, 0x50, 0x51, 0x52, 0x54, 0x55, 0x58, 0x59, 0x68,
        0x69, 0x6b, 0x6c, 0x6d,
    ],
    &[],
);

/// GLOBAL.
static GLOBAL: Table = Table::differing(gfx908::TABLES.global, &[0x4d, 0x4e], &[]);

/// MUBUF.
static MUBUF: Table = Table::differing(gfx908::TABLES.mubuf, &[0x4d, 0x4e], &[]);
