//! What a call gives, and calls that begin together.

use std::cell::RefCell;
use std::sync::Arc;

use rocfire_hal::collective::{self, Call, Communicator, Kind};
use rocfire_hal::{Buffer, DType};

use crate::driver::{CudaStream, DriverError};

/// Why a call failed, in rocfire's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("collective: {0}")]
pub struct NcclError(pub DriverError);

impl<E: Into<DriverError>> From<E> for NcclError {
    fn from(error: E) -> NcclError {
        NcclError(error.into())
    }
}

/// How a call that did not fail went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NcclStatus {
    /// It is on the stream.
    Success,
    /// It begins when its group ends.
    InProgress,
}

/// A call with what it holds.
pub(super) struct Held {
    pub rank: Arc<Communicator>,
    pub stream: Arc<CudaStream>,
    pub kind: Kind,
    pub dtype: DType,
    pub count: usize,
    pub source: Option<Place>,
    pub target: Option<Place>,
}

/// The first byte of a slice, with its own stream.
pub(super) struct Place {
    pub stream: Arc<CudaStream>,
    pub buffer: Buffer,
    pub first: u64,
}

impl Held {
    fn call(&self) -> Call<'_> {
        let Held { kind, dtype, count, .. } = *self;
        let source = self.source.as_ref().map(|place| (&place.buffer, place.first));
        let target = self.target.as_ref().map(|place| (&place.buffer, place.first));
        Call { kind, dtype, count, source, target }
    }
}

/// The groups that a thread is in, and their calls so far.
#[derive(Default)]
struct Open {
    depth: usize,
    calls: Vec<Held>,
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

/// The call now, or with the others of the thread's group.
pub(super) fn put(call: Held) -> Result<NcclStatus, NcclError> {
    let waits = OPEN.with_borrow(|open| open.depth > 0);
    if waits {
        OPEN.with_borrow_mut(|open| open.calls.push(call));
        return Ok(NcclStatus::InProgress);
    }
    run(&[call])?;
    Ok(NcclStatus::Success)
}

fn run(calls: &[Held]) -> Result<(), NcclError> {
    for call in calls {
        // What was launched before goes first, also while the group was open.
        call.stream.hal();
        [&call.source, &call.target].into_iter().flatten().for_each(|place| _ = place.stream.hal());
    }
    let calls: Vec<_> = calls.iter().map(|held| (&*held.rank, held.call())).collect();
    Ok(collective::group(&calls)?)
}

/// Calls of this thread from here on begin together, when [`group_end`] is called as often.
///
/// # Errors
/// None.
pub fn group_start() -> Result<NcclStatus, NcclError> {
    OPEN.with_borrow_mut(|open| open.depth += 1);
    Ok(NcclStatus::Success)
}

/// Ends a group; that of the outermost begins its calls.
///
/// # Errors
/// There is no group; as each of its calls, of which none was done then.
pub fn group_end() -> Result<NcclStatus, NcclError> {
    let calls = OPEN.with_borrow_mut(|open| match open.depth {
        0 => Err(DriverError::new("group_end without a group_start on this thread")),
        1 => {
            open.depth = 0;
            Ok(std::mem::take(&mut open.calls))
        }
        _ => {
            open.depth -= 1;
            Ok(Vec::new())
        }
    })?;
    run(&calls)?;
    Ok(NcclStatus::Success)
}
