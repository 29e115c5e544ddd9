// paged_lanes.h: a split of paged attention on the vector units, of any head size. A team of TEAM lanes has eight channels in each,
// K_TURNS times over for long keys and V_TURNS times for long values, and takes KEYS keys at once.
// Stands behind paged.h.
#define KEYS 4
// Keys that a wave takes at once.
#define WAVE_RUN (WAVE_TEAMS * KEYS)
// Whether keys are read a step ahead and values before the scores. Several turns have not the registers for it, on wave32 least of all:
// each is read where it is worked on, and the compiler is kept from doing otherwise.
#define IS_AHEAD (K_TURNS == 1 && V_TURNS == 1)
RF_FN void hold_turn() {
    if (!IS_AHEAD) hold_schedule();
}
// Scores of a team at once, and of them a lane's; lanes that have the same where they are fewer than lanes.
#define VALUES (KEYS * ROWS)
#define OWN (VALUES > TEAM ? VALUES / TEAM : 1)
#define ALIKE (VALUES < TEAM ? TEAM / VALUES : 1)
#define TEAMS (THREADS / TEAM)

// LDS through which the lanes of a team exchange weights.
struct Exchanged { alignas(16) float weights[TEAMS * VALUES]; };

// The value of the lane that differs in a bit, and of a team's lanes in lower ones too: every lane with one has one without.
template <int BIT> RF_FN float over(float x) {
    if (BIT == 1) return dpp<RF_DPP_XOR1>(x);
    if (BIT == 2) return dpp<RF_DPP_XOR2>(x);
    if (BIT == 4) return dpp<RF_DPP_HALF_MIRROR>(x);
    if (BIT == 8) return dpp<RF_DPP_MIRROR>(x);
    return Words<float, 1>::each(x, Xor16());
}
// Sums of a team, COUNT of them: half are kept in the lanes with a bit and half in those without, until each lane has its own. The
// order is the
// same however many there are.
template <int BIT, int COUNT> struct Fold {
    RF_FN static void run(float* x, u32 lane) {
        const int HALF = COUNT / 2;
        const bool upper = (lane & BIT) != 0;
        float kept[HALF];
#pragma unroll
        for (int i = 0; i < HALF; ++i) {
            // Both are read whichever is kept: of an element chosen by the lane a compiler makes memory.
            const float low = x[i], high = x[i + HALF];
            kept[i] = (upper ? high : low) + over<BIT>(upper ? low : high);
        }
        Fold<BIT / 2, HALF>::run(kept, lane);
#pragma unroll
        for (int i = 0; i < (HALF > OWN ? OWN : HALF); ++i) x[i] = kept[i];
    }
};
template <int BIT> struct Fold<BIT, 1> {
    RF_FN static void run(float* x, u32 lane) {
        x[0] += over<BIT>(x[0]);
        Fold<BIT / 2, 1>::run(x, lane);
    }
};
template <> struct Fold<0, 1> { RF_FN static void run(float*, u32) {} };
template <int COUNT> struct Fold<0, COUNT> { RF_FN static void run(float*, u32) {} };

// The first of a lane's channels in a turn.
RF_FN u32 channel_of_turn(u32 lane_of_team, int turn) { return (turn * TEAM + lane_of_team) * CHANNELS; }

// A lane's channels of all rows, times the scale.
RF_FN void read_queries(const PagedArgs& g, const Rows& rows, u32 kv_head, u32 lane_of_team, float (&q)[ROWS][K_TURNS][CHANNELS]) {
#pragma unroll
    for (int n = 0; n < ROWS * K_TURNS; ++n) {
        const int r = n / K_TURNS, turn = n % K_TURNS;
        const u32 channel = channel_of_turn(lane_of_team, turn);
        float* const to = q[r][turn];
#pragma unroll
        for (int e = 0; e < CHANNELS; ++e) to[e] = 0.0f;
        if (r >= rows.count || channel >= g.k.depth) continue;
        const In* from = g.q + (i64)(rows.q_first + (i32)rows.query(g, r)) * g.q_token +
                         (i64)rows.head(g, r, kv_head) * g.q_head + channel;
        if (g.q_is_whole) {
            const int EACH = 16 / (int)sizeof(In);
#pragma unroll
            for (int e = 0; e < CHANNELS; e += EACH) {
                const Vec<In, EACH> part = load<EACH>(from + e);
#pragma unroll
                for (int i = 0; i < EACH; ++i) to[e + i] = cast<float>(part[i]) * g.scale;
            }
        } else {
#pragma unroll
            for (int e = 0; e < CHANNELS; ++e) to[e] = cast<float>(from[e]) * g.scale;
        }
    }
}

