// math_f32.h: transcendental functions of float, each within 2 ulp over its whole domain, subnormals included.
#ifndef ROCFIRE_MATH_F32_H
#define ROCFIRE_MATH_F32_H
namespace rf {

#define RF_LN2_HI_F 0x1.62e400p-1f // 16 bits, so that its product with an exponent is exact
#define RF_LN2_LO_F 0x1.7f7d1cp-20f
#define RF_PIO2_HI_F 0x1.921fb6p+0f
#define RF_PIO2_LO_F -0x1.777a5cp-25f

// exp(x) * 2^scale for x in [-150, 130]; NaN stays NaN. x = n ln 2 + r; adding 1.5 * 2^23 rounds to the integer n and
// leaves it in the low bits. Polynomial on |r| <= ln 2 / 2: 2^-25.1.
RF_FN float exp_core(float x, int scale) {
    const float magic = 0x1.8p23f;
    float shifted = fma(x, 0x1.715476p+0f, magic);
    int n = bit_cast<int>(shifted) - bit_cast<int>(magic);
    float k = shifted - magic;
    float r = fma(k, -RF_LN2_HI_F, x);
    r = fma(k, -RF_LN2_LO_F, r);
    float p = fma(0x1.59229ap-10f, r, 0x1.11b9d6p-7f);
    p = fma(p, r, 0x1.5569b2p-5f);
    p = fma(p, r, 0x1.555590p-3f);
    p = fma(p, r, 0x1.fffffap-2f);
    p = fma(p, r, 1.0f);
    p = fma(p, r, 1.0f);
    return ldexp_near_one(p, n + scale);
}
// exp(x) for x in [-80, 80]; a NaN may become a number. NVIDIA has the power of two of a fraction in one instruction, to
// 2^-22.5; adding to the exponent is then exact. AMD scales in one instruction, and the polynomial stays.
RF_FN float exp_inside(float x) {
#if RF_DEVICE_AMD || defined(RF_HOST)
    return exp_core(x, 0);
#else
    const float magic = 0x1.8p23f;
    float shifted = fma(x, 0x1.715476p+0f, magic);
    float k = shifted - magic;
    float r = fma(x, 0x1.715476p+0f, -k);
    r = fma(x, 0x1.4ae0c0p-26f, r);
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(r));
    return bit_cast<float>(bit_cast<u32>(y) + (bit_cast<u32>(shifted) << 23));
#endif
}
RF_FN float exp(float x) {
    float y = exp_core(clamp_number(x, -105.0f, 90.0f), 0);
    return x == x ? y : x;
}

// 2^x; 2^r - 1 = r P(r) on |r| <= 1/2: 2^-27.9.
RF_FN float exp2(float x) {
    float c = clamp_number(x, -151.0f, 130.0f);
    float k = round_even(c);
    float r = c - k;
    float p = fma(0x1.446d34p-13f, r, 0x1.5f8a06p-10f);
    p = fma(p, r, 0x1.3b29e2p-7f);
    p = fma(p, r, 0x1.c6ae2ap-5f);
    p = fma(p, r, 0x1.ebfbe0p-3f);
    p = fma(p, r, 0x1.62e432p-1f);
    p = fma(p, r, 1.0f);
    float y = ldexp_near_one(p, (int)k);
    return x == x ? y : x;
}

