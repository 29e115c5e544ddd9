// few_hopper: C = A W for few rows of A by Hopper's own products of four waves: codes are decoded to operands in registers, A's rows are read
// by the unit where they lie in LDS
//
// Shapes : as coded.h says, words of 32 bits along N
// Grid   : few_hopper (ceil(N / STRIP), ceil(M / H_ROWS), H_PARTS)         H_PARTS workgroups beside each other, on as many multiprocessors,
//                                                                          cut K of a strip of columns; the grid's third axis is theirs
// Block  : (4 * H_GROUPS * ARCH_WAVE_SIZE, 1, 1)                           each four waves have 64 columns and all rows
// LDS    : H_STAGES * STAGE_BYTES, then SUMS_BYTES, dynamic
// Needs  : words that the launch ahead does not write; A and C of 16 bits, K % 64 == 0, rows of A contiguous and aligned to 16 bytes, words of a row neighbours, rows of them whole, aligned
//          vectors of four words, scales' blocks along K multiples of 64; H_BESIDE: scales of neighbouring columns side by side, in aligned
//          vectors of two; C apart from all inputs        checked by the launcher
// Numeric: codes enter exactly. The sum over a block of scales, or what a workgroup has of it, is multiplied by the scale in f32 and added in
//          ascending order of K; workgroups are added in ascending order. Within 16 k the order is that of the unit. Q_LATE: scales multiply the
//          last sum.
//
// Macros : those of coded.h; H_ROWS of A in a tile, 8 to 64; H_GROUPS of four waves; H_PARTS; H_STAGES, H_PIECES of 64 k in each;
//          H_RESIDENT workgroups of a multiprocessor; H_BESIDE; H_SCALE a number of quant.h
static const int PIECE = 64, THREADS = 4 * H_GROUPS * ARCH_WAVE_SIZE;
// Groups of waves with a part of each half word's codes, and those side by side; a wave has two codes of a half, lanes side by side 8 halves,
// which are 16 bytes of a row of words.
static const int SHARE = Q_PER / 4, SIDE = H_GROUPS / SHARE, HALF_CODES = Q_PER / 2, CHUNK_CODES = 8 * HALF_CODES;
static const int STRIP = SIDE * 4 * CHUNK_CODES, WORD_CHUNKS = SIDE * 4, WORD_BYTES = 16 * WORD_CHUNKS;
static const int ROWS_BYTES = H_ROWS * 128, PIECE_BYTES = ROWS_BYTES + PIECE * WORD_BYTES, STAGE_BYTES = H_PIECES * PIECE_BYTES;
static_assert(H_GROUPS % SHARE == 0 && STRIP == 64 * H_GROUPS && WORD_BYTES >= 64, "each code has its wave");
typedef MmaGroup<In, H_ROWS> Unit;
// Eights of rows, of which a workgroup writes every H_PARTS-th one; what others have of them comes to its LDS.
static const int EIGHTS = H_ROWS / 8, OWN_EIGHTS = (EIGHTS + H_PARTS - 1) / H_PARTS, SUMS_BYTES = (H_PARTS - 1) * OWN_EIGHTS * THREADS * 16;

// --- what goes to LDS ---

// Chunk `chunk` of words' row `k` in a piece: those of eight rows, one below another, meet no bank twice.
RF_FN u32 word_place(u32 k, u32 chunk) {
    const u32 turn = WORD_BYTES == 64 ? k / 2 % 4 : k % 8;
    return ROWS_BYTES + k * WORD_BYTES + (chunk ^ turn) * 16;
}
struct Stages {
    static const int ROW_UNITS = H_ROWS * 8, WORD_UNITS = PIECE * WORD_CHUNKS;
    static const int ROW_COUNT = (ROW_UNITS + THREADS - 1) / THREADS, WORD_COUNT = (WORD_UNITS + THREADS - 1) / THREADS;
    static const int WORD_APART = THREADS / WORD_CHUNKS, ROW_APART = THREADS / 8;
    // Pieces that are under way before the first products.
    static const int FILLED = (H_STAGES - 2) * H_PIECES;
    static_assert(THREADS % WORD_CHUNKS == 0 && WORD_APART % 8 == 0 && ROW_APART % 8 == 0, "chunks are exchanged in the same way");
    const char* rows;
    const char* words;
    i64 row_skip, word_skip, word_step;
    // Where a thread's are in the stage that is filled next; how many rows there are from its own on; pieces to come.
    u32 row_to, word_to, row_left;
    int left;
    bool in_strip;
    u32 write, read;
    LdsAddress lds;

