//! Whether a wave waits for its loads before it uses what they bring.
//!
//! The hardware counts outstanding memory instructions in a few counters and returns from `s_waitcnt` when a counter has
//! come down to a number. This check keeps the list of outstanding instructions by counter, takes from it what a wait
//! *guarantees* to have ended, and reports
//!
//! - a read of a register that an outstanding load will write,
//! - a write to such a register, unless by a load that returns in order behind it,
//! - an access to bytes of LDS that an outstanding load of the same wave to LDS will write,
//! - an access to memory after a barrier that another wave reached with its store there outstanding: a barrier waits for
//!   waves, and not for what they have in flight. For device memory that matters only where the waves of a workgroup may
//!   run on several compute units.
//!
//! What a wait for `n` guarantees: of instructions that return in order (vector memory among themselves, LDS among
//! themselves) all but the last `n`; of those that do not (scalar loads, before RDNA also FLAT that reaches both LDS and
//! memory) none unless `n` is 0. Data of stores is read when they issue, so that stores only count.
//!
//! | families | counters |
//! | --- | --- |
//! | GCN 5, CDNA | `vmcnt`: vector memory, stores too; `lgkmcnt`: LDS, scalar loads, messages |
//! | RDNA 1 to 3.5 | the same, stores and atomics without result in `vscnt` |
//! | RDNA 4 | `loadcnt`, `storecnt`, `dscnt`, `kmcnt` |
//!
//! Cache invalidations and write-backs are not counted, as compilers do not rely on it. A FLAT instruction counts where its
//! lanes went: compilers that know where a pointer points wait for that only.

use rocfire_arch::Family;
use rocfire_isa::{Format, Inst, Op, Operand, OperandKind};

use crate::env::Env;
use crate::error::FaultKind;
use crate::instrument::{At, Event, EventKind, Finding, Marks, MemorySpace, Registers, Verdict};
use crate::program::Program;
use crate::wave::{AGPR, Wave, scalar};

/// A counter, by its bit in [`Pending::counters`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct Counter(u8);

/// Vector memory: `vmcnt`, `loadcnt`.
const LOAD: Counter = Counter(1);
/// Stores where they count apart: `vscnt`, `storecnt`.
const STORE: Counter = Counter(2);
/// LDS, and before RDNA 4 scalar loads and messages: `lgkmcnt`, `dscnt`.
const LDS: Counter = Counter(4);
/// Scalar loads and messages of RDNA 4: `kmcnt`.
const SCALAR: Counter = Counter(8);

/// The queues in which an instruction is; those of a queue return in order.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Order(u8);

impl Order {
    const NONE: Order = Order(0);
    const VECTOR_MEMORY: Order = Order(1);
    const LDS: Order = Order(2);
    /// FLAT of the RDNA line, which returns in order by either counter.
    const BOTH: Order = Order(3);

    fn is_in(self, queue: Order) -> bool {
        self.0 & queue.0 != 0
    }
}

/// An instruction that may not have returned.
struct Pending {
    /// Counters in which it counts.
    counters: u8,
    order: Order,
    /// The step of the complete program.
    step: usize,
    /// Whether it will write the registers of the step.
    loads: bool,
    /// What it will write to memory that counts.
    written: Vec<Event>,
    /// Whether that is by a load to LDS.
    to_lds: bool,
}

impl Pending {
    /// The registers that it will write: vectors, and scalars.
    fn registers(&self, program: &Program) -> (Vec<Registers>, Vec<Registers>) {
        if !self.loads {
            return (Vec::new(), Vec::new());
        }
        let uses = &program.uses[self.step];
        let scalars = uses.scalar_writes.iter().copied().filter(|range| range.first < scalar::EXEC).collect();
        (uses.vector_writes.clone(), scalars)
    }

    /// Marks them.
    fn mark(&self, program: &Program, busy: &mut Marks) {
        if self.loads {
            busy.insert(&program.uses[self.step].writes);
            busy.remove_scalars_from(scalar::EXEC);
        }
    }
}

/// A store that its wave had not waited for when it reached a barrier.
struct Unsettled {
    wave: u32,
    counters: u8,
    step: usize,
    written: Vec<Event>,
}

/// How a family counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Gfx9,
    Gfx10,
    Gfx11,
    Gfx12,
}

