// row_codes: codes and scales of rows that are computed where they are coded: of a norm, or of a gate. Nothing else is written,
// but the sum that a norm is of.
//
// Shapes : x [rows, cols] for a norm, gates and ups beside each other for a gate; residual, sum [rows, cols]; weight, bias [cols],
//          for a gate [2 cols] lying as x does; codes [rows, cols], bytes or two to a byte, contiguous; scales by two strides
// Grid   : (1, rows, 1) for a norm, or one scale per row; else (ceil(cols / (ROW_THREADS * ROW_RUNS * 8)), rows, 1)
// Block  : (ROW_THREADS, 1, 1); a lane holds ROW_RUNS runs of 8 columns, neighbouring lanes neighbouring runs
// LDS    : three numbers a wave
// Needs  : cols <= ROW_THREADS * ROW_RUNS * 8 where the grid is one wide; ROW_LANES a power of two, at most a wave;
//          whole: cols a multiple of 8, rows of x, residual, sum, a norm's weight and bias aligned to 16 bytes, of codes to 8
//                                                                                                       checked by the launcher
// Numeric: in f32, powers and reciprocals of activations to 2^-16 where X has 16 bits; what is coded is rounded to
//          ROW_X first, as if it had been stored. Squares are summed in ascending order in each run, then run by run, then as
//          `wave_reduce` does, then wave by wave. scale = peak / largest, 1 where that is 0 (ROW_MX: a power of two by the
//          rounding mode); code = encode(y * (1 / scale)), ties to even. A NaN makes its scale NaN.
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

// Whether rows are read past the caches: they are faster through them where a row has scales of its groups.
#define ROW_ONCE (ROW_LANES == 0)
// From a lane's run to its next.
#define ROW_APART (ROW_THREADS * RUN_ELEMENTS)

// Columns past the end are zeros; `from` is the run's first. WHOLE is `whole`, known to the compiler; ONCE:
// nobody else reads them.
template <bool WHOLE, bool ONCE, class T> RF_FN Run<T> load_run(const T* from, i64 step, u32 col, u32 cols) {
    const int PER = Run<T>::PER;
    Run<T> run;
    if (WHOLE) {
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS / PER; i += 4) {
            Vec<u32, 4> some = {{0, 0, 0, 0}};
            const u32* at = (const u32*)(const void*)from + i;
            if (col < cols) some = ONCE ? load_once<4>(at) : load<4>(at);
#pragma unroll
            for (int j = 0; j < 4; ++j) run.words[i + j] = some[j];
        }
        return run;
    }
#pragma unroll
    for (int i = 0; i < RUN_ELEMENTS; ++i) {
        const u32 bits = col + i < cols ? Run<T>::bits_of(from[i * step]) : 0;
        if (i % PER == 0) run.words[i / PER] = bits;
        else run.words[i / PER] |= bits << 16;
    }
    return run;
}
// Those of a lane, whose first is at `from`.
template <bool WHOLE, bool ONCE, class T> RF_FN void load_runs(const T* from, i64 step, u32 first, u32 cols, Run<T>* runs) {
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n)
        runs[n] = load_run<WHOLE, ONCE>(from + n * ROW_APART * step, step, first + n * ROW_APART, cols);
}
// Whether element i of a run at `col` is there.
template <bool WHOLE> RF_FN bool is_there(const RowArgs& g, u32 col, int i) { return WHOLE ? col < g.cols : col + i < g.cols; }

// As group_reduce, with scratch that nothing else uses: one barrier.
template <class Op, class T> RF_FN T reduce_row(T value, Op op, T* scratch) {
    value = wave_reduce(value, op);
    if (ROW_THREADS <= ARCH_WAVE_SIZE) return value;
    if (thread_x() % ARCH_WAVE_SIZE == 0) scratch[thread_x() / ARCH_WAVE_SIZE] = value;
    barrier();
    T total = scratch[0];
#pragma unroll
    for (u32 wave = 1; wave < ROW_THREADS / ARCH_WAVE_SIZE; ++wave) total = op(total, scratch[wave]);
    return total;
}

// The bits of the largest magnitude: those of floats without a sign are in the floats' order, and NaN behind infinity.
struct Most { RF_FN u32 operator()(u32 a, u32 b) const { return a > b ? a : b; } };

