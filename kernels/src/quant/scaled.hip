// q_scaled: C = A Bᵀ of codes with scales along both axes of both, and what follows it.
//
// Shapes : A [M, K], B [N, K] codes, K contiguous, bytes or two to a byte; scales [ceil(M / rows), ceil(K / block)] and
//          [ceil(N / rows), ceil(K / block)], rows and block of each its own; C [M, N]; strides in bytes of codes, in elements else.
//          S_SHUFFLED: B lies as preshuffle.rs says, in tiles of 16 rows, `b_row` bytes apart, of chunks of 16 bytes: those of the 16
//          rows at one place of K follow each other, zeros past the ends
//          S_GROUPED: M is rows of groups, each with codes and scales of B of its own, and A's rows are those of the groups one after the
//          other, or by a list: groups.hip
// Grid   : (ceil(N / S_BN), ceil(M / S_BM), slices of g.slice_k); S_GROUPED: as many tiles of
//          rows as groups can fill at most, those past the last group's do nothing
// Block  : (S_THREADS, 1, 1): four waves, S_ACROSS side by side; 256 without a matrix unit
// LDS    : S_STAGES times S_BM rows of A and S_BN of B, each of 128 bytes (64, where codes of 4 bits meet codes of 8), dynamic where
//          S_ASYNC; twice those of A and none of B where S_DIRECT; twice the scales of a round
// Needs  : the narrower block a multiple of S_SUB, which divides S_BK or is it, and a divisor of the wider, but for S_MX; S_A_VECTOR,
//          S_B_VECTOR: rows and K whole vectors of 16 bytes; K even for codes of 4 bits; S_NATIVE with i8: fewer than 2^17 codes
//          between two additions; S_MX: scales are E8M0; slices, of S_BK * g.rounds: no block ends within K, or S_MX; S_WORDS: for each 32 of K and in words of four;
//          S_WHOLE: K a multiple of S_BK; S_ONE: K, or a slice of it, S_BK * g.rounds at most          checked by the launcher
// Numeric: products of codes are exact. S_SUB codes, or S_BK * g.rounds where S_SUB is S_BK, are summed from zero, in i32 for i8
//          on the matrix unit, in f32 else; (sum * scale of A) * scale of B is added to the total in ascending order of K; one
//          rounding at the store. A slice is one of these sums, and scaled_end.hip adds them as one workgroup would. What follows is as scaled_end.h says. S_MX: what is summed is products of codes and both scales. None of it depends on where B lies
//
// Macros : S_OUT; S_A_FORMAT, S_B_FORMAT; S_MATRIX; S_NATIVE: codes are operands of the matrix unit as they are, else they are
//          decoded to bf16, exactly; S_DEEP: by products 128 deep; S_MX: which take the scales too; S_BK, S_SUB; S_TILES_M,
//          S_TILES_N, of a wave; S_ACROSS: 4 where S_DIRECT, 4 or 2; S_A_VECTOR, S_B_VECTOR; S_SHUFFLED, S_DIRECT: operands of B go from memory to registers; S_WORDS; S_WHOLE; S_ONE: there is one sum and no total to keep beside it; S_SLICED; S_ASYNC:
//          copies go past the registers, in S_STAGES rounds, else 1; S_GROUPED: 0 for one product, else as groups.hip says, K not cut;
//          those of scaled_end.h, of slices and groups without an end

