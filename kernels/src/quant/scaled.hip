// q_scaled: C = A Bᵀ of codes with scales along both axes of both.
//
// Shapes : A [M, K], B [N, K] codes, K contiguous, bytes or two to a byte; scales [ceil(M / rows), ceil(K / block)] and
//          [ceil(N / rows), ceil(K / block)], rows and block of each its own; C [M, N]; strides in bytes of codes, in elements else
// Grid   : (ceil(N / S_BN), ceil(M / S_BM), 1)
// Block  : (S_THREADS, 1, 1): four waves, two by two; 256 without a matrix unit
// LDS    : S_STAGES times (S_BM + S_BN) rows of 128 bytes, dynamic where S_ASYNC, and twice a scale for each row and block of them
// Needs  : the narrower block a multiple of S_SUB, which divides S_BK or is it, and a divisor of the wider; S_VECTOR: rows and K whole vectors of 16 bytes; K even for
//          codes of 4 bits; S_NATIVE with i8: fewer than 2^17 codes between two additions               checked by the launcher
// Numeric: products of codes are exact. S_SUB codes, or S_BK * g.rounds where S_SUB is S_BK, are summed from zero, in i32 for i8
//          on the matrix unit, in f32 else; (sum * scale of A) * scale of B is added to the total in ascending order of K; one
//          rounding at the store
//
// Macros : S_OUT; S_A_FORMAT, S_B_FORMAT; S_MATRIX; S_NATIVE: codes are operands of the matrix unit as they are, else they are
//          decoded to bf16, exactly; S_BK, S_SUB; S_TILES_M, S_TILES_N; S_VECTOR; S_ASYNC: copies go past the registers, in
//          S_STAGES rounds, else 1
using namespace rf;

typedef S_OUT Out;
#define S_INT (S_A_FORMAT == 0)
#if S_NATIVE
typedef u8 In;
#else
typedef bf16 In;
#endif
#define S_SUBS (S_BK / S_SUB)
static_assert(S_BK * sizeof(In) == 128, "a row in LDS is eight chunks of 16 bytes");

