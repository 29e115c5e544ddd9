// cumulative: out[o, m, i] = x[o, 0, i] op … op x[o, m, i]
//
// Shapes : x, out [outer, extent, inner]; any strides, in elements
// Grid   : (ceil(lines / 256), 1, 1)            one lane per line (o, i)
// Block  : (256, 1, 1)
// Needs  : lines < 2^31; out is x or apart from it                         checked by the launcher
// Numeric: in ascending order from the neutral element; f32 for 16-bit floats, each output rounded once; integers wrap
//          around; NaN stays from where it comes in
//
// Macros : CUMULATIVE_TYPE; CUMULATIVE_OP: 0 sum, 1 product, 2 minimum, 3 maximum
using namespace rf;

#if CUMULATIVE_OP < 2
typedef Ring<CUMULATIVE_TYPE>::type Running;
#else
typedef Wide<CUMULATIVE_TYPE>::type Running;
#endif

struct CumulativeArgs {
    const CUMULATIVE_TYPE* x;
    CUMULATIVE_TYPE* out;
    Strides3 x_strides, out_strides;
    i64 extent;
    FastDiv inner;
    u32 lines;
};
static_assert(sizeof(CumulativeArgs) == 88, "as in cumulative.rs");

RF_FN Running next(Running running, Running x) {
#if CUMULATIVE_OP == 0
    return running + x;
#elif CUMULATIVE_OP == 1
    return running * x;
#elif CUMULATIVE_OP == 2
    return is_nan(x) || x < running ? x : running;
#else
    return is_nan(x) || x > running ? x : running;
#endif
}

extern "C" __global__ __launch_bounds__(256) void cumulative(CumulativeArgs g) {
    u32 line = group_x() * 256 + thread_x();
    if (line >= g.lines) return;
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    const CUMULATIVE_TYPE* x = g.x + g.x_strides.at(o, 0, i);
    CUMULATIVE_TYPE* out = g.out + g.out_strides.at(o, 0, i);
    // The first element stands for the neutral one of minimum and maximum.
    Running running = CUMULATIVE_OP == 0 ? (Running)0 : CUMULATIVE_OP == 1 ? (Running)1 : cast<Running>(*x);
    for (i64 m = 0; m < g.extent; ++m) {
        running = next(running, cast<Running>(*x));
        *out = cast<CUMULATIVE_TYPE>(running);
        x += g.x_strides.middle;
        out += g.out_strides.middle;
    }
}
