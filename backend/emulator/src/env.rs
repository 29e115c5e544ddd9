//! What a wave acts on besides its registers: device memory, LDS, scratch, and the record of what was executed.
//!
//! One [`Env`] belongs to one host thread for the length of a launch; the waves of a workgroup share it one after the other.
//! Handlers find memory through it, jump through [`Env::jump`], which keeps the execution counts, and fail through
//! [`Env::fail`].

use std::sync::Arc;

use crate::counters::{Class, Counters};
use crate::error::{Access, FaultKind, Nearest};
use crate::instrument::{Event, Finding};
use crate::memory::{Denied, Memory, Window};
use crate::program::Program;
use crate::spin;
use crate::step::Flow;
use crate::wave::{AGPR, LANES, Wave};

/// Windows that a thread remembers, one for each memory instruction by number. An instruction mostly stays in one
/// allocation, so that nearly every access finds its window in its own place; programs with more memory instructions share.
const SITES: usize = 256;

/// What LDS and scratch hold before the program writes it: not a number in every float format, and minus one.
pub(crate) const UNWRITTEN: u64 = u64::MAX;

/// Why a wave cannot go on.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) kind: FaultKind,
    pub(crate) lane: Option<u32>,
    pub(crate) address: Option<u64>,
    pub(crate) bytes: u32,
    pub(crate) nearest: Nearest,
}

/// A bad access, before it is known whose.
pub(crate) struct BadAccess {
    pub(crate) denied: Box<Denied>,
    pub(crate) address: u64,
}

/// Bytes of LDS or scratch, private to one host thread; they start on a multiple of 8.
pub(crate) struct Local {
    words: Vec<u64>,
    bytes: usize,
}

impl Local {
    pub(crate) fn new() -> Local {
        Local { words: Vec::new(), bytes: 0 }
    }

    /// `bytes` bytes that nobody wrote.
    pub(crate) fn reset(&mut self, bytes: usize) {
        self.words.clear();
        self.words.resize(bytes.div_ceil(8), UNWRITTEN);
        self.bytes = bytes;
    }

    /// All of them, and what is behind the last up to a multiple of 8.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// How many there are.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Pointer to `bytes` bytes at `offset`, if all exist.
    #[inline(always)]
    pub(crate) fn host_ptr(&mut self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let len = self.bytes as u64;
        if bytes <= len && offset <= len - bytes {
            // SAFETY: `offset + bytes <= len`, and the words hold at least `len` bytes.
            Some(unsafe { self.words.as_mut_ptr().cast::<u8>().add(offset as usize) })
        } else {
            None
        }
    }
}

/// Bytes that were asked for, by kind of memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bytes {
    pub(crate) global_read: u64,
    pub(crate) global_written: u64,
    pub(crate) lds_read: u64,
    pub(crate) lds_written: u64,
    pub(crate) scratch: u64,
    pub(crate) scalar_read: u64,
}

/// See the module.
pub(crate) struct Env {
    pub(crate) program: Arc<Program>,
    pub(crate) memory: Arc<Memory>,
    /// LDS of the workgroup.
    pub(crate) lds: Local,
    /// Scratch of all waves of the workgroup: lane by lane, wave by wave.
    pub(crate) scratch: Local,
    /// Scratch bytes that a lane may use.
    pub(crate) scratch_bytes: u32,
    /// Scratch bytes from one lane to the next.
    pub(crate) scratch_stride_bytes: u32,
    /// Most instructions that a wave may run.
    pub(crate) step_limit: u64,
    /// VGPRs and accumulation registers of the launch's kernel.
    pub(crate) registers: (u32, u32),
    /// Bytes asked for.
    pub(crate) bytes: Bytes,
    /// Bytes of atomics that have left memory as it was, which `bytes` counts as written.
    pub(crate) idle_bytes: u64,
    /// Changes of LDS that `bytes` does not count.
    pub(crate) lds_changes: u64,
    /// Whether a wave has asked, since the last barrier, whether it was the first to arrive (RDNA 4).
    pub(crate) barrier_signalled: bool,
    /// Why the last handler said [`Flow::Fault`].
    pub(crate) fault: Option<Box<Cause>>,
    /// The step that is to blame, where it is not the one before the wave's `pc`.
    pub(crate) fault_step: Option<usize>,
    /// Lanes to blame, where they are more than the cause's one.
    pub(crate) fault_lanes: u64,
    /// Whether handlers are to record what they do to memory.
    pub(crate) observed: bool,
    /// What the last step did to memory, if `observed`.
    pub(crate) events: Vec<Event>,
    windows: Box<[Window]>,
    /// Places in `windows` that are not empty.
    filled: Vec<u16>,
    /// Changes of the execution count from one step to the next; the running sum is the count.
    delta: Vec<i64>,
    /// First step of the run since the last jump.
    run_start: usize,
    /// First and last place in `delta` that may not be zero.
    touched: (usize, usize),
}

impl Env {
    /// An environment with nothing executed yet.
    pub(crate) fn new(program: Arc<Program>, memory: Arc<Memory>, step_limit: u64) -> Env {
        let steps = program.steps.len();
        Env {
            program,
            memory,
            lds: Local::new(),
            scratch: Local::new(),
            scratch_bytes: 0,
            scratch_stride_bytes: 0,
            step_limit,
            registers: (AGPR.into(), AGPR.into()),
            bytes: Bytes::default(),
            idle_bytes: 0,
            lds_changes: 0,
            barrier_signalled: false,
            fault: None,
            fault_step: None,
            fault_lanes: 0,
            observed: false,
            events: Vec::new(),
            windows: vec![Window::empty(); SITES].into_boxed_slice(),
            filled: Vec::new(),
            delta: vec![0; steps + 1],
            run_start: 0,
            touched: (usize::MAX, 0),
        }
    }