// Where a chunk of a row is, in bytes: those of eight rows at one place of K are in different banks, and so are those of four rows
// and of four others at the next, which some devices serve together.
RF_FN int place_of(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

struct ScaledArgs {
    const u8* a;
    const u8* b;
    const void* a_scales;
    const void* b_scales;
    Out* c;
    i64 a_row, b_row, a_scale_row, a_scale_k, b_scale_row, b_scale_k, c_row, c_col;
    FastDiv a_block, b_block, a_rows, b_rows;
    u32 m, n, k, rounds, a_kind, b_kind;
};
static_assert(sizeof(ScaledArgs) == 176, "as in scaled.rs");

#if S_MATRIX && S_NATIVE && !S_INT
// 8-bit floats as operands. Of the two kinds, 3 and 6 are E4M3 (here the architecture's own), 4 and 7 E5M2.
#define S_A_WIDE (S_A_FORMAT == 4 || S_A_FORMAT == 7)
#define S_B_WIDE (S_B_FORMAT == 4 || S_B_FORMAT == 7)
#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
struct Product {
    typedef i64 Operand;
    typedef F32x4 Accumulator;
    static const int K = 32, ACC = 4;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
#if S_A_WIDE && S_B_WIDE
        return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8((long)a, (long)b, c, 0, 0, 0);
#elif S_A_WIDE
        return __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8((long)a, (long)b, c, 0, 0, 0);
#elif S_B_WIDE
        return __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8((long)a, (long)b, c, 0, 0, 0);
#else
        return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8((long)a, (long)b, c, 0, 0, 0);
#endif
    }
    RF_FN static int row(int i, int lane) { return 4 * (lane / 16) + i; }
    RF_FN static int column(int, int lane) { return lane % 16; }
};
#elif RF_DEVICE_AMD
struct Product {
    typedef I32x2 Operand;
    typedef F32x8 Accumulator;
    static const int K = 16, ACC = 8;
    RF_FN static Accumulator run(Operand a, Operand b, Accumulator c) {
#if S_A_WIDE && S_B_WIDE
        return __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(a, b, c);
#elif S_A_WIDE
        return __builtin_amdgcn_wmma_f32_16x16x16_bf8_fp8_w32_gfx12(a, b, c);
#elif S_B_WIDE
        return __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(a, b, c);
#else
        return __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a, b, c);
#endif
    }
    RF_FN static int row(int i, int lane) { return i + 8 * (lane / 16); }
    RF_FN static int column(int, int lane) { return lane % 16; }
};
#else
#if S_A_WIDE
#define S_A_TYPE "e5m2"
#else
#define S_A_TYPE "e4m3"
#endif
#if S_B_WIDE
#define S_B_TYPE "e5m2"
#else
#define S_B_TYPE "e4m3"
#endif
struct Product {
    typedef Chunk Operand;
    typedef MmaSums<float> Accumulator;
    static const int K = 32, ACC = 8;
    RF_FN static Accumulator run(const Operand& a, const Operand& b, Accumulator c) {
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." S_A_TYPE "." S_B_TYPE ".f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(c.at[4 * half]), "+f"(c.at[4 * half + 1]), "+f"(c.at[4 * half + 2]), "+f"(c.at[4 * half + 3])
                         : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[half]), "r"(b.word[half + 2]));
        return c;
    }
    RF_FN static int row(int i, int lane) { return Mma<i8, 16>::row(i, lane); }
    RF_FN static int column(int i, int lane) { return Mma<i8, 16>::column(i, lane); }
};
#endif
#elif S_MATRIX && S_NATIVE
typedef Mma<i8, 16> Product;
#elif S_MATRIX
typedef Mma<bf16, 16> Product;
#endif

#if S_MATRIX
#define S_THREADS (4 * ARCH_WAVE_SIZE)
#define S_BM (2 * S_TILES_M * 16)
#define S_BN (2 * S_TILES_N * 16)
#define S_VALUES Product::ACC
// Where tiles lie in LDS.
typedef LdsPlace Place;
RF_FN Place place_in(const char* lds) { return lds_place(lds); }
// How the 16-byte chunks of 64 bytes of a row are dealt to lanes: `Slab` of mma.h, for 8-bit floats too. What meets in a product is of
// one k in both operands.
#if S_NATIVE && !S_INT
struct Deal {
#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
    static const int PHASES = 1;
#else
    static const int PHASES = 2;
#endif
    static const int READS = 1, STEPS = 16 / (int)sizeof(Product::Operand);
    RF_FN static int chunk(int part) { return part; }
    RF_FN static int apart(int phase, int) { return 2 * phase; }
    RF_FN static void operands(const Chunk* read, Product::Operand* to) { __builtin_memcpy(to, read, 16); }
};
#elif S_NATIVE
typedef Slab<i8, 16> Deal;
#else
typedef Slab<bf16, 16> Deal;
#endif
// Chunks of a row that a product of phase 0 takes, and how many such a block of K has. Where it has half, a lane takes half a chunk.
#define S_PHASE_CHUNKS (4 / Deal::PHASES)
#define S_SUB_CHUNKS (S_SUB * (int)sizeof(In) / 16)
#define S_HALF (S_NATIVE && S_SUB == 32 && ARCH_MATRIX == ARCH_MATRIX_MFMA)
static_assert(S_HALF ? 2 * S_SUB_CHUNKS == S_PHASE_CHUNKS : S_SUB_CHUNKS % S_PHASE_CHUNKS == 0, "a block of K is whole products");

// Two by two waves.
struct Tile {
    Product::Accumulator sum[S_TILES_M][S_TILES_N];
    int lane_id, first_row, first_col;
    // Bytes: of a lane's row in the first tile, and of its chunk as far as the lane alone decides.
    int row_a, row_b, chunk_a, chunk_b;

