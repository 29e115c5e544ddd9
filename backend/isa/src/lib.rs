//! Bytes to instructions for AMD GPUs: a decoder and a disassembler, nothing else.
//!
//! [`decode`] turns the bytes at a program counter into an [`Inst`]: an [`Op`] that is independent of the encoding, its
//! operands, and what the encoding adds ([`Modifiers`]). [`disassemble`] prints an [`Inst`] as `llvm-objdump` does. The
//! emulator decodes a module once and interprets the result; tests and error messages print it.
//!
//! It performs no I/O, has no unsafe code, never panics on any bytes, and says nothing about what instructions do. It is
//! table-driven: an instruction set is a folder of opcode rows under `table/`, and field layouts shared by a line of
//! GPUs are written once (`cdna`).

#![forbid(unsafe_code)]

mod cdna;
mod error;
mod inst;
mod table;
mod text;

pub use error::DecodeError;
pub use inst::{Dpp, Format, InlineFloat, Inst, Modifiers, Operand, OperandKind, Sdwa, SdwaSel, SdwaUnused};
pub use table::Op;
pub use text::disassemble;

use rocfire_arch::Arch;

/// Decodes the instruction at the start of `bytes`; what follows it is ignored.
///
/// # Errors
/// [`DecodeError::Truncated`] if `bytes` end inside the instruction, [`DecodeError::Invalid`] if its opcode or a field
/// has no meaning on `arch`, [`DecodeError::Unsupported`] if `arch` has no tables.
pub fn decode(arch: Arch, bytes: &[u8]) -> Result<Inst, DecodeError> {
    let name = arch.info().name;
    match table::of(arch) {
        Some(tables) => cdna::decode(tables, name, bytes),
        None => Err(DecodeError::Unsupported { arch: name }),
    }
}
