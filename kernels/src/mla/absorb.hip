// absorb: what stands beside the product of MLA's queries in one launch: their channels that turn, and the row of a token in its cache
//
//   out[t, h] = turned(q[t, h]), cache[slot] = (norm(latent[t]), turned(key[t])), as they are or as codes of x / scale
//
//   (a, b) -> (a cos - b sin, b cos + a sin) for pairs as in rope.hip;  norm(x) = x * rsqrt(mean(x^2) + eps) * w
//
// Shapes : q, out [tokens, heads, 2 half], latent [tokens, channels of plane 0], key [tokens, 2 half], rows of any stride, last axis 1;
//          tables [positions, half]; positions, slots [tokens]; the cache's planes as in cache.h: latents, and what is behind them
// Grid   : (tokens, 1 + ceil(heads * half / 4 / 256), 1): y 0: the row of the cache; above: queries, four pairs of each lane
// Block  : (256, 1, 1)
// LDS    : a float of each wave
// Needs  : half a multiple of 4, latents of at most 2048 channels; out overlaps nothing                    checked by the launcher
// Numeric: all in f32, with one rounding at each store. A code is that of x * (1 / scale), to nearest even, saturating. Positions outside
//          of a table take its nearest row. Nothing is written for a slot below 0; one behind the last is passed over, too, and told of.
//
// Macros : those of cache.h; ABSORB_IN: type of all rows; ABSORB_POSITION, ABSORB_SLOT; ABSORB_PAIRS: 1 where neighbours are pairs
RF_CHECKS_INDICES

typedef ABSORB_IN In;
#define THREADS 256
// Pairs of a lane.
#define PAIRS 4

struct AbsorbRows {
    In* at;
    i64 token, head;
    u32 is_whole, padding;
};
struct AbsorbArgs {
    AbsorbRows q, out, latent, key, weight;  // weight: of the norm; null: none
    CachePlane plane[2];
    CacheScales scales;
    const float* cosines;
    const float* sines;
    const ABSORB_POSITION* positions;
    const ABSORB_SLOT* slots;
    i64 position_stride, slot_stride, table_rows;
    FastDiv chunks, block;
    float epsilon;
    u32 heads, half, slots_end;
};
static_assert(sizeof(AbsorbArgs) == 5 * 32 + 144 + 32 + 4 * 8 + 3 * 8 + 24 + 16, "as in absorb.rs");

// A lane's pairs: two runs of neighbouring elements.
struct Turned {
    u32 first[2];  // channels that the runs begin with
    float x[2][PAIRS];

    RF_FN void run(const AbsorbArgs& g, u32 token, const AbsorbRows& rows, const In* from, u32 chunk) {
        first[0] = ABSORB_PAIRS ? 2 * PAIRS * chunk : PAIRS * chunk;
        first[1] = first[0] + (ABSORB_PAIRS ? PAIRS : g.half);
        RowWords<In, PAIRS> in[2];
        in[0].read(from + first[0], rows.is_whole);
        in[1].read(from + first[1], rows.is_whole);
        const i64 position = (i64)g.positions[token * g.position_stride];
        const i64 line = position < 0 ? 0 : position >= g.table_rows ? g.table_rows - 1 : position;
        const Vec<float, PAIRS> c = load<PAIRS>(g.cosines + line * g.half + PAIRS * chunk);
        const Vec<float, PAIRS> s = load<PAIRS>(g.sines + line * g.half + PAIRS * chunk);
#pragma unroll
        for (int e = 0; e < PAIRS; ++e) {
            const int u = ABSORB_PAIRS ? 2 * e : e, v = ABSORB_PAIRS ? 2 * e + 1 : PAIRS + e;
            const float left = in[u / PAIRS].get(u % PAIRS), right = in[v / PAIRS].get(v % PAIRS);
            x[u / PAIRS][u % PAIRS] = rf::fma(left, c[e], -(right * s[e]));
            x[v / PAIRS][v % PAIRS] = rf::fma(right, c[e], left * s[e]);
        }
    }
};

