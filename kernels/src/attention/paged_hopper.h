// paged_hopper.h: a split of paged attention by Hopper's products of four waves, where many heads share one row of a cache, as MLA's do:
// values are channels of the keys' own rows. Stands behind paged.h.
//
// A workgroup has ROWS rows, and two groups of four waves. TILE keys at a time go to LDS, where the unit reads them by itself, as columns of K
// and as rows of V; while one tile is worked on, the next is on its way.
//
//   scores   of all keys of a tile, by the first group, which makes weights of them and leaves these in LDS as the operands that they are
//   sums     each group has HALF channels of all rows, and copies of the next keys what it has done with: its own channels, the second group
//            those, too, that are of no value
//
// While the second group sums the values of a tile, the first one has begun with the next one's scores.
//
// PAGED_DEPTH, PAGED_V_DEPTH: channels of a key and of a value; PAGED_LDS_BYTES.
#define TILE 64
#define STAGES 2
static const int DEPTH = PAGED_DEPTH, V_DEPTH = PAGED_V_DEPTH, HALF = V_DEPTH / 2;
// Blocks of 64 channels: of a key, and of half a value.
static const int BLOCKS = DEPTH / 64, HALF_BLOCKS = HALF / 64, BLOCK_BYTES = TILE * 128;
static const int GROUP_THREADS = THREADS / 2, SLOTS = 2, SCORES = 32, STEPS = TILE / 16;
typedef MmaGroup<In, TILE> Scores;
typedef MmaGroup<In, HALF> Sums;
static_assert(THREADS == 256 && ROWS == 64 && HALF == 256 && DEPTH >= V_DEPTH && DEPTH % 64 == 0, "checked by the launcher");
// Meetings of both groups, and of one.
enum { TILE_IS_THERE = 1, WEIGHTS_ARE_THERE, WEIGHTS_ARE_READ, SUMS_ARE_DONE };

// Dynamic LDS.
struct Exchanged {
    alignas(1024) char q[BLOCKS * BLOCK_BYTES];
    alignas(1024) char tiles[STAGES][BLOCKS * BLOCK_BYTES];
    Vec<u32, 4> weights[STEPS][GROUP_THREADS];
    State states[ROWS];
    float by[ROWS];
    // Of the keys of each tile.
    i32 is_there[STAGES][TILE];
    // What all ways have: beside tiles it would move them from where they may begin.
    Shared shared;
};
static_assert(PAGED_LDS_BYTES <= sizeof(Exchanged) && sizeof(Exchanged) - PAGED_LDS_BYTES < 1024,
              "as in hopper.rs, but for what makes it a multiple of its alignment");

// Keys of a group of waves on their way to LDS: neighbouring threads take 16 bytes each of a key's block. Pages are looked up a tile ahead.
struct Copier {
    static const int KEYS = TILE / (GROUP_THREADS / 8);
    KeyPlace place[KEYS];
    bool is_looked_up[KEYS];
    u32 sequence, kv_head, thread;
    i32 key, first, end;  // the thread's first one of the tile that is looked up

    RF_FN u32 own(int i) const { return thread / 8 + i * (GROUP_THREADS / 8); }
    RF_FN void look_up(const PagedArgs& g) {
#pragma unroll
        for (int i = 0; i < KEYS; ++i) {
            const i32 at = key + (i32)own(i);
            is_looked_up[i] = at >= first && at < end;
            if (is_looked_up[i]) place[i].find(g, sequence, at);
        }
        key += TILE;
    }
    // Keys from `from` to before `last`; those before `begin` are not there.
    RF_FN void start(const PagedArgs& g, u32 of_sequence, u32 of_head, i32 from, i32 begin, i32 last) {
        sequence = of_sequence;
        kv_head = of_head;
        thread = thread_x() % GROUP_THREADS;
        key = from;
        first = begin;
        end = last;
        look_up(g);
    }
    // COUNT blocks from `block` on, of the tile that is looked up.
    template <int COUNT> RF_FN void copy(const PagedArgs& g, Exchanged& e, int stage, int block, bool tells) const {
        const u32 chunk = thread % 8;
        const LdsAddress to = lds_address(e.tiles[stage] + block * BLOCK_BYTES);
#pragma unroll
        for (int i = 0; i < KEYS; ++i) {
            const bool is_there = is_looked_up[i] && place[i].is_there(g);
            const Code* from = g.k.at + (is_there ? token_at(g.k, place[i].page, kv_head, place[i].offset) : 0) + (block * 64 + chunk * 8);
#pragma unroll
            for (int n = 0; n < COUNT; ++n) copy_async(to + n * BLOCK_BYTES + group_place(own(i), chunk), from + n * 64, is_there);
            if (tells && chunk == 0) e.is_there[stage][own(i)] = is_there;
        }
        async_commit();
    }
};

