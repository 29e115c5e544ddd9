// math_f64.h: transcendental functions of double, each within 4 ulp over its whole domain (most within 1.5).
#ifndef ROCFIRE_MATH_F64_H
#define ROCFIRE_MATH_F64_H
namespace rf {

#define RF_LN2_HI 0x1.62e42fefa38p-1 // 42 bits, so that its product with an exponent is exact
#define RF_LN2_LO 0x1.ef35793c7673p-45
#define RF_LN2 0x1.62e42fefa39efp-1
#define RF_PIO2_HI 0x1.921fb54442d18p+0
#define RF_PIO2_LO 0x1.1a62633145c07p-54

// The first 1280 bits of 2/pi, most significant word first, after two words of zeros.
RF_FN u32 two_over_pi(int word) {
    static const u32 words[42] = {
        0u, 0u,
        0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
        0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u,
        0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu,
        0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
        0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u, 0x9af4361du,
    };
    return words[word];
}

// x - n pi/2 in [-pi/4, pi/4] for |x| >= 1e5, n modulo 4 (Payne and Hanek): of x * 2/pi only the words that reach the
// last two integer bits and the 190 bits below are multiplied. Infinity and NaN give NaN.
__device__ inline double trig_reduce_large(double x, int* quadrant) {
    u64 bits = bit_cast<u64>(x);
    int biased = (int)((bits >> 52) & 0x7ffu);
    *quadrant = 0;
    if (biased == 0x7ff) return __builtin_nan("");
    u64 m = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
    u32 m0 = (u32)m, m1 = (u32)(m >> 32);
    // |x| = m * 2^(biased - 1075). With the two words of zeros the table is 2/pi * 2^-64, hence + 64; word i then has
    // the weight 2^(exponent - 32 (i + 1)), and those above `first` contribute multiples of 2^32.
    int exponent = biased - 1075 + 64;
    int first = exponent / 32 - 1;
    int shift = exponent % 32;
    u32 p[8];
    // Schoolbook product, least significant word of 2/pi first. `hold` is the upper half of the last product with m1.
    u64 carry = 0, hold = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        u64 w = two_over_pi(first + 7 - i);
        u64 a = w * m0, b = w * m1;
        u64 sum = carry + (a & 0xffffffffull);
        p[i] = (u32)sum;
        carry = (sum >> 32) + (a >> 32) + (b & 0xffffffffull) + hold;
        hold = b >> 32;
    }
    u32 integer = (u32)((((u64)p[7] << 32 | p[6]) << shift) >> 32);
    u64 f0 = (((u64)p[6] << 32 | p[5]) << shift) >> 32, f1 = (((u64)p[5] << 32 | p[4]) << shift) >> 32;
    u64 f2 = (((u64)p[4] << 32 | p[3]) << shift) >> 32, f3 = (((u64)p[3] << 32 | p[2]) << shift) >> 32;
    u64 high = (f0 << 32) | (f1 & 0xffffffffull), low = (f2 << 32) | (f3 & 0xffffffffull);
    // To the nearest multiple: a fraction of a half or more is negated and counted up.
    bool up = (high >> 63) != 0;
    high = up ? ~high + (low == 0 ? 1ull : 0ull) : high;
    low = up ? 0ull - low : low;
    int zeros = high == 0 ? 64 + __builtin_clzll(low | 1ull) : __builtin_clzll(high);
    if (zeros >= 64) {
        high = low;
        low = 0;
        zeros -= 64;
        high <<= zeros;
        zeros += 64;
    } else if (zeros > 0) {
        high = (high << zeros) | (low >> (64 - zeros));
    }
    double fraction = ldexp((double)high, -64 - zeros);
    double r = fma(fraction, RF_PIO2_HI, fraction * RF_PIO2_LO);
    bool negative = (bits >> 63) != 0;
    int q = (int)(integer + (up ? 1u : 0u)) & 3;
    *quadrant = negative ? (4 - q) & 3 : q;
    return negative != up ? -r : r;
}

