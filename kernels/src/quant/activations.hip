// activation_peaks: the largest magnitude of each part of x
// quantise_groups: codes of x and a scale for every group of columns, or for given scales
// quantise_tiles: the same with a scale for every tile of rows and columns
//
// Shapes : x [rows, cols], columns contiguous; codes [rows, cols], bytes or two to a byte, contiguous; scales by two strides;
//          smooth [cols] or null; parts [ACT_PARTS at most]
// Grid   : peaks (parts, 1, 1), each takes as many stretches of 256 lanes, in order
//          groups (ceil(rows * lanes / 256), 1, 1)       a lane holds ACT_RUNS runs of 8 columns, ACT_LANES lanes share a group;
//          a quarter of them where four lanes share one and hold a run each, of four such groups; those of a wave are all in
//          one row where whole is 2
//          tiles (ceil(cols / tile), ceil(rows / ACT_ROWS), 1)     one workgroup per tile
// Block  : (256, 1, 1), tiles (ACT_THREADS, 1, 1)
// LDS    : all but groups that find their own scales or read one: 256 / ARCH_WAVE_SIZE floats
// Needs  : rows * lanes < 2^31; whole: cols a multiple of 8, rows of x aligned to 16 bytes; ACT_LANES a power of two, at most a
//          wave; a tile is at most ACT_THREADS * ACT_RUNS runs                                           checked by the launcher
// Numeric: in f32. x times its column's smooth factor; peak = largest magnitude, NaN if one is NaN; scale = peak / largest,
//          1 where that is 0 (ACT_MX: a power of two by the rounding mode); code = encode(x * (1 / scale)), ties to even
//
// Macros : ACT_X; ACT_FORMAT; ACT_LANES (0: tiles); ACT_ROWS and ACT_THREADS of tiles, ACT_RUNS; ACT_GIVEN: 1 one scale is
//          read, 2 it follows from parts, of which there are ACT_PARTS at most; ACT_SMOOTH; ACT_MX
using namespace rf;

typedef Format<ACT_FORMAT> Code;

struct ActivationArgs {
    const ACT_X* x;
    u8* codes;
    void* scales;
    const float* smooth;
    i64 x_row, code_row, scale_row, scale_col;  // code_row in bytes, scale_col per group
    u32* parts;  // bits of floats; null where nothing follows from them
    FastDiv runs;  // lanes of a row, groups padded to whole lanes; runs of 8 columns of a tile
    u32 rows, cols, group, whole;
    u32 mode;  // of microscaling's rounding; else how many parts there are
    float least, most, largest;
    u32 count;  // of lanes of all rows
    u32 kept, unused;  // from which lane on what is read should stay in the caches
};
static_assert(sizeof(ActivationArgs) == 128, "as in activations.rs");

#define ACT_RUN 8
// Whether loads pass the caches by. Groups of lanes that find their own scales are faster through them, as is the end of what is
// read twice.
#define ACT_ONCE (ACT_LANES == 0 || ACT_GIVEN)
#define ACT_INT (ACT_FORMAT <= 2)
// Mantissa bits, and exponent of the smallest normal number: of small floats.
#define ACT_MANTISSA (ACT_FORMAT == 3 || ACT_FORMAT == 6 ? 3 : ACT_FORMAT == 5 ? 1 : 2)
#define ACT_LEAST (ACT_FORMAT == 3 ? -6 : ACT_FORMAT == 4 ? -14 : ACT_FORMAT == 5 ? 0 : ACT_FORMAT == 6 ? -7 : -15)
#define ACT_FNUZ (ACT_FORMAT >= 6)
// Own scales bring every element into the format's range, but for powers of two that were rounded down.
#define ACT_CLIP (ACT_GIVEN == 1 || ACT_MX)

// As they were loaded, in words, so that registers hold many.
#if ACT_SMOOTH
#define ACT_PER_WORD 1
#else
#define ACT_PER_WORD (4 / (int)sizeof(ACT_X))
#endif
RF_FN u32 bits_of(float x) { return bit_cast<u32>(x); }
RF_FN u32 bits_of(f16 x) { return x.bits; }
RF_FN u32 bits_of(bf16 x) { return x.bits; }
RF_FN void of_bits(u32 bits, float& x) { x = bit_cast<float>(bits); }
RF_FN void of_bits(u32 bits, f16& x) { x.bits = (u16)bits; }
RF_FN void of_bits(u32 bits, bf16& x) { x.bits = (u16)bits; }

