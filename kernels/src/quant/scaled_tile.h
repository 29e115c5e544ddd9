// scaled_tile.h: a workgroup's tile of C in scaled.hip, before which it stands: what each wave has of it, and how it is multiplied of codes
// that lie in LDS, or of B in registers.
#if S_NATIVE
typedef u8 In;
// Bytes of a row in LDS.
#define S_A_ROW (S_BK * S_A_BITS / 8)
#define S_B_ROW (S_BK * S_B_BITS / 8)
#else
typedef bf16 In;
#define S_A_ROW (2 * S_BK)
#define S_B_ROW (2 * S_BK)
#endif
#define S_SUBS (S_BK / S_SUB)
static_assert((S_A_ROW == 128 || S_A_ROW == 64) && (S_B_ROW == 128 || S_B_ROW == 64), "a row in LDS is eight chunks of 16 bytes, or four");

// What of its row decides where a chunk is: those of eight rows at one place of K are in different banks, and so are those of four rows
// and of four others at the next, which some devices serve together.
template <int ROW> RF_FN int swizzle_mask(int row) { return ROW == 128 ? row & 7 : -(row >> 2) & 3; }
// In bytes.
template <int ROW> RF_FN int swizzled(int row, int chunk) { return row * ROW + ((chunk ^ swizzle_mask<ROW>(row)) << 4); }

#if S_MATRIX
#define S_THREADS (4 * ARCH_WAVE_SIZE)
// S_ACROSS waves next to each other, the others above.
static_assert(S_ACROSS == 4 || (S_ACROSS == 2 && !S_DIRECT), "four waves");
#define S_BM (4 / S_ACROSS * S_TILES_M * 16)
#define S_BN (S_ACROSS * S_TILES_N * 16)
#define S_VALUES Product::ACC
// Where tiles lie in LDS.
typedef LdsAddress TileAddress;
RF_FN TileAddress tile_address(const char* lds) { return lds_address(lds); }
#if !S_DEEP
// Chunks of a row that a product of phase 0 takes, and how many such a block of K has. Where it has half, a lane takes half a chunk.
#define S_PHASE_CHUNKS (4 / Deal::PHASES)
#define S_SUB_CHUNKS (S_SUB * (int)sizeof(In) / 16)
#define S_HALF (S_NATIVE && S_SUB == 32 && ARCH_MATRIX == ARCH_MATRIX_MFMA)
static_assert(S_HALF ? 2 * S_SUB_CHUNKS == S_PHASE_CHUNKS : S_SUB_CHUNKS % S_PHASE_CHUNKS == 0, "a block of K is whole products");
static_assert(!(S_DIRECT && S_HALF), "whole chunks of B");
#endif

#if S_DIRECT
// Operands of B in registers, chunk `h * S_GROUPS + lane / 16` of a row being number h.
#define S_GROUPS (ARCH_WAVE_SIZE / 16)
struct Columns {
    static const int EACH = S_B_ROW / (16 * S_GROUPS);
    Chunk at[S_TILES_N][EACH];

    // Of the tiles of 16 columns from `first` on, which begin `tile_bytes` apart; past the last it is read again, for nobody.
    RF_FN void fetch(const u8* b, i64 tile_bytes, u32 first, u32 tiles, u32 k, int lane) {
#pragma unroll
        for (int j = 0; j < S_TILES_N; ++j) {
            const u32 tile = first + j < tiles ? first + j : tiles - 1;
            const u8* from = b + (i64)tile * tile_bytes + (i64)k * (2 * S_B_BITS) + lane * 16;
#pragma unroll
            for (int h = 0; h < EACH; ++h) at[j][h] = *(const Chunk*)(const void*)(from + h * (256 * S_GROUPS));
        }
    }
};
#else
struct Columns {};
#endif

