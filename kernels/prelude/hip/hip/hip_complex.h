// hip_complex.h: complex numbers as pairs: hipFloatComplex, hipDoubleComplex.
#ifndef ROCFIRE_HIP_COMPLEX_H
#define ROCFIRE_HIP_COMPLEX_H
#include <hip/hip_runtime.h>
#if defined(__CUDACC_RTC__)
#define ROCFIRE_PAIR_FN static __device__ inline
#else
#define ROCFIRE_PAIR_FN static __host__ __device__ inline
#endif

typedef float2 hipFloatComplex;
typedef double2 hipDoubleComplex;
typedef hipFloatComplex hipComplex;

#define ROCFIRE_COMPLEX(type, real, suffix)                                                                       \
    ROCFIRE_PAIR_FN real hipCreal##suffix(type a) { return a.x; }                                                 \
    ROCFIRE_PAIR_FN real hipCimag##suffix(type a) { return a.y; }                                                 \
    ROCFIRE_PAIR_FN type hipConj##suffix(type a) { return make_##type(a.x, -a.y); }                               \
    ROCFIRE_PAIR_FN real hipCsqabs##suffix(type a) { return a.x * a.x + a.y * a.y; }                              \
    ROCFIRE_PAIR_FN type hipCadd##suffix(type a, type b) { return make_##type(a.x + b.x, a.y + b.y); }            \
    ROCFIRE_PAIR_FN type hipCsub##suffix(type a, type b) { return make_##type(a.x - b.x, a.y - b.y); }            \
    ROCFIRE_PAIR_FN type hipCmul##suffix(type a, type b) {                                                        \
        return make_##type(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                                         \
    }                                                                                                             \
    ROCFIRE_PAIR_FN type hipCdiv##suffix(type a, type b) {                                                        \
        real square = hipCsqabs##suffix(b);                                                                       \
        return make_##type((a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square);                   \
    }                                                                                                             \
    ROCFIRE_PAIR_FN type hipCfma##suffix(type a, type b, type c) { return hipCadd##suffix(hipCmul##suffix(a, b), c); }

#define make_hipFloatComplex make_float2
#define make_hipDoubleComplex make_double2
#define make_hipComplex make_float2
#define ROCFIRE_ABS(type, real, suffix, root) \
    ROCFIRE_PAIR_FN real hipCabs##suffix(type a) { return root(hipCsqabs##suffix(a)); }
ROCFIRE_COMPLEX(float2, float, f)
ROCFIRE_COMPLEX(double2, double, )
ROCFIRE_ABS(float2, float, f, sqrtf)
ROCFIRE_ABS(double2, double, , sqrt)
ROCFIRE_PAIR_FN float2 hipComplexDoubleToFloat(double2 a) { return make_float2((float)a.x, (float)a.y); }
ROCFIRE_PAIR_FN double2 hipComplexFloatToDouble(float2 a) { return make_double2(a.x, a.y); }
#undef ROCFIRE_COMPLEX
#undef ROCFIRE_ABS
#undef ROCFIRE_PAIR_FN
#endif
