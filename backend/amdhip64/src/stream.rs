//! Streams. All work is done when it is put on one, so that there is nothing to wait for; what a stream has is its
//! capture.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Mutex};

use crate::call::{Result, export, guard};
use crate::foreign::{In, Out};
use crate::graph::Capture;
use crate::handle::Handle;
use crate::peers;
use crate::runtime::{Runtime, healthy, lock, runtime};
use crate::status::Status;
use crate::work::{HostCall, HostCallKind, HostFunction, StreamCallback, Work, submit};

/// `hipStreamLegacy`: the null stream, and `hipStreamPerThread`: one of each thread's own.
const LEGACY: Handle = 1;
const PER_THREAD: Handle = 2;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// What `hipDeviceGetStreamPriorityRange` gives: least and greatest.
const PRIORITIES: (c_int, c_int) = (1, -1);

/// A stream.
#[derive(Default)]
pub struct Stream {
    device: c_int,
    flags: c_uint,
    priority: c_int,
    capture: Mutex<Option<Arc<Capture>>>,
}

impl Stream {
    /// The null stream of a device.
    pub fn null(device: c_int) -> Stream {
        Stream { device, ..Stream::default() }
    }

    /// Its device.
    pub fn device(&self) -> c_int {
        self.device
    }

    /// The capture that its work goes to.
    pub fn capture(&self) -> Option<Arc<Capture>> {
        lock(&self.capture).clone().filter(|capture| capture.is_active())
    }

    /// Begins, joins or ends a capture.
    pub fn set_capture(&self, capture: Option<Arc<Capture>>) {
        *lock(&self.capture) = capture;
    }
}

/// A stream by its handle, for as long as it is needed.
pub enum StreamRef<'a> {
    /// The null stream of the thread's device, by any of its names.
    Null(&'a Stream),
    /// Another.
    Made(Arc<Stream>),
}

impl std::ops::Deref for StreamRef<'_> {
    type Target = Stream;
    fn deref(&self) -> &Stream {
        match self {
            StreamRef::Null(stream) => stream,
            StreamRef::Made(stream) => stream,
        }
    }
}

impl Runtime {
    /// The stream of a handle.
    ///
    /// # Errors
    /// `hipErrorContextIsDestroyed` for one that is not alive, as AMD's library says it.
    pub fn stream(&self, handle: Handle) -> Result<StreamRef<'_>> {
        match handle {
            0 | LEGACY => {
                let own = usize::try_from(peers::current()).unwrap_or(0);
                Ok(StreamRef::Null(&self.null_streams[own]))
            }
            PER_THREAD => Ok(StreamRef::Made(of_this_thread(peers::current()))),
            _ => self.streams.get(handle).map(StreamRef::Made).ok_or_else(|| Status::CONTEXT_IS_DESTROYED.into()),
        }
    }
}

/// The thread's own stream on a device.
fn of_this_thread(device: c_int) -> Arc<Stream> {
    thread_local! {
        static OWN: RefCell<BTreeMap<c_int, Arc<Stream>>> = const { RefCell::new(BTreeMap::new()) };
    }
    OWN.with_borrow_mut(|own| Arc::clone(own.entry(device).or_insert_with(|| Arc::new(Stream::null(device)))))
}

fn create(out: &Out<Handle>, flags: c_uint, priority: c_int) -> Result {
    out.check()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Status::INVALID_VALUE.into());
    }
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    out.put(healthy()?.streams.insert(Stream { device: peers::current(), flags, priority, capture: Mutex::default() }))
}

/// What waiting for a stream comes to.
fn wait(stream: Handle) -> Result {
    match healthy()?.stream(stream)?.capture() {
        Some(capture) => {
            capture.invalidate();
            Err(Status::STREAM_CAPTURE_UNSUPPORTED.into())
        }
        None => Ok(()),
    }
}

