//! Running one workgroup: its waves' first registers, and the waves interleaved at barriers, and where one waits for what
//! another writes ([`spin`]). A workgroup that waits for another one is parked ([`park`](crate::park)).
//!
//! A [`Worker`] is what a host thread needs for it, kept between launches. The initial registers are those of LLVM's "User
//! Guide for AMDGPU Backend", section "Initial Kernel Execution State".

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::counters::Counters;
use crate::descriptor::{UserValue, WorkItemId};
use crate::env::{Cause, Env, Local};
use crate::error::{Fault, FaultKind, Nearest, Wait};
use crate::instrument::{self, Finding, Late, MemorySpace, Observer};
use crate::module::Kernel;
use crate::park::{Halt, Parked, ParkedWave, Workgroup};
use crate::program::Program;
use crate::spin;
use crate::step::Flow;
use crate::wave::{AGPR, LANES, Lanes, Wave, scalar};

/// What all workgroups of a launch share.
pub(crate) struct Setup {
    pub(crate) kernel: Kernel,
    /// The kernel's program: the complete one if the launch is observed.
    pub(crate) program: Arc<Program>,
    /// First step in it.
    pub(crate) entry: usize,
    /// Whether the instrumented loop runs.
    pub(crate) observed: bool,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Workgroups in all.
    pub(crate) groups: u64,
    /// Work-items of a workgroup.
    pub(crate) items: u32,
    /// Lanes of a wave.
    pub(crate) lanes: u32,
    /// LDS of a workgroup, static and dynamic.
    pub(crate) lds_bytes: usize,
    /// Scratch of a lane.
    pub(crate) scratch_bytes: u32,
    pub(crate) kernarg_ptr: u64,
    pub(crate) packet_ptr: u64,
    /// The bytes at `kernarg_ptr`.
    pub(crate) kernarg: Vec<u8>,
}

impl Setup {
    /// Waves of a workgroup.
    pub(crate) fn waves(&self) -> u32 {
        self.items.div_ceil(self.lanes)
    }

    /// The place of workgroup number `group`: x fastest.
    fn workgroup(&self, group: u64) -> [u32; 3] {
        let [gx, gy, _] = self.grid.map(u64::from);
        [(group % gx) as u32, (group / gx % gy) as u32, (group / (gx * gy)) as u32]
    }
}

/// Where a wave is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// At a barrier.
    Waiting,
    /// Reads memory until somebody writes it.
    Spinning,
    Ended,
}

/// Which wave of a workgroup runs when. Code whose waves meet only at barriers gives the same under any of them. Code that
/// relies on how fast its waves are does not, and the check of races ([`Checks::lds_races`](crate::Checks)) says so under any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// A wave runs up to its barrier before the next one begins: the worst case for code with too few barriers.
    #[default]
    ToBarrier,
    /// The waves take turns of so many instructions, as they do on a GPU, though not as regularly there.
    Turns(NonZeroU32),
}

/// Stretches of a slice's length of all waves of a workgroup in which they wrote nothing, after which others have their turn.
const QUIET_SLICES: u64 = 16;

/// Where a wave's turn ended.
#[derive(Clone, Copy, Default)]
pub(crate) struct Turn {
    /// Instructions that it may still run: what was left of earlier turns, where the next step stands for more than were left.
    left: u64,
    /// Instructions that it has run.
    ran: u64,
    /// How many those were when it spun last.
    spun_at: u64,
    /// Instructions once around what it spins in, as far as that is known: a wave that spins is given as many, or it would
    /// never be seen to come back without having got on.
    around: u64,
    /// Whether the turn ended because it was over.
    over: bool,
    /// [`Env::effects`] at that moment.
    effects: u64,
}

impl Turn {
    /// One that does not end: of a wave that has no workgroup yet.
    pub(crate) fn endless() -> Turn {
        Turn { left: u64::MAX, ..Turn::default() }
    }

    /// Takes the instructions of the next step, if so many are left.
    #[inline(always)]
    pub(crate) fn take(&mut self, instructions: u64) -> bool {
        let enough = self.left >= instructions;
        if enough {
            self.left -= instructions;
            self.ran += instructions;
        }
        enough
    }
}

/// A host thread's waves and environment.
pub(crate) struct Worker {
    env: Env,
    waves: Vec<Wave>,
    states: Vec<State>,
    /// The first registers of each wave: the work-items' places.
    work_items: Vec<Lanes>,
    strict_barriers: bool,
    schedule: Schedule,
    /// Who watches this launch; nobody in the fast loop.
    observers: Vec<Box<dyn Observer>>,
}

