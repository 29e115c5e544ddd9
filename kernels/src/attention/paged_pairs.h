// paged_pairs.h: a split of paged attention on CDNA's matrix unit, for 16-bit floats and codes and heads of 64 or 128. Stands behind
// paged_part.h.
//
// A wave takes two tiles of TILE keys at once, straight from memory into operands: no two waves want the same, so that LDS would gain
// nothing. The order of channels within a product is free as long as both operands have the same, and of results wherever they are
// written: a lane takes 16 bytes of neighbouring channels of a key, whichever k the hardware gives them.
//
//   scores   K · Qᵀ: four of one row, of keys group * 4 on, are left in each lane, where
//   sums     Vᵀ · Pᵀ wants them as an operand; of V a lane has its channels of these four keys, and puts pairs of keys together
//
// Products have 16 columns, and a group of heads is often eight. With ROWS 8 the columns are two times the rows: those of the first eight
// belong to the first tile of a pair, those of the last eight to the second one, so that every lane's exponentials are of a row that
// there is. A product of sums then is of use in half of its columns, and each tile of a pair has sums of its own. With ROWS 16 each tile
// has all columns; a row's sums are the same two, and its bits too.
//
// Weights are rounded to the type of Q for the second product.
typedef In H;

#define TILE 16
#define LINES 16
#define DEPTH (TEAM * CHANNELS)
// Channels that one access takes, accesses to a key's, and channels between them: a lane's part of K and Q, and of V.
#define K_CHANNELS (CACHE_IS_CODED ? 16 : 8)
#define K_PARTS (DEPTH / 4 / K_CHANNELS)
#define V_CHANNELS (DEPTH / LINES < K_CHANNELS ? DEPTH / LINES : K_CHANNELS)
#define V_PARTS (DEPTH / LINES / V_CHANNELS)
#define PRODUCTS (DEPTH / 16)
// Keys that a wave takes at once of a tile, and all waves.
#define WAVE_RUN TILE
#define STEP (WAVES * TILE)
// Sets of exponentials that a pair of tiles takes: of both at once, or of each.
#define TURNS (ROWS / 8)
#define TILES (SPLIT / STEP)
static_assert(ROWS == 8 || ROWS == 16, "whole products");
static_assert(TILES % 2 == 0 && TILES < ARCH_WAVE_SIZE, "whole pairs, each tile of a wave known to one lane");

struct Exchanged {};

typedef float Four __attribute__((ext_vector_type(4)));
typedef float Two __attribute__((ext_vector_type(2)));

struct Operand {
    u32 of[2];
    RF_FN Operand(u32 low, u32 high) {
        of[0] = low;
        of[1] = high;
    }
};
// c + a · b: of each operand two words, four k of a row or column.
RF_FN Four multiply(Operand a, Operand b, Four c) {
    if (same<H, bf16>::value) {
        typedef short Halves __attribute__((ext_vector_type(4)));
        return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<Halves>(a), bit_cast<Halves>(b), c, 0, 0, 0);
    }
    typedef _Float16 Halves __attribute__((ext_vector_type(4)));
    return __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<Halves>(a), bit_cast<Halves>(b), c, 0, 0, 0);
}

// What the lane has that is eight lanes away, in a row of 16.
RF_FN float of_other_half(float x) { return dpp<0x128>(x); }  // row_ror:8

// An address of device memory.
RF_FN const char* global(u64 address) { return (const char*)(const __attribute__((address_space(1))) char*)address; }

// Where the tiles of a wave are.
struct Tiles {
    u64 are_there;  // of each tile a bit: whether its page is there
#if PAGED_WHOLE_PAGES
    u32 low, high;  // the address of the first key of the tile of the lane's number

