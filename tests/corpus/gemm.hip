// Products of matrices and vectors on the vector units. The matrix units have matrix.hip.

// C = A B, one lane an element.
KERNEL void naive(const float* a, const float* b, float* c, int m, int n, int k) {
    int col = global_x(), row = blockIdx.y;
    if (col >= n || row >= m) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}

// By tiles of 16x16 in LDS, in any type, any size.
template <class T> FN void tiled(const T* a, const T* b, T* c, int m, int n, int k) {
    __shared__ T left[16][17], right[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    T sum = 0;
    for (int base = 0; base < k; base += 16) {
        left[y][x] = row < m && base + x < k ? a[row * k + base + x] : (T)0;
        right[y][x] = col < n && base + y < k ? b[(base + y) * n + col] : (T)0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
KERNEL void tiled_f32(const float* a, const float* b, float* c, int m, int n, int k) { tiled(a, b, c, m, n, k); }
KERNEL void tiled_f64(const double* a, const double* b, double* c, int m, int n, int k) { tiled(a, b, c, m, n, k); }
KERNEL void tiled_i32(const i32* a, const i32* b, i32* c, int m, int n, int k) { tiled(a, b, c, m, n, k); }

// 4x4 elements a lane, 32x32 a workgroup of 64, fused multiply-adds, B read by fours.
KERNEL void blocked(const float* a, const float* b, float* c, int n, int k) {
    __shared__ float left[8][36];
    __shared__ vec<float, 4> right[8][8];
    int t = threadIdx.x, x = t % 8, y = t / 8, row = blockIdx.y * 32, col = blockIdx.x * 32;
    vec<float, 4> sums[4] = {};
    for (int base = 0; base < k; base += 8) {
        for (int i = 0; i < 4; ++i) left[t % 8][t / 8 + 8 * i] = a[(row + t / 8 + 8 * i) * k + base + t % 8];
        right[y][x] = *(const vec<float, 4>*)&b[(base + y) * n + col + 4 * x];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int r = 0; r < 4; ++r)
                sums[r] = __builtin_elementwise_fma((vec<float, 4>)left[i][4 * y + r], right[i][x], sums[r]);
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r) *(vec<float, 4>*)&c[(row + 4 * y + r) * n + col + 4 * x] = sums[r];
}

// f16 in, f32 sums, f16 out.
KERNEL void half_in(const f16* a, const f16* b, f16* c, int n, int k) {
    int col = global_x(), row = blockIdx.y;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum = __builtin_fmaf((float)a[row * k + i], (float)b[i * n + col], sum);
    c[row * n + col] = (f16)sum;
}

// Bytes by fours, B transposed; scales for rows and columns.
KERNEL void int8_scaled(const u32* a, const u32* b, const float* row_scale, const float* col_scale, float* c, int n, int k4) {
    int col = global_x(), row = blockIdx.y;
    i32 sum = 0;
    for (int i = 0; i < k4; ++i) {
        u32 x = a[row * k4 + i], y = b[col * k4 + i];
#pragma unroll
        for (int at = 0; at < 32; at += 8) sum += (i32)(i8)(x >> at) * (i32)(i8)(y >> at);
    }
    c[row * n + col] = (float)sum * row_scale[row] * col_scale[col];
}

// A batch of products with strides of their own; A is transposed; beta times what C held.
struct Batch {
    const float *a, *b;
    float* c;
    u32 a_stride, b_stride, c_stride;
    i32 m, n, k;
    float alpha, beta;
};
KERNEL void batched(Batch p) {
    int col = threadIdx.x, row = threadIdx.y;
    const float *a = p.a + blockIdx.z * p.a_stride, *b = p.b + blockIdx.z * p.b_stride;
    float* c = p.c + blockIdx.z * p.c_stride;
    float sum = 0.0f;
    for (int i = 0; i < p.k; ++i) sum += a[i * p.m + row] * b[i * p.n + col];
    c[row * p.n + col] = p.alpha * sum + p.beta * c[row * p.n + col];
}

// y = A x, a wave a row.
KERNEL void matrix_vector(const float* a, const float* x, float* y, int k) {
    int row = global_x() / WAVE;
    float sum = 0.0f;
    for (int i = lane_id(); i < k; i += WAVE) sum += a[row * k + i] * x[i];
    for (int mask = WAVE / 2; mask > 0; mask /= 2) sum += __shfl_xor(sum, mask);
    if (lane_id() == 0) y[row] = sum;
}

// y = A^T x over integers, rows dealt to workgroups, columns added by atomics.
KERNEL void transposed_vector(const i32* a, const i32* x, i32* y, int n, int rows) {
    int first = blockIdx.x * rows;
    for (int col = threadIdx.x; col < n; col += blockDim.x) {
        i32 sum = 0;
        for (int row = first; row < first + rows; ++row) sum += a[row * n + col] * x[row];
        atomicAdd(&y[col], sum);
    }
}

// A += alpha x y^T.
KERNEL void rank_one(float* a, const float* x, const float* y, float alpha, int n) {
    int col = threadIdx.x, row = blockIdx.x;
    if (col < n) a[row * n + col] += alpha * x[row] * y[col];
}

// A sparse matrix by rows times a vector: a group of 8 lanes a row.
KERNEL void sparse_rows(const u32* starts, const u32* cols, const float* values, const float* x, float* y, int rows) {
    int row = global_x() / 8, lane = threadIdx.x % 8;
    float sum = 0.0f;
    if (row < rows)
        for (u32 i = starts[row] + lane; i < starts[row + 1]; i += 8) sum += values[i] * x[cols[i]];
    for (int mask = 4; mask > 0; mask /= 2) sum += __shfl_xor(sum, mask, 8);
    if (row < rows && lane == 0) y[row] = sum;
}

// Complex products, real and imaginary parts side by side.
KERNEL void complex_product(const vec<float, 2>* a, const vec<float, 2>* b, vec<float, 2>* c, int n) {
    int col = threadIdx.x, row = threadIdx.y;
    vec<float, 2> sum = {0.0f, 0.0f};
    for (int i = 0; i < n; ++i) {
        vec<float, 2> x = a[row * n + i], y = b[i * n + col];
        sum += vec<float, 2>{x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x};
    }
    c[row * n + col] = sum;
}
