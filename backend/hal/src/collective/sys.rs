//! `libnccl` and `librccl`: collectives of NVIDIA's and AMD's GPUs.
//!
//! Source: NVIDIA's NCCL reference, version 2; AMD's RCCL reference names the same functions.

use std::ffi::{c_char, c_int, c_void};

use super::UNIQUE_ID_BYTES;
use crate::foreign::Status;

/// `ncclUniqueId`, which goes by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawId(pub [c_char; UNIQUE_ID_BYTES]);

crate::foreign::table! {
    /// The functions of NCCL and RCCL that are used.
    Nccl {
        /// Version, `major * 10000 + minor * 100 + patch` from 2.9 on.
        fn ncclGetVersion(version: *mut c_int) -> Status;
        /// A code's text.
        fn ncclGetErrorString(status: Status) -> *const c_char;
        /// An id for ranks.
        fn ncclGetUniqueId(id: *mut RawId) -> Status;
        /// One rank on the thread's device; waits for the others unless in a group.
        fn ncclCommInitRank(rank: *mut *mut c_void, world: c_int, id: RawId, number: c_int) -> Status;
        /// Ends a rank, whatever it does.
        fn ncclCommAbort(rank: *mut c_void) -> Status;
        /// Calls from here on begin together.
        fn ncclGroupStart() -> Status;
        /// They begin.
        fn ncclGroupEnd() -> Status;
        /// Every target is the reduction of all sources.
        fn ncclAllReduce(
            source: u64, target: u64, count: usize, dtype: c_int, reduction: c_int, rank: *mut c_void,
            stream: *mut c_void
        ) -> Status;
        /// Every target is the root's source.
        fn ncclBroadcast(
            source: u64, target: u64, count: usize, dtype: c_int, root: c_int, rank: *mut c_void, stream: *mut c_void
        ) -> Status;
        /// The root's target is the reduction of all sources.
        fn ncclReduce(
            source: u64, target: u64, count: usize, dtype: c_int, reduction: c_int, root: c_int, rank: *mut c_void,
            stream: *mut c_void
        ) -> Status;
        /// Every target is all sources.
        fn ncclAllGather(
            source: u64, target: u64, count: usize, dtype: c_int, rank: *mut c_void, stream: *mut c_void
        ) -> Status;
        /// Every target is a piece of the reduction of all sources.
        fn ncclReduceScatter(
            source: u64, target: u64, count: usize, dtype: c_int, reduction: c_int, rank: *mut c_void,
            stream: *mut c_void
        ) -> Status;
        /// To another rank.
        fn ncclSend(
            source: u64, count: usize, dtype: c_int, to: c_int, rank: *mut c_void, stream: *mut c_void
        ) -> Status;
        /// From another rank.
        fn ncclRecv(
            target: u64, count: usize, dtype: c_int, from: c_int, rank: *mut c_void, stream: *mut c_void
        ) -> Status;
    }
}
