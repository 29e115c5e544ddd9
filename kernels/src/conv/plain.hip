// plain: tiles of operands that lie in any way, through registers to LDS, and their product.
//
// The padding keeps rows 16-byte aligned and spreads a column over the banks.
#define CONV_ROW (CONV_BK + CONV_VEC)
static_assert(2 * (CONV_BM + CONV_BN) * CONV_ROW * sizeof(In) + 8192 <= ARCH_LDS_BYTES, "buffers and tables fit into LDS");
static_assert(CONV_BK <= CONV_THREADS, "a lane makes one step of a table");

// Moves a tile of ROWS lines x CONV_BK steps from memory through registers to LDS, as [line][step].
template <int ROWS, bool ALONG_LINES> struct Loader {
    static const int PER_ROW = CONV_BK / CONV_VEC;
    static const int TOTAL = ROWS * PER_ROW;
    static const int LOADS = (TOTAL + CONV_THREADS - 1) / CONV_THREADS;
    // Lanes side by side on lines come back to the same line; so many differ.
    static const int LINES = ALONG_LINES ? (ROWS + CONV_THREADS - 1) / CONV_THREADS : LOADS;
    Vec<In, CONV_VEC> held[LOADS];
    static_assert(!ALONG_LINES || ROWS % CONV_THREADS == 0 || CONV_THREADS % ROWS == 0, "lanes come back to their lines");

    RF_FN static int chunk(int i) { return (int)thread_x() + i * CONV_THREADS; }
    RF_FN static bool exists(int i) { return TOTAL % CONV_THREADS == 0 || chunk(i) < TOTAL; }
    RF_FN static int row_of(int i) { return ALONG_LINES ? chunk(i) % ROWS : chunk(i) / PER_ROW; }
    RF_FN static int step_of(int i) { return (ALONG_LINES ? chunk(i) / ROWS : chunk(i) % PER_ROW) * CONV_VEC; }

    RF_FN void put(In* lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            if (exists(i)) store<CONV_VEC>(lds + row_of(i) * CONV_ROW + step_of(i), held[i]);
    }
};

#if CONV_TURNED
// Moves a tile whose lines lie side by side in memory: a lane takes CONV_VEC lines of each of CONV_VEC steps and turns the block in
// its registers. Neighbouring lanes have neighbouring blocks of steps, which keeps them on different banks of LDS. SHIFT: how
// many lanes on it begins, so that two loaders of half the lanes each have their own.
template <int ROWS, int SHIFT> struct TurnedLoader {
    static const int PER_ROW = CONV_BK / CONV_VEC;
    static const int TOTAL = ROWS / CONV_VEC * PER_ROW;
    static const int LOADS = (TOTAL + CONV_THREADS - 1) / CONV_THREADS;
    static_assert(ROWS % CONV_VEC == 0, "blocks are whole");
    Vec<In, CONV_VEC> held[LOADS][CONV_VEC];

    RF_FN static int chunk(int i) { return ((int)thread_x() + SHIFT) % CONV_THREADS + i * CONV_THREADS; }
    RF_FN static bool exists(int i) { return TOTAL % CONV_THREADS == 0 || chunk(i) < TOTAL; }
    RF_FN static int row_of(int i) { return chunk(i) / PER_ROW * CONV_VEC; }
    RF_FN static int step_of(int i) { return chunk(i) % PER_ROW * CONV_VEC; }

    RF_FN void take(int i, int j, const In* from, i64 at, bool inside) {
        held[i][j] = load<CONV_VEC>(from + (inside ? at : 0));
        if (!inside) __builtin_memset(&held[i][j], 0, sizeof(held[i][j]));
    }
    RF_FN void put(In* lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
#pragma unroll
            for (int line = 0; line < CONV_VEC; ++line) {
                Vec<In, CONV_VEC> steps;
#pragma unroll
                for (int j = 0; j < CONV_VEC; ++j) steps[j] = held[i][j][line];
                store<CONV_VEC>(lds + (row_of(i) + line) * CONV_ROW + step_of(i), steps);
            }
        }
    }
};

struct LoaderA : TurnedLoader<CONV_BM, 0> {
    i64 row[LOADS];

    RF_FN void start(const ConvArgs& g, u32 first) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            u32 r = first + row_of(i);
            row[i] = r < g.m ? r : g.m - CONV_VEC;
        }
    }
    RF_FN void fetch(const In* a, const KOffset* steps) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
#pragma unroll
            for (int j = 0; j < CONV_VEC; ++j) {
                const KOffset& s = steps[step_of(i) + j];
                take(i, j, a, row[i] + s.a, s.inside());
            }
        }
    }
};

struct LoaderX : TurnedLoader<CONV_BN, CONV_THREADS / 2> {
    Line lines[LOADS];
    u32 extent[CONV_AXES];

    RF_FN void start(const ConvArgs& g, u32 first) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) lines[i] = line(g, first + row_of(i));
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) extent[axis] = (u32)g.extent[axis + FIRST_AXIS];
    }
    RF_FN void fetch(const In* x, const KOffset* steps) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
