// device.h: HIP's names in device code, for clang alone: no ROCm headers, no ROCm device libraries.
//
// What the compiler itself can do is here: thread numbers, barriers, fences, atomics, lane operations, and the functions
// of arithmetic that it has instructions or exact sequences for. What needs ROCm's device library (sin, cos, pow, erf, …,
// printf, malloc, assert) is not, and does not compile. With ROCm installed its own headers are used instead of these.
#ifndef ROCFIRE_HIP_DEVICE_H
#define ROCFIRE_HIP_DEVICE_H

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
// Threads of a workgroup, and optionally waves of a SIMD. clang has an attribute of CUDA's name that AMD's backend ignores.
#define ROCFIRE_LAUNCH_THREADS(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define ROCFIRE_LAUNCH_WAVES(threads, waves) ROCFIRE_LAUNCH_THREADS(threads) __attribute__((amdgpu_waves_per_eu(waves)))
#define ROCFIRE_LAUNCH_PICK(first, second, name, ...) name
#define __launch_bounds__(...) \
    ROCFIRE_LAUNCH_PICK(__VA_ARGS__, ROCFIRE_LAUNCH_WAVES, ROCFIRE_LAUNCH_THREADS, )(__VA_ARGS__)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define HIP_SYMBOL(symbol) symbol
#define HIP_KERNEL_NAME(...) __VA_ARGS__

#ifdef __HIPCC_RTC__
typedef __SIZE_TYPE__ size_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#else
#include <stddef.h>
#include <stdint.h>
#endif

// Extents of a grid or a workgroup.
struct dim3 {
    uint32_t x, y, z;
    constexpr __host__ __device__ dim3(uint32_t x = 1, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
};

// Small vectors, aligned as HIP's.
#define ROCFIRE_VECTORS(type, name)                                                                              \
    struct alignas(sizeof(type)) name##1 { type x; };                                                            \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                                     \
    struct name##3 { type x, y, z; };                                                                            \
    struct alignas(sizeof(type) * 4 > 16 ? 16 : sizeof(type) * 4) name##4 { type x, y, z, w; };                  \
    static __host__ __device__ constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }               \
    static __host__ __device__ constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }    \
    static __host__ __device__ constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

ROCFIRE_VECTORS(signed char, char)
ROCFIRE_VECTORS(unsigned char, uchar)
ROCFIRE_VECTORS(short, short)
ROCFIRE_VECTORS(unsigned short, ushort)
ROCFIRE_VECTORS(int, int)
ROCFIRE_VECTORS(unsigned int, uint)
ROCFIRE_VECTORS(long, long)
ROCFIRE_VECTORS(unsigned long, ulong)
ROCFIRE_VECTORS(long long, longlong)
ROCFIRE_VECTORS(unsigned long long, ulonglong)
ROCFIRE_VECTORS(float, float)
ROCFIRE_VECTORS(double, double)
#undef ROCFIRE_VECTORS

#define ROCFIRE_DEVICE static __device__ inline __attribute__((always_inline))

// threadIdx, blockIdx, blockDim, gridDim: variables without a place, whose members are read from registers.
#define ROCFIRE_INDEX(name, of_x, of_y, of_z)                                                     \
    struct rocfire_##name {                                                                       \
        __declspec(property(get = get_x)) uint32_t x;                                             \
        __declspec(property(get = get_y)) uint32_t y;                                             \
        __declspec(property(get = get_z)) uint32_t z;                                             \
        __device__ __attribute__((always_inline)) uint32_t get_x() const { return of_x; }         \
        __device__ __attribute__((always_inline)) uint32_t get_y() const { return of_y; }         \
        __device__ __attribute__((always_inline)) uint32_t get_z() const { return of_z; }         \
        __device__ operator dim3() const { return dim3(of_x, of_y, of_z); }                       \
    };                                                                                            \
    __attribute__((unused)) static const __device__ rocfire_##name name = {};

ROCFIRE_INDEX(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
              __builtin_amdgcn_workitem_id_z())
ROCFIRE_INDEX(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
              __builtin_amdgcn_workgroup_id_z())
ROCFIRE_INDEX(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
              __builtin_amdgcn_workgroup_size_z())
ROCFIRE_INDEX(gridDim, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
              __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
              __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z())
#undef ROCFIRE_INDEX

struct rocfire_warp_size {
    __device__ __attribute__((always_inline)) operator int() const { return __builtin_amdgcn_wavefrontsize(); }
};
__attribute__((unused)) static const __device__ rocfire_warp_size warpSize = {};

// Order and waiting.
ROCFIRE_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
ROCFIRE_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
ROCFIRE_DEVICE void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
ROCFIRE_DEVICE void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
ROCFIRE_DEVICE long long wall_clock64() { return __builtin_readsteadycounter(); }
ROCFIRE_DEVICE long long clock64() { return __builtin_readcyclecounter(); }

