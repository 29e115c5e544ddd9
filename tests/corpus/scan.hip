// Prefix sums and what is built on them.

// Inclusive, over each wave, by shifts (Kogge and Stone).
KERNEL void kogge_stone(const u32* x, u32* out) {
    u32 sum = x[global_x()];
    for (int delta = 1; delta < WAVE; delta *= 2) {
        u32 below = __shfl_up(sum, delta);
        if (lane_id() >= delta) sum += below;
    }
    out[global_x()] = sum;
}

// Inclusive, over a workgroup, in LDS with two buffers (Hillis and Steele).
KERNEL void hillis_steele(const float* x, float* out) {
    __shared__ float part[2][256];
    int t = threadIdx.x, from = 0;
    part[0][t] = x[global_x()];
    __syncthreads();
    for (int delta = 1; delta < 256; delta *= 2) {
        part[1 - from][t] = t >= delta ? part[from][t - delta] + part[from][t] : part[from][t];
        from = 1 - from;
        __syncthreads();
    }
    out[global_x()] = part[from][t];
}

// Exclusive, over a workgroup of 128 on 256 elements: up and down a tree (Blelloch), places padded against bank conflicts.
FN int padded(int i) { return i + (i >> 5); }
KERNEL void blelloch(const u32* x, u32* out) {
    __shared__ u32 part[256 + 8];
    int t = threadIdx.x, base = blockIdx.x * 256;
    part[padded(2 * t)] = x[base + 2 * t];
    part[padded(2 * t + 1)] = x[base + 2 * t + 1];
    int offset = 1;
    for (int pairs = 128; pairs > 0; pairs /= 2) {
        __syncthreads();
        if (t < pairs) part[padded(offset * (2 * t + 2) - 1)] += part[padded(offset * (2 * t + 1) - 1)];
        offset *= 2;
    }
    if (t == 0) part[padded(255)] = 0;
    for (int pairs = 1; pairs < 256; pairs *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < pairs) {
            int low = padded(offset * (2 * t + 1) - 1), high = padded(offset * (2 * t + 2) - 1);
            u32 left = part[low];
            part[low] = part[high];
            part[high] += left;
        }
    }
    __syncthreads();
    out[base + 2 * t] = part[padded(2 * t)];
    out[base + 2 * t + 1] = part[padded(2 * t + 1)];
}

// Inclusive over a workgroup: each wave posts its total with a flag, and looks back over those before it until one has
// posted a prefix, as the single-pass scans of Merrill and Garland do over the grid. A flag and its value are one word.
KERNEL void look_back(const u32* x, u32* out) {
    __shared__ u64 posted[1024 / WAVE];
    const u64 total_flag = 1ull << 32, prefix_flag = 2ull << 32;
    int t = threadIdx.x, wave = t / WAVE, lane = lane_id();
    if (t < 1024 / WAVE) posted[t] = 0;
    __syncthreads();
    u32 sum = x[t];
    for (int delta = 1; delta < WAVE; delta *= 2) {
        u32 below = __shfl_up(sum, delta);
        if (lane >= delta) sum += below;
    }
    u32 total = __shfl(sum, WAVE - 1), before = 0;
    u64 flag = wave == 0 ? prefix_flag : total_flag;
    if (lane == 0) __hip_atomic_store(&posted[wave], flag | total, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
    for (int w = wave - 1; w >= 0; --w) {
        u64 seen;
        do {
            seen = __hip_atomic_load(&posted[w], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP);
        } while (seen == 0);
        before += (u32)seen;
        if (seen & prefix_flag) break;
    }
    if (lane == 0 && wave > 0)
        __hip_atomic_store(&posted[wave], prefix_flag | (u32)(before + total), __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
    out[t] = before + sum;
}

// A running maximum that starts again where a flag is set.
KERNEL void segmented_max(const i32* x, const u32* heads, i32* out) {
    int lane = lane_id();
    i32 most = x[global_x()];
    u32 head = heads[global_x()];
    for (int delta = 1; delta < WAVE; delta *= 2) {
        i32 below = __shfl_up(most, delta);
        u32 head_below = __shfl_up(head, delta);
        if (lane >= delta && !head) most = below > most ? below : most;
        if (lane >= delta) head |= head_below;
    }
    out[global_x()] = most;
}

// Keeps the odd elements in order: places from a ballot, a workgroup's base from an atomic, so whole workgroups may change
// places with each other.
KERNEL void compact_odd(const u32* x, u32* out, u32* count, int n) {
    __shared__ u32 base[256 / WAVE + 1];
    int t = threadIdx.x, i = global_x(), wave = t / WAVE;
    bool keep = i < n && (x[i] & 1);
    u64 kept = __ballot(keep);
    if (lane_id() == 0) base[wave + 1] = __popcll(kept);
    __syncthreads();
    if (t == 0) {
        u32 sum = 0;
        for (int w = 1; w <= 256 / WAVE; ++w) {
            u32 own = base[w];
            base[w] = sum;
            sum += own;
        }
        base[0] = atomicAdd(count, sum);
    }
    __syncthreads();
    u64 before = kept & ((1ull << lane_id()) - 1);
    if (keep) out[base[0] + base[wave + 1] + __popcll(before)] = x[i];
}

// Run lengths: the head of each run finds the next head's place with a backward ballot search.
KERNEL void run_lengths(const u32* x, u32* lengths) {
    int lane = lane_id();
    u32 own = x[global_x()], before = __shfl_up(own, 1);
    u64 heads = __ballot(lane == 0 || own != before);
    u64 later = lane == 63 ? 0 : heads >> (lane + 1);
    int next = later ? lane + __ffsll(later) : WAVE;
    lengths[global_x()] = heads >> lane & 1 ? next - lane : 0;
}

// A linear recurrence y = a y + b, as a scan of functions composed.
KERNEL void recurrence(const u32* a, const u32* b, u32* y) {
    __shared__ u32 factor[128], term[128];
    int t = threadIdx.x, i = global_x();
    factor[t] = a[i], term[t] = b[i];
    __syncthreads();
    for (int delta = 1; delta < 128; delta *= 2) {
        u32 f = 1, s = 0;
        if (t >= delta) f = factor[t - delta], s = term[t - delta];
        __syncthreads();
        term[t] += factor[t] * s;
        factor[t] *= f;
        __syncthreads();
    }
    y[i] = term[t];
}
