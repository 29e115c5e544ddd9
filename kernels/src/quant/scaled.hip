// q_scaled: C = A Bᵀ of codes with scales along both axes of both.
//
// Shapes : A [M, K], B [N, K] codes, K contiguous, bytes or two to a byte; scales [ceil(M / rows), ceil(K / block)] and
//          [ceil(N / rows), ceil(K / block)], rows and block of each its own; C [M, N]; strides in bytes of codes, in elements else
// Grid   : (ceil(N / S_BN), ceil(M / S_BM), 1)
// Block  : (S_THREADS, 1, 1): four waves, two by two; 256 without a matrix unit
// LDS    : (S_BM + S_BN) rows of S_BK codes and 16 bytes, and a scale for each row and block of them
// Needs  : the narrower block a multiple of S_SUB, which divides S_BK or is it, and a divisor of the wider; S_VECTOR: rows and K whole vectors of 16 bytes; K even for
//          codes of 4 bits; S_NATIVE with i8: fewer than 2^17 codes between two additions               checked by the launcher
// Numeric: products of codes are exact. S_SUB codes, or S_BK * g.rounds where S_SUB is S_BK, are summed from zero, in i32 for i8
//          on the matrix unit, in f32 else; (sum * scale of A) * scale of B is added to the total in ascending order of K; one
//          rounding at the store
//
// Macros : S_OUT; S_A_FORMAT, S_B_FORMAT; S_MATRIX; S_NATIVE: codes are operands of the matrix unit as they are, else they are
//          decoded to bf16, exactly; S_BK, S_SUB; S_TILES_M, S_TILES_N; S_VECTOR
using namespace rf;

typedef S_OUT Out;
#define S_INT (S_A_FORMAT == 0)
#if S_NATIVE
typedef u8 In;
#else
typedef bf16 In;
#endif
#define S_PAD (16 / (int)sizeof(In))
#define S_ROW (S_BK + S_PAD)
#define S_SUBS (S_BK / S_SUB)

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
#if S_NATIVE
// Of K consecutive codes of a row each group of 16 lanes takes its share; what meets in a product is of one k in both operands.
struct Operands {
    static const int GROUP = Product::K, STEPS = 1;
    RF_FN static int offset(int part) {
#if ARCH_MATRIX == ARCH_MATRIX_WMMA11
        return 0;
#else
        return part * (int)sizeof(Product::Operand);
#endif
    }
    RF_FN static void read(const In* at, Product::Operand* to) {
#if RF_DEVICE_AMD
        read_aligned<(int)sizeof(Product::Operand)>(at, to);
#else
        *to = read_chunk(lds_place(at));
#endif
    }
};
#else
typedef Fragment<bf16, 16> Operands;
#endif
static_assert(S_SUB % Operands::GROUP == 0, "a block of K is whole products");

// Two by two waves.
struct Tile {
    Product::Accumulator sum[S_TILES_M][S_TILES_N];
    int lane_id, first_row, first_col;

    RF_FN void start() {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        lane_id = (int)(thread_x() % ARCH_WAVE_SIZE);
        first_row = (int)(wave / 2) * S_TILES_M * 16;
        first_col = (int)(wave % 2) * S_TILES_N * 16;
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < S_TILES_M * S_TILES_N; ++i) sum[i / S_TILES_N][i % S_TILES_N] = 0;
    }
    RF_FN void multiply(const In* lds_a, const In* lds_b, int from) {
        int lane_at = lane_id % 16 * S_ROW + Operands::offset(lane_id / 16) + from;
        const In* at_a = lds_a + first_row * S_ROW + lane_at;
        const In* at_b = lds_b + first_col * S_ROW + lane_at;
#pragma unroll
        for (int k = 0; k < S_SUB; k += Operands::GROUP) {
            Product::Operand a[S_TILES_M][Operands::STEPS], b[S_TILES_N][Operands::STEPS];
#pragma unroll
            for (int i = 0; i < S_TILES_M; ++i) Operands::read(at_a + i * 16 * S_ROW + k, a[i]);
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j) Operands::read(at_b + j * 16 * S_ROW + k, b[j]);
#pragma unroll
            for (int s = 0; s < Operands::STEPS; ++s)
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
    RF_FN void multiply(const In* lds_a, const In* lds_b, int from) {
#pragma unroll 1
        for (int k = from; k < from + S_SUB; k += 8) {
            Vec<In, 8> a[S_TILES_M], b[S_TILES_N];
#pragma unroll
            for (int i = 0; i < S_TILES_M; ++i) a[i] = load<8>(lds_a + (first_row + i * 16) * S_ROW + k);
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j) b[j] = load<8>(lds_b + (first_col + j * 16) * S_ROW + k);
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
    RF_FN void put(In* lds) const {
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            int c = (int)thread_x() + i * S_THREADS;
            if (!mine(c)) continue;
            In* to = lds + c / PER_ROW * S_ROW + c % PER_ROW * CODES;
#if S_NATIVE
            store<4>((u32*)(void*)to, held[i]);
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
                store<8>(to + j, some);
            }
#endif
        }
    }
};

