// paged_latents.h: a split of paged attention on CDNA's matrix unit where many heads share one row of a cache, as MLA's do: values are
// channels of the keys' own rows. Stands behind paged.h.
//
// A workgroup has ROWS rows and takes TILE keys at a time.
//
//   keys     a wave has half of the tile's keys and half of their channels. Those that are values it reads by whole lines of memory and puts
//            into LDS, where all waves find their channels of the values; the rest it reads as the operands that they are
//   scores   K · Qᵀ of what the wave has read. Halves of channels meet in LDS; every wave adds them up for all keys, and has all weights where
//   sums     Vᵀ · Pᵀ wants them as an operand; a wave has a quarter of the channels of all rows. Of V a lane has some channels of four
//            neighbouring keys, and puts pairs of keys together
//
// A row has the same bits however many rows there are.
//
// Where keys are is found for PLACES of them at once, each by one lane.
//
// PAGED_DEPTH, PAGED_V_DEPTH: channels of a key and of a value; PAGED_PLACES; PAGED_LDS_BYTES.
#define TILE 32
#define LINES 16

typedef Mma<In, LINES> M;
typedef M::Accumulator Four;
typedef float Two __attribute__((ext_vector_type(2)));
typedef Vec<u32, 4> Words4;
static const int DEPTH = PAGED_DEPTH, V_DEPTH = PAGED_V_DEPTH;
static const int CHUNKS = ROWS / LINES, PLACES = PAGED_PLACES, TILES = PLACES / TILE;
// Lanes that read one key together, keys that are read at once, and runs of that many for a wave.
static const int READERS = 8, KEYS_AT_ONCE = ARCH_WAVE_SIZE / READERS, TURNS = TILE / 2 / KEYS_AT_ONCE;
// Channels that they read at once, how many of these the first half has, and where the second one begins; it may have one fewer.
static const int SPAN = READERS * CHANNELS, SPANS = (DEPTH / SPAN + 1) / 2, SECOND = SPANS * SPAN, SECOND_SPANS = DEPTH / SPAN - SPANS;
// Channels that one product of a lane's four words takes, and products of so many.
static const int STEP = 4 * CHANNELS, SPAN_STEPS = SPAN / STEP, STEPS = SPANS * SPAN_STEPS;
static_assert(SPAN_STEPS == TURNS, "as many accesses of a lane either way");
// Values: channels of a wave, neighbouring ones of a lane, and accesses to them.
static const int CHANNELS_EACH = V_DEPTH / WAVES;
static const int LANE_EACH = CHANNELS_EACH % (8 * LINES) == 0 ? 8 : CHANNELS_EACH % (4 * LINES) == 0 ? 4 : 2;
static const int PARTS = CHANNELS_EACH / LINES / LANE_EACH, PANELS = PARTS * LANE_EACH;
// Elements from one key to the next in LDS, and of results from one row to the next: 16 bytes more than whole turns of the banks.
static const int LINE = V_DEPTH + 8, RESULT_LINE = V_DEPTH + 4, RUN = LANE_EACH < 4 ? LANE_EACH : 4;
static_assert(CHUNKS * LINES == ROWS && WAVES == 4 && DEPTH % SPAN == 0, "whole products");
static_assert(PLACES % THREADS == 0 && SPLIT % PLACES == 0 && TILES <= ARCH_WAVE_SIZE, "each lane finds as many, and knows of one tile");
static_assert(PARTS * LANE_EACH * LINES == CHANNELS_EACH && CHANNELS_EACH * WAVES == V_DEPTH, "whole channels of each wave");

// Dynamic LDS.
struct Exchanged {
    union {
        alignas(128) u16 keys[TILE * LINE];
        alignas(16) float results[LINES * RESULT_LINE];
    };
    Vec<float, 4> scores[CHUNKS][WAVES][ARCH_WAVE_SIZE];
    State states[ROWS];
    // Of the keys: bytes from the plane's begin to where one is, -1 where there is none, as in a tile behind the last; and which ones of a tile
    // there are.
    alignas(16) i64 places[PLACES + TILE];
    u32 are_there[TILES];
#if CACHE_IS_CODED
    alignas(16) float scales[PLACES];
#endif
};
static_assert(sizeof(Exchanged) <= PAGED_LDS_BYTES, "as in paged.rs");