struct ScaledArgs {
    const u8* a;
    const u8* b;
    const void* a_scales;
    const void* b_scales;
    Out* c;
    i64 a_row, b_row, a_scale_row, a_scale_k, b_scale_row, b_scale_k, c_row, c_col;
    FastDiv a_block, b_block, a_rows, b_rows;
    // f32 [slices, M, N], with S_SLICED.
    float* parts;
    u32 m, n, k, rounds, a_kind, b_kind, slice_k, unused;
#if S_GROUPED
    const i32* bounds;
    const i32* choices;
    // To the next group's, in bytes.
    i64 b_group, b_scale_group;
    // `first`: the first row of the tile's group, once it is found.
    u32 groups, group_rows, each, a_count, first, unused_too;
#endif
#if S_END
    EndArgs end;
#endif
};
static_assert(sizeof(ScaledArgs) == (S_GROUPED ? 248 : 192) + (S_END ? sizeof(EndArgs) : 0), "as in scaled.rs and grouped.rs");
static_assert(!(S_GROUPED && S_SLICED), "groups have all of K");
static_assert(!(S_END && (S_GROUPED || S_SLICED)), "the end is of whole sums, of one product");

// The rows of A that a lane's chunks and scales are of, by their numbers: those of a group are looked up once.
#if S_GROUPED
template <int COUNT> struct RowsOfA {
    u32 held[COUNT];

    // `line`: of the group; past its end it is the last one's, which nobody has.
    RF_FN void look_up(const ScaledArgs& g, int i, u32 line) {
        line = line < g.m ? line : g.m - 1;
#if S_GROUPED == 3
        const ListedRows rows = {g.choices + g.first, g.each, g.a_count - 1};
        held[i] = rows.at(line);
#else
        held[i] = g.first + line;
#endif
    }
    RF_FN u32 at(int i, u32) const { return held[i]; }
};
#else
template <int COUNT> struct RowsOfA {
    RF_FN void look_up(const ScaledArgs&, int, u32) {}
    RF_FN u32 at(int, u32 line) const { return line; }
};
#endif
struct RowsOfB {
    RF_FN u32 at(int, u32 line) const { return line; }
};

// Row and chunk of 16 bytes that number c of a tile is, of PER_ROW to a row. What lies in tiles of 16 rows is taken in that order.
template <int PER_ROW, bool TILES> struct Dealt {
    RF_FN static int row(int c) { return TILES ? c / (16 * PER_ROW) * 16 + c % 16 : c / PER_ROW; }
    RF_FN static int chunk(int c) { return TILES ? c / 16 % PER_ROW : c % PER_ROW; }
    // Where it lies, in bytes; `k` is of its first code, of so many bits.
    RF_FN static i64 place(u32 row, u32 k, i64 row_bytes, int bits) {
        if (TILES) return (i64)(row / 16) * row_bytes + (i64)k * (2 * bits) + row % 16 * 16;
        return (i64)row * row_bytes + (i64)k * bits / 8;
    }
};