struct Run {
    u32 words[ACT_RUN / ACT_PER_WORD];

    RF_FN float operator[](int i) const {
#if ACT_SMOOTH
        return bit_cast<float>(words[i]);
#else
        ACT_X x;
        of_bits(words[i / ACT_PER_WORD] >> (i % ACT_PER_WORD * 16), x);
        return cast<float>(x);
#endif
    }
};

#if !ACT_SMOOTH
// Zeros if not `there`.
template <bool ONCE> RF_FN Run whole_run(const ACT_X* from, bool there) {
    Run run;
#pragma unroll
    for (int i = 0; i < ACT_RUN / ACT_PER_WORD; i += 4) {
        Vec<u32, 4> some = {{0, 0, 0, 0}};
        const u32* at = (const u32*)(const void*)from + i;
        if (there) some = ONCE ? load_once<4>(at) : load<4>(at);
#pragma unroll
        for (int j = 0; j < 4; ++j) run.words[i + j] = some[j];
    }
    return run;
}
#endif
// Columns past the end are zeros. WHOLE: `whole` is not 0, known to the compiler.
template <bool WHOLE, bool ONCE = ACT_ONCE> RF_FN Run load_run(const ActivationArgs& g, u32 row, u32 col, u32 end) {
    const ACT_X* from = g.x + (i64)row * g.x_row + col;
#if !ACT_SMOOTH
    if (WHOLE) return whole_run<ONCE>(from, col < end);
#endif
    Run run;
#pragma unroll
    for (int i = 0; i < ACT_RUN; ++i) {
#if ACT_SMOOTH
        run.words[i] = bits_of(col + i < end ? cast<float>(from[i]) * g.smooth[col + i] : 0.0f);
#else
        u32 bits = col + i < end ? bits_of(from[i]) : 0;
        if (i % ACT_PER_WORD == 0) run.words[i / ACT_PER_WORD] = bits;
        else run.words[i / ACT_PER_WORD] |= bits << 16;
#endif
    }
    return run;
}

// The bits of the largest magnitude: those of floats without a sign are in the floats' order, and NaN behind infinity.
struct Most { RF_FN u32 operator()(u32 a, u32 b) const { return a > b ? a : b; } };

template <int RUNS> RF_FN u32 peak_of(const Run* runs) {
    const int WORDS = ACT_RUN / ACT_PER_WORD;
    u32 peak = 0;
    if (ACT_PER_WORD == 1) {
#pragma unroll
        for (int i = 0; i < RUNS * WORDS; ++i) peak = Most()(peak, runs[i / WORDS].words[i % WORDS] & 0x7fffffffu);
        return peak;
    }
    // Both halves of a word at once: the bits of 16-bit floats are in their order too.
#pragma unroll
    for (int i = 0; i < RUNS * WORDS; ++i)
        peak = larger_halves(peak, runs[i / WORDS].words[i % WORDS] & 0x7fff7fffu);
    ACT_X most;
    of_bits(Most()(peak & 0xffffu, peak >> 16), most);
    return bit_cast<u32>(cast<float>(most));
}

