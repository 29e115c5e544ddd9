// gguf_matrix.h: blocks of GGUF as lanes of the matrix unit take them. Stands behind gguf.h and few_unit.h.
//
// A slab is what a wave takes of K at once: 128 weights of a K type, a block of an older one. It is RUNS runs of RUN weights, each under
// one scale and offset, of which every group of lanes has as many. Codes with what makes them positive, below 128, are the last bits of a
// float's mantissa: two weights an instruction. What that adds to them is taken away from the sum, of which it is BASE times the sum of
// A's elements, exactly as the matrix unit computes it of weights that are all -BASE.
//
// Macros : those of coded.h; Q_GGUF, a number of gguf.h; F_CODES columns of a lane; F_TILES tiles of rows of A; F_WAVES, F_SIDE of them
//          side by side along N, the others along K
static_assert(sizeof(In) == 2, "checked by the launcher");

// Columns of a lane, which lie Unit::LANES apart, of a wave, and of a workgroup.
static const int CODES = F_CODES, LANE_CODES = CODES, COLUMNS = Unit::LANES * CODES, STRIP = F_SIDE * COLUMNS;
static const int DEEP = Unit::DEEP, PRODUCTS = CODES / Unit::COLUMNS, GROUPS = Unit::GROUPS;
static const int PARTS = F_WAVES / F_SIDE;
static const int WAVE_ROWS = F_TILES * Unit::ROWS, ROWS = WAVE_ROWS, THREADS = F_WAVES * ARCH_WAVE_SIZE;
static_assert(CODES % Unit::COLUMNS == 0, "whole products");

// What `few_sums.h` asks for and these codes have no use for.
template <int> struct Constants {};
static const int WAY = 0;
static constexpr float GROWN_SUMS = 1.0f;

// Bytes of a block, and the lowest bits of their address, which the compiler may know without it.
struct Bytes {
    const u8* at;
    u32 low;
    RF_FN Bytes operator+(int bytes) const { return {at + bytes, low + (u32)bytes}; }
    template <class T> RF_FN const T& as(int bytes) const { return *(const T*)(at + bytes); }
};
RF_FN Bytes bytes_at(const u8* at) { return {at, (u32)(u64)at}; }
// Where a lane reads: at a multiple of ALIGN bytes, from which all that it reads is a multiple of four away. Where ALIGN is 2, whole words
// are read and the last two bytes, as `FourWords` does.
template <int ALIGN> struct From {
    const u8 *at, *whole;
    u32 ahead;
    RF_FN From(Bytes from) : at(from.at), ahead(ALIGN == 2 ? from.low & 2u : 0) { whole = at - ahead; }
    RF_FN u32 before() const { return ahead; }
};
// N words of a lane.
template <int ALIGN, int N> struct LaneWords {
    u32 words[N];
    RF_FN void fetch(From<ALIGN> from, int bytes) {
        const int wide = ALIGN < 16 ? 1 : N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1;
#pragma unroll
        for (int i = 0; i < N; i += wide) {
            const Vec<u32, wide> some = load<wide>((const u32*)(from.at + bytes) + i);
#pragma unroll
            for (int j = 0; j < wide; ++j) words[i + j] = some[j];
        }
    }
    RF_FN u32 get(int i, u32) const { return words[i]; }
};
template <int N> struct LaneWords<2, N> {
    u32 words[N + 1];
    RF_FN void fetch(From<2> from, int bytes) {
#pragma unroll
        for (int i = 0; i < N; ++i) words[i] = ((const u32*)(from.whole + bytes))[i];
        words[N] = ((const u16*)(from.at + bytes))[2 * N - 1];
    }
    // `before`: that of where they were read.
    RF_FN u32 get(int i, u32 before) const {
#if RF_DEVICE_AMD
        return __builtin_amdgcn_alignbyte(words[i + 1], words[i], before);
#else
        return __funnelshift_r(words[i], words[i + 1], before * 8);
#endif
    }
};

// A float of f16 and what multiplies bytes by it: byte · `by` + `moved`, exact. The byte stands in the mantissa of 2^15.
struct Factor {
    float by, moved;
    RF_FN void start(float f, int less) {
        by = f;
        moved = f * -(32768.0f + (float)less);
    }
    RF_FN float times(u32 word, int i, u32 power) const {
        const u32 bits = i == 0   ? pick_bytes<4, 0, 4, 7>(word, power)
                         : i == 1 ? pick_bytes<4, 1, 4, 7>(word, power)
                         : i == 2 ? pick_bytes<4, 2, 4, 7>(word, power)
                                  : pick_bytes<4, 3, 4, 7>(word, power);
        return rf::fma(bit_cast<float>(bits), by, moved);
    }
};
static const u32 POWER = 0x47000000u;

