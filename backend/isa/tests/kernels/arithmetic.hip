// Integer, half, single and double precision arithmetic, conversions and comparisons, one output per operation.

#define GLOBAL extern "C" __attribute__((global))
#define LANE (__builtin_amdgcn_workitem_id_x() + 256 * __builtin_amdgcn_workgroup_id_x())

GLOBAL void floats(float *out, const float *a, const float *b, int n) {
    int i = LANE;
    if (i >= n) return;
    float x = a[i], y = b[i];
    out[i] = x / y + __builtin_sqrtf(x) + __builtin_fmaf(x, y, 0.15915494f) + __builtin_fabsf(-y);
    out[i + n] = __builtin_amdgcn_exp2f(x) * __builtin_amdgcn_sinf(y) + __builtin_fminf(x, -4.0f) + __builtin_floorf(y);
    out[i + 2 * n] = __builtin_isfpclass(x, 3) ? __builtin_ldexpf(x, (int)y) : (float)(unsigned)x;
}

GLOBAL void doubles(double *out, const double *a, const double *b, int n) {
    int i = LANE;
    if (i >= n) return;
    double x = a[i], y = b[i];
    out[i] = x / y + __builtin_sqrt(y) + __builtin_fma(x, y, 0.15915494309189535) + (double)(float)x * 1e300;
    out[i + n] = x > y ? __builtin_floor(x) : (double)(long)y;
}

typedef _Float16 half2 __attribute__((ext_vector_type(2)));
GLOBAL void halves(half2 *out, const half2 *a, const half2 *b, int n) {
    int i = LANE;
    if (i >= n) return;
    half2 x = a[i], y = b[i];
    out[i] = x * y + (half2)((_Float16)0.25f);
    out[i + n] = half2{(_Float16)((float)x.x + (float)y.y), x.y > y.x ? x.y : y.x};
}

typedef float float2 __attribute__((ext_vector_type(2)));
GLOBAL void pairs(float2 *out, const float2 *a, const float2 *b, int n) {
    int i = LANE;
    if (i < n) out[i] = a[i] * b[i].yy + out[i];
}

GLOBAL void integers(unsigned long *out, const unsigned long *a, const unsigned *b, const signed char *c, int n) {
    int i = LANE;
    if (i >= n) return;
    unsigned long x = a[i];
    unsigned y = b[i];
    out[i] = x * y + (x >> (y & 63)) + __builtin_popcountl(x) + __builtin_clz(y | 1);
    out[i + n] = y / 7 + y % 1000 + ((y << 5) ^ (y >> 27)) + (y > 12345 ? x : ~x) + c[i] * c[i + 1];
    out[i + 2 * n] = x / (y | 1);
}