// Codes of ROWS rows on their way to LDS, 16 bytes of them at once; K past the end are codes of zero, rows past theirs the last one
// again, for nobody.
template <int ROWS, int FORMAT, int ROW, bool VECTOR, bool TILES> struct Loader {
    typedef Format<FORMAT> Code;
    static const int CODES = 128 / Code::BITS, PER_ROW = S_BK / CODES, TOTAL = ROWS * PER_ROW;
    static const int ROUNDS = (TOTAL + S_THREADS - 1) / S_THREADS;
    typedef Dealt<PER_ROW, TILES> Deals;
    // Whether the rows of a lane's chunks lie so far apart that all have one place within a row.
    static const bool ALIKE = !TILES && S_THREADS % (16 * PER_ROW) == 0;
    static const u32 STEP = S_BK * (TILES ? 16 : 1) * Code::BITS / 8;
    const u8* from[ROUNDS];
    Vec<u32, 4> held[ROUNDS];

    RF_FN static bool mine(int c) { return TOTAL % S_THREADS == 0 || c < TOTAL; }
    // The line of chunk number i of this lane.
    RF_FN static u32 line(int i) { return Deals::row((int)thread_x() + i * S_THREADS); }
    template <class Rows> RF_FN void start(const Rows& of, const u8* base, i64 row_bytes, u32 first_row, u32 rows, u32 first_k) {
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            const int c = (int)thread_x() + i * S_THREADS;
            const u32 row = first_row + Deals::row(c);
            from[i] = base + Deals::place(of.at(i, row < rows ? row : rows - 1), first_k + Deals::chunk(c) * CODES, row_bytes, Code::BITS);
        }
    }
    // The next round, which begins at `first_k`.
    RF_FN void fetch(u32 first_k, u32 last_k) {
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            const int c = (int)thread_x() + i * S_THREADS;
            const u32 k = first_k + Deals::chunk(c) * CODES;
            const u8* at = from[i];
            from[i] += STEP;
            if (!S_WHOLE || !VECTOR) __builtin_memset(&held[i], 0, sizeof(held[i]));
            if (!mine(c) || (!S_WHOLE && k >= last_k)) continue;
            if (VECTOR) {
                held[i] = load<4>((const u32*)(const void*)at);
                continue;
            }
            u32 bytes = (last_k - k) * Code::BITS / 8;
#pragma unroll
            for (u32 j = 0; j < 16; ++j)
                if (j < bytes) held[i][j / 4] |= (u32)at[j] << (8 * (j % 4));
        }
    }
    RF_FN void put(char* lds) const {
#pragma unroll
        for (int i = 0; i < ROUNDS; ++i) {
            int c = (int)thread_x() + i * S_THREADS;
            if (!mine(c)) continue;
#if S_NATIVE
            const int first = ALIKE ? (int)thread_x() : c, down = ALIKE ? i * (S_THREADS / PER_ROW) * ROW : 0;
            store<4>((u32*)(void*)(lds + swizzled<ROW>(Deals::row(first), Deals::chunk(first)) + down), held[i]);
#else
            const int row = Deals::row(c), chunk = Deals::chunk(c) * (CODES * (int)sizeof(In) / 16);
#pragma unroll
            for (int j = 0; j < CODES; j += 8) {
                Vec<bf16, 8> some;
#pragma unroll
                for (int n = 0; n < 8; ++n) {
                    const int bit = (j + n) * Code::BITS;
                    u32 code = (held[i][bit / 32] >> (bit % 32)) & ((1u << Code::BITS) - 1u);
                    some[n] = cast<bf16>(Code::decode(code));
                }
                store<8>((bf16*)(void*)(lds + swizzled<ROW>(row, chunk + j / 8)), some);
            }
#endif
        }
    }
};

#if S_ASYNC
// The same past the registers, of rows: one round after the other. Rows past the end are the last one again, for nobody, as where
// they are is found once.
template <int ROWS> struct Copies {
    static_assert(ROWS * 8 % S_THREADS == 0 && S_THREADS % 128 == 0, "a lane copies whole chunks, which have one place within their rows");
    static const int EACH = ROWS * 8 / S_THREADS;
    typedef Dealt<8, false> Deals;
    const u8* from[EACH];

    template <class Rows> RF_FN void start(const Rows& of, const u8* base, i64 row_bytes, u32 first_row, u32 rows, u32 first_k) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int c = (int)thread_x() + i * S_THREADS;
            const u32 row = first_row + Deals::row(c);
            from[i] = base + Deals::place(of.at(i, row < rows ? row : rows - 1), first_k + Deals::chunk(c) * 16, row_bytes, 8);
        }
    }
    // The next round, which begins at `first_k`.
    RF_FN void copy(u32 lds, u32 first_k, u32 last_k) {
        const int c = (int)thread_x();
        const bool there = S_WHOLE || first_k + Deals::chunk(c) * 16 < last_k;
        lds += swizzled<128>(Deals::row(c), Deals::chunk(c));
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            // What is not there is not read, wherever it would be.
            copy_async(lds + i * (S_THREADS / 8) * 128, from[i], there);
            from[i] += S_BK;
        }
    }
};
#endif

#if S_MX
// The exponents of a round on their way to LDS: a word for each row, then for each column, of each 128 codes; the first 32's lowest.
typedef u32 Scale;
struct Scales {
    static const int TOTAL = S_BK / 128 * (S_BM + S_BN), EACH = (TOTAL + S_THREADS - 1) / S_THREADS;
    u32 held[EACH];
    RowsOfA<EACH> rows;

