// Atomics: every operation, width and memory, with and without the value that was there before.

#define RELAXED __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT
// Hardware's float atomics, where memory is the card's own.
#define OWN_MEMORY [[clang::atomic(no_remote_memory, no_fine_grained_memory, ignore_denormal_mode)]]

template <int OP, class T> FN T apply(T* cell, T x) {
    if constexpr (OP == 0) return atomicAdd(cell, x);
    if constexpr (OP == 1) return atomicSub(cell, x);
    if constexpr (OP == 2) return atomicMin(cell, x);
    if constexpr (OP == 3) return atomicMax(cell, x);
    if constexpr (OP == 4) return atomicAnd(cell, x);
    if constexpr (OP == 5) return atomicOr(cell, x);
    if constexpr (OP == 6) return atomicXor(cell, x);
    if constexpr (OP == 7) return atomicExch(cell, x);
    if constexpr (OP == 8) return atomicCAS(cell, (T)1, x);
}
template <class T, int OP = 0> FN void each_returning(T* cells, T x, T* old, int i, int n) {
    old[OP * n + i] = apply<OP>(cells + OP * n + i, x);
    if constexpr (OP < 8) each_returning<T, OP + 1>(cells, x, old, i, n);
}
template <class T, int OP = 0> FN void each_contended(T* cells, T x, int i, int count) {
    apply<OP>(cells + OP * count + i % count, x);
    if constexpr (OP < 6) each_contended<T, OP + 1>(cells, x, i, count);
}

// Nine operations in device memory and in LDS: a cell a lane, old values returned; and seven on cells that many share.
#define INTEGER(T)                                                                                         \
    KERNEL void returning_##T(T* cells, const T* x, T* old) {                                              \
        each_returning(cells, x[global_x()], old, global_x(), gridDim.x * blockDim.x);                     \
    }                                                                                                      \
    KERNEL void contended_##T(T* cells, const T* x, int count) {                                           \
        each_contended(cells, x[global_x()], global_x(), count);                                           \
    }                                                                                                      \
    KERNEL void shared_returning_##T(T* cells, const T* x, T* old) {                                       \
        __shared__ T own[9 * 64];                                                                          \
        int t = threadIdx.x;                                                                               \
        for (int k = t; k < 9 * 64; k += 64) own[k] = cells[k];                                            \
        __syncthreads();                                                                                   \
        each_returning((T*)own, x[t], old, t, 64);                                                         \
        __syncthreads();                                                                                   \
        for (int k = t; k < 9 * 64; k += 64) cells[k] = own[k];                                            \
    }                                                                                                      \
    KERNEL void shared_contended_##T(T* cells, const T* x) {                                               \
        __shared__ T own[7 * 10];                                                                          \
        int t = threadIdx.x;                                                                               \
        if (t < 70) own[t] = cells[t];                                                                     \
        __syncthreads();                                                                                   \
        each_contended((T*)own, x[t], t, 10);                                                              \
        __syncthreads();                                                                                   \
        if (t < 70) cells[t] = own[t];                                                                     \
    }
INTEGER(u32)
INTEGER(i32)
INTEGER(u64)
INTEGER(i64)

