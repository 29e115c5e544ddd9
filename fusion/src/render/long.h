// long.h: what kernels stand on whose workgroups hold a row of several chunks. Follows fuse.h.

// The tree over a workgroup of many waves, whose totals a wave's lanes take: where each thread added all of them up by itself, that
// would be as much work as its part of the row.
template <class R, int THREADS> RF_FN typename R::A tree_many(typename R::A x, typename R::A* scratch) {
    const rf::u32 waves = THREADS / ARCH_WAVE_SIZE;
    x = rf::wave_reduce(x, fuse::Combine<R>());
    if (rf::thread_x() % ARCH_WAVE_SIZE == 0) scratch[rf::thread_x() / ARCH_WAVE_SIZE] = x;
    rf::barrier();
    const rf::u32 levels = waves >= 32 ? 5 : waves >= 16 ? 4 : waves >= 8 ? 3 : 2;
    static_assert(THREADS / ARCH_WAVE_SIZE >= 4, "two chunks of 128 threads are four of the widest waves");
    return fuse::tree<R>(scratch[rf::thread_x() % waves], levels);
}

// The largest (MOST) or smallest element so far of a 16-bit type, NaN if there was one.
#if RF_DEVICE_AMD
template <class S, bool MOST> struct Extreme {
    float at = MOST ? -rf::infinity() : rf::infinity();
    template <int N> RF_FN void put(const fuse::Halves<S, N>& from) {
#pragma unroll
        for (int e = 0; e < N; ++e) at = MOST ? rf::max_of_either_zero(at, from[e]) : rf::min_of_either_zero(at, from[e]);
    }
    RF_FN float total() const { return at; }
};
#else
RF_FN rf::u32 two_most(rf::u32 a, rf::u32 b, rf::bf16) {
    asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}
RF_FN rf::u32 two_least(rf::u32 a, rf::u32 b, rf::bf16) {
    asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}
RF_FN rf::u32 two_most(rf::u32 a, rf::u32 b, rf::f16) {
    asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}
RF_FN rf::u32 two_least(rf::u32 a, rf::u32 b, rf::f16) {
    asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
}
template <class S, bool MOST> struct Extreme {
    rf::u32 at = fuse::Half<S>::put_low(infinite()) | fuse::Half<S>::put_high(infinite());
    RF_FN static float infinite() { return MOST ? -rf::infinity() : rf::infinity(); }
    template <int N> RF_FN void put(const fuse::Halves<S, N>& from) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) at = MOST ? two_most(at, from.word[i], S()) : two_least(at, from.word[i], S());
    }
    RF_FN float total() const {
        const float low = fuse::Half<S>::low(at), high = fuse::Half<S>::high(at);
        return MOST ? rf::max_of_either_zero(low, high) : rf::min_of_either_zero(low, high);
    }
};
#endif
