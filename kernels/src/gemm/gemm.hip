// gemm: C[b] = A[b] B[b], batched, with any strides.
//
// Shapes : A [.., M, K], B [.., K, N], C [.., M, N]; strides in elements, batch axes decoded from the grid
// Grid   : gemm (ceil(N / GEMM_BN), ceil(M / GEMM_BM), batches * slices)   one workgroup per tile of C and slice of K
//          gemm_sum (ceil(N / 256), M, batches)                            adds up the slices
// Block  : gemm (GEMM_THREADS, 1, 1), gemm_sum (256, 1, 1)
// LDS    : 2 * (GEMM_BM + GEMM_BN) * GEMM_ROW elements, static: of two buffers one is filled while the other is read, so
//          that one barrier per tile is enough
// Needs  : M, N >= 1; vector modes: the extent along the vector a multiple of GEMM_VEC and every row aligned to the
//          vector; C overlaps neither A nor B                              checked by the launcher
// Numeric: products and sums in GEMM_SUM (f32 for 16-bit floats). K is cut into chunks of GEMM_CHUNK; a chunk is summed
//          from zero, and the chunks are added in ascending order, whoever computes them: slices change no bit. Within a
//          chunk the matrix kernel takes K in the order that `Fragment` states, the FMA kernel in ascending order; the
//          choice of tiles changes no bit. A NaN or infinity spoils its row or column only.
//
// Macros : types GEMM_IN, GEMM_OUT, GEMM_SUM; GEMM_MATRIX_SIZE (32, 16; 0: plain FMA); GEMM_WAVES_M, GEMM_WAVES_N
//          (lanes for FMA); GEMM_TILES_M, GEMM_TILES_N per wave (values per lane for FMA); GEMM_DEPTH; GEMM_CHUNK;
//          GEMM_CHUNKED, whether a workgroup has more than one chunk; GEMM_A_MODE, GEMM_B_MODE: 0 vectors along K,
//          1 vectors along the other axis, 2 single elements with lanes along K, 3 single elements with lanes along the
//          other axis; GEMM_EPILOGUE: 1 where the text of a `fusion` epilogue stands in front of this one: it stores what
//          it computes of C, and nothing else is stored.
using namespace rf;

typedef GEMM_IN In;
typedef GEMM_OUT Out;
typedef GEMM_SUM Total;

#define MAX_BATCH_AXES 6
#if GEMM_MATRIX_SIZE
#define GEMM_THREADS (GEMM_WAVES_M * GEMM_WAVES_N * ARCH_WAVE_SIZE)
#define GEMM_BM (GEMM_WAVES_M * GEMM_TILES_M * GEMM_MATRIX_SIZE)
#define GEMM_BN (GEMM_WAVES_N * GEMM_TILES_N * GEMM_MATRIX_SIZE)
#else
#define GEMM_THREADS (GEMM_WAVES_M * GEMM_WAVES_N)
#define GEMM_BM (GEMM_WAVES_M * GEMM_TILES_M)
#define GEMM_BN (GEMM_WAVES_N * GEMM_TILES_N)
#endif
// One access of a lane: 16 bytes, but no more than four elements for plain FMA.
#define GEMM_FULL (16 / (int)sizeof(In))
#if GEMM_MATRIX_SIZE
#define GEMM_VEC GEMM_FULL
#else
#define GEMM_VEC (GEMM_FULL < 4 ? GEMM_FULL : 4)
#endif
// K per round of loading. A wave of 32 has half the lanes to load with and half the registers that CDNA has: it takes 32 elements
// by vectors and 16 one by one, which is what it has room for.
#if GEMM_MATRIX_SIZE && ARCH_WAVE_SIZE == 32
#define GEMM_BK (GEMM_A_MODE < 2 && GEMM_B_MODE < 2 ? 32 : 16)
#else
#define GEMM_BK GEMM_DEPTH
#endif
// The padding keeps rows 16-byte aligned and spreads a column over the banks.
#define GEMM_ROW (GEMM_BK + GEMM_FULL)
static_assert(GEMM_BK % GEMM_VEC == 0 && GEMM_BM % GEMM_VEC == 0 && GEMM_BN % GEMM_VEC == 0, "tiles are whole vectors");
static_assert(GEMM_CHUNK % GEMM_BK == 0, "a chunk is whole tiles");
static_assert(2 * (GEMM_BM + GEMM_BN) * GEMM_ROW * sizeof(In) <= ARCH_LDS_BYTES, "two buffers fit into LDS");

