// Transposes and other movements of whole blocks.

// Through a tile in LDS with a column of padding.
KERNEL void padded_tile(const float* x, float* out, int rows, int cols) {
    __shared__ float tile[32][33];
    int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (col < cols && row + i < rows) tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * cols + col];
    __syncthreads();
    col = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (col < rows && row + i < cols) out[(row + i) * rows + col] = tile[threadIdx.x][threadIdx.y + i];
}

// Through a tile without padding, columns exchanged by the row's number.
KERNEL void swizzled_tile(const double* x, double* out, int n) {
    __shared__ double tile[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    tile[ty][tx ^ ty] = x[(blockIdx.y * 16 + ty) * n + blockIdx.x * 16 + tx];
    __syncthreads();
    out[(blockIdx.x * 16 + ty) * n + blockIdx.y * 16 + tx] = tile[tx][ty ^ tx];
}

// A square in place: a workgroup exchanges two tiles.
KERNEL void in_place(u16* x, int n) {
    __shared__ u16 upper[16][17], lower[16][17];
    int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    if (bx < by) return;
    u16 *own = x + (by * 16 + ty) * n + bx * 16 + tx, *other = x + (bx * 16 + ty) * n + by * 16 + tx;
    upper[ty][tx] = *own;
    lower[ty][tx] = *other;
    __syncthreads();
    *own = lower[tx][ty];
    if (bx != by) *other = upper[tx][ty];
}

// 4x4 bytes in registers, by byte selection.
KERNEL void bytes_in_registers(const vec<u32, 4>* x, vec<u32, 4>* out) {
    vec<u32, 4> r = x[global_x()];
    u32 a = __builtin_amdgcn_perm(r.y, r.x, 0x05010400), b = __builtin_amdgcn_perm(r.y, r.x, 0x07030602);
    u32 c = __builtin_amdgcn_perm(r.w, r.z, 0x05010400), d = __builtin_amdgcn_perm(r.w, r.z, 0x07030602);
    out[global_x()] = {__builtin_amdgcn_perm(c, a, 0x05040100), __builtin_amdgcn_perm(c, a, 0x07060302),
                       __builtin_amdgcn_perm(d, b, 0x05040100), __builtin_amdgcn_perm(d, b, 0x07060302)};
}

// 32x32 bits in a wave, by exchange (one lane a row).
KERNEL void bits_in_lanes(const u32* x, u32* out) {
    u32 own = x[global_x()];
    int lane = lane_id() & 31;
    u32 mask = 0x0000ffff;
    for (int step = 16; step > 0; step /= 2, mask ^= mask << step) {
        u32 other = __shfl_xor(own, step, 32);
        own = lane & step ? (own & ~mask) | (other >> step & mask) : (own & mask) | (other & mask) << step;
    }
    out[global_x()] = own;
}

// Axes of four dimensions in any order, strides as arguments.
struct Axes {
    u32 sizes[4], strides[4];
};
KERNEL void any_order(const u8* x, u8* out, Axes axes, u32 n) {
    u32 i = global_x();
    if (i >= n) return;
    u32 rest = i, from = 0;
    for (int axis = 3; axis >= 0; --axis) {
        from += rest % axes.sizes[axis] * axes.strides[axis];
        rest /= axes.sizes[axis];
    }
    out[i] = x[from];
}

// Structs of arrays from an array of structs, and back, through LDS.
KERNEL void interleave(const float* x, float* parts, float* back, int n) {
    __shared__ float own[3 * 64];
    int t = threadIdx.x, base = blockIdx.x * 64;
    for (int k = 0; k < 3; ++k) own[t + 64 * k] = x[base * 3 + t + 64 * k];
    __syncthreads();
    float mine[3];
    for (int k = 0; k < 3; ++k) parts[k * n + base + t] = mine[k] = own[3 * t + k];
    __syncthreads();
    for (int k = 0; k < 3; ++k) own[3 * t + k] = mine[k] * 2.0f;
    __syncthreads();
    for (int k = 0; k < 3; ++k) back[base * 3 + t + 64 * k] = own[t + 64 * k];
}

// Bit-reversed order, and a rotation of the whole by a number that is no multiple of anything.
KERNEL void reorder(const u32* x, u32* reversed, u32* rotated, int log_n, u32 by) {
    u32 i = global_x(), n = 1u << log_n;
    reversed[__brev(i) >> (32 - log_n)] = x[i];
    rotated[(i + by) & (n - 1)] = x[i];
}
