//! Collectives: devices that reduce, gather and hand over what each of them has.
//!
//! One door for RCCL and NCCL, which have one interface and are opened at run time, and for devices without such a library
//! (emulated ones, noop): ranks of those meet inside the process and their bytes go through the host, so that a program of
//! several ranks can be tested without a GPU. A [`Communicator`] is one rank; every rank makes the same calls in the same
//! order. A call takes its place in the order of its device's stream, behind all that was launched.
//!
//! Buffers and numbers are checked here, what the ranks say to each other is not: as with the libraries, ranks that make
//! different calls wait for each other for ever, unless they meet in the process, where that is an error.

mod arithmetic;
#[cfg(any(feature = "hip", feature = "cuda"))]
pub(crate) mod library;
mod meeting;
#[cfg(any(feature = "hip", feature = "cuda"))]
mod sys;

use std::fmt;

use crate::{Buffer, DType, Device, Error, Result};

use meeting::HostRank;

/// Bytes of a [`UniqueId`]: `ncclUniqueId`.
pub const UNIQUE_ID_BYTES: usize = 128;

/// What ranks that belong together agree on. One rank makes it, the others get its bytes in any way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UniqueId(pub [u8; UNIQUE_ID_BYTES]);

impl UniqueId {
    /// A new one, for ranks on devices like this one.
    ///
    /// # Errors
    /// Why there is no library, in its loader's words, for a device that needs one; the library's own.
    pub fn new(device: &Device) -> Result<UniqueId> {
        match device.driver().collectives() {
            Collectives::Host => Ok(meeting::new_id()),
            #[cfg(any(feature = "hip", feature = "cuda"))]
            Collectives::Library { library, .. } => library.as_ref().map_err(|why| missing(why))?.unique_id(),
        }
    }
}

/// How several numbers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Their sum over their count; of integers without the rest.
    Avg,
}

/// What ranks do together. `count` is [`Call::count`], `world` the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every target is the reduction of all sources, `count` elements each.
    AllReduce(Reduction),
    /// Every target is rank `root`'s source.
    Broadcast {
        /// Whose source.
        root: usize,
    },
    /// Rank `root`'s target is the reduction of all sources; the others have none.
    Reduce {
        /// Whose target.
        root: usize,
        /// How.
        reduction: Reduction,
    },
    /// Every target, of `world * count`, is all sources one after the other.
    AllGather,
    /// Rank r's target is the r-th piece of `count` of the reduction of all sources, each of `world * count`.
    ReduceScatter(Reduction),
    /// The source goes to another rank, which receives.
    Send {
        /// To whom.
        to: usize,
    },
    /// The target comes from another rank, which sends.
    Recv {
        /// From whom.
        from: usize,
    },
}

impl Kind {
    /// Its name, for messages and profiles.
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllReduce(_) => "all_reduce",
            Kind::Broadcast { .. } => "broadcast",
            Kind::Reduce { .. } => "reduce",
            Kind::AllGather => "all_gather",
            Kind::ReduceScatter(_) => "reduce_scatter",
            Kind::Send { .. } => "send",
            Kind::Recv { .. } => "recv",
        }
    }

    /// Elements of a rank's source and target, in units of the count; `None` where it has none.
    pub fn extents(self, rank: usize, world: usize) -> [Option<usize>; 2] {
        match self {
            Kind::AllReduce(_) => [Some(1), Some(1)],
            Kind::Broadcast { root } => [(rank == root).then_some(1), Some(1)],
            Kind::Reduce { root, .. } => [Some(1), (rank == root).then_some(1)],
            Kind::AllGather => [Some(1), Some(world)],
            Kind::ReduceScatter(_) => [Some(world), Some(1)],
            Kind::Send { .. } => [Some(1), None],
            Kind::Recv { .. } => [None, Some(1)],
        }
    }

    /// The other rank that it names.
    fn peer(self) -> Option<usize> {
        match self {
            Kind::Broadcast { root } | Kind::Reduce { root, .. } => Some(root),
            Kind::Send { to } => Some(to),
            Kind::Recv { from } => Some(from),
            Kind::AllReduce(_) | Kind::AllGather | Kind::ReduceScatter(_) => None,
        }
    }
}

