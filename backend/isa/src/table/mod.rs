//! Opcode facts: the only place where opcode numbers are written.

mod op;

pub use op::Op;
