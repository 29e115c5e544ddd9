// What the RDNA line does in its own way: 16-bit halves of registers, moves between lanes, masks as wide as the wave.
#include "hip.h"

typedef _Float16 f16;
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
typedef short i16;
typedef unsigned short u16;

#if defined(WIDE)
#define WAVE 64
#define BALLOT(x) __builtin_amdgcn_ballot_w64(x)
#else
#define WAVE 32
#define BALLOT(x) (u64) __builtin_amdgcn_ballot_w32(x)
#endif

// Sums, products and the like of single halves, next to one another in memory and so in registers.
KERNEL void halves(const f16* a, const f16* b, f16* out) {
    int i = global_x();
    f16 x = a[i], y = b[i], z = a[i ^ 1];
    f16* to = out + 8 * i;
    to[0] = x + y;
    to[1] = x * y;
    to[2] = __builtin_fmaf16(x, y, z);
    to[3] = x < y ? x : y;
    to[4] = (f16)(float)((i16)x + (i16)y);
    to[5] = -x;
    to[6] = __builtin_fabsf16(x - z);
    to[7] = x < z ? y : z;
}

KERNEL void shorts(const i16* a, const u16* b, i16* out) {
    int i = global_x();
    i16 x = a[i];
    u16 y = b[i];
    i16* to = out + 8 * i;
    to[0] = x + y;
    to[1] = x * y;
    to[2] = x >> (y & 15);
    to[3] = y >> (x & 15);
    to[4] = x < (i16)y ? x : y;
    to[5] = x ^ ~y;
    to[6] = (i16)((unsigned)(x * y) >> 16);
    to[7] = (u16)x < y ? x - y : x << (y & 7);
}

KERNEL void pairs(const f16x2* a, const f16x2* b, f16x2* out) {
    int i = global_x();
    f16x2 x = a[i], y = b[i];
    out[4 * i] = x + y;
    out[4 * i + 1] = x * y.yx;
    out[4 * i + 2] = __builtin_elementwise_fma(x, y, -x);
    out[4 * i + 3] = __builtin_elementwise_max(x, y);
}

// One value a lane from every way to reach another lane.
KERNEL void lanes(const u32* x, u32* out) {
    int t = thread_x(), lane = t % WAVE;
    u32 own = x[t];
    u32* to = out + 8 * t;
    to[0] = __builtin_amdgcn_ds_bpermute(4 * ((lane + 1) & 31 | lane & 32), own);
    to[1] = __builtin_amdgcn_update_dpp(7, own, 0x111, 0xf, 0xf, false);
    to[2] = __builtin_amdgcn_permlanex16(own, own, 0x76543210, 0xfedcba98, true, false);
    to[3] = __builtin_amdgcn_ds_swizzle(own, (1 << 10) | 0x1f);
    to[4] = __builtin_amdgcn_readlane(own, 5);
    u64 mask = BALLOT(own & 1);
    to[5] = __builtin_popcountll(mask);
    to[6] = __builtin_popcountll(mask & ((1ull << lane) - 1));
    to[7] = __builtin_amdgcn_mov_dpp8(own, 0x053977);
}

KERNEL void doubles(const double* a, const double* b, double* out) {
    int i = global_x();
    double x = a[i], y = b[i];
    out[4 * i] = x / y;
    out[4 * i + 1] = __builtin_fma(x, y, 0.5);
    out[4 * i + 2] = __builtin_sqrt(x);
    out[4 * i + 3] = x < y ? x : y;
}

KERNEL void wide(const u64* a, const u64* b, u64* out) {
    int i = global_x();
    u64 x = a[i], y = b[i];
    out[4 * i] = x * y;
    out[4 * i + 1] = x / y;
    out[4 * i + 2] = x % y;
    out[4 * i + 3] = x < y ? x << (y & 63) : x >> (y & 63);
}

// Lanes of a workgroup leave a loop one after the other, with a barrier for all between.
KERNEL void uneven(u32* out) {
    __shared__ u32 sum;
    int t = thread_x();
    if (t == 0) sum = 0;
    sync();
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < t % 7; ++i) __hip_atomic_fetch_add(&sum, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
        sync();
    }
    out[t] = sum;
}
