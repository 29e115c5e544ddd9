// hip_fp8.h: numbers of eight bits: e4m3 and e5m2 as the Open Compute Project's standard has them, and in the forms of
// CDNA 3 (`_fnuz`), which have neither infinities nor a negative zero.
#ifndef ROCFIRE_HIP_FP8_H
#define ROCFIRE_HIP_FP8_H
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
#if defined(__CUDACC_RTC__)
#define ROCFIRE_BOTH static __device__ inline
#define ROCFIRE_MEMBER __device__
#else
#pragma clang system_header
#define ROCFIRE_MEMBER __host__ __device__
#endif

typedef unsigned char __hip_fp8_storage_t;
typedef unsigned short __hip_fp8x2_storage_t;
typedef unsigned int __hip_fp8x4_storage_t;
typedef enum __hip_saturation_t { __HIP_NOSAT = 0, __HIP_SATFINITE = 1 } __hip_saturation_t;
typedef enum __hip_fp8_interpretation_t {
    __HIP_E4M3 = 0,
    __HIP_E5M2 = 1,
    __HIP_E4M3_FNUZ = 2,
    __HIP_E5M2_FNUZ = 3,
} __hip_fp8_interpretation_t;

struct rocfire_fp8_kind {
    int mantissa, bias, largest, nan, infinity;
};
// Bits of the mantissa, bias of the exponent, codes without sign of the largest number, of NaN, and of infinity or none.
ROCFIRE_BOTH rocfire_fp8_kind rocfire_fp8(__hip_fp8_interpretation_t kind) {
    switch (kind) {
        case __HIP_E4M3: return {3, 7, 0x7e, 0x7f, -1};
        case __HIP_E5M2: return {2, 15, 0x7b, 0x7f, 0x7c};
        case __HIP_E4M3_FNUZ: return {3, 8, 0x7f, 0x80, -1};
        default: return {2, 16, 0x7f, 0x80, -1};
    }
}
ROCFIRE_BOTH bool rocfire_fp8_fnuz(__hip_fp8_interpretation_t kind) { return kind >= __HIP_E4M3_FNUZ; }

// 2^exponent, for an exponent of a normal float.
ROCFIRE_BOTH float rocfire_power(int exponent) { return rocfire_bits<float>((unsigned)(exponent + 127) << 23); }

ROCFIRE_BOTH float rocfire_fp8_value(unsigned code, __hip_fp8_interpretation_t kind) {
    rocfire_fp8_kind k = rocfire_fp8(kind);
    unsigned low = code & 0x7f;
    float nan = rocfire_bits<float>(0x7fc00000u), infinity = rocfire_bits<float>(0x7f800000u);
    if (rocfire_fp8_fnuz(kind) ? code == 0x80 : low > (unsigned)k.largest && (int)low != k.infinity) return nan;
    int exponent = (int)(low >> k.mantissa), part = (int)(low & ((1u << k.mantissa) - 1));
    float size = exponent == 0 ? part * rocfire_power(1 - k.bias - k.mantissa)
                               : (part + (1 << k.mantissa)) * rocfire_power(exponent - k.bias - k.mantissa);
    if ((int)low == k.infinity) size = infinity;
    return (code & 0x80) != 0 ? -size : size;
}
// Whether infinity is left out of saturation: AMD's conversion leaves it to the instruction where there is one.
ROCFIRE_BOTH bool rocfire_fp8_leaves_infinity(__hip_fp8_interpretation_t kind) {
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
    return rocfire_fp8_fnuz(kind);
#elif defined(__gfx950__) || defined(__gfx1200__) || defined(__gfx1201__)
    return !rocfire_fp8_fnuz(kind);
#else
    (void)kind;
    return false;
#endif
}
// To nearest, ties to even. What is too large becomes the largest number, or without saturation NaN or infinity.
ROCFIRE_BOTH unsigned char rocfire_fp8_of(float x, __hip_saturation_t saturate, __hip_fp8_interpretation_t kind) {
    rocfire_fp8_kind k = rocfire_fp8(kind);
    unsigned bits = rocfire_bits<unsigned>(x), sign = bits >> 24 & 0x80;
    if (x != x) return (unsigned char)(rocfire_fp8_fnuz(kind) ? 0x80 : sign | k.nan);
    if ((bits & 0x7fffffff) == 0x7f800000 && rocfire_fp8_leaves_infinity(kind)) saturate = __HIP_NOSAT;
    int exponent = (int)(bits >> 23 & 0xff) - 127;
    unsigned whole = (bits & 0x7fffff) | (exponent == -127 ? 0 : 0x800000);
    // How many of the float's bits go: more for what becomes subnormal.
    int least = 1 - k.bias, drop = 23 - k.mantissa + (exponent < least ? least - exponent : 0);
    unsigned code = 0;
    if (drop < 26) {
        unsigned kept = whole >> drop, rest = whole & ((1u << drop) - 1), half = 1u << (drop - 1);
        kept += rest > half || (rest == half && (kept & 1) != 0);
        code = exponent < least ? kept : kept + ((unsigned)(exponent - least) << k.mantissa);
    }
    if (exponent == 128 || code > (unsigned)k.largest) {
        bool keep = saturate == __HIP_SATFINITE && exponent != 128;
        if (rocfire_fp8_fnuz(kind)) return (unsigned char)(saturate == __HIP_SATFINITE ? sign | k.largest : 0x80);
        code = keep || saturate == __HIP_SATFINITE ? k.largest : k.infinity >= 0 ? k.infinity : k.nan;
    }
    return (unsigned char)(rocfire_fp8_fnuz(kind) && code == 0 ? 0 : sign | code);
}

