// arg_reduce: indices[o, 0, i] = the first m with the largest (smallest) x[o, m, i]; values[o, 0, i] = that x
//
// Shapes : x [outer, extent, inner]; indices, values [outer, 1, inner]; any strides, in elements
// Grid   : lines (ceil(lines / 256), 1, 1)      one lane per line (o, i)
//          waves (ceil(lines / ROWS), 1, 1)     one wave per line
//          chunks (ceil(lines * chunks / ROWS), 1, 1), then partials (ceil(lines / ROWS), 1, 1)
//                                               for few long lines: one wave per chunk, then one per line over its chunks
// Block  : lines (256, 1, 1), others (ROWS * wave, 1, 1)
// Needs  : lines, lines * chunks < 2^31, 1 <= extent < 2^31; values may be null               checked by the launcher
// Numeric: a NaN is taken before any number, the first of several (Burn's Flex); a value of -0 is
//          written as +0, as max and min alone write it; all kernels give the same
//
// Macros : ARG_TYPE; ARG_INDEX, the type of the indices; ARG_MAX: 1 largest, 0 smallest; ARG_ROWS; ARG_CHUNK
using namespace rf;

typedef Wide<ARG_TYPE>::type Value;

struct ArgReduceArgs {
    const ARG_TYPE* x;
    ARG_INDEX* indices;
    ARG_TYPE* values;
    Strides3 x_strides, index_strides, value_strides;
    u32 extent;
    FastDiv inner;
    u32 lines;
    FastDiv chunks;
    Value* partial_values;    // [lines, chunks]
    u32* partial_indices;
};
static_assert(sizeof(ArgReduceArgs) == 144, "as in arg_reduce.rs");

struct Candidate {
    Value value;
    u32 index;
};

// Whether a takes the place of b.
RF_FN bool better(Value a, Value b) {
#if ARG_MAX
    return !is_nan(b) && (is_nan(a) || a > b);
#else
    return !is_nan(b) && (is_nan(a) || a < b);
#endif
}
// Neither is better where they are equal or both NaN: then the first counts.
struct Best {
    RF_FN Candidate operator()(Candidate a, Candidate b) const {
        bool first = better(a.value, b.value) || (!better(b.value, a.value) && a.index <= b.index);
        Candidate c;
        c.value = first ? a.value : b.value;
        c.index = first ? a.index : b.index;
        return c;
    }
};

// Over elements first + lane, first + lane + step, … below end.
RF_FN Candidate scan(const ARG_TYPE* x, i64 stride, u32 first, u32 lane, u32 step, u32 end) {
    // A lane past the end repeats the first element, which changes nothing.
    Candidate best;
    best.index = first + lane < end ? first + lane : first;
    best.value = Wide<ARG_TYPE>::of(x[(i64)best.index * stride]);
    for (u64 m = (u64)first + lane + step; m < end; m += step) {
        Value value = Wide<ARG_TYPE>::of(x[(i64)m * stride]);
        bool take = better(value, best.value);
        best.value = take ? value : best.value;
        best.index = take ? (u32)m : best.index;
    }
    return best;
}
RF_FN void write(const ArgReduceArgs& g, u32 o, u32 i, Candidate best) {
    g.indices[g.index_strides.at(o, 0, i)] = (ARG_INDEX)best.index;
    if (g.values) g.values[g.value_strides.at(o, 0, i)] = cast<ARG_TYPE>(best.value + (Value)0);
}

extern "C" __global__ __launch_bounds__(256) void arg_reduce_lines(ArgReduceArgs g) {
    u32 line = group_x() * 256 + thread_x();
    if (line >= g.lines) return;
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    write(g, o, i, scan(g.x + g.x_strides.at(o, 0, i), g.x_strides.middle, 0, 0, 1, g.extent));
}

extern "C" __global__ __launch_bounds__(ARG_ROWS * ARCH_WAVE_SIZE) void arg_reduce_waves(ArgReduceArgs g) {
    u32 line = group_x() * ARG_ROWS + uniform(thread_x() / ARCH_WAVE_SIZE);
    if (line >= g.lines) return;
    u32 lane_id = thread_x() % ARCH_WAVE_SIZE;
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    Candidate best = scan(g.x + g.x_strides.at(o, 0, i), g.x_strides.middle, 0, lane_id, ARCH_WAVE_SIZE, g.extent);
    best = wave_reduce(best, Best());
    if (lane_id == 0) write(g, o, i, best);
}

extern "C" __global__ __launch_bounds__(ARG_ROWS * ARCH_WAVE_SIZE) void arg_reduce_chunks(ArgReduceArgs g) {
    u32 at = group_x() * ARG_ROWS + uniform(thread_x() / ARCH_WAVE_SIZE);
    u32 line = g.chunks.divide(at), first = (at - line * g.chunks.divisor) * ARG_CHUNK;
    if (line >= g.lines) return;
    u32 lane_id = thread_x() % ARCH_WAVE_SIZE, end = g.extent - first < ARG_CHUNK ? g.extent : first + ARG_CHUNK;
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    const ARG_TYPE* x = g.x + g.x_strides.at(o, 0, i);
    Candidate best = wave_reduce(scan(x, g.x_strides.middle, first, lane_id, ARCH_WAVE_SIZE, end), Best());
    if (lane_id != 0) return;
    g.partial_values[at] = best.value;
    g.partial_indices[at] = best.index;
}

extern "C" __global__ __launch_bounds__(ARG_ROWS * ARCH_WAVE_SIZE) void arg_reduce_partials(ArgReduceArgs g) {
    u32 line = group_x() * ARG_ROWS + uniform(thread_x() / ARCH_WAVE_SIZE);
    if (line >= g.lines) return;
    u32 lane_id = thread_x() % ARCH_WAVE_SIZE, chunks = g.chunks.divisor;
    const Value* values = g.partial_values + (i64)line * chunks;
    const u32* indices = g.partial_indices + (i64)line * chunks;
    Candidate best = {values[lane_id < chunks ? lane_id : 0], indices[lane_id < chunks ? lane_id : 0]};
    for (u32 chunk = lane_id + ARCH_WAVE_SIZE; chunk < chunks; chunk += ARCH_WAVE_SIZE) {
        Candidate other = {values[chunk], indices[chunk]};
        best = Best()(best, other);
    }
    best = wave_reduce(best, Best());
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    if (lane_id == 0) write(g, o, i, best);
}
