//! What the waves of a few workgroups executed, instruction by instruction, and the timeline that follows
//! ([`model::timeline`](crate::model::timeline)). An observer of its own beside the one that counts; there is none where no timeline is
//! asked for.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use rocfire_arch::{Arch, Family, Unit};
use rocfire_isa::{Inst, MatrixType, Op};

use crate::check::wait::{counted_in, immediate, waited_for};
use crate::counters::Class;
use crate::env::Env;
use crate::group::Setup;
use crate::instrument::uses::{Named, named};
use crate::instrument::{At, Event, EventKind, Instrument, Late, MemorySpace, Observer, Registers, Verdict};
use crate::model::latency::{self, Distance};
use crate::model::timeline::{self, Executed, Group, Kind, Simulated, Step};
use crate::model::{banks, issue, lines};
use crate::program::Program;
use crate::step::MicroOp;
use crate::wave::{LANES, Wave};

use super::{Profile, Sample};

/// Workgroups of a launch that are followed: the first, and the one in the middle if it runs.
const FOLLOWED: u64 = 2;

/// Instructions of a workgroup that are kept, 12 bytes each. One that executes more has no timeline.
const MOST_EXECUTED: usize = 8 << 20;

/// Workgroups that run on a unit one after the other, in units of those that are resident.
const ROUNDS: u64 = 2;

/// What was followed of a launch.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    steps: Vec<Step>,
    groups: Vec<Group>,
}

/// How many workgroups a timeline takes to be resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residents {
    /// What the launch gives the unit that has most of it.
    OfLaunch,
    /// As many as fit, as if the launch filled the card.
    Full,
}

/// What waits, dependencies and barriers make of a launch on the unit that has most of it: modelled, and no time.
///
/// # Source
/// `MODEL.md`, section 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Workgroups that are resident at a time.
    pub resident: u64,
    /// Workgroups that were run.
    pub groups: u64,
    /// Workgroups that the unit has of the launch; with [`Residents::Full`] those that were run.
    pub groups_of_unit: u64,
    /// With all that is loaded in the caches.
    pub near: Simulated,
    /// With all that L1 does not have in memory.
    pub far: Simulated,
}

impl Timeline {
    /// Clocks of the unit for all its workgroups: near, and far.
    pub fn clocks(&self) -> [f64; 2] {
        [self.near, self.far].map(|found| found.clocks as f64 * self.groups_of_unit as f64 / self.groups as f64)
    }
}

impl Profile {
    /// The timeline, if the sample asked for one ([`Sample::timeline`]) and the workgroups were not too long.
    pub fn timeline(&self, residents: Residents) -> Option<Timeline> {
        let trace = self.trace.as_ref().filter(|trace| !trace.groups.is_empty())?;
        let info = self.arch.info();
        let unit = info.unit.expect("a profile is made only for what has a unit");
        let units = info.card.map_or(1, |card| u64::from(card.compute_units / unit.compute_units));
        let most = u64::from(self.occupancy.groups_per_unit.max(1));
        let groups_of_unit = match residents {
            Residents::OfLaunch => self.groups.div_ceil(units).max(1),
            Residents::Full => most * ROUNDS,
        };
        let (resident, groups) = (most.min(groups_of_unit), groups_of_unit.min(most * ROUNDS));
        let run = timeline::Run {
            family: info.family,
            unit: &unit,
            steps: &trace.steps,
            groups: &trace.groups,
            resident: resident as usize,
            total: groups as usize,
        };
        let [near, far] = [Distance::Near, Distance::Far].map(|distance| timeline::simulate(run, distance));
        Some(Timeline { resident, groups, groups_of_unit, near, far })
    }
}

/// Makes the observers that follow.
pub(super) struct Tracer {
    arch: Arch,
    unit: Unit,
    followed: Arc<Mutex<BTreeMap<u64, Option<Group>>>>,
}

/// Which workgroups are followed.
const SAMPLE: Sample = Sample { groups: Some(FOLLOWED), skip_others: false, timeline: true };

impl Tracer {
    pub(super) fn new(arch: Arch, unit: Unit) -> Tracer {
        Tracer { arch, unit, followed: Arc::default() }
    }