    RF_FN void start(const QMatmulArgs& g, char* memory, u32 first_row, u32 first_col, u32 first, u32 count) {
        const u32 thread = thread_x();
        const u32 row = thread / 8, chunk = thread % 8, k = thread / WORD_CHUNKS, quad = thread % WORD_CHUNKS;
        lds = lds_address(memory);
        rows = (const char*)(g.a + (i64)(first_row + row) * g.a_row + first * PIECE + chunk * 8);
        row_skip = ROW_APART * (i64)sizeof(In) * g.a_row;
        row_left = first_row + row < g.m && row < H_ROWS ? g.m - first_row - row : 0;
        words = (const char*)(g.words + (i64)(first * PIECE + k) * g.w_k + first_col / Q_PER + quad * 4);
        word_skip = WORD_APART * 4 * g.w_k;
        word_step = PIECE * 4 * g.w_k;
        in_strip = first_col + quad * 4 * Q_PER < g.n;
        row_to = lds + group_place(row, chunk);
        word_to = lds + word_place(k, quad);
        // Kept, and not made anew for each stage.
        make_anew(row_to);
        make_anew(word_to);
        left = (int)count;
        write = 0;
        read = 0;
    }
    // Asks L2 for all scales.
    RF_FN void ask(const QMatmulArgs& g, u32 first_col, u32 first, u32 count) const {
#if !Q_LATE && H_BESIDE
        // 32 bytes of a strip's scales each.
        static const u32 SCALE_BYTES = H_SCALE == RF_SCALE_F32 ? 4 : H_SCALE <= RF_SCALE_BF16 ? 2 : 1, EACH = STRIP * SCALE_BYTES / 32;
        const u32 begin = g.block_k.divide(first * PIECE), end = g.block_k.divide((first + count) * PIECE - 1) + 1;
        for (u32 n = thread_x(); n < (end - begin) * EACH; n += THREADS) {
            const u32 col = first_col + n % EACH * (32 / SCALE_BYTES);
            if (col < g.n) ask_l2((const char*)g.scales + ((i64)(begin + n / EACH) * g.s_k + col) * SCALE_BYTES);
        }
#endif
    }
    RF_FN void copy_words(u32 stage, int piece, const char* from) const {
#pragma unroll
        for (int i = 0; i < WORD_COUNT; ++i)
            if (WORD_UNITS % THREADS == 0 || thread_x() + i * THREADS < WORD_UNITS)
                copy_once(word_to + stage + (piece * PIECE_BYTES + i * WORD_APART * WORD_BYTES), from + i * word_skip, in_strip);
    }
    RF_FN void copy_rows(u32 stage, int piece, const char* from) const {
#pragma unroll
        for (int i = 0; i < ROW_COUNT; ++i)
            if (ROW_UNITS % THREADS == 0 || thread_x() + i * THREADS < ROW_UNITS)
                copy_async(row_to + stage + (piece * PIECE_BYTES + i * ROW_APART * 128), from + i * row_skip, i * ROW_APART < (int)row_left);
    }
    // Words of the first stages, which may be read before the launch ahead has ended.
    RF_FN void fill_words() const {
#pragma unroll
        for (int piece = 0; piece < FILLED; ++piece)
            if (piece < left) copy_words(piece / H_PIECES * STAGE_BYTES, piece % H_PIECES, words + piece * word_step);
    }
    // Their rows of A.
    RF_FN void fill_rows() {
#pragma unroll
        for (int piece = 0; piece < FILLED; ++piece)
            if (piece < left) copy_rows(piece / H_PIECES * STAGE_BYTES, piece % H_PIECES, rows + piece * (PIECE * sizeof(In)));
        async_commit();
        words += FILLED * word_step;
        pass(FILLED);
        write = (H_STAGES - 2) * STAGE_BYTES;
    }
    // What comes behind asks memory for its own words once all of these are asked for.
    RF_FN void pass(int pieces) {
        rows += pieces * PIECE * (int)sizeof(In);
        if (left > 0 && left <= pieces) let_launches_begin();
        left -= pieces;
    }
    RF_FN void fetch() {
#pragma unroll
        for (int piece = 0; piece < H_PIECES; ++piece) {
            if (piece >= left) break;
            copy_words(write, piece, words);
            copy_rows(write, piece, rows + piece * (PIECE * sizeof(In)));
            words += word_step;
        }
        pass(H_PIECES);
        write = write == (H_STAGES - 1) * STAGE_BYTES ? 0 : write + STAGE_BYTES;
        async_commit();
    }
    // The next stage is there for all. That two before it nobody reads, and it is filled again.
    RF_FN LdsAddress open() {
        async_wait<H_STAGES - 3>();
        group_show();
        barrier();
        fetch();
        const LdsAddress at = lds + read;
        read = read == (H_STAGES - 1) * STAGE_BYTES ? 0 : read + STAGE_BYTES;
        return at;
    }
};

