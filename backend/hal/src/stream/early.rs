//! Launches that read memory before the launch ahead of them has ended, as `cuda/dependent.rs` says.
//!
//! By the time that such a launch begins, all that came before the launch ahead has ended: every kernel waits for what is ahead of it
//! before it lets others begin. So what is read must not be what the launch ahead itself writes. That is looked at when a
//! launch takes its place in the stream's order; where it is so, or something else than a kernel is ahead, the launch begins when all ahead
//! of it has ended, as launches do elsewhere.

use super::{Launch, Stream};
use crate::command::{Action, Command};
use crate::{Buffer, Function, Result};

/// What the newest command of a stream is, for the launch that comes behind it.
#[derive(Default)]
pub(crate) struct Ahead {
    is_kernel: bool,
    /// What it writes: addresses and bytes.
    written: Vec<(u64, u64)>,
}

impl Ahead {
    /// Takes down that a command takes its place. Whether it must not begin before what is ahead has ended.
    pub fn put(&mut self, command: &Command<'_>, written: impl Iterator<Item = (u64, u64)>) -> bool {
        let overlap = |(address, bytes): (u64, u64)| {
            self.written.iter().any(|&(other, more)| address < other + more && other < address + bytes)
        };
        let begins_late = command.early.is_some_and(|early| !self.is_kernel || overlap(early));
        self.forget();
        if matches!(command.action, Action::Kernel { .. }) {
            self.is_kernel = true;
            self.written.extend(written);
        }
        begins_late
    }

    /// Something else comes next, or nothing is known of what did.
    pub fn forget(&mut self) {
        self.is_kernel = false;
        self.written.clear();
    }
}

impl Stream {
    /// As [`Stream::launch`], of a kernel that reads a buffer before it waits for the launch ahead.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    ///
    /// # Safety
    /// - As [`Stream::launch`]; all that the kernel accesses before it waits is in `early`, from where it reads by way of L2 alone.
    pub unsafe fn launch_reading_early(&self, function: &Function, launch: &Launch<'_>, early: &Buffer) -> Result<()> {
        let command =
            Command { early: Some((early.device_address(), early.bytes())), ..Command::kernel(function, launch) };
        // SAFETY: the caller's duties, passed on.
        unsafe { self.launch_command(function, launch, &command) }
    }
}

#[cfg(all(test, feature = "noop"))]
mod tests;
