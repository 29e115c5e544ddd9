// tiled: operands that both lie in vectors along the sum, channels within taps, in gemm's tiles (`stage.hip` has their places in
// LDS, `matrix.hip` their product). The weight is read as a matrix; a line of x is a window, whose steps are taps and channels.
// For the gradient by the weight both lie along their channels instead, across the sum, and are turned where they are read from LDS.
// Windows are the tile's columns, or with CONV_LAST its rows: results are then stored along channels.
#if CONV_LAST
#define LINES CONV_BM
#define CHANNELS CONV_BN
static const int TO_WINDOWS = 0, TO_WEIGHTS = Tile::BYTES_A;
#else
#define LINES CONV_BN
#define CHANNELS CONV_BM
static const int TO_WINDOWS = Tile::BYTES_A, TO_WEIGHTS = 0;
#endif
static const int STAGE_BYTES = Tile::BYTES_A + Tile::BYTES_B;
static_assert(CONV_STAGES * STAGE_BYTES <= ARCH_LDS_BYTES, "the buffers fit into LDS");
static_assert(STORE_BYTES <= CONV_STAGES * STAGE_BYTES, "what is stored fits into the buffers");
// Two waves to a SIMD hide each other's waits: where registers are many, a wave takes half of them at most.
#if RF_DEVICE_AMD && ARCH_MATRIX == ARCH_MATRIX_MFMA
#define CONV_RESIDENT __attribute__((amdgpu_waves_per_eu(2)))
#else
#define CONV_RESIDENT
#endif

// Where copies go past the registers and taps are whole rounds, operands are read from LDS ahead of their products.
#define CONV_AHEAD (CONV_COPIES && CONV_WHOLE)

#if !CONV_LAST
RF_FN void each_value(const Tile& tile, const Target& write) {
    Sink sink = {write, 0, 0};
    // The writer knows the edges.
    tile.template write<true>(sink, 0, 0);
}
#endif

#if CONV_WEIGHT
// Windows on their way to LDS, which keeps steps as its rows. A lane takes some lines, channels of one tap, of other places in each
// round.
struct Windows {
    static const int PER_STEP = LINES / CONV_VEC;
    static const int LOADS = CONV_BK * PER_STEP / CONV_THREADS;
    static_assert(CONV_COPIES && CONV_THREADS % PER_STEP == 0 && CONV_BK * PER_STEP % CONV_THREADS == 0, "lanes keep to their lines");

    Line own;
    u32 extent[CONV_AXES];
    u32 there;
    const In* from[LOADS];

    RF_FN static u32 step_of(int i) { return (thread_x() + i * CONV_THREADS) / PER_STEP; }

    RF_FN void start(const ConvArgs& g, const In*, u32 first) {
        own = line(g, first + thread_x() % PER_STEP * CONV_VEC);
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) extent[axis] = (u32)g.extent[axis + FIRST_AXIS];
    }
    RF_FN void turn(const ConvArgs& g, const In* x, u32 k, u32 end) {
        there = 0;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            KOffset s = k_offset(g, k + step_of(i), end);
            bool in = true;
#pragma unroll
            for (int axis = 0; axis < CONV_AXES; ++axis) in = in & ((u32)(own.at[axis] + s.at[axis]) < extent[axis]);
            from[i] = x + (in ? own.x + s.x : 0);
            there |= (u32)in << i;
        }
    }
    RF_FN void copy(LdsAddress to) const {
        u32 piece = thread_x() % PER_STEP;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            u32 place = step_of(i) * LINES * (u32)sizeof(In) + (piece ^ (step_of(i) % 8)) * 16;
            copy_async(to + place, from[i], there >> i & 1);
        }
    }
};
#else
// A lane takes the same steps of a round for each of its lines.
struct LaneLines {
    static const int PER_LINE = CONV_BK / CONV_VEC;
    static const int UNITS = LINES * PER_LINE;
    static const int LOADS = (UNITS + CONV_THREADS - 1) / CONV_THREADS;
    static_assert(CONV_THREADS % PER_LINE == 0, "a lane keeps to its steps");

    u32 chunk;
    const In* from[LOADS];
#if !CONV_COPIES
    Vec<In, CONV_VEC> held[LOADS];
#endif

