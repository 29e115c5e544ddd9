//! Counts where the host's time goes: what was recorded for a device, planned and run.

use std::time::Duration;

use super::channel::Client;
use crate::RocmDevice;

/// Counters of a device's recorder since the process began, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// How many operators were recorded; the end of a tensor's life does not count.
    pub operators: u64,
    /// How many stretches of operators ran as a whole.
    pub stretches: u64,
    /// How many operators ran by themselves, because no kernel computes them together with others.
    pub alone: u64,
    /// How many tensors were not kept and computed again.
    pub recomputed: u64,
    /// Time spent planning operators that had not come in this order before.
    pub planning: Duration,
    /// Time spent running plans: finding and allocating tensors, giving launches to the driver.
    pub running: Duration,
    /// The part of `running` that went into giving launches to the driver.
    pub launching: Duration,
    /// Time spent on operators that ran by themselves, with their launches.
    pub running_alone: Duration,
}

/// The counters of a device's recorder. The device is not opened for this.
pub fn recorded(device: &RocmDevice) -> Recorded {
    Client::of(device).state().spent
}
