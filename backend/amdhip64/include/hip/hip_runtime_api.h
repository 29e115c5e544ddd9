// hip_runtime_api.h: the host's calls, those that rocfire's libamdhip64 and AMD's both have, by AMD's public interface.
// A machine with ROCm uses ROCm's own headers, and the same program.
#ifndef ROCFIRE_HIP_RUNTIME_API_H
#define ROCFIRE_HIP_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <hip/hip_version.h>
#if defined(__HIP__)
#include <hip/rocfire/clang.h>
#else
// A host's program that launches nothing itself.
#define __host__
#define __device__
#define ROCFIRE_BOTH static inline
#endif
#include <hip/rocfire/vectors.h>

#include <hip/rocfire_types.h>

extern "C" {
hipError_t hipInit(unsigned flags);
hipError_t hipRuntimeGetVersion(int *version);
hipError_t hipDriverGetVersion(int *version);
hipError_t hipGetDeviceCount(int *count);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipDeviceGet(hipDevice_t *device, int ordinal);
hipError_t hipDeviceGetName(char *name, int bytes, hipDevice_t device);
hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device);
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device);
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_t *properties, int device);
hipError_t hipDeviceSynchronize();
hipError_t hipDeviceReset();
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device);
hipError_t hipDeviceGetPCIBusId(char *text, int bytes, int device);
hipError_t hipDeviceGetByPCIBusId(int *device, const char *text);
hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device);
hipError_t hipDeviceGetLimit(size_t *value, hipLimit_t limit);
hipError_t hipDeviceSetLimit(hipLimit_t limit, size_t value);
hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest);
hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config);
hipError_t hipDeviceGetCacheConfig(hipFuncCache_t *config);
hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config);
hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig *config);
hipError_t hipSetDeviceFlags(unsigned flags);
hipError_t hipGetDeviceFlags(unsigned *flags);
hipError_t hipCtxCreate(hipCtx_t *context, unsigned flags, hipDevice_t device);
hipError_t hipCtxDestroy(hipCtx_t context);
hipError_t hipCtxSetCurrent(hipCtx_t context);
hipError_t hipCtxGetCurrent(hipCtx_t *context);
hipError_t hipCtxGetDevice(hipDevice_t *device);
hipError_t hipCtxPushCurrent(hipCtx_t context);
hipError_t hipCtxPopCurrent(hipCtx_t *context);
hipError_t hipCtxSynchronize();
hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *context, hipDevice_t device);
hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device);

hipError_t hipGetLastError();
hipError_t hipPeekAtLastError();
const char *hipGetErrorName(hipError_t status);
const char *hipGetErrorString(hipError_t status);

hipError_t hipMalloc(void **address, size_t bytes);
hipError_t hipMallocAsync(void **address, size_t bytes, hipStream_t stream);
hipError_t hipHostMalloc(void **address, size_t bytes, unsigned flags);
hipError_t hipMallocManaged(void **address, size_t bytes, unsigned flags);
hipError_t hipMallocPitch(void **address, size_t *pitch, size_t width, size_t height);
hipError_t hipFree(void *address);
hipError_t hipFreeAsync(void *address, hipStream_t stream);
hipError_t hipHostFree(void *address);
hipError_t hipFreeHost(void *address);
hipError_t hipHostAlloc(void **address, size_t bytes, unsigned flags);
hipError_t hipMallocHost(void **address, size_t bytes);
hipError_t hipExtMallocWithFlags(void **address, size_t bytes, unsigned flags);
hipError_t hipMalloc3D(hipPitchedPtr *pointer, hipExtent extent);
hipError_t hipHostGetFlags(unsigned *flags, void *host);
hipError_t hipMemAdvise(const void *address, size_t bytes, hipMemoryAdvise advice, int device);
hipError_t hipMemPrefetchAsync(const void *address, size_t bytes, int device, hipStream_t stream = 0);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *start, size_t *bytes, hipDeviceptr_t address);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device);
hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device);
hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool);
hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *with);
hipError_t hipMemPoolDestroy(hipMemPool_t pool);
hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t bytes);
hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value);
hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value);
hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc *list, size_t count);
hipError_t hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t pool, hipMemLocation *location);
hipError_t hipMallocFromPoolAsync(void **address, size_t bytes, hipMemPool_t pool, hipStream_t stream);
hipError_t hipHostRegister(void *host, size_t bytes, unsigned flags);
hipError_t hipHostUnregister(void *host);
hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags);
hipError_t hipMemGetInfo(size_t *free, size_t *total);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *address);

hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream = 0);
hipError_t hipMemcpyWithStream(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyHtoD(hipDeviceptr_t to, const void *from, size_t bytes);
hipError_t hipMemcpyDtoH(void *to, hipDeviceptr_t from, size_t bytes);
hipError_t hipMemcpyDtoD(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes);
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, const void *from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes);
hipError_t hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                              hipStream_t stream = 0);
hipError_t hipDeviceCanAccessPeer(int *possible, int device, int peer);
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags);
hipError_t hipDeviceDisablePeerAccess(int peer);
hipError_t hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                       hipMemcpyKind kind);
hipError_t hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                            size_t height, hipMemcpyKind kind, hipStream_t stream = 0);
hipError_t hipMemset2D(void *to, size_t pitch, int value, size_t width, size_t height);
hipError_t hipMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream = 0);
hipError_t hipMemset3D(hipPitchedPtr to, int value, hipExtent extent);
hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, size_t count);
hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream = 0);
hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count, hipStream_t stream = 0);
hipError_t hipMemset(void *to, int value, size_t bytes);
hipError_t hipMemsetAsync(void *to, int value, size_t bytes, hipStream_t stream = 0);
hipError_t hipMemsetD16(hipDeviceptr_t to, unsigned short value, size_t count);
hipError_t hipMemsetD32(hipDeviceptr_t to, int value, size_t count);
hipError_t hipMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, hipMemcpyKind kind);
hipError_t hipMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind);
hipError_t hipGetSymbolAddress(void **address, const void *symbol);
hipError_t hipGetSymbolSize(size_t *bytes, const void *symbol);
hipError_t hipMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                  hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind,
                                    hipStream_t stream);

hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority);
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *flags);
hipError_t hipStreamGetPriority(hipStream_t stream, int *priority);
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device);
hipError_t hipStreamAttachMemAsync(hipStream_t stream, void *address, size_t bytes, unsigned flags);
int hipGetStreamDeviceId(hipStream_t stream);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags = 0);
hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *data, unsigned flags);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *data);
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream = 0);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t stop);
hipError_t hipEventDestroy(hipEvent_t event);

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status);
hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id);
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id = 0,
                                      hipGraph_t *graph = 0, const hipGraphNode_t **before = 0, size_t *count = 0);
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode);
hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags);
hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                                 const hipKernelNodeParams *with);
hipError_t hipGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                                 const hipMemsetParams *with);
hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                                   void *to, const void *from, size_t bytes, hipMemcpyKind kind);
hipError_t hipGraphAddHostNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                               const hipHostNodeParams *with);
hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                                     hipGraph_t child);
hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to,
                                   size_t count);
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipKernelNodeParams *with);
hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *node, char *log, size_t bytes);
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags);
hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t *node,
                              hipGraphExecUpdateResult *result);
hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph);
hipError_t hipGraphDestroyNode(hipGraphNode_t node);
hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count);
hipError_t hipGraphAddEventRecordNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before,
                                      size_t count, hipEvent_t event);
hipError_t hipGraphAddEventWaitNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                                    hipEvent_t event);
hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams *with);
hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *type);
hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count);
hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t *nodes, size_t *count);
hipError_t hipGraphExecDestroy(hipGraphExec_t exec);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count);

hipError_t hipModuleLoad(hipModule_t *module, const char *path);
hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipModuleGetGlobal(hipDeviceptr_t *address, size_t *bytes, hipModule_t module, const char *name);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned lds_bytes,
                                 hipStream_t stream, void **arguments, void **extra);
