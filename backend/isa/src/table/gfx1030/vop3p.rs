//! gfx1030's opcodes of the packed format.
//!
//! `row(opcode, operation, destination, sources, flags)`; the words are explained in `super::super::row`. Facts, taken
//! by enumerating the opcodes and operand fields through LLVM 22's disassembler for gfx1030.

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
    row(0x13, Op::VDot2F32F16, W1, [PH, PH, PH], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x14, Op::VDot2I32I16, W1, [W1, W1, W1], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x15, Op::VDot2U32U16, W1, [W1, W1, W1], OPSEL | NEGLO | NEGHI | CLAMP),
    row(0x16, Op::VDot4I32I8, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    row(0x17, Op::VDot4U32U8, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    row(0x18, Op::VDot8I32I4, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    row(0x19, Op::VDot8U32U4, W1, [W1, W1, W1], NEGLO | NEGHI | CLAMP),
    row(0x20, Op::VFmaMixF32, W1, [H1, H1, H1], MIX | OPSEL | CLAMP),
    row(0x21, Op::VFmaMixloF16, W1, [H1, H1, H1], MIX | OPSEL | CLAMP),
    row(0x22, Op::VFmaMixhiF16, W1, [H1, H1, H1], MIX | OPSEL | CLAMP),
]);
