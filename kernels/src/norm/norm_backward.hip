// norm_backward: the gradients of a norm in one reading of x and dy: that of x, and the sums over rows that those of weight and
// bias are, in parts. norm_parts: those parts added up.
//
// Shapes : x, dy, d_sum, dx [rows, cols], a row contiguous, rows by strides; weight [cols]; weight_parts, bias_parts
//          [parts, cols] f32, contiguous; d_weight, d_bias [cols], any stride
// Grid   : norm_backward (parts, 1, 1): workgroup p takes `per` neighbouring rows from p * per on, one after another;
//          norm_parts (ceil(cols / ARCH_WAVE_SIZE), 1, 1)
// Block  : (NORM_THREADS, 1, 1), a lane holds NORM_RUNS runs of 8 columns, neighbouring lanes neighbouring runs;
//          norm_parts (ARCH_WAVE_SIZE, NORM_PART_WAVES, 1)
// LDS    : nine floats a wave at most; norm_parts two floats a lane
// Needs  : cols <= NORM_THREADS * NORM_RUNS * 8 and a multiple of 8; x, dy, d_sum, dx, weight aligned to 16 bytes in every row
//                                                                                                       checked by the launcher
// Numeric: in f32, one rounding at the store. A lane's terms of a row's sum are added in ascending order, then those of all lanes
//          by `wave_reduce` and in the order of waves; those of a LayerNorm are about each wave's own mean first. A column's terms are added row by row, then those of the parts: wave w of
//          norm_parts has parts w, w + NORM_PART_WAVES, … in ascending order, and the waves are added in order.
//
// Macros : NORM_X, NORM_WEIGHT (types: float, f16, bf16); NORM_THREADS, NORM_RUNS; NORM_LAYER: 1 by the deviation, 0 by the root of
//          the mean square; NORM_WEIGHTED: 0 no weight, 1 weight, 2 one more; NORM_D_SUM; NORM_SUMS: 1 of the weight, 2 of the bias,
//          3 of both; NORM_TO_WEIGHT, NORM_TO_BIAS: the types of their gradients; NORM_AHEAD: 1 reads a row while the one before is
//          summed up; NORM_GROUPS: workgroups of a compute unit
using namespace rf;

typedef NORM_X X;
typedef NORM_WEIGHT W;

struct NormArgs {
    const X* x;
    const X* dy;
    const X* d_sum;
    const W* weight;
    X* dx;
    float* weight_parts;
    float* bias_parts;
    i64 x_row, dy_row, d_sum_row, dx_row;  // elements
    u32 rows, per, cols;
    float epsilon, share;  // share: 1 / cols
    u32 unused;
};
static_assert(sizeof(NormArgs) == 112, "as in norm_backward.rs");

#define NORM_WAVES (NORM_THREADS / ARCH_WAVE_SIZE)

RF_FN u32 column(int run) { return (run * NORM_THREADS + thread_x()) * RUN_ELEMENTS; }

// Factors of a lane's columns. Where registers are few, 16-bit ones stay as memory has them, and longer ones are read for every row.
struct Weights {
#if NORM_LAYER
    Run<W> at[NORM_RUNS];
    RF_FN void get(const W* from, int r) { at[r].get(from); }
    RF_FN float of(int r, int i) const { return NORM_WEIGHTED == 2 ? 1.0f + at[r][i] : at[r][i]; }
    RF_FN void get_anew(const NormArgs& g) {
#pragma unroll
        for (int r = 0; r < NORM_RUNS; ++r) {
            if (NORM_WEIGHTED == 0) continue;
            if (sizeof(W) == 2) at[r].make_anew();
            else get(g.weight + (column(r) < g.cols ? column(r) : 0), r);
        }
    }
#else
    float at[NORM_RUNS][RUN_ELEMENTS];
    RF_FN void get(const W* from, int r) {
        Run<W> run;
        run.get(from);
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; ++i) at[r][i] = NORM_WEIGHTED == 2 ? 1.0f + run[i] : run[i];
    }
    RF_FN float of(int r, int i) const { return at[r][i]; }
    RF_FN void get_anew(const NormArgs&) {}
#endif
    RF_FN float times(float slope, int r, int i) const { return NORM_WEIGHTED ? slope * of(r, i) : slope; }
};

// A row as memory has it. Columns past the end are read as the first ones, and nothing comes of them.
struct Row {
    Run<X> x[NORM_RUNS], dy[NORM_RUNS];
    RF_FN void get(const NormArgs& g, u32 row) {
#pragma unroll
        for (int r = 0; r < NORM_RUNS; ++r) {
            const u32 col = column(r) < g.cols ? column(r) : 0;
            x[r].get(g.x + (i64)row * g.x_row + col);
            dy[r].get(g.dy + (i64)row * g.dy_row + col);
        }
    }
};

// What a row is brought to size 1 by, and what its gradient loses: normal = x * inverse + shift, dx = slope * inverse + normal * along
// + level.
struct Statistics { float inverse, shift, along, level; };

