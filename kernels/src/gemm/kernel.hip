// kernel: the loop over K.
#if GEMM_MATRIX_SIZE
RF_FN LdsAddress operand_address(char* lds) { return lds_address(lds); }
#else
RF_FN const char* operand_address(char* lds) { return lds; }
#endif
static_assert(GEMM_BK % GEMM_VEC == 0 && GEMM_BM % GEMM_VEC == 0 && GEMM_BN % GEMM_VEC == 0, "tiles are whole vectors");
static const int STAGE_BYTES = Tile::BYTES_A + Tile::BYTES_B;
static_assert(GEMM_STAGES * STAGE_BYTES <= ARCH_LDS_BYTES, "the buffers fit into LDS");

static const u32 GEMM_BAND = 16;

// The running sum of the chunks of K that are done.
struct ChunkSum {
#if !GEMM_CHUNKED
    RF_FN void start(char*) {}
    RF_FN void add(const Tile&) {}
    RF_FN void finish(Tile&) {}
#elif GEMM_LDS_BYTES
    // A lane's values lie a workgroup apart, which meets no bank twice.
    static_assert(GEMM_STAGES * STAGE_BYTES + Tile::VALUES * GEMM_THREADS * (int)sizeof(Total) <= GEMM_LDS_BYTES, "and so does the sum");
    Vec<Total, 4>* at;
    bool any;
    RF_FN void start(char* lds) {
        at = (Vec<Total, 4>*)(lds + GEMM_STAGES * STAGE_BYTES) + thread_x();
        any = false;
    }
    RF_FN void add(Tile& tile) {
#pragma unroll
        for (int n = 0; n < Tile::VALUES; n += 4) {
            Vec<Total, 4> sum;
            if (any) sum = at[n / 4 * GEMM_THREADS];
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[i] = any ? sum[i] + tile.value(n + i) : tile.value(n + i);
            at[n / 4 * GEMM_THREADS] = sum;
        }
        any = true;
    }
    RF_FN void finish(Tile& tile) {
        // A group without rows has no chunk.
        if (GEMM_GROUPED == 4 && !any) return;
#pragma unroll
        for (int n = 0; n < Tile::VALUES; n += 4) {
            Vec<Total, 4> sum = at[n / 4 * GEMM_THREADS];
#pragma unroll
            for (int i = 0; i < 4; ++i) tile.value(n + i) = sum[i];
        }
    }
#else
    Tile total;
    RF_FN void start(char*) { total.clear(); }
    RF_FN void add(const Tile& tile) { total.add(tile); }
    RF_FN void finish(Tile& tile) {
#pragma unroll
        for (int i = 0; i < GEMM_TILES_M * GEMM_TILES_N; ++i)
            tile.sum[i / GEMM_TILES_N][i % GEMM_TILES_N] = total.sum[i / GEMM_TILES_N][i % GEMM_TILES_N];
    }
#endif
};

#if GEMM_ASYNC && !GEMM_EPILOGUE
// A whole tile of C in pieces of 16 bytes. A lane's own values are pairs, and a store of those meets eight rows: they pass through LDS,
// where the rounds were. Only of 16 bits: wider values fill the pieces of memory as they are.
template <class T, bool IS_HALF = sizeof(T) == 2> struct StagedStore {
    static const bool FITS = false;
    RF_FN static void write(const Tile&, const Sink&, char*) {}
};
template <class T> struct StagedStore<T, true> {
    // The padding lets rows begin in banks of their own.
    static const int PIECE = 8, ROW = GEMM_BN + PIECE, PIECES = GEMM_BN / PIECE;
    static const bool FITS = GEMM_BM * ROW * 2 <= GEMM_STAGES * STAGE_BYTES;
    RF_FN static void write(const Tile& tile, const Sink& sink, char* lds) {
        T* rows = (T*)lds;
        tile.template stage_tile<ROW>(rows);
        barrier();
#pragma unroll 4
        for (u32 piece = thread_x(); piece < GEMM_BM * PIECES; piece += GEMM_THREADS) {
            u32 row = piece / PIECES, col = piece % PIECES * PIECE;
            move_whole<PIECE>(sink.c + row * sink.row_stride + col, rows + row * ROW + col);
        }
    }
};
#endif

