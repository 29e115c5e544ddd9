// tile.h: what a workgroup of attention is made of. It keeps a resident tile of RESIDENT_ROWS rows and streams tiles of
// STREAMED_ROWS rows through LDS. The Q tile is resident and KV tiles are streamed; for the gradients of keys and values the
// KV tile is resident and Q tiles are streamed. A lane has VALUES of the RESIDENT_ROWS x STREAMED_ROWS scores of two tiles, at
// row(slot(v)) and column(v), on the matrix unit or by plain multiply-add.
//
// Macros: types ATTENTION_IN, ATTENTION_REAL; ATTENTION_D, ATTENTION_DV: head sizes of queries and keys, and of values, padded
//         to 32; ATTENTION_STREAMED; ATTENTION_BLOCKS: how many times that a streamed tile has in LDS (blocks.h); ATTENTION_STAGES:
//         tiles in LDS where copies go past the registers (stages.h), else 0;
//         ATTENTION_SIZE: side of a matrix product, 0 for plain FMA; then ATTENTION_WAVES,
//         ATTENTION_TILES (matrix products of a wave along the resident rows), ATTENTION_RESIDENT_WORDS (registers that a
//         resident operand may keep), ATTENTION_RESIDENT_LDS (whether resident rows that registers do not keep wait in LDS; on
//         AMD), ATTENTION_LAID (groups of a resident operand that lanes have in LDS though they keep the others), or for FMA
//         ATTENTION_WAVES, ATTENTION_TILES: lanes along resident rows and values per lane along them, ATTENTION_LANES: lanes
//         along the streamed rows.
using namespace rf;

typedef ATTENTION_IN In;
typedef ATTENTION_REAL Real;

// Chunks of 16 bytes that the banks of LDS have room for.
#define BANKED_CHUNKS (ARCH_MFMA_GENERATION >= 4 ? 16 : 8)
#define STREAMED_ROWS ATTENTION_STREAMED
// Rows of a streamed tile in LDS, which are worked on STREAMED_ROWS at a time.
#define TILE_ROWS (STREAMED_ROWS * ATTENTION_BLOCKS)
// Elements of one access.
#define VEC (16 / (int)sizeof(In))
// The padding keeps rows 16-byte aligned and spreads a column over the banks.
template <int DEPTH> struct Row { static const int LENGTH = DEPTH + VEC; };

#if ATTENTION_SIZE
typedef Chain<In, ATTENTION_SIZE> C;
#define RESIDENT_ROWS (ATTENTION_WAVES * ATTENTION_TILES * ATTENTION_SIZE)
#define THREADS (ATTENTION_WAVES * ARCH_WAVE_SIZE)
// Resident rows of a wave.
#define WAVE_ROWS (ATTENTION_TILES * ATTENTION_SIZE)
#define EXCHANGE 1
#else
#define RESIDENT_ROWS (ATTENTION_WAVES * ATTENTION_TILES)
#define THREADS (ATTENTION_WAVES * ATTENTION_LANES)
// Values of LDS through which the lanes of a row exchange their values.
#define EXCHANGE_ROW (STREAMED_ROWS + 1)
#define EXCHANGE (RESIDENT_ROWS * EXCHANGE_ROW)
#define PASSAGE 0
#endif

// Registers for so many workgroups at once are all that the compiler may use.
#if ATTENTION_STAGES
#define ATTENTION_BOUNDS __launch_bounds__(THREADS, ATTENTION_GROUPS)
#else
#define ATTENTION_BOUNDS __launch_bounds__(THREADS)
#endif
// How far a running maximum may be passed before everything is rescaled to the new one. Weights are then below 2^8: far from
// what the narrowest type of them overflows at.
#define RESCALE_ABOVE 8

RF_FN float exp2_of(float x) { return exp2_fast(x); }
RF_FN double exp2_of(double x) { return rf::exp2(x); }
// The larger; a NaN is passed over, and shows in the sum.
RF_FN float larger(float a, float b) { return __builtin_fmaxf(a, b); }
RF_FN double larger(double a, double b) { return a > b ? a : b; }
struct Larger { RF_FN Real operator()(Real a, Real b) const { return larger(a, b); } };

// Keeps the compiler from reading everything ahead, into registers that are not there: with operands laid aside, two groups.
#define ATTENTION_HOLDS_SCHEDULE (ATTENTION_LAID > 0 || ARCH_MATRIX == ARCH_MATRIX_WMMA11)

// Whether a type's rounding takes fewer instructions of what is known to be no NaN.
#if RF_DEVICE_AMD && !RF_CONVERTS_BF16
#define ATTENTION_ROUNDS_NUMBERS (same<In, bf16>::value)
#else
#define ATTENTION_ROUNDS_NUMBERS false
#endif

