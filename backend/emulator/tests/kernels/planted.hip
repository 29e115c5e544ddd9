// Kernels with one defect each that only a check finds, beside the same kernel without it.
#include "hip.h"

// Each thread reads its neighbour's word.
static inline __device__ u32 neighbour(u32* room, int t) { return room[(t + 1) % 128]; }

KERNEL void shift_racing(u32* x) {
    __shared__ u32 room[128];
    int t = thread_x();
    room[t] = x[t];
    x[t] = neighbour(room, t);
}

KERNEL void shift(u32* x) {
    __shared__ u32 room[128];
    int t = thread_x();
    room[t] = x[t];
    sync();
    x[t] = neighbour(room, t);
}

// The second round writes what the first may still read.
KERNEL void rounds_racing(u32* x) {
    __shared__ u32 room[128];
    int t = thread_x();
    u32 sum = 0;
    for (int round = 0; round < 4; round++) {
        room[t] = x[t] + round;
        sync();
        sum += neighbour(room, t);
    }
    x[t] = sum;
}

KERNEL void count_in_lds(u32* x) {
    __shared__ u32 count;
    int t = thread_x();
    if (t == 0) count = 0;
    sync();
    __hip_atomic_fetch_add(&count, x[t], __ATOMIC_RELAXED, 3);
    sync();
    x[t] = count;
}

KERNEL void count_in_lds_racing(u32* x) {
    __shared__ u32 count;
    int t = thread_x();
    if (t == 0) count = 0;
    __hip_atomic_fetch_add(&count, x[t], __ATOMIC_RELAXED, 3);
    sync();
    x[t] = count;
}

// Workgroups meet at the last word of each other's part.
KERNEL void spill_over(u32* x) {
    int i = global_x();
    x[i + (thread_x() == 63)] = group_x();
}

KERNEL void read_next(u32* x) {
    int i = global_x();
    u32 next = x[i + 64];
    x[i] = next;
}

// The last workgroup to finish adds up what all have written.
KERNEL void last_adds_up(u32* x, u32* parts, u32* done) {
    __shared__ u32 before;
    int t = thread_x();
    if (t == 0) {
        parts[group_x()] = group_x() + 1;
        before = __hip_atomic_fetch_add(done, 1, __ATOMIC_ACQ_REL, 4);
    }
    sync();
    if (before != 3) return;
    if (t == 0) x[0] = parts[0] + parts[1] + parts[2] + parts[3];
}

KERNEL void copy_words(u32* out, const u32* in, int n) {
    int i = global_x();
    if (i < n) out[i] = in[i];
}

KERNEL void branch_on(u32* out, const u32* flag) {
    if (flag[0] > 7) out[thread_x()] = 1;
}

KERNEL void branch_lanes(u32* out, const u32* flags) {
    int t = thread_x();
    if (flags[t] > 7) out[t] = 1;
}

KERNEL void follow(u32* out, const u32* index) { out[index[thread_x()] & 63] = thread_x(); }

KERNEL void low_bytes(u32* out, const u32* in) {
    int t = thread_x();
    out[t] = (in[t] & 0xff) + (in[t] << 24);
}

KERNEL void select_first(u32* out, const u32* in, int n) {
    int t = thread_x();
    u32 value = in[t] * 3;
    out[t] = t < n ? value : 0;
}

#if defined(__gfx942__)
// A register moved out of a pair, beside one of memory.
KERNEL void move_pair(u32* out, const u32* in, int second) {
    typedef u32 Two __attribute__((ext_vector_type(2)));
    int t = thread_x();
    Two pair = {(u32)t, in[t]}, moved;
    asm volatile("v_pk_mov_b32 %0, %1, %1 op_sel:[0,1]" : "=v"(moved) : "v"(pair));
    out[t] = second ? moved.y : moved.x;
}
#endif

KERNEL void half_of_lds(u32* out) {
    __shared__ u32 room[128];
    int t = thread_x();
    if (t < 64) room[t] = t;
    sync();
    out[t] = room[127 - t] + 1;
}