    // mma.sync takes two neighbouring registers of B at a time: the lanes whose addresses are those of the second and of the
    // third block change places, so that what belongs together comes together.
#if RF_DEVICE_AMD
    RF_FN static int lane_of_b(int lane) { return lane; }
    RF_FN static void turn(Product::Operand&) {}
#else
    RF_FN static int lane_of_b(int lane) { return lane % 8 | (lane & 8) << 1 | (lane & 16) >> 1; }
    RF_FN static void turn(Product::Operand& b) {
        u32 word = b.word[1];
        b.word[1] = b.word[2];
        b.word[2] = word;
    }
#endif
    RF_FN static int chunk_of(int lane) {
#if S_HALF
        return ((lane / 16 / 2) ^ (lane & 7)) << 4 | (lane / 16 % 2) << 3;
#else
        return (Deal::chunk(lane / 16) ^ (lane & 7)) << 4;
#endif
    }
    RF_FN void start() {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        lane_id = (int)(thread_x() % ARCH_WAVE_SIZE);
        first_row = (int)(wave / 2) * S_TILES_M * 16;
        first_col = (int)(wave % 2) * S_TILES_N * 16;
        row_a = (first_row + lane_id % 16) * 128;
        row_b = (first_col + lane_of_b(lane_id) % 16) * 128;
        chunk_a = chunk_of(lane_id);
        chunk_b = chunk_of(lane_of_b(lane_id));
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < S_TILES_M * S_TILES_N; ++i) sum[i / S_TILES_N][i % S_TILES_N] = 0;
    }
#if S_HALF
    static const int STEPS = 1;
    RF_FN static void read(Place row, int chunk, int first, int, Product::Operand* to) {
        read_aligned<(int)sizeof(Product::Operand)>(row + (chunk ^ first << 4), to);
    }
#else
    static const int STEPS = Deal::STEPS;
    RF_FN static void read(Place row, int chunk, int first, int phase, Product::Operand* to) {
        Chunk chunks[Deal::READS];
#pragma unroll
        for (int r = 0; r < Deal::READS; ++r)
            chunks[r] = read_chunk(row + (chunk ^ (first + Deal::apart(phase, r)) << 4));
        Deal::operands(chunks, to);
    }
#endif
    // Block `sub` of the tiles that lie there.
    RF_FN void multiply(Place lds_a, Place lds_b, int sub) {
        const int PHASES = S_HALF ? 1 : S_SUB_CHUNKS / S_PHASE_CHUNKS;
#pragma unroll
        for (int p = 0; p < PHASES; ++p) {
            const int chunk = sub * S_SUB_CHUNKS + p * S_PHASE_CHUNKS, phase = chunk / S_PHASE_CHUNKS % Deal::PHASES;
            const int first = S_HALF ? chunk : chunk - phase * S_PHASE_CHUNKS;
            Product::Operand a[S_TILES_M][STEPS], b[S_TILES_N][STEPS];
#pragma unroll
            for (int i = 0; i < S_TILES_M; ++i) read(lds_a + (row_a + i * 16 * 128), chunk_a, first, phase, a[i]);
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j) {
                read(lds_b + (row_b + j * 16 * 128), chunk_b, first, phase, b[j]);
#pragma unroll
                for (int s = 0; s < STEPS; ++s) turn(b[j][s]);
            }
#pragma unroll
            for (int s = 0; s < STEPS; ++s)
#pragma unroll
                for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < S_TILES_N; ++j) sum[i][j] = Product::run(a[i][s], b[j][s], sum[i][j]);
        }
    }
    RF_FN float value(int i, int j, int v) const {
#if S_NATIVE && S_INT
        return (float)(i32)sum[i][j][v];
#else
        return sum[i][j][v];
#endif
    }
    RF_FN int row(int i, int v) const { return first_row + i * 16 + Product::row(v, lane_id); }
    RF_FN int col(int j, int v) const { return first_col + j * 16 + Product::column(v, lane_id); }
};
#else
// Where tiles lie in LDS.
typedef const char* Place;
RF_FN Place place_in(const char* lds) { return lds; }
#define S_THREADS 256
#define S_BM (16 * S_TILES_M)
#define S_BN (16 * S_TILES_N)
#define S_VALUES 1
// S_TILES_M rows and S_TILES_N columns per lane, 16 apart.
struct Tile {
    float sum[S_TILES_M][S_TILES_N];
    int first_row, first_col;