    /// What was followed, in the order of the workgroups' numbers; all observers have ended.
    pub(super) fn into_trace(self, program: &Program, wave_size: u32) -> Trace {
        let mut followed = self.followed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // One that is too long is as good as none.
        let groups: Option<Vec<Group>> = std::mem::take(&mut *followed).into_values().collect();
        let steps = program.steps.iter().zip(&program.uses);
        let fact = |(step, uses): (&MicroOp, &crate::instrument::Uses)| {
            let mut fact = fact(self.arch, &self.unit, step, wave_size);
            if !matches!(fact.kind, Kind::Matrix { .. }) {
                fact.reads.clone_from(&uses.vector_reads);
            }
            fact.writes.clone_from(&uses.vector_writes);
            fact
        };
        Trace { steps: steps.map(fact).collect(), groups: groups.unwrap_or_default() }
    }
}

/// What an instruction is, its registers left out but for those that a matrix instruction reads.
fn fact(arch: Arch, unit: &Unit, step: &MicroOp, wave_size: u32) -> Step {
    let (info, inst) = (arch.info(), &step.inst);
    let cost = issue::cost(info, unit, inst, step.class, wave_size);
    let mut fact = Step { waits: waited_for(inst, info.family), ..Step::default() };
    fact.kind = match step.class {
        Class::Valu | Class::Mfma => match cost.matrix {
            Some(matrix) => {
                let [a, b, c] = [0, 1, 2].map(|source| vector(inst, source));
                fact.reads = [a, b].into_iter().flatten().collect();
                let is_wide = matches!(info.family, Family::Cdna3 | Family::Cdna4)
                    && matches!(matrix.kind, MatrixType::F32 | MatrixType::F64);
                let latency = latency::matrix(info.family, matrix.clocks, is_wide);
                Kind::Matrix { clocks: matrix.clocks, valu: cost.valu, latency, adds_to: c }
            }
            None => Kind::Vector { clocks: cost.valu, transcendental: cost.transcendental },
        },
        Class::Salu => Kind::Scalar,
        Class::Smem => Kind::ScalarLoad,
        Class::Branch => Kind::Branch,
        Class::VmemRead | Class::VmemWrite | Class::VmemAtomic | Class::Scratch => Kind::Memory,
        Class::Lds => Kind::Lds,
        Class::Barrier => match inst.op {
            Op::SBarrierSignal | Op::SBarrierSignalIsfirst => Kind::Internal,
            _ => Kind::Barrier,
        },
        Class::NoEffect => match inst.op {
            Op::SNop => Kind::Nop(1 + (immediate(inst) & 15)),
            Op::SSleep => Kind::Nop((64 * (immediate(inst) & 127) / unit.issue_clocks).max(1)),
            Op::SSetprio => Kind::Priority((immediate(inst) & 3) as u8),
            _ => Kind::Internal,
        },
    };
    fact
}

/// The vector registers of a source.
fn vector(inst: &Inst, source: usize) -> Option<Registers> {
    match named(&inst.src[source]) {
        Some(Named::Vector(registers)) => Some(registers),
        Some(Named::Scalar(_)) | None => None,
    }
}

impl Instrument for Tracer {
    fn observer(&self, setup: &Setup) -> Box<dyn Observer> {
        Box::new(Following {
            family: self.arch.info().family,
            unit: self.unit,
            wave_size: setup.kernel.wave_size(),
            group: None,
            now: Followed::default(),
            followed: self.followed.clone(),
        })
    }
}

/// A workgroup that is followed.
#[derive(Default)]
struct Followed {
    waves: Group,
    executed: usize,
    /// Lines of its L1, the oldest first.
    lines: VecDeque<u64>,
}

/// One thread's part.
struct Following {
    family: Family,
    unit: Unit,
    wave_size: u32,
    /// The number of the workgroup that is followed now.
    group: Option<u64>,
    now: Followed,
    followed: Arc<Mutex<BTreeMap<u64, Option<Group>>>>,
}

/// No more than fits.
fn short(count: u64) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

