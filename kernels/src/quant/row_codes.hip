// row_codes: codes and scales of rows that are computed where they are coded: of a norm, or of a gate. Nothing else is written,
// but the sum that a norm is of.
//
// Shapes : x [rows, cols] for a norm, gates and ups beside each other for a gate; residual, sum [rows, cols]; weight, bias [cols],
//          for a gate [2 cols] lying as x does; codes [rows, cols], bytes or two to a byte, contiguous; scales by two strides
// Grid   : (1, rows, 1) for a norm, or one scale per row; else (ceil(cols / (ROW_THREADS * ROW_RUNS * 8)), rows, 1)
// Block  : (ROW_THREADS, 1, 1); a lane holds ROW_RUNS runs of 8 columns, neighbouring lanes neighbouring runs
// LDS    : ROW_THREADS / ARCH_WAVE_SIZE floats
// Needs  : cols <= ROW_THREADS * ROW_RUNS * 8 where the grid is one wide; ROW_LANES a power of two, at most a wave;
//          whole: cols a multiple of 8, rows of x, residual, sum, a norm's weight and bias aligned to 16 bytes, of codes to 8
//                                                                                                       checked by the launcher
// Numeric: in f32, powers and reciprocals of activations to 2^-16 where X has 16 bits; what is coded is rounded to ROW_X first, as if it had been stored. A lane's squares are summed in ascending
//          order, then those of all lanes by `group_reduce`. scale = peak / largest, 1 where that is 0 (ROW_MX: a power of two by
//          the rounding mode); code = encode(y * (1 / scale)), ties to even. A NaN makes its scale NaN.
//
// Macros : ROW_X, ROW_WEIGHT (types); ROW_FORMAT; ROW_THREADS, ROW_RUNS; ROW_NORM: 1 by the root of the mean square, 2 by the
//          deviation, 0 a gate; ROW_RESIDUAL, ROW_SUM; ROW_WEIGHTED: 1 weight, 2 one more; ROW_BIAS; ROW_ACTIVATION: 1 silu,
//          2 gelu, 3 gelu by tanh, 4 quick gelu, 5 sigmoid; ROW_LIMIT; ROW_LANES: lanes that share a scale, 0 all; ROW_GIVEN: one
//          scale is read; ROW_MX
using namespace rf;

typedef ROW_X X;
typedef ROW_WEIGHT W;
typedef Format<ROW_FORMAT> Code;

struct RowArgs {
    const X* x;
    const X* residual;
    X* sum;
    const W* weight;
    const W* bias;
    u8* codes;
    void* scales;
    i64 x_row, x_col, up, residual_row, sum_row, code_row, scale_row, scale_col;  // code_row in bytes; up: from gate to up
    u32 cols, mode, whole, unused;
    float least, most, largest, epsilon, limit, offset, factor, share;  // share: 1 / cols
};
static_assert(sizeof(RowArgs) == 168, "as in row_codes.rs");

#define ROW_RUN 8
struct Run { float at[ROW_RUN]; };

// Columns past the end are zeros.
template <class T> RF_FN Run load_run(const T* from, i64 step, u32 col, u32 cols, bool whole) {
    Run run;
    if (whole) {
        const int WIDE = 16 / (int)sizeof(T) < ROW_RUN ? 16 / (int)sizeof(T) : ROW_RUN;
#pragma unroll
        for (int i = 0; i < ROW_RUN; i += WIDE) {
            if (col < cols) {
                Vec<T, WIDE> some = load<WIDE>(from + col + i);
#pragma unroll
                for (int j = 0; j < WIDE; ++j) run.at[i + j] = cast<float>(some[j]);
            } else {
#pragma unroll
                for (int j = 0; j < WIDE; ++j) run.at[i + j] = 0.0f;
            }
        }
        return run;
    }
#pragma unroll
    for (int i = 0; i < ROW_RUN; ++i)
        run.at[i] = col + i < cols ? cast<float>(from[(i64)(col + i) * step]) : 0.0f;
    return run;
}
RF_FN float rounded(float x) { return cast<float>(cast<X>(x)); }

#if !ROW_NORM
// As `gate` has them: what is rounded to 16 bits takes the device's own power of two, of half so that no square is lost, and
// reciprocal.
RF_FN float sigmoid(float x) {
    if (sizeof(X) != 2) return 1.0f / (1.0f + rf::exp(-x));
    const float root = exp2_fast(x * -0x1.715476p-1f);
    const float below = root * root + 1.0f;
    const float scale = below > 0x1p64f ? 0x1p-64f : 1.0f;
    return rcp_fast(below * scale) * scale;
}
RF_FN float activation(float x) {
#if ROW_ACTIVATION == 1
    return x * sigmoid(x);
#elif ROW_ACTIVATION == 2
    return x * ((1.0f + rf::erf(x * 0.70710678118654752f)) * 0.5f);
#elif ROW_ACTIVATION == 3
    return x * ((1.0f + rf::tanh((x * x * 0.044715f + 1.0f) * x * 0.79788456080286536f)) * 0.5f);
#elif ROW_ACTIVATION == 4
    return x * sigmoid(1.702f * x);
#else
    return sigmoid(x);
#endif
}
#endif