    RF_FN void start() {
        first_row = (int)(thread_x() / 16);
        first_col = (int)(thread_x() % 16);
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < S_TILES_M * S_TILES_N; ++i) sum[i / S_TILES_N][i % S_TILES_N] = 0.0f;
    }
    RF_FN void multiply(Place lds_a, Place lds_b, int sub) {
#pragma unroll 1
        for (int chunk = sub * S_SUB / 8; chunk < (sub + 1) * S_SUB / 8; ++chunk) {
            Vec<In, 8> a[S_TILES_M], b[S_TILES_N];
#pragma unroll
            for (int i = 0; i < S_TILES_M; ++i) a[i] = load<8>((const In*)(lds_a + place_of(first_row + i * 16, chunk)));
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j) b[j] = load<8>((const In*)(lds_b + place_of(first_col + j * 16, chunk)));
#pragma unroll
            for (int s = 0; s < 8; ++s)
#pragma unroll
                for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < S_TILES_N; ++j)
                        sum[i][j] = rf::fma(cast<float>(a[i][s]), cast<float>(b[j][s]), sum[i][j]);
        }
    }
    RF_FN float value(int i, int j, int) const { return sum[i][j]; }
    RF_FN int row(int i, int) const { return first_row + i * 16; }
    RF_FN int col(int j, int) const { return first_col + j * 16; }
};
#endif

// Codes of ROWS rows on their way to LDS, 16 bytes of them at once; rows and K past the ends are codes of zero.
template <int ROWS, int FORMAT> struct Loader {
    typedef Format<FORMAT> Code;
    static const int CODES = 128 / Code::BITS, PER_ROW = S_BK / CODES, TOTAL = ROWS * PER_ROW;
    static const int ROUNDS = (TOTAL + S_THREADS - 1) / S_THREADS;
    Vec<u32, 4> held[ROUNDS];

    RF_FN static bool mine(int c) { return TOTAL % S_THREADS == 0 || c < TOTAL; }
    RF_FN void fetch(const u8* from, i64 row_bytes, u32 first_row, u32 rows, u32 first_k, u32 last_k) {
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            int c = (int)thread_x() + i * S_THREADS;
            u32 row = first_row + c / PER_ROW, k = first_k + c % PER_ROW * CODES;
            __builtin_memset(&held[i], 0, sizeof(held[i]));
            if (!mine(c) || row >= rows || k >= last_k) continue;
            const u8* at = from + (i64)row * row_bytes + (i64)k * Code::BITS / 8;
#if S_VECTOR
            held[i] = load<4>((const u32*)(const void*)at);
#else
            u32 bytes = (last_k - k) * Code::BITS / 8;
#pragma unroll
            for (u32 j = 0; j < 16; ++j)
                if (j < bytes) held[i][j / 4] |= (u32)at[j] << (8 * (j % 4));
#endif
        }
    }
    RF_FN void put(char* lds) const {
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            int c = (int)thread_x() + i * S_THREADS;
            if (!mine(c)) continue;
            const int row = c / PER_ROW, chunk = c % PER_ROW * (CODES * (int)sizeof(In) / 16);
#if S_NATIVE
            store<4>((u32*)(void*)(lds + place_of(row, chunk)), held[i]);
#else
#pragma unroll
            for (int j = 0; j < CODES; j += 8) {
                Vec<bf16, 8> some;
#pragma unroll
                for (int n = 0; n < 8; ++n) {
                    const int bit = (j + n) * Code::BITS;
                    u32 code = (held[i][bit / 32] >> (bit % 32)) & ((1u << Code::BITS) - 1u);
                    some[n] = cast<bf16>(Code::decode(code));
                }
                store<8>((bf16*)(void*)(lds + place_of(row, chunk + j / 8)), some);
            }
#endif
        }
    }
};