    RF_FN static bool mine(int i) { return UNITS % CONV_THREADS == 0 || (int)thread_x() + i * CONV_THREADS < UNITS; }
    RF_FN static u32 row_of(int i) { return (thread_x() + i * CONV_THREADS) / PER_LINE; }
    RF_FN static u32 place(int i, u32 chunk) { return swizzled<LINES>(row_of(i), chunk); }
#if !CONV_COPIES
    RF_FN void put(char* lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            if (mine(i)) store<CONV_VEC>((In*)(lds + place(i, chunk)), held[i]);
    }
#endif
};

#if CONV_WHOLE
// Windows on their way to LDS where taps are whole rounds. Of a line a lane knows where it is and which taps of each axis fall
// outside of x, a bit each. The walk over taps and channels is the same for all lanes, and needs no division.
struct Windows : LaneLines {
    u32 outside[LOADS];
    // Of the walk: the first channel of the round, the tap of each axis, and the bits of these.
    u32 channel, tap[CONV_AXES], bits;

    RF_FN void start(const ConvArgs& g, const In* x, u32 first) {
        chunk = thread_x() % PER_LINE;
        // A round before the first.
        channel = 0u - CONV_BK;
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) tap[axis] = 0;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            Line own = line(g, first + row_of(i));
            from[i] = x + own.x + (i32)chunk * CONV_VEC - CONV_BK;
            outside[i] = 0;
            u32 bit = 1;
#pragma unroll
            for (int axis = 0; axis < CONV_AXES; ++axis) {
                i32 at = own.at[axis];
#pragma unroll 1
                for (u32 n = 0; n < g.tap[axis + FIRST_AXIS].divisor; ++n) {
                    outside[i] |= (u32)at < (u32)g.extent[axis + FIRST_AXIS] ? 0 : bit;
                    at += g.dil[axis + FIRST_AXIS];
                    bit += bit;
                }
            }
        }
    }
    // Goes on to the next round.
    RF_FN void turn(const ConvArgs& g, const In* = 0, u32 = 0, u32 = 0) {
        channel += CONV_BK;
        bool past = channel == g.channels.divisor;
        i32 by = CONV_BK - (past ? (i32)channel : 0);
        channel = past ? 0 : channel;
#pragma unroll
        for (int axis = CONV_AXES - 1; axis >= 0; --axis) {
            i32 apart = g.dil[axis + FIRST_AXIS] * g.x_axis[axis + FIRST_AXIS];
            tap[axis] += past ? 1 : 0;
            by += past ? apart : 0;
            past = tap[axis] == g.tap[axis + FIRST_AXIS].divisor;
            by -= past ? (i32)tap[axis] * apart : 0;
            tap[axis] = past ? 0 : tap[axis];
        }
#pragma unroll
        for (int i = 0; i < LOADS; ++i) from[i] += by;
        u32 before = 0;
        bits = 0;
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) {
            bits |= 1u << (before + tap[axis]);
            before += g.tap[axis + FIRST_AXIS].divisor;
        }
    }
    RF_FN bool there(int i) const { return (outside[i] & bits) == 0; }
#if CONV_COPIES
    RF_FN void copy(LdsAddress to, bool any) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            if (mine(i)) copy_async_if(any, to + place(i, chunk), from[i], there(i));
    }
#else
    // A load is cheaper than a branch around it: outside of x the first elements are read and forgotten.
    RF_FN void fetch(const In* x) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!mine(i)) continue;
            held[i] = load<CONV_VEC>(there(i) ? from[i] : x);
            if (!there(i)) __builtin_memset(&held[i], 0, sizeof(held[i]));
        }
    }
#endif
};
#else
// Windows on their way to LDS where a round may have steps of several taps.
struct Windows : LaneLines {
    Line lines[LOADS];
    u32 extent[CONV_AXES];
    // Which of the lane's lines have elements, a bit each.
    u32 there;

