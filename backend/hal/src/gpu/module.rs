//! Loaded code objects and their kernels, recorded graphs, and events of a GPU.

use std::any::Any;
use std::ffi::{CString, c_void};
use std::sync::Arc;

use super::sys::runtime::{self, EventHandle, Runtime};
use super::{Extra, Platform, Shared};
use crate::compile::KernelInfo;
use crate::driver::{DriverEvent, DriverGraph, DriverKernel, DriverModule, LaunchFailure, RawLaunch};
use crate::foreign::Handle;
use crate::{Error, Result};

pub(super) struct GpuModule<P: Platform> {
    shared: Arc<Shared<P>>,
    module: Handle,
}

impl<P: Platform> GpuModule<P> {
    pub fn load(shared: &Arc<Shared<P>>, code: &[u8]) -> Result<GpuModule<P>> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the module goes to a local; the code object was parsed as an ELF file, and the platform copies it.
        shared.call(|calls| unsafe { calls.module_load(&mut module, code.as_ptr().cast()) })?;
        Ok(GpuModule { shared: Arc::clone(shared), module: Handle(module) })
    }
}

impl<P: Platform> DriverModule for GpuModule<P> {
    fn kernel(self: Arc<Self>, info: &KernelInfo) -> Result<Box<dyn DriverKernel>> {
        let name = CString::new(info.name.as_str()).map_err(|_| Error::CodeObject {
            name: info.name.clone(),
            reason: "a zero in the name of a kernel".to_owned(),
        })?;
        let mut function = std::ptr::null_mut();
        let get = |calls: &Runtime| {
            // SAFETY: the function goes to a local; the module is loaded, the name ends with a zero.
            unsafe { calls.module_function(&mut function, self.module.0, name.as_ptr()) }
        };
        self.shared.call(get)?;
        let kernel = self.shared.api.platform.kernel(info);
        Ok(Box::new(GpuKernel { function: Handle(function), kernel, module: self }))
    }

    fn set_variable(&self, name: &'static str, value: &[u8]) -> Result<()> {
        match self.variable(name)? {
            Some((address, bytes)) if bytes == value.len() as u64 => self.shared.write_now(address, value),
            _ => Err(crate::index_fault::no_variable(name, value)),
        }
    }

