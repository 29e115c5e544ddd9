// store: what becomes of the sums of a tile. `finish` has the LDS of the buffers to itself.
//
// NVIDIA's products leave each lane pairs of neighbours in many rows: those are brought together in LDS before they are written.
// AMD's leave a wave's lanes side by side.
#define CONV_STAGED (CONV_MATRIX_SIZE && !RF_DEVICE_AMD && CONV_NARROW_OUT)
#define STAGE_VEC 8
#define STAGE_ROW (CONV_BN + STAGE_VEC)
#if CONV_STAGED
static_assert(sizeof(Out) == 2, "a row of the stage is 16-byte aligned");
static const int STAGED_BYTES = CONV_BM * STAGE_ROW * sizeof(Out);
#else
static const int STAGED_BYTES = 0;
#endif

#if CONV_STAGED
// The tile's values in LDS, row after row, so that lanes then write what lies side by side.
template <class Sums> RF_FN void stage_tile(const Sums& tile, const In* bias, u32 rows, Out* staged) {
    typedef typename Sums::M M;
#pragma unroll
    for (int i = 0; i < CONV_TILES_M; ++i) {
        Total shift[M::ACC / 2];
#pragma unroll
        for (int v = 0; v < M::ACC; v += 2) {
            u32 row = tile.first_row + i * CONV_MATRIX_SIZE + M::row(v, (int)tile.lane_id);
            shift[v / 2] = bias && row < rows ? cast<Total>(bias[row]) : (Total)0;
        }
#pragma unroll
        for (int j = 0; j < CONV_TILES_N; ++j)
#pragma unroll
            for (int v = 0; v < M::ACC; v += 2) {
                u32 row = tile.first_row + i * CONV_MATRIX_SIZE + M::row(v, (int)tile.lane_id);
                u32 col = tile.first_col + j * CONV_MATRIX_SIZE + M::column(v, (int)tile.lane_id);
                Vec<Out, 2> pair;
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    Total value = (Total)tile.sum[i][j][v + n];
                    pair[n] = cast<Out>(bias ? value + shift[v / 2] : value);
                }
                store<2>(staged + row * STAGE_ROW + col, pair);
            }
    }
}
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
#if CONV_EPILOGUE
static const int STORE_BYTES = CONV_STAGED ? STAGED_BYTES : ENDS * CONV_BN * (int)sizeof(u64);
#else
static const int STORE_BYTES = STAGED_BYTES + CONV_BN * (int)sizeof(i64);
#endif

// Where gemm's tiles put their values.
struct Sink {
    static const bool WALKS = false;
    Target writer;
    u32 row, col;
    RF_FN void move(i64 down, i64 right) {
        row += (u32)down;
        col += (u32)right;
    }
    RF_FN void put(i64 down, i64 right, Total sum) const { writer(row + (u32)down, col + (u32)right, sum); }
};

// The columns' places in the result.
RF_FN void make_columns(const ConvArgs& g, u32 first_col, i64* columns) {
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
#elif !CONV_STAGED
    for (u32 c = thread_x(); c < CONV_BN; c += CONV_THREADS) {
        Epilogue from_zero;
#pragma unroll
        for (int k = 0; k < ENDS; ++k) from_zero.at[k] = 0;
        move_to_place(from_zero, g, first_col + c < g.lines ? first_col + c : g.lines - 1);
#pragma unroll
        for (int k = 0; k < ENDS; ++k) columns[k * CONV_BN + c] = (i64)from_zero.at[k];
    }
#endif
}

// Stores a tile: `each_value` calls a writer for each of its sums.
template <class Sums>
RF_FN void finish(const ConvArgs& g, const Sums& tile, char* lds, u32 slice, u32 group, u32 first_row, u32 first_col) {
    const In* bias = g.bias ? g.bias + (i64)group * g.m + first_row : g.bias;
    u32 rows = g.m - first_row, cols = g.lines - first_col;
    i64* columns = (i64*)(lds + STAGED_BYTES);
    barrier();
    make_columns(g, first_col, columns);
#if CONV_STAGED
    Out* staged = (Out*)lds;
    stage_tile(tile, bias, rows, staged);
#endif
    barrier();
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
    Target target = {bias, &g.epilogue, (const u64*)columns, corner, rows, cols};
    each_value(tile, target);
#endif
#else
    Out* out = g.out + (i64)slice * g.out_slice + (i64)group * g.out_group + (i64)first_row * g.out_line;
#if CONV_STAGED
    // A lane keeps to its columns.
    const u32 PIECES = CONV_BN / STAGE_VEC, SWEEP = CONV_THREADS / PIECES;
    static_assert(CONV_THREADS % PIECES == 0 && CONV_BM % SWEEP == 0, "sweeps are whole");
    u32 col = thread_x() % PIECES * STAGE_VEC, first = thread_x() / PIECES;
    if (col >= cols) return;
    bool flat = g.flat && col + STAGE_VEC <= cols && columns[col + STAGE_VEC - 1] - columns[col] == STAGE_VEC - 1;
    const Out* from = staged + col;
    Out* to = out + columns[col];
    if (flat && (u64)to % 16 == 0 && g.out_line % STAGE_VEC == 0) {
#pragma unroll
        for (u32 row = first; row < first + CONV_BM; row += SWEEP)
            if (row < rows) move_whole<STAGE_VEC>(to + row * g.out_line, from + row * STAGE_ROW);
        return;
    }
#pragma unroll 1
    for (u32 row = first; row < CONV_BM && row < rows; row += SWEEP)
        for (u32 i = 0; i < STAGE_VEC && col + i < cols; ++i) out[row * g.out_line + columns[col + i]] = from[row * STAGE_ROW + i];
#else
    Target target = {bias, out, columns, g.out_line, rows, cols};
    each_value(tile, target);
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
