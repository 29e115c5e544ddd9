// hip_cooperative_groups.h: groups of threads: the workgroup, tiles of a wave, the lanes that are on, the grid.
//
// The grid waits at a counter in memory, so all of its workgroups must run at the same time: `hipLaunchCooperativeKernel`
// sees to that.
#ifndef ROCFIRE_HIP_COOPERATIVE_GROUPS_H
#define ROCFIRE_HIP_COOPERATIVE_GROUPS_H
#include <hip/hip_runtime.h>
#if !defined(__CUDACC_RTC__)
#pragma clang system_header
#endif

// Workgroups that have come to the barrier, and barriers that have been passed.
struct rocfire_grid_barrier {
    unsigned arrived, passed;
};
#if defined(__CUDACC_RTC__)
static __device__ rocfire_grid_barrier __rocfire_grid;
#else
extern "C" {
inline __device__ rocfire_grid_barrier __rocfire_grid;
}
#endif

namespace cooperative_groups {

#define ROCFIRE_GROUP __device__ inline

// What differs between the cards. An AMD wave runs in step, so that the lanes which are on need no naming; on an NVIDIA card
// the members of a group name each other by their mask.
namespace rocfire {
typedef unsigned long long lanes;
#if defined(__CUDACC_RTC__)
constexpr unsigned widest = 32;
ROCFIRE_GROUP void wave_sync(lanes mask) { __syncwarp((unsigned)mask); }
ROCFIRE_GROUP lanes ballot(lanes mask, int predicate) { return __ballot_sync((unsigned)mask, predicate); }
ROCFIRE_GROUP int lowest(lanes mask) { return __ffsll((long long)mask) - 1; }
template <typename T>
ROCFIRE_GROUP T from_lane(lanes mask, T value, int lane) { return __shfl_sync((unsigned)mask, value, lane); }
ROCFIRE_GROUP int nth_lane(lanes mask, unsigned rank) { return (int)__fns((unsigned)mask, 0, (int)rank + 1); }
ROCFIRE_GROUP lanes lanes_below() { return (1u << __lane_id()) - 1; }
ROCFIRE_GROUP unsigned passed() { return *(volatile unsigned *)&__rocfire_grid.passed; }
ROCFIRE_GROUP unsigned arrive() { return atomicAdd(&__rocfire_grid.arrived, 1u); }
ROCFIRE_GROUP void open(unsigned passed) {
    // The last one leaves the counter as the next barrier wants it.
    *(volatile unsigned *)&__rocfire_grid.arrived = 0;
    __threadfence();
    *(volatile unsigned *)&__rocfire_grid.passed = passed;
}
ROCFIRE_GROUP void nap() { __nanosleep(100); }
#else
constexpr unsigned widest = 64;
ROCFIRE_GROUP void wave_sync(lanes) {
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
}
ROCFIRE_GROUP lanes ballot(lanes mask, int predicate) { return __ballot(predicate) & mask; }
ROCFIRE_GROUP int lowest(lanes mask) { return __builtin_ctzll(mask); }
template <typename T>
ROCFIRE_GROUP T from_lane(lanes, T value, int lane) { return rocfire_from_lane(value, lane); }
ROCFIRE_GROUP int nth_lane(lanes mask, unsigned rank) { return __fns64(mask, 0, (int)rank + 1); }
ROCFIRE_GROUP lanes lanes_below() { return __lanemask_lt(); }
ROCFIRE_GROUP unsigned passed() {
    return __hip_atomic_load(&__rocfire_grid.passed, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
}
ROCFIRE_GROUP unsigned arrive() {
    return __hip_atomic_fetch_add(&__rocfire_grid.arrived, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
}
ROCFIRE_GROUP void open(unsigned passed) {
    // The last one leaves the counter as the next barrier wants it.
    __hip_atomic_store(&__rocfire_grid.arrived, 0u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_store(&__rocfire_grid.passed, passed, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}
ROCFIRE_GROUP void nap() { __builtin_amdgcn_s_sleep(8); }
#endif
// The lanes of a tile of `size` neighbours that this thread is in.
ROCFIRE_GROUP lanes neighbours(unsigned size) {
    return (size >= 64 ? ~0ull : (1ull << size) - 1) << (__lane_id() & ~(size - 1));
}
ROCFIRE_GROUP unsigned thread() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
ROCFIRE_GROUP unsigned threads() { return blockDim.x * blockDim.y * blockDim.z; }
ROCFIRE_GROUP unsigned block() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
ROCFIRE_GROUP unsigned blocks() { return gridDim.x * gridDim.y * gridDim.z; }
}  // namespace rocfire

enum rocfire_group_kind { rocfire_any_tile, rocfire_block, rocfire_grid };

// What every group is: how many threads, and which of them this one is.
class thread_group {
   protected:
    rocfire_group_kind kind_;
    unsigned size_;
    // The lanes of a group within a wave.
    unsigned long long mask_;
    unsigned meta_rank_ = 0, meta_size_ = 1;

    ROCFIRE_GROUP thread_group(rocfire_group_kind kind, unsigned size, unsigned long long mask)
        : kind_(kind), size_(size), mask_(mask) {}

    ROCFIRE_GROUP int lane_of(unsigned rank) const { return rocfire::nth_lane(mask_, rank); }
    ROCFIRE_GROUP unsigned rank_in_mask() const { return __popcll(mask_ & rocfire::lanes_below()); }
    ROCFIRE_GROUP unsigned long long votes(int predicate) const { return rocfire::ballot(mask_, predicate); }
    template <typename T>
    ROCFIRE_GROUP T from(T value, int lane) const { return rocfire::from_lane(mask_, value, lane); }
    friend ROCFIRE_GROUP thread_group tiled_partition(const thread_group &parent, unsigned size);

   public:
    ROCFIRE_GROUP unsigned size() const { return size_; }
    ROCFIRE_GROUP unsigned num_threads() const { return size_; }
    ROCFIRE_GROUP unsigned cg_type() const { return kind_; }
    ROCFIRE_GROUP unsigned thread_rank() const {
        if (kind_ == rocfire_block) return rocfire::thread();
        if (kind_ == rocfire_grid) return rocfire::block() * rocfire::threads() + rocfire::thread();
        return rank_in_mask();
    }
    ROCFIRE_GROUP bool is_valid() const { return true; }
    ROCFIRE_GROUP void sync() const;
};

class thread_block : public thread_group {
    ROCFIRE_GROUP thread_block() : thread_group(rocfire_block, rocfire::threads(), 0) {}
    friend ROCFIRE_GROUP thread_block this_thread_block();

   public:
    static ROCFIRE_GROUP void sync() { __syncthreads(); }
    static ROCFIRE_GROUP unsigned size() { return rocfire::threads(); }
    static ROCFIRE_GROUP unsigned num_threads() { return rocfire::threads(); }
    static ROCFIRE_GROUP unsigned thread_rank() { return rocfire::thread(); }
    static ROCFIRE_GROUP dim3 group_index() { return blockIdx; }
    static ROCFIRE_GROUP dim3 thread_index() { return threadIdx; }
    static ROCFIRE_GROUP dim3 group_dim() { return blockDim; }
    static ROCFIRE_GROUP dim3 dim_threads() { return blockDim; }
};
ROCFIRE_GROUP thread_block this_thread_block() { return thread_block(); }

class grid_group : public thread_group {
    ROCFIRE_GROUP grid_group() : thread_group(rocfire_grid, rocfire::blocks() * rocfire::threads(), 0) {}
    friend ROCFIRE_GROUP grid_group this_grid();

   public:
    static ROCFIRE_GROUP dim3 group_dim() { return gridDim; }
    static ROCFIRE_GROUP dim3 dim_blocks() { return gridDim; }
    static ROCFIRE_GROUP dim3 block_index() { return blockIdx; }
    static ROCFIRE_GROUP unsigned num_blocks() { return rocfire::blocks(); }
    static ROCFIRE_GROUP unsigned block_rank() { return rocfire::block(); }
    static ROCFIRE_GROUP void sync() {
        __threadfence();
        __syncthreads();
        if (rocfire::thread() == 0) {
            unsigned passed = rocfire::passed();
            if (rocfire::arrive() + 1 == rocfire::blocks()) {
                rocfire::open(passed + 1);
            } else {
                while (rocfire::passed() == passed) rocfire::nap();
            }
        }
        __syncthreads();
        __threadfence();
    }
};
ROCFIRE_GROUP grid_group this_grid() { return grid_group(); }

ROCFIRE_GROUP void thread_group::sync() const {
    if (kind_ == rocfire_block) __syncthreads();
    else if (kind_ == rocfire_grid) grid_group::sync();
    else rocfire::wave_sync(mask_);
}

// Exchange within a group whose lanes are in a mask: `rank` counts them.
class rocfire_lanes : public thread_group {
   protected:
    using thread_group::thread_group;

   public:
    ROCFIRE_GROUP void sync() const { rocfire::wave_sync(mask_); }
    ROCFIRE_GROUP unsigned thread_rank() const { return rank_in_mask(); }
    ROCFIRE_GROUP unsigned meta_group_rank() const { return meta_rank_; }
    ROCFIRE_GROUP unsigned meta_group_size() const { return meta_size_; }
    template <typename T>
    ROCFIRE_GROUP T shfl(T value, int rank) const {
        return from(value, lane_of((unsigned)rank % size_));
    }
    template <typename T>
    ROCFIRE_GROUP T shfl_down(T value, unsigned by) const {
        unsigned rank = rank_in_mask();
        return from(value, lane_of(rank + by >= size_ ? rank : rank + by));
    }
    template <typename T>
    ROCFIRE_GROUP T shfl_up(T value, unsigned by) const {
        unsigned rank = rank_in_mask();
        return from(value, lane_of(rank < by ? rank : rank - by));
    }
    template <typename T>
    ROCFIRE_GROUP T shfl_xor(T value, unsigned mask) const {
        unsigned rank = rank_in_mask();
        return from(value, lane_of((rank ^ mask) >= size_ ? rank : rank ^ mask));
    }
    // A bit for each member, by rank.
    ROCFIRE_GROUP unsigned long long ballot(int predicate) const {
        unsigned long long members = votes(predicate), packed = 0;
        unsigned rank = 0;
        for (unsigned long long left = mask_; left != 0; left &= left - 1, ++rank) {
            if ((members & left & -left) != 0) packed |= 1ull << rank;
        }
        return packed;
    }
    ROCFIRE_GROUP int any(int predicate) const { return votes(predicate) != 0; }
    ROCFIRE_GROUP int all(int predicate) const { return votes(!predicate) == 0; }
    template <typename T>
    ROCFIRE_GROUP unsigned long long match_any(T value) const {
        unsigned long long same = 0;
        unsigned rank = 0;
        for (unsigned long long left = mask_; left != 0; left &= left - 1, ++rank) {
            if (from(value, rocfire::lowest(left)) == value) same |= 1ull << rank;
        }
        return same;
    }
    template <typename T>
    ROCFIRE_GROUP unsigned long long match_all(T value, int &same) const {
        same = all(from(value, rocfire::lowest(mask_)) == value);
        return same != 0 ? (size_ == 64 ? ~0ull : (1ull << size_) - 1) : 0;
    }
};

template <unsigned, class = void>
class thread_block_tile;

class coalesced_group : public rocfire_lanes {
    ROCFIRE_GROUP coalesced_group(unsigned long long mask, unsigned rank, unsigned size)
        : rocfire_lanes(rocfire_any_tile, __popcll(mask), mask) {
        meta_rank_ = rank, meta_size_ = size;
    }
    friend ROCFIRE_GROUP coalesced_group coalesced_threads();
    friend ROCFIRE_GROUP coalesced_group tiled_partition(const coalesced_group &parent, unsigned size);
    friend ROCFIRE_GROUP coalesced_group binary_partition(const coalesced_group &parent, bool predicate);
    template <unsigned, class>
    friend class thread_block_tile;
};
ROCFIRE_GROUP coalesced_group coalesced_threads() { return coalesced_group(__activemask(), 0, 1); }

// The members with ranks of one multiple of `size`.
ROCFIRE_GROUP coalesced_group tiled_partition(const coalesced_group &parent, unsigned size) {
    unsigned rank = parent.thread_rank(), first = rank - rank % size, place = 0;
    unsigned long long mask = 0;
    for (unsigned long long left = parent.mask_; left != 0; left &= left - 1, ++place) {
        if (place >= first && place < first + size) mask |= left & -left;
    }
    return coalesced_group(mask, rank / size, (parent.size() + size - 1) / size);
}
ROCFIRE_GROUP coalesced_group binary_partition(const coalesced_group &parent, bool predicate) {
    unsigned long long members = parent.votes(predicate);
    return coalesced_group(predicate ? members : parent.mask_ & ~members, predicate ? 0 : 1, 2);
}

// A tile of `size` neighbours in a wave.
template <unsigned size_of_tile, class Parent>
class thread_block_tile : public rocfire_lanes {
    static_assert((size_of_tile & (size_of_tile - 1)) == 0 && size_of_tile <= rocfire::widest,
                  "a tile is a power of two, and within a wave");
    static ROCFIRE_GROUP unsigned first() { return __lane_id() & ~(size_of_tile - 1); }
    static ROCFIRE_GROUP unsigned long long mask() { return rocfire::neighbours(size_of_tile); }
    static ROCFIRE_GROUP int lane(unsigned rank) { return (int)(first() + (rank & (size_of_tile - 1))); }

   public:
    template <class Group>
    explicit ROCFIRE_GROUP thread_block_tile(const Group &parent) : rocfire_lanes(rocfire_any_tile, size_of_tile, mask()) {
        meta_rank_ = parent.thread_rank() / size_of_tile;
        meta_size_ = (parent.size() + size_of_tile - 1) / size_of_tile;
    }
    // Of whatever group it is a tile.
    template <class Other>
    ROCFIRE_GROUP thread_block_tile(const thread_block_tile<size_of_tile, Other> &same)
        : rocfire_lanes(rocfire_any_tile, size_of_tile, mask()) {
        meta_rank_ = same.meta_group_rank(), meta_size_ = same.meta_group_size();
    }
    // Neighbours need no counting.
    static constexpr ROCFIRE_GROUP unsigned size() { return size_of_tile; }
    static constexpr ROCFIRE_GROUP unsigned num_threads() { return size_of_tile; }
    static ROCFIRE_GROUP unsigned thread_rank() { return __lane_id() & (size_of_tile - 1); }
    // Of the member with this rank; who asks beyond the tile keeps its own.
    template <typename T>
    static ROCFIRE_GROUP T from_rank(T value, unsigned rank) {
        return rocfire::from_lane(mask(), value, rank < size_of_tile ? lane(rank) : (int)__lane_id());
    }
    template <typename T>
    static ROCFIRE_GROUP T shfl(T value, int rank) { return rocfire::from_lane(mask(), value, lane((unsigned)rank)); }
    template <typename T>
    static ROCFIRE_GROUP T shfl_down(T value, unsigned by) { return from_rank(value, thread_rank() + by); }
    template <typename T>
    static ROCFIRE_GROUP T shfl_up(T value, unsigned by) { return from_rank(value, thread_rank() - by); }
    template <typename T>
    static ROCFIRE_GROUP T shfl_xor(T value, unsigned by) { return from_rank(value, thread_rank() ^ by); }
    static ROCFIRE_GROUP unsigned long long ballot(int predicate) {
        return rocfire::ballot(mask(), predicate) >> first();
    }
    ROCFIRE_GROUP coalesced_group rocfire_split(bool predicate) const {
        unsigned long long members = votes(predicate);
        return coalesced_group(predicate ? members : mask_ & ~members, predicate ? 0 : 1, 2);
    }
};
template <unsigned size, class Parent>
ROCFIRE_GROUP coalesced_group binary_partition(const thread_block_tile<size, Parent> &tile, bool predicate) {
    return tile.rocfire_split(predicate);
}

template <unsigned size, class Parent>
ROCFIRE_GROUP thread_block_tile<size, Parent> tiled_partition(const Parent &parent) {
    return thread_block_tile<size, Parent>(parent);
}
ROCFIRE_GROUP thread_group tiled_partition(const thread_group &parent, unsigned size) {
    if (parent.kind_ == rocfire_any_tile) {
        unsigned rank = parent.thread_rank(), first = rank - rank % size, place = 0;
        unsigned long long mask = 0;
        for (unsigned long long left = parent.mask_; left != 0; left &= left - 1, ++place) {
            if (place >= first && place < first + size) mask |= left & -left;
        }
        thread_group tile(rocfire_any_tile, size, mask);
        tile.meta_rank_ = rank / size, tile.meta_size_ = parent.size() / size;
        return tile;
    }
    thread_group tile(rocfire_any_tile, size, rocfire::neighbours(size));
    tile.meta_rank_ = parent.thread_rank() / size, tile.meta_size_ = (parent.size() + size - 1) / size;
    return tile;
}

template <class Group>
ROCFIRE_GROUP void sync(const Group &group) { group.sync(); }
template <class Group>
ROCFIRE_GROUP unsigned thread_rank(const Group &group) { return group.thread_rank(); }
template <class Group>
ROCFIRE_GROUP unsigned group_size(const Group &group) { return group.size(); }
template <class Group>
ROCFIRE_GROUP bool is_valid(const Group &group) { return group.is_valid(); }

#undef ROCFIRE_GROUP

}  // namespace cooperative_groups
#endif
