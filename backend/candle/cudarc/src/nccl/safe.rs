//! Ranks and what they do.

use std::ffi::c_char;
use std::fmt;
use std::sync::Arc;

use rocfire_hal::DType;
use rocfire_hal::collective::{Communicator, Kind, Reduction, UNIQUE_ID_BYTES, UniqueId};

use super::result::{Held, MemoryPart, NcclError, NcclStatus, put};
pub use super::result::{group_end, group_start};
use crate::driver::pointer::resolve;
use crate::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut, DriverError, sys};

/// What ranks that belong together agree on: one makes it, the others get its bytes in any way.
#[derive(Clone, Copy, Debug)]
pub struct Id([c_char; UNIQUE_ID_BYTES]);

impl Id {
    /// A new one, for ranks on devices like device 0.
    ///
    /// # Errors
    /// No device; its library is not there.
    pub fn new() -> Result<Id, NcclError> {
        let context = CudaContext::new(0)?;
        let id = UniqueId::new(context.opened())?;
        Ok(Id(id.0.map(|byte| byte as c_char)))
    }

    /// One that another rank made, by its bytes.
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
    /// Their sum over their count.
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
    /// Its name.
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

/// One of the ranks that do things together; every rank makes the same calls in the same order.
pub struct Comm {
    rank: Arc<Communicator>,
    stream: Arc<CudaStream>,
}

impl Comm {
    /// The ranks of one process, one a stream in their order.
    ///
    /// # Errors
    /// No streams; the library is not there, or its own.
    pub fn from_devices(streams: Vec<Arc<CudaStream>>) -> Result<Vec<Comm>, NcclError> {
        let first = streams.first().ok_or_else(|| DriverError::new("from_devices: no streams"))?;
        let id = UniqueId::new(first.context().opened())?;
        let devices: Vec<_> = streams.iter().zip(0..).map(|(stream, rank)| (stream.context().opened(), rank)).collect();
        let ranks = Communicator::join_all(&devices, &id, streams.len())?;
        Ok(ranks.into_iter().zip(streams).map(|(rank, stream)| Comm { rank: Arc::new(rank), stream }).collect())
    }

    /// Rank `rank` of `world_size`, the others being elsewhere; a library's rank waits for them.
    ///
    /// # Errors
    /// A rank that is taken or not below `world_size`; for emulated devices an id that another process made; the library is
    /// not there, or its own.
    pub fn from_rank(stream: Arc<CudaStream>, rank: usize, world_size: usize, id: Id) -> Result<Comm, NcclError> {
        let rank = Communicator::join(stream.context().opened(), &id.unique(), rank, world_size)?;
        Ok(Comm { rank: Arc::new(rank), stream })
    }

    /// Its stream.
    pub fn stream(&self) -> Arc<CudaStream> {
        Arc::clone(&self.stream)
    }

    /// Its device.
    pub fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    /// Its device's number.
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

    /// To another rank, which receives.
    ///
    /// # Errors
    /// Memory of another device; ranks that there are not; the library's own. So do all below.
    pub fn send<S: DevicePtr<T>, T: NcclType>(&self, data: &S, peer: i32) -> Result<(), NcclError> {
        let kind = Kind::Send { to: other(peer)? };
        self.call::<T>(kind, data.len(), Some(self.source(data)), None).map(|_| ())
    }

    /// From another rank, which sends.
    pub fn recv<R: DevicePtrMut<T>, T: NcclType>(&self, buff: &mut R, peer: i32) -> Result<NcclStatus, NcclError> {
        let kind = Kind::Recv { from: other(peer)? };
        self.call::<T>(kind, buff.len(), None, Some(self.target(buff)))
    }

    /// Every target gets rank `root`'s source; the others need none.
    pub fn broadcast<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: Option<&S>,
        recvbuff: &mut R,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        let source = sendbuff.map(|source| self.source(source));
        self.call::<T>(Kind::Broadcast { root: other(root)? }, recvbuff.len(), source, Some(self.target(recvbuff)))
    }

    /// The same, of one place that is source and target.
    pub fn broadcast_in_place<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        recvbuff: &mut R,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        let place = Some(self.target(recvbuff));
        self.call::<T>(Kind::Broadcast { root: other(root)? }, recvbuff.len(), place.clone(), place)
    }

    /// Every target gets all sources, one rank's after the other's; it is as many times longer as there are ranks.
    pub fn all_gather<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
    ) -> Result<NcclStatus, NcclError> {
        let source = Some(self.source(sendbuff));
        self.call::<T>(Kind::AllGather, sendbuff.len(), source, Some(self.target(recvbuff)))
    }

    /// Every target gets the reduction of all sources.
    pub fn all_reduce<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus, NcclError> {
        let kind = Kind::AllReduce(reduce_op.reduction());
        self.call::<T>(kind, sendbuff.len(), Some(self.source(sendbuff)), Some(self.target(recvbuff)))
    }

    /// The same, of one place that is source and target.
    pub fn all_reduce_in_place<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        buff: &mut R,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus, NcclError> {
        let place = Some(self.target(buff));
        self.call::<T>(Kind::AllReduce(reduce_op.reduction()), buff.len(), place.clone(), place)
    }

    /// Rank `root`'s target gets the reduction of all sources; the others need none.
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

    /// The same, of one place that is source and target.
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

    /// Every target gets its rank's piece of the reduction of all sources, which are as many times longer as there are ranks.
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
        // What a rank gives without need is as long as the others'.
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

/// Where a slice is: an address means something in its own context only.
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
