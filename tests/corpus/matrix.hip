// Every dense product of the matrix units, one kernel each: a lane hands over its registers of A, B and C as the host laid
// them out, and gets back those of D.

typedef vec<float, 2> f32x2;
typedef vec<float, 4> f32x4;
typedef vec<float, 8> f32x8;
typedef vec<float, 16> f32x16;
typedef vec<float, 32> f32x32;
typedef vec<double, 4> f64x4;
typedef vec<i32, 2> i32x2;
typedef vec<i32, 4> i32x4;
typedef vec<i32, 8> i32x8;
typedef vec<i32, 16> i32x16;
typedef vec<i32, 32> i32x32;
typedef vec<f16, 4> f16x4;
typedef vec<f16, 8> f16x8;
typedef vec<f16, 16> f16x16;
typedef vec<i16, 2> i16x2;
typedef vec<i16, 4> i16x4;
typedef vec<i16, 8> i16x8;
typedef vec<i16, 16> i16x16;
typedef vec<__bf16, 8> bf16x8;

#define PRODUCT(name, A, D, call)                     \
    KERNEL void name(const A* a, const A* b, D* d) {  \
        A x = a[threadIdx.x];                         \
        A y = b[threadIdx.x];                         \
        D z = d[threadIdx.x];                         \
        d[threadIdx.x] = call;                        \
    }
#define MFMA(name, A, D) PRODUCT(mfma_##name, A, D, __builtin_amdgcn_mfma_##name(x, y, z, 0, 0, 0))

