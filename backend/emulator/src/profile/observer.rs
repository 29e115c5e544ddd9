//! The observer that counts: a thread's tallies by step, added up when the thread is done.

use std::any::Any;
use std::sync::Mutex;

use rocfire_arch::{Arch, Unit};
use rocfire_isa::Format;

use crate::counters::Class;
use crate::env::Env;
use crate::group::Setup;
use crate::instrument::{At, Event, EventKind, Instrument, Late, MemorySpace, Observer, Verdict};
use crate::model::lines::{Lines, clocks, pieces};
use crate::model::{banks, issue};
use crate::module::Kernel;
use crate::step::MicroOp;
use crate::wave::{LANES, Wave};

use super::{LinesTouched, Row, Sample, Tally};

/// What a profile needs to know of the launch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SetupFacts {
    pub(super) groups: u64,
    pub(super) waves_per_group: u32,
    pub(super) lds_bytes: u32,
}

/// What the threads found out together.
#[derive(Default)]
pub(super) struct Found {
    pub(super) setup: SetupFacts,
    /// By step of the complete program.
    pub(super) tallies: Vec<Tally>,
    pub(super) lines: LinesTouched,
    pub(super) counted_groups: u64,
}

#[derive(Default)]
struct Shared {
    found: Found,
    lines: Lines,
}

/// Makes the observers of a launch.
pub(super) struct Profiler {
    arch: Arch,
    unit: Unit,
    sample: Sample,
    shared: std::sync::Arc<Mutex<Shared>>,
}

impl Profiler {
    pub(super) fn new(arch: Arch, unit: Unit, sample: Sample) -> Profiler {
        Profiler { arch, unit, sample, shared: std::sync::Arc::default() }
    }

    /// What was counted; all observers have ended.
    pub(super) fn into_found(self) -> Found {
        let mut shared = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = shared.lines.count();
        let mut found = std::mem::take(&mut shared.found);
        (found.lines.read, found.lines.written) = (count.read, count.written);
        found
    }
}

impl Instrument for Profiler {
    fn observer(&self, setup: &Setup) -> Box<dyn Observer> {
        let facts =
            SetupFacts { groups: setup.groups, waves_per_group: setup.waves(), lds_bytes: setup.lds_bytes as u32 };
        self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).found.setup = facts;
        let wave_size = setup.kernel.wave_size();
        let wave_mask = if wave_size == 64 { !0 } else { (1 << wave_size) - 1 };
        debug_assert_eq!(self.arch, setup.program.arch);
        Box::new(Counting {
            unit: self.unit,
            sample: self.sample,
            wave_size,
            wave_mask,
            tallies: vec![Tally::default(); setup.program.steps.len()],
            group_lines: Lines::default(),
            lines: Lines::default(),
            touched: LinesTouched::default(),
            counted_groups: 0,
            active: false,
            shared: self.shared.clone(),
        })
    }

    fn runs(&self, setup: &Setup, group: u64) -> bool {
        !self.sample.skip_others || self.sample.includes(group, setup.groups)
    }
}

/// One thread's counts.
struct Counting {
    unit: Unit,
    sample: Sample,
    wave_size: u32,
    /// Lanes that a wave has.
    wave_mask: u64,
    tallies: Vec<Tally>,
    group_lines: Lines,
    lines: Lines,
    touched: LinesTouched,
    counted_groups: u64,
    /// Whether the workgroup that runs is one to look at.
    active: bool,
    shared: std::sync::Arc<Mutex<Shared>>,
}

/// Scratch is laid out by dwords: dword d of every lane, lane after lane, then dword d + 1. The addresses of the first dword
/// of each lane's access, in that layout.
fn swizzled(event: &Event) -> [u64; LANES] {
    std::array::from_fn(|lane| event.addresses[lane] / 4 * 256 + 4 * lane as u64 + event.addresses[lane] % 4)
}

impl Counting {
    fn lds(&mut self, index: usize, event: &Event) {
        let atomic = event.kind == EventKind::Atomic;
        let cost = banks::cost(self.unit.lds_banks, event.lanes, event.bytes, atomic, &event.addresses);
        let tally = &mut self.tallies[index];
        tally.lds_phases += u64::from(cost.phases);
        tally.lds_conflicts_sequential += u64::from(cost.sequential);
        tally.lds_conflicts_interleaved += u64::from(cost.interleaved);
    }

