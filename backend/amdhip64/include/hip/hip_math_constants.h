// hip_math_constants.h: the constants are <math.h>'s.
#include <hip/hip_runtime.h>