// The vector, or zeros.
RF_FN Vec<In, VEC> zero_unless(bool there, Vec<In, VEC> vector) {
    u32 words[4], mask = there ? ~0u : 0u;
    __builtin_memcpy(words, &vector, 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] &= mask;
    __builtin_memcpy(&vector, words, 16);
    return vector;
}

#if ATTENTION_SIZE && RF_DEVICE_AMD
#define ATTENTION_RESOURCES 1
// Bytes from a tile's first row: the launcher sees to it that 31 bits have room for them, and that rows do not overlap.
RF_FN u32 place_of(int row, int column, i64 stride) { return (u32)(row * (int)stride + column) * (u32)sizeof(In); }
// The rows of a tile that there are, of a matrix of `rows`, more than `first`.
RF_FN BufferResource resource_of(const In* base, i64 stride, int first, int rows, int depth) {
    const u32 row_bytes = (u32)stride * (u32)sizeof(In);
    const int left = rows - first, there = left < TILE_ROWS ? left : TILE_ROWS;
    return BufferResource((const char*)base + (u64)(u32)first * row_bytes, (u32)(there - 1) * row_bytes + (u32)depth * (u32)sizeof(In));
}
#else
#define ATTENTION_RESOURCES 0
#endif

// Rows of a matrix [rows, depth] on their way from memory through registers to LDS; what is outside becomes zero.
template <int DEPTH> struct Loader {
    static const int PER_ROW = DEPTH / VEC, TOTAL = TILE_ROWS * PER_ROW, LOADS = (TOTAL + THREADS - 1) / THREADS;
    Vec<In, VEC> held[LOADS];
#if ATTENTION_RESOURCES
    // Whether a thread loads the same columns each time, PASS rows apart.
    static const int PASS = THREADS / PER_ROW;
    static const bool EVEN = THREADS % PER_ROW == 0 && PASS % 8 == 0 && TOTAL % THREADS == 0;
    u32 place[EVEN ? 1 : LOADS];
#endif

    // The column of access c. The padding moves every row by 16 bytes against the banks; for products of the matrix unit lanes begin
    // as much further back, so that those of a phase meet no bank twice when they store, whichever rows they are of.
    RF_FN static int column(int c) {
        if (!ATTENTION_SIZE || PER_ROW % 8 != 0) return c % PER_ROW * VEC;
        return (c % PER_ROW + PER_ROW - c / PER_ROW % 8) % PER_ROW * VEC;
    }
    // `depth` is at least one.
    RF_FN Loader(i64 stride, int depth) {
#if ATTENTION_RESOURCES
#pragma unroll
        for (int i = 0; i < (EVEN ? 1 : LOADS); ++i) {
            int c = (int)thread_x() + i * THREADS;
            place[i] = column(c) < depth ? place_of(c / PER_ROW, column(c), stride) : BufferResource::NOWHERE;
        }
#endif
    }
    // What is outside becomes zero. `rows` are more than `first`.
    RF_FN void fetch(const In* base, i64 stride, int first, int rows, int depth) {
#if ATTENTION_RESOURCES
        const BufferResource resource = resource_of(base, stride, first, rows, depth);
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const u32 shared = EVEN ? i * PASS * (u32)stride * (u32)sizeof(In) : 0;
            const Vec<u32, 4> words = resource.load<4>(place[EVEN ? 0 : i], shared);
            __builtin_memcpy(&held[i], &words, 16);
        }
#else
        bool whole = first + TILE_ROWS <= rows && depth == DEPTH;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * THREADS, row = first + c / PER_ROW, k = column(c);
            row = row < rows ? row : rows - 1;
            held[i] = load<VEC>(base + (i64)row * stride + (k < depth ? k : 0));
        }
        if (whole) return;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * THREADS;
            bool there = first + c / PER_ROW < rows && column(c) < depth;
            held[i] = zero_unless(there, held[i]);
        }
#endif
    }
    RF_FN void put(In* lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            int c = (int)thread_x() + i * THREADS;
            if (TOTAL % THREADS == 0 || c < TOTAL) store<VEC>(lds + c / PER_ROW * Row<DEPTH>::LENGTH + column(c), held[i]);
        }
    }
};

#if ATTENTION_SIZE
struct Lane {
    static const int STREAMED_TILES = STREAMED_ROWS / ATTENTION_SIZE, SLOTS = ATTENTION_TILES * C::SLOTS;
    static const int VALUES = STREAMED_TILES * ATTENTION_TILES * C::ACC;
    // Consecutive values of one slot whose columns are consecutive, the first a multiple of it.
    static const int RUN = C::RUN;
    int lane, first;

