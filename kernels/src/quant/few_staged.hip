// few_staged: C = A W for more rows of A than few.hip has registers for side by side: words and A's rows go through LDS, once for all waves
// of a workgroup
//
// Shapes : as coded.h says, words of 32 bits along N
// Grid   : few_staged (ceil(N / STRIP), ceil(M / ROWS), slices)            one workgroup per strip of columns, rows and slice of K
// Block  : (F_WAVES * ARCH_WAVE_SIZE, 1, 1)                                F_SHARE share words, F_SIDE side by side along N, F_HIGH one below
//                                                                          another along M, the others along K
// LDS    : F_LDS bytes, dynamic: F_STAGES stages, then TURN * KEPT * LINE floats in their place
// Needs  : what few.hip does; words of a row are aligned vectors of 4; F_WIDE is 1; F_STAGES is 2 where copies go through registers
// Numeric: codes and scales enter as in few.hip. A wave takes K's multiples of 32 in its part, waves are added in ascending order; within 32
//          k the order is that of the unit, of which a lane group's operands are pairs of neighbouring k on NVIDIA's, else neighbouring k.
//
// Macros : those of few_sums.h; F_STAGES, F_PIECES of 32 k in each, a multiple of F_FOLD; F_LDS
static_assert(F_WIDE == 1 && F_PIECES % F_FOLD == 0 && (F_STAGES == 2 || !RF_DEVICE_AMD), "checked by the launcher");

// --- where what is in a stage ---

// For each part of K F_PIECES pieces of 32 k, each A's rows of 64 bytes, then the words side by side of each run of columns.
static const int PIECE = 32, CHUNKS = 4, QUADS = STRIP / Q_PER / 4;
// Where sides begin differs by their share of the banks, so that neighbours are stored in banks of their own.
static const int SIDE_BYTES = PIECE * Unit::LANES * 4 + (F_SIDE > 1 ? 128 / F_SIDE : 0), ROWS_BYTES = ROWS * 64;
static const int PIECE_BYTES = (ROWS_BYTES + F_SIDE * SIDE_BYTES + 127) / 128 * 128, PART_BYTES = F_PIECES * PIECE_BYTES;
static const int STAGE_BYTES = PARTS * PART_BYTES;
static const int PART_THREADS = THREADS / PARTS;
static_assert(F_STAGES * STAGE_BYTES <= F_LDS && PARTS < 16 && TURN * KEPT * LINE * 4 <= F_LDS && F_SIDE <= 8, "as few.rs says");

// Two rows of A share 128 bytes, the first to the left in even pieces. Chunks of 16 bytes are exchanged so that neither those of eight rows
// nor those of a row in neighbouring pieces meet a bank twice.
RF_FN u32 place_of(u32 row, u32 chunk) { return row * 64 + (chunk ^ (row >> 1 & 3)) * 16; }
static const u32 ODD_PIECE = 64, NEXT_CHUNK = 16;

// A row of words in a piece is the lane groups' that a lane reads as its number `i` side by side.
#if RF_DEVICE_AMD
RF_FN u32 k_of(u32 line) { return line / SLAB * SLAB + line % Unit::GROUPS * RUN + line % SLAB / Unit::GROUPS; }
// The row and the first chunk of a lane, which has neighbouring k.
RF_FN u32 row_of(u32 lane) { return Unit::given(lane); }
RF_FN u32 chunk_of(u32 lane) { return Unit::group(lane) * (RUN / 8); }
static const int READS = RUN / 8;
#else
// ldmatrix gives a lane two neighbouring k of each 8.
RF_FN u32 k_of(u32 line) { return line / (2 * Unit::GROUPS) * 8 + line % Unit::GROUPS * 2 + line / Unit::GROUPS % 2; }
RF_FN u32 row_of(u32 lane) { return lane % 8; }
RF_FN u32 chunk_of(u32 lane) { return lane / 8; }
static const int READS = 1;
static_assert(SLAB == PIECE && RUN == 8, "a read is of 32 k");
#endif

// --- how it gets there ---

