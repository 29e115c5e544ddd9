//! Scalar operations: bit by bit where that is simple, else everything undefined if anything is.

use rocfire_isa::{Inst, Op};

use super::Unwritten;
use crate::instrument::uses::{Named, named};
use crate::instrument::{At, Finding, Verdict};
use crate::wave::{LANES, Wave, scalar};

/// A source: its value, and which bits of it mean nothing.
#[derive(Clone, Copy, Default)]
struct Value {
    bits: u64,
    undefined: u64,
    width: u32,
}

impl Value {
    fn mask(width: u32) -> u64 {
        if width >= 64 { !0 } else { (1 << width) - 1 }
    }
}

impl Unwritten {
    /// Follows a scalar operation, and checks branches.
    pub(super) fn scalar_op(&mut self, at: &At<'_>, w: &Wave) -> Verdict {
        if self.reads_are_defined(at, w, 0) {
            let state = self.state(w);
            at.uses.scalar_writes.iter().for_each(|&registers| state.define_scalar(registers));
            return Ok(());
        }
        let inst = &at.step.inst;
        let origin = self.origin_of_reads(at, w, 0);
        let (a, b) = (self.scalar_source(at, w, 0), self.scalar_source(at, w, 1));
        self.check_control(at, w, origin)?;
        let width = u32::from(inst.dst[0].dwords.max(1)) * 32;
        let (result, value) = self.scalar_result(inst, w, a, b, width);
        let state = self.state(w);
        let scc = match value {
            // SCC says whether the result is zero: known as soon as one defined bit is set.
            Some(value) => result != 0 && value & !result == 0,
            None => compare(inst.op, a, b),
        };
        let mut written = Vec::new();
        for registers in &at.uses.scalar_writes {
            for (i, register) in registers.range().enumerate() {
                let undefined = match register {
                    scalar::SCC => u32::from(scc),
                    _ => (result >> (32 * (i as u32 % 2))) as u32,
                };
                written.push((register, undefined));
            }
        }
        // What `s_and_saveexec` and the like save is EXEC, which is always defined.
        let facts = inst.op.facts();
        let saves = facts.reads_exec && facts.writes_exec && !is_wrexec(inst.op);
        for (register, undefined) in written {
            let own = !matches!(register, scalar::SCC) && register < scalar::EXEC;
            state.set_scalar(register, if saves && own { 0 } else { undefined }, origin);
        }
        self.check_exec(at, w, origin)
    }

    /// That no bit of EXEC is undefined.
    pub(super) fn check_exec(&mut self, at: &At<'_>, w: &Wave, origin: u32) -> Verdict {
        let state = self.state(w);
        let exec = usize::from(scalar::EXEC);
        let lanes = u64::from(state.scalar[exec]) | u64::from(state.scalar[exec + 1]) << 32;
        if lanes & w.live != 0 {
            return Err(self.finding(at, "which lanes go on".to_owned(), origin, lanes & w.live));
        }
        (state.scalar[exec], state.scalar[exec + 1]) = (0, 0);
        Ok(())
    }

