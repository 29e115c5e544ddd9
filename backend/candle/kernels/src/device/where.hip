// where: out[n] = condition[n] != 0 ? yes[n] : no[n].
//
// Shapes : condition, yes, no of one shape and any strides; out dense
// Grid   : (ceil(count / (256 · CANDLE_V)), 1, 1)     Block : (256, 1, 1)
//
// Macros : CANDLE_NAME; types CANDLE_ID (the condition's) and CANDLE_T; CANDLE_V elements per lane
#ifndef CANDLE_WHERE_H
#define CANDLE_WHERE_H
template <class Id, class T, int V> struct Where {
    const Info& info;
    u32 axes;
    const Id* condition;
    const T *yes, *no;
    T* out;
    RF_FN void run(u32 n) const {
        Id c[V];
        T x[V], y[V], z[V];
        load_run<V>(condition + n, c);
        load_run<V>(yes + n, x);
        load_run<V>(no + n, y);
        for (int j = 0; j < V; ++j) z[j] = c[j] != 0 ? x[j] : y[j];
        store_run<V>(out + n, z);
    }
    RF_FN void strided_run(u32 n) const {
        Id c[V];
        T x[V], y[V], z[V];
        load_strided<V>(info, axes, 1, condition, n, c);
        load_strided<V>(info, axes, 2, yes, n, x);
        load_strided<V>(info, axes, 3, no, n, y);
        for (int j = 0; j < V; ++j) z[j] = c[j] != 0 ? x[j] : y[j];
        store_run<V>(out + n, z);
    }
    RF_FN void dense(u32 n) const { out[n] = condition[n] != 0 ? yes[n] : no[n]; }
    RF_FN void strided(u32 n) const {
        bool chosen = condition[offset_of(info, axes, 1, n)] != 0;
        out[n] = chosen ? yes[offset_of(info, axes, 2, n)] : no[offset_of(info, axes, 3, n)];
    }
};
#endif

extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(
    u64 count, u64 axes, CANDLE_ARGUMENT Info info, const CANDLE_ID* condition, const CANDLE_T* yes, const CANDLE_T* no, CANDLE_T* out) {
    Where<CANDLE_ID, CANDLE_T, CANDLE_V> f = {info, (u32)axes, condition, yes, no, out};
    bool dense = is_dense(info, (u32)axes, 1) && is_dense(info, (u32)axes, 2) && is_dense(info, (u32)axes, 3);
    bool aligned = is_aligned<CANDLE_ID, CANDLE_V>(condition) && is_aligned<CANDLE_T, CANDLE_V>(yes) && is_aligned<CANDLE_T, CANDLE_V>(no) && is_aligned<CANDLE_T, CANDLE_V>(out);
    bool runs = has_runs<CANDLE_V>(info, (u32)axes, 1) && has_runs<CANDLE_V>(info, (u32)axes, 2) &&
                has_runs<CANDLE_V>(info, (u32)axes, 3);
    each<CANDLE_V>(count, dense ? CANDLE_DENSE : runs ? CANDLE_RUNS : CANDLE_STRIDED, aligned, f);
}