    // Of the keys from `first` to before `end`. Scales go to LDS.
    RF_FN void find(const PagedArgs& g, Shared& shared, u32 sequence, u32 kv_head, i32 begin, i32 first, i32 end, u32 wave) {
        const i32 at = ((i32)lane() * WAVES + (i32)wave) * TILE;
        bool is_there = (i32)lane() < TILES && at + TILE > first && at < end;
        u64 place = 0;
        i64 scale = 0;
        if (is_there) {
            KeyPlace key;
            key.find(g, sequence, begin + at);
            is_there = key.is_there(g);
            if (is_there) {
                place = (u64)(g.k.at + token_at(g.k, key.page, kv_head, key.offset));
#if KEY_SCALES
                scale = scale_at(g.k_scales, key.page, kv_head, key.offset) - g.k_scales.at;
#endif
            }
        }
        low = (u32)place;
        high = (u32)(place >> 32);
        are_there = rf::ballot(is_there);
#if KEY_SCALES
#pragma unroll
        for (int i = 0; i < TILES * TILE / ARCH_WAVE_SIZE; ++i) {
            // Several tiles at once, a key to a lane.
            const u32 tile = i * (ARCH_WAVE_SIZE / TILE) + lane() / TILE, key = lane() % TILE;
            const i32 n = (i32)((tile * WAVES + wave) * TILE + key);
            const i64 from = shuffle(scale, tile) + (i64)key * g.k_scales.token;
            if ((are_there >> tile & 1) == 0 || n < first || n >= end) continue;
            shared.places.k_scale[n] = DECODED_BY * g.k_scales.at[from];
            shared.places.v_scale[n] = DECODED_BY * g.v_scales.at[from];
        }
        wave_barrier();
#endif
    }
    // The first key of a tile in the plane of keys.
    RF_FN u64 first_key(u32 tile) const { return (u64)read_lane(high, tile) << 32 | read_lane(low, tile); }
#else
    RF_FN void find(const PagedArgs& g, Shared& shared, u32 sequence, u32 kv_head, i32 begin, i32 first, i32 end, u32) {
        are_there = find_keys<TILE>(g, shared, sequence, kv_head, begin, begin + first, begin + end) ? ~0ull : 0;
    }
#endif
};

// What a lane has of a split.
struct Work {
    u32 q[PRODUCTS][2];
    Four sums[2][PRODUCTS];
    // Of the lane's row, in each of the turns; of a maximum of minus infinity nothing is taken away.
    // What is above `limit` moves the maximum. Sums of every second key.
    float base[TURNS], shift[TURNS], limit[TURNS];
    Two sum[TURNS];
    float scale, unit;  // exponents are `unit` times what is bent, lessened or raised, or times products where nothing is
    bool has_extras;
    i32 place;  // of the lane's row, below 0 if there is none
    Tiles tiles;
    u32 wave, k_at, v_at[4];  // the lane's parts behind a tile's first key, in bytes
    i64 apart;  // from the plane of keys to that of values, in bytes
    i32 begin, first, end, first_new, first_token, first_head;

