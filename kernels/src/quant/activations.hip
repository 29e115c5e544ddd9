// activation_peaks: the largest magnitude of each part of x
// activation_scale: the scale that follows from all parts
// quantise_groups: codes of x and a scale for every group of columns, or for given scales
// quantise_tiles: the same with a scale for every tile of rows and columns
//
// Shapes : x [rows, cols], columns contiguous; codes [rows, cols], bytes or two to a byte, contiguous; scales by two strides;
//          smooth [cols] or null; parts [ACT_PARTS at most]
// Grid   : peaks (parts, 1, 1), each takes every parts-th stretch of 256 lanes; scale (1, 1, 1)
//          groups (ceil(rows * lanes / 256), 1, 1)       a lane holds ACT_RUNS runs of 8 columns, ACT_LANES lanes share a group
//          tiles (ceil(cols / tile), ceil(rows / ACT_ROWS), 1)     one workgroup per tile
// Block  : (256, 1, 1), tiles (ACT_THREADS, 1, 1)
// LDS    : all but groups: 256 / ARCH_WAVE_SIZE floats
// Needs  : rows * lanes < 2^31; whole: cols a multiple of 8, rows of x aligned to 16 bytes; ACT_LANES a power of two, at most a
//          wave; a tile is at most ACT_THREADS * ACT_RUNS runs                                           checked by the launcher
// Numeric: in f32. x times its column's smooth factor; peak = largest magnitude, NaN if one is NaN; scale = peak / largest,
//          1 where that is 0 (ACT_MX: a power of two by the rounding mode); code = encode(x * (1 / scale)), ties to even
//
// Macros : ACT_X; ACT_FORMAT; ACT_LANES (0: tiles); ACT_ROWS and ACT_THREADS of tiles, ACT_RUNS; ACT_GIVEN: scales are read; ACT_SMOOTH; ACT_MX
using namespace rf;

typedef Format<ACT_FORMAT> Code;

struct ActivationArgs {
    const ACT_X* x;
    u8* codes;
    void* scales;
    const float* smooth;
    i64 x_row, code_row, scale_row, scale_col;  // code_row in bytes, scale_col per group
    u32* parts;  // bits of floats
    FastDiv runs;  // lanes of a row, groups padded to whole lanes; runs of 8 columns of a tile
    u32 rows, cols, group, whole, mode;
    float least, most, largest;
    u32 count;  // of lanes of all rows; of parts for their scale
};
static_assert(sizeof(ActivationArgs) == 120, "as in activations.rs");

#define ACT_RUN 8
#define ACT_INT (ACT_FORMAT <= 2)
// Mantissa bits, and exponent of the smallest normal number: of small floats.
#define ACT_MANTISSA (ACT_FORMAT == 3 || ACT_FORMAT == 6 ? 3 : ACT_FORMAT == 5 ? 1 : 2)
#define ACT_LEAST (ACT_FORMAT == 3 ? -6 : ACT_FORMAT == 4 ? -14 : ACT_FORMAT == 5 ? 0 : ACT_FORMAT == 6 ? -7 : -15)
#define ACT_FNUZ (ACT_FORMAT >= 6)
// Own scales bring every element into the format's range, but for powers of two that were rounded down.
#define ACT_CLIP (ACT_GIVEN || ACT_MX)

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

