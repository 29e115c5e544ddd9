// accept: which tokens of a draft are kept, and the token after them
//
//   accept_drawn : draft i is kept while those before it are and u < p / q, p and q being its probabilities by target and draft; the
//                  token after those kept is drawn from max(p - q, 0) where one was refused, else from p
//   accept_equal : draft i is kept while those before it are and it is the target's token; the target's own comes after them
//
// Shapes : drafts [rows, n]; target [rows, n + 1, count], draft [rows, n, count], innermost contiguous; targets, tokens [rows, n + 1];
//          counts [rows]
// Grid   : accept_drawn (rows, 1, 1)                  one workgroup for a row
//          accept_equal (ceil(rows / 256), 1, 1)      one lane for a row
// Block  : accept_drawn (SELECT_THREADS, 1, 1), accept_equal (256, 1, 1)
// LDS    : some words for each wave
// Needs  : 1 <= count < 2^31                                                            checked by the launcher
// Numeric: u of 24 bits. A draft ends before a token that is not inside the vocabulary. NaN and what is negative are probabilities of
//          0. Without a distribution of the draft its tokens were certain. Where nothing is left of max(p - q, 0), the token is
//          drawn from p, and of zeros it is 0. Behind the token tokens are -1
using namespace rf;

struct AcceptArgs {
    const i32* drafts;
    const float* target;
    const float* draft;     // null: certain
    const i32* targets;     // of accept_equal
    const u64* seeds;
    const u64* offsets;
    i32* tokens;
    i32* counts;
    i64 draft_token_stride, target_row_stride, target_stride, draft_row_stride, draft_stride, targets_stride, seed_stride,
        offset_stride, token_stride, count_stride;
    u32 rows, n, count, padding;
};
static_assert(sizeof(AcceptArgs) == 160, "as in accept.rs");

// Words that no token's place has.
#define JUDGES (1ull << 40)

RF_FN float share(float p) { return p > 0.0f ? p : 0.0f; }

RF_FN void write(const AcceptArgs& g, u32 own, u32 kept, i32 next, u32 first, u32 step) {
    i32* tokens = g.tokens + own * g.token_stride;
    for (u32 i = first; i <= g.n; i += step)
        tokens[i] = i < kept ? g.drafts[own * g.draft_token_stride + i] : (i == kept ? next : -1);
    if (first == 0) g.counts[own * g.count_stride] = (i32)kept;
}

// Draws from p, less what the draft had of it.
RF_FN u64 drawn(const AcceptArgs& g, const float* p, const float* q, i32 refused, u64 seed, u64 offset, u64* scratch) {
    Contest contest;
    for (u32 first = thread_x() * 4; first < g.count; first += SELECT_THREADS * 4) {
        float weights[4];
        bool any = false;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            u32 at = first + i;
            weights[i] = at < g.count && (i32)at != refused ? share(p[at]) : 0.0f;
            if (q && at < g.count) weights[i] = share(weights[i] - share(q[at]));
            any = any || weights[i] > 0.0f;
        }
        if (!any) continue;
        Philox words = philox(first / 4, offset, seed);
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (weights[i] > 0.0f) contest.enter_drawn(first + i, weights[i], words.word[i]);
    }
    return group_reduce(contest.item(), Max(), scratch, thread_x(), (u32)SELECT_THREADS);
}

extern "C" __global__ __launch_bounds__(SELECT_THREADS) void accept_drawn(AcceptArgs g) {
    __shared__ u64 wide[SELECT_WAVES];
    u32 own = group_x(), kept = 0;
    u64 seed = g.seeds[own * g.seed_stride], offset = g.offsets[own * g.offset_stride];
    const i32* drafts = g.drafts + own * g.draft_token_stride;
    const float* target = g.target + own * g.target_row_stride;
    const float* draft = g.draft ? g.draft + own * g.draft_row_stride : (const float*)0;
    i32 refused = -1;
    for (; kept < g.n; ++kept) {
        i32 token = drafts[kept];
        if ((u32)token >= g.count) break;
        float p = share(target[kept * g.target_stride + token]);
        float q = draft ? share(draft[kept * g.draft_stride + token]) : 1.0f;
        float u = unit_f32(word_of(philox(JUDGES + kept / 4, offset, seed), kept));
        if (u * q < p) continue;
        refused = token;
        break;
    }
    const float* p = target + kept * g.target_stride;
    const float* q = draft && refused >= 0 ? draft + kept * g.draft_stride : (const float*)0;
    u64 winner = drawn(g, p, q, draft ? -1 : refused, seed, offset, wide);
    if (winner == 0 && refused >= 0) winner = drawn(g, p, (const float*)0, -1, seed, offset, wide);
    write(g, own, kept, winner == 0 ? 0 : (i32)~(u32)winner, thread_x(), SELECT_THREADS);
}

extern "C" __global__ __launch_bounds__(256) void accept_equal(AcceptArgs g) {
    u32 own = group_x() * 256 + thread_x(), kept = 0;
    if (own >= g.rows) return;
    const i32* drafts = g.drafts + own * g.draft_token_stride;
    const i32* targets = g.targets + own * g.targets_stride;
    while (kept < g.n && drafts[kept] >= 0 && drafts[kept] == targets[kept]) ++kept;
    write(g, own, kept, targets[kept], 0, 1);
}
