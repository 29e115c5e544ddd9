//! The instruction set of CDNA 4, gfx950 (MI350), as it differs from gfx942's.
//!
//! `Table::differing(base, opcodes that are gone, rows that are new or other)`; the words are explained in `super::row`.
//! Facts, taken by enumerating the opcodes and operand fields through LLVM 22's disassembler.

use super::row::*;
use super::{Op, gfx942, names};

/// Every format of gfx950.
pub(super) const TABLES: Tables = Tables {
    encoding: Encoding::Gfx940,
    unified: true,
    names: &names::GFX940,
    vop1: &VOP1,
    vop2: &VOP2,
    vop3: &VOP3,
    vop3p: &VOP3P,
    vop3p_mai: &VOP3P_MAI,
    vop3p_scaled: &VOP3P_SCALED,
    ds: &DS,
    global: &GLOBAL,
    mubuf: &MUBUF,
    ..gfx942::TABLES
};

/// VOP1.
static VOP1: Table = Table::differing(
    gfx942::TABLES.vop1,
    &[],
    &[
        row(0x58, Op::VPrngB32, W1, [W1, NO, NO], E | SDWA | SX0 | DPP),
        row(0x59, Op::VPermlane16SwapB32, W1, [V1, NO, NO], E | SWAP),
        row(0x5a, Op::VPermlane32SwapB32, W1, [V1, NO, NO], E | SWAP),
        row(0x5b, Op::VCvtF32Bf16, W1, [W1, NO, NO], E | SDWA | SN0 | OMOD | DPP | DN0),
    ],
);

/// VOP2.
static VOP2: Table =
    Table::differing(gfx942::TABLES.vop2, &[], &[row(0x16, Op::VDot2cF32Bf16, W1, [W1, W1, NO], E | DPP | DN0 | DN1)]);

