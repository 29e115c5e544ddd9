// few: C = A W for few rows of A, whose codes go from memory to operands of the matrix unit in registers of one lane
//
// Shapes : as coded.h says, words of 32 bits along N
// Grid   : few (ceil(N / F_STRIP), ceil(M / F_ROWS), slices)               one workgroup per strip of columns, rows and slice of K
// Block  : (F_WAVES * ARCH_WAVE_SIZE, 1, 1)                                F_SIDE of them side by side along N, the others along K
// LDS    : TURN * KEPT * LINE floats
// Needs  : words that the launch ahead does not write, but for groups; A and C of 16 bits, K % 32 == 0, slices of whole 32 k, rows of A contiguous and aligned to 16 bytes, words of a row
//          neighbours, rows of them whole, aligned vectors of F_WIDE words, all within 4 GiB, scales' blocks along K multiples of 32; F_BESIDE:
//          scales of neighbouring columns side by side, in aligned vectors; C apart from all inputs        checked by the launcher
// Numeric: codes enter exactly. The sum over a block of scales, or what a wave has of it, is multiplied by the scale in f32 and added in
//          ascending order of K; a wave takes K's multiples of F_SLAB in its part, waves are added in ascending order. Within a slab the
//          order is that of the unit, of which a lane group's operands are neighbouring k. Q_LATE: scales multiply the last sum.
//
// Macros : those of few_sums.h; F_STAGES slabs under way, a multiple of F_FOLD
static_assert(F_HIGH == 1 && F_STAGES % F_FOLD == 0, "checked by the launcher");
// Slabs under way. Floats of 8 bits that RDNA 3 decodes one by one leave it no registers for more.
static const int STAGES = ARCH_MATRIX == ARCH_MATRIX_WMMA11 && Q_FORMAT > 2 && Code::BITS == 8 ? 1 : F_STAGES;
static_assert(STAGES % F_FOLD == 0, "RDNA's folds are one slab");
// Words of A that a lane reads at once.
static const int GIVEN = RUN < 8 ? RUN / 2 : 4;

// --- a wave's part ---

// What a lane has of a slab: rows of words, and the same k of A's rows.
struct SlabWords {
    Vec<u32, F_WIDE> at[RUN];
};
struct SlabRows {
    Vec<u32, GIVEN> at[F_TILES][RUN / 2 / GIVEN];
};
struct Part {
    WaveSums sums;
#if Q_GROUPED == 3
    const In* a[F_TILES];
#else
    const In* a;
#endif
    // From one row of words to the next; where a lane's are in those of a slab.
    u32 row_bytes, word_bytes;
    u32 row, col, slab, end;
#if F_SPREAD
    // Bytes of two k of A's row and of zeros that are the operands.
    u32 first_k, second_k;
#endif

