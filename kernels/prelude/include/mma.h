// mma.h: the tile product D = A B + C of one wave, over the matrix unit where there is one.
//
// `Mma<T, SIZE>` multiplies SIZE x K by K x SIZE. A wave holds A as one `Operand` per lane: lane l has row l % SIZE and
// the PER_LANE consecutive k that start at (l / SIZE) * PER_LANE; B likewise with its column. The accumulator has ACC
// values per lane: value i is at row(i, lane), column lane % SIZE.
//
// MFMA (CDNA 1 to 4): f32 2 or 4 deep, f16 and bf16 8 or 16 deep, f64 4 deep (from CDNA 2), lane layouts from AMD's matrix
// instruction calculator. RF_MMA is 0 where T has no such product; kernels then use plain FMA.
#ifndef ROCFIRE_MMA_H
#define ROCFIRE_MMA_H
namespace rf {

#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
#define RF_MMA_F32 1
#define RF_MMA_F16 1
// bf16 four to a lane and f64 came with CDNA 2.
#define RF_MMA_BF16 (ARCH_MFMA_GENERATION >= 2)
#define RF_MMA_F64 (ARCH_MFMA_GENERATION >= 2)
#else
#define RF_MMA_F32 0
#define RF_MMA_F16 0
#define RF_MMA_BF16 0
#define RF_MMA_F64 0
#endif

template <class T, int SIZE> struct Mma;

#if RF_MMA_F32
typedef float F32x4 __attribute__((ext_vector_type(4)));
typedef float F32x16 __attribute__((ext_vector_type(16)));
typedef double F64x4 __attribute__((ext_vector_type(4)));
typedef _Float16 F16x4 __attribute__((ext_vector_type(4)));
typedef short I16x4 __attribute__((ext_vector_type(4)));

// Row of accumulator value i for f32 accumulators: blocks of 4 rows, dealt to the lane groups in turn.
template <int SIZE> RF_FN int mma_row(int i, int lane) {
    return SIZE == 32 ? 8 * (i / 4) + 4 * (lane / 32) + i % 4 : 4 * (lane / 16) + i;
}

template <> struct Mma<float, 32> {
    typedef float Operand;
    typedef F32x16 Accumulator;
    static const int K = 2, PER_LANE = 1, ACC = 16;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0);
    }
    RF_FN static int row(int i, int lane) { return mma_row<32>(i, lane); }
};
template <> struct Mma<float, 16> {
    typedef float Operand;
    typedef F32x4 Accumulator;
    static const int K = 4, PER_LANE = 1, ACC = 4;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0);
    }
    RF_FN static int row(int i, int lane) { return mma_row<16>(i, lane); }
};
template <> struct Mma<f16, 32> {
    typedef F16x4 Operand;
    typedef F32x16 Accumulator;
    static const int K = 8, PER_LANE = 4, ACC = 16;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0);
    }
    RF_FN static int row(int i, int lane) { return mma_row<32>(i, lane); }
};
template <> struct Mma<f16, 16> {
    typedef F16x4 Operand;
    typedef F32x4 Accumulator;
    static const int K = 16, PER_LANE = 4, ACC = 4;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
    }
    RF_FN static int row(int i, int lane) { return mma_row<16>(i, lane); }
};
#endif

#if RF_MMA_BF16
template <> struct Mma<bf16, 32> {
    typedef I16x4 Operand;
    typedef F32x16 Accumulator;
    static const int K = 8, PER_LANE = 4, ACC = 16;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0);
    }
    RF_FN static int row(int i, int lane) { return mma_row<32>(i, lane); }
};
template <> struct Mma<bf16, 16> {
    typedef I16x4 Operand;
    typedef F32x4 Accumulator;
    static const int K = 16, PER_LANE = 4, ACC = 4;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
    }
    RF_FN static int row(int i, int lane) { return mma_row<16>(i, lane); }
};
#endif

#if RF_MMA_F64
// The f64 accumulator deals single rows to the lane groups, unlike the f32 one.
template <> struct Mma<double, 16> {
    typedef double Operand;
    typedef F64x4 Accumulator;
    static const int K = 4, PER_LANE = 1, ACC = 4;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f64_16x16x4f64(a, b, c, 0, 0, 0);
    }
    RF_FN static int row(int i, int lane) { return 4 * i + lane / 16; }
};
#endif

}  // namespace rf
#endif
