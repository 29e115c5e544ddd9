// conv: convolutions as matrix products whose right operand is never stored (implicit GEMM).
//
//   CONV_WEIGHT 0   out[n, m, place] = Σ over (c, tap) of a[m, c, tap] · x[n, c, place · mul + tap · dil + off]  (+ bias[m])
//                   the convolution itself (a: the weight), and its gradient by x, stride by stride (a: the weight turned)
//   CONV_WEIGHT 1   out[m, c, tap] = Σ over (n, place) of a[n, m, place] · x[n, c, place · mul + tap · dil + off]
//                   the gradient by the weight (a: the gradient of the result), in slices of the sum
//
// In both a step of the sum and a line (a column of the product) together name an element of x; one is a place of an image,
// the other a channel and a tap. Coordinates outside of x are zeros, and are never read.
//
// Shapes : three spatial axes, of which the last CONV_AXES are more than one element; strides in elements, any
// Grid   : conv (tiles, 1, groups * slices)      one workgroup per tile of CONV_BM x CONV_BN; neighbours share columns
//          conv_sum (ceil(count / 256), 1, 1)    adds up slices, the first to the last
// Block  : conv (CONV_THREADS, 1, 1), conv_sum (256, 1, 1)
// LDS    : 2 * (CONV_BM + CONV_BN) * CONV_ROW elements, of two buffers one is filled while the other is read;
//          2 * CONV_BK steps and CONV_BN places, static
// Needs  : `flat`: the places of out lie one after the other;
//          m, lines >= 1; lines, k < 2^31; a coordinate before it is checked within +-2^30, an image within 2^31
//          elements; with CONV_A_VECTOR or CONV_X_VECTOR CONV_VEC consecutive steps are one aligned 16-byte access and k
//          (of a slice, too) is a multiple of CONV_VEC; with CONV_X_VECTOR and CONV_WEIGHT so are lines of both sides, and
//          m and channels                                                  checked by the launcher
// Numeric: products and sums in CONV_SUM; steps in the order of their numbers, within a group of the matrix unit as
//          `Fragment` says: taps within channels, or channels within taps with CONV_X_VECTOR; places row after row. One
//          rounding, after the bias. The tile changes no bit.
//
// Macros : types CONV_IN, CONV_OUT, CONV_SUM; CONV_WEIGHT; CONV_AXES (2, 3); CONV_MATRIX_SIZE (32, 16; 0: plain FMA);
//          CONV_WAVES_M, CONV_WAVES_N (lanes for FMA); CONV_TILES_M, CONV_TILES_N per wave (values per lane for FMA);
//          CONV_A_VECTOR, CONV_X_VECTOR; CONV_NARROW_OUT, whether CONV_OUT has 16 bits; CONV_EPILOGUE: 1 where the text of a
//          `fusion` epilogue stands in front of this one: it stores what it computes of out, along spatial axes, channels
//          and batch, and nothing else is stored (not with CONV_WEIGHT)
using namespace rf;

typedef CONV_IN In;
typedef CONV_OUT Out;
typedef CONV_SUM Total;

