// paged_matrix.h: a split of paged attention on NVIDIA's matrix unit, for 16-bit floats and codes and heads of 64 or 128. Stands behind
// paged_part.h.
//
// A wave takes TILE keys at once, straight from memory into operands: no two waves want the same, so that LDS would gain nothing.
// The order of channels within a product is free as long as both operands have the same, and of results wherever they are written: a lane
// takes 16 bytes of neighbouring channels of a key, whichever k the hardware gives them.
//
//   scores   Q · Kᵀ: four of one row, of keys key(i), are left in each lane, where
//   sums     Vᵀ · Pᵀ wants them as an operand; of V a lane has its channels of these four keys, and puts pairs of keys together
//
// Weights are rounded to the type of Q for the second product.
typedef In H;

#define TILE 16
#define DEPTH (TEAM * CHANNELS)
// Channels that one access takes, accesses to a key's, and channels between them: a lane's part of K and Q, and of V.
#define K_CHANNELS (CACHE_IS_CODED ? 16 : 8)
#define K_PARTS (DEPTH / 4 / K_CHANNELS)
#define LINES 8
#define HALVES 2
#define V_CHANNELS (DEPTH / LINES < K_CHANNELS ? DEPTH / LINES : K_CHANNELS)
#define V_PARTS (DEPTH / LINES / V_CHANNELS)
#define PRODUCTS (DEPTH / 16)
// Keys that a wave takes at once, and all waves.
#define WAVE_RUN TILE
#define STEP (WAVES * TILE)
static_assert(ROWS == LINES, "a row for every line of a product");

struct Exchanged {};

// Where a lane is in a product: its key of K or row of Q, and its group of channels or keys.
RF_FN u32 line_of(u32 lane) { return lane / 4; }
RF_FN u32 group_of(u32 lane) { return lane % 4; }
// The keys of a tile of which a lane has scores.
RF_FN int key_of(int i, u32 group) { return (int)group * 2 + i % 2 + i / 2 * 8; }

struct Accumulator { float at[4]; };
// c += a · b: of one operand four words are rows and k, of the other two.
RF_FN void multiply(const u32 (&a)[4], const u32 (&b)[2], Accumulator& c) {
    MmaNarrow<H>::run(a[0], a[1], a[2], a[3], b[0], b[1], *(typename MmaNarrow<H>::Accumulator*)c.at);
}

// What a lane has of a split.
struct Work {
    u32 q[PRODUCTS][2];
    Accumulator sums[PRODUCTS];
    float base, sum, slope;
    float scale;  // of the products of the lane's row
    i32 place;  // of the lane's row
    i32 seen_first, seen_end;  // keys that all rows see
    const float* bias;
    // Where the lane's channels of keys and values are, of place 0; from one access to a key to the next.
    const char *k, *v;
    i64 apart;

    RF_FN void start(const PagedArgs& g, const Rows& rows, u32 kv_head) {
        const u32 row = line_of(lane()), group = group_of(lane());
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
        place = is_there ? rows.place + (i32)query : -1;
        seen_first = rows.place + (i32)rows.query(g, rows.count - 1) + 1 - g.window;
        seen_end = rows.place + (i32)rows.query(g, 0) + 1;
        slope = g.slopes && place >= 0 ? g.slopes[head] : 0.0f;
        bias = g.bias && place >= 0 ? g.bias + token * g.bias_token - rows.place : (const float*)0;
        base = -__builtin_inff();
        sum = 0.0f;
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[p].at[i] = 0.0f;
    }

    // Over the lanes that have scores of one row.
    template <class Op> RF_FN static float across(float x, Op op) {
        x = op(x, dpp<RF_DPP_XOR1>(x));
        return op(x, dpp<RF_DPP_XOR2>(x));
    }
    // The row of value i of a product of sums.
    RF_FN static u32 row_of(int i, u32 lane) { return lane % 4 * 2 + i % 2; }

