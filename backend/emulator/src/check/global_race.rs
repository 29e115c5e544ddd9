//! Races on device memory between workgroups of one launch: as [`race`](super::race), for which nothing but atomics orders
//! two workgroups.
//!
//! Workgroups run one after the other while this check is on, but for those that wait for another. An atomic of a workgroup on a place where earlier workgroups
//! had one orders it behind them, which is how "the last workgroup to finish does the rest" works; that those others had
//! written before their atomic and not after it is taken on trust. Waves of one workgroup are not told apart here. A byte
//! that is touched takes 16 bytes of the host.
//!
//! Atomic loads and stores are known by their bits ([`coherent`](super::coherent)). A load orders its workgroup behind
//! those that had an atomic there, and is no side of a race with atomics. Where stores do not say what they are, one that
//! an atomic load meets is taken for an atomic one. A plain load of what others change by atomics may be the first guess of
//! a compare and swap ([`suspect`](super::suspect)).

use std::collections::HashMap;

use rocfire_arch::Family;

use super::coherent::{is_coherent_load, is_coherent_store};
use super::suspect::Suspects;
use crate::error::{Access, FaultKind, Other};
use crate::instrument::{At, Event, EventKind, Finding, Late, MemorySpace, Verdict};
use crate::wave::Wave;

/// Bytes that are kept together.
const PAGE_BYTES: u64 = 1024;

/// More than one workgroup.
const SEVERAL: u32 = u32::MAX;

/// What workgroups of this launch did to one byte; they are numbered from 1 in the order in which they run.
#[derive(Clone, Copy, Default)]
struct Byte {
    writer: u32,
    reader: u32,
    writer_step: u32,
    /// 31 bits, and whether all writers were atomics.
    reader_step_and_atomic: u32,
}

type Page = Box<[Byte; PAGE_BYTES as usize]>;

/// Numbers of workgroups, as ranges in order.
#[derive(Clone, Default)]
struct Groups(Vec<(u32, u32)>);

impl Groups {
    fn contains(&self, group: u32) -> bool {
        self.0.iter().any(|&(from, to)| (from..to).contains(&group))
    }

    fn join(&mut self, other: &Groups) {
        let mut all = [self.0.as_slice(), other.0.as_slice()].concat();
        all.sort_unstable();
        self.0.clear();
        for (from, to) in all {
            match self.0.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => self.0.push((from, to)),
            }
        }
    }
}

/// The bytes that a launch has touched.
pub(super) struct GlobalRaces {
    pages: HashMap<u64, Page>,
    /// Workgroups that are ordered before whoever has an atomic at an address.
    released: HashMap<u64, Groups>,
    /// Workgroups that are ordered before the current one.
    known: Groups,
    group: u32,
    /// Where each is in the grid.
    workgroups: Vec<[u32; 3]>,
    suspects: Suspects,
    family: Family,
}

/// What is kept of a workgroup that is set aside.
pub(super) struct Kept {
    group: u32,
    known: Groups,
    suspects: Suspects,
}

/// What a workgroup does to memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touch {
    Plain(Access),
    /// An atomic operation that reads and writes.
    Exchange,
    AtomicLoad,
    AtomicStore,
}

impl Touch {
    /// As races are told of.
    fn access(self) -> Access {
        match self {
            Touch::Plain(access) => access,
            Touch::AtomicLoad => Access::Read,
            Touch::Exchange | Touch::AtomicStore => Access::Atomic,
        }
    }
}

impl GlobalRaces {
    pub(super) fn new(family: Family) -> GlobalRaces {
        GlobalRaces {
            suspects: Suspects::default(),
            family,
            pages: HashMap::new(),
            released: HashMap::new(),
            known: Groups::default(),
            group: 0,
            workgroups: Vec::new(),
        }
    }

    /// Takes away what is about the current workgroup.
    pub(super) fn park(&mut self) -> Kept {
        let (known, suspects) = (std::mem::take(&mut self.known), std::mem::take(&mut self.suspects));
        Kept { group: self.group, known, suspects }
    }

    /// Makes it the current one again.
    pub(super) fn resume(&mut self, kept: Kept) {
        (self.group, self.known, self.suspects) = (kept.group, kept.known, kept.suspects);
    }

    pub(super) fn start_group(&mut self, workgroup: [u32; 3]) {
        self.workgroups.push(workgroup);
        self.group = self.workgroups.len() as u32;
        self.known = Groups(vec![(self.group, self.group + 1)]);
    }

    /// What is left when the workgroup has ended.
    pub(super) fn end_group(&mut self) -> Option<Late> {
        self.suspects.first()
    }

    fn touch_of(&self, at: &At<'_>, event: &Event) -> Touch {
        let inst = &at.step.inst;
        match event.kind {
            EventKind::Atomic => Touch::Exchange,
            EventKind::Load if is_coherent_load(inst, self.family) => Touch::AtomicLoad,
            EventKind::Store if is_coherent_store(inst, self.family) == Some(true) => Touch::AtomicStore,
            EventKind::Load | EventKind::ToLds | EventKind::ScalarLoad => Touch::Plain(Access::Read),
            EventKind::Store => Touch::Plain(Access::Write),
        }
    }