    RF_FN void start() {
        lane = (int)(thread_x() % ARCH_WAVE_SIZE);
        first = (int)uniform(thread_x() / ARCH_WAVE_SIZE) * ATTENTION_TILES * ATTENTION_SIZE;
    }
    RF_FN static int slot(int v) { return v / C::ACC % ATTENTION_TILES * C::SLOTS + C::slot(v % C::ACC); }
    RF_FN int row(int slot) const { return first + slot / C::SLOTS * ATTENTION_SIZE + C::row(slot % C::SLOTS, lane); }
    RF_FN int column(int v) const {
        return v / (C::ACC * ATTENTION_TILES) * ATTENTION_SIZE + C::column(v % C::ACC, lane);
    }
    template <class Op> RF_FN Real across(Real value, Op op) const { return C::across(value, op); }
    RF_FN bool leads() const { return C::leads(lane); }
    // Between lanes nothing needs to be exchanged.
    RF_FN void exchange(const Real*, Real*) const {}
};

// Where the rows of a tile lie in LDS, for this lane.
#if ATTENTION_STAGES
typedef LdsAddress Rows;
template <int DEPTH> struct Reader : AddressedRows<In, Row<DEPTH>::LENGTH> {
    RF_FN Reader(Rows tile, int lane) : AddressedRows<In, Row<DEPTH>::LENGTH>(tile, lane) {}
};
#else
typedef const In* Rows;
template <int DEPTH> struct Reader : PlainRows<In, ATTENTION_SIZE, Row<DEPTH>::LENGTH> {
    RF_FN Reader(Rows rows, int lane) : PlainRows<In, ATTENTION_SIZE, Row<DEPTH>::LENGTH>(rows, lane) {}
};
#endif

#if ATTENTION_STAGES
// The resident rows as operands: kept, where registers suffice; else every lane finds its own again in LDS.
template <int DEPTH> struct ResidentTile {
    static const int GROUPS = DEPTH / C::GROUP;
    static const bool KEPT = ATTENTION_TILES * GROUPS * C::STEPS * (int)sizeof(C::Operand) <= 4 * ATTENTION_RESIDENT_WORDS;
    static const int LDS_BYTES = KEPT ? 0 : THREADS * ATTENTION_TILES * GROUPS * C::STEPS * (int)sizeof(C::Operand);
    const In* rows[Lane::SLOTS];
    C::Operand kept[KEPT ? ATTENTION_TILES * GROUPS : 1][C::STEPS];
    typedef Vec<u32, 4> Words;
    Words* lds;

    // After the rows are set; `place`: LDS_BYTES.
    RF_FN void start(const Lane& at, int columns, char* place, char*) {
        lds = (Words*)place + thread_x();
#pragma unroll
        for (int n = 0; n < ATTENTION_TILES * GROUPS; ++n) {
            int k = n % GROUPS * C::GROUP;
            C::read_resident(rows + n / GROUPS * C::SLOTS, k, columns - k, at.lane, kept[KEPT ? n : 0]);
            if (!KEPT) __builtin_memcpy(lds + n * THREADS, kept, sizeof(Words));
        }
    }
    RF_FN void take(const Lane&, int t, int group, C::Operand* to) const {
        if (KEPT) {
#pragma unroll
            for (int s = 0; s < C::STEPS; ++s) to[s] = kept[KEPT ? t * GROUPS + group : 0][s];
            return;
        }
        Words words = lds[(t * GROUPS + group) * THREADS];
        __builtin_memcpy(to, &words, sizeof(Words));
    }
};
#else
// 64 bytes of each row of a tile on their way through LDS: of a product's operands and of its sums a lane has other pieces than
// accesses of memory want, four lanes of which take a row's 64 bytes. A wave has a place of its own, which no other looks at.
//
// Chunks of 16 bytes are swizzled by their row, so that none of these meet a bank twice in either order of
// phases: eight rows' same chunk, two rows' chunks; twice as many rows where there are twice the banks. So are halves of chunks
// (`HALVES`), for stores of 8 bytes and fewer.
struct Piece {
    static const int ROW_BYTES = 64, BYTES = ATTENTION_SIZE * ROW_BYTES, CHUNKS = ROW_BYTES / 16;
    // Rows of one access of the wave, and accesses for all.
    static const int ROWS = ARCH_WAVE_SIZE / CHUNKS, PASSES = ATTENTION_SIZE / ROWS;

    // Rows that lie beside one another in the banks.
    static const int BESIDE = BANKED_CHUNKS / CHUNKS;

    // Where a lane's access of memory is in the piece.
    RF_FN static int row(int pass, int lane) { return pass * ROWS + lane / CHUNKS; }
    RF_FN static int chunk(int lane) { return lane % CHUNKS; }