ROCFIRE_BOTH __hip_fp8_storage_t __hip_cvt_float_to_fp8(float x, __hip_saturation_t saturate,
                                                        __hip_fp8_interpretation_t kind) {
    return rocfire_fp8_of(x, saturate, kind);
}
ROCFIRE_BOTH __hip_fp8_storage_t __hip_cvt_double_to_fp8(double x, __hip_saturation_t saturate,
                                                         __hip_fp8_interpretation_t kind) {
    return rocfire_fp8_of(__hip_bfloat16::odd(x), saturate, kind);
}
ROCFIRE_BOTH __hip_fp8_storage_t __hip_cvt_halfraw_to_fp8(__half_raw x, __hip_saturation_t saturate,
                                                          __hip_fp8_interpretation_t kind) {
    return rocfire_fp8_of(__half(x).value(), saturate, kind);
}
ROCFIRE_BOTH __half_raw __hip_cvt_fp8_to_halfraw(__hip_fp8_storage_t x, __hip_fp8_interpretation_t kind) {
    return __half_raw{__half(rocfire_fp8_value(x, kind)).bits()};
}
ROCFIRE_BOTH __hip_fp8x2_storage_t __hip_cvt_float2_to_fp8x2(float2 x, __hip_saturation_t saturate,
                                                             __hip_fp8_interpretation_t kind) {
    return (__hip_fp8x2_storage_t)(rocfire_fp8_of(x.x, saturate, kind) | rocfire_fp8_of(x.y, saturate, kind) << 8);
}
ROCFIRE_BOTH __hip_fp8x2_storage_t __hip_cvt_double2_to_fp8x2(double2 x, __hip_saturation_t saturate,
                                                              __hip_fp8_interpretation_t kind) {
    return __hip_cvt_float2_to_fp8x2(make_float2(__hip_bfloat16::odd(x.x), __hip_bfloat16::odd(x.y)), saturate, kind);
}
ROCFIRE_BOTH __hip_fp8_storage_t __hip_cvt_bfloat16raw_to_fp8(__hip_bfloat16_raw x, __hip_saturation_t saturate,
                                                              __hip_fp8_interpretation_t kind) {
    return rocfire_fp8_of(__hip_bfloat16(x).value(), saturate, kind);
}
ROCFIRE_BOTH __hip_fp8x2_storage_t __hip_cvt_bfloat16raw2_to_fp8x2(__hip_bfloat162_raw x, __hip_saturation_t saturate,
                                                                   __hip_fp8_interpretation_t kind) {
    __hip_bfloat16_raw first = {x.x}, second = {x.y};
    return (__hip_fp8x2_storage_t)(__hip_cvt_bfloat16raw_to_fp8(first, saturate, kind) |
                                   __hip_cvt_bfloat16raw_to_fp8(second, saturate, kind) << 8);
}
ROCFIRE_BOTH __hip_fp8x2_storage_t __hip_cvt_halfraw2_to_fp8x2(__half2_raw x, __hip_saturation_t saturate,
                                                               __hip_fp8_interpretation_t kind) {
    __half_raw first = {x.x}, second = {x.y};
    return (__hip_fp8x2_storage_t)(__hip_cvt_halfraw_to_fp8(first, saturate, kind) |
                                   __hip_cvt_halfraw_to_fp8(second, saturate, kind) << 8);
}
ROCFIRE_BOTH __half2_raw __hip_cvt_fp8x2_to_halfraw2(__hip_fp8x2_storage_t x, __hip_fp8_interpretation_t kind) {
    return __half2_raw{__hip_cvt_fp8_to_halfraw(x & 0xff, kind).x, __hip_cvt_fp8_to_halfraw(x >> 8, kind).x};
}

