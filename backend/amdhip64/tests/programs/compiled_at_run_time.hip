// A program that compiles its kernels while it runs, loads them as modules, and launches them by handle.
#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                         \
    do {                                                                                    \
        int status = (int)(call);                                                           \
        if (status != 0) {                                                                  \
            std::printf("%s: %d\n", #call, status);                                         \
            std::exit(1);                                                                   \
        }                                                                                   \
    } while (0)

static void report(const char *part, bool good) { std::printf("%s: %s\n", part, good ? "ok" : "WRONG"); }

static const char *SOURCE = R"(
#include "factor.h"
template <typename T>
__global__ void scale(const T *x, T *y, unsigned count, T by) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i] * by * (T)FACTOR;
}
namespace tables {
__device__ int squares[4] = {0, 1, 4, 9};
}
extern "C" __global__ void add_square(int *x) { x[threadIdx.x] += tables::squares[threadIdx.x % 4] + EXTRA; }
)";

static std::string log_of(hiprtcProgram program) {
    size_t bytes = 0;
    CHECK(hiprtcGetProgramLogSize(program, &bytes));
    std::string log(bytes, '\0');
    CHECK(hiprtcGetProgramLog(program, &log[0]));
    return log;
}

static void test_errors() {
    hiprtcProgram program = nullptr;
    CHECK(hiprtcCreateProgram(&program, "__global__ void broken() { nonsense; }", "broken.hip", 0, nullptr, nullptr));
    hiprtcResult status = hiprtcCompileProgram(program, 0, nullptr);
    std::string log = log_of(program);
    bool named = log.find("broken.hip:1:") != std::string::npos && log.find("nonsense") != std::string::npos;
    size_t bytes = 0;
    bool none = hiprtcGetCodeSize(program, &bytes) == HIPRTC_ERROR_INVALID_PROGRAM;
    report("a source that is wrong", status == HIPRTC_ERROR_COMPILATION && named && none);
    CHECK(hiprtcDestroyProgram(&program));
    bool gone = program == nullptr && hiprtcCompileProgram(program, 0, nullptr) == HIPRTC_ERROR_INVALID_PROGRAM;
    bool null = hiprtcCreateProgram(nullptr, "", "", 0, nullptr, nullptr) == HIPRTC_ERROR_INVALID_INPUT;
    report("handles that are none", gone && null);
}