// A scale from the largest magnitude; ROW_MX: a power of two with the exponent of the peak, moved down by the format's own.
#define ROW_EMAX (ROW_FORMAT == 3 ? 8 : ROW_FORMAT == 4 || ROW_FORMAT == 7 ? 15 : ROW_FORMAT == 6 ? 7 : 2)
#define ROW_MANTISSA (ROW_FORMAT == 3 || ROW_FORMAT == 6 ? 3 : ROW_FORMAT == 5 ? 1 : 2)
RF_FN float own_scale(const RowArgs& g, float peak) {
#if ROW_MX
    u32 bits = bit_cast<u32>(g.mode == 1 ? peak / g.largest : peak);
    if ((bits >> 23) == 255) return nan();
    // 0 down, 1 up from peak / largest, 2 to the nearest value of the format, 3 up.
    if (g.mode == 1 || g.mode == 3) bits += 0x7fffffu;
    if (g.mode == 2) bits += 1u << (22 - ROW_MANTISSA);
    i32 exponent = (i32)(bits >> 23) - (g.mode == 1 ? 0 : ROW_EMAX);
    return e8m0_decode((u32)(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent));
#else
    float scale = peak / g.largest;
    return scale == 0.0f ? 1.0f : scale;
#endif
}
RF_FN void store_scale(const RowArgs& g, u32 row, u32 group, float scale) {
    write_scale(g.scales, (i64)row * g.scale_row + (i64)group * g.scale_col, scale, ROW_MX ? RF_SCALE_E8M0 : RF_SCALE_F32);
}

RF_FN void store_codes(const RowArgs& g, u32 row, u32 col, const Run& run, float inverse) {
    if (col >= g.cols) return;
    const int WORDS = ROW_RUN * Code::BITS / 32, PER = 32 / Code::BITS;
    u32 words[WORDS];
#if QUANT_CONVERTS(ROW_FORMAT) || ROW_FORMAT == 0
#if QUANT_CONVERTS(ROW_FORMAT) && QUANT_SATURATES
    const bool plain = true;
#else
    // An own scale is finite where all elements are, and its inverse then not 0 or infinite; codes are in range then.
    const bool plain = !ROW_GIVEN && inverse * 0.0f == 0.0f && inverse != 0.0f;
#endif
#else
    const bool plain = false;
#endif
    if (plain) {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            float x[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = run.at[w * 4 % ROW_RUN + i] * inverse;
#if ROW_FORMAT == 0
            // 1.5 * 2^23, from where on floats are whole numbers: the lowest bits of the sum are those of the nearest one.
            u32 code[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) code[i] = bit_cast<u32>(x[i] + 12582912.0f);
            words[w] = low_bytes(code[0], code[1], code[2], code[3]);
#else
            words[w] = four_codes<ROW_FORMAT>(x[0], x[1], x[2], x[3], g.most);
#endif
        }
    } else {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            words[w] = 0;
#pragma unroll
            for (int i = 0; i < PER; ++i)
                words[w] |= Code::encode<RoundEven>(run.at[w * PER + i] * inverse, g.least, g.most) << (Code::BITS * i);
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
    u32 bytes = ((g.cols - col < ROW_RUN ? g.cols - col : ROW_RUN) * Code::BITS + 7) / 8;
#pragma unroll
    for (u32 i = 0; i < (u32)Code::BITS; ++i)
        if (i < bytes) to[i] = (u8)(words[i / 4] >> (8 * (i % 4)));
}

extern "C" __global__ __launch_bounds__(ROW_THREADS) void row_codes(RowArgs g) {
    __shared__ float scratch[ROW_THREADS / ARCH_WAVE_SIZE];
    u32 row = group_y();
    u32 first = group_x() * (ROW_THREADS * ROW_RUNS * ROW_RUN) + thread_x() * ROW_RUN;
    const X* from = g.x + (i64)row * g.x_row;
    Run runs[ROW_RUNS];
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) runs[n] = load_run(from, g.x_col, first + n * (ROW_THREADS * ROW_RUN), g.cols, g.whole);
#if ROW_NORM
#if ROW_RESIDUAL
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        u32 col = first + n * (ROW_THREADS * ROW_RUN);
        Run more = load_run(g.residual + (i64)row * g.residual_row, 1, col, g.cols, g.whole);
#pragma unroll
        for (int i = 0; i < ROW_RUN; ++i) runs[n].at[i] = rounded(runs[n].at[i] + more.at[i]);
    }