// --- scales ---

#if !Q_LATE
// The scales of a lane's two neighbouring columns in a block of K, read when the block begins, as words: nothing waits for them before its end.
struct Scales {
    typedef ScaleOf<H_SCALE> Scale;
    typedef Scale::Bits Bits;
    static const int WORDS = sizeof(Bits) == 4 ? 2 : 1;
    Vec<u32, WORDS> held;
    u32 block;

    RF_FN void start(const QMatmulArgs& g, u32 of, u32 col) {
        block = of;
#if H_BESIDE
        const Bits* from = (const Bits*)g.scales + ((i64)block * g.s_k + col);
        if (sizeof(Bits) > 1) held = load<WORDS>((const u32*)(const void*)from);
        else held[0] = *(const u16*)(const void*)from;
#endif
    }
    RF_FN float of(const QMatmulArgs& g, u32 col, int i) const {
#if H_BESIDE
        const u32 bits = sizeof(Bits) == 4 ? held[i % WORDS] : held[0] >> i * (8 * (int)sizeof(Bits) % 32);
        return Scale::value((Bits)bits);
#else
        return read_scale(g.scales, (i64)block * g.s_k + g.block_n.divide(col + i) * g.s_n, H_SCALE);
#endif
    }
};
#endif

// --- a wave's columns ---

struct Sums {
    float sum[Unit::ACC];
#if !Q_LATE
    float total[Unit::ACC];
    Scales scales;
    // Pieces to the end of the block of scales.
    u32 pieces;
#endif
    bool more;

    RF_FN void start(const QMatmulArgs& g, u32 first, u32 col) {
        more = false;
#pragma unroll
        for (int i = 0; i < Unit::ACC; ++i) sum[i] = 0.0f;
#if !Q_LATE
#pragma unroll
        for (int i = 0; i < Unit::ACC; ++i) total[i] = 0.0f;
        const u32 block = g.block_k.divide(first * PIECE), each = g.block_k.divisor / PIECE;
        pieces = (block + 1) * each - first;
        scales.start(g, block, col);
#endif
    }
    // Products of 32 k.
    RF_FN void add(const u32 (*operands)[4], u64 tile) {
        group_begin();
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            Unit::run(sum, operands[step], tile + step * GROUP_STEP, more);
            more = true;
        }
        group_commit();
    }
    // Behind a piece: at the end of a block of scales what has been summed is scaled.
    RF_FN void fold(const QMatmulArgs& g, bool is_last, u32 col) {
#if !Q_LATE
        if (--pieces > 0 && !is_last) return;
        const float scale[2] = {scales.of(g, col, 0), scales.of(g, col, 1)};
        if (!is_last) scales.start(g, scales.block + 1, col);
        pieces = g.block_k.divisor / PIECE;
        group_wait<0>();
#pragma unroll
        for (int i = 0; i < Unit::ACC; ++i) total[i] = rf::fma(scale[i / 2 % 2], sum[i], total[i]);
        more = false;
#endif
    }
    RF_FN float value(int i) const {
#if Q_LATE
        return sum[i];
#else
        return total[i];
#endif
    }
};
// Codes `first` and the next one of halves as operands: of 8 k each.
template <int FIRST> RF_FN void decode(const Chunk& halves, u32 (*operands)[4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) operands[i / 4][i % 4] = halves_of(halves.word[i / 2], FIRST + i % 2);
}

// A wave's place: its lanes' half words in a row, and the first of their columns in the strip.
struct Place {
    u32 chunk, column;
    RF_FN Place(u32 wave, u32 lane_id) {
        const u32 group = wave / 4;
        chunk = group / SHARE * 4 + wave % 4;
        column = chunk * CHUNK_CODES + lane_id / 4 * HALF_CODES + group % SHARE * 2;
    }
};

// All pieces, of waves that have codes FIRST and the next one of half words.
template <int FIRST>
RF_FN void run(const QMatmulArgs& g, Stages& stages, Sums& sums, u32 words_at, u32 count, u32 col) {
    u32 operands[2][2][4];
#pragma unroll 1
    while (true) {
        const LdsAddress stage = stages.open();
        const u64 tile = group_tile(stage);
#pragma unroll
        for (int piece = 0; piece < H_PIECES; ++piece) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const Chunk halves = read_chunk_across(stage + words_at + (piece * PIECE_BYTES + half * 32 * WORD_BYTES));
                // Those of the half before the last one are done with these registers.
                group_wait<1>();
                decode<FIRST>(halves, operands[half]);
                sums.add(operands[half], tile + (piece * (PIECE_BYTES >> 4) + half * 2 * GROUP_STEP));
            }
            sums.fold(g, count == 1, col);
            if (--count == 0) return;
        }
    }
}

