// together.h: joined launches of one kernel. The grids of the launches stand one behind the other along the first axis. Follows
// schedule.h.

// An argument struct that is indexed. Without `__grid_constant__` CUDA copies it to local memory.
#if RF_DEVICE_AMD
#define FUSED_ARGUMENTS
#else
#define FUSED_ARGUMENTS const __grid_constant__
#endif

namespace rf {
namespace fuse {

// The arguments of each launch, and its first workgroup in the joined grid.
template <class ARGS, int MEMBERS> struct Members {
    u32 count, unused;
    u32 first[MEMBERS];
    ARGS member[MEMBERS];
};

// The number of the launch to which a workgroup belongs.
template <class ARGS, int MEMBERS> RF_FN u32 member_of(const Members<ARGS, MEMBERS>& all, u32 group) {
    u32 own = 0;
    while (own + 1 < all.count && group >= all.first[own + 1]) ++own;
    return own;
}

}  // namespace fuse
}  // namespace rf
