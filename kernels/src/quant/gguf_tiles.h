// gguf_tiles.h: a tile of W of blocks of GGUF, decoded, as [column][k], in the place of `LoadW` of q_matmul.hip. `words` are lines of
// blocks, one for each column, `w_n` bytes apart. Stands behind coded.h and gguf.h.
//
// Bytes come STEP of K at a time, a tile's or two tiles': four lanes read a segment of 64 bytes of a line, and those of which the next
// step needs the end stay in registers, so that each is read once. They pass through LDS to the lanes that decode them, which have
// neighbouring columns.
//
// `Where` is how the tile lies in LDS.
template <class Where, int COLUMNS, int DEEP, int THREADS> struct LoadBlocks {
    typedef Gguf<Q_GGUF> Type;
    static const int LINES = THREADS / 4, PASSES = COLUMNS / LINES;
    static const int STEP = PASSES > 1 && Type::SIZE < DEEP ? DEEP : 256, UNIT = Type::SIZE / Type::UNITS;
    static_assert(DEEP == 128, "the runs of two units of a K type lie in 128 weights, and a block of one is a step");
    // Of a line and a step: bytes, segments and pieces of 16 bytes in which they may lie, whole segments.
    static const int BYTES = STEP / Type::SIZE * Type::BYTES, SEGMENTS = (64 - Type::ALIGNED + BYTES + 63) / 64;
    static const int PIECES = (16 - Type::ALIGNED + BYTES + 15) / 16, WHOLE = BYTES / 64;
    // Where pieces of columns lie in LDS, so that neither four of two columns nor one of eight meet in a bank.
    static const int PAIR = PIECES <= 12 ? 25 : 41, COLUMN = PAIR / 2, LDS_BYTES = COLUMNS / 2 * PAIR * 16;
    static_assert(PIECES <= COLUMN && COLUMN % 8 == 4, "four of two columns lie in different banks");
    // Units of a tile, and how many lanes share one.
    static const int TOTAL = COLUMNS * (DEEP / UNIT), SHARED = THREADS > TOTAL ? THREADS / TOTAL : 1;
    static const int ROUNDS = TOTAL * SHARED / THREADS, RUNS = Type::SUBS / SHARED;
    static_assert(COLUMNS % LINES == 0 && TOTAL * SHARED % THREADS == 0 && RUNS * SHARED == Type::SUBS, "all lanes have as much");

    // Tiles that are held once their bytes were in LDS; the second one's go there again where lanes have no registers for two.
    static const int TILES = PASSES == 1 ? STEP / DEEP : 1;

    Vec<u32, 4> raw[PASSES][SEGMENTS];
    Run held[TILES][ROUNDS][RUNS];

    RF_FN void start() {}
    // The lane. Where registers are short its places are computed where they are used: AMD's compiler would keep each all along.
    RF_FN static u32 thread() {
        u32 own = thread_x();
#if RF_DEVICE_AMD
        if (PASSES > 1) asm volatile("" : "+v"(own));
#endif
        return own;
    }
    // A lane's line, and where in it the lane's piece of a step's first segment begins, in whose byte `skipped` the step does.
    struct Line {
        const u8* first;
        i32 from, bytes;
        u32 skipped;
        RF_FN Line(const QMatmulArgs& g, u32 own, int pass, u32 first_col, u32 first_k) {
            // What lies past the columns is not stored.
            const u32 col = first_col + pass * LINES + own / 4;
            first = g.words + (i64)(col < g.n ? col : g.n - 1) * g.w_n;
            const u32 before = (u32)(u64)first % 64, at = before + first_k / STEP * BYTES;
            from = (i32)(at / 64 * 64 - before + own % 4 * 16);
            bytes = (i32)(g.k / Type::SIZE * Type::BYTES);
            skipped = at % 64;
        }
        // The lane's piece of a segment, zeros for one that is none of the line's.
        RF_FN Vec<u32, 4> piece(int segment) const {
            const i32 at = from + 64 * segment;
            Vec<u32, 4> words = {};
            if (at >= 0 && at + 16 <= bytes) return load<4>((const u32*)(first + at));
            if (Type::ALIGNED == 16 || at <= -16 || at >= bytes) return words;
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = (u32)half(at + 4 * i) | (u32)half(at + 4 * i + 2) << 16;
            return words;
        }
        // Two bytes, or others of the line in place of those that are not.
        RF_FN u16 half(i32 at) const {
            at = at < 0 ? 0 : at;
            return *(const u16*)(first + (at < bytes ? at : bytes - 2));
        }
    };
    RF_FN void fetch(const QMatmulArgs& g, u32 first_col, u32 first_k, u32 end) {
        if (first_k % STEP != 0 || first_k >= end) return;
        const u32 own = thread();
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const Line line(g, own, pass, first_col, first_k);
            // Whether the step before lies in one segment more than it fills.
            const bool far = line.skipped < BYTES % 64;
#pragma unroll
            for (int i = 0; i < SEGMENTS - WHOLE; ++i) {
                if (!far) raw[pass][i] = raw[pass][i + WHOLE];
                else if (i + WHOLE + 1 < SEGMENTS) raw[pass][i] = raw[pass][i + WHOLE + 1];
            }
#pragma unroll
            for (int i = 0; i < SEGMENTS; ++i)
                if (first_k == 0 || i + WHOLE + far >= SEGMENTS) raw[pass][i] = line.piece(i);
        }
    }
    RF_FN static int tile(u32 first_k) { return (int)(first_k % STEP / DEEP); }
    // The step's bytes through LDS, where nobody reads any more before it, nor behind it.
    RF_FN void stage(const QMatmulArgs& g, u32 first_col, u32 first_k, u32 end, In* lds) {
        if (TILES > 1 && tile(first_k) != 0) return;
        const u32 own = thread();
        u8* bytes = (u8*)lds;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const Line line(g, own, pass, first_col, first_k);
            const int column = pass * LINES + (int)own / 4;
#pragma unroll
            for (int i = 0; i < SEGMENTS; ++i) {
                const int piece = 4 * i + (int)(own % 4) - (int)(line.skipped / 16);
                if (piece >= 0 && piece < PIECES) store<4>((u32*)(bytes + 16 * (place(column) + piece)), raw[pass][i]);
            }
        }
        barrier();
