// The few words of HIP that the tests' kernels use.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define KERNEL extern "C" __global__

typedef unsigned int u32;
typedef unsigned long long u64;

static inline __device__ int thread_x() { return __builtin_amdgcn_workitem_id_x(); }
static inline __device__ int group_x() { return __builtin_amdgcn_workgroup_id_x(); }
static inline __device__ int group_size_x() { return __builtin_amdgcn_workgroup_size_x(); }
static inline __device__ int global_x() { return group_x() * group_size_x() + thread_x(); }
static inline __device__ void sync() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