template <int RUNS> RF_FN u32 peak_of(const Run<X>* runs) {
    const int WORDS = RUN_ELEMENTS / Run<X>::PER;
    u32 peak = 0;
#pragma unroll
    for (int i = 0; i < RUNS * WORDS; ++i) {
        const u32 word = runs[i / WORDS].words[i % WORDS];
        // Both halves of a word at once: the bits of 16-bit floats are in their order too.
        if (Run<X>::PER == 1) peak = Most()(peak, word & 0x7fffffffu);
        else peak = larger_halves(peak, word & 0x7fff7fffu);
    }
    if (Run<X>::PER == 1) return peak;
    Run<X> most;
    most.words[0] = Most()(peak & 0xffffu, peak >> 16);
    return bit_cast<u32>(most[0]);
}

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

template <bool WHOLE> RF_FN void store_codes(const RowArgs& g, u8* to, u32 col, Run<X>& run, float inverse) {
    if (col >= g.cols) return;
    run.make_anew();
    const int WORDS = RUN_ELEMENTS * Code::BITS / 32, PER = 32 / Code::BITS;
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
            for (int i = 0; i < 4; ++i) x[i] = run[w * 4 % RUN_ELEMENTS + i] * inverse;
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
                words[w] |= Code::encode<RoundEven>(run[w * PER + i] * inverse, g.least, g.most) << (Code::BITS * i);
        }
    }
    if (WHOLE) {
        Vec<u32, WORDS> all;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) all[w] = words[w];
        store_once<WORDS>((u32*)to, all);
        return;
    }
    u32 bytes = ((g.cols - col < RUN_ELEMENTS ? g.cols - col : RUN_ELEMENTS) * Code::BITS + 7) / 8;
#pragma unroll
    for (u32 i = 0; i < (u32)Code::BITS; ++i)
        if (i < bytes) to[i] = (u8)(words[i / 4] >> (8 * (i % 4)));
}

#if ROW_NORM
#if ROW_SUM
template <bool WHOLE> RF_FN void store_sum(const RowArgs& g, u32 row, u32 col, const Run<X>& run) {
    X* to = g.sum + (i64)row * g.sum_row;
    if (!WHOLE) {
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; ++i)
            if (col + i < g.cols) to[col + i] = cast<X>(run[i]);
        return;
    }
    if (col < g.cols) run.store_to(to + col);
}
#endif
// The row that is coded, in place of the one that is read.
template <bool WHOLE> RF_FN void normalise(const RowArgs& g, u32 row, u32 first, Run<X>* runs, float* scratch) {
    // Weights are under way before the sums are known, where registers suffice.
    const bool early = ROW_RUNS * sizeof(W) * (ROW_WEIGHTED && ROW_BIAS ? 2 : 1) <= 8;
    Run<W> weight[ROW_RUNS], bias[ROW_RUNS];
    if (early) {
        if (ROW_WEIGHTED) load_runs<WHOLE, false>(g.weight + first, 1, first, g.cols, weight);
        if (ROW_BIAS) load_runs<WHOLE, false>(g.bias + first, 1, first, g.cols, bias);
    }
#if ROW_RESIDUAL
    Run<X> more[ROW_RUNS];
    load_runs<WHOLE, ROW_ONCE>(g.residual + (i64)row * g.residual_row + first, 1, first, g.cols, more);
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n)
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; i += 2)
            runs[n].put(i, runs[n][i] + more[n][i], runs[n][i + 1] + more[n][i + 1]);
#endif
#if ROW_SUM
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) store_sum<WHOLE>(g, row, first + n * ROW_APART, runs[n]);
#endif
    float mean = 0.0f;
#if ROW_NORM == 2
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        float part = 0.0f;
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; ++i) part += runs[n][i];
        mean += part;
    }
    mean = reduce_row(mean, Sum(), scratch) * g.share;