// c += a · b, of four words each: eight k of a row or column.
RF_FN void multiply(const Words4& a, const Words4& b, Four& c) {
    const int COUNT = 16 / (int)sizeof(M::Operand);
    M::Operand left[COUNT], right[COUNT];
    __builtin_memcpy(left, &a, 16);
    __builtin_memcpy(right, &b, 16);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) c = M::run(left[i], right[i], c);
}

// Where the keys from `begin` on are, of those from `first` to before `end`. All of a lane's are asked for before the first is waited for.
RF_FN void find_places(const PagedArgs& g, Exchanged& e, u32 sequence, u32 kv_head, i32 begin, i32 first, i32 end) {
    const int EACH = PLACES / THREADS;
    KeyPlace places[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const i32 key = begin + i * THREADS + (i32)thread_x();
        // Those that are not of the split ask for another.
        places[i].find(g, sequence, held_inside(key, first, end - 1));
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const u32 n = i * THREADS + thread_x();
        const i32 key = begin + (i32)n;
        const KeyPlace place = places[i];
        const bool is_there = key >= first && key < end && place.is_there(g);
        e.places[n] = is_there ? token_at(g.k, place.page, kv_head, place.offset) * (i64)sizeof(Code) : -1;
#if CACHE_IS_CODED
        e.scales[n] = is_there ? decoded_by<In>() * *scale_at(g.k_scales, place.page, kv_head, place.offset) : 0.0f;
#endif
        // A tile to each half of a wave.
        const u64 there = rf::ballot(is_there);
        if (lane() % TILE == 0) e.are_there[n / TILE] = (u32)(there >> (lane() / TILE * TILE));
    }
    if (thread_x() < TILE) e.places[PLACES + thread_x()] = -1;
}

// A half of a key's channels: its first one, how many spans it has, and how many of them are values.
template <bool FIRST> struct Half {
    static const int CHANNEL = FIRST ? 0 : SECOND, COUNT = FIRST ? SPANS : SECOND_SPANS;
    static const int LEFT = (V_DEPTH - CHANNEL) / SPAN, VALUES = LEFT < 0 ? 0 : LEFT < COUNT ? LEFT : COUNT;
};
// Spans of values that both halves have: where ways part and meet again the compiler would copy what is read ahead.
static const int BOTH = Half<false>::VALUES;

// A wave's keys on their way: of values a lane has a piece of one key in each turn, of the rest pieces of that key of which it has scores.
struct Reader {
    const char *from, *from_rest;  // the lane's piece of place 0
    u32 first_key;                 // of the wave, in a tile
    Channels held[TURNS][SPANS];

    // Neighbours, so that both their places are one access.
    RF_FN static u32 own_key(int turn) { return lane() / READERS * TURNS + turn; }
    RF_FN void start(const PagedArgs& g, u32 key, u32 first_channel) {
        first_key = key;
        from = (const char*)(g.k.at + first_channel + lane() % READERS * CHANNELS);
        from_rest = (const char*)(g.k.at + first_channel + lane() / LINES * CHANNELS);
        // Of keys that are not there what was held before is multiplied, and forgotten: at first zeros.
#pragma unroll
        for (int n = 0; n < TURNS * SPANS; ++n) __builtin_memset(&held[n / SPANS][n % SPANS], 0, sizeof(Channels));
    }
    RF_FN void fetch(const Exchanged& e, int tile, bool is_first) {
        const i64* places = e.places + tile * TILE + first_key;
        const Vec<i64, TURNS> at = load<TURNS>(places + own_key(0));
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            if (at[turn] < 0) continue;
            const Code* own = (const Code*)(from + at[turn]);
#pragma unroll
            for (int n = 0; n < BOTH; ++n) held[turn][n].read(own + n * SPAN, PIECE);
            if (!is_first) continue;
#pragma unroll
            for (int n = BOTH; n < Half<true>::VALUES; ++n) held[turn][n].read(own + n * SPAN, PIECE);
        }
        if (is_first) fetch_rest<Half<true>>(places);
        else fetch_rest<Half<false>>(places);
    }
    template <class Half> RF_FN void fetch_rest(const i64* places) {
        if (Half::VALUES == Half::COUNT) return;
        const i64 at = places[lane() % LINES];
        if (at < 0) return;
        const Code* own = (const Code*)(from_rest + at);
#pragma unroll
        for (int n = Half::VALUES; n < Half::COUNT; ++n)
#pragma unroll
            for (int step = 0; step < SPAN_STEPS; ++step) held[step][n].read(own + n * SPAN + step * STEP, PIECE);
    }
    // The values that were read last. What is not there is zeros. `there`: which keys of the tile there are.
    RF_FN void put(Exchanged& e, u32 there, u32 first_channel) const {
        u16* to = e.keys + (first_key + own_key(0)) * LINE + first_channel + lane() % READERS * CHANNELS;
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
            for (int n = 0; n < BOTH; ++n) store<4>((u32*)(void*)(to + turn * LINE + n * SPAN), words(held[turn][n]));
        if (first_channel == 0) {
#pragma unroll
            for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
                for (int n = BOTH; n < Half<true>::VALUES; ++n) store<4>((u32*)(void*)(to + turn * LINE + n * SPAN), words(held[turn][n]));
        }
        const u32 own_there = there >> first_key & 0xffffu;
        if (own_there == 0xffffu) return;
        // Over what was written: registers would be copied for a choice. A way of its own, whatever comes behind it.
        int is_first = (int)uniform((u32)(first_channel == 0));
        hide(is_first);
        Words4 zeros;
#pragma unroll
        for (int i = 0; i < 4; ++i) zeros[i] = 0;
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            if ((own_there >> own_key(turn) & 1) != 0) continue;
#pragma unroll
            for (int n = 0; n < Half<true>::VALUES; ++n)
                if (n < BOTH || is_first != 0) store<4>((u32*)(void*)(to + turn * LINE + n * SPAN), zeros);
        }
    }
    RF_FN static Words4 words(const Channels& channels) {
        Words4 words;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#if CACHE_IS_CODED
            words[i] = decode_word<In>(channels.words[i / 2], i % 2 != 0);
#else
            words[i] = channels.words[i];
#endif
        }
        return words;
    }
};

