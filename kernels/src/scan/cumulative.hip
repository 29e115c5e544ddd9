// cumulative: out[o, m, i] = x[o, 0, i] op … op x[o, m, i]
//
// Shapes : x, out [outer, extent, inner]; any strides, in elements; totals, carries [lines, chunks]
// Grid   : cumulative_lines (ceil(lines / 256), 1, 1)                     one lane per line (o, i)
//          cumulative_groups, cumulative_totals (groups, 1, 1)            one workgroup per chunk, or per several lines
// Block  : (256, 1, 1)
// LDS    : CHUNK + CHUNK / FAN running values and 2 * 256 more
// Needs  : lines < 2^31, groups < 2^31; out is x or apart from it         checked by the launcher
// Numeric: f32 for 16-bit floats, each output rounded once; integers wrap around; NaN stays from where it comes in. The
//          order is a tree that only the place in the line decides: the line is cut into runs of FAN, those into runs of
//          FAN, and so on; each run is gone through in ascending order from the neutral element, and before it comes what
//          the runs before it in the same run of the next level made, and before that what comes before that one. All
//          kernels keep to it, so they give the same bits.
//
// A workgroup holds FAN^3 = CHUNK elements in LDS: a whole line, several short ones, or a chunk of a long one. For long
// ones cumulative_totals comes first, then this operator over the totals, which gives what comes before each chunk.
//
// Macros : CUMULATIVE_TYPE; CUMULATIVE_OP: 0 sum, 1 product, 2 minimum, 3 maximum; CUMULATIVE_FAN = 16
using namespace rf;

#define FAN CUMULATIVE_FAN
#define FAN_LOG2 4
#define CHUNK (FAN * FAN * FAN)
static_assert(FAN == 1 << FAN_LOG2 && FAN * FAN == 256, "a lane per run of the first level");
// FAN^LEVELS is beyond any extent.
#define LEVELS 8

#if CUMULATIVE_OP < 2
typedef Ring<CUMULATIVE_TYPE>::type Running;
#else
typedef Wide<CUMULATIVE_TYPE>::type Running;
#endif

struct CumulativeArgs {
    const CUMULATIVE_TYPE* x;
    CUMULATIVE_TYPE* out;
    const Running* carries;     // null for lines of one chunk
    Running* totals;
    Strides3 x_strides, out_strides;
    i64 extent;
    FastDiv chunks, inner;
    u32 lines;
    u32 segment_log2;           // places for one line in a workgroup: FAN, FAN^2 or FAN^3
    u32 exclusive;              // 1: each output is what comes before its element
    u32 padding;
};
static_assert(sizeof(CumulativeArgs) == 128, "as in cumulative.rs");

template <class T> struct Ends {
    RF_FN static T high() { return (T)Limits<T>::high; }
    RF_FN static T low() { return (T)Limits<T>::low; }
};
template <> struct Ends<float> {
    RF_FN static float high() { return infinity(); }
    RF_FN static float low() { return -infinity(); }
};
template <> struct Ends<double> {
    RF_FN static double high() { return __builtin_inf(); }
    RF_FN static double low() { return -__builtin_inf(); }
};
RF_FN Running neutral() {
#if CUMULATIVE_OP == 0
    return (Running)0;
#elif CUMULATIVE_OP == 1
    return (Running)1;
#elif CUMULATIVE_OP == 2
    return Ends<Running>::high();
#else
    return Ends<Running>::low();
#endif
}
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

extern "C" __global__ __launch_bounds__(256) void cumulative_lines(CumulativeArgs g) {
    u32 line = group_x() * 256 + thread_x();
    if (line >= g.lines) return;
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    const CUMULATIVE_TYPE* x = g.x + g.x_strides.at(o, 0, i);
    CUMULATIVE_TYPE* out = g.out + g.out_strides.at(o, 0, i);
    // By level: what the runs of the run at hand have made, and what comes before it.
    Running made[LEVELS], before[LEVELS + 1];
#pragma unroll
    for (int level = 0; level <= LEVELS; ++level) {
        if (level < LEVELS) made[level] = neutral();
        before[level] = neutral();
    }
    for (i64 m = 0; m < g.extent; ++m) {
        made[0] = next(made[0], cast<Running>(*x));
        *out = cast<CUMULATIVE_TYPE>(next(before[0], made[0]));
        x += g.x_strides.middle;
        out += g.out_strides.middle;
        if ((m & (FAN - 1)) != FAN - 1) continue;
        // A run has ended, and perhaps the one that it is the last of.
        u32 run = (u32)(m >> FAN_LOG2);
        bool ended = true;
#pragma unroll
        for (int level = 1; level < LEVELS; ++level) {
            if (!ended) continue;
            made[level] = next(made[level], made[level - 1]);
            made[level - 1] = neutral();
            ended = (run & (FAN - 1)) == FAN - 1;
            run >>= FAN_LOG2;
            Running here = next(before[level], made[level]);
#pragma unroll
            for (int below = 0; below < level; ++below) before[below] = here;
        }
    }
}

