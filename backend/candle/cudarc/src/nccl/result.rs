//! What a collective call returns, and calls that begin together.

use std::cell::RefCell;
use std::sync::Arc;

use rocfire_hal::collective::{self, Call, Communicator, Kind};
use rocfire_hal::{Buffer, DType};

use crate::driver::queue::{Kept, Settled};
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

/// What has become of a call that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NcclStatus {
    /// It is on the stream.
    Success,
    /// It begins when its group ends.
    InProgress,
}

/// A call that may have to wait for its group, with the memory that it keeps until then.
pub(super) struct Held {
    pub rank: Arc<Communicator>,
    pub stream: Arc<CudaStream>,
    pub kind: Kind,
    pub dtype: DType,
    pub count: usize,
    pub source: Option<MemoryPart>,
    pub target: Option<MemoryPart>,
}

/// Where a slice begins: its memory, the byte in it, and the slice's own stream.
pub(super) struct MemoryPart {
    pub stream: Arc<CudaStream>,
    pub memory: Kept,
    pub first: u64,
}

impl Held {
    /// Lends the call its source and target. Launches that wait go first, also those that came while the group was open.
    fn settled(&self) -> Lent<'_> {
        let [source, target] = [&self.source, &self.target].map(|place| Some(place.as_ref()?.stream.settled()));
        Lent { _own: self.stream.settled(), source, target }
    }

    fn call<'a>(&'a self, lent: &'a Lent<'_>) -> Result<Call<'a>, DriverError> {
        let Held { kind, dtype, count, .. } = *self;
        let (source, target) = (place(&self.source, &lent.source)?, place(&self.target, &lent.target)?);
        Ok(Call { kind, dtype, count, source, target })
    }
}

/// What lends a call its memory: of its own stream, and of those of source and target.
struct Lent<'a> {
    _own: Settled<'a>,
    source: Option<Settled<'a>>,
    target: Option<Settled<'a>>,
}

/// A buffer and the byte in it.
type At<'a> = (&'a Buffer, u64);

fn place<'a>(place: &'a Option<MemoryPart>, settled: &'a Option<Settled<'_>>) -> Result<Option<At<'a>>, DriverError> {
    let (Some(place), Some(settled)) = (place, settled) else { return Ok(None) };
    Ok(Some((settled.buffer(&place.memory)?, place.first)))
}

/// The groups that a thread is in: how many inside each other, and their calls so far.
#[derive(Default)]
struct Open {
    depth: usize,
    calls: Vec<Held>,
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

/// Runs a call now, or keeps it until the thread's group ends.
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
    let lent: Vec<_> = calls.iter().map(Held::settled).collect();
    let mut ready = Vec::with_capacity(calls.len());
    for (held, lent) in calls.iter().zip(&lent) {
        ready.push((&*held.rank, held.call(lent)?));
    }
    Ok(collective::group(&ready)?)
}

/// Begins a group: this thread's calls from here on wait until [`group_end`] has been called as often, and then begin together.
///
/// # Errors
/// None.
pub fn group_start() -> Result<NcclStatus, NcclError> {
    OPEN.with_borrow_mut(|open| open.depth += 1);
    Ok(NcclStatus::Success)
}

/// Ends a group. The end of the outermost one begins the calls.
///
/// # Errors
/// There is no group. The errors of each of its calls; none of them was done then.
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
