// The prelude's functions and the hardware's own, one value a lane.

// out[k * n + i] = function k of x[i]; the references name the functions in the same order.
#define EACH(n, i, x, out, ...)                                        \
    {                                                                  \
        decltype(x) results[] = {__VA_ARGS__};                         \
        for (u32 k = 0; k < sizeof(results) / sizeof(x); ++k) out[k * n + i] = results[k]; \
    }

KERNEL void exponentials_f32(const float* x, float* out, int n) {
    int i = global_x();
    float own = x[i];
    EACH(n, i, own, out, rf::exp(own), rf::exp2(own), rf::expm1(own), rf::sinh(own), rf::cosh(own), rf::tanh(own), rf::erf(own))
}
KERNEL void logarithms_f32(const float* x, float* out, int n) {
    int i = global_x();
    float own = x[i];
    EACH(n, i, own, out, rf::log(own), rf::log2(own), rf::log10(own), rf::log1p(own), rf::rsqrt(own), rf::sqrt(own), rf::asinh(own))
}
KERNEL void circular_f32(const float* x, float* out, int n) {
    int i = global_x();
    float own = x[i];
    EACH(n, i, own, out, rf::sin(own), rf::cos(own), rf::atan(own), rf::atan2(own, 1.5f), rf::hypot(own, 2.0f))
}
KERNEL void inverses_f32(const float* x, float* out, int n) {
    int i = global_x();
    float own = x[i];
    EACH(n, i, own, out, rf::asin(own), rf::acos(own), rf::atanh(own), rf::tan(own), rf::pow(1.0f + own, 3.7f))
}
KERNEL void functions_f64(const double* x, double* out, int n) {
    int i = global_x();
    double own = x[i];
    EACH(n, i, own, out, rf::exp(own), rf::log(own * own + 0.01), rf::sin(own), rf::cos(own), rf::tanh(own), rf::pow(2.5, own), rf::erf(own))
}

// Division, root, remainder, rounding: exact to the bit.
KERNEL void exact_f32(const float* x, const float* y, float* out, int n) {
    int i = global_x();
    float a = x[i], b = y[i];
    EACH(n, i, a, out, a / b, __builtin_sqrtf(__builtin_fabsf(a)), rf::fmod(a, b), __builtin_floorf(a), __builtin_ceilf(a),
         __builtin_truncf(a), __builtin_rintf(a), __builtin_copysignf(a, b), __builtin_fmaf(a, b, a), rf::ldexp(a, -3), 1.0f / b)
}

// The hardware's approximations.
KERNEL void native_f32(const float* x, float* out, int n) {
    int i = global_x();
    float own = x[i];
    EACH(n, i, own, out, __builtin_amdgcn_rcpf(own), __builtin_amdgcn_rsqf(own), __builtin_amdgcn_sqrtf(own), __builtin_amdgcn_exp2f(own),
         __builtin_amdgcn_logf(own), __builtin_amdgcn_sinf(own), __builtin_amdgcn_cosf(own), __builtin_amdgcn_fractf(own))
}

// Mantissas and exponents, classes of numbers.
KERNEL void parts_f32(const float* x, float* mantissas, i32* exponents, u32* classes) {
    int i = global_x();
    mantissas[i] = __builtin_amdgcn_frexp_mantf(x[i]);
    exponents[i] = __builtin_amdgcn_frexp_expf(x[i]);
    u32 bits = 0;
    bits |= __builtin_amdgcn_classf(x[i], 0x003) << 0 | __builtin_amdgcn_classf(x[i], 0x204) << 1;
    bits |= __builtin_amdgcn_classf(x[i], 0x108) << 2 | __builtin_amdgcn_classf(x[i], 0x090) << 3;
    bits |= __builtin_amdgcn_classf(x[i], 0x060) << 4;
    classes[i] = bits;
}

// Floats and whole numbers, each way.
KERNEL void conversions(const float* x, const u64* y, i64* out) {
    int i = global_x();
    float a = x[i];
    u64 b = y[i];
    i64* to = out + 8 * i;
    to[0] = (i32)a, to[1] = (u32)__builtin_fabsf(a), to[2] = (i64)(a * 1e6f), to[3] = (i16)a;
    to[4] = bits_as<u32>((float)b), to[5] = bits_as<u32>((float)(i64)b), to[6] = bits_as<u32>((float)(u32)b);
    to[7] = bits_as<u32>((float)(i32)b);
}

// f16 through the hardware.
KERNEL void halves(const f16* x, f16* out, int n) {
    int i = global_x();
    f16 own = x[i];
    EACH(n, i, own, out, (f16)__builtin_sqrtf((float)own), (f16)(1.0f / (float)own), __builtin_elementwise_trunc(own),
         __builtin_elementwise_ceil(own), own * own + own, (f16)(own / (f16)3.0f))
}

// Iterations that only converge if every step is right: a logistic map and a cube root.
KERNEL void iterations(const float* x, float* logistic, float* cube_root) {
    int i = global_x();
    float a = x[i], r = 3.7f;
    for (int k = 0; k < 200; ++k) a = r * a * (1.0f - a);
    logistic[i] = a;
    float y = 1.0f;
    for (int k = 0; k < 12; ++k) y = y - (y * y * y - x[i]) / (3.0f * y * y);
    cube_root[i] = y;
}

// Black and Scholes, as everyone writes it.
FN float normal(float x) { return 0.5f * (1.0f + rf::erf(x * 0.70710678f)); }
KERNEL void black_scholes(const float* prices, const float* strikes, float* calls, float rate, float spread, float years) {
    int i = global_x();
    float s = prices[i], k = strikes[i], root = __builtin_sqrtf(years);
    float d1 = (rf::log(s / k) + (rate + 0.5f * spread * spread) * years) / (spread * root), d2 = d1 - spread * root;
    calls[i] = s * normal(d1) - k * rf::exp(-rate * years) * normal(d2);
}