/// The outstanding instructions of a workgroup's waves.
pub(super) struct Waits {
    scheme: Scheme,
    waves: Vec<Vec<Pending>>,
    /// Registers that the outstanding instructions of each wave will write.
    busy: Vec<Marks>,
    /// Loads to LDS that are outstanding, of all waves.
    to_lds: usize,
    /// Room for events that nothing is in.
    spare: Vec<Vec<Event>>,
    /// Whether device memory counts for barriers.
    spread: bool,
    /// What the waves that have reached the barrier had in flight.
    arrived: Vec<Unsettled>,
    /// What was in flight at the barrier before.
    unsettled: Vec<Unsettled>,
}

impl Scheme {
    fn of(family: Family) -> Scheme {
        match family {
            Family::Gcn5 | Family::Cdna1 | Family::Cdna2 | Family::Cdna3 | Family::Cdna4 => Scheme::Gfx9,
            Family::Rdna1 | Family::Rdna2 => Scheme::Gfx10,
            Family::Rdna3 | Family::Rdna35 => Scheme::Gfx11,
            Family::Rdna4 | Family::Gfx125 => Scheme::Gfx12,
            Family::Ampere | Family::Ada | Family::Hopper => unreachable!("the emulator has no such device"),
        }
    }
}

impl Waits {
    pub(super) fn new(family: Family) -> Waits {
        Waits::with(Scheme::of(family), false)
    }

    fn with(scheme: Scheme, spread: bool) -> Waits {
        Waits {
            scheme,
            waves: Vec::new(),
            busy: Vec::new(),
            to_lds: 0,
            spare: Vec::new(),
            spread,
            arrived: Vec::new(),
            unsettled: Vec::new(),
        }
    }

    /// `spread`: see [`Descriptor`](crate::descriptor::Descriptor).
    pub(super) fn start_group(&mut self, waves: usize, spread: bool) {
        self.waves.iter_mut().for_each(|pending| pending.clear());
        self.waves.resize_with(waves, Vec::new);
        self.busy.clear();
        self.busy.resize(waves, Marks::default());
        self.to_lds = 0;
        self.spread = spread;
        self.arrived.clear();
        self.unsettled.clear();
    }

    /// Takes all that is known of a workgroup away.
    pub(super) fn park(&mut self) -> Waits {
        let new = Waits::with(self.scheme, self.spread);
        std::mem::replace(self, new)
    }

    /// All waves have reached a barrier.
    pub(super) fn barrier(&mut self) {
        self.unsettled = std::mem::take(&mut self.arrived);
    }

    /// Applies a wait, and checks the registers of anything else.
    pub(super) fn before(&mut self, at: &At<'_>, w: &Wave) -> Verdict {
        let scheme = self.scheme;
        let pending = &mut self.waves[w.number as usize];
        if pending.is_empty() {
            return Ok(());
        }
        // The formats of instructions that wait.
        if matches!(at.step.inst.format, Format::Sopp | Format::Sopk) {
            let waits = waits(&at.step.inst, scheme);
            for (counter, limit) in waits.into_iter().flatten() {
                retire(pending, counter, limit, &mut self.to_lds, &mut self.spare);
            }
            if waits[0].is_some() {
                let busy = &mut self.busy[w.number as usize];
                *busy = Marks::default();
                pending.iter().for_each(|entry| entry.mark(at.program, busy));
            }
        }
        let busy = &self.busy[w.number as usize];
        if !busy.meets(&at.uses.reads) && !busy.meets(&at.uses.writes) {
            return Ok(());
        }
        let order = order_of(&at.step.inst);
        for earlier in pending.iter() {
            let overlap = |mine: &[Registers], theirs: &[Registers]| {
                mine.iter().find_map(|a| theirs.iter().find_map(|b| common(*a, *b)))
            };
            let (uses, in_order) = (at.uses, order != Order::NONE && order == earlier.order);
            let (vectors, scalars) = earlier.registers(at.program);
            let read = overlap(&uses.vector_reads, &vectors).map(vector_name);
            let read = read.or_else(|| overlap(&uses.scalar_reads, &scalars).map(scalar_name));
            let written = || {
                let vector = overlap(&uses.vector_writes, &vectors).map(vector_name).filter(|_| !in_order);
                vector.or_else(|| overlap(&uses.scalar_writes, &scalars).map(scalar_name))
            };
            let overwrites = read.is_none();
            if let Some(register) = read.or_else(written) {
                let earlier = (earlier.step, earlier.counters, None);
                return Err(finding(at, earlier, scheme, register, overwrites, w.exec()));
            }
        }
        Ok(())
    }

