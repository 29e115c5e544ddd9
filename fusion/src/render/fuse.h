// fuse.h: what all generated kernels use: where tensors lie, how elements are read and written, what each operator
// computes. Follows the prelude; reductions.h follows it, then the generated kernel.
//
// FUSE_WIDE chooses 64-bit offsets, for tensors that span 4 GiB or more.
#if FUSE_WIDE
typedef rf::u64 index_t;
#else
typedef rf::u32 index_t;
#endif

namespace rf {
namespace fuse {

// --- places ---

// How a tensor is read along the last axis. From TILED on, the mode also gives the number of the tile in LDS through which it is read.
enum Mode { SPLAT = 0, PACKED = 1, STRIDED = 2, TILED = 3 };
// A tensor in the arguments of a launch. Offsets and strides are in bytes, modulo 2^bits of index_t, so that a negative stride wraps;
// stride[0] is that of the last axis.
struct Tensor {
    u64 base;       // lowest address that is touched
    index_t start;  // from there to the element at coordinates 0
    index_t mode;
    index_t stride[8];
};

// An axis to split an item number by: extent and, in 32 bits, the multiplier and shift that divide by it.
struct Axis {
    index_t extent, multiplier, shift;
};

struct Space {
    index_t items;   // vectors of the whole space, or rows
    index_t step;    // items of one sweep of the grid
    index_t extent;  // of the last axis
    index_t rank;    // axes that are left, at least 1
    index_t lanes_log2;  // lanes of a row, or waves of a workgroup where lanes lie across rows
    index_t turns;       // quads of a lane
    index_t quads;       // of a row; the extent of axis 1 where it is cut into tiles
    index_t chains;      // of a row
    Axis axis[8];
};

// Exact for item < 2^31: Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
RF_FN index_t divide(index_t item, const Axis& axis) {
#if FUSE_WIDE
    return item / axis.extent;
#else
    return ((index_t)(((u64)item * axis.multiplier) >> 32) + item) >> axis.shift;
#endif
}

// Adds to every offset what the axes from FIRST on contribute to item number `rest` of them.
template <u32 FIRST, int K>
RF_FN void locate_from(const Space& space, const Tensor (&tensor)[K], index_t rest, index_t (&offset)[K]) {
    for (u32 axis = FIRST; axis < space.rank; ++axis) {
        index_t coordinate = rest;
        if (axis + 1 < space.rank) {
            rest = divide(rest, space.axis[axis]);
            coordinate -= rest * space.axis[axis].extent;
        }
#pragma unroll
        for (int k = 0; k < K; ++k) offset[k] += coordinate * tensor[k].stride[axis];
    }
}
template <int K> RF_FN void locate(const Space& space, const Tensor (&tensor)[K], index_t rest, index_t (&offset)[K]) {
    locate_from<1>(space, tensor, rest, offset);
}

// The same, which also keeps the coordinates. Their array is indexed by constants only, so that it stays in registers.
template <int K>
RF_FN void locate(const Space& space, const Tensor (&tensor)[K], index_t rest, index_t (&offset)[K], index_t (&at)[8]) {
#pragma unroll
    for (u32 axis = 1; axis < 8; ++axis) {
        at[axis] = 0;
        if (axis < space.rank) {
            index_t coordinate = rest;
            if (axis + 1 < space.rank) {
                rest = divide(rest, space.axis[axis]);
                coordinate -= rest * space.axis[axis].extent;
            }
            at[axis] = coordinate;
#pragma unroll
            for (int k = 0; k < K; ++k) offset[k] += coordinate * tensor[k].stride[axis];
        }
    }
}

// --- elements in memory and in registers ---

// A value in a register: a 16-bit float as a float of the same value, a bool as a bool. `fit` rounds the result of an operator to S;
// `put` converts a value that is one of S already for memory.
template <class S> struct Reg {
    typedef S type;
    RF_FN static S get(S x) { return x; }
    RF_FN static S fit(S x) { return x; }
    RF_FN static S put(S x) { return x; }
};
template <> struct Reg<f16> {
    typedef float type;
    RF_FN static float get(f16 x) { return to_f32(x); }
    RF_FN static float fit(float x) { return to_f32(f32_to_f16(x)); }
    RF_FN static f16 put(float x) { return f32_to_f16(x); }
};
template <> struct Reg<bf16> {
    typedef float type;
    RF_FN static float get(bf16 x) { return to_f32(x); }
    RF_FN static float fit(float x) { return round_to_bf16(x); }
    RF_FN static bf16 put(float x) { bf16 y; y.bits = (u16)(bit_cast<u32>(x) >> 16); return y; }
};
template <> struct Reg<bool8> {
    typedef bool type;
    RF_FN static bool get(bool8 x) { return x.bits != 0; }
    RF_FN static bool fit(bool x) { return x; }
    RF_FN static bool8 put(bool x) { bool8 y; y.bits = x ? 1 : 0; return y; }
};

// Tells the compiler that the address is one of global memory: otherwise every access would be a slower generic one.
RF_FN char* memory(u64 base) {
#if RF_DEVICE_AMD
    return (char*)(__attribute__((address_space(1))) char*)base;
#else
    return (char*)base;
#endif
}

template <class S> RF_FN typename Reg<S>::type load_one(const Tensor& tensor, index_t offset) {
    return Reg<S>::get(*(const S*)(memory(tensor.base) + offset));
}
template <class S> RF_FN void store_one(const Tensor& tensor, index_t offset, typename Reg<S>::type value) {
    *(S*)(memory(tensor.base) + offset) = Reg<S>::put(value);
}

// How many of N elements that lie side by side one memory instruction moves.
template <class S, int N> struct Chunk { static const int value = N * sizeof(S) <= 16 ? N : 16 / (int)sizeof(S); };

// Moves M neighbours between memory and registers in one access.
template <class S, int M> struct Neighbours {
    typedef typename Reg<S>::type T;
    RF_FN static void get(T* to, const char* from) {
        const Vec<S, M> part = load<M>((const S*)from);
#pragma unroll
        for (int i = 0; i < M; ++i) to[i] = Reg<S>::get(part[i]);
    }
    RF_FN static void put(char* to, const T* from) {
        Vec<S, M> part;
#pragma unroll
        for (int i = 0; i < M; ++i) part[i] = Reg<S>::put(from[i]);
        store<M>((S*)to, part);
    }
};
// bf16 neighbours in words of two: each half of a word is the upper half of a float.
template <int M> struct HalfFloats {
    RF_FN static void get(float* to, const char* from) {
        const Vec<u32, M / 2> part = load<M / 2>((const u32*)from);
#pragma unroll
        for (int i = 0; i < M / 2; ++i) {
            to[2 * i] = bit_cast<float>(part[i] << 16);
            to[2 * i + 1] = bit_cast<float>(part[i] & 0xffff0000u);
        }
    }
    RF_FN static u32 word(float low, float high) {
#if RF_DEVICE_AMD
        return __builtin_amdgcn_perm(bit_cast<u32>(high), bit_cast<u32>(low), 0x07060302u);
#else
        u32 both;
        asm("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(both) : "r"(bit_cast<u32>(low)), "r"(bit_cast<u32>(high)));
        return both;
#endif
    }
    RF_FN static void put(char* to, const float* from) {
        Vec<u32, M / 2> part;
#pragma unroll
        for (int i = 0; i < M / 2; ++i) part[i] = word(from[2 * i], from[2 * i + 1]);
        store<M / 2>((u32*)to, part);
    }
};
template <> struct Neighbours<bf16, 2> : HalfFloats<2> {};
template <> struct Neighbours<bf16, 4> : HalfFloats<4> {};
template <> struct Neighbours<bf16, 8> : HalfFloats<8> {};

// Reads N elements along the last axis that lie side by side and all exist. No branch stands between one such load and the next, so
// that many are under way at once.
template <class S, int N> RF_FN void load_packed(typename Reg<S>::type (&to)[N], const Tensor& tensor, index_t offset) {
    const int M = Chunk<S, N>::value;
#pragma unroll
    for (int e = 0; e < N; e += M) Neighbours<S, M>::get(to + e, memory(tensor.base) + (index_t)(offset + e * sizeof(S)));
}
// N elements of a 16-bit float as they are in memory, two in a register, which is half of what they take as floats. They must be put
// in order, first to last.
template <class S> struct Half;
template <> struct Half<bf16> {
    RF_FN static float low(u32 word) { return bit_cast<float>(word << 16); }
    RF_FN static float high(u32 word) { return bit_cast<float>(word & 0xffff0000u); }
    RF_FN static u32 put_low(float x) { return bit_cast<u32>(x) >> 16; }
    RF_FN static u32 put_high(float x) { return bit_cast<u32>(x) & 0xffff0000u; }
};
template <> struct Half<f16> {
    RF_FN static float of(u32 bits) { f16 x; x.bits = (u16)bits; return to_f32(x); }
    RF_FN static float low(u32 word) { return of(word & 0xffffu); }
    RF_FN static float high(u32 word) { return of(word >> 16); }
    RF_FN static u32 put_low(float x) { return f32_to_f16(x).bits; }
    RF_FN static u32 put_high(float x) { return (u32)f32_to_f16(x).bits << 16; }
};
template <class S, int N> struct Halves {
    u32 word[N / 2];
    RF_FN float operator[](int e) const { return e % 2 == 0 ? Half<S>::low(word[e / 2]) : Half<S>::high(word[e / 2]); }
    RF_FN void put(int e, float x) {
        word[e / 2] = e % 2 == 0 ? Half<S>::put_low(x) : word[e / 2] | Half<S>::put_high(x);
    }
};
template <class S, int N> RF_FN void make_anew(Halves<S, N>& from) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) rf::make_anew(from.word[i]);
}
template <class S, int N> RF_FN void load_packed(Halves<S, N>& to, const Tensor& tensor, index_t offset) {
    const int M = Chunk<S, N>::value;
#pragma unroll
    for (int e = 0; e < N; e += M) {
        const Vec<u32, M / 2> part = load<M / 2>((const u32*)(memory(tensor.base) + (index_t)(offset + e * sizeof(S))));
#pragma unroll
        for (int i = 0; i < M / 2; ++i) to.word[e / 2 + i] = part[i];
    }
}

// Accesses past the caches, for data that a launch reads or writes once: in a cache it would take the place of data that is read again.
// Only accesses of 16 bytes have such a form.
template <int N> struct Once {
    RF_FN static Vec<u32, N> get(const u32* from) { return load<N>(from); }
    RF_FN static void put(u32* to, const Vec<u32, N>& words) { store<N>(to, words); }
};
#if !RF_DEVICE_AMD
template <> struct Once<4> {
    RF_FN static Vec<u32, 4> get(const u32* from) {
        Vec<u32, 4> words;
        asm("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words.at[0]), "=r"(words.at[1]), "=r"(words.at[2]), "=r"(words.at[3])
                     : "l"(from));
        return words;
    }
    RF_FN static void put(u32* to, const Vec<u32, 4>& words) {
        asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(to), "r"(words.at[0]), "r"(words.at[1]), "r"(words.at[2]), "r"(words.at[3])
                     : "memory");
    }
};
#endif
// As load_packed, past the caches.
template <class S, int N> RF_FN void load_once(typename Reg<S>::type (&to)[N], const Tensor& tensor, index_t offset) {
    load_packed<S>(to, tensor, offset);
}
template <class S, int N> RF_FN void load_once(Halves<S, N>& to, const Tensor& tensor, index_t offset) {
    const int M = Chunk<S, N>::value;
#pragma unroll
    for (int e = 0; e < N; e += M) {
        const u32* from = (const u32*)(memory(tensor.base) + (index_t)(offset + e * sizeof(S)));
        const Vec<u32, M / 2> part = Once<M / 2>::get(from);
#pragma unroll
        for (int i = 0; i < M / 2; ++i) to.word[e / 2 + i] = part[i];
    }
}

