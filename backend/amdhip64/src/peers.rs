//! Several devices: how many there are, which one a thread uses, and which ones reach each other's memory.
//!
//! All of them are of one architecture and share the emulator's addresses. So a copy or a kernel reaches the memory of any of
//! them: that a program forgot `hipDeviceEnablePeerAccess` goes unnoticed. What each has of its own are its memory's limit, its
//! streams, its modules with their variables, and its fault.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::sync::Mutex;

use crate::call::{Result, export};
use crate::foreign::Out;
use crate::runtime::{lock, runtime};
use crate::status::Status;

/// Says how many there are.
const VARIABLE: &str = "ROCFIRE_HIP_DEVICES";
/// The most there can be: as many as in a server.
const MOST: i32 = 16;

thread_local! {
    static CURRENT: Cell<i32> = const { Cell::new(0) };
    static PUSHED: RefCell<Vec<i32>> = const { RefCell::new(Vec::new()) };
}

/// Pairs of devices, of which the first may reach the second's memory.
static ENABLED: Mutex<BTreeSet<(i32, i32)>> = Mutex::new(BTreeSet::new());

/// How many devices the settings ask for.
pub fn chosen_count() -> std::result::Result<i32, String> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(1) };
    match text.trim().parse::<i32>() {
        Ok(count) if (1..=MOST).contains(&count) => Ok(count),
        _ if text.trim().is_empty() => Ok(1),
        _ => Err(format!("{VARIABLE}={text:?}: expected a number of devices from 1 to {MOST}")),
    }
}

/// The thread's device. A thread that is ending has the first.
pub fn current() -> i32 {
    CURRENT.try_with(Cell::get).unwrap_or(0)
}

/// Makes a device the thread's.
pub fn set_current(device: i32) {
    let _ = CURRENT.try_with(|current| current.set(device));
}

/// Makes a device the thread's until [`pop`].
pub fn push(device: i32) {
    let before = current();
    let _ = PUSHED.try_with(|pushed| pushed.borrow_mut().push(before));
    set_current(device);
}

/// Gives the thread the device that it had before, and names the one that it has now lost.
pub fn pop() -> i32 {
    let gone = current();
    let before = PUSHED.try_with(|pushed| pushed.borrow_mut().pop()).ok().flatten();
    set_current(before.unwrap_or(gone));
    gone
}

/// A device that is not the thread's.
fn other(peer: i32) -> Result<(i32, i32)> {
    runtime()?.check_device(peer)?;
    let own = current();
    if peer == own { Err(Status::INVALID_DEVICE.into()) } else { Ok((own, peer)) }
}

export! {
    /// `hipDeviceCanAccessPeer`: every device reaches every other.
    fn hipDeviceCanAccessPeer(possible: Out<c_int>, device: c_int, peer: c_int) {
        runtime()?.check_device(device)?;
        runtime()?.check_device(peer)?;
        possible.put(c_int::from(device != peer))
    }

    /// `hipDeviceEnablePeerAccess`
    fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        if flags != 0 {
            return Err(Status::INVALID_VALUE.into());
        }
        let fresh = lock(&ENABLED).insert(other(peer)?);
        if fresh { Ok(()) } else { Err(Status::PEER_ACCESS_ALREADY_ENABLED.into()) }
    }

    /// `hipDeviceDisablePeerAccess`
    fn hipDeviceDisablePeerAccess(peer: c_int) {
        let pair = other(peer).map_err(|_| Status::PEER_ACCESS_NOT_ENABLED)?;
        let gone = lock(&ENABLED).remove(&pair);
        if gone { Ok(()) } else { Err(Status::PEER_ACCESS_NOT_ENABLED.into()) }
    }
}