struct GemmArgs {
    const In* a;
    const In* b;
    Out* c;
    i64 a_row, a_k, b_k, b_col, c_row, c_col, c_slice;
    i64 a_batch[MAX_BATCH_AXES], b_batch[MAX_BATCH_AXES], c_batch[MAX_BATCH_AXES];
    u32 batch_extent[MAX_BATCH_AXES];
    u32 batch_axes, batches;
    u32 m, n, k, slice_k;
    u32 first_batch, padding;
#if GEMM_EPILOGUE
    EpilogueArgs epilogue;
#endif
};
#if GEMM_EPILOGUE
static_assert(sizeof(GemmArgs) == 280 + sizeof(EpilogueArgs), "as in gemm.rs");
#else
static_assert(sizeof(GemmArgs) == 280, "as in gemm.rs");
#endif

// Where the elements of C go: every store of a finished one passes through `put`. A sink starts at the first element of C,
// is moved to a batch, a tile, a lane's first element, and puts elements some rows down and some columns right of there.
#if GEMM_EPILOGUE
struct Sink {
    Epilogue epilogue;
    const EpilogueArgs* args;
    template <class Args> RF_FN void start(const Args& g) {
        args = &g.epilogue;
        epilogue.start(*args);
    }
    template <class Args> RF_FN void batch(const Args&, u32 axis, i64 by) { epilogue.move(*args, 2 + (int)axis, by); }
    RF_FN void move(i64 down, i64 right) {
        epilogue.move(*args, 1, down);
        epilogue.move(*args, 0, right);
    }
    template <class Sum> RF_FN void put(i64 down, i64 right, Sum sum) const {
        epilogue.put(*args, down, right, cast<Out>(sum));
    }
};
#else
struct Sink {
    Out* c;
    i64 row_stride, col_stride;
    template <class Args> RF_FN void start(const Args& g) {
        c = g.c;
        row_stride = g.c_row;
        col_stride = g.c_col;
    }
    template <class Args> RF_FN void batch(const Args& g, u32 axis, i64 by) { c += by * g.c_batch[axis]; }
    RF_FN void move(i64 down, i64 right) { c += down * row_stride + right * col_stride; }
    template <class Sum> RF_FN void put(i64 down, i64 right, Sum sum) const {
        c[down * row_stride + right * col_stride] = cast<Out>(sum);
    }
};
#endif

// Moves a tile of ROWS x GEMM_BK from memory through registers to LDS, as [row][k]. Rows past the end are read from the
// last one instead: what they give is never stored. Elements past the end of K become zero.
template <int ROWS, int MODE> struct Loader {
    static const int WIDTH = MODE < 2 ? GEMM_VEC : 1;
    static const bool ALONG_K = MODE == 0 || MODE == 2;
    static const int PER_LINE = (ALONG_K ? GEMM_BK : ROWS) / WIDTH;
    static const int TOTAL = ROWS * GEMM_BK / WIDTH;
    static const int LOADS = (TOTAL + GEMM_THREADS - 1) / GEMM_THREADS;
    typedef Vec<In, WIDTH> V;

    const In* from[LOADS];
    V held[LOADS];
    i64 step;

    RF_FN static int row_of(int c) { return ALONG_K ? c / PER_LINE : c % PER_LINE * WIDTH; }
    RF_FN static int k_of(int c) { return ALONG_K ? c % PER_LINE * WIDTH : c / PER_LINE; }

    RF_FN void start(const In* base, u32 first_row, u32 rows, u32 first_k, i64 row_stride, i64 k_stride) {
        step = k_stride * GEMM_BK;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * GEMM_THREADS;
            u32 row = first_row + row_of(c);
            u32 last = rows - (ALONG_K ? 1 : WIDTH);
            from[i] = base + (i64)(row < last ? row : last) * row_stride + (i64)(first_k + k_of(c)) * k_stride;
        }
    }
    // `left`: how many k from the start of this tile exist.
    template <bool WHOLE> RF_FN void fetch(u32 left) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * GEMM_THREADS;
            bool mine = TOTAL % GEMM_THREADS == 0 || c < TOTAL;
            if (mine && (WHOLE || (u32)k_of(c) < left)) {
                held[i] = load<WIDTH>(from[i]);
            } else {
                __builtin_memset(&held[i], 0, sizeof(V));
            }
            from[i] += step;
        }
    }
    RF_FN void put(In* lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * GEMM_THREADS;
            if (TOTAL % GEMM_THREADS != 0 && c >= TOTAL) continue;
            In* to = lds + row_of(c) * GEMM_ROW + k_of(c);
            if (ALONG_K) {
                store<WIDTH>(to, held[i]);
            } else {
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) to[j * GEMM_ROW] = held[i][j];
            }
        }
    }
};

