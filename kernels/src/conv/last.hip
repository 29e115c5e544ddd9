// last: what becomes of the sums of a tile where the result has its channels innermost and its places form one axis of lines: a
// tile's rows are lines then and its columns channels.
//
// The sums are rounded and brought together in LDS, line after line, whose 16-byte pieces are exchanged within runs of eight by
// the line's lowest three bits: neither what a matrix unit leaves in a lane nor a lane's piece meets a bank twice. A lane then
// keeps to one piece of all its lines, so that what an epilogue computes of a channel is computed once, and moves it whole. Of a
// tile with fewer lines than a sweep has, some lanes have none.
#define RUN 8
#define PIECES (CONV_BN / RUN)
#define SWEEP (CONV_THREADS / PIECES)
#define LINES_EACH (CONV_BM < SWEEP ? 1 : CONV_BM / SWEEP)
// Lines whose tensors are read together: as many as registers that held sums take.
#if CONV_EPILOGUE
#define HELD_BYTES 256
static const int FITTING = sizeof(Epilogue::Row) <= HELD_BYTES / 16 ? 16 : sizeof(Epilogue::Row) <= HELD_BYTES / 8 ? 8 : 4;
static const int BATCH = LINES_EACH < FITTING ? LINES_EACH : FITTING;
#else
static const int BATCH = LINES_EACH;
#endif
static_assert(sizeof(Out) == 2 && CONV_BN % RUN == 0, "a piece is 16 bytes");
static_assert(CONV_THREADS % PIECES == 0 && LINES_EACH % BATCH == 0, "lanes keep to their pieces");
static_assert(CONV_BM % SWEEP == 0 || CONV_BM < SWEEP, "sweeps are whole, or one has all lines");
static const int STORE_BYTES = CONV_BM * CONV_BN * sizeof(Out);

RF_FN u32 swizzled(u32 line, u32 piece) {
    return line * CONV_BN + (piece ^ (line & (PIECES < 8 ? PIECES - 1 : 7))) * RUN;
}

RF_FN void stage_tile(const Tile& tile, const In* bias, u32 channels, Out* staged) {
    typedef Tile::M M;
    // NVIDIA's products leave a lane pairs of neighbours.
    const int SIDE_BY_SIDE = RF_DEVICE_AMD ? 1 : 2;
#pragma unroll
    for (int j = 0; j < CONV_TILES_N; ++j)
#pragma unroll
        for (int v = 0; v < M::ACC; v += SIDE_BY_SIDE) {
            u32 channel = tile.first_col + j * CONV_MATRIX_SIZE + M::column(v, (int)tile.lane_id);
            Total shift[SIDE_BY_SIDE];
#pragma unroll
            for (int n = 0; n < SIDE_BY_SIDE; ++n) shift[n] = bias && channel < channels ? cast<Total>(bias[channel + n]) : (Total)0;
#pragma unroll
            for (int i = 0; i < CONV_TILES_M; ++i) {
                u32 line = tile.first_row + i * CONV_MATRIX_SIZE + M::row(v, (int)tile.lane_id);
                Vec<Out, SIDE_BY_SIDE> values;
#pragma unroll
                for (int n = 0; n < SIDE_BY_SIDE; ++n) {
                    Total value = (Total)tile.sum[i][j][v + n];
                    values[n] = cast<Out>(bias ? value + shift[n] : value);
                }
                store<SIDE_BY_SIDE>(staged + swizzled(line, channel / RUN) + channel % RUN, values);
            }
        }
}

// Stores a tile; the LDS of the buffers is its own.
RF_FN void finish(const ConvArgs& g, const Tile& tile, char* lds, u32 group, u32 first_channel, u32 first_line) {
    Out* staged = (Out*)lds;
    u32 channels = g.m - first_channel, lines = g.lines - first_line;
    barrier();
    stage_tile(tile, g.bias ? g.bias + (i64)group * g.m + first_channel : g.bias, channels, staged);
    u32 piece = thread_x() % PIECES, first = thread_x() / PIECES;
    // Lanes behind the last channel have no lines.
    bool mine = piece * RUN < channels;
    lines = mine ? lines : 0;
    if (CONV_BM < SWEEP && lines > CONV_BM) lines = CONV_BM;
    i64 channel = (i64)group * g.m + first_channel + piece * RUN;
#if CONV_EPILOGUE
    Epilogue end;
    end.start(g.epilogue);
    end.move(g.epilogue, 0, channel);
    end.move(g.epilogue, 1, first_line);
    if (mine) end.hold(g.epilogue);
#pragma unroll 1
    for (u32 sweep = 0; sweep < CONV_BM; sweep += BATCH * SWEEP) {
        u32 line = sweep + first;
        Epilogue::Row rows[BATCH];
#pragma unroll
        for (u32 i = 0; i < BATCH; ++i)
            if (line + i * SWEEP < lines) end.fetch(g.epilogue, line + i * SWEEP, rows[i]);
        // The first reads are under way while the others' sums come.
        if (sweep == 0) barrier();
#pragma unroll
        for (u32 i = 0; i < BATCH; ++i) {
            u32 at = line + i * SWEEP;
            if (at < lines) end.put(g.epilogue, at, load<4>((const u32*)(staged + swizzled(at, piece))), rows[i]);
        }
    }
#else
    barrier();
    Out* out = g.out + (i64)first_line * g.out_line + channel;
#pragma unroll
    for (int i = 0; i < LINES_EACH; ++i) {
        u32 line = first + i * SWEEP;
        if (line < lines) move_whole<RUN>(out + (i64)line * g.out_line, staged + swizzled(line, piece));
    }
#endif
}
