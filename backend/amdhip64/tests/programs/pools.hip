// Memory pools, what is known of a capture, and nodes of graphs that wait for events or go away.
#include <cstdio>
#include <cstring>

#include <hip/hip_runtime.h>

__global__ void add(int *x, int by) { x[threadIdx.x] += by; }

static void report(const char *name, bool good) { printf("%s: %s\n", name, good ? "ok" : "WRONG"); }

static unsigned long long used(hipMemPool_t pool, hipMemPoolAttr which) {
    unsigned long long bytes = ~0ull;
    if (hipMemPoolGetAttribute(pool, which, &bytes) != hipSuccess) return ~0ull;
    return bytes;
}

int main() {
    hipMemPool_t own, pool;
    bool good = hipDeviceGetDefaultMemPool(&own, 0) == hipSuccess && hipDeviceGetMemPool(&pool, 0) == hipSuccess && own == pool;
    hipMemPoolProps with = {};
    with.allocType = hipMemAllocationTypePinned;
    with.location = {hipMemLocationTypeDevice, 0};
    good = good && hipMemPoolCreate(&pool, &with) == hipSuccess && hipDeviceSetMemPool(0, pool) == hipSuccess;
    int *x, *y;
    good = good && hipMallocAsync(&x, 1000, nullptr) == hipSuccess && used(pool, hipMemPoolAttrUsedMemCurrent) == 1000;
    good = good && hipMallocFromPoolAsync(&y, 500, own, nullptr) == hipSuccess && used(own, hipMemPoolAttrUsedMemCurrent) == 500;
    good = good && hipFreeAsync(x, nullptr) == hipSuccess && hipFree(y) == hipSuccess;
    good = good && used(pool, hipMemPoolAttrUsedMemCurrent) == 0 && used(pool, hipMemPoolAttrUsedMemHigh) == 1000;
    unsigned long long threshold = 12345;
    good = good && hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold) == hipSuccess &&
           used(pool, hipMemPoolAttrReleaseThreshold) == 12345 && hipMemPoolTrimTo(pool, 0) == hipSuccess;
    hipMemAccessFlags access;
    good = good && hipMemPoolGetAccess(&access, pool, &with.location) == hipSuccess && access == hipMemAccessFlagsProtReadWrite;
    good = good && hipMemPoolDestroy(pool) == hipSuccess && hipMemPoolDestroy(pool) == hipErrorInvalidValue &&
           hipMemPoolDestroy(own) == hipErrorInvalidValue && hipMemPoolCreate(nullptr, &with) == hipErrorInvalidValue;
    report("pools", good);

    // A capture on the thread's own stream.
    hipStream_t stream = hipStreamPerThread;
    hipStreamCaptureStatus status;
    unsigned long long id = 0;
    hipGraph_t graph = nullptr, seen = nullptr;
    const hipGraphNode_t *before = nullptr;
    size_t count = 9;
    good = hipMalloc(&x, 64 * sizeof(int)) == hipSuccess && hipMemset(x, 0, 64 * sizeof(int)) == hipSuccess;
    good = good && hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal) == hipSuccess;
    add<<<1, 64, 0, stream>>>(x, 1);
    good = good && hipStreamGetCaptureInfo_v2(stream, &status, &id, &seen, &before, &count) == hipSuccess &&
           status == hipStreamCaptureStatusActive && id != 0 && seen != nullptr && count == 1 && *before != nullptr;
    add<<<1, 64, 0, stream>>>(x, 10);
    good = good && hipStreamEndCapture(stream, &graph) == hipSuccess && graph == seen;
    good = good && hipStreamGetCaptureInfo_v2(stream, &status) == hipSuccess && status == hipStreamCaptureStatusNone;
    good = good && hipStreamBeginCapture(hipStreamLegacy, hipStreamCaptureModeGlobal) == hipErrorStreamCaptureUnsupported;
    report("a capture on the thread's stream", good);

    // A node that waits for an event, and the first addition goes away.
    hipGraphNode_t nodes[8], waiting;
    hipEvent_t event;
    count = 8;
    good = hipGraphGetNodes(graph, nodes, &count) == hipSuccess && count == 2 && hipEventCreate(&event) == hipSuccess;
    good = good && hipGraphAddEventWaitNode(&waiting, graph, &nodes[1], 1, event) == hipSuccess;
    hipGraphNodeType type;
    good = good && hipGraphNodeGetType(waiting, &type) == hipSuccess && type == hipGraphNodeTypeWaitEvent;
    good = good && hipGraphDestroyNode(nodes[0]) == hipSuccess && hipGraphDestroyNode(nodes[0]) == hipErrorInvalidValue;
    hipGraphExec_t exec;
    int first = -1;
    good = good && hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0) == hipSuccess &&
           hipGraphLaunch(exec, nullptr) == hipSuccess && hipMemcpy(&first, x, sizeof(int), hipMemcpyDeviceToHost) == hipSuccess;
    report("nodes", good && first == 10);

    hipGraph_t other;
    hipGraphNode_t node, behind;
    hipGraphExecUpdateResult result;
    good = hipGraphCreate(&other, 0) == hipSuccess && hipGraphAddEmptyNode(&behind, other, nullptr, 0) == hipSuccess;
    good = good && hipGraphExecUpdate(exec, other, &node, &result) == hipErrorGraphExecUpdateFailure &&
           result == hipGraphExecUpdateErrorTopologyChanged;
    good = good && hipGraphAddEmptyNode(&node, other, &behind, 1) == hipSuccess &&
           hipGraphExecUpdate(exec, other, &node, &result) == hipErrorGraphExecUpdateFailure &&
           result == hipGraphExecUpdateErrorNodeTypeChanged && node != nullptr;
    report("updates", good);

    hipStream_t made;
    good = hipStreamCreate(&made) == hipSuccess && hipGetStreamDeviceId(made) == 0 && hipStreamDestroy(made) == hipSuccess;
    good = good && hipStreamSynchronize(made) == hipErrorContextIsDestroyed && hipGetStreamDeviceId(made) == -1;
    report("a stream that is gone", good);
    void *host;
    good = hipHostMalloc(&host, 16, hipHostMallocCoherent | hipHostMallocNonCoherent) == hipErrorInvalidValue;
    report("flags that exclude each other", good);
}
