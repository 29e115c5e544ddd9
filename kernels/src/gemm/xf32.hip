// xf32: elements of f32 whose fraction the matrix unit of CDNA 3 rounds to 10 bits when it multiplies them: TF32, AMD's XF32.
// Stands in front of gemm.hip where GEMM_IN is xf32. Sums are of f32, a slab's in the order a0 a1 b0 b1 c0 c1 d0 d1 a2 a3 ...
namespace rf {

struct xf32 {
    float value;
};
typedef float Xf32x2 __attribute__((ext_vector_type(2)));

// As the products of f32 in all but their operands: two k of a lane.
template <> struct Mma<xf32, 32> : Mma<float, 32> {
    typedef Xf32x2 Operand;
    static const int K = 4;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f32_32x32x4_xf32(a, b, c, 0, 0, 0);
    }
};
template <> struct Mma<xf32, 16> : Mma<float, 16> {
    typedef Xf32x2 Operand;
    static const int K = 8;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
        return __builtin_amdgcn_mfma_f32_16x16x8_xf32(a, b, c, 0, 0, 0);
    }
};

}  // namespace rf
