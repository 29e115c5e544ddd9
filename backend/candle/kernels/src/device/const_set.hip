// const_set: out[n] = value, for every element of out's extents.
//
// Shapes : out of any strides
// Grid   : (ceil(count / (256 · CANDLE_V)), 1, 1)     Block : (256, 1, 1)
//
// Macros : CANDLE_NAME; type CANDLE_T, which is only moved; CANDLE_V elements per lane
#ifndef CANDLE_CONST_SET_H
#define CANDLE_CONST_SET_H
template <class T, int V> struct ConstSet {
    const Info& info;
    u32 axes;
    T value;
    T* out;
    RF_FN void run(u32 n) const {
        T y[V];
        for (int j = 0; j < V; ++j) y[j] = value;
        store_run<V>(out + n, y);
    }
    RF_FN void strided_run(u32) const {}
    RF_FN void dense(u32 n) const { out[n] = value; }
    RF_FN void strided(u32 n) const { out[offset_of(info, axes, 1, n)] = value; }
};
#endif

extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void CANDLE_NAME(u64 count, u64 axes, CANDLE_ARGUMENT Info info, CANDLE_T value, CANDLE_T* out) {
    ConstSet<CANDLE_T, CANDLE_V> f = {info, (u32)axes, value, out};
    each<CANDLE_V>(count, is_dense(info, (u32)axes, 1) ? CANDLE_DENSE : CANDLE_STRIDED, is_aligned<CANDLE_T, CANDLE_V>(out), f);
}
