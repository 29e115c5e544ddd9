//! Collective operations of several devices: cudarc's names over `rocfire_hal::collective`.
//!
//! On AMD GPUs RCCL does them, on NVIDIA's NCCL. Either is opened at run time; `cargo doctor` says what was found. Ranks on
//! emulated devices meet inside the process. Launches that wait in the queue go first.
//!
//! 1. Ranks: [`Comm::from_devices`] for one process, [`Comm::from_rank`] for one of several processes or threads.
//! 2. Collective operations: [`Comm::all_reduce`] and others, each in the order of the rank's stream.
//! 3. Calls that begin together, which a thread with several ranks needs: [`Comm::group`], or [`group_start`] and
//!    [`group_end`].

mod group;
pub mod result;
pub mod safe;

pub use group::Group;
pub use safe::*;