// Two by two waves, or four side by side.
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
    template <int ROW> RF_FN static int chunk_of(int lane) {
#if S_DEEP
        return (lane / 16 ^ swizzle_mask<ROW>(lane % 16)) << 4;
#elif S_HALF
        return ((lane / 16 / 2) ^ swizzle_mask<ROW>(lane % 16)) << 4 | (lane / 16 % 2) << 3;
#else
        return (Deal::chunk(lane / 16) ^ swizzle_mask<ROW>(lane % 16)) << 4;
#endif
    }
    RF_FN void start() {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        lane_id = (int)(thread_x() % ARCH_WAVE_SIZE);
        first_row = (int)(wave / S_ACROSS) * S_TILES_M * 16;
        first_col = (int)(wave % S_ACROSS) * S_TILES_N * 16;
        row_a = (first_row + lane_id % 16) * S_A_ROW;
        row_b = (first_col + lane_of_b(lane_id) % 16) * S_B_ROW;
        chunk_a = chunk_of<S_A_ROW>(lane_id);
        chunk_b = chunk_of<S_B_ROW>(lane_of_b(lane_id));
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < S_TILES_M * S_TILES_N; ++i) sum[i / S_TILES_N][i % S_TILES_N] = 0;
    }
#if S_DEEP
    template <int BITS> RF_FN static Product::Operand operand(Chunk low, Chunk high) {
        Chunk both[2] = {low, high};
        if (BITS == 4) both[1] = (Chunk)0;
        Product::Operand to;
        __builtin_memcpy(&to, both, 32);
        return to;
    }
    template <int BITS> RF_FN static Product::Operand read(TileAddress row, int chunk, int first) {
        const Chunk low = read_chunk(row + (chunk ^ first << 4));
        return operand<BITS>(low, BITS == 8 ? read_chunk(row + (chunk ^ (first + 4) << 4)) : low);
    }
    // Block `sub` of the tiles that lie there; of its exponents a word for each row, then for each column, of each 128 k.
    RF_FN void multiply(TileAddress lds_a, TileAddress lds_b, const Columns& columns, const u32* exponents, int sub) {
        const int STEPS = S_SUB / 128;
#pragma unroll
        for (int p = 0; p < STEPS; ++p) {
            const int step = sub * STEPS + p;
            Product::Operand a[S_TILES_M];
            u32 a_scale[S_TILES_M];
#pragma unroll
            for (int i = 0; i < S_TILES_M; ++i) {
                a[i] = read<S_A_BITS>(lds_a + (row_a + i * 16 * S_A_ROW), chunk_a, step * S_A_BITS);
                a_scale[i] = exponent(exponents, step, first_row + i * 16);
            }
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j) {
#if S_DIRECT
                const Chunk* held = columns.at[j] + step * (S_B_BITS / 4);
                const Product::Operand b = operand<S_B_BITS>(held[0], held[S_B_BITS / 8]);
#else
                const Product::Operand b = read<S_B_BITS>(lds_b + (row_b + j * 16 * S_B_ROW), chunk_b, step * S_B_BITS);
#endif
                const u32 b_scale = exponent(exponents, step, S_BM + first_col + j * 16);
#pragma unroll
                for (int i = 0; i < S_TILES_M; ++i) sum[i][j] = Product::run(b, a[i], sum[i][j], b_scale, a_scale[i]);
            }
        }
    }
    // Of row or column lane % 16 from `first` on and the lane's 32 k, in the lowest byte.
    RF_FN u32 exponent(const u32* exponents, int step, int first) const {
#if S_MX
        return exponents[step * (S_BM + S_BN) + first + lane_id % 16] >> (8 * (lane_id / 16));
#else
        return 0;
#endif
    }
#else
#if S_HALF
    static const int STEPS = 1;
    RF_FN static void read(TileAddress row, int chunk, int first, int, Product::Operand* to) {
        read_aligned<(int)sizeof(Product::Operand)>(row + (chunk ^ first << 4), to);
    }
