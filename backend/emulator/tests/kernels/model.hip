// Kernels whose costs can be worked out by hand: what is counted is written as assembly.
#include "hip.h"

typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));

// A round is one 32x32x8 MFMA and ten additions.
KERNEL __attribute__((amdgpu_flat_work_group_size(256, 256))) void matrix_loop(float* out, int rounds) {
    f32x16 sum = {};
    f16x4 a = {1, 1, 1, 1}, b = {1, 1, 1, 1};
    u32 x = thread_x();
    for (int round = 0; round < rounds; ++round) {
        asm volatile(
            "v_mfma_f32_32x32x8_f16 %0, %2, %3, %0\n"
            "v_add_u32 %1, %1, 1\nv_add_u32 %1, %1, 1\nv_add_u32 %1, %1, 1\nv_add_u32 %1, %1, 1\nv_add_u32 %1, %1, 1\n"
            "v_add_u32 %1, %1, 1\nv_add_u32 %1, %1, 1\nv_add_u32 %1, %1, 1\nv_add_u32 %1, %1, 1\nv_add_u32 %1, %1, 1\n"
            : "+v"(sum), "+v"(x)
            : "v"(a), "v"(b));
    }
    asm volatile("s_nop 15\ns_nop 15\n");
    out[global_x()] = sum[0] + (float)x;
}

// One wave reads a dword at a stride; `rows` 16-byte pieces are read as matrix kernels do.
KERNEL void lds_stride(u32* out, u32 stride_bytes) {
    __shared__ u32 room[4096];
    int t = thread_x();
    for (int i = t; i < 4096; i += 64) room[i] = i;
    sync();
    u32 value, at = (u32)(u64)(__attribute__((address_space(3))) u32*)room + t * stride_bytes;
    asm volatile("ds_read_b32 %0, %1\ns_waitcnt lgkmcnt(0)" : "=v"(value) : "v"(at));
    out[t] = value;
}

KERNEL void copy16(const f32x4* from, f32x4* to) {
    int i = global_x();
    to[i] = from[i];
}

// Lanes read a dword each, `stride` dwords apart.
KERNEL void strided(const u32* from, u32* to, int stride) {
    int i = global_x();
    to[i] = from[i * stride];
}

// A quarter of the lanes works.
KERNEL void some_lanes(float* x, int rounds) {
    int i = global_x();
    if ((thread_x() & 3) == 0) {
        float value = x[i];
        for (int round = 0; round < rounds; ++round) asm volatile("v_mul_f32 %0, %0, %0" : "+v"(value));
        x[i] = value;
    }
}
