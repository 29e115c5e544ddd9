//! The instruction set of RDNA 1, gfx1010 (RX 5700), as it differs from gfx1030's.
//!
//! `Table::differing(base, opcodes that are gone, rows that are new or other)`; the words are explained in `super::row`.
//! Facts, taken by enumerating the opcodes and operand fields through LLVM 22's disassembler.

use super::row::*;
use super::{Op, gfx1030, names};

/// Every format of gfx1010.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx10,
    unified: false,
    names: &names::GFX1010,
    smem: &SMEM,
    vop2: &VOP2,
    vop3: &VOP3,
    vop3p: &VOP3P,
    ds: &DS,
    global: &GLOBAL,
    mubuf: &MUBUF,
    ..gfx1030::TABLES
};

/// SMEM.
static SMEM: Table = Table::differing(
    gfx1030::TABLES.smem,
    &[],
    &[
        row(0x05, Op::SScratchLoadDword, W1, [W2, W1, NO], PLAIN),
        row(0x06, Op::SScratchLoadDwordx2, W2, [W2, W1, NO], PLAIN),
        row(0x07, Op::SScratchLoadDwordx4, W4, [W2, W1, NO], PLAIN),
        row(0x10, Op::SStoreDword, W1, [W2, W1, NO], STORE),
        row(0x11, Op::SStoreDwordx2, W2, [W2, W1, NO], STORE),
        row(0x12, Op::SStoreDwordx4, W4, [W2, W1, NO], STORE),
        row(0x15, Op::SScratchStoreDword, W1, [W2, W1, NO], STORE),
        row(0x16, Op::SScratchStoreDwordx2, W2, [W2, W1, NO], STORE),
        row(0x17, Op::SScratchStoreDwordx4, W4, [W2, W1, NO], STORE),
        row(0x18, Op::SBufferStoreDword, W1, [W4, W1, NO], STORE),
        row(0x19, Op::SBufferStoreDwordx2, W2, [W4, W1, NO], STORE),
        row(0x1a, Op::SBufferStoreDwordx4, W4, [W4, W1, NO], STORE),
        row(0x21, Op::SDcacheWb, NO, [NO, NO, NO], PLAIN),
        row(0x28, Op::SDcacheDiscard, NO, [W2, W1, NO], PLAIN),
        row(0x29, Op::SDcacheDiscardX2, NO, [W2, W1, NO], PLAIN),
        row(0x2a, Op::SGetWaveidInWorkgroup, W1, [NO, NO, NO], PLAIN),
        row(0x40, Op::SBufferAtomicSwap, W1, [W4, W1, NO], ATOMIC),
        row(0x41, Op::SBufferAtomicCmpswap, W2, [W4, W1, NO], ATOMIC),
        row(0x42, Op::SBufferAtomicAdd, W1, [W4, W1, NO], ATOMIC),
        row(0x43, Op::SBufferAtomicSub, W1, [W4, W1, NO], ATOMIC),
        row(0x44, Op::SBufferAtomicSmin, W1, [W4, W1, NO], ATOMIC),
        row(0x45, Op::SBufferAtomicUmin, W1, [W4, W1, NO], ATOMIC),
        row(0x46, Op::SBufferAtomicSmax, W1, [W4, W1, NO], ATOMIC),
        row(0x47, Op::SBufferAtomicUmax, W1, [W4, W1, NO], ATOMIC),
        row(0x48, Op::SBufferAtomicAnd, W1, [W4, W1, NO], ATOMIC),
        row(0x49, Op::SBufferAtomicOr, W1, [W4, W1, NO], ATOMIC),
        row(0x4a, Op::SBufferAtomicXor, W1, [W4, W1, NO], ATOMIC),
        row(0x4b, Op::SBufferAtomicInc, W1, [W4, W1, NO], ATOMIC),
        row(0x4c, Op::SBufferAtomicDec, W1, [W4, W1, NO], ATOMIC),
        row(0x60, Op::SBufferAtomicSwapX2, W2, [W4, W1, NO], ATOMIC),
        row(0x61, Op::SBufferAtomicCmpswapX2, W4, [W4, W1, NO], ATOMIC),
        row(0x62, Op::SBufferAtomicAddX2, W2, [W4, W1, NO], ATOMIC),
        row(0x63, Op::SBufferAtomicSubX2, W2, [W4, W1, NO], ATOMIC),
        row(0x64, Op::SBufferAtomicSminX2, W2, [W4, W1, NO], ATOMIC),
        row(0x65, Op::SBufferAtomicUminX2, W2, [W4, W1, NO], ATOMIC),
        row(0x66, Op::SBufferAtomicSmaxX2, W2, [W4, W1, NO], ATOMIC),
        row(0x67, Op::SBufferAtomicUmaxX2, W2, [W4, W1, NO], ATOMIC),
        row(0x68, Op::SBufferAtomicAndX2, W2, [W4, W1, NO], ATOMIC),
        row(0x69, Op::SBufferAtomicOrX2, W2, [W4, W1, NO], ATOMIC),
        row(0x6a, Op::SBufferAtomicXorX2, W2, [W4, W1, NO], ATOMIC),
        row(0x6b, Op::SBufferAtomicIncX2, W2, [W4, W1, NO], ATOMIC),
        row(0x6c, Op::SBufferAtomicDecX2, W2, [W4, W1, NO], ATOMIC),
        row(0x80, Op::SAtomicSwap, W1, [W2, W1, NO], ATOMIC),
        row(0x81, Op::SAtomicCmpswap, W2, [W2, W1, NO], ATOMIC),
        row(0x82, Op::SAtomicAdd, W1, [W2, W1, NO], ATOMIC),
        row(0x83, Op::SAtomicSub, W1, [W2, W1, NO], ATOMIC),
        row(0x84, Op::SAtomicSmin, W1, [W2, W1, NO], ATOMIC),
        row(0x85, Op::SAtomicUmin, W1, [W2, W1, NO], ATOMIC),
        row(0x86, Op::SAtomicSmax, W1, [W2, W1, NO], ATOMIC),
        row(0x87, Op::SAtomicUmax, W1, [W2, W1, NO], ATOMIC),
        row(0x88, Op::SAtomicAnd, W1, [W2, W1, NO], ATOMIC),
        row(0x89, Op::SAtomicOr, W1, [W2, W1, NO], ATOMIC),
        row(0x8a, Op::SAtomicXor, W1, [W2, W1, NO], ATOMIC),
        row(0x8b, Op::SAtomicInc, W1, [W2, W1, NO], ATOMIC),
        row(0x8c, Op::SAtomicDec, W1, [W2, W1, NO], ATOMIC),
        row(0xa0, Op::SAtomicSwapX2, W2, [W2, W1, NO], ATOMIC),
        row(0xa1, Op::SAtomicCmpswapX2, W4, [W2, W1, NO], ATOMIC),
        row(0xa2, Op::SAtomicAddX2, W2, [W2, W1, NO], ATOMIC),
        row(0xa3, Op::SAtomicSubX2, W2, [W2, W1, NO], ATOMIC),
        row(0xa4, Op::SAtomicSminX2, W2, [W2, W1, NO], ATOMIC),
        row(0xa5, Op::SAtomicUminX2, W2, [W2, W1, NO], ATOMIC),
        row(0xa6, Op::SAtomicSmaxX2, W2, [W2, W1, NO], ATOMIC),
        row(0xa7, Op::SAtomicUmaxX2, W2, [W2, W1, NO], ATOMIC),
        row(0xa8, Op::SAtomicAndX2, W2, [W2, W1, NO], ATOMIC),
        row(0xa9, Op::SAtomicOrX2, W2, [W2, W1, NO], ATOMIC),
        row(0xaa, Op::SAtomicXorX2, W2, [W2, W1, NO], ATOMIC),
        row(0xab, Op::SAtomicIncX2, W2, [W2, W1, NO], ATOMIC),
        row(0xac, Op::SAtomicDecX2, W2, [W2, W1, NO], ATOMIC),
    ],
);

