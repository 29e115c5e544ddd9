// map: out[n] = CANDLE_OP(x[n]), in the order of x's extents.
//
// Shapes : x of any strides; out dense
// Grid   : (ceil(count / (256 · CANDLE_V)), 1, 1)     Block : (256, 1, 1)
// Numeric: 16-bit floats in f32, one rounding at the store; casts as Rust's `as`
//
// Macros : CANDLE_NAME; types CANDLE_FROM and CANDLE_TO; CANDLE_V elements per lane; CANDLE_OP, a functor of operators.h; CANDLE_PARAMETERS 0, 1 (of type CANDLE_FROM,
//          before the pointers) or 2 (of type CANDLE_FROM, after them)
#ifndef CANDLE_MAP_H
#define CANDLE_MAP_H
template <class From, class To, int V, class F> struct Map {
    const Info& info;
    u32 axes;
    const From* x;
    To* out;
    F f;
    RF_FN To of(From value) const { return cast<To>(f.of(Wide<From>::of(value))); }
    RF_FN void run(u32 n) const {
        From a[V];
        To y[V];
        load_run<V>(x + n, a);
        for (int j = 0; j < V; ++j) y[j] = of(a[j]);
        store_run<V>(out + n, y);
    }
    RF_FN void strided_run(u32 n) const {
        From a[V];
        To y[V];
        load_strided<V>(info, axes, 1, x, n, a);
        for (int j = 0; j < V; ++j) y[j] = of(a[j]);
        store_run<V>(out + n, y);
    }
    RF_FN void dense(u32 n) const { out[n] = of(x[n]); }
    RF_FN void strided(u32 n) const { out[n] = of(x[offset_of(info, axes, 1, n)]); }
};
template <class From, class To, int V, class F>
RF_FN void map_elements(u64 count, u64 axes, const Info& info, const From* x, To* out, F f) {
    Map<From, To, V, F> m = {info, (u32)axes, x, out, f};
    u32 walk = is_dense(info, (u32)axes, 1) ? CANDLE_DENSE : has_runs<V>(info, (u32)axes, 1) ? CANDLE_RUNS : CANDLE_STRIDED;
    each<V>(count, walk, is_aligned<From, V>(x) && is_aligned<To, V>(out), m);
}
#endif

#if CANDLE_PARAMETERS == 0
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 count, u64 axes, CANDLE_ARGUMENT Info info, const CANDLE_FROM* x, CANDLE_TO* out) {
    CANDLE_OP f;
    map_elements<CANDLE_FROM, CANDLE_TO, CANDLE_V>(count, axes, info, x, out, f);
}
#elif CANDLE_PARAMETERS == 1
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    u64 count, u64 axes, CANDLE_ARGUMENT Info info, CANDLE_FROM parameter, const CANDLE_FROM* x, CANDLE_TO* out) {
    CANDLE_OP<Wide<CANDLE_FROM>::type> f = {Wide<CANDLE_FROM>::of(parameter)};
    map_elements<CANDLE_FROM, CANDLE_TO, CANDLE_V>(count, axes, info, x, out, f);
}
#else
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    u64 count, u64 axes, CANDLE_ARGUMENT Info info, const CANDLE_FROM* x, CANDLE_TO* out, CANDLE_FROM factor, CANDLE_FROM summand) {
    CANDLE_OP<Wide<CANDLE_FROM>::type> f = {Wide<CANDLE_FROM>::of(factor), Wide<CANDLE_FROM>::of(summand)};
    map_elements<CANDLE_FROM, CANDLE_TO, CANDLE_V>(count, axes, info, x, out, f);
}
#endif