// exp(r) - 1 - r = r^2 Q(r) on |r| <= ln 2 / 2: 2^-64.
RF_FN double exp_q(double r) {
    double q = fma(0x1.1e3c4af856513p-29, r, 0x1.af6c5ecf9df87p-26);
    q = fma(q, r, 0x1.27e5b553e59eap-22);
    q = fma(q, r, 0x1.71ddefde1449ep-19);
    q = fma(q, r, 0x1.a01a0135cc4b9p-16);
    q = fma(q, r, 0x1.a01a01b398421p-13);
    q = fma(q, r, 0x1.6c16c16c30826p-10);
    q = fma(q, r, 0x1.111111110ec1cp-7);
    q = fma(q, r, 0x1.5555555555502p-5);
    q = fma(q, r, 0x1.555555555555bp-3);
    q = fma(q, r, 0x1.0p-1);
    return q;
}
// (exp(x + tail)) * 2^scale for x in [-1100, 1100]; NaN stays NaN. Adding 1.5 * 2^52 rounds to the integer n and leaves
// it in the low bits.
RF_FN double exp_core(double x, double tail, int scale) {
    const double magic = 0x1.8p52;
    double shifted = fma(x, 0x1.71547652b82fep+0, magic);
    int n = (int)(u32)bit_cast<u64>(shifted);
    double k = shifted - magic;
    double r = fma(k, -RF_LN2_HI, x);
    r = fma(k, -RF_LN2_LO, r) + tail;
    return ldexp(fma(r * r, exp_q(r), r) + 1.0, n + scale);
}
RF_FN double exp_clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
RF_FN double exp(double x) { return exp_core(exp_clamp(x, -800.0, 800.0), 0.0, 0); }
RF_FN double exp2(double x) {
    double c = exp_clamp(x, -1100.0, 1100.0);
    double k = round_even(c);
    double y = exp_core((c - k) * RF_LN2, 0.0, 0);
    return x == x ? ldexp(y, (int)(x == x ? k : 0.0)) : x;
}
RF_FN double expm1(double x) {
    double c = exp_clamp(x == x ? x : 0.0, -60.0, 710.0);
    double k = round_even(c * 0x1.71547652b82fep+0);
    double r = fma(k, -RF_LN2_HI, c);
    r = fma(k, -RF_LN2_LO, r);
    double p = fma(r * r, exp_q(r), r);
    double half = ldexp(0.5, (int)k);
    double y = fma(half, p, half - 0.5);
    y = y + y;
    y = abs(x) < 0x1p-54 ? x : y;
    return x == x ? y : x;
}