    RF_FN static int swizzled(int row, int chunk) { return row * ROW_BYTES + (chunk ^ (row / BESIDE % 4)) * 16; }
    template <bool HALVES> RF_FN static int swizzled_byte(int row, int byte) {
        return row * ROW_BYTES + ((byte / 8 ^ (row / BESIDE % 4 * 2 + (HALVES ? row / (4 * BESIDE) % 2 : 0))) * 8 + byte % 8);
    }
    template <bool HALVES> RF_FN static Vec<u32, 4> read(const char* lds, int row, int chunk) {
        Vec<u32, 4> words = load<4>((const u32*)(lds + swizzled(row, chunk))), turned = {{words[2], words[3], words[0], words[1]}};
        return HALVES && row / (4 * BESIDE) % 2 ? turned : words;
    }
    // The address that lane `from` has, known to be in global memory: without that, accesses would be slower generic ones.
    template <class E> RF_FN static E* address(E* mine, int from) {
        return (E*)(__attribute__((address_space(1))) E*)shuffle((u64)mine, (u32)from);
    }
    // What lanes of the wave wrote to LDS before it, others of the wave read after it.
    RF_FN static void sync() {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
        __builtin_amdgcn_wave_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
    }
};
// Bytes through which pieces of all waves pass.
#define PASSAGE (ATTENTION_WAVES * Piece::BYTES)

// The resident rows as operands: kept, where registers suffice; else they wait in LDS, in pieces; where they do not fit there either,
// they are read again for every tile.
template <int DEPTH> struct ResidentTile {
    static const int GROUPS = DEPTH / C::GROUP, PIECES = DEPTH * (int)sizeof(In) / Piece::ROW_BYTES;
    static const int PER_PIECE = GROUPS / PIECES;
    static const bool KEPT = ATTENTION_TILES * GROUPS * C::STEPS * (int)sizeof(C::Operand) <= 4 * ATTENTION_RESIDENT_WORDS;
    static const bool WAITS = !KEPT && ATTENTION_RESIDENT_LDS;
    // The last groups, of which each lane has its own in LDS all the same.
    static const int LAID = KEPT ? ATTENTION_LAID : 0;
    static const int LDS_BYTES = WAITS ? ATTENTION_WAVES * ATTENTION_TILES * PIECES * Piece::BYTES : ATTENTION_TILES * LAID * THREADS * 16;
    static_assert(!LAID || sizeof(C::Operand) * C::STEPS == 16, "a group is one access");
    static_assert(PER_PIECE * C::GROUP * sizeof(In) == Piece::ROW_BYTES, "whole groups");
    const In* rows[Lane::SLOTS];
    int depth;
    C::Operand kept[KEPT ? ATTENTION_TILES * GROUPS : 1][C::STEPS];
    char* lds;
    Vec<u32, 4>* laid;

    // A group of this lane's row out of a piece in LDS.
    RF_FN static void read(const Lane& at, const char* piece, int group, C::Operand* to) {
        int row = at.lane % ATTENTION_SIZE;
        int first = group * C::GROUP * (int)sizeof(In) / 16 + C::F::offset(at.lane / ATTENTION_SIZE) * (int)sizeof(In) / 16;
        alignas(16) In held[C::SPAN];
#pragma unroll
        for (int v = 0; v < C::SPAN; v += VEC) {
            Vec<In, VEC> part = load<VEC>((const In*)(piece + Piece::swizzled(row, first + v / VEC)));
            __builtin_memcpy(held + v, &part, 16);
        }
        C::F::read(held, to);
    }
    // After the rows are set; `place`: LDS_BYTES; `passage`: PASSAGE, which other waves may still read afterwards.
    RF_FN void start(const Lane& at, int columns, char* place, char* passage) {
        depth = columns;
        if (!KEPT && !WAITS) return;
        int wave = at.first / WAVE_ROWS;
        laid = (Vec<u32, 4>*)place + thread_x();
        lds = WAITS ? place + wave * (LDS_BYTES / ATTENTION_WAVES) : passage + wave * Piece::BYTES;
#pragma unroll
        for (int t = 0; t < ATTENTION_TILES; ++t) {
            Vec<u32, 4> held[PIECES][Piece::PASSES];
#pragma unroll
            for (int pass = 0; pass < Piece::PASSES; ++pass) {
                const In* from = Piece::address(rows[t], Piece::row(pass, at.lane));
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece) {
                    int k = (piece * Piece::CHUNKS + Piece::chunk(at.lane)) * VEC;
                    held[piece][pass] = load<4>((const u32*)(from + (k < depth ? k : 0)));
                }
            }
            if (depth < DEPTH) {
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece) {
                    const int k = (piece * Piece::CHUNKS + Piece::chunk(at.lane)) * VEC;
#pragma unroll
                    for (int n = 0; n < Piece::PASSES * 4; ++n) held[piece][n / 4][n % 4] &= k < depth ? ~0u : 0u;
                }
            }
#pragma unroll
            for (int piece = 0; piece < PIECES; ++piece) {
                char* to = lds + (WAITS ? (t * PIECES + piece) * Piece::BYTES : 0);
#pragma unroll
                for (int pass = 0; pass < Piece::PASSES; ++pass)
                    store<4>((u32*)(to + Piece::swizzled(Piece::row(pass, at.lane), Piece::chunk(at.lane))), held[piece][pass]);
                Piece::sync();
                if (!KEPT) continue;
#pragma unroll
                for (int g = 0; g < PER_PIECE; ++g) {
                    const int group = piece * PER_PIECE + g;
                    read(at, to, g, kept[KEPT ? t * GROUPS + group : 0]);
                    if (LAID && group >= GROUPS - LAID)
                        __builtin_memcpy(laid + (t * LAID + group - (GROUPS - LAID)) * THREADS, kept[KEPT ? t * GROUPS + group : 0], 16);
                }
                Piece::sync();
            }
        }
    }
    RF_FN void take(const Lane& at, int t, int group, C::Operand* to) const {
        if (LAID && group >= GROUPS - LAID) {
            const Vec<u32, 4> words = laid[(t * LAID + group - (GROUPS - LAID)) * THREADS];
            __builtin_memcpy(to, &words, 16);
        } else if (KEPT) {
#pragma unroll
            for (int s = 0; s < C::STEPS; ++s) to[s] = kept[KEPT ? t * GROUPS + group : 0][s];
        } else if (WAITS) {
            read(at, lds + (t * PIECES + group / PER_PIECE) * Piece::BYTES, group % PER_PIECE, to);
        } else {
            int k = group * C::GROUP;
            hide(k);
            C::read_resident(rows + t * C::SLOTS, k, depth - k, at.lane, to);
        }
    }
};
#endif