    RF_FN static u32 word(const u8* scales, i64 step, FastDiv block, u32 k, u32 last_k) {
#if S_WORDS
        return *(const u32*)(const void*)(scales + (S_WHOLE || k < last_k ? k : last_k - 128) / 32);
#else
        u32 all = 0;
#pragma unroll
        for (u32 b = 0; b < 4; ++b) {
            const u32 from = S_WHOLE || k + 32 * b < last_k ? k + 32 * b : last_k - 1;
            all |= (u32)scales[(i64)block.divide(from) * step] << (8 * b);
        }
        return all;
#endif
    }
    RF_FN void start(const ScaledArgs& g, u32 first_row) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) rows.look_up(g, i, first_row + (thread_x() + i * S_THREADS) % (S_BM + S_BN));
    }
    RF_FN void fetch(const ScaledArgs& g, u32 first_row, u32 first_col, u32 k) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const u32 c = thread_x() + i * S_THREADS, at = c % (S_BM + S_BN), from = k + c / (S_BM + S_BN) * 128;
            if (c >= TOTAL) continue;
            if (at < S_BM) {
                const u32 row = first_row + at < g.m ? first_row + at : g.m - 1;
                held[i] = word((const u8*)g.a_scales + (i64)g.a_rows.divide(rows.at(i, row)) * g.a_scale_row, g.a_scale_k, g.a_block, from, g.k);
            } else {
                const u32 col = first_col + (at - S_BM) < g.n ? first_col + (at - S_BM) : g.n - 1;
                held[i] = word((const u8*)g.b_scales + (i64)g.b_rows.divide(col) * g.b_scale_row, g.b_scale_k, g.b_block, from, g.k);
            }
        }
    }
    RF_FN void put(u32* lds) const {
#pragma unroll
        for (int i = 0; i < EACH; ++i)
            if (thread_x() + i * S_THREADS < TOTAL) lds[thread_x() + i * S_THREADS] = held[i];
    }
};
#else
typedef float Scale;
// The scales of a round: of each block, those of the rows, then of the columns; on their way to LDS.
struct Scales {
    static const int TOTAL = S_SUBS * (S_BM + S_BN), EACH = (TOTAL + S_THREADS - 1) / S_THREADS;
    float held[EACH];
    RowsOfA<EACH> rows;

    RF_FN void start(const ScaledArgs& g, u32 first_row) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) rows.look_up(g, i, first_row + (thread_x() + i * S_THREADS) % (S_BM + S_BN));
    }
    RF_FN void fetch(const ScaledArgs& g, u32 first_row, u32 first_col, u32 k) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const u32 c = thread_x() + i * S_THREADS, at = c % (S_BM + S_BN);
            if (c >= TOTAL) continue;
            u32 from = k + c / (S_BM + S_BN) * S_SUB;
            from = S_WHOLE || from < g.k ? from : g.k - 1;
            if (at < S_BM) {
                u32 row = first_row + at < g.m ? first_row + at : g.m - 1;
                held[i] = read_scale(g.a_scales, (i64)g.a_rows.divide(rows.at(i, row)) * g.a_scale_row + (i64)g.a_block.divide(from) * g.a_scale_k, g.a_kind);
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

#endif

#if S_TURNED
// A word of C; NUMBERS: of what is known to be no NaN.
template <class To, bool NUMBERS> struct Packed {
    static const int EACH = 2;
    RF_FN static u32 of(const float* x) { return NUMBERS ? two_numbers<To>(x[0], x[1]) : two_of<To>(x[0], x[1]); }
};
template <bool NUMBERS> struct Packed<float, NUMBERS> {
    static const int EACH = 1;
    RF_FN static u32 of(const float* x) { return bit_cast<u32>(*x); }
};
#if S_CODE >= 0
template <bool NUMBERS> struct Packed<OutCode, NUMBERS> {
    static const int EACH = 4;
    RF_FN static u32 of(const float* x) {
        u32 word = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) word |= (u32)cast<OutCode>(x[i]).bits << (8 * i);
        return word;
    }
};
#endif
#endif

