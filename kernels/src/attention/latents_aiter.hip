// latents_aiter: what is done before and after AITER's kernels of decoding over latents, which take a list of rows, follow every number in
// it, and leave splits
//
//   latents_count  held[s] = keys of sequence s whose page is there
//   latents_list   starts[s] = held[0] + .. + held[s - 1]; list[starts[s] ..] = the rows of those keys, in the order of keys
//   latents_merge  O = sum of e^(lse - most) part / sum of e^(lse - most), LSE = most + ln of that sum, over the splits of a sequence and head
//
// Shapes : Q [sequences, heads, 576], O [sequences, heads, 512], LSE [sequences, heads], Q's heads dense; parts [sequences, splits, heads,
//          512], sums [sequences, splits, heads], of which a sequence has the first: as many as it has turns of keys; held [sequences],
//          starts, q_starts [sequences + 1]; rows of keys `row` elements apart, `page_rows` to a page
// Grid   : latents_count (sequences, 1, 1), latents_list (keys_most / LIST_KEYS, up, sequences, 1), latents_merge (heads, sequences, 1)
// Block  : (256, 1, 1) all
// LDS    : counts of waves, or scores and rows of 256 keys, static
// Needs  : rows in the list are below 2^31; O and LSE overlap nothing                              checked by the launcher
// Numeric: splits in ascending order in f32. A row in which a NaN comes out is computed again from the list: products, exponentials and
//          sums in f32, keys in ascending order by tiles of 256. Keys on a page that is not there are not in the list, and the page is told of;
//          a row that sees nothing gives zeros and an LSE of -inf. A NaN or an infinity that a row sees spoils it, one that it does not see
//          does not.
//
// Macros : those of cache.h
RF_CHECKS_INDICES

#define DEPTH 576
#define V_DEPTH 512
#define THREADS 256
#define WAVES (THREADS / ARCH_WAVE_SIZE)
// Channels of a value for each thread.
#define CHANNELS (V_DEPTH / THREADS)
// Keys that a workgroup lists.
#define LIST_KEYS 2048

struct LatentsAroundArgs {
    const Code* q;
    const Code* rows;
    const float* parts;
    const float* sums;
    Code* out;
    float* lse;
    i32* held;
    i32* starts;
    i32* q_starts;
    i32* list;
    CachePages pages;
    i64 q_token, row, out_token, out_head, lse_token, lse_head;
    float scale;
    u32 heads, splits, turn, page_rows, padding;
};
static_assert(sizeof(LatentsAroundArgs) == 10 * 8 + 64 + 6 * 8 + 24, "as in paged/aiter/latents.rs");

// Whether a page is there.
RF_FN bool is_there(const LatentsAroundArgs& g, i32 page) { return page >= 0 && page < (i32)g.pages.pages; }

extern "C" __global__ __launch_bounds__(THREADS) void latents_count(LatentsAroundArgs g) {
    __shared__ i32 scratch[WAVES];
    const u32 sequence = group_x(), thread = thread_x(), block = g.pages.block.divisor;
    const u32 keys = (u32)keys_of(g.pages, sequence), count = g.pages.block.divide(keys + block - 1);
    i32 there = 0;
    for (u32 n = thread; n < count; n += THREADS) {
        const i32 page = page_of(g.pages, sequence, n);
        const u32 left = keys - n * block;
        if (is_there(g, page)) there += (i32)(left < block ? left : block);
        else RF_TELL_INDEX("paged_attention", page, (i64)g.pages.pages);
    }
    there = group_reduce(there, Sum(), scratch, thread, THREADS);
    if (thread != 0) return;
    g.held[sequence] = there;
    g.q_starts[sequence] = (i32)sequence;
    if (sequence + 1 == g.pages.sequences) g.q_starts[sequence + 1] = (i32)sequence + 1;
}

// The row of a key, below 0 where its page is not there.
RF_FN i32 row_of(const LatentsAroundArgs& g, u32 sequence, u32 key) {
    const u32 number = g.pages.block.divide(key);
    const i32 page = page_of(g.pages, sequence, number);
    return is_there(g, page) ? page * (i32)g.page_rows + (i32)(key - number * g.pages.block.divisor) : -1;
}

extern "C" __global__ __launch_bounds__(THREADS) void latents_list(LatentsAroundArgs g) {
    __shared__ i32 scratch[WAVES];
    const u32 sequence = group_y(), thread = thread_x(), first = group_x() * LIST_KEYS;
    const u32 keys = (u32)keys_of(g.pages, sequence);
    if (first > 0 && first >= keys) return;
    i32 before = 0;
    for (u32 other = thread; other < sequence; other += THREADS) before += g.held[other];
    before = group_reduce(before, Sum(), scratch, thread, THREADS);
    const i32 held = g.held[sequence];
    if (first == 0 && thread == 0) {
        g.starts[sequence] = before;
        if (sequence + 1 == g.pages.sequences) g.starts[sequence + 1] = before + held;
    }
    i32* list = g.list + before;
    if (held == (i32)keys) {
        const u32 end = first + LIST_KEYS < keys ? first + LIST_KEYS : keys;
        for (u32 key = first + thread; key < end; key += THREADS) list[key] = row_of(g, sequence, key);
        return;
    }
    if (first > 0) return;
    // Those that are there, one behind the other: by one workgroup.
    const u32 wave = thread / ARCH_WAVE_SIZE;
    for (u32 from = 0; from < keys; from += THREADS) {
        const u32 key = from + thread;
        const i32 row = key < keys ? row_of(g, sequence, key) : -1;
        const u64 there = rf::ballot(row >= 0);
        barrier();
        if (lane() == 0) scratch[wave] = __builtin_popcountll(there);
        barrier();
        i32 all = 0, at = __builtin_popcountll(there & ((1ull << lane()) - 1));
#pragma unroll
        for (u32 w = 0; w < WAVES; ++w) {
            all += scratch[w];
            if (w < wave) at += scratch[w];
        }
        if (row >= 0) list[at] = row;
        list += all;
    }
}

