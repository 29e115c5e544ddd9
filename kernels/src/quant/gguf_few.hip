// gguf_few: C = A W for groups of few rows, W of blocks of GGUF: lines of blocks, one for each column, `w_n` bytes apart
//
// Shapes : as coded.h says
// Grid   : (ceil(N / Q_COLUMNS), tiles of Q_ROWS rows of groups, 1)
// Block  : (128, 1, 1); 32 lanes compute an element of C of each row, one column after the other
// Needs  : K >= 1 and whole blocks; A_VECTOR: rows of A contiguous and aligned to 16 bytes     checked by the launcher
// Numeric: in f32, of weights that are not rounded, in an order that K alone decides; one rounding at the store
//
// Macros : those of coded.h; Q_GGUF, a number of gguf.h; Q_ROWS rows of a group that read a weight once; Q_COLUMNS
static const int VECTOR = 16 / (int)sizeof(In);

// The products of a run's weights with what one row of A has for them.
RF_FN float run_dot(const float* weights, const In* x, i64 stride, bool vector) {
    float sum = 0.0f;
    if (vector) {
#pragma unroll
        for (int i = 0; i < 16; i += VECTOR) {
            const Vec<In, VECTOR> some = load<VECTOR>(x + i);
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) sum = rf::fma(weights[i + j], cast<float>(some[j]), sum);
        }
        return sum;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) sum = rf::fma(weights[i], cast<float>(x[i * stride]), sum);
    return sum;
}

extern "C" __global__ __launch_bounds__(128) void gguf_few(QMatmulArgs g) {
    typedef Gguf<Q_GGUF> Type;
    RowsOfA rows;
    u32 first_row;
    if (!go_to_tile<Q_ROWS>(g, rows, first_row)) return;
    const u32 lane_id = thread_x() % 32, units = g.k / Type::SIZE * Type::UNITS;
    const u32 end = (group_x() + 1) * Q_COLUMNS < g.n ? (group_x() + 1) * Q_COLUMNS : g.n;
    const u32 there = g.m - first_row < Q_ROWS ? g.m - first_row : Q_ROWS;
    const In* from[Q_ROWS];
#pragma unroll
    for (int m = 0; m < Q_ROWS; ++m) from[m] = g.a + (i64)rows.at(first_row + ((u32)m < there ? m : 0)) * g.a_row;
    // All lanes of a wave take part in every sum.
    for (u32 first = group_x() * Q_COLUMNS; first < end; first += 128 / 32) {
        const u32 own = first + thread_x() / 32, col = own < g.n ? own : g.n - 1;
        const u8* line = g.words + (i64)col * g.w_n;
        float sum[Q_ROWS];
#pragma unroll
        for (int m = 0; m < Q_ROWS; ++m) sum[m] = 0.0f;
        for (u32 n = lane_id; n < units; n += 32) {
            Run runs[Type::SUBS];
            Type::unpack(line + (u64)(n / Type::UNITS) * Type::BYTES, n % Type::UNITS, runs);
#pragma unroll
            for (int run = 0; run < Type::SUBS; ++run) {
                const i64 k = n / Type::UNITS * Type::SIZE + runs[run].at;
                float weights[16];
#pragma unroll
                for (int i = 0; i < 16; ++i) weights[i] = weight_at(runs[run], i);
#pragma unroll
                for (int m = 0; m < Q_ROWS; ++m)
                    if ((u32)m < there) sum[m] += run_dot(weights, from[m] + k * g.a_k, g.a_k, g.a_vector != 0);
            }
        }
#pragma unroll
        for (int m = 0; m < Q_ROWS; ++m) {
            const float total = sum_of_32(sum[m]);
            if (lane_id == 0 && own < g.n && (u32)m < there) finish(g, 0, first_row + m, own, total, 1.0f);
        }
    }
}
