// paged_aiter: what is done before and after AITER's kernel of decoding, which follows every page number and multiplies what no query sees
// by zero
//
//   paged_hold   held[s] = keys of sequence s, 0 where one of its pages is not there
//   paged_again  O = sum e^(scale <q, k>) v / sum e^(scale <q, k>) for the rows of a sequence and a head of keys, if one of them holds a NaN
//
// Shapes : Q, O [sequences, heads, 128], heads dense; held [sequences]; cache as in cache.h, of heads / 8
// Grid   : paged_hold (sequences, 1, 1), paged_again (heads / 8, sequences, 1)
// Block  : (256, 1, 1) both
// LDS    : scores and places of 256 keys, static
// Needs  : Q and O of whole vectors of four; O overlaps nothing                                    checked by the launcher
// Numeric: products, exponentials and sums in f32, keys in ascending order by tiles of 256, of which each of two halves of the workgroup
//          adds up one. Keys on a page that is not there are not seen, and the page is told of; a row that sees nothing gives zeros. A
//          NaN or an infinity that a row sees spoils it, one that it does not see does not.
//
// Macros : those of cache.h
RF_CHECKS_INDICES

#define DEPTH 128
#define GROUP 8
#define THREADS 256
#define WAVES (THREADS / ARCH_WAVE_SIZE)

struct PagedAroundArgs {
    const Code* q;
    Code* out;
    i32* held;
    CachePlane k, v;
    CachePages pages;
    i64 q_token;
    float scale;
    u32 heads;
};
static_assert(sizeof(PagedAroundArgs) == 3 * 8 + 2 * 72 + 64 + 8 + 8, "as in paged/aiter.rs");

struct Shared {
    float scores[THREADS];
    i64 at[THREADS];  // of the key's values; below 0: not seen
    float sums[2];
    u32 found[WAVES];
};

// Whether a condition holds for any thread of the workgroup.
RF_FN bool any_of(Shared& shared, bool condition) {
    const u32 own = rf::ballot(condition) != 0;
    if (lane() == 0) shared.found[thread_x() / ARCH_WAVE_SIZE] = own;
    barrier();
    u32 all = 0;
#pragma unroll
    for (int wave = 0; wave < WAVES; ++wave) all |= shared.found[wave];
    return all != 0;
}

extern "C" __global__ __launch_bounds__(THREADS) void paged_hold(PagedAroundArgs g) {
    __shared__ Shared shared;
    const u32 sequence = group_x();
    const i32 keys = keys_of(g.pages, sequence);
    const u32 count = g.pages.block.divide((u32)keys + g.pages.block.divisor - 1);
    bool is_amiss = false;
    for (u32 n = thread_x(); n < count; n += THREADS) {
        const i32 page = page_of(g.pages, sequence, n);
        is_amiss |= page < 0 || page >= (i32)g.pages.pages;
    }
    const bool is_held = any_of(shared, is_amiss);
    if (thread_x() == 0) g.held[sequence] = is_held ? 0 : keys;
}

// The score of a key, and where its values are.
RF_FN void score_of(const PagedAroundArgs& g, Shared& shared, const Code* q, u32 sequence, u32 head, i32 key, i32 keys) {
    float score = -__builtin_inff();
    i64 at = -1;
    if (key < keys) {
        const u32 number = g.pages.block.divide((u32)key), offset = (u32)key - number * g.pages.block.divisor;
        const i32 page = page_of(g.pages, sequence, number);
        if (page < 0 || page >= (i32)g.pages.pages) {
            RF_TELL_INDEX("paged_attention", page, (i64)g.pages.pages);
        } else {
            const i64 row = token_at(g.k, page, head, offset);
            float product = 0.0f;
            for (u32 channel = 0; channel < DEPTH; ++channel) product += to_f32(q[channel]) * to_f32(g.k.at[row + channel_at(g.k, channel)]);
            score = g.scale * product;
            at = token_at(g.v, page, head, offset);
        }
    }
    shared.scores[thread_x()] = score;
    shared.at[thread_x()] = at;
}

extern "C" __global__ __launch_bounds__(THREADS) void paged_again(PagedAroundArgs g) {
    __shared__ Shared shared;
    const u32 head = group_x(), sequence = group_y(), thread = thread_x();
    Code* out = g.out + ((i64)sequence * g.heads + head * GROUP) * DEPTH;
    const Vec<Code, 4> four = load<4>(out + 4 * thread);
    bool is_nan_here = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) is_nan_here |= is_nan(to_f32(four[i]));
    if (!any_of(shared, is_nan_here)) return;
    const i32 keys = keys_of(g.pages, sequence);
    const u32 channel = thread % DEPTH, half = thread / DEPTH;
    for (u32 row = 0; row < GROUP; ++row) {
        const Code* q = g.q + (i64)sequence * g.q_token + (head * GROUP + row) * DEPTH;
        float most = -__builtin_inff(), sum = 0.0f, value = 0.0f;
        for (i32 first = 0; first < keys; first += THREADS) {
            score_of(g, shared, q, sequence, head, first + (i32)thread, keys);
            barrier();
            float next = most;
            for (u32 n = 0; n < THREADS; ++n) next = shared.scores[n] > next ? shared.scores[n] : next;
            const float base = next == -__builtin_inff() ? 0.0f : next;
            const float by = rf::exp(most - base);
            sum *= by;
            value *= by;
            for (u32 n = half * DEPTH; n < (half + 1) * DEPTH; ++n) {
                if (shared.at[n] < 0) continue;
                const float weight = rf::exp(shared.scores[n] - base);
                sum += weight;
                value += weight * to_f32(g.v.at[shared.at[n] + channel_at(g.v, channel)]);
            }
            most = next;
            barrier();
        }
        shared.scores[thread] = value;
        if (channel == 0) shared.sums[half] = sum;
        barrier();
        if (half == 0) {
            const float total = shared.sums[0] + shared.sums[1], both = value + shared.scores[DEPTH + channel];
            out[row * DEPTH + channel] = f32_to_bf16(total == 0.0f ? 0.0f : both / total);
        }
        barrier();
    }
}
