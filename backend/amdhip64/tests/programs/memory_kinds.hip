// What the library says of pointers, in the numbers of HIP that the program was linked for.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstring>

int main() {
    void *device, *host, *managed;
    if (hipMalloc(&device, 64) != hipSuccess || hipHostMalloc(&host, 64, 0) != hipSuccess ||
        hipMallocManaged(&managed, 64, hipMemAttachGlobal) != hipSuccess) {
        return 1;
    }
    const struct {
        const char *name;
        const void *address;
    } kinds[] = {{"device", device}, {"host", host}, {"managed", managed}, {"unknown", &device}};
    for (const auto &kind : kinds) {
        hipPointerAttribute_t attributes;
        hipError_t status = hipPointerGetAttributes(&attributes, kind.address);
        if (status == hipSuccess) {
            printf("%s: %d\n", kind.name, (int)attributes.type);
        } else {
            printf("%s: %s\n", kind.name, hipGetErrorName(status));
        }
    }
    return 0;
}