#define ROCFIRE_FP8(name, kind)                                                                          \
    struct __hip_fp8_##name {                                                                            \
        static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE;                      \
        static constexpr __hip_fp8_interpretation_t __default_interpret = kind;                          \
        __hip_fp8_storage_t __x;                                                                         \
        __hip_fp8_##name() = default;                                                                    \
        ROCFIRE_MEMBER __hip_fp8_##name(float x) : __x(rocfire_fp8_of(x, __HIP_SATFINITE, kind)) {} \
        ROCFIRE_MEMBER __hip_fp8_##name(double x) : __hip_fp8_##name(__hip_bfloat16::odd(x)) {}  \
        ROCFIRE_MEMBER __hip_fp8_##name(int x) : __hip_fp8_##name((double)x) {}                 \
        ROCFIRE_MEMBER __hip_fp8_##name(__half x) : __hip_fp8_##name(x.value()) {}              \
        ROCFIRE_MEMBER __hip_fp8_##name(__hip_bfloat16 x) : __hip_fp8_##name(x.value()) {}      \
        ROCFIRE_MEMBER __hip_fp8_##name(unsigned x) : __hip_fp8_##name((double)x) {}            \
        ROCFIRE_MEMBER __hip_fp8_##name(long x) : __hip_fp8_##name((double)x) {}                \
        ROCFIRE_MEMBER __hip_fp8_##name(unsigned long x) : __hip_fp8_##name((double)x) {}       \
        ROCFIRE_MEMBER __hip_fp8_##name(long long x) : __hip_fp8_##name((double)x) {}           \
        ROCFIRE_MEMBER __hip_fp8_##name(unsigned long long x) : __hip_fp8_##name((double)x) {}  \
        ROCFIRE_MEMBER operator float() const { return rocfire_fp8_value(__x, kind); }                   \
        explicit ROCFIRE_MEMBER operator __half() const { return __half(rocfire_fp8_value(__x, kind)); } \
        explicit ROCFIRE_MEMBER operator __hip_bfloat16() const {                                        \
            return __hip_bfloat16(rocfire_fp8_value(__x, kind));                                         \
        }                                                                                                \
    };                                                                                                   \
    struct __hip_fp8x2_##name {                                                                          \
        __hip_fp8x2_storage_t __x;                                                                       \
        __hip_fp8x2_##name() = default;                                                                  \
        ROCFIRE_MEMBER __hip_fp8x2_##name(float2 x)                                             \
            : __x(__hip_cvt_float2_to_fp8x2(x, __HIP_SATFINITE, kind)) {}                                \
        ROCFIRE_MEMBER __hip_fp8x2_##name(double2 x)                                            \
            : __x(__hip_cvt_double2_to_fp8x2(x, __HIP_SATFINITE, kind)) {}                               \
        ROCFIRE_MEMBER __hip_fp8x2_##name(__half2 x)                                            \
            : __hip_fp8x2_##name(make_float2(x.x.value(), x.y.value())) {}                               \
        ROCFIRE_MEMBER __hip_fp8x2_##name(__hip_bfloat162 x)                                    \
            : __hip_fp8x2_##name(make_float2(x.x.value(), x.y.value())) {}                               \
        ROCFIRE_MEMBER operator float2() const {                                                         \
            return make_float2(rocfire_fp8_value(__x & 0xff, kind), rocfire_fp8_value(__x >> 8, kind));  \
        }                                                                                                \
    };                                                                                                   \
    struct __hip_fp8x4_##name {                                                                          \
        __hip_fp8x4_storage_t __x;                                                                       \
        __hip_fp8x4_##name() = default;                                                                  \
        ROCFIRE_MEMBER __hip_fp8x4_##name(float4 x)                                             \
            : __x((unsigned)__hip_cvt_float2_to_fp8x2(make_float2(x.x, x.y), __HIP_SATFINITE, kind) |    \
                  (unsigned)__hip_cvt_float2_to_fp8x2(make_float2(x.z, x.w), __HIP_SATFINITE, kind) << 16) {} \
        ROCFIRE_MEMBER __hip_fp8x4_##name(double4 x)                                            \
            : __x((unsigned)__hip_cvt_double2_to_fp8x2(make_double2(x.x, x.y), __HIP_SATFINITE, kind) |  \
                  (unsigned)__hip_cvt_double2_to_fp8x2(make_double2(x.z, x.w), __HIP_SATFINITE, kind) << 16) {} \
        ROCFIRE_MEMBER __hip_fp8x4_##name(__half2 low, __half2 high)                                     \
            : __hip_fp8x4_##name(make_float4(low.x.value(), low.y.value(), high.x.value(), high.y.value())) {} \
        ROCFIRE_MEMBER __hip_fp8x4_##name(__hip_bfloat162 low, __hip_bfloat162 high)                     \
            : __hip_fp8x4_##name(make_float4(low.x.value(), low.y.value(), high.x.value(), high.y.value())) {} \
        ROCFIRE_MEMBER operator float4() const {                                                         \
            return make_float4(rocfire_fp8_value(__x & 0xff, kind), rocfire_fp8_value(__x >> 8 & 0xff, kind), \
                               rocfire_fp8_value(__x >> 16 & 0xff, kind), rocfire_fp8_value(__x >> 24, kind)); \
        }                                                                                                \
    };
ROCFIRE_FP8(e4m3, __HIP_E4M3)
ROCFIRE_FP8(e5m2, __HIP_E5M2)
ROCFIRE_FP8(e4m3_fnuz, __HIP_E4M3_FNUZ)
ROCFIRE_FP8(e5m2_fnuz, __HIP_E5M2_FNUZ)
#undef ROCFIRE_FP8
#undef ROCFIRE_MEMBER
#if defined(__CUDACC_RTC__)
#undef ROCFIRE_BOTH
#endif
#endif
