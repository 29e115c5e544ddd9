//! Races on LDS: two waves of a workgroup touch a byte, at least one writes, not both by atomics, and no barrier is between.
//!
//! The emulator runs a wave up to a barrier before the next one, so a race never shows in its results; on hardware it does.
//! For each byte the last writer and the readers since the last barrier are remembered: one wave, or "several". A wave's own
//! accesses are in order, so a workgroup of one wave has none. What is not told apart from a plain access: an atomic load or
//! store, which is the same instruction; one that meets an atomic of another wave between barriers is reported, unless it is
//! the first guess of a compare and swap ([`suspect`](super::suspect)).

use super::suspect::{Suspects, compares};
use crate::error::{Access, FaultKind, Other};
use crate::instrument::{At, Event, Finding, Late, MemorySpace, Verdict};
use crate::wave::Wave;

/// Nobody.
const NONE: u8 = 0;
/// More than one wave.
const SEVERAL: u8 = u8::MAX;

/// What happened to one byte since the barrier before.
#[derive(Clone, Copy)]
struct Byte {
    /// Number of the interval between barriers that the rest is about.
    interval: u32,
    writer_step: u32,
    reader_step: u32,
    /// Wave number plus one.
    writer: u8,
    reader: u8,
    /// All writers were atomics.
    atomic: bool,
}

impl Byte {
    const UNTOUCHED: Byte =
        Byte { interval: 0, writer_step: 0, reader_step: 0, writer: NONE, reader: NONE, atomic: false };
}

/// The bytes of a workgroup's LDS.
pub(super) struct LdsRaces {
    bytes: Vec<Byte>,
    interval: u32,
    /// Whether there is more than one wave.
    several: bool,
    suspects: Suspects,
}

impl LdsRaces {
    pub(super) fn new() -> LdsRaces {
        LdsRaces { bytes: Vec::new(), interval: 0, several: false, suspects: Suspects::default() }
    }

    pub(super) fn start_group(&mut self, lds_bytes: usize, waves: usize) {
        self.several = waves > 1;
        if self.bytes.len() < lds_bytes {
            self.bytes.resize(lds_bytes, Byte::UNTOUCHED);
        }
        self.suspects.clear();
        self.barrier();
    }

    /// Begins a new interval; what is left of the one before.
    pub(super) fn barrier(&mut self) -> Option<Late> {
        if self.interval == u32::MAX {
            self.bytes.fill(Byte::UNTOUCHED);
            self.interval = 0;
        }
        self.interval += 1;
        self.suspects.first()
    }

