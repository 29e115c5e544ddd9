// gguf_few: C = A W for groups of few rows, or for rows of a list, W of blocks of GGUF: lines of blocks, one for each column, `w_n`
// bytes apart
//
// Shapes : as coded.h says
// Grid   : (ceil(N / Q_COLUMNS), tiles of Q_ROWS rows of groups, 1)
// Block  : (THREADS, 1, 1); 32 lanes compute an element of C of each row, one column after the other
// LDS    : Q_ROWS * CHUNK of A's type: all columns have the rows from there, in pieces of 16 bytes
// Needs  : K >= 1 and whole blocks; A_VECTOR: rows of A contiguous and aligned to 16 bytes     checked by the launcher
// Numeric: in f32, of weights that are not rounded, in an order that K alone decides; one rounding at the store
//
// Macros : those of coded.h; Q_GGUF, a number of gguf.h; Q_ROWS rows of a group that read a weight once; Q_COLUMNS
typedef Gguf<Q_GGUF> Type;
static const int VECTOR = 16 / (int)sizeof(In), UNIT = Type::SIZE / Type::UNITS;
// K of a unit of each of 32 lanes.
static const int CHUNK = 32 * UNIT, THREADS = 256, TURNS = Q_COLUMNS / (THREADS / 32);
static_assert(TURNS * (THREADS / 32) == Q_COLUMNS, "as in q_matmul/gguf.rs");

// Where a piece of a row is: eight neighbouring lanes, whose units may be 64 bytes, a line or two long or alternate in one, never meet
// in a bank.
RF_FN u32 place_of(u32 piece) {
    const u32 line = piece / 8, a = line & 1u, b = line >> 1 & 1u, c = line >> 2 & 1u, d = line >> 3 & 1u;
    const bool half = UNIT * sizeof(In) == 64;
    return piece ^ (half ? a | b << 1 : (a ^ d) << 1 | b << 2 | c);
}

// A chunk of the rows that there are, zeros past the end of K.
RF_FN void stage(const QMatmulArgs& g, const RowsOfA& rows, u32 first_row, u32 there, u32 first_k, In* lds) {
    for (u32 m = 0; m < there; ++m) {
        const In* from = g.a + (i64)rows.at(first_row + m) * g.a_row;
#pragma unroll
        for (u32 piece = thread_x(); piece < CHUNK / VECTOR; piece += THREADS) {
            const u32 k = first_k + piece * VECTOR;
            Vec<In, VECTOR> some = {};
            if (k < g.k) {
                if (g.a_vector) some = load<VECTOR>(from + k);
                else
#pragma unroll
                    for (int i = 0; i < VECTOR; ++i) some[i] = from[(i64)(k + i) * g.a_k];
            }
            store<VECTOR>(lds + m * CHUNK + place_of(piece) * VECTOR, some);
        }
    }
}

// The products of a run's weights with what one row in LDS has for them, from `k` of the chunk on.
RF_FN float run_dot(const float* weights, const In* row, u32 k) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; i += VECTOR) {
        const Vec<In, VECTOR> some = load<VECTOR>(row + place_of((k + i) / VECTOR) * VECTOR);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) sum = rf::fma(weights[i + j], cast<float>(some[j]), sum);
    }
    return sum;
}

extern "C" __global__ __launch_bounds__(THREADS) void gguf_few(QMatmulArgs g) {
    __shared__ __attribute__((aligned(16))) In lds[Q_ROWS * CHUNK];
    RowsOfA rows;
    u32 first_row;
    if (!go_to_tile<Q_ROWS>(g, rows, first_row)) return;
    const u32 units = g.k / UNIT, first_col = group_x() * Q_COLUMNS + thread_x() / 32;
    const u32 there = g.m - first_row < Q_ROWS ? g.m - first_row : Q_ROWS;
    float sum[TURNS][Q_ROWS];
#pragma unroll
    for (int i = 0; i < TURNS * Q_ROWS; ++i) sum[i / Q_ROWS][i % Q_ROWS] = 0.0f;
    for (u32 first = 0; first < units; first += 32) {
        if (first > 0) barrier();
        stage(g, rows, first_row, there, first * UNIT, lds);
        barrier();
        const u32 n = first + thread_x() % 32;
        if (n >= units) continue;
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const u32 col = first_col + turn * (THREADS / 32);
            Run runs[Type::SUBS];
            const u8* line = g.words + (i64)(col < g.n ? col : g.n - 1) * g.w_n;
            Type::unpack(line + (u64)(n / Type::UNITS) * Type::BYTES, n % Type::UNITS, runs);
#pragma unroll
            for (int run = 0; run < Type::SUBS; ++run) {
                const u32 k = n / Type::UNITS * Type::SIZE + runs[run].at - first * UNIT;
                float weights[16];
#pragma unroll
                for (int i = 0; i < 16; ++i) weights[i] = weight_at(runs[run], i);
#pragma unroll
                for (int m = 0; m < Q_ROWS; ++m)
                    if ((u32)m < there) sum[turn][m] += run_dot(weights, lds + m * CHUNK, k);
            }
        }
    }
    // All lanes of a wave take part in every sum.
#pragma unroll
    for (int i = 0; i < TURNS * Q_ROWS; ++i) {
        const int turn = i / Q_ROWS, m = i % Q_ROWS;
        const float total = sum_of_32(sum[turn][m]);
        const u32 col = first_col + turn * (THREADS / 32);
        if (thread_x() % 32 == 0 && col < g.n && (u32)m < there) finish(g, 0, first_row + m, col, total, 1.0f);
    }
}