// Reads N elements along the last axis that all exist. The mode is the same in every lane.
template <class S, int N> RF_FN void load_full(typename Reg<S>::type (&to)[N], const Tensor& tensor, index_t offset) {
    if (tensor.mode == PACKED) {
        load_packed<S>(to, tensor, offset);
    } else if (tensor.mode == SPLAT) {
        const typename Reg<S>::type one = load_one<S>(tensor, offset);
#pragma unroll
        for (int e = 0; e < N; ++e) to[e] = one;
    } else {
#pragma unroll
        for (int e = 0; e < N; ++e) to[e] = load_one<S>(tensor, offset + (index_t)e * tensor.stride[0]);
    }
}
// Reads the first `count` of N elements, which may be none; the others become zero.
template <class S, int N>
RF_FN void load_part(typename Reg<S>::type (&to)[N], const Tensor& tensor, index_t offset, u32 count) {
#pragma unroll
    for (int e = 0; e < N; ++e) {
        to[e] = typename Reg<S>::type();
        if ((u32)e < count) to[e] = load_one<S>(tensor, offset + (index_t)e * tensor.stride[0]);
    }
}
// The same for V lines, which are neighbours along axis 1, or the same line if the tensor is broadcast there.
template <class S, int V, int N>
RF_FN void load_across(typename Reg<S>::type (&to)[V][N], const Tensor& tensor, index_t offset, u32 count) {
    const char* from = memory(tensor.base);
    if (tensor.stride[1] != 0) {
        Vec<S, V> part[N];
#pragma unroll
        for (int e = 0; e < N; ++e) {
            part[e] = Vec<S, V>();
            if ((u32)e < count) part[e] = load<V>((const S*)(from + (index_t)(offset + (index_t)e * tensor.stride[0])));
        }
#pragma unroll
        for (int e = 0; e < N; ++e)
#pragma unroll
            for (int v = 0; v < V; ++v) to[v][e] = Reg<S>::get(part[e][v]);
    } else {
        typename Reg<S>::type one[N];
        load_part<S>(one, tensor, offset, count);
#pragma unroll
        for (int v = 0; v < V; ++v)
#pragma unroll
            for (int e = 0; e < N; ++e) to[v][e] = one[e];
    }
}
// Writes N elements as load_packed reads them.
template <class S, int N>
RF_FN void store_packed(const typename Reg<S>::type (&from)[N], const Tensor& tensor, index_t offset) {
    const int M = Chunk<S, N>::value;
#pragma unroll
    for (int e = 0; e < N; e += M)
        Neighbours<S, M>::put(memory(tensor.base) + (index_t)(offset + e * sizeof(S)), from + e);
}
template <class S, int N> RF_FN void store_full(const typename Reg<S>::type (&from)[N], const Tensor& tensor, index_t offset) {
    if (tensor.mode == PACKED) {
        store_packed<S>(from, tensor, offset);
    } else {
#pragma unroll
        for (int e = 0; e < N; ++e) store_one<S>(tensor, offset + (index_t)e * tensor.stride[0], from[e]);
    }
}
template <class S, int N> RF_FN void store_once(const typename Reg<S>::type (&from)[N], const Tensor& tensor, index_t offset) {
    store_full<S>(from, tensor, offset);
}
template <class S, int N>
RF_FN void store_part(const typename Reg<S>::type (&from)[N], const Tensor& tensor, index_t offset, u32 count) {
#pragma unroll
    for (int e = 0; e < N; ++e)
        if ((u32)e < count) store_one<S>(tensor, offset + (index_t)e * tensor.stride[0], from[e]);
}
// The axis of a tensor along which a lookup's index counts: bytes from one element to the next, and how many elements there are.
struct Reach {
    index_t stride, extent;
};
// The element at `index` from `offset` on. If the element is not `there`, or the index is outside, it is zero and nothing is read.
template <class S>
RF_FN typename Reg<S>::type look_up(const Tensor& tensor, index_t offset, const Reach& reach, i64 index, bool there) {
    typename Reg<S>::type value = typename Reg<S>::type();
    if (there && (u64)index < (u64)reach.extent) value = load_one<S>(tensor, offset + (index_t)index * reach.stride);
    return value;
}
template <class S, int N> RF_FN void load_full(Halves<S, N>& to, const Tensor& tensor, index_t offset) {
    if (tensor.mode == PACKED) {
        load_packed<S>(to, tensor, offset);
    } else {
        float each[N];
        load_full<S>(each, tensor, offset);
#pragma unroll
        for (int e = 0; e < N; ++e) to.put(e, each[e]);
    }
}
template <class S, int N> RF_FN void load_part(Halves<S, N>& to, const Tensor& tensor, index_t offset, u32 count) {
    float each[N];
    load_part<S>(each, tensor, offset, count);
#pragma unroll
    for (int e = 0; e < N; ++e) to.put(e, each[e]);
}
// How many of the `width` elements from `column` on lie inside `extent`.
RF_FN u32 window(index_t column, index_t extent, u32 width) {
    const index_t left = column < extent ? extent - column : 0;
    return left < width ? (u32)left : width;
}

