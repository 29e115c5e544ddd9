// Defects that a GPU lets pass, each of which one of the emulator's checks finds. The first argument says which.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

// Every wave reads what the next one writes, and there is no barrier between.
__global__ void race(int *x) {
    __shared__ int words[256];
    words[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = words[(threadIdx.x + 64) % 256];
}

__global__ void copy(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }

// Only the first wave comes to the barrier; the others have ended.
__global__ void leave(int *x) {
    if (threadIdx.x >= 64) return;
    __syncthreads();
    x[threadIdx.x] = 1;
}

int main(int count, char **arguments) {
    int which = count > 1 ? std::atoi(arguments[1]) : 0;
    int *x = nullptr, *y = nullptr;
    if (hipMalloc(&x, 1024) != hipSuccess || hipMalloc(&y, 1024) != hipSuccess) return 1;
    if (which == 0) {
        if (hipMemset(x, 0, 1024) != hipSuccess) return 1;
        race<<<1, 256>>>(x);
    } else if (which == 2) {
        leave<<<1, 256>>>(x);
    } else {
        copy<<<1, 256>>>(x, y);  // nobody wrote x
    }
    std::printf("%s\n", hipGetErrorName(hipDeviceSynchronize()));
    return 0;
}
