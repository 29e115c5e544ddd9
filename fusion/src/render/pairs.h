// pairs.h: pairs of neighbouring elements, for kernels that compute 16-bit floats. Follows fuse.h in the text of such kernels.
//
// A device may round two values in one instruction, and may add or multiply two pairs in one (`FUSE_PACKED`). Then a pair stays as it
// is in memory, in one register. On other devices it is two floats.
//
// A sum or product of 16-bit floats has the same bits whether it is rounded once, or first to a float and then to 16 bits. A float has
// at least twice as many bits and two more; if the result is subnormal, the float is exact or too small to reach a tie
// (Figueroa, "When is double rounding innocuous?", 1995).
namespace rf {
namespace fuse {

#if RF_DEVICE_AMD
#define FUSE_PACKED 0
#else
#define FUSE_PACKED 1
#endif

// Two values of any type in registers.
template <class S> struct Two {
    typedef typename Reg<S>::type T;
    T first, second;
    RF_FN T low() const { return first; }
    RF_FN T high() const { return second; }
    RF_FN static Two of(T low, T high) { Two two; two.first = low; two.second = high; return two; }
    RF_FN static Two both(T x) { return of(x, x); }
    // Makes a pair of floats that are not yet rounded to S.
    RF_FN static Two fitted(T low, T high) { return of(fit<S>(low), fit<S>(high)); }
    RF_FN static Two add(Two a, Two b) { return fitted(a.first + b.first, a.second + b.second); }
    RF_FN static Two sub(Two a, Two b) { return fitted(a.first - b.first, a.second - b.second); }
    RF_FN static Two mul(Two a, Two b) { return of(Product<S>::of(a.first, b.first), Product<S>::of(a.second, b.second)); }
    RF_FN static Two neg(Two a) { return of(-a.first, -a.second); }
    RF_FN static Two abs(Two a) { return of(rf::abs(a.first), rf::abs(a.second)); }
};

#if FUSE_PACKED
// A pair in one register, the first value in the lower half. Before sm_90 bf16 has only the fused instruction: a sum is a · 1 + b, and
// a product adds -0, which changes no value.
template <class S> struct Packed;
template <> struct Packed<bf16> {
    RF_FN static u32 fma(u32 a, u32 b, u32 c) {
        u32 d;
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
        return d;
    }
    RF_FN static u32 add(u32 a, u32 b) { return fma(a, 0x3f803f80u, b); }
    RF_FN static u32 sub(u32 a, u32 b) { return fma(b, 0xbf80bf80u, a); }
    RF_FN static u32 mul(u32 a, u32 b) { return fma(a, b, 0x80008000u); }
    RF_FN static u32 fitted(float low, float high) { return two_of<bf16>(low, high); }
    // Makes a pair of floats that are values of the type already, so that nothing is rounded.
    RF_FN static u32 of(float low, float high) { return HalfFloats<2>::word(low, high); }
};
template <> struct Packed<f16> {
    RF_FN static u32 add(u32 a, u32 b) { u32 d; asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); return d; }
    RF_FN static u32 sub(u32 a, u32 b) { u32 d; asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); return d; }
    RF_FN static u32 mul(u32 a, u32 b) { u32 d; asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b)); return d; }
    RF_FN static u32 fitted(float low, float high) { return two_of<f16>(low, high); }
    RF_FN static u32 of(float low, float high) { return fitted(low, high); }
};
template <class S> struct PackedTwo {
    u32 word;
    RF_FN float low() const { return Half<S>::low(word); }
    RF_FN float high() const { return Half<S>::high(word); }
    RF_FN static Two<S> as(u32 word) { Two<S> two; two.word = word; return two; }
    RF_FN static Two<S> of(float low, float high) { return as(Packed<S>::of(low, high)); }
    RF_FN static Two<S> both(float x) { return of(x, x); }
    RF_FN static Two<S> fitted(float low, float high) { return as(Packed<S>::fitted(low, high)); }
    RF_FN static Two<S> add(PackedTwo a, PackedTwo b) { return as(Packed<S>::add(a.word, b.word)); }
    RF_FN static Two<S> sub(PackedTwo a, PackedTwo b) { return as(Packed<S>::sub(a.word, b.word)); }
    RF_FN static Two<S> mul(PackedTwo a, PackedTwo b) { return as(Packed<S>::mul(a.word, b.word)); }
    RF_FN static Two<S> neg(PackedTwo a) { return as(a.word ^ 0x80008000u); }
    RF_FN static Two<S> abs(PackedTwo a) { return as(a.word & 0x7fff7fffu); }
};
template <> struct Two<bf16> : PackedTwo<bf16> {};
template <> struct Two<f16> : PackedTwo<f16> {};
#endif