#pragma unroll
        for (int n = 0; n < TILES * ROUNDS; ++n)
            unpack(g, bytes, n / ROUNDS + tile(first_k), own, n % ROUNDS, first_col, first_k / STEP * STEP, end, held[n / ROUNDS][n % ROUNDS]);
        barrier();
    }
    RF_FN static int place(int column) { return column / 2 * PAIR + column % 2 * COLUMN; }
    // A lane's column, unit of a tile, and part of it.
    RF_FN static int number(u32 own, int round) { return ((int)own + round * THREADS) % TOTAL; }
    RF_FN static u32 part(int round) { return uniform(((u32)thread_x() + round * THREADS) / TOTAL); }

    RF_FN static void unpack(const QMatmulArgs& g, const u8* bytes, int tile, u32 own, int round, u32 first_col, u32 first_k, u32 end,
                             Run* to) {
        const int column = number(own, round) % COLUMNS, unit = tile * (DEEP / UNIT) + number(own, round) / COLUMNS;
        const u32 col = first_col + column;
        const u32 line = (u32)(u64)g.words + (col < g.n ? col : g.n - 1) * (u32)g.w_n + first_k / STEP * BYTES;
        const u32 skipped = Type::ALIGNED < 16 ? line % 16 : 0;
        const bool inside = first_k + unit * UNIT < end;
        const u8* block = bytes + 16 * place(column) + skipped + (inside ? unit / Type::UNITS : 0) * Type::BYTES;
#pragma unroll
        for (int share = 0; share < SHARED; ++share) {
            if (SHARED > 1 && part(round) != (u32)share) continue;
            Run runs[Type::SUBS];
            Type::unpack(block, unit % Type::UNITS, runs);
#pragma unroll
            for (int run = 0; run < RUNS; ++run) {
                to[run] = runs[share * RUNS + run];
                // From the first of the tile on.
                to[run].at += unit / Type::UNITS * Type::SIZE - tile * DEEP;
                // What lies past the end of K meets zeros of A and must not be NaN.
                if (!inside) to[run].scale = to[run].offset = 0.0f;
            }
        }
    }
    RF_FN void put(const QMatmulArgs&, float, u32, u32 first_k, u32, In* lds) const {
        if (TILES == 1 || tile(first_k) == 0) put_tile(held[0], lds);
        else put_tile(held[TILES - 1], lds);
    }
    RF_FN static void put_tile(const Run (&of)[ROUNDS][RUNS], In* lds) {
        const u32 own = thread();
#pragma unroll
        for (int n = 0; n < ROUNDS * RUNS; ++n) {
            const Run& run = of[n / RUNS][n % RUNS];
            const int column = number(own, n / RUNS) % COLUMNS;
#pragma unroll
            for (int i = 0; i < 16; i += Where::WIDE) {
                Vec<In, Where::WIDE> some;
#pragma unroll
                for (int j = 0; j < Where::WIDE; ++j) some[j] = cast<In>(weight_at(run, i + j));
                store<Where::WIDE>(lds + Where::at(column, (int)run.at + i), some);
            }
        }
    }
};