// What a wave has of a split.
struct Work {
    float sums[Sums::ACC];
    // Of the rows of which the lane has scores: the first group's.
    float base[SLOTS], sum[SLOTS];
    i32 place[SLOTS];
    bool is_first;

    RF_FN static int row_of(int slot) { return (int)(thread_x() / ARCH_WAVE_SIZE % 4 * 16 + lane() / 4) + slot * 8; }
    // Past the last row it is that again, and nothing of it is written.
    RF_FN static u32 own_row(const Rows& rows, int slot) {
        const u32 row = (u32)row_of(slot);
        return row < rows.count ? row : rows.count - 1;
    }
    RF_FN void start(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 kv_head) {
        // Read off a lane: so the compiler knows that it is one number for a wave, and keeps names of tiles where products want them.
        is_first = shuffle(thread_x() / GROUP_THREADS, 0u) == 0;
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) {
            place[slot] = rows.place + (i32)rows.query(g, own_row(rows, slot));
            base[slot] = -__builtin_inff();
            sum[slot] = 0.0f;
        }
        const u32 chunk = thread_x() % 8;
#pragma unroll
        for (int i = 0; i < ROWS / (THREADS / 8); ++i) {
            const u32 row = thread_x() / 8 + i * (THREADS / 8), there = row < rows.count ? row : rows.count - 1;
            const In* from = g.q + (rows.q_first + (i32)rows.query(g, there)) * g.q_token + (i64)rows.head(g, there, kv_head) * g.q_head;
#pragma unroll
            for (int n = 0; n < BLOCKS; ++n)
                copy_async(lds_address(e.q) + n * BLOCK_BYTES + group_place(row, chunk), from + n * 64 + chunk * 8, true);
        }
        async_commit();
#pragma unroll
        for (int i = 0; i < Sums::ACC; ++i) sums[i] = 0.0f;
    }

    // Starts the products of all rows and a tile's keys.
    RF_FN static void score(const Exchanged& e, int stage, float* x) {
        const u64 q = group_tile(lds_address(e.q)), keys = group_tile(lds_address(e.tiles[stage]));
        group_begin();
#pragma unroll
        for (int k = 0; k < DEPTH / 16; ++k) {
            const u32 at = k / 4 * (BLOCK_BYTES >> 4) + k % 4 * GROUP_STEP;
            Scores::run(x, q + at, keys + at, k > 0);
        }
        group_commit();
    }
    // The key of value `i` in a tile.
    RF_FN static i32 key_of(int i) { return i / 4 * 8 + (i32)(lane() % 4) * 2 + i % 2; }
    RF_FN static constexpr int slot_of(int i) { return i / 2 % 2; }
    // Scores as exponents of two; of what a row does not see, minus infinity. `at`: the tile's first key.
    RF_FN void exponents(const PagedArgs& g, const Exchanged& e, const Rows& rows, u32 kv_head, int stage, i32 at, float* x) const {
        const i32* there = e.is_there[stage];
        bool is_whole = there[lane()] != 0 && there[lane() + ARCH_WAVE_SIZE] != 0 && !g.slopes && !g.bias && g.softcap == 0.0f;
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) is_whole = is_whole && at + TILE - 1 <= place[slot] && at > place[slot] - g.window;
        if (!rf::ballot(!is_whole)) {
#pragma unroll
            for (int i = 0; i < SCORES; ++i) x[i] = x[i] * g.scale * LOG2_E;
            return;
        }
        float slope[SLOTS];
        const float* bias[SLOTS];
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) {
            const u32 row = own_row(rows, slot);
            slope[slot] = g.slopes ? g.slopes[rows.head(g, row, kv_head)] : 0.0f;
            bias[slot] = g.bias + (i64)(rows.q_first + (i32)rows.query(g, row)) * g.bias_token - rows.place;
        }