// --- tiles ---

// Loads a square of SIDE x SIDE elements into LDS, of a tensor whose neighbours lie along axis 1, so that it is read along that axis
// and used along axis 0. A line of the tile is one coordinate of axis 0. A line has one element more than SIDE, which spreads the
// elements of a column over the banks. `wide` lines exist, and `deep` elements of each; the rest is zero. All loads come before the
// stores, so that they are under way together.
template <class S, int SIDE, int THREADS>
RF_FN void load_tile(S* tile, const Tensor& tensor, index_t offset, u32 wide, u32 deep) {
    const int EACH = SIDE * SIDE / THREADS;
    S part[EACH];
    const u32 line = thread_x() / SIDE, place = thread_x() % SIDE;
    const char* from = memory(tensor.base);
    offset += line * tensor.stride[0] + place * tensor.stride[1];
    if (wide == SIDE && deep == SIDE) {
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            part[i] = *(const S*)(from + (index_t)(offset + (index_t)(i * (THREADS / SIDE)) * tensor.stride[0]));
    } else {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            part[i] = S();
            if (line + i * (THREADS / SIDE) < wide && place < deep)
                part[i] = *(const S*)(from + (index_t)(offset + (index_t)(i * (THREADS / SIDE)) * tensor.stride[0]));
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) tile[(line + i * (THREADS / SIDE)) * (SIDE + 1) + place] = part[i];
}
// Reads N neighbours along axis 0 from a tile.
template <class S, int SIDE, int N>
RF_FN void load_turned(typename Reg<S>::type (&to)[N], const S* tile, u32 column, u32 row) {
#pragma unroll
    for (int e = 0; e < N; ++e) to[e] = Reg<S>::get(tile[(column + e) * (SIDE + 1) + row]);
}