// Sums with their scales.
struct Totals {
    float at[S_TILES_M][S_TILES_N][S_VALUES];

    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < S_TILES_M * S_TILES_N * S_VALUES; ++i)
            at[i / (S_TILES_N * S_VALUES)][i / S_VALUES % S_TILES_N][i % S_VALUES] = 0.0f;
    }
    RF_FN void add(const Tile& tile, const Scale* of_rows, const Scale* of_cols) {
#pragma unroll
        for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < S_VALUES; ++v)
#if S_MX
                    at[i][j][v] += tile.value(i, j, v);
#else
                    at[i][j][v] += tile.value(i, j, v) * of_rows[tile.row(i, v)] * of_cols[tile.col(j, v)];
#endif
    }
#if S_END
    // What follows the sums. Columns past the end are the last one again, for nobody.
    RF_FN void finish(const ScaledArgs& g, const Tile& tile, u32 first_col) {
        End end;
        end.start(g.end);
#pragma unroll
        for (int j = 0; j < S_TILES_N; ++j)
#pragma unroll
            for (int v = 0; v < S_VALUES; ++v) {
                const u32 col = first_col + tile.col(j, v);
                const float bias = end.bias(g.end, col < g.n ? col : g.n - 1);
#pragma unroll
                for (int i = 0; i < S_TILES_M; ++i) at[i][j][v] = end.of(at[i][j][v], bias);
            }
    }
#endif
    // The lane's first element is found once; from there the others are as far as rows and columns of the tile are, which is the same
    // for all lanes.
    template <bool WHOLE, typename To>
    RF_FN void write(const ScaledArgs& g, const Tile& tile, u32 first_row, u32 first_col, To* to, i64 to_row, i64 to_col) const {
        const u32 row = first_row + tile.row(0, 0), col = first_col + tile.col(0, 0);
        to += (i64)row * to_row + (i64)col * to_col;
#pragma unroll
        for (int i = 0; i < S_TILES_M; ++i)
#pragma unroll
            for (int v = 0; v < S_VALUES; ++v)
#pragma unroll
                for (int j = 0; j < S_TILES_N; ++j) {
                    const int down = Tile::down(i, v), across = Tile::across(j, v);
                    if (!WHOLE && (row + down >= g.m || col + across >= g.n)) continue;
                    to[down * to_row + across * to_col] = cast<To>(at[i][j][v]);
                }
    }
#if S_TURNED
    // Whether the lane has neither an infinity nor a NaN.
    RF_FN bool is_finite() const {
        float zeros[2] = {0.0f, 0.0f};
#pragma unroll
        for (int n = 0; n < S_TILES_M * S_TILES_N * S_VALUES; n += 2) {
            const float* pair = at[n / S_VALUES / S_TILES_N][n / S_VALUES % S_TILES_N] + n % S_VALUES;
            zeros[0] = rf::fma(pair[0], 0.0f, zeros[0]);
            zeros[1] = rf::fma(pair[1], 0.0f, zeros[1]);
        }
        return zeros[0] + zeros[1] == 0.0f;
    }
    // A whole tile of rows of neighbours, of which a lane has S_VALUES and stores up to 16 bytes at once.
    template <typename To> static constexpr int run() { return S_VALUES * (int)sizeof(To) > 16 ? 16 / (int)sizeof(To) : S_VALUES; }
    template <bool NUMBERS, typename To> RF_FN void write_runs(const Tile& tile, u32 first_row, u32 first_col, To* to, i64 to_row) const {
        to += (i64)(first_row + tile.row(0, 0)) * to_row + first_col + tile.col(0, 0);
#pragma unroll
        for (int i = 0; i < S_TILES_M; ++i) {
#pragma unroll
            for (int j = 0; j < S_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < S_VALUES; v += run<To>()) {
                    const int WORDS = run<To>() / Packed<To, NUMBERS>::EACH;
                    Vec<u32, WORDS> words;
#pragma unroll
                    for (int n = 0; n < WORDS; ++n) words[n] = Packed<To, NUMBERS>::of(at[i][j] + v + n * Packed<To, NUMBERS>::EACH);
                    store<WORDS>((u32*)(void*)(to + Tile::across(j, v)), words);
                }
            to += 16 * to_row;
        }
    }