    RF_FN void start(const ConvArgs& g, const In*, u32 first) {
        chunk = thread_x() % PER_LINE;
#pragma unroll
        for (int i = 0; i < LOADS; ++i) lines[i] = line(g, first + row_of(i));
#pragma unroll
        for (int axis = 0; axis < CONV_AXES; ++axis) extent[axis] = (u32)g.extent[axis + FIRST_AXIS];
    }
    // Goes on to the round that begins at step `k`. Outside of x the first elements are read and forgotten.
    RF_FN void turn(const ConvArgs& g, const In* x, u32 k, u32 end) {
        there = 0;
        KOffset s = k_offset(g, k + chunk * CONV_VEC, end);
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            bool in = true;
#pragma unroll
            for (int axis = 0; axis < CONV_AXES; ++axis) in = in & ((u32)(lines[i].at[axis] + s.at[axis]) < extent[axis]);
            from[i] = x + (in ? lines[i].x + s.x : 0);
            there |= (u32)in << i;
        }
    }
#if CONV_COPIES
    RF_FN void copy(LdsAddress to) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            if (mine(i)) copy_async(to + place(i, chunk), from[i], there >> i & 1);
    }
#else
    // A load is cheaper than a branch around it.
    RF_FN void fetch(const In*) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!mine(i)) continue;
            held[i] = load<CONV_VEC>(from[i]);
            if (!(there >> i & 1)) __builtin_memset(&held[i], 0, sizeof(held[i]));
        }
    }
#endif
};
#endif
#endif

#if CONV_COPIES
typedef Copier<CHANNELS, CONV_WEIGHT, AllRows, CONV_AHEAD> Weights;
// Where copies are read and where they go, by turns.
struct CopyRing {
    LdsAddress first, filled, read;

    RF_FN void start(char* lds) { first = filled = read = lds_address(lds); }
    RF_FN LdsAddress next(LdsAddress stage) const {
        return stage + STAGE_BYTES == first + CONV_STAGES * STAGE_BYTES ? first : stage + STAGE_BYTES;
    }
};
#else
typedef Loader<CHANNELS, 0> Weights;
#endif

