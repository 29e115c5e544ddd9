// stage: tiles of A and B in LDS for the matrix units, and how they get there.
//
// A tile is ROWS rows (of A; columns of B) by GEMM_SLABS slabs of 64 bytes of K. A slab holds four chunks of 16 bytes of
// each row; two rows share a line of 128 bytes, which is all banks once. Chunk c of row r of slab s is at slot
//
//     4 (r0 ^ s0 ^ r4) + (c ^ (2 (r2 ^ r3) + (r1 ^ r5)))          r0 the lowest bit of r
//
// of line r / 2, so that eight lanes meet no bank twice, whether they take one chunk of eight rows in a row (loads of
// fragments, in both published orders of phases), the chunks of one or two rows (stores of what was loaded along K), or rows
// eight apart (stores of what was loaded across K and turned in registers).
//
// Where copies go past the registers (GEMM_ASYNC) and vectors lie across K, the tile keeps k as its rows, of ROWS elements
// each, whose 16-byte pieces are exchanged within runs of eight by k's lowest three bits; the fragment load turns it.
#define GEMM_BK (64 * GEMM_SLABS / (int)sizeof(In))

// Where a chunk of a row is, in bytes.
template <int ROWS> RF_FN u32 swizzled(u32 row, u32 chunk) {
    u32 slab = chunk / 4, c = chunk % 4;
    u32 slot = (((row ^ slab ^ (row >> 4)) & 1) << 2) | (c ^ (((row >> 2) ^ (row >> 3)) & 1) << 1 ^ (((row >> 1) ^ (row >> 5)) & 1));
    return slab * (ROWS * 64) + row / 2 * 128 + slot * 16;
}

// Moves a tile of ROWS x GEMM_BK from memory through registers to LDS. Rows past the end are read from the last one instead:
// what they give is never stored. Elements past the end of K become zero.
//
// Loads across K are of WIDTH rows at PACK neighbouring k, which a lane turns into words of PACK elements along K. Lanes are
// dealt so that those of one phase store to rows 8 apart, to the words of a chunk and to two chunks.
template <int ROWS, int MODE, class Rows = AllRows> struct Loader {
    static const bool ACROSS = MODE == 1;
    static const int WIDTH = GEMM_VEC;
    static const int PACK = ACROSS && sizeof(In) < 4 ? 4 / (int)sizeof(In) : 1;
    static const int UNITS = ROWS * GEMM_BK / (WIDTH * PACK);
    static const int LOADS = (UNITS + GEMM_THREADS - 1) / GEMM_THREADS;
    static const int PER_CHUNK = GEMM_FULL / PACK;
    // Rows between two lanes of a phase, how many such lanes there are, and what lies between in runs.
    static const int SPAN = WIDTH < 8 ? 8 : WIDTH, RUNS = SPAN / WIDTH;
    static const int APART = ROWS < 4 * SPAN ? ROWS / SPAN : 4;
    typedef Vec<In, WIDTH> V;

    const In* from[LOADS];
    V held[LOADS][PACK];
    i64 step, next;

    RF_FN static bool mine(int unit) { return UNITS % GEMM_THREADS == 0 || unit < UNITS; }
    RF_FN static int row_of(int u) {
        if (ACROSS) {
            const int lanes = APART * PER_CHUNK * 2;
            int within = u / lanes % RUNS, block = u / (lanes * RUNS) % (ROWS / (SPAN * APART));
            return block * SPAN * APART + u % APART * SPAN + within * WIDTH;
        }
        return u / (GEMM_BK / WIDTH);
    }
    RF_FN static int k_of(int u) {
        if (ACROSS) {
            int word = u / APART % PER_CHUNK, low = u / (APART * PER_CHUNK) % 2;
            int high = u / (APART * PER_CHUNK * 2 * RUNS * (ROWS / (SPAN * APART)));
            return (high * 2 + low) * GEMM_FULL + word * PACK;
        }
        return u % (GEMM_BK / WIDTH) * WIDTH;
    }

    RF_FN void start(const In* base, u32 first_row, u32 rows, u32 first_k, i64 row_stride, i64 k_stride, Rows of = Rows()) {
        step = k_stride * GEMM_BK;
        next = k_stride;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int unit = (int)thread_x() + i * GEMM_THREADS;
            u32 row = first_row + row_of(unit);
            u32 last = rows - (ACROSS ? WIDTH : 1);
            from[i] = base + (i64)of.at(row < last ? row : last) * row_stride + (i64)(first_k + k_of(unit)) * k_stride;
        }
    }
    // `left`: how many k from the start of this tile exist.
    template <bool WHOLE> RF_FN void fetch(u32 left) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int unit = (int)thread_x() + i * GEMM_THREADS;