// The code of a number that is no NaN, with fewer instructions than RoundEven's and Format's.
#if ACT_INT
// In the lowest bits.
RF_FN u32 code_of(float x, float least, float most) {
    if (ACT_CLIP) x = __builtin_fminf(__builtin_fmaxf(x, least), most);
    // 1.5 * 2^23, from where on floats are whole numbers: the lowest bits of the sum are those of the nearest one.
    return bit_cast<u32>(x + 12582912.0f);
}
#else
// In the highest bits.
RF_FN u32 code_of(float x, float, float most) {
    const u32 sign = bit_cast<u32>(x) & 0x80000000u;
    float size = __builtin_fabsf(x);
    if (ACT_CLIP) size = __builtin_fminf(size, most);
    // Added to a float whose last bit is worth as much as the code's, and taken away again. Below the normal numbers the codes are
    // as far apart as above the smallest.
    float power = bit_cast<float>(bit_cast<u32>(size) & 0x7f800000u);
    power = __builtin_fmaxf(power, bit_cast<float>((u32)(127 + ACT_LEAST) << 23));
    const float apart = (float)(1u << (23 - ACT_MANTISSA));
    float nearest = rf::fma(power, -apart, rf::fma(power, apart, size));
    // With the format's bias in place of a float's, exactly: subnormals become subnormals.
    u32 code = bit_cast<u32>(nearest * bit_cast<float>((u32)(1 - ACT_LEAST) << 23));
    code <<= Code::BITS == 8 ? ACT_MANTISSA + 1 : 6;
    return ACT_FNUZ && code == 0 ? 0 : code | sign;
}
#endif
#define ACT_CODES (32 / Code::BITS)
// The codes of a word of run, times `inverse`, none of which is NaN.
RF_FN u32 word_of(const ActivationArgs& g, const Run& run, int w, float inverse) {
#if QUANT_PAIRS_OF_E2M1 && ACT_FORMAT == 5 && ACT_MX && !ACT_SMOOTH
    if (same<ACT_X, bf16>::value) return eight_e2m1(run.words, inverse);
#endif
#if QUANT_CONVERTS(ACT_FORMAT)
    w *= 4;
    return four_codes<ACT_FORMAT>(run[w] * inverse, run[w + 1] * inverse, run[w + 2] * inverse, run[w + 3] * inverse, g.most);
#else
    u32 code[ACT_CODES];
#pragma unroll
    for (int i = 0; i < ACT_CODES; ++i) code[i] = code_of(run[w * ACT_CODES + i] * inverse, g.least, g.most);
#if ACT_INT
    if (Code::BITS == 8) return low_bytes(code[0], code[1], code[2], code[3]);
#pragma unroll
    for (int i = 0; i < ACT_CODES; ++i) code[i] <<= 32 - Code::BITS;
#endif
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < ACT_CODES; ++i) word |= code[i] >> (32 - Code::BITS * (i + 1));
    return word;
#endif
}
template <bool WHOLE> RF_FN void store_run(const ActivationArgs& g, u32 row, u32 col, u32 end, const Run& run, float inverse) {
    if (col >= end) return;
    const int WORDS = ACT_RUN / ACT_CODES;
    u32 words[WORDS];
#if QUANT_CONVERTS(ACT_FORMAT) && QUANT_SATURATES
    const bool plain = true;
#else
    float odd = inverse * 0.0f;
#if ACT_GIVEN == 1
#pragma unroll
    for (int i = 0; i < ACT_RUN; ++i) odd = rf::fma(run[i], 0.0f, odd);
#endif
    // An own scale is finite where all elements are, and its inverse then not 0; that is infinite where the scale is too small.
    const bool plain = odd == odd && inverse != 0.0f;
#endif
    if (plain) {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) words[w] = word_of(g, run, w, inverse);
    } else {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            words[w] = 0;
#pragma unroll
            for (int i = 0; i < ACT_CODES; ++i) {
                // The inverse of a power of two is finite, or NaN as the product.
                const float x = ACT_MX ? nan() : run[w * ACT_CODES + i] * inverse;
                words[w] |= Code::encode<RoundEven>(x, g.least, g.most) << (Code::BITS * i);
            }
        }
    }
    u8* to = g.codes + (i64)row * g.code_row + (i64)col * Code::BITS / 8;
    if (WHOLE) {
        Vec<u32, WORDS> all;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) all[w] = words[w];
        store_once<WORDS>((u32*)to, all);
        return;
    }
    u32 bytes = ((end - col < ACT_RUN ? end - col : ACT_RUN) * Code::BITS + 7) / 8;
#pragma unroll
    for (u32 i = 0; i < (u32)Code::BITS; ++i)
        if (i < bytes) to[i] = (u8)(words[i / 4] >> (8 * (i % 4)));
}

