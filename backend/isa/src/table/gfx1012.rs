//! The instruction set of RDNA 1 with dot products, gfx1011 and gfx1012 (RX 5500), as it differs from gfx1010's.
//!
//! `Table::differing(base, opcodes that are gone, rows that are new or other)`; the words are explained in `super::row`.
//! Facts, taken by enumerating the opcodes and operand fields through LLVM 22's disassembler.

use super::row::*;
use super::{Op, gfx1010, names};

/// Every format of gfx1012.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx10,
    unified: false,
    names: &names::GFX1010,
    vop2: &VOP2,
    vop3p: &VOP3P,
    ..gfx1010::TABLES
};

/// VOP2.
static VOP2: Table = Table::differing(
    gfx1010::TABLES.vop2,
    &[],
    &[
        row(0x02, Op::VDot2cF32F16, W1, [W1, W1, NO], DPP | DN0 | DN1),
        row(0x0d, Op::VDot4cI32I8, W1, [W1, W1, NO], DPP),
    ],
);

/// VOP3P.
static VOP3P: Table = Table::differing(
    gfx1010::TABLES.vop3p,
    &[],
    &[
        row(0x13, Op::VDot2F32F16, W1, [PH, PH, PH], OPSEL | NEGLO | NEGHI | CLAMP),
        row(0x14, Op::VDot2I32I16, W1, [W1, W1, W1], OPSEL | NEGLO | NEGHI | CLAMP),
        row(0x15, Op::VDot2U32U16, W1, [W1, W1, W1], OPSEL | NEGLO | NEGHI | CLAMP),
        row(0x16, Op::VDot4I32I8, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
        row(0x17, Op::VDot4U32U8, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
        row(0x18, Op::VDot8I32I4, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
        row(0x19, Op::VDot8U32U4, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    ],
);
