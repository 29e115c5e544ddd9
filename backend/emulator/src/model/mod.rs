//! What instructions and accesses cost on hardware, as far as that is published: pure functions of an instruction, of
//! addresses and of an architecture's row, with nothing of the emulator in them.
//!
//! | module | says |
//! | --- | --- |
//! | [`issue`] | the clocks for which an instruction occupies its pipe |
//! | [`matrix`] | shape, clocks and shadow of a matrix instruction |
//! | [`banks`] | clocks and conflicts of an LDS access |
//! | [`lines`] | segments and cache lines that a memory access touches |
//! | [`occupancy`] | how many waves can be resident |
//! | [`bound`] | which pipe binds a kernel, and how far it is from a card's roofline |
//! | [`timeline`] | what waits, dependencies and barriers make of it, turn by turn |
//! | [`latency`] | the constants of that |
//!
//! `MODEL.md` of this crate has every number's source and every assumption. Results are *modelled* bounds: nothing here is
//! a time, and no time follows from it.

pub(crate) mod banks;
pub(crate) mod bound;
pub(crate) mod issue;
pub(crate) mod latency;
pub(crate) mod lines;
pub(crate) mod matrix;
pub(crate) mod occupancy;
pub(crate) mod timeline;

/// An instruction without operands.
#[cfg(test)]
fn named(mnemonic: &str) -> rocfire_isa::Inst {
    let op = *rocfire_isa::Op::ALL.iter().find(|op| op.mnemonic() == mnemonic).unwrap();
    rocfire_isa::Inst { op, ..crate::step::MicroOp::NO_INST }
}
