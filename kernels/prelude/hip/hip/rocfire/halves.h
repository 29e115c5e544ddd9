// halves.h: arithmetic of a 16-bit type ROCFIRE_HALF and its pair ROCFIRE_PAIR, under the names that HIP overloads for both.
// hip_fp16.h and hip_bf16.h include it for theirs, so it has no guard.
//
// Both types have `of(float)` and `value()`. Each operation is done in float, which holds sums, products and quotients of two
// such numbers well enough that rounding again gives what one rounding would have given.

#if !defined(__CUDACC_RTC__)
#pragma float_control(push)
#pragma clang fp contract(off)
#endif

#define ROCFIRE_H2(name, sum)                                                                                       \
    ROCFIRE_BOTH ROCFIRE_HALF name(ROCFIRE_HALF a, ROCFIRE_HALF b) { return ROCFIRE_HALF::of(sum); }
#define ROCFIRE_H2_PAIR(name, pair, sum)                                                                            \
    ROCFIRE_H2(name, sum)                                                                                           \
    ROCFIRE_BOTH ROCFIRE_PAIR pair(ROCFIRE_PAIR a, ROCFIRE_PAIR b) { return {name(a.x, b.x), name(a.y, b.y)}; }
ROCFIRE_H2_PAIR(__hadd, __hadd2, a.value() + b.value())
ROCFIRE_H2_PAIR(__hsub, __hsub2, a.value() - b.value())
ROCFIRE_H2_PAIR(__hmul, __hmul2, a.value() * b.value())
ROCFIRE_H2_PAIR(__hdiv, __h2div, a.value() / b.value())
ROCFIRE_H2_PAIR(__hadd_rn, __hadd2_rn, a.value() + b.value())
ROCFIRE_H2_PAIR(__hsub_rn, __hsub2_rn, a.value() - b.value())
ROCFIRE_H2_PAIR(__hmul_rn, __hmul2_rn, a.value() * b.value())
#define ROCFIRE_UNIT(x) ((x) < 0.0f ? 0.0f : (x) > 1.0f ? 1.0f : (x) == (x) ? (x) : 0.0f)
ROCFIRE_H2_PAIR(__hadd_sat, __hadd2_sat, ROCFIRE_UNIT(a.value() + b.value()))
ROCFIRE_H2_PAIR(__hsub_sat, __hsub2_sat, ROCFIRE_UNIT(a.value() - b.value()))
ROCFIRE_H2_PAIR(__hmul_sat, __hmul2_sat, ROCFIRE_UNIT(a.value() * b.value()))
// A number wins against NaN, and in the forms that say so NaN wins.
ROCFIRE_H2_PAIR(__hmax, __hmax2, b.value() != b.value() || a.value() > b.value() ? a.value() : b.value())
ROCFIRE_H2_PAIR(__hmin, __hmin2, b.value() != b.value() || a.value() < b.value() ? a.value() : b.value())
ROCFIRE_H2_PAIR(__hmax_nan, __hmax2_nan, a.value() != a.value() || a.value() > b.value() ? a.value() : b.value())
ROCFIRE_H2_PAIR(__hmin_nan, __hmin2_nan, a.value() != a.value() || a.value() < b.value() ? a.value() : b.value())
#undef ROCFIRE_H2
#undef ROCFIRE_H2_PAIR

