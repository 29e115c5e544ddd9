// norm: each row divided by its spread.
//
//   rmsnorm    y = x · rsqrt(mean(x²) + eps) · weight
//   layernorm  y = (x - mean(x)) · rsqrt(mean((x - mean)²) + eps) · weight + bias
//
// Shapes : x, y [rows, columns], dense; weight, bias [columns], null for 1 and 0
// Grid   : (rows, 1, 1)     Block : (64 or 256, 1, 1)             by `columns`, as rows.h says
// Numeric: in f32, f64 for f64; the variance from the differences, not from the squares; one rounding at the store
//
// Macros : CANDLE_NAME; type CANDLE_T; CANDLE_LAYER 0 or 1; 2: no kernel, for rows_of.hip
#ifndef CANDLE_NORM_H
#define CANDLE_NORM_H
template <class W> struct RowTotal {
    W sum;
    RF_FN void operator()(u32, W x) { sum += x; }
};
template <class W> struct RowSquares {
    W mean, sum;
    RF_FN void operator()(u32, W x) { sum += (x - mean) * (x - mean); }
};
template <class T, class W> struct RowScaled {
    T* to;
    const T *weight, *bias;
    W mean, scale;
    RF_FN void operator()(u32 column, W x) {
        W y = (x - mean) * scale;
        if (weight) y *= Wide<T>::of(weight[column]);
        if (bias) y += Wide<T>::of(bias[column]);
        to[column] = cast<T>(y);
    }
};
template <class T, bool CENTRED, class From>
RF_FN void norm_row(const From& x, T* y, const T* weight, const T* bias, i32 columns, float eps, typename RowSum<T>::type* scratch) {
    typedef typename RowSum<T>::type W;
    Row<T, From> row(x, (u32)columns);
    W mean = (W)0;
    if (CENTRED) {
        RowTotal<W> total = {(W)0};
        row.each(total);
        mean = group_reduce(total.sum, Sum(), scratch, row.lane, row.lanes) / (W)columns;
    }
    RowSquares<W> squares = {mean, (W)0};
    row.each(squares);
    W spread = group_reduce(squares.sum, Sum(), scratch, row.lane, row.lanes) / (W)columns;
    RowScaled<T, W> out = {y + (u64)group_x() * (u32)columns, weight, bias, mean, (W)1 / rf::sqrt(spread + (W)eps)};
    row.each(out);
}
#endif

#if CANDLE_LAYER == 1
extern "C" __global__ __launch_bounds__(CANDLE_ROW_BLOCK) void CANDLE_NAME(
    const CANDLE_T* x, CANDLE_T* y, const CANDLE_T* weight, const CANDLE_T* bias, i32 columns, i32 block, float eps) {
    __shared__ RowSum<CANDLE_T>::type scratch[CANDLE_ROW_BLOCK / ARCH_WAVE_SIZE];
    InMemory<CANDLE_T> rows = {x};
    norm_row<CANDLE_T, true>(rows, y, weight, bias, columns, eps, scratch);
}
#elif CANDLE_LAYER == 0
extern "C" __global__ __launch_bounds__(CANDLE_ROW_BLOCK) void CANDLE_NAME(
    const CANDLE_T* x, CANDLE_T* y, const CANDLE_T* weight, i32 columns, i32 block, float eps) {
    __shared__ RowSum<CANDLE_T>::type scratch[CANDLE_ROW_BLOCK / ARCH_WAVE_SIZE];
    InMemory<CANDLE_T> rows = {x};
    norm_row<CANDLE_T, false>(rows, y, weight, (const CANDLE_T*)0, columns, eps, scratch);
}
#endif
