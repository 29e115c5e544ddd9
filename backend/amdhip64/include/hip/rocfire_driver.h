// rocfire_driver.h: the calls that name a copy, an attribute or a launch by a struct or a number: the rest of
// hip_runtime_api.h, by AMD's public interface.
#ifndef ROCFIRE_HIP_DRIVER_H
#define ROCFIRE_HIP_DRIVER_H

#define hipHostRegisterIoMemory 0x4
#define hipHostRegisterReadOnly 0x8
#define hipExtHostRegisterCoarseGrained 0x8
#define hipMallocSignalMemory 0x2
#define hipDeviceMallocUncached 0x3
#define hipDeviceMallocContiguous 0x4
#define hipDeviceScheduleMask 0x7
#define hipDeviceLmemResizeToMax 0x10
#define hipEventDisableSystemFence 0x20000000
#define hipExtAnyOrderLaunch 0x1

// Arrays, which are not emulated, have a place in the structs of copies.
typedef struct hipArray *hipArray_t;
typedef const struct hipArray *hipArray_const_t;
typedef struct hipPos {
    size_t x, y, z;
} hipPos;
static inline hipPos make_hipPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
typedef struct hipMemcpy3DParms {
    hipArray_t srcArray;
    hipPos srcPos;
    hipPitchedPtr srcPtr;
    hipArray_t dstArray;
    hipPos dstPos;
    hipPitchedPtr dstPtr;
    hipExtent extent;
    hipMemcpyKind kind;
} hipMemcpy3DParms;
typedef struct hip_Memcpy2D {
    size_t srcXInBytes, srcY;
    hipMemoryType srcMemoryType;
    const void *srcHost;
    hipDeviceptr_t srcDevice;
    hipArray_t srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    hipMemoryType dstMemoryType;
    void *dstHost;
    hipDeviceptr_t dstDevice;
    hipArray_t dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} hip_Memcpy2D;

typedef enum hipFunction_attribute {
    HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_NUM_REGS,
    HIP_FUNC_ATTRIBUTE_PTX_VERSION,
    HIP_FUNC_ATTRIBUTE_BINARY_VERSION,
    HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA,
    HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    HIP_FUNC_ATTRIBUTE_MAX,
} hipFunction_attribute;
typedef enum hipPointer_attribute {
    HIP_POINTER_ATTRIBUTE_CONTEXT = 1,
    HIP_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    HIP_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    HIP_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    HIP_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    HIP_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    HIP_POINTER_ATTRIBUTE_MAPPED = 13,
} hipPointer_attribute;
// What a module may be loaded with: taken, and not looked at.
typedef enum hipJitOption {
    hipJitOptionMaxRegisters = 0,
    hipJitOptionThreadsPerBlock,
    hipJitOptionWallTime,
    hipJitOptionInfoLogBuffer,
    hipJitOptionInfoLogBufferSizeBytes,
    hipJitOptionErrorLogBuffer,
    hipJitOptionErrorLogBufferSizeBytes,
    hipJitOptionOptimizationLevel,
    hipJitOptionTargetFromContext,
    hipJitOptionTarget,
    hipJitOptionFallbackStrategy,
    hipJitOptionGenerateDebugInfo,
    hipJitOptionLogVerbose,
    hipJitOptionGenerateLineInfo,
    hipJitOptionCacheMode,
    hipJitOptionSm3xOpt,
    hipJitOptionFastCompile,
    hipJitOptionNumOptions,
} hipJitOption;

extern "C" {
hipError_t hipExtGetLastError();
hipError_t hipDrvGetErrorName(hipError_t status, const char **text);
hipError_t hipDrvGetErrorString(hipError_t status, const char **text);
hipError_t hipSetValidDevices(int *devices, int count);
hipError_t hipCtxGetApiVersion(hipCtx_t context, unsigned *version);
hipError_t hipCtxGetFlags(unsigned *flags);
hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned *flags, int *active);
hipError_t hipDevicePrimaryCtxReset(hipDevice_t device);
hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned flags);