RF_FN void turn_queries(const AbsorbArgs& g, u32 token) {
    const u32 n = (group_y() - 1) * THREADS + thread_x(), head = g.chunks.divide(n), chunk = n - head * g.chunks.divisor;
    if (head >= g.heads) return;
    Turned turned;
    turned.run(g, token, g.q, g.q.at + token * g.q.token + head * g.q.head, chunk);
    In* to = g.out.at + token * g.out.token + head * g.out.head;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        RowWords<In, PAIRS> out;
        out.put(turned.x[i]);
        out.write(to + turned.first[i], g.out.is_whole);
    }
}

// A number as the cache has it.
RF_FN u32 code_of(float x, float by) { return CACHE_IS_CODED ? Element<Code>::bits(x * by) : Element<Code>::bits(x); }

RF_FN void write_token(const AbsorbArgs& g, u32 token, float* scratch) {
    i64 slot = (i64)g.slots[token * g.slot_stride];
    if (slot >= (i64)g.slots_end) {
        RF_TELL_INDEX("absorb", slot, (i64)g.slots_end);
        slot = -1;
    }
    // All of a workgroup have one slot.
    if (slot < 0) return;
    const u32 page = g.block.divide((u32)slot), offset = (u32)slot - page * g.block.divisor;
    const u32 thread = thread_x(), channel = thread * LANE_CHANNELS, depth = g.plane[0].depth;
    const float by = CACHE_IS_CODED ? 1.0f / *scale_at(g.scales, page, 0, offset) : 1.0f;
    RowWords<In> latent;
    latent.clear();
    if (channel < depth) latent.read(g.latent.at + token * g.latent.token + channel, g.latent.is_whole);
    float x[LANE_CHANNELS];
#pragma unroll
    for (int i = 0; i < LANE_CHANNELS; ++i) x[i] = latent.get(i);
    if (g.weight.at) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < LANE_CHANNELS; ++i) sum = rf::fma(x[i], x[i], sum);
        sum = group_reduce(sum, Sum(), scratch, thread, THREADS);
        const float root = rf::rsqrt(sum / (float)depth + g.epsilon);
        RowWords<In> weight;
        weight.clear();
        if (channel < depth) weight.read(g.weight.at + channel, g.weight.is_whole);
#pragma unroll
        for (int i = 0; i < LANE_CHANNELS; ++i) x[i] = x[i] * root * weight.get(i);
    }
    if (channel < depth) {
        Channels out;
        out.clear();
#pragma unroll
        for (int i = 0; i < LANE_CHANNELS; ++i) out.put_bits(i, code_of(x[i], by));
        write_channels(g.plane[0], token_at(g.plane[0], page, 0, offset), channel, out);
    }
    if (thread >= g.chunks.divisor) return;
    Turned turned;
    turned.run(g, token, g.key, g.key.at + token * g.key.token, thread);
    const i64 at = token_at(g.plane[1], page, 0, offset);
    Channels out;
    out.clear();
#pragma unroll
    for (int n = 0; n < 2 * PAIRS; ++n) out.put_bits(n, code_of(turned.x[n / PAIRS][n % PAIRS], by));
#if ABSORB_PAIRS
    write_channels(g.plane[1], at, turned.first[0], out);
#else
#pragma unroll
    for (int n = 0; n < 2 * PAIRS; ++n)
        Element<Code>::write(g.plane[1].at + at + channel_at(g.plane[1], turned.first[n / PAIRS] + n % PAIRS), out.bits(n));
#endif
}

extern "C" __global__ __launch_bounds__(THREADS) void absorb(AbsorbArgs g) {
    __shared__ float scratch[THREADS / ARCH_WAVE_SIZE];
    if (group_y() == 0) write_token(g, group_x(), scratch);
    else turn_queries(g, group_x());
}
