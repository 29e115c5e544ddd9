// Stencils and convolutions: neighbours in one, two and three dimensions, through LDS and without.

// Radius 3 in one dimension, with a halo in LDS; ends are repeated.
KERNEL void halo(const float* x, const float* weights, float* out, int n) {
    __shared__ float tile[128 + 6];
    int t = threadIdx.x, first = blockIdx.x * 128 - 3;
    for (int i = t; i < 134; i += 128) {
        int at = first + i;
        tile[i] = x[at < 0 ? 0 : at >= n ? n - 1 : at];
    }
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < 7; ++k) sum += weights[k] * tile[t + k];
    if (first + 3 + t < n) out[first + 3 + t] = sum;
}

// Heat in the plane: five points, edges kept.
KERNEL void heat(const float* x, float* out, int width, int height, float rate) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= width || row >= height) return;
    int i = row * width + col;
    if (col == 0 || row == 0 || col == width - 1 || row == height - 1) {
        out[i] = x[i];
        return;
    }
    out[i] = x[i] + rate * (x[i - 1] + x[i + 1] + x[i - width] + x[i + width] - 4.0f * x[i]);
}

// Seven points in space, walking along z with the neighbours above and below in registers.
KERNEL void seven_point(const double* x, double* out, int nx, int ny, int nz) {
    int col = threadIdx.x, row = threadIdx.y, plane = nx * ny, i = row * nx + col;
    double below = 0.0, own = x[i];
    for (int z = 0; z < nz; ++z, i += plane) {
        double above = z + 1 < nz ? x[i + plane] : 0.0;
        double sum = below + above;
        sum += (col > 0 ? x[i - 1] : 0.0) + (col + 1 < nx ? x[i + 1] : 0.0);
        sum += (row > 0 ? x[i - nx] : 0.0) + (row + 1 < ny ? x[i + nx] : 0.0);
        out[i] = sum - 6.0 * own;
        below = own;
        own = above;
    }
}

// Conway's life on a torus of bytes, several generations in LDS.
KERNEL void life(u8* cells, int generations) {
    __shared__ u8 now[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    now[y][x] = cells[y * 16 + x];
    for (int g = 0; g < generations; ++g) {
        __syncthreads();
        int count = 0;
        for (int dy = -1; dy <= 1; ++dy)
            for (int dx = -1; dx <= 1; ++dx)
                if (dx || dy) count += now[(y + dy) & 15][(x + dx) & 15];
        u8 next = count == 3 || (count == 2 && now[y][x]);
        __syncthreads();
        now[y][x] = next;
    }
    cells[y * 16 + x] = now[y][x];
}

// Convolution of several channels with a 3x3 window, stride and padding as arguments.
struct Window {
    i32 channels, height, width, out_height, out_width, stride, padding;
};
KERNEL void convolution(const float* x, const float* weights, const float* bias, float* out, Window w) {
    int col = threadIdx.x, row = blockIdx.x, filter = blockIdx.y;
    if (col >= w.out_width) return;
    float sum = bias[filter];
    for (int c = 0; c < w.channels; ++c)
        for (int ky = 0; ky < 3; ++ky)
            for (int kx = 0; kx < 3; ++kx) {
                int y = row * w.stride + ky - w.padding, xx = col * w.stride + kx - w.padding;
                if (y < 0 || y >= w.height || xx < 0 || xx >= w.width) continue;
                sum += x[(c * w.height + y) * w.width + xx] * weights[((filter * w.channels + c) * 3 + ky) * 3 + kx];
            }
    out[(filter * w.out_height + row) * w.out_width + col] = sum > 0.0f ? sum : 0.0f;
}

// A separable blur of bytes in integers: rows into LDS, then columns.
KERNEL void blur(const u8* x, u8* out, int n) {
    __shared__ u16 rows[36][32];
    const int weights[5] = {1, 4, 6, 4, 1};
    int col = threadIdx.x, first = blockIdx.x * 32 - 2;
    for (int r = threadIdx.y; r < 36; r += 8) {
        int row = first + r, sum = 0;
        row = row < 0 ? 0 : row >= n ? n - 1 : row;
        for (int k = 0; k < 5; ++k) {
            int at = col + k - 2;
            sum += weights[k] * x[row * 32 + (at < 0 ? 0 : at > 31 ? 31 : at)];
        }
        rows[r][col] = sum;
    }
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) {
        int sum = 128;
        for (int k = 0; k < 5; ++k) sum += weights[k] * rows[r + k][col];
        if (first + 2 + r < n) out[(first + 2 + r) * 32 + col] = sum >> 8;
    }
}