// What a wave has of a split.
struct Work {
    Words4 q[CHUNKS][STEPS];
    Four sums[PANELS][CHUNKS];
    // Of the lane's row of each chunk; of a maximum of minus infinity nothing is taken away. What is above `limit` moves the maximum.
    float base[CHUNKS], shift[CHUNKS], limit[CHUNKS];
    Two sum[CHUNKS];
    i32 place[CHUNKS];
    float unit;  // exponents are `unit` times what is bent, lessened or raised, or times products where nothing is
    bool has_extras;
    u32 wave, keys_half, first_channel;  // alike for all lanes
    i32 seen_first, seen_end;            // keys that all rows see
    Reader reader;

    // Past the last row it is that again, and nothing of it is written.
    RF_FN static u32 own_row(const Rows& rows, int chunk) {
        const u32 row = (u32)(chunk * LINES) + lane() % LINES;
        return row < rows.count ? row : rows.count - 1;
    }
    // Of many rows there are no registers left for what is read ahead of its use.
    RF_FN static void hold_if_full() {
        if (CHUNKS == 4) hold_schedule();
    }
    RF_FN static u32 quad() { return lane() / LINES; }
    RF_FN bool has_step(int p) const { return p * STEP < SECOND_SPANS * SPAN || first_channel == 0; }

    RF_FN void start(const PagedArgs& g, Exchanged&, const Rows& rows, u32 kv_head) {
        wave = uniform(thread_x() / ARCH_WAVE_SIZE);
        keys_half = wave % 2;
        first_channel = wave / 2 * SECOND;
        has_extras = g.has_extras != 0;
        unit = has_extras ? LOG2_E : g.scale * LOG2_E;
        seen_first = rows.place + (i32)rows.query(g, rows.count - 1) + 1 - g.window;
        seen_end = rows.place + (i32)rows.query(g, 0) + 1;
#pragma unroll
        for (int r = 0; r < CHUNKS; ++r) {
            const u32 row = own_row(rows, r), query = rows.query(g, row);
            place[r] = rows.place + (i32)query;
            base[r] = limit[r] = -__builtin_inff();
            shift[r] = 0.0f;
            sum[r] = (Two)0.0f;
            const In* from = g.q + (rows.q_first + (i32)query) * g.q_token + (i64)rows.head(g, row, kv_head) * g.q_head;
            from += first_channel + quad() * CHANNELS;
#pragma unroll
            for (int p = 0; p < STEPS; ++p)
                if (has_step(p)) q[r][p] = load<4>((const u32*)(const void*)(from + p * STEP));
        }
#pragma unroll
        for (int n = 0; n < PANELS * CHUNKS; ++n) {
            Four& zeros = sums[n / CHUNKS][n % CHUNKS];
            zeros = (Four)0.0f;
            // Of a constant the compiler makes copies where loops meet.
            asm volatile("" : "+v"(zeros));
        }
    }

