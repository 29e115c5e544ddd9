//! What a driver does for a device: the one object-safe trait behind every device.
//!
//! One dynamic call per HIP-level action. Drivers check nothing and report everything: that views lie inside their
//! buffers, that arguments have the right size and that nothing is used after it was freed is the business of the
//! types above (`buffer.rs`, `tensor.rs`, `stream.rs`). Three implement it: `gpu/` for AMD's and NVIDIA's GPUs, `emulated.rs` and
//! `noop.rs`. All work of a device is done in the order of one stream, which the driver owns. A GPU has a second one for large
//! copies from the host ([`StreamName`]), and `staging.rs` keeps the order between the two.

use std::sync::Arc;

use rocfire_arch::Arch;

use crate::collective::Collectives;
use crate::command::StreamName;
use crate::compile::{CodeObject, KernelInfo};
use crate::index_fault::IndexMemory;
use crate::vendor::VendorGemm;
use crate::{Error, Result};

/// What a driver says of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// The marketing name, or `emulated gfx942`.
    pub name: String,
    /// The architecture.
    pub arch: Arch,
    /// The full target name, as the driver reports it: `gfx942:sramecc+:xnack-`.
    pub target: String,
    /// Lanes in a wave, as the driver reports it.
    pub wave_size: u32,
    /// Compute units.
    pub compute_units: u32,
    /// LDS that one workgroup can have, bytes.
    pub lds_bytes: u32,
    /// Threads that one workgroup can have.
    pub max_workgroup_threads: u32,
    /// The device's memory, bytes.
    pub memory_bytes: u64,
    /// The driver's version, as text.
    pub driver_version: String,
}

/// The state of a block of device memory, told to the driver by the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// In use; this many of the block's bytes were asked for.
    Requested(u64),
    /// Not in use.
    Free,
}

/// A launch as a driver gets it: checked, without names.
#[derive(Clone, Copy, Debug)]
pub struct RawLaunch<'a> {
    /// Workgroups.
    pub grid: [u32; 3],
    /// Threads of a workgroup.
    pub block: [u32; 3],
    /// Dynamic LDS, bytes.
    pub lds_bytes: u32,
    /// The explicit kernel arguments.
    pub args: &'a [u8],
    /// Whether it must not begin before what is ahead of it has ended, as kernels that wait by themselves may: CUDA's alone.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "launches of other drivers never begin early"))]
    pub begins_late: bool,
}

/// Gives a code object once more, with line tables.
pub type Lined = Box<dyn Fn() -> Option<Arc<CodeObject>> + Send + Sync>;

/// Why a launch failed.
#[derive(Debug)]
pub enum LaunchFailure {
    /// It was not accepted: nothing ran.
    Rejected(Error),
    /// It ran and failed. On a GPU this would have been found out later, and so it is told later.
    Faulted(String),
}

/// A device of some kind, with its streams.
pub trait Driver: Send + Sync {
    /// What is known of the device.
    fn info(&self) -> &DeviceInfo;

    /// Bytes of device memory that nobody has taken, other processes included, where the driver knows.
    fn free_memory_bytes(&self) -> Option<u64>;

    /// Device memory, aligned to 256 bytes. `bytes` is not 0.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] (its pool figures are filled in by the pool) or the driver's own.
    fn allocate(&self, bytes: u64) -> Result<u64>;

    /// Returns what [`Driver::allocate`] gave. Waits for work that uses it.
    ///
    /// # Safety
    /// - `address` came from `allocate` and was not freed since.
    /// - No launch that comes later uses it.
    unsafe fn free(&self, address: u64) -> Result<()>;

    /// The state of a block inside an allocation has changed. Only the emulator cares.
    fn mark(&self, _address: u64, _block_bytes: u64, _live: Live) {}

    /// Bytes that the pool leaves unused behind each block, so that running over its end is noticed.
    fn red_zone_bytes(&self) -> u64 {
        0
    }

    /// Pinned host memory, which the device copies from and to behind the host; `None` if there is none to be had, or where copies
    /// are done when the call returns.
    fn pin(&self, _bytes: usize) -> Option<*mut u8> {
        None
    }

