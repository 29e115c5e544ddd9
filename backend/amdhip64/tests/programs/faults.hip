// A program with mistakes: what HIP answers, and when. Standard error holds the reports.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstring>
#include <ctime>

__global__ void fill(int *x, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = count;  // the bound is not asked
}

__global__ void wait_for(int *x) {
    while (__hip_atomic_load(x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == 0) {}
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
    answer("until reset", hipDeviceReset());

    // Nobody is left to write it: the program has one thread, and it is here.
    answer("malloc", hipMalloc(&x, 256));
    answer("zeros", hipMemset(x, 0, 256));
    std::time_t start = std::time(nullptr);
    wait_for<<<1, 1>>>(x);
    answer("a wait that nobody ends", hipDeviceSynchronize());
    std::printf("at once: %s\n", std::time(nullptr) - start < 10 ? "yes" : "no");
    return 0;
}