// Columns past the end are zeros.
RF_FN Run load_run(const ActivationArgs& g, u32 row, u32 col, u32 end) {
    const ACT_X* from = g.x + (i64)row * g.x_row + col;
    Run run;
#if !ACT_SMOOTH
    if (g.whole) {
#pragma unroll
        for (int i = 0; i < ACT_RUN / ACT_PER_WORD; i += 4) {
            Vec<u32, 4> some = {{0, 0, 0, 0}};
            if (col < end) some = load<4>((const u32*)(const void*)from + i);
#pragma unroll
            for (int j = 0; j < 4; ++j) run.words[i + j] = some[j];
        }
        return run;
    }
#endif
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

// A NaN is no largest magnitude to fmax: so the products with zero, which are NaN where an element is not finite, are added up, and
// say whether it must be looked for.
template <int RUNS> RF_FN u32 peak_of(const Run* runs) {
    float peak = 0.0f, odd = 0.0f;
#pragma unroll
    for (int i = 0; i < RUNS * ACT_RUN; ++i) {
        float x = runs[i / ACT_RUN][i % ACT_RUN];
        peak = __builtin_fmaxf(peak, __builtin_fabsf(x));
        odd = rf::fma(x, 0.0f, odd);
    }
    u32 most = bit_cast<u32>(peak);
    if (odd == odd) return most;
#pragma unroll
    for (int i = 0; i < RUNS * ACT_RUN; ++i)
        most = Most()(most, bit_cast<u32>(runs[i / ACT_RUN][i % ACT_RUN]) & 0x7fffffffu);
    return most;
}

// The code of a number that is no NaN, in the highest bits. RoundEven's and Format's, with fewer instructions.
#if ACT_INT
RF_FN u32 code_of(float x, float least, float most) {
    if (ACT_CLIP) x = __builtin_fminf(__builtin_fmaxf(x, least), most);
    // 1.5 * 2^23, from where on floats are whole numbers: the lowest bits of the sum are those of the nearest one.
    return bit_cast<u32>(x + 12582912.0f) << (32 - Code::BITS);
}
#else
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
RF_FN void store_run(const ActivationArgs& g, u32 row, u32 col, u32 end, const Run& run, float inverse) {
    if (col >= end) return;
    const int PER = 32 / Code::BITS, WORDS = ACT_RUN / PER;
    u32 words[WORDS];
    float odd = inverse * 0.0f;
#if ACT_GIVEN
#pragma unroll
    for (int i = 0; i < ACT_RUN; ++i) odd = rf::fma(run[i], 0.0f, odd);
#endif
    // An own scale is finite where all elements are, and its inverse then not 0; that is infinite where the scale is too small.
    if (odd == odd && inverse != 0.0f) {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            words[w] = 0;
#pragma unroll
            for (int i = 0; i < PER; ++i)
                words[w] |= code_of(run[w * PER + i] * inverse, g.least, g.most) >> (32 - Code::BITS * (i + 1));
        }
    } else {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            words[w] = 0;
#pragma unroll
            for (int i = 0; i < PER; ++i)
                words[w] |= Code::encode<RoundEven>(run[w * PER + i] * inverse, g.least, g.most) << (Code::BITS * i);
        }
    }
    u8* to = g.codes + (i64)row * g.code_row + (i64)col * Code::BITS / 8;
    if (g.whole) {
        Vec<u32, WORDS> all;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) all[w] = words[w];
        store<WORDS>((u32*)to, all);
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
    u32 bits = bit_cast<u32>(g.mode == 1 ? peak / g.largest : peak);
    if ((bits >> 23) == 255) return nan();
    // 0 down, 1 up from peak / largest, 2 to the nearest value of the format, 3 up.
    if (g.mode == 1 || g.mode == 3) bits += 0x7fffffu;
    if (g.mode == 2) bits += 1u << (22 - ACT_MANTISSA);
    i32 exponent = (i32)(bits >> 23) - (g.mode == 1 ? 0 : ACT_EMAX);
    return e8m0_decode((u32)(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent));
#else
    float scale = peak / g.largest;
    return scale == 0.0f ? 1.0f : scale;
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
struct Runs {
    Run at[ACT_RUNS];
    u32 row, col, end, group, lane_id;

    // Those of lane `n` of all rows. The lanes of a group take its runs in turn.
    RF_FN void load(const ActivationArgs& g, u32 n) {
        row = g.runs.divide(n);
        u32 number = n - row * g.runs.divisor;
        lane_id = number % ACT_LANES;
        group = number / ACT_LANES;
        col = group * g.group + lane_id * ACT_RUN;
        end = (group + 1) * g.group;
        end = n >= g.count ? 0 : end < g.cols ? end : g.cols;
#pragma unroll
        for (int i = 0; i < ACT_RUNS; ++i) at[i] = load_run(g, row, col_of(i), end);
    }
    RF_FN u32 col_of(int i) const { return col + i * ACT_LANES * ACT_RUN; }
    RF_FN u32 peak() const { return peak_of<ACT_RUNS>(at); }
};

