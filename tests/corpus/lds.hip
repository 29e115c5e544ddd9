// LDS: sizes given at the launch, every width of access, all of it, pointers into it, buffers in turn.

// As much as the launch says; two arrays in it.
KERNEL void dynamic(const u32* x, u32* out, int n) {
    extern __shared__ u32 room[];
    u16* shorts = (u16*)(room + n);
    int t = threadIdx.x;
    room[t] = x[t];
    shorts[t] = x[t] >> 16;
    __syncthreads();
    out[t] = room[n - 1 - t] + shorts[(t + 1) % n];
}

// Static and dynamic beside each other.
KERNEL void beside(const u32* x, u32* out) {
    __shared__ u32 fixed[64];
    extern __shared__ u32 room[];
    int t = threadIdx.x;
    fixed[t] = x[t], room[t] = ~x[t];
    __syncthreads();
    out[t] = fixed[63 - t] ^ room[(t + 7) & 63];
}

// Every width, read at another than it was written.
KERNEL void widths(const vec<u32, 4>* x, u32* out) {
    __shared__ vec<u32, 4> room[64];
    int t = threadIdx.x;
    room[t] = x[t];
    __syncthreads();
    const u8* bytes = (const u8*)room;
    const u16* halves = (const u16*)room;
    const u32* words = (const u32*)room;
    const u64* doubles = (const u64*)room;
    u32 sum = bytes[5 * t] + (u32)(i32)(i8)bytes[7 * t + 1] * 3;
    sum = sum * 5 + halves[3 * t] + (u32)(i32)(i16)halves[4 * t + 3];
    sum = sum * 7 + words[t] + words[t + 64] * 9 + words[255 - t];
    sum = sum * 11 + (u32)(doubles[t] >> 17) + (u32)doubles[t + 64];
    vec<u32, 3> three = *(const vec<u32, 3>*)&room[63 - t];
    out[t] = sum * 13 + three.x + three.y * 2 + three.z * 3;
}

// Narrow stores into words that other lanes share.
KERNEL void narrow_stores(const u32* x, u32* out) {
    __shared__ u32 room[64];
    int t = threadIdx.x;
    ((u8*)room)[t] = x[t];
    ((u16*)room)[32 + t] = x[t] >> 3;
    if (t < 8) *(u64*)&room[48 + 2 * t] = (u64)x[t | 56] << 11;
    __syncthreads();
    out[t] = room[t];
}

// All that a workgroup may have on every card.
KERNEL void all_of_it(const u32* x, u32* out, int n) {
    extern __shared__ u32 room[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) room[i] = x[i & 255] * (i + 1);
    __syncthreads();
    u32 sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += room[n - 1 - i] ^ i;
    out[global_x()] = sum;
}

// Lists whose links are places in LDS.
struct Link {
    u32 value;
    Link* next;
};
KERNEL void pointers_inside(const u32* x, u32* out, int hops) {
    __shared__ Link links[128];
    int t = threadIdx.x;
    links[t] = {x[t], &links[(t * 37 + 11) & 127]};
    __syncthreads();
    u32 sum = 0;
    const Link* at = &links[t];
    for (int hop = 0; hop < hops + t % 3; ++hop, at = at->next) sum = sum * 3 + at->value;
    out[t] = sum;
}

// Two buffers in turn: one is filled while the other is used.
KERNEL void pipeline(const float* x, float* out, int tiles) {
    __shared__ float buffer[2][64];
    int t = threadIdx.x;
    float sum = 0.0f;
    buffer[0][t] = x[t];
    for (int tile = 0; tile < tiles; ++tile) {
        __syncthreads();
        if (tile + 1 < tiles) buffer[(tile + 1) & 1][t] = x[(tile + 1) * 64 + t];
        const float* own = buffer[tile & 1];
        for (int k = 0; k < 8; ++k) sum += own[(t + k * 5) & 63] * (float)(k + 1);
    }
    out[t] = sum;
}

// A struct in LDS, written by one lane, read by all; and a flag that ends the loop for all.
KERNEL void shared_state(const u32* x, u32* out, u32 limit) {
    __shared__ struct {
        u64 sum;
        u32 rounds;
        bool done;
    } state;
    int t = threadIdx.x;
    if (t == 0) state = {0, 0, false};
    __syncthreads();
    while (true) {
        atomicAdd(&state.sum, (u64)(x[t] >> 8));
        __syncthreads();
        if (t == 0) {
            state.rounds += 1;
            state.done = state.sum > (u64)limit << 8;
        }
        __syncthreads();
        if (state.done) break;
    }
    out[t] = (u32)state.sum + state.rounds * t;
}
