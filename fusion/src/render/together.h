// together.h: several launches of one kernel as one, whose grid is that of all members, one behind the other along its first axis.
// Follows schedule.h.

// CUDA would copy arguments that are indexed to local memory.
#if RF_DEVICE_AMD
#define FUSED_ARGUMENTS
#else
#define FUSED_ARGUMENTS const __grid_constant__
#endif

namespace rf {
namespace fuse {

// The first workgroup of each member, and its arguments.
template <class ARGS, int MEMBERS> struct Members {
    u32 count, unused;
    u32 first[MEMBERS];
    ARGS member[MEMBERS];
};

// The member that a workgroup is of.
template <class ARGS, int MEMBERS> RF_FN u32 member_of(const Members<ARGS, MEMBERS>& all, u32 group) {
    u32 own = 0;
    while (own + 1 < all.count && group >= all.first[own + 1]) ++own;
    return own;
}

}  // namespace fuse
}  // namespace rf
