// Numerical methods in the small: transforms, factorisations, systems, bodies.

// A radix-2 FFT of 128 points in LDS, decimation in time; factors come from the host.
KERNEL void fft(const vec<float, 2>* x, const vec<float, 2>* factors, vec<float, 2>* out) {
    __shared__ vec<float, 2> part[128];
    int t = threadIdx.x, base = blockIdx.x * 128;
    part[__brev(t) >> 25] = x[base + t];
    part[__brev(t + 64) >> 25] = x[base + t + 64];
    for (int half = 1; half < 128; half *= 2) {
        __syncthreads();
        int k = t & (half - 1), low = 2 * t - k, high = low + half;
        vec<float, 2> f = factors[k * (64 / half)], a = part[low], b = part[high];
        vec<float, 2> turned = {b.x * f.x - b.y * f.y, b.x * f.y + b.y * f.x};
        part[low] = a + turned;
        part[high] = a - turned;
    }
    __syncthreads();
    out[base + t] = part[t];
    out[base + t + 64] = part[t + 64];
}

// A number-theoretic transform modulo 2^16 + 1 over a wave-sized list, by the definition.
KERNEL void number_transform(const u32* x, u32* out, u32 root, int n) {
    u32 step = 1, power = 1, sum = 0;
    for (int k = 0; k < (int)threadIdx.x; ++k) step = step * root % 65537;
    for (int k = 0; k < n; ++k) {
        sum = (sum + (u64)x[k] * power) % 65537;
        power = (u64)power * step % 65537;
    }
    out[threadIdx.x] = sum;
}

// LU with row exchange, 16x16, a lane a row.
KERNEL void lu(double* a, i32* order) {
    __shared__ double m[16][17];
    __shared__ int pivot;
    int t = threadIdx.x;
    double* own = a + blockIdx.x * 256;
    for (int c = 0; c < 16; ++c) m[t][c] = own[t * 16 + c];
    int row = t;
    for (int k = 0; k < 16; ++k) {
        __syncthreads();
        if (t == 0) {
            pivot = k;
            for (int r = k + 1; r < 16; ++r)
                if (__builtin_fabs(m[r][k]) > __builtin_fabs(m[pivot][k])) pivot = r;
        }
        __syncthreads();
        double kept = m[k][t];
        m[k][t] = m[pivot][t];
        m[pivot][t] = kept;
        row = row == k ? pivot : row == pivot ? k : row;
        __syncthreads();
        if (t > k) {
            double factor = m[t][k] / m[k][k];
            m[t][k] = factor;
            for (int c = k + 1; c < 16; ++c) m[t][c] -= factor * m[k][c];
        }
    }
    __syncthreads();
    for (int c = 0; c < 16; ++c) own[t * 16 + c] = m[t][c];
    order[blockIdx.x * 16 + row] = t;
}

// Cholesky of 8x8 in registers, a matrix a lane.
KERNEL void cholesky(const float* a, float* out) {
    float m[8][8];
    const float* own = a + global_x() * 64;
#pragma unroll
    for (int r = 0; r < 8; ++r)
#pragma unroll
        for (int c = 0; c <= r; ++c) {
            float sum = own[r * 8 + c];
#pragma unroll
            for (int k = 0; k < c; ++k) sum -= m[r][k] * m[c][k];
            m[r][c] = r == c ? __builtin_sqrtf(sum) : sum / m[c][c];
        }
    for (int r = 0; r < 8; ++r)
        for (int c = 0; c < 8; ++c) out[global_x() * 64 + r * 8 + c] = c <= r ? m[r][c] : 0.0f;
}

// Tridiagonal systems: Thomas's algorithm with its own arrays, a system a lane.
KERNEL void tridiagonal(const float* diagonal, const float* right, float* x, int n) {
    float upper[32], d[32];
    int lane = global_x(), lanes = gridDim.x * blockDim.x;
    float b = diagonal[lane];
    upper[0] = 1.0f / b;
    d[0] = right[lane] / b;
    for (int i = 1; i < n; ++i) {
        float scale = 1.0f / (diagonal[i * lanes + lane] - upper[i - 1]);
        upper[i] = scale;
        d[i] = (right[i * lanes + lane] - d[i - 1]) * scale;
    }
    float next = d[n - 1];
    x[(n - 1) * lanes + lane] = next;
    for (int i = n - 2; i >= 0; --i) x[i * lanes + lane] = next = d[i] - upper[i] * next;
}

