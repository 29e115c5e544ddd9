//! Events: marks in a stream. Times are the host's clock, so what lies between two events is what the emulator took.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::call::{Result, export};
use crate::foreign::Out;
use crate::graph::Capture;
use crate::handle::Handle;
use crate::peers;
use crate::runtime::{healthy, lock, runtime};
use crate::status::Status;
use crate::work::{Work, submit};

/// `hipEventDisableTiming`.
const NO_TIMES: c_uint = 2;
/// Every flag there is: blocking wait, no times, between processes, no fence, release to device or system.
const FLAGS: c_uint = 0xe000_0007;

/// An event.
#[derive(Default)]
pub struct Event {
    device: i32,
    flags: c_uint,
    reached: Mutex<Option<Instant>>,
    capture: Mutex<Option<Arc<Capture>>>,
}

impl Event {
    /// The device of the thread that made it.
    pub fn device(&self) -> i32 {
        self.device
    }

    /// The work before it is done.
    pub fn reached(&self) {
        *lock(&self.reached) = Some(Instant::now());
    }

    /// The capture that it was recorded in, if that is the last place where it was.
    pub fn capture(&self) -> Option<Arc<Capture>> {
        lock(&self.capture).clone().filter(|capture| capture.is_active())
    }
}

fn event(handle: Handle) -> Result<Arc<Event>> {
    runtime()?.events.get(handle).ok_or_else(|| Status::INVALID_HANDLE.into())
}

fn create(out: &Out<Handle>, flags: c_uint) -> Result {
    out.check()?;
    if flags & !FLAGS != 0 {
        return Err(Status::INVALID_VALUE.into());
    }
    out.put(healthy()?.events.insert(Event { device: peers::current(), flags, ..Event::default() }))
}

fn wait(handle: Handle) -> Result {
    if event(handle)?.capture().is_some() {
        return Err(Status::CAPTURED_EVENT.into());
    }
    healthy().map(|_| ())
}

export! {
    /// `hipEventCreate`
    fn hipEventCreate(event: Out<Handle>) {
        create(&event, 0)
    }

    /// `hipEventCreateWithFlags`
    fn hipEventCreateWithFlags(event: Out<Handle>, flags: c_uint) {
        create(&event, flags)
    }

    /// `hipEventDestroy`
    fn hipEventDestroy(event: Handle) {
        runtime()?.events.remove(event).map(|_| ()).ok_or_else(|| Status::INVALID_HANDLE.into())
    }

    /// `hipEventRecord`
    fn hipEventRecord(handle: Handle, stream: Handle) {
        let event = event(handle)?;
        let capture = runtime()?.stream(stream)?.capture();
        let captured = capture.is_some();
        *lock(&event.capture) = capture;
        // A capture has events as orders only; a graph records none.
        if captured { Ok(()) } else { submit(stream, Work::Record(event)) }
    }

    /// `hipEventSynchronize`
    fn hipEventSynchronize(event: Handle) {
        wait(event)
    }

    /// `hipEventQuery`
    fn hipEventQuery(event: Handle) {
        wait(event)
    }

    /// `hipEventElapsedTime`
    fn hipEventElapsedTime(milliseconds: Out<f32>, start: Handle, stop: Handle) {
        milliseconds.check()?;
        let (start, stop) = (event(start)?, event(stop)?);
        if (start.flags | stop.flags) & NO_TIMES != 0 {
            return Err(Status::INVALID_HANDLE.into());
        }
        let (start, stop) = (*lock(&start.reached), *lock(&stop.reached));
        let (Some(start), Some(stop)) = (start, stop) else { return Err(Status::INVALID_HANDLE.into()) };
        let signed = |later: Instant, earlier: Instant| later.duration_since(earlier).as_secs_f64();
        let seconds = if stop >= start { signed(stop, start) } else { -signed(start, stop) };
        milliseconds.put((seconds * 1e3) as f32)
    }
}