// N computed elements of a 16-bit float, as pairs.
#if FUSE_PACKED
template <class S, int N> using Several = Halves<S, N>;
#else
template <class S, int N> using Several = float[N];
#endif

// The pair of elements e and e + 1 of an array, for an even e.
template <class S, int N> RF_FN Two<S> two(const typename Reg<S>::type (&from)[N], int e) {
    return Two<S>::of(from[e], from[e + 1]);
}
template <class S, int N> RF_FN Two<S> two(const Halves<S, N>& from, int e) {
#if FUSE_PACKED
    return Two<S>::as(from.word[e / 2]);
#else
    return Two<S>::of(from[e], from[e + 1]);
#endif
}
template <class S, int N> RF_FN void put_two(typename Reg<S>::type (&to)[N], int e, const Two<S>& pair) {
    to[e] = pair.low();
    to[e + 1] = pair.high();
}
template <class S, int N> RF_FN void put_two(Halves<S, N>& to, int e, const Two<S>& pair) {
#if FUSE_PACKED
    to.word[e / 2] = pair.word;
#else
    to.put(e, pair.low());
    to.put(e + 1, pair.high());
#endif
}

template <bool ONCE, class S, int N>
RF_FN void store_packed_halves(const Halves<S, N>& from, const Tensor& tensor, index_t offset) {
    const int M = Chunk<S, N>::value;
#pragma unroll
    for (int e = 0; e < N; e += M) {
        Vec<u32, M / 2> part;
#pragma unroll
        for (int i = 0; i < M / 2; ++i) part[i] = from.word[e / 2 + i];
        u32* to = (u32*)(memory(tensor.base) + (index_t)(offset + e * sizeof(S)));
        if (ONCE) Once<M / 2>::put(to, part);
        else store<M / 2>(to, part);
    }
}
template <bool ONCE, class S, int N>
RF_FN void store_halves(const Halves<S, N>& from, const Tensor& tensor, index_t offset) {
    if (tensor.mode == PACKED) {
        store_packed_halves<ONCE>(from, tensor, offset);
    } else {
#pragma unroll
        for (int e = 0; e < N; ++e) store_one<S>(tensor, offset + (index_t)e * tensor.stride[0], from[e]);
    }
}
template <class S, int N> RF_FN void store_packed(const Halves<S, N>& from, const Tensor& tensor, index_t offset) {
    store_packed_halves<false>(from, tensor, offset);
}
template <class S, int N> RF_FN void store_full(const Halves<S, N>& from, const Tensor& tensor, index_t offset) {
    store_halves<false>(from, tensor, offset);
}
template <class S, int N> RF_FN void store_once(const Halves<S, N>& from, const Tensor& tensor, index_t offset) {
    store_halves<true>(from, tensor, offset);
}
template <class S, int N>
RF_FN void store_part(const Halves<S, N>& from, const Tensor& tensor, index_t offset, u32 count) {
#pragma unroll
    for (int e = 0; e < N; ++e)
        if ((u32)e < count) store_one<S>(tensor, offset + (index_t)e * tensor.stride[0], from[e]);
}
template <class S, int SIDE, int N>
RF_FN void load_turned(Halves<S, N>& to, const S* tile, u32 column, u32 row) {
#pragma unroll
    for (int e = 0; e < N; ++e) to.put(e, Reg<S>::get(tile[(column + e) * (SIDE + 1) + row]));
}

}  // namespace fuse
}  // namespace rf
