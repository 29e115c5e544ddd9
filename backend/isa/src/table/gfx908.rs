//! The instruction set of CDNA 1, gfx908 (MI100), as it differs from gfx90a's.
//!
//! `Table::differing(base, opcodes that are gone, rows that are new or other)`; the words are explained in `super::row`.
//! Facts, taken by enumerating the opcodes and operand fields through LLVM 22's disassembler.

use super::row::*;
use super::{Op, gfx90a, names};

/// Every format of gfx908.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx9,
    unified: false,
    names: &names::GFX9,
    vop1: &VOP1,
    vop2: &VOP2,
    vop3: &VOP3,
    vop3p: &VOP3P,
    vop3p_mai: &VOP3P_MAI,
    ds: &DS,
    flat: &FLAT,
    global: &GLOBAL,
    mubuf: &MUBUF,
    ..gfx90a::TABLES
};

/// VOP1.
static VOP1: Table = Table::differing(gfx90a::TABLES.vop1, &[0x52], &[]);

/// VOP2.
static VOP2: Table = Table::differing(
    gfx90a::TABLES.vop2,
    &[],
    &[row(0x04, Op::VMulLegacyF32, W1, [W1, W1, NO], E | SDWA | SN0 | SN1 | OMOD | DPP | DN0 | DN1)],
);

/// VOP3.
static VOP3: Table = Table::differing(
    gfx90a::TABLES.vop3,
    &[0x2a1],
    &[row(0x104, Op::VMulLegacyF32, W1, [W1, W1, NO], E | M0 | M1 | CLAMP | OMOD)],
);

/// VOP3P.
static VOP3P: Table = Table::differing(gfx90a::TABLES.vop3p, &[0x30, 0x31, 0x32, 0x33], &[]);

/// VOP3P_MAI.
static VOP3P_MAI: Table = Table::differing(
    gfx90a::TABLES.vop3p_mai,
    &[0x63, 0x64, 0x65, 0x66, 0x67, 0x6e, 0x6f],
    &[
        row(0x40, Op::VMfmaF3232x32x1f32, A32, [V1, V1, W32], CBSZ | BLGP),
        row(0x41, Op::VMfmaF3216x16x1f32, A16, [V1, V1, W16], CBSZ | BLGP),
        row(0x42, Op::VMfmaF324x4x1f32, A4, [V1, V1, W4], CBSZ | BLGP),
        row(0x44, Op::VMfmaF3232x32x2f32, A16, [V1, V1, W16], CBSZ | BLGP),
        row(0x45, Op::VMfmaF3216x16x4f32, A4, [V1, V1, W4], CBSZ | BLGP),
        row(0x48, Op::VMfmaF3232x32x4f16, A32, [V2, V2, W32], CBSZ | BLGP),
        row(0x49, Op::VMfmaF3216x16x4f16, A16, [V2, V2, W16], CBSZ | BLGP),
        row(0x4a, Op::VMfmaF324x4x4f16, A4, [V2, V2, W4], CBSZ | BLGP),
        row(0x4c, Op::VMfmaF3232x32x8f16, A16, [V2, V2, W16], CBSZ | BLGP),
        row(0x4d, Op::VMfmaF3216x16x16f16, A4, [V2, V2, W4], CBSZ | BLGP),
        row(0x50, Op::VMfmaI3232x32x4i8, A32, [V1, V1, W32], CBSZ | BLGP),
        row(0x51, Op::VMfmaI3216x16x4i8, A16, [V1, V1, W16], CBSZ | BLGP),
        row(0x52, Op::VMfmaI324x4x4i8, A4, [V1, V1, W4], CBSZ | BLGP),
        row(0x54, Op::VMfmaI3232x32x8i8, A16, [V1, V1, W16], CBSZ | BLGP),
        row(0x55, Op::VMfmaI3216x16x16i8, A4, [V1, V1, W4], CBSZ | BLGP),
        row(0x68, Op::VMfmaF3232x32x2bf16, A32, [V1, V1, W32], CBSZ | BLGP),
        row(0x69, Op::VMfmaF3216x16x2bf16, A16, [V1, V1, W16], CBSZ | BLGP),
        row(0x6b, Op::VMfmaF324x4x2bf16, A4, [V1, V1, W4], CBSZ | BLGP),
        row(0x6c, Op::VMfmaF3232x32x4bf16, A16, [V1, V1, W16], CBSZ | BLGP),
        row(0x6d, Op::VMfmaF3216x16x8bf16, A4, [V1, V1, W4], CBSZ | BLGP),
    ],
);

