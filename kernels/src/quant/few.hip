// few: C = A W for few rows of A, whose codes go from memory to operands of the matrix unit in registers of one lane
//
// Shapes : as coded.h says, words of 32 bits along N
// Grid   : few (ceil(N / F_STRIP), ceil(M / F_ROWS), slices)               one workgroup per strip of columns, rows and slice of K
// Block  : (F_WAVES * ARCH_WAVE_SIZE, 1, 1)                                F_SIDE of them side by side along N, the others along K
// LDS    : TURN * KEPT * LINE floats
// Needs  : A and C of 16 bits, K % 32 == 0, slices of whole 32 k, rows of A contiguous and aligned to 16 bytes, words of a row
//          neighbours, rows of them whole, aligned vectors of F_WIDE words, all within 4 GiB, scales' blocks along K multiples of 32; F_BESIDE:
//          scales of neighbouring columns side by side, in aligned vectors; C apart from all inputs        checked by the launcher
// Numeric: codes enter exactly. The sum over a block of scales, or what a wave has of it, is multiplied by the scale in f32 and added in
//          ascending order of K; a wave takes K's multiples of F_SLAB in its part, waves are added in ascending order. Within a slab the
//          order is that of the unit, of which a lane group's operands are neighbouring k. Q_LATE: scales multiply the last sum.
//
// Macros : those of coded.h; F_WIDE words of a lane in a row; F_TILES tiles of rows of A, of 8 on NVIDIA's unit, of 4 if F_SPREAD, 16 on
//          AMD's; F_KEPT rows of C that there may be: 1, or all; F_WAVES, F_SIDE; F_STAGES slabs under way; F_FOLD: blocks, slices
//          and the parts of waves are multiples of so many, which divide F_STAGES; F_RUN neighbouring k of a lane in a slab, more if the unit takes more;
//          F_BESIDE; F_SCALE a number of quant.h
#define F_CODES (F_WIDE * Q_PER)
static_assert(sizeof(In) == 2 && sizeof(Q_WORD) == 4, "checked by the launcher");