// All of LDS has been written when what `in` holds is stored there.
KERNEL void through_lds(u32* out, const u32* in) {
    __shared__ u32 room[128];
    int t = thread_x();
    room[t] = t;
    sync();
    u32 first = room[127 - t];
    sync();
    room[t] = in[t];
    sync();
    out[t] = first + room[127 - t];
}

KERNEL void private_room(u32* out, const u32* in, int n) {
    volatile u32 room[16]; // Volatile, or it lives in registers.
    for (int i = 0; i < n; i++) room[in[i] & 15] = i;
    out[thread_x()] = room[in[thread_x()] & 15];
}

// Each lane of the first `on` gets its neighbour's value; `guarded`, only if that is on too.
KERNEL void from_the_next_lane(u32* x, int on, int guarded) {
    int t = thread_x();
    if (t < on) {
        u32 next = __builtin_amdgcn_ds_bpermute(4 * (t + 1), x[t]);
        x[t] = guarded && t + 1 >= on ? 7 : next;
    }
}

// An array past its end: the frame has room for it and little else.
KERNEL void private_past_the_end(u32* out, int at) {
    volatile u32 room[8];
    for (int i = 0; i < 8; i++) room[i] = i;
    out[thread_x()] = room[at];
}

KERNEL void count(u32* x) { __hip_atomic_fetch_add(&x[thread_x() & 3], 1, __ATOMIC_RELAXED, 4); }

// As `shift`, through device memory.
KERNEL void shift_outside(u32* x, u32* room) {
    int t = thread_x();
    room[t] = x[t];
    sync();
    x[t] = neighbour(room, t);
}

#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
// A register that nobody wrote, from another lane.
KERNEL void lanes_of_nothing(u32* out) {
    u32 value;
    asm volatile("v_mov_b32_dpp %0, v50 dpp8:[1,0,3,2,5,4,7,6]" : "=v"(value) : : "v50");
    out[thread_x()] = value;
}
#endif

#if (defined(__GFX11__) || defined(__GFX12__)) && !defined(WIDE)
// Two moves in one instruction: of a register that all lanes wrote, and of one that nobody did.
KERNEL void pair_of_nothing(u32* out, int second) {
    u32 x, y;
    asm volatile(
        "v_mov_b32 v52, 7\n"
        "v_dual_mov_b32 v54, v52 :: v_dual_mov_b32 v55, v51\n"
        "v_mov_b32 %0, v54\n"
        "v_mov_b32 %1, v55"
        : "=v"(x), "=v"(y)
        :
        : "v51", "v52", "v54", "v55");
    out[thread_x()] = second ? y : x;
}
#endif

// Wave 0 counts to twenty thousand before it sets the word that wave 1 waits for.
KERNEL void pass_on(u32* x) {
    __shared__ u32 word;
    int t = thread_x();
    if (t == 0) __hip_atomic_store(&word, 0u, __ATOMIC_RELAXED, 3);
    sync();
    u32 count = 0;
    if (t < 64) {
        for (int turn = 0; turn < 20000; turn++) {
            count++;
            asm volatile("" : "+v"(count));
        }
        if (t == 0) __hip_atomic_store(&word, count, __ATOMIC_RELEASE, 3);
    } else {
        while ((count = __hip_atomic_load(&word, __ATOMIC_ACQUIRE, 3)) == 0) {}
    }
    if (t % 64 == 0) x[t / 64] = count;
}

KERNEL void wait_for_nothing(u32* x) {
    __shared__ u32 word;
    int t = thread_x();
    if (t == 0) __hip_atomic_store(&word, 0u, __ATOMIC_RELAXED, 3);
    sync();
    if (t >= 64) {
        while (__hip_atomic_load(&word, __ATOMIC_ACQUIRE, 3) == 0) {}
    }
    x[t] = 1;
}

// All threads write the same word: either the same value or the number of their wave.
static inline __device__ void mark(u32* x, int same) {
    __shared__ u32 word;
    int t = thread_x();
    word = same ? 7 : t / 64;
    sync();
    x[t] = word;
}

KERNEL void mark_equal(u32* x) { mark(x, 1); }
KERNEL void mark_different(u32* x) { mark(x, 0); }
