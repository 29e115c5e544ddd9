// Packed and narrow arithmetic: two halves, two shorts, two floats in one instruction, and conversions between widths.

// Pairs of f16.
KERNEL void halves(const vec<f16, 2>* x, const vec<f16, 2>* y, vec<f16, 2>* out) {
    int i = global_x();
    vec<f16, 2> a = x[i], b = y[i];
    vec<f16, 2>* to = out + 7 * i;
    to[0] = a + b, to[1] = a * b, to[2] = a - b.yx;
    to[3] = __builtin_elementwise_fma(a, b, -a);
    to[4] = __builtin_elementwise_min(a, b), to[5] = __builtin_elementwise_max(a, (vec<f16, 2>)b.x);
    to[6] = __builtin_elementwise_abs(a) * (f16)2.0f + b;
}

// Single f16: operations, comparisons, whole numbers.
KERNEL void half_scalar(const f16* x, const f16* y, f16* out, i16* whole) {
    int i = global_x();
    f16 a = x[i], b = y[i];
    out[4 * i] = a < b ? a + (f16)1.0f : b;
    out[4 * i + 1] = __builtin_elementwise_floor(a * (f16)64.0f);
    out[4 * i + 2] = __builtin_elementwise_rint(b * (f16)64.0f);
    out[4 * i + 3] = (f16)(i16)(i * 77 - 3000);
    whole[i] = (i16)(a * (f16)1000.0f);
}

// Pairs of shorts, signed and not.
KERNEL void shorts(const vec<i16, 2>* x, const vec<i16, 2>* y, vec<i16, 2>* out) {
    int i = global_x();
    vec<i16, 2> a = x[i], b = y[i];
    vec<u16, 2> c = __builtin_bit_cast(decltype(c), a), d = __builtin_bit_cast(decltype(d), b);
    vec<u16, 2> by = d & (u16)15;
    vec<i16, 2>* to = out + 8 * i;
    to[0] = a + b, to[1] = a - b, to[2] = a * b + a;
    to[3] = __builtin_elementwise_min(a, b), to[4] = __builtin_elementwise_max(a, b);
    to[5] = __builtin_bit_cast(vec<i16, 2>, c << by);
    to[6] = __builtin_bit_cast(vec<i16, 2>, (vec<u16, 2>)(c >> by));
    to[7] = a >> __builtin_bit_cast(vec<i16, 2>, by);
}

// Pairs of floats: packed instructions where the card has them.
KERNEL void floats(const vec<float, 2>* x, const vec<float, 2>* y, vec<float, 2>* out) {
    int i = global_x();
    vec<float, 2> a = x[i], b = y[i], sum = {0.0f, 0.0f};
    for (int k = 0; k < 5; ++k) {
        sum = __builtin_elementwise_fma(a, b, sum);
        a = a * b.yx + b;
        b = b - a.xx * 0.25f;
    }
    out[2 * i] = sum;
    out[2 * i + 1] = a;
}

// f16 factors in f32 sums, and an f32 result rounded to f16: mixed-width instructions.
KERNEL void mixed(const vec<f16, 2>* x, const float* y, float* wide, f16* narrow) {
    int i = global_x();
    vec<f16, 2> a = x[i];
    wide[i] = __builtin_fmaf((float)a.x, (float)a.y, y[i]) + (float)a.x;
    narrow[i] = (f16)__builtin_fmaf((float)a.y, y[i], -(float)a.x);
}

// Products of pairs added to a sum of f32 or i32.
KERNEL void pair_dots(const vec<f16, 2>* x, const vec<f16, 2>* y, const vec<i16, 2>* p, const vec<i16, 2>* q, float* dots, i32* sums) {
    int i = global_x();
#if __has_builtin(__builtin_amdgcn_fdot2)
    dots[i] = __builtin_amdgcn_fdot2(x[i], y[i], 0.5f, false);
#else
    dots[i] = (float)x[i].x * (float)y[i].x + (float)x[i].y * (float)y[i].y + 0.5f;
#endif
#if __has_builtin(__builtin_amdgcn_sdot2)
    sums[i] = __builtin_amdgcn_sdot2(p[i], q[i], -9, false);
#else
    sums[i] = (i32)p[i].x * q[i].x + (i32)p[i].y * q[i].y - 9;
#endif
}

// f32 to f16, to nearest and towards zero; to bf16; and back.
KERNEL void narrowing(const float* x, u32* out) {
    int i = global_x();
    float a = x[i];
    out[4 * i] = bits_as<u16>((f16)a);
    out[4 * i + 1] = bits_as<u32>(__builtin_amdgcn_cvt_pkrtz(a, -a));
    out[4 * i + 2] = bits_as<u16>((__bf16)a);
    out[4 * i + 3] = bits_as<u32>((float)bits_as<__bf16>((u16)(bits_as<u32>(a) >> 16)));
}

// Bytes to floats and floats to bytes.
KERNEL void bytes(const u32* x, vec<float, 4>* out, u32* packed) {
    int i = global_x();
    u32 own = x[i];
    vec<float, 4> four = {(float)(own & 255), (float)(own >> 8 & 255), (float)(own >> 16 & 255), (float)(own >> 24)};
    out[i] = four;
    u32 result = 0;
    for (int k = 0; k < 4; ++k) result = __builtin_amdgcn_cvt_pk_u8_f32(four[k] + 3.0f, k, result);
    packed[i] = result;
}

// One picture over another, four bytes a pixel, two products at a time in one word.
KERNEL void blend(const u32* over, const u32* under, u32* out) {
    u32 a = over[global_x()], b = under[global_x()], alpha = a >> 24, rest = 255 - alpha;
    u32 even = (a & 0x00ff00ff) * alpha + (b & 0x00ff00ff) * rest + 0x00800080;
    u32 odd = (a >> 8 & 0x00ff00ff) * alpha + (b >> 8 & 0x00ff00ff) * rest + 0x00800080;
    even = (even + (even >> 8 & 0x00ff00ff)) >> 8 & 0x00ff00ff;
    odd = (odd + (odd >> 8 & 0x00ff00ff)) & 0xff00ff00;
    out[global_x()] = even | odd;
}