#if ARCH_MATRIX == ARCH_MATRIX_MFMA
MFMA(f32_32x32x1f32, float, f32x32)
MFMA(f32_16x16x1f32, float, f32x16)
MFMA(f32_4x4x1f32, float, f32x4)
MFMA(f32_32x32x2f32, float, f32x16)
MFMA(f32_16x16x4f32, float, f32x4)
MFMA(f32_32x32x4f16, f16x4, f32x32)
MFMA(f32_16x16x4f16, f16x4, f32x16)
MFMA(f32_4x4x4f16, f16x4, f32x4)
MFMA(f32_32x32x8f16, f16x4, f32x16)
MFMA(f32_16x16x16f16, f16x4, f32x4)
MFMA(i32_32x32x4i8, i32, i32x32)
MFMA(i32_16x16x4i8, i32, i32x16)
MFMA(i32_4x4x4i8, i32, i32x4)
#if ARCH_MFMA_GENERATION <= 2
MFMA(i32_32x32x8i8, i32, i32x16)
MFMA(i32_16x16x16i8, i32, i32x4)
MFMA(f32_32x32x2bf16, i16x2, f32x32)
MFMA(f32_16x16x2bf16, i16x2, f32x16)
MFMA(f32_4x4x2bf16, i16x2, f32x4)
MFMA(f32_32x32x4bf16, i16x2, f32x16)
MFMA(f32_16x16x8bf16, i16x2, f32x4)
#endif
#if ARCH_MFMA_GENERATION >= 2
MFMA(f32_32x32x4bf16_1k, i16x4, f32x32)
MFMA(f32_16x16x4bf16_1k, i16x4, f32x16)
MFMA(f32_4x4x4bf16_1k, i16x4, f32x4)
MFMA(f32_32x32x8bf16_1k, i16x4, f32x16)
MFMA(f32_16x16x16bf16_1k, i16x4, f32x4)
MFMA(f64_16x16x4f64, double, f64x4)
MFMA(f64_4x4x4f64, double, double)
#endif
#if ARCH_MFMA_GENERATION >= 3
MFMA(i32_32x32x16_i8, i64, i32x16)
MFMA(i32_16x16x32_i8, i64, i32x4)
MFMA(f32_32x32x16_fp8_fp8, i64, f32x16)
MFMA(f32_16x16x32_fp8_fp8, i64, f32x4)
MFMA(f32_32x32x16_fp8_bf8, i64, f32x16)
MFMA(f32_16x16x32_fp8_bf8, i64, f32x4)
MFMA(f32_32x32x16_bf8_fp8, i64, f32x16)
MFMA(f32_16x16x32_bf8_fp8, i64, f32x4)
MFMA(f32_32x32x16_bf8_bf8, i64, f32x16)
MFMA(f32_16x16x32_bf8_bf8, i64, f32x4)
#endif
#if ARCH_MFMA_GENERATION == 3
MFMA(f32_32x32x4_xf32, f32x2, f32x16)
MFMA(f32_16x16x8_xf32, f32x2, f32x4)
#endif
#if ARCH_MFMA_GENERATION >= 4
MFMA(f32_32x32x16_f16, f16x8, f32x16)
MFMA(f32_16x16x32_f16, f16x8, f32x4)
MFMA(f32_32x32x16_bf16, bf16x8, f32x16)
MFMA(f32_16x16x32_bf16, bf16x8, f32x4)
MFMA(i32_32x32x32_i8, i32x4, i32x16)
MFMA(i32_16x16x64_i8, i32x4, i32x4)
// The scales are 2 and 1/2: their product is one.
#define SCALED(name, D, a_kind, b_kind, shape) \
    PRODUCT(name, i32x8, D, __builtin_amdgcn_mfma_scale_f32_##shape##_f8f6f4(x, y, z, a_kind, b_kind, 0, 128, 0, 126))
SCALED(scale_32x32x64_fp8_fp8, f32x16, 0, 0, 32x32x64)
SCALED(scale_32x32x64_fp8_bf8, f32x16, 0, 1, 32x32x64)
SCALED(scale_32x32x64_bf8_fp8, f32x16, 1, 0, 32x32x64)
SCALED(scale_32x32x64_bf8_bf8, f32x16, 1, 1, 32x32x64)
SCALED(scale_16x16x128_fp8_fp8, f32x4, 0, 0, 16x16x128)
SCALED(scale_16x16x128_fp8_bf8, f32x4, 0, 1, 16x16x128)
SCALED(scale_16x16x128_bf8_fp8, f32x4, 1, 0, 16x16x128)
SCALED(scale_16x16x128_bf8_bf8, f32x4, 1, 1, 16x16x128)
#endif
#if ARCH_MFMA_GENERATION >= 3
// What the emulator refuses.
KERNEL void sparse(const f16x4* a, const f16x8* b, f32x4* d, i32 index) {
    d[threadIdx.x] = __builtin_amdgcn_smfmac_f32_16x16x32_f16(a[threadIdx.x], b[threadIdx.x], d[threadIdx.x], index, 0, 0);
}
#endif
#endif

#if ARCH_MATRIX == ARCH_MATRIX_WMMA11
#if WAVE == 32
#define RESULT(T) T##x8
typedef f16x16 halves;
typedef i16x16 shorts;
#define WMMA(name) __builtin_amdgcn_wmma_##name##_w32
#else
#define RESULT(T) T##x4
typedef f16x8 halves;
typedef i16x8 shorts;
#define WMMA(name) __builtin_amdgcn_wmma_##name##_w64
#endif
PRODUCT(wmma_f32_f16, f16x16, RESULT(f32), WMMA(f32_16x16x16_f16)(x, y, z))
PRODUCT(wmma_f32_bf16, i16x16, RESULT(f32), WMMA(f32_16x16x16_bf16)(x, y, z))
PRODUCT(wmma_f16_f16, f16x16, halves, WMMA(f16_16x16x16_f16)(x, y, z, false))
PRODUCT(wmma_bf16_bf16, i16x16, shorts, WMMA(bf16_16x16x16_bf16)(x, y, z, false))
PRODUCT(wmma_i32_iu8, i32x4, RESULT(i32), WMMA(i32_16x16x16_iu8)(true, x, true, y, z, false))
PRODUCT(wmma_i32_iu4, i32x2, RESULT(i32), WMMA(i32_16x16x16_iu4)(true, x, true, y, z, false))
#endif

#if ARCH_MATRIX == ARCH_MATRIX_WMMA12
#if WAVE == 32
#define OF(T) T##x8
typedef i32x2 bytes;
#define WMMA(name) __builtin_amdgcn_wmma_##name##_w32_gfx12
#else
#define OF(T) T##x4
typedef i32 bytes;
#define WMMA(name) __builtin_amdgcn_wmma_##name##_w64_gfx12
#endif
PRODUCT(wmma_f32_f16, OF(f16), OF(f32), WMMA(f32_16x16x16_f16)(x, y, z))
PRODUCT(wmma_f32_bf16, OF(i16), OF(f32), WMMA(f32_16x16x16_bf16)(x, y, z))
PRODUCT(wmma_f16_f16, OF(f16), OF(f16), WMMA(f16_16x16x16_f16)(x, y, z))
PRODUCT(wmma_bf16_bf16, OF(i16), OF(i16), WMMA(bf16_16x16x16_bf16)(x, y, z))
PRODUCT(wmma_i32_iu8, bytes, OF(i32), WMMA(i32_16x16x16_iu8)(true, x, true, y, z, false))
PRODUCT(wmma_i32_iu4, i32, OF(i32), WMMA(i32_16x16x16_iu4)(true, x, true, y, z, false))
PRODUCT(wmma_i32_iu4_long, bytes, OF(i32), WMMA(i32_16x16x32_iu4)(true, x, true, y, z, false))
PRODUCT(wmma_f32_fp8_fp8, bytes, OF(f32), WMMA(f32_16x16x16_fp8_fp8)(x, y, z))
PRODUCT(wmma_f32_fp8_bf8, bytes, OF(f32), WMMA(f32_16x16x16_fp8_bf8)(x, y, z))
PRODUCT(wmma_f32_bf8_fp8, bytes, OF(f32), WMMA(f32_16x16x16_bf8_fp8)(x, y, z))
PRODUCT(wmma_f32_bf8_bf8, bytes, OF(f32), WMMA(f32_16x16x16_bf8_bf8)(x, y, z))
#endif
