// nvrtc.h: HIP's names over CUDA's, for HIP's other platform. NVRTC has most of them itself: threadIdx, the functions of
// <math.h>, atomics, float4, printf, assert.
#ifndef ROCFIRE_HIP_NVRTC_H
#define ROCFIRE_HIP_NVRTC_H

#include <hip/rocfire/integers.h>

#define __HIP_PLATFORM_NVIDIA__ 1
#define HIP_SYMBOL(symbol) symbol
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif

#define hipThreadIdx_x (threadIdx.x)
#define hipThreadIdx_y (threadIdx.y)
#define hipThreadIdx_z (threadIdx.z)
#define hipBlockIdx_x (blockIdx.x)
#define hipBlockIdx_y (blockIdx.y)
#define hipBlockIdx_z (blockIdx.z)
#define hipBlockDim_x (blockDim.x)
#define hipBlockDim_y (blockDim.y)
#define hipBlockDim_z (blockDim.z)
#define hipGridDim_x (gridDim.x)
#define hipGridDim_y (gridDim.y)
#define hipGridDim_z (gridDim.z)

// HIP's exchange between lanes has no mask: all that are on take part.
#define ROCFIRE_SHUFFLE(name, by)                                                          \
    template <typename T>                                                                  \
    static __device__ inline T name(T value, by from, int width = 32) {                    \
        return name##_sync(__activemask(), value, from, width);                            \
    }
ROCFIRE_SHUFFLE(__shfl, int)
ROCFIRE_SHUFFLE(__shfl_xor, int)
ROCFIRE_SHUFFLE(__shfl_up, unsigned)
ROCFIRE_SHUFFLE(__shfl_down, unsigned)
#undef ROCFIRE_SHUFFLE
// Votes of one wave. NVRTC has functions of these names, which return other types or refuse newer cards.
static __device__ inline unsigned long long rocfire_ballot(int predicate) {
    return __ballot_sync(__activemask(), predicate);
}
static __device__ inline int rocfire_any(int predicate) { return __any_sync(__activemask(), predicate); }
static __device__ inline int rocfire_all(int predicate) { return __all_sync(__activemask(), predicate); }
#define __ballot(predicate) rocfire_ballot(predicate)
#define __any(predicate) rocfire_any(predicate)
#define __all(predicate) rocfire_all(predicate)
static __device__ inline unsigned __lane_id() {
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
static __device__ inline long long wall_clock64() {
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
static __device__ inline unsigned __bitextract_u32(unsigned value, unsigned offset, unsigned width) {
    return (width & 31) == 0 ? 0 : (value >> (offset & 31)) & ((1u << (width & 31)) - 1);
}
static __device__ inline float unsafeAtomicAdd(float* at, float value) { return atomicAdd(at, value); }

#endif
