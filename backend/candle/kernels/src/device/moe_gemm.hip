// moe_gemm: out[token, n] = factor[token] · (weights[expert, n, :] · x[row of token, :]), for the tokens of a list.
//
// Entry m of the list says that token tokens[m] goes to expert experts[m]. With factors each token has a row of x. Without them (a
// null pointer) `top` tokens in turn share a row, and the factor is 1.
//
// Shapes : x [rows, columns], weights [experts, outputs, columns], out [count, outputs], dense
// Grid   : (ceil(outputs / 4), count, 1)      Block : (128, 1, 1)       32 lanes per element of out
// Needs  : tokens below count and experts below `all`. Other entries are passed over; an expert that is not there is reported, unless
//          it is -1, which means none
// Numeric: in f32, in an order that `columns` alone decides; one rounding at the store
//
// Macros : CANDLE_NAME; CANDLE_T, the type of all
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif

extern "C" __global__ __launch_bounds__(128) void CANDLE_NAME(const CANDLE_T* x, const CANDLE_T* weights, const u32* tokens,
                                                              const u32* experts, const float* factors, CANDLE_T* out, i32 all,
                                                              i32 top, i32 count, i32 outputs, i32 columns) {
    u32 n = group_x() * 4 + thread_x() / 32, lane = thread_x() % 32;
    u32 token = tokens[group_y()], expert = experts[group_y()];
    bool valid = token < (u32)count && expert < (u32)all;
    u64 line = valid ? (u64)expert * (u32)outputs + (n < (u32)outputs ? n : (u32)outputs - 1) : 0;
    u64 row = valid ? (factors ? token : token / (u32)top) : 0;
    float sum = 0.0f;
    for (u32 k = lane; k < (u32)columns; k += 32)
        sum += Wide<CANDLE_T>::of(weights[line * (u32)columns + k]) * Wide<CANDLE_T>::of(x[row * (u32)columns + k]);
    sum = sum_of_32(sum);
    if (n == 0 && lane == 0 && token < (u32)count && expert >= (u32)all && expert != ~0u)
        RF_TELL_INDEX("moe_gemm", (i64)expert, (i64)all);
    if (lane != 0 || !valid || n >= (u32)outputs) return;
    out[(u64)token * (u32)outputs + n] = cast<CANDLE_T>(factors ? sum * factors[token] : sum);
}
