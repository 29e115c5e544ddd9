//! Plain reads of what others change by atomics, which may be no race.
//!
//! `old = *p; do { seen = old; old = atomicCAS(p, seen, f(seen)); } while (old != seen);` reads `*p` once without an atomic.
//! Whatever it gets is only a guess that the exchange proves right or wrong. Compilers write the same for atomics that a GPU does
//! not have.
//!
//! So such a read is a race only if no compare and swap on its bytes follows. It is remembered, and reported when it is too late for
//! one.

use crate::instrument::{At, Finding, Late};
use crate::wave::Wave;

/// Most that are remembered at a time; those behind them are let pass.
const MOST: usize = 1024;

/// Reads that wait for their compare and swap.
#[derive(Default)]
pub(super) struct Suspects(Vec<Suspect>);

struct Suspect {
    wave: usize,
    step: usize,
    address: u64,
    finding: Box<Finding>,
}

impl Suspects {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Remembers a read at an address.
    pub(super) fn add(&mut self, at: &At<'_>, w: &Wave, address: u64, finding: Box<Finding>) {
        if self.0.len() < MOST {
            self.0.push(Suspect { wave: w.number as usize, step: at.index, address, finding });
        }
    }

    /// Takes an atomic into account: `bytes` at `address`, by a wave whose reads it excuses, or by any.
    pub(super) fn atomic(&mut self, at: &At<'_>, wave: Option<u32>, address: u64, bytes: u32) {
        if self.0.is_empty() || !at.step.inst.op.facts().compares {
            return;
        }
        let end = address + u64::from(bytes);
        let excused = |suspect: &Suspect| {
            let mine = wave.is_none_or(|wave| suspect.wave == wave as usize);
            mine && (address..end).contains(&suspect.address)
        };
        self.0.retain(|suspect| !excused(suspect));
    }

    /// The first one that nothing has excused; the others are forgotten.
    pub(super) fn first(&mut self) -> Option<Late> {
        let mut all = self.0.drain(..);
        let Suspect { wave, step, finding, .. } = all.next()?;
        Some(Late { wave, step, finding })
    }
}
