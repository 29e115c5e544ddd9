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

#define HIP_SYMBOL(symbol) symbol
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define HIP_DYNAMIC_SHARED_ATTRIBUTE

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
