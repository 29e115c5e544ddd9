// WMMA as RDNA 3 has it: operands doubled over the halves of a wave.

#define GLOBAL extern "C" __attribute__((global))
#define LANE __builtin_amdgcn_workitem_id_x()

typedef float float8 __attribute__((ext_vector_type(8)));
typedef int int8 __attribute__((ext_vector_type(8)));
typedef int int4 __attribute__((ext_vector_type(4)));
typedef int int2 __attribute__((ext_vector_type(2)));
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef short short16 __attribute__((ext_vector_type(16)));

GLOBAL void products(float8 *out, int8 *whole, half16 *halves, const half16 *a, const short16 *b, const int4 *c, const int2 *d) {
    float8 acc = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a[LANE], a[LANE + 32], out[LANE]);
    out[LANE] = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(b[LANE], b[LANE + 32], acc);
    halves[LANE] = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a[LANE], a[LANE + 32], halves[LANE], true);
    int8 sums = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, c[LANE], false, c[LANE + 32], whole[LANE], true);
    whole[LANE] = __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(false, d[LANE], true, d[LANE + 32], sums, false);
}
