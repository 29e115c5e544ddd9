// hip_fp16.h: __half and __half2, numbers of 16 bits after IEEE 754.
#ifndef ROCFIRE_HIP_FP16_H
#define ROCFIRE_HIP_FP16_H
#include <hip/hip_runtime.h>
#if defined(__CUDACC_RTC__)
#define ROCFIRE_BOTH static __device__ inline
#define ROCFIRE_MEMBER __device__
#else
#pragma clang system_header
#define ROCFIRE_MEMBER constexpr __host__ __device__
#endif

struct __half_raw {
    unsigned short x;
};
struct __half2_raw {
    unsigned short x, y;
};

#if defined(__CUDACC_RTC__)
struct __half {
    unsigned short raw;
    __half() = default;
    ROCFIRE_MEMBER __half(float x) : raw(rf::f32_to_f16(x).bits) {}
    ROCFIRE_MEMBER __half(double x) : raw(rf::cast<rf::f16>(x).bits) {}
    ROCFIRE_MEMBER __half(int x) : __half((float)x) {}
    ROCFIRE_MEMBER __half(unsigned x) : __half((float)x) {}
    ROCFIRE_MEMBER __half(long long x) : __half((float)x) {}
    ROCFIRE_MEMBER __half(unsigned long long x) : __half((float)x) {}
    ROCFIRE_MEMBER __half(__half_raw x) : raw(x.x) {}
    ROCFIRE_MEMBER operator float() const { return rf::to_f32(rf::f16{raw}); }
    ROCFIRE_MEMBER float value() const { return rf::to_f32(rf::f16{raw}); }
    ROCFIRE_MEMBER unsigned short bits() const { return raw; }
    static ROCFIRE_MEMBER __half of(float x) { return __half(x); }
    static __device__ __half of_bits(unsigned short bits) { return __half(__half_raw{bits}); }
};
#define ROCFIRE_FMA(a, b, c) __half::of(::fmaf(a.value(), b.value(), c.value()))
#else
struct __half {
    _Float16 data;
    __half() = default;
    ROCFIRE_MEMBER __half(_Float16 x) : data(x) {}
    ROCFIRE_MEMBER __half(float x) : data((_Float16)x) {}
    ROCFIRE_MEMBER __half(double x) : data((_Float16)x) {}
    ROCFIRE_MEMBER __half(int x) : data((_Float16)(float)x) {}
    ROCFIRE_MEMBER __half(unsigned x) : data((_Float16)(float)x) {}
    ROCFIRE_MEMBER __half(long x) : data((_Float16)(float)x) {}
    ROCFIRE_MEMBER __half(unsigned long x) : data((_Float16)(float)x) {}
    ROCFIRE_MEMBER __half(long long x) : data((_Float16)(float)x) {}
    ROCFIRE_MEMBER __half(unsigned long long x) : data((_Float16)(float)x) {}
    __host__ __device__ __half(__half_raw x) : data(rocfire_bits<_Float16>(x.x)) {}
    ROCFIRE_MEMBER operator float() const { return (float)data; }
    __host__ __device__ operator __half_raw() const { return {rocfire_bits<unsigned short>(data)}; }
    ROCFIRE_MEMBER float value() const { return (float)data; }
    __host__ __device__ unsigned short bits() const { return rocfire_bits<unsigned short>(data); }
    static ROCFIRE_MEMBER __half of(float x) { return __half(x); }
    static __host__ __device__ __half of_bits(unsigned short bits) { return rocfire_bits<_Float16>(bits); }
};
#if defined(__HIP_DEVICE_COMPILE__)
#define ROCFIRE_FMA(a, b, c) __half(__builtin_fmaf16(a.data, b.data, c.data))
#else
// A product of two is exact in double.
#define ROCFIRE_FMA(a, b, c) __half((double)a.value() * b.value() + c.value())
#endif
#endif

struct alignas(4) __half2 {
    __half x, y;
    __half2() = default;
    ROCFIRE_MEMBER __half2(__half x, __half y) : x(x), y(y) {}
    ROCFIRE_MEMBER explicit __half2(__half both) : x(both), y(both) {}
};

typedef __half half;
typedef __half2 half2;
typedef __half __fp16_storage_t;

#define ROCFIRE_HALF __half
#define ROCFIRE_PAIR __half2
#include <hip/rocfire/halves.h>

