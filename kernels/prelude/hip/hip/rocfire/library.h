// library.h: what clang's <math.h> for HIP stands on, for files that use it and do not include HIP's header: `bin/hipcc` puts
// it in front of all device code, as AMD's links its device library to all.
#ifndef ROCFIRE_HIP_LIBRARY_H
#define ROCFIRE_HIP_LIBRARY_H
#include <hip/rocfire/clang.h>
#include <hip/rocfire/math.h>
#include <hip/rocfire/special.h>
#endif