#if NORM_LAYER
// A wave's columns of a row: their mean, and what they add up to about it, so that nothing is lost where the mean is far from 0
// (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
struct alignas(16) Part { float mean, squares, slopes, products; };

// How many columns a wave has.
RF_FN float columns_of(u32 wave, u32 cols) {
    u32 count = 0;
#pragma unroll
    for (u32 r = 0; r < NORM_RUNS; ++r) {
        const u32 first = (r * NORM_THREADS + wave * ARCH_WAVE_SIZE) * RUN_ELEMENTS, all = ARCH_WAVE_SIZE * RUN_ELEMENTS;
        count += first >= cols ? 0 : cols - first < all ? cols - first : all;
    }
    return (float)count;
}
#else
struct alignas(8) Part { float squares, products; };
#endif

// LDS: the waves' parts of two rows, which take turns with one barrier a row, and how many columns each wave has.
struct Scratch {
    Part part[2][NORM_WAVES];
    float columns[NORM_WAVES];
};

RF_FN Statistics statistics(const NormArgs& g, Row& row, Weights& weights, Scratch& scratch, float own_share, u32 turn) {
    weights.get_anew(g);
    Part own = {};
#if NORM_LAYER
    float sum = 0.0f;
#pragma unroll
    for (int r = 0; r < NORM_RUNS; ++r) {
        if (column(r) >= g.cols) continue;
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; ++i) sum += row.x[r][i];
    }
    own.mean = wave_reduce(sum, Sum()) * own_share;
#endif
#pragma unroll
    for (int r = 0; r < NORM_RUNS; ++r) {
        if (NORM_LAYER) row.x[r].make_anew();
        if (column(r) >= g.cols) continue;
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; ++i) {
            const float slope = weights.times(row.dy[r][i], r, i);
#if NORM_LAYER
            const float value = row.x[r][i] - own.mean;
            own.slopes += slope;
#else
            const float value = row.x[r][i];
#endif
            own.squares = rf::fma(value, value, own.squares);
            own.products = rf::fma(slope, value, own.products);
        }
    }
    own.squares = wave_reduce(own.squares, Sum());
    own.products = wave_reduce(own.products, Sum());
#if NORM_LAYER
    own.slopes = wave_reduce(own.slopes, Sum());
#endif
    Part all = own;
    if (NORM_WAVES > 1) {
        const Part* parts = scratch.part[turn];
        if (thread_x() % ARCH_WAVE_SIZE == 0) scratch.part[turn][thread_x() / ARCH_WAVE_SIZE] = own;
        barrier();
        all = {};
#if NORM_LAYER
#pragma unroll
        for (u32 w = 0; w < NORM_WAVES; ++w) all.mean = rf::fma(parts[w].mean, scratch.columns[w], all.mean);
        all.mean *= g.share;
#endif
// With many waves, some at a time: their parts take registers.
#if NORM_THREADS > 256
#pragma unroll 4
#else
#pragma unroll
#endif
        for (u32 w = 0; w < NORM_WAVES; ++w) {
            const Part next = parts[w];
            all.squares += next.squares;
            all.products += next.products;
#if NORM_LAYER
            const float off = next.mean - all.mean;
            all.slopes += next.slopes;
            all.squares = rf::fma(off * off, scratch.columns[w], all.squares);
            all.products = rf::fma(next.slopes, off, all.products);
#endif
        }
    }
    Statistics s;
    s.inverse = rf::rsqrt(rf::fma(all.squares, g.share, g.epsilon));
    s.along = -(all.products * g.share) * s.inverse * s.inverse;
#if NORM_LAYER
    s.shift = -all.mean * s.inverse;
    s.level = -(all.slopes * g.share) * s.inverse;
#else
    s.shift = s.level = 0.0f;
#endif
    return s;
}

// What a lane's columns add up to over the rows so far.
struct Totals { float weight[NORM_RUNS][RUN_ELEMENTS], bias[NORM_RUNS][RUN_ELEMENTS]; };

RF_FN void finish_row(const NormArgs& g, Row& row, u32 number, Weights& weights, const Statistics& s, Totals& totals) {
    weights.get_anew(g);
#pragma unroll
    for (int r = 0; r < NORM_RUNS; ++r) {
        row.x[r].make_anew();
        row.dy[r].make_anew();
        if (column(r) >= g.cols) continue;
        float dx[RUN_ELEMENTS];
#if NORM_D_SUM
        Run<X> d_sum;
        d_sum.get(g.d_sum + (i64)number * g.d_sum_row + column(r));
#endif
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; ++i) {
            const float up = row.dy[r][i], slope = weights.times(up, r, i);
            const float normal = NORM_LAYER ? rf::fma(row.x[r][i], s.inverse, s.shift) : row.x[r][i] * s.inverse;
            dx[i] = rf::fma(slope, s.inverse, NORM_LAYER ? rf::fma(normal, s.along, s.level) : normal * s.along);
#if NORM_D_SUM
            dx[i] += d_sum[i];
#endif
            if (NORM_SUMS & 1) totals.weight[r][i] = rf::fma(up, normal, totals.weight[r][i]);
            if (NORM_SUMS & 2) totals.bias[r][i] += up;
        }
        Run<X>::store_floats(g.dx + (i64)number * g.dx_row + column(r), dx);
    }
}

