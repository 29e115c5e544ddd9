//! gfx1100's opcodes of the packed format.
//!
//! `row(opcode, operation, destination, sources, flags)`; the words are explained in `super::super::row`. Facts, taken
//! by enumerating the opcodes and operand fields through LLVM 22's disassembler for gfx1100.

use crate::table::Op;
use crate::table::row::*;

/// VOP3P.
pub(super) static VOP3P: Table = Table::new(&[
    row(0x00, Op::VPkMadI16, W1, [W1, W1, W1], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x01, Op::VPkMulLoU16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x02, Op::VPkAddI16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x03, Op::VPkSubI16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x04, Op::VPkLshlrevB16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x05, Op::VPkLshrrevB16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x06, Op::VPkAshrrevI16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x07, Op::VPkMaxI16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x08, Op::VPkMinI16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x09, Op::VPkMadU16, W1, [W1, W1, W1], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x0a, Op::VPkAddU16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x0b, Op::VPkSubU16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x0c, Op::VPkMaxU16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x0d, Op::VPkMinU16, W1, [W1, W1, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x0e, Op::VPkFmaF16, W1, [PH, PH, PH], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x0f, Op::VPkAddF16, W1, [PH, PH, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x10, Op::VPkMulF16, W1, [PH, PH, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x11, Op::VPkMinF16, W1, [PH, PH, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x12, Op::VPkMaxF16, W1, [PH, PH, NO], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x13, Op::VDot2F32F16, W1, [PH, PH, PH], OPSEL | NEGLO | NEGHI | CLAMP | DPP),
    row(0x16, Op::VDot4I32Iu8, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    row(0x17, Op::VDot4U32U8, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    row(0x18, Op::VDot8I32Iu4, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    row(0x19, Op::VDot8U32U4, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    row(0x1a, Op::VDot2F32Bf16, W1, [W1, W1, W1], OPSEL | NEGLO | NEGHI | CLAMP | DPP),
    row(0x20, Op::VFmaMixF32, W1, [H1, H1, H1], MIX | OPSEL | CLAMP | DPP),
    row(0x21, Op::VFmaMixloF16, W1, [H1, H1, H1], MIX | OPSEL | CLAMP | DPP),
    row(0x22, Op::VFmaMixhiF16, W1, [H1, H1, H1], MIX | OPSEL | CLAMP | DPP),
    row(0x40, Op::VWmmaF3216x16x16F16, W8, [V8, V8, W8], NEGLO | NEGHI | WMMA),
    row(0x41, Op::VWmmaF3216x16x16Bf16, W8, [V8, V8, W8], NEGLO | NEGHI | WMMA),
    row(0x42, Op::VWmmaF1616x16x16F16, W8, [V8, V8, W8], OPSEL | NEGLO | NEGHI | WMMA),
    row(0x43, Op::VWmmaBf1616x16x16Bf16, W8, [V8, V8, W8], OPSEL | NEGLO | NEGHI | WMMA),
    row(0x44, Op::VWmmaI3216x16x16Iu8, W8, [V4, V4, W8], NEGLO | NEGHI | CLAMP | WMMA),
    row(0x45, Op::VWmmaI3216x16x16Iu4, W8, [V2, V2, W8], NEGLO | NEGHI | CLAMP | WMMA),
]);
