//! Filetests: machine code with the state before and after, as text. `tests/filetests` has them; here they run on the emulator alone,
//! and `tests/tests/silicon` of the workspace wraps each in a kernel, for any AMD device.
//!
//! A file is a list of cases. In each line `;` begins a directive or, where no word of a directive follows, a remark.
//!
//! ```text
//! ; target gfx942            ; source: ISA, SOPC 13: SCC = (S0 >> S1[4:0] & 1) == 1
//! ; given s3=0x4
//! bf0d0403 s_bitcmp1_b32 s3, s4 ; init s4=2 ; expect scc=1
//! ; init s4=3 ; expect scc=0
//!
//! ; init s0=1
//! 80008000 s_add_u32 s0, s0, 0
//! 80008100 s_add_u32 s0, s0, 1
//! ; expect s0=2
//! ; expect scc=0
//! ```
//!
//! | directive | what |
//! | --- | --- |
//! | `target` | architectures that each case until the next `target` runs on; `wave64` behind RDNA's asks for waves of 64 lanes |
//! | `given` | the state that each case until the next `given` starts from; without places, nothing |
//! | `init` | what a case sets besides, before it runs |
//! | `expect` | what is compared afterwards; the case ends with its last one, or with an empty line |
//!
//! A case without code runs the code of the one before, so that one instruction may head a table of operands and results.
//!
//! Code stands as little-endian words in hexadecimal and as the text that the disassembler gives for them, which is
//! compared too. The program ends after its last instruction. EXEC is full unless it is set, LDS and scratch
//! hold ones, everything else is zero.
//!
//! | place | what |
//! | --- | --- |
//! | `s3`, `m0`, `mode`, `scc` | 32 bits (SCC one) |
//! | `s[4:5]`, `vcc`, `exec` | 64 bits |
//! | `v3`, `a3` | 32 bits in all lanes of the wave |
//! | `v[4:5]`, `a[4:5]` | 64 bits in all lanes |
//! | `v3.7`, `v[4:5].7`, `v3.0-15` | in lane 7, in lanes 0 to 15 |
//! | `lds.8`, `mem.8` | the dword at byte 8 of LDS (64 KiB), of a buffer in device memory (4 KiB) |
//! | `v3-7`, `s3-7` | each of these registers |
//! | `fault` | only expected: the kind of fault, as `FaultKind` names it |
//!
//! Values: `12`, `-3`, `0xff`; floats with their size, `1.5h`, `1.5f`, `1.5d`, also `inf`, `-inf`, `nan` before the letter;
//! `lane`, `lane*4`, `lane*4+3`; `mem`, the buffer's address. A list, `s4=1,2,3`, goes on from the place by registers, and where it
//! names a lane or a dword, by those: `v3.0=1,2,3`, `mem.8=1,2`.
//!
//! Each case runs at every CPU level that the host has, and must end the same. With `ROCFIRE_BLESS=1` the words are
//! written anew from the texts, by `llvm-mc`; a new case may be written with texts alone.

#[cfg(test)]
mod bless;
mod place;
#[cfg(test)]
mod run;
mod text;

use crate::env::UNWRITTEN;

pub use place::{Location, place, value};
pub use text::{Case, Pair, Target, parse};

/// Bytes of LDS that a case has.
pub const LDS_BYTES: usize = 64 << 10;
/// Bytes of the buffer in device memory that a case has.
pub const MEM_BYTES: u64 = 4 << 10;
/// Bytes of scratch that a lane has.
pub const SCRATCH_BYTES: u32 = 1 << 10;
/// What each byte of LDS and scratch is before a case.
pub const FRESH: u8 = 0xff;
const _: () = assert!(u64::from_ne_bytes([FRESH; 8]) == UNWRITTEN);
