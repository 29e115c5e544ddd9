// A libamdhip64 of HIP 5.2 with one device, whose memory is the host's and whose only kernel is scale_f32 of
// kernels/scale.hip, written out in C. For testing what the driver passes to the library, where there is no GPU.
// Written from AMD's API reference.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OUT_OF_MEMORY 2
#define ILLEGAL_ADDRESS 700

static int faulted;

int hipRuntimeGetVersion(int *version) { *version = 50221153; return 0; }
const char *hipGetErrorName(int status) { return status == ILLEGAL_ADDRESS ? "hipErrorIllegalAddress" : "hipErrorOther"; }
const char *hipGetErrorString(int status) { return status == ILLEGAL_ADDRESS ? "an illegal memory access" : "other"; }
int hipGetDeviceCount(int *count) { *count = 1; return 0; }
int hipSetDevice(int device) { return device == 0 ? 0 : 101; }
int hipDeviceGetName(char *name, int bytes, int device) { (void)device; strncpy(name, "Fake MI210", bytes); return 0; }
int hipDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    if (attribute == 63) { *value = 104; return 0; }
    if (attribute == 87) { *value = 64; return 0; }
    return 1;
}
int hipDeviceTotalMem(size_t *bytes, int device) { (void)device; *bytes = (size_t)64 << 20; return 0; }
// HIP 5's layout: 792 bytes, the architecture at 396.
int hipGetDeviceProperties(void *properties, int device) {
    (void)device;
    memset(properties, 0, 792);
    strcpy(properties, "Fake MI210");
    strcpy((char *)properties + 396, "gfx90a:sramecc+:xnack-");
    return 0;
}
int hipMemGetInfo(size_t *free, size_t *total) { *free = 48 << 20; *total = 64 << 20; return 0; }
int hipMalloc(void **address, size_t bytes) {
    if (bytes > (size_t)64 << 20) return OUT_OF_MEMORY;
    *address = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *address ? 0 : OUT_OF_MEMORY;
}
int hipFree(void *address) { free(address); return 0; }
int hipMemcpyAsync(void *target, const void *source, size_t bytes, int kind, void *stream) {
    if (stream != &faulted || kind < 1 || kind > 3) return 1;
    memcpy(target, source, bytes);
    return 0;
}
int hipMemsetAsync(void *target, int value, size_t bytes, void *stream) {
    if (stream != &faulted) return 1;
    memset(target, value, bytes);
    return 0;
}
int hipStreamCreateWithFlags(void **stream, unsigned flags) { *stream = &faulted; return flags == 1 ? 0 : 1; }
int hipStreamSynchronize(void *stream) { return stream != &faulted ? 1 : faulted ? ILLEGAL_ADDRESS : 0; }
int hipStreamDestroy(void *stream) { (void)stream; return 0; }
int hipEventCreateWithFlags(void **event, unsigned flags) { *event = malloc(1); return flags == 0 ? 0 : 1; }
int hipEventRecord(void *event, void *stream) { return event && stream == &faulted ? 0 : 1; }
int hipEventSynchronize(void *event) { return event ? 0 : 1; }
int hipEventElapsedTime(float *milliseconds, void *start, void *stop) { *milliseconds = 1.5f; return start && stop ? 0 : 1; }
int hipEventDestroy(void *event) { free(event); return 0; }
int hipModuleLoadData(void **module, const void *image) {
    *module = (void *)"module";
    return memcmp(image, "\x7f" "ELF", 4) == 0 ? 0 : 200;
}
int hipModuleGetFunction(const char **function, void *module, const char *name) {
    (void)module;
    *function = strcmp(name, "scale_f32") == 0 ? "scale_f32" : "other";
    return 0;
}
int hipModuleUnload(void *module) { (void)module; return 0; }

struct ScaleArgs { const float *x; float *y; uint32_t count; float factor; };

int hipModuleLaunchKernel(const char *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned lds_bytes, void *stream, void **parameters,
                          void **extra) {
    struct ScaleArgs args;
    if (stream != &faulted || parameters || grid_y * grid_z * block_y * block_z != 1 || lds_bytes) return 1;
    if (extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3) return 1;
    if (*(size_t *)extra[3] != sizeof args) return 1;
    if (strcmp(function, "scale_f32") != 0) { faulted = 1; return 0; }
    memcpy(&args, extra[1], sizeof args);
    for (unsigned i = 0; i < grid_x * block_x && i < args.count; ++i) args.y[i] = args.x[i] * args.factor;
    return 0;
}
