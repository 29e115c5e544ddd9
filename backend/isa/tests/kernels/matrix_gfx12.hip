// WMMA as RDNA 4 has it, 8-bit floats included, and conversions to and from them.

#define GLOBAL extern "C" __attribute__((global))
#define LANE __builtin_amdgcn_workitem_id_x()

typedef float float8 __attribute__((ext_vector_type(8)));
typedef int int8 __attribute__((ext_vector_type(8)));
typedef int int2 __attribute__((ext_vector_type(2)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef short short8 __attribute__((ext_vector_type(8)));

GLOBAL void products(float8 *out, int8 *whole, half8 *halves, const half8 *a, const int2 *c) {
    float8 acc = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a[LANE], a[LANE + 32], out[LANE]);
    acc = __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(c[LANE], c[LANE + 32], acc);
    out[LANE] = acc;
    halves[LANE] = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(a[LANE], a[LANE + 32], halves[LANE]);
    whole[LANE] = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, c[LANE], false, c[LANE + 32], whole[LANE], true);
}

GLOBAL void narrow(int *out, const float *a) {
    float x = a[LANE * 2], y = a[LANE * 2 + 1];
    int packed = __builtin_amdgcn_cvt_pk_fp8_f32(x, y, 0, false);
    packed = __builtin_amdgcn_cvt_sr_fp8_f32(x, 42, packed, 2);
    out[LANE] = packed + (int)__builtin_amdgcn_cvt_f32_fp8(packed, 3);
}
