// gguf_staged: C = A W for groups of few rows, W of blocks of GGUF. Blocks and rows of A are copied to LDS and read from there as operands of
// the matrix unit: on NVIDIA's cards a lane that reads its own column from memory takes a line of L1 for each access.
//
// Shapes : as coded.h says; lines of blocks, one for each column, `w_n` bytes apart
// Grid   : (ceil(N / STRIP), tiles of ROWS rows of groups, 1)
// Block  : (F_WAVES * ARCH_WAVE_SIZE, 1, 1)                                  F_SIDE side by side along N, the others along K
// LDS    : F_LDS bytes, dynamic: F_STAGES stages of each part of K, then the factors of each wave; sums of waves in their place
// Needs  : what gguf_matrix.hip does; of one group, a matrix that the launch ahead does not write; matrices aligned to 16 bytes; F_ALIGNED: stages of all columns too       checked by the launcher
// Numeric: as gguf_matrix.hip, bit for bit
//
// Macros : those of gguf_matrix.h and few_sums.h; F_STAGES; F_ALIGNED; F_WHOLE: each part of K is whole stages, N whole strips;
//          F_RESIDENT workgroups of a multiprocessor; F_LDS

// --- where what is in a stage ---

// A block of a K type, or eight of an older one, of each column: as many whole pieces of 16 bytes as they may touch. Then A's rows.
typedef Gguf<Q_GGUF> Block;
static const int STAGE_K = 256, BLOCKS = STAGE_K / Block::SIZE, COLUMN_BYTES = BLOCKS * Block::BYTES;
static const int PIECES = F_ALIGNED ? COLUMN_BYTES / 16 : (COLUMN_BYTES + 31 - Block::ALIGNED) / 16, COLUMN_STEP = PIECES * 16;
static const int STAGED_ROWS = F_KEPT == 1 ? 1 : ROWS, ROW_STEP = STAGE_K * 2;
// Halves of 128 bytes are exchanged in odd rows, so that two rows side by side are read in banks of their own.
RF_FN u32 half_of(u32 row, u32 half) { return (half ^ row) % 2 * 64; }
static const int WORDS_BYTES = STRIP * COLUMN_STEP, PART_BYTES = WORDS_BYTES + STAGED_ROWS * ROW_STEP, STAGE_BYTES = PARTS * PART_BYTES;
static const int PART_THREADS = F_SIDE * ARCH_WAVE_SIZE;
// Of a K type, each wave's factors of the sums of its runs.
static const bool FACTORS = Type::PARTS > 1;
static const int EACH = Type::OFFSET ? 2 : 1, FACTOR_BYTES = FACTORS ? Type::PARTS * Type::RUNS * COLUMNS * EACH * 4 : 0;
static_assert(!F_ALIGNED || COLUMN_BYTES % 16 == 0, "checked by the launcher");
static_assert(F_STAGES * STAGE_BYTES + F_WAVES * FACTOR_BYTES <= F_LDS && PARTS < 16, "as in gguf_matrix.rs");

// Those of a part meet.
RF_FN void part_barrier(int part) {
    if (F_SIDE == 1) wave_barrier();
    else asm volatile("bar.sync %0, %1;" : : "r"(part + 1), "n"(PART_THREADS) : "memory");
}
// Of 16 bytes, the first `there`; zeros behind them.
RF_FN void copy_part(LdsAddress to, const void* from, u32 there) {
    asm volatile("{ .reg .u64 global; cvta.to.global.u64 global, %1; cp.async.cg.shared.global.L2::128B [%0], [global], 16, %2; }"
                 :
                 : "r"(to), "l"(from), "r"(there)
                 : "memory");
}

// --- how it gets there ---

// Copies the stages of a part. Of neighbouring threads each has a piece of a column, as many as there are in it, and the same of every
// TURN-th column; waves have rows.
struct Copies {
    static const int TURN = PIECES < PART_THREADS ? PART_THREADS / PIECES : 1, TURNS = (STRIP + TURN - 1) / TURN;
    static const int ROW_TURNS = (STAGED_ROWS + F_SIDE - 1) / F_SIDE;
    const u8* blocks;
    const In* rows;
    // Bytes of a thread's first line to its end; its columns of those that there are.
    int left;
    int columns;
    u32 column, piece, row, half, asked, rows_asked, end;
    LdsAddress words_to, rows_to;
    bool has_piece;