// Counters that wrap at a limit, up and down.
KERNEL void wrapping(u32* narrow, u64* wide, u32* old, u32 limit) {
    __shared__ u32 own[2];
    int i = global_x();
    if (threadIdx.x < 2) own[threadIdx.x] = 0;
    __syncthreads();
    old[i] = __builtin_amdgcn_atomic_inc32(&narrow[0], limit, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_atomic_dec32(&narrow[1], limit, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_atomic_inc64((unsigned long*)&wide[0], (u64)limit << 33, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_atomic_dec64((unsigned long*)&wide[1], (u64)limit << 33, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_atomic_inc32(&own[0], limit, __ATOMIC_RELAXED, "workgroup");
    __builtin_amdgcn_atomic_dec32(&own[1], limit, __ATOMIC_RELAXED, "workgroup");
    __syncthreads();
    if (threadIdx.x < 2) narrow[2 + 2 * blockIdx.x + threadIdx.x] = own[threadIdx.x];
}

// Floats: sum, least and largest, in both memories, contended and returning.
template <class T> FN void float_contended(T* cells, T x) {
    OWN_MEMORY {
        __hip_atomic_fetch_add(&cells[0], x, RELAXED);
        __hip_atomic_fetch_min(&cells[1], x, RELAXED);
        __hip_atomic_fetch_max(&cells[2], x, RELAXED);
    }
}
#define FLOATING(T)                                                                                        \
    KERNEL void contended_##T(T* cells, const T* x) { float_contended(cells, x[global_x()]); }             \
    KERNEL void shared_contended_##T(T* cells, const T* x) {                                               \
        __shared__ T own[3];                                                                               \
        if (threadIdx.x < 3) own[threadIdx.x] = cells[threadIdx.x];                                        \
        __syncthreads();                                                                                   \
        float_contended((T*)own, x[threadIdx.x]);                                                          \
        __syncthreads();                                                                                   \
        if (threadIdx.x < 3) cells[threadIdx.x] = own[threadIdx.x];                                        \
    }                                                                                                      \
    KERNEL void returning_##T(T* cells, const T* x, T* old) {                                              \
        __shared__ T own[64];                                                                              \
        int t = threadIdx.x;                                                                               \
        own[t] = cells[t];                                                                                 \
        __syncthreads();                                                                                   \
        OWN_MEMORY { old[t] = __hip_atomic_fetch_add(&cells[t], x[t], RELAXED); }                          \
        OWN_MEMORY { old[64 + t] = __hip_atomic_fetch_add(&own[63 - t], x[t], RELAXED); }                  \
        __syncthreads();                                                                                   \
        OWN_MEMORY { old[128 + t] = __hip_atomic_fetch_max(&own[t], x[t] * 2, RELAXED); }                  \
        __syncthreads();                                                                                   \
        cells[64 + t] = own[t];                                                                            \
    }
FLOATING(float)
FLOATING(double)

// Two halves at a time.
#if __has_builtin(__builtin_amdgcn_global_atomic_fadd_v2f16)
KERNEL void packed_halves(vec<f16, 2>* cells, const vec<f16, 2>* x) {
    __builtin_amdgcn_global_atomic_fadd_v2f16((__attribute__((address_space(1))) vec<f16, 2>*)&cells[threadIdx.x & 3], x[global_x()]);
}
#endif

// What no instruction does, by a loop of compare and swap: a product, a sum that saturates, 16 and 8 bits.
KERNEL void swap_loops(float* product, u32* saturated, u16* shorts, u8* bytes, const u32* x) {
    int i = global_x();
    u32* bits = (u32*)product;
    u32 seen = *bits, before;
    do {
        before = seen;
        float next = bits_as<float>(before) * (i & 1 ? 2.0f : 0.5f);
        seen = atomicCAS(bits, before, bits_as<u32>(next));
    } while (seen != before);
    seen = *saturated;
    do {
        before = seen;
        u32 next = before + x[i] < before ? ~0u : before + x[i];
        seen = atomicCAS(saturated, before, next);
    } while (seen != before);
    __hip_atomic_fetch_add(&shorts[i % 3], (u16)x[i], RELAXED);
    __hip_atomic_fetch_xor(&bytes[i % 5], (u8)x[i], RELAXED);
}

// A lock that lanes take one after the other: two lanes of a wave must not wait for each other.
KERNEL void lock(u32* state, u32* count, u32* sum, const u32* x) {
    for (int lane = 0; lane < WAVE; ++lane) {
        if (lane != lane_id()) continue;
        while (atomicCAS(state, 0u, 1u) != 0) __builtin_amdgcn_s_sleep(1);
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        *count += 1;
        *sum = *sum * 3 % 1000003 + x[global_x()];
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
        atomicExch(state, 0u);
    }
}

// The last workgroup to finish adds up what the others left.
KERNEL void last_group(const u32* x, u32* parts, u32* tickets, u32* total) {
    __shared__ u32 own, last;
    int t = threadIdx.x;
    if (t == 0) own = 0;
    __syncthreads();
    atomicAdd(&own, x[global_x()]);
    __syncthreads();
    if (t == 0) {
        parts[blockIdx.x] = own;
        __threadfence();
        last = atomicAdd(tickets, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    if (t == 0) own = 0;
    __syncthreads();
    if (t < gridDim.x) atomicAdd(&own, parts[t]);
    __syncthreads();
    if (t == 0) *total = own, *tickets = 0;
}

// A list whose links are made by exchanges: every lane pushes its node.
KERNEL void push(u32* head, u32* next) { next[global_x()] = atomicExch(head, (u32)global_x()); }