#if S_ASYNC
// The same past the registers.
template <int ROWS> RF_FN void copy_tile(u32 lds, const u8* from, i64 row_bytes, u32 first_row, u32 rows, u32 first_k, u32 last_k) {
    static_assert(ROWS * 8 % S_THREADS == 0, "a lane copies whole chunks");
#pragma unroll
    for (int i = 0; i < ROWS * 8 / S_THREADS; ++i) {
        const int c = (int)thread_x() + i * S_THREADS;
        const u32 row = first_row + c / 8, k = first_k + c % 8 * 16;
        const bool there = row < rows && k < last_k;
        copy_async(lds + place_of(c / 8, c % 8), from + (there ? (i64)row * row_bytes + k : 0), there);
    }
}
#endif

// The scales of a round: of each block, those of the rows, then of the columns; on their way to LDS.
struct Scales {
    static const int TOTAL = S_SUBS * (S_BM + S_BN), EACH = (TOTAL + S_THREADS - 1) / S_THREADS;
    float held[EACH];

    RF_FN void fetch(const ScaledArgs& g, u32 first_row, u32 first_col, u32 k) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const u32 c = thread_x() + i * S_THREADS, at = c % (S_BM + S_BN);
            if (c >= TOTAL) continue;
            u32 from = k + c / (S_BM + S_BN) * S_SUB;
            from = from < g.k ? from : g.k - 1;
            if (at < S_BM) {
                u32 row = first_row + at < g.m ? first_row + at : g.m - 1;
                held[i] = read_scale(g.a_scales, (i64)g.a_rows.divide(row) * g.a_scale_row + (i64)g.a_block.divide(from) * g.a_scale_k, g.a_kind);
            } else {
                u32 col = first_col + (at - S_BM) < g.n ? first_col + (at - S_BM) : g.n - 1;
                held[i] = read_scale(g.b_scales, (i64)g.b_rows.divide(col) * g.b_scale_row + (i64)g.b_block.divide(from) * g.b_scale_k, g.b_kind);
            }
        }
    }
    RF_FN void put(float* lds) const {
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (thread_x() + i * S_THREADS < TOTAL) lds[thread_x() + i * S_THREADS] = held[i];
    }
};

// Sums with their scales.
struct Totals {
    float at[S_TILES_M][S_TILES_N][S_VALUES];

    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < S_TILES_M * S_TILES_N * S_VALUES; ++i)
            at[i / (S_TILES_N * S_VALUES)][i / S_VALUES % S_TILES_N][i % S_VALUES] = 0.0f;
    }
    RF_FN void add(const Tile& tile, const float* of_rows, const float* of_cols) {
#pragma unroll
        for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < S_VALUES; ++v)
                    at[i][j][v] += tile.value(i, j, v) * of_rows[tile.row(i, v)] * of_cols[tile.col(j, v)];
    }
    RF_FN void write(const ScaledArgs& g, const Tile& tile, u32 first_row, u32 first_col) const {
#pragma unroll
        for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < S_VALUES; ++v) {
                    u32 row = first_row + tile.row(i, v), col = first_col + tile.col(j, v);
                    if (row < g.m && col < g.n) g.c[(i64)row * g.c_row + (i64)col * g.c_col] = cast<Out>(at[i][j][v]);
                }
    }
};

