//! A compute unit, turn by turn: what waits, dependencies and barriers make of instructions that were executed.
//!
//! Given are the instructions that the waves of some workgroups executed, in order ([`Step`] for what an instruction is, [`Executed`] for what
//! it did). As many workgroups as fit are resident; where one ends the next begins. In each turn of a SIMD its waves are looked at, those of
//! higher priority first and otherwise in a ring, and each issues its next instruction if
//!
//! - no other wave has issued one of the same kind in the turn,
//! - its pipe is free, and its registers have what matrix and transcendental instructions were to put there,
//! - what it waits for (`s_waitcnt`, `s_barrier`) has come, and the counters have room.
//!
//! LDS, the address pipeline and the way to L2 are queues of the compute unit: they delay completion, not issue. Everything is whole
//! numbers of clocks; the same input gives the same result. Constants are [`latency`](super::latency)'s. Not here: instruction fetch,
//! banks of registers, the dispatch of workgroups, contention with other compute units, clocks below peak.

use rocfire_arch::{Family, Unit};

use super::latency::{Distance, Latencies, MatrixLatency, latencies, room};
use crate::instrument::Registers;

/// What an instruction is, as far as time goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// Vector registers that it reads, those of `adds_to` left out.
    pub(crate) reads: Vec<Registers>,
    /// Vector registers that it writes.
    pub(crate) writes: Vec<Registers>,
    /// What it waits for: a counter's bit, and the number that it must have come down to.
    pub(crate) waits: [Option<(u8, u32)>; 2],
}

/// Kinds of instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One that only takes its turn.
    #[default]
    Internal,
    /// A matrix instruction: clocks of its unit, of the lanes, and what it adds to.
    Matrix {
        clocks: u32,
        valu: u32,
        latency: MatrixLatency,
        adds_to: Option<Registers>,
    },
    /// A vector instruction: clocks of the lanes, and of the unit for transcendental functions or 0.
    Vector {
        clocks: u32,
        transcendental: u32,
    },
    Scalar,
    ScalarLoad,
    Branch,
    Lds,
    Memory,
    Barrier,
    /// So many turns and no more.
    Nop(u32),
    Priority(u8),
}

/// An instruction that a wave executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Executed {
    /// Its number among the steps.
    pub(crate) step: u32,
    /// Clocks of LDS, or of the address pipeline.
    pub(crate) pipe: u16,
    /// Bytes of LDS by 64, or lines that L1 does not have.
    pub(crate) data: u16,
    /// Counters that it counts in, by bits.
    pub(crate) counters: u8,
    /// Queues in which it returns in order, by bits.
    pub(crate) order: u8,
    /// A branch that was taken.
    pub(crate) is_taken: bool,
}

/// What the waves of a workgroup executed.
pub(crate) type Group = Vec<Vec<Executed>>;

/// Why a wave did not issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A counter had not come down, or had no room.
    Waits,
    /// A register was not there yet.
    Dependencies,
    /// Others had not reached the barrier.
    Barriers,
    /// The pipe was busy.
    Pipes,
    /// Another wave had the turn.
    Turns,
}

impl Lost {
    /// All of them.
    pub const ALL: [Lost; 5] = [Lost::Waits, Lost::Dependencies, Lost::Barriers, Lost::Pipes, Lost::Turns];

    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Lost::Waits => "waits",
            Lost::Dependencies => "dependencies",
            Lost::Barriers => "barriers",
            Lost::Pipes => "busy pipes",
            Lost::Turns => "others' turns",
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Clocks until the last wave ended.
    pub clocks: u64,
    /// Clocks of waves in all, from the first turn of each to its end.
    pub wave_clocks: u64,
    /// Of these, clocks in which an instruction was kept from issuing, in the order of [`Lost::ALL`].
    pub lost: [u64; Lost::ALL.len()],
    /// Clocks of the matrix units of all SIMDs together.
    pub matrix: u64,
}

impl Simulated {
    /// Share of waves' clocks that was lost in this way, 0 to 1.
    pub fn share(&self, lost: Lost) -> f64 {
        if self.wave_clocks == 0 { 0.0 } else { self.lost[lost as usize] as f64 / self.wave_clocks as f64 }
    }
}

/// What to run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) family: Family,
    pub(crate) unit: &'a Unit,
    pub(crate) steps: &'a [Step],
    /// Taken in turn for the workgroups.
    pub(crate) groups: &'a [Group],
    /// Workgroups that are resident at a time, at least one.
    pub(crate) resident: usize,
    /// Workgroups in all.
    pub(crate) total: usize,
}

/// When a register can be read.
#[derive(Clone, Copy, Default)]
struct Ready {
    same: u64,
    overlap: u64,
    other: u64,
    /// The registers that were written together.
    run: (u16, u16),
}

