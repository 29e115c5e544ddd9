// gguf_matrix: C = A W for groups of few rows, W of blocks of GGUF, whose codes become operands of the matrix unit in registers of one lane
//
// Shapes : as coded.h says; lines of blocks, one for each column, `w_n` bytes apart
// Grid   : (ceil(N / STRIP), tiles of ROWS rows of groups, 1)
// Block  : (F_WAVES * ARCH_WAVE_SIZE, 1, 1)
// LDS    : TURN * KEPT * LINE floats
// Needs  : A of 16 bits, its rows contiguous and aligned to 16 bytes; whole blocks, a group's within 4 GiB      checked by the launcher
// Numeric: codes enter exactly; the sum over the weights of one scale is multiplied by it in f32, the sum of A's elements there by the
//          offset, and both are added in ascending order of K. What made codes positive is taken away from sums as gguf_matrix.h says. A
//          wave takes its part of K's slabs, waves are added in ascending order; how many there are K alone decides.
//
// Macros : those of gguf_matrix.h and few_sums.h; F_STAGES slabs under way; F_AHEAD: rows of A are too, else a run's are read before it

// A lane's k of a slab, or of a run of it, of its rows of A.
struct SlabRows {
    static const int RUNS = F_AHEAD ? Type::RUNS : 1;
    u32 at[F_TILES][RUNS][PAIRS];

    RF_FN void fetch(const In* const* a, int run) {
#pragma unroll
        for (int t = 0; t < F_TILES; ++t) {
            u32* to = at[t][F_AHEAD ? run : 0];
#pragma unroll
            for (int i = 0; i < LANE_RUN; i += PIECE) {
                const u32* from = (const u32*)(a[t] + (run * Type::RUN + i / PIECE * 16));
                const int wide = PIECE < 8 ? PIECE / 2 : 4;
#pragma unroll
                for (int j = 0; j < PIECE / 2; j += wide) {
                    const Vec<u32, wide> some = load<wide>(from + j);
#pragma unroll
                    for (int n = 0; n < wide; ++n) to[i / 2 + j + n] = some[n];
                }
            }
#pragma unroll
            for (int i = LANE_RUN / 2; i < PAIRS; ++i) to[i] = 0;
        }
    }
};

struct Part {
    WaveSums sums;
    // Where a lane's rows and the blocks of its columns begin that are read next.
    const In* a[F_TILES];
    const u8* blocks[CODES];
    // The slab that is multiplied next, and the one that is read; where this wave's end.
    u32 slab, read, end;
    u32 power;
    int group;

