// Loops whose speed the bench measures.
#include "hip.h"

typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef float float4v __attribute__((ext_vector_type(4)));
typedef float float16v __attribute__((ext_vector_type(16)));

// A mix of integer and float operations on registers.
KERNEL void valu(u32* out, int rounds) {
    u32 a = global_x(), b = a * 3 + 1, c = a ^ 0x55;
    float x = (float)a, y = 0.5f, z = 1.25f;
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            a = a * 5 + b;
            b = (b ^ a) >> 1;
            c = c + (b & 0xff);
            x = __builtin_fmaf(x, y, z);
            y = y * 0.75f + 0.25f;
            z = z - x * 0.125f;
        }
    }
    out[global_x()] = a + b + c + (u32)(x + y + z);
}

// Each wave multiplies its own 32x32 tile: A [32, k] row by row, B [32, k] column by column, both through LDS.
KERNEL void gemm_f16(const _Float16* a, const _Float16* b, float* c, int k) {
    __shared__ _Float16 ta[32 * 32], tb[32 * 32];
    int lane = thread_x(), row = lane % 32, part = lane / 32;
    float16v sum = {0};
    for (int k0 = 0; k0 < k; k0 += 32) {
        sync();
        for (int i = lane; i < 128; i += 64) {
            ((float4v*)ta)[i] = *(const float4v*)(a + (i / 4) * k + k0 + i % 4 * 8);
            ((float4v*)tb)[i] = *(const float4v*)(b + (i / 4) * k + k0 + i % 4 * 8);
        }
        sync();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            half4 va = *(half4*)(ta + row * 32 + step * 8 + part * 4);
            half4 vb = *(half4*)(tb + row * 32 + step * 8 + part * 4);
            sum = __builtin_amdgcn_mfma_f32_32x32x8f16(va, vb, sum, 0, 0, 0);
        }
    }
    for (int i = 0; i < 16; ++i) c[group_x() * 1024 + (8 * (i / 4) + 4 * part + i % 4) * 32 + row] = sum[i];
}

// The same in f32.
KERNEL void gemm_f32(const float* a, const float* b, float* c, int k) {
    __shared__ float ta[32 * 32], tb[32 * 32];
    int lane = thread_x(), row = lane % 32, part = lane / 32;
    float16v sum = {0};
    for (int k0 = 0; k0 < k; k0 += 32) {
        sync();
        for (int i = lane; i < 256; i += 64) {
            ((float4v*)ta)[i] = *(const float4v*)(a + (i / 8) * k + k0 + i % 8 * 4);
            ((float4v*)tb)[i] = *(const float4v*)(b + (i / 8) * k + k0 + i % 8 * 4);
        }
        sync();
#pragma unroll
        for (int step = 0; step < 16; ++step) {
            float va = ta[row * 32 + step * 2 + part], vb = tb[row * 32 + step * 2 + part];
            sum = __builtin_amdgcn_mfma_f32_32x32x2f32(va, vb, sum, 0, 0, 0);
        }
    }
    for (int i = 0; i < 16; ++i) c[group_x() * 1024 + (8 * (i / 4) + 4 * part + i % 4) * 32 + row] = sum[i];
}

// The matrix unit alone: two products at a time, on registers.
KERNEL void mfma_f16(const half4* x, float* out, int rounds) {
    half4 a = x[thread_x()], b = x[thread_x() + 64];
    float16v c = {0}, d = {0};
    for (int i = 0; i < rounds; ++i) {
        c = __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0);
        d = __builtin_amdgcn_mfma_f32_32x32x8f16(b, a, d, 0, 0, 0);
    }
    for (int i = 0; i < 16; ++i) out[i * 64 + thread_x()] = c[i] + d[i];
}

KERNEL void mfma_f32(const float* x, float* out, int rounds) {
    float a = x[thread_x()], b = x[thread_x() + 64];
    float16v c = {0}, d = {0};
    for (int i = 0; i < rounds; ++i) {
        c = __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0);
        d = __builtin_amdgcn_mfma_f32_32x32x2f32(b, a, d, 0, 0, 0);
    }
    for (int i = 0; i < 16; ++i) out[i * 64 + thread_x()] = c[i] + d[i];
}

KERNEL void nothing() {}

KERNEL void stream(const float* x, float* y, int n) {
    int i = global_x();
    if (i < n) y[i] = x[i] * 2.0f;
}

// A lane's own 16 bytes, lane after lane, to LDS and back.
KERNEL void lds(float4v* out, int rounds) {
    __shared__ float4v tile[64];
    // Named by its address space, or a volatile access is a FLAT one.
    auto own = (volatile __attribute__((address_space(3))) float4v*)(tile + thread_x());
    float4v sum = {0};
    *own = (float4v){1, 2, 3, 4};
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float4v value = *own;
            *own = value;
            sum = value;
        }
    }
    out[thread_x()] = sum;
}

// The same in device memory.
KERNEL void global(float4v* out, int rounds) {
    auto own = (volatile __attribute__((address_space(1))) float4v*)(out + thread_x());
    for (int i = 0; i < rounds; ++i) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float4v value = *own;
            *own = value;
        }
    }
}
