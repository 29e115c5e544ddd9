// each: what a graph computes of each element, in one walk over memory: an elementwise kernel, or several as one.
//
// Shapes : operands of as many elements, dense or as extents and strides say; results dense
// Grid   : (ceil(count / (256 · CANDLE_V)), 1, 1)     Block : (256, 1, 1)
// Numeric: what a kernel of Candle's gives is rounded to its type once, also where the next one reads it from registers
//
// Macros : CANDLE_NAME; CANDLE_V elements per lane. `Functor`, `Args` and `Elements` stand in front, the kernel behind: src/each.rs
struct Each {
    Elements elements;
    template <int W, bool DENSE> RF_FN void some(u32 n) const {
        Elements::Last last[W];
        elements.template go<W, DENSE>(n, last);
    }
    RF_FN void run(u32 n) const { some<CANDLE_V, true>(n); }
    RF_FN void strided_run(u32 n) const { some<CANDLE_V, false>(n); }
    RF_FN void dense(u32 n) const { some<1, true>(n); }
    RF_FN void strided(u32 n) const { some<1, false>(n); }
};
RF_FN void each_element(const Args& a) {
    Each f = {{a}};
    const Elements& of = f.elements;
    u32 walk = of.is_all_dense() ? CANDLE_DENSE : of.has_all_runs<CANDLE_V>() ? CANDLE_RUNS : CANDLE_STRIDED;
    each<CANDLE_V>(a.count, walk, of.is_all_aligned<CANDLE_V>(), f);
}