    RF_FN void start(const QMatmulArgs& g, u32 first, u32 last, LdsAddress lds) {
        const u32 thread = thread_x() % PART_THREADS;
        column = thread / PIECES;
        piece = thread % PIECES;
        has_piece = column < TURN;
        const u32 begin = group_x() * STRIP + column;
        columns = begin < g.n ? (int)(g.n - begin) : 0;
        blocks = g.words + ((i64)begin * g.w_n + first * Block::BYTES);
        left = (int)((g.k / Block::SIZE - first) * Block::BYTES);
        words_to = lds + column * COLUMN_STEP + piece * 16;
        row = thread / ARCH_WAVE_SIZE;
        rows_to = lds + WORDS_BYTES + row * ROW_STEP + lane() / 8 * 128 + lane() % 4 * 16;
        half = lane() / 4 % 2;
        asked = rows_asked = first;
        end = last;
    }
    RF_FN void fetch_words(const QMatmulArgs& g, u32 stage) {
        const u8* at = blocks;
        const int there_is = left;
        const bool is_there = asked < end && has_piece;
        blocks += COLUMN_BYTES;
        left -= COLUMN_BYTES;
        asked += BLOCKS;
        if (!is_there) return;
#pragma unroll
        for (int i = 0; i < TURNS; ++i) {
            if (STRIP % TURN != 0 && i == TURNS - 1 && column >= STRIP % TURN) break;
            if (!F_WHOLE && i * TURN >= columns) break;
            const LdsAddress to = words_to + stage + i * (TURN * COLUMN_STEP);
            const u32 before = F_ALIGNED ? 0 : (u32)(u64)at & 15u;
            const u8* from = at - before + piece * 16;
            if (F_ALIGNED && F_WHOLE) {
                copy_part(to, from, 16);
            } else {
                const int there = there_is + (int)before - (int)piece * 16;
                copy_part(to, from, there < 0 ? 0 : there < 16 ? there : 16);
            }
            at += TURN * g.w_n;
        }
    }
    RF_FN void fetch_first_words(const QMatmulArgs& g) {
#pragma unroll
        for (int i = 0; i < F_STAGES - 1; ++i) fetch_words(g, i * STAGE_BYTES);
    }
    // Of `m` rows from the first one of the tile on.
    RF_FN void fetch_rows(const QMatmulArgs& g, const RowsOfA& rows, u32 first_row, u32 m, u32 stage) {
        if (rows_asked >= end) return;
        const u32 k = rows_asked * Block::SIZE + lane() * 8;
        rows_asked += BLOCKS;
#pragma unroll
        for (int i = 0; i < ROW_TURNS; ++i) {
            const u32 own = row + i * F_SIDE;
            if (own >= m) break;
            copy_async(rows_to + half_of(own, half) + stage + i * (F_SIDE * ROW_STEP), g.a + ((i64)rows.at(first_row + own) * g.a_row + k), F_WHOLE || k < g.k);
        }
    }
};

// --- what becomes of it ---

struct Part {
    WaveSums sums;
    float* factors;
    u32 less[Unit::COLUMNS * TAKEN];
    PairBits bits;
    u32 power;
    int group, place;
    // In the strip, the first of a lane's columns, and the one whose factors it makes; the lowest bits of where their bytes begin.
    u32 first, own, low[CODES], own_low;
    // Where halves of 128 bytes of a lane's row are in a stage.
    u32 halves[2];

