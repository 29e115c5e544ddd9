//! What a device's streams do: a kernel, a product by a vendor's library, a copy or a fill on the device, a copy from the host.
//!
//! Every one of them is a [`Command`], whoever asks for it, and names its stream: it goes to the driver at once, or is taken down
//! for a graph ([`Recorded`]). Launches that wait to share one are put together in `queue.rs` and go as one command; large copies
//! from the host are cut into several on both streams in `staging.rs`.

use crate::buffer::Memory;
use crate::driver::{Driver, LaunchFailure, RawLaunch};
use crate::profile::{Category, Work};
use crate::vendor::{Addresses, Plan};
use crate::{Function, Launch};

/// A stream of a device. Work on it is done in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StreamName {
    /// Kernels, products, copies and fills on the device, reads and small writes: the work whose order a program can see.
    #[default]
    Compute,
    /// Large writes, as far as a ring in device memory.
    Transfer,
}

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
    /// A copy from the host. The bytes are pinned and stay as they are until it is done, or the driver is waited for at once.
    Upload { target: u64, source: A },
    /// Waiting for the work so far on another stream.
    Wait { other: StreamName },
}

impl<F, P, A> Action<F, P, A> {
    /// The same with another hold on kernel, plan and bytes.
    fn map<'s, G, Q, B>(
        &'s self,
        of_function: impl FnOnce(&'s F) -> G,
        of_plan: impl FnOnce(&'s P) -> Q,
        of_bytes: impl FnOnce(&'s A) -> B,
    ) -> Action<G, Q, B> {
        match *self {
            Action::Kernel { ref function, grid, block, lds_bytes, ref args } => {
                Action::Kernel { function: of_function(function), grid, block, lds_bytes, args: of_bytes(args) }
            }
            Action::Product { ref plan, addresses } => Action::Product { plan: of_plan(plan), addresses },
            Action::Copy { target, source, bytes } => Action::Copy { target, source, bytes },
            Action::Fill { address, value, bytes } => Action::Fill { address, value, bytes },
            Action::Upload { target, ref source } => Action::Upload { target, source: of_bytes(source) },
            Action::Wait { other } => Action::Wait { other },
        }
    }
}

/// Something to be done.
#[derive(Clone, Copy)]
pub(crate) struct Command<'a> {
    /// The operator, for messages and profiles.
    pub label: &'static str,
    /// Where it is put.
    pub stream: StreamName,
    pub action: Action<&'a Function, &'a Plan, &'a [u8]>,
    /// What it is about, for profiles.
    pub work: Work<'a>,
    /// What it reads before what is ahead of it has ended: address and bytes.
    pub early: Option<(u64, u64)>,
    /// Whether it must not, and begins when that has ended: `stream/early.rs`.
    pub begins_late: bool,
}

impl<'a> Command<'a> {
    /// A kernel's launch.
    pub fn kernel(function: &'a Function, launch: &Launch<'a>) -> Command<'a> {
        let &Launch { label, grid, block, lds_bytes, args, work, .. } = launch;
        let action = Action::Kernel { function, grid, block, lds_bytes, args };
        Command { label, stream: StreamName::Compute, action, work, early: None, begins_late: false }
    }

    /// A product by the vendor's library.
    pub fn product(label: &'static str, plan: &'a Plan, addresses: Addresses, work: Work<'a>) -> Command<'a> {
        Command { label, work, ..Command::moving(label, 0, Action::Product { plan, addresses }) }
    }

    /// A copy of so many bytes.
    pub fn copy(target: u64, source: u64, bytes: u64) -> Command<'a> {
        Command::moving("copy on the device", bytes, Action::Copy { target, source, bytes })
    }

