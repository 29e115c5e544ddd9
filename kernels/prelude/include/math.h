// math.h: basic operations, for float and double. All of them are IEEE operations or correct to the stated error on every
// device: no device library, no library call, and a fused multiply-add only where `fma` is written.
//
// The transcendental functions are in math_f32.h and math_f64.h. Their coefficients are our own minimax fits (Remez
// exchange in 200-bit arithmetic, the error weighted by the function's value and given beside each polynomial).
#ifndef ROCFIRE_MATH_H
#define ROCFIRE_MATH_H
namespace rf {

RF_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RF_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
RF_FN float abs(float x) { return __builtin_fabsf(x); }
RF_FN double abs(double x) { return __builtin_fabs(x); }
RF_FN float copysign(float magnitude, float sign) { return __builtin_copysignf(magnitude, sign); }
RF_FN double copysign(double magnitude, double sign) { return __builtin_copysign(magnitude, sign); }
RF_FN float floor(float x) { return __builtin_floorf(x); }
RF_FN double floor(double x) { return __builtin_floor(x); }
RF_FN float ceil(float x) { return __builtin_ceilf(x); }
RF_FN double ceil(double x) { return __builtin_ceil(x); }
RF_FN float trunc(float x) { return __builtin_truncf(x); }
RF_FN double trunc(double x) { return __builtin_trunc(x); }
// To the nearest integer, ties to even.
RF_FN float round_even(float x) { return __builtin_rintf(x); }
RF_FN double round_even(double x) { return __builtin_rint(x); }
// Correctly rounded.
RF_FN float sqrt(float x) { return __builtin_sqrtf(x); }
RF_FN double sqrt(double x) { return __builtin_sqrt(x); }

template <class T> RF_FN bool is_nan(T x) { return x != x; }
RF_FN bool is_inf(float x) { return abs(x) == __builtin_inff(); }
RF_FN bool is_inf(double x) { return abs(x) == __builtin_inf(); }

// The larger and the smaller of two; NaN if either is NaN.
template <class T> RF_FN T max(T a, T b) { return a != a || a > b ? a : b; }
template <class T> RF_FN T min(T a, T b) { return a != a || a < b ? a : b; }

// x * 2^exponent, rounded once.
RF_FN float ldexp(float x, int exponent) {
#if RF_DEVICE_AMD
    return __builtin_amdgcn_ldexpf(x, exponent);
#else
    return __builtin_ldexpf(x, exponent);
#endif
}
RF_FN double ldexp(double x, int exponent) {
#if RF_DEVICE_AMD
    return __builtin_amdgcn_ldexp(x, exponent);
#else
    return __builtin_ldexp(x, exponent);
#endif
}

// The same for x of [0.5, 2) and an exponent of at most 250 either way: in two products, of which the first is exact.
RF_FN float ldexp_near_one(float x, int exponent) {
#if RF_DEVICE_AMD
    return ldexp(x, exponent);
#else
    int half = exponent >> 1;
    return x * bit_cast<float>((u32)(half + 127) << 23) * bit_cast<float>((u32)(exponent - half + 127) << 23);
#endif
}

// x = mantissa * 2^exponent with the mantissa in [0.5, 1); zero, infinities and NaN give an unspecified pair.
RF_FN float frexp(float x, int* exponent) {
#if RF_DEVICE_AMD
    *exponent = __builtin_amdgcn_frexp_expf(x);
    return __builtin_amdgcn_frexp_mantf(x);
#else
    return __builtin_frexpf(x, exponent);
#endif
}
RF_FN double frexp(double x, int* exponent) {
#if RF_DEVICE_AMD
    *exponent = __builtin_amdgcn_frexp_exp(x);
    return __builtin_amdgcn_frexp_mant(x);
#else
    return __builtin_frexp(x, exponent);
#endif
}

// 1 / x to one ulp, one instruction; what is subnormal, x or the result, may count as zero. For places where the error is
// divided away.
RF_FN float rcp_fast(float x) {
#if RF_DEVICE_AMD
    return __builtin_amdgcn_rcpf(x);
#elif defined(RF_HOST)
    return 1.0f / x;
#else
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// The larger of two, NaN if either is; of two zeros either.
template <class T> RF_FN T max_of_either_zero(T a, T b) { return a != a || a > b ? a : b; }
template <class T> RF_FN T min_of_either_zero(T a, T b) { return a != a || a < b ? a : b; }
#if !RF_DEVICE_AMD && !defined(RF_HOST)
template <> RF_FN float max_of_either_zero<float>(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
template <> RF_FN float min_of_either_zero<float>(float a, float b) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
#endif

// x limited to [low, high]; NaN gives a number inside.
RF_FN float clamp_number(float x, float low, float high) {
#if RF_DEVICE_AMD
    return __builtin_amdgcn_fmed3f(x, low, high);
#else
    return __builtin_fminf(__builtin_fmaxf(x, low), high);
#endif
}

// Remainder of the division truncated towards zero, exact, with the sign of x: fmod(x, 0) and fmod(inf, y) are NaN.
// One quotient where it fits the mantissa, long division by 2^STEP per round otherwise.
template <class T, int MANTISSA, int STEP> RF_FN T fmod_any(T x, T y) {
    T a = abs(x), b = abs(y), r = a;
    if (!(b > (T)0) || !(a < (T)__builtin_inf()) || y != y) return (x * (T)0) / (y * (T)0);
    if (b == (T)__builtin_inf()) return x;
    if (a >= b) {
        int ea, eb;
        T mb = frexp(b, &eb);
        r = frexp(a, &ea);
        for (int left = ea - eb; left > 0; left -= STEP) {
            int step = left < STEP ? left : STEP;
            r = ldexp(r, step);
            // r/mb < 2^(STEP+1), so the truncated quotient is off by at most one and the remainder is exact.
            T q = trunc(r / mb);
            r = fma(-q, mb, r);
            r = r < (T)0 ? r + mb : r;
            r = r >= mb ? r - mb : r;
        }
        r = r >= mb ? r - mb : r;
        r = ldexp(r, eb);
    }
    return copysign(r, x);
}
RF_FN float fmod(float x, float y) {
    float a = abs(x), b = abs(y);
    if (a < 0x1p22f * b && b >= 0x1p-100f && b < 0x1p120f) {
        float r = fma(-trunc(a / b), b, a);
        r = r < 0.0f ? r + b : r;
        r = r >= b ? r - b : r;
        return copysign(r, x);
    }
    return fmod_any<float, 24, 11>(x, y);
}
RF_FN double fmod(double x, double y) { return fmod_any<double, 53, 26>(x, y); }

// Remainder with the sign of the divisor, as Python's and Burn's.
template <class T> RF_FN T floor_mod(T x, T y) {
    T r = fmod(x, y);
    return r != (T)0 && (r < (T)0) != (y < (T)0) ? r + y : r;
}

}  // namespace rf
#endif