/// A rank's part of what is done together. Source and target are a buffer and the first byte in it; they may be the same
/// place where the libraries allow it: reductions and broadcasts.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is done.
    pub kind: Kind,
    /// Type of the elements: not [`DType::I16`], [`DType::U16`] or [`DType::Bool`], which the libraries do not have.
    pub dtype: DType,
    /// Elements; see [`Kind`].
    pub count: usize,
    /// What is read, where the kind reads on this rank; else ignored.
    pub source: Option<(&'a Buffer, u64)>,
    /// What is written, where the kind writes on this rank; else ignored.
    pub target: Option<(&'a Buffer, u64)>,
}

/// How a driver's devices take part.
pub(crate) enum Collectives<'a> {
    /// Through the host, inside the process.
    Host,
    /// Through a library, or why it is not there.
    #[cfg(any(feature = "hip", feature = "cuda"))]
    Library {
        library: &'static std::result::Result<library::Library, String>,
        context: &'a std::sync::Arc<dyn crate::vendor::Context>,
    },
    /// Keeps the lifetime used in a build without libraries. There is no value of it, so that no `match` has to name it.
    #[cfg(not(any(feature = "hip", feature = "cuda")))]
    #[allow(dead_code, reason = "nobody makes it")]
    Never(std::convert::Infallible, std::marker::PhantomData<&'a ()>),
}

#[cfg(any(feature = "hip", feature = "cuda"))]
fn missing(why: &str) -> Error {
    Error::Load { library: "RCCL or NCCL", tried: why.to_owned() }
}

impl Device {
    /// What ranks on this device do collectives with: the library and its version, or that they meet in the process.
    ///
    /// # Errors
    /// Why the library that it needs is not there, in words.
    pub fn collectives(&self) -> std::result::Result<&str, &str> {
        match self.driver().collectives() {
            Collectives::Host => Ok("ranks of one process, through the host"),
            #[cfg(any(feature = "hip", feature = "cuda"))]
            Collectives::Library { library, .. } => {
                library.as_ref().map(library::Library::name).map_err(String::as_str)
            }
        }
    }
}

/// One of the ranks that do things together.
pub struct Communicator {
    device: Device,
    rank: usize,
    world: usize,
    backing: Backing,
}

/// By what it does so.
enum Backing {
    Host(HostRank),
    #[cfg(any(feature = "hip", feature = "cuda"))]
    Library(library::Rank),
}

impl Communicator {
    /// Rank `rank` of `world` on a device. Of a library's ranks this waits for the others.
    ///
    /// # Errors
    /// [`Error::Shape`] for a rank that is not below `world`, one that is taken, or another `world` than the other ranks said;
    /// an id that another process made, for devices without a library; as [`UniqueId::new`].
    pub fn join(device: &Device, id: &UniqueId, rank: usize, world: usize) -> Result<Communicator> {
        let mut joined = Communicator::join_all(&[(device, rank)], id, world)?;
        Ok(joined.pop().expect("one was asked for"))
    }

    /// Several ranks of one process at once: each device with its rank. One thread can make them in no other way.
    ///
    /// # Errors
    /// As [`Communicator::join`]; [`Error::Shape`] for none, or for devices of different libraries.
    pub fn join_all(devices: &[(&Device, usize)], id: &UniqueId, world: usize) -> Result<Vec<Communicator>> {
        if let Some((_, rank)) = devices.iter().find(|(_, rank)| *rank >= world) {
            return Err(Error::shape("communicator", "rank", format!("below {world}"), rank));
        }
        let Some((first, _)) = devices.first() else {
            return Err(Error::shape("communicator", "devices", "at least one", 0));
        };
        let backings: Vec<Backing> = match first.driver().collectives() {
            Collectives::Host => {
                let host_rank = |(device, rank): &(&Device, usize)| match device.driver().collectives() {
                    Collectives::Host => HostRank::take(id, *rank, world).map(Backing::Host),
                    #[cfg(any(feature = "hip", feature = "cuda"))]
                    Collectives::Library { .. } => Err(mixed()),
                };
                devices.iter().map(host_rank).collect::<Result<_>>()?
            }
            #[cfg(any(feature = "hip", feature = "cuda"))]
            Collectives::Library { library, .. } => {
                let library = library.as_ref().map_err(|why| missing(why))?;
                let context = |(device, rank): &(&Device, usize)| match device.driver().collectives() {
                    Collectives::Library { library: Ok(same), context } if std::ptr::eq(same, library) => {
                        Ok((std::sync::Arc::clone(context), *rank))
                    }
                    _ => Err(mixed()),
                };
                let ranks = devices.iter().map(context).collect::<Result<Vec<_>>>()?;
                library.join(ranks, id, world)?.into_iter().map(Backing::Library).collect()
            }
        };
        let made = |((device, rank), backing): (&(&Device, usize), Backing)| Communicator {
            device: (*device).clone(),
            rank: *rank,
            world,
            backing,
        };
        Ok(devices.iter().zip(backings).map(made).collect())
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Which of the ranks it is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn world(&self) -> usize {
        self.world
    }

    /// This rank's part of what all ranks do now.
    ///
    /// # Errors
    /// As [`group`].
    pub fn run(&self, call: &Call<'_>) -> Result<()> {
        group(&[(self, *call)])
    }

    /// What the call reads and writes, checked; bytes.
    fn check<'a>(&self, call: &Call<'a>) -> Result<[Option<Range<'a>>; 2]> {
        let op = call.kind.name();
        if let Some(peer) = call.kind.peer().filter(|peer| *peer >= self.world) {
            return Err(Error::shape(op, "rank of another", format!("below {}", self.world), peer));
        }
        if matches!(call.dtype, DType::I16 | DType::U16 | DType::Bool) {
            let expected = "a float, or an integer of 8, 32 or 64 bits";
            return Err(Error::shape(op, "dtype", expected, call.dtype));
        }
        let [source, target] = call.kind.extents(self.rank, self.world);
        let range = |arg, extent: Option<usize>, given: Option<(&'a Buffer, u64)>| {
            let Some(extent) = extent else { return Ok(None) };
            let Some((buffer, first)) = given else {
                return Err(Error::shape(op, arg, "a buffer on this rank", "none"));
            };
            let count = call.count.checked_mul(extent).and_then(|count| count.checked_mul(call.dtype.size_bytes()));
            let bytes = count.ok_or_else(|| Error::shape(op, "count", "fewer elements", call.count))? as u64;
            self.device.stream().require_range(op, arg, buffer, first, bytes)?;
            Ok(Some(Range { buffer, first, bytes }))
        };
        Ok([range("source", source, call.source)?, range("target", target, call.target)?])
    }
}

#[cfg(any(feature = "hip", feature = "cuda"))]
fn mixed() -> Error {
    Error::shape("communicator", "devices", "of one library", "devices of several")
}

impl Drop for Communicator {
    fn drop(&mut self) {
        #[cfg(any(feature = "hip", feature = "cuda"))]
        if let Backing::Library(_) = self.backing
            && let Err(error) = self.device.stream().synchronize()
        {
            // Whoever reads the target is told as well.
            tracing::debug!("{self:?} ends with {error}");
        }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator(rank {} of {} on {})", self.rank, self.world, self.device.id())
    }
}

/// A range of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Range<'a> {
    pub buffer: &'a Buffer,
    pub first: u64,
    pub bytes: u64,
}

