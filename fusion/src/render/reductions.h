// reductions.h: the reductions of generated kernels, and the order in which they combine elements. Follows fuse.h.
namespace rf {
namespace fuse {

// Each reduction below has the accumulator's type A, the neutral element, the operation, and `finish`, which makes the result from the
// total of n elements. First the accumulator's type for an element type.
template <class S> struct Accumulator { typedef S type; };
template <> struct Accumulator<f16> { typedef float type; };
template <> struct Accumulator<bf16> { typedef float type; };
template <> struct Accumulator<i16> { typedef i32 type; };
template <> struct Accumulator<i8> { typedef i32 type; };
template <> struct Accumulator<u16> { typedef u32 type; };
template <> struct Accumulator<u8> { typedef u32 type; };
template <> struct Accumulator<bool8> { typedef u32 type; };
// The accumulator of a mean, whose sum must not wrap.
template <class S> struct Exact { typedef typename Accumulator<S>::type type; };
template <> struct Exact<i32> { typedef i64 type; };
template <> struct Exact<i16> { typedef i64 type; };
template <> struct Exact<i8> { typedef i64 type; };
template <> struct Exact<u32> { typedef u64 type; };
template <> struct Exact<u16> { typedef u64 type; };
template <> struct Exact<u8> { typedef u64 type; };

template <class S, bool FLOAT = IsFloat<S>::value> struct Extremes {
    RF_FN static typename Accumulator<S>::type least() { return (typename Accumulator<S>::type)Limits<S>::low; }
    RF_FN static typename Accumulator<S>::type most() { return (typename Accumulator<S>::type)Limits<S>::high; }
    RF_FN static typename Reg<S>::type canonical(typename Accumulator<S>::type x) { return (S)x; }
    RF_FN static typename Reg<S>::type quotient(typename Exact<S>::type sum, u64 n) {
        return n == 0 ? (S)0 : (S)(sum / (typename Exact<S>::type)n);
    }
};
template <class S> struct Extremes<S, true> {
    typedef typename Accumulator<S>::type A;
    RF_FN static A least() { return (A)-infinity(); }
    RF_FN static A most() { return (A)infinity(); }
    // Of zeros of unlike sign, one or the other wins, depending on the order. So an extreme that is zero becomes +0 in every order.
    RF_FN static A canonical(A x) { return x + (A)0; }
    RF_FN static A quotient(A sum, u64 n) { return fit<S>(sum / (A)n); }
};

template <class S> struct SumOf {
    typedef typename Accumulator<S>::type A;
    RF_FN static A neutral() { return (A)0; }
    RF_FN static A apply(A a, A b) { return Number<A>::add(a, b); }
    RF_FN static typename Reg<S>::type finish(A total, u64) { return convert<S>(total); }
};
template <class S> struct MeanOf {
    typedef typename Exact<S>::type A;
    RF_FN static A neutral() { return (A)0; }
    RF_FN static A apply(A a, A b) { return Number<A>::add(a, b); }
    RF_FN static typename Reg<S>::type finish(A total, u64 n) { return Extremes<S>::quotient(total, n); }
};
template <class S> struct ProdOf {
    typedef typename Accumulator<S>::type A;
    RF_FN static A neutral() { return (A)1; }
    RF_FN static A apply(A a, A b) { return Number<A>::mul(a, b); }
    RF_FN static typename Reg<S>::type finish(A total, u64) { return convert<S>(total); }
};
template <class S> struct MaxOf {
    typedef typename Accumulator<S>::type A;
    RF_FN static A neutral() { return Extremes<S>::least(); }
    RF_FN static A apply(A a, A b) { return max_of_either_zero(a, b); }
    RF_FN static typename Reg<S>::type finish(A total, u64) { return Extremes<S>::canonical(total); }
};
template <class S> struct MinOf {
    typedef typename Accumulator<S>::type A;
    RF_FN static A neutral() { return Extremes<S>::most(); }
    RF_FN static A apply(A a, A b) { return min_of_either_zero(a, b); }
    RF_FN static typename Reg<S>::type finish(A total, u64) { return Extremes<S>::canonical(total); }
};
template <class S> struct AnyOf {
    typedef u32 A;
    RF_FN static u32 neutral() { return 0; }
    RF_FN static u32 apply(u32 a, u32 b) { return a | b; }
    RF_FN static bool finish(u32 total, u64) { return total != 0; }
};
template <class S> struct AllOf {
    typedef u32 A;
    RF_FN static u32 neutral() { return 1; }
    RF_FN static u32 apply(u32 a, u32 b) { return a & b; }
    RF_FN static bool finish(u32 total, u64) { return total != 0; }
};

// Folds a quad into a chain. Only the first `count` elements of the quad exist.
template <class R> RF_FN typename R::A fold(typename R::A chain, typename R::A (&x)[4], u32 count) {
    if (count < 4) {
#pragma unroll
        for (int e = 0; e < 4; ++e) x[e] = (u32)e < count ? x[e] : R::neutral();
    }
    return R::apply(chain, R::apply(R::apply(x[0], x[1]), R::apply(x[2], x[3])));
}
// The same for quads of neighbouring chains, which one lane has.
template <class R, int QUADS>
RF_FN void fold_each(typename R::A (&chain)[QUADS], typename R::A (&x)[QUADS][4], u32 count) {
#pragma unroll
    for (int i = 0; i < QUADS; ++i) chain[i] = fold<R>(chain[i], x[i], count > 4u * i ? count - 4u * i : 0u);
}

// The same for a quad that is whole, or does not exist if `count` is 0.
template <class R> RF_FN typename R::A fold_whole(typename R::A chain, typename R::A (&x)[4], u32 count) {
    const typename R::A next = fold<R>(chain, x, 4);
    return count != 0 ? next : chain;
}
template <class R, int QUADS>
RF_FN void fold_each_whole(typename R::A (&chain)[QUADS], typename R::A (&x)[QUADS][4], u32 count) {
#pragma unroll
    for (int i = 0; i < QUADS; ++i) chain[i] = fold_whole<R>(chain[i], x[i], count);
}

template <class R> struct Combine {
    RF_FN typename R::A operator()(typename R::A a, typename R::A b) const { return R::apply(a, b); }
};
// The tree over 2^lanes_log2 neighbouring lanes, neighbours first. Every lane gets the result.
template <class R> RF_FN typename R::A tree(typename R::A x, u32 lanes_log2) {
    typedef typename R::A A;
    if (lanes_log2 == 0) return x;
    x = R::apply(x, dpp<RF_DPP_XOR1>(x));
    if (lanes_log2 == 1) return x;
    x = R::apply(x, dpp<RF_DPP_XOR2>(x));
    if (lanes_log2 == 2) return x;
    x = R::apply(x, dpp<RF_DPP_HALF_MIRROR>(x));
    if (lanes_log2 == 3) return x;
    x = R::apply(x, dpp<RF_DPP_MIRROR>(x));
    if (lanes_log2 == 4) return x;
    x = R::apply(x, Words<A, sizeof(A) / 4>::each(x, Xor16()));
#if ARCH_WAVE_SIZE == 64
    if (lanes_log2 == 5) return x;
    x = R::apply(x, shuffle_xor(x, 32u));
#endif
    return x;
}
// The tree over COUNT values, neighbours first.
template <class R, int COUNT> RF_FN typename R::A tree_of(typename R::A (&x)[COUNT]) {
#pragma unroll
    for (int width = 1; width < COUNT; width *= 2) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2 * width) x[i] = R::apply(x[i], x[i + width]);
    }
    return x[0];
}
// The tree over a workgroup of THREADS lanes. `scratch` is LDS for one value per wave; no thread reads its old contents any more.
template <class R, int THREADS> RF_FN typename R::A tree_group_apart(typename R::A x, typename R::A* scratch) {
    const int WAVES = THREADS / ARCH_WAVE_SIZE;
    x = wave_reduce(x, Combine<R>());
    if (thread_x() % ARCH_WAVE_SIZE == 0) scratch[thread_x() / ARCH_WAVE_SIZE] = x;
    barrier();
    typename R::A part[WAVES];
#pragma unroll
    for (int i = 0; i < WAVES; ++i) part[i] = scratch[i];
    return tree_of<R, WAVES>(part);
}
// The same if threads may still read `scratch` for an earlier tree.
template <class R, int THREADS> RF_FN typename R::A tree_group(typename R::A x, typename R::A* scratch) {
    barrier();
    return tree_group_apart<R, THREADS>(x, scratch);
}

