//! Ranks that meet inside the process: each leaves its bytes and takes what becomes of all.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Call, Kind, Range, UNIQUE_ID_BYTES, UniqueId, arithmetic};
use crate::{DType, Device, Error, Result};

const MARK: &[u8] = b"rocfire ranks of process ";

/// An id that names this process: ranks of another cannot come.
pub fn new_id() -> UniqueId {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut id = UniqueId([0; UNIQUE_ID_BYTES]);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let text = [MARK, &std::process::id().to_le_bytes(), &count.to_le_bytes()].concat();
    id.0[..text.len()].copy_from_slice(&text);
    id
}

/// Where ranks meet, while one of them is there.
static MEETINGS: Mutex<BTreeMap<[u8; UNIQUE_ID_BYTES], Arc<Meeting>>> = Mutex::new(BTreeMap::new());

struct Meeting {
    world: usize,
    table: Mutex<Table>,
    changed: Condvar,
}

/// What was sent: its type and bytes.
type Sent = (DType, Vec<u8>);

#[derive(Default)]
struct Table {
    ranks: Vec<Presence>,
    /// What all do together, by its number.
    rounds: BTreeMap<u64, Round>,
    /// What was sent, by who sent it to whom.
    mail: HashMap<(usize, usize), VecDeque<Sent>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Awaited,
    There,
    Gone,
}

struct Round {
    what: (Kind, DType, usize),
    parts: Vec<Option<Vec<u8>>>,
    taken: usize,
}

/// A rank's place.
pub struct HostRank {
    id: UniqueId,
    meeting: Arc<Meeting>,
    rank: usize,
    /// The number of its next round.
    next: Mutex<u64>,
}

impl HostRank {
    pub fn take(id: &UniqueId, rank: usize, world: usize) -> Result<HostRank> {
        let own = [MARK, &std::process::id().to_le_bytes()].concat();
        if !id.0.starts_with(&own) {
            let expected = "made by this process: ranks on devices without a library meet inside one";
            return Err(Error::shape("communicator", "id", expected, "another"));
        }
        let mut meetings = lock(&MEETINGS);
        let new = || {
            let ranks = vec![Presence::Awaited; world];
            Arc::new(Meeting { world, table: Mutex::new(Table { ranks, ..Table::default() }), changed: Condvar::new() })
        };
        let meeting = Arc::clone(meetings.entry(id.0).or_insert_with(new));
        if meeting.world != world {
            return Err(Error::shape("communicator", "world", meeting.world, world));
        }
        let mut table = lock(&meeting.table);
        if table.ranks[rank] != Presence::Awaited {
            return Err(Error::shape("communicator", "rank", "one that nobody has yet", rank));
        }
        table.ranks[rank] = Presence::There;
        drop(table);
        Ok(HostRank { id: *id, meeting, rank, next: Mutex::new(0) })
    }

    /// Leaves what others need for a call; gives the number of the round.
    fn leave(&self, call: &Call<'_>, bytes: Vec<u8>) -> Result<u64> {
        let mut table = lock(&self.meeting.table);
        match call.kind {
            Kind::Send { to } => {
                table.mail.entry((self.rank, to)).or_default().push_back((call.dtype, bytes));
                self.meeting.changed.notify_all();
                return Ok(0);
            }
            Kind::Recv { .. } => return Ok(0),
            _ => {}
        }
        let mut next = lock(&self.next);
        let what = (call.kind, call.dtype, call.count);
        let world = self.meeting.world;
        let round = table.rounds.entry(*next).or_insert_with(|| Round { what, parts: vec![None; world], taken: 0 });
        if round.what != what {
            let expected = format!("what another rank does: {:?}", round.what);
            return Err(Error::shape(call.kind.name(), "call", expected, format!("{what:?}")));
        }
        round.parts[self.rank] = Some(bytes);
        *next += 1;
        self.meeting.changed.notify_all();
        Ok(*next - 1)
    }