#pragma unroll
            for (int p = 0; p < PACK; ++p) {
                if (mine(unit) && (WHOLE || (u32)(k_of(unit) + p) < left)) {
                    held[i][p] = load<WIDTH>(from[i] + p * next);
                } else {
                    __builtin_memset(&held[i][p], 0, sizeof(V));
                }
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
            int unit = (int)thread_x() + i * GEMM_THREADS;
            if (!mine(unit)) continue;
            u32 row = row_of(unit), k = k_of(unit), chunk = k / GEMM_FULL;
            if (ACROSS) {
                char* within = lds + k % GEMM_FULL * sizeof(In);
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) {
                    Vec<In, PACK> word;
#pragma unroll
                    for (int p = 0; p < PACK; ++p) word[p] = held[i][p][j];
                    store<PACK>((In*)(within + swizzled<ROWS>(row + j, chunk)), word);
                }
            } else {
                In* to = (In*)(lds + swizzled<ROWS>(row, chunk)) + k % GEMM_FULL;
                store<WIDTH>(to, held[i][0]);
            }
        }
    }
};

// The same for single elements. There are too many for the registers, so that they are loaded where they are stored, a few at
// a time: such operands wait for memory.
template <int ROWS, bool ALONG_K, class Rows> struct SingleLoader {
    static const int UNITS = ROWS * GEMM_BK, TURN = 8;
    static const int LOADS = (UNITS + GEMM_THREADS - 1) / GEMM_THREADS;

    const In* from;
    i64 line, depth;
    u32 first, last;
    Rows rows_of;

    RF_FN void start(const In* base, u32 first_row, u32 rows, u32 first_k, i64 row_stride, i64 k_stride, Rows of = Rows()) {
        from = base + (i64)first_k * k_stride;
        line = row_stride;
        depth = k_stride;
        first = first_row;
        last = rows - 1;
        rows_of = of;
    }
    template <bool WHOLE> RF_FN void fetch(u32) {}
    RF_FN void go_on() {}
    RF_FN void put(char* lds, u32 left) {
#pragma unroll 1
        for (int turn = 0; turn < LOADS; turn += TURN) {
            In held[TURN];
#pragma unroll
            for (int i = 0; i < TURN; ++i) {
                u32 unit = thread_x() + (turn + i) * GEMM_THREADS, row, k;
                split(unit, row, k);
                row = first + row < last ? first + row : last;
                __builtin_memset(&held[i], 0, sizeof(In));
                if (unit < UNITS && k < left) held[i] = from[(i64)rows_of.at(row) * line + (i64)k * depth];
            }
#pragma unroll
            for (int i = 0; i < TURN; ++i) {
                u32 unit = thread_x() + (turn + i) * GEMM_THREADS, row, k;
                split(unit, row, k);
                if (unit < UNITS) *((In*)(lds + swizzled<ROWS>(row, k / GEMM_FULL)) + k % GEMM_FULL) = held[i];
            }
        }
        from += depth * GEMM_BK;
    }
    RF_FN static void split(u32 unit, u32& row, u32& k) {
        row = ALONG_K ? unit / GEMM_BK : unit % ROWS;
        k = ALONG_K ? unit % GEMM_BK : unit / ROWS;
    }
};
template <int ROWS, class Rows> struct Loader<ROWS, 2, Rows> : SingleLoader<ROWS, true, Rows> {};
template <int ROWS, class Rows> struct Loader<ROWS, 3, Rows> : SingleLoader<ROWS, false, Rows> {};