// Atomics, ordered with nothing, as HIP's are.
#define ROCFIRE_ATOMIC(name, builtin, type)                                                       \
    ROCFIRE_DEVICE type name(type *at, type value) {                                              \
        return builtin(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                    \
    }
#define ROCFIRE_INTEGERS(name, builtin)           \
    ROCFIRE_ATOMIC(name, builtin, int)            \
    ROCFIRE_ATOMIC(name, builtin, unsigned)       \
    ROCFIRE_ATOMIC(name, builtin, long long)      \
    ROCFIRE_ATOMIC(name, builtin, unsigned long)  \
    ROCFIRE_ATOMIC(name, builtin, unsigned long long)
ROCFIRE_INTEGERS(atomicAdd, __hip_atomic_fetch_add)
ROCFIRE_INTEGERS(atomicSub, __hip_atomic_fetch_sub)
ROCFIRE_INTEGERS(atomicMin, __hip_atomic_fetch_min)
ROCFIRE_INTEGERS(atomicMax, __hip_atomic_fetch_max)
ROCFIRE_INTEGERS(atomicAnd, __hip_atomic_fetch_and)
ROCFIRE_INTEGERS(atomicOr, __hip_atomic_fetch_or)
ROCFIRE_INTEGERS(atomicXor, __hip_atomic_fetch_xor)
ROCFIRE_INTEGERS(atomicExch, __hip_atomic_exchange)
ROCFIRE_ATOMIC(atomicAdd, __hip_atomic_fetch_add, float)
ROCFIRE_ATOMIC(atomicAdd, __hip_atomic_fetch_add, double)
ROCFIRE_ATOMIC(atomicExch, __hip_atomic_exchange, float)
#undef ROCFIRE_INTEGERS
#undef ROCFIRE_ATOMIC
template <typename T>
ROCFIRE_DEVICE T atomicCAS(T *at, T expected, T value) {
    __hip_atomic_compare_exchange_strong(at, &expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}

// Lanes of a wave.
ROCFIRE_DEVICE unsigned __lane_id() {
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}
// 33 is "not equal" among LLVM's comparisons of integers; the result has a bit for every lane of any wave size.
ROCFIRE_DEVICE unsigned long long __ballot(int predicate) { return __builtin_amdgcn_uicmp(predicate, 0, 33); }
ROCFIRE_DEVICE unsigned long long __activemask() { return __ballot(1); }
ROCFIRE_DEVICE int __any(int predicate) { return __ballot(predicate) != 0; }
ROCFIRE_DEVICE int __all(int predicate) { return __ballot(!predicate) == 0; }

// A value of any type of 4·n bytes, from another lane.
template <typename T>
ROCFIRE_DEVICE T rocfire_from_lane(T value, int lane) {
    static_assert(sizeof(T) % sizeof(int) == 0, "shuffles move values of whole 32-bit words");
    int words[sizeof(T) / sizeof(int)];
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

// Bits.
ROCFIRE_DEVICE int __popc(unsigned value) { return __builtin_popcount(value); }
ROCFIRE_DEVICE int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
ROCFIRE_DEVICE int __clz(int value) { return value == 0 ? 32 : __builtin_clz(value); }
ROCFIRE_DEVICE int __clzll(long long value) { return value == 0 ? 64 : __builtin_clzll(value); }
ROCFIRE_DEVICE int __ffs(int value) { return __builtin_ffs(value); }
ROCFIRE_DEVICE int __ffsll(long long value) { return __builtin_ffsll(value); }
ROCFIRE_DEVICE unsigned __brev(unsigned value) { return __builtin_bitreverse32(value); }
ROCFIRE_DEVICE unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
ROCFIRE_DEVICE int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
ROCFIRE_DEVICE float __uint_as_float(unsigned value) { return __builtin_bit_cast(float, value); }
ROCFIRE_DEVICE float __int_as_float(int value) { return __builtin_bit_cast(float, value); }

// Arithmetic. Exponentials and logarithms are the compiler's own sequences.
#define ROCFIRE_UNARY(name)                                                             \
    ROCFIRE_DEVICE float name##f(float x) { return __builtin_##name##f(x); }            \
    ROCFIRE_DEVICE double name(double x) { return __builtin_##name(x); }
ROCFIRE_UNARY(sqrt)
ROCFIRE_UNARY(fabs)
ROCFIRE_UNARY(floor)
ROCFIRE_UNARY(ceil)
ROCFIRE_UNARY(trunc)
ROCFIRE_UNARY(rint)
ROCFIRE_UNARY(round)
#undef ROCFIRE_UNARY
ROCFIRE_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
ROCFIRE_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
ROCFIRE_DEVICE float fminf(float x, float y) { return __builtin_fminf(x, y); }
ROCFIRE_DEVICE float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
ROCFIRE_DEVICE double fmin(double x, double y) { return __builtin_fmin(x, y); }
ROCFIRE_DEVICE double fmax(double x, double y) { return __builtin_fmax(x, y); }
ROCFIRE_DEVICE float expf(float x) { return __builtin_expf(x); }
ROCFIRE_DEVICE float exp2f(float x) { return __builtin_exp2f(x); }
ROCFIRE_DEVICE float logf(float x) { return __builtin_logf(x); }
ROCFIRE_DEVICE float log2f(float x) { return __builtin_log2f(x); }
ROCFIRE_DEVICE float log10f(float x) { return __builtin_log10f(x); }
ROCFIRE_DEVICE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
#ifdef __HIPCC_RTC__
template <typename T>
ROCFIRE_DEVICE T min(T x, T y) { return y < x ? y : x; }
template <typename T>
ROCFIRE_DEVICE T max(T x, T y) { return x < y ? y : x; }
ROCFIRE_DEVICE int abs(int x) { return x < 0 ? -x : x; }
#endif

#undef ROCFIRE_DEVICE
#endif