// log((1 + s) / (1 - s)) = 2 s + 2 s^3 R(s^2) for |s| <= 0.1716: 2^-66. R(z) = 1/3 + z Q(z).
RF_FN double log_q(double z) {
    double r = fma(0x1.0f8e3b838f163p-4, z, 0x1.0f5811ad165fbp-4);
    r = fma(r, z, 0x1.3b20e0ba1294cp-4);
    r = fma(r, z, 0x1.745cdd00ca69cp-4);
    r = fma(r, z, 0x1.c71c725cd0e89p-4);
    r = fma(r, z, 0x1.249249242809ap-3);
    r = fma(r, z, 0x1.9999999999e28p-3);
    return r;
}
RF_FN double log_r(double z) { return fma(log_q(z), z, 0x1.5555555555555p-2); }
RF_FN double log_special(double x, double y) {
    y = x < __builtin_inf() ? y : x;
    y = x < 0.0 ? __builtin_nan("") : y;
    return x == 0.0 ? -__builtin_inf() : y;
}
// log((mantissa + tail 2^-exponent) * 2^exponent), arranged so that the last addition has the only large error
// (K. C. Ng's arrangement in FreeBSD's msun).
RF_FN double log_core(double mantissa, int exponent, double tail) {
    bool low = mantissa < 0x1.6a09e667f3bcdp-1;
    mantissa = low ? mantissa + mantissa : mantissa;
    int e = low ? exponent - 1 : exponent;
    double k = (double)e;
    double f = (mantissa - 1.0) + ldexp(tail, -e);
    double s = f / (2.0 + f);
    double z = s * s;
    double r = 2.0 * z * log_r(z);
    double half_square = 0.5 * f * f;
    return fma(k, RF_LN2_HI, -((half_square - fma(s, half_square + r, k * RF_LN2_LO)) - f));
}
RF_FN double log(double x) {
    int e;
    double m = frexp(x, &e);
    return log_special(x, log_core(m, e, 0.0));
}
RF_FN double log1p(double x) {
    double u = 1.0 + x;
    double back = u - 1.0;
    double tail = (x - back) + (1.0 - (u - back));
    int e;
    double m = frexp(u, &e);
    double y = log_special(u, log_core(m, e, tail));
    return abs(x) < 0x1p-54 ? x : y;
}
// log of a positive finite x: mantissa part high + low (about 2^-64 relative) and exponent k. 2 s and 2 s^3 / 3 are
// carried in double-double.
struct LogPair { double high, low, k; };
RF_FN LogPair log_pair(double x) {
    int e;
    double m = frexp(x, &e);
    bool small = m < 0x1.6a09e667f3bcdp-1;
    m = small ? m + m : m;
    double f = m - 1.0;
    double d = 2.0 + f, d_low = f - (d - 2.0);
    double s = f / d;
    double s_low = (fma(-s, d, f) - s * d_low) / d;
    double z = s * s, z_low = fma(s, s, -z) + 2.0 * s * s_low;
    const double third = 0x1.5555555555555p-2, third_low = 0x1.5555555555555p-56;
    double t = z * third, t_low = fma(z, third, -t) + fma(z, third_low, fma(z_low, third, z * z * log_q(z)));
    double two = 2.0 * s;
    double u = two * t, u_low = fma(two, t, -u) + fma(two, t_low, 2.0 * s_low * (1.0 + t));
    LogPair out;
    double high = two + u;
    double low = (u - (high - two)) + u_low;
    out.high = high + low;
    out.low = low - (out.high - high);
    out.k = (double)(small ? e - 1 : e);
    return out;
}
// (k * scale_k + (high + low) * scale), the products in double-double.
RF_FN double log_scaled(double x, double scale, double scale_low, double k_high, double k_low) {
    LogPair l = log_pair(x);
    double p = l.high * scale;
    double p_low = fma(l.high, scale, -p) + (l.high * scale_low + l.low * scale);
    double a = l.k * k_high;
    double sum = a + p;
    double rest = (p - (sum - a)) + (p_low + l.k * k_low);
    return log_special(x, sum + rest);
}
RF_FN double log2(double x) { return log_scaled(x, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1.0, 0.0); }
RF_FN double log10(double x) {
    return log_scaled(x, 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f6p-2, 0x1.9fef311f12b36p-42);
}

RF_FN double rsqrt(double x) { return 1.0 / sqrt(x); }

