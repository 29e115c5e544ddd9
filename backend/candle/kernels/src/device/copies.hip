// copies: several copies of copy2d.hip in one launch, some of which change the element type.
//
//   out[row, column] = x[row, column]                         as it is, or rounded to the other type
//
// Shapes : each x, out [rows, columns], with a stride between the rows of each; columns adjacent
// Grid   : (the sum of ceil(rows * columns / (256 * CANDLE_V)), 1, 1)     Block : (256, 1, 1)
// Needs  : no member writes what another reads or writes                  checked by whoever merges them
//
// Macros : CANDLE_NAME; types CANDLE_FROM and CANDLE_TO; CANDLE_V elements per lane; CANDLE_SEVERAL members at most
#ifndef CANDLE_COPIES_H
#define CANDLE_COPIES_H
template <class From, class To, int V> struct CopyRows {
    const From* x;
    To* out;
    u32 columns, x_stride, out_stride;
    RF_FN void run(u32 n) const {
        u32 row = n / columns, column = n - row * columns;
        From a[V];
        To y[V];
        load_run<V>(x + (u64)row * x_stride + column, a);
        for (int j = 0; j < V; ++j) y[j] = Moved<From, To>::of(a[j]);
        store_run<V>(out + (u64)row * out_stride + column, y);
    }
    RF_FN void strided_run(u32) const {}
    RF_FN void dense(u32 n) const { strided(n); }
    RF_FN void strided(u32 n) const {
        u32 row = n / columns, column = n - row * columns;
        out[(u64)row * out_stride + column] = Moved<From, To>::of(x[(u64)row * x_stride + column]);
    }
};

// `first` is the member's first workgroup; `converts` 0 leaves the type as it is.
struct CopyMember { u64 x, out; u32 rows, columns, x_stride, out_stride, first, converts; };

template <class From, class To, int V> RF_FN void copy_member(const CopyMember& m) {
    CopyRows<From, To, V> f = {(const From*)m.x, (To*)m.out, m.columns, m.x_stride, m.out_stride};
    bool whole = m.columns % V == 0 && (m.rows == 1 || (m.x_stride % V == 0 && m.out_stride % V == 0));
    bool aligned = is_aligned<From, V>(f.x) && is_aligned<To, V>(f.out);
    each_of_group<V>(group_x() - m.first, (u64)m.rows * m.columns, whole ? CANDLE_DENSE : CANDLE_STRIDED, aligned, f);
}
#endif

struct Copies { u32 count, unused; CopyMember member[CANDLE_SEVERAL]; };
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(CANDLE_ARGUMENT Copies a) {
    u32 at = 0;
    while (at + 1 < a.count && a.member[at + 1].first <= group_x()) ++at;
    const CopyMember& m = a.member[at];
    if (m.converts) {
        copy_member<CANDLE_FROM, CANDLE_TO, CANDLE_V>(m);
    } else {
        copy_member<CANDLE_FROM, CANDLE_FROM, CANDLE_V>(m);
    }
}