#if GEMM_SEVERAL
struct GemmSeveral {
    u32 count, unused;
    u32 first[GEMM_SEVERAL];  // workgroup of each member, along the grid's first axis
    GemmArgs member[GEMM_SEVERAL];
};
// CUDA would copy arguments that are indexed to local memory.
#if RF_DEVICE_AMD
#define GEMM_ARGUMENTS GemmSeveral all
#else
#define GEMM_ARGUMENTS const __grid_constant__ GemmSeveral all
#endif
#else
#define GEMM_ARGUMENTS GemmArgs g
#endif

#if GEMM_GROUPED == 3
typedef ListedRows RowsOfA;
#else
typedef AllRows RowsOfA;
#endif

// Where a workgroup's tile is, and which slice of K it takes.
struct GroupTile {
    const In* a;
    const In* b;
    RowsOfA rows_of_a;
    u32 first_row, first_col, rows, first_k, depth;

    // Goes to a batch; whether there is a tile. `column`: of the grid's first axis.
    RF_FN bool start(const GemmArgs& g, u32 column, Sink& sink) {
        a = g.a;
        b = g.b;
        // Of what there is one of, no division.
        u32 slice = g.batches == 1 ? group_z() : group_z() / g.batches;
        u32 batch = g.first_batch + (group_z() - slice * g.batches);
        sink.start(g);
#if !GEMM_EPILOGUE
        sink.c += (i64)slice * g.c_slice;
#endif
        // Batch axes, the innermost first.
        for (u32 axis = 0; axis < g.batch_axes; ++axis) {
            u32 rest = batch / g.batch_extent[axis];
            i64 at = batch - rest * g.batch_extent[axis];
            batch = rest;
            a += at * g.a_batch[axis];
            b += at * g.b_batch[axis];
            sink.batch(g, axis, at);
        }
        // Workgroups that run at the same time share rows and columns if they are a square: bands of GEMM_BAND tiles along M, each
        // from left to right.
#if GEMM_GROUPED && GEMM_GROUPED < 4
        u32 down = g.row_tiles;
#else
        rows = g.m;
        u32 down = (rows + GEMM_BM - 1) / GEMM_BM;
#endif
        u32 across = (g.n + GEMM_BN - 1) / GEMM_BN;
        u32 number = group_y() * across + column, tile_col = number, tile_row = 0;
        if (down > 1) {
            u32 band = down <= GEMM_BAND ? 0 : number / (GEMM_BAND * across);
            u32 within = number - band * GEMM_BAND * across, left_over = down - band * GEMM_BAND;
            u32 rows_of_band = left_over < GEMM_BAND ? left_over : GEMM_BAND;
            tile_col = within / rows_of_band;
            tile_row = band * GEMM_BAND + within - tile_col * rows_of_band;
        }
        first_k = slice * g.slice_k;
        u32 end = first_k + g.slice_k;
        depth = (end < g.k ? end : g.k) - first_k;
#if GEMM_GROUPED == 4
        depth = rows_of_group<GEMM_GROUPED>(g, group_z(), g.k, first_k);
#elif GEMM_GROUPED
        Group<GEMM_GROUPED, GEMM_BM> group;
        if (!group.find(g, tile_row)) return false;
        tile_row = group.tile;
        rows = group.rows;
#if GEMM_GROUPED == 3
        rows_of_a.choices = g.choices + group.first;
        rows_of_a.each = g.each;
        rows_of_a.last = g.a_rows - 1;
#else
        a += (i64)group.first * g.a_row;
#endif
        b += (i64)group.number * g.b_batch[0];
        sink.move(group.first, 0);
#endif
        first_row = tile_row * GEMM_BM;
        first_col = tile_col * GEMM_BN;
        return true;
    }
};