/// VOP3.
static VOP3: Table = Table::differing(
    gfx942::TABLES.vop3,
    &[],
    &[
        row(0x116, Op::VDot2cF32Bf16, W1, [W1, W1, NO], E | M0 | M1 | CLAMP | OMOD),
        row(0x198, Op::VPrngB32, W1, [W1, NO, NO], E),
        row(0x199, Op::VPermlane16SwapB32, W1, [V1, NO, NO], E | OPSEL | BCFI),
        row(0x19a, Op::VPermlane32SwapB32, W1, [V1, NO, NO], E | OPSEL | BCFI),
        row(0x19b, Op::VCvtF32Bf16, W1, [W1, NO, NO], E | M0 | CLAMP | OMOD),
        row(0x233, Op::VBitop3B16, W1, [I1, I1, I1], OMOD | OPSEL | BITOP3 | M0 | M1 | M2),
        row(0x234, Op::VBitop3B32, W1, [W1, W1, W1], OMOD | BITOP3 | M0 | M1 | M2),
        row(0x235, Op::VCvtScalef32PkFp8F32, W1, [W1, W1, W1], M0 | M1 | M2 | OPSEL),
        row(0x236, Op::VCvtScalef32PkBf8F32, W1, [W1, W1, W1], M0 | M1 | M2 | OPSEL),
        row(0x237, Op::VCvtScalef32SrFp8F32, W1, [W1, W1, W1], M0 | M2 | OPSEL),
        row(0x238, Op::VCvtScalef32SrBf8F32, W1, [W1, W1, W1], M0 | M2 | OPSEL),
        row(0x239, Op::VCvtScalef32PkF32Fp8, W2, [W1, W1, NO], M1 | OPSEL),
        row(0x23a, Op::VCvtScalef32PkF32Bf8, W2, [W1, W1, NO], M1 | OPSEL),
        row(0x23b, Op::VCvtScalef32F32Fp8, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x23c, Op::VCvtScalef32F32Bf8, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x23d, Op::VCvtScalef32PkFp4F32, W1, [W1, W1, W1], M0 | M1 | M2 | OPSEL),
        row(0x23e, Op::VCvtScalef32SrPkFp4F32, W1, [V2, W1, W1], M0 | M2 | OPSEL),
        row(0x23f, Op::VCvtScalef32PkF32Fp4, W2, [W1, W1, NO], M1 | OPSEL),
        row(0x240, Op::VCvtScalef32PkFp8F16, W1, [W1, W1, NO], M0 | M1 | OPSEL),
        row(0x241, Op::VCvtScalef32PkBf8F16, W1, [W1, W1, NO], M0 | M1 | OPSEL),
        row(0x242, Op::VCvtScalef32SrFp8F16, W1, [W1, W1, W1], M0 | M2 | OPSEL),
        row(0x243, Op::VCvtScalef32SrBf8F16, W1, [W1, W1, W1], M0 | M2 | OPSEL),
        row(0x244, Op::VCvtScalef32PkFp8Bf16, W1, [W1, W1, NO], M0 | M1 | OPSEL),
        row(0x245, Op::VCvtScalef32PkBf8Bf16, W1, [W1, W1, NO], M0 | M1 | OPSEL),
        row(0x246, Op::VCvtScalef32SrFp8Bf16, W1, [W1, W1, W1], M0 | M2 | OPSEL),
        row(0x247, Op::VCvtScalef32SrBf8Bf16, W1, [W1, W1, W1], M0 | M2 | OPSEL),
        row(0x248, Op::VCvtScalef32PkF16Fp8, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x249, Op::VCvtScalef32PkF16Bf8, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x24a, Op::VCvtScalef32F16Fp8, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x24b, Op::VCvtScalef32F16Bf8, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x24c, Op::VCvtScalef32PkFp4F16, W1, [W1, W1, NO], M0 | M1 | OPSEL | BYTESEL),
        row(0x24d, Op::VCvtScalef32PkFp4Bf16, W1, [W1, W1, NO], M0 | M1 | OPSEL | BYTESEL),
        row(0x24e, Op::VCvtScalef32SrPkFp4F16, W1, [W1, W1, W1], M0 | M2 | OPSEL),
        row(0x24f, Op::VCvtScalef32SrPkFp4Bf16, W1, [W1, W1, W1], M0 | M2 | OPSEL),
        row(0x250, Op::VCvtScalef32PkF16Fp4, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x251, Op::VCvtScalef32PkBf16Fp4, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x252, Op::VCvtScalef322xpk16Fp6F32, W6, [V16, V16, W1], PLAIN),
        row(0x253, Op::VCvtScalef322xpk16Bf6F32, W6, [V16, V16, W1], PLAIN),
        row(0x254, Op::VCvtScalef32SrPk32Fp6F32, W6, [V32, W1, W1], PLAIN),
        row(0x255, Op::VCvtScalef32SrPk32Bf6F32, W6, [V32, W1, W1], PLAIN),
        row(0x256, Op::VCvtScalef32Pk32F32Fp6, W32, [V6, W1, NO], PLAIN),
        row(0x257, Op::VCvtScalef32Pk32F32Bf6, W32, [V6, W1, NO], PLAIN),
        row(0x258, Op::VCvtScalef32Pk32Fp6F16, W6, [V16, W1, NO], PLAIN),
        row(0x259, Op::VCvtScalef32Pk32Fp6Bf16, W6, [V16, W1, NO], PLAIN),
        row(0x25a, Op::VCvtScalef32Pk32Bf6F16, W6, [V16, W1, NO], PLAIN),
        row(0x25b, Op::VCvtScalef32Pk32Bf6Bf16, W6, [V16, W1, NO], PLAIN),
        row(0x25c, Op::VCvtScalef32SrPk32Fp6F16, W6, [V16, W1, W1], PLAIN),
        row(0x25d, Op::VCvtScalef32SrPk32Fp6Bf16, W6, [V16, W1, W1], PLAIN),
        row(0x25e, Op::VCvtScalef32SrPk32Bf6F16, W6, [V16, W1, W1], PLAIN),
        row(0x25f, Op::VCvtScalef32SrPk32Bf6Bf16, W6, [V16, W1, W1], PLAIN),
        row(0x260, Op::VCvtScalef32Pk32F16Fp6, W16, [V6, W1, NO], PLAIN),
        row(0x261, Op::VCvtScalef32Pk32Bf16Fp6, W16, [V6, W1, NO], PLAIN),
        row(0x262, Op::VCvtScalef32Pk32F16Bf6, W16, [V6, W1, NO], PLAIN),
        row(0x263, Op::VCvtScalef32Pk32Bf16Bf6, W16, [V6, W1, NO], PLAIN),
        row(0x265, Op::VAshrPkI8I32, W1, [W1, W1, W1], OPSEL),
        row(0x266, Op::VAshrPkU8I32, W1, [W1, W1, W1], OPSEL),
        row(0x267, Op::VCvtPkF16F32, W1, [W1, W1, NO], M0 | M1 | CLAMP | OMOD),
        row(0x268, Op::VCvtPkBf16F32, W1, [W1, W1, NO], M0 | M1 | CLAMP | OMOD),
        row(0x269, Op::VCvtScalef32PkBf16Fp8, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x26a, Op::VCvtScalef32PkBf16Bf8, W1, [W1, W1, NO], M1 | OPSEL),
        row(0x2a6, Op::VCvtSrF16F32, W1, [W1, W1, NO], M0 | OPSEL),
        row(0x2a7, Op::VCvtSrBf16F32, W1, [W1, W1, NO], M0 | OPSEL),
        row(0x2a8, Op::VMinimum3F32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD),
        row(0x2a9, Op::VMaximum3F32, W1, [W1, W1, W1], M0 | M1 | M2 | CLAMP | OMOD),
    ],
);

/// VOP3P.
static VOP3P: Table = Table::differing(
    gfx942::TABLES.vop3p,
    &[],
    &[
        row(0x1a, Op::VDot2F32Bf16, W1, [W1, W1, W1], OPSEL | CLAMP),
        row(0x1b, Op::VPkMinimum3F16, W1, [W1, W1, W1], OPSEL | CLAMP),
        row(0x1c, Op::VPkMaximum3F16, W1, [W1, W1, W1], OPSEL | CLAMP),
    ],
);

