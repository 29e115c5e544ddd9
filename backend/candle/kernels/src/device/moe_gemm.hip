// moe_gemm: out[token, n] = factor[token] · (weights[expert, n, :] · x[row of token, :]), for the tokens of a list.
//
// Entry m of the list says that token tokens[m] goes to expert experts[m]. With factors each token has a row of x. Without them (a
// null pointer) `top` tokens in turn share a row, and the factor is 1.
//
// Shapes : x [rows, columns], dense; weights [experts, outputs, columns], dense or in blocks; out [count, outputs]
// Grid   : (ceil(outputs / 4), count, 1)      Block : (128, 1, 1)       32 lanes per element of out
// Needs  : tokens below count and experts below `all`. Other entries are passed over; an expert that is not there is reported, unless
//          it is -1, which means none
// Numeric: in f32, in an order that `columns` alone decides; one rounding at the store
//
// Macros : CANDLE_NAME; CANDLE_T, x's type; CANDLE_OUT; CANDLE_TYPE, a number of gguf.h, or -1 for weights of CANDLE_T
#ifndef CANDLE_MOE_GEMM_H
#define CANDLE_MOE_GEMM_H
#ifndef CANDLE_CHECKS_INDICES
#define CANDLE_CHECKS_INDICES
RF_CHECKS_INDICES
#endif
// The part of a dot product, of a line of weights and a row of activations, that one of 32 lanes sums.
template <int TYPE> struct LaneDot {
    template <class T> RF_FN static float of(const u8* weights, u64 line, const T* x, u32 columns, u32 lane) {
        typedef Gguf<TYPE> Type;
        u32 blocks = columns / Type::SIZE;
        float sum = 0.0f;
        for (u32 n = lane; n < blocks * Type::UNITS; n += 32) {
            u32 block = n / Type::UNITS;
            Run runs[Type::SUBS];
            Type::unpack(weights + (line * blocks + block) * Type::BYTES, n % Type::UNITS, runs);
            for (int run = 0; run < Type::SUBS; ++run)
                for (int i = 0; i < 16; ++i)
                    sum += weight_at(runs[run], i) * Wide<T>::of(x[(u64)block * Type::SIZE + runs[run].at + i]);
        }
        return sum;
    }
};
template <> struct LaneDot<-1> {
    template <class T> RF_FN static float of(const u8* weights, u64 line, const T* x, u32 columns, u32 lane) {
        const T* row = (const T*)weights + line * columns;
        float sum = 0.0f;
        for (u32 n = lane; n < columns; n += 32) sum += Wide<T>::of(row[n]) * Wide<T>::of(x[n]);
        return sum;
    }
};
#endif

extern "C" __global__ __launch_bounds__(128) void CANDLE_NAME(const CANDLE_T* x, const u8* weights, const u32* tokens,
                                                              const u32* experts, const float* factors, CANDLE_OUT* out, i32 all,
                                                              i32 top, i32 count, i32 outputs, i32 columns) {
    u32 n = group_x() * 4 + thread_x() / 32, lane = thread_x() % 32;
    u32 token = tokens[group_y()], expert = experts[group_y()];
    bool valid = token < (u32)count && expert < (u32)all;
    u64 line = valid ? (u64)expert * (u32)outputs + (n < (u32)outputs ? n : (u32)outputs - 1) : 0;
    u64 row = valid ? (factors ? token : token / (u32)top) : 0;
    float sum = sum_of_32(LaneDot<CANDLE_TYPE>::of(weights, line, x + row * (u32)columns, (u32)columns, lane));
    if (n == 0 && lane == 0 && token < (u32)count && expert >= (u32)all && expert != ~0u)
        RF_TELL_INDEX("moe_gemm", (i64)expert, (i64)all);
    if (lane != 0 || !valid || n >= (u32)outputs) return;
    out[(u64)token * (u32)outputs + n] = cast<CANDLE_OUT>(factors ? sum * factors[token] : sum);
}