export! {
    /// `hipStreamCreate`
    fn hipStreamCreate(stream: Out<Handle>) {
        create(&stream, 0, 0)
    }

    /// `hipStreamCreateWithFlags`
    fn hipStreamCreateWithFlags(stream: Out<Handle>, flags: c_uint) {
        create(&stream, flags, 0)
    }

    /// `hipStreamCreateWithPriority`
    fn hipStreamCreateWithPriority(stream: Out<Handle>, flags: c_uint, priority: c_int) {
        create(&stream, flags, priority)
    }

    /// `hipExtStreamCreateWithCUMask`: the mask is accepted and changes nothing.
    fn hipExtStreamCreateWithCUMask(stream: Out<Handle>, words: u32, mask: In<u32>) {
        if words == 0 {
            return Err(Status::INVALID_VALUE.into());
        }
        mask.list(words as usize)?;
        create(&stream, 0, 0)
    }

    /// `hipDeviceGetStreamPriorityRange`
    fn hipDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        least.put_if_wanted(PRIORITIES.0);
        greatest.put_if_wanted(PRIORITIES.1);
        Ok(())
    }

    /// `hipStreamDestroy`
    fn hipStreamDestroy(stream: Handle) {
        if [0, LEGACY, PER_THREAD].contains(&stream) {
            return Err(Status::INVALID_HANDLE.into());
        }
        let gone = runtime()?.streams.remove(stream);
        gone.map(|_| ()).ok_or_else(|| Status::CONTEXT_IS_DESTROYED.into())
    }

    /// `hipStreamSynchronize`
    fn hipStreamSynchronize(stream: Handle) {
        wait(stream)
    }

    /// `hipStreamQuery`
    fn hipStreamQuery(stream: Handle) {
        wait(stream)
    }

    /// `hipStreamWaitEvent`
    fn hipStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) {
        let runtime = healthy()?;
        let event = runtime.events.get(event).ok_or(Status::INVALID_HANDLE)?;
        let stream = runtime.stream(stream).map_err(|_| Status::INVALID_HANDLE)?;
        match (event.capture(), stream.capture()) {
            // Work that a capture has seen makes the stream that waits for it part of the capture.
            (Some(capture), None) => {
                stream.set_capture(Some(capture));
                Ok(())
            }
            (Some(capture), Some(own)) if !Arc::ptr_eq(&capture, &own) => Err(Status::STREAM_CAPTURE_MERGE.into()),
            (Some(_), Some(_)) | (None, _) => Ok(()),
        }
    }

    /// `hipStreamGetFlags`
    fn hipStreamGetFlags(stream: Handle, flags: Out<c_uint>) {
        flags.put(runtime()?.stream(stream)?.flags)
    }

    /// `hipStreamGetPriority`
    fn hipStreamGetPriority(stream: Handle, priority: Out<c_int>) {
        priority.put(runtime()?.stream(stream)?.priority)
    }

    /// `hipStreamGetDevice`
    fn hipStreamGetDevice(stream: Handle, device: Out<c_int>) {
        device.put(runtime()?.stream(stream)?.device)
    }

    /// `hipStreamAddCallback`
    fn hipStreamAddCallback(stream: Handle, callback: Option<StreamCallback>, data: usize, flags: c_uint) {
        let callback = callback.ok_or(Status::INVALID_VALUE)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE.into());
        }
        submit(stream, Work::Call(HostCall { function: HostCallKind::Callback(callback, stream), data }))
    }

    /// `hipLaunchHostFunc`
    fn hipLaunchHostFunc(stream: Handle, function: Option<HostFunction>, data: usize) {
        let function = function.ok_or(Status::INVALID_VALUE)?;
        submit(stream, Work::Call(HostCall { function: HostCallKind::Function(function), data }))
    }

    /// `hipDeviceSynchronize`
    fn hipDeviceSynchronize() {
        healthy().map(|_| ())
    }

    /// `hipCtxSynchronize`
    fn hipCtxSynchronize() {
        healthy().map(|_| ())
    }
}

/// `hipGetStreamDeviceId`: -1 for a stream that is not alive.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetStreamDeviceId(stream: Handle) -> c_int {
    let mut device = -1;
    guard("hipGetStreamDeviceId", Status::UNKNOWN, || {
        device = runtime()?.stream(stream)?.device;
        Ok(())
    });
    device
}
