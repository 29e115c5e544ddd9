// arch.h: what the compiler and the architecture table tell device code, and the few names that HIP's own headers would
// otherwise bring. No header is included anywhere in the prelude: it compiles under clang without ROCm, hiprtc and NVRTC.
//
// Every fact about a GPU arrives as an ARCH_* macro made from the architecture table; a missing one stops the compile.
#ifndef ROCFIRE_ARCH_H
#define ROCFIRE_ARCH_H

#if !defined(ARCH_WAVE_SIZE) || !defined(ARCH_LDS_BYTES) || !defined(ARCH_MATRIX) || !defined(ARCH_MFMA_GENERATION) || \
    !defined(ARCH_AMD)
#error "the ARCH_* macros of the architecture table are missing"
#endif

// RF_HOST compiles the arithmetic for a CPU, so that it can be checked over whole ranges without a GPU.
#if defined(RF_HOST)
#define RF_DEVICE_AMD 0
#define __device__
#elif ARCH_AMD
#define RF_DEVICE_AMD 1
#if !defined(__device__)
#define __device__ __attribute__((device))
#endif
#if !defined(__global__)
#define __global__ __attribute__((global))
#endif
#if !defined(__shared__)
#define __shared__ __attribute__((shared))
#endif
#if !defined(__constant__)
#define __constant__ __attribute__((constant))
#endif
#if !defined(__launch_bounds__)
// One wave in flight per SIMD is the least that is promised, so the register allocator is bound by the block size only.
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#endif
#else
#define RF_DEVICE_AMD 0
// NVRTC has clang's builtins under the names of CUDA's own functions, which it declares without any header. That is also
// why kernels write rf::fma and the like in full: with `using namespace rf` alone there would be two.
#define __builtin_memcpy memcpy
#define __builtin_memset memset
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
#define __builtin_clzll __clzll
#define __builtin_ctzll(x) (__ffsll((long long)(x)) - 1)
#define __builtin_fmaf ::fmaf
#define __builtin_fma ::fma
#define __builtin_fabsf ::fabsf
#define __builtin_fabs ::fabs
#define __builtin_copysignf ::copysignf
#define __builtin_copysign ::copysign
#define __builtin_floorf ::floorf
#define __builtin_floor ::floor
#define __builtin_ceilf ::ceilf
#define __builtin_ceil ::ceil
#define __builtin_truncf ::truncf
#define __builtin_trunc ::trunc
#define __builtin_rintf ::rintf
#define __builtin_rint ::rint
#define __builtin_sqrtf ::sqrtf
#define __builtin_sqrt ::sqrt
#define __builtin_ldexpf ::ldexpf
#define __builtin_ldexp ::ldexp
#define __builtin_frexpf ::frexpf
#define __builtin_frexp ::frexp
#define __builtin_fmaxf ::fmaxf
#define __builtin_fminf ::fminf
#endif

// Of a kernel's workgroups of `threads`, how many a compute unit should hold at once: the compiler spends no more registers on each.
// AMD's has the count that it needs at any rate.
#if RF_DEVICE_AMD
#define RF_BOUNDS(threads, groups) __launch_bounds__(threads)
#else
#define RF_BOUNDS(threads, groups) __launch_bounds__(threads, groups)
#endif

#define RF_FN __device__ inline __attribute__((always_inline))

namespace rf {

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#if !defined(RF_HOST)
#if RF_DEVICE_AMD
// Position of this lane in its workgroup and of the workgroup in the grid.
RF_FN u32 thread_x() { return __builtin_amdgcn_workitem_id_x(); }
RF_FN u32 thread_y() { return __builtin_amdgcn_workitem_id_y(); }
RF_FN u32 thread_z() { return __builtin_amdgcn_workitem_id_z(); }
RF_FN u32 group_x() { return __builtin_amdgcn_workgroup_id_x(); }
RF_FN u32 group_y() { return __builtin_amdgcn_workgroup_id_y(); }
RF_FN u32 group_z() { return __builtin_amdgcn_workgroup_id_z(); }

// LLVM before 20 (hiprtc of ROCm 5 and 6) cannot limit a fence to LDS: theirs orders all memory, which is only stricter.
#if __clang_major__ >= 20
#define RF_FENCE_LDS_OF(order, lanes) __builtin_amdgcn_fence(order, lanes, "local")
#else
#define RF_FENCE_LDS_OF(order, lanes) __builtin_amdgcn_fence(order, lanes)
#endif
#define RF_FENCE_LDS(order) RF_FENCE_LDS_OF(order, "workgroup")

// Workgroup barrier; LDS writes before it are seen by LDS reads after it. Global memory is not ordered by it.
RF_FN void barrier() {
    RF_FENCE_LDS(__ATOMIC_RELEASE);
    __builtin_amdgcn_s_barrier();
    RF_FENCE_LDS(__ATOMIC_ACQUIRE);
}
// The same for the lanes of a wave alone, all of which come here.
RF_FN void wave_barrier() {
    RF_FENCE_LDS_OF(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    RF_FENCE_LDS_OF(__ATOMIC_ACQUIRE, "wavefront");
}
// What a kernel with this in its definition says where it waits for the launch ahead, from when on it may read and write; that the next launch
// may be put beside it, behind the wait; and what it will read. Only NVIDIA's cards, from Hopper on, begin launches early.
#define RF_WAITS_ITSELF
RF_FN void wait_for_launches() {}
RF_FN void let_launches_begin() {}
RF_FN void ask_l2(const void*) {}
// As barrier(), and global memory written by the workgroup before it is seen by the workgroup after it.
RF_FN void barrier_global() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// The value of the first active lane, in a scalar register: tells the compiler that a value is the same in every lane.
RF_FN u32 uniform(u32 value) { return __builtin_amdgcn_readfirstlane(value); }
#else
RF_FN u32 thread_x() { return threadIdx.x; }
RF_FN u32 thread_y() { return threadIdx.y; }
RF_FN u32 thread_z() { return threadIdx.z; }
RF_FN u32 group_x() { return blockIdx.x; }
RF_FN u32 group_y() { return blockIdx.y; }
RF_FN u32 group_z() { return blockIdx.z; }
RF_FN void barrier() { __syncthreads(); }
RF_FN void wave_barrier() { __syncwarp(); }
#define RF_WAITS_ITSELF
#if __CUDA_ARCH__ >= 900
RF_FN void wait_for_launches() { asm volatile("griddepcontrol.wait;" : : : "memory"); }
RF_FN void let_launches_begin() { asm volatile("griddepcontrol.launch_dependents;" : : : "memory"); }
RF_FN void ask_l2(const void* at) { asm volatile("prefetch.global.L2 [%0];" : : "l"(at)); }
#else
RF_FN void wait_for_launches() {}
RF_FN void let_launches_begin() {}
RF_FN void ask_l2(const void*) {}
#endif
RF_FN void barrier_global() { __syncthreads(); }
RF_FN u32 uniform(u32 value) { return value; }
#endif
#endif

}  // namespace rf
#endif