    fn variable(&self, name: &'static str) -> Result<Option<(u64, u64)>> {
        let Ok(text) = CString::new(name) else { return Ok(None) };
        let (mut address, mut bytes) = (0, 0);
        let get = |calls: &Runtime| {
            // SAFETY: address and size go to locals; the module is loaded, the name ends with a zero.
            unsafe { calls.module_variable(&mut address, &mut bytes, self.module.0, text.as_ptr()) }
        };
        match self.shared.call(get) {
            Ok(()) => Ok(Some((address, bytes as u64))),
            Err(Error::Driver { code: runtime::NOT_FOUND | runtime::INVALID_VALUE, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl<P: Platform> Drop for GpuModule<P> {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: kernels of the module keep it, so none is left.
        let _ = self.shared.call(|calls| unsafe { calls.module_unload(self.module.0) });
    }
}

pub(super) struct GpuKernel<P: Platform> {
    pub function: Handle,
    kernel: P::Kernel,
    /// Keeps the function's module loaded.
    module: Arc<GpuModule<P>>,
}

/// Calls `then` with a launch's arguments as the platform takes them.
pub(super) fn with_arguments<P: Platform, R>(launch: &RawLaunch<'_>, then: impl FnOnce(&mut Extra) -> R) -> R {
    let mut args_bytes = launch.args.len();
    let [buffer, size] = runtime::LAUNCH_BUFFER;
    let (args, args_bytes): (*mut c_void, *mut usize) = (launch.args.as_ptr().cast_mut().cast(), &mut args_bytes);
    then(&mut [buffer, args, size, args_bytes.cast(), P::LAUNCH_END])
}

impl<P: Platform> GpuKernel<P> {
    /// Puts it on a stream.
    ///
    /// # Safety
    /// - As [`DriverKernel::launch`]; the stream is the device's and alive.
    pub unsafe fn put(&self, stream: Handle, launch: &RawLaunch<'_>) -> Result<()> {
        with_arguments::<P, _>(launch, |extra| {
            // SAFETY: the function is of a loaded module, the arguments are as long as the code object says, which the caller has
            // compared; that their addresses are good is the caller's duty, as is the stream.
            unsafe { P::launch(&self.module.shared, stream, self.function, &self.kernel, launch, extra) }
        })
    }
}

impl<P: Platform> DriverKernel for GpuKernel<P> {
    unsafe fn launch(&self, launch: &RawLaunch<'_>) -> Result<(), LaunchFailure> {
        // SAFETY: the caller's duties; the stream lives as long as the module's device.
        unsafe { self.put(self.module.shared.stream, launch) }.map_err(LaunchFailure::Rejected)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) struct GpuGraph<P: Platform> {
    shared: Arc<Shared<P>>,
    instance: Handle,
}

impl<P: Platform> GpuGraph<P> {
    /// What the stream recorded.
    pub fn end_capture(shared: &Arc<Shared<P>>) -> Result<GpuGraph<P>> {
        let (mut graph, mut instance) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is alive and records; the graph goes to a local.
        shared.call(|calls| unsafe { calls.capture_end(shared.stream.0, &mut graph) })?;
        // SAFETY: the graph was just made; what can be launched goes to a local and is a copy of it.
        let made = shared.own_call(|api| unsafe { api.platform.instantiate(&mut instance, graph) });
        // SAFETY: nothing else has the graph.
        shared.call(|calls| unsafe { calls.graph_destroy(graph) })?;
        made?;
        Ok(GpuGraph { shared: Arc::clone(shared), instance: Handle(instance) })
    }
}

impl<P: Platform> DriverGraph for GpuGraph<P> {
    fn launch(&self) -> Result<()> {
        // SAFETY: the graph and the stream are alive; that what it accesses is, too, is the duty of whoever replays.
        self.shared.call(|calls| unsafe { calls.graph_launch(self.instance.0, self.shared.stream.0) })
    }
}

impl<P: Platform> Drop for GpuGraph<P> {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: nothing else has it.
        let _ = self.shared.call(|calls| unsafe { calls.graph_instance_destroy(self.instance.0) });
    }
}

pub(super) struct GpuEvent<P: Platform> {
    shared: Arc<Shared<P>>,
    event: Handle,
}

impl<P: Platform> GpuEvent<P> {
    /// An event that is on no stream yet.
    pub fn new(shared: &Arc<Shared<P>>) -> Result<GpuEvent<P>> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the event goes to a local.
        shared.call(|calls| unsafe { calls.event_create(&mut event, runtime::EVENT_DEFAULT) })?;
        Ok(GpuEvent { shared: Arc::clone(shared), event: Handle(event) })
    }

    /// An event of this driver's.
    pub fn of(event: &dyn DriverEvent) -> &GpuEvent<P> {
        event.as_any().downcast_ref().expect("events go back to the driver that made them")
    }

    pub fn handle(&self) -> EventHandle {
        self.event.0
    }
}

impl<P: Platform> DriverEvent for GpuEvent<P> {
    fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        self.shared.call(|calls| unsafe { calls.event_synchronize(self.event.0) })
    }

    fn elapsed_ms(&self, earlier: &dyn DriverEvent) -> Result<f64> {
        let earlier = GpuEvent::<P>::of(earlier).handle();
        let mut milliseconds = 0.0;
        // SAFETY: the time goes to a local; both events are alive.
        self.shared.call(|calls| unsafe { calls.event_elapsed(&mut milliseconds, earlier, self.event.0) })?;
        Ok(f64::from(milliseconds))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<P: Platform> Drop for GpuEvent<P> {
    fn drop(&mut self) {
        // As with the stream: nobody is left to tell.
        // SAFETY: nothing else has the event.
        let _ = self.shared.call(|calls| unsafe { calls.event_destroy(self.event.0) });
    }
}