#else
    static const int STEPS = Deal::STEPS;
    RF_FN static void read(TileAddress row, int chunk, int first, int phase, Product::Operand* to) {
        Chunk chunks[Deal::READS];
#pragma unroll
        for (int r = 0; r < Deal::READS; ++r)
            chunks[r] = read_chunk(row + (chunk ^ (first + Deal::apart(phase, r)) << 4));
        Deal::operands(chunks, to);
    }
#endif
    // Block `sub` of the tiles that lie there.
    RF_FN void multiply(TileAddress lds_a, TileAddress lds_b, const Columns& columns, const u32*, int sub) {
        const int PHASES = S_HALF ? 1 : S_SUB_CHUNKS / S_PHASE_CHUNKS;
#pragma unroll
        for (int p = 0; p < PHASES; ++p) {
            const int chunk = sub * S_SUB_CHUNKS + p * S_PHASE_CHUNKS, phase = chunk / S_PHASE_CHUNKS % Deal::PHASES;
            const int first = S_HALF ? chunk : chunk - phase * S_PHASE_CHUNKS;
            Product::Operand a[S_TILES_M][STEPS], b[S_TILES_N][STEPS];
#pragma unroll
            for (int i = 0; i < S_TILES_M; ++i) read(lds_a + (row_a + i * 16 * S_A_ROW), chunk_a, first, phase, a[i]);
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j) {
#if S_DIRECT
                static_assert(Deal::READS == 1, "a chunk to a lane");
                Deal::operands(&columns.at[j][(first + Deal::apart(phase, 0)) / S_GROUPS], b[j]);
#else
                read(lds_b + (row_b + j * 16 * S_B_ROW), chunk_b, first, phase, b[j]);
#endif
#pragma unroll
                for (int s = 0; s < STEPS; ++s) turn(b[j][s]);
            }
#pragma unroll
            for (int s = 0; s < STEPS; ++s)
#pragma unroll
                for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < S_TILES_N; ++j)
                        sum[i][j] = S_TURNED ? Product::run(b[j][s], a[i][s], sum[i][j]) : Product::run(a[i][s], b[j][s], sum[i][j]);
        }
    }
#endif
    RF_FN float value(int i, int j, int v) const {
#if S_NATIVE && S_INT
        return (float)(i32)sum[i][j][v];
#else
        return sum[i][j][v];
#endif
    }
    RF_FN int row(int i, int v) const { return first_row + i * 16 + product_row(v, lane_id); }
    RF_FN int col(int j, int v) const { return first_col + j * 16 + product_column(v, lane_id); }
    // From the lane's first row and column: the same for every lane.
    RF_FN static int down(int i, int v) { return i * 16 + product_row(v, 0); }
    RF_FN static int across(int j, int v) { return j * 16 + product_column(v, 0); }
};
#else
// Where tiles lie in LDS.
typedef const char* TileAddress;
RF_FN TileAddress tile_address(const char* lds) { return lds; }
#define S_THREADS 256
#define S_BM (16 * S_TILES_M)
#define S_BN (16 * S_TILES_N)
#define S_VALUES 1
struct Columns {};
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
    RF_FN void multiply(TileAddress lds_a, TileAddress lds_b, const Columns&, const u32*, int sub) {
#pragma unroll 1
        for (int chunk = sub * S_SUB / 8; chunk < (sub + 1) * S_SUB / 8; ++chunk) {
            Vec<In, 8> a[S_TILES_M], b[S_TILES_N];
#pragma unroll
            for (int i = 0; i < S_TILES_M; ++i) a[i] = load<8>((const In*)(lds_a + swizzled<S_A_ROW>(first_row + i * 16, chunk)));
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j) b[j] = load<8>((const In*)(lds_b + swizzled<S_B_ROW>(first_col + j * 16, chunk)));
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
    RF_FN static int down(int i, int) { return i * 16; }
    RF_FN static int across(int j, int) { return j * 16; }
};
#endif
