//! What a stream does: a kernel, a product by a vendor's library, a copy or a fill on the device.
//!
//! Every one of them is a [`Command`], whoever asks for it: it goes to the driver at once, or is taken down for a graph
//! ([`Recorded`]). Launches that wait to share one are put together in `queue.rs` and go as one command.

use crate::buffer::Memory;
use crate::driver::{Driver, LaunchFailure, RawLaunch};
use crate::profile::Work;
use crate::vendor::{Addresses, Plan};
use crate::{Function, Launch};

/// What is done. The kernel, the plan and the arguments are borrowed by a [`Command`] and owned by a [`Recorded`] one.
#[derive(Clone, Copy)]
pub(crate) enum Action<F, P, A> {
    /// A kernel.
    Kernel { function: F, grid: [u32; 3], block: [u32; 3], lds_bytes: u32, args: A },
    /// A product by the vendor's library.
    Product { plan: P, addresses: Addresses },
    /// A copy on the device.
    Copy { target: u64, source: u64, bytes: u64 },
    /// Bytes set to a value.
    Fill { address: u64, value: u8, bytes: u64 },
}

/// Something to be done.
#[derive(Clone, Copy)]
pub(crate) struct Command<'a> {
    /// The operator, for messages and profiles.
    pub label: &'static str,
    pub action: Action<&'a Function, &'a Plan, &'a [u8]>,
    /// What it is about, for profiles.
    pub work: Work<'a>,
}

impl<'a> Command<'a> {
    /// A kernel's launch.
    pub fn kernel(function: &'a Function, launch: &Launch<'a>) -> Command<'a> {
        let &Launch { label, grid, block, lds_bytes, args, work, .. } = launch;
        Command { label, action: Action::Kernel { function, grid, block, lds_bytes, args }, work }
    }

    /// A copy of so many bytes.
    pub fn copy(target: u64, source: u64, bytes: u64) -> Command<'a> {
        let work = Work { bytes, ..Work::default() };
        Command { label: "copy on the device", action: Action::Copy { target, source, bytes }, work }
    }

    /// Bytes that are set.
    pub fn fill(address: u64, value: u8, bytes: u64) -> Command<'a> {
        let work = Work { bytes, ..Work::default() };
        Command { label: "fill", action: Action::Fill { address, value, bytes }, work }
    }

    /// Grid and block; zeros for what has none.
    pub fn geometry(&self) -> [[u32; 3]; 2] {
        match self.action {
            Action::Kernel { grid, block, .. } => [grid, block],
            Action::Product { .. } | Action::Copy { .. } | Action::Fill { .. } => [[0; 3]; 2],
        }
    }

    /// Puts it on the driver's stream.
    ///
    /// # Safety
    /// - What its addresses lead to is live memory of the device that covers what it accesses.
    /// - The limits of a kernel were checked.
    pub unsafe fn run(&self, driver: &dyn Driver) -> Result<(), LaunchFailure> {
        // SAFETY: the caller's duties, passed on in each arm.
        unsafe {
            match self.action {
                Action::Kernel { function, grid, block, lds_bytes, args } => {
                    return function.kernel().launch(&RawLaunch { grid, block, lds_bytes, args });
                }
                Action::Product { plan, addresses } => plan.0.launch(&addresses),
                Action::Copy { target, source, bytes } => driver.copy(target, source, bytes),
                Action::Fill { address, value, bytes } => driver.fill(address, value, bytes),
            }
        }
        .map_err(LaunchFailure::Rejected)
    }
}

/// A command that a graph keeps, with the ranges that it writes: address and bytes.
pub(crate) struct Recorded {
    label: &'static str,
    action: Action<Function, Plan, Box<[u8]>>,
    pub written: Box<[(u64, u64)]>,
}

impl Recorded {
    /// A copy of a command.
    pub fn new<'m>(command: &Command<'_>, written: impl Iterator<Item = &'m Memory>) -> Recorded {
        let ranges = written.map(|memory| (memory.address(), memory.bytes()));
        let (action, written) = match command.action {
            Action::Kernel { function, grid, block, lds_bytes, args } => {
                let (function, args) = (function.clone(), args.into());
                (Action::Kernel { function, grid, block, lds_bytes, args }, ranges.collect())
            }
            Action::Product { plan, addresses } => {
                (Action::Product { plan: plan.clone(), addresses }, ranges.collect())
            }
            Action::Copy { target, source, bytes } => {
                (Action::Copy { target, source, bytes }, [(target, bytes)].into())
            }
            Action::Fill { address, value, bytes } => {
                (Action::Fill { address, value, bytes }, [(address, bytes)].into())
            }
        };
        Recorded { label: command.label, action, written }
    }

    /// The command, to be done again.
    pub fn command(&self) -> Command<'_> {
        let action = match &self.action {
            Action::Kernel { function, grid, block, lds_bytes, args } => {
                Action::Kernel { function, grid: *grid, block: *block, lds_bytes: *lds_bytes, args: &**args }
            }
            Action::Product { plan, addresses } => Action::Product { plan, addresses: *addresses },
            &Action::Copy { target, source, bytes } => Action::Copy { target, source, bytes },
            &Action::Fill { address, value, bytes } => Action::Fill { address, value, bytes },
        };
        Command { label: self.label, action, work: Work::default() }
    }

    /// The operator, if it is one and not a copy or a fill.
    pub fn operator(&self) -> Option<&'static str> {
        match self.action {
            Action::Kernel { .. } | Action::Product { .. } => Some(self.label),
            Action::Copy { .. } | Action::Fill { .. } => None,
        }
    }
}
