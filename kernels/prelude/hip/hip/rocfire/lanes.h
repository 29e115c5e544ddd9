// lanes.h: exchange between the lanes of a wave, votes, and barriers that count.
//
// The `_sync` forms take a mask of any integer type: every lane that is on takes part, as in HIP, whatever the mask says.
#ifndef ROCFIRE_HIP_LANES_H
#define ROCFIRE_HIP_LANES_H
#pragma clang system_header

ROCFIRE_DEVICE unsigned __lane_id() {
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}
// 33 is "not equal" among LLVM's comparisons of integers; the result has a bit for every lane of any wave size.
ROCFIRE_DEVICE unsigned long long __ballot(int predicate) { return __builtin_amdgcn_uicmp(predicate, 0, 33); }
ROCFIRE_DEVICE unsigned long long __ballot64(int predicate) { return __ballot(predicate); }
ROCFIRE_DEVICE unsigned long long __activemask() { return __ballot(1); }
ROCFIRE_DEVICE int __any(int predicate) { return __ballot(predicate) != 0; }
ROCFIRE_DEVICE int __all(int predicate) { return __ballot(!predicate) == 0; }
ROCFIRE_DEVICE unsigned long long __lanemask_lt() { return (1ull << __lane_id()) - 1; }
ROCFIRE_DEVICE unsigned long long __lanemask_gt() { return ~0ull << __lane_id() << 1; }
ROCFIRE_DEVICE unsigned long long __lanemask_eq() { return 1ull << __lane_id(); }
ROCFIRE_DEVICE unsigned long long __lanemask_le() { return __lanemask_lt() | __lanemask_eq(); }
ROCFIRE_DEVICE unsigned long long __lanemask_ge() { return ~__lanemask_lt(); }

