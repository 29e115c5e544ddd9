// binary: out[n] = CANDLE_OP(a[n], b[n]).
//
// Shapes : a, b of one shape and any strides, 0 where they are broadcast; out dense
// Grid   : (ceil(count / (256 · CANDLE_V)), 1, 1)     Block : (256, 1, 1)
// Numeric: 16-bit floats in f32, one rounding at the store; integers wrap
//
// Macros : CANDLE_NAME; types CANDLE_T and CANDLE_OUT; CANDLE_V elements per lane; CANDLE_OP, a functor of operators.h
#ifndef CANDLE_BINARY_H
#define CANDLE_BINARY_H
template <class From, class Out, int V, class Op> struct Binary {
    const Info& info;
    u32 axes;
    const From *a, *b;
    Out* out;
    RF_FN Out of(From x, From y) const { return cast<Out>(Op::of(Wide<From>::of(x), Wide<From>::of(y))); }
    RF_FN void run(u32 n) const {
        From x[V], y[V];
        Out z[V];
        load_run<V>(a + n, x);
        load_run<V>(b + n, y);
        for (int j = 0; j < V; ++j) z[j] = of(x[j], y[j]);
        store_run<V>(out + n, z);
    }
    RF_FN void strided_run(u32 n) const {
        From x[V], y[V];
        Out z[V];
        load_strided<V>(info, axes, 1, a, n, x);
        load_strided<V>(info, axes, 2, b, n, y);
        for (int j = 0; j < V; ++j) z[j] = of(x[j], y[j]);
        store_run<V>(out + n, z);
    }
    RF_FN void dense(u32 n) const { out[n] = of(a[n], b[n]); }
    RF_FN void strided(u32 n) const { out[n] = of(a[offset_of(info, axes, 1, n)], b[offset_of(info, axes, 2, n)]); }
};
#endif

extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    u64 count, u64 axes, CANDLE_ARGUMENT Info info, const CANDLE_T* a, const CANDLE_T* b, CANDLE_OUT* out) {
    Binary<CANDLE_T, CANDLE_OUT, CANDLE_V, CANDLE_OP> f = {info, (u32)axes, a, b, out};
    bool dense = is_dense(info, (u32)axes, 1) && is_dense(info, (u32)axes, 2);
    bool runs = has_runs<CANDLE_V>(info, (u32)axes, 1) && has_runs<CANDLE_V>(info, (u32)axes, 2);
    each<CANDLE_V>(count, dense ? CANDLE_DENSE : runs ? CANDLE_RUNS : CANDLE_STRIDED, is_aligned<CANDLE_T, CANDLE_V>(a) && is_aligned<CANDLE_T, CANDLE_V>(b) && is_aligned<CANDLE_OUT, CANDLE_V>(out), f);
}