/// Something under way.
struct Pending {
    counters: u8,
    order: u8,
    done: u64,
}

/// A wave that is resident.
struct Wave<'a> {
    slot: usize,
    simd: usize,
    code: &'a [Executed],
    at: usize,
    /// When it is looked at next; [`NEVER`] at a barrier.
    wake: u64,
    priority: u8,
    started: u64,
    blocked: Option<(Lost, u64)>,
    ready: Vec<Ready>,
    pending: Vec<Pending>,
}

const NEVER: u64 = u64::MAX;

/// Vector registers, accumulation registers included.
const REGISTERS: usize = crate::wave::STAGE as usize;

/// Kinds of which a SIMD issues one in a turn, by bits.
const VECTOR: u8 = 1;
const SCALAR: u8 = 2;
const LDS: u8 = 4;
const MEMORY: u8 = 8;
const BRANCH: u8 = 16;

impl Kind {
    /// The bit of its port; 0: it needs none.
    fn port(self) -> u8 {
        match self {
            Kind::Matrix { .. } | Kind::Vector { .. } => VECTOR,
            Kind::Scalar | Kind::ScalarLoad => SCALAR,
            Kind::Lds => LDS,
            Kind::Memory => MEMORY,
            Kind::Branch => BRANCH,
            Kind::Internal | Kind::Barrier | Kind::Nop(_) | Kind::Priority(_) => 0,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Simd {
    valu_free: u64,
    transcendental_free: u64,
    matrix_free: u64,
    /// The wave that is looked at first.
    first: usize,
}

struct Machine<'a> {
    run: Run<'a>,
    latency: Latencies,
    room: [usize; 4],
    simds: Vec<Simd>,
    waves: Vec<Wave<'a>>,
    /// Of each slot: waves that have not ended, and of these at the barrier.
    slots: Vec<(usize, usize)>,
    lds_free: Vec<u64>,
    lds_port_free: Vec<u64>,
    memory_free: Vec<u64>,
    fill_free: Vec<u64>,
    started: usize,
    found: Simulated,
}

/// Runs workgroups on a unit that has nothing else.
pub(crate) fn simulate(run: Run<'_>, distance: Distance) -> Simulated {
    let unit = run.unit;
    let mut machine = Machine {
        run,
        latency: latencies(run.family, distance),
        room: room(run.family),
        simds: vec![Simd::default(); unit.simds as usize],
        waves: Vec::new(),
        slots: vec![(0, 0); run.resident],
        lds_free: vec![0; unit.lds_ports as usize],
        lds_port_free: vec![0; unit.simds.div_ceil(2) as usize],
        memory_free: vec![0; unit.compute_units as usize],
        fill_free: vec![0; unit.compute_units as usize],
        started: 0,
        found: Simulated::default(),
    };
    (0..run.resident).for_each(|slot| machine.start(slot, 0));
    machine.go();
    machine.found
}

impl<'a> Machine<'a> {
    /// Begins the next workgroup in a slot.
    fn start(&mut self, slot: usize, now: u64) {
        if self.started == self.run.total {
            return;
        }
        let group = &self.run.groups[self.started % self.run.groups.len()];
        for (number, code) in group.iter().enumerate() {
            self.waves.push(Wave {
                slot,
                simd: (slot * group.len() + number) % self.simds.len(),
                code,
                at: 0,
                wake: now,
                priority: 0,
                started: now,
                blocked: None,
                ready: vec![Ready::default(); REGISTERS],
                pending: Vec::new(),
            });
        }
        self.slots[slot] = (group.len(), 0);
        self.started += 1;
    }

    /// The first turn of a SIMD from a time on: in a ring on GCN and CDNA.
    fn turn_from(&self, simd: usize, time: u64) -> u64 {
        let turn = u64::from(self.run.unit.issue_clocks);
        let offset = simd as u64 % turn;
        (time.max(offset) - offset).next_multiple_of(turn) + offset
    }

    fn go(&mut self) {
        loop {
            let next = |simd: usize| {
                let wake = self.waves.iter().filter(|wave| wave.simd == simd).map(|wave| wave.wake).min();
                wake.filter(|&wake| wake != NEVER).map(|wake| (self.turn_from(simd, wake), simd))
            };
            let Some((now, simd)) = (0..self.simds.len()).filter_map(next).min() else { return };
            self.turn(simd, now);
        }
    }

    /// A turn of a SIMD.
    fn turn(&mut self, simd: usize, now: u64) {
        let mut order: Vec<usize> = (0..self.waves.len()).filter(|&wave| self.waves[wave].simd == simd).collect();
        let first = self.simds[simd].first % order.len();
        order.rotate_left(first);
        order.sort_by_key(|&wave| std::cmp::Reverse(self.waves[wave].priority));
        self.simds[simd].first = first + 1;
        let (mut taken, mut ended) = (0, Vec::new());
        for number in order {
            if self.waves[number].wake > now {
                continue;
            }
            if let Some((lost, since)) = self.waves[number].blocked.take() {
                self.found.lost[lost as usize] += now - since;
            }
            if self.waves[number].at == self.waves[number].code.len() {
                ended.push(number);
                continue;
            }
            let port = self.step(number).kind.port();
            let blocked = match taken & port {
                0 => self.blocked(number, now),
                _ => Some((Lost::Turns, now + 1)),
            };
            match blocked {
                Some((lost, until)) => {
                    self.waves[number].blocked = Some((lost, now));
                    self.waves[number].wake = until;
                }
                None => {
                    taken |= port;
                    self.issue(number, now);
                }
            }
        }
        // The highest number first, so that the others stay.
        ended.sort_unstable();
        ended.into_iter().rev().for_each(|number| self.end(number, now));
    }

    fn step(&self, number: usize) -> &'a Step {
        let wave = &self.waves[number];
        &self.run.steps[wave.code[wave.at].step as usize]
    }

    /// Why a wave cannot issue its next instruction, and when to look again.
    fn blocked(&mut self, number: usize, now: u64) -> Option<(Lost, u64)> {
        let step = self.step(number);
        let room = self.room;
        let wave = &mut self.waves[number];
        wave.pending.retain(|pending| pending.done > now);
        let mut until = 0;
        for (counter, limit) in step.waits.into_iter().flatten() {
            until = until.max(comes_down(&wave.pending, counter, limit as usize));
        }
        let counters = wave.code[wave.at].counters;
        for bit in (0..4).filter(|bit| counters >> bit & 1 != 0) {
            until = until.max(comes_down(&wave.pending, 1 << bit, room[bit] - 1));
        }
        if until > now {
            return Some((Lost::Waits, until));
        }
        let until = registers_ready(wave, step);
        if until > now {
            return Some((Lost::Dependencies, until));
        }
        let simd = &self.simds[wave.simd];
        let free = match step.kind {
            Kind::Matrix { .. } => simd.valu_free.max(simd.matrix_free),
            Kind::Vector { transcendental: 0, .. } => simd.valu_free,
            Kind::Vector { .. } => simd.valu_free.max(simd.transcendental_free),
            _ => 0,
        };
        (free > now).then_some((Lost::Pipes, free))
    }

    /// Issues a wave's next instruction.
    fn issue(&mut self, number: usize, now: u64) {
        let step = self.step(number);
        let executed = self.waves[number].code[self.waves[number].at];
        let turn = u64::from(self.run.unit.issue_clocks);
        self.waves[number].at += 1;
        let simd = self.waves[number].simd;
        let mut next = now + turn;
        match step.kind {
            Kind::Matrix { clocks, valu, latency, .. } => {
                self.simds[simd].matrix_free = now + u64::from(clocks);
                self.simds[simd].valu_free = now + u64::from(valu);
                self.found.matrix += u64::from(clocks);
                let at = |clocks: u32| now + u64::from(clocks);
                let [same, overlap, other] = [at(latency.same), at(latency.overlap), at(latency.other)];
                self.write(number, step, Ready { same, overlap, other, run: (0, 0) });
            }
            Kind::Vector { clocks, transcendental } => {
                self.simds[simd].valu_free = now + u64::from(clocks);
                let mut latency = self.latency.vector;
                if transcendental > 0 {
                    self.simds[simd].transcendental_free = now + u64::from(transcendental);
                    latency = self.latency.transcendental;
                }
                let ready = now + u64::from(clocks.max(latency));
                self.write(number, step, Ready { same: ready, overlap: ready, other: ready, run: (0, 0) });
            }
            Kind::Lds => {
                let done = self.lds(simd, executed, now);
                self.wait_for(number, executed, done);
            }
            Kind::Memory => {
                let done = self.memory(simd, executed, now);
                self.wait_for(number, executed, done);
            }
            Kind::ScalarLoad => self.wait_for(number, executed, now + u64::from(self.latency.scalar)),
            Kind::Branch if executed.is_taken => next = now + u64::from(self.latency.branch),
            Kind::Nop(turns) => next = now + turn * u64::from(turns),
            Kind::Priority(priority) => self.waves[number].priority = priority,
            Kind::Barrier => return self.arrive(number, now, next),
            Kind::Internal | Kind::Scalar | Kind::Branch => {}
        }
        self.waves[number].wake = next;
    }

    /// Clocks at which an access of LDS is done.
    fn lds(&mut self, simd: usize, executed: Executed, now: u64) -> u64 {
        let phases = u64::from(executed.pipe);
        let lds = &mut self.lds_free[simd * self.run.unit.lds_ports as usize / self.simds.len()];
        let port = &mut self.lds_port_free[simd / 2];
        let mut clocks = phases;
        if self.latency.lds_port_bytes > 0 {
            clocks = clocks.max((64 * u64::from(executed.data)).div_ceil(u64::from(self.latency.lds_port_bytes)));
        }
        let start = now.max(*lds);
        *lds = start + phases;
        let start = if self.latency.lds_port_bytes > 0 { start.max(*port) } else { start };
        *port = start + clocks;
        start + clocks + u64::from(self.latency.lds)
    }

    /// Clocks at which an access of memory is done.
    fn memory(&mut self, simd: usize, executed: Executed, now: u64) -> u64 {
        let cu = simd * self.run.unit.compute_units as usize / self.simds.len();
        self.memory_free[cu] = now.max(self.memory_free[cu]) + u64::from(executed.pipe);
        let mut there = self.memory_free[cu];
        if executed.data == 0 {
            return there + u64::from(self.latency.hit);
        }
        let bytes = u64::from(executed.data) * u64::from(self.run.unit.l1_line_bytes);
        self.fill_free[cu] = self.fill_free[cu].max(now) + bytes.div_ceil(u64::from(self.latency.fill_bytes));
        there = there.max(self.fill_free[cu]);
        there + u64::from(self.latency.miss)
    }

    /// Notes something that a wave has under way.
    fn wait_for(&mut self, number: usize, executed: Executed, done: u64) {
        let Executed { counters, order, .. } = executed;
        if counters == 0 {
            return;
        }
        let pending = &mut self.waves[number].pending;
        let before = pending.iter().filter(|earlier| earlier.order & order != 0).map(|earlier| earlier.done).max();
        pending.push(Pending { counters, order, done: done.max(before.unwrap_or(0)) });
    }

    /// Notes when what a step writes is there.
    fn write(&mut self, number: usize, step: &Step, ready: Ready) {
        for run in &step.writes {
            let ready = Ready { run: (run.first, run.count), ..ready };
            let all = run.range().filter(|&register| usize::from(register) < REGISTERS);
            all.for_each(|register| self.waves[number].ready[usize::from(register)] = ready);
        }
    }

    /// A wave has come to its barrier.
    fn arrive(&mut self, number: usize, now: u64, next: u64) {
        let slot = self.waves[number].slot;
        self.waves[number].wake = NEVER;
        self.waves[number].blocked = Some((Lost::Barriers, next));
        self.slots[slot].1 += 1;
        self.release(slot, now);
    }

    /// Lets the waves of a slot go on if all are at the barrier.
    fn release(&mut self, slot: usize, now: u64) {
        let (waves, arrived) = self.slots[slot];
        if arrived == 0 || arrived < waves {
            return;
        }
        self.slots[slot].1 = 0;
        let next = now + u64::from(self.run.unit.issue_clocks);
        let at_barrier = self.waves.iter_mut().filter(|wave| wave.slot == slot && wave.wake == NEVER);
        at_barrier.for_each(|wave| wave.wake = next);
    }

    /// A wave has ended.
    fn end(&mut self, number: usize, now: u64) {
        let wave = self.waves.remove(number);
        self.found.clocks = self.found.clocks.max(now);
        self.found.wave_clocks += now - wave.started;
        self.slots[wave.slot].0 -= 1;
        match self.slots[wave.slot] {
            (0, _) => self.start(wave.slot, now),
            _ => self.release(wave.slot, now),
        }
    }
}

/// When no more than so many of what counts in a counter are under way.
fn comes_down(pending: &[Pending], counter: u8, limit: usize) -> u64 {
    let mut done: Vec<u64> =
        pending.iter().filter(|pending| pending.counters & counter != 0).map(|pending| pending.done).collect();
    let Some(at) = done.len().checked_sub(limit + 1) else { return 0 };
    done.sort_unstable();
    done[at]
}

/// When the registers that a step reads and writes are there.
fn registers_ready(wave: &Wave<'_>, step: &Step) -> u64 {
    let of = |register: u16| wave.ready.get(usize::from(register)).copied().unwrap_or_default();
    let reads = step.reads.iter().flat_map(|run| run.range()).map(|register| of(register).other).max().unwrap_or(0);
    let Kind::Matrix { adds_to, .. } = step.kind else {
        let writes = step.writes.iter().flat_map(|run| run.range()).map(|register| of(register).other).max();
        return reads.max(writes.unwrap_or(0));
    };
    let Some(adds_to) = adds_to else { return reads };
    let added = adds_to.range().map(|register| {
        let ready = of(register);
        if ready.run == (adds_to.first, adds_to.count) { ready.same } else { ready.overlap }
    });
    reads.max(added.max().unwrap_or(0))
}

#[cfg(test)]
mod tests;
