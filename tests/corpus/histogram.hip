// Histograms: counts by atomics in device memory and in LDS, by private counters, by ballot.

// In device memory, weights added.
KERNEL void global_counts(const u32* x, const u32* weights, u32* counts, int n, u32 bins) {
    int i = global_x();
    if (i < n) atomicAdd(&counts[x[i] % bins], weights[i]);
}

// In LDS, a copy a workgroup, then added to device memory.
KERNEL void shared_counts(const u8* x, u32* counts, int n) {
    __shared__ u32 own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = global_x(); i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[x[i]], 1u);
    __syncthreads();
    if (own[threadIdx.x]) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

// In bytes of LDS, counters of each lane apart and packed by four, summed at the end.
KERNEL void packed_counts(const u8* x, u32* counts, int n) {
    __shared__ u8 own[16][64];
    for (int bin = 0; bin < 16; ++bin) own[bin][threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 64) ++own[x[i] >> 4][threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 16) {
        u32 sum = 0;
        const u32* row = (const u32*)own[threadIdx.x];
        for (int i = 0; i < 16; ++i) sum += (row[i] & 255) + (row[i] >> 8 & 255) + (row[i] >> 16 & 255) + (row[i] >> 24);
        counts[threadIdx.x] = sum;
    }
}

// In registers: the lanes of a wave that hold the same digit find each other by ballots; their first adds for all.
KERNEL void ballot_counts(const u32* x, u32* counts) {
    u32 digit = x[global_x()] & 15;
    u64 peers = ~0ull >> (64 - WAVE);
    for (int bit = 0; bit < 4; ++bit) {
        u64 set = __ballot(digit >> bit & 1);
        peers &= digit >> bit & 1 ? set : ~set;
    }
    if ((peers & ((1ull << lane_id()) - 1)) == 0) atomicAdd(&counts[digit], (u32)__popcll(peers));
}

// Two dimensions, floats to bins, with what falls outside counted apart.
KERNEL void plane_counts(const vec<float, 2>* points, u32* counts, u32* outside, int n, float low, float scale) {
    int i = global_x();
    if (i >= n) return;
    vec<float, 2> at = (points[i] - low) * scale;
    int x = (int)__builtin_floorf(at.x), y = (int)__builtin_floorf(at.y);
    if (x >= 0 && x < 12 && y >= 0 && y < 12) atomicAdd(&counts[y * 12 + x], 1u);
    else atomicAdd(outside, 1u);
}

// Where each value was first and last seen.
KERNEL void seen(const u8* x, u32* first, i32* last, int n) {
    int i = global_x();
    if (i >= n) return;
    atomicMin(&first[x[i]], (u32)i);
    atomicMax(&last[x[i]], i);
}