ROCFIRE_BOTH ROCFIRE_HALF __hfma(ROCFIRE_HALF a, ROCFIRE_HALF b, ROCFIRE_HALF c) { return ROCFIRE_FMA(a, b, c); }
ROCFIRE_BOTH ROCFIRE_HALF __hfma_sat(ROCFIRE_HALF a, ROCFIRE_HALF b, ROCFIRE_HALF c) {
    float sum = __hfma(a, b, c).value();
    return ROCFIRE_HALF::of(ROCFIRE_UNIT(sum));
}
ROCFIRE_BOTH ROCFIRE_PAIR __hfma2(ROCFIRE_PAIR a, ROCFIRE_PAIR b, ROCFIRE_PAIR c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
ROCFIRE_BOTH ROCFIRE_PAIR __hfma2_sat(ROCFIRE_PAIR a, ROCFIRE_PAIR b, ROCFIRE_PAIR c) {
    return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};
}
#undef ROCFIRE_UNIT
ROCFIRE_BOTH ROCFIRE_HALF __hneg(ROCFIRE_HALF a) { return ROCFIRE_HALF::of_bits(a.bits() ^ 0x8000); }
ROCFIRE_BOTH ROCFIRE_HALF __habs(ROCFIRE_HALF a) { return ROCFIRE_HALF::of_bits(a.bits() & 0x7fff); }
ROCFIRE_BOTH ROCFIRE_PAIR __hneg2(ROCFIRE_PAIR a) { return {__hneg(a.x), __hneg(a.y)}; }
ROCFIRE_BOTH ROCFIRE_PAIR __habs2(ROCFIRE_PAIR a) { return {__habs(a.x), __habs(a.y)}; }
ROCFIRE_BOTH bool __hisnan(ROCFIRE_HALF a) { return a.value() != a.value(); }
ROCFIRE_BOTH int __hisinf(ROCFIRE_HALF a) { return a.value() - a.value() != a.value() - a.value() && a.value() == a.value(); }
ROCFIRE_BOTH ROCFIRE_PAIR __hisnan2(ROCFIRE_PAIR a) {
    return {ROCFIRE_HALF::of(__hisnan(a.x)), ROCFIRE_HALF::of(__hisnan(a.y))};
}
ROCFIRE_BOTH ROCFIRE_PAIR __hisinf2(ROCFIRE_PAIR a) {
    return {ROCFIRE_HALF::of((float)__hisinf(a.x)), ROCFIRE_HALF::of((float)__hisinf(a.y))};
}