// Where a lane's channels of a turn lie in a plane, and how far apart their pieces are. Lanes past the last channel have queries of zeros,
// or nobody who asks for their values, and read the first ones.
struct LaneChannels {
    const Code* at;
    i64 apart;
    RF_FN void start(const CachePlane& plane, u32 channel) {
        const u32 held = channel < plane.depth ? channel : 0;
        const i64 first = channel_at(plane, held);
        at = plane.at + first;
        apart = channel_at(plane, held + PIECE) - first;
    }
    template <class Part> RF_FN void read(const CachePlane& plane, const i64* places, bool all, Part& to) const {
        to.read(plane, at, apart, places, all);
    }
};

// Eight channels of each of a team's keys.
struct Keys {
    Channels of[KEYS];
    // `all`: whether all of the workgroup's keys are there.
    RF_FN void read(const CachePlane& plane, const Code* at, i64 apart, const i64* places, bool all) {
        if (all) {
#pragma unroll
            for (int k = 0; k < KEYS; ++k) of[k].read((const Code*)((const char*)at + places[k]), apart);
            return;
        }
#pragma unroll
        for (int k = 0; k < KEYS; ++k) {
            const i64 place = places[k];
            of[k].clear();
            if (place >= 0) of[k].read((const Code*)((const char*)at + place), apart);
        }
    }
    RF_FN void get(int k, float* to) const { decoded(of[k], to); }
};
#if PAGED_ACROSS
// The same where tokens are neighbours: KEYS tokens of each of eight channels.
struct Values {
    u32 words[CHANNELS][KEYS * sizeof(Code) / 4];
    RF_FN void read(const CachePlane& plane, const Code* at, i64, const i64* places, bool all) {
        // And neighbours.
#pragma unroll
        for (int k = 1; k < KEYS; ++k) all = all && places[k] == places[0] + k * (i64)sizeof(Code);
        const bool is_aligned = (places[0] & (i64)(KEYS * sizeof(Code) - 1)) == 0;
#pragma unroll
        for (int e = 0; e < CHANNELS; ++e) {
            const char* from = (const char*)(at + (i64)e * plane.channel);
            if (all && is_aligned && (plane.whole & 2)) {
                const Vec<u32, KEYS * sizeof(Code) / 4> part = load<KEYS * sizeof(Code) / 4>((const u32*)(const void*)(from + places[0]));
#pragma unroll
                for (int w = 0; w < (int)(KEYS * sizeof(Code) / 4); ++w) words[e][w] = part[w];
            } else {
#pragma unroll
                for (int w = 0; w < (int)(KEYS * sizeof(Code) / 4); ++w) words[e][w] = 0;
#pragma unroll
                for (int k = 0; k < KEYS; ++k) {
                    u32 one = 0;
                    if (places[k] >= 0) one = Element<Code>::read((const Code*)(const void*)(from + places[k]));
                    words[e][k * sizeof(Code) / 4] |= one << (k * 8 * sizeof(Code) % 32);
                }
            }
        }
    }
    RF_FN void get(int k, float* to) const {
        const int BITS = 8 * (int)sizeof(Code);
#pragma unroll
        for (int e = 0; e < CHANNELS; ++e) {
            u32 bits = words[e][k * sizeof(Code) / 4] >> (k * BITS % 32);
            to[e] = Element<Code>::of(BITS == 32 ? bits : bits & ((1u << (BITS % 32)) - 1));
        }
    }
};
#else
typedef Keys Values;
#endif

// What a lane has of the scores of its team: their key among KEYS, their row, and what the row is.
struct Own {
    int key[OWN], row[OWN];
    i32 place[OWN];
    float slope[OWN], base[OWN], sum[OWN];
    const float* bias[OWN];
    float key_scale;  // of all keys, where they have one