// Between types.
ROCFIRE_BOTH float __half2float(__half a) { return a.value(); }
ROCFIRE_BOTH __half __float2half(float x) { return __half(x); }
ROCFIRE_BOTH __half __float2half_rn(float x) { return __half(x); }
ROCFIRE_BOTH __half __double2half(double x) { return __half(x); }
// The neighbour of the nearest one, where rounding went the other way.
ROCFIRE_BOTH __half rocfire_half_towards(float x, bool up, bool down) {
    __half nearest(x);
    float back = nearest.value();
    unsigned short bits = nearest.bits();
    if (x != x || back == x) return nearest;
    bool negative = (bits & 0x8000) != 0;
    if (up && back < x) bits = negative ? bits == 0x8000 ? 1 : bits - 1 : bits + 1;
    if (down && back > x) bits = !negative ? bits == 0 ? 0x8001 : bits - 1 : bits + 1;
    return __half::of_bits(bits);
}
ROCFIRE_BOTH __half __float2half_ru(float x) { return rocfire_half_towards(x, true, false); }
ROCFIRE_BOTH __half __float2half_rd(float x) { return rocfire_half_towards(x, false, true); }
ROCFIRE_BOTH __half __float2half_rz(float x) { return rocfire_half_towards(x, x < 0.0f, x > 0.0f); }
// A whole number that float rounds is beyond all halves either way.
#define ROCFIRE_WHOLE(type, name)                                                                           \
    ROCFIRE_BOTH __half __##name##2half_rn(type x) { return __half((float)x); }                             \
    ROCFIRE_BOTH __half __##name##2half_ru(type x) { return __float2half_ru((float)x); }                    \
    ROCFIRE_BOTH __half __##name##2half_rd(type x) { return __float2half_rd((float)x); }                    \
    ROCFIRE_BOTH __half __##name##2half_rz(type x) { return __float2half_rz((float)x); }                    \
    static __device__ inline type __half2##name##_rn(__half a) { return rf::cast<type>(rintf(a.value())); } \
    static __device__ inline type __half2##name##_rz(__half a) { return rf::cast<type>(a.value()); }        \
    static __device__ inline type __half2##name##_rd(__half a) { return rf::cast<type>(floorf(a.value())); } \
    static __device__ inline type __half2##name##_ru(__half a) { return rf::cast<type>(ceilf(a.value())); }
ROCFIRE_WHOLE(int, int)
ROCFIRE_WHOLE(unsigned int, uint)
ROCFIRE_WHOLE(short, short)
ROCFIRE_WHOLE(unsigned short, ushort)
ROCFIRE_WHOLE(long long, ll)
ROCFIRE_WHOLE(unsigned long long, ull)
#undef ROCFIRE_WHOLE
ROCFIRE_BOTH short __half_as_short(__half a) { return (short)a.bits(); }
ROCFIRE_BOTH unsigned short __half_as_ushort(__half a) { return a.bits(); }
ROCFIRE_BOTH __half __short_as_half(short bits) { return __half::of_bits((unsigned short)bits); }
ROCFIRE_BOTH __half __ushort_as_half(unsigned short bits) { return __half::of_bits(bits); }

// Pairs.
ROCFIRE_BOTH __half2 make_half2(__half x, __half y) { return {x, y}; }
ROCFIRE_BOTH __half2 __halves2half2(__half x, __half y) { return {x, y}; }
ROCFIRE_BOTH __half2 __half2half2(__half x) { return {x, x}; }
ROCFIRE_BOTH __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
ROCFIRE_BOTH __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
ROCFIRE_BOTH __half2 __float22half2_rn(float2 a) { return {__half(a.x), __half(a.y)}; }
ROCFIRE_BOTH float2 __half22float2(__half2 a) { return make_float2(a.x.value(), a.y.value()); }
ROCFIRE_BOTH __half __low2half(__half2 a) { return a.x; }
ROCFIRE_BOTH __half __high2half(__half2 a) { return a.y; }
ROCFIRE_BOTH __half2 __low2half2(__half2 a) { return {a.x, a.x}; }
ROCFIRE_BOTH __half2 __high2half2(__half2 a) { return {a.y, a.y}; }
ROCFIRE_BOTH __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
ROCFIRE_BOTH __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
ROCFIRE_BOTH __half2 __hcmadd(__half2 a, __half2 b, __half2 c) {
    return {__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
}

#undef ROCFIRE_MEMBER
#if defined(__CUDACC_RTC__)
#undef ROCFIRE_BOTH
#endif
#endif