    RF_FN void start(const PagedArgs& g, const Rows& rows, u32 kv_head) {
        const u32 row = lane() % ROWS, group = lane() / LINES;
        const bool is_there = row < rows.count;
        const u32 query = rows.query(g, row), head = rows.head(g, row, kv_head);
        const i64 token = rows.q_first + (i32)query;
        const In* from = g.q + token * g.q_token + (i64)head * g.q_head + group * K_CHANNELS;
#pragma unroll
        for (int p = 0; p < DEPTH / 32; ++p) {
            // Of each of the cache's accesses one or two of eight channels.
            const int at = p * CHANNELS / K_CHANNELS * (4 * K_CHANNELS) + p * CHANNELS % K_CHANNELS;
            u32 words[4] = {0, 0, 0, 0};
            if (is_there && g.q_is_whole) {
                const Vec<u32, 4> part = load<4>((const u32*)(const void*)(from + at));
#pragma unroll
                for (int i = 0; i < 4; ++i) words[i] = part[i];
            } else if (is_there) {
#pragma unroll
                for (int i = 0; i < CHANNELS; ++i) words[i / 2] |= (u32)from[at + i].bits << (i % 2 * 16);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) q[2 * p + i / 2][i % 2] = words[i];
        }
        scale = HEAD_SCALES ? g.scale * DECODED_BY * *scale_at(g.k_scales, 0, kv_head, 0) : g.scale;
        has_extras = g.has_extras != 0;
        unit = bit_cast<float>(uniform(bit_cast<u32>(has_extras ? LOG2_E : scale * LOG2_E)));
        place = is_there ? rows.place + (i32)query : -1;
        first_token = rows.q_first;
        first_head = (i32)rows.head(g, 0, kv_head) + (i32)(rows.query(g, 0) * g.group.divisor);
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            base[turn] = limit[turn] = -__builtin_inff();
            shift[turn] = 0.0f;
            sum[turn] = (Two)0.0f;
        }
#pragma unroll
        for (int p = 0; p < 2 * PRODUCTS; ++p) {
            Four& zeros = sums[p / PRODUCTS][p % PRODUCTS];
            zeros = (Four)0.0f;
            // Of a constant the compiler makes copies where loops meet.
            asm volatile("" : "+v"(zeros));
        }
    }

    // Over the lanes of a column.
    template <class Op> RF_FN static float across(float x, Op op) {
        x = op(x, rf::Words<float, 1>::each(x, Xor16()));
        return op(x, shuffle_xor(x, 32u));
    }
    // The tile of a pair that the lane has scores of, and its first key of these in the split.
    RF_FN static int part_of(int turn) { return TURNS == 1 ? (int)(lane() % LINES / ROWS) : turn; }
    RF_FN i32 tile_at(int tile) const { return (tile * WAVES + (i32)wave) * TILE; }
    RF_FN i32 first_key(int tile, int turn) const { return tile_at(tile + part_of(turn)) + (i32)(lane() / LINES * 4); }
    // Whether key n of the split is one that there is.
    RF_FN bool is_key(const Shared& shared, int tile, i32 n) const {
#if PAGED_WHOLE_PAGES
        return n >= first && n < end && (tiles.are_there >> tile & 1) != 0;
#else
        return shared.places.k_at[n] >= 0;
#endif
    }

    // WHOLE: all keys of the tile are there.
    template <bool WHOLE>
    RF_FN void read_keys(const PagedArgs& g, const Shared& shared, int tile, u64 tile_from, Part<K_CHANNELS> (&keys)[K_PARTS]) {
        const i32 n = tile_at(tile) + (i32)(lane() % LINES);
        const bool is_there = WHOLE || is_key(shared, tile, n);
#if PAGED_WHOLE_PAGES
        make_anew(k_at);
        const char* from = global(tile_from) + k_at;
#else
        const char* from = (const char*)g.k.at + k_at + shared.places.k_at[n];
#endif
#pragma unroll
        for (int p = 0; p < K_PARTS; ++p) {
            if (is_there) keys[p].read(from + p * 4 * K_CHANNELS * (int)sizeof(Code));
            else keys[p].clear();
        }
    }
    template <bool WHOLE>
    RF_FN void read_values(const PagedArgs& g, const Shared& shared, int tile, u64 tile_from, Part<V_CHANNELS> (&values)[4][V_PARTS]) {
#if PAGED_WHOLE_PAGES
        tile_from += (u64)apart;
#endif
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const i32 n = tile_at(tile) + (i32)(lane() / LINES * 4) + i;
            const bool is_there = WHOLE || is_key(shared, tile, n);
#if PAGED_WHOLE_PAGES
            make_anew(v_at[i]);
            const char* from = global(tile_from) + v_at[i];
#else
            const char* from = (const char*)g.v.at + v_at[0] + shared.places.v_at[n];
#endif
#pragma unroll
            for (int p = 0; p < V_PARTS; ++p) {
                if (is_there) values[i][p].read(from + p * LINES * V_CHANNELS * (int)sizeof(Code));
                else values[i][p].clear();
            }
        }
    }

    RF_FN Four score(const Part<K_CHANNELS> (&keys)[K_PARTS]) const {
        Four c = (Four)0.0f;
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p) {
            const int each = K_CHANNELS / 4;
            const Part<K_CHANNELS>& part = keys[p / each];
            c = multiply(Operand(part.word(p % each * 2), part.word(p % each * 2 + 1)), Operand(q[p][0], q[p][1]), c);
        }
        return c;
    }
    RF_FN void add(const Part<V_CHANNELS> (&values)[4][V_PARTS], const u32 (&weights)[2], Four (&to)[PRODUCTS]) {
#pragma unroll
        for (int n = 0; n < PRODUCTS / 2; ++n) {
            const int part = n / (V_CHANNELS / 2), w = n % (V_CHANNELS / 2);
            u32 low[2], high[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) Part<V_CHANNELS>::pairs(values[2 * i][part], values[2 * i + 1][part], w, low[i], high[i]);
            to[2 * n] = multiply(Operand(low[0], low[1]), Operand(weights[0], weights[1]), to[2 * n]);
            to[2 * n + 1] = multiply(Operand(high[0], high[1]), Operand(weights[0], weights[1]), to[2 * n + 1]);
        }
    }
    // The channel of value i of product n.
    RF_FN static u32 channel_of(int n, int i, u32 lane) {
        return n / V_CHANNELS * (LINES * V_CHANNELS) + (lane / LINES * 4 + i) * V_CHANNELS + n % V_CHANNELS;
    }

    // Scores of the lane's four keys to exponents of 2; -inf for those that the row does not see. WHOLE: it sees all of them.
    template <bool WHOLE> RF_FN void exponents(const PagedArgs& g, const Shared& shared, int tile, int turn, Two (&x)[2]) const {
#if KEY_SCALES
        const Vec<float, 4> of_keys = load<4>(&shared.places.k_scale[first_key(tile, turn)]);
#endif
#if KEY_SCALES
#pragma unroll
        for (int i = 0; i < 2; ++i) x[i] *= (Two){of_keys[2 * i], of_keys[2 * i + 1]};
#endif
        if (has_extras) {
            // Found anew: nobody else wants them, and registers are few.
            const i32 query = place - first_new;
            const bool is_there = place >= 0;
            const float slope = g.slopes && is_there ? g.slopes[first_head + (i32)(lane() % ROWS) - query * (i32)g.group.divisor] : 0.0f;
            const float* bias = g.bias && is_there ? g.bias + (i64)(first_token + query) * g.bias_token - first_new : (const float*)0;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const i32 key = begin + first_key(tile, turn) + i;
                float score = x[i / 2][i % 2] * scale;
                if (g.softcap != 0.0f) score = rf::tanh(score / g.softcap) * g.softcap;
                score -= slope * (float)(place - key);
                if (bias && key >= first_new && key <= place) score += bias[key];
                x[i / 2][i % 2] = score;
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) x[i] *= unit;
        if (WHOLE) return;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const i32 n = first_key(tile, turn) + i, key = begin + n;
            const bool is_seen = key <= place && key > place - g.window && is_key(shared, tile + part_of(turn), n);
            if (!is_seen) x[i / 2][i % 2] = -__builtin_inff();
        }
    }
    // Brings sums to a maximum that has moved too far. Others of the wave may have to; a row's own bits do not depend on them.
    RF_FN void rescale(const Two (&x)[2], int turn) {
        float high = __builtin_fmaxf(__builtin_fmaxf(x[0][0], x[0][1]), __builtin_fmaxf(x[1][0], x[1][1]));
        if (!rf::ballot(high > limit[turn])) return;
        high = across(high, Larger());
        const float before = base[turn], now = high > limit[turn] ? high : before;
        base[turn] = now;
        limit[turn] = now + RESCALE_ABOVE;
        shift[turn] = now == -__builtin_inff() ? 0.0f : now;
        // The first maximum finds sums of zeros.
        if (!rf::ballot(now > before && before > -__builtin_inff())) return;
        const float by = now > before ? exp2_from(before, now) : 1.0f;
        sum[turn] *= by;
#pragma unroll
        for (int stream = 0; stream < 2; ++stream)
#pragma unroll
            for (int p = 0; p < PRODUCTS; ++p)
                if (TURNS == 1 || stream == turn) sums[stream][p] *= by;
    }
    RF_FN void weigh(const Shared& shared, int tile, int turn, Two (&x)[2], u32 (&weights)[2]) {
        rescale(x, turn);
#if KEY_SCALES
        const Vec<float, 4> of_values = load<4>(&shared.places.v_scale[first_key(tile, turn)]);
#endif
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            x[i] -= shift[turn];
            x[i] = (Two){exp2_fast(x[i][0]), exp2_fast(x[i][1])};
            sum[turn] += x[i];
#if KEY_SCALES
            // A key that is not there has no scale.
#pragma unroll
            for (int e = 0; e < 2; ++e) x[i][e] = x[i][e] == 0.0f ? 0.0f : x[i][e] * of_values[2 * i + e];
#endif
            weights[i] = two_numbers<H>(x[i][0], x[i][1]);
        }
    }

    // A pair of tiles, from `tile` on, whose first keys are `at`. WHOLE: all keys are there, and seen by all rows. MORE: `keys` are read
    // for the next pair, which is whole too.
    template <bool WHOLE, bool MORE>
    RF_FN void take(const PagedArgs& g, const Shared& shared, int tile, u64 (&at)[2], Part<K_CHANNELS> (&keys)[2][K_PARTS]) {
        Part<V_CHANNELS> values[2][4][V_PARTS];
#pragma unroll
        for (int i = 0; i < 2; ++i) read_values<WHOLE>(g, shared, tile + i, at[i], values[i]);
        if (WHOLE) wait_for_loads_but<2 * 4 * V_PARTS>();
        Four scores[2] = {score(keys[0]), score(keys[1])};
        // The next keys go into the registers of these.
        asm volatile("" : "+v"(scores[0]), "+v"(scores[1]));
        hold_schedule();
        if (MORE) {
            find_pair(tile + 2, at);
#pragma unroll
            for (int i = 0; i < 2; ++i) read_keys<true>(g, shared, tile + 2 + i, at[i], keys[i]);
        }
        u32 weights[TURNS][2];
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            Two x[2];
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i / 2][i % 2] = TURNS == 1 && part_of(0) != 0 ? scores[1][i] : scores[turn][i];
            exponents<WHOLE>(g, shared, tile, turn, x);
            weigh(shared, tile, turn, x, weights[turn]);
        }
        if (MORE) wait_for_loads_but<2 * K_PARTS>();