// Conjugate gradients on a 1-D Poisson problem of one workgroup.
FN double group_sum(double value, double* part) {
    part[threadIdx.x] = value;
    __syncthreads();
    double sum = 0.0;
    for (int k = 0; k < 64; ++k) sum += part[k];
    __syncthreads();
    return sum;
}
KERNEL void conjugate_gradients(const double* right, double* x, int steps) {
    __shared__ double part[64], p[66];
    int t = threadIdx.x;
    double own = 0.0, rest = right[t], direction = rest;
    if (t < 2) p[65 * t] = 0.0;
    double size = group_sum(rest * rest, part);
    for (int k = 0; k < steps; ++k) {
        p[t + 1] = direction;
        __syncthreads();
        double image = 2.5 * p[t + 1] - p[t] - p[t + 2];
        double alpha = size / group_sum(direction * image, part);
        own += alpha * direction;
        rest -= alpha * image;
        double next = group_sum(rest * rest, part);
        direction = rest + next / size * direction;
        size = next;
    }
    x[t] = own;
}

// Bodies that attract each other, tiles of them in LDS; one step.
KERNEL void bodies(const vec<float, 4>* places, vec<float, 4>* speeds, int n, float step) {
    __shared__ vec<float, 4> tile[64];
    vec<float, 4> own = places[global_x()], force = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int base = 0; base < n; base += 64) {
        tile[threadIdx.x] = places[base + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 64; ++k) {
            vec<float, 4> d = tile[k] - own;
            float square = d.x * d.x + d.y * d.y + d.z * d.z + 0.01f;
            float inverse = 1.0f / __builtin_sqrtf(square);
            force += d * (tile[k].w * inverse * inverse * inverse);
        }
        __syncthreads();
    }
    vec<float, 4> speed = speeds[global_x()];
    speed.x += step * force.x, speed.y += step * force.y, speed.z += step * force.z;
    speeds[global_x()] = speed;
}

// A 3x3 symmetric matrix's eigenvalues by Jacobi's turns, a matrix a lane.
KERNEL void jacobi(const double* a, double* values) {
    double m[3][3];
    const double* own = a + global_x() * 6;
    m[0][0] = own[0], m[1][1] = own[1], m[2][2] = own[2];
    m[0][1] = m[1][0] = own[3], m[0][2] = m[2][0] = own[4], m[1][2] = m[2][1] = own[5];
    for (int sweep = 0; sweep < 8; ++sweep)
        for (int pair = 0; pair < 3; ++pair) {
            int p = pair == 2 ? 1 : 0, q = pair == 0 ? 1 : 2, r = 3 - p - q;
            if (m[p][q] == 0.0) continue;
            double theta = (m[q][q] - m[p][p]) / (2.0 * m[p][q]);
            double t = (theta >= 0.0 ? 1.0 : -1.0) / (__builtin_fabs(theta) + __builtin_sqrt(theta * theta + 1.0));
            double c = 1.0 / __builtin_sqrt(t * t + 1.0), s = t * c, cross = m[p][q];
            m[p][p] -= t * cross, m[q][q] += t * cross, m[p][q] = m[q][p] = 0.0;
            double a1 = m[r][p], a2 = m[r][q];
            m[r][p] = m[p][r] = c * a1 - s * a2;
            m[r][q] = m[q][r] = s * a1 + c * a2;
        }
    for (int k = 0; k < 3; ++k) values[global_x() * 3 + k] = m[k][k];
}

// Simpson's rule on a function with a branch, workgroups adding in integers of 2^-40.
KERNEL void quadrature(u64* total, double width, int intervals) {
    double sum = 0.0;
    for (int i = global_x(); i < intervals; i += gridDim.x * blockDim.x) {
        double a = i * width, m = a + width / 2, b = a + width;
        auto f = [](double x) { return x < 1.0 ? x * x : 1.0 / x; };
        sum += (f(a) + 4.0 * f(m) + f(b)) * width / 6.0;
    }
    atomicAdd(total, (u64)(sum * 1099511627776.0));
}