// Of A's rows, or of words, a part's 16 bytes number `unit` in a stage.
struct RowUnits {
    static const int EACH = ROWS * CHUNKS * F_PIECES;
    u32 row, piece, chunk;
    RF_FN RowUnits(u32 unit) : row(unit / (CHUNKS * F_PIECES)), piece(unit / CHUNKS % F_PIECES), chunk(unit % CHUNKS) {}
    RF_FN u32 place() const { return piece * PIECE_BYTES + (place_of(row, chunk) ^ piece % 2 * ODD_PIECE); }
    // From a thread's first unit to another: rows, bytes in the stage and in memory, pieces.
    static const int APART = PART_THREADS / (CHUNKS * F_PIECES);
    static_assert(APART % 8 == 0 || EACH <= PART_THREADS, "chunks are exchanged in the same way");
    RF_FN static constexpr u32 apart(int i) { return i * APART * 64; }
    RF_FN static i64 skip(const QMatmulArgs& g, int i) { return i * APART * (i64)sizeof(In) * g.a_row; }
    RF_FN static constexpr int pieces(int) { return 0; }
    RF_FN bool there(const QMatmulArgs& g, u32 first_row, u32) const { return first_row + row < g.m; }
#if !RF_DEVICE_AMD
    RF_FN static void copy(u32 to, const char* from, bool there) { copy_async(to, from, there); }
#endif
    RF_FN static i64 step(const QMatmulArgs&) { return F_PIECES * PIECE * (i64)sizeof(In); }
    RF_FN const char* from(const QMatmulArgs& g, u32 first_row, u32, u32 first_k) const {
        return (const char*)(g.a + (i64)(first_row + row) * g.a_row + first_k + chunk * 8);
    }
};
struct WordUnits {
    static const int EACH = PIECE * QUADS * F_PIECES;
    u32 line, piece, quad;
    RF_FN WordUnits(u32 unit) : line(unit / QUADS % PIECE), piece(unit / (QUADS * PIECE)), quad(unit % QUADS) {}
    RF_FN u32 place() const {
        const u32 side = quad / (Unit::LANES / 4), within = quad % (Unit::LANES / 4);
        return piece * PIECE_BYTES + ROWS_BYTES + side * SIDE_BYTES + line * (Unit::LANES * 4) + within * 16;
    }
    static const int APART = PART_THREADS / QUADS;
    static_assert(PIECE % APART == 0 || APART % PIECE == 0, "pieces are entered at the same line");
    RF_FN static constexpr u32 apart(int i) {
        return i * APART / PIECE * PIECE_BYTES + i * APART % PIECE * (Unit::LANES * 4);
    }
    RF_FN static i64 skip(const QMatmulArgs& g, int i) { return (i64)(pieces(i) * PIECE + k_of(i * APART % PIECE)) * 4 * g.w_k; }
    RF_FN static constexpr int pieces(int i) { return i * APART / PIECE; }
    RF_FN bool there(const QMatmulArgs& g, u32, u32 first_col) const { return first_col + quad * 4 * Q_PER < g.n; }
#if !RF_DEVICE_AMD
    RF_FN static void copy(u32 to, const char* from, bool there) { copy_once(to, from, there); }
#endif
    RF_FN static i64 step(const QMatmulArgs& g) { return F_PIECES * PIECE * 4 * g.w_k; }
    RF_FN const char* from(const QMatmulArgs& g, u32, u32 first_col, u32 first_k) const {
        return (const char*)(g.words + (i64)(first_k + k_of(line)) * g.w_k + (first_col / Q_PER + quad * 4));
    }
};

// The first piece of a part, of a slice that begins at `first`.
RF_FN u32 piece_of(u32 first, u32 pieces, u32 part) { return first + pieces / F_FOLD * part / PARTS * F_FOLD; }

// Copies the units of a part's stage: each of its threads the same of every stage. What is past K, rows or columns is zeros; past a part,
// what comes.
template <class Units> struct Copier {
    static const int COUNT = (Units::EACH + PART_THREADS - 1) / PART_THREADS;
    // Where the first unit is in memory and in a stage, and pieces from its first one on.
    const char* from;
    u32 place;
    int left;
    // Which units are of rows and columns that there are.
    u32 there;

    RF_FN static u32 unit(int i) { return thread_x() % PART_THREADS + i * PART_THREADS; }
    RF_FN static bool mine(int i) { return Units::EACH % PART_THREADS == 0 || unit(i) < Units::EACH; }

    RF_FN void start(const QMatmulArgs& g, u32 first_row, u32 first_col, u32 first_piece) {
        const Units first(unit(0));
        from = first.from(g, first_row, first_col, (first_piece + first.piece) * PIECE);
        place = first.place();
        left = (int)(g.k / PIECE) - (int)(first_piece + first.piece);
        there = 0;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) there |= (u32)Units(unit(i)).there(g, first_row, first_col) << i;
    }
    RF_FN bool is_there(int i, int stage) const { return (there >> i & 1) && left > stage * F_PIECES + Units::pieces(i); }
    RF_FN const char* at(const QMatmulArgs& g, int i, int stage) const { return from + (stage * Units::step(g) + Units::skip(g, i)); }