// values = resident · streamedᵀ; with FROM, which AMD's unit can, they are added to what is there.
template <int DEPTH, bool FROM = false> RF_FN void product(const Lane& at, const ResidentTile<DEPTH>& tile, Rows lds, Real* values) {
    Reader<DEPTH> reader(lds, at.lane);
    C::Accumulator sum[Lane::STREAMED_TILES][ATTENTION_TILES];
#pragma unroll
    for (int n = 0; n < Lane::STREAMED_TILES * ATTENTION_TILES; ++n) sum[n / ATTENTION_TILES][n % ATTENTION_TILES] = 0;
#if ATTENTION_RESOURCES
#pragma unroll
    for (int v = 0; v < (FROM ? Lane::VALUES : 0); ++v)
        sum[v / C::ACC / ATTENTION_TILES][v / C::ACC % ATTENTION_TILES][v % C::ACC] = values[v];
#endif
#pragma unroll
    for (int group = 0; group < ResidentTile<DEPTH>::GROUPS; ++group) {
        C::Operand resident[ATTENTION_TILES][C::STEPS];
#pragma unroll
        for (int t = 0; t < ATTENTION_TILES; ++t) tile.take(at, t, group, resident[t]);
#pragma unroll
        for (int j = 0; j < Lane::STREAMED_TILES; ++j) {
            C::Operand streamed[C::STEPS];
            reader.read_streamed(j, group, streamed);
#pragma unroll
            for (int s = 0; s < C::STEPS; ++s)
#pragma unroll
                for (int t = 0; t < ATTENTION_TILES; ++t) sum[j][t] = C::run(resident[t][s], streamed[s], sum[j][t]);
        }
        if (ATTENTION_HOLDS_SCHEDULE && (!ATTENTION_LAID || group % 2)) hold_schedule();
    }
#pragma unroll
    for (int v = 0; v < Lane::VALUES; ++v) values[v] = sum[v / C::ACC / ATTENTION_TILES][v / C::ACC % ATTENTION_TILES][v % C::ACC];
}

// Values of which the compiler does not know that they are copies: nothing is made of them ahead of a branch, where it would take
// registers.
struct Aside {
    Real values[C::ACC];
    RF_FN Aside(const Real* from) {
#pragma unroll
        for (int i = 0; i < C::ACC; ++i) {
            values[i] = from[i];
#if RF_DEVICE_AMD
            if (ATTENTION_ROUNDS_NUMBERS) asm volatile("" : "+v"(values[i]));
#endif
        }
    }
};

