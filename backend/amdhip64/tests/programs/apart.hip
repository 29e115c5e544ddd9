// A program whose device code is in several files, `apart….hip`: functions, variables and kernels of one
// file are used in the other, and each has its own of what is static. `apart_host.c` is C.
#include <hip/hip_runtime.h>

#include <cstdio>

extern __device__ int offset;
__device__ int scaled(int x);
__global__ void of_the_library(int *out);
int library_offset();
extern "C" int three_times(int x);

__device__ int calls;
static __device__ int own = 100;

__global__ void of_the_program(int *out) {
    atomicAdd(&calls, 1);
    out[threadIdx.x] = scaled(threadIdx.x) + offset + own;
}

static void report(const char *name, bool good) { printf("%s: %s\n", name, good ? "ok" : "WRONG"); }

int main() {
    int *out, answers[64], value = 9;
    if (hipMalloc(&out, sizeof(answers)) != hipSuccess) return 1;
    auto run = [&](void (*kernel)(int *), int constant) {
        kernel<<<1, 64>>>(out);
        bool good = hipMemcpy(answers, out, sizeof(answers), hipMemcpyDeviceToHost) == hipSuccess;
        for (int i = 0; i < 64; ++i) good = good && answers[i] == three_times(i) + constant;
        return good;
    };
    report("a function and a variable of another file", run(of_the_program, 107));
    report("a kernel of another file", run(of_the_library, 200));
    bool good = hipMemcpyToSymbol(offset, &value, sizeof(value)) == hipSuccess && library_offset() == 9;
    report("one variable for both", good && run(of_the_program, 109));
    int count = 0;
    good = hipMemcpyFromSymbol(&count, calls, sizeof(count)) == hipSuccess;
    report("what both counted", good && count == 3 * 64);
}