impl Following {
    /// Clocks of LDS, conflicts included, and bytes by 64.
    fn lds(&self, event: &Event) -> (u64, u64) {
        let atomic = event.kind == EventKind::Atomic;
        let cost = banks::cost(self.unit.lds_banks, event.lanes, event.bytes, atomic, &event.addresses);
        let bytes = u64::from(event.lanes.count_ones()) * u64::from(event.bytes);
        (u64::from(cost.phases + cost.sequential.min(cost.interleaved)), bytes.div_ceil(64))
    }

    /// Clocks of the address pipeline, and lines that L1 does not have or that are written.
    fn memory(&mut self, event: &Event) -> (u64, u64) {
        let mut found = [0; 2 * LANES];
        let count =
            lines::collect(u64::from(self.unit.l1_line_bytes), event.lanes, event.bytes, &event.addresses, &mut found);
        let requested = u64::from(event.lanes.count_ones()) * u64::from(event.bytes);
        let clocks = lines::clocks(&self.unit, self.wave_size, count as u32, requested);
        let is_read = matches!(event.kind, EventKind::Load | EventKind::ToLds);
        let missed = found[..count].iter().filter(|&&line| !is_read || !self.has(line)).count();
        (clocks, missed as u64)
    }

    /// Whether L1 has a line, which it has from now on.
    fn has(&mut self, line: u64) -> bool {
        let lines = &mut self.now.lines;
        let at = lines.iter().rposition(|&other| other == line);
        if let Some(at) = at {
            lines.remove(at);
        } else if lines.len() as u32 >= self.unit.l1_bytes / self.unit.l1_line_bytes {
            lines.pop_front();
        }
        lines.push_back(line);
        at.is_some()
    }

    fn executed(&mut self, at: &At<'_>, w: &Wave, events: &[Event]) -> Executed {
        let (mut pipe, mut data) = (0, 0);
        for event in events {
            let (clocks, amount) = match event.space {
                MemorySpace::Lds if at.step.class == Class::Lds => self.lds(event),
                MemorySpace::Lds => (0, 0),
                MemorySpace::Global | MemorySpace::Scratch if event.kind == EventKind::ScalarLoad => (0, 0),
                MemorySpace::Global | MemorySpace::Scratch => self.memory(event),
            };
            (pipe, data) = (pipe + clocks, data + amount);
        }
        // Exchanges between lanes: 32 lanes in a clock, a dword of each.
        if at.step.class == Class::Lds && events.is_empty() && w.exec() != 0 {
            (pipe, data) = (u64::from(self.wave_size.div_ceil(32)), u64::from(self.wave_size.div_ceil(16)));
        }
        let (counters, order) = counted_in(&at.step.inst, self.family, events).unwrap_or((0, 0));
        let is_taken = at.step.class == Class::Branch && w.pc != at.index + 1;
        Executed { step: at.index as u32, pipe: short(pipe), data: short(data), counters, order, is_taken }
    }
}

impl Observer for Following {
    fn wants(&mut self, setup: &Setup, group: u64) -> bool {
        self.group = SAMPLE.includes(group, setup.groups).then_some(group);
        self.group.is_some()
    }

    fn start_group(&mut self, _: &Setup, _: [u32; 3], waves: &[Wave]) {
        self.now = Followed { waves: vec![Vec::new(); waves.len()], ..Followed::default() };
    }

    fn after(&mut self, at: &At<'_>, w: &Wave, _: &Env, events: &[Event]) -> Verdict {
        if self.group.is_some() {
            self.now.executed += 1;
            if self.now.executed <= MOST_EXECUTED {
                let executed = self.executed(at, w, events);
                self.now.waves[w.number as usize].push(executed);
            }
        }
        Ok(())
    }

    fn end_group(&mut self) -> Option<Late> {
        if let Some(group) = self.group.take() {
            let Followed { waves, executed, .. } = std::mem::take(&mut self.now);
            let kept = (executed <= MOST_EXECUTED).then_some(waves);
            self.followed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(group, kept);
        }
        None
    }

    fn park(&mut self) -> Box<dyn Any + Send> {
        Box::new((self.group.take(), std::mem::take(&mut self.now)))
    }

    fn resume(&mut self, kept: Box<dyn Any + Send>) {
        if let Ok(kept) = kept.downcast::<(Option<u64>, Followed)>() {
            (self.group, self.now) = *kept;
        }
    }
}