#if RF_DEVICE_AMD
// A's rows are those of the product, columns of W its columns: one of a lane at a time.
struct Unit {
    typedef Mma<In, 16> M;
    typedef M::Accumulator Sums;
    static const bool TWICE = ARCH_MATRIX == ARCH_MATRIX_WMMA11;
    static const int LANES = 16, GROUPS = TWICE ? 1 : ARCH_WAVE_SIZE / 16, DEEP = M::K / GROUPS, COLUMNS = 1, ROWS = 16, VALUES = M::ACC;
    RF_FN static int place(int lane) { return lane % 16; }
    RF_FN static int group(int lane) { return TWICE ? 0 : lane / 16; }
    RF_FN static int given(int lane) { return lane % 16; }
    RF_FN static int row(int i, int lane) { return M::row(i, lane); }
    RF_FN static constexpr int column(int) { return 0; }
    RF_FN static constexpr int code(int product, int) { return product; }
    RF_FN static void clear(Sums& sums) { sums = 0; }
    RF_FN static void add(const u32* w, const u32* x, Sums& sums) {
        M::Operand of_x, of_w;
        __builtin_memcpy(&of_x, x, sizeof(of_x));
        __builtin_memcpy(&of_w, w, sizeof(of_w));
        sums = M::run(of_x, of_w, sums);
    }
    // Moves rows of C apart in LDS where lanes of a wave store several at once.
    RF_FN static int skew(int row) {
        if (ARCH_MATRIX == ARCH_MATRIX_MFMA) return ((row >> 2 ^ row >> 3) & 1) * 16;
        return (TWICE ? row & 1 : row >> 3 & 1) * 16;
    }
};
#else
struct UnitOfNvidia {
    typedef MmaNarrow<In> M;
    typedef M::Accumulator Sums;
    static const int LANES = 8, GROUPS = 4, VALUES = 4;
    RF_FN static int place(int lane) { return lane / 4; }
    RF_FN static int group(int lane) { return lane % 4; }
    RF_FN static void clear(Sums& sums) {
#pragma unroll
        for (int i = 0; i < VALUES; ++i) sums[i] = 0.0f;
    }
};
#if F_SPREAD
// Columns of W are the product's rows, in pairs: the two halves of a word have a code each at one place in them, and so are an operand as
// they lie. What the product takes for two neighbouring k is then one k of two columns. A's rows are two of its columns each: one has
// zeros for the second of two k, the other for the first, so that one gets the sums of the low half's column, the other the high half's.
struct Unit : UnitOfNvidia {
    static const int DEEP = 2, COLUMNS = 4, ROWS = 4;
    RF_FN static int given(int lane) { return lane / 8; }
    RF_FN static int row(int, int lane) { return lane % 4; }
    RF_FN static constexpr int column(int i) { return i; }
    RF_FN static constexpr int code(int product, int column) {
        return product / (Q_PER / 4) * Q_PER + product % (Q_PER / 4) * 2 + column / 2 + column % 2 * (Q_PER / 2);
    }
    RF_FN static void add(const u32* w, const u32* x, Sums& sums) { M::run(w[0], w[1], w[2], w[3], x[0], x[1], sums); }
    RF_FN static int skew(int row) { return (row & 3) * 8; }
};
#else
// Columns of W are the product's rows, two of a lane at a time; A's rows its columns.
struct Unit : UnitOfNvidia {
    static const int DEEP = 4, COLUMNS = 2, ROWS = 8;
    RF_FN static int given(int lane) { return lane / 4; }
    RF_FN static int row(int i, int lane) { return lane % 4 * 2 + i % 2; }
    RF_FN static constexpr int column(int i) { return i / 2; }
    RF_FN static constexpr int code(int product, int column) { return product * COLUMNS + column; }
    RF_FN static void add(const u32* w, const u32* x, Sums& sums) { M::run(w[0], w[2], w[1], w[3], x[0], x[1], sums); }
    RF_FN static int skew(int row) { return (row >> 1 & 3) * 8; }
};
#endif
#endif

static const int CODES = F_CODES, DEEP = Unit::DEEP, PRODUCTS = CODES / Unit::COLUMNS;
// Neighbouring k of a lane in a slab.
static const int RUN = DEEP > F_RUN ? DEEP : F_RUN, SLAB = RUN * Unit::GROUPS;
// Rows of words that a lane asks L2 for ahead of all else.
static const int ASKED = 8;
// Words of A that a lane reads at once.
static const int GIVEN = RUN < 8 ? RUN / 2 : 4;
static const int PARTS = F_WAVES / F_SIDE, COLUMNS = Unit::LANES * CODES, STRIP = F_SIDE * COLUMNS, ROWS = F_TILES * Unit::ROWS;
static const int THREADS = F_WAVES * ARCH_WAVE_SIZE;
static_assert(F_STAGES % F_FOLD == 0 && 32 % SLAB == 0 && RUN % DEEP == 0 && CODES % Unit::COLUMNS == 0, "whole slabs and products");

// --- codes as operands ---