#if GEMM_ASYNC
typedef Copier<GEMM_BM, GEMM_A_MODE, RowsOfA> CopierA;
typedef Copier<GEMM_BN, GEMM_B_MODE> CopierB;
template <class Address> RF_FN void copy(CopierA& copy_a, CopierB& copy_b, Address to, u32& ahead) {
    if (ahead == 0) return;
    copy_a.copy(to, ahead);
    copy_b.copy(to + Tile::BYTES_A, ahead);
    ahead -= ahead < GEMM_BK ? ahead : GEMM_BK;
}
// The loop over K where copies go past the registers.
RF_FN Tile sum(const GemmArgs& g, GroupTile at, char* lds) {
    u32 k = at.first_k, left = at.depth;
    Tile tile;
    ChunkSum chunks;
    tile.start();
    tile.clear();
    chunks.start(lds);
    CopierA copy_a;
    CopierB copy_b;
    copy_a.start(at.a, at.first_row, at.rows, k, g.a_row, g.a_k, at.rows_of_a);
    copy_b.start(at.b, at.first_col, g.n, k, g.b_col, g.b_k);
    auto first = operand_address(lds), past = first + GEMM_STAGES * STAGE_BYTES;
    auto filled = first, read = first;
    u32 ahead = left;
    // A group of copies for every stage, empty past the end, so that the number under way says which is done.
#pragma unroll
    for (int stage = 0; stage < GEMM_STAGES - 1; ++stage) {
        copy(copy_a, copy_b, filled, ahead);
        filled += STAGE_BYTES;
        async_commit();
    }
    while (left > 0) {
        // The rounds of a chunk are a loop of their own: with what is done between chunks in it, it takes a sixth longer.
        u32 after = 0;
#if GEMM_CHUNKED
        after = left > g.chunk ? left - g.chunk : 0;
#endif
        do {
            async_wait<GEMM_STAGES - 2>();
            barrier();
            copy(copy_a, copy_b, filled, ahead);
            async_commit();
            filled = filled + STAGE_BYTES == past ? first : filled + STAGE_BYTES;
            tile.multiply(read, read + Tile::BYTES_A);
            read = read + STAGE_BYTES == past ? first : read + STAGE_BYTES;
            left -= left < GEMM_BK ? left : GEMM_BK;
        } while (left > after);
#if GEMM_CHUNKED
        chunks.add(tile);
        tile.clear();
#endif
    }
    chunks.finish(tile);
    return tile;
}
#endif

#if !GEMM_ASYNC
// Whether a round is so few products that what it costs beside them counts, and there are registers for two.
static const bool SHORT_ROUNDS = RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA && GEMM_MATRIX_SIZE > 0 && GEMM_TILES_M * GEMM_TILES_N <= 4;
// The next of the K, of which `left` is left.
template <class A, class B> RF_FN void fetch(A& load_a, B& load_b, u32 left) {
    if (left >= GEMM_BK) {
        load_a.template fetch<true>(left);
        load_b.template fetch<true>(left);
#if RF_DEVICE_AMD
        // The compiler would have both branches end in the last load, guarded.
        asm volatile("; whole");
#endif
    } else {
        load_a.template fetch<false>(left);
        load_b.template fetch<false>(left);
    }
}
#endif

RF_FN void write(Tile& tile, const GemmArgs& g, const GroupTile& at, Sink sink, char* lds) {
    u32 rows = at.rows - at.first_row, cols = g.n - at.first_col;
    sink.move(at.first_row, at.first_col);
#if GEMM_ASYNC && !GEMM_EPILOGUE
    if (StagedStore<Out>::FITS && rows >= GEMM_BM && cols >= GEMM_BN && sink.is_dense()) {
        async_wait<0>();
        barrier();
        StagedStore<Out>::write(tile, sink, lds);
        return;
    }
#endif
#if GEMM_MATRIX_SIZE
    if (Tile::RUN > 1 && rows >= GEMM_BM && cols >= GEMM_BN && sink.is_dense()) {
        tile.write_runs(sink);
        return;
    }
#endif
    if (rows >= GEMM_BM && cols >= GEMM_BN) {
        tile.template write<true>(sink, rows, cols);
    } else {
        tile.template write<false>(sink, rows, cols);
    }
}

