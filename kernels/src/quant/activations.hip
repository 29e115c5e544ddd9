// quantise_groups: codes of x and a scale for every group of columns, or for given scales
// quantise_tiles: the same with a scale for every tile of rows and columns
//
// Shapes : x [rows, cols], columns contiguous; codes [rows, cols], bytes or two to a byte, contiguous; scales by two strides;
//          smooth [cols] or null
// Grid   : groups (ceil(rows * runs / 256), 1, 1)       a lane per run of 8 columns, ACT_LANES lanes per group
//          tiles (ceil(cols / tile), ceil(rows / ACT_ROWS), 1)     one workgroup per tile
// Block  : (256, 1, 1)
// LDS    : tiles 256 / ARCH_WAVE_SIZE floats
// Needs  : rows * runs < 2^31; whole: cols a multiple of 8, rows of x aligned to 16 bytes; ACT_LANES a power of two, at most a
//          wave; a tile is at most 256 * ACT_RUNS runs                                           checked by the launcher
// Numeric: in f32. x times its column's smooth factor; peak = largest magnitude, NaN if one is NaN; scale = peak / largest,
//          1 where that is 0 (ACT_MX: a power of two by the rounding mode); code = encode(x * (1 / scale)), ties to even
//
// Macros : ACT_X; ACT_FORMAT; ACT_LANES (0: tiles); ACT_ROWS, ACT_RUNS of tiles; ACT_GIVEN: scales are read; ACT_SMOOTH; ACT_MX
using namespace rf;

typedef Format<ACT_FORMAT> Code;

struct ActivationArgs {
    const ACT_X* x;
    u8* codes;
    void* scales;
    const float* smooth;
    i64 x_row, code_row, scale_row, scale_col;  // code_row in bytes, scale_col per group
    FastDiv runs;  // of 8 columns in a row, groups padded to whole lanes
    u32 rows, cols, group, whole, mode;
    float least, most, largest;
    u32 padding;
};
static_assert(sizeof(ActivationArgs) == 112, "as in activations.rs");

#define ACT_RUN 8
#define ACT_VEC (16 / (int)sizeof(ACT_X) < ACT_RUN ? 16 / (int)sizeof(ACT_X) : ACT_RUN)

struct Run { float at[ACT_RUN]; };

// Columns past the end are zeros.
RF_FN Run load_run(const ActivationArgs& g, u32 row, u32 col, u32 end) {
    Run run;
    const ACT_X* from = g.x + (i64)row * g.x_row + col;
    if (g.whole && col < end) {
#pragma unroll
        for (int i = 0; i < ACT_RUN; i += ACT_VEC) {
            Vec<ACT_X, ACT_VEC> some = load<ACT_VEC>(from + i);
#pragma unroll
            for (int j = 0; j < ACT_VEC; ++j) run.at[i + j] = cast<float>(some[j]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < ACT_RUN; ++i) run.at[i] = col + i < end ? cast<float>(from[i]) : 0.0f;
    }
#if ACT_SMOOTH
#pragma unroll
    for (int i = 0; i < ACT_RUN; ++i)
        if (col + i < end) run.at[i] *= g.smooth[col + i];
#endif
    return run;
}
RF_FN float run_peak(const Run& run) {
    float peak = 0.0f;
#pragma unroll
    for (int i = 0; i < ACT_RUN; ++i) peak = Max()(peak, __builtin_fabsf(run.at[i]));
    return peak;
}
RF_FN void store_run(const ActivationArgs& g, u32 row, u32 col, u32 end, const Run& run, float inverse) {
    if (col >= end) return;
    u64 word = 0;
#pragma unroll
    for (int i = 0; i < ACT_RUN; ++i)
        word |= (u64)Code::encode<RoundEven>(run.at[i] * inverse, g.least, g.most) << (i * Code::BITS);
    u8* to = g.codes + (i64)row * g.code_row + (i64)col * Code::BITS / 8;
    if (g.whole) {
        if (Code::BITS == 8) *(u64*)to = word;
        else *(u32*)to = (u32)word;
        return;
    }
    u32 bytes = ((end - col < ACT_RUN ? end - col : ACT_RUN) * Code::BITS + 7) / 8;
#pragma unroll
    for (u32 i = 0; i < (u32)Code::BITS; ++i)
        if (i < bytes) to[i] = (u8)(word >> (8 * i));
}

// A power of two with the exponent field of `bits`, moved down by the format's own exponent.
#if ACT_MX
#define ACT_EMAX (ACT_FORMAT == 3 ? 8 : ACT_FORMAT == 4 || ACT_FORMAT == 7 ? 15 : ACT_FORMAT == 6 ? 7 : 2)
#define ACT_MANTISSA (ACT_FORMAT == 3 || ACT_FORMAT == 6 ? 3 : ACT_FORMAT == 5 ? 1 : 2)
#endif
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
extern "C" __global__ __launch_bounds__(256) void quantise_groups(ActivationArgs g) {
    u32 n = group_x() * 256 + thread_x();
    u32 row = g.runs.divide(n), run_number = n - row * g.runs.divisor;
    bool mine = row < g.rows;
    u32 lane_id = run_number % ACT_LANES, group = run_number / ACT_LANES;
    u32 col = group * g.group + lane_id * ACT_RUN, end = (group + 1) * g.group;
    end = !mine ? 0 : end < g.cols ? end : g.cols;
    Run run = load_run(g, row, col, end);
#if ACT_GIVEN
    float scale = ((const float*)g.scales)[mine ? (i64)row * g.scale_row + (i64)group * g.scale_col : 0];
#else
    float peak = run_peak(run);
    for (u32 distance = ACT_LANES / 2; distance > 0; distance /= 2) peak = Max()(peak, shuffle_xor(peak, distance));
    float scale = own_scale(g, peak);
    if (mine && lane_id == 0) store_scale(g, row, group, scale);
#endif
    store_run(g, row, col, end, run, 1.0f / scale);
}
#else
extern "C" __global__ __launch_bounds__(256) void quantise_tiles(ActivationArgs g) {
    __shared__ float scratch[256 / ARCH_WAVE_SIZE];
    u32 first_row = group_y() * ACT_ROWS, first_col = group_x() * g.group;
    u32 end = first_col + g.group < g.cols ? first_col + g.group : g.cols;
    Run runs[ACT_RUNS];
    float peak = 0.0f;
#pragma unroll
    for (int i = 0; i < ACT_RUNS; ++i) {
        u32 n = i * 256 + thread_x();
        u32 down = g.runs.divide(n), col = first_col + (n - down * g.runs.divisor) * ACT_RUN;
        bool inside = down < ACT_ROWS && first_row + down < g.rows;
        runs[i] = load_run(g, first_row + down, col, inside ? end : 0);
        peak = Max()(peak, run_peak(runs[i]));
    }
    peak = group_reduce(peak, Max(), scratch, thread_x(), 256);
    float scale = own_scale(g, peak);
    if (thread_x() == 0) store_scale(g, group_y(), group_x(), scale);
    float inverse = 1.0f / scale;
#pragma unroll
    for (int i = 0; i < ACT_RUNS; ++i) {
        u32 n = i * 256 + thread_x();
        u32 down = g.runs.divide(n), col = first_col + (n - down * g.runs.divisor) * ACT_RUN;
        bool inside = down < ACT_ROWS && first_row + down < g.rows;
        store_run(g, first_row + down, col, inside ? end : 0, runs[i], inverse);
    }
}
#endif
