//! Ranks and their collective calls.

use std::ffi::c_char;
use std::fmt;
use std::sync::Arc;

use rocfire_hal::DType;
use rocfire_hal::collective::{Communicator, Kind, Reduction, UNIQUE_ID_BYTES, UniqueId};

use super::result::{Held, MemoryPart, NcclError, NcclStatus, put};
pub use super::result::{group_end, group_start};
use crate::driver::pointer::resolve;
use crate::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut, DriverError, sys};

/// What ranks that belong together have in common. One of them makes it; the program hands its bytes to the others.
#[derive(Clone, Copy, Debug)]
pub struct Id([c_char; UNIQUE_ID_BYTES]);

impl Id {
    /// A new id, for ranks on devices of the kind that device 0 is.
    ///
    /// # Errors
    /// There is no device, or no library for it.
    pub fn new() -> Result<Id, NcclError> {
        let context = CudaContext::new(0)?;
        let id = UniqueId::new(context.opened())?;
        Ok(Id(id.0.map(|byte| byte as c_char)))
    }

    /// The id that another rank made, from its bytes.
    pub fn uninit(internal: [c_char; UNIQUE_ID_BYTES]) -> Id {
        Id(internal)
    }

    /// Its bytes, for the other ranks.
    pub fn internal(&self) -> &[c_char; UNIQUE_ID_BYTES] {
        &self.0
    }

    fn unique(&self) -> UniqueId {
        UniqueId(self.0.map(|byte| byte as u8))
    }
}

/// How several numbers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Their sum divided by their count.
    Avg,
}

impl ReduceOp {
    pub(super) fn reduction(self) -> Reduction {
        match self {
            ReduceOp::Sum => Reduction::Sum,
            ReduceOp::Prod => Reduction::Prod,
            ReduceOp::Max => Reduction::Max,
            ReduceOp::Min => Reduction::Min,
            ReduceOp::Avg => Reduction::Avg,
        }
    }
}

/// An element type that ranks exchange.
pub trait NcclType {
    /// The element type's value in [`DType`].
    const DTYPE: DType;
}

