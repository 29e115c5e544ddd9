// Kernels for what every program does: indexing, LDS, barriers, branches, loops.
#include "hip.h"

KERNEL void vector_add(const float* a, const float* b, float* c, int n) {
    int i = global_x();
    if (i < n) c[i] = a[i] + b[i];
}

// One sum for each workgroup of 256.
KERNEL void block_sum(const float* x, float* sums, int n) {
    __shared__ float part[256];
    int t = thread_x(), i = global_x();
    part[t] = i < n ? x[i] : 0.0f;
    sync();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) part[t] += part[t + step];
        sync();
    }
    if (t == 0) sums[group_x()] = part[0];
}

// Reverses the elements of a workgroup `rounds` times through LDS that the launch provides.
KERNEL void reverse(u32* x, int rounds) {
    extern __shared__ u32 room[];
    int t = thread_x(), n = group_size_x();
    for (int round = 0; round < rounds; ++round) {
        room[t] = x[group_x() * n + t];
        sync();
        x[group_x() * n + t] = room[n - 1 - t] + 1;
        sync();
    }
}

// Steps of Collatz's sequence: every lane leaves the loop on its own.
KERNEL void collatz(const u32* x, u32* steps, int n) {
    int i = global_x();
    if (i >= n) return;
    u64 value = x[i];
    u32 count = 0;
    while (value != 1) {
        value = value & 1 ? 3 * value + 1 : value / 2;
        ++count;
    }
    steps[i] = count;
}

// Where each work-item is, in a three-dimensional grid.
KERNEL void places(u32* out) {
    u32 x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();
    u32 bx = __builtin_amdgcn_workgroup_size_x(), by = __builtin_amdgcn_workgroup_size_y(), bz = __builtin_amdgcn_workgroup_size_z();
    u32 gx = __builtin_amdgcn_workgroup_id_x(), gy = __builtin_amdgcn_workgroup_id_y(), gz = __builtin_amdgcn_workgroup_id_z();
    u32 nx = __builtin_amdgcn_grid_size_x() / bx, ny = __builtin_amdgcn_grid_size_y() / by;
    u32 group = (gz * ny + gy) * nx + gx;
    u32 item = (z * by + y) * bx + x;
    u32* place = out + 6 * (group * bx * by * bz + item);
    place[0] = x; place[1] = y; place[2] = z;
    place[3] = gx; place[4] = gy; place[5] = gz;
}
