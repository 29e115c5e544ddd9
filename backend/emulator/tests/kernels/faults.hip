// Kernels that do what they must not.
#include "hip.h"

KERNEL void scale(float* x, int n) {
    int i = global_x();
    if (i < n) x[i] *= 2.0f;
}

KERNEL void store_at(u64 address, u32 value) {
    if (thread_x() == 5) *(u32*)address = value;
}

KERNEL void lds_index(u32* out, int shift) {
    __shared__ u32 room[64];
    int t = thread_x();
    room[t + shift] = t;
    sync();
    out[t] = room[63 - t];
}

KERNEL void spin(volatile u32* flag) {
    while (*flag == 0) {}
}

KERNEL void half_barrier(u32* x) {
    if (thread_x() >= 64) return;
    sync();
    x[thread_x()] = 1;
}

KERNEL void trap(u32* x) {
    if (x[0] == 7) __builtin_trap();
    x[0] = 1;
}

KERNEL void unknown(u32* x) {
    x[0] = 1;
    asm volatile(".long 0xbfbf0000");
}

KERNEL __attribute__((amdgpu_flat_work_group_size(1, 128))) void small(u32* x) { x[0] = 1; }