struct Shared {
    float scores[THREADS];
    i32 rows[THREADS];
    u32 found[WAVES];
};

// A row's sum of weights, their results before they are divided, and the score from which the weights are told.
struct Sums {
    float most, sum, values[CHANNELS];
};

RF_FN Sums of_splits(const LatentsAroundArgs& g, u32 sequence, u32 head, i32 keys) {
    const i32 turns = (keys + (i32)g.turn - 1) / (i32)g.turn;
    const i32 splits = turns < (i32)g.splits ? turns : (i32)g.splits;
    const i64 line = (i64)sequence * g.splits * g.heads + head;
    Sums s = {-__builtin_inff(), 0.0f, {}};
    for (i32 i = 0; i < splits; ++i) s.most = __builtin_fmaxf(s.most, g.sums[line + (i64)i * g.heads]);
    for (i32 i = 0; i < splits; ++i) {
        const i64 at = line + (i64)i * g.heads;
        const float weight = rf::exp(g.sums[at] - s.most);
        const Vec<float, CHANNELS> part = load<CHANNELS>(g.parts + at * V_DEPTH + thread_x() * CHANNELS);
        s.sum += weight;
#pragma unroll
        for (int e = 0; e < CHANNELS; ++e) s.values[e] += weight * part[e];
    }
    return s;
}

RF_FN Sums of_keys(const LatentsAroundArgs& g, Shared& shared, u32 sequence, u32 head, i32 keys) {
    const Code* q = g.q + (i64)sequence * g.q_token + head * DEPTH;
    const i32* list = g.list + g.starts[sequence];
    const u32 thread = thread_x();
    Sums s = {-__builtin_inff(), 0.0f, {}};
    for (i32 first = 0; first < keys; first += THREADS) {
        const i32 key = first + (i32)thread, row = key < keys ? list[key] : -1;
        float score = -__builtin_inff();
        if (row >= 0) {
            float product = 0.0f;
            for (u32 channel = 0; channel < DEPTH; ++channel) product += to_f32(q[channel]) * to_f32(g.rows[row * g.row + channel]);
            score = g.scale * product;
        }
        barrier();
        shared.scores[thread] = score;
        shared.rows[thread] = row;
        barrier();
        float next = s.most;
        for (u32 n = 0; n < THREADS; ++n) next = shared.scores[n] > next ? shared.scores[n] : next;
        const float base = next == -__builtin_inff() ? 0.0f : next, by = rf::exp(s.most - base);
        s.sum *= by;
#pragma unroll
        for (int e = 0; e < CHANNELS; ++e) s.values[e] *= by;
        for (u32 n = 0; n < THREADS && shared.rows[n] >= 0; ++n) {
            const float weight = rf::exp(shared.scores[n] - base);
            const Code* value = g.rows + shared.rows[n] * g.row + thread * CHANNELS;
            s.sum += weight;
#pragma unroll
            for (int e = 0; e < CHANNELS; ++e) s.values[e] += weight * to_f32(value[e]);
        }
        s.most = next;
    }
    return s;
}

extern "C" __global__ __launch_bounds__(THREADS) void latents_merge(LatentsAroundArgs g) {
    __shared__ Shared shared;
    const u32 head = group_x(), sequence = group_y(), thread = thread_x();
    const i32 keys = g.held[sequence];
    Sums s = of_splits(g, sequence, head, keys);
    bool is_nan_here = is_nan(s.sum);
#pragma unroll
    for (int e = 0; e < CHANNELS; ++e) is_nan_here |= is_nan(s.values[e]);
    const bool is_nan_in_wave = rf::ballot(is_nan_here) != 0;
    if (lane() == 0) shared.found[thread / ARCH_WAVE_SIZE] = is_nan_in_wave;
    barrier();
    u32 found = 0;
#pragma unroll
    for (int wave = 0; wave < WAVES; ++wave) found |= shared.found[wave];
    if (found) s = of_keys(g, shared, sequence, head, keys);
    Code* out = g.out + sequence * g.out_token + head * g.out_head + thread * CHANNELS;
    const bool is_seen = s.sum != 0.0f;
#pragma unroll
    for (int e = 0; e < CHANNELS; ++e) out[e] = f32_to_bf16(is_seen ? s.values[e] / s.sum : 0.0f);
    if (thread == 0 && g.lse) g.lse[sequence * g.lse_token + head * g.lse_head] = is_seen ? s.most + rf::log(s.sum) : -__builtin_inff();
}