#endif
    template <typename To>
    RF_FN void write(const ScaledArgs& g, const Tile& tile, u32 first_row, u32 first_col, To* to, i64 to_row, i64 to_col) const {
        const bool whole = g.m - first_row >= S_BM && g.n - first_col >= S_BN;
#if S_TURNED
        const u32 run_bytes = run<To>() * (u32)sizeof(To);
        if (whole && to_col == 1 && to_row % run<To>() == 0 && (u64)to % run_bytes == 0) {
            // To see whether there is a NaN takes fewer instructions than to round as if each were one, where that is no instruction.
            if (same<To, bf16>::value && !RF_CONVERTS_BF16 && is_finite())
                write_runs<true>(tile, first_row, first_col, to, to_row);
            else
                write_runs<false>(tile, first_row, first_col, to, to_row);
            return;
        }
#endif
        if (whole)
            write<true>(g, tile, first_row, first_col, to, to_row, to_col);
        else
            write<false>(g, tile, first_row, first_col, to, to_row, to_col);
    }
};

static const int TILE_BYTES = S_BM * S_A_ROW + (S_DIRECT ? 0 : S_BN * S_B_ROW);
// Codes on their way to the products. In a round, `put` comes before the barrier and `go_on` behind it, which says where the round's
// tiles are and lets those of a later one come while they are multiplied.
#if S_ASYNC
struct Operands {
    static_assert(!S_SHUFFLED, "copies past the registers are of rows");
    Copies<S_BM> a;
    Copies<S_BN> b;
    u32 place, stage;