    /// Adds a memory instruction, and checks bytes of LDS that are on their way.
    pub(super) fn after(&mut self, at: &At<'_>, w: &Wave, _: &Env, events: &[Event]) -> Verdict {
        let inst = &at.step.inst;
        if self.to_lds > 0 || !self.unsettled.is_empty() {
            self.settled(at, w, events)?;
        }
        let (several, spread) = (self.waves.len() > 1, self.spread);
        let pending = &mut self.waves[w.number as usize];
        if matches!(inst.op, Op::SBarrier | Op::SBarrierSignal | Op::SBarrierSignalIsfirst) {
            let in_flight = pending.iter().filter(|pending| !pending.written.is_empty());
            let (wave, arrived) = (w.number, &mut self.arrived);
            arrived.extend(in_flight.map(|Pending { counters, step, written, .. }| Unsettled {
                wave,
                counters: *counters,
                step: *step,
                written: written.clone(),
            }));
        }
        let Some((counters, order)) = counts(inst, self.scheme, events) else { return Ok(()) };
        // With all lanes off nothing will be written, but it counts.
        let loads = match inst.format {
            Format::Smem | Format::Sopp | Format::Sop1 => true,
            _ => !events.is_empty() || inst.op.facts().crosses_lanes,
        };
        let to_lds = |event: &&Event| event.kind == EventKind::ToLds && event.space == MemorySpace::Lds;
        let stores = |event: &&Event| match (event.kind, event.space) {
            (EventKind::Store | EventKind::Atomic, MemorySpace::Lds) => several,
            (EventKind::Store, MemorySpace::Global) => several && spread,
            _ => to_lds(event),
        };
        let mut written = self.spare.pop().unwrap_or_default();
        written.extend(events.iter().filter(stores).cloned());
        let to_lds = events.iter().any(|event| to_lds(&event));
        self.to_lds += usize::from(to_lds);
        let entry = Pending { counters, order, step: at.index, loads, written, to_lds };
        entry.mark(at.program, &mut self.busy[w.number as usize]);
        pending.push(entry);
        Ok(())
    }
}

impl Waits {
    /// That nothing is still to be written where the step has been.
    fn settled(&self, at: &At<'_>, w: &Wave, events: &[Event]) -> Verdict {
        let own = self.waves[w.number as usize].iter().filter(|earlier| earlier.to_lds);
        let own = own.map(|earlier| (None, earlier.step, earlier.counters, &earlier.written));
        let others = self.unsettled.iter().filter(|store| store.wave != w.number);
        let others = others.map(|store| (Some(store.wave), store.step, store.counters, &store.written));
        for (wave, step, counters, written) in own.chain(others) {
            // Loads to LDS of one wave return in order.
            let counts = |event: &&Event| event.kind != EventKind::ToLds || wave.is_some();
            for event in events.iter().filter(counts) {
                let space = event.space;
                let hit = |&(_, at): &(usize, u64)| {
                    let end = at + u64::from(event.bytes);
                    written.iter().any(|event| event.space == space && reaches(event, at, end))
                };
                let Some((lane, address)) = event.lane_addresses().find(hit) else { continue };
                let (what, is_device_address) = match event.space {
                    MemorySpace::Global => ("device memory", true),
                    MemorySpace::Lds | MemorySpace::Scratch => ("LDS", false),
                };
                let what = format!("{what} at {address:#x}");
                let overwrites = event.kind == EventKind::Store;
                let mut finding = finding(at, (step, counters, wave), self.scheme, what, overwrites, 1 << lane);
                (finding.address, finding.bytes) = (Some(address), event.bytes);
                finding.is_device_address = is_device_address;
                return Err(finding);
            }
        }
        Ok(())
    }
}