    // Over the lanes that have scores of one row.
    template <class Op> RF_FN static float across(float x, Op op) {
        x = op(x, rf::Words<float, 1>::each(x, Xor16()));
        return op(x, shuffle_xor(x, 32u));
    }

    // Scores of what is no values.
    template <class Half> RF_FN void score_rest(Four (&x)[CHUNKS]) const {
#pragma unroll
        for (int p = Half::VALUES * SPAN_STEPS; p < Half::COUNT * SPAN_STEPS; ++p) {
            const Words4 words = Reader::words(reader.held[p % SPAN_STEPS][p / SPAN_STEPS]);
#pragma unroll
            for (int r = 0; r < CHUNKS; ++r) multiply(words, q[r][p], x[r]);
        }
    }
    // Scores of spans of values from `FROM` to before `TO`, which are in LDS.
    template <int FROM, int TO> RF_FN void score_values(const Exchanged& e, Four (&x)[CHUNKS]) const {
        const u16* own = e.keys + (keys_half * LINES + lane() % LINES) * LINE + first_channel + quad() * CHANNELS;
        const int COUNT = (TO - FROM) * SPAN_STEPS;
        Words4 words[COUNT > 0 ? COUNT : 1];
#pragma unroll
        for (int p = 0; p < COUNT; ++p) words[p] = load<4>((const u32*)(const void*)(own + (FROM * SPAN_STEPS + p) * STEP));
        // All are read ahead of the first product, where there are registers for it.
        if (CHUNKS == 1) wait_for_lds();
#pragma unroll
        for (int p = 0; p < COUNT; ++p) {
#pragma unroll
            for (int r = 0; r < CHUNKS; ++r) multiply(words[p], q[r][FROM * SPAN_STEPS + p], x[r]);
            if (p % 4 == 3) hold_if_full();
        }
    }
    // At once: each wait takes a turn of issue.
    RF_FN static void wait_for_lds() {
        const int NOT_LOADS = 0xc07f;
        hold_schedule();
        __builtin_amdgcn_s_waitcnt(NOT_LOADS);
        hold_schedule();
    }
    // The wave's part of the scores, for those that add up, and of the values; then reads its part of the tile behind. Scores of keys that are
    // not there are not looked at.
    RF_FN void score(Exchanged& e, u32 there, int tile, Four (&x)[CHUNKS]) {
        const bool is_first = first_channel == 0;
        reader.put(e, there, first_channel);
#pragma unroll
        for (int r = 0; r < CHUNKS; ++r) x[r] = (Four)0.0f;
        // What is no values first: the next tile's takes its place.
        if (is_first) score_rest<Half<true>>(x);
        else score_rest<Half<false>>(x);
        wave_barrier();
        reader.fetch(e, tile + 1, is_first);
        score_values<0, BOTH>(e, x);
        if (is_first) score_values<BOTH, Half<true>::VALUES>(e, x);
    }

