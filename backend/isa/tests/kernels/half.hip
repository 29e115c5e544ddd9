// 16-bit arithmetic, whose operands are halves of registers on some families.

#define GLOBAL extern "C" __attribute__((global))
#define LANE __builtin_amdgcn_workitem_id_x()

typedef _Float16 half2 __attribute__((ext_vector_type(2)));

GLOBAL void scalars(_Float16 *out, const _Float16 *a, const short *b, int n) {
    _Float16 x = a[LANE], y = a[LANE + n], z = a[LANE + 2 * n];
    short s = b[LANE], t = b[LANE + n];
    out[LANE] = __builtin_fmaf16(x, y, z) / (x + y) + (_Float16)(short)(s * t + (s >> 3));
    out[LANE + n] = x > y ? __builtin_sqrtf16(z) : (_Float16)__builtin_floorf((float)x);
    out[LANE + 2 * n] = (_Float16)((unsigned short)s < (unsigned short)t ? (float)y * 3.f : (float)-z);
}

GLOBAL void packed(half2 *out, const half2 *a, int n) {
    half2 x = a[LANE], y = a[LANE + n];
    half2 z = {y.y, y.x};
    out[LANE] = x * y + z;
    out[LANE + n] = half2{x.x + z.y, x.y * (_Float16)0.5};
}