    /// Bytes that are set.
    pub fn fill(address: u64, value: u8, bytes: u64) -> Command<'a> {
        Command::moving("fill", bytes, Action::Fill { address, value, bytes })
    }

    /// A copy from the host.
    pub fn upload(stream: StreamName, target: u64, source: &'a [u8]) -> Command<'a> {
        let action = Action::Upload { target, source };
        Command { stream, ..Command::moving("copy to the device", source.len() as u64, action) }
    }

    /// What comes later on a stream waits for the work so far on another.
    pub fn wait(stream: StreamName, other: StreamName) -> Command<'a> {
        Command { stream, ..Command::moving("wait for another stream", 0, Action::Wait { other }) }
    }

    fn moving(label: &'static str, bytes: u64, action: Action<&'a Function, &'a Plan, &'a [u8]>) -> Command<'a> {
        let work = Work { bytes, ..Work::default() };
        Command { label, stream: StreamName::Compute, action, work, early: None, begins_late: false }
    }

    /// What it is called where it cannot become part of a graph.
    pub fn refused_in_graphs(&self) -> Option<&'static str> {
        match self.action {
            Action::Upload { .. } | Action::Wait { .. } => Some("a copy from the host"),
            Action::Kernel { .. } | Action::Product { .. } | Action::Copy { .. } | Action::Fill { .. } => None,
        }
    }

    /// Grid and block; zeros for what has none.
    pub fn geometry(&self) -> [[u32; 3]; 2] {
        match self.action {
            Action::Kernel { grid, block, .. } => [grid, block],
            Action::Product { .. }
            | Action::Copy { .. }
            | Action::Fill { .. }
            | Action::Upload { .. }
            | Action::Wait { .. } => [[0; 3]; 2],
        }
    }

    /// Puts it on its stream.
    ///
    /// # Safety
    /// - What its addresses lead to is live memory of the device that covers what it accesses.
    /// - The source of a copy from the host is as [`Driver::upload`] wants it.
    /// - The limits of a kernel were checked.
    pub unsafe fn run(&self, driver: &dyn Driver) -> Result<(), LaunchFailure> {
        // SAFETY: the caller's duties, passed on in each arm.
        unsafe {
            match self.action {
                Action::Kernel { function, grid, block, lds_bytes, args } => {
                    let begins_late = self.begins_late;
                    return function.kernel().launch(&RawLaunch { grid, block, lds_bytes, args, begins_late });
                }
                Action::Product { plan, addresses } => plan.0.launch(&addresses),
                Action::Copy { target, source, bytes } => driver.copy(target, source, bytes),
                Action::Fill { address, value, bytes } => driver.fill(address, value, bytes),
                Action::Upload { target, source } => driver.upload(self.stream, target, source),
                Action::Wait { other } => driver.order(other, self.stream),
            }
        }
        .map_err(LaunchFailure::Rejected)
    }
}

/// A command that a graph keeps, with the ranges that it writes: address and bytes.
pub(crate) struct Recorded {
    label: &'static str,
    category: Category,
    stream: StreamName,
    action: Action<Function, Plan, Box<[u8]>>,
    early: Option<(u64, u64)>,
    begins_late: bool,
    pub written: Box<[(u64, u64)]>,
}

impl Recorded {
    /// A copy of a command.
    pub fn new<'m>(command: &Command<'_>, written: impl Iterator<Item = &'m Memory>) -> Recorded {
        let &Command { label, stream, action, work, early, begins_late } = command;
        let written = match action {
            Action::Copy { target, bytes, .. } => [(target, bytes)].into(),
            Action::Fill { address, bytes, .. } => [(address, bytes)].into(),
            Action::Upload { target, source } => [(target, source.len() as u64)].into(),
            Action::Kernel { .. } | Action::Product { .. } | Action::Wait { .. } => {
                written.map(|memory| (memory.address(), memory.bytes())).collect()
            }
        };
        let action = action.map(|&function| function.clone(), |&plan| plan.clone(), |&bytes| bytes.into());
        Recorded { label, category: work.category, stream, action, early, begins_late, written }
    }

    /// The command, to be done again.
    pub fn command(&self) -> Command<'_> {
        let action = self.action.map(|function| function, |plan| plan, |bytes| &**bytes);
        let work = Work { category: self.category, ..Work::default() };
        let &Recorded { label, stream, early, begins_late, .. } = self;
        Command { label, stream, action, work, early, begins_late }
    }

    /// The operator, if it is one and not a copy or a fill.
    pub fn operator(&self) -> Option<&'static str> {
        match self.action {
            Action::Kernel { .. } | Action::Product { .. } => Some(self.label),
            Action::Copy { .. } | Action::Fill { .. } | Action::Upload { .. } | Action::Wait { .. } => None,
        }
    }
}