// The scales of a round: of each block, those of the rows, then of the columns.
RF_FN void put_scales(const ScaledArgs& g, u32 first_row, u32 first_col, u32 k, float* lds) {
    for (u32 c = thread_x(); c < S_SUBS * (S_BM + S_BN); c += S_THREADS) {
        u32 at = c % (S_BM + S_BN), from = k + c / (S_BM + S_BN) * S_SUB;
        from = from < g.k ? from : g.k - 1;
        if (at < S_BM) {
            u32 row = first_row + at < g.m ? first_row + at : g.m - 1;
            lds[c] = read_scale(g.a_scales, (i64)g.a_rows.divide(row) * g.a_scale_row + (i64)g.a_block.divide(from) * g.a_scale_k, g.a_kind);
        } else {
            u32 col = first_col + (at - S_BM) < g.n ? first_col + (at - S_BM) : g.n - 1;
            lds[c] = read_scale(g.b_scales, (i64)g.b_rows.divide(col) * g.b_scale_row + (i64)g.b_block.divide(from) * g.b_scale_k, g.b_kind);
        }
    }
}

extern "C" __global__ __launch_bounds__(S_THREADS) void q_scaled(ScaledArgs g) {
    __shared__ __attribute__((aligned(16))) In lds[(S_BM + S_BN) * S_ROW];
    __shared__ float scales[S_SUBS * (S_BM + S_BN)];
    u32 first_row = group_y() * S_BM, first_col = group_x() * S_BN;
    Tile tile;
    Loader<S_BM, S_A_FORMAT> load_a;
    Loader<S_BN, S_B_FORMAT> load_b;
    float total[S_TILES_M][S_TILES_N][S_VALUES];
#pragma unroll
    for (int i = 0; i < S_TILES_M * S_TILES_N * S_VALUES; ++i)
        total[i / (S_TILES_N * S_VALUES)][i / S_VALUES % S_TILES_N][i % S_VALUES] = 0.0f;
    tile.start();
    tile.clear();
    load_a.fetch(g.a, g.a_row, first_row, g.m, 0, g.k);
    load_b.fetch(g.b, g.b_row, first_col, g.n, 0, g.k);
    u32 open = 0;
    for (u32 k = 0; k < g.k; k += S_BK) {
        barrier();
        load_a.put(lds);
        load_b.put(lds + S_BM * S_ROW);
        put_scales(g, first_row, first_col, k, scales);
        barrier();
        // Under way while this round is multiplied; zeros past the end.
        load_a.fetch(g.a, g.a_row, first_row, g.m, k + S_BK, g.k);
        load_b.fetch(g.b, g.b_row, first_col, g.n, k + S_BK, g.k);
        ++open;
#pragma unroll
        for (int sub = 0; sub < S_SUBS; ++sub) {
            if (S_SUBS > 1 && k + sub * S_SUB >= g.k) break;
            tile.multiply(lds, lds + S_BM * S_ROW, sub * S_SUB);
            if (S_SUBS == 1 && open != g.rounds && k + S_BK < g.k) continue;
            open = 0;
            const float* of_rows = scales + sub * (S_BM + S_BN);
            const float* of_cols = of_rows + S_BM;
#pragma unroll
            for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
                for (int j = 0; j < S_TILES_N; ++j)
#pragma unroll
                    for (int v = 0; v < S_VALUES; ++v)
                        total[i][j][v] += tile.value(i, j, v) * of_rows[tile.row(i, v)] * of_cols[tile.col(j, v)];
            tile.clear();
        }
    }
#pragma unroll
    for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
        for (int j = 0; j < S_TILES_N; ++j)
#pragma unroll
            for (int v = 0; v < S_VALUES; ++v) {
                u32 row = first_row + tile.row(i, v), col = first_col + tile.col(j, v);
                if (row < g.m && col < g.n) g.c[(i64)row * g.c_row + (i64)col * g.c_col] = cast<Out>(total[i][j][v]);
            }
}