    RF_FN void copy(u32 to, u32 k, u32 end) {
        a.copy(to, k, end);
        b.copy(to + S_BM * 128, k, end);
    }
    RF_FN void start(const ScaledArgs& g, const Tile&, char* lds, Columns&, u32 first, u32 begin, u32 end) {
        place = tile_address(lds);
        RowsOfA<Copies<S_BM>::EACH> rows;
#pragma unroll
        for (int i = 0; i < Copies<S_BM>::EACH; ++i) rows.look_up(g, i, first + Dealt<8, false>::row((int)thread_x() + i * S_THREADS));
        a.start(rows, g.a, g.a_row, first, g.m, begin);
        b.start(RowsOfB(), g.b, g.b_row, group_x() * S_BN, g.n, begin);
#pragma unroll
        for (int stage = 0; stage < S_STAGES - 1; ++stage) {
            if (!S_WHOLE || stage == 0 || begin + stage * S_BK < end) copy(place + stage * TILE_BYTES, begin + stage * S_BK, end);
            async_commit();
        }
        stage = 0;
    }
    RF_FN void put(u32) { async_wait<S_STAGES - 2>(); }
    RF_FN TileAddress go_on(const ScaledArgs& g, const Tile&, Columns&, u32, u32 k, u32 end) {
        // To the stage that was multiplied before the barrier.
        const u32 ahead = k + (S_STAGES - 1) * S_BK, to = place + (stage == 0 ? S_STAGES - 1 : stage - 1) * TILE_BYTES;
        if (ahead < end) copy(to, ahead, end);
        async_commit();
        const TileAddress tiles = place + stage * TILE_BYTES;
        stage = stage + 1 == S_STAGES ? 0 : stage + 1;
        return tiles;
    }
};
#else
struct Operands {
    typedef Loader<S_BM, S_A_FORMAT, S_A_ROW, S_A_VECTOR, false> OfA;
    OfA a;
    char* lds;
#if S_DIRECT
    u32 first_tile, tiles_n;
#else
    Loader<S_BN, S_B_FORMAT, S_B_ROW, S_B_VECTOR, S_SHUFFLED> b;
#endif
    RF_FN void start(const ScaledArgs& g, const Tile& tile, char* place, Columns& columns, u32 first, u32 begin, u32 end) {
        lds = place;
        RowsOfA<OfA::ROUNDS> rows;
#pragma unroll
        for (int i = 0; i < OfA::ROUNDS; ++i) rows.look_up(g, i, first + OfA::line(i));
        a.start(rows, g.a, g.a_row, first, g.m, begin);
#if S_DIRECT
        first_tile = (group_x() * S_BN + uniform((u32)tile.first_col)) / 16;
        tiles_n = (g.n + 15) / 16;
        columns.fetch(g.b, g.b_row, first_tile, tiles_n, begin, tile.lane_id);
#else
        b.start(RowsOfB(), g.b, g.b_row, group_x() * S_BN, g.n, begin);
#endif
        fetch(begin, end);
    }
    RF_FN void fetch(u32 k, u32 end) {
#if !S_DIRECT
        b.fetch(k, end);
#endif
        a.fetch(k, end);
    }
    // With one tile, waves wait before they overwrite it; with two, those that still read are one round behind.
    RF_FN char* here(u32 turn) const { return lds + (S_DIRECT ? turn * TILE_BYTES : 0); }
    RF_FN void put(u32 turn) {
#if !S_DIRECT
        barrier();
        b.put(lds + S_BM * S_A_ROW);
#endif
        a.put(here(turn));
    }
    RF_FN TileAddress go_on(const ScaledArgs& g, const Tile& tile, Columns& coming, u32 turn, u32 k, u32 end) {
        if (k + S_BK < end) {
            fetch(k + S_BK, end);
#if S_DIRECT
            coming.fetch(g.b, g.b_row, first_tile, tiles_n, k + S_BK, tile.lane_id);
#endif
        }
        return tile_address(here(turn));
    }
};
#endif

#define S_CDNA (S_MATRIX && RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA)
// Rounds of loading and multiplying: codes and scales come while those before them are multiplied. Scales are fetched one round before
// they are needed.
struct Rounds {
    // Whether rounds alternate in `columns`, whose operands then change places without copies; beside totals there are no registers for it.
    static const int BY_TWO = S_CDNA && S_DIRECT && S_ONE;
    Operands operands;
    Scales next;
    // Operands of B: of this round and, where they go to registers, of the next.
    Columns columns[2];
    // `each`: rounds that are summed before a scale, or one where scales come within a round; `open`: of these, those to come.
    u32 first_row, first_col, end, each, open, k, turn;

