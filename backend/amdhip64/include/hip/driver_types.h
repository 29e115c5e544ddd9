// driver_types.h: all of it is in hip_runtime_api.h.
#include <hip/hip_runtime_api.h>
