// clang.h: what clang brings for HIP, and HIP's keywords beside it.
//
// clang's wrapper declares the functions of <math.h> and <cmath> for device code, over a device library (`__ocml_…`) that
// math.h and special.h here are. Whole programs have it in front of everything (`bin/hipcc`), because it must come before
// <cmath> does.
#ifndef ROCFIRE_HIP_CLANG_H
#define ROCFIRE_HIP_CLANG_H

#include <__clang_hip_runtime_wrapper.h>

#if defined(__HIPCC_RTC__)
#include <hip/rocfire/integers.h>
#else
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#endif

// Threads of a workgroup, and optionally waves of a SIMD. clang has an attribute of CUDA's name that AMD's backend ignores.
#define ROCFIRE_LAUNCH_THREADS(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define ROCFIRE_LAUNCH_WAVES(threads, waves) ROCFIRE_LAUNCH_THREADS(threads) __attribute__((amdgpu_waves_per_eu(waves)))
#define ROCFIRE_LAUNCH_PICK(first, second, name, ...) name
#undef __launch_bounds__
#define __launch_bounds__(...) \
    ROCFIRE_LAUNCH_PICK(__VA_ARGS__, ROCFIRE_LAUNCH_WAVES, ROCFIRE_LAUNCH_THREADS, )(__VA_ARGS__)
#define __forceinline__ inline __attribute__((always_inline))
// `__noinline__` is clang's own keyword for HIP; as a macro it would break what the C++ library writes with it.
#define __hip_img_chk__
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

#define HIP_SYMBOL(symbol) symbol
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define HIP_DYNAMIC_SHARED_ATTRIBUTE

// What programs ask before they use it: all of AMD's devices say the same.
#define __HIP_ARCH_HAS_GLOBAL_INT32_ATOMICS__ 1
#define __HIP_ARCH_HAS_GLOBAL_FLOAT_ATOMIC_EXCH__ 1
#define __HIP_ARCH_HAS_SHARED_INT32_ATOMICS__ 1
#define __HIP_ARCH_HAS_SHARED_FLOAT_ATOMIC_EXCH__ 1
#define __HIP_ARCH_HAS_FLOAT_ATOMIC_ADD__ 1
#define __HIP_ARCH_HAS_GLOBAL_INT64_ATOMICS__ 1
#define __HIP_ARCH_HAS_SHARED_INT64_ATOMICS__ 1
#define __HIP_ARCH_HAS_DOUBLES__ 1
#define __HIP_ARCH_HAS_WARP_VOTE__ 1
#define __HIP_ARCH_HAS_WARP_BALLOT__ 1
#define __HIP_ARCH_HAS_WARP_SHUFFLE__ 1
#define __HIP_ARCH_HAS_WARP_FUNNEL_SHIFT__ 0
#define __HIP_ARCH_HAS_THREAD_FENCE_SYSTEM__ 1
#define __HIP_ARCH_HAS_SYNC_THREAD_EXT__ 0
#define __HIP_ARCH_HAS_SURFACE_FUNCS__ 0
#define __HIP_ARCH_HAS_3DGRID__ 1
#define __HIP_ARCH_HAS_DYNAMIC_PARALLEL__ 0

#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#define HIP_INF_F __builtin_inff()
#define HIP_NAN_F __builtin_nanf("")
#define HIP_INF __builtin_inf()
#define HIP_NAN __builtin_nan("")

#define ROCFIRE_DEVICE static __device__ inline __attribute__((always_inline, unused))
#define ROCFIRE_BOTH static __host__ __device__ inline __attribute__((always_inline, unused))

// The bits of a value as another type of the same size.
template <typename To, typename From>
ROCFIRE_BOTH To rocfire_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits in as out");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

#endif