    RF_FN void start(const ScaledArgs& g, const Tile& tile, char* lds, u32 row, u32 begin, u32 last_k) {
        first_row = row;
        first_col = group_x() * S_BN;
        end = last_k;
        each = S_SUBS > 1 ? 1 : g.rounds;
        k = begin;
        turn = 0;
        operands.start(g, tile, lds, columns[0], first_row, begin, end);
        next.start(g, first_row);
        if (S_MX || each == 1 || begin + S_BK >= end) next.fetch(g, first_row, first_col, begin);
    }
    // The next round, with operands of B in columns[NOW]; the first of a sum begins it. Whether a scale follows it.
    template <bool FIRST, int NOW> RF_FN bool one(const ScaledArgs& g, Tile& tile, Totals& total, Scale (*scales)[Scales::TOTAL]) {
        const bool last = k + S_BK >= end, scaled = open == 1 || last;
        operands.put(turn);
        if (S_MX || scaled) next.put(scales[turn]);
        barrier();
        const TileAddress tiles = operands.go_on(g, tile, columns[1 - NOW], turn, k, end);
        const u32 coming = open == 1 ? each : open - 1;
        if (!last && (S_MX || coming == 1 || k + 2 * S_BK >= end)) next.fetch(g, first_row, first_col, k + S_BK);
        if (FIRST) tile.clear();
#pragma unroll
        for (int sub = 0; sub < S_SUBS; ++sub) {
            if (!S_WHOLE && S_SUBS > 1 && k + sub * S_SUB >= end) break;
            tile.multiply(tiles, tiles + S_BM * S_A_ROW, columns[NOW], (const u32*)scales[turn], sub);
            if (S_SUBS == 1) continue;
            const Scale* of_rows = scales[turn] + sub * (S_BM + S_BN);
            total.add(tile, of_rows, of_rows + S_BM);
            tile.clear();
        }
        if (!BY_TWO) columns[0] = columns[1];
        k += S_BK;
        turn ^= 1;
        --open;
        return scaled;
    }
    // Those that are summed before a scale; where they come within a round, one.
    RF_FN void sum(const ScaledArgs& g, Tile& tile, Totals& total, Scale (*scales)[Scales::TOTAL]) {
        open = each;
#if S_CDNA
        // The first stands alone: its products are added to a constant, and no registers become zeros. On RDNA it would cost more than that.
        bool scaled = one<true, 0>(g, tile, total, scales);
        while (!scaled) scaled = one<false, BY_TWO>(g, tile, total, scales) || (BY_TWO && one<false, 0>(g, tile, total, scales));
#else
        tile.clear();
        while (!one<false, 0>(g, tile, total, scales)) {}
#endif
    }
};

// Where the rows of a workgroup's tile begin. Where products are grouped, `g` becomes that of the tile's group; whether there is one.
RF_FN bool go_to_rows(ScaledArgs& g, u32& first_row) {
    first_row = group_y() * S_BM;
#if S_GROUPED
    Group<S_GROUPED, S_BM> group;
    if (!group.find(g, group_y())) return false;
    first_row = group.tile * S_BM;
    g.m = group.rows;
    g.first = group.first;
    g.b += (i64)group.number * g.b_group;
    g.b_scales = (const char*)g.b_scales + (i64)group.number * g.b_scale_group;
    g.c += (i64)group.first * g.c_row;
#endif
    return true;
}

// Two waves to a SIMD hide each other's waits: tall tiles would take more than half of its registers.
#if S_CDNA
#define S_RESIDENT __attribute__((amdgpu_waves_per_eu(2)))
#else
#define S_RESIDENT
#endif
extern "C" __global__ __launch_bounds__(S_THREADS) S_RESIDENT void q_scaled(ScaledArgs g) {
#if S_SLICED
    const u32 begin = group_z() * g.slice_k, end = g.k - begin < g.slice_k ? g.k : begin + g.slice_k;
#else
    const u32 begin = 0, end = g.k;
#endif
#if S_ASYNC
    extern __shared__ __attribute__((aligned(16))) char lds[];
#else
    __shared__ __attribute__((aligned(16))) char lds[(S_DIRECT ? 2 : 1) * TILE_BYTES];
#endif
    __shared__ Scale scales[2][Scales::TOTAL];
    const u32 first_col = group_x() * S_BN;
    u32 first_row;
    if (!go_to_rows(g, first_row)) return;
    Tile tile;
    Totals total;
    tile.start();
    total.clear();
    Rounds rounds;
    rounds.start(g, tile, lds, first_row, begin, end);
    do {
        rounds.sum(g, tile, total, scales);
        const Scale* of_rows = scales[rounds.turn ^ 1];
        if (S_SUBS == 1) total.add(tile, of_rows, of_rows + S_BM);
    } while (!S_ONE && rounds.k < end);
#if S_SLICED
    total.write(g, tile, first_row, first_col, g.parts + (i64)group_z() * g.m * g.n, g.n, 1);
#else
#if S_END
    total.finish(g, tile, first_col);
#endif
    total.write(g, tile, first_row, first_col, g.c, g.c_row, g.c_col);
#endif
}
