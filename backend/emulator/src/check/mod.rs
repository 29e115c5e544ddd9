//! Checks that no hardware makes, each an observer of the instrumented loop. Bounds, use after free, barriers and the step
//! limit are checked by both loops.
//!
//! | check | module | what it finds |
//! | --- | --- | --- |
//! | `unwritten` | [`unwritten`] | values of registers, LDS, scratch or device memory that nobody wrote, where they matter |
//! | `lds_races` | [`race`] | two waves of a workgroup on one byte of LDS with no barrier between |
//! | `global_races` | [`global_race`] | two workgroups of a launch on one byte of device memory |
//! | `shuffles` | [`unwritten`] | the same for what a shuffle reads from a lane that is off |
//! | `waits` | [`wait`] | a register used before the `s_waitcnt` for the load that fills it; a barrier before that for a store |
//!
//! Each module's documentation has its rule, and what it lets pass. None changes what a kernel computes.

use std::any::Any;
use std::sync::{Arc, Mutex};

use rocfire_arch::Family;

use crate::env::Env;
use crate::group::Setup;
use crate::instrument::{At, Event, Instrument, Late, Observer, Verdict};
use crate::wave::Wave;

mod coherent;
mod global_race;
mod race;
mod shadow;
mod suspect;
mod unwritten;
pub(crate) mod wait;

/// Which checks a device makes besides those of the module that always run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checks {
    /// A value that nobody wrote is used as an address, decides a branch, or is stored to device memory.
    pub unwritten: bool,
    /// Two waves of a workgroup touch a byte of LDS, at least one writes, there is no barrier between, and not both are
    /// atomic.
    pub lds_races: bool,
    /// Of these also a write of the bytes that are there already. The language calls it a race, and no hardware shows it.
    pub equal_writes: bool,
    /// The same for two workgroups of a launch and device memory. Workgroups then run one after the other.
    pub global_races: bool,
    /// What `ds_bpermute` (HIP's shuffles) reads from a lane that is off is used as an address, decides a branch, or is stored
    /// to device memory. The hardware gives zero; HIP says that it means nothing.
    pub shuffles: bool,
    /// A register is read or overwritten before the wait for the load that fills it, or a wave goes to a barrier without
    /// waiting for its store and another reads there.
    pub waits: bool,
}

impl Checks {
    /// All of them.
    pub const ALL: Checks = Checks {
        unwritten: true,
        lds_races: true,
        equal_writes: true,
        global_races: true,
        shuffles: true,
        waits: true,
    };

    /// Whether the instrumented loop is needed.
    pub fn any(self) -> bool {
        self != Checks::default()
    }
}

/// Makes the observers of the checks.
pub(crate) struct Checker {
    checks: Checks,
    family: Family,
    kept: Kept,
}

/// What a device keeps for its checks from one launch to the next.
pub(crate) type Kept = Arc<Mutex<Option<global_race::Record>>>;

impl Checker {
    pub(crate) fn new(checks: Checks, family: Family, kept: Kept) -> Checker {
        Checker { checks, family, kept }
    }
}

impl Instrument for Checker {
    fn observer(&self, _: &Setup) -> Box<dyn Observer> {
        let Checks { unwritten, lds_races, equal_writes, global_races, shuffles, waits } = self.checks;
        Box::new(CheckObserver {
            unwritten: (unwritten || shuffles).then(|| unwritten::Unwritten::new(unwritten, shuffles)),
            waits: waits.then(|| wait::Waits::new(self.family)),
            races: lds_races.then(|| race::LdsRaces::new(equal_writes)),
            global_races: global_races.then(|| global_race::GlobalRaces::new(self.family, self.kept.clone())),
        })
    }

    fn serial(&self) -> bool {
        self.checks.global_races
    }
}

/// The checks of one host thread.
struct CheckObserver {
    unwritten: Option<unwritten::Unwritten>,
    waits: Option<wait::Waits>,
    races: Option<race::LdsRaces>,
    global_races: Option<global_race::GlobalRaces>,
}

/// What the checks keep of a workgroup that is set aside.
struct Aside {
    unwritten: Option<unwritten::Kept>,
    waits: Option<wait::Waits>,
    races: Option<race::LdsRaces>,
    global_races: Option<global_race::Kept>,
}

impl Observer for CheckObserver {
    fn start_group(&mut self, setup: &Setup, workgroup: [u32; 3], waves: &[Wave]) {
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.start_group(setup, waves);
        }
        if let Some(waits) = &mut self.waits {
            waits.start_group(waves.len(), setup.kernel.info.descriptor.spread);
        }
        if let Some(races) = &mut self.races {
            races.start_group(setup.lds_bytes, waves.len());
        }
        if let Some(races) = &mut self.global_races {
            races.start_group(workgroup);
        }
    }

    fn before(&mut self, at: &At<'_>, w: &Wave, _: &Env) -> Verdict {
        if let Some(waits) = &mut self.waits {
            waits.before(at, w)?;
        }
        match &mut self.unwritten {
            Some(unwritten) => unwritten.before(at, w),
            None => Ok(()),
        }
    }

    fn after(&mut self, at: &At<'_>, w: &Wave, env: &Env, events: &[Event]) -> Verdict {
        if !at.uses.has_effects {
            return Ok(());
        }
        if let Some(waits) = &mut self.waits {
            waits.after(at, w, env, events)?;
        }
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.after(at, w, env, events)?;
        }
        if let Some(races) = &mut self.races {
            races.after(at, w, env, events)?;
        }
        if let Some(races) = &mut self.global_races {
            races.after(at, w, events)?;
        }
        Ok(())
    }

    fn park(&mut self) -> Box<dyn Any + Send> {
        Box::new(Aside {
            unwritten: self.unwritten.as_mut().map(|check| check.park()),
            waits: self.waits.as_mut().map(|check| check.park()),
            races: self.races.as_mut().map(|check| check.park()),
            global_races: self.global_races.as_mut().map(|check| check.park()),
        })
    }

    fn resume(&mut self, kept: Box<dyn Any + Send>) {
        let Ok(kept) = kept.downcast::<Aside>() else { return };
        let Aside { unwritten, waits, races, global_races } = *kept;
        if let (Some(check), Some(kept)) = (&mut self.unwritten, unwritten) {
            check.resume(kept);
        }
        if let (Some(check), Some(kept)) = (&mut self.waits, waits) {
            *check = kept;
        }
        if let (Some(check), Some(kept)) = (&mut self.races, races) {
            *check = kept;
        }
        if let (Some(check), Some(kept)) = (&mut self.global_races, global_races) {
            check.resume(kept);
        }
    }

    fn barrier(&mut self) -> Option<Late> {
        if let Some(waits) = &mut self.waits {
            waits.barrier();
        }
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.barrier();
        }
        self.races.as_mut()?.barrier()
    }

    fn end_group(&mut self) -> Option<Late> {
        let lds = self.races.as_mut().and_then(|races| races.barrier());
        lds.or_else(|| self.global_races.as_mut()?.end_group())
    }

    fn end(&mut self) {
        if let Some(races) = &mut self.global_races {
            races.end();
        }
    }
}