    pub(super) fn after(&mut self, at: &At<'_>, w: &Wave, events: &[Event]) -> Verdict {
        if !self.several {
            return Ok(());
        }
        for event in events.iter().filter(|event| event.space == MemorySpace::Lds) {
            let access = match (event.kind.reads(event.space), event.kind.writes(event.space)) {
                (true, true) => Access::Atomic,
                (false, _) => Access::Write,
                (true, false) => Access::Read,
            };
            for (lane, address) in event.lane_addresses() {
                if access == Access::Atomic {
                    self.suspects.atomic(at, Some(w.number), address, event.bytes);
                }
                let range = address as usize..address as usize + event.bytes as usize;
                let bytes = self.bytes.get_mut(range).unwrap_or_default();
                for (i, byte) in bytes.iter_mut().enumerate() {
                    if access == Access::Atomic && byte.reader == w.number as u8 + 1 && compares(at) {
                        // What the wave read was a guess, and nobody else's atomic comes too late for it.
                        byte.reader = NONE;
                    }
                    if let Some((other, step, other_access)) =
                        byte.touch(self.interval, w.number as u8 + 1, at.index as u32, access)
                    {
                        let step = &at.program.steps[step as usize];
                        let other = Other {
                            access: other_access,
                            workgroup: None,
                            wave: (other != SEVERAL).then(|| u32::from(other) - 1),
                            code_offset_bytes: u64::from(step.offset_bytes),
                            disassembly: at.program.disassembly(step),
                            lane: None,
                            source: None,
                        };
                        let mut finding =
                            Finding::at_lanes(FaultKind::LdsRace { access, other: Box::new(other) }, 1 << lane);
                        (finding.address, finding.bytes) = (Some(address + i as u64), event.bytes - i as u32);
                        if access == Access::Read && other_access == Access::Atomic {
                            self.suspects.add(at, w, address, finding);
                            break;
                        }
                        return Err(finding);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Byte {
    /// Notes an access; the other side of a race, if it is one.
    fn touch(&mut self, interval: u32, wave: u8, step: u32, access: Access) -> Option<(u8, u32, Access)> {
        if self.interval != interval {
            *self = Byte { interval, ..Byte::UNTOUCHED };
        }
        let foreign_writer = self.writer != NONE && self.writer != wave;
        let foreign_reader = self.reader != NONE && self.reader != wave;
        let written_by = if self.atomic { Access::Atomic } else { Access::Write };
        let writer = (self.writer, self.writer_step, written_by);
        let reader = (self.reader, self.reader_step, Access::Read);
        match access {
            Access::Read if foreign_writer => return Some(writer),
            Access::Write if foreign_writer => return Some(writer),
            Access::Atomic if foreign_writer && !self.atomic => return Some(writer),
            Access::Write | Access::Atomic if foreign_reader => return Some(reader),
            Access::Read | Access::Write | Access::Atomic => {}
        }
        match access {
            Access::Read => {
                self.reader = if foreign_reader { SEVERAL } else { wave };
                self.reader_step = step;
            }
            Access::Write => (self.writer, self.atomic, self.writer_step) = (wave, false, step),
            Access::Atomic => {
                self.atomic = self.writer == NONE || self.atomic;
                self.writer = if foreign_writer { SEVERAL } else { wave };
                self.writer_step = step;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(accesses: &[(u8, Access)]) -> Option<u8> {
        let mut byte = Byte::UNTOUCHED;
        let mut outcome = None;
        for (step, &(wave, access)) in accesses.iter().enumerate() {
            assert_eq!(outcome, None, "only the last access may race");
            outcome = byte.touch(1, wave, step as u32, access).map(|(other, ..)| other);
        }
        outcome
    }

    #[test]
    fn a_race_needs_two_waves_a_write_and_something_that_is_not_atomic() {
        use Access::{Atomic, Read, Write};
        assert_eq!(last(&[(1, Write), (1, Read), (1, Atomic), (1, Write)]), None);
        assert_eq!(last(&[(1, Read), (2, Read), (3, Read)]), None);
        assert_eq!(last(&[(1, Atomic), (2, Atomic), (1, Atomic)]), None);
        assert_eq!(last(&[(1, Write), (2, Read)]), Some(1));
        assert_eq!(last(&[(1, Write), (2, Write)]), Some(1));
        assert_eq!(last(&[(1, Read), (2, Write)]), Some(1));
        assert_eq!(last(&[(1, Read), (2, Read), (1, Write)]), Some(SEVERAL));
        assert_eq!(last(&[(1, Atomic), (2, Read)]), Some(1));
        assert_eq!(last(&[(1, Atomic), (2, Atomic), (2, Write)]), Some(SEVERAL));
        assert_eq!(last(&[(1, Write), (1, Atomic), (2, Atomic)]), Some(1));
        assert_eq!(last(&[(1, Read), (2, Atomic)]), Some(1));
    }

    #[test]
    fn a_barrier_ends_what_was_before_it() {
        let mut byte = Byte::UNTOUCHED;
        assert!(byte.touch(1, 1, 0, Access::Write).is_none());
        assert!(byte.touch(2, 2, 0, Access::Write).is_none());
        assert!(byte.touch(2, 1, 0, Access::Read).is_some());
    }
}
