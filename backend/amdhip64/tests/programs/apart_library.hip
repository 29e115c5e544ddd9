// The other half of `apart.hip`.
#include <hip/hip_runtime.h>

extern __device__ int calls;
__device__ int offset = 7;
static __device__ int own = 200;

__device__ int rounded_root(int x);
__device__ int scaled(int x) { return 3 * rounded_root(x * x); }

__global__ void of_the_library(int *out) {
    atomicAdd(&calls, 1);
    out[threadIdx.x] = scaled(threadIdx.x) + own;
}

int library_offset() {
    int value = 0;
    return hipMemcpyFromSymbol(&value, offset, sizeof(value)) == hipSuccess ? value : -1;
}