extern "C" __global__ __launch_bounds__(S_THREADS) void q_scaled(ScaledArgs g) {
    const int TILE_BYTES = (S_BM + S_BN) * 128;
#if S_ASYNC
    extern __shared__ __attribute__((aligned(16))) char lds[];
#else
    __shared__ __attribute__((aligned(16))) char lds[TILE_BYTES];
    Loader<S_BM, S_A_FORMAT> load_a;
    Loader<S_BN, S_B_FORMAT> load_b;
#endif
    __shared__ float scales[2][Scales::TOTAL];
    const u32 first_row = group_y() * S_BM, first_col = group_x() * S_BN;
    Tile tile;
    Totals total;
    Scales next;
    tile.start();
    tile.clear();
    total.clear();
#if S_ASYNC
    const u32 place = place_in(lds);
#pragma unroll
    for (int stage = 0; stage < S_STAGES - 1; ++stage) {
        copy_tile<S_BM>(place + stage * TILE_BYTES, g.a, g.a_row, first_row, g.m, stage * S_BK, g.k);
        copy_tile<S_BN>(place + stage * TILE_BYTES + S_BM * 128, g.b, g.b_row, first_col, g.n, stage * S_BK, g.k);
        async_commit();
    }
    u32 stage = 0;
#else
    load_a.fetch(g.a, g.a_row, first_row, g.m, 0, g.k);
    load_b.fetch(g.b, g.b_row, first_col, g.n, 0, g.k);
#endif
    // Rounds since the sums were last scaled, this one included; scales are fetched one round before they are needed.
    u32 open = 1, turn = 0;
    if (S_SUBS > 1 || g.rounds == 1 || S_BK >= g.k) next.fetch(g, first_row, first_col, 0);
    for (u32 k = 0; k < g.k; k += S_BK, turn ^= 1) {
        const bool last = k + S_BK >= g.k, scaled = S_SUBS > 1 || open == g.rounds || last;
#if S_ASYNC
        async_wait<S_STAGES - 2>();
        if (scaled) next.put(scales[turn]);
        barrier();
        {
            // The stage that was multiplied before the barrier.
            const u32 ahead = k + (S_STAGES - 1) * S_BK, to = place + (stage == 0 ? S_STAGES - 1 : stage - 1) * TILE_BYTES;
            if (ahead < g.k) {
                copy_tile<S_BM>(to, g.a, g.a_row, first_row, g.m, ahead, g.k);
                copy_tile<S_BN>(to + S_BM * 128, g.b, g.b_row, first_col, g.n, ahead, g.k);
            }
            async_commit();
        }
        const Place tiles = place + stage * TILE_BYTES;
        stage = stage + 1 == S_STAGES ? 0 : stage + 1;
#else
        barrier();
        load_a.put(lds);
        load_b.put(lds + S_BM * 128);
        if (scaled) next.put(scales[turn]);
        barrier();
        // Under way while this round is multiplied; zeros past the end.
        load_a.fetch(g.a, g.a_row, first_row, g.m, k + S_BK, g.k);
        load_b.fetch(g.b, g.b_row, first_col, g.n, k + S_BK, g.k);
        const Place tiles = place_in(lds);
#endif
        const u32 coming = scaled ? 1 : open + 1;
        if (!last && (S_SUBS > 1 || coming == g.rounds || k + 2 * S_BK >= g.k)) next.fetch(g, first_row, first_col, k + S_BK);
#pragma unroll
        for (int sub = 0; sub < S_SUBS; ++sub) {
            if (S_SUBS > 1 && k + sub * S_SUB >= g.k) break;
            tile.multiply(tiles, tiles + S_BM * 128, sub);
            if (!scaled) continue;
            const float* of_rows = scales[turn] + sub * (S_BM + S_BN);
            total.add(tile, of_rows, of_rows + S_BM);
            tile.clear();
        }
        open = coming;
    }
    total.write(g, tile, first_row, first_col);
}
