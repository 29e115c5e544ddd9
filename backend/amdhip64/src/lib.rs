//! The emulator behind HIP's own C interface: one library that serves as `libamdhip64.so` and as `libhiprtc.so`.
//!
//! Any HIP program that finds it through `LD_LIBRARY_PATH` runs on an emulated AMD GPU: programs compiled with `<<<>>>`
//! launches, programs that load code objects, and those that compile at run time. `rocfire hip-library` puts the library
//! where a program finds it; this crate's README says how, and what is not there.
//!
//! # How it works
//!
//! | what | module |
//! | --- | --- |
//! | pointers from C, as types that check for null | `foreign` |
//! | every exported function: panics caught, errors kept and told | `call`, `status`, `error` |
//! | the process's one device, its settings, handles | `runtime`, `handle` |
//! | what a device says of itself | `device`, `properties`, `context`, `occupancy` |
//! | memory, copies | `memory`, `memory_type`, `pool`, `copy`, `symbol` |
//! | work in the order of streams, events, graphs | `work`, `stream`, `event`, `graph` |
//! | code objects, fat binaries, compiled programs, launches | `module`, `bundle`, `register`, `launch` |
//! | hiprtc | `rtc` |
//!
//! # What it promises
//!
//! - All work is done when the call that asks for it returns: a stream is never behind. A program that forgets to wait for
//!   a stream therefore works here, and may not on a GPU.
//! - What a kernel did wrong is told in full on standard error at once, and to the program as HIP does: by the next call
//!   that waits or copies, and by every one after it until `hipDeviceReset`. With `ROCFIRE_SYNC=1` or
//!   `HIP_LAUNCH_BLOCKING=1` the launch itself fails.
//! - No panic leaves an exported function, null where a pointer must be is an error, and a handle that is not alive is too.
//! - Device memory has addresses that the host does not: a program that follows one on the host ends, as without a large BAR.
//!
//! Exported functions have HIP's own names and arguments; their documentation is HIP's reference. It is written from that
//! reference and AMD's public headers (ROCm 5.2 to 7). It calls no foreign function.

#![allow(non_snake_case, reason = "exported functions have HIP's names")]
#![allow(clippy::too_many_arguments, reason = "exported functions have HIP's arguments")]

mod bundle;
mod call;
mod context;
mod copy;
mod device;
mod error;
mod event;
mod foreign;
mod graph;
mod handle;
mod launch;
mod memory;
mod memory_type;
mod module;
mod occupancy;
mod peers;
mod pool;
mod properties;
mod register;
mod rtc;
mod runtime;
mod status;
mod stream;
mod symbol;
mod work;