#endif
    float size = 0.0f;
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        runs[n].make_anew();
        // A sum of its own for each run: they do not wait for each other.
        float part = 0.0f;
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; ++i) {
            float x = runs[n][i];
            if (ROW_NORM == 2) x = is_there<WHOLE>(g, first + n * ROW_APART, i) ? x - mean : 0.0f;
            part = rf::fma(x, x, part);
        }
        size += part;
    }
    size = reduce_row(size, Sum(), scratch + ROW_THREADS / ARCH_WAVE_SIZE) * g.share;
    const float inverse_size = rf::rsqrt(size + g.epsilon);
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        const u32 col = first + n * ROW_APART;
        if (!early && ROW_WEIGHTED) weight[n] = load_run<WHOLE, false>(g.weight + first + n * ROW_APART, 1, col, g.cols);
        if (!early && ROW_BIAS) bias[n] = load_run<WHOLE, false>(g.bias + first + n * ROW_APART, 1, col, g.cols);
        runs[n].make_anew();
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; i += 2) {
            float y[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                y[j] = (ROW_NORM == 2 ? runs[n][i + j] - mean : runs[n][i + j]) * inverse_size;
                if (ROW_WEIGHTED == 1) y[j] *= weight[n][i + j];
                if (ROW_WEIGHTED == 2) y[j] *= weight[n][i + j] + 1.0f;
                if (ROW_BIAS) y[j] += bias[n][i + j];
                // Beside the row there is nothing that could be its largest; what was read as zeros is still zero.
                const bool zero = WHOLE && (ROW_NORM == 1 || ROW_WEIGHTED == 1);
                if (!zero && !is_there<WHOLE>(g, col, i + j)) y[j] = 0.0f;
            }
            runs[n].put(i, y[0], y[1]);
        }
    }
}
#else
template <bool WHOLE> RF_FN void gate(const RowArgs& g, u32 row, u32 first, Run<X>* runs) {
    const i64 step = WHOLE ? 1 : g.x_col;
    Run<X> ups[ROW_RUNS];
    load_runs<WHOLE, ROW_ONCE>(g.x + (i64)row * g.x_row + g.up + first * step, step, first, g.cols, ups);
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        const u32 col = first + n * ROW_APART;
#if ROW_BIAS
        const Run<W> bias = load_run<false, false>(g.bias + col * step, step, col, g.cols);
        const Run<W> up_bias = load_run<false, false>(g.bias + g.up + col * step, step, col, g.cols);
#endif
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; i += 2) {
            float y[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                float gate = runs[n][i + j], up = ups[n][i + j];
#if ROW_BIAS
                gate += bias[i + j];
                up += up_bias[i + j];
#endif
#if ROW_LIMIT
                gate = Min()(gate, g.limit);
                up = Max()(Min()(up, g.limit), -g.limit);
#endif
                y[j] = activation(gate) * (up + g.offset) * g.factor;
                // A sigmoid alone is not zero at zero, and neither is what a bias was added to.
                const bool zero = WHOLE && ROW_ACTIVATION != 5 && !ROW_BIAS;
                if (!zero && !is_there<WHOLE>(g, col, i + j)) y[j] = 0.0f;
            }
            runs[n].put(i, y[0], y[1]);
        }
    }
}
#endif

#if ROW_LANES >= ROW_RUNS && ROW_RUNS > 1
#define ROW_PER (4 / (int)sizeof(X))
// The larger of what a word holds: magnitudes in X, as many as there is room for.
RF_FN u32 larger(u32 a, u32 b) { return ROW_PER == 2 ? larger_halves(a, b) : Most()(a, b); }
// The largest magnitudes of as many runs; of two, the first's in the lower half.
RF_FN u32 peaks_of(const Run<X>* runs) {
    u32 peak[2];
#pragma unroll
    for (int n = 0; n < ROW_PER; ++n) {
        const u32 size = ROW_PER == 2 ? 0x7fff7fffu : 0x7fffffffu;
        peak[n] = runs[n].words[0] & size;
#pragma unroll
        for (int i = 1; i < RUN_ELEMENTS / ROW_PER; ++i) peak[n] = larger(peak[n], runs[n].words[i] & size);
    }
    if (ROW_PER == 1) return peak[0];
    return larger_halves((peak[0] & 0xffffu) | peak[1] << 16, peak[0] >> 16 | (peak[1] & 0xffff0000u));
}
// What the other half of LANES lanes has.
template <int LANES> RF_FN u32 of_other_half(u32 x) {
    if (LANES == 32) return xor16_bits(x);
    return dpp<LANES == 16 ? RF_DPP_MIRROR : LANES == 8 ? RF_DPP_HALF_MIRROR : LANES == 4 ? RF_DPP_XOR2 : RF_DPP_XOR1>(x);
}
// The largest of LANES lanes, of all words at first: the upper half of the lanes keeps the second half of them, and so on.
template <int LANES, int WORDS> struct Halve {
    RF_FN static u32 of(const u32* words, u32 lane_id) {
        const int LEFT = WORDS > 1 ? WORDS / 2 : 1;
        const bool upper = (lane_id & (LANES / 2)) != 0;
        u32 left[LEFT];
#pragma unroll
        for (int w = 0; w < LEFT; ++w) {
            const u32 second = words[WORDS > 1 ? LEFT + w : w];
            left[w] = larger(upper ? second : words[w], of_other_half<LANES>(upper ? words[w] : second));
        }
        return Halve<LANES / 2, LEFT>::of(left, lane_id);
    }
};
template <int WORDS> struct Halve<1, WORDS> { RF_FN static u32 of(const u32* words, u32) { return words[0]; } };
#endif