int main() {
    test_errors();
    const char *header = "#define FACTOR 2\n", *header_name = "factor.h";
    hiprtcProgram program = nullptr;
    CHECK(hiprtcCreateProgram(&program, SOURCE, "kernels.hip", 1, &header, &header_name));
    const char *expressions[] = {"scale<float>", "&scale<double>", "&tables::squares", "add_square"};
    for (const char *expression : expressions) CHECK(hiprtcAddNameExpression(program, expression));
    const char *options[] = {"-DEXTRA=100", "-ffast-math"};
    if (hiprtcCompileProgram(program, 2, options) != HIPRTC_SUCCESS) {
        std::printf("%s\n", log_of(program).c_str());
        return 1;
    }
    const char *names[4];
    for (int i = 0; i < 4; ++i) CHECK(hiprtcGetLoweredName(program, expressions[i], &names[i]));
    report("names", !std::strcmp(names[0], "_Z5scaleIfEvPKT_PS0_jS0_") && !std::strcmp(names[3], "add_square"));
    size_t bytes = 0;
    CHECK(hiprtcGetCodeSize(program, &bytes));
    std::vector<char> code(bytes);
    CHECK(hiprtcGetCode(program, code.data()));

    hipModule_t module;
    hipFunction_t scale_float, scale_double, add_square, missing;
    CHECK(hipModuleLoadData(&module, code.data()));
    CHECK(hipModuleGetFunction(&scale_float, module, names[0]));
    CHECK(hipModuleGetFunction(&scale_double, module, names[1]));
    CHECK(hipModuleGetFunction(&add_square, module, names[3]));
    report("a kernel that is missing", hipModuleGetFunction(&missing, module, "nobody") == hipErrorNotFound);

    // Arguments as a list of pointers.
    const unsigned count = 100;
    std::vector<float> x(count), y(count);
    for (unsigned i = 0; i < count; ++i) x[i] = i;
    float *dx, *dy, by = 1.5f;
    CHECK(hipMalloc(&dx, count * sizeof(float)));
    CHECK(hipMalloc(&dy, count * sizeof(float)));
    CHECK(hipMemcpy(dx, x.data(), count * sizeof(float), hipMemcpyHostToDevice));
    unsigned n = count;
    void *arguments[] = {&dx, &dy, &n, &by};
    CHECK(hipModuleLaunchKernel(scale_float, 2, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
    CHECK(hipMemcpy(y.data(), dy, count * sizeof(float), hipMemcpyDeviceToHost));
    bool good = true;
    for (unsigned i = 0; i < count; ++i) good &= y[i] == 3 * x[i];
    report("a list of arguments", good);

    // Arguments in one buffer, and memory that both sides have.
    double *both;
    CHECK(hipHostMalloc(&both, 64 * sizeof(double)));
    for (int i = 0; i < 64; ++i) both[i] = i;
    struct { double *x, *y; unsigned count; double by; } packed = {both, both, 64, 0.5};
    size_t packed_bytes = sizeof(packed);
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                     HIP_LAUNCH_PARAM_END};
    CHECK(hipModuleLaunchKernel(scale_double, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));
    CHECK(hipDeviceSynchronize());
    report("a buffer of arguments", both[63] == 63 && both[1] == 1);
    // What is missing at its end reads as zero: here the count.
    packed_bytes = 8;
    CHECK(hipModuleLaunchKernel(scale_double, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));
    report("a buffer without the last arguments", hipDeviceSynchronize() == hipSuccess && both[63] == 63);

    // A variable of the module's, and memory of the program's own.
    hipDeviceptr_t squares;
    CHECK(hipModuleGetGlobal(&squares, &bytes, module, names[2]));
    const int seventh = 49;
    CHECK(hipMemcpy((int *)squares + 3, &seventh, sizeof(int), hipMemcpyHostToDevice));
    std::vector<int> own(8, 1000);
    CHECK(hipHostRegister(own.data(), own.size() * sizeof(int), hipHostRegisterDefault));
    void *seen;
    CHECK(hipHostGetDevicePointer(&seen, own.data(), 0));
    void *one[] = {&seen};
    CHECK(hipModuleLaunchKernel(add_square, 1, 1, 1, 8, 1, 1, 0, nullptr, one, nullptr));
    CHECK(hipDeviceSynchronize());
    CHECK(hipHostUnregister(own.data()));
    bool off = hipHostUnregister(own.data()) == hipErrorHostMemoryNotRegistered;
    report("variables and registered memory", bytes == 16 && own[2] == 1104 && own[7] == 1149 && off);

    // What cannot be launched.
    auto launch = [&](unsigned grid, unsigned block, unsigned lds_bytes) {
        return hipModuleLaunchKernel(scale_float, grid, 1, 1, block, 1, 1, lds_bytes, nullptr, arguments, nullptr);
    };
    report("launches that cannot be", launch(0, 64, 0) == hipErrorInvalidConfiguration &&
                                          launch(1, 2048, 0) == hipErrorInvalidConfiguration &&
                                          launch(1, 64, 1 << 20) == hipErrorInvalidConfiguration);
    char rubbish[256] = "rubbish";
    hipModule_t none;
    bool image = hipModuleLoadData(&none, rubbish) == hipErrorInvalidImage;
    report("files that are none", image && hipModuleLoad(&none, "/nowhere.co") == hipErrorFileNotFound);
    CHECK(hipModuleUnload(module));
    report("after unloading", launch(1, 64, 0) == hipErrorInvalidHandle);
    CHECK(hiprtcDestroyProgram(&program));
    return 0;
}
