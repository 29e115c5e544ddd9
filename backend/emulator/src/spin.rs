//! Waves that wait by reading memory over and over, and loops that never end.
//!
//! A wave is a deterministic machine. It *spins* when it comes back to an instruction with every register as it was and has changed
//! nothing in memory meanwhile: it will do the same for ever, unless somebody else writes what it reads.
//!
//! [`Wave::look_at`] finds that from time to time. It takes a [`Snapshot`] at the target of a jump, and compares every jump there
//! with it for a while. Snapshots are far apart, and farther each time, so that loops that get on do not notice.
//!
//! A loop that changes registers (it counts its turns, or waits longer each time) may wait too. So no wave runs for longer
//! than a [`SLICE`] while others could: then it stops and they have their turn.
//!
//! All of it goes by the number of instructions, so that the same program meets the same fate on every host. Only
//! [`CLOCK_FACTOR`] is about time: instructions that the host is very slow at, and far too many of them.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::env::Env;
use crate::error::FaultKind;
use crate::instrument::{Event, EventKind};
use crate::step::Flow;
use crate::wave::{AGPR, Lanes, Wave, scalar};

/// Instructions that a wave runs before the first snapshot, and between the first two; from then on twice as many each time.
const FIRST_LOOK: u64 = 1 << 14;

/// How long a snapshot is compared with: the longest loop that it can find, in instructions.
const WINDOW: u64 = 1 << 11;

/// As a share of the instructions since the one before, once that is more.
const WINDOW_SHARE: u64 = 16;

/// Instructions that a wave runs at a stretch.
pub(crate) const SLICE: u64 = 1 << 20;

/// Instructions that a second of [`Options::step_limit`](crate::Options::step_limit) stands for: what the emulator does in
/// one of a usual host.
pub(crate) const STEPS_PER_SECOND: u64 = 1 << 24;

/// So many times longer than its instructions should take, and a wave is stopped by the clock.
const CLOCK_FACTOR: u32 = 15;

/// A wave's state at one moment, all that decides how it goes on; but for its scratch, see [`Snapshot::scratch`].
pub(crate) struct Snapshot {
    pc: usize,
    scalars: [u32; scalar::SINK as usize],
    scc: bool,
    mode: u32,
    vectors: Vec<Lanes>,
    /// Its part of the workgroup's scratch.
    scratch: Vec<u64>,
    /// [`Env::effects`] at that moment.
    effects: u64,
    /// Instructions up to which it is compared with.
    until: u64,
}

/// What a wave's looking around goes by.
pub(crate) struct Watch {
    /// The state that is compared with, if there is one now.
    snapshot: Option<Box<Snapshot>>,
    /// Instructions from one snapshot to the next.
    stride: u64,
    /// Where the slice ends.
    slice_end: u64,
    /// Snapshots taken.
    pub(crate) taken: u64,
    /// Whether it spun and goes on: where it comes back with other registers, it may spin on what was written.
    again: bool,
    /// How long it has run in earlier slices, by the host's clock.
    ran: Duration,
    /// When it began to run, or was first looked at.
    since: Option<Instant>,
}

impl Watch {
    /// Of a wave that has run nothing yet.
    pub(crate) fn new() -> Watch {
        Watch {
            snapshot: None,
            stride: FIRST_LOOK,
            slice_end: SLICE,
            taken: 0,
            again: false,
            ran: Duration::ZERO,
            since: None,
        }
    }
}

/// How long a usual host takes for as many instructions.
pub(crate) fn time_of(steps: u64) -> Duration {
    Duration::from_secs(steps.div_ceil(STEPS_PER_SECOND))
}

/// The clock's limit for a step limit.
fn clock_limit(step_limit: u64) -> Duration {
    time_of(step_limit).saturating_mul(CLOCK_FACTOR)
}

/// The places in the vector file of a kernel's VGPRs and accumulation registers.
pub(crate) fn vector_file((vgprs, agprs): (u32, u32)) -> [Range<usize>; 2] {
    [0..vgprs as usize, AGPR as usize..AGPR as usize + agprs as usize]
}

/// A wave has jumped, and it was time to look.
#[cold]
#[inline(never)]
pub(crate) fn look(w: &mut Wave, env: &mut Env) -> Flow {
    if w.executed > env.step_limit {
        return env.fail(FaultKind::StepLimit { limit: env.step_limit });
    }
    let since = *w.watch.since.get_or_insert_with(Instant::now);
    if w.executed >= w.watch.slice_end {
        w.watch.ran += since.elapsed();
        w.watch.since = None;
        let limit = clock_limit(env.step_limit);
        if w.watch.ran > limit {
            return env.fail(FaultKind::ClockLimit { seconds: limit.as_secs() });
        }
        w.watch.slice_end = w.executed + SLICE;
        w.watch.snapshot = None;
        set_next(w, env);
        return Flow::Slice;
    }
    match &w.watch.snapshot {
        Some(snapshot) if w.executed > snapshot.until => w.watch.snapshot = None,
        Some(snapshot) if snapshot.pc == w.pc => {
            let until = w.executed + window(&w.watch);
            if is_same(w, env) {
                // It goes on from here when somebody has written something.
                w.watch.snapshot.iter_mut().for_each(|snapshot| snapshot.until = until);
                return Flow::Spin;
            }
            if std::mem::take(&mut w.watch.again) {
                take(w, env);
            }
        }
        Some(_) => {}
        None => {
            take(w, env);
            w.watch.stride *= 2;
        }
    }
    set_next(w, env);
    Flow::Next
}

