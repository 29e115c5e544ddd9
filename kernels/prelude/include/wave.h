// wave.h: exchange and reduction between the lanes of one wave. Every function here is called by all lanes of the wave
// (a lane that is switched off has no value to give), with results that are the same bits in every lane.
//
// A reduction combines lane i with lane i^1, then pairs, then fours, …: a balanced tree over the lane number. The
// partners within 16 lanes are reached by DPP (free of LDS), beyond by ds_swizzle or v_permlanex16, and at last by
// ds_bpermute. Mirrored rows serve as the exchange by 4 and by 8: there all lanes of a group hold the same value.
#ifndef ROCFIRE_WAVE_H
#define ROCFIRE_WAVE_H
#if !defined(RF_HOST)
namespace rf {

#define RF_DPP_XOR1 0xb1         // quad_perm:[1,0,3,2]
#define RF_DPP_XOR2 0x4e         // quad_perm:[2,3,0,1]
#define RF_DPP_HALF_MIRROR 0x141 // lane i of 8 reads lane 7-i
#define RF_DPP_MIRROR 0x140      // lane i of 16 reads lane 15-i

#if RF_DEVICE_AMD
RF_FN u32 lane() {
#if ARCH_WAVE_SIZE == 64
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
#else
    return __builtin_amdgcn_mbcnt_lo(~0u, 0u);
#endif
}
RF_FN u32 shuffle_bits(u32 value, u32 from_lane) { return __builtin_amdgcn_ds_bpermute((int)(from_lane << 2), (int)value); }
template <int CTRL> RF_FN u32 dpp_bits(u32 value) {
    return (u32)__builtin_amdgcn_update_dpp(0, (int)value, CTRL, 0xf, 0xf, true);
}
RF_FN u32 xor16_bits(u32 value) { return (u32)__builtin_amdgcn_ds_swizzle((int)value, (16 << 10) | 0x1f); }
// One bit per lane for which `condition` holds.
RF_FN u64 ballot(bool condition) {
#if ARCH_WAVE_SIZE == 64 && __has_builtin(__builtin_amdgcn_ballot_w64)
    return __builtin_amdgcn_ballot_w64(condition);
#elif ARCH_WAVE_SIZE == 64
    return __builtin_amdgcn_uicmp((u32)condition, 0u, 33);  // LLVM before 16 has only the comparison; 33 is "not equal"
#else
    return __builtin_amdgcn_ballot_w32(condition);
#endif
}
#else
RF_FN u32 lane() { return threadIdx.x % ARCH_WAVE_SIZE; }
RF_FN u32 shuffle_bits(u32 value, u32 from_lane) { return __shfl_sync(~0u, value, from_lane); }
template <int CTRL> RF_FN u32 dpp_bits(u32 value) {
    return __shfl_xor_sync(~0u, value, CTRL == RF_DPP_XOR1 ? 1 : CTRL == RF_DPP_XOR2 ? 2 : CTRL == RF_DPP_MIRROR ? 15 : 7);
}
RF_FN u32 xor16_bits(u32 value) { return __shfl_xor_sync(~0u, value, 16); }
RF_FN u64 ballot(bool condition) { return __ballot_sync(~0u, condition); }
#endif

template <class T, int WORDS> struct Words {
    template <class F> RF_FN static T each(T value, F f) {
        static_assert(sizeof(T) == 4 * WORDS, "a lane value is one or two registers");
        u32 words[WORDS];
        __builtin_memcpy(words, &value, sizeof(T));
        for (int i = 0; i < WORDS; ++i) words[i] = f(words[i]);
        T result;
        __builtin_memcpy(&result, words, sizeof(T));
        return result;
    }
};
struct FromLane { u32 lane; RF_FN u32 operator()(u32 word) const { return shuffle_bits(word, lane); } };
template <int CTRL> struct ByDpp { RF_FN u32 operator()(u32 word) const { return dpp_bits<CTRL>(word); } };
struct Xor16 { RF_FN u32 operator()(u32 word) const { return xor16_bits(word); } };

// The value that lane `from_lane` holds. T is 4 or 8 bytes.
template <class T> RF_FN T shuffle(T value, u32 from_lane) {
    FromLane f = {from_lane};
    return Words<T, sizeof(T) / 4>::each(value, f);
}
template <class T> RF_FN T shuffle_xor(T value, u32 mask) { return shuffle(value, lane() ^ mask); }
template <int CTRL, class T> RF_FN T dpp(T value) { return Words<T, sizeof(T) / 4>::each(value, ByDpp<CTRL>()); }

struct Sum { template <class T> RF_FN T operator()(T a, T b) const { return a + b; } };
struct Prod { template <class T> RF_FN T operator()(T a, T b) const { return a * b; } };
// NaN wins, as in Burn.
struct Max { template <class T> RF_FN T operator()(T a, T b) const { return a != a || a > b ? a : b; } };
struct Min { template <class T> RF_FN T operator()(T a, T b) const { return a != a || a < b ? a : b; } };

// Reduces over the wave by `op` (commutative in the bits of its result); every lane gets the result.
template <class Op, class T> RF_FN T wave_reduce(T value, Op op) {
    value = op(value, dpp<RF_DPP_XOR1>(value));
    value = op(value, dpp<RF_DPP_XOR2>(value));
    value = op(value, dpp<RF_DPP_HALF_MIRROR>(value));
    value = op(value, dpp<RF_DPP_MIRROR>(value));
    value = op(value, Words<T, sizeof(T) / 4>::each(value, Xor16()));
#if ARCH_WAVE_SIZE == 64
    value = op(value, shuffle_xor(value, 32u));
#endif
    return value;
}

// Reduces over a workgroup of `threads` lanes (a multiple of the wave size) numbered by `thread`; `scratch` is LDS for
// threads / ARCH_WAVE_SIZE values and free for use again after the next barrier. Waves are combined in order of number.
template <class Op, class T> RF_FN T group_reduce(T value, Op op, T* scratch, u32 thread, u32 threads) {
    value = wave_reduce(value, op);
    if (threads <= ARCH_WAVE_SIZE) return value;
    barrier();
    if (thread % ARCH_WAVE_SIZE == 0) scratch[thread / ARCH_WAVE_SIZE] = value;
    barrier();
    T total = scratch[0];
    for (u32 wave = 1; wave < threads / ARCH_WAVE_SIZE; ++wave) total = op(total, scratch[wave]);
    return total;
}

}  // namespace rf
#endif
#endif
