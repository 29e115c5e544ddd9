// Loads from device memory straight to LDS: lane `i`'s bytes go to a place of its own behind the wave's first.
#include "hip.h"

typedef __attribute__((address_space(1))) void global_void;
typedef __attribute__((address_space(3))) void local_void;

// A wave of 64 loads `BYTES` bytes a lane, which are `WORDS` words of LDS, `STRIDE` from one lane to the next, and reads all
// of them, or those that are `off` words further on.
#define THROUGH_LDS(name, BYTES, WORDS, STRIDE, LOAD)                                              \
    KERNEL void name(char* x, u32* out, int off) {                                                 \
        __shared__ u32 room[STRIDE * 64 + 64];                                                     \
        int t = thread_x();                                                                        \
        LOAD(x, BYTES);                                                                            \
        asm volatile("s_waitcnt vmcnt(0)" ::: "memory");                                           \
        sync();                                                                                    \
        for (int n = t; n < WORDS * 64; n += 64) out[n] = room[n / WORDS * STRIDE + n % WORDS + off]; \
    }

#define GLOBAL(x, BYTES) __builtin_amdgcn_global_load_lds((global_void*)(x + t * BYTES), (local_void*)room, BYTES, 0, 0)
#define BUFFER(x, BYTES)                                                                           \
    auto from = __builtin_amdgcn_make_buffer_rsrc(x, 0, 64 * BYTES, 0x27000);                      \
    __builtin_amdgcn_raw_ptr_buffer_load_lds(from, (local_void*)room, BYTES, t * BYTES, 0, 0, 0)

THROUGH_LDS(global_1, 1, 1, 1, GLOBAL)
THROUGH_LDS(global_2, 2, 1, 1, GLOBAL)
THROUGH_LDS(global_4, 4, 1, 1, GLOBAL)
THROUGH_LDS(buffer_1, 1, 1, 1, BUFFER)
THROUGH_LDS(buffer_2, 2, 1, 1, BUFFER)
THROUGH_LDS(buffer_4, 4, 1, 1, BUFFER)
#ifdef __gfx950__
THROUGH_LDS(global_12, 12, 3, 4, GLOBAL)
THROUGH_LDS(global_16, 16, 4, 4, GLOBAL)
THROUGH_LDS(buffer_12, 12, 3, 4, BUFFER)
THROUGH_LDS(buffer_16, 16, 4, 4, BUFFER)
#endif