    // Scores to exponents of 2, of the keys from `at` on; -inf for those that the row does not see. WHOLE: it sees all of them.
    template <bool WHOLE>
    RF_FN void exponents(const PagedArgs& g, const Shared& shared, i32 begin, i32 at, i32 first_new, float (&x)[4]) const {
        const u32 group = group_of(lane());
        bool is_seen[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const i32 n = at + key_of(i, group), key = begin + n;
            is_seen[i] = WHOLE || (key <= place && key > place - g.window && shared.places.k_at[n] >= 0);
            x[i] *= scale;
#if KEY_SCALES
            x[i] *= shared.places.k_scale[n];
#endif
        }
        if (g.softcap != 0.0f) {
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = rf::tanh(x[i] / g.softcap) * g.softcap;
        }
        if (g.slopes) {
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] -= slope * (float)(place - (begin + at + key_of(i, group)));
        }
        if (g.bias) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const i32 key = begin + at + key_of(i, group);
                if (is_seen[i] && bias && key >= first_new) x[i] += bias[key];
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = is_seen[i] ? x[i] * LOG2_E : -__builtin_inff();
    }
    // Brings sums to a maximum that has moved too far. Others of the wave may have to; a row's own bits do not depend on them.
    RF_FN void rescale(const float (&x)[4]) {
        float high = __builtin_fmaxf(__builtin_fmaxf(x[0], x[1]), __builtin_fmaxf(x[2], x[3]));
        if (!rf::ballot(high > base + RESCALE_ABOVE)) return;
        high = across(high, Larger());
        const float before = base, now = high > before + RESCALE_ABOVE ? high : before;
        const float by = now > before ? exp2_from(before, now) : 1.0f;
        base = now;
        sum *= by;
        float rows[2];
        rows[0] = shuffle(by, lane() % 4 * 8);
        rows[1] = shuffle(by, lane() % 4 * 8 + 4);
#pragma unroll
        for (int p = 0; p < PRODUCTS; ++p)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[p].at[i] *= rows[i % 2];
    }

    // WHOLE: all keys of the tile are there.
    template <bool WHOLE> RF_FN void read_keys(const Shared& shared, i32 at, Part<K_CHANNELS> (&keys)[HALVES][K_PARTS]) const {
#pragma unroll
        for (int h = 0; h < HALVES; ++h) {
            const i64 place = shared.places.k_at[at + h * 8 + (i32)line_of(lane())];
#pragma unroll
            for (int p = 0; p < K_PARTS; ++p) {
                if (WHOLE || place >= 0) keys[h][p].read(k + place + p * apart);
                else keys[h][p].clear();
            }
        }
    }
    template <bool WHOLE> RF_FN void read_values(const Shared& shared, i32 at, Part<V_CHANNELS> (&values)[4][V_PARTS]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const i64 place = shared.places.v_at[at + key_of(i, group_of(lane()))];
#pragma unroll
            for (int p = 0; p < V_PARTS; ++p) {
                if (WHOLE || place >= 0) values[i][p].read(v + place + p * LINES * V_CHANNELS * (int)sizeof(Code));
                else values[i][p].clear();
            }
        }
    }
    // Four scores of the lane's row.
    RF_FN void score(const Part<K_CHANNELS> (&keys)[HALVES][K_PARTS], float (&x)[4]) const {
#pragma unroll
        for (int h = 0; h < HALVES; ++h) {
            Accumulator c = {{0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
            for (int p = 0; p < PRODUCTS; ++p) {
                const int each = K_CHANNELS / 4;
                const u32 key[2] = {keys[h][p / each].word(p % each * 2), keys[h][p / each].word(p % each * 2 + 1)};
                const u32 rows[4] = {q[p][0], 0, q[p][1], 0};
                multiply(rows, key, c);
            }
            x[2 * h] = c.at[0];
            x[2 * h + 1] = c.at[1];
        }
    }
    RF_FN void add(const Part<V_CHANNELS> (&values)[4][V_PARTS], const u32 (&weights)[2]) {
#pragma unroll
        for (int part = 0; part < V_PARTS; ++part)
#pragma unroll
            for (int w = 0; w < V_CHANNELS / 2; ++w) {
                u32 low[2], high[2];
#pragma unroll
                for (int i = 0; i < 2; ++i) Part<V_CHANNELS>::pairs(values[2 * i][part], values[2 * i + 1][part], w, low[i], high[i]);
                const int n = part * V_CHANNELS / 2 + w;
                const u32 both[4] = {low[0], high[0], low[1], high[1]};
                multiply(both, weights, sums[n]);
            }
    }
    // The channel of value i of product n.
    RF_FN static u32 channel_of(int n, int i, u32 lane) {
        return n / (V_CHANNELS / 2) * (LINES * V_CHANNELS) + lane / 4 * V_CHANNELS + n % (V_CHANNELS / 2) * 2 + i / 2;
    }

    // The tile of keys from `at` on. WHOLE: all are there, and seen by all rows. MORE: `keys` are read for the tile of the next step, which
    // is whole too.
    template <bool WHOLE, bool MORE>
    RF_FN void tile(const PagedArgs& g, const Shared& shared, i32 begin, i32 at, i32 first_new, Part<K_CHANNELS> (&keys)[HALVES][K_PARTS]) {
        Part<V_CHANNELS> values[4][V_PARTS];
        read_values<WHOLE>(shared, at, values);
        float x[4];
        score(keys, x);
        if (MORE) read_keys<true>(shared, at + STEP, keys);
        exponents<WHOLE>(g, shared, begin, at, first_new, x);
        rescale(x);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[i] = exp2_from(x[i], base);
            sum += x[i];
#if KEY_SCALES
            // A key that is not there has no scale.
            x[i] = x[i] == 0.0f ? 0.0f : x[i] * shared.places.v_scale[at + key_of(i, group_of(lane()))];
#endif
        }
        const u32 weights[2] = {two_of<H>(x[0], x[1]), two_of<H>(x[2], x[3])};
        add(values, weights);
    }

    // Keys from `first` to before `end` of the split; all are there from `whole` on.
    RF_FN void run(const PagedArgs& g, Shared& shared, Exchanged&, i32 begin, i32 first, i32 end, i32 whole, i32 first_new) {
        const u32 wave = uniform(thread_x() / ARCH_WAVE_SIZE), line = line_of(lane()), group = group_of(lane());
        const u32 first_channel = group * K_CHANNELS;
        k = (const char*)(g.k.at + channel_at(g.k, first_channel));
        v = (const char*)(g.v.at + channel_at(g.v, line * V_CHANNELS));
        apart = (channel_at(g.k, first_channel + 4 * K_CHANNELS) - channel_at(g.k, first_channel)) * (i64)sizeof(Code);
        // What all rows see. All of a wave have the same bounds, which the compiler is told, as it is of branches by them.
        const i32 whole_first = (i32)uniform((u32)(seen_first - begin > whole ? seen_first - begin : whole));
        const i32 whole_end = (i32)uniform((u32)(seen_end - begin < end ? seen_end - begin : end));
        const i32 last = (i32)uniform((u32)end);
        Part<K_CHANNELS> keys[HALVES][K_PARTS];
        // Steps of which every key is before the first are left out.
        for (i32 at = (i32)uniform((u32)(first / STEP * STEP)) + (i32)wave * TILE; at < last; at += STEP) {
            if (at < whole_first || at + TILE > whole_end) {
                read_keys<false>(shared, at, keys);
                tile<false, false>(g, shared, begin, at, first_new, keys);
                continue;
            }
            // Whole ones one after another: how many loads are under way is then known where one is waited for.
            read_keys<true>(shared, at, keys);
            for (; at + STEP + TILE <= whole_end; at += STEP) tile<true, true>(g, shared, begin, at, first_new, keys);
            tile<true, false>(g, shared, begin, at, first_new, keys);
        }
        sum = across(sum, Sum());
        if (group == 0) {
            State state = {base, sum};
            shared.states[wave][line] = state;
        }
    }
    // Results of RESULT_ROWS rows from `first` on.
    RF_FN void put(Shared& shared, u32 first) {
        const u32 wave = thread_x() / ARCH_WAVE_SIZE;
#pragma unroll
        for (int n = 0; n < PRODUCTS; ++n)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                Vec<float, 2> two;
                two[0] = sums[n].at[i];
                two[1] = sums[n].at[i + 2];
                store<2>(&shared.results[wave][row_of(i, lane())][channel_of(n, i, lane())], two);
            }
    }
};
