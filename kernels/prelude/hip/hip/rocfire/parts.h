// parts.h: what is exact or a short step from the prelude's functions, for the type ROCFIRE_REAL. math.h includes it for float
// and for double, so it has no guard.
#pragma clang system_header

ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(exp10)(ROCFIRE_REAL x) { return rf::pow((ROCFIRE_REAL)10, x); }
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(pown)(ROCFIRE_REAL x, int n) { return rf::pow(x, (ROCFIRE_REAL)n); }
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(fdim)(ROCFIRE_REAL x, ROCFIRE_REAL y) {
    return x != x || y != y ? x + y : x > y ? x - y : (ROCFIRE_REAL)0;
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(modf)(ROCFIRE_REAL x, ROCFIRE_PRIVATE ROCFIRE_REAL *whole) {
    ROCFIRE_REAL t = rf::trunc(x);
    *whole = t;
    return rf::copysign(rf::is_inf(x) ? (ROCFIRE_REAL)0 : x - t, x);
}
// The exponent of a finite number that is not zero.
ROCFIRE_LIBRARY int ROCFIRE_NAME(exponent)(ROCFIRE_REAL x) {
    int e;
    rf::frexp(x, &e);
    return e - 1;
}
ROCFIRE_LIBRARY int ROCFIRE_NAME(ilogb)(ROCFIRE_REAL x) {
    if (x == 0) return -__INT_MAX__ - 1;
    if (x != x) return -__INT_MAX__ - 1;
    return rf::is_inf(x) ? __INT_MAX__ : ROCFIRE_NAME(exponent)(x);
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(logb)(ROCFIRE_REAL x) {
    if (x != x || rf::is_inf(x)) return x * x;
    return x == 0 ? -(ROCFIRE_REAL)__builtin_inf() : (ROCFIRE_REAL)ROCFIRE_NAME(exponent)(x);
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(scalb)(ROCFIRE_REAL x, ROCFIRE_REAL y) {
    if (x != x || y != y) return x + y;
    return rf::ldexp(x, (int)(y > 100000 ? 100000 : y < -100000 ? -100000 : y));
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(nextafter)(ROCFIRE_REAL x, ROCFIRE_REAL y) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    if (x == 0) return rf::copysign(rf::bit_cast<ROCFIRE_REAL>((ROCFIRE_BITS)1), y);
    ROCFIRE_BITS bits = rf::bit_cast<ROCFIRE_BITS>(x);
    return rf::bit_cast<ROCFIRE_REAL>((x < y) == (x > 0) ? bits + 1 : bits - 1);
}
// x - n y with n the quotient to nearest, ties to even. Twice y may overflow, half of the remainder cannot.
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(remquo)(ROCFIRE_REAL x, ROCFIRE_REAL y, ROCFIRE_PRIVATE int *quotient) {
    *quotient = 0;
    ROCFIRE_REAL b = rf::abs(y);
    if (x != x || y != y || rf::is_inf(x) || b == 0) return (ROCFIRE_REAL)__builtin_nan("");
    if (rf::is_inf(y)) return x;
    // Eight times y keeps three bits of the quotient, as C asks for; beyond the largest number there is nothing to take off.
    ROCFIRE_REAL eight = b * 8, a = rf::abs(x);
    ROCFIRE_REAL r = rf::is_inf(eight) ? a : rf::fmod(a, eight);
    int n = 0;
    for (int bit = 4; bit > 0; bit >>= 1) {
        ROCFIRE_REAL part = b * bit;
        if (r >= part) {
            r -= part;
            n += bit;
        }
    }
    ROCFIRE_REAL rest = b - r;
    if (r > rest || (r == rest && (n & 1) != 0)) {
        r = -rest;
        n += 1;
    }
    *quotient = (x < 0) != (y < 0) ? -(n & 7) : n & 7;
    return r == 0 ? rf::copysign(r, x) : x < 0 ? -r : r;
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(remainder)(ROCFIRE_REAL x, ROCFIRE_REAL y) {
    int n;
    return ROCFIRE_NAME(remquo)(x, y, (ROCFIRE_PRIVATE int *)&n);
}
// Of pi x: exact multiples of a half come off first.
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(sincospi)(ROCFIRE_REAL x, ROCFIRE_PRIVATE ROCFIRE_REAL *cosine) {
    ROCFIRE_REAL turn = x - 2 * rf::round_even(x / 2);
    ROCFIRE_REAL n = rf::round_even(2 * turn), r = turn - n / 2;
    ROCFIRE_REAL s, c;
    rf::sincos((ROCFIRE_REAL)3.14159265358979323846 * r, &s, &c);
    int q = (int)n & 3;
    ROCFIRE_REAL sine = (q & 1) != 0 ? c : s, other = (q & 1) != 0 ? s : c;
    *cosine = q == 1 || q == 2 ? -other : other;
    return (q & 2) != 0 ? -sine : sine;
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(sinpi)(ROCFIRE_REAL x) {
    ROCFIRE_REAL c;
    return ROCFIRE_NAME(sincospi)(x, (ROCFIRE_PRIVATE ROCFIRE_REAL *)&c);
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(cospi)(ROCFIRE_REAL x) {
    ROCFIRE_REAL c;
    ROCFIRE_NAME(sincospi)(x, (ROCFIRE_PRIVATE ROCFIRE_REAL *)&c);
    return c;
}
// Through the logarithm, and one step of Newton's.
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(cbrt)(ROCFIRE_REAL x) {
    if (x == 0 || x != x || rf::is_inf(x)) return x;
    int e;
    ROCFIRE_REAL m = rf::frexp(rf::abs(x), &e);
    int third = (e + 1200) / 3 - 400;
    m = rf::ldexp(m, e - 3 * third);
    ROCFIRE_REAL y = rf::exp(rf::log(m) / 3);
    y = y - (y * y * y - m) / (3 * y * y);
    return rf::copysign(rf::ldexp(y, third), x);
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(rcbrt)(ROCFIRE_REAL x) { return 1 / ROCFIRE_NAME(cbrt)(x); }
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(rhypot)(ROCFIRE_REAL x, ROCFIRE_REAL y) { return 1 / rf::hypot(x, y); }
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(len3)(ROCFIRE_REAL x, ROCFIRE_REAL y, ROCFIRE_REAL z) {
    return rf::hypot(rf::hypot(x, y), z);
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(len4)(ROCFIRE_REAL x, ROCFIRE_REAL y, ROCFIRE_REAL z, ROCFIRE_REAL w) {
    return rf::hypot(rf::hypot(x, y), rf::hypot(z, w));
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(rlen3)(ROCFIRE_REAL x, ROCFIRE_REAL y, ROCFIRE_REAL z) {
    return 1 / ROCFIRE_NAME(len3)(x, y, z);
}
ROCFIRE_LIBRARY ROCFIRE_REAL ROCFIRE_NAME(rlen4)(ROCFIRE_REAL x, ROCFIRE_REAL y, ROCFIRE_REAL z, ROCFIRE_REAL w) {
    return 1 / ROCFIRE_NAME(len4)(x, y, z, w);
}

#undef ROCFIRE_REAL
#undef ROCFIRE_NAME
#undef ROCFIRE_BITS
#undef ROCFIRE_MANTISSA