extern "C" __global__ GEMM_BOUNDS GEMM_RESIDENT void gemm(GEMM_ARGUMENTS) {
#if GEMM_SEVERAL
    u32 own = 0;
    while (own + 1 < all.count && group_x() >= all.first[own + 1]) ++own;
    const GemmArgs& g = all.member[own];
    u32 column = group_x() - all.first[own];
#else
    u32 column = group_x();
#endif
#if GEMM_LDS_BYTES
    extern __shared__ __attribute__((aligned(128))) char lds[];
#else
    __shared__ __attribute__((aligned(128))) char lds[GEMM_STAGES * STAGE_BYTES];
#endif
    GroupTile at;
    Sink sink;
    if (!at.start(g, column, sink)) return;
#if GEMM_ASYNC
    Tile tile = sum(g, at, lds);
#else
    u32 k = at.first_k, left = at.depth;
    Tile tile;
    ChunkSum chunks;
    tile.start();
    tile.clear();
    chunks.start(lds);
    Loader<GEMM_BM, GEMM_A_MODE, RowsOfA> load_a;
    Loader<GEMM_BN, GEMM_B_MODE> load_b;
    load_a.start(at.a, at.first_row, at.rows, k, g.a_row, g.a_k, at.rows_of_a);
    load_b.start(at.b, at.first_col, g.n, k, g.b_col, g.b_k);
    u32 in_chunk = 0;
    // Whether there is another.
    auto one_round = [&](char* stage) {
        const bool more = left > GEMM_BK;
        load_a.put(stage, left);
        load_b.put(stage + Tile::BYTES_A, left);
        barrier();
        // The next loads are under way while this tile is multiplied.
        load_a.go_on();
        load_b.go_on();
        left -= GEMM_BK;
        if (more) fetch(load_a, load_b, left);
        tile.multiply(operand_address(stage), operand_address(stage) + Tile::BYTES_A);
        in_chunk += GEMM_BK;
        if (GEMM_CHUNKED && (in_chunk == g.chunk || !more)) {
            chunks.add(tile);
            tile.clear();
            in_chunk = 0;
        }
        return more;
    };
    if (left > 0) {
        fetch(load_a, load_b, left);
        if (SHORT_ROUNDS) {
            // Two at a time: of each it is known which tiles in LDS it has, so that no address is computed.
            while (one_round(lds) && one_round(lds + STAGE_BYTES)) {}
        } else {
            int buffer = 0;
            while (one_round(lds + buffer)) buffer ^= STAGE_BYTES;
        }
    }
    chunks.finish(tile);
#endif
    write(tile, g, at, sink, lds);
}

struct GemmSumArgs {
    const Total* slices;
    Out* c;
    i64 c_row, c_col;
    i64 c_batch[MAX_BATCH_AXES];
    u32 batch_extent[MAX_BATCH_AXES];
    u32 batch_axes, batches, first_batch, slice_count;
    // `each`: columns of a lane, 1 or SUM_EACH, of which rows are whole ones then.
    u32 m, n, first_row, each;
#if GEMM_EPILOGUE
    EpilogueArgs epilogue;
#endif
};
#if GEMM_EPILOGUE
static_assert(sizeof(GemmSumArgs) == 136 + sizeof(EpilogueArgs), "as in gemm.rs");
#else
static_assert(sizeof(GemmSumArgs) == 136, "as in gemm.rs");
#endif

template <int EACH> RF_FN void add_slices(const GemmSumArgs& g) {
    u32 col = (group_x() * 256 + thread_x()) * EACH, row = g.first_row + group_y(), batch = g.first_batch + group_z();
    if (col >= g.n) return;
    const Total* from = g.slices + ((i64)batch * g.m + row) * g.n + col;
    const i64 apart = (i64)g.batches * g.m * g.n;
    const int PIECE = EACH * (int)sizeof(Total) <= 16 ? EACH : 16 / (int)sizeof(Total);
    Total sum[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) sum[i] = (Total)0;
    for (u32 slice = 0; slice < g.slice_count; ++slice, from += apart) {
#pragma unroll
        for (int first = 0; first < EACH; first += PIECE) {
            const Vec<Total, PIECE> part = load<PIECE>(from + first);
#pragma unroll
            for (int i = 0; i < PIECE; ++i) sum[first + i] += part[i];
        }
    }
    Sink sink;
    sink.start(g);
    for (u32 axis = 0; axis < g.batch_axes; ++axis) {
        u32 rest = batch / g.batch_extent[axis];
        sink.batch(g, axis, (i64)(batch - rest * g.batch_extent[axis]));
        batch = rest;
    }
    const int RUN = EACH * (int)sizeof(Out) <= 16 ? EACH : 1;
    if (RUN > 1 && sink.is_dense()) {
        sink.template put_run<RUN>(row, col, sum);
        return;
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) sink.put(row, col + i, sum[i]);
}
static const int SUM_EACH = 4;
extern "C" __global__ __launch_bounds__(256) void gemm_sum(GemmSumArgs g) {
    if (g.each == SUM_EACH)
        add_slices<SUM_EACH>(g);
    else
        add_slices<1>(g);
}