template <bool WHOLE> RF_FN void code_row(const RowArgs& g, float* sums, u32* peaks) {
    const u32 row = group_y(), first = group_x() * (ROW_APART * ROW_RUNS) + thread_x() * RUN_ELEMENTS;
    const i64 step = WHOLE ? 1 : g.x_col;
    Run<X> runs[ROW_RUNS];
    load_runs<WHOLE, ROW_ONCE>(g.x + (i64)row * g.x_row + first * step, step, first, g.cols, runs);
#if ROW_NORM
    normalise<WHOLE>(g, row, first, runs, sums);
#else
    gate<WHOLE>(g, row, first, runs);
#endif
    u8* to = g.codes + (i64)row * g.code_row + (i64)first * Code::BITS / 8;
    const int APART = ROW_APART * Code::BITS / 8;
#if ROW_GIVEN
    const float inverse = 1.0f / *(const float*)g.scales;
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) store_codes<WHOLE>(g, to + n * APART, first + n * ROW_APART, runs[n], inverse);
#elif ROW_LANES >= ROW_RUNS && ROW_RUNS > 1
    u32 words[ROW_RUNS / ROW_PER];
#pragma unroll
    for (int w = 0; w < ROW_RUNS / ROW_PER; ++w) words[w] = peaks_of(runs + w * ROW_PER);
    const u32 lane_id = thread_x() % ROW_LANES, word = Halve<ROW_LANES, ROW_RUNS / ROW_PER>::of(words, lane_id);
    // A lane finds the scale of one run's group, so that a division is one for all runs.
    const u32 apart = ROW_LANES * ROW_PER / ROW_RUNS, half = lane_id % ROW_PER, number = lane_id / apart * ROW_PER + half;
    Run<X> most;
    most.words[0] = ROW_PER == 1 ? word : half ? word >> 16 : word & 0xffffu;
    const float scale = own_scale(g, most[0]), inverse = 1.0f / scale;
    // Of a group that ends with the row, this lane's own columns may be behind it.
    const u32 group_col = first - lane_id * RUN_ELEMENTS + number * ROW_APART;
    if (lane_id % apart < ROW_PER && group_col < g.cols) store_scale(g, row, group_col / (ROW_LANES * RUN_ELEMENTS), scale);
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        const u32 from = lane() - lane_id + n / ROW_PER * apart + n % ROW_PER;
        store_codes<WHOLE>(g, to + n * APART, first + n * ROW_APART, runs[n], shuffle(inverse, from));
    }
#elif ROW_LANES
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) {
        const u32 col = first + n * ROW_APART;
        u32 peak = peak_of<1>(runs + n);
#pragma unroll
        for (u32 distance = ROW_LANES / 2; distance > 0; distance /= 2) peak = Most()(peak, shuffle_xor(peak, distance));
        const float scale = own_scale(g, bit_cast<float>(peak));
        if (thread_x() % ROW_LANES == 0 && col < g.cols) store_scale(g, row, col / (ROW_LANES * RUN_ELEMENTS), scale);
        store_codes<WHOLE>(g, to + n * APART, col, runs[n], 1.0f / scale);
    }
#else
    const u32 peak = reduce_row(peak_of<ROW_RUNS>(runs), Most(), peaks);
    const float scale = own_scale(g, bit_cast<float>(peak));
    if (thread_x() == 0) store_scale(g, row, 0, scale);
    const float inverse = 1.0f / scale;
#pragma unroll
    for (int n = 0; n < ROW_RUNS; ++n) store_codes<WHOLE>(g, to + n * APART, first + n * ROW_APART, runs[n], inverse);
#endif
}

extern "C" __global__ RF_BOUNDS(ROW_THREADS, (ROW_RUNS * sizeof(X) > 8 ? 512 : ROW_RUNS * sizeof(X) > 2 ? 1280 : 1536) / ROW_THREADS) void row_codes(RowArgs g) {
    __shared__ float sums[2 * (ROW_THREADS / ARCH_WAVE_SIZE)];
    __shared__ u32 peaks[ROW_THREADS / ARCH_WAVE_SIZE];
    if (g.whole) code_row<true>(g, sums, peaks);
    else code_row<false>(g, sums, peaks);
}