// As the float version.
RF_FN double trig_reduce(double x, int* quadrant) {
    const double magic = 0x1.8p52;
    double shifted = fma(x, 0x1.45f306dc9c883p-1, magic);
    double k = shifted - magic;
    double r = fma(k, -0x1.921fb54442d18p+0, x);
    r = fma(k, -0x1.1a62633145c06p-54, r);
    r = fma(k, -0x1.c1cd129024e08p-107, r);
    int q = (int)(u32)bit_cast<u64>(shifted);
    if (!(abs(x) < 1e5)) r = trig_reduce_large(x, &q);
    *quadrant = q;
    return r;
}
// sin on [-pi/4, pi/4]: 2^-58; cos: 2^-64.
RF_FN double sin_core(double r, double z) {
    double p = fma(0x1.5d8ef53494df1p-33, z, -0x1.ae5e57c5b10f1p-26);
    p = fma(p, z, 0x1.71de356482f04p-19);
    p = fma(p, z, -0x1.a01a019bfa74p-13);
    p = fma(p, z, 0x1.111111110f7b7p-7);
    p = fma(p, z, -0x1.5555555555548p-3);
    return r == 0.0 ? r : fma(p, r * z, r);
}
RF_FN double cos_core(double z) {
    double p = fma(-0x1.8fa394b446f6p-37, z, 0x1.1ee9d5c9fb654p-29);
    p = fma(p, z, -0x1.27e4f7e808c52p-22);
    p = fma(p, z, 0x1.a01a019c80a9p-16);
    p = fma(p, z, -0x1.6c16c16c14f6ep-10);
    p = fma(p, z, 0x1.555555555554bp-5);
    double h = 0.5 * z, one = 1.0 - h;
    return one + fma(p * z, z, (1.0 - one) - h);
}
RF_FN double flip_sign(double x, bool flip) { return flip ? -x : x; }
RF_FN void sincos(double x, double* s, double* c) {
    int q;
    double r = trig_reduce(x, &q), z = r * r;
    double a = sin_core(r, z), b = cos_core(z);
    *s = flip_sign((q & 1) != 0 ? b : a, (q & 2) != 0);
    *c = flip_sign((q & 1) != 0 ? a : b, ((q + 1) & 2) != 0);
}
RF_FN double sin(double x) {
    double s, c;
    sincos(x, &s, &c);
    return s;
}
RF_FN double cos(double x) {
    double s, c;
    sincos(x, &s, &c);
    return c;
}
RF_FN double tan(double x) {
    double s, c;
    sincos(x, &s, &c);
    return s / c;
}

RF_FN double sinh(double x) {
    double a = abs(x);
    double u = expm1(a > 30.0 ? 30.0 : a);
    double y = a < 22.0 ? 0.5 * (u + u / (u + 1.0)) : exp_core(exp_clamp(a, 0.0, 800.0), 0.0, -1);
    return copysign(y, x);
}
RF_FN double cosh(double x) {
    double h = exp_core(exp_clamp(abs(x), 0.0, 800.0), 0.0, -1);
    return h + 0.25 / h;
}
RF_FN double tanh(double x) {
    double a = abs(x);
    double u = expm1(a > 22.0 ? 44.0 : a + a);
    return copysign(u / (u + 2.0), x);
}

// asin on [0, 1/2]: 2^-55.9.
RF_FN double asin_core(double a, double z) {
    double p = fma(0x1.059c038f03846p-5, z, -0x1.0a58918dda0d2p-6);
    p = fma(p, z, 0x1.4047fe35153c8p-6);
    p = fma(p, z, 0x1.ab5829c006815p-8);
    p = fma(p, z, 0x1.8ed072c79fb79p-7);
    p = fma(p, z, 0x1.c6fbc22563c3ep-7);
    p = fma(p, z, 0x1.1c6bfacfa1185p-6);
    p = fma(p, z, 0x1.6e89f2a2ac486p-6);
    p = fma(p, z, 0x1.f1c72c4995798p-6);
    p = fma(p, z, 0x1.6db6db42490ccp-5);
    p = fma(p, z, 0x1.333333336ec92p-4);
    p = fma(p, z, 0x1.555555555538ep-3);
    return fma(p, a * z, a);
}
RF_FN double asin(double x) {
    double a = abs(x);
    bool large = a > 0.5;
    double z = large ? 0.5 - 0.5 * a : a * a;
    double r = asin_core(large ? sqrt(z) : a, z);
    return copysign(large ? RF_PIO2_HI - (2.0 * r - RF_PIO2_LO) : r, x);
}
RF_FN double acos(double x) {
    double a = abs(x);
    bool large = a > 0.5;
    double z = large ? 0.5 - 0.5 * a : a * a;
    double r = asin_core(large ? sqrt(z) : x, z);
    double near_one = x > 0.0 ? 2.0 * r : 2.0 * RF_PIO2_HI - (2.0 * r - 2.0 * RF_PIO2_LO);
    return large ? near_one : RF_PIO2_HI - (r - RF_PIO2_LO);
}

