// special.h: functions of statistics, for double within 1e-13 of the value where it is not near a zero of the function; for
// float through double, so within an ulp.
#ifndef ROCFIRE_HIP_SPECIAL_H
#define ROCFIRE_HIP_SPECIAL_H
#pragma clang system_header

// Contracted expressions would round otherwise than what is written here.
#pragma float_control(push)
#pragma clang fp contract(off)

namespace rocfire_special {

constexpr double sqrt_of_pi = 1.7724538509055160273, number_pi = 3.14159265358979323846, sqrt_of_2 = 1.41421356237309504880;

#define ROCFIRE_PART __device__ inline

// exp(x^2) erfc(x) for x >= 2: the continued fraction of Abramowitz and Stegun, 7.1.14.
ROCFIRE_PART double erfc_tail(double x) {
    double t = x;
    for (int n = 120; n > 0; --n) t = x + 0.5 * n / t;
    return 1.0 / (sqrt_of_pi * t);
}
// exp(-x^2), the rounding of the square taken into account.
ROCFIRE_PART double gauss(double x) {
    double square = x * x;
    return rf::exp(-square) * (1.0 - rf::fma(x, x, -square));
}
ROCFIRE_PART double erfc(double x) {
    if (x != x) return x;
    if (x < 2.0) return 1.0 - rf::erf(x);
    return x > 28.0 ? 0.0 : gauss(x) * erfc_tail(x);
}
ROCFIRE_PART double erfcx(double x) {
    if (x >= 2.0) return rf::is_inf(x) ? 0.0 : erfc_tail(x);
    return erfc(x) / gauss(x);
}
// A first guess by Winitzki's formula (2 parts in a thousand), then Halley's steps, each of which triples the digits.
ROCFIRE_PART double erfinv_guess(double one_minus_square) {
    const double a = 0.147;
    double l = rf::log(one_minus_square), t = 2.0 / (number_pi * a) + 0.5 * l;
    return rf::sqrt(rf::sqrt(t * t - l / a) - t);
}
ROCFIRE_PART double halley(double y, double excess) {
    double step = excess * 0.5 * sqrt_of_pi / gauss(y);
    return y - step / (1.0 + y * step);
}
ROCFIRE_PART double erfcinv(double z) {
    if (!(z >= 0.0 && z <= 2.0)) return __builtin_nan("");
    if (z == 0.0 || z == 2.0) return z == 0.0 ? __builtin_inf() : -__builtin_inf();
    double low = z < 1.0 ? z : 2.0 - z;
    double y = erfinv_guess(low * (2.0 - low));
    for (int step = 0; step < 3; ++step) y = halley(y, low - erfc(y));
    return z < 1.0 ? y : -y;
}
ROCFIRE_PART double erfinv(double x) {
    double a = rf::abs(x);
    if (!(a <= 1.0)) return __builtin_nan("");
    if (a > 0.5) return rf::copysign(erfcinv(1.0 - a), x);
    double y = a == 0.0 ? 0.0 : erfinv_guess((1.0 - a) * (1.0 + a));
    if (a < 1e-8) y = a * 0.5 * sqrt_of_pi;
    for (int step = 0; step < 3; ++step) y = halley(y, rf::erf(y) - a);
    return rf::copysign(y, x);
}

// log gamma(x) for x >= 8: Stirling's series.
ROCFIRE_PART double stirling(double x) {
    double r = 1.0 / x, z = r * r;
    double s = 1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0 - z * 691.0 / 360360.0))));
    return (x - 0.5) * rf::log(x) - x + 0.91893853320467274178 + s * r;
}
ROCFIRE_PART double sin_pi(double x) {
    double turn = x - 2.0 * rf::round_even(0.5 * x);
    double n = rf::round_even(2.0 * turn), s, c;
    rf::sincos(number_pi * (turn - 0.5 * n), &s, &c);
    int q = (int)n & 3;
    double y = (q & 1) != 0 ? c : s;
    return (q & 2) != 0 ? -y : y;
}
// log |gamma(x)|
ROCFIRE_PART double lgamma(double x) {
    if (x != x || rf::is_inf(x)) return x * x;
    if (x <= 0.0 && rf::trunc(x) == x) return __builtin_inf();
    if (x < 0.5) return rf::log(number_pi / rf::abs(sin_pi(x))) - lgamma(1.0 - x);
    double product = 1.0;
    for (; x < 12.0; x += 1.0) product *= x;
    return stirling(x) - rf::log(product);
}
ROCFIRE_PART double tgamma(double x) {
    if (x != x || x == __builtin_inf()) return x;
    if (x == 0.0) return rf::copysign(__builtin_inf(), x);
    if (x < 0.0 && (rf::trunc(x) == x || rf::is_inf(x))) return __builtin_nan("");
    if (x < 0.5) return number_pi / (sin_pi(x) * tgamma(1.0 - x));
    // Whole numbers come out exactly.
    double product = 1.0;
    if (x < 24.0) {
        for (; x > 2.0; x -= 1.0) product *= x - 1.0;
        if (x == 1.0 || x == 2.0) return product;
    }
    double shift = 1.0;
    for (; x < 12.0; x += 1.0) shift *= x;
    return rf::exp(stirling(x)) / shift * product;
}

