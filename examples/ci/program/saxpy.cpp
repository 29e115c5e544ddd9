// A program as its author has it: y = a * x + y on the GPU, judged on the host. It ends with 0 if every number is right.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

__global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

#define CHECK(call)                                                                  \
    do {                                                                             \
        hipError_t error = (call);                                                   \
        if (error != hipSuccess) {                                                   \
            std::fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(error));       \
            return 1;                                                                \
        }                                                                            \
    } while (0)

int main() {
    const int n = 1000; // no multiple of a workgroup: the last one has lanes that must do nothing
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; ++i) x[i] = float(i), y[i] = 1.0f;
    float *device_x, *device_y;
    CHECK(hipMalloc(&device_x, n * sizeof(float)));
    CHECK(hipMalloc(&device_y, n * sizeof(float)));
    CHECK(hipMemcpy(device_x, x.data(), n * sizeof(float), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(device_y, y.data(), n * sizeof(float), hipMemcpyHostToDevice));
    saxpy<<<(n + 255) / 256, 256>>>(2.0f, device_x, device_y, n);
    CHECK(hipGetLastError());
    CHECK(hipMemcpy(y.data(), device_y, n * sizeof(float), hipMemcpyDeviceToHost));
    CHECK(hipFree(device_x));
    CHECK(hipFree(device_y));
    for (int i = 0; i < n; ++i) {
        if (y[i] != 2.0f * float(i) + 1.0f) {
            std::fprintf(stderr, "y[%d] is %f\n", i, y[i]);
            return 1;
        }
    }
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    std::printf("%s: %d numbers are right\n", properties.gcnArchName, n);
    return 0;
}