// The tree over values that come one by one, neighbours first. Value `i` is combined with every subtree that it completes; the subtree
// of a level waits in at[level] for its neighbour. The last of 2^LEVELS values leaves the total in at[LEVELS].
template <class R, int LEVEL, int LEVELS> struct Climb {
    RF_FN static void put(typename R::A (&at)[LEVELS + 1], typename R::A x, u32 i) {
        if (((i >> LEVEL) & 1u) == 0u) at[LEVEL] = x;
        else Climb<R, LEVEL + 1, LEVELS>::put(at, R::apply(at[LEVEL], x), i);
    }
};
template <class R, int LEVELS> struct Climb<R, LEVELS, LEVELS> {
    RF_FN static void put(typename R::A (&at)[LEVELS + 1], typename R::A x, u32) { at[LEVELS] = x; }
};
// The total of the first `count` values, which are fewer than 2^(LEVELS + 1). Values missing to a power of two count as neutral.
template <class R, int LEVELS> RF_FN typename R::A climbed(typename R::A (&at)[LEVELS + 1], u32 count) {
    typename R::A total = R::neutral();
#pragma unroll
    for (int level = 0; level <= LEVELS; ++level)
        if ((count >> level) & 1u) total = R::apply(at[level], total);
    return total;
}
// The same two functions with the subtrees in LDS, which one thread writes, for any number of chunks.
const int CHUNK_LEVELS = 32;
template <class R> RF_FN void put_chunk(typename R::A* at, typename R::A x, u32 i) {
    u32 level = 0;
    for (; (i >> level) & 1u; ++level) x = R::apply(at[level], x);
    at[level] = x;
}
template <class R> RF_FN typename R::A all_chunks(const typename R::A* at, u32 count) {
    typename R::A total = R::neutral();
    for (u32 level = 0; level < (u32)CHUNK_LEVELS && (count >> level) != 0u; ++level)
        if ((count >> level) & 1u) total = R::apply(at[level], total);
    return total;
}
// The tree over the waves of a workgroup, lane by lane; `scratch` is LDS for a value per lane of MOST waves.
template <class R, int MOST>
RF_FN typename R::A tree_waves(typename R::A x, typename R::A* scratch, u32 wave, u32 waves) {
    if (waves == 1) return x;
    barrier();
    scratch[wave * ARCH_WAVE_SIZE + thread_x()] = x;
    barrier();
    typename R::A part[MOST];
#pragma unroll
    for (u32 i = 0; i < MOST; ++i) {
        part[i] = R::neutral();
        if (i < waves) part[i] = scratch[i * ARCH_WAVE_SIZE + thread_x()];
    }
    return tree_of<R, MOST>(part);
}

}  // namespace fuse
}  // namespace rf

namespace fuse = rf::fuse;