    /// Gives it back.
    ///
    /// # Safety
    /// - `memory` came from [`Driver::pin`], of so many bytes, and no copy uses it.
    unsafe fn unpin(&self, _memory: *mut u8, _bytes: usize) {}

    /// Begins a copy from the host, on a stream.
    ///
    /// # Safety
    /// - `source.len()` bytes from `target` lie in one live block.
    /// - `source` is pinned and unchanged until the copy is done, or the caller waits for it before anything else.
    unsafe fn upload(&self, stream: StreamName, target: u64, source: &[u8]) -> Result<()>;

    /// Begins a copy to the host, on the stream of the computations.
    ///
    /// # Safety
    /// - `target.len()` bytes from `source` lie in one live block.
    /// - `target` is pinned and used by nobody else until the copy is done, or the caller waits for it before anything else.
    unsafe fn download(&self, target: &mut [u8], source: u64) -> Result<()>;

    /// What comes later on the second stream waits for the work so far on the first. Nothing to be done where all is one stream.
    fn order(&self, _first: StreamName, _second: StreamName) -> Result<()> {
        Ok(())
    }

    /// To the host, after all work so far, and waits.
    ///
    /// # Safety
    /// - `target.len()` bytes from `address` lie in one live block.
    unsafe fn read(&self, address: u64, target: &mut [u8]) -> Result<()> {
        // SAFETY: the caller's duty; it is waited for at once.
        unsafe { self.download(target, address)? };
        self.synchronize()
    }

    /// What another device of the same driver must know of this one to copy from it.
    fn peer(&self) -> Option<&dyn std::any::Any> {
        None
    }

    /// From another device to this one, after the work so far of both; work of either that comes later waits for it. `false`
    /// if the two cannot reach each other: nothing was copied.
    ///
    /// # Safety
    /// - `bytes` bytes from `target` lie in one live block of this device, as many from `source` in one of the other.
    unsafe fn copy_from(&self, _target: u64, _from: &dyn Driver, _source: u64, _bytes: u64) -> Result<bool> {
        Ok(false)
    }

    /// Device to device, in the order of the stream.
    ///
    /// # Safety
    /// - `bytes` bytes from `target` and from `source` each lie in one live block, and do not overlap.
    unsafe fn copy(&self, target: u64, source: u64, bytes: u64) -> Result<()>;

    /// Sets every byte, in the order of the stream.
    ///
    /// # Safety
    /// - `bytes` bytes from `address` lie in one live block.
    unsafe fn fill(&self, address: u64, value: u8, bytes: u64) -> Result<()>;

    /// Loads a code object.
    ///
    /// # Errors
    /// The driver's own, for a code object of another architecture among others.
    fn load(&self, code: &[u8]) -> Result<Arc<dyn DriverModule>>;

    /// The same, for a driver that says where in the source a kernel went wrong: `lined` gives the same code with line
    /// tables, or `None` where it cannot be had.
    fn load_lined(&self, code: &[u8], lined: Lined) -> Result<Arc<dyn DriverModule>> {
        let _ = lined;
        self.load(code)
    }

    /// Zeroed memory for the record of `index_fault.rs`, as long as the driver lives; `None` if it runs no kernels. Asked for once.
    fn index_memory(&self) -> Result<Option<IndexMemory>> {
        Ok(None)
    }

    /// Waits for all work. A fault of an earlier launch surfaces here, where the driver runs behind.
    fn synchronize(&self) -> Result<()>;

    /// What the launches so far come to by the cost model, if they are counted. Only the emulator does.
    #[cfg(feature = "emulated")]
    fn modelled(&self) -> Option<Vec<crate::modelled::ModelledKernel>> {
        None
    }

    /// The vendor's library for matrix products, opened when first asked for, or why there is none.
    fn vendor_gemm(&self) -> Result<&dyn VendorGemm, &str> {
        Err("this device has no vendor's library")
    }

