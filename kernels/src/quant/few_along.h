// few_along.h: what few_along.hip has before its sums: codes along K as operands of the matrix unit, scales. Stands behind few_unit.h.
//
// Macros : those of coded.h; F_CODES columns of a lane; F_TILES tiles of rows of A; F_WAVES, all of which cut K; F_SCALED scales of a
//          lane's codes in a slab that multiply the codes, 0 where scales multiply sums; F_EXACT: what they give is exact in a bf16; F_TAIL:
//          the last slab is cut off; F_SCALE a number of quant.h

// Columns of a lane, which lie Unit::LANES apart, and of a workgroup.
static const int CODES = F_CODES, LANE_CODES = CODES, COLUMNS = Unit::LANES * CODES, STRIP = COLUMNS;
static const int DEEP = Unit::DEEP, PRODUCTS = CODES / Unit::COLUMNS;
// Neighbouring k of a lane in a slab: those of 16 bytes.
static const int RUN = 4 * Q_PER, SLAB = RUN * Unit::GROUPS;
static const int PARTS = F_WAVES;
static const int WAVE_ROWS = F_TILES * Unit::ROWS, ROWS = WAVE_ROWS, THREADS = F_WAVES * ARCH_WAVE_SIZE;
// Words that a product takes of a lane's row of A.
static const int TAKEN = DEEP > 2 ? DEEP / 2 : 2;
static_assert(RUN % DEEP == 0 && CODES % Unit::COLUMNS == 0, "whole products");

// Column `i` of a lane whose first is `col`. Past the end the last one is read and forgotten.
RF_FN u32 column_of(const QMatmulArgs& g, u32 col, int i) {
    const u32 own = col + i * Unit::LANES;
    return own < g.n ? own : g.n - 1;
}

// --- codes as operands ---

// What `few_sums.h` asks for and codes along K have no use for.
template <int> struct Constants {};

#if RF_DEVICE_AMD && ((Q_FORMAT == 3 && ARCH_FP8 != ARCH_FP8_NONE) || (Q_FORMAT == 6 && ARCH_FP8 == ARCH_FP8_FNUZ))
// The unit for conversions takes two neighbouring codes. That of the kind with one zero takes E4M3 for half of what it is, but for NaN,
// and its own NaN for the second zero.
#define F_CONVERTS 1
#define F_FOREIGN (Q_FORMAT == 3 && ARCH_FP8 == ARCH_FP8_FNUZ)
#else
#define F_CONVERTS 0
#define F_FOREIGN 0
#endif
// What codes are still to be multiplied by, and sums.
static constexpr float GROWN_CODES = F_CONVERTS ? (F_FOREIGN ? 2.0f : 1.0f) : WAY == BY_TWO ? GROWN : 1.0f;
static constexpr float GROWN_SUMS = F_SCALED ? 1.0f : GROWN_CODES;
// Whether what codes come to under a scale is looked up.
#define F_TABLES (RF_DEVICE_AMD && Q_FORMAT == 5)
// A pair of an operand are the numbers of codes `i` and `i + PER_HALF` of a word, or neighbours.
static const bool NEIGHBOURS = F_CONVERTS;

#if F_CONVERTS
typedef float TwoFloats __attribute__((ext_vector_type(2)));
RF_FN TwoFloats two_floats(u32 word, int i) {
#if F_FOREIGN
    const u32 sizes = word & 0x7f7f7f7fu, none = (sizes + 0x01010101u) & 0x80808080u;
    // Without the sign of zeros; NaN as a sign alone.
    word &= (sizes + 0x7f7f7f7fu) | 0x7f7f7f7fu;
    word = (word & ~(none - (none >> 7))) | none;
#endif
    return i == 0 ? __builtin_amdgcn_cvt_pk_f32_fp8((i32)word, false) : __builtin_amdgcn_cvt_pk_f32_fp8((i32)word, true);
}
#endif

// Pair `i` of a word, divided by GROWN_CODES.
RF_FN u32 pair_of(u32 word, int i) {
#if F_CONVERTS
    const TwoFloats two = two_floats(word, i);
    return exact_two<In>(two[0], two[1]);
#else
    if (WAY == BY_TWO) return two_of_codes(word ^ POSITIVE, i);
    // One by one.
    Codes codes;
    codes.start(word);
    return exact_two<In>(codes[i], codes[i + PER_HALF]);
#endif
}
#if F_TABLES
RF_FN u32 two_rounded(float low, float high) { return F_EXACT || !F_SCALED ? exact_two<In>(low, high) : two_of<In>(low, high); }
// What each size of E2M1 comes to under a scale, rounded once: lower and upper bytes, of sizes below 4 and from 4 on.
struct Weights {
    u32 lower[2], upper[2];