    // The keys of which a lane has scores are fours of the wave's own half of the tile, then of the other half: value i of both is that of
    // key i % 4 behind the first of four i / 4.
    RF_FN i32 first_key(int four) const { return (i32)((keys_half ^ (u32)four) * LINES + quad() * 4); }
    // Both halves of the channels.
    RF_FN void add_halves(const Exchanged& e, int r, const Four& own, Two (&x)[4]) const {
        const Vec<float, 4> rest = e.scores[r][wave ^ 2][lane()];
        const Vec<float, 4> far[2] = {e.scores[r][wave ^ 1][lane()], e.scores[r][wave ^ 3][lane()]};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            x[i] = (Two){own[2 * i], own[2 * i + 1]} + (Two){rest[2 * i], rest[2 * i + 1]};
            x[2 + i] = (Two){far[0][2 * i], far[0][2 * i + 1]} + (Two){far[1][2 * i], far[1][2 * i + 1]};
        }
    }
    // The key of value i, anew each time: the compiler would keep all that follows from it.
    RF_FN i32 fresh_key(int i) const {
        u32 own = (u32)first_key(i / 4);
        make_anew(own);
        return (i32)own + i % 4;
    }
    // Of the keys of a lane's values a bit each: whether the row sees it. Without branches, for one of which the compiler forgot a choice.
    RF_FN u32 seen_of(const PagedArgs& g, int r, i32 at, u32 there) const {
        u32 seen = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const i32 n = fresh_key(i);
            const i32 behind = place[r] - at - n;
            seen |= ((u32)(behind >= 0) & (u32)(behind < g.window) & there >> n) << i;
        }
        return seen;
    }
    // Times the scales of the lane's keys, where they are codes. A key that is not there has a scale of zero.
    RF_FN void times_scales(const Exchanged& e, int tile, Two (&x)[4]) const {
#if CACHE_IS_CODED
#pragma unroll
        for (int four = 0; four < 2; ++four) {
            const Vec<float, 4> scales = load<4>(&e.scales[tile * TILE + first_key(four)]);
#pragma unroll
            for (int i = 0; i < 2; ++i) x[2 * four + i] *= (Two){scales[2 * i], scales[2 * i + 1]};
        }
#endif
    }
    // Scores to exponents of 2, -inf for those that the row does not see. `at`: the tile's first key; `there`: which keys there are; WHOLE: the
    // row sees all of them.
    template <bool WHOLE>
    RF_FN void exponents(const PagedArgs& g, const Exchanged& e, const Rows& rows, u32 kv_head, int r, int tile, i32 at, u32 there, Two (&x)[4]) const {
        times_scales(e, tile, x);
        const u32 seen = WHOLE ? 0xffu : seen_of(g, r, at, there);
        if (!WHOLE && has_extras) {
            const u32 row = own_row(rows, r);
            const float slope = g.slopes ? g.slopes[rows.head(g, row, kv_head)] : 0.0f;
            const float* bias = g.bias ? g.bias + (i64)(rows.q_first + (i32)rows.query(g, row)) * g.bias_token - rows.place : (const float*)0;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const i32 key = at + fresh_key(i);
                float score = x[i / 2][i % 2] * g.scale;
                if (g.softcap != 0.0f) score = rf::tanh(score / g.softcap) * g.softcap;
                score -= slope * (float)(place[r] - key);
                if (bias && key >= rows.place && (seen >> i & 1) != 0) score += bias[key];
                x[i / 2][i % 2] = score;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] *= unit;
        if (WHOLE) return;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            x[i / 2][i % 2] = (seen >> i & 1) != 0 ? x[i / 2][i % 2] : -__builtin_inff();
    }
    // Brings sums to a maximum that has moved too far. Others of the wave may have to; a row's own bits do not depend on them.
    RF_FN void rescale(const Two (&x)[4], int r) {
        float high = __builtin_fmaxf(x[0][0], x[0][1]);
#pragma unroll
        for (int i = 1; i < 4; ++i) high = __builtin_fmaxf(__builtin_fmaxf(high, x[i][0]), x[i][1]);
        if (!rf::ballot(high > limit[r])) return;
        high = across(high, Larger());
        const float before = base[r], now = high > limit[r] ? high : before;
        base[r] = now;
        limit[r] = now + RESCALE_ABOVE;
        shift[r] = now == -__builtin_inff() ? 0.0f : now;
        // The first maximum finds sums of zeros.
        if (!rf::ballot(now > before && before > -__builtin_inff())) return;
        const float by = now > before ? exp2_from(before, now) : 1.0f;
        sum[r] *= by;
#pragma unroll
        for (int p = 0; p < PANELS; ++p) sums[p][r] *= by;
    }
    RF_FN void weigh(const Exchanged& e, int r, int tile, Two (&x)[4], Words4& weights) {
        rescale(x, r);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[i] -= shift[r];
            x[i] = (Two){exp2_fast(x[i][0]), exp2_fast(x[i][1])};
            sum[r] += x[i];
        }
        times_scales(e, tile, x);
#pragma unroll
        for (int i = 0; i < 4; ++i) weights[i] = two_numbers<In>(x[i][0], x[i][1]);
    }
    // Sums of the wave's channels.
    RF_FN void add(const Exchanged& e, const Words4 (&weights)[CHUNKS]) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            Vec<u32, LANE_EACH / 2> keys[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const u16* from = e.keys + (first_key(i / 4) + i % 4) * LINE + wave * CHANNELS_EACH + part * LINES * LANE_EACH;
                keys[i] = load<LANE_EACH / 2>((const u32*)(const void*)(from + lane() % LINES * LANE_EACH));
            }
#pragma unroll
            for (int c = 0; c < LANE_EACH; ++c) {
                Words4 pairs;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const u32 a = keys[2 * i][c / 2], b = keys[2 * i + 1][c / 2];
                    pairs[i] = c % 2 == 0 ? low_halves(a, b) : high_halves(a, b);
                }