/// Whether an event has touched a byte from an address up to another.
fn reaches(event: &Event, from: u64, to: u64) -> bool {
    if let Some((first, end)) = event.bounds() {
        return first < to && from < end;
    }
    event.lane_addresses().any(|(_, address)| address < to && from < address + u64::from(event.bytes))
}

/// Takes away what has surely returned when `counter` is at most `limit`; keeps count of the loads `to_lds`, and what room
/// for events becomes free.
fn retire(pending: &mut Vec<Pending>, counter: Counter, limit: u32, to_lds: &mut usize, spare: &mut Vec<Vec<Event>>) {
    for queue in [Order::VECTOR_MEMORY, Order::LDS] {
        let counted = |entry: &&mut Pending| entry.order.is_in(queue) && entry.counters & counter.0 != 0;
        for entry in pending.iter_mut().rev().filter(counted).skip(limit as usize) {
            entry.counters &= !counter.0;
        }
    }
    if limit == 0 {
        pending.iter_mut().for_each(|entry| entry.counters &= !counter.0);
    }
    pending.retain_mut(|entry| {
        if entry.counters != 0 {
            return true;
        }
        *to_lds -= usize::from(entry.to_lds);
        let mut written = std::mem::take(&mut entry.written);
        written.clear();
        spare.push(written);
        false
    });
}

/// The immediate of an instruction, 0 if it has none.
pub(crate) fn immediate(inst: &Inst) -> u32 {
    let of = |operand: &Operand| match operand.kind {
        OperandKind::Imm(value) => Some(value as u32),
        _ => None,
    };
    inst.src.iter().chain(&inst.dst).find_map(of).unwrap_or(0)
}

/// The counters that an instruction of a family waits for, each by its bit, and to what number.
pub(crate) fn waited_for(inst: &Inst, family: Family) -> [Option<(u8, u32)>; 2] {
    waits(inst, Scheme::of(family)).map(|wait| wait.map(|(counter, limit)| (counter.0, limit)))
}

/// In which counters an instruction that did this counts, by their bits, and by bits too in which queues it returns in order.
pub(crate) fn counted_in(inst: &Inst, family: Family, events: &[Event]) -> Option<(u8, u8)> {
    counts(inst, Scheme::of(family), events).map(|(counters, order)| (counters, order.0))
}

/// The counters that an instruction waits for, and to what number.
fn waits(inst: &Inst, scheme: Scheme) -> [Option<(Counter, u32)>; 2] {
    let immediate = || immediate(inst);
    let one = |counter| [Some((counter, immediate() & 63)), None];
    match inst.op {
        Op::SWaitcnt => {
            let imm = immediate();
            let (vm, lgkm) = match scheme {
                Scheme::Gfx9 => (imm & 15 | imm >> 14 << 4 & 48, imm >> 8 & 15),
                Scheme::Gfx10 => (imm & 15 | imm >> 14 << 4 & 48, imm >> 8 & 63),
                Scheme::Gfx11 | Scheme::Gfx12 => (imm >> 10 & 63, imm >> 4 & 63),
            };
            [Some((LOAD, vm)), Some((LDS, lgkm))]
        }
        Op::SWaitcntVmcnt | Op::SWaitLoadcnt => one(LOAD),
        Op::SWaitcntVscnt | Op::SWaitStorecnt => one(STORE),
        Op::SWaitcntLgkmcnt | Op::SWaitDscnt => one(LDS),
        Op::SWaitKmcnt => one(SCALAR),
        Op::SWaitLoadcntDscnt => [Some((LOAD, immediate() >> 8 & 63)), Some((LDS, immediate() & 63))],
        Op::SWaitStorecntDscnt => [Some((STORE, immediate() >> 8 & 63)), Some((LDS, immediate() & 63))],
        Op::SWaitIdle => [Some((LOAD, 0)), Some((LDS, 0))],
        _ => [None, None],
    }
}

/// The queue in which an instruction returns, for instructions that surely use only one.
fn order_of(inst: &Inst) -> Order {
    match inst.format {
        Format::Global | Format::Scratch | Format::Mubuf => Order::VECTOR_MEMORY,
        Format::Ds => Order::LDS,
        _ => Order::NONE,
    }
}

