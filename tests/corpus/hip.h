// The part of HIP's device interface that the corpus uses, over clang's builtins: no ROCm header, no device library.
//
// WAVE is the number of lanes of a wave, a macro of the harness. Kernels are written as HIP programs are; what HIP has no
// name for is called by its builtin.
#ifndef CORPUS_HIP_H
#define CORPUS_HIP_H
#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#endif
#define KERNEL extern "C" __global__
#define FN static __device__ inline __attribute__((always_inline))
#define NOINLINE static __device__ __attribute__((noinline))

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef _Float16 f16;
template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));

// threadIdx.x and its like, as properties: each read is the builtin.
#define CORPUS_PLACE(name, x_of, y_of, z_of)                                                   \
    struct name {                                                                              \
        __declspec(property(get = get_x)) u32 x;                                               \
        __declspec(property(get = get_y)) u32 y;                                               \
        __declspec(property(get = get_z)) u32 z;                                               \
        static __device__ __attribute__((always_inline)) u32 get_x() { return x_of; }          \
        static __device__ __attribute__((always_inline)) u32 get_y() { return y_of; }          \
        static __device__ __attribute__((always_inline)) u32 get_z() { return z_of; }          \
    };
CORPUS_PLACE(CorpusThread, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
             __builtin_amdgcn_workitem_id_z())
CORPUS_PLACE(CorpusGroup, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
             __builtin_amdgcn_workgroup_id_z())
CORPUS_PLACE(CorpusSize, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
             __builtin_amdgcn_workgroup_size_z())
CORPUS_PLACE(CorpusGrid, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
             __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
             __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z())
#undef CORPUS_PLACE
extern const __device__ __attribute__((weak)) CorpusThread threadIdx;
extern const __device__ __attribute__((weak)) CorpusGroup blockIdx;
extern const __device__ __attribute__((weak)) CorpusSize blockDim;
extern const __device__ __attribute__((weak)) CorpusGrid gridDim;

FN int global_x() { return blockIdx.x * blockDim.x + threadIdx.x; }

FN void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
FN void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }

template <class To, class From> FN To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the size stays");
    return __builtin_bit_cast(To, from);
}

// --- lanes ---

FN int lane_id() {
    int low = __builtin_amdgcn_mbcnt_lo(~0u, 0);
    return WAVE == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, low) : low;
}
FN u64 __ballot(bool condition) {
#if WAVE == 64
    return __builtin_amdgcn_ballot_w64(condition);
#else
    return __builtin_amdgcn_ballot_w32(condition);
#endif
}
FN bool __any(bool condition) { return __ballot(condition) != 0; }
FN bool __all(bool condition) { return __ballot(!condition) == 0; }
// The register of another lane. ds_bpermute of RDNA 1 to 3 stays within 32 lanes: a wave of 64 has to bring the other half
// over.
FN int from_lane(int value, int source) {
#if WAVE == 64 && defined(__GFX10__)
    int result = 0;
#pragma nounroll
    for (int lane = 0; lane < 64; ++lane) {
        int other = __builtin_amdgcn_readlane(value, lane);
        if (lane == source) result = other;
    }
    return result;
#elif WAVE == 64 && defined(__GFX11__)
    int here = __builtin_amdgcn_ds_bpermute(source << 2, value);
    int there = __builtin_amdgcn_ds_bpermute(source << 2, __builtin_amdgcn_permlane64(value));
    return (source ^ lane_id()) & 32 ? there : here;
#else
    return __builtin_amdgcn_ds_bpermute(source << 2, value);
#endif
}
template <class T> FN T __shfl(T value, int from, int width = WAVE) {
    int lane = lane_id();
    int source = (from & (width - 1)) | (lane & ~(width - 1));
    if constexpr (sizeof(T) == 8) {
        u64 bits = bits_as<u64>(value);
        u32 low = from_lane((u32)bits, source), high = from_lane((u32)(bits >> 32), source);
        return bits_as<T>((u64)high << 32 | low);
    } else {
        return bits_as<T>(from_lane(bits_as<int>(value), source));
    }
}
template <class T> FN T __shfl_xor(T value, int mask, int width = WAVE) {
    return __shfl(value, lane_id() ^ mask, width);
}
// The value of the lane `delta` below, or the own one where there is none.
template <class T> FN T __shfl_up(T value, int delta, int width = WAVE) {
    int at = lane_id() & (width - 1);
    return __shfl(value, at < delta ? at : at - delta, width);
}
template <class T> FN T __shfl_down(T value, int delta, int width = WAVE) {
    int at = lane_id() & (width - 1);
    return __shfl(value, at + delta >= width ? at : at + delta, width);
}

// --- integers ---

FN int __popc(u32 x) { return __builtin_popcount(x); }
FN int __popcll(u64 x) { return __builtin_popcountll(x); }
FN int __clz(u32 x) { return x ? __builtin_clz(x) : 32; }
FN int __clzll(u64 x) { return x ? __builtin_clzll(x) : 64; }
FN int __ffs(u32 x) { return __builtin_ffs(x); }
FN int __ffsll(u64 x) { return __builtin_ffsll(x); }
FN u32 __brev(u32 x) { return __builtin_bitreverse32(x); }
FN u64 __brevll(u64 x) { return __builtin_bitreverse64(x); }
FN u32 __umulhi(u32 a, u32 b) { return (u64)a * b >> 32; }
FN i32 __mulhi(i32 a, i32 b) { return (i64)a * b >> 32; }
FN u64 __umul64hi(u64 a, u64 b) { return (unsigned __int128)a * b >> 64; }
FN i64 __mul64hi(i64 a, i64 b) { return (__int128)a * b >> 64; }

// --- atomics ---

#define CORPUS_ATOMIC(name, builtin)                                                                     \
    template <class T> FN T name(T* address, T value) {                                                  \
        return builtin(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                      \
    }
CORPUS_ATOMIC(atomicAdd, __hip_atomic_fetch_add)
CORPUS_ATOMIC(atomicAnd, __hip_atomic_fetch_and)
CORPUS_ATOMIC(atomicOr, __hip_atomic_fetch_or)
CORPUS_ATOMIC(atomicXor, __hip_atomic_fetch_xor)
CORPUS_ATOMIC(atomicMin, __hip_atomic_fetch_min)
CORPUS_ATOMIC(atomicMax, __hip_atomic_fetch_max)
CORPUS_ATOMIC(atomicExch, __hip_atomic_exchange)
#undef CORPUS_ATOMIC
template <class T> FN T atomicSub(T* address, T value) { return atomicAdd(address, (T)-value); }
template <class T> FN T atomicCAS(T* address, T expected, T desired) {
    __hip_atomic_compare_exchange_strong(address, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}
#endif
