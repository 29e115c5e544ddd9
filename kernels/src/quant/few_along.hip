// few_along: C = A W for few rows of A and codes along K, which go from memory to operands of the matrix unit in registers of one lane
//
// Shapes : as coded.h says, words of 32 bits along K
// Grid   : few_along (ceil(N / STRIP), ceil(M / ROWS), slices)             one workgroup per strip of columns, rows and slice of K
// Block  : (F_WAVES * ARCH_WAVE_SIZE, 1, 1)                                all of which cut K
// LDS    : TURN * KEPT * LINE floats
// Needs  : words that the launch ahead does not write, but for groups; A and C of 16 bits, K whole runs of 16 bytes, slices of whole slabs, rows of A contiguous and aligned to 16 bytes, words of a
//          column neighbours, aligned to 16 bytes, all within 4 GiB; scales' blocks along K whole slabs, or with F_SCALED whole runs or
//          halves of them; C apart from all inputs                                        checked by the launcher
// Numeric: codes enter exactly; the sum over a block of scales, or what a wave has of it, is multiplied by the scale in f32 and added in
//          ascending order of K. F_SCALED: global * scale multiplies each code, rounded once to A's type. A wave takes K's multiples of SLAB
//          in its part, waves are added in ascending order. Within a slab the order is that of the unit, whose operands take k of each
//          lane's run as halves of its words come. Q_LATE: scales multiply the last sum.
//
// Macros : those of few_along.h and few_sums.h; F_STAGES slabs under way

// Scales of a lane's codes in a slab, or what stands for one.
static const int PER_RUN = F_SCALED ? F_SCALED : 1;

// What a lane has of a slab: words of its columns, and the same k of A's rows.
struct SlabWords {
    Vec<u32, 4> at[CODES];
#if F_SCALED
    u32 scale[CODES][F_SCALED];
#endif

    // Pair number `n` of a column's codes.
    RF_FN u32 pair(int column, int n, const Weights (*weights)[PER_RUN]) const {
        return weights[column][n / (RUN / 2 / PER_RUN)].pair(at[column][n / PER_HALF], n % PER_HALF);
    }
};
struct SlabRows {
    Vec<u32, 4> at[F_TILES][RUN / 8];
};
struct Part {
    WaveSums sums;
    const In* a[F_TILES];
    // Where the words of a lane's columns begin.
    u32 words_at[CODES];
#if F_SCALED
    i64 scales_at[CODES];
#endif
    u32 row, col, own_k, slab, end;

