// few.h: what few.hip, few_ring.hip and few_staged.hip have before their sums: codes along N as operands of the matrix unit, scales. Stands behind
// few_unit.h.
//
// Macros : those of coded.h; F_WIDE words of a lane in a row; F_TILES tiles of rows of A that a wave has, of 8 on NVIDIA's unit, of 4 if
//          F_SPREAD, 16 on AMD's; F_WAVES, F_SHARE of them with a part of each word's codes, F_SIDE such side by side along N, F_HIGH of those
//          one below another along M, the others along K; F_FOLD: blocks, slices and the parts of waves are multiples of so many slabs; F_RUN
//          neighbouring k of a lane in a slab, more if the unit takes more; F_SPREAD: a row of A is two of the unit's; F_BESIDE: scales of
//          neighbouring columns are aligned vectors; F_SCALE a number of quant.h

// Codes of a lane's words, and of those the wave's own; columns of a wave, and of a workgroup.
static const int WORD_CODES = Q_PER / F_SHARE, LANE_CODES = F_WIDE * Q_PER, CODES = F_WIDE * WORD_CODES;
static const int COLUMNS = Unit::LANES * LANE_CODES, STRIP = F_SIDE * COLUMNS;
static const int DEEP = Unit::DEEP, PRODUCTS = CODES / Unit::COLUMNS;
// Neighbouring k of a lane in a slab.
static const int RUN = DEEP > F_RUN ? DEEP : F_RUN, SLAB = RUN * Unit::GROUPS;
static const int PARTS = F_WAVES / (F_SIDE * F_SHARE * F_HIGH);
// Rows of a wave, and of a workgroup.
static const int WAVE_ROWS = F_TILES * Unit::ROWS, ROWS = F_HIGH * WAVE_ROWS, THREADS = F_WAVES * ARCH_WAVE_SIZE;
// Words that a product takes of a lane's row of A.
static const int TAKEN = DEEP > 2 ? DEEP / 2 : 2;
static_assert(32 % SLAB == 0 && RUN % DEEP == 0 && WORD_CODES % Unit::COLUMNS == 0, "whole slabs and products");
static_assert(F_SHARE == 1 || F_SHARE == 2 && F_WIDE == 1, "a wave has halves of words or whole ones");

// What is still to be multiplied into sums.
static constexpr float GROWN_SUMS = WAY == BY_TWO ? GROWN : 1.0f;

// --- codes as operands ---

template <int> struct Constants {};
// Floats in whose mantissa codes stand where they are in half a word. In vector registers: an instruction of CDNA takes one scalar one,
// which is the mask.
template <> struct Constants<BY_FLOATS> {
    u32 power[PER_HALF];
    RF_FN Constants() {
#pragma unroll
        for (int i = 0; i < PER_HALF; ++i) {
            power[i] = (u32)(150 - i * Code::BITS) << 23;
            make_anew(power[i]);
        }
    }
};
static const u32 HALF = 1u << (Code::BITS - 1), MASK = 2 * HALF - 1;