#if GEMM_ASYNC
// The same past the registers, 16 bytes at a time. With EDGES K is whole rounds, of which none is copied past the
// end, and rows past the end are zeros: read from the last one they are slow where they are many, as all workgroups wait for the same
// few bytes.
template <int ROWS, int MODE, class Rows = AllRows, bool EDGES = false> struct Copier {
    static const bool ACROSS = MODE == 1;
    static const int PER_LINE = (ACROSS ? ROWS : GEMM_BK) / GEMM_FULL;
    static const int TOTAL = ROWS * GEMM_BK / GEMM_FULL;
    static const int LOADS = (TOTAL + GEMM_THREADS - 1) / GEMM_THREADS;

    const In* from[LOADS];
    i64 step;
    u32 there;

    RF_FN static bool mine(int unit) { return TOTAL % GEMM_THREADS == 0 || unit < TOTAL; }
    RF_FN static int row_of(int u) { return ACROSS ? u % PER_LINE * GEMM_FULL : u / PER_LINE; }
    RF_FN static int k_of(int u) { return ACROSS ? u / PER_LINE : u % PER_LINE * GEMM_FULL; }

    RF_FN void start(const In* base, u32 first_row, u32 rows, u32 first_k, i64 row_stride, i64 k_stride, Rows of = Rows()) {
        step = k_stride * GEMM_BK;
        there = 0;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int unit = (int)thread_x() + i * GEMM_THREADS;
            u32 row = first_row + row_of(unit);
            u32 last = rows - (ACROSS ? GEMM_FULL : 1);
            from[i] = base + (i64)of.at(row < last ? row : last) * row_stride + (i64)(first_k + k_of(unit)) * k_stride;
            there |= (u32)(row <= last) << i;
        }
    }
    RF_FN void copy(LdsAddress to, u32 left) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int unit = (int)thread_x() + i * GEMM_THREADS;
            if (mine(unit)) {
                u32 k = k_of(unit), row = row_of(unit);
                u32 place = ACROSS ? k * ROWS * (u32)sizeof(In) + ((row / GEMM_FULL) ^ (k % 8)) * 16
                                   : swizzled<ROWS>(row, k / GEMM_FULL);
                if (EDGES) {
                    copy_async_if(left > 0, to + place, from[i], there >> i & 1);
                } else {
                    copy_async(to + place, from[i], k < left);
                }
            }
            from[i] += step;
        }
    }
};
#endif

// How a wave reads chunks of SIZE rows from `first` on.
template <int ROWS, int MODE, int SIZE> struct Reader {
    typedef Slab<In, SIZE> S;
    static const bool ACROSS = GEMM_ASYNC && MODE == 1;
    u32 at;

    RF_FN void start(u32 first, u32 lane) {
        at = ACROSS ? (lane / 16 * 8 + lane % 8) * ROWS * (u32)sizeof(In) + ((first / 8 + lane / 8 % 2) ^ (lane % 8)) * 16
                    : swizzled<ROWS>(first + lane % SIZE, S::chunk(lane / SIZE));
    }
    RF_FN Chunk read(LdsAddress tile, int slab, int phase, int i) const {
#if GEMM_ASYNC
        if (ACROSS) return read_chunk_across(tile + at + (slab * 2 + phase) * 16 * ROWS * (u32)sizeof(In));
#endif
        return read_chunk(tile + (at ^ (u32)(S::apart(phase, i) * 16 + slab % 2 * 64)) + slab * ROWS * 64);
    }
};