// --- the sums of workgroups that cut K ---

// Where four floats of a lane lie that a workgroup was given by number `part` for its own eight rows number `n`.
RF_FN u32 given_at(u32 part, u32 rank, int n) { return ((part < rank ? part : part - 1) * OWN_EIGHTS + n / H_PARTS) * THREADS + thread_x(); }
// What others have of a workgroup's rows comes to it.
RF_FN void exchange(const Sums& sums, Vec<float, 4>* given) {
    const u32 rank = group_z();
    cluster_wait();
#pragma unroll
    for (int n = 0; n < EIGHTS; ++n) {
        const u32 to = n % H_PARTS;
        const float four[4] = {sums.value(4 * n), sums.value(4 * n + 1), sums.value(4 * n + 2), sums.value(4 * n + 3)};
        if (to != rank) cluster_store(lds_address(given + given_at(rank, to, n)), to, four);
    }
    cluster_come();
    cluster_wait();
}
// Adds them in ascending order of K, and stores C from `first_row` on; `col`: the lane's first column.
RF_FN void write(const QMatmulArgs& g, const Sums& sums, const Vec<float, 4>* given, u32 first_row, u32 col, u32 lane_id) {
    const u32 rank = group_z();
    const float grown = WAY == BY_TWO ? GROWN : 1.0f, global = global_of(g), by = Q_LATE ? grown : global * grown;
#pragma unroll
    for (int n = 0; n < EIGHTS; ++n) {
        if (H_PARTS > 1 && n % H_PARTS != rank) continue;
        float out[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (u32 part = 0; part < H_PARTS; ++part) {
            Vec<float, 4> four;
            if (part == rank) {
#pragma unroll
                for (int i = 0; i < 4; ++i) four[i] = sums.value(4 * n + i);
            } else {
                four = given[given_at(part, rank, n)];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) out[i] += four[i];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 row = first_row + n * 8 + lane_id % 4 * 2 + i % 2;
            if (row < g.m) finish(g, 0, row, col + i / 2, out[i] * by, global);
        }
    }
}

extern "C" __global__ RF_WAITS_ITSELF __cluster_dims__(1, 1, H_PARTS)
__launch_bounds__(4 * H_GROUPS * ARCH_WAVE_SIZE, H_RESIDENT) void few_hopper(QMatmulArgs g) {
    extern __shared__ __attribute__((aligned(1024))) char lds[];
    // Read off a lane: so the compiler knows that what follows from it is one number for a wave, and keeps names of tiles where products want them.
    const u32 wave = shuffle(thread_x() / ARCH_WAVE_SIZE, 0u), lane_id = thread_x() % ARCH_WAVE_SIZE, rank = group_z();
    const u32 first_col = group_x() * STRIP, first_row = group_y() * H_ROWS, pieces = g.k / PIECE;
    const u32 first = pieces * rank / H_PARTS, count = pieces * (rank + 1) / H_PARTS - first;
    const Place place(wave, lane_id);
    // Past the end the first columns' scales are read and forgotten.
    const bool is_inside = first_col + place.column < g.n;
    const u32 col = is_inside ? first_col + place.column : 0;
    // ldmatrix gives a lane two neighbouring k of a half word each: lane l names the row of number l of 32 k.
    const u32 words_at = word_place(lane_id, place.chunk);
    Stages stages;
    stages.start(g, lds, first_row, first_col, first, count);
    stages.ask(g, first_col, first, count);
    stages.fill_words();
    if (H_PARTS > 1) cluster_begin();
    wait_for_launches();
    stages.fill_rows();
    Sums sums;
    sums.start(g, first, col);
    // Rows come behind all words that are under way.
    async_wait<0>();
    if (SHARE == 1 || wave / 4 % SHARE == 0) run<0>(g, stages, sums, words_at, count, col);
    else if (SHARE == 2 || wave / 4 % SHARE == 1) run<2>(g, stages, sums, words_at, count, col);
    else if (wave / 4 % SHARE == 2) run<4>(g, stages, sums, words_at, count, col);
    else run<6>(g, stages, sums, words_at, count, col);
    group_wait<0>();
    Vec<float, 4>* given = (Vec<float, 4>*)(lds + H_STAGES * STAGE_BYTES);
    if (H_PARTS > 1) exchange(sums, given);
    if (is_inside) write(g, sums, given, first_row, col, lane_id);
}