#pragma unroll
            for (int j = 0; j < CONV_VEC; ++j) {
                KOffset s = steps[step_of(i) + j];
                bool in = true;
#pragma unroll
                for (int axis = 0; axis < CONV_AXES; ++axis)
                    in = in & ((u32)(lines[i].at[axis] + s.at[axis]) < extent[axis]);
                take(i, j, x, lines[i].x + s.x, in);
            }
        }
    }
};
#else
struct LoaderA : Loader<CONV_BM, false> {
    i64 row[LINES];

    // Rows past the end are read from the last one instead: what they give is never stored.
    RF_FN void start(const ConvArgs& g, u32 first) {
#pragma unroll
        for (int i = 0; i < LINES; ++i) {
            u32 r = first + row_of(i);
            row[i] = (i64)(r < g.m ? r : g.m - 1) * g.a_line;
        }
    }
    RF_FN void fetch(const In* a, const KOffset* steps) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
            const KOffset* s = steps + step_of(i);
#if CONV_A_VECTOR
            i64 from = row[i] + s->a;
            held[i] = load<CONV_VEC>(a + (s->inside() ? from : 0));
            if (!s->inside()) __builtin_memset(&held[i], 0, sizeof(held[i]));
#else
#pragma unroll
            for (int j = 0; j < CONV_VEC; ++j) {
                bool inside = s[j].inside();
                In value = a[inside ? row[i] + s[j].a : 0];
                held[i][j] = inside ? value : In();
            }
#endif
        }
    }
};

struct LoaderX : Loader<CONV_BN, !CONV_WEIGHT && !CONV_X_VECTOR> {
    Line lines[LINES];
    u32 extent[CONV_AXES];

    RF_FN void start(const ConvArgs& g, u32 first) {
#pragma unroll
        for (int i = 0; i < LINES; ++i) lines[i] = line(g, first + row_of(i));
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) extent[axis] = (u32)g.extent[axis + FIRST_AXIS];
    }
    RF_FN bool inside(const Line& l, const KOffset& s) const {
        bool all = true;
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) all = all & ((u32)(l.at[axis] + s.at[axis]) < extent[axis]);
        return all;
    }
    // Outside of x the first element is read and forgotten: a load is cheaper than a branch around it.
    RF_FN void fetch(const In* x, const KOffset* steps) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
            const KOffset* s = steps + step_of(i);
            const Line& l = lines[i % LINES];
#if CONV_X_VECTOR
            KOffset first = *s;
            bool in = inside(l, first);
            held[i] = load<CONV_VEC>(x + (in ? l.x + first.x : 0));
            if (!in) __builtin_memset(&held[i], 0, sizeof(held[i]));
#else
#pragma unroll
            for (int j = 0; j < CONV_VEC; ++j) {
                KOffset at = s[j];
                bool in = inside(l, at);
                In value = x[in ? l.x + at.x : 0];
                held[i][j] = in ? value : In();
            }
#endif
        }
    }
};

#endif

#if CONV_MATRIX_SIZE
typedef Mma<In, CONV_MATRIX_SIZE>::Operand Operand;

struct Tile {
    typedef Mma<In, CONV_MATRIX_SIZE> M;
    typedef Fragment<In, CONV_MATRIX_SIZE> F;
    M::Accumulator sum[CONV_TILES_M][CONV_TILES_N];
    int lane_id, first_row, first_col;

    RF_FN void start() {
        u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        lane_id = (int)(thread_x() % ARCH_WAVE_SIZE);
        first_row = (int)(wave / CONV_WAVES_N) * CONV_TILES_M * CONV_MATRIX_SIZE;
        first_col = (int)(wave % CONV_WAVES_N) * CONV_TILES_N * CONV_MATRIX_SIZE;
#pragma unroll
        for (int i = 0; i < CONV_TILES_M * CONV_TILES_N; ++i) sum[i / CONV_TILES_N][i % CONV_TILES_N] = 0;
    }
    RF_FN void multiply(const In* lds_a, const In* lds_x) {
        int lane_at = lane_id % CONV_MATRIX_SIZE * CONV_ROW + F::offset(lane_id / CONV_MATRIX_SIZE);
        const In* at_a = lds_a + first_row * CONV_ROW + lane_at;
        const In* at_x = lds_x + first_col * CONV_ROW + lane_at;
#pragma unroll
        for (int k = 0; k < CONV_BK; k += F::GROUP) {
            Operand a[CONV_TILES_M][F::STEPS], b[CONV_TILES_N][F::STEPS];
#pragma unroll
            for (int i = 0; i < CONV_TILES_M; ++i) F::read(at_a + i * CONV_MATRIX_SIZE * CONV_ROW + k, a[i]);
#pragma unroll
            for (int j = 0; j < CONV_TILES_N; ++j) F::read(at_x + j * CONV_MATRIX_SIZE * CONV_ROW + k, b[j]);
#pragma unroll
            for (int s = 0; s < F::STEPS; ++s)
#pragma unroll
                for (int i = 0; i < CONV_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < CONV_TILES_N; ++j) sum[i][j] = M::run(a[i][s], b[j][s], sum[i][j]);
        }
    }
    // Calls `each(row, column, value)` for every value of the lane.
    template <class F_> RF_FN void values(F_ each) const {
#pragma unroll
        for (int i = 0; i < CONV_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < CONV_TILES_N; ++j)
#pragma unroll
                for (int v = 0; v < M::ACC; ++v)
                    each(first_row + i * CONV_MATRIX_SIZE + M::row(v, lane_id),
                         first_col + j * CONV_MATRIX_SIZE + M::column(v, lane_id), (Total)sum[i][j][v]);
    }
};
#else
// CONV_TILES_M rows and CONV_TILES_N columns per lane, the columns CONV_WAVES_N apart so that a store is coalesced.
struct Tile {
    Total sum[CONV_TILES_M][CONV_TILES_N];
    int first_row, first_col;