// Values of a panel, rounded to a type: two to a word where it has 16 bits.
template <class To, int BYTES> struct Rounded {
    RF_FN static void all(const Real* values, u32* to) {
        To held[C::ACC];
#pragma unroll
        for (int i = 0; i < C::ACC; ++i) held[i] = cast<To>(values[i]);
        __builtin_memcpy(to, held, sizeof(held));
    }
    RF_FN static void numbers(const Real* values, u32* to) { all(values, to); }
};
template <class To> struct Rounded<To, 2> {
    RF_FN static void all(const Real* values, u32* to) {
#pragma unroll
        for (int i = 0; i < C::ACC; i += 2) to[i / 2] = two_of<To>(values[i], values[i + 1]);
    }
    RF_FN static void numbers(const Real* values, u32* to) {
#pragma unroll
        for (int i = 0; i < C::ACC; i += 2) to[i / 2] = two_numbers<To>(values[i], values[i + 1]);
    }
};

// Sums over the streamed rows: [RESIDENT_ROWS, DEPTH]. `From` reads them; of WEIGHTS a NaN may become anything, as their sum shows it.
template <int DEPTH, class From = Reader<DEPTH>, bool WEIGHTS = false> struct Output {
    static const int PANELS = DEPTH / ATTENTION_SIZE;
    static const bool PAIRED = C::FOURS && ATTENTION_SIZE == 32 && sizeof(C::Operand) == 16;
    C::Accumulator sum[PANELS][ATTENTION_TILES];

    RF_FN void clear() {
#pragma unroll
        for (int n = 0; n < PANELS * ATTENTION_TILES; ++n) sum[n / ATTENTION_TILES][n % ATTENTION_TILES] = 0;
    }
    RF_FN void scale(const Real* by) {
#pragma unroll
        for (int n = 0; n < PANELS * ATTENTION_TILES; ++n)
#pragma unroll
            for (int i = 0; i < C::ACC; ++i) {
                int t = n % ATTENTION_TILES;
                C::scale(sum[n / ATTENTION_TILES][t], i, by[t * C::SLOTS + C::slot(i)]);
            }
    }
    // Whether no lane of the wave has a NaN, where rounding is cheaper for that: a sum shows it.
    RF_FN static bool numbers(const Real* values) {
        if (!ATTENTION_ROUNDS_NUMBERS) return false;
        Real even = values[0], odd = values[1];
#pragma unroll
        for (int i = 2; i < C::ACC; i += 2) {
            even += values[i];
            odd += values[i + 1];
        }
        even += odd;
        return !rf::ballot(even != even);
    }
    // The values of a panel times `by`, one behind the other.
    template <class To> RF_FN static void scaled(const C::Accumulator& sum, Real by, u32* to) {
        Real values[C::ACC];
#pragma unroll
        for (int i = 0; i < C::ACC; ++i) values[i] = (Real)sum[i] * by;
        if (same<To, In>::value && numbers(values)) {
            Rounded<To, sizeof(To)>::numbers(values, to);
        } else {
            const Aside aside(values);
            Rounded<To, sizeof(To)>::all(aside.values, to);
        }
    }
    // += values · streamed.
    RF_FN void add(const Lane& at, const Real* values, const Real*, Rows lds) {
        From reader(lds, at.lane);
#pragma unroll
        for (int j = 0; j < Lane::STREAMED_TILES; ++j) {
            C::Operand scores[ATTENTION_TILES][C::SCORE_OPERANDS];
#pragma unroll
            for (int t = 0; t < ATTENTION_TILES; ++t) {
                const Real* own = values + (j * ATTENTION_TILES + t) * C::ACC;
                if (WEIGHTS || numbers(own)) C::weight_operands(own, scores[t]);
                else C::score_operands(Aside(own).values, scores[t]);
            }
#pragma unroll
            for (int panel = 0; panel < PANELS; ++panel) {
                C::Operand streamed[C::SCORE_OPERANDS];
                reader.read_transposed(j, panel, streamed);
#pragma unroll
                for (int s = 0; s < C::SCORE_OPERANDS; ++s)
#pragma unroll
                    for (int t = 0; t < ATTENTION_TILES; ++t) sum[panel][t] = C::run(scores[t][s], streamed[s], sum[panel][t]);
                // The two fours of an operand are to be one read, not those of two panels, from where they would be moved.
                if (ATTENTION_HOLDS_SCHEDULE || (PAIRED && panel % 2)) hold_schedule();
            }
        }
    }
    // Writes rows that are `there`, columns below `depth`: sum * by, rounded; a row's address is `to[slot]`. `passage`: PASSAGE, which
    // nothing else uses from here on.
    template <class To>
    RF_FN void write(const Lane& at, To* const* to, const bool* there, const Real* by, int depth, char* passage) const {
#if ATTENTION_STAGES
#pragma unroll
        for (int t = 0; t < ATTENTION_TILES; ++t)
#pragma unroll
            for (int panel = 0; panel < PANELS; ++panel)
#pragma unroll
                for (int i = 0; i < C::ACC; i += WIDTH<To>()) {
                    int slot = t * C::SLOTS + C::slot(i), column = panel * ATTENTION_SIZE + C::column(i, at.lane);
                    Vec<To, WIDTH<To>()> out;
#pragma unroll
                    for (int e = 0; e < WIDTH<To>(); ++e) out[e] = cast<To>((Real)sum[panel][t][i + e] * by[slot]);
                    if (there[slot] && column < depth) store<WIDTH<To>()>(to[slot] + column, out);
                }
#else
        const int COLUMNS = Piece::ROW_BYTES / (int)sizeof(To), EACH = 16 / (int)sizeof(To);
        const bool HALVES = WIDTH<To>() * sizeof(To) < 16;
        // What is made of the lane here would else be kept from the start on.
        int lane = at.lane;
        asm volatile("" : "+v"(lane));
        lane &= ARCH_WAVE_SIZE - 1;
        int row = lane % ATTENTION_SIZE, first = Piece::chunk(lane) * EACH;
        char* lds = passage + at.first / WAVE_ROWS * Piece::BYTES;
        // Other waves may still read what was there.
        barrier();
#pragma unroll
        for (int t = 0; t < ATTENTION_TILES; ++t) {
            // Null where there is no row.
            To* line[Piece::PASSES];
#pragma unroll
            for (int pass = 0; pass < Piece::PASSES; ++pass)
                line[pass] = Piece::address(there[t] ? to[t] : (To*)0, Piece::row(pass, lane));
#pragma unroll
            for (int piece = 0; piece < DEPTH / COLUMNS; ++piece) {
#pragma unroll
                for (int panel = 0; panel < PANELS; ++panel) {
                    if (panel * ATTENTION_SIZE / COLUMNS > piece || ((panel + 1) * ATTENTION_SIZE - 1) / COLUMNS < piece) continue;
                    u32 rounded[C::ACC * (int)sizeof(To) / 4];
                    scaled<To>(sum[panel][t], by[t], rounded);
#pragma unroll
                    for (int i = 0; i < C::ACC; i += WIDTH<To>()) {
                        // All lanes have the same values in a piece.
                        if ((panel * ATTENTION_SIZE + C::column(i, 0)) / COLUMNS != piece) continue;
                        int column = panel * ATTENTION_SIZE + C::column(i, lane) - piece * COLUMNS;
                        Vec<To, WIDTH<To>()> out;
                        __builtin_memcpy(&out, (const char*)rounded + i * sizeof(To), sizeof(out));
                        store<WIDTH<To>()>((To*)(lds + Piece::swizzled_byte<HALVES>(row, column * (int)sizeof(To))), out);
                    }
                }
                Piece::sync();
#pragma unroll
                for (int pass = 0; pass < Piece::PASSES; ++pass) {
                    Vec<u32, 4> words = Piece::read<HALVES>(lds, Piece::row(pass, lane), Piece::chunk(lane));
                    int column = piece * COLUMNS + first;
                    if (line[pass] && column < depth) store<4>((u32*)(line[pass] + column), words);
                }
                Piece::sync();
            }
        }
#endif
    }
    // Elements of one store.
    template <class To> RF_FN static constexpr int WIDTH() {
        return C::RUN * (int)sizeof(To) <= 16 ? C::RUN : 16 / (int)sizeof(To);
    }
};
#else
typedef const In* Rows;
struct Lane {
    static const int SLOTS = ATTENTION_TILES, PER_ROW = STREAMED_ROWS / ATTENTION_LANES, VALUES = SLOTS * PER_ROW, RUN = 1;
    int lane, first;

