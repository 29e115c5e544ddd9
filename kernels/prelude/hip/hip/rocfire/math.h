// math.h: the device library behind clang's <math.h> for HIP, made of rocfire's prelude: within 2 ulp for float and 4 for
// double, the same bits on every device.
//
// The prelude stands in front of a custom kernel already; a program gets the part of it that is arithmetic here.
#ifndef ROCFIRE_HIP_MATH_H
#define ROCFIRE_HIP_MATH_H
#pragma clang system_header

// Contracted expressions would round otherwise than what is written here.
#pragma float_control(push)
#pragma clang fp contract(off)

#ifndef ROCFIRE_MATH_F32_H
// What follows takes nothing from the table of architectures but that it is AMD's; arch.h asks for all of it. Where a runtime
// compiler puts this header in front of rocfire's own kernels, the table is there.
#ifndef ARCH_AMD
#define ROCFIRE_HIP_WITHOUT_TABLE
#define ARCH_AMD 1
#define ARCH_WAVE_SIZE 0
#define ARCH_LDS_BYTES 0
#define ARCH_MATRIX 0
#define ARCH_MFMA_GENERATION 0
#endif
#include <hip/rocfire/prelude/arch.h>
#ifdef ROCFIRE_HIP_WITHOUT_TABLE
#undef ROCFIRE_HIP_WITHOUT_TABLE
#undef ARCH_AMD
#undef ARCH_WAVE_SIZE
#undef ARCH_LDS_BYTES
#undef ARCH_MATRIX
#undef ARCH_MFMA_GENERATION
#endif
#include <hip/rocfire/prelude/types.h>
#include <hip/rocfire/prelude/math.h>
#include <hip/rocfire/prelude/math_f64.h>
#include <hip/rocfire/prelude/math_f32.h>
#endif

#define ROCFIRE_LIBRARY extern "C" __device__ inline __attribute__((always_inline))

#define ROCFIRE_ONE(name)                                                          \
    ROCFIRE_LIBRARY float __ocml_##name##_f32(float x) { return rf::name(x); }     \
    ROCFIRE_LIBRARY double __ocml_##name##_f64(double x) { return rf::name(x); }
ROCFIRE_ONE(acos)
ROCFIRE_ONE(acosh)
ROCFIRE_ONE(asin)
ROCFIRE_ONE(asinh)
ROCFIRE_ONE(atan)
ROCFIRE_ONE(atanh)
ROCFIRE_ONE(cos)
ROCFIRE_ONE(cosh)
ROCFIRE_ONE(erf)
ROCFIRE_ONE(exp)
ROCFIRE_ONE(exp2)
ROCFIRE_ONE(expm1)
ROCFIRE_ONE(log)
ROCFIRE_ONE(log10)
ROCFIRE_ONE(log1p)
ROCFIRE_ONE(log2)
ROCFIRE_ONE(rsqrt)
ROCFIRE_ONE(sin)
ROCFIRE_ONE(sinh)
ROCFIRE_ONE(sqrt)
ROCFIRE_ONE(tan)
ROCFIRE_ONE(tanh)
#undef ROCFIRE_ONE

#define ROCFIRE_TWO(name)                                                                       \
    ROCFIRE_LIBRARY float __ocml_##name##_f32(float x, float y) { return rf::name(x, y); }      \
    ROCFIRE_LIBRARY double __ocml_##name##_f64(double x, double y) { return rf::name(x, y); }
ROCFIRE_TWO(atan2)
ROCFIRE_TWO(fmod)
ROCFIRE_TWO(hypot)
ROCFIRE_TWO(pow)
#undef ROCFIRE_TWO

// clang hands over places in private memory.
#define ROCFIRE_PRIVATE __attribute__((opencl_private))
ROCFIRE_LIBRARY float __ocml_sincos_f32(float x, ROCFIRE_PRIVATE float *cosine) {
    float s, c;
    rf::sincos(x, &s, &c);
    *cosine = c;
    return s;
}
ROCFIRE_LIBRARY double __ocml_sincos_f64(double x, ROCFIRE_PRIVATE double *cosine) {
    double s, c;
    rf::sincos(x, &s, &c);
    *cosine = c;
    return s;
}
// The hardware's own, which takes revolutions.
ROCFIRE_LIBRARY float __ocml_native_cos_f32(float x) { return __builtin_amdgcn_cosf(x * 0x1.45f306p-3f); }
ROCFIRE_LIBRARY float __ocml_native_sin_f32(float x) { return __builtin_amdgcn_sinf(x * 0x1.45f306p-3f); }
ROCFIRE_LIBRARY float __ocml_native_sqrt_f32(float x) { return __builtin_amdgcn_sqrtf(x); }

// The rest comes once for each type.
#define ROCFIRE_REAL float
#define ROCFIRE_NAME(name) __ocml_##name##_f32
#define ROCFIRE_BITS uint32_t
#define ROCFIRE_MANTISSA 23
#include <hip/rocfire/parts.h>
#define ROCFIRE_REAL double
#define ROCFIRE_NAME(name) __ocml_##name##_f64
#define ROCFIRE_BITS uint64_t
#define ROCFIRE_MANTISSA 52
#include <hip/rocfire/parts.h>
#pragma float_control(pop)

#endif