#if GEMM_MATRIX_SIZE
typedef Mma<In, GEMM_MATRIX_SIZE> M;
typedef M::Operand Operand;

struct Tile {
    typedef Fragment<In, GEMM_MATRIX_SIZE> F;
    static const int GROUP = F::GROUP;
    M::Accumulator sum[GEMM_TILES_M][GEMM_TILES_N];
    int lane_id, first_row, first_col;

    RF_FN void start() {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        lane_id = (int)(thread_x() % ARCH_WAVE_SIZE);
        first_row = (int)(wave / GEMM_WAVES_N) * GEMM_TILES_M * GEMM_MATRIX_SIZE;
        first_col = (int)(wave % GEMM_WAVES_N) * GEMM_TILES_N * GEMM_MATRIX_SIZE;
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M * GEMM_TILES_N; ++i) sum[i / GEMM_TILES_N][i % GEMM_TILES_N] = 0;
    }
    RF_FN void multiply(const In* lds_a, const In* lds_b, int depth) {
        int lane_at = lane_id % GEMM_MATRIX_SIZE * GEMM_ROW + F::offset(lane_id / GEMM_MATRIX_SIZE);
        const In* at_a = lds_a + first_row * GEMM_ROW + lane_at;
        const In* at_b = lds_b + first_col * GEMM_ROW + lane_at;
        if (depth == GEMM_BK) {
#pragma unroll
            for (int k = 0; k < GEMM_BK; k += GROUP) group(at_a + k, at_b + k);
        } else {
            for (int k = 0; k < depth; k += GROUP) group(at_a + k, at_b + k);
        }
    }
    RF_FN void group(const In* at_a, const In* at_b) {
        Operand a[GEMM_TILES_M][F::STEPS], b[GEMM_TILES_N][F::STEPS];
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i) F::read(at_a + i * GEMM_MATRIX_SIZE * GEMM_ROW, a[i]);
#pragma unroll
        for (int j = 0; j < GEMM_TILES_N; ++j) F::read(at_b + j * GEMM_MATRIX_SIZE * GEMM_ROW, b[j]);
#pragma unroll
        for (int s = 0; s < F::STEPS; ++s)
#pragma unroll
            for (int i = 0; i < GEMM_TILES_M; ++i)