// The codes of a lane's words at DEEP neighbouring k: of a column, number `p` of the pairs of k.
template <int> struct Decoder;
template <> struct Decoder<BY_TWO> {
    u32 low[DEEP / 2], high[DEEP / 2];

    template <class Words> RF_FN void start(const Words* rows, int word) {
#pragma unroll
        for (int p = 0; p < DEEP / 2; ++p) {
            low[p] = low_halves(rows[2 * p][word], rows[2 * p + 1][word]) ^ POSITIVE;
            high[p] = high_halves(rows[2 * p][word], rows[2 * p + 1][word]) ^ POSITIVE;
        }
    }
    RF_FN u32 pair(const Constants<BY_TWO>&, int code, int p) const {
        return code < PER_HALF ? two_of_codes(low[p], code) : two_of_codes(high[p], code - PER_HALF);
    }
};
template <> struct Decoder<BY_FLOATS> {
    u32 low[DEEP], high[DEEP];

    template <class Words> RF_FN void start(const Words* rows, int word) {
#pragma unroll
        for (int i = 0; i < DEEP; ++i) {
            low[i] = rows[i][word] ^ POSITIVE;
            high[i] = low[i] >> 16;
        }
    }
    RF_FN u32 pair(const Constants<BY_FLOATS>& constants, int code, int p) const {
        const int i = code % PER_HALF, shift = i * Code::BITS;
        const float away = -(float)((1u << (23 - shift)) + HALF);
        const u32* from = code < PER_HALF ? low : high;
        const u32 first = (from[2 * p] & MASK << shift) | constants.power[i];
        const u32 next = (from[2 * p + 1] & MASK << shift) | constants.power[i];
#if ARCH_PACKED_F32
        typedef float Two __attribute__((ext_vector_type(2)));
        const Two both = (Two){bit_cast<float>(first), bit_cast<float>(next)} + (Two){away, away};
        return exact_two<In>(both[0], both[1]);
#else
        return exact_two<In>(bit_cast<float>(first) + away, bit_cast<float>(next) + away);
#endif
    }
};
template <> struct Decoder<BY_ONE> {
    u32 words[DEEP];

    template <class Words> RF_FN void start(const Words* rows, int word) {
#pragma unroll
        for (int i = 0; i < DEEP; ++i) words[i] = rows[i][word];
    }
    RF_FN u32 pair(const Constants<BY_ONE>&, int code, int p) const {
        return exact_two<In>(decode_at(words[2 * p], code), decode_at(words[2 * p + 1], code));
    }
};

// What a product takes of a lane's words.
#if F_SPREAD
struct Operand {
    static const int WORDS = 4;
    u32 words[DEEP];

    template <class Words> RF_FN void start(const Words* rows, int word) {
#pragma unroll
        for (int i = 0; i < DEEP; ++i) words[i] = rows[i][word];
    }
    RF_FN void of(const Constants<WAY>&, int product, u32* w) const {
#pragma unroll
        for (int n = 0; n < WORDS; ++n) w[n] = halves_of(words[n / 2], product * 2 + n % 2);
    }
};
#else
struct Operand {
    static const int WORDS = Unit::COLUMNS * (DEEP / 2);
    Decoder<WAY> decoder;

    template <class Words> RF_FN void start(const Words* rows, int word) { decoder.start(rows, word); }
    RF_FN void of(const Constants<WAY>& constants, int product, u32* w) const {
#pragma unroll
        for (int p = 0; p < WORDS; ++p)
            w[p] = decoder.pair(constants, product * Unit::COLUMNS + p / (DEEP / 2), p % (DEEP / 2));
    }
};
#endif

// --- scales ---

#if !Q_LATE
typedef ScaleOf<F_SCALE> Scale;
// The scales of a lane's columns in a block of K, read when the block begins: as words, so that nothing waits for them before its end.
struct Scales {
    static const int PER_WORD = 4 / (int)sizeof(Scale::Bits), WORDS = CODES / PER_WORD, VECTOR = WORDS < 4 ? WORDS : 4;
    static const int BITS = 8 * (int)sizeof(Scale::Bits);
    Vec<u32, VECTOR> held[WORDS / VECTOR];
    u32 block;

    RF_FN void start(const QMatmulArgs& g, u32 k, u32 col) {
        block = g.block_k.divide(k);
#if F_BESIDE
        const Scale::Bits* from = (const Scale::Bits*)g.scales + (i64)block * g.s_k + col;
#pragma unroll
        for (int i = 0; i < WORDS / VECTOR; ++i) held[i] = load<VECTOR>((const u32*)from + i * VECTOR);
#endif
    }
    RF_FN float of(const QMatmulArgs& g, u32 col, int i) const {
#if F_BESIDE
        const u32 bits = held[i / PER_WORD / VECTOR][i / PER_WORD % VECTOR] >> i % PER_WORD * BITS;
        return Scale::value((Scale::Bits)bits);
#else
        const i64 at = (i64)block * g.s_k + g.block_n.divide(col + i) * g.s_n;
        return read_scale(g.scales, at, F_SCALE);
#endif
    }
};
#endif