// atan of a quotient `low / high` in [0, 1]; above tan(pi/8) through atan(t) = pi/4 + atan((t - 1) / (t + 1)), taken from
// numerator and denominator, so that nothing is rounded before. On |t| <= tan(pi/8): 2^-59.
RF_FN double atan_ratio(double low, double high) {
    bool upper = low > 0x1.a827999fcef32p-2 * high;
    double t = upper ? (low - high) / (low + high) : low / high;
    double z = t * t;
    double p = fma(-0x1.25080144b13b1p-6, z, 0x1.37a8d0dd109bp-5);
    p = fma(p, z, -0x1.9cc11a75a52d8p-5);
    p = fma(p, z, 0x1.df0b60393c7a9p-5);
    p = fma(p, z, -0x1.10eb732120628p-4);
    p = fma(p, z, 0x1.3b1112fcfe4cbp-4);
    p = fma(p, z, -0x1.745cf8835080ap-4);
    p = fma(p, z, 0x1.c71c70e2e6bd2p-4);
    p = fma(p, z, -0x1.24924922a501ap-3);
    p = fma(p, z, 0x1.99999999957p-3);
    p = fma(p, z, -0x1.555555555553cp-2);
    double r = fma(p, t * z, t);
    return upper ? 0.5 * RF_PIO2_HI + (r + 0.5 * RF_PIO2_LO) : r;
}
RF_FN double atan(double x) {
    double a = abs(x);
    bool steep = a > 1.0;
    double r = atan_ratio(steep ? 1.0 / a : a, 1.0);
    return copysign(steep ? RF_PIO2_HI - (r - RF_PIO2_LO) : r, x);
}
RF_FN double atan2(double y, double x) {
    double ay = abs(y), ax = abs(x);
    bool steep = ay > ax;
    double low = steep ? ax : ay, high = steep ? ay : ax;
    // Halves cannot overflow when added; zeros and infinities are replaced by quotients with the same angle.
    bool zero = high == 0.0, infinite = high == __builtin_inf();
    double both = low == __builtin_inf() ? 1.0 : 0.0;
    low = infinite ? both : low;
    high = zero || infinite ? 1.0 : high;
    bool huge = high > 0x1p1000;
    double r = atan_ratio(huge ? 0.5 * low : low, huge ? 0.5 * high : high);
    r = steep ? RF_PIO2_HI - (r - RF_PIO2_LO) : r;
    bool left = (bit_cast<u64>(x) >> 63) != 0;
    r = left ? 2.0 * RF_PIO2_HI - (r - 2.0 * RF_PIO2_LO) : r;
    return x == x && y == y ? copysign(r, y) : x + y;
}

RF_FN double asinh(double x) {
    double a = abs(x);
    bool large = a >= 0x1p54;
    double v = large ? a : a + a * a / (1.0 + sqrt(fma(a, a, 1.0)));
    return copysign(log1p(v) + (large ? RF_LN2 : 0.0), x);
}
RF_FN double acosh(double x) {
    bool large = x >= 0x1p54;
    double t = x - 1.0;
    double v = large ? x : t + sqrt(fma(t, t, 2.0 * t));
    double y = log1p(v) + (large ? RF_LN2 : 0.0);
    return x < 1.0 ? __builtin_nan("") : y;
}
RF_FN double atanh(double x) {
    double a = abs(x);
    return copysign(0.5 * log1p((a + a) / (1.0 - a)), x);
}