    /// Orders the workgroup behind those that had an atomic at an address, and those to come behind it.
    fn order(&mut self, at: &At<'_>, touch: Touch, address: u64) {
        match touch {
            Touch::Plain(_) => return,
            Touch::Exchange => {
                let released = self.released.entry(address).or_default();
                self.known.join(released);
                released.join(&self.known);
            }
            Touch::AtomicStore => self.released.entry(address).or_default().join(&self.known),
            Touch::AtomicLoad => {
                if let Some(released) = self.released.get(&address) {
                    self.known.join(released);
                }
            }
        }
        let stores_tell = is_coherent_store(&at.step.inst, self.family).is_some();
        if touch == Touch::AtomicLoad && !stores_tell {
            let page = self.pages.get(&(address / PAGE_BYTES));
            let writer = page.map_or(0, |page| page[(address % PAGE_BYTES) as usize].writer);
            if writer != 0 && writer != SEVERAL {
                self.known.join(&Groups(vec![(writer, writer + 1)]));
            }
        }
    }

    pub(super) fn after(&mut self, at: &At<'_>, w: &Wave, events: &[Event]) -> Verdict {
        for event in events.iter().filter(|event| event.space == MemorySpace::Global) {
            let touch = self.touch_of(at, event);
            let access = touch.access();
            for (lane, address) in event.lane_addresses() {
                self.order(at, touch, address);
                if touch == Touch::Exchange {
                    self.suspects.atomic(at, None, address, event.bytes);
                }
                for place in address..address + u64::from(event.bytes) {
                    let page = self.pages.entry(place / PAGE_BYTES);
                    let page = page.or_insert_with(|| Box::new([Byte::default(); PAGE_BYTES as usize]));
                    let byte = &mut page[(place % PAGE_BYTES) as usize];
                    let Some((other, step, other_access)) = byte.touch(self.group, &self.known, at.index as u32, touch)
                    else {
                        continue;
                    };
                    let step = &at.program.steps[step as usize];
                    let other = Other {
                        access: other_access,
                        workgroup: self.workgroups.get(other.wrapping_sub(1) as usize).copied(),
                        wave: None,
                        code_offset_bytes: u64::from(step.offset_bytes),
                        disassembly: at.program.disassembly(step),
                        lane: None,
                        source: None,
                    };
                    let kind = FaultKind::GlobalRace { access, other: Box::new(other) };
                    let mut finding = Finding::at_lanes(kind, 1 << lane);
                    (finding.address, finding.bytes) = (Some(place), event.bytes - (place - address) as u32);
                    finding.is_device_address = true;
                    if access == Access::Read && other_access == Access::Atomic {
                        self.suspects.add(at, w, address, finding);
                        break;
                    }
                    return Err(finding);
                }
            }
        }
        Ok(())
    }
}

impl Byte {
    /// Notes an access; the other side of a race, if it is one.
    fn touch(&mut self, group: u32, known: &Groups, step: u32, touch: Touch) -> Option<(u32, u32, Access)> {
        let foreign = |who: u32| who != 0 && !known.contains(who);
        let atomic = self.reader_step_and_atomic >> 31 != 0;
        let written_by = if atomic { Access::Atomic } else { Access::Write };
        let writer = (self.writer, self.writer_step, written_by);
        let reader = (self.reader, self.reader_step_and_atomic & 0x7fff_ffff, Access::Read);
        if touch == Touch::AtomicLoad {
            // It is in the way of no atomic, and what it has seen others may change at any time.
            return (foreign(self.writer) && !atomic).then_some(writer);
        }
        let access = touch.access();
        match access {
            Access::Read | Access::Write if foreign(self.writer) => return Some(writer),
            Access::Atomic if foreign(self.writer) && !atomic => return Some(writer),
            Access::Write | Access::Atomic if foreign(self.reader) => return Some(reader),
            Access::Read | Access::Write | Access::Atomic => {}
        }
        match access {
            Access::Read => {
                self.reader = if foreign(self.reader) { SEVERAL } else { group };
                self.reader_step_and_atomic = u32::from(atomic) << 31 | step & 0x7fff_ffff;
            }
            Access::Write => {
                (self.writer, self.writer_step) = (group, step);
                self.reader_step_and_atomic &= 0x7fff_ffff;
            }
            Access::Atomic => {
                let all_atomic = self.writer == 0 || atomic;
                self.writer = if foreign(self.writer) { SEVERAL } else { group };
                self.writer_step = step;
                self.reader_step_and_atomic = u32::from(all_atomic) << 31 | self.reader_step_and_atomic & 0x7fff_ffff;
            }
        }
        None
    }
}
