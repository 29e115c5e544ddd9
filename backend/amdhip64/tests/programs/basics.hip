// A HIP program as anybody writes one: kernels with `<<<…>>>`, LDS, shuffles, templates, variables, streams, events, a
// graph. Each part prints a line that says whether its result is right. It needs no ROCm to be compiled:
//
//     clang++ -x hip --offload-arch=gfx942 -nogpuinc -nogpulib -I include basics.hip -L <libraries> -lamdhip64
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                      \
    do {                                                                                                 \
        hipError_t status = (call);                                                                      \
        if (status != hipSuccess) {                                                                      \
            std::printf("%s: %s (%s)\n", #call, hipGetErrorName(status), hipGetErrorString(status));     \
            std::exit(1);                                                                                \
        }                                                                                                \
    } while (0)

static void report(const char *part, bool good) { std::printf("%s: %s\n", part, good ? "ok" : "WRONG"); }

__global__ void vector_add(const float *a, const float *b, float *c, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) c[i] = a[i] + b[i];
}

// A partial sum per workgroup: lanes by shuffles, waves through LDS.
__global__ void sum(const float *x, float *partial, int count) {
    __shared__ float waves[32];
    float total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) total += x[i];
    for (int by = warpSize / 2; by > 0; by /= 2) total += __shfl_down(total, by);
    if (threadIdx.x % warpSize == 0) waves[threadIdx.x / warpSize] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < (int)blockDim.x / warpSize; ++w) total += waves[w];
        partial[blockIdx.x] = total;
    }
}