impl Worker {
    pub(crate) fn new(env: Env, strict_barriers: bool, schedule: Schedule) -> Worker {
        Worker {
            env,
            waves: Vec::new(),
            states: Vec::new(),
            work_items: Vec::new(),
            strict_barriers,
            schedule,
            observers: Vec::new(),
        }
    }

    /// Prepares for a launch; what an earlier one left behind is gone.
    pub(crate) fn reset(&mut self, setup: &Setup, observers: Vec<Box<dyn Observer>>) {
        let descriptor = &setup.kernel.info.descriptor;
        self.env.reset(setup.program.clone(), (descriptor.vgprs, descriptor.agprs), setup.observed);
        self.observers = observers;
        let waves = setup.waves() as usize;
        while self.waves.len() < waves {
            self.waves.push(Wave::new());
        }
        self.work_items.clear();
        let lanes = setup.lanes as usize;
        for wave in 0..waves {
            let place = |lane: usize| work_item(setup.block, wave * lanes + lane);
            match setup.kernel.info.descriptor.work_item_id {
                WorkItemId::Packed => self.work_items.push(Lanes(std::array::from_fn(|lane| pack(place(lane))))),
                WorkItemId::Registers(count) => {
                    self.work_items.extend((0..count).map(|axis| Lanes(std::array::from_fn(|lane| place(lane)[axis]))))
                }
            }
        }
    }

    /// What was executed since the reset.
    pub(crate) fn counters(&self) -> Counters {
        self.env.counters()
    }

    /// Bytes of device memory that were read since the reset, atomics' among them.
    pub(crate) fn device_bytes_read(&self) -> u64 {
        self.env.bytes.global_read + self.env.bytes.scalar_read
    }

    /// The launch is over for this worker.
    pub(crate) fn end(&mut self) {
        for mut observer in self.observers.drain(..) {
            observer.end();
        }
    }

    /// Runs one workgroup to its end, or until it waits for another.
    pub(crate) fn run_group(&mut self, setup: &Setup, group: u64) -> Result<Halt, Box<Fault>> {
        let workgroup = setup.workgroup(group);
        let waves = setup.waves() as usize;
        // Every observer is asked, as each takes note of it.
        let mut watched = false;
        for observer in self.observers.iter_mut() {
            watched |= observer.wants(setup, group);
        }
        self.env.observed = watched;
        self.env.lds.reset(setup.lds_bytes);
        if setup.scratch_bytes > 0 {
            self.env.reset_scratch(waves, setup.scratch_bytes);
        }
        let registers = setup.kernel.info.descriptor.work_item_id.registers();
        let places = self.work_items.chunks_exact(registers);
        for (number, (wave, places)) in self.waves[..waves].iter_mut().zip(places).enumerate() {
            start(wave, setup, workgroup, number, places);
            spin::start(wave, self.env.step_limit);
        }
        self.states.clear();
        self.states.resize(waves, State::Running);
        self.env.barrier_signalled = false;
        if watched {
            for observer in &mut self.observers {
                observer.start_group(setup, workgroup, &self.waves[..waves]);
            }
        }
        self.go_on(setup, Workgroup { group, workgroup, watched })
    }

    /// Goes on with a workgroup that was parked.
    pub(crate) fn resume_group(&mut self, setup: &Setup, parked: Parked) -> Result<Halt, Box<Fault>> {
        let place = self.unpark(setup, parked);
        self.go_on(setup, place)
    }

