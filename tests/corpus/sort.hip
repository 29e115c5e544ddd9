// Sorting and merging.

// A bitonic network over a workgroup's 512 elements in LDS.
KERNEL void bitonic(u32* x) {
    __shared__ u32 part[512];
    int t = threadIdx.x;
    u32* own = x + blockIdx.x * 512;
    part[t] = own[t], part[t + 256] = own[t + 256];
    for (int size = 2; size <= 512; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            int low = 2 * t - (t & (step - 1)), high = low + step;
            bool up = (low & size) == 0;
            u32 a = part[low], b = part[high];
            if ((a > b) == up) part[low] = b, part[high] = a;
        }
    __syncthreads();
    own[t] = part[t], own[t + 256] = part[t + 256];
}

// The same network within a wave, by exchange; keys carry a payload.
KERNEL void wave_bitonic(float* keys, u32* payloads) {
    int lane = lane_id();
    float key = keys[global_x()];
    u32 payload = payloads[global_x()];
    for (int size = 2; size <= WAVE; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            float other = __shfl_xor(key, step);
            u32 other_payload = __shfl_xor(payload, step);
            bool wants_small = ((lane & step) == 0) == ((lane & size) == 0);
            if (wants_small ? other < key : other > key) key = other, payload = other_payload;
        }
    keys[global_x()] = key;
    payloads[global_x()] = payload;
}

// Odd-even transposition: neighbours only.
KERNEL void odd_even(i16* x, int n) {
    __shared__ i16 part[128];
    int t = threadIdx.x;
    part[t] = t < n ? x[t] : 32767;
    for (int round = 0; round < n; ++round) {
        __syncthreads();
        if ((t & 1) == (round & 1) && t + 1 < n && part[t] > part[t + 1]) {
            i16 kept = part[t];
            part[t] = part[t + 1];
            part[t + 1] = kept;
        }
    }
    __syncthreads();
    if (t < n) x[t] = part[t];
}

// Merges two sorted lists: each lane finds where its share starts (merge path), then walks.
KERNEL void merge_path(const u32* a, int a_len, const u32* b, int b_len, u32* out, int share) {
    int diagonal = global_x() * share, total = a_len + b_len;
    if (diagonal >= total) return;
    int low = diagonal > b_len ? diagonal - b_len : 0, high = diagonal < a_len ? diagonal : a_len;
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    int i = low, j = diagonal - low;
    for (int k = diagonal; k < diagonal + share && k < total; ++k)
        out[k] = j >= b_len || (i < a_len && a[i] <= b[j]) ? a[i++] : b[j++];
}

// Radix sort of 256 keys, a bit at a time: places from ballots and a scan over waves.
KERNEL void radix(u32* x) {
    __shared__ u32 part[256], zeros[256 / WAVE];
    int t = threadIdx.x, wave = t / WAVE;
    u32 key = x[blockIdx.x * 256 + t];
    for (int bit = 0; bit < 32; ++bit) {
        bool one = key >> bit & 1;
        u64 clear = __ballot(!one);
        if (lane_id() == 0) zeros[wave] = __popcll(clear);
        __syncthreads();
        u32 before = __popcll(clear & ((1ull << lane_id()) - 1)), all = 0;
        for (int w = 0; w < 256 / WAVE; ++w) {
            if (w < wave) before += zeros[w];
            all += zeros[w];
        }
        part[one ? all + t - before : before] = key;
        __syncthreads();
        key = part[t];
    }
    x[blockIdx.x * 256 + t] = key;
}

// Counting sort of bytes: a histogram in LDS, its scan, then every lane writes the runs of its values.
KERNEL void counting(u8* x, int n) {
    __shared__ u32 count[256], place[256];
    int t = threadIdx.x;
    count[t] = 0;
    __syncthreads();
    for (int i = t; i < n; i += 256) atomicAdd(&count[x[i]], 1u);
    __syncthreads();
    place[t] = count[t];
    for (int delta = 1; delta < 256; delta *= 2) {
        __syncthreads();
        u32 below = t >= delta ? place[t - delta] : 0;
        __syncthreads();
        place[t] += below;
    }
    for (u32 i = place[t] - count[t]; i < place[t]; ++i) x[i] = t;
}

// Stable by rank: each element counts those that go before it.
KERNEL void rank(const i32* x, i32* out, u32* ranks, int n) {
    int i = global_x();
    if (i >= n) return;
    i32 own = x[i];
    u32 before = 0;
    for (int k = 0; k < n; ++k) before += x[k] < own || (x[k] == own && k < i);
    out[before] = own;
    ranks[i] = before;
}

// The eight largest of each lane's list, by insertion into registers.
KERNEL void top_eight(const float* x, float* top, int n) {
    float best[8];
    for (int k = 0; k < 8; ++k) best[k] = -__builtin_inff();
    for (int i = 0; i < n; ++i) {
        float own = x[i * gridDim.x * blockDim.x + global_x()];
#pragma unroll
        for (int k = 0; k < 8; ++k)
            if (own > best[k]) {
                float kept = best[k];
                best[k] = own;
                own = kept;
            }
    }
    for (int k = 0; k < 8; ++k) top[global_x() * 8 + k] = best[k];
}

// A binary heap in a private array, all of it popped in order.
KERNEL void heap_sort(u32* x) {
    u32 heap[33];
    u32* own = x + global_x() * 32;
    for (int n = 1; n <= 32; ++n) {
        int at = n;
        for (u32 value = own[n - 1]; ; at /= 2) {
            if (at == 1 || heap[at / 2] <= value) {
                heap[at] = value;
                break;
            }
            heap[at] = heap[at / 2];
        }
    }
    for (int n = 32; n > 0; --n) {
        own[32 - n] = heap[1];
        u32 value = heap[n];
        int at = 1;
        while (2 * at < n) {
            int child = 2 * at + (2 * at + 1 < n && heap[2 * at + 1] < heap[2 * at]);
            if (heap[child] >= value) break;
            heap[at] = heap[child];
            at = child;
        }
        heap[at] = value;
    }
}