/// VOP3P_MAI.
static VOP3P_MAI: Table = Table::differing(
    gfx942::TABLES.vop3p_mai,
    &[0x3e, 0x3f],
    &[
        row(0x2c, Op::VMfmaLdScaleB32, NO, [W1, W1, NO], SCALED),
        row(0x2d, Op::VMfmaF3216x16x128F8f6f4, W4, [V8, V8, W4], CBSZ | BLGP | F8F6F4),
        row(0x2e, Op::VMfmaF3232x32x64F8f6f4, W16, [V8, V8, W16], CBSZ | BLGP | F8F6F4),
        row(0x35, Op::VMfmaF3216x16x32Bf16, W4, [V4, V4, W4], CBSZ | BLGP),
        row(0x36, Op::VMfmaI3216x16x64I8, W4, [V4, V4, W4], CBSZ | BLGP),
        row(0x37, Op::VMfmaF3232x32x16Bf16, W16, [V4, V4, W16], CBSZ | BLGP),
        row(0x38, Op::VMfmaI3232x32x32I8, W16, [V4, V4, W16], CBSZ | BLGP),
        row(0x39, Op::VSmfmacF3216x16x64Bf16, W4, [V4, V8, V1], CBSZ),
        row(0x3a, Op::VSmfmacI3216x16x128I8, W4, [V4, V8, V1], CBSZ),
        row(0x3b, Op::VSmfmacF3216x16x128Bf8Bf8, W4, [V4, V8, V1], CBSZ),
        row(0x3c, Op::VSmfmacF3216x16x128Bf8Fp8, W4, [V4, V8, V1], CBSZ),
        row(0x3d, Op::VSmfmacF3216x16x128Fp8Bf8, W4, [V4, V8, V1], CBSZ),
        row(0x43, Op::VSmfmacF3216x16x128Fp8Fp8, W4, [V4, V8, V1], CBSZ),
        row(0x46, Op::VSmfmacF3232x32x32Bf16, W16, [V4, V8, V1], CBSZ),
        row(0x47, Op::VSmfmacI3232x32x64I8, W16, [V4, V8, V1], CBSZ),
        row(0x4b, Op::VSmfmacF3232x32x64Bf8Bf8, W16, [V4, V8, V1], CBSZ),
        row(0x4e, Op::VSmfmacF3232x32x64Bf8Fp8, W16, [V4, V8, V1], CBSZ),
        row(0x4f, Op::VSmfmacF3232x32x64Fp8Bf8, W16, [V4, V8, V1], CBSZ),
        row(0x53, Op::VSmfmacF3232x32x64Fp8Fp8, W16, [V4, V8, V1], CBSZ),
        row(0x54, Op::VMfmaF3216x16x32F16, W4, [V4, V4, W4], CBSZ | BLGP),
        row(0x55, Op::VMfmaF3232x32x16F16, W16, [V4, V4, W16], CBSZ | BLGP),
        row(0x5a, Op::VSmfmacF3216x16x64F16, W4, [V4, V8, V1], CBSZ),
        row(0x5b, Op::VSmfmacF3232x32x32F16, W16, [V4, V8, V1], CBSZ),
    ],
);

/// VOP3P_SCALED.
static VOP3P_SCALED: Table = Table::differing(
    gfx942::TABLES.vop3p_scaled,
    &[],
    &[
        row(0x2d, Op::VMfmaScaleF3216x16x128F8f6f4, W4, [V8, V8, W4], CBSZ | BLGP),
        row(0x2e, Op::VMfmaScaleF3232x32x64F8f6f4, W16, [V8, V8, W16], CBSZ | BLGP),
    ],
);

/// DS.
static DS: Table = Table::differing(
    gfx942::TABLES.ds,
    &[],
    &[
        row(0xe0, Op::DsReadB64TrB4, W2, [W1, NO, NO], PLAIN),
        row(0xe1, Op::DsReadB96TrB6, W3, [W1, NO, NO], PLAIN),
        row(0xe2, Op::DsReadB64TrB8, W2, [W1, NO, NO], PLAIN),
        row(0xe3, Op::DsReadB64TrB16, W2, [W1, NO, NO], PLAIN),
    ],
);

/// GLOBAL.
static GLOBAL: Table = Table::differing(
    gfx942::TABLES.global,
    &[],
    &[
        row(0x7d, Op::GlobalLoadLdsDwordx4, NO, [W2, NO, NO], LDS),
        row(0x7e, Op::GlobalLoadLdsDwordx3, NO, [W2, NO, NO], LDS),
    ],
);

/// MUBUF.
static MUBUF: Table = Table::differing(
    gfx942::TABLES.mubuf,
    &[],
    &[
        row(0x16, Op::BufferLoadDwordx3, W3, [W1, NO, NO], LDSBIT),
        row(0x17, Op::BufferLoadDwordx4, W4, [W1, NO, NO], LDSBIT),
        row(0x52, Op::BufferAtomicPkAddBf16, W1, [W1, W1, NO], ATOMIC),
    ],
);