#if CONV_MATRIX_SIZE
#define CONV_THREADS (CONV_WAVES_M * CONV_WAVES_N * ARCH_WAVE_SIZE)
#define CONV_BM (CONV_WAVES_M * CONV_TILES_M * CONV_MATRIX_SIZE)
#define CONV_BN (CONV_WAVES_N * CONV_TILES_N * CONV_MATRIX_SIZE)
#else
#define CONV_THREADS (CONV_WAVES_M * CONV_WAVES_N)
#define CONV_BM (CONV_WAVES_M * CONV_TILES_M)
#define CONV_BN (CONV_WAVES_N * CONV_TILES_N)
#endif
// What a lane moves at once: 16 bytes of consecutive steps. A round of the sum is four of those.
#define CONV_VEC (16 / (int)sizeof(In))
#define CONV_BK (4 * CONV_VEC)
// The padding keeps rows 16-byte aligned and spreads a column over the banks.
#define CONV_ROW (CONV_BK + CONV_VEC)
// NVIDIA's products leave each lane pairs of neighbours in many rows: those are brought together in LDS before they are written.
// AMD's leave a wave's lanes side by side.
#define CONV_STAGED (CONV_MATRIX_SIZE && !RF_DEVICE_AMD && CONV_NARROW_OUT)
#define STAGE_VEC 8
#define STAGE_ROW (CONV_BN + STAGE_VEC)
#if CONV_STAGED
static_assert(sizeof(Out) == 2 && CONV_BM * STAGE_ROW <= 2 * (CONV_BM + CONV_BN) * CONV_ROW, "the result fits into the buffers");
#endif
// The weight's gradient with channels innermost on both sides: lines, not steps, lie side by side.
#define CONV_TURNED (CONV_WEIGHT && CONV_X_VECTOR)
// The first of the three axes that has more than one element.
#define FIRST_AXIS (3 - CONV_AXES)
// Spatial coordinate of a step or a line that does not exist: whatever is added, it lies outside.
#define NOWHERE (-(1 << 30))
static_assert(2 * (CONV_BM + CONV_BN) * CONV_ROW * sizeof(In) + 8192 <= ARCH_LDS_BYTES, "buffers and tables fit into LDS");
static_assert(CONV_BK <= CONV_THREADS && CONV_BN <= 4 * CONV_THREADS, "a lane makes one step of a table");

struct ConvArgs {
    const In* a;
    const In* x;
    const In* bias;
    Out* out;
    i64 a_line, a_group, a_batch;
    i64 x_batch, x_group;
    i64 out_line, out_group, out_batch, out_slice;
    i64 out_axis[3];
    i32 a_channel, x_channel;
    i32 a_axis[3], x_axis[3];
    i32 extent[3], mul[3], dil[3], off[3];
    FastDiv place[3], tap[3], channels;
    u32 m, lines, k, slice_k, tiles_m, groups, flat;
#if CONV_EPILOGUE
    EpilogueArgs epilogue;
#endif
};
#if CONV_EPILOGUE
static_assert(sizeof(ConvArgs) == 320 + sizeof(EpilogueArgs), "as in conv.rs");
#else
static_assert(sizeof(ConvArgs) == 320, "as in conv.rs");
#endif

#if CONV_WEIGHT
typedef i64 StepOffset;
#else
typedef i32 StepOffset;
#endif

// What a step of the sum adds to the addresses and the coordinates that a line begins with.
struct Step {
    StepOffset a, x;
    i32 at[CONV_AXES];
    RF_FN bool inside() const { return at[0] > NOWHERE / 2; }
};
struct Line {
    i64 x;
    i32 at[CONV_AXES];
};

// A channel and a tap: its part of the offsets and coordinates.
RF_FN void decode_tap(const ConvArgs& g, u32 n, StepOffset* a, i32* x, i32* at) {
#if CONV_X_VECTOR
    u32 rest = g.channels.divide(n), channel = n - rest * g.channels.divisor;
    n = rest;
#endif
    i32 from_a = 0, from_x = 0;
#pragma unroll
    for (int axis = 2; axis >= FIRST_AXIS; --axis) {
        u32 rest = g.tap[axis].divide(n);
        i32 tap = (i32)(n - rest * g.tap[axis].divisor);
        n = rest;
        i32 coordinate = tap * g.dil[axis];
        at[axis - FIRST_AXIS] = coordinate;
        from_a += tap * g.a_axis[axis];
        from_x += coordinate * g.x_axis[axis];
    }
#if !CONV_X_VECTOR
    u32 channel = n;
#endif
    *a = (StepOffset)(from_a + (i32)channel * g.a_channel);
    *x = from_x + (i32)channel * g.x_channel;
}

