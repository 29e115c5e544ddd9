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

// It counts its turns, so that no two of them are alike.
KERNEL void spin_and_count(volatile u32* flag, u32* turns) {
    u32 n = 0;
    while (*flag == 0) n++;
    *turns = n;
}

// Workgroup 0 does that until workgroup 1 has written.
KERNEL void count_until_written(volatile u32* words) {
    u32 n = 0;
    if (group_x() == 1) words[0] = 1;
    else
        while (words[0] == 0) n++;
    if (group_x() == 0) words[1] = n;
}

KERNEL void loop_for_ever() {
    while (true) asm volatile("s_nop 0");
}

// Waves wait for the one before them: for a word of LDS, and for one of device memory that nobody writes if `lost`.
KERNEL void chain_of_waves(u32* out, int lost) {
    __shared__ u32 turn;
    int t = thread_x(), wave = t / 64, last = 3;
    if (t == 0) turn = 0;
    sync();
    while (__hip_atomic_load(&turn, __ATOMIC_ACQUIRE, 3) < (u32)(last - wave)) {}
    out[t] = turn;
    if (t % 64 == 0 && wave != lost) __hip_atomic_store(&turn, last - wave + 1, __ATOMIC_RELEASE, 3);
}

// Each workgroup waits for the one behind it, which on a GPU may be there at the same time.
KERNEL void chain_of_groups(u32* out, u32* turn, int groups) {
    u32 own = groups - 1 - group_x();
    while (__hip_atomic_load(turn, __ATOMIC_ACQUIRE, 4) < own) {}
    if (thread_x() == 0) {
        out[own] = group_x();
        __hip_atomic_store(turn, own + 1, __ATOMIC_RELEASE, 4);
    }
}

// All workgroups meet several times.
KERNEL void meet(u32* out, u32* arrived, int groups, int rounds) {
    for (int round = 1; round <= rounds; round++) {
        if (thread_x() == 0) {
            __hip_atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL, 4);
            while (__hip_atomic_load(arrived, __ATOMIC_ACQUIRE, 4) < (u32)(round * groups)) {}
        }
        sync();
        u32 next = (group_x() + 1) % groups;
        if (thread_x() == 0) out[(round & 1) * groups + group_x()] = out[(~round & 1) * groups + next] + round;
    }
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
