//! Several devices that reduce, gather and hand over what each has: cudarc's names over `rocfire_hal::collective`.
//!
//! On AMD GPUs this is RCCL, on NVIDIA's NCCL, opened at run time; `cargo doctor` says what was found. Ranks on emulated
//! devices meet inside the process. Work that waits in the launch queue goes first.
//!
//! 1. Ranks: [`Comm::from_devices`] for one process, [`Comm::from_rank`] for one of several processes or threads.
//! 2. [`Comm::all_reduce`] and its like, each in the order of the rank's stream.
//! 3. Calls that begin together, which a thread with several ranks needs: [`Comm::group`], or [`group_start`] and
//!    [`group_end`].

mod group;
pub mod result;
pub mod safe;

pub use group::Group;
pub use safe::*;
