// q_matmul: C = A W, with W[k, n] = global * scale(k / block, n / block) * decode(code(k, n)) read from packed words
//
// Shapes : A [M, K], C [M, N], any strides in elements; words [K, N] with one axis packed, strides in words
// Grid   : q_matmul (ceil(N / Q_BN), ceil(M / Q_BM), slices)                one workgroup per tile of C and slice of K
//          q_skinny (ceil(N / Q_STRIP), 1, slices)                         one workgroup per strip of columns and chunk
//          q_matmul_sum (ceil(N / 256), M, 1)                               adds up the slices
// Block  : q_matmul (Q_THREADS, 1, 1), the others (256, 1, 1)
// LDS    : q_matmul (Q_BM + Q_BN) * Q_ROW elements of A's type; q_skinny Q_ROWS * Q_CHUNK + 4 * Q_STRIP floats
// Needs  : M, N, K >= 1; A_VECTOR: rows of A contiguous, aligned to 16 bytes, K whole vectors; q_skinny: M <= Q_ROWS, words
//          along N; C apart from all inputs                                checked by the launcher
// Numeric: Q_LATE, where scales do not vary along K: codes are multiplied as they are (exact in every type of A) and the sum by
//          global * scale. Else scale * code is rounded once to A's type (q_skinny: stays f32). Sums in f32: K is cut into
//          chunks of Q_CHUNK, each is summed from zero, and the chunks are added in ascending order, whoever computes them.
//          Within a chunk q_matmul takes K as `Fragment` states or ascending; q_skinny, one chunk per workgroup, has 4 partial sums,
//          k % 4, added in order.
//
//          A coded A is decoded, exactly, and the sum multiplied by its row's scale, then by the column's.
//
// Macros : Q_IN type of A, of the products where A is coded; Q_OUT of C; Q_A_CODED, Q_A_FORMAT; Q_MATRIX whether on the matrix unit; Q_TILES_M, Q_TILES_N products per wave (values per lane
//          without one); Q_FORMAT, Q_WORD, Q_PER; Q_ALONG_K: words hold codes along K, else along N; Q_LATE; Q_ROWS of q_skinny;
//          Q_CHUNK
using namespace rf;

typedef Q_IN In;
typedef Q_OUT Out;
typedef Format<Q_FORMAT> Code;
#if Q_A_CODED
typedef u8 A;
RF_FN float a_float(A x) { return Format<Q_A_FORMAT>::decode(x); }
#else
typedef In A;
RF_FN float a_float(A x) { return cast<float>(x); }
#endif

struct QMatmulArgs {
    const A* a;
    const Q_WORD* words;
    const void* scales;
    const float* global;
    const float* a_scales;  // of coded rows
    void* c;                // Out, or float where there are slices
    i64 a_scale_row, a_row, a_k, w_k, w_n, s_k, s_n, c_row, c_col, c_slice;
    FastDiv block_k, block_n;
    u32 m, n, k, slice_k, scale_kind, a_vector;
};
static_assert(sizeof(QMatmulArgs) == 176, "as in q_matmul.rs");

// global * scale of an element, which may lie past the ends.
RF_FN float scale_of(const QMatmulArgs& g, float global, u32 k, u32 n) {
    k = k < g.k ? k : g.k - 1;
    n = n < g.n ? n : g.n - 1;
    i64 at = g.block_k.divide(k) * g.s_k + g.block_n.divide(n) * g.s_n;
    return global * read_scale(g.scales, at, g.scale_kind);
}
RF_FN float decode_at(u32 word, int i) { return Code::decode((word >> (i * Code::BITS)) & ((1u << Code::BITS) - 1u)); }

template <class T> RF_FN void put(const QMatmulArgs& g, T* c, u32 row, u32 col, float sum, float scale) {
    c[(i64)row * g.c_row + (i64)col * g.c_col] = cast<T>(sum * scale);
}
// One element of C: of a slice it is the bare sum, which q_matmul_sum finishes.
RF_FN void finish(const QMatmulArgs& g, u32 slice, u32 row, u32 col, float sum, float global) {
    if (g.c_slice) {
        put(g, (float*)g.c + slice * g.c_slice, row, col, sum, 1.0f);
    } else {
#if Q_A_CODED
        sum *= g.a_scales[(i64)row * g.a_scale_row];
#endif
        put(g, (Out*)g.c, row, col, sum, Q_LATE ? scale_of(g, global, 0, col) : 1.0f);
    }
}

