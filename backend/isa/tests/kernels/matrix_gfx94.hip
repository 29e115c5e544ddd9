// The matrix unit with register tiles, accumulation registers under pressure, and 8-bit conversions.

#define GLOBAL extern "C" __attribute__((global))
#define LANE __builtin_amdgcn_workitem_id_x()

typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef short short4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef float float16 __attribute__((ext_vector_type(16)));
typedef double double4 __attribute__((ext_vector_type(4)));
typedef int int16 __attribute__((ext_vector_type(16)));

GLOBAL __attribute__((amdgpu_flat_work_group_size(64, 64), amdgpu_waves_per_eu(1, 1)))
void gemm_tile(float16 *out, const half4 *a, const half4 *b, int k) {
    float16 acc[16] = {};
    for (int i = 0; i < k; i++) {
        half4 x[4], y[4];
        for (int j = 0; j < 4; j++) x[j] = a[(i * 4 + j) * 64 + LANE], y[j] = b[(i * 4 + j) * 64 + LANE];
        for (int j = 0; j < 16; j++) acc[j] = __builtin_amdgcn_mfma_f32_32x32x8f16(x[j / 4], y[j % 4], acc[j], 0, 0, 0);
    }
    for (int j = 0; j < 16; j++) out[j * 64 + LANE] = acc[j];
}

GLOBAL void shapes(float4 *out, double4 *wide, int16 *whole, short4 a, short4 b, double c, double d, long e, long f) {
    float4 x = out[LANE];
    x = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, x, 1, 2, 3);
    x = __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(e, f, x, 0, 0, 0);
    x = __builtin_amdgcn_mfma_f32_4x4x1f32(x.x, x.y, x, 4, 1, 0);
    out[LANE] = x;
    wide[LANE] = __builtin_amdgcn_mfma_f64_16x16x4f64(c, d, wide[LANE], 0, 0, 3);
    whole[LANE] = __builtin_amdgcn_mfma_i32_32x32x16_i8(e, f, whole[LANE], 0, 0, 0);
}

GLOBAL void narrow(int *out, const float *a) {
    float x = a[LANE * 2], y = a[LANE * 2 + 1];
    int packed = __builtin_amdgcn_cvt_pk_fp8_f32(x, y, 0, false);
    packed = __builtin_amdgcn_cvt_pk_bf8_f32(y, x, packed, true);
    packed = __builtin_amdgcn_cvt_sr_fp8_f32(x, 42, packed, 2);
    out[LANE] = packed + (int)__builtin_amdgcn_cvt_f32_fp8(packed, 3);
}
