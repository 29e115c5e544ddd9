// Kernels of the kinds that models are made of, small, for measuring what checks and wave sizes cost.
#include "hip.h"

// Each thread four neighbouring values.
typedef float float4_ __attribute__((ext_vector_type(4)));
KERNEL void elementwise(const float4_* x, const float4_* y, float4_* out) {
    int i = global_x();
    float4_ a = x[i], b = y[i];
    out[i] = a * b + a - b * 0.5f;
}

// A workgroup of 256 a row: sums through LDS.
static inline __device__ float row_sum(float* room, float own) {
    int t = thread_x();
    room[t] = own;
    sync();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) room[t] += room[t + half];
        sync();
    }
    float sum = room[0];
    sync();
    return sum;
}

KERNEL void reduce(const float* x, float* out, int columns) {
    __shared__ float room[256];
    float sum = 0;
    for (int c = thread_x(); c < columns; c += 256) sum += x[group_x() * columns + c];
    sum = row_sum(room, sum);
    if (thread_x() == 0) out[group_x()] = sum;
}

// Weights are taken by a quotient instead of an exponential, which is the same work for memory.
KERNEL void softmax(const float* x, float* out, int columns) {
    __shared__ float room[256];
    const float* row = x + group_x() * columns;
    float sum = 0;
    for (int c = thread_x(); c < columns; c += 256) sum += 1.0f / (1.0f + row[c] * row[c]);
    float scale = 1.0f / row_sum(room, sum);
    for (int c = thread_x(); c < columns; c += 256) out[group_x() * columns + c] = scale / (1.0f + row[c] * row[c]);
}

// 64 by 64 of a product by tiles of 16 in LDS, 256 threads of 4 by 4.
KERNEL void gemm(const float* a, const float* b, float* c, int n, int k) {
    __shared__ float left[16][64], right[16][64];
    int t = thread_x(), row = t / 16 * 4, column = t % 16 * 4;
    int first_row = group_x() / (n / 64) * 64, first_column = group_x() % (n / 64) * 64;
    float sums[4][4] = {};
    for (int at = 0; at < k; at += 16) {
        for (int i = t; i < 1024; i += 256) {
            left[i % 16][i / 16] = a[(first_row + i / 16) * k + at + i % 16];
            right[i / 64][i % 64] = b[(at + i / 64) * n + first_column + i % 64];
        }
        sync();
        for (int p = 0; p < 16; p++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sums[i][j] += left[p][row + i] * right[p][column + j];
        sync();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) c[(first_row + row + i) * n + first_column + column + j] = sums[i][j];
}

// A bitonic sort of 512 values by 256 threads.
KERNEL void sort(const u32* x, u32* out) {
    __shared__ u32 room[512];
    int t = thread_x();
    room[t] = x[group_x() * 512 + t];
    room[t + 256] = x[group_x() * 512 + t + 256];
    for (int size = 2; size <= 512; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            sync();
            int i = t / step * step * 2 + t % step;
            u32 low = room[i], high = room[i + step];
            if ((low > high) == ((i & size) == 0)) room[i] = high, room[i + step] = low;
        }
    }
    sync();
    out[group_x() * 512 + t] = room[t];
    out[group_x() * 512 + t + 256] = room[t + 256];
}

// One query a thread, keys and values of 32 by 16 bits each through LDS.
KERNEL void attention(const float* q, const float* keys, const float* values, float* out, int count) {
    __shared__ float key[32][32], value[32][32];
    int t = thread_x(), own = global_x();
    float query[32], sums[32] = {}, total = 0;
    for (int d = 0; d < 32; d++) query[d] = q[own * 32 + d];
    for (int first = 0; first < count; first += 32) {
        for (int i = t; i < 1024; i += 256) {
            key[i / 32][i % 32] = keys[first * 32 + i];
            value[i / 32][i % 32] = values[first * 32 + i];
        }
        sync();
        for (int j = 0; j < 32; j++) {
            float score = 0;
            for (int d = 0; d < 32; d++) score += query[d] * key[j][d];
            float weight = 1.0f / (1.0f + score * score);
            total += weight;
            for (int d = 0; d < 32; d++) sums[d] += weight * value[j][d];
        }
        sync();
    }
    for (int d = 0; d < 32; d++) out[own * 32 + d] = sums[d] / total;
}