// A place of an image: where its window begins, and its offsets in x and in a tensor that has an element per place.
RF_FN void decode_place(const ConvArgs& g, u32 n, i64* x, i32* at, i64* other, i64 other_batch, const i64* other_axis) {
    i64 from_x = 0, from_other = 0;
#pragma unroll
    for (int axis = 2; axis >= FIRST_AXIS; --axis) {
        u32 rest = g.place[axis].divide(n);
        i32 place = (i32)(n - rest * g.place[axis].divisor);
        n = rest;
        i32 coordinate = place * g.mul[axis] + g.off[axis];
        at[axis - FIRST_AXIS] = coordinate;
        from_x += (i64)coordinate * g.x_axis[axis];
        from_other += (i64)place * other_axis[axis];
    }
    *x = from_x + (i64)n * g.x_batch;
    *other = from_other + (i64)n * other_batch;
}

RF_FN Step step(const ConvArgs& g, u32 n, u32 end) {
    Step s;
    s.a = 0;
    s.x = 0;
#pragma unroll
    for (int axis = 0; axis < CONV_AXES; ++axis) s.at[axis] = NOWHERE;
    if (n < end) {
#if CONV_WEIGHT
        i64 axes[3] = {g.a_axis[0], g.a_axis[1], g.a_axis[2]};
        decode_place(g, n, &s.x, s.at, &s.a, g.a_batch, axes);
#else
        decode_tap(g, n, &s.a, &s.x, s.at);
#endif
    }
    return s;
}

RF_FN Line line(const ConvArgs& g, u32 n) {
    Line l;
    l.x = 0;
#pragma unroll
    for (int axis = 0; axis < CONV_AXES; ++axis) l.at[axis] = NOWHERE;
    if (n < g.lines) {
#if CONV_WEIGHT
        i64 unused;
        i32 x;
        decode_tap(g, n, &unused, &x, l.at);
        l.x = x;
#else
        i64 unused;
        i64 none[3] = {0, 0, 0};
        decode_place(g, n, &l.x, l.at, &unused, 0, none);
#endif
    }
    return l;
}

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
    RF_FN void fetch(const In* a, const Step* steps) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
#pragma unroll
            for (int j = 0; j < CONV_VEC; ++j) {
                const Step& s = steps[step_of(i) + j];
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
    RF_FN void fetch(const In* x, const Step* steps) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
#pragma unroll
            for (int j = 0; j < CONV_VEC; ++j) {
                Step s = steps[step_of(i) + j];
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
    RF_FN void fetch(const In* a, const Step* steps) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
            const Step* s = steps + step_of(i);
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
    RF_FN bool inside(const Line& l, const Step& s) const {
        bool all = true;
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) all = all & ((u32)(l.at[axis] + s.at[axis]) < extent[axis]);
        return all;
    }
    // Outside of x the first element is read and forgotten: a load is cheaper than a branch around it.
    RF_FN void fetch(const In* x, const Step* steps) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!exists(i)) continue;
            const Step* s = steps + step_of(i);
            const Line& l = lines[i % LINES];
#if CONV_X_VECTOR
            Step first = *s;
            bool in = inside(l, first);
            held[i] = load<CONV_VEC>(x + (in ? l.x + first.x : 0));
            if (!in) __builtin_memset(&held[i], 0, sizeof(held[i]));