    /// Forgets the launch before, and prepares for one of `program`. Windows must go: what they show may have been freed.
    pub(crate) fn reset(&mut self, program: Arc<Program>, registers: (u32, u32), observed: bool) {
        for site in self.filled.drain(..) {
            self.windows[usize::from(site)] = Window::empty();
        }
        if let (first, last) = self.touched
            && first <= last
        {
            self.delta[first..=last].fill(0);
        }
        self.touched = (usize::MAX, 0);
        self.delta.resize(program.steps.len() + 1, 0);
        self.program = program;
        self.registers = registers;
        self.bytes = Bytes::default();
        (self.idle_bytes, self.lds_changes) = (0, 0);
        self.fault = None;
        self.fault_step = None;
        self.fault_lanes = 0;
        self.observed = observed;
        self.events.clear();
    }

    /// Sets up scratch for `waves` waves of `bytes_per_lane`.
    pub(crate) fn reset_scratch(&mut self, waves: usize, bytes_per_lane: u32) {
        self.set_scratch_bytes(bytes_per_lane);
        self.scratch.reset(waves * LANES * self.scratch_stride_bytes as usize);
    }

    /// Sets how scratch is laid out.
    pub(crate) fn set_scratch_bytes(&mut self, bytes_per_lane: u32) {
        // A stride of an odd number of cache lines keeps the same offset of all lanes out of the same cache set.
        let stride = if bytes_per_lane == 0 { 0 } else { (bytes_per_lane.div_ceil(64) | 1) * 64 };
        self.scratch_bytes = bytes_per_lane;
        self.scratch_stride_bytes = stride;
    }

    /// The wave starts or goes on at its `pc`.
    pub(crate) fn enter(&mut self, w: &Wave) {
        self.run_start = w.pc;
    }

    /// The wave stops before its `pc`: counts the run up to there.
    pub(crate) fn leave(&mut self, w: &mut Wave) {
        self.close(w);
        self.run_start = w.pc;
    }

    #[inline(always)]
    fn close(&mut self, w: &mut Wave) {
        self.delta[self.run_start] += 1;
        self.delta[w.pc] -= 1;
        w.executed += (w.pc - self.run_start) as u64;
        self.touched = (self.touched.0.min(self.run_start), self.touched.1.max(w.pc));
    }

    /// A number that is another one once device memory or LDS has been changed.
    pub(crate) fn effects(&self) -> u64 {
        let written = self.bytes.global_written + self.bytes.lds_written;
        written.wrapping_sub(self.idle_bytes).wrapping_add(self.lds_changes)
    }

    /// Makes `target` the wave's next step. The only way to change `w.pc`.
    #[inline(always)]
    pub(crate) fn jump(&mut self, w: &mut Wave, target: usize) -> Flow {
        self.close(w);
        w.pc = target;
        self.run_start = target;
        if w.executed >= w.look_at { spin::look(w, self) } else { Flow::Next }
    }

    /// What was executed since the reset, without workgroups and waves.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        counters.record_bytes(&self.bytes);
        let (first, last) = self.touched;
        if first > last {
            return counters;
        }
        let mut count = 0;
        for (step, delta) in self.program.steps[first..].iter().zip(&self.delta[first..=last]) {
            count += delta;
            counters.record(step.class, count as u64);
            counters.record(Class::NoEffect, count as u64 * u64::from(step.dropped));
        }
        counters
    }

    /// Stops the wave.
    #[cold]
    pub(crate) fn fail(&mut self, kind: FaultKind) -> Flow {
        self.fail_with(Cause { kind, lane: None, address: None, bytes: 0, nearest: Nearest::Unknown })
    }

    /// Stops the wave because of what an observer found at a step.
    #[cold]
    pub(crate) fn fail_at(&mut self, step: usize, finding: Finding) -> Flow {
        let Finding { kind, lanes, address, bytes, is_device_address } = finding;
        self.fault_step = Some(step);
        self.fault_lanes = lanes;
        let lane = (lanes != 0).then(|| lanes.trailing_zeros());
        let device_address = address.filter(|_| is_device_address);
        let nearest = device_address.map_or(Nearest::Unknown, |address| self.memory.nearest(address));
        self.fail_with(Cause { kind, lane, address, bytes, nearest })
    }

    /// Stops the wave, with the particulars.
    #[cold]
    pub(crate) fn fail_with(&mut self, cause: Cause) -> Flow {
        self.fault = Some(Box::new(cause));
        Flow::Fault
    }

    /// The host's pointer to `bytes` bytes of device memory at `address`, valid until the next call with the same `site`.
    #[inline(always)]
    pub(crate) fn device_ptr(
        &mut self,
        site: u16,
        address: u64,
        bytes: u64,
        access: Access,
    ) -> Result<*mut u8, Box<BadAccess>> {
        let window = &self.windows[site as usize % SITES];
        match window.host_ptr(address, bytes) {
            Some(host) if access == Access::Read || window.writable => Ok(host),
            _ => self.miss(site, address, bytes, access),
        }
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, site: u16, address: u64, bytes: u64, access: Access) -> Result<*mut u8, Box<BadAccess>> {
        match self.memory.find(address, bytes, access) {
            Ok(window) => {
                let host = window.host_ptr(address, bytes).expect("`find` gives a window around the whole access");
                let place = site as usize % SITES;
                self.windows[place] = window;
                self.filled.push(place as u16);
                Ok(host)
            }
            Err(denied) => Err(Box::new(BadAccess { denied, address })),
        }
    }
}