#pragma unroll
        for (int i = 0; i < 2; ++i) add(values[i], weights[i % TURNS], sums[i]);
    }
    // The first keys of a pair of tiles.
    RF_FN void find_pair(int tile, u64 (&at)[2]) const {
#if PAGED_WHOLE_PAGES
#pragma unroll
        for (int i = 0; i < 2; ++i) at[i] = tiles.first_key((u32)(tile + i));
#endif
    }
    // Waits for all loads but the last COUNT, at once: each wait takes a turn of issue.
    template <int COUNT> RF_FN static void wait_for_loads_but() {
        const int NOT_LDS = 0xf70;  // nor exports
        hold_schedule();
        __builtin_amdgcn_s_waitcnt(NOT_LDS | COUNT % 16 | COUNT / 16 << 14);
        hold_schedule();
    }

    // Keys from `from` to before `last` of the split.
    RF_FN void run(const PagedArgs& g, Shared& shared, Exchanged&, const Rows& rows, u32 sequence, u32 kv_head, i32 split_begin, i32 from, i32 last) {
        wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        begin = split_begin;
        first = from;
        end = last;
        first_new = rows.place;
        tiles.find(g, shared, sequence, kv_head, begin, first, end, wave);
        // What all rows see.
        const i32 own = tile_at((int)lane());
        const i32 seen_first = rows.place + (i32)rows.query(g, rows.count - 1) + 1 - g.window - begin;
        const i32 seen_end = rows.place + (i32)rows.query(g, 0) + 1 - begin;
        const bool is_seen = own >= seen_first && own >= first && own + TILE <= seen_end && own + TILE <= end;
        const u64 are_seen = rf::ballot((i32)lane() < TILES && is_seen) & tiles.are_there;
        k_at = lane() / LINES * K_CHANNELS * (u32)sizeof(Code);
#if PAGED_WHOLE_PAGES
        apart = (const char*)g.v.at - (const char*)g.k.at;
        k_at += lane() % LINES * (u32)g.k.token * (u32)sizeof(Code);
#endif
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            v_at[i] = lane() % LINES * V_CHANNELS * (u32)sizeof(Code);
#if PAGED_WHOLE_PAGES
            v_at[i] += (lane() / LINES * 4 + i) * (u32)g.k.token * (u32)sizeof(Code);
#endif
        }
        Part<K_CHANNELS> keys[2][K_PARTS];
        // Pairs of which every key is before the first are left out.
        for (int tile = first / (2 * STEP) * 2; tile_at(tile) < end; tile += 2) {
            u64 seen = are_seen >> tile;
            u64 at[2];
            find_pair(tile, at);
            if ((seen & 3) != 3) {
#pragma unroll
                for (int i = 0; i < 2; ++i) read_keys<false>(g, shared, tile + i, at[i], keys[i]);
                take<false, false>(g, shared, tile, at, keys);
                continue;
            }
            // Whole ones one after another: how many loads are under way is then known where one is waited for.
#pragma unroll
            for (int i = 0; i < 2; ++i) read_keys<true>(g, shared, tile + i, at[i], keys[i]);
            for (; (seen >> 2 & 3) == 3; tile += 2, seen >>= 2) take<true, true>(g, shared, tile, at, keys);
            take<true, false>(g, shared, tile, at, keys);
        }
        join(shared);
    }
    // The two tiles' sums of a row to one, in the lanes of the first ROWS columns.
    RF_FN void join(Shared& shared) {
        float bases[2], sums_of[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            bases[i] = TURNS == 1 && i == 1 ? of_other_half(base[0]) : base[i % TURNS];
            sums_of[i] = across(sum[i % TURNS][0] + sum[i % TURNS][1], Sum());
        }
        if (TURNS == 1) sums_of[1] = of_other_half(sums_of[0]);
        State state;
        state.base = __builtin_fmaxf(bases[0], bases[1]);
        const float by[2] = {exp2_from(bases[0], state.base), exp2_from(bases[1], state.base)};
        state.sum = sums_of[0] * by[0] + sums_of[1] * by[1];
        if (lane() < ROWS) shared.states[wave][lane()] = state;
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float other = TURNS == 1 ? of_other_half(sums[1][p][i]) : sums[1][p][i];
                sums[0][p][i] = rf::fma(sums[0][p][i], by[0], other * by[1]);
            }
    }
    // Results of RESULT_ROWS rows from `row` on.
    RF_FN void put(Shared& shared, u32 row) {
        const u32 own = lane() % LINES - row;
        if (own >= RESULT_ROWS) return;
#pragma unroll
        for (int n = 0; n < PRODUCTS; n += 4)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                Vec<float, 4> four;
#pragma unroll
                for (int e = 0; e < 4; ++e) four[e] = sums[0][n + e][i];
                store<4>(&shared.results[wave][own][channel_of(n, i, lane())], four);
            }
    }
};
