// moe_rows: gathers rows in the order of a list that is sorted by expert for a grouped product, and scatters its results.
//
//   CANDLE_KIND 0 : to[m, :] = x[row of token tokens[m], :]; starts[e] = the first entry of expert e, starts[all] = the first entry
//                   that has no expert
//   CANDLE_KIND 1 : to[tokens[m], :] = x[m, :], times the token's factor if there are factors
//
// Shapes : kind 0: x [rows, columns] as moe_gemm.hip says, to [count, columns]; kind 1: x [count, columns] of f32, to like it
// Grid   : (count, 1, 1)     Block : (256, 1, 1)
// Needs  : experts ascending; tokens below count, experts below `all`. For a token that is not there kind 0 gives zeros; kind 1 writes
//          no row of such a token or expert. Kind 0 reports an expert that is not there, unless it is -1, which means none
// Numeric: one rounding at the store
//
// Macros : CANDLE_NAME; CANDLE_T, the type of tokens' rows and of results; CANDLE_KIND
#define CANDLE_MOE_BLOCK 256
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif

#if CANDLE_KIND == 0
extern "C" __global__ __launch_bounds__(CANDLE_MOE_BLOCK) void CANDLE_NAME(
    const CANDLE_T* x, const u32* tokens, const u32* experts, CANDLE_T* to, i32* starts, i32 all, i32 top, i32 count, i32 columns) {
    u32 m = group_x(), token = tokens[m];
    // With `top` 0 each token has a row of its own; else `top` tokens in turn share one.
    u64 row = token < (u32)count ? (top == 0 ? token : token / (u32)top) : 0;
    for (u32 n = thread_x(); n < (u32)columns; n += CANDLE_MOE_BLOCK)
        to[(u64)m * (u32)columns + n] = token < (u32)count ? x[row * (u32)columns + n] : cast<CANDLE_T>(0.0f);
    // Entry m is the start of all experts after the previous entry's, up to its own. Experts after the last entry's start behind it.
    if (thread_x() != 0) return;
    u32 most = (u32)all, own = experts[m] < most ? experts[m] : most;
    if (own == most && token < (u32)count && experts[m] != ~0u) RF_TELL_INDEX("moe_gemm", (i64)experts[m], (i64)all);
    u32 before = m == 0 ? 0 : (experts[m - 1] < most ? experts[m - 1] : most) + 1;
    for (u32 expert = before; expert <= own; ++expert) starts[expert] = (i32)m;
    if (m + 1 == (u32)count)
        for (u32 expert = own + 1; expert <= most; ++expert) starts[expert] = count;
}
#else
extern "C" __global__ __launch_bounds__(CANDLE_MOE_BLOCK) void CANDLE_NAME(
    const float* x, const u32* tokens, const u32* experts, const float* factors, CANDLE_T* to, i32 all, i32 count, i32 columns) {
    u32 m = group_x(), token = tokens[m];
    if (token >= (u32)count || experts[m] >= (u32)all) return;
    float factor = factors ? factors[token] : 1.0f;
    for (u32 n = thread_x(); n < (u32)columns; n += CANDLE_MOE_BLOCK)
        to[(u64)token * (u32)columns + n] = cast<CANDLE_T>(x[(u64)m * (u32)columns + n] * factor);
}
#endif