// I0 and I1: all terms of the series have one sign; for large x the asymptotic series.
ROCFIRE_PART double bessel_i(double x, int order) {
    double a = rf::abs(x), sum, term;
    if (a < 30.0) {
        double q = 0.25 * a * a;
        sum = term = order == 0 ? 1.0 : 0.5 * a;
        for (int k = 1; k < 100; ++k) sum += term *= q / ((double)k * (k + order));
    } else {
        sum = term = 1.0;
        for (int k = 1; k < 20; ++k) sum += term *= ((2 * k - 1) * (2 * k - 1) - 4.0 * order) / (8.0 * k * a);
        sum *= rf::exp(a - 0.5 * rf::log(2.0 * number_pi * a));
    }
    return order == 1 ? rf::copysign(sum, x) : sum;
}
// J0 and J1: Bessel's integral by the trapezoid rule, which converges faster than any power; Hankel's series from 25 on.
ROCFIRE_PART double bessel_j(double x, int order) {
    double a = rf::abs(x), y;
    if (a < 25.0) {
        y = 0.0;
        for (int k = 0; k < 64; ++k) {
            double angle = number_pi * (k + 0.5) / 64.0;
            y += rf::cos(order * angle - a * rf::sin(angle)) / 64.0;
        }
    } else {
        double mu = 4.0 * order, p = 1.0, q = 0.0, term = 1.0;
        for (int k = 1; k < 20; ++k) {
            term *= (mu - (2 * k - 1) * (2 * k - 1)) / (8.0 * k * a);
            double part = (k & 2) != 0 ? -term : term;
            if ((k & 1) != 0) q += part;
            else p += part;
        }
        double angle = a - (0.5 * order + 0.25) * number_pi;
        y = rf::sqrt(2.0 / (number_pi * a)) * (p * rf::cos(angle) - q * rf::sin(angle));
    }
    return order == 1 && x < 0.0 ? -y : y;
}
ROCFIRE_PART double i0(double x) { return bessel_i(x, 0); }
ROCFIRE_PART double i1(double x) { return bessel_i(x, 1); }
ROCFIRE_PART double j0(double x) { return bessel_j(x, 0); }
ROCFIRE_PART double j1(double x) { return bessel_j(x, 1); }
ROCFIRE_PART double ncdf(double x) { return 0.5 * erfc(-x / sqrt_of_2); }
ROCFIRE_PART double ncdfinv(double p) { return -sqrt_of_2 * erfcinv(2.0 * p); }

}  // namespace rocfire_special

#define ROCFIRE_SPECIAL(name)                                                                              \
    ROCFIRE_LIBRARY float __ocml_##name##_f32(float x) { return (float)rocfire_special::name((double)x); } \
    ROCFIRE_LIBRARY double __ocml_##name##_f64(double x) { return rocfire_special::name(x); }
ROCFIRE_SPECIAL(erfc)
ROCFIRE_SPECIAL(erfcinv)
ROCFIRE_SPECIAL(erfcx)
ROCFIRE_SPECIAL(erfinv)
ROCFIRE_SPECIAL(i0)
ROCFIRE_SPECIAL(i1)
ROCFIRE_SPECIAL(j0)
ROCFIRE_SPECIAL(j1)
ROCFIRE_SPECIAL(lgamma)
ROCFIRE_SPECIAL(ncdf)
ROCFIRE_SPECIAL(ncdfinv)
ROCFIRE_SPECIAL(tgamma)
#undef ROCFIRE_SPECIAL
#undef ROCFIRE_PART
#pragma float_control(pop)

#endif