#pragma unroll
                for (int r = 0; r < CHUNKS; ++r) multiply(pairs, weights[r], sums[part * LANE_EACH + c][r]);
                if (c % 2 == 1) hold_if_full();
            }
        }
    }

    // A tile of keys, of which the first is `at`.
    RF_FN void take(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 kv_head, int tile, i32 at, u32 there) {
        Four own[CHUNKS];
        score(e, there, tile, own);
#pragma unroll
        for (int r = 0; r < CHUNKS; ++r) {
            Vec<float, 4> four;
#pragma unroll
            for (int i = 0; i < 4; ++i) four[i] = own[r][i];
            e.scores[r][wave][lane()] = four;
        }
        barrier();
        Two x[CHUNKS][4];
#pragma unroll
        for (int r = 0; r < CHUNKS; ++r) add_halves(e, r, own[r], x[r]);
        if (there == ~0u && !has_extras && at >= seen_first && at + TILE <= seen_end) {
#pragma unroll
            for (int r = 0; r < CHUNKS; ++r) exponents<true>(g, e, rows, kv_head, r, tile, at, there, x[r]);
        } else {
#pragma unroll
            for (int r = 0; r < CHUNKS; ++r) exponents<false>(read_anew(g), e, rows, kv_head, r, tile, at, there, x[r]);
        }
        Words4 weights[CHUNKS];
#pragma unroll
        for (int r = 0; r < CHUNKS; ++r) {
            weigh(e, r, tile, x[r], weights[r]);
            hold_if_full();
        }
        add(e, weights);
        barrier();
    }
    // Keys from `first` to before `end`.
    RF_FN void run(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 sequence, u32 kv_head, i32 first, i32 end) {
        reader.start(g, keys_half * LINES, first_channel);
#pragma unroll 1
        for (i32 begin = first / TILE * TILE; begin < end; begin += PLACES) {
            find_places(read_anew(g), e, sequence, kv_head, begin, first, end);
            barrier();
            // Each lane knows of one tile.
            const u32 are_there = e.are_there[lane() % TILES];
            const int tiles = end - begin < PLACES ? (end - begin + TILE - 1) / TILE : TILES;
            reader.fetch(e, 0, first_channel == 0);
#pragma unroll 1
            for (int tile = 0; tile < tiles; ++tile)
                take(g, e, rows, kv_head, tile, begin + tile * TILE, read_lane(are_there, (u32)tile));
        }
#pragma unroll
        for (int r = 0; r < CHUNKS; ++r) {
            const State state = {base[r], across(sum[r][0] + sum[r][1], Sum())};
            if (wave == 0 && lane() < LINES) e.states[r * LINES + lane()] = state;
        }
        barrier();
    }
    // The sums of a chunk of rows, to where values were.
    RF_FN void put(Exchanged& e, int r) const {
        float* to = e.results + lane() % LINES * RESULT_LINE + wave * CHANNELS_EACH + quad() * 4 * LANE_EACH;
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int c = 0; c < LANE_EACH; c += RUN) {
                    Vec<float, RUN> run;
#pragma unroll
                    for (int n = 0; n < RUN; ++n) run[n] = sums[part * LANE_EACH + c + n][r][i];
                    store<RUN>(to + part * LINES * LANE_EACH + i * LANE_EACH + c, run);
                }
    }
    // Through LDS: rows are then written whole, by little code.
    RF_FN void write(const PagedArgs& g, Exchanged& e, const Rows& rows, u32 kv_head, u32 split, bool is_only) const {
#pragma unroll
        for (int r = 0; r < CHUNKS; ++r) {
            const u32 first = (u32)(r * LINES);
            if (first >= rows.count) break;
            if (r > 0) barrier();
            put(e, r);
            barrier();
#pragma unroll 1
            for (u32 n = wave; n < LINES && first + n < rows.count; n += WAVES) {
                const State state = e.states[first + n];
                RowEnd end;
                end.start(g, rows, first + n, kv_head, split, state, is_only);
                for (u32 at = lane() * 4; at < V_DEPTH; at += ARCH_WAVE_SIZE * 4)
                    end.put_four(g, at, load<4>(e.results + n * RESULT_LINE + at), is_only);
                if (lane() == 0) end.put_state(g, state, is_only);
            }
        }
    }
};
