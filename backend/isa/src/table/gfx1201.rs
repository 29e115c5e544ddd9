//! The instruction set of RDNA 4, gfx1200 and gfx1201 (RX 9000), as it differs from gfx1100's.
//!
//! `Table::differing(base, opcodes that are gone, rows that are new or other)`; the words are explained in `super::row`.
//! Facts, taken by enumerating the opcodes and operand fields through LLVM 22's disassembler.

use super::row::*;
use super::{Op, gfx1100, names};

/// Every format of gfx1201.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx12,
    unified: false,
    names: &names::GFX12,
    sop1: &SOP1,
    sop2: &SOP2,
    sopk: &SOPK,
    sopc: &SOPC,
    sopp: &SOPP,
    smem: &SMEM,
    vop1: &VOP1,
    vop2: &VOP2,
    vopc: &VOPC,
    vop3: &VOP3,
    vop3p: &VOP3P,
    vopd: &VOPD,
    ds: &DS,
    flat: &FLAT,
    global: &GLOBAL,
    scratch: &SCRATCH,
    mubuf: &MUBUF,
    ..gfx1100::TABLES
};

/// SOP1.
static SOP1: Table = Table::differing(
    gfx1100::TABLES.sop1,
    &[],
    &[
        row(0x4e, Op::SBarrierSignal, NO, [SC1, NO, NO], PLAIN),
        row(0x4f, Op::SBarrierSignalIsfirst, NO, [SC1, NO, NO], PLAIN),
        row(0x50, Op::SGetBarrierState, W1, [SC1, NO, NO], PLAIN),
        row(0x51, Op::SBarrierInit, NO, [SC1, NO, NO], PLAIN),
        row(0x52, Op::SBarrierJoin, NO, [SC1, NO, NO], PLAIN),
        row(0x53, Op::SAllocVgpr, NO, [W1, NO, NO], PLAIN),
        row(0x58, Op::SSleepVar, NO, [W1, NO, NO], PLAIN),
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
        row(0x00, Op::SAddCoU32, W1, [W1, W1, NO], PLAIN),
        row(0x01, Op::SSubCoU32, W1, [W1, W1, NO], PLAIN),
        row(0x02, Op::SAddCoI32, W1, [W1, W1, NO], PLAIN),
        row(0x03, Op::SSubCoI32, W1, [W1, W1, NO], PLAIN),
        row(0x04, Op::SAddCoCiU32, W1, [W1, W1, NO], PLAIN),
        row(0x05, Op::SSubCoCiU32, W1, [W1, W1, NO], PLAIN),
        row(0x40, Op::SAddF32, W1, [W1, W1, NO], PLAIN),
        row(0x41, Op::SSubF32, W1, [W1, W1, NO], PLAIN),
        row(0x42, Op::SMinNumF32, W1, [W1, W1, NO], PLAIN),
        row(0x43, Op::SMaxNumF32, W1, [W1, W1, NO], PLAIN),
        row(0x44, Op::SMulF32, W1, [W1, W1, NO], PLAIN),
        row(0x45, Op::SFmaakF32, W1, [W1, W1, LIT], AK),
        row(0x46, Op::SFmamkF32, W1, [W1, LIT, W1], MK),
        row(0x47, Op::SFmacF32, W1, [W1, W1, NO], PLAIN),
        row(0x48, Op::SCvtPkRtzF16F32, W1, [W1, W1, NO], PLAIN),
        row(0x49, Op::SAddF16, W1, [H1, H1, NO], PLAIN),
        row(0x4a, Op::SSubF16, W1, [H1, H1, NO], PLAIN),
        row(0x4b, Op::SMinNumF16, W1, [H1, H1, NO], PLAIN),
        row(0x4c, Op::SMaxNumF16, W1, [H1, H1, NO], PLAIN),
        row(0x4d, Op::SMulF16, W1, [H1, H1, NO], PLAIN),
        row(0x4e, Op::SFmacF16, W1, [H1, H1, NO], PLAIN),
        row(0x4f, Op::SMinimumF32, W1, [W1, W1, NO], PLAIN),
        row(0x50, Op::SMaximumF32, W1, [W1, W1, NO], PLAIN),
        row(0x51, Op::SMinimumF16, W1, [H1, H1, NO], PLAIN),
        row(0x52, Op::SMaximumF16, W1, [H1, H1, NO], PLAIN),
        row(0x53, Op::SAddNcU64, W2, [W2, W2, NO], PLAIN),
        row(0x54, Op::SSubNcU64, W2, [W2, W2, NO], PLAIN),
        row(0x55, Op::SMulU64, W2, [W2, W2, NO], PLAIN),
    ],
);