#pragma unroll
        for (int i = 0; i < SCORES; ++i) {
            const int slot = slot_of(i);
            const i32 n = key_of(i), key = at + n;
            float score = x[i] * g.scale;
            if (g.softcap != 0.0f) score = rf::tanh(score / g.softcap) * g.softcap;
            if (g.slopes) score -= slope[slot] * (float)(place[slot] - key);
            const bool is_seen = key <= place[slot] && key > place[slot] - g.window && there[n] != 0;
            if (g.bias && is_seen && key >= rows.place) score += bias[slot][key];
            x[i] = is_seen ? score * LOG2_E : -__builtin_inff();
        }
    }
    RF_FN static float across(float x, Larger op) {
        x = op(x, dpp<RF_DPP_XOR1>(x));
        return op(x, dpp<RF_DPP_XOR2>(x));
    }
    // Brings the state to a maximum that has moved too far; what sums are rescaled by.
    RF_FN void rescale(const float* x, float (&by)[SLOTS]) {
        float high[SLOTS];
        bool is_above = false;
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) {
            high[slot] = -__builtin_inff();
            by[slot] = 1.0f;
#pragma unroll
            for (int i = 0; i < SCORES; ++i)
                if (slot_of(i) == slot) high[slot] = __builtin_fmaxf(high[slot], x[i]);
            is_above = is_above || high[slot] > base[slot] + RESCALE_ABOVE;
        }
        if (!rf::ballot(is_above)) return;
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) {
            high[slot] = across(high[slot], Larger());
            if (high[slot] > base[slot] + RESCALE_ABOVE) {
                by[slot] = exp2_from(base[slot], high[slot]);
                base[slot] = high[slot];
                sum[slot] *= by[slot];
            }
        }
    }
    // Scores to weights, as operands.
    RF_FN void weigh(float* x, u32 (*weights)[4]) {
#pragma unroll
        for (int i = 0; i < SCORES; ++i) {
            x[i] = exp2_from(x[i], base[slot_of(i)]);
            sum[slot_of(i)] += x[i];
        }
#pragma unroll
        for (int i = 0; i < SCORES / 2; ++i) weights[i / 4][i % 4] = two_of<In>(x[2 * i], x[2 * i + 1]);
    }
    // Starts the sums of the group's channels.
    RF_FN void add(const Exchanged& e, int stage, const u32 (*weights)[4], const float (&by)[SLOTS]) {
        if (rf::ballot(by[0] != 1.0f || by[1] != 1.0f)) {
#pragma unroll
            for (int i = 0; i < Sums::ACC; ++i) sums[i] *= by[slot_of(i)];
        }
        const u64 values = group_tile_across(lds_address(e.tiles[stage]) + (is_first ? 0 : HALF_BLOCKS * BLOCK_BYTES));
        group_begin();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) Sums::run_across(sums, weights[step], values + step * ACROSS_STEP, true);
        group_commit();
    }

    // The first group's part.
    RF_FN void lead(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 kv_head, Copier& copier, i32 from, i32 end) {
        copier.copy<HALF_BLOCKS>(g, e, 0, 0, false);
        copier.look_up(g);
        u32 weights[STEPS][4];
        int stage = 0;
#pragma unroll 1
        for (i32 at = from; at < end; at += TILE) {
            async_wait<0>();
            group_show();
            // From here on nobody reads the group's channels of the tile before.
            group_wait<0>();
            meet(TILE_IS_THERE, THREADS);
            float x[SCORES];
            score(e, stage, x);
            copier.copy<HALF_BLOCKS>(g, e, 1 - stage, 0, false);
            copier.look_up(g);
            group_wait<0>();
            float by[SLOTS];
            exponents(g, e, rows, kv_head, stage, at, x);
            rescale(x, by);
            weigh(x, weights);
            if (at > from) meet(WEIGHTS_ARE_READ, THREADS);
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                Vec<u32, 4> four;
#pragma unroll
                for (int i = 0; i < 4; ++i) four[i] = weights[step][i];
                e.weights[step][thread_x()] = four;
            }
            if (lane() % 4 == 0) {
#pragma unroll
                for (int slot = 0; slot < SLOTS; ++slot) e.by[row_of(slot)] = by[slot];
            }
            tell(WEIGHTS_ARE_THERE, THREADS);
            add(e, stage, weights, by);
            stage = 1 - stage;
        }
        async_wait<0>();
        group_wait<0>();
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) {
            sum[slot] += dpp<RF_DPP_XOR1>(sum[slot]);
            sum[slot] += dpp<RF_DPP_XOR2>(sum[slot]);
            const State state = {base[slot], sum[slot]};
            if (lane() % 4 == 0) e.states[row_of(slot)] = state;
        }
    }
    // The second group's part.
    RF_FN void follow(const PagedArgs& g, Exchanged& e, Copier& copier, i32 from, i32 end) {
        static const int REST = BLOCKS - 2 * HALF_BLOCKS;
        // The first tile, then the second one.
#pragma unroll
        for (int i = 0; i < STAGES; ++i) {
            copier.copy<HALF_BLOCKS + REST>(g, e, i, HALF_BLOCKS, true);
            copier.look_up(g);
        }
        async_wait<1>();
        group_show();
        if (from < end) tell(TILE_IS_THERE, THREADS);
        int stage = 0;
#pragma unroll 1
        for (i32 at = from; at < end; at += TILE) {
            meet(WEIGHTS_ARE_THERE, THREADS);
            u32 weights[STEPS][4];
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const Vec<u32, 4> four = e.weights[step][thread_x() % GROUP_THREADS];
#pragma unroll
                for (int i = 0; i < 4; ++i) weights[step][i] = four[i];
            }
            const float by[SLOTS] = {e.by[row_of(0)], e.by[row_of(1)]};
            const bool is_last = at + TILE >= end;
            if (!is_last) tell(WEIGHTS_ARE_READ, THREADS);
            add(e, stage, weights, by);
            // Both groups have the scores of this tile behind them, so that the next one may be told of.
            async_wait<0>();
            group_show();
            if (!is_last) tell(TILE_IS_THERE, THREADS);
            group_wait<0>();
            meet(SUMS_ARE_DONE, GROUP_THREADS);
            copier.copy<HALF_BLOCKS + REST>(g, e, stage, HALF_BLOCKS, true);
            copier.look_up(g);
            stage = 1 - stage;
        }
        async_wait<0>();
    }
    // Keys from `first` to before `end`.
    RF_FN void run(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 sequence, u32 kv_head, i32 first, i32 end) {
        const i32 from = first / TILE * TILE;
        Copier copier;
        copier.start(g, sequence, kv_head, from, first, end);
        if (is_first) lead(g, e, rows, kv_head, copier, from, end);
        else follow(g, e, copier, from, end);
        barrier();
    }
    RF_FN void write(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 kv_head, u32 split, bool is_only) const {
        const u32 first_channel = (is_first ? 0 : HALF) + lane() % 4 * 2;
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) {
            const u32 row = (u32)row_of(slot);
            if (row >= rows.count) continue;
            const State state = e.states[row];
            RowEnd end;
            end.start(g, rows, row, kv_head, split, state, is_only);
            In* out = g.out + end.token * g.out_token + end.head * g.out_head + first_channel;
            float* parts = g.parts + end.line * g.v.depth + first_channel;
            const float by = end.factor;
#pragma unroll
            for (int n = 0; n < HALF / 8; ++n) {
                Vec<float, 2> two;
                two[0] = sums[n * 4 + slot * 2];
                two[1] = sums[n * 4 + slot * 2 + 1];
                if (!is_only) {
                    store<2>(parts + n * 8, two);
                } else {
                    out[n * 8] = cast<In>(two[0] * by);
                    out[n * 8 + 1] = cast<In>(two[1] * by);
                }
            }
            if (is_first && lane() % 4 == 0) end.put_state(g, state, is_only);
        }
    }
};
