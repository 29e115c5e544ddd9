// chain: elementwise kernels of as many elements, the ones after the others, in one walk over memory.
//
// Shapes : what comes from outside dense or strided, each as its own kernel says; results dense
// Grid   : (ceil(count / (256 * CANDLE_V)), 1, 1)     Block : (256, 1, 1)
// Numeric: the bits of the kernels one by one: each result is rounded to its type
//
// Macros : CANDLE_V elements per lane; CANDLE_STRIDES, whether anything is strided; CANDLE_LAST, the last result's type. `CandleChain` and `CandleChainArgs` stand in front.
struct ChainEach {
    CandleChain chain;
    template <int W> RF_FN void some(u32 n) const {
        CANDLE_LAST last[W];
        chain.go<W>(n, last);
    }
    RF_FN void run(u32 n) const { some<CANDLE_V>(n); }
    RF_FN void strided_run(u32 n) const { some<CANDLE_V>(n); }
    RF_FN void dense(u32 n) const { some<1>(n); }
    RF_FN void strided(u32 n) const { some<1>(n); }
};
extern "C" __global__ __launch_bounds__(CANDLE_BLOCK) void candle_chain(CANDLE_ARGUMENT CandleChainArgs a) {
    ChainEach f = {{a}};
    u32 walk = !CANDLE_STRIDES ? CANDLE_DENSE : f.chain.has_all_runs<CANDLE_V>() ? CANDLE_RUNS : CANDLE_STRIDED;
    each<CANDLE_V>(a.count, walk, f.chain.is_all_aligned<CANDLE_V>(), f);
}
