// atomics.h: HIP's atomic functions, ordered with nothing. `_block` and `_system` say who sees them at once.
#ifndef ROCFIRE_HIP_ATOMICS_H
#define ROCFIRE_HIP_ATOMICS_H
#pragma clang system_header

#define ROCFIRE_SCOPED(name, builtin, type, scope)                                                \
    ROCFIRE_DEVICE type name(type *at, type value) {                                              \
        return builtin(at, value, __ATOMIC_RELAXED, scope);                                       \
    }
#define ROCFIRE_ATOMIC(name, builtin, type)                                                       \
    ROCFIRE_SCOPED(name, builtin, type, __HIP_MEMORY_SCOPE_AGENT)                                 \
    ROCFIRE_SCOPED(name##_block, builtin, type, __HIP_MEMORY_SCOPE_WORKGROUP)                     \
    ROCFIRE_SCOPED(name##_system, builtin, type, __HIP_MEMORY_SCOPE_SYSTEM)
#define ROCFIRE_INTEGERS(name, builtin)           \
    ROCFIRE_ATOMIC(name, builtin, int)            \
    ROCFIRE_ATOMIC(name, builtin, unsigned)       \
    ROCFIRE_ATOMIC(name, builtin, long)           \
    ROCFIRE_ATOMIC(name, builtin, long long)      \
    ROCFIRE_ATOMIC(name, builtin, unsigned long)  \
    ROCFIRE_ATOMIC(name, builtin, unsigned long long)
ROCFIRE_INTEGERS(atomicAdd, __hip_atomic_fetch_add)
ROCFIRE_INTEGERS(atomicSub, __hip_atomic_fetch_sub)
ROCFIRE_INTEGERS(atomicMin, __hip_atomic_fetch_min)
ROCFIRE_INTEGERS(atomicMax, __hip_atomic_fetch_max)
ROCFIRE_INTEGERS(atomicAnd, __hip_atomic_fetch_and)
ROCFIRE_INTEGERS(atomicOr, __hip_atomic_fetch_or)
ROCFIRE_INTEGERS(atomicXor, __hip_atomic_fetch_xor)
ROCFIRE_INTEGERS(atomicExch, __hip_atomic_exchange)
ROCFIRE_ATOMIC(atomicAdd, __hip_atomic_fetch_add, float)
ROCFIRE_ATOMIC(atomicAdd, __hip_atomic_fetch_add, double)
ROCFIRE_ATOMIC(atomicExch, __hip_atomic_exchange, float)
ROCFIRE_ATOMIC(atomicExch, __hip_atomic_exchange, double)
#undef ROCFIRE_INTEGERS
#undef ROCFIRE_ATOMIC
#undef ROCFIRE_SCOPED

// The address says the type; what is compared and stored converts to it.
template <typename T>
struct rocfire_same {
    typedef T type;
};
template <typename T>
ROCFIRE_DEVICE T atomicCAS(T *at, typename rocfire_same<T>::type expected, typename rocfire_same<T>::type value) {
    __hip_atomic_compare_exchange_strong(at, &expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}
template <typename T>
ROCFIRE_DEVICE T atomicCAS_block(T *at, typename rocfire_same<T>::type expected, typename rocfire_same<T>::type value) {
    __hip_atomic_compare_exchange_strong(at, &expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_WORKGROUP);
    return expected;
}
template <typename T>
ROCFIRE_DEVICE T atomicCAS_system(T *at, typename rocfire_same<T>::type expected, typename rocfire_same<T>::type value) {
    __hip_atomic_compare_exchange_strong(at, &expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_SYSTEM);
    return expected;
}

// Exchanges until nobody has come between: for what hardware has no instruction for on every family.
template <typename T, typename Bits, typename F>
ROCFIRE_DEVICE T rocfire_atomic(T *at, F of) {
    Bits *bits = reinterpret_cast<Bits *>(at);
    Bits seen = __hip_atomic_load(bits, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    for (;;) {
        T before = rocfire_bits<T>(seen);
        Bits next = rocfire_bits<Bits>(of(before));
        if (__hip_atomic_compare_exchange_strong(bits, &seen, next, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                 __HIP_MEMORY_SCOPE_AGENT)) {
            return before;
        }
    }
}
#define ROCFIRE_LOOPED(name, type, bits, of)                                                          \
    ROCFIRE_DEVICE type name(type *at, type value) {                                                  \
        return rocfire_atomic<type, bits>(at, [=](type before) -> type { return of; });               \
    }
ROCFIRE_LOOPED(atomicMax, float, unsigned, __builtin_fmaxf(before, value))
ROCFIRE_LOOPED(atomicMin, float, unsigned, __builtin_fminf(before, value))
ROCFIRE_LOOPED(atomicMax, double, unsigned long long, __builtin_fmax(before, value))
ROCFIRE_LOOPED(atomicMin, double, unsigned long long, __builtin_fmin(before, value))
// CUDA's: up to a limit and back to zero, down to zero and back to the limit.
ROCFIRE_LOOPED(atomicInc, unsigned, unsigned, before >= value ? 0u : before + 1u)
ROCFIRE_LOOPED(atomicDec, unsigned, unsigned, before == 0u || before > value ? value : before - 1u)
#undef ROCFIRE_LOOPED
ROCFIRE_DEVICE float atomicSub(float *at, float value) { return atomicAdd(at, -value); }
ROCFIRE_DEVICE double atomicSub(double *at, double value) { return atomicAdd(at, -value); }
ROCFIRE_DEVICE float unsafeAtomicAdd(float *at, float value) { return atomicAdd(at, value); }
ROCFIRE_DEVICE double unsafeAtomicAdd(double *at, double value) { return atomicAdd(at, value); }
ROCFIRE_DEVICE float safeAtomicAdd(float *at, float value) { return atomicAdd(at, value); }
ROCFIRE_DEVICE double safeAtomicAdd(double *at, double value) { return atomicAdd(at, value); }
#define ROCFIRE_NAMED(type, name) \
    ROCFIRE_DEVICE type unsafeA##name(type *at, type value) { return a##name(at, value); } \
    ROCFIRE_DEVICE type safeA##name(type *at, type value) { return a##name(at, value); }
ROCFIRE_NAMED(float, tomicMax)
ROCFIRE_NAMED(double, tomicMax)
ROCFIRE_NAMED(float, tomicMin)
ROCFIRE_NAMED(double, tomicMin)
#undef ROCFIRE_NAMED
ROCFIRE_DEVICE float atomicAddNoRet(float *at, float value) { return atomicAdd(at, value); }

#endif