    RF_FN void start() {
        first_row = (int)(thread_x() / CONV_WAVES_N);
        first_col = (int)(thread_x() % CONV_WAVES_N);
#pragma unroll
        for (int i = 0; i < CONV_TILES_M * CONV_TILES_N; ++i) sum[i / CONV_TILES_N][i % CONV_TILES_N] = (Total)0;
    }
    RF_FN void multiply(const In* lds_a, const In* lds_x) {
        const int PART = CONV_VEC < 4 ? CONV_VEC : 4;
        for (int k = 0; k < CONV_BK; k += PART) {
            Vec<In, PART> a[CONV_TILES_M], b[CONV_TILES_N];
#pragma unroll
            for (int i = 0; i < CONV_TILES_M; ++i) a[i] = load<PART>(lds_a + (first_row + i * CONV_WAVES_M) * CONV_ROW + k);
#pragma unroll
            for (int j = 0; j < CONV_TILES_N; ++j) b[j] = load<PART>(lds_x + (first_col + j * CONV_WAVES_N) * CONV_ROW + k);
#pragma unroll
            for (int s = 0; s < PART; ++s)
#pragma unroll
                for (int i = 0; i < CONV_TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < CONV_TILES_N; ++j)
                        sum[i][j] = rf::fma(cast<Total>(a[i][s]), cast<Total>(b[j][s]), sum[i][j]);
        }
    }
    template <class F_> RF_FN void values(F_ each) const {
#pragma unroll
        for (int i = 0; i < CONV_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < CONV_TILES_N; ++j) each(first_row + i * CONV_WAVES_M, first_col + j * CONV_WAVES_N, sum[i][j]);
    }
};
#endif

template <class Writer_> RF_FN void each_value(const Tile& tile, const Writer_& write) { tile.values(write); }

extern "C" __global__ __launch_bounds__(CONV_THREADS) void conv(ConvArgs g) {
    __shared__ __attribute__((aligned(16))) In lds[2][(CONV_BM + CONV_BN) * CONV_ROW];
    __shared__ __attribute__((aligned(16))) KOffset steps[2][CONV_BK];
    static_assert(STORE_BYTES <= (int)sizeof(lds), "what is stored fits into the buffers");

    u32 z = group_z(), slice = z / g.groups, group = z - slice * g.groups;
    u32 tile_n = group_x() / g.tiles_m, tile_m = group_x() - tile_n * g.tiles_m;
    u32 first_row = tile_m * CONV_BM, first_col = tile_n * CONV_BN;
    const In* a = g.a + (i64)group * g.a_group;
    const In* x = g.x + (i64)group * g.x_group;
    u32 k = slice * g.slice_k, end = k + g.slice_k;
    end = end < g.k ? end : g.k;

    bool makes = thread_x() < CONV_BK;
    if (makes) steps[0][thread_x()] = k_offset(g, k + thread_x(), end);
    barrier();

    LoaderA load_a;
    LoaderX load_x;
    Tile tile;
    load_a.start(g, first_row);
    load_x.start(g, first_col);
    tile.start();
    if (k < end) {
        load_a.fetch(a, steps[0]);
        load_x.fetch(x, steps[0]);
    }
    int buffer = 0;
    for (; k < end; k += CONV_BK) {
        In* lds_a = lds[buffer];
        In* lds_x = lds_a + CONV_BM * CONV_ROW;
        load_a.put(lds_a);
        load_x.put(lds_x);
        bool more = end - k > CONV_BK;
        if (more && makes) steps[buffer ^ 1][thread_x()] = k_offset(g, k + CONV_BK + thread_x(), end);
        barrier();
        if (more) {
            load_a.fetch(a, steps[buffer ^ 1]);
            load_x.fetch(x, steps[buffer ^ 1]);
        }
        tile.multiply(lds_a, lds_x);
        buffer ^= 1;
    }

    finish(g, tile, (char*)&lds[0][0], slice, group, first_row, first_col);
}