#if Q_ROWS == 0
#define Q_BK 32
#define Q_VEC (16 / (int)sizeof(In))
#define Q_ROW (Q_BK + Q_VEC)
#if Q_MATRIX
#define Q_THREADS (4 * ARCH_WAVE_SIZE)
#define Q_BM (2 * Q_TILES_M * 16)
#define Q_BN (2 * Q_TILES_N * 16)
typedef Mma<In, 16> M;
typedef Fragment<In, 16> F;

// Two by two waves.
struct Tile {
    M::Accumulator sum[Q_TILES_M][Q_TILES_N];
    int lane_id, first_row, first_col;

    RF_FN void start() {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        lane_id = (int)(thread_x() % ARCH_WAVE_SIZE);
        first_row = (int)(wave / 2) * Q_TILES_M * 16;
        first_col = (int)(wave % 2) * Q_TILES_N * 16;
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < Q_TILES_M * Q_TILES_N; ++i) sum[i / Q_TILES_N][i % Q_TILES_N] = 0;
    }
    RF_FN void multiply(const In* lds_a, const In* lds_w) {
        int lane_at = lane_id % 16 * Q_ROW + F::offset(lane_id / 16);
        const In* at_a = lds_a + first_row * Q_ROW + lane_at;
        const In* at_w = lds_w + first_col * Q_ROW + lane_at;
#pragma unroll
        for (int k = 0; k < Q_BK; k += F::GROUP) {
            M::Operand a[Q_TILES_M][F::STEPS], w[Q_TILES_N][F::STEPS];
#pragma unroll
            for (int i = 0; i < Q_TILES_M; ++i) F::read(at_a + i * 16 * Q_ROW + k, a[i]);
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) F::read(at_w + j * 16 * Q_ROW + k, w[j]);
#pragma unroll
            for (int s = 0; s < F::STEPS; ++s)
#pragma unroll
                for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < Q_TILES_N; ++j) sum[i][j] = M::run(a[i][s], w[j][s], sum[i][j]);
        }
    }
    RF_FN void add(const Tile& other) {
#pragma unroll
        for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) sum[i][j] += other.sum[i][j];
    }
    template <class Store> RF_FN void each(Store store) const {
#pragma unroll
        for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < M::ACC; ++v)
                    store(first_row + i * 16 + M::row(v, lane_id), first_col + j * 16 + M::column(v, lane_id),
                          (float)sum[i][j][v]);
    }
};
#else
#define Q_THREADS 256
#define Q_BM (16 * Q_TILES_M)
#define Q_BN (16 * Q_TILES_N)
// Q_TILES_M rows and Q_TILES_N columns per lane, 16 apart.
struct Tile {
    float sum[Q_TILES_M][Q_TILES_N];
    int first_row, first_col;

    RF_FN void start() {
        first_row = (int)(thread_x() / 16);
        first_col = (int)(thread_x() % 16);
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < Q_TILES_M * Q_TILES_N; ++i) sum[i / Q_TILES_N][i % Q_TILES_N] = 0.0f;
    }
    RF_FN void multiply(const In* lds_a, const In* lds_w) {
        for (int k = 0; k < Q_BK; k += Q_VEC) {
            Vec<In, Q_VEC> a[Q_TILES_M], w[Q_TILES_N];
#pragma unroll
            for (int i = 0; i < Q_TILES_M; ++i) a[i] = load<Q_VEC>(lds_a + (first_row + i * 16) * Q_ROW + k);
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) w[j] = load<Q_VEC>(lds_w + (first_col + j * 16) * Q_ROW + k);
#pragma unroll
            for (int s = 0; s < Q_VEC; ++s)
#pragma unroll
                for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < Q_TILES_N; ++j)
                        sum[i][j] = rf::fma(cast<float>(a[i][s]), cast<float>(w[j][s]), sum[i][j]);
        }
    }
    RF_FN void add(const Tile& other) {
#pragma unroll
        for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) sum[i][j] += other.sum[i][j];
    }
    template <class Store> RF_FN void each(Store store) const {
#pragma unroll
        for (int i = 0; i < Q_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < Q_TILES_N; ++j) store(first_row + i * 16, first_col + j * 16, sum[i][j]);
    }
};
#endif
static_assert(Q_CHUNK % Q_BK == 0 && Q_BK % Q_PER == 0 && Q_BN % Q_PER == 0, "whole words and tiles");