    /// Branches and jumps.
    fn check_control(&mut self, at: &At<'_>, w: &Wave, origin: u32) -> Verdict {
        // In a wave32 the upper half is not part of a mask.
        let lanes = u64::MAX >> (LANES - w.lanes);
        let scalars = &self.state(w).scalar;
        let wide = |first: u16| {
            (u64::from(scalars[usize::from(first)]) | u64::from(scalars[usize::from(first) + 1]) << 32) & lanes
        };
        let report: fn(&Unwritten, &At<'_>, &str, u32) -> Box<Finding> =
            |check, at, what, origin| check.finding(at, what.to_owned(), origin, 0);
        match at.step.inst.op {
            Op::SCbranchScc0 | Op::SCbranchScc1 if scalars[usize::from(scalar::SCC)] != 0 => {
                Err(report(self, at, "the branch", origin))
            }
            Op::SCbranchVccz | Op::SCbranchVccnz if wide(scalar::VCC) != 0 && w.vcc() & !wide(scalar::VCC) == 0 => {
                Err(report(self, at, "the branch", origin))
            }
            Op::SSetpcB64 | Op::SSwappcB64 => Err(report(self, at, "the target of the jump", origin)),
            _ => Ok(()),
        }
    }

    fn scalar_source(&mut self, at: &At<'_>, w: &Wave, i: usize) -> Value {
        let operand = &at.step.inst.src[i];
        let width = u32::from(operand.dwords.max(1)) * 32;
        match named(operand) {
            Some(Named::Scalar(registers)) => {
                let state = &self.waves[w.number as usize].scalar;
                let mut value = Value { width, ..Value::default() };
                for (i, register) in registers.range().take(2).enumerate() {
                    let undefined = state.get(usize::from(register)).copied().unwrap_or(0);
                    value.bits |= u64::from(w.scalar_source(register)) << (32 * i);
                    value.undefined |= u64::from(undefined) << (32 * i);
                }
                value
            }
            _ if at.step.is_constant(i) => Value { bits: at.step.k[i], undefined: 0, width },
            _ => Value { width, ..Value::default() },
        }
    }

    /// Undefined bits of the result, and for operations whose SCC says whether it is zero, its value.
    fn scalar_result(&mut self, inst: &Inst, w: &Wave, a: Value, b: Value, width: u32) -> (u64, Option<u64>) {
        let mask = Value::mask(width);
        let exec = w.exec();
        let bitwise = |f: fn(u64, u64) -> u64, a: Value, b: Value| {
            let value = f(a.bits, b.bits) & mask;
            let other = [
                f(a.bits ^ a.undefined, b.bits),
                f(a.bits, b.bits ^ b.undefined),
                f(a.bits ^ a.undefined, b.bits ^ b.undefined),
            ];
            let undefined = other.iter().fold(0, |undefined, other| undefined | (other & mask) ^ value);
            (undefined, Some(value))
        };
        let exec = Value { bits: exec, undefined: 0, width };
        let all = if a.undefined | b.undefined != 0 { mask } else { 0 };
        let shift = b.bits as u32 & (width - 1);
        // The saving forms take EXEC as the second source.
        let y = if inst.op.facts().writes_exec { exec } else { b };
        match inst.op.canonical() {
            Op::SMovB32 | Op::SMovB64 | Op::SMovkI32 => (a.undefined & mask, None),
            Op::SNotB32 | Op::SNotB64 => bitwise(|a, _| !a, a, b),
            Op::SAndB32 | Op::SAndB64 | Op::SAndSaveexecB32 | Op::SAndSaveexecB64 => bitwise(|a, b| a & b, a, y),
            Op::SOrB32 | Op::SOrB64 | Op::SOrSaveexecB32 | Op::SOrSaveexecB64 => bitwise(|a, b| a | b, a, y),
            Op::SXorB32 | Op::SXorB64 | Op::SXorSaveexecB32 | Op::SXorSaveexecB64 => bitwise(|a, b| a ^ b, a, y),
            Op::SNandB32 | Op::SNandB64 | Op::SNandSaveexecB32 | Op::SNandSaveexecB64 => bitwise(|a, b| !(a & b), a, y),
            Op::SNorB32 | Op::SNorB64 | Op::SNorSaveexecB32 | Op::SNorSaveexecB64 => bitwise(|a, b| !(a | b), a, y),
            Op::SXnorB32 | Op::SXnorB64 | Op::SXnorSaveexecB32 | Op::SXnorSaveexecB64 => bitwise(|a, b| !(a ^ b), a, y),
            Op::SAndn2B32
            | Op::SAndn2B64
            | Op::SAndn2SaveexecB32
            | Op::SAndn2SaveexecB64
            | Op::SAndn2WrexecB32
            | Op::SAndn2WrexecB64 => bitwise(|a, b| a & !b, a, y),
            Op::SOrn2B32 | Op::SOrn2B64 | Op::SOrn2SaveexecB32 | Op::SOrn2SaveexecB64 => bitwise(|a, b| a | !b, a, y),
            // Of the saving forms the complement is of the source: EXEC & ~S0 and ~EXEC & S0 in this order of `a`, `y`.
            Op::SAndn1SaveexecB32 | Op::SAndn1SaveexecB64 | Op::SAndn1WrexecB32 | Op::SAndn1WrexecB64 => {
                bitwise(|a, b| !a & b, a, y)
            }
            Op::SOrn1SaveexecB32 | Op::SOrn1SaveexecB64 => bitwise(|a, b| !a | b, a, y),
            Op::SLshlB32 | Op::SLshlB64 if b.undefined == 0 => {
                let undefined = a.undefined << shift & mask;
                (undefined, Some(a.bits << shift & mask))
            }
            Op::SLshrB32 | Op::SLshrB64 if b.undefined == 0 => (a.undefined >> shift, Some((a.bits & mask) >> shift)),
            Op::SAshrI32 if b.undefined == 0 => {
                let undefined = (a.undefined as u32 as i32 >> shift) as u32;
                (u64::from(undefined), Some(u64::from((a.bits as u32 as i32 >> shift) as u32)))
            }
            Op::SBfeU32 | Op::SBfeU64 | Op::SBfeI32 | Op::SBfeI64 if b.undefined == 0 => {
                let (offset, bits) = (b.bits as u32 & (width - 1), (b.bits >> 16) as u32 & 127);
                let field = |value: u64| (value & mask) >> offset & Value::mask(bits.min(width - offset));
                let (undefined, value) = (field(a.undefined), field(a.bits));
                match bits {
                    1..64 if matches!(inst.op, Op::SBfeI32 | Op::SBfeI64) => {
                        // The sign is spread over the rest, defined or not.
                        let top = bits.min(width - offset) - 1;
                        let spread = |value: u64| if value >> top & 1 != 0 { value | !0 << top } else { value } & mask;
                        (spread(undefined), Some(spread(value)))
                    }
                    _ => (undefined, Some(value)),
                }
            }
            Op::SCselectB32 | Op::SCselectB64 => {
                let state = self.state(w);
                match (state.scalar[usize::from(scalar::SCC)] != 0, w.scc) {
                    (true, _) => ((a.bits ^ b.bits | a.undefined | b.undefined) & mask, None),
                    (false, true) => (a.undefined & mask, None),
                    (false, false) => (b.undefined & mask, None),
                }
            }
            Op::SPackLlB32B16 => (a.undefined & 0xffff | b.undefined << 16 & mask, None),
            Op::SPackLhB32B16 => (a.undefined & 0xffff | b.undefined & 0xffff_0000, None),
            Op::SPackHhB32B16 => (a.undefined >> 16 & 0xffff | b.undefined & 0xffff_0000, None),
            Op::SAddU32 | Op::SAddI32 | Op::SSubU32 | Op::SSubI32 | Op::SMulI32 => {
                (above(a.undefined | b.undefined) & mask, None)
            }
            _ => {
                // SCC, a destination that is read, and everything that is not listed.
                let implied = self.implied_undefined(inst, w);
                (if implied || all != 0 { mask } else { 0 }, None)
            }
        }
    }

    /// Whether SCC or a destination that is also a source is undefined.
    fn implied_undefined(&mut self, inst: &Inst, w: &Wave) -> bool {
        let uses = crate::instrument::Uses::of(inst);
        let state = &self.waves[w.number as usize].scalar;
        let reads = uses.scalar_reads.iter().flat_map(|registers| registers.range());
        reads.into_iter().any(|register| state.get(usize::from(register)).is_some_and(|&undefined| undefined != 0))
    }
}

/// Whether the result goes to EXEC and to the destination, which otherwise gets what EXEC was.
fn is_wrexec(op: Op) -> bool {
    matches!(op, Op::SAndn1WrexecB32 | Op::SAndn1WrexecB64 | Op::SAndn2WrexecB32 | Op::SAndn2WrexecB64)
}

/// The lowest undefined bit and all above it: what a carry reaches.
pub(super) fn above(undefined: u64) -> u64 {
    if undefined == 0 { 0 } else { !0 << undefined.trailing_zeros() }
}

/// Whether SCC of a comparison or of arithmetic is undefined.
fn compare(op: Op, a: Value, b: Value) -> bool {
    let undefined = a.undefined | b.undefined;
    match op {
        Op::SCmpEqU32 | Op::SCmpLgU32 | Op::SCmpEqI32 | Op::SCmpLgI32 | Op::SCmpEqU64 | Op::SCmpLgU64 => {
            // Different in a defined bit: known to be different.
            undefined != 0 && (a.bits ^ b.bits) & !undefined & Value::mask(a.width) == 0
        }
        Op::SBitcmp0B32 | Op::SBitcmp1B32 | Op::SBitcmp0B64 | Op::SBitcmp1B64 if b.undefined == 0 => {
            a.undefined >> (b.bits & u64::from(a.width - 1)) & 1 != 0
        }
        _ => undefined != 0,
    }
}