#if RF_DEVICE_AMD
static const float GROWN = 1.0f;
template <int N> RF_FN Vec<u32, N> load_once(const u32* from) { return load<N>(from); }
// What makes the codes of a word positive.
static const u32 POSITIVE = Q_FORMAT > 2 ? 0 : 0xffffffffu / ((1u << Code::BITS) - 1) << (Code::BITS - 1);
// Code `i` of both halves, made positive, as an f16. It becomes the last bits of a mantissa, and what made it positive and the float
// besides are taken away again: exact.
RF_FN u32 decode_two(u32 halves, int i) {
    typedef _Float16 Two __attribute__((ext_vector_type(2)));
    const u32 half = 0x10001u << (Code::BITS - 1), mask = half * 2u - 0x10001u, power = 0x64006400u;
    const u32 sum = (halves >> i * Code::BITS & mask) | power;
    return bit_cast<u32>(bit_cast<Two>(sum) + bit_cast<Two>(power | half | 0x80008000u));
}
#else
// a · b + c of two floats.
RF_FN u32 fma_two(u32 a, u32 b, u32 c) {
    u32 sum;
    if (same<In, bf16>::value) asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    else asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
// Words that no other workgroup reads: L1 is left to A's rows, and L2 gets both halves of a line, of which a neighbour reads the other.
#define F_LOAD "ld.global.L1::no_allocate.L2::128B."
template <int N> RF_FN Vec<u32, N> load_once(const u32* from);
template <> RF_FN Vec<u32, 1> load_once<1>(const u32* from) {
    Vec<u32, 1> to;
    asm volatile(F_LOAD "u32 %0, [%1];" : "=r"(to[0]) : "l"(from));
    return to;
}
template <> RF_FN Vec<u32, 2> load_once<2>(const u32* from) {
    Vec<u32, 2> to;
    asm volatile(F_LOAD "v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from));
    return to;
}
template <> RF_FN Vec<u32, 4> load_once<4>(const u32* from) {
    Vec<u32, 4> to;
    asm volatile(F_LOAD "v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "l"(from));
    return to;
}
// The bytes that four numbers name, of a word (0 to 3) and of zeros (4 to 7).
RF_FN u32 bytes_of(u32 word, u32 numbers) {
    u32 bytes;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(bytes) : "r"(word), "r"(numbers));
    return bytes;
}
// NVRTC makes two instructions each of what follows.
RF_FN u32 mask_and_flip(u32 word, u32 mask, u32 flip) {
    u32 bits;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(bits) : "r"(word), "r"(mask), "r"(flip));
    return bits;
}
// Code `i` of both halves, divided by GROWN. The lowest bits of a half, those of the mantissa and the last one of the exponent, are a
// whole number of the type's least float, whether it is below the normal ones or not: so what a code is with what makes it positive, in
// either half of a byte. The largest power of two that there is brings it among the normal floats, and what made it positive is taken
// away with it: exact.
static const float GROWN = Q_FORMAT == 3 ? (same<In, bf16>::value ? 1.0f : 256.0f) : same<In, bf16>::value ? 64.0f : 512.0f;
// They are taken as they are.
static const u32 POSITIVE = 0;
RF_FN u32 decode_two(u32 halves, int i) {
    const bool wide = same<In, bf16>::value;
    const int at = i * Code::BITS % 8;
    const u32 half = 0x10001u << (Code::BITS - 1 + at), mask = (0x10001u << (Code::BITS + at)) - (0x10001u << at);
    const u32 largest = 0x10001u * (u32)(wide ? (254 - at) << 7 : (30 - at) << 10);
    const u32 positive = 0x10001u * (u32)(wide ? 0x8000 | (120 + Code::BITS) << 7 : 0x8000 | (5 + Code::BITS) << 10);
    return fma_two(mask_and_flip(halves >> i * Code::BITS / 8 * 8, mask, half), largest, positive);
}
#endif
// Two floats that the type holds exactly.
RF_FN u32 exact_two(float low, float high) {
    if (same<In, bf16>::value) return high_halves(bit_cast<u32>(low), bit_cast<u32>(high));
    return two_of<In>(low, high);
}

#if Q_FORMAT == 3
// E4M3 `i` of both halves, divided by GROWN. Moved to where the type has sign and size, it is 2^-8 of the number in f16 and 2^-120 in
// bf16, subnormals too. What is no number has all of the size's bits: one more reaches the sign's place, from where it becomes the
// exponent of none.
RF_FN u32 e4m3_two(u32 halves, int i) {
    const u32 codes = i == 0 ? halves << 8 : halves;
    const u32 size = codes & 0x7f007f00u, none = (size + 0x01000100u) & 0x80008000u, sign = codes & 0x80008000u;
    if (same<In, bf16>::value) {
        const u32 part = sign | size >> 4 | (none - (none >> 8));
#if RF_DEVICE_AMD
        return part;  // not asked for
#else
        return fma_two(part, 0x7b807b80u, 0x80008000u);
#endif
    }
    const u32 part = sign | (size | none) >> 1;
#if RF_DEVICE_AMD
    // Units of some architectures take subnormals for zeros.
    typedef _Float16 Two __attribute__((ext_vector_type(2)));
    return bit_cast<u32>(bit_cast<Two>(part) * (Two){256, 256});
#else
    return part;
#endif
}
#endif

// How codes become operands: whole numbers and E4M3 two at a time where the type is computed with so, else whole numbers as floats of
// 32 bits, whose upper halves a bf16 is; any others one by one.
enum { BY_TWO, BY_FLOATS, BY_ONE };
static const int WAY = Q_FORMAT > 3 ? BY_ONE : !RF_DEVICE_AMD || same<In, f16>::value ? BY_TWO : Q_FORMAT > 2 ? BY_ONE : BY_FLOATS;
RF_FN u32 two_of_codes(u32 halves, int i) {
#if Q_FORMAT == 3
    return e4m3_two(halves, i);
#else
    return decode_two(halves, i);
#endif
}
static const int PER_HALF = Q_PER / 2;
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
        return exact_two(both[0], both[1]);
#else
        return exact_two(bit_cast<float>(first) + away, bit_cast<float>(next) + away);
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
        return exact_two(decode_at(words[2 * p], code), decode_at(words[2 * p + 1], code));
    }
};