// 2^x by the device's own instruction, to 2 ulp; results below 2^-126 may be zero.
RF_FN float exp2_fast(float x) {
#if RF_DEVICE_AMD
#if __has_builtin(__builtin_amdgcn_exp2f)
    return __builtin_amdgcn_exp2f(x);
#else
    // hiprtc of ROCm 5, whose compiler lacks no more than the name.
    float y;
    asm("v_exp_f32 %0, %1" : "=v"(y) : "v"(x));
    return y;
#endif
#elif defined(RF_HOST)
    return exp2(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// exp(x) - 1 without cancellation: 2^n (expm1(r)) + (2^n - 1), with n one less and doubled at the end so that 2^128 is
// never formed. expm1(r) = r + r^2 Q(r): 2^-31.
RF_FN float expm1(float x) {
    float c = clamp_number(x, -20.0f, 89.0f);
    float k = round_even(c * 0x1.715476p+0f);
    float r = fma(k, -RF_LN2_HI_F, c);
    r = fma(k, -RF_LN2_LO_F, r);
    float q = fma(0x1.a17eacp-13f, r, 0x1.6da824p-10f);
    q = fma(q, r, 0x1.1110acp-7f);
    q = fma(q, r, 0x1.555470p-5f);
    q = fma(q, r, 0x1.555556p-3f);
    q = fma(q, r, 0.5f);
    float p = fma(r * r, q, r);
    float half = ldexp(0.5f, (int)k);
    float y = fma(half, p, half - 0.5f);
    y = y + y;
    y = abs(x) < 0x1p-25f ? x : y;
    return x == x ? y : x;
}

// log((m + tail) * 2^e') for a mantissa in [0.5, 1): f = m - 1 after moving m to [sqrt 1/2, sqrt 2), then
// log(1 + f) = f - f^2/2 + f^3 P(f), P to 2^-27.
struct LogParts { float f, y, k; };
RF_FN LogParts log_parts(float mantissa, int exponent, float tail) {
    bool low = mantissa < 0x1.6a09e6p-1f;
    mantissa = low ? mantissa + mantissa : mantissa;
    int e = low ? exponent - 1 : exponent;
    LogParts out;
    out.k = (float)e;
    float f = (mantissa - 1.0f) + ldexp(tail, -e);
    float p = fma(-0x1.38b91ap-4f, f, 0x1.055c72p-3f);
    p = fma(p, f, -0x1.0d8508p-3f);
    p = fma(p, f, 0x1.22d9f0p-3f);
    p = fma(p, f, -0x1.547246p-3f);
    p = fma(p, f, 0x1.99a00ap-3f);
    p = fma(p, f, -0x1.000226p-2f);
    p = fma(p, f, 0x1.555554p-2f);
    p = fma(p, f, -0.5f);
    out.f = f;
    out.y = p * (f * f);
    return out;
}
RF_FN float log_special(float x, float y) {
    y = x < __builtin_inff() ? y : x;
    y = x < 0.0f ? __builtin_nanf("") : y;
    return x == 0.0f ? -__builtin_inff() : y;
}
RF_FN float log(float x) {
    int e;
    float m = frexp(x, &e);
    LogParts l = log_parts(m, e, 0.0f);
    float y = fma(l.k, RF_LN2_HI_F, l.f + fma(l.k, RF_LN2_LO_F, l.y));
    return log_special(x, y);
}
RF_FN float log2(float x) {
    int e;
    float m = frexp(x, &e);
    LogParts l = log_parts(m, e, 0.0f);
    float low = fma(l.y, 0x1.715476p+0f, l.f * 0x1.4ae0c0p-26f);
    float high = l.f * 0x1.715476p+0f;
    low += fma(l.f, 0x1.715476p+0f, -high);
    return log_special(x, (l.k + high) + (low + (high - ((l.k + high) - l.k))));
}
RF_FN float log10(float x) {
    int e;
    float m = frexp(x, &e);
    LogParts l = log_parts(m, e, 0.0f);
    float y = fma(l.k, 0x1.344000p-2f, fma(l.f, 0x1.bcb7b2p-2f, fma(l.k, 0x1.3509f8p-18f, l.y * 0x1.bcb7b2p-2f)));
    return log_special(x, y);
}
// The rounding error of 1 + x, found by Knuth's two-sum, is carried into the reduced argument.
RF_FN float log1p(float x) {
    float u = 1.0f + x;
    float back = u - 1.0f;
    float tail = (x - back) + (1.0f - (u - back));
    int e;
    float m = frexp(u, &e);
    LogParts l = log_parts(m, e, tail);
    float y = fma(l.k, RF_LN2_HI_F, l.f + fma(l.k, RF_LN2_LO_F, l.y));
    y = log_special(u, y);
    return abs(x) < 0x1p-25f ? x : y;
}

// 1 / sqrt(x): the hardware's estimate and one Newton step; subnormals are scaled into its range first.
RF_FN float rsqrt(float x) {
#if RF_DEVICE_AMD
    bool tiny = x < 0x1p-100f;
    float s = tiny ? x * 0x1p60f : x;
    float r = __builtin_amdgcn_rsqf(s);
    float e = fma(-(s * r), r, 1.0f);
    float y = fma(0.5f * r, e, r);
    y = s > 0.0f && s < __builtin_inff() ? y : r;
    return tiny ? y * 0x1p30f : y;
#else
    return 1.0f / sqrt(x);
#endif
}

// x - n pi/2 in [-pi/4, pi/4], n modulo 4 in the low bits of `quadrant`. Up to 1e5 pi/2 in three floats (72 bits) is
// exact enough by fma; beyond, the reduction of doubles serves. The multiple of a negative zero is a positive one and
// all three parts are positive, so that the zero keeps its sign.
RF_FN float trig_reduce(float x, int* quadrant) {
    const float magic = 0x1.8p23f;
    float shifted = fma(x, 0x1.45f306p-1f, magic);
    float k = shifted - magic;
    float r = fma(k, -0x1.921fb4p+0f, x);
    r = fma(k, -0x1.4442d0p-24f, r);
    r = fma(k, -0x1.846988p-48f, r);
    int q = bit_cast<int>(shifted);
    if (!(abs(x) < 1e5f)) r = (float)trig_reduce_large((double)x, &q);
    *quadrant = q;
    return r;
}
// sin on [-pi/4, pi/4]: 2^-28; cos: 2^-33.
RF_FN float sin_core(float r, float z) {
    float p = fma(-0x1.994232p-13f, z, 0x1.110736p-7f);
    p = fma(p, z, -0x1.555546p-3f);
    // A negative zero would meet the positive zero of the correction.
    return r == 0.0f ? r : fma(p, r * z, r);
}
RF_FN float cos_core(float z) {
    float p = fma(0x1.99ea88p-16f, z, -0x1.6c0c30p-10f);
    p = fma(p, z, 0x1.55554ap-5f);
    p = fma(p, z, -0.5f);
    return fma(p, z, 1.0f);
}
RF_FN float flip_sign(float x, bool flip) { return bit_cast<float>(bit_cast<u32>(x) ^ (flip ? 0x80000000u : 0u)); }
RF_FN void sincos(float x, float* s, float* c) {
    int q;
    float r = trig_reduce(x, &q), z = r * r;
    float a = sin_core(r, z), b = cos_core(z);
    *s = flip_sign((q & 1) != 0 ? b : a, (q & 2) != 0);
    *c = flip_sign((q & 1) != 0 ? a : b, ((q + 1) & 2) != 0);
}
RF_FN float sin(float x) {
    float s, c;
    sincos(x, &s, &c);
    return s;
}
RF_FN float cos(float x) {
    float s, c;
    sincos(x, &s, &c);
    return c;
}
// tan on [-pi/4, pi/4]: 2^-25.7. A pole magnifies the error of the reduced argument, which is therefore a double's.
RF_FN float tan(float x) {
    int q;
    double exact = trig_reduce((double)x, &q);
    float r = (float)exact, tail = (float)(exact - (double)r), z = r * r;
    float p = fma(0x1.33daa0p-7f, z, 0x1.96e81ap-9f);
    p = fma(p, z, 0x1.9069dep-6f);
    p = fma(p, z, 0x1.b58682p-5f);
    p = fma(p, z, 0x1.112ddep-3f);
    p = fma(p, z, 0x1.5554dep-2f);
    float t = r == 0.0f ? r : r + fma(p, r * z, fma(tail, z, tail));
    return (q & 1) != 0 ? -1.0f / t : t;
}

// sinh on [0, 1]: 2^-34; above, exp(x)/2 - exp(-x)/2 with the half taken in the exponent, so nothing overflows early.
RF_FN float sinh(float x) {
    float a = abs(x), z = a * a;
    float h = exp_core(clamp_number(a, 0.0f, 91.0f), -1);
    float large = fma(-0.25f, rcp_fast(h), h);
    float p = fma(0x1.7a17dap-19f, z, 0x1.9ffe84p-13f);
    p = fma(p, z, 0x1.111136p-7f);
    p = fma(p, z, 0x1.555556p-3f);
    float y = a < 1.0f ? fma(p, a * z, a) : large;
    return x == x ? copysign(y, x) : x;
}
RF_FN float cosh(float x) {
    float h = exp_core(clamp_number(abs(x), 0.0f, 91.0f), -1);
    float y = fma(0.25f, rcp_fast(h), h);
    return x == x ? y : x;
}
// tanh below 0.6: 2^-28; above, 1 - 2 / (exp(2x) + 1).
RF_FN float tanh(float x) {
    float a = abs(x), z = a * a;
    float e = exp_inside(a > 10.0f ? 20.0f : a + a);
    float large = fma(-2.0f, rcp_fast(e + 1.0f), 1.0f);
    float p = fma(-0x1.824e60p-8f, z, 0x1.54b6dep-6f);
    p = fma(p, z, -0x1.b898acp-5f);
    p = fma(p, z, 0x1.1109acp-3f);
    p = fma(p, z, -0x1.55553ep-2f);
    return copysign(a >= 0.6f ? large : fma(p, a * z, a), x);
}

// asin on [0, 0.57]: 2^-28.6; above by asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)), whose asin then is below one half.
#define RF_ASIN_SPLIT_F 0.57f
RF_FN float asin_core(float a, float z) {
    float p = fma(0x1.933efcp-5f, z, 0x1.564178p-8f);
    p = fma(p, z, 0x1.1aa2c2p-5f);
    p = fma(p, z, 0x1.69c3fap-5f);
    p = fma(p, z, 0x1.334de8p-4f);
    p = fma(p, z, 0x1.55551ap-3f);
    return fma(p, a * z, a);
}
RF_FN float asin(float x) {
    float a = abs(x);
    bool large = a > RF_ASIN_SPLIT_F;
    float z = large ? 0.5f - 0.5f * a : a * a;
    float s = large ? sqrt(z) : a;
    float r = asin_core(s, z);
    return copysign(large ? RF_PIO2_HI_F - (2.0f * r - RF_PIO2_LO_F) : r, x);
}
RF_FN float acos(float x) {
    float a = abs(x);
    bool large = a > RF_ASIN_SPLIT_F;
    float z = large ? 0.5f - 0.5f * a : a * a;
    float r = asin_core(large ? sqrt(z) : x, z);
    float near_one = x > 0.0f ? 2.0f * r : 2.0f * RF_PIO2_HI_F - (2.0f * r - 2.0f * RF_PIO2_LO_F);
    return large ? near_one : RF_PIO2_HI_F - (r - RF_PIO2_LO_F);
}

// atan on [0, 1]: 2^-25.8.
RF_FN float atan_core(float t) {
    float z = t * t;
    float p = fma(0x1.7deed4p-9f, z, -0x1.0bc2dcp-6f);
    p = fma(p, z, 0x1.61af60p-5f);
    p = fma(p, z, -0x1.353890p-4f);
    p = fma(p, z, 0x1.b4d486p-4f);
    p = fma(p, z, -0x1.230974p-3f);
    p = fma(p, z, 0x1.9978cep-3f);
    p = fma(p, z, -0x1.5554dcp-2f);
    return fma(p, t * z, t);
}
RF_FN float atan(float x) {
    float a = abs(x);
    float r = atan_core(a > 1.0f ? 1.0f / a : a);
    return copysign(a > 1.0f ? RF_PIO2_HI_F - (r - RF_PIO2_LO_F) : r, x);
}
RF_FN float atan2(float y, float x) {
    float ay = abs(y), ax = abs(x);
    bool steep = ay > ax;
    float low = steep ? ax : ay, high = steep ? ay : ax;
    float t = high == 0.0f ? 0.0f : low == __builtin_inff() ? 1.0f : low / high;
    float r = atan_core(t);
    r = steep ? RF_PIO2_HI_F - (r - RF_PIO2_LO_F) : r;
    bool left = (bit_cast<u32>(x) >> 31) != 0;
    r = left ? 2.0f * RF_PIO2_HI_F - (r - 2.0f * RF_PIO2_LO_F) : r;
    return x == x && y == y ? copysign(r, y) : x + y;
}

// asinh below 1/2: 2^-29.6; above through log1p, and from 2^25 on the square root is x itself, and 1 + x too.
RF_FN float asinh(float x) {
    float a = abs(x), z = a * a;
    bool large = a >= 0x1p25f;
    float v = large ? a : a + z / (1.0f + sqrt(fma(a, a, 1.0f)));
    float y = log1p(v) + (large ? 0x1.62e430p-1f : 0.0f);
    float p = fma(-0x1.b1b220p-7f, z, 0x1.cd81a0p-6f);
    p = fma(p, z, -0x1.6b98cap-5f);
    p = fma(p, z, 0x1.332510p-4f);
    p = fma(p, z, -0x1.555536p-3f);
    return copysign(a < 0.5f ? fma(p, a * z, a) : y, x);
}
RF_FN float acosh(float x) {
    bool large = x >= 0x1p25f;
    float t = x - 1.0f;
    float v = large ? x : t + sqrt(fma(t, t, 2.0f * t));
    float y = log1p(v) + (large ? 0x1.62e430p-1f : 0.0f);
    return x < 1.0f ? __builtin_nanf("") : y;
}
// atanh below 1/2: 2^-29.4.
RF_FN float atanh(float x) {
    float a = abs(x), z = a * a;
    float y = 0.5f * log1p((a + a) / (1.0f - a));
    float p = fma(0x1.69f78ep-3f, z, 0x1.a47612p-5f);
    p = fma(p, z, 0x1.e454bcp-4f);
    p = fma(p, z, 0x1.2347d4p-3f);
    p = fma(p, z, 0x1.99a6d2p-3f);
    p = fma(p, z, 0x1.55553ep-2f);
    return copysign(a < 0.5f ? fma(p, a * z, a) : y, x);
}

// erf below 0.92: x + x P(x^2), 2^-26; above, 1 - exp(L(x)) with L = log erfc, 2^-34; from 3.93 on it rounds to 1.
RF_FN float erf(float x) {
    float a = abs(x), z = a * a;
    float s = fma(-0x1.3a0f9ep-11f, z, 0x1.4739c0p-8f);
    s = fma(s, z, -0x1.b68b08p-6f);
    s = fma(s, z, 0x1.ce1a66p-4f);
    s = fma(s, z, -0x1.8126e6p-2f);
    s = fma(s, z, 0x1.06eba6p-3f);
    s = fma(s, a, a);
    float c = a > 3.93f ? 3.93f : a;
    float l = fma(-0x1.61f2b0p-16f, c, 0x1.c796c2p-12f);
    l = fma(l, c, -0x1.115c6ep-8f);
    l = fma(l, c, 0x1.9b8f84p-6f);
    l = fma(l, c, -0x1.bb8446p-4f);
    l = fma(l, c, -0x1.444602p-1f);
    l = fma(l, c, -0x1.2127e6p+0f);
    l = fma(l, c, 0x1.6e6658p-13f);
    return copysign(a >= 0.92f ? 1.0f - exp_inside(l) : s, x);
}

// sqrt(x^2 + y^2): squares of floats are exact in double.
RF_FN float hypot(float x, float y) {
    if (is_inf(x) || is_inf(y)) return __builtin_inff();
    double a = x, b = y;
    return (float)sqrt(fma(a, a, b * b));
}

// The cases in which IEEE 754's pow is not exp(y log x), for finite and infinite arguments alike; `power` is that value
// for |x|.
template <class T> RF_FN T pow_special(T x, T y, T power) {
    T half = y * (T)0.5;
    bool integer = trunc(y) == y;
    bool odd = integer && trunc(half) != half;
    T r = x < (T)0 && !integer && x > -(T)__builtin_inf() ? (T)__builtin_nan("") : power;
    r = odd ? copysign(r, x) : r;
    return x == (T)1 || y == (T)0 ? (T)1 : r;
}
// Through double, whose spare 29 bits take up the error that the exponent magnifies.
RF_FN float pow(float x, float y) {
    double l = log((double)abs(x));
    double t = l == 0.0 && y == y ? 0.0 : (double)y * l;
    return pow_special(x, y, (float)exp(t));
}

}  // namespace rf
#endif