/// DS.
static DS: Table = Table::differing(
    gfx90a::TABLES.ds,
    &[0x5c, 0x7c],
    &[
        row(0x80, Op::DsAddSrc2U32, NO, [W1, NO, NO], PLAIN),
        row(0x81, Op::DsSubSrc2U32, NO, [W1, NO, NO], PLAIN),
        row(0x82, Op::DsRsubSrc2U32, NO, [W1, NO, NO], PLAIN),
        row(0x83, Op::DsIncSrc2U32, NO, [W1, NO, NO], PLAIN),
        row(0x84, Op::DsDecSrc2U32, NO, [W1, NO, NO], PLAIN),
        row(0x85, Op::DsMinSrc2I32, NO, [W1, NO, NO], PLAIN),
        row(0x86, Op::DsMaxSrc2I32, NO, [W1, NO, NO], PLAIN),
        row(0x87, Op::DsMinSrc2U32, NO, [W1, NO, NO], PLAIN),
        row(0x88, Op::DsMaxSrc2U32, NO, [W1, NO, NO], PLAIN),
        row(0x89, Op::DsAndSrc2B32, NO, [W1, NO, NO], PLAIN),
        row(0x8a, Op::DsOrSrc2B32, NO, [W1, NO, NO], PLAIN),
        row(0x8b, Op::DsXorSrc2B32, NO, [W1, NO, NO], PLAIN),
        row(0x8d, Op::DsWriteSrc2B32, NO, [W1, NO, NO], PLAIN),
        row(0x92, Op::DsMinSrc2F32, NO, [W1, NO, NO], PLAIN),
        row(0x93, Op::DsMaxSrc2F32, NO, [W1, NO, NO], PLAIN),
        row(0x95, Op::DsAddSrc2F32, NO, [W1, NO, NO], PLAIN),
        row(0xbf, Op::DsOrderedCount, W1, [W1, NO, NO], GDS),
        row(0xc0, Op::DsAddSrc2U64, NO, [W1, NO, NO], PLAIN),
        row(0xc1, Op::DsSubSrc2U64, NO, [W1, NO, NO], PLAIN),
        row(0xc2, Op::DsRsubSrc2U64, NO, [W1, NO, NO], PLAIN),
        row(0xc3, Op::DsIncSrc2U64, NO, [W1, NO, NO], PLAIN),
        row(0xc4, Op::DsDecSrc2U64, NO, [W1, NO, NO], PLAIN),
        row(0xc5, Op::DsMinSrc2I64, NO, [W1, NO, NO], PLAIN),
        row(0xc6, Op::DsMaxSrc2I64, NO, [W1, NO, NO], PLAIN),
        row(0xc7, Op::DsMinSrc2U64, NO, [W1, NO, NO], PLAIN),
        row(0xc8, Op::DsMaxSrc2U64, NO, [W1, NO, NO], PLAIN),
        row(0xc9, Op::DsAndSrc2B64, NO, [W1, NO, NO], PLAIN),
        row(0xca, Op::DsOrSrc2B64, NO, [W1, NO, NO], PLAIN),
        row(0xcb, Op::DsXorSrc2B64, NO, [W1, NO, NO], PLAIN),
        row(0xcd, Op::DsWriteSrc2B64, NO, [W1, NO, NO], PLAIN),
        row(0xd2, Op::DsMinSrc2F64, NO, [W1, NO, NO], PLAIN),
        row(0xd3, Op::DsMaxSrc2F64, NO, [W1, NO, NO], PLAIN),
    ],
);

/// FLAT.
static FLAT: Table = Table::differing(gfx90a::TABLES.flat, &[0x4f, 0x50, 0x51], &[]);

/// GLOBAL.
static GLOBAL: Table = Table::differing(
    gfx90a::TABLES.global,
    &[0x4f, 0x50, 0x51],
    &[
        row(0x4d, Op::GlobalAtomicAddF32, NO, [W2, W1, NO], ATOMIC),
        row(0x4e, Op::GlobalAtomicPkAddF16, NO, [W2, W1, NO], ATOMIC),
    ],
);

/// MUBUF.
static MUBUF: Table = Table::differing(gfx90a::TABLES.mubuf, &[0x28, 0x29, 0x4f, 0x50, 0x51], &[]);