// What a product takes of a lane's words.
#if F_SPREAD
template <int> struct Halves;
template <> struct Halves<BY_TWO> {
    RF_FN static u32 of(const Constants<BY_TWO>&, u32 word, int i) { return two_of_codes(word, i); }
};
template <> struct Halves<BY_ONE> {
    RF_FN static u32 of(const Constants<BY_ONE>&, u32 word, int i) {
        return exact_two(decode_at(word, i), decode_at(word, i + PER_HALF));
    }
};
struct Operand {
    static const int WORDS = 4;
    u32 words[DEEP];

    template <class Words> RF_FN void start(const Words* rows, int word) {
#pragma unroll
        for (int i = 0; i < DEEP; ++i) words[i] = rows[i][word];
    }
    RF_FN void of(const Constants<WAY>& constants, int product, u32* w) const {
#pragma unroll
        for (int n = 0; n < WORDS; ++n) w[n] = Halves<WAY>::of(constants, words[n / 2], product * 2 + n % 2);
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
#if F_SCALE == RF_SCALE_F32
typedef float Scale;
#elif F_SCALE == RF_SCALE_F16
typedef f16 Scale;
#elif F_SCALE == RF_SCALE_BF16
typedef bf16 Scale;
#else
typedef u8 Scale;
#endif
// The scales of a lane's columns in a block of K, read when the block begins.
struct Scales {
    static const int VECTOR = CODES * (int)sizeof(Scale) < 16 ? CODES : 16 / (int)sizeof(Scale);
    Vec<Scale, VECTOR> held[CODES / VECTOR];
    u32 block;

    RF_FN void start(const QMatmulArgs& g, u32 k, u32 col) {
        block = g.block_k.divide(k);
#if F_BESIDE
        const Scale* from = (const Scale*)g.scales + (i64)block * g.s_k + col;
#pragma unroll
        for (int i = 0; i < CODES / VECTOR; ++i) held[i] = load<VECTOR>(from + i * VECTOR);
#endif
    }
    RF_FN float of(const QMatmulArgs& g, u32 col, int i) const {
#if F_BESIDE
        const Scale one = held[i / VECTOR][i % VECTOR];
#if F_SCALE == RF_SCALE_E8M0
        return e8m0_decode(one);
#elif F_SCALE == RF_SCALE_E4M3
        return E4M3::decode(one);
#else
        return cast<float>(one);
#endif
#else
        const i64 at = (i64)block * g.s_k + g.block_n.divide(col + i) * g.s_n;
        return read_scale(g.scales, at, F_SCALE);
#endif
    }
};
#endif

// --- a wave's part ---

// What a lane has of a slab: rows of words, and the same k of A's rows.
struct SlabWords {
    Vec<u32, F_WIDE> at[RUN];
};
struct SlabRows {
    Vec<u32, GIVEN> at[F_TILES][RUN / 2 / GIVEN];
};
struct Part {
    Unit::Sums sum[F_TILES][PRODUCTS];
    Constants<WAY> constants;
#if !Q_LATE
    Unit::Sums total[F_TILES][PRODUCTS];
    Scales scales;
#endif
#if Q_GROUPED == 3
    const In* a[F_TILES];
#else
    const In* a;
#endif
    // From one row of words to the next; where a lane's are in those of a slab.
    u32 row_bytes, word_bytes;
    u32 row, col, slab, end;
#if F_SPREAD
    // Bytes of two k of A's row and of zeros that are the operands.
    u32 first_k, second_k;
#endif
    float global;

    RF_FN void start(const QMatmulArgs& g, const RowsOfA& rows, u32 first_row, u32 wave, u32 lane_id) {
        const u32 first = group_z() * (g.slice_k / SLAB), last = first + g.slice_k / SLAB, most = g.k / SLAB;
        const u32 slabs = (last < most ? last : most) - first, part = wave / F_SIDE;
        slab = first + slabs / F_FOLD * part / PARTS * F_FOLD;
        end = first + slabs / F_FOLD * (part + 1) / PARTS * F_FOLD;
        col = group_x() * STRIP + wave % F_SIDE * COLUMNS + Unit::place(lane_id) * CODES;
        // Past the end the first columns are read and forgotten.
        col = col < g.n ? col : 0;
        row = first_row + Unit::given(lane_id);
#if F_SPREAD
        const bool is_low = Unit::place(lane_id) % 2 == 0;
        first_k = is_low ? 0x4410 : 0x1044;
        second_k = is_low ? 0x4432 : 0x3244;
#endif
        const u32 k = Unit::group(lane_id) * RUN;
        row_bytes = (u32)g.w_k * 4;
        word_bytes = k * row_bytes + col / Q_PER * 4;
#if Q_GROUPED == 3
#pragma unroll
        for (int t = 0; t < F_TILES; ++t) {
            const u32 own = row + t * Unit::ROWS;
            a[t] = g.a + (i64)(own < g.m ? rows.at(own) : 0) * g.a_row + k;
        }
#else
        a = g.a + (i64)row * g.a_row + k;
#endif
#pragma unroll
        for (int i = 0; i < F_TILES * PRODUCTS; ++i) Unit::clear(sum[i / PRODUCTS][i % PRODUCTS]);
#if !Q_LATE
#pragma unroll
        for (int i = 0; i < F_TILES * PRODUCTS; ++i) Unit::clear(total[i / PRODUCTS][i % PRODUCTS]);
#endif
    }
    // Asks L2 for the first words, which may be done before the launch ahead has ended: of a lane group's row a lane for each 32 bytes.
    RF_FN void ask(const QMatmulArgs& g) const {
        if (word_bytes % 32 != 0) return;
#pragma unroll
        for (int i = 0; i < ASKED; ++i) {
            const u32 of = slab + i / RUN;
            if (of < end) ask_l2((const char*)g.words + (of * SLAB * row_bytes + word_bytes + i % RUN * row_bytes));
        }
    }
    // The first accesses.
    RF_FN void begin(const QMatmulArgs& g) {
        global = global_of(g);
#if !Q_LATE
        if (slab < end) scales.start(g, slab * SLAB, col);
#endif
    }
    RF_FN void fetch(const QMatmulArgs& g, u32 of, SlabWords& words) const {
        if (of >= end) return;
        const u32 at = of * SLAB * row_bytes + word_bytes;
#pragma unroll
        for (int i = 0; i < RUN; ++i) words.at[i] = load_once<F_WIDE>((const u32*)((const char*)g.words + (at + i * row_bytes)));
    }
    RF_FN void fetch(const QMatmulArgs& g, u32 of, SlabRows& x) const {
        if (of >= end) return;
#pragma unroll
        for (int t = 0; t < F_TILES; ++t)
#pragma unroll
            for (int i = 0; i < RUN / 2 / GIVEN; ++i) {
#if Q_GROUPED == 3
                const In* at = a[t] + of * SLAB + i * 2 * GIVEN;
#else
                const In* at = a + (i64)(t * Unit::ROWS) * g.a_row + of * SLAB + i * 2 * GIVEN;
#endif
                if (row + t * Unit::ROWS < g.m) x.at[t][i] = load<GIVEN>((const u32*)at);
                else __builtin_memset(&x.at[t][i], 0, 4 * GIVEN);
            }
    }
    // What a product takes of A's row number `t`, of a step's k.
    RF_FN void given(const SlabRows& rows, int t, int step, u32* x) const {
#if F_SPREAD
        x[0] = bytes_of(rows.at[t][0][step], first_k);
        x[1] = bytes_of(rows.at[t][0][step], second_k);
#else
#pragma unroll
        for (int p = 0; p < DEEP / 2; ++p) {
            const int at = step * (DEEP / 2) + p;
            x[p] = rows.at[t][at / GIVEN][at % GIVEN];
        }
#endif
    }
    RF_FN void multiply(const SlabWords& words, const SlabRows& rows) {
#pragma unroll
        for (int step = 0; step < RUN / DEEP; ++step) {
            u32 x[F_TILES][DEEP > 2 ? DEEP / 2 : 2];
#pragma unroll
            for (int t = 0; t < F_TILES; ++t) given(rows, t, step, x[t]);
#pragma unroll
            for (int word = 0; word < F_WIDE; ++word) {
                Operand operand;
                operand.start(words.at + step * DEEP, word);
#pragma unroll
                for (int p = 0; p < Q_PER / Unit::COLUMNS; ++p) {
                    u32 w[Operand::WORDS];
                    operand.of(constants, p, w);
#pragma unroll
                    for (int t = 0; t < F_TILES; ++t) Unit::add(w, x[t], sum[t][word * (Q_PER / Unit::COLUMNS) + p]);
                }
            }
        }
        ++slab;
    }
    // At the end of a block of scales: what has been summed is scaled.
    RF_FN void fold(const QMatmulArgs& g) {
#if !Q_LATE
        if (slab < end && g.block_k.divide(slab * SLAB) == scales.block) return;
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p) {
            float scale[Unit::COLUMNS];
#pragma unroll
            for (int c = 0; c < Unit::COLUMNS; ++c) scale[c] = scales.of(g, col, Unit::code(p, c));
#pragma unroll
            for (int t = 0; t < F_TILES; ++t) {
#pragma unroll
                for (int i = 0; i < Unit::VALUES; ++i)
                    total[t][p][i] = rf::fma(scale[Unit::column(i)], sum[t][p][i], total[t][p][i]);
                Unit::clear(sum[t][p]);
            }
        }
        if (slab < end) scales.start(g, slab * SLAB, col);
#endif
    }
    RF_FN void run(const QMatmulArgs& g) {
        SlabWords words[F_STAGES];
        SlabRows rows[F_STAGES];
#pragma unroll
        for (int i = 0; i < F_STAGES; ++i) {
            fetch(g, slab + i, words[i]);
            fetch(g, slab + i, rows[i]);
        }
#pragma unroll 1
        while (slab < end) {
#pragma unroll
            for (int i = 0; i < F_STAGES; ++i) {
                if (i > 0 && slab >= end) break;
                multiply(words[i], rows[i]);
                if (i % F_FOLD == F_FOLD - 1) fold(g);
                fetch(g, slab + F_STAGES - 1, words[i]);
                fetch(g, slab + F_STAGES - 1, rows[i]);
            }
        }
    }
    RF_FN float value(int t, int p, int i) const {
        const float grown = WAY == BY_TWO ? GROWN : 1.0f;
#if Q_LATE
        return sum[t][p][i] * grown;
#else
        return total[t][p][i] * (global * grown);
#endif
    }
};

// --- the sum over the waves ---

// A row of C in LDS: STEP floats for each of a lane's codes, whose lanes lie side by side. So lanes store without a conflict, and
// neighbouring columns are read in banks of their own.
static const int BANKS = CODES < 32 ? 32 / CODES : 1, STEP = (((Unit::LANES + BANKS - 1) / BANKS) | 1) * BANKS;
static const int SPAN = (CODES * STEP + 31) / 32 * 32, LINE = F_SIDE * SPAN + 32, KEPT = F_KEPT == 1 ? 1 : ROWS;
// Waves along K that LDS has room for at a time.
static const int ROOM = 8192 / (KEPT * LINE), TURN = ROOM < 1 ? 1 : ROOM < PARTS ? ROOM : PARTS;
static const int OUTPUTS = KEPT * STRIP, ROUNDS = (OUTPUTS + THREADS - 1) / THREADS;

extern "C" __global__ RF_WAITS_ITSELF __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE) void few(QMatmulArgs g) {
    __shared__ float lds[TURN][KEPT * LINE];
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), lane_id = thread_x() % ARCH_WAVE_SIZE;
    const u32 first_col = group_x() * STRIP;
    u32 first_row;
    RowsOfA rows;
    Part part;
