//! Graphs of launches whose arguments are set before each replay.
//!
//! They are recorded as any graph is, so that what a platform does at a launch is in them, too; on a stream of their own, so that
//! other threads may wait for the device's meanwhile.

use std::sync::Arc;

use super::module::{GpuEvent, GpuKernel, with_arguments};
use super::sys::runtime;
use super::{Platform, Shared};
use crate::command::StreamName;
use crate::driver::{DriverEvent, DriverKernel, LaunchGraph, RawLaunch};
use crate::foreign::Handle;
use crate::{Error, Result};

/// A stream that records, until it is dropped.
struct RecordingStream<'a, P: Platform> {
    shared: &'a Shared<P>,
    stream: Handle,
}

impl<P: Platform> Drop for RecordingStream<'_, P> {
    fn drop(&mut self) {
        // As with the device's own: nobody is left to tell.
        // SAFETY: nothing else has the stream.
        let _ = self.shared.call(|calls| unsafe { calls.stream_destroy(self.stream.0) });
    }
}

/// A recorded graph, from which what can be launched is made.
struct Recorded<P: Platform> {
    shared: Arc<Shared<P>>,
    graph: Handle,
}

impl<P: Platform> Drop for Recorded<P> {
    fn drop(&mut self) {
        // A recording that failed leaves none.
        if !self.graph.0.is_null() {
            // SAFETY: nothing else has it.
            let _ = self.shared.call(|calls| unsafe { calls.graph_destroy(self.graph.0) });
        }
    }
}

/// A launch in a graph.
struct Node {
    node: Handle,
    function: Handle,
}

pub(super) struct GpuLaunches<P: Platform> {
    instance: Handle,
    nodes: Vec<Node>,
    /// Behind the last replay, where that has to be over before arguments are set.
    replayed: Option<GpuEvent<P>>,
    /// Whether it was replayed since somebody last waited for that.
    is_under_way: bool,
    /// Keeps the nodes.
    recorded: Recorded<P>,
}

impl<P: Platform> GpuLaunches<P> {
    /// Records launches.
    ///
    /// # Safety
    /// - As [`crate::driver::Driver::launch_graph`].
    pub unsafe fn record(
        shared: &Arc<Shared<P>>,
        launches: &[(&dyn DriverKernel, RawLaunch<'_>)],
    ) -> Result<GpuLaunches<P>> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the stream goes to a local.
        shared.call(|calls| unsafe { calls.stream_create(&mut stream, runtime::STREAM_NON_BLOCKING) })?;
        let recording = RecordingStream { shared, stream: Handle(stream) };
        // SAFETY: the stream was just made.
        shared.call(|calls| unsafe { calls.capture_begin(recording.stream.0, runtime::CAPTURE_RELAXED) })?;
        // SAFETY: the caller's duties; the stream records.
        let put = |(kernel, launch): &(&dyn DriverKernel, RawLaunch<'_>)| unsafe { recording.put(*kernel, launch) };
        let nodes = launches.iter().map(put).collect::<Result<Vec<_>>>();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream records; the graph goes to a local.
        let ended = shared.call(|calls| unsafe { calls.capture_end(recording.stream.0, &mut graph) });
        let recorded = Recorded { shared: Arc::clone(shared), graph: Handle(graph) };
        let nodes = nodes?;
        ended?;
        let mut instance = std::ptr::null_mut();
        // SAFETY: the graph was just made; what can be launched goes to a local.
        shared.own_call(|api| unsafe { api.platform.instantiate(&mut instance, graph) })?;
        let replayed = if P::SETS_BEHIND_REPLAYS { None } else { Some(GpuEvent::new(shared)?) };
        Ok(GpuLaunches { instance: Handle(instance), nodes, replayed, is_under_way: false, recorded })
    }

    fn shared(&self) -> &Shared<P> {
        &self.recorded.shared
    }
}

impl<P: Platform> RecordingStream<'_, P> {
    /// Records a launch.
    ///
    /// # Safety
    /// - As [`crate::driver::Driver::launch_graph`]; the stream records.
    unsafe fn put(&self, kernel: &dyn DriverKernel, launch: &RawLaunch<'_>) -> Result<Node> {
        let kernel: &GpuKernel<P> =
            kernel.as_any().downcast_ref().expect("kernels go back to the driver that made them");
        // SAFETY: the caller's duties; the stream is alive.
        unsafe { kernel.put(self.stream, launch)? };
        let (mut status, mut number, mut graph, mut before, mut count) =
            (0, 0, std::ptr::null_mut(), std::ptr::null(), 0);
        // SAFETY: the stream is alive; all that is told goes to locals.
        self.shared.call(|calls| unsafe {
            calls.capture_info(self.stream.0, &mut status, &mut number, &mut graph, &mut before, &mut count)
        })?;
        if count != 1 || before.is_null() {
            let name = format!("a launch behind which {count} nodes are the last");
            return Err(Error::Driver { call: "StreamGetCaptureInfo_v2", name, code: status });
        }
        // SAFETY: it leads to so many handles, until the stream records more.
        let node = unsafe { *before };
        Ok(Node { node: Handle(node), function: kernel.function })
    }
}

impl<P: Platform> LaunchGraph for GpuLaunches<P> {
    fn set(&mut self, number: usize, launch: &RawLaunch<'_>) -> Result<()> {
        if let Some(replayed) = self.replayed.as_ref().filter(|_| self.is_under_way) {
            replayed.synchronize()?;
            self.is_under_way = false;
        }
        let Node { node, function } = &self.nodes[number];
        with_arguments::<P, _>(launch, |extra| {
            self.shared().own_call(|api| {
                // SAFETY: graph and node are alive; the function is the node's, whose arguments are as long as they were.
                unsafe { api.platform.set_arguments(self.instance.0, node.0, *function, launch, extra) }
            })
        })
    }

    unsafe fn replay(&mut self) -> Result<()> {
        let (shared, instance) = (self.shared(), self.instance);
        // SAFETY: graph and stream are alive; the rest is the caller's duty.
        shared.call(|calls| unsafe { calls.graph_launch(instance.0, shared.stream.0) })?;
        if let Some(replayed) = &self.replayed {
            let stream = shared.named(StreamName::Compute).0;
            // SAFETY: event and stream are alive and of one device.
            shared.call(|calls| unsafe { calls.event_record(replayed.handle(), stream) })?;
            self.is_under_way = true;
        }
        Ok(())
    }
}

impl<P: Platform> Drop for GpuLaunches<P> {
    fn drop(&mut self) {
        // SAFETY: nothing else has it.
        let _ = self.shared().call(|calls| unsafe { calls.graph_instance_destroy(self.instance.0) });
    }
}
