//! The instruction set of CDNA 2, gfx90a (MI200), as it differs from gfx942's.
//!
//! `Table::differing(base, opcodes that are gone, rows that are new or other)`; the words are explained in `super::row`.
//! Facts, taken by enumerating the opcodes and operand fields through LLVM 22's disassembler.

use super::row::*;
use super::{Op, gfx942, names};

/// Every format of gfx90a.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx9,
    unified: true,
    names: &names::GFX9,
    vop1: &VOP1,
    vop2: &VOP2,
    vop3: &VOP3,
    vop3p_mai: &VOP3P_MAI,
    ds: &DS,
    flat: &FLAT,
    global: &GLOBAL,
    scratch: &SCRATCH,
    mubuf: &MUBUF,
    ..gfx942::TABLES
};

/// VOP1.
static VOP1: Table = Table::differing(gfx942::TABLES.vop1, &[0x38, 0x54, 0x55, 0x56, 0x57], &[]);

/// VOP2.
static VOP2: Table = Table::differing(
    gfx942::TABLES.vop2,
    &[],
    &[
        row(0x16, Op::VMacF32, W1, [W1, W1, NO], E | DPP | DN0 | DN1),
        row(0x17, Op::VMadmkF32, W1, [W1, LIT, W1], MK),
        row(0x18, Op::VMadakF32, W1, [W1, W1, LIT], AK),
    ],
);

/// VOP3.
static VOP3: Table = Table::differing(
    gfx942::TABLES.vop3,
    &[0x178, 0x194, 0x195, 0x196, 0x197, 0x208, 0x2a2, 0x2a3, 0x2a4, 0x2a5],
    &[
        row(0x116, Op::VMacF32, W1, [W1, W1, NO], E | M0 | M1 | CLAMP | OMOD),
        row(0x1c0, Op::VMadLegacyF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD),
        row(0x1c1, Op::VMadF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD),
    ],
);

/// VOP3P_MAI.
static VOP3P_MAI: Table = Table::differing(
    gfx942::TABLES.vop3p_mai,
    &[
        0x3e, 0x3f, 0x56, 0x57, 0x5d, 0x5e, 0x5f, 0x60, 0x61, 0x62, 0x6a, 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76,
        0x77, 0x78, 0x79, 0x7a, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f,
    ],
    &[
        row(0x40, Op::VMfmaF3232x32x1f32, W32, [V1, V1, W32], CBSZ | BLGP),
        row(0x41, Op::VMfmaF3216x16x1f32, W16, [V1, V1, W16], CBSZ | BLGP),
        row(0x42, Op::VMfmaF324x4x1f32, W4, [V1, V1, W4], CBSZ | BLGP),
        row(0x44, Op::VMfmaF3232x32x2f32, W16, [V1, V1, W16], CBSZ | BLGP),
        row(0x45, Op::VMfmaF3216x16x4f32, W4, [V1, V1, W4], CBSZ | BLGP),
        row(0x48, Op::VMfmaF3232x32x4f16, W32, [V2, V2, W32], CBSZ | BLGP),
        row(0x49, Op::VMfmaF3216x16x4f16, W16, [V2, V2, W16], CBSZ | BLGP),
        row(0x4a, Op::VMfmaF324x4x4f16, W4, [V2, V2, W4], CBSZ | BLGP),
        row(0x4c, Op::VMfmaF3232x32x8f16, W16, [V2, V2, W16], CBSZ | BLGP),
        row(0x4d, Op::VMfmaF3216x16x16f16, W4, [V2, V2, W4], CBSZ | BLGP),
        row(0x50, Op::VMfmaI3232x32x4i8, W32, [V1, V1, W32], CBSZ | BLGP),
        row(0x51, Op::VMfmaI3216x16x4i8, W16, [V1, V1, W16], CBSZ | BLGP),
        row(0x52, Op::VMfmaI324x4x4i8, W4, [V1, V1, W4], CBSZ | BLGP),
        row(0x54, Op::VMfmaI3232x32x8i8, W16, [V1, V1, W16], CBSZ | BLGP),
        row(0x55, Op::VMfmaI3216x16x16i8, W4, [V1, V1, W4], CBSZ | BLGP),
        row(0x63, Op::VMfmaF3232x32x4bf161k, W32, [V2, V2, W32], CBSZ | BLGP),
        row(0x64, Op::VMfmaF3216x16x4bf161k, W16, [V2, V2, W16], CBSZ | BLGP),
        row(0x65, Op::VMfmaF324x4x4bf161k, W4, [V2, V2, W4], CBSZ | BLGP),
        row(0x66, Op::VMfmaF3232x32x8bf161k, W16, [V2, V2, W16], CBSZ | BLGP),
        row(0x67, Op::VMfmaF3216x16x16bf161k, W4, [V2, V2, W4], CBSZ | BLGP),
        row(0x68, Op::VMfmaF3232x32x2bf16, W32, [V1, V1, W32], CBSZ | BLGP),
        row(0x69, Op::VMfmaF3216x16x2bf16, W16, [V1, V1, W16], CBSZ | BLGP),
        row(0x6b, Op::VMfmaF324x4x2bf16, W4, [V1, V1, W4], CBSZ | BLGP),
        row(0x6c, Op::VMfmaF3232x32x4bf16, W16, [V1, V1, W16], CBSZ | BLGP),
        row(0x6d, Op::VMfmaF3216x16x8bf16, W4, [V1, V1, W4], CBSZ | BLGP),
        row(0x6e, Op::VMfmaF6416x16x4f64, W8, [V2, V2, D8], CBSZ | BLGP),
        row(0x6f, Op::VMfmaF644x4x4f64, W2, [V2, V2, D2], CBSZ | BLGP),
    ],
);

/// DS.
static DS: Table = Table::differing(gfx942::TABLES.ds, &[0x17, 0x18, 0xb7, 0xb8], &[]);

/// FLAT.
static FLAT: Table = Table::differing(gfx942::TABLES.flat, &[0x4d, 0x4e, 0x52], &[]);

/// GLOBAL.
static GLOBAL: Table = Table::differing(gfx942::TABLES.global, &[0x26, 0x27, 0x28, 0x29, 0x2a, 0x52], &[]);

/// SCRATCH.
static SCRATCH: Table = Table::differing(gfx942::TABLES.scratch, &[0x26, 0x27, 0x28, 0x29, 0x2a], &[]);

/// MUBUF.
static MUBUF: Table = Table::differing(
    gfx942::TABLES.mubuf,
    &[],
    &[
        row(0x29, Op::BufferInvl2, NO, [NO, NO, NO], PLAIN),
        row(0x3e, Op::BufferWbinvl1, NO, [NO, NO, NO], PLAIN),
        row(0x3f, Op::BufferWbinvl1Vol, NO, [NO, NO, NO], PLAIN),
    ],
);