    /// Runs the workgroup's waves to its end, or until none of them gets on alone.
    fn go_on(&mut self, setup: &Setup, place: Workgroup) -> Result<Halt, Box<Fault>> {
        let Workgroup { workgroup, watched, .. } = place;
        let waves = self.states.len();
        let (mut progressed, mut quiet) = (false, 0);
        let quiet_turns = match self.schedule {
            Schedule::ToBarrier => QUIET_SLICES,
            Schedule::Turns(instructions) => QUIET_SLICES * (spin::SLICE / u64::from(instructions.get())).max(1),
        };
        loop {
            let (mut moved, mut settled) = (false, false);
            let effects = self.env.effects();
            for number in 0..waves {
                let before = self.states[number];
                if matches!(before, State::Ended | State::Waiting) {
                    continue;
                }
                let (taken, changes) = (self.waves[number].watch.taken, self.env.effects());
                let flow = self.run_wave(setup, number, watched);
                let wave = &self.waves[number];
                self.states[number] = match flow {
                    Flow::Barrier => State::Waiting,
                    Flow::End => State::Ended,
                    Flow::Spin => State::Spinning,
                    Flow::Slice | Flow::Turn => State::Running,
                    Flow::Next | Flow::Fault => return Err(self.report(setup, workgroup, number)),
                };
                let same = wave.watch.taken == taken && self.env.effects() == changes;
                moved |= !(same && before == State::Spinning && flow == Flow::Spin);
                settled |= matches!(flow, Flow::Barrier | Flow::End);
            }
            progressed |= moved;
            if self.states.iter().any(|state| matches!(state, State::Running | State::Spinning)) {
                quiet = if settled || self.env.effects() != effects { 0 } else { quiet + 1 };
                if !moved || quiet > quiet_turns {
                    return Ok(Halt::Parked(Box::new(self.park(place, progressed))));
                }
                continue;
            }
            let waiting = self.states.iter().position(|&state| state == State::Waiting);
            let Some(waiting) = waiting else { break };
            // The hardware lets a barrier pass when the other waves have ended. HIP does not allow it.
            if self.strict_barriers && self.states.contains(&State::Ended) {
                let ended = (0..waves).filter(|&wave| self.states[wave] == State::Ended);
                let ended = ended.fold(0, |mask, wave| mask | 1 << wave);
                self.env.fail(FaultKind::BarrierDivergence { ended });
                return Err(self.report(setup, workgroup, waiting));
            }
            let late = self.watching(watched).fold(None, |late, observer| late.or(observer.barrier()));
            self.settle(setup, workgroup, late)?;
            self.env.barrier_signalled = false;
            let released = self.states.iter_mut().filter(|state| **state == State::Waiting);
            released.for_each(|state| *state = State::Running);
        }
        let late = self.watching(watched).fold(None, |late, observer| late.or(observer.end_group()));
        self.settle(setup, workgroup, late)?;
        Ok(Halt::Ended)
    }

    /// Runs a wave until it cannot go on alone, or others should.
    fn run_wave(&mut self, setup: &Setup, number: usize, watched: bool) -> Flow {
        let wave = &mut self.waves[number];
        if wave.watch.taken > 0 {
            match wave.turn.over {
                true => spin::carry(wave, &self.env, wave.turn.effects),
                false => spin::resume(wave, &self.env),
            }
        }
        match self.schedule {
            Schedule::ToBarrier => wave.turn.left = u64::MAX,
            Schedule::Turns(instructions) => {
                let around = if self.states[number] == State::Spinning { wave.turn.around } else { 0 };
                wave.turn.left += u64::from(instructions.get()).max(around);
            }
        }
        let flow = match (watched, self.schedule) {
            (true, _) => instrument::run_wave(wave, &mut self.env, &setup.program, &mut self.observers),
            (false, Schedule::ToBarrier) => run_wave(wave, &mut self.env, &setup.program),
            (false, Schedule::Turns(_)) => run_turn(wave, &mut self.env, &setup.program),
        };
        let turn = &mut wave.turn;
        if flow == Flow::Spin {
            (turn.around, turn.spun_at) = (turn.ran - turn.spun_at, turn.ran);
        }
        (turn.over, turn.effects) = (flow == Flow::Turn, self.env.effects());
        if !turn.over {
            turn.left = 0;
        }
        flow
    }

    /// Takes the workgroup out of this worker.
    fn park(&mut self, place: Workgroup, progressed: bool) -> Parked {
        let registers = self.env.registers;
        let waves = self.waves[..self.states.len()].iter_mut().map(|wave| ParkedWave::new(wave, registers)).collect();
        Parked {
            place,
            progressed,
            waves,
            states: std::mem::take(&mut self.states),
            lds: std::mem::replace(&mut self.env.lds, Local::new()),
            scratch: std::mem::replace(&mut self.env.scratch, Local::new()),
            barrier_signalled: self.env.barrier_signalled,
            observed: self.watching(place.watched).map(|observer| observer.park()).collect(),
        }
    }