extern "C" __global__ RF_BOUNDS(NORM_THREADS, NORM_GROUPS) void norm_backward(NormArgs g) {
    __shared__ Scratch scratch;
    Weights weights;
    Totals totals;
#pragma unroll
    for (int r = 0; r < NORM_RUNS; ++r) {
#if NORM_WEIGHTED
        weights.get(g.weight + (column(r) < g.cols ? column(r) : 0), r);
#endif
#pragma unroll
        for (int i = 0; i < RUN_ELEMENTS; ++i) totals.weight[r][i] = totals.bias[r][i] = 0.0f;
    }
    float own_share = 0.0f;
#if NORM_LAYER
    const u32 wave = thread_x() / ARCH_WAVE_SIZE;
    const float own_columns = columns_of(wave, g.cols);
    own_share = own_columns > 0.0f ? 1.0f / own_columns : 0.0f;
    if (thread_x() % ARCH_WAVE_SIZE == 0) scratch.columns[wave] = own_columns;
#endif
    const u32 first = group_x() * g.per, end = g.rows - first < g.per ? g.rows : first + g.per;
#if NORM_AHEAD
    // The next row is under way while one is summed up. The two take turns, so that none is moved.
    Row even, odd;
    even.get(g, first);
#pragma unroll 1
    for (u32 row = first; row < end; row += 2) {
        odd.get(g, row + 1 < end ? row + 1 : row);
        finish_row(g, even, row, weights, statistics(g, even, weights, scratch, own_share, 0), totals);
        if (row + 1 >= end) break;
        even.get(g, row + 2 < end ? row + 2 : row + 1);
        finish_row(g, odd, row + 1, weights, statistics(g, odd, weights, scratch, own_share, 1), totals);
    }
#else
    Row only;
#pragma unroll 1
    for (u32 row = first; row < end; ++row) {
        only.get(g, row);
        finish_row(g, only, row, weights, statistics(g, only, weights, scratch, own_share, (row - first) & 1), totals);
    }
#endif
#pragma unroll
    for (int r = 0; r < NORM_RUNS; ++r) {
        if (column(r) >= g.cols) continue;
        const u64 at = (u64)group_x() * g.cols + column(r);
        if (NORM_SUMS & 1) Run<float>::store_floats(g.weight_parts + at, totals.weight[r]);
        if (NORM_SUMS & 2) Run<float>::store_floats(g.bias_parts + at, totals.bias[r]);
    }
}

struct PartsArgs {
    const float* weight_parts;
    const float* bias_parts;
    NORM_TO_WEIGHT* d_weight;
    NORM_TO_BIAS* d_bias;
    i64 weight_step, bias_step;  // elements
    u32 parts, cols;
};
static_assert(sizeof(PartsArgs) == 56, "as in norm_backward.rs");

#define NORM_PART_WAVES 16

// What a wave's parts of a column add up to; several are under way at once.
RF_FN float sum_own(const float* from, const PartsArgs& g, u32 col) {
    float total = 0.0f;
    for (u32 part = thread_y(); part < g.parts; part += 16 * NORM_PART_WAVES) {
        float some[16];
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            const u32 at = part + i * NORM_PART_WAVES;
            some[i] = at < g.parts ? from[(u64)at * g.cols + col] : 0.0f;
        }
#pragma unroll
        for (u32 i = 0; i < 16; ++i) total += some[i];
    }
    return total;
}

RF_FN float sum_waves(const float* scratch) {
    float total = scratch[0];
#pragma unroll
    for (u32 wave = 1; wave < NORM_PART_WAVES; ++wave) total += scratch[wave * ARCH_WAVE_SIZE];
    return total;
}

extern "C" __global__ __launch_bounds__(NORM_PART_WAVES * ARCH_WAVE_SIZE) void norm_parts(PartsArgs g) {
    __shared__ float scratch[2][NORM_PART_WAVES * ARCH_WAVE_SIZE];
    const u32 own = group_x() * ARCH_WAVE_SIZE + thread_x(), col = own < g.cols ? own : 0;
    const u32 at = thread_y() * ARCH_WAVE_SIZE + thread_x();
    if (NORM_SUMS & 1) scratch[0][at] = sum_own(g.weight_parts, g, col);
    if (NORM_SUMS & 2) scratch[1][at] = sum_own(g.bias_parts, g, col);
    barrier();
    if (thread_y() != 0 || own >= g.cols) return;
    if (NORM_SUMS & 1) g.d_weight[(i64)own * g.weight_step] = cast<NORM_TO_WEIGHT>(sum_waves(scratch[0] + thread_x()));
    if (NORM_SUMS & 2) g.d_bias[(i64)own * g.bias_step] = cast<NORM_TO_BIAS>(sum_waves(scratch[1] + thread_x()));
}