    fn memory(&mut self, index: usize, event: &Event) {
        let space = event.space;
        let (addresses, bytes, times) = match space {
            MemorySpace::Scratch => (swizzled(event), event.bytes.min(4), event.bytes.div_ceil(4)),
            MemorySpace::Global | MemorySpace::Lds => (event.addresses, event.bytes, 1),
        };
        let requested = u64::from(event.lanes.count_ones()) * u64::from(event.bytes);
        let count = |piece: u32| times * pieces(u64::from(piece), event.lanes, bytes, &addresses);
        let (narrow, wide) = (count(64), count(128));
        let lines = if self.unit.l1_line_bytes == 64 { narrow } else { wide };
        let tally = &mut self.tallies[index];
        tally.vmem_clocks += clocks(&self.unit, self.wave_size, lines, requested);
        tally.accesses += 1;
        tally.requested_bytes += requested;
        tally.segments_64 += u64::from(narrow);
        tally.segments_128 += u64::from(wide);
        if space == MemorySpace::Global {
            let (reads, writes) = (event.kind.reads(space), event.kind.writes(space));
            self.group_lines.add(event.lanes, event.bytes, &event.addresses, reads, writes);
        }
    }
}

impl Observer for Counting {
    fn wants(&mut self, setup: &Setup, group: u64) -> bool {
        self.active = self.sample.includes(group, setup.groups);
        self.active
    }

    fn before(&mut self, at: &At<'_>, w: &Wave, _: &Env) -> Verdict {
        if self.active {
            let tally = &mut self.tallies[at.index];
            tally.executions += 1;
            tally.lanes += u64::from((w.exec() & self.wave_mask).count_ones());
        }
        Ok(())
    }

    fn after(&mut self, at: &At<'_>, w: &Wave, _: &Env, events: &[Event]) -> Verdict {
        if !self.active {
            return Ok(());
        }
        for event in events {
            match (event.space, event.kind) {
                (MemorySpace::Lds, _) => self.lds(at.index, event),
                (_, EventKind::ScalarLoad) => {
                    let tally = &mut self.tallies[at.index];
                    tally.accesses += 1;
                    tally.requested_bytes += u64::from(event.bytes);
                    self.group_lines.add_range(event.addresses[0], u64::from(event.bytes), true, false);
                }
                (MemorySpace::Global | MemorySpace::Scratch, _) => self.memory(at.index, event),
            }
        }
        // Exchanges between lanes go through LDS's crossbar and meet no bank: 32 lanes in a clock.
        let exchange = at.step.class == Class::Lds && events.is_empty();
        if exchange && w.exec() & self.wave_mask != 0 {
            self.tallies[at.index].lds_phases += u64::from(self.wave_size.div_ceil(32));
        }
        Ok(())
    }

    fn end_group(&mut self) -> Option<Late> {
        if self.active {
            let count = self.group_lines.count();
            self.touched.read_by_groups += count.read;
            self.touched.written_by_groups += count.written;
            self.lines.take_from(&mut self.group_lines);
            self.counted_groups += 1;
        }
        None
    }

    fn park(&mut self) -> Box<dyn Any + Send> {
        Box::new(std::mem::take(&mut self.group_lines))
    }

    fn resume(&mut self, kept: Box<dyn Any + Send>) {
        self.group_lines = kept.downcast().map_or_else(|_| Lines::default(), |lines| *lines);
        // Only workgroups that are watched are shown again.
        self.active = true;
    }

    fn end(&mut self) {
        let mut shared = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shared.lines.take_from(&mut self.lines);
        let found = &mut shared.found;
        found.tallies.resize(self.tallies.len().max(found.tallies.len()), Tally::default());
        found.tallies.iter_mut().zip(&self.tallies).for_each(|(sum, tally)| *sum += *tally);
        found.counted_groups += self.counted_groups;
        found.lines.read_by_groups += self.touched.read_by_groups;
        found.lines.written_by_groups += self.touched.written_by_groups;
    }
}

/// The instructions from the first to the last one executed, with what was counted of each.
pub(super) fn rows(kernel: &Kernel, arch: Arch, unit: &Unit, tallies: &[Tally]) -> Vec<Row> {
    let program = kernel.module.complete_program();
    let executed = |tally: &Tally| tally.executions > 0;
    let Some(first) = tallies.iter().position(executed) else { return Vec::new() };
    let last = tallies.iter().rposition(executed).unwrap_or(first);
    let wave_size = kernel.wave_size();
    let cost = |step: &MicroOp| {
        let cost = issue::cost(arch.info(), unit, &step.inst, step.class, wave_size);
        // A pair issues as one; its second half adds operations.
        let second =
            step.pair.as_ref().map(|pair| issue::cost(arch.info(), unit, &pair[1].inst, step.class, wave_size));
        let more =
            second.filter(|second| second.float_kind == cost.float_kind).map_or(0, |second| second.float_operations);
        issue::Cost { float_operations: cost.float_operations + more, ..cost }
    };
    let steps = program.steps[first..=last].iter().zip(&tallies[first..=last]);
    let rows = steps.enumerate().map(|(number, (step, tally))| Row {
        code_offset_bytes: u64::from(step.offset_bytes),
        tally: *tally,
        step: first + number,
        class: step.class,
        cost: cost(step),
        flat: step.inst.format == Format::Flat,
        loads: step.inst.dst[0].is_some(),
    });
    rows.collect()
}
