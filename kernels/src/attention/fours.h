// fours.h: a streamed tile as the second product reads it on AMD's matrix unit, alone or, where both products read one, beside its
// rows: of each column four neighbouring rows lie side by side in LDS, which is what a lane takes at once. Rows are brought so by
// the threads that load them; read from rows as they are, each operand would be gathered by loads of two bytes.
#if ATTENTION_SIZE && !ATTENTION_STAGES
// Four rows: 8 bytes a column, columns in pairs of 16 bytes. Every second time that they fill the banks, pairs are exchanged with their
// neighbours, so that threads that store pairs of four columns each meet no bank twice.
template <int DEPTH> struct Fours {
    static const int BYTES = DEPTH * 8;
    RF_FN static int pair(int number) { return number ^ (number / BANKED_CHUNKS & 1); }
};

// As `Loader`: a thread has four rows of four columns.
template <int DEPTH> struct FoursLoader {
    static const int PER_FOUR = DEPTH / 4, TOTAL = TILE_ROWS / 4 * PER_FOUR, LOADS = (TOTAL + THREADS - 1) / THREADS;
    Vec<u32, 2> held[LOADS][4];
    static const int PASS = THREADS / PER_FOUR * 4;
    static const bool EVEN = THREADS % PER_FOUR == 0 && TOTAL % THREADS == 0;
    u32 place[EVEN ? 1 : LOADS];

    RF_FN static bool mine(int i) { return TOTAL % THREADS == 0 || (int)thread_x() + i * THREADS < TOTAL; }
    RF_FN static int first_row(int i) { return ((int)thread_x() + i * THREADS) / PER_FOUR * 4; }
    RF_FN static int column(int i) { return ((int)thread_x() + i * THREADS) % PER_FOUR * 4; }
    RF_FN FoursLoader(i64 stride, int depth) {
#pragma unroll
        for (int i = 0; i < (EVEN ? 1 : LOADS); ++i)
            place[i] = mine(i) && column(i) < depth ? place_of(first_row(i), column(i), stride) : BufferResource::NOWHERE;
    }
    RF_FN void fetch(const In* base, i64 stride, int first, int rows, int depth) {
        const BufferResource resource = resource_of(base, stride, first, rows, depth);
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const u32 shared = (u32)((EVEN ? i * PASS : 0) + r) * (u32)stride * (u32)sizeof(In);
                held[i][r] = resource.load<2>(place[EVEN ? 0 : i], shared);
            }
    }
    // The rows as they are, as `Loader` puts them.
    RF_FN void put_rows(In* lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!mine(i)) continue;
#pragma unroll
            for (int r = 0; r < 4; ++r) store<2>((u32*)(lds + (first_row(i) + r) * Row<DEPTH>::LENGTH + column(i)), held[i][r]);
        }
    }
    RF_FN void put(In* lds) const {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            if (!mine(i)) continue;
            char* to = (char*)lds + first_row(i) / 4 * Fours<DEPTH>::BYTES;
#pragma unroll
            for (int p = 0; p < 2; ++p) {
                const Vec<u32, 2>* rows = held[i];
                Vec<u32, 4> two = {{low_halves(rows[0][p], rows[1][p]), low_halves(rows[2][p], rows[3][p]),
                                    high_halves(rows[0][p], rows[1][p]), high_halves(rows[2][p], rows[3][p])}};
                store<4>((u32*)(to + Fours<DEPTH>::pair(column(i) / 2 + p) * 16), two);
            }
        }
    }
};

// As `Reader`.
template <int DEPTH> struct FoursReader {
    static const int PAIRS = ATTENTION_SIZE / 2;
    // In panels of even and of odd number.
    const char* first[2];
    RF_FN FoursReader(Rows tile, int lane) {
        const int column = lane % ATTENTION_SIZE;
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            const int pair = Fours<DEPTH>::pair(odd * PAIRS + column / 2) - odd * PAIRS;
            first[odd] = (const char*)tile + C::first_four(lane) * Fours<DEPTH>::BYTES + pair * 16 + column % 2 * 8;
        }
    }
    RF_FN void read_transposed(int tile, int panel, C::Operand* to) const {
        u32 words[C::FOURS ? C::FOURS * 2 : 1];
#pragma unroll
        for (int i = 0; i < C::FOURS; ++i) {
            const int four = tile * (ATTENTION_SIZE / 4) + i * C::FOUR_STEP;
            Vec<u32, 2> two = load<2>((const u32*)(first[panel % 2] + four * Fours<DEPTH>::BYTES + panel * (PAIRS * 16)));
            words[2 * i] = two[0];
            words[2 * i + 1] = two[1];
        }
        __builtin_memcpy(to, words, sizeof(words));
    }
};

// What values go through on their way to LDS and from there.
template <int DEPTH, bool FOURS> struct ValueTile {
    typedef FoursLoader<DEPTH> Load;
    typedef FoursReader<DEPTH> Read;
};
template <int DEPTH> struct ValueTile<DEPTH, false> {
    typedef Loader<DEPTH> Load;
    typedef Reader<DEPTH> Read;
};
typedef ValueTile<ATTENTION_DV, C::FOURS != 0> OfValues;
#elif ATTENTION_SIZE
template <int DEPTH, bool> struct ValueTile { typedef Reader<DEPTH> Read; };
typedef ValueTile<ATTENTION_DV, false> OfValues;
#else
template <int DEPTH, bool> struct ValueTile {
    typedef Loader<DEPTH> Load;
    typedef void Read;
};
typedef ValueTile<ATTENTION_DV, false> OfValues;
#endif

#if !ATTENTION_STAGES
#if ATTENTION_SIZE == 32
#define ATTENTION_BOTH_WAYS (C::FOURS != 0)
#else
#define ATTENTION_BOTH_WAYS false
#endif
// A streamed tile of a gradient, in LDS from `lds` on: as rows where it is an operand of scores, and where it is one of sums, as fours
// beside them. Where there are none, sums read rows.
template <int DEPTH, bool OF_SCORES, bool OF_SUMS> struct Streamed {
    static const bool FOURS = OF_SUMS && ATTENTION_BOTH_WAYS, ROWS = OF_SCORES || !FOURS;
    static const int ROWS_BYTES = ROWS ? STREAMED_ROWS * Row<DEPTH>::LENGTH * (int)sizeof(In) : 0;
    static const int BYTES = ROWS_BYTES + (FOURS ? STREAMED_ROWS * DEPTH * (int)sizeof(In) : 0);
    typedef typename ValueTile<DEPTH, FOURS>::Load Load;
    typedef typename ValueTile<DEPTH, FOURS>::Read Read;
    Load load;
    In *rows, *summed;

    RF_FN Streamed(char* lds, i64 stride, int depth) : load(stride, depth), rows((In*)lds), summed((In*)(lds + (FOURS ? ROWS_BYTES : 0))) {}
    RF_FN void fetch(const In* base, i64 stride, int first, int count, int depth) { load.fetch(base, stride, first, count, depth); }
    RF_FN void put() const { put(load); }
    RF_FN void put(const Loader<DEPTH>& of) const { of.put(rows); }
#if ATTENTION_SIZE
    RF_FN void put(const FoursLoader<DEPTH>& of) const {
        if (ROWS) of.put_rows(rows);
        of.put(summed);
    }
#endif
};
#endif
