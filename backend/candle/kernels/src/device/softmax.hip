// softmax: y[row, c] = exp(x[row, c] - max of the row) / the sum of those.
//
// Shapes : x, y [rows, columns], dense
// Grid   : (rows, 1, 1)     Block : (64 or 256, 1, 1)             by `columns`, as rows.h says
// Numeric: in f32, f64 for f64; one rounding at the store. A row with NaN, or of -inf alone, is NaN
//
// Macros : CANDLE_NAME, without which there is no kernel, for rows_of.hip; type CANDLE_T
#ifndef CANDLE_SOFTMAX_H
#define CANDLE_SOFTMAX_H
template <class W> struct RowMax {
    W value;
    RF_FN void operator()(u32, W x) { value = rf::max(value, x); }
};
template <class W> struct RowExp {
    W max, sum;
    RF_FN void operator()(u32, W x) { sum += rf::exp(x - max); }
};
template <class T, class W> struct RowSoftmax {
    T* to;
    W max, scale;
    RF_FN void operator()(u32 column, W x) { to[column] = cast<T>(rf::exp(x - max) * scale); }
};
template <class T, class From> RF_FN void softmax_row(const From& x, T* y, i32 columns, typename RowSum<T>::type* scratch) {
    typedef typename RowSum<T>::type W;
    Row<T, From> row(x, (u32)columns);
    RowMax<W> greatest = {-(W)__builtin_inf()};
    row.each(greatest);
    W max = group_reduce(greatest.value, Max(), scratch, row.lane, row.lanes);
    RowExp<W> exps = {max, (W)0};
    row.each(exps);
    W sum = group_reduce(exps.sum, Sum(), scratch, row.lane, row.lanes);
    RowSoftmax<T, W> out = {y + (u64)group_x() * (u32)columns, max, (W)1 / sum};
    row.each(out);
}
#endif

#ifdef CANDLE_NAME
extern "C" __global__ __launch_bounds__(CANDLE_ROW_BLOCK) void CANDLE_NAME(const CANDLE_T* x, CANDLE_T* y, i32 columns) {
    __shared__ RowSum<CANDLE_T>::type scratch[CANDLE_ROW_BLOCK / ARCH_WAVE_SIZE];
    InMemory<CANDLE_T> rows = {x};
    softmax_row<CANDLE_T>(rows, y, columns, scratch);
}
#endif
