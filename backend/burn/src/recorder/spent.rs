//! Where the host's time goes: what was recorded for a device, planned and run.

use std::time::Duration;

use super::channel::Client;
use crate::RocmDevice;

/// What a device's recorder has done since the process began, on every thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Operators; the end of a tensor's life is none.
    pub operators: u64,
    /// Stretches of operators that ran as a whole.
    pub stretches: u64,
    /// Operators that no kernel computes together with others.
    pub alone: u64,
    /// In finding out what becomes of operators that have not come in this order before.
    pub planning: Duration,
    /// In plans that run: tensors found and allocated, launches given to the driver.
    pub running: Duration,
    /// Of that: in launches.
    pub launching: Duration,
    /// In operators by themselves, their launches among it.
    pub running_alone: Duration,
}

/// What has been recorded for a device. It opens nothing.
pub fn recorded(device: &RocmDevice) -> Recorded {
    Client::of(device).state().spent
}