// erf below 1: x + x P(x^2), 2^-62; above, 1 - exp(-x^2) / x G((x - 2) / (x + 2)), 2^-72; from 6 on it rounds to 1.
RF_FN double erf(double x) {
    double a = abs(x);
    double y;
    if (a < 1.0) {
        double z = a * a;
        double p = fma(0x1.055afdfc3534ep-34, z, -0x1.385fb8720f119p-30);
        p = fma(p, z, 0x1.f7a09b83fe419p-27);
        p = fma(p, z, -0x1.5f1ce707aab25p-23);
        p = fma(p, z, 0x1.b9dee88dc4e5fp-20);
        p = fma(p, z, -0x1.f4d1de8bc29b7p-17);
        p = fma(p, z, 0x1.f9a321987f894p-14);
        p = fma(p, z, -0x1.c02db3d8a56bap-11);
        p = fma(p, z, 0x1.565bcd0daeb69p-8);
        p = fma(p, z, -0x1.b82ce3128490dp-6);
        p = fma(p, z, 0x1.ce2f21a042b1fp-4);
        p = fma(p, z, -0x1.812746b0379e6p-2);
        p = fma(p, z, 0x1.06eba8214db69p-3);
        y = fma(p, a, a);
    } else {
        double c = a > 6.0 ? 6.0 : a;
        double t = (c - 2.0) / (c + 2.0);
        double g = fma(0x1.9395dabd8a53bp-20, t, 0x1.ca9477f6f47e9p-21);
        g = fma(g, t, -0x1.1c9659a7140a4p-17);
        g = fma(g, t, -0x1.3b7a3e7fdc9a5p-16);
        g = fma(g, t, 0x1.a26ae56ee1e8p-18);
        g = fma(g, t, 0x1.769073adeecc9p-14);
        g = fma(g, t, 0x1.770d81f7209b9p-14);
        g = fma(g, t, -0x1.499ef08e14aeap-12);
        g = fma(g, t, -0x1.895016da3ca2p-11);
        g = fma(g, t, 0x1.2758bd19d924ap-10);
        g = fma(g, t, 0x1.399546d7867b3p-8);
        g = fma(g, t, -0x1.ec8d2aae3afbep-8);
        g = fma(g, t, -0x1.dac006bb124ddp-6);
        g = fma(g, t, 0x1.f1b9a3c942dcp-4);
        g = fma(g, t, -0x1.a1791e43ece7cp-3);
        g = fma(g, t, 0x1.5672b9ea13de6p-3);
        g = fma(g, t, 0x1.058671b52c776p-1);
        y = 1.0 - exp_core(-(c * c), 0.0, 0) * g / c;
    }
    return copysign(y, x);
}

RF_FN double hypot(double x, double y) {
    if (is_inf(x) || is_inf(y)) return __builtin_inf();
    double a = abs(x), b = abs(y);
    int e;
    frexp(a > b ? a : b, &e);
    e = a == 0.0 && b == 0.0 ? 0 : e;
    a = ldexp(a, -e);
    b = ldexp(b, -e);
    return ldexp(sqrt(fma(a, a, b * b)), e);
}

template <class T> RF_FN T pow_special(T x, T y, T power);
RF_FN double pow(double x, double y) {
    double a = abs(x);
    LogPair l = log_pair(a);
    double high = fma(l.k, RF_LN2_HI, l.high);
    double low = (l.high - (high - l.k * RF_LN2_HI)) + fma(l.k, RF_LN2_LO, l.low);
    double sum = high + low;
    low = low - (sum - high);
    sum = log_special(a, sum);
    double t = y * sum;
    double t_low = fma(y, sum, -t) + y * low;
    // |x| = 1: an infinite exponent makes no difference, and there is no tail.
    bool one = sum == 0.0 && y == y;
    t = one ? 0.0 : t;
    bool ordinary = abs(t) < 800.0 && !one;
    double power = exp_core(exp_clamp(t, -800.0, 800.0), ordinary ? t_low : 0.0, 0);
    return pow_special(x, y, power);
}

}  // namespace rf
#endif
