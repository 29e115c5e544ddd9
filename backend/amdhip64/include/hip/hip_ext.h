// hip_ext.h: launches with events, in hip_runtime.h.
#include <hip/hip_runtime.h>