#if !Q_GROUPED
    go_to_tile<ROWS>(g, rows, first_row);
    part.start(g, rows, first_row, wave, lane_id);
    part.ask(g);
#endif
    wait_for_launches();
#if Q_GROUPED
    // Which rows are a group is what the launch ahead says.
    if (!go_to_tile<ROWS>(g, rows, first_row)) return;
    part.start(g, rows, first_row, wave, lane_id);
#endif
    let_launches_begin();
    part.begin(g);
    part.run(g);
    float out[ROUNDS];
#pragma unroll
    for (int o = 0; o < ROUNDS; ++o) out[o] = 0.0f;
    const int place = Unit::place(lane_id), side = wave % F_SIDE;
#pragma unroll 1
    for (int turn = 0; turn < PARTS; turn += TURN) {
        if (turn > 0) barrier();
        const int at = (int)(wave / F_SIDE) - turn;
        if (at >= 0 && at < TURN) {
#pragma unroll
            for (int n = 0; n < F_TILES * PRODUCTS * Unit::VALUES; ++n) {
                const int i = n % Unit::VALUES, p = n / Unit::VALUES % PRODUCTS, t = n / Unit::VALUES / PRODUCTS;
                const int row = t * Unit::ROWS + Unit::row(i, lane_id);
                // What no lane has of a single row is known without its number.
                if (KEPT == 1 && i % (Unit::VALUES / Unit::COLUMNS) != 0) continue;
                if (KEPT > 1 || row == 0)
                    lds[at][row * LINE + Unit::skew(row) + side * SPAN + Unit::code(p, Unit::column(i)) * STEP + place] =
                        part.value(t, p, i);
            }
        }
        barrier();
#pragma unroll
        for (int o = 0; o < ROUNDS; ++o) {
            const int n = o * THREADS + (int)thread_x(), row = n / STRIP, c = n % STRIP;
            if (n >= OUTPUTS || first_row + row >= g.m) continue;
            const int from = row * LINE + Unit::skew(row) + c / COLUMNS * SPAN + c % CODES * STEP + c % COLUMNS / CODES;
#pragma unroll
            for (int w = 0; w < TURN; ++w)
                if (turn + w < PARTS) out[o] += lds[w][from];
        }
    }
#pragma unroll
    for (int o = 0; o < ROUNDS; ++o) {
        const int n = o * THREADS + (int)thread_x(), row = n / STRIP, c = n % STRIP;
        if (n < OUTPUTS && first_row + row < g.m && first_col + c < g.n)
            finish(g, group_z(), first_row + row, first_col + c, out[o], global_of(g));
    }
}