    RF_FN void start() {
        lane = (int)(thread_x() % ATTENTION_LANES);
        first = (int)(thread_x() / ATTENTION_LANES);
    }
    RF_FN static int slot(int v) { return v / PER_ROW; }
    RF_FN int row(int slot) const { return slot * ATTENTION_WAVES + first; }
    RF_FN int column(int v) const { return v % PER_ROW * ATTENTION_LANES + lane; }
    template <class Op> RF_FN Real across(Real value, Op op) const {
        value = op(value, dpp<RF_DPP_XOR1>(value));
        value = op(value, dpp<RF_DPP_XOR2>(value));
        value = op(value, dpp<RF_DPP_HALF_MIRROR>(value));
        return ATTENTION_LANES == 16 ? op(value, dpp<RF_DPP_MIRROR>(value)) : value;
    }
    RF_FN bool leads() const { return lane == 0; }
    // Before a barrier; after it, all lanes of a row find its values.
    RF_FN void exchange(const Real* values, Real* lds) const {
#pragma unroll
        for (int v = 0; v < VALUES; ++v) lds[row(slot(v)) * EXCHANGE_ROW + column(v)] = values[v];
    }
};

template <int DEPTH> struct ResidentTile {
    static const int LDS_BYTES = 0;
    static const bool KEPT = false;
    const In* rows[Lane::SLOTS];
    int depth;
    RF_FN void start(const Lane&, int columns, char*, char*) { depth = columns; }
};