// The elements of a workgroup's chunk or lines, made into sums within each run of the first level; how to find more of it.
struct Tile {
    u32 line, chunk;
    RF_FN Tile(const CumulativeArgs& g) {
        line = g.chunks.divide(group_x());
        chunk = group_x() - line * g.chunks.divisor;
        line *= CHUNK >> g.segment_log2;
    }
    RF_FN u32 line_of(const CumulativeArgs& g, u32 slot) const { return line + (slot >> g.segment_log2); }
    RF_FN i64 place_of(const CumulativeArgs& g, u32 slot) const {
        return (i64)chunk * CHUNK + (slot & ((1u << g.segment_log2) - 1));
    }
    RF_FN bool inside(const CumulativeArgs& g, u32 slot) const {
        return line_of(g, slot) < g.lines && place_of(g, slot) < g.extent;
    }
};
// Runs lie one apart from a multiple of the banks.
RF_FN u32 padded(u32 slot) { return slot + slot / FAN; }

// Loads the tile and goes through its runs: `values` holds what each run has made up to each element, `made` what each
// lane's run has made in all, `parts` the same for runs of the second level; before[lane] is what the runs before the
// lane's have made in their run of the second level, and before_parts[j] the same one level up.
RF_FN void go_through(
    const CumulativeArgs& g, const Tile& tile, Running* values, Running* before, Running* before_parts
) {
    u32 thread = thread_x();
    for (u32 slot = thread; slot < CHUNK; slot += 256) {
        Running value = neutral();
        if (tile.inside(g, slot)) {
            u32 line = tile.line_of(g, slot), o = g.inner.divide(line), i = line - o * g.inner.divisor;
            value = cast<Running>(g.x[g.x_strides.at(o, tile.place_of(g, slot), i)]);
        }
        values[padded(slot)] = value;
    }
    barrier();
    Running made = neutral();
    for (u32 step = 0; step < FAN; ++step) {
        u32 at = padded(thread * FAN + step);
        made = next(made, values[at]);
        values[at] = made;
    }
    before[thread] = made;
    barrier();
    if (thread < FAN) {
        Running part = neutral();
        for (u32 step = 0; step < FAN; ++step) {
            Running run = before[thread * FAN + step];
            before[thread * FAN + step] = part;
            part = next(part, run);
        }
        before_parts[thread] = part;
    }
    barrier();
    if (thread == 0) {
        Running whole = neutral();
        for (u32 step = 0; step < FAN; ++step) {
            Running part = before_parts[step];
            before_parts[step] = whole;
            whole = next(whole, part);
        }
        before_parts[FAN] = whole;
    }
    barrier();
}

extern "C" __global__ __launch_bounds__(256) void cumulative_groups(CumulativeArgs g) {
    __shared__ Running values[CHUNK + CHUNK / FAN];
    __shared__ Running before[256];
    __shared__ Running before_parts[FAN + 1];
    Tile tile(g);
    go_through(g, tile, values, before, before_parts);
    u32 thread = thread_x();
    // A line that ends with a level has nothing before it on the next.
    Running carry = neutral();
    if (g.carries) carry = g.carries[(i64)tile.line * g.chunks.divisor + tile.chunk];
    if (g.segment_log2 > 2 * FAN_LOG2) carry = next(carry, before_parts[thread / FAN]);
    if (g.segment_log2 > FAN_LOG2) carry = next(carry, before[thread]);
    Running last = neutral();
    for (u32 step = 0; step < FAN; ++step) {
        u32 at = padded(thread * FAN + step);
        Running made = values[at];
        values[at] = next(carry, g.exclusive ? last : made);
        last = made;
    }
    barrier();
    for (u32 slot = thread; slot < CHUNK; slot += 256) {
        if (!tile.inside(g, slot)) continue;
        u32 line = tile.line_of(g, slot), o = g.inner.divide(line), i = line - o * g.inner.divisor;
        g.out[g.out_strides.at(o, tile.place_of(g, slot), i)] = cast<CUMULATIVE_TYPE>(values[padded(slot)]);
    }
}

extern "C" __global__ __launch_bounds__(256) void cumulative_totals(CumulativeArgs g) {
    __shared__ Running values[CHUNK + CHUNK / FAN];
    __shared__ Running before[256];
    __shared__ Running before_parts[FAN + 1];
    Tile tile(g);
    go_through(g, tile, values, before, before_parts);
    if (thread_x() == 0) g.totals[(i64)tile.line * g.chunks.divisor + tile.chunk] = before_parts[FAN];
}