    RF_FN void start(const QMatmulArgs& g, const RowsOfA& rows, u32 first_row, u32 wave, u32 lane_id) {
        const Place at(wave);
        const u32 all = g.k / Gguf<Q_GGUF>::SIZE, col = group_x() * STRIP + at.side * COLUMNS + Unit::place(lane_id);
        const u32 first = all * at.part / PARTS;
        read = slab = first * Type::PARTS;
        end = all * (at.part + 1) / PARTS * Type::PARTS;
        group = Unit::group(lane_id);
        power = POWER;
        make_anew(power);
#pragma unroll
        for (int i = 0; i < CODES; ++i) {
            // Past the end the last one is read and forgotten.
            const u32 own = col + i * Unit::LANES;
            blocks[i] = g.words + ((i64)(own < g.n ? own : g.n - 1) * g.w_n + first * Gguf<Q_GGUF>::BYTES);
        }
#pragma unroll
        for (int t = 0; t < F_TILES; ++t) {
            // What comes of a row past the end is not stored.
            const u32 own = first_row + Unit::given(lane_id) + t * Unit::ROWS;
            a[t] = g.a + ((i64)rows.at(own < g.m ? own : first_row) * g.a_row + slab * SLAB + group * PIECE);
        }
        sums.clear();
    }
    // Of part `part` of a block.
    RF_FN void fetch(int part, Type* held, SlabRows& x) {
        if (read >= end) return;
#pragma unroll
        for (int i = 0; i < CODES; ++i) {
            held[i].fetch(bytes_at(blocks[i]), part, group);
            if (part == Type::PARTS - 1) blocks[i] += Gguf<Q_GGUF>::BYTES;
        }
        ++read;
        if (!F_AHEAD) return;
#pragma unroll
        for (int run = 0; run < Type::RUNS; ++run) x.fetch(a, run);
        next_rows();
    }
    RF_FN void next_rows() {
#pragma unroll
        for (int t = 0; t < F_TILES; ++t) a[t] += SLAB;
    }
    RF_FN void multiply(Type* held, SlabRows& x) {
#pragma unroll
        for (int i = 0; i < CODES; ++i) held[i].start();
#pragma unroll
        for (int run = 0; run < Type::RUNS; ++run) {
            if (!F_AHEAD) x.fetch(a, run);
            Unit::Sums base[F_TILES];
            u32 less[Unit::COLUMNS * TAKEN];
#pragma unroll
            for (int n = 0; n < Unit::COLUMNS * TAKEN; ++n) less[n] = BASE_PAIR;
#pragma unroll
            for (int t = 0; t < F_TILES; ++t) {
                Unit::clear(base[t]);
                if (F_SIGNED) continue;
#pragma unroll
                for (int step = 0; step < STEPS; ++step) Unit::add(less, x.at[t][F_AHEAD ? run : 0] + step * TAKEN, base[t]);
            }
#pragma unroll
            for (int p = 0; p < PRODUCTS; ++p) add(held + p * Unit::COLUMNS, run, p, base, x);
            hold_schedule();
        }
        if (!F_AHEAD) next_rows();
        ++slab;
    }
    // A run's columns of one product.
    RF_FN void add(const Type* held, int run, int p, const Unit::Sums* base, const SlabRows& x) {
        u32 w[STEPS][Unit::COLUMNS * TAKEN];
        float scale[Unit::COLUMNS], offset[Unit::COLUMNS];
        operands_of(held, run, PairBits(), w);
#pragma unroll
        for (int c = 0; c < Unit::COLUMNS; ++c) {
            scale[c] = held[c].scale(run, power);
            offset[c] = held[c].offset(run, power);
        }
#pragma unroll
        for (int t = 0; t < F_TILES; ++t) {
            Unit::Sums sum = base[t];
#pragma unroll
            for (int step = 0; step < STEPS; ++step) Unit::add(w[step], x.at[t][F_AHEAD ? run : 0] + step * TAKEN, sum);
#pragma unroll
            for (int i = 0; i < Unit::VALUES; ++i) {
                float total = sums.sum[t][p][i];
                if (Type::OFFSET) total = rf::fma(offset[Unit::column(i)], base[t][i], total);
                u32 bits = bit_cast<u32>(rf::fma(scale[Unit::column(i)], sum[i], total));
                // Else AMD's compiler keeps the sums of all runs, to add them behind the next accesses.
                if (RF_DEVICE_AMD) make_anew(bits);
                sums.sum[t][p][i] = bit_cast<float>(bits);
            }
        }
    }
    RF_FN void run() {
        Type held[F_STAGES][CODES];
        SlabRows rows[F_STAGES];
#pragma unroll
        for (int i = 0; i < F_STAGES; ++i) fetch(i % Type::PARTS, held[i], rows[i]);
#pragma unroll 1
        while (slab < end) {
#pragma unroll
            for (int i = 0; i < (F_STAGES > Type::PARTS ? F_STAGES : Type::PARTS); ++i) {
                const int stage = i % F_STAGES;
                if (i % Type::PARTS == 0 && i > 0 && slab >= end) break;
                multiply(held[stage], rows[stage]);
                fetch((i + F_STAGES) % Type::PARTS, held[stage], rows[stage]);
            }
        }
    }
};

// Where rows are under way as well a lane needs no more registers than leave NVIDIA's multiprocessor 16 waves.
#if RF_DEVICE_AMD || !F_AHEAD
#define F_BOUNDS __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE)
#else
#define F_BOUNDS __launch_bounds__(F_WAVES * ARCH_WAVE_SIZE, 16 / F_WAVES)
#endif
extern "C" __global__ RF_WAITS_ITSELF F_BOUNDS void gguf_matrix(QMatmulArgs g) {
    __shared__ float lds[TURN][KEPT * LINE];
    const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), lane_id = thread_x() % ARCH_WAVE_SIZE;
    u32 first_row;
    RowsOfA rows;
    Part part;
    wait_for_launches();
    if (!go_to_tile<ROWS>(g, rows, first_row)) return;
    part.start(g, rows, first_row, wave, lane_id);
    let_launches_begin();
    part.run();
    add_waves(g, part.sums, wave, lds, first_row, group_x() * STRIP, lane_id);
}