// `sum` is the loop over K, from `begin` to `end`.
#if CONV_AHEAD
// Copies a round, if there is one, and goes on to the next: products need not wait for where that is. The group of copies is there in
// any case, so that the number under way says which is done.
RF_FN void bring(const ConvArgs& g, Weights& weights, Windows& windows, LdsAddress to, u32& ahead) {
    weights.copy(to + TO_WEIGHTS, ahead);
    windows.copy(to + TO_WINDOWS, ahead > 0);
    ahead -= ahead < CONV_BK ? ahead : CONV_BK;
    async_commit();
    windows.turn(g);
}
// What is multiplied next is read from LDS before the products of now, over the end of a round too.
RF_FN void sum(const ConvArgs& g, const In*, Weights& weights, Windows& windows, u32 begin, u32 end, char* lds, Tile& tile) {
    static_assert(Tile::PARTS % 2 == 0, "a round begins with the same operands");
    CopyRing ring;
    ring.start(lds);
    u32 left = end - begin, ahead = left;
    Tile::Operands operands[2];
    windows.turn(g);
#pragma unroll
    for (int stage = 0; stage < CONV_STAGES - 1; ++stage, ring.filled += STAGE_BYTES)
        bring(g, weights, windows, ring.filled, ahead);
    async_wait<CONV_STAGES - 2>();
    barrier();
    tile.fetch(ring.read, ring.read + Tile::BYTES_A, 0, operands[0]);
    while (left > 0) {
#pragma unroll
        for (int part = 0; part < Tile::PARTS; ++part) {
            if (part == Tile::PARTS - 1) {
                ring.read = ring.next(ring.read);
                async_wait<CONV_STAGES - 2>();
                barrier();
            }
            tile.fetch(ring.read, ring.read + Tile::BYTES_A, (part + 1) % Tile::PARTS, operands[(part + 1) % 2]);
            if (part == 0) {
                bring(g, weights, windows, ring.filled, ahead);
                ring.filled = ring.next(ring.filled);
            }
            tile.multiply(operands[part % 2]);
        }
        left -= left < CONV_BK ? left : CONV_BK;
    }
    async_wait<0>();
}
#elif CONV_COPIES
RF_FN void copy(Weights& weights, Windows& windows, LdsAddress to, u32& ahead) {
    weights.copy(to + TO_WEIGHTS, ahead);
    windows.copy(to + TO_WINDOWS);
    ahead -= ahead < CONV_BK ? ahead : CONV_BK;
}
// A group of copies for every stage, empty past the end, so that the number under way says which is done.
RF_FN void sum(const ConvArgs& g, const In* x, Weights& weights, Windows& windows, u32 begin, u32 end, char* lds, Tile& tile) {
    CopyRing ring;
    ring.start(lds);
    u32 left = end - begin, ahead = left;
#pragma unroll
    for (int stage = 0; stage < CONV_STAGES - 1; ++stage) {
        if (ahead > 0) {
            windows.turn(g, x, end - ahead, end);
            copy(weights, windows, ring.filled, ahead);
        }
        ring.filled += STAGE_BYTES;
        async_commit();
    }
    while (left > 0) {
        // Before the wait, which hides it.
        if (ahead > 0) windows.turn(g, x, end - ahead, end);
        async_wait<CONV_STAGES - 2>();
        barrier();
        if (ahead > 0) copy(weights, windows, ring.filled, ahead);
        async_commit();
        ring.filled = ring.next(ring.filled);
        tile.multiply(ring.read, ring.read + Tile::BYTES_A);
        ring.read = ring.next(ring.read);
        left -= left < CONV_BK ? left : CONV_BK;
    }
    async_wait<0>();
}
#else
RF_FN void sum(const ConvArgs& g, const In* x, Weights& weights, Windows& windows, u32 begin, u32 end, char* lds, Tile& tile) {
    u32 left = end - begin;
    int buffer = 0;
    if (left > 0) {
        weights.template fetch<false>(left);
        windows.turn(g, x, begin, end);
        windows.fetch(x);
    }
    while (left > 0) {
        char* stage = lds + buffer;
        weights.put(stage + TO_WEIGHTS, left);
        windows.put(stage + TO_WINDOWS);
        barrier();
        // The next loads are under way while this tile is multiplied.
        u32 rest = left < CONV_BK ? 0 : left - CONV_BK;
        weights.go_on();
        if (rest > 0) {
            if (rest >= CONV_BK) {
                weights.template fetch<true>(rest);
            } else {
                weights.template fetch<false>(rest);
            }
            windows.turn(g, x, end - rest, end);
            windows.fetch(x);
        }
        tile.multiply(lds_address(stage), lds_address(stage) + Tile::BYTES_A);
        buffer ^= STAGE_BYTES;
        left = rest;
    }
}
#endif

extern "C" __global__ __launch_bounds__(CONV_THREADS) CONV_RESIDENT void conv(ConvArgs g) {
#if CONV_LDS_BYTES
    static_assert(CONV_LDS_BYTES == CONV_STAGES * STAGE_BYTES, "as in conv.rs");
    extern __shared__ __attribute__((aligned(128))) char lds[];
#else
    __shared__ __attribute__((aligned(128))) char lds[CONV_STAGES * STAGE_BYTES];
#endif
    u32 slice = group_z() / g.groups, group = group_z() - slice * g.groups;
    u32 tile_n = group_x() / g.tiles_m, tile_m = group_x() - tile_n * g.tiles_m;
    u32 first_channel = tile_m * CHANNELS, first_line = tile_n * LINES;
    const In* a = g.a + (i64)group * g.a_group;
    const In* x = g.x + (i64)group * g.x_group;

    Tile tile;
    Weights weights;
    Windows windows;
    tile.start();
    tile.clear();
    windows.start(g, x, first_line);
    u32 begin = slice * g.slice_k, end = begin + g.slice_k;
    end = end < g.k ? end : g.k;
#if CONV_WEIGHT
    weights.start(a, first_channel, g.m, begin, 1, g.a_line);
#else
    weights.start(a, first_channel, g.m, begin, g.a_line, 1);
#endif
    sum(g, x, weights, windows, begin, end, lds, tile);
#if CONV_LAST
    finish(g, tile, lds, group, first_channel, first_line);
#else
    finish(g, tile, lds, slice, group, first_channel, first_line);
#endif
}
