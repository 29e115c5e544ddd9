// A program with mistakes: what HIP answers, and when. Standard error holds the reports.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstring>

__global__ void fill(int *x, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = count;  // the bound is not asked
}

static void answer(const char *what, hipError_t status) { std::printf("%s: %s\n", what, hipGetErrorName(status)); }

int main() {
    int *x = nullptr, host[100];
    answer("malloc", hipMalloc(&x, 100 * sizeof(int)));
    answer("copy of too much", hipMemcpy(x, host, sizeof(host) + 1, hipMemcpyHostToDevice));
    answer("copy the wrong way", hipMemcpy(host, x, sizeof(host), hipMemcpyHostToDevice));
    answer("free of what is no block", hipFree(x + 1));
    answer("null", hipMalloc((void **)nullptr, 4));
    answer("the last of these", hipPeekAtLastError());
    answer("once", hipGetLastError());
    answer("twice", hipGetLastError());

    fill<<<1, 64>>>(x, 100);
    answer("a launch in bounds", hipDeviceSynchronize());
    fill<<<2, 64>>>(x, 100);
    answer("after a launch out of bounds", hipGetLastError());
    answer("waiting for it", hipDeviceSynchronize());
    answer("everything after it", hipMemcpy(host, x, 4, hipMemcpyDeviceToHost));
    answer("until reset", hipDeviceReset());

    answer("malloc", hipMalloc(&x, 256));
    answer("free", hipFree(x));
    fill<<<1, 64>>>(x, 100);
    answer("use after free", hipDeviceSynchronize());
    return 0;
}
