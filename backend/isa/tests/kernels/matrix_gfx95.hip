// What gfx950 adds: wider products, scaled 8-, 6- and 4-bit products, transposed loads, swaps and conversions.

#define GLOBAL extern "C" __attribute__((global))
#define LANE __builtin_amdgcn_workitem_id_x()

typedef float float4 __attribute__((ext_vector_type(4)));
typedef float float16 __attribute__((ext_vector_type(16)));
typedef int int8 __attribute__((ext_vector_type(8)));
typedef int int4 __attribute__((ext_vector_type(4)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));

GLOBAL void products(float4 *out, float16 *whole, const int8 *a, const half8 *h, int scale) {
    int8 x = a[LANE], y = a[LANE + 64];
    float4 acc = out[LANE];
    acc = __builtin_amdgcn_mfma_f32_16x16x32_f16(h[LANE], h[LANE + 64], acc, 0, 0, 0);
    acc = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, acc, 0, 0, 0, scale, 0, LANE);
    acc = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, acc, 4, 2, 1, scale, 2, LANE);
    acc = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(x, y, acc, 4, 4, 3, LANE, 1, LANE + 1);
    out[LANE] = acc;
    whole[LANE] = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, whole[LANE], 0, 1, 0, 0, 0, 0);
}

GLOBAL void moves(unsigned *out, unsigned a, unsigned b, unsigned c) {
    unsigned x = out[LANE];
    auto pair = __builtin_amdgcn_permlane32_swap(x, x + b, false, false);
    auto other = __builtin_amdgcn_permlane16_swap(pair[0], pair[1], false, true);
    out[LANE] = (other[0] & a | ~other[1] & c) ^ __builtin_amdgcn_prng_b32(x);
}
