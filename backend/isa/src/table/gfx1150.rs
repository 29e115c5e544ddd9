//! The instruction set of RDNA 3.5, gfx1150 and its relatives (Ryzen AI), as it differs from gfx1100's.
//!
//! `Table::differing(base, opcodes that are gone, rows that are new or other)`; the words are explained in `super::row`.
//! Facts, taken by enumerating the opcodes and operand fields through LLVM 22's disassembler.

use super::row::*;
use super::{Op, gfx1100, names};

/// Every format of gfx1150.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx11,
    unified: false,
    names: &names::GFX11,
    sop1: &SOP1,
    sop2: &SOP2,
    sopc: &SOPC,
    ..gfx1100::TABLES
};

/// SOP1.
static SOP1: Table = Table::differing(
    gfx1100::TABLES.sop1,
    &[],
    &[
        row(0x60, Op::SCeilF32, W1, [W1, NO, NO], PLAIN),
        row(0x61, Op::SFloorF32, W1, [W1, NO, NO], PLAIN),
        row(0x62, Op::STruncF32, W1, [W1, NO, NO], PLAIN),
        row(0x63, Op::SRndneF32, W1, [W1, NO, NO], PLAIN),
        row(0x64, Op::SCvtF32I32, W1, [W1, NO, NO], PLAIN),
        row(0x65, Op::SCvtF32U32, W1, [W1, NO, NO], PLAIN),
        row(0x66, Op::SCvtI32F32, W1, [W1, NO, NO], PLAIN),
        row(0x67, Op::SCvtU32F32, W1, [W1, NO, NO], PLAIN),
        row(0x68, Op::SCvtF16F32, W1, [W1, NO, NO], PLAIN),
        row(0x69, Op::SCvtF32F16, W1, [W1, NO, NO], PLAIN),
        row(0x6a, Op::SCvtHiF32F16, W1, [W1, NO, NO], PLAIN),
        row(0x6b, Op::SCeilF16, W1, [W1, NO, NO], PLAIN),
        row(0x6c, Op::SFloorF16, W1, [W1, NO, NO], PLAIN),
        row(0x6d, Op::STruncF16, W1, [W1, NO, NO], PLAIN),
        row(0x6e, Op::SRndneF16, W1, [W1, NO, NO], PLAIN),
    ],
);

/// SOP2.
static SOP2: Table = Table::differing(
    gfx1100::TABLES.sop2,
    &[],
    &[
        row(0x40, Op::SAddF32, W1, [W1, W1, NO], PLAIN),
        row(0x41, Op::SSubF32, W1, [W1, W1, NO], PLAIN),
        row(0x42, Op::SMinF32, W1, [W1, W1, NO], PLAIN),
        row(0x43, Op::SMaxF32, W1, [W1, W1, NO], PLAIN),
        row(0x44, Op::SMulF32, W1, [W1, W1, NO], PLAIN),
        row(0x45, Op::SFmaakF32, W1, [W1, W1, LIT], AK),
        row(0x46, Op::SFmamkF32, W1, [W1, LIT, W1], MK),
        row(0x47, Op::SFmacF32, W1, [W1, W1, NO], PLAIN),
        row(0x48, Op::SCvtPkRtzF16F32, W1, [W1, W1, NO], PLAIN),
        row(0x49, Op::SAddF16, W1, [H1, H1, NO], PLAIN),
        row(0x4a, Op::SSubF16, W1, [H1, H1, NO], PLAIN),
        row(0x4b, Op::SMinF16, W1, [H1, H1, NO], PLAIN),
        row(0x4c, Op::SMaxF16, W1, [H1, H1, NO], PLAIN),
        row(0x4d, Op::SMulF16, W1, [H1, H1, NO], PLAIN),
        row(0x4e, Op::SFmacF16, W1, [H1, H1, NO], PLAIN),
    ],
);

/// SOPC.
static SOPC: Table = Table::differing(
    gfx1100::TABLES.sopc,
    &[],
    &[
        row(0x41, Op::SCmpLtF32, NO, [W1, W1, NO], PLAIN),
        row(0x42, Op::SCmpEqF32, NO, [W1, W1, NO], PLAIN),
        row(0x43, Op::SCmpLeF32, NO, [W1, W1, NO], PLAIN),
        row(0x44, Op::SCmpGtF32, NO, [W1, W1, NO], PLAIN),
        row(0x45, Op::SCmpLgF32, NO, [W1, W1, NO], PLAIN),
        row(0x46, Op::SCmpGeF32, NO, [W1, W1, NO], PLAIN),
        row(0x47, Op::SCmpOF32, NO, [W1, W1, NO], PLAIN),
        row(0x48, Op::SCmpUF32, NO, [W1, W1, NO], PLAIN),
        row(0x49, Op::SCmpNgeF32, NO, [W1, W1, NO], PLAIN),
        row(0x4a, Op::SCmpNlgF32, NO, [W1, W1, NO], PLAIN),
        row(0x4b, Op::SCmpNgtF32, NO, [W1, W1, NO], PLAIN),
        row(0x4c, Op::SCmpNleF32, NO, [W1, W1, NO], PLAIN),
        row(0x4d, Op::SCmpNeqF32, NO, [W1, W1, NO], PLAIN),
        row(0x4e, Op::SCmpNltF32, NO, [W1, W1, NO], PLAIN),
        row(0x51, Op::SCmpLtF16, NO, [I1, I1, NO], PLAIN),
        row(0x52, Op::SCmpEqF16, NO, [I1, I1, NO], PLAIN),
        row(0x53, Op::SCmpLeF16, NO, [I1, I1, NO], PLAIN),
        row(0x54, Op::SCmpGtF16, NO, [I1, I1, NO], PLAIN),
        row(0x55, Op::SCmpLgF16, NO, [I1, I1, NO], PLAIN),
        row(0x56, Op::SCmpGeF16, NO, [I1, I1, NO], PLAIN),
        row(0x57, Op::SCmpOF16, NO, [I1, I1, NO], PLAIN),
        row(0x58, Op::SCmpUF16, NO, [I1, I1, NO], PLAIN),
        row(0x59, Op::SCmpNgeF16, NO, [I1, I1, NO], PLAIN),
        row(0x5a, Op::SCmpNlgF16, NO, [I1, I1, NO], PLAIN),
        row(0x5b, Op::SCmpNgtF16, NO, [I1, I1, NO], PLAIN),
        row(0x5c, Op::SCmpNleF16, NO, [I1, I1, NO], PLAIN),
        row(0x5d, Op::SCmpNeqF16, NO, [I1, I1, NO], PLAIN),
        row(0x5e, Op::SCmpNltF16, NO, [I1, I1, NO], PLAIN),
    ],
);
