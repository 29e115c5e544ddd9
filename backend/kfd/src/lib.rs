//! AMD's own runtime on an emulated card: a library to be preloaded, which answers for the kernel driver `amdgpu`.
//!
//! With it, `libhsa-runtime64` and `libamdhip64` as AMD ships them find a card where there is none. Their own code makes
//! queues and signals, loads code objects and writes packets; the emulator runs the kernels. This crate's README says how it
//! is used and how far it goes.
//!
//! # How it works
//!
//! | what | module |
//! | --- | --- |
//! | the C library's functions that it stands before; those of libdrm that name the card | `interpose`, `drm` |
//! | which paths are the driver's; the files that describe the card | `files`, `topology` |
//! | requests, by the kernel's structs | `ioctl`, `abi` |
//! | memory: a file that the runtime maps, mapped for the emulator too | `memory`, `pages` |
//! | events, which the runtime's threads wait for | `events` |
//! | queues: packets taken, kernels found and run, signals told | `queue`, `packet`, `code`, `signal` |
//! | the process's one card | `card` |
//!
//! # What it promises
//!
//! - Kernels reach what the runtime has mapped to the card and nothing else; what one does wrong is told on standard error,
//!   and to the runtime as the driver tells it.
//! - A request that is not known fails as with an older kernel. A packet that is not known stops its queue with an error.
//! - It takes nothing from programs that ask for no card.
//!
//! Interfaces are written from the kernel's `linux/kfd_ioctl.h` and from reading AMD's `ROCT-Thunk-Interface` and
//! `ROCR-Runtime`.

mod abi;
mod card;
mod code;
mod drm;
mod events;
mod files;
mod interpose;
mod ioctl;
mod memory;
mod packet;
mod pages;
mod queue;
mod signal;
mod topology;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that nothing panics under half-way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says on standard error what went wrong.
fn tell(text: &str) {
    eprintln!("rocfire: error: {text}");
}

/// As [`tell`], where somebody wants to know everything (`ROCFIRE_LOG=info`).
fn trace(text: impl FnOnce() -> String) {
    if card::tells_all() {
        eprintln!("rocfire: {}", text());
    }
}