    /// Puts one back, into this worker or another of the launch.
    fn unpark(&mut self, setup: &Setup, parked: Parked) -> Workgroup {
        let Parked { place, waves, states, lds, scratch, barrier_signalled, observed, .. } = parked;
        let registers = self.env.registers;
        for (number, (wave, parked)) in self.waves.iter_mut().zip(waves).enumerate() {
            parked.restore(wave, number, setup.lanes as usize, registers);
        }
        self.states = states;
        (self.env.lds, self.env.scratch) = (lds, scratch);
        if setup.scratch_bytes > 0 {
            self.env.set_scratch_bytes(setup.scratch_bytes);
        }
        (self.env.barrier_signalled, self.env.observed) = (barrier_signalled, place.watched);
        for (observer, kept) in self.watching(place.watched).zip(observed) {
            observer.resume(kept);
        }
        place
    }

    /// The fault of a workgroup that waits for what will not come: `others` wait as it does, and so many more have not
    /// begun because there is no room for them.
    pub(crate) fn waits_for_ever(
        &mut self,
        setup: &Setup,
        parked: Parked,
        others: u64,
        without_room: u64,
    ) -> Box<Fault> {
        let place = self.unpark(setup, parked);
        let spinning = |&number: &usize| self.states[number] == State::Spinning;
        let all: Vec<usize> = (0..self.states.len()).filter(spinning).collect();
        let number = all.first().copied().unwrap_or(0);
        let found = spin::what_it_reads(&mut self.waves[number], &mut self.env);
        let wait = Wait {
            reads: found.as_ref().map(|(_, event)| event.space.name()),
            waves: all.len().saturating_sub(1) as u32,
            at_barrier: self.states.iter().filter(|state| **state == State::Waiting).count() as u32,
            workgroups: others,
            without_room,
        };
        let kind = FaultKind::EndlessWait(wait);
        let Some((step, event)) = found else {
            self.env.fail(kind);
            return self.report(setup, place.workgroup, number);
        };
        let mut finding = Finding::at_lanes(kind, event.lanes);
        finding.address = event.lane_addresses().next().map(|(_, address)| address);
        (finding.bytes, finding.is_device_address) = (event.bytes, event.space == MemorySpace::Global);
        self.env.fail_at(step, *finding);
        self.report(setup, place.workgroup, number)
    }

    /// Reports what an observer found behind.
    fn settle(&mut self, setup: &Setup, workgroup: [u32; 3], late: Option<Late>) -> Result<(), Box<Fault>> {
        let Some(Late { wave, step, finding }) = late else { return Ok(()) };
        self.env.fail_at(step, *finding);
        Err(self.report(setup, workgroup, wave))
    }

    /// The observers, of a workgroup that is watched.
    fn watching(&mut self, watched: bool) -> impl Iterator<Item = &mut Box<dyn Observer>> {
        self.observers.iter_mut().filter(move |_| watched)
    }

    /// The fault that the environment holds, with all that is known about where it happened.
    fn report(&mut self, setup: &Setup, workgroup: [u32; 3], number: usize) -> Box<Fault> {
        let nowhere =
            Cause { kind: FaultKind::BadJump, lane: None, address: None, bytes: 0, nearest: Nearest::Unknown };
        let cause = self.env.fault.take().map_or(nowhere, |cause| *cause);
        let program = &setup.program;
        // A step that faults leaves `pc` behind it, a jump that exceeds the limit at its target.
        let wave = &self.waves[number];
        let jumps = |kind: &FaultKind| {
            matches!(kind, FaultKind::StepLimit { .. } | FaultKind::ClockLimit { .. } | FaultKind::EndlessWait(_))
        };
        let at_target = jumps(&cause.kind);
        let index = if at_target { wave.pc } else { wave.pc.saturating_sub(1) };
        let index = self.env.fault_step.take().unwrap_or(index);
        let step = &program.steps[index.min(program.steps.len() - 1)];
        let mut fault = Box::new(Fault {
            kind: cause.kind,
            kernel: setup.kernel.name().to_owned(),
            pc: program.address + u64::from(step.offset_bytes),
            code_offset_bytes: u64::from(step.offset_bytes),
            disassembly: program.disassembly(step),
            workgroup,
            wave: number as u32,
            lane: cause.lane,
            lanes: match std::mem::take(&mut self.env.fault_lanes) {
                0 => cause.lane.map_or(0, |lane| 1 << lane),
                lanes => lanes,
            },
            source: None,
            address: cause.address,
            bytes: cause.bytes,
            nearest: cause.nearest,
        });
        fault.name_lines(|offset_bytes| setup.kernel.module.source_of(program.address + offset_bytes));
        fault
    }
}

