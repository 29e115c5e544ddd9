// places.h: threadIdx, blockIdx, blockDim, gridDim, warpSize: variables without a place, read from registers.
#ifndef ROCFIRE_HIP_PLACES_H
#define ROCFIRE_HIP_PLACES_H

#define ROCFIRE_INDEX(name, of_x, of_y, of_z)                                                     \
    struct rocfire_##name {                                                                       \
        __declspec(property(get = get_x)) uint32_t x;                                             \
        __declspec(property(get = get_y)) uint32_t y;                                             \
        __declspec(property(get = get_z)) uint32_t z;                                             \
        __device__ __attribute__((always_inline)) uint32_t get_x() const { return of_x; }         \
        __device__ __attribute__((always_inline)) uint32_t get_y() const { return of_y; }         \
        __device__ __attribute__((always_inline)) uint32_t get_z() const { return of_z; }         \
        __device__ operator dim3() const { return dim3(of_x, of_y, of_z); }                       \
        __device__ operator uint3() const { return uint3{of_x, of_y, of_z}; }                     \
    };                                                                                            \
    __attribute__((unused)) static const __device__ rocfire_##name name = {};

ROCFIRE_INDEX(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
              __builtin_amdgcn_workitem_id_z())
ROCFIRE_INDEX(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
              __builtin_amdgcn_workgroup_id_z())
ROCFIRE_INDEX(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
              __builtin_amdgcn_workgroup_size_z())
ROCFIRE_INDEX(gridDim, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
              __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
              __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z())
#undef ROCFIRE_INDEX

struct rocfire_warp_size {
    __device__ __attribute__((always_inline)) operator int() const { return __builtin_amdgcn_wavefrontsize(); }
};
__attribute__((unused)) static const __device__ rocfire_warp_size warpSize = {};

#define hipThreadIdx_x (threadIdx.x)
#define hipThreadIdx_y (threadIdx.y)
#define hipThreadIdx_z (threadIdx.z)
#define hipBlockIdx_x (blockIdx.x)
#define hipBlockIdx_y (blockIdx.y)
#define hipBlockIdx_z (blockIdx.z)
#define hipBlockDim_x (blockDim.x)
#define hipBlockDim_y (blockDim.y)
#define hipBlockDim_z (blockDim.z)
#define hipGridDim_x (gridDim.x)
#define hipGridDim_y (gridDim.y)
#define hipGridDim_z (gridDim.z)

// Order and waiting.
ROCFIRE_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
ROCFIRE_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
ROCFIRE_DEVICE void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
ROCFIRE_DEVICE void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
ROCFIRE_DEVICE void __builtin_hip_syncthreads() { __syncthreads(); }

ROCFIRE_DEVICE long long wall_clock64() { return __builtin_readsteadycounter(); }
ROCFIRE_DEVICE long long clock64() { return __builtin_readcyclecounter(); }
ROCFIRE_DEVICE long long __clock64() { return clock64(); }
ROCFIRE_DEVICE long long __clock() { return clock64(); }
ROCFIRE_DEVICE long long clock() { return clock64(); }
ROCFIRE_DEVICE void __nanosleep(unsigned) { __builtin_amdgcn_s_sleep(1); }
ROCFIRE_DEVICE void __trap() { __builtin_trap(); }
ROCFIRE_DEVICE void abort() { __builtin_trap(); }

#endif