RF_FN float multiply_add(float a, float b, float c) { return rf::fma(a, b, c); }
RF_FN double multiply_add(double a, double b, double c) { return rf::fma(a, b, c); }

template <int DEPTH, bool = false> RF_FN void product(const Lane& at, const ResidentTile<DEPTH>& tile, const In* lds, Real* values) {
#pragma unroll
    for (int v = 0; v < Lane::VALUES; ++v) values[v] = (Real)0;
    for (int k = 0; k < tile.depth; k += VEC) {
        Vec<In, VEC> resident[Lane::SLOTS], streamed[Lane::PER_ROW];
#pragma unroll
        for (int r = 0; r < Lane::SLOTS; ++r) resident[r] = load<VEC>(tile.rows[r] + k);
#pragma unroll
        for (int c = 0; c < Lane::PER_ROW; ++c) streamed[c] = load<VEC>(lds + (c * ATTENTION_LANES + at.lane) * Row<DEPTH>::LENGTH + k);
#pragma unroll
        for (int e = 0; e < VEC; ++e)
#pragma unroll
            for (int v = 0; v < Lane::VALUES; ++v)
                values[v] = multiply_add(cast<Real>(resident[v / Lane::PER_ROW][e]), cast<Real>(streamed[v % Lane::PER_ROW][e]), values[v]);
    }
}

template <int DEPTH, class = void, bool = false> struct Output {
    static const int COLUMNS = DEPTH / ATTENTION_LANES;
    Real sum[Lane::SLOTS][COLUMNS];

    RF_FN void clear() {
#pragma unroll
        for (int n = 0; n < Lane::SLOTS * COLUMNS; ++n) sum[n / COLUMNS][n % COLUMNS] = (Real)0;
    }
    RF_FN void scale(const Real* by) {
#pragma unroll
        for (int n = 0; n < Lane::SLOTS * COLUMNS; ++n) sum[n / COLUMNS][n % COLUMNS] *= by[n / COLUMNS];
    }
    RF_FN void add(const Lane& at, const Real*, const Real* exchanged, const In* lds) {
        for (int o = 0; o < STREAMED_ROWS; ++o) {
            Real streamed[COLUMNS];
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) streamed[c] = cast<Real>(lds[o * Row<DEPTH>::LENGTH + c * ATTENTION_LANES + at.lane]);
#pragma unroll
            for (int r = 0; r < Lane::SLOTS; ++r) {
                Real score = exchanged[at.row(r) * EXCHANGE_ROW + o];
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) sum[r][c] = multiply_add(score, streamed[c], sum[r][c]);
            }
        }
    }
    template <class To>
    RF_FN void write(const Lane& at, To* const* to, const bool* there, const Real* by, int depth, char*) const {
#pragma unroll
        for (int n = 0; n < Lane::SLOTS * COLUMNS; ++n) {
            int r = n / COLUMNS, column = n % COLUMNS * ATTENTION_LANES + at.lane;
            if (there[r] && column < depth) to[r][column] = cast<To>(sum[r][n % COLUMNS] * by[r]);
        }
    }
};
#endif

// LDS of a kernel: of the streamed tiles, through which resident rows and results pass where they do, and of resident
// rows that registers do not keep.
#if ATTENTION_STAGES
#define ATTENTION_LDS(streamed_bytes, resident_bytes)                                                           \
    extern __shared__ __attribute__((aligned(128))) char lds[];                                                 \
    char *lds_resident = lds + ATTENTION_STAGES * Stages<ATTENTION_D, ATTENTION_DV>::STAGE_BYTES, *lds_rows = 0
#else
#define ATTENTION_LDS(streamed_bytes, resident_bytes)                                                           \
    __shared__ __attribute__((aligned(16))) char lds_rows[(streamed_bytes) > PASSAGE ? (streamed_bytes) : PASSAGE]; \
    __shared__ __attribute__((aligned(16))) char lds_resident[(resident_bytes) + 16]
#endif