#if RF_DEVICE_AMD
    Vec<u32, 4> held[COUNT];

    RF_FN void fetch(const QMatmulArgs& g, int stage) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (mine(i) && is_there(i, stage)) held[i] = load<4>((const u32*)at(g, i, stage));
            else __builtin_memset(&held[i], 0, sizeof(held[i]));
        }
    }
    RF_FN void put(char* to) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (mine(i)) store<4>((u32*)(to + place + Units::apart(i)), held[i]);
    }
#else
    // Asks L2 for what comes with the first stages.
    RF_FN void ask(const QMatmulArgs& g) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int stage = 0; stage < F_STAGES - 1; ++stage)
                if (mine(i) && unit(i) % 2 == 0 && is_there(i, stage)) ask_l2(at(g, i, stage));
    }
    RF_FN void copy(const QMatmulArgs& g, int stage, LdsAddress to) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (mine(i)) Units::copy(to + place + Units::apart(i), at(g, i, stage), is_there(i, stage));
    }
#endif
};

// Those of a part meet.
RF_FN void part_barrier(int part) {
#if RF_DEVICE_AMD
    barrier();
#else
    asm volatile("bar.sync %0, %1;" : : "r"(part + 1), "n"(PART_THREADS) : "memory");
#endif
}

// A part's stages that come in turn: while one is read, the next are on their way.
struct Stages {
    Copier<RowUnits> rows;
    Copier<WordUnits> words;
    char* lds;
    // How many there are, and have been asked for; bytes to the one that is read.
    int all, asked, part;
    u32 read;

#if RF_DEVICE_AMD
    RF_FN void fetch(const QMatmulArgs& g) {
        if (asked >= all) return;
        rows.fetch(g, asked);
        words.fetch(g, asked);
    }
    RF_FN void put(u32 at) {
        if (asked++ >= all) return;
        rows.put(lds + at);
        words.put(lds + at);
    }
    RF_FN void begin(const QMatmulArgs& g) {
        fetch(g);
        put(0);
        read = STAGE_BYTES;
    }
    // The next one is there for all threads of the part. Nobody reads the one before it.
    RF_FN void open(const QMatmulArgs& g) {
        part_barrier(part);
        read = STAGE_BYTES - read;
        fetch(g);
    }
    RF_FN void close() { put(STAGE_BYTES - read); }
#else
    LdsAddress address;
    u32 write;

    RF_FN void fetch(const QMatmulArgs& g) {
        if (asked < all) {
            rows.copy(g, asked, address + write);
            words.copy(g, asked, address + write);
        }
        ++asked;
        async_commit();
        write = write == (F_STAGES - 1) * STAGE_BYTES ? 0 : write + STAGE_BYTES;
    }
    RF_FN void begin(const QMatmulArgs& g) {
        address = lds_address(lds);
        write = 0;
        read = (F_STAGES - 1) * STAGE_BYTES;
#pragma unroll
        for (int i = 1; i < F_STAGES; ++i) fetch(g);
    }
    RF_FN void open(const QMatmulArgs& g) {
        async_wait<F_STAGES - 2>();
        part_barrier(part);
        read = read == (F_STAGES - 1) * STAGE_BYTES ? 0 : read + STAGE_BYTES;
        fetch(g);
    }
    RF_FN void close() {}
#endif
};

// --- a wave's part ---

#if F_SHARE == 2
typedef u16 OwnBits;
#else
typedef u32 OwnBits;
#endif
struct Part {
    WaveSums sums;
    u32 col, piece, end;
    // Where a lane's words and rows are in a piece.
    u32 words_at, rows_at;

