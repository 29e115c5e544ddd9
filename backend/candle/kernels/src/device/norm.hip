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
    RF_FN T of(W x, T gain, T shift) const {
        W y = (x - mean) * scale;
        if (weight) y *= Wide<T>::of(gain);
        if (bias) y += Wide<T>::of(shift);
        return cast<T>(y);
    }
    RF_FN void operator()(u32 column, W x) {
        to[column] = of(x, weight ? weight[column] : T(), bias ? bias[column] : T());
    }
};
template <class T, bool CENTRED, class From>
RF_FN void norm_row(const From& x, T* y, const T* weight, const T* bias, i32 columns, float eps, typename RowSum<T>::type* scratch) {
    typedef typename RowSum<T>::type W;
    const u32 RUN = RowRun<T>::value;
    Row<T, From> row(x, (u32)columns);
    y += (u64)group_x() * (u32)columns;
    // Weights are under way before the sums are known.
    T gain[CANDLE_KEPT] = {}, shift[CANDLE_KEPT] = {};
    bool runs = row.whole && is_aligned<T, (int)RUN>(y) && is_aligned<T, (int)RUN>(weight) && is_aligned<T, (int)RUN>(bias);
    for (u32 i = 0; i < CANDLE_KEPT; i += RUN) {
        if (!runs || row.column_of(i) >= row.columns) continue;
        if (weight) load_run<(int)RUN>(weight + row.column_of(i), gain + i);
        if (bias) load_run<(int)RUN>(bias + row.column_of(i), shift + i);
    }
    W mean = (W)0;
    if (CENTRED) {
        RowTotal<W> total = {(W)0};
        row.each(total);
        mean = group_reduce(total.sum, Sum(), scratch, row.lane, row.lanes) / (W)columns;
    }
    RowSquares<W> squares = {mean, (W)0};
    row.each(squares);
    W spread = group_reduce(squares.sum, Sum(), scratch, row.lane, row.lanes) / (W)columns;
    RowScaled<T, W> out = {y, weight, bias, mean, (W)1 / rf::sqrt(spread + (W)eps)};
    if (!runs) {
        row.each(out);
        return;
    }
    for (u32 i = 0; i < CANDLE_KEPT; i += RUN) {
        if (row.column_of(i) >= row.columns) continue;
        T results[RUN];
        for (u32 j = 0; j < RUN; ++j) results[j] = out.of(row.kept[i + j], gain[i + j], shift[i + j]);
        store_run<(int)RUN>(y + row.column_of(i), results);
    }
    row.each_beyond(out);
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