// A tile of A as [row][k]; rows and k past the ends are zeros.
RF_FN void load_a(const QMatmulArgs& g, u32 first_row, u32 first_k, u32 end, In* lds) {
    if (g.a_vector) {
        const int WIDE = 16 / (int)sizeof(A), PER_ROW = Q_BK / WIDE, TOTAL = Q_BM * PER_ROW;
#pragma unroll
        for (int i = 0; i < (TOTAL + Q_THREADS - 1) / Q_THREADS; ++i) {
            int c = (int)thread_x() + i * Q_THREADS;
            if (TOTAL % Q_THREADS != 0 && c >= TOTAL) continue;
            u32 row = first_row + c / PER_ROW, k = first_k + c % PER_ROW * WIDE;
            Vec<A, WIDE> some;
            if (row < g.m && k < end) some = load<WIDE>(g.a + (i64)row * g.a_row + k);
            else __builtin_memset(&some, 0, sizeof(some));
            In* to = lds + c / PER_ROW * Q_ROW + c % PER_ROW * WIDE;
#if Q_A_CODED
#pragma unroll
            for (int j = 0; j < WIDE; ++j) to[j] = cast<In>(a_float(some[j]));
#else
            store<WIDE>(to, some);
#endif
        }
        return;
    }
    for (int c = (int)thread_x(); c < Q_BM * Q_BK; c += Q_THREADS) {
        u32 row = first_row + c / Q_BK, k = first_k + c % Q_BK;
        A one;
        if (row < g.m && k < end) one = g.a[(i64)row * g.a_row + (i64)k * g.a_k];
        else __builtin_memset(&one, 0, sizeof(one));
#if Q_A_CODED
        lds[c / Q_BK * Q_ROW + c % Q_BK] = cast<In>(a_float(one));
#else
        lds[c / Q_BK * Q_ROW + c % Q_BK] = one;
#endif
    }
}
// A tile of W, decoded, as [column][k].
RF_FN void load_w(const QMatmulArgs& g, float global, u32 first_col, u32 first_k, u32 end, In* lds) {
    const int PER_LINE = (Q_ALONG_K ? Q_BK : Q_BN) / Q_PER;
    const int WORDS = Q_BK * Q_BN / Q_PER;
#pragma unroll
    for (int round = 0; round < (WORDS + Q_THREADS - 1) / Q_THREADS; ++round) {
        int c = (int)thread_x() + round * Q_THREADS;
        if (WORDS % Q_THREADS != 0 && c >= WORDS) continue;
        int inside = c % PER_LINE * Q_PER, line = c / PER_LINE;
        int col = Q_ALONG_K ? line : inside, k = Q_ALONG_K ? inside : line;
        u32 word = 0;
        if (first_col + col < g.n && first_k + k < end) {
            i64 at_k = (i64)(Q_ALONG_K ? (first_k + k) / Q_PER : first_k + k) * g.w_k;
            i64 at_n = (i64)(Q_ALONG_K ? first_col + col : (first_col + col) / Q_PER) * g.w_n;
            word = g.words[at_k + at_n];
        }
#pragma unroll
        for (int i = 0; i < Q_PER; ++i) {
            int at_col = col + (Q_ALONG_K ? 0 : i), at_k = k + (Q_ALONG_K ? i : 0);
            float value = decode_at(word, i);
            if (!Q_LATE) value *= scale_of(g, global, first_k + at_k, first_col + at_col);
            // What lies past K meets zeros of A and must not be NaN.
            if (first_k + at_k >= end) value = 0.0f;
            lds[at_col * Q_ROW + at_k] = cast<In>(value);
        }
    }
}

struct StoreTile {
    const QMatmulArgs& g;
    u32 slice, first_row, first_col;
    float global;
    RF_FN void operator()(int row, int col, float sum) const {
        if (first_row + row < g.m && first_col + col < g.n)
            finish(g, slice, first_row + row, first_col + col, sum, global);
    }
};

extern "C" __global__ __launch_bounds__(Q_THREADS) void q_matmul(QMatmulArgs g) {
    __shared__ __attribute__((aligned(16))) In lds[(Q_BM + Q_BN) * Q_ROW];
    u32 slice = group_z();
    u32 first_row = group_y() * Q_BM, first_col = group_x() * Q_BN;
    u32 k = slice * g.slice_k, end = k + g.slice_k;
    end = end < g.k ? end : g.k;
    float global = g.global ? *g.global : 1.0f;
    Tile total, tile;
    total.start();
    tile.start();
    total.clear();
    while (k < end) {
        u32 chunk_end = k + Q_CHUNK < end ? k + Q_CHUNK : end;
        tile.clear();
        for (; k < chunk_end; k += Q_BK) {
            barrier();
            load_a(g, first_row, k, chunk_end, lds);
            load_w(g, global, first_col, k, chunk_end, lds + Q_BM * Q_ROW);
            barrier();
            tile.multiply(lds, lds + Q_BM * Q_ROW);
        }
        k = chunk_end;
        total.add(tile);
    }
    StoreTile store = {g, slice, first_row, first_col, global};
    total.each(store);
}