/// VOP2.
static VOP2: Table = Table::differing(
    gfx1030::TABLES.vop2,
    &[0x02, 0x0d],
    &[
        row(0x06, Op::VMacLegacyF32, W1, [W1, W1, NO], E),
        row(0x1f, Op::VMacF32, W1, [W1, W1, NO], E | DPP | DN0 | DN1),
        row(0x20, Op::VMadmkF32, W1, [W1, LIT, W1], MK),
        row(0x21, Op::VMadakF32, W1, [W1, W1, LIT], AK),
    ],
);

/// VOP3.
static VOP3: Table = Table::differing(
    gfx1030::TABLES.vop3,
    &[],
    &[
        row(0x106, Op::VMacLegacyF32, W1, [W1, W1, NO], E | M0 | M1 | CLAMP | OMOD),
        row(0x11f, Op::VMacF32, W1, [W1, W1, NO], E | M0 | M1 | CLAMP | OMOD),
        row(0x140, Op::VMadLegacyF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD),
        row(0x141, Op::VMadF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD),
        row(0x16b, Op::VMulLoI32, W1, [W1, W1, NO], PLAIN),
    ],
);

/// VOP3P.
static VOP3P: Table = Table::differing(gfx1030::TABLES.vop3p, &[0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19], &[]);

/// DS.
static DS: Table = Table::differing(
    gfx1030::TABLES.ds,
    &[],
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

/// GLOBAL.
static GLOBAL: Table = Table::differing(gfx1030::TABLES.global, &[0x16, 0x17, 0x34], &[]);

/// MUBUF.
static MUBUF: Table = Table::differing(gfx1030::TABLES.mubuf, &[0x34], &[]);