/// A work-item's place in its workgroup.
fn work_item(block: [u32; 3], item: usize) -> [u32; 3] {
    let (item, [bx, by, _]) = (item as u32, block);
    [item % bx, item / bx % by, item / (bx * by)]
}

/// The place in one register, ten bits a dimension.
fn pack([x, y, z]: [u32; 3]) -> u32 {
    x | (y << 10) | ((z & 0x3ff) << 20)
}

/// Runs a wave to its end, or to where it cannot go on alone.
pub(crate) fn run_wave(w: &mut Wave, env: &mut Env, program: &Program) -> Flow {
    env.enter(w);
    let flow = loop {
        // The last step faults and nothing jumps behind it.
        let step = &program.steps[w.pc];
        w.pc += 1;
        // SAFETY: the program was made for the level that this host was found to have.
        match unsafe { (step.run)(w, env, step) } {
            Flow::Next => {}
            other => break other,
        }
    };
    env.leave(w);
    flow
}

/// The same, for as many instructions as its turn has left. A step stands for those without effect before it too, as in the
/// instrumented loop, where each of them is a step.
fn run_turn(w: &mut Wave, env: &mut Env, program: &Program) -> Flow {
    env.enter(w);
    let flow = loop {
        let step = &program.steps[w.pc];
        if !w.turn.take(1 + u64::from(step.dropped)) {
            break Flow::Turn;
        }
        w.pc += 1;
        // SAFETY: the program was made for the level that this host was found to have.
        match unsafe { (step.run)(w, env, step) } {
            Flow::Next => {}
            other => break other,
        }
    };
    env.leave(w);
    flow
}

/// Registers at a wave's first instruction.
fn start(w: &mut Wave, setup: &Setup, workgroup: [u32; 3], number: usize, work_items: &[Lanes]) {
    let descriptor = &setup.kernel.info.descriptor;
    // Registers hold what earlier waves left, on hardware; here nothing may depend on that.
    w.v[..descriptor.vgprs as usize].fill(Lanes::ZERO);
    w.v[AGPR as usize..AGPR as usize + descriptor.agprs as usize].fill(Lanes::ZERO);
    w.v[..work_items.len()].copy_from_slice(work_items);
    w.s = [0; scalar::FILE];
    w.scc = false;
    w.mode = descriptor.mode;
    w.pc = setup.entry;
    w.executed = 0;
    w.turn = Turn::default();
    w.number = number as u32;
    w.lanes = setup.lanes as usize;
    let items = (setup.items as usize - number * w.lanes).min(w.lanes);
    w.live = u64::MAX >> (LANES - items);
    w.set_s64(scalar::EXEC, w.live);
    set_user_values(w, setup);
    let mut next = descriptor.user_sgprs;
    if descriptor.workgroup_id_in_ttmp {
        let [x, y, z] = workgroup;
        w.set_s32(scalar::TTMP + 9, x);
        w.set_s32(scalar::TTMP + 7, y & 0xffff | z << 16);
        // The wave's number in its workgroup, in bits 29..25.
        w.set_s32(scalar::TTMP + 8, (number as u32) << 25);
    }
    for (id, enabled) in workgroup.into_iter().zip(descriptor.workgroup_id) {
        if enabled && !descriptor.workgroup_id_in_ttmp {
            w.set_s32(next, id);
            next += 1;
        }
    }
    if descriptor.workgroup_info {
        w.set_s32(next, setup.waves());
    }
}

fn set_user_values(w: &mut Wave, setup: &Setup) {
    let descriptor = &setup.kernel.info.descriptor;
    let mut next = 0;
    for &value in &descriptor.user_values {
        match value {
            UserValue::DispatchPtr => w.set_s64(next, setup.packet_ptr),
            UserValue::KernargPtr => w.set_s64(next, setup.kernarg_ptr),
            UserValue::PrivateSegmentSize => w.set_s32(next, setup.scratch_bytes),
            UserValue::PrivateSegmentBuffer => {
                for (i, word) in crate::exec::memory::SCRATCH_DESCRIPTOR.into_iter().enumerate() {
                    w.set_s32(next + i as u16, word);
                }
            }
            UserValue::QueuePtr | UserValue::DispatchId | UserValue::FlatScratchInit => {}
        }
        next += value.registers();
    }
    let (first, count) = descriptor.preload;
    for dword in 0..usize::from(count) {
        let at = 4 * (usize::from(first) + dword);
        let value = setup.kernarg.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        w.set_s32(next, value);
        next += 1;
    }
}