// A power of two with the exponent field of `bits`, moved down by the format's own exponent.
#define ACT_EMAX (ACT_FORMAT == 3 ? 8 : ACT_FORMAT == 4 || ACT_FORMAT == 7 ? 15 : ACT_FORMAT == 6 ? 7 : 2)
RF_FN float own_scale(const ActivationArgs& g, float peak) {
#if ACT_MX
    // 0 down, 1 up from peak / largest, 2 to the nearest value of the format, 3 up.
    const u32 up = g.mode == 1 || g.mode == 3 ? 0x7fffffu : g.mode == 2 ? 1u << (22 - ACT_MANTISSA) : 0;
    // Only the quotient's exponent counts, and whether a mantissa is behind it: the difference of the bits has them too where the
    // quotient is no subnormal, because none that is not a power of two rounds to one (a float next to `largest` is farther away).
    const u32 divisor = g.mode == 1 ? bit_cast<u32>(g.largest) - 0x3f800000u : 0;
    const u32 most = bit_cast<u32>(peak);
    u32 bits = most - divisor;
    if (g.mode == 1 && most < 0x10000000u) bits = bit_cast<u32>(peak / g.largest);
    const i32 exponent = (i32)((bits + up) >> 23) - (g.mode == 1 ? 0 : ACT_EMAX);
    const float scale = e8m0_decode((u32)(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent));
    return most < 0x7f800000u ? scale : nan();
#else
    float scale = peak / g.largest;
    return scale == 0.0f ? 1.0f : scale;
#endif
}
// 1 / scale. That of a power of two is one: the exponents of the two add up to 254.
RF_FN float inverse_of(float scale) {
#if ACT_MX
    const u32 bits = bit_cast<u32>(scale);
    if (bits >= 0x7f000000u) return bits == 0x7f000000u ? bit_cast<float>(0x00400000u) : scale;
    return bit_cast<float>(bits == 0x00400000u ? 0x7f000000u : 0x7f000000u - bits);
#else
    return 1.0f / scale;
#endif
}
RF_FN void store_scale(const ActivationArgs& g, u32 row, u32 group, float scale) {
    i64 at = (i64)row * g.scale_row + (i64)group * g.scale_col;
#if ACT_MX
    write_scale(g.scales, at, scale, RF_SCALE_E8M0);
#else
    write_scale(g.scales, at, scale, RF_SCALE_F32);
#endif
}

#if ACT_LANES
// Whether a wave takes four groups for each four lanes, a run of each to a lane: then it reads 512 bytes and more side by side.
#define ACT_FOUR (ACT_LANES == 4 && ACT_RUNS == 1)
struct Runs {
    Run at[ACT_RUNS];
    u32 row, col, end, group, lane_id;

    // Those of lane `n` of all rows. The lanes of a group take its runs in turn.
    template <bool WHOLE, bool ONCE = ACT_ONCE> RF_FN void load(const ActivationArgs& g, u32 n) {
        row = g.runs.divide(n);
        u32 number = n - row * g.runs.divisor;
        lane_id = number % ACT_LANES;
        group = number / ACT_LANES;
        col = group * g.group + lane_id * ACT_RUN;
        end = (group + 1) * g.group;
        end = n >= g.count ? 0 : end < g.cols ? end : g.cols;
#pragma unroll
        for (int i = 0; i < ACT_RUNS; ++i) at[i] = load_run<WHOLE, ONCE>(g, row, col_of(i), end);
    }
    RF_FN u32 col_of(int i) const { return col + i * ACT_LANES * ACT_RUN; }
    RF_FN u32 peak() const { return peak_of<ACT_RUNS>(at); }
};

