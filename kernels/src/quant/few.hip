// few: C = A W for few rows of A, whose codes go from memory to operands of the matrix unit in registers of one lane
//
// Shapes : as coded.h says, words of 32 bits along N
// Grid   : few (ceil(N / F_STRIP), ceil(M / F_ROWS), slices)               one workgroup per strip of columns, rows and slice of K
// Block  : (F_WAVES * ARCH_WAVE_SIZE, 1, 1)                                F_SIDE of them side by side along N, the others along K
// LDS    : TURN * KEPT * LINE floats
// Needs  : A and C of 16 bits, K % 32 == 0, slices of whole 32 k, rows of A contiguous and aligned to 16 bytes, words of a row
//          neighbours, rows of them whole, aligned vectors of F_WIDE words, less than 2^24 words apart, scales' blocks along K multiples of 32; F_BESIDE:
//          scales of neighbouring columns side by side, in aligned vectors; C apart from all inputs        checked by the launcher
// Numeric: codes enter exactly, the sum over a block of scales, or what a wave has of it, is multiplied by the scale in f32 and added
//          in ascending order of K; a wave takes K's multiples of F_SLAB in its part, waves are added in ascending order. Within a slab
//          the order is that of `Mma`, of which a lane group's operands are neighbouring k. Q_LATE: scales multiply the last sum.
//
// Macros : those of coded.h; F_WIDE words of a lane in a row; F_TILES tiles of rows of A, of 8 on NVIDIA's unit, 16 on AMD's; F_KEPT
//          rows of C that there may be: 1, or all; F_WAVES, F_SIDE; F_BESIDE; F_SCALE a number of quant.h
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
    RF_FN static int row(int i, int lane) { return M::row(i, lane); }
    RF_FN static constexpr int column(int) { return 0; }
    RF_FN static void clear(Sums& sums) { sums = 0; }
    RF_FN static void add(const u32 (&w)[1][DEEP / 2], const u32* x, Sums& sums) {
        M::Operand of_x, of_w;
        __builtin_memcpy(&of_x, x, sizeof(of_x));
        __builtin_memcpy(&of_w, w[0], sizeof(of_w));
        sums = M::run(of_x, of_w, sums);
    }
    // Moves rows of C apart in LDS where lanes of a wave store several at once.
    RF_FN static int skew(int row) {
        if (ARCH_MATRIX == ARCH_MATRIX_MFMA) return ((row >> 2 ^ row >> 3) & 1) * 16;
        return (TWICE ? row & 1 : row >> 3 & 1) * 16;
    }
};
#else
// Columns of W are the product's rows, two of a lane at a time; A's rows its columns.
struct Unit {
    typedef MmaNarrow<In> M;
    typedef M::Accumulator Sums;
    static const int LANES = 8, GROUPS = 4, DEEP = 4, COLUMNS = 2, ROWS = 8, VALUES = 4;
    RF_FN static int place(int lane) { return lane / 4; }
    RF_FN static int group(int lane) { return lane % 4; }
    RF_FN static int row(int i, int lane) { return lane % 4 * 2 + i % 2; }
    RF_FN static constexpr int column(int i) { return i / 2; }
    RF_FN static void clear(Sums& sums) {
#pragma unroll
        for (int i = 0; i < VALUES; ++i) sums[i] = 0.0f;
    }
    RF_FN static void add(const u32 (&w)[2][2], const u32* x, Sums& sums) {
        M::run(w[0][0], w[1][0], w[0][1], w[1][1], x[0], x[1], sums);
    }
    RF_FN static int skew(int row) { return (row >> 1 & 3) * 8; }
};
#endif

static const int CODES = F_CODES, DEEP = Unit::DEEP, PRODUCTS = CODES / Unit::COLUMNS;
// Neighbouring k of a lane in a slab: 16 bytes of A at least. Two slabs are under way at a time.
static const int RUN = DEEP > 8 ? DEEP : 8, SLAB = RUN * Unit::GROUPS;
static const int PARTS = F_WAVES / F_SIDE, COLUMNS = Unit::LANES * CODES, STRIP = F_SIDE * COLUMNS, ROWS = F_TILES * Unit::ROWS;
static const int THREADS = F_WAVES * ARCH_WAVE_SIZE;
static_assert(32 % SLAB == 0 && RUN % DEEP == 0 && CODES % Unit::COLUMNS == 0, "whole slabs and products");

// --- codes as operands ---