    /// How the device takes part in what several do together.
    fn collectives(&self) -> Collectives<'_> {
        Collectives::Host
    }

    /// Begins to record what is put on the stream instead of doing it.
    fn begin_capture(&self) -> Result<Recording> {
        Ok(Recording::None)
    }

    /// Ends the recording that [`Driver::begin_capture`] began with [`Recording::Native`].
    fn end_capture(&self) -> Result<Box<dyn DriverGraph>> {
        unreachable!("only called after a recording was begun")
    }

    /// Whether launches that come again cost the host less where [`Driver::launch_graph`] makes one of them.
    fn replays(&self) -> bool {
        false
    }

    /// A graph of launches, each behind the one before, whose arguments are set anew before it is replayed. Nothing runs yet.
    ///
    /// # Errors
    /// The driver's own.
    ///
    /// # Safety
    /// - The kernels live as long as the graph.
    /// - As [`DriverKernel::launch`], but that addresses need be good only where the graph is replayed.
    unsafe fn launch_graph(&self, _launches: &[(&dyn DriverKernel, RawLaunch<'_>)]) -> Result<Box<dyn LaunchGraph>> {
        unreachable!("only called where launches are replayed")
    }

    /// A mark in a stream, after all work so far: where the driver can use one again, that of an event that is no longer needed.
    fn record_event(&self, stream: StreamName, again: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>>;
}

/// A loaded code object.
pub trait DriverModule: Send + Sync {
    /// A kernel of it. `info` is what the code object's metadata says; its name is there.
    fn kernel(self: Arc<Self>, info: &KernelInfo) -> Result<Box<dyn DriverKernel>>;

    /// Sets a variable of it, at once: not in the order of the stream, and while a graph is recorded, too.
    ///
    /// # Errors
    /// There is none of that name and size; the driver's own.
    fn set_variable(&self, name: &'static str, value: &[u8]) -> Result<()>;

    /// Where a variable of it lies, and its bytes. `None` if it has none of that name, or where the driver reads such variables
    /// itself.
    ///
    /// # Errors
    /// The driver's own.
    fn variable(&self, _name: &'static str) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }
}

/// A kernel that can be launched; keeps its module.
pub trait DriverKernel: Send + Sync {
    /// Puts it on the stream.
    ///
    /// # Errors
    /// What is known when the call returns. What the driver finds out later comes from [`Driver::synchronize`] or a read.
    ///
    /// # Safety
    /// - `launch.args` is the kernel's argument struct, and what its addresses lead to is live and large enough.
    /// - The grid, block and LDS are within the kernel's and the device's limits.
    unsafe fn launch(&self, launch: &RawLaunch<'_>) -> Result<(), LaunchFailure>;

    /// For [`Driver::launch_graph`], which needs the kernel's own type.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Whether a driver records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// It does.
    Native,
    /// It has no graphs.
    None,
    /// It has graphs that are known to be wrong.
    Refused(&'static str),
}

/// Recorded work.
pub trait DriverGraph: Send + Sync {
    /// Puts all of it on the stream.
    ///
    /// # Errors
    /// The driver's own.
    fn launch(&self) -> Result<()>;
}

/// Launches that are put on the stream together.
pub trait LaunchGraph: Send + Sync {
    /// Gives one of them other arguments, by its number; replays that are under way keep theirs. All else of `launch` is as it was.
    ///
    /// # Errors
    /// The driver's own; the graph is of no use any more.
    fn set(&mut self, number: usize, launch: &RawLaunch<'_>) -> Result<()>;

    /// Puts all of them on the stream.
    ///
    /// # Errors
    /// The driver's own; nothing was put there.
    ///
    /// # Safety
    /// - As [`DriverKernel::launch`], of each.
    unsafe fn replay(&mut self) -> Result<()>;
}

/// A mark in a stream.
pub trait DriverEvent: Send + Sync {
    /// Waits until the work before it is done.
    fn synchronize(&self) -> Result<()>;

    /// Milliseconds from an earlier event of the same device to this one; both must have been reached.
    fn elapsed_ms(&self, earlier: &dyn DriverEvent) -> Result<f64>;

    /// For drivers that need the other event's own type in [`DriverEvent::elapsed_ms`].
    fn as_any(&self) -> &dyn std::any::Any;
}
