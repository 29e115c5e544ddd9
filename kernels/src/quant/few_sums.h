// few_sums.h: the sums of a wave, scaled block by block, and what becomes of them: waves that cut K are added and stored. Stands behind
// few.h, or where F_ALONG_K behind few_along.h.
//
// Macros : those of few.h or few_along.h; F_KEPT rows of C that there may be: 1, or all; F_SUM_BYTES of LDS for the sum over the waves
#define F_TOTALS (!Q_LATE && !F_SCALED)
struct WaveSums {
    Unit::Sums sum[F_TILES][PRODUCTS];
    Constants<WAY> constants;
#if F_TOTALS
    Unit::Sums total[F_TILES][PRODUCTS];
    Scales scales;
#endif
    float global;

    RF_FN void clear() {
#pragma unroll
        for (int i = 0; i < F_TILES * PRODUCTS; ++i) Unit::clear(sum[i / PRODUCTS][i % PRODUCTS]);
#if F_TOTALS
#pragma unroll
        for (int i = 0; i < F_TILES * PRODUCTS; ++i) Unit::clear(total[i / PRODUCTS][i % PRODUCTS]);
#endif
    }
    // The first accesses, of a lane's columns from `col` on; `any`: there is something to be summed from `k` on.
    RF_FN void begin(const QMatmulArgs& g, bool any, u32 k, u32 col) {
        global = global_of(g);
#if F_TOTALS
        if (any) scales.start(g, k, col);
#endif
    }
#if !F_ALONG_K
    // What DEEP rows of a lane's words and the same k of A's rows give.
    template <class Words> RF_FN void add(const Words* words, const u32 (*x)[TAKEN]) {
#pragma unroll
        for (int word = 0; word < F_WIDE; ++word) {
            Operand operand;
            operand.start(words, word);
#pragma unroll
            for (int p = 0; p < WORD_CODES / Unit::COLUMNS; ++p) {
                u32 w[Operand::WORDS];
                operand.of(constants, p, w);
#pragma unroll
                for (int t = 0; t < F_TILES; ++t) Unit::add(w, x[t], sum[t][word * (WORD_CODES / Unit::COLUMNS) + p]);
            }
        }
    }
#endif
    // At the end of a block of scales: what has been summed is scaled. `more`: from `k` on there is more.
    RF_FN void fold(const QMatmulArgs& g, bool more, u32 k, u32 col) {
#if F_TOTALS
        if (more && g.block_k.divide(k) == scales.block) return;
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p) {
            float scale[Unit::COLUMNS];
#pragma unroll
            for (int c = 0; c < Unit::COLUMNS; ++c) scale[c] = scales.of(g, col, Unit::code(p, c));
#pragma unroll
            for (int t = 0; t < F_TILES; ++t) {
#pragma unroll
                for (int i = 0; i < Unit::VALUES; ++i)
                    total[t][p][i] = rf::fma(scale[Unit::column(i)], sum[t][p][i], total[t][p][i]);
                Unit::clear(sum[t][p]);
            }
        }
        if (more) scales.start(g, k, col);
#endif
    }
    RF_FN float value(int t, int p, int i) const {
#if F_TOTALS
        return total[t][p][i] * (global * GROWN_SUMS);
#else
        return sum[t][p][i] * GROWN_SUMS;
#endif
    }
};

// A wave's place in its workgroup: in words, along N, along M, along K.
struct Place {
    int share, side, high, part;
    RF_FN Place(u32 wave)
        : share(wave % F_SHARE), side(wave / F_SHARE % F_SIDE), high(wave / (F_SHARE * F_SIDE) % F_HIGH),
          part(wave / (F_SHARE * F_SIDE * F_HIGH)) {}
};

// A row of C in LDS: STEP floats for each of a lane's codes, whose lanes lie side by side. So lanes store without a conflict, and
// neighbouring columns are read in banks of their own. Where codes lie along K, lanes are neighbours, and nothing need be moved apart.
static const int BANKS = LANE_CODES < 32 ? 32 / LANE_CODES : 1;
static const int STEP = F_ALONG_K ? Unit::LANES : (((Unit::LANES + BANKS - 1) / BANKS) | 1) * BANKS;
static const int SPAN = (LANE_CODES * STEP + 31) / 32 * 32, LINE = F_SIDE * SPAN + 32, KEPT = F_KEPT == 1 ? 1 : ROWS;
// Waves along K that LDS has room for at a time.
static const int ROOM = F_SUM_BYTES / 4 / (KEPT * LINE), TURN = ROOM < 1 ? 1 : ROOM < PARTS ? ROOM : PARTS;
static const int OUTPUTS = KEPT * STRIP, ROUNDS = (OUTPUTS + THREADS - 1) / THREADS;

// Adds the waves along K in ascending order, through TURN * KEPT * LINE floats of LDS, and stores C.
RF_FN void add_waves(const QMatmulArgs& g, const WaveSums& sums, Place at, float (*lds)[KEPT * LINE], u32 first_row, u32 first_col,
                     u32 lane_id) {
    float out[ROUNDS];
#pragma unroll
    for (int o = 0; o < ROUNDS; ++o) out[o] = 0.0f;
    const int place = Unit::place(lane_id);
#pragma unroll 1
    for (int turn = 0; turn < PARTS; turn += TURN) {
        if (turn > 0) barrier();
        const int part = at.part - turn;
        if (part >= 0 && part < TURN) {
#pragma unroll
            for (int n = 0; n < F_TILES * PRODUCTS * Unit::VALUES; ++n) {
                const int i = n % Unit::VALUES, p = n / Unit::VALUES % PRODUCTS, t = n / Unit::VALUES / PRODUCTS;
                const int row = at.high * WAVE_ROWS + t * Unit::ROWS + Unit::row(i, lane_id);
                // What no lane has of a single row is known without its number.
                if (KEPT == 1 && i % (Unit::VALUES / Unit::COLUMNS) != 0) continue;
                if (KEPT > 1 || row == 0)
                    lds[part][row * LINE + Unit::skew(row) + at.side * SPAN + (at.share * CODES + Unit::code(p, Unit::column(i))) * STEP +
                              place] =
                        sums.value(t, p, i);
            }
        }
        barrier();
#pragma unroll
        for (int o = 0; o < ROUNDS; ++o) {
            const int n = o * THREADS + (int)thread_x(), row = n / STRIP, c = n % STRIP;
            if (n >= OUTPUTS || first_row + row >= g.m) continue;
            const int code = F_ALONG_K ? c % COLUMNS / Unit::LANES : c % LANE_CODES;
            const int lane = F_ALONG_K ? c % Unit::LANES : c % COLUMNS / LANE_CODES;
            const int from = row * LINE + Unit::skew(row) + c / COLUMNS * SPAN + code * STEP + lane;
#pragma unroll
            for (int w = 0; w < TURN; ++w)
                if (turn + w < PARTS) out[o] += lds[w][from];
        }
    }
#pragma unroll
    for (int o = 0; o < ROUNDS; ++o) {
        const int n = o * THREADS + (int)thread_x(), row = n / STRIP, c = n % STRIP;
        if (n < OUTPUTS && first_row + row < g.m && first_col + c < g.n)
            finish(g, group_z(), first_row + row, first_col + c, out[o], global_of(g));
    }
}