    RF_FN void start(u32 n, Place at, u32 first, u32 pieces, u32 lane_id) {
        piece = piece_of(first, pieces, at.part);
        end = piece_of(first, pieces, at.part + 1);
        col = group_x() * STRIP + at.side * COLUMNS + Unit::place(lane_id) * LANE_CODES + at.share * CODES;
        // Past the end the first columns' scales are read and forgotten.
        col = col < n ? col : 0;
        words_at = ROWS_BYTES + at.side * SIDE_BYTES + (Unit::group(lane_id) * Unit::LANES + Unit::place(lane_id)) * 4 +
                   at.share * (u32)sizeof(OwnBits);
        rows_at = place_of(at.high * WAVE_ROWS + row_of(lane_id), chunk_of(lane_id));
        sums.clear();
    }
    // Piece `number` of a stage, slab by slab.
    RF_FN void multiply(const char* part, int number) {
        const char* lds = part + number * PIECE_BYTES;
        const LdsAddress lds_rows = lds_address(lds);
#pragma unroll
        for (int slab = 0; slab < PIECE / SLAB; ++slab) {
            Vec<u32, 1> words[RUN];
            Vec<u32, 4> rows[F_TILES][READS];
#pragma unroll
            for (int i = 0; i < F_TILES * READS; ++i) {
                const u32 moved = number % 2 * ODD_PIECE + (slab * (SLAB / 8) + i % READS) * NEXT_CHUNK;
                const Chunk chunk = read_chunk(lds_rows + (rows_at ^ moved) + i / READS * (Unit::ROWS * 64));
                __builtin_memcpy(&rows[i / READS][i % READS], &chunk, sizeof(chunk));
            }
#pragma unroll
            for (int i = 0; i < RUN; ++i)
                words[i][0] = *(const OwnBits*)(lds + words_at + (slab * SLAB + i * Unit::GROUPS) * (Unit::LANES * 4));
#pragma unroll
            for (int step = 0; step < RUN / DEEP; ++step) {
                u32 x[F_TILES][TAKEN];
#pragma unroll
                for (int i = 0; i < F_TILES * (DEEP / 2); ++i) {
                    const int t = i / (DEEP / 2), p = i % (DEEP / 2), at = step * (DEEP / 2) + p;
                    x[t][p] = rows[t][at / 4][at % 4];
                }
                sums.add(words + step * DEEP, x);
            }
        }
        ++piece;
    }
    // The pieces of a stage.
    RF_FN void run(const QMatmulArgs& g, const char* part) {
#pragma unroll
        for (int i = 0; i < F_PIECES; ++i) {
            if (i % F_FOLD == 0 && piece >= end) break;
            multiply(part, i);
            if (i % F_FOLD == F_FOLD - 1) sums.fold(g, piece < end, piece * PIECE, col);
        }
    }
};

extern "C" __global__ RF_WAITS_ITSELF __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE) void few_staged(QMatmulArgs g) {
    extern __shared__ __attribute__((aligned(128))) char lds[];
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), lane_id = thread_x() % ARCH_WAVE_SIZE;
    const Place at(wave);
    const u32 first_col = group_x() * STRIP, first_row = group_y() * ROWS;
    const u32 first = group_z() * (g.slice_k / PIECE), last = first + g.slice_k / PIECE, most = g.k / PIECE;
    const u32 pieces = (last < most ? last : most) - first;
    Part part;
    part.start(g.n, at, first, pieces, lane_id);
    Stages stages;
    stages.lds = lds + at.part * PART_BYTES;
    stages.part = at.part;
    // No part has more pieces than the last one.
    stages.all = (int)(first + pieces - piece_of(first, pieces, PARTS - 1) + F_PIECES - 1) / F_PIECES;
    stages.asked = 0;
    stages.rows.start(g, first_row, first_col, part.piece);
    stages.words.start(g, first_row, first_col, part.piece);
#if !RF_DEVICE_AMD
    stages.words.ask(g);
#endif
    wait_for_launches();
    let_launches_begin();
    stages.begin(g);
    part.sums.begin(g, part.piece < part.end, part.piece * PIECE, part.col);
#pragma unroll 1
    for (int stage = 0; stage < stages.all; ++stage) {
        stages.open(g);
        part.run(g, stages.lds + stages.read);
        stages.close();
    }
    // The sums lie where the stages did.
    barrier();
    add_waves(g, part.sums, at, (float(*)[KEPT * LINE])lds, first_row, first_col, lane_id);
}
