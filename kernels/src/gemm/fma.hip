// fma: tiles of A and B in LDS, and their product, where there is no matrix unit for the type.
//
// A tile is ROWS rows of GEMM_BK elements along K and a padding, which keeps rows 16-byte aligned and spreads a column over
// the banks. A lane has GEMM_TILES_M rows and GEMM_TILES_N columns, the columns GEMM_WAVES_N apart so that a store is
// coalesced.
#define GEMM_BK (16 * GEMM_SLABS)
#define GEMM_ROW (GEMM_BK + GEMM_FULL)

// Moves a tile of ROWS x GEMM_BK from memory through registers to LDS. Rows past the end are read from the last one instead:
// what they give is never stored. Elements past the end of K become zero.
template <int ROWS, int MODE, class Rows = AllRows> struct Loader {
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

    RF_FN void start(const In* base, u32 first_row, u32 rows, u32 first_k, i64 row_stride, i64 k_stride, Rows of = Rows()) {
        step = k_stride * GEMM_BK;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * GEMM_THREADS;
            u32 row = first_row + row_of(c);
            u32 last = rows - (ALONG_K ? 1 : WIDTH);
            from[i] = base + (i64)of.at(row < last ? row : last) * row_stride + (i64)(first_k + k_of(c)) * k_stride;
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
        }
    }
    // To the next tile.
    RF_FN void go_on() {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) from[i] += step;
    }
    RF_FN void put(char* lds, u32) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * GEMM_THREADS;
            if (TOTAL % GEMM_THREADS != 0 && c >= TOTAL) continue;
            In* to = (In*)lds + row_of(c) * GEMM_ROW + k_of(c);
            if (ALONG_K) {
                store<WIDTH>(to, held[i]);
            } else {
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) to[j * GEMM_ROW] = held[i][j];
            }
        }
    }
};

#if GEMM_ASYNC
// The same past the registers, 16 bytes at a time, along K.
template <int ROWS, int MODE, class Rows = AllRows> struct Copier {
    static_assert(MODE == 0, "vectors along K");
    static const int PER_LINE = GEMM_BK / GEMM_FULL;
    static const int TOTAL = ROWS * GEMM_BK / GEMM_FULL;
    static const int LOADS = (TOTAL + GEMM_THREADS - 1) / GEMM_THREADS;

    const In* from[LOADS];

    RF_FN static int row_of(int c) { return c / PER_LINE; }
    RF_FN static int k_of(int c) { return c % PER_LINE * GEMM_FULL; }

    RF_FN void start(const In* base, u32 first_row, u32 rows, u32 first_k, i64 row_stride, i64, Rows of = Rows()) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * GEMM_THREADS;
            u32 row = first_row + row_of(c);
            from[i] = base + (i64)of.at(row < rows - 1 ? row : rows - 1) * row_stride + (first_k + k_of(c));
        }
    }
    RF_FN void copy(const char* lds, u32 left) {
        LdsAddress to = lds_address(lds);
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * GEMM_THREADS;
            if (TOTAL % GEMM_THREADS == 0 || c < TOTAL)
                copy_async(to + (row_of(c) * GEMM_ROW + k_of(c)) * (u32)sizeof(In), from[i], (u32)k_of(c) < left);
            from[i] += GEMM_BK;
        }
    }
};
#endif

struct Tile {
    static const int BYTES_A = GEMM_BM * GEMM_ROW * (int)sizeof(In), BYTES_B = GEMM_BN * GEMM_ROW * (int)sizeof(In);
    static const int VALUES = GEMM_TILES_M * GEMM_TILES_N;
    Total sum[GEMM_TILES_M][GEMM_TILES_N];
    int first_row, first_col;
    RF_FN Total& value(int n) { return sum[n / GEMM_TILES_N][n % GEMM_TILES_N]; }

    // NVIDIA reads 16 bytes for half a warp at once where lanes in pairs read the same, else for a quarter: a lane and the next
    // have one row, a lane and the next but one have one column.
    RF_FN void start() {
#if RF_DEVICE_AMD
        first_row = (int)(thread_x() / GEMM_WAVES_N);
        first_col = (int)(thread_x() % GEMM_WAVES_N);
#else
        u32 rest = (thread_x() & 1) | thread_x() >> 2 << 1;
        first_row = (int)(rest / GEMM_WAVES_N * 2 + (thread_x() >> 1 & 1));
        first_col = (int)(rest % GEMM_WAVES_N);
#endif
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M * GEMM_TILES_N; ++i) sum[i / GEMM_TILES_N][i % GEMM_TILES_N] = (Total)0;
    }
    RF_FN static Total multiply_add(float a, float b, float c) { return (Total)rf::fma(a, b, c); }
    RF_FN static Total multiply_add(double a, double b, double c) { return (Total)rf::fma(a, b, c); }
    RF_FN static Total multiply_add(u32 a, u32 b, u32 c) { return (Total)(a * b + c); }
    RF_FN static Total multiply_add(u64 a, u64 b, u64 c) { return (Total)(a * b + c); }
    RF_FN void multiply(const char* tile_a, const char* tile_b) {
        const In* from_a = (const In*)tile_a + first_row * GEMM_ROW;
        const In* from_b = (const In*)tile_b + first_col * GEMM_ROW;
        // Clang multiplies integers in pairs of registers: more than a round of them at once would be kept in memory.
#pragma unroll(GEMM_UNROLL)
        for (int k = 0; k < GEMM_BK; k += GEMM_VEC) {
            Vec<In, GEMM_VEC> a[GEMM_TILES_M], b[GEMM_TILES_N];
#pragma unroll
            for (int i = 0; i < GEMM_TILES_M; ++i) a[i] = load<GEMM_VEC>(from_a + i * GEMM_WAVES_M * GEMM_ROW + k);
#pragma unroll
            for (int j = 0; j < GEMM_TILES_N; ++j) b[j] = load<GEMM_VEC>(from_b + j * GEMM_WAVES_N * GEMM_ROW + k);
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
    template <bool WHOLE> RF_FN void write_row(const Sink& corner, u32 rows, u32 cols, int i, const Total* of) const {
#pragma unroll
        for (int j = 0; j < GEMM_TILES_N; ++j) {
            u32 row = first_row + i * GEMM_WAVES_M, col = first_col + j * GEMM_WAVES_N;
            if (WHOLE || (row < rows && col < cols)) corner.put(row, col, of[j]);
        }
    }
#if GEMM_ASYNC && GEMM_EPILOGUE
    // An epilogue written out for all values of a lane would be more instructions than fit into the cache. Registers have no index,
    // so the rows move up to the first.
    template <bool WHOLE> RF_FN void write(const Sink& corner, u32 rows, u32 cols) {
#pragma unroll 1
        for (int i = 0; i < GEMM_TILES_M; ++i) {
            write_row<WHOLE>(corner, rows, cols, i, sum[0]);
#pragma unroll
            for (int n = 0; n < VALUES - GEMM_TILES_N; ++n) value(n) = value(n + GEMM_TILES_N);
        }
    }
#else
    template <bool WHOLE> RF_FN void write(const Sink& corner, u32 rows, u32 cols) const {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i) write_row<WHOLE>(corner, rows, cols, i, sum[i]);
    }
#endif
};