// Comparisons: of two, of pairs as ones and zeros, of pairs as a whole; with a `u`, NaN compares as true.
#define ROCFIRE_COMPARE(name, op)                                                                                        \
    ROCFIRE_BOTH bool __h##name(ROCFIRE_HALF a, ROCFIRE_HALF b) { return a.value() op b.value(); }                        \
    ROCFIRE_BOTH bool __h##name##u(ROCFIRE_HALF a, ROCFIRE_HALF b) {                                                      \
        return __hisnan(a) || __hisnan(b) || a.value() op b.value();                                                      \
    }                                                                                                                     \
    ROCFIRE_BOTH ROCFIRE_PAIR __h##name##2(ROCFIRE_PAIR a, ROCFIRE_PAIR b) {                                              \
        return {ROCFIRE_HALF::of(__h##name(a.x, b.x)), ROCFIRE_HALF::of(__h##name(a.y, b.y))};                            \
    }                                                                                                                     \
    ROCFIRE_BOTH ROCFIRE_PAIR __h##name##u2(ROCFIRE_PAIR a, ROCFIRE_PAIR b) {                                             \
        return {ROCFIRE_HALF::of(__h##name##u(a.x, b.x)), ROCFIRE_HALF::of(__h##name##u(a.y, b.y))};                      \
    }                                                                                                                     \
    ROCFIRE_BOTH bool __hb##name##2(ROCFIRE_PAIR a, ROCFIRE_PAIR b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); } \
    ROCFIRE_BOTH bool __hb##name##u2(ROCFIRE_PAIR a, ROCFIRE_PAIR b) { return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y); }
ROCFIRE_COMPARE(eq, ==)
ROCFIRE_COMPARE(ne, !=)
ROCFIRE_COMPARE(lt, <)
ROCFIRE_COMPARE(le, <=)
ROCFIRE_COMPARE(gt, >)
ROCFIRE_COMPARE(ge, >=)
#undef ROCFIRE_COMPARE

// Functions, by way of float's.
#define ROCFIRE_FUNCTION(name, result)                                                                     \
    static __device__ inline ROCFIRE_HALF h##name(ROCFIRE_HALF a) {                                     \
        float x = a.value();                                                                            \
        return ROCFIRE_HALF::of(result);                                                                  \
    }                                                                                                   \
    static __device__ inline ROCFIRE_PAIR h2##name(ROCFIRE_PAIR a) { return {h##name(a.x), h##name(a.y)}; }
ROCFIRE_FUNCTION(sqrt, sqrtf(x))
ROCFIRE_FUNCTION(rsqrt, rsqrtf(x))
ROCFIRE_FUNCTION(rcp, 1.0f / x)
ROCFIRE_FUNCTION(exp, expf(x))
ROCFIRE_FUNCTION(exp2, exp2f(x))
ROCFIRE_FUNCTION(exp10, exp10f(x))
ROCFIRE_FUNCTION(log, logf(x))
ROCFIRE_FUNCTION(log2, log2f(x))
ROCFIRE_FUNCTION(log10, log10f(x))
ROCFIRE_FUNCTION(sin, sinf(x))
ROCFIRE_FUNCTION(cos, cosf(x))
ROCFIRE_FUNCTION(tanh, tanhf(x))
ROCFIRE_FUNCTION(ceil, ceilf(x))
ROCFIRE_FUNCTION(floor, floorf(x))
ROCFIRE_FUNCTION(rint, rintf(x))
ROCFIRE_FUNCTION(trunc, truncf(x))
#undef ROCFIRE_FUNCTION

// Operators of two of the type; with any other number it becomes a float. Comparisons are float's.
#define ROCFIRE_OPERATOR(op, name, pair)                                                                                \
    ROCFIRE_BOTH ROCFIRE_HALF operator op(const ROCFIRE_HALF &a, const ROCFIRE_HALF &b) { return name(a, b); }           \
    ROCFIRE_BOTH float operator op(const ROCFIRE_HALF &a, float b) { return a.value() op b; }                            \
    ROCFIRE_BOTH float operator op(float a, const ROCFIRE_HALF &b) { return a op b.value(); }                            \
    ROCFIRE_BOTH double operator op(const ROCFIRE_HALF &a, double b) { return a.value() op b; }                          \
    ROCFIRE_BOTH double operator op(double a, const ROCFIRE_HALF &b) { return a op b.value(); }                          \
    ROCFIRE_BOTH float operator op(const ROCFIRE_HALF &a, int b) { return a.value() op (float)b; }                       \
    ROCFIRE_BOTH float operator op(int a, const ROCFIRE_HALF &b) { return (float)a op b.value(); }                       \
    ROCFIRE_BOTH ROCFIRE_HALF &operator op##=(ROCFIRE_HALF &a, const ROCFIRE_HALF &b) { return a = name(a, b); }         \
    ROCFIRE_BOTH ROCFIRE_PAIR operator op(const ROCFIRE_PAIR &a, const ROCFIRE_PAIR &b) { return pair(a, b); }           \
    ROCFIRE_BOTH ROCFIRE_PAIR &operator op##=(ROCFIRE_PAIR &a, const ROCFIRE_PAIR &b) { return a = pair(a, b); }
ROCFIRE_OPERATOR(+, __hadd, __hadd2)
ROCFIRE_OPERATOR(-, __hsub, __hsub2)
ROCFIRE_OPERATOR(*, __hmul, __hmul2)
ROCFIRE_OPERATOR(/, __hdiv, __h2div)
#undef ROCFIRE_OPERATOR
ROCFIRE_BOTH ROCFIRE_HALF operator-(const ROCFIRE_HALF &a) { return __hneg(a); }
ROCFIRE_BOTH ROCFIRE_PAIR operator-(const ROCFIRE_PAIR &a) { return __hneg2(a); }

ROCFIRE_BOTH float __low2float(ROCFIRE_PAIR a) { return a.x.value(); }
ROCFIRE_BOTH float __high2float(ROCFIRE_PAIR a) { return a.y.value(); }
ROCFIRE_BOTH ROCFIRE_PAIR __lowhigh2highlow(ROCFIRE_PAIR a) { return {a.y, a.x}; }

#if !defined(__CUDACC_RTC__)
ROCFIRE_DEVICE ROCFIRE_PAIR atomicAdd(ROCFIRE_PAIR *at, ROCFIRE_PAIR value) {
    return rocfire_atomic<ROCFIRE_PAIR, unsigned>(at, [=](ROCFIRE_PAIR before) { return __hadd2(before, value); });
}
ROCFIRE_DEVICE ROCFIRE_PAIR unsafeAtomicAdd(ROCFIRE_PAIR *at, ROCFIRE_PAIR value) { return atomicAdd(at, value); }
// Half of a word: the other half stays as it is.
ROCFIRE_DEVICE ROCFIRE_HALF atomicAdd(ROCFIRE_HALF *at, ROCFIRE_HALF value) {
    bool upper = ((uintptr_t)at & 2) != 0;
    ROCFIRE_PAIR *both = reinterpret_cast<ROCFIRE_PAIR *>((uintptr_t)at & ~(uintptr_t)3);
    ROCFIRE_PAIR before = rocfire_atomic<ROCFIRE_PAIR, unsigned>(both, [=](ROCFIRE_PAIR pair) {
        (upper ? pair.y : pair.x) += value;
        return pair;
    });
    return upper ? before.y : before.x;
}
#endif

#if !defined(__CUDACC_RTC__)
#pragma float_control(pop)
#endif
#undef ROCFIRE_HALF
#undef ROCFIRE_PAIR
#undef ROCFIRE_FMA
