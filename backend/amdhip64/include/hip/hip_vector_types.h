// hip_vector_types.h: in hip_runtime.h.
#include <hip/hip_runtime_api.h>