hipError_t hipFuncGetAttributes(hipFuncAttributes *attributes, const void *function);
hipError_t hipFuncSetAttribute(const void *function, hipFuncAttribute attribute, int value);
hipError_t hipFuncSetCacheConfig(const void *function, hipFuncCache_t config);
hipError_t hipLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments, unsigned lds_bytes,
                                      hipStream_t stream);
hipError_t hipExtLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t lds_bytes,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags);
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *function, int threads,
                                                                 size_t lds_bytes, unsigned flags = 0);
hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, hipFunction_t function, size_t lds_bytes,
                                                   int limit);
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *count, hipFunction_t function, int threads,
                                                              size_t lds_bytes);
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned lds_bytes,
                                            hipStream_t stream, void **arguments);
hipError_t hipProfilerStart();
hipError_t hipProfilerStop();
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *function, int threads,
                                                        size_t lds_bytes);
hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *function, size_t lds_bytes, int limit);

// What `<<<…>>>` becomes.
hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t lds_bytes,
                           hipStream_t stream);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds_bytes = 0, hipStream_t stream = 0);
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds_bytes, hipStream_t *stream);
}

template <typename T>
inline hipError_t hipMalloc(T **address, size_t bytes) {
    return hipMalloc(reinterpret_cast<void **>(address), bytes);
}
template <typename T>
inline hipError_t hipHostAlloc(T **address, size_t bytes, unsigned flags) {
    return hipHostAlloc(reinterpret_cast<void **>(address), bytes, flags);
}
template <typename T>
inline hipError_t hipMallocHost(T **address, size_t bytes) {
    return hipMallocHost(reinterpret_cast<void **>(address), bytes);
}
template <typename T>
inline hipError_t hipExtMallocWithFlags(T **address, size_t bytes, unsigned flags) {
    return hipExtMallocWithFlags(reinterpret_cast<void **>(address), bytes, flags);
}
template <typename T>
inline hipError_t hipMallocPitch(T **address, size_t *pitch, size_t width, size_t height) {
    return hipMallocPitch(reinterpret_cast<void **>(address), pitch, width, height);
}
template <typename T>
inline hipError_t hipHostGetDevicePointer(T **device, void *host, unsigned flags) {
    return hipHostGetDevicePointer(reinterpret_cast<void **>(device), host, flags);
}
template <typename T>
inline hipError_t hipMallocFromPoolAsync(T **address, size_t bytes, hipMemPool_t pool, hipStream_t stream) {
    return hipMallocFromPoolAsync(reinterpret_cast<void **>(address), bytes, pool, stream);
}
inline hipError_t hipMallocAsync(void **address, size_t bytes, hipMemPool_t pool, hipStream_t stream) {
    return hipMallocFromPoolAsync(address, bytes, pool, stream);
}
template <typename T>
inline hipError_t hipGetSymbolAddress(void **address, const T &symbol) {
    return hipGetSymbolAddress(address, reinterpret_cast<const void *>(&symbol));
}
template <typename T>
inline hipError_t hipGetSymbolSize(size_t *bytes, const T &symbol) {
    return hipGetSymbolSize(bytes, reinterpret_cast<const void *>(&symbol));
}
template <typename T>
inline hipError_t hipMallocAsync(T **address, size_t bytes, hipStream_t stream) {
    return hipMallocAsync(reinterpret_cast<void **>(address), bytes, stream);
}
template <typename T>
inline hipError_t hipHostMalloc(T **address, size_t bytes, unsigned flags = hipHostMallocDefault) {
    return hipHostMalloc(reinterpret_cast<void **>(address), bytes, flags);
}
template <typename T>
inline hipError_t hipMallocManaged(T **address, size_t bytes, unsigned flags = hipMemAttachGlobal) {
    return hipMallocManaged(reinterpret_cast<void **>(address), bytes, flags);
}
template <typename T>
inline hipError_t hipMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                    hipMemcpyKind kind = hipMemcpyHostToDevice) {
    return hipMemcpyToSymbol(reinterpret_cast<const void *>(&symbol), from, bytes, offset, kind);
}
template <typename T>
inline hipError_t hipMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                      hipMemcpyKind kind = hipMemcpyDeviceToHost) {
    return hipMemcpyFromSymbol(to, reinterpret_cast<const void *>(&symbol), bytes, offset, kind);
}
template <typename T>
inline hipError_t hipMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset,
                                         hipMemcpyKind kind, hipStream_t stream = 0) {
    return hipMemcpyToSymbolAsync(reinterpret_cast<const void *>(&symbol), from, bytes, offset, kind, stream);
}
template <typename T>
inline hipError_t hipMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset, hipMemcpyKind kind,
                                           hipStream_t stream = 0) {
    return hipMemcpyFromSymbolAsync(to, reinterpret_cast<const void *>(&symbol), bytes, offset, kind, stream);
}
// Functions of any type stand for their kernels.
template <typename F>
inline hipError_t hipLaunchCooperativeKernel(F function, dim3 grid, dim3 block, void **arguments, unsigned lds_bytes,
                                             hipStream_t stream) {
    return hipLaunchCooperativeKernel(reinterpret_cast<const void *>(function), grid, block, arguments, lds_bytes, stream);
}
template <typename F>
inline hipError_t hipLaunchKernel(F function, dim3 grid, dim3 block, void **arguments, size_t lds_bytes,
                                  hipStream_t stream) {
    return hipLaunchKernel(reinterpret_cast<const void *>(function), grid, block, arguments, lds_bytes, stream);
}
template <typename F>
inline hipError_t hipFuncSetAttribute(F *function, hipFuncAttribute attribute, int value) {
    return hipFuncSetAttribute(reinterpret_cast<const void *>(function), attribute, value);
}
template <typename F>
inline hipError_t hipFuncGetAttributes(hipFuncAttributes *attributes, F *function) {
    return hipFuncGetAttributes(attributes, reinterpret_cast<const void *>(function));
}
template <typename F>
inline hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, F function, size_t lds_bytes = 0,
                                                    int limit = 0) {
    return hipOccupancyMaxPotentialBlockSize(grid, block, reinterpret_cast<const void *>(function), lds_bytes, limit);
}
template <typename F>
inline hipError_t hipOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, F function, size_t lds_bytes = 0,
                                                             int limit = 0, unsigned = 0) {
    return hipOccupancyMaxPotentialBlockSize(grid, block, reinterpret_cast<const void *>(function), lds_bytes, limit);
}
template <typename F>
inline hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, F function, int threads,
                                                                        size_t lds_bytes, unsigned flags = 0) {
    return hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, reinterpret_cast<const void *>(function), threads,
                                                                 lds_bytes, flags);
}
template <typename... Parameters, typename... Arguments>
inline void hipExtLaunchKernelGGL(void (*kernel)(Parameters...), dim3 grid, dim3 block, unsigned lds_bytes,
                                  hipStream_t stream, hipEvent_t start, hipEvent_t stop, unsigned flags,
                                  Arguments... arguments) {
    auto launch = [&](Parameters... values) {
        void *list[] = {(void *)&values..., nullptr};
        (void)hipExtLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, list, lds_bytes, stream, start, stop,
                                 (int)flags);
    };
    launch(static_cast<Parameters>(arguments)...);
}
template <typename F>
inline hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *count, F function, int threads, size_t lds_bytes) {
    return hipOccupancyMaxActiveBlocksPerMultiprocessor(count, reinterpret_cast<const void *>(function), threads,
                                                        lds_bytes);
}

#include <hip/rocfire_driver.h>
#include <hip/library_types.h>

#define hipLaunchKernelGGL(kernel, grid, block, lds_bytes, stream, ...) \
    (kernel)<<<(grid), (block), (lds_bytes), (stream)>>>(__VA_ARGS__)

#endif