// --- operators, on registers, each rounding to S ---

template <class S> struct IsFloat { static const bool value = false; };
template <> struct IsFloat<double> { static const bool value = true; };
template <> struct IsFloat<float> { static const bool value = true; };
template <> struct IsFloat<f16> { static const bool value = true; };
template <> struct IsFloat<bf16> { static const bool value = true; };

// The type that integers compute in: unsigned, modulo 2^32 or 2^64, because overflow of a signed type is undefined.
template <class S> struct Unsigned { typedef u32 type; };
template <> struct Unsigned<i64> { typedef u64 type; };
template <> struct Unsigned<u64> { typedef u64 type; };

template <class S> RF_FN typename Reg<S>::type fit(typename Reg<S>::type x) { return Reg<S>::fit(x); }
// A number in another type, as registers hold it.
template <class To, class From> RF_FN typename Reg<To>::type convert(From x) { return Reg<To>::get(rf::cast<To>(x)); }
template <class S> RF_FN typename Reg<S>::type from_bits(u64 bits) {
    S x;
    __builtin_memcpy(&x, &bits, sizeof(S));
    return Reg<S>::get(x);
}

// Functions that have a cheaper form for a 16-bit result: here with an error of 2^-17 before the rounding. After it that is half
// a unit in the last place and 4/1000 of one.
template <class S> struct Function {
    typedef typename Reg<S>::type T;
    RF_FN static T exp(T x) { return rf::exp(x); }
};
struct HalfFunction {
    // The square of the root. The device's power of two gives zero for a subnormal result, and the root is none where its square is.
    RF_FN static float exp(float x) {
        const float root = exp2_fast(x * 0x1.715476p-1f);
        return root * root;
    }
};
template <> struct Function<f16> : HalfFunction {};
template <> struct Function<bf16> : HalfFunction {};

