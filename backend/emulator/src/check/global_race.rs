//! Races on device memory between workgroups of one launch: as [`race`](super::race), for which nothing but atomics orders
//! two workgroups.
//!
//! Workgroups run one after the other while this check is on, but for those that wait for another. Waves of one workgroup are not
//! told apart. A granule that is touched ([`shadow`](super::shadow)) takes 16 bytes of the host.
//!
//! An atomic of a workgroup orders it behind earlier workgroups that had an atomic on the same place: that is how "the last workgroup
//! to finish does the rest" works. That those had written before their atomic, and not after it, is taken on trust.
//!
//! Atomic loads and stores are known by their bits ([`coherent`](super::coherent)). A load orders its workgroup behind those that had
//! an atomic there, and is no side of a race with atomics. Where stores do not say what they are, one that an atomic load meets is
//! taken for an atomic one. A plain load of what others change by atomics may be the first guess of a compare and swap
//! ([`suspect`](super::suspect)).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rocfire_arch::Family;

use super::coherent::{is_coherent_load, is_coherent_store};
use super::shadow::{By, Page, Side, Sites, Touch};
use super::suspect::Suspects;
use crate::error::{Access, FaultKind, RacingAccess};
use crate::instrument::{At, Event, EventKind, Finding, Late, MemorySpace, Verdict};
use crate::wave::{LANES, Wave};

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Pages whose place is remembered, by the low bits of their number.
const REMEMBERED: usize = 256;

/// Pages that are kept from one launch to the next, at most.
const KEPT_PAGES: usize = 4096;

/// What a device keeps between launches: making and clearing pages would take longer than most launches do. Numbers of
/// workgroups go on, so that those of earlier launches are nobody.
pub(crate) struct Record {
    pages: Pages,
    /// Number of the last workgroup.
    last: u32,
}

impl Record {
    /// For another launch, if it is not too large, and numbers are left.
    fn reuse(self) -> Record {
        let is_small = self.pages.pages.len() <= KEPT_PAGES && self.last < 1 << 31;
        if is_small { self } else { Record::default() }
    }
}

impl Default for Record {
    fn default() -> Record {
        Record { pages: Pages::new(), last: 0 }
    }
}

/// Pages of device memory, made when they are first touched.
struct Pages {
    pages: Vec<Page>,
    places: HashMap<u64, usize>,
    /// Numbers and places of pages that were asked for.
    remembered: Box<[(u64, usize)]>,
}

impl Pages {
    fn new() -> Pages {
        let remembered = vec![(u64::MAX, 0); REMEMBERED].into_boxed_slice();
        Pages { pages: Vec::new(), places: HashMap::new(), remembered }
    }

    /// The page with this number.
    #[inline(always)]
    fn page(&mut self, number: u64) -> &mut Page {
        let slot = number as usize % REMEMBERED;
        if self.remembered[slot].0 != number {
            let place = *self.places.entry(number).or_insert(self.pages.len());
            if place == self.pages.len() {
                self.pages.push(Page::new(PAGE_BYTES as usize));
            }
            self.remembered[slot] = (number, place);
        }
        &mut self.pages[self.remembered[slot].1]
    }
}

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
    pages: Pages,
    sites: Sites,
    /// Workgroups that are ordered before whoever has an atomic at an address.
    released: HashMap<u64, Groups>,
    /// Workgroups that are ordered before the current one.
    known: Groups,
    group: u32,
    /// The number of the last workgroup of earlier launches. The next one is more than one workgroup of this launch.
    before: u32,
    kept: Arc<Mutex<Option<Record>>>,
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

impl GlobalRaces {
    /// `kept`: where the device keeps the record between launches.
    pub(super) fn new(family: Family, kept: Arc<Mutex<Option<Record>>>) -> GlobalRaces {
        let record = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take().unwrap_or_default();
        let Record { pages, last } = record.reuse();
        GlobalRaces {
            suspects: Suspects::default(),
            family,
            pages,
            sites: Sites::default(),
            released: HashMap::new(),
            known: Groups::default(),
            group: last,
            before: last,
            kept,
            workgroups: Vec::new(),
        }
    }

