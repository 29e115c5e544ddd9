// hip_runtime.h: HIP without ROCm. Device code is in hip/rocfire, the host's calls are in hip_runtime_api.h.
//
// Three compilers read it: clang for whole programs (`bin/hipcc`), clang for device code alone (`__HIPCC_RTC__`), and NVRTC,
// which has most names itself and gets HIP's others. ROCm's own hiprtc has all of this built in and never sees it.
#ifndef ROCFIRE_HIP_RUNTIME_H
#define ROCFIRE_HIP_RUNTIME_H

#if defined(__CUDACC_RTC__)
#include <hip/rocfire/nvrtc.h>
#else
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <hip/hip_version.h>
#include <hip/rocfire/clang.h>
#include <hip/rocfire/vectors.h>
#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime_api.h>
#endif
#include <hip/rocfire/places.h>
#include <hip/rocfire/math.h>
#include <hip/rocfire/special.h>
#include <hip/rocfire/bits.h>
#include <hip/rocfire/atomics.h>
#include <hip/rocfire/lanes.h>
#include <hip/rocfire/print.h>
#include <hip/rocfire/heap.h>
#if defined(__HIPCC_RTC__)
// hiprtc has it without asking.
#include <hip/hip_bfloat16.h>
#endif
#endif

#endif