#if RF_DEVICE_AMD
static const bool PACKED = Q_FORMAT <= 2 && same<In, f16>::value;
// a + b of two floats.
RF_FN u32 add_two(u32 a, u32 b) {
    typedef _Float16 Two __attribute__((ext_vector_type(2)));
    return bit_cast<u32>(bit_cast<Two>(a) + bit_cast<Two>(b));
}
RF_FN u32 mask_and_flip(u32 word, u32 mask, u32 flip) { return (word & mask) ^ flip; }
RF_FN u32 low_halves(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x05040100u); }
RF_FN u32 high_halves(u32 a, u32 b) { return __builtin_amdgcn_perm(b, a, 0x07060302u); }
#else
static const bool PACKED = Q_FORMAT <= 2;
RF_FN u32 add_two(u32 a, u32 b) {
    u32 sum;
    if (same<In, bf16>::value) asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80u), "r"(b));
    else asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}
// NVRTC makes two instructions each of what follows.
RF_FN u32 mask_and_flip(u32 word, u32 mask, u32 flip) {
    u32 bits;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(bits) : "r"(word), "r"(mask), "r"(flip));
    return bits;
}
RF_FN u32 low_halves(u32 a, u32 b) {
    u32 halves;
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(halves) : "r"(a), "r"(b));
    return halves;
}
RF_FN u32 high_halves(u32 a, u32 b) {
    u32 halves;
    asm("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(halves) : "r"(a), "r"(b));
    return halves;
}
#endif
// Code `i` of both halves. A whole number becomes the last bits of a float's mantissa, what makes it positive and the float are taken
// away again: both exact. A bf16 has seven bits beside the leading one, so that the eighth of a code goes with what is taken away.
RF_FN u32 decode_two(u32 halves, int i) {
    const bool eight = same<In, bf16>::value && Code::BITS == 8;
    const u32 one = same<In, bf16>::value ? 0x43004300u : 0x64006400u, minus = 0x80008000u;
    const u32 half = 0x10001u << (Code::BITS - 1), mask = half * 2u - 0x10001u;
    halves >>= i * Code::BITS;
    if (eight) return add_two(mask_and_flip(halves, 0x007f007fu, one), mask_and_flip(halves, half, one | minus));
    return add_two(mask_and_flip(halves, mask, one | half), one | half | minus);
}
// Two floats that the type holds exactly.
RF_FN u32 exact_two(float low, float high) {
    if (same<In, bf16>::value) return high_halves(bit_cast<u32>(low), bit_cast<u32>(high));
    return two_of<In>(low, high);
}

// How codes become operands: whole numbers two at a time where the unit's type is added so, else as floats of 32 bits, whose upper
// halves a bf16 is; any others one by one.
enum { BY_TWO, BY_FLOATS, BY_ONE };
static const int WAY = PACKED ? BY_TWO : Q_FORMAT <= 2 ? BY_FLOATS : BY_ONE;
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
            low[p] = low_halves(rows[2 * p][word], rows[2 * p + 1][word]);
            high[p] = high_halves(rows[2 * p][word], rows[2 * p + 1][word]);
        }
    }
    RF_FN u32 pair(const Constants<BY_TWO>&, int code, int p) const {
        return code < PER_HALF ? decode_two(low[p], code) : decode_two(high[p], code - PER_HALF);
    }
};
template <> struct Decoder<BY_FLOATS> {
    u32 low[DEEP], high[DEEP];

    template <class Words> RF_FN void start(const Words* rows, int word) {
#pragma unroll
        for (int i = 0; i < DEEP; ++i) {
            // What makes codes positive.
            low[i] = rows[i][word] ^ 0xffffffffu / MASK * HALF;
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
    RF_FN float of(const QMatmulArgs& g, float global, u32 col, int i) const {
#if F_BESIDE
        const Scale one = held[i / VECTOR][i % VECTOR];
#if F_SCALE == RF_SCALE_E8M0
        return global * e8m0_decode(one);
#elif F_SCALE == RF_SCALE_E4M3
        return global * E4M3::decode(one);
#else
        return global * cast<float>(one);
#endif
#else
        const i64 at = (i64)block * g.s_k + g.block_n.divide(col + i) * g.s_n;
        return global * read_scale(g.scales, at, F_SCALE);
#endif
    }
};
#endif

// --- a wave's part ---

// What a lane has of a slab: rows of words, and the same k of A's rows.
struct Stage {
    Vec<u32, F_WIDE> words[RUN];
    Vec<u32, 4> x[F_TILES][RUN / 8];
};
struct Part {
    Unit::Sums sum[F_TILES][PRODUCTS];
    Constants<WAY> constants;
#if !Q_LATE
    Unit::Sums total[F_TILES][PRODUCTS];
    Scales scales;
#endif
    const In* a;
    // Of a lane's words in those of a slab.
    u32 word_bytes;
    u32 row, col, slab, end;
    float global;

    RF_FN void start(const QMatmulArgs& g, u32 first_row, u32 wave, u32 lane_id) {
        const u32 first = group_z() * (g.slice_k / SLAB), last = first + g.slice_k / SLAB, most = g.k / SLAB;
        const u32 slabs = (last < most ? last : most) - first, part = wave / F_SIDE;
        slab = first + slabs * part / PARTS;
        end = first + slabs * (part + 1) / PARTS;
        col = group_x() * STRIP + wave % F_SIDE * COLUMNS + Unit::place(lane_id) * CODES;
        // Past the end the first columns are read and forgotten.
        col = col < g.n ? col : 0;
        row = first_row + Unit::place(lane_id);
        global = global_of(g);
        const u32 k = Unit::group(lane_id) * RUN;
        word_bytes = (k * (u32)g.w_k + col / Q_PER) * 4;
        a = g.a + (i64)row * g.a_row + k;
#pragma unroll
        for (int i = 0; i < F_TILES * PRODUCTS; ++i) Unit::clear(sum[i / PRODUCTS][i % PRODUCTS]);
#if !Q_LATE
#pragma unroll
        for (int i = 0; i < F_TILES * PRODUCTS; ++i) Unit::clear(total[i / PRODUCTS][i % PRODUCTS]);
        if (slab < end) scales.start(g, slab * SLAB, col);
#endif
    }
    RF_FN void fetch(const QMatmulArgs& g, u32 of, Stage& stage) const {
        if (of >= end) return;
        const char* from = (const char*)(g.words + (i64)(of * SLAB) * g.w_k);
#pragma unroll
        for (int i = 0; i < RUN; ++i) stage.words[i] = load<F_WIDE>((const u32*)(from + i * g.w_k * 4 + word_bytes));
#pragma unroll
        for (int t = 0; t < F_TILES; ++t)
#pragma unroll
            for (int i = 0; i < RUN / 8; ++i) {
                const In* at = a + (i64)(t * Unit::ROWS) * g.a_row + of * SLAB + i * 8;
                if (row + t * Unit::ROWS < g.m) stage.x[t][i] = load<4>((const u32*)at);
                else __builtin_memset(&stage.x[t][i], 0, 16);
            }
    }
    RF_FN void multiply(const QMatmulArgs& g, const Stage& stage) {
#pragma unroll
        for (int step = 0; step < RUN / DEEP; ++step) {
            u32 x[F_TILES][DEEP / 2];
#pragma unroll
            for (int t = 0; t < F_TILES; ++t)
#pragma unroll
                for (int p = 0; p < DEEP / 2; ++p) {
                    const int at = step * (DEEP / 2) + p;
                    x[t][p] = stage.x[t][at / 4][at % 4];
                }
#pragma unroll
            for (int word = 0; word < F_WIDE; ++word) {
                Decoder<WAY> decoder;
                decoder.start(stage.words + step * DEEP, word);
#pragma unroll
                for (int code = 0; code < Q_PER; code += Unit::COLUMNS) {
                    u32 w[Unit::COLUMNS][DEEP / 2];
#pragma unroll
                    for (int p = 0; p < Unit::COLUMNS * (DEEP / 2); ++p)
                        w[p / (DEEP / 2)][p % (DEEP / 2)] = decoder.pair(constants, code + p / (DEEP / 2), p % (DEEP / 2));
#pragma unroll
                    for (int t = 0; t < F_TILES; ++t) Unit::add(w, x[t], sum[t][(word * Q_PER + code) / Unit::COLUMNS]);
                }
            }
        }
        ++slab;
        fold(g);
    }
    // At the end of a block of scales: what has been summed is scaled.
    RF_FN void fold(const QMatmulArgs& g) {
#if !Q_LATE
        if (slab < end && g.block_k.divide(slab * SLAB) == scales.block) return;
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p) {
            float scale[Unit::COLUMNS];
#pragma unroll
            for (int c = 0; c < Unit::COLUMNS; ++c) scale[c] = scales.of(g, global, col, p * Unit::COLUMNS + c);
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
        Stage even, odd;
        fetch(g, slab, even);
        fetch(g, slab + 1, odd);
#pragma unroll 1
        while (slab < end) {
            multiply(g, even);
            fetch(g, slab + 1, even);
            if (slab >= end) break;
            multiply(g, odd);
            fetch(g, slab + 1, odd);
        }
    }
    RF_FN float value(int t, int p, int i) const {
#if Q_LATE
        return sum[t][p][i];
#else
        return total[t][p][i];
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

extern "C" __global__ __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE) void few(QMatmulArgs g) {
    __shared__ float lds[TURN][KEPT * LINE];
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), lane_id = thread_x() % ARCH_WAVE_SIZE;
    const u32 first_row = group_y() * ROWS, first_col = group_x() * STRIP;
    Part part;
    part.start(g, first_row, wave, lane_id);
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
                    lds[at][row * LINE + Unit::skew(row) + side * SPAN + (p * Unit::COLUMNS + Unit::column(i)) * STEP + place] =
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