    /// What becomes of the call on this rank, once the others have left theirs.
    fn fetch(&self, call: &Call<'_>, number: u64) -> Result<Vec<u8>> {
        let op = call.kind.name();
        let mut table = lock(&self.meeting.table);
        if let Kind::Send { .. } = call.kind {
            return Ok(Vec::new());
        }
        if let Kind::Recv { from } = call.kind {
            loop {
                if let Some((dtype, bytes)) = table.mail.get_mut(&(from, self.rank)).and_then(VecDeque::pop_front) {
                    if (dtype, bytes.len()) != (call.dtype, call.count * dtype.size_bytes()) {
                        let expected = format!("{} bytes of {dtype}, which rank {from} sent", bytes.len());
                        return Err(Error::shape(op, "call", expected, format!("{} of {}", call.count, call.dtype)));
                    }
                    return Ok(bytes);
                }
                table = self.wait(op, table, &[from])?;
            }
        }
        loop {
            let round = table.rounds.get_mut(&number).expect("a round stays until all have taken");
            let late: Vec<usize> = (0..self.meeting.world).filter(|&rank| round.parts[rank].is_none()).collect();
            if !late.is_empty() {
                table = self.wait(op, table, &late)?;
                continue;
            }
            let parts: Vec<&[u8]> = round.parts.iter().flatten().map(Vec::as_slice).collect();
            let bytes = outcome(call, self.rank, &parts);
            round.taken += 1;
            if round.taken == self.meeting.world {
                table.rounds.remove(&number);
            }
            return Ok(bytes);
        }
    }

    /// Waits for a change, unless one of those it waits for will never come.
    fn wait<'a>(
        &self,
        op: &'static str,
        table: MutexGuard<'a, Table>,
        late: &[usize],
    ) -> Result<MutexGuard<'a, Table>> {
        if let Some(gone) = late.iter().find(|&&rank| table.ranks[rank] == Presence::Gone) {
            return Err(Error::shape(op, "ranks", "all there", format!("rank {gone} has left")));
        }
        Ok(self.meeting.changed.wait(table).unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for HostRank {
    fn drop(&mut self) {
        let mut meetings = lock(&MEETINGS);
        let mut table = lock(&self.meeting.table);
        table.ranks[self.rank] = Presence::Gone;
        if table.ranks.iter().all(|&rank| rank == Presence::Gone) {
            meetings.remove(&self.id.0);
        }
        self.meeting.changed.notify_all();
    }
}

/// What a rank gets of all parts; nothing where it has no target.
fn outcome(call: &Call<'_>, rank: usize, parts: &[&[u8]]) -> Vec<u8> {
    match call.kind {
        Kind::AllReduce(reduction) => arithmetic::reduce(call.dtype, reduction, parts),
        Kind::Reduce { root, reduction } if root == rank => arithmetic::reduce(call.dtype, reduction, parts),
        Kind::Broadcast { root } => parts[root].to_vec(),
        Kind::AllGather => parts.concat(),
        Kind::ReduceScatter(reduction) => {
            let bytes = call.count * call.dtype.size_bytes();
            let pieces: Vec<&[u8]> = parts.iter().map(|part| &part[rank * bytes..][..bytes]).collect();
            arithmetic::reduce(call.dtype, reduction, &pieces)
        }
        Kind::Reduce { .. } | Kind::Send { .. } | Kind::Recv { .. } => Vec::new(),
    }
}

/// A call of a rank, with what it reads and writes.
pub type Taken<'a> = (&'a Device, &'a HostRank, Call<'a>, Option<Range<'a>>, Option<Range<'a>>);

/// Calls of one thread that begin together: all leave their bytes before one waits.
pub fn run(calls: &[Taken<'_>]) -> Result<()> {
    let leave = |(device, rank, call, source, _): &Taken<'_>| {
        let mut bytes = vec![0; source.map_or(0, |range| range.bytes as usize)];
        if let Some(range) = source {
            device.stream().copy_to_host(range.buffer, range.first, &mut bytes)?;
        }
        rank.leave(call, bytes)
    };
    let numbers = calls.iter().map(leave).collect::<Result<Vec<u64>>>()?;
    for ((device, rank, call, _, target), number) in calls.iter().zip(numbers) {
        let bytes = rank.fetch(call, number)?;
        if let Some(range) = target {
            device.stream().copy_to_device(&bytes, range.buffer, range.first)?;
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