macro_rules! types {
    ($($element:ty: $dtype:ident),*) => {
        $(impl NcclType for $element {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}

types!(f64: F64, f32: F32, half::f16: F16, half::bf16: BF16, i64: I64, i32: I32, i8: I8, u64: U64, u32: U32, u8: U8);

/// One of several ranks. Every rank must make the same collective calls in the same order.
pub struct Comm {
    rank: Arc<Communicator>,
    stream: Arc<CudaStream>,
}

impl Comm {
    /// All ranks, if one process has them: one for each stream, in the order of `streams`.
    ///
    /// # Errors
    /// There are no streams, or there is no library; the library's own.
    pub fn from_devices(streams: Vec<Arc<CudaStream>>) -> Result<Vec<Comm>, NcclError> {
        let first = streams.first().ok_or_else(|| DriverError::new("from_devices: no streams"))?;
        let id = UniqueId::new(first.context().opened())?;
        let devices: Vec<_> = streams.iter().zip(0..).map(|(stream, rank)| (stream.context().opened(), rank)).collect();
        let ranks = Communicator::join_all(&devices, &id, streams.len())?;
        Ok(ranks.into_iter().zip(streams).map(|(rank, stream)| Comm { rank: Arc::new(rank), stream }).collect())
    }

    /// Rank `rank` of `world_size`, whose others are made by other threads or processes. With RCCL or NCCL it waits for all of them.
    ///
    /// # Errors
    /// The rank is taken or not below `world_size`; for emulated devices, another process made the id; there is no library; the
    /// library's own.
    pub fn from_rank(stream: Arc<CudaStream>, rank: usize, world_size: usize, id: Id) -> Result<Comm, NcclError> {
        let rank = Communicator::join(stream.context().opened(), &id.unique(), rank, world_size)?;
        Ok(Comm { rank: Arc::new(rank), stream })
    }

    /// Its stream.
    pub fn stream(&self) -> Arc<CudaStream> {
        Arc::clone(&self.stream)
    }

    /// The context of its device.
    pub fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    /// The ordinal by which its device was opened.
    pub fn ordinal(&self) -> usize {
        self.context().ordinal()
    }

    /// Which of the ranks it is.
    pub fn rank(&self) -> usize {
        self.rank.rank()
    }

    /// How many ranks there are.
    pub fn world_size(&self) -> usize {
        self.rank.world()
    }

    /// Sends elements to another rank, which must receive them.
    ///
    /// # Errors
    /// The memory is of another device; a rank does not exist; the library's own. So do all calls below.
    pub fn send<S: DevicePtr<T>, T: NcclType>(&self, data: &S, peer: i32) -> Result<(), NcclError> {
        let kind = Kind::Send { to: other(peer)? };
        self.call::<T>(kind, data.len(), Some(self.source(data)), None).map(|_| ())
    }

    /// Receives elements from another rank, which must send them.
    pub fn recv<R: DevicePtrMut<T>, T: NcclType>(&self, buff: &mut R, peer: i32) -> Result<NcclStatus, NcclError> {
        let kind = Kind::Recv { from: other(peer)? };
        self.call::<T>(kind, buff.len(), None, Some(self.target(buff)))
    }

    /// Copies rank `root`'s source to every rank's target. The other ranks need no source.
    pub fn broadcast<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: Option<&S>,
        recvbuff: &mut R,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        let source = sendbuff.map(|source| self.source(source));
        self.call::<T>(Kind::Broadcast { root: other(root)? }, recvbuff.len(), source, Some(self.target(recvbuff)))
    }

    /// The same with one slice as source and target.
    pub fn broadcast_in_place<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        recvbuff: &mut R,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        let place = Some(self.target(recvbuff));
        self.call::<T>(Kind::Broadcast { root: other(root)? }, recvbuff.len(), place.clone(), place)
    }

    /// Copies all ranks' sources, one behind the other in the order of ranks, to every rank's target, which is `world_size` times as
    /// long as a source.
    pub fn all_gather<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
    ) -> Result<NcclStatus, NcclError> {
        let source = Some(self.source(sendbuff));
        self.call::<T>(Kind::AllGather, sendbuff.len(), source, Some(self.target(recvbuff)))
    }

    /// Reduces all ranks' sources element by element to every rank's target.
    pub fn all_reduce<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus, NcclError> {
        let kind = Kind::AllReduce(reduce_op.reduction());
        self.call::<T>(kind, sendbuff.len(), Some(self.source(sendbuff)), Some(self.target(recvbuff)))
    }

    /// The same with one slice as source and target.
    pub fn all_reduce_in_place<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        buff: &mut R,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus, NcclError> {
        let place = Some(self.target(buff));
        self.call::<T>(Kind::AllReduce(reduce_op.reduction()), buff.len(), place.clone(), place)
    }

    /// Reduces all ranks' sources element by element to rank `root`'s target. The other ranks need no target.
    pub fn reduce<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: Option<&mut R>,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        let kind = Kind::Reduce { root: other(root)?, reduction: reduce_op.reduction() };
        let target = recvbuff.map(|target| self.target(target));
        self.call::<T>(kind, sendbuff.len(), Some(self.source(sendbuff)), target)
    }

    /// The same with one slice as source and target.
    pub fn reduce_in_place<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        let kind = Kind::Reduce { root: other(root)?, reduction: reduce_op.reduction() };
        let place = Some(self.target(recvbuff));
        self.call::<T>(kind, recvbuff.len(), place.clone(), place)
    }

    /// Reduces all ranks' sources element by element, and gives each rank's target that rank's piece of the result. A source is
    /// `world_size` times as long as a target.
    pub fn reduce_scatter<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus, NcclError> {
        let kind = Kind::ReduceScatter(reduce_op.reduction());
        self.call::<T>(kind, recvbuff.len(), Some(self.source(sendbuff)), Some(self.target(recvbuff)))
    }

    fn source<T, S: DevicePtr<T>>(&self, source: &S) -> Part {
        Part::of(source.stream(), source.device_ptr(&self.stream).0, source.num_bytes())
    }

    fn target<T, R: DevicePtrMut<T>>(&self, target: &mut R) -> Part {
        let (stream, bytes) = (Arc::clone(target.stream()), target.num_bytes());
        Part::of(&stream, target.device_ptr_mut(&self.stream).0, bytes)
    }

    fn call<T: NcclType>(
        &self,
        kind: Kind,
        count: usize,
        source: Option<Part>,
        target: Option<Part>,
    ) -> Result<NcclStatus, NcclError> {
        let op = kind.name();
        let needs = count.saturating_mul(T::DTYPE.size_bytes());
        // A source or target that a rank gives without need must still be as long as those of the others.
        let extents = kind.extents(self.rank(), self.world_size());
        let [reads, writes] = extents.map(|extent| needs.saturating_mul(extent.unwrap_or(1)));
        let place = |arg: &str, part: Option<Part>, bytes: usize| -> Result<Option<MemoryPart>, NcclError> {
            let Some(part) = part else { return Ok(None) };
            if part.bytes < bytes {
                let message = format!("{op}: {arg} has {} bytes, {bytes} are needed", part.bytes);
                return Err(DriverError::new(message).into());
            }
            let found = resolve(&part.stream, op, part.address, part.bytes)?;
            Ok(found.map(|(memory, first)| MemoryPart { stream: part.stream, memory, first }))
        };
        let (source, target) = (place("sendbuff", source, reads)?, place("recvbuff", target, writes)?);
        if count == 0 {
            return Ok(NcclStatus::Success);
        }
        let (rank, stream) = (Arc::clone(&self.rank), Arc::clone(&self.stream));
        put(Held { rank, stream, kind, dtype: T::DTYPE, count, source, target })
    }
}

/// Where a slice lies: its address, and its stream, in whose context alone the address means something.
#[derive(Clone)]
struct Part {
    stream: Arc<CudaStream>,
    address: sys::CUdeviceptr,
    bytes: usize,
}

impl Part {
    fn of(stream: &Arc<CudaStream>, address: sys::CUdeviceptr, bytes: usize) -> Part {
        Part { stream: Arc::clone(stream), address, bytes }
    }
}

fn other(rank: i32) -> Result<usize, NcclError> {
    usize::try_from(rank).map_err(|_| DriverError::new(format!("rank {rank} is negative")).into())
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rank.fmt(f)
    }
}
