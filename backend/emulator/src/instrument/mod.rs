//! The instrumented way to run: a second loop beside the fast one, chosen for a launch when something wants to watch it.
//!
//! An [`Observer`] sees every step of every wave before and after it runs, with the registers that the step reads and
//! writes ([`Uses`]). After the step it sees what that did to memory too ([`Event`]).
//!
//! An [`Instrument`] makes observers for each host thread of the launch. They hand over what they find out in [`Observer::end`]. An
//! observer that returns an error ends the launch with that fault.
//!
//! | who | when |
//! | --- | --- |
//! | [`Instrument::observer`] | once for each host thread of the launch |
//! | [`Instrument::runs`], [`Observer::wants`] | before each workgroup |
//! | [`Observer::start_group`] | before a workgroup's first step, its waves' registers set |
//! | [`Observer::before`], [`Observer::after`] | around each step, those without effect (`s_waitcnt`, `s_nop`) included |
//! | [`Observer::barrier`] | when all waves of the workgroup have reached a barrier, before any goes on |
//! | [`Observer::park`], [`Observer::resume`] | when it stops in the middle for others, and when it goes on |
//! | [`Observer::end_group`] | when all its waves have ended |
//! | [`Observer::end`] | when the thread has no more workgroups, also after a fault |
//!
//! Results and counts are those of the fast loop. Two things differ. The program is decoded once more with nothing dropped
//! ([`Program::complete`](crate::program::Program::complete)), so steps have other numbers. And `Env::observed` is set, by which the
//! handlers of memory instructions record events: the fast loop pays one test of a flag at each of these.

use std::any::Any;

use crate::env::Env;
use crate::error::FaultKind;
use crate::exec;
use crate::group::Setup;
use crate::program::Program;
use crate::step::{Flow, MicroOp};
use crate::wave::{LANES, Wave};

mod event;
#[cfg(test)]
mod tests;
pub(crate) mod uses;

pub(crate) use event::{Event, EventKind, MemorySpace};
pub(crate) use uses::{Marks, Registers, Uses};

/// Makes the observers of a launch.
pub(crate) trait Instrument: Sync {
    /// One host thread's observer.
    fn observer(&self, setup: &Setup) -> Box<dyn Observer>;

    /// Whether workgroups must run one after the other, in one thread.
    fn serial(&self) -> bool {
        false
    }

    /// Whether a workgroup runs at all: not if one instrument says no.
    fn runs(&self, _setup: &Setup, _group: u64) -> bool {
        true
    }
}

/// Where a wave is.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    /// The complete program.
    pub(crate) program: &'a Program,
    /// Number of the step in it.
    pub(crate) index: usize,
    /// The step; `step.inst` is the instruction, `step.class` what it is counted as. Where `s_set_gpr_idx_on` is in force
    /// its registers are those that are meant.
    pub(crate) step: &'a MicroOp,
    /// Registers that it reads and writes.
    pub(crate) uses: &'a Uses,
}

/// What an observer found wrong at a step.
pub(crate) struct Finding {
    /// What.
    pub(crate) kind: FaultKind,
    /// Lanes to blame; zero where no lane is.
    pub(crate) lanes: u64,
    /// The address, if it is about memory.
    pub(crate) address: Option<u64>,
    /// Bytes there.
    pub(crate) bytes: u32,
    /// Whether the address is one of device memory, so that the allocation is to be named.
    pub(crate) is_device_address: bool,
}

impl Finding {
    /// One that is not about memory.
    pub(crate) fn at_lanes(kind: FaultKind, lanes: u64) -> Box<Finding> {
        Box::new(Finding { kind, lanes, address: None, bytes: 0, is_device_address: false })
    }
}

/// What an observer found wrong at a step that lies behind.
pub(crate) struct Late {
    /// The number of the wave in its workgroup.
    pub(crate) wave: usize,
    /// The step of the complete program.
    pub(crate) step: usize,
    /// What.
    pub(crate) finding: Box<Finding>,
}

/// What a hook says: to go on, or why the wave cannot.
pub(crate) type Verdict = Result<(), Box<Finding>>;

/// Watches the workgroups that one host thread runs. See the module for when each is called.
pub(crate) trait Observer: Send {
    /// Whether it wants to see workgroup `group`. One that no observer wants runs in the fast loop; one that others want is
    /// shown to all.
    fn wants(&mut self, _setup: &Setup, _group: u64) -> bool {
        true
    }

    /// `waves` are in their first state; `workgroup` is the place in the grid.
    fn start_group(&mut self, _setup: &Setup, _workgroup: [u32; 3], _waves: &[Wave]) {}

    /// `w.pc` is already the next step.
    fn before(&mut self, _at: &At<'_>, _w: &Wave, _env: &Env) -> Verdict {
        Ok(())
    }

    /// `w.pc` is where the wave goes on: a branch was taken if that is not `at.index + 1`. Not called for a step that
    /// faults. `events` are in the order of their effect.
    fn after(&mut self, _at: &At<'_>, _w: &Wave, _env: &Env, _events: &[Event]) -> Verdict {
        Ok(())
    }

    /// All waves have reached a barrier.
    fn barrier(&mut self) -> Option<Late> {
        None
    }

    /// All waves have ended.
    fn end_group(&mut self) -> Option<Late> {
        None
    }

    /// The workgroup stops in the middle, and others run before it goes on: what is to be kept of it.
    fn park(&mut self) -> Box<dyn Any + Send> {
        Box::new(())
    }

    /// It goes on, with what was kept, at this observer or at another thread's of the same kind.
    fn resume(&mut self, _kept: Box<dyn Any + Send>) {}

    /// There are no more workgroups for this thread.
    fn end(&mut self) {}
}

/// As `group::run_wave`, with observers.
pub(crate) fn run_wave(w: &mut Wave, env: &mut Env, program: &Program, observers: &mut [Box<dyn Observer>]) -> Flow {
    env.enter(w);
    let flow = loop {
        // The last step faults and nothing jumps behind it.
        let index = w.pc;
        let moved;
        let (step, uses) = match &program.steps[index] {
            step if step.indexed.is_some() && w.lanes == LANES => {
                moved = exec::index::moved(w, step).map(|moved| (Uses::of(&moved.inst), moved));
                moved.as_ref().map_or((step, &program.uses[index]), |(uses, moved)| (moved, uses))
            }
            step => (step, &program.uses[index]),
        };
        if !w.turn.take(1) {
            break Flow::Turn;
        }
        let at = At { program, index, step, uses };
        w.pc += 1;
        let verdict = observers.iter_mut().try_for_each(|observer| observer.before(&at, w, env));
        if let Err(finding) = verdict {
            break env.fail_at(index, *finding);
        }
        env.events.clear();
        // SAFETY: the program was made for the level that this host was found to have.
        let flow = unsafe { (program.steps[index].run)(w, env, &program.steps[index]) };
        if flow == Flow::Fault {
            break flow;
        }
        let events = std::mem::take(&mut env.events);
        let verdict = observers.iter_mut().try_for_each(|observer| observer.after(&at, w, env, &events));
        env.events = events;
        if let Err(finding) = verdict {
            break env.fail_at(index, *finding);
        }
        if flow != Flow::Next {
            break flow;
        }
    };
    env.leave(w);
    flow
}
