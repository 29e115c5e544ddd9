#![doc = include_str!("../README.md")]
//!
//! # How it is laid out
//!
//! [`decode_dual`] turns the bytes at a program counter into a [`Decoded`]: an [`Inst`], or two for RDNA's VOPD pairs. An
//! `Inst` is an [`Op`] that is independent of the encoding, its operands, and what the encoding adds ([`Modifiers`]).
//! [`disassemble_dual`] prints it as `llvm-objdump` does. [`decode`] and [`disassemble`] are the same without pairs.
//!
//! The emulator decodes a module once and interprets the result. Tests and error messages print it.
//!
//! Every bit of an instruction that decodes is in what it decodes to: one that means nothing to the operation makes it
//! undecodable. On RDNA 3 and 4 the text names halves of registers (`v1.h`), as LLVM does for `+real-true16`.
//!
//! Lane masks are as wide as the wave, so decoding asks for the [`WaveSize`] where an architecture has two; the text then
//! follows from the operands (`vcc_lo` or `vcc`). AMD renamed many operations with RDNA 3 and 4 (`ds_read_b32` became
//! `ds_load_b32`): each spelling is an `Op`, and [`Op::canonical`] leads from the later to the earlier one.
//!
//! It performs no I/O, has no unsafe code, and never panics on any bytes. Of what instructions do it knows the columns of [`Facts`], and
//! computes nothing. Graphics (images, exports, interpolation, typed buffers) is refused with a reason.
//!
//! It is driven by tables. An instruction set is a folder of opcode rows under `table/`, or the rows in which it differs from
//! another. Field layouts are written once for all (`layout`).

#![forbid(unsafe_code)]

mod error;
mod facts;
mod inst;
mod layout;
mod table;
mod text;

pub use error::DecodeError;
pub use facts::{Class, Element, Facts, FloatKind, MatrixShape, MatrixType, Part, Scaling, Speed};
pub use inst::{
    Decoded, Dpp, Dpp8, Format, InlineFloat, Inst, MatrixScale, Modifiers, Operand, OperandKind, Sdwa, SdwaSel,
    SdwaUnused, WaveSize,
};
pub use table::Op;
pub use text::{disassemble, disassemble_dual};

use rocfire_arch::Arch;

/// Decodes what stands at the start of `bytes`, in a kernel for waves of size `wave`; what follows it is ignored.
///
/// # Errors
/// [`DecodeError::Truncated`] if `bytes` end inside the instruction, [`DecodeError::Invalid`] if its opcode or a field
/// has no meaning on `arch`, [`DecodeError::Unsupported`] if `arch` has no tables.
pub fn decode_dual(arch: Arch, wave: WaveSize, bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let name = arch.info().name;
    match table::of(arch) {
        Some(tables) => layout::decode(tables, name, wave, bytes),
        None => Err(DecodeError::Unsupported { arch: name }),
    }
}

/// Decodes the instruction at the start of `bytes`, for waves of the size that our kernels have; what follows it is ignored.
///
/// # Errors
/// Those of [`decode_dual`], and [`DecodeError::Pair`] for two operations in one instruction (RDNA 3 and later).
pub fn decode(arch: Arch, bytes: &[u8]) -> Result<Inst, DecodeError> {
    match decode_dual(arch, WaveSize::usual(arch), bytes)? {
        Decoded { first, second: None } => Ok(first),
        Decoded { first, second: Some(second) } => {
            Err(DecodeError::Pair { first: first.op.mnemonic(), second: second.op.mnemonic() })
        }
    }
}