#if ACT_GIVEN == 2
// The largest of the workgroup's numbers.
RF_FN u32 largest_of_group(u32 peak) {
    __shared__ u32 scratch[256 / ARCH_WAVE_SIZE];
    peak = largest_of_wave(peak);
    if (thread_x() % ARCH_WAVE_SIZE == 0) scratch[thread_x() / ARCH_WAVE_SIZE] = peak;
    barrier();
#pragma unroll
    for (u32 wave = 0; wave < 256 / ARCH_WAVE_SIZE; ++wave) peak = Most()(peak, scratch[wave]);
    return peak;
}
// The scale that follows from all parts, which every workgroup finds for itself and the first one writes.
RF_FN float scale_of_parts(const ActivationArgs& g) {
    static_assert(ACT_PARTS == 4 * 256, "a lane reads four");
    const u32 first = thread_x() * 4;
    Vec<u32, 4> some = {{0, 0, 0, 0}};
    if (first + 4 <= g.mode) {
        some = load<4>(g.parts + first);
    } else {
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (first + i < g.mode) some[i] = g.parts[first + i];
    }
    const u32 peak = largest_of_group(Most()(Most()(some[0], some[1]), Most()(some[2], some[3])));
    const float scale = own_scale(g, bit_cast<float>(peak));
    if (group_x() == 0 && thread_x() == 0) store_scale(g, 0, 0, scale);
    return scale;
}
#endif
template <bool WHOLE> RF_FN void groups(const ActivationArgs& g) {
    Runs runs;
#if ACT_GIVEN
    // From the end: of what a search for the largest has just read, that is still in the cache.
    runs.load<WHOLE>(g, ((g.count - 1) / 256 - group_x()) * 256 + thread_x());
    #if ACT_GIVEN == 1
    const float inverse = 1.0f / *(const float*)g.scales;
#else
    const float inverse = 1.0f / scale_of_parts(g);
#endif
#else
    runs.load<WHOLE>(g, group_x() * 256 + thread_x());
    u32 peak = runs.peak();
#pragma unroll
    for (u32 distance = ACT_LANES / 2; distance > 0; distance /= 2) peak = Most()(peak, shuffle_xor(peak, distance));
    const float scale = own_scale(g, bit_cast<float>(peak));
    if (runs.end != 0 && runs.lane_id == 0) store_scale(g, runs.row, runs.group, scale);
    const float inverse = inverse_of(scale);
#endif
#pragma unroll
    for (int i = 0; i < ACT_RUNS; ++i) store_run<WHOLE>(g, runs.row, runs.col_of(i), runs.end, runs.at[i], inverse);
}
#if ACT_FOUR
// The larger of this lane's and its neighbour's, each of the one of two values that is its own.
template <int CTRL> RF_FN u32 larger_of_own(u32 first, u32 second, bool is_second) {
    const u32 own = is_second ? second : first, other = is_second ? first : second;
    return Most()(own, dpp<CTRL>(other));
}
// Groups of four lanes, four of them in turn: each lane finds the scale of one.
RF_FN float four_scales(const ActivationArgs& g, const Run* const* runs) {
    const u32 number = thread_x() % 4;
    u32 peaks[4];
#pragma unroll
    for (int turn = 0; turn < 4; ++turn) peaks[turn] = peak_of<1>(runs[turn]);
    const u32 low = larger_of_own<RF_DPP_XOR1>(peaks[0], peaks[1], (number & 1) != 0);
    const u32 high = larger_of_own<RF_DPP_XOR1>(peaks[2], peaks[3], (number & 1) != 0);
    const u32 peak = larger_of_own<RF_DPP_XOR2>(low, high, (number & 2) != 0);
    return own_scale(g, bit_cast<float>(peak));
}
template <bool WHOLE> RF_FN void four_groups(const ActivationArgs& g) {
    const u32 lane_id = thread_x() % ARCH_WAVE_SIZE, number = thread_x() % 4;
    const u32 first = (group_x() * 256 + thread_x() - lane_id) * 4 + lane_id;
    Runs runs[4];
#pragma unroll
    for (int turn = 0; turn < 4; ++turn) runs[turn].load<WHOLE>(g, first + turn * ARCH_WAVE_SIZE);
    const Run* const its[4] = {runs[0].at, runs[1].at, runs[2].at, runs[3].at};
    const float scale = four_scales(g, its);
    const u32 own = first + number * ARCH_WAVE_SIZE, row = g.runs.divide(own);
    if (own < g.count) store_scale(g, row, (own - row * g.runs.divisor) / 4, scale);
    const float inverse = inverse_of(scale);
#pragma unroll
    for (int turn = 0; turn < 4; ++turn) {
        const Runs& its = runs[turn];
        store_run<WHOLE>(g, its.row, its.col, its.end, its.at[0], shuffle(inverse, lane_id - number + turn));
    }
}
#if !ACT_SMOOTH
// The same where a wave's are all in one row, one after the other: nothing is asked of each.
RF_FN void four_in_row(const ActivationArgs& g) {
    const u32 lane_id = thread_x() % ARCH_WAVE_SIZE, number = thread_x() % 4;
    const u32 first = (group_x() * 256 + thread_x() - lane_id) * 4;
    if (first >= g.count) return;
    const u32 row = g.runs.divide(first), at = first - row * g.runs.divisor + lane_id;
    const ACT_X* from = g.x + (i64)row * g.x_row + at * ACT_RUN;
    Run runs[4];
#pragma unroll
    for (int turn = 0; turn < 4; ++turn)
        runs[turn] = whole_run<ACT_ONCE>(from + turn * (ARCH_WAVE_SIZE * ACT_RUN), true);
    const Run* const its[4] = {runs, runs + 1, runs + 2, runs + 3};
    const float scale = four_scales(g, its);
    store_scale(g, row, (at + number * ARCH_WAVE_SIZE) / 4, scale);
    const float inverse = inverse_of(scale);
    const int WORDS = ACT_RUN / ACT_CODES;
    u8* to = g.codes + (i64)row * g.code_row + at * Code::BITS;
    const u32 word_of_nan = Code::encode<RoundEven>(nan(), 0.0f, 0.0f) * (Code::BITS == 8 ? 0x01010101u : 0x11111111u);
#pragma unroll
    for (int turn = 0; turn < 4; ++turn) {
        const float its = shuffle(inverse, lane_id - number + turn);
        Vec<u32, WORDS> words;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            const u32 word = word_of(g, runs[turn], w, its);
            words[w] = (QUANT_CONVERTS(ACT_FORMAT) && QUANT_SATURATES) || its == its ? word : word_of_nan;
        }
        store_once<WORDS>((u32*)(to + turn * (ARCH_WAVE_SIZE * Code::BITS)), words);
    }
}
#endif
#endif
extern "C" __global__ RF_BOUNDS(256, ACT_GIVEN == 2 && ACT_PER_WORD == 2 ? 6 : ACT_FOUR && ACT_PER_WORD == 2 ? 5 : 1) void quantise_groups(ActivationArgs g) {
#if ACT_FOUR
#if !ACT_SMOOTH
    if (g.whole == 2) return four_in_row(g);
#endif
    if (g.whole) four_groups<true>(g);
    else four_groups<false>(g);
#else
    if (g.whole) groups<true>(g);
    else groups<false>(g);
#endif
}

