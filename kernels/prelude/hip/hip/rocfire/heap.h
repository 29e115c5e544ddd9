// heap.h: malloc and free in kernels: blocks of powers of two out of 8 MiB of the module's, each size with a list of those
// that were freed. There is a null pointer when nothing is left.
#ifndef ROCFIRE_HIP_HEAP_H
#define ROCFIRE_HIP_HEAP_H
#pragma clang system_header

#define ROCFIRE_HEAP_BYTES (8ull << 20)

struct rocfire_heap {
    unsigned long long taken;
    // By the power of two: the first free block as its offset plus one, and above bit 32 a count that tells one list from
    // another of the same beginning.
    unsigned long long free[32];
    alignas(16) unsigned char bytes[ROCFIRE_HEAP_BYTES];
};
extern "C" {
inline __device__ rocfire_heap __rocfire_heap;
}

// A block is its power of two in 16 bytes, then what the program has; while it is free the next one's place stands there.
extern "C" __device__ inline unsigned long long __ockl_dm_alloc(unsigned long long bytes) {
    if (bytes == 0 || bytes > ROCFIRE_HEAP_BYTES) return 0;
    int power = 64 - __builtin_clzll(bytes + 15);
    power = power < 5 ? 5 : power;
    unsigned long long *list = &__rocfire_heap.free[power];
    unsigned long long first = __hip_atomic_load(list, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
    while ((unsigned)first != 0) {
        unsigned char *block = __rocfire_heap.bytes + ((unsigned)first - 1);
        unsigned long long next = __hip_atomic_load(reinterpret_cast<unsigned *>(block + 16), __ATOMIC_RELAXED,
                                                    __HIP_MEMORY_SCOPE_AGENT);
        next |= ((first >> 32) + 1) << 32;
        if (__hip_atomic_compare_exchange_strong(list, &first, next, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE,
                                                 __HIP_MEMORY_SCOPE_AGENT)) {
            return (unsigned long long)(block + 16);
        }
    }
    unsigned long long size = 1ull << power;
    unsigned long long at =
        __hip_atomic_fetch_add(&__rocfire_heap.taken, size, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    if (at + size > ROCFIRE_HEAP_BYTES) {
        __hip_atomic_fetch_sub(&__rocfire_heap.taken, size, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        return 0;
    }
    unsigned char *block = __rocfire_heap.bytes + at;
    *reinterpret_cast<unsigned *>(block) = (unsigned)power;
    return (unsigned long long)(block + 16);
}

extern "C" __device__ inline void __ockl_dm_dealloc(unsigned long long address) {
    if (address == 0) return;
    unsigned char *block = reinterpret_cast<unsigned char *>(address) - 16;
    unsigned long long *list = &__rocfire_heap.free[*reinterpret_cast<unsigned *>(block)];
    unsigned long long place = (unsigned long long)(block - __rocfire_heap.bytes) + 1;
    unsigned long long first = __hip_atomic_load(list, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    unsigned long long next;
    do {
        __hip_atomic_store(reinterpret_cast<unsigned *>(block + 16), (unsigned)first, __ATOMIC_RELAXED,
                           __HIP_MEMORY_SCOPE_AGENT);
        next = place | ((first >> 32) + 1) << 32;
    } while (!__hip_atomic_compare_exchange_strong(list, &first, next, __ATOMIC_RELEASE, __ATOMIC_RELAXED,
                                                   __HIP_MEMORY_SCOPE_AGENT));
}

#endif