    RF_FN void start(const PagedArgs& g, const Rows& rows, u32 kv_head, u32 lane, i32 first_new) {
        key_scale = HEAD_SCALES ? *scale_at(g.k_scales, 0, kv_head, 0) : 1.0f;
#pragma unroll
        for (int e = 0; e < OWN; ++e) {
            const int index = ALIKE > 1 ? (int)lane / ALIKE : (int)lane * OWN + e;
            key[e] = index / ROWS;
            row[e] = index % ROWS;
            const u32 query = rows.query(g, row[e]);
            // A row that is not there sees nothing.
            place[e] = row[e] < (int)rows.count ? rows.place + (i32)query : -1;
            const bool is_there = place[e] >= 0;
            slope[e] = g.slopes && is_there ? g.slopes[rows.head(g, row[e], kv_head)] : 0.0f;
            bias[e] = g.bias && is_there ? g.bias + (i64)(rows.q_first + (i32)query) * g.bias_token - first_new : (const float*)0;
            base[e] = -__builtin_inff();
            sum[e] = 0.0f;
        }
    }
    // The exponent of a score.
    RF_FN float exponent(const PagedArgs& g, const Shared& shared, int e, float x, i32 n, i32 at, i32 first_new) const {
        const bool is_seen = at <= place[e] && at > place[e] - g.window && shared.places.k_at[n] >= 0;
        if (!is_seen) return -__builtin_inff();
#if HEAD_SCALES
        x *= key_scale;
#elif KEY_SCALES
        x *= shared.places.k_scale[n];
#endif
        if (g.softcap != 0.0f) x = rf::tanh(x / g.softcap) * g.softcap;
        if (g.slopes) x -= slope[e] * (float)(place[e] - at);
        if (bias[e] && at >= first_new) x += bias[e][at];
        return x * LOG2_E;
    }
};

// Weighted sums of a lane's channels.
struct Sums {
    float of[ROWS][V_TURNS][CHANNELS], base[ROWS];

    RF_FN void start() {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            base[r] = -__builtin_inff();
#pragma unroll
            for (int n = 0; n < V_TURNS * CHANNELS; ++n) of[r][n / CHANNELS][n % CHANNELS] = 0.0f;
        }
    }
    // Brings sums to maxima of the wave that have moved too far. Others of the wave may have to; a row's own bits do not depend on
    // them.
    RF_FN void rescale(const float (&x)[OWN], Own& own) {
        bool moves = false;
#pragma unroll
        for (int e = 0; e < OWN; ++e) moves = moves || x[e] > own.base[e] + RESCALE_ABOVE;
        if (!rf::ballot(moves)) return;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float high = -__builtin_inff();
#pragma unroll
            for (int e = 0; e < OWN; ++e) high = own.row[e] == r ? __builtin_fmaxf(high, x[e]) : high;
            high = wave_reduce(high, Larger());
            const float before = base[r], now = high > before + RESCALE_ABOVE ? high : before;
            const float by = now > before ? exp2_from(before, now) : 1.0f;
            base[r] = now;
#pragma unroll
            for (int n = 0; n < V_TURNS * CHANNELS; ++n) of[r][n / CHANNELS][n % CHANNELS] *= by;
#pragma unroll
            for (int e = 0; e < OWN; ++e) {
                const bool mine = own.row[e] == r;
                own.sum[e] = mine ? own.sum[e] * by : own.sum[e];
                own.base[e] = mine ? now : own.base[e];
            }
        }
    }
};

// Scores of a team's keys become weights in LDS, where all of its lanes find them.
RF_FN void weigh(const PagedArgs& g, Shared& shared, float (&x)[VALUES], Own& own, Sums& sums, u32 lane_of_team, float* weights,
                 i32 n_first, i32 begin, i32 first_new) {
    Fold<TEAM / 2, VALUES>::run(x, lane_of_team);
    float exponent[OWN];
#pragma unroll
    for (int e = 0; e < OWN; ++e) {
        const i32 n = n_first + own.key[e];
        exponent[e] = own.exponent(g, shared, e, x[e], n, begin + n, first_new);
    }
    sums.rescale(exponent, own);
#pragma unroll
    for (int e = 0; e < OWN; ++e) {
        // Where nothing was seen yet, there is nothing to shift by.
        float weight = exp2_from(exponent[e], own.base[e]);
        own.sum[e] += weight;
#if KEY_SCALES
        // A key that is not there has no scale.
        weight = weight == 0.0f ? 0.0f : weight * shared.places.v_scale[n_first + own.key[e]];
#endif
        if (lane_of_team % ALIKE == 0) weights[own.key[e] * ROWS + own.row[e]] = weight;
    }
}

