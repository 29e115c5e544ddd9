// route.h: what routing is told, what a logit is worth, and the order of logits. Stands before route.hip and route_lists.hip.
//
// Macros : ROUTE_TYPE; ROUTE_EXPERTS, a power of two; ROUTE_SCORE: 0 softmax, 1 sigmoid, 2 square root of softplus; ROUTE_WAVES
using namespace rf;

struct RouteArgs {
    const ROUTE_TYPE* x;
    const float* bias;        // null: chosen by the logits
    const i32* count;         // tokens that count; null: all
    const i32* table;         // experts by row; null: chosen
    const i32* table_rows;
    float* shares;
    i32* ids;
    i64 x_stride, table_stride, share_stride, id_stride;
    u32 tokens, experts, k, shared;
    u32 groups, groups_kept, group_size, by_two;  // one group: none. A group's score is the sum of its two largest, or the largest
    u32 renormalises, shared_score;               // 0 one, 1 sigmoid, 2 softmax
    u32 table_rows_count, parts_log2;
    float factor;
    FastDiv size;  // of a group
    u32 x_is_whole, unused;  // whether four neighbouring logits may be read at once
};
static_assert(sizeof(RouteArgs) == 160, "as in route.rs");

RF_FN float sigmoid(float x) { return 1.0f / (1.0f + rf::exp(-x)); }
RF_FN float score_of(float x) {
#if ROUTE_SCORE == 1
    return sigmoid(x);
#else
    x = x < 1e30f ? x : 1e30f;
    float softplus = (x > 0.0f ? x : 0.0f) + rf::log1p(rf::exp(-rf::abs(x)));
    return rf::sqrt(softplus);
#endif
}
// Grows with the number; above 1, which is for what is left out, and 0, which is for what there is not.
RF_FN u32 key_of(float x) {
    u32 bits = bit_cast<u32>(x + 0.0f);
    return x == x ? bits ^ ((bits >> 31) != 0 ? ~0u : 0x80000000u) : 1;
}