    // Where the factors of a run's column are: those of a product's columns at one place lie side by side.
    RF_FN static constexpr int factor(int run, int code) {
        return ((run * PRODUCTS + code / Unit::COLUMNS) * Unit::LANES * Unit::COLUMNS + code % Unit::COLUMNS) * EACH;
    }
    // `constants`: registers of a wave would have to be moved for each use.
    RF_FN void start(const QMatmulArgs& g, const u32* constants, float* own_factors, int side, u32 first_block, u32 lane_id) {
        group = Unit::group(lane_id);
        place = Unit::place(lane_id);
        factors = own_factors;
        power = *(const volatile u32*)constants;
        bits.power = *(const volatile u32*)(constants + 2);
        bits.eighth = *(const volatile u32*)(constants + 3);
#pragma unroll
        for (int n = 0; n < Unit::COLUMNS * TAKEN; ++n) less[n] = *(const volatile u32*)(constants + 1);
        first = side * COLUMNS + place;
        own = side * COLUMNS + lane_id % COLUMNS;
        const u32 line = (u32)g.w_n, strip = (u32)(u64)g.words + group_x() * STRIP * line + first_block * Block::BYTES;
        own_low = strip + own * line;
#pragma unroll
        for (int i = 0; i < CODES; ++i) low[i] = strip + (first + i * Unit::LANES) * line;
        const u32 row = STAGED_ROWS == 1 ? 0 : Unit::given(lane_id);
#pragma unroll
        for (int i = 0; i < 2; ++i) halves[i] = WORDS_BYTES + row * ROW_STEP + half_of(row, i);
        sums.clear();
    }
    // A lane makes the factors of a column's runs, or of half of them, for all lanes.
    RF_FN void make_factors(Bytes block, u32 lane_id) {
        const u32 column = lane_id % COLUMNS;
        float* to = factors + factor(0, column / Unit::LANES) + column % Unit::LANES * (Unit::COLUMNS * EACH);
        static const int OWN = Type::PARTS * COLUMNS / ARCH_WAVE_SIZE;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int part = OWN == Type::PARTS ? i : (int)lane_id / COLUMNS;
            Type own;
            own.fetch(block, part, 0);
            own.start();
#pragma unroll
            for (int run = 0; run < Type::RUNS; ++run) {
                float* at = to + factor(part * Type::RUNS + run, 0);
                at[0] = own.scale(run, power);
                if (Type::OFFSET) at[1] = own.offset(run, power);
            }
        }
    }
    // A slab: part `part` of a block, of rows in the stage from `from` bytes on.
    RF_FN void multiply(const Type* held, int part, const char* stage, int from) {
#pragma unroll
        for (int run = 0; run < Type::RUNS; ++run) {
            u32 x[F_TILES][PAIRS];
            Unit::Sums base[F_TILES];
#pragma unroll
            for (int t = 0; t < F_TILES; ++t) {
                const int at = from + run * Type::RUN * 2;
                read_row(stage + halves[at / 64 % 2] + (t * Unit::ROWS * ROW_STEP + at / 128 * 128 + at % 64), x[t]);
                Unit::clear(base[t]);
                if (F_SIGNED) continue;
#pragma unroll
                for (int step = 0; step < STEPS; ++step) base[t] = Unit::sum_from(less, x[t] + step * TAKEN, base[t]);
            }
#pragma unroll
            for (int p = 0; p < PRODUCTS; ++p) add(held + p * Unit::COLUMNS, run, part, p, base, x);
        }
    }
    RF_FN void read_row(const char* row, u32* x) const {
        static const int WIDE_WORDS = PIECE < 8 ? PIECE / 2 : 4;
#pragma unroll
        for (int i = 0; i < LANE_RUN; i += PIECE) {
            const Vec<u32, WIDE_WORDS> some = load<WIDE_WORDS>((const u32*)(row + (i / PIECE * 32 + group * (PIECE * 2))));
#pragma unroll
            for (int n = 0; n < WIDE_WORDS; ++n) x[i / 2 + n] = some[n];
        }
#pragma unroll
        for (int i = LANE_RUN / 2; i < PAIRS; ++i) x[i] = 0;
    }
    RF_FN void add(const Type* held, int run, int part, int p, const Unit::Sums* base, const u32 (*x)[PAIRS]) {
        u32 w[STEPS][Unit::COLUMNS * TAKEN];
        float scale[Unit::COLUMNS], offset[Unit::COLUMNS];
        operands_of(held, run, bits, w);
        if (FACTORS) {
            static const int SOME = Unit::COLUMNS * EACH;
            const Vec<float, SOME> some = load<SOME>(factors + factor(part * Type::RUNS + run, p * Unit::COLUMNS) + place * SOME);
#pragma unroll
            for (int c = 0; c < Unit::COLUMNS; ++c) {
                scale[c] = some[c * EACH];
                offset[c] = some[c * EACH + EACH - 1];
            }
        } else {
#pragma unroll
            for (int c = 0; c < Unit::COLUMNS; ++c) {
                scale[c] = held[c].scale(run, power);
                offset[c] = held[c].offset(run, power);
            }
        }
#pragma unroll
        for (int t = 0; t < F_TILES; ++t) {
            Unit::Sums sum = base[t];
#pragma unroll
            for (int step = 0; step < STEPS; ++step) sum = Unit::sum_from(w[step], x[t] + step * TAKEN, sum);
#pragma unroll
            for (int i = 0; i < Unit::VALUES; ++i) {
                float total = sums.sum[t][p][i];
                if (Type::OFFSET) total = rf::fma(offset[Unit::column(i)], base[t][i], total);
                sums.sum[t][p][i] = rf::fma(scale[Unit::column(i)], sum[i], total);
            }
        }
    }
    // A stage, of which there are `blocks`, or more.
    RF_FN void run(const char* stage, u32 blocks, u32 lane_id) {
        if (FACTORS) {
            const u32 before = F_ALIGNED ? 0 : own_low & 15u;
            wave_barrier();
            make_factors({(const u8*)stage + own * COLUMN_STEP + before, before}, lane_id);
            wave_barrier();
        }
#pragma unroll
        for (int n = 0; n < BLOCKS * Type::PARTS; ++n) {
            const int block = n / Type::PARTS, part = n % Type::PARTS;
            if (!F_WHOLE && block > 0 && part == 0 && block >= (int)blocks) break;
            Type held[CODES];
#pragma unroll
            for (int i = 0; i < CODES; ++i) {
                const u32 before = F_ALIGNED ? 0 : low[i] & 15u;
                const Bytes column = {(const u8*)stage + (first + i * Unit::LANES) * COLUMN_STEP + before, before};
                held[i].fetch(column + block * Block::BYTES, part, group);
                if (!FACTORS) held[i].start();
            }
            multiply(held, part, stage, n * (SLAB * 2));
        }
        own_low += COLUMN_BYTES;
#pragma unroll
        for (int i = 0; i < CODES; ++i) low[i] += COLUMN_BYTES;
    }
};

