// Graphs put together node by node, changed after they were made, and captures that cannot be.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                   \
    do {                                                                              \
        hipError_t status = (call);                                                   \
        if (status != hipSuccess) {                                                   \
            std::printf("%s: %s\n", #call, hipGetErrorName(status));                  \
            std::exit(1);                                                             \
        }                                                                             \
    } while (0)

static void report(const char *part, bool good) { std::printf("%s: %s\n", part, good ? "ok" : "WRONG"); }

__global__ void add(int *x, int by) { x[threadIdx.x] += by; }
__global__ void scale(int *x, int by) { x[threadIdx.x] *= by; }

static hipKernelNodeParams kernel(void (*function)(int *, int), void **arguments) {
    hipKernelNodeParams with = {};
    with.func = reinterpret_cast<void *>(function);
    with.gridDim = dim3(1);
    with.blockDim = dim3(64);
    with.kernelParams = arguments;
    return with;
}

int main() {
    int *x = nullptr, by = 3, factor = 10, called = 0;
    std::vector<int> back(64);
    CHECK(hipMalloc(&x, 64 * sizeof(int)));
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));

    // x = (1 + 3) * 10, but the nodes are added last to first and ordered by their dependencies alone.
    hipGraph_t graph;
    CHECK(hipGraphCreate(&graph, 0));
    hipGraphNode_t copied, scaled, added, filled, host;
    void *of_scale[] = {&x, &factor}, *of_add[] = {&x, &by};
    hipKernelNodeParams scale_with = kernel(scale, of_scale), add_with = kernel(add, of_add);
    hipMemsetParams fill_with = {x, 4, 1, 0, 1, 64};
    hipHostNodeParams host_with = {[](void *data) { ++*static_cast<int *>(data); }, &called};
    CHECK(hipGraphAddMemcpyNode1D(&copied, graph, nullptr, 0, back.data(), x, 64 * sizeof(int), hipMemcpyDeviceToHost));
    CHECK(hipGraphAddKernelNode(&scaled, graph, nullptr, 0, &scale_with));
    CHECK(hipGraphAddKernelNode(&added, graph, nullptr, 0, &add_with));
    CHECK(hipGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill_with));
    CHECK(hipGraphAddHostNode(&host, graph, &copied, 1, &host_with));
    hipGraphNode_t from[] = {filled, added, scaled}, to[] = {added, scaled, copied};
    CHECK(hipGraphAddDependencies(graph, from, to, 3));
    by = factor = 0;  // arguments were taken when the nodes were made
    hipGraphExec_t exec;
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    report("nodes in order", back[0] == 40 && back[63] == 40 && called == 1);

    factor = 7;
    CHECK(hipGraphExecKernelNodeSetParams(exec, scaled, &scale_with));
    CHECK(hipGraphLaunch(exec, stream));
    report("another argument", back[5] == 28 && called == 2);

    // The graph twice in another.
    hipGraph_t outer;
    hipGraphNode_t first, second;
    hipGraphExec_t outer_exec;
    CHECK(hipGraphCreate(&outer, 0));
    CHECK(hipGraphAddChildGraphNode(&first, outer, nullptr, 0, graph));
    CHECK(hipGraphAddChildGraphNode(&second, outer, &first, 1, graph));
    CHECK(hipGraphInstantiate(&outer_exec, outer, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(outer));
    CHECK(hipGraphLaunch(outer_exec, stream));
    report("graphs in a graph", back[0] == 40 && called == 4);

    // Nodes that wait for each other.
    hipGraphExec_t none;
    CHECK(hipGraphAddDependencies(graph, &copied, &filled, 1));
    report("a circle", hipGraphInstantiate(&none, graph, nullptr, nullptr, 0) == hipErrorInvalidValue);
    CHECK(hipGraphDestroy(graph));
    report("after destroying", hipGraphInstantiate(&none, graph, nullptr, nullptr, 0) == hipErrorInvalidValue);

    // Waiting for a stream spoils its capture, and leaves the stream usable.
    hipStreamCaptureStatus state;
    CHECK(hipMemset(x, 0, 64 * sizeof(int)));
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    add<<<1, 64, 0, stream>>>(x, 1);
    CHECK(hipStreamIsCapturing(stream, &state));
    bool active = state == hipStreamCaptureStatusActive;
    bool refused = hipStreamSynchronize(stream) == hipErrorStreamCaptureUnsupported;
    CHECK(hipStreamIsCapturing(stream, &state));
    bool spoiled = state == hipStreamCaptureStatusInvalidated;
    bool ended = hipStreamEndCapture(stream, &graph) == hipErrorStreamCaptureInvalidated && graph == nullptr;
    add<<<1, 64, 0, stream>>>(x, 5);
    CHECK(hipMemcpy(back.data(), x, 64 * sizeof(int), hipMemcpyDeviceToHost));
    report("a spoiled capture", active && refused && spoiled && ended && back[9] == 5);
    return 0;
}
