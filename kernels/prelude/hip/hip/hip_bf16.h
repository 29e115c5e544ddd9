// hip_bf16.h: __hip_bfloat16 and __hip_bfloat162, the upper halves of floats.
#ifndef ROCFIRE_HIP_BF16_H
#define ROCFIRE_HIP_BF16_H
#include <hip/hip_runtime.h>
#if defined(__CUDACC_RTC__)
#define ROCFIRE_BOTH static __device__ inline
#define ROCFIRE_MEMBER __device__
template <typename To, typename From>
ROCFIRE_BOTH To rocfire_bits(From from) { return rf::bit_cast<To>(from); }
#else
#pragma clang system_header
#define ROCFIRE_MEMBER __host__ __device__
#endif

struct __hip_bfloat16_raw {
    unsigned short x;
};
struct __hip_bfloat162_raw {
    unsigned short x, y;
};

// To nearest, ties to even; a NaN stays one.
ROCFIRE_BOTH unsigned short rocfire_bf16_of(float x) {
    unsigned bits = rocfire_bits<unsigned>(x);
    return (unsigned short)((x == x ? bits + 0x7fffu + (bits >> 16 & 1u) : bits | 0x400000u) >> 16);
}

struct __hip_bfloat16 {
    unsigned short __x;
    __hip_bfloat16() = default;
    ROCFIRE_MEMBER __hip_bfloat16(float x) : __x(rocfire_bf16_of(x)) {}
    ROCFIRE_MEMBER __hip_bfloat16(double x) : __hip_bfloat16(odd(x)) {}
    ROCFIRE_MEMBER __hip_bfloat16(int x) : __hip_bfloat16((double)x) {}
    ROCFIRE_MEMBER __hip_bfloat16(unsigned x) : __hip_bfloat16((double)x) {}
    ROCFIRE_MEMBER __hip_bfloat16(__hip_bfloat16_raw x) : __x(x.x) {}
    ROCFIRE_MEMBER operator float() const { return value(); }
    ROCFIRE_MEMBER operator __hip_bfloat16_raw() const { return __hip_bfloat16_raw{__x}; }
    ROCFIRE_MEMBER float value() const { return rocfire_bits<float>((unsigned)__x << 16); }
    ROCFIRE_MEMBER unsigned short bits() const { return __x; }
    static ROCFIRE_MEMBER __hip_bfloat16 of(float x) { return __hip_bfloat16(x); }
    static ROCFIRE_MEMBER __hip_bfloat16 of_bits(unsigned short bits) {
        return __hip_bfloat16(__hip_bfloat16_raw{bits});
    }
    // A float whose last bit says that something was cut off, so that it can be rounded again.
    static ROCFIRE_MEMBER float odd(double x) {
        float y = (float)x;
        unsigned bits = rocfire_bits<unsigned>(y);
        if (x != x || (double)y == x || (bits & 1) != 0) return y;
        double size = x < 0 ? -x : x, rounded = y < 0 ? -(double)y : (double)y;
        return rocfire_bits<float>(rounded > size ? bits - 1 : bits + 1);
    }
};

struct alignas(4) __hip_bfloat162 {
    __hip_bfloat16 x, y;
    __hip_bfloat162() = default;
    ROCFIRE_MEMBER __hip_bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) : x(x), y(y) {}
};

#define ROCFIRE_HALF __hip_bfloat16
#define ROCFIRE_PAIR __hip_bfloat162
#define ROCFIRE_FMA(a, b, c) __hip_bfloat16::of(__builtin_fmaf(a.value(), b.value(), c.value()))
#include <hip/rocfire/halves.h>

// Between types.
ROCFIRE_BOTH float __bfloat162float(__hip_bfloat16 a) { return a.value(); }
ROCFIRE_BOTH __hip_bfloat16 __float2bfloat16(float x) { return __hip_bfloat16(x); }
ROCFIRE_BOTH __hip_bfloat16 __double2bfloat16(double x) { return __hip_bfloat16(x); }
ROCFIRE_BOTH short __bfloat16_as_short(__hip_bfloat16 a) { return (short)a.bits(); }
ROCFIRE_BOTH unsigned short __bfloat16_as_ushort(__hip_bfloat16 a) { return a.bits(); }
ROCFIRE_BOTH __hip_bfloat16 __short_as_bfloat16(short bits) { return __hip_bfloat16::of_bits((unsigned short)bits); }
ROCFIRE_BOTH __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __hip_bfloat16::of_bits(bits); }

// Pairs.
ROCFIRE_BOTH __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) { return {x, y}; }
ROCFIRE_BOTH __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 x) { return {x, x}; }
ROCFIRE_BOTH __hip_bfloat162 __float22bfloat162_rn(float2 a) { return {__hip_bfloat16(a.x), __hip_bfloat16(a.y)}; }
ROCFIRE_BOTH float2 __bfloat1622float2(__hip_bfloat162 a) { return make_float2(a.x.value(), a.y.value()); }
ROCFIRE_BOTH __hip_bfloat16 __low2bfloat16(__hip_bfloat162 a) { return a.x; }
ROCFIRE_BOTH __hip_bfloat16 __high2bfloat16(__hip_bfloat162 a) { return a.y; }
ROCFIRE_BOTH __hip_bfloat162 __low2bfloat162(__hip_bfloat162 a) { return {a.x, a.x}; }
ROCFIRE_BOTH __hip_bfloat162 __high2bfloat162(__hip_bfloat162 a) { return {a.y, a.y}; }
ROCFIRE_BOTH __hip_bfloat162 __lows2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return {a.x, b.x}; }
ROCFIRE_BOTH __hip_bfloat162 __highs2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return {a.y, b.y}; }

// CUDA's, which AMD's headers do not have in every release: templates, so that a program may have its own beside them.
#define ROCFIRE_SOME template <typename T> ROCFIRE_BOTH
ROCFIRE_SOME __hip_bfloat16 __float2bfloat16_rn(T x) { return __hip_bfloat16((float)x); }
ROCFIRE_SOME __hip_bfloat16 __int2bfloat16_rn(T x) { return __hip_bfloat16((int)x); }
ROCFIRE_SOME __hip_bfloat162 __float2bfloat162_rn(T x) { return {__hip_bfloat16((float)x), __hip_bfloat16((float)x)}; }
ROCFIRE_SOME __hip_bfloat162 __floats2bfloat162_rn(T x, T y) { return {__hip_bfloat16((float)x), __hip_bfloat16((float)y)}; }
ROCFIRE_SOME __hip_bfloat162 make_bfloat162(T x, T y) { return {x, y}; }
#undef ROCFIRE_SOME

#define HIPRT_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)
#define HIPRT_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0)
#define HIPRT_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000)
#define HIPRT_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define HIPRT_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)
#define HIPRT_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7f)
#define HIPRT_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)1)

#undef ROCFIRE_MEMBER
#if defined(__CUDACC_RTC__)
#undef ROCFIRE_BOTH
#endif
#endif
