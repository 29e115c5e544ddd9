// matrix: the product of two tiles in LDS by the matrix units, each wave its rectangle of C.
//
// MATRIX_TURNS: whoever stores C takes rows and columns from Tile. Then, on units whose lanes have neighbours of a column of the result, A
// is the second operand, so that a lane has neighbours of a row of C, which it stores at once; products and their sums are the same.
#ifndef MATRIX_TURNS
#define MATRIX_TURNS 0
#endif
struct Tile {
    typedef Mma<In, GEMM_MATRIX_SIZE> M;
    typedef Slab<In, GEMM_MATRIX_SIZE> S;
    typedef M::Operand Operand;
    static const int BYTES_A = GEMM_BM * GEMM_SLABS * 64, BYTES_B = GEMM_BN * GEMM_SLABS * 64;
    static const int VALUES = GEMM_TILES_M * GEMM_TILES_N * M::ACC;
    // Neighbours of a row that a lane would store at once, where those of the wave are no shorter a piece of it than by columns.
#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
    static const int RUN = MATRIX_TURNS && sizeof(In) < 8 && sizeof(Out) <= 4 && GEMM_MATRIX_SIZE == 16 ? 4 : 1;
#elif RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_WMMA12
    static const int RUN = MATRIX_TURNS && sizeof(Out) == 2 ? 8 : 1;
#else
    static const int RUN = 1;
#endif
    static const bool TURNED = RUN > 1;
    M::Accumulator sum[GEMM_TILES_M][GEMM_TILES_N];
#if GEMM_LDS_BYTES
    RF_FN Total& value(int n) { return sum[n / M::ACC / GEMM_TILES_N][n / M::ACC % GEMM_TILES_N].at[n % M::ACC]; }
#endif
    Reader<GEMM_BM, GEMM_A_MODE, GEMM_MATRIX_SIZE> from_a[GEMM_TILES_M];
    Reader<GEMM_BN, GEMM_B_MODE, GEMM_MATRIX_SIZE> from_b[GEMM_TILES_N];
    u32 lane_id, first_row, first_col;

    // mma.sync takes two neighbouring registers of B at a time: the lanes whose addresses are those of the second and of the
    // third block change places, so that what belongs together comes together and is not moved there.
#if RF_DEVICE_AMD
    RF_FN static u32 lane_of_b(u32 lane) { return lane; }
    RF_FN static void operands_of_b(const Chunk* read, Operand* to) { S::operands(read, to); }
#else
    RF_FN static u32 lane_of_b(u32 lane) { return lane % 8 | (lane & 8) << 1 | (lane & 16) >> 1; }
    RF_FN static void operands_of_b(const Chunk* read, Operand* to) {
        S::operands(read, to);
        u32 word = to->word[1];
        to->word[1] = to->word[2];
        to->word[2] = word;
    }
#endif

    RF_FN void start() {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        lane_id = thread_x() % ARCH_WAVE_SIZE;
        first_row = wave / GEMM_WAVES_N * GEMM_TILES_M * GEMM_MATRIX_SIZE;
        first_col = wave % GEMM_WAVES_N * GEMM_TILES_N * GEMM_MATRIX_SIZE;
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i) from_a[i].start(first_row + i * GEMM_MATRIX_SIZE, lane_id);
#pragma unroll
        for (int j = 0; j < GEMM_TILES_N; ++j) from_b[j].start(first_col + j * GEMM_MATRIX_SIZE, lane_of_b(lane_id));
    }
    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M * GEMM_TILES_N; ++i) sum[i / GEMM_TILES_N][i % GEMM_TILES_N] = 0;
    }
    // What a wave multiplies at once.
    struct Operands {
        Operand a[GEMM_TILES_M][S::STEPS], b[GEMM_TILES_N][S::STEPS];
    };
    static const int PARTS = GEMM_SLABS * S::PHASES;
    RF_FN void fetch(LdsAddress tile_a, LdsAddress tile_b, int part, Operands& to) const {
        const int slab = part / S::PHASES, phase = part % S::PHASES;
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i) {
            Chunk chunks[S::READS];
#pragma unroll
            for (int r = 0; r < S::READS; ++r) chunks[r] = from_a[i].read(tile_a, slab, phase, r);
            S::operands(chunks, to.a[i]);
        }