#pragma unroll
                for (int j = 0; j < GEMM_TILES_N; ++j) sum[i][j] = M::run(a[i][s], b[j][s], sum[i][j]);
    }
    RF_FN void add(const Tile& other) {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < GEMM_TILES_N; ++j) sum[i][j] += other.sum[i][j];
    }
    template <bool WHOLE> RF_FN void write(const Sink& corner, u32 rows, u32 cols) const {
#pragma unroll
        for (int j = 0; j < GEMM_TILES_N; ++j) {
            u32 col = first_col + j * GEMM_MATRIX_SIZE + M::column(0, lane_id);
#pragma unroll
            for (int i = 0; i < GEMM_TILES_M; ++i) {
                u32 base = first_row + i * GEMM_MATRIX_SIZE;
                Sink at = corner;
                at.move(base + M::row(0, lane_id), col);
#pragma unroll
                for (int v = 0; v < M::ACC; ++v) {
                    // Rows and columns of a lane differ by the same in every lane.
                    int down = M::row(v, 0) - M::row(0, 0), right = M::column(v, 0) - M::column(0, 0);
                    if (WHOLE || (col + right < cols && base + M::row(v, lane_id) < rows))
                        at.put(down, right, (Total)sum[i][j][v]);
                }
            }
        }
    }
};
#else
// GEMM_TILES_M rows and GEMM_TILES_N columns per lane, the columns GEMM_WAVES_N apart so that a store is coalesced.
struct Tile {
    static const int GROUP = GEMM_VEC;
    Total sum[GEMM_TILES_M][GEMM_TILES_N];
    int first_row, first_col;

    RF_FN void start() {
        first_row = (int)(thread_x() / GEMM_WAVES_N);
        first_col = (int)(thread_x() % GEMM_WAVES_N);
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M * GEMM_TILES_N; ++i) sum[i / GEMM_TILES_N][i % GEMM_TILES_N] = (Total)0;
    }
    RF_FN static Total multiply_add(float a, float b, float c) { return (Total)rf::fma(a, b, c); }
    RF_FN static Total multiply_add(double a, double b, double c) { return (Total)rf::fma(a, b, c); }
    RF_FN static Total multiply_add(u32 a, u32 b, u32 c) { return (Total)(a * b + c); }
    RF_FN static Total multiply_add(u64 a, u64 b, u64 c) { return (Total)(a * b + c); }
    RF_FN void multiply(const In* lds_a, const In* lds_b, int depth) {
        for (int k = 0; k < depth; k += GROUP) {
            Vec<In, GEMM_VEC> a[GEMM_TILES_M], b[GEMM_TILES_N];
#pragma unroll
            for (int i = 0; i < GEMM_TILES_M; ++i)
                a[i] = load<GEMM_VEC>(lds_a + (first_row + i * GEMM_WAVES_M) * GEMM_ROW + k);
#pragma unroll
            for (int j = 0; j < GEMM_TILES_N; ++j)
                b[j] = load<GEMM_VEC>(lds_b + (first_col + j * GEMM_WAVES_N) * GEMM_ROW + k);
#pragma unroll
            for (int s = 0; s < GEMM_VEC; ++s)
#pragma unroll
                for (int i = 0; i < GEMM_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < GEMM_TILES_N; ++j)
                        sum[i][j] = multiply_add(cast<Total>(a[i][s]), cast<Total>(b[j][s]), sum[i][j]);
        }
    }
    RF_FN void add(const Tile& other) {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < GEMM_TILES_N; ++j) sum[i][j] += other.sum[i][j];
    }
    template <bool WHOLE> RF_FN void write(const Sink& corner, u32 rows, u32 cols) const {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < GEMM_TILES_N; ++j) {
                u32 row = first_row + i * GEMM_WAVES_M, col = first_col + j * GEMM_WAVES_N;
                if (WHOLE || (row < rows && col < cols))
                    corner.put(row, col, sum[i][j]);
            }
    }
};
#endif