// Adds up the teams of a wave, and leaves them in LDS.
RF_FN void put_results(Shared& shared, const Own& own, Sums& sums, u32 lane_of_team) {
    const u32 wave = thread_x() / ARCH_WAVE_SIZE, team = lane() / TEAM;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float sum = 0.0f;
#pragma unroll
        for (int e = 0; e < OWN; ++e) sum += own.row[e] == r && lane_of_team % ALIKE == 0 ? own.sum[e] : 0.0f;
        sum = wave_reduce(sum, Sum());
        if (lane() == 0) {
            State state = {sums.base[r], sum};
            shared.states[wave][r] = state;
        }
#pragma unroll
        for (u32 by = TEAM; by < ARCH_WAVE_SIZE; by *= 2)
#pragma unroll
            for (int n = 0; n < V_TURNS * CHANNELS; ++n) {
                float& sum_of = sums.of[r][n / CHANNELS][n % CHANNELS];
                sum_of += shuffle_xor(sum_of, by);
            }
        if (team != 0) continue;
#pragma unroll
        for (int n = 0; n < V_TURNS * CHANNELS; n += 4) {
            Vec<float, 4> part;
#pragma unroll
            for (int i = 0; i < 4; ++i) part[i] = sums.of[r][n / CHANNELS][n % CHANNELS + i];
            const u32 channel = channel_of_turn(lane_of_team, n / CHANNELS) + n % CHANNELS;
            store<4>(&shared.results[wave][r][result_at(channel)], part);
        }
    }
}

// What a lane has of a split.
struct Work {
    float q[ROWS][K_TURNS][CHANNELS];
    Own own;
    Sums sums;

    RF_FN void start(const PagedArgs& g, const Rows& rows, u32 kv_head) {
        const u32 lane_of_team = thread_x() % TEAM;
        read_queries(g, rows, kv_head, lane_of_team, q);
        own.start(g, rows, kv_head, lane_of_team, rows.place);
        sums.start();
    }
    // Keys from `first` to before `end` of the split; all are there from `whole` on.
    RF_FN void run(const PagedArgs& g, Shared& shared, Exchanged& exchanged, i32 begin, i32 first, i32 end, i32 whole, i32 first_new) {
        const u32 lane_of_team = thread_x() % TEAM, team = thread_x() / TEAM;
        LaneChannels k[K_TURNS], v[V_TURNS];
#pragma unroll
        for (int turn = 0; turn < K_TURNS; ++turn) k[turn].start(g.k, channel_of_turn(lane_of_team, turn));
#pragma unroll
        for (int turn = 0; turn < V_TURNS; ++turn) v[turn].start(g.v, channel_of_turn(lane_of_team, turn));
        float* weights = exchanged.weights + team * VALUES;
        // Steps of which every key is before the first are left out.
        const i32 step = TEAMS * KEYS, from = first / step * step;
        Keys keys;
        if (IS_AHEAD && from < end) k[0].read(g.k, shared.places.k_at + from + team * KEYS, from >= whole && from + step <= end, keys);
        for (i32 at = from; at < end; at += step) {
            const i32 n = at + (i32)team * KEYS;
            const bool all = at >= whole && at + step <= end;
            Values values;
            if (IS_AHEAD) v[0].read(g.v, shared.places.v_at + n, all, values);
            float x[VALUES];
#pragma unroll
            for (int i = 0; i < VALUES; ++i) x[i] = 0.0f;
#pragma unroll
            for (int turn = 0; turn < K_TURNS; ++turn) {
                hold_turn();
                if (!IS_AHEAD) k[turn].read(g.k, shared.places.k_at + n, all, keys);
#pragma unroll
                for (int i = 0; i < KEYS; ++i) {
                    float key[CHANNELS];
                    keys.get(i, key);
#pragma unroll
                    for (int r = 0; r < ROWS; ++r)
#pragma unroll
                        for (int e = 0; e < CHANNELS; ++e) x[i * ROWS + r] = rf::fma(q[r][turn][e], key[e], x[i * ROWS + r]);
                }
            }
            if (IS_AHEAD && at + step < end)
                k[0].read(g.k, shared.places.k_at + n + step, at + step >= whole && at + 2 * step <= end, keys);
            weigh(g, shared, x, own, sums, lane_of_team, weights, n, begin, first_new);
            wave_barrier();
#pragma unroll
            for (int turn = 0; turn < V_TURNS; ++turn) {
                hold_turn();
                if (!IS_AHEAD) v[turn].read(g.v, shared.places.v_at + n, all, values);
#pragma unroll
                for (int i = 0; i < KEYS; ++i) {
                    float value[CHANNELS];
                    values.get(i, value);
#pragma unroll
                    for (int r = 0; r < ROWS; ++r) {
                        const float weight = weights[i * ROWS + r];
                        float* const to = sums.of[r][turn];
#pragma unroll
                        for (int e = 0; e < CHANNELS; ++e) to[e] = rf::fma(weight, value[e], to[e]);
                    }
                }
            }
            wave_barrier();
        }
    }
    // Results of rows from `first` on, and the states of all.
    RF_FN void put(Shared& shared, u32) {
        const u32 lane_of_team = thread_x() % TEAM;
        put_results(shared, own, sums, lane_of_team);
    }
};
