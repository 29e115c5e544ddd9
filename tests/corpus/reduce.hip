// Reductions: over a wave, over a workgroup, over a grid.

// A sum over each wave by exchange.
KERNEL void wave_sum(const float* x, float* sums) {
    float sum = x[global_x()];
    for (int mask = WAVE / 2; mask > 0; mask /= 2) sum += __shfl_xor(sum, mask);
    if (lane_id() == 0) sums[global_x() / WAVE] = sum;
}

// A sum over each workgroup of 256 by a tree in LDS.
KERNEL void tree_sum(const float* x, float* sums, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, i = global_x();
    part[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) part[t] += part[t + step];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}

// A sum over the grid: a loop with the grid's stride, a wave reduction, one atomic a wave.
KERNEL void grid_sum(const u32* x, u32* sum, int n) {
    u32 own = 0;
    for (int i = global_x(); i < n; i += gridDim.x * blockDim.x) own += x[i];
    for (int delta = WAVE / 2; delta > 0; delta /= 2) own += __shfl_down(own, delta);
    if (lane_id() == 0) atomicAdd(sum, own);
}

// The largest value and its first place, as one 64-bit maximum: value above, complement of the place below.
KERNEL void argmax(const u32* x, u64* best, int n) {
    int i = global_x();
    u64 own = i < n ? (u64)x[i] << 32 | (u32)~i : 0;
    for (int mask = 1; mask < WAVE; mask *= 2) {
        u64 other = __shfl_xor(own, mask);
        own = other > own ? other : own;
    }
    if (lane_id() == 0) atomicMax(best, own);
}

// Smallest and largest of each row, a wave a row; rows may be short.
KERNEL void row_range(const float* x, float* low, float* high, int cols) {
    const float* row = x + blockIdx.x * cols;
    float least = __builtin_inff(), most = -__builtin_inff();
    for (int c = threadIdx.x; c < cols; c += WAVE) {
        least = __builtin_fminf(least, row[c]);
        most = __builtin_fmaxf(most, row[c]);
    }
    for (int mask = WAVE / 2; mask > 0; mask /= 2) {
        least = __builtin_fminf(least, __shfl_xor(least, mask));
        most = __builtin_fmaxf(most, __shfl_xor(most, mask));
    }
    if (threadIdx.x == 0) low[blockIdx.x] = least, high[blockIdx.x] = most;
}

// Mean and sum of squared deviations, merged pairwise (Chan, Golub, LeVeque).
struct Moments {
    double count, mean, m2;
};
FN Moments merge(Moments a, Moments b) {
    double count = a.count + b.count, delta = b.mean - a.mean;
    return {count, a.mean + delta * b.count / count, a.m2 + b.m2 + delta * delta * a.count * b.count / count};
}
KERNEL void moments(const double* x, Moments* out) {
    __shared__ Moments part[256];
    int t = threadIdx.x;
    part[t] = {1.0, x[global_x()], 0.0};
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) part[t] = merge(part[t], part[t + step]);
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

// A dot product in f32 with a compensated sum in each lane (Kahan), combined in order by one lane.
KERNEL void kahan_dot(const float* x, const float* y, float* out, int n) {
    __shared__ float part[128];
    float sum = 0.0f, lost = 0.0f;
    for (int i = threadIdx.x; i < n; i += 128) {
        float term = x[i] * y[i] - lost;
        float next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int i = 0; i < 128; ++i) total += part[i];
        *out = total;
    }
}

// Sums of segments: key and value of each element; the head of a run within a wave adds the run's sum.
KERNEL void sum_by_key(const u32* keys, const u32* values, u32* sums, int n) {
    int i = global_x(), lane = lane_id();
    u32 key = i < n ? keys[i] : ~0u, sum = i < n ? values[i] : 0;
    for (int delta = 1; delta < WAVE; delta *= 2) {
        u32 other = __shfl_down(sum, delta), other_key = __shfl_down(key, delta);
        if (lane + delta < WAVE && other_key == key) sum += other;
    }
    u32 before = __shfl_up(key, 1);
    if (i < n && (lane == 0 || before != key)) atomicAdd(&sums[key], sum);
}

// Products of small matrices have an order: 2x2 integer matrices multiplied over a workgroup, left to right.
KERNEL void matrix_chain(const vec<u32, 4>* x, vec<u32, 4>* out) {
    __shared__ vec<u32, 4> part[128];
    int t = threadIdx.x;
    part[t] = x[global_x()];
    __syncthreads();
    for (int step = 1; step < 128; step *= 2) {
        vec<u32, 4> a = part[t], b = part[(t + step) & 127];
        __syncthreads();
        if (t % (2 * step) == 0)
            part[t] = vec<u32, 4>{a.x * b.x + a.y * b.z, a.x * b.y + a.y * b.w, a.z * b.x + a.w * b.z, a.z * b.y + a.w * b.w};
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
