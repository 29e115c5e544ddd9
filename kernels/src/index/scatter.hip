// scatter: out[o, indices[o, j, i], i] = update(out[..], value[o, j, i]) for j = 0, 1, …, n - 1 in turn
//
// Shapes : out [outer, extent, inner]; indices, value [outer, n, inner]; any strides, in elements
// Grid   : (ceil(lines / 256), 1, 1)            one lane per line (o, i): no two lanes touch one element
// Block  : (256, 1, 1)
// Needs  : lines < 2^31; out overlaps neither input                        checked by the launcher
// Numeric: updates of one element happen in ascending j, each rounded to the element type; an index outside 0..extent is
//          passed over and told of, by SCATTER_NAME; with SCATTER_NONE the greatest of its type is passed over and not told of
//
// Macros : SCATTER_TYPE, SCATTER_INDEX; SCATTER_UPDATE: 0 assign, 1 add, 2 multiply, 3 minimum, 4 maximum; SCATTER_NONE: 1 if the
//          greatest of SCATTER_INDEX is no index; SCATTER_NAME: the operator's in reports
using namespace rf;

RF_CHECKS_INDICES

#define LITERAL_OF(name) #name
#define LITERAL(name) LITERAL_OF(name)

struct ScatterArgs {
    SCATTER_TYPE* out;
    const SCATTER_INDEX* indices;
    const SCATTER_TYPE* value;
    Strides3 out_strides, index_strides, value_strides;
    i64 extent, n;
    FastDiv inner;
    u32 lines;
};
static_assert(sizeof(ScatterArgs) == 128, "as in scatter.rs");

extern "C" __global__ __launch_bounds__(256) void scatter(ScatterArgs g) {
    u32 line = group_x() * 256 + thread_x();
    if (line >= g.lines) return;
    u32 o = g.inner.divide(line), i = line - o * g.inner.divisor;
    SCATTER_TYPE* out = g.out + g.out_strides.at(o, 0, i);
    const SCATTER_INDEX* index = g.indices + g.index_strides.at(o, 0, i);
    const SCATTER_TYPE* value = g.value + g.value_strides.at(o, 0, i);
    i64 outside = 0;  // told of behind the loop, whose reads need not come after it
    for (i64 j = 0; j < g.n; ++j) {
        i64 at = (i64)*index;
        if (SCATTER_NONE && *index == (SCATTER_INDEX)Limits<SCATTER_INDEX>::high) {
            // there is none
        } else if ((u64)at < (u64)g.extent) {
            SCATTER_TYPE* to = out + at * g.out_strides.middle;
            *to = Update<SCATTER_UPDATE>::of(*to, *value);
        } else if ((u64)outside < (u64)g.extent) {
            outside = at;
        }
        index += g.index_strides.middle;
        value += g.value_strides.middle;
    }
    if ((u64)outside >= (u64)g.extent) RF_TELL_INDEX(LITERAL(SCATTER_NAME), outside, g.extent);
}