impl Range<'_> {
    fn address(&self) -> u64 {
        self.buffer.device_address() + self.first
    }
}

/// Calls that begin together, of one or several ranks of this process: a thread with several ranks makes theirs so, and so
/// do sends and receives in both directions. One call is timed by a profile, several are not.
///
/// # Errors
/// [`Error::Shape`], [`Error::DeviceMismatch`] for buffers, counts, types and ranks that do not fit, before anything is
/// done; [`Error::Capture`] while a graph is recorded; a fault of earlier work; the library's own. In the process also ranks
/// whose calls differ, and one that has left.
pub fn group(calls: &[(&Communicator, Call<'_>)]) -> Result<()> {
    let mut checked = Vec::with_capacity(calls.len());
    for (rank, call) in calls {
        let [source, target] = rank.check(call)?;
        rank.device.stream().before_collective(source)?;
        checked.push((*rank, *call, source, target));
    }
    let mut hosts = Vec::new();
    #[cfg(any(feature = "hip", feature = "cuda"))]
    let mut members = Vec::new();
    for (rank, call, source, target) in &checked {
        match &rank.backing {
            Backing::Host(host) => hosts.push((&rank.device, host, *call, *source, *target)),
            #[cfg(any(feature = "hip", feature = "cuda"))]
            Backing::Library(rank) => {
                let address = |range: &Option<Range<'_>>| range.as_ref().map_or(0, Range::address);
                members.push((rank, *call, [address(source), address(target)]));
            }
        }
    }
    #[cfg(any(feature = "hip", feature = "cuda"))]
    match (checked.as_slice(), members.as_slice()) {
        ([(rank, call, source, target)], [_]) => {
            let bytes = [source, target].into_iter().flatten().map(|range| range.bytes).sum();
            rank.device.stream().timed(call.kind.name(), bytes, || library::run(&members))?;
        }
        _ => library::run(&members)?,
    }
    meeting::run(&hosts)?;
    checked.iter().try_for_each(|(rank, _, _, target)| rank.device.stream().after_collective(*target))
}

#[cfg(test)]
mod tests;