// --- what a lane has of a column in a slab ---
//
// `fetch`: the accesses, of part `part` of a block. `start`: what is made of them once. `word`: four codes of a run with MOVED added.
// `scale` of a run, and `offset`, divided by -BASE. SPLIT: a lane has the same k of both halves of a run; else its k are neighbours.
template <int TYPE> struct Held;
static const bool WIDE = same<In, bf16>::value;
#if RF_DEVICE_AMD
#define F_SIGNED 0
#else
// A byte of Q8_0 is a bf16 by a sum of two, which leaves nothing to be taken away.
#define F_SIGNED (Q_GGUF == Q8_0 && WIDE)
#endif
// What is added to codes where weights have an offset.
static constexpr float BASE = WIDE ? 128.0f : 1024.0f;

// The older types: HEADER bytes of scale and offset, then the fifth bits if FIFTH, then the codes, of which MINUS stands for 0.
template <int HEADER, bool FIFTH, int MINUS, int ALIGN> struct HeldHalves {
    static const int PARTS = 1, RUNS = 1, RUN = 32, MOVED = MINUS, WORDS = 4 / GROUPS;
    static const bool OFFSET = HEADER == 4, SPLIT = true;
    LaneWords<ALIGN, WORDS> codes;
    LaneWords<ALIGN, 1> fifths;
    u32 before, first;
    f16 d, least;

    RF_FN void fetch(Bytes block, int, int group) {
        const From<ALIGN> own(block + HEADER + 4 * WORDS * group);
        before = own.before();
        first = 4 * WORDS * group;
        codes.fetch(own, FIFTH ? 4 : 0);
        if (FIFTH) fifths.fetch(From<ALIGN>(block + HEADER), 0);
        d = block.as<f16>(0);
        if (OFFSET) least = block.as<f16>(2);
    }
    RF_FN void start() {}
    RF_FN u32 word(int, int i) const {
        const int half = i / WORDS, at = i % WORDS;
        const u32 four = codes.get(at, before) >> (4 * half) & 0x0f0f0f0fu;
        if (!FIFTH) return four;
        // Four bits, each to a byte.
        const u32 bits = fifths.get(0, before) >> (first + 4 * at + 16 * half) & 15u;
        return four | (bits * 0x00204081u & 0x01010101u) << 4;
    }
    RF_FN float scale(int, u32) const { return to_f32(d); }
    RF_FN float offset(int, u32) const { return OFFSET ? to_f32(least) * (-1.0f / BASE) : 0.0f; }
};
template <> struct Held<Q4_0> : HeldHalves<2, false, 8, 2> {};
template <> struct Held<Q4_1> : HeldHalves<4, false, 0, 4> {};
template <> struct Held<Q5_0> : HeldHalves<2, true, 16, 2> {};
template <> struct Held<Q5_1> : HeldHalves<4, true, 0, 4> {};

// Q4_K and Q5_K.
template <bool FIFTH> struct HeldFourBits {
    static const int PARTS = 2, RUNS = 4, RUN = 32, MOVED = 0, WORDS = 8 / GROUPS;
    static const bool OFFSET = true, SPLIT = false;
    Vec<u32, 4> header;
    LaneWords<16, WORDS> codes[2], fifths;
    Factor scales, leasts;
    u32 scale_bytes, least_bytes;
    int part;

    RF_FN void fetch(Bytes block, int of, int group) {
        part = of;
        header = load<4>(&block.as<u32>(0));
        const From<16> own(block + 4 * WORDS * group), codes_of(block + (4 * WORDS * group + 64 * part));
        if (FIFTH) fifths.fetch(own, 16);
#pragma unroll
        for (int unit = 0; unit < 2; ++unit) codes[unit].fetch(codes_of, (FIFTH ? 48 : 16) + 32 * unit);
    }
    RF_FN void start() {
        scales.start(to_f32(bit_cast<f16>((u16)header[0])), 0);
        leasts.start(to_f32(bit_cast<f16>((u16)(header[0] >> 16))) * (1.0f / BASE), 0);
        scale_bytes = part == 0 ? header[1] & 0x3f3f3f3fu : (header[3] & 0x0f0f0f0fu) | (header[1] >> 2 & 0x30303030u);
        least_bytes = part == 0 ? header[2] & 0x3f3f3f3fu : (header[3] >> 4 & 0x0f0f0f0fu) | (header[2] >> 2 & 0x30303030u);
    }
    RF_FN u32 word(int run, int i) const {
        const u32 four = codes[run / 2].get(i, 0) >> (4 * (run % 2)) & 0x0f0f0f0fu;
        return FIFTH ? four | (fifths.get(i, 0) >> (4 * part) >> run & 0x01010101u) << 4 : four;
    }
    RF_FN float scale(int run, u32 power) const { return scales.times(scale_bytes, run, power); }
    RF_FN float offset(int run, u32 power) const { return leasts.times(least_bytes, run, power); }
};
template <> struct Held<Q4_K> : HeldFourBits<false> {};
template <> struct Held<Q5_K> : HeldFourBits<true> {};

