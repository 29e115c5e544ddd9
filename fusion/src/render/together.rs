//! A kernel for several launches at once: the same functor and schedule, behind arguments for each.
//!
//! Small launches of one kernel (the update of each parameter) share a launch: see `rocfire_hal::JoinedKernel`. `together.h` says how
//! a workgroup finds its member; it goes on as it would alone.

use super::ENTRY;
use crate::block::BLOCK_BYTES;

/// The header, behind the schedule's.
pub(super) const HEADER: &str = include_str!("together.h");

/// How many members of `member_bytes` each an argument struct takes: an even number, at most [`MEMBERS_MOST`].
pub(crate) fn capacity(member_bytes: usize) -> usize {
    let members = (BLOCK_BYTES - 8) / (member_bytes + 4);
    members.min(MEMBERS_MOST) & !1
}

/// Most members: a workgroup looks for its own one by one.
const MEMBERS_MOST: usize = 32;

/// The entry point for `capacity` members.
pub(super) fn entry(bounds: &str, template: &str, capacity: usize) -> String {
    format!(
        "extern \"C\" __global__ {bounds} void {ENTRY}(FUSED_ARGUMENTS fuse::Members<FusedArgs, {capacity}> all) {{
    const rf::u32 own = fuse::member_of(all, rf::group_x());
    fuse::{template}<Fused>(all.member[own], rf::group_x() - all.first[own]);
}}
"
    )
}