    RF_FN void start(float scale) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            const u32 first = part == 0 ? two_rounded(0.0f * scale, 0.5f * scale) : two_rounded(2.0f * scale, 3.0f * scale);
            const u32 next = part == 0 ? two_rounded(scale, 1.5f * scale) : two_rounded(4.0f * scale, 6.0f * scale);
            lower[part] = pick_bytes<0, 2, 4, 6>(first, next);
            upper[part] = pick_bytes<1, 3, 5, 7>(first, next);
        }
    }
    // Pair `i` of a word, whose four codes at even places or at odd ones are looked up at once.
    RF_FN u32 pair(u32 word, int i) const {
        const u32 codes = i % 2 == 0 ? word : word >> 4, sizes = codes & 0x07070707u;
        const u32 high = __builtin_amdgcn_perm(upper[1], upper[0], sizes) | (codes & 0x08080808u) << 4;
        const u32 low = __builtin_amdgcn_perm(lower[1], lower[0], sizes);
        return i < 2 ? pick_bytes<0, 4, 2, 6>(low, high) : pick_bytes<1, 5, 3, 7>(low, high);
    }
};
#elif F_SCALED
RF_FN In half_of(u32 bits) {
    In x;
    x.bits = (u16)bits;
    return x;
}
// The same times a scale, rounded once.
RF_FN u32 scaled_pair_of(u32 word, int i, float scale) {
#if F_CONVERTS
    const TwoFloats two = two_floats(word, i);
    const float low = two[0], high = two[1];
#else
    const u32 both = pair_of(word, i);
#if F_EXACT && !RF_DEVICE_AMD
    if (GROWN_CODES == 1.0f) return fma_two(both, high_halves(bit_cast<u32>(scale), bit_cast<u32>(scale)), 0x80008000u);
#endif
    const float low = cast<float>(half_of(both)), high = cast<float>(half_of(both >> 16));
#endif
    const float first = low * GROWN_CODES * scale, next = high * GROWN_CODES * scale;
    return F_EXACT ? exact_two<In>(first, next) : two_of<In>(first, next);
}
// A scale, and codes under it.
struct Weights {
    float scale;

    RF_FN void start(float by) { scale = by; }
    RF_FN u32 pair(u32 word, int i) const { return scaled_pair_of(word, i, scale); }
};
#else
// Codes as they are.
struct Weights {
    RF_FN void start(float) {}
    RF_FN u32 pair(u32 word, int i) const { return pair_of(word, i); }
};
#endif
// Pair number `n` of a lane's run, of what lies as A's rows do: the k that `pair_of` puts together.
RF_FN u32 pair_of_row(const Vec<u32, 4>* row, int n) {
    if (NEIGHBOURS) return row[n / 4][n % 4];
    const int word = n / PER_HALF * PER_HALF, i = n % PER_HALF, first = word + i / 2, second = first + PER_HALF / 2;
    const u32 low = row[first / 4][first % 4], high = row[second / 4][second % 4];
    return i % 2 == 0 ? low_halves(low, high) : high_halves(low, high);
}

// --- scales ---

// A scale as it lies in memory, so that nothing waits for it before it is used.
typedef ScaleOf<F_SCALE> Scale;
RF_FN u32 bits_of_scale(const QMatmulArgs& g, i64 at) { return ((const Scale::Bits*)g.scales)[at]; }

#if !Q_LATE && !F_SCALED
// The scales of a lane's columns in a block of K, read when the block begins.
struct Scales {
    u32 held[CODES];
    u32 block;

    RF_FN void start(const QMatmulArgs& g, u32 k, u32 col) {
        block = g.block_k.divide(k);
#pragma unroll
        for (int i = 0; i < CODES; ++i)
            held[i] = bits_of_scale(g, (i64)block * g.s_k + (i64)g.block_n.divide(column_of(g, col, i)) * g.s_n);
    }
    RF_FN float of(const QMatmulArgs&, u32, int i) const { return Scale::value(held[i]); }
};
#endif