// C = A·B by square tiles in LDS, for any element type.
template <typename T, int TILE>
__global__ void matmul(const T *a, const T *b, T *c, int n) {
    __shared__ T tile_a[TILE][TILE], tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    T total = 0;
    for (int k = 0; k < n; k += TILE) {
        bool a_inside = row < n && k + (int)threadIdx.x < n, b_inside = k + (int)threadIdx.y < n && column < n;
        tile_a[threadIdx.y][threadIdx.x] = a_inside ? a[row * n + k + threadIdx.x] : T(0);
        tile_b[threadIdx.y][threadIdx.x] = b_inside ? b[(k + threadIdx.y) * n + column] : T(0);
        __syncthreads();
        for (int i = 0; i < TILE; ++i) total += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = total;
}

// Reverses a block through LDS of the size that the launch gives.
__global__ void reverse(int *x) {
    extern __shared__ int words[];
    words[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}

__global__ void histogram(const unsigned char *bytes, unsigned *bins, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(&bins[bytes[i] % 16], 1u);
}

__constant__ float weights[4];
__device__ int launches;
__managed__ int managed_total = 40;

__global__ void weigh(float *x) {
    x[threadIdx.x] *= weights[threadIdx.x % 4];
    if (threadIdx.x == 0) {
        atomicAdd(&launches, 1);
        managed_total += 2;
    }
}

struct Affine {
    double scale;
    char unused;
    float offset;
};
__global__ void affine(float *x, Affine by, short count) {
    int i = threadIdx.x;
    if (i < count) x[i] = by.scale * x[i] + by.offset;
}

template <typename T>
static T *upload(const std::vector<T> &values) {
    T *device = nullptr;
    CHECK(hipMalloc(&device, values.size() * sizeof(T)));
    CHECK(hipMemcpy(device, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
    return device;
}

template <typename T>
static std::vector<T> download(const T *device, size_t count) {
    std::vector<T> values(count);
    CHECK(hipMemcpy(values.data(), device, count * sizeof(T), hipMemcpyDeviceToHost));
    return values;
}

static void test_vector_add() {
    const int count = 1000;
    std::vector<float> a(count), b(count);
    for (int i = 0; i < count; ++i) a[i] = i, b[i] = 0.5f * i;
    float *da = upload(a), *db = upload(b), *dc = upload(std::vector<float>(count));
    vector_add<<<(count + 255) / 256, 256>>>(da, db, dc, count);
    CHECK(hipGetLastError());
    CHECK(hipDeviceSynchronize());
    bool good = true;
    std::vector<float> c = download(dc, count);
    for (int i = 0; i < count; ++i) good &= c[i] == 1.5f * i;
    report("vector_add", good);
    CHECK(hipFree(da));
    CHECK(hipFree(db));
    CHECK(hipFree(dc));
}

static void test_sum() {
    const int count = 10000, groups = 6;
    std::vector<float> x(count);
    double expected = 0;
    for (int i = 0; i < count; ++i) expected += x[i] = i % 7;
    float *dx = upload(x), *partial = nullptr;
    CHECK(hipHostMalloc(&partial, groups * sizeof(float)));
    sum<<<dim3(groups), dim3(256)>>>(dx, partial, count);
    CHECK(hipDeviceSynchronize());
    double total = 0;
    for (int i = 0; i < groups; ++i) total += partial[i];
    report("sum", total == expected);
    CHECK(hipHostFree(partial));
    CHECK(hipFree(dx));
}

template <typename T>
static void test_matmul(const char *name) {
    const int n = 37;
    std::vector<T> a(n * n), b(n * n);
    for (int i = 0; i < n * n; ++i) a[i] = i % 5 - 2, b[i] = i % 3 - 1;
    T *da = upload(a), *db = upload(b), *dc = upload(std::vector<T>(n * n));
    matmul<T, 16><<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(da, db, dc, n);
    CHECK(hipDeviceSynchronize());
    std::vector<T> c = download(dc, n * n);
    bool good = true;
    for (int row = 0; row < n; ++row)
        for (int column = 0; column < n; ++column) {
            T total = 0;
            for (int k = 0; k < n; ++k) total += a[row * n + k] * b[k * n + column];
            good &= c[row * n + column] == total;
        }
    report(name, good);
    CHECK(hipFree(da));
    CHECK(hipFree(db));
    CHECK(hipFree(dc));
}

static void test_lds_and_atomics() {
    std::vector<int> x(192);
    for (int i = 0; i < 192; ++i) x[i] = i * i;
    int *dx = upload(x);
    reverse<<<1, 192, 192 * sizeof(int)>>>(dx);
    std::vector<int> back = download(dx, 192);
    bool good = true;
    for (int i = 0; i < 192; ++i) good &= back[i] == x[191 - i];
    report("reverse", good);

    std::vector<unsigned char> bytes(5000);
    unsigned expected[16] = {};
    for (size_t i = 0; i < bytes.size(); ++i) ++expected[(bytes[i] = i * 31 % 251) % 16];
    unsigned char *device_bytes = upload(bytes);
    unsigned *bins = nullptr;
    CHECK(hipMalloc(&bins, sizeof(expected)));
    CHECK(hipMemset(bins, 0, sizeof(expected)));
    hipLaunchKernelGGL(histogram, dim3(20), dim3(256), 0, 0, device_bytes, bins, (int)bytes.size());
    std::vector<unsigned> got = download(bins, 16);
    report("histogram", std::memcmp(got.data(), expected, sizeof(expected)) == 0);
}

static void test_variables() {
    const float host_weights[4] = {1, 10, 100, 1000};
    CHECK(hipMemcpyToSymbol(weights, host_weights, sizeof(host_weights)));
    float *x = upload(std::vector<float>(64, 2.0f));
    weigh<<<1, 64>>>(x);
    weigh<<<1, 64>>>(x);
    CHECK(hipDeviceSynchronize());
    int count = 0;
    CHECK(hipMemcpyFromSymbol(&count, launches, sizeof(count)));
    std::vector<float> got = download(x, 64);
    report("variables", count == 2 && got[1] == 200 && got[63] == 2e6f && managed_total == 44);

    Affine by = {3, 'x', 0.25f};
    affine<<<1, 64>>>(x, by, 2);
    got = download(x, 64);
    report("arguments by value", got[0] == 6.25f && got[1] == 600.25f && got[2] == 2e4f);
}

static void test_streams_events_graph() {
    const int count = 4096;
    float *a = upload(std::vector<float>(count, 1)), *b = upload(std::vector<float>(count, 2)), *c = nullptr;
    CHECK(hipMallocManaged(&c, count * sizeof(float)));
    hipStream_t one, two;
    hipEvent_t begin, end, forked, joined;
    CHECK(hipStreamCreate(&one));
    CHECK(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
    for (hipEvent_t *event : {&begin, &end, &forked, &joined}) CHECK(hipEventCreate(event));

    CHECK(hipEventRecord(begin, one));
    vector_add<<<16, 256, 0, one>>>(a, b, c, count);
    CHECK(hipEventRecord(end, one));
    CHECK(hipStreamWaitEvent(two, end));
    int called = 0;
    CHECK(hipLaunchHostFunc(two, [](void *data) { *(int *)data = 7; }, &called));
    CHECK(hipStreamSynchronize(two));
    float milliseconds = -1;
    CHECK(hipEventElapsedTime(&milliseconds, begin, end));
    report("streams and events", c[4095] == 3 && milliseconds >= 0 && called == 7);

    // a = a + b on one stream, b = 0 on the other behind it; three times.
    hipGraph_t graph;
    hipGraphExec_t exec;
    CHECK(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
    vector_add<<<16, 256, 0, one>>>(a, b, a, count);
    CHECK(hipEventRecord(forked, one));
    CHECK(hipStreamWaitEvent(two, forked));
    CHECK(hipMemcpyAsync(c, a, count * sizeof(float), hipMemcpyDeviceToDevice, two));
    CHECK(hipEventRecord(joined, two));
    CHECK(hipStreamWaitEvent(one, joined));
    CHECK(hipStreamEndCapture(one, &graph));
    bool untouched = c[0] == 3;
    size_t nodes = 0;
    CHECK(hipGraphGetNodes(graph, nullptr, &nodes));
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    for (int i = 0; i < 3; ++i) CHECK(hipGraphLaunch(exec, one));
    CHECK(hipStreamSynchronize(one));
    report("graph", untouched && nodes == 2 && c[0] == 7 && c[4095] == 7);
    CHECK(hipGraphExecDestroy(exec));
    CHECK(hipGraphDestroy(graph));
    for (hipEvent_t event : {begin, end, forked, joined}) CHECK(hipEventDestroy(event));
    CHECK(hipStreamDestroy(one));
    CHECK(hipStreamDestroy(two));
}

static void test_rows() {
    std::vector<int> host(6 * 5), back(6 * 5, -1);
    for (int i = 0; i < 30; ++i) host[i] = i;
    int *device = nullptr;
    size_t pitch = 0;
    CHECK(hipMallocPitch((void **)&device, &pitch, 4 * sizeof(int), 5));
    CHECK(hipMemcpy2D(device, pitch, host.data(), 6 * sizeof(int), 4 * sizeof(int), 5, hipMemcpyHostToDevice));
    CHECK(hipMemcpy2D(back.data(), 6 * sizeof(int), device, pitch, 4 * sizeof(int), 5, hipMemcpyDeviceToHost));
    bool good = true;
    for (int i = 0; i < 30; ++i) good &= back[i] == (i % 6 < 4 ? i : -1);
    report("rows", good);
}

static void test_queries() {
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    int wave = 0, blocks = 0;
    CHECK(hipDeviceGetAttribute(&wave, hipDeviceAttributeWarpSize, 0));
    CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, vector_add, 256, 0));
    hipPointerAttribute_t attributes;
    float *device = upload(std::vector<float>(4));
    CHECK(hipPointerGetAttributes(&attributes, device + 1));
    bool good = wave == properties.warpSize && blocks > 0 && attributes.type == hipMemoryTypeDevice;
    report("queries", good && hipSetDevice(7) == hipErrorInvalidDevice && hipGetLastError() == hipErrorInvalidDevice);
    std::printf("device: %s\n", properties.gcnArchName);
}

int main() {
    test_queries();
    test_vector_add();
    test_sum();
    test_matmul<float>("matmul<float>");
    test_matmul<double>("matmul<double>");
    test_matmul<int>("matmul<int>");
    test_lds_and_atomics();
    test_variables();
    test_streams_events_graph();
    test_rows();
    return 0;
}
