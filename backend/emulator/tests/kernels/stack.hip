// Kernels that need a stack: calls that are not inlined, arrays indexed at run time, generic pointers.
#include "hip.h"

__attribute__((noinline)) __device__ u32 mix(u32 a, u32 b) { return (a * 2654435761u) ^ (b >> 3); }

__attribute__((noinline)) __device__ u32 fold(const u32* values, int n) {
    u32 sum = 1;
    for (int i = 0; i < n; ++i) sum = mix(sum, values[i]);
    return sum;
}

// Passes a private array by address, through two levels of calls.
KERNEL void calls(const u32* x, u32* out, int n) {
    int i = global_x();
    u32 own[8];
    for (int k = 0; k < 8; ++k) own[k] = x[(i + k) % n];
    out[i] = fold(own, 8);
}

__attribute__((noinline)) __device__ u32 ackermann(u32 m, u32 n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

// Recursion: the depth is known to no compiler.
KERNEL void recursion(u32* out) {
    int i = thread_x();
    out[i] = ackermann(2, i % 8);
}

// A private array indexed by data.
KERNEL void histogram(const u32* x, u32* out, int n) {
    u32 count[96];
    for (int k = 0; k < 96; ++k) count[k] = 0;
    for (int k = 0; k < n; ++k) count[x[global_x() * n + k] % 96] += k + 1;
    u32 sum = 0;
    for (int k = 0; k < 96; ++k) sum = sum * 31 + count[k];
    out[global_x()] = sum;
}

// The same with a barrier before it is read: the arrays of all waves of the workgroup are alive at once.
KERNEL void histogram_kept(const u32* x, u32* out, int n) {
    u32 count[96];
    for (int k = 0; k < 96; ++k) count[k] = 0;
    for (int k = 0; k < n; ++k) count[x[global_x() * n + k] % 96] += k + 1;
    sync();
    u32 sum = 0;
    for (int k = 0; k < 96; ++k) sum = sum * 31 + count[k];
    out[global_x()] = sum;
}

__attribute__((noinline)) __device__ u32 read_any(const u32* p, int i) { return p[i]; }

// One function reads device memory, LDS and scratch through generic pointers, in one wave.
KERNEL void generic(const u32* x, u32* out) {
    __shared__ u32 shared[256];
    u32 own[4];
    int t = thread_x();
    shared[t] = 1000 + t;
    for (int k = 0; k < 4; ++k) own[k] = 2000 + t * 4 + k;
    sync();
    const u32* p = t % 3 == 0 ? x : t % 3 == 1 ? shared : own;
    out[t] = read_any(p, t % 4);
}

__device__ u32 table[4] = {3, 1, 4, 1};
__attribute__((constant)) u32 primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};

// Globals: one that is written, one that is constant.
KERNEL void globals(u32* out) {
    int t = thread_x();
    out[t] = primes[t & 7] + table[t & 3];
    if (t == 0) table[2] = 5;
}