    RF_FN void start(const QMatmulArgs& g, const RowsOfA& rows, u32 first_row, u32 wave, u32 lane_id) {
        const u32 each = (g.slice_k + SLAB - 1) / SLAB, first = group_z() * each, last = first + each;
        const u32 most = (g.k + SLAB - 1) / SLAB, slabs = (last < most ? last : most) - first;
        slab = first + slabs * wave / PARTS;
        end = first + slabs * (wave + 1) / PARTS;
        col = group_x() * STRIP + Unit::place(lane_id);
        row = first_row + Unit::given(lane_id);
        own_k = Unit::group(lane_id) * RUN;
#pragma unroll
        for (int i = 0; i < CODES; ++i) {
            const u32 own = column_of(g, col, i);
            words_at[i] = own * ((u32)g.w_n * 4) + own_k / Q_PER * 4;
#if F_SCALED
            scales_at[i] = (i64)g.block_n.divide(own) * g.s_n;
#endif
        }
#pragma unroll
        for (int t = 0; t < F_TILES; ++t) {
            const u32 own = row + t * Unit::ROWS;
            a[t] = g.a + (i64)(own < g.m ? rows.at(own) : 0) * g.a_row + own_k;
        }
        sums.clear();
    }
    // The first accesses.
    RF_FN void begin(const QMatmulArgs& g) { sums.begin(g, slab < end, slab * SLAB, col); }
    // Whether a lane's k of a slab are there.
    RF_FN bool is_there(const QMatmulArgs& g, u32 of) const { return !F_TAIL || of * SLAB + own_k < g.k; }
    RF_FN void fetch_codes(const QMatmulArgs& g, u32 of, SlabWords& words) const {
        if (of >= end) return;
        if (!is_there(g, of)) {
            __builtin_memset(&words, 0, sizeof(words));
            return;
        }
#pragma unroll
        for (int i = 0; i < CODES; ++i)
            words.at[i] = load_once<4>((const u32*)((const char*)g.words + (words_at[i] + of * (SLAB / Q_PER * 4))));
    }
    RF_FN void fetch_scales(const QMatmulArgs& g, u32 of, SlabWords& words) const {
#if F_SCALED
        if (of >= end || !is_there(g, of)) return;
#pragma unroll
        for (int part = 0; part < F_SCALED; ++part) {
            const i64 at = (i64)g.block_k.divide(of * SLAB + own_k + part * (RUN / F_SCALED)) * g.s_k;
#pragma unroll
            for (int i = 0; i < CODES; ++i) words.scale[i][part] = bits_of_scale(g, at + scales_at[i]);
        }
#endif
    }
    RF_FN void fetch(const QMatmulArgs& g, u32 of, SlabRows& x) const {
        if (of >= end) return;
#pragma unroll
        for (int t = 0; t < F_TILES; ++t)
#pragma unroll
            for (int i = 0; i < RUN / 8; ++i) {
                if (row + t * Unit::ROWS < g.m && is_there(g, of)) x.at[t][i] = load<4>((const u32*)(a[t] + (of * SLAB + i * 8)));
                else __builtin_memset(&x.at[t][i], 0, 16);
            }
    }
    RF_FN void multiply(const SlabWords& words, const SlabRows& rows) {
        Weights weights[CODES][PER_RUN];
#pragma unroll
        for (int i = 0; i < CODES * PER_RUN; ++i) {
#if F_SCALED
            weights[i / PER_RUN][i % PER_RUN].start(sums.global * Scale::value(words.scale[i / PER_RUN][i % PER_RUN]));
#else
            weights[i / PER_RUN][i % PER_RUN].start(1.0f);
#endif
        }
#pragma unroll
        for (int step = 0; step < RUN / DEEP; ++step) {
            u32 x[F_TILES][TAKEN];
#pragma unroll
            for (int t = 0; t < F_TILES; ++t)
#pragma unroll
                for (int p = 0; p < DEEP / 2; ++p) x[t][p] = pair_of_row(rows.at[t], step * (DEEP / 2) + p);
#pragma unroll
            for (int p = 0; p < PRODUCTS; ++p) {
                u32 w[Unit::COLUMNS * (DEEP / 2)];
#pragma unroll
                for (int n = 0; n < Unit::COLUMNS * (DEEP / 2); ++n)
                    w[n] = words.pair(p * Unit::COLUMNS + n / (DEEP / 2), step * (DEEP / 2) + n % (DEEP / 2), weights);
#pragma unroll
                for (int t = 0; t < F_TILES; ++t) Unit::add(w, x[t], sums.sum[t][p]);
            }
        }
        ++slab;
    }
    // The first slabs' codes, which may be read before the launch ahead has ended.
    RF_FN void fetch_first(const QMatmulArgs& g, SlabWords (&words)[F_STAGES]) const {
#pragma unroll
        for (int i = 0; i < F_STAGES; ++i) fetch_codes(g, slab + i, words[i]);
    }
    RF_FN void run(const QMatmulArgs& g, SlabWords (&words)[F_STAGES]) {
        SlabRows rows[F_STAGES];
#pragma unroll
        for (int i = 0; i < F_STAGES; ++i) {
            fetch_scales(g, slab + i, words[i]);
            fetch(g, slab + i, rows[i]);
        }
#pragma unroll 1
        while (slab < end) {
#pragma unroll
            for (int i = 0; i < F_STAGES; ++i) {
                if (i > 0 && slab >= end) break;
                multiply(words[i], rows[i]);
                sums.fold(g, slab < end, slab * SLAB, col);
                fetch_codes(g, slab + F_STAGES - 1, words[i]);
                fetch_scales(g, slab + F_STAGES - 1, words[i]);
                fetch(g, slab + F_STAGES - 1, rows[i]);
            }
        }
    }
};

// Of few rows a lane needs no more registers than leave NVIDIA's multiprocessor 16 waves: some workgroups load while others begin or end.
#if RF_DEVICE_AMD || F_TILES > 1
#define F_BOUNDS __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE)
#else
#define F_BOUNDS __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE, 16 / F_WAVES)
#endif
extern "C" __global__ RF_WAITS_ITSELF F_BOUNDS void few_along(QMatmulArgs g) {
    __shared__ float lds[TURN][KEPT * LINE];
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), lane_id = thread_x() % ARCH_WAVE_SIZE;
    u32 first_row;
    RowsOfA rows;
    Part part;
    SlabWords words[F_STAGES];
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
    add_waves(g, part.sums, wave, lds, first_row, group_x() * STRIP, lane_id);
}