// Quotients. Those of 16-bit floats are products with the divisor's reciprocal, which is computed once for all elements that share
// the divisor. What depends on the divisor alone is written apart from the rest, so that the compiler sees that.
template <class S> struct Quotient {
    typedef typename Reg<S>::type T;
    RF_FN static T of(T a, T b) { return a / b; }
    RF_FN static T by(T a, T b) { return a / b; }
    RF_FN static T inverse(T b) { return (T)1 / b; }
};
// A power of two has an exact reciprocal, and the product rounds as the quotient does. If the divisor is the same for all
// lanes, so is the branch, and it spares them the division.
template <> struct Quotient<float> {
    RF_FN static float of(float a, float b) { return a / b; }
    RF_FN static float by(float a, float b) {
        const u32 bits = bit_cast<u32>(b), size = bits & 0x7fffffffu;
        const bool is_power = (size & 0x7fffffu) == 0u && size - 0x10000000u < 0x60000000u;
        const float reciprocal = bit_cast<float>((bits & 0x80000000u) | (0x7f000000u - size));
        if (is_power) return a * reciprocal;
        return a / b;
    }
    RF_FN static float inverse(float b) { return 1.0f / b; }
};
// Quotients of N dividends that share a divisor, each with the bits of a / b. The product with the divisor's reciprocal is corrected by
// the remainder twice: after the first time it is off by less than a unit in the last place, and the second time rounds it as the
// quotient is (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990). The remainders must be
// exact for that: the divisor must be positive and of moderate size, and each dividend of moderate size or zero, whose sign is kept.
// Otherwise all are divided.
template <int N> RF_FN void divide_each(float (&to)[N], const float (&from)[N], float by) {
    const float reciprocal = 1.0f / by;
    bool odd = !(by > 0x1p-60f && by < 0x1p60f);
#pragma unroll
    for (int e = 0; e < N; ++e) {
        const float a = from[e], size = rf::abs(a), first = a * reciprocal;
        const float second = fma(-fma(by, first, -a), reciprocal, first);
        to[e] = fma(-fma(by, second, -a), reciprocal, second);
        odd |= !((size > 0x1p-60f && size < 0x1p60f) || a == 0.0f);
    }
    if (odd) {
#pragma unroll
        for (int e = 0; e < N; ++e) to[e] = from[e] / by;
    }
}
// A quotient of two values of 8 bits is never a number where the rounding to 8 bits changes; it is at least 2^-17 of itself away from
// one. The result here is off by 2^-22, and therefore rounds as the exact one does. If a or the quotient is subnormal, a tie may be
// rounded the other way. The divisor is scaled into the range in which it has a reciprocal.
template <> struct Quotient<bf16> {
    RF_FN static float of(float a, float b) {
        const float size = rf::abs(b);
        const float scale = size < 0x1p-64f ? 0x1p64f : size > 0x1p64f ? 0x1p-64f : 1.0f;
        return (a * rcp_fast(b * scale)) * scale;
    }
    RF_FN static float by(float a, float b) { return of(a, b); }
    RF_FN static float inverse(float b) {
#if RF_DEVICE_AMD
        return of(1.0f, b);
#else
        float y;
        asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(b));
        return y;
#endif
    }
};
// With 11 bits that distance is 2^-23. One correction by the remainder is precise enough for it, ties of subnormal quotients
// included. No value of f16 has a reciprocal outside float's range. If the quotient is no number, neither is the remainder.
template <> struct Quotient<f16> {
    RF_FN static float of(float a, float b) {
        const float reciprocal = rcp_fast(b);
        const float q = a * reciprocal;
        const float better = fma(fma(-q, b, a), reciprocal, q);
        return q < better || q > better ? better : q;
    }
    RF_FN static float by(float a, float b) { return of(a, b); }
    RF_FN static float inverse(float b) { return of(1.0f, b); }
};
// A product of two values of the type, rounded. From a product in 32 bits and its rounding to 16, LLVM 22 makes one v_fma_mixlo_f16,
// which adds +0 and so turns -0 into +0. So AMD's devices multiply in 16 bits, which rounds the same number once.
template <class S> struct Product {
    typedef typename Reg<S>::type T;
    RF_FN static T of(T a, T b) { return fit<S>(a * b); }
};
#if RF_DEVICE_AMD
template <> struct Product<f16> {
    RF_FN static float of(float a, float b) { return (float)((_Float16)a * (_Float16)b); }
};
#endif
template <class S, bool FLOAT = IsFloat<S>::value> struct Number {
    typedef typename Reg<S>::type T;
    RF_FN static T neg(T a) { return -a; }
    RF_FN static T abs(T a) { return rf::abs(a); }
    RF_FN static T sign(T a) { return a > (T)0 ? (T)1 : a < (T)0 ? (T)-1 : (T)0; }
    RF_FN static T add(T a, T b) { return fit<S>(a + b); }
    RF_FN static T sub(T a, T b) { return fit<S>(a - b); }
    RF_FN static T mul(T a, T b) { return Product<S>::of(a, b); }
    RF_FN static T div(T a, T b) { return fit<S>(Quotient<S>::of(a, b)); }
    RF_FN static T inverse(T a) { return fit<S>(Quotient<S>::inverse(a)); }
    // Gives the bits of `div`, for a divisor that many elements share.
    RF_FN static T div_by(T a, T b) { return fit<S>(Quotient<S>::by(a, b)); }
    RF_FN static T rem(T a, T b) { return fit<S>(rf::floor_mod(a, b)); }
    RF_FN static T pow(T a, T b) { return fit<S>(rf::pow(a, b)); }
};
template <class S> struct Number<S, false> {
    typedef typename Unsigned<S>::type U;
    RF_FN static S neg(S a) { return (S)((U)0 - (U)a); }
    // The least number is its own magnitude. The plain form becomes PTX's abs.s16. ptxas 13.0 leaves out the instruction that widens its
    // result, as if a magnitude were never negative, and gives 32768 for -32768. So the negative is hidden from the optimiser there.
    RF_FN static S abs(S a) {
#if !RF_DEVICE_AMD && !defined(RF_HOST)
        if (sizeof(S) < sizeof(i32)) {
            i32 negative = (i32)neg(a);
            asm("" : "+r"(negative));
            return a < (S)0 ? (S)negative : a;
        }
#endif
        return a < (S)0 ? neg(a) : a;
    }
    RF_FN static S sign(S a) { return a > (S)0 ? (S)1 : a < (S)0 ? (S)-1 : (S)0; }
    RF_FN static S add(S a, S b) { return (S)((U)a + (U)b); }
    RF_FN static S sub(S a, S b) { return (S)((U)a - (U)b); }
    RF_FN static S mul(S a, S b) { return (S)((U)a * (U)b); }
    // Dividing by 0 or -1 may trap or overflow. So the division is done by 1 instead, and the result is chosen separately.
    RF_FN static bool minus_one(S b) { return (S)-1 < (S)0 && b == (S)-1; }
    RF_FN static S divisor(S b) { return b == (S)0 || minus_one(b) ? (S)1 : b; }
    RF_FN static S div(S a, S b) { return b == (S)0 ? (S)0 : minus_one(b) ? neg(a) : (S)(a / divisor(b)); }
    RF_FN static S rem(S a, S b) {
        const S left = (S)(a % divisor(b));
        return left != (S)0 && (left < (S)0) != (b < (S)0) ? add(left, b) : left;
    }
    RF_FN static S pow(S a, S b) {
        U base = (U)a, result = 1;
        for (U power = b < (S)0 ? 0 : (U)b; power != 0; power >>= 1) {
            if (power & 1) result *= base;
            base *= base;
        }
        // 1 / a^|b| truncates to 0 unless a is 1 or -1.
        const S inverse = a == (S)1 ? (S)1 : minus_one(a) ? ((U)b & 1 ? a : (S)1) : (S)0;
        return b < (S)0 ? inverse : (S)result;
    }
    RF_FN static U count(S b) { return (U)b & (U)(8 * sizeof(S) - 1); }
    RF_FN static S shl(S a, S b) { return (S)((U)a << count(b)); }
    RF_FN static S shr(S a, S b) { return (S)(a >> count(b)); }
    RF_FN static S bits_and(S a, S b) { return (S)(a & b); }
    RF_FN static S bits_or(S a, S b) { return (S)(a | b); }
    RF_FN static S bits_xor(S a, S b) { return (S)(a ^ b); }
    RF_FN static S bits_not(S a) { return (S)~(U)a; }
};
template <> struct Number<bool8, false> {
    RF_FN static bool bits_and(bool a, bool b) { return a && b; }
    RF_FN static bool bits_or(bool a, bool b) { return a || b; }
    RF_FN static bool bits_xor(bool a, bool b) { return a != b; }
    RF_FN static bool bits_not(bool a) { return !a; }
};

}  // namespace fuse
}  // namespace rf