#pragma unroll
        for (int j = 0; j < GEMM_TILES_N; ++j) {
            Chunk chunks[S::READS];
#pragma unroll
            for (int r = 0; r < S::READS; ++r) chunks[r] = from_b[j].read(tile_b, slab, phase, r);
            operands_of_b(chunks, to.b[j]);
        }
    }
    RF_FN void multiply(const Operands& of) {
#pragma unroll
        for (int s = 0; s < S::STEPS; ++s)
#pragma unroll
            for (int i = 0; i < GEMM_TILES_M; ++i)
#pragma unroll
                for (int j = 0; j < GEMM_TILES_N; ++j)
                    sum[i][j] = TURNED ? M::run(of.b[j][s], of.a[i][s], sum[i][j]) : M::run(of.a[i][s], of.b[j][s], sum[i][j]);
    }
    // The row and the column of a product that value number v of a lane is of.
    RF_FN static int row(int v, int lane) { return TURNED ? M::column(v, lane) : M::row(v, lane); }
    RF_FN static int column(int v, int lane) { return TURNED ? M::row(v, lane) : M::column(v, lane); }
    RF_FN void multiply(LdsAddress tile_a, LdsAddress tile_b) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            Operands operands;
            fetch(tile_a, tile_b, part, operands);
            multiply(operands);
        }
    }
    RF_FN void add(const Tile& other) {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < GEMM_TILES_N; ++j) sum[i][j] += other.sum[i][j];
    }
    template <bool WHOLE, class To> RF_FN void write(const To& corner, u32 rows, u32 cols) const {
#pragma unroll
        for (int j = 0; j < GEMM_TILES_N; ++j) {
            u32 col = first_col + j * GEMM_MATRIX_SIZE + column(0, (int)lane_id);
#pragma unroll
            for (int i = 0; i < GEMM_TILES_M; ++i) {
                u32 base = first_row + i * GEMM_MATRIX_SIZE;
                To at = corner;
                at.move(base + row(0, (int)lane_id), col);
#pragma unroll
                for (int v = 0; v < M::ACC; ++v) {
                    // Rows and columns of a lane differ by the same in every lane.
                    int down = row(v, 0) - row(0, 0), right = column(v, 0) - column(0, 0);
                    if (WHOLE && To::WALKS) {
                        // From the last one: a step of each is the same in every lane, and no lane multiplies.
                        if (v > 0) at.move(row(v, 0) - row(v - 1, 0), column(v, 0) - column(v - 1, 0));
                        at.put(0, 0, (Total)sum[i][j][v]);
                    } else if (WHOLE || (col + right < cols && base + row(v, (int)lane_id) < rows)) {
                        at.put(down, right, (Total)sum[i][j][v]);
                    }
                }
            }
        }
    }
    // A whole tile of dense rows.
    template <class To> RF_FN void write_runs(const To& corner) const {
        To at = corner;
        at.move(first_row + row(0, (int)lane_id), first_col + column(0, (int)lane_id));
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i) {
#pragma unroll
            for (int j = 0; j < GEMM_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < M::ACC; v += RUN) {
                    Total run[RUN];
#pragma unroll
                    for (int n = 0; n < RUN; ++n) run[n] = (Total)sum[i][j][v + n];
                    at.template put_run<RUN>(row(v, 0) - row(0, 0), j * GEMM_MATRIX_SIZE + column(v, 0) - column(0, 0), run);
                }
            at.move(GEMM_MATRIX_SIZE, 0);
        }
    }
    // Pairs of neighbours to rows of ROW elements in LDS.
    template <int ROW, class H> RF_FN void stage_tile(H* rows) const {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < GEMM_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < M::ACC; v += 2) {
                    u32 down = first_row + i * GEMM_MATRIX_SIZE + row(v, (int)lane_id);
                    u32 col = first_col + j * GEMM_MATRIX_SIZE + column(v, (int)lane_id);
                    *(u32*)(rows + down * ROW + col) = two_of<H>((Total)sum[i][j][v], (Total)sum[i][j][v + 1]);
                }
    }
};
