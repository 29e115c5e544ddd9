// tiled: operands that both lie in vectors along the sum, channels within taps, in gemm's tiles (`stage.hip` has their places in
// LDS, `matrix.hip` their product). The weight is read as a matrix; a line of x is a window, whose steps are taps and channels.
static const int STAGE_BYTES = Tile::BYTES_A + Tile::BYTES_B;
static_assert(CONV_STAGES * STAGE_BYTES <= ARCH_LDS_BYTES, "the buffers fit into LDS");
static_assert(STORE_BYTES <= CONV_STAGES * STAGE_BYTES, "what is stored fits into the buffers");
// Two waves to a SIMD hide each other's waits: where registers are many, a wave takes half of them at most.
#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
#define CONV_RESIDENT __attribute__((amdgpu_waves_per_eu(2)))
#else
#define CONV_RESIDENT
#endif

RF_FN void each_value(const Tile& tile, const Writer& write) {
    Sink sink = {write, 0, 0};
    // The writer knows the edges.
    tile.template write<true>(sink, 0, 0);
}

// Windows on their way to LDS. A lane takes the same steps of a round for each of its lines.
struct Windows {
    static const int PER_LINE = CONV_BK / CONV_VEC;
    static const int UNITS = CONV_BN * PER_LINE;
    static const int LOADS = (UNITS + CONV_THREADS - 1) / CONV_THREADS;
    static_assert(CONV_THREADS % PER_LINE == 0, "a lane keeps to its steps");

    Line lines[LOADS];
    u32 extent[CONV_AXES];
    u32 chunk;
#if !CONV_COPIES
    Vec<In, CONV_VEC> held[LOADS];
#endif

    RF_FN static bool mine(int i) { return UNITS % CONV_THREADS == 0 || (int)thread_x() + i * CONV_THREADS < UNITS; }
    RF_FN static u32 row_of(int i) { return (thread_x() + i * CONV_THREADS) / PER_LINE; }

    RF_FN void start(const ConvArgs& g, u32 first) {
        chunk = thread_x() % PER_LINE;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) lines[i] = line(g, first + row_of(i));
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) extent[axis] = (u32)g.extent[axis + FIRST_AXIS];
    }
    // The lane's step of the round that begins at step `k`.
    RF_FN Step at(const ConvArgs& g, u32 k) const { return step(g, k + chunk * CONV_VEC, g.k); }
    RF_FN bool inside(int i, const Step& s) const {
        bool all = true;
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) all = all & ((u32)(lines[i].at[axis] + s.at[axis]) < extent[axis]);
        return all;
    }
#if CONV_COPIES
    RF_FN void copy(const In* x, const Step& s, LdsPlace to) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!mine(i)) continue;
            bool in = inside(i, s);
            copy_async(to + place_of<CONV_BN>(row_of(i), chunk), x + (in ? lines[i].x + s.x : 0), in);
        }
    }
#else
    // Outside of x the first element is read and forgotten: a load is cheaper than a branch around it.
    RF_FN void fetch(const In* x, const Step& s) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!mine(i)) continue;
            bool in = inside(i, s);
            held[i] = load<CONV_VEC>(x + (in ? lines[i].x + s.x : 0));
            if (!in) __builtin_memset(&held[i], 0, sizeof(held[i]));
        }
    }
    RF_FN void put(char* lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            if (mine(i)) store<CONV_VEC>((In*)(lds + place_of<CONV_BN>(row_of(i), chunk)), held[i]);
    }
#endif
};

extern "C" __global__ __launch_bounds__(CONV_THREADS) CONV_RESIDENT void conv(ConvArgs g) {
#if CONV_LDS_BYTES
    static_assert(CONV_LDS_BYTES == CONV_STAGES * STAGE_BYTES, "as in conv.rs");
    extern __shared__ __attribute__((aligned(128))) char lds[];
#else
    __shared__ __attribute__((aligned(128))) char lds[CONV_STAGES * STAGE_BYTES];
#endif
    u32 group = group_z();
    u32 tile_n = group_x() / g.tiles_m, tile_m = group_x() - tile_n * g.tiles_m;
    u32 first_row = tile_m * CONV_BM, first_col = tile_n * CONV_BN;
    const In* a = g.a + (i64)group * g.a_group;
    const In* x = g.x + (i64)group * g.x_group;

    Tile tile;
    Windows windows;
    tile.start();
    tile.clear();
    windows.start(g, first_col);
    u32 left = g.k;
#if CONV_COPIES
    Copier<CONV_BM, 0> weights;
    weights.start(a, first_row, g.m, 0, g.a_line, 1);
    LdsPlace first = lds_place(lds), past = first + CONV_STAGES * STAGE_BYTES;
    LdsPlace filled = first, read = first;
    u32 ahead = left;
    // A group of copies for every stage, empty past the end, so that the number under way says which is done.
#pragma unroll
    for (int stage = 0; stage < CONV_STAGES - 1; ++stage) {
        if (ahead > 0) {
            weights.copy(filled, ahead);
            windows.copy(x, windows.at(g, g.k - ahead), filled + Tile::BYTES_A);
            ahead -= ahead < CONV_BK ? ahead : CONV_BK;
        }
        filled += STAGE_BYTES;
        async_commit();
    }
    while (left > 0) {
        // Decoded before the wait, which hides it.
        Step next = windows.at(g, g.k - ahead);
        async_wait<CONV_STAGES - 2>();
        barrier();
        if (ahead > 0) {
            weights.copy(filled, ahead);
            windows.copy(x, next, filled + Tile::BYTES_A);
            ahead -= ahead < CONV_BK ? ahead : CONV_BK;
        }
        async_commit();
        filled = filled + STAGE_BYTES == past ? first : filled + STAGE_BYTES;
        tile.multiply(read, read + Tile::BYTES_A);
        read = read + STAGE_BYTES == past ? first : read + STAGE_BYTES;
        left -= left < CONV_BK ? left : CONV_BK;
    }
    async_wait<0>();
#else
    Loader<CONV_BM, 0> weights;
    weights.start(a, first_row, g.m, 0, g.a_line, 1);
    int buffer = 0;
    if (left > 0) {
        weights.template fetch<false>(left);
        windows.fetch(x, windows.at(g, 0));
    }
    while (left > 0) {
        char* stage = lds + buffer;
        weights.put(stage, left);
        windows.put(stage + Tile::BYTES_A);
        barrier();
        // The next loads are under way while this tile is multiplied.
        u32 rest = left < CONV_BK ? 0 : left - CONV_BK;
        if (rest > 0) {
            if (rest >= CONV_BK) {
                weights.template fetch<true>(rest);
            } else {
                weights.template fetch<false>(rest);
            }
            windows.fetch(x, windows.at(g, g.k - rest));
        }
        tile.multiply(lds_place(stage), lds_place(stage) + Tile::BYTES_A);
        buffer ^= STAGE_BYTES;
        left = rest;
    }
#endif
    finish(g, tile, lds, 0, group, first_row, first_col);
}