#if ACT_GIVEN == 2
// The largest magnitude of this lane's part, which is all that a workgroup reads.
template <bool WHOLE, bool ONCE> RF_FN u32 peak_of_part(const ActivationArgs& g, u32 n, u32 end) {
    u32 peak = 0;
#pragma unroll 1
    for (; n < end; n += 256) {
        Runs some;
        some.load<WHOLE, ONCE>(g, n);
        peak = Most()(peak, some.peak());
    }
    return peak;
}
extern "C" __global__ RF_BOUNDS(256, ACT_PER_WORD == 2 ? 8 : 1) void activation_peaks(ActivationArgs g) {
    // As many stretches for each, in order: the last that were read are those that are coded first.
    const u32 stretches = (g.count + 255) / 256, each = (stretches + g.mode - 1) / g.mode * 256;
    const u32 first = group_x() * each, n = first + thread_x(), end = g.count - first < each ? g.count : first + each;
    u32 peak = 0;
    if (first < g.count) {
        if (!g.whole) peak = peak_of_part<false, false>(g, n, end);
        else if (first < g.kept) peak = peak_of_part<true, true>(g, n, end);
        else peak = peak_of_part<true, false>(g, n, end);
    }
    peak = largest_of_group(peak);
    if (thread_x() == 0) g.parts[group_x()] = peak;
}
#endif
#else
// Where run `i` of a lane is in its tile: how far down, and its first column.
struct InTile { u32 down, col; };
RF_FN InTile in_tile(const ActivationArgs& g, int i) {
    const u32 n = i * ACT_THREADS + thread_x(), first_col = group_x() * g.group;
    InTile at = {0, first_col + n * ACT_RUN};
    if (ACT_ROWS > 1) {
        at.down = g.runs.divide(n);
        at.col = first_col + (n - at.down * g.runs.divisor) * ACT_RUN;
    }
    return at;
}
template <bool WHOLE> RF_FN void tiles(const ActivationArgs& g, u32* scratch) {
    const u32 first_row = group_y() * ACT_ROWS, first_col = group_x() * g.group;
    const u32 end = first_col + g.group < g.cols ? first_col + g.group : g.cols;
    const u32 rows = g.rows - first_row < ACT_ROWS ? g.rows - first_row : ACT_ROWS;
    Run runs[ACT_RUNS];
#pragma unroll
    for (int i = 0; i < ACT_RUNS; ++i) {
        const InTile at = in_tile(g, i);
        runs[i] = load_run<WHOLE>(g, first_row + at.down, at.col, at.down < rows ? end : 0);
    }
    const u32 peak = group_reduce(peak_of<ACT_RUNS>(runs), Most(), scratch, thread_x(), ACT_THREADS);
    const float scale = own_scale(g, bit_cast<float>(peak));
    if (thread_x() == 0) store_scale(g, group_y(), group_x(), scale);
    const float inverse = inverse_of(scale);
#pragma unroll
    for (int i = 0; i < ACT_RUNS; ++i) {
        const InTile at = in_tile(g, i);
        store_run<WHOLE>(g, first_row + at.down, at.col, at.down < rows ? end : 0, runs[i], inverse);
    }
}
extern "C" __global__ RF_BOUNDS(ACT_THREADS, ACT_RUNS / ACT_PER_WORD == 4 ? 768 / ACT_THREADS : 1) void quantise_tiles(ActivationArgs g) {
    __shared__ u32 scratch[ACT_THREADS / ARCH_WAVE_SIZE];
    if (g.whole) tiles<true>(g, scratch);
    else tiles<false>(g, scratch);
}
#endif