/// In which counters an instruction counts, and in which queue it returns.
fn counts(inst: &Inst, scheme: Scheme, events: &[Event]) -> Option<(u8, Order)> {
    let scalar = if scheme == Scheme::Gfx12 { SCALAR } else { LDS };
    // A load has a destination or goes to LDS; a store and an atomic without result have neither.
    let loads = inst.dst[0].is_some() || events.iter().any(|event| event.kind == EventKind::ToLds);
    let vector = if loads || scheme == Scheme::Gfx9 { LOAD } else { STORE };
    match inst.format {
        Format::Global | Format::Scratch | Format::Mubuf => {
            // Invalidations and write-backs have no operands at all; a scratch load may have no address.
            let is_access = inst.src.iter().chain(&inst.dst).any(|operand| operand.is_some());
            is_access.then_some((vector.0, Order::VECTOR_MEMORY))
        }
        Format::Flat => {
            let lds = events.iter().any(|event| event.space == MemorySpace::Lds);
            let memory = events.iter().any(|event| event.space != MemorySpace::Lds);
            Some(match (memory, lds) {
                (true, false) => (vector.0, Order::VECTOR_MEMORY),
                (false, true) => (LDS.0, Order::LDS),
                _ if scheme == Scheme::Gfx9 => (vector.0 | LDS.0, Order::NONE),
                _ => (vector.0 | LDS.0, Order::BOTH),
            })
        }
        Format::Ds => (inst.op != Op::DsNop).then_some((LDS.0, Order::LDS)),
        Format::Smem => inst.dst[0].is_some().then_some((scalar.0, Order::NONE)),
        Format::Sopp if matches!(inst.op, Op::SSendmsg | Op::SSendmsghalt) => Some((scalar.0, Order::NONE)),
        Format::Sop1 if matches!(inst.op, Op::SSendmsgRtnB32 | Op::SSendmsgRtnB64) => Some((scalar.0, Order::NONE)),
        _ => None,
    }
}

/// The first register of both.
fn common(a: Registers, b: Registers) -> Option<u16> {
    let first = a.first.max(b.first);
    (first < a.range().end.min(b.range().end)).then_some(first)
}

/// `v3`, `a3`.
pub(super) fn vector_name(register: u16) -> String {
    if register >= AGPR { format!("a{}", register - AGPR) } else { format!("v{register}") }
}

/// `s3`, `vcc_lo`, `scc`.
pub(super) fn scalar_name(register: u16) -> String {
    let half = |name: &str, first: u16| format!("{name}_{}", if register == first { "lo" } else { "hi" });
    match register {
        scalar::SCC => "scc".to_owned(),
        scalar::M0 => "m0".to_owned(),
        n if n / 2 == scalar::VCC / 2 => half("vcc", scalar::VCC),
        n if n / 2 == scalar::EXEC / 2 => half("exec", scalar::EXEC),
        n if n / 2 == scalar::FLAT_SCRATCH / 2 => half("flat_scratch", scalar::FLAT_SCRATCH),
        n if n / 2 == scalar::XNACK_MASK / 2 => half("xnack_mask", scalar::XNACK_MASK),
        n if (scalar::TTMP..scalar::M0).contains(&n) => format!("ttmp{}", n - scalar::TTMP),
        n => format!("s{n}"),
    }
}

/// The report on what an earlier step, which counts in `counters`, has not done yet; of another wave if it is named.
fn finding(
    at: &At<'_>,
    (step, counters, by_wave): (usize, u8, Option<u32>),
    scheme: Scheme,
    what: String,
    overwrites: bool,
    lanes: u64,
) -> Box<Finding> {
    let earlier = &at.program.steps[step];
    let names: [&'static str; 4] = match scheme {
        Scheme::Gfx9 | Scheme::Gfx10 | Scheme::Gfx11 => ["vmcnt", "vscnt", "lgkmcnt", "lgkmcnt"],
        Scheme::Gfx12 => ["loadcnt", "storecnt", "dscnt", "kmcnt"],
    };
    let counter = names[counters.trailing_zeros() as usize % 4];
    Finding::at_lanes(
        FaultKind::NotWaitedFor {
            what,
            overwrites,
            counter,
            by: at.program.disassembly(earlier),
            by_code_offset_bytes: u64::from(earlier.offset_bytes),
            by_wave,
        },
        lanes,
    )
}

#[cfg(test)]
mod rdna_tests;
#[cfg(test)]
mod tests;
