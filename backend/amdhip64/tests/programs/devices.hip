// Several devices: each has its memory, streams and variables; copies and kernels reach from one to another.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
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

__device__ int offset = 5;

__global__ void add_offset(const int *from, int *to, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i] + offset;
}

int main(int, char **arguments) {
    const int count = 1000, bytes = count * sizeof(int);
    int devices = 0;
    CHECK(hipGetDeviceCount(&devices));
    report("count", devices == std::atoi(arguments[1]));

    // Every thread begins with the first device.
    int own = -1;
    CHECK(hipSetDevice(1));
    std::thread([&] { CHECK(hipGetDevice(&own)); }).join();
    int current = -1;
    CHECK(hipGetDevice(&current));
    report("the thread's device", own == 0 && current == 1);
    report("no such device", hipSetDevice(devices) == hipErrorInvalidDevice && hipSetDevice(-1) == hipErrorInvalidDevice);

    std::vector<int *> memory(devices), results(devices);
    std::vector<hipStream_t> streams(devices);
    std::vector<int> host(count);
    bool placed = true;
    for (int device = 0; device < devices; ++device) {
        CHECK(hipSetDevice(device));
        CHECK(hipMalloc(&memory[device], bytes));
        CHECK(hipMalloc(&results[device], bytes));
        CHECK(hipStreamCreate(&streams[device]));
        for (int i = 0; i < count; ++i) host[i] = 1000 * device + i;
        CHECK(hipMemcpy(memory[device], host.data(), bytes, hipMemcpyHostToDevice));
        hipPointerAttribute_t attributes;
        CHECK(hipPointerGetAttributes(&attributes, memory[device]));
        placed &= attributes.device == device;
    }
    report("memory knows its device", placed);

    // A variable for each.
    int seven = 7;
    CHECK(hipSetDevice(1));
    CHECK(hipMemcpyToSymbol(offset, &seven, sizeof seven));
    bool right = true;
    for (int device = 0; device < devices; ++device) {
        CHECK(hipSetDevice(device));
        add_offset<<<(count + 255) / 256, 256, 0, streams[device]>>>(memory[device], results[device], count);
        CHECK(hipStreamSynchronize(streams[device]));
        CHECK(hipMemcpy(host.data(), results[device], bytes, hipMemcpyDeviceToHost));
        for (int i = 0; i < count; ++i) right &= host[i] == 1000 * device + i + (device == 1 ? 7 : 5);
    }
    report("variables", right);

    int possible = 0, self = 1;
    CHECK(hipDeviceCanAccessPeer(&possible, 0, 1));
    CHECK(hipDeviceCanAccessPeer(&self, 1, 1));
    report("peers", possible == 1 && self == 0);
    CHECK(hipSetDevice(0));
    CHECK(hipDeviceEnablePeerAccess(2, 0));
    bool refused = hipDeviceEnablePeerAccess(2, 0) == hipErrorPeerAccessAlreadyEnabled;
    refused &= hipDeviceEnablePeerAccess(0, 0) == hipErrorInvalidDevice;
    refused &= hipDeviceDisablePeerAccess(1) == hipErrorPeerAccessNotEnabled;
    report("peer access", refused);

    // A kernel of the first device reads the third's memory.
    add_offset<<<(count + 255) / 256, 256, 0, streams[0]>>>(memory[2], results[0], count);
    CHECK(hipStreamSynchronize(streams[0]));
    CHECK(hipMemcpy(host.data(), results[0], bytes, hipMemcpyDeviceToHost));
    report("a kernel reads a peer", host[1] == 2006 && host[999] == 3004);
    CHECK(hipDeviceDisablePeerAccess(2));

    CHECK(hipMemcpyPeerAsync(results[2], 2, memory[1], 1, bytes, streams[2]));
    CHECK(hipStreamSynchronize(streams[2]));
    CHECK(hipMemcpy(host.data(), results[2], bytes, hipMemcpyDeviceToHost));
    bool copied = host[0] == 1000 && host[999] == 1999;
    report("a copy between devices", copied && hipMemcpyPeer(results[2], devices, memory[1], 1, bytes) == hipErrorInvalidDevice);

    // What one takes, the others do not miss.
    size_t before = 0, after = 0, total = 0;
    CHECK(hipSetDevice(2));
    CHECK(hipMemGetInfo(&before, &total));
    CHECK(hipSetDevice(0));
    int *large = nullptr;
    CHECK(hipMalloc(&large, 1 << 20));
    CHECK(hipSetDevice(2));
    CHECK(hipMemGetInfo(&after, &total));
    int *none = nullptr;
    bool limited = hipMalloc(&none, total + 1) == hipErrorOutOfMemory;
    report("memory is each one's own", before == after && before <= total && limited);

    // A reset forgets one device.
    CHECK(hipSetDevice(1));
    CHECK(hipDeviceReset());
    hipPointerAttribute_t attributes;
    CHECK(hipPointerGetAttributes(&attributes, memory[1]));
    bool gone = attributes.type == hipMemoryTypeUnregistered;
    CHECK(hipSetDevice(2));
    CHECK(hipMemcpy(host.data(), memory[2], bytes, hipMemcpyDeviceToHost));
    report("reset", gone && host[0] == 2000);

    // A fault is its device's.
    (void)hipGetLastError();
    CHECK(hipSetDevice(0));
    add_offset<<<100, 256>>>(memory[0], results[0], 100 * 256);
    bool faulted = hipDeviceSynchronize() != hipSuccess;
    CHECK(hipSetDevice(2));
    report("faults", faulted && hipDeviceSynchronize() == hipSuccess);
    return 0;
}
