//! A kernel for several launches at once: the text of the kernel for one, behind arguments for each.
//!
//! Small launches of one kernel (the update of each parameter) share a launch: see `rocfire_hal::JoinedKernel`. The grid is
//! that of all members, one behind the other along its first axis; a workgroup finds its member and goes on as it would alone.

use super::{ENTRY, HEADER};
use crate::block::BLOCK_BYTES;

/// How many members of `member_bytes` each an argument struct takes: an even number, at most [`MEMBERS_MOST`].
pub(crate) fn capacity(member_bytes: usize) -> usize {
    let members = (BLOCK_BYTES - 8) / (member_bytes + 4);
    members.min(MEMBERS_MOST) & !1
}

/// Most members: a workgroup looks for its own one by one.
const MEMBERS_MOST: usize = 32;

/// The text for `capacity` members from that for one.
pub(crate) fn several(text: &str, capacity: usize) -> String {
    let (header, kernel) = text.split_at(HEADER.len());
    let entry = format!("void {ENTRY}(FusedArgs a) {{\n");
    assert!(kernel.contains(&entry), "every schedule has this entry");
    let body = format!(
        "struct FusedSeveral {{\n    rf::u32 count, unused;\n    rf::u32 first[{capacity}];\n    FusedArgs member[{capacity}];\n}};\n\
         // CUDA would copy arguments that are indexed to local memory.\n\
         #if RF_DEVICE_AMD\n#define FUSED_ARGUMENTS\n#else\n#define FUSED_ARGUMENTS const __grid_constant__\n#endif\n"
    );
    let found = format!(
        "void {ENTRY}(FUSED_ARGUMENTS FusedSeveral all) {{\n\
         \x20   rf::u32 own = 0;\n\
         \x20   while (own + 1 < all.count && rf::group_x() >= all.first[own + 1]) ++own;\n\
         \x20   const FusedArgs& a = all.member[own];\n\
         \x20   const rf::u32 own_group = rf::group_x() - all.first[own];\n"
    );
    // The struct of one member's arguments ends where the entry point begins.
    let start = kernel.find("extern \"C\"").expect("a kernel has an entry point");
    let (before, own) = kernel.split_at(start);
    let own = own.replace("rf::group_x()", "own_group").replace(&entry, &found);
    [header, before, &body, &own].concat()
}
