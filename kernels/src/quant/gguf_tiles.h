// gguf_tiles.h: a tile of W of blocks of GGUF, decoded, as [column][k], in the place of `LoadW` of q_matmul.hip. `words` are lines of
// blocks, one for each column, `w_n` bytes apart. Stands behind coded.h and gguf.h.
//
// `Where` is how the tile lies in LDS. Neighbouring lanes have neighbouring columns, whose lines in LDS are in different banks.
template <class Where, int COLUMNS, int DEEP, int THREADS> struct LoadBlocks {
    typedef Gguf<Q_GGUF> Type;
    static const int UNIT = Type::SIZE / Type::UNITS, TOTAL = COLUMNS * (DEEP / UNIT);
    static const int ROUNDS = (TOTAL + THREADS - 1) / THREADS;
    static_assert(DEEP % 128 == 0, "the runs of two units of a K type lie in 128 weights");
    Run held[ROUNDS][Type::SUBS];

    RF_FN static bool mine(int c) { return TOTAL % THREADS == 0 || c < TOTAL; }
    RF_FN void start() {}
    RF_FN void fetch(const QMatmulArgs& g, u32 first_col, u32 first_k, u32 end) {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int c = (int)thread_x() + round * THREADS;
            if (!mine(c)) continue;
            const u32 col = first_col + c % COLUMNS, unit = first_k / UNIT + c / COLUMNS;
            // What lies past the columns is not stored.
            const u8* line = g.words + (i64)(col < g.n ? col : g.n - 1) * g.w_n;
            const bool inside = unit * UNIT < end;
            Type::unpack(line + (u64)(inside ? unit / Type::UNITS : 0) * Type::BYTES, unit % Type::UNITS, held[round]);
            // What lies past the end of K meets zeros of A and must not be NaN. Blocks of one unit alone end inside of a tile.
            if (Type::UNITS == 1 && !inside)
#pragma unroll
                for (int run = 0; run < Type::SUBS; ++run) held[round][run].scale = held[round][run].offset = 0.0f;
        }
    }
    RF_FN void put(const QMatmulArgs&, float, u32, u32 first_k, u32, In* lds) const {
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const int c = (int)thread_x() + round * THREADS;
            if (!mine(c)) continue;
            const int block = (int)((first_k / UNIT + c / COLUMNS) / Type::UNITS) * Type::SIZE - (int)first_k;
#pragma unroll
            for (int run = 0; run < Type::SUBS; ++run)
#pragma unroll
                for (int i = 0; i < 16; i += Where::WIDE) {
                    Vec<In, Where::WIDE> some;
#pragma unroll
                    for (int j = 0; j < Where::WIDE; ++j) some[j] = cast<In>(weight_at(held[round][run], i + j));
                    store<Where::WIDE>(lds + Where::at(c % COLUMNS, block + (int)held[round][run].at + i), some);
                }
        }
    }
};