// The largest of each 2x2 and where it was.
KERNEL void max_pool(const float* x, float* out, u8* from, int width) {
    int col = threadIdx.x, row = blockIdx.x, half = width / 2;
    const float* corner = x + 2 * row * width + 2 * col;
    float best = corner[0];
    int place = 0;
    for (int k = 1; k < 4; ++k) {
        float own = corner[k / 2 * width + k % 2];
        if (own > best) best = own, place = k;
    }
    out[row * half + col] = best;
    from[row * half + col] = place;
}

// Edges of an image of bytes (Sobel), the root taken.
KERNEL void sobel(const u8* x, u8* out, int width, int height) {
    int col = threadIdx.x + 1, row = blockIdx.x + 1;
    if (col >= width - 1 || row >= height - 1) return;
    const u8* p = x + row * width + col;
    int gx = p[1 - width] + 2 * p[1] + p[1 + width] - p[-1 - width] - 2 * p[-1] - p[-1 + width];
    int gy = p[width - 1] + 2 * p[width] + p[width + 1] - p[-width - 1] - 2 * p[-width] - p[-width + 1];
    float size = __builtin_sqrtf((float)(gx * gx + gy * gy));
    out[row * width + col] = size > 255.0f ? 255 : (u8)size;
}

// Bilinear interpolation of a grid at places that are no grid points.
KERNEL void bilinear(const float* grid, const vec<float, 2>* places, float* out, int width, int height) {
    vec<float, 2> at = places[global_x()];
    float x = __builtin_fminf(__builtin_fmaxf(at.x, 0.0f), (float)(width - 1));
    float y = __builtin_fminf(__builtin_fmaxf(at.y, 0.0f), (float)(height - 1));
    int x0 = (int)x, y0 = (int)y, x1 = x0 + 1 < width ? x0 + 1 : x0, y1 = y0 + 1 < height ? y0 + 1 : y0;
    float fx = x - (float)x0, fy = y - (float)y0;
    float top = grid[y0 * width + x0] + fx * (grid[y0 * width + x1] - grid[y0 * width + x0]);
    float bottom = grid[y1 * width + x0] + fx * (grid[y1 * width + x1] - grid[y1 * width + x0]);
    out[global_x()] = top + fy * (bottom - top);
}

// The middle of nine, by a network of exchanges.
FN void order(u32& a, u32& b) {
    u32 low = a < b ? a : b;
    b = a < b ? b : a;
    a = low;
}
KERNEL void median(const u32* x, u32* out, int width) {
    int col = threadIdx.x + 1, row = blockIdx.x + 1;
    u32 v[9];
    for (int k = 0; k < 9; ++k) v[k] = x[(row + k / 3 - 1) * width + col + k % 3 - 1];
    for (int k = 0; k < 9; k += 3) order(v[k], v[k + 1]), order(v[k + 1], v[k + 2]), order(v[k], v[k + 1]);
    order(v[0], v[3]), order(v[3], v[6]), order(v[1], v[4]), order(v[4], v[7]), order(v[1], v[4]);
    order(v[5], v[8]), order(v[2], v[5]);
    order(v[2], v[4]), order(v[4], v[6]), order(v[2], v[4]);
    out[row * width + col] = v[4];
}