hipError_t hipExtHostAlloc(void **address, size_t bytes, unsigned flags);
hipError_t hipMemAllocHost(void **address, size_t bytes);
hipError_t hipMemAllocPitch(hipDeviceptr_t *address, size_t *pitch, size_t width, size_t height, unsigned element_bytes);
hipError_t hipMemPtrGetInfo(void *address, size_t *bytes);
hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t address);
hipError_t hipDrvPointerGetAttributes(unsigned count, hipPointer_attribute *which, void **data, hipDeviceptr_t address);
hipError_t hipMemcpy3D(const hipMemcpy3DParms *copy);
hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms *copy, hipStream_t stream = 0);
hipError_t hipMemcpyParam2D(const hip_Memcpy2D *copy);
hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *copy, hipStream_t stream = 0);
hipError_t hipMemset3DAsync(hipPitchedPtr to, int value, hipExtent extent, hipStream_t stream = 0);
hipError_t hipMemsetD16Async(hipDeviceptr_t to, unsigned short value, size_t count, hipStream_t stream = 0);
hipError_t hipStreamWriteValue32(hipStream_t stream, void *to, uint32_t value, unsigned flags);
hipError_t hipStreamWriteValue64(hipStream_t stream, void *to, uint64_t value, unsigned flags);
hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t words, const uint32_t *mask);

hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function);
hipError_t hipFuncSetSharedMemConfig(const void *function, hipSharedMemConfig config);
hipError_t hipGetFuncBySymbol(hipFunction_t *function, const void *symbol);
hipError_t hipModuleGetFunctionCount(unsigned *count, hipModule_t module);
hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned count, hipJitOption *options,
                               void **values);
hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *image);
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, hipFunction_t function, int threads,
                                                                       size_t lds_bytes, unsigned flags);
hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, hipFunction_t function,
                                                            size_t lds_bytes, int limit, unsigned flags);
hipError_t hipExtModuleLaunchKernel(hipFunction_t function, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z,
                                    uint32_t block_x, uint32_t block_y, uint32_t block_z, size_t lds_bytes,
                                    hipStream_t stream, void **arguments, void **extra, hipEvent_t start = 0,
                                    hipEvent_t stop = 0, uint32_t flags = 0);

hipError_t hipGraphAddMemcpyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before, size_t count,
                                 const hipMemcpy3DParms *with);
hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before,
                                           size_t count, void *to, const void *symbol, size_t bytes, size_t offset,
                                           hipMemcpyKind kind);
hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *before,
                                         size_t count, const void *symbol, const void *from, size_t bytes,
                                         size_t offset, hipMemcpyKind kind);
hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *to, const void *from, size_t bytes,
                                         hipMemcpyKind kind);
hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams *with);
hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipHostNodeParams *with);
hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void *to, const void *from,
                                             size_t bytes, hipMemcpyKind kind);
hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams *with);
}

// The largest workgroup for which as many threads run at once as can, where LDS depends on its size.
template <typename F, typename Bytes>
inline hipError_t hipOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int *grid, int *block, F function, Bytes bytes_of,
                                                                         int limit = 0, unsigned = 0) {
    hipFuncAttributes attributes;
    hipError_t status = hipFuncGetAttributes(&attributes, reinterpret_cast<const void *>(function));
    int device = 0, units = 0, wave = 0, most = 0;
    if (status == hipSuccess) status = hipGetDevice(&device);
    if (status == hipSuccess) status = hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device);
    if (status == hipSuccess) status = hipDeviceGetAttribute(&wave, hipDeviceAttributeWarpSize, device);
    if (status != hipSuccess) return status;
    int largest = attributes.maxThreadsPerBlock;
    if (limit > 0 && limit < largest) largest = limit;
    for (int threads = largest; threads > 0; threads = (threads - 1) / wave * wave) {
        int count = 0;
        status = hipOccupancyMaxActiveBlocksPerMultiprocessor(&count, reinterpret_cast<const void *>(function), threads,
                                                              bytes_of(threads));
        if (status != hipSuccess) return status;
        if (count * threads > most) {
            most = count * threads;
            *grid = count * units;
            *block = threads;
        }
    }
    return hipSuccess;
}
template <typename F, typename Bytes>
inline hipError_t hipOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, F function, Bytes bytes_of,
                                                                int limit = 0) {
    return hipOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(grid, block, function, bytes_of, limit);
}

#endif