    RF_FN void start(const QMatmulArgs& g, const RowsOfA& rows, u32 first_row, u32 wave, u32 lane_id) {
        const u32 first = group_z() * (g.slice_k / SLAB), last = first + g.slice_k / SLAB, most = g.k / SLAB;
        const u32 slabs = (last < most ? last : most) - first, part = wave / F_SIDE;
        slab = first + slabs / F_FOLD * part / PARTS * F_FOLD;
        end = first + slabs / F_FOLD * (part + 1) / PARTS * F_FOLD;
        col = group_x() * STRIP + wave % F_SIDE * COLUMNS + Unit::place(lane_id) * CODES;
        // Past the end the first columns are read and forgotten.
        col = col < g.n ? col : 0;
        row = first_row + Unit::given(lane_id);
#if F_SPREAD
        const bool is_low = Unit::place(lane_id) % 2 == 0;
        first_k = is_low ? 0x4410 : 0x1044;
        second_k = is_low ? 0x4432 : 0x3244;
#endif
        const u32 k = Unit::group(lane_id) * RUN;
        row_bytes = (u32)g.w_k * 4;
        word_bytes = k * row_bytes + col / Q_PER * 4;
#if Q_GROUPED == 3
#pragma unroll
        for (int t = 0; t < F_TILES; ++t) {
            const u32 own = row + t * Unit::ROWS;
            a[t] = g.a + (i64)(own < g.m ? rows.at(own) : 0) * g.a_row + k;
        }
#else
        a = g.a + (i64)row * g.a_row + k;
#endif
        sums.clear();
    }
    // The first accesses.
    RF_FN void begin(const QMatmulArgs& g) {
        sums.begin(g, slab < end, slab * SLAB, col);
    }
    RF_FN void fetch(const QMatmulArgs& g, u32 of, SlabWords& words) const {
        if (of >= end) return;
        const u32 at = of * SLAB * row_bytes + word_bytes;
#pragma unroll
        for (int i = 0; i < RUN; ++i) words.at[i] = load_once<F_WIDE>((const u32*)((const char*)g.words + (at + i * row_bytes)));
    }
    RF_FN void fetch(const QMatmulArgs& g, u32 of, SlabRows& x) const {
        if (of >= end) return;
#pragma unroll
        for (int t = 0; t < F_TILES; ++t)
#pragma unroll
            for (int i = 0; i < RUN / 2 / GIVEN; ++i) {
#if Q_GROUPED == 3
                const In* at = a[t] + of * SLAB + i * 2 * GIVEN;
#else
                const In* at = a + (i64)(t * Unit::ROWS) * g.a_row + of * SLAB + i * 2 * GIVEN;
#endif
                if (row + t * Unit::ROWS < g.m) x.at[t][i] = load<GIVEN>((const u32*)at);
                else __builtin_memset(&x.at[t][i], 0, 4 * GIVEN);
            }
    }
    // What a product takes of A's row number `t`, of a step's k.
    RF_FN void given(const SlabRows& rows, int t, int step, u32* x) const {
#if F_SPREAD
        x[0] = bytes_of(rows.at[t][0][step], first_k);
        x[1] = bytes_of(rows.at[t][0][step], second_k);
#else
#pragma unroll
        for (int p = 0; p < DEEP / 2; ++p) {
            const int at = step * (DEEP / 2) + p;
            x[p] = rows.at[t][at / GIVEN][at % GIVEN];
        }
#endif
    }
    RF_FN void multiply(const SlabWords& words, const SlabRows& rows) {
#pragma unroll
        for (int step = 0; step < RUN / DEEP; ++step) {
            u32 x[F_TILES][TAKEN];
#pragma unroll
            for (int t = 0; t < F_TILES; ++t) given(rows, t, step, x[t]);
            sums.add(words.at + step * DEEP, x);
        }
        ++slab;
    }
    // The first slabs' words, which may be read before the launch ahead has ended.
    RF_FN void fetch_first(const QMatmulArgs& g, SlabWords (&words)[STAGES]) const {
#pragma unroll
        for (int i = 0; i < STAGES; ++i) fetch(g, slab + i, words[i]);
    }
    RF_FN void run(const QMatmulArgs& g, SlabWords (&words)[STAGES]) {
        SlabRows rows[STAGES];
#pragma unroll
        for (int i = 0; i < STAGES; ++i) fetch(g, slab + i, rows[i]);
#pragma unroll 1
        while (slab < end) {
#pragma unroll
            for (int i = 0; i < STAGES; ++i) {
                if (i > 0 && slab >= end) break;
                multiply(words[i], rows[i]);
                if (i % F_FOLD == F_FOLD - 1) sums.fold(g, slab < end, slab * SLAB, col);
                fetch(g, slab + STAGES - 1, words[i]);
                fetch(g, slab + STAGES - 1, rows[i]);
            }
        }
    }
};

extern "C" __global__ RF_WAITS_ITSELF __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE) void few(QMatmulArgs g) {
    __shared__ float lds[TURN][KEPT * LINE];
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), lane_id = thread_x() % ARCH_WAVE_SIZE;
    const u32 first_col = group_x() * STRIP;
    u32 first_row;
    RowsOfA rows;
    Part part;
    SlabWords words[STAGES];
#if !Q_GROUPED
    go_to_tile<ROWS>(g, rows, first_row);
    part.start(g, rows, first_row, wave, lane_id);
    part.fetch_first(g, words);
#endif
    wait_for_launches();
#if Q_GROUPED
    // Which rows are a group is what the launch ahead says.
    if (!go_to_tile<ROWS>(g, rows, first_row)) return;
    part.start(g, rows, first_row, wave, lane_id);
    part.fetch_first(g, words);
#endif
    let_launches_begin();
    part.begin(g);
    part.run(g, words);
    add_waves(g, part.sums, wave, lds, first_row, first_col, lane_id);
}
