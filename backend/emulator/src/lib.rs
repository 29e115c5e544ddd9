//! An emulator of AMD GPUs: runs the code objects that a real card would run, on the CPU and on memory where every access
//! is checked.
//!
//! [`Gpu`] is one device. Its memory is handed out by [`Gpu::allocate`], code comes in by [`Gpu::load`], and
//! [`Gpu::launch`] runs a [`Kernel`] to its end and gives its [`Counters`], or the [`Fault`] that ended it.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use rocfire_emulator::{Gpu, Launch, Options};
//! let gpu = Gpu::new(rocfire_arch::Arch::parse("gfx942")?, Options::default())?;
//! let module = gpu.load(&std::fs::read("kernels.co")?)?;
//! let kernel = module.kernel("scale").ok_or("no such kernel")?;
//! let x = gpu.allocate(4096)?;
//! gpu.launch(&kernel, &Launch { grid: [4, 1, 1], block: [256, 1, 1], dynamic_lds_bytes: 0, kernarg: &x.to_le_bytes() })?;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! | step | module |
//! | --- | --- |
//! | An ELF file becomes an image in guest memory, and its code a list of steps | `module`, `metadata`, `descriptor`, `program` |
//! | An image that somebody else has loaded is found around its kernel's descriptor | `resident` |
//! | A step is a handler and operands that are register numbers | `step`, `exec` |
//! | A launch lays out arguments and hands workgroups to threads | `launch` |
//! | A workgroup's waves run one after the other up to each barrier, or in turns ([`Options::schedule`]) | `group` |
//! | A wave that waits lets the others run, a workgroup that waits the other workgroups | `spin`, `park` |
//! | A handler works on registers that are vectors over the lanes | `wave`, `numeric` |
//! | and on memory through windows that the allocation map has granted | `env`, `memory` |
//! | Where something is to watch (a check, a profile), a second loop runs with hooks around each step | `instrument`, `check` |
//!
//! # Checks
//!
//! Always:
//!
//! - bounds of device memory, LDS and scratch against what was asked for, and use after free,
//! - writes to code and arguments,
//! - barriers that not all waves reach ([`Options::strict_barriers`]),
//! - endless loops ([`Options::step_limit`]), and waits for memory that nobody writes ([`FaultKind::EndlessWait`]).
//!
//! Scratch is checked against the whole frame of a lane. Code objects do not say where in it an array ends, so an index just past one
//! may still be inside.
//!
//! On demand, by [`Options::checks`] (`ROCFIRE_CHECK` where `rocfire-hal` opens the device), several times slower:
//!
//! | [`Checks`] | `ROCFIRE_CHECK` | finds |
//! | --- | --- | --- |
//! | `unwritten` | `unwritten` | what nobody wrote used as an address, deciding a branch, or stored to device memory |
//! | `lds_races` | `lds-race` | two waves on a byte of LDS between two barriers, one of them writing, not both by atomics |
//! | `equal_writes` | `equal-write` | with `lds_races`: of these also writes of the bytes that are there already |
//! | `global_races` | `global-race` | the same of two workgroups and device memory; an atomic orders those behind others |
//! | `shuffles` | `shuffle` | the same of what a shuffle reads from a lane that is off |
//! | `waits` | `waitcnt` | a register read or overwritten before the `s_waitcnt` for the load that fills it; a barrier reached before that for a store which another wave meets behind it |
//!
//! A [`Fault`] names kernel, instruction, workgroup, wave, lanes, address, the nearest allocation with the distance to it,
//! and the line of the source if the code object has line tables (`-gline-tables-only`, which changes no code). For one that
//! has none, [`source_of`] finds the line in one that was compiled once more with them.
//!
//! # Invariants
//!
//! - The same bits on every host and any number of threads: floating point is correctly rounded in every CPU variant of a
//!   handler, elementary functions are our own, lanes act in ascending order, and a kernel that could show the order of
//!   its workgroups runs them one after the other.
//! - A guest address becomes a host pointer only through the allocation map (`memory`).
//! - What the emulator does not know is an error that names the instruction. Nothing is skipped.
//! - No time is told: [`Counters`] count, clocks of [`Bound`] and [`Timeline`] are modelled, and `MODEL.md` says by what.

// Loops over lanes index several registers at once, and bit fields are shifts joined by `|`.
#![allow(clippy::needless_range_loop, clippy::precedence)]

mod check;
mod counters;
mod descriptor;
mod env;
mod error;
mod exec;
pub mod filetest;
mod gpu;
mod group;
mod host;
mod host_threads;
mod instrument;
mod launch;
mod memory;
mod metadata;
mod model;
mod module;
mod numeric;
mod park;
mod profile;
mod program;
mod resident;
mod source;
mod spin;
mod step;
mod wave;

pub use check::Checks;
pub use counters::Counters;
pub use error::{Access, Error, Fault, FaultKind, Nearest, RacingAccess, Wait};
pub use gpu::{Gpu, Options};
pub use group::Schedule;
pub use host_threads::Bystander;
pub use launch::{Dispatch, Launch};
pub use memory::Live;
pub use model::bound::{Binding, Bound, CardBound, Operations, PipeClocks};
pub use model::issue::Pipe;
pub use model::occupancy::{Limit, Occupancy, Resources, occupancy};
pub use model::timeline::{Lost, Simulated};
pub use module::{Kernel, Module, source_of};
pub use profile::{LinesTouched, Profile, Residents, Row, Sample, Tally, Timeline};
pub use rocfire_isa::MatrixType;
pub use step::Level as CpuLevel;