/// SOPK.
static SOPK: Table = Table::differing(
    gfx1100::TABLES.sopk,
    &[0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b],
    &[row(0x0f, Op::SAddkCoI32, W1, [SIMM, NO, NO], PLAIN)],
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

/// SOPP.
static SOPP: Table = Table::differing(
    gfx1100::TABLES.sopp,
    &[0x04, 0x27, 0x28, 0x29, 0x2a, 0x32, 0x3d],
    &[
        row(0x08, Op::SWaitAlu, NO, [DEPCTR, NO, NO], PLAIN),
        row(0x14, Op::SBarrierWait, NO, [COUNT, NO, NO], PLAIN),
        row(0x15, Op::SBarrierLeave, NO, [NO, NO, NO], PLAIN),
        row(0x40, Op::SWaitLoadcnt, NO, [UIMM, NO, NO], PLAIN),
        row(0x41, Op::SWaitStorecnt, NO, [UIMM, NO, NO], PLAIN),
        row(0x42, Op::SWaitSamplecnt, NO, [UIMM, NO, NO], PLAIN),
        row(0x43, Op::SWaitBvhcnt, NO, [UIMM, NO, NO], PLAIN),
        row(0x44, Op::SWaitExpcnt, NO, [UIMM, NO, NO], PLAIN),
        row(0x46, Op::SWaitDscnt, NO, [UIMM, NO, NO], PLAIN),
        row(0x47, Op::SWaitKmcnt, NO, [UIMM, NO, NO], PLAIN),
        row(0x48, Op::SWaitLoadcntDscnt, NO, [UIMM, NO, NO], PLAIN),
        row(0x49, Op::SWaitStorecntDscnt, NO, [UIMM, NO, NO], PLAIN),
    ],
);

/// SMEM.
static SMEM: Table = Table::differing(
    gfx1100::TABLES.smem,
    &[0x0c, 0x20],
    &[
        row(0x05, Op::SLoadB96, W3, [W2, W1, NO], PLAIN),
        row(0x08, Op::SLoadI8, W1, [W2, W1, NO], PLAIN),
        row(0x09, Op::SLoadU8, W1, [W2, W1, NO], PLAIN),
        row(0x0a, Op::SLoadI16, W1, [W2, W1, NO], PLAIN),
        row(0x0b, Op::SLoadU16, W1, [W2, W1, NO], PLAIN),
        row(0x10, Op::SBufferLoadB32, W1, [W4, W1, NO], PLAIN),
        row(0x11, Op::SBufferLoadB64, W2, [W4, W1, NO], PLAIN),
        row(0x12, Op::SBufferLoadB128, W4, [W4, W1, NO], PLAIN),
        row(0x13, Op::SBufferLoadB256, W8, [W4, W1, NO], PLAIN),
        row(0x14, Op::SBufferLoadB512, W16, [W4, W1, NO], PLAIN),
        row(0x15, Op::SBufferLoadB96, W3, [W4, W1, NO], PLAIN),
        row(0x18, Op::SBufferLoadI8, W1, [W4, W1, NO], PLAIN),
        row(0x19, Op::SBufferLoadU8, W1, [W4, W1, NO], PLAIN),
        row(0x1a, Op::SBufferLoadI16, W1, [W4, W1, NO], PLAIN),
        row(0x1b, Op::SBufferLoadU16, W1, [W4, W1, NO], PLAIN),
        row(0x24, Op::SPrefetchInst, PREFETCH, [W2, W1, NO], STORE),
        row(0x25, Op::SPrefetchInstPcRel, PREFETCH, [NO, W1, NO], STORE),
        row(0x26, Op::SPrefetchData, PREFETCH, [W2, W1, NO], STORE),
        row(0x27, Op::SBufferPrefetchData, PREFETCH, [W4, W1, NO], STORE),
        row(0x28, Op::SPrefetchDataPcRel, PREFETCH, [NO, W1, NO], STORE),
    ],
);

/// VOP1.
static VOP1: Table = Table::differing(
    gfx1100::TABLES.vop1,
    &[],
    &[
        row(0x6c, Op::VCvtF32Fp8, W1, [W1, NO, NO], E | DPP),
        row(0x6d, Op::VCvtF32Bf8, W1, [W1, NO, NO], E | DPP),
        row(0x6e, Op::VCvtPkF32Fp8, W2, [HT, NO, NO], E),
        row(0x6f, Op::VCvtPkF32Bf8, W2, [HT, NO, NO], E),
    ],
);

/// VOP2.
static VOP2: Table = Table::differing(
    gfx1100::TABLES.vop2,
    &[0x0f, 0x10, 0x39, 0x3a],
    &[
        row(0x02, Op::VAddF64, W2, [D2, W2, NO], E),
        row(0x06, Op::VMulF64, W2, [D2, W2, NO], E),
        row(0x0d, Op::VMinNumF64, W2, [D2, W2, NO], E),
        row(0x0e, Op::VMaxNumF64, W2, [D2, W2, NO], E),
        row(0x15, Op::VMinNumF32, W1, [W1, W1, NO], E | DPP | DN0 | DN1),
        row(0x16, Op::VMaxNumF32, W1, [W1, W1, NO], E | DPP | DN0 | DN1),
        row(0x1f, Op::VLshlrevB64, W2, [W1, W2, NO], E),
        row(0x30, Op::VMinNumF16, VT, [HT, VT, NO], E | DPP | DN0 | DN1),
        row(0x31, Op::VMaxNumF16, VT, [HT, VT, NO], E | DPP | DN0 | DN1),
    ],
);

/// VOPC.
static VOPC: Table = Table::differing(
    gfx1100::TABLES.vopc,
    &[
        0x00, 0x0f, 0x10, 0x1f, 0x20, 0x2f, 0x40, 0x47, 0x48, 0x4f, 0x50, 0x57, 0x58, 0x5f, 0x80, 0x8f, 0x90, 0x9f,
        0xa0, 0xaf, 0xc0, 0xc7, 0xc8, 0xcf, 0xd0, 0xd7, 0xd8, 0xdf,
    ],
    &[],
);

/// VOP3.
static VOP3: Table = Table::differing(
    gfx1100::TABLES.vop3,
    &[
        0x00, 0x0f, 0x10, 0x1f, 0x20, 0x2f, 0x40, 0x47, 0x48, 0x4f, 0x50, 0x57, 0x58, 0x5f, 0x80, 0x8f, 0x90, 0x9f,
        0xa0, 0xaf, 0xc0, 0xc7, 0xc8, 0xcf, 0xd0, 0xd7, 0xd8, 0xdf, 0x10f, 0x110, 0x139, 0x13a, 0x219, 0x21c, 0x21f,
        0x249, 0x24c, 0x24f, 0x25e, 0x25f, 0x260, 0x261, 0x327, 0x328, 0x329, 0x32a, 0x33c,
    ],
    &[
        row(0x102, Op::VAddF64, W2, [D2, D2, NO], E | M0 | M1 | CLAMP | OMOD),
        row(0x106, Op::VMulF64, W2, [D2, D2, NO], E | M0 | M1 | CLAMP | OMOD),
        row(0x10d, Op::VMinNumF64, W2, [D2, D2, NO], E | M0 | M1 | CLAMP | OMOD),
        row(0x10e, Op::VMaxNumF64, W2, [D2, D2, NO], E | M0 | M1 | CLAMP | OMOD),
        row(0x115, Op::VMinNumF32, W1, [W1, W1, NO], E | M0 | M1 | CLAMP | OMOD | DPP),
        row(0x116, Op::VMaxNumF32, W1, [W1, W1, NO], E | M0 | M1 | CLAMP | OMOD | DPP),
        row(0x11f, Op::VLshlrevB64, W2, [W1, W2, NO], E),
        row(0x130, Op::VMinNumF16, VT, [HT, HT, NO], E | M0 | M1 | CLAMP | OMOD | OPSEL | DPP),
        row(0x131, Op::VMaxNumF16, VT, [HT, HT, NO], E | M0 | M1 | CLAMP | OMOD | OPSEL | DPP),
        row(0x1ec, Op::VCvtF32Fp8, W1, [W1, NO, NO], E | OPSEL | SRCBYTE | DPP),
        row(0x1ed, Op::VCvtF32Bf8, W1, [W1, NO, NO], E | OPSEL | SRCBYTE | DPP),
        row(0x1ee, Op::VCvtPkF32Fp8, W2, [HT, NO, NO], E | OPSEL),
        row(0x1ef, Op::VCvtPkF32Bf8, W2, [HT, NO, NO], E | OPSEL),
        row(0x229, Op::VMin3NumF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x22a, Op::VMax3NumF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x22b, Op::VMin3NumF16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x22c, Op::VMax3NumF16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x22d, Op::VMinimum3F32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x22e, Op::VMaximum3F32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x22f, Op::VMinimum3F16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x230, Op::VMaximum3F16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x231, Op::VMed3NumF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x232, Op::VMed3NumF16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x268, Op::VMinmaxNumF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x269, Op::VMaxminNumF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x26a, Op::VMinmaxNumF16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x26b, Op::VMaxminNumF16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x26c, Op::VMinimummaximumF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x26d, Op::VMaximumminimumF32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD | DPP),
        row(0x26e, Op::VMinimummaximumF16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x26f, Op::VMaximumminimumF16, VT, [HT, HT, HT], M0 | M1 | M2 | CLAMP | OMOD | OPSEL | DPP),
        row(0x280, Op::VSExpF32, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x281, Op::VSExpF16, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x282, Op::VSLogF32, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x283, Op::VSLogF16, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x284, Op::VSRcpF32, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x285, Op::VSRcpF16, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x286, Op::VSRsqF32, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x287, Op::VSRsqF16, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x288, Op::VSSqrtF32, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x289, Op::VSSqrtF16, S1, [SL1, NO, NO], M0 | CLAMP | OMOD),
        row(0x2fe, Op::VMadCoU64U32, W2, [W1, W1, W2], SDST | CLAMP),
        row(0x2ff, Op::VMadCoI64I32, W2, [W1, W1, W2], SDST | CLAMP),
        row(0x30f, Op::VPermlane16VarB32, W1, [V1, V1, NO], OPSEL | LANES),
        row(0x310, Op::VPermlanex16VarB32, W1, [V1, V1, NO], OPSEL | LANES),
        row(0x341, Op::VMinimumF64, W2, [D2, D2, NO], M0 | M1 | CLAMP | OMOD),
        row(0x342, Op::VMaximumF64, W2, [D2, D2, NO], M0 | M1 | CLAMP | OMOD),
        row(0x365, Op::VMinimumF32, W1, [W1, W1, NO], M0 | M1 | CLAMP | OMOD | DPP),
        row(0x366, Op::VMaximumF32, W1, [W1, W1, NO], M0 | M1 | CLAMP | OMOD | DPP),
        row(0x367, Op::VMinimumF16, VT, [HT, HT, NO], M0 | M1 | CLAMP | OMOD | OPSEL | DPP),
        row(0x368, Op::VMaximumF16, VT, [HT, HT, NO], M0 | M1 | CLAMP | OMOD | OPSEL | DPP),
        row(0x369, Op::VCvtPkFp8F32, VT, [W1, W1, NO], M0 | M1 | OPSEL | DPP),
        row(0x36a, Op::VCvtPkBf8F32, VT, [W1, W1, NO], M0 | M1 | OPSEL | DPP),
        row(0x36b, Op::VCvtSrFp8F32, W1, [W1, W1, NO], M0 | OPSEL | BYTESEL | DPP),
        row(0x36c, Op::VCvtSrBf8F32, W1, [W1, W1, NO], M0 | OPSEL | BYTESEL | DPP),
    ],
);

/// VOP3P.
static VOP3P: Table = Table::differing(
    gfx1100::TABLES.vop3p,
    &[0x11, 0x12],
    &[
        row(0x1b, Op::VPkMinNumF16, W1, [PH, PH, NO], OPSEL | NEGLO | NEGHI | CLAMP),
        row(0x1c, Op::VPkMaxNumF16, W1, [PH, PH, NO], OPSEL | NEGLO | NEGHI | CLAMP),
        row(0x1d, Op::VPkMinimumF16, W1, [PH, PH, NO], OPSEL | NEGLO | NEGHI | CLAMP),
        row(0x1e, Op::VPkMaximumF16, W1, [PH, PH, NO], OPSEL | NEGLO | NEGHI | CLAMP),
        row(0x24, Op::VDot4F32Fp8Bf8, W1, [W1, W1, W1], M2 | NEGLO | NEGHI | DPP),
        row(0x25, Op::VDot4F32Bf8Fp8, W1, [W1, W1, W1], M2 | NEGLO | NEGHI | DPP),
        row(0x26, Op::VDot4F32Fp8Fp8, W1, [W1, W1, W1], M2 | NEGLO | NEGHI | DPP),
        row(0x27, Op::VDot4F32Bf8Bf8, W1, [W1, W1, W1], M2 | NEGLO | NEGHI | DPP),
        row(0x40, Op::VWmmaF3216x16x16F16, W8, [V4, V4, W8], NEGLO | NEGHI | WMMA),
        row(0x41, Op::VWmmaF3216x16x16Bf16, W8, [V4, V4, W8], NEGLO | NEGHI | WMMA),
        row(0x42, Op::VWmmaF1616x16x16F16, W4, [V4, V4, W4], NEGLO | NEGHI | WMMA),
        row(0x43, Op::VWmmaBf1616x16x16Bf16, W4, [V4, V4, W4], NEGLO | NEGHI | WMMA),
        row(0x44, Op::VWmmaI3216x16x16Iu8, W8, [V2, V2, W8], NEGLO | CLAMP | WMMA),
        row(0x45, Op::VWmmaI3216x16x16Iu4, W8, [V1, V1, W8], NEGLO | CLAMP | WMMA),
        row(0x46, Op::VWmmaF3216x16x16Fp8Fp8, W8, [V2, V2, W8], NEGLO | NEGHI | WMMA),
        row(0x47, Op::VWmmaF3216x16x16Fp8Bf8, W8, [V2, V2, W8], NEGLO | NEGHI | WMMA),
        row(0x48, Op::VWmmaF3216x16x16Bf8Fp8, W8, [V2, V2, W8], NEGLO | NEGHI | WMMA),
        row(0x49, Op::VWmmaF3216x16x16Bf8Bf8, W8, [V2, V2, W8], NEGLO | NEGHI | WMMA),
        row(0x4a, Op::VWmmaI3216x16x32Iu4, W8, [V2, V2, W8], NEGLO | CLAMP | WMMA),
        row(0x50, Op::VSwmmacF3216x16x32F16, W8, [V4, V8, V1], INDEXKEY | NEGLO | NEGHI | WMMA),
        row(0x51, Op::VSwmmacF3216x16x32Bf16, W8, [V4, V8, V1], INDEXKEY | NEGLO | NEGHI | WMMA),
        row(0x52, Op::VSwmmacF1616x16x32F16, W4, [V4, V8, V1], INDEXKEY | NEGLO | NEGHI | WMMA),
        row(0x53, Op::VSwmmacBf1616x16x32Bf16, W4, [V4, V8, V1], INDEXKEY | NEGLO | NEGHI | WMMA),
        row(0x54, Op::VSwmmacI3216x16x32Iu8, W8, [V2, V4, V1], INDEXKEY | NEGLO | CLAMP | WMMA),
        row(0x55, Op::VSwmmacI3216x16x32Iu4, W8, [V1, V2, V1], INDEXKEY | NEGLO | CLAMP | WMMA),
        row(0x56, Op::VSwmmacI3216x16x64Iu4, W8, [V2, V4, V1], NEGLO | CLAMP | WMMA),
        row(0x57, Op::VSwmmacF3216x16x32Fp8Fp8, W8, [V2, V4, V1], INDEXKEY | WMMA),
        row(0x58, Op::VSwmmacF3216x16x32Fp8Bf8, W8, [V2, V4, V1], INDEXKEY | WMMA),
        row(0x59, Op::VSwmmacF3216x16x32Bf8Fp8, W8, [V2, V4, V1], INDEXKEY | WMMA),
        row(0x5a, Op::VSwmmacF3216x16x32Bf8Bf8, W8, [V2, V4, V1], INDEXKEY | WMMA),
    ],
);

/// VOPD.
static VOPD: Table = Table::differing(
    gfx1100::TABLES.vopd,
    &[],
    &[row(0x0a, Op::VMaxNumF32, W1, [W1, W1, NO], PLAIN), row(0x0b, Op::VMinNumF32, W1, [W1, W1, NO], PLAIN)],
);

/// DS.
static DS: Table = Table::differing(
    gfx1100::TABLES.ds,
    &[0x11, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x31, 0x34, 0x3f, 0x51, 0x71, 0x7a, 0x7b, 0xad],
    &[
        row(0x12, Op::DsMinNumF32, NO, [W1, W1, NO], PLAIN),
        row(0x13, Op::DsMaxNumF32, NO, [W1, W1, NO], PLAIN),
        row(0x32, Op::DsMinNumRtnF32, W1, [W1, W1, NO], PLAIN),
        row(0x33, Op::DsMaxNumRtnF32, W1, [W1, W1, NO], PLAIN),
        row(0x52, Op::DsMinNumF64, NO, [W1, W2, NO], PLAIN),
        row(0x53, Op::DsMaxNumF64, NO, [W1, W2, NO], PLAIN),
        row(0x72, Op::DsMinNumRtnF64, W2, [W1, W2, NO], PLAIN),
        row(0x73, Op::DsMaxNumRtnF64, W2, [W1, W2, NO], PLAIN),
        row(0x98, Op::DsCondSubU32, NO, [W1, W1, NO], PLAIN),
        row(0x99, Op::DsSubClampU32, NO, [W1, W1, NO], PLAIN),
        row(0x9a, Op::DsPkAddF16, NO, [W1, W1, NO], PLAIN),
        row(0x9b, Op::DsPkAddBf16, NO, [W1, W1, NO], PLAIN),
        row(0xa8, Op::DsCondSubRtnU32, W1, [W1, W1, NO], PLAIN),
        row(0xa9, Op::DsSubClampRtnU32, W1, [W1, W1, NO], PLAIN),
        row(0xaa, Op::DsPkAddRtnF16, W1, [W1, W1, NO], PLAIN),
        row(0xab, Op::DsPkAddRtnBf16, W1, [W1, W1, NO], PLAIN),
        row(0xcd, Op::DsBpermuteFiB32, W1, [W1, W1, NO], PLAIN),
        row(0xe0, Op::DsBvhStackPush4Pop1RtnB32, W1, [W1, W1, W4], PLAIN),
        row(0xe1, Op::DsBvhStackPush8Pop1RtnB32, W1, [W1, W1, W8], PLAIN),
        row(0xe2, Op::DsBvhStackPush8Pop2RtnB64, W2, [W1, W1, W8], PLAIN),
    ],
);

/// FLAT.
static FLAT: Table = Table::differing(
    gfx1100::TABLES.flat,
    &[],
    &[
        row(0x37, Op::FlatAtomicSubClampU32, W1, [W2, W1, NO], ATOMIC),
        row(0x50, Op::FlatAtomicCondSubU32, W1, [W2, W1, NO], ATOMIC),
        row(0x51, Op::FlatAtomicMinNumF32, W1, [W2, W1, NO], ATOMIC),
        row(0x52, Op::FlatAtomicMaxNumF32, W1, [W2, W1, NO], ATOMIC),
        row(0x59, Op::FlatAtomicPkAddF16, W1, [W2, W1, NO], ATOMIC),
        row(0x5a, Op::FlatAtomicPkAddBf16, W1, [W2, W1, NO], ATOMIC),
    ],
);

/// GLOBAL.
static GLOBAL: Table = Table::differing(
    gfx1100::TABLES.global,
    &[],
    &[
        row(0x2b, Op::GlobalInv, NO, [NO, NO, NO], PLAIN),
        row(0x2c, Op::GlobalWb, NO, [NO, NO, NO], PLAIN),
        row(0x37, Op::GlobalAtomicSubClampU32, W1, [W2, W1, NO], ATOMIC),
        row(0x4f, Op::GlobalWbinv, NO, [NO, NO, NO], PLAIN),
        row(0x50, Op::GlobalAtomicCondSubU32, W1, [W2, W1, NO], ATOMIC),
        row(0x51, Op::GlobalAtomicMinNumF32, W1, [W2, W1, NO], ATOMIC),
        row(0x52, Op::GlobalAtomicMaxNumF32, W1, [W2, W1, NO], ATOMIC),
        row(0x53, Op::GlobalLoadBlock, W32, [W2, NO, NO], PLAIN),
        row(0x54, Op::GlobalStoreBlock, NO, [W2, W32, NO], PLAIN),
        row(0x57, Op::GlobalLoadTrB128, W4, [W2, NO, NO], WMMA),
        row(0x58, Op::GlobalLoadTrB64, W2, [W2, NO, NO], WMMA),
        row(0x59, Op::GlobalAtomicPkAddF16, W1, [W2, W1, NO], ATOMIC),
        row(0x5a, Op::GlobalAtomicPkAddBf16, W1, [W2, W1, NO], ATOMIC),
        row(0x73, Op::GlobalAtomicOrderedAddB64, W2, [W2, W2, NO], ATOMIC),
    ],
);

/// SCRATCH.
static SCRATCH: Table = Table::differing(
    gfx1100::TABLES.scratch,
    &[],
    &[
        row(0x53, Op::ScratchLoadBlock, W32, [W1, NO, NO], PLAIN),
        row(0x54, Op::ScratchStoreBlock, NO, [W1, W32, NO], PLAIN),
    ],
);

/// MUBUF.
static MUBUF: Table = Table::differing(
    gfx1100::TABLES.mubuf,
    &[0x2b, 0x2c],
    &[
        row(0x37, Op::BufferAtomicSubClampU32, W1, [W1, W1, NO], ATOMIC),
        row(0x50, Op::BufferAtomicCondSubU32, W1, [W1, W1, NO], ATOMIC),
        row(0x51, Op::BufferAtomicMinNumF32, W1, [W1, W1, NO], ATOMIC),
        row(0x52, Op::BufferAtomicMaxNumF32, W1, [W1, W1, NO], ATOMIC),
        row(0x59, Op::BufferAtomicPkAddF16, W1, [W1, W1, NO], ATOMIC),
        row(0x5a, Op::BufferAtomicPkAddBf16, W1, [W1, W1, NO], ATOMIC),
    ],
);
