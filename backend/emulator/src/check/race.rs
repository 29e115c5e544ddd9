//! Races on LDS: two waves of a workgroup touch a byte, at least one writes, not both by atomics, and no barrier is between.
//!
//! The emulator runs a wave up to a barrier before the next one, so a race never shows in its results; on hardware it does.
//! For each byte the last writer and the readers since the last barrier are remembered ([`shadow`](super::shadow)): one
//! wave, or "several". A wave's own accesses are in order, so a workgroup of one wave has no races.
//!
//! A write of the bytes that are there already (all waves write the same) makes no difference to anybody. It is reported as
//! what it is, and only on demand.
//!
//! An atomic load or store of LDS is the same instruction as a plain one. One that meets an atomic of another wave between barriers
//! is reported, unless it is the first guess of a compare and swap ([`suspect`](super::suspect)).

use super::shadow::{By, Page, Side, Sites, Touch};
use super::suspect::Suspects;
use crate::env::{Env, UNWRITTEN};
use crate::error::{Access, FaultKind, RacingAccess};
use crate::instrument::{At, Event, Finding, Late, MemorySpace, Verdict};
use crate::wave::Wave;

/// Bits of a wave's number plus one; all of them set is more than one wave.
const WAVE_BITS: u32 = 6;
const SEVERAL: u32 = (1 << WAVE_BITS) - 1;

/// The bytes of a workgroup's LDS.
pub(super) struct LdsRaces {
    /// Whether a write of the bytes that are there counts.
    equal_writes: bool,
    /// What was there before the instruction that is looked at.
    held: Vec<u8>,
    page: Page,
    sites: Sites,
    /// Number of the interval between barriers.
    interval: u32,
    /// Whether there is more than one wave.
    several: bool,
    suspects: Suspects,
}

impl LdsRaces {
    pub(super) fn new(equal_writes: bool) -> LdsRaces {
        let (page, sites, held) = (Page::new(0), Sites::default(), Vec::new());
        LdsRaces { equal_writes, held, page, sites, interval: 0, several: false, suspects: Suspects::default() }
    }

    /// Takes all that is known of a workgroup away.
    pub(super) fn park(&mut self) -> LdsRaces {
        let new = LdsRaces::new(self.equal_writes);
        std::mem::replace(self, new)
    }

    pub(super) fn start_group(&mut self, lds_bytes: usize, waves: usize) {
        self.several = waves > 1;
        if self.page.len() < lds_bytes {
            self.page = Page::new(lds_bytes);
        }
        self.held.clear();
        self.held.resize(lds_bytes, UNWRITTEN as u8);
        self.suspects.clear();
        self.barrier();
    }

    /// Begins a new interval; what is left of the one before.
    pub(super) fn barrier(&mut self) -> Option<Late> {
        if self.interval == u32::MAX >> WAVE_BITS {
            self.page.clear();
            self.interval = 0;
        }
        self.interval += 1;
        self.suspects.first()
    }

    pub(super) fn after(&mut self, at: &At<'_>, w: &Wave, env: &Env, events: &[Event]) -> Verdict {
        if !self.several {
            return Ok(());
        }
        for event in events.iter().filter(|event| event.space == MemorySpace::Lds) {
            self.event(at, w, env, event)?;
        }
        for event in events.iter().filter(|event| event.space == MemorySpace::Lds && event.kind.writes(event.space)) {
            for (_, address) in event.lane_addresses() {
                for at in address as usize..address as usize + event.bytes as usize {
                    if let (Some(held), Some(now)) = (self.held.get_mut(at), byte(env, at)) {
                        *held = now;
                    }
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, at: &At<'_>, w: &Wave, env: &Env, event: &Event) -> Verdict {
        let touch = match (event.kind.reads(event.space), event.kind.writes(event.space)) {
            (true, true) => Touch::Exchange,
            (false, _) => Touch::Plain(Access::Write),
            (true, false) => Touch::Plain(Access::Read),
        };
        let floor = self.interval << WAVE_BITS;
        let (me, several) = (floor | (w.number + 1), floor | SEVERAL);
        let by = By { me, several, floor, at: self.sites.at(at.index, w.number) };
        let bytes = event.bytes as usize;
        self.page.refine(event.address_bits as usize, bytes);
        let alone = match event.run {
            0 => self.page.lanes(event, event.lanes, 0, touch, by),
            lanes => {
                let cells = self.page.cells(event.addresses[0] as usize, bytes * usize::from(lanes));
                let per = self.page.cells_in(bytes);
                self.page.run(cells, touch, by, (per, 0))
            }
        };
        if alone {
            return Ok(());
        }
        let guesses = touch == Touch::Exchange && at.step.inst.op.facts().compares;
        let mut before = None;
        for (lane, address) in event.lane_addresses() {
            if touch == Touch::Exchange {
                self.suspects.atomic(at, Some(w.number), address, event.bytes);
            } else if touch == Touch::Plain(Access::Read) && before == Some(address) {
                continue;
            }
            before = Some(address);
            let cells = self.page.cells(address as usize, bytes);
            if self.page.run(cells.clone(), touch, by, (cells.len(), lane)) {
                continue;
            }
            if guesses {
                // What the wave read was a guess, and nobody else's atomic comes too late for it.
                self.page.forget_reader(cells.clone(), me);
            }
            let by = By { at: by.at | (lane as u32) << 1, ..by };
            for cell in cells {
                let Some(side) = self.page.touch(cell, touch, by, |_| false) else { continue };
                let place = (self.page.offset_of(cell) as u64).max(address);
                let equal = touch == Touch::Plain(Access::Write) && self.changes_nothing(env, address, bytes);
                if equal && !self.equal_writes {
                    continue;
                }
                let place = (lane, place, event.bytes - (place - address) as u32);
                let finding = self.finding(at, touch.access(), side, place, equal);
                if touch.access() == Access::Read && side.access == Access::Atomic {
                    self.suspects.add(at, w, address, finding);
                    break;
                }
                return Err(finding);
            }
        }
        Ok(())
    }

    /// Whether the bytes are as they were before the instruction.
    fn changes_nothing(&self, env: &Env, address: u64, bytes: usize) -> bool {
        let mut places = address as usize..address as usize + bytes;
        places.all(|at| self.held.get(at).copied() == byte(env, at))
    }

    fn finding(&self, at: &At<'_>, access: Access, side: Side, place: (usize, u64, u32), equal: bool) -> Box<Finding> {
        let (lane, address, bytes) = place;
        let (step, wave, other_lane) = self.sites.of(side.at);
        let step = &at.program.steps[step];
        let alone = side.who & SEVERAL != SEVERAL;
        let other = RacingAccess {
            access: side.access,
            workgroup: None,
            wave: alone.then_some(wave),
            lane: alone.then_some(other_lane),
            code_offset_bytes: u64::from(step.offset_bytes),
            disassembly: at.program.disassembly(step),
            source: None,
        };
        let mut finding = Finding::at_lanes(FaultKind::LdsRace { access, other: Box::new(other), equal }, 1 << lane);
        (finding.address, finding.bytes) = (Some(address), bytes);
        finding
    }
}

/// A byte of LDS.
fn byte(env: &Env, at: usize) -> Option<u8> {
    env.lds.words().get(at / 8).map(|word| word.to_ne_bytes()[at % 8])
}
