//! What goes to a stream: done at once, or kept in a graph while the stream is captured.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use rocfire_emulator::{Error as EmulatorError, Kernel, Launch};
use rocfire_hal::print;

use crate::call::Result;
use crate::copy::{Copy, Fill};
use crate::event::Event;
use crate::handle::Handle;
use crate::runtime::{Runtime, healthy, translate};
use crate::status::Status;

/// A piece of work.
#[derive(Clone)]
pub enum Work {
    /// A copy.
    Copy(Copy),
    /// A fill.
    Fill(Fill),
    /// A kernel.
    Launch(Arc<KernelLaunch>),
    /// A function of the program's.
    Call(HostCall),
    /// A mark in the stream.
    Record(Arc<Event>),
    /// Waiting for a mark: what is before it has been done when it is reached, so that there is nothing to keep.
    Wait,
    /// Another graph.
    Graph(Arc<[Work]>),
    /// Only an order.
    Nothing,
}

/// A checked launch, with its arguments copied.
pub struct KernelLaunch {
    /// The kernel.
    pub kernel: Kernel,
    /// Workgroups.
    pub grid: [u32; 3],
    /// Threads of a workgroup.
    pub block: [u32; 3],
    /// Dynamic LDS.
    pub lds_bytes: u32,
    /// The explicit arguments.
    pub kernarg: Vec<u8>,
}

/// `hipHostFn_t`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);
/// `hipStreamCallback_t`.
pub type StreamCallback = unsafe extern "C" fn(Handle, c_int, *mut c_void);

/// A function of the program's, with what it gets.
#[derive(Clone, Copy)]
pub struct HostCall {
    /// Which.
    pub function: HostCallKind,
    /// What the program passed, as a number: it is only handed back.
    pub data: usize,
}

/// The kinds of functions that HIP calls.
#[derive(Clone, Copy)]
pub enum HostCallKind {
    /// Of `hipLaunchHostFunc`.
    Function(HostFunction),
    /// Of `hipStreamAddCallback`, with its stream.
    Callback(StreamCallback, Handle),
}

/// Puts work on a stream.
///
/// # Errors
/// What the work does; nothing but a dead stream while the stream is captured.
pub fn submit(stream: Handle, work: Work) -> Result {
    let runtime = healthy()?;
    match runtime.stream(stream)?.capture() {
        Some(capture) => capture.add(work),
        None => work.run(runtime),
    }
}

impl Work {
    /// Does it.
    pub fn run(&self, runtime: &Runtime) -> Result {
        match self {
            Work::Copy(copy) => copy.run(runtime),
            Work::Fill(fill) => fill.run(runtime),
            Work::Launch(launch) => launch.run(runtime),
            Work::Call(call) => {
                call.run();
                Ok(())
            }
            Work::Record(event) => {
                event.reached();
                Ok(())
            }
            Work::Graph(works) => works.iter().try_for_each(|work| healthy().and_then(|runtime| work.run(runtime))),
            Work::Wait | Work::Nothing => Ok(()),
        }
    }
}

impl KernelLaunch {
    fn run(&self, runtime: &Runtime) -> Result {
        let launch =
            Launch { grid: self.grid, block: self.block, dynamic_lds_bytes: self.lds_bytes, kernarg: &self.kernarg };
        let outcome = runtime.gpu.launch(&self.kernel, &launch);
        // What an assertion printed before it ended the kernel is told too.
        print(&runtime.gpu, &self.kernel).map_err(translate)?;
        match outcome {
            Ok(_counters) => Ok(()),
            Err(EmulatorError::Fault(fault)) => runtime.faulted(&fault),
            Err(error) => Err(translate(error)),
        }
    }
}

impl HostCall {
    fn run(&self) {
        let data = std::ptr::with_exposed_provenance_mut::<c_void>(self.data);
        match self.function {
            // SAFETY: the program gave the function to be called with what it gave besides.
            HostCallKind::Function(function) => unsafe { function(data) },
            // SAFETY: as above.
            HostCallKind::Callback(callback, stream) => unsafe { callback(stream, Status::SUCCESS.0, data) },
        }
    }
}