/// Sets when to look again: at each jump while there is a snapshot.
fn set_next(w: &mut Wave, env: &Env) {
    let next = match w.watch.snapshot {
        Some(_) => w.executed,
        None => w.executed + w.watch.stride,
    };
    w.look_at = next.min(w.watch.slice_end).min(env.step_limit.saturating_add(1));
}

/// Sets when a wave that has not run is looked at first.
pub(crate) fn start(w: &mut Wave, step_limit: u64) {
    w.watch = Watch::new();
    w.look_at = FIRST_LOOK.min(step_limit.saturating_add(1));
}

/// The wave's own part of scratch, in words.
fn scratch<'a>(w: &Wave, env: &'a Env) -> &'a [u64] {
    let words = crate::wave::LANES * env.scratch_stride_bytes as usize / 8;
    let first = w.number as usize * words;
    env.scratch.words().get(first..first + words).unwrap_or_default()
}

/// How long a snapshot that is taken now is compared with.
fn window(watch: &Watch) -> u64 {
    WINDOW.max(watch.stride / WINDOW_SHARE)
}

/// Takes a snapshot.
fn take(w: &mut Wave, env: &Env) {
    w.watch.taken += 1;
    let snapshot = Snapshot {
        pc: w.pc,
        scalars: std::array::from_fn(|i| w.s[i]),
        scc: w.scc,
        mode: w.mode,
        vectors: vector_file(env.registers).into_iter().flat_map(|range| &w.v[range]).copied().collect(),
        scratch: scratch(w, env).to_vec(),
        effects: env.effects(),
        until: w.executed + window(&w.watch),
    };
    w.watch.snapshot = Some(Box::new(snapshot));
}

/// Whether the wave and what it has written are as they were when the snapshot was taken.
fn is_same(w: &Wave, env: &Env) -> bool {
    let Some(snapshot) = &w.watch.snapshot else { return false };
    if snapshot.scalars[..] != w.s[..snapshot.scalars.len()] || (snapshot.scc, snapshot.mode) != (w.scc, w.mode) {
        return false;
    }
    if snapshot.effects != env.effects() {
        return false;
    }
    let mut kept = snapshot.vectors.iter();
    let same = vector_file(env.registers)
        .into_iter()
        .all(|range| w.v[range].iter().zip(&mut kept).all(|(now, then)| now.0 == then.0));
    same && snapshot.scratch == scratch(w, env)
}

/// A wave that spun, or whose slice was over, goes on: what others have written meanwhile is none of its own doing.
pub(crate) fn resume(w: &mut Wave, env: &Env) {
    w.watch.since = Some(Instant::now());
    if let Some(snapshot) = &mut w.watch.snapshot {
        snapshot.effects = env.effects();
        (w.watch.again, w.watch.stride) = (true, FIRST_LOOK);
    }
}

/// A wave goes on whose turn was over, when `effects` was what [`Env::effects`] said: others have written what came since.
pub(crate) fn carry(w: &mut Wave, env: &Env, effects: u64) {
    if let Some(snapshot) = &mut w.watch.snapshot {
        snapshot.effects = snapshot.effects.wrapping_add(env.effects().wrapping_sub(effects));
    }
}

/// Runs a wave that spins once more, and gives the step and the event of the read that it most likely waits for: an atomic
/// one if there is one, else the last. `None` if it reads nothing.
pub(crate) fn what_it_reads(w: &mut Wave, env: &mut Env) -> Option<(usize, Event)> {
    let program = env.program.clone();
    let (start, end) = (w.pc, w.executed + SLICE);
    let mut found: Option<(usize, Event)> = None;
    (env.observed, env.events) = (true, Vec::new());
    env.enter(w);
    loop {
        let index = w.pc;
        let step = &program.steps[index];
        w.pc += 1;
        // SAFETY: the program was made for the level that this host was found to have.
        let flow = unsafe { (step.run)(w, env, step) };
        for event in env.events.drain(..).filter(|event| event.kind.reads(event.space)) {
            let is_atomic = |event: &Event| event.kind == EventKind::Atomic;
            if found.as_ref().is_none_or(|(_, known)| is_atomic(&event) || !is_atomic(known)) {
                found = Some((index, event));
            }
        }
        let goes_on = matches!(flow, Flow::Next | Flow::Spin | Flow::Slice);
        if !goes_on || w.pc == start || w.executed > end {
            break;
        }
    }
    env.leave(w);
    env.fault = None;
    found
}