// The tile of one group, as `go_to_tile` has it, as soon as its bounds are there.
RF_FN bool go_to_only_tile(QMatmulArgs& g, RowsOfA& rows, u32& first_row) {
#if Q_GROUPED == 2
    return go_to_tile<ROWS>(g, rows, first_row);
#else
    u32 first;
    first_row = group_y() * ROWS;
    g.m = rows_of_group<Q_GROUPED>(g, 0, g.m, first);
    if (first_row >= g.m) return false;
    g.first_row = first;
#if Q_GROUPED == 3
    rows.choices = g.choices + first;
    rows.each = g.each;
    rows.last = g.a_rows - 1;
#else
    g.a += (i64)first * g.a_row;
#endif
#if !Q_EPILOGUE
    g.c = (Out*)g.c + (i64)first * g.c_row;
#endif
    return true;
#endif
}

extern "C" __global__ RF_WAITS_ITSELF __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE, F_RESIDENT) void gguf_staged(QMatmulArgs g) {
    extern __shared__ __attribute__((aligned(128))) char lds[];
    __shared__ u32 constants[4];
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), lane_id = thread_x() % ARCH_WAVE_SIZE;
    const Place at(wave);
    const u32 all = g.k / Block::SIZE, first = all * at.part / PARTS, end = all * (at.part + 1) / PARTS;
    const bool is_single = g.groups == 1;
    if (thread_x() == 0) {
        constants[0] = POWER;
        constants[1] = BASE_PAIR;
        constants[2] = PairBits().power;
        constants[3] = PairBits().eighth;
    }
    RowsOfA rows;
    u32 first_row;
    Copies copies;
    copies.start(g, first, end, lds_address(lds) + at.part * PART_BYTES);
    if (is_single) copies.fetch_first_words(g);
    // Which rows there are, of which group, and they themselves, is what the launch ahead may say.
    wait_for_launches();
    const u8* words = g.words;
    if (is_single ? !go_to_only_tile(g, rows, first_row) : !go_to_tile<ROWS>(g, rows, first_row)) {
        async_commit();
        async_wait<0>();
        return;
    }
    if (!is_single) {
        copies.blocks += g.words - words;
        copies.fetch_first_words(g);
    }
    const u32 m = g.m - first_row < STAGED_ROWS ? g.m - first_row : STAGED_ROWS;
#pragma unroll
    for (int i = 0; i < F_STAGES - 1; ++i) {
        copies.fetch_rows(g, rows, first_row, m, i * STAGE_BYTES);
        async_commit();
    }
    barrier();
    let_launches_begin();
    Part part;
    part.start(g, constants, (float*)(void*)(lds + F_STAGES * STAGE_BYTES + wave * FACTOR_BYTES), at.side, first, lane_id);
    u32 read = 0, write = (F_STAGES - 1) * STAGE_BYTES;
#pragma unroll 1
    for (u32 block = first; block < end; block += BLOCKS) {
        async_wait<F_STAGES - 2>();
        part_barrier(at.part);
        copies.fetch_words(g, write);
        copies.fetch_rows(g, rows, first_row, m, write);
        async_commit();
        write = write == (F_STAGES - 1) * STAGE_BYTES ? 0 : write + STAGE_BYTES;
        part.run(lds + read + at.part * PART_BYTES, end - block, lane_id);
        read = read == (F_STAGES - 1) * STAGE_BYTES ? 0 : read + STAGE_BYTES;
    }
    async_wait<0>();
    barrier();
    add_waves(g, part.sums, wave, (float (*)[KEPT * LINE])(void*)lds, first_row, group_x() * STRIP, lane_id);
}