extern "C" __global__ __launch_bounds__(GEMM_THREADS) void gemm(GemmArgs g) {
    __shared__ __attribute__((aligned(16))) In lds[2][(GEMM_BM + GEMM_BN) * GEMM_ROW];

    u32 z = group_z(), slice = z / g.batches, batch = g.first_batch + (z - slice * g.batches);
    const In* a = g.a;
    const In* b = g.b;
    Sink sink;
    sink.start(g);
#if !GEMM_EPILOGUE
    sink.c += (i64)slice * g.c_slice;
#endif
    // Batch axes, the innermost first.
    for (u32 axis = 0; axis < g.batch_axes; ++axis) {
        u32 rest = batch / g.batch_extent[axis];
        i64 at = batch - rest * g.batch_extent[axis];
        batch = rest;
        a += at * g.a_batch[axis];
        b += at * g.b_batch[axis];
        sink.batch(g, axis, at);
    }
    u32 first_row = group_y() * GEMM_BM, first_col = group_x() * GEMM_BN;
    u32 k = slice * g.slice_k, end = k + g.slice_k;
    end = end < g.k ? end : g.k;

    Loader<GEMM_BM, GEMM_A_MODE> load_a;
    Loader<GEMM_BN, GEMM_B_MODE> load_b;
    Tile tile;
    load_a.start(a, first_row, g.m, k, g.a_row, g.a_k);
    load_b.start(b, first_col, g.n, k, g.b_col, g.b_k);
    tile.start();
    tile.clear();
#if GEMM_CHUNKED
    Tile total;
    total.start();
    total.clear();
    u32 in_chunk = 0;
#endif

    int buffer = 0;
    u32 left = end - k;
    if (left >= GEMM_BK) {
        load_a.fetch<true>(left);
        load_b.fetch<true>(left);
    } else if (left > 0) {
        load_a.fetch<false>(left);
        load_b.fetch<false>(left);
    }
    while (left > 0) {
        In* lds_a = lds[buffer];
        In* lds_b = lds_a + GEMM_BM * GEMM_ROW;
        load_a.put(lds_a);
        load_b.put(lds_b);
        barrier();
        int depth = left < GEMM_BK ? (int)left : GEMM_BK;
        left -= depth;
        if (left >= GEMM_BK) {
            load_a.fetch<true>(left);
            load_b.fetch<true>(left);
        } else if (left > 0) {
            load_a.fetch<false>(left);
            load_b.fetch<false>(left);
        }
        tile.multiply(lds_a, lds_b, depth);
        buffer ^= 1;
#if GEMM_CHUNKED
        in_chunk += GEMM_BK;
        if (in_chunk == GEMM_CHUNK || left == 0) {
            total.add(tile);
            tile.clear();
            in_chunk = 0;
        }
#endif
    }
#if GEMM_CHUNKED
    Tile& result = total;
#else
    Tile& result = tile;
#endif

    u32 rows = g.m - first_row, cols = g.n - first_col;
    sink.move(first_row, first_col);
    if (rows >= GEMM_BM && cols >= GEMM_BN) {
        result.write<true>(sink, rows, cols);
    } else {
        result.write<false>(sink, rows, cols);
    }
}

struct GemmSumArgs {
    const Total* slices;
    Out* c;
    i64 c_row, c_col;
    i64 c_batch[MAX_BATCH_AXES];
    u32 batch_extent[MAX_BATCH_AXES];
    u32 batch_axes, batches, first_batch, slice_count;
    u32 m, n, first_row, padding;
#if GEMM_EPILOGUE
    EpilogueArgs epilogue;
#endif
};
#if GEMM_EPILOGUE
static_assert(sizeof(GemmSumArgs) == 136 + sizeof(EpilogueArgs), "as in gemm.rs");
#else
static_assert(sizeof(GemmSumArgs) == 136, "as in gemm.rs");
#endif

extern "C" __global__ __launch_bounds__(256) void gemm_sum(GemmSumArgs g) {
    u32 col = group_x() * 256 + thread_x(), row = g.first_row + group_y(), batch = g.first_batch + group_z();
    if (col >= g.n) return;
    const Total* from = g.slices + ((i64)batch * g.m + row) * g.n + col;
    Total sum = (Total)0;
    for (u32 slice = 0; slice < g.slice_count; ++slice) sum += from[(i64)slice * g.batches * g.m * g.n];
    Sink sink;
    sink.start(g);
    for (u32 axis = 0; axis < g.batch_axes; ++axis) {
        u32 rest = batch / g.batch_extent[axis];
        sink.batch(g, axis, (i64)(batch - rest * g.batch_extent[axis]));
        batch = rest;
    }
    sink.put(row, col, sum);
}