    /// The launch is over.
    pub(super) fn end(&mut self) {
        let pages = std::mem::replace(&mut self.pages, Pages::new());
        let record = Record { pages, last: self.before + 1 + self.workgroups.len() as u32 };
        *self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(record);
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
        self.group = self.before + 1 + self.workgroups.len() as u32;
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
            let writer = self.pages.page(address / PAGE_BYTES).writer_at((address % PAGE_BYTES) as usize);
            if writer > self.before + 1 {
                self.known.join(&Groups(vec![(writer, writer + 1)]));
            }
        }
    }

    pub(super) fn after(&mut self, at: &At<'_>, w: &Wave, events: &[Event]) -> Verdict {
        for event in events.iter().filter(|event| event.space == MemorySpace::Global) {
            self.event(at, w, event)?;
        }
        Ok(())
    }

    fn event(&mut self, at: &At<'_>, w: &Wave, event: &Event) -> Verdict {
        let touch = self.touch_of(at, event);
        let by = By {
            me: self.group,
            several: self.before + 1,
            floor: self.before + 1,
            at: self.sites.at(at.index, w.number),
        };
        // Lanes from this one on are still to be looked at.
        let mut left = event.lanes;
        if let Touch::Plain(_) = touch {
            left = match usize::from(event.run) {
                0 => self.apart(event, touch, by),
                // Those behind the run touch nothing else.
                lanes => match self.run(event, lanes, touch, by) {
                    from if from == lanes => 0,
                    from => event.lanes & !0 << from,
                },
            };
        }
        let mut before = None;
        for (lane, address) in event.lane_addresses().filter(|&(lane, _)| left >> lane & 1 != 0) {
            self.order(at, touch, address);
            if touch == Touch::Exchange {
                self.suspects.atomic(at, None, address, event.bytes);
            } else if touch == Touch::Plain(Access::Read) && before == Some(address) {
                continue;
            }
            before = Some(address);
            self.lane(at, w, (touch, by), event, (lane, address))?;
        }
        Ok(())
    }

    /// Notes lanes whose bytes follow one another, page by page, as long as there is surely no race; the first lane that is
    /// left.
    #[inline(always)]
    fn run(&mut self, event: &Event, lanes: usize, touch: Touch, by: By) -> usize {
        let bytes = event.bytes as usize;
        let mut lane = 0;
        while lane < lanes {
            let address = event.addresses[lane];
            let offset = (address % PAGE_BYTES) as usize;
            let here = ((PAGE_BYTES as usize - offset) / bytes).min(lanes - lane);
            let page = self.pages.page(address / PAGE_BYTES);
            page.refine(offset, bytes);
            let (cells, per) = (page.cells(offset, bytes * here), page.cells_in(bytes));
            if here == 0 || !page.run(cells, touch, by, (per, lane)) {
                return lane;
            }
            lane += here;
        }
        lane
    }

    /// Notes lanes that are apart, page by page, as long as there is surely no race; those that are left.
    fn apart(&mut self, event: &Event, touch: Touch, by: By) -> u64 {
        let bytes = event.bytes as usize;
        let mut left = event.lanes;
        while left != 0 {
            let number = event.addresses[left.trailing_zeros() as usize % LANES] / PAGE_BYTES;
            let mut here = 0;
            for (lane, address) in event.addresses.iter().enumerate() {
                // An access that reaches into the next page is looked at alone.
                let end = (address % PAGE_BYTES) + u64::from(event.bytes);
                here |= u64::from(address / PAGE_BYTES == number && end <= PAGE_BYTES) << lane;
            }
            here &= left;
            let page = self.pages.page(number);
            page.refine(event.address_bits as usize, bytes);
            if here == 0 || !page.lanes(event, here, number * PAGE_BYTES, touch, by) {
                return left;
            }
            left &= !here;
        }
        0
    }

    /// Notes the access of a lane, which may reach across pages.
    fn lane(
        &mut self,
        at: &At<'_>,
        w: &Wave,
        (touch, by): (Touch, By),
        event: &Event,
        (lane, address): (usize, u64),
    ) -> Verdict {
        let end = address + u64::from(event.bytes);
        let mut place = address;
        while place < end {
            let offset = (place % PAGE_BYTES) as usize;
            let bytes = (end - place).min(PAGE_BYTES - offset as u64);
            let page = self.pages.page(place / PAGE_BYTES);
            page.refine(offset, bytes as usize);
            let cells = page.cells(offset, bytes as usize);
            if !page.run(cells.clone(), touch, by, (cells.len(), lane)) {
                let known = &self.known;
                let by = By { at: by.at | (lane as u32) << 1, ..by };
                for cell in cells {
                    let Some(side) = page.touch(cell, touch, by, |who| known.contains(who)) else { continue };
                    let hit = (place - offset as u64 + page.offset_of(cell) as u64).max(address);
                    let finding = self.finding(at, touch.access(), side, (lane, hit, (end - hit) as u32));
                    if touch.access() == Access::Read && side.access == Access::Atomic {
                        self.suspects.add(at, w, address, finding);
                        return Ok(());
                    }
                    return Err(finding);
                }
            }
            place += bytes;
        }
        Ok(())
    }

    fn finding(&self, at: &At<'_>, access: Access, side: Side, place: (usize, u64, u32)) -> Box<Finding> {
        let (lane, address, bytes) = place;
        let (step, wave, other_lane) = self.sites.of(side.at);
        let step = &at.program.steps[step];
        let workgroup = self.workgroups.get(side.who.wrapping_sub(self.before + 2) as usize).copied();
        let other = RacingAccess {
            access: side.access,
            workgroup,
            wave: workgroup.map(|_| wave),
            lane: workgroup.map(|_| other_lane),
            code_offset_bytes: u64::from(step.offset_bytes),
            disassembly: at.program.disassembly(step),
            source: None,
        };
        let mut finding = Finding::at_lanes(FaultKind::GlobalRace { access, other: Box::new(other) }, 1 << lane);
        (finding.address, finding.bytes, finding.is_device_address) = (Some(address), bytes, true);
        finding
    }
}