#else
// 64 lanes share a strip of columns, a word each; the four such groups take every fourth k.
#define Q_LANES 64
#define Q_GROUPS 4
#define Q_STRIP (Q_LANES * Q_PER)
// Words in flight per lane: 16 of them hide the latency of memory where sums leave the registers for it.
#define Q_AHEAD (Q_ROWS * Q_PER <= 16 ? 16 : Q_ROWS * Q_PER <= 32 ? 8 : 4)

extern "C" __global__ __launch_bounds__(256) void q_skinny(QMatmulArgs g) {
    __shared__ float rows[Q_CHUNK][Q_ROWS];
    __shared__ float parts[Q_GROUPS][Q_STRIP];
    u32 lane_id = thread_x() % Q_LANES, group = thread_x() / Q_LANES, slice = group_z();
    u32 word_col = group_x() * Q_LANES + lane_id, col = word_col * Q_PER;
    u32 first_k = slice * Q_CHUNK, count = g.k - first_k < Q_CHUNK ? g.k - first_k : Q_CHUNK;
    float global = g.global ? *g.global : 1.0f;
    for (u32 c = thread_x(); c < Q_ROWS * count; c += 256) {
        u32 m = c / count, at = c - m * count;
        rows[at][m] = m < g.m ? a_float(g.a[(i64)m * g.a_row + (i64)(first_k + at) * g.a_k]) : 0.0f;
    }
    barrier();
    float sum[Q_ROWS][Q_PER];
#pragma unroll
    for (int m = 0; m < Q_ROWS; ++m)
#pragma unroll
        for (int i = 0; i < Q_PER; ++i) sum[m][i] = 0.0f;
    // One scale for the word, unless its columns lie in several blocks.
    bool apart = g.s_n != 0 && g.block_n.divisor % Q_PER != 0;
    const Q_WORD* from = g.words + (i64)(first_k + group) * g.w_k + (i64)word_col * g.w_n;
    if (col < g.n) {
        const int AHEAD = Q_AHEAD;
#pragma unroll AHEAD
        for (u32 at = group; at < count; at += Q_GROUPS) {
            u32 word = *from;
            from += Q_GROUPS * g.w_k;
            float scale = Q_LATE ? 1.0f : scale_of(g, global, first_k + at, col);
#pragma unroll
            for (int i = 0; i < Q_PER; ++i) {
                float value = decode_at(word, i);
                if (!Q_LATE) value *= apart ? scale_of(g, global, first_k + at, col + i) : scale;
#pragma unroll
                for (int m = 0; m < Q_ROWS; ++m) sum[m][i] = rf::fma(rows[at][m], value, sum[m][i]);
            }
        }
    }
#pragma unroll
    for (int m = 0; m < Q_ROWS; ++m) {
        barrier();
#pragma unroll
        for (int i = 0; i < Q_PER; ++i) parts[group][i * Q_LANES + lane_id] = sum[m][i];
        barrier();
        if (group != 0 || (u32)m >= g.m) continue;
#pragma unroll
        for (int i = 0; i < Q_PER; ++i) {
            u32 at = i * Q_LANES + lane_id;
            float total = ((parts[0][at] + parts[1][at]) + parts[2][at]) + parts[3][at];
            if (col + i < g.n) finish(g, slice, m, col + i, total, global);
        }
    }
}
#endif

extern "C" __global__ __launch_bounds__(256) void q_matmul_sum(QMatmulArgs g) {
    // `a` holds the slices as floats [slices][M][N], slice_k is their number.
    u32 col = group_x() * 256 + thread_x(), row = group_y();
    if (col >= g.n) return;
    const float* from = (const float*)(const void*)g.a + (i64)row * g.n + col;
    float sum = 0.0f;
    for (u32 slice = 0; slice < g.slice_k; ++slice) sum += from[(i64)slice * g.m * g.n];
    finish(g, 0, row, col, sum, g.global ? *g.global : 1.0f);
}
