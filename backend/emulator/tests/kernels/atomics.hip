// Atomic operations on device memory and LDS.
#include "hip.h"

#define ADD(p, v) __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define MAX(p, v) __hip_atomic_fetch_max(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)

// Counts, first in LDS, then in device memory.
KERNEL void histogram(const u32* x, u32* counts, int n) {
    __shared__ u32 local[16];
    int t = thread_x();
    if (t < 16) local[t] = 0;
    sync();
    for (int i = global_x(); i < n; i += 4 * group_size_x())
        __hip_atomic_fetch_add(&local[x[i] & 15], 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    sync();
    if (t < 16) ADD(&counts[t], local[t]);
}

// Takes numbers in the order of the workgroups.
KERNEL void tickets(u32* next, u32* taken) { taken[global_x()] = ADD(next, 1u); }

// Sums that depend on their order.
KERNEL void float_sum(const float* x, float* sum) { __hip_atomic_fetch_add(sum, x[global_x()], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }

KERNEL void extremes(const int* x, int* low, u32* high, u64* wide) {
    int i = global_x();
    __hip_atomic_fetch_min(low, x[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    MAX(high, (u32)x[i]);
    ADD(wide, (u64)(u32)x[i]);
}

// Adds by comparing and swapping.
KERNEL void swap_loop(u32* sum) {
    u32 old = __hip_atomic_load(sum, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (!__hip_atomic_compare_exchange_strong(sum, &old, old + thread_x(), __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {}
}