extern "C" __global__ __launch_bounds__(256) void quantise_groups(ActivationArgs g) {
    Runs runs;
#if ACT_GIVEN
    // From the end: of what a search for the largest has just read, that is still in the cache.
    runs.load(g, ((g.count - 1) / 256 - group_x()) * 256 + thread_x());
    float scale = *(const float*)g.scales;
#else
    runs.load(g, group_x() * 256 + thread_x());
    u32 peak = runs.peak();
#pragma unroll
    for (u32 distance = ACT_LANES / 2; distance > 0; distance /= 2) peak = Most()(peak, shuffle_xor(peak, distance));
    float scale = own_scale(g, bit_cast<float>(peak));
    if (runs.end != 0 && runs.lane_id == 0) store_scale(g, runs.row, runs.group, scale);
#endif
    float inverse = 1.0f / scale;
#pragma unroll
    for (int i = 0; i < ACT_RUNS; ++i) store_run(g, runs.row, runs.col_of(i), runs.end, runs.at[i], inverse);
}

#if ACT_GIVEN
extern "C" __global__ __launch_bounds__(256) void activation_peaks(ActivationArgs g) {
    __shared__ u32 scratch[256 / ARCH_WAVE_SIZE];
    u32 peak = 0;
    u32 parts = (g.count + 255) / 256 < ACT_PARTS ? (g.count + 255) / 256 : ACT_PARTS;
    const u32 step = parts * 256;
    u32 n = group_x() * 256 + thread_x();
    // Two stretches at once, so that their loads overlap.
    for (; n < g.count; n += 2 * step) {
        Runs some, more;
        some.load(g, n);
        more.load(g, g.count - n > step ? n + step : n);
        peak = Most()(peak, Most()(some.peak(), more.peak()));
    }
    peak = group_reduce(peak, Most(), scratch, thread_x(), 256);
    if (thread_x() == 0) g.parts[group_x()] = peak;
}
extern "C" __global__ __launch_bounds__(256) void activation_scale(ActivationArgs g) {
    __shared__ u32 scratch[256 / ARCH_WAVE_SIZE];
    u32 peak = 0;
    for (u32 n = thread_x(); n < g.count; n += 256) peak = Most()(peak, g.parts[n]);
    peak = group_reduce(peak, Most(), scratch, thread_x(), 256);
    if (thread_x() == 0) store_scale(g, 0, 0, own_scale(g, bit_cast<float>(peak)));
}
#endif
#else
extern "C" __global__ __launch_bounds__(ACT_THREADS) void quantise_tiles(ActivationArgs g) {
    __shared__ u32 scratch[ACT_THREADS / ARCH_WAVE_SIZE];
    u32 first_row = group_y() * ACT_ROWS, first_col = group_x() * g.group;
    u32 end = first_col + g.group < g.cols ? first_col + g.group : g.cols;
    Run runs[ACT_RUNS];
#pragma unroll
    for (int i = 0; i < ACT_RUNS; ++i) {
        u32 n = i * ACT_THREADS + thread_x();
        u32 down = g.runs.divide(n), col = first_col + (n - down * g.runs.divisor) * ACT_RUN;
        bool inside = down < ACT_ROWS && first_row + down < g.rows;
        runs[i] = load_run(g, first_row + down, col, inside ? end : 0);
    }
    u32 peak = group_reduce(peak_of<ACT_RUNS>(runs), Most(), scratch, thread_x(), ACT_THREADS);
    float scale = own_scale(g, bit_cast<float>(peak));
    if (thread_x() == 0) store_scale(g, group_y(), group_x(), scale);
    float inverse = 1.0f / scale;
#pragma unroll
    for (int i = 0; i < ACT_RUNS; ++i) {
        u32 n = i * ACT_THREADS + thread_x();
        u32 down = g.runs.divide(n), col = first_col + (n - down * g.runs.divisor) * ACT_RUN;
        bool inside = down < ACT_ROWS && first_row + down < g.rows;
        store_run(g, first_row + down, col, inside ? end : 0, runs[i], inverse);
    }
}
#endif
