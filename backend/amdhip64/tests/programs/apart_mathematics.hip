// The part of `apart.hip` that includes nothing of HIP's.
#include <math.h>

__device__ int rounded_root(int x) { return (int)floor(sqrt((double)x) + cos(0.0) - 0.5); }
