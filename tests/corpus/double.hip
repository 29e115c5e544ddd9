// Arithmetic in f64.

// Every basic operation; division and root are correctly rounded.
KERNEL void basic(const double* x, const double* y, double* out) {
    int i = global_x();
    double a = x[i], b = y[i];
    double* to = out + 8 * i;
    to[0] = a + b, to[1] = a * b, to[2] = a / b, to[3] = __builtin_sqrt(__builtin_fabs(a));
    to[4] = __builtin_fma(a, b, 1.0), to[5] = __builtin_fmin(a, b), to[6] = __builtin_fmax(a, b);
    to[7] = a - b * 3.0;
}

// To whole numbers in four ways, to other types and back.
KERNEL void rounding(const double* x, double* out) {
    int i = global_x();
    double a = x[i] * 1000.0;
    double* to = out + 4 * i;
    to[0] = __builtin_floor(a), to[1] = __builtin_ceil(a), to[2] = __builtin_trunc(a), to[3] = __builtin_rint(a);
}
KERNEL void conversions(const double* x, i64* out) {
    int i = global_x();
    double a = x[i] * 1e9;
    i64* to = out + 8 * i;
    to[0] = (i32)a, to[1] = (u32)__builtin_fabs(a), to[2] = (i64)(a * 1e9), to[3] = (u64)__builtin_fabs(a * 1e10);
    to[4] = bits_as<i64>((double)(float)a), to[5] = bits_as<i64>((double)(f16)(float)x[i]);
    to[6] = bits_as<i64>((double)(i64)(a * 1e9)), to[7] = bits_as<i64>((double)(u64)__builtin_fabs(a * 1e10));
}

// Horner's rule, fused, on a long polynomial.
KERNEL void polynomial(const double* coefficients, const double* x, double* out, int degree) {
    double sum = coefficients[degree], at = x[global_x()];
    for (int k = degree - 1; k >= 0; --k) sum = __builtin_fma(sum, at, coefficients[k]);
    out[global_x()] = sum;
}

// Comparisons, and what infinities and NaN make of them.
KERNEL void classes(const double* x, const double* y, u32* out) {
    int i = global_x();
    double a = x[i], b = y[i];
    u32 bits = (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a > b) << 4 | (a >= b) << 5;
    bits |= __builtin_isunordered(a, b) << 6 | __builtin_isnan(a) << 7 | __builtin_isinf(a) << 8 | __builtin_isfinite(b) << 9;
    bits |= (__builtin_signbit(a) != 0) << 10 | __builtin_isnormal(a) << 11 | !(a < b) << 12;
    out[i] = bits;
}

// Numbers twice as long: sums and products without error, and a quotient by Newton.
struct Long {
    double high, low;
};
FN Long two_sum(double a, double b) {
    double sum = a + b, part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
}
FN Long two_product(double a, double b) {
    double product = a * b;
    return {product, __builtin_fma(a, b, -product)};
}
KERNEL void double_double(const double* x, const double* y, Long* sums, Long* products) {
    Long sum = {0.0, 0.0}, product = {1.0, 0.0};
    for (int k = 0; k < 20; ++k) {
        double a = x[global_x() + k], b = 1.0 + y[global_x() + k];
        Long next = two_sum(sum.high, a);
        sum = {next.high, sum.low + next.low};
        next = two_product(product.high, b);
        product = {next.high, __builtin_fma(product.low, b, next.low)};
    }
    sums[global_x()] = two_sum(sum.high, sum.low);
    products[global_x()] = two_sum(product.high, product.low);
}

// Mantissa and exponent taken apart and put together.
KERNEL void parts(const double* x, double* mantissas, i32* exponents, double* scaled) {
    int i = global_x();
    mantissas[i] = __builtin_amdgcn_frexp_mant(x[i]);
    exponents[i] = __builtin_amdgcn_frexp_exp(x[i]);
    scaled[i] = __builtin_amdgcn_ldexp(x[i], i - 32) + __builtin_amdgcn_fract(x[i] * 8.0);
}

// Kepler's equation by Newton's method, sine and cosine by series.
KERNEL void kepler(const double* mean, double* anomaly, double eccentricity) {
    double m = mean[global_x()], e = m;
    for (int step = 0; step < 8; ++step) {
        double sine = 0.0, cosine = 0.0, term = 1.0;
        for (int k = 0; k < 24; k += 2) {
            cosine += k & 2 ? -term : term;
            term *= e / (double)(k + 1);
            sine += k & 2 ? -term : term;
            term *= e / (double)(k + 2);
        }
        e -= (e - eccentricity * sine - m) / (1.0 - eccentricity * cosine);
    }
    anomaly[global_x()] = e;
}

// Runge and Kutta's fourth order on a pendulum without its sine.
KERNEL void oscillator(const double* start, double* out, int steps, double h) {
    double x = start[2 * global_x()], v = start[2 * global_x() + 1];
    for (int s = 0; s < steps; ++s) {
        double k1x = v, k1v = -x * x * x;
        double ax = x + h / 2 * k1x, av = v + h / 2 * k1v, k2x = av, k2v = -ax * ax * ax;
        double bx = x + h / 2 * k2x, bv = v + h / 2 * k2v, k3x = bv, k3v = -bx * bx * bx;
        double cx = x + h * k3x, cv = v + h * k3v, k4x = cv, k4v = -cx * cx * cx;
        x += h / 6 * (k1x + 2 * k2x + 2 * k3x + k4x);
        v += h / 6 * (k1v + 2 * k2v + 2 * k3v + k4v);
    }
    out[2 * global_x()] = x;
    out[2 * global_x() + 1] = v;
}