// A value of any type from another lane, by words.
template <typename T>
ROCFIRE_DEVICE T rocfire_from_lane(T value, int lane) {
    int words[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    for (int &word : words) word = __builtin_amdgcn_ds_bpermute(lane * 4, word);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
template <typename T>
ROCFIRE_DEVICE T __shfl(T value, int lane, int width = __builtin_amdgcn_wavefrontsize()) {
    int own = __lane_id();
    return rocfire_from_lane(value, (own & ~(width - 1)) + (lane & (width - 1)));
}
template <typename T>
ROCFIRE_DEVICE T __shfl_xor(T value, int mask, int width = __builtin_amdgcn_wavefrontsize()) {
    int own = __lane_id(), from = own ^ mask;
    return rocfire_from_lane(value, from >= ((own + width) & ~(width - 1)) ? own : from);
}
template <typename T>
ROCFIRE_DEVICE T __shfl_down(T value, unsigned by, int width = __builtin_amdgcn_wavefrontsize()) {
    int own = __lane_id();
    return rocfire_from_lane(value, (own & (width - 1)) + (int)by >= width ? own : own + (int)by);
}
template <typename T>
ROCFIRE_DEVICE T __shfl_up(T value, unsigned by, int width = __builtin_amdgcn_wavefrontsize()) {
    int own = __lane_id();
    return rocfire_from_lane(value, (own & (width - 1)) < (int)by ? own : own - (int)by);
}

// The instructions themselves. `index` counts bytes; patterns and controls are in the encoding of the architecture.
ROCFIRE_DEVICE unsigned __mbcnt_lo(unsigned mask, unsigned sum) { return __builtin_amdgcn_mbcnt_lo(mask, sum); }
ROCFIRE_DEVICE unsigned __mbcnt_hi(unsigned mask, unsigned sum) { return __builtin_amdgcn_mbcnt_hi(mask, sum); }
ROCFIRE_DEVICE unsigned __hip_ds_bpermute(int index, unsigned value) {
    return __builtin_amdgcn_ds_bpermute(index, value);
}
ROCFIRE_DEVICE unsigned __hip_ds_permute(int index, unsigned value) { return __builtin_amdgcn_ds_permute(index, value); }
ROCFIRE_DEVICE float __hip_ds_bpermutef(int index, float value) {
    return rocfire_bits<float>(__hip_ds_bpermute(index, rocfire_bits<unsigned>(value)));
}
ROCFIRE_DEVICE float __hip_ds_permutef(int index, float value) {
    return rocfire_bits<float>(__hip_ds_permute(index, rocfire_bits<unsigned>(value)));
}
template <int pattern>
ROCFIRE_DEVICE unsigned __hip_ds_swizzle_N(unsigned value) { return __builtin_amdgcn_ds_swizzle(value, pattern); }
template <int pattern>
ROCFIRE_DEVICE float __hip_ds_swizzlef_N(float value) {
    return rocfire_bits<float>(__builtin_amdgcn_ds_swizzle(rocfire_bits<int>(value), pattern));
}
template <int control, int rows, int banks, bool zeros>
ROCFIRE_DEVICE int __hip_move_dpp_N(int value) { return __builtin_amdgcn_mov_dpp(value, control, rows, banks, zeros); }
#define __hip_ds_swizzle(value, pattern) __hip_ds_swizzle_N<(pattern)>((value))
#define __hip_ds_swizzlef(value, pattern) __hip_ds_swizzlef_N<(pattern)>((value))
#define __hip_move_dpp(value, control, rows, banks, zeros) \
    __hip_move_dpp_N<(control), (rows), (banks), (zeros)>((value))

template <typename Mask, typename T>
ROCFIRE_DEVICE T __shfl_sync(Mask, T value, int lane, int width = __builtin_amdgcn_wavefrontsize()) {
    return __shfl(value, lane, width);
}
template <typename Mask, typename T>
ROCFIRE_DEVICE T __shfl_xor_sync(Mask, T value, int mask, int width = __builtin_amdgcn_wavefrontsize()) {
    return __shfl_xor(value, mask, width);
}
template <typename Mask, typename T>
ROCFIRE_DEVICE T __shfl_down_sync(Mask, T value, unsigned by, int width = __builtin_amdgcn_wavefrontsize()) {
    return __shfl_down(value, by, width);
}
template <typename Mask, typename T>
ROCFIRE_DEVICE T __shfl_up_sync(Mask, T value, unsigned by, int width = __builtin_amdgcn_wavefrontsize()) {
    return __shfl_up(value, by, width);
}
template <typename Mask>
ROCFIRE_DEVICE unsigned long long __ballot_sync(Mask mask, int predicate) { return __ballot(predicate) & mask; }
template <typename Mask>
ROCFIRE_DEVICE int __any_sync(Mask mask, int predicate) { return (__ballot(predicate) & mask) != 0; }
template <typename Mask>
ROCFIRE_DEVICE int __all_sync(Mask mask, int predicate) { return (__ballot(!predicate) & mask) == 0; }
template <typename Mask>
ROCFIRE_DEVICE void __syncwarp(Mask) { __builtin_amdgcn_wave_barrier(); }
ROCFIRE_DEVICE void __syncwarp() { __builtin_amdgcn_wave_barrier(); }

// The lanes that hold the same value, and whether all do.
template <typename Mask, typename T>
ROCFIRE_DEVICE unsigned long long __match_any_sync(Mask mask, T value) {
    unsigned long long left = __activemask() & mask, same = 0;
    while (left != 0) {
        int first = __builtin_ctzll(left);
        unsigned long long group = __ballot(rocfire_from_lane(value, first) == value) & left;
        if ((group >> __lane_id() & 1) != 0) same = group;
        left &= ~group;
    }
    return same;
}
template <typename Mask, typename T>
ROCFIRE_DEVICE unsigned long long __match_all_sync(Mask mask, T value, int *all) {
    unsigned long long lanes = __activemask() & mask;
    *all = __match_any_sync(mask, value) == lanes;
    return *all ? lanes : 0;
}
template <typename T>
ROCFIRE_DEVICE unsigned long long __match_any(T value) { return __match_any_sync(~0ull, value); }
template <typename T>
ROCFIRE_DEVICE unsigned long long __match_all(T value, int *all) { return __match_all_sync(~0ull, value, all); }

// Over the lanes of a mask.
#define ROCFIRE_REDUCE(name, of)                                                                  \
    template <typename Mask, typename T>                                                             \
    ROCFIRE_DEVICE T name(Mask mask, T value) {                                                      \
        unsigned long long left = __activemask() & mask;                                          \
        T a = rocfire_from_lane(value, __builtin_ctzll(left));                                    \
        for (left &= left - 1; left != 0; left &= left - 1) {                                     \
            T b = rocfire_from_lane(value, __builtin_ctzll(left));                                \
            a = of;                                                                               \
        }                                                                                         \
        return a;                                                                                 \
    }
ROCFIRE_REDUCE(__reduce_add_sync, a + b)
ROCFIRE_REDUCE(__reduce_min_sync, b < a ? b : a)
ROCFIRE_REDUCE(__reduce_max_sync, a < b ? b : a)
ROCFIRE_REDUCE(__reduce_and_sync, a &b)
ROCFIRE_REDUCE(__reduce_or_sync, a | b)
ROCFIRE_REDUCE(__reduce_xor_sync, a ^ b)
#undef ROCFIRE_REDUCE

// Barriers that say something of all threads of the workgroup.
ROCFIRE_DEVICE int __syncthreads_count(int predicate) {
    __shared__ int count;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) count = 0;
    __syncthreads();
    unsigned long long votes = __ballot(predicate);
    if ((int)__lane_id() == __builtin_ctzll(__activemask())) atomicAdd(&count, __popcll(votes));
    __syncthreads();
    int total = count;
    __syncthreads();
    return total;
}
ROCFIRE_DEVICE int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
ROCFIRE_DEVICE int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }

#endif
