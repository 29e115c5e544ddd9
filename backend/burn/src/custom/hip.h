// hip.h: HIP's own names, for kernels that users write. NVRTC and hiprtc have them; clang without ROCm's headers does not.
//
// It comes behind the prelude, whose functions stand behind the mathematical ones here: these have the same bits on every
// device. What is in namespace rf can be used as well.
#if RF_DEVICE_AMD && !defined(__HIPCC_RTC__)

#define RF_PLACE(name, x_of, y_of, z_of)                                                         \
    struct RfPlace_##name {                                                                      \
        __declspec(property(get = get_x)) unsigned x;                                            \
        __declspec(property(get = get_y)) unsigned y;                                            \
        __declspec(property(get = get_z)) unsigned z;                                            \
        __device__ __attribute__((always_inline)) unsigned get_x() const { return x_of; }        \
        __device__ __attribute__((always_inline)) unsigned get_y() const { return y_of; }        \
        __device__ __attribute__((always_inline)) unsigned get_z() const { return z_of; }        \
    };                                                                                           \
    __attribute__((unused)) static const __device__ RfPlace_##name name = {};
RF_PLACE(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z())
RF_PLACE(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
         __builtin_amdgcn_workgroup_id_z())
RF_PLACE(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
         __builtin_amdgcn_workgroup_size_z())
RF_PLACE(gridDim, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
         __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
         __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z())
#undef RF_PLACE

RF_FN void __syncthreads() { rf::barrier_global(); }

#define RF_ONE(name)                                         \
    using rf::name;                                          \
    RF_FN float name##f(float x) { return rf::name(x); }
#define RF_TWO(name)                                         \
    using rf::name;                                          \
    RF_FN float name##f(float x, float y) { return rf::name(x, y); }
RF_ONE(exp)
RF_ONE(exp2)
RF_ONE(expm1)
RF_ONE(log)
RF_ONE(log2)
RF_ONE(log10)
RF_ONE(log1p)
RF_ONE(sqrt)
RF_ONE(rsqrt)
RF_ONE(sin)
RF_ONE(cos)
RF_ONE(tan)
RF_ONE(sinh)
RF_ONE(cosh)
RF_ONE(tanh)
RF_ONE(asin)
RF_ONE(acos)
RF_ONE(atan)
RF_ONE(asinh)
RF_ONE(acosh)
RF_ONE(atanh)
RF_ONE(erf)
RF_ONE(floor)
RF_ONE(ceil)
RF_ONE(trunc)
RF_TWO(atan2)
RF_TWO(hypot)
RF_TWO(pow)
RF_TWO(fmod)
RF_TWO(copysign)
#undef RF_ONE
#undef RF_TWO
using rf::fma;
using rf::max;
using rf::min;
RF_FN float fmaf(float a, float b, float c) { return rf::fma(a, b, c); }
RF_FN float fabsf(float x) { return rf::abs(x); }
RF_FN float fabs(float x) { return rf::abs(x); }
RF_FN double fabs(double x) { return rf::abs(x); }
RF_FN float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
RF_FN float fminf(float a, float b) { return __builtin_fminf(a, b); }

#endif
