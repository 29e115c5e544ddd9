//! NCCL and RCCL, which are one interface: RCCL took over NCCL's names and numbers.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::sys::{Nccl, RawId};
use super::{Call, Kind, Reduction, UNIQUE_ID_BYTES, UniqueId};
use crate::foreign::{Answer, SUCCESS, text};
use crate::vendor::Context;
use crate::{DType, Error, Result, foreign};

/// One of the two, open.
pub(crate) struct Library {
    table: Nccl,
    name: String,
}

impl Library {
    /// The first of the candidates that opens; `name` is what it is called.
    ///
    /// # Errors
    /// What was tried, in words.
    pub fn open(name: &'static str, candidates: &[PathBuf]) -> std::result::Result<Library, String> {
        let words = |error: Error| match error {
            Error::Load { tried, .. } => tried,
            other => other.to_string(),
        };
        let table = Nccl::new(foreign::Library::open(name, candidates).map_err(words)?);
        let mut version = 0;
        // SAFETY: the version goes to a local.
        unsafe { table.ncclGetVersion(&mut version) }.map_err(words)?;
        let (major, minor, patch) = (version / 10_000, version % 10_000 / 100, version % 100);
        Ok(Library { table, name: format!("{name} {major}.{minor}.{patch}") })
    }

    /// Its name and version.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, answer: Answer) -> Result<()> {
        let (call, code) = answer?;
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be passed.
        let said = unsafe { self.table.ncclGetErrorString(code) }.ok().and_then(|(_, said)| text(said));
        Err(Error::Driver { call, name: said.unwrap_or_else(|| self.name.clone()), code })
    }

    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = RawId([0; UNIQUE_ID_BYTES]);
        // SAFETY: the id goes to a local.
        self.check(unsafe { self.table.ncclGetUniqueId(&mut id) })?;
        Ok(UniqueId(id.0.map(|byte| byte as u8)))
    }

    /// Calls that begin together.
    fn grouped(&self, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        // SAFETY: it takes nothing.
        self.check(unsafe { self.table.ncclGroupStart() })?;
        let outcome = calls();
        // SAFETY: as above; a group that was begun is ended whatever became of its calls.
        let ended = self.check(unsafe { self.table.ncclGroupEnd() });
        outcome.and(ended)
    }

    /// Ranks of this process, each with its device.
    pub fn join(
        &'static self,
        devices: Vec<(Arc<dyn Context>, usize)>,
        id: &UniqueId,
        world: usize,
    ) -> Result<Vec<Rank>> {
        let id = RawId(id.0.map(|byte| byte as c_char));
        let world = number("world", world)?;
        let mut handles = vec![std::ptr::null_mut(); devices.len()];
        self.grouped(|| {
            for ((context, rank), handle) in devices.iter().zip(&mut handles) {
                context.enter()?;
                // SAFETY: the handle goes to a local that outlives the group, the device is the thread's.
                self.check(unsafe { self.table.ncclCommInitRank(handle, world, id, number("rank", *rank)?) })?;
            }
            Ok(())
        })?;
        let rank = |((context, _), handle)| Rank { library: self, context, handle, turn: Mutex::default() };
        Ok(devices.into_iter().zip(handles).map(rank).collect())
    }
}

fn number(what: &'static str, value: usize) -> Result<c_int> {
    c_int::try_from(value).map_err(|_| Error::shape("communicator", what, "a number of 31 bits", value))
}

/// A rank of a library.
pub(crate) struct Rank {
    library: &'static Library,
    context: Arc<dyn Context>,
    handle: *mut c_void,
    /// Held while calls of a thread are put on the stream.
    turn: Mutex<()>,
}

// SAFETY: a handle may be used from any thread, by one at a time, which is the libraries' rule.
unsafe impl Send for Rank {}
// SAFETY: as above: `run` takes the rank's turn.
unsafe impl Sync for Rank {}

impl Rank {
    /// # Safety
    /// - `source` and `target` lead to live memory of the rank's device that covers the call's counts, where it has them.
    unsafe fn call(&self, call: &Call<'_>, [source, target]: [u64; 2]) -> Result<()> {
        self.context.enter()?;
        let Rank { library, handle, .. } = *self;
        let (table, stream, count) = (&library.table, self.context.stream(), call.count);
        let dtype = code_of(call.dtype);
        let other = |rank: usize| number("rank of another", rank);
        // SAFETY: the addresses are the caller's duty; handle and stream live as long as the rank.
        library.check(unsafe {
            match call.kind {
                Kind::AllReduce(how) => table.ncclAllReduce(source, target, count, dtype, how as c_int, handle, stream),
                Kind::Broadcast { root } => {
                    table.ncclBroadcast(source, target, count, dtype, other(root)?, handle, stream)
                }
                Kind::Reduce { root, reduction } => {
                    table.ncclReduce(source, target, count, dtype, reduction as c_int, other(root)?, handle, stream)
                }
                Kind::AllGather => table.ncclAllGather(source, target, count, dtype, handle, stream),
                Kind::ReduceScatter(how) => {
                    table.ncclReduceScatter(source, target, count, dtype, how as c_int, handle, stream)
                }
                Kind::Send { to } => table.ncclSend(source, count, dtype, other(to)?, handle, stream),
                Kind::Recv { from } => table.ncclRecv(target, count, dtype, other(from)?, handle, stream),
            }
        })
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let entered = self.context.enter();
        // The communicator has waited for its stream. Destroying would wait for the other ranks too.
        // SAFETY: the handle is the library's and is not used again.
        let ended = entered.and_then(|()| unsafe { self.library.table.ncclCommAbort(self.handle) });
        if let Err(error) = ended {
            tracing::debug!("{} keeps a rank: {error}", self.library.name);
        }
    }
}

// `ncclRedOp_t` counts as the enum does.
const _: () = assert!(
    Reduction::Sum as c_int == 0
        && Reduction::Prod as c_int == 1
        && Reduction::Max as c_int == 2
        && Reduction::Min as c_int == 3
        && Reduction::Avg as c_int == 4
);

/// `ncclDataType_t`. Types that the libraries do not have were refused before.
fn code_of(dtype: DType) -> c_int {
    match dtype {
        DType::I8 => 0,
        DType::U8 | DType::Bool => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::U64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        DType::I16 | DType::U16 => unreachable!("refused when the call was checked"),
    }
}

/// A rank's call, with the addresses of what it reads and writes.
pub(crate) type Member<'a> = (&'a Rank, Call<'a>, [u64; 2]);

/// Calls of one thread.
pub(crate) fn run(calls: &[Member<'_>]) -> Result<()> {
    // Each rank's turn once, and in one order for every thread.
    let mut ranks: Vec<&Rank> = calls.iter().map(|(rank, ..)| *rank).collect();
    ranks.sort_by_key(|rank| std::ptr::from_ref(*rank));
    ranks.dedup_by(|a, b| std::ptr::eq(*a, *b));
    let _turns: Vec<_> = ranks.iter().map(|rank| rank.turn.lock().unwrap_or_else(PoisonError::into_inner)).collect();
    // SAFETY: the ranges were checked to lie in live buffers of the rank's device.
    let put = |(rank, call, addresses): &Member<'_>| unsafe { rank.call(call, *addresses) };
    match calls {
        [] => Ok(()),
        [one] => put(one),
        [(first, ..), ..] => first.library.grouped(|| calls.iter().try_for_each(put)),
    }
}
