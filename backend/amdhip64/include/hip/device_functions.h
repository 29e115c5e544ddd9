// device_functions.h: in hip_runtime.h.
#include <hip/hip_runtime.h>
