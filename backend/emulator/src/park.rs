//! Workgroups that have stopped in the middle, so that others can run.
//!
//! On a GPU the workgroups of a launch are resident together, as many as there is room for, and some programs rely on it:
//! a workgroup waits for what another one writes. A [`Worker`](crate::group::Worker) has the state of one workgroup; what
//! is needed to go on with another later is kept in a [`Parked`].

use std::any::Any;

use crate::env::Local;
use crate::group::{State, Turn};
use crate::spin::{self, Watch};
use crate::wave::{Lanes, Wave, scalar};

/// Which workgroup it is, and how it is watched.
#[derive(Clone, Copy)]
pub(crate) struct Workgroup {
    /// Its number.
    pub(crate) group: u64,
    /// Its place in the grid.
    pub(crate) workgroup: [u32; 3],
    /// Whether it runs in the instrumented loop.
    pub(crate) watched: bool,
}

/// What came of running a workgroup.
pub(crate) enum Halt {
    /// It has ended.
    Ended,
    /// It waits for others.
    Parked(Box<Parked>),
}

/// A workgroup in the middle.
pub(crate) struct Parked {
    pub(crate) place: Workgroup,
    /// Whether it did anything since it was parked before.
    pub(crate) progressed: bool,
    pub(crate) waves: Vec<ParkedWave>,
    pub(crate) states: Vec<State>,
    pub(crate) lds: Local,
    pub(crate) scratch: Local,
    pub(crate) barrier_signalled: bool,
    /// What each observer keeps of it.
    pub(crate) observed: Vec<Box<dyn Any + Send>>,
}

/// A wave without the registers that its kernel does not have.
pub(crate) struct ParkedWave {
    vectors: Vec<Lanes>,
    s: [u32; scalar::FILE],
    scc: bool,
    mode: u32,
    pc: usize,
    executed: u64,
    look_at: u64,
    watch: Watch,
    live: u64,
    turn: Turn,
}

impl ParkedWave {
    /// Takes a wave's state away; `registers` are the VGPRs and accumulation registers of its kernel.
    pub(crate) fn new(w: &mut Wave, registers: (u32, u32)) -> ParkedWave {
        ParkedWave {
            vectors: spin::vector_file(registers).into_iter().flat_map(|range| &w.v[range]).copied().collect(),
            s: w.s,
            scc: w.scc,
            mode: w.mode,
            pc: w.pc,
            executed: w.executed,
            look_at: w.look_at,
            watch: std::mem::replace(&mut w.watch, Watch::new()),
            live: w.live,
            turn: w.turn,
        }
    }

    /// Gives it to a wave of the same number, which a worker has prepared for the launch.
    pub(crate) fn restore(self, w: &mut Wave, number: usize, lanes: usize, registers: (u32, u32)) {
        let mut kept = self.vectors.into_iter();
        for range in spin::vector_file(registers) {
            w.v[range].iter_mut().zip(&mut kept).for_each(|(register, value)| *register = value);
        }
        (w.s, w.scc, w.mode, w.pc) = (self.s, self.scc, self.mode, self.pc);
        (w.executed, w.look_at, w.watch, w.live) = (self.executed, self.look_at, self.watch, self.live);
        w.turn = self.turn;
        (w.number, w.lanes) = (number as u32, lanes);
    }
}
