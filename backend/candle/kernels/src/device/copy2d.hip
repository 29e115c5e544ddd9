// copy2d: out[row, column] = x[row, column] for rows × columns elements, a stride between the rows of each.
//
// Shapes : x [rows, columns], row stride x_stride; out [rows, columns], row stride out_stride; columns adjacent
// Grid   : (ceil(rows · columns / (256 · CANDLE_V)), 1, 1)     Block : (256, 1, 1)
//
// Macros : CANDLE_NAME; type CANDLE_T, which is only moved; CANDLE_V elements per lane
#ifndef CANDLE_COPY2D_H
#define CANDLE_COPY2D_H
// Runs are of V elements of one row.
template <class T, int V> struct Copy2d {
    const T* x;
    T* out;
    u32 columns, x_stride, out_stride;
    RF_FN void run(u32 n) const {
        u32 row = n / columns, column = n - row * columns;
        T a[V];
        load_run<V>(x + (u64)row * x_stride + column, a);
        store_run<V>(out + (u64)row * out_stride + column, a);
    }
    RF_FN void strided_run(u32) const {}
    RF_FN void dense(u32 n) const { strided(n); }
    RF_FN void strided(u32 n) const {
        u32 row = n / columns, column = n - row * columns;
        out[(u64)row * out_stride + column] = x[(u64)row * x_stride + column];
    }
};
#endif

extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    const CANDLE_T* x, CANDLE_T* out, u32 rows, u32 columns, u32 x_stride, u32 out_stride) {
    Copy2d<CANDLE_T, CANDLE_V> f = {x, out, columns, x_stride, out_stride};
    bool whole = columns % CANDLE_V == 0 && (rows == 1 || (x_stride % CANDLE_V == 0 && out_stride % CANDLE_V == 0));
    each<CANDLE_V>((u64)rows * columns, whole ? CANDLE_DENSE : CANDLE_STRIDED, is_aligned<CANDLE_T, CANDLE_V>(x) && is_aligned<CANDLE_T, CANDLE_V>(out), f);
}