#endif
#if ROW_SUM
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        u32 col = first + n * (ROW_THREADS * ROW_RUN);
        X* to = g.sum + (i64)row * g.sum_row;
#pragma unroll
        for (int i = 0; i < ROW_RUN; ++i)
            if (col + i < g.cols) to[col + i] = cast<X>(runs[n].at[i]);
    }
#endif
    float mean = 0.0f;
#if ROW_NORM == 2
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n)
#pragma unroll
        for (int i = 0; i < ROW_RUN; ++i) mean += runs[n].at[i];
    mean = group_reduce(mean, Sum(), scratch, thread_x(), ROW_THREADS) * g.share;
#endif
    float size = 0.0f;
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        u32 col = first + n * (ROW_THREADS * ROW_RUN);
#pragma unroll
        for (int i = 0; i < ROW_RUN; ++i) {
            if (ROW_NORM == 2) runs[n].at[i] = col + i < g.cols ? runs[n].at[i] - mean : 0.0f;
            size = rf::fma(runs[n].at[i], runs[n].at[i], size);
        }
    }
    size = group_reduce(size, Sum(), scratch, thread_x(), ROW_THREADS) * g.share;
    float inverse_size = rf::rsqrt(size + g.epsilon);
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        u32 col = first + n * (ROW_THREADS * ROW_RUN);
#if ROW_WEIGHTED
        Run weight = load_run(g.weight, 1, col, g.cols, g.whole);
#endif
#if ROW_BIAS
        Run bias = load_run(g.bias, 1, col, g.cols, g.whole);
#endif
#pragma unroll
        for (int i = 0; i < ROW_RUN; ++i) {
            float y = runs[n].at[i] * inverse_size;
#if ROW_WEIGHTED
            y *= weight.at[i] + (ROW_WEIGHTED == 2 ? 1.0f : 0.0f);
#endif
#if ROW_BIAS
            y += bias.at[i];
#endif
            runs[n].at[i] = col + i < g.cols ? rounded(y) : 0.0f;
        }
    }
#else
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        u32 col = first + n * (ROW_THREADS * ROW_RUN);
        Run ups = load_run(from + g.up, g.x_col, col, g.cols, g.whole);
#if ROW_BIAS
        Run bias = load_run(g.bias, g.x_col, col, g.cols, false);
        Run up_bias = load_run(g.bias + g.up, g.x_col, col, g.cols, false);
#endif
#pragma unroll
        for (int i = 0; i < ROW_RUN; ++i) {
            float gate = runs[n].at[i], up = ups.at[i];
#if ROW_BIAS
            gate += bias.at[i];
            up += up_bias.at[i];
#endif
#if ROW_LIMIT
            gate = Min()(gate, g.limit);
            up = Max()(Min()(up, g.limit), -g.limit);
#endif
            float y = activation(gate) * (up + g.offset) * g.factor;
            runs[n].at[i] = col + i < g.cols ? rounded(y) : 0.0f;
        }
    }
#endif

#if ROW_GIVEN
    float inverse = 1.0f / *(const float*)g.scales;
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) store_codes(g, row, first + n * (ROW_THREADS * ROW_RUN), runs[n], inverse);
#elif ROW_LANES
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        u32 col = first + n * (ROW_THREADS * ROW_RUN);
        float peak = 0.0f;
#pragma unroll
        for (int i = 0; i < ROW_RUN; ++i) peak = Max()(peak, __builtin_fabsf(runs[n].at[i]));
#pragma unroll
        for (u32 distance = ROW_LANES / 2; distance > 0; distance /= 2) peak = Max()(peak, shuffle_xor(peak, distance));
        float scale = own_scale(g, peak);
        if (thread_x() % ROW_LANES == 0 && col < g.cols) store_scale(g, row, col / (ROW_LANES * ROW_RUN), scale);
        store_codes(g, row, col, runs[n], 1.0f / scale);
    }
#else
    float peak = 0.0f;
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n)
#pragma unroll
        for (int i = 0; i < ROW_RUN; ++i) peak = Max()(peak, __builtin_fabsf(runs[n].at[i]));
    peak = group_reduce(peak, Max(), scratch, thread_x(), ROW_THREADS);
    float scale = own_scale(g, peak);
    if (thread_x() == 0) store_scale(g, row, 0, scale);
    float inverse = 1.0f / scale;
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) store_codes(g, row, first + n * (ROW_THREADS * ROW_RUN), runs[n], inverse);
#endif
}