// Run r of these is the 16 weights from r · 16 on: of half r % 2 of 32 bytes, whose bits are those of four times 32 weights.
template <> struct Held<Q2_K> {
    static const int PARTS = 2, RUNS = 8, RUN = 16, MOVED = 0, WORDS = 4 / GROUPS;
    static const bool OFFSET = true, SPLIT = false;
    LaneWords<4, WORDS> codes[2];
    LaneWords<4, 2> packed;
    u32 halves;
    Factor scales, leasts;

    RF_FN void fetch(Bytes block, int part, int group) {
        const From<4> own(block + 4 * WORDS * group);
#pragma unroll
        for (int half = 0; half < 2; ++half) codes[half].fetch(own, 16 + 32 * part + 16 * half);
        packed.fetch(From<4>(block), 8 * part);
        halves = block.as<u32>(80);
    }
    RF_FN void start() {
        scales.start(to_f32(bit_cast<f16>((u16)halves)), 0);
        leasts.start(to_f32(bit_cast<f16>((u16)(halves >> 16))) * (1.0f / BASE), 0);
    }
    RF_FN u32 word(int run, int i) const { return codes[run % 2].get(i, 0) >> (run / 2 * 2) & 0x03030303u; }
    RF_FN float scale(int run, u32 power) const { return scales.times(packed.get(run / 4, 0) & 0x0f0f0f0fu, run % 4, power); }
    RF_FN float offset(int run, u32 power) const { return leasts.times(packed.get(run / 4, 0) >> 4 & 0x0f0f0f0fu, run % 4, power); }
};
template <> struct Held<Q3_K> {
    static const int PARTS = 2, RUNS = 8, RUN = 16, MOVED = 4, WORDS = 4 / GROUPS;
    static const bool OFFSET = false, SPLIT = false;
    LaneWords<2, WORDS> codes[2], thirds[2];
    LaneWords<2, 3> packed;
    u32 bytes[2], before;
    int part;
    f16 d;
    Factor scales;

    RF_FN void fetch(Bytes block, int of, int group) {
        const From<2> own(block + 4 * WORDS * group);
        part = of;
        before = own.before();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            thirds[half].fetch(own, 16 * half);
            codes[half].fetch(own, 32 + 32 * part + 16 * half);
        }
        packed.fetch(From<2>(block), 96);
        d = block.as<f16>(108);
    }
    // A scale has six bits: four in a half of one of eight bytes, two in a quarter of one of four.
    RF_FN void start() {
        scales.start(to_f32(d), 32);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u32 low = packed.get(i, before) >> (4 * part) & 0x0f0f0f0fu;
            bytes[i] = low | (packed.get(2, before) >> (4 * part + 2 * i) & 0x03030303u) << 4;
        }
    }
    RF_FN u32 word(int run, int i) const {
        const int half = run % 2, line = run / 2;
        const u32 third = thirds[half].get(i, before) >> (4 * part + line) & 0x01010101u;
        return (codes[half].get(i, before) >> (2 * line) & 0x03030303u) | third << 2;
    }
    RF_FN float scale(int run, u32 power) const { return scales.times(bytes[run / 4], run % 4, power); }
    RF_FN float offset(int, u32) const { return 0.0f; }
};
template <> struct Held<Q6_K> {
    static const int PARTS = 2, RUNS = 8, RUN = 16, MOVED = 32, WORDS = 4 / GROUPS;
    static const bool OFFSET = false, SPLIT = false;
    LaneWords<2, WORDS> low[2][2], high[2];
    LaneWords<2, 2> packed;
    u32 bytes[2], before;
    f16 d;
    Factor scales;

    RF_FN void fetch(Bytes block, int part, int group) {
        const From<2> own(block + 4 * WORDS * group + 32 * part), low_of(block + (4 * WORDS * group + 64 * part)), scales_of(block + 8 * part);
        before = own.before();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            low[0][half].fetch(low_of, 16 * half);
            low[1][half].fetch(low_of, 32 + 16 * half);
            high[half].fetch(own, 128 + 16 * half);
        }
        packed.fetch(scales_of, 192);
        d = block.as<f16>(208);
    }
    RF_FN void start() {
        scales.start(to_f32(d), 128);
#pragma unroll
        for (int i = 0; i < 2; ++i) bytes[i] = packed.get(i, before) ^ 0x80808080u;
    }
    RF_FN u32 word(int run, int i) const {
        const int half = run % 2, line = run / 2;
        const u32 four = low[line % 2][half].get(i, before) >> (4 * (line / 2)) & 0x0f0f0f0fu;
        const u32 two = high[half].get(i, before);
        return four | ((line < 2 ? two << (4 - 2 * line) : two >> (2 * line - 4)) & 0x30303030u);
    }
    RF_FN float scale(int run, u32 power) const { return scales.times(bytes[run / 4], run % 4, power); }
    RF_FN float offset(int, u32) const { return 0.0f; }
};

