//! The kernel of joined launches: the same functor and schedule, with arguments for each launch.
//!
//! Small launches of one kernel, as the updates of parameters, are joined: see `rocfire_hal::JoinedKernel`. `together.h` says how a
//! workgroup finds the launch to which it belongs. From there on it runs as in a launch of its own.

use super::ENTRY;
use crate::block::BLOCK_BYTES;

/// The header `together.h`, which comes behind that of the schedule.
pub(super) const HEADER: &str = include_str!("together.h");

/// How many launches an argument struct takes whose arguments have `member_bytes` bytes each: an even number, at most
/// [`MEMBERS_MOST`].
pub(crate) fn capacity(member_bytes: usize) -> usize {
    let members = (BLOCK_BYTES - 8) / (member_bytes + 4);
    members.min(MEMBERS_MOST) & !1
}

/// The most launches that are joined: a workgroup looks for its own one by one.
const MEMBERS_MOST: usize = 32;

/// Renders the entry point for up to `capacity` launches.
pub(super) fn entry(bounds: &str, template: &str, capacity: usize) -> String {
    format!(
        "extern \"C\" __global__ {bounds} void {ENTRY}(FUSED_ARGUMENTS fuse::Members<FusedArgs, {capacity}> all) {{
    const rf::u32 own = fuse::member_of(all, rf::group_x());
    fuse::{template}<Fused>(all.member[own], rf::group_x() - all.first[own]);
}}
"
    )
}