#else
#pragma unroll
            for (int j = 0; j < CONV_VEC; ++j) {
                Step at = s[j];
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
typedef Mma<In, CONV_MATRIX_SIZE> M;
typedef M::Operand Operand;

struct Tile {
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

#if CONV_STAGED
// The tile's values in LDS, row after row, so that lanes then write what lies side by side.
struct Stage {
    const In* bias;
    Out* staged;
    u32 rows;

    RF_FN void operator()(u32 row, u32 col, Total value) const {
        if (bias && row < rows) value += cast<Total>(bias[row]);
        staged[row * STAGE_ROW + col] = cast<Out>(value);
    }
};
#endif

#if CONV_EPILOGUE
// Axes of the epilogue's tensors behind the spatial ones.
#define CHANNEL_AXIS 3
#define BATCH_AXIS 4
static const int ENDS = sizeof(Epilogue) / sizeof(u64);

RF_FN void move_to_place(Epilogue& end, const ConvArgs& g, u32 n) {
#pragma unroll
    for (int axis = 2; axis >= FIRST_AXIS; --axis) {
        u32 rest = g.place[axis].divide(n);
        end.move(g.epilogue, axis, (i64)(n - rest * g.place[axis].divisor));
        n = rest;
    }
    end.move(g.epilogue, BATCH_AXIS, n);
}

// Where the values of a tile go: `columns` has what each column adds to the address of each tensor.
struct Target {
    const In* bias;
    const EpilogueArgs* args;
    const u64* columns;
    Epilogue corner;
    u32 rows, cols;

    RF_FN void operator()(u32 row, u32 col, Total value) const {
        if (row >= rows || col >= cols) return;
        if (bias) value += cast<Total>(bias[row]);
        Epilogue end = corner;
#pragma unroll
        for (int k = 0; k < ENDS; ++k) end.at[k] += columns[k * CONV_BN + col];
        end.move(*args, CHANNEL_AXIS, row);
        end.put(*args, 0, 0, cast<Out>(value));
    }
};
#else
// Where the values of a tile go.
struct Target {
    const In* bias;
    Out* out;
    const i64* column;
    i64 line;
    u32 rows, columns;

    RF_FN void operator()(u32 row, u32 col, Total value) const {
        if (row >= rows || col >= columns) return;
        if (bias) value += cast<Total>(bias[row]);
        out[(i64)row * line + column[col]] = cast<Out>(value);
    }
};
#endif

extern "C" __global__ __launch_bounds__(CONV_THREADS) void conv(ConvArgs g) {
    __shared__ __attribute__((aligned(16))) In lds[2][(CONV_BM + CONV_BN) * CONV_ROW];
    __shared__ __attribute__((aligned(16))) Step steps[2][CONV_BK];
#if !CONV_EPILOGUE
    __shared__ i64 columns[CONV_BN];
#endif

    u32 z = group_z(), slice = z / g.groups, group = z - slice * g.groups;
    u32 tile_n = group_x() / g.tiles_m, tile_m = group_x() - tile_n * g.tiles_m;
    u32 first_row = tile_m * CONV_BM, first_col = tile_n * CONV_BN;
    const In* a = g.a + (i64)group * g.a_group;
    const In* x = g.x + (i64)group * g.x_group;
    u32 k = slice * g.slice_k, end = k + g.slice_k;
    end = end < g.k ? end : g.k;

    // The columns' places in the result, and the first round's steps.
#if !CONV_EPILOGUE
    for (u32 c = thread_x(); c < CONV_BN; c += CONV_THREADS) {
#if CONV_WEIGHT
        // With channels within taps the columns are not in the weight's order.
        u32 n = first_col + c, tap = CONV_X_VECTOR ? g.channels.divide(n) : 0;
        u32 taps = g.tap[0].divisor * g.tap[1].divisor * g.tap[2].divisor;
        columns[c] = CONV_X_VECTOR ? (n - tap * g.channels.divisor) * taps + tap : n;
#else
        i64 unused;
        i32 at[CONV_AXES];
        u32 n = first_col + c;
        decode_place(g, n < g.lines ? n : g.lines - 1, &unused, at, &columns[c], g.out_batch, g.out_axis);
#endif
    }
#endif
    bool makes = thread_x() < CONV_BK;
    if (makes) steps[0][thread_x()] = step(g, k + thread_x(), end);
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
        if (more && makes) steps[buffer ^ 1][thread_x()] = step(g, k + CONV_BK + thread_x(), end);
        barrier();
        if (more) {
            load_a.fetch(a, steps[buffer ^ 1]);
            load_x.fetch(x, steps[buffer ^ 1]);
        }
        tile.multiply(lds_a, lds_x);
        buffer ^= 1;
    }

    const In* bias = g.bias ? g.bias + (i64)group * g.m + first_row : g.bias;
    u32 rows = g.m - first_row, cols = g.lines - first_col;
#if CONV_STAGED
    Out* staged = (Out*)&lds[0][0];
    barrier();
    Stage stage = {bias, staged, rows};
    tile.values(stage);
    barrier();
#endif
#if CONV_EPILOGUE
    Epilogue corner;
    corner.start(g.epilogue);
    corner.move(g.epilogue, CHANNEL_AXIS, (i64)group * g.m + first_row);
#if CONV_STAGED
    // A lane keeps to its column.
    static_assert(CONV_THREADS % CONV_BN == 0, "every column has its lanes");
    u32 col = thread_x() % CONV_BN;
    if (col >= cols) return;
    move_to_place(corner, g, first_col + col);
    for (u32 row = thread_x() / CONV_BN; row < CONV_BM && row < rows; row += CONV_THREADS / CONV_BN) {
        Epilogue end = corner;
        end.move(g.epilogue, CHANNEL_AXIS, row);
        end.put(g.epilogue, 0, 0, staged[row * STAGE_ROW + col]);
    }
#else
    static_assert(ENDS * CONV_BN * sizeof(u64) <= sizeof(lds), "the columns' table fits into the buffers");
    u64* columns = (u64*)&lds[0][0];
    barrier();
    for (u32 c = thread_x(); c < CONV_BN; c += CONV_THREADS) {
        Epilogue from_zero;
#pragma unroll
        for (int k = 0; k < ENDS; ++k) from_zero.at[k] = 0;
        move_to_place(from_zero, g, first_col + c < g.lines ? first_col + c : g.lines - 1);
#pragma unroll
        for (int k = 0; k < ENDS; ++k) columns[k * CONV_BN + c] = from_zero.at[k];
    }
    barrier();
    Target target = {bias, &g.epilogue, columns, corner, rows, cols};
    tile.values(target);
#endif
#else
    Out* out = g.out + (i64)slice * g.out_slice + (i64)group * g.out_group + (i64)first_row * g.out_line;
#if CONV_STAGED
    for (u32 c = thread_x(); c < CONV_BM * (CONV_BN / STAGE_VEC); c += CONV_THREADS) {
        u32 row = c / (CONV_BN / STAGE_VEC), col = c % (CONV_BN / STAGE_VEC) * STAGE_VEC;
        if (row >= rows || col >= cols) continue;
        const Out* from = staged + row * STAGE_ROW + col;
        Out* line = out + (i64)row * g.out_line;
        Out* to = line + columns[col];
        bool whole = g.flat && col + STAGE_VEC <= cols && columns[col + STAGE_VEC - 1] - columns[col] == STAGE_VEC - 1;
        if (whole && (u64)to % 16 == 0) {
            store<STAGE_VEC>(to, load<STAGE_VEC>(from));
        } else {
            for (u32 i = 0; i < STAGE_VEC && col + i < cols; ++i) line[columns[col + i]] = from[i];
        }
    }
#else
    Target target = {bias, out, columns, g.out_line, rows, cols};
    tile.values(target);
#endif
#endif
}

#if CONV_WEIGHT
struct ConvSumArgs {
    const Total* slices;
    CONV_IN* out;
    u32 count, slice_count;
};
static_assert(sizeof(ConvSumArgs) == 24, "as in conv.rs");

extern "C" __global__ __launch_bounds__(256) void conv_sum(ConvSumArgs g) {
    u32 n = group_x() * 256 + thread_x();
    if (n >= g.count) return;
    Total sum = (Total)0;
    for (u32 slice = 0; slice < g.slice_count; ++slice) sum += g.slices[(i64)slice * g.count + n];
    g.out[n] = cast<In>(sum);
}
#endif