template <> struct Held<Q8_0> {
    static const int PARTS = 1, RUNS = 1, RUN = 32, MOVED = 128, WORDS = 8 / GROUPS;
    static const bool OFFSET = false, SPLIT = false;
    LaneWords<2, WORDS> codes;
    u32 before;
    f16 d;
    float by;

    RF_FN void fetch(Bytes block, int, int group) {
        const From<2> own(block + 2 + 4 * WORDS * group);
        before = own.before();
        codes.fetch(own, 0);
        d = block.as<f16>(0);
    }
    RF_FN void start() { by = to_f32(d); }
    RF_FN u32 word(int, int i) const { return F_SIGNED ? codes.get(i, before) : codes.get(i, before) ^ 0x80808080u; }
    RF_FN float scale(int, u32) const { return by; }
    RF_FN float offset(int, u32) const { return 0.0f; }
};

typedef Held<Q_GGUF> Type;
static const int SLAB = Type::RUNS * Type::RUN, LANE_RUN = Type::RUN / GROUPS, PIECE = Type::SPLIT ? LANE_RUN / 2 : LANE_RUN;
// Products of a run; what they take of a lane beyond it are zeros.
static const int STEPS = LANE_RUN < DEEP ? 1 : LANE_RUN / DEEP, PAIRS = STEPS * DEEP / 2;
// Words that a product takes of a lane's row of A.
static const int TAKEN = DEEP / 2;

// --- codes as operands ---

// A pair of an operand that is -BASE.
static const u32 BASE_PAIR = 0x10001u * ((WIDE ? 0xc300u : 0xe400u) + (Q_GGUF == Q8_0 && WIDE ? 0 : Type::MOVED));

// What stands above codes in their pairs, and the eighth bits of a pair.
struct PairBits {
    u32 power, eighth;
    RF_FN PairBits() : power(WIDE ? 0x43434343u : 0x64646464u), eighth(0x00800080u) {}
};
// The two pairs of a word of four codes.
RF_FN void pairs_of(u32 word, const PairBits& bits, u32* to) {
    if (Q_GGUF == Q8_0 && WIDE) {
#if RF_DEVICE_AMD
        to[0] = exact_two<In>((float)(word & 0xffu), (float)(word >> 8 & 0xffu));
        to[1] = exact_two<In>((float)(word >> 16 & 0xffu), (float)(word >> 24));
#else
        // 128 + the lower seven bits, and -128 or, where the eighth bit is set, -256.
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const u32 both = i == 0 ? zip_low_bytes(word, bits.power) : zip_high_bytes(word, bits.power);
            const u32 less = (both & bits.eighth) | 0xc300c300u;
            asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(to[i]) : "r"(both & 0xff7fff7fu), "r"(0x3f803f80u), "r"(less));
        }
#endif
        return;
    }
    to[0] = zip_low_bytes(word, bits.power);
    to[1] = zip_high_bytes(word, bits.power);
}

// A run of the columns of a product as its operands.
RF_FN void operands_of(const Type* held, int run, const PairBits& bits, u32 (*w)[Unit::COLUMNS * TAKEN]) {
#pragma unroll
    for (int c = 0; c < Unit::COLUMNS; ++c) {
        u32 pairs[PAIRS];
#pragma unroll
        for (int i = 0; i < PAIRS / 2; ++i) {
            if (i < LANE_RUN / 4) pairs_of(held[c].word(run, i), bits, pairs + 2 * i);
            else pairs[2 * i] = pairs[2 * i + 1] = 0;
        }
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) w[i / TAKEN][c * TAKEN + i % TAKEN] = pairs[i];
    }
}
